//! The host: load, pressure, memory, reclaim, network.

use iodyno_model::SeriesUnit::{Bytes, BytesPerSecond, Number, PerSecond, Percent};

use super::Formula;
use super::view::View;

/// Load averages as plain numbers, and rates of the scheduler with the names of `sar`.
pub(super) const LOAD: &[Formula] = &[
    ("load1", Number, |row| hundredth(row, "load1")),
    ("load5", Number, |row| hundredth(row, "load5")),
    ("load15", Number, |row| hundredth(row, "load15")),
    ("running", Number, |row| row.value("running")),
    ("tasks", Number, |row| row.value("tasks")),
    ("blocked", Number, |row| row.value("blocked")),
    ("cswch/s", PerSecond, |row| row.per_second("switches")),
    ("forks/s", PerSecond, |row| row.per_second("forks")),
];

fn hundredth(row: &View, column: &str) -> Option<f64> {
    Some(row.value(column)? / 100.0)
}

/// Percentage of the time in which some, or all, tasks were stalled. Unlike the kernel's averages these are exact,
/// except that the kernel adds up its CPUs about every two seconds: a short sample can show more than its own length.
pub(super) const PRESSURE: &[Formula] = &[
    ("some", Percent, |row| stalled(row, "some")),
    ("full", Percent, |row| stalled(row, "full")),
];

fn stalled(row: &View, column: &str) -> Option<f64> {
    Some(row.percent_of_span(column)?.min(100.0))
}

/// The value as read.
pub(super) const MEMORY: &[Formula] = &[
    ("free", Bytes, |row| row.value("free")),
    ("available", Bytes, |row| row.value("available")),
    ("cached", Bytes, |row| row.value("cached")),
    ("dirty", Bytes, |row| row.value("dirty")),
    ("writeback", Bytes, |row| row.value("writeback")),
    ("swap_used", Bytes, |row| row.value("swap_used")),
    ("dirty_background", Bytes, |row| {
        row.value("dirty_background")
    }),
    ("dirty_limit", Bytes, |row| row.value("dirty_limit")),
];

/// Per second.
pub(super) const RECLAIM: &[Formula] = &[
    ("scanned_kswapd", BytesPerSecond, |row| {
        row.per_second("scanned_kswapd")
    }),
    ("scanned_direct", BytesPerSecond, |row| {
        row.per_second("scanned_direct")
    }),
    ("reclaimed_kswapd", BytesPerSecond, |row| {
        row.per_second("reclaimed_kswapd")
    }),
    ("reclaimed_direct", BytesPerSecond, |row| {
        row.per_second("reclaimed_direct")
    }),
    ("stalls/s", PerSecond, |row| row.per_second("stalls")),
    ("refaults", BytesPerSecond, |row| row.per_second("refaults")),
    ("majflt/s", PerSecond, |row| row.per_second("major_faults")),
    ("swapped_in", BytesPerSecond, |row| {
        row.per_second("swapped_in")
    }),
    ("swapped_out", BytesPerSecond, |row| {
        row.per_second("swapped_out")
    }),
];

/// Bytes, packets, errors and drops per second, with the names of `sar -n DEV`.
pub(super) const NETWORK: &[Formula] = &[
    ("rxB/s", BytesPerSecond, |row| {
        row.per_second("received_bytes")
    }),
    ("txB/s", BytesPerSecond, |row| row.per_second("sent_bytes")),
    ("rxpck/s", PerSecond, |row| {
        row.per_second("received_packets")
    }),
    ("txpck/s", PerSecond, |row| row.per_second("sent_packets")),
    ("rxerr/s", PerSecond, |row| {
        row.per_second("received_errors")
    }),
    ("txerr/s", PerSecond, |row| row.per_second("sent_errors")),
    ("rxdrop/s", PerSecond, |row| {
        row.per_second("received_drops")
    }),
    ("txdrop/s", PerSecond, |row| row.per_second("sent_drops")),
];
