//! A trial's own folder: created with a unique name and a marker file that is locked while the trial runs.
//!
//! The marker identifies the trial that the folder belongs to, and the kernel releases its lock when the process ends.
//! An orphaned folder can therefore be distinguished from one in use, and from a folder that only has such a name.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use iodyno_model::{BoundPlan, TrialKey};
use rustix::fs::{self, AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::leftovers::removal;

/// The prefix of the name of every trial's folder.
const PREFIX: &str = "iodyno-";
/// The marker's name.
pub(super) const MARKER: &str = ".iodyno";
/// The largest number of leftover folders that are named in a note.
const NAMED: usize = 5;
/// How folders are opened: a link is not followed.
pub(super) const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Between the name of a trial and the number of a node.
const NODE: &str = "-node";

/// The name of a trial's own folder in its target. The nodes of a trial may share the target.
pub fn folder_name(plan: &BoundPlan) -> String {
    let run = plan.key.run.0.simple();
    let TrialKey {
        round,
        cell,
        attempt,
        ..
    } = plan.key;
    let node = match plan.node {
        0 => String::new(),
        node => format!("{NODE}{node}"),
    };
    format!("{PREFIX}{run}-{round}-{cell}-{attempt}{node}")
}

/// The content of the marker of the folder with this name.
fn mark(name: &str) -> String {
    format!("The files of a running trial of iodyno, which removes them at its end.\n{name}\n")
}

/// The folder, open.
#[derive(Debug)]
pub(super) struct OpenFolder {
    /// The target that contains it.
    pub(super) target: OwnedFd,
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) folder: OwnedFd,
    /// The lock, released with the folder.
    _marker: Option<File>,
}

impl OpenFolder {
    /// Creates it, accessible only to this user.
    ///
    /// # Errors
    /// EEXIST if the name exists. A partly created folder is removed.
    pub(super) fn make(target: OwnedFd, at: &Path, name: String) -> io::Result<OpenFolder> {
        fs::mkdirat(&target, name.as_str(), Mode::RWXU)?;
        let marked = open(target.as_fd(), &name).and_then(|folder| {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let marker = fs::openat(&folder, MARKER, flags, Mode::RUSR | Mode::WUSR)?;
            let mut marker = File::from(marker);
            // If the file system does not support locks, the trial runs without one.
            let _ = fs::flock(&marker, FlockOperation::NonBlockingLockExclusive);
            marker.write_all(mark(&name).as_bytes())?;
            Ok((folder, marker))
        });
        match marked {
            Ok((folder, marker)) => Ok(OpenFolder {
                path: at.join(&name),
                target,
                name,
                folder,
                _marker: Some(marker),
            }),
            Err(error) => {
                if let Ok(folder) = open(target.as_fd(), &name) {
                    let _ = fs::unlinkat(&folder, MARKER, AtFlags::empty());
                }
                let _ = fs::unlinkat(&target, name.as_str(), AtFlags::REMOVEDIR);
                Err(error)
            }
        }
    }

    /// The folder of a trial whose process is dead, if it exists and belongs to that trial: its lock is free, and its
    /// marker names the trial or it is empty, because the process died immediately after creating it.
    pub(super) fn open_orphan(at: &Path, name: &str) -> io::Result<Option<OpenFolder>> {
        let target = fs::open(
            at,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let folder = match open(target.as_fd(), name) {
            Ok(folder) => folder,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let marker = match state(folder.as_fd())? {
            State::Left(marker, file) => {
                let written = mark(name);
                // The marker can be incomplete: the process was killed while it wrote it.
                if !written.starts_with(&marker) {
                    return Err(io::Error::other("it belongs to another trial"));
                }
                Some(file)
            }
            State::InUse => return Err(io::Error::other("a process still uses it")),
            State::Unmarked if is_empty(folder.as_fd())? => None,
            State::Unmarked => {
                return Err(io::Error::other("it does not contain iodyno's marker file"));
            }
        };
        Ok(Some(OpenFolder {
            path: at.join(name),
            target,
            name: name.to_owned(),
            folder,
            _marker: marker,
        }))
    }

    /// Creates a folder in a folder and opens it.
    pub(super) fn make_below(parent: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
        fs::mkdirat(parent, name, Mode::RWXU)?;
        open(parent, name)
    }
}

/// Opens a folder by its name in another folder without following links.
pub(super) fn open(parent: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
    Ok(fs::openat(parent, name, FOLDER, Mode::empty())?)
}

/// The path of an open folder without links, as in the table of mounts; `at`: if it cannot be read.
pub(super) fn real_path(folder: BorrowedFd<'_>, at: &Path) -> PathBuf {
    let link = format!("/proc/self/fd/{}", folder.as_raw_fd());
    std::fs::read_link(link).unwrap_or_else(|_| at.to_owned())
}

/// Another descriptor of the same folder, with its own position.
pub(super) fn again(folder: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    open(folder, ".")
}

/// Whether the folder was removed and has no name.
pub(super) fn is_gone(folder: BorrowedFd<'_>) -> bool {
    fs::fstat(folder).is_ok_and(|state| state.st_nlink == 0)
}

enum State {
    /// No process holds its lock. With the content of its marker, and its file.
    Left(String, File),
    InUse,
    Unmarked,
}

fn state(folder: BorrowedFd<'_>) -> io::Result<State> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut marker = match fs::openat(folder, MARKER, flags, Mode::empty()) {
        Ok(marker) => File::from(marker),
        Err(Errno::NOENT | Errno::LOOP) => return Ok(State::Unmarked),
        Err(error) => return Err(error.into()),
    };
    match fs::flock(&marker, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            let mut text = String::new();
            let read = (&mut marker).take(4096).read_to_string(&mut text);
            Ok(match read {
                Ok(_) => State::Left(text, marker),
                Err(_) => State::Unmarked,
            })
        }
        Err(Errno::WOULDBLOCK) => Ok(State::InUse),
        // Without locks it is unknown: it counts as in use.
        Err(_) => Ok(State::InUse),
    }
}

fn is_empty(folder: BorrowedFd<'_>) -> io::Result<bool> {
    for entry in fs::Dir::read_from(folder)? {
        let entry = entry?;
        if ![&b"."[..], b".."].contains(&entry.file_name().to_bytes()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The part of a folder's name that all nodes of a trial have in common.
fn trial_name(folder: &str) -> &str {
    folder.split_once(NODE).map_or(folder, |(trial, _)| trial)
}

/// Notes on other trials' folders in a target: leftover folders and folders in use. `own`: the name of this trial's
/// folder; those of its other nodes are not of another trial.
pub(super) fn others(target: BorrowedFd<'_>, at: &Path, own: &str) -> io::Result<Vec<String>> {
    let (mut left, mut busy) = (Vec::new(), Vec::new());
    for entry in fs::Dir::read_from(target)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else {
            continue;
        };
        let folder = matches!(entry.file_type(), FileType::Directory | FileType::Unknown);
        if !folder || !name.starts_with(PREFIX) || trial_name(name) == trial_name(own) {
            continue;
        }
        // A folder that cannot be opened is not ours.
        let Ok(folder) = open(target, name) else {
            continue;
        };
        match state(folder.as_fd()) {
            Ok(State::Left(text, _)) if text.contains(name) => left.push(name.to_owned()),
            Ok(State::InUse) => busy.push(name.to_owned()),
            _ => {}
        }
    }
    left.sort_unstable();
    let mut notes = Vec::new();
    if !left.is_empty() {
        let more = match left.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(", and {more} more like these"),
        };
        notes.push(format!(
            "earlier trials left these folders behind, and no process uses them{more}; remove \
             them with:"
        ));
        // Each command is on a separate line, so that it can be pasted.
        let at = real_path(target, at);
        let paths = left.iter().take(NAMED).map(|name| at.join(name));
        notes.extend(paths.map(|path| removal(&path)));
    }
    if !busy.is_empty() {
        notes.push(format!(
            "another iodyno trial runs in `{}` at the same time: the two affect each other's results",
            at.display()
        ));
    }
    Ok(notes)
}
