//! Workloads with more data than their directions: file operations and shared files.

use iodyno_model::{
    Action, CommandResult, CycleStep, FileSet, GroupSummary, Job, Needs, Operations, OutputMetric,
    PickOrder, SharedFiles, ShellCommand, Subject, Trial, Workload,
};

use super::{list, object};
use crate::compare::{metric_better, metric_unit};
use crate::operations::{came_to_its_end, completion_ns, of};

type Ran<'a> = (&'a Workload, &'a GroupSummary, &'a Trial);

/// The file operations of a group; `None` for groups of other jobs.
pub(super) fn operations<'a>(
    workload: &'a Workload,
    group: &'a GroupSummary,
    trial: &'a Trial,
) -> Option<OperationsObject<'a>> {
    let job = job(workload, group)?;
    let operations = job.work.file_operations()?;
    Some(OperationsObject((
        job,
        operations,
        (workload, group, trial),
    )))
}

object!(OperationsObject<'a>((job, operations, ran) in (&'a Job, &'a Operations, Ran<'a>)) {
    about: operations.about,
    sets: list(&operations.sets, SetObject),
    cycle: list(&operations.cycle, CycleObject),
    // The command that the step `run` runs.
    command [opt]: operations.command.as_ref().map(|command| &command.run),
    // What its executions printed, for each clone.
    executed [filled]: executed(ran),
    own_folders: operations.own_folders,
    drain: operations.drain,
    needs: NeedsObject(&operations.needs(job.clones)),
    // Measured time of all clones ÷ cycles; null without cycles.
    cycle_mean_ns: of(ran.0, ran.1)
        .filter(|cycles| cycles.op.result.ops > 0)
        .map(|cycles| cycles.cycle_ns(ran.2)),
    // From the start until everything was on the storage, drain included; null if it ended by time.
    completion_ns: came_to_its_end(ran.2).then(|| completion_ns(ran.2)),
});

fn executed<'a>((workload, group, trial): Ran<'a>) -> Vec<ExecutedObject<'a>> {
    let each = crate::operations::commands(workload, group, trial);
    each.map(ExecutedObject).collect()
}

object!(ExecutedObject<'a>((command, result) in (&'a ShellCommand, &'a CommandResult)) {
    // Executions with an exit status other than 0.
    failed: result.failed,
    // The largest; 128 + N for signal N.
    exit_status: result.exit_status,
    // The mean over the executions.
    values: command.metrics.iter().zip(&result.values).map(ValueObject).collect::<Vec<_>>(),
    // The end of the output of the last execution.
    output: result.output,
});

object!(ValueObject<'a>((printed, value) in (&'a OutputMetric, &'a f64)) {
    metric: printed.metric.name,
    unit: metric_unit(&printed.metric.unit),
    better: metric_better(printed.metric.better),
    value: value,
});

object!(SetObject<'a>(set in &'a FileSet) {
    name: set.name,
    count: set.count,
    size_bytes: set.size,
    fsync: set.fsync,
});

object!(CycleObject<'a>(step in &'a CycleStep) {
    // See the rows.
    direction: step.action.direction(),
    timed: step.timed,
    // Bytes written, appended or allocated; for a truncate, the new length.
    bytes [opt]: match &step.action {
        Action::Write { bytes } | Action::Append { bytes, .. } | Action::Fallocate { bytes } => Some(bytes),
        Action::Truncate { length } => Some(length),
        _ => None,
    },
    // The length at which a new file is begun.
    new_file_at_bytes [opt]: match &step.action {
        Action::Append { new_file_at, .. } => Some(new_file_at),
        _ => None,
    },
    // The set that the file belongs to.
    set [opt]: set_and_order(step).map(|it| it.0),
    order [opt]: set_and_order(step).map(|it| it.1),
});

fn set_and_order(step: &CycleStep) -> Option<(&str, PickOrder)> {
    match &step.action {
        Action::Open { of }
        | Action::Unlink { of }
        | Action::Rename { of }
        | Action::Stat { of } => match of {
            Subject::Set { name, order } => Some((name, *order)),
            Subject::Current => None,
        },
        _ => None,
    }
}

object!(NeedsObject<'a>(needs in &'a Needs) {
    bytes: needs.bytes,
    files: needs.files,
    bytes_per_op: needs.bytes_per_op,
    files_per_op: needs.files_per_op,
});

/// The shared files of a group; `None` for groups of other jobs.
pub(super) fn shared<'a>(workload: &'a Workload, group: &GroupSummary) -> Option<SharedObject<'a>> {
    job(workload, group)?.work.shared_files().map(SharedObject)
}

object!(SharedObject<'a>(files in &'a SharedFiles) {
    mode: files.mode.name(),
    files: files.count,
    file_size_bytes: files.file_size,
    block_bytes: files.block,
    merged_bytes: files.merged,
    read_write_ratio: files.read_write_ratio,
    fsync_every_requests: files.fsync_every,
    fsync_all: files.fsync_all,
    fsync_end: files.fsync_end,
    data_only: files.data_only,
    validate: files.validate,
});

fn job<'a>(workload: &'a Workload, group: &GroupSummary) -> Option<&'a Job> {
    workload.jobs.get(*group.jobs.first()? as usize)
}
