//! One stream of I/O, in fio's sense, with every default filled in.

use std::collections::BTreeMap;
use std::path::PathBuf;

use iodyno_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::{Buffers, ErrorPolicy, Pacing, Place, Work};

/// When a job may begin.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum After {
    /// With the trial.
    #[default]
    Start,
    /// When all jobs before it have ended.
    AllBefore,
    /// When all clones of the job of this name have ended.
    Job(String),
}

/// A delay drawn uniformly between both for each clone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Span {
    /// At least.
    pub min: Nanos,
    /// At most.
    pub max: Nanos,
}

/// What ends a job; the first condition that comes true.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct JobEnd {
    /// After this much measured time.
    pub runtime: Option<Nanos>,
    /// After this many ops.
    pub ops: Option<u64>,
    /// Statistics begin after this; added to `runtime`.
    pub ramp: Nanos,
    /// A full file system or device ends the job without an error.
    #[serde(default)]
    pub until_full: bool,
}

/// Log files in fio's formats; prefixes of their names.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Logs {
    /// `PREFIX_bw.N.log`.
    pub bandwidth: Option<PathBuf>,
    /// `PREFIX_iops.N.log`.
    pub iops: Option<PathBuf>,
    /// `PREFIX_lat.N.log`, `PREFIX_clat.N.log`, `PREFIX_slat.N.log`.
    pub latency: Option<PathBuf>,
    /// Averaged over so many ms; 0: every op (latency), or 500 ms (bw, iops).
    pub window_ms: u64,
    /// Log the window's largest value in place of its mean.
    pub max_value: bool,
    /// Log the op's offset.
    pub offset: bool,
}

/// Where the threads run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Placement {
    /// CPUs; empty: anywhere.
    pub cpus: Vec<u32>,
    /// Each clone gets one of them in turn; otherwise all share the set.
    pub split: bool,
    /// NUMA nodes whose CPUs are used; empty: any.
    pub numa_cpu_nodes: Vec<u32>,
    /// NUMA nodes the buffers come from; empty: any.
    pub numa_memory_nodes: Vec<u32>,
    /// setpriority's value.
    pub nice: i32,
    /// I/O class and level (ioprio_set), fio's `prioclass` and `prio`.
    pub io_priority: Option<(u8, u8)>,
}

/// How the job's figures are put together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reporting {
    /// Jobs of a number are one group (fio's `groupid`).
    pub group: u32,
    /// The clones and jobs of a group are reported as one.
    pub together: bool,
    /// The percentiles shown, in percent.
    pub percentiles: Vec<f64>,
}

impl Reporting {
    /// fio's default list.
    pub const PERCENTILES: [f64; 17] = [
        1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9,
        99.95, 99.99,
    ];
}

impl Default for Reporting {
    fn default() -> Self {
        Reporting {
            group: 0,
            together: false,
            percentiles: Self::PERCENTILES.to_vec(),
        }
    }
}

/// One stream of I/O, carried out by `clones` workers at once, one thread each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Name; not necessarily unique.
    pub name: String,
    /// Free text.
    pub description: String,
    /// Where it was written.
    pub place: Option<Place>,
    /// Number of workers; at least 1.
    pub clones: u32,
    /// What it waits for.
    pub after: After,
    /// Delay after that.
    pub delay: Span,
    /// All other jobs of its group end when it ends.
    pub exit_all: bool,
    /// What it does.
    pub work: Work,
    /// When it ends.
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
    /// How its figures are grouped.
    pub reporting: Reporting,
    /// The options as they were written (name → value), including global ones: for fio's JSON.
    pub options: BTreeMap<String, String>,
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
            work: Default::default(),
            end: Default::default(),
            pacing: Default::default(),
            buffers: Default::default(),
            errors: Default::default(),
            logs: Default::default(),
            placement: Default::default(),
            reporting: Default::default(),
            options: Default::default(),
        }
    }
}
