//! What a worker is given, and what it gives back.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use iodyno_model::{CpuUse, DepthUse, EndedBy, EngineUsed, ErrorCount, Job, Step, VerifyResult};
use iodyno_sys::VirtualClock;

use crate::flow::SharedFlow;
use crate::log::OpLog;
use crate::operations::OperationsPart;
use crate::shared_files::SharedFilesPart;

/// A file or device of one clone, open and admitted.
#[derive(Debug)]
pub struct JobFile {
    /// Its descriptor, opened with the flags that the job asks for. `None` for engines without files.
    pub descriptor: Option<OwnedFd>,
    /// For messages.
    pub name: String,
    /// Bytes from the file's start to the region.
    pub base: u64,
    /// Bytes of the region.
    pub length: u64,
    /// A block device: trims are discards.
    pub device: bool,
}

/// One clone, with everything bound.
#[derive(Debug)]
pub struct CloneSpec {
    /// The job.
    pub job: Arc<Job>,
    /// Index of the job in the workload.
    pub job_index: u32,
    /// Number of the clone, from 0.
    pub clone: u32,
    /// Its files, at least one.
    pub files: Vec<JobFile>,
    /// What is issued follows from it.
    pub seed: u64,
    /// The simulated device it works on; `Some` where the job's engine is one.
    pub simulated: Option<Simulated>,
    /// Bytes after which the job ends unless time-based: size (or io_size) × loops.
    pub byte_budget: u64,
    /// Where each op's latency is logged, if it is.
    pub log: Option<Arc<OpLog>>,
    /// What it shares with the other clones of its job's flow, if it has one.
    pub flow: Option<Arc<SharedFlow>>,
    /// The folder that bad blocks are written to (`verify.dump`).
    pub dumps: PathBuf,
    /// Where and with whom it does file operations; `Some` where the job has any.
    pub operations: Option<OperationsPart>,
    /// What it shares with the other clones of its job; `Some` where the job has `shared_files`.
    pub shared_files: Option<SharedFilesPart>,
}

/// What a simulated device needs to know beside its options.
#[derive(Debug, Clone)]
pub struct Simulated {
    /// Its service times follow from it.
    pub seed: u64,
    /// The virtual time that the clone runs in; `None`: real time.
    pub clock: Option<VirtualClock>,
}

/// A worker that could not begin, or whose backend broke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerError {
    /// What could not be done: `create a 64-entry io_uring`.
    pub what: String,
    /// The system's word for it.
    pub cause: String,
    /// What to do.
    pub hint: Option<String>,
}

/// A step a worker went through. Instants are the engine clock's, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepSpan {
    /// Which.
    pub step: Step,
    /// From.
    pub start: u64,
    /// To.
    pub end: u64,
}

/// What a worker knows at its end; latencies and bytes are in its cells.
#[derive(Debug, Clone)]
pub struct CloneOutcome {
    /// What ended it.
    pub ended: EndedBy,
    /// A backend that broke on the way, or a reason to stop that is no op's error (a least rate).
    pub broken: Option<WorkerError>,
    /// Start and end of the measured time; equal if there was none.
    pub measured: (u64, u64),
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
    /// The backend.
    pub engine: EngineUsed,
    /// p50 and p99 of the time within which a completion may have gone unseen, ns.
    pub stamp_window: (u64, u64),
}
