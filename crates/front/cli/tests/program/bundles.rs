//! What an exported run contains, and what an imported one may contain.

use serde_json::{Value, json};

use crate::foreign::{bundle, resealed, sealed};
use crate::harness::Home;

#[test]
fn a_run_without_rounds_is_refused() {
    let home = Home::new();
    let mut lines = bundle();
    lines[1]["run"]["rounds"] = json!(0);
    home.file("bundle", &sealed(&lines[..2]));
    home.iodyno(&["import", "bundle"])
        .exits(2)
        .tells("0 rounds, at least 1");
}

#[test]
fn a_report_of_the_most_dimensions_is_made() {
    let home = Home::new();
    let most: serde_json::Map<String, Value> = (0..256)
        .map(|axis| (format!("axis{axis}"), json!("x")))
        .collect();
    // Each trial differs in all of them.
    let mut lines = bundle();
    let plan = &mut lines[1]["run"]["plan"];
    for number in 0..20 {
        let mut workload = plan["workloads"][0].clone();
        let own = most
            .keys()
            .map(|axis| (axis.clone(), json!(number.to_string())));
        workload["dimensions"] = Value::Object(own.collect());
        workload["name"] = json!(format!("w{number}"));
        plan["workloads"].as_array_mut().unwrap().push(workload);
    }
    plan["workloads"].as_array_mut().unwrap().remove(0);
    let trial = lines.iter().find(|line| line.get("trial").is_some());
    let trial = trial.unwrap().clone();
    let trials = (0..20).map(|cell| {
        let mut trial = trial.clone();
        trial["trial"]["key"]["cell"] = json!(cell);
        trial["trial"]["workload"] = json!(format!("w{cell}"));
        trial
    });
    let lines: Vec<Value> = lines[..2].iter().cloned().chain(trials).collect();
    home.file("bundle", &sealed(&lines));
    home.iodyno(&["import", "bundle"]).succeeds();
    home.iodyno(&["report", "last", "-o", "page.html"])
        .succeeds();
    home.iodyno(&["compare", "last", "--cols", "axis7", "--rows", "nothing"])
        .exits(2)
        .tells("no trial has a dimension `nothing`");
}

#[test]
fn an_imported_run_gets_another_name_if_it_could_mean_other_runs() {
    let home = Home::new();
    let lines = bundle();
    let long = "x".repeat(300);
    let shortened = format!("{}…", &long[..192]);
    for (number, (name, expected)) in (1..).zip([
        ("last", "run last"),
        ("last~1", "run last~1"),
        ("1", "run 1"),
        (" 1 ", "run  1 "),
        ("1-3", "run 1-3"),
        ("--all", "run --all"),
        ("a\u{1b}[2Kb", "run a?[2Kb"),
        (&long, &shortened),
    ]) {
        let sealed = resealed(&lines, number, &|plan| plan["name"] = json!(name));
        home.file("bundle", &sealed);
        home.iodyno(&["import", "bundle"])
            .succeeds()
            .tells("cannot be the name of a run")
            .tells(&format!("run {number} is named"));
        let shown = home.iodyno(&["show", &number.to_string(), "--json"]);
        assert_eq!(shown.succeeds().json()["run"]["name"], expected);
        // It keeps it.
        home.iodyno(&["import", "bundle"])
            .succeeds()
            .tells("nothing changed");
    }
    let shown = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    assert_eq!(shown["run"]["name"], *shortened);
    let usual = resealed(&lines, 90, &|plan| plan["name"] = json!("y".repeat(200)));
    home.file("bundle", &usual);
    let done = home.iodyno(&["import", "bundle"]).succeeds();
    assert!(!done.stderr.contains("is named"), "{done:?}");
}

#[test]
fn every_text_of_an_export_is_masked() {
    let home = Home::new();
    let text = r#"
[params]
password = "unused"

[configuration."disk-${by}"]
axis.by = ["${password}", "plain"]
target = "directory on ."
setup = "true ${by}"

[workload."sim-${description}"]
axis.description = ["d-${password}"]
fio = { ioengine = "sim", rw = "randread", size = "1m", number_ios = 10 }
"#;
    home.file("e.toml", text);
    let set = ["--set", "password=completed"];
    // The word is also one of the format.
    home.iodyno(&[&["run", "e.toml", "--rounds", "1"][..], &set].concat())
        .succeeds();
    let set = ["--set", "password=Zq7Xw98d"];
    home.iodyno(&[&["run", "e.toml", "--rounds", "1"][..], &set].concat())
        .succeeds();
    let exported = home
        .iodyno(&["export", "last", "--names"])
        .succeeds()
        .stdout;
    assert!(exported.contains("disk-*****"), "{exported}");
    assert!(!exported.contains("Zq7Xw98d"), "{exported}");
    let listed = home.iodyno(&["show", "last"]).succeeds();
    assert!(!listed.stdout.contains("Zq7Xw98d"), "{}", listed.stdout);
}
