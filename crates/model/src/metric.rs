//! Metrics: each gives one number per trial.

use serde::{Deserialize, Serialize};

/// Whether larger or smaller values are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Larger is better: rates.
    Higher,
    /// Smaller is better: times.
    Lower,
}

/// Unit of a metric's values. Units of imported results are converted to these.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Ops a second.
    OpsPerSecond,
    /// Bytes a second.
    BytesPerSecond,
    /// Nanoseconds.
    Nanos,
    /// Any other unit, by its name in the source; empty: a plain number.
    Other(String),
}

/// A measured quantity of a trial.
///
/// Names are words joined by dots, the op first: `iops`, `bandwidth`, `read.iops`, `write.p99`,
/// `fsync.mean`, `completion`, `cpu_per_op`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// Unit of its values.
    pub unit: Unit,
    /// Whether larger or smaller is better.
    pub better: Better,
}

impl Metric {
    /// Completion time of a fixed amount of work, including drain and final flush, ns.
    pub const COMPLETION: &'static str = "completion";
    /// Ops per second of all directions that move data.
    pub const IOPS: &'static str = "iops";
    /// Bytes per second of all directions.
    pub const BANDWIDTH: &'static str = "bandwidth";

    /// A rate in ops per second.
    pub fn iops(name: impl Into<String>) -> Metric {
        Metric {
            name: name.into(),
            unit: Unit::OpsPerSecond,
            better: Better::Higher,
        }
    }

    /// A rate in bytes per second.
    pub fn bandwidth(name: impl Into<String>) -> Metric {
        Metric {
            name: name.into(),
            unit: Unit::BytesPerSecond,
            better: Better::Higher,
        }
    }

    /// A time in ns; smaller is better.
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
    /// The metric.
    pub metric: Metric,
    /// In the metric's unit.
    pub value: f64,
    /// How it was derived from other figures; `None` if it was measured or printed itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub derived: Option<String>,
}

/// A figure that is withheld because the data do not support it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Withheld {
    /// The metric's name.
    pub metric: String,
    /// The reason, as text.
    pub why: String,
}
