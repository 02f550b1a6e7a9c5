//! The trial's folder, its files and its removal, on the file system of temporary folders.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use iodyno_model::{
    Action, Buffers, CycleStep, FileSet, Job, Operations, RunId, ShellCommand, TrialKey, Work,
    Writing,
};

use super::folder::{self, OpenFolder, folder_name};
use super::room::RoomNeeded;
use super::sets::{self, Place, Progress, Talk};
use super::{OrphanFolder, site};
use crate::faults::PrepareError;
use crate::samples;

const MIB: u64 = 1 << 20;

fn key() -> TrialKey {
    TrialKey {
        run: RunId::fresh(),
        round: 1,
        cell: 2,
        attempt: 3,
    }
}

/// The name of the folder of a trial's first node.
fn named(key: &TrialKey) -> String {
    let mut plan = samples::plan(Path::new("/"), Vec::new());
    plan.key = *key;
    folder_name(&plan)
}

fn opened(folder: &Path) -> OwnedFd {
    fs::File::open(folder).unwrap().into()
}

fn own(folder: &Path, key: &TrialKey) -> io::Result<OpenFolder> {
    OpenFolder::make(opened(folder), folder, named(key))
}

/// A job of file operations that creates files of this length, bytes.
fn makes(bytes: u64, sets: &[(u64, u64)], clones: u32) -> Job {
    let cycle = [Action::Create, Action::Write { bytes }, Action::Close];
    let sets = sets.iter().enumerate().map(|(index, set)| FileSet {
        name: format!("set{index}"),
        count: set.0,
        size: set.1,
        fsync: false,
        folders: false,
    });
    Job {
        clones,
        work: Work::FileOperations(Operations {
            about: String::new(),
            sets: sets.collect(),
            cycle: cycle
                .map(|action| CycleStep {
                    action,
                    timed: true,
                })
                .to_vec(),
            own_folders: false,
            drain: false,
            writing: Default::default(),
            fio: None,
            command: None,
        }),
        ..Job::default()
    }
}

fn orphan(folder: &Path, key: TrialKey) -> OrphanFolder {
    let mut plan = samples::plan(folder, vec![makes(1, &[], 1)]);
    plan.key = key;
    OrphanFolder::of(&plan).unwrap()
}

#[test]
fn a_name_identifies_its_trial_and_is_unique() {
    let one = key();
    let name = named(&one);
    assert!(
        name.starts_with("iodyno-") && name.ends_with("-1-2-3"),
        "{name}"
    );
    for other in [
        TrialKey { round: 9, ..one },
        TrialKey { cell: 9, ..one },
        TrialKey { attempt: 9, ..one },
        key(),
    ] {
        assert_ne!(named(&other), name);
    }
    // The nodes of a trial may share the target.
    let mut plan = samples::plan(Path::new("/"), Vec::new());
    (plan.key, plan.node) = (one, 1);
    assert_eq!(folder_name(&plan), format!("{name}-node1"));
}

#[test]
fn a_folder_is_created_once_and_accessible_only_to_its_user() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let key = key();
    let made = own(folder.path(), &key).unwrap();
    let mode = fs::metadata(&made.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let again = own(folder.path(), &key).unwrap_err();
    assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    assert!(made.path.join(".iodyno").exists());
}

#[test]
fn remains_of_killed_trials_are_reported_with_a_command_and_other_folders_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let notes = || folder::others(opened(at).as_fd(), at, "iodyno-mine").unwrap();
    fs::create_dir(at.join("iodyno-users-own")).unwrap();
    fs::write(at.join("iodyno-file"), "").unwrap();
    // A marker that names another folder is a copy.
    fs::create_dir(at.join("iodyno-copy")).unwrap();
    fs::write(at.join("iodyno-copy/.iodyno"), "iodyno-other\n").unwrap();
    assert_eq!(notes(), Vec::<String>::new());

    let working = own(at, &key()).unwrap();
    let found = notes();
    assert!(
        found.len() == 1 && found[0].contains("at the same time"),
        "{found:?}"
    );
    // The nodes of a trial may share the target.
    let node = format!("{}-node1", working.name);
    let of_its_node = folder::others(opened(at).as_fd(), at, &node).unwrap();
    assert_eq!(of_its_node, Vec::<String>::new());
    let left = working.path.clone();
    drop(working);
    let found = notes();
    let command = format!("rm -r {}", left.display());
    assert!(found.len() == 2 && found[1] == command, "{found:?}");
    for _ in 0..9 {
        drop(own(at, &key()).unwrap());
    }
    let found = notes();
    assert!(found[0].contains("and 5 more"), "{found:?}");
    let commands = found[1..].iter().filter(|note| note.starts_with("rm -r /"));
    assert_eq!((commands.count(), found.len()), (5, 6), "{found:?}");
}

#[test]
fn removal_deletes_the_folder_with_its_content_and_follows_no_link() {
    let folder = tempfile::tempdir().unwrap();
    let theirs = folder.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    fs::write(theirs.join("file"), "stays").unwrap();
    let own = own(folder.path(), &key()).unwrap();
    let deep = own.path.join("a/b/c");
    fs::create_dir_all(&deep).unwrap();
    for number in 0..300 {
        fs::write(deep.join(number.to_string()), "x").unwrap();
    }
    std::os::unix::fs::symlink(&theirs, own.path.join("a/link")).unwrap();
    std::os::unix::fs::symlink(theirs.join("file"), deep.join("link")).unwrap();
    let mut reported = Vec::new();
    let removed = site::remove(&own, &mut |done, of| reported.push((done, of)));
    assert_eq!(removed, Ok(305));
    assert_eq!(reported.last(), Some(&(305, 305)));
    assert!(!own.path.exists());
    assert_eq!(fs::read_to_string(theirs.join("file")).unwrap(), "stays");
}

#[test]
fn a_moved_folder_is_emptied_and_a_new_one_with_its_name_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let own = own(folder.path(), &key()).unwrap();
    fs::write(own.path.join("file"), "ours").unwrap();
    let moved = folder.path().join("moved");
    fs::rename(&own.path, &moved).unwrap();
    fs::create_dir(&own.path).unwrap();
    fs::write(own.path.join("theirs"), "stays").unwrap();
    assert_eq!(site::remove(&own, &mut |_, _| {}), Ok(1));
    assert_eq!(fs::read_dir(&moved).unwrap().count(), 0);
    assert!(own.path.join("theirs").exists());
    fs::remove_dir_all(&moved).unwrap();
    assert!(!folder::is_gone(opened(&own.path).as_fd()));
    assert!(folder::is_gone(own.folder.as_fd()));
}

#[test]
fn a_parent_removes_only_what_its_dead_node_made() {
    let clear = |folder: &Path, key| orphan(folder, key).remove(&mut |_, _| {});
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    assert_eq!(clear(at, key()), Ok(false));

    let whole = key();
    let made = own(at, &whole).unwrap();
    let path = made.path.clone();
    let held = clear(at, whole).unwrap_err();
    assert!(
        held.contains("a process still uses it") && path.exists(),
        "{held}"
    );
    drop(made);
    assert_eq!((clear(at, whole), path.exists()), (Ok(true), false));

    // The process was killed before its marker was complete.
    let begun = key();
    fs::create_dir(at.join(named(&begun))).unwrap();
    assert_eq!(clear(at, begun), Ok(true));
    fs::create_dir(at.join(named(&begun))).unwrap();
    fs::write(at.join(named(&begun)).join(".iodyno"), "The files of").unwrap();
    assert_eq!(clear(at, begun), Ok(true));

    // A folder of another user.
    for marker in [None, Some("another's")] {
        let theirs = key();
        let path = at.join(named(&theirs));
        fs::create_dir(&path).unwrap();
        fs::write(path.join("file"), "stays").unwrap();
        if let Some(marker) = marker {
            fs::write(path.join(".iodyno"), marker).unwrap();
        }
        assert!(clear(at, theirs).is_err());
        assert_eq!(fs::read_to_string(path.join("file")).unwrap(), "stays");
    }
}

/// Creates a set; returns its result and the numbers of the existing files.
fn make(
    set: &FileSet,
    folder: &Path,
    stop: &dyn Fn() -> bool,
) -> (Result<(), PrepareError>, Vec<u64>) {
    make_with(set, Writing::default(), folder, stop)
}

fn make_with(
    set: &FileSet,
    writing: Writing,
    folder: &Path,
    stop: &dyn Fn() -> bool,
) -> (Result<(), PrepareError>, Vec<u64>) {
    let (folders, paths) = ([opened(folder)], [PathBuf::from(folder)]);
    let place = Place {
        folders: &folders,
        paths: &paths,
    };
    let progress = Progress::of([set].into_iter());
    let mut talk = Talk {
        stop,
        tell: &mut |_, _| {},
        progress: &progress,
    };
    let made = sets::make(set, writing, place, &Buffers::default(), 7, &mut talk);
    let names = fs::read_dir(folder).unwrap().map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        name.rsplit('.').next().unwrap().parse().unwrap()
    });
    let mut numbers: Vec<u64> = names.collect();
    numbers.sort_unstable();
    (made, numbers)
}

#[test]
fn files_are_complete_and_incompressible() {
    let folder = tempfile::tempdir().unwrap();
    let set = FileSet {
        name: "big".to_owned(),
        count: 5,
        size: 2 * MIB + 5000,
        fsync: true,
        folders: false,
    };
    for (chunk, threads) in [(MIB, None), (1024, Some(1)), (1 << 16, Some(3))] {
        let folder = tempfile::tempdir_in(folder.path()).unwrap();
        let writing = Writing { chunk, threads };
        let (made, numbers) = make_with(&set, writing, folder.path(), &|| false);
        assert_eq!((made, numbers), (Ok(()), (0..5).collect()));
        let mut blocks = std::collections::HashSet::new();
        for entry in fs::read_dir(folder.path()).unwrap() {
            let content = fs::read(entry.unwrap().path()).unwrap();
            assert_eq!(content.len() as u64, set.size);
            let zeroes = content.iter().filter(|byte| **byte == 0).count();
            assert!(zeroes < content.len() / 128, "{zeroes}");
            // Whole blocks, and parts of them: a file system may compress 128 KiB units.
            for length in [4096, 1024] {
                for block in content.chunks_exact(length) {
                    assert!(blocks.insert(block.to_vec()), "two blocks are equal");
                }
            }
        }
    }
}

#[test]
fn files_are_created_in_the_order_of_their_numbers_until_a_stop_request() {
    let folder = tempfile::tempdir().unwrap();
    let set = FileSet {
        name: "many".to_owned(),
        count: 10_000_000,
        size: 100,
        fsync: false,
        folders: false,
    };
    let enough = folder.path().join("many.000000050");
    let stop = || enough.exists();
    let (made, numbers) = make(&set, folder.path(), &stop);
    assert_eq!(made, Err(PrepareError::Withdrawn));
    // All numbers below the highest exist, except for the few files in progress.
    let highest = *numbers.last().unwrap();
    assert!(
        highest >= 50 && highest + 1 - numbers.len() as u64 <= 4,
        "{highest}"
    );
}

#[test]
fn an_existing_file_is_an_error_and_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let set = FileSet {
        name: "s".to_owned(),
        count: 100,
        size: 10,
        fsync: false,
        folders: false,
    };
    let theirs = folder.path().join("s.000000050");
    fs::write(&theirs, "stays").unwrap();
    let (made, _) = make(&set, folder.path(), &|| false);
    let Err(PrepareError::Unprepared(faults)) = made else {
        panic!("{made:?}");
    };
    let message = &faults[0].message;
    assert!(message.contains("s.000000050") && message.contains("of 100 files"));
    assert_eq!(fs::read_to_string(theirs).unwrap(), "stays");
}

#[test]
fn space_is_computed_in_whole_blocks_with_metadata() {
    let check = |jobs: Vec<Job>, (data, files, longest): (u64, u64, u64)| {
        let needed = RoomNeeded::of(&samples::plan("/", jobs));
        assert_eq!(needed.figures(), (data, files, longest));
    };
    let counted = |mut job: Job, ops| {
        job.end.ops = Some(ops);
        job
    };
    // The folder, its marker and the job's folder; the file of a cycle, and the file that the cycle leaves.
    check(vec![makes(0, &[], 1)], (0, 5, 0));
    check(vec![makes(5000, &[], 1)], (2 * 5000 + 2 * 2048, 5, 5000));
    check(vec![counted(makes(0, &[], 1), 1000)], (0, 1004, 0));
    check(vec![makes(0, &[(10, 4096)], 1)], (40_960, 15, 4096));
    check(
        vec![makes(0, &[(10, 1), (5, 4097)], 1)],
        (10 * 4096 + 5 * 8192, 20, 4097),
    );
}

#[test]
fn space_for_a_command_is_not_checked_because_its_needs_are_unknown() {
    let shortages = |command: Option<ShellCommand>| {
        let mut job = makes(1 << 60, &[], 1);
        job.work.file_operations_mut().unwrap().command = command;
        RoomNeeded::of(&samples::plan("/", vec![job])).shortages(Path::new("/"))
    };
    assert_eq!(shortages(None).len(), 1);
    assert_eq!(shortages(Some(ShellCommand::new("true"))), []);
}

#[test]
fn growth_that_may_exceed_the_free_space_is_reported_with_both_figures() {
    let appends = |keep, ops| {
        let mut job = makes(0, &[], 1);
        job.end.ops = ops;
        job.work.file_operations_mut().unwrap().cycle = vec![CycleStep {
            action: Action::Append {
                bytes: 1 << 20,
                new_file_at: 1 << 30,
                keep,
            },
            timed: true,
        }];
        RoomNeeded::of(&samples::plan("/", vec![job]))
    };
    let at = Path::new("/mnt/data");
    let (gib, by_time) = (1u64 << 30, appends(Some(1), None));
    let said = by_time.outgrows(at, 2 * gib).unwrap();
    for part in [
        "3.02 GiB in `/mnt/data`",
        "only 2 GiB are free",
        "`--duration`",
        "`--max-ops`",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(by_time.outgrows(at, 4 * gib), None);
    // If the number of cycles is limited, their space is checked in advance.
    assert_eq!(appends(Some(1), Some(10)).outgrows(at, 0), None);
    assert_eq!(appends(None, None).outgrows(at, 0), None);
}
