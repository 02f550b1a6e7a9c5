//! Plans, frames and trials for tests, generated from seeds.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file uses its own share"
)]

use std::path::PathBuf;

use iodyno_model::*;
use iodyno_store::SqliteStore;
use rand_distr::{Distribution as _, LogNormal};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

pub const START_MS: u64 = 1_760_000_000_000;

pub fn job(name: &str) -> Job {
    Job {
        name: name.to_owned(),
        clones: 2,
        work: Work::Blocks(Blocks {
            engine: Engine::new(EngineKind::Libaio, 16),
            access: Access {
                writes: true,
                order: Order::Random,
                read_percent: 75,
                distribution: PerDirection::all(Distribution::Zipf(1.1)),
                ..Access::default()
            },
            ..Blocks::default()
        }),
        options: [("rw".to_owned(), "randrw".to_owned())].into(),
        ..Job::default()
    }
}

pub fn plan(name: &str, configurations: usize, rounds: u32) -> Plan {
    let source = Source {
        name: format!("{name}.fio"),
        text: "[a]\nrw=randrw\n[b]\nstonewall\n".to_owned(),
    };
    Plan {
        command: vec!["run".to_owned(), format!("{name}.fio")],
        configurations: (0..configurations)
            .map(|number| {
                let path = PathBuf::from(format!("/mnt/c{number}"));
                Configuration::new(format!("c{number}"), Target::Path(path))
            })
            .collect(),
        workloads: vec![Workload::new(name, vec![source], vec![job("a"), job("b")])],
        rounds,
        seed: 7,
        ..Plan::new(name, Vec::new(), Vec::new())
    }
}

pub fn key(run: RunId) -> TrialKey {
    TrialKey {
        run,
        round: 0,
        cell: 0,
        attempt: 0,
    }
}

pub fn latencies(seed: u64, count: u64) -> Histogram {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let law = LogNormal::new(320_000f64.ln(), 0.3).unwrap();
    (0..count).map(|_| law.sample(&mut random) as u64).collect()
}

/// A second of job 0 with `ops` reads and a third as many writes.
pub fn frame(number: u32, ops: u64) -> Frame {
    let done = |direction, ops| DirectionFrame {
        direction,
        ops,
        bytes: ops * 4096,
        errors: 0,
        service: latencies(u64::from(number), ops),
        response: None,
    };
    Frame {
        node: String::new(),
        number,
        start_ns: u64::from(number) * 1_000_000_000,
        end_ns: u64::from(number + 1) * 1_000_000_000,
        step: Step::Measure,
        cpu_ns: 420_000_000,
        jobs: vec![JobFrame {
            job: 0,
            running: 2,
            directions: vec![done(Direction::Read, ops), done(Direction::Write, ops / 3)],
        }],
    }
}

/// A second of two disks. The first one contains the series' shape and a gap of another series.
pub fn telemetry(number: u32, reads: u64) -> TelemetryBatch {
    let shape = SeriesShape {
        node: String::new(),
        kind: SeriesKind::Disk,
        number: 0,
        subjects: vec![SeriesRow::new("vda"), SeriesRow::new("vdb")],
        columns: SeriesColumn::of(DISK),
        because: None,
    };
    let gap = SeriesGap {
        node: String::new(),
        kind: SeriesKind::Pool,
        at_ns: 0,
        reason: "there is no zpool here".to_owned(),
    };
    let mut values = vec![Some(0); 2 * DISK.len()];
    values[0] = Some(reads);
    values[7] = Some(reads * 4096);
    values[DISK.len()] = None;
    let first = number == 0;
    TelemetryBatch {
        number,
        telemetry: Telemetry {
            shapes: if first { vec![shape] } else { Vec::new() },
            samples: vec![Sample {
                shape: 0,
                at_ns: i64::from(number + 1) * 1_000_000_000 + i64::from(number % 7),
                span_ns: 1_000_000_000,
                values,
            }],
            gaps: if first { vec![gap] } else { Vec::new() },
        },
    }
}

pub fn environment(host: &str) -> Environment {
    Environment {
        iodyno: "0.1.0".to_owned(),
        host: host.to_owned(),
        kernel: "6.18.0".to_owned(),
        targets: vec![TargetInfo {
            path: "/mnt/c0".into(),
            stack: vec![StackLayer::Other("tmpfs".to_owned())],
        }],
        ..Environment::default()
    }
}

/// A trial as a runner returns it.
pub fn trial(key: TrialKey, outcome: Outcome) -> Trial {
    let part = iodyno_store::rebuild(
        &[frame(0, 900), frame(1, 1100)],
        environment("ada"),
        &plan("p", 1, 1).workloads[0],
    );
    Trial {
        schema: SCHEMA,
        key,
        configuration: "c0".to_owned(),
        workload: "p".to_owned(),
        started_unix_ms: START_MS + 5,
        probe: None,
        outcome,
        parts: vec![part],
        frames: Vec::new(),
        telemetry: Telemetry::default(),
        findings: vec![Finding {
            kind: FindingKind::TooShort,
            weight: Weight::Note,
            text: "2 s are few".to_owned(),
            threshold: "10 s".to_owned(),
            remedy: None,
            spans_ns: Vec::new(),
        }],
    }
}

/// A separate folder, and the path of a store in it. In memory if the host supports it: these tests do not depend on
/// how long a disk needs for a sync.
pub fn fresh() -> (tempfile::TempDir, PathBuf) {
    let folder = in_memory();
    let path = folder.path().join("data/iodyno.db");
    (folder, path)
}

/// A folder in memory if the host has one.
pub fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

/// Stores a complete run of one trial with this many frames and batches of telemetry. Returns its identity.
pub fn finished_run(store: &SqliteStore, name: &str, frames: u32) -> RunId {
    use iodyno_store::Store;
    let run = store.begin_run(&plan(name, 1, 1), START_MS).unwrap().id;
    store
        .begin_trial(key(run), "c0", name, START_MS + 5)
        .unwrap();
    store
        .set_environment(key(run), "", &environment("ada"))
        .unwrap();
    for number in 0..frames {
        store.append_frame(key(run), &frame(number, 60)).unwrap();
        store
            .append_telemetry(key(run), &telemetry(number, 60))
            .unwrap();
    }
    store
        .finish_trial(&trial(key(run), Outcome::Completed))
        .unwrap();
    store
        .finish_run(run, RunState::Completed, START_MS + 60_000)
        .unwrap();
    run
}

/// Checks the invariants of a store.
pub fn assert_sound(path: &std::path::Path) {
    let connection = rusqlite::Connection::open(path).unwrap();
    let word: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(word, "ok");
    let broken: i64 = connection
        .query_row("SELECT count(*) FROM pragma_foreign_key_check", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(broken, 0);
}

/// Whether the test runs as root; prints a message if not.
pub fn root(why: &str) -> bool {
    use std::os::unix::fs::MetadataExt;
    let root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    if !root {
        skipped(&format!("needs root: {why}"));
    }
    root
}

pub fn skipped(why: &str) {
    use std::io::Write;
    let line = format!("SKIPPED: {why}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}
