//! The identity of the file or device at a path, so that another one at the same path is recognised.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use iodyno_model::{Identity, Inode};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags};

use crate::backing::Backing;
use crate::block::{Block, DeviceNumber};
use crate::owner::boot_id;
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
        let made = Backing::of(&block, file).and_then(|backing| backing.made());
        return Some(Identity::Device { name, boot, made });
    }
    match kind {
        FileType::RegularFile => Some(Identity::File {
            inode: inode(file).or_else(|| birth(file))?,
            length: state.stx_size,
        }),
        FileType::Directory => {
            let inode = inode(file)?;
            let system = rustix::fs::fstatfs(file).ok()?.f_type as u64;
            (!VOLATILE.contains(&system)).then_some(Identity::Folder(inode))
        }
        _ => None,
    }
}

/// What identifies a file where inode numbers change: when it was made. On overlayfs that is the time of the copy once
/// a file of a lower layer was opened for writing.
fn birth(file: BorrowedFd<'_>) -> Option<Inode> {
    Some(Inode {
        number: 0,
        ..numbered(file)?
    })
}

/// The inode of an open file; `None` if its file system has no stable inodes.
pub fn inode(file: BorrowedFd<'_>) -> Option<Inode> {
    let system = rustix::fs::fstatfs(file).ok()?.f_type as u64;
    numbered(file).filter(|_| !UNSTABLE.contains(&system))
}

fn numbered(file: BorrowedFd<'_>) -> Option<Inode> {
    let mask = StatxFlags::INO | StatxFlags::BTIME;
    let state = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, mask).ok()?;
    let has_birth_time = state.stx_mask & StatxFlags::BTIME.bits() != 0;
    let made = state.stx_btime;
    Some(Inode {
        number: state.stx_ino,
        made_ns: has_birth_time.then(|| made.tv_sec * 1_000_000_000 + i64::from(made.tv_nsec)),
    })
}

/// A text that distinguishes an open file or device from all others, and from a later one with the same inode number.
/// It is the same by each of its names. `None`: it is neither a file nor a block device, or it cannot be identified.
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

/// A text that identifies a device: its most specific identifier that the kernel knows, the offset of a
/// partition, and the length.
///
/// The device number alone (`8:16`, `7:0`) is not sufficient, because the next disk or file that is
/// attached gets the same one. A wrong match is not dangerous by itself, because the digests must match as
/// well.
pub fn device_identity(roots: &Roots, block: &Block, device: impl AsFd) -> String {
    let device = device.as_fd();
    let made = Backing::of(block, device).and_then(|backing| backing.made());
    let made = made.map_or(String::new(), |made| format!(", made at {made}"));
    device_name(roots, block, device).0 + &made
}

/// See [`device_identity`]. Also the id of the boot in which the name is valid, if the device has no permanent name.
fn device_name(roots: &Roots, block: &Block, device: impl AsFd) -> (String, Option<String>) {
    let disk = block.parent();
    let whole = disk.as_ref().unwrap_or(block);
    let attribute = |name: &str| whole.attribute(name).filter(|value| !value.is_empty());
    let named = |kind: &str, name: &str| Some(format!("{kind} {}", attribute(name)?));
    let name = named("dm", "dm/uuid")
        .or_else(|| named("dm name", "dm/name"))
        .or_else(|| named("md", "md/uuid"))
        .or_else(|| loop_identity(whole, device))
        .or_else(|| named("wwid", "wwid"))
        .or_else(|| named("wwid", "device/wwid"))
        .or_else(|| named("serial", "serial"))
        .or_else(|| {
            let serial = named("serial", "device/serial")?;
            Some(format!(
                "{} {serial}",
                attribute("device/model").unwrap_or_default()
            ))
        });
    let boot = name.is_none().then(|| boot_id(roots));
    let name = name.unwrap_or_else(|| {
        let sequence = attribute("diskseq").unwrap_or_default();
        let boot = boot.as_deref().unwrap_or_default();
        format!("{} {} {sequence} {boot}", whole.name, whole.number)
    });
    let length = block.length();
    let name = match (&disk, block.start()) {
        (Some(_), Some(start)) => format!("{name}, {length} bytes from {start}"),
        _ => format!("{name}, {length} bytes"),
    };
    (name, boot)
}

/// A loop device is identified by its backing file and its offset.
fn loop_identity(block: &Block, device: impl AsFd) -> Option<String> {
    block.attribute("loop/backing_file")?;
    let file = iodyno_sys::host::loop_file(device.as_fd()).ok()?;
    let (device, inode, offset) = (file.device, file.inode, file.offset);
    Some(match file.rdevice {
        0 => format!("file {device:x}:{inode} from {offset}"),
        device => format!("device {device:x} from {offset}"),
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::fake::FakeHost;

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
        let has_birth_time = before.ends_with("None");
        assert_eq!(of("g") == before, has_birth_time, "{before}");
        std::fs::remove_file(&path).unwrap();
        std::fs::remove_file(&link).unwrap();
        // On ext4 these reuse the number of the inode.
        for _ in 0..20 {
            std::fs::write(&path, b"four").unwrap();
            assert!(!has_birth_time || of("f") != before, "{before}");
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
        let before = of("f").unwrap();
        assert!(matches!(before, Identity::File { length: 4, .. }));
        std::fs::rename(&path, folder.path().join("g")).unwrap();
        assert_eq!(of("g").as_ref(), Some(&before));
        std::fs::write(&path, b"five!").unwrap();
        assert!(before.differs_from(&of("f").unwrap()));
        let open = File::open(folder.path().join("g")).unwrap();
        assert_eq!(identity(open.as_fd(), &Roots::host()), Some(before));
        assert_eq!(identify(Path::new("/dev/null"), &Roots::host()), None);
    }

    fn identity_of(host: &FakeHost, name: &str) -> String {
        let file = tempfile::tempfile().unwrap();
        device_identity(&host.roots, &host.block(name), file)
    }

    #[test]
    fn a_device_is_identified_by_its_most_specific_identifier() {
        let host = FakeHost::new();
        host.disk("sda", "8:0")
            .partition("sda", "sda1", "8:1")
            .disk("vda", "254:0")
            .disk("nvme0n1", "259:0")
            .mapped(
                "dm-0",
                "252:0",
                &[("dm/uuid", "LVM-x"), ("dm/name", "a-b")],
                &[],
            );
        host.write("proc/sys/kernel/random/boot_id", "one\n");
        assert_eq!(identity_of(&host, "vda"), "vda 254:0  one, 536870912 bytes");
        host.attribute("vda", "serial", "V1\n")
            .attribute("sda", "device/wwid", "naa.5\n")
            .attribute("nvme0n1", "wwid", "eui.1\n");
        assert_eq!(identity_of(&host, "vda"), "serial V1, 536870912 bytes");
        assert_eq!(identity_of(&host, "sda"), "wwid naa.5, 536870912 bytes");
        let part = "wwid naa.5, 524288 bytes from 2097152";
        assert_eq!(identity_of(&host, "sda1"), part);
        assert_eq!(identity_of(&host, "nvme0n1"), "wwid eui.1, 536870912 bytes");
        assert_eq!(identity_of(&host, "dm-0"), "dm LVM-x, 536870912 bytes");
    }
}
