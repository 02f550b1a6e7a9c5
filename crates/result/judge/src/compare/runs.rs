//! Trials of separate runs: one value per run, and what prevents a verdict.
//!
//! Runs at different times differ more than the trials within one run: the host drifts, files are at other locations,
//! caches are in another state. The trials of a run share all of that, so the unit of such a comparison is the run,
//! which is the highest level of repetition (Kalibera & Jones, "Rigorous benchmarking in reasonable time", ISMM
//! 2013). The value of a run is the mean of its logarithms.

use std::collections::{HashMap, HashSet};

use iodyno_model::Observation;
use iodyno_stats::geometric_mean;
use iodyno_units::counted;

use super::sample::{Two, Values};
use super::sides::{Counted, Gathered};

/// Minimum number of runs per side: two are too few to measure the variation between runs.
const FEWEST: usize = 3;

/// The number that the remedies name: with three of each, no p can be below 5 %.
const ENOUGH: usize = 4;

/// The largest distance between the mean places in time of the two sides, in its standard deviations over random
/// orders. A drift moves the means apart and widens the spread of each side: up to this distance, the spread outweighs
/// it, and a drift makes a difference rarer.
const BALANCED: f64 = 1.0;

/// The values of separate runs, or the reasons against a verdict.
pub(super) struct Separate {
    /// By workload: one value per run of both sides. `None` if the runs are too few, or values have no logarithm.
    pub(super) values: Option<Vec<Values>>,
    /// Why there is no verdict, with the remedy; empty if there is one.
    pub(super) reasons: Vec<String>,
    /// A remark if the times of the runs are not known.
    pub(super) note: Option<String>,
}

/// The runs of a side.
struct Runs {
    /// Whether any of its trials was imported.
    imported: bool,
    /// The start of each run, ms since 1970; `None` if one is unknown.
    begun: Option<Vec<f64>>,
    /// By workload: the value of each run; `None` if a value has no logarithm.
    values: Option<Vec<Vec<f64>>>,
    count: usize,
}

/// Reduces trials to runs. Trials of one run, and imported ones of one file, are one run.
pub(super) fn separate(both: &[&Two], columns: (&str, &str)) -> Separate {
    let baseline = runs(&both.iter().map(|two| two.baseline).collect::<Vec<_>>());
    let candidate = runs(&both.iter().map(|two| two.candidate).collect::<Vec<_>>());
    let imported = baseline.imported || candidate.imported;
    let (of_baseline, of_candidate) = (baseline.count, candidate.count);
    let unknown = "in what order in time the trials were made is not known";
    let mut found = Separate {
        values: None,
        reasons: Vec::new(),
        note: None,
    };
    if of_baseline.min(of_candidate) < FEWEST {
        let (what, unit, lead) = match imported {
            true => ("imported", "file", format!("{unknown}, and ")),
            false => ("separate runs", "run", String::new()),
        };
        let counts = format!(
            "{} of {} and {} of {}",
            counted(of_baseline as u64, unit),
            columns.0,
            of_candidate,
            columns.1
        );
        found.reasons.push(format!(
            "{what}: {lead}{counts} are too few to measure the variation between runs; compare both in the rounds of one \
             run, or at least {ENOUGH} {unit}s of each"
        ));
        return found;
    }
    let (Some(before), Some(after)) = (baseline.values, candidate.values) else {
        let reason = "separate runs are compared by the logarithms of their values, and a value is 0 or less";
        found.reasons.push(reason.to_owned());
        return found;
    };
    found.values = Some(before.into_iter().zip(after).collect());
    match (baseline.begun, candidate.begun) {
        (Some(before), Some(after)) => {
            let places = [places(&before, &after), (before, after)];
            let apart = places.map(|(before, after)| distance(&before, &after));
            let most = apart.into_iter().max_by(|a, b| a.abs().total_cmp(&b.abs()));
            if let Some(most) = most.filter(|most| most.abs() > BALANCED) {
                let when = if most > 0.0 { "later" } else { "earlier" };
                found.reasons.push(format!(
                    "separate runs: those of {} were on average {when} than those of {}, where a drift of the host would \
                     look the same; compare both in the rounds of one run, or alternate as many runs of each",
                    columns.1, columns.0
                ));
            }
        }
        _ => {
            found.note = Some(format!(
                "{unknown}: a drift of the host would look the same"
            ))
        }
    }
    found
}

/// The places of all runs in the order of their starts, by side; equal starts share a place.
fn places(before: &[f64], after: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let all = [before, after].concat();
    let place = |start: &f64| {
        let earlier = all.iter().filter(|other| *other < start).count() as f64;
        let equal = all.iter().filter(|other| *other == start).count() as f64;
        earlier + equal / 2.0
    };
    let of = |side: &[f64]| side.iter().map(place).collect();
    (of(before), of(after))
}

/// The mean of `after` minus that of `before`, in its standard deviations over random orders.
fn distance(before: &[f64], after: &[f64]) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let all = [before, after].concat();
    let centre = mean(&all);
    let squares: f64 = all.iter().map(|value| (value - centre).powi(2)).sum();
    let variance = squares / (all.len() as f64 - 1.0);
    let each = 1.0 / before.len() as f64 + 1.0 / after.len() as f64;
    match variance > 0.0 {
        true => (mean(after) - mean(before)) / (variance * each).sqrt(),
        false => 0.0,
    }
}

/// A run's name, and the file of an imported one.
type Run<'a> = (&'a str, Option<&'a str>);

/// The runs in which every workload of a side has trials, in the order of their appearance.
fn runs<'a>(workloads: &[&Gathered<'a>]) -> Runs {
    let by_run: Vec<HashMap<Run, Vec<&Counted>>> = workloads
        .iter()
        .map(|side| {
            let mut found: HashMap<Run, Vec<&Counted>> = HashMap::new();
            for counted in &side.counted {
                found.entry(run(counted)).or_default().push(counted);
            }
            found
        })
        .collect();
    let mut seen = HashSet::new();
    let first = workloads.iter().take(1).flat_map(|side| &side.counted);
    let kept: Vec<Run> = first
        .map(run)
        .filter(|run| seen.insert(*run) && by_run.iter().all(|runs| runs.contains_key(run)))
        .collect();
    let begun = |run: &Run<'a>| {
        let trials = by_run.iter().flat_map(|runs| &runs[run]);
        let begun = trials.map(|counted| counted.observation.started_unix_ms);
        begun.min().flatten().map(|ms| ms as f64)
    };
    let value = |trials: &Vec<&Counted>| {
        let values: Vec<f64> = trials.iter().map(|counted| counted.value).collect();
        geometric_mean(&values).ok()
    };
    let trials = || workloads.iter().flat_map(|side| &side.counted);
    Runs {
        imported: trials().any(|counted| counted.observation.source.is_some()),
        begun: kept.iter().map(begun).collect(),
        values: by_run
            .iter()
            .map(|runs| kept.iter().map(|run| value(&runs[run])).collect())
            .collect(),
        count: kept.len(),
    }
}

fn run<'a>(counted: &Counted<'a>) -> Run<'a> {
    let observation = counted.observation;
    let source = observation.source.as_ref();
    (
        observation.dimension(Observation::RUN),
        source.map(|at| at.source.as_str()),
    )
}
