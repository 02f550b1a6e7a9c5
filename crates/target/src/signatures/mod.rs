//! What a stretch of a device holds: file systems, pools, volumes, partition tables, swap, keys.
//!
//! Known by the marks their makers put at fixed places; the marks are facts of the on-disk formats,
//! which each table and function names. A mark of two bytes shows up in random data once in 65536
//! times: such formats are checked for more than the mark. Signatures only name what was found: whether a
//! device is blank is decided by its bytes (`guard::content`).

mod formats;
mod reader;
mod table;

use std::fmt;
use std::fs::File;
use std::io;

use reader::Reader;

/// Something found on a device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Signature {
    /// Bytes from the start of what was probed.
    pub offset: u64,
    /// What: `ext4`, `LUKS2`, `GPT backup`.
    pub what: &'static str,
    /// Its name, or what else tells its owner what it is; empty if nothing does.
    pub detail: String,
}

impl Signature {
    /// Two bytes are all that it is known by: random data show it once in 65536 times.
    pub(crate) fn weak(&self) -> bool {
        self.what == formats::BOOT_SECTOR
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

/// Everything known that lies between `start` and `start + length` of a device or file, by offset.
/// Only reads, and only at the few places where marks can be.
///
/// # Errors
/// As pread(2): what cannot be read cannot be called blank.
pub fn probe(device: &File, start: u64, length: u64) -> io::Result<Vec<Signature>> {
    use std::os::unix::fs::FileExt;
    scan(&Reader::new(length, |buffer, offset| {
        device.read_exact_at(buffer, start + offset)
    })?)
}

/// The same for bytes in memory.
pub fn probe_bytes(bytes: &[u8]) -> Vec<Signature> {
    let reader = Reader::new(bytes.len() as u64, |buffer, offset| {
        let from = bytes.get(offset as usize..).unwrap_or_default();
        let from = from
            .get(..buffer.len())
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(from);
        Ok(())
    });
    // Bytes in memory within their length are always read.
    reader.and_then(|reader| scan(&reader)).unwrap_or_default()
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
