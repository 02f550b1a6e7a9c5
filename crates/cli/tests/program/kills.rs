//! kill −9 of the parent, of the node, of both: what was measured is there, and nobody is left behind.

use rustix::process::{Signal, kill_process};

use crate::harness::{Home, Running, alive, wait_for};

fn under_way(home: &Home) -> Running {
    home.file(
        "job.fio",
        "[t]\nioengine=psync\nrw=randread\nbs=4k\nsize=16m\nruntime=60\ntime_based\n",
    );
    let running = home.start(&["run", "job.fio", "--name", "victim"]);
    wait_for("a frame in the store", || {
        (ops(home, &home.iodyno(&["list", "--json"]).stdout)? > 0).then_some(())
    });
    running
}

fn ops(_: &Home, list: &str) -> Option<u64> {
    let runs: serde_json::Value = serde_json::from_str(list).ok()?;
    runs[0]["totals"][0]["ops"].as_u64()
}

fn interrupted_with_data(home: &Home) {
    let list = home.iodyno(&["list", "--json"]).succeeds();
    assert_eq!(list.json()[0]["state"], "interrupted", "{}", list.stdout);
    assert!(ops(home, &list.stdout).unwrap() > 0);
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
    running.signal(Signal::KILL);
    let _ = kill_process(node, Signal::KILL);
    running.done().exits(-9);
    wait_for("the node's end", || (!alive(node)).then_some(()));
    interrupted_with_data(&home);
}
