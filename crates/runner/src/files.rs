//! The files of a trial: admitted by the guard, opened for each clone, and cleaned up afterwards.
//!
//! Nothing is created before all existing files are admitted and there is enough space. What was created and not
//! finished is removed. A path is only removed while it still leads to the inode that was opened.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use iodyno_engine::JobFile;
use iodyno_model::{BoundPlan, Diagnostic, FileState, Job, Order, Work};
use iodyno_target::space::{self, Need};
use iodyno_target::{
    AdmitError, Admitted, Guard, Kind, OpenFlags, Request, Roots, WrittenDevice, state_folder,
};
use iodyno_units::Bytes;
use rustix::fs::{Advice, fadvise};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::prepare::Unready;
use crate::resolve::{FileKind, ResolvedClone};
use crate::shared_files;
use crate::wanted::Wanted;

/// Files whose state is told.
const TOLD: usize = 1000;
/// Descriptors that are not the jobs' files: standard streams, logs of the kernel's, rings …
const OTHER_DESCRIPTORS: u64 = 64;

/// An admitted file.
#[derive(Debug)]
pub(crate) struct TrialFile {
    pub(crate) wanted: Wanted,
    pub(crate) admitted: Admitted,
    /// Laid out by this trial, in whole.
    pub(crate) laid_out: bool,
    /// Begun and not finished.
    pub(crate) unfinished: bool,
    /// How long it was when its layout began, bytes: what lies before that is not ours.
    pub(crate) length_before: Option<u64>,
}

impl TrialFile {
    /// Undoes what was begun: a new file is removed, a longer one cut back.
    pub(crate) fn undo(&self) {
        if self.admitted.created {
            self.remove();
        } else if let (true, Some(before)) =
            (self.unfinished || self.laid_out, self.length_before)
            // Another name of the same file may have been cut back further already.
            && self.admitted.length_now().is_ok_and(|now| now > before)
        {
            // Nothing more can be done where this fails: the file is longer than it was.
            let _ = rustix::fs::ftruncate(&self.admitted.descriptor, before);
        }
    }

    /// Removes the path if it still leads to this very file.
    pub(crate) fn remove(&self) {
        let path = &self.admitted.path;
        let same = rustix::fs::fstat(&self.admitted.descriptor).and_then(|ours| {
            let theirs = rustix::fs::lstat(path)?;
            Ok((ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino))
        });
        if same == Ok(true) && self.admitted.kind == Kind::File {
            let _ = std::fs::remove_file(path);
        }
    }

    fn state(&self) -> FileState {
        let file = self.admitted.kind == Kind::File;
        let unwritten = match file {
            true => iodyno_target::extents::unwritten(&self.admitted),
            false => Ok(None),
        };
        FileState {
            path: self.wanted.path.display().to_string(),
            length: self.admitted.length_now().unwrap_or(self.admitted.length),
            unwritten: unwritten.ok().flatten().map(|found| found.bytes()),
            read: self.wanted.intent.read,
            laid_out: self.laid_out,
            device: matches!(self.admitted.kind, Kind::BlockDevice(_)),
        }
    }
}

/// All files of a trial.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub(crate) list: Vec<TrialFile>,
}

impl Files {
    /// Admits all: first what is there, then the room for what is not, then that.
    pub(crate) fn admit(plan: &BoundPlan, wanted: Vec<Wanted>) -> Result<Files, Unready> {
        let jobs = &plan.workload.jobs;
        let guard = guard().protecting(&plan.protected);
        let mut files = Files::default();
        let mut faults = Faults::default();
        let (there, missing): (Vec<Wanted>, Vec<Wanted>) = wanted
            .into_iter()
            .partition(|wanted| wanted.existing.is_some() || wanted.kind == FileKind::Null);
        for wanted in &there {
            if let Some(admitted) = faults.admit(&guard, plan, wanted) {
                files.list.push(TrialFile::new(wanted.clone(), admitted));
            }
        }
        let all = there.iter().chain(&missing);
        for shortage in space::check(&Roots::host(), &room_needed(all)) {
            faults.failed.push(split_hint(&shortage.to_string()));
        }
        if !faults.any() {
            for wanted in &missing {
                if let Some(admitted) = faults.admit(&guard, plan, wanted) {
                    files.list.push(TrialFile::new(wanted.clone(), admitted));
                }
            }
        }
        if faults.any() {
            let made = files.any_made();
            files.undo(|_| true);
            return Err(match faults.unready(jobs) {
                Unready::Unprepared(faults) if !made => Unready::untouched(plan, faults),
                unready => unready,
            });
        }
        Ok(files)
    }

    /// Any was not there before.
    pub(crate) fn any_made(&self) -> bool {
        self.list.iter().any(|file| file.admitted.created)
    }

    /// Undoes the layout of those that `which` says.
    pub(crate) fn undo(&self, which: impl Fn(&TrialFile) -> bool) {
        self.list
            .iter()
            .filter(|file| which(file))
            .for_each(TrialFile::undo);
    }

    /// What could not be finished is undone; what was laid out in whole stays for the next time.
    pub(crate) fn undo_unfinished(&self) {
        self.undo(|file| !file.laid_out);
    }

    /// The devices that were admitted for writing.
    pub(crate) fn written_devices(&self) -> Vec<WrittenDevice> {
        let list = self.list.iter();
        list.filter_map(|file| file.admitted.written_device())
            .collect()
    }

    /// Something is left to do after the jobs.
    pub(crate) fn to_close(&self) -> bool {
        let mut list = self.list.iter();
        list.any(|file| file.wanted.unlink || file.wanted.fsync_on_close)
    }

    /// Does it: makes durable (unless in `haste`) what is to be before it is closed, and removes what is
    /// to be removed after the trial. What went wrong.
    pub(crate) fn close(&self, haste: bool) -> Vec<String> {
        let mut faults = Vec::new();
        for file in &self.list {
            if file.wanted.fsync_on_close
                && !haste
                && let Err(error) = rustix::fs::fsync(&file.admitted.descriptor)
            {
                let path = file.wanted.path.display();
                faults.push(format!("`fsync` of `{path}` failed: {error}"));
            }
            if file.wanted.unlink {
                file.remove();
            }
        }
        faults
    }

    /// The files of a clone, each with a descriptor of its own.
    ///
    /// # Errors
    /// Every file that cannot be opened so.
    pub(crate) fn open(
        &self,
        job: &Job,
        clone: &ResolvedClone,
        by_path: &BTreeMap<&Path, usize>,
    ) -> Result<Vec<JobFile>, Vec<Diagnostic>> {
        let mut opened = Vec::with_capacity(clone.files.len());
        let mut faults = Vec::new();
        for file in &clone.files {
            let descriptor = match by_path.get(file.path.as_path()) {
                None => None,
                Some(index) => match open_one(job, &self.list[*index].admitted, file.base) {
                    Ok(descriptor) => Some(descriptor),
                    Err(fault) => {
                        faults.push(of_job(fault, job));
                        continue;
                    }
                },
            };
            opened.push(JobFile {
                descriptor,
                name: file.path.display().to_string(),
                base: file.base,
                length: file.length,
                device: file.kind == FileKind::Device,
            });
        }
        match faults.is_empty() {
            true => Ok(opened),
            false => Err(faults),
        }
    }

    /// Where each path lies in the list.
    pub(crate) fn by_path(&self) -> BTreeMap<&Path, usize> {
        let list = self.list.iter().enumerate();
        list.map(|(index, file)| (file.wanted.path.as_path(), index))
            .collect()
    }

    /// Drops cached pages, once, of those whose jobs ask for it. Dirty ones are written out first.
    pub(crate) fn invalidate(&self) {
        for file in self.list.iter().filter(|file| file.wanted.invalidate) {
            let descriptor = file.admitted.as_fd();
            // A device that is only read may belong to somebody else, whose cache stays.
            let ours = match file.admitted.kind {
                Kind::File => true,
                Kind::BlockDevice(_) => file.wanted.intent.changes(),
                Kind::Folder | Kind::NullDevice => false,
            };
            if ours && rustix::fs::fsync(descriptor).is_ok() {
                // A hint: where it is not taken the findings on caches tell of it.
                let _ = fadvise(descriptor, 0, None, Advice::DontNeed);
            }
        }
    }

    /// What each file is like now, right before the jobs begin.
    pub(crate) fn states(&self) -> Vec<FileState> {
        self.list.iter().take(TOLD).map(TrialFile::state).collect()
    }

    /// What the guard found worth knowing.
    pub(crate) fn notes(&self) -> Vec<String> {
        let list = self.list.iter();
        list.flat_map(|file| file.admitted.notes.clone()).collect()
    }
}

impl TrialFile {
    pub(crate) fn new(wanted: Wanted, admitted: Admitted) -> TrialFile {
        TrialFile {
            wanted,
            admitted,
            laid_out: false,
            unfinished: false,
            length_before: None,
        }
    }
}

/// The guard of this host, with what iodyno wrote to its devices before.
pub(crate) fn guard() -> Guard {
    let records = state_folder(|name| std::env::var_os(name));
    Guard::new(Roots::host()).with_records(records)
}

/// What the guard said, refusals apart.
#[derive(Debug, Default)]
struct Faults {
    refused: Vec<(usize, Diagnostic)>,
    failed: Vec<Diagnostic>,
}

impl Faults {
    fn admit(&mut self, guard: &Guard, plan: &BoundPlan, wanted: &Wanted) -> Option<Admitted> {
        let request = Request {
            path: &wanted.path,
            intent: wanted.intent,
            flags: OpenFlags {
                create: wanted.existing.is_none() && wanted.kind == FileKind::Regular,
                ..OpenFlags::default()
            },
            named: wanted.named,
            destroy: &plan.destroy,
        };
        match guard.admit(&request) {
            Ok(admitted) => return Some(admitted),
            Err(error @ AdmitError::Refused(_)) => {
                let refused = split_hint(&error.to_string());
                self.refused.push((wanted.job, refused));
            }
            Err(error @ AdmitError::Failed { .. }) => {
                let job = &plan.workload.jobs[wanted.job];
                self.failed
                    .push(of_job(split_hint(&error.to_string()), job));
            }
        }
        None
    }

    fn any(&self) -> bool {
        !self.refused.is_empty() || !self.failed.is_empty()
    }

    fn unready(self, jobs: &[Job]) -> Unready {
        if self.refused.is_empty() {
            return Unready::Unprepared(self.failed);
        }
        let refused = self.refused.into_iter();
        let refused = refused.map(|(job, refused)| placed(refused, &jobs[job]));
        Unready::Refused(refused.chain(self.failed).collect())
    }
}

/// The room that a layout needs, by folder.
fn room_needed<'a>(wanted: impl Iterator<Item = &'a Wanted>) -> Vec<Need> {
    let mut needs: BTreeMap<PathBuf, Need> = BTreeMap::new();
    for wanted in wanted.filter(|wanted| wanted.kind == FileKind::Regular) {
        let folder = wanted.path.parent().unwrap_or(Path::new("/")).to_owned();
        let need = needs.entry(folder.clone()).or_insert(Need {
            folder,
            bytes: 0,
            inodes: 0,
            longest: 0,
        });
        need.bytes = need.bytes.saturating_add(wanted.to_allocate());
        need.inodes += u64::from(wanted.existing.is_none());
        need.longest = need
            .longest
            .max(wanted.fill_to.max(wanted.reserve_to).max(wanted.grows_to));
    }
    needs.into_values().collect()
}

fn open_one(job: &Job, admitted: &Admitted, base: u64) -> Result<OwnedFd, Diagnostic> {
    let shown = admitted.path.display();
    let step = u64::from(admitted.logical_block_size);
    let misaligned = |what: &str, hint: String| {
        Diagnostic::error(format!(
            "direct I/O on `{shown}` requires multiples of {step} bytes; {what}"
        ))
        .hint(hint)
    };
    let (engine, advice, fault) = match &job.work {
        Work::FileOperations(_) => {
            return Err(Diagnostic::error(format!(
                "`{shown}` cannot be opened for file operations: they open files by name"
            )));
        }
        Work::Blocks(blocks) => {
            let advice = match blocks.access.order {
                Order::Sequential => Advice::Sequential,
                Order::Random => Advice::Random,
            };
            let block = blocks.access.min_block();
            let aligned = block.is_multiple_of(step) && base.is_multiple_of(step);
            let fault = (!aligned).then(|| {
                let hint = format!("set `bs=` and `offset=` to multiples of {step}, or `direct=0`");
                misaligned("its block size or offset is not", hint)
            });
            (&blocks.engine, blocks.files.advise.then_some(advice), fault)
        }
        Work::SharedFiles(rule) => {
            let fault = (!shared_files::aligned(rule, step)).then(|| {
                let (block, length) = (rule.block, rule.file_size);
                misaligned(
                    &format!("blocks of {block} or files of {length} bytes are not"),
                    "see --file-block-size, and --file-total-size ÷ --file-num".to_owned(),
                )
            });
            (&rule.engine, None, fault)
        }
    };
    let direct = engine.direct && admitted.kind != Kind::NullDevice;
    if let (true, Some(fault)) = (direct, fault) {
        return Err(fault);
    }
    let flags = OpenFlags {
        direct,
        sync: engine.o_sync,
        dsync: engine.o_dsync,
        create: false,
    };
    let descriptor = admitted.reopen(flags).map_err(|error| {
        let with = if direct { " with O_DIRECT" } else { "" };
        let hint = match error.raw_os_error() {
            Some(22) if direct => "its file system does not support direct I/O: set `direct=0`",
            Some(24) => "raise the limit of open files with `ulimit -n`, or use fewer files",
            _ => "check it with `ls -l`",
        };
        Diagnostic::error(format!("cannot open `{shown}`{with}\n  cause: {error}")).hint(hint)
    })?;
    if let (Some(advice), Kind::File) = (advice, admitted.kind) {
        let _ = fadvise(&descriptor, 0, None, advice);
    }
    Ok(descriptor)
}

/// Raises the limit of open files as far as it goes, and says if `needed` are too many.
pub(crate) fn raise_descriptors(needed: u64) -> Result<(), Diagnostic> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    match current {
        Some(current) if needed + OTHER_DESCRIPTORS > current => Err(Diagnostic::error(format!(
            "{needed} files would be open at once; the limit is {current}"
        ))
        .hint("raise it with `ulimit -Hn`, or lower `nrfiles=` or `numjobs=`")),
        _ => Ok(()),
    }
}

/// The guard's texts end in a hint; a diagnostic keeps it apart.
pub(crate) fn split_hint(text: &str) -> Diagnostic {
    match text.rsplit_once("\nhint: ") {
        Some((message, hint)) => Diagnostic::error(message).hint(hint),
        None => Diagnostic::error(text),
    }
}

/// With the place of a job.
pub(crate) fn placed(diagnostic: Diagnostic, job: &Job) -> Diagnostic {
    match &job.place {
        Some(place) => diagnostic.at(place.clone()),
        None => diagnostic,
    }
}

/// With the name and place of a job.
pub(crate) fn of_job(diagnostic: Diagnostic, job: &Job) -> Diagnostic {
    let message = format!("job `{}`: {}", job.name, diagnostic.message);
    placed(
        Diagnostic {
            message,
            ..diagnostic
        },
        job,
    )
}

/// For messages: `3 of 8 MiB`.
pub(crate) fn share(done: u64, total: u64) -> String {
    format!("{} of {}", Bytes(done), Bytes(total))
}
