//! The t-tests of Welch and Student from summaries, for the significance of change points.

use crate::distributions::student_t_two_sided_p;

/// Prefix sums of a series, from which the mean and the variance of any range are computed in constant time.
pub(crate) struct Moments {
    sums: Vec<f64>,
    squares: Vec<f64>,
    offset: f64,
    largest: f64,
}

/// Mean and variance of one range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Summary {
    pub(crate) count: f64,
    pub(crate) mean: f64,
    /// Unbiased; 0 for a single value.
    pub(crate) variance: f64,
    /// An upper bound of the rounding error of the mean.
    pub(crate) mean_error: f64,
}

impl Moments {
    /// `series` must not be empty.
    pub(crate) fn new(series: &[f64]) -> Self {
        // Centred first, because the squares of large values would reduce the precision of the variance.
        let offset = crate::sample::mean(series);
        let running = |power: i32| {
            let mut total = 0.0;
            let mut sums = Vec::with_capacity(series.len() + 1);
            sums.push(0.0);
            sums.extend(series.iter().map(|value| {
                total += (value - offset).powi(power);
                total
            }));
            sums
        };
        Moments {
            sums: running(1),
            squares: running(2),
            offset,
            largest: series
                .iter()
                .fold(0.0, |largest, value| value.abs().max(largest)),
        }
    }

    /// The summary of `series[start..end]`, which must not be empty.
    pub(crate) fn of(&self, start: usize, end: usize) -> Summary {
        let count = (end - start) as f64;
        let mean = (self.sums[end] - self.sums[start]) / count;
        let total = self.squares[end] - self.squares[start];
        let squares = total - count * mean * mean;
        // A variance this small is only rounding.
        let noise = 1e-13 * self.squares[self.squares.len() - 1];
        Summary {
            count,
            mean: mean + self.offset,
            mean_error: 1e-12 * self.largest,
            variance: if squares <= noise {
                0.0
            } else {
                squares / (count - 1.0).max(1.0)
            },
        }
    }
}

/// The two-sided p of Welch's t-test for equal means of two ranges, with each value counted as 1/`time` independent
/// values. A range of one value has no variance of its own and uses that of the other. For two constant ranges p is 0
/// or 1. `pooled`: both ranges have the same variance, as in Student's t-test.
pub(crate) fn mean_p(left: Summary, right: Summary, time: f64, pooled: bool) -> f64 {
    let distance = left.mean - right.mean;
    if distance.abs() <= left.mean_error {
        return 1.0;
    }
    let variance = |own: Summary, other: Summary| {
        if own.count > 1.0 {
            own.variance
        } else {
            other.variance
        }
    };
    let effective = |summary: Summary| (summary.count / time).max(1.0);
    if pooled {
        let squares = |summary: Summary| summary.variance * (summary.count - 1.0);
        let values = (left.count + right.count - 2.0).max(1.0);
        let variance = (squares(left) + squares(right)) / values;
        let error = (variance * (1.0 / effective(left) + 1.0 / effective(right))).sqrt();
        if error == 0.0 {
            return 0.0;
        }
        let freedom = (effective(left) + effective(right) - 2.0).max(1.0);
        return student_t_two_sided_p(distance / error, freedom).unwrap_or(1.0);
    }
    let left_error = variance(left, right) / effective(left);
    let right_error = variance(right, left) / effective(right);
    let error = left_error + right_error;
    if error == 0.0 {
        return 0.0;
    }
    let share = |part: f64, summary: Summary| part * part / (effective(summary) - 1.0).max(0.5);
    let freedom = error * error / (share(left_error, left) + share(right_error, right));
    student_t_two_sided_p(distance / error.sqrt(), freedom).unwrap_or(1.0)
}
