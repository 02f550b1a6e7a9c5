//! Facts in which two sides differ, and which of them is the attribute under test (the axis).

use std::collections::{BTreeMap, BTreeSet};

use iodyno_model::{Difference, Fact, FactClass, Observation, Question};
use iodyno_stats::fisher_exact;
use iodyno_units::{Bytes, Nanos, fio_size_factor, list};

use crate::observe::{FULLNESS, SETTLED, TRACED, default_option, known_default};

/// Counts of a condition on the two sides differ if p of Fisher's exact test is at most this.
const SIGNIFICANT: f64 = 0.05;

/// Result of comparing the facts of two sides.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Facts {
    /// Names of facts that are equal on both sides.
    pub(super) same: Vec<String>,
    /// Facts that differ, including the axis.
    pub(super) differing: Vec<Difference>,
    /// Names of facts that only one side has, so that they cannot be compared.
    pub(super) unknown: Vec<String>,
    /// For each side whose trials are not repetitions of one thing: the facts in which they differ.
    pub(super) pooled: Vec<String>,
    /// Remarks: a run whose trials differ among themselves.
    pub(super) notes: Vec<String>,
}

/// Whether the counts of a condition, each out of its number of trials, differ significantly.
pub(super) fn differ_in_counts(one: (usize, usize), other: (usize, usize)) -> bool {
    fisher_exact(one, other).is_ok_and(|p| p <= SIGNIFICANT)
}

/// The distinct values of a fact on a side, each with its number of trials.
type Counted<'a> = Vec<(&'a str, usize)>;

/// The facts of a side by name.
type Values<'a> = BTreeMap<&'a str, (FactClass, Counted<'a>)>;

/// File systems whose fullness differs by at most this, in percentage points, count as equally full.
const FULLNESS_POINTS: f64 = 5.0;

/// Compares the facts of two sides by value: `16m` is equal to `16 MiB`. A fact that only one side has is unknown. An
/// exception are facts of the workload: if the options of a side are complete, a missing one has its default.
///
/// The axis never objects. It consists of
/// - the facts named by `question.axis`;
/// - if configurations are compared: every fact of the target;
/// - if the columns are an axis of an experiment: every fact of the target, or of the workload, to which the axis
///   belongs;
/// - if the question names its columns: for workloads, every fact of the workload; for another dimension (`bs`, a
///   label), the fact of that name and the facts whose values are those of the columns.
pub(super) fn compare_facts(
    baseline: &[&Observation],
    candidate: &[&Observation],
    columns: (&str, &str),
    question: &Question,
    family: bool,
) -> Facts {
    let mut facts = Facts::default();
    if baseline.is_empty() || candidate.is_empty() {
        return facts;
    }
    let (left, right) = (values(baseline), values(candidate));
    let names: BTreeSet<&str> = left.keys().chain(right.keys()).copied().collect();
    for name in names {
        let missing;
        let (class, of_baseline, of_candidate) = match (left.get(name), right.get(name)) {
            (Some((class, one)), Some((_, other))) => (*class, one.clone(), other.clone()),
            (Some((class, told)), None) | (None, Some((class, told))) => {
                let of_left = left.contains_key(name);
                let (with, without) = match of_left {
                    true => (baseline, candidate),
                    false => (candidate, baseline),
                };
                let Some(default) = default_value(name, *class, with, without) else {
                    if !class_is_axis(*class, question) {
                        facts.unknown.push(name.to_owned());
                    }
                    continue;
                };
                missing = default;
                let filled = vec![(missing.as_str(), without.len())];
                match of_left {
                    true => (*class, told.clone(), filled),
                    false => (*class, filled, told.clone()),
                }
            }
            (None, None) => continue,
        };
        if alike(name, &of_baseline, &of_candidate) {
            facts.same.push(name.to_owned());
            continue;
        }
        let values = (joined(&of_baseline), joined(&of_candidate));
        let axis = is_axis(name, class, (&values.0, &values.1), columns, question);
        facts.differing.push(Difference {
            name: name.to_owned(),
            class,
            values,
            axis,
        });
    }
    for (column, side, values) in [(columns.0, baseline, &left), (columns.1, candidate, &right)] {
        let mixed = mixed(values, family);
        match one_run(side) {
            true => facts.notes.extend(mixed_words(column, &mixed)),
            false => facts.pooled.extend(pooled_words(column, &mixed)),
        }
    }
    facts
}

fn values<'a>(side: &[&'a Observation]) -> Values<'a> {
    let mut found = Values::new();
    for Fact { class, name, value } in side.iter().flat_map(|o| &o.facts) {
        let (_, values) = found.entry(name).or_insert_with(|| (*class, Vec::new()));
        let same = |(known, _): &&mut (&str, usize)| {
            *known == value || by_value(name, known) == by_value(name, value)
        };
        match values.iter_mut().find(same) {
            Some((_, count)) => *count += 1,
            None => values.push((value, 1)),
        }
    }
    found
}

/// Whether the values of a fact on two sides do not differ.
fn alike(name: &str, left: &Counted, right: &Counted) -> bool {
    let texts = |values: &Counted| -> BTreeSet<String> {
        let texts = values.iter().map(|(value, _)| by_value(name, value));
        texts.collect()
    };
    match name {
        FULLNESS => equally_full(left, right),
        // A condition of single trials: the sides differ if their counts do.
        SETTLED => left.iter().chain(right).all(|(value, _)| {
            let count = |values: &Counted| {
                let own = values.iter().find(|(known, _)| known == value);
                let all = values.iter().map(|(_, count)| count).sum();
                (own.map_or(0, |(_, count)| *count), all)
            };
            !differ_in_counts(count(left), count(right))
        }),
        _ => texts(left) == texts(right),
    }
}

/// Facts that are durations. Those of fio have a number without a unit for seconds.
const DURATIONS: [&str; 4] = ["duration", "ramp", "ramp_time", "startdelay"];

/// Options that are not imported as facts, because other facts contain them or because they depend on the tool.
const NOT_IMPORTED: [&str; 3] = ["time_based", "unlink", "wait_for"];

/// Facts of own trials that combine several options of fio; imported trials have them if they are known.
const OF_SEVERAL: [&str; 4] = ["content", "rate", "size", "sync"];

/// The default value of a fact for the trials `without` it; `None` if it is unknown.
fn default_value(
    name: &str,
    class: FactClass,
    with: &[&Observation],
    without: &[&Observation],
) -> Option<String> {
    let own = |side: &[&Observation]| side.iter().all(|o| o.source.is_none());
    if name == TRACED && own(without) {
        return Some("no".to_owned());
    }
    if class != FactClass::Workload || !without.iter().all(|o| o.options_complete) {
        return None;
    }
    let imported = |side: &[&Observation]| side.iter().any(|o| o.source.is_some());
    match (imported(with), imported(without)) {
        (false, false) => Some(default_option(name)),
        _ if NOT_IMPORTED.contains(&name) || OF_SEVERAL.contains(&name) => None,
        (true, true) => Some(known_default(name).unwrap_or_else(|| "default".to_owned())),
        _ => known_default(name),
    }
}

/// A canonical form of a value: the same for all texts of one size, number or duration.
fn by_value(name: &str, value: &str) -> String {
    if DURATIONS.contains(&name) {
        return same_time(value);
    }
    let each = value.split(',').map(|part| match bytes(part) {
        Some(bytes) => bytes.to_string(),
        None => part.to_owned(),
    });
    each.collect::<Vec<_>>().join(",")
}

/// A size: `16 MiB` as iodyno prints it; `16m`, `16M` and `16777216` as fio reads them (in fio, `16MiB` is a power of
/// 1000).
fn bytes(text: &str) -> Option<u64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    if suffix.contains(' ') {
        return text.parse::<Bytes>().ok().map(|bytes| bytes.0);
    }
    let (factor, _) = fio_size_factor(suffix, 1024)?;
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// Durations as different programs print them: `20 s`, `20.0 s`, `20s`, `20`.
fn same_time(value: &str) -> String {
    let time = match value.parse::<f64>() {
        Ok(seconds) => Some(Nanos((seconds * 1e9).round() as u64)),
        Err(_) => value.parse().ok(),
    };
    time.map_or_else(|| value.to_owned(), |time| time.to_string())
}

/// The range of each file system: `37 %` or `34 % to 40 %`, for two targets `37 % and 80 %`.
fn fullness(text: &str) -> Vec<(f64, f64)> {
    let percents = |text: &str| -> Vec<f64> {
        let words = text.split_whitespace();
        words.filter_map(|word| word.parse().ok()).collect()
    };
    let ranges = text.split(" and ").filter_map(|part| {
        let ends = percents(part);
        Some((*ends.first()?, *ends.last()?))
    });
    ranges.collect()
}

/// Whether the fullness of two trials can be the same apart from their own files.
fn close(one: &[(f64, f64)], other: &[(f64, f64)]) -> bool {
    let apart = |(a, b): (&(f64, f64), &(f64, f64))| (a.0 - b.1).max(b.0 - a.1);
    one.len() == other.len() && one.iter().zip(other).all(|it| apart(it) <= FULLNESS_POINTS)
}

/// Whether the sides are equally full in the middle of their trials: the first trials lay out files that later ones
/// find.
fn equally_full(left: &Counted, right: &Counted) -> bool {
    let middle = |values: &Counted| {
        let mut all: Vec<Vec<(f64, f64)>> = Vec::new();
        for (value, count) in values {
            all.extend(std::iter::repeat_n(fullness(value), *count));
        }
        all.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
        let half = all.len() / 2;
        [all.len().saturating_sub(half + 1), half].map(|place| all.get(place).cloned())
    };
    let pairs = middle(left).into_iter().zip(middle(right));
    pairs.into_iter().all(|pair| match pair {
        (Some(one), Some(other)) => close(&one, &other),
        _ => false,
    })
}

/// Whether all values are those of file systems that are equally full.
fn all_close(values: &Counted) -> bool {
    let ranges: Vec<_> = values.iter().map(|(value, _)| fullness(value)).collect();
    ranges
        .iter()
        .all(|one| ranges.iter().all(|other| close(one, other)))
}

/// Whether the trials of a side belong to the rounds of one run.
fn one_run(side: &[&Observation]) -> bool {
    let run = side.first().map(|o| o.dimension(Observation::RUN));
    side.iter()
        .all(|o| o.round.is_some() && Some(o.dimension(Observation::RUN)) == run)
}

fn joined(values: &Counted) -> String {
    const MOST: usize = 3;
    let shown: Vec<&str> = values.iter().take(MOST).map(|(value, _)| *value).collect();
    match values.len() > MOST {
        true => format!("{}, …", shown.join(", ")),
        false => shown.join(", "),
    }
}

fn is_axis(
    name: &str,
    class: FactClass,
    values: (&str, &str),
    columns: (&str, &str),
    question: &Question,
) -> bool {
    let named = [Observation::CONFIGURATION, Observation::WORKLOAD];
    question.axis.iter().any(|axis| axis == name)
        || class_is_axis(class, question)
        || !question.inferred
            && !named.contains(&question.columns.as_str())
            && (name == question.columns || class != FactClass::Ending && values == columns)
}

/// Whether all facts of a class are the axis.
pub(crate) fn class_is_axis(class: FactClass, question: &Question) -> bool {
    match question.columns.as_str() {
        Observation::CONFIGURATION => class == FactClass::Target,
        Observation::WORKLOAD => class == FactClass::Workload && !question.inferred,
        _ => question.defines == Some(class),
    }
}

/// Facts that differ between the trials of one side, each with its values. The workloads of a family differ by
/// intention.
fn mixed<'a>(values: &'a Values, family: bool) -> Vec<(&'a str, FactClass, String)> {
    values
        .iter()
        .filter(|(name, (_, values))| match **name {
            FULLNESS => !all_close(values),
            SETTLED => false,
            _ => values.len() > 1,
        })
        .filter(|(_, (class, _))| !(family && *class == FactClass::Workload))
        .map(|(name, (class, values))| (*name, *class, joined(values)))
        .collect()
}

/// A note on a run whose trials differ. Differences in how its trials ended are reported by their findings.
fn mixed_words(column: &str, mixed: &[(&str, FactClass, String)]) -> Option<String> {
    let names: Vec<String> = mixed
        .iter()
        .filter(|(_, class, _)| *class != FactClass::Ending)
        .map(|(name, _, values)| format!("{name} ({values})"))
        .collect();
    (!names.is_empty()).then(|| format!("the trials of {column} differ in {}", list(&names)))
}

/// Trials of several runs, or imported ones, that differ are not repetitions of one configuration.
fn pooled_words(column: &str, mixed: &[(&str, FactClass, String)]) -> Option<String> {
    let names: Vec<String> = mixed
        .iter()
        .map(|(name, _, values)| format!("{name} ({values})"))
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "the trials of {column} are not repetitions: they differ in {} (--rows or --where keeps them apart)",
            list(&names)
        )
    })
}
