//! Metrics: each gives one number per trial.

use serde::{Deserialize, Serialize};

use crate::Direction;

/// Whether larger or smaller values are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Larger is better: rates.
    Higher,
    /// Smaller is better: times.
    Lower,
}

/// Unit of a metric's values. Units of imported results are converted to these.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Ops a second.
    OpsPerSecond,
    /// Bytes a second.
    BytesPerSecond,
    /// Nanoseconds.
    Nanos,
    /// Any other unit, by its name in the source; empty: a plain number.
    Other(String),
}

/// A measured quantity of a trial.
///
/// Names are words joined by dots, the op first: `iops`, `bandwidth`, `read.iops`, `write.p99`,
/// `fsync.mean`, `completion`, `cpu_per_op`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// Unit of its values.
    pub unit: Unit,
    /// Whether larger or smaller is better.
    pub better: Better,
}

impl Metric {
    /// Completion time of a fixed amount of work, including drain and final flush, ns.
    pub const COMPLETION: &'static str = "completion";
    /// Ops per second of all directions that move data.
    pub const IOPS: &'static str = "iops";
    /// Bytes per second of all directions.
    pub const BANDWIDTH: &'static str = "bandwidth";
    /// CPU time of the workers per op, ns.
    pub const CPU_PER_OP: &'static str = "cpu_per_op";
    /// CPU time of an execution of a command in user mode, with that of the children that it waited for, ns.
    pub const CPU_USER: &'static str = "cpu_user";
    /// The same in the kernel, ns.
    pub const CPU_SYSTEM: &'static str = "cpu_system";
    /// Time to create the files that exist before the first cycle, ns.
    pub const SETUP: &'static str = "setup";
    /// Duration of the drain after the last cycle, ns.
    pub const DRAIN: &'static str = "drain";
    /// Cycles per second of the whole loop, if the cycle has untimed steps; `iops` is then that of the timed steps.
    pub const LOOP_RATE: &'static str = "loop.iops";
    /// Bytes per second of the whole loop, if the cycle has untimed steps.
    pub const LOOP_BANDWIDTH: &'static str = "loop.bandwidth";
    /// Cycles per second if only timed steps counted.
    pub const RATE_FROM_MEAN: &'static str = "ops_from_mean";
    /// CPU time of all processes under test per op, ns.
    pub const SERVER_CPU_PER_OP: &'static str = "server_cpu_per_op";
    /// Cores that all processes under test kept busy.
    pub const SERVER_CORES: &'static str = "server_cores";

    /// The largest exit status of a command whose failure is a result.
    pub const EXIT_STATUS: &'static str = "exit_status";

    /// Requests to the legs of mirrors by commands that contained them; 1: none were merged.
    pub const REQUESTS_PER_COMMAND: &'static str = "requests_per_command";

    /// In a list of metrics: every metric that both sides have.
    pub const EVERY: &'static str = "all";

    /// The names of the metrics that trials of iodyno can have, as a text.
    pub const NAMES: &'static str = "iops, bandwidth, completion, cpu_per_op; read, write, trim or sync \
                               with .iops, .bandwidth, .mean, .max, .p50, .p99, .p99.9, …; of file \
                               operations also setup, drain, loop.iops, loop.bandwidth, ops_from_mean, op with .iops, \
                               .mean, .min, .max, .p50, .p99, …, and steps (create, unlink, sync_folder, …) \
                               with .mean, .max, .p50, .p99, …; of fileio also op with .mean, .min, .max, \
                               .p95, …; of processes named with --sample server_cpu_per_op, server_cores; of mirrors requests_per_command; \
                               of commands cpu_user, cpu_system, exit_status and the names in `metric`";

    /// Whether a trial of iodyno can have a metric of this name, to detect typing errors before a long run. A
    /// particular trial may lack it: a job that never writes has no `write.iops`, and a percentile may be withheld.
    pub fn is_own(name: &str) -> bool {
        let whole = [
            Metric::IOPS,
            Metric::BANDWIDTH,
            Metric::COMPLETION,
            Metric::CPU_PER_OP,
            Metric::CPU_USER,
            Metric::CPU_SYSTEM,
            Metric::SETUP,
            Metric::DRAIN,
            Metric::LOOP_RATE,
            Metric::LOOP_BANDWIDTH,
            Metric::RATE_FROM_MEAN,
            Metric::SERVER_CPU_PER_OP,
            Metric::SERVER_CORES,
            Metric::REQUESTS_PER_COMMAND,
            Metric::EXIT_STATUS,
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
        let Some(direction) = Direction::named(op) else {
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

    /// A rate in ops per second.
    pub fn iops(name: impl Into<String>) -> Metric {
        Metric {
            name: name.into(),
            unit: Unit::OpsPerSecond,
            better: Better::Higher,
        }
    }

    /// A rate in bytes per second.
    pub fn bandwidth(name: impl Into<String>) -> Metric {
        Metric {
            name: name.into(),
            unit: Unit::BytesPerSecond,
            better: Better::Higher,
        }
    }

    /// A time in ns; smaller is better.
    pub fn time(name: impl Into<String>) -> Metric {
        Metric {
            name: name.into(),
            unit: Unit::Nanos,
            better: Better::Lower,
        }
    }
}

/// A metric's value in one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The metric.
    pub metric: Metric,
    /// In the metric's unit.
    pub value: f64,
    /// How it was derived from other figures; `None` if it was measured or printed itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub derived: Option<String>,
}

/// A figure that is withheld because the data do not support it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Withheld {
    /// The metric's name.
    pub metric: String,
    /// The reason, as text. Up to its first comma, colon or semicolon it is the reason in a few words.
    pub why: String,
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
            "loop.bandwidth",
            "ops_from_mean",
            "op.iops",
            "op.min",
            "op.p95",
            "sync_folder.mean",
            "unlink.p99.9",
            "server_cpu_per_op",
            "server_cores",
            "requests_per_command",
        ] {
            assert!(Metric::is_own(name), "{name}");
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
            assert!(!Metric::is_own(name), "{name}");
        }
    }
}
