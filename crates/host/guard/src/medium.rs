//! Reads of a device past the page cache, which can be older than the device: what a process maps stays in it.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{Advice, OFlags};

use crate::open::reopen;

/// Alignment of direct reads and their memory, bytes.
const ALIGN: usize = 4096;

/// A device that is read with O_DIRECT, if it supports that.
#[derive(Debug)]
pub(crate) struct Medium {
    file: File,
    direct: bool,
}

/// Memory for reads.
pub(crate) struct Buffer(Vec<u8>);

impl Buffer {
    pub(crate) fn new(length: usize) -> Buffer {
        Buffer(vec![0; length + ALIGN])
    }

    /// Its first bytes, aligned.
    pub(crate) fn bytes(&mut self, length: usize) -> &mut [u8] {
        let skip = self.0.as_ptr().align_offset(ALIGN);
        &mut self.0[skip..][..length]
    }
}

impl Medium {
    /// Opens the inode of a descriptor for reading.
    ///
    /// # Errors
    /// As open(2) and pread(2).
    pub(crate) fn open(device: impl AsFd) -> io::Result<Medium> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let direct = reopen(device.as_fd(), flags | OFlags::DIRECT).map(File::from);
        let unsupported = |error: &io::Error| {
            let kind = error.kind();
            matches!(
                kind,
                io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
            )
        };
        let read = |file: &File| file.read_at(Buffer::new(ALIGN).bytes(ALIGN), 0);
        match direct.and_then(|file| read(&file).map(|_| file)) {
            Ok(file) => Ok(Medium { file, direct: true }),
            Err(error) if unsupported(&error) => {
                let file = File::from(reopen(device.as_fd(), flags)?);
                for advice in [Advice::DontNeed, Advice::Random] {
                    let _ = rustix::fs::fadvise(&file, 0, None, advice);
                }
                Ok(Medium::cached(file))
            }
            Err(error) => Err(error),
        }
    }

    /// A file that is read through the page cache.
    pub(crate) fn cached(file: File) -> Medium {
        Medium {
            file,
            direct: false,
        }
    }

    pub(crate) fn is_direct(&self) -> bool {
        self.direct
    }

    /// Fills aligned memory from an offset that is a multiple of 4 KiB.
    pub(crate) fn read_aligned(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, at)
    }

    /// Fills any memory from any offset; `end` is the length of the device.
    pub(crate) fn read(&self, bytes: &mut [u8], at: u64, end: u64) -> io::Result<()> {
        if !self.direct {
            return self.file.read_exact_at(bytes, at);
        }
        let skip = at as usize % ALIGN;
        let start = at - skip as u64;
        let whole = (skip + bytes.len()).next_multiple_of(ALIGN) as u64;
        let length = whole.min(end.saturating_sub(start)) as usize;
        if skip + bytes.len() > length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut buffer = Buffer::new(length);
        self.file.read_exact_at(buffer.bytes(length), start)?;
        bytes.copy_from_slice(&buffer.bytes(length)[skip..][..bytes.len()]);
        Ok(())
    }
}
