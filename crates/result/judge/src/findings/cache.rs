//! Detects that ops were served from memory and not by the device.

use iodyno_model::{
    CloneResult, Direction, Engine, Finding, FindingKind, Job, Kind, MountInfo, SeriesKind,
    StackLayer, SyncPolicy, TargetInfo, Weight, Work,
};
use iodyno_units::{Bytes, Nanos, multiple};

use super::{Evidence, finding, remedied};
use crate::kind::kind;
use crate::series::totals;
use crate::work::measured_ns;
use crate::{devices, work};

/// Below this fraction of the jobs' bytes, part of the I/O did not reach the device. The remaining tenth allows for
/// writeback in progress, metadata, and counters that are read at slightly different times.
const SERVED_SHARE: f64 = 0.9;

/// Below this fraction the figure describes the cache and not the device.
const ALL_SERVED_SHARE: f64 = 0.1;

/// With fewer bytes no conclusion is possible: a few pages can be in any cache.
const MIN_BYTES: u64 = 1 << 20;

/// Up to this fraction of memory the kernel lets writes be, without any in the background: half of its default
/// (vm.dirty_background_ratio).
const DIRTY_SHARE: f64 = 0.05;

/// For this time dirty pages stay in memory unless something asks for them (vm.dirty_expire_centisecs), ns.
const DIRTY_NS: u64 = 30_000_000_000;

/// If no device is known, the cache's own counters give this finding from this hit rate upwards.
const ARC_HIT_SHARE: f64 = 0.1;

pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    let mut found = Vec::new();
    for direction in [Direction::Read, Direction::Write] {
        found.extend(served(evidence, direction));
    }
    if !found
        .iter()
        .any(|finding| finding.weight == Weight::Invalid)
    {
        found.extend(never_synced(evidence));
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
        .find(|share| share.direction == direction && share.job_bytes >= MIN_BYTES)
        .map(|share| share.caused_ratio())
}

fn served(evidence: &Evidence, direction: Direction) -> Option<Finding> {
    let ratio = share(evidence, direction)?;
    if ratio >= SERVED_SHARE || !data_count(evidence, direction) {
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
    let flushed = direction == Direction::Write && flush_counts(evidence);
    let weight = match ratio < ALL_SERVED_SHARE {
        // The completion, by which such work is compared, includes the flush.
        _ if flushed => Weight::Note,
        true => Weight::Invalid,
        false => Weight::Warning,
    };
    let text = format!(
        "{} were {verb} {devices} for the jobs' {} ({}): {cause}",
        Bytes(share.caused_bytes()),
        Bytes(share.job_bytes),
        multiple(ratio)
    );
    let threshold = format!(
        "bytes at the lowest device < {SERVED_SHARE} × the jobs' bytes; \
         < {ALL_SERVED_SHARE} ×: the figure is the cache's"
    );
    Some(remedied(
        finding(FindingKind::CacheServed, weight, text, threshold),
        match flushed {
            true => "judge by the completion, which includes the flush at the end",
            false => cache_remedy(evidence, direction),
        },
    ))
}

/// A job of a fixed size that writes to the page cache without a sync ends before its data are on the storage. The
/// evidence is in the job alone: the devices may have written data of other processes.
fn never_synced(evidence: &Evidence) -> Option<Finding> {
    let writers: Vec<(&CloneResult, &Job)> = (evidence.clones_on_files())
        .filter(|(clone, _)| clone.direction(Direction::Write).is_some())
        .collect();
    let written: u64 = writers.iter().map(|(clone, _)| written_bytes(clone)).sum();
    let region: u64 = writers.iter().map(|(clone, _)| clone.region_bytes).sum();
    let memory = evidence.trial.parts.iter();
    let memory = memory.map(|part| part.environment.memory.usable()).min()?;
    let dirty = written.min(region);
    if written < MIN_BYTES
        || kind(evidence.workload, evidence.trial) != Kind::Finite
        || !writers.iter().all(|(_, job)| leaves_dirty(job))
        || !on_page_cache(evidence)
        || dirty as f64 > DIRTY_SHARE * memory as f64
        || measured_ns(evidence.trial) > DIRTY_NS
    {
        return None;
    }
    Some(remedied(
        finding(
            FindingKind::CacheServed,
            Weight::Invalid,
            format!(
                "{} were written to the page cache and never synced: the figure is that of memory, whatever the devices \
                 wrote for others",
                Bytes(written)
            ),
            format!(
                "fixed buffered writes without a sync, ≤ {:.0} % of memory and ≤ {}, which the kernel keeps in memory",
                DIRTY_SHARE * 100.0,
                Nanos(DIRTY_NS)
            ),
        ),
        cache_remedy(evidence, Direction::Write),
    ))
}

fn written_bytes(clone: &CloneResult) -> u64 {
    clone
        .direction(Direction::Write)
        .map_or(0, |result| result.bytes)
}

/// Whether no option of the job ever waits for its writes to be on the storage.
fn leaves_dirty(job: &Job) -> bool {
    let synced = match &job.work {
        Work::Blocks(blocks) => blocks.sync != SyncPolicy::default(),
        Work::SharedFiles(shared) => shared.fsync_every > 0 || shared.fsync_all || shared.fsync_end,
        Work::FileOperations(_) => true,
    };
    let flags = |engine: &Engine| engine.o_sync || engine.o_dsync;
    work::buffered(job) && !synced && !job.work.engine().is_some_and(flags)
}

/// Whether every target keeps buffered writes in the page cache of this host.
fn on_page_cache(evidence: &Evidence) -> bool {
    let keeps = |target: &TargetInfo| match target.stack.first() {
        Some(StackLayer::Mount(mount)) => {
            let synchronous = mount.options.split(',').any(|option| option == "sync");
            devices::LOCAL.contains(&mount.file_system.as_str()) && !synchronous
        }
        Some(layer) => layer.device().is_some(),
        None => false,
    };
    let mut parts = evidence.trial.parts.iter();
    parts.all(|part| part.environment.targets.iter().all(keeps))
}

/// Whether a fixed amount of work was written and flushed at its end, so that its completion includes the flush.
fn flush_counts(evidence: &Evidence) -> bool {
    let flushes = |job: &Job| match &job.work {
        Work::Blocks(blocks) => blocks.sync.end_fsync || !work::writes(job),
        Work::FileOperations(of) => of.drain,
        Work::SharedFiles(shared) => shared.fsync_end || !work::writes(job),
    };
    kind(evidence.workload, evidence.trial) == Kind::Finite
        && evidence.workload.jobs.iter().all(flushes)
}

/// Whether the figure concerns data at all. If the only data that remain in memory are written untimed by file
/// operations, no figure describes the cache.
fn data_count(evidence: &Evidence, direction: Direction) -> bool {
    if !evidence.only_operations() || direction != Direction::Write {
        return true;
    }
    let jobs = evidence.workload.jobs.iter();
    let mut operations = jobs.filter_map(|job| job.work.file_operations());
    operations.any(|of| of.times(Direction::Write) || of.times(Direction::Sync))
}

fn cache_remedy(evidence: &Evidence, direction: Direction) -> &'static str {
    if evidence.only_operations() {
        let mut operations =
            (evidence.workload.jobs.iter()).filter_map(|job| job.work.file_operations());
        return match operations.any(|of| of.times(Direction::Sync)) {
            true => {
                "the known device did not receive the synced data: a layer above it keeps or compresses them"
            }
            false => {
                "add a timed sync step to the cycle, or judge by the completion with its drain"
            }
        };
    }
    if evidence.only_shared() {
        return match (
            direction,
            evidence.workload.jobs.iter().all(|job| job.work.direct()),
        ) {
            (Direction::Read, false) => {
                "set file-extra-flags=direct, or file-total-size well above the host's memory"
            }
            (Direction::Read, true) => {
                "file-extra-flags=direct does not bypass this file system's cache, or a layer below has one: use \
                 file-total-size well above the host's memory"
            }
            (_, false) => {
                "add the time of the fsyncs at the end, or set file-extra-flags=direct or file-fsync-all"
            }
            (_, true) => {
                "file-extra-flags=direct does not bypass this file system's cache, or the file system compresses or \
                 deduplicates"
            }
        };
    }
    let direct = evidence.clones_on_files().all(|(_, job)| job.work.direct());
    let mut writers = evidence
        .clones_on_files()
        .filter(|(_, job)| work::writes(job));
    let synced = writers.all(|(_, job)| {
        job.work
            .blocks()
            .is_some_and(|blocks| blocks.sync.end_fsync)
    });
    match (direction, direct) {
        (_, true) if on_cached_loops(evidence) => {
            "direct=1 bypasses this host's cache only above the loop device, and a layer below caches: use direct I/O \
             there as well (`losetup --direct-io=on`)"
        }
        (Direction::Read, false) => "set direct=1, or a size well above the host's memory",
        (Direction::Read, true) if on_devices(evidence) => {
            "direct=1 bypasses this host's cache: a layer below the device has one, or its blocks \
             were never written (a sparse image, a thin volume); fill the device first"
        }
        (Direction::Read, true) if mounts(evidence).any(|mount| is_zfs(&mount.file_system)) => {
            "direct=1 does not bypass this file system's cache: set primarycache=metadata, or use a size well above \
             the host's memory"
        }
        (Direction::Read, true) => {
            "direct=1 does not bypass this file system's cache, or a layer below caches: use a size well above the \
             host's memory"
        }
        (_, false) if synced => {
            "add the time of end_fsync, listed among the steps, or set direct=1"
        }
        (_, false) => "set end_fsync=1 and add its time, or set direct=1",
        (_, true) => {
            "direct=1 does not bypass this file system's cache, a layer below caches, or the file system compresses or \
             deduplicates: set end_fsync=1 and incompressible buffers"
        }
    }
}

/// Whether every target is a block device, so that no file system of this host is involved.
fn on_devices(evidence: &Evidence) -> bool {
    let mut files = evidence.trial.parts.iter().flat_map(|part| &part.files);
    files.clone().next().is_some() && files.all(|file| file.device)
}

/// Whether a target is on a loop device that uses the host's cache for its backing file.
fn on_cached_loops(evidence: &Evidence) -> bool {
    let parts = evidence.trial.parts.iter();
    let mut layers = parts
        .flat_map(|part| &part.environment.targets)
        .flat_map(|target| &target.stack);
    layers.any(|layer| matches!(layer, StackLayer::Loop { direct: false, .. }))
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

/// The ZFS read cache, if the devices below the pool are unknown.
fn arc(evidence: &Evidence) -> Option<Finding> {
    if share(evidence, Direction::Read).is_some() {
        return None;
    }
    let reads = evidence
        .clones_on_files()
        .any(|(clone, _)| clone.direction(Direction::Read).is_some_and(|r| r.ops > 0));
    let (hits, misses) = arc_lookups(evidence);
    let lookups = hits.saturating_add(misses);
    let hit_share = hits as f64 / lookups.max(1) as f64;
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
                "the ARC served {:.0} % of {} lookups",
                hit_share * 100.0,
                lookups
            ),
            format!("ARC hits ≥ {:.0} % of lookups", ARC_HIT_SHARE * 100.0),
        ),
        "set primarycache=metadata on the dataset, or a size well above the host's memory",
    ))
}

/// Hits and misses over the measured time: from the counters read at its ends, or from the series if there are
/// none.
fn arc_lookups(evidence: &Evidence) -> (u64, u64) {
    let parts = evidence.trial.parts.iter();
    let counted: Vec<(u64, u64)> = parts.filter_map(|part| part.host.arc_hits).collect();
    let sampled = || totals(&evidence.telemetry, SeriesKind::Arc);
    let lookups = match counted.is_empty() {
        false => counted,
        true => (sampled().iter())
            .map(|arc| (arc.count("hits"), arc.count("misses")))
            .collect(),
    };
    let sum = |sum: (u64, u64), part: (u64, u64)| {
        (sum.0.saturating_add(part.0), sum.1.saturating_add(part.1))
    };
    lookups.into_iter().fold((0, 0), sum)
}

fn mounts<'a>(evidence: &'a Evidence) -> impl Iterator<Item = &'a MountInfo> {
    evidence.trial.parts.iter().flat_map(devices::file_systems)
}

/// `zfs`, `fuse.zfs`, `zfs-fuse`.
fn is_zfs(file_system: &str) -> bool {
    file_system.contains("zfs")
}

/// File systems that store data in memory only.
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
        format!("the target is in memory ({what}): the figures are those of memory and its driver"),
        "a target on tmpfs, ramfs, zram or a RAM disk",
    ))
}

fn smaller_than_memory(evidence: &Evidence) -> Option<Finding> {
    let cached_anyway = mounts(evidence).any(|mount| is_zfs(&mount.file_system));
    let cached = |job: &Job| work::reads(job) && (work::buffered(job) || cached_anyway);
    let in_memory = mounts(evidence).any(|mount| IN_MEMORY.contains(&mount.file_system.as_str()));
    // Whether a trace has reads is known from its replay alone.
    let read = |clone: &CloneResult, job: &Job| {
        let mut results = clone.directions.iter();
        job.work.replay().is_none()
            || results.any(|result| result.direction == Direction::Read && result.ops > 0)
    };
    let own: u64 = evidence
        .clones_on_files()
        .filter(|(clone, job)| cached(job) && read(clone, job))
        .filter(|(_, job)| job.work.shared_files().is_none())
        .map(|(clone, _)| clone.region_bytes)
        .sum();
    let jobs = || evidence.workload.jobs.iter().filter(|job| cached(job));
    let shared: u64 = jobs().filter_map(work::shared_bytes).sum();
    let memory = evidence
        .trial
        .parts
        .iter()
        .map(|part| &part.environment.memory)
        .min_by_key(|memory| memory.usable())?;
    // Clones that share a file each count it once: the length of the files is the upper limit.
    let files: u64 = evidence
        .trial
        .parts
        .iter()
        .flat_map(|part| &part.files)
        .map(|file| file.length)
        .sum();
    let own = match files {
        0 => own,
        files => own.min(files),
    };
    let set = own.saturating_add(shared);
    if set == 0 || set >= memory.usable() || in_memory {
        return None;
    }
    // If the device transferred every byte, the cache had no effect in this trial.
    let weight = match share(evidence, Direction::Read) {
        Some(ratio) if ratio >= SERVED_SHARE => Weight::Note,
        _ => Weight::Warning,
    };
    Some(remedied(
        finding(
            FindingKind::SmallerThanMemory,
            weight,
            format!(
                "cached reads of {} fit into the {} {} of memory",
                Bytes(set),
                match memory.limit {
                    Some(_) => "control group's",
                    None => "host's",
                },
                Bytes(memory.usable())
            ),
            "bytes read through a cache < the host's memory, or the memory limit of its control group",
        ),
        // On ZFS, direct jobs are cached as well.
        match (evidence.only_shared(), jobs().all(|job| job.work.direct())) {
            (true, false) => {
                "set file-extra-flags=direct, or file-total-size well above the host's memory"
            }
            (true, true) => {
                "file-extra-flags=direct does not bypass this file system's cache: set primarycache=metadata, or \
                 file-total-size well above the host's memory"
            }
            (false, false) => "set direct=1, or a size well above the host's memory",
            (false, true) => {
                "direct=1 does not bypass this file system's cache: set primarycache=metadata, or use a size well above \
                 the host's memory"
            }
        },
    ))
}
