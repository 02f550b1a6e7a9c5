//! Removes a folder with its contents, and nothing else.
//!
//! Each name is removed relative to the descriptor of its folder. Links are removed and never followed; mount points
//! are not entered.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{self, AtFlags, FileType, Mode, ResolveFlags};
use rustix::io::Errno;

use super::Tell;
use super::folder::FOLDER;

/// How often progress is reported.
const TELL_EVERY: Duration = Duration::from_millis(100);
/// At most this many passes over a folder in which another process creates files.
const PASSES: u32 = 50;

/// Removes the content of a folder.
pub(super) struct Remover<'a> {
    tell: Tell<'a>,
    reported: Instant,
    removed: u64,
    found: u64,
    /// The first thing that could not be removed.
    fault: Option<(String, io::Error)>,
}

struct Entry {
    inode: u64,
    name: CString,
    folder: bool,
}

impl<'a> Remover<'a> {
    pub(super) fn new(tell: Tell<'a>) -> Remover<'a> {
        Remover {
            tell,
            reported: Instant::now(),
            removed: 0,
            found: 0,
            fault: None,
        }
    }

    /// Removes everything in `folder` except `spare`, then `spare`, then the folder itself by its `name` in `parent`.
    ///
    /// # Errors
    /// The first entry that could not be removed, with its name. The others are removed nevertheless.
    pub(super) fn remove(
        mut self,
        parent: BorrowedFd<'_>,
        name: &str,
        folder: BorrowedFd<'_>,
        spare: &str,
    ) -> Result<u64, (String, io::Error)> {
        (self.tell)(0, 0);
        self.empty(folder, Some(spare));
        if self.fault.is_none() {
            // The marker is removed last: it identifies the folder.
            if let Err(error) = gone(fs::unlinkat(folder, spare, AtFlags::empty())) {
                self.fault = Some((spare.to_owned(), error.into()));
            }
        }
        if self.fault.is_none()
            && same(parent, name, folder)
            && let Err(error) = gone(fs::unlinkat(parent, name, AtFlags::REMOVEDIR))
        {
            self.fault = Some((name.to_owned(), error.into()));
        }
        (self.tell)(self.removed, self.found);
        match self.fault {
            None => Ok(self.removed),
            Some(fault) => Err(fault),
        }
    }

    /// Removes its content, in several passes until it is empty: file systems can omit entries while others are
    /// removed, and an abandoned worker can still create some.
    fn empty(&mut self, folder: BorrowedFd<'_>, spare: Option<&str>) {
        for _ in 0..PASSES {
            let entries = match entries(folder, spare) {
                Ok(entries) => entries,
                Err(error) => return self.note(".", error),
            };
            let before = self.removed;
            self.found += entries.len() as u64;
            for entry in &entries {
                self.entry(folder, entry);
            }
            if entries.is_empty() || self.removed == before {
                return;
            }
        }
    }

    fn entry(&mut self, parent: BorrowedFd<'_>, entry: &Entry) {
        let removed = match entry.folder {
            true => self.folder(parent, &entry.name),
            false => gone(fs::unlinkat(parent, &entry.name, AtFlags::empty())).map_err(Into::into),
        };
        match removed {
            Ok(()) => self.removed += 1,
            Err(error) => self.note(&entry.name.to_string_lossy(), error),
        }
        if self.reported.elapsed() >= TELL_EVERY {
            self.reported = Instant::now();
            (self.tell)(self.removed, self.found);
        }
    }

    fn folder(&mut self, parent: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
        match within(parent, name) {
            Ok(folder) => self.empty(folder.as_fd(), None),
            Err(Errno::NOENT) => return Ok(()),
            Err(Errno::XDEV) => {
                return Err(io::Error::other("a file system is mounted there"));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(gone(fs::unlinkat(parent, name, AtFlags::REMOVEDIR))?)
    }

    fn note(&mut self, name: &str, error: io::Error) {
        self.fault.get_or_insert_with(|| (name.to_owned(), error));
    }
}

/// A file that does not exist counts as removed.
fn gone(removed: Result<(), Errno>) -> Result<(), Errno> {
    match removed {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

/// Opens a folder without following a link or crossing a mount.
fn within(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    loop {
        match fs::openat2(parent, name, FOLDER, Mode::empty(), resolve) {
            // A rename on the host interfered: try again.
            Err(Errno::AGAIN | Errno::INTR) => continue,
            // Unsupported by kernels before 5.6 and by some sandboxes.
            Err(Errno::NOSYS | Errno::PERM) => {}
            other => return other,
        }
        return within_mount(parent, name);
    }
}

/// The same without openat2(2).
fn within_mount(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let folder = fs::openat(parent, name, FOLDER, Mode::empty())?;
    // A bind mount has the device of its source.
    match mount_of(folder.as_fd())? == mount_of(parent)? {
        true => Ok(folder),
        false => Err(Errno::XDEV),
    }
}

/// The line with the kernel's number of the mount, proc_pid_fdinfo(5).
fn mount_of(open: BorrowedFd<'_>) -> Result<String, Errno> {
    let path = format!("/proc/self/fdinfo/{}", open.as_raw_fd());
    let text = std::fs::read_to_string(path).map_err(|_| Errno::XDEV)?;
    let line = text.lines().find(|line| line.starts_with("mnt_id:"));
    line.map(str::to_owned).ok_or(Errno::XDEV)
}

/// Whether a name still leads to this folder.
fn same(parent: BorrowedFd<'_>, name: &str, folder: BorrowedFd<'_>) -> bool {
    let ours = fs::fstat(folder);
    let theirs = fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino),
        _ => false,
    }
}

/// The entries in the order of their inodes, which is their order on most file systems.
fn entries(folder: BorrowedFd<'_>, spare: Option<&str>) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for entry in fs::Dir::read_from(folder)? {
        let entry = match entry {
            Ok(entry) => entry,
            // The folder itself was removed.
            Err(Errno::NOENT) => break,
            Err(error) => return Err(error.into()),
        };
        let name = entry.file_name();
        let bytes = name.to_bytes();
        if bytes == b"." || bytes == b".." || spare.is_some_and(|spare| spare.as_bytes() == bytes) {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_or(FileType::Unknown, |state| {
                    FileType::from_raw_mode(state.st_mode)
                }),
            kind => kind,
        };
        entries.push(Entry {
            inode: entry.ino(),
            name: name.to_owned(),
            folder: kind == FileType::Directory,
        });
    }
    entries.sort_unstable_by_key(|entry| entry.inode);
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_testing::{Mounted, is_root, skip};

    #[test]
    fn a_mount_is_not_entered_even_without_openat2_and_from_the_same_device() {
        if !is_root() {
            return skip("mounting needs root");
        }
        let at = tempfile::tempdir().unwrap();
        for name in ["source", "inside", "plain"] {
            std::fs::create_dir(at.path().join(name)).unwrap();
        }
        let source = at.path().join("source").display().to_string();
        let Some(mounted) = Mounted::on(&at.path().join("inside"), &["--bind", &source]) else {
            return skip("no bind mount");
        };
        let parent = std::fs::File::open(at.path()).unwrap();
        for open in [within, within_mount] {
            let found = |name: &CStr| open(parent.as_fd(), name).map(drop);
            assert_eq!(found(c"plain"), Ok(()));
            assert_eq!(found(c"inside"), Err(Errno::XDEV));
        }
        drop(mounted);
    }
}
