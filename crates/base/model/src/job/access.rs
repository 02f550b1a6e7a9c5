//! Access patterns: directions, order, block sizes and distributions.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::named::named;

use crate::Amount;

named! {
    /// Kind of op: moves data, makes data durable, or is a file operation.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Direction in EVERY {
        /// Reads data from the target.
        Read = "read",
        /// Writes data to the target.
        Write = "write",
        /// Deallocates blocks (discard, hole punching).
        Trim = "trim",
        /// fsync, fdatasync, sync_file_range.
        Sync = "sync",
        /// One cycle of file operations: the total time of its timed steps.
        Op = "op",
        /// open with O_CREAT and O_EXCL.
        Create = "create",
        /// open of an existing file.
        Open = "open",
        /// close.
        Close = "close",
        /// fsync of a folder.
        SyncFolder = "sync_folder",
        /// unlink.
        Unlink = "unlink",
        /// rename.
        Rename = "rename",
        /// stat of a file.
        Stat = "stat",
        /// statfs of the folder.
        Statfs = "statfs",
        /// mkdir.
        Mkdir = "mkdir",
        /// rmdir.
        Rmdir = "rmdir",
        /// getdents until the end of the folder.
        Readdir = "readdir",
        /// ftruncate.
        Truncate = "truncate",
        /// fallocate.
        Fallocate = "fallocate",
        /// Execution of a command.
        Run = "run",
    }
}

impl Direction {
    /// Number of kinds: the length of arrays with one entry per kind.
    pub const COUNT: usize = Direction::EVERY.len();

    /// The directions of jobs that access offsets, in table order: the first entries of [`Self::EVERY`].
    pub const ALL: [Direction; 4] = [
        Direction::Read,
        Direction::Write,
        Direction::Trim,
        Direction::Sync,
    ];
}

/// One value each for read, write and trim. Job files give them as comma-separated lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PerDirection<T> {
    /// For reads.
    pub read: T,
    /// For writes.
    pub write: T,
    /// For trims.
    pub trim: T,
}

impl<T> PerDirection<T> {
    /// The value for a direction; `None` for syncs and file operations.
    pub fn get(&self, direction: Direction) -> Option<&T> {
        match direction {
            Direction::Read => Some(&self.read),
            Direction::Write => Some(&self.write),
            Direction::Trim => Some(&self.trim),
            _ => None,
        }
    }
}

impl<T: Clone> PerDirection<T> {
    /// The same value for all three.
    pub fn all(value: T) -> PerDirection<T> {
        PerDirection {
            read: value.clone(),
            write: value.clone(),
            trim: value,
        }
    }
}

/// Sequential or random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Consecutive blocks, wrapping at the end of the region.
    Sequential,
    /// Drawn from the distribution.
    Random,
}

/// The distribution of the offsets of random ops.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// All blocks are equally likely.
    #[default]
    Uniform,
    /// Zipf's law with this exponent, ranks scattered over the region.
    Zipf(f64),
    /// Pareto with this power (0 < h < 1), ranks scattered over the region.
    Pareto(f64),
    /// Normal around the middle of the region, with this deviation in percent of it.
    Normal(f64),
    /// Zones in order from the start of the region: (share of the ops in percent, length). Uniform within a
    /// zone. Shares add up to 100; blocks after the last zone are not accessed.
    Zoned(Vec<(f64, Amount)>),
    /// These block numbers, again and again.
    Sequence {
        /// Numbers of blocks of the region.
        blocks: Vec<u64>,
        /// After each pass of the list, the numbers are counted from as many blocks further on as the list has.
        stride: bool,
    },
}

/// The sizes of the ops of one direction, in bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockSizes {
    /// One size for all ops.
    Fixed(u64),
    /// Uniform between both limits, inclusive, in multiples of `min` unless unaligned.
    Range {
        /// Smallest size.
        min: u64,
        /// Largest size.
        max: u64,
        /// Any number of bytes in the range, not only multiples of `min`.
        unaligned: bool,
    },
    /// Each size with its share in percent; shares add up to 100.
    Split(Vec<(u64, f64)>),
}

impl BlockSizes {
    /// The smallest size.
    pub fn min(&self) -> u64 {
        match self {
            BlockSizes::Fixed(size) => *size,
            BlockSizes::Range { min, .. } => *min,
            BlockSizes::Split(parts) => parts.iter().map(|part| part.0).min().unwrap_or(0),
        }
    }

    /// The largest size, which a buffer must hold.
    pub fn max(&self) -> u64 {
        match self {
            BlockSizes::Fixed(size) => *size,
            BlockSizes::Range { max, .. } => *max,
            BlockSizes::Split(parts) => parts.iter().map(|part| part.0).max().unwrap_or(0),
        }
    }

    /// The largest number of bytes that divides every size.
    pub fn divisor(&self) -> u64 {
        let all = match self {
            BlockSizes::Range {
                unaligned: true, ..
            } => 1,
            BlockSizes::Fixed(size) => *size,
            BlockSizes::Range { min, max, .. } => greatest_divisor(*min, *max),
            BlockSizes::Split(parts) => parts.iter().map(|part| part.0).fold(0, greatest_divisor),
        };
        all.max(1)
    }
}

/// The greatest common divisor; 0 is divided by everything.
pub(crate) fn greatest_divisor(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        _ => greatest_divisor(b, a % b),
    }
}

/// In the notation of job files: `4k`, `4k-64k`, `4k/60:64k/40`.
impl fmt::Display for BlockSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlockSizes::Fixed(size) => f.write_str(&short(*size)),
            BlockSizes::Range { min, max, .. } => write!(f, "{}-{}", short(*min), short(*max)),
            BlockSizes::Split(parts) => {
                for (place, (size, share)) in parts.iter().enumerate() {
                    let between = if place == 0 { "" } else { ":" };
                    write!(f, "{between}{}/{share}", short(*size))?;
                }
                Ok(())
            }
        }
    }
}

/// In the notation of job files: `512`, `4k`, `1m`.
fn short(bytes: u64) -> String {
    match bytes {
        0 => "0".to_owned(),
        bytes if bytes % (1 << 20) == 0 => format!("{}m", bytes >> 20),
        bytes if bytes % (1 << 10) == 0 => format!("{}k", bytes >> 10),
        bytes => bytes.to_string(),
    }
}

/// fio's `rw=randread:8` and `rw=read:4k` suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MixSequence {
    /// Random access: a new offset is drawn after this number of ops. The sequencer determines the offsets
    /// in between.
    Every(u32),
    /// Sequential access: bytes added to the offset after each op (negative: backwards).
    Skip(i64),
}

/// The offsets between two draws of `MixSequence::Every`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sequencer {
    /// Continue from the last offset.
    #[default]
    Sequential,
    /// Repeat the last offset.
    Identical,
}

/// Properties of a solid-state disk to precondition (fio's `sprandom`).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Precondition {
    /// Physical capacity beyond the logical one, as a share of the latter; between 0 and 1.
    pub over_provisioning: f64,
    /// Number of regions of equal size with the same share of valid data; at least 1.
    pub regions: u32,
    /// Size of the disk's cache, bytes; 0: it has none that matters.
    pub cache: u64,
}

impl Precondition {
    /// The bytes to write to a disk of `logical` bytes, in whole blocks.
    pub fn physical_bytes(&self, logical: u64, block: u64) -> u64 {
        let spare = (logical as f64 * self.over_provisioning).ceil() as u64;
        let bytes = logical.saturating_add(spare);
        bytes - bytes % block.max(1)
    }
}

/// Which ops a job issues and at which offsets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Access {
    /// Whether reads are issued.
    pub reads: bool,
    /// Whether writes are issued.
    pub writes: bool,
    /// Whether trims are issued. With `writes` (`trimwrite`), each block is trimmed, then written.
    pub trims: bool,
    /// Sequential or random.
    pub order: Order,
    /// Share of reads among reads and writes, in percent. The direction of each op is drawn independently.
    pub read_percent: u32,
    /// Block sizes.
    pub block_sizes: PerDirection<BlockSizes>,
    /// Offsets are multiples of this number of bytes; 0: of the smallest block size.
    pub block_align: PerDirection<u64>,
    /// Distribution of random offsets.
    pub distribution: PerDirection<Distribution>,
    /// Percentage of ops at random offsets: 100 in a random job, 0 in a sequential one.
    pub percent_random: PerDirection<u32>,
    /// Whether every block is accessed once per pass before any is repeated (uniform distribution only).
    pub random_map: bool,
    /// fio's `rw` suffix.
    pub sequence: Option<MixSequence>,
    /// The meaning of the suffix between two draws.
    pub sequencer: Sequencer,
    /// Whether every run uses the same offsets (fio's `randrepeat`). Otherwise they depend on the trial's
    /// seed.
    pub repeatable: bool,
    /// The job's own seed, if it has one.
    pub seed: Option<u64>,
    /// Place of the most frequent block of a Zipf, Pareto or normal distribution, from 0 (start of the region) to 1;
    /// `None`: at random, and for normal in the middle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub center: Option<f64>,
    /// The writes put a solid-state disk into the state of long random writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precondition: Option<Precondition>,
    /// Ops that overlap one in flight wait for it, if the job changes data.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub serialize_overlap: bool,
}

impl Default for Access {
    /// Sequential reads of 4 KiB blocks.
    fn default() -> Access {
        Access {
            reads: true,
            writes: false,
            trims: false,
            order: Order::Sequential,
            read_percent: 50,
            block_sizes: PerDirection::all(BlockSizes::Fixed(4096)),
            block_align: PerDirection::all(0),
            distribution: PerDirection::all(Distribution::Uniform),
            percent_random: PerDirection::all(100),
            random_map: true,
            sequence: None,
            sequencer: Sequencer::Sequential,
            repeatable: true,
            seed: None,
            center: None,
            precondition: None,
            serialize_overlap: false,
        }
    }
}

impl Access {
    /// The value of fio's `rw=`.
    pub fn pattern(&self) -> &'static str {
        let random = self.order == Order::Random;
        match (self.reads, self.writes, self.trims, random) {
            (true, true, _, false) => "rw",
            (true, true, _, true) => "randrw",
            (_, true, true, false) => "trimwrite",
            (_, true, true, true) => "randtrimwrite",
            (_, true, false, false) => "write",
            (_, true, false, true) => "randwrite",
            (_, false, true, false) => "trim",
            (_, false, true, true) => "randtrim",
            (_, false, false, false) => "read",
            (_, false, false, true) => "randread",
        }
    }

    /// The directions that this access issues, in table order.
    pub fn directions(&self) -> impl Iterator<Item = Direction> {
        [
            (self.reads, Direction::Read),
            (self.writes, Direction::Write),
            (self.trims, Direction::Trim),
        ]
        .into_iter()
        .filter_map(|(issued, direction)| issued.then_some(direction))
    }

    /// The sizes of the blocks that `verify` checks: of writes, or of reads if the job does not write.
    pub fn verified_sizes(&self) -> &BlockSizes {
        match self.writes {
            true => &self.block_sizes.write,
            false => &self.block_sizes.read,
        }
    }

    /// The largest block of all issued directions, in bytes.
    pub fn max_block(&self) -> u64 {
        self.directions()
            .filter_map(|direction| self.block_sizes.get(direction))
            .map(BlockSizes::max)
            .max()
            .unwrap_or(0)
    }

    /// The smallest block of all issued directions, in bytes.
    pub fn min_block(&self) -> u64 {
        self.directions()
            .filter_map(|direction| self.block_sizes.get(direction))
            .map(BlockSizes::min)
            .min()
            .unwrap_or(0)
    }
}
