//! The interface of a store. It has a few functions with large arguments, so that a database server can implement it.

use iodyno_model::{
    CommandRun, Environment, Frame, KnownTarget, Plan, Run, RunId, RunState, RunSummary,
    TelemetryBatch, Trial, TrialKey, VerdictCounts,
};

use crate::StoreError;

/// The names of a run: for programs and for users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunHandle {
    /// Its identity, the same in every store.
    pub id: RunId,
    /// Its short number in this store.
    pub alias: u64,
}

/// A result of a running trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Appended<'a> {
    /// A frame.
    Frame(&'a Frame),
    /// A batch of host telemetry.
    Telemetry(&'a TelemetryBatch),
}

/// Storage for results.
///
/// A run, and each trial, belongs to the process that began it, for as long as that process lives. Times are ms since
/// 1970.
pub trait Store {
    /// Stores the plan of a new run, before the run begins. Durable when it returns. A run whose trials were imported
    /// has no cells, and is ended right afterwards.
    fn begin_run(&self, plan: &Plan, started_unix_ms: u64) -> Result<RunHandle, StoreError>;

    /// Takes over a run that ended early, to run its missing trials.
    ///
    /// # Errors
    /// [`StoreError::RunIsLive`] while the process that executes it is alive.
    fn resume_run(&self, run: RunId) -> Result<RunHandle, StoreError>;

    /// Sets the number of rounds of a run that this process owns: fewer if a stop rule ended it early, more if it
    /// continues beyond the plan. The plan keeps the largest number. Durable when it returns.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] for a run that another process owns.
    fn set_rounds(&self, run: RunId, rounds: u32) -> Result<(), StoreError>;

    /// Records in the plan of a run that this process owns that a workload, by its place in the plan, has no trials
    /// after its first `rounds` rounds: a rule has stopped it. Durable when it returns.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] for a run that another process owns, or if there is no such workload.
    fn end_workload(&self, run: RunId, workload: usize, rounds: u32) -> Result<(), StoreError>;

    /// Records in the plan of a run that this process owns that its verdict was visible after `rounds` complete
    /// rounds, before its number of rounds is changed. Repeating a number changes nothing. Durable when it returns.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] for a run that another process owns.
    fn note_look(&self, run: RunId, rounds: u32) -> Result<(), StoreError>;

    /// Records that a trial begins, by the names of its configuration and workload.
    fn begin_trial(
        &self,
        key: TrialKey,
        configuration: &str,
        workload: &str,
        started_unix_ms: u64,
    ) -> Result<(), StoreError>;

    /// Stores the environment of a trial on a node, as soon as it is known. `node`: its name; empty if the plan names
    /// none.
    fn set_environment(
        &self,
        key: TrialKey,
        node: &str,
        environment: &Environment,
    ) -> Result<(), StoreError>;

    /// Stores the run's targets, as far as a trial of this process knows them. Replaces the targets stored for this
    /// trial. The data survive the end of this process once this returns. They are not exported.
    fn set_targets(&self, key: TrialKey, targets: &[KnownTarget]) -> Result<(), StoreError>;

    /// Appends results in one transaction: all of them or none. They survive the end of this process once this returns.
    fn append(&self, key: TrialKey, results: &[Appended<'_>]) -> Result<(), StoreError>;

    /// Appends a frame, as [`Store::append`] does.
    fn append_frame(&self, key: TrialKey, frame: &Frame) -> Result<(), StoreError> {
        self.append(key, &[Appended::Frame(frame)])
    }

    /// Appends a batch of host telemetry, as [`Store::append`] does.
    fn append_telemetry(&self, key: TrialKey, batch: &TelemetryBatch) -> Result<(), StoreError> {
        self.append(key, &[Appended::Telemetry(batch)])
    }

    /// Ends a trial and stores its results. Frames and telemetry in `trial` are ignored: they were appended before.
    /// Durable when it returns.
    fn finish_trial(&self, trial: &Trial) -> Result<(), StoreError>;

    /// Makes the telemetry of an ended trial smaller, which takes long if it has many nodes. If this is not called or
    /// fails, the telemetry stays as it was appended.
    fn pack_trial(&self, _key: TrialKey) {}

    /// Adds commands to those of the target of a trial that this process has ended: those that undid it on this node,
    /// or on the only one, which has no name. Does nothing if the trial has no target that was made.
    ///
    /// # Errors
    /// [`StoreError::NoSuchTrial`] if it did not begin.
    fn add_commands(
        &self,
        key: TrialKey,
        node: &str,
        commands: &[CommandRun],
    ) -> Result<(), StoreError>;

    /// Ends a run. Durable when it returns.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] for [`RunState::Running`].
    fn finish_run(&self, run: RunId, state: RunState, ended_unix_ms: u64)
    -> Result<(), StoreError>;

    /// Stores the verdicts of a run that this process owns, for lists of runs. Resuming the run removes them.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] for a run that another process owns.
    fn set_verdicts(&self, run: RunId, verdicts: &VerdictCounts) -> Result<(), StoreError>;

    /// Lists runs, newest first: at most `limit`, after skipping `offset`.
    fn runs(&self, limit: usize, offset: usize) -> Result<Vec<RunSummary>, StoreError>;

    /// Finds a run by a name: its alias (`3`), `last`, `last~1`, its identity or a unique prefix of it, or the plan's
    /// name if only one run has it.
    ///
    /// # Errors
    /// [`StoreError::NoSuchRun`] and [`StoreError::Ambiguous`] say what exists instead.
    fn find(&self, name: &str) -> Result<RunId, StoreError>;

    /// Reads a run without results.
    fn run(&self, run: RunId) -> Result<Run, StoreError>;

    /// The run's targets, as stored by its latest trial; empty if no trial stored any.
    fn targets(&self, run: RunId) -> Result<Vec<KnownTarget>, StoreError>;

    /// Reads a trial without frames and telemetry. An interrupted trial has a part rebuilt from its frames, and the
    /// reason; a running trial is returned as if it were interrupted now.
    fn trial(&self, key: TrialKey) -> Result<Trial, StoreError>;

    /// Reads at most `limit` frames of a trial, by number, beginning with number `from`.
    fn frames(&self, key: TrialKey, from: u32, limit: usize) -> Result<Vec<Frame>, StoreError>;

    /// Reads at most `limit` batches of a trial's telemetry, by number, beginning with number `from`, each as it was
    /// appended. A trial run by a version without telemetry has none.
    fn telemetry(
        &self,
        key: TrialKey,
        from: u32,
        limit: usize,
    ) -> Result<Vec<TelemetryBatch>, StoreError>;
}
