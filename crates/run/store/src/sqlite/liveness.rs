//! Which runs a live process executes.

use std::path::PathBuf;

use iodyno_model::RunId;
use rusqlite::{Connection, OptionalExtension};

use super::SqliteStore;
use super::rows::{no_such_run, unknown};
use crate::StoreError;
use crate::error::OperationError;
use crate::owner::{Owners, lock_file};

/// Which owners are alive, as seen from one store.
pub(super) struct Liveness {
    owners: Owners,
    path: PathBuf,
}

impl Liveness {
    pub(super) fn of(store: &SqliteStore) -> Result<Liveness, StoreError> {
        let path = lock_file(&store.path);
        if store.in_memory {
            let owners = Owners::All;
            return Ok(Liveness { owners, path });
        }
        match Owners::of(&store.path) {
            Ok(owners) => Ok(Liveness { owners, path }),
            Err(error) => Err(StoreError::io(&path, "looking for live runs", error)),
        }
    }

    pub(super) fn lives(&self, owner: Option<i64>) -> Result<bool, StoreError> {
        match owner.map(|owner| self.owners.lives(owner)) {
            None => Ok(false),
            Some(Ok(lives)) => Ok(lives),
            Some(Err(error)) => Err(StoreError::io(&self.path, "looking for live runs", error)),
        }
    }

    /// Returns the alias of a run; refuses a run that a live process is executing.
    pub(super) fn refuse_live(
        &self,
        connection: &Connection,
        run: RunId,
    ) -> Result<u64, OperationError> {
        let alias: u64 = connection
            .query_row(
                "SELECT alias FROM runs WHERE id = ?1",
                [run.0.as_bytes()],
                |row| row.get(0),
            )
            .optional()?
            .ok_or_else(|| unknown(run))?;
        self.refuse_live_numbered(connection, alias)?;
        Ok(alias)
    }

    /// Refuses a run that a live process is executing.
    pub(super) fn refuse_live_numbered(
        &self,
        connection: &Connection,
        alias: u64,
    ) -> Result<(), OperationError> {
        let row = connection
            .query_row(
                "SELECT state IS NULL, owner, process
                 FROM runs LEFT JOIN owners ON number = owner WHERE alias = ?1",
                [alias],
                |row| {
                    Ok((
                        row.get::<_, bool>(0)?,
                        row.get(1)?,
                        row.get::<_, Option<u32>>(2)?,
                    ))
                },
            )
            .optional()?;
        let (open, owner, process) =
            row.ok_or_else(|| no_such_run(&alias.to_string(), "it was deleted"))?;
        match open && self.lives(owner)? {
            true => Err(OperationError::Store(StoreError::RunIsLive {
                alias,
                process: process.unwrap_or(0),
            })),
            false => Ok(()),
        }
    }
}
