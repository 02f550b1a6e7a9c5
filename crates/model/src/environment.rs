//! What a trial ran on.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The CPUs' frequency policy.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Governor {
    /// `performance`, `schedutil`, …; several joined by commas where CPUs differ; empty if unknown.
    pub name: String,
    /// Turbo or boost is on; `None` if the host does not say.
    pub boost: Option<bool>,
}

/// The CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cpu {
    /// As `/proc/cpuinfo` names it.
    pub model: String,
    /// Online logical CPUs.
    pub logical: u32,
    /// NUMA nodes.
    pub nodes: u32,
    /// Frequency policy.
    pub governor: Governor,
}

/// Memory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemoryInfo {
    /// Bytes.
    pub total: u64,
    /// Bytes available when the trial began.
    pub available: u64,
    /// Swap in use, bytes.
    pub swap_used: u64,
}

/// A mount.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MountInfo {
    /// Where.
    pub point: PathBuf,
    /// `ext4`, `zfs`, …
    pub file_system: String,
    /// What is mounted.
    pub source: String,
    /// Options of mount and superblock, sorted, joined by commas.
    pub options: String,
    /// Bytes free to this user when the trial began.
    pub free: u64,
    /// Bytes in all.
    pub total: u64,
    /// Inodes free; 0 where the file system does not count them.
    pub free_inodes: u64,
}

/// A block device with its queue's settings, as sysfs has them; absent ones are empty or 0.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DeviceLayer {
    /// Kernel name: `nvme0n1`, `loop3`, `dm-0`.
    pub name: String,
    /// major:minor.
    pub number: (u32, u32),
    /// Bytes.
    pub size: u64,
    /// Model, where the device tells it.
    pub model: String,
    /// Scheduler in force.
    pub scheduler: String,
    /// Further queue settings by sysfs name (`nr_requests`, `rotational`, `write_cache`, …).
    pub queue: std::collections::BTreeMap<String, String>,
}

/// One layer below a target, top first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "layer", content = "is")]
pub enum StackLayer {
    /// A mounted file system.
    Mount(MountInfo),
    /// A partition of the device below it.
    Partition(DeviceLayer),
    /// A loop device; its file and whether it goes around the page cache.
    Loop {
        /// The device.
        device: DeviceLayer,
        /// Its file.
        file: PathBuf,
        /// Direct I/O on the file.
        direct: bool,
    },
    /// Device mapper, with the target type (`linear`, `crypt`, …) if known, or md with its level.
    Mapped {
        /// The device.
        device: DeviceLayer,
        /// `dm` or `md`.
        driver: String,
        /// The mapping's name or level.
        name: String,
    },
    /// A disk.
    Disk(DeviceLayer),
    /// No block device: tmpfs, FUSE, NFS, ZFS pools …
    Other(String),
}

impl StackLayer {
    /// The block device of this layer.
    pub fn device(&self) -> Option<&DeviceLayer> {
        match self {
            StackLayer::Partition(device) | StackLayer::Disk(device) => Some(device),
            StackLayer::Loop { device, .. } | StackLayer::Mapped { device, .. } => Some(device),
            StackLayer::Mount(_) | StackLayer::Other(_) => None,
        }
    }
}

/// One file or device of a trial and all that lies below it, top first. A layer with several
/// devices below it (md, dm) lists them one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TargetInfo {
    /// As the jobs named it.
    pub path: PathBuf,
    /// Layers.
    pub stack: Vec<StackLayer>,
}

/// What a part of a trial ran on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Environment {
    /// iodyno's version.
    pub iodyno: String,
    /// Host name.
    pub host: String,
    /// `uname -r`.
    pub kernel: String,
    /// `uname -v`.
    pub kernel_build: String,
    /// `PRETTY_NAME` of os-release.
    pub system: String,
    /// This boot's id.
    pub boot_id: String,
    /// CPUs.
    pub cpu: Cpu,
    /// Memory.
    pub memory: MemoryInfo,
    /// `kvm`, `xen`, `docker`, …; empty on bare metal or where nothing tells.
    pub virtualisation: String,
    /// The kernel's clock source.
    pub clock_source: String,
    /// What the median reading of the clock costs, ns.
    pub clock_read_ns: u64,
    /// Load average over the last minute, × 100.
    pub load_1min_x100: u32,
    /// One entry for each folder or device in use (files of one folder share it).
    pub targets: Vec<TargetInfo>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layer_survives_its_stored_form() {
        let device = DeviceLayer::default();
        let layers = [
            StackLayer::Mount(MountInfo::default()),
            StackLayer::Partition(device.clone()),
            StackLayer::Loop {
                device: device.clone(),
                file: "/a".into(),
                direct: true,
            },
            StackLayer::Mapped {
                device: device.clone(),
                driver: "dm".to_owned(),
                name: "crypt".to_owned(),
            },
            StackLayer::Disk(device),
            StackLayer::Other("tmpfs".to_owned()),
        ];
        let text = serde_json::to_string(&layers).unwrap();
        assert_eq!(
            serde_json::from_str::<Vec<StackLayer>>(&text).unwrap(),
            layers
        );
    }
}
