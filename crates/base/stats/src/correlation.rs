//! Rank correlation.

use crate::StatsError;
use crate::error::check_finite;
use crate::ranks::tie_groups;

/// Spearman's ρ, from −1 to 1: the correlation of the mid-ranks of two series of equal length. `None`: fewer than three
/// pairs, or all values of one are equal. Source: Spearman, American Journal of Psychology 15(1), 1904.
pub fn rank_correlation(one: &[f64], other: &[f64]) -> Result<Option<f64>, StatsError> {
    check_finite(one, 0)?;
    check_finite(other, 0)?;
    if one.len() != other.len() {
        return Err(StatsError::LengthMismatch {
            left: one.len(),
            right: other.len(),
        });
    }
    if one.len() < 3 {
        return Ok(None);
    }
    let (one, other) = (mid_ranks(one), mid_ranks(other));
    let middle = (one.len() as f64 + 1.0) / 2.0;
    let product = |left: &[f64], right: &[f64]| -> f64 {
        let pairs = left.iter().zip(right);
        pairs.map(|(l, r)| (l - middle) * (r - middle)).sum()
    };
    let squares = product(&one, &one) * product(&other, &other);
    Ok((squares > 0.0).then(|| product(&one, &other) / squares.sqrt()))
}

fn mid_ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let sorted: Vec<f64> = order.iter().map(|place| values[*place]).collect();
    let mut ranks = vec![0.0; values.len()];
    let mut before = 0;
    for group in tie_groups(&sorted) {
        let rank = before as f64 + (group as f64 + 1.0) / 2.0;
        for place in &order[before..before + group] {
            ranks[*place] = rank;
        }
        before += group;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_values_computed_by_hand() {
        let rho = |one: &[f64], other: &[f64]| rank_correlation(one, other).unwrap();
        assert_eq!(rho(&[1.0, 2.0, 3.0], &[10.0, 20.0, 90.0]), Some(1.0));
        assert_eq!(rho(&[1.0, 2.0, 3.0], &[9.0, 2.0, 1.0]), Some(-1.0));
        // 1 − 6·(0+1+1+0)/(4·15).
        let found = rho(&[1.0, 2.0, 3.0, 4.0], &[1.0, 3.0, 2.0, 4.0]).unwrap();
        assert!((found - 0.8).abs() < 1e-12, "{found}");
        // Ranks 1, 2.5, 2.5, 4 against 1 to 4: 4.5 ÷ √(4.5 · 5).
        let found = rho(&[1.0, 2.0, 2.0, 3.0], &[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert!((found - 4.5 / 22.5f64.sqrt()).abs() < 1e-12, "{found}");
        assert_eq!(rho(&[1.0, 1.0, 1.0], &[1.0, 2.0, 3.0]), None);
        assert_eq!(rho(&[1.0, 2.0], &[1.0, 2.0]), None);
        assert!(rank_correlation(&[1.0], &[]).is_err());
        assert!(rank_correlation(&[f64::NAN; 3], &[1.0; 3]).is_err());
    }
}
