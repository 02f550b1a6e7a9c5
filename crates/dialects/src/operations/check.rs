//! Whether sets, cycle and end fit together.

use iodyno_model::{Action, Job, Operations, Subject};

/// What a fault is a fault of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spot {
    /// The workload as a whole.
    Whole,
    /// A step, by its index.
    Step(usize),
}

/// Something that cannot be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) spot: Spot,
    pub(super) message: String,
    pub(super) hint: String,
}

impl Fault {
    fn new(spot: Spot, message: impl Into<String>, hint: impl Into<String>) -> Fault {
        Fault {
            spot,
            message: message.into(),
            hint: hint.into(),
        }
    }
}

/// What cannot be carried out.
pub(super) fn check(job: &Job) -> Vec<Fault> {
    let Some(operations) = &job.operations else {
        return Vec::new();
    };
    if operations.cycle.is_empty() {
        let hint = "add a step: a line `[[cycle]]`, then `op = \"create\"` and `timed = true`";
        return vec![Fault::new(Spot::Whole, "there is no `[[cycle]]`", hint)];
    }
    let mut faults = Vec::new();
    if !operations.cycle.iter().any(|step| step.timed) {
        let hint = "write `timed = true` in the steps whose time counts";
        faults.push(Fault::new(Spot::Step(0), "no step is timed", hint));
    }
    if !ends(job, operations) {
        let hint = "add `duration = \"10s\"` or `max-ops = 1000`";
        faults.push(Fault::new(Spot::Whole, "nothing ends it", hint));
    }
    faults
}

/// Something ends the job: a time, a number of cycles, or a set that is used up.
fn ends(job: &Job, operations: &Operations) -> bool {
    let uses_up = operations.cycle.iter().any(|step| {
        matches!(
            &step.action,
            Action::Unlink {
                of: Subject::Set { .. }
            }
        )
    });
    job.end.runtime.is_some() || job.end.ops.is_some() || uses_up
}
