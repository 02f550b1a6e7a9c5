//! Detects that the requested rate was not reached, or that the rate was not steady.

use iodyno_model::{
    Arrival, CloneResult, Course, Direction, Finding, FindingKind, Job, Kind, Weight,
};
use iodyno_units::{Bytes, Nanos, Rate};

use super::{Evidence, finding, remedied};
use crate::kind::kind;
use crate::work;

/// Tolerance of requested rates, in percent.
const RATE_PERCENT: f64 = 1.0;

/// A Poisson process of n arrivals has a deviation of √n; this many deviations are allowed.
const POISSON_SIGMAS: f64 = 3.0;

pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    for (index, job) in evidence.workload.jobs.iter().enumerate() {
        if job.pacing.ops_per_s > 0.0 {
            found.extend(missed_together(evidence, index, job));
            continue;
        }
        for direction in job.work.moves() {
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
    let show = |rate: f64| match in_bytes {
        true => format!("{}/s", Bytes(rate as u64)),
        false => format!("{} ops/s", Rate(rate)),
    };
    let asked = each * clones.len() as f64;
    let off = off_percent(job, clones.len(), ops, got / asked)?;
    let text = format!(
        "{}: {} {} requested, {} achieved ({off:+.1} %){}",
        job.name,
        direction.name(),
        show(asked),
        show(got),
        not_issued(&clones, Some(direction))
    );
    Some(off_the_rate(
        text,
        off,
        "lower the rate, or raise iodepth or numjobs: response latency grows for as long as the rate is missed",
    ))
}

/// Total rate of cycles of file operations, or of requests of shared files, against the requested rate.
fn missed_together(evidence: &Evidence, index: usize, job: &Job) -> Option<Finding> {
    let ran = evidence
        .clones()
        .filter(|clone| clone.job as usize == index);
    let clones: Vec<&CloneResult> = ran.filter(|clone| clone.runtime_ns > 0).collect();
    let (mut got, mut ops) = (0.0, 0u64);
    for clone in &clones {
        let did = work::ops(evidence.workload, clone);
        got += did as f64 * 1e9 / clone.runtime_ns as f64;
        ops += did;
    }
    let asked = job.pacing.ops_per_s * clones.len() as f64;
    if clones.is_empty() {
        return None;
    }
    let off = off_percent(job, clones.len(), ops, got / asked)?;
    let text = format!(
        "{}: {} ops/s requested, {} ops/s achieved ({off:+.1} %){}",
        job.name,
        Rate(asked),
        Rate(got),
        not_issued(&clones, None)
    );
    Some(off_the_rate(
        text,
        off,
        "lower the rate, or raise the number of threads: response latency grows for as long as the rate is missed",
    ))
}

/// The number of ops that were due by the end of the runtime and not issued; empty if there were none.
fn not_issued(clones: &[&CloneResult], direction: Option<Direction>) -> String {
    let missed = clones.iter().map(|clone| clone.missed_ops(direction));
    match missed.sum::<u64>() {
        0 => String::new(),
        1 => "; 1 op was due by the end and not issued".to_owned(),
        ops => format!("; {ops} ops were due by the end and not issued"),
    }
}

/// Deviation from the requested rate, in percent, if it exceeds the tolerance.
fn off_percent(job: &Job, clones: usize, ops: u64, kept: f64) -> Option<f64> {
    let off = (kept - 1.0) * 100.0;
    // One op more or less at the edges of the measured time is not an error.
    let count = (ops as f64).max(1.0);
    let chance = match job.pacing.arrival {
        Arrival::Linear => clones as f64 / count,
        Arrival::Poisson => POISSON_SIGMAS / count.sqrt(),
    };
    (off.abs() > RATE_PERCENT.max(chance * 100.0)).then_some(off)
}

fn off_the_rate(text: String, off: f64, remedy: &str) -> Finding {
    let found = finding(
        FindingKind::RateMissed,
        Weight::Warning,
        text,
        format!("more than {RATE_PERCENT} % off the requested rate, and more than chance explains"),
    );
    match off < 0.0 {
        true => remedied(found, remedy),
        false => found,
    }
}

/// A fixed amount of work can change its rate: each rate is reported, with the total time.
fn regimes_of_finite_work(evidence: &Evidence) -> Finding {
    let complete = crate::observe::completion_ns(evidence.trial);
    let complete = complete.map_or(String::new(), |ns| {
        format!("; complete after {}", Nanos(ns))
    });
    let regimes = &evidence.summary.behaviour.regimes;
    // One clone does one op after the other: its rate is the inverse of the op's duration.
    let each = match evidence.only_operations() && evidence.clones().count() == 1 {
        true => {
            let times = regimes.iter().filter(|regime| regime.rate > 0.0);
            let times = times.map(|regime| Nanos((1e9 / regime.rate).round() as u64).to_string());
            format!(" ({} an op)", times.collect::<Vec<_>>().join(", then "))
        }
        false => String::new(),
    };
    let regimes = crate::compare::regimes(regimes);
    remedied(
        finding(
            FindingKind::Unsteady,
            Weight::Note,
            format!("{regimes}{each}{complete}"),
            CHANGES,
        ),
        "compare by the completion",
    )
}

/// A series with several levels.
const CHANGES: &str = "change points; the means of five rounds range over > 20 %, the rates rise by > 10 % or \
                       deviate by > 25 %, and more than noise explains";

/// Adds the behaviour to the list of findings.
fn unsteady(evidence: &Evidence) -> Option<Finding> {
    let behaviour = &evidence.summary.behaviour;
    if behaviour.course == Course::Regimes
        && kind(evidence.workload, evidence.trial) == Kind::Finite
    {
        return Some(regimes_of_finite_work(evidence));
    }
    let (text, remedy) = match behaviour.course {
        Course::Regimes => {
            let rates = || behaviour.regimes.iter().map(|regime| regime.rate);
            let slowest = rates().fold(f64::INFINITY, f64::min);
            let fastest = rates().fold(0.0, f64::max);
            (
                format!(
                    "{} regimes, between {} and {} ops/s",
                    behaviour.regimes.len(),
                    Rate(slowest),
                    Rate(fastest)
                ),
                "look at each regime, and at the time to complete",
            )
        }
        Course::Drifting {
            rise_percent,
            range_percent,
        } => (
            format!(
                "the one-second rates {} {:.0} % of their mean and range over {range_percent:.0} %",
                if rise_percent < 0.0 {
                    "fall by"
                } else {
                    "rise by"
                },
                rise_percent.abs()
            ),
            "look at the series; run longer, or leave the beginning out (`ramp_time`, `--ramp`, `--warmup-time`)",
        ),
        Course::Steady { .. } | Course::TooShort { .. } | Course::Unknown => return None,
    };
    Some(remedied(
        finding(
            FindingKind::Unsteady,
            Weight::Note,
            format!("{text}: one figure does not describe the trial"),
            CHANGES,
        ),
        remedy,
    ))
}
