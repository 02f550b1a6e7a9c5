//! Complete trials on shared files, with this program as the node.
#![allow(clippy::print_stderr, missing_docs, dead_code)]

#[path = "../src/samples.rs"]
mod samples;
#[path = "trials/stage.rs"]
mod stage;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use iodyno_model::{
    Diagnostic, Direction, Distribution, EndedBy, Engine, EngineKind, Job, Outcome, SharedFiles,
    SharedMode, Step, Work,
};
use iodyno_runner::{Event, TrialEnd};
use iodyno_units::Nanos;
use libtest_mimic::{Arguments, Trial};

use stage::{LONG_MS, MIB, TrialRecord, run, watched};

crate::tests![
    many_clones_share_files_that_several_clones_prepared,
    missing_files_are_reported_and_not_created,
    a_link_is_refused_and_its_target_is_not_changed,
    a_preparation_that_is_ended_early_keeps_existing_files,
    a_preparation_that_cannot_fit_is_refused_before_it_begins,
    a_sequential_write_creates_and_truncates_its_files,
    a_sequential_write_truncates_no_file_with_another_hard_link,
    files_of_a_sequential_write_are_removed_if_it_did_not_begin,
    files_of_a_sequential_write_are_kept_after_it_ran,
    a_bad_block_fails_the_trial_with_file_and_offset,
    unaligned_direct_requests_are_refused,
];

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("node") {
        return ExitCode::from(iodyno_runner::serve());
    }
    let trials = TESTS.iter().map(|(name, test)| {
        Trial::test(*name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

const BLOCK: u64 = 16 << 10;

fn sharing(mode: SharedMode, count: u32, file_size: u64) -> Job {
    let rule = SharedFiles {
        lay_out: false,
        create_only: false,
        engine: Engine::new(EngineKind::Psync, 1),
        count,
        distribution: Distribution::Uniform,
        seed: None,
        mode,
        file_size,
        block: BLOCK,
        merged: 0,
        read_write_ratio: 1.5,
        fsync_every: 100,
        fsync_all: false,
        fsync_end: true,
        data_only: false,
        validate: false,
    };
    let mut job = samples::job("fileio");
    job.work = Work::SharedFiles(rule);
    job
}

fn with(mut job: Job, change: impl FnOnce(&mut SharedFiles)) -> Job {
    change(job.work.shared_files_mut().unwrap());
    job
}

fn events(mut job: Job, events: u64, clones: u32) -> Job {
    (job.end.ops, job.clones) = (Some(events), clones);
    job
}

fn at(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("test_file.{number}"))
}

fn length(folder: &Path, number: u32) -> Option<u64> {
    fs::metadata(at(folder, number))
        .ok()
        .map(|found| found.len())
}

fn count(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

fn ops(trial: &TrialRecord, direction: Direction) -> u64 {
    let clones = trial.completed().clones.iter();
    clones
        .filter_map(|clone| clone.direction(direction))
        .map(|result| result.ops)
        .sum()
}

/// The errors of a trial that was refused before any change.
fn faults(trial: &TrialRecord) -> &[Diagnostic] {
    match &trial.end {
        TrialEnd::Refused(faults) => faults,
        other => panic!("it was not refused: {other:?}"),
    }
}

/// The errors of a trial that failed before it began, after files were created or opened for it.
fn failures(trial: &TrialRecord) -> &[Diagnostic] {
    match &trial.end {
        TrialEnd::Unprepared(faults) => faults,
        other => panic!("it did not fail: {other:?}"),
    }
}

fn many_clones_share_files_that_several_clones_prepared() {
    let folder = tempfile::tempdir().unwrap();
    let mut prepare = with(sharing(SharedMode::Prepare, 128, 64 << 10), |rule| {
        rule.validate = true
    });
    prepare.clones = 3;
    let trial = run(folder.path(), vec![prepare]);
    assert_eq!(ops(&trial, Direction::Write), 128 * 4);
    let steps = &trial.completed().steps;
    assert!(steps.iter().any(|step| step.step == Step::EndFsync));
    assert!((0..128).all(|number| length(folder.path(), number) == Some(64 << 10)));
    for kind in [EngineKind::Psync, EngineKind::Libaio, EngineKind::Mmap] {
        let mut job = sharing(SharedMode::RandomMix, 128, 64 << 10);
        *job.work.engine_mut().unwrap() = Engine::new(kind, 4);
        let job = with(events(job, 30_000, 64), |rule| rule.validate = true);
        let trial = run(folder.path(), vec![job]);
        let (reads, writes) = (ops(&trial, Direction::Read), ops(&trial, Direction::Write));
        let syncs = ops(&trial, Direction::Sync);
        assert_eq!(reads + writes + syncs, 30_000, "{kind:?}");
        // Each of 64 clones can be one or two reads ahead.
        assert!(reads.abs_diff(writes * 3 / 2) < 130, "{reads} {writes}");
        assert!((syncs as f64 / 128.0 - (reads + writes) as f64 / 100.0).abs() <= 1.5);
    }
    assert_eq!(count(folder.path()), 128, "they stay");
}

fn missing_files_are_reported_and_not_created() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(at(folder.path(), 0), vec![1; MIB as usize]).unwrap();
    fs::write(at(folder.path(), 1), b"short").unwrap();
    let trial = run(
        folder.path(),
        vec![events(sharing(SharedMode::RandomMix, 9, MIB), 10, 4)],
    );
    let faults = faults(&trial);
    assert_eq!(faults.len(), 2, "{faults:?}");
    let text = format!("{faults:?}");
    for words in [
        "test_file.2, test_file.3",
        "7 of 9 files are missing",
        "test_file.1 (5 B)",
        "prepare",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert_eq!(count(folder.path()), 2);
}

fn a_link_is_refused_and_its_target_is_not_changed() {
    for mode in [
        SharedMode::Prepare,
        SharedMode::SequentialWrite,
        SharedMode::RandomWrite,
    ] {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let precious = other.path().join("precious");
        fs::write(&precious, vec![5; 2 * MIB as usize]).unwrap();
        fs::write(at(folder.path(), 0), vec![1; MIB as usize]).unwrap();
        symlink(&precious, at(folder.path(), 1)).unwrap();
        let trial = run(folder.path(), vec![sharing(mode, 2, MIB)]);
        let text = format!("{:?}", faults(&trial));
        assert!(text.contains("test_file.1` is a symbolic link"), "{text}");
        assert_eq!(fs::read(&precious).unwrap(), vec![5; 2 * MIB as usize]);
        assert_eq!(length(folder.path(), 0), Some(MIB));
    }
}

fn a_preparation_that_is_ended_early_keeps_existing_files() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(at(folder.path(), 0), vec![3; 70_000]).unwrap();
    fs::write(at(folder.path(), 3), vec![4; 65 * MIB as usize]).unwrap();
    fs::write(folder.path().join("mine"), b"mine").unwrap();
    // More than the fastest disk can write before it is ended.
    let mut job = sharing(SharedMode::Prepare, 40, 64 * MIB);
    (job.work.engine_mut().unwrap().o_sync, job.clones) = (true, 2);
    job.work.shared_files_mut().unwrap().block = 4096;
    let mut plan = samples::plan(folder.path(), vec![job]);
    plan.frame_ns = 20_000_000;
    let trial = watched(&plan, |event, stop| {
        if let Event::Frame(frame) = event
            && frame.ops(Direction::Write) > 0
        {
            stop.finish();
        }
    });
    let (part, outcome) = trial.done();
    assert!(matches!(outcome, Outcome::Interrupted(_)), "{outcome:?}");
    assert!(
        part.notes
            .iter()
            .any(|note| note.contains("did not finish")),
        "{:?}",
        part.notes
    );
    assert_eq!(fs::read(at(folder.path(), 0)).unwrap(), vec![3; 70_000]);
    assert_eq!(length(folder.path(), 3), Some(65 * MIB));
    assert_eq!(count(folder.path()), 3);
}

fn a_preparation_that_cannot_fit_is_refused_before_it_begins() {
    let folder = tempfile::tempdir().unwrap();
    let trial = run(
        folder.path(),
        vec![sharing(SharedMode::Prepare, 128, 1 << 40)],
    );
    let text = format!("{:?}", faults(&trial));
    assert!(text.contains("free"), "{text}");
    assert_eq!(count(folder.path()), 0);
}

fn a_sequential_write_creates_and_truncates_its_files() {
    for kind in [EngineKind::Psync, EngineKind::Mmap] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(at(folder.path(), 1), vec![1; 3 * MIB as usize]).unwrap();
        let mut job = sharing(SharedMode::SequentialWrite, 4, MIB);
        *job.work.engine_mut().unwrap() = Engine::new(kind, 1);
        let job = with(events(job, 4 * 64, 2), |rule| rule.fsync_every = 0);
        let trial = run(folder.path(), vec![job]);
        assert_eq!(ops(&trial, Direction::Write), 4 * 64);
        assert_eq!(trial.completed().clones[0].ended, EndedBy::Count);
        assert!((0..4).all(|number| length(folder.path(), number) == Some(MIB)));
        let old = fs::read(at(folder.path(), 1)).unwrap();
        assert!(old.chunks(512).all(|chunk| chunk != [1; 512]));
    }
}

fn a_sequential_write_truncates_no_file_with_another_hard_link() {
    let folder = tempfile::tempdir().unwrap();
    let mine = folder.path().join("mine");
    fs::write(&mine, vec![1; MIB as usize]).unwrap();
    fs::hard_link(&mine, at(folder.path(), 0)).unwrap();
    let trial = run(
        folder.path(),
        vec![sharing(SharedMode::SequentialWrite, 2, MIB)],
    );
    let text = format!("{:?}", failures(&trial));
    assert!(text.contains("has another hard link"), "{text}");
    assert_eq!(fs::read(&mine).unwrap(), vec![1; MIB as usize]);
    assert_eq!(count(folder.path()), 2, "created files are removed");
}

/// The clones detect that blocks of this size have no room for a trailer only after all files exist.
fn files_of_a_sequential_write_are_removed_if_it_did_not_begin() {
    for kind in [EngineKind::Psync, EngineKind::Mmap] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(at(folder.path(), 1), b"short").unwrap();
        fs::write(folder.path().join("mine"), b"mine").unwrap();
        let mut job = sharing(SharedMode::SequentialWrite, 4, MIB);
        *job.work.engine_mut().unwrap() = Engine::new(kind, 1);
        let job = with(job, |rule| (rule.validate, rule.block) = (true, 8));
        let trial = run(folder.path(), vec![job]);
        let text = format!("{:?}", failures(&trial));
        assert!(text.contains("validate blocks of 8 bytes"), "{text}");
        assert_eq!(count(folder.path()), 2, "{kind:?}");
        assert!(length(folder.path(), 1).is_some());
        assert_eq!(fs::read(folder.path().join("mine")).unwrap(), b"mine");
    }
}

fn files_of_a_sequential_write_are_kept_after_it_ran() {
    let folder = tempfile::tempdir().unwrap();
    let mut job = sharing(SharedMode::SequentialWrite, 4, MIB);
    (job.work.engine_mut().unwrap().o_sync, job.end.runtime) =
        (true, Some(Nanos::from_millis(LONG_MS)));
    let trial = watched(&samples::plan(folder.path(), vec![job]), |event, stop| {
        if let Event::Frame(_) = event {
            stop.finish();
        }
    });
    let (_, outcome) = trial.done();
    assert!(matches!(outcome, Outcome::Interrupted(_)), "{outcome:?}");
    assert_eq!(count(folder.path()), 4);
}

fn a_bad_block_fails_the_trial_with_file_and_offset() {
    let folder = tempfile::tempdir().unwrap();
    let prepare = with(sharing(SharedMode::Prepare, 4, MIB), |rule| {
        rule.validate = true
    });
    run(folder.path(), vec![prepare]).completed();
    let mut content = fs::read(at(folder.path(), 2)).unwrap();
    content[5 * BLOCK as usize + 9] ^= 4;
    fs::write(at(folder.path(), 2), content).unwrap();
    let job = with(sharing(SharedMode::SequentialRead, 4, MIB), |rule| {
        rule.validate = true
    });
    let trial = run(folder.path(), vec![events(job, 100_000, 1)]);
    let (_, outcome) = trial.done();
    let Outcome::Failed(reason) = outcome else {
        panic!("{outcome:?}");
    };
    let place = format!("test_file.2 at offset {}", 5 * BLOCK);
    assert!(reason.contains(&place), "{reason}");
}

fn unaligned_direct_requests_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let size = MIB + 100;
    run(folder.path(), vec![sharing(SharedMode::Prepare, 3, size)]).completed();
    assert!((0..3).all(|number| length(folder.path(), number) == Some(size)));
    let mut job = events(sharing(SharedMode::RandomRead, 3, size), 100, 4);
    let trial = run(folder.path(), vec![job.clone()]);
    assert_eq!(ops(&trial, Direction::Read), 100);
    job.work.engine_mut().unwrap().direct = true;
    let text = format!("{:?}", failures(&run(folder.path(), vec![job])));
    assert!(
        text.contains("multiples of") && text.contains("--file-total-size"),
        "{text}"
    );
}
