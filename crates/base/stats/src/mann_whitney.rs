//! Mann and Whitney's U test (Wilcoxon's rank-sum test), exact with ties.

use crate::distributions::choose;
use crate::ranks::{Tails, has_ties, normal_tails, tie_correction, tie_groups};
use crate::u_distribution::doubled_u_distribution;
use crate::{Method, Sample, StatsError};

/// Without ties the distribution is exact up to this many values per side.
pub const EXACT_LIMIT_UNTIED: usize = 50;
/// With ties the distribution is exact up to this many values per side.
pub const EXACT_LIMIT_TIED: usize = 25;

/// The outcome of a U test of a candidate against a baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MannWhitney {
    /// Number of pairs in which the candidate's value is larger; ties count one half.
    pub u: f64,
    /// Number of values of the baseline and of the candidate.
    pub sizes: (usize, usize),
    /// Whether any two values are equal.
    pub tied: bool,
    /// Two-sided p.
    pub p: f64,
    /// Two-sided p as benchstat computes it: twice the lower tail of the baseline's U at the smaller of the two U. It
    /// differs from `p` only if the sizes differ and ties make the distribution asymmetric.
    pub p_benchstat: f64,
    /// One-sided p for "the candidate's values tend to be smaller".
    pub p_less: f64,
    /// One-sided p for "the candidate's values tend to be larger".
    pub p_greater: f64,
    /// How p was computed.
    pub method: Method,
}

/// Mann and Whitney's U test of two independent samples.
///
/// Exact, conditional on the ties, up to [`EXACT_LIMIT_UNTIED`] values per side, with ties up to
/// [`EXACT_LIMIT_TIED`]; above, the normal approximation with tie and continuity correction. The two-sided p is twice
/// the smaller tail, at most 1. (benchstat's p, which depends on the order of the samples, is for comparison with its
/// tables.) All values equal: p = 1. Source: Mann & Whitney 1947; Klotz 1966; Hollander, Wolfe & Chicken, 4.1.
pub fn mann_whitney(baseline: &[f64], candidate: &[f64]) -> Result<MannWhitney, StatsError> {
    let baseline = Sample::new(baseline)?;
    let candidate = Sample::new(candidate)?;
    let sizes = (baseline.count(), candidate.count());
    let mut together = [baseline.sorted(), candidate.sorted()].concat();
    together.sort_unstable_by(f64::total_cmp);
    let groups = tie_groups(&together);
    let tied = has_ties(&groups);
    let doubled_u = doubled_u(baseline.sorted(), candidate.sorted());
    let limit = if tied {
        EXACT_LIMIT_TIED
    } else {
        EXACT_LIMIT_UNTIED
    };
    let (tails, benchstat, method) = if groups.len() == 1 {
        let certain = Tails {
            less: 1.0,
            greater: 1.0,
        };
        (certain, None, Method::Exact)
    } else if sizes.0 <= limit && sizes.1 <= limit {
        let distribution = doubled_u_distribution(sizes.0, sizes.1, &groups);
        let reached = doubled_u as usize;
        let smaller = reached.min(distribution.len() - 1 - reached);
        let lower: f64 = match groups[..] {
            [low, high] => two_groups(sizes, (low, high), smaller),
            // The baseline's 2U is the complement.
            _ => distribution.iter().rev().take(smaller + 1).sum(),
        };
        let middle = 2 * smaller + 1 == distribution.len();
        (
            Tails::of(&distribution, reached),
            Some(if middle { 1.0 } else { 2.0 * lower }),
            Method::Exact,
        )
    } else {
        let (n, m) = (sizes.0 as f64, sizes.1 as f64);
        let all = n + m;
        let variance = n * m / 12.0 * (all + 1.0 - tie_correction(&groups) / (all * (all - 1.0)));
        let centred = doubled_u as f64 / 2.0 - n * m / 2.0;
        (
            normal_tails(centred, variance.sqrt()),
            None,
            Method::NormalApproximation,
        )
    };
    Ok(MannWhitney {
        u: doubled_u as f64 / 2.0,
        sizes,
        tied,
        p: tails.two_sided(),
        p_benchstat: benchstat.unwrap_or(tails.two_sided()),
        p_less: tails.less,
        p_greater: tails.greater,
        method,
    })
}

/// The lower tail at 2U for two distinct values, given the numbers of low and high ones, as in benchstat.
///
/// benchstat rounds the largest number of high values that the baseline can have toward zero if it is negative, and
/// so counts assignments outside the tail. All other uses take the exact tail.
fn two_groups(sizes: (usize, usize), (low, high): (usize, usize), doubled_u: usize) -> f64 {
    let (n, low_, all) = (sizes.0 as i64, low as i64, (low + high) as i64);
    let most = (doubled_u as i64 - n * (low_ - n)) / all;
    let least = sizes.0.saturating_sub(low);
    let ways: f64 = (least as i64..=most)
        .filter(|taken| *taken <= n)
        .map(|taken| choose(low, sizes.0 - taken as usize) * choose(high, taken as usize))
        .sum();
    ways / choose(low + high, sizes.0)
}

/// The smallest two-sided p of a U test of these sizes: 2/C(n+m, n), at most 1.
pub fn smallest_p_mann_whitney(baseline: usize, candidate: usize) -> f64 {
    // Above about 1000 values the coefficient overflows to infinity, and p = 0 is correct.
    let cap = |size: usize| size.min(1000);
    (2.0 / choose(cap(baseline) + cap(candidate), cap(candidate))).min(1.0)
}

/// 2U of sorted samples: over all pairs, 2 if the candidate's value is larger, 1 if equal.
pub(crate) fn doubled_u(baseline: &[f64], candidate: &[f64]) -> u64 {
    let (mut smaller, mut not_larger) = (0, 0);
    let mut doubled = 0u64;
    for value in candidate {
        while smaller < baseline.len() && baseline[smaller] < *value {
            smaller += 1;
        }
        while not_larger < baseline.len() && baseline[not_larger] <= *value {
            not_larger += 1;
        }
        doubled += (smaller + not_larger) as u64;
    }
    doubled
}

#[cfg(test)]
mod tests {
    use super::*;

    /// benchstat's results for two distinct values and sides of unequal size.
    #[test]
    fn agrees_with_the_p_of_benchstat_where_it_differs_from_the_exact_one() {
        for (baseline, candidate, p, benchstat) in [
            (vec![5.0; 4], vec![2.0; 6], 1.0 / 105.0, 1.0 / 7.0),
            (vec![7.0; 6], vec![4.0; 7], 2.0 / 1716.0, 14.0 / 1716.0),
            (vec![1.0], vec![0.0; 3], 0.5, 1.5),
            (vec![1.0, 2.0, 3.0], vec![4.0, 5.0, 6.0], 0.1, 0.1),
        ] {
            let test = mann_whitney(&baseline, &candidate).unwrap();
            assert!((test.p - p).abs() < 1e-12, "{test:?}");
            assert!((test.p_benchstat - benchstat).abs() < 1e-12, "{test:?}");
        }
    }
}
