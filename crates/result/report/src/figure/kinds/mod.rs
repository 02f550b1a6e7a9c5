//! The kinds of figures, each built from results.

mod comparison;
mod curve;
mod history;
mod latency;
mod telemetry;
mod throughput;

pub use comparison::{trials, verdicts};
pub use curve::{curve, search};
pub use history::history;
pub use latency::{Distribution, heatmap, latency};
pub use telemetry::telemetry;
pub use throughput::{Course, throughput};

use iodyno_model::{Metric, Unit};
use iodyno_units::{Bytes, Nanos, Rate, significant};

use super::Panel;
use iodyno_model::ordered::entry;

/// Panels of a figure, at most; more would not be readable.
pub const MAX_PANELS: usize = 12;

/// A value of a metric with its unit.
fn value(metric: &Metric, value: f64) -> String {
    match &metric.unit {
        Unit::OpsPerSecond => format!("{}/s", Rate(value)),
        Unit::BytesPerSecond => format!("{}/s", Bytes(value.max(0.0) as u64)),
        Unit::Nanos => Nanos(value.max(0.0) as u64).to_string(),
        Unit::Other(unit) if unit.is_empty() => significant(value).to_string(),
        Unit::Other(unit) => format!("{} {unit}", significant(value)),
    }
}

/// The panels of items with the same key, in the order of their first items; at most [`MAX_PANELS`], and the number of
/// all.
fn panels_of<'a, T: 'a, K: PartialEq>(
    items: impl IntoIterator<Item = &'a T>,
    key: impl Fn(&'a T) -> K,
    drawn: impl Fn(&[&'a T]) -> Panel,
) -> (Vec<Panel>, usize) {
    let mut groups: Vec<(K, Vec<&T>)> = Vec::new();
    for item in items {
        entry(&mut groups, key(item)).push(item);
    }
    let panels = groups.iter().take(MAX_PANELS);
    let panels = panels.map(|(_, own)| drawn(own)).collect();
    (panels, groups.len())
}

/// `; 3 more are left out`, or nothing.
fn left_out(all: usize, shown: usize, what: &str) -> String {
    match all.saturating_sub(shown) {
        0 => String::new(),
        1 => format!(" One more {what} is left out."),
        more => format!(" {more} more {what}s are left out."),
    }
}
