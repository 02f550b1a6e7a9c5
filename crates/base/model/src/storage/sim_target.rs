//! Simulated storage as the target of a configuration.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{SimDevice, SimDisk};

/// Simulated storage: all clones of a trial use it, each with a part of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimTarget {
    /// A disk or a mirror; not [`SimDevice::Law`].
    pub device: SimDevice,
    /// Number of such devices, which are striped; at least 1. Mirrors have a policy each.
    pub count: u32,
    /// Bytes that lie on one device before the next one follows.
    pub stripe: u64,
    /// Number of queues of a mirror, each of which has a policy of its own; at least 1. Clones use them in turn.
    pub queues: u32,
    /// Longest command that merges requests in the queue of a leg, bytes.
    pub aggregation: u64,
    /// How a file system accesses it; `None`: the ops reach it unchanged.
    pub records: Option<SimRecords>,
}

/// A file system in the manner of ZFS: all transfers are whole records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimRecords {
    /// Length of a record, bytes.
    pub length: u64,
    /// Furthest that it reads ahead of a sequential reader, bytes; 0: it does not.
    pub prefetch: u64,
}

impl SimTarget {
    /// The highest number of devices, and of queues.
    pub const MOST: u32 = 64;
    /// Default of [`Self::stripe`].
    pub const STRIPE: u64 = 512 << 10;
    /// Default of [`Self::aggregation`]: OpenZFS's `zfs_vdev_aggregation_limit`.
    pub const AGGREGATION: u64 = 1 << 20;

    /// A single device with the default settings.
    pub fn new(device: SimDevice) -> SimTarget {
        SimTarget {
            device,
            count: 1,
            stripe: SimTarget::STRIPE,
            queues: 1,
            aggregation: SimTarget::AGGREGATION,
            records: None,
        }
    }

    /// Name of its read policy, if it has one.
    pub fn policy(&self) -> Option<&str> {
        match &self.device {
            SimDevice::Mirror { policy, .. } => Some(policy),
            SimDevice::Law | SimDevice::Disk(_) => None,
        }
    }
}

/// As in an experiment: `2 x mirror of sim:hdd x 3`.
impl fmt::Display for SimTarget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.count > 1 {
            write!(formatter, "{} x ", self.count)?;
        }
        let disks: &[SimDisk] = match &self.device {
            SimDevice::Law => return formatter.write_str("sim:law"),
            SimDevice::Disk(disk) => std::slice::from_ref(disk),
            SimDevice::Mirror { legs, .. } => {
                formatter.write_str("mirror of ")?;
                legs
            }
        };
        let equal = disks.chunk_by(|one, other| one == other);
        let parts = equal.map(|some| match some {
            [one] => format!("sim:{one}"),
            [one, ..] => format!("sim:{one} x {}", some.len()),
            [] => String::new(),
        });
        formatter.write_str(&parts.collect::<Vec<_>>().join(" + "))
    }
}
