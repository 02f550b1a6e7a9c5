//! How a trial behaved in its time.

use serde::{Deserialize, Serialize};

/// A stretch of a trial with one behaviour.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Regime {
    /// Start on the trial's clock, ns.
    pub start_ns: u64,
    /// End, ns.
    pub end_ns: u64,
    /// Ops a second, in the mean.
    pub rate: f64,
    /// Standard deviation of the seconds' rates.
    pub deviation: f64,
}

/// What a trial's series is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Course {
    /// Nothing but noise from here on.
    Steady {
        /// End of the warm-up on the trial's clock, ns; 0 without one.
        from_ns: u64,
        /// (largest − smallest) ÷ mean from there on, percent.
        range_percent: f64,
    },
    /// No steady window, no clear change either.
    Drifting {
        /// The rise of the least-squares line over the last window ÷ its mean, percent.
        rise_percent: f64,
        /// (largest − smallest) ÷ mean in the last window, percent.
        range_percent: f64,
    },
    /// Several behaviours one after the other: a mean of them says nothing.
    Regimes,
    /// Too few seconds to tell.
    TooShort {
        /// Seconds there are.
        seconds: u32,
    },
    /// No series was kept.
    Unknown,
}

/// How a trial behaved in its time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Behaviour {
    /// What it is as a whole.
    pub course: Course,
    /// One after the other without gaps; one where nothing changes, none without a series. The warm-up
    /// before a steady stretch is none of them.
    pub regimes: Vec<Regime>,
    /// Integrated autocorrelation time, in seconds of the series; `None` where it is too short.
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
