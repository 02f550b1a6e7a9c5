//! Reads rows and documents, and describes what they lack.

use iodyno_model::{Plan, RunId, TrialKey};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::SqliteStore;
use crate::StoreError;
use crate::blob::{decode, decode_large};
use crate::error::OperationError;

pub(super) fn plan(
    store: &SqliteStore,
    connection: &Connection,
    run: RunId,
) -> Result<Plan, OperationError> {
    let mut statement = connection.prepare_cached("SELECT plan FROM runs WHERE id = ?1")?;
    let mut rows = statement.query([run.0.as_bytes()])?;
    let row = rows.next()?.ok_or_else(|| unknown(run))?;
    decode_in(store, row, 0, decode_large)
}

pub(super) fn document<T>(
    store: &SqliteStore,
    connection: &Connection,
    trial: i64,
    kind: &str,
    decode: fn(&[u8]) -> Result<T, String>,
) -> Result<Option<T>, OperationError> {
    let mut statement =
        connection.prepare_cached("SELECT data FROM documents WHERE trial = ?1 AND kind = ?2")?;
    let mut rows = statement.query(params![trial, kind])?;
    match rows.next()? {
        Some(row) => decode_in(store, row, 0, decode).map(Some),
        None => Ok(None),
    }
}

pub(super) fn trial_number(connection: &Connection, key: TrialKey) -> Result<i64, OperationError> {
    connection
        .prepare_cached(
            "SELECT number FROM trials JOIN runs ON alias = run
             WHERE id = ?1 AND round = ?2 AND cell = ?3 AND attempt = ?4",
        )?
        .query_row(
            params![key.run.0.as_bytes(), key.round, key.cell, key.attempt],
            |row| row.get(0),
        )
        .optional()?
        .ok_or(OperationError::Store(StoreError::NoSuchTrial(key)))
}

pub(super) fn blob<T: DeserializeOwned>(
    store: &SqliteStore,
    row: &Row<'_>,
    column: usize,
) -> Result<T, OperationError> {
    decode_in(store, row, column, decode)
}

fn decode_in<T>(
    store: &SqliteStore,
    row: &Row<'_>,
    column: usize,
    decode: fn(&[u8]) -> Result<T, String>,
) -> Result<T, OperationError> {
    let bytes = row.get_ref(column)?.as_blob();
    let bytes = bytes.map_err(|error| damaged(store, error.to_string()))?;
    decode(bytes).map_err(|why| damaged(store, why))
}

pub(super) fn run_id(row: &Row<'_>, column: &str) -> Result<RunId, OperationError> {
    let bytes: [u8; 16] = row.get(column)?;
    Ok(RunId(Uuid::from_bytes(bytes)))
}

pub(super) fn damaged(store: &SqliteStore, what: String) -> OperationError {
    OperationError::Store(StoreError::Damaged {
        path: store.path.clone(),
        what,
    })
}

/// The kind of the document with the environment of a node; the name is empty if the plan names none.
pub(super) fn environment_of(node: &str) -> String {
    match node {
        "" => "environment".to_owned(),
        node => format!("environment {node}"),
    }
}

pub(super) fn conflict(text: String) -> OperationError {
    OperationError::Store(StoreError::Conflict(text))
}

/// The error for an identity that the store does not have.
pub(super) fn unknown(run: RunId) -> OperationError {
    no_such_run(&run.to_string(), "this store does not have it")
}

pub(super) fn no_such_run(name: &str, why: &str) -> OperationError {
    OperationError::Store(StoreError::NoSuchRun {
        name: name.to_owned(),
        why: why.to_owned(),
    })
}
