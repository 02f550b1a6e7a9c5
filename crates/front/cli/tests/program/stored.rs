//! Commands on stored runs: `list`, `name`, `delete`, and tables of `compare` and `show`.

use std::io::Read;

use crate::harness::{Home, root, skip, terminal};

/// A job whose ops have a known duration.
fn job(latency: &str, rw: &str, bs: &str) -> String {
    format!(
        "[t]\nioengine=sim\nsim_latency=lognormal:{latency}:0.1\nrw={rw}\nbs={bs}\nsize=16m\n\
         runtime=100ms\ntime_based\n"
    )
}

const ROUNDS: [&str; 6] = ["--rounds", "6", "--seed", "7", "--no-settle", "-q"];

#[test]
fn the_list_has_the_verdicts_of_comparisons() {
    let home = Home::new();
    home.file("slow.fio", &job("300us", "randread", "4k"));
    home.file("fast.fio", &job("200us", "randread", "4k"));
    let run = |rounds: &str| {
        let mut arguments = vec!["run", "slow.fio", "fast.fio"];
        arguments.extend([
            "--baseline",
            "slow",
            "--rounds",
            rounds,
            "--seed",
            "7",
            "-q",
        ]);
        home.iodyno(&arguments).succeeds();
    };
    run("6");
    run("2");
    let list = home.iodyno(&["list"]).succeeds().stdout;
    let line = |at: usize| list.lines().nth(at).unwrap_or_default();
    assert!(line(1).ends_with("simulated: 1 faster"), "{list}");
    assert!(line(2).ends_with("simulated: 1 undecided"), "{list}");
    let json = home.iodyno(&["list", "--json"]).succeeds().json();
    assert_eq!(json["runs"][0]["verdicts"]["faster"], 1, "{json:#}");
    // More rounds decide.
    home.iodyno(&["run", "--resume", "2", "--rounds", "9", "-q"])
        .succeeds();
    home.iodyno(&["list"])
        .succeeds()
        .prints("simulated: 1 faster\n");
    let list = home.iodyno(&["list"]).succeeds().stdout;
    assert!(!list.contains("undecided"), "{list}");
}

#[test]
fn trials_are_shown_in_one_markdown_table() {
    let home = Home::new();
    home.file("mixed.fio", &job("200us", "randrw", "4k"));
    home.iodyno(&["run", "mixed.fio", "--rounds", "3", "--seed", "7", "-q"])
        .succeeds();
    let show = |further: &[&str]| {
        let all = [&["show", "last", "--format", "markdown"], further].concat();
        home.iodyno(&all).succeeds().stdout
    };
    let text = show(&[]);
    let lines: Vec<&str> = text.lines().collect();
    let head = "| trial | round | configuration | workload |  | IOPS | MiB/s | mean | p50 | p99 | p99.9 | max | err |";
    assert_eq!(lines[0], head, "{text}");
    assert!(
        lines[2].starts_with("| 1 | 1 |") && lines[2].contains("| read |"),
        "{text}"
    );
    assert!(
        lines[7].starts_with("| 3 | 3 |") && lines[7].contains("| write |"),
        "{text}"
    );
    // A finding of all trials is there once.
    let found = lines
        .iter()
        .filter(|line| line.starts_with("- all 3 trials, such as trial 1: too few ops"));
    assert!(found.count() > 0, "{text}");
    let one = show(&["--trial", "2"]);
    assert!(
        one.lines().nth(2).unwrap().starts_with("| 2 | 2 |"),
        "{one}"
    );
    home.iodyno(&["show", "last", "--format", "markdown", "--series", "cpu"])
        .exits(2);
}

#[test]
fn runs_of_one_name_are_told_apart_and_nothing_is_cut_in_a_pipe() {
    let home = Home::new();
    home.file("disk.fio", &job("200us", "randread", "4k"));
    for bs in ["4k", "64k"] {
        let set = format!("bs={bs}");
        home.iodyno(&[
            "run",
            "disk.fio",
            "--set",
            &set,
            "--seed",
            bs.trim_end_matches('k'),
            "-q",
        ])
        .succeeds();
    }
    let name = "a-name-that-is-much-longer-than-what-a-terminal-of-eighty-columns-has-room-for-beside-the-rest";
    home.iodyno(&["run", "disk.fio", "--name", name, "-q"])
        .succeeds();
    let list = home.iodyno(&["list"]).succeeds();
    let line = |at: usize| list.stdout.lines().nth(at).unwrap_or_default();
    assert!(line(0).contains("differs in"), "{}", list.stdout);
    assert!(line(1).contains(" bs=4k "), "{}", list.stdout);
    assert!(line(2).contains(" bs=64k "), "{}", list.stdout);
    assert!(
        line(3).contains(name) && line(3).contains("MiB/s"),
        "{}",
        list.stdout
    );
    assert!(!list.stdout.contains("--seed"), "{}", list.stdout);
}

#[test]
fn a_run_is_renamed_and_deleted_runs_are_named() {
    let home = Home::new();
    home.file("disk.fio", &job("200us", "randread", "4k"));
    for _ in 0..5 {
        home.iodyno(&["run", "disk.fio", "-q"]).succeeds();
    }
    home.iodyno(&["name", "2", "before"])
        .succeeds()
        .prints("run 2 `disk` is now `before`");
    home.iodyno(&["show", "before"]).succeeds();
    let alone = home.iodyno(&["name", "2", "before"]).succeeds();
    assert_eq!(alone.stderr, "");
    home.iodyno(&["name", "1", "before"])
        .succeeds()
        .stderr_has("the name `before` is also that of run 2");
    home.iodyno(&["name", "1", "disk"])
        .succeeds()
        .stderr_has("the name `disk` is also that of runs 3, 4 and 5");
    for name in ["7", "last", ""] {
        home.iodyno(&["name", "2", name])
            .exits(2)
            .stderr_has("cannot be the name");
    }
    home.iodyno(&["delete", "before", "9", "last~8"])
        .exits(2)
        .stderr_has("no run `9`")
        .stderr_has("no run `last~8`");
    home.iodyno(&["delete", "8-9"])
        .exits(2)
        .stderr_has("no run has a number in `8-9`");
    home.iodyno(&["delete", "before", "3-4", "4"])
        .succeeds()
        .prints("deleted run 2 `before`: completed, 1 trial")
        .prints("deleted run 3 `disk`")
        .prints("deleted run 4 `disk`");
    let list = home.iodyno(&["list", "--json"]).succeeds().json();
    let left: Vec<u64> = list["runs"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|run| run["alias"].as_u64())
        .collect();
    assert_eq!(left, [1, 5]);
    // The names that others use.
    home.iodyno(&["rm", "1"]).succeeds();
    home.iodyno(&["rename", "5", "x"]).succeeds();
}

#[test]
fn a_run_in_progress_is_not_deleted() {
    let home = Home::new();
    home.file(
        "job.fio",
        "[t]\nioengine=sim\nsim_clock=real\nsim_latency=constant:1ms\nrw=read\nbs=4k\nsize=1m\ntime_based\nruntime=1h\n",
    );
    let running = home.start(&["run", "job.fio"]);
    running.wait_until_it_measures(&home);
    home.iodyno(&["delete", "1"])
        .exits(2)
        .stderr_has("run 1 is being carried out by process");
    running.signal(rustix::process::Signal::INT);
    running.done().exits(130);
    home.iodyno(&["delete", "1"])
        .succeeds()
        .prints("deleted run 1 `job`: interrupted");
}

/// Two runs of four workloads on two targets.
fn mirrors() -> Home {
    let home = Home::new();
    for target in ["stripe", "mirror"] {
        std::fs::create_dir(home.work().join(target)).unwrap();
    }
    for (name, latency) in [("pristine", "2ms"), ("balanced", "1ms")] {
        for (rw, bs) in [
            ("read", "1m"),
            ("read", "4k"),
            ("randread", "1m"),
            ("randread", "4k"),
        ] {
            home.file(&format!("{rw}-{bs}.fio"), &job(latency, rw, bs));
        }
        let files = [
            "read-1m.fio",
            "read-4k.fio",
            "randread-1m.fio",
            "randread-4k.fio",
        ];
        let on = ["--on", "stripe", "--on", "mirror", "--name", name];
        let arguments = [&["run"][..], &files, &on, &ROUNDS].concat();
        home.iodyno(&arguments).succeeds();
    }
    home
}

#[test]
fn dimensions_are_columns_below_the_names_of_runs() {
    let home = mirrors();
    let compare = |further: &[&str]| {
        let arguments = ["compare", "pristine", "balanced", "--axis", "sim_latency"];
        home.iodyno(&[&arguments[..], further].concat()).succeeds()
    };
    let table = compare(&[
        "--cols",
        "run,rw,bs",
        "--metric",
        "rw=read:bandwidth,rw=randread:iops",
        "--unit",
        "MB/s",
    ]);
    let heads: Vec<Vec<&str>> = table
        .stdout
        .lines()
        .skip_while(|line| !line.trim_start().starts_with("pristine "))
        .take(4)
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        heads,
        [
            vec!["pristine", "balanced"],
            vec!["read", "randread", "read", "randread"],
            vec!["1m", "4k", "1m", "4k", "1m", "4k", "1m", "4k"],
            vec![
                "MB/s", "MB/s", "IOPS", "IOPS", "MB/s", "MB/s", "IOPS", "IOPS"
            ],
        ],
        "{}",
        table.stdout
    );
    assert!(table.stdout.lines().any(|line| line.starts_with("stripe ")));
    let json = compare(&["--cols", "run,rw,bs", "--json"]).json();
    assert_eq!(json["rows"].as_array().unwrap().len(), 8);
    assert_eq!(json["rows"][0]["dimensions"]["bs"], "1m");
    // A name stands for its run.
    compare(&["--baseline", "balanced"]).prints("pristine (run 1)");
    home.iodyno(&["compare", "1", "2", "--cols", "run,rv"])
        .exits(2)
        .stderr_has("no trial has a dimension `rv`");
}

#[test]
fn several_metrics_decide_beside_one_another() {
    let home = mirrors();
    let compare = [
        "compare",
        "1",
        "--metric",
        "bandwidth+iops",
        "--where",
        "bs=4k",
    ];
    let text = home.iodyno(&compare).succeeds().stdout;
    assert!(text.contains("Holm over 4"), "{text}");
    let head = text
        .lines()
        .find(|line| line.contains("bandwidth"))
        .unwrap();
    assert_eq!(
        head.split_whitespace().collect::<Vec<_>>(),
        ["bandwidth", "iops"],
        "{text}"
    );
    let mean = home.iodyno(&["compare", "1", "--mean"]).succeeds().stdout;
    assert!(mean.contains("(mean "), "{mean}");
}

#[test]
fn twelve_runs_are_one_table() {
    let home = Home::new();
    let mut names = Vec::new();
    for rw in ["read", "randread", "write"] {
        for bs in ["4k", "16k", "64k", "1m"] {
            let name = format!("{rw}-{bs}");
            home.file("disk.fio", &job("200us", rw, bs));
            let run = ["run", "disk.fio", "--name", &name];
            home.iodyno(&[&run[..], &ROUNDS].concat()).succeeds();
            names.push(name);
        }
    }
    let done = home.iodyno(&["compare", "1-12"]).succeeds();
    assert!(!done.stdout.contains("NO DATA"), "{}", done.stdout);
    for name in names {
        let line = done
            .stdout
            .lines()
            .find(|line| line.contains(&format!("  {name} ")));
        assert!(line.is_some(), "{name}: {}", done.stdout);
    }
}

#[test]
fn seconds_of_jobs_are_printed_as_values() {
    let home = Home::new();
    home.file(
        "two.fio",
        "[global]\nioengine=sim\nsim_latency=constant:1ms\nbs=4k\nsize=1m\nruntime=3s\ntime_based\n\
         [reader]\nrw=read\n[writer]\nrw=write\nnumjobs=2\n",
    );
    home.iodyno(&["run", "two.fio", "-q"]).succeeds();
    let text = home
        .iodyno(&["show", "last", "--format", "csv"])
        .succeeds()
        .stdout;
    let records: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    let column = |name: &str| records[0].iter().position(|known| *known == name).unwrap();
    let [job, step, ops] = ["subject", "step", "ops"].map(column);
    let of = |name: &str| {
        let lines = records
            .iter()
            .filter(|record| record[job] == name && record[step] == "measure");
        lines
            .map(|record| record[ops].parse::<u64>().unwrap())
            .sum::<u64>()
    };
    assert_eq!((of("reader"), of("writer")), (3000, 6000), "{text}");
}

#[test]
fn a_table_of_file_operations_is_printed_again() {
    let home = Home::new();
    let run = ["fs", "run", "create_empty", "--dir", ".", "--max-ops", "20"];
    let first = home.iodyno(&run).succeeds().stdout;
    let again = home
        .iodyno(&["show", "last", "--format", "fsbench"])
        .succeeds()
        .stdout;
    let table = first.split("\nrun 1 stored in").next().unwrap();
    assert!(again.contains("Running benchmark: create_empty"), "{again}");
    assert_eq!(again.trim_end(), table.trim_end());
    // Without a row for each second and without where it is stored.
    let quiet = home.iodyno(&[&run[..], &["-q"]].concat()).succeeds().stdout;
    assert!(
        !quiet.contains("(inst)") && !quiet.contains("stored in"),
        "{quiet}"
    );
    assert!(quiet.contains("(total)"), "{quiet}");
    home.file("disk.fio", &job("200us", "randread", "4k"));
    home.iodyno(&["run", "disk.fio", "-q"]).succeeds();
    home.iodyno(&["show", "last", "--format", "fsbench"])
        .exits(2)
        .stderr_has("workload `disk` has no file operations");
}

#[test]
fn quiet_runs_print_the_verdict_and_every_error() {
    let home = Home::new();
    home.file("slow.fio", &job("200us", "randread", "4k"));
    home.file("fast.fio", &job("100us", "randread", "4k"));
    let run = [
        "run", "slow.fio", "fast.fio", "--on", "x=.", "--rounds", "8",
    ];
    let last_line = "stored in";
    home.iodyno(&run).succeeds().prints(last_line);
    let quiet = home.iodyno(&[&run[..], &["-q"]].concat()).succeeds();
    assert!(quiet.stdout.contains("FASTER"), "{}", quiet.stdout);
    assert!(!quiet.stdout.contains(last_line), "{}", quiet.stdout);
    assert_eq!(quiet.stderr, "");
    // A run that did not complete says so, and how to continue it.
    home.file("none.fio", "[t]\nrw=read\nsize=4k\nfilename=/no/such\n");
    home.iodyno(&["run", "none.fio", "-q"])
        .exits(4)
        .stderr_has("error: ")
        .prints("It failed.");
}

#[test]
fn errors_name_the_flag_that_was_given() {
    let home = Home::new();
    home.iodyno(&["fs", "run", "create_empty", "--dir", "no/such"])
        .exits(2)
        .stderr_has("`--dir no/such`: No such file or directory")
        .stderr_has("mkdir -p no/such");
    home.file("disk.fio", &job("200us", "randread", "4k"));
    home.iodyno(&[
        "run",
        "disk.fio",
        "--set",
        "bs=4k",
        "--set",
        "blocksize=64k",
    ])
    .exits(2)
    .stderr_has("`--set bs=4k` and `--set blocksize=64k` set the same option");
    home.file(
        "real.fio",
        "[t]\nfilename=/no/such/file\nrw=write\nbs=4k\nsize=64k\n",
    );
    home.iodyno(&["run", "real.fio"])
        .stderr_has("mkdir -p /no/such");
}

#[test]
fn a_mistyped_command_gets_a_suggestion() {
    let home = Home::new();
    home.file("disk.fio", &job("200us", "randread", "4k"));
    for (words, tip) in [
        (&["comapre", "1"][..], "compare"),
        (&["help", "comapre"], "compare"),
        (&["disk.fio"], "iodyno run disk.fio"),
        (&["create_empty"], "iodyno fs run create_empty"),
        (&["fs", "create_empty"], "iodyno fs run create_empty"),
    ] {
        let told = home.iodyno(words).exits(2);
        assert!(told.stderr.contains(tip), "{words:?}: {}", told.stderr);
    }
}

#[test]
fn eighty_columns_show_the_table_of_runs_on_a_terminal() {
    let home = mirrors();
    let (device, mut screen) = terminal(80);
    let mut command = home.command(&[
        "compare",
        "1",
        "2",
        "--cols",
        "run,rw,bs",
        "--axis",
        "sim_latency",
    ]);
    let mut child = command.stdout(device).spawn().unwrap();
    drop(command);
    let mut text = String::new();
    // Ends with EIO when the other side is closed.
    let _ = screen.read_to_string(&mut text);
    assert!(child.wait().unwrap().success());
    let line = text
        .lines()
        .find(|line| line.starts_with("stripe "))
        .unwrap_or_default();
    assert_eq!(
        line.matches('?').count() + line.matches('+').count(),
        4,
        "{text}"
    );
}

#[test]
fn a_name_never_stands_for_other_runs() {
    let home = Home::new();
    home.file("disk.fio", &job("200us", "randread", "4k"));
    home.file("2-3.fio", &job("200us", "randread", "4k"));
    for file in ["2-3.fio", "disk.fio", "disk.fio", "disk.fio"] {
        home.iodyno(&["run", file, "-q"]).succeeds();
    }
    let long = "x".repeat(201);
    for name in [
        "2-3",
        " 2 - 3 ",
        "7",
        "-7",
        "last",
        "last~4",
        "",
        "a\u{1b}[2K",
        "--all",
        &long,
    ] {
        for command in [
            &["name", "--", "1", name][..],
            &["run", "disk.fio", &format!("--name={name}")],
        ] {
            home.iodyno(command)
                .exits(2)
                .stderr_has("cannot be the name of a run");
        }
    }
    assert_eq!(
        home.iodyno(&["list", "--json"]).json()["runs"]
            .as_array()
            .unwrap()
            .len(),
        4
    );
    // A derived name is changed, and a range is never a name.
    home.iodyno(&["show", "run 2-3"]).succeeds();
    let deleted = home.iodyno(&["delete", "2-3"]).succeeds();
    assert!(
        !deleted.stdout.contains("deleted run 1"),
        "{}",
        deleted.stdout
    );
    home.iodyno(&["show", "1"]).succeeds();
}

#[test]
fn a_store_is_not_reached_through_a_link_of_another_user() {
    let home = Home::new();
    home.file("disk.fio", &job("200us", "randread", "4k"));
    home.iodyno(&["--store", "real.db", "run", "disk.fio", "-q"])
        .succeeds();
    let link = home.work().join("link.db");
    std::os::unix::fs::symlink("real.db", &link).unwrap();
    // An own link is followed.
    home.iodyno(&["--store", "link.db", "show", "last"])
        .succeeds();
    home.open_to_all();
    if !root() {
        return skip("only root can give a link to another user");
    }
    std::os::unix::fs::lchown(&link, Some(65534), None).unwrap();
    for command in [
        &["show", "last"][..],
        &["run", "disk.fio", "-q"],
        &["delete", "last"],
    ] {
        home.iodyno(&[&["--store", "link.db"], command].concat())
            .exits(2)
            .stderr_has("the path is a symlink of user 65534");
    }
    std::fs::remove_file(home.work().join("real.db")).unwrap();
    home.iodyno(&["--store", "link.db", "run", "disk.fio", "-q"])
        .exits(2);
    assert!(!home.work().join("real.db").exists());
}

#[test]
fn a_store_is_a_path() {
    let home = Home::new();
    for store in ["postgres://h/db", "sqlite:///x.db", "http://h"] {
        home.iodyno(&["--store", store, "list"])
            .exits(2)
            .stderr_has("is not a path");
    }
    assert_eq!(std::fs::read_dir(home.work()).unwrap().count(), 0);
    home.file("disk.fio", &job("200us", "randread", "4k"));
    home.iodyno(&["run", "disk.fio", "--on", "a=s3://bucket"])
        .exits(2)
        .stderr_has("`s3://` is not a path");
}

#[test]
fn a_refused_run_is_not_the_last_one() {
    let home = Home::new();
    home.file("disk.fio", &job("200us", "randread", "4k"));
    home.file(
        "write.fio",
        "[t]\nioengine=psync\nrw=write\nbs=4k\nsize=64k\n",
    );
    let mut image = vec![0u8; 1 << 20];
    image[..8].copy_from_slice(b"QFI\xfb\0\0\0\x03");
    std::fs::write(home.work().join("disk.qcow2"), &image).unwrap();
    let refused = ["run", "write.fio", "--on", "d=disk.qcow2"];
    home.iodyno(&refused).exits(3);
    home.iodyno(&["show", "last"])
        .exits(2)
        .stderr_has("all runs were refused");
    home.iodyno(&["run", "disk.fio", "-q"]).succeeds();
    home.iodyno(&refused).exits(3);
    home.iodyno(&["show", "last"]).succeeds().prints("disk");
    home.iodyno(&["show", "last~1"]).exits(2);
}

#[test]
fn a_full_disk_is_a_refusal_with_every_kind_of_work() {
    let home = Home::new();
    home.file(
        "large.fio",
        "[t]\nioengine=psync\nrw=read\nsize=1000t\nio_size=4k\n",
    );
    let files = [
        "fs",
        "run",
        "delete_10k_2MB",
        "--files",
        "1000000000",
        "--dir",
        ".",
    ];
    for command in [
        &["run", "large.fio", "--on", ".", "--no-settle"][..],
        &files,
    ] {
        let done = home.iodyno(command).exits(3);
        assert!(done.stderr.contains("free"), "{}", done.stderr);
    }
    assert_eq!(std::fs::read_dir(home.work()).unwrap().count(), 1);
}
