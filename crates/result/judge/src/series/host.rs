//! The host: load, pressure, memory, reclaim, network.

use iodyno_model::SeriesUnit::{Bytes, BytesPerSecond, Number, PerSecond, Percent};

use super::{Formula, formulas};

/// Load averages as plain numbers, and rates of the scheduler with the names of `sar`.
pub(super) const LOAD: &[Formula] = formulas! {
    "load1": Number = hundredths("load1");
    "load5": Number = hundredths("load5");
    "load15": Number = hundredths("load15");
    "running": Number = value("running");
    "tasks": Number = value("tasks");
    "blocked": Number = value("blocked");
    "cswch/s": PerSecond = per_second("switches");
    "forks/s": PerSecond = per_second("forks");
};

/// Percentage of the time in which some, or all, tasks were stalled. Unlike the kernel's averages these are exact,
/// except that the kernel adds up its CPUs about every two seconds: a short sample can show more than its own length.
pub(super) const PRESSURE: &[Formula] = formulas! {
    "some": Percent = busy_percent("some");
    "full": Percent = busy_percent("full");
};

/// The value as read.
pub(super) const MEMORY: &[Formula] = formulas! {
    "free": Bytes = value("free");
    "available": Bytes = value("available");
    "cached": Bytes = value("cached");
    "dirty": Bytes = value("dirty");
    "writeback": Bytes = value("writeback");
    "swap_used": Bytes = value("swap_used");
    "dirty_background": Bytes = value("dirty_background");
    "dirty_limit": Bytes = value("dirty_limit");
};

/// Per second.
pub(super) const RECLAIM: &[Formula] = formulas! {
    "scanned_kswapd": BytesPerSecond = per_second("scanned_kswapd");
    "scanned_direct": BytesPerSecond = per_second("scanned_direct");
    "reclaimed_kswapd": BytesPerSecond = per_second("reclaimed_kswapd");
    "reclaimed_direct": BytesPerSecond = per_second("reclaimed_direct");
    "stalls/s": PerSecond = per_second("stalls");
    "refaults": BytesPerSecond = per_second("refaults");
    "majflt/s": PerSecond = per_second("major_faults");
    "swapped_in": BytesPerSecond = per_second("swapped_in");
    "swapped_out": BytesPerSecond = per_second("swapped_out");
};

/// Bytes, packets, errors and drops per second, with the names of `sar -n DEV`.
pub(super) const NETWORK: &[Formula] = formulas! {
    "rxB/s": BytesPerSecond = per_second("received_bytes");
    "txB/s": BytesPerSecond = per_second("sent_bytes");
    "rxpck/s": PerSecond = per_second("received_packets");
    "txpck/s": PerSecond = per_second("sent_packets");
    "rxerr/s": PerSecond = per_second("received_errors");
    "txerr/s": PerSecond = per_second("sent_errors");
    "rxdrop/s": PerSecond = per_second("received_drops");
    "txdrop/s": PerSecond = per_second("sent_drops");
};
