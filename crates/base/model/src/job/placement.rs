//! CPUs, memory and priority of the threads of a job.

use serde::{Deserialize, Serialize};

use crate::IoPriority;

/// How memory is taken from NUMA nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryPolicy {
    /// Only from these nodes.
    #[default]
    Bind,
    /// From each node in turn.
    Interleave,
    /// From this node while it has memory, then from others.
    Prefer,
}

/// CPU and memory placement of the threads.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Placement {
    /// Allowed CPUs; empty: all.
    pub cpus: Vec<u32>,
    /// Each clone gets one CPU of the set in turn; otherwise all clones share the set.
    pub split: bool,
    /// NUMA nodes whose CPUs are allowed; empty: all.
    pub numa_cpu_nodes: Vec<u32>,
    /// NUMA nodes of the buffers' memory; empty: all.
    pub numa_memory_nodes: Vec<u32>,
    /// How these nodes are used.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub numa_memory_policy: MemoryPolicy,
    /// Value for setpriority.
    pub nice: i32,
    /// I/O class and level for ioprio_set (fio's `prioclass` and `prio`).
    pub io_priority: Option<(u8, u8)>,
    /// Hint to the device that is part of the I/O priority (fio's `priohint`).
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub io_hint: u16,
}

impl Placement {
    /// The I/O priority of the job's threads, if it sets one.
    pub fn priority(&self) -> Option<IoPriority> {
        self.io_priority.map(|(class, level)| IoPriority {
            class,
            level,
            hint: self.io_hint,
        })
    }
}
