//! Ranges of a loop device that are known to be zero without reading: holes of its backing file.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{AtFlags, SeekFrom, StatxFlags};
use rustix::io::Errno;

use crate::block::Block;

/// The most ranges of a file that are listed.
const MOST: usize = 64 << 10;

/// The backing file of a loop device, or of a partition of one.
#[derive(Debug)]
pub struct Backing {
    file: File,
    /// Where the device begins in the file, bytes.
    start: u64,
}

impl Backing {
    /// The backing file of a device; `None` if it has none, or it cannot be identified and opened.
    pub fn of(block: &Block, device: impl AsFd) -> Option<Backing> {
        let disk = block.parent();
        let name = disk
            .as_ref()
            .unwrap_or(block)
            .attribute("loop/backing_file")?;
        let known = iodyno_sys::host::loop_file(device.as_fd()).ok()?;
        let file = File::open(name).ok()?;
        let metadata = file.metadata().ok()?;
        let same =
            metadata.is_file() && (metadata.dev(), metadata.ino()) == (known.device, known.inode);
        let start = known.offset + disk.map_or(Some(0), |_| block.start())?;
        same.then_some(Backing { file, start })
    }

    /// When the file was made, which distinguishes it from a later one with the same inode; `None` if that is not
    /// known.
    pub fn made(&self) -> Option<String> {
        let state =
            rustix::fs::statx(&self.file, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME).ok()?;
        let known = state.stx_mask & StatxFlags::BTIME.bits() != 0;
        let made = state.stx_btime;
        known.then(|| format!("{}.{:09}", made.tv_sec, made.tv_nsec))
    }

    /// The ranges of the device that the file stores, ascending; `None` if they are not known, or too many. Writes that
    /// are only in the page cache of the device are written first: the file does not have them yet.
    pub fn stored(&self, device: &File) -> Option<Vec<Range<u64>>> {
        device.sync_data().ok()?;
        let seek = |to| match rustix::fs::seek(&self.file, to) {
            Ok(at) => Ok(Some(at)),
            Err(Errno::NXIO) => Ok(None),
            Err(error) => Err(error),
        };
        let mut stored = Vec::new();
        let mut at = self.start;
        while let Some(data) = seek(SeekFrom::Data(at)).ok()? {
            at = seek(SeekFrom::Hole(data))
                .ok()?
                .filter(|hole| *hole > data)?;
            if stored.len() == MOST {
                return None;
            }
            stored.push(data - self.start..at - self.start);
        }
        Some(stored)
    }
}
