//! Ctrl-C and other signals: the first ends the run early and keeps its results, the second aborts.

use std::path::Path;

use rustix::process::{Signal, kill_process};

use crate::harness::{self, Home, Running, alive, fio, iodyno, stop, wait_for};

/// Ends only by a signal.
const ENDLESS: &str = "[t]\nioengine=psync\nrw=randread\nbs=4k\nsize=16m\nruntime=1h\ntime_based\n";

/// Starts a run and waits until it has measured.
fn under_way(home: &Home) -> Running {
    home.file("job.fio", ENDLESS);
    let running = home.start(&["run", "job.fio"]);
    running.wait_until_it_measures(home);
    running
}

#[test]
fn one_signal_ends_early_and_keeps_the_results() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let home = Home::new();
        let running = under_way(&home);
        let node = running.node();
        running.signal(signal);
        let done = running.done().exits(130);
        wait_for("the node to exit", || (!alive(node)).then_some(()));
        done.prints("read")
            .prints("ended early by the user")
            .prints("stored in");
        home.iodyno(&["list"]).succeeds().prints("interrupted");
    }
}

#[test]
fn signals_that_are_ignored_at_the_start_end_a_run_except_sighup() {
    for signal in [Signal::INT, Signal::TERM] {
        let home = Home::new();
        home.file("job.fio", ENDLESS);
        let mut shell = home.program(Path::new("/bin/sh"));
        let script = "trap '' INT TERM HUP; exec \"$0\" \"$@\"";
        let arguments = ["-c", script, iodyno(), "fio", "job.fio"];
        shell.args(arguments);
        let running = Running::of(shell);
        running.wait_until_it_measures(&home);
        let status = format!("/proc/{}/status", running.pid().as_raw_nonzero());
        let status = std::fs::read_to_string(status).unwrap();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let ignored = u64::from_str_radix(ignored.unwrap().trim(), 16).unwrap();
        let bit = |signal: Signal| 1 << (signal.as_raw() - 1);
        assert_eq!(
            [Signal::INT, Signal::TERM, Signal::HUP].map(|signal| ignored & bit(signal) != 0),
            [false, false, true]
        );
        running.signal(signal);
        running.done().exits(128);
    }
}

#[test]
fn two_signals_abort() {
    let home = Home::new();
    let running = under_way(&home);
    let node = running.node();
    // Two equal signals at the same instant are merged, so the second is sent after the message for the first. The
    // node is stopped meanwhile, because otherwise the first signal would end the run.
    stop(node);
    running.signal(Signal::INT);
    running.wait_until_it_tells("ending early");
    running.signal(Signal::INT);
    running.wait_until_it_tells("aborting");
    kill_process(node, Signal::CONT).unwrap();
    running.done().exits(130);
    wait_for("the node to exit", || (!alive(node)).then_some(()));
    home.iodyno(&["list"]).succeeds().prints("interrupted");
}

#[test]
fn a_stopped_node_is_named_while_it_is_waited_for() {
    let home = Home::new();
    let running = under_way(&home);
    let node = running.node();
    stop(node);
    running.wait_until_it_tells("is stopped: the run waits until it continues");
    kill_process(node, Signal::CONT).unwrap();
    running.signal(Signal::INT);
    running.done().exits(130);
}

#[test]
fn a_signal_while_files_are_laid_out_ends_there() {
    let commands: [(&[&str], i32); 2] = [
        (&["run", "job.fio"], 130),
        (&["fio", "job.fio", "--output-format=json"], 128),
    ];
    for (command, code) in commands {
        let home = Home::new();
        home.file(
            "job.fio",
            "[t]\nrw=read\nbs=4k\nsize=3g\nruntime=1h\ntime_based\n",
        );
        let running = home.start(command);
        let node = running.node();
        let file = home.work().join("t.0.0");
        running.wait_for("the file to grow", || {
            (file.metadata().ok()?.len() > 0).then_some(())
        });
        running.signal(Signal::INT);
        let done = running.done().exits(code);
        wait_for("the node to exit", || (!alive(node)).then_some(()));
        // fio prints a result without ops.
        if code == 128 {
            assert_eq!(done.json()["jobs"][0]["read"]["total_ios"], 0);
        }
    }
}

#[test]
fn fio_s_command_line_ends_with_fio_s_code() {
    let home = Home::new();
    let running = home.start(&fio(&["--output-format=json"], &harness::ENDLESS));
    running.wait_until_it_measures(&home);
    running.signal(Signal::INT);
    let done = running.done().exits(128);
    assert!(
        done.json()["jobs"][0]["read"]["total_ios"]
            .as_u64()
            .unwrap()
            > 0
    );
}
