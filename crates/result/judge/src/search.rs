//! Searches for the highest load that keeps a bound, and for the knee of the curve of rate and latency.
//!
//! A search is a pure function of the trials so far: [`next_load`] is the load of the next trial, [`search_answer`]
//! what is known. First it measures the curve, then it halves the interval in which the bound is lost, and at last it
//! repeats the loads at both ends. It assumes that a higher load does not make the bound easier to keep, and nothing
//! about the distribution of the metric.

use iodyno_model::{
    Direction, Estimated, Job, Metric, Observation, Search, SearchAnswer, SearchAxis, SearchPoint,
    Work, Workload,
};

/// The interval is halved until it is at most this share of its upper end.
const RESOLUTION: f64 = 0.03;
/// A requested rate counts as sustained from this share on.
const SUSTAINED: f64 = 0.95;
/// Number of loads at which the curve of a rate is measured, up to the highest rate.
const STEPS: u32 = 8;
/// A doubled depth that raises the rate by less is beyond the knee.
const GAIN: f64 = 1.1;
/// Number of trials at each end that all keep, or all lose, the bound. At a load that keeps it in at most half of all
/// trials, all of 5 keep it with a probability of 1/32.
const AGREEING: usize = 5;
/// The level of the interval: 1/32 at each end, and as much for ends that were moved.
const LEVEL: f64 = 0.9;
/// Number of trials without the metric after which a load, or the search, is given up.
const MAX_UNKNOWN: usize = 2;

/// One trial of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    /// Its load; 0: no rate was requested.
    pub load: f64,
    /// What it attained in the unit of the load: the rate of each stream. On other axes its ops per second.
    pub attained: f64,
    /// The bounded metric, of the direction in which it is worst.
    pub value: Option<f64>,
    /// Mean latency, ns.
    pub latency_ns: Option<f64>,
    /// Whether it kept the bound; `None` if the trial does not have the metric.
    pub keeps: Option<bool>,
}

impl Probe {
    /// The trial of an observation; `None` if it has no load, or its figures do not count.
    pub fn of(search: &Search, workload: &Workload, observation: &Observation) -> Option<Probe> {
        let load = observation.probe?;
        if observation.unusable.is_some() {
            return None;
        }
        let total = observation.figure(Metric::IOPS)?.value;
        let attained = match search.axis {
            SearchAxis::Rate => total / f64::from(streams(workload).max(1)),
            SearchAxis::Depth | SearchAxis::Clones => total,
        };
        let bound = &search.until;
        let of_directions = || {
            let names =
                Direction::EVERY.map(|direction| format!("{}.{}", direction.name(), bound.metric));
            let figures = names
                .into_iter()
                .filter_map(|name| observation.figure(&name));
            let values = figures.map(|figure| figure.value);
            values.reduce(|one, other| match bound.below {
                true => one.max(other),
                false => one.min(other),
            })
        };
        let own = observation.figure(&bound.metric).map(|figure| figure.value);
        let value = own.or_else(of_directions);
        let sustained =
            search.axis != SearchAxis::Rate || load == 0.0 || attained >= SUSTAINED * load;
        let means = Direction::EVERY.map(|direction| format!("{}.mean", direction.name()));
        let mut means = means.iter().filter_map(|name| observation.figure(name));
        Some(Probe {
            load,
            attained,
            value,
            latency_ns: means.next().map(|figure| figure.value),
            keeps: match sustained {
                true => value.map(|value| bound.keeps(value)),
                false => Some(false),
            },
        })
    }
}

/// The number of streams that each have the requested rate: clones, by the directions in which they move data.
fn streams(workload: &Workload) -> u32 {
    let of_job = |job: &Job| match &job.work {
        Work::Blocks(_) => job.clones * job.work.moves().len().max(1) as u32,
        _ => job.clones,
    };
    workload.jobs.iter().map(of_job).sum()
}

/// The load of the next trial. After the answer it repeats the ends of the interval.
pub fn next_load(search: &Search, probes: &[Probe]) -> f64 {
    match State::of(search.axis, probes).step {
        Step::Probe(load) => load,
        Step::Done => {
            let state = State::of(search.axis, probes);
            let ends = [state.low, state.high].into_iter().flatten();
            let count = |load: f64| at(probes, load).count();
            ends.min_by_key(|load| count(*load)).unwrap_or(1.0)
        }
    }
}

/// What is known after these trials.
pub fn search_answer(
    (configuration, workload): (&str, &str),
    search: &Search,
    probes: &[Probe],
) -> SearchAnswer {
    let state = State::of(search.axis, probes);
    let complete = matches!(state.step, Step::Done) && !probes.is_empty();
    let whole = search.axis != SearchAxis::Rate;
    let value = match (state.low, state.high) {
        (Some(low), Some(high)) if !whole => Some((low + high) / 2.0),
        (low, _) => low,
    };
    let mut notes = Vec::new();
    let lost: Vec<&Probe> = state
        .high
        .map_or(Vec::new(), |high| at(probes, high).collect());
    let kept_otherwise =
        |probe: &&&Probe| probe.value.is_some_and(|value| search.until.keeps(value));
    let unsustained = lost.iter().filter(kept_otherwise).count();
    if !whole && unsustained * 2 > lost.len() {
        notes.push("above it, the requested rate is not sustained".to_owned());
    }
    if state.low.is_none() && complete {
        notes.push("no load that was tried keeps the bound".to_owned());
    } else if state.high.is_none() && complete {
        notes.push("every load that was tried keeps the bound".to_owned());
    }
    let unknown = probes.iter().filter(|probe| probe.keeps.is_none()).count();
    if unknown > 0 {
        let needed = search.ops_needed().map_or(String::new(), |ops| {
            format!(", which needs {ops} ops in a trial: run longer ones")
        });
        notes.push(format!(
            "{} without {}{needed}",
            iodyno_units::counted(unknown as u64, "trial"),
            search.until.metric
        ));
    }
    SearchAnswer {
        configuration: configuration.to_owned(),
        workload: workload.to_owned(),
        search: search.clone(),
        highest: value.map(|value| Estimated {
            value,
            interval: state.interval,
            level: LEVEL,
        }),
        knee: knee(probes, whole),
        trials: probes.len() as u32,
        complete,
        curve: curve(probes),
        notes,
    }
}

/// The next step of a search, and where it is.
struct State {
    step: Step,
    /// The highest load that keeps the bound, and the lowest one above it that does not.
    low: Option<f64>,
    high: Option<f64>,
    /// The loads at which the trials agree.
    interval: Option<(f64, f64)>,
}

enum Step {
    Probe(f64),
    Done,
}

impl State {
    fn of(axis: SearchAxis, probes: &[Probe]) -> State {
        let whole = axis != SearchAxis::Rate;
        let (low, high) = split(probes);
        let state = |step| State {
            step,
            low,
            high,
            interval: None,
        };
        let known = probes.iter().filter(|probe| probe.keeps.is_some()).count();
        if known == 0 && probes.len() > 2 * MAX_UNKNOWN {
            return state(Step::Done);
        }
        let next = match whole {
            true => next_of_doubled(probes),
            false => next_of_curve(probes),
        };
        if let Some(load) = next {
            return state(Step::Probe(load));
        }
        let (Some(low), Some(high)) = (low, high) else {
            let lowest = loads(probes).first().copied().unwrap_or(1.0);
            let halved = loads(probes).len() as u32 - STEPS.min(loads(probes).len() as u32);
            // At a lower rate there are even fewer ops.
            let measured = at(probes, lowest).any(|probe| probe.keeps.is_some());
            // A rate can be lower than the first step, a depth not lower than 1.
            return match low.is_none() && !whole && halved < 4 && measured {
                true => state(Step::Probe(lowest / 2.0)),
                false => state(Step::Done),
            };
        };
        let middle = match whole {
            true => ((low + high) / 2.0).floor(),
            false => (low + high) / 2.0,
        };
        let wide = high - low > RESOLUTION * high && (!whole || high - low > 1.0);
        if wide {
            let unknown = at(probes, middle).filter(|probe| probe.keeps.is_none());
            return match unknown.count() >= MAX_UNKNOWN {
                true => state(Step::Done),
                false => state(Step::Probe(middle)),
            };
        }
        let below = end(probes, low, high - low, whole, true);
        let above = end(probes, high, high - low, whole, false);
        let step = match (&below, &above) {
            (End::Agreed(_), End::Agreed(_)) => Step::Done,
            (End::Agreed(_), End::Open(load, _)) | (End::Open(load, _), End::Agreed(_)) => {
                Step::Probe(*load)
            }
            (End::Open(below, fewer), End::Open(above, more)) => match fewer <= more {
                true => Step::Probe(*below),
                false => Step::Probe(*above),
            },
        };
        State {
            interval: match (below, above) {
                (End::Agreed(below), End::Agreed(above)) => Some((below, above)),
                _ => None,
            },
            ..state(step)
        }
    }
}

/// Trials at one load; computed loads are equal up to rounding.
fn at(probes: &[Probe], load: f64) -> impl Iterator<Item = &Probe> {
    let same = move |probe: &&Probe| (probe.load - load).abs() <= 1e-6 * load.abs();
    probes.iter().filter(same)
}

/// The loads that were tried, ascending, each once. A trial without a requested rate has none.
fn loads(probes: &[Probe]) -> Vec<f64> {
    let mut loads: Vec<f64> = probes.iter().map(|probe| probe.load).collect();
    loads.retain(|load| *load > 0.0);
    loads.sort_by(f64::total_cmp);
    loads.dedup_by(|one, other| (*one - *other).abs() <= 1e-6 * other.abs());
    loads
}

/// The next load of the curve of a rate: first none, for the highest rate, then its eighths; above it only while the
/// bound is kept.
fn next_of_curve(probes: &[Probe]) -> Option<f64> {
    let free: Vec<f64> = at(probes, 0.0).map(|probe| probe.attained).collect();
    let Some(highest) = median(&free).filter(|highest| *highest > 0.0) else {
        return Some(0.0);
    };
    let step = |number: u32| highest * f64::from(number) / f64::from(STEPS);
    let tried = |number: &u32| at(probes, step(*number)).next().is_some();
    if let Some(number) = (1..STEPS).find(|number| !tried(number)) {
        return Some(step(number));
    }
    // Nothing sustains an eighth more than the highest rate.
    let (_, high) = split(probes);
    let beyond = (STEPS..=STEPS + 1).find(|number| !tried(number));
    beyond.filter(|_| high.is_none()).map(step)
}

/// The next of 1, 2, 4, …, while the bound is kept or the rate rises.
fn next_of_doubled(probes: &[Probe]) -> Option<f64> {
    let rate = |load: f64| {
        let rates: Vec<f64> = at(probes, load).map(|probe| probe.attained).collect();
        median(&rates)
    };
    let mut load = 1.0;
    loop {
        let own = rate(load)?;
        let lost = at(probes, load).any(|probe| probe.keeps == Some(false));
        let flat = load > 1.0 && rate(load / 2.0).is_some_and(|before| own < GAIN * before);
        if (lost && flat) || load >= Search::LARGEST {
            return None;
        }
        load *= 2.0;
        if rate(load).is_none() {
            return Some(load);
        }
    }
}

/// The loads beside the place that best divides trials that keep the bound from those that do not: the lowest of equal
/// ones.
fn split(probes: &[Probe]) -> (Option<f64>, Option<f64>) {
    let loads: Vec<f64> = loads(probes)
        .into_iter()
        .filter(|load| at(probes, *load).any(|probe| probe.keeps.is_some()))
        .collect();
    let agreeing = |place: usize| {
        let of = |load: &f64, kept: bool| {
            let known = at(probes, *load);
            known.filter(|probe| probe.keeps == Some(kept)).count()
        };
        let below: usize = loads[..place].iter().map(|load| of(load, true)).sum();
        let above: usize = loads[place..].iter().map(|load| of(load, false)).sum();
        below + above
    };
    let mut best = 0;
    for place in 1..=loads.len() {
        if agreeing(place) > agreeing(best) {
            best = place;
        }
    }
    let low = best.checked_sub(1).and_then(|place| loads.get(place));
    (low.copied(), loads.get(best).copied())
}

/// One end of the interval.
enum End {
    /// All trials at this load agree.
    Agreed(f64),
    /// The load to try next, and how often it was tried.
    Open(f64, usize),
}

/// The load nearest to `from`, in steps that double, at which enough trials keep the bound, or lose it.
fn end(probes: &[Probe], from: f64, step: f64, whole: bool, keeps: bool) -> End {
    let mut distance = 0.0;
    let mut load = from;
    loop {
        let known: Vec<bool> = at(probes, load).filter_map(|probe| probe.keeps).collect();
        let unknown = at(probes, load).count() - known.len();
        if known.iter().all(|kept| *kept == keeps) && unknown < MAX_UNKNOWN {
            return match known.len() >= AGREEING {
                true => End::Agreed(load),
                false => End::Open(load, known.len()),
            };
        }
        distance = 2.0 * distance + step;
        load = match keeps {
            true => from - distance,
            false => from + distance,
        };
        let smallest = if whole { 1.0 } else { from / 64.0 };
        if load < smallest {
            return End::Agreed(0.0);
        }
        if load > 64.0 * from {
            return End::Agreed(f64::INFINITY);
        }
    }
}

/// The load with the largest ratio of rate to latency ("power", Kleinrock 1979: "Power and deterministic rules of thumb
/// for probabilistic problems in computer communications"), from a parabola through it and its neighbours, which are
/// the interval. For a queue M/M/1 it is half of the highest rate.
fn knee(probes: &[Probe], whole: bool) -> Option<Estimated> {
    let power = |load: f64| {
        let powers = at(probes, load).filter_map(|probe| Some(probe.attained / probe.latency_ns?));
        median(&powers.collect::<Vec<f64>>())
    };
    // Whole numbers are tried at powers of two.
    let of = |load: f64| if whole { load.log2() } else { load };
    let points: Vec<(f64, f64)> = loads(probes)
        .into_iter()
        .filter_map(|load| Some((load, power(load)?)))
        .collect();
    let best =
        (0..points.len()).max_by(|one, other| points[*one].1.total_cmp(&points[*other].1))?;
    let after = points.get(best + 1)?;
    let estimated = |value, low, high| {
        Some(Estimated {
            value,
            interval: Some((low, high)),
            level: LEVEL,
        })
    };
    let Some(before) = best.checked_sub(1).map(|place| points[place]) else {
        return estimated(points[0].0, 0.0, after.0);
    };
    let [a, b, c] = [before, points[best], *after].map(|(load, power)| (of(load), power));
    // The vertex of the parabola through three points.
    let (left, right) = ((b.0 - a.0) * (b.1 - c.1), (b.0 - c.0) * (b.1 - a.1));
    let vertex = b.0 - ((b.0 - a.0) * left - (b.0 - c.0) * right) / (2.0 * (left - right));
    let vertex = match vertex.is_finite() {
        true => vertex.clamp(a.0, c.0),
        false => b.0,
    };
    let value = if whole { vertex.exp2().round() } else { vertex };
    estimated(value, before.0, after.0)
}

fn curve(probes: &[Probe]) -> Vec<SearchPoint> {
    let points = loads(probes).into_iter().map(|load| {
        let middle = |value: fn(&Probe) -> Option<f64>| {
            median(&at(probes, load).filter_map(value).collect::<Vec<f64>>())
        };
        let count = |keeps| {
            at(probes, load)
                .filter(|probe| probe.keeps == keeps)
                .count() as u32
        };
        SearchPoint {
            load,
            kept: count(Some(true)),
            lost: count(Some(false)),
            value: middle(|probe| probe.value),
            attained: middle(|probe| Some(probe.attained)),
        }
    });
    points.collect()
}

fn median(values: &[f64]) -> Option<f64> {
    let sorted = iodyno_stats::Sample::new(values).ok()?;
    Some(sorted.median())
}

#[cfg(test)]
mod tests;
