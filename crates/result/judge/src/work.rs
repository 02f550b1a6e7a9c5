//! What counts as an op of a job, what a job reads and writes, and which metric file operations are compared by. Only
//! this module distinguishes blocks, file operations and shared files for the rest of the crate.

use iodyno_model::{
    CloneResult, Direction, Engine, EngineKind, Frame, Job, Kind, Metric, Operations, Search,
    SharedFiles, Step, Trial, Work, Workload,
};

use crate::kind;

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

/// The time in which any clone was measured, ns.
pub(crate) fn measured_ns(trial: &Trial) -> u64 {
    let mut spans: Vec<(u64, u64)> = clones(trial)
        .map(|clone| {
            (
                clone.start_ns,
                clone.start_ns.saturating_add(clone.runtime_ns),
            )
        })
        .collect();
    covered(&mut spans)
}

/// Length of the union of the spans, ns.
pub(crate) fn covered(spans: &mut [(u64, u64)]) -> u64 {
    spans.sort_unstable();
    let (mut sum, mut reached) = (0, 0);
    for (start, end) in spans.iter().copied() {
        sum += end.saturating_sub(start.max(reached));
        reached = reached.max(end);
    }
    sum
}

/// Whether the trial runs commands, whose time says nothing about the storage.
pub(crate) fn runs_commands(trial: &Trial) -> bool {
    clones(trial).any(|clone| clone.command.is_some())
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

/// If untimed steps take this fraction of the time, they affect the rate of cycles.
const UNTIMED: f64 = 0.01;

/// Whether untimed steps affect the rate of cycles: what the workload does decides if its metric was fixed when the run
/// was planned, and otherwise the measured share of the time.
pub(crate) fn untimed_counts(workload: &Workload, trial: &Trial) -> bool {
    match workload.metric {
        Some(_) => has_untimed_work(workload),
        None => untimed_share(workload, trial) >= UNTIMED,
    }
}

/// Whether the cycle of any job does work that is not timed.
fn has_untimed_work(workload: &Workload) -> bool {
    let mut jobs = workload.jobs.iter();
    jobs.any(|job| {
        let operations = job.work.file_operations();
        operations.is_some_and(Operations::has_untimed_work)
    })
}

/// The primary metric of a workload of file operations, which must not depend on what its trials measure: the
/// completion of a fixed amount of work, the response latency of work at a requested rate, and otherwise the rate of
/// cycles, or the op time if cycles do untimed work; of commands, the first value that they print, or the time. `None` for other work: its trials' own data select one.
pub fn planned_metric(workload: &Workload) -> Option<Metric> {
    if !all_operations(workload) {
        return None;
    }
    let untimed = has_untimed_work(workload);
    let jobs = || workload.jobs.iter();
    if workload.only_commands() {
        let printed = workload.output_metrics().next().cloned();
        return Some(printed.unwrap_or_else(|| Metric::time("op.mean")));
    }
    Some(if jobs().all(|job| job.end.runtime.is_none()) && !untimed {
        Metric::time(Metric::COMPLETION)
    } else if jobs().all(Job::scheduled) {
        let few = jobs().map(planned_ops).sum::<f64>() < OPS_FOR_P99;
        Metric::time(if few { "op.mean" } else { "op.p99" })
    } else if untimed {
        Metric::time("op.mean")
    } else {
        Metric::iops(Metric::IOPS)
    })
}

/// The names of the metrics by which trials of a workload will be compared, as far as its plan decides: one of them.
pub fn expected_metrics(workload: &Workload) -> Vec<String> {
    let planned = workload.metric.clone().or_else(|| planned_metric(workload));
    if let Some(planned) = planned {
        return vec![planned.name];
    }
    let jobs = || workload.jobs.iter();
    let scheduled = jobs().all(Job::scheduled);
    let replayed = jobs().all(|job| job.work.replay().is_some());
    if kind::planned(workload) == Kind::Finite && !(scheduled && replayed) {
        return vec![Metric::COMPLETION.to_owned()];
    }
    if scheduled {
        let latency = |name: &str| format!("{name}.p99");
        if all_shared(workload) {
            return vec![latency(Direction::Op.name())];
        }
        let moves = |direction: &&Direction| jobs().any(|job| issues(job, **direction));
        let moving = MOVING.iter().filter(moves);
        return moving.map(|direction| latency(direction.name())).collect();
    }
    let sizes = || jobs().map(|job| job.work.as_blocks());
    let large = |bytes: u64| bytes as f64 >= LARGE_BLOCK;
    let (iops, bandwidth) = (Metric::IOPS.to_owned(), Metric::BANDWIDTH.to_owned());
    if sizes().all(|blocks| large(blocks.access.min_block())) {
        vec![bandwidth]
    } else if sizes().any(|blocks| large(blocks.access.max_block())) {
        vec![iops, bandwidth]
    } else {
        vec![iops]
    }
}

fn issues(job: &Job, direction: Direction) -> bool {
    let blocks = job.work.as_blocks();
    blocks.access.directions().any(|issued| issued == direction)
}

/// From this mean block size upwards, in bytes, bandwidth and not IOPS is the primary metric.
pub(crate) const LARGE_BLOCK: f64 = 65536.0;

/// The 99th percentile of fewer ops is withheld: [`Search::OPS_BEYOND`] of them lie beyond it. Twice that number,
/// because a trial may not keep its rate.
const OPS_FOR_P99: f64 = 2.0 * 100.0 * Search::OPS_BEYOND as f64;

/// The number of ops of a job at a rate, as planned.
fn planned_ops(job: &Job) -> f64 {
    let rate = job.pacing.ops_per_s * f64::from(job.clones.max(1));
    let runtime = job.end.runtime.filter(|_| rate > 0.0);
    let operations = job.work.file_operations();
    let until_empty = operations.and_then(|it| it.cycles_until_empty(job.clones));
    [
        runtime.map(|runtime| rate * runtime.secs()),
        job.end.ops.map(|ops| ops as f64),
        until_empty.map(|cycles| cycles as f64),
    ]
    .into_iter()
    .flatten()
    .fold(f64::INFINITY, f64::min)
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

/// Whether the engine polls: it then keeps a core busy whatever the storage does.
pub(crate) fn busy_by_design(job: &Job) -> bool {
    let polls = job.work.engine().is_some_and(|engine| engine.hipri);
    polls || job.pacing.think.is_some_and(|think| think.spin.0 > 0)
}
