use iodyno_model::{ImportedTrial, Kind};
use proptest::prelude::*;

use super::*;
use crate::extract::ExtractContent;

const SEED: &str = include_str!("../../tests/data/zfs-sysbench.txt");
const RNDRD: &str = include_str!("../../tests/data/sysbench-rndrd-4-threads.txt");
const RNDRW: &str = include_str!("../../tests/data/sysbench-rndrw.txt");
const SEQWR: &str = include_str!("../../tests/data/sysbench-seqwr-histogram.txt");
const RATE: &str = include_str!("../../tests/data/sysbench-rndwr-rate.txt");
const EVENTS: &str = include_str!("../../tests/data/sysbench-events.txt");
const PREPARE: &str = include_str!("../../tests/data/sysbench-prepare.txt");

fn trials(text: &str) -> Vec<ImportedTrial> {
    let found = read(&Lines::new("run.txt", text));
    found
        .into_iter()
        .filter_map(|found| match found.what {
            ExtractContent::Trial(trial) => Some(*trial),
            _ => None,
        })
        .collect()
}

fn figure(trial: &ImportedTrial, name: &str) -> Option<f64> {
    let mut figures = trial.figures.iter();
    figures
        .find(|figure| figure.metric.name == name)
        .map(|figure| figure.value)
}

fn fact<'t>(trial: &'t ImportedTrial, name: &str) -> &'t str {
    let mut facts = trial.facts.iter();
    facts
        .find(|fact| fact.name == name)
        .map_or("", |fact| fact.value.as_str())
}

fn says(trial: &ImportedTrial, words: &str) -> bool {
    trial.remarks.iter().any(|remark| remark.contains(words))
}

#[test]
fn reads_pasted_output_from_the_open_flags_on() {
    let trials = trials(SEED);
    assert_eq!(trials.len(), 1);
    let trial = &trials[0];
    assert_eq!((trial.at.line, trial.workload.as_str()), (31, "rndrw"));
    assert_eq!(
        (trial.kind, trial.primary.as_deref()),
        (Kind::Timed, Some("iops"))
    );
    for (name, value) in [
        ("read.iops", 6248.29),
        ("write.iops", 4165.52),
        ("sync.iops", 13329.94),
        ("iops", 6248.29 + 4165.52),
        ("read.bandwidth", 97.63 * 1048576.0),
        ("write.bandwidth", 65.09 * 1048576.0),
        ("bandwidth", (97.63 + 65.09) * 1048576.0),
        ("op.mean", 292329.84 / 7123125.0 * 1e6),
        ("op.max", 8.24e6),
        ("op.p95", 0.21e6),
    ] {
        let found = figure(trial, name).unwrap_or_else(|| panic!("{name}"));
        assert!((found / value - 1.0).abs() < 1e-12, "{name}: {found}");
    }
    assert_eq!(figure(trial, "op.min"), None);
    assert_eq!(trial.withheld[0].metric, "op.min");
    for (name, value) in [
        ("rw", "randrw"),
        ("bs", "16k"),
        ("files", "128"),
        ("file size", "8 GiB"),
        ("size", "1 TiB"),
        ("jobs", "1"),
        ("open flags", "directio"),
        ("ended by", "runtime"),
        ("duration", "300 s"),
    ] {
        assert_eq!(fact(trial, name), value, "{name}");
    }
    assert!(says(
        trial,
        "explained by fsync-freq=100 (sysbench's default) × 128 files"
    ));
    assert!(says(trial, "which makes 13329.7/s"));
    assert!(says(trial, "1.50 reads to a write, as file-rw-ratio=1.5"));
    assert!(says(
        trial,
        "7123125 events together; 56 % of these are fsyncs"
    ));
    assert!(says(
        trial,
        "1 thread: one had all 7 123 125 events, with a deviation of 0; the latencies add up to 292.3 s in 300.0 s, 97.4 % of the \
         time of 1 thread"
    ));
}

#[test]
fn reads_the_complete_output_and_its_progress_lines() {
    let trials = trials(RNDRD);
    assert_eq!(trials.len(), 1);
    let trial = &trials[0];
    assert_eq!((trial.at.line, trial.workload.as_str()), (1, "rndrd"));
    assert_eq!(trial.dimensions["jobs"], "4");
    assert_eq!(trial.dimensions["rw"], "randread");
    assert_eq!(trial.dimensions["engine"], "sync");
    assert_eq!(fact(trial, "program"), "sysbench 1.0.20");
    assert_eq!(figure(trial, "op.p99"), Some(110_000.0));
    assert_eq!(figure(trial, "op.p95"), None);
    assert_eq!(figure(trial, "write.iops"), None);
    assert_eq!(figure(trial, "read.iops"), Some(55641.30));
    let rates: Vec<f64> = trial
        .series
        .iter()
        .map(|point| point.rate.round())
        .collect();
    assert_eq!(rates, [890.13 * 64.0, 849.79 * 64.0].map(f64::round));
    assert_eq!(trial.series[1].end_ns, 2_000_000_000);
}

#[test]
fn explains_fsyncs_by_the_settings_of_the_run() {
    for (text, words) in [
        (RNDRW, "explained by fsync-freq=100 × 4 files"),
        (SEQWR, "explained by fsync-freq=100 × 4 files"),
        (
            RATE,
            "those at the end alone: each thread syncs each of the 4 files",
        ),
        (EVENTS, "one after each write"),
        (
            &RNDRW.replace("5707.07", "9999.99"),
            "do not follow from what is known of fsync-freq: 5707.4/s would",
        ),
    ] {
        let trials = trials(text);
        assert!(says(&trials[0], words), "{words}: {:?}", trials[0].remarks);
    }
}

#[test]
fn treats_a_run_with_a_number_of_requests_as_finite_work() {
    let trial = &trials(EVENTS)[0];
    assert_eq!(
        (trial.kind, trial.primary.as_deref()),
        (Kind::Finite, Some("completion"))
    );
    assert_eq!(figure(trial, "completion"), Some(64.1e6));
    assert_eq!(fact(trial, "duration"), "5000 ops");
    let odd = EVENTS.replace("requests: 5000", "requests: 0");
    assert_eq!(trials(&odd)[0].kind, Kind::Unknown);
}

#[test]
fn separates_consecutive_runs() {
    let command = "$ sysbench --threads=4 fileio --file-test-mode=rndrd --time=2 run\n";
    let prepare = "$ sysbench --threads=16 fileio --file-test-mode=rndwr prepare\n";
    let text = format!("{prepare}{PREPARE}{SEQWR}\n{command}{RNDRD}\n{RNDRW}");
    let trials = trials(&text);
    let workloads: Vec<&str> = trials.iter().map(|trial| trial.workload.as_str()).collect();
    assert_eq!(workloads, ["seqwr", "rndrd", "rndrw"]);
    let jobs: Vec<&str> = trials.iter().map(|trial| fact(trial, "jobs")).collect();
    assert_eq!(jobs, ["1", "4", "1"]);
    let command_line = text
        .lines()
        .position(|line| line == command.trim())
        .unwrap();
    assert_eq!(trials[1].at.line as usize, command_line + 1);
    assert!(trials[0].series.is_empty() && trials[2].series.is_empty());
}

#[test]
fn reads_figures_without_settings_and_reports_where_there_are_none() {
    let figures = &RNDRW[RNDRW.find("File operations:").unwrap()..];
    let trial = &trials(figures)[0];
    assert_eq!(figure(trial, "read.iops"), Some(85581.64));
    assert_eq!(trial.workload, "rndrw");
    assert!(!says(trial, "fsync-freq"), "{:?}", trial.remarks);
    let found = read(&Lines::new("x", "File operations:\n\nprose"));
    assert!(matches!(found[0].what, ExtractContent::Unread(_)));
    assert!(trials(PREPARE).is_empty());
}

/// iodyno's output: in sysbench's form, with additional lines below.
fn ours() -> String {
    let figures = &RNDRW[RNDRW.find("Running the test").unwrap()..];
    format!(
        "$ iodyno fileio --file-test-mode=rndrw --time=2 run\n{}\n\n\
         By kind of op (ms):\n                    \
         per second      mean       p50       p95       p99   largest\n    \
         read              85581.64  0.002110  0.001980  0.003320  0.007100      1.20\n    \
         write             57054.43  0.004120  0.003980  0.005320  0.009100      2.20\n     \
         since due                  0.014000  0.013000  0.025000  0.039000      2.90\n    \
         sync               5707.07    0.0320    0.0300    0.0450    0.0910      3.20\n    \
         5707 syncs a second follow from file-fsync-freq=100 × 4 files: (85582 + 57054) / 100 × 4\n    \
         afterwards all files were synced in 1.31 ms\n\n",
        figures.trim_end()
    )
}

#[test]
fn reads_iodynos_additional_lines_for_each_kind() {
    let found = trials(&ours());
    // The heading of older versions.
    let older = ours().replace("By kind of op (ms):", "Each kind apart (ms):");
    assert_eq!(trials(&older), found);
    assert_eq!(found.len(), 1);
    let trial = &found[0];
    assert_eq!((trial.at.line, trial.workload.as_str()), (1, "rndrw"));
    assert_eq!(fact(trial, "program"), "iodyno");
    for (name, ns) in [
        ("read.mean", 2110.0),
        ("read.p50", 1980.0),
        ("read.p95", 3320.0),
        ("read.p99", 7100.0),
        ("read.max", 1_200_000.0),
        ("write.mean", 14_000.0),
        ("write.p99", 39_000.0),
        ("write.max", 2_900_000.0),
        ("sync.p50", 30_000.0),
        ("sync.max", 3_200_000.0),
    ] {
        assert_eq!(figure(trial, name), Some(ns), "{name}");
    }
    assert_eq!(figure(trial, "read.iops"), Some(85581.64));
    assert!(says(trial, "afterwards all files were synced in 1.31 ms"));
    assert!(says(trial, "5707 syncs a second follow from"));
}

#[test]
fn additional_lines_are_not_left_to_other_readers_and_the_next_run_is_separate() {
    let text = format!("{}{}", ours(), ours());
    let found = read(&Lines::new("run.txt", &text));
    assert_eq!(found.len(), 2);
    let lines = text.lines().count() as u32;
    assert_eq!(
        (found[0].lines.start, found[1].lines.start),
        (1, lines / 2 + 1)
    );
    assert_eq!(found[0].lines.end, lines / 2);
    let without = trials(RNDRW);
    assert_eq!(fact(&without[0], "program"), "sysbench 1.0.20");
    assert_eq!(figure(&without[0], "read.mean"), None);
}

proptest! {
    #[test]
    fn does_not_panic_on_our_truncated_output(end in 0usize..2500) {
        let text = ours();
        let end = (0..=end.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
        for trial in trials(&text[..end.unwrap_or(0)]) {
            prop_assert!(trial.figures.iter().all(|figure| figure.value.is_finite()));
        }
    }

    #[test]
    fn does_not_panic_on_truncated_output(end in 0..RNDRD.len()) {
        for trial in trials(&RNDRD[..end]) {
            prop_assert!(trial.figures.iter().all(|figure| figure.value.is_finite()));
        }
    }

    #[test]
    fn does_not_panic_on_any_lines(
        above in "(\\[ [0-9]{1,3}s \\] reads: [0-9.]{0,5} MiB/s writes: 1 MiB/s fsyncs: 0/s\n){0,3}(Block size [0-9]{0,3}KiB\n)?",
        below in "((reads/s|writes/s|total time|events \\(avg/stddev\\)|[a-zé]{0,5}): {0,3}[0-9./é]{0,8}\n){0,8}",
    ) {
        for trial in trials(&format!("{above}File operations:\n{below}")) {
            prop_assert!(trial.figures.iter().all(|figure| figure.value.is_finite()));
        }
    }
}

#[test]
fn latencies_that_rounding_makes_uncertain_are_withheld_or_get_a_remark() {
    for (printed, value, share) in [
        ("0.01", None, "50 %"),
        ("0.02", Some(20_000.0), "op.p99 ±25 %"),
        ("0.05", Some(50_000.0), "op.p99 ±10 %"),
        ("0.50", Some(500_000.0), ""),
    ] {
        let line = RNDRD
            .lines()
            .find(|line| line.contains("99th percentile"))
            .unwrap();
        let text = RNDRD.replace(line, &format!("         99th percentile: {printed}"));
        let found = trials(&text);
        let trial = &found[0];
        assert_eq!(figure(trial, "op.p99"), value, "{printed}");
        let withheld = trial.withheld.iter().find(|it| it.metric == "op.p99");
        assert_eq!(withheld.is_some(), value.is_none(), "{printed}");
        let found = match withheld {
            Some(withheld) => withheld.why.contains(share),
            None => share.is_empty() != trial.remarks.iter().any(|it| it.contains("op.p99 ±")),
        };
        assert!(found, "{printed} {:?}", trial.remarks);
    }
}
