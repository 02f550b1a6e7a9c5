//! The identity of the file or device at a path, so that another one at the same path is recognised.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use iodyno_model::{Identity, Inode};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags};

use crate::block::{Block, DeviceNumber};
use crate::guard::{device_identity, device_name};
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

/// A text that distinguishes an open file or device from all others, and from a later one with the same inode number. It is the same
/// by each of its names. `None`: it is neither a file nor a block device, or it cannot be identified.
///
/// If the file system gives a file neither a birth time nor a generation, the path is a part of the text.
pub fn lasting(file: BorrowedFd<'_>, path: &Path, roots: &Roots) -> Option<String> {
    let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let state = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, mask).ok()?;
    match FileType::from_raw_mode(u32::from(state.stx_mode)) {
        FileType::BlockDevice => {
            let number = DeviceNumber {
                major: state.stx_rdev_major,
                minor: state.stx_rdev_minor,
            };
            let block = Block::find(roots, number).ok()?;
            Some(format!("device {}", device_identity(roots, &block, file)))
        }
        FileType::RegularFile => {
            let system = rustix::fs::fstatvfs(file).ok()?.f_fsid;
            let system = match system {
                0 => format!("{}:{}", state.stx_dev_major, state.stx_dev_minor),
                system => format!("{system:x}"),
            };
            let inode = state.stx_ino;
            let generation = iodyno_sys::host::generation(file);
            let made = state.stx_btime;
            let made = (state.stx_mask & StatxFlags::BTIME.bits() != 0 && made.tv_sec != 0)
                .then(|| format!("{}.{:09}", made.tv_sec, made.tv_nsec));
            let path = (generation.is_none() && made.is_none()).then_some(path);
            Some(format!(
                "file {system} {inode} {generation:?} {made:?} {path:?}"
            ))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_file_has_one_lasting_identity_by_all_its_names_and_another_one_than_its_successor() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| {
            let path = folder.path().join(name);
            lasting(File::open(&path).unwrap().as_fd(), &path, &Roots::host()).unwrap()
        };
        let (path, link) = (folder.path().join("f"), folder.path().join("g"));
        std::fs::write(&path, b"four").unwrap();
        let before = of("f");
        std::fs::hard_link(&path, &link).unwrap();
        std::fs::write(&path, b"changed").unwrap();
        let told = before.ends_with("None");
        assert_eq!(of("g") == before, told, "{before}");
        std::fs::remove_file(&path).unwrap();
        std::fs::remove_file(&link).unwrap();
        // On ext4 these reuse the number of the inode.
        for _ in 0..20 {
            std::fs::write(&path, b"four").unwrap();
            assert!(!told || of("f") != before, "{before}");
            std::fs::remove_file(&path).unwrap();
        }
    }

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
