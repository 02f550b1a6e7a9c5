//! One figure for a family of workloads.

use crate::StatsError;
use crate::logarithms::logarithms;
use crate::sample::mean;

/// exp(mean(ln x)) of values above zero. Ratios are averaged geometrically so that the choice of the
/// baseline does not matter (Fleming & Wallace, CACM 29(3), 1986).
pub fn geometric_mean(values: &[f64]) -> Result<f64, StatsError> {
    Ok(mean(&logarithms(values)?).exp())
}
