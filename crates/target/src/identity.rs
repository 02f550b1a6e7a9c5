//! The identity of the file or device at a path, so that another one at the same path is recognised.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use iodyno_model::{Identity, Inode};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags};

use crate::block::{Block, DeviceNumber};
use crate::guard::device_name;
use crate::roots::Roots;

/// File systems whose inode numbers change while a file stays the same: overlayfs when a file is copied up or its inode
/// leaves the cache, FUSE when the server forgets it.
const UNSTABLE: [u64; 2] = [0x794c_7630, 0x6573_5546];
/// File systems that are empty after each mount: their root folder does not identify their content.
const VOLATILE: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// The identity of what a path leads to; `None` if it is unknown, or if its type cannot be a target. A device is opened
/// for reading and closed again; nothing else is opened.
pub fn identify(path: &Path, roots: &Roots) -> Option<Identity> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let pinned = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(pinned) => pinned,
        Err(error) if error == rustix::io::Errno::NOENT => return Some(Identity::Absent),
        Err(_) => return None,
    };
    let state = rustix::fs::fstat(&pinned).ok()?;
    if FileType::from_raw_mode(state.st_mode) != FileType::BlockDevice {
        return identity(pinned.as_fd(), roots);
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let device = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    identity(device.as_fd(), roots)
}

/// As [`identify`], for an open file. Devices must be open for reading or writing.
pub fn identity(file: BorrowedFd<'_>, roots: &Roots) -> Option<Identity> {
    let mask = StatxFlags::BASIC_STATS;
    let state = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, mask).ok()?;
    let kind = FileType::from_raw_mode(u32::from(state.stx_mode));
    if kind == FileType::BlockDevice {
        let number = DeviceNumber {
            major: state.stx_rdev_major,
            minor: state.stx_rdev_minor,
        };
        let block = Block::find(roots, number).ok()?;
        let (name, boot) = device_name(roots, &block, file);
        return Some(Identity::Device { name, boot });
    }
    let inode = inode(file)?;
    match kind {
        FileType::RegularFile => Some(Identity::File {
            inode,
            length: state.stx_size,
        }),
        FileType::Directory => {
            let system = rustix::fs::fstatfs(file).ok()?.f_type as u64;
            (!VOLATILE.contains(&system)).then_some(Identity::Folder(inode))
        }
        _ => None,
    }
}

/// The inode of an open file; `None` if its file system has no stable inodes.
pub(crate) fn inode(file: BorrowedFd<'_>) -> Option<Inode> {
    let mask = StatxFlags::INO | StatxFlags::BTIME;
    let state = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, mask).ok()?;
    let system = rustix::fs::fstatfs(file).ok()?.f_type as u64;
    let told = state.stx_mask & StatxFlags::BTIME.bits() != 0;
    let made = state.stx_btime;
    (!UNSTABLE.contains(&system)).then(|| Inode {
        number: state.stx_ino,
        made_ns: told.then(|| made.tv_sec * 1_000_000_000 + i64::from(made.tv_nsec)),
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_file_is_identified_by_its_inode_and_not_by_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| identify(&folder.path().join(name), &Roots::host());
        assert_eq!(of("f"), Some(Identity::Absent));
        let path = folder.path().join("f");
        std::fs::write(&path, b"four").unwrap();
        let Some(before) = of("f") else {
            // The file system has no stable inodes.
            return;
        };
        assert!(matches!(before, Identity::File { length: 4, .. }));
        std::fs::rename(&path, folder.path().join("g")).unwrap();
        assert_eq!(of("g").as_ref(), Some(&before));
        std::fs::write(&path, b"five!").unwrap();
        assert!(before.differs_from(&of("f").unwrap()));
        let open = File::open(folder.path().join("g")).unwrap();
        assert_eq!(identity(open.as_fd(), &Roots::host()), Some(before));
        assert_eq!(identify(Path::new("/dev/null"), &Roots::host()), None);
    }
}
