//! Detects data on a device from a sample of its blocks.
//!
//! Signatures identify known formats only. The sample detects any data: a device is blank if every sampled block
//! consists of zeros. The sample is both ends and the places where something usually is ([`places`]), always; and
//! cells, the most distant ones first: 64 KiB each, which together are the whole device, up to 1 GiB; and 8 KiB at
//! each multiple of 1 MiB on longer ones, because partitions, volumes and the data of arrays begin there. Which
//! blocks these are depends only on the length of the device and the number of cells, so that two samples can be
//! compared.
//!
//! Of a sparse file below a loop device, holes are not read, and what it stores is read: all of it if it is short,
//! otherwise the beginning of each range.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use iodyno_host::join;
use xxhash_rust::xxh3::xxh3_64;

use crate::medium::{Buffer, Medium};
use crate::places::{self, STRIDE};

/// Length of a sampled block, bytes.
pub(crate) const BLOCK: u64 = 4096;
/// The smallest unit of a write, bytes.
const SECTOR: usize = 512;
const SECTORS: usize = BLOCK as usize / SECTOR;
/// Up to this length, cells are the whole device, bytes.
const SHORT: u64 = 1 << 30;
/// Length of a cell of a short device, bytes.
const PART: u64 = 64 << 10;
/// Length of a cell of a longer device, bytes: up to the superblocks at 4 KiB of md and bcache.
const HEAD: u64 = 8 << 10;
/// The most cells of a device: each MiB of 1 TiB.
const MOST: u64 = 1 << 20;
/// The number of cells that are always read.
const LEAST: usize = 128;
/// The most cells that are read together.
const BATCH: usize = 4096;
/// Up to this length, all that a sparse file stores is read, bytes.
const FEW: u64 = 256 << 20;
/// The most cells that are kept in a record, which is read in each trial.
const RECORDED: usize = 128 << 10;
/// How long further cells are read.
const TIME: Duration = Duration::from_secs(1);
/// How long they are read if nothing was found yet, and nothing is recorded: the device may be overwritten.
pub(crate) const LONG: Duration = Duration::from_secs(10);
/// The most that is read with one call, bytes.
const CALL: u64 = 1 << 20;
/// How many calls are in flight.
const THREADS: usize = 32;

const ZEROS: [u8; BLOCK as usize] = [0; BLOCK as usize];

/// The content of a block: a digest of each of its sectors.
type Content = [u64; SECTORS];

/// iodyno's own writes to a device, from its record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OwnRecord {
    /// The number of cells that were sampled.
    pub(crate) cells: usize,
    /// Whether all that a file stores was sampled.
    pub(crate) stored: bool,
    /// Digests of the blocks that iodyno wrote, by the number of the block. Blank blocks have none.
    pub(crate) digests: BTreeMap<u64, u64>,
    /// Sampled blocks that were not blank and that iodyno did not write.
    pub(crate) foreign: BTreeSet<u64>,
}

/// The sampled blocks of a device.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) length: u64,
    /// The number of cells that were read.
    pub(crate) cells: usize,
    /// Whether all that a file stores was read.
    stored: bool,
    /// What was looked at, in order, bytes.
    looked: Vec<Range<u64>>,
    /// The blocks that are not blank, by their number.
    data: BTreeMap<u64, Content>,
}

/// Numbers from 0 to `count`, the most distant ones first: the multiples of a power of two, then those in between,
/// and so on.
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

/// The number of cells of a device, and how many places for one there are: more than cells on devices longer than 1
/// TiB.
pub(crate) fn counts(length: u64) -> (u64, u64) {
    if length <= SHORT {
        let parts = length.div_ceil(PART);
        return (parts, parts);
    }
    let (multiples, cylinders) = (length.div_ceil(STRIDE), cylinders(length));
    let chosen = multiples.div_ceil(multiples.div_ceil(MOST));
    (chosen + cylinders, multiples + cylinders)
}

/// The number of cylinders at which a partition of a DOS table can begin. Each is read.
fn cylinders(length: u64) -> u64 {
    length.min(places::DOS).div_ceil(places::CYLINDER)
}

/// The cells, in the order in which they are read. One of several places is chosen by a hash, so that it does not
/// follow the layout of the device.
fn cells(length: u64) -> Box<dyn Iterator<Item = Range<u64>>> {
    if length <= SHORT {
        let parts = spread(length.div_ceil(PART)).map(|part| part * PART);
        return Box::new(parts.map(|start| start..start + PART));
    }
    let multiples = length.div_ceil(STRIDE);
    let each = multiples.div_ceil(MOST);
    let chosen = spread(multiples.div_ceil(each)).map(move |cell| {
        let first = cell * each;
        let chosen = xxh3_64(&cell.to_le_bytes()) % each.min(multiples - first);
        let start = (first + chosen) * STRIDE;
        start..start + HEAD
    });
    let cylinders = spread(cylinders(length)).map(|cylinder| {
        let start = cylinder * places::CYLINDER;
        start / BLOCK * BLOCK..start + places::TRACK + HEAD
    });
    let cylinders = cylinders.map(|range| range.start..range.end.next_multiple_of(BLOCK));
    Box::new(chosen.chain(cylinders))
}

impl Sample {
    /// Samples a device or file of `length` bytes, which is zero except for `stored`, if that is known. With iodyno's
    /// own writes, at most the cells are read that their record has, and the blocks that it calls foreign.
    ///
    /// # Errors
    /// As pread(2): a block that cannot be read is not considered blank.
    pub(crate) fn read(
        device: &Medium,
        length: u64,
        stored: Option<&[Range<u64>]>,
        own: Option<&OwnRecord>,
    ) -> io::Result<Sample> {
        let begun = Instant::now();
        let mut more = |limit| begun.elapsed() < limit;
        Sample::read_while(device, length, stored, own, &mut more)
    }

    /// [`Sample::read`], with cells beyond the least number while `more` returns true, for how long they are read at
    /// most.
    pub(crate) fn read_while(
        device: &Medium,
        length: u64,
        stored: Option<&[Range<u64>]>,
        own: Option<&OwnRecord>,
        more: &mut dyn FnMut(Duration) -> bool,
    ) -> io::Result<Sample> {
        let sample = Sample {
            length,
            ..Sample::default()
        };
        let mut reading = Reading {
            device,
            stored,
            sample,
        };
        reading.look(places::windows(length, BLOCK))?;
        reading.look_at_stored(own)?;
        let mut cells = cells(length);
        loop {
            let blank = own.is_none() && reading.sample.data.is_empty();
            let done = reading.sample.cells;
            let most = match own {
                _ if blank => usize::MAX,
                Some(own) => own.cells,
                None => RECORDED,
            };
            let limit = if blank { LONG } else { TIME };
            if done >= LEAST && !more(limit) {
                break;
            }
            // As many as before, so that a slow device is not read for long after the limit.
            let next = done.clamp(LEAST, BATCH).min(most.saturating_sub(done));
            let batch: Vec<_> = cells.by_ref().take(next).collect();
            if batch.is_empty() {
                break;
            }
            reading.sample.cells += batch.len();
            reading.look(batch)?;
        }
        reading.merge();
        if let Some(own) = own {
            let unseen = own.foreign.iter().map(|block| block * BLOCK);
            let unseen = unseen.filter(|start| !reading.sample.covers(*start));
            reading.look(unseen.map(|start| start..start + BLOCK).collect())?;
            reading.merge();
        }
        Ok(reading.sample)
    }

    /// Whether all cells were read.
    pub(crate) fn is_complete(&self) -> bool {
        self.cells as u64 == counts(self.length).0
    }

    /// What was looked at, for a message.
    pub(crate) fn describe(&self) -> String {
        let (_, places) = counts(self.length);
        let cells = self.cells;
        match self.length > SHORT {
            false if self.is_complete() => "all of it".to_owned(),
            false => format!("both ends, usual places, and {cells} of {places} parts of 64 KiB"),
            true => format!(
                "both ends, the usual places of partitions and file systems, \
                 and {cells} of {places} multiples of 1 MiB and of cylinders"
            ),
        }
    }

    /// Number of sampled blocks.
    pub(crate) fn len(&self) -> u64 {
        let blocks = |range: &Range<u64>| (range.end - range.start).div_ceil(BLOCK);
        self.looked.iter().map(blocks).sum()
    }

    /// Whether an offset is in a sampled block.
    pub(crate) fn covers(&self, offset: u64) -> bool {
        let after = self.looked.partition_point(|range| range.start <= offset);
        after > 0 && offset < self.looked[after - 1].end
    }

    /// The blocks that are neither blank nor equal to iodyno's own content.
    pub(crate) fn foreign(&self, own: &OwnRecord) -> BTreeSet<u64> {
        let others = self
            .data
            .iter()
            .filter(|(block, content)| own.digests.get(block) != Some(&digest(content)));
        others.map(|(block, _)| *block).collect()
    }

    /// What counts as iodyno's own if it may write to all blocks except the foreign ones.
    pub(crate) fn own(&self, foreign: &BTreeSet<u64>) -> OwnRecord {
        let own = self
            .data
            .iter()
            .filter(|(block, _)| !foreign.contains(block));
        OwnRecord {
            cells: self.cells.min(RECORDED),
            stored: self.stored,
            digests: own
                .map(|(block, content)| (*block, digest(content)))
                .collect(),
            foreign: foreign.clone(),
        }
    }

    /// The blocks outside of the ranges that iodyno may write that are neither blank nor the `same` as before.
    pub(crate) fn changed_outside<'a>(
        &'a self,
        writes: &'a [Range<u64>],
        same: impl Fn(&u64, &Content) -> bool + 'a,
    ) -> impl Iterator<Item = u64> + 'a {
        let blocks = self.data.iter();
        let others = blocks.filter(move |(block, _)| !touches(writes, **block));
        let changed = others.filter(move |(block, content)| !same(block, content));
        changed.map(|(block, _)| *block)
    }

    /// iodyno's own content after a run that wrote in some ranges. `before` is the sample at its start, in which the
    /// blocks of `foreign` were not its own. One of these became its own if every sector of it changed, or if it equals
    /// `own`, the record from before that run. Others wrote what changed outside of the ranges.
    pub(crate) fn own_after(
        &self,
        before: &Sample,
        foreign: &BTreeSet<u64>,
        own: &OwnRecord,
        writes: &[Range<u64>],
    ) -> OwnRecord {
        let recorded = |block: &u64, now: &Content| own.digests.get(block) == Some(&digest(now));
        let still = foreign.iter().copied().filter(|block| {
            let (Some(old), Some(new)) = (before.data.get(block), self.data.get(block)) else {
                // It is blank by now.
                return false;
            };
            let written = old.iter().zip(new).all(|(old, new)| old != new);
            !written && !recorded(block, new)
        });
        let others = self.changed_outside(writes, |block, now| {
            before.data.get(block) == Some(now) || recorded(block, now)
        });
        self.own(&still.chain(others).collect())
    }
}

/// A sample that is being read.
struct Reading<'a> {
    device: &'a Medium,
    stored: Option<&'a [Range<u64>]>,
    sample: Sample,
}

impl Reading<'_> {
    /// Samples ranges that begin at a block, many of them at once.
    fn look(&mut self, ranges: Vec<Range<u64>>) -> io::Result<()> {
        let length = self.sample.length;
        let within = |range: Range<u64>| range.start..range.end.min(length);
        let ranges: Vec<Range<u64>> = ranges.into_iter().map(within).collect();
        let calls: Vec<Range<u64>> = (ranges.iter())
            .flat_map(|range| self.not_holes(range))
            .flat_map(|range| {
                let starts = range.clone().step_by(CALL as usize);
                starts.map(move |start| start..range.end.min(start + CALL))
            })
            .collect();
        let next = AtomicUsize::new(0);
        let device = self.device;
        let work = || {
            let longest = calls.iter().map(|call| call.end - call.start).max();
            let mut buffer = Buffer::new(longest.unwrap_or(0) as usize);
            let mut data = Vec::new();
            while let Some(call) = calls.get(next.fetch_add(1, Ordering::Relaxed)) {
                let bytes = buffer.bytes((call.end - call.start) as usize);
                device.read_aligned(bytes, call.start)?;
                let blocks = bytes.chunks(BLOCK as usize).zip(call.start / BLOCK..);
                let blocks = blocks.filter(|(bytes, _)| **bytes != ZEROS[..bytes.len()]);
                data.extend(blocks.map(|(bytes, block)| (block, content(bytes))));
            }
            Ok(data)
        };
        let found: io::Result<Vec<_>> = thread::scope(|scope| {
            let others = THREADS.min(calls.len()).saturating_sub(1);
            let others: Vec<_> = (0..others)
                .filter_map(|_| thread::Builder::new().spawn_scoped(scope, work).ok())
                .collect();
            let mut found = vec![work()];
            found.extend(others.into_iter().map(join));
            found.into_iter().collect()
        });
        self.sample.data.extend(found?.into_iter().flatten());
        self.sample.looked.extend(ranges);
        Ok(())
    }

    fn merge(&mut self) {
        let looked = std::mem::take(&mut self.sample.looked);
        self.sample.looked = places::merged(looked);
    }

    /// The parts of a range that have to be read.
    fn not_holes(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let Some(stored) = self.stored else {
            return vec![range.clone()];
        };
        let first = stored.partition_point(|part| part.end <= range.start);
        let parts = stored[first..]
            .iter()
            .take_while(|part| part.start < range.end);
        let parts = parts.map(|part| {
            let start = part.start.max(range.start) / BLOCK * BLOCK;
            start
                ..part
                    .end
                    .min(range.end)
                    .next_multiple_of(BLOCK)
                    .min(range.end)
        });
        places::merged(parts.collect())
    }

    /// Samples what the file below the device stores. With a record, it is all or nothing, as it was then.
    fn look_at_stored(&mut self, own: Option<&OwnRecord>) -> io::Result<()> {
        let Some(stored) = self.stored else {
            return Ok(());
        };
        let bytes: u64 = stored.iter().map(|part| part.end - part.start).sum();
        let from = |part: &Range<u64>, most| {
            let start = part.start / BLOCK * BLOCK;
            let end = part.end.next_multiple_of(BLOCK);
            start..end.min(start.saturating_add(most))
        };
        match own {
            Some(own) if !own.stored => return Ok(()),
            _ if bytes <= FEW => self.sample.stored = true,
            _ => {}
        }
        let most = if self.sample.stored { u64::MAX } else { HEAD };
        self.look(stored.iter().map(|part| from(part, most)).collect())
    }
}

/// Whether a block overlaps one of these ranges, which are in order and do not overlap.
fn touches(ranges: &[Range<u64>], block: u64) -> bool {
    let start = block * BLOCK;
    let next = ranges.partition_point(|range| range.end <= start);
    ranges
        .get(next)
        .is_some_and(|range| range.start < start + BLOCK)
}

fn content(block: &[u8]) -> Content {
    let mut content = [0; SECTORS];
    for (digest, sector) in content.iter_mut().zip(block.chunks(SECTOR)) {
        *digest = xxh3_64(sector);
    }
    content
}

pub(crate) fn digest(content: &Content) -> u64 {
    xxh3_64(&content.map(u64::to_le_bytes).concat())
}

#[cfg(test)]
#[path = "content_tests.rs"]
mod destroyed;

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::FileExt;

    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// A file of zeroes with some bytes set.
    fn file(length: u64, marks: &[(u64, &[u8])]) -> Medium {
        let file = tempfile::tempfile().unwrap();
        file.set_len(length).unwrap();
        for (offset, bytes) in marks {
            file.write_all_at(bytes, *offset).unwrap();
        }
        Medium::cached(file)
    }

    /// All cells of it.
    fn sample(length: u64, marks: &[(u64, &[u8])]) -> Sample {
        Sample::read_while(&file(length, marks), length, None, None, &mut |_| true).unwrap()
    }

    /// The blocks that are not blank, as offsets.
    fn found(length: u64, marks: &[(u64, &[u8])]) -> Vec<u64> {
        let foreign = sample(length, marks).foreign(&OwnRecord::default());
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
        let starts = |length: u64, count: u64| {
            let cells = cells(length).map(|cell| cell.start);
            cells.take(count as usize).collect::<BTreeSet<u64>>()
        };
        // Each MiB of 1 TiB, and one MiB of three of a longer device.
        let all = starts(1 << 40, MOST).into_iter();
        assert!(all.eq((0..MOST).map(|cell| cell * MIB)));
        let count = (5 << 39) / MIB / 3 + 1;
        let thirds = starts(5 << 39, count).into_iter();
        let thirds = thirds.map(|start| (start / MIB / 3, start % MIB));
        assert!(thirds.eq((0..count).map(|cell| (cell, 0))));
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
        let cell = cells(length).nth(LEAST - 1).unwrap().start;
        let late = cells(length).nth(LEAST).unwrap().start;
        for (at, seen) in [
            (MIB, true),
            (129 * MIB, true),
            (128 * MIB + MIB, true),
            (cell, true),
            (late, false),
            (length - MIB, true),
        ] {
            let file = file(length, &[(at, b"x")]);
            let sample = Sample::read_while(&file, length, None, None, &mut |_| false).unwrap();
            assert!(sample.cells == LEAST && !sample.is_complete());
            assert_eq!(!sample.data.is_empty(), seen, "{at}");
            assert_eq!(sample.covers(at), seen, "{at}");
        }
    }

    #[test]
    fn no_more_cells_are_read_than_the_record_has() {
        let length = 400 << 30;
        let late = cells(length).nth(LEAST).unwrap().start;
        let file = file(length, &[(late, b"x")]);
        let read = |own: &OwnRecord| {
            Sample::read_while(&file, length, None, Some(own), &mut |_| true).unwrap()
        };
        let own = OwnRecord {
            cells: LEAST,
            ..OwnRecord::default()
        };
        assert!(read(&own).data.is_empty());
        // A block that the record calls foreign is read wherever it is.
        let foreign = BTreeSet::from([late / BLOCK]);
        let own = OwnRecord {
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
        let stored_ranges: Vec<Range<u64>> = at.iter().map(|at| *at..at + 1).collect();
        let found = Sample::read_while(&file, length, Some(&stored_ranges), None, &mut |_| true);
        let found = found.unwrap().foreign(&OwnRecord::default());
        assert!(found.into_iter().eq(at.map(|at| at / BLOCK)));
        // With a record, what its sample has.
        for stored in [false, true] {
            let own = OwnRecord {
                cells: LEAST,
                stored,
                ..OwnRecord::default()
            };
            let found =
                Sample::read_while(&file, length, Some(&stored_ranges), Some(&own), &mut |_| {
                    true
                });
            let found = found.unwrap().data.len();
            assert_eq!(found, if stored { at.len() } else { 0 });
        }
    }

    #[test]
    fn cells_of_a_blank_device_are_read_for_longer_and_those_of_a_record_are_limited() {
        let length = 150 << 30;
        let read = |marks: &[(u64, &[u8])], own: Option<&OwnRecord>| {
            let mut limits = BTreeSet::new();
            let mut more = |limit| {
                limits.insert(limit);
                true
            };
            let device = file(length, marks);
            let sample = Sample::read_while(&device, length, None, own, &mut more).unwrap();
            (sample.is_complete(), sample.cells, limits)
        };
        let all = counts(length).0 as usize;
        assert_eq!(read(&[], None), (true, all, [LONG].into()));
        assert_eq!(read(&[(0, b"x")], None), (false, RECORDED, [TIME].into()));
        let own = OwnRecord {
            cells: RECORDED,
            ..OwnRecord::default()
        };
        assert_eq!(read(&[], Some(&own)), (false, RECORDED, [TIME].into()));
    }

    #[test]
    fn own_content_is_recognised_until_others_change_it() {
        let (blank, ours) = (sample(MIB, &[]), sample(MIB, &[(8192, &[7; 4096])]));
        let none = BTreeSet::new();
        let all = [Range {
            start: 0,
            end: u64::MAX,
        }];
        let own = ours.own_after(&blank, &none, &OwnRecord::default(), &all);
        assert!(ours.foreign(&own).is_empty());
        assert!(blank.foreign(&own).is_empty());
        let others = sample(MIB, &[(8192, &[7; 4096]), (1080, b"\x53\xef")]);
        assert_eq!(others.foreign(&own), [0].into());
        let changed = sample(MIB, &[(8192, &[7; 4095])]);
        assert_eq!(changed.foreign(&own), [2].into());
        // iodyno writes the same bytes again over data of others.
        let again = ours.own_after(&changed, &[2].into(), &own, &all);
        assert!(ours.foreign(&again).is_empty());
        assert!(again.foreign.is_empty());
    }

    #[test]
    fn what_changes_outside_of_the_ranges_that_are_written_is_of_others() {
        let before = sample(MIB, &[(0, &[1; 8192])]);
        let own = before.own(&BTreeSet::new());
        // Blocks 1 and 4 were written in part.
        let after = sample(
            MIB,
            &[(0, &[1; 4096]), (5000, &[2; 15_000]), (40_960, b"x")],
        );
        let now = after.own_after(
            &before,
            &BTreeSet::new(),
            &own,
            &[5000..9000, 20_000..20_001],
        );
        assert_eq!(now.foreign, [3, 10].into());
        assert_eq!(after.foreign(&now), [3, 10].into());
        assert!(now.digests.keys().copied().eq([0, 1, 2, 4]));
        // Nothing may be written: what is there is iodyno's own only if it was before.
        let now = after.own_after(&before, &BTreeSet::new(), &own, &[]);
        assert!(now.digests.keys().copied().eq([0]));
    }

    #[test]
    fn a_foreign_block_becomes_own_only_if_all_its_sectors_were_written() {
        let mixed: Vec<u8> = (0..8192u32).map(|i| (i % 251) as u8).collect();
        let before = sample(MIB, &[(0, &mixed)]);
        let foreign = before.foreign(&OwnRecord::default());
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
            let own = after.own_after(
                &before,
                &foreign,
                &OwnRecord::default(),
                &[Range {
                    start: 0,
                    end: u64::MAX,
                }],
            );
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
            let cells: BTreeMap<u64, u64> = cells(length).take(4096).map(|cell| (cell.start, cell.end)).collect();
            let cells: Vec<(u64, u64)> = cells.into_iter().collect();
            prop_assert!(cells.iter().all(|cell| cell.0 < length && cell.0 % BLOCK == 0));
            prop_assert!(cells.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        }

        #[test]
        fn a_sample_has_the_blocks_of_the_file(length in 1usize..3 << 20, seed in any::<u8>()) {
            let mut bytes: Vec<u8> = (0..=u8::MAX).cycle().take(length).collect();
            bytes[length / 2] ^= seed;
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&bytes).unwrap();
            let sample = Sample::read(&Medium::cached(file), length as u64, None, None).unwrap();
            prop_assert_eq!(sample.data.len(), length.div_ceil(BLOCK as usize) - usize::from(length % 4096 == 1));
            for (block, found) in &sample.data {
                let from = *block as usize * BLOCK as usize;
                prop_assert_eq!(found, &content(&bytes[from..(from + 4096).min(length)]));
            }
        }
    }
}
