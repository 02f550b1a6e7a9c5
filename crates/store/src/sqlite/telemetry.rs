//! What the host did during a trial: appended while it goes on.

use iodyno_model::{TelemetryBatch, TrialKey};
use rusqlite::{OptionalExtension, params};

use super::read::{blob, damaged, trial_number};
use super::write::{OpenTrial, conflict};
use super::{SqliteStore, Survives};
use crate::StoreError;
use crate::blob::{decode, encode};
use crate::error::in_words;

pub(super) fn append(
    store: &SqliteStore,
    key: TrialKey,
    batch: &TelemetryBatch,
) -> Result<(), StoreError> {
    let blob = encode(batch).map_err(|source| StoreError::NotStorable {
        what: "a batch of telemetry",
        source,
    })?;
    store.writing("appending telemetry", Survives::Kill, |transaction| {
        let trial = OpenTrial::find(store, transaction, key)?;
        let stored: Option<Vec<u8>> = transaction
            .prepare_cached("SELECT data FROM telemetry WHERE trial = ?1 AND number = ?2")?
            .query_row(params![trial.number, batch.number], |row| row.get(0))
            .optional()?;
        if let Some(stored) = stored {
            let stored: TelemetryBatch = decode(&stored).map_err(|why| damaged(store, why))?;
            return match stored == *batch {
                true => Ok(()),
                false => Err(conflict(format!(
                    "{} has another batch {} of telemetry already",
                    in_words(&key),
                    batch.number
                ))),
            };
        }
        trial.refuse_finished(key)?;
        transaction
            .prepare_cached("INSERT INTO telemetry (trial, number, data) VALUES (?1, ?2, ?3)")?
            .execute(params![trial.number, batch.number, blob])?;
        Ok(())
    })
}

pub(super) fn read(
    store: &SqliteStore,
    key: TrialKey,
    from: u32,
    limit: usize,
) -> Result<Vec<TelemetryBatch>, StoreError> {
    store.reading("reading telemetry", |transaction| {
        let number = trial_number(transaction, key)?;
        let mut statement = transaction.prepare_cached(
            "SELECT data FROM telemetry WHERE trial = ?1 AND number >= ?2 ORDER BY number LIMIT ?3",
        )?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut rows = statement.query(params![number, from, limit])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(blob(store, row, 0)?);
        }
        Ok(found)
    })
}
