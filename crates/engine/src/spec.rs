//! The input of a worker.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use iodyno_model::Job;
use iodyno_sys::VirtualClock;

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
    /// The folder that bad blocks are written to (`verify.dump`).
    pub dumps: PathBuf,
    /// Where and with whom it does file operations; `Some` where the job has any.
    pub operations: Option<OperationsPart>,
    /// What it shares with the other clones of its job; `Some` where the job has `shared_files`.
    pub shared_files: Option<SharedFilesPart>,
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
