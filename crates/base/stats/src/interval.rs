//! Types shared by intervals and estimates.

/// How a p-value or an interval was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// From the exact null distribution, conditional on the observed ties.
    Exact,
    /// From the normal distribution, corrected for ties and continuity.
    NormalApproximation,
    /// From resamples drawn with a seed.
    Resampled,
}

/// A confidence interval, ends included, in the unit of the estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The actual coverage. Exact intervals have discrete levels, so it is at least the requested level.
    pub confidence: f64,
    /// How the ends were computed.
    pub method: Method,
}

impl Interval {
    /// `high − low`.
    pub fn width(&self) -> f64 {
        self.high - self.low
    }

    /// Whether `value` lies within, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Whether the whole interval lies within `[low, high]`.
    pub fn within(&self, low: f64, high: f64) -> bool {
        low <= self.low && self.high <= high
    }
}

/// A point estimate with its interval; `None` if there are too few values for the level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The point estimate.
    pub value: f64,
    /// Its confidence interval, if there is one.
    pub interval: Option<Interval>,
}
