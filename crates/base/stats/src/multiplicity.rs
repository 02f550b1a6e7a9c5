//! Correction of p-values and confidence levels for multiple comparisons.

use crate::StatsError;
use crate::error::{check_open_unit, check_p_values};

/// Holm's step-down adjustment: adjusted p-values in the input's order. If those at most α are rejected, the
/// probability of any false rejection is at most α, for any dependence between the comparisons. Source: Holm,
/// Scandinavian Journal of Statistics 6(2), 1979.
pub fn holm(p_values: &[f64]) -> Result<Vec<f64>, StatsError> {
    check_p_values(p_values)?;
    let count = p_values.len();
    let mut adjusted = vec![0.0; count];
    let mut largest = 0.0f64;
    for (rank, index) in rising(p_values).into_iter().enumerate() {
        largest = largest
            .max((count - rank) as f64 * p_values[index])
            .min(1.0);
        adjusted[index] = largest;
    }
    Ok(adjusted)
}

/// The confidence level of each comparison's interval that agrees with Holm's decision: 1 − α/(m−r) for the r-th
/// smallest p (from 0) as long as Holm rejects, and for all others the level of the first that is not rejected. An
/// interval then excludes "no difference" exactly if Holm's adjusted p is at most α.
///
/// The intervals agree with the decisions; their joint coverage is that of the decisions, not that of Bonferroni's
/// wider intervals.
pub fn holm_levels(p_values: &[f64], alpha: f64) -> Result<Vec<f64>, StatsError> {
    check_p_values(p_values)?;
    check_open_unit("alpha", alpha)?;
    let count = p_values.len();
    let mut levels = vec![0.0; count];
    let mut rejected = 0;
    for (rank, index) in rising(p_values).into_iter().enumerate() {
        let share = alpha / (count - rejected) as f64;
        levels[index] = 1.0 - share;
        if rank == rejected && p_values[index] <= share {
            rejected += 1;
        }
    }
    Ok(levels)
}

/// Benjamini and Hochberg's step-up adjustment: adjusted p-values in the input's order, for a limit on the share of
/// false rejections among all rejections. For exploration. Source: JRSS B 57(1), 1995.
pub fn benjamini_hochberg(p_values: &[f64]) -> Result<Vec<f64>, StatsError> {
    check_p_values(p_values)?;
    let count = p_values.len();
    let mut adjusted = vec![0.0; count];
    let mut smallest = 1.0f64;
    for (rank, index) in rising(p_values).into_iter().enumerate().rev() {
        smallest = smallest.min(p_values[index] * count as f64 / (rank + 1) as f64);
        adjusted[index] = smallest;
    }
    Ok(adjusted)
}

/// The confidence level of each comparison's interval that agrees with Benjamini and Hochberg's decision: 1 − αR/m
/// for the R that are rejected, 1 − α(R+1)/m for all others. An interval then excludes "no difference" exactly if the
/// adjusted p is at most α. On average, the intervals of the rejected ones miss with probability α. Source: Benjamini
/// & Yekutieli, "False discovery rate–adjusted multiple confidence intervals", JASA 100(469), 2005.
pub fn benjamini_hochberg_levels(p_values: &[f64], alpha: f64) -> Result<Vec<f64>, StatsError> {
    check_p_values(p_values)?;
    check_open_unit("alpha", alpha)?;
    let count = p_values.len();
    let order = rising(p_values);
    let share = |number: usize| alpha * number as f64 / count as f64;
    let rejected = (1..=count)
        .rev()
        .find(|number| p_values[order[number - 1]] <= share(*number))
        .unwrap_or(0);
    let mut levels = vec![1.0 - share((rejected + 1).min(count)); count];
    for index in &order[..rejected] {
        levels[*index] = 1.0 - share(rejected);
    }
    Ok(levels)
}

/// The indices of `p_values` in ascending order of p.
fn rising(p_values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_agree_with_the_adjusted_p() {
        let check = |p_values: &[f64], shares: &[f64]| {
            let levels = benjamini_hochberg_levels(p_values, 0.05).unwrap();
            let adjusted = benjamini_hochberg(p_values).unwrap();
            for (index, share) in shares.iter().enumerate() {
                let own = 1.0 - levels[index];
                assert!((own - share).abs() < 1e-12, "{p_values:?}: {own}");
                assert_eq!(adjusted[index] <= 0.05, p_values[index] <= own + 1e-12);
            }
        };
        check(&[0.04], &[0.05]);
        check(&[0.2], &[0.05]);
        check(&[0.001, 0.02, 0.03, 0.9], &[0.0375, 0.0375, 0.0375, 0.05]);
        // The second does not pass its own step, but is rejected because of the third.
        check(&[0.6, 0.036, 0.034, 0.01], &[0.05, 0.0375, 0.0375, 0.0375]);
        check(&[0.3, 0.4], &[0.025, 0.025]);
        assert!(benjamini_hochberg_levels(&[], 0.05).is_err());
        assert!(benjamini_hochberg_levels(&[0.5], 1.0).is_err());
    }
}
