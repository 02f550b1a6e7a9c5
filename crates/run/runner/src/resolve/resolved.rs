//! A plan whose names, lengths and percentages are bound to a node.

use std::path::PathBuf;
use std::sync::Arc;

use iodyno_engine::trace::Trace;

/// The kind of a clone's file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file, existing or to be created.
    #[default]
    Regular,
    /// A block device, or an export of an NBD server.
    Device,
    /// `/dev/null`, `/dev/zero`, `/dev/full`, and the targets of engines without files.
    Null,
}

/// A file or device of one clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedFile {
    /// Its path; absolute, unless the plan's folder is relative.
    pub path: PathBuf,
    /// Its length before the trial, bytes; `None` if it does not exist. A job that only reads files sees those that
    /// earlier jobs create or extend as they leave them.
    pub existing: Option<u64>,
    /// Its kind.
    pub kind: FileKind,
    /// Start of the clone's region, bytes.
    pub base: u64,
    /// The region's length, bytes; at least one block.
    pub length: u64,
}

impl ResolvedFile {
    /// The minimum length of the file that contains the whole region, bytes.
    pub fn end(&self) -> u64 {
        self.base + self.length
    }
}

/// The resolved files and sizes of one clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedClone {
    /// Index of the job in the workload.
    pub job: u32,
    /// Number of the clone, from 0.
    pub clone: u32,
    /// At least one. Engines without files have one whose path has no meaning. Empty for file operations.
    pub files: Vec<ResolvedFile>,
    /// Bytes of all regions.
    pub region_bytes: u64,
    /// Bytes after which the job ends, unless it is time-based.
    pub byte_budget: u64,
    /// The seed of all random numbers of this clone.
    pub seed: u64,
    /// The trace that it replays, if any.
    pub replay: Option<ResolvedReplay>,
}

/// A plan with all names and sizes bound.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resolved {
    /// All clones of all jobs, by job and clone.
    pub clones: Vec<ResolvedClone>,
    /// Facts for the user that are not faults.
    pub notes: Vec<String>,
}

/// The replay of a clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedReplay {
    /// The trace.
    pub trace: Arc<Trace>,
    /// For each file of the trace, the index of the clone's file.
    pub files: Vec<u32>,
    /// The use of each of the clone's files.
    pub uses: Vec<FileUse>,
}

/// How a replay uses one of its clone's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileUse {
    /// It is read.
    pub reads: bool,
    /// It is written.
    pub writes: bool,
    /// Ranges are deallocated.
    pub trims: bool,
    /// Whether the user named it.
    pub named: bool,
    /// Whether the user permitted changes: it may be created, extended, written or removed.
    pub offered: bool,
    /// The largest power of two that divides all offsets and lengths, bytes; 0 without any.
    pub alignment: u64,
}
