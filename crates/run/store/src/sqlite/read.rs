//! Queries: lists, single trials, series.

use iodyno_model::{
    Environment, Frame, KnownTarget, Outcome, Run, RunId, RunState, RunSummary, Telemetry, Trial,
    TrialKey, TrialState, TrialSummary,
};
use rusqlite::types::{FromSqlError, Type, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::SqliteStore;
use super::liveness::Liveness;
use super::rows::{blob, damaged, document, environment_of, plan, run_id, trial_number, unknown};
use crate::StoreError;
use crate::blob::{decode, decode_large};
use crate::error::OperationError;
use crate::rebuild::PartsRebuilder;

const RUN_COLUMNS: &str = "
    alias, id, name, started_unix_ms, ended_unix_ms, state, owner, cells, rounds, imported, verdicts,
    coalesce(planned, cells * rounds) AS planned,
    (SELECT count(DISTINCT round * cells + cell) FROM trials
        WHERE run = alias AND trials.state = 'completed') AS completed,
    (SELECT count(*) FROM trials AS latest
        WHERE run = alias AND round < rounds AND latest.state IS NOT NULL AND NOT EXISTS
            (SELECT 1 FROM trials AS later WHERE later.run = alias AND later.round = latest.round
                AND later.cell = latest.cell AND later.attempt > latest.attempt)) AS ended,
    (SELECT count(DISTINCT round * cells + cell) FROM trials
        WHERE run = alias AND round < rounds AND trials.state = 'completed') AS whole,
    (SELECT host FROM trials
        WHERE run = alias AND host IS NOT NULL ORDER BY number DESC LIMIT 1) AS host,
    (SELECT max(started_unix_ms + last_ns / 1000000) FROM trials WHERE run = alias) AS last_ms,
    CASE WHEN coalesce(planned, cells * rounds) = 1 THEN
        (SELECT totals FROM trials WHERE run = alias ORDER BY attempt DESC LIMIT 1) END AS totals";

pub(super) fn runs(
    store: &SqliteStore,
    limit: usize,
    offset: usize,
) -> Result<Vec<RunSummary>, StoreError> {
    store.reading("listing runs", |transaction| {
        let liveness = Liveness::of(store)?;
        let sql = format!("SELECT {RUN_COLUMNS} FROM runs ORDER BY alias DESC LIMIT ?1 OFFSET ?2");
        let mut statement = transaction.prepare_cached(&sql)?;
        let bounded = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let mut rows = statement.query([bounded(limit), bounded(offset)])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(match run_summary(&liveness, row) {
                Err(OperationError::Sqlite(error)) => damaged_run(row, &error),
                summary => summary?,
            });
        }
        Ok(found)
    })
}

pub(super) fn run(store: &SqliteStore, run: RunId) -> Result<Run, StoreError> {
    store.reading("reading a run", |transaction| {
        let liveness = Liveness::of(store)?;
        let summary = {
            let sql = format!("SELECT {RUN_COLUMNS} FROM runs WHERE id = ?1");
            let mut statement = transaction.prepare_cached(&sql)?;
            let mut rows = statement.query([run.0.as_bytes()])?;
            let row = rows.next()?.ok_or_else(|| unknown(run))?;
            run_summary(&liveness, row)?
        };
        let mut statement = transaction.prepare_cached(
            "SELECT round, cell, attempt, configuration, workload, started_unix_ms, state, reason,
                 owner, host, frames, totals
             FROM trials WHERE run = ?1 ORDER BY round, cell, attempt",
        )?;
        let mut rows = statement.query([summary.alias])?;
        let mut trials = Vec::new();
        while let Some(row) = rows.next()? {
            trials.push(trial_summary(&liveness, transaction, run, row)?);
        }
        Ok(Run {
            foreign: foreign(transaction, summary.alias)?,
            plan: plan(store, transaction, run)?,
            summary,
            trials,
        })
    })
}

/// Whether a run or one of its trials was imported: only these have no owner.
fn foreign(connection: &Connection, alias: u64) -> Result<bool, OperationError> {
    let mut statement = connection.prepare_cached(
        "SELECT owner IS NULL OR EXISTS (SELECT 1 FROM trials WHERE run = alias AND trials.owner IS NULL)
         FROM runs WHERE alias = ?1",
    )?;
    Ok(statement.query_row([alias], |row| row.get(0))?)
}

/// The targets that the run's latest trial stored.
pub(super) fn targets(store: &SqliteStore, run: RunId) -> Result<Vec<KnownTarget>, StoreError> {
    store.reading("reading a run's targets", |transaction| {
        let mut statement = transaction.prepare_cached(
            "SELECT data FROM runs JOIN trials ON run = alias JOIN documents ON trial = number
             WHERE id = ?1 AND kind = 'targets' ORDER BY number DESC LIMIT 1",
        )?;
        let mut rows = statement.query([run.0.as_bytes()])?;
        match rows.next()? {
            Some(row) => blob(store, row, 0),
            None => Ok(Vec::new()),
        }
    })
}

pub(super) fn trial(store: &SqliteStore, key: TrialKey) -> Result<Trial, StoreError> {
    store.reading("reading a trial", |transaction| {
        let number = trial_number(transaction, key)?;
        match document(store, transaction, number, "record", decode_large)? {
            Some(record) => Ok(record),
            None => unfinished(store, transaction, key, number),
        }
    })
}

pub(super) fn frames(
    store: &SqliteStore,
    key: TrialKey,
    from: u32,
    limit: usize,
) -> Result<Vec<Frame>, StoreError> {
    store.reading("reading frames", |transaction| {
        let number = trial_number(transaction, key)?;
        let mut statement = transaction.prepare_cached(
            "SELECT data FROM frames WHERE trial = ?1 AND number >= ?2 ORDER BY number LIMIT ?3",
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

/// A trial without a record, rebuilt from its environment and its frames.
fn unfinished(
    store: &SqliteStore,
    transaction: &Transaction<'_>,
    key: TrialKey,
    number: i64,
) -> Result<Trial, OperationError> {
    let liveness = Liveness::of(store)?;
    let (configuration, workload, started_unix_ms, owner) = transaction.query_row(
        "SELECT configuration, workload, started_unix_ms, owner FROM trials WHERE number = ?1",
        [number],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
    )?;
    let plan = plan(store, transaction, key.run)?;
    if key.cell >= plan.cells() {
        return Err(damaged(store, format!("the plan has no cell {}", key.cell)));
    }
    let mut environments: Vec<(String, Option<Environment>)> = Vec::new();
    for node in plan.node_names_of(key.cell) {
        let environment = document(store, transaction, number, &environment_of(&node), decode)?;
        environments.push((node, environment));
    }
    let mut rebuilder = PartsRebuilder::default();
    let mut statement =
        transaction.prepare_cached("SELECT data FROM frames WHERE trial = ?1 ORDER BY number")?;
    let mut rows = statement.query([number])?;
    while let Some(row) = rows.next()? {
        rebuilder.add(&blob::<Frame>(store, row, 0)?);
    }
    let parts = rebuilder.parts(environments, plan.cell(key.cell).1);
    Ok(Trial {
        schema: plan.schema,
        key,
        configuration,
        workload,
        started_unix_ms,
        probe: None,
        outcome: Outcome::Interrupted(match liveness.lives(owner)? {
            true => "it is still running".to_owned(),
            false => cut_off(transaction, owner)?,
        }),
        parts,
        frames: Vec::new(),
        telemetry: Telemetry::default(),
        findings: Vec::new(),
    })
}

/// Why an interrupted trial has no end, as text.
fn cut_off(connection: &Connection, owner: Option<i64>) -> Result<String, OperationError> {
    let process: Option<u32> = connection
        .prepare_cached("SELECT process FROM owners WHERE number = ?1")?
        .query_row([owner], |row| row.get(0))
        .optional()?;
    Ok(match process {
        Some(process) => format!("its process {process} ended before the trial"),
        None => "its process ended before the trial".to_owned(),
    })
}

fn run_summary(liveness: &Liveness, row: &Row<'_>) -> Result<RunSummary, OperationError> {
    let (cells, rounds): (u32, u32) = (row.get("cells")?, row.get("rounds")?);
    let trials_planned: u64 = row.get("planned")?;
    let all = |column| Ok::<bool, OperationError>(row.get::<_, u64>(column)? == trials_planned);
    let state = match row.get::<_, Option<String>>("state")? {
        Some(state) => parse(row, "state", &format!("\"{state}\""))?,
        None if liveness.lives(row.get("owner")?)? => RunState::Running,
        // The process was killed after the last trial, before it could store the end.
        None if all("whole")? => RunState::Completed,
        None if all("ended")? => RunState::Failed,
        None => RunState::Interrupted,
    };
    let started_unix_ms: u64 = row.get("started_unix_ms")?;
    let ended = match row.get::<_, Option<u64>>("ended_unix_ms")? {
        None if state != RunState::Running => row.get::<_, Option<u64>>("last_ms")?,
        ended => ended,
    };
    Ok(RunSummary {
        alias: row.get("alias")?,
        id: run_id(row, "id")?,
        name: row.get("name")?,
        state,
        started_unix_ms,
        duration_ms: ended.map(|ended| ended.saturating_sub(started_unix_ms)),
        cells,
        rounds,
        trials_planned,
        trials_completed: row.get("completed")?,
        imported: row.get("imported")?,
        host: row.get("host")?,
        totals: match row.get::<_, Option<String>>("totals")? {
            Some(totals) => parse(row, "totals", &totals)?,
            None => Vec::new(),
        },
        verdicts: match row.get::<_, Option<String>>("verdicts")? {
            Some(verdicts) => Some(parse(row, "verdicts", &verdicts)?),
            None => None,
        },
        damaged: None,
    })
}

/// The readable data of a run whose record is damaged, so that the other runs can be listed.
fn damaged_run(row: &Row<'_>, error: &rusqlite::Error) -> RunSummary {
    let text = row.get_ref("name").ok().and_then(|name| match name {
        ValueRef::Text(name) => Some(String::from_utf8_lossy(name).into_owned()),
        _ => None,
    });
    RunSummary {
        alias: row.get("alias").unwrap_or_default(),
        id: run_id(row, "id").unwrap_or(RunId(Uuid::nil())),
        name: text.unwrap_or_default(),
        state: RunState::Failed,
        started_unix_ms: row.get("started_unix_ms").unwrap_or_default(),
        duration_ms: None,
        cells: 0,
        rounds: 0,
        trials_planned: 0,
        trials_completed: 0,
        imported: 0,
        host: None,
        totals: Vec::new(),
        verdicts: None,
        damaged: Some(error.to_string()),
    }
}

fn trial_summary(
    liveness: &Liveness,
    connection: &Connection,
    run: RunId,
    row: &Row<'_>,
) -> Result<TrialSummary, OperationError> {
    let owner: Option<i64> = row.get("owner")?;
    let (state, reason) = match row.get::<_, Option<String>>("state")? {
        Some(state) => (
            parse(row, "state", &format!("\"{state}\""))?,
            row.get("reason")?,
        ),
        None if liveness.lives(owner)? => (TrialState::Running, None),
        None => (TrialState::Interrupted, Some(cut_off(connection, owner)?)),
    };
    Ok(TrialSummary {
        key: TrialKey {
            run,
            round: row.get("round")?,
            cell: row.get("cell")?,
            attempt: row.get("attempt")?,
        },
        configuration: row.get("configuration")?,
        workload: row.get("workload")?,
        started_unix_ms: row.get("started_unix_ms")?,
        state,
        reason,
        host: row.get("host")?,
        frames: row.get("frames")?,
        totals: parse(row, "totals", &row.get::<_, String>("totals")?)?,
    })
}

/// Parses a text column that holds JSON.
fn parse<T: DeserializeOwned>(
    row: &Row<'_>,
    column: &str,
    text: &str,
) -> Result<T, OperationError> {
    serde_json::from_slice(text.as_bytes()).map_err(|error| {
        let index = row.as_ref().column_index(column).unwrap_or(0);
        let error = FromSqlError::other(error);
        rusqlite::Error::FromSqlConversionFailure(index, Type::Text, Box::new(error)).into()
    })
}
