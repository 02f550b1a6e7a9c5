//! Computes when the next op of a direction is due.

use iodyno_model::{Arrival, DirectionRate};
use rand::Rng;
use rand_distr::{Distribution, Exp1};

/// An open-loop schedule: due times depend on the rate only, not on when ops complete. An op that is issued late keeps
/// its due time, so the rate is kept and the delay is visible in the response latency.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// Interval per op and per byte, ns; 0 without such a rate.
    per_op: f64,
    per_byte: f64,
    poisson: bool,
    /// Time of the next op since the start, ns. An f64 represents single ns exactly for 104 days.
    due: f64,
    /// Number of ops issued.
    taken: u64,
}

impl Schedule {
    /// `None` if no rate is set. If both an op rate and a byte rate are set, the longer interval applies.
    pub(crate) fn new(rate: DirectionRate, arrival: Arrival) -> Option<Schedule> {
        let per_op = if rate.iops > 0.0 {
            1e9 / rate.iops
        } else {
            0.0
        };
        let per_byte = if rate.bytes_per_s > 0 {
            1e9 / rate.bytes_per_s as f64
        } else {
            0.0
        };
        (per_op > 0.0 || per_byte > 0.0).then_some(Schedule {
            per_op,
            per_byte,
            poisson: arrival == Arrival::Poisson,
            due: 0.0,
            taken: 0,
        })
    }

    /// When the next op is due, ns since the start.
    #[inline]
    pub(crate) fn due(&self) -> u64 {
        self.due as u64
    }

    /// Returns when the next op is due, and schedules the one after it.
    #[inline]
    pub(crate) fn take(&mut self, bytes: u64, random: &mut impl Rng) -> u64 {
        let due = self.due as u64;
        let distance = self.per_op.max(self.per_byte * bytes as f64);
        let factor: f64 = if self.poisson {
            Exp1.sample(random)
        } else {
            1.0
        };
        self.due += distance * factor;
        self.taken += 1;
        due
    }

    /// Number of ops that were due before `until` (ns since the start) and not issued; 0 if none was issued at all.
    /// Exact if the intervals are equal, otherwise estimated from their mean so far.
    pub(crate) fn missed(&self, until: u64) -> u64 {
        if self.taken == 0 {
            return 0;
        }
        let interval = self.due / self.taken as f64;
        // Sums of intervals have rounding errors below 1 µs. An op due that shortly before the end does not count.
        let tolerance = (interval / 2.0).min(1000.0);
        ((until as f64 - self.due - tolerance) / interval)
            .ceil()
            .max(0.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    fn instants(rate: DirectionRate, arrival: Arrival, count: usize) -> Vec<u64> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
        let mut schedule = Schedule::new(rate, arrival).unwrap();
        (0..count)
            .map(|_| schedule.take(4096, &mut random))
            .collect()
    }

    #[test]
    fn linear_instants_are_exact_over_an_hour() {
        let rate = DirectionRate {
            iops: 3000.0,
            ..DirectionRate::default()
        };
        let all = instants(rate, Arrival::Linear, 3000 * 3600 + 1);
        assert_eq!(all[0], 0);
        assert!(all[3000 * 3600].abs_diff(3_600_000_000_000) < 1000);
    }

    #[test]
    fn bytes_and_ops_mean_the_same_for_equal_blocks() {
        let bytes = DirectionRate {
            bytes_per_s: 4096 * 500,
            ..DirectionRate::default()
        };
        let ops = DirectionRate {
            iops: 500.0,
            ..DirectionRate::default()
        };
        assert_eq!(
            instants(bytes, Arrival::Linear, 100),
            instants(ops, Arrival::Linear, 100)
        );
    }

    #[test]
    fn poisson_distances_have_the_mean_and_spread_of_an_exponential() {
        let rate = DirectionRate {
            iops: 600_000.0,
            ..DirectionRate::default()
        };
        let all = instants(rate, Arrival::Poisson, 400_001);
        let mean = all[400_000] as f64 / 400_000.0;
        assert!((mean / (1e9 / 600_000.0) - 1.0).abs() < 0.01, "{mean}");
        let gaps = all.windows(2).map(|pair| (pair[1] - pair[0]) as f64);
        let spread = (gaps.map(|gap| (gap - mean).powi(2)).sum::<f64>() / 400_000.0).sqrt();
        assert!((spread / mean - 1.0).abs() < 0.02, "{spread}");
    }

    #[test]
    fn ops_that_were_due_and_not_issued_are_counted() {
        let rate = DirectionRate {
            iops: 3000.0,
            ..DirectionRate::default()
        };
        let missed = |arrival, issued: u64, until_s: u64| {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
            let mut schedule = Schedule::new(rate, arrival).unwrap();
            (0..issued).for_each(|_| _ = schedule.take(4096, &mut random));
            schedule.missed(until_s * 1_000_000_000)
        };
        for issued in [1, 2999, 3000, 1_000_000, 3000 * 3600 - 1, 3000 * 3600] {
            let left = 3000 * 3600 - issued;
            assert_eq!(missed(Arrival::Linear, issued, 3600), left, "{issued}");
        }
        assert_eq!(missed(Arrival::Linear, 3000 * 3600, 10), 0);
        assert_eq!(missed(Arrival::Linear, 0, 10), 0);
        // 270 000 were due on average; the mean interval of 30 000 is known to 2 %.
        let random = missed(Arrival::Poisson, 30_000, 100);
        assert!(random.abs_diff(270_000) < 270_000 / 50, "{random}");
    }

    #[test]
    fn without_a_rate_there_is_no_schedule() {
        assert!(Schedule::new(DirectionRate::default(), Arrival::Linear).is_none());
    }
}
