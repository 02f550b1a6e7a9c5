//! Levels that last: change points, and what is no change but a drift.

use iodyno_model::Point;
use iodyno_stats::{ChangePointOptions, change_points};

use super::{mean, middle};

/// The least change of level that is told, as a share of the smaller level.
const LEAST_CHANGE: f64 = 0.05;

/// Levels within this share of their mean are one for a time to fill: SNIA's range.
const LEVEL_RANGE: f64 = 0.20;

/// So many levels, each above (or each below) the one before, are a drift cut into steps.
const DRIFTING_LEVELS: usize = 4;

/// Seconds from `start` to before `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Stretch {
    fn of<'a>(&self, rates: &'a [f64]) -> &'a [f64] {
        &rates[self.start..self.end]
    }
}

/// A second is held against so many on either side: with four, five alike are the majority, and five
/// seconds are the shortest level there is.
const NEIGHBOURS: usize = 4;

/// … and is an outlier from so many of their deviations on.
const OUTLIER: f64 = 3.0;

/// The levels within a stretch; itself where it does not change.
///
/// Outliers take the median of their neighbourhood first: one stalled second among fifty would otherwise make the
/// whole stretch so wide that no change of it stands out.
pub(super) fn within(rates: &[f64], stretch: Stretch) -> Vec<Stretch> {
    let options = ChangePointOptions {
        min_change: LEAST_CHANGE,
        ..ChangePointOptions::default()
    };
    match change_points(&without_outliers(stretch.of(rates)), &options) {
        Ok(found) => found
            .segments
            .iter()
            .map(|segment| Stretch {
                start: stretch.start + segment.start,
                end: stretch.start + segment.end,
            })
            .collect(),
        // Only values too large to be squared get here: nothing can be said of their levels.
        Err(_) => vec![stretch],
    }
}

/// Hampel's filter; nothing is an outlier among fewer than a window of values.
pub(super) fn without_outliers(rates: &[f64]) -> Vec<f64> {
    let window = 2 * NEIGHBOURS + 1;
    if rates.len() < window {
        return rates.to_vec();
    }
    (0..rates.len())
        .map(|place| {
            let start = place.saturating_sub(NEIGHBOURS).min(rates.len() - window);
            let (middle, deviation) = middle(&rates[start..start + window]);
            match (rates[place] - middle).abs() > OUTLIER * deviation {
                true => middle,
                false => rates[place],
            }
        })
        .collect()
}

/// The levels reach no further apart from `from` on than a steady series may.
pub(super) fn within_limits(rates: &[f64], stretches: &[Stretch], from: usize) -> bool {
    let levels: Vec<f64> = stretches
        .iter()
        .filter(|stretch| stretch.end > from)
        .map(|stretch| mean(&rates[stretch.start.max(from)..stretch.end]))
        .collect();
    let largest = levels.iter().copied().fold(f64::MIN, f64::max);
    let smallest = levels.iter().copied().fold(f64::MAX, f64::min);
    largest - smallest <= LEVEL_RANGE * mean(&rates[from..])
}

/// The stretches of one piece are a drift cut into steps: a straight line explains the series better (by the
/// Bayesian information criterion), or they all go one way.
pub(super) fn drifts_rather(rates: &[f64], stretches: &[Stretch]) -> bool {
    let (Some(first), Some(last)) = (stretches.first(), stretches.last()) else {
        return false;
    };
    if stretches.len() < 2 {
        return false;
    }
    let levels: Vec<f64> = stretches
        .iter()
        .map(|stretch| mean(stretch.of(rates)))
        .collect();
    if levels.len() >= DRIFTING_LEVELS && (levels.is_sorted() || levels.iter().rev().is_sorted()) {
        return true;
    }
    let values = &rates[first.start..last.end];
    let count = values.len() as f64;
    // Without this floor a series without noise would have the logarithm of nothing.
    let floor = count * (mean(values) * 1e-9).powi(2);
    let criterion = |squares: f64, parameters: usize| {
        count * ((squares + floor) / count).ln() + parameters as f64 * count.ln()
    };
    let steps: f64 = stretches
        .iter()
        .zip(&levels)
        .map(|(stretch, level)| squares(stretch.of(rates), |_| *level))
        .sum();
    // A level each, and the places where they change.
    criterion(line_squares(values), 2) <= criterion(steps, 2 * stretches.len() - 1)
}

fn squares(values: &[f64], fitted: impl Fn(f64) -> f64) -> f64 {
    values
        .iter()
        .enumerate()
        .map(|(place, value)| (value - fitted(place as f64)).powi(2))
        .sum()
}

/// What the least-squares line leaves.
pub(super) fn line_squares(values: &[f64]) -> f64 {
    let (level, middle) = (mean(values), (values.len() - 1) as f64 / 2.0);
    let (mut moment, mut spread) = (0.0, 0.0);
    for (place, value) in values.iter().enumerate() {
        let place = place as f64 - middle;
        moment += place * (value - level);
        spread += place * place;
    }
    let slope = moment / spread;
    squares(values, |place| level + slope * (place - middle))
}

/// The instants between stretches, ns. Where a second straddles a change, its rate tells at which
/// share of it the change was.
pub(super) fn borders(points: &[&Point], stretches: &[Stretch]) -> Vec<u64> {
    let level = |stretch: &Stretch| {
        let own = &points[stretch.start..stretch.end];
        own.iter().map(|point| point.iops).sum::<f64>() / own.len() as f64
    };
    stretches
        .windows(2)
        .map(|pair| match pair[1].start - pair[0].end {
            0 => points[pair[1].start].start_ns,
            _ => {
                let (left, right) = (level(&pair[0]), level(&pair[1]));
                let straddling = points[pair[0].end];
                let share = ((straddling.iops - right) / (left - right)).clamp(0.0, 1.0);
                let share = (straddling.span_ns as f64 * share) as u64;
                straddling.start_ns.saturating_add(share)
            }
        })
        .collect()
}
