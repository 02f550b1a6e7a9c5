//! A run from its plan to its end, and what its trials would do.

use std::path::PathBuf;

use iodyno_model::{BoundPlan, Diagnostic, Forecast, Plan, RunId, TrialKey};
use iodyno_runner::{Examination, StopFlag};
use iodyno_store::StoreError;

use crate::nodes::{examine, workers};
use crate::rounds::{Dependencies, Rounds};
use crate::schedule::bind;
use crate::{Lab, LabNode, Progress, RunEnd, unix_ms};

/// What the trials of a plan would do with their targets now, and why they could not start; `None` if the storage does
/// not respond. `protected`: the files of the store. Changes nothing.
pub fn forecast(
    plan: &Plan,
    protected: &[PathBuf],
    nodes: &[LabNode<'_>],
    stop: &StopFlag,
) -> Option<Forecast> {
    let bound = first_trials(plan, 0..plan.cells()).map(|bound| BoundPlan {
        protected: protected.to_vec(),
        ..bound
    });
    let bound = by_node(plan, bound.collect(), nodes.len());
    let wanted = |node: usize| Examination {
        forecast: bound[node].clone(),
        room: bound[node].clone(),
        ..Examination::default()
    };
    let mut all = Forecast {
        targets: Vec::new(),
        faults: Vec::new(),
        traces: Vec::new(),
    };
    let found = examine(nodes, stop, |node| Some(wanted(node)));
    for ((node, found), bound) in nodes.iter().zip(found).zip(&bound) {
        let found = found?;
        if found.forecasts.len() != bound.len() {
            return None;
        }
        let mut own = Forecast {
            targets: Vec::new(),
            faults: with_places(found.shortages, bound),
            traces: Vec::new(),
        };
        found.forecasts.into_iter().for_each(|one| own.add(one));
        let faults = own.faults.into_iter().map(|fault| node.prefix_fault(fault));
        own.faults = faults.collect();
        all.add(own);
    }
    Some(all)
}

/// The space and inodes that trials of these cells lack on the node now, each with its workload and configuration;
/// empty where that is unknown. Changes nothing.
pub fn shortages(
    plan: &Plan,
    cells: impl IntoIterator<Item = u32>,
    nodes: &[LabNode<'_>],
    stop: &StopFlag,
) -> Vec<Diagnostic> {
    let bound = by_node(plan, first_trials(plan, cells).collect(), nodes.len());
    let found = examine(nodes, stop, |node| {
        let room = bound[node].clone();
        Some(Examination {
            room,
            ..Examination::default()
        })
    });
    let mut faults = Vec::new();
    for ((node, found), bound) in nodes.iter().zip(found).zip(&bound) {
        let found = with_places(found.unwrap_or_default().shortages, bound);
        faults.extend(found.into_iter().map(|fault| node.prefix_fault(fault)));
    }
    faults
}

/// Why nodes cannot trace requests at block devices, or replay the traces of existing targets, as the plan asks.
/// Changes nothing.
pub fn untraceable(plan: &Plan, nodes: &[LabNode<'_>], stop: &StopFlag) -> Vec<Diagnostic> {
    let real = |cell: &u32| !plan.cell(*cell).1.in_virtual_time();
    let mut cells = (0..plan.cells()).filter(real);
    let traced = plan.sampling.block_trace && plan.sampling.every_ns > 0 && cells.next().is_some();
    let replays = |bound: &BoundPlan| {
        let mut jobs = bound.workload.jobs.iter();
        jobs.any(|job| job.work.replay().is_some())
    };
    let bound = first_trials(plan, 0..plan.cells()).filter(replays);
    let bound = by_node(plan, bound.collect(), nodes.len());
    let found = examine(nodes, stop, |node| {
        let replays = bound[node].clone();
        (traced || !replays.is_empty()).then(|| Examination {
            block_trace: traced,
            replays,
            ..Examination::default()
        })
    });
    let mut faults = Vec::new();
    for (node, found) in nodes.iter().zip(found) {
        let own = found.unwrap_or_default().no_traces.into_iter();
        for fault in own.map(|fault| node.prefix_fault(fault)) {
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        }
    }
    faults
}

/// The trials in which each node takes part.
fn by_node(plan: &Plan, bound: Vec<BoundPlan>, nodes: usize) -> Vec<Vec<BoundPlan>> {
    let mut by_node = vec![Vec::new(); nodes];
    for bound in bound {
        for place in workers(plan, bound.key.cell) {
            by_node[place].push(bound.clone());
        }
    }
    by_node
}

/// Adds the workload and the configuration of its trial to each shortage.
fn with_places(
    shortages: Vec<(Option<usize>, Diagnostic)>,
    bound: &[BoundPlan],
) -> Vec<Diagnostic> {
    let named = shortages.into_iter().map(|(trial, fault)| {
        let place = match trial.and_then(|trial| bound.get(trial)) {
            Some(BoundPlan {
                workload,
                configuration,
                ..
            }) => format!("`{}` on `{}`", workload.name, configuration.name),
            None => "all trials together".to_owned(),
        };
        Diagnostic {
            message: format!("{place}: {}", fault.message),
            ..fault
        }
    });
    named.collect()
}

/// The first trial of each of these cells, without repeated baselines and made targets: see [`crate::obstacles`].
fn first_trials(
    plan: &Plan,
    cells: impl IntoIterator<Item = u32>,
) -> impl Iterator<Item = BoundPlan> {
    let run = RunId::fresh();
    let own = cells.into_iter().filter(|cell| {
        let (configuration, workload) = plan.cell(*cell);
        let exists = configuration.provision().is_none();
        exists && !configuration.again && !workload.again
    });
    own.map(move |cell| {
        let key = TrialKey {
            run,
            round: 0,
            cell,
            attempt: 0,
        };
        bind(plan, key)
    })
}

/// Runs all trials of a plan, round by round.
///
/// - A trial that fails is recorded, and the next one follows. A cell that has never completed and whose trials
///   failed in three consecutive rounds is given up: its further trials are stored as failed without being run. A
///   cell that has completed once is tried in every round.
/// - A trial whose target differs from that of its cell's earlier trials (a file system was unmounted, a device was
///   replaced) fails without being run, and nothing is written to the target. If the difference is found only during
///   the trial, the trial fails as well and keeps its results.
/// - A refused target is recorded in the same way. It ends the run only in the first round, if no trial has completed
///   yet or fewer than two cells remain to be compared. A node that cannot be started ends the run if no trial has
///   completed yet.
/// - [`iodyno_model::Stopping`] ends the run after a complete round: by the width of the intervals, never by the
///   p-value; or if another round as long as the longest so far would exceed the time limit, which counts from this
///   call. The first round always begins, and a round that has begun is finished. The run is then complete: the
///   store's number of rounds is lowered to the completed rounds, and the plan keeps the requested number.
/// - A stop request ends the run immediately.
///
/// # Errors
/// The run cannot be stored before it begins. No trial was run.
pub fn carry_out(
    plan: &Plan,
    lab: &Lab<'_>,
    observer: &mut dyn FnMut(Progress<'_>),
) -> Result<RunEnd, StoreError> {
    carry_out_with(plan, lab, &Dependencies::here(), observer)
}

/// [`carry_out`] with another judge and clock.
pub(crate) fn carry_out_with(
    plan: &Plan,
    lab: &Lab<'_>,
    dependencies: &Dependencies<'_>,
    observer: &mut dyn FnMut(Progress<'_>),
) -> Result<RunEnd, StoreError> {
    let handle = lab.store.begin_run(plan, unix_ms())?;
    tracing::info!(run = handle.alias, id = %handle.id, cells = plan.cells(), rounds = plan.rounds, "stored the plan");
    observer(Progress::Begun(handle));
    Ok(Rounds::new(lab, plan, dependencies, handle).carry_out(observer))
}

#[cfg(test)]
mod tests;
