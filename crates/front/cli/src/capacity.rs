//! Whether the files of workloads fit in the storage that a run makes.

use std::collections::BTreeMap;

use iodyno_model::{
    Amount, Configuration, Diagnostic, Job, Layer, MdLevel, Place, PlannedNode, Provision, Work,
    Workload,
};
use iodyno_units::Bytes;

/// Warnings for workloads whose files are larger than the storage made for them. `nodes`: those of the run; folders of
/// other hosts are not examined.
pub(crate) fn too_large(
    nodes: &[PlannedNode],
    configurations: &[Configuration],
    workloads: &[Workload],
    places: &BTreeMap<String, Place>,
) -> Vec<Diagnostic> {
    let made = configurations.iter().filter(|it| !it.again);
    let here = nodes.is_empty();
    let made = made.filter_map(|it| Some((it, capacity(it.provision()?, here)?)));
    let mut warnings = Vec::new();
    for (configuration, capacity) in made {
        for workload in workloads {
            let here = workload.runs_on(configuration, configurations);
            let on_devices = configuration.provision().is_some_and(gives_devices);
            let needed = needed(workload, on_devices);
            if here && needed > capacity.bytes {
                let message = format!(
                    "the files of `{}` do not fit on `{}`: they need {}, and it has at most {}",
                    workload.name,
                    configuration.name,
                    Bytes(needed),
                    Bytes(capacity.bytes)
                );
                let hint = format!("{}, or use smaller or fewer files", capacity.remedy);
                let place = places.get(&format!("workload.{}", workload.name));
                warnings.push(Diagnostic {
                    place: place.cloned(),
                    ..Diagnostic::warning(message).hint(hint)
                });
            }
        }
    }
    warnings
}

/// The space of made storage.
struct Capacity {
    /// At most this many bytes.
    bytes: u64,
    /// How the user can increase it.
    remedy: String,
}

/// The space of made storage, or the free space of its folder on this host if it is `here`. `None`: it is unknown, or
/// data may be compressed.
fn capacity(provision: &Provision, here: bool) -> Option<Capacity> {
    let compressed = provision.layers.iter().any(|layer| match layer {
        Layer::Zfs(zfs) => zfs.properties.contains_key("compression"),
        Layer::FileSystem { mount, .. } => mount.iter().any(|it| it.starts_with("compress")),
        _ => false,
    });
    let limited = |key: &str, bytes: u64| Capacity {
        bytes,
        remedy: format!("increase `{key}`"),
    };
    let file = |layer: &Layer| matches!(layer, Layer::File { .. });
    let files = provision.layers.iter().any(file);
    let sizes = provision.layers.iter().filter_map(|layer| match layer {
        Layer::File { size, count, .. } => {
            Some(limited("file.size", usable(provision, *size, *count)))
        }
        Layer::Zram { size, count, .. } => {
            Some(limited("zram.size", usable(provision, *size, *count)))
        }
        Layer::Tmpfs { size } => Some(limited("tmpfs.size", *size)),
        Layer::Zfs(zfs) => Some(limited("zfs.volume", zfs.volume?)),
        // Image files are checked themselves.
        Layer::Directory { path } if here && !files && path.is_dir() => Some(Capacity {
            bytes: iodyno_host::space::room(path).ok()?.bytes,
            remedy: format!("free space in `{}`", path.display()),
        }),
        _ => None,
    });
    sizes
        .min_by_key(|capacity| capacity.bytes)
        .filter(|_| !compressed)
}

/// The usable size of the layers above this many files or devices of this size, bytes.
fn usable(provision: &Provision, size: u64, count: u32) -> u64 {
    let all = size.saturating_mul(u64::from(count));
    let redundant = provision.layers.iter().find_map(|layer| match layer {
        // Superblocks and log are in the first MiB of each leg.
        Layer::Mirror(_) => Some(size.saturating_sub(1 << 20)),
        Layer::Md(md) => Some(match md.level {
            MdLevel::Raid1 => size,
            // The layout names the copies: `n2`.
            MdLevel::Raid10 => {
                let layout = md.layout.as_deref().and_then(|text| text.get(1..));
                let copies = layout.and_then(|copies| copies.parse().ok()).unwrap_or(2);
                all / u64::max(copies, 1)
            }
        }),
        Layer::Zfs(zfs) if !zfs.layout.is_empty() => {
            Some(zfs.layout.iter().fold(0, |sum: u64, group| {
                let devices = u64::from(match group.redundancy.as_deref() {
                    None => group.devices,
                    Some("mirror") => 1,
                    Some("raidz3") => group.devices.saturating_sub(3),
                    Some("raidz2") => group.devices.saturating_sub(2),
                    Some(_) => group.devices.saturating_sub(1),
                });
                sum.saturating_add(size.saturating_mul(devices))
            }))
        }
        _ => None,
    });
    redundant.unwrap_or(all)
}

/// Whether jobs use the devices of made storage, not files on it.
fn gives_devices(provision: &Provision) -> bool {
    provision.layers.first().is_some_and(Layer::gives_devices)
}

/// The least space that the files of a workload need, bytes; `on_devices`: all jobs and their clones use the same ones.
fn needed(workload: &Workload, on_devices: bool) -> u64 {
    let mut files: BTreeMap<String, u64> = BTreeMap::new();
    for (name, bytes) in workload
        .jobs
        .iter()
        .filter_map(|job| of_job(job, on_devices))
    {
        let largest = files.entry(name).or_default();
        *largest = bytes.max(*largest);
    }
    match on_devices {
        true => files.into_values().max().unwrap_or(0),
        false => files.into_values().fold(0, u64::saturating_add),
    }
}

/// A key that identifies the files of a job, and their total size in bytes. `None` for a job without files, or if the
/// size depends on the target.
fn of_job(job: &Job, on_devices: bool) -> Option<(String, u64)> {
    match &job.work {
        Work::Blocks(blocks) => {
            let none = blocks.engine.kind.without_files();
            let Some(Amount::Bytes(size)) = blocks.extent.size else {
                return None;
            };
            if none || blocks.replay.is_some() {
                return None;
            }
            let files = &blocks.files;
            Some(match files.names.is_empty() {
                false => (format!("{:?}", files.names), size),
                true if on_devices => (job.name.clone(), size),
                true if files.format.contains("$jobname") || files.format.is_empty() => {
                    (job.name.clone(), size.saturating_mul(u64::from(job.clones)))
                }
                true => (files.format.clone(), size),
            })
        }
        Work::FileOperations(operations) => {
            let sets = operations.sets.iter();
            let sizes = sets.map(|set| set.count.saturating_mul(set.size));
            let size = sizes.fold(0, u64::saturating_add);
            Some((job.name.clone(), size))
        }
        // All use the same files.
        Work::SharedFiles(shared) => Some(("shared files".to_owned(), shared.total_size())),
    }
}
