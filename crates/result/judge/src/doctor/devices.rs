//! Checks of block devices below the targets: scheduler, caches, discard, and whether they can be sampled.

use iodyno_model::{Check, CheckState, DeviceLayer, Environment, StackLayer};

use super::{check, remedied, unknown};
use CheckState::{Fine, Note, Unfit};

pub(super) fn checks(environment: &Environment) -> Vec<Check> {
    let mut checks = Vec::new();
    let layers = (environment.targets.iter()).flat_map(|target| &target.stack);
    for layer in layers {
        match layer {
            StackLayer::Mount(_) => {}
            // A partition uses the queue of its disk.
            StackLayer::Partition(_) => {}
            StackLayer::Disk(device) => {
                checks.push(scheduler(device));
                checks.extend(queue(device));
            }
            // Requests are ordered once, by the disks below.
            StackLayer::Mapped { device, .. } => checks.extend(queue(device)),
            StackLayer::Loop { device, direct, .. } => {
                checks.push(direct_io(device, *direct));
                checks.extend(queue(device));
            }
            StackLayer::Other(what) => checks.push(nothing_below(what)),
        }
    }
    checks
}

fn nothing_below(what: &str) -> Check {
    let (name, rule) = (
        format!("device below {what}"),
        "known, so that caches and queues can be distinguished from the device",
    );
    match what {
        "tmpfs" | "ramfs" | "hugetlbfs" => remedied(
            check(name, Unfit, "none: it lies in memory", rule),
            "take a target on the storage to be measured",
        ),
        _ => unknown(name, "no block device is known below it", rule),
    }
}

fn direct_io(device: &DeviceLayer, direct: bool) -> Check {
    let path = format!("/dev/{}", device.name);
    let (state, found) = match direct {
        true => (Fine, "on"),
        false => (Unfit, "off: the page cache of its file is measured"),
    };
    remedied(
        check(
            format!("direct I/O of {}", device.name),
            state,
            found,
            "on, so that a loop device does not use the page cache",
        ),
        format!("losetup --direct-io=on {path}"),
    )
}

fn queue(device: &DeviceLayer) -> Vec<Check> {
    let mut checks = vec![write_cache(device), discard(device)];
    checks.extend(statistics(device));
    checks
}

fn setting<'a>(device: &'a DeviceLayer, name: &str) -> Option<&'a str> {
    device.queue.get(name).map(|value| value.trim())
}

/// Disks of a virtual machine report themselves as rotational by default, whatever the host's disk is.
const VIRTUAL: [&str; 2] = ["vd", "xvd"];

/// Spinning disks benefit from a scheduler; devices without seek times only become slower.
fn scheduler(device: &DeviceLayer) -> Check {
    let name = format!("scheduler of {}", device.name);
    let is_virtual = VIRTUAL.iter().any(|name| device.name.starts_with(name));
    let rotational = setting(device, "rotational") == Some("1");
    let (fit, rule): (&[&str], _) = match rotational && !is_virtual {
        true => (
            &["mq-deadline", "bfq"],
            "mq-deadline or bfq, as it says it is rotational",
        ),
        false => (
            &["none", "mq-deadline", "kyber"],
            "none, mq-deadline or kyber, as it is not rotational, or not to be put in order here: bfq costs CPU time for each request",
        ),
    };
    match device.scheduler.as_str() {
        "" => unknown(name, "not reported by the host", rule),
        scheduler if fit.contains(&scheduler) => check(name, Fine, scheduler, rule),
        scheduler => remedied(
            check(name, Note, scheduler, rule),
            format!(
                "echo {} > /sys/block/{}/queue/scheduler",
                fit[0], device.name
            ),
        ),
    }
}

fn write_cache(device: &DeviceLayer) -> Check {
    let name = format!("write cache of {}", device.name);
    let rule = "write through: what is written is safe when it is done, and no flush is needed";
    match setting(device, "write_cache") {
        None => unknown(name, "not reported by the host", rule),
        Some("write through") => check(name, Fine, "write through", rule),
        Some(mode) => remedied(
            check(
                name,
                Note,
                format!("{mode}: volatile, writes are safe after a flush only"),
                rule,
            ),
            "compare writes with their syncs (fsync=1, end_fsync=1, sync_file), and leave the cache as it is in use",
        ),
    }
}

/// A device without discards becomes slower as it is measured.
fn discard(device: &DeviceLayer) -> Check {
    let name = format!("discard of {}", device.name);
    let rule = "known to a device that is not rotational, so that it can be trimmed to the same state before each measurement";
    match (
        setting(device, "discard_max_bytes"),
        setting(device, "rotational"),
    ) {
        (None, _) => unknown(name, "not reported by the host", rule),
        (Some("0"), Some("1")) => check(name, Fine, "none, and it is rotational", rule),
        (Some("0"), _) => remedied(
            check(name, Note, "none", rule),
            "fill the device before measuring writes, so that each finds it full",
        ),
        (Some(_), _) => check(name, Fine, "known", rule),
    }
}

/// Reported only if off.
fn statistics(device: &DeviceLayer) -> Option<Check> {
    let off = setting(device, "iostats")? == "0";
    off.then(|| {
        remedied(
            check(
                format!("statistics of {}", device.name),
                Unfit,
                "off",
                "on: without them nothing is known of the device, and a cache is taken for it",
            ),
            format!("echo 1 > /sys/block/{}/queue/iostats", device.name),
        )
    })
}
