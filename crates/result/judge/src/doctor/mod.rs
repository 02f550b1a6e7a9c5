//! Checks whether a host is fit for measurements.
//!
//! Compares the environment and a short period of telemetry on the idle host with rules, which the result states.
//! Changes nothing: the remedy is a command for the owner of the host. A check is "unfit" if results would be wrong
//! or not repeatable, and a note if it only affects them.

mod cpus;
mod devices;
mod mounts;
mod quiet;
#[cfg(test)]
mod tests;

use iodyno_model::{Check, CheckState, Environment, Telemetry};
use iodyno_units::Bytes;

/// Runs every check, in a sensible order for fixing: CPUs, other activity, devices, file systems. `environment`
/// has the requested targets, possibly none. `telemetry` may lack any series; the affected checks are
/// [`CheckState::Unknown`].
pub fn examine(environment: &Environment, telemetry: &Telemetry) -> Vec<Check> {
    let mut checks = cpus::checks(environment, telemetry);
    checks.extend(quiet::checks(environment, telemetry));
    checks.extend(devices::checks(environment));
    checks.extend(mounts::checks(environment));
    // Several targets can share a device or a file system.
    let mut names: Vec<String> = Vec::new();
    checks.retain(|check| {
        let new = !names.contains(&check.name);
        names.push(check.name.clone());
        new
    });
    checks
}

fn check(
    name: impl Into<String>,
    state: CheckState,
    found: impl Into<String>,
    rule: impl Into<String>,
) -> Check {
    Check {
        name: name.into(),
        state,
        found: found.into(),
        rule: rule.into(),
        remedy: None,
    }
}

/// Adds the remedy unless the check passed.
fn remedied(check: Check, remedy: impl Into<String>) -> Check {
    let wrong = matches!(check.state, CheckState::Note | CheckState::Unfit);
    Check {
        remedy: wrong.then(|| remedy.into()),
        ..check
    }
}

/// A check of something that the host does not report.
fn unknown(name: impl Into<String>, why: &str, rule: impl Into<String>) -> Check {
    check(name, CheckState::Unknown, why, rule)
}

/// The same where less is worse: fine from the first threshold upwards, unfit below the second.
fn scarce(value: f64, (note, unfit): (f64, f64)) -> CheckState {
    match value {
        value if value < unfit => CheckState::Unfit,
        value if value < note => CheckState::Note,
        _ => CheckState::Fine,
    }
}

/// `12 GiB of 64 GiB (19 %)`, and the percentage.
fn share(part: u64, all: u64) -> (String, f64) {
    let percent = part as f64 * 100.0 / all as f64;
    let words = format!("{} of {} ({percent:.0} %)", Bytes(part), Bytes(all));
    (words, percent)
}

/// Fine below the first threshold, a note below the second, unfit from there upwards.
fn graded(value: f64, (note, unfit): (f64, f64)) -> CheckState {
    match value {
        value if value >= unfit => CheckState::Unfit,
        value if value >= note => CheckState::Note,
        _ => CheckState::Fine,
    }
}
