//! The tables of the store, and upgrades of older stores.
//!
//! `PRAGMA application_id` marks a file as a store, `PRAGMA user_version` is its schema version. A new schema adds
//! one step to [`STEPS`], which converts the schema before it. A released step is never changed. Before an upgrade
//! the store is copied to a file beside it.

use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::error::OperationError;
use crate::location::{companion, mode};
use crate::{StoreError, upgrade};

/// `iody` in ASCII.
pub(crate) const APPLICATION_ID: i32 = 0x696f_6479;

/// How to convert one schema to the next.
#[derive(Clone, Copy)]
pub(crate) enum SchemaStep {
    /// SQL statements.
    Sql(&'static str),
    /// Changes that SQL cannot express.
    Rust(fn(&Transaction<'_>) -> Result<(), OperationError>),
}

/// The step at index n makes schema n + 1 from schema n; schema 0 is an empty database.
pub(crate) const STEPS: &[SchemaStep] = &[
    SchemaStep::Sql(include_str!("schema/1.sql")),
    SchemaStep::Sql(include_str!("schema/2.sql")),
    SchemaStep::Sql(include_str!("schema/3.sql")),
    SchemaStep::Rust(upgrade::stored_plans),
    SchemaStep::Sql(include_str!("schema/5.sql")),
    SchemaStep::Sql(include_str!("schema/6.sql")),
];

/// An upgrade that was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upgrade {
    /// Schema version before.
    pub from: u32,
    /// Schema version now.
    pub to: u32,
    /// The backup copy of the store before the upgrade.
    pub backup: PathBuf,
}

/// The kind of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DatabaseKind {
    /// An empty database.
    Empty,
    /// A store with this schema version.
    Store(u32),
    /// Something else, described as text.
    Foreign(String),
}

/// Determines the kind of a database, without changing it.
pub(crate) fn inspect(connection: &Connection) -> rusqlite::Result<DatabaseKind> {
    // In one transaction: another process may be creating the store.
    let _instant = match connection.is_autocommit() {
        true => Some(connection.unchecked_transaction()?),
        false => None,
    };
    let number = |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, i64>(0));
    let objects = number("SELECT count(*) FROM sqlite_schema")?;
    let application = number("PRAGMA application_id")?;
    let version = number("PRAGMA user_version")?;
    Ok(match (application, version) {
        (application, _) if application == i64::from(APPLICATION_ID) => {
            DatabaseKind::Store(u32::try_from(version).unwrap_or(u32::MAX))
        }
        (0, 0) if objects == 0 => DatabaseKind::Empty,
        (0, _) => DatabaseKind::Foreign(format!(
            "it is an SQLite database with {objects} tables and indexes of others"
        )),
        (application, _) => DatabaseKind::Foreign(format!(
            "it is an SQLite database of another program (application id {application:#x})"
        )),
    })
}

/// Upgrades a database to the last of `steps`, in one transaction. If `path` is given, a store that is not empty is
/// copied first. A database that is newer or of another program is not changed: see [`inspect`].
pub(crate) fn migrate(
    connection: &Connection,
    steps: &[SchemaStep],
    path: Option<&Path>,
) -> Result<Option<Upgrade>, OperationError> {
    // This lock prevents other processes from writing, and from upgrading a second time.
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let from = match inspect(&transaction)? {
        DatabaseKind::Empty => 0,
        DatabaseKind::Store(version) => version,
        DatabaseKind::Foreign(_) => return Ok(None),
    };
    let to = steps.len() as u32;
    if from >= to {
        return Ok(None);
    }
    let backup = match path {
        Some(path) if from > 0 => Some(back_up(path, from)?),
        _ => None,
    };
    for step in steps.iter().skip(from as usize) {
        match step {
            SchemaStep::Sql(statements) => transaction.execute_batch(statements)?,
            SchemaStep::Rust(change) => change(&transaction)?,
        }
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", to)?;
    transaction.commit()?;
    Ok(backup.map(|backup| Upgrade { from, to, backup }))
}

/// Copies a store to `NAME.schema-N.bak` beside it and syncs the copy. The caller holds the write lock. An earlier
/// copy is never replaced: the new one gets a number.
fn back_up(path: &Path, schema: u32) -> Result<PathBuf, StoreError> {
    let doing = "copying the store before its upgrade";
    let name = |number: u32| match number {
        1 => companion(path, &format!(".schema-{schema}.bak")),
        more => companion(path, &format!(".schema-{schema}-{more}.bak")),
    };
    let unused = (1..).map(name).find(|backup| !backup.exists());
    let backup = unused.unwrap_or_else(|| name(1));
    // Left behind by a killed process.
    let unfinished = companion(path, ".bak-unfinished");
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(StoreError::io(&unfinished, doing, error));
        }
        _ => {}
    }
    // SQLite uses an empty file as it is, and would make a new one accessible to all.
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode(path))
        .open(&unfinished)
        .map_err(|error| StoreError::io(&unfinished, doing, error))?;
    let copied = copy(path, &unfinished)
        .map_err(|error| StoreError::sqlite(&backup, doing, error))
        .and_then(|()| {
            let synced = File::open(&unfinished).and_then(|file| file.sync_all());
            let named = synced.and_then(|()| fs::rename(&unfinished, &backup));
            let folder = path.parent().unwrap_or(Path::new("/"));
            named
                .and_then(|()| File::open(folder)?.sync_all())
                .map_err(|error| StoreError::io(&backup, doing, error))
        });
    if copied.is_err() {
        // The copy is incomplete, and may fill the file system.
        let _ = fs::remove_file(&unfinished);
    }
    copied.map(|()| backup)
}

/// Uses a connection of its own: a copy cannot be made within a write transaction.
fn copy(path: &Path, to: &Path) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let reader = Connection::open_with_flags(path, flags)?;
    // As bytes: a path is not always UTF-8.
    let name = ToSqlOutput::Borrowed(ValueRef::Text(to.as_os_str().as_bytes()));
    reader.execute("VACUUM INTO ?1", [name])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_schema_is_one_more_step_and_keeps_stored_data() {
        let connection = Connection::open_in_memory().unwrap();
        migrate(&connection, STEPS, None).unwrap();
        connection
            .execute("INSERT INTO owners (process) VALUES (7)", [])
            .unwrap();
        let next = [
            STEPS,
            &[SchemaStep::Sql("ALTER TABLE owners ADD COLUMN host TEXT")],
        ]
        .concat();
        migrate(&connection, &next, None).unwrap();
        migrate(&connection, &next, None).unwrap();
        assert_eq!(
            inspect(&connection).unwrap(),
            DatabaseKind::Store(next.len() as u32)
        );
        let row = connection.query_row("SELECT process, host FROM owners", [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, Option<String>>(1)?))
        });
        assert_eq!(row.unwrap(), (7, None));
    }

    #[test]
    fn a_step_that_fails_changes_nothing() {
        let connection = Connection::open_in_memory().unwrap();
        migrate(&connection, STEPS, None).unwrap();
        let next = [
            STEPS,
            &[SchemaStep::Sql(
                "CREATE TABLE more (x); CREATE TABLE runs (y)",
            )],
        ]
        .concat();
        assert!(migrate(&connection, &next, None).is_err());
        assert_eq!(
            inspect(&connection).unwrap(),
            DatabaseKind::Store(STEPS.len() as u32)
        );
        assert!(connection.prepare("SELECT x FROM more").is_err());
    }

    #[test]
    fn a_newer_store_is_not_changed() {
        let connection = Connection::open_in_memory().unwrap();
        migrate(
            &connection,
            &[STEPS, &[SchemaStep::Sql("CREATE TABLE more (x)")]].concat(),
            None,
        )
        .unwrap();
        migrate(&connection, STEPS, None).unwrap();
        assert_eq!(
            inspect(&connection).unwrap(),
            DatabaseKind::Store(STEPS.len() as u32 + 1)
        );
    }

    #[test]
    fn recognises_databases_of_other_programs() {
        let connection = Connection::open_in_memory().unwrap();
        assert_eq!(inspect(&connection).unwrap(), DatabaseKind::Empty);
        connection.execute_batch("CREATE TABLE theirs (x)").unwrap();
        assert!(matches!(
            inspect(&connection).unwrap(),
            DatabaseKind::Foreign(_)
        ));
        connection
            .pragma_update(None, "application_id", 77)
            .unwrap();
        assert!(matches!(
            inspect(&connection).unwrap(),
            DatabaseKind::Foreign(_)
        ));
        migrate(&connection, STEPS, None).unwrap();
        assert!(connection.prepare("SELECT * FROM runs").is_err());
    }
}
