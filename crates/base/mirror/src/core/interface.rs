//! The interface of a mirror: events and orders.

use uuid::Uuid;

use crate::legs::LegSet;
use crate::superblock::{BLOCK, Fork};

/// Number of an operating system's error.
pub type Errno = i32;

pub(super) const EIO: Errno = 5;
pub(super) const EBUSY: Errno = 16;
pub(super) const EINVAL: Errno = 22;
pub(super) const ENOSPC: Errno = 28;
pub(super) const ESHUTDOWN: Errno = 108;
/// A block on a leg has unexpected content. The kernel never returns this number.
pub const UNEXPECTED: Errno = -1;

/// Constants of a running mirror.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Length of one copy while resyncing, bytes; a multiple of the unit. Smaller regions are copied as a whole.
    pub copy_bytes: u32,
    /// Copies in flight.
    pub copies: u32,
    /// Whether epochs are recorded. Without them a leg that was restored from a copy may not be noticed: only to test
    /// that this is found.
    pub epochs: bool,
    /// The number of a new line, which the first record after the start begins unless it only records the start.
    /// Random: two histories that start from the same state have different lines.
    pub line: Option<u64>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            copy_bytes: 256 << 10,
            copies: 4,
            epochs: true,
            line: None,
        }
    }
}

/// A request of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads the range.
    Read,
    /// Writes the range; with `fua` it is durable before the reply.
    Write {
        /// Forced unit access.
        fua: bool,
    },
    /// Makes all writes durable that were replied to before.
    Flush,
}

/// A request of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Chosen by the client's front; identifies its buffer.
    pub id: u64,
    /// The access.
    pub access: Access,
    /// Start, bytes; 0 for a flush.
    pub offset: u64,
    /// Length, bytes; 0 for a flush.
    pub length: u32,
}

/// Identifies an op. Numbers of ops that were given up are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OpId {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

/// Something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A client's request arrived.
    Request(Request),
    /// A read that a queue sent to a leg itself has failed. It is read from another leg, and the failed one is
    /// repaired.
    Failed {
        /// The read.
        request: Request,
        /// The leg that failed.
        leg: usize,
        /// Its error.
        error: Errno,
    },
    /// An op has ended. Unknown ops, those of a leg that was given up, are ignored.
    Done {
        /// Which.
        op: OpId,
        /// Its error, if any.
        result: Result<(), Errno>,
    },
    /// A leg does not answer. Unless it is the last one in sync, it is dropped: its ops count as failed. They may still
    /// use their buffers.
    Lost {
        /// Which.
        leg: usize,
    },
    /// A leg became shorter than the mirror, so lost data are unknown. Unless it is the last one in sync, it is
    /// dropped, and copied to completely when it is re-added.
    Shortened {
        /// Which.
        leg: usize,
    },
    /// The file of a leg was removed or replaced, so its content at the next start is unknown. Unless it is the last
    /// one in sync, it is dropped. It cannot be re-added.
    Replaced {
        /// Which.
        leg: usize,
    },
    /// A second has passed.
    Tick,
    /// Bytes that may be copied for resyncing in addition.
    Credit(u64),
    /// A new leg, which gets the next index. Its data are of any content, and its log is clear. Replied to when it is
    /// recorded. `ENOSPC`: there are too many legs.
    Add {
        /// Number for the reply; not that of another request.
        id: u64,
        /// UUID of the leg.
        uuid: Uuid,
    },
    /// A leg leaves the mirror. Replied to when that is recorded. `EBUSY`: no other leg is in sync, or the leg is in
    /// sync and regions are still to be copied.
    Remove {
        /// Number for the reply; not that of another request.
        id: u64,
        /// Which.
        leg: usize,
    },
    /// A dropped leg whose ops have all returned gets writes again, and is copied to. The reply follows once that is
    /// recorded. `EINVAL`: it was not dropped.
    Return {
        /// Number for the reply; not that of another request.
        id: u64,
        /// Which.
        leg: usize,
        /// The fork recorded on it now. If it is older than at the drop, or of another line, all of it is copied.
        /// `None`: it has other content.
        stored: Option<Fork>,
    },
    /// Compares all legs in sync, once nothing needs copying.
    Scrub {
        /// The leg that is right where legs differ; `None`: only report.
        from: Option<usize>,
    },
    /// The answer to [`Order::Compare`].
    Compared {
        /// The order's task.
        task: u32,
        /// Whether all are equal.
        equal: bool,
    },
    /// Ends the mirror when all requests have ended.
    Stop,
}

/// The memory of an op.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Buffer {
    /// None: a flush.
    None,
    /// The buffer of a client's request.
    Client(u64),
    /// One of the task's own: a copy has one, number 0; a scrub has one for each leg.
    Own {
        /// The task.
        task: u32,
        /// Its number.
        part: usize,
    },
    /// These bytes are written.
    Block(Box<[u8; BLOCK]>),
    /// A copy of the superblock is written. First, it is read: if it is not `expected`, nothing is written, and the op
    /// fails as [`UNEXPECTED`]. It is written if it cannot be read.
    Superblock {
        /// `None`: it is not read.
        expected: Option<Box<[u8; BLOCK]>>,
        /// The new content.
        new: Box<[u8; BLOCK]>,
    },
    /// The data read must equal this. Otherwise, the op fails as [`UNEXPECTED`].
    Expected(Box<[u8; BLOCK]>),
}

/// The kind of an op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpKind {
    /// Reads.
    Read,
    /// Writes; with `fua` the data must be durable when it ends.
    Write {
        /// Forced unit access.
        fua: bool,
    },
    /// Makes all writes durable that ended before it was issued.
    Flush,
}

/// One request to one leg.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Op {
    /// Its number, for [`Event::Done`].
    pub id: OpId,
    /// The leg.
    pub leg: usize,
    /// Its kind.
    pub kind: OpKind,
    /// Offset on the leg, bytes.
    pub offset: u64,
    /// Length, bytes.
    pub length: u32,
    /// Its memory.
    pub buffer: Buffer,
}

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Issue an op to a leg.
    Op(Op),
    /// Answer a client.
    Reply {
        /// Its request.
        id: u64,
        /// The error, if any.
        result: Result<(), Errno>,
    },
    /// Compare the buffers of a task, one for each of these legs.
    Compare {
        /// The task.
        task: u32,
        /// The numbers of its buffers.
        legs: LegSet,
    },
    /// The task has ended: its buffers can be reused.
    Free {
        /// The task.
        task: u32,
    },
    /// For the log of the server.
    Notice(Notice),
    /// The mirror has stopped; nothing is in flight.
    Stopped,
}

/// Why a leg was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It failed an op.
    Failed(Failure),
    /// It does not answer.
    Silent,
    /// It became shorter than the mirror.
    Short,
    /// Its file was removed or replaced.
    Replaced,
    /// Overwritten from outside, perhaps with an old copy of itself.
    Overwritten,
    /// It was copied to while another leg was overwritten.
    Source,
}

/// A write or flush that a leg failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// The failed change.
    pub change: Change,
    /// Its error.
    pub error: Errno,
}

/// The change that an op makes on a leg.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It writes data of a client.
    Write,
    /// It copies data from another leg.
    Copy,
    /// It writes a block of the write-intent log.
    Log,
    /// It writes a copy of the superblock.
    Superblock,
    /// It makes writes durable.
    Flush,
}

/// A message for the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// The state of the legs has been recorded, if it was not: missing legs are behind.
    Recorded,
    /// This happened to the last leg in sync, which stays.
    Last {
        /// The leg.
        leg: usize,
        /// [`Cause::Replaced`], or [`Cause::Overwritten`]: the mirror halts.
        cause: Cause,
    },
    /// A leg is behind now.
    Dropped {
        /// The leg.
        leg: usize,
        /// Why.
        cause: Cause,
    },
    /// A leg was removed from the mirror.
    Removed(usize),
    /// A leg has been copied to and is in sync.
    InSync(usize),
    /// A part of a read that failed on this leg was written again.
    Repaired {
        /// The leg.
        leg: usize,
        /// Start, bytes.
        offset: u64,
        /// Length, bytes.
        length: u32,
    },
    /// A range that cannot be read from any leg in sync: it cannot be copied.
    Unreadable {
        /// Start, bytes.
        offset: u64,
        /// Length, bytes.
        length: u32,
    },
    /// Legs differ in this range.
    Differs {
        /// Start, bytes.
        offset: u64,
        /// Length, bytes.
        length: u32,
        /// Whether it was rewritten from the given leg.
        repaired: bool,
    },
    /// The scrub has ended: number of ranges that differ, and of ranges that could not be read.
    Scrubbed {
        /// Ranges that differ.
        differ: u64,
        /// Ranges that a leg failed to read.
        unread: u64,
    },
    /// No leg accepted the record of a drop, or the last leg in sync was overwritten: every request fails until the
    /// next start.
    Halted,
    /// A client was refused, because this number of clients is connected.
    Refused(usize),
}

/// Chooses the leg of a read.
pub trait Choose {
    /// Chooses one of `legs`, which has at least one.
    fn choose(&mut self, offset: u64, length: u32, legs: LegSet) -> usize;
}

impl<F: FnMut(u64, u32, LegSet) -> usize> Choose for F {
    fn choose(&mut self, offset: u64, length: u32, legs: LegSet) -> usize {
        self(offset, length, legs)
    }
}
