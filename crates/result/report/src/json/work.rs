//! Workloads with more data than their directions: file operations and shared files.

use iodyno_model::{
    Action, CycleStep, Direction, FileSet, GroupSummary, Job, PickOrder, SharedMode, Subject,
    Trial, Workload,
};
use serde::Serialize;

use crate::operations::{came_to_its_end, completion_ns, of};

#[derive(Serialize)]
pub(super) struct OperationsObject<'a> {
    about: &'a str,
    sets: Vec<SetObject<'a>>,
    cycle: Vec<CycleObject<'a>>,
    own_folders: bool,
    drain: bool,
    needs: NeedsObject,
    /// Measured time of all clones ÷ cycles; null without cycles.
    cycle_mean_ns: Option<f64>,
    /// From the start until everything was on the storage, drain included; null if it ended by time.
    completion_ns: Option<u64>,
}

#[derive(Serialize)]
struct SetObject<'a> {
    name: &'a str,
    count: u64,
    size_bytes: u64,
    fsync: bool,
}

#[derive(Serialize)]
struct CycleObject<'a> {
    /// See the rows.
    direction: Direction,
    timed: bool,
    /// Bytes written, appended or allocated; for a truncate, the new length.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    /// The length at which a new file is begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    new_file_at_bytes: Option<u64>,
    /// The set that the file belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    set: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<PickOrder>,
}

#[derive(Serialize)]
struct NeedsObject {
    bytes: u64,
    files: u64,
    bytes_per_op: u64,
    files_per_op: u64,
}

/// The file operations of a group; `None` for groups of other jobs.
pub(super) fn operations<'a>(
    workload: &'a Workload,
    group: &GroupSummary,
    trial: &Trial,
) -> Option<OperationsObject<'a>> {
    let job = job(workload, group)?;
    let operations = job.work.file_operations()?;
    let needs = operations.needs(job.clones);
    let cycle_mean_ns = of(workload, group)
        .filter(|cycles| cycles.op.result.ops > 0)
        .map(|cycles| cycles.cycle_ns(trial));
    Some(OperationsObject {
        about: &operations.about,
        sets: operations.sets.iter().map(set).collect(),
        cycle: operations.cycle.iter().map(step).collect(),
        own_folders: operations.own_folders,
        drain: operations.drain,
        needs: NeedsObject {
            bytes: needs.bytes,
            files: needs.files,
            bytes_per_op: needs.bytes_per_op,
            files_per_op: needs.files_per_op,
        },
        cycle_mean_ns,
        completion_ns: came_to_its_end(trial).then(|| completion_ns(trial)),
    })
}

fn set(set: &FileSet) -> SetObject<'_> {
    SetObject {
        name: &set.name,
        count: set.count,
        size_bytes: set.size,
        fsync: set.fsync,
    }
}

fn step(step: &CycleStep) -> CycleObject<'_> {
    let bytes = match &step.action {
        Action::Write { bytes } | Action::Append { bytes, .. } | Action::Fallocate { bytes } => {
            Some(*bytes)
        }
        Action::Truncate { length } => Some(*length),
        _ => None,
    };
    let new_file_at_bytes = match &step.action {
        Action::Append { new_file_at, .. } => Some(*new_file_at),
        _ => None,
    };
    let subject = match &step.action {
        Action::Open { of }
        | Action::Unlink { of }
        | Action::Rename { of }
        | Action::Stat { of } => Some(of),
        _ => None,
    };
    let (set, order) = match subject {
        Some(Subject::Set { name, order }) => (Some(name.as_str()), Some(*order)),
        _ => (None, None),
    };
    CycleObject {
        direction: step.action.direction(),
        timed: step.timed,
        bytes,
        new_file_at_bytes,
        set,
        order,
    }
}

#[derive(Serialize)]
pub(super) struct SharedObject {
    mode: &'static str,
    files: u32,
    file_size_bytes: u64,
    block_bytes: u64,
    merged_bytes: u64,
    read_write_ratio: f64,
    fsync_every_requests: u32,
    fsync_all: bool,
    fsync_end: bool,
    data_only: bool,
    validate: bool,
}

/// The shared files of a group; `None` for groups of other jobs.
pub(super) fn shared(workload: &Workload, group: &GroupSummary) -> Option<SharedObject> {
    let job = job(workload, group)?;
    let files = job.work.shared_files()?;
    Some(SharedObject {
        mode: SharedMode::name(files.mode),
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
    })
}

fn job<'a>(workload: &'a Workload, group: &GroupSummary) -> Option<&'a Job> {
    workload.jobs.get(*group.jobs.first()? as usize)
}
