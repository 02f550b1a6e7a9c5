//! Order statistics of all pairwise sums or differences, without storing all pairs.
//!
//! n values have n² pairs, 10⁶ values 10¹². The k-th of them is found by bisection: one merge-like pass over the
//! sorted values counts the pairs at or below a threshold; once few pairs lie between the two thresholds, they are
//! listed. The result is equal to that of sorting all pairs.

use crate::sample::midpoint;

/// Pairwise averages (xᵢ + xⱼ)/2, i ≤ j, of sorted values: Walsh averages.
pub(crate) struct WalshAverages {
    halves: Vec<f64>,
}

impl WalshAverages {
    pub(crate) fn new(sorted: &[f64]) -> Self {
        // Halved before the addition so that it cannot overflow; halving is exact.
        WalshAverages {
            halves: sorted.iter().map(|value| value * 0.5).collect(),
        }
    }
}

/// Pairwise differences yⱼ − xᵢ of two sorted samples.
pub(crate) struct Differences<'a> {
    x: &'a [f64],
    y: &'a [f64],
}

impl<'a> Differences<'a> {
    pub(crate) fn new(x: &'a [f64], y: &'a [f64]) -> Self {
        Differences { x, y }
    }
}

/// A multiset of pairwise values that supports counting and selection.
pub(crate) trait Pairwise {
    /// Number of values that form the pairs.
    fn values(&self) -> u64;
    /// Number of pairs; at least one.
    fn count(&self) -> u64;
    /// Number of pairs at or below `threshold`.
    fn at_or_below(&self, threshold: f64) -> u64;
    /// Pairs above `low` and at or below `high`, in any order.
    fn between(&self, low: f64, high: f64) -> Vec<f64>;
    /// The smallest and the largest.
    fn bounds(&self) -> (f64, f64);

    /// The k-th smallest, from 1 to `count`.
    fn kth(&self, k: u64) -> f64 {
        let (smallest, largest) = self.bounds();
        let (mut below, mut high) = (self.at_or_below(smallest), largest);
        if below >= k {
            return smallest + 0.0; // −0 becomes 0
        }
        // `below` < k pairs lie at or below `low`, `reached` ≥ k at or below `high`.
        let (mut low, mut reached) = (smallest, self.count());
        let few = 2 * self.values() + 16;
        let mut step = 0u32;
        while reached - below > few {
            let (low_ordinal, high_ordinal) = (ordinal(low), ordinal(high));
            if high_ordinal - low_ordinal <= 1 {
                return high + 0.0; // ties: all remaining values are equal
            }
            // Mostly by interpolation, which is fast if the pairs are evenly distributed; every third step halves the
            // range of floating-point numbers, so that the search always terminates.
            step += 1;
            let share = (k - below) as f64 / (reached - below) as f64;
            let proportional = ordinal(low * (1.0 - share) + high * share);
            let halfway = low_ordinal + (high_ordinal - low_ordinal) / 2;
            let guess = if step.is_multiple_of(3) {
                halfway
            } else {
                proportional
            };
            let threshold = from_ordinal(guess.clamp(low_ordinal + 1, high_ordinal - 1));
            let counted = self.at_or_below(threshold);
            if counted >= k {
                (high, reached) = (threshold, counted);
            } else {
                (low, below) = (threshold, counted);
            }
        }
        let mut left = self.between(low, high);
        let place = (k - below - 1) as usize;
        *left.select_nth_unstable_by(place, f64::total_cmp).1 + 0.0
    }

    /// The median of all pairs.
    fn median(&self) -> f64 {
        let count = self.count();
        let lower = self.kth(count.div_ceil(2));
        if count % 2 == 1 {
            return lower;
        }
        midpoint(lower, self.kth(count / 2 + 1))
    }
}

impl Pairwise for WalshAverages {
    fn values(&self) -> u64 {
        self.halves.len() as u64
    }

    fn count(&self) -> u64 {
        let n = self.values();
        n * (n + 1) / 2
    }

    fn at_or_below(&self, threshold: f64) -> u64 {
        let halves = &self.halves;
        let mut ordered_pairs = 0u64;
        let mut diagonal = 0u64;
        let mut end = halves.len();
        for &half in halves {
            while end > 0 && half + halves[end - 1] > threshold {
                end -= 1;
            }
            ordered_pairs += end as u64;
            diagonal += u64::from(half + half <= threshold);
        }
        (ordered_pairs + diagonal) / 2
    }

    fn between(&self, low: f64, high: f64) -> Vec<f64> {
        let halves = &self.halves;
        let mut found = Vec::new();
        let (mut low_end, mut high_end) = (halves.len(), halves.len());
        for (index, &half) in halves.iter().enumerate() {
            while low_end > 0 && half + halves[low_end - 1] > low {
                low_end -= 1;
            }
            while high_end > 0 && half + halves[high_end - 1] > high {
                high_end -= 1;
            }
            let partners = low_end.max(index)..high_end.max(index);
            found.extend(halves[partners].iter().map(|other| half + other));
        }
        found
    }

    fn bounds(&self) -> (f64, f64) {
        let last = self.halves[self.halves.len() - 1];
        (self.halves[0] + self.halves[0], last + last)
    }
}

impl Pairwise for Differences<'_> {
    fn values(&self) -> u64 {
        (self.x.len() + self.y.len()) as u64
    }

    fn count(&self) -> u64 {
        self.x.len() as u64 * self.y.len() as u64
    }

    fn at_or_below(&self, threshold: f64) -> u64 {
        let mut pairs = 0u64;
        let mut end = 0;
        // As x increases, y − x decreases, so more of y is at or below the threshold.
        for &x in self.x {
            while end < self.y.len() && self.y[end] - x <= threshold {
                end += 1;
            }
            pairs += end as u64;
        }
        pairs
    }

    fn between(&self, low: f64, high: f64) -> Vec<f64> {
        let mut found = Vec::new();
        let (mut low_end, mut high_end) = (0, 0);
        for &x in self.x {
            while low_end < self.y.len() && self.y[low_end] - x <= low {
                low_end += 1;
            }
            while high_end < self.y.len() && self.y[high_end] - x <= high {
                high_end += 1;
            }
            found.extend(self.y[low_end..high_end].iter().map(|y| y - x));
        }
        found
    }

    fn bounds(&self) -> (f64, f64) {
        (
            self.y[0] - self.x[self.x.len() - 1],
            self.y[self.y.len() - 1] - self.x[0],
        )
    }
}

/// Maps floating-point values to integers in the same order, with −0 just below 0.
fn ordinal(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 1 {
        !bits
    } else {
        bits | 1 << 63
    }
}

fn from_ordinal(ordinal: u64) -> f64 {
    f64::from_bits(if ordinal >> 63 == 1 {
        ordinal & !(1 << 63)
    } else {
        !ordinal
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sorted(mut values: Vec<f64>) -> Vec<f64> {
        values.sort_by(f64::total_cmp);
        values
    }

    proptest! {
        #[test]
        fn agrees_with_sorting_all_pairs(
            x in prop::collection::vec(-1e6..1e6f64, 1..40),
            y in prop::collection::vec(-5..5i32, 1..40),
        ) {
            let x = sorted(x);
            let y = sorted(y.into_iter().map(f64::from).collect());
            let averages = sorted((0..x.len()).flat_map(|i| (i..x.len()).map(move |j| (i, j)))
                .map(|(i, j)| x[i] * 0.5 + x[j] * 0.5).collect());
            let walsh = WalshAverages::new(&x);
            prop_assert_eq!(walsh.count(), averages.len() as u64);
            for (k, value) in averages.iter().enumerate() {
                prop_assert_eq!(walsh.kth(k as u64 + 1), *value);
            }
            let differences = sorted(x.iter().flat_map(|x| y.iter().map(move |y| y - x)).collect());
            let pairs = Differences::new(&x, &y);
            prop_assert_eq!(pairs.count(), differences.len() as u64);
            for (k, value) in differences.iter().enumerate() {
                prop_assert_eq!(pairs.kth(k as u64 + 1), *value);
            }
        }
    }
}
