//! Imports an exported run, completely or not at all.
//!
//! The file is first read into temporary tables. These belong to this connection alone, so a long or damaged file
//! does not block other processes. After the whole file was checked, it is merged in one transaction.

use std::io::BufRead;

use iodyno_model::{Frame, Outcome, Plan, RunId, TelemetryBatch, Trial, TrialKey};
use rusqlite::{OptionalExtension, Transaction, TransactionBehavior, named_params, params};

use super::liveness::Liveness;
use super::rows::{conflict, damaged, document, plan};
use super::telemetry::encoded;
use super::write::{checked, hosts, imported, json, word};
use super::{SqliteStore, Survives};
use crate::blob::{decode_large, encode};
use crate::error::{OperationError, in_words};
use crate::export::RunLine;
use crate::import::{Sink, read_export};
use crate::secrets::{
    frame_without, mask_trial, plan_without, rename_in_frame, rename_in_plan, rename_in_telemetry,
    rename_in_trial, same, same_plan, telemetry_without,
};
use crate::segment::Packer;
use crate::{ImportReport, RunHandle, StoreError, totals};

const STAGING: &str = "
    DROP TABLE IF EXISTS temp.staged_trials;
    DROP TABLE IF EXISTS temp.staged_frames;
    DROP TABLE IF EXISTS temp.staged_telemetry;
    CREATE TEMP TABLE staged_trials (
        number INTEGER PRIMARY KEY, round, cell, attempt, configuration, workload, started_unix_ms,
        state, reason, host, frames DEFAULT 0, last_ns DEFAULT 0, totals, record
    );
    CREATE TEMP TABLE staged_frames (trial, number, data, PRIMARY KEY (trial, number));
    CREATE TEMP TABLE staged_telemetry (trial, number, data, PRIMARY KEY (trial, number));";

const UNSTAGING: &str = "
    DROP TABLE IF EXISTS temp.staged_trials;
    DROP TABLE IF EXISTS temp.staged_frames;
    DROP TABLE IF EXISTS temp.staged_telemetry;";

pub(super) fn import(
    store: &SqliteStore,
    file: &mut dyn BufRead,
) -> Result<ImportReport, StoreError> {
    let staged = store.doing("reading the file to import", |connection| {
        // This writes only to temporary tables, and so holds no lock on shared tables.
        let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Deferred)?;
        transaction.execute_batch(STAGING)?;
        let mut staging = Staging {
            connection: &transaction,
            run: None,
            trial: 0,
            telemetry: Packer::default(),
            store,
            renamed: Vec::new(),
        };
        read_export(file, &mut staging)?;
        staging.put_telemetry()?;
        let run = staging.run;
        transaction.commit()?;
        Ok(run)
    })?;
    let Some((id, run)) = staged else {
        return Err(StoreError::BadExport {
            line: 1,
            why: "there is no run in it".to_owned(),
        });
    };
    let merged = store.writing("importing a run", Survives::PowerCut, |transaction| {
        merge(store, transaction, id, &run)
    });
    // Closing the connection drops them too, so a failure here can be ignored.
    let _ = store.connection.execute_batch(UNSTAGING);
    merged
}

/// The temporary tables while the file is read.
struct Staging<'a> {
    store: &'a SqliteStore,
    connection: &'a Transaction<'a>,
    run: Option<(RunId, RunLine)>,
    trial: i64,
    /// Batches of the current trial that are not yet in its table.
    telemetry: Packer,
    /// The nodes that have other names in the store: an exported run may have pseudonyms.
    renamed: Vec<(String, String)>,
}

impl Staging<'_> {
    /// Packs the batches read so far. The trial has ended, so no more can be appended to it.
    fn put_telemetry(&mut self) -> Result<(), OperationError> {
        let batches = self.telemetry.take();
        if let Some(first) = batches.first() {
            let blob = encoded(&batches)?;
            self.connection
                .prepare_cached(
                    "INSERT INTO staged_telemetry (trial, number, data) VALUES (?1, ?2, ?3)",
                )?
                .execute(params![self.trial, first.number, blob])?;
        }
        Ok(())
    }
}

impl Sink<OperationError> for Staging<'_> {
    fn run(&mut self, id: RunId, mut run: RunLine) -> Result<(), OperationError> {
        run.plan = plan_without(&run.plan)?;
        if known_run(self.connection, id)?.is_some() {
            let stored = plan(self.store, self.connection, id)?;
            let nodes = run.plan.nodes.iter().zip(&stored.nodes);
            let nodes = nodes.map(|(own, known)| (own.name.clone(), known.name.clone()));
            self.renamed = nodes.filter(|(own, known)| own != known).collect();
        }
        for (own, known) in &self.renamed {
            rename_in_plan(&mut run.plan, own, known);
        }
        self.run = Some((id, run));
        Ok(())
    }

    fn trial(&mut self, mut trial: Trial) -> Result<(), OperationError> {
        self.put_telemetry()?;
        mask_trial(&mut trial)?;
        rename_in_trial(&mut trial, &self.renamed);
        let hosts = hosts(&trial);
        self.trial += 1;
        self.connection
            .prepare_cached(
                "INSERT INTO staged_trials (number, round, cell, attempt, configuration, workload,
                     started_unix_ms, state, reason, host, totals, record)
                 VALUES (:number, :round, :cell, :attempt, :configuration, :workload,
                     :started, :state, :reason, :host, :totals, :record)",
            )?
            .execute(named_params! {
                ":number": self.trial,
                ":round": trial.key.round,
                ":cell": trial.key.cell,
                ":attempt": trial.key.attempt,
                ":configuration": trial.configuration,
                ":workload": trial.workload,
                ":started": trial.started_unix_ms,
                ":state": word(&trial.outcome.state())?,
                ":reason": trial.outcome.reason(),
                ":host": hosts,
                ":totals": json(&totals::of_trial(&trial))?,
                ":record": checked("a trial", &trial)?,
            })?;
        Ok(())
    }

    fn frame(&mut self, mut frame: Frame) -> Result<(), OperationError> {
        rename_in_frame(&mut frame, &self.renamed);
        let blob = encode(&*frame_without(&frame)).map_err(|source| StoreError::NotStorable {
            what: "a frame",
            source,
        })?;
        self.connection
            .prepare_cached("INSERT INTO staged_frames (trial, number, data) VALUES (?1, ?2, ?3)")?
            .execute(params![self.trial, frame.number, blob])?;
        self.connection
            .prepare_cached(
                "UPDATE staged_trials SET frames = frames + 1, last_ns = max(last_ns, ?2)
                 WHERE number = ?1",
            )?
            .execute(params![self.trial, frame.end_ns])?;
        Ok(())
    }

    fn telemetry(&mut self, mut batch: TelemetryBatch) -> Result<(), OperationError> {
        rename_in_telemetry(&mut batch, &self.renamed);
        let batch = telemetry_without(&batch)?.into_owned();
        match self.telemetry.add(batch) {
            Ok(()) => Ok(()),
            Err(batch) => {
                self.put_telemetry()?;
                // An empty segment accepts any batch.
                let _ = self.telemetry.add(batch);
                Ok(())
            }
        }
    }
}

fn known_run(transaction: &Transaction<'_>, id: RunId) -> Result<Option<i64>, OperationError> {
    Ok(transaction
        .query_row(
            "SELECT alias FROM runs WHERE id = ?1",
            [id.0.as_bytes()],
            |row| row.get(0),
        )
        .optional()?)
}

fn merge(
    store: &SqliteStore,
    transaction: &Transaction<'_>,
    id: RunId,
    run: &RunLine,
) -> Result<ImportReport, OperationError> {
    let (alias, extended) = match known_run(transaction, id)? {
        None => (insert_run(transaction, id, run)?, None),
        Some(alias) => {
            Liveness::of(store)?.refuse_live(transaction, id)?;
            let stored = plan_without(&plan(store, transaction, id)?)?;
            let extended = extended(stored, &run.plan)?.ok_or_else(|| {
                let text = format!("run {alias} has the same identity and another plan");
                conflict(text)
            })?;
            (alias, Some(extended))
        }
    };
    let mut report = ImportReport {
        run: RunHandle {
            id,
            alias: alias as u64,
        },
        new_run: extended.is_none(),
        trials_added: 0,
        trials_known: 0,
        frames_added: 0,
    };
    let mut statement = transaction
        .prepare("SELECT number, round, cell, attempt FROM staged_trials ORDER BY number")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let staged: i64 = row.get(0)?;
        let key = TrialKey {
            run: id,
            round: row.get(1)?,
            cell: row.get(2)?,
            attempt: row.get(3)?,
        };
        match known_trial(transaction, alias, key)? {
            Some(trial) => {
                refuse_other_trial(store, transaction, staged, trial, key)?;
                report.trials_known += 1;
            }
            None => {
                report.frames_added += insert_trial(transaction, alias, staged)?;
                report.trials_added += 1;
            }
        }
    }
    if let Some(plan) = extended
        && report.trials_added > 0
    {
        adopt_progress(transaction, alias, run, &plan)?;
    }
    Ok(report)
}

/// The stored plan of a run with the progress of an export of that run. `None`: the export has another plan.
fn extended(mut stored: Plan, exported: &Plan) -> Result<Option<Plan>, StoreError> {
    // Rounds may have been added, and a rule may have ended a workload.
    stored.rounds = stored.rounds.max(exported.rounds);
    if exported.looks.len() >= stored.looks.len() {
        stored.looks.clone_from(&exported.looks);
    }
    for (own, other) in stored.workloads.iter_mut().zip(&exported.workloads) {
        own.rounds = [own.rounds, other.rounds].into_iter().flatten().min();
    }
    // The run may have been given another name in either store since the export; it keeps its name here.
    let mut other = Plan {
        name: stored.name.clone(),
        rounds: stored.rounds,
        looks: stored.looks.clone(),
        ..exported.clone()
    };
    for (other, own) in other.workloads.iter_mut().zip(&stored.workloads) {
        other.rounds = own.rounds;
    }
    // An exported run may lack the names.
    Ok(same_plan(&stored, &other)?.then_some(stored))
}

/// Adopts the later end, the larger number of rounds and the looks of a run that was resumed in another store.
fn adopt_progress(
    transaction: &Transaction<'_>,
    alias: i64,
    run: &RunLine,
    plan: &Plan,
) -> Result<(), OperationError> {
    transaction.execute(
        "UPDATE runs SET state = ?2, ended_unix_ms = ?3, rounds = ?4, plan = ?5, planned = ?6,
             verdicts = ?7
         WHERE alias = ?1 AND coalesce(ended_unix_ms, 0) <= coalesce(?3, 0)",
        params![
            alias,
            word(&run.state)?,
            run.ended_unix_ms,
            run.rounds.unwrap_or(run.plan.rounds),
            checked("the plan", plan)?,
            plan.trials(run.rounds.unwrap_or(run.plan.rounds)),
            run.verdicts.as_ref().map(json).transpose()?
        ],
    )?;
    Ok(())
}

fn insert_run(
    transaction: &Transaction<'_>,
    id: RunId,
    run: &RunLine,
) -> Result<i64, OperationError> {
    transaction.execute(
        "INSERT INTO runs
             (id, name, started_unix_ms, ended_unix_ms, state, cells, rounds, imported, plan,
              planned, verdicts)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        params![
            id.0.as_bytes(),
            run.plan.name,
            run.started_unix_ms,
            run.ended_unix_ms,
            word(&run.state)?,
            run.plan.cells(),
            run.rounds.unwrap_or(run.plan.rounds),
            imported(&run.plan),
            checked("the plan", &run.plan)?,
            run.plan.trials(run.rounds.unwrap_or(run.plan.rounds)),
            run.verdicts.as_ref().map(json).transpose()?
        ],
    )?;
    Ok(transaction.last_insert_rowid())
}

fn known_trial(
    transaction: &Transaction<'_>,
    alias: i64,
    key: TrialKey,
) -> Result<Option<i64>, OperationError> {
    Ok(transaction
        .prepare_cached(
            "SELECT number FROM trials
             WHERE run = ?1 AND round = ?2 AND cell = ?3 AND attempt = ?4",
        )?
        .query_row(params![alias, key.round, key.cell, key.attempt], |row| {
            row.get(0)
        })
        .optional()?)
}

/// Refuses a different result for a trial: the run may have been resumed independently in both stores.
fn refuse_other_trial(
    store: &SqliteStore,
    transaction: &Transaction<'_>,
    staged: i64,
    trial: i64,
    key: TrialKey,
) -> Result<(), OperationError> {
    let blob: Vec<u8> = transaction.query_row(
        "SELECT record FROM staged_trials WHERE number = ?1",
        [staged],
        |row| row.get(0),
    )?;
    let staged: Trial = decode_large(&blob).map_err(|why| damaged(store, why))?;
    let same = match document::<Trial>(store, transaction, trial, "record", decode_large)? {
        Some(mut stored) => {
            mask_trial(&mut stored)?;
            same("the trial", &stored, &staged)?
        }
        // Interrupted in this store and in the exported file.
        None => {
            let started: u64 = transaction.query_row(
                "SELECT started_unix_ms FROM trials WHERE number = ?1",
                [trial],
                |row| row.get(0),
            )?;
            started == staged.started_unix_ms && matches!(staged.outcome, Outcome::Interrupted(_))
        }
    };
    match same {
        true => Ok(()),
        false => Err(conflict(format!(
            "this store has another trial of {} in the same run",
            in_words(&key)
        ))),
    }
}

/// Merges a staged trial; returns the number of its frames.
fn insert_trial(
    transaction: &Transaction<'_>,
    alias: i64,
    staged: i64,
) -> Result<u64, OperationError> {
    transaction
        .prepare_cached(
            "INSERT INTO trials (run, round, cell, attempt, configuration, workload,
                 started_unix_ms, state, reason, host, frames, last_ns, totals)
             SELECT ?1, round, cell, attempt, configuration, workload,
                 started_unix_ms, state, reason, host, frames, last_ns, totals
             FROM staged_trials WHERE number = ?2",
        )?
        .execute([alias, staged])?;
    let trial = transaction.last_insert_rowid();
    transaction
        .prepare_cached(
            "INSERT INTO documents (trial, kind, data)
             SELECT ?1, 'record', record FROM staged_trials WHERE number = ?2",
        )?
        .execute([trial, staged])?;
    let frames = transaction
        .prepare_cached(
            "INSERT INTO frames (trial, number, data)
             SELECT ?1, number, data FROM staged_frames WHERE trial = ?2 ORDER BY number",
        )?
        .execute([trial, staged])?;
    transaction
        .prepare_cached(
            "INSERT INTO telemetry (trial, number, data)
             SELECT ?1, number, data FROM staged_telemetry WHERE trial = ?2 ORDER BY number",
        )?
        .execute([trial, staged])?;
    Ok(frames as u64)
}
