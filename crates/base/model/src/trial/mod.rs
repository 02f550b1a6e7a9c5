//! A trial: one execution of one workload on one configuration.

mod behaviour;
mod clock;
mod clone_result;
mod direction_result;
mod environment;
mod finding;
mod fio_bins;
mod frame;
mod histogram;
mod host_use;
mod identity;
mod part;
mod steps;
mod telemetry;
mod verify_result;

pub use behaviour::{Behaviour, Course, Regime};
pub use clock::{ClockOffset, ClockRate};
pub use clone_result::{
    CloneResult, CommandResult, CpuUse, DepthUse, EndedBy, EngineUsed, ErrorCount, MissedOps,
    OpInFlight,
};
pub use direction_result::{DirectionResult, RunningStats, SampleStats};
pub use environment::{
    Cpu, DeviceLayer, Environment, Governor, MadeTarget, MemoryInfo, MountInfo, StackLayer,
    TargetInfo,
};
pub use finding::{Finding, FindingKind, Weight};
pub use fio_bins::{FIO_BINS, fio_bin, fio_bin_middle};
pub use frame::{DirectionFrame, Frame, JobFrame};
pub use histogram::{BinLayout, Histogram, HistogramBuilder};
pub use host_use::{
    ControlGroupUse, DeviceTimes, DeviceUse, HostUse, LegUse, ServerUse, SimulatedDisk, StageTimes,
};
pub use identity::{Identity, Inode, KnownTarget};
pub use part::{FileState, Part, Settled, Stalls};
pub use steps::{Step, StepTime};
pub use telemetry::{
    ARC, BLOCK_BINS, CGROUP, CPU, DISK, LOAD, MEMORY, NETWORK, OTHERS, POOL, PRESSURE, PROCESS,
    RECLAIM, REQUESTS, Reading, Sample, SamplerCost, SeriesColumn, SeriesGap, SeriesKind,
    SeriesRow, SeriesShape, SeriesUnit, Telemetry, TelemetryBatch, Thinner, block_bin_from,
};
pub use verify_result::{BadBlock, VerifyResult};

use serde::{Deserialize, Serialize};

use crate::TrialKey;

/// How a trial ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state", content = "reason")]
pub enum Outcome {
    /// As planned.
    Completed,
    /// Ended early by the user, a kill or a crash; earlier measurements are kept.
    Interrupted(String),
    /// Ops failed and the jobs' policy was to stop; earlier measurements are kept.
    Failed(String),
    /// The target was refused; nothing was touched.
    Refused(String),
}

/// A trial as the store lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialState {
    /// Begun, not yet ended.
    Running,
    /// [`Outcome::Completed`].
    Completed,
    /// [`Outcome::Interrupted`].
    Interrupted,
    /// [`Outcome::Failed`].
    Failed,
    /// [`Outcome::Refused`].
    Refused,
}

impl Outcome {
    /// The outcome without its reason.
    pub fn state(&self) -> TrialState {
        match self {
            Outcome::Completed => TrialState::Completed,
            Outcome::Interrupted(_) => TrialState::Interrupted,
            Outcome::Failed(_) => TrialState::Failed,
            Outcome::Refused(_) => TrialState::Refused,
        }
    }

    /// Why it did not end as planned.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Outcome::Completed => None,
            Outcome::Interrupted(reason) | Outcome::Failed(reason) | Outcome::Refused(reason) => {
                Some(reason)
            }
        }
    }
}

/// A trial with all its measurements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// [`crate::SCHEMA`].
    pub schema: u32,
    /// Its identity.
    pub key: TrialKey,
    /// The configuration's name.
    pub configuration: String,
    /// The workload's name.
    pub workload: String,
    /// Wall clock at its start, ms since 1970.
    pub started_unix_ms: u64,
    /// Its load, if it is a trial of a search ([`crate::Search`]); 0: no rate was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<f64>,
    /// How it ended.
    pub outcome: Outcome,
    /// One part per node. The parts of an interrupted trial are rebuilt from frames.
    pub parts: Vec<Part>,
    /// The one-second series.
    pub frames: Vec<Frame>,
    /// Telemetry of the host. Like frames, it is stored separately from the trial's record.
    #[serde(default, skip_serializing_if = "Telemetry::is_empty")]
    pub telemetry: Telemetry,
    /// Findings from its own data.
    #[serde(default)]
    pub findings: Vec<Finding>,
}
