//! How the trial came out: cut off, failed ops, wrong data.

use iodyno_model::{Direction, Finding, FindingKind, Outcome, VerifyResult, Weight, errno_name};
use iodyno_units::Nanos;

use super::{Evidence, finding, list, remedied};

/// Failed ops from this share of all ops on, in percent, make the rate one of failures.
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
    let measured = Nanos(evidence.summary.cpu.span_ns);
    Some(finding(
        FindingKind::Interrupted,
        Weight::Warning,
        format!("cut off after {measured} of measuring: {reason}"),
        "any end before the planned one",
    ))
}

fn verify(evidence: &Evidence) -> Option<Finding> {
    let mut sum = VerifyResult::default();
    for group in &evidence.summary.groups {
        if let Some(result) = &group.verify {
            sum.checked += result.checked;
            sum.corrupt += result.corrupt;
            sum.misplaced += result.misplaced;
            sum.stale += result.stale;
            sum.foreign += result.foreign;
            sum.first = sum.first.or_else(|| result.first.clone());
        }
    }
    if sum.bad() == 0 {
        return None;
    }
    let kinds: Vec<String> = [
        (sum.corrupt, "torn or corrupt"),
        (sum.misplaced, "from another place"),
        (sum.stale, "from an earlier write"),
        (sum.foreign, "never written by this job"),
    ]
    .iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, kind)| format!("{count} {kind}"))
    .collect();
    let first = sum.first.as_ref();
    let first = first.map_or(String::new(), |first| format!("; first: {first}"));
    Some(remedied(
        finding(
            FindingKind::VerifyFailed,
            Weight::Invalid,
            format!(
                "{} of {} blocks read back were not what had been written ({}){first}",
                sum.bad(),
                sum.checked.max(sum.bad()),
                kinds.join(", ")
            ),
            "any block that differs",
        ),
        "suspect the storage, or another writer of the same files; keep the files and look at the block named",
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
        .map(|result| result.ops)
        .sum();
    let percent = failed as f64 * 100.0 / (failed + done) as f64;
    let kinds: Vec<String> = errors
        .iter()
        .map(|error| {
            format!(
                "{} × {} on {} (first: {} at {})",
                error.count,
                errno_name(error.errno),
                error.direction.name(),
                error.first_file,
                error.first_offset
            )
        })
        .collect();
    let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
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
    Some(
        match errors
            .iter()
            .find_map(|error| advice(error.errno, error.direction))
        {
            Some(remedy) => remedied(found, remedy),
            None => found,
        },
    )
}

/// What helps against an errno, where the errno alone tells.
fn advice(errno: i32, direction: Direction) -> Option<&'static str> {
    match (errno, direction) {
        (5, _) => Some("look at the kernel's log: the device or its path failed"),
        (22, _) => {
            Some("with direct=1, bs and offsets must be multiples of the device's block size")
        }
        (27, _) => Some("lower size: the file system or a limit allows no file this large"),
        (28, _) => Some("free some space, or lower size"),
        (30, _) => {
            Some("remount it writable; a file system goes read-only after errors of its own")
        }
        (95, Direction::Trim) => Some("this target does not support trim"),
        (122, _) => Some("raise the quota, or lower size"),
        _ => None,
    }
}
