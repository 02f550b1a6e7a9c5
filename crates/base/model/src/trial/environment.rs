//! The environment of a trial: host, kernel, CPUs, memory and storage stack.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::CommandRun;

/// The CPUs' frequency policy.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Governor {
    /// `performance`, `schedutil`, …; comma-separated if CPUs differ; empty if unknown.
    pub name: String,
    /// Whether turbo or boost is on; `None` if the host does not report it.
    pub boost: Option<bool>,
}

/// The CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cpu {
    /// Model name from `/proc/cpuinfo`.
    pub model: String,
    /// Number of online logical CPUs.
    pub logical: u32,
    /// Number of NUMA nodes.
    pub nodes: u32,
    /// Frequency policy.
    pub governor: Governor,
}

/// Memory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemoryInfo {
    /// Total, bytes.
    pub total: u64,
    /// Bytes available when the trial started.
    pub available: u64,
    /// Swap in use, bytes.
    pub swap_used: u64,
    /// The smallest memory limit of the harness's control groups and those above them, bytes; `None`: no limit below
    /// `total`.
    #[serde(default)]
    pub limit: Option<u64>,
}

impl MemoryInfo {
    /// Bytes that the harness can use at most, page cache included.
    pub fn usable(&self) -> u64 {
        self.limit.map_or(self.total, |limit| limit.min(self.total))
    }
}

/// A mount.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MountInfo {
    /// Mount point.
    pub point: PathBuf,
    /// `ext4`, `zfs`, …
    pub file_system: String,
    /// Mounted source.
    pub source: String,
    /// Options of mount and superblock, sorted, comma-separated.
    pub options: String,
    /// Bytes free for this user when the trial started.
    pub free: u64,
    /// Size, bytes.
    pub total: u64,
    /// Free inodes; 0 if the file system does not count them.
    pub free_inodes: u64,
}

/// A block device with its queue settings from sysfs; missing ones are empty or 0.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DeviceLayer {
    /// Kernel name: `nvme0n1`, `loop3`, `dm-0`.
    pub name: String,
    /// major:minor.
    pub number: (u32, u32),
    /// Size, bytes.
    pub size: u64,
    /// Model, if the device reports it.
    pub model: String,
    /// Active I/O scheduler.
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
    /// A loop device.
    Loop {
        /// The device.
        device: DeviceLayer,
        /// Its backing file.
        file: PathBuf,
        /// Whether it uses direct I/O on the backing file.
        direct: bool,
    },
    /// Device mapper with its target type (`linear`, `crypt`, …), if known, or md with its level.
    Mapped {
        /// The device.
        device: DeviceLayer,
        /// `dm` or `md`.
        driver: String,
        /// The mapping's name, or the md level.
        name: String,
    },
    /// A disk.
    Disk(DeviceLayer),
    /// Not a block device: tmpfs, FUSE, NFS, ZFS pools, …
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

/// One file or device of a trial with all layers below it, top first. If a layer has several devices below
/// it (md, dm), they are listed one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TargetInfo {
    /// Path as given in the jobs.
    pub path: PathBuf,
    /// Layers.
    pub stack: Vec<StackLayer>,
}

/// The environment of one part of a trial.
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
    /// Boot id.
    pub boot_id: String,
    /// CPUs.
    pub cpu: Cpu,
    /// Memory.
    pub memory: MemoryInfo,
    /// `kvm`, `xen`, `docker`, …; empty on bare metal or if unknown.
    pub virtualisation: String,
    /// The kernel's clock source.
    pub clock_source: String,
    /// Median cost of reading the clock, ns.
    pub clock_read_ns: u64,
    /// Load average over the last minute × 100.
    pub load_1min_x100: u32,
    /// One entry per folder or device in use (files of one folder share it).
    pub targets: Vec<TargetInfo>,
    /// How its target was made; `None`: it existed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<MadeTarget>,
}

/// A target that was made for a trial.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MadeTarget {
    /// Numbers the targets that a run made for the configuration, from 1.
    pub instance: u32,
    /// What the layers report about themselves: properties of a pool, achieved rates.
    pub facts: BTreeMap<String, String>,
    /// The commands that made it, in order.
    pub commands: Vec<CommandRun>,
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
