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
    /// XXH32 with seed 1; fio's `xxhash`. This and the following ones are in fio's headers only.
    Xxhash32,
    /// MD5.
    Md5,
    /// CRC-7 (MMC).
    Crc7,
    /// CRC-16 (ARC).
    Crc16,
    /// CRC-32 of POSIX's `cksum`, without the length and without inversion.
    Crc32,
    /// CRC-64 with the polynomial of Jones.
    Crc64,
    /// SHA-1.
    Sha1,
    /// fio's variant of SHA-256.
    Sha256,
    /// SHA-512, followed by the end of the last block that was hashed.
    Sha512,
    /// SHA3-224.
    #[serde(rename = "sha3_224")]
    Sha3_224,
    /// SHA3-256.
    #[serde(rename = "sha3_256")]
    Sha3_256,
    /// SHA3-384.
    #[serde(rename = "sha3_384")]
    Sha3_384,
    /// SHA3-512.
    #[serde(rename = "sha3_512")]
    Sha3_512,
    /// The header, and a known pattern after it.
    PatternWithHeader,
    /// Nothing: blocks are read back and not checked.
    Nothing,
}

impl Checksum {
    /// Whether blocks have a header.
    pub fn has_header(&self) -> bool {
        !matches!(self, Checksum::Pattern(_) | Checksum::Nothing)
    }

    /// Length of the checksum in a header of fio, bytes.
    pub fn length_in_fio(&self) -> u64 {
        match self {
            Checksum::Crc7 => 1,
            Checksum::Crc16 => 2,
            Checksum::Crc32c | Checksum::Crc32 | Checksum::Xxhash32 => 4,
            Checksum::Crc64 => 8,
            Checksum::Md5 => 16,
            Checksum::Sha1 => 20,
            Checksum::Sha3_224 => 28,
            Checksum::Sha3_256 => 32,
            Checksum::Sha3_384 => 48,
            Checksum::Sha256 | Checksum::Sha3_512 => 64,
            Checksum::Sha512 => 128,
            Checksum::Pattern(_)
            | Checksum::HeaderOnly
            | Checksum::PatternWithHeader
            | Checksum::Nothing
            | Checksum::Xxhash64 => 0,
        }
    }
}

impl Verify {
    /// The smallest grid of block starts that can be verified, bytes. Each point of the grid takes memory.
    pub const MIN_GRID: u64 = 512;

    /// Length of a header with its checksum, bytes; 0: blocks have none.
    pub fn header_length(&self) -> u64 {
        match self.header {
            _ if !self.checksum.has_header() => 0,
            HeaderFormat::Iodyno => 56,
            HeaderFormat::Fio => 48 + self.checksum.length_in_fio(),
            HeaderFormat::Fio340 => 40 + self.checksum.length_in_fio(),
        }
    }
}

/// Layout of the header of each block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeaderFormat {
    /// iodyno's.
    #[default]
    Iodyno,
    /// fio's, from version 3.41 on.
    Fio,
    /// fio's, up to version 3.40.
    Fio340,
}

/// A pattern of blocks whose content depends on the block's offset, or that is checked together with a header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockPattern {
    /// The pattern, repeated from the start of the block.
    pub bytes: Pattern,
    /// Positions in it where the block's offset is put, 8 bytes, little-endian.
    pub offsets: Vec<u32>,
    /// The pattern starts anew, with another offset, after this number of bytes; 0: with each block.
    pub interval: u64,
}

/// Verification of a job. Each block contains its offset, a sequence number and a seed, which distinguish
/// stale and misplaced blocks from torn ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verify {
    /// Checksum.
    pub checksum: Checksum,
    /// Layout of the headers.
    #[serde(default)]
    pub header: HeaderFormat,
    /// Bytes by which a header of fio is moved into its block: it changes places with the data there.
    #[serde(default)]
    pub header_offset: u64,
    /// The pattern that fills blocks, unless `checksum` says all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<BlockPattern>,
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
    /// Trim some of the written blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trim: Option<VerifyTrim>,
}

/// Blocks that are trimmed after they were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct VerifyTrim {
    /// Percentage of the written blocks.
    pub percent: u32,
    /// Trim after this number of blocks was written; at least 1.
    pub backlog: u32,
    /// Number of blocks to trim at a time; at least 1.
    pub batch: u32,
    /// Check that trimmed blocks read as zeros; otherwise they are not checked.
    pub check_zero: bool,
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
            header: HeaderFormat::Iodyno,
            header_offset: 0,
            pattern: None,
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
            trim: None,
        }
    }
}
