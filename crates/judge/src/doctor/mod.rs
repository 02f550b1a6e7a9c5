//! Is this host fit to measure on?
//!
//! Looks at what is known of the host and at a short stretch of its telemetry taken at rest, and holds each thing against a rule
//! that it tells. Decides and does nothing: the remedy is a command for whoever owns the host.

mod cpus;

use iodyno_model::{Check, Environment, Telemetry};

/// Every check, in the order in which one would put things right. `environment` has the targets that were asked for, and may have none; of
/// `telemetry` nothing is needed, but what is not in it is [`iodyno_model::CheckState::Unknown`].
pub fn examine(environment: &Environment, telemetry: &Telemetry) -> Vec<Check> {
    let _ = telemetry;
    cpus::checks(environment)
}
