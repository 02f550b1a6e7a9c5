//! Rates of one clone in windows of half a second: mean, minimum, maximum and deviation.

use iodyno_model::{Direction, RunningStats, SampleStats};

/// fio's window for both bandwidth and IOPS.
pub(crate) const WINDOW_NS: u64 = 500_000_000;
/// The shortest window that is a sample, ns. A busy host reads late, which shortens the next windows and the last one.
/// Even shorter windows have extreme rates.
const MIN_NS: u64 = WINDOW_NS / 2;

#[derive(Debug, Clone, Copy, Default)]
struct RateWindow {
    ops: u64,
    bytes: u64,
    iops: RunningStats,
    bandwidth: RunningStats,
}

/// The rates of one clone, by direction.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rates {
    /// Start of the window, ns; `None` before the measured time.
    since: Option<u64>,
    windows: [RateWindow; Direction::COUNT],
}

impl Rates {
    /// Adds the ops and bytes of a direction since the last call.
    pub(crate) fn count(&mut self, direction: usize, ops: u64, bytes: u64) {
        self.windows[direction].ops += ops;
        self.windows[direction].bytes += bytes;
    }

    /// Ends the window. `from` is the start of the clone's measured time. A window that is too short continues until
    /// the next call.
    pub(crate) fn tick(&mut self, from: u64, now: u64) {
        let since = *self.since.get_or_insert(from);
        if now.saturating_sub(since) >= MIN_NS {
            self.sample(since, now);
        }
    }

    /// Ends the measured time. The rest of a window is a sample if it would be the only one, or if the measured time
    /// has one more complete window than samples: late readings have shortened the last one.
    pub(crate) fn end(&mut self, from: u64, end: u64) {
        let since = self.since.unwrap_or(from);
        let rest = end.saturating_sub(since);
        let samples = self.windows[0].iops.samples();
        let complete = end.saturating_sub(from) / WINDOW_NS;
        if rest > 0 && (samples == 0 || samples < complete && rest >= MIN_NS) {
            self.sample(since, end);
        }
    }

    fn sample(&mut self, since: u64, now: u64) {
        let seconds = (now - since) as f64 / 1e9;
        for window in &mut self.windows {
            window.iops.add(window.ops as f64 / seconds);
            window.bandwidth.add(window.bytes as f64 / seconds);
            (window.ops, window.bytes) = (0, 0);
        }
        self.since = Some(now);
    }

    /// Bandwidth (bytes/s) and IOPS of a direction.
    pub(crate) fn stats(&self, direction: usize) -> (SampleStats, SampleStats) {
        let window = &self.windows[direction];
        (window.bandwidth.stats(), window.iops.stats())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_give_mean_extremes_and_deviation() {
        let mut rates = Rates::default();
        let mut now = 1_000_000_000;
        for ops in [100, 200, 300] {
            rates.count(0, ops, ops * 4096);
            now += WINDOW_NS;
            rates.tick(1_000_000_000, now);
        }
        let (bandwidth, iops) = rates.stats(0);
        assert_eq!((iops.samples, iops.min, iops.max), (3, 200.0, 600.0));
        assert!((iops.mean - 400.0).abs() < 1e-9 && (iops.stddev - 200.0).abs() < 1e-9);
        assert!((bandwidth.mean - 400.0 * 4096.0).abs() < 1e-6);
        assert_eq!(rates.stats(1).1.mean, 0.0);
    }

    #[test]
    fn a_short_first_window_continues_to_the_next_tick() {
        let mut rates = Rates::default();
        rates.count(1, 70, 0);
        rates.tick(300_000_000, 500_000_000);
        assert_eq!(rates.stats(1).1.samples, 0);
        rates.count(1, 70, 0);
        rates.tick(300_000_000, 1_000_000_000);
        assert_eq!(rates.stats(1).1.samples, 1);
        assert!((rates.stats(1).1.mean - 200.0).abs() < 1e-9);
    }

    /// Readings that are late by these times, 100 ops in each half second, and the number of samples after `length` ns.
    fn late(late_ms: &[u64], length: u64) -> (u64, f64) {
        let mut rates = Rates::default();
        for (window, late) in (1..).zip(late_ms) {
            rates.count(0, 100, 0);
            rates.tick(0, window * WINDOW_NS + late * 1_000_000);
        }
        rates.count(0, 100, 0);
        rates.end(0, length);
        let iops = rates.stats(0).1;
        (iops.samples, iops.min)
    }

    #[test]
    fn the_last_window_is_a_sample_also_after_a_late_reading() {
        let two_seconds = 4 * WINDOW_NS;
        for (late_ms, samples) in [
            ([0, 0, 0], 4),
            ([3, 1, 7], 4),
            ([0, 0, 240], 4),
            ([200, 0, 0], 4),
        ] {
            let (found, slowest) = late(&late_ms, two_seconds);
            assert_eq!(found, samples, "{late_ms:?}");
            assert!(slowest > 130.0, "{late_ms:?}: {slowest}");
        }
        assert_eq!(late(&[0, 0, 300], two_seconds).0, 3, "too short a rest");
        let partial = two_seconds + 300_000_000;
        assert_eq!(late(&[0, 0, 0, 0], partial).0, 4, "no complete window");
        assert_eq!(late(&[0, 0, 0, 2], two_seconds + 1_000_000).0, 4);
    }

    #[test]
    fn only_a_clone_shorter_than_a_window_has_a_partial_window() {
        let mut rates = Rates::default();
        rates.count(0, 10, 40960);
        rates.end(0, 100_000_000);
        assert_eq!(rates.stats(0).1.samples, 1);
        assert!((rates.stats(0).1.mean - 100.0).abs() < 1e-9);
        rates.count(0, 1, 4096);
        rates.end(0, 110_000_000);
        assert_eq!(rates.stats(0).1.samples, 1);
        let mut nothing = Rates::default();
        nothing.end(5, 5);
        assert_eq!(nothing.stats(0).1, SampleStats::default());
    }
}
