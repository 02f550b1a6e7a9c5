//! Groups of tied values.

/// The lengths of the runs of equal values in sorted `values`; −0 and 0 are equal.
pub(crate) fn tie_groups(sorted: &[f64]) -> Vec<usize> {
    sorted.chunk_by(|a, b| a == b).map(<[f64]>::len).collect()
}

/// Σ(t³ − t) over the groups, the usual tie correction.
pub(crate) fn tie_correction(groups: &[usize]) -> f64 {
    groups
        .iter()
        .map(|&group| {
            let group = group as f64;
            group * group * group - group
        })
        .sum()
}

/// Whether any value occurs twice.
pub(crate) fn has_ties(groups: &[usize]) -> bool {
    groups.iter().any(|&group| group > 1)
}

/// Both tails and twice the smaller one, from the normal approximation with continuity correction. `centred` is the
/// statistic minus its mean.
pub(crate) fn normal_tails(centred: f64, deviation: f64) -> Tails {
    if deviation == 0.0 {
        return Tails {
            less: 1.0,
            greater: 1.0,
        };
    }
    Tails {
        less: crate::normal_cdf((centred + 0.5) / deviation),
        greater: crate::normal_cdf(-(centred - 0.5) / deviation),
    }
}

/// One-sided p-values of a rank statistic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tails {
    /// P(statistic ≤ observed).
    pub(crate) less: f64,
    /// P(statistic ≥ observed).
    pub(crate) greater: f64,
}

impl Tails {
    /// The tails of a discrete distribution over 0, 1, 2, … with these probabilities, at `seen`.
    pub(crate) fn of(probabilities: &[f64], seen: usize) -> Self {
        // Each tail is summed from its outer end, so that small p keep their precision.
        let less = probabilities[..=seen].iter().sum::<f64>();
        let greater = probabilities[seen..].iter().rev().sum::<f64>();
        Tails {
            less: less.min(1.0),
            greater: greater.min(1.0),
        }
    }

    /// The two-sided p: twice the smaller tail, at most 1.
    pub(crate) fn two_sided(self) -> f64 {
        (2.0 * self.less.min(self.greater)).min(1.0)
    }
}
