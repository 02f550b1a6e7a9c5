//! The table that closes an experiment.

use serde::{Deserialize, Serialize};

/// The unit of bandwidths in tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BandwidthUnit {
    /// KiB/s, MiB/s or GiB/s, as the size requires.
    #[default]
    Scaled,
    /// MB/s: 10⁶ bytes per second.
    Decimal,
    /// MiB/s: 2²⁰ bytes per second.
    Binary,
}

/// The layout of the table that closes an experiment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClosingTable {
    /// Its title; empty: that of the comparison.
    pub title: String,
    /// Dimensions of the rows; empty: those of the run's question.
    pub rows: Vec<String>,
    /// Dimensions of the columns, the outermost first; empty: the compared dimension.
    pub columns: Vec<String>,
    /// Names of metrics, side by side; empty: those of the question.
    pub metrics: Vec<String>,
    /// The unit of bandwidths.
    pub unit: BandwidthUnit,
    /// Decimal places of the values; `None`: significant digits.
    pub digits: Option<u32>,
    /// Whether the arithmetic mean over the trials follows each median.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub mean: bool,
    /// Whether the distance of each column from the best one of each cell follows it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub regret: bool,
}

impl ClosingTable {
    /// Whether it has rows or columns of this dimension.
    pub fn has_dimension(&self, name: &str) -> bool {
        self.rows.iter().chain(&self.columns).any(|it| it == name)
    }
}
