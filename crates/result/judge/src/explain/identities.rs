//! Equations between quantities that were measured separately. Where they do not hold, a counter does not mean what the
//! explanation takes it for: the residual is printed.

use iodyno_model::{Costs, Equation, SeriesUnit};
use iodyno_stats::Sample;

use super::split::BACKGROUND;

/// The left and the right side of an equation in one trial.
type Sides = fn(&Costs) -> Option<(f64, f64)>;

const IDENTITIES: &[(&str, SeriesUnit, Sides)] = &[
    (
        "ops in flight = rate × latency (Little's law; the left side is what the jobs allow)",
        SeriesUnit::Number,
        |it| {
            let in_syncs = it.syncs.1;
            Some((it.depth, it.ops / it.seconds * (it.op_ns + in_syncs) / 1e9))
        },
    ),
    (
        "requests at the devices = their rate × their time (Little's law)",
        SeriesUnit::Number,
        |it| {
            let device = it.top?;
            let ns: f64 = device.ns.iter().sum();
            let found = (device.in_flight, it.ops / it.seconds * ns / 1e9);
            (found.0 > 0.0).then_some(found)
        },
    ),
    (
        "latency of an op = time of its requests at the devices (the rest is above them)",
        SeriesUnit::Nanos,
        |it| {
            let device_ns: f64 = it.top?.ns.iter().sum();
            let op_ns = it.op_ns + it.syncs.1;
            // An op does not wait for requests in the background.
            (device_ns <= BACKGROUND * op_ns).then_some((op_ns, device_ns))
        },
    ),
    (
        "time of a worker per op = its CPU time + its wait for a CPU (if the CPU limits)",
        SeriesUnit::Nanos,
        |it| {
            let (user, system) = it.cpu_ns?;
            Some((it.worker_ns, user + system + it.delay_ns.unwrap_or(0.0)))
        },
    ),
    (
        "time of a request = traced time in queue and device",
        SeriesUnit::Nanos,
        |it| {
            let traced: f64 = it
                .traced
                .filter(|_| !it.simulated)?
                .iter()
                .map(|(queue, device)| queue + device)
                .sum();
            let device_ns: f64 = it.lowest?.ns.iter().sum();
            (device_ns > 0.0).then_some((device_ns, traced))
        },
    ),
];

/// The equations that both sides have the quantities for.
pub(super) fn identities(baseline: &[&Costs], candidate: &[&Costs]) -> Vec<Equation> {
    let median = |side: &[&Costs], equation: Sides| -> Option<(f64, f64)> {
        let found: Option<Vec<(f64, f64)>> = side.iter().map(|costs| equation(costs)).collect();
        let (left, right): (Vec<f64>, Vec<f64>) = found?.into_iter().unzip();
        let of = |values: &[f64]| Some(Sample::new(values).ok()?.median());
        Some((of(&left)?, of(&right)?))
    };
    let residual = |(left, right): (f64, f64)| match left > 0.0 {
        true => right / left - 1.0,
        false => 0.0,
    };
    let known = IDENTITIES.iter().filter_map(|(words, unit, equation)| {
        let values = [median(baseline, *equation)?, median(candidate, *equation)?];
        Some(Equation {
            words: (*words).to_owned(),
            unit: *unit,
            residual: (residual(values[0]), residual(values[1])),
            values,
        })
    });
    known.collect()
}
