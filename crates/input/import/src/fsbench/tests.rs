use iodyno_model::{ImportedTrial, Kind};
use proptest::prelude::*;

use super::*;
use crate::extract::ExtractContent;

const SEED: &str = include_str!("../../tests/data/ext4-zfs-fsbench.txt");

const SERIES: &str = "____optype__elapsed__ops/sec(inst)___ops/sec(cum)__p50(ms)_pMax(ms)\n";
const CLOSING: &str =
    "____optype__elapsed_____ops(total)___ops/sec(cum)__avg(ms)__p50(ms)_pMax(ms)\n";

fn found(text: &str) -> (Vec<ImportedTrial>, Vec<String>) {
    let (mut trials, mut unread) = (Vec::new(), Vec::new());
    for found in read(&Lines::new("notes.md", text)) {
        match found.what {
            ExtractContent::Trial(trial) => trials.push(*trial),
            ExtractContent::Unread(why) => unread.push(why),
            _ => {}
        }
    }
    (trials, unread)
}

fn figure(trial: &ImportedTrial, name: &str) -> Option<f64> {
    let mut figures = trial.figures.iter();
    figures
        .find(|figure| figure.metric.name == name)
        .map(|figure| figure.value)
}

#[test]
fn reads_a_table_and_the_line_below_it_as_one_trial() {
    let row = "delete_10k  2.0s  200  100.0  10.0  9.0  20.0\n";
    for line in [
        "",
        "fsbench/delete_10k_2MB 200 100.0 ops/sec\n",
        "\nBenchmarkfsbench/delete_10k_2MB 200 100.0 ops/sec\n",
    ] {
        let (trials, unread) = found(&format!("(delete_10k_2MB)\n\n{CLOSING}{row}{line}"));
        assert_eq!((trials.len(), unread.len()), (1, 0), "{line}");
        let trial = &trials[0];
        assert_eq!(trial.workload, "delete_10k_2MB", "{line}");
        assert_eq!(trial.kind, Kind::Finite);
        assert_eq!(figure(trial, "completion"), Some(2e9));
        assert_eq!(figure(trial, "op.max"), Some(20e6));
    }
}

#[test]
fn uses_the_figures_of_the_more_precise_line_and_the_seconds_of_the_table_above_it() {
    let seconds = "delete_10k  1s  80.0  80.0  1.0  2.0\ndelete_10k  2s  120.0  100.0  1.0  2.0\n";
    let row = "delete_10k  2.0s  200  100.0  10.0  9.0  20.0\n\
               op       9.9 ms of 10 ms a cycle; not timed:\n         write 1 ms\n\
               done     in 12 s, of which drain 10 s\n";
    let line = |name: &str, ops| {
        format!(
            "Benchmarkfsbench/{name} {ops} 100.021 ops/sec 9998.2 op-mean-ns 2000 completion-ns\n"
        )
    };
    for (below, trials) in [
        (line("delete_10k_2MB", 200), 1),
        (line("delete_10k_2MB/threads=4", 200), 1),
        (line("delete_10k_2MB", 201), 2),
        (line("statfs", 200), 2),
    ] {
        let text = format!("config: ext4\n{SERIES}{seconds}{CLOSING}{row}\n{below}");
        let texts = [crate::Text {
            source: "notes.md",
            text: &text,
        }];
        let read = crate::read(&texts, &Default::default());
        assert_eq!(
            (read.trials.len(), read.unread.len()),
            (trials, 0),
            "{below}"
        );
        let finer = &read.trials.get(trials - 1).unwrap();
        assert_eq!(finer.configuration, "ext4", "{below}");
        assert_eq!(figure(finer, "op.mean"), Some(9998.2), "{below}");
        assert_eq!(figure(finer, "completion"), Some(2000.0), "{below}");
        let table = &read.trials.get(0).unwrap();
        assert_eq!(table.series.len(), 2, "{below}");
        assert_eq!(figure(table, "drain"), Some(10e9), "{below}");
        assert_eq!(table.kind, Kind::Finite, "{below}");
        if trials == 2 {
            assert_eq!(figure(table, "completion"), Some(12e9), "{below}");
        }
    }
}

#[test]
fn derives_the_uncertainty_of_a_time_from_its_decimals() {
    let check = |ms: &str, mean: Option<f64>, remark: Option<&str>, why: Option<&str>| {
        let text = format!("{CLOSING}create_emp  10.0s  500000  50000.0  {ms}  {ms}  20.0\n");
        let (trials, _) = found(&text);
        let trial = &trials[0];
        assert_eq!(figure(trial, "op.mean"), mean, "{ms}");
        let has_remark = |words: &str| trial.remarks.iter().any(|it| it.contains(words));
        assert_eq!(
            has_remark("latencies are printed"),
            remark.is_some(),
            "{ms}"
        );
        assert!(remark.is_none_or(has_remark), "{ms}: {:?}", trial.remarks);
        let kept_back = trial.withheld.iter().find(|it| it.metric == "op.mean");
        assert_eq!(kept_back.map(|it| it.why.as_str()), why, "{ms}");
        assert_eq!(
            figure(trial, "ops_from_mean").is_some(),
            mean.is_some() && remark.is_none()
        );
    };
    let below =
        |printed, limit| format!("printed as {printed} ms, which is anything below {limit} ms");
    check("0.0", None, None, Some(&below("0.0", "0.05")));
    check(
        "0.000000",
        None,
        None,
        Some(&below("0.000000", "0.0000005")),
    );
    check(
        "0.1",
        Some(100_000.0),
        Some("printed to 0.1 ms: op.mean ±50 %, op.p50 ±50 %"),
        None,
    );
    check("0.0195", Some(19_500.0), None, None);
    check("0.000412", Some(412.0), None, None);
    check(
        "0.000003",
        Some(3.0),
        Some("printed to 0.000001 ms: op.mean ±17 %"),
        None,
    );
}

#[test]
fn accepts_seconds_without_ops_and_their_dashes() {
    let rows = "copy  1s  90.0  90.0  1.0  2.0\ncopy  2s  0.0  45.0  -  -\n";
    let closing = "copy  2.0s  90  45.0  1.0  1.0  2.0\n";
    let (trials, unread) = found(&format!("{SERIES}{rows}{CLOSING}{closing}"));
    assert_eq!((trials.len(), unread.len()), (1, 0));
    let rates: Vec<f64> = trials[0].series.iter().map(|point| point.rate).collect();
    assert_eq!(rates, [90.0, 0.0]);
}

#[test]
fn reads_a_line_with_other_figures_as_a_separate_trial() {
    let text = format!(
        "{CLOSING}delete_10k  2.0s  200  100.0  10.0  9.0  20.0\n\nfsbench/delete_10k_2MB 300 100.0 ops/sec\n"
    );
    let (trials, _) = found(&text);
    let workloads: Vec<&str> = trials.iter().map(|trial| trial.workload.as_str()).collect();
    assert_eq!(workloads, ["delete_10k", "delete_10k_2MB"]);
    assert!(
        trials[0]
            .remarks
            .iter()
            .any(|remark| remark.contains("ten letters"))
    );
    assert_eq!(figure(&trials[1], "completion"), Some(3e9));
    assert_eq!(trials[1].form, "fsbench line");
}

#[test]
fn withholds_the_rate_of_a_line_whose_loop_does_more_than_the_op() {
    let (trials, _) = found("fsbench/write_sync_10MB  15058 25.1 ops/sec\n");
    assert_eq!(figure(&trials[0], "iops"), None);
    assert_eq!(figure(&trials[0], "loop.iops"), Some(25.1));
    assert_eq!(trials[0].primary.as_deref(), Some("op.mean"));
    assert!(trials[0].withheld.iter().any(|it| it.metric == "iops"));
}

#[test]
fn reports_that_a_benchmark_without_a_closing_row_did_not_end() {
    let rows = "delete_10k  1s  9.0  90.0  1.0  2.0\ndelete_10k  2s  90.0  90.0  1.0  2.0\n";
    let (trials, unread) = found(&format!(
        "Running benchmark: delete_10k_2MB\n{SERIES}{rows}```\n"
    ));
    assert_eq!(trials.len(), 0);
    assert_eq!(unread.len(), 1);
    assert!(
        unread[0].starts_with("2 rows of `delete_10k_2MB` without"),
        "{unread:?}"
    );
    let (_, unread) = found(&format!("{SERIES}prose\n"));
    assert!(unread[0].contains("without a row"), "{unread:?}");
}

#[test]
fn begins_another_trial_when_the_seconds_restart() {
    let rows = "copy  1s  90.0  90.0  1.0  2.0\ncopy  2s  90.0  90.0  1.0  2.0\n";
    let closing = "copy  2.0s  180  90.0  1.0  1.0  2.0\n";
    let (trials, unread) = found(&format!("{SERIES}{rows}{rows}{CLOSING}{closing}"));
    assert_eq!((trials.len(), unread.len()), (1, 1));
    assert_eq!(trials[0].at.line, 4);
    assert_eq!(trials[0].series.len(), 2);
    // Neither the name `copy` nor its time determines whether time or work ended it.
    assert_eq!(trials[0].kind, Kind::Unknown);
}

#[test]
fn adds_a_short_remainder_to_the_previous_second() {
    let rows = "copy  1s  90.0  90.0  1.0  2.0\ncopy  2s  90.0  90.0  1.0  2.0\n";
    for (closing, ends) in [
        ("copy  2.0s  184  90.0  11.0  1.0  2.0\n", vec![1.0, 2.044]),
        (
            "copy  2.5s  225  90.0  11.0  1.0  2.0\n",
            vec![1.0, 2.0, 2.5],
        ),
        // The last row printed a whole second although less had passed.
        ("copy  1.4s  126  90.0  11.0  1.0  2.0\n", vec![1.0, 1.4]),
        ("copy  2.0s  180  90.0  11.0  1.0  2.0\n", vec![1.0, 2.0]),
    ] {
        let (trials, _) = found(&format!("{SERIES}{rows}{CLOSING}{closing}"));
        let series = &trials[0].series;
        let found_ends: Vec<f64> = series
            .iter()
            .map(|point| (point.end_ns as f64 / 1e6).round() / 1e3)
            .collect();
        assert_eq!(found_ends, ends, "{closing}");
        let ops: f64 = series
            .iter()
            .map(|point| point.rate * (point.end_ns - point.start_ns) as f64 / 1e9)
            .sum();
        assert!(
            (ops - figure(&trials[0], "ops").unwrap()).abs() < 0.001,
            "{closing}: {ops}"
        );
    }
}

#[test]
fn finds_the_configuration_only_in_headings() {
    for (heading, configuration) in [
        ("1. ext4 results from each run", "ext4"),
        ("## zfs results", "zfs"),
        ("**btrfs results:**", "btrfs"),
        ("1. The results from each run", ""),
        ("ext4 results from each run", ""),
        ("1. ext4 is slower", ""),
    ] {
        let (trials, _) = found(&format!("{heading}\n\nfsbench/copy 10 5.0 ops/sec\n"));
        assert_eq!(trials[0].configuration, configuration, "{heading}");
    }
}

proptest! {
    #[test]
    fn does_not_panic_on_a_truncated_write_up(end in 0..SEED.len()) {
        if let Some(cut) = SEED.get(..end) {
            let (trials, _) = found(cut);
            prop_assert!(trials.len() <= 43);
        }
    }

    #[test]
    fn does_not_panic_on_any_rows(
        rows in prop::collection::vec("[a-z_]{1,10} [0-9]{0,4}(\\.[0-9])?(s|m|)( [0-9]{1,4}\\.[0-9]){3,6}", 0..6),
        closing in any::<bool>(),
    ) {
        let head = if closing { CLOSING } else { SERIES };
        let text = format!("{SERIES}{}\n{head}{}", rows.join("\n"), rows.join("\n"));
        for trial in found(&text).0 {
            prop_assert!(trial.figures.iter().all(|figure| figure.value.is_finite()));
            prop_assert!(trial.series.iter().all(|point| point.rate.is_finite() && point.start_ns < point.end_ns));
        }
    }
}
