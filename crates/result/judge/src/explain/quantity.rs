//! The quantities of an explanation: names, units, what changes them, and those that are series of their own.

use iodyno_model::Costs;
use iodyno_model::SeriesUnit::{self, Bytes, BytesPerSecond, Nanos, Number, Percent};

/// What a fact or a series acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Acts {
    /// Bytes of the jobs for each op.
    Bytes,
    /// How much reaches the devices.
    Amount,
    /// The size of requests at the devices.
    Size,
    /// The time of requests.
    Time,
    /// The time that requests wait for others at the device.
    Queue,
    /// CPU time of workers and servers.
    Cpu,
    /// Waits for a CPU.
    CpuWait,
    /// Waits above the devices.
    Waits,
    /// Syncs.
    Syncs,
    /// Ops and requests in parallel.
    Parallel,
}

/// The names of the kinds of requests.
pub(super) const KINDS: [&str; 4] = ["read", "write", "discard", "flush"];

/// Declares the quantities: unit, what changes them, stable name, name for people. `kind` is that of a request, by its
/// place in [`KINDS`]; in names it is written for `{read}` and `{reads}`.
macro_rules! quantities {
    ($($name:ident $(($kind:ident: $place:ty))?: $unit:ident, [$($act:ident),*], $stable:literal, $words:literal;)*) => {
        /// A quantity.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(super) enum Quantity {
            $(#[doc = $words] $name $(($place))?,)*
            /// A quantity of [`SERIES`].
            Series(usize),
        }

        impl Quantity {
            /// Its stable name.
            pub(super) fn name(self) -> String {
                match self {
                    $(Quantity::$name $(($kind))? => of_kind($stable, &[$($kind)?]),)*
                    Quantity::Series(place) => SERIES[place].name.to_owned(),
                }
            }

            /// Its name for people.
            pub(super) fn words(self) -> String {
                match self {
                    $(Quantity::$name $(($kind))? => of_kind($words, &[$($kind)?]),)*
                    Quantity::Series(place) => SERIES[place].words.to_owned(),
                }
            }

            /// Its unit.
            pub(super) fn unit(self) -> SeriesUnit {
                match self {
                    $(Quantity::$name { .. } => $unit,)*
                    Quantity::Series(place) => SERIES[place].unit,
                }
            }

            /// What it is changed by.
            pub(super) fn changed_by(self) -> &'static [Acts] {
                match self {
                    // The number of flushes does not depend on the size of ops.
                    Quantity::Requests(3) => &[Acts::Syncs, Acts::Amount],
                    $(Quantity::$name { .. } => &[$(Acts::$act),*],)*
                    Quantity::Series(_) => &[],
                }
            }
        }
    };
}

quantities! {
    Workers: Number, [Parallel], "workers", "workers";
    Work: Number, [Bytes], "ops_in_all", "ops in all";
    // What the identities of time do not contain.
    Rest: Number, [Syncs, Waits], "rest", "drain, or shape of the distribution";
    UserCpu: Nanos, [Cpu], "worker_user_cpu", "user CPU of a worker per op";
    KernelCpu: Nanos, [Cpu], "worker_kernel_cpu", "kernel CPU of a worker per op";
    CpuWait: Nanos, [CpuWait], "wait_for_cpu", "wait for a CPU per op";
    // Of servers that the op waits for.
    ServerCpu: Nanos, [Cpu], "server_cpu", "CPU of the servers per op";
    // Waits that no counter of a device covers.
    OtherWaits: Nanos, [Waits], "other_waits", "waits above the devices per op";
    // Waits above the devices where a limit on I/O is used up.
    LimitWaits: Nanos, [Waits, Amount], "limit_waits", "wait for the I/O limit per op";
    LimitTime: Nanos, [Waits], "limit_wait_of_byte", "wait for the I/O limit per byte at the devices";
    LimitInterval: Nanos, [Waits], "limit_wait_of_request", "wait for the I/O limit per request at the devices";
    InSyncs: Nanos, [Syncs], "time_in_syncs", "time in syncs per op";
    // Writes with O_SYNC or O_DSYNC sync as well.
    BesideSyncs: Nanos, [Syncs], "time_beside_syncs", "time beside syncs per op";
    Syncs: Number, [Syncs], "syncs", "syncs per op";
    SyncTime: Nanos, [Syncs, Time], "sync_time", "time of a sync";
    AtDevice(kind: usize): Nanos, [Amount, Time], "device_{read}_time", "wait for {reads} at the devices per op";
    // In the queue and in the device: traced.
    InQueue(kind: usize): Nanos, [Amount, Time], "queue_{read}_time", "wait for {reads} in the device's queue per op";
    InDevice(kind: usize): Nanos, [Amount, Time], "service_{read}_time", "wait for {reads} in the device per op";
    BetweenLayers(kind: usize): Nanos, [Amount, Time],
        "layers_{read}_time", "wait for {reads} in the layers above the lowest device per op";
    Bytes: Bytes, [Bytes], "job_bytes", "bytes of the jobs per op";
    Amplification(kind: usize): Number, [Amount],
        "{read}_amplification", "bytes {read by} the devices per byte of the jobs";
    Requests(kind: usize): Number, [Amount, Size], "{read}_requests", "{reads} at the devices per op";
    Await(kind: usize): Nanos, [Time, Size, Queue], "{read}_await", "time of a {read} at the devices";
    QueueTime(kind: usize): Nanos, [Time, Size, Queue],
        "{read}_queue_await", "time of a {read} in the device's queue";
    DeviceTime(kind: usize): Nanos, [Time, Size, Queue], "{read}_service_await", "time of a {read} in the device";
    ByteTime(kind: usize): Nanos, [Time, Size, Queue], "{read}_time_of_kib", "time of a KiB of {reads} at the devices";
    // Time of a request, or of a KiB, ÷ requests in parallel.
    Interval(kind: usize): Nanos, [Time, Size, Queue], "{read}_interval", "interval between {reads} at the devices";
    ByteInterval(kind: usize): Nanos, [Time, Size, Queue],
        "{read}_interval_of_kib", "interval between KiB of {reads} at the devices";
    // How much longer the requests take together than a worker waits: they overlap with one another and with its CPU
    // time.
    Overlap: Number, [Parallel], "requests_in_parallel", "overlap: time of requests ÷ wait for them";
}

/// A name with the kind of request, if it has one.
fn of_kind(name: &str, kind: &[usize]) -> String {
    let Some(&kind) = kind.first() else {
        return name.to_owned();
    };
    let moved = if kind == 0 { "read by" } else { "written to" };
    name.replace("{read by}", moved)
        .replace("{reads}", ["reads", "writes", "discards", "flushes"][kind])
        .replace("{read}", KINDS[kind])
}

impl Quantity {
    /// Whether it is the time of a request or of its bytes.
    pub(super) fn is_time(self) -> bool {
        use Quantity::{Await, ByteTime, DeviceTime, QueueTime};
        matches!(self, Await(_) | ByteTime(_) | QueueTime(_) | DeviceTime(_))
    }

    /// The time of a request, divided by the requests in parallel.
    pub(super) fn spaced(self) -> Quantity {
        match self {
            Quantity::Await(kind) => Quantity::Interval(kind),
            Quantity::ByteTime(kind) => Quantity::ByteInterval(kind),
            other => other,
        }
    }

    /// Whether it tells where the time went and not why.
    pub(super) fn is_open(self) -> bool {
        use Quantity::{BesideSyncs, OtherWaits, Rest};
        matches!(self, OtherWaits | BesideSyncs | Rest)
    }
}

/// A series that is not a part of the ratio.
pub(super) struct SeriesOfTrial {
    pub(super) name: &'static str,
    pub(super) unit: SeriesUnit,
    pub(super) words: &'static str,
    pub(super) value: fn(&Costs) -> Option<f64>,
}

macro_rules! series {
    ($($name:literal: $unit:ident, $words:literal, $value:expr;)*) => {
        &[$(SeriesOfTrial { name: $name, unit: $unit, words: $words, value: $value }),*]
    };
}

/// Every such series. Shares are percentages.
pub(super) const SERIES: &[SeriesOfTrial] = series! {
    "other_threads_cpu": Nanos, "CPU of the harness's other threads per op", |it| it.other_threads_ns;
    "kernel_cpu": Nanos, "CPU of the kernel outside the workers per op", |it| it.kernel_ns;
    "busy_cpus": Number, "busy CPUs of the host", |it| Some(it.cores?.busy);
    "other_cpus": Number, "CPUs used by others", |it| Some(it.cores?.others);
    "stolen_cpus": Number, "CPUs stolen by the hypervisor", |it| Some(it.cores?.stolen);
    "cpu_quota": Percent, "CPU quota used up, share of periods", |it| Some(it.cpu_quota? * 100.0);
    "worker_switches": Number, "context switches of a worker per op", |it| it.cpu_ns.map(|_| it.switches);
    "host_switches": Number, "context switches of the host per op", |it| it.host_switches;
    "interrupts": Number, "interrupts per op", |it| it.interrupts;
    "busiest_cpu": Percent, "interrupts on the busiest CPU", |it| Some(it.busiest_cpu? * 100.0);
    "read_amplification": Number, "bytes read by the devices per byte of the jobs", |it| amplification(it, 0);
    "read_request_size": Bytes, "size of a read at the devices", |it| request_size(it, 0);
    "write_amplification": Number, "bytes written to the devices per byte of the jobs", |it| amplification(it, 1);
    "write_request_size": Bytes, "size of a write at the devices", |it| request_size(it, 1);
    "device_read_bytes": Bytes, "bytes read by the lowest devices per op", |it| Some(it.lowest?.bytes[0]);
    "device_written_bytes": Bytes, "bytes written to the lowest devices per op", |it| Some(it.lowest?.bytes[1]);
    "merges": Number, "merged requests per op", |it| Some(it.top?.merges.iter().sum());
    "device_flushes": Number, "flushes of the devices per op", |it| Some(it.top?.requests[3]);
    "device_busy": Percent, "time with requests at the devices", |it| Some(it.top?.busy * 100.0);
    "device_in_flight": Number, "requests at the devices at a time", |it| Some(it.top?.in_flight);
    "busiest_device": Number, "busy time of the busiest device ÷ the mean", |it| busiest_device(it);
    "moves": Number, "moves of the heads of the disks per op", |it| it.moves;
    "arc_hits": Percent, "lookups that ZFS's cache served", |it| Some(it.arc_hits? * 100.0);
    "server_requests": Number, "requests at the file server per op", |it| Some(it.requests?.count);
    "server_inline": Percent, "requests that the queue's thread of the file server worked itself",
        |it| Some(it.requests?.inline * 100.0);
    "server_batch": Number, "requests that the file server took at a time", |it| Some(it.requests?.batch);
    "server_queueing": Nanos, "time in the queue of the file server per op", |it| Some(it.requests?.queueing_ns);
    "server_service": Nanos, "time of work in the file server per op", |it| Some(it.requests?.service_ns);
    "other_bytes": BytesPerSecond, "I/O of other processes at the devices, at most", |it| other_bytes(it);
    "reclaims": Number, "allocations that reclaimed memory per op", |it| it.reclaims;
    "refaults": Bytes, "bytes read again after reclaim per op", |it| it.refaults;
    "memory_limit": Number, "memory limit of the control group met, per op", |it| it.memory_limit;
    "dirty_throttled": Percent, "writers throttled by dirty memory, share of time",
        |it| Some(it.dirty_throttled? * 100.0);
    "io_limit": Percent, "I/O limit of the control group, share used", |it| Some(it.io_limit? * 100.0);
    "regimes": Number, "latency regimes", |it| Some(it.regimes);
};

/// Bytes of the lowest devices for each byte of the jobs in this direction.
fn amplification(costs: &Costs, kind: usize) -> Option<f64> {
    let bytes = costs.bytes[kind];
    (bytes > 0.0).then_some(costs.lowest?.bytes[kind] / bytes)
}

fn request_size(costs: &Costs, kind: usize) -> Option<f64> {
    let device = costs.top?;
    let requests = device.requests[kind];
    (requests > 0.0).then(|| device.bytes[kind] / requests)
}

fn busiest_device(costs: &Costs) -> Option<f64> {
    Some(costs.lowest?.busiest).filter(|ratio| *ratio > 0.0)
}

/// Bytes per second.
fn other_bytes(costs: &Costs) -> Option<f64> {
    let bytes: f64 = costs.others_at_devices()?.iter().sum();
    Some(bytes * costs.ops / costs.seconds)
}
