//! The result of a run.

use iodyno_model::{Plan, RunState, TrialState};
use iodyno_store::{RunHandle, StoreError};

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// All rounds are done.
    AllRounds,
    /// The confidence intervals of all primary metrics are as narrow as requested.
    Width,
    /// Each workload ended before the last round, by its own rule: its search has its answer, for example.
    Workloads,
    /// Another round would exceed the time limit.
    MaxTime,
    /// The user stopped it.
    Cancelled,
    /// A target was refused before there was a result to compare.
    Refused,
    /// The node could not be started before the first result.
    NoNode,
    /// All cells were given up.
    NothingLeft,
    /// Cells were given up, and fewer than two comparable ones remain.
    NothingToCompare,
}

/// The result of a run.
#[derive(Debug)]
pub struct RunEnd {
    /// Its id and number.
    pub handle: RunHandle,
    /// Its state, as stored.
    pub state: RunState,
    /// Why it ended.
    pub stopped: StopReason,
    /// Number of complete rounds.
    pub rounds: u32,
    /// Trials done, including those of earlier sessions of a resumed run.
    pub made: u32,
    /// Trials that completed, of those done.
    pub completed: u32,
    /// Trials skipped because their cell was given up.
    pub given_up: u32,
    /// Number of trials of the plan.
    pub planned: u32,
    /// Why the store does not contain all results; the last error.
    pub unstored: Option<StoreError>,
}

impl RunEnd {
    /// A run without any trial.
    pub(crate) fn new(handle: RunHandle, plan: &Plan) -> RunEnd {
        RunEnd {
            handle,
            state: RunState::Completed,
            stopped: StopReason::AllRounds,
            rounds: 0,
            made: 0,
            completed: 0,
            given_up: 0,
            planned: u32::try_from(plan.trials(plan.rounds)).unwrap_or(u32::MAX),
            unstored: None,
        }
    }

    /// Counts a trial. If it did not complete, the run has failed.
    pub(crate) fn count(&mut self, trial: TrialState) {
        self.made += 1;
        match trial {
            TrialState::Completed => self.completed += 1,
            _ => self.state = RunState::Failed,
        }
    }
}
