//! Autocorrelation time and effective size of a series.

use crate::StatsError;
use crate::error::check_finite;
use crate::sample::mean;

/// Maximum number of products: bounds the computing time for series with long correlation.
const MAX_PRODUCTS: usize = 700_000_000;

/// The integrated autocorrelation time of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Autocorrelation {
    /// τ = 1 + 2Σρₖ, in steps of the series; 1 for independent values, below 1 for alternating ones.
    pub time: f64,
    /// The number of values ÷ τ, at most the number of values.
    pub effective_size: f64,
    /// Whether the bound on computing time ended the sum early: τ is then a lower bound.
    pub lower_bound: bool,
}

/// τ = 1 + 2Σρₖ, summed over Geyer's initial positive sequence: pairs ρ₂ₘ + ρ₂ₘ₊₁ are added while their sum is
/// positive; later terms are noise.
///
/// The autocovariances divide by n at every lag. A constant series has τ = 1. A trend or a change of level makes τ
/// large, which is intended. τ is at least 1/n. Needs two values. Source: Geyer, "Practical Markov chain Monte
/// Carlo", Statistical Science 7(4), 1992, 3.3.
pub fn autocorrelation_time(series: &[f64]) -> Result<Autocorrelation, StatsError> {
    check_finite(series, 2)?;
    let count = series.len();
    let mean = mean(series);
    let centred: Vec<f64> = series.iter().map(|value| value - mean).collect();
    let variance = product(&centred, 0);
    if !variance.is_finite() {
        return Err(StatsError::Overflow);
    }
    let result = |time: f64, lower_bound| {
        let time = time.max(1.0 / count as f64);
        Autocorrelation {
            time,
            effective_size: (count as f64 / time).min(count as f64),
            lower_bound,
        }
    };
    if variance == 0.0 {
        return Ok(result(1.0, false));
    }
    let mut time = -1.0;
    let most_lags = (MAX_PRODUCTS / count).max(2);
    for lag in (0..count - 1).step_by(2) {
        let pair = (product(&centred, lag) + product(&centred, lag + 1)) / variance;
        if pair <= 0.0 {
            break;
        }
        time += 2.0 * pair;
        if lag >= most_lags {
            return Ok(result(time, true));
        }
    }
    Ok(result(time, false))
}

/// Σ xₜ xₜ₊ₗₐ𝓰, in eight running sums, which the compiler can keep in vector registers.
fn product(centred: &[f64], lag: usize) -> f64 {
    let (left, right) = (&centred[..centred.len() - lag], &centred[lag..]);
    let mut sums = [0.0; 8];
    let (left_blocks, right_blocks) = (left.chunks_exact(8), right.chunks_exact(8));
    let rest: f64 = left_blocks
        .remainder()
        .iter()
        .zip(right_blocks.remainder())
        .map(|(a, b)| a * b)
        .sum();
    for (a, b) in left_blocks.zip(right_blocks) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f64>() + rest
}
