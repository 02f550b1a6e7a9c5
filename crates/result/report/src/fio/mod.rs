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

use iodyno_model::{HostUse, Trial, Workload};
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
    /// Whether the idle share of the CPUs is shown (fio's `--idle-prof`).
    pub cpu_idleness: bool,
}

/// Percentage of the CPUs' idle time in the measured time, over all nodes; waiting for I/O is idle time. `None`: not
/// requested, or unknown.
fn idle_percent(trial: &Trial, context: &Context) -> Option<f64> {
    let hosts = || trial.parts.iter().map(|part| &part.host);
    let idle: u64 = hosts().map(|host| host.idle_ns + host.iowait_ns).sum();
    let busy = |host: &HostUse| host.user_ns + host.system_ns + host.irq_ns + host.steal_ns;
    let all = idle + hosts().map(busy).sum::<u64>();
    (context.cpu_idleness && all > 0).then(|| 100.0 * idle as f64 / all as f64)
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
