//! Summary of a trial: the input of reports and comparisons.
//!
//! Built by `judge` and formatted by `report`. Not stored, because it follows from the trial.

use crate::{
    Behaviour, DeviceTimes, Direction, DirectionResult, EndedBy, EngineUsed, ErrorCount, Histogram,
    HostUse, ServerUse, SteadyResult, VerifyResult,
};

/// A latency percentile and its limitations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantile {
    /// In percent: 99.9.
    pub percent: f64,
    /// The latency, ns.
    pub ns: u64,
    /// Whether the harness may have detected the ends of the ops at its rank so late that the latency was less by more
    /// than a tenth: it is an upper limit.
    pub resolution_limited: bool,
    /// The least that it can have been, ns; `None` if it is not limited, or unknown.
    pub least_ns: Option<u64>,
    /// Whether fewer than ten values lie above it, so that it is too uncertain.
    pub few: bool,
}

/// One line of a result: the ops of one direction of a group of clones.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Sum over all clones. `runtime_ns` is the time in which any of them was measured; `bandwidth` and `iops`
    /// are sums over the clones.
    pub result: DirectionResult,
    /// Number of failed ops.
    pub errors: u64,
    /// Percentiles of service latency: 50, 99, 99.9 % and those that the jobs request, ascending.
    pub service: Vec<Quantile>,
    /// Percentiles of response latency, if a rate was requested; empty otherwise.
    pub response: Vec<Quantile>,
}

impl Row {
    /// Ops a second; 0 without time.
    pub fn iops(&self) -> f64 {
        per_second(self.result.ops, self.result.runtime_ns)
    }

    /// Bytes a second; 0 without time.
    pub fn bytes_per_s(&self) -> f64 {
        per_second(self.result.bytes, self.result.runtime_ns)
    }

    /// The primary latency: response latency if there is one, service latency otherwise.
    pub fn latency(&self) -> (&Histogram, &[Quantile]) {
        match &self.result.response {
            Some(response) if !response.is_empty() => (response, &self.response),
            _ => (&self.result.service, &self.service),
        }
    }
}

fn per_second(count: u64, span_ns: u64) -> f64 {
    match span_ns {
        0 => 0.0,
        ns => count as f64 * 1e9 / ns as f64,
    }
}

/// The clones of one job, or of all jobs that are reported as one group.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupSummary {
    /// Indices of its jobs in the workload.
    pub jobs: Vec<u32>,
    /// Number of clones that reported.
    pub clones: u32,
    /// Directions with ops or errors, in table order; cycles of file operations before their steps.
    pub rows: Vec<Row>,
    /// What ended the clones, with counts, the most frequent first.
    pub ended: Vec<(EndedBy, u32)>,
    /// Total number of bytes that the clones work on.
    pub region_bytes: u64,
    /// Ten times the stamp window's p99, ns. In trials that did not record the delay of each op, percentiles below this
    /// are limited.
    pub resolution_ns: u64,
    /// Failed ops by direction and errno.
    pub errors: Vec<ErrorCount>,
    /// Result of verification, if requested.
    pub verify: Option<VerifyResult>,
    /// Whether it became steady, if its jobs end then: one result, or one per clone without group reporting.
    pub steady: Vec<SteadyResult>,
    /// The backends used, each once.
    pub engines: Vec<EngineUsed>,
}

/// CPU time of the harness in the measured time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CpuSummary {
    /// Worker threads in user mode, ns.
    pub worker_user_ns: u64,
    /// Worker threads in the kernel, ns.
    pub worker_system_ns: u64,
    /// The harness's other threads, ns.
    pub other_ns: u64,
    /// The measured time, ns.
    pub span_ns: u64,
    /// Ops completed, all directions but sync; for file operations the cycles.
    pub ops: u64,
    /// Share of the worker threads' measured time in which they were ready to run and waited for a CPU; `None`:
    /// unknown.
    pub run_delay: Option<f64>,
}

impl CpuSummary {
    /// Worker threads' CPU time, ns.
    pub fn worker_ns(&self) -> u64 {
        self.worker_user_ns + self.worker_system_ns
    }

    /// Number of cores that the whole harness kept busy.
    pub fn cores(&self) -> f64 {
        match self.span_ns {
            0 => 0.0,
            span => (self.worker_ns() + self.other_ns) as f64 / span as f64,
        }
    }

    /// Worker CPU time per op, ns; `None` without ops or without CPU figures.
    pub fn worker_ns_per_op(&self) -> Option<f64> {
        (self.ops > 0 && self.worker_ns() > 0).then(|| self.worker_ns() as f64 / self.ops as f64)
    }

    /// CPU time of the other threads per op, ns; `None` as for `worker_ns_per_op`.
    pub fn other_ns_per_op(&self) -> Option<f64> {
        self.worker_ns_per_op()
            .map(|_| self.other_ns as f64 / self.ops as f64)
    }

    /// Ops per second of CPU time of the whole harness: IOPS per core.
    pub fn iops_per_core(&self) -> Option<f64> {
        let cpu = self.worker_ns() + self.other_ns;
        (self.ops > 0 && cpu > 0).then(|| self.ops as f64 * 1e9 / cpu as f64)
    }
}

/// A device below the targets.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceSummary {
    /// Its node.
    pub node: String,
    /// Kernel name.
    pub name: String,
    /// Whether no further device is known below it.
    pub lowest: bool,
    /// Percentage of the time with any I/O in flight, at most 100. `None`: not known, because the jobs issue NVMe
    /// commands, which the statistics of block devices do not contain.
    pub busy_percent: Option<f64>,
    /// Bytes read, written, discarded.
    pub bytes: [u64; 3],
    /// Mean time from a read's insertion into the queue to its end, ns; `None` without reads.
    pub read_await_ns: Option<f64>,
    /// The same for writes.
    pub write_await_ns: Option<f64>,
    /// Mean number of requests queued or in flight.
    pub queue_mean: f64,
}

/// Bytes moved by the devices and by the jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceShare {
    /// Read or write.
    pub direction: Direction,
    /// Bytes of all lowest devices.
    pub device_bytes: u64,
    /// Bytes that the jobs' own processes moved to or from devices; `None`: unknown. The others of `device_bytes` are
    /// those of other processes.
    pub own_bytes: Option<u64>,
    /// Bytes of all jobs.
    pub job_bytes: u64,
}

impl DeviceShare {
    /// Device bytes ÷ job bytes.
    pub fn ratio(&self) -> f64 {
        self.device_bytes as f64 / self.job_bytes.max(1) as f64
    }

    /// Device bytes that the jobs can have caused.
    pub fn caused_bytes(&self) -> u64 {
        let own = self.own_bytes.unwrap_or(u64::MAX);
        self.device_bytes.min(own)
    }

    /// Device bytes that the jobs can have caused ÷ job bytes.
    pub fn caused_ratio(&self) -> f64 {
        self.caused_bytes() as f64 / self.job_bytes.max(1) as f64
    }
}

/// One point of the series: a frame of the measured time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Start on the trial's clock, ns.
    pub start_ns: u64,
    /// Length, ns.
    pub span_ns: u64,
    /// Ops per second, all directions but sync; for file operations the cycles.
    pub iops: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
}

/// All figures that a report shows of a trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// In the order of their first jobs.
    pub groups: Vec<GroupSummary>,
    /// All groups together, for directions that several groups have; empty unless the groups ran at the same
    /// time.
    pub total: Vec<Row>,
    /// CPU.
    pub cpu: CpuSummary,
    /// Processes under test, one entry per name.
    pub servers: Vec<ServerUse>,
    /// Devices, top first.
    pub devices: Vec<DeviceSummary>,
    /// Times of requests at the devices with the name of their node, if they were traced.
    pub device_times: Vec<(String, DeviceTimes)>,
    /// Reads and writes of the lowest devices and of the jobs; empty if no device is known or no file was used.
    pub shares: Vec<DeviceShare>,
    /// The measured time, frame by frame.
    pub series: Vec<Point>,
    /// Classification of the series; unknown without a series, and if jobs began one after the other on
    /// purpose.
    pub behaviour: Behaviour,
    /// What each of several nodes did, in the order of the plan; empty with one node.
    pub nodes: Vec<NodeSummary>,
    /// The rates in the time in which all of several nodes measured, as far as whole frames lie in it.
    pub common: Option<Point>,
    /// The times in which no op of a node completed, of several nodes; `None` if they are not known of every node.
    pub stalls: Option<NodeStalls>,
    /// The nodes that were only sampled, in the order of the plan.
    pub sampled: Vec<SampledNode>,
}

/// A node that was only sampled during the trial.
#[derive(Debug, Clone, PartialEq)]
pub struct SampledNode {
    /// Its name.
    pub name: String,
    /// Number of online logical CPUs.
    pub cpus: u32,
    /// The use of its host.
    pub host: HostUse,
}

impl SampledNode {
    /// Number of CPUs that were busy, with interrupts and without stolen time; `None`: unknown.
    pub fn busy_cpus(&self) -> Option<f64> {
        let host = &self.host;
        let busy_ns = host.user_ns + host.system_ns + host.irq_ns;
        (host.span_ns > 0 && busy_ns > 0).then(|| busy_ns as f64 / host.span_ns as f64)
    }

    /// Percentage of the CPUs' time in this state, ns.
    pub fn percent(&self, state_ns: u64) -> f64 {
        let host = &self.host;
        let working_ns = host.user_ns + host.system_ns + host.irq_ns;
        let all_ns = working_ns + host.idle_ns + host.iowait_ns + host.steal_ns;
        state_ns as f64 * 100.0 / all_ns.max(1) as f64
    }
}

/// What one of several nodes did.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeSummary {
    /// Its name.
    pub name: String,
    /// All its clones, by direction.
    pub rows: Vec<Row>,
    /// Start and end of its measured time, ns after the start instant that all nodes agreed on; `None` if nothing was
    /// measured.
    pub measured_ns: Option<(u64, u64)>,
    /// The longest time in which none of its ops completed, ns. If only its frames are known, in whole frames of about
    /// one second. 0: none was as long as those that are kept.
    pub longest_stall_ns: u64,
}

/// The times in which no op of a node completed, of all nodes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeStalls {
    /// Those of at least this length are counted, ns.
    pub least_ns: u64,
    /// Their number, over all nodes.
    pub count: u64,
    /// How often several nodes had one at the same time.
    pub at_once: u64,
    /// The longest time in which several nodes had one at the same time, ns.
    pub longest_at_once_ns: u64,
}

impl Summary {
    /// Number of cores that all processes under test kept busy; `None` if none was sampled.
    pub fn server_cores(&self) -> Option<f64> {
        let sampled = self.servers.iter().any(|server| server.span_ns > 0);
        sampled.then(|| self.servers.iter().map(ServerUse::cores).sum())
    }

    /// Their CPU time per op, ns; `None` without ops or samples. The load at the edges of the measured time is
    /// assumed to equal that of the samples.
    pub fn server_ns_per_op(&self) -> Option<f64> {
        let cores = self.server_cores()?;
        (self.cpu.ops > 0 && self.cpu.span_ns > 0)
            .then(|| cores * self.cpu.span_ns as f64 / self.cpu.ops as f64)
    }
}
