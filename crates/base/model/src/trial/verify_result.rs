//! Results of verification.

use serde::{Deserialize, Serialize};

/// Result of verification.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct VerifyResult {
    /// Blocks checked.
    pub checked: u64,
    /// Blocks whose checksum does not match their content: torn or corrupt.
    pub corrupt: u64,
    /// Complete blocks that belong to another offset or file.
    pub misplaced: u64,
    /// Complete blocks of the right offset from an earlier write.
    pub stale: u64,
    /// Blocks without a header of iodyno.
    pub foreign: u64,
    /// Blocks that were not checked, because it is not known that their last write was done: it failed, was not made,
    /// or was a trim.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub unchecked: u64,
    /// Description of the first bad block: file, offset, expected, found.
    pub first: Option<String>,
    /// The first bad blocks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bad_blocks: Vec<BadBlock>,
}

impl VerifyResult {
    /// Maximum number of bad blocks that are named; the others are counted.
    pub const MAX_NAMED: usize = 10;

    /// What to do if named blocks were written with other options; `None` if there are none.
    pub fn remedy<'r>(results: impl IntoIterator<Item = &'r VerifyResult>) -> Option<String> {
        let blocks = results.into_iter().flat_map(|result| &result.bad_blocks);
        let mut options: Vec<String> = Vec::new();
        for option in blocks.filter_map(|block| block.fitting.as_ref()) {
            let option = format!("`{option}`");
            if !options.contains(&option) {
                options.push(option);
            }
        }
        let written = "to verify the blocks as they were written";
        (!options.is_empty()).then(|| format!("use {}, {written}", options.join(" or ")))
    }

    /// Adds the results of another clone.
    pub fn add(&mut self, other: &VerifyResult) {
        self.checked += other.checked;
        self.corrupt += other.corrupt;
        self.misplaced += other.misplaced;
        self.stale += other.stale;
        self.foreign += other.foreign;
        self.unchecked += other.unchecked;
        self.first = self.first.take().or_else(|| other.first.clone());
        let room = VerifyResult::MAX_NAMED.saturating_sub(self.bad_blocks.len());
        let named = other.bad_blocks.iter().take(room).cloned();
        self.bad_blocks.extend(named);
    }

    /// Number of bad blocks of all kinds.
    pub fn bad(&self) -> u64 {
        self.corrupt + self.misplaced + self.stale + self.foreign
    }

    /// Names a bad block, unless enough are named.
    pub fn name(&mut self, block: BadBlock) {
        self.first.get_or_insert_with(|| {
            format!(
                "{} at offset {}: found {}",
                block.file, block.offset, block.found
            )
        });
        if self.bad_blocks.len() < VerifyResult::MAX_NAMED {
            self.bad_blocks.push(block);
        }
    }
}

/// A block whose data differ from what was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadBlock {
    /// File.
    pub file: String,
    /// Offset in the file, bytes.
    #[serde(rename = "offset_bytes")]
    pub offset: u64,
    /// Length, bytes.
    #[serde(rename = "length_bytes")]
    pub length: u64,
    /// What was found in its place, and what was expected where that is known.
    pub found: String,
    /// The option with which a block that is whole could be verified: `verify=crc32c`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fitting: Option<String>,
}
