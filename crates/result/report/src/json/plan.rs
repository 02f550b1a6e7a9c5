//! A plan as JSON. The document's form is older than the plan's own: each job has all fields of all kinds of work.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use iodyno_model::{
    Admission, ExitScope, FilePolicy, Forecast, Fresh, Job, Plan, Search, SharedFiles, Work,
    Workload,
};
use iodyno_units::Nanos;
use serde::Serialize;

use super::{list, object, print};

/// The version of this document's form.
const FORM: u32 = 1;

/// The schedule of an experiment: the storage that it makes, its time, and its trials in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Schedule {
    /// How often storage is made again.
    pub fresh: Fresh,
    /// The pairs of configurations that cannot exist at the same time, with the reason: storage is then made for every
    /// trial.
    pub turns: Vec<(String, String, String)>,
    /// The storage of each configuration that is made.
    pub makes: Vec<Makes>,
    /// The space that image files need in each folder, bytes.
    pub space: BTreeMap<PathBuf, u64>,
    /// The measured time of a round, ns, without workloads that have no time limit.
    pub round_ns: u64,
    /// The longest time of preconditioning, ns.
    pub precondition_ns: u64,
    /// The workloads without a time limit.
    pub without_limit: Vec<String>,
    /// The number of rounds that the time limit allows; null without a limit.
    pub rounds_in_time: Option<u32>,
    /// Number of primary comparisons.
    pub primary_comparisons: u32,
    /// Whether the rounds can decide them; null without any.
    pub can_decide: Option<bool>,
    /// The smallest number of rounds that can.
    pub least_rounds: Option<u32>,
    /// Why the rounds cannot decide them, as text.
    #[serde(skip)]
    pub too_few: Option<String>,
    /// The number of rounds whose trials are compared.
    #[serde(skip)]
    pub compared_rounds: u32,
    /// How long each cell is tried before the first round.
    #[serde(skip)]
    pub probe: Option<Nanos>,
    /// The number of trials that are done: of a run that is resumed.
    pub done: u32,
    /// The measured time of the trials below, ns, without those of searches and of workloads that have no time limit.
    pub trials_ns: u64,
    /// The longest measured time of all searches, ns.
    pub searches_ns: u64,
    /// The searches.
    pub searches: Vec<Searching>,
    /// All trials in order, including those of searches, which can end earlier.
    pub trials: Vec<Scheduled>,
}

/// A search in a schedule.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Searching {
    /// The configuration's name.
    pub configuration: String,
    /// The workload's name.
    pub workload: String,
    /// The search.
    pub search: Search,
    /// The largest number of its trials.
    pub most_trials: u32,
    /// Their measured time, ns; null if one has no time limit.
    pub most_ns: Option<u64>,
}

/// The storage of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Makes {
    /// The configuration's name.
    pub configuration: String,
    /// The layers with their options and the other settings, from the top down.
    pub storage: String,
}

/// A trial of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Scheduled {
    /// From 1.
    pub number: u32,
    /// From 1.
    pub round: u32,
    /// The configuration's name.
    pub configuration: String,
    /// The workload's name.
    pub workload: String,
}

/// The whole plan, the forecast for its targets, if known, and the schedule of an experiment. Ends with a newline.
pub fn plan(plan: &Plan, forecast: Option<&Forecast>, schedule: Option<&Schedule>) -> String {
    print(&PlanObject((plan, forecast, schedule)))
}

object!(PlanObject<'a>((plan, forecast, schedule) in (&'a Plan, Option<&'a Forecast>, Option<&'a Schedule>)) {
    schema: FORM,
    name: plan.name,
    about [opt]: &plan.about,
    command: plan.command,
    nodes [filled]: plan.nodes,
    configurations: plan.configurations,
    workloads: list(&plan.workloads, WorkloadObject),
    rounds: plan.rounds,
    seed: plan.seed,
    destroy: plan.destroy,
    question: plan.question,
    stopping: plan.stopping,
    settling: plan.settling,
    sampling: plan.sampling,
    stuck_after_ns: plan.stuck_after_ns,
    fresh [opt]: Some(plan.fresh).filter(|fresh| *fresh != Fresh::default()),
    retry [opt]: Some(plan.retry).filter(|retry| *retry > 0),
    probe [opt]: plan.probe.then_some(true),
    table [opt]: &plan.table,
    schedule [opt]: schedule,
    imported [opt]: &plan.imported,
    // The files, folders and devices that its trials would open.
    targets [opt]: forecast.map(|forecast| {
        forecast.targets.iter().map(|(path, admission)| TargetObject((path, admission))).collect::<Vec<_>>()
    }),
    // Other reasons why its trials could not begin.
    faults [opt]: forecast.map(|forecast| list(&forecast.faults, |fault| &fault.message)),
});

object!(TargetObject<'a>((path, admission) in (&'a Path, &'a Admission)) {
    path: path,
    admission: match admission {
        Admission::Granted(_) => "granted",
        Admission::NeedsDestroy(_) => "needs_destroy",
        Admission::Refused(_) => "refused",
    },
    // `read`, `create`, `create_in` or `overwrite`, if it is granted.
    used: match admission {
        Admission::Granted(used) => Some(used),
        _ => None,
    },
    reason: admission.refusal().map(|why| &why.message),
});

object!(WorkloadObject<'a>(workload in &'a Workload) {
    name: workload.name,
    sources: workload.sources,
    jobs: list(&workload.jobs, JobObject),
    again: workload.again,
    // Its figures are not those of real storage.
    simulated [opt]: workload.simulated().then_some(true),
    family [opt]: &workload.family,
    only [filled]: workload.only,
    nodes [filled]: workload.nodes,
    dimensions [filled]: workload.dimensions,
    rounds [opt]: workload.rounds,
    stopping [opt]: Some(&workload.stopping).filter(|rules| !rules.is_none()),
    files [opt]: Some(workload.files).filter(|files| *files != FilePolicy::Own),
    search [opt]: &workload.search,
});

// Jobs of other kinds of work have the fields of blocks, too.
object!(JobObject<'a>(job in &'a Job) {
    name: job.name,
    description: job.description,
    place: job.place,
    clones: job.clones,
    after: job.after,
    delay: job.delay,
    exit_all: job.exit_all,
    exit_what [opt]: Some(job.exit_what).filter(|what| *what != ExitScope::Group),
    engine: job.work.as_blocks().engine,
    access: job.work.as_blocks().access,
    files: job.work.as_blocks().files,
    extent: job.work.as_blocks().extent,
    operations [opt]: job.work.file_operations(),
    shared_files [opt]: job.work.shared_files().map(SharedObject),
    end: EndObject(job),
    pacing: job.pacing,
    sync: job.work.as_blocks().sync,
    buffers: job.buffers,
    verify: job.work.as_blocks().verify,
    errors: job.errors,
    logs: job.logs,
    placement: job.placement,
    reporting: job.reporting,
    options: job.options,
});

object!(EndObject<'a>(job in &'a Job) {
    runtime: job.end.runtime,
    time_based: match job.work {
        Work::FileOperations(_) => job.end.runtime.is_some(),
        _ => job.work.as_blocks().passes.time_based,
    },
    io_size: job.work.as_blocks().passes.io_size,
    ops: job.end.ops,
    loops: job.work.as_blocks().passes.loops,
    ramp: job.end.ramp,
    until_full: job.end.until_full,
    steady [opt]: &job.end.steady,
});

object!(SharedObject<'a>(files in &'a SharedFiles) {
    mode: files.mode,
    file_size: files.file_size,
    block: files.block,
    merged: files.merged,
    read_write_ratio: files.read_write_ratio,
    fsync_every: files.fsync_every,
    fsync_all: files.fsync_all,
    fsync_end: files.fsync_end,
    data_only: files.data_only,
    validate: files.validate,
});
