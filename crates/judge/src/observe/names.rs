//! Which metrics own trials can have, so that a slip of the pen is told before a long run and not after.

use iodyno_model::{Direction, Metric};

/// The names, in words.
pub const OWN_METRICS: &str = "iops, bandwidth, completion, cpu_per_op; read, write, trim or sync \
                               with .iops, .bandwidth, .mean, .max, .p50, .p99, .p99.9, …";

/// Whether a trial of iodyno's own can have a metric of this name. It need not: a job that never writes has
/// no `write.iops`, and a percentile may be kept back.
pub fn is_own_metric(name: &str) -> bool {
    let whole = [
        Metric::IOPS,
        Metric::BANDWIDTH,
        Metric::COMPLETION,
        "cpu_per_op",
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
    Direction::EVERY
        .iter()
        .any(|direction| direction.name() == op)
        && (["iops", "bandwidth", "mean", "max"].contains(&figure) || percentile(figure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_pen_are_no_metrics() {
        for name in [
            "iops",
            "completion",
            "read.p99.9",
            "write.mean",
            "sync.iops",
            "trim.max",
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
        ] {
            assert!(!is_own_metric(name), "{name}");
        }
    }
}
