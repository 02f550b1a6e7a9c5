//! Policies that count requests.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{LegView, PolicyKind, ReadPolicy, ReadRequest, least, nth, readable};

/// The leg with the fewest pending requests. Ties are kept for a time slot, so that neighbouring requests reach one leg
/// and merge there. The rule of ZFS's commit 556011dbec (2013): only issued requests count, and
/// `zfs_vdev_mirror_switch_us` = 10 000. The slots are those of the clock, the same for all mirrors.
#[derive(Debug, Clone)]
pub struct LeastPending {
    /// Length of a slot (T), ns.
    pub slot_ns: u64,
}

impl Default for LeastPending {
    fn default() -> LeastPending {
        LeastPending {
            slot_ns: 10_000_000,
        }
    }
}

impl ReadPolicy for LeastPending {
    fn kind(&self) -> PolicyKind {
        PolicyKind::LeastPending
    }

    fn choose(&mut self, _: &ReadRequest, legs: &[LegView], now: u64) -> Option<usize> {
        let lowest = readable(legs).map(|leg| legs[leg].pending).min()?;
        let tied = |leg: usize| legs[leg].pending == lowest;
        nth(legs, tied, now / self.slot_ns.max(1))
    }
}

/// The one of two random legs with fewer requests, issued or queued (M. Mitzenmacher, "The power of two choices in
/// randomized load balancing", 2001).
#[derive(Debug, Clone)]
pub struct PowerOfTwo {
    random: Xoshiro256PlusPlus,
}

impl PowerOfTwo {
    /// Draws with this seed.
    pub fn new(seed: u64) -> PowerOfTwo {
        PowerOfTwo {
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }
}

impl ReadPolicy for PowerOfTwo {
    fn kind(&self) -> PolicyKind {
        PolicyKind::PowerOfTwo
    }

    fn choose(&mut self, _: &ReadRequest, legs: &[LegView], _: u64) -> Option<usize> {
        let count = readable(legs).count() as u64;
        if count < 2 {
            return readable(legs).next();
        }
        let one = self.random.random_range(0..count);
        let other = (one + self.random.random_range(1..count)) % count;
        let one = nth(legs, |_| true, one)?;
        let other = nth(legs, |_| true, other)?;
        let drawn = |leg: usize| leg == one || leg == other;
        least(legs, |leg| (!drawn(leg), legs[leg].requests(), leg != one))
    }
}
