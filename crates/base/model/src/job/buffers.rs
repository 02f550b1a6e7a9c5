//! I/O buffers: their contents and their memory.

use serde::{Deserialize, Serialize};

/// Bytes that are repeated to fill a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pattern(pub Vec<u8>);

/// Content of a written block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// Pseudo-random bytes: incompressible.
    Random,
    /// Zeroes.
    Zero,
    /// A repeated pattern.
    Pattern(Pattern),
    /// This percentage of each chunk is compressible: filled with the pattern or with zeroes. The rest is
    /// pseudo-random.
    Compressible {
        /// Compressible share in percent, 0–100.
        percent: u32,
        /// Length of a chunk, bytes; 0: the block.
        chunk: u64,
        /// Filling of the compressible part; `None`: zeroes.
        pattern: Option<Pattern>,
    },
}

/// Kind of memory of the buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    /// Ordinary anonymous memory.
    #[default]
    Anonymous,
    /// Huge pages if the host has free ones; otherwise ordinary pages, which the result reports.
    Huge,
}

/// How buffers are allocated and filled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Buffers {
    /// Content of writes.
    pub content: Content,
    /// Whether each write gets new content. Otherwise buffers are filled once.
    pub refill: bool,
    /// Whether each write changes one 64-bit word per 512 bytes of a random buffer that is not refilled, so that no two
    /// sectors are equal.
    #[serde(default = "yes")]
    pub scramble: bool,
    /// Percentage of writes that repeat the content of an earlier block.
    pub dedupe_percent: u32,
    /// Offset of each buffer from the start of a page, bytes.
    pub align: u64,
    /// Kind of memory.
    pub memory: Memory,
}

fn yes() -> bool {
    true
}

impl Default for Buffers {
    fn default() -> Self {
        Buffers {
            content: Content::Random,
            refill: false,
            scramble: true,
            dedupe_percent: 0,
            align: 0,
            memory: Memory::Anonymous,
        }
    }
}
