//! Commands as workloads: their time, their output, and what surrounds them.

use crate::harness::{Done, Home, alive, wait_for};

fn run(home: &Home, experiment: &str, further: &[&str]) -> Done {
    home.file(
        "e.toml",
        &format!("rounds = 1\nsettle = false\n{experiment}"),
    );
    let mut arguments = vec!["run", "e.toml"];
    arguments.extend(further);
    home.iodyno(&arguments)
}

/// The names in the working folder.
fn names(home: &Home) -> Vec<String> {
    let entries = std::fs::read_dir(home.work()).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    names
}

#[test]
fn commands_are_compared_by_their_time() {
    let home = Home::new();
    let (quick, slow) = ("sleep 0.002", "sleep 0.2");
    let commands = ["run", "--command", slow, "--command", quick];
    let done = home.iodyno(&[&commands[..], &["--rounds", "6", "--no-settle", "--json"]].concat());
    let result = done.succeeds().json();
    let row = &result["comparison"]["rows"][0];
    assert_eq!(row["metric"]["name"], "op.mean");
    assert_eq!(row["baseline"]["column"], slow);
    assert_eq!(row["cells"][0]["candidate"]["column"], quick);
    let trials = result["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 12);
    for trial in trials {
        // A busy host makes it longer, never shorter.
        let least = if trial["workload"] == quick { 2e6 } else { 2e8 };
        let row = &trial["groups"][0]["rows"][0];
        assert!(
            row["service"]["mean_ns"].as_f64().unwrap() >= least,
            "{row}"
        );
    }
    assert_eq!(names(&home), Vec::<String>::new());
}

#[test]
fn a_command_sees_a_new_folder_that_prepare_fills_and_cleanup_sees_again() {
    let home = Home::new();
    let text = "[workload.a]\nprepare = 'n=$(ls | wc -l); echo $n > before; echo 7 > n'\n\
                command = 'cat n >> ../../log; touch made'\n\
                cleanup = 'cat before n >> ../../log; ls >> ../../log'\n";
    run(&home, text, &["--on", "here=.", "--rounds", "2"]).succeeds();
    let log = std::fs::read_to_string(home.work().join("log")).unwrap();
    assert_eq!(log, "7\n0\n7\nbefore\nmade\nn\n".repeat(2));
    assert_eq!(names(&home), ["e.toml", "log"]);
}

#[test]
fn numbers_of_the_output_are_metrics_and_the_first_decides() {
    let home = Home::new();
    let text = r#"
[configuration.here]
target = "."
[workload."w${n}"]
command = 'echo "warming: tps = 1"; echo "tps = ${n}000.5"; echo "wait ${n}.5 ms" >&2'
metric.tps = { regex = 'tps = ([0-9.]+)', unit = "/s", better = "more" }
metric.wait = { regex = '^wait (\S+) ms$', unit = "ms", better = "less" }
axis.n = [2, 4]
"#;
    run(&home, text, &["--rounds", "6"])
        .succeeds()
        .prints("w4 is faster than w2")
        .prints("tps")
        .prints("4.00k/s");
    let shown = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    let trials = shown["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 12);
    for trial in trials {
        let n = if trial["workload"] == "w2" { 2.0 } else { 4.0 };
        let executed = &trial["groups"][0]["operations"]["executed"][0];
        assert_eq!(executed["values"][0]["value"], n * 1000.0 + 0.5);
        assert_eq!(executed["values"][1]["value"], (n + 0.5) * 1e6);
        assert!(executed["output"].as_str().unwrap().contains("warming"));
    }
    home.iodyno(&["compare", "last", "--metric", "wait"])
        .succeeds()
        .prints("2.50 ms");
    home.iodyno(&["show", "last", "--trial", "1"])
        .succeeds()
        .prints("prints   tps ")
        .prints("output   warming: tps = 1");
}

#[test]
fn json_is_read_by_a_pointer() {
    let home = Home::new();
    let text = r#"
[workload.a]
command = '''echo '{"jobs": [{"iops": 12.5}]}' '''
metric.found = { json = "/jobs/0/iops", better = "more" }
"#;
    run(&home, text, &["--on", "here=."])
        .succeeds()
        .prints("found 12.5");
}

#[test]
fn a_failed_command_fails_its_trial_with_the_end_of_its_output() {
    let home = Home::new();
    let on = ["--on", "here=."];
    let failed = "[workload.a]\ncommand = 'echo disk melted >&2; exit 3'\n\
                  cleanup = 'touch ../../cleaned'\n";
    run(&home, failed, &on)
        .exits(4)
        .prints("exit status: 3: disk melted");
    assert_eq!(names(&home), ["cleaned", "e.toml"]);
    run(&home, &format!("{failed}may_fail = true\n"), &on)
        .succeeds()
        .prints("exit status 3");
    run(&home, "[workload.a]\ncommand = '/no/such/program'\n", &on)
        .exits(4)
        .prints("/no/such/program: not found");
    let unprepared = "[workload.a]\ncommand = 'true'\nprepare = 'echo no room; false'\n";
    run(&home, unprepared, &on)
        .exits(4)
        .stderr_has("`prepare` of workload `a` failed")
        .stderr_has("no room");
    let silent = "[workload.a]\ncommand = 'echo nothing'\n\
                  metric.tps = {regex='tps = (.*)', better='more'}\n";
    let done = run(&home, silent, &on)
        .exits(4)
        .prints("the output does not match `tps = (.*)`");
    assert!(!done.stdout.contains("prints "), "{}", done.stdout);
    assert_eq!(names(&home), ["cleaned", "e.toml"]);
}

#[test]
fn faults_of_a_section_are_reported_together() {
    let home = Home::new();
    let text = r#"
[workload.a]
command = " "
metric.iops = { regex = "(", better = "more" }
metric."a b" = { better = "less" }
metric.c = { regex = "1", json = "x" }
metric.d = { json = "x", better = "less", unit = "s" }
[workload.b]
fs = "create_empty"
prepare = "true"
repeat = 2
"#;
    home.file("e.toml", text);
    let done = home.iodyno(&["check", "e.toml"]).exits(2);
    for fault in [
        "`command` is not a command",
        "trials have a metric `iops` of their own",
        "`regex` is not a regular expression",
        "`a b` cannot be the name of a metric",
        "a metric has either `regex` or `json`",
        "`metric.c` lacks `better`",
        "`x` is not a JSON pointer",
        "`prepare` has no effect without `command`",
        "`repeat` has no effect without `command`",
    ] {
        let printed = done.stdout.contains(fault) || done.stderr.contains(fault);
        assert!(printed, "{fault}: {}{}", done.stdout, done.stderr);
    }
    home.iodyno(&[
        "run",
        "--command",
        "",
        "--command",
        "true",
        "--command",
        "true",
    ])
    .exits(2)
    .stderr_has("`--command` is empty")
    .stderr_has("`--command 'true'` is given twice");
    home.iodyno(&["run", "--prepare", "true"]).exits(2);
}

#[test]
fn an_interrupted_command_ends_with_its_children_and_is_cleaned_up() {
    let home = Home::new();
    let command = "sleep 1000 & echo $! > ../../pid; wait";
    let running = home.start(&[
        "run",
        "--command",
        command,
        "--cleanup",
        "touch ../../cleaned",
    ]);
    let pid = running.wait_for("the command", || {
        let text = std::fs::read_to_string(home.work().join("pid")).ok()?;
        rustix::process::Pid::from_raw(text.trim().parse().ok()?)
    });
    running.signal(rustix::process::Signal::INT);
    running.done().exits(130);
    wait_for("the child to end", || (!alive(pid)).then_some(()));
    assert_eq!(names(&home), ["cleaned", "pid"]);
}

#[test]
fn a_command_is_repeated_and_its_children_count_as_cpu_time() {
    let home = Home::new();
    let busy = "[workload.a]\ncommand = 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done'\n";
    let on = ["--on", "here=."];
    let trial = |text: &str| {
        run(&home, text, &on).succeeds();
        let shown = home.iodyno(&["show", "last", "--json"]).succeeds().json();
        shown["trials"][0].clone()
    };
    let repeated = trial(&format!("{busy}repeat = 3\n"));
    assert_eq!(repeated["groups"][0]["rows"][0]["ops"], 3);
    let cpu = repeated["cpu"]["worker_user_ns"].as_u64().unwrap();
    assert!(cpu > 10_000_000, "{cpu}");
    let timed = trial(&format!("{busy}duration = '300ms'\n"));
    assert!(timed["groups"][0]["rows"][0]["ops"].as_u64() >= Some(1));
}

#[test]
fn another_users_run_needs_permission_for_its_commands() {
    let home = Home::new();
    let text = "rounds = 1\nsettle = false\n\
                [workload.a]\ncommand = 'sleep 1000'\nprepare = 'touch ../../x'\n";
    home.file("e.toml", text);
    let running = home.start(&["run", "e.toml", "--on", "here=."]);
    running.wait_for("the preparation", || {
        home.work().join("x").exists().then_some(())
    });
    running.signal(rustix::process::Signal::INT);
    running.done().exits(130);
    home.iodyno(&["export", "last", "-o", "x.iodyno"])
        .succeeds();
    let other = Home::new();
    std::fs::copy(home.work().join("x.iodyno"), other.work().join("x.iodyno")).unwrap();
    other.iodyno(&["import", "x.iodyno"]).succeeds();
    let on = format!("here={}", home.work().join(".").display());
    other
        .iodyno(&["run", "--resume", "last", "--on", &on])
        .exits(2)
        .stderr_has("job.a.a.command=sleep 1000")
        .stderr_has("job.a.a.prepare=touch ../../x");
}
