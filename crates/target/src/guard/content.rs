//! Detects data on a device from a sample of its blocks.
//!
//! Signatures identify known formats only. The sample detects any data: a device is blank if every sampled
//! block consists of one repeated byte. The sample is the first MiB, the last MiB and 128 blocks of 4 KiB
//! at equal distances in between: at most 2.5 MiB in 130 reads, in ascending order. The sampled offsets
//! depend only on the length, so that two samples can be compared.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use xxhash_rust::xxh3::xxh3_128;

/// Length of a sampled block, bytes.
pub(super) const BLOCK: u64 = 4096;
const END: u64 = 1 << 20;
const BETWEEN: u64 = 128;
/// The smallest unit of a write, bytes.
const SECTOR: usize = 512;

/// Digests of sampled blocks, by position in the sample; `None`: not written by iodyno.
pub(super) type Digests = Vec<Option<u128>>;

/// The sampled blocks of a device, with their contents.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sample {
    offsets: Vec<u64>,
    /// The blocks in order; only the last one can be shorter than [`BLOCK`].
    bytes: Vec<u8>,
}

/// Offsets of the sampled blocks of a device, ascending; multiples of [`BLOCK`].
fn offsets(length: u64) -> Vec<u64> {
    let blocks = length.div_ceil(BLOCK);
    let head = END / BLOCK;
    let tail = (length.saturating_sub(END) / BLOCK).max(head);
    let gap = tail.saturating_sub(head);
    let between = (0..BETWEEN.min(gap)).map(|index| {
        // The middle of each of the equal parts.
        let place = u128::from(gap) * u128::from(2 * index + 1) / u128::from(2 * BETWEEN.min(gap));
        head + place as u64
    });
    (0..head.min(blocks))
        .chain(between)
        .chain(tail..blocks)
        .map(|block| block * BLOCK)
        .collect()
}

impl Sample {
    /// Samples a device or file of `length` bytes.
    ///
    /// # Errors
    /// As pread(2): a block that cannot be read is not considered blank.
    pub(super) fn read(device: &File, length: u64) -> io::Result<Sample> {
        let offsets = offsets(length);
        let end = |offset: &u64| (offset + BLOCK).min(length);
        let total: u64 = offsets.iter().map(|offset| end(offset) - offset).sum();
        let mut bytes = vec![0; total as usize];
        let mut rest = &mut bytes[..];
        // Adjacent blocks are read with one call.
        for run in offsets.chunk_by(|one, next| one + BLOCK == *next) {
            let (first, last) = (run[0], &run[run.len() - 1]);
            let (part, more) = rest.split_at_mut((end(last) - first) as usize);
            device.read_exact_at(part, first)?;
            rest = more;
        }
        Ok(Sample { offsets, bytes })
    }

    /// Number of sampled blocks.
    pub(super) fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Start of a sampled block, bytes.
    pub(super) fn offset(&self, index: usize) -> u64 {
        self.offsets[index]
    }

    /// Whether an offset is in a sampled block.
    pub(super) fn covers(&self, offset: u64) -> bool {
        let block = offset / BLOCK * BLOCK;
        self.offsets.binary_search(&block).is_ok()
    }

    fn block(&self, index: usize) -> &[u8] {
        let from = index * BLOCK as usize;
        &self.bytes[from..self.bytes.len().min(from + BLOCK as usize)]
    }

    fn blocks(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks(BLOCK as usize)
    }

    /// Indices of the blocks that are neither blank nor equal to iodyno's own content in `own`. A block is
    /// blank if it consists of one repeated byte, which is the same in all blank blocks.
    pub(super) fn foreign(&self, own: &Digests) -> Vec<usize> {
        let is_own = |index: usize, block: &[u8]| {
            let digest = own.get(index).copied().flatten();
            digest.is_some_and(|digest| digest == xxh3_128(block))
        };
        let mut blank = None;
        let mut foreign = Vec::new();
        for (index, block) in self.blocks().enumerate() {
            if is_own(index, block) {
                continue;
            }
            match uniform(block) {
                Some(byte) if *blank.get_or_insert(byte) == byte => {}
                _ => foreign.push(index),
            }
        }
        foreign
    }

    /// Digests of all blocks except `except`.
    pub(super) fn digests(&self, except: &[usize]) -> Digests {
        let mut digests: Digests = self.blocks().map(|block| Some(xxh3_128(block))).collect();
        for index in except {
            digests[*index] = None;
        }
        digests
    }

    /// Digests of iodyno's own content after a run. `before` is the sample at its start, in which the
    /// blocks of `foreign` were not its own. One of these became its own if every sector of it changed, or
    /// if its content equals `own`, the record from before that run.
    pub(super) fn digests_after(
        &self,
        before: &Sample,
        foreign: &[usize],
        own: &Digests,
    ) -> Digests {
        let mut digests = self.digests(&[]);
        for index in foreign {
            let (old, new) = (before.block(*index), self.block(*index));
            let mut sectors = old.chunks(SECTOR).zip(new.chunks(SECTOR));
            let written = sectors.all(|(old, new)| old != new);
            let restored = digests[*index] == own.get(*index).copied().flatten();
            if !written && !restored {
                digests[*index] = None;
            }
        }
        digests
    }
}

/// The byte that is repeated in the whole block, if any.
fn uniform(block: &[u8]) -> Option<u8> {
    let (first, rest) = block.split_first()?;
    (rest == &block[..rest.len()]).then_some(*first)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// Zeroes with some bytes set.
    fn sample(length: u64, marks: &[(u64, &[u8])]) -> Sample {
        let file = tempfile::tempfile().unwrap();
        file.set_len(length).unwrap();
        for (offset, bytes) in marks {
            file.write_all_at(bytes, *offset).unwrap();
        }
        Sample::read(&file, length).unwrap()
    }

    /// Offsets of the blocks that are not blank.
    fn found(length: u64, marks: &[(u64, &[u8])]) -> Vec<u64> {
        let sample = sample(length, marks);
        let foreign = sample.foreign(&Digests::new());
        foreign.into_iter().map(|i| sample.offset(i)).collect()
    }

    #[test]
    fn both_ends_are_fully_sampled_and_128_blocks_in_between() {
        for (length, blocks) in [
            (0, 0),
            (1, 1),
            (4096, 1),
            (4097, 2),
            (2 * MIB, 512),
            (2 * MIB + 4096, 513),
            (3 * MIB, 512 + 128),
            (3 * MIB + 512, 512 + 128 + 1),
            (16 << 40, 512 + 128),
        ] {
            let offsets = offsets(length);
            assert_eq!(offsets.len(), blocks, "{length}");
            assert!(offsets.is_sorted_by(|one, next| one < next), "{length}");
        }
        assert_eq!(
            offsets(16 << 40)[256],
            MIB + ((16 << 40) - 2 * MIB) / 256 / 4096 * 4096
        );
    }

    #[test]
    fn one_byte_in_a_sampled_block_is_found() {
        assert!(found(64 * MIB, &[]).is_empty());
        for (at, expected) in [
            (0, 0),
            (MIB - 1, MIB - 4096),
            (64 * MIB - 1, 64 * MIB - 4096),
            (63 * MIB, 63 * MIB),
        ] {
            assert_eq!(found(64 * MIB, &[(at, b"x")]), [expected], "{at}");
        }
        let between = offsets(64 * MIB)[300];
        assert_eq!(found(64 * MIB, &[(between + 4095, b"x")]), [between]);
        assert!(found(64 * MIB, &[(between + 4096, b"x")]).is_empty());
    }

    #[test]
    fn one_repeated_byte_is_blank_and_two_different_bytes_are_not() {
        let ones = vec![0xff; 3 * MIB as usize];
        assert!(found(3 * MIB, &[(0, &ones)]).is_empty());
        assert_eq!(found(3 * MIB, &[(4096, &ones[..4096])]), [4096]);
    }

    #[test]
    fn own_content_is_recognised_until_others_change_it() {
        let (blank, ours) = (sample(MIB, &[]), sample(MIB, &[(8192, &[7; 4096])]));
        let own = ours.digests_after(&blank, &[], &Digests::new());
        assert!(ours.foreign(&own).is_empty());
        assert!(blank.foreign(&own).is_empty());
        let others = sample(MIB, &[(8192, &[7; 4096]), (1080, b"\x53\xef")]);
        assert_eq!(others.foreign(&own), [0]);
        let changed = sample(MIB, &[(8192, &[7; 4095])]);
        assert_eq!(changed.foreign(&own), [2]);
        // iodyno writes the same bytes again over data of others.
        let again = ours.digests_after(&changed, &[2], &own);
        assert!(ours.foreign(&again).is_empty());
    }

    #[test]
    fn a_foreign_block_becomes_own_only_if_all_its_sectors_were_written() {
        let mixed: Vec<u8> = (0..8192u32).map(|i| (i % 251) as u8).collect();
        let before = sample(MIB, &[(0, &mixed)]);
        let foreign = before.foreign(&Digests::new());
        assert_eq!(foreign, [0, 1]);
        for (written, still_foreign) in [
            (3584, &[0, 1][..]),
            (4096, &[1]),
            (4608, &[1]),
            (7680, &[1]),
            (8192, &[]),
        ] {
            let after: Vec<u8> = mixed
                .iter()
                .enumerate()
                .map(|(at, byte)| if at < written { !byte } else { *byte })
                .collect();
            let after = sample(MIB, &[(0, &after)]);
            let own = after.digests_after(&before, &foreign, &Digests::new());
            assert_eq!(after.foreign(&own), still_foreign, "{written}");
        }
    }

    #[test]
    fn unreadable_blocks_are_an_error() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        assert!(Sample::read(&file, 8192).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn blocks_lie_within_the_length_and_do_not_overlap(length in 0u64..1 << 62) {
            let offsets = offsets(length);
            prop_assert!(offsets.iter().all(|offset| *offset < length));
            prop_assert!(offsets.windows(2).all(|pair| pair[0] + BLOCK <= pair[1]));
        }

        #[test]
        fn a_sample_contains_the_bytes_of_the_file(length in 1usize..3 << 20, seed in any::<u8>()) {
            let mut bytes: Vec<u8> = (0..=u8::MAX).cycle().take(length).collect();
            bytes[length / 2] ^= seed;
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&bytes).unwrap();
            let sample = Sample::read(&file, length as u64).unwrap();
            for index in 0..sample.len() {
                let from = sample.offset(index) as usize;
                let block = sample.block(index);
                prop_assert_eq!(block, &bytes[from..(from + 4096).min(length)]);
            }
        }
    }
}
