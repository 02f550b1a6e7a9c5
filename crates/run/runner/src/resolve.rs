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

use binding::{Binding, Export};
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
    let mut faults = faults_of_target(plan, probe);
    if !faults.is_empty() {
        return Err(faults);
    }
    let in_virtual_time = plan.workload.in_virtual_time();
    let is_folder = |path: &Path| !in_virtual_time && probe.look(path) == PathKind::Folder;
    let mut resolver = Resolver {
        plan,
        probe,
        base: Base::of(&plan.configuration.target, is_folder),
        traces: Traces::default(),
        made: HashMap::new(),
        notes: Vec::new(),
    };
    let mut clones = Vec::new();
    for (index, job) in plan.workload.jobs.iter().enumerate() {
        let mut own: Vec<Diagnostic> = Vec::new();
        let export = exports::wanted(job).map(|(uri, wanted)| (uri, probe.export(uri, &wanted)));
        for clone in 0..job.clones.max(1) {
            match resolver.bind((index as u32, job), clone, export.as_ref()) {
                Ok(bound) => clones.push(bound),
                // A fault of all clones of a job is reported once.
                Err(found) => {
                    for fault in found {
                        if !own.contains(&fault) {
                            own.push(fault);
                        }
                    }
                }
            }
        }
        own.extend(faults_of_job(plan, (index, job), probe));
        faults.extend(own.into_iter().map(|fault| faults::of_job(fault, job)));
    }
    let mut notes = resolver.notes;
    notes.dedup();
    match faults.is_empty() {
        true => Ok(Resolved { clones, notes }),
        false => Err(faults),
    }
}

/// What prevents any trial on the target.
fn faults_of_target(plan: &BoundPlan, probe: &dyn Probe) -> Vec<Diagnostic> {
    match &plan.configuration.target {
        Target::Made(_) => vec![Diagnostic::error("the target of the trial was not made")],
        // The paths of a trial in virtual time have no meaning, so they are not checked for a plan from another host.
        Target::Path(path)
            if !plan.workload.in_virtual_time()
                && matches!(probe.look(path), PathKind::Missing | PathKind::NoFolder(_)) =>
        {
            // If it were created as a file, the trial would measure the wrong file system, because the intended one is
            // not mounted.
            let message = format!("the target `{}` does not exist", path.display());
            let hint = "mount it or create it again; iodyno never creates a target";
            vec![Diagnostic::error(message).hint(hint)]
        }
        // A plan from another host can combine both, and its jobs would use files without the user's consent.
        Target::Simulated(_) => {
            let is_simulated = |job: &Job| matches!(job.work.engine(), Some(engine) if engine.kind == EngineKind::Sim);
            let real = plan.workload.jobs.iter().filter(|job| !is_simulated(job));
            let fault = |job: &Job| {
                let message = format!("job `{}` is not simulated, and its target is", job.name);
                let hint = "set `ioengine=sim`, or give it another target with `--on`";
                Diagnostic::error(message).hint(hint)
            };
            real.map(fault).collect()
        }
        _ => Vec::new(),
    }
}

/// The faults of a job besides those of binding its clones.
fn faults_of_job(
    plan: &BoundPlan,
    (index, job): (usize, &Job),
    probe: &dyn Probe,
) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    let jobs = &plan.workload.jobs;
    if let Work::FileOperations(operations) = &job.work {
        let folder = operations_folder(plan);
        faults.extend(operations::faults(job, operations, &folder, probe));
        let mut others = jobs.iter().filter_map(|job| job.work.file_operations());
        if others.any(|other| job_folder(other) != job_folder(operations)) {
            faults.push(fault(
                "all jobs of file engines must be in the same folder",
                "set the same `directory=` in all of them, or run them one by one",
            ));
        }
    }
    if let After::Job(name) = &job.after
        && scheduler::named_before(jobs, index, name).is_empty()
    {
        faults.push(fault(
            format!("it waits for a job `{name}`, but no earlier job has that name"),
            "check the name in `wait_for=`; a job can only wait for an earlier one",
        ));
    }
    faults
}

/// Binds the clones of a plan, one after another.
struct Resolver<'a> {
    plan: &'a BoundPlan,
    probe: &'a dyn Probe,
    base: Base<'a>,
    traces: Traces,
    /// The lengths that files will have once the clones before have laid them out.
    made: HashMap<PathBuf, u64>,
    notes: Vec<String>,
}

impl Resolver<'_> {
    fn bind(
        &mut self,
        (index, job): (u32, &Job),
        clone: u32,
        export: Option<&Export<'_>>,
    ) -> Result<ResolvedClone, Vec<Diagnostic>> {
        let seed = seeds::clone(self.plan.seed, job, index, clone);
        let (base, notes) = (self.base, &mut self.notes);
        match &job.work {
            Work::Blocks(blocks) => {
                let binding = Binding {
                    job,
                    blocks,
                    clone,
                    seed,
                    probe: self.probe,
                    export,
                    made: &self.made,
                };
                let bound = match &blocks.replay {
                    None => binding.bind(base, index, notes),
                    Some(replay) => self
                        .traces
                        .of((index, clone), blocks, replay, base)
                        .map_err(|fault| vec![fault])
                        .and_then(|trace| binding.bind_replay(base, index, replay, trace, notes)),
                }?;
                if blocks.read_only_by().is_none() {
                    for file in &bound.files {
                        let length = self.made.entry(file.path.clone()).or_default();
                        *length = file.end().max(*length);
                    }
                }
                Ok(bound)
            }
            Work::FileOperations(operations) => {
                Ok(operations::clone(job, operations, (index, clone), seed))
            }
            Work::SharedFiles(rule) => {
                let files = shared_files::bind(rule, base, self.probe)?;
                let bytes = files.iter().map(|file| file.length).sum();
                Ok(ResolvedClone {
                    job: index,
                    clone,
                    files,
                    region_bytes: bytes,
                    byte_budget: bytes,
                    seed,
                    replay: None,
                })
            }
        }
    }
}

#[cfg(test)]
mod tests;
