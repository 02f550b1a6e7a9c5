//! Names of what is stored.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A run's identity: a UUIDv7, the same in every store it is copied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub Uuid);

impl RunId {
    /// A new identity from the clock and the system's randomness.
    pub fn fresh() -> RunId {
        RunId(Uuid::now_v7())
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for RunId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::parse_str(text).map(RunId)
    }
}

/// A trial's identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TrialKey {
    /// The run.
    pub run: RunId,
    /// From 0.
    pub round: u32,
    /// Configuration × workload, from 0: `configuration * workloads + workload`.
    pub cell: u32,
    /// From 0; raised when an interrupted trial is made again.
    pub attempt: u32,
}
