//! Verification: whether the data read equal the data written.

use serde::{Deserialize, Serialize};

use crate::Pattern;

/// Checksum of each block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Checksum {
    /// CRC-32C (Castagnoli).
    Crc32c,
    /// XXH64.
    Xxhash64,
    /// The block is a known pattern without a header.
    Pattern(Pattern),
    /// Only the header (offset, sequence number, seed) is checked.
    HeaderOnly,
}

/// Verification of a job. Each block contains its offset, a sequence number and a seed, which distinguish
/// stale and misplaced blocks from torn ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verify {
    /// Checksum.
    pub checksum: Checksum,
    /// Bytes covered by each header; 0: the block.
    pub interval: u64,
    /// Whether a job that writes reads its data back and checks them.
    pub do_verify: bool,
    /// Only check what an earlier run with the same options wrote.
    pub only: bool,
    /// Check after this number of blocks was written; 0: at the end.
    pub backlog: u64,
    /// Number of blocks to check at a time; 0: the whole backlog.
    pub backlog_batch: u64,
    /// End the job at the first bad block.
    pub fatal: bool,
    /// Write bad blocks to files.
    pub dump: bool,
    /// Report a block of an earlier write than the last known one as stale.
    #[serde(default = "yes")]
    pub check_sequence: bool,
    /// Report a block with the seed of another job, or of another trial than the last known one, as stale.
    #[serde(default = "yes")]
    pub check_seed: bool,
    /// A job that writes records its last write to each block, for a later check.
    #[serde(default = "yes")]
    pub save_state: bool,
    /// Whether a job that only checks expects what was recorded.
    #[serde(default)]
    pub load_state: LoadState,
}

/// Whether the record of an earlier trial's writes is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadState {
    /// If there is one.
    #[default]
    IfThere,
    /// It must be there.
    Required,
    /// No.
    Never,
}

fn yes() -> bool {
    true
}

impl Default for Verify {
    fn default() -> Self {
        Verify {
            checksum: Checksum::Crc32c,
            interval: 0,
            do_verify: true,
            only: false,
            backlog: 0,
            backlog_batch: 0,
            fatal: false,
            dump: false,
            check_sequence: true,
            check_seed: true,
            save_state: true,
            load_state: LoadState::default(),
        }
    }
}
