//! Unwritten parts of files, which reads do not fetch from the device.

use std::io;
use std::os::fd::AsFd;

use iodyno_sys::host;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// Bytes of a file that read as zeroes without device I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unwritten {
    /// Holes: not allocated.
    pub holes: u64,
    /// Reserved by fallocate and never written.
    pub reserved: u64,
}

impl Unwritten {
    /// The sum of both, bytes.
    pub fn bytes(self) -> u64 {
        self.holes + self.reserved
    }
}

/// Holes and reserved extents of a regular file up to its length. Writes dirty pages back first, because
/// freshly written data look reserved until then. `None` if the file system does not report extents, or if
/// it is not a regular file. Changes the position of the descriptor.
///
/// # Errors
/// As fstat(2), lseek(2) and fsync(2).
pub fn unwritten(file: impl AsFd) -> io::Result<Option<Unwritten>> {
    let file = file.as_fd();
    let state = rustix::fs::fstat(file)?;
    if rustix::fs::FileType::from_raw_mode(state.st_mode) != rustix::fs::FileType::RegularFile {
        return Ok(None);
    }
    let length = state.st_size as u64;
    match host::extents(file, length, true) {
        Ok(extents) => Ok(Some(sum(&extents, length))),
        Err(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS | Errno::INVAL | Errno::BADR) => {
                by_seeking(file, length, state.st_blocks as u64 * 512)
            }
            _ => Err(error),
        },
    }
}

/// The bytes up to `length` that extents do not cover or only reserve.
fn sum(extents: &[host::Extent], length: u64) -> Unwritten {
    let (mut covered, mut reserved, mut end) = (0, 0, 0);
    for extent in extents {
        // Ignore extents past the end of the file, and extents that are reported twice by a file system with several
        // copies.
        let from = extent.offset.clamp(end, length.max(end));
        let to = extent.offset.saturating_add(extent.length).min(length);
        let bytes = to.saturating_sub(from);
        covered += bytes;
        reserved += if extent.unwritten { bytes } else { 0 };
        end = end.max(to);
    }
    Unwritten {
        holes: length - covered,
        reserved,
    }
}

/// Finds holes with SEEK_HOLE. A file system without support for holes reports only data: that is accepted
/// only if the number of allocated blocks matches.
fn by_seeking(
    file: std::os::fd::BorrowedFd<'_>,
    length: u64,
    allocated: u64,
) -> io::Result<Option<Unwritten>> {
    let (mut holes, mut at) = (0, 0);
    while at < length {
        let data = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data.min(length),
            Err(Errno::NXIO) => length,
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        holes += data - at;
        at = match seek(file, SeekFrom::Hole(data)) {
            Ok(hole) => hole.min(length).max(data),
            Err(Errno::NXIO) => length,
            Err(error) => return Err(error.into()),
        };
    }
    let believed = holes > 0 || allocated >= length;
    Ok(believed.then_some(Unwritten { holes, reserved: 0 }))
}

#[cfg(test)]
mod tests;
