//! Operation streams, the driver, pacing and the recorder.
//!
//! A worker is one thread that runs one clone of one job: [`run`]. An [`OpStream`](stream::OpStream), which is pure and
//! has no clock, decides which op is issued and when. An [`iodyno_sys::Backend`] passes ops to the kernel. Results are
//! recorded in [`counters`], which other threads read without delaying the worker. The engine does not depend on
//! reports, stores or job files.

mod checks;
mod commands;
mod content;
pub mod counters;
mod depth_search;
mod driven_clone;
mod driver;
mod error_counts;
mod flow;
mod in_flight;
mod lifecycle;
mod log;
mod minimum_rates;
pub mod operations;
mod outcome;
mod pauses;
mod placement;
mod prepare;
mod priorities;
mod shared;
mod shared_files;
mod shared_zones;
pub mod shell;
mod spec;
pub mod stream;
mod support;
#[cfg(test)]
mod testing;
pub mod trace;
mod verify;
mod verify_reads;

use std::sync::Arc;

use iodyno_model::Work;

pub use flow::SharedFlow;
pub use in_flight::{OpInFlight, OpsInFlight};
pub use iodyno_sim::{SharedDevice, SimObserver};
pub use iodyno_sys::vhost_user::Service;
pub use iodyno_sys::{Clock, VirtualClock};
pub use log::{OpLog, OpRecord};
pub use outcome::{CloneOutcome, StepSpan, WorkerError, WrittenBlocks};
pub use pauses::Pauses;
pub use shared::{CloneShared, Gate};
pub use shared_files::{SharedFilesPart, SharedFilesState, TRAILER, seal};
pub use shared_zones::shared_zones;
pub use spec::{
    BlocksPart, ClonePart, CloneSpec, JobFile, OutputFiles, RecordedBlocks, RecordedUnit,
    RecordedWriter, ReplayPart, Simulated,
};
pub use support::unusable;
pub use verify::verified_unit;

/// Runs one clone to its end: prepares its backend and buffers, arrives at the gate, waits for its start instant, and
/// runs the job's steps (ramp, measure, drain, end fsync, verify pass). The loop in [`operations`] runs jobs of file
/// operations.
///
/// Call it on the clone's own thread.
///
/// # Errors
/// It could not be prepared; no op was issued.
pub fn run(spec: CloneSpec, shared: &CloneShared) -> Result<CloneOutcome, WorkerError> {
    let job = Arc::clone(&spec.job);
    let outcome = match &job.work {
        Work::Blocks(blocks) => prepare::blocks(spec, blocks, shared),
        Work::FileOperations(operations) => operations::run(spec, operations, shared),
        Work::SharedFiles(rule) => prepare::shared_files(spec, rule, shared),
    };
    if outcome.is_err() {
        shared.gate.arrive(false);
    }
    outcome
}
