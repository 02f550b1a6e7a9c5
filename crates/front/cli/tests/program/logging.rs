//! `-v` and `IODYNO_LOG`: log messages on standard error.

use crate::harness::{Done, Home, Running};

const JOB: &str = "[t]\nioengine=null\nrw=read\nbs=4k\nsize=64k\n";

/// Runs the job in a child process, with this variable and these arguments.
fn run(log: Option<&str>, arguments: &[&str]) -> Done {
    let home = Home::new();
    home.file("job.fio", JOB);
    let mut command = home.command(&[&["run", "job.fio"], arguments].concat());
    command.envs(log.map(|value| ("IODYNO_LOG", value)));
    Running::of(command).done()
}

/// The log lines of one kind of process, selected by the word before the process id.
fn lines<'a>(done: &'a Done, level: &str, process: &str) -> Vec<&'a str> {
    let mut lines: Vec<&str> = done.stderr.lines().collect();
    lines.retain(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.len() > 4 && words[0].ends_with('Z') && (words[1], words[2]) == (level, process)
    });
    lines
}

#[test]
fn nothing_is_logged_by_default() {
    let done = run(None, &[]).succeeds();
    for level in ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"] {
        for process in ["iodyno", "node"] {
            assert!(lines(&done, level, process).is_empty(), "{}", done.stderr);
        }
    }
    assert_eq!(run(Some(""), &[]).succeeds().stderr, done.stderr);
}

#[test]
fn the_store_is_logged_by_flag_and_by_variable() {
    for done in [run(None, &["-vv"]), run(Some("iodyno_store=debug"), &[])] {
        let done = done.succeeds();
        let lines = lines(&done, "DEBUG", "iodyno");
        assert!(
            lines.iter().any(|line| line.contains("opened the store")),
            "{}",
            done.stderr
        );
    }
    // The flag takes precedence, and selects more than the variable.
    let done = run(Some("off"), &["-vv"]).succeeds();
    assert!(
        !lines(&done, "DEBUG", "iodyno").is_empty(),
        "{}",
        done.stderr
    );
}

#[test]
fn an_unreadable_variable_is_bad_usage() {
    run(Some("iodyno=loud"), &[])
        .exits(2)
        .stderr_has("IODYNO_LOG=iodyno=loud")
        .stderr_has("debug");
}

#[test]
fn the_foreign_command_lines_keep_their_own_v() {
    let home = Home::new();
    home.iodyno(&["fio", "-v"]).succeeds().prints("fio-");
    let done = home.iodyno(&[
        "-vv",
        "fio",
        "--name=t",
        "--ioengine=null",
        "--rw=read",
        "--size=64k",
    ]);
    let done = done.succeeds();
    assert!(
        !lines(&done, "DEBUG", "iodyno").is_empty(),
        "{}",
        done.stderr
    );
}

/// A trial from its plan to its end, in both processes.
#[test]
fn a_trial_is_logged_by_parent_and_node() {
    let done = run(None, &["-vvv", "--seed", "7"]).succeeds();
    for (level, process, message) in [
        ("INFO", "iodyno", "stored the plan run=1"),
        ("INFO", "iodyno", "trial begins number=1 round=0"),
        ("DEBUG", "node", "node started"),
        ("TRACE", "iodyno", "received kind=\"hello\""),
        ("TRACE", "node", "received kind=\"prepare\""),
        ("INFO", "iodyno", "trial ended number=1 outcome=Completed"),
        ("DEBUG", "node", "node exits code="),
    ] {
        let lines = lines(&done, level, process);
        assert!(
            lines.iter().any(|line| line.contains(message)),
            "{message}:\n{}",
            done.stderr
        );
    }
}

#[test]
fn decisions_of_the_guard_are_logged() {
    let home = Home::new();
    home.file(
        "file.fio",
        "[t]\nioengine=psync\nrw=write\nbs=4k\nsize=16k\n",
    );
    let done = home.iodyno(&["-vv", "run", "file.fio"]).succeeds();
    let lines = lines(&done, "DEBUG", "node");
    assert!(
        lines.iter().any(|line| line.contains("admitted path=")),
        "{}",
        done.stderr
    );
}
