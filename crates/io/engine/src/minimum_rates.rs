//! The minimum rates of a job (`rate_min`, `rate_iops_min`), checked cycle by cycle.

use std::sync::atomic::Ordering::Relaxed;

use iodyno_model::{Direction, Job};
use iodyno_units::Bytes;

use crate::counters::OpCounters;
use crate::outcome::WorkerError;

/// Time after its start during which a job is not checked, ns: fio's settling time.
const SETTLE_NS: u64 = 2_000_000_000;

/// The rates that are checked, and the counters at the last check. Ops have no additional cost.
#[derive(Debug)]
pub(crate) struct MinimumRates {
    watched: Vec<Watched>,
    every_ns: u64,
    since: Option<u64>,
    due: u64,
}

#[derive(Debug)]
struct Watched {
    direction: Direction,
    least_bytes: u64,
    least_iops: f64,
    bytes: u64,
    ops: u64,
}

impl MinimumRates {
    /// `None` if the job has no minimum rate.
    pub(crate) fn new(job: &Job, start: u64) -> Option<MinimumRates> {
        let watched: Vec<Watched> = job
            .work
            .blocks()?
            .access
            .directions()
            .filter_map(|direction| {
                let rate = job.pacing.rates.get(direction)?;
                let limited = rate.least_bytes_per_s > 0 || rate.least_iops > 0.0;
                limited.then_some(Watched {
                    direction,
                    least_bytes: rate.least_bytes_per_s,
                    least_iops: rate.least_iops,
                    bytes: 0,
                    ops: 0,
                })
            })
            .collect();
        (!watched.is_empty()).then(|| MinimumRates {
            watched,
            every_ns: job.pacing.check_every.0.max(1),
            since: None,
            due: start.saturating_add(SETTLE_NS),
        })
    }

    /// When to check next.
    pub(crate) fn due(&self) -> u64 {
        self.due
    }

    /// Checks the cycle that ends now. Returns an error if a rate was too low in it. The first check only starts a
    /// cycle.
    pub(crate) fn check(&mut self, counters: &OpCounters, now: u64) -> Option<WorkerError> {
        let span = self.since.replace(now).map(|since| now - since);
        self.due = now + self.every_ns;
        let mut found = None;
        for watched in &mut self.watched {
            let counters = counters.of(watched.direction);
            let (bytes, ops) = (counters.bytes.load(Relaxed), counters.service.count());
            let moved = (bytes - watched.bytes, ops - watched.ops);
            (watched.bytes, watched.ops) = (bytes, ops);
            if let Some(span) = span {
                found = found.or(watched.judge(moved, span as f64 / 1e9));
            }
        }
        found
    }
}

impl Watched {
    fn judge(&self, (bytes, ops): (u64, u64), seconds: f64) -> Option<WorkerError> {
        let name = self.direction.name();
        let fault = |option: &str, had: String, least: String| {
            WorkerError::new(
                format!("keep to `{option}`"),
                format!("{name}s came to {had} over {seconds:.2} s, and {least} is the least"),
            )
            .hint(format!("lower `{option}`, or make `rate_cycle` longer"))
        };
        let (bytes_per_s, iops) = (bytes as f64 / seconds, ops as f64 / seconds);
        if bytes_per_s < self.least_bytes as f64 {
            let had = format!("{}/s", Bytes(bytes_per_s as u64));
            let least = format!("{}/s", Bytes(self.least_bytes));
            return Some(fault("rate_min", had, least));
        }
        (iops < self.least_iops).then(|| {
            let least = format!("{}/s", self.least_iops);
            fault("rate_iops_min", format!("{iops:.1}/s"), least)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::add;
    use iodyno_units::Nanos;

    const SECOND: u64 = 1_000_000_000;

    fn done(counters: &OpCounters, ops: u64) {
        let counters = counters.of(Direction::Read);
        add(&counters.bytes, ops * 4096);
        (0..ops).for_each(|_| counters.service.record(1000));
    }

    fn rates(least_bytes_per_s: u64, least_iops: f64) -> Option<MinimumRates> {
        let mut job = crate::testing::random_reads(1);
        job.pacing.rates.read.least_bytes_per_s = least_bytes_per_s;
        job.pacing.rates.read.least_iops = least_iops;
        job.pacing.check_every = Nanos(SECOND);
        MinimumRates::new(&job, 10 * SECOND)
    }

    #[test]
    fn a_cycle_below_the_minimum_rate_is_reported_with_both_figures() {
        for (bytes, iops, word) in [
            (100 * 4096, 0.0, "`rate_min`"),
            (0, 100.0, "`rate_iops_min`"),
        ] {
            let counters = OpCounters::new(&Direction::ALL, false, false);
            let mut rates = rates(bytes, iops).unwrap();
            assert_eq!(rates.due(), 12 * SECOND);
            // There were no ops in the settling time, which is not checked.
            assert_eq!(rates.check(&counters, 12 * SECOND), None);
            done(&counters, 100);
            assert_eq!(rates.check(&counters, 13 * SECOND), None, "just enough");
            done(&counters, 150);
            assert_eq!(rates.check(&counters, 14 * SECOND + SECOND / 2), None);
            done(&counters, 99);
            let told = rates.check(&counters, 15 * SECOND + SECOND / 2).unwrap();
            assert!(told.what.contains(word), "{told:?}");
            assert!(told.cause.contains("over 1.00 s"), "{told:?}");
        }
    }

    #[test]
    fn only_directions_of_the_job_are_checked() {
        assert!(rates(0, 0.0).is_none());
        let mut job = crate::testing::random_reads(1);
        job.pacing.rates.write.least_iops = 10.0;
        assert!(MinimumRates::new(&job, 0).is_none());
    }
}
