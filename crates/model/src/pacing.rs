//! When ops are due.

use iodyno_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::PerDirection;

/// How due ops follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrival {
    /// At equal distances.
    #[default]
    Linear,
    /// A Poisson process: exponential distances.
    Poisson,
}

/// The rate asked of one direction of one clone.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct DirectionRate {
    /// Bytes a second; 0: as asked by `iops`, or none.
    pub bytes_per_s: u64,
    /// Ops a second; 0: none.
    pub iops: f64,
    /// The job fails below this many bytes a second; 0: never.
    pub least_bytes_per_s: u64,
    /// The job fails below this many ops a second; 0: never.
    pub least_iops: f64,
}

/// Time a worker does nothing for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ThinkTime {
    /// How long.
    pub pause: Nanos,
    /// Of it, spent computing in place of sleeping.
    pub spin: Nanos,
    /// After so many ops, once they have ended; at least 1.
    pub every_ops: u32,
}

/// The share of a job's clones, each, in the ops of all clones of the flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// Which flow.
    pub id: u32,
    /// Its share: this ÷ the sum over all clones that run; at least 1.
    pub weight: u32,
    /// How long a clone that is ahead waits before it looks again; 0: as short as is sensible.
    pub pause: Nanos,
}

/// Pacing of a job; without any rate it is a closed loop.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Pacing {
    /// Rates.
    pub rates: PerDirection<DirectionRate>,
    /// Distances.
    pub arrival: Arrival,
    /// Think time.
    pub think: Option<ThinkTime>,
    /// Cycles of file operations, or requests of shared files, a second of one clone; 0: as fast as they
    /// go.
    #[serde(default)]
    pub ops_per_s: f64,
    /// `rate_min` is judged over this long.
    pub check_every: Nanos,
    /// Held to a ratio of ops with the other jobs of its flow.
    #[serde(default)]
    pub flow: Option<Flow>,
}

impl Pacing {
    /// A rate was asked for, so that ops have an intended instant.
    pub fn scheduled(&self) -> bool {
        self.ops_per_s > 0.0
            || [self.rates.read, self.rates.write, self.rates.trim]
                .iter()
                .any(|rate| rate.bytes_per_s > 0 || rate.iops > 0.0)
    }
}
