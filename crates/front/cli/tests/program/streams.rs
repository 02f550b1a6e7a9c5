//! Standard output and standard error, colours, the progress line, and readers that close the pipe.

use std::process::Stdio;

use rustix::process::Signal;

use crate::harness::{Home, Running, Stream, terminal};

const JOB: &str = "[t]\nioengine=null\nrw=randread\nbs=4k\nsize=64m\nruntime=1h\ntime_based\n";
const SHORT: &str = "[t]\nioengine=null\nrw=randread\nbs=4k\nsize=1m\n";

#[test]
fn the_result_is_the_only_standard_output() {
    let home = Home::new();
    home.file("job.fio", SHORT);
    let done = home
        .iodyno(&["run", "job.fio"])
        .succeeds()
        .prints("IOPS")
        .prints("stored in");
    assert!(
        !done.stdout.contains('\x1b') && !done.stdout.contains('\r'),
        "{:?}",
        done.stdout
    );
    let done = home
        .iodyno(&["run", "job.fio", "--json", "--quiet"])
        .succeeds();
    done.json();
    assert_eq!(done.stderr, "", "quiet means quiet");
}

#[test]
fn colours_are_used_only_if_requested() {
    let home = Home::new();
    home.file("job.fio", SHORT);
    home.iodyno(&["run", "job.fio", "-q"]).succeeds();
    for (arguments, variables, coloured) in [
        (&["show", "last"][..], &[][..], false),
        (&["show", "last", "--color", "always"], &[], true),
        (
            &["--color=always", "show", "last"],
            &[("NO_COLOR", "1")],
            true,
        ),
        (&["show", "last"], &[("CLICOLOR_FORCE", "1")], true),
        (
            &["show", "last"],
            &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")],
            false,
        ),
        (
            &["show", "last", "--color", "never"],
            &[("CLICOLOR_FORCE", "1")],
            false,
        ),
    ] {
        let output = home
            .command(arguments)
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        assert_eq!(
            output.stdout.contains(&0x1b),
            coloured,
            "{arguments:?} {variables:?}"
        );
    }
}

#[test]
fn a_terminal_gets_one_line_that_is_redrawn_and_finally_removed() {
    let home = Home::new();
    home.file("job.fio", JOB);
    for (columns, term) in [(100, "xterm"), (50, "xterm")] {
        let (slave, master) = terminal(columns);
        let mut command = home.command(&["run", "job.fio"]);
        command.env("TERM", term).stderr(Stdio::from(slave));
        let running = Running::of(command);
        let seen = Stream::of(Some(master));
        let draws = running.wait_for("two draws", || {
            let seen = seen.so_far();
            // The last piece may be incomplete.
            let pieces = seen
                .split_inclusive('\r')
                .filter(|text| text.ends_with('\r'));
            let draws = pieces.filter(|text| text.contains("IOPS"));
            let draws: Vec<String> = draws.map(str::to_owned).collect();
            (draws.len() >= 2).then_some(draws)
        });
        running.signal(Signal::INT);
        running.done().exits(130);
        let seen = seen.whole();
        for draw in &draws {
            let visible = without_escapes(draw.trim_end_matches('\r'));
            assert!(
                visible.chars().count() <= usize::from(columns),
                "{visible:?} is wider than {columns}"
            );
            assert!(!visible.contains('\n'), "{seen:?}");
        }
        assert!(!seen.contains("\x1b[?25l"), "the cursor is never hidden");
        assert!(
            seen.trim_end().ends_with("\r\x1b[K"),
            "the line is removed at the end: {seen:?}"
        );
    }
}

#[test]
fn a_dumb_terminal_or_none_gets_plain_lines() {
    let home = Home::new();
    home.file("job.fio", JOB);
    // When ops are stored, a terminal would already have received them.
    let running = home.start(&["run", "job.fio"]);
    running.wait_until_it_measures(&home);
    running.signal(Signal::INT);
    let done = running.done().exits(130);
    assert!(!done.stderr.contains(['\r', '\x1b']), "{:?}", done.stderr);
    let home = Home::new();
    home.file("job.fio", JOB);
    let (slave, master) = terminal(80);
    let mut command = home.command(&["run", "job.fio"]);
    command.env("TERM", "dumb").stderr(Stdio::from(slave));
    let running = Running::of(command);
    let seen = Stream::of(Some(master));
    running.wait_until_it_measures(&home);
    running.signal(Signal::INT);
    running.done().exits(130);
    let seen = seen.whole();
    assert!(
        seen.contains("ending early") && !seen.contains('\x1b'),
        "{seen:?}"
    );
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let home = Home::new();
    home.file("job.fio", SHORT);
    home.iodyno(&["run", "job.fio", "-q"]).succeeds();
    for arguments in [
        &["list"][..],
        &["show", "last"],
        &["show", "last", "--json"],
        &["export", "last"],
        &["man"],
    ] {
        let mut child = home.command(arguments).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    }
}

#[test]
fn a_full_output_is_an_error() {
    let home = Home::new();
    home.file("job.fio", SHORT);
    home.iodyno(&["run", "job.fio", "-q"]).succeeds();
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = home
        .command(&["show", "last"])
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        told.contains("cannot write to standard output: No space left on device"),
        "{told}"
    );
}

fn without_escapes(text: &str) -> String {
    let mut visible = String::new();
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        match character {
            '\x1b' => {
                // A CSI sequence ends with a letter.
                for next in rest.by_ref() {
                    if next.is_ascii_alphabetic() {
                        break;
                    }
                }
            }
            other => visible.push(other),
        }
    }
    visible
}
