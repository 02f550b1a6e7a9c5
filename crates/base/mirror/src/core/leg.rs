//! A leg while it is used.

use super::interface::{Cause, Errno, Failure};
use crate::assembly::Part;
use crate::superblock::{BLOCK, LegState, Member};

/// The stored state of a leg at the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stored {
    /// Both copies of the superblock; `None`: it cannot be read.
    pub superblocks: [Option<Box<[u8; BLOCK]>>; 2],
    /// The copy of the superblock that was used, 0 or 1.
    pub copy: usize,
    /// The highest number of a write of the log.
    pub log: u64,
}

#[derive(Debug)]
pub(super) struct Leg {
    pub(super) state: LegState,
    pub(super) online: bool,
    /// It was removed from the table of legs.
    pub(super) removed: bool,
    /// Its storage is given, so it may be re-added.
    pub(super) given: bool,
    /// Behind: below this everything outside of regions that need copying was copied, perhaps not durably.
    pub(super) copied: u64,
    /// A flush for `Purpose::Copied` is in flight.
    pub(super) flushing: bool,
    /// Behind, and about to be recorded as in sync.
    pub(super) promoted: bool,
    /// Copy of the superblock that is written first, so that the other one stays valid.
    pub(super) first_copy: usize,
    /// A generation that both copies have at least.
    pub(super) seen: u64,
    pub(super) superblocks: Superblocks,
    /// The last write or flush that it failed.
    pub(super) failure: Option<Failure>,
    /// Why it was dropped, or what is wrong with it.
    pub(super) cause: Option<Cause>,
}

impl Leg {
    /// A leg of an assembly at the start. `length`: that of the mirror.
    pub(super) fn stored(part: &Part, stored: &Stored, length: u64) -> Leg {
        let Member { state, seen, .. } = part.member;
        Leg {
            state,
            online: part.given.is_some(),
            given: part.given.is_some(),
            copied: match state {
                LegState::InSync => length,
                LegState::Behind { copied } => copied,
            },
            first_copy: 1 - stored.copy,
            seen,
            superblocks: Superblocks::known(stored.superblocks.clone()),
            ..Leg::new()
        }
    }

    /// A leg that is given from now on, of any content.
    pub(super) fn new() -> Leg {
        Leg {
            state: LegState::Behind { copied: 0 },
            online: false,
            removed: false,
            given: true,
            copied: 0,
            flushing: false,
            promoted: false,
            first_copy: 0,
            seen: 0,
            superblocks: Superblocks::default(),
            failure: None,
            cause: None,
        }
    }
}

/// The superblocks of a leg that gets writes.
#[derive(Debug, Default)]
pub(super) struct Superblocks {
    /// The copies on the leg; `None`: unknown, or being written.
    pub(super) known: [Option<Box<[u8; BLOCK]>>; 2],
    /// The copy that is being written.
    pub(super) writing: Option<(usize, Box<[u8; BLOCK]>)>,
    /// Number of writes, including failed ones.
    pub(super) written: u64,
    /// It is being read back.
    pub(super) looking: [bool; 2],
}

impl Superblocks {
    pub(super) fn known(known: [Option<Box<[u8; BLOCK]>>; 2]) -> Superblocks {
        Superblocks {
            known,
            ..Superblocks::default()
        }
    }

    /// Starts writing a copy. Returns the overwritten content, if known.
    pub(super) fn write(&mut self, copy: usize, new: &[u8; BLOCK]) -> Option<Box<[u8; BLOCK]>> {
        self.written += 1;
        self.writing = Some((copy, Box::new(*new)));
        self.known[copy].take()
    }

    pub(super) fn wrote(&mut self, result: Result<(), Errno>) {
        if let (Ok(()), Some((copy, block))) = (result, self.writing.take()) {
            self.known[copy] = Some(block);
        }
    }
}
