//! A line for benchstat.
//!
//! It contains the name, an integer, then pairs of value and unit. The units are those of this program's other
//! benchstat output, so that both can be compared and the importer assigns the same metrics.

use iodyno_model::{Outcome, Trial, Workload};

use crate::compare;
use crate::live::primary;
use crate::operations;

/// Metadata lines for benchstat: whether lower or higher is better for each unit. Printed once, above the first
/// [`benchmark_line`].
pub fn benchmark_units() -> &'static str {
    "Unit ops/sec better=higher\n\
     Unit op-mean-ns better=lower\n\
     Unit op-p50-ns better=lower\n\
     Unit op-p95-ns better=lower\n\
     Unit op-p99-ns better=lower\n\
     Unit op-max-ns better=lower\n\
     Unit completion-ns better=lower\n"
}

/// `Benchmarkfsbench/NAME N X ops/sec …` with a newline: cycles, cycles per second of measured time, then mean,
/// percentiles and maximum of the op, and for finite work the time until it was on the storage, drain included, all in
/// ns. If there are several threads, the name ends with `/threads=4`. Empty if no cycle completed or the trial did not
/// complete.
pub fn benchmark_line(workload: &Workload, trial: &Trial) -> String {
    let (op, clones) = operations::all_cycles(trial);
    // A trial that did not complete must not be compared.
    if trial.outcome != Outcome::Completed || op.ops == 0 || op.runtime_ns == 0 {
        return String::new();
    }
    let rate = op.ops as f64 * 1e9 / op.runtime_ns as f64;
    let threads = match clones {
        0 | 1 => String::new(),
        clones => format!("/threads={clones}"),
    };
    let name = compare::benchmark_name(&workload.name);
    let latency = primary(&op.response, &op.service);
    let mut line = format!(
        "Benchmarkfsbench/{name}{threads} {} {rate:.3} ops/sec",
        op.ops
    );
    line += &format!(" {:.1} op-mean-ns", latency.mean_ns());
    for percent in [50.0, 95.0, 99.0] {
        let ns = latency.percentile_ns(percent);
        line += &format!(" {ns} op-p{percent}-ns");
    }
    line += &format!(" {} op-max-ns", latency.max_ns());
    if operations::came_to_its_end(trial) {
        line += &format!(" {} completion-ns", operations::completion_ns(trial));
    }
    line + "\n"
}
