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
        .stderr_has("0 rounds, at least 1");
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
        .stderr_has("no trial has a dimension `nothing`");
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
            .stderr_has("cannot be the name of a run")
            .stderr_has(&format!("run {number} is named"));
        let shown = home.iodyno(&["show", &number.to_string(), "--json"]);
        assert_eq!(shown.succeeds().json()["run"]["name"], expected);
        // It keeps it.
        home.iodyno(&["import", "bundle"])
            .succeeds()
            .stderr_has("nothing changed");
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

#[test]
fn a_file_that_is_no_whole_bundle_is_refused() {
    let home = Home::new();
    let mut lines = bundle();
    lines.pop();
    let whole = sealed(&lines).into_bytes();
    let cuts = (0..40).map(|part| whole[..whole.len() * part / 40].to_vec());
    let others = [
        b"\x1f\x8b\x08\0\0\0\0\0\0\x03".to_vec(),
        b"PK\x03\x04\x14\0\0\0\x08\0".to_vec(),
        b"[".repeat(2_000_000),
        br#"{"header":"#.repeat(100_000),
        vec![0; 100_000],
    ];
    for (place, bytes) in cuts.chain(others).enumerate() {
        std::fs::write(home.work().join("bundle"), bytes).unwrap();
        let done = home.iodyno(&["import", "bundle"]);
        assert_eq!(done.code, 2, "{place}: {done:?}");
    }
    for path in [".", "/dev/zero", "/dev/null", "/dev/urandom"] {
        home.iodyno(&["import", path]).exits(2);
    }
    let listed = home.iodyno(&["list", "--json"]);
    assert!(!listed.stdout.contains("theirs"), "{listed:?}");
    std::fs::write(home.work().join("bundle"), whole).unwrap();
    home.iodyno(&["import", "bundle"]).succeeds();
}

/// Pointers of all texts of a document.
fn texts(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::String(_) => found.push(at),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                texts(item, format!("{at}/{index}"), found);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                let name = name.replace('~', "~0").replace('/', "~1");
                texts(member, format!("{at}/{name}"), found);
            }
        }
        _ => {}
    }
}

#[test]
fn no_text_of_a_bundle_acts_on_a_terminal_or_a_page() {
    const HOSTILE: &str =
        "=a\u{1b}[2J\u{7}b\u{9b}2J\u{202e}<script>x</script>|[l](javascript:x)\u{2028}";
    let home = Home::new();
    let mut lines = bundle();
    lines.pop();
    let mut pointers = Vec::new();
    texts(&lines[1]["run"]["plan"], String::new(), &mut pointers);
    let poison = |plan: &mut Value, pointer: &str| {
        *plan.pointer_mut(pointer).unwrap() = json!(HOSTILE);
    };
    // Not names of kinds, numbers and the like.
    pointers.retain(|pointer| {
        let sealed = resealed(&lines, 0, &|plan| poison(plan, pointer));
        home.file("bundle", &sealed);
        let accepted = home.iodyno(&["import", "bundle"]).code == 0;
        if accepted {
            home.iodyno(&["delete", "last"]).succeeds();
        }
        accepted
    });
    assert!(pointers.len() > 5, "{pointers:?}");
    // The names of the configuration and the workload must remain those of the trials.
    let kept = ["/configurations/0/name", "/workloads/0/name"];
    pointers.retain(|pointer| !kept.contains(&pointer.as_str()));
    for pointer in &pointers {
        poison(&mut lines[1]["run"]["plan"], pointer);
    }
    home.file("bundle", &sealed(&lines));
    home.iodyno(&["import", "bundle"]).succeeds();
    let views: [&[&str]; 9] = [
        &["list"],
        &["show", "last"],
        &["compare", "last"],
        &["explain", "last"],
        &["compare", "last", "--format", "csv"],
        &["compare", "last", "--format", "markdown"],
        &["history"],
        &["plot", "last", "trials", "-o", "trials.svg"],
        &["report", "last", "-o", "page.html"],
    ];
    let acts = |character: char| {
        character.is_control() && character != '\n' || "\u{202e}\u{2028}".contains(character)
    };
    for view in views {
        let done = home.iodyno(view);
        for text in [&done.stdout, &done.stderr] {
            assert!(!text.contains(acts), "{view:?}: {text:?}");
        }
        let cell = |line: &str| {
            line.split(',')
                .any(|cell| cell.starts_with(['=', '+', '@']))
        };
        assert!(
            !view.contains(&"csv") || !done.stdout.lines().any(cell),
            "{done:?}"
        );
    }
    for file in ["trials.svg", "page.html"] {
        let Ok(page) = std::fs::read_to_string(home.work().join(file)) else {
            continue;
        };
        assert!(
            !page.contains("<script>x") && !page.contains("\u{1b}"),
            "{file}"
        );
    }
}
