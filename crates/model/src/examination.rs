//! What an examination of the host found: is it fit to measure on?

use serde::{Deserialize, Serialize};

use crate::SeriesUnit;

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    /// As it should be.
    Fine,
    /// The host does not tell.
    Unknown,
    /// Worth knowing; results are sound all the same.
    Note,
    /// Results would be worse for it: the host is not fit.
    Unfit,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Of what, in a word or two: `governor`, `write cache of vda`.
    pub name: String,
    /// How it came out.
    pub state: CheckState,
    /// What was found, with its figures.
    pub found: String,
    /// The threshold or rule that it was held against, in words.
    pub rule: String,
    /// What to do, where something can be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// A column of figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FigureColumn {
    /// Its name, as the field knows it: `r/s`, `r_await`, `%util`.
    pub name: String,
    /// What its values are counted in.
    pub unit: SeriesUnit,
}

/// Figures of one subject in one stretch of time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FigureRow {
    /// End of the stretch on the trial's clock, ns.
    pub at_ns: i64,
    /// Its length, ns.
    pub span_ns: u64,
    /// What they are of; empty: the host.
    pub subject: String,
    /// A value a column; `None`: not known, or nothing to divide by.
    pub values: Vec<Option<f64>>,
}

/// The figures that follow from a series: rates, shares, means.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FigureTable {
    /// Of which series.
    pub kind: crate::SeriesKind,
    /// Columns.
    pub columns: Vec<FigureColumn>,
    /// Rows by time, then in the order of the series' subjects.
    pub rows: Vec<FigureRow>,
    /// Changes of shape and gaps: when, ns on the trial's clock, and what, in words; in the order of time.
    pub remarks: Vec<(i64, String)>,
}
