//! Draws offsets within the region of one file.

use iodyno_model::{Access, Direction, Distribution, Extent, MixSequence, Order, Sequencer};
use rand::{Rng, RngExt};

use super::block_map::BlockMap;
use super::blocks::BlockDraw;
use super::precondition::PreconditionDraw;
use super::zoned::ZonedRegion;

/// Strided zones: `size` bytes are processed within the `range` of each zone; the next zone begins `range + skip` after
/// it.
#[derive(Debug)]
struct Zones {
    size: u64,
    range: u64,
    skip: u64,
    start: u64,
    done: u64,
    /// Whether a sequential op beyond the end of the region restarts its zone instead of ending the pass.
    wraps: bool,
}

/// The index of a direction in arrays for reads, writes and trims. `None`: a sync or a file operation has no offset.
fn place(direction: Direction) -> Option<usize> {
    match direction {
        Direction::Read | Direction::Write | Direction::Trim => Some(direction as usize),
        _ => None,
    }
}

/// The region of one file, and the position of each direction in it.
#[derive(Debug)]
pub(super) struct Region {
    base: u64,
    length: u64,
    /// Alignment of offsets, by direction, bytes.
    units: [u64; 3],
    draws: [BlockDraw; 3],
    percent_random: [u32; 3],
    cursors: [u64; 3],
    /// The last drawn offset, and the number of ops before the next draw (`rw=randread:N`).
    held: [(u64, u32); 3],
    sequence: Option<MixSequence>,
    sequencer: Sequencer,
    zones: Option<Zones>,
    /// Directions in which every op is random and fits, so that no other check is needed.
    simple: [bool; 3],
    /// With one random map for all directions (as in fio), only this draw is used.
    shared_map: bool,
    /// Zones that are written from start to end.
    zoned: Option<ZonedRegion>,
    /// The random map of all directions if the lengths of ops differ.
    map: Option<BlockMap>,
    precondition: Option<PreconditionDraw>,
    /// Whether a pass over the region began since this was last asked. As in fio, strided zones, ops with gaps and
    /// draws without a map have no passes after the first.
    new_pass: bool,
}

impl Region {
    /// The region of `length` bytes that begins at `base`.
    pub(super) fn new(
        access: &Access,
        (extent, time_based): (&Extent, bool),
        (base, length): (u64, u64),
        random: &mut impl Rng,
    ) -> Region {
        let directions = [Direction::Read, Direction::Write, Direction::Trim];
        let unit = |direction: Direction| {
            let align = access.block_align.get(direction).copied().unwrap_or(0);
            let smallest = access
                .block_sizes
                .get(direction)
                .map_or(1, |sizes| sizes.min());
            if align > 0 { align } else { smallest.max(1) }
        };
        let units = directions.map(unit);
        let zones = (extent.zone_size > 0).then_some(Zones {
            size: extent.zone_size,
            range: if extent.zone_range > 0 {
                extent.zone_range
            } else {
                extent.zone_size
            },
            skip: extent.zone_skip,
            start: 0,
            done: 0,
            wraps: time_based,
        });
        let reach = zones
            .as_ref()
            .map_or(length, |zones| zones.range.min(length));
        // Blocks of different sizes overlap: a map of them takes memory.
        let fixed = |direction| {
            let sizes = access.block_sizes.get(direction);
            sizes.is_some_and(|sizes| sizes.min() == sizes.max())
        };
        let issued: Vec<Direction> = access.directions().collect();
        let map = access.random_map && issued.iter().all(|direction| fixed(*direction));
        let laws = directions.map(|direction| {
            access
                .distribution
                .get(direction)
                .unwrap_or(&Distribution::Uniform)
        });
        let alike = issued.windows(2).all(|pair| unit(pair[0]) == unit(pair[1]));
        let uniform = issued
            .iter()
            .all(|d| *laws[*d as usize] == Distribution::Uniform);
        let draws = std::array::from_fn(|index| {
            BlockDraw::new(
                (laws[index], access.center),
                map,
                (reach / units[index], units[index]),
                random,
            )
        });
        let percent_random = directions.map(|direction| match access.order {
            Order::Sequential => 0,
            Order::Random => access.percent_random.get(direction).copied().unwrap_or(100),
        });
        let zoned = extent
            .write_zones
            .map(|rule| ZonedRegion::new(rule, length));
        let precondition = access.precondition.map(|rule| {
            let unit = unit(Direction::Write);
            PreconditionDraw::new(rule, (length / unit, unit), random)
        });
        let plain = access.sequence.is_none()
            && zones.is_none()
            && zoned.is_none()
            && precondition.is_none();
        let simple = directions.map(|direction| {
            let largest = access
                .block_sizes
                .get(direction)
                .map_or(0, |sizes| sizes.max());
            let index = direction as usize;
            plain && percent_random[index] == 100 && largest <= units[index].min(length)
        });
        let shared_map = map && alike && uniform && issued.len() > 1;
        let all_random = issued.iter().all(|d| percent_random[*d as usize] == 100);
        let by_block = access.random_map && !map && plain && alike && all_random;
        let unit_of_all = issued.first().map_or(1, |direction| unit(*direction));
        let map = (by_block && uniform).then(|| BlockMap::new(length / unit_of_all));
        Region {
            base,
            length,
            simple,
            units,
            draws,
            percent_random,
            cursors: [0; 3],
            held: [(0, 0); 3],
            sequence: access.sequence,
            sequencer: access.sequencer,
            zones,
            shared_map,
            zoned,
            map: map.flatten(),
            precondition,
            new_pass: true,
        }
    }

    /// Whether a pass over the region begins with the op that was drawn last.
    #[inline(always)]
    pub(super) fn begins_pass(&mut self) -> bool {
        std::mem::take(&mut self.new_pass)
    }

    /// Initializes the contents of a device's zones, bytes of each.
    pub(super) fn contains(&mut self, written: &[u64]) {
        if let Some(zones) = &mut self.zoned {
            zones.contains(written);
        }
    }

    /// Length of the region, bytes.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// The offset in the file of the next op of this direction and length, and its possible length: as in fio, an op
    /// that would overlap used blocks of the random map ends before them. A length of 0: no data can be read, the pass
    /// has ended, or ops of this direction have no offset.
    #[inline]
    pub(super) fn next(
        &mut self,
        direction: Direction,
        length: u64,
        random: &mut impl Rng,
    ) -> (u64, u64) {
        let Some(index) = place(direction) else {
            return (0, 0);
        };
        if self.simple[index] {
            let draw = if self.shared_map { 0 } else { index };
            let offset = self.base + self.draws[draw].next(random) * self.units[index];
            self.new_pass |= self.draws[draw].begins_pass();
            return (offset, length);
        }
        if let Some(map) = &mut self.map {
            let unit = self.units[index];
            self.new_pass |= map.is_full();
            let (first, blocks) = map.take(length.div_ceil(unit), random);
            return (self.base + first * unit, length.min(blocks * unit));
        }
        if let Some(draw) = &mut self.precondition {
            let block = draw.next(random);
            let offset = block.map(|block| self.base + block * self.units[index]);
            return offset.map_or((0, 0), |offset| (offset, length));
        }
        if self.zones.is_some() {
            let offset = self.next_in_zones(index, length, random);
            return offset.map_or((0, 0), |offset| (offset, length));
        }
        let offset = self.next_of_many(index, length, random);
        match self.zoned.is_some() {
            true => self.in_zone(index, (offset - self.base, length), random),
            false => (offset, length),
        }
    }

    fn in_zone(
        &mut self,
        index: usize,
        (offset, length): (u64, u64),
        random: &mut impl Rng,
    ) -> (u64, u64) {
        let op = (offset, length, self.units[index]);
        let random = (self.percent_random[index] > 0).then_some(random);
        let writes = Some(index) == place(Direction::Write);
        let placed = self
            .zoned
            .as_mut()
            .and_then(|zones| zones.place(writes, op, random));
        let (offset, length) = placed.unwrap_or((0, 0));
        self.cursors[index] = offset + length;
        (self.base + offset, length)
    }

    /// Begins another pass, if passes end before the budget of the job is used up: those of zones do.
    pub(super) fn begin_pass(&mut self) -> bool {
        let Some(zones) = &mut self.zones else {
            return false;
        };
        (zones.start, zones.done) = (0, 0);
        self.cursors = [0; 3];
        true
    }

    fn is_drawn(&self, index: usize, random: &mut impl Rng) -> bool {
        let percent = self.percent_random[index];
        percent == 100 || (percent > 0 && random.random_range(0..100) < percent)
    }

    fn next_of_many(&mut self, index: usize, length: u64, random: &mut impl Rng) -> u64 {
        let within = match self.is_drawn(index, random) {
            true => self.drawn_within(index, length, self.length, random),
            false => self.following(index, length),
        };
        self.cursors[index] = within + length;
        self.base + within
    }

    /// The next offset in strided zones, by fio's rules: a sequential op begins within the zone, and can end beyond it.
    /// `None`: it would end beyond the region.
    fn next_in_zones(&mut self, index: usize, length: u64, random: &mut impl Rng) -> Option<u64> {
        let zones = self.zones.as_mut()?;
        if zones.done >= zones.size {
            zones.done = 0;
            zones.start += zones.range + zones.skip;
            if zones.start >= self.length {
                zones.start = 0;
            }
        }
        if zones.done % zones.range == 0 {
            self.cursors = [0; 3];
        }
        let (start, range) = (zones.start, zones.range);
        let within = if self.is_drawn(index, random) {
            self.drawn_within(index, length, range.min(self.length - start), random)
        } else {
            let gap = match self.sequence {
                Some(MixSequence::Skip(gap)) if self.cursors[index] > 0 => gap,
                _ => 0,
            };
            let within = self.cursors[index].saturating_add_signed(gap);
            let within = if within >= range { 0 } else { within };
            match start + within + length > self.length {
                true if !self.zones.as_ref()?.wraps => return None,
                true => 0,
                false => within,
            }
        };
        self.cursors[index] = within + length;
        if let Some(zones) = &mut self.zones {
            zones.done += length;
        }
        Some(self.base + start + within)
    }

    /// A drawn offset within the first `reach` bytes.
    fn drawn_within(
        &mut self,
        index: usize,
        length: u64,
        reach: u64,
        random: &mut impl Rng,
    ) -> u64 {
        let last = reach.saturating_sub(length);
        match self.drawn(index, length, reach, random) {
            beyond if beyond > last => last - last % self.units[index],
            within => within,
        }
    }

    #[inline]
    fn drawn(&mut self, index: usize, length: u64, reach: u64, random: &mut impl Rng) -> u64 {
        let (last, left) = self.held[index];
        if left > 0 && matches!(self.sequence, Some(MixSequence::Every(_))) {
            let next = match self.sequencer {
                Sequencer::Identical => last,
                Sequencer::Sequential => self.cursors[index],
            };
            // At the end of the region an offset is drawn early, as in fio.
            if next + length <= reach {
                self.held[index].1 -= 1;
                return next;
            }
        }
        let draw = if self.shared_map { 0 } else { index };
        let unit = self.units[index];
        let offset = self.draws[draw].next(random) * unit;
        self.new_pass |= self.draws[draw].begins_pass();
        if let Some(MixSequence::Every(count)) = self.sequence {
            let left = if left > 0 { left } else { count };
            self.held[index] = (offset, left.saturating_sub(1));
        }
        offset
    }

    #[inline]
    fn following(&mut self, index: usize, length: u64) -> u64 {
        let last = self.cursors[index];
        match self.sequence {
            Some(MixSequence::Skip(skip)) if last > 0 => {
                let next = last as i64 + skip;
                let end = self.length.saturating_sub(length) as i64;
                // Before the start, continue a step before the end, as in fio; after the end, continue at the start.
                let next = if next < 0 {
                    self.length as i64 + skip
                } else {
                    next
                };
                if (0..=end).contains(&next) {
                    next as u64
                } else {
                    0
                }
            }
            _ if last + length > self.length => {
                self.new_pass = true;
                0
            }
            _ => last,
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    #[test]
    fn a_sync_has_no_offset_and_does_not_move_the_reads() {
        let access = Access {
            order: Order::Sequential,
            ..Access::default()
        };
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let whole = (&Extent::default(), false);
        let mut region = Region::new(&access, whole, (0, 1 << 20), &mut random);
        assert_eq!(region.next(Direction::Sync, 4096, &mut random), (0, 0));
        let mut read = || region.next(Direction::Read, 4096, &mut random);
        assert_eq!([read(), read()], [(0, 4096), (4096, 4096)]);
    }
}
