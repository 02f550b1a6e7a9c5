//! The record of a clone's ops as an iolog in fio's version 3, for replay.
//!
//! After the header, each file is added and opened; then a line for each op when it is issued: `TIME NAME ACTION OFFSET
//! LENGTH`, the time in µs since the first op; at the end each file is closed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use iodyno_engine::{OpLog, OpRecord};
use iodyno_model::{Blocks, Direction};

use crate::logs::file::LogFile;
use crate::resolve::resolved::ResolvedClone;

/// Number of ops that can be queued before the worker has to wait.
const QUEUE: usize = 16_384;

/// An iolog that is being written.
#[derive(Debug)]
pub(crate) struct Iolog {
    /// The queue's end in the worker.
    pub(crate) queue: Arc<OpLog>,
    file: LogFile,
    /// The names of the clone's files.
    names: Vec<String>,
    /// When the first op was issued, clock ns, and the time of the last line, µs.
    times: Option<(u64, u64)>,
}

impl Iolog {
    /// Creates the record at `path`.
    ///
    /// # Errors
    /// It cannot be created, or a line cannot contain the name of a file.
    pub(crate) fn create(
        path: PathBuf,
        blocks: &Blocks,
        clone: &ResolvedClone,
        folder: &Path,
    ) -> Result<Iolog, String> {
        let mut names = Vec::with_capacity(clone.files.len());
        for file in &clone.files {
            let name = name_of(&file.path, blocks, folder);
            let name = name
                .to_str()
                .filter(|name| !name.contains(char::is_control));
            let Some(name) = name else {
                let shown = file.path.display();
                return Err(format!("an iolog cannot hold the name of `{shown}`"));
            };
            names.push(name.to_owned());
        }
        let mut file = LogFile::at(path)?;
        file.line(format_args!("fio version 3 iolog\n"));
        for action in ["add", "open"] {
            for name in &names {
                file.line(format_args!("0 {name} {action}\n"));
            }
        }
        Ok(Iolog {
            queue: Arc::new(OpLog::new(QUEUE)),
            file,
            names,
            times: None,
        })
    }

    /// Writes the ops that the worker has issued, at most one queue's length.
    pub(crate) fn drain(&mut self) {
        for _ in 0..QUEUE {
            let Some(op) = self.queue.pop() else { return };
            self.op(&op);
        }
    }

    fn op(&mut self, op: &OpRecord) {
        let (first, last) = self.times.unwrap_or((op.at, 0));
        // fio waits for the difference of two times, but not after a time of 0.
        let time = (op.at.saturating_sub(first) / 1000 + 1).max(last);
        self.times = Some((first, time));
        let action = match (op.direction, op.data_only) {
            (Direction::Read, _) => "read",
            (Direction::Write, _) => "write",
            (Direction::Trim, _) => "trim",
            (_, true) => "datasync",
            (_, false) => "sync",
        };
        if let Some(name) = self.names.get(op.file as usize) {
            let OpRecord { offset, bytes, .. } = *op;
            self.file
                .line(format_args!("{time} {name} {action} {offset} {bytes}\n"));
        }
    }

    /// Writes the remaining ops. Returns a note on errors and on effects on the figures.
    pub(crate) fn close(mut self, in_virtual_time: bool) -> Option<String> {
        self.drain();
        let time = self.times.map_or(0, |(_, last)| last);
        for name in &self.names {
            self.file.line(format_args!("{time} {name} close\n"));
        }
        let waits = self.queue.waits();
        let slowed = (waits > 0 && !in_virtual_time).then(|| {
            format!("recording each op delayed its worker {waits} times: the figures are too low")
        });
        match (self.file.close(), slowed) {
            (Some(fault), Some(slowed)) => Some(format!("{fault}; {slowed}")),
            (fault, slowed) => fault.or(slowed),
        }
    }
}

/// The name as fio writes it: relative if the job names it so.
fn name_of<'p>(path: &'p Path, blocks: &Blocks, folder: &Path) -> &'p Path {
    let files = &blocks.files;
    let mut named = files.names.iter().chain(&files.directories);
    match named.any(|name| name.is_absolute()) || folder == Path::new("") {
        true => path,
        false => path.strip_prefix(folder).unwrap_or(path),
    }
}

/// The path of a clone's iolog: as given by the job, with the clone's number if another clone of the trial has the same
/// path.
pub(crate) fn path_of(
    path: &Path,
    folder: &Path,
    used: &mut Vec<PathBuf>,
    number: usize,
) -> PathBuf {
    let path = folder.join(path);
    if !used.contains(&path) {
        used.push(path.clone());
        return path;
    }
    let mut name = path.into_os_string();
    name.push(format!(".{number}"));
    PathBuf::from(name)
}
