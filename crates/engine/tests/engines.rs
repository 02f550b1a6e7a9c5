//! Every backend on real files, through the whole worker.
#![allow(clippy::print_stderr)]

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use iodyno_engine::{CloneOutcome, CloneShared, CloneSpec, JobFile, Stop, run};
use iodyno_model::{
    Direction, EndedBy, Engine, EngineKind, Job, Order, SimFault, SimLaw, SimOptions, Step, Verify,
};
use iodyno_units::Nanos;

#[path = "../src/testing.rs"]
mod testing;

const REAL: [EngineKind; 7] = [
    EngineKind::Psync,
    EngineKind::Sync,
    EngineKind::Pvsync2,
    EngineKind::Libaio,
    EngineKind::IoUring,
    EngineKind::Posixaio,
    EngineKind::Mmap,
];
const SIZE: u64 = 1 << 20;
const BLOCK: u64 = 4096;

fn job(kind: EngineKind, (reads, writes): (bool, bool), order: Order) -> Job {
    let mut job = testing::random_reads(8);
    job.engine = Engine::new(kind, 8);
    (job.access.reads, job.access.writes, job.access.order) = (reads, writes, order);
    job
}

fn open(path: &Path, direct: bool) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(if direct { 0o40000 } else { 0 })
        .open(path)
        .unwrap()
}

fn start(job: Job, file: Option<File>) -> (CloneOutcome, Arc<CloneShared>) {
    let shared = Arc::new(CloneShared::of(&job));
    shared.gate.release(0);
    (run(spec(job, file), &shared).unwrap(), shared)
}

fn spec(job: Job, file: Option<File>) -> CloneSpec {
    CloneSpec {
        byte_budget: SIZE * job.end.loops,
        job: Arc::new(job),
        job_index: 0,
        clone: 0,
        files: vec![JobFile {
            descriptor: file.map(Into::into),
            name: "data".to_owned(),
            base: 0,
            length: SIZE,
            device: false,
        }],
        seed: 7,
        log: None,
        flow: None,
        dumps: std::env::temp_dir(),
        operations: None,
        shared_files: None,
    }
}

#[test]
fn every_engine_reads_and_writes_each_block_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    for kind in REAL {
        for (reads, writes, order) in [
            (true, false, Order::Random),
            (false, true, Order::Random),
            (false, true, Order::Sequential),
            (true, true, Order::Random),
        ] {
            File::create(&path)
                .unwrap()
                .write_all_at(&vec![0; SIZE as usize], 0)
                .unwrap();
            let (outcome, shared) =
                start(job(kind, (reads, writes), order), Some(open(&path, false)));
            let case = format!("{kind:?} {reads} {writes} {order:?}: {outcome:?}");
            assert_eq!(outcome.ended, EndedBy::Size, "{case}");
            assert!(
                outcome.errors.is_empty() && outcome.broken.is_none(),
                "{case}"
            );
            let count = |direction| shared.measure.of(direction).service.histogram().count();
            let ops = (count(Direction::Read), count(Direction::Write));
            assert_eq!(ops.0 + ops.1, SIZE / BLOCK, "{case}");
            assert!((ops.0 > 0) == reads && (ops.1 > 0) == writes, "{case}");
            let mut content = vec![0; SIZE as usize];
            File::open(&path)
                .unwrap()
                .read_exact_at(&mut content, 0)
                .unwrap();
            let written = content
                .chunks(BLOCK as usize)
                .filter(|b| b.iter().any(|b| *b != 0));
            assert_eq!(
                written.count() as u64,
                ops.1,
                "{case}: each write on a block of its own"
            );
        }
    }
}

#[test]
fn every_engine_verifies_what_it_wrote_and_sees_what_was_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    for kind in REAL {
        File::create(&path).unwrap().set_len(SIZE).unwrap();
        let mut writer = job(kind, (false, true), Order::Random);
        writer.verify = Some(Verify::default());
        writer.sync.end_fsync = true;
        let (outcome, _) = start(writer, Some(open(&path, false)));
        let found = outcome.verify.clone().unwrap();
        assert_eq!(
            (found.checked, found.bad()),
            (SIZE / BLOCK, 0),
            "{kind:?}: {found:?}"
        );
        let steps: Vec<Step> = outcome.steps.iter().map(|span| span.step).collect();
        assert_eq!(
            steps,
            [Step::Measure, Step::Drain, Step::EndFsync, Step::VerifyPass]
        );

        open(&path, false)
            .write_all_at(b"x", 5 * BLOCK + 100)
            .unwrap();
        let mut reader = job(kind, (true, false), Order::Sequential);
        reader.verify = Some(Verify::default());
        let (outcome, _) = start(reader, Some(open(&path, false)));
        let found = outcome.verify.unwrap();
        assert_eq!(
            (found.checked, found.corrupt, found.bad()),
            (SIZE / BLOCK, 1, 1),
            "{kind:?}"
        );
        assert!(found.first.unwrap().contains("offset 20480"));
        assert_eq!(outcome.ended, EndedBy::Error);
    }
}

#[test]
fn a_backlog_is_checked_while_writing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    File::create(&path).unwrap().set_len(SIZE).unwrap();
    let mut writer = job(EngineKind::IoUring, (false, true), Order::Random);
    writer.verify = Some(Verify {
        backlog: 16,
        ..Verify::default()
    });
    writer.access.random_map = false;
    writer.end.loops = 4;
    let (outcome, shared) = start(writer, Some(open(&path, false)));
    let found = outcome.verify.unwrap();
    assert_eq!(found.bad(), 0, "{found:?}");
    assert!(found.checked > 900, "{found:?}");
    assert_eq!(
        shared
            .measure
            .of(Direction::Write)
            .service
            .histogram()
            .count(),
        1024
    );
}

#[test]
fn a_read_past_the_end_is_an_error_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    for kind in REAL.into_iter().filter(|kind| *kind != EngineKind::Mmap) {
        File::create(&path)
            .unwrap()
            .set_len(SIZE / 2 + 100)
            .unwrap();
        let mut reader = job(kind, (true, false), Order::Sequential);
        reader.errors.continue_read = true;
        let (outcome, shared) = start(reader, Some(open(&path, false)));
        let errors = &outcome.errors[0];
        assert_eq!(
            (errors.errno, errors.count),
            (61, SIZE / BLOCK / 2),
            "{kind:?} {outcome:?}"
        );
        // The op across the end is continued once and then fails.
        assert_eq!(
            shared
                .measure
                .of(Direction::Read)
                .short
                .load(std::sync::atomic::Ordering::Relaxed),
            1
        );
        assert_eq!(outcome.ended, EndedBy::Size);
    }
}

#[test]
fn fsyncs_come_after_every_so_many_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    for kind in REAL {
        File::create(&path).unwrap().set_len(SIZE).unwrap();
        let mut writer = job(kind, (false, true), Order::Random);
        writer.sync.fsync_every = 10;
        let (_, shared) = start(writer, Some(open(&path, false)));
        let syncs = shared
            .measure
            .of(Direction::Sync)
            .service
            .histogram()
            .count();
        assert_eq!(syncs, SIZE / BLOCK / 10, "{kind:?}");
    }
}

#[test]
fn a_rate_is_kept_and_lateness_counts_as_response() {
    for arrival in [
        iodyno_model::Arrival::Linear,
        iodyno_model::Arrival::Poisson,
    ] {
        let mut paced = job(EngineKind::Sim, (true, false), Order::Random);
        paced.engine.depth = 4;
        paced.engine.sim = Some(SimOptions {
            law: SimLaw::Constant(50_000),
            servers: 0,
            faults: vec![SimFault::Stall {
                from_ns: 100_000_000,
                for_ns: 200_000_000,
            }],
        });
        paced.pacing.rates.read.iops = 2000.0;
        paced.pacing.arrival = arrival;
        paced.end.time_based = true;
        paced.end.runtime = Some(Nanos::from_millis(600));
        let (outcome, shared) = start(paced, None);
        assert_eq!(outcome.ended, EndedBy::Runtime);
        let cells = shared.measure.of(Direction::Read);
        let (service, response) = (
            cells.service.histogram(),
            cells.response.as_ref().unwrap().histogram(),
        );
        let expected = 1200.0f64;
        let spread = 4.0 * expected.sqrt();
        assert!(
            (service.count() as f64 - expected).abs() < spread,
            "{}",
            service.count()
        );
        assert_eq!(service.count(), response.count());
        // Four ops met the stall; a third of all were due while it lasted.
        assert!(
            service.percentile_ns(95.0) < 100_000_000,
            "{:?}",
            service.percentile_ns(95.0)
        );
        assert!(
            response.percentile_ns(75.0) > 20_000_000,
            "{:?}",
            response.percentile_ns(75.0)
        );
    }
}

#[test]
fn a_stop_is_heard_and_keeps_what_was_measured() {
    for stop in [Stop::Finish, Stop::ExitAll, Stop::Abort] {
        let mut endless = job(EngineKind::Sim, (true, false), Order::Random);
        endless.end.time_based = true;
        endless.end.runtime = Some(Nanos::from_secs(3600));
        endless.engine.sim = Some(SimOptions {
            law: SimLaw::Constant(1_000_000),
            servers: 0,
            faults: vec![SimFault::Stall {
                from_ns: 50_000_000,
                for_ns: u64::MAX / 4,
            }],
        });
        if stop != Stop::Abort {
            endless.engine.sim = None;
        }
        let shared = Arc::new(CloneShared::new(&Direction::ALL, false, false));
        shared.gate.release(0);
        let began = std::time::Instant::now();
        let outcome = std::thread::scope(|scope| {
            let worker = scope.spawn(|| run(spec(endless, None), &shared).unwrap());
            std::thread::sleep(std::time::Duration::from_millis(150));
            shared.tell(stop);
            worker.join().unwrap()
        });
        assert!(began.elapsed().as_secs() < 2);
        let expected = if stop == Stop::ExitAll {
            EndedBy::ExitAll
        } else {
            EndedBy::Interruption
        };
        assert_eq!(outcome.ended, expected);
        assert!(
            outcome.errors.is_empty(),
            "cancelled ops are no errors: {outcome:?}"
        );
        assert!(
            shared
                .measure
                .of(Direction::Read)
                .service
                .histogram()
                .count()
                > 100
        );
    }
}

#[test]
fn ramp_is_kept_apart() {
    let mut ramped = job(EngineKind::Sim, (true, false), Order::Random);
    ramped.end.time_based = true;
    ramped.end.ramp = Nanos::from_millis(100);
    ramped.end.runtime = Some(Nanos::from_millis(200));
    let (outcome, shared) = start(ramped, None);
    let count =
        |cells: &iodyno_engine::cells::Cells| cells.of(Direction::Read).service.histogram().count();
    let (ramp, measured) = (count(&shared.ramp), count(&shared.measure));
    assert!(ramp > 50 && measured > 50, "{ramp} {measured}");
    let span = outcome.measured.1 - outcome.measured.0;
    assert!((200_000_000..400_000_000).contains(&span), "{span}");
}

#[test]
fn faults_of_a_device_are_counted_by_errno() {
    let mut faulty = job(EngineKind::Sim, (true, false), Order::Random);
    faulty.engine.sim = Some(SimOptions {
        law: SimLaw::Constant(1000),
        servers: 1,
        faults: vec![
            SimFault::Errno {
                every: 10,
                errno: 5,
            },
            SimFault::Short { every: 7 },
        ],
    });
    faulty.errors.continue_read = true;
    let (outcome, shared) = start(faulty, None);
    assert_eq!(outcome.ended, EndedBy::Size);
    assert_eq!(outcome.errors[0].errno, 5);
    let cells = shared.measure.of(Direction::Read);
    assert_eq!(
        cells.service.histogram().count() + outcome.errors[0].count,
        SIZE / BLOCK
    );
    assert!(cells.short.load(std::sync::atomic::Ordering::Relaxed) > 10);

    let mut strict = job(EngineKind::Sim, (true, false), Order::Random);
    strict.engine.sim = Some(SimOptions {
        faults: vec![SimFault::Errno {
            every: 10,
            errno: 5,
        }],
        ..SimOptions::default()
    });
    assert_eq!(start(strict, None).0.ended, EndedBy::Error);
}

#[test]
fn trimmed_blocks_are_written_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    for kind in [
        EngineKind::Psync,
        EngineKind::IoUring,
        EngineKind::Libaio,
        EngineKind::Posixaio,
    ] {
        File::create(&path)
            .unwrap()
            .write_all_at(&vec![1; SIZE as usize], 0)
            .unwrap();
        let mut both = job(kind, (false, true), Order::Random);
        both.access.trims = true;
        let (outcome, shared) = start(both, Some(open(&path, false)));
        if let Some(error) = outcome.errors.first() {
            assert_eq!(error.errno, 95, "{outcome:?}");
            eprintln!("SKIPPED: this file system cannot punch holes");
            return;
        }
        let count = |direction| shared.measure.of(direction).service.histogram().count();
        assert_eq!(count(Direction::Trim), SIZE / BLOCK, "{kind:?}");
        assert_eq!(
            count(Direction::Write),
            SIZE / BLOCK,
            "{kind:?} {outcome:?}"
        );
    }
}

#[test]
fn a_block_that_was_trimmed_and_not_yet_written_again_is_not_expected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    File::create(&path).unwrap().set_len(SIZE).unwrap();
    let mut both = job(EngineKind::IoUring, (false, true), Order::Random);
    both.access.trims = true;
    both.verify = Some(Verify::default());
    both.end.time_based = true;
    both.end.runtime = Some(Nanos::from_millis(150));
    let (outcome, _) = start(both, Some(open(&path, false)));
    if outcome.errors.iter().any(|error| error.errno == 95) {
        eprintln!("SKIPPED: this file system cannot punch holes");
        return;
    }
    let found = outcome.verify.clone().unwrap();
    assert!(found.checked > 0 && found.bad() == 0, "{outcome:?}");
    assert_eq!(outcome.ended, EndedBy::Runtime);
}
