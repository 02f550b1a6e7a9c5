//! Runs an experiment: each round runs every cell of a plan once, on a node, and stores the results.
//!
//! Invariants: a run is stored before its first trial begins, a trial before it does anything, and each second of
//! frames and telemetry when it arrives. A failing store does not lose results during the run. A trial that fails is
//! an outcome and does not stop the others. An interrupted run continues in the same order. This crate does not print
//! or access the host: the caller receives every event, and the node does all that concerns the host.

mod acts;
mod downsampler;
mod end;
mod experiment;
mod interim;
mod made;
mod nodes;
mod origin;
mod outcome;
mod permission;
mod place;
mod precondition;
mod probe;
mod progress;
mod ready;
mod resume;
mod rounds;
mod schedule;
mod settle;
mod stop;
mod store_place;
mod target_event;
mod targets;
#[cfg(test)]
mod testing;
mod trial_run;
mod writer;

use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

pub use acts::{Act, ActKind};
pub use end::{RunEnd, StopReason};
pub use experiment::{carry_out, forecast, shortages, untraceable};
pub use iodyno_runner::Unsettled;
pub use made::{fresh, obstacles, turns};
pub use nodes::{Lab, LabNode};
pub use origin::fingerprint;
pub use permission::{NamedTarget, Permission};
pub use probe::{PROBE, Probed, probe};
pub use progress::{Ended, Progress};
pub use resume::{NotAllowed, Remaining, ResumeError, remaining, resume};
pub use schedule::{order, with_again, with_searches};

/// Wall clock, ms since 1970. It is read once: durations between two such instants do not change if the clock is set
/// during a run.
fn unix_ms() -> u64 {
    static FIRST: OnceLock<(SystemTime, Instant)> = OnceLock::new();
    let (wall, begun) = FIRST.get_or_init(|| (SystemTime::now(), Instant::now()));
    let now = wall.duration_since(UNIX_EPOCH).unwrap_or_default() + begun.elapsed();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
