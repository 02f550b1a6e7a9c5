//! Names with control characters: no command prints them unescaped.

use iodyno_model::printable::steers;
use serde_json::Value;

use crate::harness::{Done, Home};

/// Save cursor, bell, a colour, a C1 control character, direction overrides, DEL.
const HOSTILE: &str = "x\u{1b}7\u{7}\u{1b}[31m\u{9b}2J\u{202e}y\u{2066}\u{2028}\u{7f}z";

/// Whether the text is free of control characters, except colour codes if colours were requested.
#[track_caller]
fn is_printable(arguments: &[&str], done: &Done) {
    let colors = ["0", "1", "2", "31", "32", "33", "36"].map(|code| format!("\u{1b}[{code}m"));
    for stream in [&done.stdout, &done.stderr] {
        let mut text = stream.clone();
        if arguments.contains(&"always") {
            text = colors
                .iter()
                .fold(text, |text, color| text.replace(color, ""));
        }
        let found = text
            .char_indices()
            .find(|(_, character)| steers(*character) && !matches!(character, '\n' | '\t'));
        if let Some((at, character)) = found {
            let line = text[..at].matches('\n').count();
            let line = text.lines().nth(line).unwrap_or_default();
            panic!("{arguments:?} prints {character:?} in {line:?}");
        }
    }
}

#[test]
fn names_with_control_characters_are_escaped() {
    let home = Home::new();
    for folder in ["a", "b"] {
        std::fs::create_dir(home.work().join(folder)).unwrap();
    }
    let sim = "ioengine=sim\nsim_latency=lognormal:200us:0.3\nrw=randread\nbs=4k\nsize=1m\nruntime=2\ntime_based\n";
    let file = format!("{HOSTILE}.fio");
    home.file(&file, &format!("[{HOSTILE}]\ndescription={HOSTILE}\n{sim}"));
    home.file(
        "wrong.fio",
        &format!("[{HOSTILE}]\n{HOSTILE}=1\nrw={HOSTILE}\n"),
    );
    home.file(
        "null.fio",
        &format!("[{HOSTILE}]\nioengine=null\nrw=randread\nbs=4k\nsize=1m\n"),
    );
    let operations = "name = \"x\"\nabout = \"a\\u202eb\"\nmax-ops = 3\n\
         [[cycle]]\nop = \"create\"\ntimed = true\n[[cycle]]\nop = \"close\"\ntimed = false\n";
    home.file("operations.toml", operations);
    home.file(
        "go.txt",
        &format!("goos: {HOSTILE}\n# {HOSTILE}\nBenchmarkA{HOSTILE} 1 5 ns/op\nBenchmarkA 1 6 ns/op\n{HOSTILE} = {HOSTILE}\n"),
    );
    let on = [format!("{HOSTILE}=a"), format!("{HOSTILE}2=b")];
    let run = [
        "run", &file, "--on", &on[0], "--on", &on[1], "--rounds", "2",
    ];
    let with = |more: &[&'static str]| -> Vec<String> {
        run.iter()
            .copied()
            .chain(more.iter().copied())
            .map(str::to_owned)
            .collect()
    };
    let fixed = |arguments: &[&str]| -> Vec<String> {
        arguments.iter().map(|it| (*it).to_owned()).collect()
    };
    let mut commands = vec![
        with(&["-n"]),
        with(&["-n", "--json"]),
        with(&[]),
        with(&["--color", "always"]),
        with(&["--json"]),
        with(&["-vv"]),
        fixed(&["list"]),
        fixed(&["list", "--json"]),
        fixed(&["list", "--color", "always"]),
        fixed(&["export", "last", "-o", "bundle"]),
        fixed(&["import", "bundle", "--store", "other.db"]),
        fixed(&["list", "--store", "other.db"]),
        fixed(&["export", "last"]),
        fixed(&["run", "null.fio"]),
        fixed(&["show", "last", "--series", "cpu"]),
        fixed(&["show", "last", "--series", "cpu", "--format", "csv"]),
        fixed(&["show", "last", "--series", "cpu", "--json"]),
        fixed(&["show", HOSTILE]),
        fixed(&["show", "nothing", "--store", HOSTILE]),
        fixed(&[HOSTILE]),
        fixed(&["check", &file, "wrong.fio"]),
        fixed(&["check", &file, "wrong.fio", "--json"]),
        fixed(&["run", "wrong.fio"]),
        fixed(&["run", HOSTILE]),
        fixed(&["fio", &file, "--showcmd"]),
        fixed(&["fio", "null.fio"]),
        fixed(&["fio", "null.fio", "--output-format=json"]),
        fixed(&["fio", "null.fio", "--output-format=terse"]),
        fixed(&["fs", "show", "operations.toml"]),
        fixed(&["fs", "run", "operations.toml", "--on", "a"]),
        fixed(&["import", "go.txt", "--dry-run"]),
        fixed(&["import", "go.txt", "--name", HOSTILE]),
        fixed(&["show", "last"]),
        fixed(&["show", "last", "--json"]),
        fixed(&["compare", "last"]),
        fixed(&["doctor", HOSTILE]),
    ];
    for format in [
        "text",
        "json",
        "fio-json",
        "fio-json+",
        "fio-normal",
        "terse",
    ] {
        commands.push(fixed(&["show", "1", "--format", format]));
    }
    for format in ["text", "json", "markdown", "asciidoc", "csv", "benchstat"] {
        commands.push(fixed(&["compare", "1", "--format", format]));
    }
    let may_fail = ["wrong.fio", "doctor", "last", HOSTILE];
    for arguments in &commands {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let done = home.iodyno(&arguments);
        is_printable(&arguments, &done);
        if !may_fail.iter().any(|it| arguments.contains(it)) {
            assert!([0, 5].contains(&done.code), "{arguments:?}: {done:?}");
        }
    }
    // JSON contains the same names with escapes, and an exported run is imported unchanged.
    for store in [home.store(), home.work().join("other.db")] {
        let shown = home.iodyno(&["show", "1", "--json", "--store", store.to_str().unwrap()]);
        let shown: Value = shown.succeeds().json();
        assert_eq!(shown["trials"][0]["workload"], HOSTILE, "{store:?}");
    }
}

/// A line break, one of our own colours, and other characters that could start a line or move within it.
const FORGED: &str = "x\n\u{1b}[31mFORGED\r\tFORGED";

/// No line begins within a name, and no name has a colour.
#[test]
fn names_cannot_forge_lines_or_colors() {
    let home = Home::new();
    for folder in ["a", "b"] {
        std::fs::create_dir(home.work().join(folder)).unwrap();
    }
    let sim = "ioengine=sim\nsim_latency=lognormal:200us:0.3\nrw=randread\nbs=4k\nsize=1m\nruntime=2\ntime_based\n";
    let file = format!("{FORGED}.fio");
    home.file(
        &file,
        &format!("[x\u{1b}[31mFORGED\rFORGED\tx]\ndescription=\u{1b}[31mFORGED\n{sim}"),
    );
    let name = format!("--name={FORGED}");
    let toml = format!("{FORGED}.toml");
    let operations = "name = \"x\\u001b[31mFORGED\"\nabout = \"a\\n\\u001b[31mFORGED\"\nmax-ops = 3\n\
         [[cycle]]\nop = \"create\"\ntimed = true\n[[cycle]]\nop = \"close\"\ntimed = false\n";
    home.file(&toml, operations);
    let on = [format!("{FORGED}=a"), format!("{FORGED}2=b")];
    let run = [
        "run", &file, "--on", &on[0], "--on", &on[1], "--rounds", "2",
    ];
    let operations = [
        "fs", "run", &toml, "--on", &on[0], "--on", &on[1], "--rounds", "2",
    ];
    let null = ["fio", &name, "--ioengine=null", "--rw=read", "--size=1m"];
    let mut commands: Vec<Vec<&str>> = vec![
        [&run[..], &["-n"]].concat(),
        run.to_vec(),
        null.to_vec(),
        [&operations[..], &["-n"]].concat(),
        operations.to_vec(),
        vec!["fs", "show", &toml],
        vec!["list"],
        vec!["show", "1"],
        vec!["show", "3"],
        vec!["show", "3", "--series", "cpu"],
        vec!["show", "3", "--series", "cpu", "--format", "csv"],
        vec!["show", FORGED],
        vec!["check", &file],
    ];
    for format in ["text", "markdown", "asciidoc", "csv", "benchstat"] {
        commands.push(vec!["compare", "1", "--format", format]);
    }
    for format in ["fio-normal", "terse"] {
        commands.push(vec!["show", "1", "--format", format]);
    }
    for arguments in &commands {
        // fio's own command line has none of our flags.
        let colored = match arguments[0] {
            "fio" => arguments.clone(),
            _ => [&arguments[..], &["--color", "always"]].concat(),
        };
        let done = home.iodyno(&colored);
        for line in done.stdout.lines().chain(done.stderr.lines()) {
            let forged = ["FORGED", "?[31mFORGED", "\u{1b}[31mFORGED"];
            assert!(
                !forged.iter().any(|it| line.starts_with(it)) && !line.contains("\u{1b}[31mFORGED"),
                "{arguments:?} prints {line:?}"
            );
        }
    }
}
