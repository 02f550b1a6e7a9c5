use std::path::Path;

use iodyno_judge::testing as made_up;
use iodyno_model::{BoundPlan, Finding, FindingKind, Outcome, PlannedNode, RunState};
use iodyno_runner::Event;
use iodyno_store::Store;

use super::*;
use crate::testing::{Act, FakeJudge, FakeNode, FakeStore, lab, messages, plan};

/// Runs two configurations of one workload; returns the run's end and its messages.
fn run(acts: &[Act]) -> (RunEnd, Vec<String>, FakeStore, Vec<BoundPlan>) {
    let store = FakeStore::default();
    let node = FakeNode::acting(acts, &store);
    let (stop, judge) = (node.stop.clone(), FakeJudge::default());
    let mut words = Vec::new();
    let end = carry_out_with(
        &plan(2, 1, 1),
        &lab(&store, &node, &stop),
        &judge.dependencies(&node),
        &mut |progress| words.extend(messages(&progress)),
    )
    .unwrap();
    let bound = node.bound.take();
    drop(node);
    (end, words, store, bound)
}

#[test]
fn runs_every_trial_and_stores_each_step_as_it_arrives() {
    let (end, messages, store, bound) = run(&[Act::Complete, Act::Complete]);
    assert_eq!(
        (end.state, end.made, end.planned),
        (RunState::Completed, 2, 2)
    );
    assert!(end.unstored.is_none());
    assert_eq!(
        messages,
        [
            "begun 1",
            "trial 1 of 2 c0",
            "ended 1 Completed 0 faults, stored",
            "trial 2 of 2 c1",
            "ended 2 Completed 0 faults, stored",
            "round 1 of 1, None s left, judged",
        ]
    );
    let host = made_up::part(Vec::new()).environment.host;
    let mut expected = vec!["run p".to_owned()];
    // The seed has it so.
    for configuration in ["c0", "c1"] {
        expected.push(format!("begin {configuration} w0"));
        expected.push(format!("environment {host}"));
        expected.extend((0..6).map(|number| format!("frame {number}")));
        expected.push("finish".to_owned());
    }
    expected.push("run is completed".to_owned());
    assert_eq!(store.log(), expected);
    assert_eq!(bound[0].seed, bound[1].seed);
}

#[test]
fn a_single_trial_identifies_its_targets_itself() {
    let store = FakeStore::default();
    for (plan, before) in [(plan(1, 1, 1), false), (plan(1, 1, 2), true)] {
        let mut node = FakeNode::acting(&[Act::Complete], &store);
        node.identity = |path, _| panic!("{} is identified before the trial", path.display());
        let (stop, judge) = (node.stop.clone(), FakeJudge::default());
        let (lab, judge) = (lab(&store, &node, &stop), judge.dependencies(&node));
        let run = || carry_out_with(&plan, &lab, &judge, &mut |_| {}).map(|end| end.completed);
        let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        assert_eq!(run.is_err(), before);
    }
}

#[test]
fn every_shortage_of_a_plan_is_named_before_its_first_trial() {
    let mut node = FakeNode::new(|_| Act::Complete);
    node.lacks = |plan| plan.configuration.name == "c1";
    let mut twice = plan(2, 2, 3);
    twice.configurations.push(iodyno_model::Configuration {
        again: true,
        ..twice.configurations[1].clone()
    });
    let stop = StopFlag::new();
    let found = shortages(&twice, 0..twice.cells(), &[LabNode::here(&node)], &stop);
    let messages: Vec<&str> = found.iter().map(|fault| fault.message.as_str()).collect();
    assert_eq!(
        messages,
        ["`w0` on `c1`: no space", "`w1` on `c1`: no space"]
    );
    let found = shortages(&twice, [0, 3], &[LabNode::here(&node)], &stop);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].message, "`w1` on `c1`: no space");
    assert!(node.bound.borrow().is_empty());
}

#[test]
fn a_forecast_has_each_target_of_the_plan_once_and_runs_nothing() {
    let node = FakeNode::new(|_| Act::Complete);
    let found = forecast(
        &plan(2, 2, 3),
        &[],
        &[LabNode::here(&node)],
        &StopFlag::new(),
    )
    .unwrap();
    let paths: Vec<&Path> = found
        .targets
        .iter()
        .map(|(path, _)| path.as_path())
        .collect();
    assert_eq!(paths, [Path::new("c0"), Path::new("c1")]);
    assert!(node.bound.borrow().is_empty());
}

#[test]
fn only_refusal_cancellation_and_a_missing_node_end_a_run() {
    for (first, made, state, word) in [
        (Act::Complete, 2, RunState::Completed, "Completed 0 faults"),
        (Act::Die, 2, RunState::Failed, "Failed 0 faults"),
        (Act::Unprepared, 2, RunState::Failed, "Failed 2 faults"),
        (Act::Refuse, 1, RunState::Refused, "Refused 2 faults"),
        (Act::NoNode, 1, RunState::Failed, "Failed 1 faults"),
        (
            Act::Cancelled,
            1,
            RunState::Interrupted,
            "Interrupted 0 faults",
        ),
    ] {
        let completed = made - u32::from(!matches!(first, Act::Complete));
        let (end, messages, _, _) = run(&[first, Act::Complete]);
        assert_eq!((end.made, end.state), (made, state), "{messages:?}");
        assert_eq!(end.completed, completed);
        assert!(messages[2].contains(word), "{messages:?}");
    }
}

#[test]
fn a_trial_whose_node_died_is_rebuilt_from_its_frames() {
    let (_, _, store, _) = run(&[Act::Die, Act::Complete]);
    let trial = &store.trials.borrow()[0];
    let part = &trial.parts[0];
    assert_eq!(part.clones[0].directions[0].ops, 6 * 1000);
    assert!(!part.clones[0].directions[0].service.is_empty());
    assert!(
        part.notes.contains(&"a note".to_owned()),
        "{:?}",
        part.notes
    );
}

#[test]
fn a_refused_trial_lists_every_reason() {
    let (_, _, store, _) = run(&[Act::Refuse]);
    assert_eq!(
        store.trials.borrow()[0].outcome,
        Outcome::Refused("one; two; cause: three".to_owned())
    );
}

#[test]
fn a_store_that_becomes_full_is_reported_once_and_the_run_continues() {
    let (end, messages, _, _) = run(&[Act::FillStore, Act::FillStore]);
    assert!(end.unstored.is_some());
    assert_eq!((end.made, end.state), (2, RunState::Completed));
    assert_eq!(
        messages
            .iter()
            .filter(|text| *text == "store fails")
            .count(),
        2,
        "{messages:?}"
    );
    assert!(
        messages.contains(&"ended 1 Completed 0 faults, lost".to_owned()),
        "{messages:?}"
    );
}

#[test]
fn no_trial_runs_if_the_store_is_full_before_the_first() {
    let store = FakeStore::default();
    store.full(true);
    let node = FakeNode::acting(&[], &store);
    let stop = node.stop.clone();
    let begun = carry_out(&plan(1, 1, 1), &lab(&store, &node, &stop), &mut |_| {});
    assert!(begun.is_err());
    assert!(node.bound.borrow().is_empty());
}

#[test]
fn a_store_on_the_storage_under_test_is_found() {
    let store = FakeStore::default();
    let node = FakeNode::acting(&[], &store);
    let environment = made_up::part(Vec::new()).environment;
    let stop = node.stop.clone();
    let lab = Lab {
        store_stack: environment.targets[0].stack.clone(),
        ..lab(&store, &node, &stop)
    };
    carry_out(&plan(1, 1, 1), &lab, &mut |_| {}).unwrap();
    let trials = store.trials.borrow();
    assert!(
        trials[0]
            .findings
            .iter()
            .any(|finding| finding.kind == FindingKind::StoreOnTarget)
    );
}

/// One trial on a node that samples and behaves like this.
fn sampled(act: Act) -> FakeStore {
    let store = FakeStore::default();
    let mut node = FakeNode::acting(&[act], &store);
    node.samples = true;
    let stop = node.stop.clone();
    carry_out(
        &plan(1, 1, 1),
        &lab(&store, &node, &stop),
        &mut |messages| {
            if let Progress::Ended(ended) = messages {
                assert!(ended.trial.telemetry.is_empty());
            }
        },
    )
    .unwrap();
    drop(node);
    store
}

#[test]
fn telemetry_is_stored_as_it_arrives_and_judged_after_the_trial() {
    for act in [Act::Complete, Act::Die, Act::Cancelled] {
        let store = sampled(act);
        let log = store.log();
        let middle = log.iter().skip_while(|line| *line != "frame 2").take(4);
        let middle: Vec<&String> = middle.collect();
        assert_eq!(middle, ["frame 2", "telemetry 2", "frame 3", "telemetry 3"]);
        let trials = store.trials.borrow();
        let trial = &trials[0];
        let stored = store.telemetry(trial.key, 0, 99).unwrap();
        assert_eq!(stored.len(), 6, "{act:?}");
        let servers = &trial.parts[0].host.servers;
        assert_eq!(servers.len(), 1, "{act:?}");
        assert_eq!(
            (servers[0].name.as_str(), servers[0].threads),
            ("virtiofsd", 4)
        );
        let kinds: Vec<FindingKind> = trial.findings.iter().map(|one| one.kind).collect();
        assert!(
            kinds.contains(&FindingKind::MemoryPressure),
            "{act:?}: {kinds:?}"
        );
    }
    let unsampled = run(&[Act::Complete]).2;
    let trials = unsampled.trials.borrow();
    let of_memory = |finding: &Finding| finding.kind == FindingKind::MemoryPressure;
    assert!(!trials[0].findings.iter().any(of_memory));
}

#[test]
fn a_store_that_was_full_for_some_time_contains_all_telemetry_at_the_end() {
    let store = FakeStore::default();
    let full = std::cell::Cell::new(0);
    let mut node = FakeNode::acting(&[], &store);
    node.samples = true;
    let stop = node.stop.clone();
    carry_out(
        &plan(1, 1, 1),
        &lab(&store, &node, &stop),
        &mut |messages| {
            // Full from the second frame to the fourth.
            if let Progress::Node(Event::Frame(frame)) = messages {
                store.full((1..4).contains(&frame.number));
                full.set(full.get() + u32::from(frame.number == 1));
            }
        },
    )
    .unwrap();
    assert_eq!(full.get(), 1);
    let series = store.log();
    let series = series
        .iter()
        .filter(|line| line.contains(' ') && !line.starts_with("environment"));
    let series: Vec<&String> = series.skip(2).take(12).collect();
    let expected: Vec<String> = (0..6)
        .flat_map(|number| [format!("frame {number}"), format!("telemetry {number}")])
        .collect();
    assert_eq!(series, expected.iter().collect::<Vec<_>>());
}

#[test]
fn a_trial_on_two_nodes_has_a_part_of_each_and_names_the_one_that_died() {
    let store = FakeStore::default();
    let mut nodes = [Act::Complete, Act::Die].map(|act| FakeNode::acting(&[act], &store));
    nodes.iter_mut().for_each(|node| node.samples = true);
    let [one, other] = &nodes;
    let stop = one.stop.clone();
    let named = |name: &str, node| LabNode {
        name: name.to_owned(),
        node,
        here: false,
        only_sampled: false,
    };
    let lab = Lab {
        nodes: vec![named("a", one), named("b", other)],
        ..lab(&store, one, &stop)
    };
    let plan = Plan {
        nodes: vec![
            PlannedNode::new("a", "ssh://a"),
            PlannedNode::new("b", "ssh://b"),
        ],
        ..plan(1, 1, 1)
    };
    carry_out(&plan, &lab, &mut |_| {}).unwrap();
    let trials = store.trials.borrow();
    let trial = &trials[0];
    assert_eq!(
        trial.outcome,
        Outcome::Failed("node `b`: SIGBUS".to_owned())
    );
    let names: Vec<&str> = trial.parts.iter().map(|part| part.node.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    // One transaction for each second of both, and one for the telemetry after the last frames.
    assert_eq!(store.appends.get(), 6 + 1);
    // Rebuilt from its frames.
    assert_eq!(trial.parts[1].clones[0].directions[0].ops, 6 * 1000);
    // Nodes may share storage.
    let seed = |node: &FakeNode<'_>| node.bound.borrow()[0].seed;
    assert_ne!(seed(one), seed(other));
    // Frames and batches of both are numbered in one order.
    let log = store.log();
    for number in 0..12 {
        for what in ["frame", "telemetry"] {
            assert!(
                log.contains(&format!("{what} {number}")),
                "{what} {number}: {log:?}"
            );
        }
    }
    for part in &trial.parts {
        assert_eq!(part.host.servers.len(), 1, "{:?}", part.host.servers);
    }
}
