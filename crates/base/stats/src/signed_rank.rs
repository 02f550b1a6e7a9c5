//! Wilcoxon's signed-rank test and the interval of the one-sample Hodges–Lehmann estimate.

use crate::distributions::{normal_cdf, normal_quantile};
use crate::error::{check_finite, check_open_unit};
use crate::pairwise::{Pairwise, WalshAverages};
use crate::ranks::{Tails, has_ties, normal_tails, tie_correction, tie_groups};
use crate::{Estimate, Interval, Method, Sample, StatsError};

/// Up to this many differences the null distribution is computed exactly.
pub const SIGNED_RANK_EXACT_LIMIT: usize = 200;

/// The outcome of a signed-rank test against symmetry about zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SignedRank {
    /// The sum of the ranks of the positive differences.
    pub w_plus: f64,
    /// The number of differences.
    pub pairs: usize,
    /// The number of non-zero differences, which is the size for the test.
    pub nonzero: usize,
    /// Two-sided p.
    pub p: f64,
    /// One-sided p for "the differences tend to be below zero".
    pub p_less: f64,
    /// One-sided p for "the differences tend to be above zero".
    pub p_greater: f64,
    /// How p was computed.
    pub method: Method,
}

/// Wilcoxon's signed-rank test of the hypothesis that the differences are symmetric about zero.
///
/// Zeros are dropped, as by Wilcoxon (1945), and reduce the size. Ties get the mean of their ranks, and the exact
/// distribution is that of the 2ⁿ signs given those ranks. Above [`SIGNED_RANK_EXACT_LIMIT`] non-zero differences:
/// normal approximation with tie and continuity correction. All zero: p = 1. Source: Hollander, Wolfe & Chicken,
/// "Nonparametric Statistical Methods", 3rd ed., 3.1.
pub fn signed_rank(differences: &[f64]) -> Result<SignedRank, StatsError> {
    check_finite(differences, 1)?;
    let mut nonzero: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    nonzero.sort_unstable_by(|a, b| a.abs().total_cmp(&b.abs()));
    let magnitudes: Vec<f64> = nonzero.iter().map(|d| d.abs()).collect();
    let groups = tie_groups(&magnitudes);
    let doubled_ranks = doubled_mid_ranks(&groups);
    let doubled_w: usize = nonzero
        .iter()
        .zip(&doubled_ranks)
        .filter(|(d, _)| **d > 0.0)
        .map(|(_, rank)| rank)
        .sum();
    let w_plus = doubled_w as f64 / 2.0;
    let count = nonzero.len();
    let (tails, method) = if count <= SIGNED_RANK_EXACT_LIMIT {
        let tails = if has_ties(&groups) {
            Tails::of(&sign_distribution(&doubled_ranks), doubled_w)
        } else {
            Tails::of(&untied_distribution(count), doubled_w / 2)
        };
        (tails, Method::Exact)
    } else {
        let n = count as f64;
        let variance = n * (n + 1.0) * (2.0 * n + 1.0) / 24.0 - tie_correction(&groups) / 48.0;
        let centred = w_plus - n * (n + 1.0) / 4.0;
        (
            normal_tails(centred, variance.sqrt()),
            Method::NormalApproximation,
        )
    };
    Ok(SignedRank {
        w_plus,
        pairs: differences.len(),
        nonzero: count,
        p: tails.two_sided(),
        p_less: tails.less,
        p_greater: tails.greater,
        method,
    })
}

/// The smallest two-sided p of the signed-rank test with `pairs` pairs: 2/2ⁿ, at most 1.
pub fn smallest_p_signed_rank(pairs: usize) -> f64 {
    0.5f64
        .powi(i32::try_from(pairs).unwrap_or(i32::MAX).saturating_sub(1))
        .min(1.0)
}

/// The Hodges–Lehmann estimate of the centre of symmetry (the median of all pairwise averages) with
/// the interval that inverts the signed-rank test.
///
/// The interval extends from the k-th smallest to the k-th largest of the n(n+1)/2 averages, with the largest k for
/// which P(W ≤ k−1) ≤ (1−level)/2 under the untied null distribution. With ties in the differences the coverage is at
/// least this, and the interval may include zero if the conditional test's p is just below 1 − level. `None` if 2/2ⁿ
/// > 1 − level. Zeros count like any value. Source: Hodges & Lehmann 1963; Hollander, Wolfe & Chicken, 3.2–3.3.
pub fn hodges_lehmann(differences: &[f64], level: f64) -> Result<Estimate, StatsError> {
    check_open_unit("level", level)?;
    let sample = Sample::new(differences)?;
    let averages = WalshAverages::new(sample.sorted());
    let interval =
        interval_order(sample.count(), level)?.map(|(order, confidence, method)| Interval {
            low: averages.kth(order),
            high: averages.kth(averages.count() + 1 - order),
            confidence,
            method,
        });
    Ok(Estimate {
        value: averages.median(),
        interval,
    })
}

/// The order k of the interval's ends among the averages, with its confidence.
fn interval_order(count: usize, level: f64) -> Result<Option<(u64, f64, Method)>, StatsError> {
    let tail = (1.0 - level) / 2.0;
    if count <= SIGNED_RANK_EXACT_LIMIT {
        return Ok(order_from_distribution(&untied_distribution(count), tail)
            .map(|(order, confidence)| (order, confidence, Method::Exact)));
    }
    let n = count as f64;
    let middle = n * (n + 1.0) / 4.0;
    let deviation = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
    Ok(order_from_normal(middle, deviation, tail)?
        .map(|(order, confidence)| (order, confidence, Method::NormalApproximation)))
}

/// For a symmetric distribution: the largest k ≥ 1 with P(S ≤ k−1) ≤ `tail`, and 1 − 2P(S ≤ k−1).
pub(crate) fn order_from_distribution(probabilities: &[f64], tail: f64) -> Option<(u64, f64)> {
    // A level such as 0.95 is not a binary fraction; the tolerance is far below any step of p.
    let slack = tail * 1e-12;
    let mut below = 0.0;
    let mut reached = None;
    for (value, probability) in probabilities.iter().enumerate() {
        below += probability;
        if below > tail + slack || below >= 0.5 {
            break;
        }
        reached = Some((value as u64 + 1, 1.0 - 2.0 * below));
    }
    reached
}

/// The same from the normal approximation with continuity correction.
pub(crate) fn order_from_normal(
    middle: f64,
    deviation: f64,
    tail: f64,
) -> Result<Option<(u64, f64)>, StatsError> {
    let order = (middle + 0.5 + normal_quantile(tail)? * deviation).floor();
    if order < 1.0 {
        return Ok(None);
    }
    let confidence = 1.0 - 2.0 * normal_cdf((order - 0.5 - middle) / deviation);
    Ok(Some((order as u64, confidence)))
}

/// Twice the mean rank of each value, in order; doubled so that it is an integer.
fn doubled_mid_ranks(groups: &[usize]) -> Vec<usize> {
    let mut ranks = Vec::with_capacity(groups.iter().sum());
    for &group in groups {
        let before = ranks.len();
        ranks.extend(std::iter::repeat_n(2 * before + group + 1, group));
    }
    ranks
}

fn untied_distribution(count: usize) -> Vec<f64> {
    sign_distribution(&(1..=count).collect::<Vec<_>>())
}

/// The distribution of the sum of a random subset of `weights`; each weight is included with probability ½.
fn sign_distribution(weights: &[usize]) -> Vec<f64> {
    let mut probabilities = vec![0.0; weights.iter().sum::<usize>() + 1];
    probabilities[0] = 1.0;
    let mut reach = 0;
    for &weight in weights {
        reach += weight;
        for sum in (0..=reach).rev() {
            let without = if sum + weight <= reach {
                probabilities[sum]
            } else {
                0.0
            };
            let with = if sum >= weight {
                probabilities[sum - weight]
            } else {
                0.0
            };
            probabilities[sum] = 0.5 * (without + with);
        }
    }
    probabilities
}
