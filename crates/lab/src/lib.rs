//! Carries out an experiment: in each round every cell of a plan once, on a node, with the results in a store.
//!
//! What must stay true: a run is stored before its first trial begins, a trial before anything of it happens, and each second
//! of frames and telemetry as it arrives. A store that fails during the run costs no results. A trial that fails is
//! an outcome and does not stop the others. A run that was interrupted continues in the same order. Nothing here prints or
//! asks the host: the caller gets every event, and the node does what concerns the host.

mod downsampler;
mod experiment;
mod interim;
mod permission;
mod place;
mod progress;
mod resume;
mod rounds;
mod schedule;
mod settle;
mod stop;
mod store_place;
mod targets;
#[cfg(test)]
mod testing;
mod trial_run;
mod writer;

use std::time::{SystemTime, UNIX_EPOCH};

pub use experiment::{Lab, RunEnd, StopReason, carry_out};
pub use iodyno_runner::Unsettled;
pub use permission::{NamedTarget, Permission};
pub use progress::{Ended, Progress};
pub use resume::{ResumeError, resume};
pub use schedule::with_again;

fn unix_ms() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
