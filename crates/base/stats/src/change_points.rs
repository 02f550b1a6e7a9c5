//! Change points in a series: the regimes of a trial.
//!
//! E-divisive with α = 1 proposes change points, and Welch's t-test accepts or rejects them, in the two steps of
//! Hunter and Apache Otava: split with ten times the accepted p, then remove the weakest border until all that remain
//! are significant. Splitting works on overlapping windows, which find short dips, and by division of the whole
//! series, which finds small lasting shifts. Source: Matteson & James, JASA 109(505), 2014; Fleming et al., "Hunter:
//! using change point detection to hunt for performance regressions", ICPE 2023.

use crate::StatsError;
use crate::autocorrelation::autocorrelation_time;
use crate::energy::best_split;
use crate::error::{check_finite, check_open_unit};
use crate::sample::{mean, squared_deviations};
use crate::welch::{Moments, Summary, mean_p};

/// Criteria for a change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangePointOptions {
    /// The largest p of a change that is kept, in a series as long as one window. In a longer one it is divided by
    /// the number of windows, so that the chance of a false change does not grow with the length. (The t-test is
    /// applied at the position with the largest difference, so the actual chance is some dozens of times `max_p`.)
    pub max_p: f64,
    /// Minimum number of values in a segment; at least two.
    pub min_segment: usize,
    /// The smallest change of the mean, as a fraction of the smaller of the two means' magnitudes.
    pub min_change: f64,
    /// The length of the sliding windows.
    pub window: usize,
    /// Whether to correct for correlated values: the t-test then uses n/τ, with τ of the residuals after the
    /// segments' means are subtracted. Series of seconds are correlated; without the correction, slow drift is
    /// detected as changes.
    pub effective_size: bool,
    /// Whether all segments have the same spread: Student's t-test instead of Welch's. It has more power for segments
    /// of a few values.
    pub pooled: bool,
}

/// p ≤ 0.001, segments of 5, any change, windows of 50, effective size.
impl Default for ChangePointOptions {
    fn default() -> Self {
        ChangePointOptions {
            max_p: 0.001,
            min_segment: 5,
            min_change: 0.0,
            window: 50,
            effective_size: true,
            pooled: false,
        }
    }
}

/// A range of the series with one level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// The index of its first value.
    pub start: usize,
    /// The index after its last value.
    pub end: usize,
    /// The mean of its values.
    pub mean: f64,
    /// Their standard deviation (n−1); 0 for a single value.
    pub deviation: f64,
}

/// A position where the level changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangePoint {
    /// The index of the first value after the change.
    pub index: usize,
    /// p of Welch's t-test between the segments on both sides.
    pub p: f64,
    /// mean after ÷ mean before − 1; infinite from zero.
    pub change: f64,
}

/// A series divided into segments.
#[derive(Debug, Clone, PartialEq)]
pub struct Segmentation {
    /// The segments in order, without gaps; at least one.
    pub segments: Vec<Segment>,
    /// The changes between segments; one fewer than segments.
    pub changes: Vec<ChangePoint>,
    /// The τ that the tests used; 1 unless `effective_size` was set.
    pub autocorrelation_time: f64,
}

/// Finds the changes of level of a series. If the series is too short for two segments, the result is one segment.
///
/// About O(n log n) for each level of division and O(n·window) for the windows: 36 000 values take much less than a
/// second. Only changes of the mean are kept: a change of only the spread does not pass the t-test.
pub fn change_points(
    series: &[f64],
    options: &ChangePointOptions,
) -> Result<Segmentation, StatsError> {
    check_finite(series, 1)?;
    check_open_unit("max_p", options.max_p)?;
    check_options(options)?;
    let moments = Moments::new(series);
    if !moments.of(0, series.len()).variance.is_finite() {
        return Err(StatsError::Overflow);
    }
    let mut search = Search {
        series,
        moments,
        options,
        max_p: options.max_p / (series.len() as f64 / options.window as f64).max(1.0),
        time: 1.0,
    };
    let mut borders = search.propose();
    search.merge(&mut borders);
    if options.effective_size {
        // With fewer segments, more of the slow variation appears as correlation: repeat until it converges. Segments
        // are only removed, so this ends.
        loop {
            let time = search.residual_time(&borders)?;
            if time <= search.time * 1.01 {
                break;
            }
            search.time = time;
            let before = borders.len();
            search.merge(&mut borders);
            if borders.len() == before {
                break;
            }
        }
    }
    Ok(search.describe(&borders))
}

fn check_options(options: &ChangePointOptions) -> Result<(), StatsError> {
    let refused = |name, value, expected| {
        Err(StatsError::OutOfRange {
            name,
            value,
            expected,
        })
    };
    if options.min_segment < 2 {
        return refused("min_segment", options.min_segment as f64, "at least 2");
    }
    if options.window < 2 * options.min_segment {
        return refused("window", options.window as f64, "at least two segments");
    }
    if !(options.min_change >= 0.0 && options.min_change.is_finite()) {
        return refused("min_change", options.min_change, "0 or more");
    }
    Ok(())
}

struct Search<'a> {
    series: &'a [f64],
    moments: Moments,
    options: &'a ChangePointOptions,
    /// The options' threshold, divided by the number of windows.
    max_p: f64,
    time: f64,
}

impl Search<'_> {
    /// Candidates from the windows and from the whole series, in order, at least one segment apart.
    fn propose(&self) -> Vec<usize> {
        let count = self.series.len();
        let mut borders = Vec::new();
        self.divide(0, count, &mut borders);
        let step = self.options.window / 2;
        let mut start = 0;
        while start < count {
            let end = (start + self.options.window).min(count);
            self.divide(start, end, &mut borders);
            start += step;
        }
        borders.sort_unstable();
        borders.dedup();
        self.thin(&mut borders);
        borders
    }

    /// Splits [start, end) as long as the parts differ at ten times the accepted p.
    fn divide(&self, start: usize, end: usize, borders: &mut Vec<usize>) {
        let generous = (self.max_p * 10.0).min(0.5);
        let mut open = vec![(start, end)];
        while let Some((start, end)) = open.pop() {
            let Some(split) = best_split(&self.series[start..end], self.options.min_segment) else {
                continue;
            };
            let at = start + split.at;
            if self.p(start, at, end) <= generous {
                borders.push(at);
                open.push((start, at));
                open.push((at, end));
            }
        }
    }

    /// If two borders are closer than one segment, drops the one that separates less.
    fn thin(&self, borders: &mut Vec<usize>) {
        let least = self.options.min_segment;
        let mut kept: Vec<usize> = Vec::with_capacity(borders.len());
        for (place, &border) in borders.iter().enumerate() {
            match kept.last() {
                Some(&last) if border - last < least => {
                    let before = kept.len().checked_sub(2).map_or(0, |i| kept[i]);
                    let after = borders[place + 1..]
                        .iter()
                        .copied()
                        .find(|next| next - border >= least)
                        .unwrap_or(self.series.len());
                    // p underflows to 0 for clear changes; the change divided by its error does not.
                    if self.separation(before, border, after) > self.separation(before, last, after)
                    {
                        kept.pop();
                        kept.push(border);
                    }
                }
                _ => kept.push(border),
            }
        }
        *borders = kept;
    }

    /// The part of the sum of squares that a border explains: n·m/(n+m)·(difference of means)².
    fn separation(&self, start: usize, at: usize, end: usize) -> f64 {
        let (left, right) = (self.moments.of(start, at), self.moments.of(at, end));
        let weight = left.count * right.count / (left.count + right.count);
        weight * (left.mean - right.mean).powi(2)
    }

    fn p(&self, start: usize, at: usize, end: usize) -> f64 {
        mean_p(
            self.moments.of(start, at),
            self.moments.of(at, end),
            self.time,
            self.options.pooled,
        )
    }

    /// Removes the weakest border until all are significant and large enough.
    fn merge(&self, borders: &mut Vec<usize>) {
        let mut strengths: Vec<Strength> = (0..borders.len())
            .map(|place| self.strength(borders, place))
            .collect();
        while let Some(weakest) = self.weakest(&strengths) {
            borders.remove(weakest);
            strengths.remove(weakest);
            // The two adjacent borders now separate longer segments.
            for place in [weakest.checked_sub(1), Some(weakest)]
                .into_iter()
                .flatten()
            {
                if place < borders.len() {
                    strengths[place] = self.strength(borders, place);
                }
            }
        }
    }

    /// The border to remove next, if any: the largest p, or else the smallest change.
    fn weakest(&self, strengths: &[Strength]) -> Option<usize> {
        let indexed = || strengths.iter().enumerate();
        let (by_p, weakest) = indexed().max_by(|a, b| a.1.p.total_cmp(&b.1.p))?;
        if weakest.p > self.max_p {
            return Some(by_p);
        }
        let (by_change, smallest) = indexed().min_by(|a, b| a.1.change.total_cmp(&b.1.change))?;
        (smallest.change < self.options.min_change).then_some(by_change)
    }

    fn strength(&self, borders: &[usize], place: usize) -> Strength {
        let (start, end) = self.around(borders, place);
        let at = borders[place];
        let (left, right) = (self.moments.of(start, at), self.moments.of(at, end));
        Strength {
            p: mean_p(left, right, self.time, self.options.pooled),
            change: magnitude(left, right),
        }
    }

    fn around(&self, borders: &[usize], place: usize) -> (usize, usize) {
        let start = place.checked_sub(1).map_or(0, |before| borders[before]);
        let end = borders.get(place + 1).copied().unwrap_or(self.series.len());
        (start, end)
    }

    /// τ of the residuals after each segment's mean is subtracted, at least 1.
    fn residual_time(&self, borders: &[usize]) -> Result<f64, StatsError> {
        if self.series.len() < 2 {
            return Ok(1.0);
        }
        let mut residuals = self.series.to_vec();
        for segment in self.segments(borders) {
            let stretch = &mut residuals[segment.start..segment.end];
            stretch.iter_mut().for_each(|value| *value -= segment.mean);
        }
        Ok(autocorrelation_time(&residuals)?.time.max(1.0))
    }

    fn segments(&self, borders: &[usize]) -> Vec<Segment> {
        let ends = borders.iter().copied().chain([self.series.len()]);
        let starts = [0].into_iter().chain(borders.iter().copied());
        starts
            .zip(ends)
            .map(|(start, end)| {
                let stretch = &self.series[start..end];
                let freedom = (stretch.len() - 1).max(1) as f64;
                Segment {
                    start,
                    end,
                    mean: mean(stretch),
                    deviation: (squared_deviations(stretch) / freedom).sqrt(),
                }
            })
            .collect()
    }

    fn describe(&self, borders: &[usize]) -> Segmentation {
        let segments = self.segments(borders);
        let changes = segments
            .windows(2)
            .map(|pair| ChangePoint {
                index: pair[1].start,
                p: self.p(pair[0].start, pair[1].start, pair[1].end),
                change: pair[1].mean / pair[0].mean - 1.0,
            })
            .collect();
        Segmentation {
            segments,
            changes,
            autocorrelation_time: self.time,
        }
    }
}

/// Significance and size of the change of level at a border.
struct Strength {
    p: f64,
    change: f64,
}

/// The difference of the means divided by the smaller magnitude: the same in both directions of time.
fn magnitude(left: Summary, right: Summary) -> f64 {
    let difference = (left.mean - right.mean).abs();
    if difference == 0.0 {
        return 0.0;
    }
    difference / left.mean.abs().min(right.mean.abs())
}
