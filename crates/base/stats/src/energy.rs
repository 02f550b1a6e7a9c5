//! The energy statistic of E-divisive with α = 1: finds the split with the largest difference in distribution.
//!
//! For X of n and Y of m values, Q = 2/(n+m)·Σ|x−y| − 2m/((n+m)(n−1))·Σ|x−x′| − 2n/((n+m)(m−1))·Σ|y−y′|,
//! the sums over pairs i < j. Source: Matteson & James, JASA 109(505), 2014.

/// The best split of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Split {
    /// The index of the first value of the right side, from the start of the series.
    pub(crate) at: usize,
    /// Q of this split.
    pub(crate) q: f64,
}

/// Up to this length, the right side may end before the end of the series, which finds dips; above, it ends with the
/// series.
pub(crate) const QUADRATIC_LIMIT: usize = 600;

/// The best split with at least `least` values on both sides; `None` if the series is too short.
pub(crate) fn best_split(values: &[f64], least: usize) -> Option<Split> {
    let least = least.max(1);
    if values.len() < 2 * least {
        return None;
    }
    Some(if values.len() <= QUADRATIC_LIMIT {
        best_split_and_end(values, least)
    } else {
        best_split_to_end(values, least)
    })
}

fn q(between: f64, left: f64, right: f64, n: f64, m: f64) -> f64 {
    let mean_within = |sum: f64, size: f64| if size > 1.0 { sum / (size - 1.0) } else { 0.0 };
    2.0 / (n + m) * (between - m * mean_within(left, n) - n * mean_within(right, m))
}

fn better(best: Option<Split>, at: usize, q: f64) -> Option<Split> {
    match best {
        Some(best) if best.q >= q => Some(best),
        _ => Some(Split { at, q }),
    }
}

/// Searches all splits and all ends of the right side: O(n²) time, O(n) memory.
fn best_split_and_end(values: &[f64], least: usize) -> Split {
    let count = values.len();
    let mut best = None;
    // within[e]: Σ|x−x′| of values[..e]; right[t]: the same of values[t..end].
    let mut within = vec![0.0; count + 1];
    let mut right = vec![0.0; count];
    for end in 1..=count {
        let newest = values[end - 1];
        let mut distance = 0.0;
        for start in (0..end - 1).rev() {
            distance += (values[start] - newest).abs();
            right[start] += distance;
        }
        within[end] = within[end - 1] + distance;
        for at in least..=end.saturating_sub(least) {
            let between = within[end] - within[at] - right[at];
            let (n, m) = (at as f64, (end - at) as f64);
            best = better(best, at, q(between, within[at], right[at], n, m));
        }
    }
    best.unwrap_or(Split { at: least, q: 0.0 })
}

/// Searches all splits with the right side up to the end: O(n log n), with prefix sums by rank.
fn best_split_to_end(values: &[f64], least: usize) -> Split {
    let count = values.len();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_unstable_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut rank = vec![0; count];
    for (place, &index) in order.iter().enumerate() {
        rank[index] = place;
    }
    let left = prefix_distances(values.iter().copied().zip(rank.iter().copied()), count);
    let reversed = values.iter().copied().zip(rank.iter().copied()).rev();
    let right = prefix_distances(reversed, count);
    let all = left[count];
    let mut best = None;
    for at in least..=count - least {
        let (left, right) = (left[at], right[count - at]);
        let (n, m) = (at as f64, (count - at) as f64);
        best = better(best, at, q(all - left - right, left, right, n, m));
    }
    best.unwrap_or(Split { at: least, q: 0.0 })
}

/// Σ|x−x′| over the first k values, for every k.
fn prefix_distances(values: impl Iterator<Item = (f64, usize)>, count: usize) -> Vec<f64> {
    let mut below = Tree::new(count);
    let (mut seen, mut total, mut distances) = (0.0, 0.0, 0.0);
    let mut result = Vec::with_capacity(count + 1);
    result.push(0.0);
    for (value, rank) in values {
        let (smaller, smaller_sum) = below.up_to(rank);
        // Smaller values contribute value·k − their sum, larger ones their sum − value·k.
        distances += value * smaller - smaller_sum;
        distances += (total - smaller_sum) - value * (seen - smaller);
        below.add(rank, value);
        seen += 1.0;
        total += value;
        result.push(distances);
    }
    result
}

/// A Fenwick tree of counts and sums by rank.
struct Tree {
    nodes: Vec<(f64, f64)>,
}

impl Tree {
    fn new(count: usize) -> Self {
        Tree {
            nodes: vec![(0.0, 0.0); count + 1],
        }
    }

    fn add(&mut self, rank: usize, value: f64) {
        let mut node = rank + 1;
        while node < self.nodes.len() {
            self.nodes[node].0 += 1.0;
            self.nodes[node].1 += value;
            node += node & node.wrapping_neg();
        }
    }

    /// The count and the sum of the values with a rank below `rank`.
    fn up_to(&self, rank: usize) -> (f64, f64) {
        let (mut node, mut count, mut sum) = (rank, 0.0, 0.0);
        while node > 0 {
            count += self.nodes[node].0;
            sum += self.nodes[node].1;
            node &= node - 1;
        }
        (count, sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Q computed directly from its definition.
    fn direct(x: &[f64], y: &[f64]) -> f64 {
        let pairs = |z: &[f64]| -> f64 {
            let all = z.iter().flat_map(|a| z.iter().map(move |b| (a - b).abs()));
            all.sum::<f64>() / 2.0
        };
        let between: f64 = x
            .iter()
            .flat_map(|a| y.iter().map(move |b| (a - b).abs()))
            .sum();
        q(between, pairs(x), pairs(y), x.len() as f64, y.len() as f64)
    }

    fn check(values: &[f64], least: usize) -> Result<(), TestCaseError> {
        let count = values.len();
        let scale = values.iter().fold(1.0f64, |a, b| a.max(b.abs())) * 1e-9 * count as f64;
        let to_end = (least..=count - least)
            .map(|at| direct(&values[..at], &values[at..]))
            .fold(f64::MIN, f64::max);
        prop_assert!((best_split_to_end(values, least).q - to_end).abs() <= scale);
        let anywhere = (2 * least..=count)
            .flat_map(|end| (least..=end - least).map(move |at| (at, end)))
            .map(|(at, end)| direct(&values[..at], &values[at..end]))
            .fold(f64::MIN, f64::max);
        prop_assert!((best_split_and_end(values, least).q - anywhere).abs() <= scale);
        Ok(())
    }

    proptest! {
        #[test]
        fn both_searches_find_the_maximum_of_the_definition(
            values in prop::collection::vec(-1e3..1e3f64, 8..24),
            tied in prop::collection::vec(0..3i32, 8..24),
            least in 1..4usize,
        ) {
            check(&values, least)?;
            check(&tied.into_iter().map(f64::from).collect::<Vec<_>>(), least)?;
        }
    }
}
