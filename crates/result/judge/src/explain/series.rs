//! What else is measured of both sides: work for each op, and what can slow its parts.

use iodyno_model::SeriesUnit::{Bytes, BytesPerSecond, Nanos, Number, Percent};
use iodyno_model::{Costs, SeriesUnit};

use super::acts::{ABOVE, Acts, CPU, DEVICE, LAYERS, SERVER, STORAGE, SYNC, WAIT};

/// A series.
pub(super) struct Series {
    pub(super) name: &'static str,
    pub(super) words: &'static str,
    pub(super) unit: SeriesUnit,
    pub(super) value: fn(&Costs) -> Option<f64>,
    /// What it acts on; nothing: it is only shown.
    pub(super) acts: Acts,
    /// A smaller difference is not a cause.
    pub(super) least: f64,
    /// Whether it is work for each op.
    pub(super) work: bool,
}

macro_rules! series {
    ($($work:ident $name:literal: $unit:ident, $words:literal, acts $acts:expr,
        least $least:literal, $value:expr;)*) => {
        &[$(Series {
            name: $name,
            words: $words,
            unit: $unit,
            value: $value,
            acts: $acts,
            least: $least,
            work: matches!(stringify!($work).as_bytes(), b"work"),
        }),*]
    };
}

/// All of them; candidates for a cause in this order. A larger value makes ops slower.
pub(super) const SERIES: &[Series] = series! {
    host "io_limit": Percent, "use of the control group's I/O limit", acts STORAGE, least 10.0,
        |it| Some(it.io_limit? * 100.0);
    host "cpu_quota": Percent, "periods in which the CPU quota was used up", acts WAIT | ABOVE, least 5.0,
        |it| Some(it.cpu_quota? * 100.0);
    host "memory_limit": Number, "times that the group's memory limit was met, per op", acts DEVICE | ABOVE | CPU,
        least 0.001, |it| it.memory_limit;
    host "dirty_throttled": Percent, "time in which writers were throttled by dirty memory", acts ABOVE | SYNC,
        least 5.0, |it| Some(it.dirty_throttled? * 100.0);
    host "other_bytes": BytesPerSecond, "I/O of other processes at the device", acts DEVICE | LAYERS | SYNC,
        least 262144.0, |it| Some(it.others_at_devices()?.iter().sum::<f64>() * it.rate());
    host "stolen_cpus": Number, "CPUs that the hypervisor took", acts CPU | WAIT | ABOVE, least 0.1,
        |it| Some(it.other_cpus?.1);
    // Interrupts, and threads of the kernel that do the work of a device, need a CPU as well.
    host "other_cpus": Number, "CPUs used by other processes", acts WAIT | CPU | DEVICE | LAYERS | ABOVE, least 0.4,
        |it| Some(it.other_cpus?.0);
    host "refaults": Bytes, "bytes read again after memory reclaim, per op", acts DEVICE, least 64.0, |it| it.refaults;
    host "reclaims": Number, "allocations that waited for memory, per op", acts CPU | ABOVE,
        least 0.01, |it| it.reclaims;
    host "server_queueing": Nanos, "time in the file server's queue per op", acts SERVER, least 100.0,
        |it| Some(it.requests?.queueing_ns);
    host "server_service": Nanos, "time of work in the file server per op", acts SERVER, least 100.0,
        |it| Some(it.requests?.service_ns);
    work "moves": Number, "head movements of the disks per op", acts DEVICE, least 0.01, |it| it.moves;
    host "busiest_device": Number, "busy time of the busiest device ÷ mean", acts DEVICE, least 0.05,
        |it| it.lowest.map(|it| it.busiest).filter(|it| *it > 0.0);
    host "arc_misses": Percent, "lookups that ZFS's cache missed", acts DEVICE | ABOVE, least 1.0,
        |it| Some(100.0 - it.arc_hits? * 100.0);
    work "device_reads": Number, "read requests at the device", acts DEVICE | LAYERS | ABOVE, least 0.01,
        |it| Some(it.lowest?.requests[0]);
    work "device_read_bytes": Bytes, "bytes read from the device", acts DEVICE | LAYERS | ABOVE, least 64.0,
        |it| Some(it.lowest?.bytes[0]);
    work "device_writes": Number, "write requests at the device", acts STORAGE, least 0.01,
        |it| Some(it.lowest?.requests[1]);
    work "device_written_bytes": Bytes, "bytes written to the device", acts STORAGE, least 64.0,
        |it| Some(it.lowest?.bytes[1]);
    work "device_discards": Number, "discards at the device", acts DEVICE | LAYERS, least 0.01,
        |it| Some(it.lowest?.requests[2]);
    work "device_flushes": Number, "flushes of the device", acts SYNC | DEVICE | ABOVE, least 0.01,
        |it| Some(it.lowest?.requests[3]);
    work "job_bytes": Bytes, "bytes that the job moves", acts 0, least 0.0, |it| Some(it.bytes.iter().sum());
    work "server_requests": Number, "requests at the file server", acts SERVER,
        least 0.01, |it| Some(it.requests?.count);
    work "worker_cpu": Nanos, "CPU time of the worker", acts 0, least 0.0,
        |it| it.cpu_ns.map(|(user, kernel)| user + kernel);
    work "server_cpu": Nanos, "CPU time of the servers", acts SERVER, least 100.0, |it| it.servers_ns;
    work "switches": Number, "context switches of the worker", acts 0, least 0.0, |it| it.cpu_ns.map(|_| it.switches);
    work "syncs": Number, "syncs", acts 0, least 0.0, |it| Some(it.syncs.0);
};
