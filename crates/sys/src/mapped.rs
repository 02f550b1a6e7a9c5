//! Files mapped into memory, for I/O by copying.
//!
//! A file that is cut short under a mapping makes the copy raise SIGBUS, which ends the process: the
//! parent records that as the trial's outcome.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;

/// A shared mapping of a stretch of a file.
#[derive(Debug)]
pub struct MappedFile {
    start: NonNull<u8>,
    length: usize,
    base: u64,
}

// SAFETY: the mapping is owned by this value.
unsafe impl Send for MappedFile {}

impl MappedFile {
    /// Maps `length` bytes from `base` (rounded down to a page), writable or not.
    ///
    /// # Errors
    /// The kernel's: ENODEV for files that cannot be mapped, ENOMEM, EACCES.
    pub fn new(file: &OwnedFd, base: u64, length: u64, writable: bool) -> io::Result<MappedFile> {
        let aligned = base & !4095;
        let length = usize::try_from(length + (base - aligned))
            .map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW))?;
        let protection = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        // SAFETY: a fresh mapping; nothing existing is touched.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                aligned as libc::off_t,
            )
        };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => Ok(MappedFile {
                start,
                length,
                base: aligned,
            }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn range(&self, offset: u64, length: usize) -> Option<usize> {
        let start = usize::try_from(offset.checked_sub(self.base)?).ok()?;
        (start.checked_add(length)? <= self.length).then_some(start)
    }

    /// Copies out of the file; `false` if the range is not mapped.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> bool {
        let Some(start) = self.range(offset, into.len()) else {
            return false;
        };
        // SAFETY: the range is mapped; `into` is our own memory and cannot overlap it. Other writers of the
        // file may tear what is copied, as with any read.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.start.as_ptr().add(start),
                into.as_mut_ptr(),
                into.len(),
            );
        }
        true
    }

    /// Copies into the file; `false` if the range is not mapped. The mapping must be writable.
    pub fn write(&self, offset: u64, from: &[u8]) -> bool {
        let Some(start) = self.range(offset, from.len()) else {
            return false;
        };
        // SAFETY: as in `read`, the other way.
        unsafe {
            std::ptr::copy_nonoverlapping(
                from.as_ptr(),
                self.start.as_ptr().add(start),
                from.len(),
            );
        }
        true
    }

    /// msync(MS_SYNC) of the whole mapping.
    ///
    /// # Errors
    /// EIO where write-back failed.
    pub fn sync(&self) -> io::Result<()> {
        // SAFETY: our own mapping.
        let result = unsafe { libc::msync(self.start.as_ptr().cast(), self.length, libc::MS_SYNC) };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // SAFETY: our own mapping, no borrow of it is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}
