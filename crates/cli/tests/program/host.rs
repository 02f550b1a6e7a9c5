//! `doctor` and `watch`: the host itself.

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use crate::harness::{Home, reader, terminal};

#[test]
fn the_doctor_says_of_each_check_what_it_found_and_exits_by_it() {
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
fn one_picture_of_the_host_is_printed_without_a_terminal() {
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
fn pictures_follow_one_another_as_lines_until_it_is_told_to_end() {
    let home = Home::new();
    let running = home.start(&["watch", "--json", "--every", "100ms"]);
    std::thread::sleep(Duration::from_millis(1500));
    running.signal(rustix::process::Signal::TERM);
    let done = running.done().succeeds();
    let lines: Vec<serde_json::Value> = done
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!((3..=15).contains(&lines.len()), "{}", lines.len());
}

#[test]
fn pictures_end_when_nobody_reads_them_any_more() {
    let home = Home::new();
    let mut command = home.command(&["watch", "--json", "--every", "100ms"]);
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let ended = crate::harness::wait_for("the end of watch", || child.try_wait().unwrap());
    assert!(ended.success(), "{ended}");
}

#[test]
fn the_live_picture_fills_the_terminal_and_leaves_it_as_it_was() {
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
    let seen = reader(master);
    let mut child = command.spawn().unwrap();
    drop(command);
    std::thread::sleep(Duration::from_millis(1200));
    keys.write_all(b"q").unwrap();
    let ended = crate::harness::wait_for("the end of watch", || child.try_wait().unwrap());
    assert!(ended.success(), "{ended}");
    let after = rustix::termios::tcgetattr(&slave).unwrap();
    assert_eq!(
        (before.local_modes, before.input_modes, before.output_modes),
        (after.local_modes, after.input_modes, after.output_modes)
    );
    drop(slave);
    let seen = seen.join().unwrap();
    assert!(seen.contains("CPU0"), "{seen}");
    // The other screen was entered, and left at last.
    let (enter, leave) = (seen.find("\x1b[?1049h"), seen.rfind("\x1b[?1049l"));
    assert!(enter.is_some() && leave > enter, "{seen:?}");
    assert!(seen.rfind("\x1b[?25h") > seen.rfind("\x1b[?25l"));
}
