//! Whether the thread of a ring looks for more requests before it sleeps.

use std::time::Duration;

/// How long a ring's thread looks for more requests at most, before it sleeps.
pub(crate) const SPINS: Duration = Duration::from_micros(20);
/// A spin that found nothing counts as this, ns, and no sleep counts as longer.
const MAX_NS: u64 = 40_000;
/// Once in this many times that the ring is empty, the thread does the opposite, in case conditions have changed.
const TRIED: u32 = 64;

/// Whether spins pay: they shorten the time that a ring is empty by a third. This time is measured, smoothed: with a
/// spin, it is that of the client; with a sleep, it is longer by the cost of being woken up. On some hosts and at some
/// times this is 2 µs, on others 30.
#[derive(Debug, Default)]
pub(crate) struct Spin {
    /// How long the ring was empty, ns, smoothed; 0: unknown.
    spun_ns: u64,
    slept_ns: u64,
    tried: u32,
}

impl Spin {
    /// Whether to spin now.
    pub(crate) fn spins(&mut self) -> bool {
        let pays = match (self.spun_ns, self.slept_ns) {
            (0, _) => return true,
            (_, 0) => return false,
            (spun, slept) => 3 * spun <= 2 * slept,
        };
        self.tried = (self.tried + 1) % TRIED;
        pays != (self.tried == 0)
    }

    /// A spin that found requests after this time, or nothing.
    pub(crate) fn spun(&mut self, found: Option<Duration>) {
        smooth(
            &mut self.spun_ns,
            found.map_or(MAX_NS, |time| time.as_nanos() as u64),
        );
    }

    /// Records that the ring was empty for this time while its thread did not spin.
    pub(crate) fn slept(&mut self, time: Duration) {
        smooth(&mut self.slept_ns, time.as_nanos() as u64);
    }
}

fn smooth(value: &mut u64, ns: u64) {
    let ns = ns.clamp(1, MAX_NS);
    *value = match *value {
        0 => ns,
        old => (old * 7 + ns).div_ceil(8),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of 6400 times a thread spins if its client returns after `client` µs, and waking the thread takes
    /// `wakes` µs more.
    fn spins(spin: &mut Spin, client: u64, wakes: u64) -> u64 {
        let mut count = 0;
        for _ in 0..100 * TRIED {
            let time = Duration::from_micros(client);
            if spin.spins() {
                count += 1;
                spin.spun((time < SPINS).then_some(time));
            } else {
                spin.slept(time + Duration::from_micros(wakes));
            }
        }
        count
    }

    #[test]
    fn a_ring_spins_where_it_is_empty_for_a_shorter_time_then() {
        let mut spin = Spin::default();
        let mut share = |client, wakes| spins(&mut spin, client, wakes) * 100 / 6400;
        // A thread is woken up fast, or slowly.
        assert!(share(7, 3) < 10);
        assert!(share(12, 30) > 90);
        // The client returns later than a spin lasts, even after seconds.
        assert!(share(30, 30) < 10);
        assert!(share(1_000_000, 30) < 10);
        // A change of conditions is noticed after some tries.
        assert!(share(2, 10) > 70);
        assert!(share(4, 1) < 30);
    }
}
