//! Workloads of file operations, and functions that inspect their results.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use iodyno_model::{
    Action, BoundPlan, CycleStep, Direction, FileSet, Job, Operations, Part, PickOrder, RunId,
    Step, Subject, Work,
};
use iodyno_units::Nanos;

use crate::common::{Loop, run, skip};
use crate::samples;

pub(crate) fn timed(action: Action) -> CycleStep {
    CycleStep {
        action,
        timed: true,
    }
}

pub(crate) fn newest() -> Subject {
    Subject::Set {
        name: "files".to_owned(),
        order: PickOrder::Newest,
    }
}

pub(crate) fn files(count: u64, size: u64) -> FileSet {
    FileSet {
        name: "files".to_owned(),
        count,
        size,
        fsync: true,
        folders: false,
    }
}

pub(crate) fn job(sets: Vec<FileSet>, cycle: Vec<CycleStep>) -> Job {
    let mut job = Job {
        name: "fs".to_owned(),
        work: Work::FileOperations(Operations {
            about: "for a test".to_owned(),
            sets,
            cycle,
            own_folders: false,
            drain: false,
            writing: Default::default(),
            fio: None,
            command: None,
        }),
        ..Job::default()
    };
    // The first failed step ends it, as the default policy of `Job` defines.
    job.end.runtime = None;
    job
}

/// Creates files until it is stopped, or this number.
pub(crate) fn creates(count: Option<u64>, ms: u64) -> Job {
    let cycle = [Action::Create, Action::SyncFolder, Action::Close];
    let mut job = job(Vec::new(), cycle.map(timed).to_vec());
    job.end.ops = count;
    job.end.runtime = Some(Nanos::from_millis(ms));
    job
}

/// Removes as many files as were created before.
pub(crate) fn deletes(count: u64, size: u64) -> Job {
    let unlink = Action::Unlink { of: newest() };
    job(vec![files(count, size)], vec![timed(unlink)])
}

/// Calls stat on files of the set, and creates none.
pub(crate) fn stats(count: u64, ms: u64) -> Job {
    let stat = Action::Stat { of: newest() };
    let mut job = job(vec![files(count, 100)], vec![timed(stat)]);
    job.end.runtime = Some(Nanos::from_millis(ms));
    job
}

/// A trial with a unique key.
pub(crate) fn plan(folder: &Path, jobs: Vec<Job>) -> BoundPlan {
    let mut plan = samples::plan(folder, jobs);
    plan.key.run = RunId::fresh();
    plan
}

/// The trial's folder.
pub(crate) fn own(plan: &BoundPlan) -> PathBuf {
    let iodyno_model::Target::AsWritten { folder } = &plan.configuration.target else {
        panic!("the samples are valid");
    };
    folder.join(iodyno_runner::folder_name(plan))
}

/// The names in a folder.
pub(crate) fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

/// Ops of a direction, over all clones.
pub(crate) fn ops(part: &Part, direction: Direction) -> u64 {
    let clones = part.clones.iter();
    let results = clones.filter_map(|clone| clone.direction(direction));
    results.map(|result| result.ops).sum()
}

pub(crate) fn has(part: &Part, step: Step) -> bool {
    part.steps.iter().any(|took| took.step == step)
}

/// A loop device of this number of MiB with a file system; `None` with a message if that is not possible.
pub(crate) fn formatted(mib: u64, make: &[&str]) -> Option<Loop> {
    let disk = Loop::blank(mib)?;
    let command = [make, &[disk.path()]].concat();
    match run(&command) {
        Ok(_) => Some(disk),
        Err(why) => {
            skip(&why);
            None
        }
    }
}
