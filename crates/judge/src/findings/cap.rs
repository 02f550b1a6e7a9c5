//! Whether a limit set on the device is what the figure shows: a cloud volume's, a throttle's.
//!
//! What storage does by itself scatters from second to second; a token bucket does not. But fast devices on a bus are even, too:
//! only an even rate at a number that people set as a limit is taken for one.

use iodyno_model::{Course, DeviceUse, Finding, FindingKind, Weight};

use super::{Evidence, finding, remedied};
use crate::devices;

/// The seconds range over at most this share of their mean, in percent. Storage left to itself ranges over some 5 to 20 %.
const FLAT_PERCENT: f64 = 2.0;

/// … or by one op a second, where that is more; but by no more than storage left to itself does at least.
const SCATTER_PERCENT: f64 = 5.0;

/// For at least so long, ns: a few seconds lie close together by chance.
const LEAST_NS: u64 = 10_000_000_000;

/// The device had I/O in flight for this share of the time, in percent: otherwise something else was waited for.
const BUSY_PERCENT: f64 = 95.0;

/// The device's rate lies at most so far below a round number, in percent …
const BELOW_PERCENT: f64 = 1.0;

/// … and above it: a limit is not exceeded, but for what two clocks differ. A rate drawn by chance lies so near to
/// one of [`ROUND`] in one case of thirteen, for each of the three units.
const ABOVE_PERCENT: f64 = 0.5;

/// Limits as they are sold and set, times any power of ten: 125 MiB/s, 250 MB/s, 3000 and 16 000 IOPS.
const ROUND: [f64; 12] = [1.0, 1.25, 1.5, 1.6, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.5, 8.0];

/// No limits are set below these: bytes and ops a second.
const LEAST: (f64, f64) = (1e6, 100.0);

pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
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

/// Where few large ops fit into a second, the most even rate there is still goes up and down by one op.
fn flat_percent(rate: f64) -> f64 {
    let one_op = 100.0 / rate.max(1.0);
    one_op.clamp(FLAT_PERCENT, SCATTER_PERCENT)
}

/// The job itself holds back.
fn own_pace(job: &iodyno_model::Job) -> bool {
    job.pacing.scheduled() || job.pacing.think.is_some() || job.pacing.flow.is_some()
}

/// The limit that a busy device's rate lies at, in words.
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

/// The round number within reach.
fn nearest(value: f64) -> Option<f64> {
    let scale = 10f64.powf(value.log10().floor());
    // 9.95 is near to 10, the next power's first.
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
