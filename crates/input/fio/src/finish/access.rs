//! The offsets of a job: block sizes, distributions, zones.

use iodyno_model::{
    Amount, BlockSizes, Direction, Distribution, MixSequence, Order, PerDirection, WriteZones,
};
use iodyno_options::Problem;

use super::Finish;
use crate::draft::{Draft, Suffix, ZoneMode};

impl Finish<'_> {
    pub(super) fn access(&mut self) {
        let block_sizes = PerDirection {
            read: self.block_sizes(Direction::Read),
            write: self.block_sizes(Direction::Write),
            trim: self.block_sizes(Direction::Trim),
        };
        let uniform = self.draft.uniform();
        let laws = &mut self.draft.distribution;
        for law in [&mut laws.read, &mut laws.write, &mut laws.trim] {
            if let Distribution::Sequence { stride, .. } = law {
                *stride = self.draft.sequence_stride;
            }
        }
        let access = &mut self.draft.blocks.access;
        access.block_sizes = block_sizes;
        let random = access.order == Order::Random;
        if !random {
            access.block_align = PerDirection::all(0);
            access.percent_random = PerDirection::all(0);
        }
        access.distribution = self.draft.distribution.clone();
        // A separate alignment does not fit the grid of blocks of the map.
        let own_grid = access.directions().any(|direction| {
            let align = access.block_align.get(direction).copied().unwrap_or(0);
            let block = access.block_sizes.get(direction).map_or(0, BlockSizes::min);
            align != 0 && align != block
        });
        access.random_map = random
            && (!self.draft.no_random_map || self.draft.without_repeats)
            && !own_grid
            && uniform;
        access.sequence = match self.draft.suffix {
            Some(Suffix::Every(ops)) if ops > 1 => Some(MixSequence::Every(ops)),
            Some(Suffix::Skip(bytes)) if bytes != 0 => Some(MixSequence::Skip(bytes)),
            _ => None,
        };
    }

    /// `bssplit` takes precedence over `bsrange`, and that over `bs`.
    fn block_sizes(&self, direction: Direction) -> BlockSizes {
        let Draft {
            bs,
            bs_range,
            bs_split,
            ..
        } = &*self.draft;
        let range = bs_range.get(direction).copied().flatten();
        match (bs_split.get(direction).and_then(Option::as_deref), range) {
            (Some([(size, _)]), _) => BlockSizes::Fixed(*size),
            (Some(parts), _) => BlockSizes::Split(parts.to_vec()),
            (None, Some((min, max))) if min == max => BlockSizes::Fixed(min),
            (None, Some((min, max))) => BlockSizes::Range {
                min,
                max,
                unaligned: self.draft.bs_unaligned,
            },
            (None, None) => BlockSizes::Fixed(bs.get(direction).copied().unwrap_or(0)),
        }
    }

    /// A disk is preconditioned by random writes of one size at offsets that it draws itself.
    pub(super) fn precondition(&mut self) {
        if !self.draft.preconditions {
            return;
        }
        let access = &self.draft.blocks.access;
        let only_writes = access.writes && !access.reads && !access.trims;
        let sizes = &access.block_sizes.write;
        let align = access.block_align.write;
        let given = |option: &str, value: &str| {
            let written = self.draft.written.get(option);
            written.is_some_and(|written| written.value == value)
        };
        let zoned = self.draft.blocks.extent.write_zones.is_some()
            || self.draft.blocks.extent.zone_size > 0;
        let fault = match () {
            () if !only_writes || access.order != Order::Random => {
                Some(("`sprandom` needs random writes", "set `rw=randwrite`"))
            }
            () if self.draft.has("random_generator") && !self.draft.without_repeats => Some((
                "`sprandom` writes each block once before it repeats some",
                "leave `random_generator` out, or set it to lfsr",
            )),
            () if given("norandommap", "0") => Some((
                "`sprandom` repeats blocks, which a random map excludes",
                "leave `norandommap` out",
            )),
            () if !self.draft.uniform() || self.draft.suffix.is_some() || zoned => Some((
                "`sprandom` determines the offsets",
                "leave `random_distribution`, zones and the number after `rw=randwrite` out",
            )),
            () if sizes.min() != sizes.max() || (align != 0 && align != sizes.min()) => Some((
                "`sprandom` needs blocks of one size",
                "set one `bs`, and leave `blockalign` out",
            )),
            () => None,
        };
        if let Some((message, hint)) = fault {
            return self.contradiction("sprandom", message, hint);
        }
        let access = &mut self.draft.blocks.access;
        access.precondition = Some(self.draft.precondition);
        access.random_map = false;
        access.percent_random = PerDirection::all(100);
    }

    pub(super) fn extent(&mut self) {
        let zoned = self.draft.blocks.extent.zone_size > 0;
        if self.draft.zone_mode == Some(ZoneMode::Written) {
            return self.write_zones();
        }
        if let Some(option) = self.draft.in_zones.keys().next().copied() {
            let message = "zones as a unit (`z`) need `zonemode=zbd`";
            self.contradiction(option, message, "write the size in bytes, such as `256m`");
        }
        match self.draft.zone_mode {
            Some(ZoneMode::None) if zoned => self.contradiction(
                "zonesize",
                "`zonesize` contradicts `zonemode=none`",
                "write `zonemode=strided`, or leave `zonesize` out",
            ),
            Some(ZoneMode::Strided) if !zoned => {
                self.contradiction("zonemode", "strided zones need a size", "add `zonesize=…`")
            }
            _ => {}
        }
        if !(zoned && self.only_one_file_at_a_time()) {
            let extent = &mut self.draft.blocks.extent;
            (extent.zone_size, extent.zone_range, extent.zone_skip) = (0, 0, 0);
        }
    }

    /// As in fio, strided zones have no effect with `openfiles` above 1.
    fn only_one_file_at_a_time(&mut self) -> bool {
        if self.draft.blocks.files.open <= 1 {
            return true;
        }
        let warning = Problem::warning("strided zones have no effect with `openfiles` above 1")
            .hint("set `openfiles=1`, or use a job for each file");
        self.say("zonesize", warning);
        false
    }

    /// The zones of `zonemode=zbd`, and what was given in zones.
    fn write_zones(&mut self) {
        const LEAST: u64 = 512;
        let extent = &mut self.draft.blocks.extent;
        let size = extent.zone_size;
        (extent.zone_size, extent.zone_range, extent.zone_skip) = (0, 0, 0);
        let mut zones = WriteZones {
            size,
            ..self.draft.zones
        };
        if zones.capacity == 0 {
            zones.capacity = size;
        }
        let largest = self.draft.blocks.access.max_block();
        let fault = match () {
            () if self.draft.failed.contains("zonesize") => None,
            () if self.draft.blocks.access.trims => {
                Some(("zonemode", "zones are not trimmed", "use reads and writes"))
            }
            // A zoned device has its own.
            () if size == 0 && self.draft.in_zones.is_empty() => None,
            () if size < LEAST => Some((
                "zonemode",
                "`zonemode=zbd` with sizes in zones needs the size of a zone, at least 512 bytes",
                "add `zonesize=…`",
            )),
            () if zones.capacity > size => Some((
                "zonecapacity",
                "`zonecapacity` is larger than `zonesize`",
                "lower it",
            )),
            () if largest > zones.capacity => Some((
                "zonesize",
                "a block is larger than a zone",
                "raise `zonesize`, or lower `bs`",
            )),
            () => None,
        };
        if let Some((option, message, hint)) = fault {
            return self.contradiction(option, message, hint);
        }
        self.draft.blocks.extent.write_zones = Some(zones);
        self.draft.blocks.access.random_map = false;
        for (count, set) in std::mem::take(&mut self.draft.in_zones).into_values() {
            set(self.draft, Amount::Bytes(count.saturating_mul(size)));
        }
    }
}
