//! Resumes a run that was interrupted, or that is extended by more rounds.

use std::collections::BTreeMap;

use iodyno_model::printable::{on_one_line, shell_word};
use iodyno_model::{
    Diagnostic, Environment, Frame, Plan, Run, RunId, RunState, Trial, TrialKey, TrialState,
    TrialSummary,
};
use iodyno_store::{Store, StoreError};

use crate::acts::Act;
use crate::experiment::shortages;
use crate::origin::{adopted, differences, fingerprint};
use crate::permission::{NamedTarget, Permission};
use crate::rounds::{Dependencies, Rounds};
use crate::schedule::order;
use crate::{Lab, Progress, RunEnd};

/// Number of frames read from the store at once.
const BATCH: usize = 256;

/// Why a run could not be resumed. No trial was run.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// No trial is missing.
    #[error("run {alias} is complete: nothing is missing in its first {rounds} rounds")]
    Complete {
        /// Its number in the store.
        alias: u64,
        /// The number of its complete rounds: all rounds, or the requested number.
        rounds: u32,
        /// Whether more rounds would give it more trials.
        can_grow: bool,
    },
    /// No trial of the selected cells is missing.
    #[error("run {alias} has all trials of this part")]
    PartComplete {
        /// Its number in the store.
        alias: u64,
    },
    /// It was imported and has no trials.
    #[error("run {alias} was imported and cannot be resumed")]
    Imported {
        /// Its number in the store.
        alias: u64,
    },
    /// The plan of others is larger than any that iodyno makes.
    #[error("run {alias} has {excess}")]
    TooLarge {
        /// Its number in the store.
        alias: u64,
        /// The value that is too large.
        excess: String,
    },
    /// The plan of another user contains actions that the user did not allow in this invocation, or allowed actions are
    /// not in the run.
    #[error("{0}")]
    NotAllowed(Box<NotAllowed>),
    /// The given experiment is not that of the run.
    #[error(
        "run {alias} has another plan than the experiment{}",
        listed("  ", differences)
    )]
    Differs {
        /// Its number in the store.
        alias: u64,
        /// The differences.
        differences: Vec<String>,
    },
    /// The missing trials lack space.
    #[error("run {alias} is not resumed: its missing trials lack space")]
    Shortages {
        /// Its number in the store.
        alias: u64,
        /// Every shortage.
        shortages: Vec<Diagnostic>,
    },
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ResumeError {
    /// The remedy.
    pub fn hint(&self) -> Option<String> {
        match self {
            ResumeError::Complete {
                can_grow: false, ..
            } => Some(
                "each of its workloads has its own number of rounds; begin a new run for more"
                    .to_owned(),
            ),
            ResumeError::Complete { rounds, .. } => {
                let more = rounds.saturating_mul(2).max(1);
                Some(format!("give it more rounds with `--rounds {more}`"))
            }
            ResumeError::PartComplete { .. } => {
                Some("resume it without `--where` for the other trials".to_owned())
            }
            ResumeError::Imported { .. }
            | ResumeError::TooLarge { .. }
            | ResumeError::Shortages { .. } => None,
            ResumeError::NotAllowed(refused) => Some(refused.hint()),
            ResumeError::Differs { .. } => Some(
                "give the file, the flags and the folder with which the run was begun, or begin a new run"
                    .to_owned(),
            ),
            ResumeError::Store(error) => error.hint(),
        }
    }
}

/// Actions of another user's run that were not allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAllowed {
    /// Its number in the store.
    pub alias: u64,
    /// It was imported; otherwise, this user did not begin it on this host.
    pub imported: bool,
    /// The paths that were not named.
    pub missing: Vec<NamedTarget>,
    /// Other actions that were not allowed.
    pub acts: Vec<Act>,
    /// Flags that name nothing of the run.
    pub unknown: Vec<String>,
}

impl NotAllowed {
    fn hint(&self) -> String {
        if self.missing.is_empty() && self.acts.is_empty() {
            return "leave it out: a resumed run keeps its plan".to_owned();
        }
        let paths = self.missing.iter().map(flag);
        let acts = self.acts.iter();
        let acts = acts.map(|act| format!("--allow {}", word(&act.to_string())));
        let flags: Vec<String> = paths.chain(acts).collect();
        format!(
            "if this is an experiment that you have, add `--experiment FILE`; if all of it is meant, on this host, add `{}`",
            flags.join(" ")
        )
    }
}

impl std::fmt::Display for NotAllowed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let alias = self.alias;
        let mut lines: Vec<String> = Vec::new();
        let unknown = self.unknown.iter();
        lines.extend(
            unknown.map(|flag| format!("`{}` names nothing of run {alias}", on_one_line(flag))),
        );
        if !self.missing.is_empty() || !self.acts.is_empty() {
            lines.push(match self.imported {
                true => format!("run {alias} was imported: all that it does on this host has to be allowed again"),
                false => format!("run {alias} was not begun by this user on this host, or has secrets that are not stored: all that it does has to be allowed again"),
            });
        }
        let uses = |target: &NamedTarget| {
            let path = target.path.display();
            on_one_line(&format!("  uses: {path}, for `{}`", target.configuration))
        };
        lines.extend(self.missing.iter().map(uses));
        let does = |act: &Act| format!("  {}: {}", act.kind.word(), on_one_line(&act.to_string()));
        lines.extend(self.acts.iter().map(does));
        f.write_str(&lines.join("\n"))
    }
}

fn flag(target: &NamedTarget) -> String {
    let text = format!("{}={}", target.configuration, target.path.display());
    format!("--on {}", word(&text))
}

/// A word for a shell, on one line.
fn word(text: &str) -> String {
    shell_word(&on_one_line(text))
}

fn listed(indent: &str, lines: &[String]) -> String {
    lines
        .iter()
        .map(|line| format!("\n{indent}{line}"))
        .collect()
}

/// Runs the missing trials of a run in their original order.
///
/// Only a completed trial counts as done. Every other one (failed, interrupted, refused, or skipped because its cell
/// was given up) is repeated as its next attempt. A cell that has never completed is given up again after failures in
/// three consecutive rounds. A target that differs from that of the run's earlier trials is not accessed: its trials
/// fail. `rounds`, the total number, extends a run that is complete or was ended by a stopping rule. If given, all of
/// these rounds run, regardless of the width of the intervals. A changed number of rounds is recorded as a look at the
/// verdict. The time limit counts from this call. Earlier results are read from the store for the interim comparison,
/// one trial at a time. Only content that `permission` allows now is overwritten. If the run was imported, completely
/// or in part, or was not begun by this user on this host, its plan does only what `permission` names.
///
/// # Errors
/// [`ResumeError::Complete`] if no trial is missing; [`ResumeError::NotAllowed`]; [`ResumeError::Differs`];
/// [`ResumeError::Shortages`];
/// [`StoreError::RunIsLive`] while another process runs it.
pub fn resume(
    run: RunId,
    rounds: Option<u32>,
    permission: &Permission,
    lab: &Lab<'_>,
    observer: &mut dyn FnMut(Progress<'_>),
) -> Result<RunEnd, ResumeError> {
    resume_with(
        run,
        rounds,
        permission,
        lab,
        &Dependencies::here(),
        observer,
    )
}

/// [`resume`] with another judge and clock.
pub(crate) fn resume_with(
    run: RunId,
    rounds: Option<u32>,
    permission: &Permission,
    lab: &Lab<'_>,
    dependencies: &Dependencies<'_>,
    observer: &mut dyn FnMut(Progress<'_>),
) -> Result<RunEnd, ResumeError> {
    let before = lab.store.run(run)?;
    let alias = before.summary.alias;
    let wanted = rounds.unwrap_or_else(|| own_rounds(&before, permission));
    let before = permitted(before, rounds, permission)?;
    let shortages = match before.plan.cells() {
        // A single trial checks it itself, and is stored.
        1 => Vec::new(),
        _ => shortages(
            &before.plan,
            lacking_cells(&before, wanted, permission),
            &lab.nodes,
            lab.stop,
        ),
    };
    if !shortages.is_empty() {
        return Err(ResumeError::Shortages { alias, shortages });
    }
    let handle = lab.store.resume_run(run)?;
    let seen = complete_rounds(&before);
    if wanted != before.summary.rounds && seen > 0 {
        lab.store.note_look(run, seen)?;
    }
    if wanted != before.summary.rounds {
        lab.store.set_rounds(run, wanted)?;
    }
    // Another process may have run some of them in the meantime.
    let stored = permitted_plan(lab.store.run(run)?, rounds, permission)?;
    let mut plan = Plan {
        rounds: wanted,
        destroy: permission.destroy.clone(),
        ..stored.plan.clone()
    };
    if let Some(rounds) = rounds {
        plan.stopping.least_rounds = rounds;
    }
    observer(Progress::Begun(handle));
    let mut going = Rounds::new(lab, &plan, dependencies, handle);
    going.only = permission.cells.clone();
    going.began_on(lab.store.targets(run)?);
    for (cell, node, environment) in ran_on(lab.store, &stored) {
        going.ran_on(cell, &node, &environment);
    }
    let known = latest(&stored).filter(|(key, _)| key.round < wanted);
    remember(known, &mut going, &plan, lab, observer);
    Ok(going.carry_out(observer))
}

/// Takes over the stored trials of a run.
fn remember(
    known: impl Iterator<Item = (TrialKey, TrialState)>,
    going: &mut Rounds<'_>,
    plan: &Plan,
    lab: &Lab<'_>,
    observer: &mut dyn FnMut(Progress<'_>),
) {
    for (key, state) in known {
        let made = going.remember(key, state);
        if lab.stop.is_set() {
            continue;
        }
        let (configuration, workload) = plan.cell(key.cell);
        if configuration.provision().is_some()
            && let Ok(trial) = lab.store.trial(key)
        {
            going.made_on(&trial);
        }
        if !made || (plan.cells() < 2 && workload.search.is_none()) {
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
}

/// The actions of a resumed run.
#[derive(Debug, Clone, PartialEq)]
pub struct Remaining {
    /// The plan, with the number of rounds that the run then has.
    pub plan: Plan,
    /// The number of trials that are done.
    pub done: u32,
    /// The trials that are missing, in their order. A stopping rule can end the run before.
    pub trials: Vec<TrialKey>,
}

/// The effect of [`resume`]. Changes nothing, and does not check for enough space.
///
/// # Errors
/// Those of [`resume`]. A run that another process executes is not an error.
pub fn remaining(
    run: &Run,
    rounds: Option<u32>,
    permission: &Permission,
) -> Result<Remaining, ResumeError> {
    let wanted = rounds.unwrap_or_else(|| own_rounds(run, permission));
    let run = &permitted(run.clone(), rounds, permission)?;
    let plan = Plan {
        rounds: wanted,
        destroy: permission.destroy.clone(),
        ..run.plan.clone()
    };
    let tried: BTreeMap<(u32, u32), (TrialKey, TrialState)> = latest(run)
        .map(|(key, state)| ((key.round, key.cell), (key, state)))
        .collect();
    let own = rounds_of_cells(&plan);
    let (mut done, mut trials) = (0, Vec::new());
    for round in 0..wanted {
        let cells = order(&plan, round).into_iter();
        let planned = |cell: &u32| own[*cell as usize].is_none_or(|own| round < own);
        for cell in cells.filter(planned) {
            let attempt = match tried.get(&(round, cell)) {
                Some((_, TrialState::Completed)) => {
                    done += 1;
                    continue;
                }
                Some((key, _)) => key.attempt + 1,
                None => 0,
            };
            if !permission.has_cell(cell) {
                continue;
            }
            trials.push(TrialKey {
                run: run.summary.id,
                round,
                cell,
                attempt,
            });
        }
    }
    Ok(Remaining { plan, done, trials })
}

/// The number of rounds that a run has without being extended. A store of others can have a larger one than the plan.
fn own_rounds(run: &Run, permission: &Permission) -> u32 {
    match &permission.plan {
        Some(given) => crate::origin::rounds(given, run),
        None => run.summary.rounds.min(run.plan.rounds),
    }
}

/// A run with the permitted plan. Fails if it cannot be resumed, whatever the state of the host.
fn permitted(run: Run, rounds: Option<u32>, permission: &Permission) -> Result<Run, ResumeError> {
    let alias = run.summary.alias;
    let wanted = rounds.unwrap_or_else(|| own_rounds(&run, permission));
    if run.plan.imported.is_some() {
        return Err(ResumeError::Imported { alias });
    }
    if !is_own(&run, permission)
        && let Some(excess) = run.plan.excess(wanted.max(run.summary.rounds))
    {
        return Err(ResumeError::TooLarge { alias, excess });
    }
    // What is missing is that of the given plan.
    let run = match permission.plan {
        Some(_) => permitted_plan(run, rounds, permission)?,
        None => run,
    };
    // The store reports a live run when it is resumed.
    let ended = run.summary.state != RunState::Running;
    if ended && lacking_cells(&run, wanted, permission).is_empty() {
        if permission.cells.is_some() && lacking(&run, wanted) > 0 {
            return Err(ResumeError::PartComplete { alias });
        }
        // The first rounds can be complete even if later ones are not.
        let complete = match lacking(&run, run.summary.rounds) {
            0 => run.summary.rounds,
            _ => wanted,
        };
        return Err(ResumeError::Complete {
            alias,
            rounds: complete,
            can_grow: run.plan.can_grow(),
        });
    }
    match permission.plan {
        Some(_) => Ok(run),
        None => permitted_plan(run, rounds, permission),
    }
}

/// A run with the plan that may be carried out: that which the user gives, or the stored one if the user began it or
/// allows all that it does.
fn permitted_plan(
    run: Run,
    rounds: Option<u32>,
    permission: &Permission,
) -> Result<Run, ResumeError> {
    let alias = run.summary.alias;
    if let Some(given) = &permission.plan {
        let differences = differences(&run.plan, given, rounds.is_none());
        if !differences.is_empty() {
            return Err(ResumeError::Differs { alias, differences });
        }
        let plan = adopted(given, &run);
        return Ok(Run { plan, ..run });
    }
    let (mut missing, unnamed) = permission.compare(&run.plan);
    let (mut acts, mut unknown) = permission.compare_acts(&run.plan);
    for one in &mut unknown {
        *one = format!("--allow {one}");
    }
    unknown.splice(0..0, unnamed.iter().map(flag));
    if is_own(&run, permission) {
        missing.clear();
        acts.clear();
    }
    if unknown.is_empty() && missing.is_empty() && acts.is_empty() {
        return Ok(run);
    }
    Err(ResumeError::NotAllowed(Box::new(NotAllowed {
        alias,
        imported: run.foreign,
        missing,
        acts,
        unknown,
    })))
}

/// Whether the user began it on this host, and no part of it was imported.
fn is_own(run: &Run, permission: &Permission) -> bool {
    let begun = permission.begun.is_some() && permission.begun == fingerprint(&run.plan);
    begun && !run.foreign
}

/// The latest attempt of each trial, by round and cell.
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

/// The number of rounds in which each cell has a trial: `None` in all.
fn rounds_of_cells(plan: &Plan) -> Vec<Option<u32>> {
    let cells = plan.each_cell();
    cells.map(|(_, workload)| workload.rounds).collect()
}

/// The number of missing trials in the first `rounds` rounds.
fn lacking(run: &Run, rounds: u32) -> u64 {
    let own = rounds_of_cells(&run.plan);
    let made = latest(run).filter(|(key, state)| {
        let planned = own[key.cell as usize].is_none_or(|own| key.round < own);
        key.round < rounds && *state == TrialState::Completed && planned
    });
    run.plan.trials(rounds).saturating_sub(made.count() as u64)
}

/// The permitted cells with missing trials in the first `rounds` rounds.
fn lacking_cells(run: &Run, rounds: u32, permission: &Permission) -> Vec<u32> {
    let own = rounds_of_cells(&run.plan).into_iter();
    let mut lacking: Vec<u32> = own
        .map(|own| own.map_or(rounds, |own| own.min(rounds)))
        .collect();
    for (key, state) in latest(run) {
        if key.round < rounds && state == TrialState::Completed {
            let cell = &mut lacking[key.cell as usize];
            *cell = cell.saturating_sub(1);
        }
    }
    let cells = (0..).zip(lacking).filter(|(_, lacking)| *lacking > 0);
    let cells = cells.map(|(cell, _)| cell);
    cells.filter(|cell| permission.has_cell(*cell)).collect()
}

/// The number of complete rounds, whose verdict was visible.
fn complete_rounds(run: &Run) -> u32 {
    let mut made: BTreeMap<u32, u32> = BTreeMap::new();
    for (key, state) in latest(run) {
        if state == TrialState::Completed {
            *made.entry(key.round).or_default() += 1;
        }
    }
    let own = rounds_of_cells(&run.plan);
    let complete = made.iter().filter(|(round, made)| {
        let planned = own.iter().filter(|own| own.is_none_or(|own| **round < own));
        **made as usize == planned.count()
    });
    u32::try_from(complete.count()).unwrap_or(u32::MAX)
}

/// The environments of the first completed trial of each cell, or else those of the first interrupted one, by node. A
/// failed trial is not used: its target may have been the wrong one.
fn ran_on(store: &dyn Store, run: &Run) -> Vec<(u32, String, Environment)> {
    let ran = |trial: &&TrialSummary| {
        matches!(trial.state, TrialState::Completed | TrialState::Interrupted)
    };
    let mut trials: Vec<&TrialSummary> = run.trials.iter().filter(ran).collect();
    trials.sort_by_key(|trial| (trial.key.cell, trial.state != TrialState::Completed));
    let cells = trials.chunk_by(|one, next| one.key.cell == next.key.cell);
    let found = cells.filter_map(|trials| {
        let mut parts = trials
            .iter()
            .filter_map(|trial| Some(store.trial(trial.key).ok()?.parts));
        Some((trials[0].key.cell, parts.find(|parts| !parts.is_empty())?))
    });
    let parts = found.flat_map(|(cell, parts)| {
        let parts = parts.into_iter();
        parts.map(move |part| (cell, part.node, part.environment))
    });
    parts.collect()
}

/// A trial with its frames, without their histograms.
fn load(store: &dyn Store, key: TrialKey) -> Result<Trial, StoreError> {
    let mut trial = store.trial(key)?;
    loop {
        let next = trial.frames.last().map_or(0, |frame| frame.number + 1);
        let mut batch = store.frames(key, next, BATCH)?;
        let last = batch.len() < BATCH;
        batch.iter_mut().for_each(Frame::drop_histograms);
        trial.frames.append(&mut batch);
        if last {
            return Ok(trial);
        }
    }
}

#[cfg(test)]
mod tests;
