//! Logarithms of values and of ratios.

use crate::StatsError;
use crate::error::check_positive;

/// ln(candidate) − ln(baseline) of each round. Refuses values that are not above zero.
pub fn log_ratios(baseline: &[f64], candidate: &[f64]) -> Result<Vec<f64>, StatsError> {
    check_positive(baseline, 1)?;
    check_positive(candidate, 1)?;
    if baseline.len() != candidate.len() {
        return Err(StatsError::LengthMismatch {
            left: baseline.len(),
            right: candidate.len(),
        });
    }
    // A difference of logarithms instead of the logarithm of a quotient: exchanging the two negates every value
    // exactly, and thus inverts the verdict.
    let pairs = baseline.iter().zip(candidate);
    Ok(pairs.map(|(b, c)| c.ln() - b.ln()).collect())
}

/// The natural logarithms of values above zero.
pub(crate) fn logarithms(values: &[f64]) -> Result<Vec<f64>, StatsError> {
    check_positive(values, 1)?;
    Ok(values.iter().map(|value| value.ln()).collect())
}
