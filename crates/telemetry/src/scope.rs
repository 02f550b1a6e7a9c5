//! What to sample.

use std::time::Duration;

/// Which block devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Devices {
    /// All that have done any I/O since the boot.
    All,
    /// Those of these kernel names, top first.
    Named(Vec<String>),
}

/// Which ZFS pools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pools {
    /// All that there are.
    All,
    /// Those of these names; empty: pools are not sampled.
    Named(Vec<String>),
}

/// What to sample, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Time between samples; long-running child processes are started with it.
    pub every: Duration,
    /// Disks, partitions and mappings.
    pub devices: Devices,
    /// Pools.
    pub pools: Pools,
    /// Names of processes, as `comm` or the last part of the program's path has them.
    pub processes: Vec<String>,
    /// Processes of iodyno itself: their I/O is not that of others.
    pub own: Vec<u32>,
}
