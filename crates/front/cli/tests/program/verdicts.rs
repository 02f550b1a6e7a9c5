//! Rounds, verdicts and their options, on simulated devices in virtual time: exact figures.

use std::io::Read;
use std::process::Stdio;

use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::harness::{Done, Home, Running, Stream, measured, terminal, wait_for};

/// A job whose ops have a known duration.
fn job(latency: &str) -> String {
    format!(
        "[t]\nioengine=sim\nsim_latency=lognormal:{latency}:0.3\nrw=randread\nbs=4k\nsize=16m\n\
         runtime=150ms\ntime_based\n"
    )
}

/// A home with two workloads, the second one 1.5 times as fast.
fn two_laws() -> Home {
    let home = Home::new();
    home.file("slow.fio", &job("300us"));
    home.file("fast.fio", &job("200us"));
    home
}

/// Runs both workloads with a fixed seed.
fn run_two(home: &Home, further: &[&str]) -> Done {
    let mut arguments = vec!["run", "slow.fio", "fast.fio", "--seed", "7"];
    arguments.extend(further);
    home.iodyno(&arguments)
}

fn trials_completed(home: &Home, run: usize) -> u64 {
    let list = home.iodyno(&["list", "--json"]).succeeds().json();
    list["runs"][run]["trials_completed"].as_u64().unwrap()
}

/// A figure rounded to four digits: the host's mathematical library may differ in the last ones.
fn rounded(value: &Value) -> f64 {
    (value.as_f64().unwrap() * 1e4).round() / 1e4
}

#[test]
fn a_known_difference_is_found_measured_and_printed_in_every_form() {
    let home = two_laws();
    let done = run_two(&home, &[])
        .succeeds()
        .prints("1.50× [1.48, 1.51]      0.002  FASTER");
    assert!(!done.stdout.contains("p99.9"), "{}", done.stdout);
    let json = home
        .iodyno(&["compare", "last", "--json"])
        .succeeds()
        .json();
    let cell = &json["rows"][0]["cells"][0];
    let ratio = ["value", "low", "high"].map(|name| rounded(&cell["ratio"][name]));
    assert_eq!(ratio, [1.4965, 1.4771, 1.5077]);
    // The smallest p for ten pairs: 2 of 2¹⁰ assignments of signs.
    assert_eq!(cell["adjusted_p"], 2.0 / 1024.0);
    assert_eq!(
        (&cell["n"], &cell["cliffs_delta"]),
        (&10.into(), &1.0.into())
    );

    for (format, expected) in [
        ("text", "FASTER"),
        ("markdown", "|"),
        ("asciidoc", "|==="),
        ("csv", "fast"),
        ("benchstat", "Benchmark"),
    ] {
        home.iodyno(&["compare", "last", "--format", format])
            .succeeds()
            .prints(expected);
    }
    assert_eq!(trials_completed(&home, 0), 20);
}

#[test]
fn two_readers_on_a_simulated_mirror_have_a_disk_each() {
    let home = Home::new();
    home.file(
        "mirror.toml",
        r#"
rounds = 6
seed = 7
compare = "disks"

[configuration.here]
target = "."

[workload."read-${disks}"]
axis.disks = { one = { sim_device = "hdd" }, two = { sim_device = "mirror:adaptive:hdd+hdd" } }
fio = { ioengine = "sim", rw = "read", bs = "1m", size = "4g", numjobs = 2, runtime = 10, time_based = 1 }
"#,
    );
    let run = || {
        let run = home.iodyno(&["run", "mirror.toml", "--json"]);
        measured(&run.succeeds().json())
    };
    let first = run();
    assert_eq!(first.len(), 12);
    assert_eq!(run(), first);
    // Twice the rate of the medium, 130 MB/s.
    home.iodyno(&["compare", "last", "-v"])
        .succeeds()
        .prints("247.8 MiB/s")
        .prints("FASTER")
        .prints("differs: sim_device");
}

#[test]
fn a_simulated_mirror_is_a_target_and_its_results_are_marked() {
    let home = Home::new();
    home.file(
        "policies.toml",
        r#"
rounds = 6
seed = 7
compare = "policy"

[configuration."${policy}"]
target = "2 x mirror of sim:hdd x 2"
mirror = { policy = "${policy}", queues = 2 }
sim = { record = "128KiB", prefetch = "4MiB" }
axis.policy = ["round-robin", "least-pending"]

[workload.read]
fio = { ioengine = "psync", rw = "read", bs = "1m", size = "4g", numjobs = 4, time_based = 1 }
duration = "5s"
"#,
    );
    let run = || {
        let run = home.iodyno(&["run", "policies.toml", "--json"]);
        measured(&run.succeeds().json())
    };
    let first = run();
    assert_eq!(first.len(), 12);
    assert_eq!(run(), first);
    // The streams of the old policy jump from leg to leg.
    home.iodyno(&["compare", "last"])
        .succeeds()
        .prints("FASTER")
        .prints("all results are simulated")
        .prints("mirror.policy");
    home.iodyno(&["show", "last"])
        .succeeds()
        .prints("simulated in virtual time");
    home.iodyno(&["run", "policies.toml", "--dry-run"])
        .succeeds()
        .prints("2 x mirror of sim:hdd x 2");
}

#[test]
fn the_same_seed_gives_the_same_figures_and_another_one_others() {
    let home = two_laws();
    let figures = |seed: &str| {
        let arguments = ["run", "slow.fio", "fast.fio", "--seed", seed, "--json"];
        let run = home.iodyno(&arguments).succeeds().json();
        (measured(&run), run["comparison"]["rows"].clone())
    };
    let first = figures("7");
    assert_eq!(first.0.len(), 20);
    assert_eq!(figures("7"), first);
    assert_ne!(figures("8").0, first.0);
}

#[test]
fn a_regression_and_indecision_have_separate_exit_codes() {
    let home = two_laws();
    run_two(&home, &[]).succeeds();
    let fail = |further: &[&str]| {
        let mut arguments = vec!["compare", "last", "--fail-on", "regression"];
        arguments.extend(further);
        home.iodyno(&arguments)
    };
    fail(&[]).exits(0);
    fail(&["--baseline", "fast"]).exits(1).prints("SLOWER");
    let bisect =
        |further: &[&str]| home.iodyno(&[&["compare", "last", "--bisect"], further].concat());
    bisect(&[]).exits(0);
    bisect(&["--baseline", "fast"]).exits(1);
    run_two(&home, &["--rounds", "3", "--fail-on", "regression"])
        .exits(0)
        .prints("CANNOT DECIDE");
    run_two(
        &home,
        &["--rounds", "3", "--fail-on", "regression,undecided"],
    )
    .exits(5);
    run_two(&home, &["--rounds", "3", "--bisect"]).exits(125);
    fail(&[]).exits(0).prints("CANNOT DECIDE");
    fail(&["--fail-on", "undecided"]).exits(5);
    bisect(&[]).exits(125);
    let xml = fail(&["--format", "junit"]).exits(0).stdout;
    assert!(
        xml.contains("tests=\"1\" failures=\"0\" skipped=\"1\""),
        "{xml}"
    );
    home.iodyno(&["compare", "last", "--format", "github"])
        .succeeds()
        .prints("::notice title=fast against slow");
    // git-bisect(1) stops after a code above 127, and takes any other but 125 for a bad commit.
    bisect(&["--no-such-flag"]).exits(128);
    bisect(&["--cols", "no-such-dimension"]).exits(128);
    bisect(&["--fail-on", "regression"]).exits(128);
}

#[test]
fn the_repeated_baseline_gives_the_noise_floor() {
    let home = two_laws();
    run_two(&home, &["--aa"]).succeeds().prints("A/A");
    let json = home
        .iodyno(&["compare", "last", "--json"])
        .succeeds()
        .json();
    assert_eq!(json["candidates"].as_array().unwrap().len(), 1, "{json}");
    assert_eq!(rounded(&json["noise_floor"]), 0.0199);
    // The results of the candidate do not depend on the repetition.
    let ratio = &json["rows"][0]["cells"][0]["ratio"]["value"];
    assert_eq!(rounded(ratio), 1.4965);
    assert_eq!(trials_completed(&home, 0), 30);
    // A single one is not a comparison and has no verdict.
    home.iodyno(&["run", "slow.fio", "--aa", "--rounds", "6", "--seed", "7"])
        .succeeds()
        .prints("A/A 1.01× [0.97, 1.02], 6 rounds: what differs by less than 3.2 % is noise here");
    let export = home
        .iodyno(&[
            "compare",
            "last",
            "--format",
            "benchstat",
            "--metric",
            "all",
        ])
        .succeeds();
    let lines = export
        .stdout
        .lines()
        .filter(|line| line.starts_with("Benchmark"));
    assert_eq!(lines.count(), 12, "{}", export.stdout);
}

#[test]
fn separate_runs_are_judged_from_four_per_side_if_they_alternate() {
    let home = two_laws();
    let run = |file: &str, seed: &str, further: &[&str]| {
        let mut arguments = vec!["run", file, "--rounds", "3", "--seed", seed, "-q"];
        arguments.extend(further);
        home.iodyno(&arguments).succeeds();
    };
    for (file, seed) in [("slow.fio", "1"), ("fast.fio", "2")] {
        run(file, seed, &[]);
    }
    home.iodyno(&["compare", "1", "2"])
        .succeeds()
        .prints("CANNOT DECIDE")
        .prints("separate runs: 1 run of slow and 1 of fast are too few to measure the variation between runs")
        .prints("to compare both in the rounds of one run: iodyno run slow.fio fast.fio");
    let more = [
        ("slow.fio", "3"),
        ("fast.fio", "4"),
        ("slow.fio", "5"),
        ("fast.fio", "6"),
        ("slow.fio", "7"),
        ("fast.fio", "8"),
    ];
    for (file, seed) in more {
        run(file, seed, &[]);
    }
    let runs = ["1", "2", "3", "4", "5", "6", "7", "8"];
    let json = home
        .iodyno(&[&["compare"], &runs[..], &["--cols", "workload", "--json"]].concat())
        .succeeds()
        .json();
    let cell = &json["rows"][0]["cells"][0];
    let told = ["verdict", "pairing", "n"].map(|key| cell[key].clone());
    assert_eq!(
        told,
        ["faster".into(), "runs".into(), Value::from(4)],
        "{cell}"
    );
    assert!(
        (rounded(&cell["ratio"]["value"]) - 1.5).abs() < 0.02,
        "{cell}"
    );
    for seed in ["9", "10"] {
        run("fast.fio", seed, &[]);
    }
    // All runs of one workload before all of the other.
    home.iodyno(&[
        "compare", "1", "3", "5", "6", "7", "8", "9", "10", "--cols", "workload",
    ])
    .succeeds()
    .prints("INCONCLUSIVE")
    .prints("separate runs: those of fast were on average later than those of slow")
    .prints("FASTER 1.50×");
    // Runs of the same work are distinguished by their names.
    for (name, seed) in [("before", "11"), ("after", "12"), ("before", "13")] {
        run("slow.fio", seed, &["--name", name]);
    }
    for (name, seed) in [("after", "14"), ("before", "15"), ("after", "16")] {
        run("slow.fio", seed, &["--name", name]);
    }
    home.iodyno(&["compare", "11", "12", "13", "14", "15", "16"])
        .succeeds()
        .prints("after against before, runs 11, 12, 13, 14, 15 and 16   3 runs a side")
        .prints("after/before");
    // The footnotes suggest one remedy: more runs, and not more trials of the same runs.
    for (name, seed) in [("short before", "17"), ("short after", "18")] {
        let short = [
            "run", "slow.fio", "--seed", seed, "--name", name, "--rounds", "3",
        ];
        home.iodyno(&short).succeeds();
    }
    let few = home
        .iodyno(&["compare", "17", "18"])
        .succeeds()
        .prints("CANNOT DECIDE")
        .prints("(1) n=3, smallest possible p is 0.10, and it has to be below 0.04\n")
        .prints("at least 4 runs of each");
    assert!(!few.stdout.contains("trials a side\n"), "{}", few.stdout);
    home.iodyno(&["compare", "11", "12", "--fail-on", "undecided"])
        .exits(5)
        .prints("iodyno run slow.fio --on before=PATH --on after=PATH");
}

#[test]
fn a_dry_run_reports_the_rounds_and_whether_they_can_decide() {
    let home = two_laws();
    run_two(&home, &["--dry-run"])
        .succeeds()
        .prints("10 rounds");
    run_two(&home, &["--dry-run", "--rounds", "4"])
        .succeeds()
        .stderr_has("4 rounds cannot decide");
    run_two(&home, &["--dry-run", "--max-time", "1s"])
        .succeeds()
        .stderr_has("--max-time");
    let plan = run_two(&home, &["--dry-run", "--json"]).succeeds().json();
    assert_eq!(plan["rounds"], 10);
}

#[test]
fn rounds_stop_if_intervals_are_narrow_or_the_time_limit_is_reached() {
    let home = two_laws();
    // No interval is checked before round 10; at round 10 it is 1.477 to 1.508, which is 2.04 % of 1.496.
    for (run, width, rounds) in [(0, "60%", 10), (1, "2.1%", 10), (2, "2%", 11)] {
        run_two(&home, &["--stop-width", width])
            .succeeds()
            .prints("narrow enough");
        assert_eq!(trials_completed(&home, run), 2 * rounds, "{width}");
    }
    // A round takes 300 ms of virtual time, and a little more for the ops in flight at the end.
    run_two(&home, &["--max-time", "2s", "--rounds", "1000"])
        .succeeds()
        .prints("12 trials; stopped by `--max-time`");
    assert_eq!(trials_completed(&home, 3), 12);
}

#[test]
fn a_killed_run_is_resumed_with_the_same_results() {
    let home = two_laws();
    run_two(&home, &["--rounds", "40"]).succeeds();
    let whole = home.iodyno(&["show", "1", "--json"]).succeeds().json();
    assert_eq!(measured(&whole).len(), 80);

    // No process reads its progress messages: it blocks when the pipe is full, and is killed then.
    let (stderr, full) = rustix::pipe::pipe().unwrap();
    let capacity = fcntl_setpipe_size(&full, 4096).unwrap();
    rustix::io::write(&full, &[b'\n'; 3000]).unwrap();
    let mut command = home.command(&[
        "run", "slow.fio", "fast.fio", "--seed", "7", "--rounds", "40",
    ]);
    let mut child = command.stderr(Stdio::from(full)).spawn().unwrap();
    drop(command);
    wait_for("a full pipe", || {
        let held = rustix::io::ioctl_fionread(&stderr).unwrap() as usize;
        // A line that does not fit is not started.
        (held + 200 > capacity).then_some(())
    });
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    let mut told = String::new();
    std::fs::File::from(stderr)
        .read_to_string(&mut told)
        .unwrap();
    assert!(told.contains("trial 2 of 80"), "{told}");
    let made = trials_completed(&home, 1);
    assert!((2..80).contains(&made), "{made}: {told}");

    home.iodyno(&["compare", "last"])
        .prints("provisional: run 2 was interrupted; the verdict is final after 40 rounds");
    home.iodyno(&["run", "--resume", "last"])
        .succeeds()
        .prints("FASTER");
    let resumed = home.iodyno(&["show", "2", "--json"]).succeeds().json();
    assert_eq!(measured(&resumed), measured(&whole));
    home.iodyno(&["run", "--resume", "last"]).exits(2);
    home.iodyno(&["run", "--resume", "last", "--rounds", "41"])
        .succeeds();
    assert_eq!(trials_completed(&home, 1), 82);
}

#[test]
fn a_run_that_is_extended_after_its_verdict_uses_part_of_alpha() {
    let home = two_laws();
    let compared = || {
        let json = home.iodyno(&["compare", "1", "--json"]).succeeds().json();
        let question = &json["question"];
        let level = &json["rows"][0]["cells"][0]["ratio"]["level"];
        [
            &question["earlier_looks"],
            &question["alpha_at_look"],
            level,
        ]
        .map(rounded)
    };
    run_two(&home, &["--rounds", "3"]).succeeds();
    assert_eq!(compared(), [0.0, 0.04, 0.96]);
    let resume = |rounds: &str| {
        home.iodyno(&["run", "--resume", "1", "--rounds", rounds, "-q"])
            .succeeds()
    };
    // Three rounds could not decide, so no part of α is used.
    resume("8").prints("FASTER");
    assert_eq!(compared(), [0.0, 0.04, 0.96]);
    resume("10")
        .prints("extended once after the verdict could be seen: this verdict uses α = 0.008");
    assert_eq!(compared(), [1.0, 0.008, 0.992]);
    resume("12");
    assert_eq!(compared(), [2.0, 0.0016, 0.9984]);
    home.iodyno(&["show", "1"])
        .succeeds()
        .prints("24 of 24 trials completed; extended 3 times, after 3, 8 and 10 rounds");
    let json = home.iodyno(&["show", "1", "--json"]).succeeds().json();
    let looks = &json["run"]["extended_after_rounds"];
    assert_eq!(looks, &Value::from(vec![3, 8, 10]));
}

#[test]
fn a_configuration_that_fails_does_not_affect_the_others() {
    let home = Home::new();
    for folder in ["a", "b", "full"] {
        std::fs::create_dir(home.work().join(folder)).unwrap();
    }
    // A folder at the path of the job's file: the trial fails, the others do not.
    std::fs::create_dir(home.work().join("full/t.0.0")).unwrap();
    home.file("job.fio", "[t]\nrw=read\nbs=64k\nsize=1m\n");
    home.iodyno(&[
        "run",
        "job.fio",
        "--on",
        "a",
        "--on",
        "full",
        "--on",
        "b",
        "--rounds",
        "2",
        "--no-settle",
    ])
    .exits(4);
    let list = home.iodyno(&["list", "--json"]).succeeds().json();
    assert_eq!(list["runs"][0]["trials_completed"], 4, "{list}");
}

#[test]
fn a_failed_trial_of_several_is_reported_with_its_reason() {
    let home = Home::new();
    let job = "[t]\nioengine=sim\nrw=randread\nbs=4k\nsize=1m\nruntime=4\ntime_based\n";
    home.file("works.fio", job);
    home.file("stalls.fio", &format!("{job}sim_faults=stall:1s:3600s\n"));
    std::fs::create_dir(home.work().join("d")).unwrap();
    let run = [
        "run",
        "works.fio",
        "stalls.fio",
        "--on",
        "d",
        "--rounds",
        "1",
    ];
    let told = home.iodyno(&run).exits(4).stderr;
    let words: Vec<&str> = told.split_whitespace().collect();
    let told = words.join(" ");
    assert!(
        told.contains("of 2: stalls on d: the storage is stuck: no op completed"),
        "{told}"
    );
}

#[test]
fn invalid_questions_are_reported_with_the_valid_names() {
    let home = two_laws();
    run_two(&home, &["--rounds", "1"]).succeeds();
    for (arguments, told) in [
        (&["--metric", "iopss"][..], "iops"),
        (&["--cols", "colour"], "workload"),
        (&["--where", "workload=slwo"], "slow"),
        (&["--where", "nothing"], "DIMENSION=VALUE"),
        (&["--baseline", "quick"], "fast"),
        (&["--axis", "wind"], "axis"),
    ] {
        let mut command = vec!["compare", "last"];
        command.extend(arguments);
        home.iodyno(&command).exits(2).stderr_has(told);
    }
    home.iodyno(&[
        "run",
        "slow.fio",
        "--fail-on",
        "regression",
        "--stop-width",
        "3%",
        "--metric",
        "write.p99",
    ])
    .exits(2)
    .stderr_has("`--fail-on` requires something to compare")
    .stderr_has("`--stop-width` requires something to compare")
    .stderr_has("no job issues `write`");
    run_two(&home, &["--metric", "p99", "--baseline", "quick"])
        .exits(2)
        .stderr_has("unknown metric in `--metric p99`")
        .stderr_has("`--baseline quick` is not a workload");
    home.iodyno(&["compare", "last", "nowhere", "nobody"])
        .exits(2)
        .stderr_has("nowhere")
        .stderr_has("nobody");
}

/// Each of these options makes two runs differ, and is named as in the job file.
#[test]
fn every_option_of_the_workload_is_compared_between_runs() {
    let home = Home::new();
    let base = "[t]\nioengine=sim\nsim_latency=constant:100us\nrw=randrw\nbs=4k\niodepth=8\nsize=16m\n\
                runtime=20ms\ntime_based\n";
    home.file("job.fio", base);
    home.iodyno(&["run", "job.fio", "--seed", "7"]).succeeds();
    let options = [
        "rwmixread=70",
        "random_distribution=zipf:1.2",
        "percentage_random=50",
        "norandommap=1",
        "randrepeat=0",
        "randseed=5",
        "blockalign=8k",
        "thinktime=1ms",
        "nrfiles=4",
        "file_service_type=sequential",
        "offset=4k",
        "cpus_allowed=0",
        "nice=1",
        "prioclass=2",
        "iodepth_low=4",
        "iodepth_batch=4",
        "iodepth_batch_complete_min=2",
        "iodepth_batch_complete_max=4",
        "iomem_align=512",
        "refill_buffers=1",
        "continue_on_error=io",
        "startdelay=1ms",
        "invalidate=0",
        "loops=2",
        "sim_latency=constant:101us",
        "sim_servers=4",
    ];
    let mut wrong = Vec::new();
    for (run, option) in (2..).zip(options) {
        home.file("job.fio", &format!("{base}{option}\n"));
        home.iodyno(&["run", "job.fio", "--seed", "7"]).succeeds();
        let json = home
            .iodyno(&["compare", "1", &run.to_string(), "--json"])
            .succeeds()
            .json();
        let differs = json["differs"].as_array().unwrap();
        let names: Vec<&str> = differs
            .iter()
            .filter_map(|it| it["name"].as_str())
            .collect();
        let (name, _) = option.split_once('=').unwrap();
        if names != [name] || differs[0]["axis"] != false {
            wrong.push(format!("{option}: {differs:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn runs_that_differ_in_one_option_are_compared_only_if_requested() {
    let home = two_laws();
    for job in ["slow.fio", "fast.fio"] {
        home.iodyno(&["run", job, "--rounds", "10", "--seed", "7"])
            .succeeds();
    }
    let verdict = |axis: &[&str]| {
        let mut command = vec!["compare", "1", "2", "--json"];
        command.extend(axis);
        let json = home.iodyno(&command).succeeds().json();
        json["rows"][0]["cells"][0].clone()
    };
    let refused = verdict(&[]);
    assert_eq!(refused["verdict"], "not_comparable", "{refused}");
    let words = refused["words"].as_str().unwrap();
    assert!(words.contains("differing sim_latency"), "{words}");
    assert!(
        words.contains("iodyno compare 1 2 --axis sim_latency"),
        "{words}"
    );
    let asked = verdict(&["--axis", "sim_latency"]);
    assert_ne!(asked["verdict"], "not_comparable", "{asked}");
}

#[test]
fn counts_agree_with_their_nouns() {
    let home = Home::new();
    home.file("t.fio", &job("300us"));
    home.iodyno(&["run", "t.fio", "--seed", "7"])
        .succeeds()
        .prints(" One trial: no comparison. Seed 7.  Next: iodyno show 1\n");
    home.iodyno(&["show", "1"])
        .succeeds()
        .prints("run 1 `t` is completed: 1 of 1 trial completed. ");
    home.iodyno(&["run", "t.fio", "--seed", "7", "--rounds", "2"])
        .succeeds()
        .prints("t, run 2   2 trials, nothing to compare with\n")
        .prints(" 2 trials. Seed 7.  Next: iodyno compare 2\n");
    home.iodyno(&["show", "2"])
        .succeeds()
        .prints("run 2 `t` is completed: 2 of 2 trials completed. ");
}

#[test]
fn jobs_of_a_single_cell_are_apart() {
    let home = Home::new();
    let common = "ioengine=sim\nsim_latency=constant:100us\nsize=64m\nnumber_ios=100\n";
    let jobs = format!("[reader]\n{common}rw=randread\n[writer]\n{common}rw=randwrite\nbs=64k\n");
    home.file("t.fio", &jobs);
    home.iodyno(&["run", "t.fio", "--rounds", "2"]).succeeds();
    let printed = |flags: &[&str]| {
        let words: Vec<&str> = ["compare", "1", "--metric", "bandwidth"]
            .iter()
            .chain(flags)
            .copied()
            .collect();
        let done = home.iodyno(&words).succeeds();
        done.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let rows = printed(&["--rows", "job"]);
    assert!(rows.contains("2 trials a row"), "{rows}");
    assert!(
        rows.contains("reader bandwidth 39.1 MiB/s 39.1 MiB/s"),
        "{rows}"
    );
    assert!(
        rows.contains("writer bandwidth 625.0 MiB/s 625.0 MiB/s"),
        "{rows}"
    );
    let one = printed(&["--where", "job=reader"]);
    assert!(
        one.contains("bandwidth 39.1 MiB/s 39.1 MiB/s") && !one.contains("625"),
        "{one}"
    );
    let columns = printed(&["--cols", "job"]);
    assert!(columns.contains("reader writer"), "{columns}");
}

#[test]
fn an_error_that_each_trial_repeats_is_printed_once() {
    let home = Home::new();
    home.file(
        "t.fio",
        "[t]\nioengine=psync\nrw=read\nbs=4k\nsize=16k\nfilename=f\n",
    );
    std::fs::create_dir_all(home.work().join("d/f")).unwrap();
    let done = home
        .iodyno(&[
            "run",
            "t.fio",
            "--on",
            "a=d",
            "--rounds",
            "3",
            "--no-settle",
        ])
        .exits(4);
    let count = |text: &str| done.stderr.matches(text).count();
    assert_eq!(count("is a folder"), 1, "{}", done.stderr);
    assert_eq!(count("hint: name a file in it"), 1, "{}", done.stderr);
    for again in ["trial 2: the same error\n", "trial 3: the same error\n"] {
        assert_eq!(count(again), 1, "{}", done.stderr);
    }
}

#[test]
fn two_configurations_on_one_target_are_reported() {
    let home = two_laws();
    std::fs::create_dir(home.work().join("d")).unwrap();
    std::os::unix::fs::symlink("d", home.work().join("link")).unwrap();
    let run = |second: &str| {
        let arguments = [
            "run",
            "slow.fio",
            "--on",
            "a=d",
            "--on",
            second,
            "--dry-run",
        ];
        home.iodyno(&arguments).succeeds()
    };
    for second in ["b=d", "b=link", "b=d/../d"] {
        run(second)
            .stderr_has("warning: `a` and `b` are the same target")
            .stderr_has("hint: to measure the noise floor, use one of them with `--aa`");
    }
    let other = run("b=.");
    assert!(!other.stderr.contains("same target"), "{}", other.stderr);
    // The second baseline of an A/A test is meant to be the same.
    let again = home
        .iodyno(&["run", "slow.fio", "--on", "a=d", "--aa", "--dry-run"])
        .succeeds();
    assert!(!again.stderr.contains("same target"), "{}", again.stderr);
}

#[test]
fn a_resumed_run_keeps_its_settings_and_can_be_planned() {
    let home = two_laws();
    run_two(&home, &["--rounds", "2"]).succeeds();
    let listed = || home.iodyno(&["list", "--json"]).succeeds().json()["runs"].clone();
    let before = listed();
    for flag in [&["--seed", "3"][..], &["--aa"], &["--name", "x"]] {
        home.iodyno(&[&["run", "--resume", "last"], flag].concat())
            .exits(2)
            .stderr_has(&format!("cannot be used with '{}", flag[0]))
            .stderr_has(
                "A resumed run keeps its settings: leave the flag out, or start a new run.",
            );
    }
    home.iodyno(&["run", "--resume", "last", "--rounds", "5", "--dry-run"])
        .succeeds()
        .prints("seed 7");
    assert_eq!(listed(), before);
}

#[test]
fn the_last_line_of_a_run_breaks_between_words() {
    let home = Home::new();
    home.file("t.fio", &job("300us"));
    for columns in [44, 60, 200] {
        let (slave, master) = terminal(columns);
        let mut command = home.command(&["run", "t.fio", "--seed", "7"]);
        command.env("TERM", "xterm").stdout(Stdio::from(slave));
        let running = Running::of(command);
        let seen = Stream::of(Some(master));
        running.done().succeeds();
        let seen = seen.whole().replace("\r\n", "\n");
        let last = &seen[seen.rfind("stored in").unwrap()..];
        let words: Vec<&str> = last.split_whitespace().collect();
        let store = home.store().display().to_string();
        let store = match store.contains(' ') {
            true => format!("`{store}`."),
            false => format!("{store}."),
        };
        let expected =
            format!("stored in {store} One trial: no comparison. Seed 7. Next: iodyno show");
        let words = words[..words.len() - 1].join(" ");
        assert_eq!(words, expected, "{columns}");
        // The next command is never divided.
        assert!(
            last.lines().any(|line| line.contains("Next: iodyno show ")),
            "{last}"
        );
        let too_wide = last
            .lines()
            .find(|line| line.chars().count() > usize::from(columns) && !line.contains(&store));
        assert_eq!(too_wide, None, "{columns}");
    }
}

#[test]
fn the_command_at_an_equal_rate_can_be_run_as_it_is() {
    let home = two_laws();
    let closed = run_two(&home, &["--metric", "read.p99", "--set", "runtime=2s"])
        .succeeds()
        .prints("closed loops at different throughput");
    // The line is broken to the width of the output.
    let text = closed
        .stdout
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let (_, command) = text
        .split_once("to compare tails at an equal rate: iodyno ")
        .unwrap();
    let (command, _) = command.split_once(" --set rate_iops=").unwrap();
    assert_eq!(
        command,
        "run slow.fio fast.fio --seed 7 --metric read.p99 --set runtime=2s"
    );
    let json = home
        .iodyno(&["compare", "last", "--json"])
        .succeeds()
        .json();
    let notes: Vec<String> = serde_json::from_value(json["notes"].clone()).unwrap();
    let command = notes
        .iter()
        .find_map(|note| note.strip_prefix("to compare tails at an equal rate: iodyno "))
        .unwrap();
    let words: Vec<&str> = command.split(' ').collect();
    let open = home.iodyno(&words).succeeds();
    assert!(!open.stdout.contains("closed loops"), "{}", open.stdout);
    assert!(!open.stdout.contains("at an equal rate"), "{}", open.stdout);
}

#[test]
fn a_suite_on_one_target_has_medians_and_is_compared_with_another_run() {
    let home = Home::new();
    let job = |rw: &str, latency: &str| {
        format!(
            "[t]\nioengine=sim\nsim_latency=lognormal:{latency}:0.1\nrw={rw}\nbs=4k\nsize=16m\nruntime=100ms\ntime_based\n"
        )
    };
    home.file("reads.fio", &job("randread", "200us"));
    home.file("writes.fio", &job("randwrite", "100us"));
    let run = ["run", "reads.fio", "writes.fio", "--rounds", "6"];
    let own = "the rows are not compared with each other; two runs of them can be: `iodyno compare RUN OTHER`";
    let printed = home.iodyno(&run).succeeds();
    let printed = printed.prints("6 trials a row, nothing to compare with");
    assert!(
        printed.stdout.contains("Next: iodyno show 1"),
        "{}",
        printed.stdout
    );
    assert!(!printed.stdout.contains(own), "{}", printed.stdout);
    home.iodyno(&["compare", "1", "-v"]).succeeds().prints(own);
    home.iodyno(&["report", "1", "--format", "markdown"])
        .succeeds()
        .prints(own);
    home.iodyno(&["explain", "1"])
        .exits(2)
        .stderr_has("has one configuration, `default`")
        .stderr_has("--against OTHER");
    home.iodyno(&run).succeeds();
    home.iodyno(&["compare", "1", "2"])
        .succeeds()
        .prints("writes");
    // On request, they are compared with each other.
    home.iodyno(&[&run[..], &["--baseline", "reads"]].concat())
        .succeeds()
        .prints("writes/reads speed");
}
