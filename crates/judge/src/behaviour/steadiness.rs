//! Whether one level is steady, and when its warm-up was over.

use iodyno_stats::{SteadyCriteria, assess_window, student_t_quantile};

use super::levels::{self, without_outliers};
use super::{deviation, mean};

/// A series is cut into so many rounds of equal length: SNIA's window.
const ROUNDS: usize = 5;

/// Noise alone goes beyond the limits that it moves in one case of a hundred.
const NOISE_CHANCE: f64 = 0.01;

/// The range of five means of pure noise at that chance ÷ a mean's own deviation (the studentised range).
const NOISE_RANGE: f64 = 4.60;

/// Seconds that scatter more than this around their mean, as a share of it, swing: no one figure describes
/// them, whatever their means. Two rates taking turns range over twice that, 50 % of their mean.
const SWING: f64 = 0.25;

/// Seconds at the start are warm-up as long as they lie further from the rest's mean than this share …
const WARM_UP_SHARE: f64 = 0.05;

/// … and than one value in a thousand would, on one side, by the rest's noise.
const WARM_UP_CHANCE: f64 = 0.001;

/// What a level is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Steadiness {
    /// (largest − smallest) ÷ mean of the seconds.
    pub(super) range: f64,
    /// Rise of the least-squares line ÷ mean.
    pub(super) rise: f64,
    pub(super) steady: bool,
}

/// SNIA's test on five rounds of equal length: means within 20 %, the seconds' line rises within 10 %, or within what
/// their noise explains; and the seconds do not swing. Needs five values.
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
            steady: false,
        };
    };
    let limits = SteadyCriteria::default();
    let most_range = limits.max_range.max(range_of_noise(rates) / level);
    let most_rise = limits.max_rise.max(rise_of_noise(rates) / level);
    Steadiness {
        range: seconds.range,
        rise: seconds.rise,
        steady: rounds.range <= most_range
            && seconds.rise.abs() <= most_rise
            && deviation(rates) <= SWING * level,
    }
}

/// How far the means of the rounds range by noise alone. The noise is that of neighbouring seconds' differences
/// (von Neumann), which slow wandering does not touch; they tell it as well as two thirds as many
/// independent values would.
fn range_of_noise(rates: &[f64]) -> f64 {
    let count = rates.len() as f64;
    let squares: f64 = rates
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).powi(2))
        .sum();
    let noise = (squares / (2.0 * (count - 1.0))).sqrt();
    // What is not known well of the deviation widens the studentised range as it widens Student's t.
    let widened = reach(count * 2.0 / 3.0) / reach(f64::from(u16::MAX));
    NOISE_RANGE * widened * noise / (count / ROUNDS as f64).sqrt()
}

/// How far the least-squares line rises by noise alone: that around the line itself.
fn rise_of_noise(rates: &[f64]) -> f64 {
    let count = rates.len() as f64;
    let noise = (levels::line_squares(rates) / (count - 2.0)).sqrt();
    reach(count - 2.0) * noise * (12.0 / count).sqrt()
}

/// Student's t on both sides at [`NOISE_CHANCE`].
fn reach(freedom: f64) -> f64 {
    student_t_quantile(1.0 - NOISE_CHANCE / 2.0, freedom).unwrap_or(f64::INFINITY)
}

/// How many seconds at the start lie apart from the rest, all on one side; at most `most`.
pub(super) fn warm_up(rates: &[f64], most: usize) -> usize {
    let rest = without_outliers(&rates[most..]);
    let (level, count) = (mean(&rest), rest.len() as f64);
    // Of a few seconds neither mean nor deviation is known well: Student's prediction interval knows it.
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
