//! Behaviour of a trial over time.

use serde::{Deserialize, Serialize};

/// A period of a trial at one level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Regime {
    /// Start on the trial's clock, ns.
    pub start_ns: u64,
    /// End, ns.
    pub end_ns: u64,
    /// Mean ops per second.
    pub rate: f64,
    /// Standard deviation of the rates per second.
    pub deviation: f64,
}

/// Classification of a trial's series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Course {
    /// Steady: only noise after the warm-up.
    Steady {
        /// End of the warm-up on the trial's clock, ns; 0 without one.
        from_ns: u64,
        /// (largest − smallest) ÷ mean after the warm-up, percent.
        range_percent: f64,
    },
    /// Neither steady nor with a clear change of level.
    Drifting {
        /// The rise of the least-squares line over the last window ÷ its mean, percent.
        rise_percent: f64,
        /// (largest − smallest) ÷ mean in the last window, percent.
        range_percent: f64,
    },
    /// Several consecutive levels: their mean is not meaningful.
    Regimes,
    /// Too few seconds to classify.
    TooShort {
        /// Number of seconds.
        seconds: u32,
    },
    /// There is no series.
    Unknown,
}

/// Behaviour of a trial over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Behaviour {
    /// Classification of the whole trial.
    pub course: Course,
    /// Regimes in order, without gaps: one if the level does not change, none without a series. The warm-up
    /// before a steady period is not included.
    pub regimes: Vec<Regime>,
    /// Integrated autocorrelation time, in seconds of the series; `None` if the series is too short.
    pub autocorrelation_time: Option<f64>,
}

impl Default for Behaviour {
    fn default() -> Behaviour {
        Behaviour {
            course: Course::Unknown,
            regimes: Vec::new(),
            autocorrelation_time: None,
        }
    }
}
