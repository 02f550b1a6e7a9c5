//! The interval of a mean.

use crate::sign_flips::mean_and_error;
use crate::{StatsError, student_t_quantile};

/// With fewer values, subsets have no interval at 95 %.
const MIN_FOR_SUBSETS: usize = 6;

/// Of more values, some subsets are drawn.
const MAX_FOR_ALL_SUBSETS: usize = 12;

/// The interval of a mean at `level`, lower end first. One outlier makes Student's interval as wide as it is far away,
/// but not that of typical values: the means of all subsets divide the line into intervals that contain the expectation
/// with the same probability, if deviations are symmetric. Less than six values have Student's.
///
/// Source: Hartigan, "Using subsample values as typical values", JASA 64, 1969.
///
/// # Errors
/// There are less than two values, or one is not finite.
pub fn mean_interval(values: &[f64], level: f64) -> Result<(f64, f64), StatsError> {
    let (mean, error) = mean_and_error(values)?;
    let count = values.len();
    if error == 0.0 {
        return Ok((mean, mean));
    }
    if count < MIN_FOR_SUBSETS {
        let reach = error * student_t_quantile((1.0 + level) / 2.0, (count - 1) as f64)?;
        return Ok((mean - reach, mean + reach));
    }
    let subsets = 1..1u64 << count.min(MAX_FOR_ALL_SUBSETS);
    let of_subset = |subset: u64| {
        let bits = match count <= MAX_FOR_ALL_SUBSETS {
            true => subset,
            false => mixed(subset),
        };
        let own = values.iter().enumerate();
        let own = own.filter(|(place, _)| bits >> (place % 64) & 1 == 1);
        let (sum, count) = own.fold((0.0, 0.0), |(sum, count), (_, it)| (sum + it, count + 1.0));
        (count > 0.0).then_some(sum / count)
    };
    let mut means: Vec<f64> = subsets.filter_map(of_subset).collect();
    means.sort_unstable_by(f64::total_cmp);
    let outside = ((means.len() + 1) as f64 * (1.0 - level) / 2.0) as usize;
    let first = outside.saturating_sub(1);
    Ok((means[first], means[means.len() - 1 - first]))
}

/// Random bits by a number (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
fn mixed(number: u64) -> u64 {
    let mut bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_contains_the_mean_and_one_disturbed_round_does_not_hide_a_difference() {
        let mut values = [5.4, 5.1, 5.0, 4.9, 5.2, 5.3, 5.1, 4.8, 5.2, 5.0, 4.7, 5.6];
        let (low, high) = mean_interval(&values, 0.95).unwrap();
        assert!(low > 4.9 && high < 5.3, "{low} {high}");
        values[3] = 800.0;
        let (low, high) = mean_interval(&values, 0.95).unwrap();
        assert!(low > 4.0 && high > 70.0, "{low} {high}");
        // Few values have Student's.
        let (low, high) = mean_interval(&values[..3], 0.95).unwrap();
        assert!(
            (low - 4.65).abs() < 0.02 && (high - 5.68).abs() < 0.02,
            "{low} {high}"
        );
        assert!(mean_interval(&values[..1], 0.95).is_err());
        assert_eq!(mean_interval(&[2.0; 4], 0.95), Ok((2.0, 2.0)));
        let many: Vec<f64> = (0..30).map(|place| f64::from(place % 7)).collect();
        let (low, high) = mean_interval(&many, 0.95).unwrap();
        assert!(
            (2.0..2.5).contains(&low) && (3.2..3.8).contains(&high),
            "{low} {high}"
        );
    }
}
