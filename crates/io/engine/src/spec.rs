//! The input of a worker.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use crate::trace::Trace;
use iodyno_model::Job;
use iodyno_sim::SharedDevice;
use iodyno_sys::VirtualClock;
use iodyno_sys::vhost_user::Service;

use crate::flow::SharedFlow;
use crate::log::OpLog;
use crate::shared_files::SharedFilesPart;

/// A file or device of one clone, open and admitted.
#[derive(Debug)]
pub struct JobFile {
    /// Its descriptor, opened with the flags of the job; for the engine `nbd` a connection that does not block. `None`
    /// for engines without storage.
    pub descriptor: Option<OwnedFd>,
    /// Its name, for messages and for the headers of verified blocks.
    pub name: String,
    /// Bytes from the file's start to the region.
    pub base: u64,
    /// Bytes of the region.
    pub length: u64,
    /// Whether it is a block device, on which trims are discards.
    pub device: bool,
}

/// One clone, with all names and sizes bound.
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
    /// The seed of its ops.
    pub seed: u64,
    /// The simulated device; `Some` if the job's engine is simulated.
    pub simulated: Option<Simulated>,
    /// Bytes after which the job ends unless it is time-based: size (or io_size) × loops. See
    /// [`Blocks::exceeds_bytes`].
    ///
    /// [`Blocks::exceeds_bytes`]: iodyno_model::Blocks::exceeds_bytes
    pub byte_budget: u64,
    /// The log of each op's latency, if there is one.
    pub log: Option<Arc<OpLog>>,
    /// The destination of bad blocks (`verify.dump`) and of the output of its commands.
    pub output: OutputFiles,
    /// The flow of its job, shared with other clones, if it has one.
    pub flow: Option<Arc<SharedFlow>>,
    /// The inputs for its kind of work.
    pub part: ClonePart,
}

impl CloneSpec {
    /// The duration of the trace that it replays, ns; `None`: it does not replay a trace.
    pub fn replayed_ns(&self) -> Option<u64> {
        let ClonePart::Blocks(part) = &self.part else {
            return None;
        };
        let ops = part.replay.as_ref()?.trace.ops.iter();
        ops.rev().find_map(|op| op.due_ns())
    }
}

/// The inputs of a clone for its job's kind of work.
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

/// The inputs of a clone of block I/O.
#[derive(Debug, Clone, Default)]
pub struct BlocksPart {
    /// The identity of the trial, a part of each block's header.
    pub trial: u64,
    /// The record of each file's blocks by an earlier trial; empty without a record.
    pub recorded: Vec<RecordedBlocks>,
    /// The trace to replay, if any.
    pub replay: Option<ReplayPart>,
    /// The record of each op at its issue, if there is one.
    pub iolog: Option<Arc<OpLog>>,
    /// The service that replaces files, for the engines `vhost-user-blk` and `virtiofs`.
    pub service: Option<Service>,
}

/// A trace to replay.
#[derive(Debug, Clone)]
pub struct ReplayPart {
    /// The trace; clones may share it.
    pub trace: Arc<Trace>,
    /// For each file of the trace, the index of the clone's file that replaces it.
    pub files: Vec<u32>,
}

/// The destination of files besides those of the job.
#[derive(Debug, Clone)]
pub struct OutputFiles {
    /// Their folder.
    pub folder: PathBuf,
    /// Creates a file with this path, or empties an existing one.
    pub create: fn(&Path) -> io::Result<File>,
}

impl Default for OutputFiles {
    /// Files in the working folder.
    fn default() -> OutputFiles {
        OutputFiles {
            folder: PathBuf::new(),
            create: |path| File::create(path),
        }
    }
}

impl OutputFiles {
    /// Creates a file of this name, or empties an existing one. Returns its path, with the file or why it cannot be
    /// created.
    pub(crate) fn create(&self, name: &str) -> (PathBuf, io::Result<File>) {
        let path = self.folder.join(name);
        let file = (self.create)(&path);
        (path, file)
    }
}

/// The last write to each unit of a region, as earlier trials recorded it. A unit is a block, or `verify_interval`
/// bytes of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedBlocks {
    /// Bytes of a unit. A record of units of another length is not used.
    pub unit: u64,
    /// The writers of the units.
    pub writers: Vec<RecordedWriter>,
    /// From the start of the region. Units beyond the end of the list are not recorded.
    pub units: Vec<RecordedUnit>,
}

/// A trial, with a file that it wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedWriter {
    /// The identity of the trial.
    pub trial: u64,
    /// The name of the file in the blocks, which another name of the same file does not change.
    pub name: String,
}

/// The record of a unit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RecordedUnit {
    /// No record exists.
    #[default]
    Unknown,
    /// The trial did not write it, or trimmed it.
    Unwritten,
    /// Its last write failed, so that its content is unknown.
    Failed,
    /// Its last write.
    Written {
        /// Index of the writer.
        writer: u32,
        /// The sequence number.
        sequence: u32,
    },
}

/// The inputs of a simulated device in addition to its options.
#[derive(Debug)]
pub struct Simulated {
    /// The seed of its service times.
    pub seed: u64,
    /// The clone's access to a disk or mirror; `None`: its own device, with [`SimOptions::law`].
    ///
    /// [`SimOptions::law`]: iodyno_model::SimOptions::law
    pub device: Option<SharedDevice>,
    /// The clone's clock in virtual time; `None`: real time.
    pub clock: Option<VirtualClock>,
}

/// The folder of a clone's file operations, and the counter of its job's clones.
#[derive(Debug)]
pub struct OperationsPart {
    /// The folder, open for reading; files in it are accessed only by name relative to this descriptor.
    pub folder: OwnedFd,
    /// The folder's path, for messages.
    pub path: PathBuf,
    /// The prefix of the names of files that this clone creates; unique among the clones of the folder.
    pub prefix: String,
    /// Number of the job's clones that have not ended. The clone that decrements it to 0 waits for the drain.
    pub unfinished: Arc<AtomicU32>,
}
