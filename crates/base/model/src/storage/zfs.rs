//! ZFS pools.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Pinning;

/// A ZFS pool and what is used of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ZfsLayer {
    /// The words between the pool's name and the devices of `zpool create`, with the number of devices after each:
    /// empty for a stripe; `mirror` 2, `mirror` 2 for a stripe of two mirrors.
    pub layout: Vec<VdevGroup>,
    /// Properties of the pool (`ashift`, …).
    pub pool: BTreeMap<String, String>,
    /// Properties of the dataset or volume (`compression`, `recordsize`, …).
    pub properties: BTreeMap<String, String>,
    /// Use a volume of this size, bytes; `None`: a dataset.
    pub volume: Option<u64>,
    /// What the trials use: the original, a clone of its snapshot, or a copy of a clone.
    pub origin: ZfsOrigin,
    /// Number of volumes, clones or copies; `None`: one. There is one dataset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Where zfs-fuse runs, if that is used.
    #[serde(flatten)]
    pub pinning: Pinning,
}

impl ZfsLayer {
    /// The number of volumes, or of files with a copy.
    pub fn instances(&self) -> u32 {
        self.count.unwrap_or(1)
    }

    /// Whether it gives a folder: a dataset, and neither a volume nor a file with a copy.
    pub fn gives_folder(&self) -> bool {
        self.volume.is_none() && self.origin != ZfsOrigin::Copy
    }
}

/// A group of devices of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VdevGroup {
    /// `mirror`, `raidz1`, `raidz2`, `raidz3`; `None`: single devices.
    pub redundancy: Option<String>,
    /// Number of devices.
    pub devices: u32,
}

/// How the dataset or volume under test came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ZfsOrigin {
    /// Newly created.
    #[default]
    New,
    /// A clone of a snapshot of a newly created one, to which [`crate::Provision::fill`] bytes were written.
    Clone,
    /// A file in a dataset, copied from such a clone with `dd`.
    Copy,
}
