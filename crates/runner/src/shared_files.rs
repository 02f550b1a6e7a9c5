//! Jobs on one set of files that all clones share, as sysbench's fileio has them.
//!
//! The files are `prepare`'s to make. `run` takes them as they are, and says of all of them at once what
//! is missing; only the sequential write empties or makes them. A made-up name never leads elsewhere: a
//! symbolic link is refused.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use iodyno_engine::{SharedFilesPart, SharedFilesState};
use iodyno_model::{Diagnostic, EndedBy, EngineKind, Job, SharedFiles, SharedMode};
use iodyno_target::Kind;
use iodyno_units::Bytes;
use rustix::fs::{FileType, fstat, ftruncate, lstat};
use rustix::io::retry_on_intr;

use crate::assemble::Ended;
use crate::files::{self, Files, TrialFile};
use crate::naming::{self, Base};
use crate::resolve::{Fault, FileKind, Found, Probe, ResolvedFile};

/// Names told in a message; further ones are counted.
const NAMED: usize = 3;
/// Longest request, bytes: what one system call moves at most.
const LONGEST: u64 = 1 << 30;
const PREPARE: &str =
    "run `iodyno fileio … prepare` with the same --file-num and --file-total-size";

/// The files of every clone of a job, each from its start to `file_size`.
pub(crate) fn bind(
    rule: &SharedFiles,
    base: Base<'_>,
    probe: &dyn Probe,
) -> Result<Vec<ResolvedFile>, Vec<Fault>> {
    let mut faults = impossible(rule);
    if let Base::Only(path) = base {
        let (shown, count) = (path.display(), rule.count);
        let message =
            format!("{count} shared files cannot lie in `{shown}`, which is not a folder");
        faults.push(Fault::new(message, "name a folder as its target"));
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let paths = naming::shared(rule, base);
    let file = |path: PathBuf, existing, kind| ResolvedFile {
        path,
        existing,
        kind,
        base: 0,
        length: rule.file_size,
    };
    if rule.engine.kind.without_files() {
        let files = paths
            .into_iter()
            .map(|path| file(path, None, FileKind::Null));
        return Ok(files.collect());
    }
    let mut found = Look::default();
    let mut bound = Vec::with_capacity(paths.len());
    for path in paths {
        let existing = found.at(&path, rule, probe);
        bound.push(file(path, existing, FileKind::Regular));
    }
    match found.faults(rule, bound.len()) {
        faults if faults.is_empty() => Ok(bound),
        faults => Err(faults),
    }
}

/// What no storage could do.
fn impossible(rule: &SharedFiles) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut fault = |message: String, hint: &str| faults.push(Fault::new(message, hint));
    if rule.block == 0 {
        fault("its block size is 0".to_owned(), "raise --file-block-size");
    }
    if rule.file_size == 0 {
        let message = format!(
            "the total size leaves 0 bytes for each of {} files",
            rule.count
        );
        fault(message, "raise --file-total-size, or lower --file-num");
    }
    if rule.file_size > i64::MAX as u64 {
        fault(
            "its files would be longer than the largest possible file".to_owned(),
            "lower --file-total-size",
        );
    }
    if rule.request() > LONGEST {
        let message = format!(
            "its requests of {} are larger than the limit of {}",
            Bytes(rule.request()),
            Bytes(LONGEST)
        );
        fault(message, "lower --file-block-size or --file-merged-requests");
    }
    if rule.merged > 0 && rule.block > 0 && !rule.merged.is_multiple_of(rule.block) {
        fault(
            "its requests are not a whole number of blocks".to_owned(),
            "see --file-merged-requests",
        );
    }
    if rule.mode == SharedMode::Prepare && rule.engine.kind == EngineKind::Mmap {
        let message = "`--file-io-mode=mmap` cannot extend files".to_owned();
        fault(message, "prepare them with another --file-io-mode");
    }
    faults
}

/// What is wrong with which of the files.
#[derive(Debug, Default)]
struct Look {
    folder: Option<PathBuf>,
    missing: Vec<String>,
    short: Vec<String>,
    wrong: Vec<String>,
}

impl Look {
    fn at(&mut self, path: &Path, rule: &SharedFiles, probe: &dyn Probe) -> Option<u64> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if probe.is_link(path) {
            self.wrong
                .push(format!("`{}` is a symbolic link", path.display()));
            return None;
        }
        match probe.look(path) {
            Found::File(length) if length < rule.file_size && !rule.mode.makes_files() => {
                self.short.push(format!("{name} ({})", Bytes(length)));
            }
            Found::File(length) => return Some(length),
            Found::Missing if rule.mode.makes_files() => {}
            Found::Missing => self.missing.push(name.into_owned()),
            Found::NoFolder(folder) => self.folder = Some(folder),
            other => {
                let what = match other {
                    Found::Folder => "is a folder".to_owned(),
                    Found::Device(_) => "is a device".to_owned(),
                    Found::Other(what) => what,
                    _ => "is not a regular file".to_owned(),
                };
                self.wrong.push(format!("`{}` {what}", path.display()));
            }
        }
        None
    }

    fn faults(self, rule: &SharedFiles, count: usize) -> Vec<Fault> {
        let mut faults = Vec::new();
        if let Some(folder) = self.folder {
            let shown = folder.display();
            faults.push(Fault::new(
                format!("the folder `{shown}` does not exist"),
                format!("create it: mkdir -p {shown}"),
            ));
        }
        let share = |names: &[String]| format!("{}: {} of {count} files", few(names), names.len());
        if !self.missing.is_empty() {
            faults.push(Fault::new(
                format!("{} are missing", share(&self.missing)),
                PREPARE,
            ));
        }
        if !self.short.is_empty() {
            let least = Bytes(rule.file_size);
            let message = format!("{} are shorter than {least}", share(&self.short));
            faults.push(Fault::new(message, PREPARE));
        }
        let hint = "only regular files are used: remove it, or use another folder";
        faults.extend(
            self.wrong
                .into_iter()
                .map(|message| Fault::new(message, hint)),
        );
        faults
    }
}

/// `test_file.3, test_file.4, test_file.9 …`
fn few(names: &[String]) -> String {
    let more = if names.len() > NAMED { " …" } else { "" };
    let first = &names[..names.len().min(NAMED)];
    format!("{}{more}", first.join(", "))
}

/// Direct I/O in multiples of `step` bytes meets every request.
pub(crate) fn aligned(rule: &SharedFiles, step: u64) -> bool {
    rule.block.is_multiple_of(step) && rule.file_size.is_multiple_of(step)
}

/// The jobs of a trial that share files.
fn sharing(jobs: &[Job]) -> impl Iterator<Item = (usize, &Job, &SharedFiles)> {
    let jobs = jobs.iter().enumerate();
    jobs.filter_map(|(index, job)| job.work.shared_files().map(|rule| (index, job, rule)))
}

fn of_job(files: &mut Files, job: usize) -> impl Iterator<Item = &mut TrialFile> {
    let list = files.list.iter_mut();
    list.filter(move |file| file.wanted.job == job && file.admitted.kind == Kind::File)
}

/// Looks once more at what was opened: a link or another name could have come in between. Files that
/// are to be emptied must have no other name.
///
/// # Errors
/// Every file that is not what its name says.
pub(crate) fn check(files: &mut Files, jobs: &[Job]) -> Result<(), Vec<Diagnostic>> {
    let mut faults = Vec::new();
    for (index, job, rule) in sharing(jobs) {
        for file in of_job(files, index) {
            let shown = file.wanted.path.display();
            let (Ok(opened), Ok(named)) =
                (fstat(&file.admitted.descriptor), lstat(&file.wanted.path))
            else {
                let gone = format!("`{shown}` was removed during preparation");
                faults.push(files::of_job(Diagnostic::error(gone).hint(PREPARE), job));
                continue;
            };
            let same = (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino);
            let regular = FileType::from_raw_mode(named.st_mode) == FileType::RegularFile;
            let hint = "only regular files are used: remove it, or use another folder";
            if !same || !regular {
                let other = Diagnostic::error(format!("`{shown}` leads to another file"));
                faults.push(files::of_job(other.hint(hint), job));
            } else if rule.mode == SharedMode::SequentialWrite && opened.st_nlink > 1 {
                let names = format!("`{shown}` would be emptied, but it has another hard link");
                faults.push(files::of_job(Diagnostic::error(names).hint(hint), job));
            }
        }
    }
    match faults.is_empty() {
        true => Ok(()),
        false => Err(faults),
    }
}

/// As late as it can be, before the clones' threads have their engines: empties what the sequential write is
/// to make, and notes how long the files are that are to be filled.
///
/// # Errors
/// A file that cannot be cut.
pub(crate) fn make_ready(files: &mut Files, jobs: &[Job]) -> Result<(), Diagnostic> {
    for (index, job, rule) in sharing(jobs) {
        for file in of_job(files, index) {
            match rule.mode {
                SharedMode::Prepare => {
                    file.length_before = file.admitted.length_now().ok();
                    file.unfinished = true;
                }
                SharedMode::SequentialWrite => {
                    let mapped = rule.engine.kind == EngineKind::Mmap;
                    let length = if mapped { rule.file_size } else { 0 };
                    let to = file.admitted.as_fd();
                    let cut = retry_on_intr(|| ftruncate(to, 0))
                        .and_then(|()| retry_on_intr(|| ftruncate(to, length)));
                    cut.map_err(|error| {
                        let shown = file.wanted.path.display();
                        let message = format!("cannot empty `{shown}`\n  cause: {error}");
                        files::of_job(Diagnostic::error(message).hint("see `dmesg`"), job)
                    })?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// After the clones: what a `prepare` did not finish is undone. What was done, in words.
pub(crate) fn settle(files: &mut Files, jobs: &[Job], ended: &[Ended]) -> Vec<String> {
    let mut notes = Vec::new();
    for (index, job, rule) in sharing(jobs) {
        if rule.mode != SharedMode::Prepare {
            continue;
        }
        let mut clones = ended
            .iter()
            .filter(|ended| ended.result.job as usize == index);
        let whole = clones.all(|ended| ended.result.ended == EndedBy::Size);
        let mut undone = 0;
        for file in of_job(files, index) {
            if whole {
                (file.unfinished, file.laid_out) = (false, true);
                continue;
            }
            let before = file.length_before.unwrap_or(0);
            let grew = file.admitted.length_now().is_ok_and(|now| now > before);
            undone += u64::from(file.admitted.created || grew);
            file.undo();
        }
        if undone > 0 {
            notes.push(format!(
                "job `{}`: it did not finish; {undone} partly written files were removed or cut back",
                job.name
            ));
        }
    }
    notes
}

/// What the clones of each job have in common.
#[derive(Debug, Default)]
pub(crate) struct States(HashMap<u32, Arc<SharedFilesState>>);

impl States {
    /// A clone's part in what its job's clones share; the first one's seed stands for all.
    pub(crate) fn part(
        &mut self,
        index: u32,
        job: &Job,
        files: &[ResolvedFile],
        seed: u64,
    ) -> Option<SharedFilesPart> {
        let rule = job.work.shared_files()?;
        let state = self.0.entry(index).or_insert_with(|| {
            let lengths: Vec<u64> = files
                .iter()
                .map(|file| file.existing.unwrap_or(0))
                .collect();
            Arc::new(SharedFilesState::new(job, rule, &lengths, seed))
        });
        Some(SharedFilesPart::new(state))
    }
}

#[cfg(test)]
#[path = "shared_files_tests.rs"]
mod tests;
