//! The knee of a curve: where its growth changes most.

use crate::StatsError;
use crate::error::check_finite;

/// The smallest distance from the chord, as a share of the height, that counts as a knee: smaller ones are noise on a
/// straight line.
const MIN_DISTANCE: f64 = 0.15;

/// The index of the point of a rising or falling curve that is farthest from the straight line between its ends, after
/// both axes are scaled to 0…1; `None` if the curve is nearly straight, or does not rise or fall as a whole. `x`
/// ascends.
///
/// Source: Satopää, Albrecht, Irwin, Raghavan, "Finding a 'Kneedle' in a Haystack", ICDCS workshops 2011, without its
/// smoothing and its online part: the points are medians of few trials.
///
/// # Errors
/// Different lengths, fewer than 3 points, numbers that are not finite, `x` that does not ascend.
pub fn knee(x: &[f64], y: &[f64]) -> Result<Option<usize>, StatsError> {
    if x.len() != y.len() {
        return Err(StatsError::LengthMismatch {
            left: x.len(),
            right: y.len(),
        });
    }
    check_finite(x, 3)?;
    check_finite(y, 3)?;
    if let Some(pair) = x.windows(2).find(|pair| pair[0] >= pair[1]) {
        return Err(StatsError::OutOfRange {
            name: "x",
            value: pair[1],
            expected: "a number above the preceding one",
        });
    }
    let last = x.len() - 1;
    let (low, high) = (y.iter()).fold((y[0], y[0]), |(low, high), y| (low.min(*y), high.max(*y)));
    let (width, height) = (x[last] - x[0], high - low);
    if !width.is_finite() || !height.is_finite() {
        return Err(StatsError::Overflow);
    }
    // If the ends are close to each other, the curve goes up and down.
    if height <= 0.0 || (y[last] - y[0]).abs() < height / 2.0 {
        return Ok(None);
    }
    let slope = (y[last] - y[0]) / width;
    let distance = |at: usize| (y[at] - y[0] - slope * (x[at] - x[0])).abs() / height;
    let inner = 1..last;
    let farthest = inner.max_by(|a, b| distance(*a).total_cmp(&distance(*b)));
    Ok(farthest.filter(|at| distance(*at) >= MIN_DISTANCE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_knee_of_a_saturating_curve_is_where_it_saturates() {
        let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
        let rising = x.map(|x| f64::min(100.0 * x, 400.0 + x));
        assert_eq!(knee(&x, &rising), Ok(Some(3)));
        let falling = rising.map(|y| -y);
        assert_eq!(knee(&x, &falling), Ok(Some(3)));
        // Latency: flat, then steep.
        let latency = x.map(|x| f64::max(100.0 + x, 100.0 * (x - 4.0)));
        assert_eq!(knee(&x, &latency), Ok(Some(4)));
    }

    #[test]
    fn straight_flat_and_wavy_curves_have_none() {
        let x = [1.0, 2.0, 4.0, 8.0];
        for y in [
            x,
            [5.0; 4],
            [1.0, 9.0, 1.0, 2.0],
            x.map(|x| 3.0 * x + if x == 2.0 { 1.0 } else { 0.0 }),
        ] {
            assert_eq!(knee(&x, &y), Ok(None), "{y:?}");
        }
    }

    #[test]
    fn wrong_input_is_an_error() {
        assert!(knee(&[1.0, 2.0], &[1.0, 2.0]).is_err());
        assert!(knee(&[1.0, 2.0, 3.0], &[1.0, 2.0]).is_err());
        assert!(knee(&[1.0, 1.0, 3.0], &[1.0, 2.0, 3.0]).is_err());
        assert!(knee(&[1.0, 2.0, f64::NAN], &[1.0, 2.0, 3.0]).is_err());
        assert!(knee(&[-f64::MAX, 0.0, f64::MAX], &[1.0, 2.0, 3.0]).is_err());
    }

    proptest! {
        /// Units do not matter.
        #[test]
        fn scaling_changes_nothing(
            y in prop::collection::vec(1.0..100.0_f64, 3..12), factor in 1.0..1e6_f64, shift in -1e3..1e3_f64,
        ) {
            let x: Vec<f64> = (0..y.len()).map(|x| x as f64).collect();
            let scaled: Vec<f64> = y.iter().map(|y| y * factor).collect();
            let moved: Vec<f64> = x.iter().map(|x| x * 8.0 + shift).collect();
            prop_assert_eq!(knee(&x, &y), knee(&moved, &scaled));
        }
    }
}
