//! Interrupts by source, and their distribution over the CPUs.

use std::collections::{BTreeMap, BTreeSet};

use iodyno_model::SeriesUnit::{Number, PerSecond, Percent};
use iodyno_model::{FigureColumn, FigureRow, SeriesKind, Telemetry};

use super::view::{over, sum};
use super::{Drawn, View};
use iodyno_model::ordered::distinct;

/// The name of the row for all sources.
const ALL: &str = "all";

/// Columns before those of the CPUs: the rate, the share of the CPU with the most, the number of that CPU, and
/// [`balance`].
const COLUMNS: [(&str, iodyno_model::SeriesUnit); 4] = [
    ("total/s", PerSecond),
    ("%busiest", Percent),
    ("busiest", Number),
    ("balance", Number),
];

/// Evenness of a distribution: Jain's fairness index, (Σx)² ÷ (n · Σx²); 1 if all are equal, 1 ÷ n if one has
/// everything; `None` if all are zero. R. Jain, D. Chiu, W. Hawe: A Quantitative Measure of Fairness and
/// Discrimination for Resource Allocation in Shared Computer Systems, DEC TR-301, 1984.
pub fn balance(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    over(sum * sum, shares.len() as f64 * squares)
}

/// One row for all sources, then one for each that interrupted, in the series' order; columns for the CPUs of
/// all shapes.
pub(super) fn drawn(series: &Telemetry) -> Drawn {
    let kind = SeriesKind::Interrupts;
    let mut sources: BTreeSet<&str> = BTreeSet::new();
    let shapes = series.shapes.iter().filter(|shape| shape.kind == kind);
    let columns = shapes.flat_map(|shape| &shape.columns);
    let mut cpus = distinct(columns.map(|column| column.name.as_str()));
    for (shape, sample) in series.of(kind) {
        let alive = View::of(shape, sample).filter(|view| total(view) > 0);
        sources.extend(alive.map(|view| view.subject()));
    }
    // A CPU that was added later can have a lower number.
    cpus.sort_by_key(|cpu| cpu_number(cpu));
    let rows = series.of(kind).flat_map(|(shape, sample)| {
        let all = row(&View::all(shape, sample), ALL, &cpus);
        let each = View::of(shape, sample).filter(|view| sources.contains(view.subject()));
        let each = each.map(|view| row(&view, view.subject(), &cpus));
        std::iter::once(all).chain(each).collect::<Vec<_>>()
    });
    let rows = rows.collect();
    let by_cpu = cpus.iter().map(|cpu| (*cpu, PerSecond));
    let columns = COLUMNS.into_iter().chain(by_cpu);
    let columns = columns.map(|(name, unit)| FigureColumn {
        name: name.to_owned(),
        unit,
    });
    (columns.collect(), rows)
}

fn total(view: &View) -> u64 {
    sum(view.values().filter_map(|(_, value)| value))
}

/// 7 of `CPU7`.
pub(crate) fn cpu_number(name: &str) -> Option<u32> {
    name.strip_prefix("CPU")?.parse().ok()
}

fn row(view: &View, subject: &str, cpus: &[&str]) -> FigureRow {
    let counts: Vec<(&str, f64)> = view
        .values()
        .filter_map(|(cpu, value)| Some((cpu, value? as f64)))
        .collect();
    let values: Vec<f64> = counts.iter().map(|(_, value)| *value).collect();
    let all: f64 = values.iter().sum();
    let mut busiest: Option<(&str, f64)> = None;
    for (cpu, value) in &counts {
        // The first of equal values.
        if *value > busiest.map_or(0.0, |(_, most)| most) {
            busiest = Some((cpu, *value));
        }
    }
    let seconds = view.span_ns() as f64 / 1e9;
    // Precomputed: a search through the columns for each CPU, source and sample would be slow.
    let by_cpu: BTreeMap<&str, f64> = counts.iter().copied().collect();
    let known = !counts.is_empty();
    let mut figures = vec![
        known.then(|| over(all, seconds)).flatten(),
        busiest.and_then(|(_, most)| over(most * 100.0, all)),
        busiest.and_then(|(cpu, _)| cpu_number(cpu)).map(f64::from),
        balance(&values),
    ];
    figures.extend(cpus.iter().map(|cpu| over(*by_cpu.get(cpu)?, seconds)));
    FigureRow {
        at_ns: view.at_ns(),
        span_ns: view.span_ns(),
        subject: subject.to_owned(),
        values: figures,
    }
}
