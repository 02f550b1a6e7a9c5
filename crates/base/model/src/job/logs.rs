//! Log files in fio's formats.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Log files in fio's formats; the values are prefixes of their names.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Logs {
    /// `PREFIX_bw.N.log`.
    pub bandwidth: Option<PathBuf>,
    /// `PREFIX_iops.N.log`.
    pub iops: Option<PathBuf>,
    /// `PREFIX_lat.N.log`, `PREFIX_clat.N.log`, `PREFIX_slat.N.log`.
    pub latency: Option<PathBuf>,
    /// `PREFIX_clat_hist.N.log`.
    #[serde(default)]
    pub histogram: Option<PathBuf>,
    /// Averaging window in ms; 0: every op.
    pub window_ms: u64,
    /// Interval of the histograms in ms; 0: none are logged.
    #[serde(default)]
    pub histogram_ms: u64,
    /// log2 of the number of fio's bins that a logged bin combines, at most 6.
    #[serde(default)]
    pub coarseness: u32,
    /// Log the largest value of the window instead of its mean.
    pub max_value: bool,
    /// Log the mean and the largest value of the window.
    #[serde(default)]
    pub both_values: bool,
    /// Log the offset of each op.
    pub offset: bool,
    /// Number of the kernel's clock (`clockid_t`) whose time the log's times are; `None`: they begin with the
    /// measured time.
    #[serde(default)]
    pub epoch_clock: Option<u32>,
    /// The ops as an iolog of version 3, for replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iolog: Option<PathBuf>,
    /// Log the I/O priority of each op; otherwise whether it is real time.
    #[serde(default)]
    pub priority: bool,
    /// Log when each op was issued, ns since the start.
    #[serde(default)]
    pub issue_time: bool,
    /// All clones append to the same file, without a number in its name.
    #[serde(default)]
    pub shared: bool,
    /// The logs are compressed; their names end in `.fz`.
    #[serde(default)]
    pub compressed: bool,
    /// The logs of latencies that are not written.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub left_out: LeftOut,
}

impl Logs {
    /// The prefixes or names of all files that are written.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        // Every field is listed, so that a new one cannot be forgotten: permission to write depends on it.
        let Logs {
            bandwidth,
            iops,
            latency,
            histogram,
            iolog,
            window_ms: _,
            histogram_ms: _,
            coarseness: _,
            max_value: _,
            both_values: _,
            offset: _,
            epoch_clock: _,
            priority: _,
            issue_time: _,
            shared: _,
            compressed: _,
            left_out: _,
        } = self;
        [bandwidth, iops, latency, histogram, iolog]
            .into_iter()
            .flatten()
    }
}

/// Some of fio's latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LeftOut {
    /// `slat`.
    pub submission: bool,
    /// `clat`.
    pub completion: bool,
    /// `lat`.
    pub total: bool,
}
