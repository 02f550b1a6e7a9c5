//! Experiments in TOML: the matrix, parameters, the order of trials, resuming, and errors; in virtual time.

use crate::harness::{Done, Home};

/// Two workloads on one folder, the second 1.5 times as fast.
const EXPERIMENT: &str = r#"
name = "laws"
baseline = "slow-4k"
seed = 7
params.runtime = "150ms"
preset.full.runtime = "300ms"

[configuration.here]
target = "."

[workload."${law}-${bs}"]
fio = { ioengine = "sim", rw = "randread", size = "16m", runtime = "${runtime}", time_based = 1 }
axis.law = { slow = { sim_latency = "lognormal:300us:0.3" }, fast = { sim_latency = "lognormal:200us:0.3" } }
axis.bs = ["4k"]
"#;

fn home() -> Home {
    let home = Home::new();
    home.file("laws.toml", EXPERIMENT);
    home
}

fn run(home: &Home, further: &[&str]) -> Done {
    let mut arguments = vec!["run", "laws.toml"];
    arguments.extend(further);
    home.iodyno(&arguments)
}

#[test]
fn a_matrix_of_simulated_devices_runs_to_its_verdict() {
    let home = home();
    run(&home, &[])
        .succeeds()
        .prints("1.51× [1.49, 1.52]            0.002  FASTER")
        .prints("laws, run 1");
    let list = home.iodyno(&["list", "--json"]).succeeds().json();
    assert_eq!(list["runs"][0]["trials_completed"], 20);
}

#[test]
fn a_run_is_resumed_from_the_store_without_the_file() {
    let home = home();
    run(&home, &["--rounds", "2"]).succeeds();
    std::fs::remove_file(home.work().join("laws.toml")).unwrap();
    home.iodyno(&["run", "--resume", "last", "--rounds", "10"])
        .succeeds()
        .prints("FASTER");
    let list = home.iodyno(&["list", "--json"]).succeeds().json();
    assert_eq!(list["runs"][0]["trials_completed"], 20);
}

#[test]
fn the_dry_run_prints_every_trial_in_its_order_and_runs_none() {
    let home = home();
    let many = EXPERIMENT.replace("[\"4k\"]", "[\"4k\", \"8k\", \"16k\", \"32k\", \"64k\"]");
    home.file("laws.toml", &many);
    let text = run(&home, &["--dry-run", "--rounds", "1"])
        .succeeds()
        .stdout;
    assert!(!home.store().exists());
    let trials = text.split("  round 1  ").nth(1).unwrap();
    let printed: Vec<&str> = trials
        .split_whitespace()
        .filter(|word| word.contains('-'))
        .collect();
    assert_eq!(printed.len(), 10, "{text}");
    // With one round, the table of each trial is printed when it ends.
    let tables = run(&home, &["--rounds", "1", "--quiet"]).succeeds().stdout;
    let ran: Vec<&str> = tables
        .lines()
        .filter_map(|line| line.split_once("  on here ").map(|(name, _)| name.trim()))
        .collect();
    assert_eq!(printed, ran, "{tables}");
    assert!(
        text.contains("1 round of 10 cells, 10 trials") || text.contains("10 trials"),
        "{text}"
    );
    assert!(
        text.contains("a round takes at least 1.50 s, and 1 round 1.50 s"),
        "{text}"
    );
    assert!(text.contains("at least"), "{text}");
}

#[test]
fn parameters_and_presets_change_the_plan() {
    let home = home();
    for (settings, expected) in [
        (&["--set", "runtime=1s"][..], "runtime=1s"),
        (&["--set", "scale=full"], "runtime=300ms"),
        (
            &["--set", "scale=full", "--set", "runtime=2s"],
            "runtime=2s",
        ),
    ] {
        let mut arguments = settings.to_vec();
        arguments.push("--dry-run");
        run(&home, &arguments).succeeds().prints(expected);
    }
    run(&home, &["--set", "runtim=1s"])
        .exits(2)
        .tells("there is no parameter `runtim`")
        .tells("did you mean `runtime`?");
    run(&home, &["--set", "runtime"]).exits(2);
    run(&home, &["--set", "runtime=1s", "--set", "runtime=2s"]).exits(2);
}

#[test]
fn flags_take_precedence_over_the_file() {
    let home = home();
    run(
        &home,
        &[
            "--dry-run",
            "--name",
            "other",
            "--seed",
            "5",
            "--rounds",
            "4",
            "--baseline",
            "fast-4k",
        ],
    )
    .succeeds()
    .prints("other: 4 rounds of 2 cells, 8 trials, seed 5")
    .prints("slow-4k with fast-4k");
}

#[test]
fn an_experiment_is_run_alone_and_has_its_own_configurations() {
    let home = home();
    home.file("job.fio", "[j]\nrw=read\nsize=1m\n");
    run(&home, &["job.fio"])
        .exits(2)
        .tells("is not the only file");
    run(&home, &["--on", "x=."])
        .exits(2)
        .tells("the experiment has its own configurations");
    let without = EXPERIMENT.replace("[configuration.here]\ntarget = \".\"\n", "");
    home.file("laws.toml", &without);
    run(&home, &["--on", "x=.", "--dry-run"])
        .succeeds()
        .prints("x: ");
}

#[test]
fn all_errors_are_printed_with_line_and_column() {
    let home = Home::new();
    home.file(
        "bad.toml",
        "rounds = 'x'\ndestroy = ['/dev/x']\n[configuration.c]\ntarget = 'ext4'\n[workload.w]\nfio = { rw = 'reed', bs = '4x' }\n",
    );
    home.iodyno(&["run", "bad.toml"])
        .exits(2)
        .tells("bad.toml:1:10")
        .tells("bad.toml:2:1")
        .tells("give `--destroy PATH` on the command line")
        .tells("bad.toml:4:10")
        .tells("bad.toml:6:14")
        .tells("bad.toml:6:27");
}

#[test]
fn checks_the_file_without_running_it() {
    let home = home();
    home.iodyno(&["check", "laws.toml"])
        .succeeds()
        .tells("2 jobs in 1 file: no problems found");
    home.file("bad.toml", "rounds = 'x'\n[configuration.c]\n");
    home.iodyno(&["check", "bad.toml"])
        .exits(2)
        .prints("bad.toml:1:10");
    assert!(!home.store().exists());
}

#[test]
fn prints_the_schema() {
    let home = Home::new();
    let schema = home.iodyno(&["schema"]).succeeds().json();
    assert_eq!(
        schema["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
    assert_eq!(schema["properties"]["workload"]["type"], "object");
}

#[test]
fn sysbench_finds_files_that_were_laid_out_for_it() {
    let home = Home::new();
    home.file(
        "x.toml",
        "rounds = 1\n[configuration.here]\ntarget = '.'\n[workload.w]\n\
         fileio = { file-test-mode = 'rndrd', file-total-size = '1M', file-num = 2, events = 10, time = 0 }\n",
    );
    home.iodyno(&["run", "x.toml"]).succeeds();
    for name in ["test_file.0", "test_file.1"] {
        let file = home.work().join(name).metadata().unwrap();
        assert_eq!(file.len(), 512 << 10, "{name}");
    }
}
