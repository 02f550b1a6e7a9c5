//! Full disks, missing permissions, stores that cannot be written: reported before or after the run, without losing a
//! result.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;

use iodyno_testing::Mounted;
use rustix::process::Signal;
use serde_json::Value;

use crate::filesystem::FileSystem;
use crate::harness::{Home, root, skip, stop, wait_for};

const SHORT: &str = "[t]\nioengine=null\nrw=randread\nbs=4k\nsize=1m\n";

/// A small tmpfs of the test's own.
pub(crate) fn small(home: &Home, size: &str) -> Option<Mounted> {
    let point = home.work().join("small");
    std::fs::create_dir(&point).unwrap();
    Mounted::tmpfs(&point, &format!("size={size}"))
}

/// Writes to a file until its file system is full.
pub(crate) fn fill(folder: &Path) -> std::fs::File {
    use std::io::Write;
    let mut file = std::fs::File::create(folder.join("filler")).unwrap();
    for size in [1 << 16, 1 << 10] {
        while file.write_all(&vec![1; size]).is_ok() {}
    }
    file
}

#[test]
fn files_that_do_not_fit_are_reported_before_any_is_laid_out() {
    let home = Home::new();
    let Some(small) = small(&home, "8m") else {
        return;
    };
    home.file("job.fio", "[t]\nrw=read\nbs=4k\nsize=64m\n");
    let done = home.iodyno(&["run", "job.fio", "--on", "small"]);
    assert_eq!(done.code, 3, "{done:?}");
    assert!(done.stderr.contains("64 MiB"), "{}", done.stderr);
    assert_eq!(
        std::fs::read_dir(small.path()).unwrap().count(),
        0,
        "nothing was laid out"
    );
}

#[test]
fn a_read_only_store_is_reported_before_any_io() {
    let home = Home::new();
    home.file("job.fio", "[t]\nrw=write\nbs=4k\nsize=1m\n");
    home.file("text", "not a store\n");
    for (store, text) in [
        ("/proc/none/x.db", "/proc/none"),
        ("text", "not a store"),
        ("/dev/null", "/dev/null"),
    ] {
        let done = home
            .iodyno(&["run", "job.fio", "--store", store])
            .exits(2)
            .stderr_has(text)
            .stderr_has("--store PATH");
        assert_eq!(done.stdout, "", "{store}");
    }
    assert!(!home.work().join("t.0.0").exists(), "no I/O was done");
    assert_eq!(
        std::fs::read_to_string(home.work().join("text")).unwrap(),
        "not a store\n"
    );
}

#[test]
fn a_full_store_is_reported_before_any_io() {
    let home = Home::new();
    let Some(small) = small(&home, "256k") else {
        return;
    };
    fill(small.path());
    home.file("job.fio", "[t]\nrw=write\nbs=4k\nsize=1m\n");
    home.iodyno(&["run", "job.fio", "--store", "small/x.db"])
        .exits(2)
        .stderr_has("no space left")
        .stderr_has("--store PATH");
    assert!(!home.work().join("t.0.0").exists(), "no I/O was done");
}

/// The number of frames of a store's latest run.
fn frames_in(home: &Home, store: &str) -> usize {
    let shown = home.iodyno(&["show", "last", "--json", "--store", store]);
    let shown: Option<Value> = serde_json::from_str(&shown.stdout).ok();
    let series = shown.and_then(|shown| shown["trials"][0]["series"].as_array().map(Vec::len));
    series.unwrap_or(0)
}

#[test]
fn a_store_that_fills_up_does_not_end_the_run() {
    let home = Home::new();
    if let Some(small) = small(&home, "1m") {
        fills_up(&home, small.path());
    }
}

/// File systems on which the kernel allocates blocks when a mapped file is written to, and kills the writing process if
/// none are free.
fn allocates_late(home: &Home) -> impl Iterator<Item = FileSystem> {
    let kinds: [(&str, u64, &[&str]); 2] = [
        (
            "ext4",
            8,
            &["mkfs.ext4", "-q", "-F", "-m", "0", "-b", "1024"],
        ),
        ("btrfs", 128, &["mkfs.btrfs", "-q", "-f"]),
    ];
    let made = kinds.map(|(name, mib, tool)| FileSystem::new(home, name, mib, tool));
    made.into_iter().flatten()
}

#[test]
fn a_store_that_fills_up_does_not_end_the_run_if_blocks_are_allocated_late() {
    let home = Home::new();
    for small in allocates_late(&home) {
        fills_up(&home, &small.folder);
    }
}

fn fills_up(home: &Home, folder: &Path) {
    home.file(
        "job.fio",
        "[t]\nioengine=null\nrw=randread\nbs=4k\nsize=16m\nruntime=5\ntime_based\n",
    );
    let store = folder.join("x.db");
    let store = store.to_str().unwrap();
    let running = wait_for("a run that can be halted early", || {
        let running = home.start(&["run", "job.fio", "--store", store]);
        running.wait_for("a frame", || (frames_in(home, store) > 0).then_some(()));
        // The node continues; its further frames and its end are still to be stored.
        stop(running.pid());
        if frames_in(home, store) <= 2 {
            return Some(running);
        }
        drop(running);
        for suffix in ["", "-wal", "-shm", "-owners"] {
            std::fs::remove_file(format!("{store}{suffix}")).unwrap();
        }
        None
    });
    fill(folder);
    rustix::fs::sync();
    running.signal(Signal::CONT);
    let done = running.done().exits(1).stderr_has("no space left");
    assert!(
        done.stdout.contains("IOPS") && done.stdout.contains("read"),
        "{}",
        done.stdout
    );
    home.iodyno(&["list", "--store", store])
        .succeeds()
        .prints("job");
}

#[test]
fn a_store_on_a_nearly_full_file_system_is_read_and_not_written() {
    let home = Home::new();
    home.file(
        "job.fio",
        "[t]\nioengine=sim\nrw=randread\nbs=4k\nsize=1m\nruntime=2\ntime_based\n",
    );
    for folder in ["a", "b"] {
        std::fs::create_dir(home.work().join(folder)).unwrap();
    }
    for small in allocates_late(&home) {
        let store = small.folder.join("x.db");
        let store = store.to_str().unwrap();
        let run = ["run", "job.fio", "--store", store, "--on", "a", "--on", "b"];
        home.iodyno(&[&run[..], &["--rounds", "2"]].concat())
            .succeeds();
        let mut filler = fill(&small.folder);
        for free in (0..=64).step_by(4) {
            rustix::fs::sync();
            for (command, text) in [("list", "job"), ("show", "IOPS"), ("compare", "b")] {
                let arguments = [command, "last", "--store", store];
                let shown = match command {
                    "list" => home.iodyno(&["list", "--store", store]),
                    _ => home.iodyno(&arguments),
                };
                assert_eq!(shown.code, 0, "{command}, {free} KiB free: {shown:?}");
                shown.prints(text);
            }
            let refused = home.iodyno(&run);
            assert_eq!(refused.code, 2, "{free} KiB free: {refused:?}");
            refused
                .stderr_has("no space left")
                .stderr_has("--store PATH");
            let rest = filler.metadata().unwrap().len() - (4 << 10);
            filler.set_len(rest).unwrap();
        }
        filler.set_len(0).unwrap();
        filler = std::fs::File::open(&small.folder).unwrap();
        filler.sync_all().unwrap();
        home.iodyno(&run).succeeds();
    }
}

#[test]
fn a_folder_without_permission_is_reported_with_its_path() {
    let home = Home::new();
    let locked = home.work().join("locked");
    std::fs::create_dir(&locked).unwrap();
    std::fs::set_permissions(&locked, PermissionsExt::from_mode(0o555)).unwrap();
    home.file("job.fio", "[t]\nrw=write\nbs=4k\nsize=1m\n");
    let mut command = home.command(&["run", "job.fio", "--on", "locked"]);
    if root() {
        // Root may write everywhere, so another user is needed.
        home.open_to_all();
        command.uid(65534).gid(65534);
    }
    match command.output() {
        Err(error) => skip(format!(
            "the program cannot be run by another user: {error}"
        )),
        Ok(output) => {
            let told = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(4), "{told}");
            assert!(
                told.contains("locked") && told.contains("Permission denied"),
                "{told}"
            );
        }
    }
}

#[test]
fn a_relative_store_is_relative_to_the_current_folder() {
    let home = Home::new();
    home.file("job.fio", SHORT);
    home.iodyno(&["run", "job.fio", "--store", "here.db"])
        .succeeds()
        .prints("here.db");
    assert!(home.work().join("here.db").exists());
    let mut command = home.command(&["list"]);
    let output = command
        .env("IODYNO_STORE", home.work().join("here.db"))
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("job"));
    assert!(!Path::new(&home.store()).exists());
}

#[test]
fn a_file_of_the_job_that_disappears_or_fails_is_an_outcome() {
    let home = Home::new();
    std::fs::create_dir(home.work().join("folder")).unwrap();
    home.file("job.fio", "[t]\nrw=read\nbs=4k\nsize=1m\nfilename=folder\n");
    let done = home.iodyno(&["run", "job.fio"]);
    assert!([3, 4].contains(&done.code), "{done:?}");
    done.stderr_has("folder");
    home.iodyno(&["list"]).succeeds().prints("failed");
}
