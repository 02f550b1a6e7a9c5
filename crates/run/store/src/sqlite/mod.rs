//! The store in an SQLite file.

mod find;
mod liveness;
mod merge;
mod open_trial;
mod read;
mod rows;
mod telemetry;
mod write;

use std::cell::{Cell, OnceCell};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use iodyno_model::{Plan, RunId};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use crate::error::{BUSY_TIMEOUT, OperationError};
use crate::location::companion;
use crate::owner::Owner;
use crate::room::refuse_full;
use crate::schema::{self, DatabaseKind, STEPS, Upgrade};
use crate::{ImportReport, StoreError};

/// The name of a database in memory.
const MEMORY: &str = ":memory:";

/// The name of a database in a file that SQLite removes as soon as it is open.
const TEMPORARY: &str = "";

/// SQLite's smallest page, bytes.
const MIN_PAGE: u64 = 512;

/// Runs, trials and frames in an SQLite file. Any number of processes may share one.
#[derive(Debug)]
pub struct SqliteStore {
    connection: Connection,
    path: PathBuf,
    /// There are no files, and no other process can open it.
    in_memory: bool,
    /// This process as an owner, once it has begun a run.
    owner: OnceCell<Owner>,
    /// Whether the connection syncs its commits.
    synced: Cell<bool>,
    upgraded: Option<Upgrade>,
}

/// What a commit must survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Survives {
    /// The end of this process.
    Kill,
    /// A power failure.
    PowerCut,
}

impl SqliteStore {
    /// Opens the store at a path for reading and writing. Creates it, and missing parent folders (both accessible to
    /// this user only), if it does not exist. Upgrades an older schema.
    ///
    /// # Errors
    /// [`StoreError::Full`] if the file system has no room for it to grow. Refuses files of other programs and of newer
    /// versions of iodyno, without changing them.
    pub fn open(path: impl Into<PathBuf>) -> Result<SqliteStore, StoreError> {
        let path = resolved(path.into())?;
        refuse_no_database(&path)?;
        if let Some(folder) = path.parent() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)
                .map_err(|error| StoreError::io(folder, "making the store's folder", error))?;
        }
        refuse_full(&path, "opening it")?;
        // SQLite would create it accessible to all, and gives the files beside it the same permissions. If this
        // fails, SQLite fails too and reports the reason.
        let _ = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut store = SqliteStore::connect(&path, &path, flags)?;
        if store.read_only()? {
            return Err(StoreError::ReadOnly {
                path,
                doing: "opening it",
            });
        }
        store.refuse_others()?;
        let mut upgraded = None;
        store.doing("making its tables", |connection| {
            // Create the tables first: a file in WAL mode then always has our application id. A store that is up to
            // date is not locked: readers do not wait for writers.
            let newest = DatabaseKind::Store(STEPS.len() as u32);
            if schema::inspect(connection)? != newest {
                upgraded = schema::migrate(connection, STEPS, Some(&path))?;
            }
            use_wal(connection)?;
            Ok(connection.pragma_update(None, "synchronous", "NORMAL")?)
        })?;
        store.upgraded = upgraded;
        // The file exists now, so links in its path can be resolved.
        store.path = resolved(path)?;
        tracing::debug!(path = %store.path.display(), "opened the store");
        Ok(store)
    }

    /// A store in memory, which ends with this value. It keeps everything but telemetry, which would need memory for
    /// each second of a run.
    ///
    /// # Errors
    /// SQLite failed.
    pub fn in_memory() -> Result<SqliteStore, StoreError> {
        SqliteStore::private(MEMORY)
    }

    /// A store for an imported run in a file without a name, which ends with this value.
    ///
    /// # Errors
    /// SQLite failed.
    pub fn temporary() -> Result<SqliteStore, StoreError> {
        SqliteStore::private(TEMPORARY)
    }

    fn private(name: &str) -> Result<SqliteStore, StoreError> {
        let path = Path::new(name);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut store = SqliteStore::connect(path, path, flags)?;
        store.in_memory = true;
        store.doing("making its tables", |connection| {
            schema::migrate(connection, STEPS, None)
        })?;
        Ok(store)
    }

    /// Opens an existing store for reading. If it is writable, this is the same as [`SqliteStore::open`]; read-only
    /// files, read-only file systems and full ones are read as they are.
    ///
    /// # Errors
    /// [`StoreError::Missing`] if it does not exist; otherwise as [`SqliteStore::open`].
    pub fn open_for_reading(path: impl Into<PathBuf>) -> Result<SqliteStore, StoreError> {
        let path = resolved(path.into())?;
        refuse_no_database(&path)?;
        match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(StoreError::Missing { path });
            }
            Err(error) => return Err(StoreError::io(&path, "opening it", error)),
            Ok(_) => {}
        }
        let unwritable = match SqliteStore::open(&path) {
            Err(
                error @ (StoreError::ReadOnly { .. }
                | StoreError::Io { .. }
                | StoreError::Full { .. }),
            ) => error,
            opened => return opened,
        };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let store = SqliteStore::connect(&path, &unchanged(&path), flags)?;
        store.refuse_others()?;
        match store.found()? {
            DatabaseKind::Store(version) if (version as usize) < STEPS.len() => match unwritable {
                full @ StoreError::Full { .. } => Err(full),
                _ => Err(StoreError::Older {
                    path,
                    found: version,
                }),
            },
            _ => Ok(store),
        }
    }

    /// Registers this process as the owner of its runs, which it otherwise does with its first run: a store that cannot
    /// be written fails here.
    ///
    /// # Errors
    /// As [`Store::begin_run`].
    pub fn claim(&self) -> Result<(), StoreError> {
        write::owner(self).map(drop)
    }

    /// The absolute path of the store, with links resolved; `None` in memory.
    pub fn path(&self) -> Option<&Path> {
        (!self.in_memory).then_some(&self.path)
    }

    /// The files of the store: the database and SQLite's files beside it, whether they exist or not.
    pub fn files(&self) -> Vec<PathBuf> {
        match self.in_memory {
            true => Vec::new(),
            false => Self::files_of(&self.path),
        }
    }

    /// The files of a store at this path.
    pub fn files_of(path: &Path) -> Vec<PathBuf> {
        let suffixes = ["", "-wal", "-shm", "-journal"];
        suffixes.map(|suffix| companion(path, suffix)).to_vec()
    }

    /// The schema upgrade done when the store was opened; `None` if none was needed.
    pub fn upgraded(&self) -> Option<&Upgrade> {
        self.upgraded.as_ref()
    }

    /// Imports an exported run, completely or not at all. Data that are already stored stay unchanged. Returns the
    /// number of new trials and frames.
    ///
    /// # Errors
    /// [`StoreError::BadExport`] if the file is damaged or truncated, [`StoreError::NewerExport`],
    /// [`StoreError::Conflict`] if this store has a different run of the same identity, [`StoreError::RunIsLive`] if
    /// a process is executing the run.
    pub fn import(&self, file: &mut dyn BufRead) -> Result<ImportReport, StoreError> {
        merge::import(self, file)
    }

    /// The plan of a run alone.
    ///
    /// # Errors
    /// As [`Store::run`].
    pub fn plan(&self, run: RunId) -> Result<Plan, StoreError> {
        self.reading("reading a plan", |transaction| {
            rows::plan(self, transaction, run)
        })
    }

    fn connect(path: &Path, name: &Path, flags: OpenFlags) -> Result<SqliteStore, StoreError> {
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(name, flags)
            .map_err(|error| explain(path, "opening it", error))?;
        let store = SqliteStore {
            connection,
            path: path.to_path_buf(),
            in_memory: false,
            owner: OnceCell::new(),
            synced: Cell::new(false),
            upgraded: None,
        };
        store.doing("opening it", |connection| {
            connection.busy_timeout(BUSY_TIMEOUT)?;
            connection.set_prepared_statement_cache_capacity(64);
            Ok(connection.pragma_update(None, "foreign_keys", true)?)
        })?;
        Ok(store)
    }

    fn refuse_full(&self, doing: &'static str) -> Result<(), StoreError> {
        match self.in_memory {
            true => Ok(()),
            false => refuse_full(&self.path, doing),
        }
    }

    fn read_only(&self) -> Result<bool, StoreError> {
        self.doing("opening it", |connection| {
            Ok(connection.is_readonly("main")?)
        })
    }

    fn found(&self) -> Result<DatabaseKind, StoreError> {
        self.doing("opening it", |connection| Ok(schema::inspect(connection)?))
    }

    /// Refuses a database of another program or a newer schema, before anything is changed.
    fn refuse_others(&self) -> Result<(), StoreError> {
        let path = self.path.clone();
        match self.found()? {
            DatabaseKind::Foreign(why) => Err(StoreError::NotAStore { path, why }),
            DatabaseKind::Store(found) if found as usize > STEPS.len() => Err(StoreError::Newer {
                path,
                found,
                known: STEPS.len() as u32,
            }),
            DatabaseKind::Empty | DatabaseKind::Store(_) => Ok(()),
        }
    }

    /// Runs an operation and adds the path to its errors.
    fn doing<T>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&Connection) -> Result<T, OperationError>,
    ) -> Result<T, StoreError> {
        work(&self.connection).map_err(|fault| match fault {
            OperationError::Sqlite(error) => explain(&self.path, doing, error),
            OperationError::Store(error) => error,
        })
    }

    /// Runs an operation in one transaction: it sees one consistent state, and either all of its changes are stored
    /// or none.
    fn writing<T>(
        &self,
        doing: &'static str,
        survives: Survives,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, OperationError>,
    ) -> Result<T, StoreError> {
        self.refuse_full(doing)?;
        self.doing(doing, |connection| {
            let synced = survives == Survives::PowerCut;
            if self.synced.get() != synced {
                let word = if synced { "FULL" } else { "NORMAL" };
                connection.pragma_update(None, "synchronous", word)?;
                self.synced.set(synced);
            }
            let transaction =
                Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
            let done = work(&transaction)?;
            transaction.commit()?;
            // The first reader of a commit marks it in the index of the log. See `room`: by the next read, the file
            // system may be full.
            schema::inspect(connection)?;
            Ok(done)
        })
    }

    /// Runs a read-only operation on one consistent state of the store.
    fn reading<T>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, OperationError>,
    ) -> Result<T, StoreError> {
        self.doing(doing, |connection| {
            let transaction =
                Transaction::new_unchecked(connection, TransactionBehavior::Deferred)?;
            work(&transaction)
        })
    }
}

impl Drop for SqliteStore {
    /// The last connection merges the log into the main file, which changes the index: see `room`. Without room, this
    /// is left to a later connection.
    fn drop(&mut self) {
        if self.refuse_full("closing it").is_err() {
            let _ = self
                .connection
                .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        }
    }
}

/// The canonical path of a store: the lock files are beside it, so all links to the store must lead to the same
/// files. An absolute path also cannot be one of SQLite's special names (`:memory:`).
fn resolved(path: PathBuf) -> Result<PathBuf, StoreError> {
    match fs::canonicalize(&path) {
        Ok(resolved) => Ok(resolved),
        Err(_) => {
            std::path::absolute(&path).map_err(|error| StoreError::io(&path, "opening it", error))
        }
    }
}

/// Refuses files that SQLite would treat as an empty database, or could not open.
fn refuse_no_database(path: &Path) -> Result<(), StoreError> {
    let why = match fs::metadata(path) {
        Ok(found) if found.is_dir() => "it is a folder",
        Ok(found) if !found.is_file() => "it is not a regular file",
        // SQLite treats a file shorter than its smallest page as empty, and may overwrite it.
        Ok(found) if (1..MIN_PAGE).contains(&found.len()) => "it is not an SQLite database",
        _ => return Ok(()),
    };
    Err(StoreError::NotAStore {
        path: path.to_path_buf(),
        why: why.to_owned(),
    })
}

/// The SQLite URI that opens a store without changing any of its files.
///
/// Readers of a store share the index of its log, a file beside it, and mark in it the snapshot that they read.
/// `readonly_shm` reads an index that another process keeps, without marks, and otherwise builds one in memory; the
/// file must exist for that. If it does not, no process has the store open, and without a log all data are in the
/// main file.
fn unchanged(path: &Path) -> PathBuf {
    let index = companion(path, "-shm");
    let log = fs::metadata(companion(path, "-wal")).is_ok_and(|log| log.len() > 0);
    if log {
        // An empty file needs no space. If it cannot be created, SQLite reports the reason.
        let _ = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&index);
    }
    let how = match log || index.exists() {
        true => "?readonly_shm=1",
        false => "?immutable=1",
    };
    let mut name = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                name.push(char::from(*byte));
            }
            other => name.push_str(&format!("%{other:02X}")),
        }
    }
    PathBuf::from(name + how)
}

/// The error of SQLite, with the errno if SQLite does not report it.
fn explain(path: &Path, doing: &'static str, error: rusqlite::Error) -> StoreError {
    if error.sqlite_error_code() == Some(ErrorCode::CannotOpen) {
        let probe = companion(path, "-probe");
        let tried = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&probe);
        let reason = match tried {
            Ok(_) => {
                // This only tests whether the file can be created.
                let _ = fs::remove_file(&probe);
                File::open(path).err()
            }
            Err(reason) => Some(reason),
        };
        if let Some(reason) = reason {
            return StoreError::io(path, doing, reason);
        }
    }
    StoreError::sqlite(path, doing, error)
}

/// Switching to WAL mode needs an exclusive lock for a moment, and SQLite does not wait for this lock.
fn use_wal(connection: &Connection) -> rusqlite::Result<()> {
    let mut waited = Duration::ZERO;
    let pause = Duration::from_millis(20);
    loop {
        let switched = connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()));
        match switched {
            Err(error)
                if waited < BUSY_TIMEOUT
                    && matches!(
                        error.sqlite_error_code(),
                        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
                    ) =>
            {
                std::thread::sleep(pause);
                waited += pause;
            }
            other => return other,
        }
    }
}
