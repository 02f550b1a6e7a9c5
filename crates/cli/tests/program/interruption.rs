//! Ctrl-C and its kin: the first ends early and keeps what was measured, the second aborts.

use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::harness::{Home, Running, alive, wait_for};

const LONG: &str = "[t]\nioengine=psync\nrw=randread\nbs=4k\nsize=16m\nruntime=60\ntime_based\n";

/// A run that has measured for some frames.
fn under_way(home: &Home) -> Running {
    home.file("job.fio", LONG);
    let running = home.start(&["run", "job.fio"]);
    running.node();
    wait_for("two frames in the store", || {
        let list = home.iodyno(&["list", "--json"]);
        let runs: serde_json::Value = serde_json::from_str(&list.stdout).ok()?;
        let ops = &runs["runs"][0]["totals"][0]["ops"];
        (ops.as_u64()? > 0).then_some(())
    });
    running
}

#[test]
fn one_signal_ends_early_and_keeps_what_was_measured() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let home = Home::new();
        let running = under_way(&home);
        let node = running.node();
        let told = Instant::now();
        running.signal(signal);
        let done = running.done().exits(130);
        assert!(
            told.elapsed() < Duration::from_secs(5),
            "{signal:?} took {:?}",
            told.elapsed()
        );
        assert!(!alive(node), "{signal:?} left the node behind");
        done.prints("read")
            .prints("ended early by the user")
            .prints("stored in");
        home.iodyno(&["list"]).succeeds().prints("interrupted");
    }
}

#[test]
fn two_signals_abort() {
    let home = Home::new();
    let running = under_way(&home);
    let node = running.node();
    running.signal(Signal::INT);
    // Two of the same signal at the same instant are one.
    sleep(Duration::from_millis(100));
    running.signal(Signal::INT);
    running.done().exits(130);
    assert!(!alive(node));
    home.iodyno(&["list"]).succeeds().prints("interrupted");
}

#[test]
fn a_signal_while_files_are_laid_out_ends_there() {
    let home = Home::new();
    home.file(
        "job.fio",
        "[t]\nrw=read\nbs=4k\nsize=3g\nruntime=60\ntime_based\n",
    );
    let running = home.start(&["run", "job.fio"]);
    let node = running.node();
    sleep(Duration::from_millis(300));
    running.signal(Signal::INT);
    running.done().exits(130);
    assert!(!alive(node));
}

#[test]
fn fio_s_command_line_ends_with_fio_s_code() {
    let home = Home::new();
    let running = home.start(&[
        "fio",
        "--name=t",
        "--rw=randread",
        "--ioengine=null",
        "--size=16m",
        "--runtime=60",
        "--time_based",
        "--output-format=json",
    ]);
    running.node();
    sleep(Duration::from_millis(1500));
    running.signal(Signal::INT);
    let done = running.done().exits(128);
    assert!(
        done.json()["jobs"][0]["read"]["total_ios"]
            .as_u64()
            .unwrap()
            > 0
    );
}
