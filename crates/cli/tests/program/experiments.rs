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
fn an_axis_is_compared_within_the_others_and_a_table_closes_the_run() {
    let home = Home::new();
    let text = EXPERIMENT
        .replace("baseline = \"slow-4k\"", "compare = \"law\"")
        .replace("[\"4k\"]", "[\"4k\", \"8k\"]");
    let other = "[workload.beside]\nfio = { ioengine = \"sim\", sim_latency = \"constant:50us\", rw = \"read\", size = \"1m\" }\n";
    let table = "[table]\ntitle = \"IO/s\"\nrows = [\"bs\"]\ncolumns = [\"law\"]\nmetric = [\"iops\"]\ndigits = 0\n";
    home.file("laws.toml", &format!("{text}{other}{table}"));
    run(&home, &["--dry-run"])
        .succeeds()
        .prints("law fast with slow");
    let done = run(&home, &[]).succeeds();
    let done = done.prints("fast: 2 faster");
    let closing = "IO/s\n    slow    fast\n    IOPS    IOPS\n";
    assert!(done.stdout.contains(closing), "{}", done.stdout);
    home.iodyno(&["compare", "last", "--layout"])
        .succeeds()
        .prints(closing);
    // With one side, the rows are compared.
    let one = text.replace("columns = [\"law\"]", "columns = [\"configuration\"]");
    let one = format!("{one}{other}{table}")
        .replace("columns = [\"law\"]", "columns = [\"configuration\"]");
    home.file(
        "one.toml",
        &one.replace("rows = [\"bs\"]", "rows = [\"workload\"]"),
    );
    home.iodyno(&["run", "one.toml"])
        .succeeds()
        .prints("slow-4k    slow-8k    fast-4k");
    run(&home, &["--aa"])
        .exits(2)
        .tells("the baseline of the axis `law` cannot be run twice");
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

/// A queue with one server whose mean service time is 100 µs: p99 of the response is 2 ms at 7697 ops per second.
const SEARCH: &str = r#"
name = "search"
seed = 3
[configuration.here]
target = "."
[workload.load]
fio = { ioengine = "sim", rw = "randread", bs = "4k", size = "16m", sim_latency = "exponential:100us", sim_servers = 1, time_based = 1, iodepth = 256 }
duration = "1s"
search = { axis = "rate_iops", until = "p99 < 2ms" }
"#;

#[test]
fn a_search_finds_the_highest_load_in_every_format() {
    let home = Home::new();
    home.file("search.toml", SEARCH);
    let run = home
        .iodyno(&["run", "search.toml", "--json"])
        .succeeds()
        .json();
    let answer = &run["searches"][0];
    let highest = answer["highest"]["value"].as_f64().unwrap();
    assert!((6500.0..9000.0).contains(&highest), "{answer:#}");
    assert_eq!(answer["complete"], true);
    assert!(answer["knee"]["value"].as_f64().is_some(), "{answer:#}");
    let shown = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    assert_eq!(shown["searches"], run["searches"]);
    home.iodyno(&["show", "last"])
        .succeeds()
        .prints("rate_iops ");
    let compared = home
        .iodyno(&["compare", "last", "--json"])
        .succeeds()
        .json();
    assert_eq!(compared["searches"], run["searches"]);
    for (format, expected) in [
        ("text", "highest load"),
        (
            "markdown",
            "| workload | configuration | bound | highest load |",
        ),
        ("asciidoc", "|workload\n|configuration"),
        (
            "csv",
            "workload,configuration,axis,metric,below,limit,highest,",
        ),
    ] {
        home.iodyno(&["compare", "last", "--format", format])
            .succeeds()
            .prints(expected);
    }
}

#[test]
fn a_run_is_compared_in_the_layout_of_its_file_or_of_a_published_table() {
    let home = Home::new();
    let table = "[table]\ntitle = \"two laws\"\nrows = [\"bs\"]\ncolumns = [\"law\"]\nmetric = [\"iops\", \"p99\"]\ndigits = 1\n";
    let section = "[configuration.here]";
    let both = EXPERIMENT
        .replace("[\"4k\"]", "[\"4k\", \"8k\"]")
        .replace(
            "200us:0.3\"",
            "200us:0.3\", numjobs = 2, group_reporting = 1",
        )
        .replace(section, &format!("{table}{section}"));
    home.file("laws.toml", &both);
    run(&home, &[]).succeeds().prints("two laws");
    for arguments in [&["--layout", "last"][..], &["last", "--layout"]] {
        let mut all = vec!["compare"];
        all.extend(arguments);
        home.iodyno(&all).succeeds().prints("two laws");
    }
    // All dimensions of these exist.
    home.iodyno(&["compare", "last", "--layout", "seed-000"])
        .succeeds();
    home.iodyno(&["compare", "last", "--layout", "seed-001"])
        .exits(2)
        .tells("no trial has a dimension `layout`, asked for as rows");
    home.iodyno(&["compare", "last", "--layout", "seed-009"])
        .exits(2)
        .tells("the layouts are seed-000, seed-001");
    home.iodyno(&["compare", "--layout"])
        .exits(2)
        .tells("no run is named");
}

#[test]
fn a_probe_names_all_faults_before_the_first_round() {
    let home = Home::new();
    let with = |lines: &str| {
        format!(
            "probe = true\nrounds = 1\n[configuration.here]\ntarget = '.'\n[workload.good]\n\
             fio = {{ ioengine = 'sim', rw = 'read', size = '1m', runtime = 100, time_based = 1 }}\n{lines}"
        )
    };
    home.file("x.toml", &with(""));
    home.iodyno(&["run", "x.toml"])
        .succeeds()
        .tells("probe: 1 trial in ")
        .tells("the first round will take about 100 s, and all trials 100 s");
    home.file(
        "bad.toml",
        &with(
            "[workload.bad]\nfio = { rw = 'read', size = '1m', filename = 'absent', allow_file_create = 0 }\n\
             [workload.worse]\nfio = { rw = 'write', size = '1m', filename = 'absent', allow_file_create = 0 }\n",
        ),
    );
    home.iodyno(&["run", "bad.toml"])
        .exits(1)
        .tells("`bad` on `here`")
        .tells("`worse` on `here`");
    let list = home.iodyno(&["list", "--json"]).succeeds().json();
    assert_eq!(list["runs"].as_array().unwrap().len(), 1, "{list:#}");
}

#[test]
fn the_dry_run_is_a_document_too() {
    let home = home();
    let plan = run(&home, &["--dry-run", "--json", "--rounds", "2"])
        .succeeds()
        .json();
    let schedule = &plan["schedule"];
    assert_eq!(schedule["trials"].as_array().unwrap().len(), 4);
    assert_eq!(schedule["trials"][3]["number"], 4);
    assert_eq!(schedule["round_ns"], 300_000_000u64);
    assert_eq!(schedule["can_decide"], false);
    assert_eq!(plan["workloads"][0]["dimensions"]["law"], "slow");
}

#[test]
fn a_new_image_is_preconditioned() {
    let home = Home::new();
    home.file(
        "x.toml",
        "rounds = 1\nsettle = false\n[configuration.image]\ntarget = 'file on .'\nfile.size = '4MiB'\n\
         precondition = '2s'\n[workload.w]\nfio = { rw = 'randread', bs = '4k', size = '1m' }\n",
    );
    home.iodyno(&["run", "x.toml", "--dry-run"])
        .succeeds()
        .prints("preconditioning takes at most 2.00 s more");
    let run = home.iodyno(&["run", "x.toml", "--json"]).succeeds().json();
    let facts = &run["trials"][0]["nodes"][0]["environment"]["made"]["facts"];
    assert_eq!(facts["precondition.written"], "8 MiB", "{run:#}");
    assert!(facts["precondition.steady"].is_string(), "{facts:#}");
}

#[test]
fn files_that_do_not_fit_in_made_storage_are_reported_before_a_run() {
    let home = Home::new();
    let text = "[configuration.small]\ntarget = \"file on .\"\nfile.size = \"8MiB\"\n\
        [configuration.large]\ntarget = \"file on .\"\nfile.size = \"64MiB\"\n\
        [workload.w]\nfio = { rw = \"read\", size = \"8m\", numjobs = 2 }\n\
        [workload.v]\nfio = { rw = \"read\", size = \"8m\" }\n";
    home.file("x.toml", text);
    let expected =
        "the files of `w` do not fit on `small`: they need 16 MiB, and it has at most 8 MiB";
    let checked = home
        .iodyno(&["check", "x.toml"])
        .succeeds()
        .prints(expected);
    assert_eq!(checked.stdout.matches("do not fit").count(), 1);
    home.iodyno(&["run", "x.toml", "--dry-run"])
        .succeeds()
        .tells(expected);
}

#[test]
fn the_time_limit_is_told_in_rounds_also_if_fewer_are_planned() {
    let home = home();
    run(&home, &["--dry-run", "--rounds", "2", "--max-time", "9s"])
        .succeeds()
        .prints("9.00 s allows at most 30 rounds");
}
