//! Separate runs, own and imported.

use iodyno_model::{CandidateResult, Observation, Pairing, Question, Verdict};

use rand::SeedableRng;
use rand_distr::{Distribution, Normal};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{both, first_cell, only_cell};
use crate::testing::observations::{each, imported, runs};

fn reasons(cell: &CandidateResult) -> &[String] {
    match &cell.verdict {
        Verdict::Inconclusive {
            reasons,
            more: None,
        } => reasons,
        verdict => panic!("{verdict:?}"),
    }
}

#[test]
fn one_run_per_side_is_too_few() {
    let cell = only_cell(&both(
        runs("a", "w", &[(1, 1000.0)]),
        runs("b", "w", &[(2, 1100.0)]),
    ));
    assert_eq!(cell.pairing, Pairing::Unpaired);
    assert_eq!(cell.by_numbers, Verdict::Faster);
    assert_eq!(
        reasons(&cell),
        [
            "separate runs: 1 run of a and 1 of b are too few to measure the variation between runs; compare both in the \
             rounds of one run, or at least 4 runs of each"
        ]
    );
    let two = only_cell(&both(
        runs("a", "w", &[(1, 1000.0), (3, 1001.0)]),
        runs("b", "w", &[(2, 1100.0), (4, 1101.0), (5, 1100.0)]),
    ));
    assert!(
        reasons(&two)[0].contains("2 runs of a and 3 of b"),
        "{two:?}"
    );
}

#[test]
fn interleaved_runs_are_judged_by_their_variation() {
    let cell = only_cell(&both(
        runs(
            "a",
            "w",
            &[(1, 1000.0), (3, 1002.0), (5, 998.0), (7, 1001.0)],
        ),
        runs(
            "b",
            "w",
            &[(2, 1100.0), (4, 1103.0), (6, 1097.0), (8, 1101.0)],
        ),
    ));
    assert_eq!((cell.pairing, cell.n), (Pairing::Runs, 4));
    assert_eq!(cell.verdict, Verdict::Faster);
    assert_eq!(cell.verdict, cell.by_numbers);
    assert!((cell.ratio.unwrap().value - 1.1).abs() < 1e-3, "{cell:?}");
    // Each side has 20 trials, and their medians differ by less than 0.1 % from 10 %; but runs differ by as much.
    let cell = only_cell(&both(
        runs(
            "a",
            "w",
            &[(1, 1000.0), (3, 1150.0), (5, 1000.0), (7, 1000.0)],
        ),
        runs(
            "b",
            "w",
            &[(2, 1100.0), (4, 1200.0), (6, 1100.0), (8, 1100.0)],
        ),
    ));
    assert!(
        matches!(cell.verdict, Verdict::Inconclusive { .. }),
        "{cell:?}"
    );
    let (low, high) = cell.ratio.unwrap().interval.unwrap();
    assert!(low < 0.96 && high > 1.18, "{low} {high}");
    let same = only_cell(&both(
        runs(
            "a",
            "w",
            &[(1, 1000.0), (3, 1002.0), (5, 998.0), (7, 1000.0)],
        ),
        runs(
            "b",
            "w",
            &[(2, 1001.0), (4, 999.0), (6, 1003.0), (8, 1000.0)],
        ),
    ));
    assert_eq!(same.verdict, Verdict::Equivalent);
    // Of all orders of six runs, three on one side are the fastest in one of ten.
    let three = only_cell(&both(
        runs("a", "w", &[(1, 1000.0), (3, 1002.0), (5, 998.0)]),
        runs("b", "w", &[(2, 1100.0), (4, 1103.0), (6, 1097.0)]),
    ));
    assert!(
        matches!(three.verdict, Verdict::CannotDecide { n: 3, least: 4, .. }),
        "{three:?}"
    );
}

#[test]
fn a_verdict_needs_an_order_in_which_a_drift_is_not_a_difference() {
    /// The runs in their order in time, `a` or `b`.
    fn ordered(order: &str) -> CandidateResult {
        let of = |side: char, level: f64| {
            let places = order.chars().zip(1u64..).filter(|(own, _)| *own == side);
            let levels: Vec<(u64, f64)> = places
                .enumerate()
                .map(|(number, (_, time))| (time, level * (1.0 + 0.001 * (number % 3) as f64)))
                .collect();
            runs(&side.to_string(), "w", &levels)
        };
        only_cell(&both(of('a', 1000.0), of('b', 1100.0)))
    }
    for (order, when) in [
        ("aaaabbbb", "later"),
        ("bbbbaaaa", "earlier"),
        ("ababa bbbb", "later"),
        ("abababbbb", "later"),
        ("aabaabbb", "later"),
        ("bbbabaaa", "earlier"),
    ] {
        let cell = ordered(&order.replace(' ', ""));
        assert_eq!(cell.by_numbers, Verdict::Faster, "{order}");
        let said = format!("those of b were on average {when} than those of a, where a drift");
        assert!(reasons(&cell)[0].contains(&said), "{cell:?}");
    }
    for order in ["abababab", "abbaabba", "bbababbab", "abbbaabb", "bbabbabba"] {
        assert_eq!(ordered(order).verdict, Verdict::Faster, "{order}");
    }
    // The order is balanced, but most of `b` ran hours later.
    let cell = only_cell(&both(
        runs(
            "a",
            "w",
            &[(1, 1000.0), (2, 1001.0), (7, 1002.0), (8, 1003.0)],
        ),
        runs(
            "b",
            "w",
            &[(3, 1100.0), (4, 1101.0), (9_000, 1103.0), (9_001, 1102.0)],
        ),
    ));
    assert!(reasons(&cell)[0].contains("later"), "{cell:?}");
}

/// The share of simulated comparisons of equal sides that state a difference, in this order of runs. `drift` is that
/// from the first to the last run, `noisier` the deviation of `a` in that of `b`.
fn false_verdicts(order: &str, drift: f64, noisier: f64, first: u64, times: u64) -> f64 {
    let of = |side: char, seed: u64| {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(2 * seed + u64::from(side == 'b'));
        let law = Normal::new(0.0, if side == 'a' { 0.02 * noisier } else { 0.02 }).unwrap();
        let last = order.len() as f64 - 1.0;
        let places = order.chars().enumerate().filter(|(_, own)| *own == side);
        let levels: Vec<(u64, f64)> = places
            .map(|(place, _)| {
                let level: f64 = drift * place as f64 / last + law.sample(&mut random);
                (place as u64 + 1, 1000.0 * level.exp())
            })
            .collect();
        runs(&side.to_string(), "w", &levels)
    };
    let wrong = (first..first + times).filter(|seed| {
        let cell = only_cell(&both(of('a', *seed), of('b', *seed)));
        matches!(
            cell.verdict,
            Verdict::Faster | Verdict::Slower | Verdict::DifferentButSmall
        )
    });
    wrong.count() as f64 / times as f64
}

#[test]
fn at_most_5_of_100_separate_comparisons_without_a_difference_state_one() {
    // `make test-long` makes more.
    let times = if cfg!(feature = "long") { 2000 } else { 150 };
    let orders = [
        "abababbbb",
        "bbabbabba",
        "bbababbab",
        "abababab",
        "abbaabba",
        "abbbaabb",
        "ababababab",
    ];
    for (drift, noisier) in [(0.0, 1.0), (0.2, 1.0), (0.05, 1.0), (0.0, 4.0), (0.05, 4.0)] {
        let each = orders.iter().zip(0..);
        let shares: Vec<f64> = each
            .map(|(order, place)| false_verdicts(order, drift, noisier, times * place, times))
            .collect();
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        assert!(mean <= 0.05, "{drift} {noisier}: {shares:?}");
        // A single share is less certain.
        let most = 0.05 + 3.0 * (0.05 * 0.95 / times as f64).sqrt();
        let all = shares.iter().all(|share| *share <= most);
        assert!(all, "{drift} {noisier}: {shares:?}");
    }
}

#[test]
fn trials_of_one_file_are_one_run_of_unknown_time() {
    let values = [1000.0, 1001.0, 999.0, 1002.0, 998.0, 1000.5];
    let faster = values.map(|value| value * 1.1);
    let cell = only_cell(&both(
        imported("a", "w", &values),
        imported("b", "w", &faster),
    ));
    assert_eq!(cell.by_numbers, Verdict::Faster);
    assert!(
        reasons(&cell)[0].starts_with(
            "imported: in what order in time the trials were made is not known, and 1 file of a and 1 of b"
        ),
        "{cell:?}"
    );
    let a_file_each = |trials: Vec<Observation>| {
        each(trials, |o| {
            if let Some(source) = &mut o.source {
                source.source = format!("{}.json", source.line);
            }
        })
    };
    let trials = both(
        a_file_each(imported("a", "w", &values)),
        a_file_each(imported("b", "w", &faster)),
    );
    let cell = only_cell(&trials);
    assert_eq!((cell.pairing, cell.n), (Pairing::Runs, 6));
    assert_eq!(cell.verdict, Verdict::Faster);
    assert!(
        cell.notes.iter().any(|note| note.contains("order in time")),
        "{cell:?}"
    );
}

#[test]
fn a_family_has_one_value_per_run_that_has_all_its_workloads() {
    let side = |name: &str, factor: f64, times: [u64; 3]| {
        let of =
            |workload, level: f64| runs(name, workload, &times.map(|time| (time, level * factor)));
        both(of("read", 1000.0), of("write", 50.0))
    };
    let mut trials = both(side("a", 1.0, [1, 3, 5]), side("b", 1.2, [2, 4, 6]));
    let family = Question {
        rows: Vec::new(),
        ..Question::default()
    };
    let cell = first_cell(&trials, &family);
    assert_eq!((cell.pairing, cell.n), (Pairing::Runs, 3));
    assert_eq!(cell.members.len(), 2);
    assert!((cell.ratio.unwrap().value - 1.2).abs() < 1e-9);
    // A run that lacks one of the workloads is not a run of the family.
    trials.retain(|o| o.dimension("run") != "run at 6" || o.dimension("workload") == "read");
    let cell = first_cell(&trials, &family);
    assert!(
        reasons(&cell)[0].contains("3 runs of a and 2 of b"),
        "{cell:?}"
    );
}

#[test]
fn separate_runs_that_measured_nothing_have_no_verdict() {
    let zero = each(runs("b", "w", &[(2, 1.0), (4, 1.0), (6, 1.0)]), |o| {
        o.figures[0].value = 0.0;
    });
    let cell = only_cell(&both(
        runs("a", "w", &[(1, 10.0), (3, 10.0), (5, 10.0)]),
        zero,
    ));
    assert_eq!(cell.by_numbers, Verdict::Slower);
    assert!(reasons(&cell)[0].contains("logarithms"), "{cell:?}");
}
