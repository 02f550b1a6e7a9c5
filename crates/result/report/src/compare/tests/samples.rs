//! Comparisons built by hand for the tests.

use iodyno_model::{
    CandidateResult, Claim, ClaimCheck, ClaimSubject, ComparedRow, Comparison, Difference,
    Estimated, Member, Metric, Pairing, Question, Regime, Side, SideFlag, SourceLine, Verdict,
};

pub(in crate::compare) fn estimated(value: f64, low: f64, high: f64) -> Option<Estimated> {
    Some(Estimated {
        value,
        interval: Some((low, high)),
        level: 0.95,
    })
}

pub(in crate::compare) fn bare(value: f64) -> Option<Estimated> {
    Some(Estimated {
        value,
        interval: None,
        level: 0.95,
    })
}

pub(in crate::compare) fn side(column: &str, median: Option<Estimated>) -> Side {
    let values = median.map_or(Vec::new(), |it| match it.interval {
        Some((low, high)) => vec![low, it.value, high],
        None => vec![it.value],
    });
    Side {
        column: column.to_owned(),
        values,
        median,
        left_out: Vec::new(),
        regimes: Vec::new(),
        flags: Vec::new(),
    }
}

pub(in crate::compare) fn cell(
    side: Side,
    ratio: Option<Estimated>,
    verdict: Verdict,
) -> CandidateResult {
    let p = if verdict == Verdict::Equivalent {
        0.43
    } else {
        0.002
    };
    CandidateResult {
        side,
        ratio,
        p: Some(p),
        adjusted_p: Some((p * 7.0).min(1.0)),
        cliffs_delta: Some(1.0),
        pairing: Pairing::Paired,
        n: 10,
        margin: 0.03,
        by_numbers: verdict.clone(),
        verdict,
        differs: Vec::new(),
        members: Vec::new(),
        remarks: Vec::new(),
        notes: Vec::new(),
        equal_rate: None,
    }
}

pub(in crate::compare) fn row(
    name: &str,
    metric: Metric,
    baseline: Side,
    cells: Vec<CandidateResult>,
) -> ComparedRow {
    ComparedRow {
        family: false,
        name: vec![name.to_owned()],
        metric,
        exploratory: false,
        baseline,
        cells,
        floor: None,
        no_difference: false,
    }
}

pub(in crate::compare) fn comparison(
    name: &str,
    columns: &[&str],
    rows: Vec<ComparedRow>,
) -> Comparison {
    let primaries = rows.iter().filter(|row| !row.exploratory);
    Comparison {
        name: name.to_owned(),
        question: Question {
            baseline: columns.first().map(|name| (*name).to_owned()),
            ..Question::default()
        },
        columns: columns.iter().map(|name| (*name).to_owned()).collect(),
        rounds: 10,
        paired: true,
        primaries: primaries.map(|row| row.cells.len() as u32).sum(),
        floor: None,
        rows,
        same: Vec::new(),
        differs: Vec::new(),
        unknown: Vec::new(),
        claims: Vec::new(),
        searches: Vec::new(),
        notes: Vec::new(),
    }
}

pub(in crate::compare) fn not_comparable(reason: &str) -> Verdict {
    Verdict::NotComparable {
        reasons: vec![reason.to_owned()],
    }
}

fn regimes() -> Vec<Regime> {
    [
        (0, 8_000_000_000, 4000.0),
        (8_000_000_000, 9_800_000_000, 66_700.0),
    ]
    .map(|(start_ns, end_ns, rate)| Regime {
        start_ns,
        end_ns,
        rate,
        deviation: rate / 50.0,
    })
    .to_vec()
}

pub(in crate::compare) fn file_system_axis() -> Difference {
    Difference {
        class: iodyno_model::FactClass::Target,
        name: "file system".to_owned(),
        values: ("ext4".to_owned(), "zfs".to_owned()),
        axis: true,
    }
}

/// One candidate with all kinds of verdicts.
pub(in crate::compare) fn two_file_systems() -> Comparison {
    let rate = || Metric::iops(Metric::IOPS);
    let mib = f64::from(1 << 20);
    let mut rows = vec![
        row(
            "create_empty",
            rate(),
            side("ext4", estimated(671.0, 655.0, 691.0)),
            vec![cell(
                side("zfs", estimated(1117.0, 1080.0, 1162.0)),
                estimated(1.664, 1.578, 1.752),
                Verdict::Faster,
            )],
        ),
        row(
            "delete_100k_2MB",
            Metric::time(Metric::COMPLETION),
            side("ext4", estimated(9.8e9, 9.3e9, 10.4e9)),
            vec![cell(
                side("zfs", estimated(58.1e9, 57.0e9, 59.0e9)),
                estimated(0.169, 0.161, 0.178),
                Verdict::Slower,
            )],
        ),
        row(
            "seqread",
            Metric::bandwidth(Metric::BANDWIDTH),
            side("ext4", estimated(540.6 * mib, 535.0 * mib, 546.0 * mib)),
            vec![cell(
                side("zfs", estimated(541.2 * mib, 534.0 * mib, 545.0 * mib)),
                estimated(1.001, 0.992, 1.009),
                Verdict::Equivalent,
            )],
        ),
        row(
            "randread",
            rate(),
            side("ext4", estimated(138_400.0, 131_000.0, 141_000.0)),
            vec![cell(
                side("zfs", estimated(140_900.0, 130_000.0, 149_000.0)),
                estimated(1.02, 0.958, 1.092),
                Verdict::inconclusive(Some(14)),
            )],
        ),
        row(
            "statfs",
            rate(),
            side("ext4", bare(484.2)),
            vec![cell(
                side("zfs", bare(996.8)),
                bare(2.059),
                Verdict::CannotDecide {
                    n: 3,
                    smallest_p: 0.25,
                    needed_p: 0.05 / 7.0,
                    least: 9,
                },
            )],
        ),
        row(
            "write_sync_10MB",
            rate(),
            side("ext4", estimated(30.8, 30.1, 31.7)),
            vec![cell(
                side("zfs", estimated(27.1, 26.9, 27.3)),
                estimated(0.88, 0.86, 0.9),
                not_comparable("both capped near 250 MB/s by the device"),
            )],
        ),
        row(
            "trim",
            rate(),
            side("ext4", estimated(5120.0, 5100.0, 5130.0)),
            vec![cell(
                side("zfs", None),
                None,
                Verdict::NoData {
                    why: "zfs: no trial that counts".to_owned(),
                },
            )],
        ),
    ];
    rows[1].baseline.regimes = regimes();
    rows[1].cells[0].notes = vec!["ext4 has two regimes: 4.00k/s, then 66.7k/s".to_owned()];
    rows[4].cells[0].n = 3;
    rows[5].cells[0].by_numbers = Verdict::Slower;
    let left_out = "round 1: trim is not supported (EOPNOTSUPP)";
    rows[6].cells[0].side.left_out = vec![left_out.to_owned(); 10];
    rows[6].cells[0].notes = vec![format!("10 trials of zfs left out: {left_out}")];
    let mut comparison = comparison("zfs-vs-ext4", &["ext4", "zfs"], rows);
    comparison.floor = Some(0.021);
    comparison.same = ["kernel", "device", "scheduler"]
        .map(str::to_owned)
        .to_vec();
    comparison.differs = vec![file_system_axis()];
    comparison
}

/// Two candidates, exploratory rows, a family, a noise floor above the margin.
pub(in crate::compare) fn three_engines() -> Comparison {
    let engine = |name: &str, value: f64, ratio: f64, verdict: Verdict| {
        cell(
            side(name, estimated(value, value * 0.98, value * 1.03)),
            estimated(ratio, ratio * 0.95, ratio * 1.06),
            verdict,
        )
    };
    let psync = |value: f64| side("psync", estimated(value, value * 0.99, value * 1.01));
    let mut rows = vec![
        row(
            "randread 4k",
            Metric::iops(Metric::IOPS),
            psync(92_000.0),
            vec![
                engine("io_uring", 120_520.0, 1.31, Verdict::Faster),
                engine("libaio", 93_800.0, 1.02, Verdict::DifferentButSmall),
            ],
        ),
        row(
            "all writes",
            Metric::iops(Metric::IOPS),
            side("psync", None),
            vec![
                engine("io_uring", 1.0, 1.12, Verdict::Faster),
                engine("libaio", 1.0, 0.99, too_noisy()),
            ],
        ),
        row(
            "randread 4k",
            Metric::time("read.p99"),
            psync(1.19e6),
            vec![
                engine("io_uring", 0.93e6, 1.28, Verdict::Faster),
                engine("libaio", 1.21e6, 0.98, Verdict::inconclusive(Some(1))),
            ],
        ),
        row(
            "idle",
            Metric::iops(Metric::IOPS),
            psync(1000.0),
            vec![
                engine("io_uring", 1010.0, 1.01, Verdict::Equivalent),
                engine("libaio", 990.0, 0.99, Verdict::Equivalent),
            ],
        ),
    ];
    for cell in &mut rows[1].cells {
        cell.side = side(&cell.side.column.clone(), None);
        cell.members = [("randwrite", 1.2), ("seqwrite", 1.045)]
            .map(|(workload, ratio)| Member {
                workload: workload.to_owned(),
                ratio,
            })
            .to_vec();
    }
    rows[0].cells[1].side.flags = vec![SideFlag {
        words: "served by the page cache".to_owned(),
        trials: 10,
        of: 10,
    }];
    rows[2].exploratory = true;
    for row in rows.iter_mut().filter(|row| row.name == ["idle"]) {
        row.no_difference = true;
    }
    let mut comparison = comparison("engines", &["psync", "io_uring", "libaio"], rows);
    comparison.question.floor = vec![("workload".to_owned(), "idle".to_owned())];
    comparison.floor = Some(0.052);
    comparison.notes = vec!["round 4 was interrupted and made once more".to_owned()];
    comparison
}

fn too_noisy() -> Verdict {
    Verdict::Inconclusive {
        more: None,
        reasons: vec![
            "too noisy for a margin of 3 %, the noise floor is 5.2 %: more rounds help".to_owned(),
        ],
    }
}

/// The rows of a published comparison of ext4 and zfs: workload, rates of its runs and their ratio, the row of its last
/// table, the same row recomputed, p of the runs, and the objections to the row.
type Published = (
    &'static str,
    &'static [f64],
    &'static [f64],
    f64,
    [&'static str; 2],
    [&'static str; 2],
    [f64; 2],
    &'static [&'static str],
);

const PUBLISHED: [Published; 5] = [
    (
        "create_empty",
        &[644.1, 666.9, 704.6],
        &[1044.0, 1108.1, 1198.1],
        1.662,
        ["672 ± 5%", "1117 ± 7%"],
        ["672 ± 5%", "1117 ± 7%"],
        [0.1, 0.1],
        &[],
    ),
    (
        "delete_10k_2MB",
        &[5657.3, 4988.0, 5275.4],
        &[2770.2, 1989.1, 2507.4],
        0.475,
        ["5.31k ± 7%", "2.42k ±18%"],
        ["5.31k ± 7%", "2.42k ±18%"],
        [0.1, 0.1],
        &[],
    ),
    (
        "delete_100k_2MB",
        &[30400.5, 30839.7, 30263.3],
        &[1814.5],
        0.0597,
        ["30.5k ± 1%", "1.8k ± 1%"],
        ["30.5k ± 1%", "1.8k ± 0%"],
        [0.1, 0.5],
        &["zfs: the table says n=3, the text holds one run: 1814.5 ops/sec"],
    ),
    (
        "delete_10k_2k_200MB",
        &[529.4, 963.2, 672.9],
        &[558.7, 570.3, 559.4],
        0.848,
        ["722 ±33%", "563 ± 1%"],
        ["722 ±33%", "563 ± 1%"],
        [0.7, 0.7],
        &[],
    ),
    (
        "write_sync_10MB",
        &[25.1, 25.1, 25.1],
        &[24.4, 24.2, 24.3],
        0.968,
        ["30.4 ± 3%", "27.1 ± 1%"],
        ["31.6 ± 4%", "27.1 ± 1%"],
        [0.1, 0.1],
        &["ext4: the three averages 32.5, 32.1 and 30.4 ms give 31.6 ± 4%, not 30.4 ± 3%"],
    ),
];

const PUBLISHED_IN: &str = "ext4-zfs-fsbench.txt";

/// The published comparison with its verdicts.
pub(in crate::compare) fn published() -> Comparison {
    let rows = PUBLISHED.iter().map(published_row).collect();
    let mut comparison = comparison(PUBLISHED_IN, &["ext4", "zfs"], rows);
    (comparison.rounds, comparison.paired) = (3, false);
    let claims = PUBLISHED.iter().zip(590..);
    comparison.claims = claims
        .map(|(row, line)| published_claim(row, line))
        .collect();
    comparison.notes = vec!["the fifth benchmark stands there twice and counts once".to_owned()];
    comparison
}

fn published_row((name, ext4, zfs, ratio, _, _, [_, p], _): &Published) -> ComparedRow {
    let runs = |column: &str, values: &[f64]| {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Side {
            values: values.to_vec(),
            ..side(column, bare(sorted[sorted.len() / 2]))
        }
    };
    let metric = Metric::iops(Metric::IOPS);
    let n = zfs.len() as u32;
    let verdict = Verdict::CannotDecide {
        n,
        smallest_p: if n == 3 { 0.1 } else { 0.5 },
        needed_p: 0.01,
        least: 5,
    };
    let cell = CandidateResult {
        pairing: Pairing::Unpaired,
        n,
        p: Some(*p),
        adjusted_p: Some((*p * 5.0).min(1.0)),
        ..cell(runs("zfs", zfs), bare(*ratio), verdict)
    };
    row(name, metric, runs("ext4", ext4), vec![cell])
}

fn published_claim(
    (name, _, _, _, printed, recomputed, [p, own_p], against): &Published,
    line: u32,
) -> ClaimCheck {
    ClaimCheck {
        claim: Claim {
            at: SourceLine {
                source: PUBLISHED_IN.to_owned(),
                line,
            },
            workload: format!("fsbench/{name}"),
            unit: "ops/sec".to_owned(),
            sides: printed.map(str::to_owned).to_vec(),
            delta: "~".to_owned(),
            p: Some(*p),
            n: vec![3, 3],
            subject: ClaimSubject::default(),
        },
        recomputed: recomputed.map(|side| Some(side.to_owned())).to_vec(),
        p: Some(*own_p),
        against: against.iter().map(|why| (*why).to_owned()).collect(),
        unchecked: None,
    }
}

/// Two read policies of mirrors: rows by layout, columns by run, pattern and block size; sequential reads by bandwidth.
pub(in crate::compare) fn policies() -> Comparison {
    const ROWS: [(&str, [f64; 4], [f64; 4]); 2] = [
        (
            "2 Striped",
            [226e6, 243e6, 11.0, 304.0],
            [222e6, 255e6, 11.0, 299.0],
        ),
        (
            "2 2-Way Mirror",
            [302e6, 324e6, 16.0, 534.0],
            [433e6, 448e6, 23.0, 571.0],
        ),
    ];
    let kinds = [
        ("read", "1m"),
        ("read", "4k"),
        ("randread", "1m"),
        ("randread", "4k"),
    ];
    let mut rows = Vec::new();
    for (layout, before, after) in ROWS {
        for (place, (rw, bs)) in kinds.into_iter().enumerate() {
            let metric = match rw {
                "read" => Metric::bandwidth(Metric::BANDWIDTH),
                _ => Metric::iops(Metric::IOPS),
            };
            let ratio = after[place] / before[place];
            let verdict = match ratio {
                ratio if ratio > 1.05 => Verdict::Faster,
                ratio if ratio < 0.99 => Verdict::Slower,
                _ => Verdict::Equivalent,
            };
            let mut cell = cell(side("run 2", bare(after[place])), bare(ratio), verdict);
            cell.notes
                .extend((place == 2).then(|| "not steady".to_owned()));
            let row = row(
                layout,
                metric,
                side("run 1", bare(before[place])),
                vec![cell],
            );
            rows.push(ComparedRow {
                name: [layout, rw, bs].map(str::to_owned).to_vec(),
                ..row
            });
        }
    }
    let mut comparison = comparison("mirrors", &["run 1", "run 2"], rows);
    comparison.question.columns = "run".to_owned();
    comparison.question.rows = ["configuration", "rw", "bs"].map(str::to_owned).to_vec();
    comparison.question.across = ["rw", "bs"].map(str::to_owned).to_vec();
    comparison
}

/// Four thread pools by two metrics, and a workload that only the baseline and the last of them ran.
pub(in crate::compare) fn pools() -> Comparison {
    let pools = ["tpool-0", "inline", "thresh-3", "tpool-16"];
    let mut rows = Vec::new();
    for (workload, rates) in [
        (
            "seqread-psync",
            [Some(20e3), Some(22e3), Some(20.1e3), Some(14e3)],
        ),
        ("randrw-libaio-multi", [Some(80e3), None, None, Some(96e3)]),
    ] {
        for metric in [
            Metric::bandwidth(Metric::BANDWIDTH),
            Metric::iops(Metric::IOPS),
        ] {
            let size = if metric.name == Metric::IOPS {
                1.0
            } else {
                4096.0
            };
            let median = |rate: Option<f64>| rate.and_then(|rate| bare(rate * size));
            let cells = pools.iter().zip(rates).skip(1);
            let cells = cells.map(|(pool, rate)| {
                let ratio = rate.zip(rates[0]).map(|(one, other)| one / other);
                let verdict = match ratio {
                    None => Verdict::NoData {
                        why: format!("{pool} {}", Verdict::NO_TRIAL),
                    },
                    Some(ratio) if ratio > 1.05 => Verdict::Faster,
                    Some(ratio) if ratio < 0.95 => Verdict::Slower,
                    Some(_) => Verdict::inconclusive(Some(3)),
                };
                cell(side(pool, median(rate)), ratio.and_then(bare), verdict)
            });
            let cells = cells.collect();
            rows.push(row(
                workload,
                metric,
                side(pools[0], median(rates[0])),
                cells,
            ));
        }
    }
    let mut comparison = comparison("thread pools", &pools, rows);
    comparison.question.metrics = [Metric::BANDWIDTH, Metric::IOPS]
        .map(str::to_owned)
        .to_vec();
    comparison.question.primary_metrics = 2;
    comparison
}
