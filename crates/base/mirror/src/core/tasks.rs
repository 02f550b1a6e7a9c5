//! Tasks of a mirror, and their ops.

use super::interface::{Change, Errno, Request};
use crate::legs::LegSet;

/// Ops of a task on several legs.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fan {
    pub(super) issued: LegSet,
    pub(super) pending: LegSet,
    pub(super) ok: LegSet,
    pub(super) error: Errno,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    /// A client's request.
    Client(u64),
    /// To clean regions.
    Clean,
    /// To close the epoch.
    Close,
    /// The mirror stops.
    Stop,
    /// To remove a leg in sync.
    Remove { id: u64, leg: usize },
    /// To record a leg as copied up to here; its whole length means in sync.
    Copied { leg: usize, bytes: u64 },
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Reason {
    /// The region that needs copying.
    Region,
    /// Legs that are behind.
    Rebuild,
    /// A read failed on a leg.
    Repair(usize),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Work {
    Read {
        request: Request,
        tried: LegSet,
        leg: usize,
    },
    Write {
        request: Request,
        fua: bool,
        /// Whether it was issued to the legs.
        issued: bool,
    },
    Flush {
        purpose: Purpose,
        /// Number of the flush.
        number: u64,
    },
    Copy {
        reason: Reason,
        offset: u64,
        length: u32,
        tried: LegSet,
        writing: bool,
    },
    Log {
        block: usize,
    },
    Record {
        version: u64,
        /// Whether tasks waited for it.
        opens: bool,
        /// Whether anything else may be written after it.
        touches: bool,
        /// The tick at which it began.
        tick: u64,
        /// While the second copies are written: legs whose first one failed.
        failed: Option<LegSet>,
    },
    /// A copy of the superblock is read back.
    Look {
        copy: usize,
        /// Superblocks that had been written to the leg when it began.
        written: u64,
    },
    Scrub {
        from: Option<usize>,
        offset: u64,
        length: u32,
        repairing: bool,
        differ: u64,
        unread: u64,
    },
}

impl Work {
    /// The change made by its ops in flight; `None`: they read.
    pub(super) fn change(&self) -> Option<Change> {
        match self {
            Work::Read { .. } | Work::Look { .. } => None,
            Work::Write { .. } => Some(Change::Write),
            Work::Flush { .. } => Some(Change::Flush),
            Work::Copy { writing, .. } => writing.then_some(Change::Copy),
            Work::Log { .. } => Some(Change::Log),
            Work::Record { .. } => Some(Change::Superblock),
            Work::Scrub { repairing, .. } => repairing.then_some(Change::Copy),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Task {
    pub(super) work: Work,
    pub(super) fan: Fan,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OpSlot {
    pub(super) generation: u32,
    /// Task and leg of the op in flight.
    pub(super) used: Option<(u32, usize)>,
    /// It writes data.
    pub(super) data: bool,
}
