//! What a thread that manages a mirror asks for, and the answers.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::mpsc::Sender;

use iodyno_mirror::core::{Cause, Errno, Notice};
use iodyno_mirror::superblock::{Fork, Geometry, Member};
use iodyno_sim::Disk;
use uuid::Uuid;

/// What a thread that manages the mirror asks for. Changes are answered when they are recorded; see the events of the
/// mirror with the same names for their errors.
#[derive(Debug)]
pub enum Ask {
    /// The state of the mirror.
    Status(Sender<Status>),
    /// Adds a leg whose log is clear. Also `EMFILE`: no lane is free.
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
    /// Takes back a leg that was dropped. Also `EBUSY`: it has not returned all of its ops.
    Return {
        /// Its UUID.
        uuid: Uuid,
        /// What is recorded on it now; `None`: it has another content.
        stored: Option<Fork>,
        /// The answer.
        reply: Sender<Result<(), Errno>>,
    },
    /// Compares all legs. `EBUSY`: a comparison is in progress.
    Scrub {
        /// The leg that is right where they differ; `None`: only report.
        from: Option<Uuid>,
        /// Whether it begins.
        reply: Sender<Result<(), Errno>>,
        /// What is found, with the names of the legs; it ends with [`Notice::Scrubbed`].
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
    /// Whether no leg accepted the record of a drop: then the states of the legs may not be recorded.
    pub halted: bool,
    /// How far the comparison in progress has come, bytes.
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
    /// Why it was dropped, or else what is wrong with it.
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
    /// Whether ranges can become zeros without a write of them, by fallocate(2).
    pub zeroes: bool,
    /// Whether its medium rotates.
    pub rotational: bool,
    /// The simulated disk whose time reads and writes take at least.
    pub delay: Option<Box<Disk>>,
}
