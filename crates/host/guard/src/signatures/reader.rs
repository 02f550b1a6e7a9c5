//! Bounded reading: nothing outside of the probed range; both ends are read once.

use std::borrow::Cow;
use std::cell::Cell;
use std::io;

/// Most signatures are at both ends: of file systems up to the superblock of btrfs at 64 KiB, and those of md and GPT
/// at the end. Others are read where they can be.
const END: u64 = 72 << 10;

thread_local! {
    /// The buffers of the last reader of this thread: thousands of files may be probed one after the other.
    static ENDS: Cell<[Vec<u8>; 2]> = const { Cell::new([Vec::new(), Vec::new()]) };
}

type ReadAt<'a> = dyn Fn(&mut [u8], u64) -> io::Result<()> + 'a;

/// The probed range.
pub(super) struct Reader<'a> {
    pub(super) length: u64,
    /// Whether it is a device, and not a regular file.
    pub(super) device: bool,
    head: Vec<u8>,
    tail: Vec<u8>,
    tail_start: u64,
    read: Box<ReadAt<'a>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        length: u64,
        device: bool,
        read: impl Fn(&mut [u8], u64) -> io::Result<()> + 'a,
    ) -> io::Result<Reader<'a>> {
        let [mut head, mut tail] = ENDS.take();
        head.resize(length.min(END) as usize, 0);
        read(&mut head, 0)?;
        tail.resize(length.min(END) as usize, 0);
        let tail_start = length - tail.len() as u64;
        read(&mut tail, tail_start)?;
        Ok(Reader {
            length,
            device,
            head,
            tail,
            tail_start,
            read: Box::new(read),
        })
    }

    /// Bytes at an offset; `None` if they are not completely within the range.
    pub(super) fn at(&self, offset: u64, length: usize) -> io::Result<Option<Cow<'_, [u8]>>> {
        let Some(end) = offset.checked_add(length as u64) else {
            return Ok(None);
        };
        if end > self.length {
            return Ok(None);
        }
        if end <= self.head.len() as u64 {
            return Ok(Some(self.head[offset as usize..end as usize].into()));
        }
        if offset >= self.tail_start {
            let from = (offset - self.tail_start) as usize;
            return Ok(Some(self.tail[from..from + length].into()));
        }
        let mut bytes = vec![0; length];
        (self.read)(&mut bytes, offset)?;
        Ok(Some(bytes.into()))
    }

    /// Whether exactly these bytes are at an offset.
    pub(super) fn matches(&self, offset: u64, bytes: &[u8]) -> io::Result<bool> {
        Ok(self.at(offset, bytes.len())?.as_deref() == Some(bytes))
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        let ends = [&mut self.head, &mut self.tail].map(std::mem::take);
        // While a thread ends, its buffers are no longer kept.
        let _ = ENDS.try_with(|kept| kept.set(ends));
    }
}

/// Fields of a header. Bytes beyond its end read as zero.
pub(super) struct Header<'a>(pub(super) &'a [u8]);

impl Header<'_> {
    fn bytes<const N: usize>(&self, offset: usize) -> [u8; N] {
        let mut bytes = [0; N];
        if let Some(from) = self.0.get(offset..).and_then(|rest| rest.get(..N)) {
            bytes.copy_from_slice(from);
        }
        bytes
    }

    pub(super) fn u16(&self, offset: usize) -> u16 {
        u16::from_le_bytes(self.bytes(offset))
    }

    pub(super) fn u32(&self, offset: usize) -> u32 {
        u32::from_le_bytes(self.bytes(offset))
    }

    pub(super) fn u32_be(&self, offset: usize) -> u32 {
        u32::from_be_bytes(self.bytes(offset))
    }

    pub(super) fn u64(&self, offset: usize) -> u64 {
        u64::from_le_bytes(self.bytes(offset))
    }

    /// Text up to its NUL, without control characters that a terminal would interpret.
    pub(super) fn text(&self, offset: usize, length: usize) -> String {
        let rest = self.0.get(offset..).unwrap_or_default();
        let field = &rest[..length.min(rest.len())];
        let end = field.iter().position(|byte| *byte == 0);
        String::from_utf8_lossy(&field[..end.unwrap_or(field.len())])
            .chars()
            .filter(|c| !c.is_control())
            .collect::<String>()
            .trim()
            .to_owned()
    }
}
