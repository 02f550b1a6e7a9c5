//! Checks that sets, cycle and end fit together.

use std::ops::Range;

use iodyno_model::{Action, Job, Operations, Subject};

/// The location of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spot {
    /// The whole workload.
    Whole,
    /// A step, by its index.
    Step(usize),
}

/// An error of the workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CheckError {
    pub(super) spot: Spot,
    pub(super) message: String,
    pub(super) hint: Option<&'static str>,
}

/// Locations for errors that involve several keys.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// The whole workload.
    whole: Range<usize>,
    /// Each step.
    pub(super) steps: Vec<Range<usize>>,
    /// Whether a step or a set is invalid: it may contain what the others lack.
    pub(super) incomplete: bool,
}

impl Places {
    pub(super) fn new(whole: Range<usize>) -> Self {
        Self {
            whole,
            ..Self::default()
        }
    }

    pub(super) fn of(&self, spot: Spot) -> Range<usize> {
        match spot {
            Spot::Whole => self.whole.clone(),
            Spot::Step(step) => self.steps.get(step).cloned().unwrap_or_default(),
        }
    }
}

/// The errors of a job. `end_is_said`: an end condition was given, although it may be invalid.
pub(super) fn check(job: &Job, end_is_said: bool) -> Vec<CheckError> {
    let Some(operations) = job.work.file_operations() else {
        return Vec::new();
    };
    let mut faults: Vec<CheckError> = operations.faults().into_iter().map(placed).collect();
    let hint = hint(operations);
    for fault in &mut faults {
        fault.hint = hint.filter(|_| fault.spot == Spot::Whole);
    }
    let ends = end_is_said || ends(job, operations);
    if !operations.cycle.is_empty() && !ends {
        faults.push(CheckError {
            spot: Spot::Whole,
            message: "nothing ends the workload".to_owned(),
            hint: Some("give it a duration, such as 10s, or a largest number of ops"),
        });
    }
    faults
}

/// Replaces the step in the text of the model, `step 3 (close): …`, by its location.
fn placed(fault: String) -> CheckError {
    let step = fault.strip_prefix("step ").and_then(|rest| {
        let (number, rest) = rest.split_once(" (")?;
        let index = number.parse::<usize>().ok()?.checked_sub(1)?;
        Some((index, rest.split_once("): ")?.1.to_owned()))
    });
    let (spot, message) = match step {
        Some((index, message)) => (Spot::Step(index), message),
        None => (Spot::Whole, fault),
    };
    CheckError {
        spot,
        message,
        hint: None,
    }
}

fn hint(operations: &Operations) -> Option<&'static str> {
    if operations.cycle.is_empty() {
        return Some("add a step: a line `[[cycle]]`, then `op = \"create\"` and `timed = true`");
    }
    let timed = operations.cycle.iter().any(|step| step.timed);
    (!timed).then_some("write `timed = true` in the steps whose time counts")
}

/// Whether the job has an end: a time, a number of cycles, or a set that is used up.
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
