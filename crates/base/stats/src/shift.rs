//! The Hodges–Lehmann shift between two samples.

use crate::error::check_open_unit;
use crate::pairwise::{Differences, Pairwise};
use crate::signed_rank::{order_from_distribution, order_from_normal};
use crate::u_distribution::u_distribution;
use crate::{EXACT_LIMIT_UNTIED, Estimate, Interval, Method, Sample, StatsError};

/// The shift from the baseline's to the candidate's values: the median of all pairwise differences, with the interval
/// that inverts the U test.
///
/// The interval extends from the k-th smallest to the k-th largest difference, with the largest k for which P(U ≤
/// k−1) ≤ (1−level)/2 under the untied null distribution; exact up to [`EXACT_LIMIT_UNTIED`] values per side. With
/// ties the coverage is at least this. `None` if 2/C(n+m, n) > 1 − level. Source: Hodges & Lehmann 1963; Moses;
/// Hollander, Wolfe & Chicken, 4.2–4.3.
pub fn hodges_lehmann_shift(
    baseline: &[f64],
    candidate: &[f64],
    level: f64,
) -> Result<Estimate, StatsError> {
    check_open_unit("level", level)?;
    let baseline = Sample::new(baseline)?;
    let candidate = Sample::new(candidate)?;
    let differences = Differences::new(baseline.sorted(), candidate.sorted());
    let (smallest, largest) = differences.bounds();
    if !(smallest.is_finite() && largest.is_finite()) {
        return Err(StatsError::Overflow);
    }
    let interval = interval_order(baseline.count(), candidate.count(), level)?.map(
        |(order, confidence, method)| Interval {
            low: differences.kth(order),
            high: differences.kth(differences.count() + 1 - order),
            confidence,
            method,
        },
    );
    Ok(Estimate {
        value: differences.median(),
        interval,
    })
}

fn interval_order(
    baseline: usize,
    candidate: usize,
    level: f64,
) -> Result<Option<(u64, f64, Method)>, StatsError> {
    let tail = (1.0 - level) / 2.0;
    if baseline.max(candidate) <= EXACT_LIMIT_UNTIED {
        return Ok(
            order_from_distribution(&u_distribution(baseline, candidate), tail)
                .map(|(order, confidence)| (order, confidence, Method::Exact)),
        );
    }
    let (n, m) = (baseline as f64, candidate as f64);
    let deviation = (n * m * (n + m + 1.0) / 12.0).sqrt();
    Ok(order_from_normal(n * m / 2.0, deviation, tail)?
        .map(|(order, confidence)| (order, confidence, Method::NormalApproximation)))
}
