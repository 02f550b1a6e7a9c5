//! Zones with write pointers, like fio's `zonemode=zbd` on files: each zone is written from its start to its end, and
//! reads stay within written data. Writing a full zone restarts it; on a zoned device, it is reset first.

use iodyno_model::{Direction, WriteZones};
use iodyno_sys::{Op, OpKind, Slot};
use rand::{Rng, RngExt};

use super::Issue;

/// The zones of a region. All are empty at first.
#[derive(Debug)]
pub(super) struct ZonedRegion {
    rule: WriteZones,
    /// Bytes written in each zone.
    written: Vec<u64>,
    /// Zones that are written in part.
    open: Vec<u32>,
}

impl ZonedRegion {
    /// The whole zones of a region of `length` bytes; a region that is shorter is a zone.
    pub(super) fn new(rule: WriteZones, length: u64) -> ZonedRegion {
        let count = (length / rule.size.max(1)).max(1) as usize;
        let rule = WriteZones {
            capacity: rule.capacity.min(length),
            ..rule
        };
        ZonedRegion {
            rule,
            written: vec![0; count],
            open: Vec::with_capacity(count.min(rule.max_open as usize + 1)),
        }
    }

    /// Initializes the contents of zones, bytes of each.
    pub(super) fn contains(&mut self, written: &[u64]) {
        let zones = self.written.iter_mut().zip(written);
        for (number, (own, found)) in zones.enumerate() {
            *own = (*found).min(self.rule.capacity);
            if self.rule.max_open > 0 && (1..self.rule.capacity).contains(own) {
                self.open.push(number as u32);
            }
        }
    }

    /// The offset and length of an op drawn at `offset`: a multiple of `least`, its smallest length. `None`: no written
    /// data can be read.
    pub(super) fn place(
        &mut self,
        writes: bool,
        (offset, length, least): (u64, u64, u64),
        random: Option<&mut impl Rng>,
    ) -> Option<(u64, u64)> {
        match writes {
            true => Some(self.write((offset, length, least), random)),
            false if self.rule.read_beyond => Some((offset, length)),
            false => self.read((offset, length, least), random.is_some()),
        }
    }

    fn zone(&self, offset: u64) -> usize {
        ((offset / self.rule.size) as usize).min(self.written.len() - 1)
    }

    fn start(&self, zone: usize) -> u64 {
        zone as u64 * self.rule.size
    }

    fn write(
        &mut self,
        (offset, length, least): (u64, u64, u64),
        random: Option<&mut impl Rng>,
    ) -> (u64, u64) {
        let mut zone = self.zone(offset);
        let most = self.rule.max_open as usize;
        match random {
            Some(random) => {
                let other = most > 0 && self.open.len() >= most;
                if other && !self.open.contains(&(zone as u32)) {
                    zone = self.open[random.random_range(0..self.open.len())] as usize;
                }
            }
            // A sequential job leaves a full zone, and restarts each zone.
            None if offset - self.start(zone) >= self.rule.capacity => {
                zone = (zone + 1) % self.written.len();
                self.written[zone] = 0;
            }
            None if offset == self.start(zone) => self.written[zone] = 0,
            None => {}
        }
        if self.written[zone] + least > self.rule.capacity {
            self.written[zone] = 0;
        }
        let at = self.start(zone) + self.written[zone];
        let room = self.rule.capacity - self.written[zone];
        let length = length.min(room / least * least);
        self.written[zone] += length;
        let place = self.open.iter().position(|open| *open == zone as u32);
        match (self.written[zone] + least > self.rule.capacity, place) {
            (true, Some(place)) => _ = self.open.swap_remove(place),
            (false, None) if most > 0 => self.open.push(zone as u32),
            _ => {}
        }
        (at, length)
    }

    fn read(&self, (offset, length, least): (u64, u64, u64), random: bool) -> Option<(u64, u64)> {
        let count = self.written.len();
        let first = self.zone(offset);
        let inside = offset - self.start(first);
        let ends = |zone: usize| self.written[zone] / least * least;
        if !random && inside + least <= ends(first) {
            return Some((offset, length.min(ends(first) - inside)));
        }
        // A sequential job is past the data of its zone, and continues with the next.
        let from = if random { first } else { first + 1 };
        let mut zones = (from..from + count).map(|zone| zone % count);
        let zone = zones.find(|zone| ends(*zone) >= least)?;
        let length = length.min(ends(zone));
        let within = match random {
            true => inside % (ends(zone) - length + least) / least * least,
            false => 0,
        };
        Some((self.start(zone) + within, length))
    }
}

/// The contents of zoned devices, for the regions of a clone's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeviceZones {
    /// The zones.
    pub(crate) rule: WriteZones,
    /// For each file, the bytes that are written in each zone of its region.
    pub(crate) written: Vec<Vec<u64>>,
}

/// The order of ops in the zones of devices: a zone with a write in flight has no other op in flight, so that its
/// writes arrive in order, and it is emptied before it is written from its start.
#[derive(Debug)]
pub(super) struct ZoneOrder {
    /// Length of a zone, bytes.
    size: u64,
    /// The start of each file's region.
    bases: Vec<u64>,
    /// Whether each zone of each file contains something.
    used: Vec<Vec<bool>>,
    /// File and zone of the op of each slot, and whether it changes the zone.
    in_flight: Vec<Option<(u32, u64, bool)>>,
    /// The op that waits.
    pub(super) held: Option<Issue>,
}

/// What an op has to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ZoneTurn {
    Now,
    /// The end of an op in flight.
    Wait,
    /// This op.
    After(Op),
}

impl ZoneOrder {
    pub(super) fn new(zones: &DeviceZones, bases: Vec<u64>, depth: u32) -> ZoneOrder {
        let used = zones.written.iter();
        let used = used.map(|zones| zones.iter().map(|written| *written > 0).collect());
        ZoneOrder {
            size: zones.rule.size,
            bases,
            used: used.collect(),
            in_flight: vec![None; depth.max(1) as usize],
            held: None,
        }
    }

    /// Whether an op can be issued in this slot. Marks it, or the op that must precede it, as in flight.
    pub(super) fn turn(&mut self, slot: Slot, op: &Op) -> ZoneTurn {
        let base = self.bases[op.file as usize];
        let zone = op.offset.saturating_sub(base) / self.size;
        let writes = op.kind == OpKind::Write;
        let meets =
            |other: &(u32, u64, bool)| (other.0, other.1) == (op.file, zone) && (writes || other.2);
        if self.in_flight.iter().flatten().any(meets) {
            return ZoneTurn::Wait;
        }
        self.in_flight[slot as usize] = Some((op.file, zone, writes));
        let start = base + zone * self.size;
        let used = self.used[op.file as usize].get_mut(zone as usize);
        let Some(used) = used.filter(|_| writes) else {
            return ZoneTurn::Now;
        };
        if op.offset == start && std::mem::replace(used, false) {
            return ZoneTurn::After(Op {
                kind: OpKind::ResetZone,
                offset: start,
                length: self.size as u32,
                skip: 0,
                ..*op
            });
        }
        *used = true;
        ZoneTurn::Now
    }

    pub(super) fn completed(&mut self, slot: Slot) {
        self.in_flight[slot as usize] = None;
    }
}

/// The issue of an op that empties a zone. It is not counted.
pub(super) fn reset(op: Op) -> Issue {
    Issue {
        counted: false,
        ..Issue::counted(op, Direction::Write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    const KIB: u64 = 1024;

    fn zoned(capacity: u64, max_open: u32) -> ZonedRegion {
        let rule = WriteZones {
            size: 64 * KIB,
            capacity,
            max_open,
            read_beyond: false,
        };
        ZonedRegion::new(rule, 512 * KIB)
    }

    #[test]
    fn random_writes_are_sequential_in_each_zone_and_few_zones_are_open() {
        for (capacity, max_open) in [(64 * KIB, 0), (48 * KIB, 2)] {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
            let mut zones = zoned(capacity, max_open);
            let mut ends = [0; 8];
            for _ in 0..2000 {
                let drawn = random.random_range(0..128) * 4 * KIB;
                let op = (drawn, 20 * KIB, 4 * KIB);
                let (offset, length) = zones.place(true, op, Some(&mut random)).unwrap();
                let (zone, inside) = ((offset / (64 * KIB)) as usize, offset % (64 * KIB));
                assert!(inside == ends[zone] || (inside == 0 && ends[zone] == capacity));
                assert!(length >= 4 * KIB && inside + length <= capacity);
                ends[zone] = inside + length;
                let open = ends.iter().filter(|end| (1..capacity).contains(*end));
                assert!(max_open == 0 || open.count() <= 2, "{ends:?}");
            }
            assert!(ends.iter().all(|end| *end > 0));
        }
    }

    #[test]
    fn reads_find_only_what_was_written() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
        let mut zones = zoned(64 * KIB, 0);
        let read = |zones: &mut ZonedRegion, offset, random: Option<&mut Xoshiro256PlusPlus>| {
            zones.place(false, (offset, 8 * KIB, 4 * KIB), random)
        };
        assert_eq!(read(&mut zones, 0, None), None);
        assert_eq!(read(&mut zones, 0, Some(&mut random)), None);
        for offset in [0, 8, 16, 24] {
            let op = ((64 + offset) * KIB, 8 * KIB, 4 * KIB);
            zones
                .place(true, op, None::<&mut Xoshiro256PlusPlus>)
                .unwrap();
        }
        assert_eq!(read(&mut zones, 0, None), Some((64 * KIB, 8 * KIB)));
        assert_eq!(read(&mut zones, 92 * KIB, None), Some((92 * KIB, 4 * KIB)));
        // Past the data, the job continues with the next zone that has some: the same.
        assert_eq!(read(&mut zones, 96 * KIB, None), Some((64 * KIB, 8 * KIB)));
        for block in 0..128 {
            let (offset, length) = read(&mut zones, block * 4 * KIB, Some(&mut random)).unwrap();
            assert!(
                offset >= 64 * KIB && offset + length <= 96 * KIB,
                "{offset}"
            );
        }
    }

    #[test]
    fn sequential_writes_go_from_zone_to_zone_and_begin_each_anew() {
        let mut zones = zoned(48 * KIB, 0);
        let mut cursor = 0;
        let mut places = Vec::new();
        for _ in 0..17 {
            let op = (cursor, 32 * KIB, 4 * KIB);
            let (offset, length) = zones
                .place(true, op, None::<&mut Xoshiro256PlusPlus>)
                .unwrap();
            places.push((offset / KIB, length / KIB));
            cursor = offset + length;
        }
        assert_eq!(
            places[..5],
            [(0, 32), (32, 16), (64, 32), (96, 16), (128, 32)]
        );
        // Eight zones of two ops each, then the first again.
        assert_eq!(places[16], (0, 32));
    }
}
