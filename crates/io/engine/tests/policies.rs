//! The end of a job, the steps after it, and its results.

use iodyno_testing::skip;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use iodyno_engine::{
    BlocksPart, CloneOutcome, ClonePart, CloneShared, CloneSpec, JobFile, OutputFiles, Simulated,
    run,
};
use iodyno_model::{
    Amount, Checksum, Direction, Distribution, EndedBy, Engine, EngineKind, Job, Order, Pattern,
    PerDirection, SimFault, SimLaw, SimOptions, Step, StopRequest, Verify,
};

#[path = "../src/testing.rs"]
mod testing;

const SIZE: u64 = 1 << 20;
const BLOCK: u64 = 4096;

fn job(kind: EngineKind, (reads, writes): (bool, bool)) -> Job {
    let mut job = testing::random_reads(8);
    testing::blocks(&mut job).engine = Engine::new(kind, 8);
    (
        testing::blocks(&mut job).access.reads,
        testing::blocks(&mut job).access.writes,
    ) = (reads, writes);
    job
}

fn sim(job: &mut Job, law: SimLaw, faults: Vec<SimFault>) {
    testing::blocks(job).engine.sim = Some(SimOptions {
        law,
        faults,
        ..SimOptions::default()
    });
}

fn spec(job: Job, path: Option<&Path>, folder: &Path) -> CloneSpec {
    let file = path.map(|path| {
        let mut options = File::options();
        options.read(true).write(true).open(path).unwrap()
    });
    CloneSpec {
        simulated: Some(Simulated {
            seed: 7,
            device: None,
            clock: None,
        }),
        output: OutputFiles {
            folder: folder.to_owned(),
            ..OutputFiles::default()
        },
        byte_budget: SIZE,
        job: Arc::new(job),
        job_index: 0,
        clone: 0,
        files: vec![JobFile {
            descriptor: file.map(Into::into),
            name: path.map_or("data".to_owned(), |path| path.display().to_string()),
            base: 0,
            length: SIZE,
            device: false,
        }],
        seed: 7,
        log: None,
        flow: None,
        part: ClonePart::Blocks(BlocksPart::default()),
    }
}

fn shared() -> Arc<CloneShared> {
    let shared = Arc::new(CloneShared::new(&Direction::ALL, false, false));
    shared.gate.release(0);
    shared
}

fn start(job: Job, path: Option<&Path>, folder: &Path) -> (CloneOutcome, Arc<CloneShared>) {
    let shared = shared();
    (run(spec(job, path, folder), &shared).unwrap(), shared)
}

fn ops(shared: &CloneShared, direction: Direction) -> u64 {
    shared.measure.of(direction).service.count()
}

#[test]
fn a_full_device_is_a_successful_end_of_a_job_that_fills_it() {
    let folder = tempfile::tempdir().unwrap();
    for (until_full, errno, ended) in [
        (true, 28, EndedBy::Size),
        (true, 122, EndedBy::Size),
        (true, 5, EndedBy::Error),
        (false, 28, EndedBy::Error),
    ] {
        let mut filling = job(EngineKind::Sim, (false, true));
        filling.end.until_full = until_full;
        testing::blocks(&mut filling).passes.time_based = true;
        let fault = SimFault::Errno { every: 100, errno };
        sim(&mut filling, SimLaw::Constant(10_000), vec![fault]);
        let (outcome, shared) = start(filling, None, folder.path());
        assert_eq!(outcome.ended, ended, "{until_full} {errno}");
        assert_eq!(outcome.errors.is_empty(), ended == EndedBy::Size);
        // 99 before the one that failed, and up to seven of the eight in flight that followed it.
        assert!((99..=106).contains(&ops(&shared, Direction::Write)));
    }
}

#[test]
fn reads_beyond_the_end_of_a_file_that_the_job_extends_are_short() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    for kind in [EngineKind::Psync, EngineKind::Posixaio, EngineKind::Libaio] {
        for creates in [true, false] {
            File::create(&path).unwrap();
            let mut growing = job(kind, (true, true));
            testing::blocks(&mut growing).files.create_on_open = creates;
            let (outcome, shared) = start(growing, Some(&path), folder.path());
            let all = ops(&shared, Direction::Read) + ops(&shared, Direction::Write);
            let read = shared.measure.of(Direction::Read).bytes.load(Relaxed);
            if creates {
                assert_eq!(
                    (outcome.ended, all),
                    (EndedBy::Size, SIZE / BLOCK),
                    "{kind:?}"
                );
                assert!(read < ops(&shared, Direction::Read) * BLOCK, "{kind:?}");
            } else {
                assert_eq!(outcome.ended, EndedBy::Error, "{kind:?}");
            }
        }
    }
}

#[test]
fn a_filled_device_is_verified_and_synced_after_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    File::create(&path).unwrap();
    let mut filling = job(EngineKind::Psync, (false, true));
    testing::blocks(&mut filling).access.order = Order::Sequential;
    filling.end.until_full = true;
    testing::blocks(&mut filling).sync.end_fsync = true;
    testing::blocks(&mut filling).verify = Some(Verify::default());
    let (outcome, _) = start(filling, Some(&path), folder.path());
    let steps: Vec<Step> = outcome.steps.iter().map(|span| span.step).collect();
    assert!(
        steps.ends_with(&[Step::EndFsync, Step::VerifyPass]),
        "{steps:?}"
    );
    assert_eq!(outcome.verify.unwrap().checked, SIZE / BLOCK);
}

#[test]
fn a_job_that_another_one_ends_still_syncs_and_verifies() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    File::create(&path).unwrap().set_len(SIZE).unwrap();
    let mut endless = job(EngineKind::IoUring, (false, true));
    testing::blocks(&mut endless).passes.time_based = true;
    testing::blocks(&mut endless).sync.end_fsync = true;
    testing::blocks(&mut endless).verify = Some(Verify::default());
    let shared = shared();
    let spec = spec(endless, Some(&path), folder.path());
    let outcome = thread::scope(|scope| {
        let worker = scope.spawn(|| run(spec, &shared).unwrap());
        // It does not end by itself unless it fails.
        while ops(&shared, Direction::Write) < 100 && !worker.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
        shared.request_stop(StopRequest::ExitAll);
        worker.join().unwrap()
    });
    assert_eq!(outcome.ended, EndedBy::ExitAll);
    let steps: Vec<Step> = outcome.steps.iter().map(|span| span.step).collect();
    assert!(
        steps.ends_with(&[Step::EndFsync, Step::VerifyPass]),
        "{steps:?}"
    );
    let found = outcome.verify.unwrap();
    assert!(found.checked >= 100 && found.bad() == 0, "{found:?}");
}

#[test]
fn bad_blocks_are_dumped_with_the_expected_content() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let pattern = Pattern(vec![0xde, 0xad]);
    for (checksum, expected) in [
        (Checksum::Crc32c, None),
        (
            Checksum::Pattern(pattern),
            Some([0xde, 0xad].repeat(BLOCK as usize / 2)),
        ),
    ] {
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
        let verify = |dump| {
            Some(Verify {
                checksum: checksum.clone(),
                dump,
                ..Verify::default()
            })
        };
        File::create(&path).unwrap().set_len(SIZE).unwrap();
        let mut writer = job(EngineKind::Psync, (false, true));
        testing::blocks(&mut writer).verify = verify(true);
        start(writer, Some(&path), folder.path());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        let file = File::options().write(true).open(&path).unwrap();
        (0..100).for_each(|block| file.write_all_at(b"bad", block * BLOCK + 99).unwrap());
        for dump in [false, true] {
            let mut reader = job(EngineKind::Psync, (true, false));
            testing::blocks(&mut reader).access.order = Order::Sequential;
            reader.errors.continue_verify = true;
            testing::blocks(&mut reader).verify = verify(dump);
            let (outcome, _) = start(reader, Some(&path), folder.path());
            assert_eq!(outcome.verify.unwrap().bad(), 100);
            let dumped = folder.path().join("data.8192.received");
            assert_eq!(dumped.exists(), dump);
        }
        let received = std::fs::read(folder.path().join("data.8192.received")).unwrap();
        assert_eq!(received.len() as u64, BLOCK);
        assert_eq!(&received[99..102], b"bad");
        assert_eq!(
            std::fs::read(folder.path().join("data.8192.expected")).ok(),
            expected
        );
        let files = std::fs::read_dir(folder.path()).unwrap().count() - 1;
        assert_eq!(
            files,
            if expected.is_some() { 128 } else { 64 },
            "no more than that"
        );
    }
}

#[test]
fn a_dump_that_cannot_be_written_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    std::fs::write(&path, vec![1; SIZE as usize]).unwrap();
    let mut reader = job(EngineKind::Psync, (true, false));
    testing::blocks(&mut reader).verify = Some(Verify {
        dump: true,
        ..Verify::default()
    });
    let (outcome, _) = start(reader, Some(&path), &folder.path().join("missing"));
    assert!(
        outcome
            .engine
            .fallbacks
            .iter()
            .any(|note| note.contains("not written to")),
        "{:?}",
        outcome.engine.fallbacks
    );
}

#[test]
fn another_seed_is_stale_unless_it_is_not_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    File::create(&path).unwrap().set_len(SIZE).unwrap();
    let mut writer = job(EngineKind::Psync, (false, true));
    testing::blocks(&mut writer).verify = Some(Verify::default());
    testing::blocks(&mut writer).access.seed = Some(1);
    start(writer, Some(&path), folder.path());
    for (check_seed, stale) in [(true, SIZE / BLOCK), (false, 0)] {
        let mut reader = job(EngineKind::Psync, (true, false));
        reader.errors.continue_verify = true;
        testing::blocks(&mut reader).access.seed = Some(2);
        testing::blocks(&mut reader).verify = Some(Verify {
            check_seed,
            ..Verify::default()
        });
        let (outcome, _) = start(reader, Some(&path), folder.path());
        assert_eq!(outcome.verify.unwrap().stale, stale);
    }
}

#[test]
fn an_unsupported_atomic_write_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    for kind in [EngineKind::Pvsync2, EngineKind::Libaio, EngineKind::IoUring] {
        File::create(&path).unwrap().set_len(SIZE).unwrap();
        let mut atomic = job(kind, (true, true));
        testing::blocks(&mut atomic).engine.atomic = true;
        let (outcome, shared) = start(atomic, Some(&path), folder.path());
        if outcome.ended == EndedBy::Size {
            skip("this file system has atomic writes");
            return;
        }
        // Buffered writes are never atomic; reads carry no such flag.
        assert_eq!(outcome.ended, EndedBy::Error, "{kind:?}");
        let told = outcome.broken.unwrap();
        assert!(
            told.what.contains("write 4096 bytes atomically"),
            "{told:?}"
        );
        assert!(
            outcome
                .errors
                .iter()
                .all(|error| error.direction == Direction::Write)
        );
        assert_eq!(ops(&shared, Direction::Write), 0);
    }
}

#[test]
fn zones_in_bytes_beyond_the_file_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (second, fits) in [(SIZE / 2, true), (SIZE / 2 + 1, false)] {
        let mut zoned = job(EngineKind::Null, (true, false));
        testing::blocks(&mut zoned).access.random_map = false;
        testing::blocks(&mut zoned).access.distribution =
            PerDirection::all(Distribution::Zoned(vec![
                (90.0, Amount::Bytes(SIZE / 2)),
                (10.0, Amount::Bytes(second)),
            ]));
        let result = run(spec(zoned, None, folder.path()), &shared());
        match result {
            Ok(outcome) => assert!(fits && outcome.ended == EndedBy::Size),
            Err(error) => assert!(!fits && error.cause.contains("1 MiB"), "{error:?}"),
        }
    }
}
