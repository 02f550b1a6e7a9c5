//! The input of a worker.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use iodyno_model::Job;
use iodyno_sys::VirtualClock;
use iodyno_trace::Trace;

use crate::flow::SharedFlow;
use crate::log::OpLog;
use crate::shared_files::SharedFilesPart;

/// A file or device of one clone, open and admitted.
#[derive(Debug)]
pub struct JobFile {
    /// Its descriptor, opened with the flags that the job asks for. `None` for engines without files.
    pub descriptor: Option<OwnedFd>,
    /// For messages.
    pub name: String,
    /// Bytes from the file's start to the region.
    pub base: u64,
    /// Bytes of the region.
    pub length: u64,
    /// A block device: trims are discards.
    pub device: bool,
}

/// One clone, with everything bound.
#[derive(Debug)]
pub struct CloneSpec {
    /// The job.
    pub job: Arc<Job>,
    /// Index of the job in the workload.
    pub job_index: u32,
    /// Number of the clone, from 0.
    pub clone: u32,
    /// Its files, at least one.
    pub files: Vec<JobFile>,
    /// What is issued follows from it.
    pub seed: u64,
    /// The simulated device it works on; `Some` where the job's engine is one.
    pub simulated: Option<Simulated>,
    /// Bytes after which the job ends unless time-based: size (or io_size) × loops.
    pub byte_budget: u64,
    /// Where each op's latency is logged, if it is.
    pub log: Option<Arc<OpLog>>,
    /// What it shares with the other clones of its job's flow, if it has one.
    pub flow: Option<Arc<SharedFlow>>,
    /// What its kind of work needs.
    pub part: ClonePart,
}

impl CloneSpec {
    /// How long the trace that it replays takes at its own times, ns; `None`: it replays none.
    pub fn replayed_ns(&self) -> Option<u64> {
        let ClonePart::Blocks(part) = &self.part else {
            return None;
        };
        let ops = part.replay.as_ref()?.trace.ops.iter();
        ops.rev().find_map(|op| op.due_ns())
    }
}

/// What a clone needs for its job's kind of work.
#[derive(Debug)]
pub enum ClonePart {
    /// Reads and writes at offsets.
    Blocks(BlocksPart),
    /// File operations.
    FileOperations(OperationsPart),
    /// Files that all clones of the job share.
    SharedFiles(SharedFilesPart),
}

impl Default for ClonePart {
    fn default() -> ClonePart {
        ClonePart::Blocks(BlocksPart::default())
    }
}

/// What verification of blocks needs.
#[derive(Debug, Clone, Default)]
pub struct BlocksPart {
    /// Where bad blocks are written to (`verify.dump`).
    pub dumps: Dumps,
    /// The identity of the trial: a part of each block's header.
    pub trial: u64,
    /// What an earlier trial recorded of each file's blocks. Empty: nothing is known of any.
    pub recorded: Vec<RecordedBlocks>,
    /// The trace that determines its ops, if one does.
    pub replay: Option<ReplayPart>,
    /// Where each op is recorded when it is issued, if it is.
    pub iolog: Option<Arc<OpLog>>,
}

/// A trace to replay.
#[derive(Debug, Clone)]
pub struct ReplayPart {
    /// The trace; clones may share it.
    pub trace: Arc<Trace>,
    /// For each file of the trace, the number of the clone's file that stands for it.
    pub files: Vec<u32>,
}

/// Where bad blocks are written to.
#[derive(Debug, Clone)]
pub struct Dumps {
    /// The folder of their files.
    pub folder: PathBuf,
    /// Creates a file of this path, or empties the one that is there.
    pub create: fn(&Path) -> io::Result<File>,
}

impl Default for Dumps {
    /// Files of the working folder.
    fn default() -> Dumps {
        Dumps {
            folder: PathBuf::new(),
            create: |path| File::create(path),
        }
    }
}

/// What a trial wrote last to each unit of a region: a block, or `verify_interval` bytes of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedBlocks {
    /// Bytes of a unit. A record of units of another length is not used.
    pub unit: u64,
    /// The trial and the sequence number of each unit's last write, from the start of the region. Units beyond are not
    /// recorded.
    pub units: Vec<RecordedUnit>,
}

/// What is recorded of a unit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RecordedUnit {
    /// Nothing: no trial, or one that kept no record.
    #[default]
    Unknown,
    /// The trial did not write it, or it is not known whether its write was carried out.
    Unwritten,
    /// Its last write.
    Written {
        /// The trial.
        trial: u64,
        /// The sequence number.
        sequence: u32,
    },
}

/// What a simulated device needs to know beside its options.
#[derive(Debug, Clone)]
pub struct Simulated {
    /// Its service times follow from it.
    pub seed: u64,
    /// The virtual time that the clone runs in; `None`: real time.
    pub clock: Option<VirtualClock>,
}

/// The folder in which a clone does file operations, and the other clones of its job.
#[derive(Debug)]
pub struct OperationsPart {
    /// The folder it works in, open for reading; files in it are reached by name and this descriptor alone.
    pub folder: OwnedFd,
    /// The folder's path, for messages.
    pub path: PathBuf,
    /// What the names of files made by this clone begin with; no other clone's of the folder do.
    pub prefix: String,
    /// Clones of the job that have not ended. The one that brings it to zero drains for all.
    pub unfinished: Arc<AtomicU32>,
}
