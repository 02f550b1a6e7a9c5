//! One set of files that all clones walk by one law, as sysbench's fileio test does.

use serde::{Deserialize, Serialize};

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

    /// Offsets are drawn, by the access' distribution.
    pub fn random(self) -> bool {
        matches!(
            self,
            SharedMode::RandomRead | SharedMode::RandomWrite | SharedMode::RandomMix
        )
    }
}

/// Files `0 … count − 1` (the job's `files.count` and `files.format`), all of one length, and the law by
/// which all clones together walk them. The job's `access` says the same as far as it can: directions, order,
/// block size, distribution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SharedFiles {
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
    /// Bytes of a request, at least 1: a block, or in sequential modes as many as are merged.
    pub fn request(&self) -> u64 {
        match self.merged {
            merged if merged > 0 && !self.mode.random() => merged,
            _ => self.block,
        }
        .max(1)
    }
}
