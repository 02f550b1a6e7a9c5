//! Block devices, with the names of `iostat -x`, and control groups with their limits.
//!
//! The kernel stamps a request when it enters the queue and when it ends, so an await includes waiting and
//! service. Only the await of a lower device separates them (kernel documentation, admin-guide/iostats).

use iodyno_model::SeriesUnit::{Bytes, BytesPerSecond, Nanos, Number, PerSecond, Percent};

use super::view::over;
use super::{Formula, View};

/// Requests are counted at their end, merged ones as one. An await is the sum of the requests' times divided by their
/// number. `aqu-sz` is that sum divided by the elapsed time, which by Little's law is the mean number of requests.
/// `%util` is the share of the time with any request in flight; for a device that serves several at once it does not
/// mean that the device was saturated.
pub(super) const DISK: &[Formula] = &[
    ("r/s", PerSecond, |row| row.per_second("reads")),
    ("w/s", PerSecond, |row| row.per_second("writes")),
    ("d/s", PerSecond, |row| row.per_second("discards")),
    ("f/s", PerSecond, |row| row.per_second("flushes")),
    ("rB/s", BytesPerSecond, |row| row.per_second("read_bytes")),
    ("wB/s", BytesPerSecond, |row| {
        row.per_second("written_bytes")
    }),
    ("dB/s", BytesPerSecond, |row| {
        row.per_second("discarded_bytes")
    }),
    ("rrqm/s", PerSecond, |row| row.per_second("read_merges")),
    ("wrqm/s", PerSecond, |row| row.per_second("write_merges")),
    ("drqm/s", PerSecond, |row| row.per_second("discard_merges")),
    ("%rrqm", Percent, |row| merged(row, "read_merges", "reads")),
    ("%wrqm", Percent, |row| {
        merged(row, "write_merges", "writes")
    }),
    ("%drqm", Percent, |row| {
        merged(row, "discard_merges", "discards")
    }),
    ("r_await", Nanos, |row| row.each("read_time", "reads")),
    ("w_await", Nanos, |row| row.each("write_time", "writes")),
    ("d_await", Nanos, |row| row.each("discard_time", "discards")),
    ("f_await", Nanos, |row| row.each("flush_time", "flushes")),
    ("rareq-sz", Bytes, |row| row.each("read_bytes", "reads")),
    ("wareq-sz", Bytes, |row| row.each("written_bytes", "writes")),
    ("dareq-sz", Bytes, |row| {
        row.each("discarded_bytes", "discards")
    }),
    ("aqu-sz", Number, |row| {
        Some(row.percent_of_span("queue_time")? / 100.0)
    }),
    // Times are counted in ticks: a busy second can exceed one second.
    ("%util", Percent, |row| {
        Some(row.percent_of_span("busy_time")?.min(100.0))
    }),
    ("in flight", Number, |row| row.value("in_flight")),
];

/// The share of requests that were merged into others before they were issued.
fn merged(row: &View, merges: &str, issued: &str) -> Option<f64> {
    let (merges, issued) = (row.value(merges)?, row.value(issued)?);
    over(merges * 100.0, merges + issued)
}

/// Bytes and ops of the harness's control group, with their limits.
pub(super) const CGROUP: &[Formula] = &[
    ("r/s", PerSecond, |row| row.per_second("reads")),
    ("w/s", PerSecond, |row| row.per_second("writes")),
    ("rB/s", BytesPerSecond, |row| row.per_second("read_bytes")),
    ("wB/s", BytesPerSecond, |row| {
        row.per_second("written_bytes")
    }),
    ("r/s limit", PerSecond, |row| row.value("reads_limit")),
    ("w/s limit", PerSecond, |row| row.value("writes_limit")),
    ("rB/s limit", BytesPerSecond, |row| {
        row.value("read_bandwidth_limit")
    }),
    ("wB/s limit", BytesPerSecond, |row| {
        row.value("write_bandwidth_limit")
    }),
];
