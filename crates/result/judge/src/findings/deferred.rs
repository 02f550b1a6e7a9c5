//! Detects that the file system still had work to do when the ops had ended.

use iodyno_model::{Finding, FindingKind, Kind, Step, Weight};
use iodyno_units::Nanos;

use super::{Evidence, finding, remedied};
use crate::kind::kind;
use crate::work;
use crate::work::measured_ns;

/// A drain of this fraction of the ops' own time is significant: the rate of the ops then includes less than half of
/// their cost.
const DRAIN_SHARE: f64 = 1.0;

/// A drain shorter than this, ns, is an ordinary sync, which every trial has.
const MIN_NS: u64 = 100_000_000;

pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    drained_long(evidence).into_iter().collect()
}

fn drained_long(evidence: &Evidence) -> Option<Finding> {
    let drain = work::step_ns(evidence.workload, evidence.trial, Step::Drain)?;
    let measured = measured_ns(evidence.trial);
    if drain < MIN_NS || measured == 0 || (drain as f64) < DRAIN_SHARE * measured as f64 {
        return None;
    }
    let finite = kind(evidence.workload, evidence.trial) == Kind::Finite;
    let text = format!(
        "the ops took {}, and the file system {} more until they were on the storage and its free space was steady: {}",
        Nanos(measured),
        Nanos(drain),
        match finite {
            true => "the completion time includes it, rates and latencies do not",
            false => "rates and latencies do not include it",
        }
    );
    let weight = match finite {
        true => Weight::Note,
        false => Weight::Warning,
    };
    Some(remedied(
        finding(
            FindingKind::Deferred,
            weight,
            text,
            format!(
                "a drain ≥ {DRAIN_SHARE} × the ops' own time, and ≥ {}",
                Nanos(MIN_NS)
            ),
        ),
        match finite {
            true => "compare by the completion",
            false => "compare by the completion of a fixed number of ops, or sync within the cycle",
        },
    ))
}
