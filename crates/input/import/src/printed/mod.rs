//! What other benchmarks print as reports: IOR, mdtest, elbencho and pgbench.

mod elbencho;
mod ior;
mod mdtest;
mod pgbench;
#[cfg(test)]
mod tests;

use iodyno_model::{Fact, FactClass, Figure, ImportedTrial, Metric};

use super::extract::Extract;
use super::lines::Lines;

pub(super) use elbencho::read as elbencho;
pub(super) use ior::read as ior;
pub(super) use mdtest::read as mdtest;
pub(super) use pgbench::read as pgbench;

const MIB: f64 = (1u64 << 20) as f64;

/// Adds a figure; the first one is the primary one.
fn add(trial: &mut ImportedTrial, metric: Metric, value: Option<f64>) {
    let Some(value) = value else { return };
    trial.primary.get_or_insert_with(|| metric.name.clone());
    trial.figures.push(Figure {
        metric,
        value,
        derived: None,
    });
}

/// A fact about the workload, also as a dimension if results of one report can differ in it.
fn fact(trial: &mut ImportedTrial, class: FactClass, name: &str, value: &str) {
    trial.facts.push(Fact {
        class,
        name: name.to_owned(),
        value: value.to_owned(),
    });
}

/// Splits `name : value` and `name = value`.
fn setting(text: &str, mark: char) -> Option<(&str, &str)> {
    let (name, value) = text.split_once(mark)?;
    let (name, value) = (name.trim(), value.trim());
    (!name.is_empty() && !value.is_empty()).then_some((name, value))
}

/// Rows of a report that were not understood.
fn not_a_row(number: u32, of: &str) -> Extract {
    Extract::unread(number..number + 1, format!("not a row of {of}"))
}

/// The first line at or after `from` for which `is` holds, before `end`.
fn find(lines: &Lines<'_>, from: u32, end: u32, is: impl Fn(&str) -> bool) -> Option<u32> {
    let mut range = lines.range(from..end);
    range.find(|(_, text)| is(text)).map(|(number, _)| number)
}
