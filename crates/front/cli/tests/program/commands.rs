//! Commands as workloads: their time, their output, and what surrounds them.

use iodyno_model::printable::shell_path;

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
        "`(` is not a regular expression",
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

#[test]
fn a_single_command_is_measured_even_if_the_time_is_over_after_one_round() {
    let home = Home::new();
    let run = ["run", "--command", "sleep 0.1", "--on", "here=."];
    let limited = ["--rounds", "5", "--max-time", "1ms"];
    home.iodyno(&[&run[..], &limited].concat())
        .succeeds()
        .prints("1 trial, nothing to compare with");
}

#[test]
fn faults_of_flags_name_the_flags_of_commands() {
    let home = Home::new();
    home.file("script.sh", "true\n");
    let done = home.iodyno(&["run", "--command", "true", "--set", "x=y"]);
    let done = done
        .exits(2)
        .stderr_has("`--set` has no effect on `--command`");
    assert!(!done.stderr.contains("unknown workload"), "{}", done.stderr);
    let on_file = ["run", "--command", "true", "--on", "s=script.sh"];
    let done = home.iodyno(&on_file).exits(3);
    let done = done
        .stderr_has("commands run in a folder")
        .stderr_has("`--on NAME=PATH`");
    assert!(!done.stderr.contains("--dir"), "{}", done.stderr);
    let named = [
        "--command",
        "true",
        "--command-name",
        "a",
        "--command-name",
        "a",
    ];
    let numbers = [
        "--more",
        "x",
        "--less",
        "iops=1",
        "--more",
        "a=(",
        "--timeout",
        "1s",
    ];
    home.iodyno(&[&["run"], &named[..], &numbers].concat())
        .exits(2)
        .stderr_has("`--command-name 'a'` is given twice")
        .stderr_has("there are more `--command-name` than `--command`")
        .stderr_has("`--more 'x'`: there is no `=`")
        .stderr_has("trials have a metric `iops` of their own")
        .stderr_has("`(` is not a regular expression");
}

#[test]
fn a_script_of_the_working_folder_is_named_with_its_absolute_path() {
    let home = Home::new();
    home.file("bench.sh", "true\n");
    let path = home.work().join("bench.sh");
    let hint = format!("write the absolute path `{}`", shell_path(&path));
    // Paths of a line are wrapped.
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let failed = home.iodyno(&["run", "--command", "./bench.sh"]).exits(4);
    assert!(words(&failed.stdout).contains(&hint), "{}", failed.stdout);
    let failed = home.iodyno(&["run", "--command", "true", "--prepare", "cat bench.sh"]);
    assert!(words(&failed.stderr).contains(&hint), "{}", failed.stderr);
    let other = home.iodyno(&["run", "--command", "./other.sh"]).exits(4);
    assert!(!other.stdout.contains("absolute"), "{}", other.stdout);
}

#[test]
fn the_commands_of_a_plan_are_shown_in_their_order() {
    let home = Home::new();
    let flags = [
        "--cleanup",
        "echo after",
        "--prepare",
        "echo before",
        "--timeout",
        "90s",
    ];
    let done = home.iodyno(&[&["run", "--command", "make -j4", "--dry-run"], &flags[..]].concat());
    let lines = "workload   make -j4\n  prepare  echo before\n  command  make -j4   at most 90.0 s\n  cleanup  echo after\n";
    done.succeeds().prints(lines);
    let text = "[workload.a]\ncommand = 'true'\nprepare = 'echo it'\n";
    run(&home, text, &["--on", "here=.", "--dry-run"])
        .succeeds()
        .prints("  prepare  echo it\n  command  true\n");
}

#[test]
fn a_failing_command_among_others_is_reported_once() {
    let home = Home::new();
    let two = ["--command", "true", "--command", "exit 3", "--no-settle"];
    let done = home
        .iodyno(&[&["run", "--rounds", "3"], &two[..]].concat())
        .exits(4);
    let count = |text: &str| text.matches("exit status: 3").count();
    assert_eq!(count(&done.stderr), 1, "{}", done.stderr);
    assert_eq!(count(&done.stdout), 1, "{}", done.stdout);
    let silent = ["run", "--command", "echo nothing", "--less", "n=n=(.*)"];
    let done = home.iodyno(&silent).exits(4).prints("its last");
    assert!(!done.stdout.contains("exit status"), "{}", done.stdout);
}

#[test]
fn one_execution_has_its_time_and_the_numbers_that_it_printed() {
    let home = Home::new();
    let command = "echo n=4; echo m=5 >&2";
    let numbers = ["--less", "m=m=(.)", "--more", "n=n=([0-9])"];
    let trials = ["--rounds", "2", "--no-settle"];
    let done = home.iodyno(&[&["run", "--command", command], &numbers[..], &trials].concat());
    let shown = done.succeeds().stdout;
    let rows = shown.lines().skip(2).take_while(|line| !line.is_empty());
    let names: Vec<&str> = rows.filter_map(|row| row.split(' ').next()).collect();
    assert_eq!(names[..3], ["n", "op.mean", "m"], "{shown}");
    assert!(
        names[3..].iter().all(|name| name.starts_with("cpu_")),
        "{shown}"
    );
    let shown = home.iodyno(&["show", "last", "--trial", "1"]).succeeds();
    let shown = shown
        .prints("time     ")
        .prints(", user ")
        .prints("prints   n 4.00, m 5.00");
    for other in ["p99", "ops/s", "IOPS", "cores", "complete in"] {
        assert!(!shown.stdout.contains(other), "{other}: {}", shown.stdout);
    }
}

#[test]
fn commands_have_the_given_names_and_long_ones_differ_in_tables() {
    let home = Home::new();
    let long = |end: &str| format!("true the same words in all commands {end}");
    let commands = [long("a"), long("b"), long("c")];
    let flags = commands.iter().flat_map(|text| ["--command", text]);
    let named = ["--command-name", "first", "--rounds", "1", "--no-settle"];
    let arguments: Vec<&str> = ["run"].into_iter().chain(flags).chain(named).collect();
    let done = home.iodyno(&arguments).succeeds();
    let headings: Vec<&str> = done
        .stdout
        .lines()
        .filter(|line| line.contains("speed ["))
        .collect();
    assert!(
        !headings.is_empty() && headings.iter().all(|it| it.contains("first")),
        "{headings:?}"
    );
    let distinct: std::collections::BTreeSet<&&str> = headings.iter().collect();
    assert_eq!(distinct.len(), headings.len(), "{headings:?}");
}

#[test]
fn a_command_is_killed_with_its_children_after_its_timeout() {
    let home = Home::new();
    let command = "sleep 1000 & echo $! > ../../pid; wait";
    let limited = ["run", "--command", command, "--timeout", "200ms"];
    let done = home.iodyno(&limited).exits(4);
    done.prints("killed after its timeout of 200 ms");
    let pid = std::fs::read_to_string(home.work().join("pid")).unwrap();
    let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    wait_for("the child to end", || (!alive(pid)).then_some(()));
}

#[test]
fn a_repeated_command_ends_with_its_number_or_its_time() {
    let home = Home::new();
    for (ends, executions) in [
        ("repeat = 2\nduration = '10h'", 2..3),
        ("repeat = 4000000\nduration = '100ms'", 1..4_000_000),
    ] {
        let text = format!("[workload.a]\ncommand = 'true'\n{ends}\n");
        let done = run(&home, &text, &["--on", "here=.", "--json"]).succeeds();
        let ops = done.json()["trials"][0]["groups"][0]["rows"][0]["ops"]
            .as_u64()
            .unwrap();
        assert!(executions.contains(&ops), "{ends}: {ops}");
    }
}
