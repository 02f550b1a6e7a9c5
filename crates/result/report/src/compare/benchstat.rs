//! Text that Go's benchstat reads: one line per trial.
//!
//! benchstat computes medians, intervals and p itself; for the same trials they equal those of an unpaired comparison.
//! It does not accept: a key with capitals or blanks (it is not recognised as a key), a name with blanks (it becomes
//! two fields) or with an end like `-4096` (read as GOMAXPROCS), a key that varies within a row (it warns that results
//! vary). Parameters are therefore part of the name as `/key=value`, and the compared dimension is a key line. Another
//! dimension is a key line if all trials have the same value, and is omitted otherwise.

use std::collections::BTreeMap;

use iodyno_model::{Better, Figure, Metric, Observation, Question, Unit};

use crate::style::sanitize;
use iodyno_model::ordered::distinct;

/// The trials that count, in benchstat's format, those of the baseline first. If the question names no metrics, each
/// trial has its default metric only.
///
/// `benchstat -col config FILE` compares configurations. For another column dimension of the question the key is its
/// name (`benchstat -col run FILE`). The first line contains this command. Ends with a newline.
pub fn benchstat(observations: &[Observation], question: &Question) -> String {
    let asked: Vec<&Observation> = observations
        .iter()
        .filter(|observation| !observation.again && admits(question, observation))
        .collect();
    let counting = |observation: &&&Observation| observation.unusable.is_none();
    let trials: Vec<&Observation> = asked.iter().filter(counting).copied().collect();
    let column = key(&question.columns);
    let mut text = format!("# benchstat -col {column} FILE\n");
    for (dimension, value) in shared(&trials, question) {
        text += &format!("{}: {value}\n", key(&dimension));
    }
    text += &units(&trials, question);
    let raw: Vec<RawName> = trials
        .iter()
        .map(|trial| raw_name(trial, question))
        .collect();
    let rows = distinct(raw.iter());
    let mut names = Distinct::new();
    let mut headings = Distinct::new();
    for value in columns(&asked, question) {
        let here = |trial: &Observation| trial.dimension(&question.columns) == value;
        text += &format!(
            "{column}: {}\n",
            headings.of(&value, |value| line_value(value))
        );
        let left_out = asked.iter().filter(|observation| here(observation));
        for why in left_out.filter_map(|observation| observation.unusable.as_ref()) {
            text += &format!("# left out: {}\n", sanitize(why));
        }
        for row in &rows {
            let trials = trials.iter().zip(&raw);
            for (trial, _) in trials.filter(|(trial, raw)| raw == row && here(trial)) {
                text += &line(&names.of(*row, name), &figures(trial, question));
            }
        }
    }
    text
}

/// Whether an observation matches the question's filter: for each dimension, any of the given values.
fn admits(question: &Question, observation: &Observation) -> bool {
    question.only.iter().all(|(dimension, _)| {
        let mut values = question.only.iter().filter(|(name, _)| name == dimension);
        values.any(|(_, value)| observation.dimension(dimension) == value)
    })
}

/// Values of the compared dimension: the baseline, then the others in the order of the observations.
fn columns(observations: &[&Observation], question: &Question) -> Vec<String> {
    let values = observations
        .iter()
        .map(|it| it.dimension(&question.columns).to_owned());
    let mut values = distinct(values);
    let baseline = question.baseline.as_ref();
    let index = baseline.and_then(|name| values.iter().position(|value| value == name));
    if let Some(index) = index {
        values[..=index].rotate_right(1);
    }
    values
}

/// Dimensions with the same value in all trials that are neither compared nor part of the names.
fn shared(trials: &[&Observation], question: &Question) -> Vec<(String, String)> {
    let Some(first) = trials.first() else {
        return Vec::new();
    };
    let named = |dimension: &str| {
        dimension == question.columns
            || dimension == Observation::WORKLOAD
            || question.rows.iter().any(|row| row == dimension)
    };
    let all_equal = |dimension: &str, value: &str| {
        let mut others = trials.iter();
        others.all(|trial| trial.dimension(dimension) == value)
    };
    first
        .dimensions
        .iter()
        .filter(|(name, value)| !named(name) && !value.is_empty() && all_equal(name, value))
        .map(|(name, value)| (name.clone(), line_value(value)))
        .collect()
}

/// The parts of a row's name: the name itself, then dimensions with their values.
type RawName = (String, Vec<(String, String)>);

fn raw_name(trial: &Observation, question: &Question) -> RawName {
    let mut dimensions: Vec<&str> = question.rows.iter().map(String::as_str).collect();
    dimensions.retain(|dimension| *dimension != question.columns);
    // Several workloads can form one row of a comparison; for benchstat each is a separate row.
    if question.columns != Observation::WORKLOAD {
        dimensions.retain(|dimension| *dimension != Observation::WORKLOAD);
        dimensions.insert(0, Observation::WORKLOAD);
    }
    let mut values = dimensions
        .into_iter()
        .map(|dimension| (dimension, trial.dimension(dimension).to_owned()));
    let (_, bare) = values.next().unwrap_or_default();
    let named = values.filter(|(_, value)| !value.is_empty());
    (
        bare,
        named
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    )
}

/// Texts converted to benchstat's form; different texts remain different.
struct Distinct<T> {
    known: Vec<(T, String)>,
}

impl<T: PartialEq + Clone> Distinct<T> {
    fn new() -> Distinct<T> {
        Distinct { known: Vec::new() }
    }

    fn of(&mut self, raw: &T, form: fn(&T) -> String) -> String {
        if let Some((_, text)) = self.known.iter().find(|(known, _)| known == raw) {
            return text.clone();
        }
        let plain = form(raw);
        let taken = |text: &String| self.known.iter().any(|(_, known)| known == text);
        let mut text = plain.clone();
        let mut number = 2;
        while taken(&text) {
            text = format!("{plain}_{number}");
            number += 1;
        }
        self.known.push((raw.clone(), text.clone()));
        text
    }
}

/// A name that benchstat accepts unchanged, without parameters.
pub(crate) fn benchmark_name(name: &str) -> String {
    self::name(&(name.to_owned(), Vec::new()))
}

fn name((bare, named): &RawName) -> String {
    let mut name = word(bare);
    for (dimension, value) in named {
        let part = |text: &str| word(text).replace('/', "_");
        name += &format!("/{}={}", part(dimension).replace('=', "_"), part(value));
    }
    let digits = name.chars().rev().take_while(char::is_ascii_digit).count();
    let head = name.len() - digits;
    if digits > 0 && name[..head].ends_with('-') {
        name.replace_range(head - 1..head, "_");
    }
    name
}

/// A text converted to one field of a line.
fn word(text: &str) -> String {
    let blank = |character: char| character.is_whitespace() || character.is_control();
    let word: String = text
        .chars()
        .map(|character| if blank(character) { '_' } else { character })
        .collect();
    match word.is_empty() {
        true => "_".to_owned(),
        false => word,
    }
}

/// A dimension's name converted to a key that needs no quotes in benchstat's `-col`.
fn key(dimension: &str) -> String {
    if dimension == Observation::CONFIGURATION {
        return "config".to_owned();
    }
    let key: String = dimension
        .chars()
        .map(|character| match character.to_ascii_lowercase() {
            character if character.is_ascii_lowercase() || character.is_ascii_digit() => character,
            _ => '-',
        })
        .collect();
    match key.starts_with(|character: char| character.is_ascii_lowercase()) {
        true => key,
        false => format!("x{key}"),
    }
}

/// A value that extends to the end of its line. It is never empty, because an empty value deletes the key.
fn line_value(value: &str) -> String {
    match sanitize(value).trim() {
        "" => "(none)".to_owned(),
        value => value.to_owned(),
    }
}

/// The metric name that selects all metrics of a trial.
const ALL: &str = "all";

fn figures<'a>(trial: &'a Observation, question: &Question) -> Vec<&'a Figure> {
    let figures: Vec<&Figure> = match (question.metrics.as_slice(), &trial.primary) {
        ([], Some(primary)) => trial.figure(&primary.name).into_iter().collect(),
        ([], None) => trial.figures.first().into_iter().collect(),
        (names, _) if names.iter().any(|name| name == ALL) => trial.figures.iter().collect(),
        (names, _) => names.iter().filter_map(|name| trial.figure(name)).collect(),
    };
    let finite = figures
        .into_iter()
        .filter(|figure| figure.value.is_finite());
    finite.collect()
}

fn line(name: &str, figures: &[&Figure]) -> String {
    if figures.is_empty() {
        return String::new();
    }
    let figures = figures
        .iter()
        .map(|figure| format!(" {} {}", figure.value, unit(&figure.metric)));
    format!("Benchmark{name} 1{}\n", figures.collect::<String>())
}

/// `Unit read-p99-ns better=lower`: one line for each unit.
fn units(trials: &[&Observation], question: &Question) -> String {
    let mut known: BTreeMap<String, Better> = BTreeMap::new();
    for figure in trials.iter().flat_map(|trial| figures(trial, question)) {
        known
            .entry(unit(&figure.metric))
            .or_insert(figure.metric.better);
    }
    let lines = known.iter().map(|(unit, better)| {
        let better = super::words::better(*better);
        format!("Unit {unit} better={better}\n")
    });
    lines.collect()
}

/// `iops`: `ops/sec`; `read.bandwidth`: `read-B/s`; `write.p99`: `write-p99-ns`.
fn unit(metric: &Metric) -> String {
    let name = word(&metric.name).replace('.', "-");
    let (usual, counted) = match &metric.unit {
        Unit::OpsPerSecond => (Some(Metric::IOPS), "ops/sec".to_owned()),
        Unit::BytesPerSecond => (Some(Metric::BANDWIDTH), "B/s".to_owned()),
        Unit::Nanos => (None, "ns".to_owned()),
        Unit::Other(unit) if unit.is_empty() => return name,
        Unit::Other(unit) => (None, word(unit)),
    };
    if matches!(&metric.unit, Unit::Other(_)) && counted.starts_with(&name) {
        return counted;
    }
    // The usual suffix of the name repeats the unit.
    let prefix = match usual.and_then(|usual| name.strip_suffix(usual)) {
        Some(prefix) => prefix.trim_end_matches('-'),
        None => &name,
    };
    match prefix {
        "" => counted,
        prefix => format!("{prefix}-{counted}"),
    }
}

#[cfg(test)]
mod tests;
