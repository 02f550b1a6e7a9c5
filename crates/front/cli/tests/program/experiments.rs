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
    let done = done.prints("law fast against slow: faster in both.");
    let closing = "IO/s\n    slow    fast\n    IOPS    IOPS\n";
    assert!(done.stdout.contains(closing), "{}", done.stdout);
    home.iodyno(&["compare", "last", "--layout"])
        .succeeds()
        .prints(closing);
    // With one side, the table has values alone.
    let one = text.replace("columns = [\"law\"]", "columns = [\"configuration\"]");
    let one = format!("{one}{other}{table}")
        .replace("columns = [\"law\"]", "columns = [\"configuration\"]");
    home.file(
        "one.toml",
        &one.replace("rows = [\"bs\"]", "rows = [\"workload\"]"),
    );
    home.iodyno(&["run", "one.toml"])
        .succeeds()
        .prints("\nslow-4k  3")
        .prints("\nfast-8k  4");
    run(&home, &["--aa"])
        .exits(2)
        .stderr_has("the baseline of the axis `law` cannot be run twice");
}

#[test]
fn workloads_that_only_set_the_option_of_the_compared_axis_are_not_compared() {
    let home = Home::new();
    let text = r#"
name = "depths"
compare = "iodepth"
rounds = 10

[configuration.here]
target = "."

[configuration.there]
target = "."

[workload.before]
only = ["there"]
fio = { ioengine = "sim", sim_latency = "constant:1ms", rw = "read", size = "1m", iodepth = 16 }

[workload."at-${iodepth}"]
only = ["here"]
fio = { ioengine = "sim", sim_latency = "lognormal:300us:0.3", rw = "randread", size = "16m", runtime = "200ms", time_based = 1 }
axis.iodepth = [1, 16]

[table]
rows = ["rw"]
columns = ["iodepth"]
metric = ["iops"]
"#;
    home.file("laws.toml", text);
    run(&home, &["--dry-run"])
        .succeeds()
        .prints("10 rounds can decide 1 primary comparison");
    let done = run(&home, &[])
        .succeeds()
        .prints("iodepth 16 is faster than 1: ");
    assert!(!done.stdout.contains("NO DATA"), "{}", done.stdout);
    // The table at the end has no row for it either.
    let closing = done
        .stdout
        .rsplit("iodepth 16 is faster than 1: ")
        .next()
        .unwrap();
    assert!(!closing.contains("\nread "), "{closing}");
    for (further, other) in [(&[][..], false), (&["--cols", "workload"], true)] {
        let mut arguments = vec!["compare", "last", "--format", "json"];
        arguments.extend(further);
        let done = home.iodyno(&arguments);
        assert_eq!(done.stdout.contains("before"), other, "{}", done.stdout);
    }
}

#[test]
fn an_experiment_of_which_a_part_cannot_run_compares_the_rest_and_exits_with_4() {
    let home = Home::new();
    let text = EXPERIMENT.replace(
        "[workload",
        "[configuration.absent]\ntarget = \"directory on .\"\nready = \"exit 0\"\nsetup = \"echo no server; exit 7\"\n\n[workload",
    );
    home.file(
        "laws.toml",
        &text.replace("baseline = \"slow-4k\"", "compare = \"law\""),
    );
    run(&home, &["--rounds", "10"])
        .exits(4)
        .prints("1.51× [1.49, 1.52]      0.002  FASTER")
        .stderr_has("exit 7");
    // The other configuration has all its rounds.
    let list = home.iodyno(&["list", "--json"]).succeeds().json();
    assert_eq!(list["runs"][0]["trials_completed"], 20, "{list:#}");
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
        .map(|word| word.trim_end_matches(','))
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
        .stderr_has("unknown parameter `runtim`")
        .stderr_has("did you mean `runtime`?");
    run(&home, &["--set", "runtime"]).exits(2);
    run(&home, &["--set", "runtime=1s", "--set", "runtime=2s"]).exits(2);
}

#[test]
fn files_that_sysbench_validates_are_laid_out_with_checksums() {
    let home = Home::new();
    // Blocks that do not divide the length of a file, nor 1 MiB.
    home.file(
        "x.toml",
        "rounds = 1\n[configuration.here]\ntarget = '.'\n[configuration.made]\ntarget = 'directory on .'\n\
         [workload.w]\nfileio = { file-test-mode = 'seqrd', file-total-size = '5M', file-num = 2, file-block-size = 3000, \
         validate = true, events = 2000, time = 0 }\n",
    );
    let run = home.iodyno(&["run", "x.toml", "--json"]).succeeds().json();
    let trials = run["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 2);
    for trial in trials {
        assert_eq!(trial["outcome"]["state"], "completed", "{trial:#}");
    }
    // Some bytes are changed, and found.
    use std::os::unix::fs::FileExt as _;
    let path = home.work().join("test_file.1");
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(b"changed", 2_000_000).unwrap();
    home.iodyno(&["run", "x.toml"])
        .exits(1)
        .stderr_has("test_file.1");
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
        .stderr_has("is not the only file");
    let made = EXPERIMENT.replace(
        "target = \".\"",
        "target = \"file on .\"\nfile.size = \"64MiB\"",
    );
    home.file("made.toml", &made);
    home.iodyno(&["run", "made.toml", "--on", "x=.", "--dry-run"])
        .exits(2)
        .stderr_has("the experiment has its own configurations");
    // A target that is only a folder is replaced by the user's `--on`.
    for folder in [".", "directory on ."] {
        let text = format!("target = \"{folder}\"");
        home.file("laws.toml", &EXPERIMENT.replace("target = \".\"", &text));
        run(&home, &["--on", "x=.", "--dry-run"])
            .succeeds()
            .prints("x: ");
    }
    let only = EXPERIMENT.replace("axis.bs", "only = \"here\"\naxis.bs");
    home.file("laws.toml", &only);
    run(&home, &["--on", "x=.", "--dry-run"])
        .exits(2)
        .stderr_has("`slow-4k` runs only on `here`, which `--on` replaces\n  at: laws.toml:");
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
        .stderr_has("bad.toml:1:10")
        .stderr_has("bad.toml:2:1")
        .stderr_has("give `--destroy PATH` on the command line")
        .stderr_has("bad.toml:4:10")
        .stderr_has("bad.toml:6:14")
        .stderr_has("bad.toml:6:27");
}

#[test]
fn checks_the_file_without_running_it() {
    let home = home();
    home.iodyno(&["check", "laws.toml"])
        .succeeds()
        .stderr_has("2 jobs in 1 file: no problems found");
    home.file("bad.toml", "rounds = 'x'\n[configuration.c]\n");
    home.iodyno(&["check", "bad.toml"])
        .exits(2)
        .prints("bad.toml:1:10");
    assert!(!home.store().exists());
}

#[test]
fn checks_a_file_whose_parameters_have_no_default() {
    let home = home();
    home.file(
        "x.toml",
        "params.folder = { about = 'where' }\n[configuration.here]\ntarget = '${folder}'\n[workload.w]\nfs = 'create_empty'\n",
    );
    home.iodyno(&["check", "x.toml"])
        .exits(2)
        .prints("give it: `--set folder=VALUE`");
    home.iodyno(&["check", "x.toml", "--set", "folder=."])
        .succeeds();
    home.iodyno(&["check", "x.toml", "--set", "folder"])
        .exits(2)
        .stderr_has("`--set folder` has no name and value");
    home.file("x.fio", "[a]\nrw=read\nsize=1m\n");
    home.iodyno(&["check", "x.fio", "--set", "folder=."])
        .exits(2)
        .prints("`--set` has no effect: no file is an experiment");
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
fn the_dry_run_of_a_search_has_a_line_for_it_and_keeps_the_rounds_of_the_others() {
    let home = Home::new();
    home.file("search.toml", SEARCH);
    let alone = home.iodyno(&["run", "search.toml", "--dry-run"]).succeeds();
    let alone = alone
        .prints("search: 1 search of at most 60 trials, seed 3")
        .prints("load on here: the highest rate_iops with p99 < 2.00 ms; at most 60 trials, 60.0 s")
        .prints("the searches take at most 60.0 s");
    assert!(!alone.stdout.contains("round 1"), "{}", alone.stdout);
    let work = "fio = { ioengine = \"sim\", rw = \"read\", bs = \"4k\", size = \"16m\", runtime = 2, time_based = 1 }";
    let beside = format!("{SEARCH}[workload.a]\n{work}\n[workload.b]\n{work}\n");
    home.file("both.toml", &beside.replace("seed = 3", "rounds = 3"));
    let both = home.iodyno(&["run", "both.toml", "--dry-run"]).succeeds();
    let both = both
        .prints("3 rounds of 2 cells, 6 trials, and 1 search of at most 60 trials")
        .prints("compares   b with a")
        .prints("all trials 12.0 s of virtual time; the")
        .prints("searches at most 60.0 s more")
        .prints("  round 3 ")
        .prints("  then     one trial of each search per round, until it has its answer")
        .stderr_has("3 rounds cannot decide");
    assert!(!both.stdout.contains("round 4"), "{}", both.stdout);
    let plan = home
        .iodyno(&["run", "both.toml", "--dry-run", "--json"])
        .succeeds()
        .json();
    let search = &plan["schedule"]["searches"][0];
    assert_eq!(search["most_trials"], 60);
    assert_eq!(search["search"]["axis"], "rate");
}

#[test]
fn a_search_prints_its_loads_and_refuses_flags_that_arrange_a_comparison() {
    let home = Home::new();
    home.file("search.toml", SEARCH);
    let run = home.iodyno(&["run", "search.toml"]).succeeds();
    let run = run
        .stderr_has("trial 1 of 60: load on here: rate_iops unlimited")
        .stderr_has("round 1 of 60; load on here: rate_iops unlimited")
        .prints("stopped: each workload ended by a rule of its own");
    let second = run.stderr.split("round 2 of 60").nth(1).unwrap();
    assert!(second.starts_with("; load on here: rate_iops "), "{second}");
    home.iodyno(&["compare", "last", "--cols", "bs", "--rows", "rw"])
        .exits(2)
        .stderr_has("`--rows` does not apply to searches")
        .stderr_has("`--cols` does not apply to searches");
    home.iodyno(&["compare", "last", "--where", "configuration=here"])
        .succeeds()
        .prints("highest load");
    home.iodyno(&["compare", "last", "--where", "configuration=there"])
        .exits(2);
    home.iodyno(&["run", "--resume", "last", "--rounds", "90"])
        .exits(2)
        .stderr_has("each of its workloads has its own number of rounds");
}

/// Two simulated workloads with the axis `law`, compared by the median of their reads.
fn by_percentile(head: &str, keys: &str) -> String {
    let text = EXPERIMENT.replace("baseline = \"slow-4k\"", head);
    text.replace(
        "axis.bs",
        &format!("primary = \"read.p50\"\n{keys}\naxis.bs"),
    )
}

#[test]
fn the_primary_metric_of_workloads_decides_also_where_they_are_compared() {
    let home = Home::new();
    for (head, metrics) in [
        ("baseline = \"slow-4k\"", ["read.p50"].as_slice()),
        ("compare = \"law\"", &["read.p50"]),
        // A primary metric comes before that of the whole experiment.
        (
            "metric = [\"iops\", \"read.mean\"]",
            &["read.p50", "iops", "read.mean"],
        ),
    ] {
        home.file("laws.toml", &by_percentile(head, ""));
        run(&home, &["--dry-run"])
            .succeeds()
            .prints("metric     read.p50");
        let json = run(&home, &["--rounds", "3", "--json"]).succeeds().json();
        let rows = json["comparison"]["rows"].as_array().unwrap();
        let found: Vec<&str> = rows
            .iter()
            .filter_map(|row| row["metric"]["name"].as_str())
            .collect();
        assert_eq!(found, metrics, "{head}");
    }
}

#[test]
fn a_search_beside_compared_workloads_leaves_their_comparison_and_its_stop_rule() {
    let home = Home::new();
    let search = SEARCH.split_once("[workload.load]").unwrap().1;
    let head = "compare = \"law\"\nstop = \"50%\"\nrounds = 40";
    let text = format!("{}[workload.load]{search}", by_percentile(head, ""));
    home.file("laws.toml", &text);
    // Without conditions on the search, the interim comparison ends the run long before the last round.
    run(&home, &["--json"]).succeeds();
    let shown = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    let trials = shown["trials"].as_array().unwrap();
    let compared = trials.iter().filter(|it| it["workload"] != "load");
    assert!((10..60).contains(&compared.count()), "{}", trials.len());
    home.iodyno(&["compare", "last"])
        .succeeds()
        .prints("read.p50")
        .prints("highest load");
    home.iodyno(&["compare", "last", "--where", "workload=load"])
        .succeeds()
        .prints("highest load");
}

#[test]
fn the_dry_run_of_a_resumed_run_prints_what_is_left() {
    let home = home();
    run(&home, &["--rounds", "2"]).succeeds();
    home.iodyno(&["run", "--resume", "last", "--dry-run"])
        .exits(2)
        .stderr_has("nothing is missing in its first 2 rounds");
    let resume = ["run", "--resume", "last", "--rounds", "3", "--dry-run"];
    let left = home.iodyno(&resume).succeeds();
    let left = left
        .prints("4 of 6 are done; 2 trials remain, in this order:")
        .prints("the remaining trials take at least 300 ms")
        .prints("  round 3  5 ");
    assert!(!left.stdout.contains("round 2 "), "{}", left.stdout);
    let json = home.iodyno(&[&resume[..], &["--json"]].concat());
    let schedule = json.succeeds().json()["schedule"].clone();
    assert_eq!(schedule["done"], 4);
    assert_eq!(schedule["trials"].as_array().unwrap().len(), 2);
    // Nothing was changed.
    let list = home.iodyno(&["list", "--json"]).succeeds().json();
    assert_eq!(list["runs"][0]["trials_planned"], 4, "{list:#}");
}

#[test]
fn what_is_found_after_the_file_was_read_has_its_line_too() {
    let home = Home::new();
    let work =
        "fio = { ioengine = 'sim', rw = 'randread', size = '1m', runtime = 1, time_based = 1 }";
    let text = format!(
        "metric = 'read.iops'\nstop = '3%'\n[configuration.a]\ntarget = 'gone'\n[workload.w]\n{work}\nprimary = 'read.p50'\n"
    );
    home.file("x.toml", &text);
    home.iodyno(&["run", "x.toml"])
        .exits(2)
        .stderr_has("the target of `a`")
        .stderr_has("x.toml:4:10");
    home.iodyno(&["run", "x.toml", "--dry-run"])
        .exits(2)
        .stderr_has("`stop` requires something to compare\n  at: x.toml:2:8");
    home.file("x.toml", &text.replace("read.p50", "trim.iops"));
    home.iodyno(&["check", "x.toml"])
        .exits(2)
        .prints("x.toml:7:11");
    home.file("x.toml", &text.replace("stop = '3%'", ""));
    home.iodyno(&["run", "x.toml", "--dry-run", "--metric", "trim.p99"])
        .exits(2)
        .stderr_has("`--metric trim.p99`: no job issues `trim`\n");
}

/// The laws with two block sizes, and a table.
fn with_table(table: &str) -> String {
    let both = EXPERIMENT.replace("[\"4k\"]", "[\"4k\", \"8k\"]");
    format!("{both}\n[table]\n{table}")
}

#[test]
fn a_run_is_compared_in_the_layout_of_its_experiment_or_of_a_file() {
    let home = Home::new();
    let table = "title = \"two laws\"\nrows = [\"bs\"]\ncolumns = [\"law\"]\nmetric = [\"iops\", \"p99\"]\ndigits = 1\n";
    home.file("laws.toml", &with_table(table));
    run(&home, &[]).succeeds().prints("two laws");
    for arguments in [["--layout", "last"], ["last", "--layout"]] {
        let all = [&["compare"][..], &arguments].concat();
        home.iodyno(&all).succeeds().prints("two laws");
    }
    home.iodyno(&["compare", "--layout"]).exits(2);
    home.file(
        "mine.toml",
        "title = 'mine'\nrows = ['law']\ncolumns = 'bs'\nmean = true\n",
    );
    let mine = ["compare", "last", "--table", "mine.toml"];
    let done = home.iodyno(&mine).succeeds().prints("mine\n");
    let heads: Vec<Vec<&str>> = (done.stdout.lines().skip(1).take(2))
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        heads,
        [vec!["4k", "8k"], vec!["median", "mean", "median", "mean"]]
    );
    // An experiment is such a file, too.
    home.iodyno(&["compare", "last", "--table", "laws.toml"])
        .succeeds()
        .prints("two laws");
    home.file("bad.toml", "rows = ['bz']\nmetric = 'p98'\nroes = 'law'\n");
    home.iodyno(&["compare", "last", "--table", "bad.toml"])
        .exits(2)
        .stderr_has("`bz` is not a dimension of the trials")
        .stderr_has("bad.toml:1:9")
        .stderr_has("no trial has the metric `p98`")
        .stderr_has("bad.toml:2:10")
        .stderr_has("bad.toml:3:1");
    home.iodyno(&[
        "report",
        "last",
        "--format",
        "markdown",
        "--table",
        "mine.toml",
    ])
    .succeeds()
    .prints("**mine**")
    .prints("| law |");
    home.iodyno(&["compare", "last", "--table", "absent.toml"])
        .exits(2)
        .stderr_has("cannot read `absent.toml`");
}

#[test]
fn a_report_explains_no_undecided_rows() {
    let home = home();
    run(&home, &["--rounds", "2"]).succeeds();
    let report = |format: &str| {
        home.iodyno(&["report", "last", "--format", format])
            .succeeds()
    };
    for format in ["markdown", "html"] {
        let text = report(format).stdout;
        assert!(!text.contains("time of an op"), "{text}");
        assert!(!text.contains("Why"), "{text}");
    }
    run(&home, &[]).succeeds();
    report("markdown").prints("## Why");
}

#[test]
fn the_closing_table_is_in_all_formats() {
    let home = Home::new();
    home.file(
        "laws.toml",
        &with_table("title = \"two laws\"\nrows = [\"bs\"]\ncolumns = [\"law\"]\n"),
    );
    let json = run(&home, &["--json"]).succeeds().json();
    let cells = |table: &serde_json::Value| -> Vec<String> {
        let lines = table["lines"].as_array().unwrap().iter();
        let cells = lines.flat_map(|line| line["cells"].as_array().unwrap());
        cells
            .map(|cell| format!("{} {}", cell["values"][0], cell["verdict"]))
            .collect()
    };
    // The baseline of the experiment is `slow-4k`.
    let expected = [
        "\"slow\" null",
        "\"fast\" \"faster\"",
        "\"slow\" \"equivalent\"",
        "\"fast\" \"faster\"",
    ];
    assert_eq!(cells(&json["table"]), expected);
    assert_eq!(json["table"]["baseline"], "slow-4k");
    for arguments in [&["--json"][..], &["--layout", "--json"]] {
        let all = [&["compare", "last"], arguments].concat();
        assert_eq!(
            cells(&home.iodyno(&all).succeeds().json()["table"]),
            expected
        );
    }
    for format in ["markdown", "asciidoc", "html"] {
        let all = ["report", "last", "--format", format];
        let text = home.iodyno(&all).succeeds().stdout;
        assert!(text.contains("compared with slow-4k: "), "{format}: {text}");
    }
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
        .stderr_has("probe: 1 trial in ")
        .stderr_has("the first round will take about 100 s, and all trials 100 s");
    home.file(
        "bad.toml",
        &with(
            "[workload.bad]\nfio = { rw = 'read', size = '1m', filename = 'absent', allow_file_create = 0 }\n\
             [workload.worse]\nfio = { rw = 'write', size = '1m', filename = 'absent', allow_file_create = 0 }\n",
        ),
    );
    home.iodyno(&["run", "bad.toml"])
        .exits(1)
        .stderr_has("`bad` on `here`")
        .stderr_has("`worse` on `here`");
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
        .stderr_has(expected);
    // A mirror has the space of one leg.
    let text = "[configuration.m]\ntarget = \"mirror on file on .\"\nfile.size = \"16MiB\"\n\
        [workload.w]\nfio = { rw = \"read\", size = \"16m\" }\n";
    home.file("y.toml", text);
    home.iodyno(&["check", "y.toml"])
        .succeeds()
        .prints("they need 16 MiB, and it has at most 15 MiB");
    // All clones use the device, each in its own part.
    let text = text.replace(
        "size = \"16m\"",
        "size = \"15m\", numjobs = 4, offset_increment = \"25%\"",
    );
    home.file("z.toml", &text);
    let checked = home.iodyno(&["check", "z.toml"]).succeeds();
    assert!(!checked.stdout.contains("do not fit"), "{checked:?}");
}

#[test]
fn files_that_do_not_fit_in_a_folder_are_reported_before_a_run() {
    let home = Home::new();
    let text = "[configuration.c]\ntarget = \"directory on .\"\n\
        [workload.w]\nfio = { rw = \"read\", size = \"4096t\" }\n";
    home.file("x.toml", text);
    let checked = home.iodyno(&["check", "x.toml"]).succeeds();
    let checked = checked.prints("the files of `w` do not fit on `c`: they need 4 PiB");
    checked.prints("/work/.`, or use smaller or fewer files");
}

#[test]
fn the_time_limit_is_told_in_rounds_also_if_fewer_are_planned() {
    let home = home();
    run(&home, &["--dry-run", "--rounds", "2", "--max-time", "9s"])
        .succeeds()
        .prints("9.00 s allows at most 30 rounds");
}

#[test]
fn a_time_limit_that_allows_too_few_rounds_is_reported_before_the_run() {
    let home = Home::new();
    let limited = |key: &str| EXPERIMENT.replace("seed = 7", &format!("seed = 7\n{key}"));
    let endless = "[workload.endless]\nfamily = \"f\"\n\
        fio = { ioengine = \"sim\", rw = \"read\", size = \"4k\" }\n[workload.";
    for (text, words) in [
        (
            limited("max_time = \"1s\""),
            "a round takes at least 300 ms, so `max_time` allows 3 rounds: 3 rounds cannot decide",
        ),
        (
            limited("max_time = \"1s\"").replacen("[workload.", endless, 1),
            "a round takes at least 300 ms, so `max_time` allows 3 rounds: 3 rounds cannot decide",
        ),
        (
            limited("").replacen("axis.bs", "max_time = \"500ms\"\naxis.bs", 1),
            "a round of `slow-4k` takes at least 150 ms, so `max_time` allows 3 rounds",
        ),
        (
            limited("max_time = \"1s\"\nprobe = true"),
            "a round takes about 3",
        ),
    ] {
        home.file("laws.toml", &text);
        let arguments = match text.contains("probe") {
            true => &["--rounds", "10"][..],
            false => &["--dry-run"],
        };
        run(&home, arguments).succeeds().stderr_has(words);
    }
}

/// The number of trials of each workload of the last run.
fn trials_by_workload(home: &Home) -> std::collections::BTreeMap<String, u32> {
    let run = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    let mut counts = std::collections::BTreeMap::new();
    for trial in run["trials"].as_array().unwrap() {
        let name = trial["workload"].as_str().unwrap().to_owned();
        *counts.entry(name).or_insert(0) += 1;
    }
    counts
}

#[test]
fn a_part_of_an_experiment_runs() {
    let home = Home::new();
    let blocks = "axis.bs = [\"4k\", \"8k\"]";
    home.file(
        "laws.toml",
        &EXPERIMENT.replace("axis.bs = [\"4k\"]", blocks),
    );
    for (conditions, expected) in [
        (vec!["--where", "bs=8k"], vec!["fast-8k", "slow-8k"]),
        (
            vec!["--where", "workload=*-4k", "--where", "law=slow"],
            vec!["slow-4k"],
        ),
        (
            vec![
                "--where", "law=f*", "--where", "law=slow", "--where", "bs=4k",
            ],
            vec!["fast-4k", "slow-4k"],
        ),
    ] {
        run(&home, &[&["--rounds", "1"], conditions.as_slice()].concat()).succeeds();
        let names: Vec<String> = trials_by_workload(&home).into_keys().collect();
        assert_eq!(names, expected);
    }
    // Every error at once, and nothing runs.
    let before = home.iodyno(&["list", "--json"]).succeeds().stdout;
    run(&home, &["--where", "bz=8k", "--where", "law=quick"])
        .exits(2)
        .stderr_has("unknown dimension `bz`")
        .stderr_has("the dimensions are `bs`, `configuration`, `law` and `workload`")
        .stderr_has("`--where law=quick` matches nothing")
        .stderr_has("the values are `fast` and `slow`");
    assert_eq!(home.iodyno(&["list", "--json"]).succeeds().stdout, before);
}

#[test]
fn targets_of_other_parts_are_not_looked_at() {
    let home = Home::new();
    let absent = "[configuration.absent]\ntarget = \"/there/is/none\"\n[workload.";
    let text = EXPERIMENT.replacen("[workload.", absent, 1);
    home.file("laws.toml", &text.replace("baseline = \"slow-4k\"", ""));
    run(&home, &[]).exits(2).stderr_has("/there/is/none");
    run(&home, &["--rounds", "1", "--where", "configuration=here"]).succeeds();

    home.file("job.fio", "[j]\nioengine=null\nrw=read\nsize=4k\n");
    let targets = ["--on", "absent=/there/is/none", "--on", "here=."];
    let job = [&["run", "job.fio", "--rounds", "1"][..], &targets].concat();
    home.iodyno(&job).exits(2).stderr_has("/there/is/none");
    let part = [&job[..], &["--where", "configuration=here"]].concat();
    home.iodyno(&part).succeeds();
}

#[test]
fn a_dry_run_says_why_storage_takes_turns() {
    let home = Home::new();
    let text = "[configuration.\"${v}\"]\ntarget = \"directory on .\"\n\
        host.sysctl = { \"vm.stat_interval\" = \"${v}\" }\naxis.v = [1, 2]\n\
        [workload.w]\nfio = { rw = \"write\", size = \"4k\" }\n";
    let why = "take turns: `host.sysctl` acts on the whole host";
    home.file("laws.toml", text);
    run(&home, &["--dry-run"])
        .succeeds()
        .prints(&format!("for each trial: 1 and 2 {why}"));
    home.file("laws.toml", &text.replace("[1, 2]", "[1, 2, 3, 4]"));
    run(&home, &["--dry-run"])
        .succeeds()
        .prints(&format!("for each trial: 6 pairs {why}"));
}

#[test]
fn a_resumed_part_does_not_need_the_targets_of_others() {
    let home = Home::new();
    let there = home.work().join("there");
    std::fs::create_dir(&there).unwrap();
    let text = "[configuration.here]\ntarget = \"directory on .\"\n\
        [configuration.gone]\ntarget = \"directory on there\"\n\
        [workload.w]\nfio = { rw = \"write\", size = \"4k\" }\n";
    home.file("laws.toml", text);
    run(&home, &["--rounds", "1", "--no-settle"]).succeeds();
    std::fs::remove_dir(there).unwrap();
    let resume = ["run", "--resume", "last", "--rounds", "2"];
    let part = [&resume[..], &["--where", "configuration=here"]].concat();
    let shown = home.iodyno(&[&part[..], &["--dry-run"]].concat());
    let shown = shown.succeeds();
    assert!(!shown.stderr.contains("a run would"), "{}", shown.stderr);
    home.iodyno(&part).succeeds();
    assert_eq!(trials_by_workload(&home)["w"], 3);
    home.iodyno(&resume).exits(3).stderr_has("there");
}

#[test]
fn a_part_of_a_run_is_resumed_and_the_rest_later() {
    let home = home();
    run(&home, &["--rounds", "2"]).succeeds();
    let resume = |further: &[&str]| home.iodyno(&[&["run", "--resume", "last"], further].concat());
    let fast = ["--where", "law=fast"];
    resume(&[&fast[..], &["--rounds", "5", "--dry-run"]].concat())
        .succeeds()
        .prints("3 trials");
    resume(&[&fast[..], &["--rounds", "5"]].concat())
        .succeeds()
        .prints("7 of 10 trials completed");
    let counts =
        |fast: u32, slow: u32| [("fast-4k".to_owned(), fast), ("slow-4k".to_owned(), slow)].into();
    assert_eq!(trials_by_workload(&home), counts(5, 2));
    resume(&fast)
        .exits(2)
        .stderr_has("has all trials of this part");
    resume(&["--where", "law=quick"])
        .exits(2)
        .stderr_has("matches nothing");
    resume(&[]).succeeds();
    assert_eq!(trials_by_workload(&home), counts(5, 5));
    home.iodyno(&["compare", "last"])
        .succeeds()
        .prints("3 of 5 rounds ran in parts");
}

#[test]
fn a_part_has_no_settings_of_other_parts() {
    let home = Home::new();
    let writes = "[workload.writes]\nfio = { ioengine = \"sim\", rw = \"write\", size = \"1m\" }\n";
    let settings = "stop = \"3%\"\nmetric = [\"write.mean\", \"iops\"]\n[configuration.here]";
    let text = EXPERIMENT.replace("[configuration.here]", settings) + writes;
    home.file("laws.toml", &text);
    run(&home, &["--where", "workload=fast-4k"]).succeeds();
    // What this invocation asks for is an error.
    run(
        &home,
        &["--where", "workload=fast-4k", "--metric", "write.mean"],
    )
    .exits(2)
    .stderr_has("no job issues `write`");
}

#[test]
fn a_part_of_a_run_is_resumed_from_the_whole_experiment() {
    let home = home();
    run(&home, &["--rounds", "1"]).succeeds();
    let resume = ["run", "--resume", "last", "--experiment", "laws.toml"];
    let part = ["--rounds", "3", "--where", "law=fast"];
    home.iodyno(&[&resume[..], &part[..]].concat()).succeeds();
    assert_eq!(trials_by_workload(&home)["fast-4k"], 3);
    // A run that began as a part is one.
    run(&home, &["--rounds", "1", "--where", "law=slow"]).succeeds();
    let part = ["--rounds", "3", "--where", "law=slow"];
    home.iodyno(&[&resume[..], &part[..]].concat()).succeeds();
    assert_eq!(
        trials_by_workload(&home),
        [("slow-4k".to_owned(), 3)].into()
    );
}

#[test]
fn a_part_that_a_rule_ends_leaves_the_others_their_rounds() {
    let home = Home::new();
    let limited = EXPERIMENT.replace("seed = 7", "seed = 7\nmax_time = \"700ms\"");
    home.file("laws.toml", &limited);
    run(&home, &["--rounds", "2"]).succeeds();
    let resume = |further: &[&str]| {
        let resume = ["run", "--resume", "last"];
        home.iodyno(&[&resume[..], further].concat()).succeeds()
    };
    resume(&["--rounds", "9", "--where", "law=fast"]);
    let part = trials_by_workload(&home);
    // A round of one workload takes 150 ms of virtual time.
    assert_eq!((part["fast-4k"], part["slow-4k"]), (6, 2));
    let shown = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    assert_eq!(shown["run"]["state"], "interrupted");
    // The limit has room for four trials: those that complete the rounds of the part.
    resume(&[]);
    let all = trials_by_workload(&home);
    assert_eq!((all["fast-4k"], all["slow-4k"]), (6, 6));
}

#[test]
fn a_part_that_only_fails_ends_before_its_last_round() {
    let home = Home::new();
    let bad = "[workload.bad]\nfio = { ioengine = \"sim\", rw = \"read\", size = \"16k\", sim_faults = \"eio:2\" }\n";
    home.file("laws.toml", &format!("{EXPERIMENT}{bad}"));
    run(&home, &["--rounds", "1"]).exits(4);
    let part = ["--rounds", "50", "--where", "workload=bad"];
    home.iodyno(&[&["run", "--resume", "last"], &part[..]].concat())
        .exits(4);
    let trials = trials_by_workload(&home);
    assert!(trials["bad"] < 10, "{trials:?}");
}

#[test]
fn suites_at_full_scale_have_the_means_of_their_write_up() {
    let home = Home::new();
    for name in ["virtiofs-suite", "dispatch-policies"] {
        let plan = |sets: &[&str]| {
            let done = home.iodyno(&[&["run", name, "--dry-run", "--json"], sets].concat());
            done.json()["table"]["mean"].clone()
        };
        assert_eq!(plan(&["--set", "scale=full"]), true, "{name}");
        assert_ne!(plan(&[]), true, "{name}");
    }
}
