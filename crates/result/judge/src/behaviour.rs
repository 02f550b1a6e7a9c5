//! Classifies the course of a trial: steady, drifting, or several regimes.
//!
//! First the series is divided into levels: at large sudden changes ([`jumps`]), then at the change points that
//! E-divisive finds. Each level is then tested for steadiness ([`steadiness`]). Trials with a fixed amount of
//! work and trials with a fixed duration are treated differently: for a fixed amount of work every change is
//! part of the result and is reported; a trial with a fixed duration may warm up and counts as steady from then
//! on.

mod jumps;
mod levels;
mod spread;
mod steadiness;
#[cfg(test)]
mod tests;

use iodyno_model::{Behaviour, Course, Kind, Point, Regime};

use levels::Segment;
use spread::deviation;
use steadiness::Answer;

/// A series with fewer whole seconds is not judged: SNIA's window has five rounds.
const MIN_SECONDS: usize = 5;

/// A warm-up lasts at most 1/N of the series, where N is this constant; a later change counts as a change.
const WARM_UP_PART: usize = 3;

/// Minimum number of seconds on either side of a jump. A fixed amount of work may be done within one second; in a
/// trial with a fixed duration, one stalled second is noise.
const MIN_SIDE: (usize, usize) = (1, 2);

/// In a shorter series the autocorrelation time cannot be estimated.
const MIN_FOR_CORRELATION: usize = 20;

/// Classifies a series.
///
/// Only whole points count: those at least half as long as the longest. With a fixed amount of work, the ops of the
/// other points (usually the last one) still count in the rates of the regimes. A change is a change of level:
///
/// - by a factor of 3 or more, where every second before the change is on one side and every second after it on
///   the other, each second has at least 1000 ops, and both parts have at least 1/20 of the time or of the ops.
///   One second on either side is enough for a fixed amount of work, two for a fixed duration;
/// - by 5 % or more of the mean, between segments of at least five seconds (E-divisive, α = 1, p ≤ 0.001). It
///   is a drift instead if a straight line fits the series better, or if four or more levels all move in one
///   direction.
///
/// A fixed amount of work with any change has regimes. A trial with a fixed duration is steady after its warm-up (at
/// most a third of the series) if all later levels lie within 20 % of their mean and within SNIA's limits. If the
/// seconds deviate by more than 25 % and independent noise can be the reason, the series is too short to decide.
pub fn behaviour(series: &[Point], kind: Kind) -> Behaviour {
    let Some(seconds) = Seconds::of(series) else {
        return Behaviour::default();
    };
    let (course, segments) = match kind {
        Kind::Finite => finite(&seconds),
        Kind::Timed | Kind::Unknown => timed(&seconds),
    };
    Behaviour {
        course,
        regimes: regimes(&seconds, &segments, kind),
        autocorrelation_time: correlation(&seconds.rates),
    }
}

/// The part of a series that is judged.
pub(crate) struct Seconds<'a> {
    all: Vec<&'a Point>,
    whole: Vec<&'a Point>,
    /// Ops per second of `whole`.
    rates: Vec<f64>,
}

impl<'a> Seconds<'a> {
    /// `None` if there is nothing to judge: no points, or no point with ops.
    fn of(series: &'a [Point]) -> Option<Seconds<'a>> {
        let sound = |point: &&Point| point.span_ns > 0 && point.iops.is_finite();
        let all: Vec<&Point> = series.iter().filter(sound).collect();
        let longest = all.iter().map(|point| point.span_ns).max()?;
        let whole: Vec<&Point> = all
            .iter()
            .copied()
            .filter(|point| point.span_ns.saturating_mul(2) >= longest)
            .collect();
        let rates: Vec<f64> = whole.iter().map(|point| point.iops).collect();
        rates
            .iter()
            .any(|rate| *rate > 0.0)
            .then_some(Seconds { all, whole, rates })
    }

    fn end_ns(&self) -> u64 {
        self.all.last().map_or(0, |point| end_ns(point))
    }
}

fn end_ns(point: &Point) -> u64 {
    point.start_ns.saturating_add(point.span_ns)
}

fn ops(point: &Point) -> f64 {
    point.iops * point.span_ns as f64 / 1e9
}

fn finite(seconds: &Seconds) -> (Course, Vec<Segment>) {
    let jumped = jumps::segments(&seconds.whole, MIN_SIDE.0);
    let segments: Vec<Segment> = jumped
        .into_iter()
        .flat_map(|segment| {
            let parts = levels::within(&seconds.rates, segment);
            match levels::drifts_rather(&seconds.rates, &parts) {
                true => vec![segment],
                false => parts,
            }
        })
        .collect();
    match segments.len() {
        1 => settled(seconds),
        _ => (Course::Regimes, segments),
    }
}

/// Classifies a series of one level: whether it is steady, and from when.
fn settled(seconds: &Seconds) -> (Course, Vec<Segment>) {
    let count = seconds.rates.len();
    let segment = |start| vec![Segment { start, end: count }];
    if count >= MIN_SECONDS {
        let from = steadiness::warm_up(&seconds.rates, count / WARM_UP_PART);
        let course = one_level(seconds, from);
        if matches!(course, Course::Steady { .. }) {
            return (course, segment(from));
        }
    }
    (one_level(seconds, 0), segment(0))
}

fn timed(seconds: &Seconds) -> (Course, Vec<Segment>) {
    let count = seconds.rates.len();
    if count < MIN_SECONDS {
        return settled(seconds);
    }
    let jumped = jumps::segments(&seconds.whole, MIN_SIDE.1);
    let sudden = jumped.len() > 1;
    let segments: Vec<Segment> = jumped
        .into_iter()
        .flat_map(|segment| levels::within(&seconds.rates, segment))
        .collect();
    let most = count / WARM_UP_PART;
    let warm = steadiness::warm_up(&seconds.rates, most);
    let later = segments.iter().map(|segment| segment.start);
    let later = later.filter(|start| *start > warm && *start <= most);
    for from in std::iter::once(warm).chain(later) {
        if count - from < MIN_SECONDS {
            break;
        }
        if levels::within_limits(&seconds.rates, &segments, from)
            && let course @ Course::Steady { .. } = one_level(seconds, from)
        {
            return (
                course,
                vec![Segment {
                    start: from,
                    end: count,
                }],
            );
        }
    }
    let drift = !sudden && levels::drifts_rather(&seconds.rates, &segments);
    match segments.len() > 1 && !drift {
        true => (Course::Regimes, segments),
        false => (
            one_level(seconds, 0),
            vec![Segment {
                start: 0,
                end: count,
            }],
        ),
    }
}

/// Classifies a series whose level does not change after `from`.
fn one_level(seconds: &Seconds, from: usize) -> Course {
    let count = seconds.rates.len();
    let too_short = Course::TooShort {
        seconds: u32::try_from(count).unwrap_or(u32::MAX),
    };
    if count - from < MIN_SECONDS {
        return too_short;
    }
    let found = steadiness::assess(&seconds.rates[from..]);
    match found.answer {
        Answer::TooFew => too_short,
        Answer::Steady => Course::Steady {
            from_ns: match from {
                0 => 0,
                from => seconds.whole[from].start_ns,
            },
            range_percent: found.range * 100.0,
        },
        Answer::Unsteady => Course::Drifting {
            rise_percent: found.rise * 100.0,
            range_percent: found.range * 100.0,
        },
    }
}

fn regimes(seconds: &Seconds, segments: &[Segment], kind: Kind) -> Vec<Regime> {
    let borders = levels::borders(&seconds.whole, segments);
    let mut regimes = Vec::with_capacity(segments.len());
    for (place, segment) in segments.iter().enumerate() {
        let start_ns = match place {
            0 => seconds.whole[segment.start].start_ns,
            _ => borders[place - 1],
        };
        let end_ns = borders.get(place).copied().unwrap_or(seconds.end_ns());
        let own = &seconds.whole[segment.start..segment.end];
        let short = seconds.all.iter().copied().filter(|point| {
            let inside = (start_ns..end_ns).contains(&point.start_ns);
            kind == Kind::Finite && inside && !is_whole(seconds, point)
        });
        let points = || own.iter().copied().chain(short.clone());
        let span: f64 = points().map(|point| point.span_ns as f64 / 1e9).sum();
        regimes.push(Regime {
            start_ns,
            end_ns,
            rate: points().map(ops).sum::<f64>() / span,
            deviation: deviation(&seconds.rates[segment.start..segment.end]),
        });
    }
    regimes
}

fn is_whole(seconds: &Seconds, point: &Point) -> bool {
    let place = seconds
        .whole
        .binary_search_by_key(&point.start_ns, |whole| whole.start_ns);
    place.is_ok()
}

fn correlation(rates: &[f64]) -> Option<f64> {
    if rates.len() < MIN_FOR_CORRELATION {
        return None;
    }
    let found = iodyno_stats::autocorrelation_time(rates).ok()?;
    Some(found.time)
}
