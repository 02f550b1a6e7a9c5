//! The trials, metrics and sides that a row can refer to.

use std::collections::BTreeSet;

use iodyno_model::{Claim, Figure, Observation, Unit};

use crate::compare::grouping::distinct;

/// The row's label without the prefix that its program adds.
pub(super) fn label(claim: &Claim) -> &str {
    bare(&claim.workload)
}

fn bare(name: &str) -> &str {
    let name = name.strip_prefix("Benchmark").unwrap_or(name);
    name.strip_prefix("fsbench/").unwrap_or(name)
}

/// Whether a trial has a value for a key. A key that the trial does not have excludes nothing.
pub(super) fn has(o: &Observation, key: &str, value: &str) -> bool {
    let own = match key {
        "config" | Observation::CONFIGURATION => Observation::CONFIGURATION,
        other => other,
    };
    let imported = format!("imported {key}");
    let part = format!("/{key}");
    let mut known = [own, imported.as_str(), part.as_str()]
        .into_iter()
        .filter_map(|name| o.dimensions.get(name).map(String::as_str))
        .chain(
            o.facts
                .iter()
                .filter(|fact| fact.name == key)
                .map(|fact| fact.value.as_str()),
        )
        .peekable();
    known.peek().is_none() || known.any(|known| known == value)
}

/// The trials named by a row's label.
pub(super) fn matching<'a>(
    claim: &Claim,
    claims: &[Claim],
    pool: &[&'a Observation],
) -> Vec<&'a Observation> {
    let subject = &claim.subject;
    let name = match subject.benchmark.is_empty() {
        true => label(claim),
        false => &subject.benchmark,
    };
    // Parameters that other labels of the table have and this one lacks.
    let absent: BTreeSet<&String> = claims
        .iter()
        .filter(|other| other.at.source == claim.at.source)
        .flat_map(|other| other.subject.dimensions.keys())
        .filter(|key| !subject.dimensions.contains_key(*key))
        .collect();
    let named = |o: &&&Observation| {
        bare(o.dimension(Observation::WORKLOAD)) == name
            && subject.dimensions.iter().all(|(key, value)| {
                o.dimension(key) == value || o.dimension(&format!("/{key}")) == value
            })
            && !absent.iter().any(|key| o.dimensions.contains_key(*key))
    };
    let found: Vec<&Observation> = pool.iter().filter(named).copied().collect();
    if !found.is_empty() {
        return found;
    }
    // A label can consist of values of any dimension: `Read 4k`.
    let words: Vec<&str> = label(claim).split_whitespace().collect();
    let worded = |o: &&&Observation| {
        words
            .iter()
            .all(|word| o.dimensions.values().any(|value| bare(value) == *word))
    };
    pool.iter().filter(worded).copied().collect()
}

/// The metrics in the claim's unit, each with the conversion factor: first as measured, then those derived from
/// others.
pub(super) fn metrics(trials: &[&Observation], claim: &Claim) -> Vec<(String, f64)> {
    let named = &claim.subject.metrics;
    let scale_of = |figure: &Figure| match named.is_empty() {
        true => (figure.metric.unit == unit(claim)).then_some(1.0),
        false => {
            let by_name = named.iter().find(|(name, _)| *name == figure.metric.name);
            let derived = figure.derived.is_some() && figure.metric.unit == unit(claim);
            by_name
                .map(|(_, scale)| *scale)
                .or(derived.then(|| named[0].1))
        }
    };
    let mut found: Vec<(bool, String, f64)> = Vec::new();
    for figure in trials.iter().flat_map(|o| &o.figures) {
        let known = found.iter().any(|(derived, name, _)| {
            *derived == figure.derived.is_some() && *name == figure.metric.name
        });
        if let (false, Some(scale)) = (known, scale_of(figure)) {
            found.push((figure.derived.is_some(), figure.metric.name.clone(), scale));
        }
    }
    found.sort_by_key(|(derived, ..)| *derived);
    let mut metrics: Vec<(String, f64)> = found
        .into_iter()
        .map(|(_, name, scale)| (name, scale))
        .collect();
    metrics.dedup();
    metrics
}

/// The unit in the head of an older table.
fn unit(claim: &Claim) -> Unit {
    match claim.unit.as_str() {
        "ops/sec" | "ops/s" | "op/s" => Unit::OpsPerSecond,
        "MB/s" | "B/s" | "speed" => Unit::BytesPerSecond,
        "ns/op" | "time/op" | "ns" => Unit::Nanos,
        other => Unit::Other(other.to_owned()),
    }
}

/// A side of a claim: its name and its trials.
pub(super) type Trials<'a> = (String, Vec<&'a Observation>);

/// The possible divisions of the trials into the claim's sides.
pub(super) fn partitions<'a>(
    claim: &Claim,
    trials: &[&'a Observation],
    pool: &[&'a Observation],
) -> Vec<Vec<Trials<'a>>> {
    let count = claim.sides.len();
    let mut found = Vec::new();
    let columns = &claim.subject.columns;
    let below = |texts: &[String]| -> Vec<&'a Observation> {
        let stands_below = |o: &&&Observation| texts.iter().all(|text| is_called(o, text));
        trials.iter().filter(stands_below).copied().collect()
    };
    if columns.len() == count && columns.iter().all(|texts| !texts.is_empty()) {
        let sides: Vec<Trials> = columns
            .iter()
            .map(|texts| (texts.join(" "), below(texts)))
            .collect();
        if sides.iter().any(|(_, side)| !side.is_empty()) {
            return vec![sides];
        }
    }
    type Of = fn(&Observation) -> Option<&String>;
    let by: [Of; 2] = [
        |o| o.dimensions.get(Observation::CONFIGURATION),
        |o| o.source.as_ref().map(|at| &at.source),
    ];
    // One side is one configuration, even if a file contains several.
    let by = if count == 1 { &by[..1] } else { &by[..] };
    for of in by {
        let parted = [trials, pool]
            .map(|some| distinct(some.iter().filter_map(|o| of(o))))
            .into_iter()
            .find(|names| names.len() == count);
        let Some(names) = parted else { continue };
        let side = |name: &String| {
            let mut side = trials.to_vec();
            side.retain(|o| of(o) == Some(name));
            side
        };
        found.push(
            names
                .iter()
                .map(|name| (name.clone(), side(name)))
                .collect(),
        );
    }
    found
}

/// Whether a column's head names a trial: by its configuration, another dimension, or its file.
fn is_called(o: &Observation, text: &str) -> bool {
    let of_file = o.source.as_ref().is_some_and(|at| {
        let file = at.source.as_str();
        let after = |end: &str| {
            file.strip_suffix(end)
                .is_some_and(|folder| folder.is_empty() || folder.ends_with('/'))
        };
        after(text) || text.rsplit('/').next().is_some_and(after)
    });
    of_file || o.dimensions.values().any(|value| value == text)
}
