//! Our own JSON: everything the text tells, and more, for programs.
//!
//! Units are in the key names. The first key of a document is its `schema`; keys are only added
//! within a schema number. A figure that does not exist is null, never 0 or NaN.

mod node;
mod plan;
#[cfg(test)]
mod tests;
mod work;

pub use plan::plan;

use iodyno_model::{
    Behaviour, Comparison, Direction, DirectionResult, EndedBy, EngineUsed, ErrorCount, Finding,
    Frame, Histogram, Outcome, Quantile, Row, Step, StepTime, Summary, Trial, VerifyResult,
    Workload, errno_name,
};
use serde::Serialize;

use crate::compare;
use crate::operations::of_group;

/// A trial with what was put together of it.
#[derive(Debug, Clone, Copy)]
pub struct TrialView<'a> {
    /// What was done.
    pub workload: &'a Workload,
    /// What was measured.
    pub trial: &'a Trial,
    /// Its figures.
    pub summary: &'a Summary,
    /// What its own data say against it.
    pub findings: &'a [Finding],
}

/// A run, for the head of its document.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunView {
    /// Its UUID.
    pub id: String,
    /// Its short name in this store.
    pub alias: String,
    /// Its name.
    pub name: String,
    /// The command as given.
    pub command: Vec<String>,
    /// `completed`, `interrupted`, `failed`, `running`.
    pub state: String,
}

/// `schema` = `iodyno.run/1`: `run` (`id`, `alias`, `name`, `command`, `state`), `comparison`, where there is
/// one, as [`crate::compare::json`] writes it, and `trials`, each as [`trial`] writes it. Ends with a
/// newline.
pub fn run(run: &RunView, comparison: Option<&Comparison>, trials: &[TrialView]) -> String {
    print(&RunDocument {
        schema: "iodyno.run/1",
        run: RunHead {
            id: &run.id,
            alias: &run.alias,
            name: &run.name,
            command: &run.command,
            state: &run.state,
        },
        comparison: comparison.map(compare::document),
        trials: trials.iter().map(document).collect(),
    })
}

/// `schema` = `iodyno.trial/1`: what was done and measured in one trial. Ends with a newline.
pub fn trial(view: &TrialView) -> String {
    print(&document(view))
}

/// Prints a document whose keys are all strings; what is no number becomes null.
pub(crate) fn print(document: &impl Serialize) -> String {
    // Only a key that is no string can fail, and there is none.
    let text = serde_json::to_string_pretty(document);
    debug_assert!(text.is_ok());
    text.unwrap_or_default() + "\n"
}

#[derive(Serialize)]
struct RunDocument<'a> {
    schema: &'static str,
    run: RunHead<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    comparison: Option<compare::Document<'a>>,
    trials: Vec<TrialDocument<'a>>,
}

#[derive(Serialize)]
struct RunHead<'a> {
    id: &'a str,
    alias: &'a str,
    name: &'a str,
    command: &'a [String],
    state: &'a str,
}

#[derive(Serialize)]
struct TrialDocument<'a> {
    schema: &'static str,
    run: String,
    round: u32,
    cell: u32,
    attempt: u32,
    configuration: &'a str,
    workload: &'a str,
    started_unix_ms: u64,
    outcome: &'a Outcome,
    /// A job, or the jobs reported together.
    groups: Vec<GroupObject<'a>>,
    /// All groups together, where they ran at the same time.
    totals: Vec<RowObject>,
    cpu: CpuObject,
    /// Processes under test.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    servers: Vec<ServerObject<'a>>,
    devices: Vec<DeviceObject<'a>>,
    /// Bytes of the lowest devices against those of the jobs.
    device_shares: Vec<ShareObject>,
    /// What the series is.
    behaviour: &'a Behaviour,
    series: Vec<FrameObject>,
    steps: Vec<StepObject>,
    findings: &'a [Finding],
    nodes: Vec<node::NodeObject<'a>>,
}

#[derive(Serialize)]
struct GroupObject<'a> {
    /// Names of its jobs.
    jobs: Vec<&'a str>,
    clones: u32,
    region_bytes: u64,
    ended_by: Vec<EndedObject>,
    /// Percentiles below this are upper limits.
    resolution_ns: u64,
    engines: &'a [EngineUsed],
    rows: Vec<RowObject>,
    errors: Vec<ErrorObject<'a>>,
    verify: &'a Option<VerifyResult>,
    /// The cycle of file operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    operations: Option<work::OperationsObject<'a>>,
    /// The files that all clones walk by one law.
    #[serde(skip_serializing_if = "Option::is_none")]
    shared_files: Option<work::SharedObject>,
}

#[derive(Serialize)]
struct EndedObject {
    by: EndedBy,
    clones: u32,
}

#[derive(Serialize)]
struct ErrorObject<'a> {
    direction: Direction,
    errno: i32,
    name: String,
    count: u64,
    first_file: &'a str,
    first_offset_bytes: u64,
}

#[derive(Serialize)]
struct RowObject {
    direction: Direction,
    /// Of file operations: it counts towards the op's time.
    #[serde(skip_serializing_if = "Option::is_none")]
    timed: Option<bool>,
    ops: u64,
    bytes: u64,
    short_ops: u64,
    failed_ops: u64,
    runtime_ns: u64,
    iops: f64,
    bytes_per_s: f64,
    /// Submission calls, where they are calls of their own.
    submission: Option<LatencyObject>,
    /// Submitted → completed.
    service: LatencyObject,
    /// Intended → completed, where a rate was asked for.
    response: Option<LatencyObject>,
}

#[derive(Serialize)]
struct LatencyObject {
    count: u64,
    min_ns: Option<u64>,
    max_ns: Option<u64>,
    mean_ns: Option<f64>,
    stddev_ns: Option<f64>,
    percentiles: Vec<PercentileObject>,
}

#[derive(Serialize)]
struct PercentileObject {
    percent: f64,
    ns: u64,
    /// An upper limit only.
    resolution_limited: bool,
    /// Fewer than ten values lie beyond.
    few_values: bool,
}

#[derive(Serialize)]
struct CpuObject {
    span_ns: u64,
    cores: f64,
    worker_user_ns: u64,
    worker_system_ns: u64,
    other_threads_ns: u64,
    worker_ns_per_op: Option<f64>,
    other_threads_ns_per_op: Option<f64>,
    iops_per_core: Option<f64>,
    /// Of all processes under test.
    #[serde(skip_serializing_if = "Option::is_none")]
    server_cores: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_ns_per_op: Option<f64>,
}

#[derive(Serialize)]
struct DeviceObject<'a> {
    node: &'a str,
    name: &'a str,
    /// No further device is known below it.
    lowest: bool,
    busy_percent: f64,
    read_bytes: u64,
    written_bytes: u64,
    discarded_bytes: u64,
    /// From a read's insertion into the queue to its end, mean.
    read_await_ns: Option<f64>,
    write_await_ns: Option<f64>,
    /// Requests queued or in flight, mean.
    queue_mean: f64,
}

#[derive(Serialize)]
struct ServerObject<'a> {
    name: &'a str,
    processes: u32,
    span_ns: u64,
    cores: f64,
    user_ns: u64,
    system_ns: u64,
    threads: u64,
    memory_bytes: u64,
    read_bytes: Option<u64>,
    written_bytes: Option<u64>,
}

#[derive(Serialize)]
struct ShareObject {
    direction: Direction,
    device_bytes: u64,
    job_bytes: u64,
    ratio: f64,
}

#[derive(Serialize)]
struct FrameObject {
    number: u32,
    start_ns: u64,
    end_ns: u64,
    step: Step,
    harness_cpu_ns: u64,
    rows: Vec<FrameRow>,
}

#[derive(Serialize)]
struct FrameRow {
    /// Index of the job in the workload.
    job: u32,
    direction: Direction,
    ops: u64,
    bytes: u64,
    failed_ops: u64,
    service_mean_ns: Option<f64>,
    service_p50_ns: Option<u64>,
    service_p99_ns: Option<u64>,
    service_max_ns: Option<u64>,
    response_mean_ns: Option<f64>,
    response_p99_ns: Option<u64>,
    response_max_ns: Option<u64>,
}

#[derive(Serialize)]
struct StepObject {
    node: String,
    step: Step,
    /// Index of the job in the workload; null: the whole trial.
    job: Option<u32>,
    start_ns: i64,
    span_ns: u64,
}

fn document<'a>(view: &TrialView<'a>) -> TrialDocument<'a> {
    let TrialView {
        workload,
        trial,
        summary,
        findings,
    } = *view;
    TrialDocument {
        schema: "iodyno.trial/1",
        run: trial.key.run.to_string(),
        round: trial.key.round,
        cell: trial.key.cell,
        attempt: trial.key.attempt,
        configuration: &trial.configuration,
        workload: &trial.workload,
        started_unix_ms: trial.started_unix_ms,
        outcome: &trial.outcome,
        groups: groups(workload, trial, summary),
        totals: summary.total.iter().map(row).collect(),
        cpu: cpu(summary),
        servers: servers(summary),
        devices: devices(summary),
        device_shares: shares(summary),
        behaviour: &summary.behaviour,
        series: trial.frames.iter().map(frame).collect(),
        steps: steps(trial),
        findings,
        nodes: trial.parts.iter().map(node::node).collect(),
    }
}

fn groups<'a>(workload: &'a Workload, trial: &Trial, summary: &'a Summary) -> Vec<GroupObject<'a>> {
    let groups = summary.groups.iter();
    groups
        .map(|group| GroupObject {
            jobs: group
                .jobs
                .iter()
                .filter_map(|job| workload.jobs.get(*job as usize))
                .map(|job| job.name.as_str())
                .collect(),
            clones: group.clones,
            region_bytes: group.region_bytes,
            ended_by: group
                .ended
                .iter()
                .map(|(by, clones)| EndedObject {
                    by: *by,
                    clones: *clones,
                })
                .collect(),
            resolution_ns: group.resolution_ns,
            engines: &group.engines,
            rows: group
                .rows
                .iter()
                .map(|found| RowObject {
                    timed: of_group(workload, group)
                        .map(|operations| operations.times(found.result.direction)),
                    ..row(found)
                })
                .collect(),
            errors: group.errors.iter().map(error).collect(),
            verify: &group.verify,
            operations: work::operations(workload, group, trial),
            shared_files: work::shared(workload, group),
        })
        .collect()
}

fn error(error: &ErrorCount) -> ErrorObject<'_> {
    ErrorObject {
        direction: error.direction,
        errno: error.errno,
        name: errno_name(error.errno),
        count: error.count,
        first_file: &error.first_file,
        first_offset_bytes: error.first_offset,
    }
}

fn row(row: &Row) -> RowObject {
    let result: &DirectionResult = &row.result;
    let response = result.response.as_ref();
    let submission = result.submission.as_ref();
    RowObject {
        direction: result.direction,
        timed: None,
        ops: result.ops,
        bytes: result.bytes,
        short_ops: result.short,
        failed_ops: row.errors,
        runtime_ns: result.runtime_ns,
        iops: row.iops(),
        bytes_per_s: row.bytes_per_s(),
        submission: submission.map(|histogram| latency(histogram, &[])),
        service: latency(&result.service, &row.service),
        response: response.map(|histogram| latency(histogram, &row.response)),
    }
}

fn latency(histogram: &Histogram, quantiles: &[Quantile]) -> LatencyObject {
    LatencyObject {
        count: histogram.count(),
        min_ns: known(histogram, histogram.min_ns()),
        max_ns: known(histogram, histogram.max_ns()),
        mean_ns: known(histogram, histogram.mean_ns()),
        stddev_ns: known(histogram, histogram.stddev_ns()),
        percentiles: quantiles
            .iter()
            .map(|quantile| PercentileObject {
                percent: quantile.percent,
                ns: quantile.ns,
                resolution_limited: quantile.resolution_limited,
                few_values: quantile.few,
            })
            .collect(),
    }
}

fn known<T>(histogram: &Histogram, value: T) -> Option<T> {
    (!histogram.is_empty()).then_some(value)
}

fn cpu(summary: &Summary) -> CpuObject {
    let cpu = &summary.cpu;
    CpuObject {
        span_ns: cpu.span_ns,
        cores: cpu.cores(),
        worker_user_ns: cpu.worker_user_ns,
        worker_system_ns: cpu.worker_system_ns,
        other_threads_ns: cpu.other_ns,
        worker_ns_per_op: cpu.worker_ns_per_op(),
        other_threads_ns_per_op: cpu.other_ns_per_op(),
        iops_per_core: cpu.iops_per_core(),
        server_cores: summary.server_cores(),
        server_ns_per_op: summary.server_ns_per_op(),
    }
}

fn devices(summary: &Summary) -> Vec<DeviceObject<'_>> {
    let devices = summary.devices.iter();
    devices
        .map(|device| DeviceObject {
            node: &device.node,
            name: &device.name,
            lowest: device.lowest,
            busy_percent: device.busy_percent,
            read_bytes: device.bytes[0],
            written_bytes: device.bytes[1],
            discarded_bytes: device.bytes[2],
            read_await_ns: device.read_await_ns,
            write_await_ns: device.write_await_ns,
            queue_mean: device.queue_mean,
        })
        .collect()
}

fn servers(summary: &Summary) -> Vec<ServerObject<'_>> {
    let servers = summary.servers.iter();
    servers
        .map(|server| ServerObject {
            name: &server.name,
            processes: server.processes,
            span_ns: server.span_ns,
            cores: server.cores(),
            user_ns: server.user_ns,
            system_ns: server.system_ns,
            threads: server.threads,
            memory_bytes: server.memory,
            read_bytes: server.read_bytes,
            written_bytes: server.written_bytes,
        })
        .collect()
}

fn shares(summary: &Summary) -> Vec<ShareObject> {
    let shares = summary.shares.iter();
    shares
        .map(|share| ShareObject {
            direction: share.direction,
            device_bytes: share.device_bytes,
            job_bytes: share.job_bytes,
            ratio: share.ratio(),
        })
        .collect()
}

fn frame(frame: &Frame) -> FrameObject {
    let mut rows = Vec::new();
    for job in &frame.jobs {
        for share in &job.directions {
            let service = &share.service;
            let response = share.response.as_ref().filter(|r| !r.is_empty());
            rows.push(FrameRow {
                job: job.job,
                direction: share.direction,
                ops: share.ops,
                bytes: share.bytes,
                failed_ops: share.errors,
                service_mean_ns: known(service, service.mean_ns()),
                service_p50_ns: known(service, service.percentile_ns(50.0)),
                service_p99_ns: known(service, service.percentile_ns(99.0)),
                service_max_ns: known(service, service.max_ns()),
                response_mean_ns: response.map(Histogram::mean_ns),
                response_p99_ns: response.map(|response| response.percentile_ns(99.0)),
                response_max_ns: response.map(Histogram::max_ns),
            });
        }
    }
    FrameObject {
        number: frame.number,
        start_ns: frame.start_ns,
        end_ns: frame.end_ns,
        step: frame.step,
        harness_cpu_ns: frame.cpu_ns,
        rows,
    }
}

fn steps(trial: &Trial) -> Vec<StepObject> {
    let step = |node: &str, step: &StepTime| StepObject {
        node: node.to_owned(),
        step: step.step,
        job: step.job,
        start_ns: step.start_ns,
        span_ns: step.span_ns,
    };
    trial
        .parts
        .iter()
        .flat_map(|part| part.steps.iter().map(|time| step(&part.node, time)))
        .collect()
}
