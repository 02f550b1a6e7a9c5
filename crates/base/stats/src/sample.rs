//! A checked, sorted sample and its order statistics.

use crate::StatsError;
use crate::error::check_finite;

/// Interpolation of a quantile between two order statistics. Types according to Hyndman & Fan, "Sample quantiles in
/// statistical packages", The American Statistician 50(4), 1996.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuantileKind {
    /// Type 7: linear between `x[⌊h⌋]` and the next, h = (n−1)q from 0. The default of numpy and R.
    Linear,
    /// Type 8: h = (n+⅓)q + ⅓ from 1; approximately median-unbiased for any distribution. Used by benchstat.
    MedianUnbiased,
    /// The smallest value with at least the share q of the sample at or below it (type 1): always a value of the
    /// sample. HDR histograms report it.
    Rank,
}

/// Finite values in ascending order; never empty.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    sorted: Vec<f64>,
}

impl Sample {
    /// Checks `values`, in any order, and sorts a copy.
    pub fn new(values: &[f64]) -> Result<Self, StatsError> {
        check_finite(values, 1)?;
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        Ok(Sample { sorted })
    }

    /// The values in ascending order.
    pub fn sorted(&self) -> &[f64] {
        &self.sorted
    }

    /// The number of values, at least one.
    pub fn count(&self) -> usize {
        self.sorted.len()
    }

    /// The smallest value.
    pub fn min(&self) -> f64 {
        self.sorted[0]
    }

    /// The largest value.
    pub fn max(&self) -> f64 {
        self.sorted[self.sorted.len() - 1]
    }

    /// The arithmetic mean.
    pub fn mean(&self) -> f64 {
        mean(&self.sorted)
    }

    /// The middle value, or the mean of the two in the middle.
    pub fn median(&self) -> f64 {
        let middle = self.sorted.len() / 2;
        if self.sorted.len() % 2 == 1 {
            self.sorted[middle]
        } else {
            midpoint(self.sorted[middle - 1], self.sorted[middle])
        }
    }

    /// The quantile at the share `q` from 0 to 1.
    pub fn quantile(&self, q: f64, kind: QuantileKind) -> Result<f64, StatsError> {
        if !(0.0..=1.0).contains(&q) {
            return Err(StatsError::OutOfRange {
                name: "quantile",
                value: q,
                expected: "a number from 0 to 1",
            });
        }
        let count = self.sorted.len() as f64;
        // The position of the quantile among the order statistics, counted from 0.
        let place = match kind {
            QuantileKind::Linear => (count - 1.0) * q,
            QuantileKind::MedianUnbiased => (count + 1.0 / 3.0) * q - 2.0 / 3.0,
            QuantileKind::Rank => (count * q).ceil() - 1.0,
        }
        .clamp(0.0, count - 1.0);
        let below = place.floor() as usize;
        let above = (below + 1).min(self.sorted.len() - 1);
        let share = place - below as f64;
        if share == 0.0 {
            return Ok(self.sorted[below]);
        }
        Ok(self.sorted[below] * (1.0 - share) + self.sorted[above] * share)
    }
}

/// Halfway between two finite values, without overflow.
pub(crate) fn midpoint(a: f64, b: f64) -> f64 {
    a * 0.5 + b * 0.5
}

/// The arithmetic mean of a non-empty slice.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The sum of squared deviations from the mean, in two passes for accuracy.
pub(crate) fn squared_deviations(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum()
}
