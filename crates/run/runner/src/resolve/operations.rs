//! Binds jobs of file operations: their faults, and each clone's share of the files.

use std::path::Path;

use iodyno_engine::operations;
use iodyno_model::{Action, Diagnostic, Job, Operations, Subject};

use crate::faults::fault;
use crate::probe::{PathKind, Probe};
use crate::resolve::resolved::ResolvedClone;

const DESCRIPTION: &str = "correct the workload's TOML file";

/// All faults of a job and its folder. Nothing is changed.
pub(super) fn faults(
    job: &Job,
    operations: &Operations,
    folder: &Path,
    probe: &dyn Probe,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    found.extend(of_folder(operations.command.is_some(), folder, probe));
    let own = operations.faults().into_iter();
    found.extend(own.map(|own| fault(own.to_string(), DESCRIPTION)));
    found.extend(of_shares(job, operations));
    found.extend(of_end(job, operations));
    found
}

fn of_folder(command: bool, folder: &Path, probe: &dyn Probe) -> Option<Diagnostic> {
    let shown = folder.display();
    let (message, hint) = match probe.look(folder) {
        PathKind::Folder => (
            format!("the folder `{shown}` {}", probe.unwritable(folder)?),
            "name a folder that this user may write to".to_owned(),
        ),
        PathKind::Missing | PathKind::NoFolder(_) => (
            format!("the folder `{shown}` does not exist"),
            "mount or create it; iodyno never creates a target".to_owned(),
        ),
        found => {
            let what = match found {
                PathKind::File(_) => "is a file".to_owned(),
                PathKind::Device(_) => "is a block device".to_owned(),
                PathKind::Namespace(_) => "is a character device".to_owned(),
                PathKind::Null => "is a null device".to_owned(),
                PathKind::Other(what) => what,
                _ => "is not a folder".to_owned(),
            };
            let (who, flags) = match command {
                true => ("commands run in", "`--on NAME=PATH`"),
                false => ("file operations need", "`--dir` or `--on NAME=PATH`"),
            };
            (
                format!("`{shown}` {what}, and {who} a folder"),
                format!("name a folder, with {flags}"),
            )
        }
    };
    Some(fault(message, hint))
}

/// Sets with too few files for a cycle of each clone.
fn of_shares(job: &Job, operations: &Operations) -> Vec<Diagnostic> {
    let clones = u64::from(job.clones.max(1));
    let sets = operations.sets.iter();
    sets.filter(|set| {
        set.count > 0 && set.count < clones.saturating_mul(in_a_cycle(operations, &set.name))
    })
    .map(|set| {
        let each = in_a_cycle(operations, &set.name);
        fault(
            format!(
                "the set `{}` has {} files, but each of {clones} threads needs {each} for a cycle",
                set.name, set.count
            ),
            "lower `--threads`, or raise `--files`",
        )
    })
    .collect()
}

/// The minimum number of files of a set that a cycle needs.
fn in_a_cycle(operations: &Operations, name: &str) -> u64 {
    let of = |of: &Subject| matches!(of, Subject::Set { name: set, .. } if set == name);
    let (mut used, mut taken) = (0, 0);
    for step in &operations.cycle {
        match &step.action {
            Action::Unlink { of: subject } if of(subject) => taken += 1,
            Action::Open { of: subject }
            | Action::Rename { of: subject }
            | Action::Stat { of: subject }
                if of(subject) =>
            {
                used = 1;
            }
            _ => {}
        }
    }
    used.max(taken)
}

/// Missing or empty limits, and impossible rates.
fn of_end(job: &Job, operations: &Operations) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let empties = operations.cycle.iter().any(|step| {
        matches!(
            &step.action,
            Action::Unlink {
                of: Subject::Set { .. }
            }
        )
    });
    match (job.end.runtime, job.end.ops) {
        (None, None) if !empties => found.push(fault(
            "nothing limits it",
            "set a time or a number of cycles: `--duration` or `--max-ops`",
        )),
        (Some(runtime), _) if runtime.0 == 0 => {
            found.push(fault("its duration is 0", "raise `--duration`"));
        }
        (_, Some(0)) => found.push(fault("its number of cycles is 0", "raise `--max-ops`")),
        _ => {}
    }
    let rate = job.pacing.ops_per_s;
    if !rate.is_finite() || rate < 0.0 {
        found.push(fault(
            "its rate is not a positive number",
            "set `--rate` to a positive number",
        ));
    }
    found
}

/// A clone and its share of its job's sets.
pub(super) fn clone(
    job: &Job,
    operations: &Operations,
    (index, clone): (u32, u32),
    seed: u64,
) -> ResolvedClone {
    let sets = operations.sets.iter();
    let bytes = sets.map(|set| {
        let own = operations::share_count(set.count, clone, job.clones);
        own.saturating_mul(set.size)
    });
    ResolvedClone {
        job: index,
        clone,
        files: Vec::new(),
        region_bytes: bytes.fold(0, u64::saturating_add),
        byte_budget: u64::MAX,
        seed,
        replay: None,
    }
}
