//! After the last cycle: waits until the file system has finished the work that the cycles left to it.
//!
//! Other programs may write to the same file system in the meantime, so free space may never be steady. The deferred
//! work for unlinked files frees space; the drain waits for nothing else:
//!
//! - The file system is synced.
//! - After that, free space has to rise above its previous maximum by more than a tolerance, in bytes or in inodes,
//!   and again each time within half a second; otherwise the drain is done. Space that falls, or varies below that,
//!   is attributed to other programs and does not extend the drain.
//! - The span ends at the last such rise. If there was none, it ends with the sync.
//! - If space still rises after a minute, the wait ends: the span is then that of the sync alone.
//!
//! Two cases cannot be detected: other programs that free space look like the drain, and if they allocate more than
//! is freed, the drain ends early.

use std::os::fd::OwnedFd;

use iodyno_model::{Direction, FileSet, StopRequest};
use iodyno_sys::{Clock, MonotonicClock};
use rustix::fs::{fstatfs, syncfs};
use rustix::io::{Errno, retry_on_intr};

use crate::shared::CloneShared;

/// Free space that does not rise for this long is steady, ns.
const STEADY_NS: u64 = 500_000_000;
/// Interval between readings of free space, ns.
const LOOK_NS: u64 = 10_000_000;
/// Maximum wait, ns.
const PATIENCE_NS: u64 = 60_000_000_000;
/// Smallest rise that counts, bytes.
const MIN_BYTES: u64 = 1 << 20;
/// Smallest rise that counts, inodes. XFS and ZFS derive the number of free inodes from the free space, up to this
/// number from [`MIN_BYTES`].
const MIN_INODES: u64 = 4096;
/// The tolerance is at least the content of the sets divided by this number.
const SHARE: u64 = 1000;

/// Free space, or the rise of free space that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Free {
    bytes: u64,
    inodes: u64,
}

/// The result of draining.
#[derive(Debug)]
pub(super) struct Drained {
    /// When the file system was synced and its free space last rose, ns of the engine clock.
    pub(super) end: u64,
    /// Whether free space never became steady; `end` is then that of the sync.
    pub(super) restless: bool,
}

/// Syncs the file system and waits until its free space no longer rises. Returns early if the user ends the trial.
/// `sets` is the content before the cycles.
///
/// # Errors
/// The sync failed, or the folder's file system could not be queried.
pub(super) fn drain(
    folder: &OwnedFd,
    sets: &[FileSet],
    shared: &CloneShared,
) -> Result<Drained, Errno> {
    let clock = MonotonicClock;
    if let Some(seen) = shared.in_flight() {
        seen.begin(0, Direction::Sync, (0, 0), clock.now());
    }
    let result = retry_on_intr(|| syncfs(folder));
    if let Some(seen) = shared.in_flight() {
        seen.end(0);
    }
    result?;
    let synced = clock.now();
    let free = || {
        let found = retry_on_intr(|| fstatfs(folder))?;
        let block = u64::try_from(found.f_frsize).unwrap_or(0).max(1);
        Ok(Free {
            bytes: found.f_bfree.saturating_mul(block),
            inodes: found.f_ffree,
        })
    };
    settle(synced, &clock, Rises::beyond(sets), free, || {
        shared.stop_request() >= StopRequest::Finish
    })
}

/// Detects rises that count.
#[derive(Debug)]
struct Rises {
    tolerance: Free,
    /// The maximum of free space at the last rise.
    most: Option<Free>,
}

impl Rises {
    fn beyond(sets: &[FileSet]) -> Rises {
        let held = |of: &dyn Fn(&FileSet) -> u64| sets.iter().map(of).fold(0, u64::saturating_add);
        let bytes = held(&|set| set.count.saturating_mul(set.size));
        let inodes = held(&|set| set.count);
        Rises {
            tolerance: Free {
                bytes: MIN_BYTES.max(bytes / SHARE),
                inodes: MIN_INODES.max(inodes / SHARE),
            },
            most: None,
        }
    }

    /// Adds a reading; the first one is the reference for all others.
    fn counts(&mut self, found: Free) -> bool {
        let Some(most) = &mut self.most else {
            self.most = Some(found);
            return false;
        };
        let rose = found.bytes.saturating_sub(most.bytes) > self.tolerance.bytes
            || found.inodes.saturating_sub(most.inodes) > self.tolerance.inodes;
        if rose {
            most.bytes = most.bytes.max(found.bytes);
            most.inodes = most.inodes.max(found.inodes);
        }
        rose
    }
}

fn settle(
    start: u64,
    clock: &impl Clock,
    mut rises: Rises,
    mut look: impl FnMut() -> Result<Free, Errno>,
    stopped: impl Fn() -> bool,
) -> Result<Drained, Errno> {
    let mut end = start;
    loop {
        if rises.counts(look()?) {
            end = clock.now();
        }
        let now = clock.now();
        if now - end >= STEADY_NS || stopped() {
            let restless = false;
            return Ok(Drained { end, restless });
        }
        if now - start >= PATIENCE_NS {
            let (end, restless) = (start, true);
            return Ok(Drained { end, restless });
        }
        clock.sleep_until(now + LOOK_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_sys::VirtualClock;

    const MIB: i64 = 1 << 20;
    const MS: u64 = 1_000_000;

    /// Free bytes and inodes are `free(ms)` above a tebibyte and a million. Returns the result of the drain, and how
    /// long it took, both in ms.
    fn play(
        sets: &[(u64, u64)],
        free: impl Fn(i64) -> (i64, i64),
        told_at_ms: u64,
    ) -> (u64, bool, u64) {
        let clock = VirtualClock::default();
        let sets: Vec<FileSet> = sets
            .iter()
            .map(|(count, size)| FileSet {
                name: "files".to_owned(),
                count: *count,
                size: *size,
                fsync: true,
                folders: false,
            })
            .collect();
        let look = || {
            let (bytes, inodes) = free((clock.now() / MS) as i64);
            Ok(Free {
                bytes: (1u64 << 40).saturating_add_signed(bytes),
                inodes: 1_000_000u64.saturating_add_signed(inodes),
            })
        };
        let stopped = || clock.now() >= told_at_ms.saturating_mul(MS);
        let drained = settle(0, &clock, Rises::beyond(&sets), look, stopped).unwrap();
        (drained.end / MS, drained.restless, clock.now() / MS)
    }

    #[test]
    fn only_freed_space_prolongs_a_drain() {
        let check = |what: &str, sets: &[(u64, u64)], free: &dyn Fn(i64) -> (i64, i64), found| {
            assert_eq!(play(sets, free, u64::MAX), found, "{what}");
        };
        let few = &[(10, 1 << 20)][..];
        let large = &[(10_000, 2 << 20)][..];
        check("steady", few, &|_| (0, 0), (0, false, 500));
        check(
            "freed for two seconds",
            few,
            &|ms| (ms.min(2000) * MIB, 0),
            (2000, false, 2500),
        );
        check(
            "freed at once a while after the sync",
            few,
            &|ms| (if ms < 300 { 0 } else { 9 * MIB }, 0),
            (300, false, 800),
        );
        check(
            "inodes alone",
            few,
            &|ms| (0, ms.min(1000) * 1000),
            (1000, false, 1500),
        );
        check("others write", few, &|ms| (-ms * MIB, -ms), (0, false, 500));
        check(
            "others write and remove the same again and again",
            few,
            &|ms| (if ms % 100 < 50 { 0 } else { -50 * MIB }, 0),
            (0, false, 500),
        );
        check(
            "a tremor upwards below the tolerance",
            few,
            &|ms| (ms % 7 * MIB / 8, ms % 100),
            (0, false, 500),
        );
        check(
            "freed for a second while others write half as fast, and go on",
            few,
            &|ms| ((2 * ms.min(1000) - ms) * MIB, 0),
            (1000, false, 1500),
        );
        check(
            "of 20 GiB 20 MiB more are no rise",
            large,
            &|ms| (ms.min(20) * MIB, 0),
            (0, false, 500),
        );
        check(
            "slow, but more than the tolerance every half second",
            few,
            &|ms| (ms.min(1200) / 400 * 2 * MIB, 0),
            (1200, false, 1700),
        );
        check(
            "slower than that",
            few,
            &|ms| (ms / 600 * 2 * MIB, 0),
            (0, false, 500),
        );
    }

    #[test]
    fn a_drain_that_does_not_end_is_abandoned_and_counts_as_its_sync() {
        let found = play(&[], |ms| (ms * MIB, 0), u64::MAX);
        assert_eq!(found, (0, true, PATIENCE_NS / MS));
    }

    #[test]
    fn a_stop_request_ends_the_drain_at_the_next_reading_with_the_results_so_far() {
        let (end, restless, now) = play(&[], |ms| (ms * MIB, 0), 77);
        assert!(!restless);
        assert!(now <= 77 + LOOK_NS / MS && (60..=now).contains(&end));
    }

    #[test]
    fn tolerances_depend_on_the_content_of_the_sets() {
        let set = |count, size| FileSet {
            name: String::new(),
            count,
            size,
            fsync: false,
            folders: false,
        };
        let check = |sets: &[FileSet], bytes, inodes| {
            assert_eq!(Rises::beyond(sets).tolerance, Free { bytes, inodes });
        };
        check(&[], MIN_BYTES, MIN_INODES);
        check(&[set(1000, 1000), set(5, 5)], MIN_BYTES, MIN_INODES);
        check(&[set(10_000_000, 2000)], 20_000_000, 10_000);
        check(&[set(u64::MAX, u64::MAX)], u64::MAX / 1000, u64::MAX / 1000);
    }
}
