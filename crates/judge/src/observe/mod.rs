//! Reduces a trial to an observation: figures, behaviour, facts, flags.

mod facts;
mod figures;
mod file_operations;
mod names;
#[cfg(test)]
mod operations_tests;
mod options;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeMap;

use iodyno_model::{
    Configuration, Finding, FindingKind, Flag, ImportedTrial, Kind, Metric, Observation, Outcome,
    Point, Trial, TrialKey, Weight, Workload,
};

pub(crate) use facts::{FULLNESS, SETTLED};
pub(crate) use figures::completion_ns;
pub use names::{OWN_METRICS, is_own_metric};
pub(crate) use options::{default_option, known_default};

use crate::kind::kind;

/// Reduces a trial of iodyno to an observation.
///
/// Dimensions are `run`, `configuration` and `workload`, and, if all jobs agree in them, `rw`, `bs`, `engine`,
/// `depth`, `direct`; `jobs` is the number of all clones. Frames need no histograms: percentiles are those of
/// the parts' merged ones. Flags are taken from the trial's stored findings.
pub fn observe(
    run: &str,
    configuration: &Configuration,
    workload: &Workload,
    key: TrialKey,
    trial: &Trial,
) -> Observation {
    let summary = crate::summary(workload, trial);
    let kind = kind(workload, trial);
    let measured = figures::figures(workload, trial, &summary, kind);
    let mut dimensions = dimensions(run, &configuration.name, &workload.name);
    dimensions.extend(
        words::traits(workload)
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value.agreed()?))),
    );
    Observation {
        dimensions,
        round: Some(key.round),
        started_unix_ms: Some(trial.started_unix_ms),
        again: configuration.again || workload.again,
        unusable: unusable(trial),
        kind,
        primary: measured.primary,
        figures: measured.figures,
        withheld: measured.withheld,
        behaviour: summary.behaviour,
        facts: facts::facts(workload, trial, kind),
        options_complete: true,
        flags: trial.findings.iter().filter_map(flag).collect(),
        source: None,
    }
}

/// Reduces an imported trial to an observation. Its series is judged in the same way; it belongs to no round.
pub fn observe_imported(run: &str, trial: &ImportedTrial) -> Observation {
    let series: Vec<Point> = trial
        .series
        .iter()
        .map(|point| Point {
            start_ns: point.start_ns,
            span_ns: point.end_ns.saturating_sub(point.start_ns),
            iops: point.rate,
            bytes_per_s: 0.0,
        })
        .collect();
    let mut all = trial.dimensions.clone();
    all.extend(dimensions(run, &trial.configuration, &trial.workload));
    let primary = trial.primary.as_ref().and_then(|name| {
        let of_that_name = trial
            .figures
            .iter()
            .find(|figure| figure.metric.name == *name);
        let kept_back = trial
            .withheld
            .iter()
            .any(|withheld| withheld.metric == *name);
        match of_that_name {
            Some(figure) => Some(figure.metric.clone()),
            // Kept as the primary metric: without it the trial has none.
            None => kept_back.then(|| by_name(name)),
        }
    });
    Observation {
        dimensions: all,
        round: None,
        started_unix_ms: None,
        again: false,
        unusable: trial.unusable.clone(),
        kind: trial.kind,
        primary,
        figures: trial.figures.clone(),
        withheld: trial.withheld.clone(),
        behaviour: crate::behaviour(&series, trial.kind),
        facts: trial.facts.clone(),
        options_complete: trial.options_complete,
        flags: Vec::new(),
        source: Some(trial.at.clone()),
    }
}

/// A metric that has a name but no figure that gives its unit.
fn by_name(name: &str) -> Metric {
    match name.rsplit('.').next().unwrap_or(name) {
        Metric::IOPS => Metric::iops(name),
        Metric::BANDWIDTH => Metric::bandwidth(name),
        _ => Metric::time(name),
    }
}

fn dimensions(run: &str, configuration: &str, workload: &str) -> BTreeMap<String, String> {
    [
        (Observation::RUN, run),
        (Observation::CONFIGURATION, configuration),
        (Observation::WORKLOAD, workload),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect()
}

/// A figure of a cache is flagged and kept; the comparison decides whether it counts.
fn unusable(trial: &Trial) -> Option<String> {
    let outcome = match &trial.outcome {
        Outcome::Completed => None,
        Outcome::Interrupted(reason) => Some(format!("interrupted: {reason}")),
        Outcome::Failed(reason) => Some(format!("failed: {reason}")),
        Outcome::Refused(reason) => Some(format!("refused: {reason}")),
    };
    outcome.or_else(|| {
        let mut invalid = trial.findings.iter().filter(|finding| {
            finding.weight == Weight::Invalid && finding.kind != FindingKind::CacheServed
        });
        invalid.next().map(|finding| finding.text.clone())
    })
}

/// Findings that are represented elsewhere are not flags: steadiness is in the behaviour, short tails and
/// limited resolution are in the withheld metrics, an interruption is in `unusable`.
fn flag(finding: &Finding) -> Option<Flag> {
    let told = match finding.kind {
        FindingKind::Unsteady
        | FindingKind::TooShort
        | FindingKind::ResolutionLimited
        | FindingKind::Interrupted => true,
        FindingKind::StoreOnTarget => finding.weight < Weight::Warning,
        _ => false,
    };
    (!told).then(|| Flag {
        kind: finding.kind,
        weight: finding.weight,
        text: finding.text.clone(),
    })
}

/// Only a fixed amount of work has a completion.
fn is_finite(kind: Kind) -> bool {
    kind == Kind::Finite
}
