//! Go's benchmark format: `key: value` lines, `Unit` lines, `BenchmarkName/k=v-8 N value unit …`.
//!
//! Each benchmark line is a trial. As in benchstat, keys apply to the lines below them, and a number after the last
//! hyphen is GOMAXPROCS. The configuration is `/config=` in the name, otherwise the key `config`; if both exist, the
//! key becomes a dimension.

use std::collections::{BTreeMap, HashMap};

use iodyno_model::{Better, Fact, FactClass, Figure, ImportedTrial, Kind, Metric};

use super::super::extract::Extract;
use super::super::fsbench::{of_cycles, of_line};
use super::super::lines::Lines;
use super::units;

/// The name of the form in results.
const FORM: &str = "go benchmark";
/// Keys and parts of names that name the configuration.
const CONFIGURATION: [&str; 2] = ["config", "configuration"];
/// The key that names the workload if the benchmark's own name is `_`.
const WORKLOAD: &str = "workload";
/// Keys that describe the host. All other keys, including `pkg`, distinguish trials as parts of a name do.
const HOST: [&str; 5] = ["goos", "goarch", "cpu", "kernel", "host"];

/// Reads all results of this form.
pub(super) fn read<'l>(lines: &'l Lines<'_>) -> impl Iterator<Item = Extract> + 'l {
    let mut keys = Keys::of(lines);
    lines.iter().filter_map(move |(number, text)| {
        if text.starts_with("Benchmark") {
            return keys.benchmark(lines, number, text);
        }
        keys.note(text);
        None
    })
}

/// The keys and units in force for a benchmark line.
#[derive(Debug, Clone, Default)]
pub(crate) struct Keys {
    values: BTreeMap<String, String>,
    directions: HashMap<String, Better>,
}

impl Keys {
    /// The state before the first line of a text.
    pub(crate) fn of(lines: &Lines<'_>) -> Keys {
        Keys {
            values: BTreeMap::new(),
            directions: directions(lines),
        }
    }

    /// Applies a line `key: value` to the lines below it; ignores any other line.
    pub(crate) fn note(&mut self, text: &str) {
        match key(text) {
            Some((key, "")) => {
                self.values.remove(key);
            }
            Some((key, value)) => {
                self.values.insert(key.to_owned(), value.to_owned());
            }
            None => {}
        }
    }

    /// Parses a benchmark line into a trial, or returns the reason why it is not valid; `None` for other lines.
    pub(crate) fn benchmark(&self, lines: &Lines<'_>, number: u32, text: &str) -> Option<Extract> {
        benchmark(lines, number, text.trim(), &self.values, &self.directions)
    }
}

/// Which direction is better, by unit, from the `Unit` lines of the whole text.
fn directions(lines: &Lines<'_>) -> HashMap<String, Better> {
    let mut directions = HashMap::new();
    for (_, text) in lines.iter() {
        if !text.trim_start().starts_with("Unit") {
            continue;
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let ["Unit", unit, settings @ ..] = &words[..] else {
            continue;
        };
        let better = match settings
            .iter()
            .find_map(|word| word.strip_prefix("better="))
        {
            Some("higher") => Better::Higher,
            Some("lower") => Better::Lower,
            _ => continue,
        };
        directions.insert((*unit).to_owned(), better);
    }
    directions
}

/// Parses a line `key: value`; a key is in lower case and without blanks.
pub(super) fn key(text: &str) -> Option<(&str, &str)> {
    let (key, value) = text.split_once(':')?;
    let lower = key.starts_with(char::is_lowercase)
        && !key.contains(|c: char| c.is_whitespace() || c.is_uppercase());
    let apart = value.is_empty() || value.starts_with([' ', '\t']);
    (lower && apart).then(|| (key, value.trim()))
}

fn benchmark(
    lines: &Lines<'_>,
    number: u32,
    text: &str,
    keys: &BTreeMap<String, String>,
    directions: &HashMap<String, Better>,
) -> Option<Extract> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [name, iterations, values @ ..] = &words[..] else {
        return None;
    };
    let name = name
        .strip_prefix("Benchmark")
        .filter(|name| !name.is_empty())?;
    // `Benchmarks were made …` is prose.
    let iterations: u64 = iterations.parse().ok()?;
    let at = number..number + 1;
    let pairs = match pairs(values) {
        Ok(pairs) => pairs,
        Err(why) => return Some(Extract::unread(at, why)),
    };
    let mut trial = lines.trial(FORM, number);
    let name = place(&mut trial, name, keys);
    match (name.strip_prefix("fsbench/"), &pairs[..]) {
        (Some(name), &[(rate, "ops/sec")]) => of_line(&mut trial, name, iterations as f64, rate),
        (alone, pairs) => {
            if name != "_" || trial.workload.is_empty() {
                let own = alone.unwrap_or(&name).to_owned();
                let of_file = std::mem::replace(&mut trial.workload, own);
                if !of_file.is_empty() && of_file != trial.workload {
                    trial.dimensions.insert(WORKLOAD.to_owned(), of_file);
                }
            }
            figures(&mut trial, pairs, directions);
            if alone.is_some() {
                of_cycles(&mut trial);
            }
        }
    }
    Some(Extract::trial(at, trial))
}

/// (value, unit) pairs.
fn pairs<'t>(words: &[&'t str]) -> Result<Vec<(f64, &'t str)>, String> {
    if words.is_empty() {
        return Err("a benchmark line without a value".to_owned());
    }
    if !words.len().is_multiple_of(2) {
        return Err("a benchmark line in which a value lacks its unit".to_owned());
    }
    words
        .chunks_exact(2)
        .map(|pair| match pair[0].parse::<f64>() {
            Ok(value) if value.is_finite() => Ok((value, pair[1])),
            _ => Err(format!("`{}` on a benchmark line is not a number", pair[0])),
        })
        .collect()
}

/// Fills in the configuration and the dimensions from the keys and the name; returns the rest of the name.
pub(super) fn place(
    trial: &mut ImportedTrial,
    name: &str,
    keys: &BTreeMap<String, String>,
) -> String {
    for (key, value) in keys {
        if CONFIGURATION.contains(&key.as_str()) {
            // A part of the name has precedence.
        } else if key == WORKLOAD {
            trial.workload.clone_from(value);
        } else if HOST.contains(&key.as_str()) {
            trial.facts.push(Fact {
                class: FactClass::Host,
                name: key.clone(),
                value: value.clone(),
            });
        } else {
            trial.dimensions.insert(key.clone(), value.clone());
        }
    }
    let name = match name.rsplit_once('-') {
        Some((rest, threads)) if !rest.is_empty() && is_count(threads) => {
            trial
                .dimensions
                .insert("gomaxprocs".to_owned(), threads.to_owned());
            rest
        }
        _ => name,
    };
    let mut rest = Vec::new();
    for (index, part) in name.split('/').enumerate() {
        match part.split_once('=') {
            Some((key, value)) if index > 0 && !key.is_empty() => {
                if CONFIGURATION.contains(&key) {
                    configure(trial, key, value);
                    continue;
                }
                // benchstat distinguishes a key of the file from a part of the name, which it calls `/key`.
                let taken = trial
                    .dimensions
                    .get(key)
                    .is_some_and(|of_file| of_file != value);
                let key = if taken {
                    format!("/{key}")
                } else {
                    key.to_owned()
                };
                trial.dimensions.insert(key, value.to_owned());
            }
            _ => rest.push(part),
        }
    }
    for key in CONFIGURATION {
        if let Some(value) = keys.get(key) {
            configure(trial, key, value);
        }
    }
    rest.join("/")
}

/// The first name found is the configuration; other names become dimensions.
fn configure(trial: &mut ImportedTrial, key: &str, value: &str) {
    if trial.configuration.is_empty() {
        trial.configuration = value.to_owned();
    } else if trial.configuration != value {
        trial.dimensions.insert(key.to_owned(), value.to_owned());
    }
}

fn is_count(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit())
}

/// Converts the figures; the first is the primary one. The figures of a line have different names.
fn figures(trial: &mut ImportedTrial, pairs: &[(f64, &str)], directions: &HashMap<String, Better>) {
    for (index, &(value, unit)) in pairs.iter().enumerate() {
        if pairs[..index].iter().any(|(_, earlier)| *earlier == unit) {
            let remark = format!("`{unit}` is given twice; the first value counts");
            trial.remarks.push(remark);
            continue;
        }
        let (mut metric, scale) = units::metric(unit);
        if let Some(better) = directions.get(unit) {
            metric.better = *better;
        }
        let mut known = trial.figures.iter().map(|figure| &figure.metric.name);
        if known.any(|name| *name == metric.name) {
            // A second unit of the same quantity is another measurement: it keeps the name of its unit.
            unit.clone_into(&mut metric.name);
        }
        trial.figures.push(Figure {
            metric,
            value: value * scale,
            derived: None,
        });
    }
    let finite = |figure: &Figure| figure.metric.name == Metric::COMPLETION;
    if trial.figures.iter().any(finite) {
        trial.kind = Kind::Finite;
    }
    trial.primary = trial
        .figures
        .first()
        .map(|figure| figure.metric.name.clone());
}
