//! One ratio for a family of workloads: the geometric mean of theirs, with an interval.

use crate::bootstrap::groups;
use crate::compare::logarithms;
use crate::error::check_positive;
use crate::sample::mean;
use crate::{
    Bootstrap, Estimate, Sample, SignedRank, StatsError, hodges_lehmann, log_ratios, signed_rank,
};

/// The ratio of a family of workloads measured in the same rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FamilyRatio {
    /// candidate ÷ baseline over the family, and its interval.
    pub ratio: Estimate,
    /// The signed-rank test over the rounds.
    pub test: SignedRank,
}

/// exp(mean(ln x)) of values above zero.
pub fn geometric_mean(values: &[f64]) -> Result<f64, StatsError> {
    Ok(mean(&logarithms(values)?).exp())
}

/// The geometric mean of a family's ratios, paired by round. Each workload gives its baseline and its
/// candidate values, one a round; all must have the same rounds.
///
/// In each round the workloads' log-ratios are averaged, which makes one figure a round that keeps what
/// the workloads of a round have in common; the rounds then go the way of a single comparison. Ratios
/// are averaged geometrically so that the choice of the baseline does not matter (Fleming & Wallace,
/// CACM 29(3), 1986).
pub fn family_paired(
    workloads: &[(&[f64], &[f64])],
    level: f64,
) -> Result<FamilyRatio, StatsError> {
    let ratios = workloads
        .iter()
        .map(|(baseline, candidate)| log_ratios(baseline, candidate))
        .collect::<Result<Vec<_>, _>>()?;
    let Some(first) = ratios.first() else {
        return Err(StatsError::TooFew { needed: 1, got: 0 });
    };
    if let Some(other) = ratios.iter().find(|other| other.len() != first.len()) {
        return Err(StatsError::LengthMismatch {
            left: first.len(),
            right: other.len(),
        });
    }
    let rounds: Vec<f64> = (0..first.len())
        .map(|round| ratios.iter().map(|r| r[round]).sum::<f64>() / ratios.len() as f64)
        .collect();
    Ok(FamilyRatio {
        ratio: hodges_lehmann(&rounds, level)?.map(f64::exp),
        test: signed_rank(&rounds)?,
    })
}

/// The geometric mean of the ratios of the medians of a family without common rounds, with a bootstrap
/// interval that resamples the trials of each side of each workload.
pub fn family_unpaired(
    workloads: &[(&[f64], &[f64])],
    settings: &Bootstrap,
) -> Result<Estimate, StatsError> {
    if workloads.is_empty() {
        return Err(StatsError::TooFew { needed: 1, got: 0 });
    }
    let sides: Vec<&[f64]> = workloads.iter().flat_map(|(b, c)| [*b, *c]).collect();
    for side in &sides {
        check_positive(side, 1)?;
    }
    let mean_log_ratio = |sides: &[Vec<f64>]| {
        let median = |values: &[f64]| Sample::new(values).map_or(f64::NAN, |s| s.median());
        let logs = sides
            .chunks_exact(2)
            .map(|pair| median(&pair[1]).ln() - median(&pair[0]).ln());
        logs.sum::<f64>() / (sides.len() / 2) as f64
    };
    Ok(groups(&sides, mean_log_ratio, settings)?.map(f64::exp))
}
