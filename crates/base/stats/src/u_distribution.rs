//! The exact null distribution of Mann and Whitney's U, given the ties.

use crate::distributions::choose;

/// The probabilities of 2U = 0, 1, … under random labels, given the sizes of the groups of equal values in ascending
/// order. Processes the groups in this order: of a group of t values, c belong to the candidate. Each of these counts
/// 2 for each earlier value of the baseline and 1 for each in its own group. Source: Klotz, "The Wilcoxon, ties, and
/// the computer", JASA 61, 1966.
pub(crate) fn doubled_u_distribution(
    baseline: usize,
    candidate: usize,
    groups: &[usize],
) -> Vec<f64> {
    if groups.iter().all(|group| *group == 1) {
        let mut doubled = vec![0.0; 2 * baseline * candidate + 1];
        let untied = u_distribution(baseline, candidate);
        for (place, probability) in doubled.iter_mut().step_by(2).zip(untied) {
            *place = probability;
        }
        return doubled;
    }
    by_groups(baseline, candidate, groups)
}

fn by_groups(baseline: usize, candidate: usize, groups: &[usize]) -> Vec<f64> {
    let longest = 2 * baseline * candidate + 1;
    // ways[c][2U]: the number of assignments so far with c values for the candidate.
    let mut ways = vec![Vec::new(); candidate + 1];
    ways[0] = vec![1.0];
    let mut seen = 0;
    for &group in groups {
        for taken in (0..=candidate.min(seen + group)).rev() {
            let mut merged = vec![0.0; longest.min(2 * taken * (seen + group - taken) + 1)];
            for here in 0..=group.min(taken) {
                let before = taken - here;
                if before > seen || seen + group - taken > baseline {
                    continue;
                }
                let beaten = here * (2 * (seen - before) + group - here);
                let factor = choose(group, here);
                for (doubled_u, count) in ways[before].iter().enumerate() {
                    if *count != 0.0 {
                        merged[doubled_u + beaten] += factor * count;
                    }
                }
            }
            ways[taken] = merged;
        }
        seen += group;
    }
    let total = choose(baseline + candidate, candidate);
    let mut counts = std::mem::take(&mut ways[candidate]);
    counts.resize(longest, 0.0);
    counts.iter_mut().for_each(|count| *count /= total);
    counts
}

/// The probabilities of U = 0, 1, … without ties, much faster than with ties.
///
/// The largest value belongs either to the candidate, and is larger than the whole baseline, or to the baseline, and
/// adds nothing: w(b, c, u) = w(b, c−1, u−b) + w(b−1, c, u). Source: Mann & Whitney 1947.
pub(crate) fn u_distribution(baseline: usize, candidate: usize) -> Vec<f64> {
    // ways[c][u] for the number of the baseline's values so far.
    let mut ways = vec![vec![1.0]; candidate + 1];
    for of_baseline in 1..=baseline {
        for of_candidate in 1..=candidate {
            let mut counts = std::mem::take(&mut ways[of_candidate]);
            counts.resize(of_baseline * of_candidate + 1, 0.0);
            let places = counts[of_baseline..].iter_mut();
            for (count, fewer) in places.zip(&ways[of_candidate - 1]) {
                *count += fewer;
            }
            ways[of_candidate] = counts;
        }
    }
    let total = choose(baseline + candidate, candidate);
    let mut counts = std::mem::take(&mut ways[candidate]);
    counts.iter_mut().for_each(|count| *count /= total);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_algorithm_for_ties_if_there_are_none() {
        for (baseline, candidate) in [(0, 0), (0, 3), (3, 0), (1, 1), (3, 3), (2, 7), (13, 9)] {
            let groups = vec![1; baseline + candidate];
            let slow = by_groups(baseline, candidate, &groups);
            let fast = doubled_u_distribution(baseline, candidate, &groups);
            assert_eq!(slow.len(), fast.len());
            for (slow, fast) in slow.iter().zip(&fast) {
                assert!((slow - fast).abs() <= 1e-14 * slow, "{slow} {fast}");
            }
        }
    }
}
