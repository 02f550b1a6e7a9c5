//! Goes on with a run that was cut off, or that is to have more rounds.

use iodyno_model::{
    Environment, Frame, Histogram, Plan, RunId, RunState, Trial, TrialKey, TrialState,
};
use iodyno_store::{Run, Store, StoreError};

use crate::rounds::{Dependencies, Rounds};
use crate::{Lab, Progress, RunEnd};

/// Frames asked of the store at once.
const BATCH: usize = 256;

/// Why a run could not be gone on with. Nothing was done.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// Nothing is lacking.
    #[error("run {alias} is complete: nothing is lacking in its first {rounds} rounds")]
    Complete {
        /// Its number in the store.
        alias: u64,
        /// Rounds that are whole: all that it has, or as many as were asked for.
        rounds: u32,
    },
    /// It has no trials of its own.
    #[error("run {alias} was imported: there is nothing to go on with")]
    Imported {
        /// Its number in the store.
        alias: u64,
    },
    /// What the store says.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ResumeError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            ResumeError::Complete { rounds, .. } => {
                let more = rounds.saturating_mul(2).max(1);
                Some(format!("give it more rounds with `--rounds {more}`"))
            }
            ResumeError::Imported { .. } => None,
            ResumeError::Store(error) => error.hint(),
        }
    }
}

/// Makes the trials that a run lacks, in the order they would have had.
///
/// Only a trial that has completed counts as made. Every other one (failed, interrupted, refused, or not made
/// because its cell had been given up) is made again, as its next attempt; a cell that fails in three rounds
/// running again, never having completed, is given up again. A target that is no longer what the
/// run's trials of before ran on is not touched: its trials fail. `rounds`, as many in all, extends a run that is complete, or one that was stopped by a rule;
/// where it is given, so many are made however narrow the intervals are. The time allowed counts from this call.
/// What was measured before is read from the store, a trial at a time, for the verdict so far.
///
/// # Errors
/// [`ResumeError::Complete`] if nothing is lacking; [`StoreError::RunIsLive`] while a process carries it out.
pub fn resume(
    run: RunId,
    rounds: Option<u32>,
    lab: &Lab<'_>,
    observer: &mut dyn FnMut(Progress<'_>),
) -> Result<RunEnd, ResumeError> {
    resume_with(run, rounds, lab, &Dependencies::here(), observer)
}

/// [`resume`] with other means to judge and to tell the time.
pub(crate) fn resume_with(
    run: RunId,
    rounds: Option<u32>,
    lab: &Lab<'_>,
    dependencies: &Dependencies<'_>,
    observer: &mut dyn FnMut(Progress<'_>),
) -> Result<RunEnd, ResumeError> {
    let before = lab.store.run(run)?;
    let alias = before.summary.alias;
    if before.plan.imported.is_some() {
        return Err(ResumeError::Imported { alias });
    }
    // A live run is told of by the store, below.
    let ended = before.summary.state != RunState::Running;
    let wanted = rounds.unwrap_or(before.summary.rounds);
    if ended && lacking(&before, wanted) == 0 {
        // Fewer rounds than it has may be whole where the others are not.
        let rounds = match lacking(&before, before.summary.rounds) {
            0 => before.summary.rounds,
            _ => wanted,
        };
        return Err(ResumeError::Complete { alias, rounds });
    }
    let handle = lab.store.resume_run(run)?;
    if wanted != before.summary.rounds {
        lab.store.set_rounds(run, wanted)?;
    }
    // Another process may have made some of it since.
    let stored = lab.store.run(run)?;
    let mut plan = Plan {
        rounds: wanted,
        ..stored.plan.clone()
    };
    if let Some(rounds) = rounds {
        plan.stopping.least_rounds = rounds;
    }
    observer(Progress::Begun(handle));
    let mut going = Rounds::new(lab, &plan, dependencies, handle);
    for cell in 0..plan.cells() {
        if let Some(environment) = ran_on(lab.store, &stored, cell) {
            going.ran_on(cell, &environment);
        }
    }
    for (key, state) in latest(&stored).filter(|(key, _)| key.round < wanted) {
        let made = going.remember(key, state);
        if !made || plan.cells() < 2 || lab.stop.is_set() {
            continue;
        }
        match load(lab.store, key) {
            Ok(trial) => going.saw(&trial),
            Err(error) => observer(Progress::Note(&format!(
                "the verdict so far is made without round {} of {}: {error}",
                key.round + 1,
                plan.cell(key.cell).0.name
            ))),
        }
    }
    Ok(going.carry_out(observer))
}

/// Each trial's latest attempt, by round and cell.
fn latest(run: &Run) -> impl Iterator<Item = (TrialKey, TrialState)> {
    let place = |key: TrialKey| (key.round, key.cell);
    run.trials
        .iter()
        .enumerate()
        .filter_map(move |(index, trial)| {
            let next = run.trials.get(index + 1);
            let superseded = next.is_some_and(|next| place(next.key) == place(trial.key));
            (!superseded).then_some((trial.key, trial.state))
        })
}

/// How many trials of so many rounds are lacking.
fn lacking(run: &Run, rounds: u32) -> u64 {
    let made =
        latest(run).filter(|(key, state)| key.round < rounds && *state == TrialState::Completed);
    let planned = u64::from(run.plan.cells()) * u64::from(rounds);
    planned.saturating_sub(made.count() as u64)
}

/// What a cell's first trial that completed ran on, or else the first that was interrupted. One that
/// failed says nothing: its target may have been the wrong one, and that why.
fn ran_on(store: &dyn Store, run: &Run, cell: u32) -> Option<Environment> {
    let of = |state| {
        run.trials
            .iter()
            .filter(move |trial| trial.key.cell == cell && trial.state == state)
    };
    of(TrialState::Completed)
        .chain(of(TrialState::Interrupted))
        .find_map(|trial| {
            let trial = store.trial(trial.key).ok()?;
            trial.parts.into_iter().next().map(|part| part.environment)
        })
}

/// A trial as it was when it ended: with its series, without the histograms of that.
fn load(store: &dyn Store, key: TrialKey) -> Result<Trial, StoreError> {
    let mut trial = store.trial(key)?;
    loop {
        let next = trial.frames.last().map_or(0, |frame| frame.number + 1);
        let mut batch = store.frames(key, next, BATCH)?;
        let last = batch.len() < BATCH;
        batch.iter_mut().for_each(drop_histograms);
        trial.frames.append(&mut batch);
        if last {
            return Ok(trial);
        }
    }
}

/// Leaves a frame's counts. Histograms of a ten-hour trial of many jobs would fill the memory of the
/// host under test; the store has them.
pub(crate) fn drop_histograms(frame: &mut Frame) {
    for direction in frame.jobs.iter_mut().flat_map(|job| &mut job.directions) {
        direction.service = Histogram::default();
        direction.response = None;
    }
}

#[cfg(test)]
mod tests;
