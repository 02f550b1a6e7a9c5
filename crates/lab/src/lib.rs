//! Carries out an experiment: round after round each cell of a plan, on a node, into a store.
//!
//! What must stay true: a run is stored before its first trial begins, a trial before anything of it
//! happens, and each second of it and of what its host did as it comes; a store that fails on the way costs the run nothing;
//! a trial that fails is an outcome and does not stop the others; a run that was cut off goes on in
//! the order it would have had. Nothing here prints, and nothing asks the host: whoever calls is told of
//! everything, and what the host is to do the node does.

mod downsampler;
mod experiment;
mod interim;
mod place;
mod progress;
mod resume;
mod rounds;
mod schedule;
mod settle;
mod stop;
mod store_place;
#[cfg(test)]
mod testing;
mod trial_run;
mod writer;

use std::time::{SystemTime, UNIX_EPOCH};

pub use experiment::{Lab, RunEnd, StopReason, carry_out};
pub use iodyno_runner::Unsettled;
pub use progress::{Ended, Progress};
pub use resume::{ResumeError, resume};
pub use schedule::with_again;

fn unix_ms() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
