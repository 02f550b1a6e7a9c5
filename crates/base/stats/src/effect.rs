//! Effect size of two samples.

use crate::mann_whitney::doubled_u;
use crate::{Sample, StatsError};

/// Cliff's δ, from −1 to 1: the share of pairs in which the candidate's value is larger minus the share in which it
/// is smaller; 2U/(nm) − 1. Source: Cliff, Psychological Bulletin 114(3), 1993.
pub fn cliffs_delta(baseline: &[f64], candidate: &[f64]) -> Result<f64, StatsError> {
    let baseline = Sample::new(baseline)?;
    let candidate = Sample::new(candidate)?;
    let pairs = baseline.count() as f64 * candidate.count() as f64;
    Ok((doubled_u(baseline.sorted(), candidate.sorted()) as f64 - pairs) / pairs)
}
