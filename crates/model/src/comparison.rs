//! What was asked of trials, and what they answer.
//!
//! Built by `judge`, drawn by `report`; nothing here is stored, it follows from the trials.

use serde::{Deserialize, Serialize};

use crate::{Metric, Regime};

/// What a comparison is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Question {
    /// The dimension whose values are compared: the columns.
    pub columns: String,
    /// The value that the others are compared with; `None`: the first.
    pub baseline: Option<String>,
    /// The dimensions that make the rows. Several workloads that fall into one row are a family and share
    /// one primary: the geometric mean of their ratios.
    pub rows: Vec<String>,
    /// Only trials with these (dimension, value) pairs; several values of one dimension are alternatives.
    pub only: Vec<(String, String)>,
    /// Metrics by name: the first is the primary one, the others are exploratory. Empty: each row's own.
    pub metrics: Vec<String>,
    /// Names of facts whose difference is what is studied, beside those of the columns themselves.
    pub axis: Vec<String>,
    /// (dimension, value) of rows in which no difference is expected: their ratios are the noise floor.
    pub floor: Vec<(String, String)>,
    /// The smallest difference worth having, as a share: 0.03.
    pub margin: f64,
    /// The chance of a false difference over all primaries: 0.05.
    pub alpha: f64,
}

impl Question {
    /// The margin where none is asked for.
    pub const MARGIN: f64 = 0.03;
    /// α where none is asked for.
    pub const ALPHA: f64 = 0.05;
}

impl Default for Question {
    fn default() -> Question {
        Question {
            columns: crate::Observation::CONFIGURATION.to_owned(),
            baseline: None,
            rows: vec![crate::Observation::WORKLOAD.to_owned()],
            only: Vec::new(),
            metrics: Vec::new(),
            axis: Vec::new(),
            floor: Vec::new(),
            margin: Question::MARGIN,
            alpha: Question::ALPHA,
        }
    }
}

/// An estimate with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimated {
    /// The estimate.
    pub value: f64,
    /// Lower and upper end; `None` where the data allow no interval at the level.
    pub interval: Option<(f64, f64)>,
    /// The interval's level: 0.95.
    pub level: f64,
}

/// One side of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// The column's value.
    pub column: String,
    /// The trials' values in the metric's unit, in the order of rounds (or as read).
    pub values: Vec<f64>,
    /// Median and its order-statistic interval; `None` without values. A family's side has none.
    pub median: Option<Estimated>,
    /// Trials that do not count, with the reason.
    pub left_out: Vec<String>,
    /// The regimes of its trials, where they have several: those of the first trial that has.
    pub regimes: Vec<Regime>,
    /// Flags of its trials in words, each once: served by a cache, capped, saturated, not steady.
    pub flags: Vec<String>,
}

/// A family's member.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// The workload.
    pub workload: String,
    /// Speed ratio.
    pub ratio: f64,
}

/// A metric of trials that repeat one another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Repeated {
    /// What.
    pub metric: Metric,
    /// A value a trial, in the metric's unit.
    pub values: Vec<f64>,
    /// Their median and its order-statistic interval.
    pub median: Estimated,
    /// The smallest and the largest.
    pub extremes: (f64, f64),
}

/// How two samples were compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pairing {
    /// By round: signed rank.
    Paired,
    /// Without common rounds: Mann–Whitney's U.
    Unpaired,
}

/// What a comparison comes to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum Verdict {
    /// Surely better, and not surely by less than the margin.
    Faster,
    /// Surely worse.
    Slower,
    /// Surely within the margin.
    Equivalent,
    /// Surely different, and surely within the margin.
    DifferentButSmall,
    /// The data allow both.
    Inconclusive {
        /// Rounds (or trials a side) that are still needed as things look; `None`: too many to say.
        more: Option<u32>,
    },
    /// No data of this number could show it.
    CannotDecide {
        /// Trials a side, or rounds.
        n: u32,
        /// The smallest p that so many could give.
        smallest_p: f64,
        /// What it has to fall below.
        needed_p: f64,
        /// The least number that could decide.
        least: u32,
    },
    /// Something else would explain the result.
    NotComparable {
        /// What: `not steady`, `both capped by the device`, `differing mount options`.
        reasons: Vec<String>,
    },
    /// One side has no values.
    NoData {
        /// Which, and why.
        why: String,
    },
}

/// A candidate against the baseline in one row by one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The candidate's side.
    pub side: Side,
    /// How many times as fast as the baseline: above 1 the candidate is better, whichever way the metric
    /// counts. `None` without values on both sides.
    pub ratio: Option<Estimated>,
    /// p of no difference, not adjusted.
    pub p: Option<f64>,
    /// p adjusted: Holm over the primaries, Benjamini–Hochberg over the exploratory ones.
    pub adjusted_p: Option<f64>,
    /// Cliff's δ of the values: +1 if every candidate's is larger.
    pub cliffs_delta: Option<f64>,
    /// How they were compared.
    pub pairing: Pairing,
    /// Rounds, or trials of the smaller side.
    pub n: u32,
    /// The margin in force here: the one asked for or the noise floor, whichever is larger.
    pub margin: f64,
    /// What follows.
    pub verdict: Verdict,
    /// The verdict that the numbers alone would give; differs where they are not comparable.
    pub by_numbers: Verdict,
    /// Facts in which the two sides differ, beside the axis.
    pub differs: Vec<Difference>,
    /// A family's workloads with their ratios; empty for a single workload.
    pub members: Vec<Member>,
    /// Remarks, drawn as footnotes.
    pub notes: Vec<String>,
}

/// A row of the comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparedRow {
    /// Its values of the row dimensions.
    pub name: Vec<String>,
    /// What it is compared by.
    pub metric: Metric,
    /// Not a primary: Benjamini–Hochberg, and to be confirmed.
    pub exploratory: bool,
    /// The baseline's side.
    pub baseline: Side,
    /// A cell for each other column.
    pub cells: Vec<Cell>,
    /// The noise floor of this row as a share, from the baseline made twice or the floor rows.
    pub floor: Option<f64>,
    /// No difference is expected in it: it gives the noise floor, and is no primary.
    pub no_difference: bool,
}

/// A fact in which sides differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The fact.
    pub name: String,
    /// Its values by column: the baseline's, then the candidate's.
    pub values: (String, String),
    /// It is what the comparison is about.
    pub axis: bool,
}

/// How a table's own claim stands against the trials printed beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimCheck {
    /// What was claimed.
    pub claim: crate::Claim,
    /// The same from the trials, as the tool of the time would print it; one a side.
    pub recomputed: Vec<Option<String>>,
    /// p from the trials.
    pub p: Option<f64>,
    /// Why it does not follow from the trials; empty if it does.
    pub against: Vec<String>,
    /// Why it cannot be checked; `None` if it was.
    #[serde(default)]
    pub unchecked: Option<String>,
}

impl ClaimCheck {
    /// Whether the claim follows from its trials; `None` where it cannot be checked.
    pub fn follows(&self) -> Option<bool> {
        match self.unchecked {
            Some(_) => None,
            None => Some(self.against.is_empty()),
        }
    }
}

/// The answer to a [`Question`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// What it is called: the run's name, or both runs'.
    pub name: String,
    /// What was asked, with the baseline filled in.
    pub question: Question,
    /// The baseline, then the candidates.
    pub columns: Vec<String>,
    /// Rounds that count in the row that has most.
    pub rounds: u32,
    /// Pairs by round were possible everywhere.
    pub paired: bool,
    /// Primary comparisons: what Holm adjusts over.
    pub primaries: u32,
    /// The largest noise floor in force, as a share.
    pub floor: Option<f64>,
    /// Rows in the order of the plan; primaries first.
    pub rows: Vec<ComparedRow>,
    /// Names of facts that all sides share.
    pub same: Vec<String>,
    /// Facts in which sides differ.
    pub differs: Vec<Difference>,
    /// What the claims of an imported table are worth.
    pub claims: Vec<ClaimCheck>,
    /// Remarks on the whole.
    pub notes: Vec<String>,
}

impl Comparison {
    /// The cells that the question is about: neither exploratory nor of the noise floor.
    pub fn primary_cells(&self) -> impl Iterator<Item = &Cell> {
        let rows = self.rows.iter();
        rows.filter(|row| !row.exploratory && !row.no_difference)
            .flat_map(|row| &row.cells)
    }

    /// A candidate is surely worse in what the question is about.
    pub fn regressed(&self) -> bool {
        self.primary_cells()
            .any(|cell| cell.verdict == Verdict::Slower)
    }

    /// A regression is not ruled out: what the question is about was not compared at all, or some of
    /// it not well enough to tell.
    pub fn inconclusive(&self) -> bool {
        let open = |cell: &Cell| {
            matches!(
                cell.verdict,
                Verdict::Inconclusive { .. }
                    | Verdict::CannotDecide { .. }
                    | Verdict::NotComparable { .. }
                    | Verdict::NoData { .. }
            )
        };
        self.primary_cells().next().is_none() || self.primary_cells().any(open)
    }
}
