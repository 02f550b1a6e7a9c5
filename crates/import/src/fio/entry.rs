//! A job (or group of clones) of fio's output, common to all formats.

use std::collections::BTreeMap;
use std::ops::Range;

use iodyno_model::Withheld;

/// A job's entry. Units: bytes, ns, ops; `None` where the format does not say.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Entry {
    /// The format: `fio json`, `fio terse`, `fio output`.
    pub(super) form: &'static str,
    /// The lines of the whole document.
    pub(super) lines: Range<u32>,
    /// Its own first line.
    pub(super) line: u32,
    /// fio's version: `fio-3.33`.
    pub(super) version: Option<String>,
    /// The job's name.
    pub(super) name: String,
    /// The machine, where clients reported to a server.
    pub(super) node: Option<String>,
    /// fio's number of the group.
    pub(super) group: Option<u64>,
    /// Clones that are summed in it, where it says.
    pub(super) clones: Option<u64>,
    /// fio's errno; 0: fine.
    pub(super) error: i64,
    /// The options, global ones included; `None`: not said.
    pub(super) options: Option<BTreeMap<String, String>>,
    /// Nothing of the options is missing: what is not there has its default.
    pub(super) options_complete: bool,
    /// Read, write, trim.
    pub(super) directions: [Option<Direction>; 3],
    /// Syncs.
    pub(super) sync: Option<Syncs>,
    /// User and system CPU, percent of `cpu_span_ns`.
    pub(super) cpu_percent: Option<f64>,
    /// What the CPU is a share of: all clones' runtimes together, ns.
    pub(super) cpu_span_ns: Option<f64>,
    /// When it started, ms since the epoch, where it says.
    pub(super) start_ms: Option<i64>,
    /// When the report was written, ms since the epoch, where it says.
    pub(super) written_ms: Option<i64>,
    /// The process and the line at which its fio began to print, where they are said.
    pub(super) process: Option<(u32, u64)>,
    /// What marks off the reports of one run from those of the next.
    pub(super) run: (u32, Option<String>),
    /// Reports of the same run from before its end: (runtime, ns; ops so far), in their order.
    pub(super) interim: Vec<(f64, u64)>,
    /// Metrics that could have been figures, with the reason against them.
    pub(super) withheld: Vec<Withheld>,
    /// Values that could not be read.
    pub(super) faults: Vec<super::json::InvalidField>,
    /// What is to be said of it.
    pub(super) remarks: Vec<String>,
}

/// The names of [`Entry::directions`].
pub(super) const DIRECTIONS: [&str; 3] = ["read", "write", "trim"];

/// One direction of a job.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Direction {
    /// Bytes moved.
    pub(super) bytes: Option<f64>,
    /// Bytes a second.
    pub(super) bandwidth: Option<f64>,
    /// Ops a second.
    pub(super) iops: Option<f64>,
    /// ns.
    pub(super) runtime_ns: f64,
    /// Ops done.
    pub(super) ops: Option<u64>,
    /// Submission to completion, submission included.
    pub(super) total: Option<Latency>,
    /// Completion alone.
    pub(super) completion: Option<Latency>,
}

/// Syncs of a job.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Syncs {
    /// How many.
    pub(super) ops: Option<u64>,
    /// Theirs.
    pub(super) latency: Option<Latency>,
}

/// A distribution of latencies, ns.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Latency {
    pub(super) mean: Option<f64>,
    pub(super) max: Option<f64>,
    /// (percent, ns), rising.
    pub(super) percentiles: Vec<(f64, f64)>,
    /// (ns, ops), rising: json+.
    pub(super) bins: Vec<(f64, u64)>,
}

/// Counts of a text may be anything: a sum that no number can hold stays the largest there is.
pub(super) fn added(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

impl Latency {
    /// A percentile from the bins: the smallest value that this percentage of the ops does not exceed.
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
    /// An option's value.
    pub(super) fn option(&self, name: &str) -> Option<&str> {
        self.options.as_ref()?.get(name).map(String::as_str)
    }

    /// Whether a switch is on: `direct=1`, or `time_based` alone.
    pub(super) fn switch(&self, name: &str) -> bool {
        self.option(name)
            .is_some_and(|value| value.is_empty() || value == "1" || value == "true")
    }

    /// Ops of all directions, as counted or as rate and runtime tell.
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
    /// Its ops, as counted or as rate and runtime tell.
    pub(super) fn count(&self) -> u64 {
        let told = || self.iops.unwrap_or(0.0) * self.runtime_ns / 1e9;
        self.ops.unwrap_or_else(|| told().round() as u64)
    }
}
