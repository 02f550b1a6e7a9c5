//! Latencies in fio's classes and bins.

use iodyno_model::{Histogram, Reporting, fio_bin_middle};

/// Upper edges of the ns classes (and of the µs and ms classes, in their units).
const EDGES: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];

/// The share of all ops in each class, percent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Classes {
    /// Below 2, 4, … 1000 ns.
    pub(super) ns: [f64; 10],
    /// Below 2, 4, … 1000 µs.
    pub(super) us: [f64; 10],
    /// Below 2, 4, … 1000, 2000 ms, and the rest.
    pub(super) ms: [f64; 12],
}

/// The labels of the ms classes; the first ten are also those of the ns and µs classes.
pub(super) const LABELS: [&str; 12] = [
    "2", "4", "10", "20", "50", "100", "250", "500", "750", "1000", "2000", ">=2000",
];

/// The latencies of reads, writes and trims in fio's classes.
pub(super) fn classes(histograms: &[&Histogram], ops: u64) -> Classes {
    let (mut ns, mut us, mut ms) = ([0u64; 10], [0u64; 10], [0u64; 12]);
    let place = |value: u64| EDGES.partition_point(|edge| *edge <= value);
    for (low, high, count) in histograms.iter().flat_map(|histogram| histogram.bins()) {
        let middle = low + (high - low) / 2;
        match middle {
            0..1_000 => ns[place(middle)] += count,
            1_000..1_000_000 => us[place(middle / 1_000)] += count,
            1_000_000..1_000_000_000 => ms[place(middle / 1_000_000)] += count,
            1_000_000_000..2_000_000_000 => ms[10] += count,
            _ => ms[11] += count,
        }
    }
    Classes {
        ns: shares(ns, ops, 0.01),
        us: shares(us, ops, 0.01),
        ms: shares(ms, ops, 0.01),
    }
}

/// Counts as percent of `all`; a count above 0 is at least `least`.
fn shares<const N: usize>(counts: [u64; N], all: u64, least: f64) -> [f64; N] {
    counts.map(|count| match (count, all) {
        (0, _) | (_, 0) => 0.0,
        (count, all) => (count as f64 * 100.0 / all as f64).max(least),
    })
}

/// The labels of depths, and of the sizes of batches.
pub(super) const LEVELS: [&str; 7] = ["1", "2", "4", "8", "16", "32", ">=64"];
pub(super) const BATCHES: [&str; 7] = ["0", "4", "8", "16", "32", "64", ">=64"];

/// The share of each depth or size, percent.
pub(super) fn depth_shares(counts: [u64; 7]) -> [f64; 7] {
    shares(counts, counts.iter().sum(), 0.1)
}

/// (percent, ns) of the job's requested percentiles, ascending; at most twenty, as in fio.
pub(super) fn percentiles(histogram: &Histogram, reporting: &Reporting) -> Vec<(f64, u64)> {
    let mut list: Vec<f64> = reporting
        .percentiles
        .iter()
        .copied()
        .filter(|percent| *percent > 0.0 && *percent <= 100.0)
        .collect();
    list.sort_by(f64::total_cmp);
    list.truncate(MAX_PERCENTILES);
    list.into_iter()
        .map(|percent| (percent, histogram.percentile_ns(percent)))
        .collect()
}

/// The number of decimals needed to distinguish the job's percentiles.
pub(super) fn decimals(reporting: &Reporting) -> usize {
    let decimals = |percent: &f64| {
        let text = percent.to_string();
        text.split_once('.')
            .map_or(0, |(_, decimals)| decimals.len())
    };
    reporting
        .percentiles
        .iter()
        .map(decimals)
        .max()
        .unwrap_or(0)
}

/// The name of a percentile in documents: six decimals as in fio, or more if the job's percentiles have more.
pub(super) fn name(percent: f64, reporting: &Reporting) -> String {
    format!("{percent:.*}", decimals(reporting).max(6))
}

/// The maximum number of percentiles in fio's formats.
pub(super) const MAX_PERCENTILES: usize = 20;

/// (key, count) of json+'s bins, ascending.
pub(super) fn bins(histogram: &Histogram) -> impl Iterator<Item = (u64, u64)> {
    let bins = histogram.fio_bins().into_iter();
    bins.map(|(bin, count)| (fio_bin_middle(bin), count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_lie_below_their_labels() {
        let values = [
            1,
            2,
            999,
            1_000,
            250_000,
            1_500_000,
            999_000_000,
            1_500_000_000,
            5_000_000_000,
        ];
        let histogram: Histogram = values.into_iter().collect();
        let classes = classes(&[&histogram], 100);
        assert_eq!(classes.ns, [1.0, 1.0, 0., 0., 0., 0., 0., 0., 0., 1.0]);
        // 250 µs is the first of the class below 500.
        assert_eq!(classes.us, [1.0, 0., 0., 0., 0., 0., 0., 1.0, 0., 0.]);
        assert_eq!(
            classes.ms,
            [1.0, 0., 0., 0., 0., 0., 0., 0., 0., 1.0, 1.0, 1.0]
        );
    }
}
