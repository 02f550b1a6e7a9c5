//! The last table of a published comparison of ZFS with ext4, held against the runs printed above it.

use iodyno_model::{
    Claim, Figure, FindingKind, Kind, Metric, Observation, Question, SourceLine, Verdict,
};

use super::both;
use crate::compare::compare;
use crate::testing::observations::{each, figure, imported};

/// Workload, the old side's values, the new side's, the table's row: old, new, p. Rates in ops/s; of
/// `write_sync_10MB` average latencies in ms, beside its rates.
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
fn reproduces_what_the_runs_support_and_names_what_they_do_not() {
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
fn finds_other_things_wrong_with_a_table() {
    let check = |claim: Claim, said: &str| {
        let comparison = compare("", &trials(), &Question::default(), &[claim]).unwrap();
        let against = comparison.claims[0].against.join("; ");
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
        Claim {
            sides: vec!["672 ± 5%".to_owned()],
            ..create()
        },
        "the table has 1 side, its text 2 configurations",
    );
    check(
        Claim {
            workload: "statfs".to_owned(),
            ..create()
        },
        "the text holds no ops/sec of statfs",
    );
    check(
        claim("create_empty", ["673 ± 5%", "1117 ± 7%"], 0.1),
        "ext4: the three values 644.1, 666.9 and 704.6 ops/sec give 672 ± 5%, not 673 ± 5%",
    );
    let elsewhere = SourceLine {
        source: "another.txt".to_owned(),
        line: 1,
    };
    check(
        Claim {
            at: elsewhere,
            ..create()
        },
        "its text 0 configurations",
    );
}

/// A claim about a column that was chosen as baseline is still read in the order of the text.
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
