//! `iodyno explain`, on simulated devices in virtual time: exact figures.

use crate::harness::Home;

/// Reads that take 300 µs or 200 µs, by one worker or by four.
fn home() -> Home {
    let home = Home::new();
    let job = |latency: &str, jobs: u32| {
        format!(
            "[t]\nioengine=sim\nsim_latency=lognormal:{latency}:0.3\nrw=randread\nbs=4k\nsize=16m\n\
             numjobs={jobs}\nruntime=150ms\ntime_based\n"
        )
    };
    home.file("one.fio", &job("300us", 1));
    home.file("fast.fio", &job("200us", 1));
    home.file("four.fio", &job("300us", 4));
    let run = ["run", "one.fio", "fast.fio", "four.fio", "--seed", "7"];
    home.iodyno(&run).succeeds();
    home
}

#[test]
fn more_workers_are_named_and_a_faster_device_without_counters_is_unexplained() {
    let home = home();
    let json = home
        .iodyno(&["explain", "last", "--json"])
        .succeeds()
        .json();
    assert_eq!(json["schema"], "iodyno.explanation/1");
    let comparisons = json["comparisons"].as_array().unwrap();
    let of = |candidate: &str| {
        let mut found = comparisons.iter().filter(|it| it["candidate"] == candidate);
        found.next().unwrap()
    };
    let four = &of("four")["parts"][0];
    assert_eq!(four["quantity"]["name"], "workers");
    assert_eq!(four["explains"], true);
    assert!((four["speed"]["value"].as_f64().unwrap() - 4.0).abs() < 0.1);
    assert!((four["share"].as_f64().unwrap() - 1.0).abs() < 0.05);
    let causes = four["candidate_causes"].as_array().unwrap();
    let names: Vec<_> = causes.iter().map(|it| &it["fact"]["name"]).collect();
    assert!(names.iter().any(|name| **name == "jobs"), "{names:?}");

    let fast = of("fast");
    assert_eq!(fast["parts"][0]["quantity"]["name"], "other_waits");
    assert_eq!(fast["parts"][0]["open"], true);
    assert!(fast["headline"].as_str().unwrap().contains("unexplained"));
    // The parts add up to the ratio.
    for it in comparisons {
        let parts = it["parts"].as_array().unwrap().iter();
        let sum: f64 = parts
            .map(|part| part["speed"]["value"].as_f64().unwrap().ln())
            .sum();
        let ratio = it["speed"]["value"].as_f64().unwrap().ln();
        assert!((sum - ratio).abs() < 0.02, "{it}");
    }
}

#[test]
fn a_write_up_that_contradicts_itself_is_told_its_lines() {
    let home = Home::new();
    let result = "fsbench/delete_2k_1MB  2000 1000 ops/sec\n";
    home.file("w.md", &format!("# ext4\n{result}\n2000 files get deleted in under a second.\nThey were deleted in under 1 second.\n"));
    let told = "w.md line 5: \"They were deleted in under 1 second.\" contradicts the write-up's own figures";
    home.iodyno(&["import", "w.md"]).succeeds().prints(told);
    for format in ["text", "markdown", "asciidoc"] {
        home.iodyno(&["explain", "last", "--format", format])
            .succeeds()
            .prints("2.00 s");
    }
    home.iodyno(&["explain", "last", "--baseline", "zfs"])
        .exits(2)
        .stderr_has("`zfs`");
    let json = home
        .iodyno(&["explain", "last", "--json"])
        .succeeds()
        .json();
    assert_eq!(json["contradictions"][0]["against_line"], 2);
    assert_eq!(json["contradictions"].as_array().unwrap().len(), 1);
}

#[test]
fn a_report_of_a_write_up_begins_with_its_contradicted_statements() {
    let home = Home::new();
    let result = |rate| format!("fsbench/delete_2k_1MB  2000 {rate} ops/sec\n");
    let (ext4, zfs) = (result(1000), result(500));
    home.file(
        "w.md",
        &format!("# ext4\n{ext4}\n# zfs\n{zfs}\nThey were deleted in under 1 second.\n"),
    );
    let imported = home.iodyno(&["import", "w.md"]).succeeds().stdout;
    assert!(imported.starts_with("! w.md line 7: "), "{imported}");
    for (format, heading) in [("markdown", "##"), ("asciidoc", "==")] {
        let report = home.iodyno(&["report", "last", "--format", format]);
        let text = report.succeeds().stdout;
        assert!(
            text.starts_with(&format!("{heading} Checked statements\n\n")),
            "{text}"
        );
        assert_eq!(text.matches("They were deleted").count(), 1, "{text}");
    }
}

#[test]
fn cells_select_comparisons_and_unknown_ones_are_named() {
    let home = home();
    let text = home.iodyno(&["explain", "last", "four"]).succeeds();
    let text = text.prints("workers, 1 → 4").stdout;
    assert!(!text.contains("fast against"), "{text}");
    let narrow = text.lines().map(|line| line.chars().count()).max();
    assert!(narrow.is_some_and(|width| width <= 100), "{text}");
    home.iodyno(&["explain", "last", "fore"])
        .exits(2)
        .stderr_has("no comparison has the name `fore`")
        .stderr_has("there are fast, default, four");
    home.iodyno(&["explain", "last", "foru"])
        .exits(2)
        .stderr_has("did you mean `four`?");
    home.iodyno(&["explain", "last", "one"])
        .exits(2)
        .stderr_has("`one` is the baseline, with which the others are compared")
        .stderr_has("name another side or a row")
        .stderr_has("there are fast, default, four");
    let page = home.iodyno(&["explain", "last", "--format", "markdown"]);
    page.succeeds()
        .prints("**default: four against one by iops");
}

#[test]
fn verdicts_have_a_line_with_the_reason() {
    let home = home();
    home.iodyno(&["compare", "last"])
        .succeeds()
        .prints("why: ")
        .prints("workers, 1 → 4");
}
