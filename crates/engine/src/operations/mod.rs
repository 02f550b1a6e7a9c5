//! File operations: the step loop that does a job's cycle again and again.
//!
//! It shares the recorder, the gate and the stop word with the driver of ops at offsets, and nothing
//! else: its calls take paths and folders, and each step waits for its own.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// Where and with whom a clone does file operations.
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

/// The name of a file of a set: `NAME.000000042`.
pub fn file_name(set: &str, number: u64) -> String {
    format!("{set}.{number:09}")
}

/// The files of a set of `count` that a clone has: every `clones`-th, from its own number on.
pub fn share(count: u64, clone: u32, clones: u32) -> impl Iterator<Item = u64> {
    (u64::from(clone)..count).step_by(clones.max(1) as usize)
}
