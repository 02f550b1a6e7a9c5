//! The folder of a trial whose node died. A helper process removes it.

use std::path::{Path, PathBuf};

use iodyno_model::BoundPlan;
use iodyno_model::printable::shell_path;

use super::Tell;
use super::folder::{self, OpenFolder};
use super::leftovers::{kill_processes, removal};
use super::site::{self, Site};
use crate::resolve::operations_folder;

/// The folder of a trial whose node is dead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OrphanFolder {
    at: PathBuf,
    name: String,
}

impl OrphanFolder {
    /// The folder with this name in the target `at`.
    pub(crate) fn new(at: PathBuf, name: String) -> OrphanFolder {
        OrphanFolder { at, name }
    }

    /// `None`: the plan has no file operations.
    pub(crate) fn of(plan: &BoundPlan) -> Option<OrphanFolder> {
        Site::wanted(plan).then(|| {
            let at = operations_folder(plan);
            OrphanFolder::new(at, folder::folder_name(plan))
        })
    }

    /// The target that contains it.
    pub(crate) fn at(&self) -> &Path {
        &self.at
    }

    /// Its name, which identifies the node and the trial.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn path(&self) -> PathBuf {
        self.at.join(&self.name)
    }

    /// Kills the processes that its commands left running, and removes it, unless it belongs to another trial. `false`:
    /// there was no folder. This blocks on storage that hangs.
    ///
    /// # Errors
    /// The reason why it remains.
    pub(crate) fn remove(&self, tell: Tell<'_>) -> Result<bool, String> {
        let own =
            OpenFolder::open_orphan(&self.at, &self.name).map_err(|error| error.to_string())?;
        let Some(own) = own else {
            return Ok(false);
        };
        for note in kill_processes(&own.path) {
            tracing::warn!("{note}");
        }
        site::remove(&own, tell)
            .map_err(|fault| format!("{}; {}", fault.message, fault.hint.unwrap_or_default()))?;
        Ok(true)
    }

    /// A note for the case that a process that cannot be killed still uses it.
    pub(crate) fn held(&self) -> String {
        let command = removal(&self.path());
        format!("its folder remains; remove it when the process has ended: {command}")
    }

    /// A note that it was removed.
    pub(crate) fn removed(&self) -> String {
        format!("its folder `{}` was removed", self.path().display())
    }

    /// A note that it remains, with the error of [`Self::remove`].
    pub(crate) fn remains(&self, why: &str) -> String {
        format!("its folder `{}` remains: {why}", self.path().display())
    }

    /// A note that no process could remove it.
    pub(crate) fn stays(&self, why: &str) -> String {
        let command = removal(&self.path());
        format!("its folder could not be removed ({why}); remove it: {command}")
    }

    /// A note that its storage does not respond, and that this process continues the removal.
    pub(crate) fn waits(&self, pid: u32) -> String {
        let path = shell_path(&self.path());
        format!(
            "its folder `{path}` remains: the storage does not respond, and process {pid} removes it when it does"
        )
    }
}
