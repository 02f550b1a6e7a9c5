//! Processes that the user named, the requests of file servers, and other processes with I/O.

use iodyno_model::SeriesUnit::{Bytes, BytesPerSecond, Nanos, Number, PerSecond, Percent};
use iodyno_model::{SeriesKind, Telemetry};

use super::{Drawn, Formula, each, formulas};

/// Percentages are of one core.
pub(super) const PROCESS: &[Formula] = formulas! {
    "cores": Number = cores("user", "system");
    "%user": Percent = percent_of_span("user");
    "%system": Percent = percent_of_span("system");
    "threads": Number = value("threads");
    "memory": Bytes = value("memory");
    "reads/s": PerSecond = per_second("reads");
    "writes/s": PerSecond = per_second("writes");
    "rB/s": BytesPerSecond = per_second("read_bytes");
    "wB/s": BytesPerSecond = per_second("written_bytes");
    "%merged": Percent = merged("leg_requests", "leg_commands");
};

/// The requests of file servers. Opcodes without a request in a sample have no row there.
pub(super) fn requests(series: &Telemetry) -> Drawn {
    let (columns, mut rows) = each(series, SeriesKind::Requests, REQUESTS);
    rows.retain(|row| row.subject == "all" || row.values.first() != Some(&Some(0.0)));
    (columns, rows)
}

/// Shares of the requests, means of their times, and requests per batch.
const REQUESTS: &[Formula] = formulas! {
    "req/s": PerSecond = per_second("requests");
    "B/s": BytesPerSecond = per_second("bytes");
    "%inline": Percent = percentage("inline", "requests");
    "%io_uring": Percent = percentage("transferred", "requests");
    "queue": Nanos = each("queueing_time", "requests");
    "service": Nanos = each("service_time", "requests");
    "batch": Number = each("requests", "batches");
    "errors/s": PerSecond = per_second("failed");
};

/// Bytes of the storage.
pub(super) const OTHERS: &[Formula] = formulas! {
    "rB/s": BytesPerSecond = per_second("read_bytes");
    "wB/s": BytesPerSecond = per_second("written_bytes");
};
