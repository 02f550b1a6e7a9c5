//! A trial: one execution of one workload on one configuration.

use serde::{Deserialize, Serialize};

use crate::{Finding, Frame, Part, Telemetry, TrialKey};

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
