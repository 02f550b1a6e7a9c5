//! File operations: every named workload on real file systems, its results and its clean-up.

use std::path::Path;

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::filesystem::{FileSystem, KINDS, entries};
use crate::harness::{Done, Home, stop};

/// Every named workload, with small sizes.
const SMALL: [(&str, &[&str], u64); 16] = [
    ("create_empty", &["--max-ops", "30"], 30),
    (
        "delete_10k_2MB",
        &["--files", "20", "--file-size", "64KiB"],
        20,
    ),
    (
        "delete_100k_2MB",
        &["--files", "20", "--file-size", "64KiB"],
        20,
    ),
    (
        "delete_200k_2MB",
        &["--files", "20", "--file-size", "64KiB"],
        20,
    ),
    (
        "delete_10k_2k_200MB",
        &["--files", "10", "--file-size", "1MiB", "--max-ops", "10"],
        10,
    ),
    ("delete_small_dir_2MiB", &["--max-ops", "5"], 5),
    ("delete_small_dir_256MiB", &["--max-ops", "5"], 5),
    ("delete_small_dir_2GiB", &["--max-ops", "5"], 5),
    ("delete_large_dir_2MiB", &["--max-ops", "5"], 5),
    ("delete_large_dir_256MiB", &["--max-ops", "5"], 5),
    ("write_sync_1MB", &["--max-ops", "4"], 4),
    (
        "write_sync_10MB",
        &["--max-ops", "2", "--file-size", "2MiB"],
        2,
    ),
    (
        "write_sync_100MB",
        &["--max-ops", "2", "--file-size", "2MiB"],
        2,
    ),
    ("statfs_many_files", &["--max-ops", "20"], 20),
    (
        "statfs_100MB",
        &["--max-ops", "2", "--file-size", "2MiB"],
        2,
    ),
    (
        "write_sync_16MiB",
        &["--max-ops", "2", "--file-size", "1MiB"],
        2,
    ),
];

/// Reduces the sets and other sizes of a workload.
fn small(name: &str, more: &[&str]) -> Vec<String> {
    let mut arguments: Vec<String> = ["fs", "run", name, "--dir"].map(str::to_owned).to_vec();
    arguments.push("mnt".to_owned());
    arguments.extend(more.iter().map(|text| (*text).to_owned()));
    let scaled: &[&str] = match name {
        "delete_10k_2k_200MB" => &["--files", "small=20", "--file-size", "small=4KiB"],
        name if name.contains("_dir_") => &[
            "--files",
            "20",
            "--file-size",
            "16KiB",
            "--file-size",
            "beside=4KiB",
        ],
        _ => &[],
    };
    arguments.extend(scaled.iter().map(|text| (*text).to_owned()));
    arguments
}

/// The output of `show --json` for the latest trial.
fn latest(home: &Home) -> Value {
    let shown = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    shown["trials"].as_array().unwrap().last().unwrap().clone()
}

/// The line for benchstat: its name, its count and its rate.
#[track_caller]
fn benchmark(done: &Done) -> (String, u64, f64) {
    let line = done
        .stdout
        .lines()
        .find(|line| line.starts_with("Benchmark"));
    let line = line.unwrap_or_else(|| panic!("no line for benchstat:\n{}", done.stdout));
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[3], "ops/sec", "{line}");
    let name = words[0].to_owned();
    (name, words[1].parse().unwrap(), words[2].parse().unwrap())
}

/// The number of ops in the closing row.
#[track_caller]
fn closing(done: &Done) -> u64 {
    let mut lines = done.stdout.lines();
    lines.find(|line| line.contains("ops(total)"));
    let row = lines
        .next()
        .unwrap_or_else(|| panic!("no closing row:\n{}", done.stdout));
    row.split_whitespace().nth(2).unwrap().parse().unwrap()
}

#[test]
fn every_named_workload_runs_on_every_file_system_and_leaves_nothing_behind() {
    let home = Home::new();
    let list = home.iodyno(&["fs", "list", "--json"]).succeeds().json();
    let listed: Vec<&str> = list["workloads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    for (name, _, _) in SMALL {
        assert!(listed.contains(&name), "{name} is not among {listed:?}");
    }
    for (kind, mib, tool) in KINDS {
        let Some(disk) = FileSystem::new(&home, kind, mib, tool) else {
            continue;
        };
        std::fs::write(disk.folder.join("mine"), "unrelated content").unwrap();
        for (name, more, ops) in SMALL {
            let mut arguments = small(name, more);
            arguments[4] = kind.to_owned();
            let done = home.iodyno(&arguments).succeeds();
            let (found, count, rate) = benchmark(&done);
            assert!(
                found.starts_with(&format!("Benchmarkfsbench/{name}")),
                "{found}"
            );
            assert_eq!(count, ops, "{name} on {kind}:\n{}", done.stdout);
            assert!(rate > 0.0, "{name} on {kind}");
            assert_eq!(entries(&disk.folder), ["mine"], "{name} on {kind}");
        }
        let mine = std::fs::read_to_string(disk.folder.join("mine")).unwrap();
        assert_eq!(mine, "unrelated content");
    }
}

#[test]
fn op_time_loop_time_and_set_up_are_separate() {
    let home = Home::new();
    let arguments = [
        "fs",
        "run",
        "write_sync_1MB",
        "--max-ops",
        "20",
        "--threads",
        "2",
    ];
    let done = home.iodyno(&arguments).succeeds();
    assert_eq!(benchmark(&done).1, 20);
    let trial = latest(&home).to_string();
    // Each op is one sync; the writes are recorded, but not part of it.
    let text = home.iodyno(&["show", "last"]).succeeds().stdout;
    for word in ["op", "sync", "write", "not timed"] {
        assert!(text.contains(word), "{word}:\n{text}");
    }
    assert!(trial.contains("\"sync\""), "{trial}");
    let done = home
        .iodyno(&[
            "fs",
            "run",
            "delete_10k_2MB",
            "--files",
            "50",
            "--file-size",
            "4KiB",
        ])
        .succeeds();
    for word in ["set-up", "drain"] {
        assert!(done.stdout.contains(word), "{word}:\n{}", done.stdout);
    }
}

#[test]
fn the_table_has_the_established_form() {
    let home = Home::new();
    let done = home
        .iodyno(&[
            "fs",
            "run",
            "create_empty",
            "--max-ops",
            "21",
            "--rate",
            "10",
        ])
        .succeeds();
    let live =
        "____optype__elapsed__ops/sec(inst)___ops/sec(cum)__p50(ms)__p95(ms)__p99(ms)_pMax(ms)";
    let closing = "____optype__elapsed_____ops(total)___ops/sec(cum)__avg(ms)__p50(ms)__p95(ms)__p99(ms)_pMax(ms)";
    assert_eq!(done.stdout.matches(closing).count(), 1, "{}", done.stdout);
    let rows = done
        .stdout
        .lines()
        .filter(|line| line.starts_with("create_emp"));
    let rows: Vec<Vec<&str>> = rows.map(|row| row.split_whitespace().collect()).collect();
    // One row for each frame of at least a tenth of a second, and the closing row. On a slow host frames can be
    // longer than one second.
    let trial = latest(&home);
    let span =
        |frame: &Value| frame["end_ns"].as_u64().unwrap() - frame["start_ns"].as_u64().unwrap();
    let frames = trial["series"].as_array().unwrap().iter();
    let measured = frames.filter(|frame| frame["step"] == "measure");
    let shown = measured.filter(|frame| span(frame) >= 100_000_000).count();
    assert!(
        shown >= 1 && rows.len() == shown + 1,
        "{shown} frames:\n{}",
        done.stdout
    );
    assert_eq!(done.stdout.matches(live).count(), shown.div_ceil(20));
    assert!(
        rows[..rows.len() - 1].iter().all(|row| row.len() == 8),
        "{rows:?}"
    );
    let last = rows.last().unwrap();
    assert_eq!(last.len(), 9, "{rows:?}");
    let ops: u64 = last[2].parse().unwrap();
    assert_eq!((benchmark(&done).1, ops), (21, 21));
    // The printed output can be imported.
    home.file("printed.txt", &done.stdout);
    let imported = home
        .iodyno(&["import", "printed.txt", "--json"])
        .succeeds()
        .json();
    assert!(imported.to_string().contains("create_empty"), "{imported}");
}

#[test]
fn two_folders_are_compared_in_rounds_with_lines_that_benchstat_reads() {
    let home = Home::new();
    for folder in ["a", "b"] {
        std::fs::create_dir(home.work().join(folder)).unwrap();
    }
    let done = home
        .iodyno(&[
            "fs",
            "run",
            "create_empty",
            "--on",
            "a",
            "--on",
            "b",
            "--rounds",
            "6",
            "--max-ops",
            "100",
            "--no-settle",
            "--seed",
            "3",
        ])
        .succeeds();
    let lines = done
        .stdout
        .lines()
        .filter(|line| line.starts_with("Benchmarkfsbench/create_empty"));
    assert_eq!(lines.count(), 12, "{}", done.stdout);
    for word in ["configuration: a", "configuration: b", "6 rounds", "b/a"] {
        assert!(done.stdout.contains(word), "{word}:\n{}", done.stdout);
    }
    for folder in ["a", "b"] {
        assert_eq!(entries(&home.work().join(folder)), [""; 0]);
    }
    home.iodyno(&["compare", "last"])
        .succeeds()
        .prints("create_empty");
}

#[test]
fn several_workloads_in_one_folder_are_measured_separately() {
    let home = Home::new();
    let done = home
        .iodyno(&[
            "fs",
            "run",
            "create_empty",
            "write_sync_1MB",
            "--max-ops",
            "20",
            "--no-settle",
        ])
        .succeeds();
    assert_eq!(
        done.stdout.matches("ops(total)").count(),
        2,
        "{}",
        done.stdout
    );
    assert_eq!(done.stdout.matches("Benchmarkfsbench/").count(), 2);
    assert!(!done.stdout.contains("margin"), "{}", done.stdout);
}

#[test]
fn files_that_grow_may_be_kept_small() {
    let home = Home::new();
    let Some(_disk) = FileSystem::ext4(&home, 64) else {
        return;
    };
    let arguments = [
        "fs",
        "run",
        "write_sync_1MB",
        "--dir",
        "ext4",
        "--new-file-at",
        "4MiB",
    ];
    let more = ["--max-ops", "100"];
    home.iodyno(&[&arguments[..], &more].concat()).succeeds();
}

#[test]
fn a_user_defined_workload_is_checked_shown_and_run_by_any_command() {
    let home = Home::new();
    let shown = home
        .iodyno(&["fs", "show", "create_empty"])
        .succeeds()
        .stdout;
    home.file("mine.toml", &shown);
    home.iodyno(&["check", "mine.toml"]).succeeds();
    home.iodyno(&["fs", "run", "mine.toml", "--max-ops", "10"])
        .succeeds();
    home.iodyno(&[
        "run",
        "create_empty",
        "--on",
        "here=.",
        "--set",
        "max-ops=10",
    ])
    .succeeds()
    .prints("create");
    let dry = home
        .iodyno(&["run", "create_empty", "--on", "here=.", "--dry-run"])
        .succeeds();
    assert!(dry.stdout.contains("create"), "{}", dry.stdout);
    home.file(
        "wrong.toml",
        "nmae = \"x\"\n[[cycle]]\nop = \"craete\"\n[[files]]\ncount = -1\n",
    );
    let done = home.iodyno(&["check", "wrong.toml"]).exits(2);
    for (line, word) in [("1:", "nmae"), ("3:", "craete"), ("5:", "count")] {
        assert!(
            done.stdout.contains(word) && done.stdout.contains(&format!("wrong.toml:{line}")),
            "{word}:\n{}",
            done.stdout
        );
    }
}

#[test]
fn misspelt_names_and_wrong_targets_are_reported_before_any_change() {
    let home = Home::new();
    let before = entries(&home.work());
    for (arguments, code, told) in [
        (&["fs", "run", "create_emtpy"][..], 2, "create_empty"),
        (&["fs", "run", "create_empty", "--files", "7"], 2, "files"),
        (
            &["fs", "run", "create_empty", "--dir", "nowhere"],
            2,
            "nowhere",
        ),
        (
            &["fs", "run", "create_empty", "--on", "x=/dev/null"],
            2,
            "folder",
        ),
        (
            &["fs", "run", "delete_10k_2MB", "--files", "huge=3"],
            2,
            "huge",
        ),
        (&["fs", "run", "create_empty", "--rate", "0"], 2, "rate"),
    ] {
        let done = home.iodyno(arguments);
        assert!(
            [code, 3, 4].contains(&done.code) && done.stderr.contains(told),
            "{arguments:?}: {done:?}"
        );
        assert!(
            done.code != 0 && !done.stderr.contains("panicked"),
            "{done:?}"
        );
        assert_eq!(entries(&home.work()), before, "{arguments:?}");
    }
}

#[test]
fn work_that_does_not_fit_is_refused_with_numbers_before_any_change() {
    let home = Home::new();
    let Some(disk) = FileSystem::ext4(&home, 64) else {
        return;
    };
    for (arguments, told) in [
        (&["delete_10k_2MB"][..], "19.5 GiB"),
        (
            &["delete_10k_2MB", "--files", "100k", "--file-size", "0"],
            "files",
        ),
        (&["create_empty", "--max-ops", "1000000"], "files"),
        (&["write_sync_10MB", "--max-ops", "100"], "MiB"),
    ] {
        let arguments: Vec<&str> = ["fs", "run", "--dir", "ext4"]
            .iter()
            .chain(arguments)
            .copied()
            .collect();
        let done = home.iodyno(&arguments);
        assert!(
            done.code == 3 || done.code == 4 || done.code == 2,
            "{done:?}"
        );
        assert!(done.stderr.contains(told), "{arguments:?}: {}", done.stderr);
        assert_eq!(entries(&disk.folder), [""; 0]);
    }
}

#[test]
fn space_is_checked_for_every_trial_of_a_suite_before_the_first() {
    let home = Home::new();
    let Some(disk) = FileSystem::ext4(&home, 64) else {
        return;
    };
    let suite = ["create_empty", "delete_10k_2MB", "delete_100k_2MB"];
    let command = |more: &[&'static str]| {
        let mut words = vec!["fs", "run", "--dir", "ext4", "--max-ops", "3"];
        words.extend(suite);
        words.extend(more);
        words
    };
    let done = home
        .iodyno(&command(&["--set", "delete_100k_2MB.file-size=0"]))
        .exits(3)
        .stderr_has("`delete_10k_2MB` on `dir`: 19.6 GiB are needed in")
        .stderr_has("`delete_100k_2MB` on `dir`: 100003 files");
    assert!(!done.stdout.contains("Running benchmark"), "{done:?}");
    assert_eq!(entries(&disk.folder), [""; 0]);
    // Of the files that two of the workloads have; one of them has its own number.
    let small = [
        "--files",
        "5",
        "--file-size",
        "4k",
        "--set",
        "delete_100k_2MB.files=7",
    ];
    let done = home.iodyno(&command(&small)).succeeds();
    for set_up in ["5 files, 20 KiB", "7 files, 28 KiB"] {
        assert!(done.stdout.contains(set_up), "{set_up}: {done:?}");
    }
    assert!(done.stdout.contains("1 MiB a write, 4 threads"), "{done:?}");
}

#[test]
fn workloads_with_different_metrics_are_not_compared_with_each_other() {
    let home = Home::new();
    let run = |more: &[&str]| {
        let mut words = vec!["fs", "run", "create_empty", "delete_10k_2MB", "--dir", "."];
        words.extend(["--max-ops", "3", "--files", "3", "--file-size", "4k", "-n"]);
        words.extend(more);
        home.iodyno(&words).succeeds()
    };
    // A suite runs once unless rounds are requested.
    let planned = run(&[]);
    assert!(planned.stdout.contains("2 trials"), "{planned:?}");
    assert!(!planned.stdout.contains("compares"), "{planned:?}");
    run(&["--metric", "completion"]).prints("compares");
    let mut words = vec!["fs", "run", "create_empty", "delete_10k_2MB", "--dir", "."];
    words.extend([
        "--max-ops",
        "3",
        "--files",
        "3",
        "--file-size",
        "4k",
        "--no-settle",
    ]);
    words.extend(["--rounds", "2", "--name", "suite"]);
    let done = home.iodyno(&words).succeeds();
    let table = home.iodyno(&["compare", "1"]).succeeds();
    for done in [&done, &table] {
        assert!(
            done.stdout
                .contains("suite, run 1   2 trials a row, nothing to compare with"),
            "{done:?}"
        );
        let row = |name: &str, metric: &str| {
            let words = |line: &str| line.split_whitespace().take(2).eq([name, metric]);
            assert!(done.stdout.lines().any(words), "{done:?}");
        };
        row("create_empty", "iops");
        row("delete_10k_2MB", "completion");
    }
}

#[test]
fn a_disk_that_fills_up_fails_the_trial_with_its_results_and_is_cleaned() {
    let home = Home::new();
    let Some(disk) = FileSystem::ext4(&home, 64) else {
        return;
    };
    let done = home
        .iodyno(&[
            "fs",
            "run",
            "write_sync_1MB",
            "--dir",
            "ext4",
            "--duration",
            "1h",
        ])
        .exits(4);
    assert!(
        (done.stdout.clone() + &done.stderr).contains("ENOSPC"),
        "{done:?}"
    );
    // The measurements are shown, but not as a result for benchstat.
    assert!(closing(&done) > 10, "{}", done.stdout);
    assert!(!done.stdout.contains("Benchmark"), "{}", done.stdout);
    assert_eq!(entries(&disk.folder), [""; 0]);
}

#[test]
fn a_read_only_file_system_is_reported() {
    let home = Home::new();
    let Some(disk) = FileSystem::ext4(&home, 64) else {
        return;
    };
    disk.remount("ro");
    let done = home.iodyno(&["fs", "run", "create_empty", "--dir", "ext4"]);
    assert!(done.code == 3 || done.code == 4, "{done:?}");
    let told = done.stderr.to_lowercase();
    assert!(
        told.contains("read-only") || told.contains("erofs"),
        "{told}"
    );
}

#[test]
fn a_folder_that_disappears_fails_the_trial_without_hanging() {
    let home = Home::new();
    let running = home.start(&["fs", "run", "create_empty", "--duration", "1h"]);
    let own = running.wait_for("the trial's folder", || own_folder(&home.work()));
    let path = home.work().join(&own);
    running.wait_for("some files", || (files(&path) > 5).then_some(()));
    // The node is stopped, so that it creates no files in a folder that is being emptied.
    stop(running.node());
    std::fs::remove_dir_all(&path).unwrap();
    kill_process(running.node(), Signal::CONT).unwrap();
    let done = running.done().exits(4);
    let told = done.stdout.clone() + &done.stderr;
    assert!(told.contains(&own) || told.contains("ENOENT"), "{done:?}");
}

/// The folder in which a run of file operations works.
fn own_folder(target: &Path) -> Option<String> {
    let mut names = entries(target).into_iter();
    names.find(|name| name.starts_with("iodyno-"))
}

/// Number of files in a folder and its subfolders.
fn files(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => files(&entry.path()),
            _ => 1,
        })
        .sum()
}

#[test]
fn an_interruption_of_the_set_up_removes_its_files() {
    let home = Home::new();
    std::fs::write(home.work().join("mine"), "1").unwrap();
    let running = home.start(&[
        "fs",
        "run",
        "delete_10k_2MB",
        "--files",
        "2000",
        "--file-size",
        "1MiB",
    ]);
    let own = running.wait_for("the trial's folder", || own_folder(&home.work()));
    running.wait_for("some files", || {
        (files(&home.work().join(&own)) > 3).then_some(())
    });
    running.signal(Signal::INT);
    running.done().exits(130);
    assert_eq!(entries(&home.work()), ["mine"]);
}

#[test]
fn an_interruption_of_the_ops_keeps_the_results() {
    let home = Home::new();
    let running = home.start(&["fs", "run", "create_empty", "--duration", "1h"]);
    let node = running.node();
    running.wait_for("some files", || {
        let own = own_folder(&home.work())?;
        (files(&home.work().join(own)) > 20).then_some(())
    });
    running.wait_until_it_measures(&home);
    running.signal(Signal::INT);
    let done = running.done().exits(130);
    assert!(closing(&done) > 20, "{done:?}");
    assert_eq!(entries(&home.work()), [""; 0]);
    assert!(!crate::harness::alive(node));
}

#[test]
fn a_node_that_is_killed_leaves_no_folder_behind() {
    let home = Home::new();
    let running = home.start(&["fs", "run", "create_empty", "--duration", "1h"]);
    let node = running.node();
    running.wait_for("some files", || {
        let own = own_folder(&home.work())?;
        (files(&home.work().join(own)) > 20).then_some(())
    });
    kill_process(node, Signal::KILL).unwrap();
    running.done().exits(4);
    assert_eq!(entries(&home.work()), [""; 0]);
}

#[test]
fn ops_at_a_rate_report_their_lateness() {
    let home = Home::new();
    let done = home
        .iodyno(&[
            "fs",
            "run",
            "create_empty",
            "--rate",
            "40",
            "--max-ops",
            "80",
            "--threads",
            "2",
            "--own-folders",
        ])
        .succeeds();
    let (_, count, rate) = benchmark(&done);
    // No op is early: each thread's 40th op is issued 1.95 s after its first. On a slow host ops are late.
    assert!(
        count == 80 && rate > 0.0 && rate <= 80.0 / 1.95,
        "{}",
        done.stdout
    );
    assert!(
        latest(&home).to_string().contains("response"),
        "no response latency"
    );
}
