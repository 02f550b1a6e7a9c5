//! Detects lasting levels: change points, and how to distinguish them from a drift.

use iodyno_model::Point;
use iodyno_stats::{ChangePointOptions, change_points};

use super::spread::{mean, middle};

/// The smallest change of level that is reported, as a fraction of the smaller level.
const MIN_CHANGE: f64 = 0.05;

/// For a trial with a fixed duration, levels within this fraction of their mean count as one: SNIA's range.
const LEVEL_RANGE: f64 = 0.20;

/// This many levels that all rise, or all fall, are one drift.
const DRIFTING_LEVELS: usize = 4;

/// Seconds from `start` to before `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Segment {
    fn of<'a>(&self, rates: &'a [f64]) -> &'a [f64] {
        &rates[self.start..self.end]
    }
}

/// Number of neighbours on either side that a second is compared with. With four, five equal seconds are the
/// majority of the window, and five seconds are the shortest level.
const NEIGHBOURS: usize = 4;

/// A second is an outlier if it is at least this many deviations from the median of its window.
const OUTLIER: f64 = 3.0;

/// The levels within a segment; the segment itself if its level does not change.
///
/// Outliers are first replaced by the median of their neighbourhood. Otherwise one stalled second among fifty
/// would widen the distribution and hide changes.
pub(super) fn within(rates: &[f64], segment: Segment) -> Vec<Segment> {
    let options = ChangePointOptions {
        min_change: MIN_CHANGE,
        ..ChangePointOptions::default()
    };
    match change_points(&without_outliers(segment.of(rates)), &options) {
        Ok(found) => found
            .segments
            .iter()
            .map(|part| Segment {
                start: segment.start + part.start,
                end: segment.start + part.end,
            })
            .collect(),
        // Only values whose squares overflow get here; their levels cannot be determined.
        Err(_) => vec![segment],
    }
}

/// Hampel's filter. With fewer values than one window, no value is an outlier.
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

/// Whether the levels after `from` stay within the range of a steady series.
pub(super) fn within_limits(rates: &[f64], segments: &[Segment], from: usize) -> bool {
    let levels: Vec<f64> = segments
        .iter()
        .filter(|segment| segment.end > from)
        .map(|segment| mean(&rates[segment.start.max(from)..segment.end]))
        .collect();
    let largest = levels.iter().copied().fold(f64::MIN, f64::max);
    let smallest = levels.iter().copied().fold(f64::MAX, f64::min);
    largest - smallest <= LEVEL_RANGE * mean(&rates[from..])
}

/// Whether the segments are one drift: a straight line fits better by the Bayesian information criterion, or
/// all levels move in one direction.
pub(super) fn drifts_rather(rates: &[f64], segments: &[Segment]) -> bool {
    let (Some(first), Some(last)) = (segments.first(), segments.last()) else {
        return false;
    };
    if segments.len() < 2 {
        return false;
    }
    let levels: Vec<f64> = segments
        .iter()
        .map(|segment| mean(segment.of(rates)))
        .collect();
    if levels.len() >= DRIFTING_LEVELS && (levels.is_sorted() || levels.iter().rev().is_sorted()) {
        return true;
    }
    let values = &rates[first.start..last.end];
    let count = values.len() as f64;
    // Without this minimum, a series without noise would need the logarithm of 0.
    let floor = count * (mean(values) * 1e-9).powi(2);
    let criterion = |squares: f64, parameters: usize| {
        count * ((squares + floor) / count).ln() + parameters as f64 * count.ln()
    };
    let steps: f64 = segments
        .iter()
        .zip(&levels)
        .map(|(segment, level)| squares(segment.of(rates), |_| *level))
        .sum();
    // Parameters: one level per segment, and the positions of the changes.
    criterion(line_squares(values), 2) <= criterion(steps, 2 * segments.len() - 1)
}

fn squares(values: &[f64], fitted: impl Fn(f64) -> f64) -> f64 {
    values
        .iter()
        .enumerate()
        .map(|(place, value)| (value - fitted(place as f64)).powi(2))
        .sum()
}

/// Residual of the least-squares line.
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

/// The instants between segments, ns. Within a second that contains a change, the instant is interpolated from
/// the second's rate.
pub(super) fn borders(points: &[&Point], segments: &[Segment]) -> Vec<u64> {
    let level = |segment: &Segment| {
        let own = &points[segment.start..segment.end];
        own.iter().map(|point| point.iops).sum::<f64>() / own.len() as f64
    };
    segments
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
