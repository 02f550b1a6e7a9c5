use super::*;
use crate::resolve::{Resolved, resolve};
use crate::samples::{job, plan};
use iodyno_model::{Distribution, Engine, Target, Work};

const MIB: u64 = 1 << 20;

/// A folder `/t` with files of these names and lengths, beside other things.
struct Fake(Vec<(&'static str, Found)>);

impl Probe for Fake {
    fn look(&self, path: &Path) -> Found {
        if path == Path::new("/t") {
            return Found::Folder;
        }
        if path == Path::new("/f") {
            return Found::File(5);
        }
        if !path.starts_with("/t") {
            return Found::NoFolder("/gone".into());
        }
        let known = |(name, _): &&(&str, Found)| path.ends_with(name);
        let found = self.0.iter().find(known);
        found.map_or(Found::Missing, |(_, found)| found.clone())
    }

    fn is_link(&self, path: &Path) -> bool {
        path.ends_with("test_file.2") && matches!(self.look(path), Found::File(77))
    }

    fn free(&self, _: &Path) -> Option<u64> {
        Some(1000 * MIB)
    }
}

fn rule(mode: SharedMode) -> SharedFiles {
    SharedFiles {
        engine: Engine::new(EngineKind::Psync, 1),
        count: 1,
        distribution: Distribution::Uniform,
        seed: None,
        mode,
        file_size: 4 * MIB,
        block: 16 << 10,
        merged: 0,
        read_write_ratio: 1.5,
        fsync_every: 100,
        fsync_all: false,
        fsync_end: true,
        data_only: false,
        validate: false,
    }
}

fn sharing(rule: SharedFiles, count: u32, clones: u32) -> Job {
    Job {
        clones,
        work: Work::SharedFiles(SharedFiles { count, ..rule }),
        ..job("fileio")
    }
}

fn bound(job: Job, there: &[(&'static str, Found)]) -> Result<Resolved, String> {
    let told = |faults: Vec<Diagnostic>| {
        let texts = faults.into_iter().map(|fault| {
            let hint = fault.hint.unwrap_or_default();
            format!("{} [{hint}]", fault.message)
        });
        texts.collect::<Vec<_>>().join("\n")
    };
    resolve(&plan("/t", vec![job]), &Fake(there.to_vec())).map_err(told)
}

fn whole(count: usize) -> Vec<(&'static str, Found)> {
    const NAMES: [&str; 4] = ["test_file.0", "test_file.1", "test_file.2", "test_file.3"];
    let names = NAMES[..count].iter();
    names.map(|name| (*name, Found::File(4 * MIB))).collect()
}

#[test]
fn all_clones_work_on_the_same_files_from_start_to_end() {
    let mut there = whole(4);
    // A longer one is used as far as the others reach.
    there[3].1 = Found::File(9 * MIB);
    let resolved = bound(sharing(rule(SharedMode::RandomMix), 4, 3), &there).unwrap();
    assert_eq!(resolved.clones.len(), 3);
    for clone in &resolved.clones {
        assert_eq!(clone.files, resolved.clones[0].files);
        let paths: Vec<_> = clone.files.iter().map(|file| file.path.clone()).collect();
        let expected = (0..4).map(|number| PathBuf::from(format!("/t/./test_file.{number}")));
        assert!(paths.iter().cloned().eq(expected), "{paths:?}");
        assert!(
            clone
                .files
                .iter()
                .all(|f| (f.base, f.length) == (0, 4 * MIB))
        );
        assert_eq!(clone.region_bytes, 16 * MIB);
    }
}

#[test]
fn everything_that_is_wrong_with_the_files_is_said_once_and_at_once() {
    let mut there = whole(3);
    there[1].1 = Found::File(MIB);
    there[2].1 = Found::Folder;
    let told = bound(sharing(rule(SharedMode::RandomRead), 9, 4), &there).unwrap_err();
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 3, "{told}");
    let missing = "test_file.3, test_file.4, test_file.5 …: 6 of 9 files are missing";
    assert!(
        lines[0].contains(missing) && lines[0].contains("prepare"),
        "{told}"
    );
    let short = "test_file.1 (1 MiB): 1 of 9 files are shorter than 4 MiB";
    assert!(
        lines[1].contains(short) && lines[1].contains("--file-num"),
        "{told}"
    );
    assert!(lines[2].contains("test_file.2` is a folder"), "{told}");
}

#[test]
fn a_job_that_creates_files_needs_none_and_refuses_other_types() {
    for mode in [SharedMode::Prepare, SharedMode::SequentialWrite] {
        let mut there = whole(2);
        there[1].1 = Found::File(7);
        let resolved = bound(sharing(rule(mode), 4, 1), &there).unwrap();
        let existing: Vec<_> = resolved.clones[0]
            .files
            .iter()
            .map(|f| f.existing)
            .collect();
        assert_eq!(existing, [Some(4 * MIB), Some(7), None, None]);
        for (found, word) in [
            (Found::File(77), "is a symbolic link"),
            (Found::Device(4 * MIB), "is a device"),
            (Found::Null, "is not a regular file"),
            (Found::Other("is a pipe".to_owned()), "is a pipe"),
        ] {
            let there = [("test_file.2", found)];
            let told = bound(sharing(rule(mode), 4, 1), &there).unwrap_err();
            assert!(told.contains(&format!("test_file.2` {word}")), "{told}");
        }
    }
}

#[test]
fn what_no_storage_can_do_is_refused() {
    let check = |change: &dyn Fn(&mut SharedFiles), word: &str| {
        let mut job = sharing(rule(SharedMode::Prepare), 4, 1);
        change(job.work.shared_files_mut().unwrap());
        let told = bound(job, &[]).unwrap_err();
        assert!(told.contains(word), "{told}");
    };
    check(&|rule| rule.block = 0, "block size is 0");
    check(&|rule| rule.file_size = 0, "--file-total-size");
    check(
        &|rule| rule.file_size = u64::MAX,
        "longer than the largest possible file",
    );
    check(&|rule| rule.merged = 1 << 31, "limit of 1 GiB");
    check(&|rule| rule.merged = 24 << 10, "whole number of blocks");
    check(
        &|rule| rule.engine = Engine::new(EngineKind::Mmap, 1),
        "cannot extend files",
    );
    let job = sharing(rule(SharedMode::Prepare), 4, 1);
    let mut on_a_file = plan("/t", vec![job]);
    on_a_file.configuration.target = Target::Path("/f".into());
    let told = resolve(&on_a_file, &Fake(Vec::new())).unwrap_err();
    assert!(told[0].message.contains("not a folder"), "{told:?}");
}

#[test]
fn an_engine_without_files_has_as_many_names_as_files_were_asked_for() {
    let mut job = sharing(rule(SharedMode::RandomMix), 4, 1);
    *job.work.engine_mut().unwrap() = Engine::new(EngineKind::Null, 1);
    assert_eq!(bound(job, &[]).unwrap().clones[0].files.len(), 4);
}
