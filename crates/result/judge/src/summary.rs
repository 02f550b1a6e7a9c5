//! Summary of a trial: its figures by job or group.

pub(crate) mod stalls;

use std::collections::HashMap;

use iodyno_model::{
    Behaviour, CloneResult, CpuSummary, DeviceShare, DeviceSummary, DeviceUse, Direction,
    DirectionResult, EndedBy, EngineKind, ErrorCount, Frame, GroupSummary, Histogram, Job,
    NodeSummary, Part, Point, Quantile, Row, SampledNode, ServerUse, Step, Summary, Trial,
    VerifyResult, Workload,
};

use crate::devices;
use crate::kind::{in_stages, kind};
use crate::work::{self, covered, measured_ns};
use iodyno_model::ordered::{distinct, entry};
use stalls::Standstill;

/// A percentile is limited by the harness's resolution if it is below this many times the delay with which completions
/// were detected.
pub(crate) const WINDOWS_PER_RESOLVED_PERCENTILE: u64 = 10;

/// With fewer values than this above it, a percentile is too uncertain.
pub(crate) const VALUES_BEYOND_PERCENTILE: f64 = iodyno_model::Search::OPS_BEYOND as f64;

/// Below this measured time, start and end use more CPU than the ops; no CPU figure is given.
const MIN_CPU_SPAN_NS: u64 = 10_000_000;

/// The percentiles of every table.
const PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];

/// An additional percentile for tables of file operations and of sysbench.
const TABLE_PERCENTILE: f64 = 95.0;

/// Groups that overlap for less than this fraction of their time are not added up.
const COMMON_TIME: f64 = 0.9;

/// Summarises a trial. Accepts incomplete trials: one that was interrupted in its first second has rows of zero
/// length.
pub fn summary(workload: &Workload, trial: &Trial) -> Summary {
    let clones: Vec<&CloneResult> = trial.parts.iter().flat_map(|part| &part.clones).collect();
    let groups: Vec<GroupSummary> = grouped(workload)
        .into_iter()
        .map(|jobs| group(workload, jobs, &clones))
        .filter(|group| group.clones > 0)
        .collect();
    let total = match groups.len() > 1 && at_the_same_time(&groups, &clones) {
        true => rows(&clones, &[])
            .into_iter()
            .filter(|row| is_shared(&groups, row.result.direction))
            .collect(),
        false => Vec::new(),
    };
    // A command that takes seconds counts in the second in which it ends.
    let series = match work::runs_commands(trial) {
        true => Vec::new(),
        false => series(workload, trial),
    };
    let common = common(workload, trial);
    let by_frames = stalls::by_frames(workload, trial);
    // Several levels that the plan asks for are not a property of the storage, and neither are the seconds without a
    // completion that it was stuck for.
    let stuck = clones.iter().any(|clone| !clone.in_flight.is_empty())
        || Standstill::of(trial).is_some_and(|found| found.dominates());
    let behaviour = match stuck || in_stages(trial) {
        true => Behaviour::default(),
        false => crate::behaviour(&series, kind(workload, trial)),
    };
    Summary {
        total,
        cpu: cpu(workload, trial, &clones),
        servers: server_uses(trial),
        devices: device_summaries(workload, trial),
        device_times: (trial.parts.iter())
            .flat_map(|part| {
                let times = part.host.device_times.iter().flatten();
                times.map(|times| (part.node.clone(), times.clone()))
            })
            .collect(),
        shares: shares(workload, trial),
        behaviour,
        series,
        groups,
        nodes: match trial.parts.as_slice() {
            [] | [_] => Vec::new(),
            parts => parts
                .iter()
                .filter(|part| !part.only_sampled())
                .map(|part| node(workload, part, &by_frames))
                .collect(),
        },
        sampled: trial
            .parts
            .iter()
            .filter(|part| part.only_sampled() && trial.parts.len() > 1)
            .map(|part| SampledNode {
                name: part.node.clone(),
                cpus: part.environment.cpu.logical,
                host: part.host.clone(),
            })
            .collect(),
        common,
        stalls: stalls::of_all(&trial.parts),
    }
}

/// The rates in the time in which all of several parts measured. The ops of a frame are spread evenly over it, and
/// those of a part without frames over its measured time.
fn common(workload: &Workload, trial: &Trial) -> Option<Point> {
    let parts = trial.parts.iter().filter(|part| !part.only_sampled());
    let spans: Option<Vec<(&Part, u64, u64)>> = parts
        .map(|part| Some((part, part.measured_from_ns()?, part.measured_until_ns()?)))
        .collect();
    let spans = spans.filter(|spans| spans.len() > 1)?;
    let from_ns = spans.iter().map(|span| span.1).max()?;
    let until_ns = spans.iter().map(|span| span.2).min()?;
    let span_ns = until_ns.checked_sub(from_ns).filter(|span| *span > 0)?;
    let (mut ops, mut bytes) = (0.0, 0.0);
    for (part, part_from_ns, part_until_ns) in &spans {
        let frames = trial.frames.iter();
        let frames = frames.filter(|frame| frame.step == Step::Measure && frame.node == part.node);
        let mut done: Vec<(u64, u64, u64, u64)> = frames
            .map(|frame| {
                let moved = work::MOVING.iter();
                let bytes = moved.map(|direction| frame.bytes(*direction)).sum();
                let at = |ns: u64| ns.saturating_add(part.start_late_ns);
                let ops = work::frame_ops(workload, frame);
                (at(frame.start_ns), at(frame.end_ns), ops, bytes)
            })
            .collect();
        if done.is_empty() {
            let clones = part.clones.iter();
            let ops = clones.clone().map(|clone| work::ops(workload, clone)).sum();
            let moved = clones.flat_map(|clone| &clone.directions);
            let moved = moved.filter(|result| work::MOVING.contains(&result.direction));
            let bytes = moved.map(|result| result.bytes).sum();
            done.push((*part_from_ns, *part_until_ns, ops, bytes));
        }
        for (start_ns, end_ns, own_ops, own_bytes) in done {
            // The first frame begins with the trial, somewhat before the first op.
            let (start_ns, end_ns) = (start_ns.max(*part_from_ns), end_ns.min(*part_until_ns));
            let inside_ns = end_ns.min(until_ns).saturating_sub(start_ns.max(from_ns));
            let all_ns = end_ns.saturating_sub(start_ns);
            if all_ns > 0 {
                let share = inside_ns as f64 / all_ns as f64;
                ops += own_ops as f64 * share;
                bytes += own_bytes as f64 * share;
            }
        }
    }
    let seconds = span_ns as f64 / 1e9;
    Some(Point {
        start_ns: from_ns,
        span_ns,
        iops: ops / seconds,
        bytes_per_s: bytes / seconds,
    })
}

/// What one of several nodes did.
fn node(workload: &Workload, part: &Part, by_frames: &HashMap<&str, u64>) -> NodeSummary {
    NodeSummary {
        name: part.node.clone(),
        rows: node_rows(workload, part),
        measured_ns: part.measured_from_ns().zip(part.measured_until_ns()),
        longest_stall_ns: match &part.stalls {
            Some(stalls) => stalls.longest_ns(),
            None => by_frames.get(part.node.as_str()).copied().unwrap_or(0),
        },
    }
}

/// The rows of one node.
pub(crate) fn node_rows(workload: &Workload, part: &Part) -> Vec<Row> {
    let clones: Vec<&CloneResult> = part.clones.iter().collect();
    let asked: Vec<f64> = workload.jobs.iter().flat_map(asked).collect();
    rows(&clones, &asked)
}

/// Summary of all clones together, with every percentile that any job requests.
pub(crate) fn all_rows(workload: &Workload, trial: &Trial) -> Vec<Row> {
    let clones: Vec<&CloneResult> = trial.parts.iter().flat_map(|part| &part.clones).collect();
    let asked: Vec<f64> = workload.jobs.iter().flat_map(asked).collect();
    rows(&clones, &asked)
}

/// Service latencies of all ops of all clones in one histogram (reads, writes and syncs), as sysbench reports
/// them. `None` if there are none.
pub(crate) fn together(workload: &Workload, trial: &Trial) -> Option<Row> {
    let mut all = DirectionResult::empty(Direction::Op);
    for row in all_rows(workload, trial) {
        all.ops += row.result.ops;
        all.service.merge(row.latency().0);
    }
    let clones: Vec<&CloneResult> = work::clones(trial).collect();
    let asked: Vec<f64> = workload.jobs.iter().flat_map(asked).collect();
    all.runtime_ns = measured_ns(trial);
    (all.ops > 0).then(|| Row {
        errors: 0,
        service: quantiles(&all.service, &asked, resolution(clones.iter())),
        response: Vec::new(),
        result: all,
    })
}

/// Job indices for each line of the result; jobs that are reported together share a line.
fn grouped(workload: &Workload) -> Vec<Vec<u32>> {
    let mut groups: Vec<(Option<u32>, Vec<u32>)> = Vec::new();
    for (index, job) in workload.jobs.iter().enumerate() {
        let number = job.reporting.together.then_some(job.reporting.group);
        match groups
            .iter_mut()
            .find(|(group, _)| number.is_some() && *group == number)
        {
            Some((_, jobs)) => jobs.push(index as u32),
            None => groups.push((number, vec![index as u32])),
        }
    }
    groups.into_iter().map(|(_, jobs)| jobs).collect()
}

fn group(workload: &Workload, jobs: Vec<u32>, clones: &[&CloneResult]) -> GroupSummary {
    let clones: Vec<&CloneResult> = clones
        .iter()
        .copied()
        .filter(|clone| jobs.contains(&clone.job))
        .collect();
    let asked: Vec<f64> = jobs
        .iter()
        .filter_map(|job| workload.jobs.get(*job as usize))
        .flat_map(asked)
        .collect();
    GroupSummary {
        rows: rows(&clones, &asked),
        clones: clones.len() as u32,
        ended: ended(&clones),
        region_bytes: clones.iter().map(|clone| clone.region_bytes).sum(),
        resolution_ns: resolution(clones.iter()),
        errors: errors(&clones),
        verify: verify(&clones),
        steady: (clones.iter().filter_map(|clone| clone.steady.clone())).collect(),
        engines: distinct(clones.iter().map(|clone| clone.engine.clone())),
        jobs,
    }
}

/// The percentiles that a job requests. Tables of file operations and of sysbench have one more than fio's.
fn asked(job: &Job) -> impl Iterator<Item = f64> {
    let usual = job.work.blocks().is_none();
    let asked = job.reporting.percentiles.iter().copied();
    asked.chain(usual.then_some(TABLE_PERCENTILE))
}

fn resolution<'a>(clones: impl Iterator<Item = &'a &'a CloneResult>) -> u64 {
    clones
        .map(|clone| clone.stamp_window_ns.1)
        .max()
        .unwrap_or(0)
        .saturating_mul(WINDOWS_PER_RESOLVED_PERCENTILE)
}

/// One row per direction, in table order; the row of cycles comes before those of their steps.
fn rows(clones: &[&CloneResult], asked: &[f64]) -> Vec<Row> {
    let others = Direction::EVERY.into_iter();
    let others = others.filter(|direction| *direction != Direction::Op);
    std::iter::once(Direction::Op)
        .chain(others)
        .filter_map(|direction| row(clones, direction, asked))
        .collect()
}

fn row(clones: &[&CloneResult], direction: Direction, asked: &[f64]) -> Option<Row> {
    let mut result = DirectionResult::empty(direction);
    let mut spans = Vec::new();
    let mut errors = 0;
    for clone in clones {
        errors += clone
            .errors
            .iter()
            .filter(|error| error.direction == direction)
            .map(|error| error.count)
            .sum::<u64>();
        if let Some(part) = clone.direction(direction) {
            result.add(part);
            spans.push((
                clone.start_ns,
                clone.start_ns.saturating_add(part.runtime_ns),
            ));
        }
    }
    if spans.is_empty() && errors == 0 {
        return None;
    }
    result.runtime_ns = covered(&mut spans);
    // Clones that did not record the delay of each op; that of synchronous engines is 0.
    let without = |clone: &&&CloneResult| {
        let result = clone.direction(direction);
        result.is_some_and(|result| result.service.least_percentile_ns(50.0).is_none())
    };
    let resolution_ns = resolution(clones.iter().filter(without));
    let service = quantiles(&result.service, asked, resolution_ns);
    let response = result
        .response
        .as_ref()
        .map(|response| quantiles(response, asked, resolution_ns))
        .unwrap_or_default();
    Some(Row {
        result,
        errors,
        service,
        response,
    })
}

/// The percentiles of every table and those that are asked for, with their limitations. `resolution_ns`: for latencies
/// without the delay of each op, the value below which they are limited.
fn quantiles(histogram: &Histogram, asked: &[f64], resolution_ns: u64) -> Vec<Quantile> {
    if histogram.is_empty() {
        return Vec::new();
    }
    let mut percents: Vec<f64> = PERCENTILES
        .iter()
        .chain(asked)
        .copied()
        .filter(|percent| (0.0..=100.0).contains(percent))
        .collect();
    percents.sort_by(f64::total_cmp);
    percents.dedup();
    percents
        .into_iter()
        .map(|percent| {
            let ns = histogram.percentile_ns(percent);
            let beyond = (100.0 - percent) / 100.0 * histogram.count() as f64;
            let least_ns = histogram.least_percentile_ns(percent);
            let limited = match least_ns {
                Some(least) => ns < (ns - least).saturating_mul(WINDOWS_PER_RESOLVED_PERCENTILE),
                None => ns < resolution_ns,
            };
            Quantile {
                percent,
                ns,
                resolution_limited: limited,
                least_ns: least_ns.filter(|_| limited),
                // 99.9 % of 10 000 leaves 10, up to the rounding error.
                few: beyond < VALUES_BEYOND_PERCENTILE - 1e-6,
            }
        })
        .collect()
}

/// Whether every group ran for (nearly) all of the time in which any group ran.
fn at_the_same_time(groups: &[GroupSummary], clones: &[&CloneResult]) -> bool {
    let span = |clone: &&CloneResult| {
        (
            clone.start_ns,
            clone.start_ns.saturating_add(clone.runtime_ns),
        )
    };
    let mut all: Vec<(u64, u64)> = clones.iter().map(span).collect();
    let whole = covered(&mut all) as f64;
    groups.iter().all(|group| {
        let mut own: Vec<(u64, u64)> = clones
            .iter()
            .filter(|clone| group.jobs.contains(&clone.job))
            .map(span)
            .collect();
        covered(&mut own) as f64 >= COMMON_TIME * whole
    })
}

/// Whether several groups have ops of this direction, so that their sum adds information.
fn is_shared(groups: &[GroupSummary], direction: Direction) -> bool {
    let rows = groups.iter().flat_map(|group| &group.rows);
    rows.filter(|row| row.result.direction == direction).count() > 1
}

fn ended(clones: &[&CloneResult]) -> Vec<(EndedBy, u32)> {
    let mut counts: Vec<(EndedBy, u32)> = Vec::new();
    for clone in clones {
        *entry(&mut counts, clone.ended) += 1;
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

/// Adds up errors of the same direction and errno; keeps the first location of each.
pub(crate) fn errors(clones: &[&CloneResult]) -> Vec<ErrorCount> {
    let mut sums: Vec<ErrorCount> = Vec::new();
    for error in clones.iter().flat_map(|clone| &clone.errors) {
        match sums
            .iter_mut()
            .find(|sum| (sum.direction, sum.errno) == (error.direction, error.errno))
        {
            Some(sum) => sum.count += error.count,
            None => sums.push(error.clone()),
        }
    }
    sums
}

fn verify(clones: &[&CloneResult]) -> Option<VerifyResult> {
    let mut sum: Option<VerifyResult> = None;
    for result in clones.iter().filter_map(|clone| clone.verify.as_ref()) {
        sum.get_or_insert_default().add(result);
    }
    sum
}

fn cpu(workload: &Workload, trial: &Trial, clones: &[&CloneResult]) -> CpuSummary {
    let worker_user_ns: u64 = clones.iter().map(|clone| clone.cpu.user_ns).sum();
    let worker_system_ns: u64 = clones.iter().map(|clone| clone.cpu.system_ns).sum();
    let working = trial.parts.iter().filter(|part| !part.only_sampled());
    let host = working.map(|part| &part.host);
    let process: u64 = host
        .map(|host| host.harness_user_ns + host.harness_system_ns)
        .sum();
    let measured = trial.frames.iter().filter(|f| f.step == Step::Measure);
    // A trial rebuilt from frames has only the CPU figures of its frames.
    let all = match process {
        0 => measured.map(|frame| frame.cpu_ns).sum(),
        process => process,
    };
    let span_ns = measured_ns(trial);
    if span_ns < MIN_CPU_SPAN_NS {
        return CpuSummary::default();
    }
    CpuSummary {
        worker_user_ns,
        worker_system_ns,
        other_ns: all.saturating_sub(worker_user_ns + worker_system_ns),
        span_ns,
        ops: clones.iter().map(|clone| work::ops(workload, clone)).sum(),
        run_delay: run_delay(clones),
    }
}

fn run_delay(clones: &[&CloneResult]) -> Option<f64> {
    let known = clones
        .iter()
        .filter_map(|clone| Some((clone.cpu.run_delay_ns?, clone.runtime_ns)));
    let (waited, time) = known.fold((0.0, 0.0), |(waited, time), clone| {
        (waited + clone.0 as f64, time + clone.1 as f64)
    });
    (time > 0.0).then(|| waited / time)
}

/// Uses the trial's record or, if telemetry is not yet in the record, the samples.
fn server_uses(trial: &Trial) -> Vec<ServerUse> {
    let parts = trial.parts.iter();
    let recorded: Vec<ServerUse> = parts.flat_map(|part| part.host.servers.clone()).collect();
    match recorded.is_empty() {
        true => crate::servers(trial),
        false => recorded,
    }
}

/// Mean time of a request, including queueing, ns.
pub(crate) fn await_ns(device: &DeviceUse, direction: Direction) -> Option<f64> {
    let index = match direction {
        Direction::Read => 0,
        Direction::Write => 1,
        _ => return None,
    };
    let ios = device.ios[index];
    (ios > 0).then(|| device.ticks_ms[index] as f64 * 1e6 / ios as f64)
}

fn device_summaries(workload: &Workload, trial: &Trial) -> Vec<DeviceSummary> {
    let mut summaries = Vec::new();
    let passes = passes_block_layer(workload);
    for part in &trial.parts {
        let lowest = devices::lowest(part);
        summaries.extend(part.host.devices.iter().map(|device| {
            let busy = match part.host.span_ns {
                0 => 0.0,
                span => device.busy_ms as f64 * 1e8 / span as f64,
            };
            DeviceSummary {
                node: part.node.clone(),
                name: device.name.clone(),
                lowest: lowest.contains(&device.name.as_str()),
                busy_percent: (!passes || !device.name.starts_with("nvme"))
                    .then(|| busy.min(100.0)),
                bytes: device.bytes,
                read_await_ns: await_ns(device, Direction::Read),
                write_await_ns: await_ns(device, Direction::Write),
                queue_mean: match part.host.span_ns {
                    0 => 0.0,
                    span => device.queue_ms as f64 * 1e6 / span as f64,
                },
            }
        }));
    }
    summaries
}

/// Whether it issues NVMe commands, which the counters of block devices do not contain.
fn passes_block_layer(workload: &Workload) -> bool {
    let mut engines = workload.jobs.iter().filter_map(|job| job.work.engine());
    engines.any(|engine| engine.kind == EngineKind::IoUringCmd)
}

fn shares(workload: &Workload, trial: &Trial) -> Vec<DeviceShare> {
    if passes_block_layer(workload) {
        return Vec::new();
    }
    [Direction::Read, Direction::Write]
        .into_iter()
        .filter_map(|direction| {
            let job_bytes = devices::job_bytes(workload, &trial.parts, direction);
            let device_bytes = devices::device_bytes(&trial.parts, direction)?;
            (job_bytes > 0).then_some(DeviceShare {
                direction,
                device_bytes,
                own_bytes: devices::own_bytes(&trial.parts, direction),
                job_bytes,
            })
        })
        .collect()
}

fn series(workload: &Workload, trial: &Trial) -> Vec<Point> {
    Frame::of_all_nodes(&trial.frames)
        .iter()
        .filter(|frame| frame.step == Step::Measure && frame.end_ns > frame.start_ns)
        .map(|frame| {
            let ops = work::frame_ops(workload, frame);
            let moved = work::MOVING.iter();
            let bytes: u64 = moved.map(|direction| frame.bytes(*direction)).sum();
            let seconds = frame.span_ns() as f64 / 1e9;
            Point {
                start_ns: frame.start_ns,
                span_ns: frame.span_ns(),
                iops: ops as f64 / seconds,
                bytes_per_s: bytes as f64 / seconds,
            }
        })
        .collect()
}

#[cfg(test)]
mod operations_tests;
#[cfg(test)]
mod tests;
