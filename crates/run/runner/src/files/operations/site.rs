//! The place of a trial's file operations, from the creation of its folder to its removal.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use iodyno_engine::operations::{OperationsPart, misplaced};
use iodyno_engine::shell;
use iodyno_guard::{Guard, Intent, OpenFlags, Request};
use iodyno_host::{Roots, space};
use iodyno_model::{
    Admission, BoundPlan, Diagnostic, FileState, Job, Operations, Severity, StopRequest,
};
use rustix::fs::{Mode, fchmod, fsync};
use rustix::io::retry_on_intr;

use super::folder::{self, OpenFolder};
use super::leftovers::{kill_processes, removal};
use super::remove::Remover;
use super::room::RoomNeeded;
use super::sets::{self, Place, Progress, Talk};
use super::{Tell, folder::MARKER};
use crate::faults::{self, PrepareError};
use crate::resolve::operations_folder;
use crate::resolve::seeds;

/// The longest time for all commands that clean up after the user aborted the trial.
const AFTER_ABORT: Duration = Duration::from_secs(10);

/// The trial's own folder, with the folders of its jobs.
#[derive(Debug)]
pub(crate) struct Site {
    own: OpenFolder,
    works: Vec<Work>,
    notes: Vec<String>,
    /// Whether any job runs commands.
    commands: bool,
    /// The commands to run before the folder is removed.
    cleanup: Vec<Once>,
    removed: bool,
}

/// The folders of a job.
#[derive(Debug)]
struct Work {
    /// Its index in the workload.
    job: usize,
    /// One folder for all clones, or one for each clone.
    folders: Vec<OwnedFd>,
    paths: Vec<PathBuf>,
    unfinished: Arc<AtomicU32>,
}

fn jobs(plan: &BoundPlan) -> impl Iterator<Item = (usize, &Job, &Operations)> {
    let jobs = plan.workload.jobs.iter().enumerate();
    jobs.filter_map(|(index, job)| Some((index, job, job.work.file_operations()?)))
}

impl Site {
    /// Whether any job does file operations.
    pub(crate) fn wanted(plan: &BoundPlan) -> bool {
        jobs(plan).next().is_some()
    }

    /// Whether any job has files to be laid out.
    pub(crate) fn lays_out(plan: &BoundPlan) -> bool {
        jobs(plan).any(|(_, _, operations)| {
            let command = operations.command.as_ref();
            !operations.sets.is_empty() || command.is_some_and(|it| it.prepare.is_some())
        })
    }

    /// The user's folder that contains it.
    pub(crate) fn folder(plan: &BoundPlan) -> Option<PathBuf> {
        Site::wanted(plan).then(|| operations_folder(plan))
    }

    /// The guard's answer for the folder.
    pub(crate) fn forecast(plan: &BoundPlan) -> Option<(PathBuf, Admission)> {
        let folder = Site::folder(plan)?;
        let admission = guard().examine(&request(&folder));
        Some((folder, faults::admission(admission)))
    }

    /// The space and inodes that the trial lacks now; empty where the free space is unknown.
    pub(crate) fn shortages(plan: &BoundPlan) -> Vec<Diagnostic> {
        match Site::folder(plan).filter(|folder| space::room(folder).is_ok()) {
            Some(folder) => RoomNeeded::of(plan).shortages(&folder),
            None => Vec::new(),
        }
    }

    /// Has the target admitted, checks free space and creates the folders. `None`: no job needs a folder.
    ///
    /// # Errors
    /// Nothing was created, or it was removed again.
    pub(crate) fn make(plan: &BoundPlan) -> Result<Option<Site>, PrepareError> {
        if !Site::wanted(plan) {
            return Ok(None);
        }
        let at = &operations_folder(plan);
        let target = admit(at)?;
        let needed = RoomNeeded::of(plan);
        let shortages = needed.shortages(at);
        if !shortages.is_empty() {
            return Err(PrepareError::Refused(shortages));
        }
        let name = folder::folder_name(plan);
        let mut notes = folder::others(target.as_fd(), at, &name).unwrap_or_default();
        let free = space::room(at).map_or(u64::MAX, |room| room.bytes);
        notes.extend(needed.outgrows(at, free));
        let own = OpenFolder::make(target, at, name.clone()).map_err(|error| {
            let path = at.join(&name);
            match error.kind() {
                io::ErrorKind::AlreadyExists => {
                    let message = format!(
                        "`{}` already exists, and a trial only uses a folder that it created",
                        path.display()
                    );
                    let hint = format!("check what is in it, then remove it: {}", removal(&path));
                    PrepareError::Refused(vec![Diagnostic::error(message).hint(hint)])
                }
                // The trial's own folder is created first.
                kind if refuses(kind) => PrepareError::Refused(vec![not_made(&path, &error)]),
                _ => PrepareError::Unprepared(vec![not_made(&path, &error)]),
            }
        })?;
        let commands = jobs(plan).any(|(_, _, operations)| operations.command.is_some());
        if commands {
            // A command may run as another user, who then has to reach the folders below.
            fchmod(&own.folder, Mode::from_raw_mode(0o711)).ok();
        }
        let mut site = Site {
            own,
            works: Vec::new(),
            notes,
            commands,
            cleanup: Vec::new(),
            removed: false,
        };
        for (index, job, operations) in jobs(plan) {
            if let Err((path, error)) = site.add(index, job, operations) {
                let left = site.tear_down(&|| StopRequest::No, &mut |_, _| {});
                let faults = [not_made(&path, &error)].into_iter().chain(left);
                return Err(PrepareError::Unprepared(faults.collect()));
            }
        }
        Ok(Some(site))
    }

    /// Creates the folders of a job.
    fn add(
        &mut self,
        index: usize,
        job: &Job,
        operations: &Operations,
    ) -> Result<(), (PathBuf, io::Error)> {
        let name = format!("job{index}");
        let path = self.own.path.join(&name);
        let make = |parent: &OwnedFd, name: &str, path: &Path| {
            OpenFolder::make_below(parent.as_fd(), name).map_err(|error| (path.to_owned(), error))
        };
        let folder = make(&self.own.folder, &name, &path)?;
        let (mut folders, mut paths) = (Vec::new(), Vec::new());
        if operations.own_folders {
            for clone in 0..job.clones.max(1) {
                let name = format!("clone{clone}");
                let path = path.join(&name);
                folders.push(make(&folder, &name, &path)?);
                paths.push(path);
            }
        } else {
            folders.push(folder);
            paths.push(path);
        }
        self.works.push(Work {
            job: index,
            folders,
            paths,
            unfinished: Arc::new(AtomicU32::new(job.clones.max(1))),
        });
        Ok(())
    }

    /// The folders and names for a clone of a job; `None` for jobs without file operations.
    ///
    /// # Errors
    /// Its folder cannot be opened again: too many open files, or it was removed.
    pub(crate) fn part(&self, job: u32, clone: u32) -> Result<Option<OperationsPart>, Diagnostic> {
        let Some(work) = self.works.iter().find(|work| work.job == job as usize) else {
            return Ok(None);
        };
        let index = clone as usize % work.folders.len();
        let path = work.paths[index].clone();
        let folder = folder::again(work.folders[index].as_fd()).map_err(|error| {
            let message = format!("cannot open `{}`\n  cause: {error}", path.display());
            Diagnostic::error(message).hint(sets::hint(&error))
        })?;
        Ok(Some(OperationsPart {
            folder,
            path,
            // Names of sets do not contain a `~`.
            prefix: format!("new~{clone}."),
            unfinished: Arc::clone(&work.unfinished),
        }))
    }

    /// Creates the files of all sets, and runs the commands that prepare the trial. `false`: there are neither.
    ///
    /// # Errors
    /// A stop was requested, a file cannot be created, or a command failed. [`Self::tear_down`] undoes it.
    pub(crate) fn lay_out(
        &mut self,
        plan: &BoundPlan,
        stop: &dyn Fn() -> bool,
        tell: &mut dyn FnMut(u64, u64),
    ) -> Result<bool, PrepareError> {
        let files = self.make_sets(plan, stop, tell)?;
        let mut commands = false;
        for ((_, job, operations), work) in jobs(plan).zip(&self.works) {
            let Some(command) = &operations.command else {
                continue;
            };
            let once = |key: &'static str, command: &Option<String>| {
                command.clone().map(|command| Once {
                    key,
                    command,
                    folder: work.paths[0].clone(),
                    job: job.name.clone(),
                })
            };
            self.cleanup.extend(once("cleanup", &command.cleanup));
            if let Some(prepare) = once("prepare", &command.prepare) {
                commands = true;
                let ended = prepare.run(stop, tell);
                let ended = ended.map_err(|fault| PrepareError::Unprepared(vec![fault]))?;
                if !ended {
                    return Err(PrepareError::Withdrawn);
                }
            }
        }
        Ok(files || commands)
    }

    /// Creates the files of all sets. `false`: no set has files.
    fn make_sets(
        &self,
        plan: &BoundPlan,
        stop: &dyn Fn() -> bool,
        tell: &mut dyn FnMut(u64, u64),
    ) -> Result<bool, PrepareError> {
        let progress = Progress::of(jobs(plan).flat_map(|(_, _, operations)| &operations.sets));
        if !progress.any() {
            return Ok(false);
        }
        let mut talk = Talk {
            stop,
            tell,
            progress: &progress,
        };
        for ((index, job, operations), work) in jobs(plan).zip(&self.works) {
            let place = Place {
                folders: &work.folders,
                paths: &work.paths,
            };
            for (number, set) in operations.sets.iter().enumerate() {
                let seed = seeds::clone(plan.seed, job, index as u32, number as u32);
                sets::make(
                    set,
                    operations.writing,
                    place,
                    &job.buffers,
                    !seed,
                    &mut talk,
                )
                .map_err(|error| of_job(error, job))?;
            }
            let folders = work.folders.iter().chain([&self.own.folder]);
            for (folder, path) in folders.zip(work.paths.iter().chain([&self.own.path])) {
                retry_on_intr(|| fsync(folder)).map_err(|error| {
                    let message = format!("cannot sync `{}`: {error}", path.display());
                    let fault = Diagnostic::error(message).hint(sets::hint(&error.into()));
                    PrepareError::Unprepared(vec![faults::of_job(fault, job)])
                })?;
            }
        }
        let (done, total) = progress.share();
        tell(done, total);
        Ok(true)
    }

    /// The folder in which a clone works, for the result.
    pub(crate) fn path(&self, job: u32, clone: u32) -> Option<String> {
        let work = self.works.iter().find(|work| work.job == job as usize)?;
        let path = &work.paths[clone as usize % work.paths.len()];
        Some(path.display().to_string())
    }

    /// The state of the folders before the trial: for each job its folder and the content.
    pub(crate) fn states(&self, plan: &BoundPlan) -> Vec<FileState> {
        let works = jobs(plan).zip(&self.works);
        let states = works.map(|((_, _, operations), work)| {
            let sets = operations.sets.iter();
            let bytes = sets.map(|set| set.count.saturating_mul(set.size));
            let path = match work.paths.as_slice() {
                [only] => only,
                paths => paths[0].parent().unwrap_or(&self.own.path),
            };
            FileState {
                path: path.display().to_string(),
                length: bytes.fold(0, u64::saturating_add),
                unwritten: None,
                read: false,
                laid_out: !operations.sets.is_empty(),
                device: false,
            }
        });
        states.collect()
    }

    /// Notes on folders of other trials in the same target.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    /// A note if another process removed one of its folders.
    pub(crate) fn vanished(&self) -> Option<String> {
        let own = [(&self.own.folder, &self.own.path)];
        let works = self.works.iter();
        let works = works.flat_map(|work| work.folders.iter().zip(&work.paths));
        let mut all = own.into_iter().chain(works);
        let (_, path) = all.find(|(folder, _)| folder::is_gone(folder.as_fd()))?;
        Some(format!(
            "the trial's folder `{}` was removed by another process while the trial ran",
            path.display()
        ))
    }

    /// Runs the clean-up commands, kills processes that commands left running, and removes the trial's own folder with
    /// everything in it, once. Returns errors of commands, and warnings about what remains. `stop`: the user's requests.
    pub(crate) fn tear_down(
        &mut self,
        stop: &dyn Fn() -> StopRequest,
        tell: Tell<'_>,
    ) -> Vec<Diagnostic> {
        if std::mem::replace(&mut self.removed, true) {
            return Vec::new();
        }
        let mut faults = Vec::new();
        // A user who has aborted the trial already does not abort it again.
        let begun = Instant::now();
        let aborted = stop() == StopRequest::Abort;
        let stop = || match aborted {
            true => begun.elapsed() >= AFTER_ABORT,
            false => stop() == StopRequest::Abort,
        };
        for command in self.cleanup.drain(..) {
            faults.extend(match command.run(&stop, tell) {
                Ok(true) => None,
                Ok(false) => Some(command.failed("it was killed, because the run was aborted")),
                Err(fault) => Some(fault),
            });
        }
        if self.commands {
            let notes = kill_processes(&self.own.path).into_iter();
            faults.extend(notes.map(Diagnostic::warning));
        }
        self.works.clear();
        faults.extend(remove(&self.own, tell).err().map(|fault| Diagnostic {
            severity: Severity::Warning,
            ..fault
        }));
        faults
    }
}

/// A command that runs once in a trial.
#[derive(Debug)]
struct Once {
    /// Its key in an experiment.
    key: &'static str,
    command: String,
    folder: PathBuf,
    /// The name of its job.
    job: String,
}

impl Once {
    /// `false`: a stop was requested, and it was killed.
    ///
    /// # Errors
    /// It could not be run, or failed.
    fn run(&self, stop: &dyn Fn() -> bool, tell: Tell<'_>) -> Result<bool, Diagnostic> {
        let mut stopped = || {
            // A command that takes long is not stuck.
            tell(0, 0);
            stop()
        };
        let cause = match shell::run(&self.command, &self.folder, &mut stopped) {
            Ok(None) => return Ok(false),
            Ok(Some(ended)) if ended.status.success() => return Ok(true),
            Ok(Some(ended)) => ended.failure(),
            Err(error) => error.to_string(),
        };
        Err(Diagnostic {
            hint: misplaced(&self.command, &self.folder),
            ..self.failed(&cause)
        })
    }

    fn failed(&self, cause: &str) -> Diagnostic {
        let Once {
            key, command, job, ..
        } = self;
        Diagnostic::error(format!(
            "`{key}` of workload `{job}` failed: `{command}`\n  cause: {cause}"
        ))
    }
}

/// Removes a trial's folder. Returns the number of files and folders in it.
pub(super) fn remove(own: &OpenFolder, tell: Tell<'_>) -> Result<u64, Diagnostic> {
    let remover = Remover::new(tell);
    let (target, folder) = (own.target.as_fd(), own.folder.as_fd());
    remover
        .remove(target, &own.name, folder, MARKER)
        .map_err(|(name, error)| {
            let message = format!(
                "the trial's folder `{}` could not be removed: `{name}`: {error}",
                own.path.display()
            );
            let path = folder::real_path(own.folder.as_fd(), &own.path);
            let hint = format!("remove it: {}", removal(&path));
            Diagnostic::error(message).hint(hint)
        })
}

fn guard() -> Guard {
    Guard::new(Roots::host())
}

fn request(at: &Path) -> Request<'_> {
    Request {
        path: at,
        intent: Intent::WRITE,
        flags: OpenFlags::default(),
        named: true,
        destroy: &[],
    }
}

fn admit(at: &Path) -> Result<OwnedFd, PrepareError> {
    match guard().admit(&request(at)) {
        Ok(admitted) => Ok(admitted.descriptor),
        Err(error) => {
            // A folder that cannot be opened is treated like one that the guard refuses: nothing was changed.
            let fault = Diagnostic::of_text(&error.to_string());
            Err(PrepareError::Refused(vec![fault]))
        }
    }
}

/// Whether this user cannot create anything in the target, or it has no space.
fn refuses(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(
        kind,
        PermissionDenied | QuotaExceeded | ReadOnlyFilesystem | StorageFull
    )
}

fn not_made(path: &Path, error: &io::Error) -> Diagnostic {
    let message = format!(
        "cannot create the folder `{}`\n  cause: {error}",
        path.display()
    );
    Diagnostic::error(message).hint(sets::hint(error))
}

/// Adds the name and place of a job to each fault.
fn of_job(unready: PrepareError, job: &Job) -> PrepareError {
    match unready {
        PrepareError::Unprepared(found) => {
            let found = found.into_iter();
            PrepareError::Unprepared(found.map(|fault| faults::of_job(fault, job)).collect())
        }
        unready => unready,
    }
}
