//! Whether the asked pace was kept, and whether the pace was steady.

use iodyno_model::{Arrival, CloneResult, Direction, Finding, FindingKind, Job, Weight};
use iodyno_units::{Bytes, Rate};

use super::{Evidence, finding, remedied};

/// Asked rates are kept within this many percent.
const RATE_PERCENT: f64 = 1.0;

/// A Poisson process of n arrivals varies by √n itself; this many of them are allowed.
const POISSON_SIGMAS: f64 = 3.0;

/// A series whose range exceeds this share of its mean, in percent, has no one figure.
const RANGE_PERCENT: f64 = 50.0;

pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    for (index, job) in evidence.workload.jobs.iter().enumerate() {
        for direction in job.access.directions() {
            found.extend(missed(evidence, index, job, direction));
        }
    }
    found.extend(unsteady(evidence));
    found
}

fn missed(evidence: &Evidence, index: usize, job: &Job, direction: Direction) -> Option<Finding> {
    let rate = job.pacing.rates.get(direction)?;
    let clones: Vec<&CloneResult> = evidence
        .clones()
        .filter(|clone| clone.job as usize == index && clone.runtime_ns > 0)
        .collect();
    let in_bytes = rate.bytes_per_s > 0;
    let each = match in_bytes {
        true => rate.bytes_per_s as f64,
        false => rate.iops,
    };
    if clones.is_empty() || each <= 0.0 {
        return None;
    }
    let results = clones.iter().filter_map(|clone| clone.direction(direction));
    let (mut got, mut ops) = (0.0, 0u64);
    for result in results.filter(|result| result.runtime_ns > 0) {
        let moved = if in_bytes { result.bytes } else { result.ops };
        got += moved as f64 * 1e9 / result.runtime_ns as f64;
        ops += result.ops;
    }
    let asked = each * clones.len() as f64;
    let off = (got / asked - 1.0) * 100.0;
    // One op more or less at the edges of the measured time is no fault.
    let count = (ops as f64).max(1.0);
    let chance = match job.pacing.arrival {
        Arrival::Linear => clones.len() as f64 / count,
        Arrival::Poisson => POISSON_SIGMAS / count.sqrt(),
    };
    if off.abs() <= RATE_PERCENT.max(chance * 100.0) {
        return None;
    }
    let show = |rate: f64| match in_bytes {
        true => format!("{}/s", Bytes(rate as u64)),
        false => format!("{} ops/s", Rate(rate)),
    };
    let text = format!(
        "{}: {} {} were asked for and {} kept ({off:+.1} %)",
        job.name,
        show(asked),
        direction.name(),
        show(got)
    );
    let found = finding(
        FindingKind::RateMissed,
        Weight::Warning,
        text,
        format!("more than {RATE_PERCENT} % off the asked rate, beyond chance"),
    );
    Some(match off < 0.0 {
        true => remedied(
            found,
            "ask for less, or raise iodepth or numjobs: response latency grows without bound meanwhile",
        ),
        false => found,
    })
}

/// Clones that begin further apart than this, ns, make the rates of a trial range by themselves: the
/// series is one of seconds.
const TOGETHER_NS: u64 = 1_000_000_000;

/// Jobs begin one after the other, as `stonewall`, `wait_for` or `startdelay` ask.
fn in_stages(evidence: &Evidence) -> bool {
    let starts = || {
        let ran = evidence.clones().filter(|clone| clone.runtime_ns > 0);
        ran.map(|clone| clone.start_ns)
    };
    let (first, last) = (starts().min(), starts().max());
    last.unwrap_or(0) > first.unwrap_or(0).saturating_add(TOGETHER_NS)
}

fn unsteady(evidence: &Evidence) -> Option<Finding> {
    if in_stages(evidence) {
        return None;
    }
    let range = evidence.summary.range_percent?;
    (range > RANGE_PERCENT).then(|| {
        remedied(
            finding(
                FindingKind::Unsteady,
                Weight::Note,
                format!("the one-second rates range over {range:.0} % of their mean: one figure does not describe them"),
                format!("(largest − smallest) ÷ mean of the one-second rates > {RANGE_PERCENT} %"),
            ),
            "look at the series; run longer, or set ramp_time to leave the beginning out",
        )
    })
}
