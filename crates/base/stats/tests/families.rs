//! Corrections for many comparisons, equivalence, bootstrap and families of workloads.

mod common;

use common::{X, Y, close};
use iodyno_stats::{
    Bootstrap, Margin, benjamini_hochberg, bootstrap, equivalence_of_differences,
    equivalence_paired, equivalence_unpaired, geometric_mean, holm, holm_levels,
};

#[track_caller]
fn all_close(got: &[f64], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    got.iter()
        .zip(want)
        .for_each(|(got, want)| close(*got, *want, 1e-12));
}

#[test]
fn adjusted_p_agree_with_statsmodels_and_scipy() {
    // statsmodels 0.15 multipletests(p, method='holm' | 'fdr_bh'); scipy stats.false_discovery_control(p)
    let p = [0.01, 0.04, 0.03, 0.005, 0.5, 0.04, 1.0];
    all_close(
        &holm(&p).unwrap(),
        &[0.06, 0.16, 0.15, 0.035, 1.0, 0.16, 1.0],
    );
    let want = [0.035, 0.056, 0.056, 0.035, 0.5833333333333334, 0.056, 1.0];
    all_close(&benjamini_hochberg(&p).unwrap(), &want);
}

#[test]
fn holm_levels_follow_holms_decisions() {
    let p = [0.04, 0.001, 0.013, 0.9];
    let levels = holm_levels(&p, 0.05).unwrap();
    // 0.001 ≤ 0.05/4, 0.013 ≤ 0.05/3, 0.04 > 0.05/2: the last two have the level of the third.
    all_close(
        &levels,
        &[
            1.0 - 0.05 / 2.0,
            1.0 - 0.05 / 4.0,
            1.0 - 0.05 / 3.0,
            1.0 - 0.05 / 2.0,
        ],
    );
    for (level, (p, adjusted)) in levels.iter().zip(p.iter().zip(holm(&p).unwrap())) {
        assert_eq!(*p <= 1.0 - level, adjusted <= 0.05);
    }
}

#[test]
fn equivalence_needs_a_spread_much_smaller_than_the_margin() {
    let margin = Margin::symmetric(0.03).unwrap();
    close(margin.low(), 1.0 / 1.03, 1e-12);
    let near: Vec<f64> = X
        .iter()
        .enumerate()
        .map(|(i, x)| x * (1.0 + 0.001 * (i as f64 - 4.3)))
        .collect();
    let found = equivalence_paired(&X, &near, margin).unwrap();
    // All ten rounds are within the margin on both sides: the smallest possible p, 1/2¹⁰.
    close(found.p, 1.0 / 1024.0, 1e-12);
    assert!(equivalence_paired(&X, &Y, margin).unwrap().p > 0.05);
    // The same data, unpaired, vary too much between trials.
    assert!(equivalence_unpaired(&X, &near, margin).unwrap().p > 0.05);
    let wide = Margin::symmetric(0.30).unwrap();
    assert!(equivalence_unpaired(&X, &near, wide).unwrap().p < 1e-4);
    let exchanged = equivalence_paired(&near, &X, margin).unwrap();
    close(exchanged.p_above_low, found.p_below_high, 1e-12);
    assert!(Margin::symmetric(0.0).is_err() && Margin::symmetric(f64::NAN).is_err());
    assert!(equivalence_of_differences(&[1.0, 2.0], 0.5, 0.5).is_err());
}

#[test]
fn equivalence_agrees_with_two_tests_by_scipy() {
    // scipy 1.16.3, d = log(Y/X): max(stats.wilcoxon(d - log(1/1.08), alternative='greater').pvalue,
    // stats.wilcoxon(d - log(1.08), alternative='less').pvalue), method='exact'
    let found = equivalence_paired(&X, &Y, Margin::symmetric(0.08).unwrap()).unwrap();
    close(found.p_above_low, 1.0 / 1024.0, 1e-12);
    close(found.p_below_high, 1.0 / 1024.0, 1e-12);
    let found = equivalence_paired(&X, &Y, Margin::symmetric(0.045).unwrap()).unwrap();
    close(found.p_below_high, 0.1611328125, 1e-12);
}

const ROUNDS: [f64; 12] = [
    0.012, 0.034, -0.008, 0.051, 0.027, 0.019, 0.043, -0.002, 0.03, 0.016, 0.022, 0.11,
];

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn bootstrap_intervals_agree_with_scipy() {
    // scipy 1.16.3: stats.bootstrap(data, statistic, n_resamples=200000, method=…, random_state=1);
    // both draw at random, so the tolerance is that of the draw.
    let settings = |level| Bootstrap {
        resamples: 100_000,
        seed: 7,
        level,
    };
    let check = |found: iodyno_stats::Estimate, low: f64, high: f64| {
        let interval = found.interval.unwrap();
        let slack = 0.02 * (high - low);
        assert!(
            (interval.low - low).abs() < slack,
            "{interval:?}, want {low}"
        );
        assert!(
            (interval.high - high).abs() < slack,
            "{interval:?}, want {high}"
        );
    };
    let of_mean = bootstrap(&ROUNDS, mean, &settings(0.95)).unwrap();
    check(of_mean, 0.014916666666666667, 0.04758333333333334);
    let deviation =
        |v: &[f64]| mean(&v.iter().map(|x| (x - mean(v)).powi(2)).collect::<Vec<_>>()).sqrt();
    let of_deviation = bootstrap(&ROUNDS, deviation, &settings(0.90)).unwrap();
    check(of_deviation, 0.012656520058847138, 0.04000861452365186);
}

#[test]
fn bootstrap_is_reproducible_from_its_seed() {
    let settings = |seed| Bootstrap {
        seed,
        ..Bootstrap::default()
    };
    let run = |seed| bootstrap(&ROUNDS, mean, &settings(seed)).unwrap();
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
    assert_eq!(
        bootstrap(&[5.0], mean, &settings(1)).unwrap().interval,
        None
    );
    let constant = bootstrap(&[5.0; 8], mean, &settings(1)).unwrap();
    assert_eq!(constant.interval.map(|i| (i.low, i.high)), Some((5.0, 5.0)));
    assert!(bootstrap(&ROUNDS, |_| f64::NAN, &settings(1)).is_err());
    assert!(
        bootstrap(
            &ROUNDS,
            mean,
            &Bootstrap {
                resamples: 99,
                ..settings(1)
            }
        )
        .is_err()
    );
}

#[test]
fn a_geometric_mean_agrees_with_scipy() {
    // scipy 1.16.3: stats.gmean([0.5, 2, 3, 1.1])
    close(
        geometric_mean(&[0.5, 2.0, 3.0, 1.1]).unwrap(),
        1.347809412512947,
        1e-12,
    );
}
