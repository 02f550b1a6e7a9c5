//! Whether one level is steady, and when its warm-up was over.

use iodyno_stats::{SteadyCriteria, assess_window};

use super::{deviation, mean, middle};

/// A series is cut into so many rounds of equal length: SNIA's window.
const ROUNDS: usize = 5;

/// Means of five rounds of pure noise range over more than this many times a mean's own deviation in one case of
/// twenty (the studentised range).
const NOISE_RANGE: f64 = 3.86;

/// … and a line through noise rises by more than this many times its own deviation.
const NOISE_RISE: f64 = 1.96;

/// Seconds that scatter more than this around their mean, as a share of it, swing: no one figure describes
/// them, whatever their means. Two rates taking turns range over twice that, 50 % of their mean.
const SWING: f64 = 0.25;

/// Seconds at the start are warm-up as long as they lie further from the rest's median than this share …
const WARM_UP_SHARE: f64 = 0.05;

/// … and than so many times the rest's noise, all on one side.
const WARM_UP_NOISE: f64 = 4.0;

/// What a level is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Steadiness {
    /// (largest − smallest) ÷ mean of the seconds.
    pub(super) range: f64,
    /// Rise of the least-squares line ÷ mean.
    pub(super) rise: f64,
    pub(super) steady: bool,
}

/// SNIA's test on five rounds of equal length: means within 20 %, the line's rise within 10 %, or within what the
/// noise from second to second explains; and the seconds do not swing.
///
/// The noise is that of neighbouring seconds' differences, which a slow drift does not touch. Needs five values.
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
    let noise = noise(rates) / level;
    let limits = SteadyCriteria::default();
    let most_range = limits
        .max_range
        .max(NOISE_RANGE * noise / (count as f64 / ROUNDS as f64).sqrt());
    let most_rise = limits
        .max_rise
        .max(NOISE_RISE * noise * (12.0 / count as f64).sqrt());
    Steadiness {
        range: seconds.range,
        rise: seconds.rise,
        steady: rounds.range <= most_range
            && seconds.rise.abs() <= most_rise
            && deviation(rates) <= SWING * level,
    }
}

/// Deviation of a second, from the differences of neighbours (von Neumann).
fn noise(rates: &[f64]) -> f64 {
    let squares: f64 = rates
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).powi(2))
        .sum();
    (squares / (2.0 * (rates.len() - 1) as f64)).sqrt()
}

/// How many seconds at the start lie apart from the rest; at most `most`.
pub(super) fn warm_up(rates: &[f64], most: usize) -> usize {
    let (middle, noise) = middle(&rates[most..]);
    let band = (WARM_UP_SHARE * middle).max(WARM_UP_NOISE * noise);
    let apart = |above: bool| {
        let outside = |rate: &&f64| match above {
            true => **rate > middle + band,
            false => **rate < middle - band,
        };
        rates[..most].iter().take_while(outside).count()
    };
    apart(true).max(apart(false))
}
