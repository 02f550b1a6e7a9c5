//! Runs of many rounds: fewer or more than planned, and 1000 trials.

mod common;

use common::*;
use iodyno_model::*;
use iodyno_store::{SqliteStore, Store, StoreError, export};

/// Stores a run of two cells with this number of rounds, and of frames per trial.
fn run_of(store: &SqliteStore, planned: u32, made: u32, frames: u32) -> RunId {
    let run = store
        .begin_run(&plan("p", 2, planned), START_MS)
        .unwrap()
        .id;
    rounds(store, run, 0..made, frames);
    run
}

fn rounds(store: &SqliteStore, run: RunId, which: std::ops::Range<u32>, frames: u32) {
    let made = trial(key(run), Outcome::Completed);
    let frames: Vec<Frame> = (0..frames).map(|number| frame(number, 60)).collect();
    for (round, cell) in which.flat_map(|round| [(round, 0), (round, 1)]) {
        let key = TrialKey {
            round,
            cell,
            ..key(run)
        };
        store.begin_trial(key, "c0", "p", START_MS).unwrap();
        store.set_environment(key, "", &environment("ada")).unwrap();
        for frame in &frames {
            store.append_frame(key, frame).unwrap();
        }
        let trial = Trial {
            key,
            ..made.clone()
        };
        store.finish_trial(&trial).unwrap();
    }
}

fn finish(store: &SqliteStore, run: RunId, at_ms: u64) {
    store
        .finish_run(run, RunState::Completed, START_MS + at_ms)
        .unwrap();
}

fn exported(store: &SqliteStore, run: RunId) -> Vec<u8> {
    let mut file = Vec::new();
    export(store, run, &mut file).unwrap();
    file
}

fn counts(store: &SqliteStore, run: RunId) -> (u32, u64, u64, u32) {
    let run = store.run(run).unwrap();
    let summary = run.summary;
    (
        summary.rounds,
        summary.trials_planned,
        summary.trials_completed,
        run.plan.rounds,
    )
}

#[test]
fn a_workload_that_a_rule_stopped_has_no_further_trials() {
    let ((_a, a), (_b, b)) = (fresh(), fresh());
    let store = SqliteStore::open(a).unwrap();
    let run = run_of(&store, 50, 3, 1);
    let before = exported(&store, run);
    store.end_workload(run, 0, 20).unwrap();
    assert_eq!(counts(&store, run), (50, 40, 6, 50));
    store.set_rounds(run, 60).unwrap();
    assert_eq!(counts(&store, run), (60, 40, 6, 60));
    store.set_rounds(run, 10).unwrap();
    assert_eq!(counts(&store, run), (10, 20, 6, 60));
    let error = store.end_workload(run, 9, 1).unwrap_err();
    assert!(matches!(error, StoreError::Conflict(_)), "{error}");
    finish(&store, run, 1000);
    let away = SqliteStore::open(b).unwrap();
    away.import(&mut before.as_slice()).unwrap();
    away.import(&mut exported(&store, run).as_slice()).unwrap();
    assert_eq!(store.run(run).unwrap().plan.workloads[0].rounds, Some(20));
}

#[test]
fn a_run_stopped_by_a_rule_has_the_completed_rounds_and_its_original_plan() {
    let ((_a, a), (_b, b)) = (fresh(), fresh());
    let store = SqliteStore::open(a).unwrap();
    let run = run_of(&store, 50, 3, 1);
    assert_eq!(counts(&store, run), (50, 100, 6, 50));
    store.set_rounds(run, 3).unwrap();
    finish(&store, run, 1000);
    assert_eq!(counts(&store, run), (3, 6, 6, 50));

    let away = SqliteStore::open(b).unwrap();
    away.import(&mut exported(&store, run).as_slice()).unwrap();
    assert_eq!(counts(&away, run), (3, 6, 6, 50));
}

#[test]
fn rounds_added_in_another_store_are_imported() {
    let ((_a, a), (_b, b)) = (fresh(), fresh());
    let home = SqliteStore::open(a).unwrap();
    let run = run_of(&home, 2, 2, 1);
    finish(&home, run, 1000);
    let early = exported(&home, run);
    let away = SqliteStore::open(b).unwrap();
    away.import(&mut early.as_slice()).unwrap();
    away.resume_run(run).unwrap();
    for _ in 0..2 {
        away.note_look(run, 2).unwrap();
    }
    away.set_rounds(run, 4).unwrap();
    rounds(&away, run, 2..4, 1);
    finish(&away, run, 9000);
    assert_eq!(counts(&away, run), (4, 8, 8, 4));

    let report = home.import(&mut exported(&away, run).as_slice()).unwrap();
    assert_eq!((report.trials_known, report.trials_added), (4, 4));
    assert_eq!(counts(&home, run), (4, 8, 8, 4));
    assert_eq!(home.run(run).unwrap().plan.looks, [2]);
    // An older export of the run contains nothing new and removes nothing.
    assert!(
        home.import(&mut early.as_slice())
            .unwrap()
            .changed_nothing()
    );
    assert_eq!(counts(&home, run), (4, 8, 8, 4));
}

#[test]
fn the_rounds_of_another_processs_run_are_not_changed() {
    let (_folder, path) = fresh();
    let first = SqliteStore::open(&path).unwrap();
    let run = run_of(&first, 2, 0, 0);
    let second = SqliteStore::open(&path).unwrap();
    for (run, matches) in [(run, "not this process's"), (RunId::fresh(), "no run")] {
        let error = second.set_rounds(run, 9).unwrap_err();
        assert!(error.to_string().contains(matches), "{error}");
        assert!(
            matches!(
                error,
                StoreError::Conflict(_) | StoreError::NoSuchRun { .. }
            ),
            "{error:?}"
        );
    }
    assert_eq!(counts(&first, run).0, 2);
}

#[test]
fn a_thousand_trials_are_listed_and_read_one_by_one() {
    let (_folder, path) = fresh();
    let store = SqliteStore::open(&path).unwrap();
    let run = run_of(&store, 500, 500, 2);
    finish(&store, run, 1000);
    drop(store);

    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(store.runs(10, 0).unwrap()[0].trials_completed, 1000);
    let stored = store.run(run).unwrap();
    assert_eq!(stored.trials.len(), 1000);
    for trial in &stored.trials {
        assert!(store.trial(trial.key).unwrap().frames.is_empty());
        assert_eq!(store.frames(trial.key, 0, usize::MAX).unwrap().len(), 2);
    }
}
