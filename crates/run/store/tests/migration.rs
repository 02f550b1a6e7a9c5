//! Stores of every released schema are upgraded and keep their data.

mod common;

use std::io::{BufRead, BufReader, Write};

use common::assert_sound;
use iodyno_model::*;
use iodyno_store::{SqliteStore, Store};

/// Creates a store from a fixture: SQL text, written when its schema was released.
fn fixture(sql: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.db");
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch(sql)
        .unwrap();
    (folder, path)
}

/// Changes the fixture of schema 1 into each schema released since.
const RELEASED: [&str; 2] = [
    "",
    "ALTER TABLE runs ADD COLUMN imported INTEGER NOT NULL DEFAULT 0; PRAGMA user_version = 2;",
];

#[test]
fn stores_of_older_schemas_can_be_read_and_written() {
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
/// Runs of all kinds of work, as the program of schema 3 stored them.
const SCHEMA_3: &str = include_str!("fixtures/schema-3.sql");

/// Changes this fixture into one of each schema.
const SCHEMAS: [(u32, &str); 3] = [
    (
        1,
        "DROP TABLE telemetry; ALTER TABLE runs DROP COLUMN imported; PRAGMA user_version = 1;",
    ),
    (2, "DROP TABLE telemetry; PRAGMA user_version = 2;"),
    (3, ""),
];

fn kinds(store: &SqliteStore, run: &str) -> Vec<&'static str> {
    let run = store.run(store.find(run).unwrap()).unwrap();
    let jobs = run.plan.workloads.iter().flat_map(|w| &w.jobs);
    jobs.map(|job| match job.work {
        Work::Blocks(_) => "blocks",
        Work::FileOperations(_) => "file operations",
        Work::SharedFiles(_) => "shared files",
    })
    .collect()
}

/// Every run exists with its kind of work, its figures and its settings.
fn assert_upgraded(store: &SqliteStore) {
    assert_eq!(kinds(store, "1"), ["blocks", "blocks"]);
    assert_eq!(kinds(store, "2"), ["file operations"]);
    assert_eq!(kinds(store, "3"), ["blocks"]);
    assert_eq!(kinds(store, "4"), ["shared files"]);
    assert_eq!(kinds(store, "5"), ["shared files"]);
    for summary in store.runs(9, 0).unwrap() {
        let run = store.run(summary.id).unwrap();
        assert_eq!(run.plan.schema, SCHEMA);
        for trial in &run.trials {
            let trial = store.trial(trial.key).unwrap();
            assert!(!trial.parts[0].clones.is_empty(), "{}", summary.name);
        }
    }
    let plan = |name: &str| store.run(store.find(name).unwrap()).unwrap().plan;
    let simulated = plan("1");
    let [reads, writes] = simulated.workloads[0].jobs.as_slice() else {
        panic!("{simulated:?}")
    };
    let blocks = reads.work.blocks().unwrap();
    assert_eq!(
        (blocks.engine.kind, blocks.engine.depth),
        (EngineKind::Sim, 2)
    );
    assert!(blocks.passes.time_based && blocks.passes.loops == 1);
    assert_eq!(blocks.extent.size, Some(Amount::Bytes(1 << 20)));
    assert_eq!(blocks.access.order, Order::Random);
    let blocks = writes.work.blocks().unwrap();
    assert_eq!(
        (blocks.access.pattern(), blocks.access.max_block()),
        ("write", 8192)
    );
    let operations = &plan("2").workloads[0].jobs[0];
    let cycle = &operations.work.file_operations().unwrap().cycle;
    assert_eq!(
        (cycle[0].action.clone(), operations.clones),
        (Action::Create, 2)
    );
    let shared = &plan("5").workloads[0].jobs[0];
    let shared = shared.work.shared_files().unwrap();
    assert_eq!(
        (shared.count, shared.file_size, shared.seed),
        (2, 32 << 10, Some(7))
    );
    assert_eq!(shared.distribution, Distribution::Zipf(0.8));
    assert_eq!(shared.engine.kind, EngineKind::Psync);
}

#[test]
fn stores_of_every_schema_keep_runs_of_every_kind_of_work() {
    for (schema, since) in SCHEMAS {
        let (_folder, path) = fixture(&(SCHEMA_3.to_owned() + since));
        let store = SqliteStore::open(&path).unwrap();
        let upgrade = store.upgraded().unwrap().clone();
        assert_eq!((upgrade.from, upgrade.to), (schema, 6));
        assert_upgraded(&store);
        // Interrupted runs can be resumed, and exported runs imported.
        let cut_off = store.run(store.find("3").unwrap()).unwrap();
        assert_eq!(cut_off.summary.state, RunState::Interrupted);
        store.resume_run(cut_off.summary.id).unwrap();
        let mut file = Vec::new();
        let run = store.find("5").unwrap();
        iodyno_store::export(&store, run, &mut file).unwrap();
        let (_other, other) = common::fresh();
        let other = SqliteStore::open(other).unwrap();
        assert!(
            other.upgraded().is_none(),
            "a new store has nothing to upgrade"
        );
        other.import(&mut file.as_slice()).unwrap();
        assert_eq!(other.run(run).unwrap().plan, store.run(run).unwrap().plan);
        drop(store);
        assert_sound(&path);
        assert!(SqliteStore::open(&path).unwrap().upgraded().is_none());
        assert_is_old(&upgrade.backup, schema);
    }
}

/// The file is the store as it was before its upgrade.
fn assert_is_old(path: &std::path::Path, schema: u32) {
    let connection = rusqlite::Connection::open(path).unwrap();
    let number = |sql: &str| {
        connection
            .query_row(sql, [], |row| row.get::<_, u32>(0))
            .unwrap()
    };
    assert_eq!(number("PRAGMA user_version"), schema);
    assert_eq!(number("SELECT count(*) FROM runs"), 5);
    drop(connection);
    assert_sound(path);
    let store = SqliteStore::open(path).unwrap();
    assert_eq!(store.upgraded().unwrap().from, schema);
    assert_upgraded(&store);
}

#[test]
fn a_backup_is_never_replaced_and_an_unfinished_one_is_repeated() {
    let (folder, path) = fixture(SCHEMA_3);
    let named = |suffix: &str| folder.path().join(format!("old.db{suffix}"));
    std::fs::write(named(".schema-3.bak"), "mine").unwrap();
    std::fs::write(named(".bak-unfinished"), "of a killed process").unwrap();
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(store.upgraded().unwrap().backup, named(".schema-3-2.bak"));
    assert_eq!(std::fs::read(named(".schema-3.bak")).unwrap(), b"mine");
    assert!(!named(".bak-unfinished").exists());
    assert_is_old(&named(".schema-3-2.bak"), 3);
}

#[test]
fn one_of_several_processes_that_open_an_old_store_upgrades_it() {
    let (_folder, path) = fixture(SCHEMA_3);
    let upgrades: Vec<bool> = std::thread::scope(|scope| {
        let open = || {
            let store = SqliteStore::open(&path).unwrap();
            assert_upgraded(&store);
            store.upgraded().is_some()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert_eq!(upgrades.iter().filter(|upgraded| **upgraded).count(), 1);
    assert_sound(&path);
}

/// Set for the process to be killed: the path of the store.
const KILLED_STORE: &str = "IODYNO_KILLED_STORE";

#[test]
fn a_process_killed_during_an_upgrade_leaves_the_old_store_or_the_new_one() {
    if let Some(path) = std::env::var_os(KILLED_STORE) {
        writeln!(std::io::stdout(), "\nopening").unwrap();
        SqliteStore::open(std::path::PathBuf::from(path)).unwrap();
        return;
    }
    for wait in 0..20 {
        let (_folder, path) = fixture(SCHEMA_3);
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "a_process_killed_during_an_upgrade_leaves_the_old_store_or_the_new_one",
                "--nocapture",
            ])
            .env(KILLED_STORE, &path)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "opening"));
        // The assertions hold at each point of the upgrade.
        std::thread::sleep(std::time::Duration::from_micros(500 * wait));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_upgraded(&SqliteStore::open(&path).unwrap());
        assert_sound(&path);
    }
}
