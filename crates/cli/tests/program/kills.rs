//! kill −9 of the parent, of the node, of both: what was measured is there, and nobody is left behind.

use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::{Signal, kill_process};

use crate::harness::{Home, Running, alive, wait_for};

fn under_way(home: &Home) -> Running {
    home.file(
        "job.fio",
        "[t]\nioengine=psync\nrw=randread\nbs=4k\nsize=16m\nruntime=60\ntime_based\n",
    );
    let running = home.start(&["run", "job.fio", "--name", "victim"]);
    wait_for("a frame in the store", || {
        (ops(&home.iodyno(&["list", "--json"]).stdout)? > 0).then_some(())
    });
    running
}

fn ops(list: &str) -> Option<u64> {
    let runs: serde_json::Value = serde_json::from_str(list).ok()?;
    runs["runs"][0]["totals"][0]["ops"].as_u64()
}

fn interrupted_with_data(home: &Home) {
    let list = home.iodyno(&["list", "--json"]).succeeds();
    assert_eq!(
        list.json()["runs"][0]["state"],
        "interrupted",
        "{}",
        list.stdout
    );
    assert!(ops(&list.stdout).unwrap() > 0);
    home.iodyno(&["show", "victim"])
        .succeeds()
        .prints("read")
        .prints("interrupted");
}

#[test]
fn a_killed_parent_takes_its_node_along_and_loses_nothing() {
    let home = Home::new();
    let running = under_way(&home);
    let node = running.node();
    running.signal(Signal::KILL);
    running.done().exits(-9);
    wait_for("the orphan's end", || (!alive(node)).then_some(()));
    interrupted_with_data(&home);
}

#[test]
fn a_killed_node_is_a_recorded_outcome() {
    let home = Home::new();
    let running = under_way(&home);
    kill_process(running.node(), Signal::KILL).unwrap();
    running
        .done()
        .exits(4)
        .prints("killed by SIGKILL")
        .prints("read");
    home.iodyno(&["show", "victim"])
        .succeeds()
        .prints("killed by SIGKILL");
}

#[test]
fn both_killed_at_once_lose_at_most_two_seconds() {
    let home = Home::new();
    let running = under_way(&home);
    let node = running.node();
    // At no particular instant of a frame.
    sleep(Duration::from_millis(1_650));
    let killed_ms = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_millis() as u64;
    running.signal(Signal::KILL);
    let _ = kill_process(node, Signal::KILL);
    running.done().exits(-9);
    wait_for("the node's end", || (!alive(node)).then_some(()));
    interrupted_with_data(&home);
    let shown = home.iodyno(&["show", "victim", "--json"]).succeeds().json();
    let trial = &shown["trials"][0];
    let started_ms = trial["started_unix_ms"].as_u64().unwrap();
    let series = trial["series"].as_array().unwrap();
    let kept_ms = series.last().unwrap()["end_ns"].as_u64().unwrap() / 1_000_000;
    let lived_ms = killed_ms - started_ms;
    assert!(
        kept_ms + 2_000 >= lived_ms,
        "{kept_ms} ms of {lived_ms} ms are kept"
    );
}

#[test]
fn a_killed_run_is_shown_as_running_only_while_it_lives() {
    let home = Home::new();
    let running = under_way(&home);
    let list = home.iodyno(&["list", "--json"]).succeeds();
    assert_eq!(list.json()["runs"][0]["state"], "running");
    running.signal(Signal::KILL);
    running.done();
    let list = home.iodyno(&["list", "--json"]).succeeds();
    assert_eq!(list.json()["runs"][0]["state"], "interrupted");
}
