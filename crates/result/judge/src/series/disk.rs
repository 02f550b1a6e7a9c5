//! Block devices, with the names of `iostat -x`, and control groups with their limits.
//!
//! The kernel stamps a request when it enters the queue and when it ends, so an await includes waiting and
//! service. Only the await of a lower device separates them (kernel documentation, admin-guide/iostats).

use iodyno_model::SeriesUnit::{Bytes, BytesPerSecond, Nanos, Number, PerSecond, Percent};

use super::{Formula, formulas};

/// Requests are counted at their end, merged ones as one. An await is the sum of the requests' times divided by their
/// number. `aqu-sz` is that sum divided by the elapsed time, which by Little's law is the mean number of requests.
/// `%util` is the share of the time with any request in flight; for a device that serves several at once it does not
/// mean that the device was saturated.
pub(super) const DISK: &[Formula] = formulas! {
    "r/s": PerSecond = per_second("reads");
    "w/s": PerSecond = per_second("writes");
    "d/s": PerSecond = per_second("discards");
    "f/s": PerSecond = per_second("flushes");
    "rB/s": BytesPerSecond = per_second("read_bytes");
    "wB/s": BytesPerSecond = per_second("written_bytes");
    "dB/s": BytesPerSecond = per_second("discarded_bytes");
    "rrqm/s": PerSecond = per_second("read_merges");
    "wrqm/s": PerSecond = per_second("write_merges");
    "drqm/s": PerSecond = per_second("discard_merges");
    "%rrqm": Percent = share("read_merges", "reads");
    "%wrqm": Percent = share("write_merges", "writes");
    "%drqm": Percent = share("discard_merges", "discards");
    "r_await": Nanos = each("read_time", "reads");
    "w_await": Nanos = each("write_time", "writes");
    "d_await": Nanos = each("discard_time", "discards");
    "f_await": Nanos = each("flush_time", "flushes");
    "rareq-sz": Bytes = each("read_bytes", "reads");
    "wareq-sz": Bytes = each("written_bytes", "writes");
    "dareq-sz": Bytes = each("discarded_bytes", "discards");
    "aqu-sz": Number = mean_over_span("queue_time");
    // Times are counted in ticks: a busy second can exceed one second.
    "%util": Percent = busy_percent("busy_time");
    "in flight": Number = value("in_flight");
};

/// Bytes and ops of the harness's control group, with their limits.
pub(super) const CGROUP: &[Formula] = formulas! {
    "r/s": PerSecond = per_second("reads");
    "w/s": PerSecond = per_second("writes");
    "rB/s": BytesPerSecond = per_second("read_bytes");
    "wB/s": BytesPerSecond = per_second("written_bytes");
    "r/s limit": PerSecond = value("reads_limit");
    "w/s limit": PerSecond = value("writes_limit");
    "rB/s limit": BytesPerSecond = value("read_bandwidth_limit");
    "wB/s limit": BytesPerSecond = value("write_bandwidth_limit");
};
