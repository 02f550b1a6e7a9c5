//! The values and verdicts of a closing table.
//!
//! Built by `judge` and formatted by `report`; not stored, because it follows from the trials.

use serde::{Deserialize, Serialize};

use crate::{BandwidthUnit, Metric, Regret, Verdict};

/// A closing table with its values.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FilledTable {
    /// Its title, or that of the comparison.
    pub title: String,
    /// The value of the compared dimension that the others are compared with; `None`: nothing is compared.
    pub baseline: Option<String>,
    /// The dimensions of the lines.
    pub rows: Vec<String>,
    /// The dimensions of the columns.
    pub columns: Vec<String>,
    /// Headings of the columns; equal values are adjacent.
    pub heads: Vec<TableHead>,
    /// Its lines.
    pub lines: Vec<TableLine>,
    /// The unit of bandwidths.
    pub unit: BandwidthUnit,
    /// Decimal places of the values; `None`: significant digits.
    pub digits: Option<u32>,
    /// Whether the means are printed.
    pub mean: bool,
    /// The distance of each column from the best one of each cell, if requested.
    pub regret: Option<Regret>,
}

/// The headings of a column.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TableHead {
    /// A value for each dimension of the columns.
    pub values: Vec<String>,
    /// The name of the metric, if metrics are side by side.
    pub metric: Option<String>,
}

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableLine {
    /// A value for each dimension of the rows.
    pub values: Vec<String>,
    /// Whether it is a family: its figures are ratios to the baseline.
    pub family: bool,
    /// A cell for each column.
    pub cells: Vec<TableCell>,
}

/// A figure, or why there is none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TableCell {
    /// The metric; `None` without trials.
    pub metric: Option<Metric>,
    /// The median over the trials, in the metric's unit.
    pub median: Option<f64>,
    /// The arithmetic mean over the trials.
    pub mean: Option<f64>,
    /// The speed ratio of a family to its baseline.
    pub ratio: Option<f64>,
    /// Why there is no figure, in a few words: `not run`, `failed`, `no read.p99: 40 ops`.
    pub missing: Option<String>,
    /// The verdict on a candidate that has a figure; `None` if the table compares nothing.
    pub verdict: Option<Verdict>,
}
