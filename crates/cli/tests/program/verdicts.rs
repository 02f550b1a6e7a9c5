//! Rounds, verdicts and what can be asked of them.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{Home, wait_for};

/// A job whose ops take a known time.
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

fn run_two(home: &Home, further: &[&str]) -> crate::harness::Done {
    let mut arguments = vec!["run", "slow.fio", "fast.fio", "--seed", "7", "--no-settle"];
    arguments.extend(further);
    home.iodyno(&arguments)
}

#[test]
fn a_known_difference_is_found_measured_and_told_in_every_form() {
    let home = two_laws();
    let done = run_two(&home, &[]).succeeds().prints("FASTER");
    assert!(!done.stdout.contains("p99.9"), "{}", done.stdout);
    let json = home
        .iodyno(&["compare", "last", "--json"])
        .succeeds()
        .json();
    let cell = &json["rows"][0]["cells"][0];
    let ratio = cell["ratio"]["value"].as_f64().unwrap();
    assert!((1.35..1.65).contains(&ratio), "{ratio}");
    assert_eq!(cell["n"], 10, "{cell}");
    assert!(cell["adjusted_p"].as_f64().unwrap() < 0.05);

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
    let list = home.iodyno(&["list", "--json"]).succeeds().json();
    assert_eq!(list["runs"][0]["trials_completed"], 20);
}

#[test]
fn a_regression_and_indecision_have_exit_codes_of_their_own() {
    let home = two_laws();
    run_two(&home, &[]).succeeds();
    let fail = |further: &[&str]| {
        let mut arguments = vec!["compare", "last", "--fail-on", "regression"];
        arguments.extend(further);
        home.iodyno(&arguments)
    };
    fail(&[]).exits(0);
    fail(&["--baseline", "fast"]).exits(1).prints("SLOWER");
    run_two(&home, &["--rounds", "3", "--fail-on", "regression"])
        .exits(5)
        .prints("CANNOT DECIDE");
    fail(&[]).exits(5).prints("CANNOT DECIDE");
}

#[test]
fn the_baseline_made_twice_gives_the_noise_floor() {
    let home = two_laws();
    run_two(&home, &["--aa"]).succeeds().prints("A/A");
    let json = home
        .iodyno(&["compare", "last", "--json"])
        .succeeds()
        .json();
    assert_eq!(json["candidates"].as_array().unwrap().len(), 1, "{json}");
    let floor = json["noise_floor"].as_f64().unwrap();
    assert!((0.0..0.3).contains(&floor), "{floor}");
    let list = home.iodyno(&["list", "--json"]).succeeds().json();
    assert_eq!(list["runs"][0]["trials_completed"], 30);
    // Alone, it is no comparison and has no verdict.
    home.iodyno(&["run", "slow.fio", "--aa", "--rounds", "6", "--no-settle"])
        .succeeds()
        .prints("is noise here");
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
fn a_dry_run_tells_the_rounds_and_whether_they_can_decide() {
    let home = two_laws();
    run_two(&home, &["--dry-run"])
        .succeeds()
        .prints("10 rounds");
    run_two(&home, &["--dry-run", "--rounds", "4"])
        .succeeds()
        .tells("4 rounds cannot decide");
    run_two(&home, &["--dry-run", "--max-time", "1s"])
        .succeeds()
        .tells("--max-time");
    let plan = run_two(&home, &["--dry-run", "--json"]).succeeds().json();
    assert_eq!(plan["rounds"], 10);
}

#[test]
fn rounds_stop_when_intervals_are_narrow_or_time_is_up() {
    let home = two_laws();
    run_two(&home, &["--stop-width", "60%"])
        .succeeds()
        .prints("narrow enough");
    let list = home.iodyno(&["list", "--json"]).succeeds().json();
    assert_eq!(list["runs"][0]["trials_completed"], 20, "{list}");
    run_two(&home, &["--max-time", "2s", "--rounds", "1000"]).succeeds();
    let list = home.iodyno(&["list", "--json"]).succeeds().json();
    let made = list["runs"][1]["trials_completed"].as_u64().unwrap();
    assert!((2..24).contains(&made), "{made}");
}

/// (round, cell) in the order in which the trials began.
fn order(run: &Value) -> Vec<(u64, u64)> {
    let mut trials: Vec<(u64, u64, u64)> = run["trials"]
        .as_array()
        .unwrap()
        .iter()
        .map(|trial| {
            let key = |name: &str| trial[name].as_u64().unwrap();
            (
                trial["started_unix_ms"].as_u64().unwrap(),
                key("round"),
                key("cell"),
            )
        })
        .collect();
    trials.sort_unstable();
    trials
        .iter()
        .map(|(_, round, cell)| (*round, *cell))
        .collect()
}

#[test]
fn a_killed_run_is_resumed_in_the_same_order() {
    let home = two_laws();
    run_two(&home, &[]).succeeds();
    let whole = order(&home.iodyno(&["show", "1", "--json"]).succeeds().json());
    let running = home.start(&["run", "slow.fio", "fast.fio", "--seed", "7", "--no-settle"]);
    wait_for("some trials", || {
        let list = home.iodyno(&["list", "--json"]).json();
        (list["runs"][1]["trials_completed"].as_u64()? >= 5).then_some(())
    });
    running.signal(Signal::KILL);
    running.done();
    std::thread::sleep(Duration::from_millis(200));
    home.iodyno(&["run", "--resume", "last"])
        .succeeds()
        .prints("FASTER");
    let json = home.iodyno(&["show", "2", "--json"]).succeeds().json();
    let completed: Vec<(u64, u64)> = {
        let mut json = json.clone();
        let trials = json["trials"].as_array_mut().unwrap();
        trials.retain(|trial| trial["outcome"]["state"] == "completed");
        order(&json)
    };
    assert_eq!(completed, whole);
    home.iodyno(&["run", "--resume", "last"]).exits(2);
    home.iodyno(&["run", "--resume", "last", "--rounds", "11"])
        .succeeds();
    let list = home.iodyno(&["list", "--json"]).succeeds().json();
    assert_eq!(list["runs"][1]["trials_completed"], 22);
}

#[test]
fn a_configuration_that_fails_does_not_take_the_others_with_it() {
    let home = Home::new();
    for folder in ["a", "b", "full"] {
        std::fs::create_dir(home.work().join(folder)).unwrap();
    }
    // A folder where the job's file should be: the trial fails, the others do not.
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
fn what_cannot_be_asked_is_told_with_what_can() {
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
        home.iodyno(&command).exits(2).tells(told);
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
    .tells("`--fail-on` needs something to compare")
    .tells("`--stop-width` needs something to compare")
    .tells("no job does a write");
    run_two(&home, &["--metric", "p99", "--baseline", "quick"])
        .exits(2)
        .tells("`--metric p99` is no metric")
        .tells("`--baseline quick` is no workload");
    home.iodyno(&["compare", "last", "nowhere", "nobody"])
        .exits(2)
        .tells("nowhere")
        .tells("nobody");
}
