//! Requests for storage, and their results.

use std::collections::BTreeMap;
use std::path::PathBuf;

use iodyno_model::{CommandRun, Diagnostic, ExportUri, Provision};
use serde::{Deserialize, Serialize};

/// A target to make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProvisionRequest {
    /// Identifies it: at most 32 lowercase letters, digits and hyphens. Every name that iodyno gives contains it.
    pub token: String,
    /// The configuration for which it is made.
    pub configuration: String,
    /// What to make.
    pub provision: Provision,
    /// The arguments of `--destroy`.
    pub destroy: Vec<PathBuf>,
    /// Files that are never used as targets: those of the store.
    pub protected: Vec<PathBuf>,
    /// The token of the target that was made for [`Provision::golden`].
    #[serde(default)]
    pub golden: Option<String>,
}

/// A target that was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Provisioned {
    /// The folder, file or device for the trials.
    pub path: PathBuf,
    /// What is known of its layers: `ext4.options`, `zpool.status`, …
    pub facts: BTreeMap<String, String>,
    /// The commands that were run, in order.
    pub commands: Vec<CommandRun>,
    /// The virtual machines that carry the trials out. The layers above them are not made yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guests: Vec<Guest>,
    /// The server whose clients the jobs are: they use it in place of `path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<ExportUri>,
    /// The sockets on which its file servers tell what they counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stats: Vec<PathBuf>,
    /// What the user should know of how it was made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What undoing a target consisted of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TornDown {
    /// The commands that were run, in order.
    pub commands: Vec<CommandRun>,
    /// What remains, and why.
    pub faults: Vec<Diagnostic>,
}

/// A virtual machine that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guest {
    /// Its name: `guest1`.
    pub name: String,
    /// The socket of the host through which its nodes are reached.
    pub socket: PathBuf,
    /// Its disks, as paths within the guest; if `shared`, a folder of the host.
    pub disks: Vec<PathBuf>,
    /// Whether it has a folder of the host in place of disks.
    #[serde(default)]
    pub shared: bool,
}
