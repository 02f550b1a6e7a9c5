//! A plan as JSON. The document's form is older than the plan's own: each job has all fields of all kinds of work.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use iodyno_model::{
    Access, Admission, After, Amount, Blocks, Buffers, ClosingTable, Configuration, Engine,
    ErrorPolicy, ExitScope, Extent, FilePolicy, Files, Forecast, Fresh, Imported, Job, Logs,
    Operations, Pacing, Place, Placement, Plan, PlannedNode, Question, Reporting, Sampling, Search,
    Settling, SharedFiles, SharedMode, Source, Span, SteadyRule, Stopping, SyncPolicy, TargetUse,
    Verify, Work, Workload,
};
use iodyno_units::Nanos;
use serde::Serialize;

use super::print;

/// The version of this document's form.
const FORM: u32 = 1;

/// The schedule of an experiment: the storage that it makes, its time, and its trials in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Schedule {
    /// How often storage is made again.
    pub fresh: Fresh,
    /// The pairs of configurations that use the same storage in turn: it is then made for every trial.
    pub turns: Vec<(String, String)>,
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
    let jobs = |workload: &Workload| -> Vec<(Blocks, bool)> {
        let jobs = workload.jobs.iter();
        jobs.map(|job| {
            let blocks = job.work.as_blocks().into_owned();
            let time_based = match &job.work {
                Work::FileOperations(_) => job.end.runtime.is_some(),
                _ => blocks.passes.time_based,
            };
            (blocks, time_based)
        })
        .collect()
    };
    let blocks: Vec<Vec<(Blocks, bool)>> = plan.workloads.iter().map(jobs).collect();
    let workloads = plan.workloads.iter().zip(&blocks);
    print(&PlanObject {
        schema: FORM,
        name: &plan.name,
        about: plan.about.as_deref(),
        command: &plan.command,
        nodes: &plan.nodes,
        configurations: &plan.configurations,
        workloads: workloads
            .map(|(workload, blocks)| WorkloadObject {
                name: &workload.name,
                sources: &workload.sources,
                jobs: (workload.jobs.iter().zip(blocks))
                    .map(|(job, (blocks, time_based))| job_object(job, blocks, *time_based))
                    .collect(),
                again: workload.again,
                simulated: workload.simulated(),
                family: workload.family.as_deref(),
                only: &workload.only,
                nodes: &workload.nodes,
                dimensions: &workload.dimensions,
                rounds: workload.rounds,
                stopping: Some(&workload.stopping).filter(|rules| !rules.is_none()),
                files: Some(workload.files).filter(|files| *files != FilePolicy::Own),
                search: workload.search.as_ref(),
            })
            .collect(),
        rounds: plan.rounds,
        seed: plan.seed,
        destroy: &plan.destroy,
        question: &plan.question,
        stopping: &plan.stopping,
        settling: &plan.settling,
        sampling: &plan.sampling,
        stuck_after_ns: plan.stuck_after_ns,
        fresh: Some(plan.fresh).filter(|fresh| *fresh != Fresh::default()),
        retry: Some(plan.retry).filter(|retry| *retry > 0),
        probe: Some(true).filter(|_| plan.probe),
        table: plan.table.as_ref(),
        schedule,
        imported: plan.imported.as_ref(),
        targets: forecast.map(|forecast| {
            let targets = forecast.targets.iter();
            targets
                .map(|(path, admission)| target(path, admission))
                .collect()
        }),
        faults: forecast.map(|forecast| {
            forecast
                .faults
                .iter()
                .map(|it| it.message.as_str())
                .collect()
        }),
    })
}

#[derive(Serialize)]
struct PlanObject<'a> {
    schema: u32,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    about: Option<&'a str>,
    command: &'a [String],
    #[serde(skip_serializing_if = "<[PlannedNode]>::is_empty")]
    nodes: &'a [PlannedNode],
    configurations: &'a [Configuration],
    workloads: Vec<WorkloadObject<'a>>,
    rounds: u32,
    seed: u64,
    destroy: &'a [PathBuf],
    question: &'a Question,
    stopping: &'a Stopping,
    settling: &'a Settling,
    sampling: &'a Sampling,
    stuck_after_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    fresh: Option<Fresh>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    probe: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<&'a ClosingTable>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule: Option<&'a Schedule>,
    #[serde(skip_serializing_if = "Option::is_none")]
    imported: Option<&'a Imported>,
    /// The files, folders and devices that its trials would open.
    #[serde(skip_serializing_if = "Option::is_none")]
    targets: Option<Vec<TargetObject<'a>>>,
    /// Other reasons why its trials could not begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    faults: Option<Vec<&'a str>>,
}

#[derive(Serialize)]
struct TargetObject<'a> {
    path: &'a Path,
    /// `granted`, `needs_destroy` or `refused`.
    admission: &'static str,
    /// `read`, `create`, `create_in` or `overwrite`, if it is granted.
    used: Option<TargetUse>,
    reason: Option<&'a str>,
}

fn target<'a>(path: &'a Path, admission: &'a Admission) -> TargetObject<'a> {
    let (verdict, used) = match admission {
        Admission::Granted(used) => ("granted", Some(*used)),
        Admission::NeedsDestroy(_) => ("needs_destroy", None),
        Admission::Refused(_) => ("refused", None),
    };
    TargetObject {
        path,
        admission: verdict,
        used,
        reason: admission.refusal().map(|why| why.message.as_str()),
    }
}

#[derive(Serialize)]
struct WorkloadObject<'a> {
    name: &'a str,
    sources: &'a [Source],
    jobs: Vec<JobObject<'a>>,
    again: bool,
    /// Its figures are not those of real storage.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    simulated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    family: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    only: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    nodes: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    dimensions: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rounds: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stopping: Option<&'a Stopping>,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<FilePolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    search: Option<&'a Search>,
}

#[derive(Serialize)]
struct JobObject<'a> {
    name: &'a str,
    description: &'a str,
    place: &'a Option<Place>,
    clones: u32,
    after: &'a After,
    delay: Span,
    exit_all: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_what: Option<ExitScope>,
    engine: &'a Engine,
    access: &'a Access,
    files: &'a Files,
    extent: &'a Extent,
    #[serde(skip_serializing_if = "Option::is_none")]
    operations: Option<&'a Operations>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shared_files: Option<SharedObject>,
    end: EndObject,
    pacing: &'a Pacing,
    sync: SyncPolicy,
    buffers: &'a Buffers,
    verify: &'a Option<Verify>,
    errors: &'a ErrorPolicy,
    logs: &'a Logs,
    placement: &'a Placement,
    reporting: &'a Reporting,
    options: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
struct EndObject {
    runtime: Option<Nanos>,
    time_based: bool,
    io_size: Option<Amount>,
    ops: Option<u64>,
    loops: u64,
    ramp: Nanos,
    until_full: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    steady: Option<SteadyRule>,
}

#[derive(Serialize)]
struct SharedObject {
    mode: SharedMode,
    file_size: u64,
    block: u64,
    merged: u64,
    read_write_ratio: f64,
    fsync_every: u32,
    fsync_all: bool,
    fsync_end: bool,
    data_only: bool,
    validate: bool,
}

fn job_object<'a>(job: &'a Job, blocks: &'a Blocks, time_based: bool) -> JobObject<'a> {
    JobObject {
        name: &job.name,
        description: &job.description,
        place: &job.place,
        clones: job.clones,
        after: &job.after,
        delay: job.delay,
        exit_all: job.exit_all,
        exit_what: Some(job.exit_what).filter(|what| *what != ExitScope::Group),
        engine: &blocks.engine,
        access: &blocks.access,
        files: &blocks.files,
        extent: &blocks.extent,
        operations: job.work.file_operations(),
        shared_files: job.work.shared_files().map(shared_object),
        end: EndObject {
            runtime: job.end.runtime,
            time_based,
            io_size: blocks.passes.io_size,
            ops: job.end.ops,
            loops: blocks.passes.loops,
            ramp: job.end.ramp,
            until_full: job.end.until_full,
            steady: job.end.steady,
        },
        pacing: &job.pacing,
        sync: blocks.sync,
        buffers: &job.buffers,
        verify: &blocks.verify,
        errors: &job.errors,
        logs: &job.logs,
        placement: &job.placement,
        reporting: &job.reporting,
        options: &job.options,
    }
}

fn shared_object(files: &SharedFiles) -> SharedObject {
    SharedObject {
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
    }
}
