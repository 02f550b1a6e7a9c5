//! The journal of storage that iodyno makes: what was about to be done to the host, and what was done.
//!
//! One file per target, outside the store and the storage under test. Each line is a JSON value, appended and synced:
//! the intent before an action, its outcome afterwards, and later that it was undone. The file is removed when
//! everything is undone. A process holds a lock on the file while it works on the target; the kernel releases it when
//! the process dies.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use iodyno_host::{Owner, Roots, locks, names};
use iodyno_model::{Diagnostic, Provision};
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::layers::action::Action;
use crate::layers::host::Host;

const SCHEMA: u32 = 1;

/// The first line of a journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Header {
    schema: u32,
    /// Identifies the target: part of all names that iodyno gives.
    pub(crate) token: String,
    /// The configuration for which it was made.
    pub(crate) configuration: String,
    /// The boot in which it was made.
    pub(crate) boot: String,
    pub(crate) owner: Owner,
    /// What is made.
    pub(crate) provision: Provision,
}

impl Header {
    pub(crate) fn new(
        token: &str,
        configuration: &str,
        boot: String,
        owner: Owner,
        provision: Provision,
    ) -> Header {
        Header {
            schema: SCHEMA,
            token: token.to_owned(),
            configuration: configuration.to_owned(),
            boot,
            owner,
            provision,
        }
    }
}

/// A line after the first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// This is about to be done.
    Intent { step: usize, action: Action },
    /// It was done. What it returned: the name of a device, for example.
    Done { step: usize, result: String },
    /// It was undone.
    Undone { step: usize },
}

/// An action, and how far it got.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Step {
    pub(crate) action: Action,
    /// What it returned; `None` if it was interrupted or failed.
    pub(crate) result: Option<String>,
    pub(crate) undone: bool,
}

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JournalError {
    /// Another process works on the target.
    #[error("another process works on it")]
    Busy,
    /// It does not exist.
    #[error("it has no journal")]
    Missing,
    /// It is not a journal of this version of iodyno.
    #[error("its journal `{}` cannot be parsed", .0.display())]
    Foreign(PathBuf),
    /// It is a symbolic link, for example.
    #[error("its journal `{}` is not a regular file", .0.display())]
    NotAFile(PathBuf),
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// The journal of one target. The file is locked until this is dropped.
#[derive(Debug)]
pub(crate) struct Journal {
    /// Its file.
    pub(crate) path: PathBuf,
    file: File,
    pub(crate) header: Header,
    pub(crate) steps: Vec<Step>,
}

impl Journal {
    /// The file of the journal of a target.
    pub(crate) fn path(folder: &Path, token: &str) -> PathBuf {
        folder.join(format!("{token}.jsonl"))
    }

    /// Begins a journal.
    ///
    /// # Errors
    /// It exists, or cannot be written and synced.
    pub(crate) fn begin(folder: &Path, header: Header, host: &dyn Host) -> io::Result<Journal> {
        let mut make = DirBuilder::new();
        make.recursive(true).mode(0o700).create(folder)?;
        let path = Journal::path(folder, &header.token);
        let mut open = File::options();
        open.append(true).read(true).create_new(true).mode(0o600);
        let file = open.open(&path)?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let mut journal = Journal {
            path,
            file,
            header,
            steps: Vec::new(),
        };
        let header = serde_json::to_vec(&journal.header)?;
        journal.append(header, host)?;
        host.sync(&File::open(folder)?)?;
        Ok(journal)
    }

    /// Opens the journal of a target, to work on it.
    ///
    /// # Errors
    /// See [`JournalError`].
    pub(crate) fn open(folder: &Path, token: &str) -> Result<Journal, JournalError> {
        Journal::locked(folder, token, true)
    }

    /// Opens the journal of a target, and writes nothing.
    ///
    /// # Errors
    /// See [`JournalError`].
    pub(crate) fn open_to_list(folder: &Path, token: &str) -> Result<Journal, JournalError> {
        Journal::locked(folder, token, false)
    }

    /// The file of a journal. Symbolic links are not followed: it may be truncated.
    fn file(path: &Path, append: bool) -> Result<File, JournalError> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut open = File::options();
        open.read(true).append(append);
        let opened = open.custom_flags(flags.bits() as i32).open(path);
        match opened.and_then(|file| Ok((file.metadata()?.is_file(), file))) {
            Ok((true, file)) => Ok(file),
            Ok((false, _)) => Err(JournalError::NotAFile(path.to_owned())),
            Err(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::NOENT) => Err(JournalError::Missing),
                Some(Errno::LOOP) => Err(JournalError::NotAFile(path.to_owned())),
                _ => Err(error.into()),
            },
        }
    }

    fn locked(folder: &Path, token: &str, mend: bool) -> Result<Journal, JournalError> {
        let path = Journal::path(folder, token);
        let mut file = Journal::file(&path, mend)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Err(JournalError::Busy),
            other => other.map_err(io::Error::from)?,
        }
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        // The process that worked on it may have finished just before it was locked.
        if file.metadata()?.nlink() == 0 {
            return Err(JournalError::Missing);
        }
        // The last line is incomplete if the host crashed while it was written; its action had not begun.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let parsed = parse(&text[..whole]).ok_or_else(|| JournalError::Foreign(path.clone()))?;
        if mend && whole < text.len() {
            file.set_len(whole as u64)?;
        }
        let Some((header, steps)) = parsed else {
            // Nothing was done yet.
            if mend {
                fs::remove_file(&path)?;
            }
            return Err(JournalError::Missing);
        };
        Ok(Journal {
            path,
            file,
            header,
            steps,
        })
    }

    /// The tokens of all journals in a folder.
    pub(crate) fn tokens(folder: &Path) -> Vec<String> {
        let tokens = names(folder).into_iter();
        tokens
            .filter_map(|name| Some(name.strip_suffix(".jsonl")?.to_owned()))
            .collect()
    }

    /// The process that works on a target, and its name; `None` if there is none, or it is not known.
    pub(crate) fn worker(folder: &Path, token: &str, roots: &Roots) -> Option<(u32, String)> {
        let file = Journal::file(&Journal::path(folder, token), false).ok()?;
        locks::holder(roots, &file)
    }

    /// Reads the journal of a target on which another process may work; `None` if that is not possible.
    pub(crate) fn look(folder: &Path, token: &str) -> Option<(Header, Vec<Step>)> {
        let mut file = Journal::file(&Journal::path(folder, token), false).ok()?;
        let mut text = String::new();
        file.read_to_string(&mut text).ok()?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        parse(&text[..whole])?
    }

    fn append(&mut self, mut line: Vec<u8>, host: &dyn Host) -> io::Result<()> {
        line.push(b'\n');
        self.file.write_all(&line)?;
        host.sync(&self.file)
    }

    fn line(&mut self, line: &Line, host: &dyn Host) -> io::Result<()> {
        self.append(serde_json::to_vec(line)?, host)
    }

    /// Records that an action is about to begin. Returns its number.
    ///
    /// # Errors
    /// The journal cannot be written; the action must not begin.
    pub(crate) fn intend(&mut self, action: Action, host: &dyn Host) -> io::Result<usize> {
        let step = self.steps.len();
        let line = Line::Intent {
            step,
            action: action.clone(),
        };
        self.line(&line, host)?;
        self.steps.push(Step {
            action,
            result: None,
            undone: false,
        });
        Ok(step)
    }

    /// Records the outcome of an action.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub(crate) fn done(&mut self, step: usize, result: &str, host: &dyn Host) -> io::Result<()> {
        let result = result.to_owned();
        self.steps[step].result = Some(result.clone());
        self.line(&Line::Done { step, result }, host)
    }

    /// Records that an action was undone.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub(crate) fn undone(&mut self, step: usize, host: &dyn Host) -> io::Result<()> {
        self.steps[step].undone = true;
        self.line(&Line::Undone { step }, host)
    }

    /// Removes the file: everything is undone.
    ///
    /// # Errors
    /// As unlink(2).
    pub(crate) fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }

    /// The mark of the processes of a step; see [`Host::marked`].
    pub(crate) fn mark(&self, step: usize) -> String {
        format!("{}/{step}", self.header.token)
    }
}

/// `None`: it is not a journal of this version; `Some(None)`: it is empty.
fn parse(text: &str) -> Option<Option<(Header, Vec<Step>)>> {
    let mut lines = text.lines();
    let Some(first) = lines.next() else {
        return Some(None);
    };
    let header: Header = serde_json::from_str(first).ok()?;
    if header.schema != SCHEMA {
        return None;
    }
    let mut steps: Vec<Step> = Vec::new();
    for line in lines {
        match serde_json::from_str(line).ok()? {
            Line::Intent { step, action } if step == steps.len() => steps.push(Step {
                action,
                result: None,
                undone: false,
            }),
            Line::Intent { .. } => return None,
            Line::Done { step, result } => steps.get_mut(step)?.result = Some(result),
            Line::Undone { step } => steps.get_mut(step)?.undone = true,
        }
    }
    Some(Some((header, steps)))
}

/// That the journal cannot be written.
pub(crate) fn not_recorded(why: &str) -> Diagnostic {
    let message = format!("cannot write the journal of the storage that is made: {why}");
    Diagnostic::error(message)
        .hint("nothing is made without a journal: free space, or check the permissions")
}
