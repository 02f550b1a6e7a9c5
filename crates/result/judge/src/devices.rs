//! The lowest devices below the targets, and the bytes that they transferred.

use iodyno_model::ordered::distinct;
use iodyno_model::{DeviceUse, Direction, Part, StackLayer, TargetInfo, Workload};

/// The disks of the targets: names of the devices with no known device below them.
pub(crate) fn lowest(part: &Part) -> Vec<&str> {
    let mut names = Vec::new();
    for target in &part.environment.targets {
        let disks: Vec<&str> = target
            .stack
            .iter()
            .filter_map(|layer| match layer {
                StackLayer::Disk(device) => Some(device.name.as_str()),
                _ => None,
            })
            .collect();
        let last = target
            .stack
            .iter()
            .rev()
            .find_map(StackLayer::device)
            .map(|device| device.name.as_str());
        match disks.is_empty() {
            true => names.extend(last),
            false => names.extend(disks),
        }
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// The devices directly below the targets of a part.
pub(crate) fn top(part: &Part) -> Vec<&str> {
    let first = part.environment.targets.iter().flat_map(|target| {
        let layers = || target.stack.iter();
        let below = layers().filter(|layer| !matches!(layer, StackLayer::Mount(_)));
        let mut all: Vec<&str> = (below.filter_map(StackLayer::device))
            .map(|device| device.name.as_str())
            .collect();
        let disks = layers().filter(|layer| matches!(layer, StackLayer::Disk(_)));
        // Several disks side by side, as those of a pool, are all directly below.
        if disks.count() != all.len() {
            all.truncate(1);
        }
        all
    });
    distinct(first)
}

/// The names of all devices below a part's targets, of every layer.
pub(crate) fn names(part: &Part) -> impl Iterator<Item = &str> {
    part.environment.targets.iter().flat_map(names_below)
}

/// The same for one target.
pub(crate) fn names_below(target: &TargetInfo) -> impl Iterator<Item = &str> {
    let devices = target.stack.iter().filter_map(StackLayer::device);
    devices.map(|device| device.name.as_str())
}

/// Counters of the lowest devices; empty if a target has no device below it.
pub(crate) fn lowest_uses(part: &Part) -> Vec<&DeviceUse> {
    let names = lowest(part);
    part.host
        .devices
        .iter()
        .filter(|device| names.contains(&device.name.as_str()))
        .collect()
}

/// Counters of the devices with these names; `None` if none of them is known, or if a target without a device makes
/// their sum meaningless.
pub(crate) fn uses<'a>(part: &'a Part, names: &[&str]) -> Option<Vec<&'a DeviceUse>> {
    let mut targets = part.environment.targets.iter();
    let bare = targets.any(|target| target.stack.iter().all(|layer| layer.device().is_none()));
    let own = part.host.devices.iter();
    let own: Vec<&DeviceUse> = own
        .filter(|device| names.contains(&device.name.as_str()))
        .collect();
    (!bare && !own.is_empty()).then_some(own)
}

/// Bytes transferred by all lowest devices; `None` if no device is known, or if a target without a device makes the
/// sum meaningless.
pub(crate) fn device_bytes(parts: &[Part], direction: Direction) -> Option<u64> {
    let index = match direction {
        Direction::Read => 0,
        Direction::Write => 1,
        Direction::Trim => 2,
        _ => return None,
    };
    let mut sum = 0;
    for part in parts {
        let uses = uses(part, &lowest(part))?;
        sum += uses.iter().map(|device| device.bytes[index]).sum::<u64>();
    }
    (!parts.is_empty()).then_some(sum)
}

/// File systems whose reads are sent to their device by the thread that asks for the data, and whose buffered writes
/// remain in the page cache.
pub(crate) const LOCAL: [&str; 4] = ["ext2", "ext3", "ext4", "xfs"];

/// Bytes that the jobs' own processes read from devices; `None` if that is not known of each, or if others read for
/// them. The kernel charges buffered writes to a process when they are in memory, which says nothing about devices.
pub(crate) fn own_bytes(parts: &[Part], direction: Direction) -> Option<u64> {
    let own = |target: &TargetInfo| match target.stack.first() {
        Some(StackLayer::Mount(mount)) => LOCAL.contains(&mount.file_system.as_str()),
        Some(layer) => layer.device().is_some(),
        None => false,
    };
    let mut targets = parts.iter().flat_map(|part| &part.environment.targets);
    if direction != Direction::Read || !targets.all(own) {
        return None;
    }
    parts.iter().map(|part| part.host.own_read_bytes).sum()
}

/// Bytes transferred in one direction by the jobs that use files.
pub(crate) fn job_bytes(workload: &Workload, parts: &[Part], direction: Direction) -> u64 {
    parts
        .iter()
        .flat_map(|part| &part.clones)
        .filter(|clone| {
            workload
                .jobs
                .get(clone.job as usize)
                .is_none_or(|job| job.work.on_files())
        })
        .filter_map(|clone| clone.direction(direction))
        .map(|result| result.bytes)
        .sum()
}

/// The file systems of a part's targets.
pub(crate) fn file_systems(part: &Part) -> impl Iterator<Item = &iodyno_model::MountInfo> {
    part.environment
        .targets
        .iter()
        .flat_map(|target| &target.stack)
        .filter_map(|layer| match layer {
            StackLayer::Mount(mount) => Some(mount),
            _ => None,
        })
}
