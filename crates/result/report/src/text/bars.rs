//! A small latency histogram: logarithmic buckets, one bar per direction.

use iodyno_model::{Direction, Histogram, Row, Summary};
use iodyno_units::{Nanos, percent};

use super::LABEL;
use crate::style::Style;
use crate::table::{Column, Table};

/// The largest number of buckets.
const MAX_LINES: usize = 12;

/// The smallest width of a bar with its share, columns.
const MIN_COLUMN: usize = 14;

/// The upper edges of the classes from `low` to `high`, in ns: 1-2-5 steps.
fn edges(low: u64, high: u64) -> Vec<u64> {
    let edges: Vec<u64> = (0..14)
        .flat_map(|power| [1, 2, 5].map(|step| step * 10u64.pow(power)))
        .collect();
    let first = edges.partition_point(|edge| *edge < low);
    let last = edges.partition_point(|edge| *edge < high);
    edges[first..=last.min(edges.len() - 1)].to_vec()
}

/// Joins the classes with the smallest shares to the ones above them until few are left.
fn join_smallest(edges: &mut Vec<u64>, columns: &mut [Vec<f64>]) {
    while edges.len() > MAX_LINES {
        let share = |class: &usize| {
            columns
                .iter()
                .map(|shares| shares[*class])
                .fold(0.0, f64::max)
        };
        let classes = 0..edges.len() - 1;
        let Some(least) = classes.min_by(|one, other| share(one).total_cmp(&share(other))) else {
            return;
        };
        edges.remove(least);
        for shares in &mut *columns {
            let joined = shares.remove(least);
            shares[least] += joined;
        }
    }
}

/// For each direction, the histogram of the main latency of all groups.
fn histograms(summary: &Summary) -> Vec<(Direction, Histogram)> {
    let rows: Vec<&Row> = summary
        .groups
        .iter()
        .flat_map(|group| &group.rows)
        .collect();
    // For file operations, only the cycle is shown; its steps are in the table.
    let has_cycles = rows.iter().any(|row| row.result.direction == Direction::Op);
    Direction::EVERY
        .into_iter()
        .filter(|direction| !has_cycles || *direction == Direction::Op)
        .filter_map(|direction| {
            let mut sum = Histogram::default();
            for row in rows.iter().filter(|row| row.result.direction == direction) {
                sum.merge(row.latency().0);
            }
            (!sum.is_empty()).then_some((direction, sum))
        })
        .collect()
}

/// The histograms of up to two directions, side by side; empty without ops.
pub(super) fn histogram(summary: &Summary, style: Style) -> String {
    let mut columns = histograms(summary);
    if columns.iter().all(|(_, histogram)| histogram.count() < 2) {
        return String::new();
    }
    // Further directions (the fsyncs of a mixed job) are only in the table above.
    let room = style.columns() - LABEL - 9;
    columns.truncate((room / MIN_COLUMN).clamp(1, 2));
    let low = columns
        .iter()
        .map(|(_, histogram)| histogram.min_ns())
        .min();
    let high = columns
        .iter()
        .map(|(_, histogram)| histogram.max_ns())
        .max();
    let (Some(low), Some(high)) = (low, high) else {
        return String::new();
    };
    let mut edges = edges(low, high);
    let bar_width = (room / columns.len().max(1)).clamp(MIN_COLUMN, 36) - 10;
    let shares = columns.iter().map(|(_, it)| shares(it, &edges));
    let mut shares: Vec<Vec<f64>> = shares.collect();
    join_smallest(&mut edges, &mut shares);
    let bars = columns.iter().map(|(direction, _)| {
        let column = Column::left(direction.name());
        column.at_least(bar_width + 9)
    });
    let edge = Column::right("").at_least(LABEL);
    let leading = [Column::left("latency").at_least(LABEL - 2), edge];
    let mut table = Table::new(leading.into_iter().chain(bars)).gap(1);
    for (number, edge) in edges.iter().enumerate() {
        let mut cells = vec![String::new(), format!("≤ {} ", short(*edge))];
        cells.extend(shares.iter().map(|shares| {
            let largest = shares.iter().copied().fold(0.0, f64::max);
            bar(shares[number], largest, bar_width, style)
        }));
        table.row(cells);
    }
    table.draw(style.columns(), style)
}

/// 1 µs, 200 ms: edges are round, so no decimals.
fn short(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} µs", ns / 1_000),
        1_000_000..1_000_000_000 => format!("{} ms", ns / 1_000_000),
        _ if ns < 60_000_000_000 => format!("{} s", ns / 1_000_000_000),
        _ => Nanos(ns).to_string(),
    }
}

/// The share of the values between each edge and the one before.
fn shares(histogram: &Histogram, edges: &[u64]) -> Vec<f64> {
    let mut counts = vec![0u64; edges.len()];
    for (low, high, count) in histogram.bins() {
        let middle = low + (high - low) / 2;
        let bucket = edges.partition_point(|edge| *edge < middle);
        counts[bucket.min(edges.len() - 1)] += count;
    }
    let all = histogram.count().max(1) as f64;
    counts.into_iter().map(|count| count as f64 / all).collect()
}

/// The share, and a bar whose length is relative to the largest share.
fn bar(share: f64, largest: f64, bar_width: usize, style: Style) -> String {
    if share == 0.0 {
        return String::new();
    }
    let eighths = (share / largest * bar_width as f64 * 8.0).round().max(1.0) as usize;
    let bar = match style.unicode {
        true => {
            let part = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
            "█".repeat(eighths / 8) + part
        }
        false => "#".repeat(eighths.div_ceil(8)),
    };
    format!("{bar} {}", percent(share))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_range_keeps_fine_classes_where_the_ops_are() {
        let mut edges = edges(900, 3_000_000_000);
        assert_eq!(edges.len(), 21);
        assert_eq!(
            (edges[0], edges[1], edges[20]),
            (1_000, 2_000, 5_000_000_000)
        );
        // All but two ops take 10 to 100 µs.
        let mut shares = vec![vec![0.0; 21]];
        for (class, share) in [(0, 0.01), (4, 0.3), (5, 0.5), (6, 0.18), (20, 0.01)] {
            shares[0][class] = share;
        }
        join_smallest(&mut edges, &mut shares);
        assert_eq!(edges.len(), MAX_LINES);
        for edge in [1_000, 20_000, 50_000, 100_000, 5_000_000_000] {
            assert!(edges.contains(&edge), "{edge}: {edges:?}");
        }
        let sum: f64 = shares[0].iter().sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    }
}
