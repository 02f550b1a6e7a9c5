//! Jobs in fio's sense, with all defaults filled in.

mod access;
mod blocks;
mod buffers;
mod engine;
mod engine_kind;
mod errors;
mod export;
mod files;
mod limits;
mod logs;
mod operations;
mod pacing;
mod placement;
mod priority;
mod replay;
mod reporting;
mod shared_files;
mod steady;
mod verify;
mod work;

pub use access::{
    Access, BlockSizes, Direction, Distribution, MixSequence, Order, PerDirection, Precondition,
    Sequencer,
};
pub use blocks::{Blocks, Extent, Passes, RangeSync, SyncPolicy, WriteZones};
pub use buffers::{Buffers, Content, Memory, Pattern};
pub use engine::{Engine, SimClock, SimDevice, SimDisk, SimDiskKind, SimFault, SimLaw, SimOptions};
pub use engine_kind::EngineKind;
pub use errors::ErrorPolicy;
pub use export::{ExportServer, ExportUri, url_scheme};
pub use files::{Amount, Fallocate, FileAdvice, FileService, Files};
pub use logs::{LeftOut, Logs};
pub use operations::{
    Action, CycleStep, FileSet, FioOperations, Needs, Operations, OperationsFault, OutputMetric,
    OutputSource, PickOrder, ShellCommand, Subject, Writing,
};
pub use pacing::{Arrival, DirectionRate, Flow, LatencyTarget, Pacing, ThinkTime};
pub use placement::{MemoryPolicy, Placement};
pub use priority::{IoPriority, PriorityResult, PriorityShare};
pub use replay::Replay;
pub use reporting::{PercentilesOf, Reporting, UnifiedReporting};
pub use shared_files::{SharedFiles, SharedMode};
pub use steady::{SteadyMetric, SteadyResult, SteadyRule, SteadyValue};
pub use verify::{BlockPattern, Checksum, HeaderFormat, LoadState, Verify, VerifyTrim};
pub use work::Work;

use std::collections::{BTreeMap, BTreeSet};

use iodyno_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::Place;

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
