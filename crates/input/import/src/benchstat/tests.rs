use std::fmt::Write as _;

use iodyno_model::{Better, Claim, ClaimRules, ClaimSubject, ImportedTrial, Kind, Unit};
use proptest::prelude::*;

use super::*;
use crate::extract::ExtractContent;

const SEED: &str = include_str!("../../tests/data/ext4-zfs-fsbench.txt");

#[derive(Debug, Default)]
struct Everything {
    trials: Vec<ImportedTrial>,
    claims: Vec<Claim>,
    unread: Vec<String>,
}

fn everything(text: &str) -> Everything {
    let mut all = Everything::default();
    for found in read(&Lines::new("bench.txt", text)) {
        match found.what {
            ExtractContent::Trial(trial) => all.trials.push(*trial),
            ExtractContent::Claim(claim) => all.claims.push(*claim),
            ExtractContent::Unread(why) => all.unread.push(why),
            _ => {}
        }
    }
    all
}

fn figure(trial: &ImportedTrial, name: &str) -> Option<f64> {
    let mut figures = trial.figures.iter();
    figures
        .find(|figure| figure.metric.name == name)
        .map(|figure| figure.value)
}

fn in_words(claims: &[Claim]) -> String {
    let mut text = String::new();
    for Claim {
        at,
        workload,
        unit,
        sides,
        delta,
        p,
        n,
        ..
    } in claims
    {
        let (sides, line) = (sides.join(" | "), at.line);
        writeln!(
            text,
            "{line} {workload} [{unit}] {sides} | {delta} | {p:?} {n:?}"
        )
        .unwrap();
    }
    text
}

#[test]
fn reads_the_rows_of_the_old_table_as_printed() {
    let all = everything(SEED);
    assert_eq!(
        in_words(&all.claims),
        "590 create_empty [ops/sec] 672 ± 5% | 1117 ± 7% | ~ | Some(0.1) [3, 3]\n\
         591 delete_10k_2MB [ops/sec] 5.31k ± 7% | 2.42k ±18% | ~ | Some(0.1) [3, 3]\n\
         592 delete_100k_2MB [ops/sec] 30.5k ± 1% | 1.8k ± 1% | ~ | Some(0.1) [3, 3]\n\
         593 delete_10k_2k_200MB [ops/sec] 722 ±33% | 563 ± 1% | ~ | Some(0.7) [3, 3]\n\
         594 write_sync_10MB [ops/sec] 30.4 ± 3% | 27.1 ± 1% | ~ | Some(0.1) [3, 3]\n"
    );
    assert!(all.trials.is_empty() && all.unread.is_empty(), "{all:?}");
}

#[test]
fn reads_the_rows_of_the_new_table() {
    let text = "goos: linux\n\
                \u{20}           │      a       │                    b                    │\n\
                \u{20}           │    sec/op    │    sec/op      vs base                  │\n\
                X/rw=read-8   7.000n ± 29%   65.000n ± ∞ ¹  +828.57% (p=0.010 n=6+4)\n\
                Y             7.000n ± 29%   7.000n ± 29%  ~ (p=1.000 n=6) ²\n\
                geomean       12.00n         23.00n        +50.00%\n\
                ¹ need >= 6 samples for confidence interval at level 0.95\n\
                ² all samples are equal\n\n\
                prose 1 2 3%\n";
    let all = everything(text);
    assert_eq!(
        in_words(&all.claims),
        "4 X/rw=read-8 [sec/op] 7.000n ± 29% | 65.000n ± ∞ | +828.57% | Some(0.01) [6, 4]\n\
         5 Y [sec/op] 7.000n ± 29% | 7.000n ± 29% | ~ | Some(1.0) [6, 6]\n\
         6 geomean [sec/op] 12.00n | 23.00n | +50.00% | None []\n"
    );
    assert!(all.unread.is_empty(), "{:?}", all.unread);
    let ClaimSubject {
        rules,
        table,
        columns,
        benchmark,
        dimensions,
        keys,
        metrics,
        geomean,
    } = &all.claims[0].subject;
    assert_eq!((*rules, *table, *geomean), (ClaimRules::Medians, 3, false));
    assert_eq!(*columns, [["a"], ["b"]]);
    assert_eq!(benchmark, "X");
    assert_eq!(dimensions["rw"], "read");
    assert_eq!(dimensions["gomaxprocs"], "8");
    assert_eq!(keys["goos"], "linux");
    let names: Vec<&str> = metrics.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["op.mean", "sec/op", "ns/op"]);
    assert!(metrics.iter().all(|(_, factor)| *factor == 1e9));
    assert!(all.claims[2].subject.geomean);
}

/// Tables in the form that benchstat has printed since 2022, and in the one before; shortened by hand.
#[test]
fn reads_tables_of_any_number_of_columns() {
    let new = "config: q\n\
               Benchmark\n\
               pkg: foo\n\
               \u{20}                     │     a.txt     │              b.txt               │              c.txt               │\n\
               \u{20}                     │      a/s      │      a/s        vs base          │      a/s        vs base          │\n\
               X/rw=read/config=q-8    5.150n ± ∞ ¹\n\
               Y 4k                    6.200n ± ∞ ¹     7.200n ± ∞ ¹  ~ (p=1.000 n=1) ²    8.200n ± ∞ ¹  ~ (p=1.000 n=1) ²\n\
               Z                                                                           5.350n ± ∞ ¹\n\
               geomean                 5.651n                         ? ² ³                            -8.50%               ³\n\
               ² benchmark set differs from baseline; geomeans may not be comparable\n";
    let all = everything(new);
    assert_eq!(
        in_words(&all.claims),
        "6 X/rw=read/config=q-8 [a/s] 5.150n ± ∞ |  | None []\n\
         7 Y 4k [a/s] 6.200n ± ∞ | 7.200n ± ∞ | ~ | Some(1.0) [1, 1]\n\
         7 Y 4k [a/s] 6.200n ± ∞ | 8.200n ± ∞ | ~ | Some(1.0) [1, 1]\n\
         8 Z [a/s] 5.350n ± ∞ |  | None []\n\
         9 geomean [a/s] 5.651n |  | ? | None []\n\
         9 geomean [a/s] 5.651n |  | -8.50% | None []\n"
    );
    assert!(all.unread.is_empty(), "{:?}", all.unread);
    assert_eq!(all.claims[0].subject.keys["configuration"], "q");
    assert_eq!(all.claims[0].subject.keys["pkg"], "foo");
    assert_eq!(all.claims[2].subject.columns, [["a.txt"], ["c.txt"]]);
    assert_eq!(all.claims[3].subject.columns, [["c.txt"]]);
    let old = "name \\ time/op         a.txt          b.txt          a.txt\n\
               pkg:foo goos:linux\n\
               X/rw=read-8            5.15ns ± 1%    7.15ns ± 1%    5.15ns ± 1%\n\
               Y                                     6.20ns ± 0%\n\
               \n\
               [Geo mean]               5.49ns         6.98ns         5.49ns\n\
               \n\
               name  alloc/op\n\
               Y     3.50B ±14%\n";
    let all = everything(old);
    assert_eq!(
        in_words(&all.claims),
        "3 X/rw=read-8 [time/op] 5.15ns ± 1% | 7.15ns ± 1% | 5.15ns ± 1% |  | None []\n\
         4 Y [time/op] 6.20ns ± 0% |  | None []\n\
         6 [Geo mean] [time/op] 5.49ns | 6.98ns | 5.49ns |  | None []\n\
         9 Y [alloc/op] 3.50B ±14% |  | None []\n"
    );
    assert!(all.unread.is_empty(), "{:?}", all.unread);
    assert_eq!(all.claims[0].subject.keys["pkg"], "foo");
    assert!(all.claims[2].subject.keys.is_empty());
    assert_eq!(all.claims[3].subject.metrics, [("B/op".to_owned(), 1.0)]);
}

#[test]
fn says_why_it_does_not_read_a_row() {
    for (text, words) in [
        (
            "name  old ops/sec  new ops/sec  delta\nx  twelve\n",
            "a value for each column",
        ),
        ("BenchmarkX 10 5.0\n", "lacks its unit"),
        ("BenchmarkX 10\n", "without a value"),
        (
            "BenchmarkX 10 fast ns/op\n",
            "`fast` on a benchmark line is not a number",
        ),
    ] {
        let all = everything(text);
        assert_eq!(all.unread.len(), 1, "{text}");
        assert!(all.unread[0].contains(words), "{:?}", all.unread);
        assert!(all.claims.is_empty() && all.trials.is_empty(), "{text}");
    }
}

#[test]
fn reads_lines_with_their_keys_and_parts_of_names() {
    let text = "goos: linux\n\
                config: ext4\n\
                note: first\n\
                Unit weight better=higher\n\
                BenchmarkRead/bs=4k/rw=randread-8   100   5.0 ns/op   10 MB/s   3 weight   7 size\n\
                note:\n\
                BenchmarkRead/config=zfs/bs=4k 1 2 sec/op\n\
                Benchmark of reads, 5 times\n\
                Benchmarks 12\n\
                --- BENCH: BenchmarkRead\n";
    let all = everything(text);
    assert_eq!(all.trials.len(), 2);
    let first = &all.trials[0];
    assert_eq!(
        (first.workload.as_str(), first.configuration.as_str()),
        ("Read", "ext4")
    );
    for (name, value) in [
        ("bs", "4k"),
        ("rw", "randread"),
        ("gomaxprocs", "8"),
        ("note", "first"),
    ] {
        assert_eq!(first.dimensions[name], value, "{name}");
    }
    assert_eq!(first.facts[0].name, "goos");
    assert_eq!(first.primary.as_deref(), Some("op.mean"));
    for (name, value) in [
        ("op.mean", 5.0),
        ("bandwidth", 10e6),
        ("weight", 3.0),
        ("size", 7.0),
    ] {
        assert_eq!(figure(first, name), Some(value), "{name}");
    }
    let of = |name: &str| {
        first
            .figures
            .iter()
            .find(|it| it.metric.name == name)
            .unwrap()
    };
    assert_eq!(of("weight").metric.better, Better::Higher);
    assert_eq!(of("size").metric.better, Better::Lower);
    assert_eq!(of("size").metric.unit, Unit::Other("size".to_owned()));
    let second = &all.trials[1];
    assert_eq!(
        second.configuration, "zfs",
        "a part of the name has precedence over the key"
    );
    assert_eq!(figure(second, "op.mean"), Some(2e9));
    assert_eq!(
        second.dimensions.len(),
        2,
        "a line without a value removes a key, but not a part of the name"
    );
    assert_eq!(
        all.unread,
        ["a benchmark line without a value"],
        "`Benchmarks 12`"
    );
}

#[test]
fn reads_the_benchmark_format_that_a_comparison_exports() {
    let text = "# benchstat -col workload FILE\n\
                run: 42\n\
                Unit completion-ns better=lower\n\
                Unit read-ops/sec better=higher\n\
                workload: a\n\
                Benchmark_ 1 2000000000 completion-ns 17.5 read-ops/sec 120 read-p99-9-ns\n";
    let all = everything(text);
    let trial = &all.trials[0];
    assert_eq!((trial.workload.as_str(), trial.kind), ("a", Kind::Finite));
    assert_eq!(trial.dimensions["run"], "42");
    for (name, value) in [
        ("completion", 2e9),
        ("read.iops", 17.5),
        ("read.p99.9", 120.0),
    ] {
        assert_eq!(figure(trial, name), Some(value), "{name}");
    }
}

#[test]
fn recognises_a_file_operation_by_its_name() {
    let all = everything("config: zfs\nBenchmarkfsbench/delete_10k_2MB  10000 5657.3 ops/sec\n");
    let trial = &all.trials[0];
    assert_eq!(
        (trial.workload.as_str(), trial.configuration.as_str()),
        ("delete_10k_2MB", "zfs")
    );
    assert_eq!(trial.kind, Kind::Finite);
    assert_eq!(figure(trial, "iops"), Some(5657.3));
    assert_eq!(figure(trial, "completion"), Some(10000.0 / 5657.3 * 1e9));
}

proptest! {
    #[test]
    fn does_not_panic_on_any_lines(text in "((Benchmark|Unit |name  old x  new x  delta\n|│ x │ x vs base │\n)?[a-zX±~%é:/=0-9. -]{0,30}\n){0,8}") {
        for trial in everything(&text).trials {
            prop_assert!(trial.figures.iter().all(|figure| figure.value.is_finite()));
        }
    }
}

#[test]
fn several_units_of_one_quantity_are_several_metrics() {
    let text = "BenchmarkRead/config=a 1 100 ns/op 7000 sec/op 5 MB/s 3 GB/s 10 iops 20 ops/sec 30 ops/sec\n";
    let found = everything(text);
    let trial = &found.trials[0];
    for (name, value) in [
        ("op.mean", 100.0),
        ("sec/op", 7e12),
        ("bandwidth", 5e6),
        ("GB/s", 3e9),
        ("iops", 10.0),
        ("ops/sec", 20.0),
    ] {
        assert_eq!(figure(trial, name), Some(value), "{name}");
    }
    assert_eq!(
        trial.remarks,
        ["`ops/sec` is given twice; the first value counts"]
    );
    // A table in the second unit is checked against its own figures.
    for (unit, own, factor) in [
        ("ops/sec", "ops/sec", 1.0),
        ("sec/op", "sec/op", 1e9),
        ("GB/s", "GB/s", 1e9),
    ] {
        assert!(
            super::units::of_table(unit).contains(&(own.to_owned(), factor)),
            "{unit}"
        );
        assert!(
            super::units::of_old_table(unit).contains(&(own.to_owned(), factor)),
            "{unit}"
        );
    }
}
