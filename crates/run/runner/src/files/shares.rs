//! The files of a trial in virtio-fs shares: found, admitted, laid out, opened for each clone, and cleaned up.
//!
//! One connection to each server lasts from the first examination to the end of the trial, because servers often end
//! with their client.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use iodyno_engine::Service;
use iodyno_guard::export::Use;
use iodyno_guard::share::{self, Found, OpenFile, Share, ShareFlags};
use iodyno_model::{
    BoundPlan, Diagnostic, Engine, EngineKind, ExportUri, Fallocate, FileState, Job,
};
use iodyno_units::Bytes;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::faults::{PrepareError, at_job, fault, of_job};
use crate::files::requirements::{self, Wanted};
use crate::probe::{HostProbe, PathKind, Probe};
use crate::resolve::resolved::{Resolved, ResolvedClone};

/// The share of a job. `None`: its engine is another one.
pub(crate) fn of_engine(engine: &Engine) -> Option<&ExportUri> {
    let export = engine.export.as_ref();
    export.filter(|_| engine.kind == EngineKind::Virtiofs)
}

fn of(job: &Job) -> Option<&ExportUri> {
    of_engine(job.work.engine()?)
}

/// Whether any job of a plan uses a share.
pub(crate) fn any(plan: &BoundPlan) -> bool {
    plan.workload.jobs.iter().any(|job| of(job).is_some())
}

/// The connections of a trial.
#[derive(Debug, Default)]
pub(crate) struct Connections(RefCell<HashMap<String, Result<Arc<Share>, Diagnostic>>>);

impl Connections {
    fn share(&self, uri: &ExportUri) -> Result<Arc<Share>, Diagnostic> {
        let mut known = self.0.borrow_mut();
        let connection = known.entry(uri.to_string());
        connection.or_insert_with(|| share::connect(uri)).clone()
    }
}

/// This host and the shares of servers.
pub(crate) struct TrialProbe<'a>(pub(crate) &'a Connections);

impl Probe for TrialProbe<'_> {
    fn look(&self, path: &Path) -> PathKind {
        HostProbe.look(path)
    }

    fn is_link(&self, path: &Path) -> bool {
        HostProbe.is_link(path)
    }

    fn export(&self, uri: &ExportUri, wanted: &Use) -> Result<u64, Vec<Diagnostic>> {
        HostProbe.export(uri, wanted)
    }

    fn shared(&self, uri: &ExportUri, path: &Path) -> Result<PathKind, Diagnostic> {
        let found = self.0.share(uri)?.look(path);
        let shown = share::name(uri, path);
        let found = found.map_err(|error| {
            let message = format!("`{}` cannot be looked at: {error}", shown.display());
            fault(message, "look at the messages of the server")
        })?;
        Ok(match found {
            Found::Missing => PathKind::Missing,
            Found::NoFolder => PathKind::NoFolder(shown.parent().unwrap_or(&shown).to_owned()),
            Found::File(length) => PathKind::File(length),
            Found::Folder => PathKind::Folder,
            Found::Other(what) => PathKind::Other(what.to_owned()),
        })
    }

    fn longest_request(&self, uri: &ExportUri) -> Option<u64> {
        self.0.share(uri).ok().map(|share| share.longest())
    }

    fn free(&self, folder: &Path) -> Option<u64> {
        HostProbe.free(folder)
    }

    fn device_path(&self, major: u32, minor: u32) -> Option<PathBuf> {
        HostProbe.device_path(major, minor)
    }

    fn unwritable(&self, folder: &Path) -> Option<String> {
        HostProbe.unwritable(folder)
    }
}

/// A file of a share.
#[derive(Debug)]
struct ShareFile {
    wanted: Wanted,
    share: Arc<Share>,
    /// Within the share.
    path: PathBuf,
    /// Handle for everything besides the jobs.
    file: Arc<OpenFile>,
    created: bool,
    laid_out: bool,
    unfinished: bool,
}

/// All files of a trial in shares.
#[derive(Debug, Default)]
pub(crate) struct ShareFiles {
    list: Vec<ShareFile>,
    by_path: BTreeMap<PathBuf, usize>,
    notes: Vec<String>,
}

impl ShareFiles {
    /// Opens the files that exist, and creates the others if the guard refuses none of them.
    pub(crate) fn admit(
        plan: &BoundPlan,
        resolved: &Resolved,
        connections: &Connections,
    ) -> Result<ShareFiles, PrepareError> {
        let jobs = &plan.workload.jobs;
        let mut files = ShareFiles::default();
        let (mut refused, mut failed) = (Vec::new(), Vec::new());
        let wanted = requirements::in_shares(resolved, jobs, &plan.configuration.target);
        let (there, missing): (Vec<Wanted>, Vec<Wanted>) = wanted
            .into_iter()
            .partition(|wanted| wanted.existing.is_some());
        for wanted in there.into_iter().chain(missing) {
            let job = &jobs[wanted.job];
            let create = wanted.existing.is_none();
            if create && !(refused.is_empty() && failed.is_empty()) {
                break;
            }
            match ShareFile::open(wanted, job, connections) {
                Ok(file) => {
                    if let Err(why) = files.permit(&file, plan) {
                        refused.push(at_job(why, job));
                    }
                    files.list.push(file);
                }
                Err(why) => failed.push(of_job(why, job)),
            }
        }
        let list = files.list.iter().enumerate();
        files.by_path = list
            .map(|(index, file)| (file.wanted.path.clone(), index))
            .collect();
        let unready = match (refused.is_empty(), failed.is_empty()) {
            (true, true) => return Ok(files),
            (false, _) => PrepareError::Refused(refused.into_iter().chain(failed).collect()),
            (true, false) => PrepareError::Unprepared(failed),
        };
        files.undo(|_| true);
        Err(unready)
    }

    fn permit(&mut self, file: &ShareFile, plan: &BoundPlan) -> Result<(), Diagnostic> {
        let wanted = &file.wanted;
        if !wanted.intent.changes() || file.created {
            return Ok(());
        }
        let length = wanted.existing.unwrap_or_default();
        let notes = share::permitted(&file.file, length, &wanted.path, &plan.destroy)?;
        self.notes.extend(notes);
        Ok(())
    }

    /// The files of a clone, each opened as its job requires. `None`: it has none in a share.
    pub(crate) fn open(
        &self,
        job: &Job,
        clone: &ResolvedClone,
    ) -> Result<Option<Service>, Diagnostic> {
        let Some(engine) = job
            .work
            .engine()
            .filter(|engine| of_engine(engine).is_some())
        else {
            return Ok(None);
        };
        let mut opened = Vec::with_capacity(clone.files.len());
        for file in &clone.files {
            let Some(index) = self.by_path.get(&file.path) else {
                continue;
            };
            let file = &self.list[*index];
            let flags = ShareFlags {
                write: file.wanted.intent.write || file.wanted.intent.trim,
                direct: engine.direct,
                sync: engine.o_sync,
                dsync: engine.o_dsync,
            };
            let one = file.share.open(&file.path, flags);
            opened.push(Arc::new(one.map_err(|error| {
                let shown = file.wanted.path.display();
                of_job(
                    fault(format!("cannot open `{shown}`: {error}"), hint(&error)),
                    job,
                )
            })?));
        }
        Ok(Some(Service::Files(opened)))
    }

    /// A text that identifies the file, and whether it is removed at the end. `None`: it is not in a share.
    pub(crate) fn identity(&self, path: &Path) -> Option<(String, bool)> {
        let file = &self.list[*self.by_path.get(path)?];
        let inode = file.file.inode();
        let identity = format!("share {} {inode}", path.display());
        Some((identity, file.wanted.unlink))
    }

    /// Whether any file was created.
    pub(crate) fn any_made(&self) -> bool {
        self.list.iter().any(|file| file.created)
    }

    /// Whether any file needs a layout.
    pub(crate) fn needs_layout(&self) -> bool {
        self.list.iter().any(|file| !file.wanted.ready())
    }

    /// Lays out all files that need it. `stop` is checked between requests; `progress` gets the bytes done and in
    /// total.
    ///
    /// # Errors
    /// A stop was requested, or a file cannot be laid out. Unfinished files are restored.
    pub(crate) fn lay_out(
        &mut self,
        seed: u64,
        stop: &dyn Fn() -> bool,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), PrepareError> {
        let total = self.list.iter().map(|file| file.wanted.to_fill()).sum();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut done = 0;
        for index in 0..self.list.len() {
            let mut tell = |bytes| {
                done += bytes;
                progress(done, total);
            };
            let file = &mut self.list[index];
            match file.lay_out(&mut random, stop, &mut tell) {
                Ok(()) => {}
                Err(None) => {
                    self.undo(|file| !file.laid_out);
                    return Err(PrepareError::Withdrawn);
                }
                Err(Some(error)) => {
                    let shown = file.wanted.path.display();
                    let message = format!("cannot lay out `{shown}`: {error}");
                    let why = fault(message, hint(&error));
                    self.undo(|_| true);
                    return Err(PrepareError::Unprepared(vec![why]));
                }
            }
        }
        Ok(())
    }

    /// Removes the files that were created, and cuts back those that were extended, as selected by `which`.
    fn undo(&self, which: impl Fn(&ShareFile) -> bool) {
        for file in self.list.iter().filter(|file| which(file)) {
            if file.created {
                let _ = file.share.remove(&file.path);
            } else if let (true, Some(before)) =
                (file.unfinished || file.laid_out, file.wanted.existing)
            {
                let _ = file.file.set_length(before);
            }
        }
    }

    /// Undoes unfinished layouts.
    pub(crate) fn undo_unfinished(&self) {
        self.undo(|file| !file.laid_out);
    }

    /// Whether [`Self::close`] has anything to do.
    pub(crate) fn to_close(&self) -> bool {
        let mut list = self.list.iter();
        list.any(|file| file.wanted.unlink || file.wanted.fsync_on_close)
    }

    /// After the jobs: syncs files with `fsync_on_close` (not if `haste`), and removes files with `unlink`. Returns the
    /// errors.
    pub(crate) fn close(&self, haste: bool) -> Vec<String> {
        let mut faults = Vec::new();
        for file in &self.list {
            let shown = file.wanted.path.display();
            if file.wanted.fsync_on_close
                && !haste
                && let Err(error) = file.file.sync()
            {
                faults.push(format!("`fsync` of `{shown}` failed: {error}"));
            }
            if file.wanted.unlink
                && let Err(error) = file.share.remove(&file.path)
            {
                faults.push(format!("`{shown}` was not removed: {error}"));
            }
        }
        faults
    }

    /// The state of the files, read immediately before the jobs begin.
    pub(crate) fn states(&self) -> impl Iterator<Item = FileState> {
        self.list.iter().map(|file| FileState {
            path: file.wanted.path.display().to_string(),
            length: file.file.length().unwrap_or_default(),
            unwritten: None,
            read: file.wanted.ops.read_earlier_data(),
            laid_out: file.laid_out,
            device: false,
        })
    }

    /// The guard's notes, and a description of each server.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

impl ShareFile {
    fn open(wanted: Wanted, job: &Job, connections: &Connections) -> Result<ShareFile, Diagnostic> {
        let uri = of(job).ok_or_else(|| Diagnostic::error("it has no share"))?;
        let share = connections.share(uri)?;
        let name = wanted.path.to_string_lossy();
        let path = name.strip_prefix(&format!("{uri}:")).unwrap_or_default();
        let path = PathBuf::from(path);
        let created = wanted.existing.is_none();
        let flags = ShareFlags {
            write: wanted.intent.changes(),
            ..ShareFlags::default()
        };
        let (what, file) = match created {
            true => ("create", share.create(&path)),
            false => ("open", share.open(&path, flags)),
        };
        let file = file.map_err(|error| {
            let message = format!("cannot {what} `{name}`: {error}");
            fault(message, hint(&error))
        })?;
        Ok(ShareFile {
            file: Arc::new(file),
            path,
            share,
            created,
            laid_out: false,
            unfinished: false,
            wanted,
        })
    }

    /// `Err(None)`: a stop was requested.
    fn lay_out(
        &mut self,
        random: &mut Xoshiro256PlusPlus,
        stop: &dyn Fn() -> bool,
        tell: &mut dyn FnMut(u64),
    ) -> Result<(), Option<io::Error>> {
        let wanted = &self.wanted;
        let length = self.file.length()?;
        if wanted.fill_to.max(wanted.reserve_to) <= length {
            return Ok(());
        }
        self.unfinished = true;
        let chunk = self.share.longest().min(1 << 20);
        let mut bytes = vec![0; chunk as usize];
        let mut at = length;
        while at < wanted.fill_to {
            if stop() {
                return Err(None);
            }
            let most = (chunk - at % chunk).min(wanted.fill_to - at) as usize;
            random.fill_bytes(&mut bytes[..most]);
            let written = self.file.write_at(&bytes[..most], at)?;
            if written == 0 {
                return Err(Some(io::ErrorKind::StorageFull.into()));
            }
            at += written as u64;
            tell(written as u64);
        }
        if wanted.reserve_to > at {
            let bytes = wanted.reserve_to - at;
            let reserved = match wanted.fallocate {
                Fallocate::None => Ok(()),
                Fallocate::Truncate => self.file.set_length(wanted.reserve_to),
                Fallocate::KeepSize => self.file.allocate(at, bytes, true),
                Fallocate::Native | Fallocate::Posix => self.file.allocate(at, bytes, false),
            };
            match reserved {
                // Servers and file systems without it: the file grows with the writes.
                Err(error) if matches!(error.raw_os_error(), Some(95 | 38 | 22)) => {}
                reserved => reserved?,
            }
        }
        if wanted.fsync {
            self.file.sync()?;
        }
        self.unfinished = false;
        self.laid_out = true;
        Ok(())
    }
}

/// Refuses ops that are longer than a server accepts.
pub(crate) fn too_long(uri: &ExportUri, longest: u64, block: u64) -> Option<Diagnostic> {
    (block > longest).then(|| {
        fault(
            format!("`{uri}` accepts requests of at most {}", Bytes(longest)),
            format!("lower `bs` to {longest}"),
        )
    })
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull => "free space, or lower `size=`, `nrfiles=` or `numjobs=`",
        io::ErrorKind::QuotaExceeded => "raise the quota, or lower `size=`",
        io::ErrorKind::PermissionDenied => "run iodyno as a user who may do that in the share",
        io::ErrorKind::ReadOnlyFilesystem => "start the server for writing",
        io::ErrorKind::NotFound => "create the folder on the server first",
        io::ErrorKind::InvalidInput => {
            "the server's file system may not support direct I/O: set `direct=0`"
        }
        _ => "look at the messages of the server",
    }
}
