//! iodyno's own JSON: everything in the text output, and more.
//!
//! Units are in the key names. The first key of a document is its `schema`; keys are only added
//! within a schema number. A figure that does not exist is null, never 0 or NaN.

mod node;
mod object;
mod plan;
#[cfg(test)]
mod tests;
mod work;

use iodyno_model::{
    Comparison, DeviceShare, DeviceSummary, DeviceTimes, Direction, DirectionFrame, EndedBy,
    ErrorCount, FilledTable, Finding, Frame, GroupSummary, Histogram, MissedOps, NodeStalls,
    NodeSummary, OpInFlight, Point, Quantile, Row, SampledNode, SearchAnswer, ServerUse,
    StageTimes, SteadyResult, StepTime, Summary, Trial, Workload, errno_name, printable,
};
use serde::Serialize;

pub(crate) use object::{list, object};
pub use plan::{Makes, Schedule, Scheduled, Searching, plan};

use crate::compare;
use crate::operations::of_group;

/// A trial with its summary and findings.
#[derive(Debug, Clone, Copy)]
pub struct TrialView<'a> {
    /// The workload.
    pub workload: &'a Workload,
    /// The results.
    pub trial: &'a Trial,
    /// Its figures.
    pub summary: &'a Summary,
    /// Its findings.
    pub findings: &'a [Finding],
}

/// Facts about a run, for the head of its document.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunView {
    /// Its UUID.
    pub id: String,
    /// Its short name in this store.
    pub alias: String,
    /// Its name.
    pub name: String,
    /// A description in the user's words.
    pub about: Option<String>,
    /// The command as given.
    pub command: Vec<String>,
    /// `completed`, `interrupted`, `failed`, `running`.
    pub state: String,
    /// The number of complete rounds at each extension of the run.
    pub extended_after_rounds: Vec<u32>,
    /// The answers of its searches, unless the comparison has them.
    pub searches: Vec<SearchAnswer>,
    /// Its closing table.
    pub table: Option<FilledTable>,
}

/// `schema` = `iodyno.run/1`: `run` (`id`, `alias`, `name`, `command`, `state`, and `extended_after_rounds` if it was
/// extended), `comparison` if there is one, as in [`crate::compare::json`], `searches` as in
/// [`crate::compare::searches_json`] if it has no comparison with them, its closing `table`, and `trials`, each as in
/// [`trial`]. Ends with a newline.
pub fn run(run: &RunView, comparison: Option<&Comparison>, trials: &[TrialView]) -> String {
    print(&RunDocument((run, comparison, trials)))
}

/// `schema` = `iodyno.trial/1`: the workload and the results of one trial. Ends with a newline.
pub fn trial(view: &TrialView) -> String {
    print(&TrialDocument(view))
}

/// Prints a document whose keys are all strings; a number that is not finite becomes null. Ends with a newline.
pub fn print(document: &impl Serialize) -> String {
    // Only a non-string key could fail, and all keys are strings.
    let text = serde_json::to_string_pretty(document);
    debug_assert!(text.is_ok());
    printable::json(&text.unwrap_or_default()).into_owned() + "\n"
}

type RunParts<'a> = (&'a RunView, Option<&'a Comparison>, &'a [TrialView<'a>]);

object!(RunDocument<'a>((run, comparison, trials) in RunParts<'a>) {
    schema: "iodyno.run/1",
    run: RunHead(run),
    comparison [opt]: comparison.map(|comparison| compare::Document((comparison, None))),
    // The closing table of the experiment.
    table [opt]: run.table.as_ref().map(compare::ClosingView),
    searches [filled]: list(&run.searches, compare::AnswerView),
    trials: list(trials, TrialDocument),
});

object!(RunHead<'a>(run in &'a RunView) {
    id: run.id,
    alias: run.alias,
    name: run.name,
    about [opt]: &run.about,
    command: run.command,
    state: run.state,
    extended_after_rounds [filled]: run.extended_after_rounds,
});

object!(TrialDocument<'a>(view in &'a TrialView<'a>) {
    schema: "iodyno.trial/1",
    run: view.trial.key.run.to_string(),
    round: view.trial.key.round,
    cell: view.trial.key.cell,
    attempt: view.trial.key.attempt,
    configuration: view.trial.configuration,
    workload: view.trial.workload,
    started_unix_ms: view.trial.started_unix_ms,
    outcome: view.trial.outcome,
    // A job, or the jobs reported together.
    groups: (view.summary.groups.iter())
        .map(|group| GroupView((view, group)))
        .collect::<Vec<_>>(),
    // All groups together, if they ran at the same time.
    totals: (view.summary.total.iter())
        .map(|row| RowObject((row, None)))
        .collect::<Vec<_>>(),
    cpu: CpuView(view.summary),
    // Processes under test.
    servers [filled]: list(&view.summary.servers, ServerView),
    devices: list(&view.summary.devices, DeviceView),
    // Times of requests at the devices, if they were traced.
    device_times [filled]: list(&view.summary.device_times, TimesView),
    // Bytes of the lowest devices ÷ bytes of the jobs.
    device_shares: list(&view.summary.shares, ShareView),
    behaviour: view.summary.behaviour,
    // The results of each node, with several; `nodes` has their environments.
    by_node [filled]: list(&view.summary.nodes, NodeResult),
    // The times in which no op of a node completed, if known for every node.
    node_stalls [opt]: view.summary.stalls.as_ref().map(StallsView),
    // The load of the nodes that had no jobs.
    sampled_nodes [filled]: list(&view.summary.sampled, SampledView),
    // The time in which all of several nodes measured.
    common_window [opt]: view.summary.common.as_ref().map(CommonWindow),
    series: list(&view.trial.frames, FrameView),
    steps: (view.trial.parts.iter())
        .flat_map(|part| part.steps.iter().map(|step| StepView((&part.node, step))))
        .collect::<Vec<_>>(),
    findings: view.findings,
    // Ops that did not complete, if the storage was stuck.
    in_flight [filled]: in_flight(view),
    nodes: list(&view.trial.parts, node::NodeView),
});

object!(StallsView<'a>(stalls in &'a NodeStalls) {
    // Only those of at least this length are counted.
    least_ns: stalls.least_ns,
    // Over all nodes.
    count: stalls.count,
    // How often several nodes had one at the same time.
    at_once: stalls.at_once,
    longest_at_once_ns: stalls.longest_at_once_ns,
});

object!(NodeResult<'a>(node in &'a NodeSummary) {
    name: node.name,
    // After the instant at which all nodes were to start.
    measured_from_ns: node.measured_ns.map(|span| span.0),
    measured_until_ns: node.measured_ns.map(|span| span.1),
    // Without a completion. Of a node that was lost: in whole frames.
    longest_stall_ns: node.longest_stall_ns,
    rows: (node.rows.iter())
        .map(|row| RowObject((row, None)))
        .collect::<Vec<_>>(),
});

object!(SampledView<'a>(node in &'a SampledNode) {
    name: node.name,
    cpus: node.cpus,
    busy_cpus: node.busy_cpus(),
    iowait_percent: node.percent(node.host.iowait_ns),
    steal_percent: node.percent(node.host.steal_ns),
});

object!(CommonWindow<'a>(window in &'a Point) {
    start_ns: window.start_ns,
    // Span of the whole frames in it.
    span_ns: window.span_ns,
    ops_per_s: window.iops,
    bytes_per_s: window.bytes_per_s,
});

object!(GroupView<'a>((view, group) in (&'a TrialView<'a>, &'a GroupSummary)) {
    // Names of its jobs.
    jobs: (group.jobs.iter())
        .filter_map(|job| view.workload.jobs.get(*job as usize))
        .map(|job| &job.name)
        .collect::<Vec<_>>(),
    clones: group.clones,
    region_bytes: group.region_bytes,
    ended_by: list(&group.ended, EndedView),
    // Ten times the p99 of the time for which a completion may be unseen.
    resolution_ns: group.resolution_ns,
    engines: group.engines,
    rows: (group.rows.iter())
        .map(|row| {
            let operations = of_group(view.workload, group);
            let timed = operations.map(|operations| operations.times(row.result.direction));
            RowObject((row, timed))
        })
        .collect::<Vec<_>>(),
    errors: list(&group.errors, ErrorView),
    // Ops that were due by the requested rate and not issued.
    missed_ops [filled]: missed_ops(view, group),
    verify: group.verify,
    // For jobs that end when steady: whether they became steady; for each clone, or for the group.
    steady [filled]: list(&group.steady, SteadyView),
    // The cycle of file operations.
    operations [opt]: work::operations(view.workload, group, view.trial),
    // The files shared by all clones.
    shared_files [opt]: work::shared(view.workload, group),
});

/// The ops that the clones of a group missed, for each kind of rate.
fn missed_ops(view: &TrialView, group: &GroupSummary) -> Vec<MissedOps> {
    let clones = view.trial.parts.iter().flat_map(|part| &part.clones);
    let clones: Vec<_> = clones
        .filter(|clone| group.jobs.contains(&clone.job))
        .collect();
    let rates = Direction::ALL.into_iter().map(Some).chain([None]);
    rates
        .filter_map(|direction| {
            let ops = clones.iter().map(|clone| clone.missed_ops(direction)).sum();
            MissedOps::some(direction, ops)
        })
        .collect()
}

fn in_flight<'a>(view: &TrialView<'a>) -> Vec<OpInFlightView<'a>> {
    let clones = view.trial.parts.iter().flat_map(|part| &part.clones);
    let name = |job: u32| {
        view.workload
            .jobs
            .get(job as usize)
            .map(|job| job.name.as_str())
    };
    let ops = clones.flat_map(|clone| {
        let named = move |op| OpInFlightView((name(clone.job).unwrap_or_default(), op));
        clone.in_flight.iter().map(named)
    });
    ops.collect()
}

object!(OpInFlightView<'a>((job, op) in (&'a str, &'a OpInFlight)) {
    job: job,
    direction: op.direction,
    file: op.file,
    // Absent for syncs and file operations.
    offset_bytes [opt]: op.offset,
    // When it began, from the start of the trial.
    since_ns: op.since_ns,
});

object!(SteadyView<'a>(steady in &'a SteadyResult) {
    // As in a job file: `iops_slope:0.1%`.
    rule: steady.rule.to_string(),
    window_ns: steady.rule.window,
    ramp_ns: steady.rule.ramp,
    interval_ns: steady.rule.interval,
    attained: steady.attained(),
    // ns since the start of the trial.
    attained_ns: steady.attained_ns,
    // In the unit of the limit; `null` if no window was full.
    criterion: steady.criterion,
    // The last window, the oldest value first.
    values: steady.window,
});

object!(EndedView<'a>((by, clones) in &'a (EndedBy, u32)) {
    by: by,
    clones: clones,
});

object!(ErrorView<'a>(error in &'a ErrorCount) {
    direction: error.direction,
    errno: error.errno,
    name: errno_name(error.errno),
    count: error.count,
    first_file: error.first_file,
    first_offset_bytes: error.first_offset,
    // Absent for syncs and file operations.
    first_length_bytes [opt]: (error.first_length > 0).then_some(error.first_length),
});

object!(RowObject<'a>((row, timed) in (&'a Row, Option<bool>)) {
    direction: row.result.direction,
    // For file operations: whether the step is part of the op's time.
    timed [opt]: timed,
    ops: row.result.ops,
    bytes: row.result.bytes,
    short_ops: row.result.short,
    failed_ops: row.errors,
    runtime_ns: row.result.runtime_ns,
    iops: row.iops(),
    bytes_per_s: row.bytes_per_s(),
    // Duration of submission, if it is a separate call.
    submission: row.result.submission.as_ref().map(|it| LatencyView((it, &[]))),
    // Submitted → completed.
    service: LatencyView((&row.result.service, &row.service)),
    // Intended → completed, if a rate was requested.
    response: row.result.response.as_ref().map(|it| LatencyView((it, &row.response))),
});

object!(LatencyView<'a>((histogram, quantiles) in (&'a Histogram, &'a [Quantile])) {
    count: histogram.count(),
    min_ns: known(histogram, histogram.min_ns()),
    max_ns: known(histogram, histogram.max_ns()),
    mean_ns: known(histogram, histogram.mean_ns()),
    stddev_ns: known(histogram, histogram.stddev_ns()),
    percentiles: list(quantiles, PercentileView),
});

object!(PercentileView<'a>(quantile in &'a Quantile) {
    percent: quantile.percent,
    ns: quantile.ns,
    // The value is an upper limit.
    resolution_limited: quantile.resolution_limited,
    // A lower bound, if it is an upper limit and this is known.
    at_least_ns [opt]: quantile.least_ns,
    // Fewer than ten values are above it.
    few_values: quantile.few,
});

fn known<T>(histogram: &Histogram, value: T) -> Option<T> {
    (!histogram.is_empty()).then_some(value)
}

object!(CpuView<'a>(summary in &'a Summary) {
    span_ns: summary.cpu.span_ns,
    cores: summary.cpu.cores(),
    worker_user_ns: summary.cpu.worker_user_ns,
    worker_system_ns: summary.cpu.worker_system_ns,
    other_threads_ns: summary.cpu.other_ns,
    worker_ns_per_op: summary.cpu.worker_ns_per_op(),
    other_threads_ns_per_op: summary.cpu.other_ns_per_op(),
    iops_per_core: summary.cpu.iops_per_core(),
    // Share of the worker threads' time in which they were ready to run and waited for a CPU.
    worker_run_delay_share: summary.cpu.run_delay,
    // Total of all processes under test.
    server_cores [opt]: summary.server_cores(),
    server_ns_per_op [opt]: summary.server_ns_per_op(),
});

object!(DeviceView<'a>(device in &'a DeviceSummary) {
    node: device.node,
    name: device.name,
    // Whether it is the lowest known device.
    lowest: device.lowest,
    // Absent with io_uring_cmd, which bypasses the statistics of block devices.
    busy_percent [opt]: device.busy_percent,
    read_bytes: device.bytes[0],
    written_bytes: device.bytes[1],
    discarded_bytes: device.bytes[2],
    // Mean time from a read's insertion into the queue to its completion.
    read_await_ns: device.read_await_ns,
    write_await_ns: device.write_await_ns,
    // Mean number of requests queued or in flight.
    queue_mean: device.queue_mean,
});

object!(ServerView<'a>(server in &'a ServerUse) {
    name: server.name,
    processes: server.processes,
    span_ns: server.span_ns,
    cores: server.cores(),
    user_ns: server.user_ns,
    system_ns: server.system_ns,
    threads: server.threads,
    memory_bytes: server.memory,
    read_bytes: server.read_bytes,
    written_bytes: server.written_bytes,
});

object!(TimesView<'a>(times in &'a (String, DeviceTimes)) {
    node [filled]: times.0,
    device: times.1.device,
    direction: times.1.direction,
    requests: times.1.requests,
    requests_per_op: times.1.requests_per_op,
    // Mean service latency of the jobs' ops in this direction.
    op_ns: times.1.op_ns,
    // The remaining time, if an op is one request.
    above_ns: times.1.above_ns(),
    // From the creation of a request to its issue.
    queue: StageView(&times.1.queue),
    // From its issue to its completion.
    service: StageView(&times.1.service),
});

object!(StageView<'a>(stage in &'a StageTimes) {
    mean_ns: stage.mean_ns,
    p50_ns: stage.p50_ns,
    p99_ns: stage.p99_ns,
    p999_ns: stage.p999_ns,
});

object!(ShareView<'a>(share in &'a DeviceShare) {
    direction: share.direction,
    device_bytes: share.device_bytes,
    // Reads that the jobs' own processes sent to devices, if known. The others came from other processes.
    own_bytes [opt]: share.own_bytes,
    job_bytes: share.job_bytes,
    ratio: share.ratio(),
});

object!(FrameView<'a>(frame in &'a Frame) {
    number: frame.number,
    // With several nodes: each has its own rows.
    node [filled]: frame.node,
    start_ns: frame.start_ns,
    end_ns: frame.end_ns,
    step: frame.step,
    harness_cpu_ns: frame.cpu_ns,
    rows: (frame.jobs.iter())
        .flat_map(|job| job.directions.iter().map(|share| FrameRow((job.job, share))))
        .collect::<Vec<_>>(),
});

object!(FrameRow<'a>((job, share) in (u32, &'a DirectionFrame)) {
    // Index of the job in the workload.
    job: job,
    direction: share.direction,
    ops: share.ops,
    bytes: share.bytes,
    failed_ops: share.errors,
    service_mean_ns: known(&share.service, share.service.mean_ns()),
    service_p50_ns: known(&share.service, share.service.percentile_ns(50.0)),
    service_p99_ns: known(&share.service, share.service.percentile_ns(99.0)),
    service_max_ns: known(&share.service, share.service.max_ns()),
    response_mean_ns: response(share).map(Histogram::mean_ns),
    response_p99_ns: response(share).map(|response| response.percentile_ns(99.0)),
    response_max_ns: response(share).map(Histogram::max_ns),
});

fn response(share: &DirectionFrame) -> Option<&Histogram> {
    share.response.as_ref().filter(|it| !it.is_empty())
}

object!(StepView<'a>((node, step) in (&'a str, &'a StepTime)) {
    node: node,
    step: step.step,
    // Index of the job in the workload; null: the whole trial.
    job: step.job,
    start_ns: step.start_ns,
    span_ns: step.span_ns,
});
