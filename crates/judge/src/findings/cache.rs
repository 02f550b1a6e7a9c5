//! Whether memory answered in place of the device.

use iodyno_model::{
    Direction, EngineKind, Finding, FindingKind, Job, MountInfo, StackLayer, Weight,
};
use iodyno_units::Bytes;

use super::{Evidence, finding, remedied};
use crate::devices;

/// Below this share of the jobs' bytes the device did not do what the figure says; the tenth left
/// is for write-back still under way, metadata and counters read a moment apart.
const SERVED_SHARE: f64 = 0.9;

/// Below this share the figure is the cache's, not the device's.
const ALL_SERVED_SHARE: f64 = 0.1;

/// Fewer bytes than this prove nothing: a few pages may be cached anywhere.
const LEAST_BYTES: u64 = 1 << 20;

/// Where no device is known, a cache's own counters accuse it from this share of hits on.
const ARC_HIT_SHARE: f64 = 0.1;

pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    let mut found = Vec::new();
    for direction in [Direction::Read, Direction::Write] {
        found.extend(served(evidence, direction));
    }
    found.extend(arc(evidence));
    found.extend(memory_target(evidence));
    found.extend(smaller_than_memory(evidence));
    found
}

fn share(evidence: &Evidence, direction: Direction) -> Option<f64> {
    let shares = &evidence.summary.shares;
    shares
        .iter()
        .find(|share| share.direction == direction && share.job_bytes >= LEAST_BYTES)
        .map(|share| share.ratio())
}

fn served(evidence: &Evidence, direction: Direction) -> Option<Finding> {
    let ratio = share(evidence, direction)?;
    if ratio >= SERVED_SHARE {
        return None;
    }
    let share = evidence
        .summary
        .shares
        .iter()
        .find(|share| share.direction == direction)?;
    let devices = device_names(evidence);
    let (verb, cause) = match direction {
        Direction::Read => ("read from", "a cache served the rest"),
        _ => (
            "written to",
            "the rest was still in memory, or never left it",
        ),
    };
    let weight = match ratio < ALL_SERVED_SHARE {
        true => Weight::Invalid,
        false => Weight::Warning,
    };
    let text = format!(
        "{} were {verb} {devices} for the jobs' {} ({:.2} ×): {cause}",
        Bytes(share.device_bytes),
        Bytes(share.job_bytes),
        ratio
    );
    let threshold = format!(
        "bytes at the lowest device < {SERVED_SHARE} × the jobs' bytes; \
         < {ALL_SERVED_SHARE} ×: the figure is the cache's"
    );
    Some(remedied(
        finding(FindingKind::CacheServed, weight, text, threshold),
        cache_remedy(evidence, direction),
    ))
}

fn cache_remedy(evidence: &Evidence, direction: Direction) -> &'static str {
    let direct = evidence.clones_on_files().all(|(_, job)| job.engine.direct);
    let mut writers = evidence
        .clones_on_files()
        .filter(|(_, job)| job.access.writes);
    let synced = writers.all(|(_, job)| job.sync.end_fsync);
    match (direction, direct) {
        (Direction::Read, false) => "set direct=1, or a size well above the host's memory",
        (Direction::Read, true) if on_devices(evidence) => {
            "direct=1 passes this host's cache: a layer below the device keeps one, or its blocks \
             were never written (a sparse image, a thin volume); fill the device first"
        }
        (Direction::Read, true) => {
            "direct=1 does not pass this file system's cache (ZFS: set primarycache=metadata), \
             or take a size well above the host's memory"
        }
        (_, false) if synced => {
            "add the time of end_fsync, which stands among the steps, or set direct=1"
        }
        (_, false) => "set end_fsync=1 and look at the time it takes, or direct=1",
        (_, true) => {
            "direct=1 does not pass this file system's cache, or it stores less than it is given \
             (compression, deduplication): set end_fsync=1 and incompressible buffers"
        }
    }
}

/// Every target is a block device: no file system of this host lies between.
fn on_devices(evidence: &Evidence) -> bool {
    let mut files = evidence.trial.parts.iter().flat_map(|part| &part.files);
    files.clone().next().is_some() && files.all(|file| file.device)
}

fn device_names(evidence: &Evidence) -> String {
    let mut names: Vec<&str> = evidence
        .trial
        .parts
        .iter()
        .flat_map(devices::lowest)
        .collect();
    names.dedup();
    super::list(&names)
}

/// A ZFS read cache where the devices below the pool are not known.
fn arc(evidence: &Evidence) -> Option<Finding> {
    if share(evidence, Direction::Read).is_some() {
        return None;
    }
    let reads = evidence
        .clones_on_files()
        .any(|(clone, _)| clone.direction(Direction::Read).is_some_and(|r| r.ops > 0));
    let (hits, misses) = evidence
        .trial
        .parts
        .iter()
        .filter_map(|part| part.host.arc_hits)
        .fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
    let hit_share = hits as f64 / (hits + misses).max(1) as f64;
    let zfs = mounts(evidence).any(|mount| is_zfs(&mount.file_system));
    if !reads || !zfs || hit_share < ARC_HIT_SHARE {
        return None;
    }
    Some(remedied(
        finding(
            FindingKind::CacheServed,
            match hit_share > 1.0 - ALL_SERVED_SHARE {
                true => Weight::Invalid,
                false => Weight::Warning,
            },
            format!(
                "the ARC answered {:.0} % of {} lookups meanwhile",
                hit_share * 100.0,
                hits + misses
            ),
            format!("ARC hits ≥ {:.0} % of lookups", ARC_HIT_SHARE * 100.0),
        ),
        "set primarycache=metadata on the dataset, or a size well above the host's memory",
    ))
}

fn mounts<'a>(evidence: &'a Evidence) -> impl Iterator<Item = &'a MountInfo> {
    evidence.trial.parts.iter().flat_map(devices::file_systems)
}

/// `zfs`, `fuse.zfs`, `zfs-fuse`.
fn is_zfs(file_system: &str) -> bool {
    file_system.contains("zfs")
}

/// File systems that keep data in memory and nowhere else.
const IN_MEMORY: [&str; 3] = ["tmpfs", "ramfs", "hugetlbfs"];

fn memory_target(evidence: &Evidence) -> Option<Finding> {
    evidence.clones_on_files().next()?;
    let file_system = mounts(evidence)
        .map(|mount| mount.file_system.as_str())
        .find(|name| IN_MEMORY.contains(name));
    let zram = evidence
        .trial
        .parts
        .iter()
        .flat_map(|part| &part.environment.targets)
        .flat_map(|target| &target.stack)
        .filter_map(StackLayer::device)
        .map(|device| device.name.as_str())
        .find(|name| name.starts_with("zram") || name.starts_with("ram"));
    let what = file_system.or(zram)?;
    Some(finding(
        FindingKind::CacheServed,
        Weight::Note,
        format!(
            "the target lies in memory ({what}): the figures are those of memory and its driver"
        ),
        "a target on tmpfs, ramfs, zram or a RAM disk",
    ))
}

fn smaller_than_memory(evidence: &Evidence) -> Option<Finding> {
    let cached_anyway = mounts(evidence).any(|mount| is_zfs(&mount.file_system));
    let cached = |job: &Job| {
        job.access.reads
            && (!job.engine.direct || job.engine.kind == EngineKind::Mmap || cached_anyway)
    };
    let in_memory = mounts(evidence).any(|mount| IN_MEMORY.contains(&mount.file_system.as_str()));
    let region: u64 = evidence
        .clones_on_files()
        .filter(|(_, job)| cached(job))
        .map(|(clone, _)| clone.region_bytes)
        .sum();
    let memory = evidence
        .trial
        .parts
        .iter()
        .map(|part| part.environment.memory.total)
        .min()?;
    // Clones that share a file count it once each: the files' own length is the upper limit.
    let files: u64 = evidence
        .trial
        .parts
        .iter()
        .flat_map(|part| &part.files)
        .map(|file| file.length)
        .sum();
    let set = match files {
        0 => region,
        files => region.min(files),
    };
    if set == 0 || set >= memory || in_memory {
        return None;
    }
    // Where the device moved every byte, the cache can have had no part in it this time.
    let weight = match share(evidence, Direction::Read) {
        Some(ratio) if ratio >= SERVED_SHARE => Weight::Note,
        _ => Weight::Warning,
    };
    Some(remedied(
        finding(
            FindingKind::SmallerThanMemory,
            weight,
            format!(
                "cached reads of {} fit into the host's {} of memory",
                Bytes(set),
                Bytes(memory)
            ),
            "bytes read through a cache < the host's memory",
        ),
        "set direct=1, or a size well above the host's memory",
    ))
}
