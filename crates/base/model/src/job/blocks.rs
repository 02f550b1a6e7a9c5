//! Reads, writes and trims at offsets of files or devices.

use serde::{Deserialize, Serialize};

use super::access::greatest_divisor;
use crate::{
    Access, Amount, Direction, Engine, EngineKind, FileService, Files, MixSequence, Order,
    PriorityShare, Replay, Verify,
};

/// The part of its files that a clone works on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Extent {
    /// Total bytes of all files of the clone. `None`: the full length of the files or the device.
    pub size: Option<Amount>,
    /// Start of the region in each file, bytes.
    pub offset: Amount,
    /// Added to `offset` for each preceding clone.
    pub offset_increment: Amount,
    /// An offset in percent is rounded up to a multiple of this; 0: the smallest block size.
    pub offset_align: u64,
    /// Strided zones: length of the used part of a zone, bytes; 0: no zones.
    pub zone_size: u64,
    /// Strided zones: full length of a zone; 0: `zone_size`.
    pub zone_range: u64,
    /// Strided zones: bytes skipped between zones.
    pub zone_skip: u64,
    /// Zones that are written from start to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_zones: Option<WriteZones>,
}

/// Zones with a write pointer (fio's `zonemode=zbd`). The job keeps that of files itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WriteZones {
    /// Length of a zone, bytes; 0: that of the device.
    pub size: u64,
    /// Its part that is written, bytes; 0: that of the device.
    pub capacity: u64,
    /// Maximum number of zones that are written in part; 0: no limit.
    pub max_open: u32,
    /// Reads are not limited to what was written.
    pub read_beyond: bool,
}

impl Default for Extent {
    fn default() -> Self {
        Extent {
            size: None,
            offset: Amount::Bytes(0),
            offset_increment: Amount::Bytes(0),
            offset_align: 0,
            zone_size: 0,
            zone_range: 0,
            zone_skip: 0,
            write_zones: None,
        }
    }
}

/// How much of its region a job covers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Passes {
    /// Repeat the region until the job's `runtime` is over.
    pub time_based: bool,
    /// End after this number of bytes instead of one pass over the region.
    pub io_size: Option<Amount>,
    /// Number of passes over the region; at least 1.
    pub loops: u64,
}

impl Default for Passes {
    fn default() -> Passes {
        Passes {
            time_based: false,
            io_size: None,
            loops: 1,
        }
    }
}

/// sync_file_range of what was written since the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeSync {
    /// After this number of writes; at least 1.
    pub every: u32,
    /// The call's flags: 1 waits for writeback that has begun, 2 begins it, 4 waits for its end.
    pub flags: u8,
}

/// When data are synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SyncPolicy {
    /// fsync after this number of writes; 0: never.
    pub fsync_every: u32,
    /// fdatasync after this number of writes; 0: never.
    pub fdatasync_every: u32,
    /// sync_file_range after a number of writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<RangeSync>,
    /// fsync all files at the end of a job that writes, timed as a separate step.
    pub end_fsync: bool,
}

/// Reads, writes and trims at offsets of files or devices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Blocks {
    /// Engine.
    pub engine: Engine,
    /// Directions, order and block sizes.
    pub access: Access,
    /// Files.
    pub files: Files,
    /// Region of each file.
    pub extent: Extent,
    /// How much of the region is covered.
    pub passes: Passes,
    /// Sync policy.
    pub sync: SyncPolicy,
    /// Verification.
    pub verify: Option<Verify>,
    /// Shares of the ops that have a priority of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub priorities: Vec<PriorityShare>,
    /// A trace that determines the ops in place of `access`, `extent` and `passes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
}

impl Blocks {
    /// The option that makes the files read-only; `None`: they may be created, extended or written.
    pub fn read_only_by(&self) -> Option<&'static str> {
        match &self.verify {
            _ if self.files.read_only => Some("--readonly"),
            Some(verify) if verify.only => Some("verify_only"),
            _ => None,
        }
    }

    /// Whether each block is read once, however often an earlier run wrote it (`verify_only`).
    pub fn checks_each_block_once(&self) -> bool {
        let access = &self.access;
        let each_once = access.order == Order::Sequential || access.random_map;
        self.verify.as_ref().is_some_and(|verify| verify.only)
            && each_once
            && !access.reads
            && access.sequence.is_none()
    }

    /// The grid of writes, bytes: the greatest common divisor of `unit` and the offsets of all writes in their region.
    /// `unit` must divide the size of each block. `regions` are the lengths of the regions, bytes.
    pub fn grid_of_writes(&self, unit: u64, regions: impl IntoIterator<Item = u64>) -> u64 {
        let (access, extent) = (&self.access, &self.extent);
        let align = |direction| match access.order {
            Order::Random => access.block_align.get(direction).copied().unwrap_or(0),
            Order::Sequential => 0,
        };
        let trims = match access.trims {
            true => access.block_sizes.trim.divisor(),
            false => 0,
        };
        let gap = match access.sequence {
            Some(MixSequence::Skip(bytes)) => bytes.unsigned_abs(),
            _ => 0,
        };
        let zone = match extent.zone_size {
            0 => 0,
            size if extent.zone_range == 0 => size + extent.zone_skip,
            _ => extent.zone_range + extent.zone_skip,
        };
        // Backwards, the first block of another pass is placed from the end.
        let backwards = matches!(access.sequence, Some(MixSequence::Skip(..0)));
        let ends = regions.into_iter().filter(|_| backwards);
        let steps = [
            align(Direction::Write),
            align(Direction::Trim),
            trims,
            gap,
            zone,
        ];
        steps.into_iter().chain(ends).fold(unit, greatest_divisor)
    }

    /// The block size, if all ops have the same.
    fn only_block(&self) -> Option<u64> {
        let (least, most) = (self.access.min_block(), self.access.max_block());
        (least == most && least > 0).then_some(least)
    }

    /// Whether the last op is whole even if it exceeds the number of bytes to process, as in fio: the job does not end
    /// with the last free block of its region.
    pub fn exceeds_bytes(&self) -> bool {
        let (access, service) = (&self.access, self.files.service);
        let drawn = |direction| access.percent_random.get(direction) == Some(&100);
        let mapped = access.random_map && access.directions().all(drawn);
        let by_law = matches!(
            service,
            FileService::Zipf(_) | FileService::Pareto(_) | FileService::Normal(_)
        );
        self.passes.io_size.is_some()
            || self.extent.zone_size > 0
            || (access.order == Order::Random && !mapped)
            || (by_law && self.files.count > 1)
    }

    /// Number of bytes that the job processes in regions that have `whole` bytes, `covered` of them in a pass.
    /// `io_size` is resolved.
    pub fn bytes_to_process(&self, io_size: Option<u64>, whole: u64, covered: u64) -> u64 {
        if let Some(rule) = &self.access.precondition {
            return rule.physical_bytes(whole, self.access.max_block());
        }
        let loops = self.passes.loops.max(1);
        let most = match self.exceeds_bytes() {
            true => whole,
            false => covered,
        };
        match (io_size, self.extent.size) {
            (Some(bytes), _) if self.checks_each_block_once() => {
                bytes.min(whole).saturating_mul(loops)
            }
            (Some(bytes), _) => self.bytes_of_passes(bytes, whole, covered),
            (None, Some(Amount::Bytes(size))) => size.min(most).saturating_mul(loops),
            (None, _) => most.saturating_mul(loops),
        }
    }

    /// Number of bytes with `io_size`. As in fio, there are at least `loops` passes, and then as many as needed until
    /// less than a block is left; `loops` times `io_size` is the limit.
    fn bytes_of_passes(&self, io_size: u64, whole: u64, covered: u64) -> u64 {
        let access = &self.access;
        let (loops, block) = (self.passes.loops.max(1), access.max_block());
        let limit = io_size.saturating_mul(loops);
        let without_map = access.order == Order::Random && !access.random_map;
        let pass = match without_map {
            true => whole.div_ceil(block.max(1)).saturating_mul(block),
            false => covered,
        };
        // Such writes go on at the start of the region without ending a pass.
        let in_order = access.order == Order::Sequential && covered == whole;
        let endless = access.writes && (without_map || in_order);
        let passes = pass.saturating_mul(loops);
        if pass == 0 || endless || passes >= limit {
            return limit;
        }
        let left = io_size.saturating_sub(passes);
        if loops == 1 {
            let rest = left % pass;
            return if rest < block {
                io_size - rest
            } else {
                io_size
            };
        }
        let further = match left >= block {
            true => (left - block) / pass + 1,
            false => 0,
        };
        passes
            .saturating_add(further.saturating_mul(pass))
            .min(limit)
    }

    /// Number of bytes of a region of `length` bytes that one pass accesses: whole blocks. As in fio, a sequence with
    /// gaps (`rw=read:4k`) ends with the region, except where a gap reaches the end of the file: it continues at the
    /// start.
    pub fn covered(&self, length: u64, whole_file: bool) -> u64 {
        let Some(block) = self.only_block().filter(|block| *block <= length) else {
            return length;
        };
        let whole = length - length % block;
        let one = self.access.directions().count() == 1;
        let gap = match self.access.sequence {
            Some(MixSequence::Skip(gap @ 1..)) if one => gap as u64,
            _ => return whole,
        };
        let step = block + gap;
        let blocks = (length - block) / step + 1;
        // After the last op, the gap reaches the end of the file.
        let wraps = whole_file && (blocks - 1) * step + block < length && blocks * step >= length;
        match wraps {
            true => whole,
            false => blocks * block,
        }
    }
}

impl Default for Blocks {
    /// Sequential 4 KiB reads by psync, on files with fio's default names.
    fn default() -> Blocks {
        Blocks {
            engine: Engine::new(EngineKind::Psync, 1),
            access: Access::default(),
            files: Files::default(),
            extent: Extent::default(),
            passes: Passes::default(),
            sync: SyncPolicy::default(),
            verify: None,
            priorities: Vec::new(),
            replay: None,
        }
    }
}
