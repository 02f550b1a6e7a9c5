//! The results of a workload over the runs of a store.

use serde::{Deserialize, Serialize};

use crate::named::named;

use crate::{Estimated, Fact, Metric};

/// The results of the same work on the same target and host over runs, by time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// The workload's name.
    pub workload: String,
    /// The configuration's name; empty where it may differ and no run has several.
    pub configuration: String,
    /// The host, or the hosts of a run with nodes.
    pub host: String,
    /// A hash of what was measured: the facts of the workload and of its end. 16 hexadecimal digits.
    pub identity: String,
    /// The facts of the target in which it differs from the other histories of the workload.
    #[serde(default)]
    pub target: Vec<Fact>,
    /// The metric.
    pub metric: Metric,
    /// The runs, by the start of their first trial; at least one.
    pub points: Vec<HistoryPoint>,
    /// The changes of level, in order.
    pub changes: Vec<HistoryChange>,
    /// Levels that drift, in order.
    #[serde(default)]
    pub drifts: Vec<HistoryDrift>,
    /// The newest run against the last steady runs before it.
    pub newest: NewestRun,
}

impl History {
    /// Number of runs without a change after which their level is the one to compare with.
    pub const STEADY_RUNS: usize = 5;
}

/// The trials of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryPoint {
    /// The run: `run 3`.
    pub run: String,
    /// Wall clock at the start of its first trial, ms since 1970.
    pub started_unix_ms: u64,
    /// Number of trials that count.
    pub trials: u32,
    /// The median over the trials.
    pub median: Estimated,
}

/// A change of level between two runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryChange {
    /// The index of the first run after it.
    pub point: usize,
    /// Speed after it ÷ speed before it, of the geometric means: above 1 it became faster.
    pub ratio: f64,
    /// p of the gain in likelihood over a series without a change, in which runs are correlated with the ones before.
    pub p: f64,
    /// What differs in the environment between the last run before it and the first one after it.
    pub differs: Vec<HistoryDifference>,
}

/// Runs that become slower or faster by degrees.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HistoryDrift {
    /// The index of its first run.
    pub first: usize,
    /// The index of its last run.
    pub last: usize,
    /// Speed at its end ÷ speed at its beginning, on the fitted line.
    pub ratio: f64,
    /// p of the gain in likelihood over a series without a drift.
    pub p: f64,
}

/// A fact that differs between two runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryDifference {
    /// The fact's name.
    pub name: String,
    /// Its values in the run before, separated by `; `; empty: it has none.
    pub before: String,
    /// Its values in the run after.
    pub after: String,
}

/// The newest run against the last steady runs before it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NewestRun {
    /// What it is.
    pub verdict: NewestVerdict,
    /// The steady runs: the index of the first one, and the index after the last one; empty if there are too few runs.
    pub steady: (usize, usize),
    /// Speed of the newest run ÷ geometric mean of the steady runs, with the ends between which a further steady run
    /// would lie with probability `level`; where these runs and the newest one are a drift, its ratio without ends;
    /// `None` without steady runs.
    pub expected: Option<Estimated>,
}

named! {
    /// What the newest run is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum NewestVerdict in ALL {
        /// Slower than the steady runs predict, by more than the margin.
        Regression = "REGRESSION",
        /// Faster than they predict, by more than the margin.
        Improvement = "IMPROVEMENT",
        /// As they predict, or the difference is within the margin.
        AsBefore = "AS BEFORE",
        /// There are too few steady runs.
        TooFewRuns = "TOO FEW RUNS",
    }
}
