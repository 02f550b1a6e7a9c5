//! One set of files that all clones walk by one law, as sysbench's fileio test does.

use serde::{Deserialize, Serialize};

use crate::{
    Access, Amount, BlockSizes, Blocks, Distribution, Engine, Extent, Fallocate, FileService,
    Files, Order, Passes, PerDirection, SyncPolicy,
};

/// What is done to the files, under sysbench's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SharedMode {
    /// `prepare`: each file is made and filled from its start; what is there of it already stays.
    Prepare,
    /// `seqwr`: files are made, then written one after the other.
    SequentialWrite,
    /// `seqrewr`.
    SequentialRewrite,
    /// `seqrd`.
    SequentialRead,
    /// `rndrd`.
    RandomRead,
    /// `rndwr`.
    RandomWrite,
    /// `rndrw`: reads and writes in a fixed ratio.
    RandomMix,
}

impl SharedMode {
    /// sysbench's word for it.
    pub fn name(self) -> &'static str {
        match self {
            SharedMode::Prepare => "prepare",
            SharedMode::SequentialWrite => "seqwr",
            SharedMode::SequentialRewrite => "seqrewr",
            SharedMode::SequentialRead => "seqrd",
            SharedMode::RandomRead => "rndrd",
            SharedMode::RandomWrite => "rndwr",
            SharedMode::RandomMix => "rndrw",
        }
    }

    /// It reads.
    pub fn reads(self) -> bool {
        matches!(
            self,
            SharedMode::SequentialRead | SharedMode::RandomRead | SharedMode::RandomMix
        )
    }

    /// It writes.
    pub fn writes(self) -> bool {
        !matches!(self, SharedMode::SequentialRead | SharedMode::RandomRead)
    }

    /// Files may be missing or short: the job makes them.
    pub fn makes_files(self) -> bool {
        matches!(self, SharedMode::Prepare | SharedMode::SequentialWrite)
    }

    /// Offsets are drawn, by the job's distribution.
    pub fn random(self) -> bool {
        matches!(
            self,
            SharedMode::RandomRead | SharedMode::RandomWrite | SharedMode::RandomMix
        )
    }
}

/// `count` files of one length, named `test_file.0`, `test_file.1`, …, and the rule by which all clones together
/// go through them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SharedFiles {
    /// Backend.
    pub engine: Engine,
    /// Number of files; at least 1.
    pub count: u32,
    /// How the blocks of random modes are drawn.
    pub distribution: Distribution,
    /// The job's own seed, where it has one; otherwise the trial's.
    pub seed: Option<u64>,
    /// What is done.
    pub mode: SharedMode,
    /// Length of each file, bytes.
    pub file_size: u64,
    /// Bytes of a request; the last one of a file may be shorter.
    pub block: u64,
    /// Bytes of a sequential request, where several blocks are merged; 0: one block.
    pub merged: u64,
    /// `rndrw`: a clone reads while (its reads + 1) ÷ (its writes + 1) is less than this.
    pub read_write_ratio: f64,
    /// All files are synced after so many requests of all clones (reads count too where something was
    /// written since); 0: never.
    pub fsync_every: u32,
    /// The file is synced after each write, and not otherwise.
    pub fsync_all: bool,
    /// All files are synced at the end; timed as the step `EndFsync`.
    pub fsync_end: bool,
    /// fdatasync in place of fsync.
    pub data_only: bool,
    /// Each block ends in a checksum and its offset, which reads check.
    pub validate: bool,
}

impl SharedFiles {
    /// The name of a file, numbered from 0.
    pub fn file_name(number: u32) -> String {
        format!("test_file.{number}")
    }

    /// Bytes of all files together.
    pub fn total_size(&self) -> u64 {
        self.file_size.saturating_mul(u64::from(self.count))
    }

    /// Bytes of a request, at least 1: a block, or in sequential modes as many as are merged.
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
            block_sizes: PerDirection::all(BlockSizes::Fixed(self.block.max(self.merged))),
            block_align: PerDirection::all(self.block),
            distribution: PerDirection::all(self.distribution.clone()),
            percent_random: PerDirection::all(if mode.random() { 100 } else { 0 }),
            random_map: false,
            repeatable: false,
            seed: self.seed,
            ..Access::default()
        }
    }

    /// The job as a job file would describe it, as far as it can: for formats that know nothing else.
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
        }
    }
}
