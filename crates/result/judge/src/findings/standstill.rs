//! Detects that the storage completed no op for so long that the figures are not those of its normal work.

use iodyno_model::{Finding, FindingKind, Weight};
use iodyno_units::Nanos;

use super::{Evidence, finding, remedied};
use crate::summary::stalls::{STANDSTILL_NS, STANDSTILL_SHARE, Standstill};

pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    let found = Standstill::of(evidence.trial);
    found.iter().map(stood_still).collect()
}

fn stood_still(found: &Standstill) -> Finding {
    let weight = match found.dominates() {
        true => Weight::Invalid,
        false => Weight::Warning,
    };
    remedied(
        finding(
            FindingKind::NodeStalled,
            weight,
            format!(
                "no op completed for {} of the measured {}, and an op took {}",
                Nanos(found.longest_ns),
                Nanos(found.measured_ns),
                Nanos(found.slowest_op_ns)
            ),
            format!(
                "{} without a completion while an op was in flight; ≥ {STANDSTILL_SHARE} × the measured time: the figures \
                 describe it",
                Nanos(STANDSTILL_NS)
            ),
        ),
        "look at the kernel's log and at the device: it did not respond, or it was suspended",
    )
}
