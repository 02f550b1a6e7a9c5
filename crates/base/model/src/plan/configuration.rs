//! Targets, and configurations of a plan.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Provision, SimTarget};

/// Target of the I/O.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// As the jobs specify; relative paths start at `folder`.
    AsWritten {
        /// The current folder of the command.
        folder: PathBuf,
    },
    /// A folder (which contains the jobs' folders and files), a file or a device.
    Path(PathBuf),
    /// Storage that is made for the trials. The plan of a trial contains the path of what was made: [`Target::Path`].
    Made(Box<Provision>),
    /// Simulated storage: nothing is read from or written to the host.
    Simulated(Box<SimTarget>),
}

impl Target {
    /// The folder, file or device; empty for storage that is not made yet, or simulated.
    pub fn path(&self) -> &Path {
        match self {
            Target::AsWritten { folder } => folder,
            Target::Path(path) => path,
            Target::Made(_) | Target::Simulated(_) => Path::new(""),
        }
    }
}

/// A target with its settings: one column of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configuration {
    /// Its name.
    pub name: String,
    /// Its target.
    pub target: Target,
    /// Whether it is the baseline repeated for the noise floor: everything but its name equals the baseline's.
    #[serde(default)]
    pub again: bool,
    /// Further dimensions of its trials: the values of the axes of a matrix.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dimensions: BTreeMap<String, String>,
    /// Names of the nodes that have it; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}

impl Configuration {
    /// A separate configuration, not the repeated baseline.
    pub fn new(name: impl Into<String>, target: Target) -> Configuration {
        Configuration {
            name: name.into(),
            target,
            again: false,
            dimensions: BTreeMap::new(),
            nodes: Vec::new(),
        }
    }

    /// How its storage is made; `None`: it exists.
    pub fn provision(&self) -> Option<&Provision> {
        match &self.target {
            Target::Made(provision) => Some(provision),
            Target::AsWritten { .. } | Target::Path(_) | Target::Simulated(_) => None,
        }
    }

    /// Its simulated storage; `None`: it is real, or chosen by the jobs.
    pub fn simulated(&self) -> Option<&SimTarget> {
        match &self.target {
            Target::Simulated(simulated) => Some(simulated),
            Target::AsWritten { .. } | Target::Path(_) | Target::Made(_) => None,
        }
    }
}
