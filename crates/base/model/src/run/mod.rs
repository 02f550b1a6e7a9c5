//! A stored run, and what lists show of it.

mod forecast;
mod key;
mod stop;

pub use forecast::{Admission, Forecast, TargetUse};
pub use key::{RunId, TrialKey};
pub use stop::StopRequest;

use serde::{Deserialize, Serialize};

use crate::named::named;

use crate::{Direction, Plan, TrialState, VerdictCounts};

named! {
    /// State of a run.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum RunState in ALL {
        /// A process is executing it.
        Running = "running",
        /// All trials, or as many rounds as the stop rule required, are complete.
        Completed = "completed",
        /// Ended early, by the user or because its process died; it can be resumed.
        Interrupted = "interrupted",
        /// Some trial failed, or was refused after others had run; the remaining trials were run.
        Failed = "failed",
        /// The target was refused; nothing was changed.
        Refused = "refused",
    }
}

/// Results of a trial in one direction in its measured time, all jobs together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectionTotal {
    /// The direction.
    pub direction: Direction,
    /// Ops completed, without failed ones.
    pub ops: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Start of the first job measured in this direction, on the trial's clock, ns.
    pub start_ns: u64,
    /// End of the last one, ns.
    pub end_ns: u64,
}

impl DirectionTotal {
    /// Ops a second; 0 without time.
    pub fn iops(&self) -> f64 {
        self.per_second(self.ops)
    }

    /// Bytes a second; 0 without time.
    pub fn bytes_per_s(&self) -> f64 {
        self.per_second(self.bytes)
    }

    fn per_second(&self, count: u64) -> f64 {
        match self.end_ns.saturating_sub(self.start_ns) {
            0 => 0.0,
            span => count as f64 * 1e9 / span as f64,
        }
    }
}

/// A trial in a list, without its figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialSummary {
    /// Its identity.
    pub key: TrialKey,
    /// The configuration's name.
    pub configuration: String,
    /// The workload's name.
    pub workload: String,
    /// Wall clock at its start, ms since 1970.
    pub started_unix_ms: u64,
    /// Its state.
    pub state: TrialState,
    /// Why it was interrupted, failed or refused.
    pub reason: Option<String>,
    /// Host name; `None` before its environment is known.
    pub host: Option<String>,
    /// Number of stored frames.
    pub frames: u32,
    /// Results; directions with any op or time, in table order.
    pub totals: Vec<DirectionTotal>,
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// Its short number in this store.
    pub alias: u64,
    /// Its identity in every store.
    pub id: RunId,
    /// The plan's name; not unique.
    pub name: String,
    /// Its state.
    pub state: RunState,
    /// Wall clock at its start, ms since 1970.
    pub started_unix_ms: u64,
    /// From its start to its (last) end, or to the last frame where its process died, ms; `None`
    /// while it runs.
    pub duration_ms: Option<u64>,
    /// Configurations × workloads.
    pub cells: u32,
    /// Number of rounds.
    pub rounds: u32,
    /// Cells × rounds.
    pub trials_planned: u64,
    /// Number of completed trials.
    pub trials_completed: u64,
    /// Number of imported trials; 0 for a run of iodyno's own.
    #[serde(default)]
    pub imported: u64,
    /// Host of the latest trial; `None` before any environment is known.
    pub host: Option<String>,
    /// Results of the trial, if only one was planned (its latest attempt); empty otherwise.
    pub totals: Vec<DirectionTotal>,
    /// The verdicts of its comparison when it ended; `None` if it compared nothing, or ended in an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdicts: Option<VerdictCounts>,
    /// Why its record in the store cannot be read. Then only the alias, and the identity and name where they can be
    /// read, are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damaged: Option<String>,
}

/// A stored run: its plan and its list of trials, without their results.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Its state.
    pub summary: RunSummary,
    /// Its plan.
    pub plan: Plan,
    /// The run, or a trial of it, was imported: its plan does not come from this store.
    pub foreign: bool,
    /// Its trials by round, cell and attempt.
    pub trials: Vec<TrialSummary>,
}

impl Run {
    /// Its name in a comparison of runs.
    pub fn name(&self) -> String {
        format!("run {}", self.summary.alias)
    }
}
