//! A trial that this process writes to.

use iodyno_model::{DirectionTotal, TrialKey};
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde::de::DeserializeOwned;

use super::SqliteStore;
use super::rows::{conflict, damaged};
use crate::StoreError;
use crate::blob::decode_large;
use crate::error::{OperationError, in_words};

/// A trial that this process writes to.
pub(super) struct OpenTrial {
    pub(super) number: i64,
    pub(super) finished: bool,
    pub(super) totals: Vec<DirectionTotal>,
    path: std::path::PathBuf,
}

impl OpenTrial {
    pub(super) fn find(
        store: &SqliteStore,
        connection: &Connection,
        key: TrialKey,
    ) -> Result<OpenTrial, OperationError> {
        let row = connection
            .prepare_cached(
                "SELECT number, trials.state, trials.owner, totals FROM trials
                 JOIN runs ON alias = run
                 WHERE id = ?1 AND round = ?2 AND cell = ?3 AND attempt = ?4",
            )?
            .query_row(
                params![key.run.0.as_bytes(), key.round, key.cell, key.attempt],
                |row| {
                    Ok((
                        row.get::<_, i64>(0)?,
                        row.get::<_, Option<String>>(1)?,
                        row.get::<_, Option<i64>>(2)?,
                        row.get::<_, String>(3)?,
                    ))
                },
            )
            .optional()?;
        let (number, state, owner, totals) = row.ok_or(StoreError::NoSuchTrial(key))?;
        if owner.is_none() || owner != store.owner.get().map(|owner| owner.number) {
            let text = format!("another process began the trial of {}", in_words(&key));
            return Err(conflict(text));
        }
        Ok(OpenTrial {
            number,
            finished: state.is_some(),
            totals: serde_json::from_slice(totals.as_bytes())
                .map_err(|error| damaged(store, error.to_string()))?,
            path: store.path.clone(),
        })
    }

    pub(super) fn refuse_finished(&self, key: TrialKey) -> Result<(), OperationError> {
        match self.finished {
            true => Err(conflict(format!(
                "the trial of {} has ended already",
                in_words(&key)
            ))),
            false => Ok(()),
        }
    }

    /// Stores a document; returns true if it was already stored. Refuses to replace a different one.
    pub(super) fn put_document<T: DeserializeOwned + PartialEq>(
        &self,
        transaction: &Transaction<'_>,
        kind: &str,
        blob: &[u8],
        record: &T,
    ) -> Result<bool, OperationError> {
        let stored: Option<Vec<u8>> = transaction
            .query_row(
                "SELECT data FROM documents WHERE trial = ?1 AND kind = ?2",
                params![self.number, kind],
                |row| row.get(0),
            )
            .optional()?;
        let Some(stored) = stored else {
            transaction.execute(
                "INSERT INTO documents (trial, kind, data) VALUES (?1, ?2, ?3)",
                params![self.number, kind, blob],
            )?;
            return Ok(false);
        };
        let stored: T = decode_large(&stored).map_err(|what| StoreError::Damaged {
            path: self.path.clone(),
            what,
        })?;
        match stored == *record {
            true => Ok(true),
            false => Err(conflict(format!("the trial has another {kind} already"))),
        }
    }
}
