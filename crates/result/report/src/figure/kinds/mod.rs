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

/// Panels of a figure, at most; more would not be readable.
pub const MOST_PANELS: usize = 12;

/// Points of a line, at most: about two for each pixel of a wide page.
const MOST_POINTS: usize = 2000;

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

/// `; 3 more are left out`, or nothing.
fn left_out(all: usize, shown: usize, what: &str) -> String {
    match all.saturating_sub(shown) {
        0 => String::new(),
        1 => format!(" One more {what} is left out."),
        more => format!(" {more} more {what}s are left out."),
    }
}

/// Thins values to a number that can be seen, keeping the first, the smallest, the largest and the last of each group,
/// in their order. Returns whether some were left out.
fn thinned<T: Clone>(points: Vec<T>, height: impl Fn(&T) -> f64) -> (Vec<T>, bool) {
    if points.len() <= MOST_POINTS {
        return (points, false);
    }
    let size = points.len().div_ceil(MOST_POINTS / 4);
    let mut kept = Vec::with_capacity(MOST_POINTS);
    for group in points.chunks(size) {
        let by_height = |a: &usize, b: &usize| height(&group[*a]).total_cmp(&height(&group[*b]));
        let places = 0..group.len();
        let mut chosen = vec![0, group.len() - 1];
        chosen.extend(places.clone().min_by(by_height));
        chosen.extend(places.max_by(by_height));
        chosen.sort_unstable();
        chosen.dedup();
        kept.extend(chosen.into_iter().map(|place| group[place].clone()));
    }
    (kept, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_extremes_and_order() {
        let mut points: Vec<(usize, f64)> = (0..100_000).map(|at| (at, 1.0)).collect();
        points[77_777].1 = 50.0;
        points[12_345].1 = -3.0;
        let (kept, thin) = thinned(points, |point| point.1);
        assert!(thin);
        assert!(kept.len() <= MOST_POINTS, "{}", kept.len());
        assert!(kept.contains(&(77_777, 50.0)) && kept.contains(&(12_345, -3.0)));
        assert!(kept.is_sorted_by_key(|point| point.0));
        assert_eq!(kept.first().map(|it| it.0), Some(0));
        assert_eq!(kept.last().map(|it| it.0), Some(99_999));
        let few = vec![(0, 2.0), (1, 1.0)];
        assert_eq!(thinned(few.clone(), |it| it.1), (few, false));
    }
}
