//! Complete jobs on shared files, with real backends and several clones.

use iodyno_testing::skip;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use iodyno_engine::{
    CloneOutcome, ClonePart, CloneShared, CloneSpec, JobFile, SharedFilesPart, SharedFilesState,
    run,
};
use iodyno_model::{Direction, EndedBy, Engine, EngineKind, Job, SharedFiles, SharedMode, Step};
use iodyno_units::Nanos;

#[path = "../src/testing.rs"]
mod testing;

const ENGINES: [EngineKind; 4] = [
    EngineKind::Psync,
    EngineKind::Libaio,
    EngineKind::IoUring,
    EngineKind::Mmap,
];
const FILES: u32 = 8;
const BLOCK: u64 = 16 << 10;
const FILE_SIZE: u64 = 10 * BLOCK;

fn rule(mode: SharedMode) -> SharedFiles {
    testing::shared_rule(mode, FILE_SIZE, BLOCK)
}

/// The results of all clones of a job.
struct Done {
    outcomes: Vec<CloneOutcome>,
    shared: Vec<Arc<CloneShared>>,
}

impl Done {
    fn count(&self, direction: Direction) -> u64 {
        let counters = self
            .shared
            .iter()
            .map(|shared| shared.measure.of(direction));
        counters.map(|counters| counters.service.count()).sum()
    }

    fn events(&self) -> u64 {
        let counted = [Direction::Read, Direction::Write, Direction::Sync];
        counted.map(|direction| self.count(direction)).iter().sum()
    }

    fn ended(&self, by: EndedBy) {
        for outcome in &self.outcomes {
            assert_eq!(outcome.ended, by, "{outcome:?}");
            assert!(outcome.errors.is_empty() || by == EndedBy::Error);
        }
    }

    fn first_bad(&self) -> String {
        let mut found = self.outcomes.iter().filter_map(|o| o.verify.clone());
        found.find_map(|verify| verify.first).unwrap_or_default()
    }
}

fn name(folder: &Path, number: u32) -> std::path::PathBuf {
    folder.join(format!("test_file.{number}"))
}

fn start(folder: &Path, rule: &SharedFiles, engine: Engine, change: impl FnOnce(&mut Job)) -> Done {
    let direct = if engine.direct { 0o40000 } else { 0 };
    let rule = &SharedFiles {
        engine,
        ..rule.clone()
    };
    let mut job = testing::shared_job(rule, FILES);
    change(&mut job);
    let length = |number| fs::metadata(name(folder, number)).map_or(0, |found| found.len());
    let lengths: Vec<u64> = (0..FILES).map(length).collect();
    let state = Arc::new(SharedFilesState::new(&job, rule, &lengths, 3));
    let job = Arc::new(job);
    let files = || {
        let open = |number| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            let file = options
                .custom_flags(direct)
                .open(name(folder, number))
                .unwrap();
            JobFile {
                descriptor: Some(file.into()),
                name: format!("test_file.{number}"),
                base: 0,
                length: rule.file_size,
                device: false,
            }
        };
        (0..FILES).map(open).collect()
    };
    let spec = |clone: u32| CloneSpec {
        job: Arc::clone(&job),
        job_index: 0,
        clone,
        files: files(),
        seed: u64::from(clone) + 1,
        simulated: None,
        output: Default::default(),
        byte_budget: 0,
        log: None,
        flow: None,
        part: ClonePart::SharedFiles(SharedFilesPart::new(&state)),
    };
    let shared: Vec<_> = (0..job.clones)
        .map(|_| Arc::new(CloneShared::of(&job)))
        .collect();
    let specs: Vec<_> = (0..job.clones).map(spec).collect();
    let outcomes = std::thread::scope(|scope| {
        let threads: Vec<_> = specs
            .into_iter()
            .zip(&shared)
            .map(|(spec, shared)| scope.spawn(|| run(spec, shared).unwrap()))
            .collect();
        shared.iter().for_each(|shared| {
            shared.gate.arrived();
        });
        shared.iter().for_each(|shared| shared.gate.release(0));
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    Done { outcomes, shared }
}

fn prepare(folder: &Path, validate: bool) {
    let mut rule = rule(SharedMode::Prepare);
    rule.validate = validate;
    let done = start(folder, &rule, Engine::new(EngineKind::Psync, 1), |_| {});
    done.ended(EndedBy::Size);
}

#[test]
fn every_engine_does_every_mode_with_the_exact_number_of_events() {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path(), false);
    for kind in ENGINES {
        for mode in [
            SharedMode::SequentialRewrite,
            SharedMode::SequentialRead,
            SharedMode::RandomRead,
            SharedMode::RandomWrite,
            SharedMode::RandomMix,
        ] {
            for (clones, fsync_all, direct) in
                [(1, false, false), (4, false, true), (3, true, false)]
            {
                let mut rule = rule(mode);
                (rule.fsync_every, rule.fsync_all, rule.fsync_end) = (50, fsync_all, !fsync_all);
                rule.data_only = clones == 4;
                let mut engine = Engine::new(kind, 8);
                engine.direct = direct && kind != EngineKind::Mmap;
                let done = start(folder.path(), &rule, engine, |job| {
                    job.clones = clones;
                    job.end.ops = Some(700);
                });
                let case = format!("{kind:?} {mode:?} {clones} {fsync_all}");
                done.ended(EndedBy::Count);
                let (writes, syncs) = (done.count(Direction::Write), done.count(Direction::Sync));
                match fsync_all {
                    true => {
                        assert_eq!((done.events(), syncs), (700 + writes, writes), "{case}");
                    }
                    false => assert_eq!(done.events(), 700, "{case}"),
                }
                assert_eq!(writes > 0, mode.writes(), "{case}");
                assert_eq!(syncs > 0, mode.writes(), "{case}");
                assert_eq!(done.count(Direction::Read) > 0, mode.reads(), "{case}");
                let ends = done.outcomes.iter().flat_map(|outcome| &outcome.steps);
                let ends = ends.filter(|span| span.step == Step::EndFsync).count();
                assert_eq!(ends, usize::from(mode.writes() && !fsync_all), "{case}");
            }
        }
    }
}

#[test]
fn validated_blocks_are_never_bad_with_any_number_of_writers() {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path(), true);
    for kind in ENGINES {
        for (mode, merged) in [
            (SharedMode::SequentialRewrite, 4 * BLOCK),
            (SharedMode::RandomMix, 0),
            (SharedMode::RandomWrite, 0),
            (SharedMode::SequentialRead, 3 * BLOCK),
        ] {
            let mut rule = rule(mode);
            (rule.validate, rule.merged, rule.fsync_every) = (true, merged, 100);
            let done = start(folder.path(), &rule, Engine::new(kind, 16), |job| {
                job.clones = 4;
                job.end.ops = Some(6000);
            });
            done.ended(EndedBy::Count);
            let checked: u64 = done
                .outcomes
                .iter()
                .map(|o| o.verify.clone().unwrap().checked)
                .sum();
            let expected = done.count(Direction::Read);
            match merged {
                0 => assert_eq!(checked, expected, "{kind:?} {mode:?}"),
                // 10 blocks of a file in 4 requests.
                _ => assert!(checked > 2 * expected || expected == 0, "{kind:?} {mode:?}"),
            }
        }
    }
}

#[test]
fn a_flipped_byte_and_a_misplaced_block_fail_the_job_with_file_and_offset() {
    let folder = tempfile::tempdir().unwrap();
    for kind in ENGINES {
        for (misplaced, word) in [(false, "a wrong checksum"), (true, "the block of offset 0")] {
            let _ = fs::remove_file(name(folder.path(), 5));
            prepare(folder.path(), true);
            let mut options = OpenOptions::new();
            let path = name(folder.path(), 5);
            let file = options.read(true).write(true).open(path).unwrap();
            let mut block = vec![0; BLOCK as usize];
            let from = if misplaced { 0 } else { 3 * BLOCK };
            file.read_exact_at(&mut block, from).unwrap();
            block[77] ^= u8::from(!misplaced);
            file.write_all_at(&block, 3 * BLOCK).unwrap();
            for mode in [SharedMode::SequentialRead, SharedMode::RandomRead] {
                let mut rule = rule(mode);
                rule.validate = true;
                let done = start(folder.path(), &rule, Engine::new(kind, 4), |job| {
                    job.end.ops = Some(1_000_000);
                });
                done.ended(EndedBy::Error);
                let first = done.first_bad();
                let place = format!("test_file.5 at offset {}: found {word}", 3 * BLOCK);
                assert_eq!(first, place, "{kind:?} {mode:?}");
                assert!(done.events() < 100_000, "it went on");
            }
        }
    }
}

#[test]
fn files_are_filled_completely_with_data_that_does_not_repeat() {
    for (kind, clones, direct) in [
        (EngineKind::Psync, 1, false),
        (EngineKind::Psync, 3, true),
        (EngineKind::Libaio, 2, true),
        (EngineKind::IoUring, 1, false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(name(folder.path(), 2), vec![7; BLOCK as usize + 100]).unwrap();
        fs::write(name(folder.path(), 4), vec![9; FILE_SIZE as usize + 5]).unwrap();
        let mut rule = rule(SharedMode::Prepare);
        rule.merged = 4 * BLOCK;
        let mut engine = Engine::new(kind, 8);
        engine.direct = direct;
        let done = start(folder.path(), &rule, engine, |job| job.clones = clones);
        done.ended(EndedBy::Size);
        let ends = done.outcomes.iter().flat_map(|outcome| &outcome.steps);
        assert_eq!(ends.filter(|span| span.step == Step::EndFsync).count(), 1);
        let mut pages = std::collections::HashSet::new();
        for number in 0..FILES {
            let content = fs::read(name(folder.path(), number)).unwrap();
            match number {
                4 => assert_eq!(content, vec![9; FILE_SIZE as usize + 5], "kept"),
                2 => assert_eq!(content[..BLOCK as usize], vec![7; BLOCK as usize], "kept"),
                _ => {}
            }
            if number != 4 {
                assert_eq!(content.len() as u64, FILE_SIZE);
            }
            if number != 2 && number != 4 {
                let page = |page: &[u8]| assert!(pages.insert(page.to_vec()), "a page twice");
                content.chunks(4096).for_each(page);
            }
        }
    }
}

#[test]
fn no_request_is_issued_before_it_is_due_and_each_has_a_response_latency() {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path(), false);
    let paced = |change: &dyn Fn(&mut Job)| {
        let engine = Engine::new(EngineKind::Psync, 1);
        start(
            folder.path(),
            &rule(SharedMode::RandomRead),
            engine,
            |job| {
                job.pacing.ops_per_s = 500.0;
                change(job);
            },
        )
    };
    let done = paced(&|job| job.end.ops = Some(100));
    done.ended(EndedBy::Count);
    assert_eq!(done.events(), 100);
    let counters = done.shared[0].measure.of(Direction::Read);
    assert_eq!(counters.response.as_ref().unwrap().count(), 100);
    // The last of them is due 99 intervals after the first.
    let (start, end) = done.outcomes[0].measured;
    assert!(end - start >= 99 * 2_000_000, "{}", end - start);

    let done = paced(&|job| job.end.runtime = Some(Nanos::from_millis(200)));
    done.ended(EndedBy::Runtime);
    assert!(done.events() <= 100, "{} of 100", done.events());
}

/// Runs sysbench in a folder; `None` if it is not installed.
fn sysbench(folder: &Path, arguments: &[&str]) -> Option<String> {
    let total = (u64::from(FILES) * FILE_SIZE).to_string();
    let output = Command::new("sysbench")
        .current_dir(folder)
        .args([
            "fileio",
            "--file-num=8",
            "--validate=on",
            "--file-block-size=16384",
        ])
        .arg(format!("--file-total-size={total}"))
        .args(arguments)
        .output();
    let Ok(output) = output else {
        skip("sysbench is not installed");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    Some(text)
}

#[test]
fn sysbench_and_iodyno_accept_each_others_blocks() {
    let folder = tempfile::tempdir().unwrap();
    if sysbench(folder.path(), &["prepare"]).is_none() {
        return;
    }
    for mode in [
        SharedMode::SequentialRead,
        SharedMode::RandomMix,
        SharedMode::SequentialRead,
    ] {
        let mut rule = rule(mode);
        rule.validate = true;
        let done = start(
            folder.path(),
            &rule,
            Engine::new(EngineKind::Psync, 1),
            |job| {
                job.clones = 2;
                job.end.ops = Some(2000);
            },
        );
        done.ended(EndedBy::Count);
    }
    // The files now contain blocks of both programs.
    for mode in ["seqrd", "rndrw", "rndrd"] {
        let mode = format!("--file-test-mode={mode}");
        let text = sysbench(folder.path(), &[&mode, "--events=2000", "--time=0", "run"]).unwrap();
        assert!(text.contains("2000"), "{text}");
    }
}
