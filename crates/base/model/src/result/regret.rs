//! How far each column of a comparison is from the best one of each cell.
//!
//! Built by `judge` and formatted by `report`; not stored, because it follows from the trials.

use serde::{Deserialize, Serialize};

use crate::{Estimated, Metric, Verdict};

/// The distance of all columns from the best one of each cell. Ratios are those of speed: 1 is the best, 0.8 is 20 %
/// below it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Regret {
    /// Its title: the name of the run.
    pub name: String,
    /// The dimension of the columns.
    pub dimension: String,
    /// Number of rounds in which all cells have all columns.
    pub rounds: u32,
    /// The margin of the question.
    pub margin: f64,
    /// The level of the intervals of `columns`.
    pub level: f64,
    /// Over all cells, in the order of the comparison.
    pub columns: Vec<ColumnRegret>,
    /// Each cell.
    pub cells: Vec<CellRegret>,
    /// What was left out, with the reason.
    pub notes: Vec<String>,
}

/// A column over all cells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ColumnRegret {
    /// Its value.
    pub column: String,
    /// The smallest of its ratios to the best; `None`: the rounds are too few for an interval.
    pub worst: Option<Estimated>,
    /// The cell in which its ratio is smallest.
    pub worst_cell: String,
    /// The geometric mean of its ratios to the best; `None`: the rounds are too few for an interval.
    pub mean: Option<Estimated>,
    /// Number of cells in which it is SLOWER than the best.
    pub slower: u32,
    /// Number of cells in which no other column is better by all rounds.
    pub best: u32,
}

/// A cell: one row of the comparison and all its columns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellRegret {
    /// Its values of the row dimensions.
    pub name: Vec<String>,
    /// Its metric.
    pub metric: Metric,
    /// The column that is best by all rounds.
    pub best: String,
    /// By column.
    pub ratios: Vec<RatioToBest>,
}

/// A column of a cell, against the column that is best by the other rounds; the ratio is at most 1, and 1 for the best
/// by all rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RatioToBest {
    /// The ratio.
    pub ratio: Estimated,
    /// p of no difference, corrected over the whole table (Westfall–Young).
    pub adjusted_p: f64,
    /// SLOWER, DIFFERENT BUT SMALL, EQUIVALENT, INCONCLUSIVE or CANNOT DECIDE.
    pub verdict: Verdict,
}
