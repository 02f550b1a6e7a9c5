//! What is needed to make and undo storage on a host.

use std::path::{Path, PathBuf};

use iodyno_guard::{Admitted, Guard, Intent, OpenFlags, Request};
use iodyno_host::{StateFolders, device_records};
use iodyno_model::Diagnostic;

use crate::journal::{Journal, JournalError};

use super::host::{Host, ThisHost};
use super::host_ops::HostOps;
use super::{lock, provisioned};

/// Makes and undoes storage on a host.
pub(crate) struct Maker<'a> {
    pub(crate) host: &'a dyn Host,
    pub(crate) folders: StateFolders,
    /// The records of iodyno's writes to devices; see [`Guard::with_records`].
    pub(crate) records: Option<PathBuf>,
    /// Whether the work is to end early. Undoing never does.
    pub(crate) stop: &'a dyn Fn() -> bool,
    /// Gets each action that begins, and what is waited for.
    pub(crate) progress: &'a dyn Fn(&str),
}

pub(super) fn on_this_host<T>(
    stop: &dyn Fn() -> bool,
    progress: &dyn Fn(&str),
    work: impl FnOnce(&Maker<'_>) -> Result<T, Vec<Diagnostic>>,
) -> Result<T, Vec<Diagnostic>> {
    let Some(folders) = StateFolders::of_this_user() else {
        let message = "the folder of the journal is not known";
        let hint = "set HOME or XDG_STATE_HOME to an absolute path";
        return Err(vec![Diagnostic::error(message).hint(hint)]);
    };
    work(&Maker {
        host: &ThisHost::new(),
        folders,
        records: device_records(),
        stop,
        progress,
    })
}

impl Maker<'_> {
    pub(super) fn guard(&self, protected: &[PathBuf]) -> Guard {
        Guard::new(self.host.roots().clone())
            .with_records(self.records.clone())
            .protecting(protected)
    }

    pub(super) fn ops<'a>(&'a self, guard: &'a Guard, journal: &Journal) -> HostOps<'a> {
        HostOps {
            host: self.host,
            guard,
            journals: &self.folders.journals,
            environment: journal.header.provision.env.clone(),
            mark: String::new(),
            inodes: provisioned::inodes(&journal.steps),
            stop: self.stop,
            progress: self.progress,
            commands: Vec::new(),
        }
    }

    /// The journal of a target on which no other process works any more; `None`: there is none.
    pub(super) fn open(&self, token: &str) -> Result<Option<Journal>, Vec<Diagnostic>> {
        let folder = &self.folders.journals;
        let path = Journal::path(folder, token);
        let opened =
            lock::wait_for(
                self.host,
                &path,
                self.stop,
                self.progress,
                || match Journal::open(folder, token) {
                    Err(JournalError::Busy) => Ok(None),
                    other => other.map(Some),
                },
            );
        match opened.and_then(|journal| journal.ok_or(JournalError::Busy)) {
            Ok(journal) => Ok(Some(journal)),
            Err(JournalError::Missing) => Ok(None),
            Err(error) => Err(vec![Diagnostic::error(format!(
                "cannot work on the target `{token}`: {error}"
            ))]),
        }
    }
}

/// Has the guard admit a device whose content may be replaced.
pub(super) fn admit(
    guard: &Guard,
    path: &Path,
    destroy: &[PathBuf],
) -> Result<Admitted, Diagnostic> {
    let request = Request {
        path,
        intent: Intent::WRITE,
        flags: OpenFlags::default(),
        named: true,
        destroy,
    };
    guard.admit(&request).map_err(|error| error.diagnostic())
}
