//! Op streams: which op is issued next. Pure: no sleep, no I/O, no clock.

mod block_map;
mod blocks;
mod files;
mod hazards;
mod job;
mod list;
mod mix;
pub(crate) mod pacing;
mod permutation;
mod precondition;
mod region;
mod replay;
mod shared;
mod shared_fill;
mod sizes;
mod zoned;

use std::num::NonZeroU64;
use std::sync::Arc;

use iodyno_model::{Direction, EndedBy, MissedOps};
use iodyno_sys::{Op, Slot};

use crate::flow::SharedFlow;

pub use job::JobStream;
pub use list::{ListStream, checked_read, end_sync};
pub use replay::ReplayStream;
pub use shared::SharedStream;
pub(crate) use shared::sync_kind;
pub(crate) use zoned::DeviceZones;

/// An op to issue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Issue {
    /// The request.
    pub op: Op,
    /// The direction under which it is counted.
    pub direction: Direction,
    /// When it was due according to the schedule, ns of the engine clock; `None` without a schedule.
    pub intended: Option<NonZeroU64>,
    /// Whether the data read is verified. The op itself is only counted if `counted` is set, too.
    pub checked: bool,
    /// Whether its latency and bytes are recorded.
    pub counted: bool,
    /// Whether a pass over its file begins with it.
    pub begins_pass: bool,
}

impl Issue {
    /// An op that is counted, without a schedule.
    #[inline]
    pub fn counted(op: Op, direction: Direction) -> Issue {
        Issue {
            op,
            direction,
            intended: None,
            checked: false,
            counted: true,
            begins_pass: false,
        }
    }
}

/// The result of asking a stream for the next op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// An op was written to `place`.
    Op,
    /// No op is due before this instant.
    WaitUntil(u64),
    /// No op is due before this instant; busy-wait for it, without yielding the CPU.
    SpinUntil(u64),
    /// No op can be issued before one in flight completes.
    WaitForCompletion,
    /// The stream has ended.
    Done(EndedBy),
}

/// A source of ops. The caller passes the time in: a driver uses a thread and a real clock, or an event queue in
/// virtual time.
pub trait OpStream {
    /// Determines the next action at `now`. An op is written to `place` (this saves a copy in the hot loop) and must be
    /// issued under `slot`. After a result other than `Op`, asking again changes nothing.
    fn next(&mut self, now: u64, slot: Slot, place: &mut Issue) -> Next;

    /// Reports that the op under `slot` completed; `succeeded`: without an error.
    fn completed(&mut self, slot: Slot, succeeded: bool);
}

/// The stream of one clone, with the steps of its job.
pub trait CloneStream: OpStream {
    /// Starts the schedule at this instant. A number of ops ends it only from [`CloneStream::measure`] on.
    fn begin(&mut self, start: u64);

    /// Begins the measured time: a number of ops counts from here.
    fn measure(&mut self);

    /// Call this when the bytes of a pass are used up: begins the next one, if written data are verified before it.
    fn next_pass(&mut self) -> bool {
        false
    }

    /// Joins the job's flow, if it has one.
    fn join(&mut self, _flow: &Arc<SharedFlow>) {}

    /// Leaves the flow.
    fn leave(&mut self) {}

    /// Ops that were due before this instant and not issued.
    fn missed(&self, until: u64) -> Vec<MissedOps>;
}
