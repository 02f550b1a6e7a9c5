//! Block devices, under the names of `iostat -x`, and the limits of a control group beside what it moved.
//!
//! The kernel stamps a request when it is put into the queue and when it ends: an await is both waiting and
//! being served, and only the await of a device below tells them apart (kernel documentation, admin-guide/iostats).

use iodyno_model::SeriesUnit::{Bytes, BytesPerSecond, Nanos, Number, PerSecond, Percent};

use super::Formula;

/// Requests are counted as they end, merged ones as one. An await is the sum of the requests' times over their number; `aqu-sz` that sum
/// over the time, which by Little's law is how many were there on average; `%util` the time with any in flight,
/// which of a device that works on many at once says that it was used and not that it was full.
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
    ("r_await", Nanos, |row| row.each("read_time", "reads")),
    ("w_await", Nanos, |row| row.each("write_time", "writes")),
    ("d_await", Nanos, |row| row.each("discard_time", "discards")),
    ("f_await", Nanos, |row| row.each("flush_time", "flushes")),
    ("rareq-sz", Bytes, |row| row.each("read_bytes", "reads")),
    ("wareq-sz", Bytes, |row| row.each("written_bytes", "writes")),
    ("aqu-sz", Number, |row| {
        Some(row.percent_of_span("queue_time")? / 100.0)
    }),
    // Times are kept by the tick: a busy second may come to more than a second.
    ("%util", Percent, |row| {
        Some(row.percent_of_span("busy_time")?.min(100.0))
    }),
    ("in flight", Number, |row| row.value("in_flight")),
];

/// What the harness's control group moved, beside what it may.
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
