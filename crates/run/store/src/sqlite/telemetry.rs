//! Telemetry of the host during a trial: appended while the trial runs, packed into segments when it has ended.
//!
//! Each segment is packed in its own transaction, after the trial's record is stored. If the process is killed in
//! between, the remaining batches stay as they were appended; in either case each batch is stored exactly once. The
//! batches of an interrupted trial are packed when its run is resumed.

use iodyno_model::{TelemetryBatch, TrialKey};
use rusqlite::{Connection, Row, Transaction, params};

use super::open_trial::OpenTrial;
use super::rows::{conflict, damaged, trial_number};
use super::{SqliteStore, Survives};
use crate::blob::{decode_telemetry, encode_telemetry, is_segment};
use crate::error::{OperationError, in_words};
use crate::segment::Packer;
use crate::{RunHandle, StoreError};

/// Appends an encoded batch, unless it is stored.
pub(super) fn append(
    store: &SqliteStore,
    transaction: &Transaction<'_>,
    (trial, key): (&OpenTrial, TrialKey),
    (batch, blob): (&TelemetryBatch, &[u8]),
) -> Result<(), OperationError> {
    if let Some(stored) = stored(store, transaction, trial, batch.number)? {
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
    insert(transaction, trial.number, batch.number, blob)
}

pub(super) fn read(
    store: &SqliteStore,
    key: TrialKey,
    from: u32,
    limit: usize,
) -> Result<Vec<TelemetryBatch>, StoreError> {
    store.reading("reading telemetry", |transaction| {
        let trial = trial_number(transaction, key)?;
        // The first batch may be in a segment that begins before it.
        let mut statement = transaction.prepare_cached(
            "SELECT data FROM telemetry WHERE trial = ?1 AND number >= coalesce(
                 (SELECT max(number) FROM telemetry WHERE trial = ?1 AND number <= ?2), 0)
             ORDER BY number",
        )?;
        let mut rows = statement.query(params![trial, from])?;
        let mut found = Vec::new();
        while found.len() < limit
            && let Some(row) = rows.next()?
        {
            let batches = batches(store, row)?.into_iter();
            let wanted = batches.filter(|batch| batch.number >= from);
            found.extend(wanted.take(limit - found.len()));
        }
        Ok(found)
    })
}

/// Packs the batches of an ended trial that are not packed yet.
pub(super) fn pack_trial(store: &SqliteStore, trial: i64) -> Result<(), StoreError> {
    let mut from = Some(0);
    while let Some(number) = from {
        from = store.writing(
            "putting telemetry together",
            Survives::Kill,
            |transaction| pack_segment(store, transaction, trial, number),
        )?;
    }
    Ok(())
}

/// Packs the batches of a run's interrupted trials. No process appends to them any longer: a process that resumes the
/// run begins new trials.
pub(super) fn pack_interrupted(store: &SqliteStore, run: RunHandle) -> Result<(), StoreError> {
    let cut_off = store.reading("looking for trials that were cut off", |transaction| {
        let mut statement = transaction
            .prepare_cached("SELECT number FROM trials WHERE run = ?1 AND state IS NULL")?;
        let numbers = statement.query_map([run.alias], |row| row.get::<_, i64>(0))?;
        Ok(numbers.collect::<Result<Vec<i64>, _>>()?)
    })?;
    cut_off
        .into_iter()
        .try_for_each(|trial| pack_trial(store, trial))
}

/// Packs one segment of batches, beginning with a given number. Returns the number after them, if there are more.
fn pack_segment(
    store: &SqliteStore,
    transaction: &Transaction<'_>,
    trial: i64,
    from: u32,
) -> Result<Option<u32>, OperationError> {
    let mut packer = Packer::default();
    {
        let mut statement = transaction.prepare_cached(
            "SELECT data FROM telemetry WHERE trial = ?1 AND number >= ?2 ORDER BY number",
        )?;
        let mut rows = statement.query(params![trial, from])?;
        while let Some(row) = rows.next()? {
            let together = row.get_ref(0)?.as_blob().is_ok_and(is_segment);
            match (together, packer.is_empty()) {
                (true, true) => continue,
                (true, false) => break,
                (false, _) => {}
            }
            let batch = batches(store, row)?.pop();
            if batch.is_some_and(|batch| packer.add(batch).is_err()) {
                break;
            }
        }
    }
    let batches = packer.take();
    let (Some(first), Some(last)) = (batches.first(), batches.last()) else {
        return Ok(None);
    };
    let (first, last) = (first.number, last.number);
    if batches.len() > 1 {
        transaction
            .prepare_cached("DELETE FROM telemetry WHERE trial = ?1 AND number BETWEEN ?2 AND ?3")?
            .execute(params![trial, first, last])?;
        insert(transaction, trial, first, &encoded(&batches)?)?;
    }
    Ok(last.checked_add(1))
}

/// The stored batch of this number; `None` if it was not appended yet.
fn stored(
    store: &SqliteStore,
    connection: &Connection,
    trial: &OpenTrial,
    number: u32,
) -> Result<Option<TelemetryBatch>, OperationError> {
    let sql = match trial.finished {
        false => "SELECT data FROM telemetry WHERE trial = ?1 AND number = ?2",
        true => {
            "SELECT data FROM telemetry WHERE trial = ?1 AND number <= ?2
             ORDER BY number DESC LIMIT 1"
        }
    };
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![trial.number, number])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let mut batches = batches(store, row)?.into_iter();
    Ok(batches.find(|batch| batch.number == number))
}

fn insert(
    transaction: &Transaction<'_>,
    trial: i64,
    number: u32,
    blob: &[u8],
) -> Result<(), OperationError> {
    transaction
        .prepare_cached("INSERT INTO telemetry (trial, number, data) VALUES (?1, ?2, ?3)")?
        .execute(params![trial, number, blob])?;
    Ok(())
}

/// Encodes batches as a blob.
pub(super) fn encoded(batches: &[TelemetryBatch]) -> Result<Vec<u8>, StoreError> {
    encode_telemetry(batches).map_err(|source| StoreError::NotStorable {
        what: "a batch of telemetry",
        source,
    })
}

/// Decodes the batches in a row's first column.
fn batches(store: &SqliteStore, row: &Row<'_>) -> Result<Vec<TelemetryBatch>, OperationError> {
    let blob = row.get_ref(0)?.as_blob();
    let blob = blob.map_err(|error| damaged(store, error.to_string()))?;
    decode_telemetry(blob).map_err(|why| damaged(store, why))
}
