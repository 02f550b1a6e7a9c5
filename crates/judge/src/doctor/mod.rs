//! Is this host fit to measure on?
//!
//! Looks at what is known of the host and at a short stretch of its telemetry taken at rest, and holds each thing against a rule
//! that it tells. Decides and does nothing: the remedy is a command for whoever owns the host. Unfit is what makes results wrong or
//! unlike each other; what merely bears on them, and is the host's own affair, is a note.

mod cpus;
mod devices;
mod mounts;
mod quiet;
#[cfg(test)]
mod tests;

use iodyno_model::{Check, CheckState, Environment, Telemetry};

/// Every check, in the order in which one would put things right: CPUs, what else runs, devices, file systems. `environment` has the
/// targets that were asked for, and may have none; of `telemetry` nothing is needed, but what is not in it is
/// [`CheckState::Unknown`].
pub fn examine(environment: &Environment, telemetry: &Telemetry) -> Vec<Check> {
    let mut checks = cpus::checks(environment, telemetry);
    checks.extend(quiet::checks(environment, telemetry));
    checks.extend(devices::checks(environment));
    checks.extend(mounts::checks(environment));
    // Targets that share a device or a file system.
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

/// With what to do, unless all is well.
fn remedied(check: Check, remedy: impl Into<String>) -> Check {
    let wrong = matches!(check.state, CheckState::Note | CheckState::Unfit);
    Check {
        remedy: wrong.then(|| remedy.into()),
        ..check
    }
}

/// What the host does not tell.
fn unknown(name: impl Into<String>, why: &str, rule: impl Into<String>) -> Check {
    check(name, CheckState::Unknown, why, rule)
}

/// Fine below the first threshold, worth a note below the second, unfit from there on.
fn graded(value: f64, note: f64, unfit: f64) -> CheckState {
    match value {
        value if value >= unfit => CheckState::Unfit,
        value if value >= note => CheckState::Note,
        _ => CheckState::Fine,
    }
}
