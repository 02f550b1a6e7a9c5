//! The columns of each series. Samplers write them in this order; readers find them by name.

use super::{Reading, SeriesColumn, SeriesUnit};

use Reading::{Count, Gauge};
use SeriesUnit::{Bytes, BytesPerSecond, Hundredths, Nanos, Number, PerSecond};

/// Format of the tables below.
pub(super) type Columns = [(&'static str, SeriesUnit, Reading)];

/// /proc/stat by CPU. The first six are disjoint and add up to all time; the others are parts of them: `nice` and
/// `guest` of `user`, `soft` (soft interrupts) of `irq`.
pub const CPU: &Columns = &[
    ("user", Nanos, Count),
    ("system", Nanos, Count),
    ("idle", Nanos, Count),
    ("iowait", Nanos, Count),
    ("irq", Nanos, Count),
    ("steal", Nanos, Count),
    ("nice", Nanos, Count),
    ("soft", Nanos, Count),
    ("guest", Nanos, Count),
];

/// /proc/loadavg, and the scheduler's counters of /proc/stat. `running` is the length of all run queues with the tasks
/// that run, `blocked` the number of tasks that wait for I/O.
pub const LOAD: &Columns = &[
    ("load1", Hundredths, Gauge),
    ("load5", Hundredths, Gauge),
    ("load15", Hundredths, Gauge),
    ("running", Number, Gauge),
    ("tasks", Number, Gauge),
    ("blocked", Number, Gauge),
    ("switches", Number, Count),
    ("forks", Number, Count),
];

/// /proc/diskstats by device.
pub const DISK: &Columns = &[
    ("reads", Number, Count),
    ("writes", Number, Count),
    ("discards", Number, Count),
    ("flushes", Number, Count),
    ("read_merges", Number, Count),
    ("write_merges", Number, Count),
    ("discard_merges", Number, Count),
    ("read_bytes", Bytes, Count),
    ("written_bytes", Bytes, Count),
    ("discarded_bytes", Bytes, Count),
    // Sums over requests since their insertion: queueing and service.
    ("read_time", Nanos, Count),
    ("write_time", Nanos, Count),
    ("discard_time", Nanos, Count),
    ("flush_time", Nanos, Count),
    // Time with any request in flight, and time weighted by the number of requests in flight.
    ("busy_time", Nanos, Count),
    ("queue_time", Nanos, Count),
    ("in_flight", Number, Gauge),
];

/// /proc/pressure by resource: time in which some or all tasks were stalled.
pub const PRESSURE: &Columns = &[("some", Nanos, Count), ("full", Nanos, Count)];

/// /proc/meminfo, and limits from /proc/vmstat.
pub const MEMORY: &Columns = &[
    ("free", Bytes, Gauge),
    ("available", Bytes, Gauge),
    ("cached", Bytes, Gauge),
    ("dirty", Bytes, Gauge),
    ("writeback", Bytes, Gauge),
    ("swap_used", Bytes, Gauge),
    // Write-back starts above the first threshold; writers are throttled above the mean of both.
    ("dirty_background", Bytes, Gauge),
    ("dirty_limit", Bytes, Gauge),
];

/// /proc/vmstat.
pub const RECLAIM: &Columns = &[
    ("scanned_kswapd", Bytes, Count),
    ("scanned_direct", Bytes, Count),
    ("reclaimed_kswapd", Bytes, Count),
    ("reclaimed_direct", Bytes, Count),
    // Allocations that had to reclaim memory directly.
    ("stalls", Number, Count),
    // Pages of files that were read again soon after they were reclaimed.
    ("refaults", Bytes, Count),
    ("major_faults", Number, Count),
    ("swapped_in", Bytes, Count),
    ("swapped_out", Bytes, Count),
];

/// /proc/net/dev by interface.
pub const NETWORK: &Columns = &[
    ("received_bytes", Bytes, Count),
    ("received_packets", Number, Count),
    ("received_errors", Number, Count),
    ("received_drops", Number, Count),
    ("sent_bytes", Bytes, Count),
    ("sent_packets", Number, Count),
    ("sent_errors", Number, Count),
    ("sent_drops", Number, Count),
];

/// `zpool iostat -vlq`: rates and mean waits over the sample's span, queue lengths at its end. A sample has the columns
/// that the version of ZFS prints; the first six are in every version.
pub const POOL: &Columns = &[
    ("alloc", Bytes, Gauge),
    ("free", Bytes, Gauge),
    ("reads", PerSecond, Gauge),
    ("writes", PerSecond, Gauge),
    ("read_bandwidth", BytesPerSecond, Gauge),
    ("write_bandwidth", BytesPerSecond, Gauge),
    // Waits per request: in all, on the disk, and in each queue.
    ("total_wait_read", Nanos, Gauge),
    ("total_wait_write", Nanos, Gauge),
    ("disk_wait_read", Nanos, Gauge),
    ("disk_wait_write", Nanos, Gauge),
    ("syncq_wait_read", Nanos, Gauge),
    ("syncq_wait_write", Nanos, Gauge),
    ("asyncq_wait_read", Nanos, Gauge),
    ("asyncq_wait_write", Nanos, Gauge),
    ("scrub_wait", Nanos, Gauge),
    ("trim_wait", Nanos, Gauge),
    ("rebuild_wait", Nanos, Gauge),
    // Requests in each queue: not yet, and already, issued to the disk.
    ("syncq_read_pend", Number, Gauge),
    ("syncq_read_activ", Number, Gauge),
    ("syncq_write_pend", Number, Gauge),
    ("syncq_write_activ", Number, Gauge),
    ("asyncq_read_pend", Number, Gauge),
    ("asyncq_read_activ", Number, Gauge),
    ("asyncq_write_pend", Number, Gauge),
    ("asyncq_write_activ", Number, Gauge),
    ("scrubq_read_pend", Number, Gauge),
    ("scrubq_read_activ", Number, Gauge),
    ("trimq_write_pend", Number, Gauge),
    ("trimq_write_activ", Number, Gauge),
    ("rebuildq_write_pend", Number, Gauge),
    ("rebuildq_write_activ", Number, Gauge),
];

/// ZFS's arcstats.
pub const ARC: &Columns = &[
    ("hits", Number, Count),
    ("misses", Number, Count),
    ("l2_hits", Number, Count),
    ("l2_misses", Number, Count),
    ("size", Bytes, Gauge),
    ("target", Bytes, Gauge),
];

/// The harness's control group by device (`blkio` of version 1, `io` of version 2), with the limits of it
/// and of its ancestors; `None` if there are none.
pub const CGROUP: &Columns = &[
    ("reads", Number, Count),
    ("writes", Number, Count),
    ("read_bytes", Bytes, Count),
    ("written_bytes", Bytes, Count),
    ("reads_limit", PerSecond, Gauge),
    ("writes_limit", PerSecond, Gauge),
    ("read_bandwidth_limit", BytesPerSecond, Gauge),
    ("write_bandwidth_limit", BytesPerSecond, Gauge),
];

/// /proc/PID of a named process. Bytes are storage I/O; reads and writes are system calls.
pub const PROCESS: &Columns = &[
    ("user", Nanos, Count),
    ("system", Nanos, Count),
    ("threads", Number, Gauge),
    ("memory", Bytes, Gauge),
    ("reads", Number, Count),
    ("writes", Number, Count),
    ("read_bytes", Bytes, Count),
    ("written_bytes", Bytes, Count),
    // Of iodyno's servers of mirrors.
    ("leg_requests", Number, Count),
    ("leg_commands", Number, Count),
];

/// The statistics of `iodyno serve fs` (`--stats`). Those that were worked inline and those that were transferred by
/// io_uring are parts of all requests; the others were worked by the pool. Times are sums over requests; only the row
/// of all opcodes has batches.
pub const REQUESTS: &Columns = &[
    ("requests", Number, Count),
    ("inline", Number, Count),
    ("transferred", Number, Count),
    ("failed", Number, Count),
    ("bytes", Bytes, Count),
    ("queueing_time", Nanos, Count),
    ("service_time", Nanos, Count),
    ("batches", Number, Count),
];

/// /proc/PID/io of other processes: bytes are storage I/O.
pub const OTHERS: &Columns = &[
    ("read_bytes", Bytes, Count),
    ("written_bytes", Bytes, Count),
];

/// The number of bins of a histogram of [`SeriesColumn::block`]; the last one also counts what is longer.
pub const BLOCK_BINS: usize = 128;

/// The shortest time of such a bin, ns. Bins up to 7 are of 1 ns; above, each octave has 4.
pub const fn block_bin_from(bin: usize) -> u64 {
    match bin {
        0..8 => bin as u64,
        _ => ((4 + bin % 4) as u64) << (bin / 4 - 1),
    }
}

impl SeriesColumn {
    /// Times of requests at block devices: their sum, and a column of counts for each bin, with its shortest time as
    /// its name.
    pub fn block() -> Vec<SeriesColumn> {
        let sum = ("sum".to_owned(), Nanos);
        let bins = (0..BLOCK_BINS).map(|bin| (block_bin_from(bin).to_string(), Number));
        let column = |(name, unit)| SeriesColumn {
            name,
            unit,
            reading: Count,
        };
        std::iter::once(sum).chain(bins).map(column).collect()
    }

    /// The columns of a table.
    pub fn of(table: &Columns) -> Vec<SeriesColumn> {
        let column = |(name, unit, reading): &(&str, SeriesUnit, Reading)| SeriesColumn {
            name: (*name).to_owned(),
            unit: *unit,
            reading: *reading,
        };
        table.iter().map(column).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_follow_each_other_and_are_at_most_a_quarter_wide() {
        for bin in 1..=BLOCK_BINS {
            let (from, to) = (block_bin_from(bin - 1), block_bin_from(bin));
            assert!(from < to, "{bin}");
            assert!(from < 8 || (to - from) * 4 <= from, "{bin}");
        }
    }
}
