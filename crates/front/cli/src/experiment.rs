//! Runs a plan on this host, for all commands that measure: store, signals, node, exit code.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use iodyno_host::Roots;
use iodyno_lab::{
    Ended, Lab, LabNode, PROBE, Permission, Progress, ResumeError, RunEnd, StopReason,
};
use iodyno_model::printable::on_one_line;
use iodyno_model::{Diagnostic, ExportUri, Plan, RunId, Severity, StopRequest, Target};
use iodyno_runner::{Event, StopFlag};
use iodyno_store::SqliteStore;
use iodyno_units::{Nanos, counted};

use crate::begun;
use crate::commands::clean_before_run;
use crate::context::{Context, store_fault};
use crate::duration::longest;
use crate::exit::Exit;
use crate::failed_io::failed_blocks;
use crate::failure::{Failure, reason};
use crate::progress::Reporter;
use crate::rounds::too_short_by_probe;
use crate::selection::part;
use crate::signals::{self, Caught};

/// Receives the events of a run in addition to the progress display.
pub(crate) trait RunObserver {
    /// Called for every event, including the ends of trials.
    fn on_progress(&mut self, progress: &Progress<'_>) -> Result<(), Failure>;

    /// Called for SIGUSR1, with the next event that has data. Returns whether it printed the state; if not, the
    /// progress display prints a line.
    fn on_status_request(&mut self, _progress: &Progress<'_>) -> Result<bool, Failure> {
        Ok(false)
    }

    /// Whether the command fails if its results cannot be stored. Otherwise there is a warning.
    fn needs_store(&self) -> bool {
        true
    }
}

/// How a run starts.
pub(crate) enum Begin<'a> {
    /// A new run.
    New(&'a Plan),
    /// Resume an interrupted run, or extend it by further rounds.
    Resume {
        /// The run.
        run: RunId,
        /// Its plan, with the permissions to overwrite data.
        plan: &'a Plan,
        /// Total number of rounds; `None` keeps the plan's.
        rounds: Option<u32>,
        /// The permissions of this invocation.
        permission: &'a Permission,
    },
}

/// A run that has ended.
pub(crate) struct EndedRun {
    /// How it ended.
    pub(crate) end: RunEnd,
    /// The exit code for it.
    pub(crate) exit: Exit,
    /// Whether the store's file was removed or renamed during the run.
    pub(crate) store_gone: bool,
}

/// Refuses a plan whose jobs run commands, unless this invocation allows it.
pub(crate) fn commands_allowed(plan: &Plan, allowed: bool) -> Result<(), Failure> {
    let jobs = plan.workloads.iter().flat_map(|workload| &workload.jobs);
    let commands = jobs.flat_map(|job| {
        let keys = [
            ("exec_prerun", &job.exec_prerun),
            ("exec_postrun", &job.exec_postrun),
        ];
        keys.into_iter()
            .filter_map(move |(key, command)| Some((job, key, command.as_ref()?)))
    });
    let faults: Vec<Diagnostic> = commands
        .map(|(job, key, command)| {
            let message = format!("job `{}` runs a command: `{key}={command}`", job.name);
            let fault =
                Diagnostic::error(on_one_line(&message)).hint("allow it with `--allow-exec`");
            match &job.place {
                Some(place) => fault.at(place.clone()),
                None => fault,
            }
        })
        .collect();
    match allowed || faults.is_empty() {
        true => Ok(()),
        false => Err(Failure {
            exit: Exit::Refused,
            faults,
        }),
    }
}

/// Warnings for `--destroy` paths that are not targets of the run: probably a typing error.
pub(crate) fn unmet_destroys(plan: &Plan) -> Vec<Diagnostic> {
    let unmet = plan.destroy.iter().filter(|device| !destroys(plan, device));
    unmet
        .map(|device| {
            let device = device.display();
            Diagnostic::warning(format!("`--destroy {device}` is not a target of this run"))
                .hint("write the path as in the job file or in `--on`")
        })
        .collect()
}

/// Whether a device that may be overwritten is a target of the run.
pub(crate) fn destroys(plan: &Plan, device: &Path) -> bool {
    let jobs = || plan.workloads.iter().flat_map(|workload| &workload.jobs);
    let mut exports = jobs().filter_map(|job| job.work.engine()?.export.as_ref());
    let named: Option<ExportUri> = device.to_str().and_then(|text| text.parse().ok());
    if named.is_some_and(|uri| exports.any(|export| *export == uri)) {
        return true;
    }
    plan.configurations
        .iter()
        .any(|configuration| match &configuration.target {
            Target::Path(path) => path == device,
            Target::Made(provision) => provision.paths().iter().any(|path| path == device),
            Target::Simulated(_) => false,
            Target::AsWritten { folder } => jobs()
                .filter_map(|job| job.work.blocks())
                .flat_map(|blocks| &blocks.files.names)
                .any(|name| folder.join(name) == *device),
        })
}

/// Runs every trial of a plan, showing progress and passing events to `observer`.
///
/// An observer that fails, for example because its output is full, does not end the run: the results
/// are still stored.
pub(crate) fn carry_out(
    begin: Begin<'_>,
    store: &SqliteStore,
    context: &Context,
    mut reporter: Reporter<'_>,
    observer: &mut dyn RunObserver,
) -> Result<EndedRun, Failure> {
    let (Begin::New(plan) | Begin::Resume { plan, .. }) = &begin;
    context.tell(&unmet_destroys(plan));
    let stop = StopFlag::new();
    let status_wanted = Arc::new(AtomicBool::new(false));
    let _watch = watch_signals(&stop, &status_wanted, context)?;
    let nodes = context.nodes()?.list();
    ready_hosts(&begin, &nodes, &store.files(), &stop, context)?;
    let lab = Lab {
        store,
        store_files: store.files(),
        store_stack: store.path().map_or_else(Vec::new, |path| {
            iodyno_host::stack::describe(path, &Roots::host()).stack
        }),
        nodes,
        stop: &stop,
    };
    if let Begin::New(plan) = &begin
        && plan.probe
    {
        probe(plan, &lab, &mut reporter, context)?;
    }
    let store_file = store.path().and_then(|path| Some((path, file_at(path)?)));
    // If the caller's exit code does not depend on the store, this is a warning.
    let (severity, unstored) = match observer.needs_store() {
        true => (Severity::Error, Exit::CheckFailed),
        false => (Severity::Warning, Exit::Fine),
    };
    let mut exit = Exit::Fine;
    let mut failed = None;
    let mut blocks_named = false;
    let mut reported = Vec::new();
    let new = match &begin {
        Begin::New(plan) => store.path().map(|_| *plan),
        Begin::Resume { .. } => None,
    };
    let mut on_progress = |progress: Progress<'_>| {
        // The plan as made here, not as stored: another user's store can return another plan.
        if let (Progress::Begun(handle), Some(planned)) = (&progress, new) {
            begun::record(handle.id, planned);
        }
        let has_data = matches!(
            progress,
            Progress::Node(Event::Frame(_) | Event::Progress { .. })
        );
        if has_data && status_wanted.swap(false, Ordering::Relaxed) {
            match observer.on_status_request(&progress) {
                Ok(true) => {}
                Ok(false) => reporter.print_next(),
                Err(failure) => _ = failed.get_or_insert(failure),
            }
        }
        reporter.show(&progress);
        if let Progress::NotUndone(_) = &progress {
            exit = exit.max(Exit::CheckFailed);
        }
        if let Progress::Ended(ended) = &progress {
            if !ended.repeated {
                exit = exit.max(exit_of(ended, &stop));
            }
            tell_faults(ended, &mut reported, context);
            // Bad blocks of further trials are only counted.
            let bad = failed_blocks(ended.workload, ended.trial, !blocks_named);
            blocks_named |= !bad.is_empty();
            context.tell(&bad);
        }
        if let Err(failure) = observer.on_progress(&progress) {
            failed.get_or_insert(failure);
        }
    };
    let end = match begin {
        Begin::New(plan) => iodyno_lab::carry_out(plan, &lab, &mut on_progress)?,
        Begin::Resume {
            run,
            rounds,
            permission,
            ..
        } => iodyno_lab::resume(run, rounds, permission, &lab, &mut on_progress)
            .map_err(resume_failure)?,
    };
    context.screen.clear();
    if end.stopped == StopReason::Cancelled {
        exit = exit.max(Exit::Interrupted);
    }
    if let Some(error) = &end.unstored {
        let mut fault = store_fault(error, severity);
        fault.message = format!(
            "run {} is only partly stored: {}",
            end.handle.alias, fault.message
        );
        context.tell(&[fault]);
        exit = exit.max(unstored);
    }
    let gone = store_file.filter(|(path, before)| file_at(path) != Some(*before));
    if let Some((path, before)) = gone {
        let fault = store_gone(path, before);
        context.tell(&[Diagnostic { severity, ..fault }]);
        exit = exit.max(unstored);
    }
    match failed {
        Some(failure) => Err(Failure {
            exit: exit.max(failure.exit),
            ..failure
        }),
        None => Ok(EndedRun {
            end,
            exit,
            store_gone: gone.is_some(),
        }),
    }
}

/// Undoes storage that earlier runs left on the nodes, and refuses a run that cannot start or has too little space.
fn ready_hosts(
    begin: &Begin<'_>,
    nodes: &[LabNode<'_>],
    store_files: &[PathBuf],
    stop: &StopFlag,
    context: &Context,
) -> Result<(), Failure> {
    let plan = match begin {
        Begin::New(plan) => part(plan, None),
        Begin::Resume {
            plan, permission, ..
        } => part(plan, permission.cells.as_ref()),
    };
    let mut configurations = plan.configurations.iter();
    if configurations.any(|one| one.provision().is_some()) {
        for node in nodes.iter().filter(|node| !node.only_sampled) {
            clean_before_run(node, stop, context);
        }
    }
    let mut faults = iodyno_lab::obstacles(&plan, nodes, store_files, stop);
    faults.extend(iodyno_lab::untraceable(&plan, nodes, stop));
    // A single trial checks it itself, and is stored.
    if faults.is_empty() && matches!(begin, Begin::New(_)) && plan.cells() > 1 {
        faults = iodyno_lab::shortages(&plan, 0..plan.cells(), nodes, stop);
    }
    match faults.is_empty() {
        true => Ok(()),
        false => Err(Failure {
            exit: Exit::Refused,
            faults,
        }),
    }
}

/// Prints the errors of a trial that were not `reported` before: failed trials are repeated.
fn tell_faults(ended: &Ended<'_>, reported: &mut Vec<Diagnostic>, context: &Context) {
    let faults = ended.faults.iter();
    let new: Vec<Diagnostic> = faults
        .filter(|fault| !reported.contains(fault))
        .cloned()
        .collect();
    if new.is_empty() && !ended.faults.is_empty() {
        context.note(&format!("trial {}: the same error", ended.number));
    }
    context.tell(&new);
    reported.extend(new);
}

/// Tries out each cell, and prints the estimated time of the run.
fn probe(
    plan: &Plan,
    lab: &Lab<'_>,
    reporter: &mut Reporter<'_>,
    context: &Context,
) -> Result<(), Failure> {
    let probed = iodyno_lab::probe(plan, lab, &mut |progress| reporter.show(&progress));
    context.screen.clear();
    let faults: Vec<Diagnostic> = probed
        .iter()
        .flat_map(|one| one.faults.iter().cloned())
        .collect();
    if !faults.is_empty() {
        let exit = Exit::CheckFailed;
        return Err(Failure { exit, faults });
    }
    let spent: u64 = probed.iter().map(|one| one.span_ns).sum();
    let estimates = probed.iter().map(|one| {
        let (_, workload) = plan.cell(one.cell);
        let measured = longest(workload)?;
        let tried = measured.min(PROBE);
        let once = one.span_ns.saturating_sub(tried.0) + measured.0;
        let rounds = workload.rounds.unwrap_or(plan.rounds).min(plan.rounds);
        Some((once, once.saturating_mul(rounds.into())))
    });
    let estimates: Option<Vec<(u64, u64)>> = estimates.collect();
    let estimates = estimates.unwrap_or_default();
    let round = estimates.iter().map(|(once, _)| once).sum();
    let all = estimates.iter().map(|(_, all)| all).sum();
    let estimate = match round {
        0 => String::new(),
        _ => format!(
            "; the first round will take about {}, and all trials {}",
            Nanos(round),
            Nanos(all)
        ),
    };
    let trials = counted(probed.len() as u64, "trial");
    if !lab.stop.is_set() {
        context.note(&format!("probe: {trials} in {}{estimate}", Nanos(spent)));
        context.tell(&Vec::from_iter(too_short_by_probe(plan, round)));
    }
    Ok(())
}

/// The error for a store whose file (device and inode) is no longer at its path. Names the new path if it is known.
fn store_gone(path: &Path, file: (u64, u64)) -> Diagnostic {
    let path = path.display();
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    let found = open.flatten().find_map(|entry| {
        let same = file_at(&entry.path()) == Some(file);
        same.then(|| std::fs::read_link(entry.path()).ok())?
    });
    match found {
        Some(now) if file_at(&now) == Some(file) => {
            let now = now.display();
            let message =
                format!("the store is no longer at `{path}`: the run was stored in `{now}`");
            Diagnostic::error(message).hint(format!(
                "use it with `--store {now}`, after its `-wal` file was moved beside it"
            ))
        }
        _ => {
            let message = format!(
                "the store is no longer at `{path}`: it was removed, with the results of this run"
            );
            Diagnostic::error(message)
                .hint("only the printed results remain; do not remove a store while a run uses it")
        }
    }
}

/// Device and inode of the file at a path, if there is one.
fn file_at(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let metadata = path.metadata().ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// The failure of a run that cannot be resumed.
pub(crate) fn resume_failure(error: ResumeError) -> Failure {
    match error {
        ResumeError::Store(error) => error.into(),
        ResumeError::Shortages { shortages, .. } => Failure {
            exit: Exit::Refused,
            faults: shortages,
        },
        other => Failure::one(Diagnostic {
            hint: other.hint(),
            ..Diagnostic::error(other.to_string())
        }),
    }
}

fn exit_of(ended: &Ended<'_>, stop: &StopFlag) -> Exit {
    Exit::of_trial(ended.trial, stop.is_set())
}

fn watch_signals(
    stop: &StopFlag,
    status_wanted: &Arc<AtomicBool>,
    context: &Context,
) -> Result<signals::Watch, Failure> {
    let (stop, screen) = (stop.clone(), context.screen.clone());
    let status_wanted = Arc::clone(status_wanted);
    signals::watch(move |signal| {
        let request = match signal {
            Caught::Stop(request) => request,
            // A step without ops can take long until its next event.
            Caught::Status => {
                let reported = screen.note_step();
                return status_wanted.store(!reported, Ordering::Relaxed);
            }
            Caught::Exit => {
                screen
                    .note("exiting; files of the trial are removed in the background if possible");
                Exit::leave();
            }
        };
        stop.request(request);
        screen.note(match request {
            StopRequest::Abort => "aborting",
            _ => "ending early; results so far are kept. Interrupt again to abort.",
        });
    })
    .map_err(|error| {
        Failure::one(Diagnostic::error(format!(
            "cannot watch for signals: {}",
            reason(&error)
        )))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_model::{Configuration, Job, Workload};
    use std::path::PathBuf;

    #[test]
    fn warns_of_a_destroy_path_that_is_not_a_target() {
        for (target, name, destroy, warned) in [
            ("/dev/loop9", "", "/dev/loop9", false),
            ("/dev/loop9", "", "/dev/loop8", true),
            ("", "/dev/loop9", "/dev/loop9", false),
            ("", "loop9", "/dev/loop9", false),
            ("", "loop9", "/dev/loop8", true),
        ] {
            let mut job = Job::default();
            job.work.blocks_mut().unwrap().files.names = vec![PathBuf::from(name)];
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
