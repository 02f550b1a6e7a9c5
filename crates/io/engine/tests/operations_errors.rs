//! File operations that fail in a full, a removed and a read-only folder, each with its own error.

mod operations_support;

use std::path::Path;

use iodyno_engine::CloneOutcome;
use iodyno_model::{Action, Direction, EndedBy, Operations, PickOrder};
use iodyno_testing::{Mounted, run};
use operations_support::{Bench, cycles_of, make, of, operations, set, wait_until};

/// A small file system.
fn tmpfs(options: &str) -> Option<(Mounted, tempfile::TempDir)> {
    let point = tempfile::tempdir().unwrap();
    Some((Mounted::tmpfs(point.path(), options)?, point))
}

/// The only error of a clone: its direction, errno, file and count; and its message.
fn only_error(outcome: &CloneOutcome) -> (Direction, i32, String, u64, String) {
    assert_eq!(outcome.errors.len(), 1, "{:?}", outcome.errors);
    let error = &outcome.errors[0];
    let broken = outcome.broken.as_ref();
    let words = broken.map_or(String::new(), |broken| {
        assert!(broken.hint.is_some());
        format!("{}: {}", broken.what, broken.cause)
    });
    (
        error.direction,
        error.errno,
        error.first_file.clone(),
        error.count,
        words,
    )
}

/// Asserts that the clone fails; `meanwhile` runs after its first cycle.
fn fails(root: &Path, operations: Operations, meanwhile: Option<&dyn Fn()>) -> Bench {
    let mut bench = Bench::within(root, operations, 1);
    match meanwhile {
        None => bench.play(),
        Some(act) => {
            // It waits between cycles, so that there are moments without a running step.
            bench.job.pacing.ops_per_s = 200.0;
            bench.play_with(|all| {
                wait_until("a cycle was done", || cycles_of(&all[0]) > 0);
                act();
            });
        }
    }
    assert_eq!(bench.outcome(0).ended, EndedBy::Error);
    assert!(bench.open_files().is_empty());
    assert_eq!(bench.unfinished(), 0);
    bench
}

#[test]
fn a_full_file_system_ends_the_job_with_the_file_and_the_offset() {
    let Some((mount, _folder)) = tmpfs("size=8m") else {
        return;
    };
    let bench = fails(mount.path(), operations(vec![], &make(3 << 20)), None);
    let (direction, errno, file, count, words) = only_error(bench.outcome(0));
    assert_eq!((direction, errno, count), (Direction::Write, 28, 1));
    assert!(file.ends_with("/c0.000000002"), "{file}");
    assert_eq!(bench.outcome(0).errors[0].first_offset, 2 << 20);
    assert!(words.contains("ENOSPC: the file system is full"), "{words}");
    assert_eq!(bench.errors(Direction::Write), 1);
    assert_eq!(
        (bench.ops(Direction::Op), bench.ops(Direction::Write)),
        (2, 2)
    );
    assert_eq!(
        bench.ops(Direction::Create),
        3,
        "completed steps are counted"
    );
}

#[test]
fn a_job_that_fills_the_file_system_succeeds_when_it_is_full() {
    let Some((mount, _folder)) = tmpfs("size=4m") else {
        return;
    };
    let mut bench = Bench::within(mount.path(), operations(vec![], &make(1 << 20)), 1);
    bench.job.end.until_full = true;
    bench.play();
    assert_eq!(bench.outcome(0).ended, EndedBy::Size);
    assert!(bench.outcome(0).errors.is_empty());
}

#[test]
fn too_few_inodes_are_distinguished_from_too_few_blocks() {
    let Some((mount, _folder)) = tmpfs("size=8m,nr_inodes=20") else {
        return;
    };
    let cycle = [Action::Create, Action::SyncFolder, Action::Close];
    let bench = fails(mount.path(), operations(vec![], &cycle), None);
    let (direction, errno, _, _, words) = only_error(bench.outcome(0));
    assert_eq!((direction, errno), (Direction::Create, 28));
    assert!(words.contains("no inode left"), "{words}");
}

#[test]
fn a_read_only_file_system_is_reported() {
    let Some((mount_point, _folder)) = tmpfs("size=8m") else {
        return;
    };
    let path = mount_point.path().to_owned();
    let cycle = [Action::Mkdir, Action::Rmdir];
    let remount = || {
        // The file system is busy while a folder is being created.
        wait_until("it is mounted read-only", || {
            run(&["mount", "-o", "remount,ro", path.to_str().unwrap()]).is_ok()
        });
    };
    let bench = fails(&path, operations(vec![], &cycle), Some(&remount));
    let (direction, errno, file, _, words) = only_error(bench.outcome(0));
    assert!(matches!(direction, Direction::Mkdir | Direction::Rmdir));
    assert_eq!(errno, 30);
    assert!(file.starts_with(path.to_str().unwrap()));
    assert!(
        words.contains("EROFS: the file system is read-only"),
        "{words}"
    );
}

#[test]
fn a_missing_folder_is_distinguished_from_a_missing_file() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("trial");
    let cycle = [Action::Mkdir, Action::Rmdir];
    let remove = || {
        // In one call, and only while the folder is empty: if a folder within it were removed first, the clone's
        // rmdir would report that one as missing.
        wait_until("its folder is removed", || {
            std::fs::remove_dir(&folder).is_ok()
        });
    };
    let bench = fails(&folder, operations(vec![], &cycle), Some(&remove));
    let (direction, errno, _, _, words) = only_error(bench.outcome(0));
    assert_eq!((direction, errno), (Direction::Mkdir, 2));
    assert!(
        words.contains("its folder was removed meanwhile"),
        "{words}"
    );

    let unlink = Action::Unlink {
        of: of("files", PickOrder::Newest),
    };
    let root = tempfile::tempdir().unwrap();
    let mut bench = Bench::within(
        root.path(),
        operations(vec![set("files", 5, 0)], &[unlink]),
        1,
    );
    let file = root.path().join("files.000000002");
    bench.play_after(|| std::fs::remove_file(&file).unwrap());
    let (direction, errno, name, _, words) = only_error(bench.outcome(0));
    assert_eq!((direction, errno), (Direction::Unlink, 2));
    assert_eq!(name, file.display().to_string());
    assert!(words.contains("it was removed meanwhile"), "{words}");
    assert_eq!(bench.ops(Direction::Op), 2);
}

#[test]
fn a_job_continues_after_errors_that_it_ignores() {
    let unlink = Action::Unlink {
        of: of("files", PickOrder::Newest),
    };
    for (ignored, counted, ended, cycles) in [
        (vec![], 1, EndedBy::Error, 1),
        (vec![2], 0, EndedBy::Size, 7),
    ] {
        let root = tempfile::tempdir().unwrap();
        let sets = vec![set("files", 10, 0)];
        let cycle = [Action::Create, unlink.clone(), Action::Close];
        let mut bench = Bench::within(root.path(), operations(sets, &cycle), 1);
        bench.job.errors.continue_write = true;
        bench.job.errors.ignore_write = ignored;
        bench.play_after(|| {
            for number in [1, 4, 8] {
                let path = root.path().join(format!("files.{number:09}"));
                std::fs::remove_file(path).unwrap();
            }
        });
        let outcome = bench.outcome(0);
        assert_eq!(outcome.ended, ended);
        let count: u64 = outcome.errors.iter().map(|error| error.count).sum();
        assert_eq!((count, bench.errors(Direction::Unlink)), (counted, counted));
        assert_eq!(bench.ops(Direction::Op), cycles);
        assert!(bench.open_files().is_empty());
    }
}
