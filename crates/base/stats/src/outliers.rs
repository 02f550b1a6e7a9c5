//! The mean without outliers, with the largest remaining deviation: older benchmark tables print it as `mean ± 3%`.

use crate::sample::mean;
use crate::{QuantileKind, Sample, StatsError};

/// A mean without outliers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrimmedMean {
    /// The mean of the remaining values.
    pub mean: f64,
    /// The smallest remaining value.
    pub min: f64,
    /// The largest remaining value.
    pub max: f64,
    /// max(1 − min/mean, max/mean − 1): the largest deviation, relative to the mean. `None` if the mean or the
    /// largest value is zero.
    pub deviation: Option<f64>,
    /// Number of dropped values.
    pub dropped: usize,
}

/// Drops values outside [Q1 − 1.5 IQR, Q3 + 1.5 IQR] (Tukey's fences with type 8 quartiles), and returns the mean of
/// the rest with its largest deviation, as golang.org/x/perf/benchstat did before it changed to medians.
pub fn trimmed_mean(values: &[f64]) -> Result<TrimmedMean, StatsError> {
    let sample = Sample::new(values)?;
    let first = sample.quantile(0.25, QuantileKind::MedianUnbiased)?;
    let third = sample.quantile(0.75, QuantileKind::MedianUnbiased)?;
    let reach = 1.5 * (third - first);
    if !reach.is_finite() {
        return Err(StatsError::Overflow);
    }
    let fences = first - reach..=third + reach;
    // Never empty: the median lies between the quartiles, apart from rounding.
    let kept: Vec<f64> = sample
        .sorted()
        .iter()
        .copied()
        .filter(|value| fences.contains(value))
        .collect();
    let kept = if kept.is_empty() {
        sample.sorted().to_vec()
    } else {
        kept
    };
    let mean = mean(&kept);
    if !mean.is_finite() {
        return Err(StatsError::Overflow);
    }
    let (min, max) = (kept[0], kept[kept.len() - 1]);
    Ok(TrimmedMean {
        mean,
        min,
        max,
        deviation: (mean != 0.0 && max != 0.0).then(|| (1.0 - min / mean).max(max / mean - 1.0)),
        dropped: sample.count() - kept.len(),
    })
}
