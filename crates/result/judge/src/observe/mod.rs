//! Reduces a trial to an observation: figures, behaviour, facts, flags.

mod by_node;
mod facts;
mod figures;
mod file_operations;
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

pub use by_node::ByNode;
pub(crate) use facts::{FULLNESS, SETTLED, TRACED};
pub(crate) use figures::completion_ns;
pub(crate) use options::{default_option, known_default};

use crate::kind::kind;

/// The name of the dimension of jobs, which observations of [`observe_jobs`] have.
pub const JOB: &str = "job";
/// The name of the dimension of nodes, which observations of [`observe_nodes`] have.
pub const NODE: &str = "node";
/// The name of the dimension of the number of clones of all jobs.
const THREADS: &str = "threads";
/// The name of the dimension of what the jobs do.
const MODE: &str = "mode";

/// Reduces a trial of iodyno to an observation.
///
/// Dimensions are `run`, `configuration`, `workload` and `threads`, the number of all clones; and, if all jobs agree in
/// them, `mode` (what they do) and, for reads and writes at offsets, `rw`, `bs`, `engine`, `depth`, `direct`. Their
/// clones are `jobs`. Frames need no histograms: percentiles are those of the parts' merged ones. Flags are taken from
/// the trial's stored findings.
pub fn observe(
    run: &str,
    configuration: &Configuration,
    workload: &Workload,
    key: TrialKey,
    trial: &Trial,
) -> Observation {
    let loaded = workload.at(trial.probe);
    let workload = &*loaded;
    let summary = crate::summary(workload, trial);
    let kind = kind(workload, trial);
    let measured = figures::figures(workload, trial, &summary, kind);
    let mut dimensions = dimensions(run, &configuration.name, &workload.name);
    dimensions.extend(
        words::traits(workload)
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value.agreed()?))),
    );
    // For every kind of work, whatever its own terms are.
    let clones: u32 = workload.jobs.iter().map(|job| job.clones).sum();
    dimensions.insert(THREADS.to_owned(), clones.to_string());
    let modes = words::modes(workload).agreed();
    dimensions.extend(modes.map(|mode| (MODE.to_owned(), mode)));
    // The axes of a matrix have the user's names, which replace derived ones.
    for axes in [&configuration.dimensions, &workload.dimensions] {
        dimensions.extend(
            axes.iter()
                .map(|(name, value)| (name.clone(), value.clone())),
        );
    }
    let mut made = trial
        .parts
        .iter()
        .filter_map(|part| part.environment.made.as_ref());
    if let Some(made) = made.next() {
        dimensions.insert(Observation::INSTANCE.to_owned(), made.instance.to_string());
    }
    if let Some((search, load)) = workload.search.as_ref().zip(trial.probe) {
        let load = match load == 0.0 {
            true => "none".to_owned(),
            false => iodyno_units::significant(load).to_string(),
        };
        dimensions.insert(search.axis.name().to_owned(), load);
    }
    let family = workload.family.iter();
    dimensions.extend(family.map(|family| (Observation::FAMILY.to_owned(), family.clone())));
    Observation {
        dimensions,
        round: Some(key.round),
        started_unix_ms: Some(trial.started_unix_ms),
        again: configuration.again || workload.again,
        probe: trial.probe.filter(|_| workload.search.is_some()),
        unusable: unusable(trial),
        kind,
        primary: measured.primary,
        figures: measured.figures,
        withheld: measured.withheld,
        behaviour: summary.behaviour,
        facts: [
            facts::facts(workload, trial, kind),
            facts::made(configuration),
        ]
        .concat(),
        options_complete: true,
        flags: trial.findings.iter().filter_map(flag).collect(),
        source: None,
    }
}

/// Reduces a trial of iodyno to an observation of each job: its clones alone, with the dimension `job`. What concerns
/// the whole trial, such as the host and the findings, is the same in all of them.
pub fn observe_jobs(
    run: &str,
    configuration: &Configuration,
    workload: &Workload,
    key: TrialKey,
    trial: &Trial,
) -> Vec<Observation> {
    let mut names: Vec<String> = Vec::new();
    for (job, number) in workload.jobs.iter().zip(1..) {
        names.push(match names.contains(&job.name) {
            true => format!("{} (job {number})", job.name),
            false => job.name.clone(),
        });
    }
    let jobs = workload.jobs.iter().zip(names).zip(0..);
    jobs.map(|((job, name), index)| {
        let workload = Workload {
            jobs: vec![job.clone()],
            ..workload.clone()
        };
        let trial = of_job(trial, index);
        let mut observation = observe(run, configuration, &workload, key, &trial);
        observation.dimensions.insert(JOB.to_owned(), name);
        observation
    })
    .collect()
}

/// Reduces a trial of several nodes to an observation of each node: its part alone, with the dimension `node`. A trial
/// on one node gives one observation, with the node's name.
pub fn observe_nodes(
    run: &str,
    configuration: &Configuration,
    workload: &Workload,
    key: TrialKey,
    trial: &Trial,
) -> Vec<Observation> {
    let (by_node, places) = (ByNode::new(trial), 0..trial.parts.len());
    places
        .filter(|place| !trial.parts[*place].only_sampled() || trial.parts.len() == 1)
        .map(|place| {
            let own = by_node.part(place);
            let mut observation = observe(run, configuration, workload, key, &own);
            let name = trial.parts[place].node.clone();
            observation.dimensions.insert(NODE.to_owned(), name);
            observation
        })
        .collect()
}

/// What one job did in a trial, as if it were the only one.
fn of_job(trial: &Trial, job: u32) -> Trial {
    let mut trial = trial.clone();
    for part in &mut trial.parts {
        part.clones.retain(|clone| clone.job == job);
        part.clones.iter_mut().for_each(|clone| clone.job = 0);
        let own = |of: Option<u32>| of.is_none_or(|of| of == job);
        part.steps.retain(|step| own(step.job));
        for step in &mut part.steps {
            step.job = step.job.map(|_| 0);
        }
    }
    for frame in &mut trial.frames {
        frame.jobs.retain(|own| own.job == job);
        frame.jobs.iter_mut().for_each(|own| own.job = 0);
    }
    trial
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
    for (name, own) in [(THREADS, "jobs"), (MODE, "rw")] {
        if let (false, Some(value)) = (all.contains_key(name), all.get(own).cloned()) {
            all.insert(name.to_owned(), value);
        }
    }
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
        probe: None,
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
