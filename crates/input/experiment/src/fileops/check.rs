//! Checks that sets, cycle and end fit together.

use std::ops::Range;

use iodyno_model::{Action, Job, Operations, Subject};

/// An error of the workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CheckError {
    /// The index of its step; `None`: it concerns the whole workload.
    pub(super) step: Option<usize>,
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

    pub(super) fn of(&self, step: Option<usize>) -> Range<usize> {
        match step {
            None => self.whole.clone(),
            Some(step) => self.steps.get(step).cloned().unwrap_or_default(),
        }
    }
}

/// The errors of a job. `end_is_said`: an end condition was given, although it may be invalid.
pub(super) fn check(job: &Job, end_is_said: bool) -> Vec<CheckError> {
    let Some(operations) = job.work.file_operations() else {
        return Vec::new();
    };
    let hint = hint(operations);
    let faults = operations.faults().into_iter().map(|fault| {
        let step = fault.step.map(|(index, _)| index);
        CheckError {
            step,
            message: fault.message,
            hint: hint.filter(|_| step.is_none()),
        }
    });
    let mut faults: Vec<CheckError> = faults.collect();
    let ends = end_is_said || ends(job, operations);
    if !operations.cycle.is_empty() && !ends {
        faults.push(CheckError {
            step: None,
            message: "nothing ends the workload".to_owned(),
            hint: Some("give it a duration, such as 10s, or a largest number of ops"),
        });
    }
    faults
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
