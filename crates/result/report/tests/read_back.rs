//! A printed trial that is imported again is equal to the original: the same metrics with the same names and values,
//! within the precision of the output.

use iodyno_import::{self as results, Text};
use iodyno_judge::testing::operations as made;
use iodyno_judge::{compare, observe, observe_imported, summary};
use iodyno_model::{
    Comparison, Configuration, ImportedTrial, Kind, Observation, Question, Target, Trial, TrialKey,
    Verdict, Workload,
};
use iodyno_report::{Style, fsbench, sysbench};

/// Trials per side, sufficient for a verdict.
const ROUNDS: u32 = 10;

type Made = (Workload, Trial);

/// The live table, its closing row, and the line for benchstat.
fn printed_operations((workload, trial): &Made, with_line: bool) -> String {
    let mut text = fsbench::opening(workload);
    let mut live = fsbench::Live::new(&workload.name);
    text.extend(trial.frames.iter().filter_map(|frame| live.frame(frame)));
    let summary = summary(workload, trial);
    text += &fsbench::closing(workload, trial, &summary, Style::default());
    if with_line {
        text += "\n";
        text += &fsbench::benchmark_line(workload, trial);
    }
    text
}

fn printed_files((workload, trial): &Made) -> String {
    let options = sysbench::Options::default();
    sysbench::preamble(&workload.jobs[0], Some(7), None)
        + &sysbench::result(workload, trial, &options)
}

fn read_again(text: &str) -> ImportedTrial {
    let texts = [Text {
        source: "printed.txt",
        text,
    }];
    let read = results::read(&texts, &Default::default());
    assert_eq!(
        (read.trials.len(), read.unread.len()),
        (1, 0),
        "{text}\n{read:?}"
    );
    read.trials.get(0).unwrap()
}

fn own((workload, trial): &Made, round: u32) -> Observation {
    let target = Configuration::new("own", Target::Path("/mnt/e".into()));
    let key = TrialKey { round, ..trial.key };
    observe("run 1", &target, workload, key, trial)
}

fn read(imported: &ImportedTrial) -> Observation {
    let mut imported = imported.clone();
    imported.configuration = "read".to_owned();
    observe_imported("run 2", &imported)
}

/// Asserts that every common figure agrees within its rounding, and that the expected number of figures is common.
fn check_figures(own: &Observation, read: &Observation, least: &[&str], within: f64) {
    let mut common = Vec::new();
    for figure in &read.figures {
        let name = figure.metric.name.as_str();
        let Some(mine) = own.figure(name) else {
            continue;
        };
        assert_eq!(mine.metric, figure.metric, "{name}");
        let apart = (figure.value / mine.value - 1.0).abs();
        assert!(
            apart <= within,
            "{name}: {} against {}",
            figure.value,
            mine.value
        );
        common.push(name);
    }
    for name in least {
        assert!(common.contains(name), "{name} is not among {common:?}");
    }
}

fn compared(own_trial: &Made, imported: &ImportedTrial) -> Comparison {
    let mut all: Vec<Observation> = (0..ROUNDS).map(|round| own(own_trial, round)).collect();
    all.extend((0..ROUNDS).map(|_| read(imported)));
    let question = Question {
        baseline: Some("own".to_owned()),
        ..Question::default()
    };
    compare("read back", &all, &question, &[]).expect("the question is valid")
}

fn check(trial: &Made, text: &str, metric: &str, least: &[&str], within: f64) {
    let imported = read_again(text);
    assert_eq!(imported.workload, trial.0.name);
    check_figures(&own(trial, 0), &read(&imported), least, within);
    let found = compared(trial, &imported);
    let row = &found.rows[0];
    assert_eq!(row.metric.name, metric, "{text}");
    let cell = &row.cells[0];
    // The verdict itself is open: a single imported file is too little to measure the variation between runs.
    assert_eq!(cell.by_numbers, Verdict::Equivalent, "{text}\n{cell:?}");
    assert_eq!(cell.differs, [], "{text}");
    assert!(
        !cell
            .notes
            .iter()
            .any(|note| note.contains("would be judged")),
        "{:?}",
        cell.notes
    );
}

#[test]
fn file_operations_that_are_printed_and_imported_are_equal_to_themselves() {
    let delete = || made::delete_trial(10_500_000_000);
    let of_op = ["op.mean", "op.p50", "op.p95", "op.p99", "op.max", "iops"];
    type Case<'a> = (Made, &'a str, &'a [&'a str]);
    let cases: [Case<'_>; 3] = [
        (made::create_empty_trial(), "iops", &[]),
        (made::write_sync_trial(), "op.mean", &["loop.iops"]),
        (delete(), "completion", &["completion", "drain"]),
    ];
    for (trial, metric, further) in cases {
        let mut least = match metric {
            // 600 ops are too few for an own p99.
            "op.mean" => vec!["op.mean", "op.p50", "op.max"],
            _ => of_op.to_vec(),
        };
        least.extend(further);
        check(
            &trial,
            &printed_operations(&trial, false),
            metric,
            &least,
            0.005,
        );
        // The number of threads is known from the line, and with it the rate of timed steps.
        least.extend(["ops_from_mean", "iops"]);
        check(
            &trial,
            &printed_operations(&trial, true),
            metric,
            &least,
            0.005,
        );
    }
}

#[test]
fn the_line_alone_names_its_figures_like_an_own_trial() {
    for (trial, metric) in [
        (made::create_empty_trial(), "iops"),
        (made::write_sync_trial(), "op.mean"),
        (made::delete_trial(0), "completion"),
    ] {
        let text =
            fsbench::benchmark_units().to_owned() + &fsbench::benchmark_line(&trial.0, &trial.1);
        let imported = read_again(&text);
        let least = ["iops", "ops_from_mean", "op.mean", "op.p50", "op.max"];
        check_figures(&own(&trial, 0), &read(&imported), &least, 1e-4);
        let found = compared(&trial, &imported);
        assert_eq!(found.rows[0].metric.name, metric);
    }
}

#[test]
fn a_name_that_is_invalid_in_a_benchmark_line_is_taken_from_the_table() {
    let (mut workload, trial) = made::delete_trial(0);
    for name in ["delete-10", "delete", "a.delete-of_more-20"] {
        workload.name = name.to_owned();
        let imported = read_again(&printed_operations(
            &(workload.clone(), trial.clone()),
            true,
        ));
        assert_eq!(imported.workload, name);
    }
}

#[test]
fn a_table_with_a_line_below_it_keeps_its_seconds() {
    let trial = made::delete_trial(10_500_000_000);
    for with_line in [false, true] {
        let imported = read_again(&printed_operations(&trial, with_line));
        assert_eq!(imported.series.len(), trial.1.frames.len(), "{with_line}");
        assert_eq!(imported.kind, Kind::Finite);
        let ops: f64 = imported
            .series
            .iter()
            .map(|point| point.rate * (point.end_ns - point.start_ns) as f64 / 1e9)
            .sum();
        assert!((ops / 100_000.0 - 1.0).abs() < 0.001, "{ops}");
    }
}

#[test]
fn shared_files_that_are_printed_and_imported_are_equal_to_themselves() {
    let trial = made::fileio_trial();
    let least = [
        "iops",
        "read.iops",
        "write.iops",
        "sync.iops",
        "bandwidth",
        "op.mean",
        "op.p95",
        "read.mean",
        "write.p99",
        "sync.max",
    ];
    // Latencies of all kinds together are printed with a precision of 0.01 ms.
    check(&trial, &printed_files(&trial), "iops", &least, 0.005);
}
