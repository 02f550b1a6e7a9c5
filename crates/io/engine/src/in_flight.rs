//! The ops in flight of a worker, readable by other threads: they are reported when the storage is stuck.
//!
//! The worker is the only writer. It stores with relaxed atomics, like [`crate::counters`]. A reader may see an op that
//! has just ended, or miss one that has just begun. Of an op that remains in flight it reads exact values.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use iodyno_model::Direction;
use iodyno_sys::Slot;

/// The slots of a worker.
#[derive(Debug)]
pub struct OpsInFlight {
    /// The files, for messages. An op names one by its index.
    pub(crate) names: Vec<String>,
    slots: Box<[SlotCells]>,
    ended: AtomicU64,
}

#[derive(Debug, Default)]
struct SlotCells {
    /// When the op began, ns of the engine clock; 0: the slot is idle.
    since: AtomicU64,
    offset: AtomicU64,
    /// Direction (its index in [`Direction::EVERY`]) and file.
    what: AtomicU64,
}

/// An op in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpInFlight {
    /// Its kind.
    pub direction: Direction,
    /// The file, or the folder of file operations.
    pub file: String,
    /// Offset in the file, bytes; `None` for syncs and file operations.
    pub offset: Option<u64>,
    /// When it began, ns of the engine clock.
    pub since: u64,
}

impl OpsInFlight {
    /// The slots of a worker with these files and this depth.
    pub(crate) fn new(names: Vec<String>, depth: u32) -> OpsInFlight {
        OpsInFlight {
            names,
            slots: (0..depth.max(1)).map(|_| SlotCells::default()).collect(),
            ended: AtomicU64::new(0),
        }
    }

    /// Worker: an op begins.
    #[inline]
    pub(crate) fn begin(
        &self,
        slot: Slot,
        direction: Direction,
        (file, offset): (u32, u64),
        now: u64,
    ) {
        let cells = &self.slots[slot as usize];
        cells.offset.store(offset, Relaxed);
        let what = (direction as u64) << 32 | u64::from(file);
        cells.what.store(what, Relaxed);
        cells.since.store(now.max(1), Release);
    }

    /// Worker: the op of a slot has ended, with or without an error.
    #[inline]
    pub(crate) fn end(&self, slot: Slot) {
        self.slots[slot as usize].since.store(0, Relaxed);
        self.ended.store(self.ended.load(Relaxed) + 1, Relaxed);
    }

    /// Number of ops that have ended.
    pub fn ended(&self) -> u64 {
        self.ended.load(Relaxed)
    }

    /// Whether any op is in flight.
    pub fn any(&self) -> bool {
        self.slots
            .iter()
            .any(|cells| cells.since.load(Relaxed) != 0)
    }

    /// The ops in flight, the oldest first.
    pub fn list(&self) -> Vec<OpInFlight> {
        let mut ops: Vec<OpInFlight> = self
            .slots
            .iter()
            .filter_map(|cells| self.op(cells))
            .collect();
        ops.sort_by_key(|op| op.since);
        ops
    }

    fn op(&self, cells: &SlotCells) -> Option<OpInFlight> {
        let since = cells.since.load(Acquire);
        let (what, offset) = (cells.what.load(Relaxed), cells.offset.load(Relaxed));
        let direction = *Direction::EVERY.get((what >> 32) as usize)?;
        let at_offset = matches!(
            direction,
            Direction::Read | Direction::Write | Direction::Trim
        );
        (since != 0).then(|| OpInFlight {
            direction,
            file: self
                .names
                .get(what as u32 as usize)
                .cloned()
                .unwrap_or_default(),
            offset: at_offset.then_some(offset),
            since,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_what_has_begun_and_not_ended() {
        let ops = OpsInFlight::new(vec!["a".to_owned(), "b".to_owned()], 3);
        assert!(!ops.any() && ops.list().is_empty());
        ops.begin(2, Direction::Write, (1, 8192), 30);
        ops.begin(0, Direction::Sync, (0, 0), 20);
        ops.begin(1, Direction::Read, (0, 4096), 10);
        ops.end(1);
        let op = |direction, file: &str, offset, since| OpInFlight {
            direction,
            file: file.to_owned(),
            offset,
            since,
        };
        let listed = [
            op(Direction::Sync, "a", None, 20),
            op(Direction::Write, "b", Some(8192), 30),
        ];
        assert_eq!(ops.list(), listed);
        assert_eq!((ops.any(), ops.ended()), (true, 1));
        ops.end(0);
        ops.end(2);
        assert_eq!((ops.any(), ops.ended()), (false, 3));
    }
}
