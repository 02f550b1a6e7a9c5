//! The files and folders that iodyno made, and their removal: only the inode that was made is removed, whatever its
//! path leads to by now.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use iodyno_host::identity::inode;
use iodyno_model::{Identity, Inode};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, openat, openat2, unlinkat};

use super::action::Action;
use crate::journal::Step;

/// Flags for looking at an inode. A symbolic link is opened itself.
const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// How many files of others an error names.
const NAMED: usize = 5;

/// The inode at a path, as the result of the action that made it; empty if its file system has no stable inodes.
pub(crate) fn result(path: &Path) -> io::Result<String> {
    let made = rustix::fs::open(path, LOOK, Mode::empty())?;
    Ok(match inode(made.as_fd()) {
        Some(inode) => serde_json::to_string(&inode)?,
        None => String::new(),
    })
}

/// The inodes that the steps of a journal have made, by their paths.
pub(crate) fn inodes(steps: &[Step]) -> BTreeMap<PathBuf, Inode> {
    let made = steps.iter().filter_map(|step| match &step.action {
        Action::Folder { path, .. } | Action::File { path, .. } => {
            let inode = serde_json::from_str(step.result.as_deref()?).ok()?;
            Some((path.clone(), inode))
        }
        _ => None,
    });
    made.collect()
}

/// What iodyno made at a path, opened without following a symbolic link.
pub(super) struct ProvisionedInode {
    folder: OwnedFd,
    pub(super) itself: OwnedFd,
    name: PathBuf,
}

impl ProvisionedInode {
    /// Opens it. Without a record of its inode, the folder that contains it must be one that iodyno made, or its path
    /// must not contain a symbolic link.
    ///
    /// # Errors
    /// Something else is there, or it cannot be opened.
    pub(super) fn open(
        path: &Path,
        known: &BTreeMap<PathBuf, Inode>,
    ) -> io::Result<ProvisionedInode> {
        let other = |what: &str| {
            Err(io::Error::other(format!(
                "it is not what iodyno made: {what}"
            )))
        };
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return other("it has no name");
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let of_ours = known.get(above);
        let folder = match known.contains_key(path) || of_ours.is_some() {
            true => openat(CWD, above, flags, Mode::empty())?,
            false => match openat2(CWD, above, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
                Err(rustix::io::Errno::LOOP) => return other("a symbolic link leads to it"),
                other => other?,
            },
        };
        let itself = openat(&folder, name, LOOK, Mode::empty())?;
        let state = rustix::fs::fstat(&itself)?;
        if rustix::fs::FileType::from_raw_mode(state.st_mode).is_symlink() {
            return other("it is a symbolic link");
        }
        let same = |known: &Inode, now: &OwnedFd| {
            let now = inode(now.as_fd()).map(Identity::Folder);
            now.is_some_and(|now| !Identity::Folder(*known).differs_from(&now))
        };
        match known.get(path) {
            Some(known) if !same(known, &itself) => return other("its inode is another one"),
            None if of_ours.is_some_and(|ours| !same(ours, &folder)) => {
                return other("the folder that contains it was replaced");
            }
            _ => {}
        }
        let name = PathBuf::from(name);
        Ok(ProvisionedInode {
            folder,
            itself,
            name,
        })
    }

    /// Where it is, without symbolic links.
    pub(super) fn path(&self) -> io::Result<PathBuf> {
        fs::read_link(below(&self.itself, None))
    }

    /// Removes a file.
    pub(super) fn remove_file(&self) -> io::Result<()> {
        Ok(unlinkat(&self.folder, &self.name, AtFlags::empty())?)
    }

    /// Removes a folder in which nothing is.
    ///
    /// # Errors
    /// Something is in it: the error names it.
    pub(super) fn remove_empty_folder(&self) -> io::Result<()> {
        let entries = fs::read_dir(below(&self.itself, None))?;
        let mut there: Vec<String> = entries
            .map(|entry| Ok(format!("`{}`", entry?.file_name().display())))
            .collect::<io::Result<_>>()?;
        there.sort_unstable();
        let more = there.len().saturating_sub(NAMED);
        there.truncate(NAMED);
        if there.is_empty() {
            return Ok(unlinkat(&self.folder, &self.name, AtFlags::REMOVEDIR)?);
        }
        let mut names = there.join(", ");
        if more > 0 {
            names += &format!(" and {more} more");
        }
        let message = format!("it contains what iodyno did not make: {names}");
        Err(io::Error::other(message))
    }

    /// Removes a folder with its content.
    pub(super) fn remove_folder(&self) -> io::Result<()> {
        for entry in fs::read_dir(below(&self.itself, None))? {
            let entry = entry?;
            let path = below(&self.itself, Some(&entry.file_name()));
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(path)?,
                false => fs::remove_file(path)?,
            }
        }
        Ok(unlinkat(&self.folder, &self.name, AtFlags::REMOVEDIR)?)
    }
}

/// The path of a descriptor, or of an entry of its folder.
fn below(descriptor: &OwnedFd, name: Option<&OsStr>) -> PathBuf {
    let path = PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
    name.map_or(path.clone(), |name| path.join(name))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder with a file, both made by iodyno; a folder of the user with a file of the same name; and what is known.
    fn tree(recorded: bool) -> (tempfile::TempDir, PathBuf, BTreeMap<PathBuf, Inode>) {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().canonicalize().unwrap();
        let mut known = BTreeMap::new();
        for (folder, text) in [("made", "ours"), ("theirs", "precious")] {
            fs::create_dir(at.join(folder)).unwrap();
            fs::write(at.join(folder).join("disk0.img"), text).unwrap();
        }
        for path in [at.join("made"), at.join("made/disk0.img")] {
            let result = result(&path).unwrap();
            known.extend(
                serde_json::from_str(&result)
                    .ok()
                    .filter(|_| recorded)
                    .map(|inode| (path, inode)),
            );
        }
        (folder, at, known)
    }

    #[test]
    fn what_was_made_is_removed() {
        for recorded in [true, false] {
            let (_folder, at, known) = tree(recorded);
            let made = at.join("made");
            fs::create_dir_all(made.join("deep/er")).unwrap();
            symlink(at.join("theirs"), made.join("link")).unwrap();
            ProvisionedInode::open(&made.join("disk0.img"), &known)
                .unwrap()
                .remove_file()
                .unwrap();
            let folder = ProvisionedInode::open(&made, &known).unwrap();
            assert_eq!(folder.path().unwrap(), made);
            folder.remove_folder().unwrap();
            assert!(!made.exists());
            assert!(at.join("theirs/disk0.img").exists());
        }
    }

    #[test]
    fn nothing_is_removed_through_a_link_or_in_place_of_what_was_made() {
        for recorded in [true, false] {
            let (_folder, at, known) = tree(recorded);
            let made = at.join("made");
            fs::rename(&made, at.join("moved")).unwrap();
            symlink(at.join("theirs"), &made).unwrap();
            for path in [made.join("disk0.img"), made.clone()] {
                let error = ProvisionedInode::open(&path, &known)
                    .err()
                    .unwrap()
                    .to_string();
                assert!(error.contains("it is not what iodyno made: "), "{error}");
            }
            // What was moved is reached through a link: it is the same file.
            fs::remove_file(&made).unwrap();
            symlink(at.join("moved"), &made).unwrap();
            assert_eq!(
                ProvisionedInode::open(&made.join("disk0.img"), &known).is_ok(),
                !known.is_empty()
            );
            assert!(ProvisionedInode::open(&made, &known).is_err());
            if known.is_empty() {
                continue;
            }
            // Another folder, without a link; an interrupted step has no inode of its own.
            fs::remove_file(&made).unwrap();
            fs::rename(at.join("theirs"), &made).unwrap();
            let interrupted = BTreeMap::from([(made.clone(), known[&made])]);
            for known in [&known, &interrupted] {
                assert!(ProvisionedInode::open(&made.join("disk0.img"), known).is_err());
                assert!(ProvisionedInode::open(&made, known).is_err());
            }
        }
    }
}
