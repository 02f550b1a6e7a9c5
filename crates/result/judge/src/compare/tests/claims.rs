//! The last table of a published comparison of ZFS with ext4, compared with the runs printed above it.

use iodyno_model::{
    Claim, ClaimRules, ClaimSubject, Figure, FindingKind, Kind, Metric, Observation, Question,
    SourceLine, Verdict,
};

use super::both;
use crate::compare::compare;
use crate::testing::observations::{each, figure, imported};

/// Workload, values of the old side and of the new side, and the table's row: old, new, p. Rates in ops/s; for
/// `write_sync_10MB` average latencies in ms as well.
const CREATE: ([f64; 3], [f64; 3]) = ([644.1, 666.9, 704.6], [1044.0, 1108.1, 1198.1]);
const DELETE_10K: ([f64; 3], [f64; 3]) = ([5657.3, 4988.0, 5275.4], [2770.2, 1989.1, 2507.4]);
const DELETE_100K: ([f64; 3], [f64; 1]) = ([30400.5, 30839.7, 30263.3], [1814.5]);
const DELETE_200MB: ([f64; 3], [f64; 3]) = ([529.4, 963.2, 672.9], [558.7, 570.3, 559.4]);
const WRITE_SYNC: ([f64; 3], [f64; 3]) = ([25.1, 25.1, 25.1], [24.4, 24.2, 24.3]);
const WRITE_SYNC_MS: ([f64; 3], [f64; 3]) = ([32.5, 32.1, 30.4], [37.3, 36.5, 36.9]);

fn trials() -> Vec<Observation> {
    let finite = |trials| each(trials, |o| o.kind = Kind::Finite);
    let two = |workload: &str, old: &[f64], new: &[f64]| {
        both(
            imported("ext4", workload, old),
            imported("zfs", workload, new),
        )
    };
    let with_means = |trials: Vec<Observation>| {
        let mut means = WRITE_SYNC_MS.0.iter().chain(&WRITE_SYNC_MS.1);
        let mut trials = trials;
        for trial in &mut trials {
            let mean = *means.next().unwrap();
            trial
                .figures
                .push(figure(Metric::time("mean"), (mean * 1e6_f64).round()));
            trial.figures.push(Figure {
                derived: Some("1000 ÷ avg(ms)".to_owned()),
                ..figure(Metric::iops("ops_from_mean"), 1e3 / mean)
            });
        }
        trials
    };
    [
        two("create_empty", &CREATE.0, &CREATE.1),
        finite(two("delete_10k_2MB", &DELETE_10K.0, &DELETE_10K.1)),
        finite(two("delete_100k_2MB", &DELETE_100K.0, &DELETE_100K.1)),
        finite(two("delete_10k_2k_200MB", &DELETE_200MB.0, &DELETE_200MB.1)),
        with_means(two("write_sync_10MB", &WRITE_SYNC.0, &WRITE_SYNC.1)),
    ]
    .concat()
}

fn claim(workload: &str, sides: [&str; 2], p: f64) -> Claim {
    Claim {
        at: SourceLine {
            source: "results.txt".to_owned(),
            line: 589,
        },
        workload: format!("fsbench/{workload}"),
        unit: "ops/sec".to_owned(),
        sides: sides.map(str::to_owned).to_vec(),
        delta: "~".to_owned(),
        p: Some(p),
        n: vec![3, 3],
        subject: ClaimSubject::default(),
    }
}

fn table() -> Vec<Claim> {
    vec![
        claim("create_empty", ["672 ± 5%", "1117 ± 7%"], 0.1),
        claim("delete_10k_2MB", ["5.31k ± 7%", "2.42k ±18%"], 0.1),
        claim("delete_100k_2MB", ["30.5k ± 1%", "1.8k ± 1%"], 0.1),
        claim("delete_10k_2k_200MB", ["722 ±33%", "563 ± 1%"], 0.7),
        claim("write_sync_10MB", ["30.4 ± 3%", "27.1 ± 1%"], 0.1),
    ]
}

#[test]
fn reproduces_supported_values_and_reports_unsupported_ones() {
    let comparison = compare("", &trials(), &Question::default(), &table()).unwrap();
    let against: Vec<&[String]> = comparison
        .claims
        .iter()
        .map(|c| c.against.as_slice())
        .collect();
    let no: &[String] = &[];
    assert_eq!((against[0], against[1], against[3]), (no, no, no));
    assert_eq!(
        against[2],
        ["zfs: the table says n=3, the text holds one run: 1814.5 ops/sec"]
    );
    assert_eq!(
        against[4],
        ["ext4: the three averages 32.5, 32.1 and 30.4 ms give 31.6 ± 4%, not 30.4 ± 3%"]
    );
    let printed: Vec<Vec<&str>> = comparison
        .claims
        .iter()
        .map(|claim| {
            claim
                .recomputed
                .iter()
                .map(|r| r.as_deref().unwrap_or(""))
                .collect()
        })
        .collect();
    assert_eq!(
        printed,
        [
            ["672 ± 5%", "1117 ± 7%"],
            ["5.31k ± 7%", "2.42k ±18%"],
            ["30.5k ± 1%", "1.8k ± 0%"],
            ["722 ±33%", "563 ± 1%"],
            ["31.6 ± 4%", "27.1 ± 1%"],
        ]
    );
    for (check, p) in comparison.claims.iter().zip([0.1, 0.1, 0.5, 0.7, 0.1]) {
        assert!((check.p.unwrap() - p).abs() < 1e-9, "{:?}", check.p);
    }
}

#[test]
fn cannot_decide_any_row_of_three_runs_a_side() {
    let comparison = compare("", &trials(), &Question::default(), &[]).unwrap();
    assert_eq!((comparison.primaries, comparison.paired), (5, false));
    for row in &comparison.rows {
        let Verdict::CannotDecide { n, smallest_p, .. } = row.cells[0].verdict else {
            panic!("{row:?}");
        };
        if row.name != ["delete_100k_2MB"] {
            assert_eq!(n, 3);
            assert!((smallest_p - 0.1).abs() < 1e-12);
        }
    }
}

#[test]
fn finds_other_errors_of_a_table() {
    let check = |claim: Claim, said: &str| {
        let comparison = compare("", &trials(), &Question::default(), &[claim]).unwrap();
        let check = &comparison.claims[0];
        assert_eq!(check.follows(), Some(false));
        let against = check.against.join("; ");
        assert!(against.contains(said), "{against}");
    };
    let create = || claim("create_empty", ["672 ± 5%", "1117 ± 7%"], 0.1);
    check(
        Claim {
            p: Some(0.05),
            ..create()
        },
        "p is 0.100, not 0.050",
    );
    check(
        Claim {
            delta: "+66.2%".to_owned(),
            ..create()
        },
        "with p=0.100 the difference is not printed as +66.2%",
    );
    check(
        claim("create_empty", ["673 ± 5%", "1117 ± 7%"], 0.1),
        "ext4: the three values 644.1, 666.9 and 704.6 ops/sec give 672 ± 5%, not 673 ± 5%",
    );
    check(
        claim("create_empty", ["672 ± 6%", "1117 ± 7%"], 0.1),
        "ext4: the three values 644.1, 666.9 and 704.6 ops/sec give 672 ± 5%, not 672 ± 6%",
    );
    check(
        Claim {
            p: None,
            n: Vec::new(),
            delta: "+66.23%".to_owned(),
            ..create()
        },
        "the difference is +66.21%, not +66.23%",
    );
    // Without trials, a difference can still contradict the row's own sides.
    check(
        Claim {
            workload: "statfs".to_owned(),
            delta: "+68%".to_owned(),
            ..create()
        },
        "from 672 ± 5% to 1117 ± 7% it is +65.52% to +66.92%, not +68%",
    );
}

#[test]
fn reports_why_a_row_cannot_be_checked() {
    let create = || claim("create_empty", ["672 ± 5%", "1117 ± 7%"], 0.1);
    let one_side = |sides: [&str; 1]| Claim {
        sides: sides.map(str::to_owned).to_vec(),
        ..create()
    };
    for (claim, why) in [
        (
            one_side(["672 ± 5%"]),
            "the row has 1 side, the trials have 2 configurations: which is which is not known",
        ),
        (
            Claim {
                workload: "statfs".to_owned(),
                delta: "+66%".to_owned(),
                ..create()
            },
            "there are no trials of statfs",
        ),
        (
            Claim {
                unit: "widgets".to_owned(),
                ..create()
            },
            "the trials of create_empty have no widgets",
        ),
        (
            Claim {
                sides: vec!["672 ± 5%".to_owned(), "1117x".to_owned()],
                ..create()
            },
            "`1117x` is not a number in a form that is known",
        ),
    ] {
        let comparison = compare("", &trials(), &Question::default(), &[claim]).unwrap();
        let check = &comparison.claims[0];
        assert_eq!(check.unchecked.as_deref(), Some(why));
        assert_eq!((check.follows(), check.p), (None, None));
    }
}

/// A claim refers to all trials if its own source has none.
#[test]
fn checks_a_table_in_a_separate_file() {
    let mut claim = claim("create_empty", ["672 ± 5%", "1117 ± 7%"], 0.1);
    claim.at.source = "table.txt".to_owned();
    let comparison = compare("", &trials(), &Question::default(), &[claim]).unwrap();
    assert_eq!(comparison.claims[0].follows(), Some(true));
}

/// The rules since 2022, with exact units, parameters in labels, zeros, and a geometric mean.
#[test]
fn checks_medians_by_the_rules_for_medians() {
    let line = |line| SourceLine {
        source: "results.txt".to_owned(),
        line,
    };
    let trial = |configuration: &str, bs: &str, values: &[f64]| {
        let metric = Metric::time("op.mean");
        each(imported(configuration, "X", values), |o| {
            o.dimensions.insert("bs".to_owned(), bs.to_owned());
            let value = o.figures[0].value;
            o.figures = vec![figure(metric.clone(), value)];
        })
    };
    let trials = [
        trial("a", "4k", &[100.0, 101.0, 99.0, 100.0, 102.0, 98.0]),
        trial("b", "4k", &[120.0, 121.0, 119.0, 120.0, 122.0, 118.0]),
        trial("a", "8k", &[0.0, 200.0, 200.0, 201.0]),
        trial("b", "8k", &[200.0, 200.0, 0.0, 210.0]),
    ]
    .concat();
    let row = |bs: &str, sides: [&str; 2], delta: &str, p: Option<f64>, n: [u32; 2]| Claim {
        at: line(if bs == "4k" { 10 } else { 11 }),
        workload: format!("X/bs={bs}"),
        unit: "sec/op".to_owned(),
        sides: sides.map(str::to_owned).to_vec(),
        delta: delta.to_owned(),
        p,
        n: n.to_vec(),
        subject: ClaimSubject {
            rules: ClaimRules::Medians,
            table: 9,
            columns: vec![vec!["a".to_owned()], vec!["b".to_owned()]],
            benchmark: "X".to_owned(),
            dimensions: [("bs".to_owned(), bs.to_owned())].into(),
            metrics: vec![("op.mean".to_owned(), 1e9)],
            ..ClaimSubject::default()
        },
    };
    let four = || {
        row(
            "4k",
            ["100.0n ± 2%", "120.0n ± 2%"],
            "+20.00%",
            Some(0.002),
            [6, 6],
        )
    };
    let eight = || row("8k", ["200.0n ± ∞", "200.0n ± ∞"], "~", Some(1.0), [3, 3]);
    let mean = |new: &str, delta: &str| {
        let mut claim = row("", ["141.4n", new], delta, None, [0, 0]);
        claim.workload = "geomean".to_owned();
        claim.n.clear();
        claim.subject.geomean = true;
        claim.subject.dimensions.clear();
        claim
    };
    let judged = |claims: &[Claim]| -> Vec<(Option<bool>, Vec<String>)> {
        let checks = compare("", &trials, &Question::default(), claims).unwrap();
        let checks = checks.claims.into_iter();
        checks
            .map(|check| (check.follows(), check.against))
            .collect()
    };
    let fine = (Some(true), Vec::new());
    assert_eq!(
        judged(&[four(), eight(), mean("154.9n", "+9.54%")]),
        [fine.clone(), fine.clone(), fine.clone()]
    );
    let mut blank = mean("", "");
    blank.sides = vec![String::new(), String::new()];
    let checks = crate::check_claims(&[blank], &[]);
    assert_eq!(
        (checks[0].follows(), checks[0].unchecked.as_deref()),
        (None, Some("it is blank, and no geometric mean is defined"))
    );
    let exact = row(
        "4k",
        ["100.0n ± 2%", "120.0n ± 2%"],
        "+20.00%",
        None,
        [6, 6],
    );
    assert_eq!(judged(&[exact]), [fine]);
    for (claim, against) in [
        (
            Claim {
                delta: "+20.01%".to_owned(),
                ..four()
            },
            "the difference is +20.00%, not +20.01%",
        ),
        (
            Claim {
                p: Some(0.003),
                ..four()
            },
            "p is 0.002, not 0.003",
        ),
        (
            Claim {
                delta: "~".to_owned(),
                ..four()
            },
            "with p=0.002 the difference is printed, not ~",
        ),
        (
            Claim {
                sides: vec!["100.0n ± 2%".to_owned(), "120.1n ± 2%".to_owned()],
                ..four()
            },
            "give 120.0n ± 2%, not 120.1n ± 2%",
        ),
        (
            mean("155.0n", "+9.54%"),
            "the rows above give 154.9n, not 155.0n",
        ),
        (
            mean("154.9n", "+9.55%"),
            "the difference is +9.54%, not +9.55%",
        ),
    ] {
        let check = &judged(&[four(), eight(), claim])[2];
        assert_eq!(check.0, Some(false));
        assert!(check.1[0].contains(against), "{:?}", check.1);
    }
}

/// A claim about a column chosen as baseline is read in the order of the text.
#[test]
fn reads_the_sides_of_a_table_in_the_order_of_its_text() {
    let question = Question {
        baseline: Some("zfs".to_owned()),
        ..Question::default()
    };
    let comparison = compare("", &trials(), &question, &table()).unwrap();
    assert_eq!(comparison.columns, ["zfs", "ext4"]);
    assert!(comparison.claims[0].against.is_empty());
    let flagged = FindingKind::ClientSaturated;
    let trials = each(trials(), |o| {
        o.flags.push(crate::testing::observations::warning(flagged))
    });
    assert_eq!(
        compare("", &trials, &question, &table()).unwrap().claims,
        comparison.claims
    );
}
