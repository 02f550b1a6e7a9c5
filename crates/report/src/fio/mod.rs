//! fio's output formats, so that what reads fio's output reads ours.
//!
//! Keys, order, units and meanings are those of fio 3.42; percentiles are read from our finer
//! histogram. Where submission is no call of its own, `slat` is empty and `clat` is `lat`. Anything
//! of ours has a key of its own beside.

mod entry;
mod json;
mod latency;
mod normal;
mod numbers;
mod steady;
mod terse;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use iodyno_model::Workload;
pub use json::json;
pub use normal::{banner, normal};
pub use terse::terse;

/// What is compatible: the `fio version` of JSON and terse output.
pub const VERSION: &str = "fio-3.42";

/// What the formats tell beside the trial.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Context {
    /// Wall clock when the output is made, ms since 1970.
    pub now_unix_ms: u64,
    /// The local time's offset, seconds east of Greenwich.
    pub utc_offset_s: i32,
    /// iodyno's version.
    pub version: String,
    /// Process id shown in `normal` output.
    pub pid: u32,
    /// Seconds since the trial's start.
    pub elapsed_s: u64,
    /// Seconds still to go; 0 at the end.
    pub eta_s: u64,
    /// For each job of the workload its resolved options; a job beyond the list shows the options
    /// it was written with.
    pub job_options: Vec<BTreeMap<String, String>>,
}

/// Why fio's formats have nothing of a workload, in a sentence; `None` where they have all of it. Their documents
/// stay valid: jobs of file operations are left out of them.
pub fn cannot_tell(workload: &Workload) -> Option<String> {
    let left_out: Vec<&str> = workload
        .jobs
        .iter()
        .filter(|job| job.work.file_operations().is_some())
        .map(|job| job.name.as_str())
        .collect();
    (!left_out.is_empty()).then(|| {
        format!(
            "fio's formats have no file operations: they tell nothing of {}; use `--json`",
            left_out.join(", ")
        )
    })
}
