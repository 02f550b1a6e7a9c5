//! Identifiers of stored data.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Identifier of a run: a UUIDv7, equal in every store that holds a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub Uuid);

impl RunId {
    /// Creates an identifier from the clock and the system's random numbers.
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

/// Identifier of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TrialKey {
    /// The run.
    pub run: RunId,
    /// Round number, from 0.
    pub round: u32,
    /// Number of the configuration × workload pair, from 0: `configuration * workloads + workload`.
    pub cell: u32,
    /// Attempt number, from 0; incremented when an interrupted trial is repeated.
    pub attempt: u32,
}
