//! Detects that the device was capped by a cloud volume's limit or a control group.
//!
//! The limit of the harness's own control group is read from the system. Other limits are inferred from the series:
//!
//! The rate of storage varies from second to second; that of a token bucket does not, except in seconds with burst
//! credit or less work. Fast devices on a bus have constant rates as well, so a constant rate counts as a limit only
//! at a number that is common for limits. A rate that falls to a constant level and stays there counts at any number:
//! the burst credit is used up, or the device limits itself.

use iodyno_model::{
    DeviceUse, Finding, FindingKind, Part, Point, Regime, Sample, SeriesKind, SeriesShape,
    Telemetry, Weight,
};
use iodyno_units::{Bytes, Nanos};

use super::{Evidence, during, finding, remedied};
use crate::devices;
use crate::series::{View, sum};
use iodyno_model::ordered::distinct;

/// The seconds vary by at most this percentage of their mean. Storage without a limit varies by about 5 to 20
/// %.
const FLAT_PERCENT: f64 = 2.0;

/// … or by one op per second if that is more, up to the variation of storage without a limit.
const SCATTER_PERCENT: f64 = 5.0;

/// In this percentage of the seconds: the others had burst credit, or less work.
const MAX_PERCENT: f64 = 60.0;

/// Minimum number of such seconds: a few can have similar rates by chance.
const MIN_SECONDS: usize = 10;

/// The same as a duration, ns.
const MIN_NS: u64 = MIN_SECONDS as u64 * 1_000_000_000;

/// The device had I/O in flight for this percentage of the time; with less, something else limited the rate.
const BUSY_PERCENT: f64 = 95.0;

/// The device's rate is at most this percentage below a usual limit …
const BELOW_PERCENT: f64 = 0.15;

/// … or this percentage above it: the only excess over a limit is the difference of two clocks. A random rate is this
/// close to one of [`USUAL_IOPS`] or [`USUAL_BANDWIDTHS`] (in MB/s and in MiB/s) with a probability below 2 %.
const ABOVE_PERCENT: f64 = 0.1;

/// Usual limits, times any power of ten: 500, 3000 and 16 000 IOPS.
const USUAL_IOPS: [f64; 7] = [1.0, 1.6, 2.0, 3.0, 5.0, 6.0, 7.5];

/// The same in MB/s and MiB/s: 125, 250, 1000.
const USUAL_BANDWIDTHS: [f64; 5] = [1.0, 1.25, 2.0, 2.5, 5.0];

/// Limits are not set below these rates: bytes and ops per second.
const LEAST: (f64, f64) = (1e6, 100.0);

/// The limit of a control group is reached if the rate over all of the measured time is within this percentage
/// of it. Single seconds vary more: the kernel grants the budget in slices of a tenth of a second.
const AT_LIMIT_PERCENT: f64 = 3.0;

/// When burst credit is used up, the rate falls to this fraction or less: smaller steps have many causes.
const FALL: f64 = 0.8;

pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    let set = limits_set(evidence);
    if !set.is_empty() {
        // The series would give the same finding again.
        return set;
    }
    if evidence.workload.jobs.iter().any(own_pace) {
        return Vec::new();
    }
    match credit_spent(evidence) {
        Some(spent) => vec![spent],
        None => at_a_usual_limit(evidence),
    }
}

fn at_a_usual_limit(evidence: &Evidence) -> Vec<Finding> {
    let parts = evidence.trial.parts.iter();
    let uses = parts.flat_map(|part| {
        let uses = devices::lowest_uses(part).into_iter();
        uses.map(move |device| (part, device))
    });
    uses.filter_map(|(part, device)| {
        let seconds = seconds(evidence, part, device);
        let limit = limit(&seconds)?;
        Some(capped(device, &limit, seconds.len()))
    })
    .collect()
}

/// The activity of a device in one second.
#[derive(Debug, Clone, Copy)]
struct Second {
    ops: f64,
    bytes: f64,
    busy_percent: f64,
    /// The number of ops that the rates were computed from, as a rate.
    counted: f64,
}

/// The seconds of a device from its samples. Without samples: from the seconds of the jobs, as shares of the
/// device's counters.
fn seconds(evidence: &Evidence, part: &Part, device: &DeviceUse) -> Vec<Second> {
    if evidence.sampled(SeriesKind::Disk) {
        let samples = evidence.telemetry.of(SeriesKind::Disk);
        let views = samples.flat_map(|(shape, sample)| View::of(shape, sample));
        let own = views.filter(|view| view.subject() == device.name);
        return own.filter_map(|view| second(&view)).collect();
    }
    let span = part.host.span_ns.max(1) as f64;
    let rates = whole_rates(&evidence.summary.series, |_| true);
    let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    let per_second = |count: u64, rate: f64| count as f64 * 1e9 / span * (rate / mean);
    let second = |rate: &f64| Second {
        ops: per_second(device.ios[0] + device.ios[1], *rate),
        bytes: per_second(device.bytes[0] + device.bytes[1], *rate),
        busy_percent: device.busy_ms as f64 * 1e8 / span,
        counted: *rate,
    };
    rates.iter().map(second).collect()
}

fn second(view: &View) -> Option<Second> {
    let ops = view.per_second("reads")? + view.per_second("writes")?;
    Some(Second {
        ops,
        bytes: view.per_second("read_bytes")? + view.per_second("written_bytes")?,
        busy_percent: view.percent_of_span("busy_time")?,
        counted: ops,
    })
}

/// If only a few large ops fit into a second, even a constant rate varies by one op.
fn flat_percent(rate: f64) -> f64 {
    let one_op = 100.0 / rate.max(1.0);
    one_op.clamp(FLAT_PERCENT, SCATTER_PERCENT)
}

/// Whether the job limits its own rate.
fn own_pace(job: &iodyno_model::Job) -> bool {
    job.scheduled() || job.pacing.think.is_some() || job.pacing.flow.is_some()
}

/// A limit at which a busy device was in most seconds.
struct Limit {
    words: String,
    seconds: usize,
}

fn limit(seconds: &[Second]) -> Option<Limit> {
    let mib = f64::from(1 << 20);
    let bytes = |second: &Second| second.bytes;
    let ops = |second: &Second| second.ops;
    at(seconds, bytes, 1e6, LEAST.0, &USUAL_BANDWIDTHS, "MB/s")
        .or_else(|| at(seconds, bytes, mib, LEAST.0, &USUAL_BANDWIDTHS, "MiB/s"))
        .or_else(|| at(seconds, ops, 1.0, LEAST.1, &USUAL_IOPS, "IOPS"))
}

/// Whether most seconds have one rate, and this rate is a usual limit.
fn at(
    seconds: &[Second],
    rate: fn(&Second) -> f64,
    unit: f64,
    least: f64,
    usual: &[f64],
    name: &str,
) -> Option<Limit> {
    let middle = |value: fn(&Second) -> f64| {
        let mut values: Vec<f64> = seconds.iter().map(value).collect();
        values.sort_unstable_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    let one_op = 100.0 / middle(|second| second.counted)?.max(1.0);
    let reach = one_op.clamp(FLAT_PERCENT / 2.0, SCATTER_PERCENT);
    let middle = middle(rate)?;
    let even = |second: &&Second| (rate(second) / middle - 1.0).abs() * 100.0 <= reach;
    let even: Vec<&Second> = seconds.iter().filter(even).collect();
    let most = even.len() as f64 * 100.0 >= MAX_PERCENT * seconds.len() as f64;
    if even.len() < MIN_SECONDS || !most || middle < least {
        return None;
    }
    let mean = |value: fn(&Second) -> f64| {
        even.iter().map(|second| value(second)).sum::<f64>() / even.len() as f64
    };
    if mean(|second| second.busy_percent) < BUSY_PERCENT {
        return None;
    }
    Some(Limit {
        words: format!("{} {name}", nearest(mean(rate) / unit, usual)?),
        seconds: even.len(),
    })
}

/// The nearest usual limit within the tolerance.
fn nearest(value: f64, usual: &[f64]) -> Option<f64> {
    let scale = 10f64.powf(value.log10().floor());
    // 9.99 is near 10, the first number of the next power.
    usual
        .iter()
        .chain(&[10.0])
        .map(|usual| usual * scale)
        .find(|usual| (-BELOW_PERCENT..=ABOVE_PERCENT).contains(&((value / usual - 1.0) * 100.0)))
}

fn capped(device: &DeviceUse, limit: &Limit, seconds: usize) -> Finding {
    let when = match limit.seconds == seconds {
        true => "all the time".to_owned(),
        false => format!("in {} of {seconds} seconds", limit.seconds),
    };
    remedied(
        finding(
            FindingKind::DeviceCapped,
            Weight::Warning,
            format!(
                "{} was busy at an even {} {when}: the figure is probably a limit set on the device",
                device.name, limit.words
            ),
            format!(
                "≥ {MAX_PERCENT} % of the seconds, and ≥ {MIN_SECONDS}, within {} % (or one op, at most {SCATTER_PERCENT} %) of their median, \
                 the device busy ≥ {BUSY_PERCENT} % in them, their mean at most {BELOW_PERCENT} % below or {ABOVE_PERCENT} % above \
                 a usual limit in MB/s, MiB/s or IOPS",
                FLAT_PERCENT / 2.0
            ),
        ),
        "look up the limits of the volume; compare below them",
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
    let subjects = limited(&evidence.telemetry);
    let each = subjects.iter().flat_map(|subject| {
        let found = LIMITED.iter();
        found.filter_map(|limited| limit_reached(evidence, subject, *limited))
    });
    each.collect()
}

/// The devices of the control group.
fn limited(telemetry: &Telemetry) -> Vec<&str> {
    let samples = telemetry.of(SeriesKind::Cgroup);
    let rows = samples.flat_map(|(shape, _)| &shape.subjects);
    distinct(rows.map(|row| row.name.as_str()))
}

/// The largest share of a limit of the control group that was used on one of these devices; 0 without limits, `None` if
/// they were not sampled.
pub(crate) fn limit_used(telemetry: &Telemetry, devices: &[&str]) -> Option<f64> {
    let mut own = limited(telemetry);
    own.retain(|subject| devices.contains(subject));
    let each = own.iter().flat_map(|subject| {
        LIMITED.iter().map(move |(count, limit, _)| {
            let samples = telemetry.of(SeriesKind::Cgroup);
            let samples =
                samples.filter_map(|(shape, sample)| allowed(shape, sample, subject, count, limit));
            let all = total(samples);
            all.done / all.allowed
        })
    });
    let known = each.filter(|share| share.is_finite());
    (!own.is_empty()).then(|| known.fold(0.0, f64::max))
}

/// A limit is an upper bound: with a mean this close to it, the device was capped nearly all the time. In single
/// samples the rate can be above it (a burst) or below it (less work).
fn limit_reached(
    evidence: &Evidence,
    subject: &str,
    (count, limit, called): (&str, &str, &str),
) -> Option<Finding> {
    let mut samples: Vec<Allowed> = Vec::new();
    for (shape, sample) in evidence.telemetry.of(SeriesKind::Cgroup) {
        samples.extend(allowed(shape, sample, subject, count, limit));
    }
    let at_limit: Vec<&Allowed> = samples.iter().filter(|sample| sample.at_limit()).collect();
    let most = at_limit.len() as f64 * 100.0 >= MAX_PERCENT * samples.len() as f64;
    let all = total(samples.iter().copied());
    let (capped, when) = match (all.at_limit(), most) {
        (true, _) => (all, String::new()),
        (false, true) => (
            total(at_limit.iter().map(|it| **it)),
            format!(" in {} of {} samples", at_limit.len(), samples.len()),
        ),
        (false, false) => return None,
    };
    if samples.len() < super::MIN_SAMPLES as usize {
        return None;
    }
    let spans_ns = evidence.spans_ns(SeriesKind::Cgroup, |shape, sample| {
        let allowed = allowed(shape, sample, subject, count, limit);
        allowed.is_some_and(|allowed| allowed.at_limit())
    });
    let words = |amount: f64| {
        let rate = amount / capped.seconds;
        match count.ends_with("bytes") {
            true => format!("{}/s {called}", Bytes(rate as u64)),
            false => format!("{rate:.0} {called}/s"),
        }
    };
    let found = remedied(
        finding(
            FindingKind::DeviceCapped,
            Weight::Warning,
            format!(
                "{subject}: {}{when}, and the control group allows {}: the figure is this limit",
                words(capped.done),
                words(capped.allowed)
            ),
            format!(
                "the rate of the measured time, or of ≥ {MAX_PERCENT} % of the samples, within {AT_LIMIT_PERCENT} % of a limit \
                 of the harness's control group"
            ),
        ),
        "lift the limit (io.max, blkio.throttle.*), or compare below it",
    );
    Some(during(found, spans_ns))
}

/// What a device did in a sample, and what its limit allows; `None` without a limit.
fn allowed(
    shape: &SeriesShape,
    sample: &Sample,
    subject: &str,
    count: &str,
    limit: &str,
) -> Option<Allowed> {
    let row = View::of(shape, sample).find(|row| row.subject() == subject)?;
    let (done, limit) = (row.value(count)?, row.value(limit)?);
    let seconds = sample.span_ns as f64 / 1e9;
    (limit > 0.0).then_some(Allowed {
        done,
        allowed: limit * seconds,
        seconds,
    })
}

/// The amount of I/O, and the amount that a limit allows in this time.
#[derive(Debug, Clone, Copy, Default)]
struct Allowed {
    done: f64,
    allowed: f64,
    seconds: f64,
}

impl Allowed {
    fn at_limit(&self) -> bool {
        (self.done - self.allowed).abs() * 100.0 <= AT_LIMIT_PERCENT * self.allowed
    }
}

fn total(samples: impl Iterator<Item = Allowed>) -> Allowed {
    samples.fold(Allowed::default(), |sum, sample| Allowed {
        done: sum.done + sample.done,
        allowed: sum.allowed + sample.allowed,
        seconds: sum.seconds + sample.seconds,
    })
}

/// Whether the rate fell to a constant level and stayed there.
fn credit_spent(evidence: &Evidence) -> Option<Finding> {
    let [.., before, after] = evidence.summary.behaviour.regimes.as_slice() else {
        return None;
    };
    let long = after.end_ns.saturating_sub(after.start_ns) >= MIN_NS;
    let fell = after.rate <= FALL * before.rate;
    if !long || !fell {
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
                "{} fell from {:.0} to an even {:.0} ops/s at {} and was busy all the time: burst credit was spent, or the \
                 device limits itself",
                device.name,
                before.rate,
                after.rate,
                Nanos(after.start_ns)
            ),
            format!(
                "the last regime is ≤ {FALL} × the one before, lasts ≥ {} s, its one-second rates range over ≤ {FLAT_PERCENT} % (or \
                 one op, at most {SCATTER_PERCENT} %), and the device is busy ≥ {BUSY_PERCENT} %",
                MIN_NS / 1_000_000_000
            ),
        ),
        "measure each level separately: after the credit is spent (ramp_time), and with full credit; look up the volume's \
         burst rules and the device's temperature",
    ))
}

/// Variation of the whole seconds of a regime, in percent of their mean.
fn range_percent(series: &[Point], regime: &Regime) -> Option<f64> {
    let inside = |point: &Point| {
        let end = point.start_ns.saturating_add(point.span_ns);
        point.start_ns >= regime.start_ns && end <= regime.end_ns
    };
    let rates = whole_rates(series, inside);
    let (least, most) = (
        rates.iter().copied().fold(f64::MAX, f64::min),
        rates.iter().copied().fold(0.0, f64::max),
    );
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    (mean > 0.0).then(|| (most - least) * 100.0 / mean)
}

/// Ops per second of the whole points that `inside` accepts. The last point of a trial may be short.
fn whole_rates(series: &[Point], inside: impl Fn(&Point) -> bool) -> Vec<f64> {
    let longest = series.iter().map(|point| point.span_ns).max().unwrap_or(0);
    let whole = series.iter().filter(|point| 2 * point.span_ns >= longest);
    let inside = whole.filter(|point| inside(point));
    inside.map(|point| point.iops).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_rate_is_rarely_a_usual_limit() {
        const RATES: u32 = 20_000;
        let mut state = 1u64;
        let mut uniform = || {
            // SplitMix64.
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            (mixed ^ (mixed >> 31)) as f64 / u64::MAX as f64
        };
        for block in [512u32, 4096, 16 << 10, 64 << 10, 128 << 10, 1 << 20] {
            let round = (0..RATES).filter(|_| {
                // Between 100 and 1 000 000 ops per second, uniform on a logarithmic scale.
                let ops = (10f64.powf(2.0 + 4.0 * uniform()) * 20.0).floor() / 20.0;
                let second = Second {
                    ops,
                    bytes: ops * f64::from(block),
                    busy_percent: 100.0,
                    counted: ops,
                };
                limit(&[second; 20]).is_some()
            });
            let percent = round.count() as f64 * 100.0 / f64::from(RATES);
            assert!(percent <= 2.0, "{block} B: {percent:.1} %");
        }
    }
}
