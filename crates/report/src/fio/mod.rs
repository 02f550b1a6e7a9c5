//! fio's output formats, for programs that read fio's output.
//!
//! Keys, order, units and meanings are those of fio 3.42; percentiles are read from our finer histogram. If submission
//! is not a separate call, `slat` is empty and `clat` equals `lat`. Figures that fio does not have are in additional
//! keys.

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

/// The compatible version: `fio version` of JSON and terse output.
pub const VERSION: &str = "fio-3.42";

/// Facts that the formats contain in addition to the trial.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Context {
    /// Wall clock at the time of output, ms since 1970.
    pub now_unix_ms: u64,
    /// The local time's offset, seconds east of Greenwich.
    pub utc_offset_s: i32,
    /// iodyno's version.
    pub version: String,
    /// Process id shown in `normal` output.
    pub pid: u32,
    /// Seconds since the trial's start.
    pub elapsed_s: u64,
    /// Remaining seconds; 0 at the end.
    pub eta_s: u64,
    /// The resolved options of each job; a job beyond the end of the list is shown with the options as written.
    pub job_options: Vec<BTreeMap<String, String>>,
}

/// The reason why fio's formats cannot contain a workload, as a sentence; `None` if they contain all of it. The
/// documents remain valid: jobs of file operations are omitted.
pub fn cannot_tell(workload: &Workload) -> Option<String> {
    let left_out: Vec<&str> = workload
        .jobs
        .iter()
        .filter(|job| job.work.file_operations().is_some())
        .map(|job| job.name.as_str())
        .collect();
    (!left_out.is_empty()).then(|| {
        format!(
            "fio's formats have no file operations: they omit {}; use `--json`",
            left_out.join(", ")
        )
    })
}
