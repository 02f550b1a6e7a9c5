//! What a trial is compared by: one number a trial for each metric.

use serde::{Deserialize, Serialize};

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Rates.
    Higher,
    /// Times.
    Lower,
}

/// What a metric's values are counted in. Others' units are turned into these when they are read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Ops a second.
    OpsPerSecond,
    /// Bytes a second.
    BytesPerSecond,
    /// Nanoseconds.
    Nanos,
    /// Anything else, as its source names it; the empty text: a plain number.
    Other(String),
}

/// What is measured of a trial.
///
/// Names are words joined by points, the op first: `iops`, `bandwidth`, `read.iops`, `write.p99`,
/// `fsync.mean`, `completion`, `cpu_per_op`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// What its values are counted in.
    pub unit: Unit,
    /// Which way is better.
    pub better: Better,
}

impl Metric {
    /// Completion of finite work, drain and final flush included, ns.
    pub const COMPLETION: &'static str = "completion";
    /// Ops a second of all directions that move data.
    pub const IOPS: &'static str = "iops";
    /// Bytes a second of all directions.
    pub const BANDWIDTH: &'static str = "bandwidth";

    /// Ops a second.
    pub fn iops(name: impl Into<String>) -> Metric {
        Metric {
            name: name.into(),
            unit: Unit::OpsPerSecond,
            better: Better::Higher,
        }
    }

    /// Bytes a second.
    pub fn bandwidth(name: impl Into<String>) -> Metric {
        Metric {
            name: name.into(),
            unit: Unit::BytesPerSecond,
            better: Better::Higher,
        }
    }

    /// A time, ns; the less the better.
    pub fn time(name: impl Into<String>) -> Metric {
        Metric {
            name: name.into(),
            unit: Unit::Nanos,
            better: Better::Lower,
        }
    }
}

/// A metric's value in one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What.
    pub metric: Metric,
    /// In the metric's unit.
    pub value: f64,
    /// How it follows from other figures, where it was not measured or printed itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub derived: Option<String>,
}

/// A figure that is kept back, because it would say more than the data do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Withheld {
    /// The metric's name.
    pub metric: String,
    /// Why, in words.
    pub why: String,
}
