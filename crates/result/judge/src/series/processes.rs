//! Processes that the user named, the requests of file servers, and other processes with I/O.

use iodyno_model::SeriesUnit::{Bytes, BytesPerSecond, Nanos, Number, PerSecond, Percent};
use iodyno_model::{SeriesKind, Telemetry};

use super::view::over;
use super::{Drawn, Formula, each};

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
    ("%merged", Percent, |row| {
        let (requests, commands) = (row.value("leg_requests")?, row.value("leg_commands")?);
        over((requests - commands) * 100.0, requests)
    }),
];

/// The requests of file servers. Opcodes without a request in a sample have no row there.
pub(super) fn requests(series: &Telemetry) -> Drawn {
    let (columns, mut rows) = each(series, SeriesKind::Requests, REQUESTS);
    rows.retain(|row| row.subject == "all" || row.values.first() != Some(&Some(0.0)));
    (columns, rows)
}

/// Shares of the requests, means of their times, and requests per batch.
const REQUESTS: &[Formula] = &[
    ("req/s", PerSecond, |row| row.per_second("requests")),
    ("B/s", BytesPerSecond, |row| row.per_second("bytes")),
    ("%inline", Percent, |row| {
        Some(row.each("inline", "requests")? * 100.0)
    }),
    ("%io_uring", Percent, |row| {
        Some(row.each("transferred", "requests")? * 100.0)
    }),
    ("queue", Nanos, |row| row.each("queueing_time", "requests")),
    ("service", Nanos, |row| row.each("service_time", "requests")),
    ("batch", Number, |row| row.each("requests", "batches")),
    ("errors/s", PerSecond, |row| row.per_second("failed")),
];

/// Bytes of the storage.
pub(super) const OTHERS: &[Formula] = &[
    ("rB/s", BytesPerSecond, |row| row.per_second("read_bytes")),
    ("wB/s", BytesPerSecond, |row| {
        row.per_second("written_bytes")
    }),
];
