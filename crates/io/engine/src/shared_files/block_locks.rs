//! Locks for blocks: where contents are verified, a block must not be read while it is written.
//!
//! The table has a fixed length, independent of the number of blocks, so two blocks can share an entry. Then one of
//! them appears locked although it is not; the only effect is a second draw.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// Number of counters: many more than ops in flight, so that two ops rarely share one.
const CELLS: usize = 1 << 16;
const WRITTEN: u32 = u32::MAX;

/// The kind of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Shared: for reads.
    Read,
    /// Exclusive: for a write.
    Write,
}

/// The table: number of readers for each entry, or [`WRITTEN`].
#[derive(Debug)]
pub(super) struct BlockLocks(Box<[AtomicU32]>);

impl BlockLocks {
    pub(super) fn new() -> BlockLocks {
        BlockLocks((0..CELLS).map(|_| AtomicU32::new(0)).collect())
    }

    fn entry(&self, block: u64) -> &AtomicU32 {
        // Fibonacci hashing: neighbouring blocks get distant counters.
        let hash = block.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.0[(hash >> 48) as usize % CELLS]
    }

    /// Locks a block; `false` if it is locked.
    pub(super) fn take(&self, block: u64, kind: Kind) -> bool {
        let entry = self.entry(block);
        match kind {
            Kind::Write => entry.compare_exchange(0, WRITTEN, AcqRel, Relaxed).is_ok(),
            Kind::Read => {
                let one_more = |readers| (readers != WRITTEN).then(|| readers + 1);
                entry.fetch_update(AcqRel, Acquire, one_more).is_ok()
            }
        }
    }

    /// Unlocks a block that was locked with this kind.
    pub(super) fn give_back(&self, block: u64, kind: Kind) {
        let entry = self.entry(block);
        match kind {
            Kind::Write => entry.store(0, Release),
            Kind::Read => {
                entry.fetch_sub(1, Release);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_share_a_block_and_a_writer_excludes_others() {
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
    fn neighbours_rarely_share_an_entry() {
        let locks = BlockLocks::new();
        let taken = (0..1000).filter(|block| locks.take(*block, Kind::Write));
        assert!(taken.count() > 980);
    }
}
