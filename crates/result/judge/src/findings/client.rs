//! Detects that the client and not the storage limited the figure, and lists features that it lacked.

use iodyno_model::{
    CloneResult, Direction, EngineKind, Finding, FindingKind, Job, Sample, SeriesKind, SeriesShape,
    Weight,
};

use iodyno_units::Nanos;

use super::{Evidence, during, finding, list, remedied};
use crate::series::{View, share};
use iodyno_model::ordered::distinct;

/// A worker that computes for this fraction of its time does not wait for the storage: a faster device would not
/// increase the figure. The other 5 % allow for the scheduler and other threads.
const SATURATED_PERCENT: f64 = 95.0;

/// A shorter measured time is not judged: CPU time is counted in scheduler ticks.
const MIN_TIME_NS: u64 = 200_000_000;

/// If calls of file operations take this fraction of a worker's time, they limit it; the rest is the harness's own
/// work: filling buffers, generating names, reading clocks.
const WITHIN_SHARE: f64 = 0.5;

/// All CPUs together are busy for this fraction of the time: none has time left.
const HOST_PERCENT: f64 = 95.0;

/// … in this fraction of the samples.
const HOST_SAMPLES: f64 = 0.9;

/// Harness and servers under test use this fraction of the CPU time; with less, other processes keep the CPUs
/// busy.
const OWN_SHARE: f64 = 0.5;

/// A worker was runnable and waited for a CPU for this percentage of its time, which delayed its submissions and
/// completions.
const WAITED_PERCENT: f64 = 10.0;

/// A CPU quota was used up in this percentage of its periods: all ops in flight then wait for the next period, which
/// affects the 95th percentile.
const QUOTA_PERCENT: f64 = 5.0;

pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    let workers = saturated(evidence)
        .into_iter()
        .chain(in_the_kernel(evidence));
    let mut found: Vec<Finding> = workers.collect();
    // Workers that use a whole core are the more specific finding.
    if found.is_empty() {
        found.extend(host_saturated(evidence));
    }
    let quota = quota(evidence);
    // Without quota, threads wait for a CPU as well.
    found.extend(match quota.is_empty() {
        true => contention(evidence).into_iter().collect(),
        false => quota,
    });
    found.extend(fallbacks(evidence));
    found
}

fn quota(evidence: &Evidence) -> Vec<Finding> {
    let parts = evidence.trial.parts.iter();
    let groups = parts.filter_map(|part| part.host.control_group);
    let used_up = groups.filter(|group| {
        let percent = group.throttled_periods as f64 * 100.0 / group.periods.max(1) as f64;
        percent >= QUOTA_PERCENT
    });
    let found = used_up.map(|group| {
        remedied(
            finding(
                FindingKind::CpuQuota,
                Weight::Warning,
                format!(
                    "the CPU quota of the control group was used up in {} of {} periods: its threads waited for {} (the sum over \
                     CPUs)",
                    group.throttled_periods,
                    group.periods,
                    Nanos(group.throttled_ns)
                ),
                format!("nr_throttled ≥ {QUOTA_PERCENT} % of nr_periods (cpu.stat of any group above)"),
            ),
            "raise the quota (cpu.max, cpu.cfs_quota_us), or use fewer workers",
        )
    });
    found.collect()
}

fn contention(evidence: &Evidence) -> Option<Finding> {
    let (mut workers, mut waited, mut highest) = (0, 0, 0.0f64);
    for clone in evidence.clones() {
        let Some(delay) = clone.cpu.run_delay_ns else {
            continue;
        };
        if clone.runtime_ns < MIN_TIME_NS {
            continue;
        }
        workers += 1;
        let percent = delay as f64 * 100.0 / clone.runtime_ns as f64;
        waited += u32::from(percent >= WAITED_PERCENT);
        highest = highest.max(percent);
    }
    let (who, up_to) = match (waited, workers) {
        (0, _) => return None,
        (_, 1) => ("the worker".to_owned(), ""),
        _ => (format!("{waited} of {workers} workers"), "up to "),
    };
    Some(remedied(
        finding(
            FindingKind::CpuContention,
            Weight::Warning,
            format!(
                "{who} waited for a CPU for {up_to}{highest:.0} % of the time: other processes, or too many workers for the CPUs, \
                 lowered the figure"
            ),
            format!("run delay of a worker (schedstat) ≥ {WAITED_PERCENT} % of its measured time"),
        ),
        "stop other processes, use fewer workers, or pin them to idle CPUs (cpus_allowed)",
    ))
}

fn saturated(evidence: &Evidence) -> Option<Finding> {
    let (mut workers, mut full, mut highest) = (0, 0, 0.0f64);
    let mut polls = true;
    for clone in evidence.clones() {
        let Some(job) = evidence.job(clone) else {
            continue;
        };
        // `null` measures the harness and is expected to use a full core.
        if measures_harness(job) || clone.runtime_ns < MIN_TIME_NS {
            continue;
        }
        workers += 1;
        let busy = busy_percent(clone);
        if busy >= SATURATED_PERCENT && !within_calls(clone, job) {
            full += 1;
            highest = highest.max(busy);
            polls &= crate::work::busy_by_design(job);
        }
    }
    if full == 0 {
        return None;
    }
    let found = |weight, text| {
        finding(
            FindingKind::ClientSaturated,
            weight,
            text,
            format!("CPU time of a worker ≥ {SATURATED_PERCENT} % of its measured time"),
        )
    };
    let who = match workers {
        1 => "the worker".to_owned(),
        _ => format!("{full} of {workers} workers"),
    };
    let text = format!("{who} used a whole core (up to {highest:.0} %)");
    Some(match polls {
        true => found(Weight::Note, format!("{text}, as polling does")),
        false => remedied(
            found(
                Weight::Warning,
                format!("{text}: the client limited the figure, not the storage"),
            ),
            match (evidence.only_operations(), evidence.only_shared()) {
                (true, _) => "raise the number of threads, or use larger steps",
                (_, true) => "raise the number of threads, or use larger blocks",
                _ => "raise numjobs, or use a cheaper engine (io_uring) or larger blocks",
            },
        ),
    })
}

/// No worker used a whole core, but no CPU had time left: they are shared by workers, a server, or other
/// processes.
fn host_saturated(evidence: &Evidence) -> Option<Finding> {
    let mut jobs = evidence.clones().filter_map(|clone| evidence.job(clone));
    let measured = jobs.any(|job| !measures_harness(job) && !crate::work::busy_by_design(job));
    if !measured || !evidence.sampled(SeriesKind::Cpu) {
        return None;
    }
    let (mut samples, mut full, mut sum, mut cpus) = (0u32, 0u32, 0.0, 0);
    for (shape, sample) in evidence.telemetry.of(SeriesKind::Cpu) {
        let Some(busy) = busy_cpus(shape, sample) else {
            continue;
        };
        samples += 1;
        sum += busy;
        full += u32::from(busy >= HOST_PERCENT);
        cpus = cpus.max(shape.subjects.len());
    }
    if samples == 0 || f64::from(full) < HOST_SAMPLES * f64::from(samples) {
        return None;
    }
    let (harness, servers) = (
        evidence.summary.cpu.cores(),
        evidence.summary.server_cores(),
    );
    let own = harness + servers.unwrap_or(0.0);
    let servers = match servers {
        Some(cores) => format!(", servers under test {cores:.2}"),
        None => String::new(),
    };
    let (weight, means) = match own >= OWN_SHARE * cpus as f64 {
        true => (
            Weight::Warning,
            "CPU time limited the figure, not the storage",
        ),
        false => (
            Weight::Note,
            "other processes on this host affect the figure",
        ),
    };
    let spans_ns = evidence.spans_ns(SeriesKind::Cpu, |shape, sample| {
        busy_cpus(shape, sample).is_some_and(|busy| busy >= HOST_PERCENT)
    });
    let found = remedied(
        finding(
            FindingKind::ClientSaturated,
            weight,
            format!(
                "all {cpus} CPUs were busy ({:.0} %; the harness used {harness:.2} cores{servers}): {means}",
                sum / f64::from(samples),
            ),
            format!(
                "user, system and interrupts ≥ {HOST_PERCENT} % of all CPU time in ≥ {:.0} % of the samples; a note where harness and \
                 servers used less than {:.0} % of it",
                HOST_SAMPLES * 100.0,
                OWN_SHARE * 100.0
            ),
        ),
        match weight {
            Weight::Note => "stop other processes: top shows them",
            _ => "use fewer jobs or a cheaper engine (io_uring), or measure from another host",
        },
    );
    Some(during(found, spans_ns))
}

/// The share of all CPUs' time in which they worked, in percent.
fn busy_cpus(shape: &SeriesShape, sample: &Sample) -> Option<f64> {
    let all = View::all(shape, sample);
    Some(share(&all, "user")? + share(&all, "system")? + share(&all, "irq")?)
}

fn busy_percent(clone: &CloneResult) -> f64 {
    (clone.cpu.user_ns + clone.cpu.system_ns) as f64 * 100.0 / clone.runtime_ns as f64
}

/// Whether a clone of file operations spent its time within its calls: then the file system's code keeps the
/// core busy, and that is what is measured.
fn within_calls(clone: &CloneResult, job: &Job) -> bool {
    let steps = clone.directions.iter();
    let steps = steps.filter(|result| result.direction != Direction::Op);
    let within: u128 = steps.map(|result| result.service.sum_ns()).sum();
    job.work.file_operations().is_some() && within as f64 >= WITHIN_SHARE * clone.runtime_ns as f64
}

/// File operations limited by the file system's own CPU time.
fn in_the_kernel(evidence: &Evidence) -> Option<Finding> {
    let (mut workers, mut full, mut highest) = (0, 0, 0.0f64);
    for clone in evidence.clones() {
        let judged = |job: &&Job| {
            job.work.file_operations().is_some()
                && job.work.command().is_none()
                && clone.runtime_ns >= MIN_TIME_NS
        };
        let Some(job) = evidence.job(clone).filter(judged) else {
            continue;
        };
        workers += 1;
        let busy = busy_percent(clone);
        if busy >= SATURATED_PERCENT && within_calls(clone, job) {
            full += 1;
            highest = highest.max(busy);
        }
    }
    let who = match (full, workers) {
        (0, _) => return None,
        (_, 1) => "the worker".to_owned(),
        _ => format!("{full} of {workers} workers"),
    };
    Some(remedied(
        finding(
            FindingKind::ClientSaturated,
            Weight::Note,
            format!(
                "{who} used a whole core (up to {highest:.0} %), most of it within its calls: the file system's CPU \
                 time limited the rate, not the device"
            ),
            format!(
                "CPU time of a worker ≥ {SATURATED_PERCENT} % of its measured time, calls ≥ {:.0} % of it",
                WITHIN_SHARE * 100.0
            ),
        ),
        "try more threads: the file system may use several cores",
    ))
}

fn measures_harness(job: &Job) -> bool {
    let engine = job.work.engine();
    engine.is_some_and(|engine| engine.kind == EngineKind::Null)
}

fn fallbacks(evidence: &Evidence) -> Option<Finding> {
    let missing = distinct(evidence.clones().flat_map(|clone| &clone.engine.fallbacks));
    // File operations use no optional features, but requests that were not met are reported, such as the end of
    // the drain.
    let (what, threshold) = match evidence.only_operations() {
        true => (
            "not done as requested",
            "anything that could not be done as requested",
        ),
        false => (
            "not available, replaced by the next best",
            "any feature, requested or default, that the kernel or device lacks",
        ),
    };
    (!missing.is_empty()).then(|| {
        finding(
            FindingKind::Fallback,
            Weight::Note,
            format!("{what}: {}", list(&missing)),
            threshold,
        )
    })
}
