//! Bootstrap intervals over trials, reproducible by a seed.
//!
//! The trial is the unit: resample trials, never the seconds within one (Kalibera & Jones, "Rigorous
//! benchmarking in reasonable time", ISMM 2013: resample the highest level).

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::error::{check_finite, check_open_unit};
use crate::{Estimate, Interval, Method, QuantileKind, Sample, StatsError};

/// How to resample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bootstrap {
    /// Number of resamples; at least 100.
    pub resamples: usize,
    /// The seed: the same seed and data give the same interval.
    pub seed: u64,
    /// The confidence level, above 0 and below 1.
    pub level: f64,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Bootstrap {
            resamples: 10_000,
            seed: 1,
            level: 0.95,
        }
    }
}

/// The statistic of `values` with its bootstrap interval: the percentiles of the resampled statistics. With fewer than
/// about ten values bootstrap intervals are too narrow: prefer exact ones. The interval is `None` for a single value.
pub fn bootstrap(
    values: &[f64],
    statistic: impl Fn(&[f64]) -> f64,
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
    check_finite(values, 1)?;
    let value = finite(statistic(values))?;
    if values.len() == 1 {
        return Ok(Estimate {
            value,
            interval: None,
        });
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(settings.seed);
    let mut work = values.to_vec();
    let mut resampled = Vec::with_capacity(settings.resamples);
    for _ in 0..settings.resamples {
        work.fill_with(|| values[random.random_range(0..values.len())]);
        resampled.push(finite(statistic(&work))?);
    }
    let resampled = Sample::new(&resampled)?;
    let tail = (1.0 - settings.level) / 2.0;
    let interval = Interval {
        low: resampled.quantile(tail, QuantileKind::Linear)?,
        high: resampled.quantile(1.0 - tail, QuantileKind::Linear)?,
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
