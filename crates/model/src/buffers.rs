//! What the ops carry, and the memory it lies in.

use serde::{Deserialize, Serialize};

/// Bytes repeated over a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pattern(pub Vec<u8>);

/// What a written block holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// Pseudo-random bytes: incompressible.
    Random,
    /// Zeroes.
    Zero,
    /// A pattern, repeated.
    Pattern(Pattern),
    /// Of each chunk (0: the whole block) this share in percent is compressible, filled with the
    /// pattern or zeroes; the rest is pseudo-random.
    Compressible {
        /// Percent, 0–100.
        percent: u32,
        /// Bytes; 0: the block.
        chunk: u64,
        /// The compressible filling; zeroes where absent.
        pattern: Option<Pattern>,
    },
}

/// Where the buffers lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    /// Ordinary anonymous memory.
    #[default]
    Anonymous,
    /// Huge pages where the host has them free; ordinary ones otherwise, and the result says so.
    Huge,
}

/// How buffers are made and filled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Buffers {
    /// What writes carry.
    pub content: Content,
    /// Filled anew for each write; otherwise once, with one 64-bit word changed in each write.
    pub refill: bool,
    /// Share of writes in percent that repeat an earlier block's content.
    pub dedupe_percent: u32,
    /// Alignment within the page, in bytes.
    pub align: u64,
    /// Memory kind.
    pub memory: Memory,
}

impl Default for Buffers {
    fn default() -> Self {
        Buffers {
            content: Content::Random,
            refill: false,
            dedupe_percent: 0,
            align: 0,
            memory: Memory::Anonymous,
        }
    }
}
