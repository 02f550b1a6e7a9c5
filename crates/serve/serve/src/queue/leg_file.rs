//! The files of legs.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use iodyno_sys::{BackendError, File};
use rustix::fs::{AtFlags, FileType, SeekFrom, StatxFlags, statx};
use rustix::io::ReadWriteFlags;

/// The file of a leg. Also on a device, a hole is punched by fallocate(2), which promises zeros; a discard does not.
pub(super) fn leg_file(descriptor: OwnedFd) -> File {
    File {
        descriptor,
        device: false,
    }
}

pub(super) fn copy_of(descriptor: &OwnedFd) -> Result<OwnedFd, BackendError> {
    (descriptor.try_clone())
        .map_err(|error| BackendError::new("duplicate the descriptor of a leg", error))
}

/// The open file of a leg. Its length can change while it is in use.
#[derive(Debug)]
pub(super) struct LegFile {
    pub(super) file: OwnedFd,
    pub(super) regular: bool,
    /// Whether a call on its file system may block.
    pub(super) may_block: bool,
}

/// Whether a nonblocking call on a file may block, as on FUSE and network file systems. On such files, submitting an
/// op to io_uring may block too.
pub(super) fn waits(descriptor: &OwnedFd) -> bool {
    let mut byte = [0];
    let mut into = [std::io::IoSliceMut::new(&mut byte)];
    let read = rustix::io::preadv2(descriptor, &mut into, 0, ReadWriteFlags::NOWAIT);
    read == Err(rustix::io::Errno::OPNOTSUPP)
}

impl LegFile {
    pub(super) fn of(descriptor: &OwnedFd) -> Result<LegFile, BackendError> {
        let found = rustix::fs::fstat(descriptor)
            .map_err(|error| BackendError::new("look at a leg", error.into()))?;
        Ok(LegFile {
            file: copy_of(descriptor)?,
            regular: FileType::from_raw_mode(found.st_mode) == FileType::RegularFile,
            may_block: waits(descriptor),
        })
    }

    pub(super) fn length(&self) -> rustix::io::Result<u64> {
        // A network server may not answer, so this does not ask it.
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        match self.regular {
            true => statx(&self.file, "", flags, StatxFlags::SIZE).map(|found| found.stx_size),
            false => rustix::fs::seek(&self.file, SeekFrom::End(0)),
        }
    }
}

/// The path and identity of a file.
#[derive(Debug, Clone)]
pub(super) struct PathIdentity {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl PathIdentity {
    /// The path and identity of a leg that is a file.
    pub(super) fn of(path: Option<&PathBuf>, held: Option<&LegFile>) -> Option<PathIdentity> {
        let found = rustix::fs::fstat(&held.filter(|held| held.regular)?.file).ok()?;
        Some(PathIdentity {
            path: path?.clone(),
            device: found.st_dev,
            inode: found.st_ino,
        })
    }

    /// Whether the path leads to another file now, or to none.
    pub(super) fn is_lost(&self) -> bool {
        match self.path.metadata() {
            Ok(found) => (found.dev(), found.ino()) != (self.device, self.inode),
            Err(error) => matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ),
        }
    }
}
