//! Errors of this crate.

use thiserror::Error;

/// Why a statistic could not be computed. Nothing in this crate panics on its input.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum StatsError {
    /// Fewer values than the statistic is defined for; an empty input is `got: 0`.
    #[error("need at least {needed} values, got {got}")]
    TooFew {
        /// The minimum number of values.
        needed: usize,
        /// The number of values given.
        got: usize,
    },
    /// A value is NaN or infinite.
    #[error("value {index} is not a finite number")]
    NotFinite {
        /// Its index in the input, from 0.
        index: usize,
    },
    /// A ratio or a logarithm needs values above zero.
    #[error("value {index} is {value}, but ratios need values above zero")]
    NotPositive {
        /// Its index in the input, from 0.
        index: usize,
        /// The value.
        value: f64,
    },
    /// Paired inputs have different lengths.
    #[error("paired inputs differ in length: {left} and {right}")]
    LengthMismatch {
        /// Number of values on the left.
        left: usize,
        /// Number of values on the right.
        right: usize,
    },
    /// A setting lies outside its range.
    #[error("{name} is {value}, expected {expected}")]
    OutOfRange {
        /// Name of the setting.
        name: &'static str,
        /// The given value.
        value: f64,
        /// The accepted range.
        expected: &'static str,
    },
    /// The values are so large that their differences overflow.
    #[error("the values are too large: their differences overflow")]
    Overflow,
    /// The caller's statistic returned NaN or infinity for a resample.
    #[error("the statistic is not finite for a resample of the data")]
    StatisticNotFinite,
}

/// Rejects an input shorter than `needed`, or with a NaN or an infinity.
pub(crate) fn check_finite(values: &[f64], needed: usize) -> Result<(), StatsError> {
    if values.len() < needed {
        return Err(StatsError::TooFew {
            needed,
            got: values.len(),
        });
    }
    match values.iter().position(|value| !value.is_finite()) {
        Some(index) => Err(StatsError::NotFinite { index }),
        None => Ok(()),
    }
}

/// Rejects what [`check_finite`] rejects, and values of zero or below.
pub(crate) fn check_positive(values: &[f64], needed: usize) -> Result<(), StatsError> {
    check_finite(values, needed)?;
    match values.iter().position(|value| *value <= 0.0) {
        Some(index) => Err(StatsError::NotPositive {
            index,
            value: values[index],
        }),
        None => Ok(()),
    }
}

/// Rejects a probability that is not strictly between 0 and 1.
pub(crate) fn check_open_unit(name: &'static str, value: f64) -> Result<(), StatsError> {
    if value > 0.0 && value < 1.0 {
        return Ok(());
    }
    Err(StatsError::OutOfRange {
        name,
        value,
        expected: "a number above 0 and below 1",
    })
}

/// Rejects a p-value that is NaN or outside [0, 1].
pub(crate) fn check_p_values(p_values: &[f64]) -> Result<(), StatsError> {
    check_finite(p_values, 1)?;
    match p_values.iter().find(|p| !(0.0..=1.0).contains(*p)) {
        Some(&value) => Err(StatsError::OutOfRange {
            name: "p-value",
            value,
            expected: "a number from 0 to 1",
        }),
        None => Ok(()),
    }
}
