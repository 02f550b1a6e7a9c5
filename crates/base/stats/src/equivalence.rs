//! Equivalence by two one-sided tests.

use crate::logarithms::{log_ratios, logarithms};
use crate::{StatsError, mann_whitney, signed_rank};

/// The range of ratios that count as equal, `low < 1 < high`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Margin {
    low: f64,
    high: f64,
}

impl Margin {
    /// From 1/(1+share) to 1+share: symmetric in the logarithm, so that exchanging baseline and
    /// candidate changes nothing. `share` is 0.03 for ±3 %.
    pub fn symmetric(share: f64) -> Result<Self, StatsError> {
        if share > 0.0 && share.is_finite() {
            return Ok(Margin {
                low: 1.0 / (1.0 + share),
                high: 1.0 + share,
            });
        }
        Err(StatsError::OutOfRange {
            name: "margin",
            value: share,
            expected: "a number above 0",
        })
    }

    /// The smallest ratio that still counts as equal.
    pub fn low(self) -> f64 {
        self.low
    }

    /// The largest ratio that still counts as equal.
    pub fn high(self) -> f64 {
        self.high
    }
}

/// The outcome of two one-sided tests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Equivalence {
    /// p of "above the lower bound".
    pub p_above_low: f64,
    /// p of "below the upper bound".
    pub p_below_high: f64,
    /// The larger of the two: equivalence is shown if it is at most α. The two tests need no correction,
    /// because both must succeed.
    pub p: f64,
}

impl Equivalence {
    fn of(p_above_low: f64, p_below_high: f64) -> Self {
        Equivalence {
            p_above_low,
            p_below_high,
            p: p_above_low.max(p_below_high),
        }
    }
}

/// Two one-sided signed-rank tests that the centre of `differences` lies between `low` and `high`.
/// Source: Schuirmann 1987, with the rank test in place of t (Wellek, "Testing Statistical Hypotheses
/// of Equivalence", 2nd ed., 5.4). The smallest p possible is 1/2ⁿ.
pub fn equivalence_of_differences(
    differences: &[f64],
    low: f64,
    high: f64,
) -> Result<Equivalence, StatsError> {
    if low.is_nan() || high.is_nan() || low >= high {
        return Err(StatsError::OutOfRange {
            name: "lower bound",
            value: low,
            expected: "a number below the upper bound",
        });
    }
    let shifted = |bound: f64| differences.iter().map(|d| d - bound).collect::<Vec<_>>();
    Ok(Equivalence::of(
        signed_rank(&shifted(low))?.p_greater,
        signed_rank(&shifted(high))?.p_less,
    ))
}

/// Equivalence of trials paired by round, on their log-ratios.
pub fn equivalence_paired(
    baseline: &[f64],
    candidate: &[f64],
    margin: Margin,
) -> Result<Equivalence, StatsError> {
    let ratios = log_ratios(baseline, candidate)?;
    equivalence_of_differences(&ratios, margin.low.ln(), margin.high.ln())
}

/// Equivalence of trials without common rounds: two one-sided U tests against the shifted baseline.
pub fn equivalence_unpaired(
    baseline: &[f64],
    candidate: &[f64],
    margin: Margin,
) -> Result<Equivalence, StatsError> {
    let (baseline, candidate) = (logarithms(baseline)?, logarithms(candidate)?);
    let shifted = |bound: f64| baseline.iter().map(|b| b + bound).collect::<Vec<_>>();
    Ok(Equivalence::of(
        mann_whitney(&shifted(margin.low.ln()), &candidate)?.p_greater,
        mann_whitney(&shifted(margin.high.ln()), &candidate)?.p_less,
    ))
}
