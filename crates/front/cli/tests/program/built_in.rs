//! Workloads and experiments that need no file: on a folder, and with words that are none of them.

use std::fs;

use crate::harness::Home;

/// Makes the trials of the ready-made experiment `disk` short.
const SHORT: [&str; 4] = ["--set", "size=4m", "--set", "duration=50ms"];

#[test]
fn disk_measures_a_folder_and_leaves_nothing_in_it() {
    let home = Home::new();
    let folder = home.work().join("data");
    fs::create_dir(&folder).unwrap();
    let done = home
        .iodyno(
            &[
                &["run", "disk", "--on", "data", "--rounds", "1"],
                &SHORT[..],
            ]
            .concat(),
        )
        .succeeds();
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    let (_, limits) = done.stdout.split_once("limited by\n").unwrap();
    // A line that is too long is continued in an indented one.
    let names: Vec<&str> = (limits.lines())
        .take_while(|line| !line.is_empty())
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let workloads = [
        "read-1m-8",
        "write-1m-8",
        "randread-4k-1",
        "randread-4k-32",
        "randwrite-4k-32",
        "write-4k-fdatasync",
    ];
    // On a busy host, a short trial may end without an op: then its row has no limit.
    let mut expected = workloads.iter();
    assert!(!names.is_empty(), "{limits}");
    for name in names {
        assert!(expected.any(|workload| *workload == name), "{limits}");
    }
    let again = home.iodyno(&["compare", "last"]).succeeds();
    assert!(again.stdout.contains(limits.split("\n\n").next().unwrap()));
}

#[test]
fn built_in_jobs_fit_the_folder_and_leave_nothing_in_it() {
    let home = Home::new();
    for folder in ["a", "b"] {
        fs::create_dir(home.work().join(folder)).unwrap();
    }
    let run = ["run", "randread-1", "seqwrite", "--on", "a", "--on", "b"];
    let plan = home.iodyno(&[&run[..], &["--dry-run", "--json"]].concat());
    let plan = plan.succeeds().json();
    for workload in 0..2 {
        let size = &plan["workloads"][workload]["jobs"][0]["extent"]["size"]["bytes"];
        let size = size.as_u64().unwrap();
        let free = rustix::fs::statvfs(home.work()).unwrap();
        assert!(size.is_power_of_two() && size <= 1 << 30, "{size}");
        assert!(
            size <= (free.f_bavail * free.f_frsize / 5).max(16 << 20),
            "{size}"
        );
    }
    let set = ["--set", "size=4m", "--set", "runtime=50ms", "--rounds", "2"];
    let done = home.iodyno(&[&run[..], &set].concat()).succeeds();
    assert!(done.stdout.contains("seqwrite"), "{}", done.stdout);
    for folder in ["a", "b"] {
        let left = fs::read_dir(home.work().join(folder)).unwrap().count();
        assert_eq!(left, 0, "{folder}");
    }
}

#[test]
fn a_file_takes_precedence_over_a_name() {
    let home = Home::new();
    home.file("randread", "[own]\nioengine=null\nrw=write\nsize=1m\n");
    let plan = home.iodyno(&["run", "randread", "--dry-run", "--json"]);
    let plan = plan.succeeds().json();
    assert_eq!(plan["workloads"][0]["jobs"][0]["name"], "own");
}

#[test]
fn a_folder_a_device_and_a_typing_error_get_a_hint_that_runs() {
    let home = Home::new();
    for (word, fault, hint) in [
        (
            ".",
            "`.` is a folder, not a job file",
            "`iodyno run disk --on .`",
        ),
        (
            "/dev/null",
            "`/dev/null` is a device",
            "`iodyno run disk --on /dev/null`",
        ),
        ("disc", "no workload named `disc`", "did you mean `disk`?"),
        (
            "randreed",
            "no workload named `randreed`",
            "did you mean `randread`?",
        ),
    ] {
        home.iodyno(&["run", word])
            .exits(2)
            .stderr_has(fault)
            .stderr_has(hint);
    }
    home.iodyno(&["experiments", "quickstrat"])
        .exits(2)
        .stderr_has("did you mean `quickstart`?");
}

#[test]
fn every_ready_made_experiment_is_listed_and_can_be_checked_by_its_name() {
    let home = Home::new();
    let list = home.iodyno(&["experiments", "--json"]).succeeds().json();
    let list = list["experiments"].as_array().unwrap().clone();
    assert!(list.len() >= 15, "{list:?}");
    for experiment in list {
        let name = experiment["name"].as_str().unwrap();
        assert_ne!(experiment["about"], "", "{name}");
        let text = home.iodyno(&["experiments", name]).succeeds().stdout;
        home.file("copy.toml", &text);
        let mut sets = Vec::new();
        for parameter in experiment["parameters"].as_array().unwrap() {
            sets.push("--set".to_owned());
            sets.push(format!("{}=.", parameter.as_str().unwrap()));
        }
        for file in [name, "copy.toml"] {
            let words = ["check", file].map(str::to_owned);
            home.iodyno(&[&words[..], &sets].concat()).succeeds();
        }
    }
}

/// The longest planned time of a quick look, ns.
const QUICK: u64 = 120_000_000_000;

#[test]
fn every_ready_made_experiment_has_a_quick_scale_of_at_most_two_minutes() {
    let home = Home::new();
    let list = home.iodyno(&["experiments", "--json"]).succeeds().json();
    for experiment in list["experiments"].as_array().unwrap() {
        let name = experiment["name"].as_str().unwrap();
        let mut words = ["run", name, "--dry-run", "--json", "--set", "scale=quick"].to_vec();
        if !experiment["parameters"].as_array().unwrap().is_empty() {
            words.extend(["--set", "folder=."]);
        }
        let plan = home.iodyno(&words).succeeds().json();
        let schedule = &plan["schedule"];
        let parts = ["trials_ns", "precondition_ns", "searches_ns"];
        let planned = parts.map(|part| schedule[part].as_u64().unwrap_or_default());
        assert!(planned.iter().sum::<u64>() <= QUICK, "{name}: {planned:?}");
        // What is made, or takes as long as it takes, is limited by the run's own clock.
        let limit = plan["stopping"]["max_time_ns"].as_u64();
        let endless = !schedule["without_limit"].as_array().unwrap().is_empty();
        assert!(limit.is_some_and(|it| it <= QUICK) || !endless && limit.is_none());
        // It can decide, or compares nothing.
        assert_ne!(schedule["can_decide"], false, "{name}");
    }
}
