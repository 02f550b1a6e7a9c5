//! `doctor` and `watch` on the real host.

use std::io::Write;
use std::process::Stdio;
use std::time::Instant;

use crate::harness::{Home, Running, Stream, terminal, wait_for};

#[test]
fn the_doctor_reports_each_check_and_sets_the_exit_code() {
    let home = Home::new();
    let done = home.iodyno(&["doctor", "--json", "--for", "500ms", "."]);
    let found = done.json();
    let checks = found["checks"].as_array().unwrap();
    assert!(checks.len() >= 10, "{found}");
    for check in checks {
        for field in ["name", "state", "found", "rule"] {
            assert!(!check[field].as_str().unwrap().is_empty(), "{check}");
        }
        if check["state"] == "unfit" {
            assert!(check["remedy"].is_string(), "{check}");
        }
    }
    let unfit = checks.iter().any(|check| check["state"] == "unfit");
    assert_eq!(found["fit"], !unfit);
    let done = done.exits(i32::from(unfit));
    assert_eq!(done.stderr, "");
    let said = home.iodyno(&["doctor", "--for", "500ms"]).stdout;
    assert!(said.contains("fit"), "{said}");
    for name in ["clock", "free space"] {
        assert!(said.contains(name), "{said}");
    }
}

#[test]
fn one_snapshot_of_the_host_is_printed_without_a_terminal() {
    let home = Home::new();
    let picture = home.iodyno(&["watch", "--every", "300ms"]).succeeds();
    assert!(picture.stdout.contains("CPU0"), "{}", picture.stdout);
    assert!(!picture.stdout.contains('\x1b'), "{:?}", picture.stdout);
    let json = home
        .iodyno(&["watch", "--once", "--json", "--every", "300ms"])
        .succeeds()
        .json();
    let kinds: Vec<&str> = json["series"]
        .as_array()
        .unwrap()
        .iter()
        .map(|table| table["kind"].as_str().unwrap())
        .collect();
    for kind in ["cpu", "interrupts", "disk", "memory"] {
        assert!(kinds.contains(&kind), "{kinds:?}");
    }
}

#[test]
fn snapshots_are_printed_as_lines_until_a_signal() {
    let home = Home::new();
    let begun = Instant::now();
    let running = home.start(&["watch", "--json", "--every", "100ms"]);
    running.wait_for("three lines", || {
        (running.stdout().lines().count() >= 3).then_some(())
    });
    running.signal(rustix::process::Signal::TERM);
    let done = running.done().succeeds();
    let most = begun.elapsed().as_millis() / 100;
    let lines: Vec<serde_json::Value> = done
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // A slow host omits snapshots, and no host prints more than requested.
    assert!(
        lines.len() as u128 <= most,
        "{} pictures, {most} were due",
        lines.len()
    );
}

#[test]
fn watch_ends_when_its_output_is_closed() {
    let home = Home::new();
    let mut command = home.command(&["watch", "--json", "--every", "100ms"]);
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let ended = wait_for("the end of watch", || child.try_wait().unwrap());
    assert!(ended.success(), "{ended}");
}

#[test]
fn the_live_display_fills_the_terminal_and_restores_it() {
    let home = Home::new();
    let (slave, master) = terminal(80);
    let before = rustix::termios::tcgetattr(&slave).unwrap();
    let half = || Stdio::from(slave.try_clone().unwrap());
    let mut command = home.command(&["watch", "--every", "200ms"]);
    command
        .env("TERM", "xterm")
        .stdin(half())
        .stdout(half())
        .stderr(half());
    let mut keys = master.try_clone().unwrap();
    let seen = Stream::of(Some(master));
    let running = Running::of(command);
    running.wait_for("a picture", || seen.so_far().contains("CPU0").then_some(()));
    keys.write_all(b"q").unwrap();
    running.done().succeeds();
    let after = rustix::termios::tcgetattr(&slave).unwrap();
    assert_eq!(
        (before.local_modes, before.input_modes, before.output_modes),
        (after.local_modes, after.input_modes, after.output_modes)
    );
    drop(slave);
    let seen = seen.whole();
    // The alternate screen was entered, and left at the end.
    let (enter, leave) = (seen.find("\x1b[?1049h"), seen.rfind("\x1b[?1049l"));
    assert!(enter.is_some() && leave > enter, "{seen:?}");
    assert!(seen.rfind("\x1b[?25h") > seen.rfind("\x1b[?25l"));
}
