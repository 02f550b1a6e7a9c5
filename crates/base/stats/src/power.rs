//! Projection of the number of rounds that a verdict needs.

use crate::error::{check_finite, check_open_unit};
use crate::sample::squared_deviations;
use crate::{
    StatsError, hodges_lehmann, hodges_lehmann_shift, smallest_p_mann_whitney,
    smallest_p_signed_rank, student_t_quantile,
};

/// Maximum number of rounds of a projection.
const FARTHEST: usize = 100_000;

/// The variance of the Hodges–Lehmann estimate divided by that of the mean, for normal data: π/3. It is smaller for
/// heavier tails, so projections tend to give more rounds than needed.
const VARIANCE_OVER_MEAN: f64 = std::f64::consts::PI / 3.0;

/// The goal of a projection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decides {
    /// A difference: the interval excludes 0 (a ratio of 1).
    Difference,
    /// Equivalence: the interval lies within the margin.
    Equivalence,
}

/// The number of rounds needed if spread and estimate stay as observed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Projection {
    /// Total number of rounds, including existing ones; `None` if 100 000 are not enough.
    pub rounds: Option<usize>,
    /// Additional rounds.
    pub more: Option<usize>,
    /// The half-width of the interval to reach, in the unit of the differences.
    pub half_width: f64,
}

/// The smallest number of rounds with which the signed-rank test can reach α under Holm's correction over `primaries`
/// comparisons: the smallest n with 2/2ⁿ < α/m.
pub fn least_rounds(primaries: usize, alpha: f64) -> Result<usize, StatsError> {
    check_open_unit("alpha", alpha)?;
    let share = alpha / primaries.max(1) as f64;
    Ok((1..)
        .find(|&n| smallest_p_signed_rank(n) < share)
        .unwrap_or(FARTHEST))
}

/// The smallest number of trials per side with which the U test can reach α under Holm's correction over `primaries`
/// comparisons: the smallest n with 2/C(2n, n) < α/m.
pub fn least_samples(primaries: usize, alpha: f64) -> Result<usize, StatsError> {
    check_open_unit("alpha", alpha)?;
    let share = alpha / primaries.max(1) as f64;
    Ok((1..)
        .find(|&n| smallest_p_mann_whitney(n, n) < share)
        .unwrap_or(FARTHEST))
}

/// The number of rounds until a verdict, given the differences (log-ratios) so far: until the interval at `level`
/// either excludes 0 or lies within ±`margin` with probability `power`, assuming that the estimate is the true value.
/// The nearer of the two goals is projected.
///
/// Expected half-width: t·s·√(π/3)/√n, with Student's t for n−1 degrees of freedom. At least the number of rounds
/// that the level needs for an interval.
///
/// Requires (t for the level + t for the power)·s·√(π/3)/√n ≤ |estimate| or ≤ margin − |estimate|. For the second
/// goal only the nearer bound of the margin is used. With a power of 0.5 this is the number at which the expected
/// interval just decides.
pub fn rounds_to_decide(
    differences: &[f64],
    margin: f64,
    level: f64,
    power: f64,
) -> Result<(Projection, Decides), StatsError> {
    let spread = Spread::of_paired(differences)?;
    let estimate = hodges_lehmann(differences, level)?.value;
    to_decide(&spread, estimate, margin, level, power)
}

/// The same without common rounds: trials per side, from the logarithms of the values.
pub fn samples_to_decide(
    baseline: &[f64],
    candidate: &[f64],
    margin: f64,
    level: f64,
    power: f64,
) -> Result<(Projection, Decides), StatsError> {
    let spread = Spread::of_unpaired(baseline, candidate)?;
    let estimate = hodges_lehmann_shift(baseline, candidate, level)?.value;
    to_decide(&spread, estimate, margin, level, power)
}

/// The data that a projection needs.
struct Spread {
    /// Rounds, or trials on the smaller side.
    seen: usize,
    /// The standard error of the estimate × √n.
    error: f64,
    /// The degrees of freedom per round, and those to subtract.
    freedom: (f64, f64),
    /// The smallest p that n rounds can give.
    smallest_p: fn(usize) -> f64,
}

impl Spread {
    fn of_paired(differences: &[f64]) -> Result<Self, StatsError> {
        check_finite(differences, 2)?;
        let count = differences.len();
        let variance = squared_deviations(differences) / (count - 1) as f64;
        Spread {
            seen: count,
            error: (VARIANCE_OVER_MEAN * variance).sqrt(),
            freedom: (1.0, 1.0),
            smallest_p: smallest_p_signed_rank,
        }
        .checked()
    }

    fn of_unpaired(baseline: &[f64], candidate: &[f64]) -> Result<Self, StatsError> {
        check_finite(baseline, 2)?;
        check_finite(candidate, 2)?;
        let variance = |side: &[f64]| squared_deviations(side) / (side.len() - 1) as f64;
        Spread {
            seen: baseline.len().min(candidate.len()),
            error: (VARIANCE_OVER_MEAN * (variance(baseline) + variance(candidate))).sqrt(),
            freedom: (2.0, 2.0),
            smallest_p: |n| smallest_p_mann_whitney(n, n),
        }
        .checked()
    }

    fn checked(self) -> Result<Self, StatsError> {
        if self.error.is_finite() {
            Ok(self)
        } else {
            Err(StatsError::Overflow)
        }
    }

    /// The expected half-width with `count` rounds, widened by the power.
    fn half_width(&self, count: usize, level: f64, power: f64) -> Result<f64, StatsError> {
        let freedom = self.freedom.0 * count as f64 - self.freedom.1;
        let factor =
            student_t_quantile((1.0 + level) / 2.0, freedom)? + student_t_quantile(power, freedom)?;
        Ok(factor * self.error / (count as f64).sqrt())
    }
}

fn to_decide(
    spread: &Spread,
    estimate: f64,
    margin: f64,
    level: f64,
    power: f64,
) -> Result<(Projection, Decides), StatsError> {
    if !(margin > 0.0 && margin.is_finite()) {
        return Err(StatsError::OutOfRange {
            name: "margin",
            value: margin,
            expected: "a number above 0",
        });
    }
    check_open_unit("power", power)?;
    let distance = estimate.abs();
    let (half_width, decides) = if distance >= margin - distance {
        (distance, Decides::Difference)
    } else {
        (margin - distance, Decides::Equivalence)
    };
    Ok((project(spread, level, half_width, power)?, decides))
}

/// The smallest number of rounds, at least the existing ones, whose expected half-width is small enough.
fn project(
    spread: &Spread,
    level: f64,
    half_width: f64,
    power: f64,
) -> Result<Projection, StatsError> {
    check_open_unit("level", level)?;
    let enough = |count: usize| -> Result<bool, StatsError> {
        let possible = (spread.smallest_p)(count) <= 1.0 - level;
        Ok(possible && spread.half_width(count, level, power)? <= half_width)
    };
    // The half-width decreases with the count, so bisection finds the first sufficient number.
    let (mut low, mut high) = (spread.seen.max(2), FARTHEST);
    if low > FARTHEST || !enough(high)? {
        return Ok(Projection {
            rounds: None,
            more: None,
            half_width,
        });
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if enough(middle)? {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(Projection {
        rounds: Some(low),
        more: Some(low - spread.seen),
        half_width,
    })
}
