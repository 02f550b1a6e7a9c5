//! The interface of the store: writes the data of a run in progress.

use std::borrow::Cow;
use std::io;

use iodyno_model::{
    CommandRun, Environment, Frame, KnownTarget, Part, Plan, Run, RunId, RunState, RunSummary,
    Telemetry, TelemetryBatch, Trial, TrialKey, VerdictCounts,
};
use iodyno_secrets::masked;
use rusqlite::{OptionalExtension, Transaction, named_params, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::liveness::Liveness;
use super::open_trial::OpenTrial;
use super::rows::{conflict, damaged, document, environment_of, plan, unknown};
use super::{SqliteStore, Survives, find, read, telemetry};
use crate::blob::{decode, decode_large, encode, text};
use crate::error::{OperationError, in_words};
use crate::owner::{Owner, lock_file};
use crate::secrets::{frame_without, mask_trial, plan_without, telemetry_without, without};
use crate::{Appended, RunHandle, Store, StoreError, totals};

impl SqliteStore {
    /// Gives a run another name. Durable when it returns.
    ///
    /// # Errors
    /// As [`Store::run`].
    pub fn rename_run(&self, run: RunId, name: &str) -> Result<(), StoreError> {
        self.writing("naming a run", Survives::PowerCut, |transaction| {
            let mut plan = plan(self, transaction, run)?;
            name.clone_into(&mut plan.name);
            transaction.execute(
                "UPDATE runs SET name = ?2, plan = ?3 WHERE id = ?1",
                params![run.0.as_bytes(), name, checked("the plan", &plan)?],
            )?;
            Ok(())
        })
    }

    /// Deletes the runs with these numbers and all their trials: all of them, or none on an error. Their records are
    /// not read, because they may be damaged. Later runs use their space in the file. Durable when it returns.
    ///
    /// # Errors
    /// [`StoreError::RunIsLive`] while the process that executes one of them is alive.
    pub fn delete_runs(&self, runs: &[u64]) -> Result<(), StoreError> {
        self.writing("deleting runs", Survives::PowerCut, |transaction| {
            let liveness = Liveness::of(self)?;
            for alias in runs {
                liveness.refuse_live_numbered(transaction, *alias)?;
                for table in ["telemetry", "frames", "documents"] {
                    let trials = "SELECT number FROM trials WHERE run = ?1";
                    let delete = format!("DELETE FROM {table} WHERE trial IN ({trials})");
                    transaction.execute(&delete, [alias])?;
                }
                transaction.execute("DELETE FROM trials WHERE run = ?1", [alias])?;
                transaction.execute("DELETE FROM runs WHERE alias = ?1", [alias])?;
            }
            Ok(())
        })
    }
}

impl Store for SqliteStore {
    fn begin_run(&self, plan: &Plan, started_unix_ms: u64) -> Result<RunHandle, StoreError> {
        let owner = owner(self)?;
        let id = RunId::fresh();
        let plan = &plan_without(plan)?;
        let blob = checked("the plan", plan)?;
        self.writing("storing the plan", Survives::PowerCut, |transaction| {
            transaction.execute(
                "INSERT INTO runs
                 (id, name, started_unix_ms, owner, cells, rounds, imported, plan, planned)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                params![
                    id.0.as_bytes(),
                    plan.name,
                    started_unix_ms,
                    owner,
                    plan.cells(),
                    plan.rounds,
                    imported(plan),
                    blob,
                    plan.trials(plan.rounds)
                ],
            )?;
            Ok(RunHandle {
                id,
                alias: transaction.last_insert_rowid() as u64,
            })
        })
    }

    fn resume_run(&self, run: RunId) -> Result<RunHandle, StoreError> {
        let owner = owner(self)?;
        let handle = self.writing("resuming a run", Survives::PowerCut, |transaction| {
            let alias = Liveness::of(self)?.refuse_live(transaction, run)?;
            transaction.execute(
                "UPDATE runs SET owner = ?2, state = NULL, ended_unix_ms = NULL, verdicts = NULL
                 WHERE alias = ?1",
                params![alias, owner],
            )?;
            Ok(RunHandle { id: run, alias })
        })?;
        // The run now belongs to this process. If packing fails, the telemetry stays as it was appended.
        let _ = telemetry::pack_interrupted(self, handle);
        Ok(handle)
    }

    fn set_rounds(&self, run: RunId, rounds: u32) -> Result<(), StoreError> {
        change_plan(self, run, "setting a run's rounds", |plan, of_run| {
            plan.rounds = plan.rounds.max(rounds);
            *of_run = rounds;
            Ok(())
        })
    }

    fn end_workload(&self, run: RunId, workload: usize, rounds: u32) -> Result<(), StoreError> {
        change_plan(self, run, "ending a workload", |plan, _| {
            let Some(ended) = plan.workloads.get_mut(workload) else {
                return Err(conflict(format!("the plan has no workload {workload}")));
            };
            ended.rounds = Some(rounds);
            Ok(())
        })
    }

    fn note_look(&self, run: RunId, rounds: u32) -> Result<(), StoreError> {
        change_plan(self, run, "recording a look", |plan, _| {
            if plan.looks.last() != Some(&rounds) {
                plan.looks.push(rounds);
            }
            Ok(())
        })
    }

    fn begin_trial(
        &self,
        key: TrialKey,
        configuration: &str,
        workload: &str,
        started_unix_ms: u64,
    ) -> Result<(), StoreError> {
        let owner = owner(self)?;
        let (configuration, workload) = (masked(configuration), masked(workload));
        self.writing("beginning a trial", Survives::Kill, |transaction| {
            let (alias, cells) = transaction
                .query_row(
                    "SELECT alias, cells FROM runs WHERE id = ?1",
                    [key.run.0.as_bytes()],
                    |row| Ok((row.get::<_, i64>(0)?, row.get::<_, u32>(1)?)),
                )
                .optional()?
                .ok_or_else(|| unknown(key.run))?;
            if key.cell >= cells {
                return Err(conflict(format!(
                    "the plan has {cells} cells, and no cell {}",
                    key.cell
                )));
            }
            let begun = transaction.execute(
                "INSERT OR IGNORE INTO trials
                 (run, round, cell, attempt, configuration, workload, started_unix_ms, owner)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                params![
                    alias,
                    key.round,
                    key.cell,
                    key.attempt,
                    configuration,
                    workload,
                    started_unix_ms,
                    owner
                ],
            )?;
            if begun == 0 {
                let same: bool = transaction.query_row(
                    "SELECT owner IS ?5 AND started_unix_ms = ?6 FROM trials
                 WHERE run = ?1 AND round = ?2 AND cell = ?3 AND attempt = ?4",
                    params![
                        alias,
                        key.round,
                        key.cell,
                        key.attempt,
                        owner,
                        started_unix_ms
                    ],
                    |row| row.get(0),
                )?;
                if !same {
                    return Err(conflict(format!(
                        "there is a trial of {} already",
                        in_words(&key)
                    )));
                }
            }
            Ok(())
        })
    }

    fn set_environment(
        &self,
        key: TrialKey,
        node: &str,
        environment: &Environment,
    ) -> Result<(), StoreError> {
        let environment = &without("the environment", environment)?;
        let blob = checked("the environment", environment)?;
        let document = environment_of(&masked(node));
        self.writing("storing the environment", Survives::Kill, |transaction| {
            let trial = OpenTrial::find(self, transaction, key)?;
            if !trial.put_document(transaction, &document, &blob, environment)? {
                transaction.execute(
                    "UPDATE trials SET host = coalesce(host || ', ', '') || ?2 WHERE number = ?1",
                    params![trial.number, environment.host],
                )?;
            }
            Ok(())
        })
    }

    fn set_targets(&self, key: TrialKey, targets: &[KnownTarget]) -> Result<(), StoreError> {
        let blob = checked("the targets", &targets.to_vec())?;
        self.writing("storing the targets", Survives::Kill, |transaction| {
            let trial = OpenTrial::find(self, transaction, key)?;
            transaction.execute(
                "INSERT OR REPLACE INTO documents (trial, kind, data) VALUES (?1, 'targets', ?2)",
                params![trial.number, blob],
            )?;
            Ok(())
        })
    }

    /// A store in memory keeps no telemetry.
    fn append(&self, key: TrialKey, results: &[Appended<'_>]) -> Result<(), StoreError> {
        let mut blobs = Vec::new();
        for result in results {
            if !self.in_memory || matches!(result, Appended::Frame(_)) {
                blobs.push(encoded(result)?);
            }
        }
        if blobs.is_empty() {
            return Ok(());
        }
        self.writing("appending results", Survives::Kill, |transaction| {
            let trial = OpenTrial::find(self, transaction, key)?;
            let (mut added, mut last_ns, mut sums) = (0, 0, trial.totals.clone());
            for encoded in &blobs {
                match encoded {
                    Encoded::Frame(frame, blob) => {
                        if append_frame(self, transaction, (&trial, key), (frame, blob))? {
                            added += 1;
                            last_ns = frame.end_ns.max(last_ns);
                            totals::add_frame(&mut sums, frame);
                        }
                    }
                    Encoded::Telemetry(batch, blob) => {
                        telemetry::append(self, transaction, (&trial, key), (batch, blob))?;
                    }
                }
            }
            if added > 0 {
                transaction
                .prepare_cached(
                    "UPDATE trials SET frames = frames + ?4, last_ns = max(last_ns, ?2), totals = ?3
                     WHERE number = ?1",
                )?
                .execute(params![trial.number, last_ns, json(&sums)?, added])?;
            }
            Ok(())
        })
    }

    fn finish_trial(&self, trial: &Trial) -> Result<(), StoreError> {
        let mut record = Trial {
            frames: Vec::new(),
            telemetry: Telemetry::default(),
            ..trial.clone()
        };
        mask_trial(&mut record)?;
        let blob = checked("the trial", &record)?;
        let hosts = hosts(&record);
        self.writing("storing a trial", Survives::PowerCut, |transaction| {
            let found = OpenTrial::find(self, transaction, trial.key)?;
            if found.put_document(transaction, "record", &blob, &record)? {
                return Ok(());
            }
            found.refuse_finished(trial.key)?;
            let sums = match record.parts.is_empty() {
                true => found.totals,
                false => totals::of_trial(&record),
            };
            transaction.execute(
                "UPDATE trials SET state = :state, reason = :reason, totals = :totals,
                 configuration = :configuration, workload = :workload,
                 started_unix_ms = :started, host = coalesce(:host, host)
             WHERE number = :number",
                named_params! {
                    ":number": found.number,
                    ":state": word(&record.outcome.state())?,
                    ":reason": record.outcome.reason(),
                    ":totals": json(&sums)?,
                    ":configuration": record.configuration,
                    ":workload": record.workload,
                    ":started": record.started_unix_ms,
                    ":host": hosts,
                },
            )?;
            Ok(())
        })
    }

    fn pack_trial(&self, key: TrialKey) {
        let found = self.reading("looking for a trial", |transaction| {
            Ok(OpenTrial::find(self, transaction, key)?.number)
        });
        // If packing fails, the telemetry stays as it was appended, and is complete.
        let _ = found.and_then(|number| telemetry::pack_trial(self, number));
    }

    fn add_commands(
        &self,
        key: TrialKey,
        node: &str,
        commands: &[CommandRun],
    ) -> Result<(), StoreError> {
        let node = masked(node);
        self.writing("storing commands", Survives::Kill, |transaction| {
            let found = OpenTrial::find(self, transaction, key)?;
            let Some(mut record) =
                document::<Trial>(self, transaction, found.number, "record", decode_large)?
            else {
                return Ok(());
            };
            let own = |part: &&mut Part| node.is_empty() || part.node == *node;
            for part in record.parts.iter_mut().filter(own) {
                if let Some(made) = &mut part.environment.made {
                    made.commands
                        .extend_from_slice(&without("the commands", &commands.to_vec())?);
                }
            }
            transaction.execute(
                "UPDATE documents SET data = ?2 WHERE trial = ?1 AND kind = 'record'",
                params![found.number, checked("the trial", &record)?],
            )?;
            Ok(())
        })
    }

    fn finish_run(
        &self,
        run: RunId,
        state: RunState,
        ended_unix_ms: u64,
    ) -> Result<(), StoreError> {
        if state == RunState::Running {
            return Err(StoreError::Conflict(
                "a run cannot end as running".to_owned(),
            ));
        }
        let owner = owner(self)?;
        self.writing("ending a run", Survives::PowerCut, |transaction| {
            let changed = transaction.execute(
                "UPDATE runs SET state = ?2, ended_unix_ms = ?3 WHERE id = ?1 AND owner = ?4",
                params![run.0.as_bytes(), word(&state)?, ended_unix_ms, owner],
            )?;
            not_of_others(run, changed)
        })
    }

    fn set_verdicts(&self, run: RunId, verdicts: &VerdictCounts) -> Result<(), StoreError> {
        let owner = owner(self)?;
        self.writing("storing verdicts", Survives::Kill, |transaction| {
            let changed = transaction.execute(
                "UPDATE runs SET verdicts = ?2 WHERE id = ?1 AND owner = ?3",
                params![run.0.as_bytes(), json(verdicts)?, owner],
            )?;
            not_of_others(run, changed)
        })
    }

    fn runs(&self, limit: usize, offset: usize) -> Result<Vec<RunSummary>, StoreError> {
        read::runs(self, limit, offset)
    }

    fn find(&self, name: &str) -> Result<RunId, StoreError> {
        find::find(self, name)
    }

    fn run(&self, run: RunId) -> Result<Run, StoreError> {
        read::run(self, run)
    }

    fn trial(&self, key: TrialKey) -> Result<Trial, StoreError> {
        read::trial(self, key)
    }

    fn frames(&self, key: TrialKey, from: u32, limit: usize) -> Result<Vec<Frame>, StoreError> {
        read::frames(self, key, from, limit)
    }

    fn telemetry(
        &self,
        key: TrialKey,
        from: u32,
        limit: usize,
    ) -> Result<Vec<TelemetryBatch>, StoreError> {
        telemetry::read(self, key, from, limit)
    }

    fn targets(&self, run: RunId) -> Result<Vec<KnownTarget>, StoreError> {
        read::targets(self, run)
    }
}

/// Changes the plan of a run that this process owns, and its number of rounds.
fn change_plan(
    store: &SqliteStore,
    run: RunId,
    doing: &'static str,
    change: impl FnOnce(&mut Plan, &mut u32) -> Result<(), OperationError>,
) -> Result<(), StoreError> {
    let owner = owner(store)?;
    store.writing(doing, Survives::PowerCut, |transaction| {
        let mut plan = plan(store, transaction, run)?;
        let id = run.0.as_bytes();
        let rounds = "SELECT rounds FROM runs WHERE id = ?1";
        let mut rounds = transaction.query_row(rounds, [id], |row| row.get(0))?;
        change(&mut plan, &mut rounds)?;
        let blob = checked("the plan", &plan)?;
        let changed = transaction.execute(
            "UPDATE runs SET plan = ?3, rounds = ?4, planned = ?5 WHERE id = ?1 AND owner = ?2",
            params![id, owner, blob, rounds, plan.trials(rounds)],
        )?;
        not_of_others(run, changed)
    })
}

/// A result without secrets, and its blob.
enum Encoded<'a> {
    Frame(Cow<'a, Frame>, Vec<u8>),
    Telemetry(Cow<'a, TelemetryBatch>, Vec<u8>),
}

fn encoded<'a>(result: &Appended<'a>) -> Result<Encoded<'a>, StoreError> {
    match result {
        Appended::Frame(frame) if frame.end_ns < frame.start_ns => Err(StoreError::Conflict(
            format!("frame {} ends before it begins", frame.number),
        )),
        Appended::Frame(frame) => {
            let frame = frame_without(frame);
            let blob = encode(&*frame).map_err(|source| StoreError::NotStorable {
                what: "a frame",
                source,
            })?;
            Ok(Encoded::Frame(frame, blob))
        }
        Appended::Telemetry(batch) => {
            let batch = telemetry_without(batch)?;
            let blob = telemetry::encoded(std::slice::from_ref(&*batch))?;
            Ok(Encoded::Telemetry(batch, blob))
        }
    }
}

/// Inserts an encoded frame; `false` if it is stored already.
fn append_frame(
    store: &SqliteStore,
    transaction: &Transaction<'_>,
    (trial, key): (&OpenTrial, TrialKey),
    (frame, blob): (&Frame, &[u8]),
) -> Result<bool, OperationError> {
    let stored: Option<Vec<u8>> = transaction
        .prepare_cached("SELECT data FROM frames WHERE trial = ?1 AND number = ?2")?
        .query_row(params![trial.number, frame.number], |row| row.get(0))
        .optional()?;
    if let Some(stored) = stored {
        let stored: Frame = decode(&stored).map_err(|why| damaged(store, why))?;
        return match stored == *frame {
            true => Ok(false),
            false => Err(conflict(format!(
                "{} has another frame {} already",
                in_words(&key),
                frame.number
            ))),
        };
    }
    trial.refuse_finished(key)?;
    transaction
        .prepare_cached("INSERT INTO frames (trial, number, data) VALUES (?1, ?2, ?3)")?
        .execute(params![trial.number, frame.number, blob])?;
    Ok(true)
}

/// The names of the hosts of a trial's parts; `None` without parts.
pub(super) fn hosts(trial: &Trial) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    for part in &trial.parts {
        let host = part.environment.host.as_str();
        if !names.contains(&host) {
            names.push(host);
        }
    }
    (!names.is_empty()).then(|| names.join(", "))
}

/// Refuses to change a run that another process owns.
fn not_of_others(run: RunId, changed: usize) -> Result<(), OperationError> {
    match changed {
        0 => Err(conflict(format!("run {run} is not this process's"))),
        _ => Ok(()),
    }
}

/// Number of trials that were imported from the output of other tools.
pub(super) fn imported(plan: &Plan) -> u64 {
    let imported = plan.imported.as_ref();
    imported.map_or(0, |imported| imported.trials.len() as u64)
}

/// The number of this process among the owners, assigned at the first call.
pub(super) fn owner(store: &SqliteStore) -> Result<i64, StoreError> {
    if let Some(owner) = store.owner.get() {
        return Ok(owner.number);
    }
    let taken = store.writing("registering this process", Survives::Kill, |transaction| {
        loop {
            transaction.execute(
                "INSERT INTO owners (process) VALUES (?1)",
                [std::process::id()],
            )?;
            // The lock is taken before other processes can see the number.
            let number = transaction.last_insert_rowid();
            if store.in_memory {
                return Ok(Owner::of_memory(number));
            }
            match Owner::acquire(&store.path, number) {
                Ok(owner) => return Ok(owner),
                // The store was deleted while a run was in progress, but the owners file was not: skip the numbers in
                // use.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    let path = lock_file(&store.path);
                    return Err(StoreError::io(&path, "registering this process", error).into());
                }
            }
        }
    })?;
    Ok(store.owner.get_or_init(|| taken).number)
}

/// Encodes a record and checks that it can be decoded: JSON cannot express NaN.
pub(super) fn checked<T: Serialize + DeserializeOwned>(
    what: &'static str,
    record: &T,
) -> Result<Vec<u8>, StoreError> {
    let not_storable = |source| StoreError::NotStorable { what, source };
    let blob = encode(record).map_err(not_storable)?;
    decode_large::<T>(&blob)
        .map_err(|why| not_storable(serde::ser::Error::custom(why)))
        .map(|_| blob)
}

/// Encodes a text column as JSON.
pub(super) fn json(record: &impl Serialize) -> Result<String, StoreError> {
    text(record).map_err(|source| StoreError::NotStorable {
        what: "the totals",
        source,
    })
}

/// The name of a state, as serde writes it.
pub(super) fn word(state: &impl Serialize) -> Result<String, StoreError> {
    Ok(json(state)?.trim_matches('"').to_owned())
}
