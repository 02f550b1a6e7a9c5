//! The times in which no op of a clone ended.

use std::sync::{Mutex, PoisonError};

/// Beyond this number, pauses shorter than twice the least length are dropped.
const MOST: usize = 1024;

/// The times of at least some length in which no op of a clone ended, as recorded by its worker.
///
/// The worker takes the lock only to add one, at most a hundred times per second.
#[derive(Debug)]
pub struct Pauses(Mutex<LongestPauses>);

#[derive(Debug)]
struct LongestPauses {
    least_ns: u64,
    /// Start and end of each, ascending.
    list: Vec<(u64, u64)>,
}

impl Default for Pauses {
    fn default() -> Pauses {
        Pauses(Mutex::new(LongestPauses {
            least_ns: Pauses::MIN_NS,
            list: Vec::with_capacity(MOST),
        }))
    }
}

impl Pauses {
    /// Shorter times are not kept, ns.
    pub const MIN_NS: u64 = 10_000_000;

    /// Called by the worker: no op ended between these instants. Ignored if shorter than the kept ones.
    #[cold]
    pub(crate) fn add(&self, from: u64, to: u64) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = &mut *kept;
        if kept.list.len() == MOST {
            // Until there is room: all may be alike.
            while kept.list.len() == MOST {
                kept.least_ns = kept.least_ns.saturating_mul(2);
                let least_ns = kept.least_ns;
                kept.list.retain(|(from, to)| to - from >= least_ns);
            }
        }
        if to.saturating_sub(from) >= kept.least_ns {
            kept.list.push((from, to));
        }
    }

    /// Worker: forgets all.
    pub(crate) fn clear(&self) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.least_ns = Pauses::MIN_NS;
        kept.list.clear();
    }

    /// All of at least the returned length, ns: start and end of each on the engine's clock, ns, ascending.
    pub fn list(&self) -> (u64, Vec<(u64, u64)>) {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (kept.least_ns, kept.list.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn short_pauses_are_not_kept() {
        let pauses = Pauses::default();
        pauses.add(0, Pauses::MIN_NS - 1);
        pauses.add(20 * MS, 30 * MS);
        assert_eq!(pauses.list(), (Pauses::MIN_NS, vec![(20 * MS, 30 * MS)]));
        pauses.clear();
        assert_eq!(pauses.list(), (Pauses::MIN_NS, Vec::new()));
    }

    #[test]
    fn of_many_pauses_the_longest_are_kept_with_their_least_length() {
        let pauses = Pauses::default();
        // 10 ms each, and every hundredth one of a second.
        let mut now = 0;
        for number in 0..100_000u64 {
            let length = if number % 100 == 0 {
                1000 * MS
            } else {
                10 * MS
            };
            pauses.add(now, now + length);
            now += length + 1;
        }
        let (least_ns, list) = pauses.list();
        assert!(least_ns > 10 * MS && least_ns <= 1000 * MS, "{least_ns}");
        assert!(list.iter().all(|(from, to)| to - from >= least_ns));
        assert_eq!(list.len(), 1000);
    }
}
