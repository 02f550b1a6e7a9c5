//! What counts as an op of a job, and what a job does at all: jobs that read and write at offsets, cycles of
//! file operations, and files shared by sysbench's laws are told apart here and nowhere else.

use iodyno_model::{
    Action, CloneResult, Direction, Engine, EngineKind, Frame, Job, Operations, SharedFiles, Step,
    Subject, Trial, Work, Workload,
};

/// The directions that move data.
pub(crate) const MOVING: [Direction; 3] = [Direction::Read, Direction::Write, Direction::Trim];

/// The directions whose ops make a job's rate. A cycle is one op: its steps are recorded as well, and would
/// count it again.
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

/// The file operations that a clone did.
pub(crate) fn operations<'a>(
    workload: &'a Workload,
    clone: &CloneResult,
) -> Option<&'a Operations> {
    job_of(workload, clone.job)?.work.file_operations()
}

/// Every job does file operations.
pub(crate) fn all_operations(workload: &Workload) -> bool {
    let mut jobs = workload.jobs.iter();
    !workload.jobs.is_empty() && jobs.all(|job| job.work.file_operations().is_some())
}

/// Every job walks shared files.
pub(crate) fn all_shared(workload: &Workload) -> bool {
    let mut jobs = workload.jobs.iter();
    !workload.jobs.is_empty() && jobs.all(|job| job.work.shared_files().is_some())
}

/// The job reads data of files.
pub(crate) fn reads(job: &Job) -> bool {
    match &job.work {
        Work::Blocks(blocks) => blocks.access.reads,
        Work::FileOperations(_) => false,
        Work::SharedFiles(shared) => shared.mode.reads(),
    }
}

/// The job writes data to files at offsets.
pub(crate) fn writes(job: &Job) -> bool {
    match &job.work {
        Work::Blocks(blocks) => blocks.access.writes,
        Work::FileOperations(_) => false,
        Work::SharedFiles(shared) => shared.mode.writes(),
    }
}

/// Length of all files that the clones of a job share.
pub(crate) fn shared_bytes(job: &Job) -> Option<u64> {
    job.work.shared_files().map(SharedFiles::total_size)
}

/// The job's data go by way of the page cache, as far as was asked for.
pub(crate) fn buffered(job: &Job) -> bool {
    let around = |engine: &Engine| engine.direct && engine.kind != EngineKind::Mmap;
    !job.work.engine().is_some_and(around)
}

/// Data are written, before the cycles or by them.
pub(crate) fn makes_data(operations: &Operations) -> bool {
    let mut steps = operations.cycle.iter();
    operations
        .sets
        .iter()
        .any(|set| set.count > 0 && set.size > 0)
        || steps.any(|step| step.action.direction() == Direction::Write)
}

/// The part of the clones' time that steps took which do not count towards the op, where all jobs do file
/// operations. What the harness itself takes is none of it.
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
        // The cycle that was cut off by the end has steps and is no op.
        untimed_ns += sum(false).saturating_sub(sum(true)) as f64;
    }
    match loop_ns > 0.0 {
        true => untimed_ns / loop_ns,
        false => 0.0,
    }
}

/// Cycles of all clones together until, for each of them, a set is empty that its cycles take files out of;
/// `None` where they take none.
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

/// The time of a step of those jobs that do file operations, ns; the longest where several parts tell it. `None`: there
/// was none.
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
    fn a_set_is_dealt_out_and_emptied_by_each_clone() {
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
