//! The share of correct verdicts if the truth is known.

use iodyno_model::{Observation, Question, Verdict};
use rand::SeedableRng;
use rand_distr::{Distribution, Normal};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{both, compared};
use crate::testing::observations::{each, rounds};

const TIMES: u64 = 1000;

/// The share of simulated comparisons of one row that have this verdict.
fn share(factor: f64, noise: f64, n: usize, paired: bool, wanted: fn(&Verdict) -> bool) -> f64 {
    let hits = (0..TIMES).filter(|seed| {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(*seed);
        let law = Normal::new(0.0, noise).unwrap();
        let mut side = |name: &str, level: f64| -> Vec<Observation> {
            let values: Vec<f64> = (0..n)
                .map(|_| level * law.sample(&mut random).exp())
                .collect();
            each(rounds(name, "w", &values), |o| {
                if !paired {
                    o.round = None;
                }
            })
        };
        let trials = both(side("a", 1000.0), side("b", 1000.0 * factor));
        wanted(&compared(&trials, &Question::default()).rows[0].cells[0].by_numbers)
    });
    hits.count() as f64 / TIMES as f64
}

fn different(verdict: &Verdict) -> bool {
    matches!(
        verdict,
        Verdict::Faster | Verdict::Slower | Verdict::DifferentButSmall
    )
}

#[test]
fn finds_no_difference_in_95_of_100_without_one() {
    for paired in [true, false] {
        let false_alarms = share(1.0, 0.03, 10, paired, different);
        assert!(false_alarms <= 0.05, "{paired}: {false_alarms}");
        assert!(false_alarms > 0.02, "{paired}: {false_alarms}"); // but α is used
    }
}

#[test]
fn finds_ten_percent_in_ten_rounds_of_three_percent_noise() {
    for paired in [true, false] {
        let found = share(1.1, 0.03, 10, paired, |v| *v == Verdict::Faster);
        assert!(found >= 0.9, "{paired}: {found}");
        let found = share(1.0 / 1.1, 0.03, 10, paired, |v| *v == Verdict::Slower);
        assert!(found >= 0.9, "{paired}: {found}");
    }
}

#[test]
fn reports_equivalence_for_a_difference_of_the_margin_in_at_most_5_of_100() {
    for paired in [true, false] {
        let wrong = share(1.03, 0.03, 12, paired, |v| *v == Verdict::Equivalent);
        assert!(wrong <= 0.05, "{paired}: {wrong}");
        let right = share(1.0, 0.01, 12, paired, |v| *v == Verdict::Equivalent);
        assert!(right >= 0.9, "{paired}: {right}");
    }
}

/// The noise floor is measured on the same noisy host; it must not be used as the margin.
#[test]
fn a_noisy_host_does_not_make_a_difference_of_ten_percent_equivalent() {
    let equivalent = (0..TIMES).filter(|seed| {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(*seed);
        let law = Normal::<f64>::new(0.0, 0.1).unwrap();
        let mut side = |name: &str, level: f64| {
            let values: Vec<f64> = (0..10)
                .map(|_| level * law.sample(&mut random).exp())
                .collect();
            rounds(name, "w", &values)
        };
        let again = each(side("a again", 1000.0), |o| o.again = true);
        let trials = [side("a", 1000.0), again, side("b", 1100.0)].concat();
        let verdict = &compared(&trials, &Question::default()).rows[0].cells[0].verdict;
        matches!(verdict, Verdict::Equivalent | Verdict::DifferentButSmall)
    });
    // A margin equal to the noise floor reported 19 % of them as equivalent.
    assert_eq!(equivalent.count(), 0);
}

/// The estimate of INCONCLUSIVE: with this number of further rounds there usually is a verdict.
#[test]
fn projects_about_the_rounds_that_a_verdict_needs() {
    let mut asked = Vec::new();
    for seed in 0..200 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let law = Normal::<f64>::new(0.0, 0.06).unwrap();
        let mut side = |name: &str, level: f64| {
            let values: Vec<f64> = (0..10)
                .map(|_| level * law.sample(&mut random).exp())
                .collect();
            rounds(name, "w", &values)
        };
        let trials = both(side("a", 1000.0), side("b", 1050.0));
        let comparison = compared(&trials, &Question::default());
        if let Verdict::Inconclusive {
            more: Some(more), ..
        } = comparison.rows[0].cells[0].verdict
        {
            asked.push(more);
        }
    }
    asked.sort_unstable();
    assert!(asked.len() > 80, "{}", asked.len());
    // 5 % with noise of 8.5 % in the ratio needs about 30 rounds in total for a power of 0.8.
    let middle = asked[asked.len() / 2];
    assert!((8..=60).contains(&middle), "{middle}");
    let found = share(1.05, 0.06, 30, true, different);
    assert!((0.7..0.95).contains(&found), "{found}");
}

/// Families of three workloads that share the noise of their rounds, and a workload without one. All verdicts of a
/// comparison count: Holm's correction is over the families.
#[test]
fn finds_no_difference_between_equal_families_in_95_of_100() {
    let false_alarms = (0..TIMES).filter(|seed| {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(*seed);
        let law = Normal::<f64>::new(0.0, 0.03).unwrap();
        let mut side = |name: &str| -> Vec<Observation> {
            let shared: Vec<f64> = (0..10).map(|_| law.sample(&mut random)).collect();
            let mut workload = |workload: &str, family: Option<&str>| {
                let values: Vec<f64> = shared
                    .iter()
                    .map(|shared| 1000.0 * (shared + law.sample(&mut random)).exp())
                    .collect();
                each(rounds(name, workload, &values), |o| {
                    if let Some(family) = family {
                        o.dimensions
                            .insert(Observation::FAMILY.to_owned(), family.to_owned());
                    }
                })
            };
            [
                workload("v", None),
                workload("r1", Some("reads")),
                workload("r2", Some("reads")),
                workload("r3", Some("reads")),
                workload("w1", Some("writes")),
                workload("w2", Some("writes")),
            ]
            .concat()
        };
        let comparison = compared(&both(side("a"), side("b")), &Question::default());
        assert_eq!(comparison.primaries, 3);
        let mut cells = comparison.primary_cells();
        cells.any(|cell| different(&cell.by_numbers))
    });
    let share = false_alarms.count() as f64 / TIMES as f64;
    assert!(share <= 0.05, "{share}");
    assert!(share > 0.01, "{share}");
}
