//! `kill -9` of the parent, of the node, and of both: stored results are kept, and no process remains.

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::harness::{Home, Running, alive, wait_for};

fn under_way(home: &Home) -> Running {
    home.file(
        "job.fio",
        "[t]\nioengine=psync\nrw=randread\nbs=4k\nsize=16m\nruntime=1h\ntime_based\n",
    );
    let running = home.start(&["run", "job.fio", "--name", "victim"]);
    running.wait_until_it_measures(home);
    running
}

fn interrupted_with_data(home: &Home) {
    let list = home.iodyno(&["list", "--json"]).succeeds();
    assert_eq!(
        list.json()["runs"][0]["state"],
        "interrupted",
        "{}",
        list.stdout
    );
    assert!(home.stored_ops("interrupted").unwrap() > 0);
    home.iodyno(&["show", "victim"])
        .succeeds()
        .prints("read")
        .prints("interrupted");
}

#[test]
fn the_node_of_a_killed_parent_ends_and_nothing_is_lost() {
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

/// The stored frames of the interrupted trial.
fn frames(home: &Home) -> Vec<Value> {
    let shown = home.iodyno(&["show", "victim", "--json"]).succeeds().json();
    shown["trials"][0]["series"].as_array().unwrap().clone()
}

#[test]
fn killing_both_at_once_loses_no_stored_frame_and_leaves_none_incomplete() {
    let home = Home::new();
    let running = under_way(&home);
    let node = running.node();
    let before = running.wait_for("two frames", || {
        let stored = frames(&home);
        (stored.len() >= 2).then_some(stored)
    });
    running.signal(Signal::KILL);
    let _ = kill_process(node, Signal::KILL);
    running.done().exits(-9);
    wait_for("the node's end", || (!alive(node)).then_some(()));
    interrupted_with_data(&home);
    let after = frames(&home);
    assert_eq!(after[..before.len()], before);
    // Complete and without gaps: each begins where the previous one ended.
    let mut end = after[0]["start_ns"].clone();
    for frame in &after {
        assert_eq!(frame["start_ns"], end, "{after:?}");
        assert!(frame["end_ns"].as_u64() > end.as_u64(), "{after:?}");
        end = frame["end_ns"].clone();
    }
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
