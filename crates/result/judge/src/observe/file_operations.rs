//! Figures of file operations. The plain name of a rate is that of the timed steps; with untimed steps, the rate of the
//! whole loop has the longer name.

use iodyno_model::{Better, Direction, Figure, Metric, Operations, Step, Trial, Unit, Workload};

use crate::work;
use crate::work::measured_ns;

/// Steps before and after the cycles, and rates with and without untimed steps, under the names that importers
/// of other tools use.
pub(super) fn figures(workload: &Workload, trial: &Trial) -> Vec<Figure> {
    let mut found = Vec::new();
    let mut add = |metric: Metric, value: f64, derived: Option<&str>| {
        found.push(Figure {
            metric,
            value,
            derived: derived.map(str::to_owned),
        });
    };
    for (metric, value) in of_commands(workload, trial) {
        add(metric, value, None);
    }
    let of_any = |asks: fn(&Operations) -> bool| {
        let mut all = workload
            .jobs
            .iter()
            .filter_map(|job| job.work.file_operations());
        all.any(asks)
    };
    for (name, step, asked) in [
        (
            Metric::SETUP,
            Step::LayOut,
            of_any(|of| {
                let command = of.command.as_ref();
                !of.sets.is_empty() || command.is_some_and(|it| it.prepare.is_some())
            }),
        ),
        (Metric::DRAIN, Step::Drain, of_any(|of| of.drain)),
    ] {
        if let Some(ns) = work::step_ns(workload, trial, step).filter(|_| asked) {
            add(Metric::time(name), ns as f64, None);
        }
    }
    let rate = timed_rate(workload, trial).filter(|_| !workload.runs_once());
    if let Some(rate) = rate {
        let derived = Some("threads ÷ op.mean");
        add(Metric::iops(Metric::RATE_FROM_MEAN), rate, derived);
    }
    found
}

/// The values that commands printed, each the mean over the clones, and the largest exit status if it is a result.
fn of_commands(workload: &Workload, trial: &Trial) -> Vec<(Metric, f64)> {
    let mut found: Vec<(Metric, Vec<f64>)> = Vec::new();
    for clone in work::clones(trial) {
        let job = workload.jobs.get(clone.job as usize);
        let command = job.and_then(|job| job.work.command());
        let Some((command, result)) = command.zip(clone.command.as_ref()) else {
            continue;
        };
        let printed = command.metrics.iter().map(|it| it.metric.clone());
        let mut all: Vec<(Metric, f64)> = printed.zip(result.values.iter().copied()).collect();
        if command.may_fail {
            let metric = Metric {
                name: Metric::EXIT_STATUS.to_owned(),
                unit: Unit::Other(String::new()),
                better: Better::Lower,
            };
            all.push((metric, f64::from(result.exit_status)));
        }
        for (metric, value) in all {
            match found.iter_mut().find(|(known, _)| *known == metric) {
                Some((_, values)) => values.push(value),
                None => found.push((metric, vec![value])),
            }
        }
    }
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let all = found.into_iter();
    all.map(|(metric, values)| (metric, mean(values))).collect()
}

/// Cycles per second if only timed steps counted: the number of threads ÷ the mean time of an op. `None` for cycles at
/// a requested rate, where it is not what the threads could do.
fn timed_rate(workload: &Workload, trial: &Trial) -> Option<f64> {
    let ops = work::clones(trial).filter_map(|clone| clone.direction(Direction::Op));
    let ran: Vec<_> = ops.filter(|op| op.ops > 0).collect();
    let cycles: u64 = ran.iter().map(|op| op.ops).sum();
    let timed_ns: u128 = ran.iter().map(|op| op.service.sum_ns()).sum();
    let paced = workload.jobs.iter().any(|job| job.scheduled());
    (timed_ns > 0 && !paced).then(|| ran.len() as f64 * 1e9 / (timed_ns as f64 / cycles as f64))
}

/// The factor from the rates of a loop with untimed steps to those of its timed steps. `None` if untimed steps do not
/// count, or the loop has a requested rate.
pub(super) fn timed_by_loop(workload: &Workload, trial: &Trial) -> Option<f64> {
    let counts = work::all_operations(workload) && work::untimed_counts(workload, trial);
    let cycles: u64 = work::clones(trial)
        .filter_map(|clone| clone.direction(Direction::Op))
        .map(|op| op.ops)
        .sum();
    let loop_rate = cycles as f64 * 1e9 / measured_ns(trial) as f64;
    let ratio = timed_rate(workload, trial).filter(|_| counts)? / loop_rate;
    (ratio.is_finite() && ratio > 0.0).then_some(ratio)
}
