//! Explains why a step failed, if its errno has a known cause.

use std::path::Path;

use iodyno_model::{Direction, errno_name};
use rustix::fs::{fstat, fstatfs};
use rustix::io::Errno;

use super::folder::Folder;
use crate::outcome::WorkerError;

/// The cause and the remedy; `None` if the errno says enough.
pub(super) fn explain(
    folder: &Folder,
    direction: Direction,
    errno: Errno,
    path: &Path,
) -> Option<WorkerError> {
    let (cause, hint) = match errno {
        Errno::NOSPC => match fstatfs(&folder.descriptor) {
            Ok(found) if found.f_files > 0 && found.f_ffree == 0 => (
                "the file system has no inode left",
                "take fewer files, or a file system made with more inodes",
            ),
            _ => (
                "the file system is full",
                "take fewer or smaller files, or fewer cycles",
            ),
        },
        Errno::DQUOT => ("the quota is used up", "raise it, or take smaller files"),
        Errno::ROFS => (
            "the file system is read-only, or has become so after an error",
            "see `dmesg` and its mount options",
        ),
        Errno::NOENT if gone(folder) => (
            "its folder was removed meanwhile",
            "leave the trial's folder alone while it runs",
        ),
        Errno::NOENT => ("it was removed meanwhile", "leave the trial's files alone"),
        Errno::ACCESS | Errno::PERM => (
            "permission denied",
            "run as a user who may write there, or choose another folder",
        ),
        Errno::MFILE => ("too many files are open", "raise `ulimit -n`"),
        Errno::OPNOTSUPP | Errno::NOSYS => (
            "the file system cannot do that",
            "leave this step out, or choose another file system",
        ),
        _ => return None,
    };
    Some(
        WorkerError::new(
            format!("{} `{}`", deed(direction), path.display()),
            format!("{}: {cause}", errno_name(errno.raw_os_error())),
        )
        .hint(hint.to_owned()),
    )
}

/// A removed folder stays open, but has no name.
fn gone(folder: &Folder) -> bool {
    fstat(&folder.descriptor).is_ok_and(|found| found.st_nlink == 0)
}

fn deed(direction: Direction) -> &'static str {
    match direction {
        Direction::Write => "write to",
        Direction::Sync => "fsync",
        Direction::SyncFolder => "fsync the folder",
        Direction::Mkdir => "make the folder",
        Direction::Rmdir => "remove the folder",
        Direction::Readdir => "read the folder",
        Direction::Statfs => "statfs",
        other => other.name(),
    }
}
