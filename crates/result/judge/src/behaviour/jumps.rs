//! Detects changes of level that are certain even in a few seconds.
//!
//! E-divisive needs about five values on both sides, and short trials have fewer. But one second contains
//! thousands of ops: if every second before an instant has at least three times the rate of every second after
//! it (or the reverse), and each has at least a thousand ops, then neither counting noise (3 % at a thousand
//! ops) nor the usual noise of storage (about 10 %) explains the change.

use iodyno_model::Point;

use super::levels::Segment;
use super::ops;

/// Minimum ratio of the slowest second of the fast side to the fastest second of the slow side.
const FACTOR: f64 = 3.0;

/// Minimum number of ops in each second. With fewer, a single stalled op changes the rate of a second.
const MIN_OPS: f64 = 1000.0;

/// Minimum share of either part in the time or in the ops. One slow first second of a long trial does not
/// explain its completion time.
const MIN_SHARE: f64 = 0.05;

/// Splits a series at its jumps; either side has at least `least_seconds` points. A second that contains a jump
/// belongs to neither side and is left out.
pub(super) fn segments(points: &[&Point], least_seconds: usize) -> Vec<Segment> {
    let whole = Segment {
        start: 0,
        end: points.len(),
    };
    let least = Share::of(points, whole).times(MIN_SHARE);
    let mut found = Vec::new();
    let mut open = vec![whole];
    // The right part is pushed first, so that the left one is processed first and the result is in order.
    while let Some(segment) = open.pop() {
        match best(points, segment, least, least_seconds) {
            Some((left, right)) => open.extend([right, left]),
            None => found.push(segment),
        }
    }
    found
}

/// Share of a segment in the time and in the ops.
#[derive(Clone, Copy)]
struct Share {
    time: f64,
    ops: f64,
}

impl Share {
    fn of(points: &[&Point], segment: Segment) -> Share {
        let own = &points[segment.start..segment.end];
        Share {
            time: own.iter().map(|point| point.span_ns as f64).sum(),
            ops: own.iter().map(|point| ops(point)).sum(),
        }
    }

    fn times(self, factor: f64) -> Share {
        Share {
            time: self.time * factor,
            ops: self.ops * factor,
        }
    }

    fn reaches(self, least: Share) -> bool {
        self.time >= least.time || self.ops >= least.ops
    }
}

/// The extremes of some seconds.
#[derive(Clone, Copy)]
struct Extremes {
    slowest: f64,
    fastest: f64,
    fewest_ops: f64,
}

impl Extremes {
    const NONE: Extremes = Extremes {
        slowest: f64::INFINITY,
        fastest: 0.0,
        fewest_ops: f64::INFINITY,
    };

    fn with(self, point: &Point) -> Extremes {
        Extremes {
            slowest: self.slowest.min(point.iops),
            fastest: self.fastest.max(point.iops),
            fewest_ops: self.fewest_ops.min(ops(point)),
        }
    }
}

/// Ratio between the sides; 0 if the jump is not certain.
fn apart(left: Extremes, right: Extremes) -> f64 {
    let factor = (right.slowest / left.fastest).max(left.slowest / right.fastest);
    let counted = left.fewest_ops.min(right.fewest_ops) >= MIN_OPS;
    match counted && factor >= FACTOR {
        true => factor,
        false => 0.0,
    }
}

fn best(
    points: &[&Point],
    segment: Segment,
    least: Share,
    least_seconds: usize,
) -> Option<(Segment, Segment)> {
    let own = &points[segment.start..segment.end];
    let before: Vec<Extremes> = own
        .iter()
        .scan(Extremes::NONE, |seen, point| {
            *seen = seen.with(point);
            Some(*seen)
        })
        .collect();
    let mut after: Vec<Extremes> = own
        .iter()
        .rev()
        .scan(Extremes::NONE, |seen, point| {
            *seen = seen.with(point);
            Some(*seen)
        })
        .collect();
    after.reverse();
    let mut best: Option<(f64, usize, usize)> = None;
    for end in 1..own.len() {
        // The jump is at the start of second `end`, or within it.
        for start in [end, end + 1] {
            let (Some(right), left) = (after.get(start), before[end - 1]) else {
                continue;
            };
            let short = end < least_seconds || own.len() - start < least_seconds;
            if short || (start > end && !between(own[end].iops, left, *right)) {
                continue;
            }
            let factor = apart(left, *right);
            if factor > best.map_or(0.0, |best| best.0) {
                best = Some((factor, end, start));
            }
        }
    }
    let (_, end, start) = best?;
    let left = Segment {
        start: segment.start,
        end: segment.start + end,
    };
    let right = Segment {
        start: segment.start + start,
        end: segment.end,
    };
    let large = |side| Share::of(points, side).reaches(least);
    (large(left) && large(right)).then_some((left, right))
}

/// The rate of the second lies between those of both sides; the jump's position within it is interpolated.
fn between(rate: f64, left: Extremes, right: Extremes) -> bool {
    (left.fastest < rate && rate < right.slowest) || (right.fastest < rate && rate < left.slowest)
}
