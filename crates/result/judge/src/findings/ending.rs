//! How the trial ended: interrupted, failed ops, wrong data.

use iodyno_model::{
    Direction, EngineKind, ErrorCount, Finding, FindingKind, Outcome, VerifyResult, Weight,
    errno_name,
};
use iodyno_units::Nanos;

use super::{Evidence, finding, list, remedied};

/// From this percentage of failed ops upwards, the rate is mostly one of failures.
const MANY_ERRORS_PERCENT: f64 = 50.0;

pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(interrupted(evidence));
    found.extend(verify(evidence));
    found.extend(errors(evidence));
    found
}

fn interrupted(evidence: &Evidence) -> Option<Finding> {
    let Outcome::Interrupted(reason) = &evidence.trial.outcome else {
        return None;
    };
    let text = match crate::work::measured_ns(evidence.trial) {
        0 => format!("interrupted before anything was measured: {reason}"),
        span => format!("interrupted after {} of measurement: {reason}", Nanos(span)),
    };
    Some(finding(
        FindingKind::Interrupted,
        Weight::Warning,
        text,
        "any end before the planned one",
    ))
}

fn verify(evidence: &Evidence) -> Option<Finding> {
    let mut sum = VerifyResult::default();
    for group in &evidence.summary.groups {
        group.verify.iter().for_each(|result| sum.add(result));
    }
    if sum.bad() == 0 {
        return None;
    }
    let kinds: Vec<String> = [
        (sum.corrupt, "torn or corrupt"),
        (sum.misplaced, "from another place"),
        (sum.stale, "from an earlier write"),
        (
            sum.foreign,
            "without a valid header: damaged, or not written by this job",
        ),
    ]
    .iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, kind)| format!("{count} {kind}"))
    .collect();
    let results = evidence.clones().filter_map(|clone| clone.verify.as_ref());
    let remedy = VerifyResult::remedy(results).unwrap_or_else(|| {
        "check the storage, and whether another process writes to these files; keep the files and examine the named block"
            .to_owned()
    });
    let first = sum.first.as_ref();
    let first = first.map_or(String::new(), |first| format!("; first: {first}"));
    Some(remedied(
        finding(
            FindingKind::VerifyFailed,
            Weight::Invalid,
            format!(
                "{} of {} blocks read back differ from what was written ({}){first}",
                sum.bad(),
                sum.checked.max(sum.bad()),
                kinds.join(", ")
            ),
            "any block that differs",
        ),
        remedy,
    ))
}

fn errors(evidence: &Evidence) -> Option<Finding> {
    let clones: Vec<_> = evidence.clones().collect();
    let errors = crate::summary::errors(&clones);
    let failed: u64 = errors.iter().map(|error| error.count).sum();
    if failed == 0 {
        return None;
    }
    let done: u64 = clones
        .iter()
        .flat_map(|clone| &clone.directions)
        // In a cycle, its steps can fail.
        .filter(|result| result.direction != Direction::Op)
        .map(|result| result.ops)
        .sum();
    let percent = failed as f64 * 100.0 / (failed + done) as f64;
    let kinds: Vec<String> = errors
        .iter()
        .map(|error| {
            let at = match is_step(evidence, error) {
                true => String::new(),
                false => format!(" at {}", error.first_offset),
            };
            format!(
                "{} × {} on {} (first: {}{at})",
                error.count,
                errno_name(error.errno),
                error.direction.name(),
                error.first_file,
            )
        })
        .collect();
    let weight = match percent >= MANY_ERRORS_PERCENT {
        true => Weight::Invalid,
        false => Weight::Warning,
    };
    let found = finding(
        FindingKind::IoErrors,
        weight,
        format!(
            "{failed} op{} failed: {}",
            if failed == 1 { "" } else { "s" },
            list(&kinds)
        ),
        format!("any failed op; ≥ {MANY_ERRORS_PERCENT} % of all: nothing was measured"),
    );
    let remedy = match simulated(evidence) {
        true => Some("the simulated device fails these ops because the job's sim_faults says so"),
        false => errors
            .iter()
            .find_map(|error| match is_step(evidence, error) {
                true => advice_for_steps(error.errno),
                false => advice(error.errno, error.direction),
            }),
    };
    Some(match remedy {
        Some(remedy) => remedied(found, remedy),
        None => found,
    })
}

/// Whether all failed ops are of simulated devices.
fn simulated(evidence: &Evidence) -> bool {
    let mut failed = evidence.clones().filter(|clone| !clone.errors.is_empty());
    failed.all(|clone| {
        let engine = evidence.job(clone).and_then(|job| job.work.engine());
        engine.is_some_and(|engine| engine.kind == EngineKind::Sim)
    })
}

/// A failed step of a cycle; it has no offset.
fn is_step(evidence: &Evidence, error: &ErrorCount) -> bool {
    evidence.only_operations() || !Direction::ALL.contains(&error.direction)
}

/// The remedy for an errno of a file operation.
fn advice_for_steps(errno: i32) -> Option<&'static str> {
    match errno {
        1 | 13 => Some("the folder must let this user make and remove files in it"),
        2 => {
            Some("another process removed the file or its folder, or the file system was unmounted")
        }
        5 => Some("look at the kernel's log: the device or its path failed"),
        17 => Some("another process creates files in the trial's folder: stop it"),
        23 | 24 => {
            Some("raise the limit of open files (ulimit -n), or lower the number of threads")
        }
        27 => Some("lower the size of files: the file system or a limit allows no file this large"),
        28 => {
            Some("free some space or inodes, or use fewer or smaller files, fewer ops or less time")
        }
        30 => Some("remount it writable; a file system becomes read-only after internal errors"),
        31 => {
            Some("the file system limits the number of subfolders: give each thread its own folder")
        }
        95 => Some("this file system does not support the operation: remove the step"),
        122 => Some("raise the quota, or use fewer or smaller files"),
        _ => None,
    }
}

/// The remedy for an errno, if the errno alone determines it.
fn advice(errno: i32, direction: Direction) -> Option<&'static str> {
    match (errno, direction) {
        (5, _) => Some("look at the kernel's log: the device or its path failed"),
        (22, _) => {
            Some("with direct=1, bs and offsets must be multiples of the device's block size")
        }
        (27, _) => Some("lower size: the file system or a limit allows no file this large"),
        (28, _) => Some("free some space, or lower size"),
        (30, _) => {
            Some("remount it writable; a file system becomes read-only after internal errors")
        }
        (95, Direction::Trim) => Some("this target does not support trim"),
        (122, _) => Some("raise the quota, or lower size"),
        _ => None,
    }
}
