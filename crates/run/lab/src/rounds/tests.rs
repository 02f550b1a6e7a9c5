use iodyno_model::{Bound, EngineKind, Search, SearchAxis, Settling, Stopping};
use iodyno_runner::{StopFlag, Unsettled};

use super::*;
use crate::experiment::carry_out_with;
use crate::testing::{Act, FakeJudge, FakeNode, FakeStore, Locked, lab, messages, plan};

const SECOND: u64 = 1_000_000_000;

/// The result of a run, and its messages.
struct Executed {
    end: RunEnd,
    messages: Vec<String>,
}

fn carry_out(plan: &Plan, store: &FakeStore, node: &FakeNode<'_>, judge: &FakeJudge) -> Executed {
    let stop = node.stop.clone();
    let mut words = Vec::new();
    let end = carry_out_with(
        plan,
        &lab(store, node, &stop),
        &judge.dependencies(node),
        &mut |progress| words.extend(messages(&progress)),
    );
    Executed {
        end: end.unwrap(),
        messages: words,
    }
}

/// As the fake node acts by round and configuration.
fn acting(
    plan: &Plan,
    act: impl Fn(u32, &str) -> Act + Sync,
) -> (Executed, FakeStore, Vec<(u32, u32)>) {
    let store = FakeStore::default();
    let (end, places) = {
        let node = FakeNode::new(|bound| act(bound.key.round, &bound.configuration.name));
        let end = carry_out(plan, &store, &node, &FakeJudge::default());
        let places = node.places().into_iter();
        (end, places.map(|(round, cell, _)| (round, cell)).collect())
    };
    (end, store, places)
}

fn notes(messages: &[String]) -> Vec<&str> {
    messages
        .iter()
        .filter_map(|word| word.strip_prefix("note: "))
        .collect()
}

#[test]
fn trials_run_in_the_order_of_the_seed_and_are_judged_in_that_of_the_plan() {
    let plan = plan(3, 1, 4);
    let store = FakeStore::default();
    let node = FakeNode::acting(&[], &store);
    let judge = FakeJudge::default();
    let carried = carry_out(&plan, &store, &node, &judge);
    let expected: Vec<(u32, u32, u32)> = (0..4)
        .flat_map(|round| {
            order(&plan, round)
                .into_iter()
                .map(move |cell| (round, cell, 0))
        })
        .collect();
    assert_eq!(node.places(), expected);
    assert_eq!(carried.end.stopped, StopReason::AllRounds);
    assert_eq!(
        (carried.end.rounds, carried.end.made, carried.end.completed),
        (4, 12, 12)
    );
    let compared = judge.compared.borrow();
    let expected: Vec<(u32, String, bool)> = (0..4)
        .flat_map(|round| (0..3).map(move |cell| (round, format!("c{cell}"), true)))
        .collect();
    assert_eq!(*compared, expected);
    let rounds: Vec<&String> = carried
        .messages
        .iter()
        .filter(|word| word.starts_with("round"))
        .collect();
    assert_eq!(
        rounds,
        [
            "round 1 of 4, Some(9) s left, judged",
            "round 2 of 4, Some(6) s left, judged",
            "round 3 of 4, Some(3) s left, judged",
            "round 4 of 4, None s left, judged",
        ]
    );
}

#[test]
fn a_single_cell_is_not_judged() {
    let (carried, ..) = acting(&plan(1, 1, 2), |_, _| Act::Complete);
    assert!(
        carried
            .messages
            .contains(&"round 1 of 2, Some(1) s left".to_owned()),
        "{:?}",
        carried.messages
    );
}

#[test]
fn a_plan_without_cells_ends_immediately() {
    let (carried, store, places) = acting(&plan(0, 1, u32::MAX), |_, _| Act::Complete);
    assert!(places.is_empty());
    assert_eq!(carried.end.state, RunState::Completed);
    assert_eq!(store.log(), ["run p", "run is completed"]);
}

#[test]
fn a_failed_trial_does_not_affect_others() {
    let plan = plan(2, 1, 5);
    // A target that vanishes in the middle: its trials fail from then on.
    let (carried, _, places) = acting(&plan, |round, name| match (round, name) {
        (2.., "c1") => Act::Unprepared,
        _ => Act::Complete,
    });
    assert_eq!(places.len(), 10);
    let end = &carried.end;
    assert_eq!(
        (end.state, end.stopped),
        (RunState::Failed, StopReason::AllRounds)
    );
    assert_eq!((end.made, end.completed, end.given_up), (10, 7, 0));
    assert!(notes(&carried.messages).is_empty());
}

#[test]
fn a_trial_that_measured_another_target_has_failed_and_keeps_its_figures() {
    let plan = plan(2, 1, 4);
    let (carried, store, places) = acting(&plan, |round, name| match (round, name) {
        (2.., "c1") => Act::Move,
        _ => Act::Complete,
    });
    assert_eq!((places.len(), carried.end.completed), (8, 6));
    assert!(
        carried
            .messages
            .iter()
            .any(|word| word.contains("Failed 1 faults"))
    );
    let trials = store.trials.borrow();
    let failed = trials.iter().find(|trial| trial.outcome.reason().is_some());
    let failed = failed.unwrap();
    assert!(
        failed
            .outcome
            .reason()
            .unwrap()
            .contains("the target has changed")
    );
    assert_eq!(failed.parts.len(), 1);
}

#[test]
fn an_unmounted_target_is_not_accessed_again_and_its_trials_fail() {
    let plan = plan(2, 1, 5);
    let store = FakeStore::default();
    let mut node = FakeNode::acting(&[], &store);
    node.own_paths = true;
    // After two rounds.
    node.unmounted = |made| match made {
        0..4 => &[],
        _ => &["/c1"],
    };
    let carried = carry_out(&plan, &store, &node, &FakeJudge::default());
    let of = |cell| node.places().iter().filter(|one| one.1 == cell).count();
    assert_eq!(
        (of(0), of(1)),
        (5, 2),
        "the node was messages of no further trial"
    );
    let end = &carried.end;
    assert_eq!((end.made, end.completed), (10, 7));
    assert_eq!(end.state, RunState::Failed);
    let trials = store.trials.borrow();
    let failed: Vec<_> = trials
        .iter()
        .filter(|trial| trial.outcome.reason().is_some())
        .collect();
    assert_eq!(failed.len(), 3);
    for trial in failed {
        let why = trial.outcome.reason().unwrap();
        assert!(
            why.starts_with("the target has changed: /c1 on ext4 at /mnt/e"),
            "{why}"
        );
        assert_eq!((trial.configuration.as_str(), trial.parts.len()), ("c1", 0));
    }
}

#[test]
fn a_cell_that_fails_in_three_consecutive_rounds_and_never_completed_is_given_up() {
    let plan = plan(3, 1, 6);
    let (carried, store, places) = acting(&plan, |_, name| match name {
        "c1" => Act::Die,
        _ => Act::Complete,
    });
    assert_eq!(places.iter().filter(|(_, cell)| *cell == 1).count(), 3);
    assert_eq!(places.iter().filter(|(_, cell)| *cell == 0).count(), 6);
    let end = &carried.end;
    assert_eq!(
        (end.made, end.completed, end.given_up, end.planned),
        (15, 12, 3, 18)
    );
    assert_eq!((end.state, end.rounds), (RunState::Failed, 6));
    let expected = "w0 on c1 is given up: it failed in 3 consecutive rounds and never completed";
    assert_eq!(notes(&carried.messages), [expected]);
    let trials = store.trials.borrow();
    let why: Vec<&str> = trials
        .iter()
        .filter(|trial| trial.configuration == "c1")
        .filter_map(|trial| trial.outcome.reason())
        .collect();
    let not_made = "skipped: it failed in 3 consecutive rounds and never completed";
    assert_eq!(
        why,
        ["SIGBUS", "SIGBUS", "SIGBUS", not_made, not_made, not_made]
    );
    let last = carried
        .messages
        .iter()
        .rev()
        .find(|word| word.starts_with("trial"));
    assert!(!last.unwrap().ends_with("c1"), "{last:?}");
}

#[test]
fn a_comparison_with_one_configuration_left_ends() {
    let (carried, _, places) = acting(&plan(2, 1, 10), |_, name| match name {
        "c1" => Act::Die,
        _ => Act::Complete,
    });
    assert_eq!(places.len(), 6);
    let end = &carried.end;
    assert_eq!(
        (end.stopped, end.state, end.rounds, end.given_up),
        (StopReason::NothingToCompare, RunState::Failed, 3, 0)
    );
}

#[test]
fn a_run_without_remaining_cells_ends() {
    let (carried, store, places) = acting(&plan(2, 1, 100), |_, _| Act::Die);
    assert_eq!(places.len(), 6);
    assert_eq!(carried.end.stopped, StopReason::NothingLeft);
    assert_eq!(
        (carried.end.state, carried.end.rounds),
        (RunState::Failed, 3)
    );
    assert!(!store.log().iter().any(|word| word.starts_with("rounds")));
}

#[test]
fn refusal_ends_a_run_only_in_its_first_round_and_if_nothing_could_be_compared() {
    // Which configurations are refused, from which round on; then the result.
    for (configurations, refused, from, stopped, state, made) in [
        (1, &["c0"][..], 0, StopReason::Refused, RunState::Refused, 1),
        (
            2,
            &["c0", "c1"],
            0,
            StopReason::Refused,
            RunState::Refused,
            1,
        ),
        // The seed has c0 first: it completes, and c1 leaves it alone.
        (2, &["c1"], 0, StopReason::Refused, RunState::Failed, 2),
        (2, &["c0"], 1, StopReason::AllRounds, RunState::Failed, 8),
        (
            2,
            &["c0", "c1"],
            1,
            StopReason::AllRounds,
            RunState::Failed,
            8,
        ),
    ] {
        let (carried, ..) = acting(&plan(configurations, 1, 4), |round, name| {
            match round >= from && refused.contains(&name) {
                true => Act::Refuse,
                false => Act::Complete,
            }
        });
        let end = carried.end;
        let context = format!("{refused:?} of {configurations} from {from}");
        assert_eq!(
            (end.stopped, end.state, end.made),
            (stopped, state, made),
            "{context}"
        );
    }
}

#[test]
fn a_refused_target_is_tried_again_in_every_round() {
    let (carried, _, places) = acting(&plan(2, 1, 9), |round, name| match (round, name) {
        (1..=5, "c0") => Act::Refuse,
        _ => Act::Complete,
    });
    assert_eq!(places.len(), 18);
    assert_eq!(carried.end.completed, 13);
}

#[test]
fn if_one_of_three_is_refused_the_other_two_are_compared() {
    let plan = plan(3, 1, 5);
    let first = order(&plan, 0)[0];
    let refused = (0..3).find(|cell| *cell != first).unwrap();
    let (carried, _, places) = acting(&plan, |_, name| {
        match name == plan.configurations[refused as usize].name {
            true => Act::Refuse,
            false => Act::Complete,
        }
    });
    assert_eq!(carried.end.stopped, StopReason::AllRounds);
    assert_eq!(
        places.iter().filter(|(_, cell)| *cell == refused).count(),
        3
    );
    assert_eq!(carried.end.completed, 10);
}

#[test]
fn a_node_that_fails_during_the_run_does_not_end_it() {
    let (carried, ..) = acting(&plan(2, 1, 4), |round, _| match round {
        2 => Act::NoNode,
        _ => Act::Complete,
    });
    let end = carried.end;
    assert_eq!(
        (end.stopped, end.made, end.completed),
        (StopReason::AllRounds, 8, 6)
    );
}

fn stopping(plan: Plan, least_rounds: u32, width: Option<f64>, seconds: Option<u64>) -> Plan {
    let stopping = Stopping {
        least_rounds,
        width,
        max_time_ns: seconds.map(|seconds| seconds * SECOND),
    };
    Plan { stopping, ..plan }
}

#[test]
fn narrow_intervals_end_a_run_after_the_minimum_number_of_rounds() {
    for (least, widths, expected) in [
        (0, &[0.5, 0.02, 0.01][..], 2),
        (3, &[0.01, 0.01, 0.01], 3),
        (3, &[0.01, 0.01, 0.5, 0.03], 4),
        (0, &[0.5, 0.031, 0.5], 6),
        (0, &[], 6),
    ] {
        let plan = stopping(plan(2, 1, 6), least, Some(0.03), None);
        let store = FakeStore::default();
        let node = FakeNode::acting(&[], &store);
        let judge = FakeJudge::default();
        // Widths are requested only where they could end the run.
        let skipped = (least as usize).saturating_sub(1);
        *judge.widths.borrow_mut() = widths.iter().skip(skipped).copied().collect();
        let end = carry_out(&plan, &store, &node, &judge).end;
        assert_eq!(end.rounds, expected, "{least} {widths:?}");
        assert_eq!((end.made, end.state), (2 * expected, RunState::Completed));
        let early = expected < 6;
        let reason = if early {
            StopReason::Width
        } else {
            StopReason::AllRounds
        };
        assert_eq!(end.stopped, reason);
        let lowered = store.log().contains(&format!("rounds are {expected}"));
        assert_eq!(lowered, early, "{least} {widths:?}");
    }
}

#[test]
fn not_all_trials_of_a_long_run_are_compared_after_each_round() {
    let store = FakeStore::default();
    let node = FakeNode::new(|_| Act::Complete);
    let carried = carry_out(&plan(2, 1, 400), &store, &node, &FakeJudge::default());
    let rounds = carried
        .messages
        .iter()
        .filter(|it| it.starts_with("round "));
    let judged = rounds.clone().filter(|it| it.ends_with(", judged"));
    // 127, then each 2nd to 255 and each 4th from 256.
    assert_eq!((rounds.count(), judged.count()), (400, 127 + 64 + 37));
}

#[test]
fn no_round_begins_that_would_exceed_the_time_limit() {
    // Each trial takes a second, each round two.
    for (allowed, expected) in [(0, 1), (1, 1), (3, 1), (4, 2), (7, 3), (100, 6)] {
        let plan = stopping(plan(2, 1, 6), 0, None, Some(allowed));
        let store = FakeStore::default();
        let node = FakeNode::acting(&[], &store);
        let end = carry_out(&plan, &store, &node, &FakeJudge::default()).end;
        assert_eq!(
            (end.rounds, end.made),
            (expected, 2 * expected),
            "{allowed} s"
        );
        let early = expected < 6;
        assert_eq!(end.stopped == StopReason::MaxTime, early);
        assert_eq!(end.state, RunState::Completed);
    }
}

#[test]
fn a_cancelled_run_is_interrupted_and_its_last_trial_is_counted() {
    for (act, round, made, completed) in [(Act::Cancelled, 1, 3, 2), (Act::Cancelled, 3, 7, 6)] {
        let plan = plan(2, 1, 4);
        let first = plan.configurations[order(&plan, round)[0] as usize]
            .name
            .clone();
        let (carried, ..) = acting(&plan, |at, name| match at == round && name == first {
            true => act,
            false => Act::Complete,
        });
        let end = carried.end;
        assert_eq!(
            (end.state, end.stopped),
            (RunState::Interrupted, StopReason::Cancelled)
        );
        assert_eq!(
            (end.made, end.completed, end.rounds),
            (made, completed, round)
        );
    }
}

#[test]
fn a_cancellation_during_the_last_trial_has_no_effect() {
    let plan = plan(2, 1, 1);
    let store = FakeStore::default();
    let node = FakeNode::acting(&[], &store);
    let stop = node.stop.clone();
    let judge = FakeJudge::default();
    let end = carry_out_with(
        &plan,
        &lab(&store, &node, &stop),
        &judge.dependencies(&node),
        &mut |messages| {
            if let Progress::Ended(ended) = messages
                && ended.number == 2
            {
                stop.finish();
            }
        },
    );
    let end = end.unwrap();
    assert_eq!(
        (end.state, end.stopped),
        (RunState::Completed, StopReason::AllRounds)
    );
}

#[test]
fn the_host_settles_before_every_trial_and_failures_are_reported_once_and_noted_in_each() {
    let settling = Settling {
        drop_caches: true,
        idle_ns: SECOND,
    };
    let plan = Plan {
        settling,
        ..plan(2, 1, 2)
    };
    let store = FakeStore::default();
    let unsettled = vec![
        Unsettled::CachesKept {
            why: "Permission denied".to_owned(),
        },
        Unsettled::NotIdle {
            after_ns: SECOND,
            devices: vec!["vda".to_owned()],
        },
    ];
    let mut node = FakeNode::acting(&[], &store);
    node.unsettled = unsettled;
    let carried = carry_out(&plan, &store, &node, &FakeJudge::default());
    let caches = "the page cache was not dropped before the trial: Permission denied";
    let idle = "vda was not idle before the trial, after 1.0 s of waiting";
    assert_eq!(notes(&carried.messages), [caches, idle]);
    assert_eq!(
        carried
            .messages
            .iter()
            .filter(|word| *word == "settling")
            .count(),
        4
    );
    for trial in store.trials.borrow().iter() {
        let notes = &trial.parts[0].notes;
        assert!(notes.contains(&caches.to_owned()) && notes.contains(&idle.to_owned()));
    }
    // The first knows the paths that the plan names; then trials report where their I/O went.
    let settled = node.settled.borrow();
    assert_eq!(settled.len(), 4);
    assert_eq!(settled[0].len(), 2);
    assert!(settled[1].contains(&"/mnt/e".into()), "{settled:?}");
}

#[test]
fn a_plan_without_settling_does_not_wait() {
    let store = FakeStore::default();
    let node = FakeNode::acting(&[], &store);
    carry_out(&plan(2, 1, 1), &store, &node, &FakeJudge::default());
    assert!(node.settled.borrow().is_empty());
}

#[test]
fn a_simulated_run_does_not_settle_and_its_time_is_virtual() {
    let settling = Settling {
        drop_caches: true,
        idle_ns: SECOND,
    };
    let mut plan = Plan {
        settling,
        stopping: Stopping {
            max_time_ns: Some(30 * SECOND),
            ..Stopping::default()
        },
        ..plan(2, 1, 5)
    };
    let engine = &mut plan.workloads[0].jobs[0].work.blocks_mut().unwrap().engine;
    (engine.kind, engine.sim) = (EngineKind::Sim, None);
    let store = FakeStore::default();
    let node = FakeNode::acting(&[], &store);
    // The host's clock is not used.
    node.trial_ns.set(1000 * SECOND);
    let carried = carry_out(&plan, &store, &node, &FakeJudge::default());
    assert!(node.settled.borrow().is_empty());
    // The frames of a trial last 6 s, those of a round 12: a third round would end after 36 s.
    assert_eq!(
        (carried.end.stopped, carried.end.rounds),
        (StopReason::MaxTime, 2)
    );
}

#[test]
fn a_workload_ends_when_its_time_is_over_and_the_others_go_on() {
    let mut plan = plan(2, 2, 6);
    // Two trials of a second in each round.
    plan.workloads[1].stopping.max_time_ns = Some(5 * SECOND);
    let store = FakeStore::default();
    let node = FakeNode::new(|_| Act::Complete);
    let carried = carry_out(&plan, &store, &node, &FakeJudge::default());
    let rounds = |workload: &str| {
        let trials = store.trials.borrow();
        let own = trials.iter().filter(|trial| trial.workload == workload);
        own.map(|trial| trial.key.round).max().unwrap() + 1
    };
    assert_eq!((rounds("w0"), rounds("w1")), (6, 2));
    assert_eq!(
        (carried.end.stopped, carried.end.made),
        (StopReason::AllRounds, 16)
    );
    assert_eq!(
        notes(&carried.messages),
        ["w1 ends after 2 rounds: another round would exceed its time limit"]
    );
    assert!(
        store
            .log()
            .contains(&"workload 1 ends after 2 rounds".to_owned())
    );
}

#[test]
fn a_workload_ends_when_its_own_intervals_are_narrow() {
    let mut plan = plan(2, 2, 9);
    plan.workloads[0].stopping = Stopping {
        least_rounds: 3,
        width: Some(0.1),
        max_time_ns: None,
    };
    let store = FakeStore::default();
    let node = FakeNode::new(|_| Act::Complete);
    let judge = FakeJudge {
        widths: Locked::new(vec![0.3, 0.05]),
        ..FakeJudge::default()
    };
    carry_out(&plan, &store, &node, &judge);
    let trials = store.trials.borrow();
    let of = |workload: &str| trials.iter().filter(|t| t.workload == workload).count();
    // Asked after rounds 3 and 4.
    assert_eq!((of("w0"), of("w1")), (8, 18));
}

#[test]
fn a_run_whose_workloads_have_all_ended_is_complete() {
    let mut plan = plan(2, 2, 9);
    (plan.workloads[0].rounds, plan.workloads[1].rounds) = (Some(2), Some(3));
    let store = FakeStore::default();
    let node = FakeNode::new(|_| Act::Complete);
    let carried = carry_out(&plan, &store, &node, &FakeJudge::default());
    let end = carried.end;
    assert_eq!(
        (end.stopped, end.made, end.planned),
        (StopReason::AllRounds, 10, 10)
    );
    assert_eq!(end.state, RunState::Completed);
}

#[test]
fn a_failed_trial_is_repeated_as_often_as_the_plan_says() {
    let plan = Plan {
        retry: 2,
        ..plan(2, 1, 1)
    };
    // One cell fails twice and then completes; the other one fails in all three attempts.
    let store = FakeStore::default();
    let node = FakeNode::new(|bound| match bound.key.cell {
        0 if bound.key.attempt == 2 => Act::Complete,
        _ => Act::Die,
    });
    let Executed { end, messages } = carry_out(&plan, &store, &node, &FakeJudge::default());
    let mut places = node.places();
    places.sort_unstable();
    let attempts = |cell| (0..3).map(move |attempt| (0, cell, attempt));
    let expected: Vec<(u32, u32, u32)> = attempts(0).chain(attempts(1)).collect();
    assert_eq!(places, expected);
    // Each attempt is stored, and the last one counts.
    let ended = messages.iter().filter(|word| word.starts_with("ended"));
    assert_eq!(ended.count(), 6);
    assert_eq!((end.made, end.completed, end.planned), (2, 1, 2));
    assert_eq!(end.state, RunState::Failed);
}

#[test]
fn a_run_whose_failed_trials_completed_at_last_is_complete_and_refusals_are_not_repeated() {
    let plan = Plan {
        retry: 1,
        ..plan(2, 1, 2)
    };
    let store = FakeStore::default();
    let node = FakeNode::new(|bound| match (bound.key.attempt, bound.key.round) {
        (0, 0) => Act::Die,
        _ => Act::Complete,
    });
    let end = carry_out(&plan, &store, &node, &FakeJudge::default()).end;
    assert_eq!((end.state, end.completed), (RunState::Completed, 4));
    assert_eq!(node.places().len(), 6);
    let node = FakeNode::new(|_| Act::Refuse);
    carry_out(&plan, &store, &node, &FakeJudge::default());
    assert!(node.places().iter().all(|(_, _, attempt)| *attempt == 0));
}

/// A search of the highest rate whose p99 is below 2 ms.
fn searched(mut plan: Plan, workload: usize) -> Plan {
    plan.workloads[workload].search = Some(Search {
        axis: SearchAxis::Rate,
        until: Bound::parse("p99 < 2ms").unwrap(),
    });
    crate::with_searches(plan)
}

#[test]
fn a_search_chooses_its_loads_and_ends_with_its_answer() {
    let plan = searched(plan(2, 2, 3), 1);
    assert_eq!((plan.rounds, plan.workloads[0].rounds), (60, Some(3)));
    let store = FakeStore::default();
    let node = FakeNode::new(|_| Act::Complete);
    let carried = carry_out(&plan, &store, &node, &FakeJudge::default());
    let trials = store.trials.borrow();
    let loads = |configuration: &str| -> Vec<f64> {
        let own = trials.iter().filter(|t| t.configuration == configuration);
        own.filter_map(|trial| trial.probe).collect()
    };
    assert_eq!(loads("c0"), loads("c1"), "both have the same law");
    assert_eq!(loads("c0")[..3], [0.0, 1250.0, 2500.0]);
    let bound = node.bound.borrow();
    for bound in bound.iter().filter(|bound| bound.workload.name == "w1") {
        let compared = bound.workload.jobs[0].pacing.rates.read.iops;
        let trial = trials.iter().find(|trial| trial.key == bound.key).unwrap();
        assert_eq!(trial.probe, Some(compared));
    }
    let others = trials.iter().filter(|trial| trial.workload == "w0");
    assert_eq!(others.count(), 6);
    let rounds = loads("c0").len();
    assert!(rounds < 30, "{rounds}");
    assert_eq!(
        notes(&carried.messages),
        [format!(
            "w1 ends after {rounds} rounds: its searches have their answers"
        )]
    );
}

#[test]
fn an_interrupted_search_continues_with_the_load_that_follows() {
    let plan = searched(plan(1, 1, 1), 0);
    let loads = |store: &FakeStore| -> Vec<f64> {
        let trials = store.trials.borrow();
        trials.iter().filter_map(|trial| trial.probe).collect()
    };
    let whole = FakeStore::default();
    let node = FakeNode::new(|_| Act::Complete);
    carry_out(&plan, &whole, &node, &FakeJudge::default());
    let store = FakeStore::default();
    let mut acts = vec![Act::Complete; 5];
    acts.push(Act::Panic);
    let killed = FakeNode::acting(&acts, &store);
    let judge = FakeJudge::default();
    let run = std::panic::AssertUnwindSafe(|| carry_out(&plan, &store, &killed, &judge));
    assert!(std::panic::catch_unwind(run).is_err());
    let (node, stop) = (FakeNode::new(|_| Act::Complete), StopFlag::new());
    let end = crate::resume::resume_with(
        store.id(),
        None,
        &crate::testing::own(&store, store.id()),
        &lab(&store, &node, &stop),
        &judge.dependencies(&node),
        &mut |_| {},
    );
    assert_eq!(end.unwrap().state, RunState::Completed);
    assert_eq!(loads(&store), loads(&whole));
}
