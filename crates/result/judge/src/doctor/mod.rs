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

/// Fine below the first threshold, a note below the second, unfit from there upwards.
fn graded(value: f64, note: f64, unfit: f64) -> CheckState {
    match value {
        value if value >= unfit => CheckState::Unfit,
        value if value >= note => CheckState::Note,
        _ => CheckState::Fine,
    }
}
