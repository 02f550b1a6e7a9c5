//! Signatures on a device: file systems, pools, volumes, partition tables, swap, encryption.
//!
//! Formats are recognised by the magic numbers that their on-disk formats define at fixed places; each table and
//! function names them. A magic number of two bytes matches random data once in 65536 times, so such formats get
//! additional checks. Signatures only name the content: the bytes decide whether a device is blank (`guard::content`).

mod formats;
mod reader;
mod table;

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use reader::Reader;

/// The name of a leg of iodyno's mirrors.
pub const LEG: &str = "leg of an iodyno mirror";

/// A signature on a device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Signature {
    /// Offset from the start of the probed range, bytes.
    pub offset: u64,
    /// The format: `ext4`, `LUKS2`, `GPT backup`.
    pub what: &'static str,
    /// Its label, or another property that its owner recognises; may be empty.
    pub detail: String,
}

impl Signature {
    /// Whether only two bytes identify it: random data match once in 65536 times.
    pub(crate) fn weak(&self) -> bool {
        self.what == formats::BOOT_SECTOR && self.detail.is_empty()
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        if !self.detail.is_empty() {
            write!(f, " ({})", self.detail)?;
        }
        write!(f, " at byte {}", self.offset)
    }
}

/// All known signatures between `start` and `start + length` of a device, by offset. Only reads, and only at the
/// places where signatures can be.
///
/// # Errors
/// As pread(2): what cannot be read is not considered blank.
pub fn probe(device: &File, start: u64, length: u64) -> io::Result<Vec<Signature>> {
    probe_device(length, |buffer, offset| {
        device.read_exact_at(buffer, start + offset)
    })
}

/// Like [`probe`], for a device whose bytes at an offset `read` reads.
///
/// # Errors
/// Those of `read`.
pub(crate) fn probe_device(
    length: u64,
    read: impl Fn(&mut [u8], u64) -> io::Result<()>,
) -> io::Result<Vec<Signature>> {
    scan(&Reader::new(length, true, read)?)
}

/// Like [`probe`], for the first `length` bytes of a regular file. A run can write to thousands of files, and what is
/// read here is then in the page cache; some 150 KiB of each are read. Not looked for: members of a firmware RAID of
/// Promise, which are disks, and pools of ZFS without a configuration, which cannot be imported.
///
/// # Errors
/// As [`probe`].
pub fn probe_file(file: &File, length: u64) -> io::Result<Vec<Signature>> {
    probe_reads(length, |buffer, offset| file.read_exact_at(buffer, offset))
}

/// Like [`probe_file`], for a file whose bytes at an offset `read` reads.
///
/// # Errors
/// Those of `read`.
pub fn probe_reads(
    length: u64,
    read: impl Fn(&mut [u8], u64) -> io::Result<()>,
) -> io::Result<Vec<Signature>> {
    scan(&Reader::new(length, false, read)?)
}

fn scan(reader: &Reader<'_>) -> io::Result<Vec<Signature>> {
    let mut found = Vec::new();
    for mark in table::MARKS {
        if reader.matches(mark.offset, mark.bytes)? {
            found.push(Signature {
                offset: mark.offset,
                what: mark.what,
                detail: String::new(),
            });
        }
    }
    let end = reader.length / 512 * 512;
    for mark in table::MARKS_FROM_END {
        if let Some(offset) = end.checked_sub(mark.offset)
            && reader.matches(offset, mark.bytes)?
        {
            found.push(Signature {
                offset,
                what: mark.what,
                detail: String::new(),
            });
        }
    }
    for format in formats::ALL {
        format(reader, &mut found)?;
    }
    found.sort();
    found.dedup();
    Ok(found)
}

#[cfg(test)]
mod tests;
