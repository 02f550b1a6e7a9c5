//! Measurements of one node.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Direction, Environment, Histogram, PriorityResult, SamplerCost, SteadyResult};

/// A step of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Storage layers are created.
    Provision,
    /// Files are created and filled.
    LayOut,
    /// I/O runs but is not counted.
    Ramp,
    /// I/O runs and is counted.
    Measure,
    /// No new ops are submitted; ops in flight complete.
    Drain,
    /// fsync of all files.
    EndFsync,
    /// Written data are read back.
    VerifyPass,
    /// Files and storage layers are removed.
    TearDown,
}

impl Step {
    /// Every step, in order.
    pub const ALL: [Step; 8] = [
        Step::Provision,
        Step::LayOut,
        Step::Ramp,
        Step::Measure,
        Step::Drain,
        Step::EndFsync,
        Step::VerifyPass,
        Step::TearDown,
    ];

    /// Its name in text and CSV.
    pub fn name(self) -> &'static str {
        match self {
            Step::Provision => "provision",
            Step::LayOut => "lay out",
            Step::Ramp => "ramp",
            Step::Measure => "measure",
            Step::Drain => "drain",
            Step::EndFsync => "end_fsync",
            Step::VerifyPass => "verify",
            Step::TearDown => "tear down",
        }
    }

    /// The step that took most of a period that ends at `at_ns` on the trial's clock; of equals the later one. `None`:
    /// no step, as between layout and start.
    pub fn of_period(steps: &[StepTime], at_ns: i64, span_ns: u64) -> Option<Step> {
        let period = (at_ns.saturating_sub_unsigned(span_ns), at_ns);
        let shared = |time: &StepTime| {
            let end = time.start_ns.saturating_add_unsigned(time.span_ns);
            end.min(period.1)
                .saturating_sub(time.start_ns.max(period.0))
        };
        let longest = |step: &Step| {
            let of_step = steps.iter().filter(|time| time.step == *step);
            of_step.map(shared).max().unwrap_or(0)
        };
        let step = Step::ALL.into_iter().max_by_key(longest)?;
        (longest(&step) > 0).then_some(step)
    }
}

/// Duration of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepTime {
    /// The step.
    pub step: Step,
    /// The job it belongs to; `None`: the whole trial.
    pub job: Option<u32>,
    /// Start on the trial's clock, ns; negative before the start instant.
    pub start_ns: i64,
    /// Duration, ns; the longest of a job's clones.
    pub span_ns: u64,
}

/// Why a clone ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// Its runtime was over.
    Runtime,
    /// Its size (or io_size, or loops) was reached.
    Size,
    /// Its number of ops was reached.
    Count,
    /// The user, a signal, or the parent's death.
    Interruption,
    /// The storage made no progress ([`crate::Plan::stuck_after_ns`]).
    Stuck,
    /// An op failed.
    Error,
    /// Another job's `exitall`.
    ExitAll,
    /// Its figures were steady.
    Steady,
    /// It did not start.
    NotStarted,
}

/// Mean and extremes of a windowed rate (fio's bw and iops samples, every 500 ms).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct SampleStats {
    /// Number of samples.
    pub samples: u64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation of the sample.
    pub stddev: f64,
}

impl SampleStats {
    /// Adds the values of a clone that ran at the same time: rates of a group are sums (fio's rule).
    pub fn add(&mut self, other: &SampleStats) {
        self.samples += other.samples;
        self.min += other.min;
        self.max += other.max;
        self.mean += other.mean;
        // The clones' rates are assumed to be independent: variances add up.
        self.stddev = self.stddev.hypot(other.stddev);
    }
}

/// Computes [`SampleStats`] from single samples, in one pass (Welford 1962).
#[derive(Debug, Clone, Copy, Default)]
pub struct RunningStats {
    stats: SampleStats,
    /// Sum of squared deviations from the mean.
    squares: f64,
}

impl RunningStats {
    /// Adds a sample.
    pub fn add(&mut self, value: f64) {
        let stats = &mut self.stats;
        (stats.min, stats.max) = match stats.samples {
            0 => (value, value),
            _ => (stats.min.min(value), stats.max.max(value)),
        };
        stats.samples += 1;
        let deviation = value - stats.mean;
        stats.mean += deviation / stats.samples as f64;
        self.squares += deviation * (value - stats.mean);
    }

    /// Number of samples.
    pub fn samples(&self) -> u64 {
        self.stats.samples
    }

    /// The statistics of the samples so far; the standard deviation of a single one is 0.
    pub fn stats(&self) -> SampleStats {
        SampleStats {
            stddev: match self.stats.samples {
                0 | 1 => 0.0,
                samples => (self.squares / (samples - 1) as f64).sqrt(),
            },
            ..self.stats
        }
    }
}

/// Results of one clone in one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DirectionResult {
    /// Direction.
    pub direction: Direction,
    /// Number of ops completed in the measured time, without failed ones.
    pub ops: u64,
    /// Bytes transferred in the measured time.
    pub bytes: u64,
    /// Ops that moved less than requested and were continued.
    pub short: u64,
    /// Measured time, ns.
    pub runtime_ns: u64,
    /// Duration of submission calls, ns; only if submission is a separate call.
    pub submission: Option<Histogram>,
    /// From the end of the submission call to completion, ns; only if submission is a separate call.
    #[serde(default)]
    pub completion: Option<Histogram>,
    /// Service latency: submitted → completed, ns.
    pub service: Histogram,
    /// Response latency: intended → completed, ns; if a rate was requested.
    pub response: Option<Histogram>,
    /// Latencies by priority, if ops have priorities of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub priorities: Vec<PriorityResult>,
    /// Bytes/s.
    pub bandwidth: SampleStats,
    /// Ops/s.
    pub iops: SampleStats,
}

impl DirectionResult {
    /// The result of a direction without ops.
    pub fn empty(direction: Direction) -> DirectionResult {
        DirectionResult {
            direction,
            ops: 0,
            bytes: 0,
            short: 0,
            runtime_ns: 0,
            submission: None,
            completion: None,
            service: Histogram::default(),
            response: None,
            priorities: Vec::new(),
            bandwidth: SampleStats::default(),
            iops: SampleStats::default(),
        }
    }

    /// fio's completion latency: without the submission call if that is a separate call.
    pub fn after_submission(&self) -> &Histogram {
        self.completion.as_ref().unwrap_or(&self.service)
    }

    /// Adds a clone that ran at the same time: counts and distributions add up, the runtime is the longest
    /// (fio's rule for groups).
    pub fn add(&mut self, other: &DirectionResult) {
        let merge = |into: &mut Option<Histogram>, from: &Option<Histogram>| {
            if let Some(from) = from {
                into.get_or_insert_default().merge(from);
            }
        };
        self.ops += other.ops;
        self.bytes += other.bytes;
        self.short += other.short;
        self.runtime_ns = self.runtime_ns.max(other.runtime_ns);
        merge(&mut self.submission, &other.submission);
        merge(&mut self.completion, &other.completion);
        self.service.merge(&other.service);
        merge(&mut self.response, &other.response);
        for result in &other.priorities {
            let mut own = self.priorities.iter_mut();
            match own.find(|own| own.priority == result.priority) {
                Some(own) => own.latency.merge(&result.latency),
                None => self.priorities.push(result.clone()),
            }
        }
        self.bandwidth.add(&other.bandwidth);
        self.iops.add(&other.iops);
    }
}

/// CPU time of a clone's thread in the measured time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CpuUse {
    /// In user mode, ns.
    pub user_ns: u64,
    /// In the kernel, ns.
    pub system_ns: u64,
    /// Voluntary context switches.
    pub voluntary: u64,
    /// Involuntary context switches.
    pub involuntary: u64,
    /// Minor page faults.
    pub minor_faults: u64,
    /// Major page faults.
    pub major_faults: u64,
    /// Time in which the thread was ready to run and waited for a CPU, ns (/proc/PID/task/TID/schedstat); `None`:
    /// unknown.
    #[serde(default)]
    pub run_delay_ns: Option<u64>,
}

/// Number of ops in flight at each submission, and batch sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DepthUse {
    /// Ops submitted at a depth of 1, 2–3, 4–7, 8–15, 16–31, 32–63, ≥ 64.
    pub level: [u64; 7],
    /// Ops submitted in batches of 0, 1–4, 5–8, 9–16, 17–32, 33–64, > 64.
    pub submit: [u64; 7],
    /// Ops reaped in batches of 0, 1–4, 5–8, 9–16, 17–32, 33–64, > 64.
    pub complete: [u64; 7],
    /// Kernel entries.
    pub turns: u64,
    /// The depth that a search by latency ended at; 0: there was none.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub found: u32,
}

/// Failed ops with the same direction and errno.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCount {
    /// Direction.
    pub direction: Direction,
    /// errno.
    pub errno: i32,
    /// Number of failures.
    pub count: u64,
    /// File of the first failure.
    pub first_file: String,
    /// Offset of the first failure in its file, bytes.
    pub first_offset: u64,
    /// Length of the op that failed first, bytes; 0: unknown, or the op has none.
    #[serde(default)]
    pub first_length: u64,
}

/// Result of verification.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct VerifyResult {
    /// Blocks checked.
    pub checked: u64,
    /// Blocks whose checksum does not match their content: torn or corrupt.
    pub corrupt: u64,
    /// Complete blocks that belong to another offset or file.
    pub misplaced: u64,
    /// Complete blocks of the right offset from an earlier write.
    pub stale: u64,
    /// Blocks without a header of iodyno.
    pub foreign: u64,
    /// Blocks that were not checked, because it is not known that their last write was done: it failed, was not made,
    /// or was a trim.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub unchecked: u64,
    /// Description of the first bad block: file, offset, expected, found.
    pub first: Option<String>,
    /// The first bad blocks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bad_blocks: Vec<BadBlock>,
}

/// A block whose data differ from what was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadBlock {
    /// File.
    pub file: String,
    /// Offset in the file, bytes.
    #[serde(rename = "offset_bytes")]
    pub offset: u64,
    /// Length, bytes.
    #[serde(rename = "length_bytes")]
    pub length: u64,
    /// What was found in its place, and what was expected where that is known.
    pub found: String,
    /// The option with which a block that is whole could be verified: `verify=crc32c`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fitting: Option<String>,
}

impl VerifyResult {
    /// Maximum number of bad blocks that are named; the others are counted.
    pub const MAX_NAMED: usize = 10;

    /// What to do if named blocks were written with other options; `None` if there are none.
    pub fn remedy<'r>(results: impl IntoIterator<Item = &'r VerifyResult>) -> Option<String> {
        let blocks = results.into_iter().flat_map(|result| &result.bad_blocks);
        let mut options: Vec<String> = Vec::new();
        for option in blocks.filter_map(|block| block.fitting.as_ref()) {
            let option = format!("`{option}`");
            if !options.contains(&option) {
                options.push(option);
            }
        }
        let written = "to verify the blocks as they were written";
        (!options.is_empty()).then(|| format!("use {}, {written}", options.join(" or ")))
    }

    /// Adds the results of another clone.
    pub fn add(&mut self, other: &VerifyResult) {
        self.checked += other.checked;
        self.corrupt += other.corrupt;
        self.misplaced += other.misplaced;
        self.stale += other.stale;
        self.foreign += other.foreign;
        self.unchecked += other.unchecked;
        self.first = self.first.take().or_else(|| other.first.clone());
        let room = VerifyResult::MAX_NAMED.saturating_sub(self.bad_blocks.len());
        let named = other.bad_blocks.iter().take(room).cloned();
        self.bad_blocks.extend(named);
    }

    /// Number of bad blocks of all kinds.
    pub fn bad(&self) -> u64 {
        self.corrupt + self.misplaced + self.stale + self.foreign
    }

    /// Names a bad block, unless enough are named.
    pub fn name(&mut self, block: BadBlock) {
        self.first.get_or_insert_with(|| {
            format!(
                "{} at offset {}: found {}",
                block.file, block.offset, block.found
            )
        });
        if self.bad_blocks.len() < VerifyResult::MAX_NAMED {
            self.bad_blocks.push(block);
        }
    }
}

/// The engine and the features in use.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EngineUsed {
    /// fio's name.
    pub name: String,
    /// Depth used.
    pub depth: u32,
    /// Features used (`registered files`, `defer_taskrun`, …).
    pub features: Vec<String>,
    /// Requested features that were not available, with the reason.
    pub fallbacks: Vec<String>,
}

/// Everything one clone measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CloneResult {
    /// Index of the job in the workload.
    pub job: u32,
    /// Number of the clone in the job, from 0.
    pub clone: u32,
    /// Start of its measured time on the trial's clock, ns.
    pub start_ns: u64,
    /// Measured time, ns.
    pub runtime_ns: u64,
    /// When its work was stored as its job requires: the end of its drain and of its end fsync on the
    /// trial's clock, ns; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_ns: Option<u64>,
    /// Why it ended.
    pub ended: EndedBy,
    /// Only directions with ops or errors.
    pub directions: Vec<DirectionResult>,
    /// Reads that only verify what the clone itself wrote; they are not part of `directions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify_reads: Option<DirectionResult>,
    /// CPU.
    pub cpu: CpuUse,
    /// Depths.
    pub depth: DepthUse,
    /// Failed ops.
    pub errors: Vec<ErrorCount>,
    /// Result of verification, if requested.
    pub verify: Option<VerifyResult>,
    /// Engine in use.
    pub engine: EngineUsed,
    /// Total size of its region in all files, bytes.
    pub region_bytes: u64,
    /// Files in use (the first few).
    pub files: Vec<String>,
    /// Maximum delay between a completion and its detection, ns: p50 and p99.
    pub stamp_window_ns: (u64, u64),
    /// Ops that were still in flight when the storage was found stuck or the clone was given up, the oldest first (the
    /// first few).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_flight: Vec<OpInFlight>,
    /// Ops that were due by the end of the runtime and not issued; empty if there were none, or no rate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<MissedOps>,
    /// Whether it became steady, if its job ends then. With group reporting, that of the group, in its first clone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<SteadyResult>,
}

/// Ops that were due by the rate that a job asks for, and not issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissedOps {
    /// The direction that has the rate; `None`: the rate is that of all ops of the clone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// Their number; estimated if intervals are random or block sizes vary.
    pub ops: u64,
}

impl MissedOps {
    /// `None` if there are none.
    pub fn some(direction: Option<Direction>, ops: u64) -> Option<MissedOps> {
        (ops > 0).then_some(MissedOps { direction, ops })
    }
}

/// An op that did not complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpInFlight {
    /// Its kind.
    pub direction: Direction,
    /// The file, or the folder of file operations.
    pub file: String,
    /// Offset in the file, bytes; `None` for syncs and file operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// When it began, on the trial's clock, ns.
    pub since_ns: u64,
}

impl CloneResult {
    /// Number of ops of this direction, or of all (`None`), that were due and not issued.
    pub fn missed_ops(&self, direction: Option<Direction>) -> u64 {
        let missed = self.missed.iter();
        let missed = missed.filter(|missed| missed.direction == direction);
        missed.map(|missed| missed.ops).sum()
    }

    /// The result of a direction.
    pub fn direction(&self, direction: Direction) -> Option<&DirectionResult> {
        self.directions
            .iter()
            .find(|result| result.direction == direction)
    }
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

/// What was sent to the legs of mirrors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LegUse {
    /// Requests.
    pub requests: u64,
    /// Commands that contained them: each has one, or several that were merged.
    pub commands: u64,
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
    /// Requests by completed ops of the jobs in this direction; `None`: there were no such ops.
    pub requests_per_op: Option<f64>,
    /// Mean service latency of these ops, ns.
    pub op_ns: Option<f64>,
    /// From the creation of a request to its issue to the driver.
    pub queue: StageTimes,
    /// From the issue to the completion.
    pub service: StageTimes,
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

/// A file or device as found or created by the trial.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FileState {
    /// Path.
    pub path: String,
    /// Length when the jobs started, bytes.
    pub length: u64,
    /// Bytes in holes and in extents that were reserved but never written; `None` if the file system does
    /// not report them.
    pub unwritten: Option<u64>,
    /// Whether a job reads it, other than to verify its own writes.
    #[serde(default)]
    pub read: bool,
    /// Whether this trial laid it out.
    pub laid_out: bool,
    /// Whether it is a block device.
    pub device: bool,
}

/// Whether the host came to rest before a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Settled {
    /// The plan asks for it.
    pub asked: bool,
    /// Caches were not dropped.
    pub caches_kept: bool,
    /// Devices below the targets were still at work.
    pub devices_busy: bool,
}

impl fmt::Display for Settled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.asked, self.caches_kept, self.devices_busy) {
            (false, ..) => "not asked for",
            (true, false, false) => "yes",
            (true, true, false) => "caches kept",
            (true, false, true) => "devices busy",
            (true, true, true) => "caches kept, devices busy",
        })
    }
}

/// The offset of a node's clock from the lab's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockOffset {
    /// Node − lab, ns.
    pub offset_ns: i64,
    /// Maximum error of the offset, ns.
    pub error_ns: u64,
    /// When it was read, on the lab's clock, ns; 0: not known (trials of older versions).
    #[serde(default)]
    pub at_ns: u64,
}

/// The rate of a node's clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockRate {
    /// Time of the node that passes in one unit of the lab's time.
    pub rate: f64,
    /// Maximum error of the rate.
    pub error: f64,
}

impl ClockRate {
    /// Whether it is certain that the rate differs from the lab's by more than this share.
    pub fn is_off_by(&self, share: f64) -> bool {
        (self.rate - 1.0).abs() - self.error > share
    }
}

impl ClockOffset {
    /// Before it is known.
    pub const UNKNOWN: ClockOffset = ClockOffset {
        offset_ns: 0,
        error_ns: u64::MAX,
        at_ns: 0,
    };

    /// The node read `node_ns` between these two instants of the lab's clock. It is assumed to be halfway; the
    /// maximum error is half of the round trip.
    pub fn of_round_trip(sent_ns: u64, node_ns: u64, received_ns: u64) -> ClockOffset {
        let round_trip_ns = received_ns.saturating_sub(sent_ns);
        let halfway_ns = sent_ns + round_trip_ns / 2;
        ClockOffset {
            offset_ns: node_ns.wrapping_sub(halfway_ns).cast_signed(),
            error_ns: round_trip_ns.div_ceil(2),
            at_ns: halfway_ns,
        }
    }

    /// The rate of the node's clock between this reading and a later one; `None` if the time between them is not known.
    pub fn rate_until(&self, later: &ClockOffset) -> Option<ClockRate> {
        let span_ns = later.at_ns.checked_sub(self.at_ns)?;
        if self.at_ns == 0 || span_ns == 0 {
            return None;
        }
        let drift_ns = later.offset_ns.saturating_sub(self.offset_ns);
        Some(ClockRate {
            rate: 1.0 + drift_ns as f64 / span_ns as f64,
            error: (self.error_ns as f64 + later.error_ns as f64) / span_ns as f64,
        })
    }
}

/// What one node measured in a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The node's name; `local` if the plan names none.
    pub node: String,
    /// Node clock − lab clock at the start, ns.
    pub clock_offset_ns: i64,
    /// Maximum error of `clock_offset_ns`, ns.
    pub clock_error_ns: u64,
    /// When `clock_offset_ns` was read, on the lab's clock, ns; 0: not known.
    #[serde(default)]
    pub clock_at_ns: u64,
    /// The same after the end; `None` if it was not read, as with a single local node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_after: Option<ClockOffset>,
    /// From the start instant that all nodes agreed on to 0 of the trial's clock, ns: more than 0 if the command to
    /// start arrived after that instant.
    #[serde(default)]
    pub start_late_ns: u64,
    /// Wall clock at 0 of the trial's clock, ms since 1970; `None` if unknown (trials of older versions), and in
    /// virtual time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_unix_ms: Option<u64>,
    /// Its environment.
    pub environment: Environment,
    /// Results of all clones of all jobs.
    pub clones: Vec<CloneResult>,
    /// Steps.
    pub steps: Vec<StepTime>,
    /// Counters of the host.
    pub host: HostUse,
    /// Files and devices in use (at most the first 1000).
    pub files: Vec<FileState>,
    /// Remarks from the preparation that concern the figures, as text.
    pub notes: Vec<String>,
    /// Whether the host came to rest before the trial; `None` if unknown (trials of older versions) or if it does not
    /// matter (simulated devices).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<Settled>,
    /// Cost of sampling the host, by series.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sampling: Vec<SamplerCost>,
    /// The times in which none of its ops completed; `None` if unknown: the trial was rebuilt from its frames, or is of
    /// an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<Stalls>,
}

/// The times in the measured time of a part in which no op of any of its clones completed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stalls {
    /// All that are at least this long are listed, ns.
    pub least_ns: u64,
    /// Start on the trial's clock and length of each, ns, ascending.
    pub list: Vec<(u64, u64)>,
}

impl Stalls {
    /// The longest list: if there are more, the shorter ones are left out.
    pub const MOST: usize = 256;

    /// The longest one, ns; 0: there is none of at least [`Stalls::least_ns`].
    pub fn longest_ns(&self) -> u64 {
        self.list
            .iter()
            .map(|(_, span_ns)| *span_ns)
            .max()
            .unwrap_or(0)
    }
}

impl Part {
    /// Whether its node had no jobs: it was only sampled.
    pub fn only_sampled(&self) -> bool {
        self.clones.is_empty()
    }

    /// From the start instant of all nodes to its first measured op, ns; `None` if no clone was measured.
    pub fn measured_from_ns(&self) -> Option<u64> {
        let measured = self.clones.iter().filter(|clone| clone.runtime_ns > 0);
        let first = measured.map(|clone| clone.start_ns).min()?;
        Some(first.saturating_add(self.start_late_ns))
    }

    /// From the start instant of all nodes to the end of its last measured op, ns; `None` if no clone was measured.
    pub fn measured_until_ns(&self) -> Option<u64> {
        let measured = self.clones.iter().filter(|clone| clone.runtime_ns > 0);
        let ends = measured.map(|clone| clone.start_ns.saturating_add(clone.runtime_ns));
        Some(ends.max()?.saturating_add(self.start_late_ns))
    }

    /// How far the node's clock drifted from the lab's between the two readings, with its maximum error, ns.
    pub fn clock_drift_ns(&self) -> Option<(i64, u64)> {
        let after = self.clock_after?;
        let drift = after.offset_ns.saturating_sub(self.clock_offset_ns);
        Some((drift, after.error_ns.saturating_add(self.clock_error_ns)))
    }

    /// The rate of the node's clock between the two readings.
    pub fn clock_rate(&self) -> Option<ClockRate> {
        let before = ClockOffset {
            offset_ns: self.clock_offset_ns,
            error_ns: self.clock_error_ns,
            at_ns: self.clock_at_ns,
        };
        before.rate_until(&self.clock_after?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_a_clock_is_known_to_the_errors_of_its_readings() {
        let read = |at_ns, offset_ns, error_ns| ClockOffset {
            offset_ns,
            error_ns,
            at_ns,
        };
        let first = read(1_000, -5_000_000, 50_000);
        // 400 ms more passed in 100 ms.
        let fast = first.rate_until(&read(100_001_000, 395_000_000, 50_000));
        let fast = fast.unwrap();
        assert!((fast.rate - 5.0).abs() < 1e-9 && (fast.error - 0.001).abs() < 1e-9);
        assert!(fast.is_off_by(0.03));
        // 3 % less, ± 0.1 %.
        let slow = first.rate_until(&read(100_001_000, -8_000_000, 50_000));
        let slow = slow.unwrap();
        assert!(slow.is_off_by(0.028) && !slow.is_off_by(0.0295));
        assert_eq!(read(0, 0, 0).rate_until(&read(1_000, 0, 0)), None);
        assert_eq!(first.rate_until(&first), None);
        assert_eq!(first.rate_until(&read(0, 0, 0)), None);
    }

    #[test]
    fn a_period_belongs_to_the_step_that_took_most_of_it() {
        let time = |step, start_ns, span_ns| StepTime {
            step,
            job: None,
            start_ns,
            span_ns,
        };
        let steps = [
            time(Step::LayOut, -100, 60),
            time(Step::Ramp, 0, 20),
            time(Step::Measure, 20, 70),
            time(Step::Measure, 20, 80),
            time(Step::Drain, 100, 5),
            time(Step::EndFsync, 105, 30),
        ];
        for (at_ns, span_ns, expected) in [
            (-50, 50, Some(Step::LayOut)),
            (-40, 20, Some(Step::LayOut)),
            (-10, 20, None),
            (0, 100, Some(Step::LayOut)),
            (10, 10, Some(Step::Ramp)),
            (40, 40, Some(Step::Measure)),
            (39, 39, Some(Step::Ramp)),
            (100, 5, Some(Step::Measure)),
            (120, 20, Some(Step::EndFsync)),
            (200, 10, None),
            (i64::MAX, u64::MAX, Some(Step::Measure)),
            (i64::MIN, 1, None),
        ] {
            let found = Step::of_period(&steps, at_ns, span_ns);
            assert_eq!(found, expected, "{at_ns} {span_ns}");
        }
    }

    #[test]
    fn a_round_trip_bounds_the_offset() {
        for (sent, node, received, offset, error) in [
            (100, 100, 100, 0, 0),
            (100, 150, 200, 0, 50),
            (100, 1150, 201, 1000, 51),
            (5000, 150, 5100, -4900, 50),
        ] {
            let read = ClockOffset::of_round_trip(sent, node, received);
            assert_eq!((read.offset_ns, read.error_ns), (offset, error));
        }
    }
}
