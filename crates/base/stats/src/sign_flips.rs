//! Simultaneous limits and tests of several means by random signs.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::error::{check_finite, check_open_unit};
use crate::{QuantileKind, Sample, StatsError};

/// Number of random signs of all values.
const FLIPS: usize = 2000;

/// Up to this number of values, [`simultaneous_tests`] uses all signs: half of 2ⁿ, because opposite ones have the same
/// result.
const ALL_SIGNS_LIMIT: usize = 12;

/// A studentised mean is at most this: that of equal values has no limit.
const LARGEST: f64 = 1e6;

/// The number of standard errors by which, with probability `level`, no mean of these samples is below its expectation.
/// The values at one place belong together and get one sign, so that samples that vary together count as few. The
/// expectations need not be equal; deviations have to be symmetric. Samples without any variation are left out.
///
/// Source: the maximum statistic of Westfall & Young, "Resampling-Based Multiple Testing", 1993, with signs in place of
/// permutations.
///
/// # Errors
/// There is no sample, samples have different lengths or less than two values, or a value is not finite.
pub fn simultaneous_reach(samples: &[Vec<f64>], level: f64, seed: u64) -> Result<f64, StatsError> {
    check_open_unit("level", level)?;
    let length = samples.first().map_or(0, Vec::len);
    let mut deviations: Vec<Vec<f64>> = Vec::with_capacity(samples.len());
    for sample in samples {
        check_finite(sample, 2)?;
        if sample.len() != length {
            return Err(StatsError::LengthMismatch {
                left: length,
                right: sample.len(),
            });
        }
        let mean = Sample::new(sample)?.mean();
        let own: Vec<f64> = sample.iter().map(|value| value - mean).collect();
        if own.iter().any(|value| *value != 0.0) {
            deviations.push(own);
        }
    }
    let flips = random_signs(length, seed);
    let largest = flips.map(|signs| {
        let all = deviations.iter().map(|own| studentised(own, Some(&signs)));
        all.fold(0.0, f64::max)
    });
    let largest: Vec<f64> = largest.collect();
    Sample::new(&largest)?.quantile(level, QuantileKind::Linear)
}

/// Two-sided tests of several means against 0, all together.
#[derive(Debug, Clone, PartialEq)]
pub struct SimultaneousTests {
    /// The p value of each sample, corrected for the number of samples.
    pub p: Vec<f64>,
    /// The number of standard errors by which no mean differs from its expectation, with the probability `level`.
    pub reach: f64,
}

/// Tests whether the means of these samples are 0, with the probability α = 1 − `level` that any of those that are 0
/// has a p of at most α. The values at one place belong together and get one sign. Deviations have to be symmetric.
/// With n values, the smallest p is 2/2ⁿ, whatever the number of samples.
///
/// Source: Westfall & Young, "Resampling-Based Multiple Testing", 1993, algorithm 2.5 (single step, maximum statistic),
/// with signs.
///
/// # Errors
/// There is no sample, samples have different lengths or less than two values, or a value is not finite.
pub fn simultaneous_tests(
    samples: &[Vec<f64>],
    level: f64,
    seed: u64,
) -> Result<SimultaneousTests, StatsError> {
    check_open_unit("level", level)?;
    let length = samples.first().map_or(0, Vec::len);
    for sample in samples {
        check_finite(sample, 2)?;
        if sample.len() != length {
            return Err(StatsError::LengthMismatch {
                left: length,
                right: sample.len(),
            });
        }
    }
    if samples.is_empty() {
        return Err(StatsError::TooFew { needed: 1, got: 0 });
    }
    let largest = |signs: Option<&[f64]>| {
        let all = samples.iter().map(|own| studentised(own, signs).abs());
        all.fold(0.0, f64::max)
    };
    let mut maxima: Vec<f64> = match length <= ALL_SIGNS_LIMIT {
        true => (0..1usize << (length - 1))
            .map(|pattern| {
                let sign = |place: usize| match pattern >> place & 1 {
                    1 => -1.0,
                    _ => 1.0,
                };
                let signs: Vec<f64> = (0..length).map(sign).collect();
                largest(Some(&signs))
            })
            .collect(),
        // The signs as they are belong to all of them.
        false => std::iter::once(largest(None))
            .chain(random_signs(length, seed).map(|signs| largest(Some(&signs))))
            .collect(),
    };
    maxima.sort_unstable_by(f64::total_cmp);
    let count = maxima.len();
    let p = samples.iter().map(|own| {
        let own = studentised(own, None).abs() * (1.0 - 1e-9);
        (count - maxima.partition_point(|it| *it < own)) as f64 / count as f64
    });
    let beyond = ((1.0 - level) * count as f64 + 1e-9).floor() as usize;
    Ok(SimultaneousTests {
        p: p.collect(),
        reach: maxima[count - 1 - beyond.min(count - 1)],
    })
}

fn random_signs(length: usize, seed: u64) -> impl Iterator<Item = Vec<f64>> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut sign = move || if random.random::<bool>() { 1.0 } else { -1.0 };
    (0..FLIPS).map(move |_| (0..length).map(|_| sign()).collect())
}

/// The mean ÷ its standard error, with these signs of the values; at most [`LARGEST`], and 0 if all values are.
fn studentised(values: &[f64], signs: Option<&[f64]>) -> f64 {
    let count = values.len() as f64;
    let sum: f64 = match signs {
        Some(signs) => values.iter().zip(signs).map(|(it, sign)| it * sign).sum(),
        None => values.iter().sum(),
    };
    let square: f64 = values.iter().map(|value| value * value).sum();
    if square == 0.0 {
        return 0.0;
    }
    let mean = sum / count;
    // A variance this small is only rounding.
    let variance = (square / count - mean * mean).max(1e-15 * square / count) / (count - 1.0);
    (mean / variance.sqrt()).clamp(-LARGEST, LARGEST)
}

/// The mean of a sample and its standard error.
///
/// # Errors
/// It has less than two values, or one is not finite.
pub fn mean_and_error(sample: &[f64]) -> Result<(f64, f64), StatsError> {
    check_finite(sample, 2)?;
    let mean = Sample::new(sample)?.mean();
    let count = sample.len() as f64;
    let squares: f64 = sample.iter().map(|value| (value - mean).powi(2)).sum();
    Ok((mean, (squares / (count - 1.0) / count).sqrt()))
}

#[cfg(test)]
mod tests {
    use rand_distr::{Distribution, Normal};

    use super::*;

    #[test]
    fn one_sample_needs_about_the_quantile_of_student_and_many_need_more() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let law = Normal::new(0.0, 1.0).unwrap();
        let samples: Vec<Vec<f64>> = (0..100)
            .map(|_| (0..12).map(|_| law.sample(&mut random)).collect())
            .collect();
        let one = simultaneous_reach(&samples[..1], 0.975, 1).unwrap();
        assert!((1.6..2.8).contains(&one), "{one}");
        let many = simultaneous_reach(&samples, 0.975, 1).unwrap();
        assert!((3.5..8.0).contains(&many), "{many}");
        // Samples that vary together count as one.
        let equal = vec![samples[0].clone(); 100];
        assert_eq!(simultaneous_reach(&equal, 0.975, 1).unwrap(), one);
    }

    #[test]
    fn tests_of_many_means_keep_their_level_together_and_find_a_mean() {
        let law = Normal::new(0.0, 1.0).unwrap();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(11);
        for length in [6, 10, 14] {
            let mut wrong = 0;
            for _ in 0..60 {
                let mut samples: Vec<Vec<f64>> = (0..30)
                    .map(|_| (0..length).map(|_| law.sample(&mut random)).collect())
                    .collect();
                let found = simultaneous_tests(&samples, 0.95, 1).unwrap();
                wrong += usize::from(found.p.iter().any(|p| *p <= 0.05));
                samples[3].iter_mut().for_each(|value| *value += 60.0);
                let found = simultaneous_tests(&samples, 0.95, 1).unwrap();
                assert!(found.p[3] <= 0.05, "{length}: {found:?}");
                let (mean, error) = mean_and_error(&samples[3]).unwrap();
                assert!(mean > found.reach * error, "{length}");
            }
            assert!(wrong <= 6, "{length}: {wrong} of 60");
        }
        let equal = simultaneous_tests(&[vec![0.5; 6], vec![0.0; 6]], 0.95, 1).unwrap();
        assert_eq!(equal.p, [2.0 / 64.0, 1.0]);
        assert!(simultaneous_tests(&[], 0.95, 1).is_err());
        assert!(simultaneous_tests(&[vec![1.0; 3], vec![1.0; 4]], 0.95, 1).is_err());
    }

    #[test]
    fn samples_without_variation_and_wrong_samples_are_told_apart() {
        assert_eq!(simultaneous_reach(&[vec![1.0; 5]], 0.9, 1).unwrap(), 0.0);
        assert!(simultaneous_reach(&[vec![1.0]], 0.9, 1).is_err());
        assert!(simultaneous_reach(&[vec![1.0; 3], vec![1.0; 4]], 0.9, 1).is_err());
        let (mean, error) = mean_and_error(&[1.0, 2.0, 3.0]).unwrap();
        assert!((mean - 2.0).abs() < 1e-12 && (error - (1.0f64 / 3.0).sqrt()).abs() < 1e-12);
    }
}
