//! Targets that are not what they were: nothing is laid out in the folder below an unmounted file system.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{Done, Home, Running, alive, root, skip, wait_for};

const JOB: &str = "[t]\nioengine=psync\nrw=randread\nbs=4k\nsize=1m\nruntime=500ms\ntime_based\n";

/// A tmpfs over a folder; unmounted when dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn over(folder: &Path) -> Mounted {
        let options = Some(c"size=16m");
        mount("tmpfs", folder, "tmpfs", MountFlags::empty(), options).unwrap();
        Mounted(folder.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Even while a trial has files open there.
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// A home with the folders `e` and `u`, and a file system over `u`.
fn mounted() -> Option<(Home, Mounted)> {
    if !root() {
        skip("mounting a tmpfs needs root");
        return None;
    }
    let home = Home::new();
    home.file("job.fio", JOB);
    for folder in ["e", "u"] {
        std::fs::create_dir(home.work().join(folder)).unwrap();
    }
    let mounted = Mounted::over(&home.work().join("u"));
    Some((home, mounted))
}

/// Starts a run of so many rounds on both, and waits for two of them.
fn two_rounds(home: &Home, rounds: &str) -> Running {
    let running = home.start(&[
        "run",
        "job.fio",
        "--on",
        "e",
        "--on",
        "u",
        "--rounds",
        rounds,
        "--no-settle",
    ]);
    wait_for("two rounds", || {
        let list: Value = serde_json::from_str(&home.iodyno(&["list", "--json"]).stdout).ok()?;
        (list["runs"][0]["trials_completed"].as_u64()? >= 4).then_some(())
    });
    running
}

/// Nothing was written below the mount, and all trials of `u` since then failed for that reason.
fn untouched(home: &Home, done: &Done) {
    let bare: Vec<_> = std::fs::read_dir(home.work().join("u")).unwrap().collect();
    assert!(bare.is_empty(), "{bare:?}\n{}", done.stderr);
    let run = home.iodyno(&["show", "1", "--json"]).succeeds().json();
    let of = |configuration: &str, state: &str| -> Vec<Value> {
        let trials = run["trials"].as_array().unwrap().iter();
        trials
            .filter(|trial| trial["configuration"] == configuration)
            .filter(|trial| trial["outcome"]["state"] == state)
            .cloned()
            .collect()
    };
    let failed = of("u", "failed");
    assert!(!failed.is_empty(), "{run}");
    let told = failed.iter().filter(|trial| {
        trial
            .to_string()
            .contains("the target is no longer what it was")
    });
    assert!(told.count() >= 1, "{failed:?}");
    assert!(of("u", "completed").len() < of("e", "completed").len());
}

#[test]
fn a_target_unmounted_between_interruption_and_resumption_is_not_touched_and_is_made_good_once_back()
 {
    let Some((home, mounted)) = mounted() else {
        return;
    };
    let running = two_rounds(&home, "6");
    running.signal(Signal::INT);
    running.done().exits(130);
    drop(mounted);
    let done = home.iodyno(&["run", "--resume", "last"]).exits(4);
    untouched(&home, &done);

    let _again = Mounted::over(&home.work().join("u"));
    home.iodyno(&["run", "--resume", "last"]).succeeds();
    let list = home.iodyno(&["list", "--json"]).succeeds().json();
    assert_eq!(list["runs"][0]["trials_completed"], 12, "{list}");
    home.iodyno(&["run", "--resume", "last"])
        .exits(2)
        .tells("is complete");
}

#[test]
fn a_target_unmounted_during_a_run_is_not_touched_by_the_trials_to_come() {
    let Some((home, mounted)) = mounted() else {
        return;
    };
    let running = two_rounds(&home, "8");
    halt_amid_a_trial(&running);
    drop(mounted);
    running.signal(Signal::CONT);
    let done = running.done().exits(4);
    untouched(&home, &done);
}

/// Stops the program, but not its node, while a trial has all its files open.
fn halt_amid_a_trial(running: &Running) {
    wait_for("a trial that measures", || {
        let node = running.node();
        // Its files were laid out by an earlier trial: by then it has long begun.
        sleep(Duration::from_millis(250));
        running.signal(Signal::STOP);
        if alive(node) {
            return Some(());
        }
        running.signal(Signal::CONT);
        None
    });
}
