//! Processes that the user named, and other processes with I/O.

use iodyno_model::SeriesUnit::{Bytes, BytesPerSecond, Number, PerSecond, Percent};

use super::Formula;

/// Percentages are of one core.
pub(super) const PROCESS: &[Formula] = &[
    ("cores", Number, |row| {
        let (user, system) = (row.percent_of_span("user")?, row.percent_of_span("system")?);
        Some((user + system) / 100.0)
    }),
    ("%user", Percent, |row| row.percent_of_span("user")),
    ("%system", Percent, |row| row.percent_of_span("system")),
    ("threads", Number, |row| row.value("threads")),
    ("memory", Bytes, |row| row.value("memory")),
    ("reads/s", PerSecond, |row| row.per_second("reads")),
    ("writes/s", PerSecond, |row| row.per_second("writes")),
    ("rB/s", BytesPerSecond, |row| row.per_second("read_bytes")),
    ("wB/s", BytesPerSecond, |row| {
        row.per_second("written_bytes")
    }),
];

/// Bytes of the storage.
pub(super) const OTHERS: &[Formula] = &[
    ("rB/s", BytesPerSecond, |row| row.per_second("read_bytes")),
    ("wB/s", BytesPerSecond, |row| {
        row.per_second("written_bytes")
    }),
];
