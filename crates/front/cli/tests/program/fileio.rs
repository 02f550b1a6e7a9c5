//! sysbench fileio's command line: prepare, run and cleanup, the output, the ratios, and sysbench's own files.

use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::filesystem::{FileSystem, KINDS, entries};
use crate::harness::{Home, skip};

/// Small enough for a test: 128 files of 64 KiB.
const SMALL: [&str; 1] = ["--file-total-size=8M"];

fn fileio<'a>(options: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    let words = [&["fileio"], options, more];
    words.into_iter().flatten().copied().collect()
}

/// The number after a label: `reads/s:   12.5`.
#[track_caller]
fn figure(text: &str, label: &str) -> f64 {
    let line = text
        .lines()
        .find(|line| line.trim_start().starts_with(label));
    let line = line.unwrap_or_else(|| panic!("no `{label}`:\n{text}"));
    let value = line.trim_start()[label.len()..].trim();
    value
        .trim_end_matches('s')
        .parse()
        .unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// Ops of a direction in the latest trial, over all clones.
fn ops(home: &Home, direction: &str) -> f64 {
    let shown = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    let rows = shown["trials"][0]["groups"][0]["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["direction"] == direction);
    row.unwrap()["ops"].as_f64().unwrap()
}

#[test]
fn files_are_prepared_used_and_cleaned_up() {
    let home = Home::new();
    home.file("mine", "1");
    home.iodyno(&fileio(&SMALL, &["prepare"]))
        .succeeds()
        .prints("8388608 bytes written");
    let made = entries(&home.work());
    assert_eq!(made.len(), 129, "{made:?}");
    for number in [0, 127] {
        let path = home.work().join(format!("test_file.{number}"));
        assert_eq!(path.metadata().unwrap().len(), 65536);
    }
    for mode in ["seqrd", "seqrewr", "rndrd", "rndwr", "rndrw", "seqwr"] {
        let test = format!("--file-test-mode={mode}");
        let done = home
            .iodyno(&fileio(&SMALL, &[&test, "--events=300", "--time=0", "run"]))
            .succeeds();
        for words in [
            "128 files, 64KiB each",
            "8MiB total file size",
            "Block size 16KiB",
            "Threads started!",
            "File operations:",
            "Throughput:",
            "General statistics:",
            "Latency (ms):",
            "Threads fairness:",
        ] {
            assert!(
                done.stdout.contains(words),
                "{mode}: {words}:\n{}",
                done.stdout
            );
        }
        let (reads, writes) = (
            figure(&done.stdout, "reads/s:"),
            figure(&done.stdout, "writes/s:"),
        );
        assert_eq!(
            reads > 0.0,
            ["seqrd", "rndrd", "rndrw"].contains(&mode),
            "{mode}"
        );
        assert_eq!(writes > 0.0, mode.contains('w'), "{mode}");
        // The printed output can be imported.
        home.file("printed.txt", &done.stdout);
        home.iodyno(&["import", "printed.txt"]).succeeds();
        std::fs::remove_file(home.work().join("printed.txt")).unwrap();
        assert_eq!(entries(&home.work()), made, "{mode}");
    }
    home.iodyno(&fileio(&SMALL, &["cleanup"])).succeeds();
    assert_eq!(entries(&home.work()), ["mine"]);
    let list = home.iodyno(&["list", "--json"]).succeeds().json();
    assert_eq!(
        list["runs"].as_array().unwrap().len(),
        13,
        "every prepare, run and import is stored"
    );
}

#[test]
fn folders_are_prepared_compared_and_cleaned_up_by_one_command_each() {
    let home = Home::new();
    for folder in ["a", "b"] {
        std::fs::create_dir(home.work().join(folder)).unwrap();
    }
    home.file("a/mine", "1");
    let command = |ours: &[&'static str], more: &[&'static str]| {
        let mut words = vec!["fileio", "--on", "a", "--on", "other=b"];
        words.extend(ours);
        words.extend(SMALL);
        words.extend(more);
        words
    };
    home.iodyno(&command(&[], &["prepare"]))
        .succeeds()
        .prints("configuration: a\n")
        .prints("configuration: other\n")
        .prints("8388608 bytes written");
    for folder in ["a", "b"] {
        let size = home.work().join(folder).join("test_file.127");
        assert_eq!(size.metadata().unwrap().len(), 65536);
    }
    let test = ["--file-test-mode=rndrd", "--events=300", "--time=0", "run"];
    // Once: the output of each, then the comparison.
    let once = home
        .iodyno(&command(&["--rounds", "1"], &test))
        .succeeds()
        .prints("configuration: a\n")
        .prints("configuration: other\n")
        .prints("CANNOT DECIDE");
    assert_eq!(once.stdout.matches("Threads fairness:").count(), 2);
    let rounds = home
        .iodyno(&command(&["--rounds", "2", "--name", "mine"], &test))
        .succeeds()
        .prints("CANNOT DECIDE");
    assert!(!rounds.stdout.contains("Threads fairness:"), "{rounds:?}");
    let shown = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    assert_eq!(shown["trials"].as_array().unwrap().len(), 4);
    let list = home.iodyno(&["list", "--json"]).succeeds().json();
    let names = list["runs"].as_array().unwrap().iter();
    assert_eq!(names.filter(|run| run["name"] == "mine").count(), 1);
    home.iodyno(&command(&["--rounds", "2"], &["prepare"]))
        .exits(2)
        .stderr_has("`--rounds` has no effect with `prepare`");
    let late = ["fileio", "--file-test-mode=rndrd", "--on", "a", "run"];
    home.iodyno(&late).exits(2).stderr_has("directly after");
    home.iodyno(&command(&[], &["cleanup"]))
        .succeeds()
        .stderr_has("256 of 256 files removed");
    assert_eq!(entries(&home.work().join("a")), ["mine"]);
    assert_eq!(entries(&home.work().join("b")), [""; 0]);
}

#[test]
fn published_commands_work_unchanged_except_for_the_size() {
    let home = Home::new();
    let seed = [
        "--file-total-size=8M",
        "--file-test-mode=rndrd",
        "--threads=16",
        "--file-block-size=16384",
    ];
    home.iodyno(&fileio(&seed, &["prepare"])).succeeds();
    let run = [
        "--file-total-size=8M",
        "--file-test-mode=rndrw",
        "--file-extra-flags=directio",
        "--file-block-size=16384",
        "--time=1",
        "--threads=1",
    ];
    let done = home.iodyno(&fileio(&run, &["run"])).succeeds();
    for words in ["Extra file open flags: directio", "Doing random r/w test"] {
        assert!(done.stdout.contains(words), "{words}:\n{}", done.stdout);
    }
}

#[test]
fn reads_writes_and_fsyncs_have_sysbenchs_ratio_and_the_output_explains_it() {
    let home = Home::new();
    home.iodyno(&fileio(&SMALL, &["prepare"])).succeeds();
    for threads in [1, 4] {
        // Ten times 100 reads and writes and 128 fsyncs.
        let number = format!("--threads={threads}");
        let more = [
            "--file-test-mode=rndrw",
            "--events=2280",
            "--time=0",
            &number,
            "run",
        ];
        let done = home.iodyno(&fileio(&SMALL, &more)).succeeds();
        let (reads, writes, syncs) = (ops(&home, "read"), ops(&home, "write"), ops(&home, "sync"));
        let told = format!("{threads} threads: {reads} {writes} {syncs}");
        assert_eq!(reads + writes + syncs, 2280.0, "{told}");
        // A thread reads while (reads + 1) ÷ (writes + 1) < 1.5: the number of its reads stays this close to 1.5
        // times that of its writes.
        let most = 1.5 * f64::from(threads);
        assert!((reads - 1.5 * writes).abs() <= most, "{told}");
        let waves = (reads + writes) / 100.0;
        // One group of fsyncs more or less can be in progress at the end.
        assert!((syncs / 128.0 - waves).abs() <= 1.01, "{told}");
        if threads == 1 {
            assert_eq!((reads, writes), (600.0, 400.0));
        }
        assert!(done.stdout.contains("128 files"), "{}", done.stdout);
    }
    let more = ["--file-test-mode=rndrw", "--events=500", "--time=0", "run"];
    let done = home.iodyno(&fileio(&SMALL, &more)).succeeds();
    assert!((figure(&done.stdout, "total number of events:") - 500.0).abs() < 0.5);
}

#[test]
fn runs_on_every_file_system_in_every_io_mode() {
    let home = Home::new();
    for (kind, mib, tool) in KINDS {
        let Some(disk) = FileSystem::new(&home, kind, mib, tool) else {
            continue;
        };
        let at = |arguments: &[&str]| {
            let mut command = home.command(arguments);
            command.current_dir(&disk.folder);
            let output = command.output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{kind}: {arguments:?}: {output:?}");
            text
        };
        at(&fileio(&SMALL, &["prepare"]));
        for mode in ["sync", "async", "mmap"] {
            let io = format!("--file-io-mode={mode}");
            let more = [
                "--file-test-mode=rndrw",
                "--events=500",
                "--time=0",
                "--threads=2",
                &io,
                "run",
            ];
            let text = at(&fileio(&SMALL, &more));
            assert!(figure(&text, "writes/s:") > 0.0, "{kind} {mode}:\n{text}");
        }
        at(&fileio(&SMALL, &["cleanup"]));
        assert_eq!(entries(&disk.folder), [""; 0]);
    }
}

#[test]
fn missing_or_short_files_are_reported_with_the_remedy() {
    let home = Home::new();
    let run = ["--file-test-mode=rndrd", "--time=1", "run"];
    let done = home.iodyno(&fileio(&SMALL, &run));
    assert_ne!(done.code, 0);
    assert!(done.stderr.contains("prepare"), "{}", done.stderr);
    assert_eq!(entries(&home.work()), [""; 0], "nothing was made");
    home.iodyno(&fileio(&SMALL, &["prepare"])).succeeds();
    let done = home.iodyno(&fileio(&["--file-total-size=16M"], &run));
    assert_ne!(done.code, 0);
    assert!(done.stderr.contains("test_file."), "{}", done.stderr);
}

#[test]
fn all_misspelt_options_are_reported_with_the_nearest_ones() {
    let home = Home::new();
    let done = home
        .iodyno(&[
            "fileio",
            "--file-totl-size=8M",
            "--file-test-mode=rndrx",
            "--threads=x",
            "run",
        ])
        .exits(2);
    for words in ["file-total-size", "rndrx", "threads"] {
        assert!(done.stderr.contains(words), "{words}: {}", done.stderr);
    }
    home.iodyno(&["fileio", "run"])
        .exits(2)
        .stderr_has("file-test-mode");
    home.iodyno(&["fileio", "help"])
        .succeeds()
        .prints("--file-fsync-freq");
}

#[test]
fn validation_finds_a_flipped_byte() {
    let home = Home::new();
    let options = ["--file-total-size=1M", "--file-num=4", "--validate"];
    home.iodyno(&fileio(&options, &["prepare"])).succeeds();
    let run = [
        "--file-test-mode=rndrw",
        "--events=1000",
        "--time=0",
        "--threads=2",
        "run",
    ];
    home.iodyno(&fileio(&options, &run)).succeeds();
    let path = home.work().join("test_file.2");
    let mut bytes = std::fs::read(&path).unwrap();
    for block in bytes.chunks_mut(16384) {
        block[100] ^= 1;
    }
    std::fs::write(&path, bytes).unwrap();
    let read = ["--file-test-mode=seqrd", "--events=64", "--time=0", "run"];
    let done = home.iodyno(&fileio(&options, &read));
    assert_ne!(done.code, 0, "{}", done.stdout);
    let told = done.stdout + &done.stderr;
    assert!(told.contains("test_file.2"), "{told}");
}

#[test]
fn files_created_by_sysbench_are_accepted() {
    let home = Home::new();
    let prepared = Command::new("sysbench")
        .args(["fileio", "--file-total-size=8M", "prepare"])
        .current_dir(home.work())
        .output();
    match prepared {
        Ok(output) if output.status.success() => {}
        _ => return skip("sysbench is not installed"),
    }
    let run = ["--file-test-mode=rndrw", "--time=1", "run"];
    home.iodyno(&fileio(&SMALL, &run)).succeeds();
    home.iodyno(&fileio(&SMALL, &["cleanup"])).succeeds();
    assert_eq!(entries(&home.work()), [""; 0]);
}

#[test]
fn intervals_percentile_and_histogram_are_printed_as_requested() {
    let home = Home::new();
    home.iodyno(&fileio(&SMALL, &["prepare"])).succeeds();
    let more = [
        "--file-test-mode=rndrd",
        "--time=3600",
        "--report-interval=1",
        "--percentile=99",
        "--histogram",
        "--rate=200",
        "run",
    ];
    let running = home.start(&fileio(&SMALL, &more));
    let lines = |text: &str| {
        let lines = text.lines().filter(|line| {
            line.starts_with("[ ")
                && line.contains("s ] reads:")
                && line.contains("latency (ms,99%):")
        });
        lines.count()
    };
    running.wait_for("two lines", || {
        (lines(&running.stdout()) >= 2).then_some(())
    });
    running.signal(Signal::INT);
    let done = running.done().exits(130);
    for words in [
        "Latency histogram (values are in milliseconds)",
        "99th percentile:",
    ] {
        assert!(done.stdout.contains(words), "{words}:\n{}", done.stdout);
    }
    let reads = figure(&done.stdout, "reads/s:");
    // No op is early, and the intervals between them are random: much more than 400 ops in two seconds are
    // practically impossible.
    assert!(reads > 0.0 && reads < 280.0, "{reads}");
}

#[test]
fn an_interruption_keeps_what_was_measured() {
    let home = Home::new();
    home.iodyno(&fileio(&SMALL, &["prepare"])).succeeds();
    let running = home.start(&fileio(
        &SMALL,
        &["--file-test-mode=rndrd", "--time=3600", "run"],
    ));
    // Until then, the latest run is the one that prepared the files.
    running.wait_for("a run of reads", || {
        let shown = home.iodyno(&["show", "last", "--json"]);
        let shown: Value = serde_json::from_str(&shown.stdout).ok()?;
        let frames = shown["trials"][0]["series"].as_array()?;
        frames
            .iter()
            .any(|frame| frame.to_string().contains("\"read\""))
            .then_some(())
    });
    running.signal(Signal::INT);
    let done = running.done().exits(130);
    assert!(figure(&done.stdout, "reads/s:") > 0.0, "{}", done.stdout);
    assert_eq!(entries(&home.work()).len(), 128, "the files stay");
}

#[test]
fn a_run_that_is_refused_at_its_first_trial_has_nothing_to_compare() {
    let home = Home::new();
    for folder in ["a", "b"] {
        std::fs::create_dir(home.work().join(folder)).unwrap();
    }
    let mut words = vec!["fileio", "--on", "a=a", "--on", "b=b", "--rounds", "2"];
    words.extend(["--file-test-mode=rndrd", "--file-total-size=2M", "run"]);
    let done = home.iodyno(&words).exits(3).stderr_has("files are missing");
    assert!(!done.stderr.contains("nothing to compare"), "{done:?}");
}

#[test]
fn cleanup_keeps_a_file_with_a_disk_image() {
    let home = Home::new();
    home.iodyno(&fileio(&SMALL, &["prepare"])).succeeds();
    let image = home.work().join("test_file.1");
    let made = Command::new("mkfs.ext4")
        .args(["-q", "-F"])
        .arg(&image)
        .arg("4M")
        .status();
    if !made.is_ok_and(|status| status.success()) {
        return skip("needs mkfs.ext4");
    }
    home.iodyno(&fileio(&SMALL, &["cleanup"]))
        .exits(1)
        .stderr_has("test_file.1")
        .stderr_has("127 of 128 files removed");
    assert_eq!(entries(&home.work()), ["test_file.1"]);
}
