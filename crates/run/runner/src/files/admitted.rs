//! The files of a trial: admitted by the guard, opened for each clone, and cleaned up afterwards.
//!
//! Nothing is created before all existing files are admitted and there is enough space. Files that were created and not
//! finished are removed. A path is removed only if it still leads to the inode that was opened.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use iodyno_engine::JobFile;
use iodyno_guard::{AdmitError, Admitted, Guard, Kind, OpenFlags, Request, WrittenDevice};
use iodyno_host::space::{self, Need};
use iodyno_host::{Roots, device_records, identity};
use iodyno_model::{
    Admission, Blocks, BoundPlan, Diagnostic, Engine, EngineKind, FileAdvice, FileState, Job,
    KnownTarget, Order, SharedFiles,
};
use rustix::fs::{Advice, fadvise};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::faults::{self, PrepareError, at_job, fault, of_job};
use crate::files::requirements::Wanted;
use crate::resolve::resolved::{FileKind, ResolvedClone};

/// The largest number of files that a part describes.
const TOLD: usize = 1000;
/// Descriptors that are opened later and are not the jobs' files: files in /proc, events, …
const OTHER_DESCRIPTORS: u64 = 16;

/// An admitted file.
#[derive(Debug)]
pub(crate) struct TrialFile {
    pub(crate) wanted: Wanted,
    pub(crate) admitted: Admitted,
    /// Whether this trial laid it out completely.
    pub(crate) laid_out: bool,
    /// Whether its layout was started and not finished.
    pub(crate) unfinished: bool,
    /// Its length when its layout started, bytes. Data before this offset are the user's.
    pub(crate) length_before: Option<u64>,
}

impl TrialFile {
    /// Undoes the layout: a new file is removed, an extended one is cut back.
    pub(crate) fn undo(&self) {
        if self.admitted.created {
            self.remove();
        } else if let (true, Some(before)) =
            (self.unfinished || self.laid_out, self.length_before)
            // It may already have been cut back further, under another name of the same file.
            && self.admitted.length_now().is_ok_and(|now| now > before)
        {
            // If this fails, the file remains longer than it was.
            let _ = rustix::fs::ftruncate(&self.admitted.descriptor, before);
        }
    }

    /// Removes the path if it still leads to this file.
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

    /// Its name in verified blocks, which must be the same for all paths to a file.
    pub(crate) fn verified_name(&self) -> &Path {
        match self.admitted.kind {
            Kind::File => &self.admitted.path,
            _ => &self.wanted.path,
        }
    }

    fn state(&self) -> FileState {
        let file = self.admitted.kind == Kind::File;
        let unwritten = match file {
            true => iodyno_host::extents::unwritten(&self.admitted),
            false => Ok(None),
        };
        FileState {
            path: self.wanted.path.display().to_string(),
            length: self.admitted.length_now().unwrap_or(self.admitted.length),
            unwritten: unwritten.ok().flatten().map(|found| found.bytes()),
            read: self.wanted.ops.read_earlier_data(),
            laid_out: self.laid_out,
            device: matches!(self.admitted.kind, Kind::BlockDevice(_)),
        }
    }
}

/// All files of a trial.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub(crate) list: Vec<TrialFile>,
    /// The folders that were created for them, each after the one that contains it.
    pub(crate) folders: Vec<PathBuf>,
}

impl Files {
    /// Admits all files: the existing ones first; the missing ones are created after a check of free space.
    pub(crate) fn admit(plan: &BoundPlan, wanted: Vec<Wanted>) -> Result<Files, PrepareError> {
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
        let shortages = space::check(&Roots::host(), &room_needed(all));
        let lacks_space = shortages
            .iter()
            .any(|shortage| !matches!(shortage, space::Shortage::Unknown { .. }));
        for shortage in shortages {
            faults
                .failed
                .push(Diagnostic::of_text(&shortage.to_string()));
        }
        if !faults.any() {
            for wanted in &missing {
                if let Err(fault) = files.make_folder(wanted) {
                    faults.failed.push(of_job(fault, &jobs[wanted.job]));
                    continue;
                }
                if let Some(admitted) = faults.admit(&guard, plan, wanted) {
                    files.list.push(TrialFile::new(wanted.clone(), admitted));
                }
            }
        }
        if faults.any() {
            let made = files.any_made();
            files.undo(|_| true);
            return Err(match faults.unready(jobs) {
                // Every kind of job is refused then, as before the first of several trials.
                PrepareError::Unprepared(faults) if !made && lacks_space => {
                    PrepareError::Refused(faults)
                }
                PrepareError::Unprepared(faults) if !made => PrepareError::untouched(plan, faults),
                unready => unready,
            });
        }
        Ok(files)
    }

    /// The guard's answer for each file and device. Opens nothing for writing.
    pub(crate) fn forecast(plan: &BoundPlan, wanted: &[Wanted]) -> Vec<(PathBuf, Admission)> {
        let guard = guard().protecting(&plan.protected);
        let stored = wanted.iter().filter(|wanted| wanted.kind != FileKind::Null);
        let examined = stored.map(|wanted| {
            let jobs = &plan.workload.jobs;
            let admission = match faults::admission(guard.examine(&request(plan, wanted))) {
                Admission::NeedsDestroy(why) => {
                    Admission::NeedsDestroy(at_job(why, &jobs[wanted.job]))
                }
                Admission::Refused(why) => Admission::Refused(at_job(why, &jobs[wanted.job])),
                granted => granted,
            };
            (wanted.path.clone(), admission)
        });
        examined.collect()
    }

    /// The identity of each file, if known.
    pub(crate) fn identities(&self) -> Vec<KnownTarget> {
        let roots = Roots::host();
        let known = |file: &TrialFile| {
            Some(KnownTarget {
                node: String::new(),
                path: file.wanted.path.clone(),
                identity: identity::identity(file.admitted.as_fd(), &roots)?,
            })
        };
        self.list.iter().filter_map(known).collect()
    }

    /// Whether any file was created.
    pub(crate) fn any_made(&self) -> bool {
        self.list.iter().any(|file| file.admitted.created) || !self.folders.is_empty()
    }

    /// Creates the missing parent folders of a file.
    fn make_folder(&mut self, wanted: &Wanted) -> Result<(), Diagnostic> {
        let folders = wanted.path.ancestors().skip(1);
        let missing: Vec<&Path> = folders.take_while(|folder| !folder.exists()).collect();
        for folder in missing.into_iter().rev() {
            if let Err(error) = std::fs::create_dir(folder) {
                let message = format!("cannot create the folder `{}`: {error}", folder.display());
                return Err(Diagnostic::error(message));
            }
            self.folders.push(folder.to_owned());
        }
        Ok(())
    }

    /// Undoes the layout of the files selected by `which`, and removes folders that were created for them and are empty
    /// again.
    pub(crate) fn undo(&self, which: impl Fn(&TrialFile) -> bool) {
        self.list
            .iter()
            .filter(|file| which(file))
            .for_each(TrialFile::undo);
        for folder in self.folders.iter().rev() {
            // One that is not empty remains.
            let _ = std::fs::remove_dir(folder);
        }
    }

    /// Undoes unfinished layouts. Files that were laid out completely remain for the next trial.
    pub(crate) fn undo_unfinished(&self) {
        self.undo(|file| !file.laid_out);
    }

    /// The devices that were admitted for writing.
    pub(crate) fn written_devices(&self) -> Vec<WrittenDevice> {
        let list = self.list.iter();
        list.filter_map(|file| file.admitted.written_device())
            .collect()
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

    /// The files of a clone, each with a separate descriptor.
    ///
    /// # Errors
    /// Every file that cannot be opened.
    pub(crate) fn open(
        &self,
        job: &Job,
        how: &Opening<'_>,
        clone: &ResolvedClone,
        by_path: &BTreeMap<&Path, usize>,
    ) -> Result<Vec<JobFile>, Vec<Diagnostic>> {
        let mut opened = Vec::with_capacity(clone.files.len());
        let mut faults = Vec::new();
        for (number, file) in clone.files.iter().enumerate() {
            // A trace's offsets and lengths are all multiples of it.
            let replay = clone.replay.as_ref();
            let base = replay.map_or(file.base, |replay| replay.uses[number].alignment);
            let index = by_path.get(file.path.as_path());
            let admitted = index.map(|index| &self.list[*index].admitted);
            let name = index.map_or(&*file.path, |index| self.list[*index].verified_name());
            let descriptor = match admitted {
                None => None,
                Some(admitted) => match how.open(admitted, base) {
                    Ok(descriptor) => Some(descriptor),
                    Err(fault) => {
                        faults.push(of_job(fault, job));
                        continue;
                    }
                },
            };
            opened.push(JobFile {
                descriptor,
                name: name.display().to_string(),
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

    /// The index of each path in the list.
    pub(crate) fn by_path(&self) -> BTreeMap<&Path, usize> {
        let list = self.list.iter().enumerate();
        list.map(|(index, file)| (file.wanted.path.as_path(), index))
            .collect()
    }

    /// Drops the cached pages of files whose jobs request it. Dirty pages are written first, except those of a device
    /// that is only read and can belong to other processes. The jobs drop pages again before each pass.
    pub(crate) fn invalidate(&self) {
        for file in self.list.iter().filter(|file| file.wanted.invalidate) {
            let descriptor = file.admitted.as_fd();
            let written = match file.admitted.kind {
                Kind::File => true,
                Kind::BlockDevice(_) => file.wanted.intent.changes(),
                Kind::Folder | Kind::NullDevice => continue,
            };
            if !written || rustix::fs::fsync(descriptor).is_ok() {
                // If the kernel ignores the hint, the findings about caches report that.
                let _ = fadvise(descriptor, 0, None, Advice::DontNeed);
            }
        }
    }

    /// Reads the files of jobs with `pre_read` into the cache, until `stop`. Errors are ignored here, because the jobs
    /// report them.
    pub(crate) fn pre_read(&self, stop: &dyn Fn() -> bool) {
        let mut chunk = Vec::new();
        for file in self.list.iter().filter(|file| file.wanted.pre_read) {
            // `/dev/zero` has no end.
            if !matches!(file.admitted.kind, Kind::File | Kind::BlockDevice(_)) {
                continue;
            }
            chunk.resize(1 << 20, 0);
            let mut at = 0;
            while !stop() {
                match rustix::io::pread(file.admitted.as_fd(), &mut chunk, at) {
                    Ok(0) => break,
                    Ok(read) => at += read as u64,
                    Err(rustix::io::Errno::INTR) => {}
                    Err(_) => break,
                }
            }
        }
    }

    /// The state of the files, read immediately before the jobs begin.
    pub(crate) fn states(&self) -> Vec<FileState> {
        self.list.iter().take(TOLD).map(TrialFile::state).collect()
    }

    /// The guard's notes.
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

/// The guard of this host, with the records of iodyno's earlier writes to its devices.
pub(crate) fn guard() -> Guard {
    Guard::new(Roots::host()).with_records(device_records())
}

fn request<'a>(plan: &'a BoundPlan, wanted: &'a Wanted) -> Request<'a> {
    Request {
        path: &wanted.path,
        intent: wanted.intent,
        flags: OpenFlags {
            create: wanted.existing.is_none() && wanted.kind == FileKind::Regular,
            ..OpenFlags::default()
        },
        named: wanted.named,
        destroy: &plan.destroy,
    }
}

/// Targets that the guard refused (with the job's index), and files that could not be opened.
#[derive(Debug, Default)]
struct Faults {
    refused: Vec<(usize, Diagnostic)>,
    failed: Vec<Diagnostic>,
}

impl Faults {
    fn admit(&mut self, guard: &Guard, plan: &BoundPlan, wanted: &Wanted) -> Option<Admitted> {
        match guard.admit(&request(plan, wanted)) {
            Ok(admitted) => {
                let device = admitted.written_device();
                if let Some(Err(error)) = device.map(|device| device.may_write(&wanted.writes)) {
                    tracing::warn!(%error, "what is written to a device is not recorded");
                }
                return Some(admitted);
            }
            Err(error @ AdmitError::Refused(_)) => {
                let refused = error.diagnostic();
                self.refused.push((wanted.job, refused));
            }
            Err(error @ AdmitError::Failed { .. }) => {
                let job = &plan.workload.jobs[wanted.job];
                self.failed.push(of_job(error.diagnostic(), job));
            }
        }
        None
    }

    fn any(&self) -> bool {
        !self.refused.is_empty() || !self.failed.is_empty()
    }

    fn unready(self, jobs: &[Job]) -> PrepareError {
        if self.refused.is_empty() {
            return PrepareError::Unprepared(self.failed);
        }
        let refused = self.refused.into_iter();
        let refused = refused.map(|(job, refused)| at_job(refused, &jobs[job]));
        PrepareError::Refused(refused.chain(self.failed).collect())
    }
}

/// The space that a layout needs, by folder.
pub(crate) fn room_needed<'a>(wanted: impl Iterator<Item = &'a Wanted>) -> Vec<Need> {
    let mut needs: BTreeMap<PathBuf, Need> = BTreeMap::new();
    for wanted in wanted.filter(|wanted| wanted.kind == FileKind::Regular) {
        // A folder that the trial creates is in the file system of the one that contains it.
        let folder = wanted
            .path
            .ancestors()
            .skip(1)
            .find(|folder| folder.exists());
        let folder = folder.unwrap_or(Path::new("/")).to_owned();
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

/// How the files of a job are opened.
pub(crate) struct Opening<'a> {
    engine: &'a Engine,
    advice: Option<Advice>,
    /// Direct I/O requires that these are multiples of the logical block size, bytes.
    sizes: [u64; 2],
    /// Fact and remedy for sizes or regions that are not such multiples.
    misaligned: (String, &'static str),
}

impl<'a> Opening<'a> {
    /// For files whose ops come from a trace, each with its own alignment.
    pub(crate) fn of_replay(blocks: &'a Blocks) -> Opening<'a> {
        Opening {
            engine: &blocks.engine,
            advice: None,
            sizes: [0, 0],
            misaligned: (
                "an offset or a length of the trace is not".to_owned(),
                "set `direct=0`; `replay_align=` aligns offsets",
            ),
        }
    }

    pub(crate) fn of_blocks(blocks: &'a Blocks) -> Opening<'a> {
        let advice = match (blocks.files.advice, blocks.access.order) {
            (Some(FileAdvice::NoReuse), _) => Advice::NoReuse,
            (Some(FileAdvice::Sequential), _) | (None, Order::Sequential) => Advice::Sequential,
            (Some(FileAdvice::Random), _) | (None, Order::Random) => Advice::Random,
        };
        let block = blocks.access.min_block();
        Opening {
            engine: &blocks.engine,
            advice: blocks.files.advise.then_some(advice),
            sizes: [block, block],
            misaligned: (
                "its block size or offset is not".to_owned(),
                "set `bs=` and `offset=` to such multiples, or set `direct=0`",
            ),
        }
    }

    pub(crate) fn of_shared_files(rule: &'a SharedFiles) -> Opening<'a> {
        let (block, length) = (rule.block, rule.file_size);
        Opening {
            engine: &rule.engine,
            advice: None,
            sizes: [block, length],
            misaligned: (
                format!("blocks of {block} or files of {length} bytes are not"),
                "see --file-block-size, and --file-total-size ÷ --file-num",
            ),
        }
    }

    /// Opens another descriptor of an admitted file. `base`: the start of the clone's region, or the alignment of its
    /// ops, bytes.
    fn open(&self, admitted: &Admitted, base: u64) -> Result<OwnedFd, Diagnostic> {
        let shown = admitted.path.display();
        let engine = self.engine;
        let direct = engine.direct && admitted.kind != Kind::NullDevice;
        let step = u64::from(admitted.logical_block_size);
        let aligned = |bytes: &u64| bytes.is_multiple_of(step);
        if direct && !(self.sizes.iter().all(aligned) && aligned(&base)) {
            let (what, hint) = &self.misaligned;
            let message =
                format!("direct I/O on `{shown}` requires multiples of {step} bytes; {what}");
            return Err(fault(message, *hint));
        }
        let flags = OpenFlags {
            direct,
            sync: engine.o_sync,
            dsync: engine.o_dsync,
            create: false,
        };
        if engine.kind == EngineKind::IoUringCmd {
            let opened = admitted.open_for_commands(&Roots::host());
            return opened.map_err(|error| {
                let message = format!("cannot open `{shown}` for NVMe commands\n  cause: {error}");
                fault(message, "use `ioengine=io_uring` on a block device")
            });
        }
        let descriptor = admitted.reopen(flags).map_err(|error| {
            let with = if direct { " with O_DIRECT" } else { "" };
            let hint = match error.raw_os_error() {
                Some(22) if direct => "its file system does not support direct I/O: set `direct=0`",
                Some(24) => "raise the limit of open files with `ulimit -n`, or use fewer files",
                _ => "check it with `ls -l`",
            };
            Diagnostic::error(format!("cannot open `{shown}`{with}\n  cause: {error}")).hint(hint)
        })?;
        if let (Some(advice), Kind::File | Kind::BlockDevice(_)) = (self.advice, admitted.kind) {
            let _ = fadvise(&descriptor, 0, None, advice);
        }
        Ok(descriptor)
    }
}

/// Raises the limit of open files to its maximum.
///
/// # Errors
/// `needed` files are more than that.
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
    // Unknown without /proc.
    let open = std::fs::read_dir("/proc/self/fd").map_or(64, |open| open.count() as u64);
    match current {
        Some(current) if open + needed + OTHER_DESCRIPTORS > current => Err(Diagnostic::error(
            format!("{needed} files would be open at once; the limit is {current}"),
        )
        .hint("raise it with `ulimit -Hn`, or lower `nrfiles=` or `numjobs=`")),
        _ => Ok(()),
    }
}
