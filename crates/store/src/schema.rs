//! The store's tables, and how an older store is brought up to date.
//!
//! `PRAGMA application_id` says that a file is ours, `PRAGMA user_version` which schema it has. A new
//! schema is one more file in [`STEPS`]: it turns the schema before it into the next one. A step that
//! has been released is never changed again.

use rusqlite::{Connection, Transaction, TransactionBehavior};

/// `iody` in ASCII.
pub(crate) const APPLICATION_ID: i32 = 0x696f_6479;

/// The step at index n makes schema n + 1 from schema n; schema 0 is an empty database.
pub(crate) const STEPS: &[&str] = &[
    include_str!("schema/1.sql"),
    include_str!("schema/2.sql"),
    include_str!("schema/3.sql"),
];

/// What a database is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing is in it.
    Empty,
    /// A store with this schema.
    Store(u32),
    /// Something else, in words.
    Foreign(String),
}

/// Looks what a database is, without changing it.
pub(crate) fn inspect(connection: &Connection) -> rusqlite::Result<Found> {
    // All at one instant: another process may be making the store meanwhile.
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
            Found::Store(u32::try_from(version).unwrap_or(u32::MAX))
        }
        (0, 0) if objects == 0 => Found::Empty,
        (0, _) => Found::Foreign(format!(
            "it is an SQLite database with {objects} tables and indexes of others"
        )),
        (application, _) => Found::Foreign(format!(
            "it is an SQLite database of another program (application id {application:#x})"
        )),
    })
}

/// Brings a database to the last of `steps`, in one transaction. What is newer or not ours is left
/// as it is: to be told from [`inspect`] before.
pub(crate) fn migrate(connection: &Connection, steps: &[&str]) -> rusqlite::Result<()> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    // Looked at again: another process may have been faster.
    let from = match inspect(&transaction)? {
        Found::Empty => 0,
        Found::Store(version) => version as usize,
        Found::Foreign(_) => return Ok(()),
    };
    for (number, step) in (1..).zip(steps).skip(from) {
        if from > 0 {
            tracing::info!(schema = number, "converting the store to a newer schema");
        }
        transaction.execute_batch(step)?;
    }
    if from < steps.len() {
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", steps.len() as i64)?;
    }
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_schema_is_one_more_step_and_keeps_what_is_stored() {
        let connection = Connection::open_in_memory().unwrap();
        migrate(&connection, STEPS).unwrap();
        connection
            .execute("INSERT INTO owners (process) VALUES (7)", [])
            .unwrap();
        let next = [STEPS, &["ALTER TABLE owners ADD COLUMN host TEXT"]].concat();
        migrate(&connection, &next).unwrap();
        migrate(&connection, &next).unwrap();
        assert_eq!(
            inspect(&connection).unwrap(),
            Found::Store(next.len() as u32)
        );
        let row = connection.query_row("SELECT process, host FROM owners", [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, Option<String>>(1)?))
        });
        assert_eq!(row.unwrap(), (7, None));
    }

    #[test]
    fn a_step_that_fails_changes_nothing() {
        let connection = Connection::open_in_memory().unwrap();
        migrate(&connection, STEPS).unwrap();
        let next = [STEPS, &["CREATE TABLE more (x); CREATE TABLE runs (y)"]].concat();
        assert!(migrate(&connection, &next).is_err());
        assert_eq!(
            inspect(&connection).unwrap(),
            Found::Store(STEPS.len() as u32)
        );
        assert!(connection.prepare("SELECT x FROM more").is_err());
    }

    #[test]
    fn a_newer_store_is_left_as_it_is() {
        let connection = Connection::open_in_memory().unwrap();
        migrate(&connection, &[STEPS, &["CREATE TABLE more (x)"]].concat()).unwrap();
        migrate(&connection, STEPS).unwrap();
        assert_eq!(
            inspect(&connection).unwrap(),
            Found::Store(STEPS.len() as u32 + 1)
        );
    }

    #[test]
    fn tells_a_database_of_others() {
        let connection = Connection::open_in_memory().unwrap();
        assert_eq!(inspect(&connection).unwrap(), Found::Empty);
        connection.execute_batch("CREATE TABLE theirs (x)").unwrap();
        assert!(matches!(inspect(&connection).unwrap(), Found::Foreign(_)));
        connection
            .pragma_update(None, "application_id", 77)
            .unwrap();
        assert!(matches!(inspect(&connection).unwrap(), Found::Foreign(_)));
        migrate(&connection, STEPS).unwrap();
        assert!(connection.prepare("SELECT * FROM runs").is_err());
    }
}
