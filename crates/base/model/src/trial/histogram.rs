//! Latency histograms: HDR layout, three significant digits, 1 ns to 1 h, exact extremes.
//!
//! Bins are log-linear as in HdrHistogram (Gil Tene) with 2048 sub-buckets: below 2048 ns every value has
//! its own bin; above, each octave has 1024 bins. The error of a value is less than 0.1 %. This histogram
//! is sparse (it stores only bins with a count), so that a 10-hour series fits in memory. The dense arrays
//! of the recorder use the same [`BinLayout`].

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde::{Deserialize, Serialize};

/// The mapping of values to bins.
#[derive(Debug, Clone, Copy)]
pub struct BinLayout;

const SUB_BITS: u32 = 11;
const HALF: u64 = 1 << (SUB_BITS - 1);

impl BinLayout {
    /// The largest value with its own bin, ns: one hour. Larger values are counted in the same bin and as
    /// overflow.
    pub const MAX_NS: u64 = 3_600_000_000_000;

    /// Number of bins.
    pub const BINS: usize = Self::index(Self::MAX_NS) + 1;

    /// The bin of a value.
    #[inline]
    pub const fn index(value: u64) -> usize {
        let value = if value > Self::MAX_NS {
            Self::MAX_NS
        } else {
            value
        };
        let bits = u64::BITS - (value | ((1 << SUB_BITS) - 1)).leading_zeros();
        let shift = bits - SUB_BITS;
        (shift as u64 * HALF + (value >> shift)) as usize
    }

    /// The smallest value of a bin.
    pub const fn lowest(index: usize) -> u64 {
        let index = index as u64;
        if index < 2 * HALF {
            return index;
        }
        let shift = index / HALF - 1;
        (index - shift * HALF) << shift
    }

    /// The largest value of a bin.
    pub const fn highest(index: usize) -> u64 {
        Self::lowest(index + 1) - 1
    }

    /// The middle of a bin.
    pub const fn middle(index: usize) -> u64 {
        let (low, high) = (Self::lowest(index), Self::highest(index));
        low + (high - low) / 2
    }
}

/// A latency distribution. All values in ns.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(into = "Stored", try_from = "Stored")]
pub struct Histogram {
    /// (bin, count), by bin, counts above zero.
    bins: Vec<(u32, u64)>,
    count: u64,
    min: u64,
    max: u64,
    sum: u128,
    overflow: u64,
    /// The least that each value can have been, in coarse bins, if the end of what was measured can have been detected
    /// late.
    least: Option<Box<Histogram>>,
}

impl Histogram {
    /// Number of recorded values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The exact smallest value, ns; 0 if empty.
    pub fn min_ns(&self) -> u64 {
        self.min
    }

    /// The exact largest value, ns; 0 if empty.
    pub fn max_ns(&self) -> u64 {
        self.max
    }

    /// The exact sum, ns.
    pub fn sum_ns(&self) -> u128 {
        self.sum
    }

    /// Number of values above one hour.
    pub fn overflow(&self) -> u64 {
        self.overflow
    }

    /// The exact mean, ns; 0 if empty.
    pub fn mean_ns(&self) -> f64 {
        if self.count == 0 {
            0.0
        } else {
            self.sum as f64 / self.count as f64
        }
    }

    /// The population standard deviation, ns, computed from the exact mean and the middles of the bins, clamped to the
    /// exact extremes. 0 if all values are equal.
    pub fn stddev_ns(&self) -> f64 {
        if self.min == self.max {
            return 0.0;
        }
        let mean = self.mean_ns();
        let squares: f64 = self
            .bins
            .iter()
            .map(|(bin, count)| {
                let middle = BinLayout::middle(*bin as usize).clamp(self.min, self.max);
                let distance = middle as f64 - mean;
                distance * distance * *count as f64
            })
            .sum();
        (squares / self.count as f64).sqrt()
    }

    /// The value, ns, that `percent` of all values do not exceed: the upper edge of its bin, clamped to the
    /// exact extremes. 0 if empty.
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        // The smallest rank that covers the share; the epsilon keeps 99.9 % of 1000 at 999.
        let rank = (percent / 100.0 * self.count as f64 - 1e-9).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bin, count) in &self.bins {
            seen += count;
            if seen >= rank {
                return BinLayout::highest(*bin as usize).clamp(self.min, self.max);
            }
        }
        self.max
    }

    /// The least, ns, that the percentile can be, because ends were detected late; `None`: the values are exact, or
    /// were recorded without this.
    pub fn least_percentile_ns(&self, percent: f64) -> Option<u64> {
        let least = self.least.as_ref()?.percentile_ns(percent);
        Some(least.min(self.percentile_ns(percent)))
    }

    /// With the least that each value can have been.
    pub fn with_least(mut self, mut least: Histogram) -> Histogram {
        least.sum = 0;
        self.least = (!least.is_empty()).then(|| Box::new(least));
        self
    }

    /// (lowest value, highest value, count) of each bin with a count, ascending, ns.
    pub fn bins(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.bins.iter().map(|(bin, count)| {
            let bin = *bin as usize;
            (BinLayout::lowest(bin), BinLayout::highest(bin), *count)
        })
    }

    /// Adds all values of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        if other.count == 0 {
            return;
        }
        self.merge_least(other);
        let mut merged = Vec::with_capacity(self.bins.len().max(other.bins.len()));
        let (mut left, mut right) = (self.bins.iter().peekable(), other.bins.iter().peekable());
        loop {
            match (left.peek(), right.peek()) {
                (Some((a, _)), Some((b, _))) if a < b => merged.extend(left.next().copied()),
                (Some((a, _)), Some((b, _))) if a > b => merged.extend(right.next().copied()),
                (Some((a, n)), Some((_, m))) => {
                    merged.push((*a, n + m));
                    left.next();
                    right.next();
                }
                (None, None) => break,
                (Some(_), None) => merged.extend(left.next().copied()),
                (None, Some(_)) => merged.extend(right.next().copied()),
            }
        }
        self.bins = merged;
        self.min = if self.count == 0 {
            other.min
        } else {
            self.min.min(other.min)
        };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
        self.overflow += other.overflow;
    }

    /// Adds the least values of `other`, before its values are added. Exact values are their own least.
    fn merge_least(&mut self, other: &Histogram) {
        if self.least.is_none() && other.least.is_none() {
            return;
        }
        let mut least = match self.least.take() {
            Some(least) => least,
            None => Box::new(self.clone()),
        };
        match &other.least {
            Some(added) => least.merge(added),
            None => least.merge(other),
        }
        // A sum of the least is not used, and not stored.
        least.sum = 0;
        self.least = Some(least);
    }
}

impl FromIterator<u64> for Histogram {
    /// From single values, ns.
    fn from_iter<I: IntoIterator<Item = u64>>(values: I) -> Self {
        let mut bins = std::collections::BTreeMap::<usize, u64>::new();
        let mut builder = HistogramBuilder::default();
        for value in values {
            *bins.entry(BinLayout::index(value)).or_default() += 1;
            builder.extremes(
                value,
                value,
                value.into(),
                u64::from(value > BinLayout::MAX_NS),
            );
        }
        for (bin, count) in bins {
            builder.bin(bin, count);
        }
        builder.build()
    }
}

/// Builds a histogram from the arrays of a recorder.
#[derive(Debug, Default)]
pub struct HistogramBuilder {
    histogram: Histogram,
    extremes: Option<(u64, u64)>,
}

impl HistogramBuilder {
    /// Adds a bin; bins must be added in ascending order.
    pub fn bin(&mut self, index: usize, count: u64) {
        debug_assert!(
            self.histogram
                .bins
                .last()
                .is_none_or(|last| (last.0 as usize) < index)
        );
        if count > 0 {
            self.histogram.bins.push((index as u32, count));
            self.histogram.count += count;
        }
    }

    /// Sets what the bins do not contain: exact extremes, sum and overflow.
    pub fn extremes(&mut self, min: u64, max: u64, sum: u128, overflow: u64) {
        let (low, high) = self.extremes.unwrap_or((min, max));
        self.extremes = Some((low.min(min), high.max(max)));
        self.histogram.sum += sum;
        self.histogram.overflow += overflow;
    }

    /// Returns the histogram. Extremes that were not set are taken from the outermost bins; extremes that
    /// were set are clamped to the outermost bins.
    pub fn build(self) -> Histogram {
        let mut histogram = self.histogram;
        let (Some(first), Some(last)) = (histogram.bins.first(), histogram.bins.last()) else {
            return Histogram::default();
        };
        let (first, last) = (first.0 as usize, last.0 as usize);
        let (min, max) = self.extremes.unwrap_or((0, u64::MAX));
        histogram.min = min.clamp(BinLayout::lowest(first), BinLayout::highest(first));
        histogram.max = match last + 1 == BinLayout::BINS {
            true if max != u64::MAX => max.max(BinLayout::lowest(last)),
            true => BinLayout::MAX_NS,
            false => max.clamp(BinLayout::lowest(last), BinLayout::highest(last)),
        };
        histogram
    }
}

/// The stored form: pairs of (gap to the previous bin, count) as LEB128 numbers in base64.
#[derive(Serialize, Deserialize)]
struct Stored {
    n: u64,
    min: u64,
    max: u64,
    sum: u64,
    #[serde(default, skip_serializing_if = "crate::is_default")]
    over: u64,
    bins: String,
    /// The bins of the least values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    least: Option<String>,
}

impl From<Histogram> for Stored {
    fn from(histogram: Histogram) -> Stored {
        Stored {
            n: histogram.count,
            min: histogram.min,
            max: histogram.max,
            sum: u64::try_from(histogram.sum).unwrap_or(u64::MAX),
            over: histogram.overflow,
            bins: encode(&histogram.bins),
            least: histogram.least.map(|least| encode(&least.bins)),
        }
    }
}

impl TryFrom<Stored> for Histogram {
    type Error = String;

    fn try_from(stored: Stored) -> Result<Histogram, String> {
        let (bins, total) = decode(&stored.bins)?;
        let least = match &stored.least {
            Some(text) => {
                let mut least = HistogramBuilder::default();
                for (bin, count) in decode(text)?.0 {
                    least.bin(bin as usize, count);
                }
                Some(Box::new(least.build()))
            }
            None => None,
        };
        if total != stored.n || stored.min > stored.max {
            return Err(format!(
                "histogram says {} values and holds {total}",
                stored.n
            ));
        }
        Ok(Histogram {
            bins,
            count: total,
            min: stored.min,
            max: stored.max,
            sum: stored.sum.into(),
            overflow: stored.over,
            least,
        })
    }
}

fn encode(bins: &[(u32, u64)]) -> String {
    let mut bytes = Vec::with_capacity(bins.len() * 3);
    let mut previous = 0;
    for (bin, count) in bins {
        leb128(&mut bytes, u64::from(bin - previous));
        leb128(&mut bytes, *count);
        previous = *bin;
    }
    STANDARD_NO_PAD.encode(bytes)
}

/// The bins, and the sum of their counts.
fn decode(text: &str) -> Result<(Vec<(u32, u64)>, u64), String> {
    let bytes = STANDARD_NO_PAD
        .decode(text)
        .map_err(|error| error.to_string())?;
    let mut rest = bytes.as_slice();
    let mut bins = Vec::new();
    let mut bin = 0u64;
    let mut total = 0u64;
    while !rest.is_empty() {
        let gap = read_leb128(&mut rest)?;
        let count = read_leb128(&mut rest)?;
        bin = bin.checked_add(gap).ok_or("bin overflows")?;
        total = total.checked_add(count).ok_or("count overflows")?;
        if bin >= BinLayout::BINS as u64 || count == 0 || (gap == 0 && !bins.is_empty()) {
            return Err(format!("histogram bin {bin} is out of place"));
        }
        bins.push((bin as u32, count));
    }
    Ok((bins, total))
}

fn leb128(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn read_leb128(bytes: &mut &[u8]) -> Result<u64, String> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().ok_or("histogram is cut off")?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("histogram number is too long".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bins_follow_one_another_without_gaps() {
        for index in 0..BinLayout::BINS - 1 {
            assert_eq!(BinLayout::index(BinLayout::lowest(index)), index);
            assert_eq!(BinLayout::index(BinLayout::highest(index)), index);
            assert_eq!(BinLayout::highest(index) + 1, BinLayout::lowest(index + 1));
        }
    }

    #[test]
    fn equal_values_have_no_deviation() {
        // The middle of the bin of each value is another value, and the last sum is not exact in floating point.
        for (value, count) in [(2_051, 1), (1_000_003, 7), (3_599_999_999_999, 100_003)] {
            let equal: Histogram = std::iter::repeat_n(value, count).collect();
            assert_eq!(equal.stddev_ns(), 0.0, "{value}");
        }
        // Both values are in the outer halves of their bins.
        let two: Histogram = [1_000_960, 2_001_919].into_iter().collect();
        assert!(two.stddev_ns() <= (2_001_919.0 - 1_000_960.0) / 2.0);
    }

    #[test]
    fn agrees_with_hdrhistogram() {
        let mut peer =
            hdrhistogram::Histogram::<u64>::new_with_bounds(1, BinLayout::MAX_NS, 3).unwrap();
        let values: Vec<u64> = (1..40_000u64)
            .map(|i| (i * i * 7919) % 5_000_000_000 + 1)
            .collect();
        for value in &values {
            peer.record(*value).unwrap();
        }
        let ours: Histogram = values.iter().copied().collect();
        for percent in [0.1, 1.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0] {
            let theirs = peer.value_at_quantile(percent / 100.0).min(ours.max_ns());
            assert_eq!(ours.percentile_ns(percent), theirs, "{percent}");
        }
        assert!((ours.stddev_ns() / peer.stdev() - 1.0).abs() < 1e-3);
    }

    #[test]
    fn extremes_are_exact_and_overflow_is_counted() {
        let day = 86_400_000_000_000;
        let ours: Histogram = [3, 1_234_567, day].into_iter().collect();
        assert_eq!((ours.min_ns(), ours.max_ns(), ours.overflow()), (3, day, 1));
        assert_eq!(
            ours.percentile_ns(100.0),
            day.min(BinLayout::highest(BinLayout::BINS - 1))
        );
        assert_eq!(Histogram::default().percentile_ns(99.0), 0);
    }

    #[test]
    fn exact_values_are_their_own_least_when_merged() {
        let values = |values: &[u64]| values.iter().copied().collect::<Histogram>();
        let late = || values(&[500, 700]).with_least(values(&[100, 700]));
        let exact = || values(&[200]);
        for (mut first, second) in [(late(), exact()), (exact(), late())] {
            first.merge(&second);
            let text = serde_json::to_string(&first).unwrap();
            assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), first);
            let found =
                [30.0, 60.0, 100.0].map(|p| (first.percentile_ns(p), first.least_percentile_ns(p)));
            assert_eq!(
                found,
                [(200, Some(100)), (500, Some(200)), (700, Some(700))]
            );
        }
        let mut none = exact();
        none.merge(&exact());
        assert_eq!(none.least_percentile_ns(50.0), None);
        let mut empty = Histogram::default();
        empty.merge(&late());
        assert_eq!(empty, late());
    }

    proptest! {
        #[test]
        fn merging_is_recording_all(a in values(), b in values()) {
            let mut merged: Histogram = a.iter().copied().collect();
            merged.merge(&b.iter().copied().collect());
            let all: Histogram = a.iter().chain(&b).copied().collect();
            prop_assert_eq!(merged, all);
        }

        #[test]
        fn survives_its_stored_form(a in values()) {
            let histogram: Histogram = a.into_iter().collect();
            let text = serde_json::to_string(&histogram).unwrap();
            prop_assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), histogram);
        }

        #[test]
        fn refuses_damaged_text_without_panic(bins in ".{0,40}", n in any::<u64>()) {
            let text = serde_json::json!({"n": n, "min": 0, "max": 9, "sum": 9, "bins": bins});
            let _ = serde_json::from_value::<Histogram>(text);
        }

        #[test]
        fn a_percentile_is_within_a_thousandth(mut a in values(), percent in 0.0..100.0f64) {
            prop_assume!(!a.is_empty());
            a.sort_unstable();
            let exact = a[((percent / 100.0 * a.len() as f64).ceil() as usize).max(1) - 1];
            let ours = a.iter().copied().collect::<Histogram>().percentile_ns(percent);
            prop_assert!(ours >= exact && ours as f64 <= exact as f64 * 1.001 + 1.0);
        }
    }

    fn values() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec((0u32..42).prop_flat_map(|bits| 0u64..(1 << bits)), 0..200)
            .prop_map(|v| v.into_iter().map(|x| x.min(BinLayout::MAX_NS)).collect())
    }
}
