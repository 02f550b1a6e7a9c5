use iodyno_judge::figures;
use iodyno_judge::testing::telemetry::{SECOND, recording};
use iodyno_model::{
    FigureColumn, FigureRow, FigureTable, SamplerCost, SeriesKind, SeriesUnit, Step, StepTime,
    Telemetry,
};
use proptest::prelude::*;
use serde_json::Value;

use super::{TrialClock, TrialSeries, costs, csv, json, raw_csv, text};
use crate::Style;
use crate::style::width;

const EIGHTY: Style = Style {
    color: false,
    width: 80,
    unicode: true,
};

/// A disk and a loop device on it for one minute; a disk disappears halfway.
fn disks() -> Telemetry {
    recording()
        .seconds(SeriesKind::Disk, 60, |second| {
            let reads = 14_000 + 90 * u64::from(second);
            let disk = |slower: u64| {
                vec![
                    ("reads", reads),
                    ("writes", 4_600),
                    ("flushes", 12),
                    ("read_bytes", reads * 4096),
                    ("written_bytes", 4_600 * 4096),
                    ("read_time", reads * 346_000 * slower),
                    ("write_time", 4_600 * 1_120_000 * slower),
                    ("busy_time", SECOND * 97 / 100),
                    ("queue_time", 7 * SECOND * slower),
                    ("in_flight", 16),
                ]
            };
            vec![("loop0", disk(2)), ("vda", disk(1))]
        })
        .gap(
            31,
            SeriesKind::Disk,
            "vdb has gone: no such device any more",
        )
        .done()
}

/// One source of interrupts on the last of many CPUs, and one on all CPUs.
fn interrupts(cpus: u64) -> Telemetry {
    let names: Vec<&'static str> = (0..cpus)
        .map(|cpu| &*Box::leak(format!("CPU{cpu}").into_boxed_str()))
        .collect();
    recording()
        .seconds(SeriesKind::Interrupts, 2, |_| {
            let counts = |count: &dyn Fn(usize) -> u64| {
                let names = names.iter().enumerate();
                names.map(|(cpu, name)| (*name, count(cpu))).collect()
            };
            let last = names.len() - 1;
            vec![
                (
                    "36 virtio1-req.0",
                    counts(&|cpu| if cpu == last { 12_345 } else { 0 }),
                ),
                ("LOC", counts(&|cpu| if cpu % 8 == 1 { 0 } else { 250 })),
            ]
        })
        .done()
}

fn drawn(telemetry: &Telemetry, kind: SeriesKind, every_s: u64, style: Style) -> String {
    let table = figures(telemetry, kind, Some(every_s * SECOND));
    let whole = figures(telemetry, kind, Some(u64::MAX));
    text(&table, Some(&whole), &TrialClock::default(), style)
}

#[test]
fn disks_of_one_sample_are_listed_together_and_gaps_at_their_time() {
    insta::assert_snapshot!(drawn(&disks(), SeriesKind::Disk, 20, EIGHTY));
}

#[test]
fn nothing_is_omitted_if_there_is_room() {
    let style = Style {
        width: 220,
        ..EIGHTY
    };
    insta::assert_snapshot!(drawn(&disks(), SeriesKind::Disk, 30, style));
}

#[test]
fn the_cpus_with_the_most_interrupts_are_shown_and_the_others_counted() {
    insta::assert_snapshot!(drawn(&interrupts(64), SeriesKind::Interrupts, 2, EIGHTY));
}

#[test]
fn a_series_of_the_host_has_no_column_of_names() {
    let telemetry = recording()
        .seconds(SeriesKind::Memory, 4, |second| {
            let dirty = u64::from(second) << 24;
            vec![(
                "",
                vec![("free", 20 << 30), ("dirty", dirty), ("cached", 5 << 28)],
            )]
        })
        .done();
    insta::assert_snapshot!(drawn(&telemetry, SeriesKind::Memory, 1, EIGHTY));
}

#[test]
fn a_missing_series_is_reported_with_its_reason() {
    let telemetry = recording()
        .gap(
            0,
            SeriesKind::Pressure,
            "cannot read /proc/pressure/io: no such file",
        )
        .done();
    assert_eq!(
        drawn(&telemetry, SeriesKind::Pressure, 1, EIGHTY),
        "pressure: no samples\n0:00  ! cannot read /proc/pressure/io: no such file\n"
    );
}

#[test]
fn times_have_the_precision_of_the_samples() {
    let row = |at_ns, span_ns| FigureRow {
        at_ns,
        span_ns,
        subject: String::new(),
        values: vec![Some(1.0)],
    };
    let shown = |at_ns: i64, span_ns: u64| {
        let table = FigureTable {
            kind: SeriesKind::Load,
            columns: vec![FigureColumn {
                name: "load1".to_owned(),
                unit: SeriesUnit::Number,
            }],
            rows: vec![row(at_ns, span_ns)],
            remarks: Vec::new(),
        };
        let text = text(&table, None, &TrialClock::default(), EIGHTY);
        let (head, rows) = text.split_once('\n').unwrap();
        let (_, row) = rows.split_once('\n').unwrap();
        let span = head
            .split_once(": ")
            .unwrap()
            .1
            .split_once(" a row")
            .unwrap();
        let time = row.split_whitespace().next().unwrap();
        format!("{time} {}", span.0)
    };
    for (at_ns, span_ns, expected) in [
        (1_000_137_000, 1_000_137_000, "0:01 1 s"),
        (500_000_000, 100_000_900, "0:00.5 100 ms"),
        (-4_960_000_000, 1_000_000_000, "-0:05 1 s"),
        (90_000_000_000, 30_000_000_000, "1:30 30 s"),
        (3_661_000_000_000, 60_000_000_000, "1:01:01 1 min"),
        (36_000_000_000_000, 90_000_000_000, "10:00:00 1 min 30 s"),
        (36_000_000_000_000, 7_200_000_000_000, "10:00:00 2 h 00 min"),
        (2_500_000_000, 2_500_000_000, "0:03 2.5 s"),
        (i64::MAX, u64::MAX, "2562047:47:17 5124095 h 34 min"),
        (i64::MIN, 1_000_000_000, "-2562047:47:17 1 s"),
    ] {
        assert_eq!(shown(at_ns, span_ns), expected);
    }
}

fn trial<'a>(telemetry: &'a Telemetry, kinds: &[SeriesKind]) -> TrialSeries<'a> {
    let tables = kinds.iter().map(|kind| figures(telemetry, *kind, None));
    TrialSeries {
        number: 3,
        round: 1,
        configuration: "ext4, tuned",
        workload: "randrw",
        node: "",
        clock: TrialClock::default(),
        telemetry,
        tables: tables.collect(),
        sampling: Vec::new(),
    }
}

/// One second of two series.
fn small() -> Telemetry {
    recording()
        .seconds(SeriesKind::Disk, 1, |_| {
            vec![(
                "vda",
                vec![("reads", 3), ("read_bytes", 12_288), ("read_time", 1_000)],
            )]
        })
        .seconds(SeriesKind::Pool, 1, |_| vec![("tank", vec![("reads", 7)])])
        .done()
}

/// A trial with a layout of two seconds before it, at a known time.
fn known_clock() -> TrialClock {
    let time = |step, start_s: i64, span_s: u64| StepTime {
        step,
        job: None,
        start_ns: start_s * SECOND as i64,
        span_ns: span_s * SECOND,
    };
    TrialClock {
        steps: vec![
            time(Step::LayOut, -2, 2),
            time(Step::Measure, 0, 2),
            time(Step::Drain, 2, 1),
        ],
        start_unix_ms: Some(1_795_291_756_530),
        utc_offset_s: 3600,
    }
}

#[test]
fn times_have_their_wall_clock_and_rows_their_step() {
    let load = |_| vec![("", vec![("load1", 152)])];
    let mut telemetry = recording().seconds(SeriesKind::Load, 5, load).done();
    for sample in &mut telemetry.samples {
        sample.at_ns -= 2 * SECOND as i64;
    }
    let table = figures(&telemetry, SeriesKind::Load, None);
    insta::assert_snapshot!(text(&table, None, &known_clock(), EIGHTY));
    let series = TrialSeries {
        clock: known_clock(),
        ..trial(&telemetry, &[SeriesKind::Load])
    };
    for lines in [
        csv(std::slice::from_ref(&series)),
        raw_csv(std::slice::from_ref(&series)),
    ] {
        let ends = lines.lines().map(|line| {
            let mut fields = line.rsplitn(3, ',');
            (fields.next().unwrap(), fields.next().unwrap())
        });
        let expected = [
            ("step", "utc"),
            ("lay out", "2026-11-21T20:09:15.530Z"),
            ("lay out", "2026-11-21T20:09:16.530Z"),
            ("measure", "2026-11-21T20:09:17.530Z"),
            ("measure", "2026-11-21T20:09:18.530Z"),
            ("drain", "2026-11-21T20:09:19.530Z"),
        ];
        assert_eq!(ends.collect::<Vec<_>>(), expected);
    }
    let document: Value = serde_json::from_str(&json(&[series])).unwrap();
    assert_eq!(
        document["trials"][0]["start_unix_ms"],
        1_795_291_756_530_u64
    );
    assert_eq!(document["trials"][0]["steps"][0]["step"], "lay_out");
}

#[test]
fn figures_as_lines_have_their_units_in_the_names_of_columns() {
    let telemetry = small();
    let text = csv(&[trial(&telemetry, &[SeriesKind::Disk, SeriesKind::Pool])]);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    let places = lines[0].len();
    assert_eq!(
        lines[0][..10].join(","),
        "round,configuration,workload,node,trial,series,at_s,span_s,subject,r/s"
    );
    // A name that contains a comma is quoted.
    assert!(lines[1..].iter().all(|line| line.len() == places + 1));
    let column = |name: &str| lines[0].iter().position(|found| *found == name).unwrap() + 1;
    for (name, disk, pool) in [
        ("r/s", "3", ""),
        ("rB/s", "12288", ""),
        ("r_await_ns", "333.3333333333333", ""),
        ("w_await_ns", "", ""),
        ("rareq-sz_bytes", "4096", ""),
        ("%util", "0", ""),
        ("read/s", "", "7"),
        ("alloc_bytes", "", "0"),
    ] {
        let found = [lines[1][column(name)], lines[2][column(name)]];
        assert_eq!(found, [disk, pool], "{name}");
    }
    assert!(
        text.contains("\n1,\"ext4, tuned\",randrw,,3,disk,1,1,vda,3,"),
        "{text}"
    );
}

#[test]
fn raw_values_are_written_as_they_are_stored() {
    let telemetry = small();
    let text = raw_csv(&[trial(&telemetry, &[])]);
    let mut lines = text.lines();
    let head = lines.next().unwrap();
    assert!(head.starts_with(
        "round,configuration,workload,node,trial,series,at_s,span_s,subject,reads,writes,"
    ));
    // Reads are a count of the disk and a rate of the pool.
    assert!(head.contains(",read_bytes,") && head.contains(",read_time_ns,"));
    assert!(head.contains(",alloc_bytes,free_bytes,reads_per_s,writes_per_s,read_bandwidth_bytes_per_s,write_bandwidth_bytes_per_s,total_wait_read_ns,"), "{head}");
    let disk = lines.next().unwrap();
    assert!(
        disk.starts_with("1,\"ext4, tuned\",randrw,,3,disk,1,1,vda,3,0,"),
        "{disk}"
    );
    let pool = lines.next().unwrap();
    assert!(
        pool.contains(",0,0,7,0,0,0,") && pool.contains(",tank,,"),
        "{pool}"
    );
}

#[test]
fn without_trials_there_is_only_the_line_of_names() {
    let names = "round,configuration,workload,node,trial,series,at_s,span_s,subject,utc,step\n";
    assert_eq!(csv(&[]), names);
    assert_eq!(raw_csv(&[]), names);
}

#[test]
fn json_has_stored_and_derived_values() {
    let telemetry = disks();
    let mut series = trial(&telemetry, &[SeriesKind::Disk]);
    series.sampling = vec![cost(SeriesKind::Disk, 60, 1_400_000)];
    let document: Value = serde_json::from_str(&json(&[series])).unwrap();
    assert_eq!(document["schema"], "iodyno.series/1");
    let trial = &document["trials"][0];
    assert_eq!((&trial["trial"], &trial["round"]), (&3.into(), &1.into()));
    assert_eq!(trial["shapes"][0]["subjects"][1]["name"], "vda");
    assert_eq!(trial["samples"].as_array().unwrap().len(), 60);
    assert_eq!(trial["samples"][0]["values"][0], 14_000);
    assert_eq!(trial["gaps"][0]["at_ns"], 31 * SECOND);
    assert_eq!(trial["figures"][0]["columns"][0]["name"], "r/s");
    assert_eq!(trial["figures"][0]["rows"][0]["values"][0], 14_000.0);
    assert_eq!(trial["sampling"][0]["samples"], 60);
}

fn cost(kind: SeriesKind, samples: u64, cpu_ns: u64) -> SamplerCost {
    SamplerCost {
        kind,
        samples,
        cpu_ns,
        wall_ns: cpu_ns + cpu_ns / 10,
        longest_ns: 210_000,
    }
}

#[test]
fn the_costs_of_sampling_are_listed_in_descending_order() {
    let all = [
        cost(SeriesKind::Cpu, 60, 3_100_000),
        cost(SeriesKind::Interrupts, 60, 41_000_000),
        cost(SeriesKind::Load, 0, 0),
        cost(SeriesKind::Pool, 1, 400),
    ];
    insta::assert_snapshot!(costs(&all, 60_000_000_000, EIGHTY));
    assert_eq!(costs(&[], 60_000_000_000, EIGHTY), "");
    assert!(costs(&all, 0, EIGHTY).contains("0 ns: - of one core"));
}

#[test]
fn colour_changes_no_text() {
    let plain = drawn(&disks(), SeriesKind::Disk, 20, EIGHTY);
    let style = Style {
        color: true,
        ..EIGHTY
    };
    let coloured = drawn(&disks(), SeriesKind::Disk, 20, style);
    assert_ne!(coloured, plain);
    let mut stripped = coloured;
    for code in ["0", "1", "2", "33"] {
        stripped = stripped.replace(&format!("\x1b[{code}m"), "");
    }
    assert_eq!(stripped, plain);
}

/// Values of every magnitude, including impossible ones.
pub(crate) fn value() -> impl Strategy<Value = Option<f64>> {
    prop_oneof![
        2 => Just(None),
        2 => Just(Some(0.0)),
        6 => (0.0..1e6f64).prop_map(Some),
        2 => (1.0..1e18f64).prop_map(Some),
        1 => any::<f64>().prop_map(Some),
    ]
}

fn unit() -> impl Strategy<Value = SeriesUnit> {
    prop::sample::select(vec![
        SeriesUnit::Number,
        SeriesUnit::Hundredths,
        SeriesUnit::Nanos,
        SeriesUnit::Bytes,
        SeriesUnit::PerSecond,
        SeriesUnit::BytesPerSecond,
        SeriesUnit::Percent,
    ])
}

/// An arbitrary table: rows can be too short, and names can have any length.
fn table() -> impl Strategy<Value = FigureTable> {
    let column = ("[a-zµ%/ ]{0,30}", unit()).prop_map(|(name, unit)| FigureColumn { name, unit });
    let row = (
        any::<i64>(),
        any::<u64>(),
        "\\PC{0,40}",
        prop::collection::vec(value(), 0..40),
    );
    let row = row.prop_map(|(at_ns, span_ns, subject, values)| FigureRow {
        at_ns,
        span_ns,
        subject,
        values,
    });
    (
        prop::sample::select(SeriesKind::ALL.to_vec()),
        prop::collection::vec(column, 0..40),
        prop::collection::vec(row, 0..6),
        prop::collection::vec((any::<i64>(), "\\PC{0,120}"), 0..3),
    )
        .prop_map(|(kind, columns, rows, remarks)| FigureTable {
            kind,
            columns,
            rows,
            remarks,
        })
}

proptest! {
    #[test]
    fn no_line_of_any_table_is_wider_than_the_terminal(
        table in table(), columns in 40usize..200, color in any::<bool>(), unicode in any::<bool>()
    ) {
        let plain = Style { color: false, width: columns, unicode };
        let text = text(&table, Some(&table), &TrialClock::default(), plain);
        for line in text.lines() {
            prop_assert!(width(line) <= columns, "{} of {columns}: {line}", width(line));
        }
        prop_assert!(text.ends_with('\n'));
        super::text(&table, None, &TrialClock::default(), Style { color, ..plain });
        let telemetry = Telemetry::default();
        let series = TrialSeries { tables: vec![table], ..trial(&telemetry, &[]) };
        let parsed: Value = serde_json::from_str(&json(std::slice::from_ref(&series))).unwrap();
        prop_assert!(parsed["trials"][0]["figures"][0]["rows"].is_array());
        csv(&[series]);
    }
}
