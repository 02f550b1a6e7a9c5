//! Bootstrap intervals over trials, reproducible by a seed.
//!
//! The trial is the unit: resample trials, never the seconds within one (Kalibera & Jones, "Rigorous
//! benchmarking in reasonable time", ISMM 2013: resample the highest level).

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::error::{check_finite, check_open_unit};
use crate::{Estimate, Interval, Method, QuantileKind, Sample, StatsError};
use crate::{normal_cdf, normal_quantile};

/// How the interval is computed from the resampled statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootstrapKind {
    /// The percentiles of the resampled statistics.
    Percentile,
    /// Bias-corrected and accelerated: the percentiles moved by the median bias of the resamples and the
    /// skewness found by leaving one value out. Source: Efron & Tibshirani, "An Introduction to the
    /// Bootstrap", 14.3.
    BiasCorrected,
}

/// How to resample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bootstrap {
    /// Number of resamples; at least 100.
    pub resamples: usize,
    /// The seed: the same seed and data give the same interval.
    pub seed: u64,
    /// The confidence level, above 0 and below 1.
    pub level: f64,
    /// How the interval is computed.
    pub kind: BootstrapKind,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Bootstrap {
            resamples: 10_000,
            seed: 1,
            level: 0.95,
            kind: BootstrapKind::BiasCorrected,
        }
    }
}

/// The statistic of `values` with its bootstrap interval. With fewer than about ten values bootstrap intervals
/// are too narrow: prefer exact ones. The interval is `None` for a single value.
pub fn bootstrap(
    values: &[f64],
    statistic: impl Fn(&[f64]) -> f64,
    settings: &Bootstrap,
) -> Result<Estimate, StatsError> {
    groups(&[values], |groups| statistic(&groups[0]), settings)
}

/// The bootstrap over any number of independent groups.
fn groups(
    data: &[&[f64]],
    statistic: impl Fn(&[Vec<f64>]) -> f64,
    settings: &Bootstrap,
) -> Result<Estimate, StatsError> {
    check_open_unit("level", settings.level)?;
    if settings.resamples < 100 {
        return Err(StatsError::OutOfRange {
            name: "resamples",
            value: settings.resamples as f64,
            expected: "at least 100",
        });
    }
    for group in data {
        check_finite(group, 1)?;
    }
    let mut work: Vec<Vec<f64>> = data.iter().map(|group| group.to_vec()).collect();
    let value = finite(statistic(&work))?;
    if data.iter().all(|group| group.len() == 1) {
        return Ok(Estimate {
            value,
            interval: None,
        });
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(settings.seed);
    let mut resampled = Vec::with_capacity(settings.resamples);
    for _ in 0..settings.resamples {
        for (target, source) in work.iter_mut().zip(data) {
            target.fill_with(|| source[random.random_range(0..source.len())]);
        }
        resampled.push(finite(statistic(&work))?);
    }
    let resampled = Sample::new(&resampled)?;
    let tail = (1.0 - settings.level) / 2.0;
    let (low, high) = match settings.kind {
        BootstrapKind::Percentile => (tail, 1.0 - tail),
        BootstrapKind::BiasCorrected => {
            let acceleration = acceleration(data, &statistic)?;
            corrected_shares(&resampled, value, acceleration, tail)?
        }
    };
    let interval = Interval {
        low: resampled.quantile(low, QuantileKind::Linear)?,
        high: resampled.quantile(high, QuantileKind::Linear)?,
        confidence: settings.level,
        method: Method::Resampled,
    };
    Ok(Estimate {
        value,
        interval: Some(interval),
    })
}

fn finite(value: f64) -> Result<f64, StatsError> {
    if value.is_finite() {
        Ok(value)
    } else {
        Err(StatsError::StatisticNotFinite)
    }
}

/// The quantiles to use instead of `tail` and 1 − `tail`.
fn corrected_shares(
    resampled: &Sample,
    value: f64,
    acceleration: f64,
    tail: f64,
) -> Result<(f64, f64), StatsError> {
    let sorted = resampled.sorted();
    let below = sorted.partition_point(|r| *r < value);
    let not_above = sorted.partition_point(|r| *r <= value);
    // Resamples equal to the estimate count half; at either extreme no correction can be computed.
    let share = (below + not_above) as f64 / (2 * sorted.len()) as f64;
    if share <= 0.0 || share >= 1.0 {
        return Ok((tail, 1.0 - tail));
    }
    let bias = normal_quantile(share)?;
    let moved = |z: f64| normal_cdf(bias + (bias + z) / (1.0 - acceleration * (bias + z)));
    let z = normal_quantile(tail)?;
    Ok((moved(z), moved(-z)))
}

/// The skewness correction: from the statistics with each value of any group left out in turn.
fn acceleration(
    data: &[&[f64]],
    statistic: &impl Fn(&[Vec<f64>]) -> f64,
) -> Result<f64, StatsError> {
    let mut work: Vec<Vec<f64>> = data.iter().map(|group| group.to_vec()).collect();
    let (mut cubes, mut squares) = (0.0, 0.0);
    for (index, group) in data.iter().enumerate().filter(|(_, group)| group.len() > 1) {
        let mut without = Vec::with_capacity(group.len());
        for left_out in 0..group.len() {
            work[index].clear();
            work[index].extend_from_slice(&group[..left_out]);
            work[index].extend_from_slice(&group[left_out + 1..]);
            without.push(finite(statistic(&work))?);
        }
        work[index] = group.to_vec();
        let count = group.len() as f64;
        let mean = crate::sample::mean(&without);
        for value in without {
            let influence = (count - 1.0) * (mean - value) / count;
            cubes += influence.powi(3);
            squares += influence.powi(2);
        }
    }
    if squares == 0.0 {
        return Ok(0.0);
    }
    Ok(cubes / (6.0 * squares.powf(1.5)))
}
