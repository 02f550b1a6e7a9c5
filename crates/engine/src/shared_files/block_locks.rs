//! Which blocks are at work: where contents are checked, none may be read while it is written.
//!
//! A table of fixed length, however many blocks there are: two blocks may meet in one cell. Then one of
//! them is taken to be at work though it is not, which costs a second draw and is never wrong.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// Many more than ops are ever in flight, so that cells are seldom shared.
const CELLS: usize = 1 << 16;
const WRITTEN: u32 = u32::MAX;

/// What is done to a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Read: others may read it, too.
    Read,
    /// Written: by nobody else.
    Write,
}

/// The table: readers of each cell, or [`WRITTEN`].
#[derive(Debug)]
pub(super) struct BlockLocks(Box<[AtomicU32]>);

impl BlockLocks {
    pub(super) fn new() -> BlockLocks {
        BlockLocks((0..CELLS).map(|_| AtomicU32::new(0)).collect())
    }

    fn cell(&self, block: u64) -> &AtomicU32 {
        // Fibonacci hashing: neighbours come to lie far apart.
        let hash = block.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.0[(hash >> 48) as usize % CELLS]
    }

    /// Takes a block; `false` if it is at work.
    pub(super) fn take(&self, block: u64, kind: Kind) -> bool {
        let cell = self.cell(block);
        match kind {
            Kind::Write => cell.compare_exchange(0, WRITTEN, AcqRel, Relaxed).is_ok(),
            Kind::Read => {
                let one_more = |readers| (readers != WRITTEN).then(|| readers + 1);
                cell.fetch_update(AcqRel, Acquire, one_more).is_ok()
            }
        }
    }

    /// Gives a block back that was taken so.
    pub(super) fn give_back(&self, block: u64, kind: Kind) {
        let cell = self.cell(block);
        match kind {
            Kind::Write => cell.store(0, Release),
            Kind::Read => {
                cell.fetch_sub(1, Release);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_share_a_block_and_a_writer_has_it_alone() {
        use Kind::{Read, Write};
        let locks = BlockLocks::new();
        assert!(locks.take(7, Read) && locks.take(7, Read));
        assert!(!locks.take(7, Write));
        locks.give_back(7, Read);
        assert!(!locks.take(7, Write));
        locks.give_back(7, Read);
        assert!(locks.take(7, Write));
        assert!(!locks.take(7, Read) && !locks.take(7, Write));
        assert!(locks.take(8, Write), "another block is free");
        locks.give_back(7, Write);
        assert!(locks.take(7, Read));
    }

    #[test]
    fn neighbours_seldom_share_a_cell() {
        let locks = BlockLocks::new();
        let taken = (0..1000).filter(|block| locks.take(*block, Kind::Write));
        assert!(taken.count() > 980);
    }
}
