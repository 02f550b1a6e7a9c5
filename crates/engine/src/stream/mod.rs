//! What is issued next: pure, without sleep, I/O or a clock of its own.

mod blocks;
mod hazards;
mod job;
mod list;
mod mix;
pub(crate) mod pacing;
mod permutation;
mod region;
mod shared;
mod shared_fill;
mod sizes;

use std::num::NonZeroU64;
use std::sync::Arc;

use iodyno_model::{Direction, EndedBy};
use iodyno_sys::{Op, Slot};

use crate::flow::SharedFlow;

pub use job::JobStream;
pub use list::{ListStream, checked_read, end_sync};
pub use shared::SharedStream;
pub(crate) use shared::sync_kind;

/// An op to be issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Issue {
    /// The request.
    pub op: Op,
    /// Under which it is counted.
    pub direction: Direction,
    /// When it was due, if a schedule says so; the engine clock's ns.
    pub intended: Option<NonZeroU64>,
    /// What it reads is checked, and the op itself is not counted unless `counted`.
    pub checked: bool,
    /// Its latency and bytes are recorded.
    pub counted: bool,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// What was written to the place given.
    Op,
    /// Nothing before this instant.
    WaitUntil(u64),
    /// Nothing before this instant, which is to be awaited computing.
    SpinUntil(u64),
    /// Nothing before something in flight has ended.
    WaitForCompletion,
    /// Nothing any more.
    Done(EndedBy),
}

/// A source of ops. Time is passed in; a driver runs it on a thread and a real clock, or from an
/// event queue in virtual time.
pub trait OpStream {
    /// What comes next at `now`; an op, to be issued under `slot`, is written to `place` (a copy less in
    /// the hot loop). Asking again after anything but `Op` changes nothing.
    fn next(&mut self, now: u64, slot: Slot, place: &mut Issue) -> Next;

    /// The op under `slot` has ended, well or not, having moved `bytes`.
    fn completed(&mut self, slot: Slot, well: bool, bytes: u64, now: u64);
}

/// The stream of a clone through the steps of its job.
pub trait CloneStream: OpStream {
    /// The schedule counts from this instant; without an end until [`CloneStream::measure`].
    fn begin(&mut self, start: u64);

    /// The measured time begins: budgets count from here.
    fn measure(&mut self);

    /// Takes part in the job's flow, if it has one, from now on.
    fn join(&mut self, _flow: &Arc<SharedFlow>) {}

    /// No longer takes part in it.
    fn leave(&mut self) {}
}
