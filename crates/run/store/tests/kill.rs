//! `kill -9` at random instants: appended data are stored, and the trial is interrupted.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::*;
use iodyno_model::*;
use iodyno_store::{SqliteStore, Store};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Set for the process to be killed: the path of the store.
const KILLED_STORE: &str = "IODYNO_KILLED_STORE";

/// Appends frames indefinitely and prints a line after each call that returned.
fn append_frames(path: &Path) {
    let store = SqliteStore::open(path).unwrap();
    let run = store
        .begin_run(&plan("start_killed_process", 1, 1), START_MS)
        .unwrap()
        .id;
    store
        .begin_trial(key(run), "c0", "start_killed_process", START_MS)
        .unwrap();
    store
        .set_environment(key(run), "", &environment("ada"))
        .unwrap();
    let mut out = std::io::stdout();
    writeln!(out, "\nrun {run}").unwrap();
    for number in 0.. {
        store.append_frame(key(run), &frame(number, 200)).unwrap();
        writeln!(out, "appended {number}").unwrap();
    }
}

fn start_killed_process(test: &str, path: &Path) -> (Child, BufReader<ChildStdout>, RunId) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(KILLED_STORE, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let run = loop {
        let mut line = String::new();
        assert_ne!(
            lines.read_line(&mut line).unwrap(),
            0,
            "the process ended by itself"
        );
        if let Some(id) = line.strip_prefix("run ") {
            break id.trim().parse().unwrap();
        }
    };
    (child, lines, run)
}

#[test]
fn a_killed_process_loses_no_frame_whose_append_had_returned() {
    if let Some(path) = std::env::var_os(KILLED_STORE) {
        return append_frames(Path::new(&path));
    }
    let seed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_nanos() as u64;
    let mut random = SplitMix64::seed_from_u64(seed);
    let (_folder, path) = fresh();
    for round in 0..25 {
        let test = "a_killed_process_loses_no_frame_whose_append_had_returned";
        let (mut child, mut lines, run) = start_killed_process(test, &path);
        // At this point some appends have returned, and the next one can be at any stage.
        let mut told = String::new();
        for _ in 0..random.next_u64() % 100 {
            assert_ne!(lines.read_line(&mut told).unwrap(), 0);
        }
        std::thread::sleep(Duration::from_micros(random.next_u64() % 1000));
        child.kill().unwrap();
        lines.read_to_string(&mut told).unwrap();
        // Its last line may be truncated; that append had returned as well.
        let returned = told.matches("appended").count() as u32;

        // The child was not waited for: it is a zombie, which counts as dead.
        let store = SqliteStore::open(&path).unwrap();
        let stored = store.run(run).unwrap();
        let context = format!("seed {seed}, round {round}, {returned} had returned");
        assert_eq!(stored.summary.state, RunState::Interrupted, "{context}");
        assert_eq!(stored.trials[0].state, TrialState::Interrupted, "{context}");
        let frames = store.frames(key(run), 0, usize::MAX).unwrap();
        let kept = frames.len() as u32;
        assert!(
            kept == returned || kept == returned + 1,
            "{context}, {kept} kept"
        );
        for (number, kept) in frames.iter().enumerate() {
            assert_eq!(*kept, frame(number as u32, 200), "{context}");
        }
        let trial = store.trial(key(run)).unwrap();
        let expected =
            iodyno_store::rebuild(&frames, environment("ada"), &stored.plan.workloads[0]);
        assert_eq!(trial.parts, [expected], "{context}");
        child.wait().unwrap();
    }
    assert_sound(&path);
}

/// Number of batches of a trial: they fill three segments.
const BATCHES: u32 = 4500;

/// Finishes trials with telemetry indefinitely, and prints a line before each end.
fn finish_trials(path: &Path) {
    let store = SqliteStore::open(path).unwrap();
    let run = store
        .begin_run(&plan("start_killed_process", 1, 99), START_MS)
        .unwrap()
        .id;
    let mut out = std::io::stdout();
    writeln!(out, "\nrun {run}").unwrap();
    for round in 0.. {
        let key = TrialKey { round, ..key(run) };
        store
            .begin_trial(key, "c0", "start_killed_process", START_MS)
            .unwrap();
        for number in 0..BATCHES {
            store.append_telemetry(key, &telemetry(number, 9)).unwrap();
        }
        writeln!(out, "finishing {round}").unwrap();
        store.finish_trial(&trial(key, Outcome::Completed)).unwrap();
        store.pack_trial(key);
    }
}

#[test]
fn a_process_killed_while_it_packs_telemetry_loses_and_duplicates_nothing() {
    if let Some(path) = std::env::var_os(KILLED_STORE) {
        return finish_trials(Path::new(&path));
    }
    let (_folder, path) = fresh();
    let test = "a_process_killed_while_it_packs_telemetry_loses_and_duplicates_nothing";
    let expected: Vec<TelemetryBatch> = (0..BATCHES).map(|number| telemetry(number, 9)).collect();
    for wait_us in [0, 5000, 15_000, 40_000] {
        let (mut child, mut lines, run) = start_killed_process(test, &path);
        let connection = rusqlite::Connection::open(&path).unwrap();
        let rows = || -> u32 {
            let sql = "SELECT count(*) FROM telemetry JOIN trials ON trial = trials.number
                 JOIN runs ON run = alias WHERE id = ?1 AND round = 0";
            let rows = connection.query_row(sql, [run.0.as_bytes()], |row| row.get(0));
            rows.unwrap()
        };
        let mut line = String::new();
        while !line.contains("finishing") {
            line.clear();
            assert_ne!(lines.read_line(&mut line).unwrap(), 0);
        }
        while rows() == BATCHES {
            assert!(
                child.try_wait().unwrap().is_none(),
                "the process ended by itself"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        // The process can be killed at any point: before, within or after any of its segments.
        std::thread::sleep(Duration::from_micros(wait_us));
        child.kill().unwrap();
        lines.read_to_string(&mut String::new()).unwrap();

        let store = SqliteStore::open(&path).unwrap();
        let kept = store.telemetry(key(run), 0, usize::MAX).unwrap();
        assert!(kept == expected, "{wait_us} us later");
        child.wait().unwrap();
    }
    assert_sound(&path);
}

#[test]
fn a_live_run_of_another_process_is_not_changed() {
    if let Some(path) = std::env::var_os(KILLED_STORE) {
        return append_frames(Path::new(&path));
    }
    let (_folder, path) = fresh();
    let (mut child, mut lines, run) =
        start_killed_process("a_live_run_of_another_process_is_not_changed", &path);
    let store = SqliteStore::open(&path).unwrap();
    let own = finished_run(&store, "own", 20);
    assert_eq!(store.run(run).unwrap().summary.state, RunState::Running);
    assert_eq!(store.run(run).unwrap().trials[0].state, TrialState::Running);
    let refused = store.resume_run(run).unwrap_err().to_string();
    assert!(
        refused.contains(&format!("process {}", child.id())),
        "{refused}"
    );
    child.kill().unwrap();
    lines.read_to_string(&mut String::new()).unwrap();
    assert_eq!(store.run(run).unwrap().summary.state, RunState::Interrupted);
    assert_eq!(store.run(own).unwrap().summary.state, RunState::Completed);
    store.resume_run(run).unwrap();
    child.wait().unwrap();
    assert_sound(&path);
}
