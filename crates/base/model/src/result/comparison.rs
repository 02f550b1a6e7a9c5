//! The result of a comparison.
//!
//! Built by `judge` and formatted by `report`. Results are not stored, because they follow from the trials.

use serde::{Deserialize, Serialize};

use crate::{FactClass, Metric, Question, Regime, Search};

/// An estimate with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimated {
    /// The estimate.
    pub value: f64,
    /// Lower and upper end; `None` if the data allow no interval at this level.
    pub interval: Option<(f64, f64)>,
    /// The interval's level: 0.95.
    pub level: f64,
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// The column's value.
    pub column: String,
    /// The trials' values in the metric's unit, in the order of rounds (or as read).
    pub values: Vec<f64>,
    /// Median with its order-statistic interval; `None` without values. A family's side has none.
    pub median: Option<Estimated>,
    /// Trials that do not count, with the reason.
    pub left_out: Vec<String>,
    /// The regimes of the first trial that has several.
    pub regimes: Vec<Regime>,
    /// Flags of its trials, each once: served by a cache, capped, saturated, not steady.
    pub flags: Vec<SideFlag>,
}

/// A flag of trials of a side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SideFlag {
    /// What was found, such as "served by the page cache".
    pub words: String,
    /// The number of trials with it.
    pub trials: u32,
    /// The number of trials of the side.
    pub of: u32,
}

/// `not steady in 2 of 10 trials`, or `not steady` for all of them.
impl std::fmt::Display for SideFlag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let SideFlag { words, trials, of } = self;
        match trials == of {
            true => f.write_str(words),
            false => write!(f, "{words} in {trials} of {of} trials"),
        }
    }
}

/// A member of a family.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// The workload.
    pub workload: String,
    /// Speed ratio.
    pub ratio: f64,
}

/// A metric over repeated trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Repeated {
    /// The metric.
    pub metric: Metric,
    /// One value per trial, in the metric's unit.
    pub values: Vec<f64>,
    /// Median with its order-statistic interval.
    pub median: Estimated,
    /// Smallest and largest value.
    pub extremes: (f64, f64),
}

/// A metric over a numeric axis, for one row of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AxisCurve {
    /// The axis: a dimension with at least three numeric values.
    pub axis: String,
    /// The work and the configuration that all its points share.
    pub name: String,
    /// The metric.
    pub metric: Metric,
    /// By the value of the axis.
    pub points: Vec<AxisPoint>,
    /// The index of the point at the knee, if the curve has one.
    pub knee: Option<usize>,
}

/// The trials with one value of an axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AxisPoint {
    /// The value as a number: bytes for sizes, ns for times.
    pub value: f64,
    /// The value as the user wrote it.
    pub text: String,
    /// The median of the metric over the trials.
    pub median: Estimated,
}

/// The test used to compare two samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pairing {
    /// Paired by round: signed-rank test.
    Paired,
    /// Not paired: Mann–Whitney's U test.
    Unpaired,
    /// Separate runs, at least three a side: Welch's t test of the runs' mean logarithms.
    Runs,
}

/// The result of comparing a candidate with the baseline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum Verdict {
    /// Significantly better, and the difference is not shown to be within the margin.
    Faster,
    /// Significantly worse, and the difference is not shown to be within the margin.
    Slower,
    /// The difference is shown to be within the margin.
    Equivalent,
    /// Significantly different, and the difference is shown to be within the margin.
    DifferentButSmall,
    /// The data allow a difference as well as equivalence.
    Inconclusive {
        /// Rounds (or trials per side) that are still needed by projection; `None`: too many to estimate, or
        /// more of them alone do not decide.
        more: Option<u32>,
        /// What prevents a verdict, with the remedy: `too noisy for a margin of 3 %: …`. Empty: the spread of
        /// the trials alone.
        #[serde(default)]
        reasons: Vec<String>,
    },
    /// This number of trials cannot show any difference.
    CannotDecide {
        /// Rounds, or trials per side.
        n: u32,
        /// The smallest p that this number can give.
        smallest_p: f64,
        /// The threshold that p must fall below.
        needed_p: f64,
        /// The smallest number that can decide.
        least: u32,
    },
    /// Something other than the attribute under test may explain the result.
    NotComparable {
        /// Reasons: `not steady`, `both capped by the device`, `differing mount options`.
        reasons: Vec<String>,
    },
    /// One side has no values.
    NoData {
        /// The side, and the reason.
        why: String,
    },
}

impl Verdict {
    /// The end of the reason of [`Verdict::NoData`] where a side has no trial, not even one that does not count.
    pub const NO_TRIAL: &str = "has no trial here";

    /// [`Verdict::Inconclusive`] because of the spread of the trials alone.
    pub fn inconclusive(more: Option<u32>) -> Verdict {
        Verdict::Inconclusive {
            more,
            reasons: Vec::new(),
        }
    }
}

/// The result of comparing a candidate with the baseline in one row by one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CandidateResult {
    /// The candidate's side.
    pub side: Side,
    /// Speed ratio to the baseline: above 1 the candidate is better, whether the metric is a rate or a time.
    /// `None` unless both sides have values.
    pub ratio: Option<Estimated>,
    /// Unadjusted p value of the hypothesis of no difference.
    pub p: Option<f64>,
    /// Adjusted p: Holm over the primaries, Benjamini–Hochberg over the exploratory comparisons.
    pub adjusted_p: Option<f64>,
    /// Cliff's δ of the values: +1 if every value of the candidate is larger.
    pub cliffs_delta: Option<f64>,
    /// The test used.
    pub pairing: Pairing,
    /// Rounds, or trials or runs of the smaller side.
    pub n: u32,
    /// The margin of the question.
    pub margin: f64,
    /// The verdict.
    pub verdict: Verdict,
    /// The verdict that the numbers alone would give; it differs if the sides are not comparable, or were made in
    /// separate runs.
    pub by_numbers: Verdict,
    /// Facts in which the two sides differ, other than the axis.
    pub differs: Vec<Difference>,
    /// The workloads of a family with their ratios; empty for a single workload.
    pub members: Vec<Member>,
    /// Notes on how the verdict has to be read, printed as footnotes.
    pub notes: Vec<String>,
    /// Remarks on the figures, which change nothing about the verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// Where tails are compared at different throughput, the rate at which they can be compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equal_rate: Option<EqualRate>,
}

/// A rate that both sides of a comparison can sustain, ops per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EqualRate {
    /// For each clone of a job, in the direction of the metric.
    pub per_clone: f64,
    /// For all ops of the workload.
    pub total: f64,
}

/// A row of the comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparedRow {
    /// Its values of the row dimensions.
    pub name: Vec<String>,
    /// Whether it is a family: several workloads with one verdict, the geometric mean of their ratios. Its name then
    /// has that of the family in place of the workload's, and the rows of its workloads are exploratory.
    #[serde(default)]
    pub family: bool,
    /// Its metric.
    pub metric: Metric,
    /// Whether it is exploratory: corrected by Benjamini–Hochberg, and to be confirmed.
    pub exploratory: bool,
    /// The baseline's side.
    pub baseline: Side,
    /// One result for each other column.
    pub cells: Vec<CandidateResult>,
    /// The noise floor of this row as a fraction, from the repeated baseline or the floor rows.
    pub floor: Option<f64>,
    /// Whether no difference is expected: such a row gives the noise floor and is not a primary comparison.
    pub no_difference: bool,
}

/// A fact in which sides differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The fact.
    pub name: String,
    /// Its class.
    pub class: FactClass,
    /// Values by column: the baseline's, then the candidate's.
    pub values: (String, String),
    /// Whether it is the attribute under test.
    pub axis: bool,
}

/// Result of checking an imported table's claim against the trials beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimCheck {
    /// The claim.
    pub claim: crate::Claim,
    /// The same figures recomputed from the trials, in the format of the tool; one per side.
    pub recomputed: Vec<Option<String>>,
    /// p recomputed from the trials.
    pub p: Option<f64>,
    /// Why the claim does not follow from the trials; empty if it does.
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
    /// Its title: the name of the run, or of both runs.
    pub name: String,
    /// The question, with the baseline filled in.
    pub question: Question,
    /// The baseline, then the candidates.
    pub columns: Vec<String>,
    /// Number of rounds that count, in the row with the most.
    pub rounds: u32,
    /// Whether all rows could be paired by round.
    pub paired: bool,
    /// Number of primary comparisons, which Holm's correction uses.
    pub primaries: u32,
    /// The largest noise floor in use, as a fraction.
    pub floor: Option<f64>,
    /// Rows in the order of the plan; primaries first.
    pub rows: Vec<ComparedRow>,
    /// Names of facts that are equal on all sides.
    pub same: Vec<String>,
    /// Facts in which sides differ.
    pub differs: Vec<Difference>,
    /// Names of facts that only one of two sides has, so that they cannot be compared.
    pub unknown: Vec<String>,
    /// Results of checking the claims of imported tables.
    pub claims: Vec<ClaimCheck>,
    /// The answers of searches, whose trials are not compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub searches: Vec<SearchAnswer>,
    /// Remarks on the whole comparison.
    pub notes: Vec<String>,
}

impl Comparison {
    /// The primary cells: neither exploratory nor of the noise floor.
    pub fn primary_cells(&self) -> impl Iterator<Item = &CandidateResult> {
        let rows = self.rows.iter();
        rows.filter(|row| !row.exploratory && !row.no_difference)
            .flat_map(|row| &row.cells)
    }

    /// Whether a candidate is significantly worse in any primary cell.
    pub fn regressed(&self) -> bool {
        self.primary_cells()
            .any(|cell| cell.verdict == Verdict::Slower)
    }

    /// Whether a regression cannot be excluded: there are no primary cells, or some of them are undecided.
    pub fn inconclusive(&self) -> bool {
        let open = |cell: &CandidateResult| {
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

/// The result of a search in one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchAnswer {
    /// The configuration's name.
    pub configuration: String,
    /// The workload's name.
    pub workload: String,
    /// What was searched.
    pub search: Search,
    /// The highest load that keeps the bound in most trials, in the axis's unit; `None` if no load does. Its interval
    /// is known once the search is complete.
    pub highest: Option<Estimated>,
    /// The knee: the load with the largest ratio of rate to mean latency, with the loads beside it.
    pub knee: Option<Estimated>,
    /// Number of trials.
    pub trials: u32,
    /// Whether more trials would not change it.
    pub complete: bool,
    /// The loads that were tried, ascending.
    pub curve: Vec<SearchPoint>,
    /// Remarks.
    pub notes: Vec<String>,
}

/// The trials of a search at one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchPoint {
    /// The load.
    pub load: f64,
    /// Number of trials that kept the bound.
    pub kept: u32,
    /// Number of trials that did not.
    pub lost: u32,
    /// Median of the bounded metric, in its unit.
    pub value: Option<f64>,
    /// Median of the attained rate: of each stream for requested rates, otherwise ops per second of all.
    pub attained: Option<f64>,
}
