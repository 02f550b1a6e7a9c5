//! What is to be done: an experiment, and one trial of it bound to a node.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{Job, TrialKey};

/// Where the I/O goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Where the jobs say; relative paths from `folder`.
    AsWritten {
        /// The folder the command was given in.
        folder: PathBuf,
    },
    /// A folder (jobs' own folders and files are laid below it), a file or a device.
    Path(PathBuf),
}

/// A target with its settings: one column of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configuration {
    /// Its name.
    pub name: String,
    /// Its target.
    pub target: Target,
}

/// The text a workload came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The file, or `<command line>`.
    pub name: String,
    /// Its text, as read.
    pub text: String,
}

/// What is done to a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Its name: the file's without its ending.
    pub name: String,
    /// Where it came from.
    pub sources: Vec<Source>,
    /// The jobs, in file order.
    pub jobs: Vec<Job>,
}

/// An experiment: configurations × workloads × rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// [`crate::SCHEMA`].
    pub schema: u32,
    /// Its name, for lists.
    pub name: String,
    /// The command as given, for `show`.
    pub command: Vec<String>,
    /// At least one.
    pub configurations: Vec<Configuration>,
    /// At least one.
    pub workloads: Vec<Workload>,
    /// Times every cell is measured.
    pub rounds: u32,
    /// Everything random follows from it.
    pub seed: u64,
    /// Devices whose signatures give way, by the very path the user named.
    pub destroy: Vec<PathBuf>,
}

impl Plan {
    /// Configurations × workloads.
    pub fn cells(&self) -> u32 {
        (self.configurations.len() * self.workloads.len()) as u32
    }

    /// The configuration and workload of a cell.
    pub fn cell(&self, cell: u32) -> (&Configuration, &Workload) {
        let (configuration, workload) = (
            cell as usize / self.workloads.len(),
            cell as usize % self.workloads.len(),
        );
        (
            &self.configurations[configuration],
            &self.workloads[workload],
        )
    }
}

/// One trial, addressed to the node that carries it out. Percentages and lengths of existing files
/// are still open: the node knows them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BoundPlan {
    /// [`crate::SCHEMA`].
    pub schema: u32,
    /// Whose trial.
    pub key: TrialKey,
    /// Its configuration.
    pub configuration: Configuration,
    /// Its workload.
    pub workload: Workload,
    /// The trial's own seed.
    pub seed: u64,
    /// As in [`Plan::destroy`].
    pub destroy: Vec<PathBuf>,
    /// Length of a frame, ns.
    pub frame_ns: u64,
}
