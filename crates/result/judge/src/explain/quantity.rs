//! The quantities of an explanation: names, units, and those that are series of their own.

use iodyno_model::{Costs, SeriesUnit};

/// A quantity. The number is the kind of request: read, write, discard, flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Quantity {
    /// Number of workers.
    Workers,
    /// Ops in all, of a fixed amount of work.
    Work,
    /// What the identities of time do not contain: drain, or the shape of a distribution.
    Rest,
    /// CPU time of the worker in user mode.
    UserCpu,
    /// CPU time of the worker in the kernel.
    KernelCpu,
    /// Time for which the worker waited for a CPU.
    CpuWait,
    /// CPU time of servers that the op waits for.
    ServerCpu,
    /// Waits that no counter of a device covers.
    OtherWaits,
    /// Waits above the devices where a limit on I/O is used up.
    LimitWaits,
    /// The same for each byte at the devices.
    LimitTime,
    /// The same for each request at the devices.
    LimitInterval,
    /// Time in syncs, for each op.
    InSyncs,
    /// Time outside of syncs, for each op.
    BesideSyncs,
    /// Syncs for each op.
    Syncs,
    /// Time of a sync.
    SyncTime,
    /// Time of requests at the device, for each op.
    AtDevice(usize),
    /// The same in its queue, traced.
    InQueue(usize),
    /// The same in the device, traced.
    InDevice(usize),
    /// Time of requests in upper layers of devices.
    BetweenLayers(usize),
    /// Bytes of the jobs for each op.
    Bytes,
    /// Bytes of the device for each byte of the jobs.
    Amplification(usize),
    /// Requests for each op.
    Requests(usize),
    /// Time of a request.
    Await(usize),
    /// Time of a request in the queue, traced.
    QueueTime(usize),
    /// Time of a request in the device, traced.
    DeviceTime(usize),
    /// Time of a KiB.
    ByteTime(usize),
    /// Time of a request ÷ requests in parallel.
    Interval(usize),
    /// Time of a KiB ÷ requests in parallel.
    ByteInterval(usize),
    /// How much longer the requests take together than a worker waits: they overlap with one another and with its CPU
    /// time.
    Overlap,
    /// A quantity of [`SERIES`].
    Series(usize),
}

use Quantity::{
    Amplification, AtDevice, Await, BesideSyncs, BetweenLayers, ByteInterval, ByteTime, Bytes,
    CpuWait, DeviceTime, InDevice, InQueue, InSyncs, Interval, KernelCpu, LimitInterval, LimitTime,
    LimitWaits, OtherWaits, Overlap, QueueTime, Requests, Rest, Series, ServerCpu, SyncTime, Syncs,
    UserCpu, Work, Workers,
};

/// The names of the kinds of requests.
const KINDS: [&str; 4] = ["read", "write", "discard", "flush"];

fn plural(kind: usize) -> &'static str {
    ["reads", "writes", "discards", "flushes"][kind]
}

impl Quantity {
    /// Whether it is the time of a request or of its bytes.
    pub(super) fn is_time(self) -> bool {
        matches!(self, Await(_) | ByteTime(_) | QueueTime(_) | DeviceTime(_))
    }

    /// The time of a request, divided by the requests in parallel.
    pub(super) fn spaced(self) -> Quantity {
        match self {
            Await(kind) => Interval(kind),
            ByteTime(kind) => ByteInterval(kind),
            other => other,
        }
    }

    /// Its stable name.
    pub(super) fn name(self) -> String {
        match self {
            Workers => "workers".to_owned(),
            Work => "ops_in_all".to_owned(),
            Rest => "rest".to_owned(),
            UserCpu => "worker_user_cpu".to_owned(),
            KernelCpu => "worker_kernel_cpu".to_owned(),
            CpuWait => "wait_for_cpu".to_owned(),
            ServerCpu => "server_cpu".to_owned(),
            OtherWaits => "other_waits".to_owned(),
            LimitWaits => "limit_waits".to_owned(),
            LimitTime => "limit_wait_of_byte".to_owned(),
            LimitInterval => "limit_wait_of_request".to_owned(),
            InSyncs => "time_in_syncs".to_owned(),
            BesideSyncs => "time_beside_syncs".to_owned(),
            Syncs => "syncs".to_owned(),
            SyncTime => "sync_time".to_owned(),
            AtDevice(kind) => format!("device_{}_time", KINDS[kind]),
            InQueue(kind) => format!("queue_{}_time", KINDS[kind]),
            InDevice(kind) => format!("service_{}_time", KINDS[kind]),
            BetweenLayers(kind) => format!("layers_{}_time", KINDS[kind]),
            Bytes => "job_bytes".to_owned(),
            Amplification(kind) => format!("{}_amplification", KINDS[kind]),
            Requests(kind) => format!("{}_requests", KINDS[kind]),
            Await(kind) => format!("{}_await", KINDS[kind]),
            QueueTime(kind) => format!("{}_queue_await", KINDS[kind]),
            DeviceTime(kind) => format!("{}_service_await", KINDS[kind]),
            ByteTime(kind) => format!("{}_time_of_kib", KINDS[kind]),
            Interval(kind) => format!("{}_interval", KINDS[kind]),
            ByteInterval(kind) => format!("{}_interval_of_kib", KINDS[kind]),
            Overlap => "requests_in_parallel".to_owned(),
            Series(place) => SERIES[place].name.to_owned(),
        }
    }

    /// Its name for people.
    pub(super) fn words(self) -> String {
        match self {
            Workers => "workers".to_owned(),
            Work => "ops in all".to_owned(),
            Rest => "drain, or shape of the distribution".to_owned(),
            UserCpu => "user CPU of a worker per op".to_owned(),
            KernelCpu => "kernel CPU of a worker per op".to_owned(),
            CpuWait => "wait for a CPU per op".to_owned(),
            ServerCpu => "CPU of the servers per op".to_owned(),
            OtherWaits => "waits above the devices per op".to_owned(),
            LimitWaits => "wait for the I/O limit per op".to_owned(),
            LimitTime => "wait for the I/O limit per byte at the devices".to_owned(),
            LimitInterval => "wait for the I/O limit per request at the devices".to_owned(),
            InSyncs => "time in syncs per op".to_owned(),
            BesideSyncs => "time beside syncs per op".to_owned(),
            Syncs => "syncs per op".to_owned(),
            SyncTime => "time of a sync".to_owned(),
            AtDevice(kind) => format!("wait for {} at the devices per op", plural(kind)),
            InQueue(kind) => format!("wait for {} in the device's queue per op", plural(kind)),
            InDevice(kind) => format!("wait for {} in the device per op", plural(kind)),
            BetweenLayers(kind) => {
                format!(
                    "wait for {} in the layers above the lowest device per op",
                    plural(kind)
                )
            }
            Bytes => "bytes of the jobs per op".to_owned(),
            Amplification(0) => "bytes read by the devices per byte of the jobs".to_owned(),
            Amplification(_) => "bytes written to the devices per byte of the jobs".to_owned(),
            Requests(kind) => format!("{} at the devices per op", plural(kind)),
            Await(kind) => format!("time of a {} at the devices", KINDS[kind]),
            QueueTime(kind) => format!("time of a {} in the device's queue", KINDS[kind]),
            DeviceTime(kind) => format!("time of a {} in the device", KINDS[kind]),
            ByteTime(kind) => format!("time of a KiB of {} at the devices", plural(kind)),
            Interval(kind) => format!("interval between {} at the devices", plural(kind)),
            ByteInterval(kind) => {
                format!("interval between KiB of {} at the devices", plural(kind))
            }
            Overlap => "overlap: time of requests ÷ wait for them".to_owned(),
            Series(place) => SERIES[place].words.to_owned(),
        }
    }

    /// Its unit.
    pub(super) fn unit(self) -> SeriesUnit {
        match self {
            Workers | Work | Rest | Syncs | Amplification(_) | Requests(_) | Overlap => {
                SeriesUnit::Number
            }
            Bytes => SeriesUnit::Bytes,
            Series(place) => SERIES[place].unit,
            _ => SeriesUnit::Nanos,
        }
    }

    /// Whether it tells where the time went and not why.
    pub(super) fn is_open(self) -> bool {
        matches!(self, OtherWaits | BesideSyncs | Rest)
    }
}

/// A series that is not a part of the ratio.
pub(super) struct SeriesOfTrial {
    pub(super) name: &'static str,
    pub(super) words: &'static str,
    pub(super) unit: SeriesUnit,
    pub(super) value: fn(&Costs) -> Option<f64>,
}

/// Every such series. Shares are percentages.
pub(super) const SERIES: &[SeriesOfTrial] = &[
    SeriesOfTrial {
        name: "other_threads_cpu",
        words: "CPU of the harness's other threads per op",
        unit: SeriesUnit::Nanos,
        value: |it| it.other_threads_ns,
    },
    SeriesOfTrial {
        name: "kernel_cpu",
        words: "CPU of the kernel outside the workers per op",
        unit: SeriesUnit::Nanos,
        value: |it| it.kernel_ns,
    },
    SeriesOfTrial {
        name: "busy_cpus",
        words: "busy CPUs of the host",
        unit: SeriesUnit::Number,
        value: |it| Some(it.cores?.busy),
    },
    SeriesOfTrial {
        name: "other_cpus",
        words: "CPUs used by others",
        unit: SeriesUnit::Number,
        value: |it| Some(it.cores?.others),
    },
    SeriesOfTrial {
        name: "stolen_cpus",
        words: "CPUs stolen by the hypervisor",
        unit: SeriesUnit::Number,
        value: |it| Some(it.cores?.stolen),
    },
    SeriesOfTrial {
        name: "cpu_quota",
        words: "CPU quota used up, share of periods",
        unit: SeriesUnit::Percent,
        value: |it| Some(it.cpu_quota? * 100.0),
    },
    SeriesOfTrial {
        name: "worker_switches",
        words: "context switches of a worker per op",
        unit: SeriesUnit::Number,
        value: |it| it.cpu_ns.map(|_| it.switches),
    },
    SeriesOfTrial {
        name: "host_switches",
        words: "context switches of the host per op",
        unit: SeriesUnit::Number,
        value: |it| it.host_switches,
    },
    SeriesOfTrial {
        name: "interrupts",
        words: "interrupts per op",
        unit: SeriesUnit::Number,
        value: |it| it.interrupts,
    },
    SeriesOfTrial {
        name: "busiest_cpu",
        words: "interrupts on the busiest CPU",
        unit: SeriesUnit::Percent,
        value: |it| Some(it.busiest_cpu? * 100.0),
    },
    SeriesOfTrial {
        name: "read_amplification",
        words: "bytes read by the devices per byte of the jobs",
        unit: SeriesUnit::Number,
        value: |it| amplification(it, 0),
    },
    SeriesOfTrial {
        name: "read_request_size",
        words: "size of a read at the devices",
        unit: SeriesUnit::Bytes,
        value: |it| request_size(it, 0),
    },
    SeriesOfTrial {
        name: "write_amplification",
        words: "bytes written to the devices per byte of the jobs",
        unit: SeriesUnit::Number,
        value: |it| amplification(it, 1),
    },
    SeriesOfTrial {
        name: "write_request_size",
        words: "size of a write at the devices",
        unit: SeriesUnit::Bytes,
        value: |it| request_size(it, 1),
    },
    SeriesOfTrial {
        name: "device_read_bytes",
        words: "bytes read by the lowest devices per op",
        unit: SeriesUnit::Bytes,
        value: |it| Some(it.lowest?.bytes[0]),
    },
    SeriesOfTrial {
        name: "device_written_bytes",
        words: "bytes written to the lowest devices per op",
        unit: SeriesUnit::Bytes,
        value: |it| Some(it.lowest?.bytes[1]),
    },
    SeriesOfTrial {
        name: "merges",
        words: "merged requests per op",
        unit: SeriesUnit::Number,
        value: |it| Some(it.top?.merges.iter().sum()),
    },
    SeriesOfTrial {
        name: "device_flushes",
        words: "flushes of the devices per op",
        unit: SeriesUnit::Number,
        value: |it| Some(it.top?.requests[3]),
    },
    SeriesOfTrial {
        name: "device_busy",
        words: "time with requests at the devices",
        unit: SeriesUnit::Percent,
        value: |it| Some(it.top?.busy * 100.0),
    },
    SeriesOfTrial {
        name: "device_in_flight",
        words: "requests at the devices at a time",
        unit: SeriesUnit::Number,
        value: |it| Some(it.top?.in_flight),
    },
    SeriesOfTrial {
        name: "busiest_device",
        words: "busy time of the busiest device ÷ the mean",
        unit: SeriesUnit::Number,
        value: |it| Some(it.lowest?.busiest).filter(|ratio| *ratio > 0.0),
    },
    SeriesOfTrial {
        name: "moves",
        words: "moves of the heads of the disks per op",
        unit: SeriesUnit::Number,
        value: |it| it.moves,
    },
    SeriesOfTrial {
        name: "arc_hits",
        words: "lookups that ZFS's cache served",
        unit: SeriesUnit::Percent,
        value: |it| Some(it.arc_hits? * 100.0),
    },
    SeriesOfTrial {
        name: "server_requests",
        words: "requests at the file server per op",
        unit: SeriesUnit::Number,
        value: |it| Some(it.requests?.count),
    },
    SeriesOfTrial {
        name: "server_inline",
        words: "requests that the queue's thread of the file server worked itself",
        unit: SeriesUnit::Percent,
        value: |it| Some(it.requests?.inline * 100.0),
    },
    SeriesOfTrial {
        name: "server_batch",
        words: "requests that the file server took at a time",
        unit: SeriesUnit::Number,
        value: |it| Some(it.requests?.batch),
    },
    SeriesOfTrial {
        name: "server_queueing",
        words: "time in the queue of the file server per op",
        unit: SeriesUnit::Nanos,
        value: |it| Some(it.requests?.queueing_ns),
    },
    SeriesOfTrial {
        name: "server_service",
        words: "time of work in the file server per op",
        unit: SeriesUnit::Nanos,
        value: |it| Some(it.requests?.service_ns),
    },
    SeriesOfTrial {
        name: "other_bytes",
        words: "I/O of other processes at the devices, at most",
        unit: SeriesUnit::BytesPerSecond,
        value: |it| {
            let bytes: f64 = it.others_at_devices()?.iter().sum();
            Some(bytes * it.ops / it.seconds)
        },
    },
    SeriesOfTrial {
        name: "reclaims",
        words: "allocations that reclaimed memory per op",
        unit: SeriesUnit::Number,
        value: |it| it.reclaims,
    },
    SeriesOfTrial {
        name: "refaults",
        words: "bytes read again after reclaim per op",
        unit: SeriesUnit::Bytes,
        value: |it| it.refaults,
    },
    SeriesOfTrial {
        name: "memory_limit",
        words: "memory limit of the control group met, per op",
        unit: SeriesUnit::Number,
        value: |it| it.memory_limit,
    },
    SeriesOfTrial {
        name: "dirty_throttled",
        words: "writers throttled by dirty memory, share of time",
        unit: SeriesUnit::Percent,
        value: |it| Some(it.dirty_throttled? * 100.0),
    },
    SeriesOfTrial {
        name: "io_limit",
        words: "I/O limit of the control group, share used",
        unit: SeriesUnit::Percent,
        value: |it| Some(it.io_limit? * 100.0),
    },
    SeriesOfTrial {
        name: "regimes",
        words: "latency regimes",
        unit: SeriesUnit::Number,
        value: |it| Some(it.regimes),
    },
];

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
