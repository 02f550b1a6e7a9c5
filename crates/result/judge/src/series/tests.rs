use iodyno_model::{FigureTable, SeriesKind, SeriesUnit, Telemetry};

use super::{balance, figures, measured};
use crate::testing::telemetry::{SECOND, cpu_second, recording};
use crate::testing::{self};
use SeriesKind::*;

/// The value of a figure in the row with that number.
#[track_caller]
fn value(table: &FigureTable, row: usize, name: &str) -> Option<f64> {
    let mut columns = table.columns.iter();
    let column = columns.position(|column| column.name == name);
    let column = column.unwrap_or_else(|| panic!("no column {name} in {:?}", table.columns));
    table.rows[row].values[column]
}

/// The figures of a row, rounded to two decimals.
#[track_caller]
fn check(table: &FigureTable, row: usize, expected: &[(&str, Option<f64>)]) {
    for (name, wanted) in expected {
        let found = value(table, row, name).map(|value| (value * 100.0).round() / 100.0);
        assert_eq!(found, *wanted, "{name} of row {row}");
    }
}

fn unit(table: &FigureTable, name: &str) -> SeriesUnit {
    let mut columns = table.columns.iter();
    columns.find(|column| column.name == name).unwrap().unit
}

fn disk(second: u32) -> Vec<(&'static str, testing::telemetry::Named)> {
    let named = match second {
        0 => vec![
            ("reads", 1000),
            ("writes", 500),
            ("flushes", 4),
            ("read_merges", 20),
            ("write_merges", 500),
            ("discards", 100),
            ("discard_merges", 300),
            ("discarded_bytes", 6_400_000),
            ("read_bytes", 4_096_000),
            ("written_bytes", 8_192_000),
            ("read_time", 2 * SECOND),
            ("write_time", SECOND),
            ("flush_time", SECOND / 100),
            ("busy_time", SECOND + SECOND / 100),
            ("queue_time", 3 * SECOND),
            ("in_flight", 5),
        ],
        _ => vec![("busy_time", SECOND / 2), ("in_flight", 1)],
    };
    vec![("vda", named)]
}

#[test]
fn disks_have_the_figures_of_iostat() {
    let telemetry = recording().seconds(Disk, 2, disk).done();
    let table = figures(&telemetry, Disk, None);
    let expected = [
        ("r/s", Some(1000.0)),
        ("w/s", Some(500.0)),
        ("d/s", Some(100.0)),
        ("f/s", Some(4.0)),
        ("rB/s", Some(4_096_000.0)),
        ("wB/s", Some(8_192_000.0)),
        ("rrqm/s", Some(20.0)),
        ("wrqm/s", Some(500.0)),
        ("drqm/s", Some(300.0)),
        ("%rrqm", Some(1.96)),
        ("%wrqm", Some(50.0)),
        ("%drqm", Some(75.0)),
        ("r_await", Some(2e6)),
        ("w_await", Some(2e6)),
        ("d_await", Some(0.0)),
        ("dareq-sz", Some(64_000.0)),
        ("f_await", Some(2.5e6)),
        ("rareq-sz", Some(4096.0)),
        ("wareq-sz", Some(16384.0)),
        ("aqu-sz", Some(3.0)),
        ("%util", Some(100.0)),
        ("in flight", Some(5.0)),
    ];
    check(&table, 0, &expected);
    check(&table, 1, &[("r_await", None), ("%util", Some(50.0))]);
    assert_eq!(unit(&table, "r_await"), SeriesUnit::Nanos);
    assert_eq!(table.rows[0].subject, "vda");
}

#[test]
fn figures_of_merged_samples_are_those_of_all_requests() {
    let telemetry = recording().seconds(Disk, 4, disk).done();
    let table = figures(&telemetry, Disk, Some(4 * SECOND));
    assert_eq!(table.rows.len(), 1);
    assert_eq!(
        (table.rows[0].at_ns, table.rows[0].span_ns),
        (4_000_000_000, 4 * SECOND)
    );
    // An idle second counts in a rate, but not in an await.
    check(
        &table,
        0,
        &[
            ("r/s", Some(250.0)),
            ("r_await", Some(2e6)),
            ("in flight", Some(2.0)),
        ],
    );
}

#[test]
fn cpus_have_a_row_of_all_before_each() {
    let rows = |_| {
        vec![
            ("CPU0", cpu_second([10, 20, 60, 5, 5])),
            ("CPU1", cpu_second([50, 40, 0, 0, 10])),
        ]
    };
    let telemetry = recording().seconds(Cpu, 1, rows).done();
    let table = figures(&telemetry, Cpu, None);
    let subjects: Vec<&str> = table.rows.iter().map(|row| row.subject.as_str()).collect();
    assert_eq!(subjects, ["all", "CPU0", "CPU1"]);
    check(
        &table,
        0,
        &[
            ("%user", Some(30.0)),
            ("%idle", Some(30.0)),
            ("%irq", Some(7.5)),
        ],
    );
    check(&table, 1, &[("%iowait", Some(5.0)), ("%steal", Some(0.0))]);
    check(
        &table,
        2,
        &[
            ("%user", Some(50.0)),
            ("%system", Some(40.0)),
            ("%idle", Some(0.0)),
        ],
    );
}

#[test]
fn parts_of_cpu_time_are_not_counted_twice() {
    let parts = |_| {
        let parts = vec![
            ("nice", SECOND / 10),
            ("guest", SECOND / 5),
            ("soft", SECOND / 20),
        ];
        vec![("CPU0", [cpu_second([40, 20, 25, 5, 10]), parts].concat())]
    };
    let mut telemetry = recording().seconds(Cpu, 1, parts).done();
    let table = figures(&telemetry, Cpu, None);
    let whole = [
        ("%user", Some(40.0)),
        ("%idle", Some(25.0)),
        ("%irq", Some(10.0)),
    ];
    check(&table, 0, &whole);
    let parts = [
        ("%nice", Some(10.0)),
        ("%guest", Some(20.0)),
        ("%soft", Some(5.0)),
    ];
    check(&table, 0, &parts);
    let checks = crate::examine(&iodyno_model::Environment::default(), &telemetry);
    let load = checks.iter().find(|check| check.name == "other load");
    assert_eq!(load.unwrap().found, "70.0 % of 1 CPUs");
    // As older versions stored it.
    telemetry.shapes[0].columns.truncate(6);
    telemetry.samples[0].values.truncate(6);
    let table = figures(&telemetry, Cpu, None);
    check(&table, 0, &whole);
    check(&table, 0, &[("%nice", None), ("%soft", None)]);
}

#[test]
fn interrupts_have_the_busiest_cpu_and_the_balance() {
    let telemetry = recording()
        .seconds(Interrupts, 1, |_| {
            vec![
                ("99 blkif", vec![("CPU0", 900), ("CPU1", 100)]),
                ("100 silent", vec![("CPU0", 0), ("CPU1", 0)]),
                ("101 even", vec![("CPU0", 50), ("CPU1", 50)]),
            ]
        })
        .seconds_from(1, Interrupts, 1, |_| vec![("101 even", vec![("CPU1", 30)])])
        .because("CPU0 has gone")
        .gap(1, Interrupts, "cannot read /proc/interrupts")
        .gap(1, Disk, "of another series")
        .done();
    let table = figures(&telemetry, Interrupts, None);
    let subjects: Vec<&str> = table.rows.iter().map(|row| row.subject.as_str()).collect();
    assert_eq!(subjects, ["all", "99 blkif", "101 even", "all", "101 even"]);
    check(
        &table,
        1,
        &[
            ("total/s", Some(1000.0)),
            ("%busiest", Some(90.0)),
            ("busiest", Some(0.0)),
            // 1000² ÷ (2 · (900² + 100²))
            ("balance", Some(0.61)),
            ("CPU0", Some(900.0)),
            ("CPU1", Some(100.0)),
        ],
    );
    check(
        &table,
        0,
        &[("total/s", Some(1100.0)), ("CPU1", Some(150.0))],
    );
    check(
        &table,
        2,
        &[("balance", Some(1.0)), ("%busiest", Some(50.0))],
    );
    check(
        &table,
        4,
        &[("CPU0", None), ("CPU1", Some(30.0)), ("busiest", Some(1.0))],
    );
    let remarks: Vec<(i64, &str)> = (table.remarks.iter())
        .map(|(at, words)| (*at, words.as_str()))
        .collect();
    assert_eq!(
        remarks,
        [
            (1_000_000_000, "cannot read /proc/interrupts"),
            (2_000_000_000, "CPU0 has gone")
        ]
    );
}

#[test]
fn jains_index_is_1_if_all_are_equal_and_1_of_n_if_one_has_all() {
    let cases: [(&[f64], Option<f64>); 6] = [
        (&[], None),
        (&[0.0, 0.0], None),
        (&[7.0], Some(1.0)),
        (&[3.0, 3.0, 3.0, 3.0], Some(1.0)),
        (&[9.0, 0.0, 0.0, 0.0], Some(0.25)),
        (&[1.0, 3.0], Some(0.8)),
    ];
    for (shares, expected) in cases {
        assert_eq!(balance(shares), expected, "{shares:?}");
    }
}

#[test]
fn every_other_series_has_its_figures() {
    let telemetry = recording()
        .seconds(Load, 1, |_| {
            let load = vec![("load1", 152), ("running", 3), ("blocked", 2)];
            vec![("", [load, vec![("switches", 4321)]].concat())]
        })
        .seconds(Pressure, 1, |_| {
            vec![("io", vec![("some", SECOND / 4), ("full", SECOND / 8)])]
        })
        .seconds(Memory, 1, |_| {
            vec![("", vec![("dirty", 4096), ("available", 1 << 30)])]
        })
        .seconds(Network, 1, |_| {
            let counts = vec![("received_bytes", 4096), ("sent_packets", 12)];
            vec![("eth0", counts)]
        })
        .seconds(Reclaim, 1, |_| {
            vec![("", vec![("scanned_direct", 8192), ("stalls", 3)])]
        })
        .seconds(Pool, 1, |_| {
            vec![("tank", vec![("reads", 7), ("write_bandwidth", 795_000_000)])]
        })
        .seconds(Arc, 2, |second| {
            let hits = 90 * u64::from(1 - second);
            vec![("", vec![("hits", hits), ("misses", hits / 9), ("size", 5)])]
        })
        .seconds(Cgroup, 1, |_| {
            vec![("loop0", vec![("reads", 99), ("reads_limit", 100)])]
        })
        .seconds(Process, 1, |_| {
            vec![(
                "virtiofsd[7]",
                vec![("user", SECOND / 2), ("system", SECOND), ("threads", 9)],
            )]
        })
        .seconds(Others, 1, |_| {
            vec![("rsync[99]", vec![("read_bytes", 1 << 20)])]
        })
        .done();
    let of = |kind| figures(&telemetry, kind, None);
    check(
        &of(Load),
        0,
        &[
            ("load1", Some(1.52)),
            ("running", Some(3.0)),
            ("blocked", Some(2.0)),
            ("cswch/s", Some(4321.0)),
        ],
    );
    check(
        &of(Network),
        0,
        &[("rxB/s", Some(4096.0)), ("txpck/s", Some(12.0))],
    );
    check(
        &of(Pressure),
        0,
        &[("some", Some(25.0)), ("full", Some(12.5))],
    );
    check(
        &of(Memory),
        0,
        &[
            ("dirty", Some(4096.0)),
            ("available", Some(1_073_741_824.0)),
        ],
    );
    check(
        &of(Reclaim),
        0,
        &[("scanned_direct", Some(8192.0)), ("stalls/s", Some(3.0))],
    );
    check(
        &of(Pool),
        0,
        &[("read/s", Some(7.0)), ("write B/s", Some(795e6))],
    );
    check(
        &of(Arc),
        0,
        &[
            ("hits/s", Some(90.0)),
            ("hit%", Some(90.0)),
            ("size", Some(5.0)),
        ],
    );
    check(&of(Arc), 1, &[("hits/s", Some(0.0)), ("hit%", None)]);
    check(
        &of(Cgroup),
        0,
        &[
            ("r/s", Some(99.0)),
            ("r/s limit", Some(100.0)),
            ("w/s limit", None),
        ],
    );
    check(
        &of(Process),
        0,
        &[
            ("cores", Some(1.5)),
            ("%user", Some(50.0)),
            ("threads", Some(9.0)),
        ],
    );
    check(
        &of(Others),
        0,
        &[("rB/s", Some(1_048_576.0)), ("wB/s", Some(0.0))],
    );
}

#[test]
fn pools_have_the_waits_and_queues_that_their_version_of_zfs_reports() {
    let waits = |_| {
        let values = vec![("total_wait_write", 1_873_211), ("asyncq_write_pend", 37)];
        vec![("tank", values)]
    };
    let mut telemetry = recording().seconds(Pool, 1, waits).done();
    let table = figures(&telemetry, Pool, None);
    let known = [
        ("total_wait_write", Some(1_873_211.0)),
        ("asyncq_write_pend", Some(37.0)),
    ];
    check(&table, 0, &known);
    assert_eq!(unit(&table, "total_wait_write"), SeriesUnit::Nanos);
    // An older version, or a run that was stored by an older version of iodyno.
    telemetry.shapes[0].columns.truncate(6);
    telemetry.samples[0].values.truncate(6);
    let table = figures(&telemetry, Pool, None);
    assert_eq!((table.columns.len(), table.rows[0].values.len()), (6, 6));
}

#[test]
fn missing_samples_and_values_give_columns_and_unknown_figures() {
    for kind in SeriesKind::ALL {
        let table = figures(&Telemetry::default(), kind, Some(SECOND));
        assert!(!table.columns.is_empty() && table.rows.is_empty());
        assert!(table.remarks.is_empty());
    }
    let named = |_| vec![("vda", vec![("CPU0", 1u64), ("reads", 1)])];
    for kind in SeriesKind::ALL {
        let mut telemetry = recording().seconds(kind, 2, named).done();
        telemetry.samples[0].values.fill(None);
        telemetry.samples[1].span_ns = 0;
        let table = figures(&telemetry, kind, None);
        let width = table.columns.len();
        assert!(table.rows.iter().all(|row| row.values.len() == width));
        let first = table.rows.iter().filter(|row| row.at_ns == SECOND as i64);
        assert!(
            first.flat_map(|row| &row.values).all(Option::is_none),
            "{kind:?}"
        );
        telemetry.samples[0].values.clear();
        figures(&telemetry, kind, None);
    }
}

#[test]
fn samples_at_the_edges_of_the_measured_time_are_omitted() {
    let (_, mut trial) = testing::four_clones();
    for clone in &mut trial.parts[0].clones {
        // A ramp of 3.2 s before it, and some microseconds after the sample at 23 s.
        (clone.start_ns, clone.runtime_ns) = (3_200_000_000, 19_800_020_000);
    }
    trial.telemetry = recording()
        .seconds(Load, 30, |_| vec![("", vec![])])
        .gap(1, Disk, "lost")
        .done();
    let seconds = |trial: &iodyno_model::Trial| -> Vec<i64> {
        let telemetry = measured(trial);
        assert_eq!(telemetry.gaps.len(), 1);
        telemetry
            .samples
            .iter()
            .map(|sample| sample.at_ns / SECOND as i64)
            .collect()
    };
    assert_eq!(seconds(&trial), (5..=23).collect::<Vec<_>>());
    for clone in &mut trial.parts[0].clones {
        // Begun just after the sample at 3 s: the next one is almost complete.
        (clone.start_ns, clone.runtime_ns) = (3_000_300_000, 2_000_000_000);
    }
    assert_eq!(seconds(&trial), [4, 5]);
    // One job after the other: the time between them does not count.
    trial.parts[0].clones[0].start_ns = 10_000_000_000;
    assert_eq!(seconds(&trial), [4, 5, 11, 12]);
    // An interrupted trial: the frames are used.
    trial.parts[0].clones.clear();
    assert_eq!(seconds(&trial), (1..=20).collect::<Vec<_>>());
    trial.frames.clear();
    assert_eq!(seconds(&trial), [0i64; 0]);
}

#[test]
fn no_task_waits_for_longer_than_there_was_time() {
    let pressed = |some| {
        let rows = move |_| vec![("io", vec![("some", some), ("full", SECOND / 4)])];
        let telemetry = recording().seconds(SeriesKind::Pressure, 1, rows).done();
        figures(&telemetry, SeriesKind::Pressure, None).rows[0]
            .values
            .clone()
    };
    for (some, percent) in [(SECOND / 2, 50.0), (SECOND * 102 / 100, 100.0)] {
        assert_eq!(pressed(some), [Some(percent), Some(25.0)]);
    }
}
