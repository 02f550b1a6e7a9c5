//! The steady state as an end condition (fio's `steadystate`), and what came of it.

use std::fmt;

use iodyno_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::named::named;

named! {
    /// The figure that is to become steady, over reads, writes and trims.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum SteadyMetric in ALL {
        /// Ops per second.
        #[default]
        Iops = "iops",
        /// Bytes per second.
        Bandwidth = "bw",
        /// Mean completion latency, ns.
        Latency = "lat",
    }
}

/// A limit of the figure's variation in a rolling window. Below it, the job ends; with group reporting, all jobs of
/// the group are added up and end together.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct SteadyRule {
    /// The figure.
    pub metric: SteadyMetric,
    /// The variation is the least-squares slope per value; otherwise the largest deviation from the mean.
    pub slope: bool,
    /// The variation must be less than this: in the figure's unit, or in percent of its mean.
    pub limit: f64,
    /// The limit is in percent of the mean.
    pub percent: bool,
    /// Length of the window.
    pub window: Nanos,
    /// Measured time before the first value begins.
    pub ramp: Nanos,
    /// Time between two values.
    pub interval: Nanos,
}

impl SteadyRule {
    /// Number of values in a window; at least 2.
    pub fn values(&self) -> usize {
        (self.window.0 / self.interval.0.max(1)).max(2) as usize
    }
}

/// In the notation of job files: `iops_slope:0.1%`.
impl fmt::Display for SteadyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slope = if self.slope { "_slope" } else { "" };
        let percent = if self.percent { "%" } else { "" };
        write!(f, "{}{slope}:{}{percent}", self.metric.name(), self.limit)
    }
}

/// What a clone, or a group, did in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct SteadyValue {
    /// Ops per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Mean completion latency, ns; 0 without ops.
    pub latency_ns: f64,
}

impl SteadyValue {
    /// The figure that a rule is about.
    pub fn of(&self, metric: SteadyMetric) -> f64 {
        match metric {
            SteadyMetric::Iops => self.iops,
            SteadyMetric::Bandwidth => self.bytes_per_s,
            SteadyMetric::Latency => self.latency_ns,
        }
    }
}

/// Whether a clone, or a group, became steady. The first clone of a group has the result of the group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SteadyResult {
    /// The rule.
    pub rule: SteadyRule,
    /// When the rule was met, on the trial's clock, ns; `None`: it was not.
    pub attained_ns: Option<u64>,
    /// The variation in the last full window, in the limit's unit; a slope may be negative. `None`: no window was full,
    /// or the mean is 0.
    pub criterion: Option<f64>,
    /// The least-squares slope of the last full window, per value; 0 if it is not the rule.
    pub slope: f64,
    /// The largest deviation from the mean in the last full window; 0 if it is not the rule.
    pub deviation: f64,
    /// The values of the last window, the oldest first; fewer than [`SteadyRule::values`] if it was not full.
    pub window: Vec<SteadyValue>,
}

impl SteadyResult {
    /// Nothing is known yet.
    pub fn new(rule: SteadyRule) -> SteadyResult {
        SteadyResult {
            rule,
            attained_ns: None,
            criterion: None,
            slope: 0.0,
            deviation: 0.0,
            window: Vec::new(),
        }
    }

    /// Whether the rule was met.
    pub fn attained(&self) -> bool {
        self.attained_ns.is_some()
    }

    /// Mean of the window's values; 0 without values.
    pub fn mean(&self, metric: SteadyMetric) -> f64 {
        let sum: f64 = self.window.iter().map(|value| value.of(metric)).sum();
        sum / self.window.len().max(1) as f64
    }

    /// Adds a value and judges the window. `true`: the rule is met.
    ///
    /// fio's rule (steadystate.c): with n values y at x = 0 … n−1, the slope is (Σxy − Σx·Σy/n) ÷ (Σx² − (Σx)²/n); the
    /// deviation is the largest |y − mean|. The variation must be less than the limit.
    pub fn add(&mut self, value: SteadyValue) -> bool {
        let count = self.rule.values();
        if self.window.len() == count {
            self.window.remove(0);
        }
        self.window.push(value);
        if self.window.len() < count {
            return false;
        }
        let n = count as f64;
        let mean = self.mean(self.rule.metric);
        let values = || self.window.iter().map(|value| value.of(self.rule.metric));
        let variation = if self.rule.slope {
            let middle = (n - 1.0) / 2.0;
            let xs = || (0..count).map(|x| x as f64 - middle);
            let products: f64 = xs().zip(values()).map(|(x, y)| x * (y - mean)).sum();
            self.slope = products / xs().map(|x| x * x).sum::<f64>();
            self.slope
        } else {
            self.deviation = values().fold(0.0, |most, y| f64::max(most, (y - mean).abs()));
            self.deviation
        };
        self.criterion = match (self.rule.percent, mean != 0.0) {
            (false, _) => Some(variation),
            (true, true) => Some(100.0 * variation / mean),
            (true, false) => None,
        };
        self.criterion
            .is_some_and(|criterion| criterion.abs() < self.rule.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: (SteadyMetric, bool, f64, bool), seconds: u64) -> SteadyRule {
        let (metric, slope, limit, percent) = text;
        SteadyRule {
            metric,
            slope,
            limit,
            percent,
            window: Nanos::from_secs(seconds),
            ramp: Nanos(0),
            interval: Nanos::SECOND,
        }
    }

    fn iops(iops: f64) -> SteadyValue {
        SteadyValue {
            iops,
            bytes_per_s: iops * 4096.0,
            latency_ns: 1e9 / iops,
        }
    }

    /// How many values it takes until the rule is met.
    fn met_after(rule: SteadyRule, values: &[f64]) -> (Option<usize>, SteadyResult) {
        let mut result = SteadyResult::new(rule);
        let met = values.iter().position(|value| result.add(iops(*value)));
        (met.map(|index| index + 1), result)
    }

    #[test]
    fn deviation_is_the_largest_one_and_must_be_below_the_limit() {
        use SteadyMetric::{Bandwidth, Iops};
        let values = [100.0, 110.0, 104.0, 102.0, 103.0, 103.0];
        // Means of three: 104.7, 105.3, 103, 102.7; largest deviations: 5.3, 4.7, 1, 0.67.
        for (limit, percent, expected) in [
            (6.0, false, Some(3)),
            (5.0, false, Some(4)),
            (1.0, false, Some(6)),
            (1.001, false, Some(5)),
            (0.5, false, None),
            (4.5, true, Some(4)),
            (0.66, true, Some(6)),
            (0.64, true, None),
        ] {
            let by_iops = rule((Iops, false, limit, percent), 3);
            assert_eq!(met_after(by_iops, &values).0, expected, "{limit}");
            if percent {
                let by_bytes = rule((Bandwidth, false, limit, percent), 3);
                assert_eq!(met_after(by_bytes, &values).0, expected, "{limit}");
            }
        }
        let (_, result) = met_after(rule((Iops, false, 0.5, false), 3), &values);
        assert!((result.deviation - 2.0 / 3.0).abs() < 1e-9 && result.slope == 0.0);
        assert_eq!(result.criterion, Some(result.deviation));
        assert_eq!(result.window.len(), 3);
        assert_eq!(result.window[0], iops(102.0));
    }

    #[test]
    fn slope_is_that_of_the_least_squares_line() {
        let (met, result) = met_after(
            rule((SteadyMetric::Iops, true, 2.0, false), 4),
            &[10.0, 13.0, 16.0, 19.0, 20.0, 20.0],
        );
        // 3, then 13 16 19 20: (−1.5·−4 − 0.5·−1 + 0.5·2 + 1.5·3) ÷ 5 = 2.4, then 16 19 20 20: 1.3.
        assert_eq!(met, Some(6));
        assert!((result.slope - 1.3).abs() < 1e-9, "{}", result.slope);
        let falling = met_after(
            rule((SteadyMetric::Iops, true, 4.0, true), 3),
            &[110.0, 105.0, 100.0, 96.0, 93.0],
        );
        // −4.76 %, −4.49 %, −3.63 % of the mean a value.
        assert_eq!(falling.0, Some(5));
        assert!((falling.1.criterion.unwrap() + 350.0 / 96.333_333).abs() < 1e-3);
    }

    #[test]
    fn nothing_is_steady_at_a_mean_of_zero_or_a_limit_of_zero() {
        let zero = SteadyValue::default();
        let mut result = SteadyResult::new(rule((SteadyMetric::Latency, true, 5.0, true), 2));
        assert!(!result.add(zero) && !result.add(zero));
        assert_eq!(result.criterion, None);
        let mut result = SteadyResult::new(rule((SteadyMetric::Iops, false, 0.0, false), 2));
        assert!(!result.add(iops(5.0)) && !result.add(iops(5.0)));
        assert_eq!(result.criterion, Some(0.0));
    }

    #[test]
    fn a_rule_reads_as_in_a_job_file() {
        let rule = rule((SteadyMetric::Iops, true, 0.3, true), 10);
        assert_eq!(rule.to_string(), "iops_slope:0.3%");
        assert_eq!(rule.values(), 10);
    }
}
