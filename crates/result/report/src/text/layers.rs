//! The layers between jobs and storage: the devices of each layer, and servers under test.

use iodyno_model::{DeviceSummary, ServerUse, StackLayer, StageTimes, Summary, Trial};
use iodyno_units::{Bytes, Nanos, significant};

use super::join;
use crate::style::{left, right, sanitize, width};

/// A line for each device if several are stacked, top first, so that the cost of a layer can be distinguished from that
/// of the layers below it. Partitions are omitted: they have no queue.
pub(super) fn layers(summary: &Summary, trial: &Trial) -> Vec<String> {
    let environments = trial.parts.iter().map(|part| &part.environment);
    let stacks = environments.flat_map(|environment| &environment.targets);
    let partitions: Vec<&str> = stacks
        .flat_map(|target| &target.stack)
        .filter_map(|layer| match layer {
            StackLayer::Partition(device) => Some(device.name.as_str()),
            _ => None,
        })
        .collect();
    let devices = summary.devices.iter();
    let devices: Vec<&DeviceSummary> = devices
        .filter(|device| !partitions.contains(&device.name.as_str()))
        .collect();
    if devices.iter().all(|device| device.lowest) {
        return Vec::new();
    }
    let several = devices.iter().any(|device| device.node != devices[0].node);
    let name = |device: &DeviceSummary| match several {
        true => format!("{} {}", sanitize(&device.node), sanitize(&device.name)),
        false => sanitize(&device.name),
    };
    let names = devices.iter().map(|device| width(&name(device)));
    let widest = names.max().unwrap_or(0);
    let lines = devices.iter();
    lines
        .map(|device| {
            let cells = [
                left(&name(device), widest),
                match device.busy_percent {
                    Some(percent) => format!("{percent:>3.0} % busy"),
                    None => NOT_COUNTED.to_owned(),
                },
                format!("await read {}", right(&time(device.read_await_ns), 7)),
                format!("write {}", right(&time(device.write_await_ns), 7)),
                format!("queue {:>4}", significant(device.queue_mean).to_string()),
            ];
            cells.join("  ")
        })
        .collect()
}

/// Replaces the busy time of a device whose statistics do not contain the jobs' ops.
pub(super) const NOT_COUNTED: &str = "busy n/a (io_uring_cmd bypasses block statistics)";

fn time(ns: Option<f64>) -> String {
    ns.map_or("-".to_owned(), |ns| Nanos(ns.round() as u64).to_string())
}

/// Where the time of an op goes, by device and direction, if requests were traced: `vda read: 79.3 µs = 15.3 µs above
/// the device + 1.60 µs in its queue (p99 3.1 µs) + 62.4 µs in the device (p99 110 µs)`.
pub(super) fn device_times(summary: &Summary) -> Vec<String> {
    let all = summary.device_times.iter();
    let several = all
        .clone()
        .any(|(node, _)| *node != summary.device_times[0].0);
    all.map(|(node, times)| {
        let node = match several {
            true => format!("{} ", sanitize(node)),
            false => String::new(),
        };
        let stage = |stage: &StageTimes, place: &str| {
            let (mean, p99) = (time(Some(stage.mean_ns)), time(Some(stage.p99_ns)));
            format!("{mean} in {place} (p99 {p99})")
        };
        let queue = stage(&times.queue, "its queue");
        let service = stage(&times.service, "the device");
        let name = format!("{node}{} {}", sanitize(&times.device), times.direction);
        match (times.above_ns(), times.requests_per_op) {
            (Some(above), _) => format!(
                "{name}: {} per op = {} above the device + {queue} + {service}",
                time(times.op_ns),
                time(Some(above))
            ),
            (None, Some(per_op)) => format!(
                "{name}: {queue}, {service}, {} requests per op",
                significant(per_op)
            ),
            (None, None) => format!("{name}: {queue}, {service}, {} requests", times.requests),
        }
    })
    .collect()
}

/// The resource use of each server under test.
pub(super) fn servers(summary: &Summary) -> Vec<String> {
    let all = summary.server_cores().filter(|cores| *cores > 0.0);
    let per_op = |server: &ServerUse| {
        let whole = summary.server_ns_per_op()?;
        Some(Nanos((whole * server.cores() / all?).round() as u64))
    };
    let servers = summary.servers.iter();
    servers
        .map(|server| {
            let name = sanitize(&server.name);
            let name = match server.processes {
                0 | 1 => name,
                several => format!("{several} × {name}"),
            };
            let moved = |word: &str, bytes: Option<u64>| match bytes {
                Some(bytes) if bytes > 0 => format!("{word} {}", Bytes(bytes)),
                _ => String::new(),
            };
            let threads = match server.threads {
                1 => "1 thread".to_owned(),
                threads => format!("{threads} threads"),
            };
            let pieces = [
                format!("{name} {:.2} cores", server.cores()),
                per_op(server).map_or(String::new(), |each| format!("{each}/op")),
                threads,
                Bytes(server.memory).to_string(),
                moved("read", server.read_bytes),
                moved("wrote", server.written_bytes),
            ];
            join(pieces.into_iter(), ", ")
        })
        .collect()
}
