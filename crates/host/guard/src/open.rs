//! Opening without races: a path is resolved once, and all later steps use that inode.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use iodyno_host::block::DeviceNumber;
use iodyno_sys::file::O_DSYNC;
use rustix::fs::{Mode, OFlags, Statx, makedev};

use crate::request::{Intent, OpenFlags};

/// Identifies a file independently of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FileId {
    /// `st_dev`
    pub(crate) device: u64,
    /// `st_ino`
    pub(crate) inode: u64,
}

impl FileId {
    pub(crate) fn of(path: &Path) -> Option<FileId> {
        let metadata = path.metadata().ok()?;
        Some(FileId {
            device: metadata.dev(),
            inode: metadata.ino(),
        })
    }
}

impl From<&Statx> for FileId {
    fn from(state: &Statx) -> FileId {
        FileId {
            device: makedev(state.stx_dev_major, state.stx_dev_minor),
            inode: state.stx_ino,
        }
    }
}

/// A pinned inode: it stays the same if the path changes.
pub(crate) struct Pinned {
    descriptor: OwnedFd,
    pub(crate) kind: PinnedKind,
    pub(crate) file: FileId,
    pub(crate) length: u64,
    /// Path without symlinks.
    pub(crate) resolved: PathBuf,
}

pub(crate) enum PinnedKind {
    File,
    Folder,
    Block(DeviceNumber),
    Character(DeviceNumber),
    Other(&'static str),
}

impl Pinned {
    /// Pins the inode at a path with O_PATH, which does not call the driver.
    pub(crate) fn path(path: &Path) -> io::Result<Pinned> {
        Pinned::descriptor(rustix::fs::open(
            path,
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
        )?)
    }

    pub(crate) fn descriptor(descriptor: OwnedFd) -> io::Result<Pinned> {
        let file = File::from(descriptor);
        let metadata = file.metadata()?;
        let (kind, number) = (metadata.file_type(), DeviceNumber::of(metadata.rdev()));
        let kind = match () {
            () if kind.is_file() => PinnedKind::File,
            () if kind.is_dir() => PinnedKind::Folder,
            () if kind.is_block_device() => PinnedKind::Block(number),
            () if kind.is_char_device() => PinnedKind::Character(number),
            () if kind.is_fifo() => PinnedKind::Other("a FIFO"),
            () if kind.is_socket() => PinnedKind::Other("a socket"),
            () => PinnedKind::Other("of an unknown kind"),
        };
        let descriptor = OwnedFd::from(file);
        Ok(Pinned {
            resolved: std::fs::read_link(link(descriptor.as_fd()))?,
            descriptor,
            kind,
            file: FileId {
                device: metadata.dev(),
                inode: metadata.ino(),
            },
            length: metadata.len(),
        })
    }

    /// Opens the inode.
    pub(crate) fn open(&self, flags: OFlags) -> io::Result<OwnedFd> {
        reopen(self.descriptor.as_fd(), flags)
    }
}

impl AsFd for Pinned {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn link(descriptor: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}

/// Opens the inode of a descriptor again, with its own flags and position.
pub(crate) fn reopen(descriptor: BorrowedFd<'_>, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
    Ok(rustix::fs::open(link(descriptor), flags, Mode::empty())?)
}

/// Creates a new file; `EEXIST` if any file of this name exists.
pub(crate) fn create(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))?)
}

/// The flags of open(2) for an intent and the job's options.
pub(crate) fn open_flags(intent: Intent, flags: OpenFlags) -> OFlags {
    // Writers need read access: for verification, and for short blocks at the end of a device.
    let mut bits = if intent.write || intent.trim {
        OFlags::RDWR
    } else {
        OFlags::RDONLY
    };
    // Bits are only added: O_SYNC contains those of O_DSYNC. rustix gives both names the bits of O_SYNC.
    for (wanted, flag) in [
        (flags.direct, OFlags::DIRECT),
        (flags.sync, OFlags::SYNC),
        (flags.dsync, OFlags::from_bits_retain(O_DSYNC)),
    ] {
        if wanted {
            bits |= flag;
        }
    }
    bits
}
