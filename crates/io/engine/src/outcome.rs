//! The results of a worker.

use std::fmt::Display;

use iodyno_model::{
    CommandResult, CpuUse, DepthUse, DirectionResult, EndedBy, EngineUsed, ErrorCount, MissedOps,
    Step, VerifyResult,
};
use iodyno_sys::BackendError;

/// The reason why a worker could not begin or continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerError {
    /// The failed action: `create a 64-entry io_uring`.
    pub what: String,
    /// The system's error.
    pub cause: String,
    /// The remedy.
    pub hint: Option<String>,
}

impl WorkerError {
    /// An error without a remedy.
    pub fn new(what: impl Into<String>, cause: impl Display) -> WorkerError {
        WorkerError {
            what: what.into(),
            cause: cause.to_string(),
            hint: None,
        }
    }

    /// The same with this remedy.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> WorkerError {
        WorkerError {
            hint: Some(hint.into()),
            ..self
        }
    }
}

impl From<BackendError> for WorkerError {
    fn from(error: BackendError) -> WorkerError {
        WorkerError {
            hint: error.hint.map(str::to_owned),
            ..WorkerError::new(error.what, error.source)
        }
    }
}

/// A completed step of a worker. Instants are those of the engine clock, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepSpan {
    /// The step.
    pub step: Step,
    /// Its start.
    pub start: u64,
    /// Its end.
    pub end: u64,
}

/// The result of a worker. Latencies and bytes are in its counters.
#[derive(Debug, Clone)]
pub struct CloneOutcome {
    /// Why it ended.
    pub ended: EndedBy,
    /// An error that is not an op's error: the backend failed, or a minimum rate was not reached.
    pub broken: Option<WorkerError>,
    /// Start and end of the measured time; equal if there was none.
    pub measured: (u64, u64),
    /// Ops that were due by the end of its runtime and not issued.
    pub missed: Vec<MissedOps>,
    /// Steps.
    pub steps: Vec<StepSpan>,
    /// CPU over the measured time.
    pub cpu: CpuUse,
    /// Depths over the measured time.
    pub depth: DepthUse,
    /// Failed ops.
    pub errors: Vec<ErrorCount>,
    /// Verification.
    pub verify: Option<VerifyResult>,
    /// Reads that only verify the clone's own writes; `None` if there were none.
    pub verify_reads: Option<DirectionResult>,
    /// Ops did not end after they were cancelled: the storage is stuck.
    pub stuck: bool,
    /// The last write to each unit; `None` if blocks have no headers, or if it is unknown.
    pub written: Option<WrittenBlocks>,
    /// The executions of its command, if it has one.
    pub command: Option<CommandResult>,
    /// The backend.
    pub engine: EngineUsed,
    /// p50 and p99 of the maximum delay between a completion and its detection, ns.
    pub stamp_window: (u64, u64),
}

/// The last write of a clone to each unit of its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenBlocks {
    /// Bytes of a unit.
    pub unit: u64,
    /// For each file, in the clone's order: the sequence number of each unit's last write; 0 if there was none or the
    /// unit was trimmed, [`WrittenBlocks::FAILED`] if the write failed.
    pub sequences: Vec<Vec<u32>>,
}

impl WrittenBlocks {
    /// Replaces the sequence number of a failed write: the content of the unit is unknown.
    pub const FAILED: u32 = u32::MAX;
}
