//! One set of files that all clones access by a common rule, as in sysbench's fileio test.

use serde::{Deserialize, Serialize};

use crate::named::named;

use crate::{
    Access, Amount, BlockSizes, Blocks, Distribution, Engine, Extent, Fallocate, FileService,
    Files, Order, Passes, PerDirection, SyncPolicy,
};

named! {
    /// Test modes, under sysbench's names.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum SharedMode in ALL {
        /// `prepare`: creates each file and fills it from its start; existing content is kept.
        Prepare = "prepare",
        /// `seqwr`: creates the files, then writes them one after the other.
        SequentialWrite = "seqwr",
        /// `seqrewr`.
        SequentialRewrite = "seqrewr",
        /// `seqrd`.
        SequentialRead = "seqrd",
        /// `rndrd`.
        RandomRead = "rndrd",
        /// `rndwr`.
        RandomWrite = "rndwr",
        /// `rndrw`: reads and writes in a fixed ratio.
        RandomMix = "rndrw",
    }
}

impl SharedMode {
    /// Whether it reads.
    pub fn reads(self) -> bool {
        matches!(
            self,
            SharedMode::SequentialRead | SharedMode::RandomRead | SharedMode::RandomMix
        )
    }

    /// Whether it writes.
    pub fn writes(self) -> bool {
        !matches!(self, SharedMode::SequentialRead | SharedMode::RandomRead)
    }

    /// Whether it creates missing or short files.
    pub fn makes_files(self) -> bool {
        matches!(self, SharedMode::Prepare | SharedMode::SequentialWrite)
    }

    /// Whether offsets are drawn from the job's distribution.
    pub fn random(self) -> bool {
        matches!(
            self,
            SharedMode::RandomRead | SharedMode::RandomWrite | SharedMode::RandomMix
        )
    }
}

/// `count` files of equal length, named `test_file.0`, `test_file.1`, …, and the rule by which all clones
/// together access them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SharedFiles {
    /// Engine.
    pub engine: Engine,
    /// Number of files; at least 1.
    pub count: u32,
    /// Whether files that are missing or short are laid out before the start, as for jobs of blocks. Otherwise they are
    /// errors, as in sysbench.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lay_out: bool,
    /// Whether the job ends when its files are laid out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub create_only: bool,
    /// Distribution of the blocks in random modes.
    pub distribution: Distribution,
    /// The job's own seed; `None`: the trial's.
    pub seed: Option<u64>,
    /// Test mode.
    pub mode: SharedMode,
    /// Length of each file, bytes.
    pub file_size: u64,
    /// Length of a request, bytes; the last one of a file may be shorter.
    pub block: u64,
    /// Length of a sequential request if several blocks are merged, bytes; 0: one block.
    pub merged: u64,
    /// `rndrw`: a clone reads while (its reads + 1) ÷ (its writes + 1) is less than this.
    pub read_write_ratio: f64,
    /// Sync all files after this number of requests of all clones (reads count if there were writes since
    /// the last sync); 0: never.
    pub fsync_every: u32,
    /// Sync the file after each write, and at no other time.
    pub fsync_all: bool,
    /// Sync all files at the end; timed as step `EndFsync`.
    pub fsync_end: bool,
    /// fdatasync instead of fsync.
    pub data_only: bool,
    /// Store a checksum and the offset at the end of each block, and check them on reads.
    pub validate: bool,
}

impl SharedFiles {
    /// The name of a file by its number, from 0.
    pub fn file_name(number: u32) -> String {
        format!("test_file.{number}")
    }

    /// Total length of all files, bytes.
    pub fn total_size(&self) -> u64 {
        self.file_size.saturating_mul(u64::from(self.count))
    }

    /// Length of a request, bytes, at least 1: a block, or in sequential modes the merged blocks.
    pub fn request(&self) -> u64 {
        match self.merged {
            merged if merged > 0 && !self.mode.random() => merged,
            _ => self.block,
        }
        .max(1)
    }

    /// Directions, order and block sizes as a job file would describe them.
    pub fn access(&self) -> Access {
        let mode = self.mode;
        let ratio = self.read_write_ratio;
        Access {
            reads: mode.reads(),
            writes: mode.writes(),
            trims: false,
            order: match mode.random() {
                true => Order::Random,
                false => Order::Sequential,
            },
            read_percent: match (mode.reads(), mode.writes()) {
                (true, true) => (100.0 * ratio / (1.0 + ratio)).round() as u32,
                (true, false) => 100,
                _ => 0,
            },
            block_sizes: PerDirection::all(BlockSizes::Fixed(self.request())),
            block_align: PerDirection::all(self.block),
            distribution: PerDirection::all(self.distribution.clone()),
            percent_random: PerDirection::all(if mode.random() { 100 } else { 0 }),
            random_map: false,
            repeatable: false,
            seed: self.seed,
            ..Access::default()
        }
    }

    /// The closest equivalent of the job in a job file: for formats that support nothing else.
    pub fn as_blocks(&self) -> Blocks {
        let length = Amount::Bytes(self.file_size);
        Blocks {
            engine: self.engine.clone(),
            access: self.access(),
            files: Files {
                format: "test_file.$filenum".to_owned(),
                count: self.count,
                size: Some((length, length)),
                service: match self.mode.random() {
                    true => FileService::Random,
                    false => FileService::Sequential,
                },
                fallocate: Fallocate::None,
                allow_create: self.mode.makes_files(),
                fsync_on_layout: false,
                invalidate: false,
                advise: false,
                ..Files::default()
            },
            extent: Extent {
                size: Some(Amount::Bytes(self.total_size())),
                ..Extent::default()
            },
            passes: Passes {
                time_based: self.mode != SharedMode::Prepare,
                ..Passes::default()
            },
            sync: SyncPolicy::default(),
            verify: None,
            priorities: Vec::new(),
            replay: None,
        }
    }
}
