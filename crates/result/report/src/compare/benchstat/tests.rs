use std::io::Write;
use std::process::{Command, Stdio};

use iodyno_judge::testing;
use iodyno_model::{Behaviour, Figure, Kind, Metric, Observation, Question, Unit};
use iodyno_stats::{Sample, mann_whitney};

use super::benchstat;
use crate::compare::figures::reach;

/// Configuration, workload, and the results of each trial.
type Row = (&'static str, &'static str, fn() -> Metric, &'static [f64]);

const BASE: &str = "ext4 on vda";
const OTHER: &str = "zfs/pool (raidz2)";

/// One, three, six and ten trials per side, with names that contain separators.
const DATA: [Row; 8] = [
    (BASE, "create_empty", iops, &[671.25]),
    (OTHER, "create_empty", iops, &[1117.5]),
    (
        BASE,
        "fsbench/delete 100k",
        completion,
        &[9.8e9, 9.3e9, 10.4e9],
    ),
    (
        OTHER,
        "fsbench/delete 100k",
        completion,
        &[58.1e9, 57.0e9, 59.25e9],
    ),
    (
        BASE,
        "randread-4096",
        iops,
        &[
            138_412.0, 131_007.5, 141_233.0, 139_020.0, 137_998.0, 140_111.0,
        ],
    ),
    (
        OTHER,
        "randread-4096",
        iops,
        &[
            140_900.0, 130_250.0, 149_003.0, 138_877.0, 144_310.0, 136_415.0,
        ],
    ),
    (
        BASE,
        "größer=mehr",
        bandwidth,
        &[
            5.4e8, 5.5e8, 5.45e8, 5.38e8, 5.52e8, 5.47e8, 5.41e8, 5.6e8, 5.3e8, 5.44e8,
        ],
    ),
    (
        OTHER,
        "größer=mehr",
        bandwidth,
        &[
            5.1e8, 5.2e8, 5.15e8, 5.0e8, 5.22e8, 5.17e8, 5.11e8, 5.45e8, 5.05e8, 5.14e8,
        ],
    ),
];

fn iops() -> Metric {
    Metric::iops(Metric::IOPS)
}

fn completion() -> Metric {
    Metric::time(Metric::COMPLETION)
}

fn bandwidth() -> Metric {
    Metric::bandwidth("read.bandwidth")
}

fn observation(dimensions: &[(&str, &str)], figures: &[(Metric, f64)]) -> Observation {
    Observation {
        dimensions: dimensions
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        started_unix_ms: None,
        round: None,
        again: false,
        probe: None,
        unusable: None,
        kind: Kind::Unknown,
        primary: figures.first().map(|(metric, _)| metric.clone()),
        figures: figures
            .iter()
            .map(|(metric, value)| Figure {
                metric: metric.clone(),
                value: *value,
                derived: None,
            })
            .collect(),
        withheld: Vec::new(),
        behaviour: Behaviour::default(),
        facts: Vec::new(),
        options_complete: false,
        flags: Vec::new(),
        source: None,
    }
}

fn trial(configuration: &str, workload: &str, figures: &[(Metric, f64)]) -> Observation {
    let dimensions = [
        (Observation::RUN, "42"),
        (Observation::CONFIGURATION, configuration),
        (Observation::WORKLOAD, workload),
    ];
    observation(&dimensions, figures)
}

fn data() -> Vec<Observation> {
    let rows = DATA
        .iter()
        .flat_map(|(configuration, workload, metric, values)| {
            let values = values.iter();
            values.map(|value| trial(configuration, workload, &[(metric(), *value)]))
        });
    rows.collect()
}

#[test]
fn each_trial_is_a_line_that_benchstat_can_read() {
    insta::assert_snapshot!(benchstat(&data(), &Question::default()));
}

/// The output of `benchstat -format csv -col config` (golang.org/x/perf v0.0.0-20260908200009) for [`DATA`]: name;
/// median and ± of both; change; p and n. Times in seconds.
const PRINTED: [&str; 4] = [
    "create_empty,671.25,∞,1117.5,∞,~,p=1.000 n=1",
    "fsbench/delete_100k,9.8,∞,58.1,∞,~,p=0.100 n=3",
    "randread_4096,138716,6%,139888.5,7%,~,p=0.699 n=6",
    "größer=mehr,5.445e+08,1%,5.145e+08,2%,-5.51%,p=0.000 n=10",
];

/// The same line from our own statistics.
fn ours(pair: &[Row]) -> String {
    let [(_, workload, metric, baseline), (_, _, _, candidate)] = pair else {
        panic!("a row a side");
    };
    let seconds = if metric() == completion() { 1e-9 } else { 1.0 };
    let summary = |values: &[f64]| {
        let found = Sample::new(values).unwrap().median_interval(0.95).unwrap();
        let reach = reach(&iodyno_model::Estimated {
            value: found.median,
            interval: found.interval.map(|interval| (interval.low, interval.high)),
            level: 0.95,
        });
        let reach = reach.map_or("∞".to_owned(), |reach| format!("{:.0}%", reach * 100.0));
        (found.median * seconds, reach)
    };
    let (before, before_reach) = summary(baseline);
    let (after, after_reach) = summary(candidate);
    let p = mann_whitney(baseline, candidate).unwrap().p;
    let change = match p < 0.05 {
        true => format!("{:+.2}%", (after / before - 1.0) * 100.0),
        false => "~".to_owned(),
    };
    let name = super::name(&((*workload).to_owned(), Vec::new()));
    let count = baseline.len();
    format!(
        "{name},{},{before_reach},{},{after_reach},{change},p={p:.3} n={count}",
        go_number(before),
        go_number(after)
    )
}

/// A number in Go's form: the shortest digits, with an exponent from 10⁶ on.
fn go_number(value: f64) -> String {
    match value {
        value if value >= 1e6 => {
            let text = format!("{value:e}");
            let (digits, exponent) = text.split_once('e').unwrap();
            format!("{digits}e+{exponent:0>2}")
        }
        value => ((value * 1e9).round() / 1e9).to_string(),
    }
}

#[test]
fn medians_intervals_p_and_changes_agree_with_benchstat() {
    for (pair, printed) in DATA.chunks(2).zip(PRINTED) {
        assert_eq!(ours(pair), printed);
    }
}

/// Runs benchstat if it is installed; returns its output and its warnings.
fn run_benchstat(arguments: &[&str], text: &str) -> Option<(String, String)> {
    let child = Command::new("benchstat")
        .args(arguments)
        .arg("/dev/stdin")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        writeln!(std::io::stderr(), "SKIPPED: benchstat is not installed").unwrap();
        return None;
    };
    child
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let [printed, warned] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success(), "{warned}");
    Some((printed, warned))
}

/// Warnings that depend only on the number of trials.
fn caused_by_the_number_of_trials(warning: &str) -> bool {
    warning.contains("need >= 6 samples for confidence interval")
        || warning.contains("need >= 4 samples to detect a difference")
}

#[test]
fn benchstat_prints_the_same_values() {
    let text = benchstat(&data(), &Question::default());
    let Some((printed, warned)) = run_benchstat(&["-format", "csv", "-col", "config"], &text)
    else {
        return;
    };
    for line in PRINTED {
        assert!(
            printed.lines().any(|known| known == line),
            "{line} in {printed}"
        );
    }
    assert!(
        warned.lines().all(caused_by_the_number_of_trials),
        "{warned}"
    );
}

#[test]
fn benchstat_warns_only_of_the_number_of_trials_for_any_names() {
    let names = [
        "a b",
        "a_b",
        "a\tb",
        "a/b",
        "-1",
        "x-4096",
        "x_4096",
        "",
        "=",
        "key: value",
        "Unit x y=z",
        "µ\u{2009}ß",
        "lower",
        "1",
        "/",
        "a//b",
        "Benchmark",
    ];
    let mut trials = Vec::new();
    for configuration in ["b", "a: b", "Ärger", " ", "p=1"] {
        for name in names {
            for size in ["4k", "1M/x-8"] {
                let dimensions = [
                    ("configuration", configuration),
                    ("workload", name),
                    ("bs", size),
                    ("Job No", "1-2"),
                    ("engine", configuration),
                ];
                let p99 = Metric::time("write.p99");
                let other = Metric {
                    unit: Unit::Other("fsyncs / s".to_owned()),
                    ..Metric::iops("fsyncs")
                };
                // All values differ, because benchstat warns of equal ones.
                let value = trials.len() as f64 + 1.5;
                let figures = [(p99, value * 1e6), (other, value), (iops(), value)];
                trials.push(observation(&dimensions, &figures));
            }
        }
    }
    let metrics = ["write.p99", "fsyncs", "iops"].map(str::to_owned).to_vec();
    for (columns, rows) in [
        ("configuration", vec!["workload", "bs"]),
        ("bs", vec!["workload", "configuration"]),
        ("workload", vec!["configuration", "bs", "Job No"]),
    ] {
        let question = Question {
            columns: columns.to_owned(),
            rows: rows.into_iter().map(str::to_owned).collect(),
            metrics: metrics.clone(),
            ..Question::default()
        };
        let text = benchstat(&trials, &question);
        let lines = text.lines().filter(|line| line.starts_with("Benchmark"));
        assert_eq!(lines.count(), trials.len());
        let column = super::key(columns);
        let Some((printed, warned)) = run_benchstat(&["-format", "csv", "-col", &column], &text)
        else {
            return;
        };
        assert!(
            warned.lines().all(caused_by_the_number_of_trials),
            "{columns}: {warned}"
        );
        // Every column and every row exists: no line was misread or merged with another.
        let others = trials.len() / values(&trials, columns);
        let rows = printed.lines().filter(|line| line.contains("n=1")).count();
        assert_eq!(rows, 3 * others, "{columns}: {printed}");
    }
}

fn values(trials: &[Observation], dimension: &str) -> usize {
    let values = trials.iter().map(|trial| trial.dimension(dimension));
    values.collect::<std::collections::BTreeSet<&str>>().len()
}

#[test]
fn only_requested_metrics_are_printed_and_the_baseline_is_first() {
    let one = |configuration: &str, value: f64| trial(configuration, "w", &[(iops(), value)]);
    let mut failed = one("xfs", 3.0);
    failed.unusable = Some("round 3 failed: EIO\non /mnt/x".to_owned());
    let mut again = one("xfs (again)", 4.0);
    again.again = true;
    let trials = [
        one("ext4", 1.5),
        one("xfs", 2.5),
        one("zfs", 9.0),
        one("xfs", f64::NAN),
        failed,
        again,
    ];
    let question = Question {
        baseline: Some("xfs".to_owned()),
        only: ["xfs", "ext4"]
            .map(|value| ("configuration".to_owned(), value.to_owned()))
            .to_vec(),
        ..Question::default()
    };
    assert_eq!(
        benchstat(&trials, &question),
        "\
# benchstat -col config FILE
run: 42
Unit ops/sec better=higher
config: xfs
# left out: round 3 failed: EIO on /mnt/x
Benchmarkw 1 2.5 ops/sec
config: ext4
Benchmarkw 1 1.5 ops/sec
"
    );
    assert_eq!(benchstat(&[], &question), "# benchstat -col config FILE\n");
}

#[test]
fn units_name_the_quantity_and_the_direction() {
    let other = |name: &str, unit: &str| Metric {
        unit: Unit::Other(unit.to_owned()),
        ..Metric::iops(name)
    };
    for (metric, unit) in [
        (iops(), "ops/sec"),
        (Metric::iops("read.iops"), "read-ops/sec"),
        (Metric::iops("rate"), "rate-ops/sec"),
        (bandwidth(), "read-B/s"),
        (Metric::time("write.p99"), "write-p99-ns"),
        (completion(), "completion-ns"),
        (other("fsyncs/s", "fsyncs/s"), "fsyncs/s"),
        (
            other("steal", "percent of a core"),
            "steal-percent_of_a_core",
        ),
        (other("score", ""), "score"),
    ] {
        assert_eq!(super::unit(&metric), unit);
    }
}

#[test]
fn lines_of_file_operations_cause_warnings_only_of_the_number_of_trials() {
    let lines: String = [1_000_000_000, 10_500_000_000]
        .into_iter()
        .map(|drain| {
            let (workload, trial) = testing::operations::delete_trial(drain);
            crate::fsbench::benchmark_line(&workload, &trial)
        })
        .collect();
    let text = format!("{}{lines}", crate::fsbench::benchmark_units());
    let Some((printed, warned)) = run_benchstat(&["-format", "csv"], &text) else {
        return;
    };
    // benchstat converts ns to seconds.
    for told in [
        "fsbench/delete,",
        "ops/sec",
        "op-mean-sec",
        "completion-sec,CI\nfsbench/delete,19.75",
    ] {
        assert!(printed.contains(told), "{printed}");
    }
    let others = warned
        .lines()
        .filter(|line| !caused_by_the_number_of_trials(line));
    assert_eq!(others.count(), 0, "{warned}");
}
