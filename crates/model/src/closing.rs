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

/// A comparison in the layout of a published table.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClosingTable {
    /// Its title; empty: that of the comparison.
    pub title: String,
    /// Dimensions that define the rows; empty: those of the run's question.
    pub rows: Vec<String>,
    /// The compared dimension, then the dimensions that are printed below each of its values; empty: as the question.
    pub columns: Vec<String>,
    /// Names of metrics: the first decides, the others are exploratory; empty: those of the question.
    pub metrics: Vec<String>,
    /// The unit of bandwidths.
    pub unit: BandwidthUnit,
    /// Decimal places of the values; `None`: significant digits.
    pub digits: Option<u32>,
}
