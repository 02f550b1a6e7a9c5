//! Jobs in fio's sense, with all defaults filled in.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use iodyno_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::{Buffers, Direction, ErrorPolicy, IoPriority, Pacing, Place, SteadyRule, Work};

/// When a job may start.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum After {
    /// At the start of the trial.
    #[default]
    Start,
    /// When all jobs before it have ended.
    AllBefore,
    /// When all clones of the job of this name have ended.
    Job(String),
}

/// A delay, drawn uniformly from this range for each clone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Span {
    /// Minimum.
    pub min: Nanos,
    /// Maximum.
    pub max: Nanos,
}

/// The clones that end when a job ends that has `exit_all`, or fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitScope {
    /// Those of its group, also if they have not started.
    #[default]
    Group,
    /// Those that run, of all groups. Jobs behind a stonewall follow.
    Stonewall,
    /// All; those that have not started never will.
    All,
}

/// When a job ends: the first condition that is met.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct JobEnd {
    /// Measured time.
    pub runtime: Option<Nanos>,
    /// Number of ops.
    pub ops: Option<u64>,
    /// Time before statistics begin; added to `runtime`.
    pub ramp: Nanos,
    /// A full file system or device ends the job without an error.
    #[serde(default)]
    pub until_full: bool,
    /// Its figures, or those of its group, are steady.
    #[serde(default)]
    pub steady: Option<SteadyRule>,
}

/// Log files in fio's formats; the values are prefixes of their names.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Logs {
    /// `PREFIX_bw.N.log`.
    pub bandwidth: Option<PathBuf>,
    /// `PREFIX_iops.N.log`.
    pub iops: Option<PathBuf>,
    /// `PREFIX_lat.N.log`, `PREFIX_clat.N.log`, `PREFIX_slat.N.log`.
    pub latency: Option<PathBuf>,
    /// `PREFIX_clat_hist.N.log`.
    #[serde(default)]
    pub histogram: Option<PathBuf>,
    /// Averaging window in ms; 0: every op.
    pub window_ms: u64,
    /// Interval of the histograms in ms; 0: none are logged.
    #[serde(default)]
    pub histogram_ms: u64,
    /// log2 of the number of fio's bins that a logged bin combines, at most 6.
    #[serde(default)]
    pub coarseness: u32,
    /// Log the largest value of the window instead of its mean.
    pub max_value: bool,
    /// Log the mean and the largest value of the window.
    #[serde(default)]
    pub both_values: bool,
    /// Log the offset of each op.
    pub offset: bool,
    /// Number of the kernel's clock (`clockid_t`) whose time the log's times are; `None`: they begin with the
    /// measured time.
    #[serde(default)]
    pub epoch_clock: Option<u32>,
    /// The ops as an iolog of version 3, for replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iolog: Option<PathBuf>,
    /// Log the I/O priority of each op; otherwise whether it is real time.
    #[serde(default)]
    pub priority: bool,
    /// Log when each op was issued, ns since the start.
    #[serde(default)]
    pub issue_time: bool,
    /// All clones append to the same file, without a number in its name.
    #[serde(default)]
    pub shared: bool,
    /// The logs are compressed; their names end in `.fz`.
    #[serde(default)]
    pub compressed: bool,
    /// The logs of latencies that are not written.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub left_out: LeftOut,
}

/// Some of fio's latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LeftOut {
    /// `slat`.
    pub submission: bool,
    /// `clat`.
    pub completion: bool,
    /// `lat`.
    pub total: bool,
}

impl Logs {
    /// The prefixes or names of all files that are written.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        // Every field is listed, so that a new one cannot be forgotten: permission to write depends on it.
        let Logs {
            bandwidth,
            iops,
            latency,
            histogram,
            iolog,
            window_ms: _,
            histogram_ms: _,
            coarseness: _,
            max_value: _,
            both_values: _,
            offset: _,
            epoch_clock: _,
            priority: _,
            issue_time: _,
            shared: _,
            compressed: _,
            left_out: _,
        } = self;
        [bandwidth, iops, latency, histogram, iolog]
            .into_iter()
            .flatten()
    }
}

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

/// How the job's figures are grouped and reported.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reporting {
    /// Group number: jobs of one number are one group (fio's `groupid`).
    pub group: u32,
    /// Report the clones and jobs of a group as one.
    pub together: bool,
    /// Percentiles to report, in percent.
    pub percentiles: Vec<f64>,
    /// fio's output formats leave the job out (`stats=0`).
    #[serde(default)]
    pub hidden: bool,
    /// The latencies whose percentiles fio's formats contain.
    #[serde(default)]
    pub percentiles_of: PercentilesOf,
    /// Whether fio's formats add up the directions.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub unified: UnifiedReporting,
    /// Significant digits of rates and sizes in fio's text, 1 to 10.
    #[serde(default = "Reporting::default_digits")]
    pub digits: u32,
    /// Rates in fio's text are in bits per second.
    #[serde(default)]
    pub bits: bool,
    /// Prefixes in fio's text are powers of 1000 first; otherwise powers of 1024 first.
    #[serde(default)]
    pub decimal: bool,
}

/// Whether fio's formats report reads, writes and trims as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnifiedReporting {
    /// Each direction.
    #[default]
    None,
    /// Only their sum.
    Mixed,
    /// Each direction, then their sum.
    Both,
}

/// A choice of fio's latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PercentilesOf {
    /// Duration of the submission (`slat`).
    pub submission: bool,
    /// Submission to completion (`clat`).
    pub completion: bool,
    /// Both (`lat`).
    pub total: bool,
}

impl Default for PercentilesOf {
    fn default() -> Self {
        PercentilesOf {
            submission: false,
            completion: true,
            total: false,
        }
    }
}

impl Reporting {
    /// fio's default list.
    pub const PERCENTILES: [f64; 17] = [
        1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9,
        99.95, 99.99,
    ];

    /// fio's default of `significant_figures`.
    fn default_digits() -> u32 {
        4
    }
}

impl Default for Reporting {
    fn default() -> Self {
        Reporting {
            group: 0,
            together: false,
            percentiles: Self::PERCENTILES.to_vec(),
            hidden: false,
            percentiles_of: PercentilesOf::default(),
            unified: UnifiedReporting::default(),
            digits: Self::default_digits(),
            bits: false,
            decimal: false,
        }
    }
}

/// A job: the same work on `clones` threads at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Name; may not be unique.
    pub name: String,
    /// Free text.
    pub description: String,
    /// Location of its definition.
    pub place: Option<Place>,
    /// Number of workers; at least 1.
    pub clones: u32,
    /// Condition to start.
    pub after: After,
    /// Additional delay after that condition.
    pub delay: Span,
    /// When this job ends, the clones of `exit_what` end.
    pub exit_all: bool,
    /// Which clones end with this job, or when it fails.
    #[serde(default)]
    pub exit_what: ExitScope,
    /// Work to do.
    pub work: Work,
    /// End conditions.
    pub end: JobEnd,
    /// Rates.
    pub pacing: Pacing,
    /// Memory and contents of the buffers.
    pub buffers: Buffers,
    /// What happens after a failed op.
    pub errors: ErrorPolicy,
    /// Log files.
    pub logs: Logs,
    /// CPUs and NUMA nodes.
    pub placement: Placement,
    /// Grouping of its figures.
    pub reporting: Reporting,
    /// A shell command that each clone runs at its start, before its time begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec_prerun: Option<String>,
    /// A shell command that each clone runs after its work, unless that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec_postrun: Option<String>,
    /// The options as written (name → value), including global ones: for fio's JSON.
    pub options: BTreeMap<String, String>,
    /// The names of those that are only in global sections.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub inherited: BTreeSet<String>,
}

impl Job {
    /// The priorities that its ops of a direction can have, that of the job first; empty if they all have that one.
    pub fn op_priorities(&self, direction: Direction) -> Vec<IoPriority> {
        let Work::Blocks(blocks) = &self.work else {
            return Vec::new();
        };
        let mut priorities = Vec::new();
        for share in &blocks.priorities {
            if share.direction != direction {
                continue;
            }
            if priorities.is_empty() {
                priorities.push(self.placement.priority().unwrap_or_default());
            }
            if !priorities.contains(&share.priority) {
                priorities.push(share.priority);
            }
        }
        priorities
    }

    /// Whether its ops have an intended time: by a rate, or by the times of a trace.
    pub fn scheduled(&self) -> bool {
        self.pacing.scheduled() || self.work.replay().is_some_and(|replay| !replay.no_stall)
    }
}

impl Default for Job {
    /// One clone of sequential 4 KiB reads, without a name.
    fn default() -> Job {
        Job {
            name: String::new(),
            description: String::new(),
            place: None,
            clones: 1,
            after: Default::default(),
            delay: Default::default(),
            exit_all: false,
            exit_what: Default::default(),
            work: Default::default(),
            end: Default::default(),
            pacing: Default::default(),
            buffers: Default::default(),
            errors: Default::default(),
            logs: Default::default(),
            placement: Default::default(),
            reporting: Default::default(),
            options: Default::default(),
            exec_prerun: None,
            exec_postrun: None,
            inherited: Default::default(),
        }
    }
}
