//! State for all commands: output streams, the store's path, the clock.

use std::cell::{Cell, OnceCell};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use iodyno_guard::refuse_planted_link;
use iodyno_model::{Diagnostic, PlannedNode, Severity};
use iodyno_report::Style;
use iodyno_store::{SqliteStore, StoreError, default_path};
use serde::Serialize;

use crate::failure::{Failure, chain};
use crate::nodes::Nodes;
use crate::screen::Screen;
use crate::terminal::Terminal;

/// Settings that all commands share.
pub(crate) struct Context {
    /// Properties of the output streams.
    pub(crate) terminal: Terminal,
    /// Standard error.
    pub(crate) screen: std::sync::Arc<Screen>,
    /// How often `-v` was given.
    pub(crate) verbose: u8,
    store: Option<PathBuf>,
    /// Whether only errors are printed.
    silenced: Cell<bool>,
    /// The nodes of the run, once they are connected.
    nodes: OnceCell<Nodes>,
}

impl Context {
    /// `store` is the path given with `--store`, if any.
    pub(crate) fn new(terminal: Terminal, store: Option<PathBuf>, verbose: u8) -> Context {
        Context {
            terminal,
            verbose,
            screen: std::sync::Arc::default(),
            store,
            silenced: Cell::new(false),
            nodes: OnceCell::new(),
        }
    }

    /// Connects to the nodes of a run, before anything else uses them.
    pub(crate) fn connect(&self, planned: &[PlannedNode]) -> Result<(), Failure> {
        let nodes = Nodes::connect(planned, self.verbose)?;
        let _ = self.nodes.set(nodes);
        Ok(())
    }

    /// The nodes of the run; this host, unless others were connected.
    pub(crate) fn nodes(&self) -> Result<&Nodes, Failure> {
        if self.nodes.get().is_none() {
            let _ = self.nodes.set(Nodes::here(self.verbose)?);
        }
        let unset = || Failure::one(Diagnostic::error("there are no nodes"));
        self.nodes.get().ok_or_else(unset)
    }

    /// The store's path.
    pub(crate) fn store_path(&self) -> Result<PathBuf, Failure> {
        let path = match &self.store {
            // Absolute, because findings of trials contain it.
            Some(path) => {
                std::path::absolute(path).map_err(|error| Failure::file("find", path, &error))?
            }
            None => default_path(|name| std::env::var_os(name))?,
        };
        refuse_planted_link(&path).map_err(|error| Failure::file("use", &path, &error))?;
        Ok(path)
    }

    /// The store's path. No store is created among device nodes.
    fn path_to_write(&self) -> Result<PathBuf, Failure> {
        let path = self.store_path()?;
        if std::fs::symlink_metadata(&path).is_ok() || !iodyno_guard::among_devices(&path) {
            return Ok(path);
        }
        let fault = format!(
            "`{}` does not exist, and a store is not created among device nodes",
            path.display()
        );
        let fault = Diagnostic::error(fault).hint("use another store with `--store PATH`");
        Err(Failure::one(fault))
    }

    /// Opens the store for writing, and creates it if it does not exist.
    pub(crate) fn store(&self) -> Result<SqliteStore, Failure> {
        let store =
            SqliteStore::open(self.path_to_write()?).map_err(|error| {
                let fault = store_fault(&error, Severity::Error);
                let hint = fault.hint.clone();
                Failure::one(fault.hint(
                    hint.unwrap_or_else(|| "use another store with `--store PATH`".to_owned()),
                ))
            })?;
        Ok(self.note_upgrade(store))
    }

    /// The store, or one in memory: if `no_store`, and with a warning if the store cannot be written.
    pub(crate) fn store_or_memory(&self, no_store: bool) -> Result<SqliteStore, Failure> {
        let opened = match no_store {
            true => None,
            false => Some(self.path_to_write().and_then(|path| {
                let store = SqliteStore::open(path)?;
                store.claim()?;
                Ok(store)
            })),
        };
        match opened {
            None => {}
            Some(Ok(store)) => return Ok(self.note_upgrade(store)),
            Some(Err(failure)) => {
                self.tell(&failure.faults.into_iter().map(unstored).collect::<Vec<_>>())
            }
        }
        Ok(SqliteStore::in_memory()?)
    }

    /// Opens the store for reading; `None` if the default store does not exist. A store given with
    /// `--store` must exist.
    pub(crate) fn existing_store(&self) -> Result<Option<SqliteStore>, Failure> {
        match SqliteStore::open_for_reading(self.store_path()?) {
            Err(StoreError::Missing { .. }) if self.store.is_none() => Ok(None),
            opened => Ok(Some(self.note_upgrade(opened?))),
        }
    }

    /// Opens the store for reading; it must exist.
    pub(crate) fn store_to_read(&self) -> Result<SqliteStore, Failure> {
        let store = SqliteStore::open_for_reading(self.store_path()?)?;
        Ok(self.note_upgrade(store))
    }

    /// Prints the path of the backup copy, if opening the store upgraded it.
    fn note_upgrade(&self, store: SqliteStore) -> SqliteStore {
        if let Some(upgrade) = store.upgraded() {
            self.note(&format!(
                "store upgraded from schema {} to {}; the old store is {}",
                upgrade.from,
                upgrade.to,
                upgrade.backup.display()
            ));
        }
        store
    }

    /// Style of text on standard output.
    pub(crate) fn style_out(&self) -> Style {
        self.style(self.terminal.colour_out, self.terminal.width_out())
    }

    /// Style of text on standard error.
    pub(crate) fn style_err(&self) -> Style {
        self.style(self.terminal.colour_err, self.terminal.width_err())
    }

    fn style(&self, color: bool, width: usize) -> Style {
        Style {
            color,
            width,
            unicode: self.terminal.unicode,
        }
    }

    /// Prints a message on standard error.
    pub(crate) fn note(&self, text: &str) {
        self.screen.note(text);
    }

    /// Suppresses warnings and notes from now on.
    pub(crate) fn silence(&self) {
        self.silenced.set(true);
    }

    /// Prints diagnostics on standard error.
    pub(crate) fn tell(&self, faults: &[Diagnostic]) {
        let silenced = self.silenced.get();
        let printed = faults
            .iter()
            .filter(|fault| !silenced || fault.severity == Severity::Error);
        let printed: Vec<Diagnostic> = printed.cloned().collect();
        if !printed.is_empty() {
            self.screen
                .note(&iodyno_report::diagnostic::text(&printed, self.style_err()));
        }
    }

    /// Serializes a value as an indented JSON document.
    pub(crate) fn json(&self, value: &impl Serialize) -> String {
        iodyno_report::json::print(value)
    }

    /// Wall clock, ms since 1970.
    pub(crate) fn now_unix_ms(&self) -> u64 {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
    }

    /// Offset of local time from UTC at an instant, s.
    pub(crate) fn utc_offset_s(&self, unix_ms: u64) -> i32 {
        let instant = i64::try_from(unix_ms)
            .ok()
            .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        instant.map_or(0, |instant| {
            jiff::tz::TimeZone::system().to_offset(instant).seconds()
        })
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::one(store_fault(&error, Severity::Error))
    }
}

/// The warning for a store error if the command does not require a store.
fn unstored(error: Diagnostic) -> Diagnostic {
    Diagnostic {
        severity: Severity::Warning,
        message: format!("the result is not stored: {}", error.message),
        hint: Some(match error.hint {
            Some(hint) => format!("{hint}, or give `--no-store`"),
            None => "use another store with `--store PATH`, or give `--no-store`".to_owned(),
        }),
        ..error
    }
}

/// A store's error as a diagnostic with its remedy.
pub(crate) fn store_fault(error: &StoreError, severity: Severity) -> Diagnostic {
    Diagnostic {
        severity,
        message: chain(error),
        place: None,
        hint: error.hint(),
    }
}
