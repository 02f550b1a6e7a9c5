//! What a part of a trial ran on, and the host meanwhile.

use std::collections::BTreeMap;

use iodyno_model::{
    DeviceLayer, DeviceUse, Environment, FileState, HostUse, Part, SamplerCost, StackLayer,
    TargetInfo,
};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct NodeObject<'a> {
    name: &'a str,
    clock_offset_ns: i64,
    clock_error_ns: u64,
    environment: EnvironmentObject<'a>,
    host: HostObject<'a>,
    files: Vec<FileObject<'a>>,
    notes: &'a [String],
    /// What sampling the host meanwhile cost, by series.
    #[serde(skip_serializing_if = "<[SamplerCost]>::is_empty")]
    sampling: &'a [SamplerCost],
}

#[derive(Serialize)]
struct EnvironmentObject<'a> {
    iodyno: &'a str,
    host: &'a str,
    kernel: &'a str,
    kernel_build: &'a str,
    system: &'a str,
    boot_id: &'a str,
    virtualisation: &'a str,
    cpu_model: &'a str,
    cpus: u32,
    numa_nodes: u32,
    governor: &'a str,
    boost: Option<bool>,
    memory_bytes: u64,
    memory_available_bytes: u64,
    swap_used_bytes: u64,
    clock_source: &'a str,
    clock_read_ns: u64,
    load_1min: f64,
    targets: Vec<TargetObject<'a>>,
}

#[derive(Serialize)]
struct TargetObject<'a> {
    path: String,
    /// Top first.
    stack: Vec<LayerObject<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "layer", rename_all = "snake_case")]
enum LayerObject<'a> {
    Mount {
        point: String,
        file_system: &'a str,
        source: &'a str,
        options: &'a str,
        free_bytes: u64,
        total_bytes: u64,
        free_inodes: u64,
    },
    Partition {
        device: DeviceObject<'a>,
    },
    Loop {
        device: DeviceObject<'a>,
        file: String,
        direct: bool,
    },
    Mapped {
        device: DeviceObject<'a>,
        driver: &'a str,
        name: &'a str,
    },
    Disk {
        device: DeviceObject<'a>,
    },
    Other {
        description: &'a str,
    },
}

#[derive(Serialize)]
struct DeviceObject<'a> {
    name: &'a str,
    number: String,
    size_bytes: u64,
    model: &'a str,
    scheduler: &'a str,
    /// By sysfs name, as sysfs writes them.
    queue: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
struct HostObject<'a> {
    span_ns: u64,
    user_ns: u64,
    system_ns: u64,
    idle_ns: u64,
    iowait_ns: u64,
    irq_ns: u64,
    steal_ns: u64,
    harness_user_ns: u64,
    harness_system_ns: u64,
    harness_memory_bytes: u64,
    clock_drift_ns: i64,
    arc_hits: Option<u64>,
    arc_misses: Option<u64>,
    devices: Vec<CountersObject<'a>>,
}

/// As /proc/diskstats counts.
#[derive(Serialize)]
struct CountersObject<'a> {
    name: &'a str,
    reads: u64,
    writes: u64,
    discards: u64,
    flushes: u64,
    reads_merged: u64,
    writes_merged: u64,
    discards_merged: u64,
    read_bytes: u64,
    written_bytes: u64,
    discarded_bytes: u64,
    reading_ms: u64,
    writing_ms: u64,
    discarding_ms: u64,
    flushing_ms: u64,
    busy_ms: u64,
    queue_ms: u64,
}

#[derive(Serialize)]
struct FileObject<'a> {
    path: &'a str,
    length_bytes: u64,
    unwritten_bytes: Option<u64>,
    laid_out: bool,
    device: bool,
}

pub(super) fn node(part: &Part) -> NodeObject<'_> {
    NodeObject {
        name: &part.node,
        clock_offset_ns: part.clock_offset_ns,
        clock_error_ns: part.clock_error_ns,
        environment: environment(&part.environment),
        host: host(&part.host),
        files: part.files.iter().map(file).collect(),
        notes: &part.notes,
        sampling: &part.sampling,
    }
}

fn environment(environment: &Environment) -> EnvironmentObject<'_> {
    EnvironmentObject {
        iodyno: &environment.iodyno,
        host: &environment.host,
        kernel: &environment.kernel,
        kernel_build: &environment.kernel_build,
        system: &environment.system,
        boot_id: &environment.boot_id,
        virtualisation: &environment.virtualisation,
        cpu_model: &environment.cpu.model,
        cpus: environment.cpu.logical,
        numa_nodes: environment.cpu.nodes,
        governor: &environment.cpu.governor.name,
        boost: environment.cpu.governor.boost,
        memory_bytes: environment.memory.total,
        memory_available_bytes: environment.memory.available,
        swap_used_bytes: environment.memory.swap_used,
        clock_source: &environment.clock_source,
        clock_read_ns: environment.clock_read_ns,
        load_1min: f64::from(environment.load_1min_x100) / 100.0,
        targets: environment.targets.iter().map(target).collect(),
    }
}

fn target(target: &TargetInfo) -> TargetObject<'_> {
    TargetObject {
        path: target.path.display().to_string(),
        stack: target.stack.iter().map(layer).collect(),
    }
}

fn layer(layer: &StackLayer) -> LayerObject<'_> {
    match layer {
        StackLayer::Mount(mount) => LayerObject::Mount {
            point: mount.point.display().to_string(),
            file_system: &mount.file_system,
            source: &mount.source,
            options: &mount.options,
            free_bytes: mount.free,
            total_bytes: mount.total,
            free_inodes: mount.free_inodes,
        },
        StackLayer::Partition(partition) => LayerObject::Partition {
            device: device(partition),
        },
        StackLayer::Loop {
            device: looped,
            file,
            direct,
        } => LayerObject::Loop {
            device: device(looped),
            file: file.display().to_string(),
            direct: *direct,
        },
        StackLayer::Mapped {
            device: mapped,
            driver,
            name,
        } => LayerObject::Mapped {
            device: device(mapped),
            driver,
            name,
        },
        StackLayer::Disk(disk) => LayerObject::Disk {
            device: device(disk),
        },
        StackLayer::Other(description) => LayerObject::Other { description },
    }
}

fn device(device: &DeviceLayer) -> DeviceObject<'_> {
    DeviceObject {
        name: &device.name,
        number: format!("{}:{}", device.number.0, device.number.1),
        size_bytes: device.size,
        model: &device.model,
        scheduler: &device.scheduler,
        queue: &device.queue,
    }
}

fn host(host: &HostUse) -> HostObject<'_> {
    HostObject {
        span_ns: host.span_ns,
        user_ns: host.user_ns,
        system_ns: host.system_ns,
        idle_ns: host.idle_ns,
        iowait_ns: host.iowait_ns,
        irq_ns: host.irq_ns,
        steal_ns: host.steal_ns,
        harness_user_ns: host.harness_user_ns,
        harness_system_ns: host.harness_system_ns,
        harness_memory_bytes: host.harness_memory,
        clock_drift_ns: host.clock_drift_ns,
        arc_hits: host.arc_hits.map(|arc| arc.0),
        arc_misses: host.arc_hits.map(|arc| arc.1),
        devices: host.devices.iter().map(counters).collect(),
    }
}

fn counters(device: &DeviceUse) -> CountersObject<'_> {
    CountersObject {
        name: &device.name,
        reads: device.ios[0],
        writes: device.ios[1],
        discards: device.ios[2],
        flushes: device.ios[3],
        reads_merged: device.merges[0],
        writes_merged: device.merges[1],
        discards_merged: device.merges[2],
        read_bytes: device.bytes[0],
        written_bytes: device.bytes[1],
        discarded_bytes: device.bytes[2],
        reading_ms: device.ticks_ms[0],
        writing_ms: device.ticks_ms[1],
        discarding_ms: device.ticks_ms[2],
        flushing_ms: device.ticks_ms[3],
        busy_ms: device.busy_ms,
        queue_ms: device.queue_ms,
    }
}

fn file(file: &FileState) -> FileObject<'_> {
    FileObject {
        path: &file.path,
        length_bytes: file.length,
        unwritten_bytes: file.unwritten,
        laid_out: file.laid_out,
        device: file.device,
    }
}
