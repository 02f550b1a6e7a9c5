//! What is stored comes back, once, and says how far it has come.

mod common;

use common::*;
use iodyno_model::*;
use iodyno_store::{SqliteStore, Store, StoreError};

fn hint_and_text(error: &StoreError) -> String {
    format!("{error} | {}", error.hint().unwrap_or_default())
}

#[test]
fn a_run_is_read_back_as_it_was_stored() {
    let (_folder, path) = fresh();
    let store = SqliteStore::open(&path).unwrap();
    let run = finished_run(&store, "oltp", 3);
    drop(store);

    let store = SqliteStore::open(&path).unwrap();
    let stored = store.run(run).unwrap();
    assert_eq!(stored.plan, plan("oltp", 1, 1));
    assert_eq!(
        store.trial(key(run)).unwrap(),
        trial(key(run), Outcome::Completed)
    );
    assert_eq!(
        store.frames(key(run), 0, 100).unwrap(),
        [frame(0, 60), frame(1, 60), frame(2, 60)]
    );
    let summary = &stored.summary;
    assert_eq!((summary.alias, summary.id), (1, run));
    assert_eq!(summary.state, RunState::Completed);
    assert_eq!(summary.duration_ms, Some(60_000));
    assert_eq!((summary.trials_completed, summary.trials_planned), (1, 1));
    assert_eq!(summary.host.as_deref(), Some("ada"));
    let reads = summary.totals[0];
    assert_eq!((reads.direction, reads.ops), (Direction::Read, 2000));
    assert_eq!(reads.iops(), 1000.0);
    assert_eq!(reads.bytes_per_s(), 4_096_000.0);
    assert_eq!(stored.trials[0].state, TrialState::Completed);
    assert_eq!(stored.trials[0].frames, 3);
}

#[test]
fn a_store_in_memory_keeps_all_but_telemetry_and_makes_no_file() {
    let store = SqliteStore::in_memory().unwrap();
    store.claim().unwrap();
    assert_eq!((store.path(), store.files()), (None, Vec::new()));
    let run = finished_run(&store, "oltp", 3);
    assert_eq!(store.run(run).unwrap().plan, plan("oltp", 1, 1));
    assert_eq!(
        store.trial(key(run)).unwrap(),
        trial(key(run), Outcome::Completed)
    );
    assert_eq!(store.frames(key(run), 0, 100).unwrap().len(), 3);
    let handle = store.begin_run(&plan("next", 1, 1), START_MS).unwrap();
    let key = key(handle.id);
    store.begin_trial(key, "c0", "next", START_MS).unwrap();
    store.append_frame(key, &frame(0, 60)).unwrap();
    store.append_telemetry(key, &telemetry(0, 1)).unwrap();
    assert!(store.telemetry(key, 0, 100).unwrap().is_empty());
    let running = store.trial(key).unwrap();
    let so_far = Outcome::Interrupted("it is still running".to_owned());
    assert_eq!((running.outcome, running.parts.len()), (so_far, 1));
    // No lock file and no database named after SQLite's own name of it.
    let here = std::fs::read_dir(".").unwrap().flatten();
    let names = here.map(|entry| entry.file_name().to_string_lossy().into_owned());
    assert_eq!(names.filter(|name| name.contains("memory")).count(), 0);
}

#[test]
fn frames_are_read_in_batches() {
    let (_folder, path) = fresh();
    let store = SqliteStore::open(&path).unwrap();
    let run = finished_run(&store, "oltp", 10);
    let numbers = |from, limit| -> Vec<u32> {
        let frames = store.frames(key(run), from, limit).unwrap();
        frames.iter().map(|frame| frame.number).collect()
    };
    assert_eq!(numbers(0, 4), [0, 1, 2, 3]);
    assert_eq!(numbers(8, 4), [8, 9]);
    assert!(numbers(10, 4).is_empty());
    assert_eq!(numbers(0, usize::MAX).len(), 10);
}

#[test]
fn storing_is_idempotent_and_a_contradiction_is_refused() {
    let (_folder, path) = fresh();
    let store = SqliteStore::open(&path).unwrap();
    let run = store.begin_run(&plan("p", 1, 1), START_MS).unwrap().id;
    let key = key(run);
    for _ in 0..2 {
        store.begin_trial(key, "c0", "p", START_MS).unwrap();
        store.set_environment(key, "", &environment("ada")).unwrap();
        store.append_frame(key, &frame(0, 60)).unwrap();
        store.append_frame(key, &frame(1, 60)).unwrap();
    }
    let listed = store.run(run).unwrap().trials.remove(0);
    assert_eq!(listed.frames, 2);
    assert_eq!(
        listed.totals[0].ops, 120,
        "a repeated frame is not counted twice"
    );

    let refused = |result: Result<(), StoreError>| {
        assert!(matches!(result, Err(StoreError::Conflict(_))), "{result:?}");
    };
    refused(store.begin_trial(key, "c0", "p", START_MS + 1));
    refused(store.append_frame(key, &frame(1, 61)));
    refused(store.set_environment(key, "", &environment("bob")));
    refused(store.begin_trial(TrialKey { cell: 1, ..key }, "c1", "p", START_MS));
    refused(store.finish_run(run, RunState::Running, START_MS));
    refused(store.append_frame(
        key,
        &Frame {
            end_ns: 0,
            ..frame(2, 60)
        },
    ));

    for _ in 0..2 {
        store.finish_trial(&trial(key, Outcome::Completed)).unwrap();
        store.append_frame(key, &frame(1, 60)).unwrap();
    }
    refused(store.finish_trial(&trial(key, Outcome::Failed("EIO".to_owned()))));
    refused(store.append_frame(key, &frame(2, 60)));
    assert_eq!(store.frames(key, 0, 9).unwrap().len(), 2);
    assert_eq!(store.trial(key).unwrap(), trial(key, Outcome::Completed));
}

#[test]
fn a_missing_trial_is_reported() {
    let (_folder, path) = fresh();
    let store = SqliteStore::open(&path).unwrap();
    let run = store.begin_run(&plan("p", 1, 1), START_MS).unwrap().id;
    let errors = [
        store.append_frame(key(run), &frame(0, 1)).unwrap_err(),
        store.trial(key(run)).unwrap_err(),
        store.frames(key(run), 0, 1).unwrap_err(),
        store
            .finish_trial(&trial(key(run), Outcome::Completed))
            .unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, StoreError::NoSuchTrial(_)), "{error:?}");
        assert!(
            error.to_string().contains("round 0, cell 0, attempt 0"),
            "{error}"
        );
    }
    let elsewhere = store.run(RunId::fresh()).unwrap_err();
    assert!(
        matches!(elsewhere, StoreError::NoSuchRun { .. }),
        "{elsewhere:?}"
    );
}

#[test]
fn figures_that_json_cannot_represent_are_refused_when_they_are_stored() {
    let (_folder, path) = fresh();
    let store = SqliteStore::open(&path).unwrap();
    let run = store.begin_run(&plan("p", 1, 1), START_MS).unwrap().id;
    store.begin_trial(key(run), "c0", "p", START_MS).unwrap();
    let mut trial = trial(key(run), Outcome::Completed);
    trial.parts[0].clones[0].directions[0].iops.mean = f64::NAN;
    let error = store.finish_trial(&trial).unwrap_err();
    assert!(matches!(error, StoreError::NotStorable { .. }), "{error:?}");
    trial.parts[0].clones[0].directions[0].iops.mean = 0.1 + 0.2;
    store.finish_trial(&trial).unwrap();
    assert_eq!(store.trial(key(run)).unwrap(), trial);
}

#[test]
fn a_run_is_running_while_its_process_lives_and_interrupted_afterwards() {
    let (_folder, path) = fresh();
    let store = SqliteStore::open(&path).unwrap();
    let reader = SqliteStore::open_for_reading(&path).unwrap();
    let run = store.begin_run(&plan("p", 1, 1), START_MS).unwrap().id;
    store.begin_trial(key(run), "c0", "p", START_MS).unwrap();
    store
        .set_environment(key(run), "", &environment("ada"))
        .unwrap();
    for number in 0..3 {
        store.append_frame(key(run), &frame(number, 300)).unwrap();
    }
    let states = || {
        let run = reader.run(run).unwrap();
        (run.summary.state, run.trials[0].state)
    };
    assert_eq!(states(), (RunState::Running, TrialState::Running));
    assert_eq!(reader.run(run).unwrap().summary.duration_ms, None);
    drop(store);
    assert_eq!(states(), (RunState::Interrupted, TrialState::Interrupted));

    let trial = reader.trial(key(run)).unwrap();
    let process = std::process::id().to_string();
    assert!(
        trial.outcome.reason().unwrap().contains(&process),
        "{:?}",
        trial.outcome
    );
    assert_eq!(trial.outcome.state(), TrialState::Interrupted);
    assert_eq!(trial.parts[0].environment, environment("ada"));
    let reads = trial.parts[0].clones[0].direction(Direction::Read).unwrap();
    assert_eq!((reads.ops, reads.service.count()), (900, 900));
    let listed = reader.run(run).unwrap();
    assert_eq!(listed.summary.duration_ms, Some(3000));
    assert_eq!(listed.summary.totals[0].iops(), 300.0);
    assert_eq!(listed.summary.trials_completed, 0);
}

#[test]
fn a_trial_interrupted_before_it_was_prepared_has_no_part() {
    let (_folder, path) = fresh();
    let store = SqliteStore::open(&path).unwrap();
    let run = store.begin_run(&plan("p", 1, 1), START_MS).unwrap().id;
    store.begin_trial(key(run), "c0", "p", START_MS).unwrap();
    drop(store);
    let trial = SqliteStore::open(&path).unwrap().trial(key(run)).unwrap();
    assert_eq!(trial.outcome.state(), TrialState::Interrupted);
    assert!(trial.parts.is_empty());
}

#[test]
fn an_interrupted_run_is_resumed_by_one_process_only() {
    let (_folder, path) = fresh();
    let first = SqliteStore::open(&path).unwrap();
    let handle = first.begin_run(&plan("p", 1, 2), START_MS).unwrap();
    let run = handle.id;
    first.begin_trial(key(run), "c0", "p", START_MS).unwrap();
    first.append_frame(key(run), &frame(0, 60)).unwrap();

    let second = SqliteStore::open(&path).unwrap();
    let refused = second.resume_run(run).unwrap_err();
    assert!(
        matches!(refused, StoreError::RunIsLive { alias: 1, .. }),
        "{refused:?}"
    );
    let stranger = second.append_frame(key(run), &frame(1, 60)).unwrap_err();
    assert!(matches!(stranger, StoreError::Conflict(_)), "{stranger:?}");
    drop(first);

    assert_eq!(second.resume_run(run).unwrap(), handle);
    let again = TrialKey {
        attempt: 1,
        ..key(run)
    };
    second.begin_trial(again, "c0", "p", START_MS).unwrap();
    second
        .finish_trial(&trial(again, Outcome::Completed))
        .unwrap();
    let stored = second.run(run).unwrap();
    assert_eq!(stored.summary.state, RunState::Running);
    assert_eq!(stored.summary.trials_completed, 1);
    let states: Vec<_> = stored.trials.iter().map(|trial| trial.state).collect();
    assert_eq!(states, [TrialState::Interrupted, TrialState::Completed]);
    second
        .finish_run(run, RunState::Failed, START_MS + 9)
        .unwrap();
    assert_eq!(second.run(run).unwrap().summary.state, RunState::Failed);
}

#[test]
fn lists_runs_page_by_page_newest_first() {
    let (_folder, path) = fresh();
    let store = SqliteStore::open(&path).unwrap();
    assert!(store.runs(10, 0).unwrap().is_empty());
    for number in 0..5 {
        store
            .begin_run(&plan(&format!("r{number}"), 2, 3), START_MS)
            .unwrap();
    }
    let aliases = |limit, offset| -> Vec<u64> {
        let runs = store.runs(limit, offset).unwrap();
        runs.iter().map(|run| run.alias).collect()
    };
    assert_eq!(aliases(10, 0), [5, 4, 3, 2, 1]);
    assert_eq!(aliases(2, 1), [4, 3]);
    assert!(aliases(usize::MAX, 5).is_empty());
    let newest = store.runs(1, 0).unwrap().remove(0);
    assert_eq!(
        (newest.cells, newest.rounds, newest.trials_planned),
        (2, 3, 6)
    );
    assert_eq!((newest.name.as_str(), newest.host), ("r4", None));
}

#[test]
fn finds_runs_by_all_their_names() {
    let (_folder, path) = fresh();
    let store = SqliteStore::open(&path).unwrap();
    let empty = store.find("last").unwrap_err();
    assert!(empty.to_string().contains("the store is empty"), "{empty}");

    let names = ["randrw", "seqread", "randrw", "face", "7"];
    let runs: Vec<RunId> = names
        .iter()
        .map(|name| store.begin_run(&plan(name, 1, 1), START_MS).unwrap().id)
        .collect();
    let whole = runs[1].to_string();
    let upper = whole.to_uppercase();
    let unique = whole.len() - 1;
    let check = |name: &str, expected: usize| {
        assert_eq!(store.find(name).unwrap(), runs[expected], "{name}");
    };
    check("1", 0);
    check("5", 4);
    check("last", 4);
    check("last~0", 4);
    check("last~4", 0);
    check("seqread", 1);
    check(" seqread ", 1);
    check("face", 3);
    check("7", 4);
    check(&whole, 1);
    check(&upper, 1);
    check(&whole[..unique], 1);
    check(&whole.replace('-', ""), 1);

    let refuse = |name: &str, words: &[&str]| {
        let error = store.find(name).unwrap_err();
        let text = hint_and_text(&error);
        for word in words {
            assert!(text.contains(word), "`{name}`: {text}");
        }
    };
    refuse("42", &["no run `42`", "the newest is 5", "iodyno list"]);
    refuse("0", &["no run `0`"]);
    refuse("-1", &["no run `-1`"]);
    refuse("99999999999999999999", &["the newest is 5"]);
    refuse("last~5", &["the store has 5 runs", "last~4"]);
    refuse("last~x", &["no run `last~x`"]);
    refuse("last~-1", &["no run `last~-1`"]);
    refuse("randrw", &["any of 2 runs: 3, 1"]);
    refuse("seqraed", &["did you mean `seqread` (run 2)?"]);
    refuse("randwr", &["did you mean `randrw` (run 3)?"]);
    refuse("zzz", &["the newest is 5"]);
    refuse(&whole[..4], &["any of 5 runs", "(01", "seqread)"]);
    refuse(&whole[..3], &["no run"]);
    refuse("", &["no run ``"]);
    refuse("%", &["no run `%`"]);
    refuse("' OR 1=1 --", &["no run"]);
}

#[test]
fn an_ambiguous_name_lists_the_newest_few() {
    let (_folder, path) = fresh();
    let store = SqliteStore::open(&path).unwrap();
    for _ in 0..12 {
        store.begin_run(&plan("oltp", 1, 1), START_MS).unwrap();
    }
    let text = store.find("oltp").unwrap_err().to_string();
    assert!(
        text.contains("any of 12 runs: 12, 11, 10, 9, 8, 7, 6, 5, …"),
        "{text}"
    );
}

#[test]
fn a_run_whose_trials_have_all_ended_has_ended_even_if_its_process_was_killed() {
    let failed = Outcome::Failed("EIO".to_owned());
    // The outcome of each attempt of the second of two trials; `None`: it was cut off.
    for (attempts, state) in [
        (vec![], RunState::Interrupted),
        (vec![None], RunState::Interrupted),
        (vec![Some(Outcome::Completed)], RunState::Completed),
        (vec![Some(failed.clone())], RunState::Failed),
        (vec![Some(failed.clone()), None], RunState::Interrupted),
        (vec![None, Some(Outcome::Completed)], RunState::Completed),
    ] {
        let (_folder, path) = fresh();
        let store = SqliteStore::open(&path).unwrap();
        let run = store.begin_run(&plan("p", 1, 2), START_MS).unwrap().id;
        let make = |key: TrialKey, outcome: Option<Outcome>| {
            store.begin_trial(key, "c0", "p", START_MS).unwrap();
            if let Some(outcome) = outcome {
                store.finish_trial(&trial(key, outcome)).unwrap();
            }
        };
        make(key(run), Some(Outcome::Completed));
        for (attempt, outcome) in attempts.iter().enumerate() {
            let (round, attempt) = (1, attempt as u32);
            let key = TrialKey {
                round,
                attempt,
                ..key(run)
            };
            make(key, outcome.clone());
        }
        assert_eq!(store.run(run).unwrap().summary.state, RunState::Running);
        drop(store);
        let store = SqliteStore::open(&path).unwrap();
        assert_eq!(store.run(run).unwrap().summary.state, state, "{attempts:?}");
        assert_eq!(store.runs(9, 0).unwrap()[0].state, state);
    }
}

#[test]
fn targets_are_stored_but_not_exported() {
    let (_folder, path) = fresh();
    let store = SqliteStore::open(&path).unwrap();
    let run = store.begin_run(&plan("p", 1, 2), START_MS).unwrap().id;
    assert_eq!(store.targets(run).unwrap(), []);
    let targets = |path: &str| {
        vec![KnownTarget {
            node: String::new(),
            path: path.into(),
            identity: Identity::Absent,
        }]
    };
    for round in 0..2 {
        let key = TrialKey { round, ..key(run) };
        store.begin_trial(key, "c0", "p", START_MS).unwrap();
        store.set_targets(key, &targets("/early")).unwrap();
        store.set_targets(key, &targets("/late")).unwrap();
        store.finish_trial(&trial(key, Outcome::Completed)).unwrap();
        assert_eq!(store.targets(run).unwrap(), targets("/late"));
    }
    store
        .finish_run(run, RunState::Completed, START_MS)
        .unwrap();
    assert!(!store.run(run).unwrap().foreign);
    let mut file = Vec::new();
    iodyno_store::export(&store, run, &mut file).unwrap();

    let (_folder, path) = fresh();
    let other = SqliteStore::open(&path).unwrap();
    other.import(&mut file.as_slice()).unwrap();
    assert_eq!(other.targets(run).unwrap(), []);
    assert!(other.run(run).unwrap().foreign);
    other.resume_run(run).unwrap();
    assert!(other.run(run).unwrap().foreign, "its trials are not ours");
}

#[test]
fn a_run_gets_another_name_and_keeps_it_when_its_export_is_imported_again() {
    let (_folder, path) = fresh();
    let store = SqliteStore::open(&path).unwrap();
    let run = finished_run(&store, "oltp", 1);
    let mut export = Vec::new();
    iodyno_store::export(&store, run, &mut export).unwrap();
    store.rename_run(run, "before").unwrap();
    let stored = store.run(run).unwrap();
    assert_eq!(
        (stored.plan.name.as_str(), stored.summary.name.as_str()),
        ("before", "before")
    );
    assert_eq!(store.find("before").unwrap(), run);
    assert!(store.find("oltp").is_err());
    let report = store.import(&mut export.as_slice()).unwrap();
    assert!(!report.new_run);
    assert_eq!(store.run(run).unwrap().plan.name, "before");
}

#[test]
fn deleted_runs_leave_their_space_to_later_ones() {
    let (_folder, path) = fresh();
    let store = SqliteStore::open(&path).unwrap();
    let kept = finished_run(&store, "kept", 3);
    let runs: Vec<RunId> = (0..20).map(|_| finished_run(&store, "oltp", 40)).collect();
    drop(store);
    let size = || std::fs::metadata(&path).unwrap().len();
    let full = size();
    let store = SqliteStore::open(&path).unwrap();
    let numbers: Vec<u64> = (2..=21).collect();
    store.delete_runs(&numbers).unwrap();
    assert_eq!(store.runs(100, 0).unwrap().len(), 1);
    assert_eq!(store.frames(key(kept), 0, 100).unwrap().len(), 3);
    assert!(matches!(
        store.trial(key(runs[0])),
        Err(StoreError::NoSuchTrial(_))
    ));
    assert!(matches!(
        store.delete_runs(&numbers),
        Err(StoreError::NoSuchRun { .. })
    ));
    for _ in 0..20 {
        finished_run(&store, "oltp", 40);
    }
    // Numbers are not used again.
    assert_eq!(store.runs(1, 0).unwrap()[0].alias, 41);
    drop(store);
    assert!(size() <= full + full / 10, "{} after {full}", size());
}

#[test]
fn a_run_in_progress_is_not_deleted_and_neither_are_those_beside_it() {
    let (_folder, path) = fresh();
    let store = SqliteStore::open(&path).unwrap();
    finished_run(&store, "oltp", 1);
    store.begin_run(&plan("next", 1, 1), START_MS).unwrap();
    let error = store.delete_runs(&[1, 2]).unwrap_err();
    assert!(
        hint_and_text(&error).contains("run 2 is being carried out"),
        "{error}"
    );
    assert_eq!(store.runs(10, 0).unwrap().len(), 2);
}

#[test]
fn verdicts_are_listed_until_the_run_is_resumed() {
    let (_folder, path) = fresh();
    let store = SqliteStore::open(&path).unwrap();
    let run = finished_run(&store, "oltp", 1);
    assert_eq!(store.runs(9, 0).unwrap()[0].verdicts, None);
    let verdicts = VerdictCounts {
        slower: 1,
        ..VerdictCounts::default()
    };
    store.set_verdicts(run, &verdicts).unwrap();
    assert_eq!(store.runs(9, 0).unwrap()[0].verdicts, Some(verdicts));
    drop(store);
    let store = SqliteStore::open(&path).unwrap();
    let stranger = store.set_verdicts(run, &verdicts).unwrap_err();
    assert!(matches!(stranger, StoreError::Conflict(_)), "{stranger:?}");
    store.resume_run(run).unwrap();
    assert_eq!(store.runs(9, 0).unwrap()[0].verdicts, None);
}
