//! What every store can do. Small and batch-shaped, so that a database server fits behind it.

use iodyno_model::{
    Environment, Frame, Plan, RunId, RunState, RunSummary, TelemetryBatch, Trial, TrialKey,
    TrialSummary,
};

use crate::StoreError;

/// A run as its maker and its user name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunHandle {
    /// Its identity in every store.
    pub id: RunId,
    /// Its short number in this store.
    pub alias: u64,
}

/// A stored run: what was to be done, and which trials there are. Figures come a trial at a time
/// from [`Store::trial`], series a batch at a time from [`Store::frames`] and [`Store::telemetry`].
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// How far it has come.
    pub summary: RunSummary,
    /// What was to be done.
    pub plan: Plan,
    /// Its trials by round, cell and attempt.
    pub trials: Vec<TrialSummary>,
}

/// A place where results are kept.
///
/// A run, and each trial, belongs to the process that began it, for as long as that process lives.
/// Times are ms since 1970.
pub trait Store {
    /// Stores the plan of a new run before anything of it is done. Durable when it returns. A run
    /// whose trials were imported has no cells, and is ended right afterwards.
    fn begin_run(&self, plan: &Plan, started_unix_ms: u64) -> Result<RunHandle, StoreError>;

    /// Takes a run over that ended early, to make the trials that it lacks.
    ///
    /// # Errors
    /// [`StoreError::RunIsLive`] while the process that carries it out lives.
    fn resume_run(&self, run: RunId) -> Result<RunHandle, StoreError>;

    /// Sets how many rounds a run of this process's has: so many as were made, where a rule to stop
    /// ended it, or more, where it goes on beyond what was planned. The plan keeps the largest number
    /// that it ever had. Durable when it returns.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] for a run of another process's.
    fn set_rounds(&self, run: RunId, rounds: u32) -> Result<(), StoreError>;

    /// Notes that a trial begins, by the names of its configuration and workload.
    fn begin_trial(
        &self,
        key: TrialKey,
        configuration: &str,
        workload: &str,
        started_unix_ms: u64,
    ) -> Result<(), StoreError>;

    /// Stores what the trial runs on, as soon as that is known.
    fn set_environment(&self, key: TrialKey, environment: &Environment) -> Result<(), StoreError>;

    /// Appends a frame. It outlives this process from the moment this returns.
    fn append_frame(&self, key: TrialKey, frame: &Frame) -> Result<(), StoreError>;

    /// Appends a batch of what the host did. It outlives this process from the moment this returns.
    fn append_telemetry(&self, key: TrialKey, batch: &TelemetryBatch) -> Result<(), StoreError>;

    /// Ends a trial with everything measured. Frames and telemetry in `trial` are not looked at: they
    /// were appended as they came. Durable when it returns.
    fn finish_trial(&self, trial: &Trial) -> Result<(), StoreError>;

    /// Ends a run. Durable when it returns.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] for [`RunState::Running`].
    fn finish_run(&self, run: RunId, state: RunState, ended_unix_ms: u64)
    -> Result<(), StoreError>;

    /// Runs, newest first: at most `limit`, after leaving out `offset`.
    fn runs(&self, limit: usize, offset: usize) -> Result<Vec<RunSummary>, StoreError>;

    /// The run of a name: its alias (`3`), `last`, `last~1`, its identity or a unique beginning of
    /// it, or the plan's name if one run alone has it.
    ///
    /// # Errors
    /// [`StoreError::NoSuchRun`] and [`StoreError::Ambiguous`] tell what there is instead.
    fn find(&self, name: &str) -> Result<RunId, StoreError>;

    /// A run without figures.
    fn run(&self, run: RunId) -> Result<Run, StoreError>;

    /// A trial without frames and telemetry. One that was cut off has a part rebuilt from its frames and says
    /// why; one that still runs is given as if it were cut off now.
    fn trial(&self, key: TrialKey) -> Result<Trial, StoreError>;

    /// At most `limit` frames of a trial by number, from number `from` on.
    fn frames(&self, key: TrialKey, from: u32, limit: usize) -> Result<Vec<Frame>, StoreError>;

    /// At most `limit` batches of a trial's telemetry by number, from number `from` on, each as it was
    /// appended. There are none of a trial made by an iodyno that took no samples.
    fn telemetry(
        &self,
        key: TrialKey,
        from: u32,
        limit: usize,
    ) -> Result<Vec<TelemetryBatch>, StoreError>;
}
