//! Whether requests waited for a place and not for the device: then latencies are the queue's.
//!
//! An await begins when a request is put into a queue, and has waiting and service in one. Three things tell them apart, and no
//! more is claimed than they say: a queue that is as long as it may be while the jobs ask for more; the await of a
//! layer against that of the device below it, where the requests are the same ones; and two lengths of the queue within one trial at
//! the same rate. That a job's depth exceeds what raises throughput cannot be known from a trial at one depth.

use iodyno_model::{
    DeviceLayer, Direction, Finding, FindingKind, SeriesKind, StackLayer, TargetInfo, Weight,
};
use iodyno_units::Nanos;

use super::{Evidence, finding, remedied};
use crate::devices;
use crate::series::{Total, View, totals};
use crate::work;

/// A queue is full at this share of what it takes on average over a sample: it empties for a moment when the jobs reap a batch.
const FULL_SHARE: f64 = 0.9;

/// … and at no more than this one. `nr_requests` is that of each hardware queue: where more are under way, there are several, and
/// how many is not known.
const OVERFULL_SHARE: f64 = 1.05;

/// Jobs keep so many times more in flight than there are places: a device of several queues would otherwise seem full with no more in them
/// than all that it was given.
const MORE_THAN_PLACES: f64 = 1.25;

/// Full in this share of the samples.
const FULL_SAMPLES: f64 = 0.5;

/// A layer's requests take this many times as long as the same requests do below it …
const TIMES_BELOW: f64 = 2.0;

/// … and longer by this much, ns: what a layer's own code takes is no queueing.
const LONGER_NS: f64 = 100_000.0;

/// Requests of two layers are the same ones if their numbers differ by no more than this factor: nothing is split or merged.
const ALIKE: f64 = 1.25;

/// Fewer requests than this have no mean worth the name.
const LEAST_REQUESTS: u64 = 1000;

/// The longer queue is at least so many times the shorter one, and at least so long.
const LONGER_QUEUE: f64 = 2.0;
const LONG_QUEUE: f64 = 4.0;

/// Rates and sizes of requests within this share of each other are the same.
const SAME: f64 = 0.05;

/// A device that is not busy throughout is waited for by nobody, percent.
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
    // Targets of one disk tell the same.
    found.dedup();
    found
}

/// What all clones keep in flight at most; `None`: as much as read-ahead and write-back like.
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

/// As many requests as the queue takes, while the jobs have more.
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
        None => "the page cache asks for as much as it likes".to_owned(),
    };
    Some(remedied(
        finding(
            FindingKind::QueueSaturated,
            Weight::Warning,
            format!(
                "{}: {length:.0} requests in the queue on average, as many as it takes (nr_requests {places}), while {asked}: \
                 the rest wait for a place{}",
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
            "lower iodepth or numjobs where latency counts, or raise /sys/block/{}/queue/nr_requests",
            device.name
        ),
    ))
}

/// What jobs waited for an op, beside the device's part of it. Only where each op is a request of its own.
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
        // The samples are a little shorter than the measured time.
        if let Some(at_device) = at_device.filter(|_| alike(ops, disk.count(count))) {
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

fn alike(one: u64, other: u64) -> bool {
    let (less, more) = (one.min(other), one.max(other));
    less >= LEAST_REQUESTS && more as f64 <= ALIKE * less as f64
}

fn samples<'a>(evidence: &'a Evidence, device: &'a str) -> impl Iterator<Item = View<'a>> {
    let samples = evidence.telemetry.of(SeriesKind::Disk);
    let views = samples.flat_map(|(shape, sample)| View::of(shape, sample));
    views.filter(move |view| view.subject() == device)
}

/// The same requests take far longer at the top than at the bottom: they wait in between.
fn between_layers(target: &TargetInfo, lowest: &[&str], disks: &[Total]) -> Option<Finding> {
    // A partition's requests are its disk's own.
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
            (alike(above.count(count), below.count(count)) && waits).then(|| {
                let (upper, lower) = (&top.name, &bottom.name);
                remedied(
                    finding(
                        FindingKind::QueueSaturated,
                        Weight::Note,
                        format!(
                            "{count} take {} at {upper} and {} of it at {lower}: {:.0} % is waiting above {lower}, not its own time",
                            Nanos(one as u64),
                            Nanos(other as u64),
                            (1.0 - other / one) * 100.0
                        ),
                        format!(
                            "the await of the top layer ≥ {TIMES_BELOW} × that of the lowest device and ≥ {} longer, the same number of \
                             requests (± {:.0} %) at both",
                            Nanos(LONGER_NS as u64),
                            (ALIKE - 1.0) * 100.0
                        ),
                    ),
                    "lower the jobs' depth where latency counts; the layers between pass on less than they are given",
                )
            })
        })
}

/// What a sample tells of a queue.
struct Length {
    queue: f64,
    rate: f64,
    request: f64,
    reads: f64,
}

/// In some seconds the queue was much longer than in others, and no more was done.
fn longer(evidence: &Evidence, device: &str) -> Option<Finding> {
    let mut seconds: Vec<Length> = samples(evidence, device)
        .filter_map(|view| length(&view))
        .collect();
    let third = seconds.len() / 3;
    if (third as u32) < super::LEAST_SAMPLES {
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
            "{device} did {:.0} requests/s with {:.1} of them in its queue and {:.0}/s with {:.1}: the longer queue made \
             them wait and did no more",
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
