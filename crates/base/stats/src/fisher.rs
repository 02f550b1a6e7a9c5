//! Fisher's exact test of two proportions.

use crate::StatsError;

/// Tables whose probability exceeds the observed one by less than this factor count as equally probable: their
/// probabilities differ only by rounding. The value is that of R's `fisher.test`.
const EQUAL: f64 = 1.0 + 1e-7;

/// The two-sided p of Fisher's exact test: the probability, given the totals, of tables that are at most as probable
/// as the observed one. Each argument is the number with the property and the total of one group.
///
/// Errors: an empty group, or a count above its total. Source: Fisher, Statistical Methods for Research Workers,
/// 1934, §21.02; two-sided as in R's `fisher.test`.
pub fn fisher_exact(one: (usize, usize), other: (usize, usize)) -> Result<f64, StatsError> {
    for (count, of) in [one, other] {
        if of == 0 {
            return Err(StatsError::TooFew { needed: 1, got: 0 });
        }
        if count > of {
            return Err(StatsError::OutOfRange {
                name: "the count",
                value: count as f64,
                expected: "at most its total",
            });
        }
    }
    let (all, met) = (one.1 + other.1, one.0 + other.0);
    let mut logarithms = vec![0.0; all + 1];
    for n in 1..=all {
        logarithms[n] = logarithms[n - 1] + (n as f64).ln();
    }
    let choose = |n: usize, k: usize| logarithms[n] - logarithms[k] - logarithms[n - k];
    // The hypergeometric probability that `count` of those with the property are in the first group.
    let probability = |count: usize| {
        (choose(one.1, count) + choose(other.1, met - count) - choose(all, met)).exp()
    };
    let observed = probability(one.0) * EQUAL;
    let possible = met.saturating_sub(other.1)..=met.min(one.1);
    let p: f64 = possible
        .map(probability)
        .filter(|probability| *probability <= observed)
        .sum();
    Ok(p.min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values from the hypergeometric probabilities as fractions of integers.
    #[test]
    fn agrees_with_integer_arithmetic() {
        for (one, other, expected) in [
            ((4, 8), (5, 8), 1.0),
            ((3, 4), (1, 4), 0.485_714_285_714_285_7),
            ((4, 4), (0, 4), 0.028_571_428_571_428_57),
            ((6, 10), (0, 10), 0.010_835_913_312_693_5),
            ((5, 6), (1, 6), 0.080_086_580_086_580_1),
            ((1, 10), (9, 10), 0.001_093_333_910_671_372),
            ((7, 12), (0, 3), 0.2),
        ] {
            let p = fisher_exact(one, other).unwrap();
            assert!((p - expected).abs() < 1e-9, "{one:?} {other:?}: {p}");
            let exchanged = fisher_exact(other, one).unwrap();
            assert!((p - exchanged).abs() < 1e-12, "{one:?} {other:?}");
            let complement = |(count, of): (usize, usize)| (of - count, of);
            let complements = fisher_exact(complement(one), complement(other)).unwrap();
            assert!((p - complements).abs() < 1e-12, "{one:?} {other:?}");
        }
        for (one, other) in [((0, 7), (0, 5)), ((7, 7), (5, 5))] {
            let p = fisher_exact(one, other).unwrap();
            assert!((p - 1.0).abs() < 1e-12, "{p}");
        }
    }

    #[test]
    fn counts_outside_their_totals_are_errors() {
        assert!(fisher_exact((0, 0), (1, 2)).is_err());
        assert!(fisher_exact((1, 2), (3, 2)).is_err());
    }

    #[test]
    fn large_counts_are_finite() {
        let p = fisher_exact((40_000, 100_000), (41_000, 100_000)).unwrap();
        assert!(p > 0.0 && p < 1e-4, "{p}");
    }
}
