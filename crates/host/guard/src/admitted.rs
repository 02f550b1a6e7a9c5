//! Targets that were admitted and opened.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use iodyno_host::block::{Block, DeviceNumber};
use iodyno_host::{Roots, nvme};
use rustix::fs::{AtFlags, OFlags, StatxFlags};

use crate::open::{Pinned, PinnedKind, open_flags, reopen};
use crate::own_writes::{Claim, WrittenDevice};
use crate::request::{Intent, Kind, OpenFlags, Request};

/// An opened target. Until it is dropped, a written device is reserved against other exclusive users.
#[derive(Debug)]
pub struct Admitted {
    /// Path without symlinks.
    pub path: PathBuf,
    /// Type.
    pub kind: Kind,
    /// Descriptor, opened with the requested flags.
    pub descriptor: OwnedFd,
    /// Length in bytes; 0 for folders and null devices.
    pub length: u64,
    /// Alignment of offsets and lengths for direct I/O, bytes.
    pub logical_block_size: u32,
    /// Whether the file was created by this request.
    pub created: bool,
    /// Notes for the user, such as a device that is read while it is in use.
    pub notes: Vec<String>,
    pub(crate) intent: Intent,
    /// The kernel's exclusive claim on a written device.
    pub(crate) claim: Option<Arc<Claim>>,
}

impl Admitted {
    /// Opens the same inode again, with its own position and flags.
    ///
    /// # Errors
    /// As open(2): most likely too many open files, or a file system without O_DIRECT.
    pub fn reopen(&self, flags: OpenFlags) -> io::Result<OwnedFd> {
        let access = match self.kind {
            Kind::Folder => OFlags::RDONLY | OFlags::DIRECTORY,
            _ => open_flags(self.intent, flags),
        };
        reopen(self.descriptor.as_fd(), access)
    }

    /// Opens the character device of this NVMe namespace, for commands past the block layer.
    ///
    /// # Errors
    /// It is not an NVMe namespace, or the kernel has no such devices; or as open(2).
    pub fn open_for_commands(&self, roots: &Roots) -> io::Result<OwnedFd> {
        let block = match self.kind {
            Kind::BlockDevice(number) => Block::find(roots, number).ok(),
            _ => None,
        };
        let device = block.and_then(|block| nvme::character_of(roots, &block));
        let Some((name, number)) = device else {
            let why = "it is not an NVMe namespace with a character device, such as `/dev/ng0n1` (Linux 5.13)";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        };
        let pinned = Pinned::path(&roots.dev.join(name))?;
        match pinned.kind {
            PinnedKind::Character(found) if found == number => {
                pinned.open(open_flags(self.intent, OpenFlags::default()))
            }
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// The device, if this is a device that was admitted for writing.
    pub fn written_device(&self) -> Option<WrittenDevice> {
        self.claim.clone().map(WrittenDevice)
    }

    /// Whether the device rotates, or the disk of the file's file system; `false` if it is not known.
    pub fn rotates(&self, roots: &Roots) -> bool {
        let number = match self.kind {
            Kind::BlockDevice(number) => Some(number),
            _ => (rustix::fs::fstat(&self.descriptor).ok())
                .map(|state| DeviceNumber::of(state.st_dev)),
        };
        let block = number.and_then(|number| Block::find(roots, number).ok());
        let disk = block.map(|block| block.parent().unwrap_or(block));
        disk.and_then(|disk| disk.attribute("queue/rotational")) == Some("1".to_owned())
    }

    /// Whether ranges can become zeros without a write of them, as with fallocate(2) (FALLOC_FL_PUNCH_HOLE): a file,
    /// or a device that has a command for it. `false` if it is not known.
    pub fn zeroes(&self, roots: &Roots) -> bool {
        let Kind::BlockDevice(number) = self.kind else {
            return self.kind == Kind::File;
        };
        let block = Block::find(roots, number).ok();
        let disk = block.map(|block| block.parent().unwrap_or(block));
        let most = disk.and_then(|disk| disk.attribute("queue/write_zeroes_max_bytes"));
        most.is_some_and(|bytes| bytes != "0")
    }

    /// The current length; a file may have grown.
    ///
    /// # Errors
    /// As fstat(2).
    pub fn length_now(&self) -> io::Result<u64> {
        match self.kind {
            Kind::File => Ok(rustix::fs::fstat(&self.descriptor)?.st_size as u64),
            _ => Ok(self.length),
        }
    }
}

impl AsFd for Admitted {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

pub(crate) fn admitted(
    request: &Request<'_>,
    pinned: &Pinned,
    kind: Kind,
    descriptor: OwnedFd,
) -> Admitted {
    // Kernels before 6.1 do not report it; every device on them supports or emulates 512 bytes.
    let logical_block_size = direct_alignment(descriptor.as_fd()).unwrap_or(512);
    Admitted {
        path: pinned.resolved.clone(),
        kind,
        descriptor,
        length: if kind == Kind::File { pinned.length } else { 0 },
        logical_block_size,
        created: false,
        notes: Vec::new(),
        intent: request.intent,
        claim: None,
    }
}

/// Alignment that direct I/O needs for offsets, bytes; `None` if the kernel does not report it or direct I/O is not
/// supported.
fn direct_alignment(descriptor: BorrowedFd<'_>) -> Option<u32> {
    let flags = StatxFlags::DIOALIGN;
    let state = rustix::fs::statx(descriptor, "", AtFlags::EMPTY_PATH, flags).ok()?;
    (state.stx_dio_offset_align > 0).then_some(state.stx_dio_offset_align)
}
