//! Counters of the host, its devices and servers over the measured time.

use serde::{Deserialize, Serialize};

/// Counters of the host over the measured time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HostUse {
    /// Length of the measured time, ns.
    pub span_ns: u64,
    /// CPU time of all CPUs: user, system, idle, iowait, irq + softirq, steal, ns.
    pub user_ns: u64,
    /// See `user_ns`.
    pub system_ns: u64,
    /// See `user_ns`.
    pub idle_ns: u64,
    /// See `user_ns`.
    pub iowait_ns: u64,
    /// See `user_ns`.
    pub irq_ns: u64,
    /// See `user_ns`.
    pub steal_ns: u64,
    /// CPU time of the harness: all threads of the node process.
    pub harness_user_ns: u64,
    /// See `harness_user_ns`.
    pub harness_system_ns: u64,
    /// Largest resident memory of that process, bytes.
    pub harness_memory: u64,
    /// Devices of all layers below the targets, top first.
    pub devices: Vec<DeviceUse>,
    /// Bytes of the reads that the node process itself sent to block devices (/proc/PID/io); `None`: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_read_bytes: Option<u64>,
    /// ZFS ARC hits and misses, if the host has an ARC.
    pub arc_hits: Option<(u64, u64)>,
    /// Drift of the wall clock against the monotonic clock over the trial, ns; several ms mean that the
    /// clock was set.
    pub clock_drift_ns: i64,
    /// Processes that the user named, one entry per name: servers under test.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerUse>,
    /// Times of requests at the devices; `None`: they were not traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_times: Option<Vec<DeviceTimes>>,
    /// Limits of the harness's control groups that took effect; `None`: no CPU quota and no memory limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_group: Option<ControlGroupUse>,
    /// In virtual time, the simulated disks that the clones share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub simulated: Vec<SimulatedDisk>,
}

/// A device's counters over the measured time (from /proc/diskstats).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DeviceUse {
    /// Kernel name.
    pub name: String,
    /// Reads, writes, discards, flushes completed.
    pub ios: [u64; 4],
    /// Reads, writes, discards merged.
    pub merges: [u64; 3],
    /// Bytes read, written, discarded.
    pub bytes: [u64; 3],
    /// ms spent reading, writing, discarding, flushing.
    pub ticks_ms: [u64; 4],
    /// ms with any I/O in flight.
    pub busy_ms: u64,
    /// Sum over ops of ms in the queue.
    pub queue_ms: u64,
}

/// A simulated disk with its queue, over the measured time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SimulatedDisk {
    /// Length of the measured time, ns.
    pub span_ns: u64,
    /// Reads and writes that arrived in its queue.
    pub requests: [u64; 2],
    /// Their bytes.
    pub bytes: [u64; 2],
    /// Sum of their times from arrival to end, ns.
    pub pending_ns: [u64; 2],
    /// Commands in which they were issued, merged or alone.
    pub commands: u64,
    /// Commands that did not begin where the one before ended.
    pub moves: u64,
    /// Time with a command at the disk, ns.
    pub busy_ns: u64,
    /// Time of the commands at the medium, ns: of a rotating disk, which serves one at a time, `busy_ns`; of another
    /// one, the sum over its commands.
    pub service_ns: u64,
}

impl SimulatedDisk {
    /// What was added since an earlier state; `span_ns`: the time between both.
    pub fn since(&self, earlier: &SimulatedDisk, span_ns: u64) -> SimulatedDisk {
        let each =
            |now: [u64; 2], then: [u64; 2]| [0, 1].map(|it| now[it].saturating_sub(then[it]));
        SimulatedDisk {
            span_ns,
            requests: each(self.requests, earlier.requests),
            bytes: each(self.bytes, earlier.bytes),
            pending_ns: each(self.pending_ns, earlier.pending_ns),
            commands: self.commands.saturating_sub(earlier.commands),
            moves: self.moves.saturating_sub(earlier.moves),
            busy_ns: self.busy_ns.saturating_sub(earlier.busy_ns),
            service_ns: self.service_ns.saturating_sub(earlier.service_ns),
        }
    }
}

/// CPU quota and memory limit of the harness's control groups over the measured time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ControlGroupUse {
    /// Periods of the CPU quota in which the group had work; 0: no quota.
    pub periods: u64,
    /// Periods in which the quota was used up.
    pub throttled_periods: u64,
    /// Time in which CPUs had work of the group and no quota left, ns: the sum over CPUs.
    pub throttled_ns: u64,
    /// How often an allocation met the smallest memory limit; `None`: no limit.
    pub memory_limit_hits: Option<u64>,
}

/// The processes of one name over the measured time, from the samples that lie within it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ServerUse {
    /// Name as given by the user: `virtiofsd`.
    pub name: String,
    /// Number of processes, including those that exited.
    pub processes: u32,
    /// CPU time in user mode, ns.
    pub user_ns: u64,
    /// CPU time in the kernel, ns.
    pub system_ns: u64,
    /// Mean number of threads over the samples, all processes together.
    pub threads: u64,
    /// Largest resident memory of any sample, all processes together, bytes.
    pub memory: u64,
    /// Bytes read from the storage; `None` if the host does not report them.
    #[serde(default)]
    pub read_bytes: Option<u64>,
    /// Bytes written to the storage; `None` if the host does not report them.
    #[serde(default)]
    pub written_bytes: Option<u64>,
    /// What it sent to the legs of a mirror; `None`: it is not one of iodyno's servers of mirrors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub legs: Option<LegUse>,
    /// Time covered by these figures, ns: shorter than the measured time, because the samples do not start
    /// and end with it.
    pub span_ns: u64,
}

impl ServerUse {
    /// CPU time, ns.
    pub fn cpu_ns(&self) -> u64 {
        self.user_ns.saturating_add(self.system_ns)
    }

    /// Mean number of busy cores; 0 without time.
    pub fn cores(&self) -> f64 {
        match self.span_ns {
            0 => 0.0,
            span => self.cpu_ns() as f64 / span as f64,
        }
    }
}

/// What was sent to the legs of mirrors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LegUse {
    /// Requests.
    pub requests: u64,
    /// Commands that contained them: each has one, or several that were merged.
    pub commands: u64,
}

/// Times of the requests of a device in one direction, counted in the kernel over the measured time. They include
/// requests of others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceTimes {
    /// Kernel name.
    pub device: String,
    /// `read`, `write`, `discard` or `flush`.
    pub direction: String,
    /// Number of requests that completed.
    pub requests: u64,
    /// Requests by completed ops of the jobs in this direction; `None` without such ops.
    pub requests_per_op: Option<f64>,
    /// Mean service latency of these ops, ns.
    pub op_ns: Option<f64>,
    /// From the creation of a request to its issue to the driver.
    pub queue: StageTimes,
    /// From the issue to the completion.
    pub service: StageTimes,
}

impl DeviceTimes {
    /// The rest of an op's time, ns: system call, file system, caches, completion. `None` if an op is not one request
    /// (between 0.95 and 1.05), because then its time is not a sum of these.
    pub fn above_ns(&self) -> Option<f64> {
        let one = self
            .requests_per_op
            .is_some_and(|per_op| (0.95..=1.05).contains(&per_op));
        let rest = self.op_ns? - self.queue.mean_ns - self.service.mean_ns;
        (one && rest >= 0.0).then_some(rest)
    }
}

/// Times of requests in one stage.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct StageTimes {
    /// The exact mean, ns.
    pub mean_ns: f64,
    /// Percentiles, ns, from bins that are at most a quarter wide.
    pub p50_ns: f64,
    /// The same.
    pub p99_ns: f64,
    /// The same.
    pub p999_ns: f64,
}
