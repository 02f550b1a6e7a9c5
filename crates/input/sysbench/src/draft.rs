//! The values of the options: defaults of the table, changed by the arguments.

use std::collections::BTreeMap;

use iodyno_model::SharedMode;
use iodyno_units::Nanos;

/// I/O mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum IoMode {
    #[default]
    Sync,
    Async,
    Mmap,
}

/// Distribution of random offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Law {
    #[default]
    Uniform,
    Gaussian,
    Special,
    Pareto,
    Zipfian,
}

/// The values of all options. Sizes in bytes.
#[derive(Debug, Clone, Default)]
pub(super) struct Draft {
    pub(super) file_num: u32,
    pub(super) block: u64,
    pub(super) total: u64,
    pub(super) mode: Option<SharedMode>,
    pub(super) io_mode: IoMode,
    pub(super) backlog: u32,
    pub(super) sync: bool,
    pub(super) dsync: bool,
    pub(super) direct: bool,
    pub(super) fsync_freq: u32,
    pub(super) fsync_all: bool,
    pub(super) fsync_end: bool,
    pub(super) data_only: bool,
    pub(super) merged_requests: u32,
    pub(super) ratio: f64,
    pub(super) threads: u32,
    pub(super) events: u64,
    pub(super) time: Nanos,
    pub(super) warmup: Nanos,
    pub(super) rate: f64,
    pub(super) report_interval: Nanos,
    pub(super) validate: bool,
    pub(super) help: bool,
    pub(super) version: bool,
    pub(super) law: Law,
    pub(super) seed: u64,
    pub(super) iterations: u32,
    pub(super) special_percent: f64,
    pub(super) special_share: f64,
    pub(super) pareto_h: f64,
    pub(super) zipf_exponent: f64,
    pub(super) percentile: f64,
    pub(super) histogram: bool,
    /// The given options, by name, with their values.
    pub(super) written: BTreeMap<String, String>,
}

impl Draft {
    /// Whether the option was given.
    pub(super) fn has(&self, name: &str) -> bool {
        self.written.contains_key(name)
    }

    /// Length of each file, bytes; rounded down, so that no offset is beyond the last file.
    pub(super) fn file_size(&self) -> u64 {
        self.total / u64::from(self.file_num.max(1))
    }

    /// Length of a sequential request in which `requests` blocks are merged, bytes, at most the length of a
    /// file; 0: one block.
    pub(super) fn merged(&self, requests: u64) -> u64 {
        let blocks = self.file_size().div_ceil(self.block.max(1));
        match requests.min(blocks) {
            0 | 1 => 0,
            requests => self.block.saturating_mul(requests),
        }
    }
}
