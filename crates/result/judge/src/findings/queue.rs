//! Detects that requests waited in a queue, so that latencies include queueing and not only service by the device.
//!
//! An await begins when a request enters a queue, so it includes waiting and service. Three observations separate
//! them: a queue that is full while the jobs have more to submit; the await of a layer compared with that of the
//! device below it, if their requests are the same; and two queue lengths within one trial at the same rate. A trial
//! at one depth does not show whether this depth is larger than useful.

use iodyno_model::{
    DeviceLayer, Direction, Finding, FindingKind, SeriesKind, StackLayer, TargetInfo, Weight,
};
use iodyno_units::Nanos;

use super::{Evidence, finding, remedied};
use crate::devices;
use crate::series::{Total, View, totals};
use crate::work;

/// A queue is full at this fraction of its capacity on average over a sample: it empties briefly when the jobs
/// reap a batch.
const FULL_SHARE: f64 = 0.9;

/// … and at most at this fraction. `nr_requests` applies to each hardware queue: if more are in flight, there are
/// several queues, whose number is unknown.
const OVERFULL_SHARE: f64 = 1.05;

/// The jobs keep this many times more in flight than the queue can hold. Otherwise a device with several queues
/// could appear full although it only has all of its requests.
const MORE_THAN_PLACES: f64 = 1.25;

/// Full in this fraction of the samples.
const FULL_SAMPLES: f64 = 0.5;

/// A layer's requests take this many times as long as the same requests below it …
const TIMES_BELOW: f64 = 2.0;

/// … and longer by this much, ns: a layer's own processing time is not queueing.
const LONGER_NS: f64 = 100_000.0;

/// Requests of two layers are the same if their numbers differ by at most this factor: none are split or merged.
const SAME_REQUESTS: f64 = 1.25;

/// With fewer requests the mean is not meaningful.
const MIN_REQUESTS: u64 = 1000;

/// The longer queue has at least this many times the length of the shorter one, and at least this length.
const LONGER_QUEUE: f64 = 2.0;
const LONG_QUEUE: f64 = 4.0;

/// Rates and request sizes within this fraction of each other count as equal.
const SAME: f64 = 0.05;

/// A device that is busy for less than this percentage of the time is not the bottleneck.
const BUSY_PERCENT: f64 = 95.0;

pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    if !evidence.sampled(SeriesKind::Disk) {
        return Vec::new();
    }
    let disks = totals(&evidence.telemetry, SeriesKind::Disk);
    let mut found = Vec::new();
    for part in &evidence.trial.parts {
        let lowest = devices::lowest(part);
        let mut judged: Vec<&str> = Vec::new();
        for target in &part.environment.targets {
            found.extend(between_layers(target, &lowest, &disks));
            let layers = target.stack.iter().filter_map(StackLayer::device);
            for device in layers.filter(|device| lowest.contains(&device.name.as_str())) {
                if judged.contains(&device.name.as_str()) {
                    continue;
                }
                judged.push(&device.name);
                let disk = disks.iter().find(|disk| disk.subject == device.name);
                found.extend(disk.and_then(|disk| {
                    full(evidence, device, disk).or_else(|| longer(evidence, disk.subject))
                }));
            }
        }
    }
    // Targets on one disk give the same finding.
    found.dedup();
    found
}

/// Maximum number of ops that all clones keep in flight; `None`: unlimited, because of read-ahead and
/// write-back.
fn depth(evidence: &Evidence) -> Option<u64> {
    let mut depth = 0;
    for (clone, job) in evidence.clones_on_files() {
        if work::buffered(job) {
            return None;
        }
        depth += u64::from(clone.engine.depth.max(1));
    }
    Some(depth)
}

/// Whether the queue holds as many requests as it can while the jobs have more.
fn full(evidence: &Evidence, device: &DeviceLayer, disk: &Total) -> Option<Finding> {
    let places: u64 = device.queue.get("nr_requests")?.trim().parse().ok()?;
    let asked = depth(evidence);
    let room = |depth: u64| (depth as f64) < MORE_THAN_PLACES * places as f64;
    if places == 0 || asked.is_some_and(room) {
        return None;
    }
    let lengths: Vec<f64> = samples(evidence, &device.name)
        .filter_map(|view| Some(view.percent_of_span("queue_time")? / 100.0))
        .collect();
    let share = |length: &f64| *length / places as f64;
    let full = lengths.iter().map(share);
    let full = full
        .filter(|share| (FULL_SHARE..=OVERFULL_SHARE).contains(share))
        .count();
    if (full as f64) < FULL_SAMPLES * lengths.len() as f64 {
        return None;
    }
    let length = disk.percent_of_span("queue_time") / 100.0;
    let asked = match asked {
        Some(depth) => format!("the jobs keep {depth} in flight"),
        None => "the page cache submits without a limit".to_owned(),
    };
    Some(remedied(
        finding(
            FindingKind::QueueSaturated,
            Weight::Warning,
            format!(
                "{}: {length:.0} requests in the queue on average, its maximum (nr_requests {places}), while {asked}: \
                 the rest wait outside the queue{}",
                device.name,
                seen_by_jobs(evidence, disk)
            ),
            format!(
                "requests in the queue (aqu-sz) between {FULL_SHARE} and {OVERFULL_SHARE} × nr_requests in ≥ {:.0} % of the samples, and jobs \
                 that keep ≥ {MORE_THAN_PLACES} × as many in flight",
                FULL_SAMPLES * 100.0
            ),
        ),
        format!(
            "lower iodepth or numjobs if latency matters, or raise /sys/block/{}/queue/nr_requests",
            device.name
        ),
    ))
}

/// Waiting time per op beyond the device's share. Only valid if each op is one request.
fn seen_by_jobs(evidence: &Evidence, disk: &Total) -> String {
    for (direction, count, time) in [
        (Direction::Read, "reads", "read_time"),
        (Direction::Write, "writes", "write_time"),
    ] {
        let rows = evidence.summary.groups.iter().flat_map(|group| &group.rows);
        let rows: Vec<_> = rows
            .filter(|row| row.result.direction == direction)
            .collect();
        let ops: u64 = rows.iter().map(|row| row.result.ops).sum();
        let sum: u128 = rows.iter().map(|row| row.result.service.sum_ns()).sum();
        let at_device = disk.each(time, count);
        // The samples cover slightly less than the measured time.
        if let Some(at_device) = at_device.filter(|_| same_requests(ops, disk.count(count))) {
            let mean = sum as f64 / ops as f64;
            return format!(
                "; a {} takes {}, {} of it at {}",
                direction.name(),
                Nanos(mean as u64),
                Nanos(at_device as u64),
                disk.subject
            );
        }
    }
    String::new()
}

fn same_requests(one: u64, other: u64) -> bool {
    let (less, more) = (one.min(other), one.max(other));
    less >= MIN_REQUESTS && more as f64 <= SAME_REQUESTS * less as f64
}

fn samples<'a>(evidence: &'a Evidence, device: &'a str) -> impl Iterator<Item = View<'a>> {
    let samples = evidence.telemetry.of(SeriesKind::Disk);
    let views = samples.flat_map(|(shape, sample)| View::of(shape, sample));
    views.filter(move |view| view.subject() == device)
}

/// Whether the same requests take much longer at the top than at the bottom: they wait in between.
fn between_layers(target: &TargetInfo, lowest: &[&str], disks: &[Total]) -> Option<Finding> {
    // A partition's requests are those of its disk.
    let layers = target.stack.iter();
    let layers = layers.filter(|layer| !matches!(layer, StackLayer::Partition(_)));
    let devices: Vec<&DeviceLayer> = layers.filter_map(StackLayer::device).collect();
    let (top, bottom) = (devices.first()?, devices.last()?);
    let below = devices
        .iter()
        .filter(|device| lowest.contains(&device.name.as_str()));
    if top.name == bottom.name || below.count() != 1 {
        return None;
    }
    let total = |name: &str| disks.iter().find(|disk| disk.subject == name);
    let (above, below) = (total(&top.name)?, total(&bottom.name)?);
    [("reads", "read_time"), ("writes", "write_time")]
        .into_iter()
        .find_map(|(count, time)| {
            let (one, other) = (above.each(time, count)?, below.each(time, count)?);
            let waits = one >= TIMES_BELOW * other && one - other >= LONGER_NS;
            (same_requests(above.count(count), below.count(count)) && waits).then(|| {
                let (upper, lower) = (&top.name, &bottom.name);
                remedied(
                    finding(
                        FindingKind::QueueSaturated,
                        Weight::Note,
                        format!(
                            "{count} take {} at {upper} and {} of it at {lower}: {:.0} % is waiting above {lower}",
                            Nanos(one as u64),
                            Nanos(other as u64),
                            (1.0 - other / one) * 100.0
                        ),
                        format!(
                            "the await of the top layer ≥ {TIMES_BELOW} × that of the lowest device and ≥ {} longer, the same number of \
                             requests (± {:.0} %) at both",
                            Nanos(LONGER_NS as u64),
                            (SAME_REQUESTS - 1.0) * 100.0
                        ),
                    ),
                    "lower the jobs' depth if latency matters: the layers between pass on fewer requests than they receive",
                )
            })
        })
}

/// Queue values of one sample.
struct Length {
    queue: f64,
    rate: f64,
    request: f64,
    reads: f64,
}

/// Whether the queue was much longer in some seconds without a higher rate.
fn longer(evidence: &Evidence, device: &str) -> Option<Finding> {
    let mut seconds: Vec<Length> = samples(evidence, device)
        .filter_map(|view| length(&view))
        .collect();
    let third = seconds.len() / 3;
    if (third as u32) < super::MIN_SAMPLES {
        return None;
    }
    seconds.sort_by(|one, other| one.queue.total_cmp(&other.queue));
    let mean = |of: &[Length], value: fn(&Length) -> f64| {
        of.iter().map(value).sum::<f64>() / of.len() as f64
    };
    let (short, long) = (&seconds[..third], &seconds[seconds.len() - third..]);
    let both = |value: fn(&Length) -> f64| (mean(short, value), mean(long, value));
    let (queue, rate) = (both(|length| length.queue), both(|length| length.rate));
    let (request, reads) = (both(|length| length.request), both(|length| length.reads));
    let same_work =
        (request.1 / request.0 - 1.0).abs() <= SAME && (reads.1 - reads.0).abs() <= SAME;
    let longer = queue.1 >= LONGER_QUEUE * queue.0 && queue.1 >= LONG_QUEUE;
    let no_more = (rate.1 / rate.0 - 1.0).abs() <= SAME;
    if !same_work || !longer || !no_more {
        return None;
    }
    Some(finding(
        FindingKind::QueueSaturated,
        Weight::Note,
        format!(
            "{device} did {:.0} requests/s with {:.1} of them in its queue and {:.0}/s with {:.1}: the longer queue \
             added waiting and no throughput",
            rate.0, queue.0, rate.1, queue.1
        ),
        format!(
            "the third of the seconds with the longest queue against that with the shortest: ≥ {LONGER_QUEUE} × and ≥ {LONG_QUEUE} requests, \
             rate, size and share of reads within {:.0} %, the device busy ≥ {BUSY_PERCENT} %",
            SAME * 100.0
        ),
    ))
}

fn length(view: &View) -> Option<Length> {
    if view.percent_of_span("busy_time")? < BUSY_PERCENT {
        return None;
    }
    let rate = view.per_second("reads")? + view.per_second("writes")?;
    let bytes = view.per_second("read_bytes")? + view.per_second("written_bytes")?;
    (rate > 0.0).then_some(Length {
        queue: view.percent_of_span("queue_time")? / 100.0,
        rate,
        request: bytes / rate,
        reads: view.per_second("reads")? / rate,
    })
}
