//! Storage that stops responding: a frozen file system below each kind of work.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

use crate::filesystem::{FileSystem, entries};
use crate::harness::{Home, Running, alive, skip, stop, wait_for};

/// A file system that is frozen until this is dropped, or its process dies: a process waits for the end of its input
/// and thaws it.
struct Frozen(Child);

impl Frozen {
    fn new(folder: &Path) -> Option<Frozen> {
        let script = "cat >/dev/null; PATH=$PATH:/usr/sbin:/sbin fsfreeze --unfreeze \"$0\"";
        let thaw = Command::new("sh")
            .args(["-c", script])
            .arg(folder)
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        let frozen = Frozen(thaw.unwrap());
        let path = std::env::var("PATH").unwrap_or_default();
        let status = Command::new("fsfreeze")
            .arg("--freeze")
            .arg(folder)
            .env("PATH", format!("{path}:/usr/sbin:/sbin"))
            .status();
        if status.is_ok_and(|status| status.success()) {
            return Some(frozen);
        }
        skip("the file system cannot be frozen (fsfreeze)");
        None
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

const ENGINES: [(&str, &str); 4] = [
    ("psync", "direct=1"),
    ("libaio", "direct=1\niodepth=4"),
    ("io_uring", "direct=1\niodepth=4"),
    ("mmap", "direct=0"),
];

/// Random writes without an end.
fn writes(home: &Home, (engine, options): (&str, &str)) {
    let text = format!(
        "[t]\nioengine={engine}\n{options}\nrw=randwrite\nbs=4k\nsize=8m\noverwrite=1\nruntime=1h\ntime_based\n"
    );
    home.file("job.fio", &text);
}

/// The trial has ended, and the node has exited after the file system was thawed; returns the only trial of the run.
fn only_trial(home: &Home, node: Pid, frozen: Frozen) -> Value {
    drop(frozen);
    wait_for("the node to exit", || (!alive(node)).then_some(()));
    let shown = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    shown["trials"][0].clone()
}

fn in_flight(trial: &Value) -> &[Value] {
    trial["in_flight"].as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn a_frozen_file_system_is_an_outcome_with_the_ops_in_flight() {
    for engine in ENGINES {
        let home = Home::new();
        let Some(system) = FileSystem::ext4(&home, 64) else {
            return;
        };
        writes(&home, engine);
        let on = system.folder.to_str().unwrap();
        let running = home.start(&["run", "job.fio", "--on", on, "--stuck-after", "2s"]);
        running.wait_until_it_measures(&home);
        let node = running.node();
        let Some(frozen) = Frozen::new(&system.folder) else {
            return;
        };
        let done = running.done().exits(4).prints("the storage is stuck");
        let done = done.prints("ended by stuck storage");
        for word in ["steady", "drift", "regime"] {
            assert!(!done.stdout.contains(word), "{engine:?}:\n{}", done.stdout);
        }
        let trial = only_trial(&home, node, frozen);
        assert_eq!(trial["outcome"]["state"], "failed", "{engine:?}");
        let ops = in_flight(&trial);
        assert!(!ops.is_empty(), "{engine:?}: {trial}");
        for op in ops {
            assert_eq!(
                (&op["job"], &op["direction"]),
                (&"t".into(), &"write".into())
            );
            assert!(op["file"].as_str().unwrap().starts_with(on), "{op}");
            assert!(op["offset_bytes"].as_u64().unwrap() < 8 << 20, "{op}");
        }
        // The results before the freeze are kept.
        let written = trial["groups"][0]["rows"][0]["ops"].as_u64();
        assert!(written.unwrap() > 0, "{engine:?}");
    }
}

/// Syncs a file system again and again until this is dropped: its device is flushed each time.
struct Flushing(Child);

impl Flushing {
    fn new(folder: &Path) -> Flushing {
        let script = "while :; do sync -f \"$0\"; sleep 0.1; done";
        let syncs = Command::new("sh")
            .args(["-c", script])
            .arg(folder)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        Flushing(syncs.unwrap())
    }
}

impl Drop for Flushing {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

#[test]
fn syncs_by_other_processes_are_no_progress_of_a_frozen_file_system() {
    let home = Home::new();
    let Some(system) = FileSystem::ext4(&home, 64) else {
        return;
    };
    writes(&home, ENGINES[0]);
    let on = system.folder.to_str().unwrap();
    let running = home.start(&["run", "job.fio", "--on", on, "--stuck-after", "3s"]);
    running.wait_until_it_measures(&home);
    let node = running.node();
    let Some(frozen) = Frozen::new(&system.folder) else {
        return;
    };
    let flushing = Flushing::new(&system.folder);
    running.done().exits(4).prints("the storage is stuck");
    drop(flushing);
    only_trial(&home, node, frozen);
}

#[test]
fn one_signal_ends_a_run_on_a_frozen_file_system() {
    for (engine, signal) in ENGINES
        .into_iter()
        .zip([Signal::INT, Signal::TERM].repeat(2))
    {
        let home = Home::new();
        let Some(system) = FileSystem::ext4(&home, 64) else {
            return;
        };
        writes(&home, engine);
        let on = system.folder.to_str().unwrap();
        let running = home.start(&["run", "job.fio", "--on", on]);
        running.wait_until_it_measures(&home);
        let node = running.node();
        let Some(frozen) = Frozen::new(&system.folder) else {
            return;
        };
        let blocked = format!("process {} is blocked in the kernel", node.as_raw_nonzero());
        end(running, signal).prints(&blocked);
        let trial = only_trial(&home, node, frozen);
        assert_eq!(trial["outcome"]["state"], "interrupted", "{engine:?}");
        assert!(!in_flight(&trial).is_empty(), "{engine:?}: {trial}");
        let written = trial["groups"][0]["rows"][0]["ops"].as_u64();
        assert!(written.unwrap() > 0, "{engine:?}");
    }
}

/// Ends the run with one signal.
fn end(running: Running, signal: Signal) -> crate::harness::Done {
    running.signal(signal);
    running.done().exits(130)
}

#[test]
fn a_run_that_begins_on_a_frozen_file_system_fails_or_ends_with_one_signal() {
    let home = Home::new();
    let Some(system) = FileSystem::ext4(&home, 64) else {
        return;
    };
    writes(&home, ENGINES[0]);
    let on = system.folder.to_str().unwrap();
    let Some(frozen) = Frozen::new(&system.folder) else {
        return;
    };
    let stuck = home.start(&["run", "job.fio", "--on", on, "--stuck-after", "1s"]);
    let node = stuck.node();
    let told = stuck.done().exits(4).stderr;
    let words: Vec<&str> = told.split_whitespace().collect();
    let told = words.join(" ");
    assert!(
        told.contains("the preparation of the trial's files on"),
        "{told}"
    );
    assert!(told.contains("is blocked in the kernel"), "{told}");
    let endless = home.start(&["run", "job.fio", "--on", on, "--stuck-after", "0"]);
    let second = endless.node();
    wait_for("the node to block", || is_blocked(second).then_some(()));
    end(endless, Signal::INT);
    drop(frozen);
    for node in [node, second] {
        wait_for("the node to exit", || (!alive(node)).then_some(()));
    }
}

/// Whether a thread of the process is in an uninterruptible call.
fn is_blocked(pid: Pid) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()));
    let mut tasks = tasks.into_iter().flatten().flatten();
    tasks.any(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.contains(") D ")
    })
}

/// Starts file operations on the file system, waits until they are measured, and returns the run and its node.
fn creating_files(home: &Home, system: &FileSystem) -> (Running, Pid) {
    let on = system.folder.to_str().unwrap();
    let running = home.start(&["fs", "run", "create_empty", "--on", on, "--duration", "1h"]);
    running.wait_until_it_measures(home);
    let node = running.node();
    (running, node)
}

#[test]
fn the_folder_of_file_operations_is_removed_when_the_file_system_responds_again() {
    let home = Home::new();
    let Some(system) = FileSystem::ext4(&home, 64) else {
        return;
    };
    let (running, node) = creating_files(&home, &system);
    let Some(frozen) = Frozen::new(&system.folder) else {
        return;
    };
    end(running, Signal::INT);
    assert!(!entries(&system.folder).is_empty());
    let trial = only_trial(&home, node, frozen);
    assert_eq!(trial["outcome"]["state"], "interrupted");
    assert_eq!(entries(&system.folder), [""; 0]);
}

#[test]
fn one_signal_ends_a_run_whose_host_cannot_be_settled() {
    let home = Home::new();
    let Some(outer) = FileSystem::ext4(&home, 64) else {
        return;
    };
    let Some(inner) = outer.within(&home, 16) else {
        return;
    };
    home.file("job.fio", "[t]\nrw=randread\nsize=1m\n");
    let Some(frozen) = Frozen::new(&outer.folder) else {
        return;
    };
    // The sync before the trial writes this to a loop device whose file is frozen.
    std::fs::write(inner.folder.join("dirty"), [1; 1 << 20]).unwrap();
    let running = home.start(&["run", "job.fio", "--on", ".", "--rounds", "2"]);
    let helper = running.helper();
    running.wait_for("the sync to block", || is_blocked(helper).then_some(()));
    let told = end(running, Signal::INT);
    let waits = format!("process {} waits for that", helper.as_raw_nonzero());
    told.stderr_has(&waits);
    drop(frozen);
    wait_for("the helper to exit", || (!alive(helper)).then_some(()));
}

#[test]
fn one_signal_ends_a_run_that_removes_what_a_dead_node_left_on_a_frozen_file_system() {
    let home = Home::new();
    let Some(system) = FileSystem::ext4(&home, 64) else {
        return;
    };
    let (running, node) = creating_files(&home, &system);
    // It dies outside of the kernel, so that the frozen file system does not hold it.
    stop(node);
    let Some(frozen) = Frozen::new(&system.folder) else {
        return;
    };
    kill_process(node, Signal::KILL).unwrap();
    let helper = running.helper();
    running.wait_for("the removal to block", || is_blocked(helper).then_some(()));
    let removes = format!("process {} removes it", helper.as_raw_nonzero());
    end(running, Signal::TERM).prints(&removes);
    let trial = only_trial(&home, helper, frozen);
    assert_eq!(trial["outcome"]["state"], "interrupted");
    assert_eq!(entries(&system.folder), [""; 0]);
}

#[test]
fn the_thread_that_releases_standard_error_exists_before_it_is_needed() {
    let home = Home::new();
    let mut node = home.command(&["node"]);
    node.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut node = node.spawn().unwrap();
    // It got no command yet.
    let tasks = format!("/proc/{}/task", node.id());
    wait_for("the thread", || {
        let names = std::fs::read_dir(&tasks)
            .ok()?
            .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names
            .into_iter()
            .any(|name| name == "stderr\n")
            .then_some(())
    });
    drop(node.stdin.take());
    let _ = node.wait();
}
