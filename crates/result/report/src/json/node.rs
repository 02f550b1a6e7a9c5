//! The environment of a part of a trial, and the use of the host during it.

use iodyno_model::{
    CommandRun, ControlGroupUse, DeviceLayer, DeviceUse, Environment, FileState, HostUse,
    MadeTarget, MountInfo, Part, StackLayer, TargetInfo,
};

use serde_json::json;

use super::{list, object};

object!(NodeView<'a>(part in &'a Part) {
    name: part.node,
    clock_offset_ns: part.clock_offset_ns,
    clock_error_ns: part.clock_error_ns,
    // After the end, with several nodes.
    clock_offset_after_ns [opt]: part.clock_after.map(|after| after.offset_ns),
    clock_error_after_ns [opt]: part.clock_after.map(|after| after.error_ns),
    // Time of its clock that passed in one unit of this host's time, between the two readings, with its maximum error.
    clock_rate [opt]: part.clock_rate().map(|clock| clock.rate),
    clock_rate_error [opt]: part.clock_rate().map(|clock| clock.error),
    // From the instant at which all nodes were to start.
    start_late_ns [opt]: Some(part.start_late_ns).filter(|late| *late > 0),
    environment: EnvironmentView(&part.environment),
    host: HostView(&part.host),
    files: list(&part.files, FileView),
    notes: part.notes,
    // CPU time of sampling, by series.
    sampling [filled]: part.sampling,
});

object!(EnvironmentView<'a>(it in &'a Environment) {
    iodyno: it.iodyno,
    host: it.host,
    kernel: it.kernel,
    kernel_build: it.kernel_build,
    system: it.system,
    boot_id: it.boot_id,
    virtualisation: it.virtualisation,
    cpu_model: it.cpu.model,
    cpus: it.cpu.logical,
    numa_nodes: it.cpu.nodes,
    governor: it.cpu.governor.name,
    boost: it.cpu.governor.boost,
    memory_bytes: it.memory.total,
    memory_available_bytes: it.memory.available,
    // Limits of the control groups.
    memory_limit_bytes: it.memory.limit,
    swap_used_bytes: it.memory.swap_used,
    clock_source: it.clock_source,
    clock_read_ns: it.clock_read_ns,
    load_1min: f64::from(it.load_1min_x100) / 100.0,
    targets: list(&it.targets, TargetView),
    // The target, if it was made for the run.
    made [opt]: it.made.as_ref().map(MadeView),
});

object!(MadeView<'a>(made in &'a MadeTarget) {
    // Number of the target among those made for the configuration, from 1.
    instance: made.instance,
    // Facts about its layers: `zfs.properties`, `precondition.iops`, …
    facts: made.facts,
    // The commands that made it, each with its exit status and the end of its output.
    commands: list(&made.commands, CommandView),
});

object!(CommandView<'a>(run in &'a CommandRun) {
    command: run.command,
    // Null: ended by a signal, not started, or still running.
    status: run.status,
    output: run.output,
    span_ns: run.span_ns,
});

object!(TargetView<'a>(target in &'a TargetInfo) {
    path: target.path.display().to_string(),
    // Top first.
    stack: list(&target.stack, LayerView),
});

// The keys after `layer` are those of its kind.
object!(LayerView<'a>(layer in &'a StackLayer) {
    layer: match layer {
        StackLayer::Mount(_) => "mount",
        StackLayer::Partition(_) => "partition",
        StackLayer::Loop { .. } => "loop",
        StackLayer::Mapped { .. } => "mapped",
        StackLayer::Disk(_) => "disk",
        StackLayer::Other(_) => "other",
    },
    point [opt]: mount(layer).map(|mount| mount.point.display().to_string()),
    file_system [opt]: mount(layer).map(|mount| &mount.file_system),
    source [opt]: mount(layer).map(|mount| &mount.source),
    options [opt]: mount(layer).map(|mount| &mount.options),
    free_bytes [opt]: mount(layer).map(|mount| mount.free),
    total_bytes [opt]: mount(layer).map(|mount| mount.total),
    free_inodes [opt]: mount(layer).map(|mount| mount.free_inodes),
    device [opt]: layer.device().map(DeviceView),
    own [each]: match layer {
        StackLayer::Loop { file, direct, .. } => vec![("file", json!(file.display().to_string())), ("direct", json!(direct))],
        StackLayer::Mapped { driver, name, .. } => vec![("driver", json!(driver)), ("name", json!(name))],
        StackLayer::Other(description) => vec![("description", json!(description))],
        _ => Vec::new(),
    },
});

fn mount(layer: &StackLayer) -> Option<&MountInfo> {
    match layer {
        StackLayer::Mount(mount) => Some(mount),
        _ => None,
    }
}

object!(DeviceView<'a>(device in &'a DeviceLayer) {
    name: device.name,
    number: format!("{}:{}", device.number.0, device.number.1),
    size_bytes: device.size,
    model: device.model,
    scheduler: device.scheduler,
    // Values as in sysfs, by their sysfs names.
    queue: device.queue,
});

object!(HostView<'a>(host in &'a HostUse) {
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
    control_group: host.control_group.as_ref().map(ControlGroupView),
    devices: list(&host.devices, CountersView),
});

object!(ControlGroupView<'a>(group in &'a ControlGroupUse) {
    periods: group.periods,
    throttled_periods: group.throttled_periods,
    throttled_ns: group.throttled_ns,
    memory_limit_hits: group.memory_limit_hits,
});

// As in /proc/diskstats.
object!(CountersView<'a>(device in &'a DeviceUse) {
    name: device.name,
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
});

object!(FileView<'a>(file in &'a FileState) {
    path: file.path,
    length_bytes: file.length,
    unwritten_bytes: file.unwritten,
    laid_out: file.laid_out,
    device: file.device,
});
