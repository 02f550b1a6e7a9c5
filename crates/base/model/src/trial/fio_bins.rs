//! The bins of fio's latency histograms: 29 groups of 64, in which each value below 128 ns has its own bin.
//!
//! Every bin of [`Histogram`] lies within one of them.

use crate::Histogram;

/// log2 of the number of bins in a group.
const GROUP_BITS: u32 = 6;

/// Number of fio's bins: the last one begins at 17 s and holds all larger values.
pub const FIO_BINS: usize = 29 << GROUP_BITS;

/// fio's bin of a value in ns. Values beyond the last of fio's bins are counted on in the same way.
pub fn fio_bin(value: u64) -> usize {
    let bits = u64::BITS - value.leading_zeros();
    let shift = bits.saturating_sub(GROUP_BITS + 1);
    ((u64::from(shift) << GROUP_BITS) + (value >> shift)) as usize
}

/// The middle of a bin, ns: the key of fio's json+.
pub fn fio_bin_middle(bin: usize) -> u64 {
    let group = (bin >> GROUP_BITS) as u32;
    let shift = group.saturating_sub(1);
    let low = (bin as u64 - (u64::from(shift) << GROUP_BITS)) << shift;
    low + (1 << shift) / 2
}

impl Histogram {
    /// (bin, count) of fio's bins with a count, ascending; see [`fio_bin`].
    pub fn fio_bins(&self) -> Vec<(usize, u64)> {
        let mut bins: Vec<(usize, u64)> = Vec::new();
        for (low, _, count) in self.bins() {
            let bin = fio_bin(low);
            match bins.last_mut() {
                Some((last, sum)) if *last == bin => *sum += count,
                _ => bins.push((bin, count)),
            }
        }
        bins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_those_that_fio_prints() {
        // Keys seen in json+ documents of fio 3.42.
        for (value, key) in [
            (0, 0),
            (127, 127),
            (128, 129),
            (129, 129),
            (255, 255),
            (256, 258),
            (88_576, 88_576),
            (88_577, 88_576),
            (17_131_202, 17_170_432),
        ] {
            assert_eq!(fio_bin_middle(fio_bin(value)), key, "{value}");
        }
    }

    #[test]
    fn bins_follow_each_other_without_a_gap() {
        assert_eq!(fio_bin((1 << 34) - 1), FIO_BINS - 1);
        assert_eq!(fio_bin(1 << 34), FIO_BINS);
        for bin in 0..FIO_BINS + 64 {
            assert_eq!(fio_bin(fio_bin_middle(bin)), bin);
        }
        let edges = (0..20_000u64).chain((0..5000).map(|i| i * 3_500_007));
        let bins: Vec<usize> = edges.map(fio_bin).collect();
        assert!(bins[..20_000].windows(2).all(|pair| pair[1] - pair[0] < 2));
        assert!(bins[20_000..].is_sorted());
    }

    #[test]
    fn bins_keep_every_value() {
        let histogram: Histogram = (0..100_000u64).map(|i| i * i % 40_000_000_000).collect();
        let bins = histogram.fio_bins();
        assert!(bins.is_sorted_by_key(|bin| bin.0));
        assert_eq!(bins.iter().map(|bin| bin.1).sum::<u64>(), 100_000);
        assert!(fio_bin_middle(bins.last().unwrap().0) <= 10_000_000_000);
    }
}
