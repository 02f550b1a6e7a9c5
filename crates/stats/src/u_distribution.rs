//! The exact null distribution of Mann and Whitney's U, given the ties.

use crate::distributions::choose;

/// The probabilities of 2U = 0, 1, … under random labels, given the sizes of the groups of equal
/// values in rising order. Works through the groups from below: of a group of t values, a fall to the
/// candidate, each of which beats the baseline's values seen before and halves with those of its own
/// group. Source: Klotz, "The Wilcoxon, ties, and the computer", JASA 61, 1966.
pub(crate) fn doubled_u_distribution(
    baseline: usize,
    candidate: usize,
    groups: &[usize],
) -> Vec<f64> {
    let longest = 2 * baseline * candidate + 1;
    // ways[c][2U]: assignments so far with c values for the candidate.
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

/// The probabilities of U = 0, 1, … without ties.
pub(crate) fn u_distribution(baseline: usize, candidate: usize) -> Vec<f64> {
    // Without ties 2U is even.
    doubled_u_distribution(baseline, candidate, &vec![1; baseline + candidate])
        .into_iter()
        .step_by(2)
        .collect()
}
