//! Whether what is read is what was written.

use serde::{Deserialize, Serialize};

use crate::Pattern;

/// The check carried by each block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Checksum {
    /// CRC-32C (Castagnoli).
    Crc32c,
    /// XXH64.
    Xxhash64,
    /// The block is a known pattern; no header.
    Pattern(Pattern),
    /// Only the header (offset, sequence number, seed) is checked.
    HeaderOnly,
}

/// Verification of a job. Each block carries its offset, a sequence number and a seed, so that a
/// stale or misplaced block is told from a torn one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verify {
    /// How.
    pub checksum: Checksum,
    /// Bytes each header stands for; 0: the block.
    pub interval: u64,
    /// A job that writes reads back and checks.
    pub do_verify: bool,
    /// Only checks what an earlier run with the same options wrote.
    pub only: bool,
    /// Checks after so many blocks written; 0: at the end.
    pub backlog: u64,
    /// Checks so many blocks in a row; 0: all of the backlog.
    pub backlog_batch: u64,
    /// The first bad block ends the job.
    pub fatal: bool,
    /// Bad blocks are written to files.
    pub dump: bool,
    /// A block of an earlier write than the last one known is stale.
    #[serde(default = "yes")]
    pub check_sequence: bool,
    /// A block with another job's seed is stale.
    #[serde(default = "yes")]
    pub check_seed: bool,
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
        }
    }
}
