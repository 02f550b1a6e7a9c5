//! The layers between jobs and storage: the devices of each layer, and servers under test.

use iodyno_model::{DeviceSummary, ServerUse, StackLayer, Summary, Trial};
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

/// In place of the busy time of a device whose statistics do not contain the jobs' ops.
pub(super) const NOT_COUNTED: &str = "busy n/a (io_uring_cmd bypasses block statistics)";

fn time(ns: Option<f64>) -> String {
    ns.map_or("-".to_owned(), |ns| Nanos(ns.round() as u64).to_string())
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
