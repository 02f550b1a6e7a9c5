//! Detects data on a device from a sample of its blocks.
//!
//! Signatures identify known formats only. The sample detects any data: a device is blank if every sampled block consists
//! of zeros. The sample is both ends and the places where something usually is ([`places`]), always; and cells of 64 KiB at
//! equal distances between them, the most distant ones first, until all are read (1 GiB) or the time is over. Which blocks
//! these are depends only on the length of the device and the number of cells, so that two samples can be compared.
//!
//! Holes of a file below a loop device are zero and not read. On a device without a record of iodyno's writes, the beginning
//! of each range that the file stores is looked at as well.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use rustix::fs::Advice;
use xxhash_rust::xxh3::xxh3_64;

use super::places;

/// Length of a sampled block, bytes.
pub(super) const BLOCK: u64 = 4096;
/// The smallest unit of a write, bytes.
const SECTOR: usize = 512;
const SECTORS: usize = BLOCK as usize / SECTOR;
/// Length of a cell, bytes.
const CELL: u64 = 64 << 10;
/// The number of cells of a device that is long enough.
const MOST: u64 = 16 << 10;
/// The number of cells that are always read.
const LEAST: usize = 128;
/// How long further cells are read.
const TIME: Duration = Duration::from_secs(1);
/// The most that is read with one call, bytes.
const CALL: u64 = 1 << 20;

const ZEROS: [u8; BLOCK as usize] = [0; BLOCK as usize];

/// The content of a block: a digest of each of its sectors.
type Content = [u64; SECTORS];

/// iodyno's own writes to a device, from its record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Own {
    /// The number of cells that were sampled.
    pub(super) cells: usize,
    /// Digests of the blocks that iodyno wrote, by the number of the block. Blank blocks have none.
    pub(super) digests: BTreeMap<u64, u64>,
    /// Sampled blocks that were not blank and that iodyno did not write.
    pub(super) foreign: BTreeSet<u64>,
}

/// The sampled blocks of a device.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sample {
    length: u64,
    /// The number of cells that were read.
    pub(super) cells: usize,
    /// What was looked at, in order, bytes.
    looked: Vec<Range<u64>>,
    /// The blocks that are not blank, by their number.
    data: BTreeMap<u64, Content>,
}

/// Numbers from 0 to `count`, the most distant ones first: the multiples of a power of two, then those in between, and so on.
fn spread(count: u64) -> impl Iterator<Item = u64> {
    // The first ones, at most [`LEAST`], cover the whole device.
    let widest = count.div_ceil(LEAST as u64).next_power_of_two().ilog2();
    let first = (0..count).step_by(1 << widest);
    let rest = (0..widest).rev().flat_map(move |power| {
        let step = 1u64 << power;
        (step..count).step_by(2 * step as usize)
    });
    first.chain(rest)
}

/// The starts of the cells, in the order in which they are read.
fn cells(length: u64) -> impl Iterator<Item = u64> {
    let count = MOST.min(length.div_ceil(CELL));
    let stride = match count {
        MOST => length / MOST / BLOCK * BLOCK,
        _ => CELL,
    };
    spread(count).map(move |cell| cell * stride)
}

impl Sample {
    /// Samples a device or file of `length` bytes, which is zero except for `stored`, if that is known. With iodyno's own writes, at most the cells are read that their record has,
    /// and the blocks that it calls foreign.
    ///
    /// # Errors
    /// As pread(2): a block that cannot be read is not considered blank.
    pub(super) fn read(
        device: &File,
        length: u64,
        stored: Option<&[Range<u64>]>,
        own: Option<&Own>,
    ) -> io::Result<Sample> {
        let begun = Instant::now();
        Sample::read_while(device, length, stored, own, &mut || begun.elapsed() < TIME)
    }

    /// [`Sample::read`], with cells beyond the least number while `more` returns true.
    fn read_while(
        device: &File,
        length: u64,
        stored: Option<&[Range<u64>]>,
        own: Option<&Own>,
        more: &mut dyn FnMut() -> bool,
    ) -> io::Result<Sample> {
        // Not more than is asked for; a file of tmpfs ignores it.
        let _ = rustix::fs::fadvise(device, 0, None, Advice::Random);
        let mut reading = Reading {
            device,
            stored,
            buffer: vec![0; CALL as usize],
            sample: Sample {
                length,
                ..Sample::default()
            },
        };
        for window in places::windows(length, BLOCK) {
            reading.look(window)?;
        }
        let most = own.map_or(usize::MAX, |own| own.cells);
        for (index, start) in cells(length).take(most).enumerate() {
            if index >= LEAST && !more() {
                break;
            }
            reading.look(start..start + CELL)?;
            reading.sample.cells += 1;
        }
        if own.is_none() {
            reading.look_at_stored(more)?;
        }
        let mut sample = reading.done();
        if let Some(own) = own {
            let unseen = own
                .foreign
                .iter()
                .filter(|block| !sample.covers(**block * BLOCK));
            let unseen: Vec<u64> = unseen.copied().collect();
            let mut reading = Reading {
                device,
                stored,
                buffer: vec![0; BLOCK as usize],
                sample,
            };
            for block in unseen {
                reading.look(block * BLOCK..(block + 1) * BLOCK)?;
            }
            sample = reading.done();
        }
        for advice in [Advice::DontNeed, Advice::Normal] {
            let _ = rustix::fs::fadvise(device, 0, None, advice);
        }
        Ok(sample)
    }

    /// Number of sampled blocks.
    pub(super) fn len(&self) -> u64 {
        let blocks = |range: &Range<u64>| (range.end - range.start).div_ceil(BLOCK);
        self.looked.iter().map(blocks).sum()
    }

    /// Whether an offset is in a sampled block.
    pub(super) fn covers(&self, offset: u64) -> bool {
        let after = self.looked.partition_point(|range| range.start <= offset);
        after > 0 && offset < self.looked[after - 1].end
    }

    /// The blocks that are neither blank nor equal to iodyno's own content.
    pub(super) fn foreign(&self, own: &Own) -> BTreeSet<u64> {
        let others = self
            .data
            .iter()
            .filter(|(block, content)| own.digests.get(block) != Some(&digest(content)));
        others.map(|(block, _)| *block).collect()
    }

    /// What counts as iodyno's own if it may write to all blocks except the foreign ones.
    pub(super) fn own(&self, foreign: &BTreeSet<u64>) -> Own {
        let own = self
            .data
            .iter()
            .filter(|(block, _)| !foreign.contains(block));
        Own {
            cells: self.cells,
            digests: own
                .map(|(block, content)| (*block, digest(content)))
                .collect(),
            foreign: foreign.clone(),
        }
    }

    /// iodyno's own content after a run. `before` is the sample at its start, in which the blocks of `foreign` were not its
    /// own. One of these became its own if every sector of it changed, or if it equals `own`, the record from before that run.
    pub(super) fn own_after(&self, before: &Sample, foreign: &BTreeSet<u64>, own: &Own) -> Own {
        let still = foreign.iter().copied().filter(|block| {
            let (Some(old), Some(new)) = (before.data.get(block), self.data.get(block)) else {
                // It is blank by now.
                return false;
            };
            let written = old.iter().zip(new).all(|(old, new)| old != new);
            let restored = own.digests.get(block) == Some(&digest(new));
            !written && !restored
        });
        self.own(&still.collect())
    }
}

/// A sample that is being read.
struct Reading<'a> {
    device: &'a File,
    stored: Option<&'a [Range<u64>]>,
    buffer: Vec<u8>,
    sample: Sample,
}

impl Reading<'_> {
    fn done(self) -> Sample {
        Sample {
            looked: places::merged(self.sample.looked),
            ..self.sample
        }
    }

    /// Samples a range that begins at a block.
    fn look(&mut self, range: Range<u64>) -> io::Result<()> {
        let range = range.start..range.end.min(self.sample.length);
        let Some(stored) = self.stored else {
            self.read(range.clone())?;
            self.sample.looked.push(range);
            return Ok(());
        };
        let first = stored.partition_point(|part| part.end <= range.start);
        for part in &stored[first..] {
            if part.start >= range.end {
                break;
            }
            let start = part.start.max(range.start) / BLOCK * BLOCK;
            self.read(start..part.end.min(range.end))?;
        }
        self.sample.looked.push(range);
        Ok(())
    }

    fn read(&mut self, range: Range<u64>) -> io::Result<()> {
        for at in range.clone().step_by(self.buffer.len()) {
            let length = (range.end - at).min(self.buffer.len() as u64);
            let bytes = &mut self.buffer[..length as usize];
            self.device.read_exact_at(bytes, at)?;
            let blocks = bytes.chunks(BLOCK as usize).zip(at / BLOCK..);
            let data = blocks.filter(|(bytes, _)| **bytes != ZEROS[..bytes.len()]);
            let data = data.map(|(bytes, block)| (block, content(bytes)));
            self.sample.data.extend(data);
        }
        Ok(())
    }

    /// Samples the beginnings of what the file below the device stores.
    fn look_at_stored(&mut self, more: &mut dyn FnMut() -> bool) -> io::Result<()> {
        let stored = self.stored.unwrap_or_default();
        for (number, part) in spread(stored.len() as u64).enumerate() {
            if number >= LEAST && !more() {
                break;
            }
            let start = stored[part as usize].start / BLOCK * BLOCK;
            self.look(start..start + CELL)?;
        }
        Ok(())
    }
}

fn content(block: &[u8]) -> Content {
    let mut content = [0; SECTORS];
    for (digest, sector) in content.iter_mut().zip(block.chunks(SECTOR)) {
        *digest = xxh3_64(sector);
    }
    content
}

fn digest(content: &Content) -> u64 {
    xxh3_64(&content.map(u64::to_le_bytes).concat())
}

#[cfg(test)]
#[path = "content_tests.rs"]
mod destroyed;

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// A file of zeroes with some bytes set.
    fn file(length: u64, marks: &[(u64, &[u8])]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(length).unwrap();
        for (offset, bytes) in marks {
            file.write_all_at(bytes, *offset).unwrap();
        }
        file
    }

    /// All cells of it.
    fn sample(length: u64, marks: &[(u64, &[u8])]) -> Sample {
        Sample::read_while(&file(length, marks), length, None, None, &mut || true).unwrap()
    }

    /// The blocks that are not blank, as offsets.
    fn found(length: u64, marks: &[(u64, &[u8])]) -> Vec<u64> {
        let foreign = sample(length, marks).foreign(&Own::default());
        foreign.into_iter().map(|block| block * BLOCK).collect()
    }

    #[test]
    fn each_cell_is_read_once_and_the_first_ones_are_far_apart() {
        for count in [0, 1, 127, 128, 129, 1000, 12_345, MOST] {
            let order: Vec<u64> = spread(count).collect();
            let once: BTreeSet<u64> = order.iter().copied().collect();
            assert_eq!((order.len() as u64, once.len() as u64), (count, count));
            assert!(once.iter().copied().eq(0..count));
            let mut first: Vec<u64> = order.into_iter().take(LEAST).collect();
            first.push(count);
            first.sort_unstable();
            let widest = first.windows(2).map(|pair| pair[1] - pair[0]).max();
            assert!(
                widest.is_none_or(|gap| gap <= count / 64 + 1),
                "{count}: {widest:?}"
            );
        }
        let starts: BTreeSet<u64> = cells(16 << 40).collect();
        assert!(starts.into_iter().eq((0..MOST).map(|cell| cell << 30)));
    }

    #[test]
    fn a_device_up_to_a_gibibyte_is_read_completely() {
        for length in [1, 4096, 4097, 40 * MIB + 512, 300 * MIB] {
            let sample = sample(length, &[]);
            assert_eq!(sample.len(), length.div_ceil(BLOCK), "{length}");
            assert!(sample.data.is_empty());
        }
        for at in [0, 20 * MIB + 4095, 40 * MIB, 64 * MIB - 1] {
            assert_eq!(found(64 * MIB, &[(at, b"x")]), [at / BLOCK * BLOCK], "{at}");
        }
    }

    #[test]
    fn only_zeros_are_blank() {
        let ones = vec![0xff; 3 * MIB as usize];
        assert_eq!(found(3 * MIB, &[(0, &ones)]).len(), 768);
        assert_eq!(found(3 * MIB, &[(4096, &ones[..4096])]), [4096]);
    }

    #[test]
    fn without_time_the_usual_places_and_the_first_cells_are_still_read() {
        let length = 400 << 30;
        let cell = cells(length).nth(LEAST - 1).unwrap();
        let late = cells(length).nth(LEAST).unwrap();
        for (at, seen) in [
            (MIB, true),
            (129 * MIB, true),
            (128 * MIB + MIB, true),
            (cell, true),
            (late, false),
            (length - MIB, true),
        ] {
            let file = file(length, &[(at, b"x")]);
            let sample = Sample::read_while(&file, length, None, None, &mut || false).unwrap();
            assert_eq!(sample.cells, LEAST);
            assert_eq!(!sample.data.is_empty(), seen, "{at}");
            assert_eq!(sample.covers(at), seen, "{at}");
        }
    }

    #[test]
    fn no_more_cells_are_read_than_the_record_has() {
        let length = 400 << 30;
        let late = cells(length).nth(LEAST).unwrap();
        let file = file(length, &[(late, b"x")]);
        let read =
            |own: &Own| Sample::read_while(&file, length, None, Some(own), &mut || true).unwrap();
        let own = Own {
            cells: LEAST,
            ..Own::default()
        };
        assert!(read(&own).data.is_empty());
        // A block that the record calls foreign is read wherever it is.
        let foreign = BTreeSet::from([late / BLOCK]);
        let own = Own {
            foreign: foreign.clone(),
            ..own
        };
        assert_eq!(read(&own).foreign(&own), foreign);
    }

    #[test]
    fn what_a_file_stores_is_found_and_its_holes_are_not_read() {
        let length = 400 << 30;
        let at = [7_777_777_777, 55_555_555_555, 399_999_999_999u64];
        // More than the file has: only what is said to be stored is read.
        let file = file(
            length,
            &[(0, b"x"), (at[0], b"x"), (at[1], b"x"), (at[2], b"x")],
        );
        let stored: Vec<Range<u64>> = at.iter().map(|at| *at..at + 1).collect();
        let read = |own| Sample::read_while(&file, length, Some(&stored), own, &mut || true);
        let found = read(None).unwrap().foreign(&Own::default());
        assert!(found.into_iter().eq(at.map(|at| at / BLOCK)));
        // With a record, as many blocks as its sample has.
        let own = Own {
            cells: LEAST,
            ..Own::default()
        };
        assert!(read(Some(&own)).unwrap().data.is_empty());
    }

    #[test]
    fn own_content_is_recognised_until_others_change_it() {
        let (blank, ours) = (sample(MIB, &[]), sample(MIB, &[(8192, &[7; 4096])]));
        let none = BTreeSet::new();
        let own = ours.own_after(&blank, &none, &Own::default());
        assert!(ours.foreign(&own).is_empty());
        assert!(blank.foreign(&own).is_empty());
        let others = sample(MIB, &[(8192, &[7; 4096]), (1080, b"\x53\xef")]);
        assert_eq!(others.foreign(&own), [0].into());
        let changed = sample(MIB, &[(8192, &[7; 4095])]);
        assert_eq!(changed.foreign(&own), [2].into());
        // iodyno writes the same bytes again over data of others.
        let again = ours.own_after(&changed, &[2].into(), &own);
        assert!(ours.foreign(&again).is_empty());
        assert!(again.foreign.is_empty());
    }

    #[test]
    fn a_foreign_block_becomes_own_only_if_all_its_sectors_were_written() {
        let mixed: Vec<u8> = (0..8192u32).map(|i| (i % 251) as u8).collect();
        let before = sample(MIB, &[(0, &mixed)]);
        let foreign = before.foreign(&Own::default());
        assert_eq!(foreign, [0, 1].into());
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
            let own = after.own_after(&before, &foreign, &Own::default());
            let still_foreign: BTreeSet<u64> = still_foreign.iter().copied().collect();
            assert_eq!(after.foreign(&own), still_foreign, "{written}");
            assert_eq!(own.foreign, still_foreign, "{written}");
        }
    }

    #[test]
    fn unreadable_blocks_are_an_error() {
        let file = file(4096, &[]);
        assert!(Sample::read(&file, 8192, None, None).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn blocks_lie_within_the_length_and_do_not_overlap(length in 0u64..1 << 62) {
            let starts: BTreeSet<u64> = cells(length).collect();
            let starts: Vec<u64> = starts.into_iter().collect();
            prop_assert!(starts.iter().all(|start| *start < length && start % BLOCK == 0));
            prop_assert!(starts.windows(2).all(|pair| pair[0] + CELL <= pair[1]));
        }

        #[test]
        fn a_sample_has_the_blocks_of_the_file(length in 1usize..3 << 20, seed in any::<u8>()) {
            let mut bytes: Vec<u8> = (0..=u8::MAX).cycle().take(length).collect();
            bytes[length / 2] ^= seed;
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&bytes).unwrap();
            let sample = Sample::read(&file, length as u64, None, None).unwrap();
            prop_assert_eq!(sample.data.len(), length.div_ceil(BLOCK as usize) - usize::from(length % 4096 == 1));
            for (block, found) in &sample.data {
                let from = *block as usize * BLOCK as usize;
                prop_assert_eq!(found, &content(&bytes[from..(from + 4096).min(length)]));
            }
        }
    }
}
