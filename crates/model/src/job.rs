//! One stream of I/O, in fio's sense, with every default filled in.

use std::collections::BTreeMap;
use std::path::PathBuf;

use iodyno_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::{
    Access, Amount, Buffers, Direction, Engine, EngineKind, ErrorPolicy, Files, Operations, Pacing,
    Place, SharedFiles, Verify,
};

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

/// The part of its files that a clone works on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Extent {
    /// Bytes of all files of the clone together. `None`: the files' (or device's) whole length.
    pub size: Option<Amount>,
    /// Bytes into each file where the region begins.
    pub offset: Amount,
    /// Added to `offset` once for each clone before this one.
    pub offset_increment: Amount,
    /// An offset in percent is rounded up to a multiple of this; 0: of the smallest block size.
    pub offset_align: u64,
    /// Strided zones: bytes of a zone that are used; 0 for none.
    pub zone_size: u64,
    /// Strided zones: a zone's whole length; 0: `zone_size`.
    pub zone_range: u64,
    /// Strided zones: bytes skipped between two zones.
    pub zone_skip: u64,
}

impl Default for Extent {
    fn default() -> Self {
        Extent {
            size: None,
            offset: Amount::Bytes(0),
            offset_increment: Amount::Bytes(0),
            offset_align: 0,
            zone_size: 0,
            zone_range: 0,
            zone_skip: 0,
        }
    }
}

/// What ends a job; the first that comes true.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobEnd {
    /// After this much measured time.
    pub runtime: Option<Nanos>,
    /// Goes on until `runtime`, over the region again and again.
    pub time_based: bool,
    /// After this many bytes in place of one pass over the region.
    pub io_size: Option<Amount>,
    /// After this many ops.
    pub ops: Option<u64>,
    /// Passes over the region; at least 1.
    pub loops: u64,
    /// Statistics begin after this; added to `runtime`.
    pub ramp: Nanos,
    /// A full file system or device ends it well.
    #[serde(default)]
    pub until_full: bool,
}

impl Default for JobEnd {
    fn default() -> Self {
        JobEnd {
            runtime: None,
            time_based: false,
            io_size: None,
            ops: None,
            loops: 1,
            ramp: Nanos(0),
            until_full: false,
        }
    }
}

/// When data are made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SyncPolicy {
    /// fsync after so many writes; 0: never.
    pub fsync_every: u32,
    /// fdatasync after so many writes; 0: never.
    pub fdatasync_every: u32,
    /// fsync all files when a job that writes has ended, timed as a step of its own.
    pub end_fsync: bool,
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

/// One stream of I/O. `clones` workers, a thread each, run it at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Its name, which need not be unique.
    pub name: String,
    /// Free text.
    pub description: String,
    /// Where it was written.
    pub place: Option<Place>,
    /// Workers; at least 1.
    pub clones: u32,
    /// When it may begin.
    pub after: After,
    /// … and how long after that.
    pub delay: Span,
    /// When it ends, all others of its group end too.
    pub exit_all: bool,
    /// Backend.
    pub engine: Engine,
    /// Ops and offsets.
    pub access: Access,
    /// Files.
    pub files: Files,
    /// Region.
    pub extent: Extent,
    /// File operations in place of reads and writes at offsets: `access`, `files` and `extent` are then
    /// without meaning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<Operations>,
    /// One set of files that all clones walk by one law in place of `access`' order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_files: Option<SharedFiles>,
    /// End.
    pub end: JobEnd,
    /// Rate.
    pub pacing: Pacing,
    /// Durability.
    pub sync: SyncPolicy,
    /// Buffers.
    pub buffers: Buffers,
    /// Verification.
    pub verify: Option<Verify>,
    /// Failed ops.
    pub errors: ErrorPolicy,
    /// Logs.
    pub logs: Logs,
    /// CPUs and nodes.
    pub placement: Placement,
    /// Reporting.
    pub reporting: Reporting,
    /// The options as they were written (name → value), globals included: for fio's JSON.
    pub options: BTreeMap<String, String>,
}

impl Job {
    /// The kinds of op that it can record, in table order.
    pub fn directions(&self) -> Vec<Direction> {
        match &self.operations {
            None => Direction::ALL.to_vec(),
            Some(operations) => operations.directions(),
        }
    }
}

impl Default for Job {
    /// One clone of sequential 4 KiB reads by psync, nameless, on files by fio's default names.
    fn default() -> Job {
        Job {
            name: String::new(),
            description: String::new(),
            place: None,
            clones: 1,
            after: Default::default(),
            delay: Default::default(),
            exit_all: false,
            engine: Engine::new(EngineKind::Psync, 1),
            access: Default::default(),
            files: Default::default(),
            extent: Default::default(),
            operations: None,
            shared_files: None,
            end: Default::default(),
            pacing: Default::default(),
            sync: Default::default(),
            buffers: Default::default(),
            verify: None,
            errors: Default::default(),
            logs: Default::default(),
            placement: Default::default(),
            reporting: Default::default(),
            options: Default::default(),
        }
    }
}
