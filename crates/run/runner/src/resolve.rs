//! Binds percentages, lengths and names on this node: which bytes of which files each clone works on.
//!
//! Pure except for its calls of a [`Probe`]. All faults of all jobs are reported at once.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use iodyno_model::{After, BoundPlan, Diagnostic, EngineKind, Job, Operations, Target, Work};

use crate::faults::{self, fault};
use crate::files::exports;
use crate::node::scheduler;
use crate::probe::{PathKind, Probe};
use crate::resolve::resolved::{Resolved, ResolvedClone};

mod binding;
mod naming;
mod operations;
mod regions;
mod replay;
pub(crate) mod resolved;
pub(crate) mod seeds;
mod shared_files;

use binding::Binding;
use naming::Base;
pub use naming::{made_up_name, placed_names};
use replay::Traces;
pub(crate) use shared_files::PREPARE;

/// The folder of a plan's file operations: the target, or the `directory` of the jobs in it.
pub(crate) fn operations_folder(plan: &BoundPlan) -> PathBuf {
    let mut jobs = plan.workload.jobs.iter();
    let own = jobs.find_map(|job| job_folder(job.work.file_operations()?));
    let target = plan.configuration.target.path();
    let base = match &plan.configuration.target {
        Target::AsWritten { .. } => Base::Written(target),
        Target::Path(_) | Target::Made(_) | Target::Simulated(_) => Base::Below(target),
    };
    own.map_or_else(|| target.to_owned(), |own| naming::folder(base, own))
}

/// The `directory` of a job of one of fio's file engines.
fn job_folder(operations: &Operations) -> Option<&Path> {
    operations.fio.as_ref()?.folder.as_deref()
}

/// Binds a plan to a node.
///
/// # Errors
/// Every fault of every job, with its place.
pub fn resolve(plan: &BoundPlan, probe: &dyn Probe) -> Result<Resolved, Vec<Diagnostic>> {
    let mut faults = Vec::new();
    let mut resolved = Resolved::default();
    let target = &plan.configuration.target;
    if let Target::Made(_) = target {
        let message = "the target of the trial was not made";
        return Err(vec![Diagnostic::error(message)]);
    }
    // The paths of such a trial have no meaning, so they are not checked for a plan from another host.
    let in_virtual_time = plan.workload.in_virtual_time();
    if let Target::Path(path) = target
        && !in_virtual_time
        && matches!(probe.look(path), PathKind::Missing | PathKind::NoFolder(_))
    {
        // If it were created as a file, the trial would measure the wrong file system, because the intended one is not
        // mounted.
        let message = format!("the target `{}` does not exist", path.display());
        return Err(vec![Diagnostic::error(message).hint(
            "mount it or create it again; iodyno never creates a target",
        )]);
    }
    if let Target::Simulated(_) = target {
        // A plan from another host can combine both, and its jobs would use files without the user's consent.
        let real = |job: &&Job| !matches!(job.work.engine(), Some(engine) if engine.kind == EngineKind::Sim);
        let faults: Vec<Diagnostic> = plan
            .workload
            .jobs
            .iter()
            .filter(real)
            .map(|job| {
                Diagnostic::error(format!(
                    "job `{}` is not simulated, and its target is",
                    job.name
                ))
                .hint("set `ioengine=sim`, or give it another target with `--on`")
            })
            .collect();
        if !faults.is_empty() {
            return Err(faults);
        }
    }
    let mut traces = Traces::default();
    let mut made = HashMap::new();
    let is_folder = |path: &Path| !in_virtual_time && probe.look(path) == PathKind::Folder;
    let base = Base::of(target, is_folder);
    for (index, job) in plan.workload.jobs.iter().enumerate() {
        let mut told: Vec<Diagnostic> = Vec::new();
        let export = exports::wanted(job).map(|(uri, wanted)| (uri, probe.export(uri, &wanted)));
        for clone in 0..job.clones.max(1) {
            let seed = seeds::clone(plan.seed, job, index as u32, clone);
            let bound = match &job.work {
                Work::Blocks(blocks) => {
                    let binding = Binding {
                        job,
                        blocks,
                        clone,
                        seed,
                        probe,
                        export: export.as_ref(),
                        made: &made,
                    };
                    let (index, notes) = (index as u32, &mut resolved.notes);
                    match &blocks.replay {
                        None => binding.bind(base, index, notes),
                        Some(replay) => traces
                            .of((index, clone), blocks, replay, base)
                            .map_err(|fault| vec![fault])
                            .and_then(|trace| {
                                binding.bind_replay(base, index, replay, trace, notes)
                            }),
                    }
                }
                Work::FileOperations(operations) => {
                    let place = (index as u32, clone);
                    Ok(operations::clone(job, operations, place, seed))
                }
                Work::SharedFiles(rule) => shared_files::bind(rule, base, probe).map(|files| {
                    let bytes = files.iter().map(|file| file.length).sum();
                    ResolvedClone {
                        job: index as u32,
                        clone,
                        files,
                        region_bytes: bytes,
                        byte_budget: bytes,
                        seed,
                        replay: None,
                    }
                }),
            };
            match bound {
                Ok(bound) => {
                    if (job.work.blocks()).is_some_and(|blocks| blocks.read_only_by().is_none()) {
                        for file in &bound.files {
                            let length = made.entry(file.path.clone()).or_default();
                            *length = file.end().max(*length);
                        }
                    }
                    resolved.clones.push(bound);
                }
                // A fault of all clones of a job is reported once.
                Err(faults) => {
                    for fault in faults {
                        if !told.contains(&fault) {
                            told.push(fault);
                        }
                    }
                }
            }
        }
        if let Work::FileOperations(operations) = &job.work {
            let folder = operations_folder(plan);
            told.extend(operations::faults(job, operations, &folder, probe));
            let mut others = plan
                .workload
                .jobs
                .iter()
                .filter_map(|job| job.work.file_operations());
            if others.any(|other| job_folder(other) != job_folder(operations)) {
                told.push(fault(
                    "all jobs of file engines must be in the same folder",
                    "set the same `directory=` in all of them, or run them one by one",
                ));
            }
        }
        if let After::Job(name) = &job.after
            && scheduler::named_before(&plan.workload.jobs, index, name).is_empty()
        {
            told.push(fault(
                format!("it waits for a job `{name}`, but no earlier job has that name"),
                "check the name in `wait_for=`; a job can only wait for an earlier one",
            ));
        }
        faults.extend(told.into_iter().map(|fault| faults::of_job(fault, job)));
    }
    resolved.notes.dedup();
    match faults.is_empty() {
        true => Ok(resolved),
        false => Err(faults),
    }
}

#[cfg(test)]
mod tests;
