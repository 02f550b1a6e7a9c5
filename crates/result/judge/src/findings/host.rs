//! Conditions of the host during the trial: stolen CPU time and clocks.

use iodyno_model::{Environment, Finding, FindingKind, HostUse, Part, SeriesKind, Weight};
use iodyno_units::Nanos;

use super::{Evidence, during, finding, remedied};
use crate::series::{View, share};

/// Percentage of all CPU time that the hypervisor took. Stolen time adds to latencies: at 1 % it reaches the
/// 99th percentile.
pub(crate) const STEAL_PERCENT: f64 = 1.0;

/// In single samples, this percentage of one CPU's time: its threads lose a tenth of a second …
const STRETCH_PERCENT: f64 = 10.0;

/// … in this percentage of the samples, and in at least two: less does not reach the 99th percentile.
const STRETCHES_PERCENT: f64 = 5.0;
const MIN_STRETCHES: u32 = 2;

/// A clock that is being disciplined may drift by 500 parts per million; a larger difference, beyond the slack,
/// means that the clock was set.
const DRIFT_PER_MILLION: u64 = 500;

/// Slack for reading two clocks one after the other on a busy host, ns.
const DRIFT_SLACK_NS: u64 = 5_000_000;

/// The rate of a node's clock may be off by this share: the kernels of both hosts discipline their clocks by at most
/// half of it.
const WRONG_RATE: f64 = 0.001;

/// A clock read that takes longer than this, ns, is a system call or a device access. It happens twice per
/// kernel entry and adds to every latency.
const SLOW_CLOCK_NS: u64 = 200;

/// Clock sources that are read without entering the kernel.
pub(crate) const FAST_SOURCES: [&str; 5] = [
    "tsc",
    "kvm-clock",
    "hyperv_clocksource_tsc_page",
    "arch_sys_counter",
    "timebase",
];

pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    let mut found = Vec::new();
    for part in &evidence.trial.parts {
        found.extend(steal(&part.host));
    }
    if found.is_empty() {
        found.extend(steal_in_stretches(evidence));
    }
    for part in &evidence.trial.parts {
        found.extend(clock_set(&part.host));
        found.extend(clock_rate(part));
        found.extend(slow_clock(&part.environment));
    }
    found
}

fn steal(host: &HostUse) -> Option<Finding> {
    let all =
        host.user_ns + host.system_ns + host.idle_ns + host.iowait_ns + host.irq_ns + host.steal_ns;
    let percent = host.steal_ns as f64 * 100.0 / all.max(1) as f64;
    (percent >= STEAL_PERCENT).then(|| {
        remedied(
            finding(
                FindingKind::Steal,
                Weight::Warning,
                format!(
                    "the hypervisor took {percent:.1} % of all CPU time ({})",
                    Nanos(host.steal_ns)
                ),
                format!("steal ≥ {STEAL_PERCENT} % of all CPU time"),
            ),
            "measure on a dedicated host, or repeat while the other guests are idle",
        )
    })
}

/// A small share over the whole trial may be a large share of single seconds or of one CPU.
fn steal_in_stretches(evidence: &Evidence) -> Option<Finding> {
    if !evidence.sampled(SeriesKind::Cpu) {
        return None;
    }
    let (mut samples, mut stretches, mut most) = (0u32, 0u32, (0.0f64, ""));
    for (shape, sample) in evidence.telemetry.of(SeriesKind::Cpu) {
        let stolen =
            View::of(shape, sample).filter_map(|cpu| Some((share(&cpu, "steal")?, cpu.subject())));
        let highest = stolen.max_by(|one, other| one.0.total_cmp(&other.0));
        let Some(highest) = highest else {
            continue;
        };
        samples += 1;
        stretches += u32::from(highest.0 >= STRETCH_PERCENT);
        if highest.0 > most.0 {
            most = highest;
        }
    }
    let percent = f64::from(stretches) * 100.0 / f64::from(samples.max(1));
    (stretches >= MIN_STRETCHES && percent >= STRETCHES_PERCENT).then(|| {
        let spans_ns = evidence.spans_ns(SeriesKind::Cpu, |shape, sample| {
            let mut cpus = View::of(shape, sample);
            cpus.any(|cpu| share(&cpu, "steal").is_some_and(|stolen| stolen >= STRETCH_PERCENT))
        });
        let found = remedied(
            finding(
                FindingKind::Steal,
                Weight::Note,
                format!(
                    "the hypervisor took ≥ {STRETCH_PERCENT} % of a CPU's time in {stretches} of {samples} samples (up to {:.0} % of {})",
                    most.0, most.1
                ),
                format!(
                    "steal ≥ {STRETCH_PERCENT} % of one CPU in ≥ {STRETCHES_PERCENT} % of the samples, and at least {MIN_STRETCHES}"
                ),
            ),
            "it affects the tail of the latencies: repeat while the other guests are idle",
        );
        during(found, spans_ns)
    })
}

fn clock_set(host: &HostUse) -> Option<Finding> {
    let drift = host.clock_drift_ns.unsigned_abs();
    let allowed = DRIFT_SLACK_NS.saturating_add(host.span_ns / 1_000_000 * DRIFT_PER_MILLION);
    (drift > allowed).then(|| {
        finding(
            FindingKind::ClockTrouble,
            Weight::Warning,
            format!(
                "the wall clock was set by {}{} during the trial: times of day are wrong, latencies are not affected",
                if host.clock_drift_ns < 0 { "−" } else { "+" },
                Nanos(drift)
            ),
            format!(
                "wall clock against monotonic clock > {} + {DRIFT_PER_MILLION} ppm",
                Nanos(DRIFT_SLACK_NS)
            ),
        )
    })
}

fn clock_rate(part: &Part) -> Option<Finding> {
    let clock = part.clock_rate()?;
    clock.is_off_by(WRONG_RATE).then(|| {
        remedied(
            finding(
                FindingKind::ClockTrouble,
                Weight::Warning,
                format!(
                    "the node's clock ran at {:.4} times the rate of this host's clock (± {:.4}): its times and rates are wrong by as much",
                    clock.rate, clock.error
                ),
                format!(
                    "the rate of the node's clock differs from that of this host's clock by more than {} % and the error",
                    WRONG_RATE * 100.0
                ),
            ),
            "wait until the clocks are synchronised, and check the clock source of the node",
        )
    })
}

fn slow_clock(environment: &Environment) -> Option<Finding> {
    let source = environment.clock_source.as_str();
    if environment.clock_read_ns <= SLOW_CLOCK_NS || FAST_SOURCES.contains(&source) {
        return None;
    }
    let source = if source.is_empty() { "unknown" } else { source };
    Some(remedied(
        finding(
            FindingKind::ClockTrouble,
            Weight::Warning,
            format!(
                "reading the clock (source {source}) costs {}: it is part of every latency and of the CPU per op",
                Nanos(environment.clock_read_ns)
            ),
            format!(
                "a read > {SLOW_CLOCK_NS} ns from a source other than {}",
                FAST_SOURCES.join(", ")
            ),
        ),
        "select a faster source in /sys/devices/system/clocksource/clocksource0/current_clocksource, if the host offers one",
    ))
}
