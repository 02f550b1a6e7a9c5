//! The boundary between what is issued and how it reaches the kernel.

use std::io;
use std::os::fd::OwnedFd;

use crate::{Op, Slot};

/// An open file or device.
#[derive(Debug)]
pub struct File {
    /// The descriptor, opened as the engine needs it.
    pub descriptor: OwnedFd,
    /// A block device: trims are discards.
    pub device: bool,
}

/// One ended op. Instants are the backend's clock's, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// Its slot, free again.
    pub slot: Slot,
    /// Bytes moved (0 for syncs and trims), or −errno.
    pub result: i32,
    /// Right before the kernel was entered with it.
    pub submitted: u64,
    /// When it was seen to have ended.
    pub completed: u64,
}

/// What a turn brought. Reused from turn to turn; reserved beforehand.
#[derive(Debug)]
pub struct Completions {
    /// Ended ops, oldest first.
    pub list: Vec<Completion>,
    /// Ops handed to the kernel in this turn.
    pub submitted: u32,
    /// How long the submission calls of this turn took, ns; 0 where they are none of their own.
    pub submission_ns: u64,
    /// When the kernel was entered.
    pub entered: u64,
    /// When it returned.
    pub returned: u64,
}

impl Completions {
    /// With room for `depth` completions.
    pub fn with_capacity(depth: u32) -> Completions {
        Completions {
            list: Vec::with_capacity(depth as usize),
            submitted: 0,
            submission_ns: 0,
            entered: 0,
            returned: 0,
        }
    }

    /// Forgets the last turn.
    pub fn clear(&mut self) {
        self.list.clear();
        (self.submitted, self.submission_ns) = (0, 0);
    }
}

/// What a backend is, as it came to be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Features in force, in words.
    pub features: Vec<String>,
    /// Wishes not met, with the reason.
    pub fallbacks: Vec<String>,
    /// Submission is a call of its own: `Completions::submission_ns` means something.
    pub submits_apart: bool,
    /// Each op is stamped on its own: nothing waits unseen.
    pub stamps_each: bool,
}

/// The backend itself broke; ops that fail are completions.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}")]
pub struct BackendError {
    /// What could not be done.
    pub what: String,
    /// The kernel's word.
    pub source: io::Error,
    /// What to do, where that is known.
    pub hint: Option<&'static str>,
}

impl BackendError {
    /// An error without a hint.
    pub fn new(what: impl Into<String>, source: io::Error) -> BackendError {
        BackendError {
            what: what.into(),
            source,
            hint: None,
        }
    }
}

/// Carries ops to where they are done. Belongs to one thread.
pub trait Backend {
    /// What it is.
    fn capabilities(&self) -> Capabilities;

    /// An idle slot's buffer.
    fn buffer(&mut self, slot: Slot) -> &mut [u8];

    /// Ops that can be prepared before the next turn.
    fn room(&self) -> u32;

    /// Writes an op where the kernel will find it; it is issued by the next turn. The slot is the
    /// backend's until it comes back as a completion.
    fn prep(&mut self, slot: Slot, op: &Op);

    /// Issues what was prepared, waits until `min` ops have ended (no more than are in flight) or
    /// `deadline` has passed, and appends at most `max` ended ops to `completions` (which it clears),
    /// in as few kernel entries as it can. A partial submission is normal: the rest goes with the
    /// next turn. Wakes early at times; callers loop.
    ///
    /// # Errors
    /// Only where the backend itself broke. A failed op is a completion with its errno.
    fn turn(
        &mut self,
        min: u32,
        max: u32,
        deadline: Option<u64>,
        completions: &mut Completions,
    ) -> Result<(), BackendError>;

    /// Asks for all ops in flight to end now; they still come back through `turn`.
    fn cancel_all(&mut self);
}
