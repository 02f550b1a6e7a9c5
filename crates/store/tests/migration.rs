//! Stores of every released schema are brought up to date and keep what they hold.

mod common;

use common::assert_sound;
use iodyno_model::*;
use iodyno_store::{SqliteStore, Store};

/// Makes a store from a fixture: SQL text, written by hand when its schema was released.
fn fixture(sql: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.db");
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch(sql)
        .unwrap();
    (folder, path)
}

/// What turns the fixture of schema 1 into each schema that was released since.
const RELEASED: [&str; 2] = [
    "",
    "ALTER TABLE runs ADD COLUMN imported INTEGER NOT NULL DEFAULT 0; PRAGMA user_version = 2;",
];

#[test]
fn stores_of_older_schemas_are_read_and_written_on() {
    RELEASED.iter().for_each(|since| reads_and_writes(since));
}

fn reads_and_writes(since: &str) {
    let (_folder, path) = fixture(&(include_str!("fixtures/schema-1.sql").to_owned() + since));
    let store = SqliteStore::open(&path).unwrap();
    let done = store.find("1").unwrap();
    assert_eq!(done.to_string(), "0199c0de-0000-7000-8000-000000000001");
    let run = store.run(done).unwrap();
    assert_eq!(
        (run.summary.name.as_str(), run.summary.state),
        ("null", RunState::Completed)
    );
    assert_eq!(run.summary.totals[0].iops(), 3.0);
    assert_eq!(run.summary.imported, 0, "schema 2 knows imported runs");
    assert_eq!(run.plan.command, ["run", "null.fio"]);
    let trial = store.trial(run.trials[0].key).unwrap();
    assert_eq!(trial.outcome, Outcome::Completed);
    assert_eq!(trial.parts[0].environment.host, "ada");

    let cut_off = store.run(store.find("last").unwrap()).unwrap();
    assert_eq!(cut_off.summary.state, RunState::Interrupted);
    let key = cut_off.trials[0].key;
    let frames = store.frames(key, 0, 9).unwrap();
    assert_eq!((frames.len(), frames[0].ops(Direction::Read)), (1, 3));
    assert!(store.telemetry(key, 0, 9).unwrap().is_empty());
    let trial = store.trial(key).unwrap();
    let reads = trial.parts[0].clones[0].direction(Direction::Read).unwrap();
    assert_eq!((reads.ops, reads.service.max_ns()), (3, 2000));
    assert!(trial.outcome.reason().unwrap().contains("4711"));

    let new = common::finished_run(&store, "p", 3);
    assert_eq!(store.run(new).unwrap().summary.alias, 3);
    assert_eq!(store.telemetry(common::key(new), 0, 9).unwrap().len(), 3);
    drop(store);
    assert_sound(&path);
}
