//! Simultaneous limits of several means by random signs.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::error::{check_finite, check_open_unit};
use crate::{QuantileKind, Sample, StatsError};

/// Number of random signs of all values.
const FLIPS: usize = 2000;

/// The number of standard errors by which, with probability `level`, no mean of these samples is below its expectation. The values at
/// one place belong together and get one sign, so that samples that vary together count as few. The expectations need not be
/// equal; deviations have to be symmetric. Samples without any variation are left out.
///
/// Source: the maximum statistic of Westfall & Young, "Resampling-Based Multiple Testing", 1993, with signs in place of permutations.
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
    let count = length as f64;
    let squares: Vec<f64> = deviations
        .iter()
        .map(|own| own.iter().map(|value| value * value).sum())
        .collect();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut largest = Vec::with_capacity(FLIPS);
    let mut signs = vec![1.0; length];
    for _ in 0..FLIPS {
        for sign in &mut signs {
            *sign = if random.random::<bool>() { 1.0 } else { -1.0 };
        }
        let of_sample = |(own, square): (&Vec<f64>, &f64)| {
            let sum: f64 = own
                .iter()
                .zip(&signs)
                .map(|(value, sign)| value * sign)
                .sum();
            let mean = sum / count;
            let variance = (square / count - mean * mean) / (count - 1.0);
            mean / variance.max(f64::MIN_POSITIVE).sqrt()
        };
        let all = deviations.iter().zip(&squares).map(of_sample);
        largest.push(all.fold(0.0, f64::max).min(1e6));
    }
    Sample::new(&largest)?.quantile(level, QuantileKind::Linear)
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
    fn samples_without_variation_and_wrong_samples_are_told_apart() {
        assert_eq!(simultaneous_reach(&[vec![1.0; 5]], 0.9, 1).unwrap(), 0.0);
        assert!(simultaneous_reach(&[vec![1.0]], 0.9, 1).is_err());
        assert!(simultaneous_reach(&[vec![1.0; 3], vec![1.0; 4]], 0.9, 1).is_err());
        let (mean, error) = mean_and_error(&[1.0, 2.0, 3.0]).unwrap();
        assert!((mean - 2.0).abs() < 1e-12 && (error - (1.0f64 / 3.0).sqrt()).abs() < 1e-12);
    }
}
