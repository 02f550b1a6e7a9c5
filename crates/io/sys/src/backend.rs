//! Backends: the interface between the engine and the kernel or a simulated device.

use std::io;
use std::os::fd::OwnedFd;

/// Number of a buffer and of the op that uses it; less than the backend's depth.
pub type Slot = u32;

/// Kind of op.
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
    /// sync_file_range of the range, with these flags of the call.
    SyncRange(u8),
    /// Empties the zone of a zoned device that begins at the offset. The length is that of the zone.
    ResetZone,
}

impl OpKind {
    /// A call that returns when it is done, also in backends whose other ops complete later.
    #[inline]
    pub(crate) fn blocks(self) -> bool {
        matches!(self, OpKind::SyncRange(_) | OpKind::ResetZone)
    }

    /// Transfers data between a buffer and the file.
    #[inline]
    pub fn transfers(self) -> bool {
        matches!(self, OpKind::Read | OpKind::Write)
    }
}

/// One request on a range of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op {
    /// The operation.
    pub kind: OpKind,
    /// Index among the backend's files.
    pub file: u32,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Length, bytes; 0 for syncs of a whole file.
    pub length: u32,
    /// Offset in the buffer, bytes: start of the remaining part of a short op.
    pub skip: u32,
    /// The kernel's number of its I/O priority; 0: that of the thread. Only for reads and writes.
    pub priority: u16,
}

impl Op {
    /// An op with a buffer of its own length, and no priority.
    #[inline]
    pub const fn new(kind: OpKind, file: u32, offset: u64, length: u32) -> Op {
        Op {
            kind,
            file,
            offset,
            length,
            skip: 0,
            priority: 0,
        }
    }

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
    /// The descriptor, opened with the flags of the engine.
    pub descriptor: OwnedFd,
    /// Whether it is a block device: trims are discards.
    pub device: bool,
}

/// A completed op. Times are those of the backend's clock, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// Its slot, which is idle again.
    pub slot: Slot,
    /// Bytes transferred (0 for syncs and trims), or −errno.
    pub result: i32,
    /// Time immediately before the system call that submitted the op.
    pub submitted: u64,
    /// Time immediately after the completion was detected.
    pub completed: u64,
}

/// The result of one [`Backend::turn`]. Reused for every turn; its memory is reserved in advance.
#[derive(Debug)]
pub struct Completions {
    /// Completed ops, oldest first.
    pub list: Vec<Completion>,
    /// Number of ops submitted in this turn.
    pub submitted: u32,
    /// Duration of the submission calls of this turn, ns; 0 if submission is not a separate call.
    pub submission_ns: u64,
    /// If submission is a separate call: when completions were first looked for after it; `None`: they were not.
    pub looked_from: Option<u64>,
    /// Time of entering the kernel.
    pub entered: u64,
    /// Time of returning from the kernel.
    pub returned: u64,
}

impl Completions {
    /// With space for `depth` completions.
    pub fn with_capacity(depth: u32) -> Completions {
        Completions {
            list: Vec::with_capacity(depth as usize),
            submitted: 0,
            submission_ns: 0,
            looked_from: None,
            entered: 0,
            returned: 0,
        }
    }

    /// Clears the previous turn.
    #[inline]
    pub fn clear(&mut self) {
        self.list.clear();
        (self.submitted, self.submission_ns, self.looked_from) = (0, 0, None);
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
    /// Whether submission is a separate call, so that [`Completions::submission_ns`] is measured.
    pub submits_apart: bool,
    /// Whether one kernel entry submits several ops and waits, so that larger batches cost less per op.
    pub submits_many: bool,
    /// Whether each op has its own timestamps, without delay between completion and detection.
    pub stamps_each: bool,
}

/// Failure of the backend itself. Failed ops are completions.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}")]
pub struct BackendError {
    /// The operation that failed.
    pub what: String,
    /// The kernel's error.
    pub source: io::Error,
    /// The remedy, if known.
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

/// Passes ops to the kernel or to a simulated device. Used by one thread.
pub trait Backend {
    /// Its properties.
    fn capabilities(&self) -> Capabilities;

    /// The buffer of an idle slot.
    fn buffer(&mut self, slot: Slot) -> &mut [u8];

    /// Number of ops that can be prepared before the next turn.
    fn room(&self) -> u32;

    /// Prepares an op for the next turn. The backend owns the slot until its completion is returned.
    fn prep(&mut self, slot: Slot, op: &Op);

    /// Submits the prepared ops, waits until `min` ops have completed (at most the number in flight) or
    /// until `deadline`, and stores at most `max` completed ops in `completions`, which is cleared first.
    /// Uses as few system calls as possible. A partial submission is normal: the next turn submits the
    /// rest. A turn may return early; callers loop.
    ///
    /// # Errors
    /// Only if the backend itself failed. A failed op is a completion with its errno.
    fn turn(
        &mut self,
        min: u32,
        max: u32,
        deadline: Option<u64>,
        completions: &mut Completions,
    ) -> Result<(), BackendError>;

    /// Drops the cached pages of a range of a file. The kernel keeps dirty ones and begins to write them. Backends
    /// without files of the host have none.
    fn drop_pages(&mut self, _file: u32, _offset: u64, _length: u64) {}

    /// Requests cancellation of all ops in flight. Their completions are still returned by
    /// [`Backend::turn`].
    fn cancel_all(&mut self);
}
