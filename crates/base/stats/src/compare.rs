//! Compares candidate with baseline as a ratio, with or without pairing by round.

use crate::error::check_positive;
use crate::{
    Estimate, MannWhitney, SignedRank, StatsError, cliffs_delta, hodges_lehmann,
    hodges_lehmann_shift, mann_whitney, signed_rank,
};

/// A comparison of trials with common rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairedComparison {
    /// candidate ÷ baseline: the Hodges–Lehmann estimate over the rounds' log-ratios, and its interval.
    pub ratio: Estimate,
    /// The signed-rank test of the log-ratios.
    pub test: SignedRank,
}

/// A comparison of trials without common rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UnpairedComparison {
    /// candidate ÷ baseline: the Hodges–Lehmann shift of the logarithms, and its interval.
    pub ratio: Estimate,
    /// The U test.
    pub test: MannWhitney,
    /// Cliff's δ, from −1 to 1; positive if the candidate's values are larger.
    pub cliffs_delta: f64,
}

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

/// Compares trials paired by round: value i of both samples comes from round i.
///
/// The log-ratio of each round cancels effects common to both trials of the round (drift, temperature, background
/// load). Estimate, interval and p come from the exact signed-rank distribution.
pub fn compare_paired(
    baseline: &[f64],
    candidate: &[f64],
    level: f64,
) -> Result<PairedComparison, StatsError> {
    let ratios = log_ratios(baseline, candidate)?;
    Ok(PairedComparison {
        ratio: hodges_lehmann(&ratios, level)?.map(f64::exp),
        test: signed_rank(&ratios)?,
    })
}

/// Compares trials without common rounds, such as imported ones.
pub fn compare_unpaired(
    baseline: &[f64],
    candidate: &[f64],
    level: f64,
) -> Result<UnpairedComparison, StatsError> {
    let (baseline_ln, candidate_ln) = (logarithms(baseline)?, logarithms(candidate)?);
    Ok(UnpairedComparison {
        ratio: hodges_lehmann_shift(&baseline_ln, &candidate_ln, level)?.map(f64::exp),
        test: mann_whitney(baseline, candidate)?,
        cliffs_delta: cliffs_delta(baseline, candidate)?,
    })
}

/// The natural logarithms of values above zero.
pub(crate) fn logarithms(values: &[f64]) -> Result<Vec<f64>, StatsError> {
    check_positive(values, 1)?;
    Ok(values.iter().map(|value| value.ln()).collect())
}
