//! The steady-state test of the SNIA Solid State Storage Performance Test Specification (2.0.1).

use crate::StatsError;
use crate::error::check_finite;
use crate::sample::mean;

/// Criteria for a steady window of rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SteadyCriteria {
    /// The number of rounds in the window; at least two.
    pub window: usize,
    /// The largest accepted max − min, as a share of the mean.
    pub max_range: f64,
    /// The largest accepted rise or fall of the least-squares line over the window, as a share of the mean.
    pub max_rise: f64,
}

/// The values of the specification: 5 rounds, 20 %, 10 %.
impl Default for SteadyCriteria {
    fn default() -> Self {
        SteadyCriteria {
            window: 5,
            max_range: 0.20,
            max_rise: 0.10,
        }
    }
}

/// One window of rounds with its values for the criteria.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SteadyWindow {
    /// The index of its first round.
    pub start: usize,
    /// The index after its last round.
    pub end: usize,
    /// The mean of its rounds.
    pub mean: f64,
    /// (max − min) ÷ |mean|; 0 if all are equal, infinite if only the mean is zero.
    pub range: f64,
    /// Rise of the least-squares line from the first to the last round ÷ |mean|, with its sign.
    pub rise: f64,
    /// Whether both criteria are met. Necessary for a steady state, not sufficient.
    pub steady: bool,
}

/// Assesses the last `criteria.window` rounds.
pub fn assess_window(
    rounds: &[f64],
    criteria: &SteadyCriteria,
) -> Result<SteadyWindow, StatsError> {
    check(rounds, criteria)?;
    Ok(assess(rounds, rounds.len() - criteria.window, criteria))
}

fn check(rounds: &[f64], criteria: &SteadyCriteria) -> Result<(), StatsError> {
    if criteria.window < 2 {
        return Err(StatsError::OutOfRange {
            name: "window",
            value: criteria.window as f64,
            expected: "at least 2 rounds",
        });
    }
    check_finite(rounds, criteria.window)
}

fn assess(rounds: &[f64], start: usize, criteria: &SteadyCriteria) -> SteadyWindow {
    let window = &rounds[start..start + criteria.window];
    let mean = mean(window);
    let (mut min, mut max) = (window[0], window[0]);
    let (mut moment, mut spread) = (0.0, 0.0);
    let middle = (window.len() - 1) as f64 / 2.0;
    for (index, &value) in window.iter().enumerate() {
        (min, max) = (min.min(value), max.max(value));
        let place = index as f64 - middle;
        moment += place * (value - mean);
        spread += place * place;
    }
    let relative = |amount: f64| {
        if amount == 0.0 {
            0.0
        } else {
            amount / mean.abs()
        }
    };
    let range = relative(max - min);
    let rise = relative(moment / spread * (window.len() - 1) as f64);
    SteadyWindow {
        start,
        end: start + window.len(),
        mean,
        range,
        rise,
        steady: range <= criteria.max_range && rise.abs() <= criteria.max_rise,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rounds: &[f64], range: f64, rise: f64, steady: bool) {
        let window = assess_window(rounds, &SteadyCriteria::default()).unwrap();
        assert!(
            (window.range - range).abs() < 1e-12,
            "{rounds:?}: {window:?}"
        );
        assert!((window.rise - rise).abs() < 1e-12, "{rounds:?}: {window:?}");
        assert_eq!(window.steady, steady, "{rounds:?}: {window:?}");
    }

    #[test]
    fn compares_range_and_rise_with_their_limits() {
        check(&[100.0; 5], 0.0, 0.0, true);
        check(&[0.0; 5], 0.0, 0.0, true);
        check(&[90.0, 110.0, 100.0, 90.0, 110.0], 0.2, 0.08, true);
        check(&[89.0, 110.0, 101.0, 90.0, 110.0], 0.21, 0.088, false); // range
        check(&[95.0, 97.5, 100.0, 102.5, 105.0], 0.1, 0.1, true);
        check(&[94.0, 97.0, 100.0, 103.0, 106.0], 0.12, 0.12, false); // rise
        check(&[106.0, 103.0, 100.0, 97.0, 94.0], 0.12, -0.12, false); // fall
        check(&[1.0, 9.0, 95.0, 97.5, 100.0, 102.5, 105.0], 0.1, 0.1, true); // only the last five
    }

    #[test]
    fn refuses_too_few_rounds_and_invalid_settings() {
        let criteria = SteadyCriteria::default();
        assert_eq!(
            assess_window(&[1.0; 4], &criteria),
            Err(StatsError::TooFew { needed: 5, got: 4 })
        );
        assert_eq!(
            assess_window(&[1.0, 1.0, f64::NAN, 1.0, 1.0], &criteria),
            Err(StatsError::NotFinite { index: 2 })
        );
        let narrow = SteadyCriteria {
            window: 1,
            ..criteria
        };
        assert!(matches!(
            assess_window(&[1.0; 4], &narrow),
            Err(StatsError::OutOfRange { .. })
        ));
    }
}
