//! Carries out a plan here, for `run` and for `fio`: store, signals, node, exit code.

use std::path::Path;

use iodyno_lab::{Ended, Lab, Progress, ResumeError, RunEnd};
use iodyno_model::{Diagnostic, Plan, RunId, RunState, Target};
use iodyno_runner::{Cancel, NodeCommand};
use iodyno_store::SqliteStore;
use iodyno_target::Roots;

use crate::context::{Context, store_fault};
use crate::exit::Exit;
use crate::failure::{Failure, reason};
use crate::logging;
use crate::progress::Reporter;
use crate::signals::{self, Request};

/// Who wants to know of a run beside the progress.
pub(crate) trait Audience {
    /// Something happened. Called for everything, the ends of trials included.
    fn told(&mut self, progress: &Progress<'_>) -> Result<(), Failure>;
}

/// What is carried out.
pub(crate) enum Begin<'a> {
    /// A new run.
    New(&'a Plan),
    /// A run that was cut off, perhaps with more rounds.
    Resume {
        /// Which.
        run: RunId,
        /// As many in all.
        rounds: Option<u32>,
    },
}

/// A run that was carried out.
pub(crate) struct Carried {
    /// How it came out.
    pub(crate) end: RunEnd,
    /// What that means for the exit code.
    pub(crate) exit: Exit,
}

/// `--destroy` of what the run does not touch: most likely a slip of the pen.
fn unmet_destroys(plan: &Plan) -> Vec<Diagnostic> {
    let jobs = || plan.workloads.iter().flat_map(|workload| &workload.jobs);
    let touched = |device: &Path| {
        plan.configurations
            .iter()
            .any(|configuration| match &configuration.target {
                Target::Path(path) => path == device,
                Target::AsWritten { folder } => jobs()
                    .flat_map(|job| &job.files.names)
                    .any(|name| folder.join(name) == *device),
            })
    };
    let unmet = plan.destroy.iter().filter(|device| !touched(device));
    unmet
        .map(|device| {
            let device = device.display();
            Diagnostic::warning(format!("`--destroy {device}` names no target of this run"))
                .hint("name the device as the job or `--on` does")
        })
        .collect()
}

/// Carries out every trial of a plan, showing progress and telling `audience`.
///
/// An audience that cannot go on (its output is full) does not end the run: what is measured is
/// still stored.
pub(crate) fn carry_out(
    begin: Begin<'_>,
    store: &SqliteStore,
    context: &Context,
    mut reporter: Reporter<'_>,
    audience: &mut dyn Audience,
) -> Result<Carried, Failure> {
    if let Begin::New(plan) = begin {
        context.tell(&unmet_destroys(plan));
    }
    let cancel = Cancel::new();
    let _watch = watch_signals(&cancel, context)?;
    let mut node = NodeCommand::local().map_err(|error| {
        Failure::one(Diagnostic::error(format!(
            "cannot find this program: {}",
            reason(&error)
        )))
    })?;
    node.arguments
        .extend(logging::node_flags(context.verbose).map(Into::into));
    let lab = Lab {
        store,
        store_stack: iodyno_target::stack::describe(store.path(), &Roots::host()).stack,
        node: &node,
        cancel: &cancel,
    };
    let mut exit = Exit::Fine;
    let mut failed = None;
    let mut observer = |progress: Progress<'_>| {
        reporter.show(&progress);
        if let Progress::Ended(ended) = &progress {
            exit = exit.max(exit_of(ended, &cancel));
            context.tell(ended.faults);
        }
        if let Err(failure) = audience.told(&progress) {
            failed.get_or_insert(failure);
        }
    };
    let end = match begin {
        Begin::New(plan) => iodyno_lab::carry_out(plan, &lab, &mut observer)?,
        Begin::Resume { run, rounds } => {
            iodyno_lab::resume(run, rounds, &lab, &mut observer).map_err(resume_failure)?
        }
    };
    context.screen.clear();
    if end.state == RunState::Interrupted {
        exit = exit.max(Exit::Interrupted);
    }
    if let Some(error) = &end.unstored {
        let mut fault = store_fault(error, iodyno_model::Severity::Error);
        fault.message = format!(
            "run {} is not stored as a whole: {}",
            end.handle.alias, fault.message
        );
        context.tell(&[fault]);
        exit = exit.max(Exit::CheckFailed);
    }
    match failed {
        Some(failure) => Err(Failure {
            exit: exit.max(failure.exit),
            ..failure
        }),
        None => Ok(Carried { end, exit }),
    }
}

fn resume_failure(error: ResumeError) -> Failure {
    match error {
        ResumeError::Store(error) => error.into(),
        other => Failure::one(Diagnostic {
            hint: other.hint(),
            ..Diagnostic::error(other.to_string())
        }),
    }
}

fn exit_of(ended: &Ended<'_>, cancel: &Cancel) -> Exit {
    Exit::of_trial(ended.trial, cancel.is_cancelled())
}

fn watch_signals(cancel: &Cancel, context: &Context) -> Result<signals::Watch, Failure> {
    let (cancel, screen) = (cancel.clone(), context.screen.clone());
    signals::watch(move |request| match request {
        Request::Finish => {
            cancel.finish();
            screen.note("ending early; what was measured is kept. Interrupt again to abort.");
        }
        Request::Abort => {
            cancel.abort();
            screen.note("aborting");
        }
        Request::Leave => {
            screen.note("leaving; what was made is removed in the background, where it can be");
            leave();
        }
    })
    .map_err(|error| {
        Failure::one(Diagnostic::error(format!(
            "cannot watch for signals: {}",
            reason(&error)
        )))
    })
}

/// Something hangs that two requests could not end; the store has every frame already.
#[allow(clippy::exit)]
fn leave() -> ! {
    std::process::exit(i32::from(Exit::Interrupted.code()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_model::{Configuration, Job, Workload};
    use std::path::PathBuf;

    #[test]
    fn warns_of_a_destroy_that_the_run_does_not_touch() {
        for (target, name, destroy, warned) in [
            ("/dev/loop9", "", "/dev/loop9", false),
            ("/dev/loop9", "", "/dev/loop8", true),
            ("", "/dev/loop9", "/dev/loop9", false),
            ("", "loop9", "/dev/loop9", false),
            ("", "loop9", "/dev/loop8", true),
        ] {
            let mut job = Job::default();
            job.files.names = vec![PathBuf::from(name)];
            let target = match target {
                "" => Target::AsWritten {
                    folder: PathBuf::from("/dev"),
                },
                path => Target::Path(PathBuf::from(path)),
            };
            let plan = Plan {
                destroy: vec![PathBuf::from(destroy)],
                ..Plan::new(
                    "",
                    vec![Configuration::new("", target)],
                    vec![Workload::new("", Vec::new(), vec![job])],
                )
            };
            assert_eq!(
                unmet_destroys(&plan).len(),
                usize::from(warned),
                "{destroy}"
            );
        }
    }
}
