//! Tests whether one level is steady, and finds the end of its warm-up.

use iodyno_stats::{SteadyCriteria, assess_window, normal_quantile, student_t_quantile};

use super::levels::{self, without_outliers};
use super::spread::{deviation, mean};

/// Number of rounds of equal length that a series is divided into: SNIA's window.
const ROUNDS: usize = 5;

/// Probability that pure noise exceeds the limits that are widened for noise.
const NOISE_CHANCE: f64 = 0.01;

/// The range of five means of pure noise at that probability, divided by the deviation of one mean (studentised
/// range).
const NOISE_RANGE: f64 = 4.60;

/// If the seconds deviate from their mean by more than this fraction, the level oscillates and one figure does not
/// describe it, even if the means of the rounds are steady. Two alternating rates then differ by twice that: 50 % of
/// their mean.
const SWING: f64 = 0.25;

/// Probability that independent normal seconds with a deviation of [`SWING`] are classified as an oscillation. Six to
/// eight such seconds often deviate by 40 %.
const SWING_CHANCE: f64 = 0.001;

/// Seconds at the start count as warm-up while they differ from the mean of the rest by more than this fraction
/// …
const WARM_UP_SHARE: f64 = 0.05;

/// … and by more than one value in a thousand would, on one side, by the noise of the rest.
const WARM_UP_CHANCE: f64 = 0.001;

/// Whether a level is steady.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Steady,
    Unsteady,
    /// The seconds deviate widely, and there are too few to distinguish an oscillation from noise.
    TooFew,
}

/// Statistics of one level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Steadiness {
    /// (largest − smallest) ÷ mean of the seconds.
    pub(super) range: f64,
    /// Rise of the least-squares line ÷ mean.
    pub(super) rise: f64,
    pub(super) answer: Answer,
}

/// SNIA's test on five rounds of equal length: the means stay within 20 %, the line through the seconds rises
/// by at most 10 % or by what noise explains, and the seconds do not oscillate by more than noise explains. Needs at
/// least five values.
pub(super) fn assess(rates: &[f64]) -> Steadiness {
    let count = rates.len();
    let whole = SteadyCriteria {
        window: count,
        ..SteadyCriteria::default()
    };
    let rounds: Vec<f64> = (0..ROUNDS)
        .map(|round| mean(&rates[round * count / ROUNDS..(round + 1) * count / ROUNDS]))
        .collect();
    let level = mean(rates);
    let (Ok(seconds), Ok(rounds)) = (
        assess_window(rates, &whole),
        assess_window(&rounds, &SteadyCriteria::default()),
    ) else {
        return Steadiness {
            range: f64::INFINITY,
            rise: 0.0,
            answer: Answer::Unsteady,
        };
    };
    let limits = SteadyCriteria::default();
    let most_range = limits.max_range.max(range_of_noise(rates) / level);
    let most_rise = limits.max_rise.max(rise_of_noise(rates) / level);
    let swing = deviation(rates) / level;
    let answer = if rounds.range > most_range
        || seconds.rise.abs() > most_rise
        || swing > swing_of_noise(count)
    {
        Answer::Unsteady
    } else if swing > SWING {
        Answer::TooFew
    } else {
        Answer::Steady
    };
    Steadiness {
        range: seconds.range,
        rise: seconds.rise,
        answer,
    }
}

/// The relative deviation that independent normal seconds exceed with a probability of [`SWING_CHANCE`] if their
/// true one is [`SWING`]: by the chi-squared distribution, in the approximation of Wilson and Hilferty (1931).
fn swing_of_noise(count: usize) -> f64 {
    let freedom = count.saturating_sub(1).max(1) as f64;
    let z = normal_quantile(1.0 - SWING_CHANCE).unwrap_or(f64::INFINITY);
    let part = 2.0 / (9.0 * freedom);
    SWING * (1.0 - part + z * part.sqrt()).powi(3).sqrt()
}

/// Range of the rounds' means that noise alone explains. The noise is estimated from differences of
/// neighbouring seconds (von Neumann), which slow changes do not affect. The estimate has the precision of two
/// thirds as many independent values.
fn range_of_noise(rates: &[f64]) -> f64 {
    let count = rates.len() as f64;
    let squares: f64 = rates
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).powi(2))
        .sum();
    let noise = (squares / (2.0 * (count - 1.0))).sqrt();
    // An uncertain deviation widens the studentised range in the same way as Student's t.
    let widened = reach(count * 2.0 / 3.0) / reach(f64::from(u16::MAX));
    NOISE_RANGE * widened * noise / (count / ROUNDS as f64).sqrt()
}

/// Rise of the least-squares line that noise alone explains; the noise is the deviation around the line.
fn rise_of_noise(rates: &[f64]) -> f64 {
    let count = rates.len() as f64;
    let noise = (levels::line_squares(rates) / (count - 2.0)).sqrt();
    reach(count - 2.0) * noise * (12.0 / count).sqrt()
}

/// Two-sided quantile of Student's t at [`NOISE_CHANCE`].
fn reach(freedom: f64) -> f64 {
    student_t_quantile(1.0 - NOISE_CHANCE / 2.0, freedom).unwrap_or(f64::INFINITY)
}

/// Number of seconds at the start that differ from the rest, all on one side; at most `most`.
pub(super) fn warm_up(rates: &[f64], most: usize) -> usize {
    let rest = without_outliers(&rates[most..]);
    let (level, count) = (mean(&rest), rest.len() as f64);
    // With few seconds, mean and deviation are uncertain; Student's prediction interval accounts for it.
    let reach = student_t_quantile(1.0 - WARM_UP_CHANCE, count - 1.0).unwrap_or(f64::INFINITY)
        * (1.0 + 1.0 / count).sqrt();
    let band = (WARM_UP_SHARE * level).max(reach * deviation(&rest));
    let apart = |above: bool| {
        let outside = |rate: &&f64| match above {
            true => **rate > level + band,
            false => **rate < level - band,
        };
        rates[..most].iter().take_while(outside).count()
    };
    apart(true).max(apart(false))
}
