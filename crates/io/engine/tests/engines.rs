//! Every backend on real files, through the whole worker.

use iodyno_testing::skip;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use iodyno_engine::{CloneOutcome, ClonePart, CloneShared, CloneSpec, JobFile, Simulated, run};
use iodyno_model::{
    Direction, EndedBy, Engine, EngineKind, Job, Order, SimFault, SimLaw, SimOptions, Step,
    StopRequest, Verify,
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
    testing::blocks(&mut job).engine = Engine::new(kind, 8);
    (
        testing::blocks(&mut job).access.reads,
        testing::blocks(&mut job).access.writes,
        testing::blocks(&mut job).access.order,
    ) = (reads, writes, order);
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
        simulated: Some(Simulated {
            seed: 7,
            device: None,
            clock: None,
        }),
        output: Default::default(),
        byte_budget: SIZE * job.work.blocks().unwrap().passes.loops,
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
        part: ClonePart::default(),
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
fn every_engine_verifies_its_writes_and_detects_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    for kind in REAL {
        File::create(&path).unwrap().set_len(SIZE).unwrap();
        let mut writer = job(kind, (false, true), Order::Random);
        testing::blocks(&mut writer).verify = Some(Verify::default());
        testing::blocks(&mut writer).sync.end_fsync = true;
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
        for goes_on in [false, true] {
            let mut reader = job(kind, (true, false), Order::Sequential);
            reader.errors.continue_verify = goes_on;
            testing::blocks(&mut reader).verify = Some(Verify::default());
            let (outcome, _) = start(reader, Some(open(&path, false)));
            let found = outcome.verify.unwrap();
            assert_eq!((found.corrupt, found.bad()), (1, 1), "{kind:?}");
            assert!(found.first.unwrap().contains("offset 20480"));
            // The first bad block ends the job, unless it is configured to continue.
            let (ended, all) = match goes_on {
                true => (EndedBy::Size, true),
                false => (EndedBy::Error, false),
            };
            assert_eq!(outcome.ended, ended, "{kind:?}");
            assert_eq!(found.checked == SIZE / BLOCK, all, "{kind:?}");
        }
    }
}

#[test]
fn a_backlog_is_checked_while_writing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    File::create(&path).unwrap().set_len(SIZE).unwrap();
    let mut writer = job(EngineKind::IoUring, (false, true), Order::Random);
    testing::blocks(&mut writer).verify = Some(Verify {
        backlog: 16,
        ..Verify::default()
    });
    testing::blocks(&mut writer).access.random_map = false;
    testing::blocks(&mut writer).passes.loops = 4;
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
fn a_read_past_the_end_is_a_separate_error() {
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
fn fsyncs_follow_every_n_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    for kind in REAL {
        File::create(&path).unwrap().set_len(SIZE).unwrap();
        let mut writer = job(kind, (false, true), Order::Random);
        testing::blocks(&mut writer).sync.fsync_every = 10;
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

/// Stops a clone after this number of ops of this direction; returns its results.
fn stopped_after(
    spec: CloneSpec,
    (direction, count): (Direction, u64),
    stop: StopRequest,
) -> Stopped {
    let shared = CloneShared::of(&spec.job);
    shared.gate.release(0);
    let ops = || shared.measure.of(direction).service.count();
    let (outcome, told_at) = std::thread::scope(|scope| {
        let worker = scope.spawn(|| run(spec, &shared).unwrap());
        // It does not end by itself unless it fails.
        while ops() < count && !worker.is_finished() {
            std::thread::sleep(Duration::from_micros(200));
        }
        let told_at = ops();
        shared.request_stop(stop);
        (worker.join().unwrap(), told_at)
    });
    let ops = ops();
    Stopped {
        outcome,
        told_at,
        ops,
    }
}

struct Stopped {
    outcome: CloneOutcome,
    /// Number of ops at the stop request, and at the end.
    told_at: u64,
    ops: u64,
}

fn endless(mut job: Job) -> CloneSpec {
    testing::blocks(&mut job).passes.time_based = true;
    job.end.runtime = Some(Nanos::from_secs(86_400));
    spec(job, None)
}

#[test]
fn a_stop_request_ends_a_clone_and_keeps_the_results() {
    for (stop, ended) in [
        (StopRequest::Finish, EndedBy::Interruption),
        (StopRequest::ExitAll, EndedBy::ExitAll),
        (StopRequest::Abort, EndedBy::Interruption),
    ] {
        let job = job(EngineKind::Sim, (true, false), Order::Random);
        let done = stopped_after(endless(job), (Direction::Read, 100), stop);
        assert_eq!(done.outcome.ended, ended);
        assert!(done.outcome.errors.is_empty(), "{:?}", done.outcome);
        assert!(done.told_at >= 100 && done.ops >= done.told_at);
    }
}

#[test]
fn an_abort_does_not_wait_for_ops_that_never_complete() {
    let mut stalled = job(EngineKind::Sim, (true, false), Order::Random);
    testing::blocks(&mut stalled).engine.sim = Some(SimOptions {
        law: SimLaw::Constant(1_000_000),
        // The first eight complete before the stall, and all others would complete in it.
        faults: vec![SimFault::Stall {
            from_ns: 1_500_000,
            for_ns: u64::MAX / 4,
        }],
        ..SimOptions::default()
    });
    let done = stopped_after(endless(stalled), (Direction::Read, 8), StopRequest::Abort);
    assert_eq!(done.outcome.ended, EndedBy::Interruption);
    assert!(
        done.outcome.errors.is_empty(),
        "cancelled ops are not errors: {:?}",
        done.outcome
    );
    assert_eq!((done.told_at, done.ops), (8, 8));
}

#[test]
fn faults_of_a_device_are_counted_by_errno() {
    let mut faulty = job(EngineKind::Sim, (true, false), Order::Random);
    testing::blocks(&mut faulty).engine.sim = Some(SimOptions {
        law: SimLaw::Constant(1000),
        servers: 1,
        faults: vec![
            SimFault::Errno {
                every: 10,
                errno: 5,
            },
            SimFault::Short { every: 7 },
        ],
        ..SimOptions::default()
    });
    faulty.errors.continue_read = true;
    let (outcome, shared) = start(faulty, None);
    assert_eq!(outcome.ended, EndedBy::Size);
    assert_eq!(outcome.errors[0].errno, 5);
    let counters = shared.measure.of(Direction::Read);
    assert_eq!(
        counters.service.histogram().count() + outcome.errors[0].count,
        SIZE / BLOCK
    );
    assert!(counters.short.load(std::sync::atomic::Ordering::Relaxed) > 10);

    let mut strict = job(EngineKind::Sim, (true, false), Order::Random);
    testing::blocks(&mut strict).engine.sim = Some(SimOptions {
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
        testing::blocks(&mut both).access.trims = true;
        let (outcome, shared) = start(both, Some(open(&path, false)));
        if let Some(error) = outcome.errors.first() {
            assert_eq!(error.errno, 95, "{outcome:?}");
            skip("this file system cannot punch holes");
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
    testing::blocks(&mut both).access.trims = true;
    testing::blocks(&mut both).verify = Some(Verify::default());
    testing::blocks(&mut both).passes.time_based = true;
    let spec = spec(both, Some(open(&path, false)));
    let outcome = stopped_after(spec, (Direction::Write, 100), StopRequest::ExitAll).outcome;
    if outcome.errors.iter().any(|error| error.errno == 95) {
        skip("this file system cannot punch holes");
        return;
    }
    let found = outcome.verify.clone().unwrap();
    assert!(found.checked > 0 && found.bad() == 0, "{outcome:?}");
    assert_eq!(outcome.ended, EndedBy::ExitAll);
}

#[test]
fn submission_is_measured_where_it_is_requested_and_only_of_reads_and_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    std::fs::write(&path, vec![1; SIZE as usize]).unwrap();
    for (kind, requested, expected) in [
        (EngineKind::IoUring, true, true),
        (EngineKind::IoUring, false, false),
        (EngineKind::Libaio, false, true),
        (EngineKind::Posixaio, false, true),
        (EngineKind::Psync, true, false),
    ] {
        let mut job = job(kind, (true, true), Order::Random);
        testing::blocks(&mut job).engine.submit_apart = requested;
        testing::blocks(&mut job).access.trims = false;
        testing::blocks(&mut job).sync.fdatasync_every = 4;
        let (outcome, shared) = start(job, Some(open(&path, false)));
        assert_eq!(outcome.ended, EndedBy::Size, "{kind:?}");
        for direction in [Direction::Read, Direction::Write, Direction::Sync] {
            let counters = shared.measure.of(direction);
            let ops = counters.service.histogram().count();
            assert!(ops > 0, "{kind:?} {direction:?}");
            let submitted = counters.submission.as_ref().map(|it| it.histogram());
            let counted = submitted.as_ref().map_or(0, |it| it.count());
            let wanted = expected && direction != Direction::Sync;
            assert_eq!(
                counted,
                if wanted { ops } else { 0 },
                "{kind:?} {direction:?}"
            );
            if wanted {
                let (service, submitted) = (counters.service.histogram(), submitted.unwrap());
                let after = counters.completion.as_ref().unwrap().histogram();
                assert!(submitted.max_ns() > 0, "{kind:?}");
                assert!(
                    after.mean_ns() < service.mean_ns(),
                    "{kind:?} {direction:?}"
                );
            }
        }
    }
}
