//! fio's engines that work on names (`filecreate`, `dirstat`, …), as file operations.
//!
//! Their files are in a folder that the trial creates in the job's `directory` and removes at its end: existing files
//! are never changed.

use std::path::PathBuf;

use iodyno_model::{
    Action, Amount, CycleStep, Direction, FileSet, Files, FioOperations, Operations, PickOrder,
    Subject, Work, Writing,
};
use iodyno_options::Problem;

use super::Finish;
use crate::draft::Draft;
use crate::engines::{FileDeed, FileEngine};

const SET: &str = "files";

/// Options that would change the ops and are not supported with a file engine.
const OTHERS: [&str; 8] = [
    "verify",
    "thinktime",
    "fsync",
    "fdatasync",
    "sync_file_range",
    "flow",
    "read_iolog",
    "write_iolog",
];

impl Finish<'_> {
    /// The work of a job with a file engine.
    pub(super) fn file_operations(&mut self, engine: FileEngine) -> Work {
        let what = format!("the engine `{}`", engine.name);
        self.refuse(&OTHERS, &what, "leave it out");
        if self.draft.blocks.files.directories.len() > 1 {
            let message = format!("{what} works in one folder");
            self.contradiction("directory", message, "name one folder");
        }
        if self.draft.blocks.files.read_only {
            let message = format!("{what} creates files, and `--readonly` was given");
            self.contradiction("ioengine", message, "leave `--readonly` out");
        }
        let files = &self.draft.blocks.files;
        let names = files.names.len() as u64;
        let count = match names {
            0 => files.count.max(1).into(),
            names => names,
        };
        let of_job = match (files.size, self.draft.blocks.extent.size) {
            (Some((Amount::Bytes(size), _)), _) => Some(size),
            (None, Some(Amount::Bytes(size))) => Some(size / count),
            (None, None) => Some(self.draft.blocks.access.min_block()),
            _ => None,
        };
        if of_job.is_none() {
            let option = self.draft.given_of("filesize", "size");
            let message = format!("{what} takes a size in bytes");
            self.contradiction(option, message, "write a size such as `filesize=4k`");
        }
        if names > 0 {
            let message = format!(
                "{what} works on files that the trial makes: `filename` only sets how many and in which folder"
            );
            let warning = Problem::warning(message).hint("use `directory` and `nrfiles` instead");
            self.say("filename", warning);
        }
        let bytes = of_job.unwrap_or(0);
        let rates = self.draft.job.pacing.rates;
        let access = &self.draft.blocks.access;
        let writes = access.writes && !access.reads;
        let (direction, rate) = match writes {
            true => (Direction::Write, rates.write),
            false => (Direction::Read, rates.read),
        };
        let job = &mut self.draft.job;
        job.pacing.ops_per_s = match rate.bytes_per_s {
            0 => rate.iops,
            bytes_per_s => bytes_per_s as f64 / bytes.max(1) as f64,
        };
        job.pacing.rates = Default::default();
        let all = count.saturating_mul(job.clones.max(1).into());
        let timed = self.draft.blocks.passes.time_based && job.end.runtime.is_some();
        job.end.ops = match (engine.deed, job.end.ops) {
            (FileDeed::Stat, None) if timed => None,
            (FileDeed::Stat, None) => {
                Some(all.saturating_mul(self.draft.blocks.passes.loops.max(1)))
            }
            (_, None) => Some(all),
            (_, Some(ops)) => Some(ops.saturating_mul(job.clones.max(1).into()).min(all)),
        };
        Work::FileOperations(operations(self.draft, engine, all, (direction, bytes)))
    }
}

fn operations(
    draft: &Draft,
    engine: FileEngine,
    count: u64,
    (direction, bytes): (Direction, u64),
) -> Operations {
    let files = &draft.blocks.files;
    let of = || Subject::Set {
        name: SET.to_owned(),
        order: PickOrder::Oldest,
    };
    let (actions, set) = match (engine.deed, engine.folders) {
        (FileDeed::Create, false) => (vec![(Action::Create, true), (Action::Close, false)], false),
        (FileDeed::Create, true) => (vec![(Action::Mkdir, true)], false),
        (FileDeed::Stat, _) => (vec![(Action::Stat { of: of() }, true)], true),
        (FileDeed::Delete, _) => (vec![(Action::Unlink { of: of() }, true)], true),
    };
    let set = set.then(|| FileSet {
        name: SET.to_owned(),
        count,
        size: if engine.folders { 0 } else { bytes },
        fsync: files.fsync_on_layout && !engine.folders,
        folders: engine.folders,
    });
    let cycle = actions.into_iter();
    Operations {
        about: format!("fio's engine {}", engine.name),
        sets: set.into_iter().collect(),
        cycle: cycle
            .map(|(action, timed)| CycleStep { action, timed })
            .collect(),
        own_folders: false,
        drain: false,
        writing: Writing::default(),
        fio: Some(FioOperations {
            engine: engine.name.to_owned(),
            folder: folder(files),
            direction,
            bytes,
        }),
        command: None,
    }
}

/// The job's `directory`, or the folder of its first named file; `None`: the current folder.
fn folder(files: &Files) -> Option<PathBuf> {
    let named = || Some(files.names.first()?.parent()?.to_owned());
    let folder = files.directories.first().cloned().or_else(named);
    folder.filter(|folder| !folder.as_os_str().is_empty())
}
