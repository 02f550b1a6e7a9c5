//! Files mapped into memory: I/O by copying, fdatasync by msync.
//!
//! If a file is truncated while it is mapped, a copy beyond its end raises SIGBUS, which ends the process:
//! the parent records that as the trial's outcome.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;

use crate::result::status;
use crate::{BackendError, File, Op, OpKind, SyncExecutor, file};

/// Executes ops by copying to and from mapped files.
#[derive(Debug)]
pub struct MappedFiles {
    files: Vec<(File, MappedFile)>,
}

impl MappedFiles {
    /// Maps a region (offset, length) of each file.
    ///
    /// # Errors
    /// If a file cannot be mapped.
    pub fn new(files: Vec<(File, u64, u64)>, writable: bool) -> Result<MappedFiles, BackendError> {
        let files = files
            .into_iter()
            .map(|(file, base, length)| {
                let mapped = MappedFile::new(&file.descriptor, base, length, writable)
                    .map_err(|error| BackendError::new("map a file into memory", error))?;
                Ok((file, mapped))
            })
            .collect::<Result<_, BackendError>>()?;
        Ok(MappedFiles { files })
    }

    /// Tells the kernel the order of the accesses, which determines how much it reads around a missing page. The
    /// advice on the file does not apply to mappings.
    pub fn advise(&self, random: bool) {
        self.files.iter().for_each(|(_, file)| file.advise(random));
    }
}

impl SyncExecutor for MappedFiles {
    fn execute(&mut self, op: &Op, buffer: &mut [u8]) -> i32 {
        let (file, mapped) = &self.files[op.file as usize];
        let copied = |done: bool| {
            if done {
                op.length as i32
            } else {
                -libc::EFAULT
            }
        };
        match op.kind {
            OpKind::Read => copied(mapped.read(op.offset, buffer)),
            OpKind::Write => copied(mapped.write(op.offset, buffer)),
            OpKind::Trim | OpKind::SyncRange(_) | OpKind::ResetZone => file::on_range(file, op),
            // On Linux msync(MS_SYNC) is the equivalent of fdatasync for mapped pages, and fsync writes
            // mapped pages too: both together would flush the device twice.
            OpKind::Fdatasync => mapped.sync(),
            OpKind::Fsync => file::sync(&file.descriptor, false),
        }
    }

    // The kernel writes dirty pages back, and keeps those that are mapped. They stay mapped: while a page is read in
    // again, a frozen file system could block all threads that map memory.
    fn drop_pages(&mut self, file: u32, offset: u64, length: u64) {
        file::drop_pages(&self.files[file as usize].0, offset, length);
    }
}

/// A shared mapping of a part of a file.
#[derive(Debug)]
struct MappedFile {
    start: NonNull<u8>,
    length: usize,
    base: u64,
    writable: bool,
}

// SAFETY: the mapping is owned by this value.
unsafe impl Send for MappedFile {}

impl MappedFile {
    /// Maps `length` bytes from `base` (rounded down to a page), writable or not.
    ///
    /// # Errors
    /// Those of mmap: ENODEV for files that cannot be mapped, ENOMEM, EACCES.
    fn new(file: &OwnedFd, base: u64, length: u64, writable: bool) -> io::Result<MappedFile> {
        let aligned = base - base % page_size();
        let length = usize::try_from(length + (base - aligned))
            .map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW))?;
        let protection = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        // SAFETY: a new mapping; no existing memory is affected.
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
                writable,
            }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn range(&self, offset: u64, length: usize) -> Option<usize> {
        let start = usize::try_from(offset.checked_sub(self.base)?).ok()?;
        (start.checked_add(length)? <= self.length).then_some(start)
    }

    /// Copies from the file; `false` if the range is not mapped.
    fn read(&self, offset: u64, into: &mut [u8]) -> bool {
        let Some(start) = self.range(offset, into.len()) else {
            return false;
        };
        // SAFETY: the range is mapped; `into` is our own memory and cannot overlap it. Concurrent writers
        // of the file may tear the copied data, as with any read.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.start.as_ptr().add(start),
                into.as_mut_ptr(),
                into.len(),
            );
        }
        true
    }

    /// Copies into the file; `false` if the range is not mapped or not writable.
    fn write(&self, offset: u64, from: &[u8]) -> bool {
        let Some(start) = self.range(offset, from.len()).filter(|_| self.writable) else {
            return false;
        };
        // SAFETY: as in `read`, the other way; the mapping is writable.
        unsafe {
            std::ptr::copy_nonoverlapping(
                from.as_ptr(),
                self.start.as_ptr().add(start),
                from.len(),
            );
        }
        true
    }

    /// madvise of the whole mapping. An error is ignored: it is a hint.
    fn advise(&self, random: bool) {
        let advice = match random {
            true => libc::MADV_RANDOM,
            false => libc::MADV_SEQUENTIAL,
        };
        // SAFETY: our own mapping, whose content the advice does not change.
        unsafe { libc::madvise(self.start.as_ptr().cast(), self.length, advice) };
    }

    /// msync(MS_SYNC) of the whole mapping: 0, or −errno.
    fn sync(&self) -> i32 {
        // SAFETY: our own mapping.
        status(unsafe { libc::msync(self.start.as_ptr().cast(), self.length, libc::MS_SYNC) })
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // SAFETY: our own mapping, to which no borrow exists.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// Page size, bytes: 4 KiB on most machines, 16 or 64 KiB on some ARM and POWER machines.
fn page_size() -> u64 {
    // SAFETY: the argument is a plain number.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).unwrap_or(4096).max(1)
}

#[cfg(test)]
mod tests {
    use std::os::fd::FromRawFd;

    use super::*;

    /// 16 KiB of zeroes in memory, partly mapped.
    fn zeroes(base: u64, length: u64, writable: bool) -> MappedFile {
        // SAFETY: a NUL-terminated name; nothing else owns the descriptor.
        let file = unsafe {
            let descriptor = libc::memfd_create(c"zeroes".as_ptr(), libc::MFD_CLOEXEC);
            assert!(descriptor >= 0);
            std::fs::File::from_raw_fd(descriptor)
        };
        file.set_len(16 << 10).unwrap();
        MappedFile::new(&file.into(), base, length, writable).unwrap()
    }

    #[test]
    fn copies_stay_within_the_mapping_and_respect_its_permissions() {
        // (offset, length, within the mapping of 10000 bytes from 5000).
        let mut buffer = [0; 12_000];
        for (offset, length, there) in [
            (5000, 10_000, true),
            (14_999, 1, true),
            (15_000, 1, false),
            (14_999, 2, false),
            (u64::MAX, 2, false),
        ] {
            let buffer = &mut buffer[..length];
            for writable in [true, false] {
                let mapped = zeroes(5000, 10_000, writable);
                buffer.fill(7);
                let written = mapped.write(offset, buffer);
                assert_eq!(written, there && writable, "{offset} {length}");
                buffer.fill(1);
                assert_eq!(mapped.read(offset, buffer), there, "{offset} {length}");
                let expected = match (there, writable) {
                    (false, _) => 1,
                    (true, true) => 7,
                    (true, false) => 0,
                };
                assert!(buffer.iter().all(|byte| *byte == expected));
            }
        }
    }
}
