//! Figures of file operations.

use iodyno_model::{Direction, Figure, Metric, Operations, Step, Trial, Workload};

use crate::summary::measured_ns;
use crate::work;

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
            of_any(|of| !of.sets.is_empty()),
        ),
        (Metric::DRAIN, Step::Drain, of_any(|of| of.drain)),
    ] {
        if let Some(ns) = work::step_ns(workload, trial, step).filter(|_| asked) {
            add(Metric::time(name), ns as f64, None);
        }
    }
    let (mut cycles, mut clones, mut timed_ns) = (0u64, 0u32, 0u128);
    for clone in work::clones(trial) {
        if let Some(result) = clone.direction(Direction::Op).filter(|op| op.ops > 0) {
            cycles += result.ops;
            clones += 1;
            timed_ns += result.service.sum_ns();
        }
    }
    let span_ns = measured_ns(trial);
    if span_ns > 0 && cycles > 0 && work::untimed_counts(workload, trial) {
        let derived = "iops, which counts the time of untimed steps as well";
        let rate = cycles as f64 * 1e9 / span_ns as f64;
        add(Metric::iops(Metric::LOOP_RATE), rate, Some(derived));
    }
    let paced = workload.jobs.iter().any(|job| job.scheduled());
    if timed_ns > 0 && !paced {
        let mean_ns = timed_ns as f64 / cycles as f64;
        let rate = f64::from(clones) * 1e9 / mean_ns;
        add(
            Metric::iops(Metric::RATE_FROM_MEAN),
            rate,
            Some("threads ÷ op.mean"),
        );
    }
    found
}
