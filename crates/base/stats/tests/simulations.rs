//! Properties of the procedures over many simulated experiments, from fixed seeds.

use iodyno_stats::{
    ChangePointOptions, Margin, autocorrelation_time, change_points, equivalence_paired,
    hodges_lehmann, log_ratios, mann_whitney, rounds_to_decide, signed_rank,
};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Normal};
use rand_xoshiro::Xoshiro256PlusPlus;

type Random = Xoshiro256PlusPlus;

fn random(seed: u64) -> Random {
    Random::seed_from_u64(seed)
}

fn noise(random: &mut Random, deviation: f64) -> f64 {
    Normal::new(0.0, deviation).unwrap().sample(random)
}

/// xₜ = φ·xₜ₋₁ + noise, from its stationary start.
fn autoregressive(random: &mut Random, count: usize, phi: f64) -> Vec<f64> {
    let mut value = noise(random, 1.0) / (1.0 - phi * phi).sqrt();
    (0..count)
        .map(|_| {
            value = phi * value + noise(random, 1.0);
            value
        })
        .collect()
}

/// The share of `trials` for which `outcome` is true.
fn share(trials: usize, mut outcome: impl FnMut(usize) -> bool) -> f64 {
    (0..trials).filter(|trial| outcome(*trial)).count() as f64 / trials as f64
}

/// Ten rounds of a baseline and a candidate without a difference, on a host that becomes 10 % slower from the first
/// trial to the last. `place` gives the trial numbers of the two in a round.
fn drifting(
    random: &mut Random,
    mut place: impl FnMut(usize, &mut Random) -> (usize, usize),
) -> [Vec<f64>; 2] {
    let mut sides = [Vec::new(), Vec::new()];
    for round in 0..10 {
        let (first, second) = place(round, random);
        for (side, trial) in sides.iter_mut().zip([first, second]) {
            let drift = 1.0 - 0.10 * trial as f64 / 19.0;
            side.push(1000.0 * drift * (1.0 + noise(random, 0.03)));
        }
    }
    sides
}

#[test]
fn random_order_within_rounds_tolerates_a_drift_and_blocked_order_does_not() {
    let trials = 4000;
    let mut source = random(20);
    let in_rounds = |round: usize, random: &mut Random| {
        let first = random.random_range(0..2);
        (2 * round + first, 2 * round + 1 - first)
    };
    let paired = |baseline: &[f64], candidate: &[f64]| {
        let ratios = log_ratios(baseline, candidate).unwrap();
        signed_rank(&ratios).unwrap().p
    };
    let blocked = |round: usize, _: &mut Random| (round, 10 + round);
    // Ten times as many trials: the exact level, 0.0488, is just below the nominal one.
    let random_order = share(10 * trials, |_| {
        let [baseline, candidate] = drifting(&mut source, in_rounds);
        paired(&baseline, &candidate) <= 0.05
    });
    let unpaired_order = share(trials, |_| {
        let [baseline, candidate] = drifting(&mut source, in_rounds);
        mann_whitney(&baseline, &candidate).unwrap().p <= 0.05
    });
    let blocked_order = share(trials, |_| {
        let [baseline, candidate] = drifting(&mut source, blocked);
        mann_whitney(&baseline, &candidate).unwrap().p <= 0.05
    });
    let blocked_pairs = share(trials, |_| {
        let [baseline, candidate] = drifting(&mut source, blocked);
        paired(&baseline, &candidate) <= 0.05
    });
    assert!(random_order <= 0.05, "{random_order}");
    // Unpaired, the drift increases the spread of both: no false results, but low power.
    assert!(unpaired_order <= 0.01, "{unpaired_order}");
    assert!(blocked_order > 0.85, "{blocked_order}");
    assert!(blocked_pairs > 0.85, "{blocked_pairs}");
}

#[test]
fn p_is_uniform_without_a_difference() {
    let trials = 4000;
    let mut source = random(3);
    let mut signed = Vec::new();
    let mut unpaired = Vec::new();
    for _ in 0..trials {
        let mut sample = |count| {
            (0..count)
                .map(|_| noise(&mut source, 1.0))
                .collect::<Vec<_>>()
        };
        signed.push(signed_rank(&sample(20)).unwrap().p);
        unpaired.push(mann_whitney(&sample(12), &sample(15)).unwrap().p);
    }
    for p_values in [signed, unpaired] {
        for alpha in [0.01, 0.05, 0.1, 0.25, 0.5, 0.75] {
            let seen = p_values.iter().filter(|p| **p <= alpha).count() as f64 / trials as f64;
            // Exact tests have discrete levels: below α by at most one step, plus four standard errors.
            let error = 4.0 * (alpha * (1.0 - alpha) / trials as f64).sqrt();
            assert!(
                seen <= alpha + error && seen >= alpha - error - 0.03 * alpha.max(0.1),
                "{alpha}: {seen}"
            );
        }
    }
}

#[test]
fn intervals_have_their_nominal_coverage() {
    let trials = 3000;
    let mut source = random(4);
    let covered = share(trials, |_| {
        let differences: Vec<f64> = (0..10).map(|_| 0.3 + noise(&mut source, 1.0)).collect();
        hodges_lehmann(&differences, 0.95)
            .unwrap()
            .interval
            .unwrap()
            .contains(0.3)
    });
    // The exact level of n = 10 is 1 − 2·P(W ≤ 8) = 0.951.
    assert!(
        (covered - 0.951).abs() < 4.0 * (0.049 * 0.951 / trials as f64).sqrt(),
        "{covered}"
    );
}

#[test]
fn equivalence_is_rarely_found_at_the_edge_of_the_margin() {
    let mut source = random(5);
    let margin = Margin::symmetric(0.03).unwrap();
    let mut claimed = |ratio: f64| {
        share(2000, |_| {
            let trial = |source: &mut Random| 1.0 + noise(source, 0.01);
            let baseline: Vec<f64> = (0..12).map(|_| trial(&mut source)).collect();
            let candidate: Vec<f64> = (0..12).map(|_| ratio * trial(&mut source)).collect();
            equivalence_paired(&baseline, &candidate, margin).unwrap().p <= 0.05
        })
    };
    assert!(claimed(1.03) <= 0.06);
    assert!(claimed(1.0 / 1.03) <= 0.06);
    assert!(claimed(1.0) > 0.95);
}

#[test]
fn autocorrelation_time_is_that_of_the_process() {
    let mut source = random(6);
    for phi in [0.0, 0.5, 0.8] {
        let found = autocorrelation_time(&autoregressive(&mut source, 200_000, phi)).unwrap();
        let expected = (1.0 + phi) / (1.0 - phi);
        assert!(
            (found.time / expected - 1.0).abs() < 0.1,
            "{phi}: {found:?}, want {expected}"
        );
        assert!(!found.lower_bound);
    }
    // numpy: the same sum written with slices and dot products, on sin(i/7) + irregular(i, 101)/5.
    let series: Vec<f64> = (0..500usize)
        .map(|i| (i as f64 / 7.0).sin() + ((i * i * 37 + i * 11) % 101) as f64 / 50.0)
        .collect();
    let found = autocorrelation_time(&series).unwrap();
    assert!((found.time - 9.148834015226365).abs() < 1e-9, "{found:?}");
    assert_eq!(autocorrelation_time(&[3.0; 9]).unwrap().time, 1.0);
}

#[test]
fn change_points_are_rarely_found_in_noise() {
    let mut source = random(7);
    let options = ChangePointOptions::default();
    let mut false_alarms = |phi: f64, options: &ChangePointOptions| {
        share(200, |_| {
            let series = autoregressive(&mut source, 300, phi);
            !change_points(&series, options).unwrap().changes.is_empty()
        })
    };
    let independent = false_alarms(0.0, &options);
    assert!(independent <= 0.10, "{independent}");
    let correlated = false_alarms(0.5, &options);
    assert!(correlated <= 0.10, "{correlated}");
    // The reason why the effective size is the default:
    let naive = false_alarms(
        0.5,
        &ChangePointOptions {
            effective_size: false,
            ..options
        },
    );
    assert!(naive >= 3.0 * correlated.max(0.05), "{naive}");
}

#[test]
fn a_shift_is_found_at_its_position() {
    let mut source = random(8);
    let near = share(200, |_| {
        let series: Vec<f64> = (0..300)
            .map(|i| if i < 170 { 100.0 } else { 104.0 } + noise(&mut source, 2.0))
            .collect();
        let found = change_points(&series, &ChangePointOptions::default()).unwrap();
        found.changes.len() == 1 && found.changes[0].index.abs_diff(170) <= 3
    });
    assert!(near > 0.8, "{near}");
}

#[test]
fn the_projected_rounds_give_the_requested_width() {
    let mut source = random(11);
    let mut sample = |count: usize| {
        (0..count)
            .map(|_| noise(&mut source, 0.05))
            .collect::<Vec<_>>()
    };
    for width in [0.08, 0.04, 0.02] {
        // Projected from many values, so that its own variation does not affect the check.
        let pilot = sample(2000);
        let scaled = projected_from(&pilot, width);
        let mean_width = (0..200)
            .map(|_| {
                hodges_lehmann(&sample(scaled), 0.95)
                    .unwrap()
                    .interval
                    .unwrap()
                    .width()
            })
            .sum::<f64>()
            / 200.0;
        assert!(
            (mean_width / width - 1.0).abs() < 0.15,
            "{width}: {scaled} rounds gave {mean_width}"
        );
    }
}

/// The projection from a pilot of ten rounds with the spread of `pilot`.
fn projected_from(pilot: &[f64], width: f64) -> usize {
    let mean = pilot.iter().sum::<f64>() / pilot.len() as f64;
    let square = pilot.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (pilot.len() - 1) as f64;
    // Two values ±d/√2 have the standard deviation d.
    let reach = (square / 2.0).sqrt();
    let projected = rounds_to_decide(&[-reach, reach], width / 2.0, 0.95, 0.5);
    projected.unwrap().0.rounds.unwrap()
}

#[test]
fn the_projected_rounds_decide_with_the_requested_power() {
    let mut source = random(12);
    let (truth, deviation) = (0.05, 0.08);
    let reach = deviation / 2f64.sqrt();
    let pilot = [truth - reach, truth + reach];
    for power in [0.5, 0.8, 0.95] {
        let (projection, decides) = rounds_to_decide(&pilot, 0.03, 0.95, power).unwrap();
        assert_eq!(decides, iodyno_stats::Decides::Difference);
        let rounds = projection.rounds.unwrap();
        let decided = share(1000, |_| {
            let sample: Vec<f64> = (0..rounds)
                .map(|_| truth + noise(&mut source, deviation))
                .collect();
            !hodges_lehmann(&sample, 0.95)
                .unwrap()
                .interval
                .unwrap()
                .contains(0.0)
        });
        assert!(
            (decided - power).abs() < 0.08,
            "{power}: {rounds} rounds decided {decided}"
        );
    }
}
