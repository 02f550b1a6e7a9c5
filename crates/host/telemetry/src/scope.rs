//! The scope of sampling.

use std::path::PathBuf;
use std::time::Duration;

/// The block devices to sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Devices {
    /// All with any I/O since boot.
    All,
    /// Those with these kernel names, top first.
    Named(Vec<String>),
}

/// The ZFS pools to sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pools {
    /// All pools.
    All,
    /// Pools with these names; empty: pools are not sampled.
    Named(Vec<String>),
}

/// Which processes to sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessName {
    /// `comm` or the last component of the program's path.
    pub name: String,
    /// The token of storage: only processes that were started to make it.
    pub made_for: Option<String>,
}

impl From<String> for ProcessName {
    fn from(name: String) -> ProcessName {
        ProcessName {
            name,
            made_for: None,
        }
    }
}

/// What to sample, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Time between samples; long-running child processes are started with it.
    pub every: Duration,
    /// Disks, partitions and mappings.
    pub devices: Devices,
    /// Count the times of requests at the named devices in the kernel.
    pub block_trace: bool,
    /// Pools.
    pub pools: Pools,
    /// The processes under test.
    pub processes: Vec<ProcessName>,
    /// Processes that serve the jobs' targets; sampled with all their descendants.
    pub servers: Vec<u32>,
    /// Sockets on which file servers report statistics.
    pub stats: Vec<PathBuf>,
    /// Processes of iodyno itself: their I/O is not that of others.
    pub own: Vec<u32>,
}
