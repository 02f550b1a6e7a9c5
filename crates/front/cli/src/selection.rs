//! `run --where`: the part of an experiment that runs.
//!
//! Conditions name a dimension and a pattern. Conditions on one dimension are alternatives; all dimensions have to
//! match. A dimension is that of configurations, of workloads, or both if both have an axis with this name.

use std::collections::{BTreeMap, BTreeSet};

use iodyno_experiment::document::{instead, listed};
use iodyno_model::{Configuration, Diagnostic, Observation, Plan, Workload};

/// The patterns of each dimension.
type Conditions = BTreeMap<String, Vec<String>>;

/// What a configuration or a workload has in each dimension.
type Labels<'p> = BTreeMap<&'p str, &'p str>;

/// The configurations and workloads that match all conditions, by name.
struct Matching {
    configurations: BTreeSet<String>,
    workloads: BTreeSet<String>,
}

impl Matching {
    /// Errors: conditions without a dimension, on an unknown dimension, or without a match.
    fn of(
        configurations: &[Configuration],
        workloads: &[Workload],
        texts: &[String],
    ) -> Result<Matching, Vec<Diagnostic>> {
        let mut faults = Vec::new();
        let mut conditions = Conditions::new();
        for (dimension, pattern) in pairs("--where", texts, &mut faults) {
            conditions.entry(dimension).or_default().push(pattern);
        }
        let targets: Vec<Labels<'_>> = configurations.iter().map(of_target).collect();
        let workloads: Vec<Labels<'_>> = workloads.iter().map(of_workload).collect();
        for (dimension, patterns) in &conditions {
            let all: Vec<&Labels<'_>> = targets.iter().chain(&workloads).collect();
            faults.extend(unmatched(dimension, patterns, &all));
        }
        match faults.is_empty() {
            true => Ok(Matching {
                configurations: matching(&targets, Observation::CONFIGURATION, &conditions),
                workloads: matching(&workloads, Observation::WORKLOAD, &conditions),
            }),
            false => Err(faults),
        }
    }

    fn has(&self, configuration: &Configuration, workload: &Workload) -> bool {
        self.configurations.contains(&configuration.name) && self.workloads.contains(&workload.name)
    }
}

/// Keeps the configurations and workloads that match and that run together. Returns the errors of the conditions;
/// nothing is removed then.
pub(crate) fn select(
    configurations: &mut Vec<Configuration>,
    workloads: &mut Vec<Workload>,
    texts: &[String],
) -> Vec<Diagnostic> {
    if texts.is_empty() {
        return Vec::new();
    }
    let matching = match Matching::of(configurations, workloads, texts) {
        Ok(matching) => matching,
        Err(faults) => return faults,
    };
    let own = configurations.iter();
    let pairs = own.flat_map(|target| workloads.iter().map(move |workload| (target, workload)));
    let (targets, works): (BTreeSet<String>, BTreeSet<String>) = pairs
        .filter(|(target, workload)| {
            matching.has(target, workload) && workload.runs_on(target, configurations)
        })
        .map(|(target, workload)| (target.name.clone(), workload.name.clone()))
        .unzip();
    if targets.is_empty() {
        return vec![no_cell()];
    }
    configurations.retain(|it| targets.contains(&it.name));
    workloads.retain(|it| works.contains(&it.name));
    for workload in workloads {
        workload.only.retain(|name| targets.contains(name));
    }
    Vec::new()
}

/// The cells that match, for a run that keeps its plan; `None` without conditions.
///
/// # Errors
/// Those of the conditions.
pub(crate) fn selected_cells(
    plan: &Plan,
    texts: &[String],
) -> Result<Option<BTreeSet<u32>>, Vec<Diagnostic>> {
    if texts.is_empty() {
        return Ok(None);
    }
    let matching = Matching::of(&plan.configurations, &plan.workloads, texts)?;
    let cells: BTreeSet<u32> = (0..)
        .zip(plan.each_cell())
        .filter(|(_, (configuration, workload))| matching.has(configuration, workload))
        .map(|(cell, _)| cell)
        .collect();
    match cells.is_empty() {
        true => Err(vec![no_cell()]),
        false => Ok(Some(cells)),
    }
}

/// A plan with the configurations and workloads of these cells; `None`: of all.
pub(crate) fn part(plan: &Plan, cells: Option<&BTreeSet<u32>>) -> Plan {
    let mut part = plan.clone();
    if let Some(cells) = cells {
        let places: Vec<_> = cells.iter().map(|cell| plan.cell(*cell)).collect();
        let configurations = |it: &Configuration| places.iter().any(|own| own.0.name == it.name);
        let workloads = |it: &Workload| places.iter().any(|own| own.1.name == it.name);
        part.configurations.retain(configurations);
        part.workloads.retain(workloads);
    }
    part
}

/// Whether the conditions on a dimension allow a value.
pub(crate) fn allows(texts: &[String], dimension: &str, value: &str) -> bool {
    let patterns = texts.iter().filter_map(|text| text.split_once('='));
    let mut own = patterns
        .filter(|(name, _)| name.trim() == dimension)
        .peekable();
    own.peek().is_none() || own.any(|(_, pattern)| matches(pattern.trim(), value))
}

/// The values of a dimension.
pub(crate) fn sides<'p>(
    configurations: &'p [Configuration],
    workloads: &'p [Workload],
    dimension: &str,
) -> BTreeSet<&'p str> {
    let targets = configurations.iter().map(of_target);
    let all = targets.chain(workloads.iter().map(of_workload));
    all.filter_map(|it| it.get(dimension).copied()).collect()
}

fn no_cell() -> Diagnostic {
    Diagnostic::error("`--where`: no matching workload runs on a matching configuration")
        .hint("`--dry-run` without `--where` lists all of them")
}

fn of_target(configuration: &Configuration) -> Labels<'_> {
    labels(
        Observation::CONFIGURATION,
        &configuration.name,
        &configuration.dimensions,
    )
}

fn of_workload(workload: &Workload) -> Labels<'_> {
    labels(Observation::WORKLOAD, &workload.name, &workload.dimensions)
}

fn labels<'p>(kind: &'p str, name: &'p str, axes: &'p BTreeMap<String, String>) -> Labels<'p> {
    let axes = axes
        .iter()
        .map(|(axis, label)| (axis.as_str(), label.as_str()));
    axes.chain([(kind, name)]).collect()
}

/// The errors for a condition on an unknown dimension, and for patterns that match nothing.
fn unmatched(dimension: &str, patterns: &[String], all: &[&Labels<'_>]) -> Vec<Diagnostic> {
    let values = all.iter().filter_map(|it| it.get(dimension).copied());
    let values: BTreeSet<&str> = values.collect();
    if values.is_empty() {
        let names: BTreeSet<&str> = all.iter().flat_map(|it| it.keys().copied()).collect();
        let message = format!("`--where`: unknown dimension `{dimension}`");
        return vec![Diagnostic::error(message).hint(hint(
            dimension,
            &names,
            "the dimensions are",
        ))];
    }
    let matched = |pattern: &String| values.iter().any(|value| matches(pattern, value));
    let unmatched = patterns.iter().filter(|pattern| !matched(pattern));
    unmatched
        .map(|pattern| {
            let message = format!("`--where {dimension}={pattern}` matches nothing");
            Diagnostic::error(message).hint(hint(pattern, &values, "the values are"))
        })
        .collect()
}

/// More names than these are not listed if one of them is near.
const MAX_LISTED: usize = 12;

fn hint(name: &str, names: &BTreeSet<&str>, these: &str) -> String {
    let names: Vec<&str> = names.iter().copied().collect();
    match names.len() <= MAX_LISTED {
        true => format!("{these} {}", listed(&names)),
        false => instead(name, &names, these),
    }
}

/// The names of those that match. A condition on a dimension that none of them has is about the others.
fn matching(all: &[Labels<'_>], kind: &str, conditions: &Conditions) -> BTreeSet<String> {
    let own = |dimension: &str| all.iter().any(|it| it.contains_key(dimension));
    let conditions: Vec<_> = conditions
        .iter()
        .filter(|(dimension, _)| own(dimension))
        .collect();
    let meets = |it: &&Labels<'_>| {
        conditions.iter().all(|(dimension, patterns)| {
            let value = it.get(dimension.as_str());
            value.is_some_and(|value| patterns.iter().any(|pattern| matches(pattern, value)))
        })
    };
    let names = all.iter().filter(meets).map(|it| it[kind].to_owned());
    names.collect()
}

/// Parses `DIMENSION=VALUE` texts; errors are added to `faults`.
pub(crate) fn pairs(
    flag: &str,
    texts: &[String],
    faults: &mut Vec<Diagnostic>,
) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for text in texts {
        match text.split_once('=') {
            Some((name, value)) if !name.trim().is_empty() => {
                pairs.push((name.trim().to_owned(), value.trim().to_owned()));
            }
            _ => faults.push(
                Diagnostic::error(format!("`{flag} {text}` needs a dimension and a value")).hint(
                    format!("write `{flag} DIMENSION=VALUE`, such as `{flag} rw=randread`"),
                ),
            ),
        }
    }
    pairs
}

/// The conditions with every value in place of a pattern that some trials match. A pattern that all of them match is no
/// condition.
pub(crate) fn expanded(
    conditions: Vec<(String, String)>,
    trials: &[Observation],
) -> Vec<(String, String)> {
    let each = conditions.into_iter().flat_map(|(dimension, pattern)| {
        if !pattern.contains(['*', '?']) {
            return vec![(dimension, pattern)];
        }
        let values = trials.iter().map(|trial| trial.dimension(&dimension));
        let values: BTreeSet<&str> = values.collect();
        let found = values.iter().filter(|value| matches(&pattern, value));
        let found: Vec<&str> = found.copied().collect();
        match found.len() {
            0 => vec![(dimension, pattern)],
            all if all == values.len() => Vec::new(),
            _ => found
                .into_iter()
                .map(|value| (dimension.clone(), value.to_owned()))
                .collect(),
        }
    });
    each.collect()
}

/// Whether a name matches a pattern: `*` stands for any text, `?` for one character.
fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut at, mut place) = (0, 0);
    // The last `*`, and the first character that it does not stand for.
    let mut star: Option<(usize, usize)> = None;
    while place < name.len() {
        match (pattern.get(at), star) {
            (Some('*'), _) => {
                star = Some((at, place));
                at += 1;
            }
            (Some(own), _) if *own == '?' || *own == name[place] => {
                at += 1;
                place += 1;
            }
            (_, Some((before, end))) => {
                star = Some((before, end + 1));
                at = before + 1;
                place = end + 1;
            }
            (_, None) => return false,
        }
    }
    pattern[at..].iter().all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use iodyno_model::Target;

    use super::*;

    #[test]
    fn wildcards_stand_for_any_text_or_one_character() {
        for (pattern, name, expected) in [
            ("zfs", "zfs", true),
            ("zfs", "zfs2", false),
            ("rand*", "randread-4k", true),
            ("*read*", "randread-4k", true),
            ("*k", "randread-4k", true),
            ("*", "", true),
            ("?", "", false),
            ("?fs", "zfs", true),
            ("?", "ä", true),
            ("", "x", false),
            ("*a*b", "xaxxbx", false),
            ("*a*b", "xaxbxb", true),
            (
                "*a*a*a*a*a*a*a*b",
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                false,
            ),
            ("a**", "a", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    /// Configurations `a` and `b`, workloads `read` of two depths and `write`, which runs only on `b`.
    fn parts() -> (Vec<Configuration>, Vec<Workload>) {
        let configuration = |name: &str| Configuration::new(name, Target::Path("/".into()));
        let workload = |name: &str, depth: Option<&str>, only: &[&str]| Workload {
            dimensions: depth
                .map(|it| ("depth".to_owned(), it.to_owned()))
                .into_iter()
                .collect(),
            only: only.iter().map(|it| (*it).to_owned()).collect(),
            ..Workload::new(name, Vec::new(), Vec::new())
        };
        (
            vec![configuration("a"), configuration("b")],
            vec![
                workload("read-1", Some("1"), &[]),
                workload("read-16", Some("16"), &[]),
                workload("write", None, &["b"]),
            ],
        )
    }

    #[test]
    fn conditions_on_one_dimension_are_alternatives_and_all_dimensions_match() {
        for (texts, configurations, workloads) in [
            (vec!["configuration=a"], "a", "read-1 read-16"),
            (vec!["depth=16"], "a b", "read-16"),
            (
                vec!["workload=read*", "configuration=b"],
                "b",
                "read-1 read-16",
            ),
            (
                vec!["workload=read-1", "workload=write"],
                "a b",
                "read-1 write",
            ),
            (vec!["workload=write"], "b", "write"),
        ] {
            let (mut targets, mut works) = parts();
            let texts: Vec<String> = texts.into_iter().map(str::to_owned).collect();
            assert_eq!(select(&mut targets, &mut works, &texts), [], "{texts:?}");
            let names: Vec<&str> = targets.iter().map(|it| it.name.as_str()).collect();
            assert_eq!(names.join(" "), configurations, "{texts:?}");
            let names: Vec<&str> = works.iter().map(|it| it.name.as_str()).collect();
            assert_eq!(names.join(" "), workloads, "{texts:?}");
        }
    }

    #[test]
    fn conditions_on_other_dimensions_allow_any_value() {
        for (texts, expected) in [
            (&[][..], true),
            (&["rw=read"], true),
            (&["configuration=b"], false),
            (&["configuration = a*", "rw=read"], true),
            (&["configuration=b", "configuration=?1"], true),
        ] {
            let texts: Vec<String> = texts.iter().map(|it| (*it).to_owned()).collect();
            assert_eq!(allows(&texts, "configuration", "a1"), expected, "{texts:?}");
        }
    }

    #[test]
    fn a_condition_that_matches_nothing_is_an_error_and_removes_nothing() {
        for (texts, words) in [
            (
                vec!["configuraton=a"],
                "the dimensions are `configuration`, `depth` and `workload`",
            ),
            (vec!["depth=8", "workload=x"], "the values are `1` and `16`"),
            (vec!["depth"], "write `--where DIMENSION=VALUE`"),
            (vec!["workload=write", "configuration=a"], "`--dry-run`"),
        ] {
            let (mut targets, mut works) = parts();
            let texts: Vec<String> = texts.into_iter().map(str::to_owned).collect();
            let faults = select(&mut targets, &mut works, &texts);
            let hints: Vec<&str> = faults.iter().flat_map(|it| it.hint.as_deref()).collect();
            assert!(hints.iter().any(|hint| hint.contains(words)), "{faults:?}");
            assert_eq!((targets.len(), works.len()), (2, 3), "{texts:?}");
        }
    }
}
