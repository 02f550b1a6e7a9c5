//! A job (or group of clones) of fio's output, common to all formats.

use std::collections::BTreeMap;
use std::ops::Range;

use iodyno_model::Withheld;

/// A job's entry. Units: bytes, ns, ops; `None` if the format does not contain the value.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Entry {
    /// The format: `fio json`, `fio terse`, `fio output`.
    pub(super) form: &'static str,
    /// The lines of the whole document.
    pub(super) lines: Range<u32>,
    /// The first line of the entry.
    pub(super) line: u32,
    /// fio's version: `fio-3.33`.
    pub(super) version: Option<String>,
    /// The job's name.
    pub(super) name: String,
    /// The host, if clients reported to a server.
    pub(super) node: Option<String>,
    /// fio's number of the group.
    pub(super) group: Option<u64>,
    /// The number of clones in its sums, if known.
    pub(super) clones: Option<u64>,
    /// fio's errno; 0 means success.
    pub(super) error: i64,
    /// The options, including global ones; `None`: not in the output.
    pub(super) options: Option<BTreeMap<String, String>>,
    /// The options are complete: a missing one has its default.
    pub(super) options_complete: bool,
    /// Read, write, trim.
    pub(super) directions: [Option<Direction>; 3],
    /// Syncs.
    pub(super) sync: Option<Syncs>,
    /// User and system CPU, percent of `cpu_span_ns`.
    pub(super) cpu_percent: Option<f64>,
    /// User CPU alone.
    pub(super) user_percent: Option<f64>,
    /// The time that the CPU percentages refer to: the sum of all clones' runtimes, ns.
    pub(super) cpu_span_ns: Option<f64>,
    /// When it started, ms since the epoch, if known.
    pub(super) start_ms: Option<i64>,
    /// When the report was written, ms since the epoch, if known.
    pub(super) written_ms: Option<i64>,
    /// The process, and the line at which its fio began to print, if known.
    pub(super) process: Option<(u32, u64)>,
    /// Distinguishes the reports of one run from those of the next.
    pub(super) run: (u32, Option<String>),
    /// Interim reports of the same run: (runtime, ns; ops so far), in order.
    pub(super) interim: Vec<(f64, u64)>,
    /// Metrics that are withheld, with the reason.
    pub(super) withheld: Vec<Withheld>,
    /// Values that could not be parsed.
    pub(super) faults: Vec<super::invalid::InvalidField>,
    /// Remarks on the entry.
    pub(super) remarks: Vec<String>,
}

/// The names of [`Entry::directions`].
pub(super) const DIRECTIONS: [&str; 3] = ["read", "write", "trim"];

/// One direction of a job.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Direction {
    /// Bytes transferred.
    pub(super) bytes: Option<f64>,
    /// Bytes per second.
    pub(super) bandwidth: Option<f64>,
    /// Ops per second.
    pub(super) iops: Option<f64>,
    /// Runtime, ns.
    pub(super) runtime_ns: f64,
    /// Completed ops.
    pub(super) ops: Option<u64>,
    /// From submission to completion, including submission.
    pub(super) total: Option<Latency>,
    /// Completion latency alone.
    pub(super) completion: Option<Latency>,
    /// Whether submission was timed apart.
    pub(super) submitted: bool,
}

/// Syncs of a job.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Syncs {
    /// Their number.
    pub(super) ops: Option<u64>,
    /// Their latency.
    pub(super) latency: Option<Latency>,
}

/// A distribution of latencies, ns.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Latency {
    pub(super) min: Option<f64>,
    pub(super) mean: Option<f64>,
    pub(super) max: Option<f64>,
    /// (percent, ns), ascending.
    pub(super) percentiles: Vec<(f64, f64)>,
    /// (ns, ops), ascending; only in json+.
    pub(super) bins: Vec<(f64, u64)>,
}

/// Adds counts. The counts of a text can be arbitrary; a sum that overflows saturates.
pub(super) fn added(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

impl Latency {
    /// A percentile from the bins: the smallest value that is not exceeded by this percentage of the ops.
    pub(super) fn percentile_of_bins(&self, percent: f64) -> Option<f64> {
        let all = added(self.bins.iter().map(|bin| bin.1));
        let wanted = ((percent / 100.0 * all as f64).ceil() as u64).max(1);
        let mut below = 0_u64;
        self.bins.iter().find_map(|&(value, count)| {
            below = below.saturating_add(count);
            (below >= wanted).then_some(value)
        })
    }
}

impl Entry {
    /// The value of an option.
    pub(super) fn option(&self, name: &str) -> Option<&str> {
        self.options.as_ref()?.get(name).map(String::as_str)
    }

    /// Whether a boolean option is on: `direct=1`, or `time_based` without a value.
    pub(super) fn switch(&self, name: &str) -> bool {
        self.option(name)
            .is_some_and(|value| value.is_empty() || value == "1" || value == "true")
    }

    /// Ops of all directions, as counted or as rate × runtime.
    pub(super) fn ops(&self) -> u64 {
        added(self.directions.iter().flatten().map(Direction::count))
    }

    /// The longest runtime of its directions, ns.
    pub(super) fn runtime_ns(&self) -> f64 {
        self.directions
            .iter()
            .flatten()
            .map(|direction| direction.runtime_ns)
            .fold(0.0, f64::max)
    }
}

impl Direction {
    /// The number of its ops, as counted or as rate × runtime.
    pub(super) fn count(&self) -> u64 {
        let from_rate = || self.iops.unwrap_or(0.0) * self.runtime_ns / 1e9;
        self.ops.unwrap_or_else(|| from_rate().round() as u64)
    }
}
