//! Results of checking whether a host is fit for measurements, and tables of figures.

use serde::{Deserialize, Serialize};

use crate::SeriesUnit;

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    /// Passed.
    Fine,
    /// Unknown: the host does not report it.
    Unknown,
    /// A note; results are still valid.
    Note,
    /// The host is unfit: results would be affected.
    Unfit,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Subject in a word or two: `governor`, `write cache of vda`.
    pub name: String,
    /// Result.
    pub state: CheckState,
    /// The observed state, with figures.
    pub found: String,
    /// The threshold or rule, as text.
    pub rule: String,
    /// The remedy, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// A column of figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FigureColumn {
    /// Its name, as in common tools: `r/s`, `r_await`, `%util`.
    pub name: String,
    /// Unit of its values.
    pub unit: SeriesUnit,
}

/// Figures of one subject over one period.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FigureRow {
    /// End of the period on the trial's clock, ns.
    pub at_ns: i64,
    /// Length of the period, ns.
    pub span_ns: u64,
    /// The subject; empty: the host.
    pub subject: String,
    /// One value per column; `None`: unknown, or a quotient with a denominator of 0.
    pub values: Vec<Option<f64>>,
}

/// Figures derived from a series: rates, shares, means.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FigureTable {
    /// The series.
    pub kind: crate::SeriesKind,
    /// Columns.
    pub columns: Vec<FigureColumn>,
    /// Rows by time, then in the order of the series' subjects.
    pub rows: Vec<FigureRow>,
    /// Changes of shape and gaps in order of time: ns on the trial's clock, and a description.
    pub remarks: Vec<(i64, String)>,
}
