//! E-divisive with its own permutation test: it makes no assumption about the distribution, but is only for short
//! series and does not account for correlation.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::StatsError;
use crate::energy::{QUADRATIC_LIMIT, best_split};
use crate::error::{check_finite, check_open_unit};

/// Options of the permutation test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PermutationOptions {
    /// The largest p of a change that is kept.
    pub max_p: f64,
    /// The minimum number of values in a segment.
    pub min_segment: usize,
    /// Number of permutations; the smallest p possible is 1/(permutations + 1).
    pub permutations: usize,
    /// The seed.
    pub seed: u64,
}

/// p ≤ 0.05, segments of 5, 199 permutations.
impl Default for PermutationOptions {
    fn default() -> Self {
        PermutationOptions {
            max_p: 0.05,
            min_segment: 5,
            permutations: 199,
            seed: 1,
        }
    }
}

/// The indices at which the distribution of `series` changes, in order, by E-divisive (α = 1). Each segment is split
/// where Q is largest, if this Q exceeds that of all but a share `max_p` of the permutations of the segment. Refuses
/// series of more than 600 values, because the time would be too long. Source: Matteson & James, JASA 109(505), 2014.
pub fn e_divisive_permutation(
    series: &[f64],
    options: &PermutationOptions,
) -> Result<Vec<usize>, StatsError> {
    check_finite(series, 1)?;
    check_open_unit("max_p", options.max_p)?;
    if series.len() > QUADRATIC_LIMIT {
        return Err(StatsError::OutOfRange {
            name: "series length",
            value: series.len() as f64,
            expected: "at most 600 for the permutation test",
        });
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(options.seed);
    let mut found = Vec::new();
    let mut open = vec![(0, series.len())];
    while let Some((start, end)) = open.pop() {
        let mut stretch = series[start..end].to_vec();
        let Some(split) = best_split(&stretch, options.min_segment) else {
            continue;
        };
        let mut as_large = 0;
        for _ in 0..options.permutations {
            stretch.shuffle(&mut random);
            as_large += usize::from(
                best_split(&stretch, options.min_segment).is_some_and(|other| other.q >= split.q),
            );
        }
        let p = (1 + as_large) as f64 / (1 + options.permutations) as f64;
        if p <= options.max_p {
            let at = start + split.at;
            found.push(at);
            open.push((start, at));
            open.push((at, end));
        }
    }
    found.sort_unstable();
    Ok(found)
}
