use std::io::{BufRead, BufReader, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use iodyno_model::{Identity, Imported, Inode, Outcome, Stopping};
use iodyno_store::SqliteStore;
use proptest::prelude::*;

use super::*;
use crate::StopReason;
use crate::experiment::carry_out_with;
use crate::schedule::order;
use crate::testing::{Act, FakeJudge, FakeNode, FakeStore, Locked, lab, messages, own, plan};

/// Round, cell and attempt.
type Place = (u32, u32, u32);

/// Starts a run that is interrupted in its n-th trial.
fn die_at(trial: usize, plan: &Plan, store: &dyn Store) -> Vec<Place> {
    let count = Locked::new(0);
    let node = FakeNode::new(|_| {
        *count.borrow_mut() += 1;
        match *count.borrow() > trial {
            true => Act::Panic,
            false => Act::Complete,
        }
    });
    let (stop, judge) = (node.stop.clone(), FakeJudge::default());
    let died = catch_unwind(AssertUnwindSafe(|| {
        carry_out_with(
            plan,
            &lab(store, &node, &stop),
            &judge.dependencies(&node),
            &mut |_| {},
        )
    }));
    assert!(died.is_err());
    node.places()
}

/// Resumes a run; returns its messages, and the trials that it ran.
fn resume_run(
    run: RunId,
    rounds: Option<u32>,
    store: &dyn Store,
    judge: &FakeJudge,
) -> (Result<RunEnd, ResumeError>, Vec<String>, Vec<Place>) {
    let node = FakeNode::new(|_| Act::Complete);
    let stop = node.stop.clone();
    let mut words = Vec::new();
    let end = resume_with(
        run,
        rounds,
        &own(store, run),
        &lab(store, &node, &stop),
        &judge.dependencies(&node),
        &mut |one| words.extend(messages(&one)),
    );
    (end, words, node.places())
}

fn whole(plan: &Plan) -> Vec<(u32, u32)> {
    let round = |round| {
        order(plan, round)
            .into_iter()
            .map(move |cell| (round, cell))
    };
    (0..plan.rounds).flat_map(round).collect()
}

fn places(made: &[Place]) -> Vec<(u32, u32)> {
    made.iter()
        .map(|(round, cell, _)| (*round, *cell))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_run_interrupted_at_any_trial_continues_in_its_original_order(
        cells in 1usize..5, rounds in 1u32..5, seed: u64, at: prop::sample::Index,
    ) {
        let plan = Plan { seed, ..plan(cells, 1, rounds) };
        let at = at.index(cells * rounds as usize);
        let store = FakeStore::default();
        let before = die_at(at, &plan, &store);
        let judge = FakeJudge::default();
        let (end, messages, after) = resume_run(store.id(), None, &store, &judge);
        let end = end.unwrap();
        // The interrupted trial is repeated as a second attempt.
        prop_assert_eq!(&places(&before), &whole(&plan)[..=at]);
        prop_assert_eq!(&places(&after), &whole(&plan)[at..]);
        prop_assert_eq!(after[0].2, 1);
        prop_assert!(after[1..].iter().all(|(.., attempt)| *attempt == 0));
        prop_assert_eq!((end.made, end.completed), (end.planned, end.planned));
        prop_assert_eq!((end.state, end.rounds), (RunState::Completed, rounds));
        // Only the planned rounds are run, which is not a look.
        prop_assert!(!store.log().iter().any(|noted| noted.starts_with("looked")));
        let first = format!("trial {} of {}", at + 1, cells * rounds as usize);
        prop_assert!(messages[1].starts_with(&first), "{:?}", messages);
        // The final verdict includes every trial once.
        let compared = judge.compared.borrow();
        if cells > 1 {
            prop_assert_eq!(compared.len(), cells * rounds as usize);
            prop_assert!(compared.is_sorted() && compared.iter().all(|(.., usable)| *usable));
        }
    }
}

/// Stores a run whose trials had these outcomes and which was then interrupted.
fn stored(plan: &Plan, outcome: impl Fn(u32, u32) -> Option<Outcome>) -> FakeStore {
    let store = FakeStore::default();
    let run = store.begin_run(plan, 0).unwrap().id;
    for (round, cell) in whole(plan) {
        let key = TrialKey {
            run,
            round,
            cell,
            attempt: 0,
        };
        if let Some(outcome) = outcome(round, cell) {
            store.begin_trial(key, "c", "w", 0).unwrap();
            store
                .finish_trial(&Trial {
                    outcome,
                    parts: vec![iodyno_judge::testing::part(Vec::new())],
                    ..crate::testing::trial(key)
                })
                .unwrap();
        }
    }
    store
}

#[test]
fn every_trial_that_has_not_completed_is_repeated_as_its_next_attempt() {
    let plan = plan(4, 1, 2);
    let text = || "x".to_owned();
    let store = stored(&plan, |round, cell| match (round, cell) {
        (0, 1) => Some(Outcome::Failed(text())),
        (0, 2) => Some(Outcome::Refused(text())),
        (0, 3) => Some(Outcome::Interrupted(text())),
        (0, _) => Some(Outcome::Completed),
        _ => None,
    });
    let (end, _, after) = resume_run(store.id(), None, &store, &FakeJudge::default());
    let end = end.unwrap();
    let mut again: Vec<_> = after.iter().filter(|one| one.0 == 0).collect();
    again.sort_unstable();
    assert_eq!(again, [&(0, 1, 1), &(0, 2, 1), &(0, 3, 1)]);
    assert_eq!(after.len(), 7);
    assert_eq!((end.made, end.completed), (8, 8));
    assert_eq!(
        end.state,
        RunState::Completed,
        "the failed trials were repeated"
    );
}

/// A run whose target is missing in rounds 2 and 3 of four, in which its trials fail.
fn missing_for_two_rounds() -> FakeStore {
    stored(&plan(2, 1, 4), |round, cell| match (round, cell) {
        (1..3, 1) => Some(Outcome::Failed("the target was missing".to_owned())),
        _ => Some(Outcome::Completed),
    })
}

#[test]
fn the_targets_of_cells_that_are_not_selected_are_not_accessed() {
    let store = SqliteStore::in_memory().unwrap();
    let plan = plan(2, 1, 1);
    let node = FakeNode::new(|_| Act::Complete);
    let (stop, judge) = (node.stop.clone(), FakeJudge::default());
    let (begun, judge) = (lab(&store, &node, &stop), judge.dependencies(&node));
    let run = carry_out_with(&plan, &begun, &judge, &mut |_| {});
    let run = run.unwrap().handle.id;
    let mut node = FakeNode::new(|_| Act::Complete);
    node.identity = |_, _| Some(Identity::Absent);
    let permission = Permission {
        cells: Some([1].into()),
        ..own(&store, run)
    };
    let (stop, judge) = (node.stop.clone(), FakeJudge::default());
    let lab = lab(&store, &node, &stop);
    let judge = judge.dependencies(&node);
    resume_with(run, Some(2), &permission, &lab, &judge, &mut |_| {}).unwrap();
    let targets = store.targets(run).unwrap();
    assert!(!targets.is_empty());
    assert!(
        targets.iter().all(|it| it.path.starts_with("/c1")),
        "{targets:?}"
    );
}

#[test]
fn a_run_with_failed_trials_is_complete_only_after_they_are_repeated() {
    let store = missing_for_two_rounds();
    let judge = FakeJudge::default();
    let (end, messages, after) = resume_run(store.id(), None, &store, &judge);
    assert_eq!(after, [(1, 1, 1), (2, 1, 1)]);
    let end = end.unwrap();
    assert_eq!((end.made, end.completed, end.planned), (8, 8, 8));
    assert_eq!((end.state, end.rounds), (RunState::Completed, 4));
    assert!(messages[1].starts_with("trial 7 of 8"), "{messages:?}");
    assert_eq!(judge.compared.borrow().len(), 8);
    let (end, ..) = resume_run(store.id(), None, &store, &judge);
    assert!(matches!(end, Err(ResumeError::Complete { rounds: 4, .. })));
}

#[test]
fn a_run_whose_early_trials_are_repeated_keeps_its_later_rounds() {
    let width = |width, max_time_ns| Stopping {
        least_rounds: 0,
        width,
        max_time_ns,
    };
    for (stopping, stopped, made, state) in [
        (
            width(Some(0.5), None),
            StopReason::AllRounds,
            2,
            RunState::Completed,
        ),
        // Each trial takes one second, a round two; the second failed trial is not repeated.
        (
            width(None, Some(1)),
            StopReason::MaxTime,
            1,
            RunState::Failed,
        ),
    ] {
        let store = missing_for_two_rounds();
        store.replan(|plan| plan.stopping = stopping);
        let judge = FakeJudge::default();
        *judge.widths.borrow_mut() = vec![0.01; 9];
        let (end, _, after) = resume_run(store.id(), None, &store, &judge);
        let end = end.unwrap();
        assert_eq!((end.stopped, after.len()), (stopped, made));
        assert_eq!((end.made, end.completed), (8, 6 + made as u32));
        assert_eq!(end.state, state);
        assert_eq!(store.run(store.id()).unwrap().summary.rounds, 4);
    }
}

/// Resumes a run on a node with a file system that is no longer mounted.
fn resume_run_without(
    store: &FakeStore,
    unmounted: fn(usize) -> &'static [&'static str],
) -> (RunEnd, Vec<Place>) {
    let mut node = FakeNode::new(|_| Act::Complete);
    node.unmounted = unmounted;
    let (stop, judge) = (node.stop.clone(), FakeJudge::default());
    let dependencies = judge.dependencies(&node);
    let end = resume_with(
        store.id(),
        None,
        &own(store, store.id()),
        &lab(store, &node, &stop),
        &dependencies,
        &mut |_| {},
    );
    (end.unwrap(), node.places())
}

#[test]
fn a_target_that_has_changed_is_not_accessed() {
    for outcome in [
        Outcome::Completed,
        Outcome::Interrupted("by the user".to_owned()),
    ] {
        let store = stored(&plan(2, 1, 3), |round, _| {
            (round < 1).then(|| outcome.clone())
        });
        let (end, made) = resume_run_without(&store, |_| &["/mnt/e"]);
        assert_eq!(made, [], "{outcome:?}");
        assert_eq!(end.state, RunState::Failed);
        let trials = store.trials.borrow();
        let why = trials.last().unwrap().outcome.reason().unwrap();
        assert!(
            why.starts_with("the target has changed: /mnt/e on"),
            "{why}"
        );
        drop(trials);
        // After the file system is mounted again, all trials are repeated.
        let (end, _) = resume_run_without(&store, |_| &[]);
        assert_eq!((end.state, end.completed), (RunState::Completed, 6));
    }
}

#[test]
fn the_target_of_a_failed_trial_does_not_bind_later_ones() {
    let store = stored(&plan(1, 1, 2), |round, _| {
        (round < 1).then(|| Outcome::Failed("no space".to_owned()))
    });
    let (end, made) = resume_run_without(&store, |_| &["/mnt/e"]);
    assert_eq!((made.len(), end.completed), (2, 2));
}

#[test]
fn missing_trials_that_lack_space_are_reported_before_anything_is_changed() {
    let store = stored(&plan(2, 1, 3), |round, cell| {
        (round < 2 || cell == 0).then_some(Outcome::Completed)
    });
    let before = store.log();
    let resume = |lacks: fn(&iodyno_model::BoundPlan) -> bool| {
        let mut node = FakeNode::new(|_| Act::Complete);
        node.lacks = lacks;
        let (stop, judge) = (node.stop.clone(), FakeJudge::default());
        resume_with(
            store.id(),
            None,
            &own(&store, store.id()),
            &lab(&store, &node, &stop),
            &judge.dependencies(&node),
            &mut |_| {},
        )
    };
    let error = resume(|plan| plan.configuration.name == "c1").unwrap_err();
    let ResumeError::Shortages { shortages, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(shortages[0].message, "`w0` on `c1`: no space");
    assert_eq!(store.log(), before);
    // All trials of the other configuration have completed: it needs no space.
    let end = resume(|plan| plan.configuration.name == "c0").unwrap();
    assert_eq!(end.completed, 6);
}

#[test]
fn a_complete_run_is_reported_and_not_changed() {
    let plan = plan(2, 1, 3);
    let store = stored(&plan, |_, _| Some(Outcome::Completed));
    store
        .finish_run(store.id(), RunState::Completed, 0)
        .unwrap();
    let before = store.log();
    for rounds in [None, Some(3), Some(2)] {
        let (end, messages, _) = resume_run(store.id(), rounds, &store, &FakeJudge::default());
        let error = end.unwrap_err();
        assert!(
            matches!(
                error,
                ResumeError::Complete {
                    can_grow: true,
                    alias: 1,
                    rounds: 3
                }
            ),
            "{error:?}"
        );
        let hint = error.hint().unwrap();
        assert!(hint.contains("--rounds 6"), "{hint}");
        assert!(messages.is_empty());
    }
    assert_eq!(store.log(), before);
}

#[test]
fn a_run_whose_later_rounds_are_missing_is_not_reported_as_complete() {
    let store = stored(&plan(2, 1, 5), |round, _| {
        (round < 3).then_some(Outcome::Completed)
    });
    let (end, ..) = resume_run(store.id(), Some(2), &store, &FakeJudge::default());
    let error = end.unwrap_err();
    assert_eq!(
        error.to_string(),
        "run 1 is complete: nothing is missing in its first 2 rounds"
    );
    let (end, ..) = resume_run(store.id(), None, &store, &FakeJudge::default());
    assert_eq!(end.unwrap().made, 10);
}

#[test]
fn a_complete_run_can_be_extended_even_with_narrow_intervals() {
    let stopping = Stopping {
        least_rounds: 0,
        width: Some(0.03),
        max_time_ns: None,
    };
    let plan = Plan {
        stopping,
        ..plan(2, 1, 3)
    };
    let store = stored(&plan, |_, _| Some(Outcome::Completed));
    let judge = FakeJudge::default();
    *judge.widths.borrow_mut() = vec![0.01; 9];
    let (end, messages, after) = resume_run(store.id(), Some(5), &store, &judge);
    let end = end.unwrap();
    let longer = Plan { rounds: 5, ..plan };
    assert_eq!(places(&after), whole(&longer)[6..]);
    assert_eq!((end.rounds, end.stopped), (5, StopReason::AllRounds));
    for noted in ["looked after 3 rounds", "rounds are 5"] {
        assert!(store.log().contains(&noted.to_owned()), "{:?}", store.log());
    }
    assert!(
        messages.iter().any(|word| word.starts_with("round 4 of 5")),
        "{messages:?}"
    );
}

#[test]
fn a_cell_that_was_given_up_is_tried_again_in_a_resumed_run() {
    let plan = plan(2, 1, 6);
    let store = stored(&plan, |round, cell| match (round, cell) {
        (_, 1) if round < 3 => Some(Outcome::Failed("no".to_owned())),
        (_, 1) => Some(Outcome::Failed("skipped: it failed".to_owned())),
        _ => Some(Outcome::Completed),
    });
    // It still fails, and is given up after three rounds. One configuration remains, so the run ends, and the failures
    // of the other rounds remain.
    let node = FakeNode::new(|_| Act::Die);
    let (stop, judge) = (node.stop.clone(), FakeJudge::default());
    let dependencies = judge.dependencies(&node);
    let end = resume_with(
        store.id(),
        None,
        &own(&store, store.id()),
        &lab(&store, &node, &stop),
        &dependencies,
        &mut |_| {},
    );
    let end = end.unwrap();
    assert_eq!(node.places(), [(0, 1, 1), (1, 1, 1), (2, 1, 1)]);
    assert_eq!((end.made, end.completed, end.given_up), (12, 6, 0));
    assert_eq!(end.state, RunState::Failed);

    let (end, _, after) = resume_run(store.id(), None, &store, &judge);
    let end = end.unwrap();
    let attempt = |round| if round < 3 { 2 } else { 1 };
    let expected: Vec<Place> = (0..6).map(|round| (round, 1, attempt(round))).collect();
    assert_eq!(after, expected);
    assert_eq!((end.made, end.completed, end.given_up), (12, 12, 0));
    assert_eq!(end.state, RunState::Completed);
}

#[test]
fn a_run_imported_from_another_tool_cannot_be_resumed() {
    let plan = Plan {
        imported: Some(Imported::default()),
        ..plan(0, 0, 1)
    };
    let store = stored(&plan, |_, _| None);
    let (end, ..) = resume_run(store.id(), Some(9), &store, &FakeJudge::default());
    assert!(matches!(
        end.unwrap_err(),
        ResumeError::Imported { alias: 1 }
    ));
}

#[test]
fn an_interrupted_run_is_resumed_by_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let plan = plan(3, 1, 3);
    {
        let store = SqliteStore::open(&path).unwrap();
        die_at(4, &plan, &store);
    }
    let store = SqliteStore::open(&path).unwrap();
    let run = store.find("last").unwrap();
    let (end, _, after) = resume_run(run, None, &store, &FakeJudge::default());
    assert_eq!(places(&after), whole(&plan)[4..]);
    assert_eq!(end.unwrap().completed, 9);
    let stored = store.run(run).unwrap();
    let summary = &stored.summary;
    assert_eq!(
        (summary.state, summary.trials_completed),
        (RunState::Completed, 9)
    );
    let (end, ..) = resume_run(run, None, &store, &FakeJudge::default());
    assert!(matches!(end, Err(ResumeError::Complete { rounds: 3, .. })));
    let (end, ..) = resume_run(run, Some(4), &store, &FakeJudge::default());
    assert_eq!(end.unwrap().completed, 12);
    let stored = store.run(run).unwrap();
    assert_eq!((stored.summary.trials_planned, stored.plan.rounds), (12, 4));
}

#[test]
fn what_remains_is_what_a_resumed_run_makes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let mut plan = plan(3, 2, 4);
    plan.workloads[1].rounds = Some(2);
    {
        let store = SqliteStore::open(&path).unwrap();
        die_at(8, &plan, &store);
    }
    let store = SqliteStore::open(&path).unwrap();
    let run = store.find("last").unwrap();
    let stored = store.run(run).unwrap();
    let permission = own(&store, run);
    let left = remaining(&stored, None, &permission).unwrap();
    let longer = remaining(&stored, Some(5), &permission).unwrap();
    assert_eq!(u64::from(left.done) + left.trials.len() as u64, 18);
    assert_eq!(longer.trials.len(), left.trials.len() + 3);
    assert_eq!(lacking(&stored, 4), left.trials.len() as u64);
    let (_, _, after) = resume_run(run, None, &store, &FakeJudge::default());
    let made: Vec<(u32, u32)> = left.trials.iter().map(|it| (it.round, it.cell)).collect();
    assert_eq!(places(&after), made);
    let ended = store.run(run).unwrap();
    assert!(lacking_cells(&ended, 4, &Permission::default()).is_empty());
    assert!(matches!(
        remaining(&ended, None, &permission),
        Err(ResumeError::Complete { rounds: 4, .. })
    ));
}

#[test]
fn a_run_stopped_early_is_complete_with_its_completed_rounds() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("a.db")).unwrap();
    let mut plan = plan(2, 1, 50);
    plan.stopping.width = Some(0.1);
    let node = FakeNode::new(|_| Act::Complete);
    let (stop, judge) = (node.stop.clone(), FakeJudge::default());
    *judge.widths.borrow_mut() = vec![0.5, 0.05];
    let end = carry_out_with(
        &plan,
        &lab(&store, &node, &stop),
        &judge.dependencies(&node),
        &mut |_| {},
    );
    let run = end.unwrap().handle.id;
    let stored = store.run(run).unwrap();
    let summary = &stored.summary;
    assert_eq!((summary.state, summary.rounds), (RunState::Completed, 2));
    assert_eq!((summary.trials_completed, summary.trials_planned), (4, 4));
    assert_eq!(stored.plan.rounds, 50, "the requested number is kept");
    let (end, ..) = resume_run(run, None, &store, &judge);
    assert!(matches!(end, Err(ResumeError::Complete { rounds: 2, .. })));
    let (end, _, after) = resume_run(run, Some(3), &store, &judge);
    assert_eq!((end.unwrap().rounds, after.len()), (3, 2));
    let stored = store.run(run).unwrap();
    assert_eq!((stored.summary.rounds, stored.plan.rounds), (3, 50));
}

/// Set for the process to be killed: the path of the store.
const KILLED_STORE: &str = "IODYNO_KILLED_STORE";

fn slow_plan() -> Plan {
    plan(3, 2, 4)
}

/// Runs a plan and prints a line when each trial begins.
fn carry_out_slowly(path: &Path) {
    let store = SqliteStore::open(path).unwrap();
    let left = Locked::new(slow_plan().cells() * slow_plan().rounds);
    let node = FakeNode::new(move |_| {
        left.set(left.get() - 1);
        // The last one runs until the process is killed.
        std::thread::sleep(match left.get() {
            0 => Duration::from_secs(3600),
            _ => Duration::from_millis(20),
        });
        Act::Complete
    });
    let (stop, judge) = (node.stop.clone(), FakeJudge::default());
    let mut out = std::io::stdout();
    let dependencies = judge.dependencies(&node);
    carry_out_with(
        &slow_plan(),
        &lab(&store, &node, &stop),
        &dependencies,
        &mut |progress| {
            if let Progress::Trial { number, .. } = progress {
                writeln!(out, "\nmaking {number}").unwrap();
            }
        },
    )
    .unwrap();
}

#[test]
fn a_run_killed_with_signal_9_is_complete_after_it_was_resumed() {
    if let Some(path) = std::env::var_os(KILLED_STORE) {
        return carry_out_slowly(Path::new(&path));
    }
    let folder = tempfile::tempdir().unwrap();
    let test = "resume::tests::a_run_killed_with_signal_9_is_complete_after_it_was_resumed";
    for (number, after_ms) in [(1, 0), (2, 30), (11, 7), (24, 11)] {
        let path = folder.path().join(format!("{number}.db"));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(KILLED_STORE, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let wanted = format!("making {number}");
        let begun = lines.map_while(Result::ok).find(|line| *line == wanted);
        assert!(begun.is_some(), "the process ended by itself");
        std::thread::sleep(Duration::from_millis(after_ms));
        child.kill().unwrap();
        child.wait().unwrap();

        let store = SqliteStore::open(&path).unwrap();
        let run = store.find("last").unwrap();
        let before = store.run(run).unwrap();
        assert_eq!(before.summary.state, RunState::Interrupted, "{number}");
        let (end, _, after) = resume_run(run, None, &store, &FakeJudge::default());
        assert_eq!(end.unwrap().completed, 24, "{number}");
        let plan = slow_plan();
        let done = before.summary.trials_completed as usize;
        assert_eq!(
            places(&after),
            whole(&plan)[done..],
            "{number}: {done} were done"
        );
        let stored = store.run(run).unwrap();
        assert_eq!(stored.summary.trials_completed, 24);
        let cells: std::collections::BTreeSet<(u32, u32)> = stored
            .trials
            .iter()
            .filter(|trial| trial.state == TrialState::Completed)
            .map(|trial| (trial.key.round, trial.key.cell))
            .collect();
        assert_eq!(cells.len(), 24);
    }
}

/// Resumes a run whose first trial was interrupted, with this permission; returns what its trials may destroy.
fn permitted(foreign: bool, permission: &Permission) -> Result<Vec<PathBuf>, ResumeError> {
    let plan = plan(2, 1, 1);
    let store = FakeStore::default();
    die_at(0, &plan, &store);
    store.foreign.set(foreign);
    let permission = &Permission {
        begun: own(&store, store.id()).begun,
        ..permission.clone()
    };
    let before = store.log();
    let node = FakeNode::new(|_| Act::Complete);
    let stop = node.stop.clone();
    let judge = FakeJudge::default();
    let end = resume_with(
        store.id(),
        None,
        permission,
        &lab(&store, &node, &stop),
        &judge.dependencies(&node),
        &mut |_| {},
    );
    match end {
        Ok(end) => assert_eq!(end.completed, 2),
        Err(error) => {
            assert_eq!(store.log(), before, "nothing is done");
            return Err(error);
        }
    }
    let bound = node.bound.borrow();
    assert_eq!(bound[0].destroy, bound[1].destroy);
    Ok(bound[0].destroy.clone())
}

#[test]
fn a_resumed_run_needs_a_new_permission_to_destroy() {
    let none = Permission::default();
    assert_eq!(permitted(false, &none).unwrap(), Vec::<PathBuf>::new());
    let destroy = vec![PathBuf::from("/c1")];
    let given = Permission {
        destroy: destroy.clone(),
        ..none
    };
    assert_eq!(permitted(false, &given).unwrap(), destroy);
}

#[test]
fn an_imported_run_is_resumed_only_on_targets_that_are_named_again() {
    let named = |targets: &[(&str, &str)]| Permission {
        named: targets
            .iter()
            .map(|(configuration, path)| NamedTarget {
                configuration: (*configuration).to_owned(),
                path: path.into(),
            })
            .collect(),
        ..Permission::default()
    };
    let both = [("c0", "/c0"), ("c1", "/c1")];
    let error = permitted(true, &named(&both[..1])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "run 1 was imported: all that it does on this host has to be allowed again\n  \
         uses: /c1, for `c1`"
    );
    let hint = error.hint().unwrap();
    assert_eq!(
        hint,
        "if this is an experiment that you have, add `--experiment FILE`; if all of it is meant, on this host, add `--on c1=/c1`"
    );
    assert!(permitted(true, &named(&both)).is_ok());
    // With another path it would be another run.
    let error = permitted(true, &named(&[both[0], both[1], ("c1", "/x")])).unwrap_err();
    assert_eq!(error.to_string(), "`--on c1=/x` names nothing of run 1");
    // A run of this store keeps its targets; naming them is allowed.
    assert!(permitted(false, &named(&both[1..])).is_ok());
    assert!(permitted(false, &named(&[("c1", "/x")])).is_err());
}

/// A file that existed before the run, with this inode number.
fn file(number: u64) -> Option<Identity> {
    let inode = Inode {
        number,
        made_ns: None,
    };
    Some(Identity::File { inode, length: 9 })
}

#[test]
fn a_target_that_was_replaced_since_the_run_began_is_not_touched() {
    replaced("/c1", |path, _| {
        file(if path == Path::new("/c1") { 77 } else { 3 })
    });
}

#[test]
fn a_file_whose_name_is_made_up_is_not_touched_if_it_was_replaced_before_a_trial_opened_it() {
    replaced("/c1/made-up", |path, _| {
        file(if path.ends_with("made-up") && path.starts_with("/c1") {
            77
        } else {
            3
        })
    });
}

/// A path is replaced between two sessions of a run, and no trial of the first one has opened a file.
fn replaced(what: &str, now: fn(&Path, usize) -> Option<Identity>) {
    let plan = plan(2, 1, 1);
    let store = FakeStore::default();
    let mut node = FakeNode::new(|_| Act::Panic);
    node.identity = |_, _| file(3);
    let (stop, judge) = (node.stop.clone(), FakeJudge::default());
    let died = catch_unwind(AssertUnwindSafe(|| {
        let dependencies = judge.dependencies(&node);
        carry_out_with(
            &plan,
            &lab(&store, &node, &stop),
            &dependencies,
            &mut |_| {},
        )
    }));
    assert!(died.is_err());
    let log = store.log();
    let begun = log.iter().position(|one| one.starts_with("begin c"));
    assert_eq!(
        log[begun.unwrap() + 1],
        "targets",
        "before the trial did anything"
    );

    let mut node = FakeNode::new(|_| Act::Complete);
    node.identity = now;
    let stop = node.stop.clone();
    let mut faults = Vec::new();
    let end = resume_with(
        store.id(),
        None,
        &own(&store, store.id()),
        &lab(&store, &node, &stop),
        &judge.dependencies(&node),
        &mut |progress| {
            if let Progress::Ended(ended) = progress {
                faults.extend(ended.faults.iter().map(|fault| fault.message.clone()));
            }
        },
    );
    let end = end.unwrap();
    assert_eq!((end.made, end.completed), (2, 1));
    assert_eq!(
        faults,
        [format!(
            "the target has changed: {what} was a file of 9 bytes, inode 3, and is a file of 9 bytes, inode 77"
        )]
    );
    let bound = node.bound.borrow();
    assert!(bound.iter().all(|plan| plan.configuration.name == "c0"));
}

/// A provision with this command.
fn with_setup(setup: &str) -> Plan {
    let mut plan = plan(2, 1, 1);
    let provision = iodyno_model::Provision {
        setup: Some(setup.to_owned()),
        ..Default::default()
    };
    plan.configurations[0].target = iodyno_model::Target::Made(Box::new(provision));
    plan
}

/// Resumes a run with this plan; returns the plan that then runs.
fn left(stored: &Plan, foreign: bool, permission: &Permission) -> Result<Plan, String> {
    let store = FakeStore::default();
    let id = store.begin_run(stored, 0).unwrap().id;
    store.foreign.set(foreign);
    let left = remaining(&store.run(id).unwrap(), None, permission);
    left.map(|left| left.plan)
        .map_err(|error| error.to_string())
}

#[test]
fn only_the_plan_that_this_user_began_under_the_runs_identity_acts_without_a_question() {
    let plan = with_setup("mine");
    let begun = Permission {
        begun: crate::fingerprint(&plan),
        ..Permission::default()
    };
    assert_eq!(
        left(&plan, false, &begun).unwrap().configurations,
        plan.configurations
    );
    // A store, an export or a record of another run say nothing.
    for (stored, foreign, permission) in [
        (&plan, false, &Permission::default()),
        (&plan, true, &begun),
        (&with_setup("theirs"), false, &begun),
    ] {
        let error = left(stored, foreign, permission).unwrap_err();
        assert!(error.contains("runs: c0.setup="), "{error}");
        assert!(error.contains("uses: /c1, for `c1`"), "{error}");
    }
}

#[test]
fn each_act_is_allowed_by_its_own_text_only() {
    let plan = with_setup("make \u{1b}[2K it");
    let allowed = |texts: &[&str]| {
        let permission = Permission {
            allowed: texts.iter().map(|text| (*text).to_owned()).collect(),
            named: vec![NamedTarget {
                configuration: "c1".to_owned(),
                path: "/c1".into(),
            }],
            ..Permission::default()
        };
        left(&plan, true, &permission)
    };
    // The printed form differs from what would run, so it cannot be used to allow it.
    let printed = "c0.setup=make ?[2K it";
    let error = allowed(&[printed]).unwrap_err();
    assert!(
        error.contains(&format!("`--allow {printed}` names nothing")),
        "{error}"
    );
    for wrong in [
        "c0.setup",
        "c0.setup=make",
        "c0.setup=*",
        "setup=make \u{1b}[2K it",
        "",
    ] {
        assert!(allowed(&[wrong]).is_err(), "{wrong}");
    }
    assert!(allowed(&["c0.setup=make \u{1b}[2K it"]).is_ok());
}

#[test]
fn a_given_plan_is_carried_out_in_place_of_an_equal_one_only() {
    let given = with_setup("m password=x");
    let with = |plan: &Plan| Permission {
        plan: Some(plan.clone()),
        ..Permission::default()
    };
    // As a store has it.
    let stored = Plan {
        looks: vec![1],
        name: "n".to_owned(),
        ..with_setup("m password=*****")
    };
    let plan = left(&stored, true, &with(&given)).unwrap();
    assert_eq!((plan.looks, plan.name.as_str()), (vec![1], "n"));
    assert_eq!(plan.configurations, given.configurations);
    let error = left(&with_setup("evil"), true, &with(&given)).unwrap_err();
    assert!(
        error.contains("configurations[0].target.made.setup: \"evil\" in the run"),
        "{error}"
    );
}

#[test]
fn the_numbers_of_rounds_are_those_of_the_given_plan_unless_the_user_gives_one() {
    let given = plan(2, 1, 3);
    let permission = Permission {
        plan: Some(given.clone()),
        ..Permission::default()
    };
    let mut stored = given.clone();
    stored.rounds = 100_000;
    stored.seed += 1;
    stored.stopping.least_rounds = 5;
    stored.workloads[0].rounds = Some(2);
    let store = FakeStore::default();
    let id = store.begin_run(&stored, 0).unwrap().id;
    store.foreign.set(true);
    let of = |run: &Run, rounds| remaining(run, rounds, &permission);
    let run = store.run(id).unwrap();
    let error = of(&run, None).unwrap_err().to_string();
    for line in [
        "\n  rounds: 100000 in the run, 3 in the file",
        "\n  seed: 8 in the run, 7 in the file",
        "\n  stopping.least_rounds: 5 in the run, 0 in the file",
        "\n  workloads[0].rounds: 2 in the run, nothing in the file",
    ] {
        assert!(error.contains(line), "{error}");
    }
    store.replan(|plan| plan.seed = given.seed);
    let run = store.run(id).unwrap();
    assert_eq!(of(&run, Some(4)).unwrap().plan.rounds, 4);
    // A store of others can have another number beside the plan.
    store.replan(|plan| *plan = given.clone());
    let run = store.run(id).unwrap();
    assert_eq!(run.summary.rounds, 100_000);
    let left = of(&run, None).unwrap();
    assert_eq!((left.plan.rounds, left.trials.len()), (3, 6));
}

/// The number of missing trials of a run of others, of two workloads on one configuration in three rounds, after a
/// change of a given plan and one of the stored one; the first round of both is complete if `results`.
fn missing(
    results: bool,
    rounds: Option<u32>,
    ruled: impl Fn(&mut Plan),
    change: impl Fn(&mut Plan),
    beside: u32,
) -> Result<usize, String> {
    let mut given = plan(1, 2, 3);
    ruled(&mut given);
    let store = match results {
        true => stored(&given, |round, _| {
            (round == 0).then_some(Outcome::Completed)
        }),
        false => stored(&given, |_, _| None),
    };
    store.set_rounds(store.id(), beside).unwrap();
    store.replan(change);
    store.foreign.set(true);
    let permission = Permission {
        plan: Some(given),
        ..Permission::default()
    };
    let left = remaining(&store.run(store.id()).unwrap(), rounds, &permission);
    left.map(|left| left.trials.len())
        .map_err(|error| error.to_string())
}

#[test]
fn a_run_of_others_has_all_rounds_of_the_given_plan_unless_results_show_that_a_rule_ended_it() {
    let plain = |_: &mut Plan| {};
    let by_rule = |plan: &mut Plan| plan.workloads[1].stopping.max_time_ns = Some(1);
    let of_run = |plan: &mut Plan| plan.stopping.max_time_ns = Some(1);
    let ended = |plan: &mut Plan| plan.workloads[1].rounds = Some(1);
    let never = |plan: &mut Plan| plan.workloads[1].rounds = Some(0);
    // The number of a workload, with and without a number of the user.
    assert_eq!(missing(false, Some(4), plain, ended, 3), Ok(8));
    assert_eq!(missing(true, Some(4), plain, ended, 3), Ok(6));
    assert!(missing(false, None, plain, ended, 3).is_err());
    for rounds in [None, Some(3)] {
        assert_eq!(missing(false, rounds, by_rule, ended, 3), Ok(6));
        assert_eq!(missing(true, rounds, by_rule, never, 3), Ok(4));
        assert_eq!(missing(true, rounds, by_rule, ended, 3), Ok(2));
    }
    // The number beside the plan.
    for beside in [0, 1, 9] {
        let plan = |plan: &mut Plan| plan.rounds = 3;
        assert_eq!(missing(false, None, plain, plan, beside), Ok(6));
        assert_eq!(missing(false, None, of_run, plan, beside), Ok(6));
        assert_eq!(missing(true, None, plain, plan, beside), Ok(4));
    }
    let error = missing(true, None, of_run, plain, 1).unwrap_err();
    assert!(error.contains("complete"), "{error}");
}
