//! Complete write-ups as published: every printed figure is found, with its line.

mod common;

use common::Read;
use iodyno_import::{Options, Text, read};
use iodyno_model::{ImportedTrial, Kind};

const FSBENCH: &str = include_str!("data/ext4-zfs-fsbench.txt");
const SYSBENCH: &str = include_str!("data/zfs-sysbench.txt");
const MIRRORS: &str = include_str!("data/zfs-mirror-table.txt");
const ZVOLS: &str = include_str!("data/falcon-zvol-tables.adoc");

fn import(source: &str, text: &str) -> Read {
    read(&[Text { source, text }], &Options::default()).into()
}

fn fsbench() -> Read {
    import("notes/ext4-zfs.txt", FSBENCH)
}

fn of<'i>(imported: &'i Read, workload: &str, configuration: &str) -> Vec<&'i ImportedTrial> {
    let trials = imported.trials.iter();
    trials
        .filter(|trial| trial.workload == workload && trial.configuration == configuration)
        .collect()
}

fn figure(trial: &ImportedTrial, name: &str) -> Option<f64> {
    let mut figures = trial.figures.iter();
    figures
        .find(|figure| figure.metric.name == name)
        .map(|figure| figure.value)
}

fn values(trials: &[&ImportedTrial], name: &str) -> Vec<f64> {
    trials
        .iter()
        .filter_map(|trial| figure(trial, name))
        .collect()
}

#[test]
fn finds_every_run_of_every_benchmark_once() {
    let imported = fsbench();
    let expected = [
        ("create_empty", 3, 3),
        ("delete_10k_2MB", 3, 3),
        ("delete_100k_2MB", 3, 1),
        ("delete_200k_2MB", 3, 0),
        ("delete_10k_2k_200MB", 3, 3),
        ("write_sync_10MB", 3, 3),
        ("statfs_many_files", 3, 3),
    ];
    for (workload, ext4, zfs) in expected {
        let counts = (
            of(&imported, workload, "ext4").len(),
            of(&imported, workload, "zfs").len(),
        );
        assert_eq!(counts, (ext4, zfs), "{workload}");
    }
    let all: usize = expected.iter().map(|(_, ext4, zfs)| ext4 + zfs).sum();
    assert_eq!(imported.trials.len(), all);
    // Sentences with a time: `200k files were deleted in under 6 seconds.`
    let prose = |unread: &&iodyno_model::Unread| unread.why.contains("within prose");
    let sentences = imported.unread.iter().filter(prose).count();
    assert_eq!((sentences, imported.unread.len()), (14, 14));
    assert_eq!(imported.claims.len(), 5);
}

#[test]
fn counts_a_benchmark_that_appears_twice_once() {
    let duplicates = fsbench().rest.duplicates;
    let lines: Vec<(u32, u32)> = duplicates
        .iter()
        .map(|duplicate| (duplicate.first.line, duplicate.again.line))
        .collect();
    let expected = [315, 328, 340, 356, 369, 382].map(|line| (line, line + 93));
    assert_eq!(lines, expected);
}

#[test]
fn reads_each_rate_as_it_is_printed() {
    let imported = fsbench();
    for (workload, configuration, metric, expected) in [
        ("create_empty", "ext4", "iops", &[644.1, 666.9, 704.6][..]),
        ("create_empty", "zfs", "iops", &[1044.0, 1108.1, 1198.1]),
        ("delete_10k_2MB", "ext4", "iops", &[5657.3, 4988.0, 5275.4]),
        ("delete_10k_2MB", "zfs", "iops", &[2770.2, 1989.1, 2507.4]),
        (
            "delete_100k_2MB",
            "ext4",
            "iops",
            &[30400.5, 30839.7, 30263.3],
        ),
        ("delete_100k_2MB", "zfs", "iops", &[1814.5]),
        (
            "delete_200k_2MB",
            "ext4",
            "iops",
            &[40421.6, 39851.7, 38511.9],
        ),
        (
            "delete_10k_2k_200MB",
            "ext4",
            "iops",
            &[529.4, 963.2, 672.9],
        ),
        ("delete_10k_2k_200MB", "zfs", "iops", &[558.7, 570.3, 559.4]),
        ("write_sync_10MB", "ext4", "loop.iops", &[25.1, 25.1, 25.1]),
        ("write_sync_10MB", "zfs", "loop.iops", &[24.4, 24.2, 24.3]),
        (
            "write_sync_10MB",
            "ext4",
            "op.mean",
            &[32.5e6, 32.1e6, 30.4e6],
        ),
        (
            "write_sync_10MB",
            "zfs",
            "op.mean",
            &[37.3e6, 36.5e6, 36.9e6],
        ),
        (
            "write_sync_10MB",
            "zfs",
            "op.max",
            &[83.9e6, 109.1e6, 104.9e6],
        ),
        (
            "statfs_many_files",
            "zfs",
            "loop.iops",
            &[1001.8, 996.8, 961.1],
        ),
        (
            "statfs_many_files",
            "zfs",
            "op.max",
            &[14.2e6, 18.9e6, 11.0e6],
        ),
        (
            "create_empty",
            "zfs",
            "ops",
            &[626378.0, 664861.0, 718886.0],
        ),
    ] {
        let trials = of(&imported, workload, configuration);
        assert_eq!(
            values(&trials, metric),
            expected,
            "{workload} {configuration} {metric}"
        );
    }
}

#[test]
fn judges_deletes_by_their_completion_and_loops_by_the_time_of_an_op() {
    let imported = fsbench();
    for trial in &imported.trials {
        let (kind, primary) = match trial.workload.split('_').next() {
            Some("create") => (Kind::Timed, "iops"),
            Some("delete") => (Kind::Finite, "completion"),
            _ => (Kind::Timed, "op.mean"),
        };
        assert_eq!(
            trial.kind, kind,
            "{} line {}",
            trial.workload, trial.at.line
        );
        assert_eq!(
            trial.primary.as_deref(),
            Some(primary),
            "{}",
            trial.workload
        );
    }
    // The printed time has one decimal; ops and their rate give it more precisely.
    let zfs = of(&imported, "delete_100k_2MB", "zfs")[0];
    let completion = figure(zfs, "completion").unwrap();
    assert!(
        (completion - 100000.0 / 1814.5 * 1e9).abs() < 1.0,
        "{completion}"
    );
}

#[test]
fn withholds_values_that_are_printed_as_zero() {
    let imported = fsbench();
    for trial in of(&imported, "statfs_many_files", "ext4") {
        assert_eq!(figure(trial, "op.mean"), None);
        let withheld: Vec<&str> = trial.withheld.iter().map(|it| it.metric.as_str()).collect();
        assert_eq!(
            withheld,
            [
                "op.mean",
                "op.p50",
                "op.p95",
                "op.p99",
                "ops_from_mean",
                "iops"
            ]
        );
        assert!(trial.withheld[0].why.contains("below 0.05 ms"));
    }
}

#[test]
fn computes_the_rate_of_write_sync_from_its_mean_as_its_author_did() {
    let imported = fsbench();
    let mean = |configuration| {
        let rates = values(
            &of(&imported, "write_sync_10MB", configuration),
            "ops_from_mean",
        );
        rates.iter().sum::<f64>() / rates.len() as f64
    };
    assert_eq!(format!("{:.1}", mean("zfs")), "27.1");
    // The table claims 30.4, which does not follow from its figures.
    assert_eq!(format!("{:.1}", mean("ext4")), "31.6");
}

/// Rows of seconds, as printed: (line, second, rate of the second, cumulative rate).
fn printed_seconds() -> Vec<(u32, f64, f64)> {
    let numbered = (1..).zip(FSBENCH.lines());
    numbered
        .filter_map(|(line, text)| {
            let words: Vec<&str> = text.split_whitespace().collect();
            let second = words.get(1)?.strip_suffix('s')?.parse::<u32>().ok()?;
            let fits = words.len() == 8 && words[0].starts_with("delete_");
            fits.then(|| Some((line, f64::from(second), words[2].parse().ok()?)))?
        })
        .collect()
}

#[test]
fn computes_every_second_but_the_first_as_it_is_printed() {
    let imported = fsbench();
    let mut compared = 0;
    // The second copy of the benchmark is in no trial.
    let once = |(line, _, _): &(u32, f64, f64)| !(401..=493).contains(line);
    for (line, second, printed) in printed_seconds().into_iter().filter(once) {
        let owner = imported
            .trials
            .iter()
            .rev()
            .find(|trial| trial.at.line < line);
        let trial = owner.unwrap();
        let last = trial.series.len() - 1;
        let point = trial.series[last.min(second as usize - 1)];
        if second == 1.0 {
            assert!(point.rate > 50.0 * printed, "line {line}");
            continue;
        }
        // The last second also contains a remainder shorter than a tenth of a second.
        if point.end_ns != (second * 1e9) as u64 {
            continue;
        }
        compared += 1;
        let rounding = 0.1 * second + 0.05;
        let off = (point.rate - printed).abs();
        assert!(
            off <= 0.006 * printed + rounding.max(1.5),
            "line {line}: {} against {printed}",
            point.rate
        );
    }
    assert!(compared > 70, "{compared}");
}

#[test]
fn keeps_all_ops_of_a_trial_in_its_series() {
    let with_series = |trial: &&ImportedTrial| !trial.series.is_empty();
    let imported = fsbench();
    let trials: Vec<&ImportedTrial> = imported.trials.iter().filter(with_series).collect();
    assert_eq!(trials.len(), 19);
    for trial in trials {
        let ops: f64 = trial
            .series
            .iter()
            .map(|point| point.rate * (point.end_ns - point.start_ns) as f64 / 1e9)
            .sum();
        let printed = figure(trial, "ops").unwrap();
        assert!(
            (ops / printed - 1.0).abs() < 1e-6,
            "line {}: {ops}",
            trial.at.line
        );
        let ends = trial.series.last().unwrap().end_ns as f64;
        let completion = figure(trial, "completion").unwrap();
        assert!(
            (ends - completion).abs() < 2.0,
            "line {}: {ends}",
            trial.at.line
        );
    }
}

#[test]
fn finds_the_two_regimes_of_ext4_and_the_dip_of_zfs() {
    let imported = fsbench();
    for trial in of(&imported, "delete_100k_2MB", "ext4") {
        assert!(trial.series[0].rate < 4000.0 && trial.series[2].rate > 60000.0);
        assert!(
            trial
                .remarks
                .iter()
                .any(|it| it.contains("counts from before the set-up"))
        );
    }
    let zfs = of(&imported, "delete_100k_2MB", "zfs")[0];
    assert_eq!(zfs.series.len(), 56);
    let dip = &zfs.series[20..31];
    let mean = dip.iter().map(|point| point.rate).sum::<f64>() / dip.len() as f64;
    assert_eq!(mean.round(), 1633.0);
}

#[test]
fn reads_a_tools_figures_and_the_tables_beside_them() {
    let imported = import("runs/zfs-sysbench.txt", SYSBENCH);
    assert_eq!(imported.trials.len(), 1);
    let trial = &imported.trials[0];
    assert_eq!(trial.configuration, "zfs-sysbench");
    assert_eq!(figure(trial, "sync.iops"), Some(13329.94));
    let tables: Vec<(&str, &str, usize)> = imported
        .tables
        .iter()
        .map(|table| {
            (
                table.form.as_str(),
                table.subject.as_str(),
                table.rows.len(),
            )
        })
        .collect();
    assert_eq!(
        tables,
        [
            ("zpool iostat", "backup", 5),
            ("zpool iostat", "zp0", 5),
            ("/proc/interrupts", "", 20)
        ]
    );
    assert_eq!(imported.unread, []);
}

#[test]
fn treats_repeated_short_results_as_another_run_and_long_ones_as_a_copy() {
    for (line, trials, duplicates) in [
        ("BenchmarkX-8 1000 70 ns/op 120 ops/sec 4 MB/s\n", 2, 0),
        ("BenchmarkX-8 1000 70.31 ns/op 14222 ops/sec 4 MB/s\n", 1, 1),
        ("fsbench/delete_10k_2MB  10000 5657.3 ops/sec\n", 1, 1),
    ] {
        let imported = import("new.txt", &format!("{line}\nand once more:\n{line}"));
        let found = (imported.trials.len(), imported.duplicates.len());
        assert_eq!(found, (trials, duplicates), "{line}");
        // Directly after each other they are repetitions.
        let imported = import("new.txt", &format!("{line}\n{line}"));
        let found = (imported.trials.len(), imported.duplicates.len());
        assert_eq!(found, (2, 0), "{line}");
    }
}

#[test]
fn finds_the_statements_that_their_own_figures_contradict() {
    let found = |text| -> Vec<(u32, u32, String)> {
        let contradictions = import("a.txt", text).rest.contradictions.into_iter();
        contradictions
            .map(|it| (it.at.line, it.against.line, it.shown))
            .collect()
    };
    let expected = |all: &[(u32, u32, &str)]| -> Vec<(u32, u32, String)> {
        let all = all.iter();
        all.map(|(at, against, shown)| (*at, *against, (*shown).to_owned()))
            .collect()
    };
    assert_eq!(
        found(FSBENCH),
        expected(&[
            (
                24,
                14,
                "386 438 to 422 736 ops in 3 trials, lines 14, 17, 20"
            ),
            (311, 311, "2000 × 1.91 MiB is 3.73 GiB"),
            (351, 315, "longer in 1 of 3 trials: 3.78 s"),
            (404, 404, "2000 × 1.91 MiB is 3.73 GiB"),
            (444, 408, "longer in 1 of 3 trials: 3.78 s"),
        ])
    );
    assert_eq!(
        found(ZVOLS),
        expected(&[(16, 32, "`volsize` has a size of 20 GiB")])
    );
    assert_eq!(
        found(SYSBENCH),
        expected(&[
            (
                3,
                31,
                "the result has 1 thread, mode rndrw: it was not measured with the options of this command"
            ),
            (
                67,
                76,
                "since boot, one CPU received nearly all interrupts of 1 of 20 sources: 99 (blkif): 99.7 % on CPU0: 20 281 233 of \
                 20 336 274"
            ),
        ])
    );
    assert_eq!(found(MIRRORS), []);
}
