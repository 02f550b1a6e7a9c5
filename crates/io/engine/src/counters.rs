//! The recorder: counters that one worker writes and any thread can read, without locks or read-modify-write
//! operations.
//!
//! A worker records each completion with plain loads and stores of relaxed atomics; it is the only
//! writer. The monitor reads snapshots and subtracts: a frame is the difference of two
//! snapshots. Frames therefore add up exactly to the total, and the hot loop does no work for them.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use iodyno_model::{BinLayout, Direction, Histogram, HistogramBuilder, Job};
use iodyno_sys::memory::zeroed_counters;

/// Counters of all directions of one worker.
#[derive(Debug)]
pub struct OpCounters {
    directions: [DirectionCounters; Direction::COUNT],
}

/// Counters of one direction.
#[derive(Debug)]
pub struct DirectionCounters {
    /// Bytes moved.
    pub bytes: AtomicU64,
    /// Ops failed.
    pub errors: AtomicU64,
    /// Ops that moved less than requested and were continued.
    pub short: AtomicU64,
    /// Submitted → completed.
    pub service: LatencyCounters,
    /// Intended → completed.
    pub response: Option<LatencyCounters>,
    /// Submission calls.
    pub submission: Option<LatencyCounters>,
    /// End of the submission call → completed.
    pub completion: Option<LatencyCounters>,
    /// By priority, in the order of [`Job::op_priorities`]; empty if all ops have that of the job.
    pub priorities: Vec<LatencyCounters>,
}

impl OpCounters {
    /// Empty counters for ops of these directions. Latencies of other directions must not be recorded. Memory becomes
    /// resident only when values are recorded.
    pub fn new(directions: &[Direction], paced: bool, submits: bool) -> OpCounters {
        let counters = |index| {
            let used = directions.contains(&Direction::EVERY[index]);
            let where_used = |wanted: bool| (used && wanted).then(LatencyCounters::new);
            DirectionCounters {
                bytes: AtomicU64::new(0),
                errors: AtomicU64::new(0),
                short: AtomicU64::new(0),
                service: if used {
                    LatencyCounters::new()
                } else {
                    LatencyCounters::unused()
                },
                response: where_used(paced),
                submission: where_used(submits),
                completion: where_used(submits),
                priorities: Vec::new(),
            }
        };
        OpCounters {
            directions: std::array::from_fn(counters),
        }
    }

    /// With latencies by priority for the job's ops that have their own priorities.
    pub(crate) fn by_priority(mut self, job: &Job) -> OpCounters {
        for direction in [Direction::Read, Direction::Write] {
            let priorities = job.op_priorities(direction).into_iter();
            let counters = priorities.map(|_| LatencyCounters::new());
            self.directions[direction as usize].priorities = counters.collect();
        }
        self
    }

    /// Adds everything that `other` counted. Only the thread that writes both may call this.
    pub(crate) fn absorb(&self, other: &OpCounters) {
        for (own, other) in self.directions.iter().zip(&other.directions) {
            add(&own.bytes, other.bytes.load(Relaxed));
            add(&own.errors, other.errors.load(Relaxed));
            add(&own.short, other.short.load(Relaxed));
            own.service.absorb(&other.service);
            let rest = [
                (&own.response, &other.response),
                (&own.submission, &other.submission),
                (&own.completion, &other.completion),
            ];
            for (own, other) in rest {
                if let (Some(own), Some(other)) = (own, other) {
                    own.absorb(other);
                }
            }
            for (own, other) in own.priorities.iter().zip(&other.priorities) {
                own.absorb(other);
            }
        }
    }

    /// The counters of a direction.
    #[inline]
    pub fn of(&self, direction: Direction) -> &DirectionCounters {
        &self.directions[direction as usize]
    }
}

/// Adds to a counter that is written by this thread only.
#[inline]
pub(crate) fn add(counter: &AtomicU64, value: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(value), Relaxed);
}

/// Bins of [`BinLayout`] that share a bin of the least values: 16 of these in an octave.
const COARSE_BITS: u32 = 6;

/// A dense latency histogram with exact extremes.
#[derive(Debug)]
pub struct LatencyCounters {
    bins: Box<[AtomicU64]>,
    /// The lower bound of each value, in coarse bins; all 0 if every end was detected at once.
    least: Box<[AtomicU64]>,
    sum: AtomicU64,
    min: AtomicU64,
    max: AtomicU64,
    overflow: AtomicU64,
}

impl LatencyCounters {
    /// Empty.
    #[allow(clippy::new_without_default)]
    pub fn new() -> LatencyCounters {
        LatencyCounters::with_bins(BinLayout::BINS)
    }

    /// A histogram without bins and without reserved memory; values must not be recorded.
    fn unused() -> LatencyCounters {
        LatencyCounters::with_bins(0)
    }

    fn with_bins(bins: usize) -> LatencyCounters {
        LatencyCounters {
            bins: zeroed_counters(bins),
            least: zeroed_counters(bins.div_ceil(1 << COARSE_BITS)),
            sum: AtomicU64::new(0),
            min: AtomicU64::new(u64::MAX),
            max: AtomicU64::new(0),
            overflow: AtomicU64::new(0),
        }
    }

    /// Counts one value, ns. Only one thread may call this.
    ///
    /// The bin is stored last, with release ordering: a reader that sees a value in its bin also sees it in the other
    /// counters.
    #[inline]
    pub fn record(&self, value: u64) {
        add(&self.sum, value);
        if value > self.max.load(Relaxed) {
            self.max.store(value, Relaxed);
        }
        if value > BinLayout::MAX_NS {
            add(&self.overflow, 1);
        }
        if value < self.min.load(Relaxed) {
            self.min.store(value, Relaxed);
        }
        let bin = &self.bins[BinLayout::index(value)];
        bin.store(bin.load(Relaxed).wrapping_add(1), Release);
    }

    /// Counts one value, ns, and how long its end may have been undetected; `None`: this end was detected at once, like
    /// those of all other values. Only one thread may call this.
    #[inline]
    pub(crate) fn record_with(&self, value: u64, unseen_ns: Option<u64>) {
        if let Some(unseen_ns) = unseen_ns {
            let least = value.saturating_sub(unseen_ns);
            add(&self.least[BinLayout::index(least) >> COARSE_BITS], 1);
        }
        self.record(value);
    }

    /// Adds the values that `other` recorded, which has as many bins.
    fn absorb(&self, other: &LatencyCounters) {
        add(&self.sum, other.sum.load(Relaxed));
        add(&self.overflow, other.overflow.load(Relaxed));
        self.max.fetch_max(other.max.load(Relaxed), Relaxed);
        self.min.fetch_min(other.min.load(Relaxed), Relaxed);
        for (own, other) in self.bins.iter().zip(&other.bins) {
            own.store(own.load(Relaxed) + other.load(Relaxed), Release);
        }
        for (own, other) in self.least.iter().zip(&other.least) {
            add(own, other.load(Relaxed));
        }
    }

    /// Sum of the values recorded so far, ns; it wraps.
    pub fn sum_ns(&self) -> u64 {
        self.sum.load(Relaxed)
    }

    /// Values recorded so far.
    pub fn count(&self) -> u64 {
        let (min, max) = (self.min.load(Relaxed), self.max.load(Relaxed));
        if min > max {
            return 0;
        }
        let bins = &self.bins[BinLayout::index(min)..=BinLayout::index(max)];
        bins.iter().map(|bin| bin.load(Relaxed)).sum()
    }

    /// Everything recorded so far.
    pub fn histogram(&self) -> Histogram {
        let mut least = HistogramBuilder::default();
        for (coarse, bin) in self.least.iter().enumerate() {
            // The upper edge, as for percentiles: a value is not called uncertain because its bin is coarse.
            let highest = ((coarse + 1) << COARSE_BITS) - 1;
            least.bin(highest.min(BinLayout::BINS - 1), bin.load(Relaxed));
        }
        LatencyReader::new().advance(self).with_least(least.build())
    }
}

/// The values that a reader has already read from a histogram.
#[derive(Debug)]
pub struct LatencyReader {
    /// Allocated at the first value.
    taken: Option<Vec<u64>>,
    sum: u64,
    overflow: u64,
    min: u64,
    max: u64,
}

impl LatencyReader {
    /// A reader that has read nothing.
    #[allow(clippy::new_without_default)]
    pub fn new() -> LatencyReader {
        LatencyReader {
            taken: None,
            sum: 0,
            overflow: 0,
            min: u64::MAX,
            max: 0,
        }
    }

    /// The values recorded since the last call. Minimum and maximum are exact if the interval has the extreme of all
    /// values so far; otherwise they are those of the outermost bins.
    ///
    /// Intervals add up exactly to the total, including sums and extremes. A value that is recorded at the same time
    /// can be in the sum of this interval and in the bins of the next.
    pub fn advance(&mut self, counters: &LatencyCounters) -> Histogram {
        let (min, max) = (counters.min.load(Relaxed), counters.max.load(Relaxed));
        if min > max {
            return Histogram::default();
        }
        let taken = self.taken.get_or_insert_with(|| vec![0; BinLayout::BINS]);
        let mut builder = HistogramBuilder::default();
        let mut seen: Option<(usize, usize)> = None;
        // All values are between the extremes; values recorded beyond them in the meantime are read by the next call.
        let (low, high) = (BinLayout::index(min), BinLayout::index(max));
        let bins = counters.bins[low..=high].iter().zip(&mut taken[low..=high]);
        for (index, (bin, before)) in (low..).zip(bins) {
            let count = bin.load(Acquire);
            if count != *before {
                builder.bin(index, count - *before);
                *before = count;
                seen = Some((seen.map_or(index, |(first, _)| first), index));
            }
        }
        // Without values in the bins, the sum stays for the next interval with values.
        let Some((first, last)) = seen else {
            return Histogram::default();
        };
        let (min, max) = (counters.min.load(Relaxed), counters.max.load(Relaxed));
        let (sum, overflow) = (counters.sum.load(Relaxed), counters.overflow.load(Relaxed));
        let (mut new_min, mut new_max) = (0, u64::MAX);
        // An extreme belongs to the interval that has its bin.
        if min < self.min && BinLayout::index(min) == first {
            (new_min, self.min) = (min, min);
        }
        if max > self.max && BinLayout::index(max) == last {
            (new_max, self.max) = (max, max);
        }
        builder.extremes(
            new_min,
            new_max,
            sum.wrapping_sub(self.sum).into(),
            overflow - self.overflow,
        );
        (self.sum, self.overflow) = (sum, overflow);
        builder.build()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_add_up_to_the_total() {
        let counters = LatencyCounters::new();
        let mut reader = LatencyReader::new();
        let mut whole = Histogram::default();
        for round in 0..5u64 {
            for value in 0..1000u64 {
                counters.record(value * value * (round + 1) + 17);
            }
            let stretch = reader.advance(&counters);
            assert_eq!(stretch.count(), 1000);
            whole.merge(&stretch);
        }
        assert_eq!(whole, counters.histogram());
        assert_eq!((whole.min_ns(), whole.max_ns()), (17, 999 * 999 * 5 + 17));
        assert!(reader.advance(&counters).is_empty());
    }

    #[test]
    fn absorbed_counters_add_up() {
        let (first, second) = (LatencyCounters::new(), LatencyCounters::new());
        for value in [5, 70_000, BinLayout::MAX_NS + 1] {
            first.record(value);
        }
        for value in [3, 70_000] {
            second.record(value);
        }
        let mut sum = first.histogram();
        sum.merge(&second.histogram());
        second.absorb(&first);
        assert_eq!(second.histogram(), sum);
        second.absorb(&LatencyCounters::new());
        assert_eq!(second.histogram(), sum);
    }

    #[test]
    fn only_the_percentiles_of_values_that_were_detected_late_are_uncertain() {
        let counters = LatencyCounters::new();
        // 5.62 s of the longest op passed between its end and its detection.
        let values = (0..1000u64).map(|value| (24_000 + value, 20));
        for (value, late) in values.chain([(5_620_000_000, 5_619_000_000)]) {
            counters.record_with(value, Some(late));
        }
        let histogram = counters.histogram();
        for percent in [1.0, 50.0, 99.0, 99.9] {
            let value = histogram.percentile_ns(percent);
            assert_eq!(histogram.least_percentile_ns(percent), Some(value));
        }
        let least = histogram.least_percentile_ns(100.0).unwrap();
        assert!((1_000_000..1_070_000).contains(&least), "{least}");
    }

    #[test]
    fn a_reading_in_the_middle_of_recording_loses_nothing() {
        let counters = LatencyCounters::new();
        let mut reader = LatencyReader::new();
        let mut whole = Histogram::default();
        for value in [1000, 5_000_000, 7, 9_000_000] {
            // All steps of recording except the last, the bin.
            add(&counters.sum, value);
            counters.max.fetch_max(value, Relaxed);
            counters.min.fetch_min(value, Relaxed);
            whole.merge(&reader.advance(&counters));
            add(&counters.bins[BinLayout::index(value)], 1);
        }
        whole.merge(&reader.advance(&counters));
        assert_eq!(whole, counters.histogram());
        assert_eq!((whole.count(), whole.sum_ns()), (4, 14_001_007));
        assert_eq!((whole.min_ns(), whole.max_ns()), (7, 9_000_000));
    }

    #[test]
    fn readings_during_recording_add_up() {
        let counters = LatencyCounters::new();
        let mut reader = LatencyReader::new();
        let mut whole = Histogram::default();
        std::thread::scope(|scope| {
            let recorder = scope.spawn(|| {
                for value in 0..300_000u64 {
                    counters.record(value.wrapping_mul(0x9e37_79b9) % 1_000_003 + value / 7);
                }
            });
            while !recorder.is_finished() {
                whole.merge(&reader.advance(&counters));
            }
        });
        whole.merge(&reader.advance(&counters));
        assert_eq!(whole, counters.histogram());
    }

    #[test]
    fn every_value_above_an_hour_counts_as_overflow() {
        let counters = LatencyCounters::new();
        for _ in 0..3 {
            counters.record(BinLayout::MAX_NS + 1);
        }
        let histogram = counters.histogram();
        assert_eq!((histogram.count(), histogram.overflow()), (3, 3));
        assert_eq!(histogram.max_ns(), BinLayout::MAX_NS + 1);
    }
}
