//! The storage stack below a path: mount, partition, loop device, mapping, disk, each with its settings.
//!
//! Reads the mount table and sysfs only. Only the path itself is opened, to find its mount. Unknown values
//! are omitted.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use iodyno_model::{DeviceLayer, MountInfo, StackLayer, TargetInfo};
use rustix::fs::{AtFlags, Mode, OFlags, StatVfs, StatxFlags};

use crate::block::{Block, DeviceNumber};
use crate::mounts::{self, Mount, bytes_of};
use crate::roots::Roots;

/// The queue settings to report, by sysfs name.
const QUEUE: [&str; 33] = [
    "add_random",
    "atomic_write_max_bytes",
    "chunk_sectors",
    "discard_granularity",
    "discard_max_bytes",
    "dma_alignment",
    "fua",
    "io_poll",
    "io_poll_delay",
    "io_timeout",
    "iostats",
    "logical_block_size",
    "max_discard_segments",
    "max_hw_sectors_kb",
    "max_sectors_kb",
    "max_segment_size",
    "max_segments",
    "minimum_io_size",
    "nomerges",
    "nr_requests",
    "nr_zones",
    "optimal_io_size",
    "physical_block_size",
    "read_ahead_kb",
    "rotational",
    "rq_affinity",
    "stable_writes",
    "throttle_sample_time",
    "wbt_lat_usec",
    "write_cache",
    "write_zeroes_max_bytes",
    "zone_write_granularity",
    "zoned",
];

/// Maximum depth, which also ends cycles such as a loop device on itself.
const DEEPEST: u32 = 16;

/// Everything below a file, folder or device. For a path that does not exist, its nearest existing ancestor
/// is used.
pub fn describe(path: &Path, roots: &Roots) -> TargetInfo {
    let mut walk = Walk {
        roots,
        mounts: mounts::own(roots),
        seen: BTreeSet::new(),
        stack: Vec::new(),
    };
    walk.path(path, 0);
    TargetInfo {
        path: path.to_owned(),
        stack: walk.stack,
    }
}

struct Walk<'a> {
    roots: &'a Roots,
    mounts: Vec<Mount>,
    seen: BTreeSet<DeviceNumber>,
    stack: Vec<StackLayer>,
}

impl Walk<'_> {
    fn path(&mut self, path: &Path, depth: u32) {
        let Some(real) = existing(path) else {
            return;
        };
        let Ok(metadata) = real.metadata() else {
            return;
        };
        let kind = metadata.file_type();
        if kind.is_block_device() {
            self.device(DeviceNumber::of(metadata.rdev()), depth);
        } else if kind.is_char_device() {
            self.other("character device: no storage".to_owned());
        } else {
            self.folder(&real, DeviceNumber::of(metadata.dev()), depth);
        }
    }

    fn other(&mut self, what: String) {
        self.stack.push(StackLayer::Other(what));
    }

    fn folder(&mut self, real: &Path, number: DeviceNumber, depth: u32) {
        let opened = rustix::fs::open(real, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok();
        let id = opened.and_then(|opened| mount_id(opened.as_fd()));
        let mount = mounts::containing(&self.mounts, real, number, id).cloned();
        let Some(mount) = mount else {
            return self.other(format!("no mount is known for `{}`", real.display()));
        };
        self.stack.push(StackLayer::Mount(info(&mount, real)));
        self.below_mount(&mount, depth);
    }

    fn below_mount(&mut self, mount: &Mount, depth: u32) {
        let devices = devices_of(self.roots, mount);
        for number in &devices {
            self.device(*number, depth + 1);
        }
        if !devices.is_empty() {
            return;
        }
        let source = &mount.source;
        match mount.file_system.as_str() {
            "tmpfs" | "ramfs" | "devtmpfs" | "hugetlbfs" => {
                self.other(format!("memory ({})", mount.file_system));
            }
            "zfs" => {
                let pool = source.split('/').next().unwrap_or(source);
                self.other(format!("ZFS pool `{pool}`"));
            }
            "overlay" => match option(&mount.super_options, "upperdir") {
                Some(upper) if depth < DEEPEST => self.path(&upper, depth + 1),
                _ => self.other("overlay without an upper folder".to_owned()),
            },
            kind if kind.starts_with("fuse") => self.other(format!("FUSE ({kind} `{source}`)")),
            "nfs" | "nfs4" | "cifs" | "smb3" | "ceph" | "lustre" | "afs" | "glusterfs"
            | "beegfs" => self.other(format!("network ({} `{source}`)", mount.file_system)),
            "9p" | "virtiofs" => {
                self.other(format!(
                    "the host's files ({} `{source}`)",
                    mount.file_system
                ));
            }
            kind => self.other(format!("no block device ({kind} `{source}`)")),
        }
    }

    fn device(&mut self, number: DeviceNumber, depth: u32) {
        if depth > DEEPEST || !self.seen.insert(number) {
            return;
        }
        let Ok(block) = Block::find(self.roots, number) else {
            return self.other(format!("device {number}, which sysfs does not know"));
        };
        let device = layer(&block);
        if let Some(disk) = block.parent() {
            self.stack.push(StackLayer::Partition(device));
            return self.device(disk.number, depth + 1);
        }
        if let Some(file) = block.attribute("loop/backing_file") {
            let file = PathBuf::from(file);
            self.stack.push(StackLayer::Loop {
                device,
                direct: block.attribute("loop/dio").is_some_and(|dio| dio == "1"),
                file: file.clone(),
            });
            return self.path(&file, depth + 1);
        }
        let slaves = block.slaves();
        let mapping = mapping(&block).or_else(|| {
            // bcache, drbd and other stacked devices.
            let driver = block.name.trim_end_matches(|c: char| c.is_ascii_digit());
            (!slaves.is_empty()).then(|| (driver.to_owned(), block.name.clone()))
        });
        match mapping {
            Some((driver, name)) => self.stack.push(StackLayer::Mapped {
                device,
                driver,
                name,
            }),
            None => self.stack.push(StackLayer::Disk(device)),
        }
        for slave in slaves {
            self.device(slave.number, depth + 1);
        }
    }
}

fn mapping(block: &Block) -> Option<(String, String)> {
    if let Some(name) = block.attribute("dm/name") {
        // `LVM-…`, `CRYPT-LUKS2-…`, `mpath-…`: the creator; sysfs does not report the target type.
        let uuid = block.attribute("dm/uuid").unwrap_or_default();
        let kind = uuid.split_once('-').map_or("", |(kind, _)| kind);
        let name = if kind.is_empty() {
            name
        } else {
            format!("{name} ({kind})")
        };
        return Some(("dm".to_owned(), name));
    }
    block
        .attribute("md/level")
        .map(|level| ("md".to_owned(), level))
}

/// The block devices below a mount; all devices of a multi-device file system.
fn devices_of(roots: &Roots, mount: &Mount) -> Vec<DeviceNumber> {
    let named = mount.devices(roots);
    if mount.file_system != "btrfs" {
        return named;
    }
    let folder = roots.sys.join("fs/btrfs");
    crate::roots::names(&folder)
        .iter()
        .map(|uuid| {
            crate::roots::names(folder.join(uuid).join("devices"))
                .iter()
                .filter_map(|name| Block::named(roots, name).ok())
                .map(|block| block.number)
                .collect::<Vec<_>>()
        })
        .find(|devices| devices.iter().any(|device| named.contains(device)))
        .unwrap_or(named)
}

/// The value of a mount option that is a path.
pub fn option(options: &str, name: &str) -> Option<PathBuf> {
    let value = options
        .split(',')
        .find_map(|option| option.strip_prefix(name)?.strip_prefix('='))?;
    Some(mounts::path_of(value.as_bytes()))
}

/// The path, or its nearest existing ancestor, without symlinks.
pub(crate) fn existing(path: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(path).ok()?;
    absolute
        .ancestors()
        .find_map(|ancestor| ancestor.canonicalize().ok())
}

/// The mount id of an open file; `None` before Linux 5.8.
pub fn mount_id(file: BorrowedFd<'_>) -> Option<u64> {
    let state = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
    (state.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(state.stx_mnt_id)
}

fn info(mount: &Mount, at: &Path) -> MountInfo {
    let state = rustix::fs::statvfs(at);
    let value = |read: fn(&StatVfs) -> u64| state.as_ref().map_or(0, read);
    MountInfo {
        point: mount.point.clone(),
        file_system: mount.file_system.clone(),
        source: mount.source.clone(),
        options: options(mount),
        free: value(|state| state.f_bavail.saturating_mul(state.f_frsize)),
        total: value(|state| state.f_blocks.saturating_mul(state.f_frsize)),
        free_inodes: value(|state| state.f_favail),
    }
}

/// Options of mount and file system, merged and sorted. `ro` of either makes it read-only.
fn options(mount: &Mount) -> String {
    let mut options: BTreeSet<&str> = mount
        .options
        .split(',')
        .chain(mount.super_options.split(','))
        .filter(|option| !option.is_empty())
        .collect();
    if options.contains("ro") {
        options.remove("rw");
    }
    options.into_iter().collect::<Vec<_>>().join(",")
}

/// A device with its settings; a partition has those of its disk.
fn layer(block: &Block) -> DeviceLayer {
    let setting = |name: &str| {
        let text = block.attribute(&format!("queue/{name}"))?;
        (!text.is_empty()).then_some((name.to_owned(), text))
    };
    let mut queue: std::collections::BTreeMap<String, String> =
        QUEUE.iter().filter_map(|name| setting(name)).collect();
    for name in block.attributes("queue/iosched") {
        queue.extend(setting(&format!("iosched/{name}")));
    }
    DeviceLayer {
        name: block.name.clone(),
        number: (block.number.major, block.number.minor),
        size: block.length(),
        model: model(block),
        scheduler: block
            .attribute("queue/scheduler")
            .map(|text| in_force(&text).to_owned())
            .unwrap_or_default(),
        queue,
    }
}

fn model(block: &Block) -> String {
    let model = block
        .attribute("device/model")
        .or_else(|| block.attribute("device/name"));
    match (block.attribute("device/vendor"), model) {
        // The vendor is a number for virtio and PCI, and `ATA` for ATA disks.
        (Some(vendor), Some(model)) if !vendor.starts_with("0x") && vendor != "ATA" => {
            format!("{vendor} {model}")
        }
        (_, model) => model.unwrap_or_default(),
    }
}

/// The entry in brackets: `mq-deadline` in `none [mq-deadline] kyber`.
fn in_force(text: &str) -> &str {
    let bracketed = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    bracketed.map_or(text, |(name, _)| name)
}

/// The folder or device that represents a path in the list of targets; for a file, its folder.
pub(crate) fn share(path: &Path) -> PathBuf {
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() || !metadata.is_file() => path.to_owned(),
        _ => match path.parent() {
            Some(parent) if !bytes_of(parent).is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        },
    }
}

#[cfg(test)]
mod tests;
