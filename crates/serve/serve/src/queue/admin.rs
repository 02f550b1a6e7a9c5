//! Requests that manage a running mirror, and their answers.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::mpsc::Sender;

use iodyno_mirror::core::{Cause, Errno, Notice};
use iodyno_mirror::superblock::{Fork, Geometry, Member};
use iodyno_sim::Disk;
use uuid::Uuid;

/// A request that manages the mirror. The answer to a change comes after the change is recorded. The mirror's events
/// with the same names list the errors.
#[derive(Debug)]
pub enum AdminRequest {
    /// The state of the mirror.
    Status(Sender<Status>),
    /// Adds a leg whose log is clear. A further error is `EMFILE`: no lane is free.
    Add {
        /// Its UUID.
        uuid: Uuid,
        /// Its storage, with a descriptor.
        leg: OpenLeg,
        /// The answer.
        reply: Sender<Result<(), Errno>>,
    },
    /// Removes a leg.
    Remove {
        /// Its UUID.
        uuid: Uuid,
        /// The answer.
        reply: Sender<Result<(), Errno>>,
    },
    /// Takes back a leg that was dropped. A further error is `EBUSY`: some of its ops are still in flight.
    Return {
        /// Its UUID.
        uuid: Uuid,
        /// Its superblock; `None`: the leg holds something else.
        stored: Option<Fork>,
        /// The answer.
        reply: Sender<Result<(), Errno>>,
    },
    /// Compares all legs. `EBUSY`: a comparison is in progress.
    Scrub {
        /// The leg that is copied to the others where they differ; `None`: differences are only reported.
        from: Option<Uuid>,
        /// Whether the comparison has started.
        reply: Sender<Result<(), Errno>>,
        /// The findings, with the names of the legs. [`Notice::Scrubbed`] is the last.
        found: Sender<(Notice, Vec<String>)>,
    },
}

/// The state of a running mirror.
#[derive(Debug, Clone)]
pub struct Status {
    /// Its UUID.
    pub mirror: Uuid,
    /// Generation of its superblocks.
    pub generation: u64,
    /// Sizes.
    pub geometry: Geometry,
    /// Bytes that are still to be copied.
    pub to_copy: u64,
    /// Regions that the log marks.
    pub marked: usize,
    /// Whether all legs are in sync and no region may differ.
    pub redundant: bool,
    /// Whether no leg accepted the record of a drop. If so, the recorded states may be out of date.
    pub halted: bool,
    /// Bytes that the comparison in progress has read of each leg.
    pub scrubbed: Option<u64>,
    /// The legs in the order of the table.
    pub legs: Vec<LegStatus>,
    /// Ops in flight on legs that were removed.
    pub in_flight_removed: u32,
}

/// A leg of a running mirror.
#[derive(Debug, Clone)]
pub struct LegStatus {
    /// Its UUID and state.
    pub member: Member,
    /// Its name in messages.
    pub name: String,
    /// Its path; `None`: it is missing.
    pub path: Option<PathBuf>,
    /// Whether it gets writes.
    pub online: bool,
    /// Its ops in flight.
    pub in_flight: u32,
    /// Why it was dropped, or what is wrong with it.
    pub cause: Option<Cause>,
}

/// A leg of the mirror's table.
#[derive(Debug)]
pub struct OpenLeg {
    /// Its name in messages.
    pub name: String,
    /// Its path; `None` if the leg is missing.
    pub path: Option<PathBuf>,
    /// Opened with O_DIRECT; `None` if the leg is missing.
    pub descriptor: Option<OwnedFd>,
    /// Whether fallocate(2) can zero ranges without writing them.
    pub zeroes: bool,
    /// Whether its medium rotates.
    pub rotational: bool,
    /// The simulated disk: reads and writes take at least its time.
    pub delay: Option<Box<Disk>>,
}
