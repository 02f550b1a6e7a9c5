//! Why a trial does not start, and diagnostics that name a job.

use iodyno_guard::AdmitError;
use iodyno_model::{Admission, BoundPlan, Diagnostic, Job, TargetUse};

/// Why a trial does not start.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PrepareError {
    /// The guard refused a target, or the target is not suitable for the jobs. Nothing was changed.
    Refused(Vec<Diagnostic>),
    /// It cannot be run on this host.
    Unprepared(Vec<Diagnostic>),
    /// It was stopped.
    Withdrawn,
}

impl PrepareError {
    /// Faults that were found before anything was changed. For jobs that use a target as it is (file operations and
    /// shared files), such faults are a refusal.
    pub(crate) fn untouched(plan: &BoundPlan, faults: Vec<Diagnostic>) -> PrepareError {
        let mut jobs = plan.workload.jobs.iter();
        match jobs.any(|job| job.work.blocks().is_none()) {
            true => PrepareError::Refused(faults),
            false => PrepareError::Unprepared(faults),
        }
    }
}

/// An error with its remedy.
pub(crate) fn fault(message: impl Into<String>, hint: impl Into<String>) -> Diagnostic {
    Diagnostic::error(message).hint(hint)
}

/// The guard's answer, with the reason as a diagnostic.
pub(crate) fn admission(examined: Result<TargetUse, AdmitError>) -> Admission {
    match examined {
        Ok(used) => Admission::Granted(used),
        Err(error) => {
            let why = error.diagnostic();
            match error.needs_destroy() {
                true => Admission::NeedsDestroy(why),
                false => Admission::Refused(why),
            }
        }
    }
}

/// Adds the place of a job.
pub(crate) fn at_job(diagnostic: Diagnostic, job: &Job) -> Diagnostic {
    match &job.place {
        Some(place) => diagnostic.at(place.clone()),
        None => diagnostic,
    }
}

/// Adds the name and place of a job.
pub(crate) fn of_job(diagnostic: Diagnostic, job: &Job) -> Diagnostic {
    let message = format!("job `{}`: {}", job.name, diagnostic.message);
    at_job(
        Diagnostic {
            message,
            ..diagnostic
        },
        job,
    )
}
