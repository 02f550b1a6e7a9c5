//! Telemetry of the host: appended during a trial, packed after it, and complete.

mod common;

use common::*;
use iodyno_model::*;
use iodyno_store::{SqliteStore, Store, StoreError};

/// Starts a run with one trial and this number of batches.
fn begun(store: &SqliteStore, batches: u32) -> TrialKey {
    let run = store.begin_run(&plan("p", 1, 1), START_MS).unwrap().id;
    let key = key(run);
    store.begin_trial(key, "c0", "p", START_MS).unwrap();
    for number in 0..batches {
        store
            .append_telemetry(key, &telemetry(number, u64::from(number)))
            .unwrap();
    }
    key
}

fn all(store: &SqliteStore, key: TrialKey) -> Vec<TelemetryBatch> {
    store.telemetry(key, 0, usize::MAX).unwrap()
}

fn expected(batches: std::ops::Range<u32>) -> Vec<TelemetryBatch> {
    let batches = batches.map(|number| telemetry(number, u64::from(number)));
    batches.collect()
}

/// The number of rows in the table of telemetry.
fn rows(path: &std::path::Path) -> u32 {
    let connection = rusqlite::Connection::open(path).unwrap();
    let rows = connection.query_row("SELECT count(*) FROM telemetry", [], |row| row.get(0));
    rows.unwrap()
}

#[test]
fn batches_are_read_as_they_were_appended_before_and_after_packing() {
    let (_folder, path) = fresh();
    let store = SqliteStore::open(&path).unwrap();
    let key = begun(&store, 5000);
    let check = |rows_now: u32| {
        assert_eq!(rows(&path), rows_now);
        assert_eq!(all(&store, key), expected(0..5000));
        for (from, limit, range) in [
            (0, 3, 0..3),
            (0, 0, 0..0),
            (100, 1, 100..101),
            (2046, 4, 2046..2050),
            (4090, 50, 4090..4140),
            (4999, 9, 4999..5000),
            (5000, 9, 0..0),
            (u32::MAX, 9, 0..0),
        ] {
            let read = store.telemetry(key, from, limit).unwrap();
            assert!(read == expected(range), "{limit} from {from}");
        }
    };
    check(5000);
    store.finish_trial(&trial(key, Outcome::Completed)).unwrap();
    check(5000);
    store.pack_trial(key);
    check(3);
    store.pack_trial(key);
    store.finish_trial(&trial(key, Outcome::Completed)).unwrap();
    check(3);
    drop(store);
    assert_sound(&path);
}

#[test]
fn appending_is_idempotent_and_a_contradiction_is_refused() {
    let (_folder, path) = fresh();
    let store = SqliteStore::open(&path).unwrap();
    let key = begun(&store, 3);
    let refused = |result: Result<(), StoreError>, words: &str| match result {
        Err(StoreError::Conflict(text)) => assert!(text.contains(words), "{text}"),
        other => panic!("{other:?}"),
    };
    let other = "another batch 1 of telemetry";
    store.append_telemetry(key, &telemetry(1, 1)).unwrap();
    refused(store.append_telemetry(key, &telemetry(1, 2)), other);
    // A number may be left out.
    store.append_telemetry(key, &telemetry(4, 4)).unwrap();
    store.finish_trial(&trial(key, Outcome::Completed)).unwrap();
    for number in [0, 1, 2, 4] {
        let same = telemetry(number, u64::from(number));
        store.append_telemetry(key, &same).unwrap();
    }
    refused(store.append_telemetry(key, &telemetry(1, 2)), other);
    for late in [3, 5] {
        refused(
            store.append_telemetry(key, &telemetry(late, 3)),
            "has ended already",
        );
    }
    let numbers: Vec<u32> = all(&store, key).iter().map(|batch| batch.number).collect();
    assert_eq!(numbers, [0, 1, 2, 4]);
    let nowhere = TrialKey { round: 7, ..key };
    for error in [
        store
            .append_telemetry(nowhere, &telemetry(0, 0))
            .unwrap_err(),
        store.telemetry(nowhere, 0, 1).unwrap_err(),
    ] {
        assert!(matches!(error, StoreError::NoSuchTrial(_)), "{error:?}");
    }
}

#[test]
fn the_record_is_stored_without_series() {
    let (_folder, path) = fresh();
    let store = SqliteStore::open(&path).unwrap();
    let key = begun(&store, 1);
    let whole = Trial {
        frames: vec![frame(0, 9)],
        telemetry: telemetry(0, 9).telemetry,
        ..trial(key, Outcome::Completed)
    };
    store.finish_trial(&whole).unwrap();
    assert_eq!(store.trial(key).unwrap(), trial(key, Outcome::Completed));
    assert_eq!(all(&store, key), expected(0..1));
}

#[test]
fn an_interrupted_trial_keeps_its_batches_and_is_packed_when_its_run_is_resumed() {
    let (_folder, path) = fresh();
    let key = begun(&SqliteStore::open(&path).unwrap(), 3000);
    let check = |store: &SqliteStore, rows_now: u32| {
        let states = store.run(key.run).unwrap().trials;
        assert_eq!(states[0].state, TrialState::Interrupted);
        assert_eq!(rows(&path), rows_now);
        assert_eq!(all(store, key), expected(0..3000));
        assert!(store.trial(key).unwrap().telemetry.is_empty());
    };
    check(&SqliteStore::open_for_reading(&path).unwrap(), 3000);
    let store = SqliteStore::open(&path).unwrap();
    store.resume_run(key.run).unwrap();
    check(&store, 2);
    drop(store);
    SqliteStore::open(&path)
        .unwrap()
        .resume_run(key.run)
        .unwrap();
    check(&SqliteStore::open_for_reading(&path).unwrap(), 2);
    assert_sound(&path);
}

#[test]
fn telemetry_that_cannot_be_packed_does_not_affect_the_trial() {
    let (_folder, path) = fresh();
    let store = SqliteStore::open(&path).unwrap();
    let key = begun(&store, 5000);
    let stubborn = rusqlite::Connection::open(&path).unwrap();
    // Between two segments, and within one: the first is packed, the second is not.
    stubborn
        .execute_batch(
            "CREATE TRIGGER stubborn BEFORE DELETE ON telemetry WHEN old.number > 3000
             BEGIN SELECT raise(ABORT, 'no'); END",
        )
        .unwrap();
    store.finish_trial(&trial(key, Outcome::Completed)).unwrap();
    store.pack_trial(key);
    assert_eq!(rows(&path), 1 + 5000 - 2048);
    assert_eq!(all(&store, key), expected(0..5000));
    store.append_telemetry(key, &telemetry(4000, 4000)).unwrap();
    stubborn.execute_batch("DROP TRIGGER stubborn").unwrap();
    store.finish_trial(&trial(key, Outcome::Completed)).unwrap();
    store.pack_trial(key);
    assert_eq!(rows(&path), 3);
    assert_eq!(all(&store, key), expected(0..5000));
}
