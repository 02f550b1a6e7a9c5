//! What is to be sampled.

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
    /// Those of these names; none: pools are not looked at.
    Named(Vec<String>),
}

/// What is to be sampled, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// From one sample to the next; long-lived children are started with it.
    pub every: Duration,
    /// Disks, partitions and mappings.
    pub devices: Devices,
    /// Pools.
    pub pools: Pools,
    /// Names of processes, as `comm` or the last part of the program's path has them.
    pub processes: Vec<String>,
    /// The harness's own processes: their I/O is not another's.
    pub own: Vec<u32>,
}
