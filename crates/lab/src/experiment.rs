//! A run from its plan to its end: what it needs, and what it comes to.

use iodyno_model::{Plan, RunState, StackLayer, TrialState};
use iodyno_runner::{Node, StopFlag};
use iodyno_store::{RunHandle, Store, StoreError};

use crate::rounds::{Dependencies, Rounds};
use crate::{Progress, unix_ms};

/// What an experiment is carried out with.
pub struct Lab<'a> {
    /// Where results go.
    pub store: &'a dyn Store,
    /// What lies below the store's file, top first; empty if that is not known.
    pub store_stack: Vec<StackLayer>,
    /// Who makes the I/O.
    pub node: &'a dyn Node,
    /// Ends the run early.
    pub stop: &'a StopFlag,
}

/// Why a run made no further trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// Every round was made.
    AllRounds,
    /// The intervals of all primaries are as narrow as was asked.
    Width,
    /// A further round would have ended beyond the time allowed.
    MaxTime,
    /// The user cancelled it.
    Cancelled,
    /// A target was refused before there was anything that it could have been compared with.
    Refused,
    /// The node could not be started before anything was measured.
    NoNode,
    /// Every cell has been given up.
    NothingLeft,
}

/// How a run came out.
#[derive(Debug)]
pub struct RunEnd {
    /// Its names.
    pub handle: RunHandle,
    /// Its state, as stored.
    pub state: RunState,
    /// Why it ended.
    pub stopped: StopReason,
    /// Rounds that are whole.
    pub rounds: u32,
    /// Trials that were made, of those planned; of a resumed run, all that ever were.
    pub made: u32,
    /// Trials that completed, of those made.
    pub completed: u32,
    /// Trials that were not made because their cell had been given up.
    pub given_up: u32,
    /// Cells × rounds.
    pub planned: u32,
    /// The store does not hold everything that was measured; the last reason.
    pub unstored: Option<StoreError>,
}

impl RunEnd {
    /// Of a run with nothing made yet.
    pub(crate) fn new(handle: RunHandle, plan: &Plan) -> RunEnd {
        RunEnd {
            handle,
            state: RunState::Completed,
            stopped: StopReason::AllRounds,
            rounds: 0,
            made: 0,
            completed: 0,
            given_up: 0,
            planned: plan.cells().saturating_mul(plan.rounds),
            unstored: None,
        }
    }

    /// Counts a trial: a run is as good as its worst one.
    pub(crate) fn count(&mut self, trial: TrialState) {
        self.made += 1;
        match trial {
            TrialState::Completed => self.completed += 1,
            _ => self.state = RunState::Failed,
        }
    }
}

/// Carries out every trial of a plan, round by round.
///
/// - A trial that fails is recorded and the next one is made. A cell whose trials have failed in three
///   rounds running, and never completed, is given up: its further trials are stored as failed
///   without being made. One that has completed before is tried in every round.
/// - A trial whose target is no longer what its cell's earlier trials ran on (a file system that was
///   unmounted, a device that was replaced) has failed without being made: nothing is laid out there.
///   One that only finds so when it is made has failed, too, and keeps its figures.
/// - A target that is refused is recorded likewise. It ends the run only in the first round, where
///   nothing has completed yet or fewer than two cells would be left to compare. A node that cannot
///   be started ends it where nothing has completed yet.
/// - [`iodyno_model::Stopping`] ends it after a whole round: by the width of the intervals, never by
///   p; or where the next round would, if it took as long as the longest so far, end beyond the time allowed
///   since this call. The first round is always begun, and a round begun is finished. The run is then complete, and
///   the store's number of rounds is lowered to those made; its plan keeps the number asked for.
/// - The user's cancellation ends it at once.
///
/// # Errors
/// Where the run cannot be stored before it begins; nothing was done then.
pub fn carry_out(
    plan: &Plan,
    lab: &Lab<'_>,
    observer: &mut dyn FnMut(Progress<'_>),
) -> Result<RunEnd, StoreError> {
    carry_out_with(plan, lab, &Dependencies::here(), observer)
}

/// [`carry_out`] with other means to judge and to tell the time.
pub(crate) fn carry_out_with(
    plan: &Plan,
    lab: &Lab<'_>,
    dependencies: &Dependencies<'_>,
    observer: &mut dyn FnMut(Progress<'_>),
) -> Result<RunEnd, StoreError> {
    let handle = lab.store.begin_run(plan, unix_ms())?;
    tracing::info!(run = handle.alias, id = %handle.id, cells = plan.cells(), rounds = plan.rounds, "stored the plan");
    observer(Progress::Begun(handle));
    Ok(Rounds::new(lab, plan, dependencies, handle).carry_out(observer))
}

#[cfg(test)]
mod tests;
