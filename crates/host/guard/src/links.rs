//! Symlinks of other users: in a folder like /tmp, or in another user's folder, other users can create a symlink with
//! the name of a file that iodyno will write, and point it to a file that only iodyno's user may write.
//!
//! Linux does not follow such symlinks in sticky folders that everybody may write, if `fs.protected_symlinks` is
//! enabled. Here they are never followed, including those in folders of other users.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, StatFs};
use rustix::process::geteuid;

use crate::open::Pinned;
use crate::paths::folder_of;
use crate::refusal::Reason;

/// The reason why the pinned inode must not be written through this path: its last component is a symlink of another
/// user (except root) in a folder where other users can create one, or leads to such a symlink, or the path no longer
/// leads to the inode.
pub(crate) fn planted(path: &Path, pinned: &Pinned) -> Option<Reason> {
    let (reason, end) = followed(path);
    reason.or_else(|| {
        // It is the file itself. If it differs from the pinned inode, a symlink may have been here.
        let now = Pinned::descriptor(end?).ok()?;
        (now.file != pinned.file).then_some(Reason::WrongKind {
            kind: "another file than a moment ago".to_owned(),
        })
    })
}

/// Follows the symlinks of the last component of a path. Returns the reason why one of them is not followed, or the
/// inode that they lead to.
fn followed(path: &Path) -> (Option<Reason>, Option<OwnedFd>) {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let Some((link, state)) = at(&path) else {
            break;
        };
        if FileType::from_raw_mode(state.st_mode) != FileType::Symlink {
            return (None, Some(link));
        }
        if let Some(reason) = by_others(&path, &state) {
            return (Some(reason), None);
        }
        // Links in procfs lead to open files: their texts are not paths to follow.
        let procfs = |found: StatFs| found.f_type as u64 == PROC_SUPER_MAGIC as u64;
        let target = rustix::fs::readlinkat(&link, "", Vec::new());
        let (Ok(target), Ok(false)) = (target, rustix::fs::fstatfs(&link).map(procfs)) else {
            break;
        };
        path = folder_of(&path).join(OsStr::from_bytes(target.to_bytes()));
    }
    (None, None)
}

/// The most symlinks that the kernel follows.
const LINKS: usize = 40;

/// The reason why a symlink is not followed: another user than root may have created it.
fn by_others(path: &Path, state: &Stat) -> Option<Reason> {
    let own = |user: u32| user == geteuid().as_raw() || user == 0;
    let folder = rustix::fs::stat(folder_of(path)).ok();
    let exposed = folder.is_none_or(|folder| !own(folder.st_uid) || folder.st_mode & 0o022 != 0);
    (exposed && !own(state.st_uid)).then_some(Reason::PlantedLink {
        owner: state.st_uid,
    })
}

/// Refuses a path whose last component is, or leads to, a symlink that another user may have created. The path may not
/// exist.
///
/// # Errors
/// Such a symlink.
pub fn refuse_planted_link(path: &Path) -> io::Result<()> {
    match followed(path).0 {
        Some(reason) => Err(io::Error::other(reason.to_string())),
        None => Ok(()),
    }
}

/// The inode at a path; symlinks are not followed.
pub(crate) fn at(path: &Path) -> Option<(OwnedFd, Stat)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let link = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let state = rustix::fs::fstat(&link).ok()?;
    Some((link, state))
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, AsRawFd};
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    use super::*;
    use crate::output::{create_output, open_output};

    /// Whether the target of a symlink is written, if the symlink and its folder have these owners and the folder this
    /// mode.
    fn written(link_of: u32, folder_of: u32, mode: u32) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let (target, inside) = (folder.path().join("target"), folder.path().join("in"));
        std::fs::write(&target, "precious").unwrap();
        std::fs::create_dir(&inside).unwrap();
        let link = inside.join("link");
        symlink(&target, &link).unwrap();
        lchown(&link, Some(link_of), None).unwrap();
        lchown(&inside, Some(folder_of), None).unwrap();
        std::fs::set_permissions(&inside, PermissionsExt::from_mode(mode)).unwrap();
        let pinned = Pinned::path(&link).unwrap();
        let refused = planted(&link, &pinned).is_some();
        assert_eq!(open_output(&link).is_err(), refused);
        assert_eq!(std::fs::read(&target).unwrap(), b"precious");
        assert_eq!(create_output(&link).is_err(), refused);
        let left = std::fs::read_to_string(&target).unwrap();
        assert_eq!(left == "precious", refused);
        // The end of a chain of symlinks counts as well, and not the one of an open file.
        let (chain, inner) = (folder.path().join("chain"), folder.path().join("inner"));
        symlink("inner", &chain).unwrap();
        symlink("in/link", &inner).unwrap();
        assert_eq!(planted(&chain, &pinned).is_some(), refused);
        assert_eq!(create_output(&chain).is_err(), refused);
        assert_eq!(refuse_planted_link(&chain).is_err(), refused);
        let open = format!("/proc/self/fd/{}", pinned.as_fd().as_raw_fd());
        create_output(Path::new(&open)).unwrap();
        !refused
    }

    #[test]
    fn a_symlink_of_others_is_not_followed_where_others_can_create_one() {
        if geteuid().as_raw() != 0 {
            iodyno_testing::skip("files of other users need root");
            return;
        }
        const OTHER: u32 = 4711;
        assert!(written(0, 0, 0o755));
        assert!(written(OTHER, 0, 0o755), "in a folder that is ours alone");
        assert!(written(0, OTHER, 0o755), "a symlink of our own");
        assert!(!written(OTHER, OTHER, 0o755));
        assert!(!written(OTHER, 0, 0o1777));
        assert!(!written(OTHER, 0, 0o775));
    }
}
