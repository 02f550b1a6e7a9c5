//! Errors of a store, and their remedies.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use iodyno_model::TrialKey;
use rusqlite::ErrorCode;

/// Maximum wait for locks of other processes. Importing a run of 10 hours holds the lock for some seconds.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(20);

/// Why a store operation failed. [`StoreError::hint`] has the remedy.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Neither `XDG_DATA_HOME` nor `HOME` is set.
    #[error("no place for the store: neither XDG_DATA_HOME nor HOME is set to an absolute path")]
    NoHome,
    /// There is no store at this path.
    #[error("there is no store at {}", .path.display())]
    Missing {
        /// The store.
        path: PathBuf,
    },
    /// The file is not a store; it was not changed.
    #[error("{} is not a store of iodyno: {why}", .path.display())]
    NotAStore {
        /// The file.
        path: PathBuf,
        /// What the file is instead.
        why: String,
    },
    /// A newer iodyno wrote the store; it was not changed.
    #[error("the store {} has schema {found}; this iodyno knows schemas up to {known}", .path.display())]
    Newer {
        /// The store.
        path: PathBuf,
        /// Its schema version.
        found: u32,
        /// The newest schema version that this program knows.
        known: u32,
    },
    /// An older iodyno wrote the store, and it is read-only.
    #[error("the store {} has the older schema {found} and cannot be written to", .path.display())]
    Older {
        /// The store.
        path: PathBuf,
        /// Its schema version.
        found: u32,
    },
    /// The store or its folder is read-only.
    #[error("cannot write to the store {} while {doing}: it, its folder or its file system is read-only for this user", .path.display())]
    ReadOnly {
        /// The store.
        path: PathBuf,
        /// The operation that failed.
        doing: &'static str,
    },
    /// No space is left on the store's file system.
    #[error("no space left for the store {} while {doing}{}", .path.display(), kept(.path))]
    Full {
        /// The store.
        path: PathBuf,
        /// The operation that failed.
        doing: &'static str,
    },
    /// Another process held a lock on the store for too long.
    #[error("the store {} was locked by another process for more than {seconds} s while {doing}", .path.display())]
    Busy {
        /// The store.
        path: PathBuf,
        /// The operation that failed.
        doing: &'static str,
        /// How long this process waited.
        seconds: u64,
    },
    /// Stored data cannot be decoded.
    #[error("the store {} is damaged: {what}", .path.display())]
    Damaged {
        /// The store.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// A file or folder of the store could not be used.
    #[error("cannot use {} while {doing}", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The operation that failed.
        doing: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// Any other error of SQLite.
    #[error("the store {} failed while {doing}", .path.display())]
    Sqlite {
        /// The store.
        path: PathBuf,
        /// The operation that failed.
        doing: &'static str,
        /// The cause.
        source: rusqlite::Error,
    },
    /// No run has this name.
    #[error("no run `{name}`: {why}")]
    NoSuchRun {
        /// The requested name.
        name: String,
        /// What exists instead.
        why: String,
    },
    /// Several runs have this name.
    #[error("`{name}` may be any of {count} runs: {}", .candidates.join(", "))]
    Ambiguous {
        /// The requested name.
        name: String,
        /// How many runs match.
        count: usize,
        /// The newest of them, as text.
        candidates: Vec<String>,
    },
    /// The run does not have this trial.
    #[error("the run has no trial of {}", in_words(.0))]
    NoSuchTrial(TrialKey),
    /// A process is executing the run.
    #[error("run {alias} is being carried out by process {process}")]
    RunIsLive {
        /// Its number in this store.
        alias: u64,
        /// Its process.
        process: u32,
    },
    /// The data to be stored contradicts stored data.
    #[error("not stored: {0}")]
    Conflict(String),
    /// The data to be stored could not be read back unchanged.
    #[error("not stored: {what} cannot be written down")]
    NotStorable {
        /// The kind of data.
        what: &'static str,
        /// The cause.
        source: serde_json::Error,
    },
    /// The exported run could not be written.
    #[error("cannot write the exported run")]
    ExportWrite(#[source] io::Error),
    /// The file to import could not be read.
    #[error("cannot read the file to import")]
    ImportRead(#[source] io::Error),
    /// The file to import is damaged or not an exported run. Nothing was stored.
    #[error("nothing was imported: line {line}: {why}")]
    BadExport {
        /// Line number, from 1.
        line: u64,
        /// What is wrong in this line.
        why: String,
    },
    /// A newer iodyno wrote the file to import. Nothing was stored.
    #[error(
        "nothing was imported: the file has version {found} of the format; this iodyno knows versions up to {known}"
    )]
    NewerExport {
        /// Its format version.
        found: u32,
        /// The newest version that this program knows.
        known: u32,
    },
}

impl StoreError {
    /// The remedy.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            StoreError::NoHome => "set HOME, or name a store with `--store PATH`",
            StoreError::Missing { .. } => {
                "`iodyno run` makes it with the first run; `--store PATH` names another one"
            }
            StoreError::NotAStore { .. } => "name another file with `--store PATH`",
            StoreError::Newer { .. } => {
                "use the newer iodyno that wrote it, or another store with `--store PATH`"
            }
            StoreError::Older { .. } => {
                "open it once with write permission to bring it up to date, or work on a copy"
            }
            StoreError::ReadOnly { .. } => {
                "give write permission to the file and its folder, or name a store elsewhere with `--store PATH`"
            }
            StoreError::Full { .. } => {
                "free some space there (or raise `ulimit -f`, if it is set), or name a store elsewhere with `--store PATH`"
            }
            StoreError::Busy { .. } => {
                "try again; if it lasts, see which process has it open (`fuser -v` on the file)"
            }
            StoreError::Damaged { .. } => {
                "copy the file away; `sqlite3 FILE .recover` may recover the rest"
            }
            StoreError::NoSuchRun { .. } | StoreError::Ambiguous { .. } => {
                "`iodyno list` shows all runs with their numbers"
            }
            StoreError::RunIsLive { .. } => "wait until it has ended, or end it with SIGINT",
            StoreError::BadExport { .. } => "export the run again with `iodyno export`",
            StoreError::NewerExport { .. } => "import it with the newer iodyno that wrote it",
            StoreError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "name a store in a folder of yours with `--store PATH`"
            }
            StoreError::Io { .. }
            | StoreError::Sqlite { .. }
            | StoreError::NoSuchTrial(_)
            | StoreError::Conflict(_)
            | StoreError::NotStorable { .. }
            | StoreError::ExportWrite(_)
            | StoreError::ImportRead(_) => return None,
        };
        Some(hint.to_owned())
    }

    /// Converts an error of SQLite.
    pub(crate) fn sqlite(path: &Path, doing: &'static str, source: rusqlite::Error) -> StoreError {
        let path = path.to_path_buf();
        match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => StoreError::Full { path, doing },
            Some(ErrorCode::ReadOnly) => StoreError::ReadOnly { path, doing },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy {
                path,
                doing,
                seconds: BUSY_TIMEOUT.as_secs(),
            },
            Some(ErrorCode::NotADatabase) => StoreError::NotAStore {
                path,
                why: "it is not an SQLite database".to_owned(),
            },
            Some(ErrorCode::DatabaseCorrupt) => StoreError::Damaged {
                path,
                what: source.to_string(),
            },
            _ => StoreError::Sqlite {
                path,
                doing,
                source,
            },
        }
    }

    /// Converts an error of a file or folder of the store.
    pub(crate) fn io(path: &Path, doing: &'static str, source: io::Error) -> StoreError {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => StoreError::Full { path, doing },
            io::ErrorKind::ReadOnlyFilesystem => StoreError::ReadOnly { path, doing },
            _ => StoreError::Io {
                path,
                doing,
                source,
            },
        }
    }
}

/// That earlier data are kept, if the store exists and has content.
fn kept(path: &Path) -> &'static str {
    match std::fs::metadata(path).is_ok_and(|found| found.len() > 0) {
        true => "; what was stored before is kept",
        false => "",
    }
}

/// A trial's key as text; rounds, cells and attempts are counted as in the plan.
pub(crate) fn in_words(key: &TrialKey) -> String {
    format!(
        "round {}, cell {}, attempt {}",
        key.round, key.cell, key.attempt
    )
}

/// Why an operation failed.
#[derive(Debug)]
pub(crate) enum OperationError {
    /// An error of SQLite, reported with the path and the operation.
    Sqlite(rusqlite::Error),
    /// Any other error.
    Store(StoreError),
}

impl From<rusqlite::Error> for OperationError {
    fn from(error: rusqlite::Error) -> OperationError {
        OperationError::Sqlite(error)
    }
}

impl From<StoreError> for OperationError {
    fn from(error: StoreError) -> OperationError {
        OperationError::Store(error)
    }
}
