//! Targets that have changed: no files are created in the folder below an unmounted file system.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use iodyno_testing::Mounted;
use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::harness::{Home, Running, alive, children, stop};

const JOB: &str = "[t]\nioengine=psync\nrw=randread\nbs=4k\nsize=1m\nruntime=500ms\ntime_based\n";

/// A home with the folders `e` and `u`, and a file system over `u`.
fn mounted() -> Option<(Home, Mounted)> {
    let home = Home::new();
    home.file("job.fio", JOB);
    for folder in ["e", "u"] {
        std::fs::create_dir(home.work().join(folder)).unwrap();
    }
    let mounted = Mounted::tmpfs(&home.work().join("u"), "size=16m")?;
    Some((home, mounted))
}

/// Starts a run of many rounds on both folders, and waits for two rounds.
fn two_rounds(home: &Home) -> Running {
    let running = home.start(&[
        "run",
        "job.fio",
        "--on",
        "e",
        "--on",
        "u",
        "--rounds",
        "9999",
        "--no-settle",
    ]);
    running.wait_for("two rounds", || {
        let list: Value = serde_json::from_str(&home.iodyno(&["list", "--json"]).stdout).ok()?;
        (list["runs"][0]["trials_completed"].as_u64()? >= 4).then_some(())
    });
    running
}

/// The trials of the run.
fn trials(home: &Home) -> Vec<Value> {
    let run = home.iodyno(&["show", "1", "--json"]).succeeds().json();
    run["trials"].as_array().unwrap().clone()
}

/// The number of trials on a configuration with this outcome.
fn count(trials: &[Value], configuration: &str, state: &str) -> usize {
    let on_it = trials
        .iter()
        .filter(|trial| trial["configuration"] == configuration);
    on_it
        .filter(|trial| trial["outcome"]["state"] == state)
        .count()
}

/// Asserts that nothing was written below the mount point, and that all later trials of `u` failed for that reason.
fn assert_not_accessed(home: &Home, completed_on_u: RangeInclusive<usize>) {
    let bare: Vec<_> = std::fs::read_dir(home.work().join("u")).unwrap().collect();
    assert!(bare.is_empty(), "{bare:?}");
    let trials = trials(home);
    assert!(completed_on_u.contains(&count(&trials, "u", "completed")));
    assert!(count(&trials, "u", "failed") > 0, "{trials:?}");
    for failed in trials
        .iter()
        .filter(|trial| trial["outcome"]["state"] == "failed")
    {
        assert_eq!(failed["configuration"], "u");
        let told = failed.to_string();
        assert!(told.contains("the target has changed"), "{told}");
    }
}

#[test]
fn a_target_unmounted_before_resuming_is_not_accessed_and_its_trials_are_repeated_later() {
    let Some((home, mounted)) = mounted() else {
        return;
    };
    let running = two_rounds(&home);
    running.signal(Signal::INT);
    running.done().exits(130);
    mounted.detach();
    let before = trials(&home);
    let last = before.iter().map(|trial| trial["round"].as_u64().unwrap());
    let rounds = last.max().unwrap() + 3;
    let wanted = rounds.to_string();
    let resume = ["run", "--resume", "last", "--rounds", &wanted];
    home.iodyno(&resume).exits(4);
    let completed = count(&before, "u", "completed");
    assert_not_accessed(&home, completed..=completed);

    let _again = Mounted::tmpfs(&home.work().join("u"), "size=16m");
    home.iodyno(&resume).succeeds();
    let list = home.iodyno(&["list", "--json"]).succeeds().json();
    assert_eq!(list["runs"][0]["trials_completed"], 2 * rounds, "{list}");
    home.iodyno(&["run", "--resume", "last"])
        .exits(2)
        .stderr_has("is complete");
}

#[test]
fn a_target_unmounted_during_a_run_is_not_accessed_by_later_trials() {
    let Some((home, mounted)) = mounted() else {
        return;
    };
    let running = two_rounds(&home);
    let halted = stop_during_a_trial(&home, &running);
    let before = trials(&home);
    mounted.detach();
    running.signal(Signal::CONT);
    running.wait_for("two trials on the folder below", || {
        (count(&trials(&home), "u", "failed") >= 2).then_some(())
    });
    running.signal(Signal::INT);
    running.done().exits(130);
    let completed = count(&before, "u", "completed");
    // A trial that was stopped on it has an open file on the old file system, but may not have read its mount yet.
    assert_not_accessed(&home, completed..=completed + usize::from(halted == "u"));
}

/// Stops the program, but not its node, while a trial has its file open. Returns the configuration of that trial.
fn stop_during_a_trial(home: &Home, running: &Running) -> &'static str {
    running.wait_for("a trial that measures", || {
        let node = children(running.pid()).into_iter().next()?;
        let target = opened_by(home, node)?;
        stop(running.pid());
        if alive(node) {
            return Some(target);
        }
        running.signal(Signal::CONT);
        None
    })
}

/// The target in which a node has a file open.
fn opened_by(home: &Home, node: Pid) -> Option<&'static str> {
    let open = std::fs::read_dir(format!("/proc/{}/fd", node.as_raw_nonzero())).ok()?;
    let paths: Vec<PathBuf> = open
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .collect();
    ["e", "u"].into_iter().find(|target| {
        let file = home.work().join(target).join("t.0.0");
        paths.contains(&file)
    })
}
