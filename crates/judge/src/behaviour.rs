//! How a trial behaved in its time: steady, drifting, or in several regimes.
//!
//! Levels come first: sudden changes that are beyond doubt even in a handful of seconds
//! ([`jumps`]), and within them the change points of E-divisive. What is one level is then asked whether
//! it is steady ([`steadiness`]). Work to be done and a time to fill are treated apart: of finite work every change is
//! part of the time it takes, and is told; a time to fill may warm up, and counts as steady from there on.

mod jumps;
mod levels;
mod steadiness;
#[cfg(test)]
mod tests;

use iodyno_model::{Behaviour, Course, Kind, Point, Regime};

use levels::Stretch;

/// Fewer whole seconds than this are not judged: SNIA's window of five rounds.
const LEAST_SECONDS: usize = 5;

/// A warm-up lasts at most one part in so many of the series; what changes later is a change.
const WARM_UP_PART: usize = 3;

/// A series too short for this has no autocorrelation time worth the name.
const LEAST_FOR_CORRELATION: usize = 20;

/// What a series is.
///
/// Only whole points count, those at least half as long as the longest; of finite work the ops of the others
/// (its end, mostly) are kept in the rates of the regimes. A change is one of level:
///
/// - by 3 × or more, with every second before it on one side and every second after it on the other, each
///   made of 1000 ops or more, and both parts at least a twentieth of the time or of the ops: found in two seconds;
/// - by 5 % or more of the mean between stretches of at least five seconds (E-divisive, α = 1, p ≤ 0.001),
///   unless a straight line explains the series better, or four levels and more all go one way: that is a drift.
///
/// Finite work with any change has regimes. Work with a time to fill is steady from its warm-up on, at most a third of the
/// series, if all levels from there on lie within 20 % of their mean and SNIA's limits are kept.
pub fn behaviour(series: &[Point], kind: Kind) -> Behaviour {
    let Some(seconds) = Seconds::of(series) else {
        return Behaviour::default();
    };
    let (course, stretches) = match kind {
        Kind::Finite => finite(&seconds),
        Kind::Timed | Kind::Unknown => timed(&seconds),
    };
    Behaviour {
        course,
        regimes: regimes(&seconds, &stretches, kind),
        autocorrelation_time: correlation(&seconds.rates),
    }
}

/// The part of a series that is judged.
pub(crate) struct Seconds<'a> {
    all: Vec<&'a Point>,
    whole: Vec<&'a Point>,
    /// Ops a second of `whole`.
    rates: Vec<f64>,
}

impl<'a> Seconds<'a> {
    /// `None` where there is nothing to judge: no points, or no ops in any of them.
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

fn finite(seconds: &Seconds) -> (Course, Vec<Stretch>) {
    let jumped = jumps::stretches(&seconds.whole);
    let stretches: Vec<Stretch> = jumped
        .into_iter()
        .flat_map(|stretch| {
            let parts = levels::within(&seconds.rates, stretch);
            match levels::drifts_rather(&seconds.rates, &parts) {
                true => vec![stretch],
                false => parts,
            }
        })
        .collect();
    match stretches.len() {
        1 => settled(seconds),
        _ => (Course::Regimes, stretches),
    }
}

/// A series of one level, steady from its warm-up on if at all.
fn settled(seconds: &Seconds) -> (Course, Vec<Stretch>) {
    let count = seconds.rates.len();
    let stretch = |start| vec![Stretch { start, end: count }];
    if count >= LEAST_SECONDS {
        let from = steadiness::warm_up(&seconds.rates, count / WARM_UP_PART);
        let course = one_level(seconds, from);
        if matches!(course, Course::Steady { .. }) {
            return (course, stretch(from));
        }
    }
    (one_level(seconds, 0), stretch(0))
}

fn timed(seconds: &Seconds) -> (Course, Vec<Stretch>) {
    let count = seconds.rates.len();
    if count < LEAST_SECONDS {
        return settled(seconds);
    }
    let jumped = jumps::stretches(&seconds.whole);
    let sudden = jumped.len() > 1;
    let stretches: Vec<Stretch> = jumped
        .into_iter()
        .flat_map(|stretch| levels::within(&seconds.rates, stretch))
        .collect();
    let most = count / WARM_UP_PART;
    let warm = steadiness::warm_up(&seconds.rates, most);
    let later = stretches.iter().map(|stretch| stretch.start);
    let later = later.filter(|start| *start > warm && *start <= most);
    for from in std::iter::once(warm).chain(later) {
        if count - from < LEAST_SECONDS {
            break;
        }
        if levels::within_limits(&seconds.rates, &stretches, from)
            && let course @ Course::Steady { .. } = one_level(seconds, from)
        {
            return (
                course,
                vec![Stretch {
                    start: from,
                    end: count,
                }],
            );
        }
    }
    let drift = !sudden && levels::drifts_rather(&seconds.rates, &stretches);
    match stretches.len() > 1 && !drift {
        true => (Course::Regimes, stretches),
        false => (
            one_level(seconds, 0),
            vec![Stretch {
                start: 0,
                end: count,
            }],
        ),
    }
}

/// The course of a series that does not change its level from `from` on.
fn one_level(seconds: &Seconds, from: usize) -> Course {
    let count = seconds.rates.len();
    if count - from < LEAST_SECONDS {
        return Course::TooShort {
            seconds: u32::try_from(count).unwrap_or(u32::MAX),
        };
    }
    let found = steadiness::assess(&seconds.rates[from..]);
    match found.steady {
        true => Course::Steady {
            from_ns: match from {
                0 => 0,
                from => seconds.whole[from].start_ns,
            },
            range_percent: found.range * 100.0,
        },
        false => Course::Drifting {
            rise_percent: found.rise * 100.0,
            range_percent: found.range * 100.0,
        },
    }
}

fn regimes(seconds: &Seconds, stretches: &[Stretch], kind: Kind) -> Vec<Regime> {
    let borders = levels::borders(&seconds.whole, stretches);
    let mut regimes = Vec::with_capacity(stretches.len());
    for (place, stretch) in stretches.iter().enumerate() {
        let start_ns = match place {
            0 => seconds.whole[stretch.start].start_ns,
            _ => borders[place - 1],
        };
        let end_ns = borders.get(place).copied().unwrap_or(seconds.end_ns());
        let own = &seconds.whole[stretch.start..stretch.end];
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
            deviation: deviation(&seconds.rates[stretch.start..stretch.end]),
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

/// Sample standard deviation; 0 for a single value.
fn deviation(values: &[f64]) -> f64 {
    let freedom = values.len().saturating_sub(1).max(1) as f64;
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / freedom).sqrt()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Median, and the deviation as the median distance from it tells it: neither is moved by outliers.
fn middle(values: &[f64]) -> (f64, f64) {
    let mut values = values.to_vec();
    let middle = median(&mut values);
    values
        .iter_mut()
        .for_each(|value| *value = (*value - middle).abs());
    // Of a normal distribution.
    (middle, 1.4826 * median(&mut values))
}

/// 0 for no values.
fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let half = values.len() / 2;
    match (values.len(), values.len() % 2) {
        (0, _) => 0.0,
        (_, 0) => (values[half - 1] + values[half]) / 2.0,
        _ => values[half],
    }
}

fn correlation(rates: &[f64]) -> Option<f64> {
    if rates.len() < LEAST_FOR_CORRELATION {
        return None;
    }
    let found = iodyno_stats::autocorrelation_time(rates).ok()?;
    Some(found.time)
}
