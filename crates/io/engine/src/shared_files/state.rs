//! Counters shared by all clones of a job on shared files.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU32};

use iodyno_model::{Job, SharedFiles, SharedMode};

use super::block_locks::{BlockLocks, Kind};
use super::geometry::Geometry;

/// The next action of a clone, determined over all clones together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// A request.
    Request,
    /// A sync of this file.
    Sync(u32),
}

/// Words that every clone writes; in cache lines separate from the words that are only read.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counters {
    /// See [`Syncs`].
    syncs: AtomicU64,
    /// Number of requests of a sequential mode that were assigned; while filling, number of files.
    cursor: AtomicU64,
    /// Number of events that were assigned.
    events: AtomicU64,
}

/// State shared by the clones of one job.
#[derive(Debug)]
pub struct SharedFilesState {
    geometry: Geometry,
    /// Number of requests after which all files are synced; 0: never.
    fsync_every: u32,
    /// Maximum number of events of all clones together.
    most_events: u64,
    counters: Counters,
    locks: Option<BlockLocks>,
    /// Where to start filling each file, bytes ([`SharedMode::Prepare`]); the length of the file if it is long enough.
    filled: Box<[u64]>,
    /// Files that are synced at the end.
    synced_at_end: Box<[u32]>,
    /// Number of clones that have not ended.
    unfinished: AtomicU32,
    /// Seed of the scattering of hot blocks, the same for all clones.
    pub(crate) scatter: u64,
}

/// The state of periodic syncs, in one word: 32 bits of requests since the last multiple of `fsync_every`, a bit that
/// is set after a write since the last round of syncs, 31 bits of the next file of the round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Syncs {
    requests: u32,
    dirty: bool,
    next: u32,
}

impl Syncs {
    fn of(word: u64) -> Syncs {
        Syncs {
            requests: (word >> 32) as u32,
            dirty: word & 1 == 1,
            next: word as u32 >> 1,
        }
    }

    fn word(self) -> u64 {
        u64::from(self.requests) << 32 | u64::from(self.next << 1 | u32::from(self.dirty))
    }

    /// sysbench's rule: a round of syncs begins at each multiple of `every` requests if something was written since
    /// the previous round, and no request comes between its syncs.
    fn turn(self, every: u32, files: u32, writes: bool) -> (Turn, Syncs) {
        if self.dirty && self.requests == 0 {
            let over = self.next + 1 >= files;
            let after = Syncs {
                requests: 0,
                dirty: !over,
                next: if over { 0 } else { self.next + 1 },
            };
            return (Turn::Sync(self.next), after);
        }
        let requests = self.requests + 1;
        let after = Syncs {
            requests: if requests >= every { 0 } else { requests },
            dirty: self.dirty || writes,
            next: self.next,
        };
        (Turn::Request, after)
    }
}

impl SharedFilesState {
    /// The state for a job with the rules `rule`, on files of these lengths in bytes. The places of hot blocks follow
    /// from `seed`.
    pub fn new(job: &Job, rule: &SharedFiles, lengths: &[u64], seed: u64) -> SharedFilesState {
        let files = lengths.len().min(u32::MAX as usize >> 1) as u32;
        let direct = rule.engine.direct;
        let begin = |length: u64| match length {
            length if length >= rule.file_size => length,
            // An incomplete last block has no trailer yet, and could not be continued with direct I/O.
            length if direct || rule.validate => length - length % rule.block.max(1),
            length => length,
        };
        let filled: Box<[u64]> = match rule.mode {
            SharedMode::Prepare => lengths.iter().map(|length| begin(*length)).collect(),
            _ => Box::default(),
        };
        let synced_at_end = match rule.mode {
            // As in sysbench, this includes files that were long enough.
            SharedMode::Prepare => (0..files).collect(),
            mode if mode.writes() && rule.fsync_end && !rule.fsync_all => (0..files).collect(),
            _ => Box::default(),
        };
        let waves = rule.mode.writes() && rule.mode != SharedMode::Prepare && !rule.fsync_all;
        let locked = rule.validate && rule.mode.writes() && rule.mode != SharedMode::Prepare;
        SharedFilesState {
            geometry: Geometry::of(rule, files),
            fsync_every: if waves { rule.fsync_every } else { 0 },
            most_events: match rule.mode {
                SharedMode::Prepare => u64::MAX,
                _ => job.end.ops.unwrap_or(u64::MAX),
            },
            counters: Counters::default(),
            locks: locked.then(BlockLocks::new),
            filled,
            synced_at_end,
            unfinished: AtomicU32::new(job.clones.max(1)),
            scatter: seed,
        }
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Counts an event of one clone; `false` if all were assigned.
    #[inline]
    pub(crate) fn event(&self) -> bool {
        self.most_events == u64::MAX
            || self.counters.events.fetch_add(1, Relaxed) < self.most_events
    }

    /// Whether all events were assigned.
    #[inline]
    pub(crate) fn over(&self) -> bool {
        self.most_events != u64::MAX && self.counters.events.load(Relaxed) >= self.most_events
    }

    /// The next action; `writes`: the clone's next request is a write.
    #[inline]
    pub(crate) fn turn(&self, writes: bool) -> Turn {
        if self.fsync_every == 0 {
            return Turn::Request;
        }
        let word = &self.counters.syncs;
        let mut seen = word.load(Relaxed);
        loop {
            let (turn, after) =
                Syncs::of(seen).turn(self.fsync_every, self.geometry.files(), writes);
            match word.compare_exchange_weak(seen, after.word(), Relaxed, Relaxed) {
                Ok(_) => return turn,
                Err(now) => seen = now,
            }
        }
    }

    /// The number of the next request of the sequence; it wraps.
    #[inline]
    pub(crate) fn next_in_sequence(&self) -> u64 {
        self.counters.cursor.fetch_add(1, Relaxed) % self.geometry.pieces()
    }

    /// The next file to fill, and the offset where to begin.
    pub(crate) fn next_to_fill(&self) -> Option<(u32, u64)> {
        loop {
            let file = self.counters.cursor.fetch_add(1, Relaxed);
            let from = *self.filled.get(usize::try_from(file).ok()?)?;
            if from < self.geometry.file_size() {
                return Some((file as u32, from));
            }
        }
    }

    /// Locks a block for an op; `false` if another op holds it.
    #[inline]
    pub(crate) fn take(&self, block: u64, kind: Kind) -> bool {
        self.locks
            .as_ref()
            .is_none_or(|locks| locks.take(block, kind))
    }

    /// Unlocks the block.
    #[inline]
    pub(crate) fn give_back(&self, block: u64, kind: Kind) {
        if let Some(locks) = &self.locks {
            locks.give_back(block, kind);
        }
    }
}

/// A clone's share in the state. The last one that ends or is dropped does the final syncs.
#[derive(Debug)]
pub struct SharedFilesPart {
    state: Arc<SharedFilesState>,
    left: AtomicBool,
}

impl SharedFilesPart {
    /// The share of one clone; call it once for each clone of the job.
    pub fn new(state: &Arc<SharedFilesState>) -> SharedFilesPart {
        SharedFilesPart {
            state: Arc::clone(state),
            left: AtomicBool::new(false),
        }
    }

    pub(crate) fn state(&self) -> &Arc<SharedFilesState> {
        &self.state
    }

    /// Called when the clone issues no more ops. Returns the files to sync: all files for the last clone.
    pub(crate) fn leave(&self) -> &[u32] {
        match self.left.swap(true, Relaxed) || self.state.unfinished.fetch_sub(1, AcqRel) != 1 {
            true => &[],
            false => &self.state.synced_at_end,
        }
    }
}

impl Drop for SharedFilesPart {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{shared_job, shared_rule};

    fn state(change: impl FnOnce(&mut SharedFiles, &mut Job)) -> SharedFilesState {
        let mut rule = shared_rule(SharedMode::RandomMix, 64, 4);
        let mut job = shared_job(&rule, 4);
        change(&mut rule, &mut job);
        SharedFilesState::new(&job, &rule, &[64; 4], 1)
    }

    #[test]
    fn the_packed_state_of_syncs_represents_its_extremes() {
        for syncs in [
            (0, false, 0),
            (u32::MAX, true, u32::MAX >> 1),
            (5, true, 0),
            (0, false, 7),
        ] {
            let (requests, dirty, next) = syncs;
            let syncs = Syncs {
                requests,
                dirty,
                next,
            };
            assert_eq!(Syncs::of(syncs.word()), syncs);
        }
    }

    #[test]
    fn all_files_are_synced_after_n_requests_if_any_of_them_wrote() {
        let state = state(|rule, _| rule.fsync_every = 3);
        let turns = |writes: &[bool]| -> Vec<Turn> {
            writes.iter().map(|writes| state.turn(*writes)).collect()
        };
        use Turn::{Request, Sync};
        assert_eq!(turns(&[false; 4]), [Request; 4], "reads alone sync nothing");
        assert_eq!(turns(&[true, false]), [Request; 2]);
        let wave = [Sync(0), Sync(1), Sync(2), Sync(3)];
        assert_eq!(turns(&[true; 4]), wave);
        assert_eq!(
            turns(&[false; 3]),
            [Request; 3],
            "nothing was written since"
        );
        assert_eq!(turns(&[true; 4])[..3], [Request; 3]);
    }

    #[test]
    fn the_exact_number_of_events_is_assigned() {
        let state = state(|_, job| job.end.ops = Some(100));
        let handed_out = std::thread::scope(|scope| {
            let clones: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..80).filter(|_| state.event()).count()))
                .collect();
            clones.into_iter().map(|c| c.join().unwrap()).sum::<usize>()
        });
        assert_eq!(handed_out, 100);
        assert!(state.over());
    }

    #[test]
    fn the_last_clone_to_end_syncs_for_all_and_does_so_once() {
        let state = Arc::new(state(|rule, job| {
            rule.fsync_end = true;
            job.clones = 3;
        }));
        let parts: Vec<_> = (0..3).map(|_| SharedFilesPart::new(&state)).collect();
        let [first, second, third] = &parts[..] else {
            panic!("three clones");
        };
        assert!(second.leave().is_empty());
        assert!(second.leave().is_empty(), "it left before");
        assert!(first.leave().is_empty());
        assert_eq!(third.leave(), [0, 1, 2, 3]);
        assert!(third.leave().is_empty());
    }

    #[test]
    fn files_are_filled_from_their_ends_and_long_ones_are_not_changed() {
        // (validate, direct) → where filling begins in each of the files of 64 bytes with blocks of 4.
        for (validate, direct, expected) in [
            (false, false, vec![(0, 0), (1, 5), (3, 60)]),
            (true, false, vec![(0, 0), (1, 4), (3, 60)]),
            (false, true, vec![(0, 0), (1, 4), (3, 60)]),
        ] {
            let mut rule = shared_rule(SharedMode::Prepare, 64, 4);
            rule.validate = validate;
            rule.engine.direct = direct;
            let state = SharedFilesState::new(&shared_job(&rule, 5), &rule, &[0, 5, 64, 60, 99], 1);
            let found: Vec<(u32, u64)> = std::iter::from_fn(|| state.next_to_fill()).collect();
            assert_eq!(found, expected);
        }
    }
}
