//! The log of the pages that a device has written in a client's memory. A front end needs it to copy this memory while
//! the device processes requests. Device and front end share a bitmap with a bit for each page of 4 KiB (SET_LOG_BASE
//! and `VHOST_F_LOG_ALL` of vhost-user).

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

use vm_memory::{Address, GuestAddress, MmapRegion, VolatileMemory};

use crate::memory::map_file;

/// log2 of the bytes of a page.
const PAGE: u32 = 12;

/// A bitmap of pages.
#[derive(Debug)]
pub struct DirtyLog {
    bits: MmapRegion,
}

impl DirtyLog {
    /// Maps a bitmap in a file.
    ///
    /// # Errors
    /// As mmap(2); the file is shorter.
    pub(crate) fn of(file: File, offset: u64, length: u64) -> io::Result<DirtyLog> {
        let length = usize::try_from(length).map_err(io::Error::other)?;
        let bits = map_file(file, offset, length)?;
        Ok(DirtyLog { bits })
    }

    /// Marks bytes from an address on as written. Pages beyond the bitmap are ignored.
    pub fn mark(&self, start: GuestAddress, length: usize) {
        let Some(last) = (length as u64).checked_sub(1) else {
            return;
        };
        let pages = start.raw_value() >> PAGE..=start.raw_value().saturating_add(last) >> PAGE;
        for page in pages {
            let byte = usize::try_from(page >> 3).unwrap_or(usize::MAX);
            let Ok(bits) = self.bits.get_atomic_ref::<AtomicU8>(byte) else {
                return;
            };
            bits.fetch_or(1 << (page & 7), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn each_page_of_a_range_has_its_bit() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let log = DirtyLog::of(file.try_clone().unwrap(), 0, 2).unwrap();
        log.mark(GuestAddress(0x1fff), 2);
        log.mark(GuestAddress(0x9000), 0x1000);
        log.mark(GuestAddress(0x5000), 0);
        // Beyond the bitmap.
        log.mark(GuestAddress(0xf000), 0x10_0000);
        log.mark(GuestAddress(u64::MAX), 2);
        let mut bits = [0; 3];
        file.read_exact_at(&mut bits, 0).unwrap();
        assert_eq!(bits, [0b0000_0110, 0b1000_0010, 0]);
        assert!(DirtyLog::of(file, 0, 8192).is_err());
    }
}
