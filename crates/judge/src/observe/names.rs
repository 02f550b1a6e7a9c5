//! Names of the metrics that trials of iodyno can have, to detect typing errors before a long run.

use iodyno_model::{Direction, Metric};

/// Time to create the files that exist before the first cycle, ns.
pub(super) const SETUP: &str = "setup";

/// Duration of the drain after the last cycle, ns.
pub(super) const DRAIN: &str = "drain";

/// Cycles per second, if the cycle has untimed steps.
pub(super) const LOOP_RATE: &str = "loop.iops";

/// Cycles per second if only timed steps counted.
pub(super) const RATE_FROM_MEAN: &str = "ops_from_mean";

/// CPU time of all processes under test per op, ns.
pub(super) const SERVER_CPU_PER_OP: &str = "server_cpu_per_op";

/// Cores that all processes under test kept busy.
pub(super) const SERVER_CORES: &str = "server_cores";

/// The names as a text.
pub const OWN_METRICS: &str = "iops, bandwidth, completion, cpu_per_op; read, write, trim or sync \
                               with .iops, .bandwidth, .mean, .max, .p50, .p99, .p99.9, …; of file \
                               operations also setup, drain, loop.iops, ops_from_mean, op with .iops, \
                               .mean, .min, .max, .p50, .p99, …, and steps (create, unlink, sync_folder, …) \
                               with .mean, .max, .p50, .p99, …; of fileio also op with .mean, .min, .max, \
                               .p95, …; of processes named with --sample server_cpu_per_op, server_cores";

/// Whether a trial of iodyno can have a metric of this name. A particular trial may lack it: a job that never writes
/// has no `write.iops`, and a percentile may be withheld.
pub fn is_own_metric(name: &str) -> bool {
    let whole = [
        Metric::IOPS,
        Metric::BANDWIDTH,
        Metric::COMPLETION,
        "cpu_per_op",
        SETUP,
        DRAIN,
        LOOP_RATE,
        RATE_FROM_MEAN,
        SERVER_CPU_PER_OP,
        SERVER_CORES,
    ];
    if whole.contains(&name) {
        return true;
    }
    let Some((op, figure)) = name.split_once('.') else {
        return false;
    };
    let percentile = |text: &str| {
        let percent = text.strip_prefix('p').and_then(|p| p.parse::<f64>().ok());
        percent.is_some_and(|percent| (0.0..=100.0).contains(&percent))
    };
    let mut directions = Direction::EVERY.into_iter();
    let Some(direction) = directions.find(|direction| direction.name() == op) else {
        return false;
    };
    let at_offsets = Direction::ALL.contains(&direction);
    match figure {
        "mean" | "max" => true,
        "iops" => at_offsets || direction == Direction::Op,
        "bandwidth" => at_offsets,
        "min" => direction == Direction::Op,
        other => percentile(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_names_are_not_metrics() {
        for name in [
            "iops",
            "completion",
            "read.p99.9",
            "write.mean",
            "sync.iops",
            "trim.max",
            "setup",
            "drain",
            "loop.iops",
            "ops_from_mean",
            "op.iops",
            "op.min",
            "op.p95",
            "sync_folder.mean",
            "unlink.p99.9",
            "server_cpu_per_op",
            "server_cores",
        ] {
            assert!(is_own_metric(name), "{name}");
        }
        for name in [
            "iopss",
            "read",
            "read.",
            "reads.iops",
            "read.p",
            "read.p101",
            "p99",
            "",
            "op.bandwidth",
            "unlink.iops",
            "read.min",
            "sync folder.mean",
        ] {
            assert!(!is_own_metric(name), "{name}");
        }
    }
}
