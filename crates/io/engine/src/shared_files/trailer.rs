//! Blocks that end with a checksum and their offset, in the layout of sysbench fileio.
//!
//! | bytes of a block of n | content |
//! |---|---|
//! | 0 … n−13 | data |
//! | n−12 … n−9 | CRC-32 (IEEE 802.3) of the data |
//! | n−8 … n−1 | offset of the block in its file |
//!
//! Both in the host's byte order. The layout does not identify the file: a block of another file at the same offset
//! is accepted. A file's last block may be shorter; one too short for a trailer has none.

use iodyno_model::{BadBlock, VerifyResult};
use iodyno_sys::Op;

/// Length of the trailer, bytes.
pub const TRAILER: usize = 12;

/// Puts a trailer on each block of a buffer that is written at an offset.
pub fn seal(block: usize, offset: u64, buffer: &mut [u8]) {
    for (offset, range) in cut(block, offset, buffer.len()) {
        let block = &mut buffer[range];
        if block.len() <= TRAILER {
            continue;
        }
        let (data, trailer) = block.split_at_mut(block.len() - TRAILER);
        let sum = crc32fast::hash(data);
        trailer[..4].copy_from_slice(&sum.to_ne_bytes());
        trailer[4..].copy_from_slice(&offset.to_ne_bytes());
    }
}

/// The blocks of a range of a file, each with its offset. The range may begin within a block where filling of a file is
/// resumed.
fn cut(
    block: usize,
    offset: u64,
    length: usize,
) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let first = block - (offset % block as u64) as usize;
    let mut at = 0;
    std::iter::from_fn(move || {
        let next = if at == 0 { first } else { at + block }.min(length);
        let range = at..next;
        (range.start < length).then(|| {
            at = next;
            (offset + range.start as u64, range)
        })
    })
}

/// Adds trailers to written blocks and verifies read blocks.
#[derive(Debug)]
pub(crate) struct Trailers {
    block: usize,
    names: Vec<String>,
    pub(crate) result: VerifyResult,
}

impl Trailers {
    /// For blocks of this length in files of these names.
    pub(crate) fn new(block: u64, names: Vec<String>) -> Trailers {
        Trailers {
            block: block.max(1) as usize,
            names,
            result: VerifyResult::default(),
        }
    }

    /// Called before a write: puts a trailer on each block.
    pub(crate) fn seal(&mut self, op: &Op, buffer: &mut [u8]) {
        seal(self.block, op.offset, &mut buffer[..op.length as usize]);
    }

    /// Verifies the data of a read; `false` if any block is bad.
    pub(crate) fn check(&mut self, op: &Op, buffer: &[u8]) -> bool {
        let before = self.result.bad();
        for (offset, range) in cut(self.block, op.offset, op.length as usize) {
            let block = &buffer[range];
            let Some((data, trailer)) = block
                .split_last_chunk::<TRAILER>()
                .filter(|(data, _)| !data.is_empty())
            else {
                continue;
            };
            self.result.checked += 1;
            let sum = u32::from_ne_bytes([trailer[0], trailer[1], trailer[2], trailer[3]]);
            let mut found = [0; 8];
            found.copy_from_slice(&trailer[4..]);
            let found = u64::from_ne_bytes(found);
            if sum == crc32fast::hash(data) && found == offset {
                continue;
            }
            self.bad(op.file, offset, found, block, sum == crc32fast::hash(data));
        }
        self.result.bad() == before
    }

    #[cold]
    fn bad(&mut self, file: u32, offset: u64, found: u64, block: &[u8], whole: bool) {
        let what = if whole {
            self.result.misplaced += 1;
            format!("the block of offset {found}")
        } else if block.iter().all(|byte| *byte == 0) {
            self.result.foreign += 1;
            "zeroes: was it prepared with `--validate`?".to_owned()
        } else {
            self.result.corrupt += 1;
            match found == offset {
                true => "a wrong checksum".to_owned(),
                false => "a wrong checksum and offset: was it prepared with `--validate`, and with the same block size?".to_owned(),
            }
        };
        self.result.name(BadBlock {
            file: self.names[file as usize].clone(),
            offset,
            length: block.len() as u64,
            found: what,
            fitting: None,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_sys::OpKind;

    fn op(offset: u64, length: u32) -> Op {
        Op::new(OpKind::Write, 0, offset, length)
    }

    fn trailers() -> Trailers {
        Trailers::new(64, vec!["test_file.0".to_owned()])
    }

    fn sealed(offset: u64, length: u32) -> Vec<u8> {
        let mut buffer: Vec<u8> = (0..length).map(|byte| (byte * 31 + 7) as u8).collect();
        trailers().seal(&op(offset, length), &mut buffer);
        buffer
    }

    #[test]
    fn the_layout_is_data_then_crc_32_then_the_offset() {
        let buffer = sealed(128, 64);
        let mut data = [0; 52];
        data.copy_from_slice(&buffer[..52]);
        assert_eq!(buffer[52..56], crc32fast::hash(&data).to_ne_bytes());
        assert_eq!(buffer[56..], 128u64.to_ne_bytes());
        // The check value of CRC-32/IEEE.
        assert_eq!(crc32fast::hash(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn sealed_blocks_are_accepted_in_any_grouping() {
        // (offset, length, blocks).
        for (offset, length, blocks) in [
            (0, 64, 1),
            (64, 256, 4),
            (128, 100, 2),
            (0, 64 + 12, 1),
            (0, 64 + 13, 2),
            (0, 12, 0),
        ] {
            let mut trailers = trailers();
            assert!(trailers.check(&op(offset, length), &sealed(offset, length)));
            assert_eq!(trailers.result.checked, blocks, "{offset} {length}");
        }
        let mut trailers = trailers();
        let all = sealed(0, 256);
        for offset in [0, 64, 128, 192] {
            let block = &all[offset as usize..offset as usize + 64];
            assert!(trailers.check(&op(offset, 64), block));
        }
    }

    #[test]
    fn every_flipped_bit_is_detected() {
        let buffer = sealed(64, 64);
        for bit in 0..64 * 8 {
            let mut damaged = buffer.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(!trailers().check(&op(64, 64), &damaged), "bit {bit}");
        }
    }

    #[test]
    fn kinds_of_damage_are_distinguished_with_file_and_offset() {
        let mut torn = sealed(64, 64);
        torn[3] ^= 1;
        for (buffer, kind, word) in [
            (sealed(0, 64), (1, 0, 0), "the block of offset 0"),
            (torn, (0, 1, 0), "a wrong checksum"),
            (vec![0; 64], (0, 0, 1), "zeroes"),
            (vec![9; 64], (0, 1, 0), "checksum and offset"),
        ] {
            let mut trailers = trailers();
            assert!(!trailers.check(&op(64, 64), &buffer));
            let result = &trailers.result;
            assert_eq!((result.misplaced, result.corrupt, result.foreign), kind);
            let first = result.first.as_ref().unwrap();
            assert!(first.starts_with("test_file.0 at offset 64: "), "{first}");
            assert!(first.contains(word), "{first}");
        }
    }
}
