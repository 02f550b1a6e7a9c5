//! Pacing: when ops are due.

use iodyno_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::PerDirection;

/// Distribution of the times between due ops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrival {
    /// Constant intervals.
    #[default]
    Linear,
    /// A Poisson process: exponentially distributed intervals.
    Poisson,
}

/// Requested rate of one direction of one clone.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct DirectionRate {
    /// Bytes per second; 0: determined by `iops`, or no limit.
    pub bytes_per_s: u64,
    /// Ops per second; 0: no limit.
    pub iops: f64,
    /// The job fails below this number of bytes per second; 0: never.
    pub least_bytes_per_s: u64,
    /// The job fails below this number of ops per second; 0: never.
    pub least_iops: f64,
}

/// Pauses of a worker between ops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ThinkTime {
    /// Duration of a pause.
    pub pause: Nanos,
    /// Part of the pause that is spent spinning instead of sleeping.
    pub spin: Nanos,
    /// Number of ops between pauses; the pause starts when they have completed; at least 1.
    pub every_ops: u32,
    /// Time between pauses, if it is over before that number of ops; 0: only ops count.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub io_time: Nanos,
}

/// Each clone's share of the ops of all clones of the flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Flow {
    /// Identifier of the flow.
    pub id: u32,
    /// Weight: the share is this ÷ the sum over all running clones; at least 1.
    pub weight: u32,
    /// Time for which a clone that is ahead waits before it checks again; 0: the shortest useful time.
    pub pause: Nanos,
}

/// A search for the largest number of ops in flight at which latencies keep a limit (fio's `latency_target`).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct LatencyTarget {
    /// The limit.
    pub limit: Nanos,
    /// Time at each depth.
    pub window: Nanos,
    /// Percentage of the ops of a window that must keep the limit.
    pub percent: f64,
    /// Adapt the depth until the job ends by another condition; otherwise the job ends when the depth is found.
    pub endless: bool,
}

/// Pacing of a job; without any rate it is a closed loop.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Pacing {
    /// Rates.
    pub rates: PerDirection<DirectionRate>,
    /// Distribution of intervals.
    pub arrival: Arrival,
    /// Think time.
    pub think: Option<ThinkTime>,
    /// Cycles of file operations, or requests of shared files, per second and clone; 0: no limit.
    #[serde(default)]
    pub ops_per_s: f64,
    /// Period over which `rate_min` is checked.
    pub check_every: Nanos,
    /// Ratio of ops to the other jobs of a flow.
    #[serde(default)]
    pub flow: Option<Flow>,
    /// The depth is searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_target: Option<LatencyTarget>,
}

impl Pacing {
    /// Whether a rate was requested, so that ops have an intended time.
    pub fn scheduled(&self) -> bool {
        self.ops_per_s > 0.0
            || [self.rates.read, self.rates.write, self.rates.trim]
                .iter()
                .any(|rate| rate.bytes_per_s > 0 || rate.iops > 0.0)
    }
}
