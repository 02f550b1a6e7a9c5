//! Whether the device was throttled: by a cloud volume's limit or a control group.
//!
//! The limit of the harness's own control group is read from the system. Other limits are inferred from the
//! series:
//!
//! The rate of storage varies from second to second; that of a token bucket does not. Fast devices on a bus are
//! also even, so an even rate counts as a limit only at a round number that limits are usually set to. A rate
//! that falls to an even level and stays there counts whatever the number: spent burst credit, or a device that
//! throttles itself.

use iodyno_model::{Course, DeviceUse, Finding, FindingKind, Point, Regime, SeriesKind, Weight};
use iodyno_units::{Bytes, Nanos};

use super::{Evidence, finding, remedied};
use crate::devices;
use crate::series::{View, sum};

/// The seconds vary by at most this percentage of their mean. Storage without a limit varies by about 5 to 20
/// %.
const FLAT_PERCENT: f64 = 2.0;

/// … or by one op per second if that is more, up to the variation of storage without a limit.
const SCATTER_PERCENT: f64 = 5.0;

/// Minimum duration, ns: a few seconds can be close together by chance.
const LEAST_NS: u64 = 10_000_000_000;

/// The device had I/O in flight for this percentage of the time; otherwise something else limited the rate.
const BUSY_PERCENT: f64 = 95.0;

/// The device's rate is at most this percentage below a round number …
const BELOW_PERCENT: f64 = 1.0;

/// … or this percentage above it: a limit is exceeded only by the difference of two clocks. A random rate is
/// this close to one of [`ROUND`] with a probability of one in thirteen, for each of the three units.
const ABOVE_PERCENT: f64 = 0.5;

/// Usual values of limits, times any power of ten: 125 MiB/s, 250 MB/s, 3000 and 16 000 IOPS.
const ROUND: [f64; 12] = [1.0, 1.25, 1.5, 1.6, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.5, 8.0];

/// Limits are not set below these rates: bytes and ops per second.
const LEAST: (f64, f64) = (1e6, 100.0);

/// The limit of a control group is reached if the rate over all of the measured time is within this percentage
/// of it. Single seconds vary more: the kernel grants the budget in slices of a tenth of a second.
const AT_LIMIT_PERCENT: f64 = 3.0;

/// When burst credit is spent, the rate falls to this fraction or less: smaller steps have many causes.
const FALL: f64 = 0.8;

pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    let set = limits_set(evidence);
    if !set.is_empty() {
        // The traces would repeat the same finding.
        return set;
    }
    match evidence.summary.behaviour.course {
        Course::Regimes => credit_spent(evidence).into_iter().collect(),
        _ => at_a_round_number(evidence),
    }
}

fn at_a_round_number(evidence: &Evidence) -> Vec<Finding> {
    if !even(evidence) || evidence.workload.jobs.iter().any(own_pace) {
        return Vec::new();
    }
    let parts = evidence.trial.parts.iter();
    parts
        .flat_map(|part| {
            let uses = devices::lowest_uses(part).into_iter();
            uses.filter_map(move |device| Some((device, limit(device, part.host.span_ns)?)))
        })
        .map(|(device, limit)| capped(device, &limit))
        .collect()
}

fn even(evidence: &Evidence) -> bool {
    let behaviour = &evidence.summary.behaviour;
    let long = behaviour
        .regimes
        .last()
        .is_some_and(|regime| regime.end_ns.saturating_sub(regime.start_ns) >= LEAST_NS);
    match behaviour.course {
        Course::Steady { range_percent, .. } => {
            let rate = behaviour.regimes.last().map_or(0.0, |regime| regime.rate);
            long && range_percent <= flat_percent(rate)
        }
        _ => false,
    }
}

/// If only a few large ops fit into a second, even a constant rate varies by one op.
fn flat_percent(rate: f64) -> f64 {
    let one_op = 100.0 / rate.max(1.0);
    one_op.clamp(FLAT_PERCENT, SCATTER_PERCENT)
}

/// Whether the job limits its own rate.
fn own_pace(job: &iodyno_model::Job) -> bool {
    job.pacing.scheduled() || job.pacing.think.is_some() || job.pacing.flow.is_some()
}

/// The limit at which a busy device's rate lies, in words.
fn limit(device: &DeviceUse, span_ns: u64) -> Option<String> {
    let busy = device.busy_ms as f64 * 1e8 / span_ns.max(1) as f64;
    if busy < BUSY_PERCENT {
        return None;
    }
    let seconds = span_ns as f64 / 1e9;
    let bytes = (device.bytes[0] + device.bytes[1]) as f64 / seconds;
    let ops = (device.ios[0] + device.ios[1]) as f64 / seconds;
    let mib = f64::from(1 << 20);
    if bytes >= LEAST.0 {
        if let Some(limit) = nearest(bytes / 1e6) {
            return Some(format!("{limit} MB/s"));
        }
        if let Some(limit) = nearest(bytes / mib) {
            return Some(format!("{limit} MiB/s"));
        }
    }
    let limit = (ops >= LEAST.1).then(|| nearest(ops)).flatten()?;
    Some(format!("{limit} IOPS"))
}

/// The nearest round number within the tolerance.
fn nearest(value: f64) -> Option<f64> {
    let scale = 10f64.powf(value.log10().floor());
    // 9.95 is near 10, the first number of the next power.
    ROUND
        .iter()
        .chain(&[10.0])
        .map(|round| round * scale)
        .find(|round| (-BELOW_PERCENT..=ABOVE_PERCENT).contains(&((value / round - 1.0) * 100.0)))
}

fn capped(device: &DeviceUse, limit: &str) -> Finding {
    remedied(
        finding(
            FindingKind::DeviceCapped,
            Weight::Warning,
            format!(
                "{} was busy all the time at an even {limit}: a limit set on it, and not what lies above it, \
                 seems to have made the figure",
                device.name
            ),
            format!(
                "one-second rates range over ≤ {FLAT_PERCENT} % (or one op, at most {SCATTER_PERCENT} %) for ≥ {} s, the device is busy ≥ {BUSY_PERCENT} % \
                 and at most {BELOW_PERCENT} % below or {ABOVE_PERCENT} % above a round number of MB/s, MiB/s or IOPS",
                LEAST_NS / 1_000_000_000
            ),
        ),
        "look up the volume's limits and any throttle; compare below them",
    )
}

/// Counts of a control group with their limits, and the names of the rates.
const LIMITED: [(&str, &str, &str); 4] = [
    ("reads", "reads_limit", "reads"),
    ("writes", "writes_limit", "writes"),
    ("read_bytes", "read_bandwidth_limit", "read"),
    ("written_bytes", "write_bandwidth_limit", "written"),
];

fn limits_set(evidence: &Evidence) -> Vec<Finding> {
    let mut subjects: Vec<&str> = Vec::new();
    for (shape, _) in evidence.telemetry.of(SeriesKind::Cgroup) {
        for row in &shape.subjects {
            if !subjects.contains(&row.name.as_str()) {
                subjects.push(&row.name);
            }
        }
    }
    let each = subjects.iter().flat_map(|subject| {
        let found = LIMITED.iter();
        found.filter_map(|limited| limit_reached(evidence, subject, *limited))
    });
    each.collect()
}

/// A limit is an upper bound: an average this close to it was throttled nearly all the time.
fn limit_reached(
    evidence: &Evidence,
    subject: &str,
    (count, limit, called): (&str, &str, &str),
) -> Option<Finding> {
    let (mut samples, mut done, mut allowed, mut seconds) = (0u32, 0.0, 0.0, 0.0);
    for (shape, sample) in evidence.telemetry.of(SeriesKind::Cgroup) {
        let row = View::of(shape, sample).find(|row| row.subject() == subject);
        let values = row.and_then(|row| Some((row.value(count)?, row.value(limit)?)));
        let Some((value, limit)) = values.filter(|(_, limit)| *limit > 0.0) else {
            continue;
        };
        let span = sample.span_ns as f64 / 1e9;
        samples += 1;
        done += value;
        allowed += limit * span;
        seconds += span;
    }
    let near = (done - allowed).abs() * 100.0 <= AT_LIMIT_PERCENT * allowed;
    if samples < super::LEAST_SAMPLES || !near {
        return None;
    }
    let (rate, set) = (done / seconds, allowed / seconds);
    let words = |rate: f64| match count.ends_with("bytes") {
        true => format!("{}/s {called}", Bytes(rate as u64)),
        false => format!("{rate:.0} {called}/s"),
    };
    Some(remedied(
        finding(
            FindingKind::DeviceCapped,
            Weight::Warning,
            format!(
                "{subject}: {}, and the control group allows {}: the limit made the figure",
                words(rate),
                words(set)
            ),
            format!(
                "the rate of the measured time within {AT_LIMIT_PERCENT} % of a limit of the harness's control group"
            ),
        ),
        "lift the limit (io.max, blkio.throttle.*), or compare below it",
    ))
}

/// Whether the rate fell to an even level and stayed there.
fn credit_spent(evidence: &Evidence) -> Option<Finding> {
    let [.., before, after] = evidence.summary.behaviour.regimes.as_slice() else {
        return None;
    };
    let long = after.end_ns.saturating_sub(after.start_ns) >= LEAST_NS;
    let fell = after.rate <= FALL * before.rate;
    if !long || !fell || evidence.workload.jobs.iter().any(own_pace) {
        return None;
    }
    if range_percent(&evidence.summary.series, after)? > flat_percent(after.rate) {
        return None;
    }
    let parts = evidence.trial.parts.iter();
    let mut lowest = parts.flat_map(devices::lowest_uses);
    let device = lowest.find(|device| busy_in(evidence, device, after))?;
    Some(remedied(
        finding(
            FindingKind::DeviceCapped,
            Weight::Warning,
            format!(
                "{} fell from {:.0} to an even {:.0} ops/s at {} and was busy all the time: credit for bursts was spent, or it \
                 holds itself back",
                device.name,
                before.rate,
                after.rate,
                Nanos(after.start_ns)
            ),
            format!(
                "the last regime is ≤ {FALL} × the one before, lasts ≥ {} s, its one-second rates range over ≤ {FLAT_PERCENT} % (or \
                 one op, at most {SCATTER_PERCENT} %), and the device is busy ≥ {BUSY_PERCENT} %",
                LEAST_NS / 1_000_000_000
            ),
        ),
        "measure each level on its own: after the credit is spent (ramp_time), and with it full; look up the volume's \
         burst rules and the device's temperature",
    ))
}

/// Variation of the whole seconds of a regime, in percent of their mean.
fn range_percent(series: &[Point], regime: &Regime) -> Option<f64> {
    let longest = series.iter().map(|point| point.span_ns).max()?;
    let own = series.iter().filter(|point| {
        let end = point.start_ns.saturating_add(point.span_ns);
        point.start_ns >= regime.start_ns && end <= regime.end_ns && 2 * point.span_ns >= longest
    });
    let rates: Vec<f64> = own.map(|point| point.iops).collect();
    let (least, most) = (
        rates.iter().copied().fold(f64::MAX, f64::min),
        rates.iter().copied().fold(0.0, f64::max),
    );
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    (mean > 0.0).then(|| (most - least) * 100.0 / mean)
}

/// Uses the samples within the regime: over the whole trial the device may have been busy with earlier work.
fn busy_in(evidence: &Evidence, device: &DeviceUse, regime: &Regime) -> bool {
    let (mut busy, mut span) = (0, 0);
    for (shape, sample) in evidence.telemetry.of(SeriesKind::Disk) {
        let end = u64::try_from(sample.at_ns).unwrap_or(0);
        let inside = end <= regime.end_ns && end.saturating_sub(sample.span_ns) >= regime.start_ns;
        let row = View::of(shape, sample).find(|row| row.subject() == device.name);
        let time = row
            .filter(|_| inside)
            .and_then(|row| row.count("busy_time"));
        if let Some(time) = time {
            busy = sum([busy, time]);
            span = sum([span, sample.span_ns]);
        }
    }
    span > 0 && busy as f64 * 100.0 >= BUSY_PERCENT * span as f64
}
