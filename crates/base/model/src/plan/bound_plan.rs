//! The plan of one trial for a node.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{Configuration, Sampling, TrialKey, Workload};

/// One trial for the node that runs it. Percentages and lengths of existing files are still unresolved; the
/// node resolves them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BoundPlan {
    /// [`crate::SCHEMA`].
    pub schema: u32,
    /// Its identity.
    pub key: TrialKey,
    /// Its configuration.
    pub configuration: Configuration,
    /// Its workload.
    pub workload: Workload,
    /// The trial's own seed.
    pub seed: u64,
    /// As in [`crate::Plan::destroy`].
    pub destroy: Vec<PathBuf>,
    /// Files that are never a target under any name: those of the store.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protected: Vec<PathBuf>,
    /// Length of a frame, ns.
    pub frame_ns: u64,
    /// Telemetry of the host.
    #[serde(default)]
    pub sampling: Sampling,
    /// As in [`crate::Plan::stuck_after_ns`].
    #[serde(default = "super::stuck_after_ns")]
    pub stuck_after_ns: u64,
    /// It ends when the trials of the other nodes have ended: a load beside them, or, without jobs, only the sampling
    /// of a host.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// The place of the node among those of the trial; 0 also for a single one.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub node: u32,
    /// The folder that the server of the jobs shares; `None`: they use none, or one that iodyno did not start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<PathBuf>,
}

impl BoundPlan {
    /// Whether it only samples the host.
    pub fn only_samples(&self) -> bool {
        self.workload.jobs.is_empty()
    }
}
