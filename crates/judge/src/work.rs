//! What counts as an op of a job, and what a job reads and writes. Only this module distinguishes blocks, file
//! operations and shared files for the rest of the crate.

use iodyno_model::{
    Action, CloneResult, Direction, Engine, EngineKind, Frame, Job, Operations, SharedFiles, Step,
    Subject, Trial, Work, Workload,
};

/// The directions that move data.
pub(crate) const MOVING: [Direction; 3] = [Direction::Read, Direction::Write, Direction::Trim];

/// The directions whose ops make up a job's rate. A cycle counts as one op; its steps are recorded separately
/// and are not added.
pub(crate) fn counted(job: Option<&Job>) -> &'static [Direction] {
    match job.is_some_and(|job| job.work.file_operations().is_some()) {
        true => &[Direction::Op],
        false => &MOVING,
    }
}

fn job_of(workload: &Workload, job: u32) -> Option<&Job> {
    workload.jobs.get(job as usize)
}

/// The ops that a clone did in the measured time.
pub(crate) fn ops(workload: &Workload, clone: &CloneResult) -> u64 {
    let counted = counted(job_of(workload, clone.job));
    let results = clone.directions.iter();
    results
        .filter(|result| counted.contains(&result.direction))
        .map(|result| result.ops)
        .sum()
}

/// The ops that all jobs did in a frame.
pub(crate) fn frame_ops(workload: &Workload, frame: &Frame) -> u64 {
    let jobs = frame.jobs.iter().flat_map(|job| {
        let counted = counted(job_of(workload, job.job));
        let did = job.directions.iter();
        did.filter(move |did| counted.contains(&did.direction))
    });
    jobs.map(|did| did.ops).sum()
}

/// The clones of a trial.
pub(crate) fn clones(trial: &Trial) -> impl Iterator<Item = &CloneResult> {
    trial.parts.iter().flat_map(|part| &part.clones)
}

/// Number of cycles of file operations that a clone completed.
pub(crate) fn operations<'a>(
    workload: &'a Workload,
    clone: &CloneResult,
) -> Option<&'a Operations> {
    job_of(workload, clone.job)?.work.file_operations()
}

/// Whether every job does file operations.
pub(crate) fn all_operations(workload: &Workload) -> bool {
    let mut jobs = workload.jobs.iter();
    !workload.jobs.is_empty() && jobs.all(|job| job.work.file_operations().is_some())
}

/// Whether every job uses shared files.
pub(crate) fn all_shared(workload: &Workload) -> bool {
    let mut jobs = workload.jobs.iter();
    !workload.jobs.is_empty() && jobs.all(|job| job.work.shared_files().is_some())
}

/// Whether the job reads file data.
pub(crate) fn reads(job: &Job) -> bool {
    match &job.work {
        Work::Blocks(blocks) => blocks.access.reads,
        Work::FileOperations(_) => false,
        Work::SharedFiles(shared) => shared.mode.reads(),
    }
}

/// Whether the job writes file data at offsets.
pub(crate) fn writes(job: &Job) -> bool {
    match &job.work {
        Work::Blocks(blocks) => blocks.access.writes,
        Work::FileOperations(_) => false,
        Work::SharedFiles(shared) => shared.mode.writes(),
    }
}

/// Total length in bytes of the files that the clones of a job share.
pub(crate) fn shared_bytes(job: &Job) -> Option<u64> {
    job.work.shared_files().map(SharedFiles::total_size)
}

/// Whether the job uses the page cache, as far as was requested.
pub(crate) fn buffered(job: &Job) -> bool {
    let around = |engine: &Engine| engine.direct && engine.kind != EngineKind::Mmap;
    !job.work.engine().is_some_and(around)
}

/// Whether data are written, before the cycles or by them.
pub(crate) fn makes_data(operations: &Operations) -> bool {
    let mut steps = operations.cycle.iter();
    operations
        .sets
        .iter()
        .any(|set| set.count > 0 && set.size > 0)
        || steps.any(|step| step.action.direction() == Direction::Write)
}

/// Fraction of the clones' time spent in untimed steps, if all jobs do file operations. The harness's own time
/// is not included.
pub(crate) fn untimed_share(workload: &Workload, trial: &Trial) -> f64 {
    let (mut loop_ns, mut untimed_ns) = (0.0, 0.0);
    for clone in clones(trial) {
        let Some(operations) = operations(workload, clone) else {
            continue;
        };
        loop_ns += clone.runtime_ns as f64;
        if operations.cycle.iter().all(|step| step.timed) {
            continue;
        }
        let sum = |of_op: bool| -> u128 {
            let results = clone.directions.iter();
            let of = results.filter(|result| (result.direction == Direction::Op) == of_op);
            of.map(|result| result.service.sum_ns()).sum()
        };
        // The cycle that the end interrupted has recorded steps but is not an op.
        untimed_ns += sum(false).saturating_sub(sum(true)) as f64;
    }
    match loop_ns > 0.0 {
        true => untimed_ns / loop_ns,
        false => 0.0,
    }
}

/// Number of cycles, over all clones, until each clone has an empty set that its cycles take files from; `None`
/// if cycles take no files.
pub(crate) fn cycles_until_empty(operations: &Operations, clones: u32) -> Option<u64> {
    let clones = u64::from(clones.max(1));
    let taken = |set: &str| {
        let steps = operations.cycle.iter().filter(|step| {
            matches!(&step.action, Action::Unlink { of: Subject::Set { name, .. } } if name == set)
        });
        steps.count() as u64
    };
    let emptied: Vec<(u64, u64)> = operations
        .sets
        .iter()
        .map(|set| (set.count, taken(&set.name)))
        .filter(|(_, taken)| *taken > 0)
        .collect();
    if emptied.is_empty() {
        return None;
    }
    let of_clone = |clone: u64| {
        let cycles = emptied.iter().map(|(count, taken)| {
            let share = count / clones + u64::from(clone < count % clones);
            share / taken
        });
        cycles.min().unwrap_or(0)
    };
    Some((0..clones).map(of_clone).sum())
}

/// Duration of a step of the jobs that do file operations, ns. If several parts report it, the longest; `None`
/// if there was no such step.
pub(crate) fn step_ns(workload: &Workload, trial: &Trial, step: Step) -> Option<u64> {
    let theirs = |job: Option<u32>| match job {
        Some(job) => job_of(workload, job).is_some_and(|job| job.work.file_operations().is_some()),
        None => all_operations(workload),
    };
    let steps = trial.parts.iter().flat_map(|part| &part.steps);
    steps
        .filter(|time| time.step == step && theirs(time.job))
        .map(|time| time.span_ns)
        .max()
        .filter(|span| *span > 0)
}

#[cfg(test)]
mod tests {
    use iodyno_model::PickOrder;

    use super::*;
    use crate::testing::operations as made;

    #[test]
    fn a_set_is_divided_among_clones_and_emptied() {
        let unlink = |set: &str| Action::Unlink {
            of: Subject::Set {
                name: set.to_owned(),
                order: PickOrder::Newest,
            },
        };
        type Case<'a> = (&'a [(&'a str, u64)], Vec<Action>, u32, Option<u64>);
        let cases: [Case<'_>; 7] = [
            (&[("a", 10)], vec![unlink("a")], 1, Some(10)),
            (&[("a", 10)], vec![unlink("a")], 3, Some(10)),
            (&[("a", 10)], vec![unlink("a"), unlink("a")], 3, Some(4)),
            (&[("a", 10), ("b", 4)], vec![unlink("b")], 2, Some(4)),
            (
                &[("a", 10), ("b", 4)],
                vec![unlink("a"), unlink("b")],
                1,
                Some(4),
            ),
            (&[("a", 10)], vec![Action::Statfs], 1, None),
            (&[], vec![Action::Create], 1, None),
        ];
        for (sets, cycle, clones, expected) in cases {
            let steps: Vec<(Action, bool)> = cycle.into_iter().map(|step| (step, true)).collect();
            let operations = made::operations(sets, steps);
            let found = cycles_until_empty(&operations, clones);
            assert_eq!(found, expected, "{sets:?} {clones}");
        }
    }
}
