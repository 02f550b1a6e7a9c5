//! Devices that the kernel's md and device mapper make of other devices.

use serde::{Deserialize, Serialize};

use crate::named::named;

/// An array of md on all devices below.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MdLayer {
    /// How its data are distributed.
    pub level: MdLevel,
    /// The layout of RAID 10, such as `n2` or `f2`; `None`: the default of mdadm.
    pub layout: Option<String>,
    /// The chunk size of RAID 10, bytes; `None`: the default of mdadm.
    pub chunk: Option<u64>,
    /// Keep a write-intent bitmap on the members.
    pub bitmap: bool,
    /// Take the members for equal, and do not synchronise them.
    pub assume_clean: bool,
}

named! {
    /// How the data of an array are distributed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum MdLevel in ALL {
        /// Each member has all data.
        #[default]
        Raid1 = "raid1",
        /// Copies of each chunk, striped over the members.
        Raid10 = "raid10",
    }
}

/// What a device of the device mapper does with the requests to the device below.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "target")]
pub enum DmTarget {
    /// Pass them on.
    Linear,
    /// Pass them on later.
    Delay {
        /// Delay of a read, ns.
        read_ns: u64,
        /// Delay of a write, ns.
        write_ns: u64,
        /// Delay of a flush, ns.
        flush_ns: u64,
    },
    /// Pass them on for a time, and then fail for a time, in turn.
    Flakey {
        /// How long they are passed on, ns.
        up_ns: u64,
        /// How long they fail, ns.
        down_ns: u64,
        /// What fails.
        fault: FlakeyFault,
    },
    /// Encrypt the data with a random key that is not kept.
    Crypt {
        /// The kernel's name of the cipher: `aes-xts-plain64`.
        cipher: String,
        /// Length of the key, bits.
        key_bits: u32,
        /// The unit of encryption, bytes; `None`: 512.
        sector: Option<u32>,
    },
    /// Write a log of all writes and flushes to another device: of each two devices below, the second one has the log.
    LogWrites,
}

impl DmTarget {
    /// Its name in an experiment and in the kernel.
    pub fn name(&self) -> &'static str {
        match self {
            DmTarget::Linear => "linear",
            DmTarget::Delay { .. } => "delay",
            DmTarget::Flakey { .. } => "flakey",
            DmTarget::Crypt { .. } => "crypt",
            DmTarget::LogWrites => "log-writes",
        }
    }

    /// The module of the kernel that has it.
    pub fn module(&self) -> &'static str {
        match self {
            DmTarget::Linear => "dm_mod",
            DmTarget::Delay { .. } => "dm_delay",
            DmTarget::Flakey { .. } => "dm_flakey",
            DmTarget::Crypt { .. } => "dm_crypt",
            DmTarget::LogWrites => "dm_log_writes",
        }
    }

    /// The number of devices below for each of its devices.
    pub fn consumes(&self) -> u32 {
        match self {
            DmTarget::LogWrites => 2,
            _ => 1,
        }
    }
}

/// What fails while a flakey device is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlakeyFault {
    /// All requests end with an error.
    #[default]
    Errors,
    /// Writes end with an error.
    ErrorWrites,
    /// Writes end without an error, and have no effect.
    DropWrites,
}

impl FlakeyFault {
    /// The features of the kernel's table, with their number.
    pub fn features(self) -> &'static str {
        match self {
            FlakeyFault::Errors => "0",
            FlakeyFault::ErrorWrites => "1 error_writes",
            FlakeyFault::DropWrites => "1 drop_writes",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layer;

    #[test]
    fn the_kinds_of_a_layer_and_of_its_target_are_kept_apart() {
        let crypt = Layer::Dm(DmTarget::Crypt {
            cipher: "aes-xts-plain64".to_owned(),
            key_bits: 512,
            sector: None,
        });
        let text = serde_json::to_string(&crypt).unwrap();
        assert!(
            text.starts_with(r#"{"kind":"dm","target":"crypt","#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Layer>(&text).unwrap(), crypt);
        let log = r#"{"kind":"dm","target":"log-writes"}"#;
        let log = serde_json::from_str::<Layer>(log).unwrap();
        assert_eq!(log, Layer::Dm(DmTarget::LogWrites));
    }
}
