//! After the last cycle: until what it left to the file system is done.

use std::os::fd::OwnedFd;

use iodyno_io::{Clock, MonotonicClock};
use rustix::fs::{fstatfs, syncfs};
use rustix::io::{Errno, retry_on_intr};

use crate::shared::{CloneShared, Stop};

/// Free space that has not changed for so long is steady, ns.
const STEADY_NS: u64 = 500_000_000;
/// How often it is looked at, ns.
const LOOK_NS: u64 = 10_000_000;
/// The longest it is waited for, ns.
const PATIENCE_NS: u64 = 60_000_000_000;

/// What came of draining.
#[derive(Debug)]
pub(super) struct Drained {
    /// When the file system was synced and its free space last changed; the engine clock's ns.
    pub(super) end: u64,
    /// It never became steady.
    pub(super) restless: bool,
}

/// Syncs the file system and waits until its free blocks and inodes are steady; returns early when told
/// that the user ends the trial.
///
/// # Errors
/// The sync failed, or the folder does not answer.
pub(super) fn drain(folder: &OwnedFd, shared: &CloneShared) -> Result<Drained, Errno> {
    let clock = MonotonicClock;
    retry_on_intr(|| syncfs(folder))?;
    let synced = clock.now();
    let free = || retry_on_intr(|| fstatfs(folder)).map(|found| (found.f_bfree, found.f_ffree));
    settle(synced, &clock, free, || shared.told() >= Stop::Finish)
}

fn settle<T: PartialEq>(
    start: u64,
    clock: &impl Clock,
    mut look: impl FnMut() -> Result<T, Errno>,
    told: impl Fn() -> bool,
) -> Result<Drained, Errno> {
    let (mut end, mut seen) = (start, look()?);
    loop {
        let now = clock.now();
        let steady = now - end >= STEADY_NS;
        let restless = now - start >= PATIENCE_NS;
        if steady || restless || told() {
            return Ok(Drained {
                end,
                restless: restless && !steady,
            });
        }
        clock.sleep_until(now + LOOK_NS);
        let found = look()?;
        if found != seen {
            (end, seen) = (clock.now(), found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_io::VirtualClock;

    /// Free space changes every `every` ns until `until`.
    fn play(every: u64, until: u64, told_at: u64) -> (Drained, u64) {
        let clock = VirtualClock::default();
        let look = || Ok(clock.now().min(until) / every);
        let drained = settle(0, &clock, look, || clock.now() >= told_at).unwrap();
        (drained, clock.now())
    }

    #[test]
    fn a_drain_ends_at_the_last_change_and_is_sure_of_it_half_a_second_later() {
        let (drained, now) = play(100_000_000, 2_000_000_000, u64::MAX);
        assert_eq!((drained.end, drained.restless), (2_000_000_000, false));
        assert_eq!(now, 2_500_000_000);
    }

    #[test]
    fn space_that_was_steady_from_the_start_takes_no_time() {
        let (drained, _) = play(1, 0, u64::MAX);
        assert_eq!((drained.end, drained.restless), (0, false));
    }

    #[test]
    fn space_that_never_rests_is_given_up_with_a_word() {
        let (drained, now) = play(100_000_000, u64::MAX, u64::MAX);
        assert!(drained.restless);
        assert_eq!(now, PATIENCE_NS);
    }

    #[test]
    fn a_word_to_end_is_heard_within_a_look() {
        let (drained, now) = play(1_000_000, u64::MAX, 77_000_000);
        assert!(!drained.restless);
        assert!(now <= 77_000_000 + LOOK_NS);
    }
}
