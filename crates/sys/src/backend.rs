//! The boundary between what is issued and how it reaches the kernel.

use std::io;
use std::os::fd::OwnedFd;

/// Number of a buffer and of the op that uses it; below the backend's depth.
pub type Slot = u32;

/// What an op does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpKind {
    /// Reads into the slot's buffer.
    Read,
    /// Writes from the slot's buffer.
    Write,
    /// Deallocates the range: a discard on a device, a punched hole in a file.
    Trim,
    /// fsync of the file.
    Fsync,
    /// fdatasync of the file.
    Fdatasync,
}

impl OpKind {
    /// Transfers data between a buffer and the file.
    #[inline]
    pub fn transfers(self) -> bool {
        matches!(self, OpKind::Read | OpKind::Write)
    }
}

/// One request on a range of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op {
    /// What it does.
    pub kind: OpKind,
    /// Index among the backend's files.
    pub file: u32,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Length, bytes; 0 for syncs.
    pub length: u32,
    /// Offset in the buffer, bytes: where the rest of a short op continues.
    pub skip: u32,
}

impl Op {
    /// Bytes that it transfers if it succeeds; 0 for trims and syncs.
    #[inline]
    pub fn transfer_length(&self) -> u32 {
        if self.kind.transfers() {
            self.length
        } else {
            0
        }
    }
}

/// An open file or device.
#[derive(Debug)]
pub struct File {
    /// The descriptor, opened with the flags that the engine needs.
    pub descriptor: OwnedFd,
    /// A block device: trims are discards.
    pub device: bool,
}

/// A completed op. Instants are those of the backend's clock, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// Its slot, idle again.
    pub slot: Slot,
    /// Bytes transferred (0 for syncs and trims), or −errno.
    pub result: i32,
    /// Read right before the kernel was entered with the op.
    pub submitted: u64,
    /// Read right after the completion was seen.
    pub completed: u64,
}

/// The outcome of one [`Backend::turn`]. Reused from turn to turn; its memory is reserved beforehand.
#[derive(Debug)]
pub struct Completions {
    /// Completed ops, oldest first.
    pub list: Vec<Completion>,
    /// Ops handed to the kernel in this turn.
    pub submitted: u32,
    /// Duration of the submission calls of this turn, ns; 0 where submission is not a call of its own.
    pub submission_ns: u64,
    /// When the kernel was entered.
    pub entered: u64,
    /// When the kernel returned.
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
    #[inline]
    pub fn clear(&mut self) {
        self.list.clear();
        (self.submitted, self.submission_ns) = (0, 0);
    }

    #[inline]
    pub(crate) fn push(&mut self, slot: Slot, result: i32, submitted: u64, completed: u64) {
        self.list.push(Completion {
            slot,
            result,
            submitted,
            completed,
        });
    }
}

/// Properties of a backend once it is set up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Features in use.
    pub features: Vec<String>,
    /// Features that were requested and are not in use, with the reason.
    pub fallbacks: Vec<String>,
    /// Submission is a call of its own: [`Completions::submission_ns`] is measured.
    pub submits_apart: bool,
    /// One kernel entry submits several ops and waits: the more it submits, the less an op costs.
    pub submits_many: bool,
    /// Each op has its own stamps: no completion waits unseen.
    pub stamps_each: bool,
}

/// The backend itself failed. Ops that fail are completions.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}")]
pub struct BackendError {
    /// What could not be done.
    pub what: String,
    /// The kernel's error.
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

/// Carries ops to the kernel or to a simulated device. Belongs to one thread.
pub trait Backend {
    /// Its properties.
    fn capabilities(&self) -> Capabilities;

    /// An idle slot's buffer.
    fn buffer(&mut self, slot: Slot) -> &mut [u8];

    /// How many ops can be prepared before the next turn.
    fn room(&self) -> u32;

    /// Prepares an op for the next turn. The slot belongs to the backend until it comes back as a completion.
    fn prep(&mut self, slot: Slot, op: &Op);

    /// Submits what was prepared, waits until `min` ops have completed (at most as many as are in flight) or the
    /// instant `deadline` has passed, and puts at most `max` completed ops into `completions`, which it clears first.
    /// It enters the kernel as few times as it can. A partial submission is normal: the rest is submitted by the next
    /// turn. A turn may return early; callers loop.
    ///
    /// # Errors
    /// Only where the backend itself failed. A failed op is a completion with its errno.
    fn turn(
        &mut self,
        min: u32,
        max: u32,
        deadline: Option<u64>,
        completions: &mut Completions,
    ) -> Result<(), BackendError>;

    /// Requests that all ops in flight be cancelled. They still come back through [`Backend::turn`].
    fn cancel_all(&mut self);
}
