//! The difference of the means of two independent samples, by Welch's t.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::error::check_finite;
use crate::sample::{mean, squared_deviations};
use crate::{StatsError, student_t_quantile, student_t_two_sided_p};

/// The difference of two means, with its uncertainty. Source: Welch, "The generalization of 'Student's' problem when
/// several different population variances are involved", Biometrika 34, 1947.
///
/// For values that are means of runs, this is the random-effects model of a nested design: the run is the unit, and
/// the variation between the trials of a run counts only through the run's mean. Source: Kalibera & Jones, "Rigorous
/// benchmarking in reasonable time", ISMM 2013.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanDifference {
    /// The candidate's mean − the baseline's.
    pub value: f64,
    /// The standard error of `value`; 0 if both samples are constant.
    pub error: f64,
    /// Degrees of freedom of `error`.
    pub freedom: f64,
}

/// The difference of the means. Needs two values per side.
pub fn mean_difference(baseline: &[f64], candidate: &[f64]) -> Result<MeanDifference, StatsError> {
    check_finite(baseline, 2)?;
    check_finite(candidate, 2)?;
    let moments = |values: &[f64]| {
        let free = (values.len() - 1) as f64;
        let squared_error = squared_deviations(values) / free / values.len() as f64;
        (mean(values), squared_error, free)
    };
    let (before, before_error, before_free) = moments(baseline);
    let (after, after_error, after_free) = moments(candidate);
    let squared = before_error + after_error;
    let difference = after - before;
    // A difference this small is only rounding.
    let rounding = 1e-12 * before.abs().max(after.abs());
    let found = MeanDifference {
        value: if difference.abs() <= rounding {
            0.0
        } else {
            difference
        },
        error: squared.sqrt(),
        freedom: match squared > 0.0 {
            true => {
                // Divide first: the squares of very small variances would underflow.
                let (before, after) = (before_error / squared, after_error / squared);
                1.0 / (before * before / before_free + after * after / after_free)
            }
            false => before_free + after_free,
        },
    };
    match found.value.is_finite() && found.error.is_finite() && found.freedom.is_finite() {
        true => Ok(found),
        false => Err(StatsError::Overflow),
    }
}

impl MeanDifference {
    /// The two-sided p for the hypothesis of equal means.
    pub fn p(&self) -> f64 {
        self.two_sided(self.value)
    }

    /// The interval at `level`, lower end first.
    pub fn interval(&self, level: f64) -> Result<(f64, f64), StatsError> {
        let reach = student_t_quantile((1.0 + level) / 2.0, self.freedom)? * self.error;
        Ok((self.value - reach, self.value + reach))
    }

    /// The larger p of two one-sided tests that the difference lies between `low` and `high`. Source: Schuirmann 1987.
    pub fn equivalence_p(&self, low: f64, high: f64) -> f64 {
        let above = |distance: f64| match distance > 0.0 {
            true => self.two_sided(distance) / 2.0,
            false => 1.0 - self.two_sided(distance) / 2.0,
        };
        above(self.value - low).max(above(high - self.value))
    }

    fn two_sided(&self, distance: f64) -> f64 {
        match (distance == 0.0, self.error == 0.0) {
            (true, _) => 1.0,
            (false, true) => 0.0,
            // Fails only if t is NaN.
            (false, false) => {
                student_t_two_sided_p(distance / self.error, self.freedom).unwrap_or(1.0)
            }
        }
    }
}

/// Up to this number of assignments, all of them are counted.
const ALL_ASSIGNMENTS_LIMIT: u64 = 20_000;
/// Number of random assignments where there are more.
const ASSIGNMENTS: usize = 10_000;
/// The same values have the same result.
const SEED: u64 = 1;

/// The two-sided p of equal distributions by the difference of the means: the share of the assignments of all values to
/// the sides whose difference is at least as large. Exact for any distribution, up to 20 000 assignments; of more, 10
/// 000 random ones and the actual one. Source: Pitman, "Significance tests which may be applied to samples from any
/// populations", JRSS Supplement 4(1), 1937.
pub fn mean_permutation_p(baseline: &[f64], candidate: &[f64]) -> Result<f64, StatsError> {
    check_finite(baseline, 1)?;
    check_finite(candidate, 1)?;
    let (fewer, more) = match baseline.len() <= candidate.len() {
        true => (baseline, candidate),
        false => (candidate, baseline),
    };
    let centre = mean(&[fewer, more].concat());
    let mut values: Vec<f64> = fewer.iter().chain(more).map(|it| it - centre).collect();
    let taken = fewer.len();
    // The sum of one side determines the difference of the means.
    let sum = |values: &[f64]| values.iter().sum::<f64>().abs();
    let scale = values.iter().fold(0.0f64, |most, it| most.max(it.abs()));
    let least = sum(&values[..taken]) - 1e-9 * scale;
    let as_large = |sum: f64| u64::from(sum.abs() >= least);
    let mut assignments = 1u64;
    for place in 0..taken {
        let of = (values.len() - place) as u64;
        assignments = assignments.saturating_mul(of) / (place as u64 + 1);
        if assignments > ALL_ASSIGNMENTS_LIMIT {
            break;
        }
    }
    if assignments <= ALL_ASSIGNMENTS_LIMIT {
        let mut count = 0;
        each_sum(&values, taken, 0.0, &mut |sum| count += as_large(sum));
        return Ok(count as f64 / assignments as f64);
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let mut count = 1;
    for _ in 0..ASSIGNMENTS {
        let (chosen, _) = values.partial_shuffle(&mut random, taken);
        count += as_large(chosen.iter().sum());
    }
    Ok(count as f64 / (ASSIGNMENTS + 1) as f64)
}

/// Calls `visit` with `sum` plus the sum of each choice of `taken` values.
fn each_sum(values: &[f64], taken: usize, sum: f64, visit: &mut impl FnMut(f64)) {
    if taken == 0 {
        return visit(sum);
    }
    for first in 0..=values.len() - taken {
        each_sum(&values[first + 1..], taken - 1, sum + values[first], visit);
    }
}

/// The interval that contains one further value of a normal population with probability `level`, lower end first. Needs
/// two values. Source: Hahn & Meeker, "Statistical Intervals", 4.8: mean ± t · s · √(1 + 1/n).
///
/// `correlation`: of a value with the one before. Above 0, n values count as n·(1−ρ)/(1+ρ), at least two, and s is
/// corrected for the part of the variation that they share. Source: Zwiers & von Storch, "Taking serial correlation
/// into account in tests of the mean", Journal of Climate 8, 1995.
pub fn prediction_interval(
    values: &[f64],
    level: f64,
    correlation: f64,
) -> Result<(f64, f64), StatsError> {
    /// The smallest share of the variation that is taken as visible.
    const VISIBLE: f64 = 0.2;
    check_finite(values, 2)?;
    let count = values.len() as f64;
    let centre = mean(values);
    let correlation = correlation.clamp(0.0, 0.95);
    let time = (1.0 + correlation) / (1.0 - correlation);
    let effective = (count / time).max(2.0);
    let visible = (1.0 - (time - 1.0) / (count - 1.0)).max(VISIBLE);
    let deviation = (squared_deviations(values) / (count - 1.0) / visible).sqrt();
    let quantile = student_t_quantile((1.0 + level) / 2.0, effective - 1.0)?;
    let reach = quantile * deviation * (1.0 + 1.0 / effective).sqrt();
    match centre.is_finite() && reach.is_finite() {
        true => Ok((centre - reach, centre + reach)),
        false => Err(StatsError::Overflow),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_formulas_and_an_integrated_density() {
        // By Welch's formulas, and the density of t integrated by Simpson's rule in 200 000 steps.
        let found = mean_difference(&[5.1, 4.9, 5.4, 5.6], &[6.2, 5.8, 7.1]).unwrap();
        let near = |value: f64, expected: f64| {
            assert!((value - expected).abs() < 1e-9, "{value} {expected}");
        };
        near(found.value, 1.1166666666666667);
        near(found.error, 0.41466184348749086);
        near(found.freedom, 2.660193702919429);
        near(found.p(), 0.0845248565672071);
        let (low, high) = found.interval(0.95).unwrap();
        near((low + high) / 2.0, found.value);
        near(found.equivalence_p(0.0, 100.0), found.p() / 2.0);
        // The interval ends where p is 1 − level.
        let shifted = MeanDifference {
            value: found.value - low,
            ..found
        };
        near(shifted.p(), 0.05);
    }

    #[test]
    fn constant_samples_have_p_0_or_1() {
        let same = mean_difference(&[0.25; 3], &[0.25; 3]).unwrap();
        assert_eq!((same.p(), same.equivalence_p(-0.01, 0.01)), (1.0, 0.0));
        let other = mean_difference(&[0.25; 3], &[0.5; 3]).unwrap();
        assert_eq!((other.p(), other.equivalence_p(-0.01, 0.01)), (0.0, 1.0));
        assert_eq!(other.interval(0.95).unwrap(), (other.value, other.value));
        assert!(mean_difference(&[1.0], &[1.0, 2.0]).is_err());
        assert!(mean_difference(&[f64::NAN, 1.0], &[1.0, 2.0]).is_err());
    }

    #[test]
    fn permutations_count_the_assignments_that_are_as_far_apart() {
        let p = |one: &[f64], other: &[f64]| mean_permutation_p(one, other).unwrap();
        assert_eq!(p(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), 2.0 / 20.0);
        assert_eq!(p(&[4.0, 5.0, 6.0, 7.0], &[1.0, 2.0, 3.0, 3.5]), 2.0 / 70.0);
        // With sides of different sizes there may be no opposite assignment that is as far apart.
        assert_eq!(p(&[1.0, 2.0], &[3.0, 4.0, 9.0]), 2.0 / 10.0);
        assert_eq!(p(&[1.0; 4], &[1.0; 4]), 1.0);
        // 5 values of 25 have 53 130 assignments: random ones.
        let apart: Vec<f64> = (0..20).map(|it| 100.0 + f64::from(it)).collect();
        assert!(p(&[1.0, 2.0, 3.0, 4.0, 5.0], &apart) < 0.002);
        let same: Vec<f64> = (0..20).map(f64::from).collect();
        assert!(p(&[1.0, 5.0, 9.0, 13.0, 18.0], &same) > 0.5);
        assert!(mean_permutation_p(&[], &[1.0]).is_err());
    }

    #[test]
    fn a_prediction_agrees_with_the_table_of_t() {
        // t(0.995, 4) = 4.604095; s of 1..5 = √2.5.
        let (low, high) = prediction_interval(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.99, 0.0).unwrap();
        let reach = 4.604_094_871 * 2.5f64.sqrt() * 1.2f64.sqrt();
        assert!((low - (3.0 - reach)).abs() < 1e-6, "{low}");
        assert!((high - (3.0 + reach)).abs() < 1e-6, "{high}");
        assert!(prediction_interval(&[1.0], 0.99, 0.0).is_err());
        let constant = prediction_interval(&[2.0; 3], 0.99, 0.0).unwrap();
        assert_eq!(constant, (2.0, 2.0));
        let (_, correlated) = prediction_interval(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.99, 0.5).unwrap();
        assert!(correlated > high + reach, "{correlated}");
    }
}
