//! The files of jobs whose clones share one set, as in sysbench's fileio: from their admission to their clean-up.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::Arc;

use iodyno_engine::{SharedFilesPart, SharedFilesState};
use iodyno_guard::Kind;
use iodyno_model::{Diagnostic, EngineKind, Job, SharedFiles, SharedMode};
use rustix::fs::{FileType, fstat, ftruncate, lstat};
use rustix::io::retry_on_intr;

use crate::faults;
use crate::files::{Files, TrialFile};
use crate::resolve::PREPARE;
use crate::resolve::resolved::ResolvedFile;

/// The jobs of a trial that share files.
fn sharing(jobs: &[Job]) -> impl Iterator<Item = (usize, &Job, &SharedFiles)> {
    let jobs = jobs.iter().enumerate();
    jobs.filter_map(|(index, job)| job.work.shared_files().map(|rule| (index, job, rule)))
}

fn of_job(files: &mut Files, job: usize) -> impl Iterator<Item = &mut TrialFile> {
    let list = files.list.iter_mut();
    list.filter(move |file| file.wanted.job == job && file.admitted.kind == Kind::File)
}

/// Checks the opened files again, because a link could have been created since they were resolved. Files that will be
/// truncated must have no other name.
///
/// # Errors
/// Every file that is not a regular file or has been replaced.
pub(crate) fn check(files: &mut Files, jobs: &[Job]) -> Result<(), Vec<Diagnostic>> {
    let mut faults = Vec::new();
    for (index, job, rule) in sharing(jobs) {
        for file in of_job(files, index) {
            let shown = file.wanted.path.display();
            let (Ok(opened), Ok(named)) =
                (fstat(&file.admitted.descriptor), lstat(&file.wanted.path))
            else {
                let gone = format!("`{shown}` was removed during preparation");
                faults.push(faults::of_job(Diagnostic::error(gone).hint(PREPARE), job));
                continue;
            };
            let same = (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino);
            let regular = FileType::from_raw_mode(named.st_mode) == FileType::RegularFile;
            let hint = "only regular files are used: remove it, or use another folder";
            if !same || !regular {
                let other = Diagnostic::error(format!("`{shown}` leads to another file"));
                faults.push(faults::of_job(other.hint(hint), job));
            } else if rule.mode == SharedMode::SequentialWrite && opened.st_nlink > 1 {
                let names = format!("`{shown}` would be emptied, but it has another hard link");
                faults.push(faults::of_job(Diagnostic::error(names).hint(hint), job));
            }
        }
    }
    match faults.is_empty() {
        true => Ok(()),
        false => Err(faults),
    }
}

/// The last step before the clones' threads start: truncates the files of a sequential write, and records the length of
/// files that will be filled.
///
/// # Errors
/// A file that cannot be truncated.
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
                        faults::of_job(Diagnostic::error(message).hint("see `dmesg`"), job)
                    })?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// After the trial: undoes files that a `prepare` did not finish. `finished` returns whether all clones of the job at
/// this index completed their work. Returns notes on undone files.
pub(crate) fn settle(
    files: &mut Files,
    jobs: &[Job],
    finished: impl Fn(usize) -> bool,
) -> Vec<String> {
    let mut notes = Vec::new();
    for (index, job, rule) in sharing(jobs) {
        if rule.mode != SharedMode::Prepare {
            continue;
        }
        let finished = finished(index);
        let mut undone = 0;
        for file in of_job(files, index) {
            if finished {
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

/// The state that the clones of each job share, by the job's index.
#[derive(Debug, Default)]
pub(crate) struct States(HashMap<u32, Arc<SharedFilesState>>);

impl States {
    /// A clone's part of the state that its job's clones share. The seed of the first clone is used for all.
    pub(crate) fn part(
        &mut self,
        index: u32,
        job: &Job,
        rule: &SharedFiles,
        files: &[ResolvedFile],
        seed: u64,
    ) -> SharedFilesPart {
        let state = self.0.entry(index).or_insert_with(|| {
            let lengths: Vec<u64> = files
                .iter()
                .map(|file| file.existing.unwrap_or(0))
                .collect();
            Arc::new(SharedFilesState::new(job, rule, &lengths, seed))
        });
        SharedFilesPart::new(state)
    }
}
