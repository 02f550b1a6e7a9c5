//! Tables of made up trials.

use iodyno_model::{ClosingTable, FilledTable, Metric, Observation, Question, Verdict, Withheld};

use super::closing_table;
use crate::testing::observations::{each, figure, rounds};

/// Ten values around a level.
fn around(level: f64) -> Vec<f64> {
    let noise = [0.2, -0.7, 0.9, -0.3, 0.5, -0.9, 0.1, 0.7, -0.5, 0.4];
    noise.iter().map(|n| level * (1.0 + n / 100.0)).collect()
}

/// Trials with further dimensions.
fn trials(
    configuration: &str,
    workload: &str,
    iops: f64,
    more: &[(&str, &str)],
) -> Vec<Observation> {
    each(rounds(configuration, workload, &around(iops)), |trial| {
        for (name, value) in more {
            trial
                .dimensions
                .insert((*name).to_owned(), (*value).to_owned());
        }
    })
}

fn layout(rows: &[&str], columns: &[&str], metrics: &[&str]) -> ClosingTable {
    let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    ClosingTable {
        rows: texts(rows),
        columns: texts(columns),
        metrics: texts(metrics),
        ..ClosingTable::default()
    }
}

fn with_baseline(baseline: &str) -> Question {
    Question {
        baseline: Some(baseline.to_owned()),
        ..Question::default()
    }
}

fn filled(trials: &[Observation], question: &Question, table: &ClosingTable) -> FilledTable {
    let filled = closing_table(&[], trials, question, table);
    filled.unwrap_or_else(|error| panic!("{error}")).1
}

/// `2-way: 200 +, 100`: each line, with its cells and the signs of their verdicts.
fn lines(table: &FilledTable) -> Vec<String> {
    let lines = table.lines.iter().map(|line| {
        let cells = line.cells.iter().map(|cell| {
            let sign = match &cell.verdict {
                None => "",
                Some(Verdict::Faster) => " +",
                Some(Verdict::Slower) => " -",
                Some(Verdict::Equivalent) => " =",
                Some(_) => " ?",
            };
            let text = match (cell.median, cell.ratio) {
                (Some(median), _) => format!("{median:.0}"),
                (None, Some(ratio)) => format!("{ratio:.1}×"),
                (None, None) => cell.missing.clone().unwrap_or_default(),
            };
            text + sign
        });
        let cells: Vec<String> = cells.collect();
        format!("{}: {}", line.values.join(" "), cells.join(", "))
    });
    lines.collect()
}

/// Four configurations, each with a file system and a layout, and two block sizes.
fn mirrors() -> Vec<Observation> {
    let mut all = Vec::new();
    for (fs, layout, iops) in [
        ("zfs", "striped", 100.0),
        ("zfs", "2-way", 200.0),
        ("btrfs", "striped", 100.0),
        ("btrfs", "2-way", 50.0),
    ] {
        for (bs, factor) in [("4k", 1.0), ("1m", 0.1)] {
            let name = format!("{fs}-{layout}");
            let more = [("fs", fs), ("layout", layout), ("bs", bs)];
            all.extend(trials(&name, bs, iops * factor, &more));
        }
    }
    all
}

#[test]
fn marks_compare_with_the_baseline_of_the_question_wherever_it_is() {
    // Neither rows nor columns are configurations: their values define them.
    let table = filled(
        &mirrors(),
        &with_baseline("zfs-striped"),
        &layout(&["layout"], &["fs", "bs"], &[]),
    );
    let heads: Vec<String> = table
        .heads
        .iter()
        .map(|head| head.values.join(" "))
        .collect();
    assert_eq!(heads, ["zfs 4k", "zfs 1m", "btrfs 4k", "btrfs 1m"]);
    assert_eq!(
        lines(&table),
        [
            "striped: 100, 10, 100 =, 10 =",
            "2-way: 200 +, 20 +, 50 -, 5 -"
        ]
    );
    assert_eq!(table.baseline.as_deref(), Some("zfs-striped"));
    // The compared dimension as rows, the baseline in the middle.
    let table = filled(
        &mirrors(),
        &with_baseline("zfs-2-way"),
        &layout(&["configuration"], &["bs"], &[]),
    );
    assert_eq!(
        lines(&table),
        [
            "zfs-2-way: 200, 20",
            "zfs-striped: 100 -, 10 -",
            "btrfs-striped: 100 -, 10 -",
            "btrfs-2-way: 50 -, 5 -"
        ]
    );
}

#[test]
fn a_table_that_does_not_define_the_compared_dimension_has_it_as_rows() {
    let table = filled(
        &mirrors(),
        &with_baseline("zfs-striped"),
        &layout(&["bs"], &["layout"], &[]),
    );
    assert_eq!(table.rows, ["bs", "configuration"]);
    assert_eq!(
        lines(&table)[..2],
        [
            "4k zfs-striped: 100, not run",
            "4k zfs-2-way: not run, 200 +"
        ]
    );
}

#[test]
fn a_line_that_has_one_side_only_keeps_its_figure() {
    let of_law =
        |workload: &str, law: &str, iops: f64| trials("here", workload, iops, &[("law", law)]);
    let all = [
        of_law("slow-4k", "slow", 100.0),
        of_law("slow-8k", "slow", 90.0),
        of_law("fast-4k", "fast", 200.0),
    ];
    let question = Question {
        columns: "law".to_owned(),
        ..Question::default()
    };
    let table = layout(&["workload"], &["configuration"], &[]);
    assert_eq!(
        lines(&filled(&all.concat(), &question, &table)),
        ["slow-4k: 100", "slow-8k: 90", "fast-4k: 200"]
    );
}

#[test]
fn nothing_is_marked_that_nobody_asked_to_compare() {
    let one: Vec<Observation> = [("slow", 100.0), ("fast", 200.0)]
        .into_iter()
        .flat_map(|(workload, iops)| trials("here", workload, iops, &[]))
        .collect();
    let table = layout(&["workload"], &["configuration"], &[]);
    let found = filled(&one, &Question::default(), &table);
    assert_eq!(lines(&found), ["slow: 100", "fast: 200"]);
    assert_eq!(found.baseline, None);
    // An import: the question is a guess, and only columns are compared.
    let guess = Question {
        columns: "layout".to_owned(),
        inferred: true,
        ..Question::default()
    };
    let found = filled(&mirrors(), &guess, &layout(&["layout", "bs"], &["fs"], &[]));
    assert_eq!(found.baseline.as_deref(), Some("zfs"));
    assert_eq!(lines(&found)[0], "striped 4k: 100, 100 =");
}

#[test]
fn a_cell_without_a_figure_says_why() {
    let p99 = |trial: &mut Observation| {
        trial.figures.push(figure(Metric::time("read.p99"), 1e6));
    };
    let withheld = |trial: &mut Observation| {
        trial.withheld.push(Withheld {
            metric: "read.p99".to_owned(),
            why: "40 ops, of which 0.4 lie beyond it, fewer than 10: too few".to_owned(),
        });
    };
    let failed = |trial: &mut Observation| trial.unusable = Some("failed: EIO, at once".to_owned());
    let none = |_: &mut Observation| {};
    let all = [
        each(trials("a", "few", 100.0, &[]), withheld),
        each(trials("b", "few", 100.0, &[]), p99),
        each(trials("a", "broken", 100.0, &[]), p99),
        each(trials("b", "broken", 100.0, &[]), failed),
        each(trials("a", "alone", 100.0, &[]), p99),
        each(trials("a", "writes", 100.0, &[]), none),
        each(trials("b", "writes", 100.0, &[]), none),
    ]
    .concat();
    let table = layout(&["workload"], &["configuration"], &["iops", "p99"]);
    let found = filled(&all, &with_baseline("a"), &table);
    let metrics: Vec<_> = found
        .heads
        .iter()
        .map(|it| it.metric.as_deref().unwrap())
        .collect();
    assert_eq!(metrics, ["iops", "read.p99", "iops", "read.p99"]);
    assert_eq!(
        lines(&found),
        [
            "few: 100, no read.p99: 40 ops, 100 =, 1000000",
            "broken: 100, 1000000, failed, failed",
            "alone: 100, 1000000, not run, not run",
            "writes: 100, no read, 100 =, no read"
        ]
    );
    // Also if no trial has it.
    let few = each(trials("a", "few", 100.0, &[]), withheld);
    let fewer = each(trials("b", "few", 100.0, &[]), withheld);
    let found = filled(&[few, fewer].concat(), &with_baseline("a"), &table);
    let line = "few: 100, no read.p99: 40 ops, 100 =, no read.p99: 40 ops";
    assert_eq!(lines(&found), [line]);
}

#[test]
fn the_row_of_a_family_has_its_ratio() {
    let of_family = |configuration: &str, workload: &str, iops: f64| {
        trials(
            configuration,
            workload,
            iops,
            &[(Observation::FAMILY, "all")],
        )
    };
    let all = [
        of_family("a", "one", 100.0),
        of_family("a", "two", 10.0),
        of_family("b", "one", 200.0),
        of_family("b", "two", 20.0),
    ]
    .concat();
    let table = layout(&["workload"], &["configuration"], &[]);
    let found = filled(&all, &with_baseline("a"), &table);
    assert_eq!(
        lines(&found),
        ["all: 1.0×, 2.0× +", "one: 100, 200 +", "two: 10, 20 +"]
    );
    assert!(found.lines[0].family && !found.lines[1].family);
}
