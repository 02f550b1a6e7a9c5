//! Facts in which two sides differ, and which of them is the attribute under test (the axis).

use std::collections::BTreeMap;

use iodyno_model::{Difference, Fact, FactClass, Observation, Question};

use iodyno_units::Nanos;

use super::words;

/// A difference with the class of its fact.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Differing {
    /// The class of the fact.
    pub(super) class: FactClass,
    /// The fact, its values, and whether it is the axis.
    pub(super) difference: Difference,
}

/// Result of comparing the facts of two sides.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Facts {
    /// Names of facts that are equal on both sides.
    pub(super) same: Vec<String>,
    /// Facts that differ, including the axis.
    pub(super) differing: Vec<Differing>,
    /// Remarks: an axis that was inferred, or a side whose trials differ among themselves.
    pub(super) notes: Vec<String>,
}

/// The distinct values of each fact of a side, with the class of the fact.
type Values<'a> = BTreeMap<&'a str, (FactClass, Vec<&'a str>)>;

/// Compares the facts of two sides. A fact that only one side has does not count as differing.
///
/// The axis never objects. It is
/// - what `question.axis` names, and a fact with the name of the columns' dimension;
/// - where configurations are compared: every fact of the target;
/// - where workloads are compared: every fact of the workload;
/// - where another dimension is (`bs`, a label): the facts whose values are those of the columns;
/// - if none of these differs: a fact that is the only one to differ, unless it is the end of the trials.
pub(super) fn compare_facts(
    baseline: &[&Observation],
    candidate: &[&Observation],
    columns: (&str, &str),
    question: &Question,
    family: bool,
) -> Facts {
    let (left, right) = (values(baseline), values(candidate));
    let mut facts = Facts::default();
    for (name, (class, of_baseline)) in &left {
        let Some((_, of_candidate)) = right.get(name) else {
            continue;
        };
        if as_sets_equal(of_baseline, of_candidate) || same_time(name, of_baseline, of_candidate) {
            facts.same.push((*name).to_owned());
            continue;
        }
        facts.differing.push(Differing {
            class: *class,
            difference: Difference {
                name: (*name).to_owned(),
                values: (joined(of_baseline), joined(of_candidate)),
                axis: is_axis(name, *class, (of_baseline, of_candidate), columns, question),
            },
        });
    }
    facts
        .notes
        .extend(guess_axis(&mut facts.differing, question));
    for (column, values) in [(columns.0, &left), (columns.1, &right)] {
        facts.notes.extend(mixed(column, values, family));
    }
    facts
}

fn values<'a>(side: &[&'a Observation]) -> Values<'a> {
    let mut found = Values::new();
    for Fact { class, name, value } in side.iter().flat_map(|o| &o.facts) {
        let (_, values) = found.entry(name).or_insert_with(|| (*class, Vec::new()));
        if !values.contains(&value.as_str()) {
            values.push(value);
        }
    }
    found
}

fn as_sets_equal(left: &[&str], right: &[&str]) -> bool {
    left.len() == right.len() && left.iter().all(|value| right.contains(value))
}

/// Durations as different programs print them: `20 s`, `20.0 s`.
fn same_time(name: &str, left: &[&str], right: &[&str]) -> bool {
    let shown = |value: &&str| {
        let seconds = value
            .strip_suffix(" s")
            .and_then(|number| number.parse::<f64>().ok());
        seconds.map_or_else(
            || (*value).to_owned(),
            |seconds| Nanos((seconds * 1e9).round() as u64).to_string(),
        )
    };
    name == "duration" && left.iter().map(shown).eq(right.iter().map(shown))
}

fn joined(values: &[&str]) -> String {
    const MOST: usize = 3;
    let shown: Vec<&str> = values.iter().take(MOST).copied().collect();
    match values.len() > MOST {
        true => format!("{}, …", shown.join(", ")),
        false => shown.join(", "),
    }
}

fn is_axis(
    name: &str,
    class: FactClass,
    values: (&[&str], &[&str]),
    columns: (&str, &str),
    question: &Question,
) -> bool {
    if name == question.columns || question.axis.iter().any(|axis| axis == name) {
        return true;
    }
    match question.columns.as_str() {
        Observation::CONFIGURATION => class == FactClass::Target,
        Observation::WORKLOAD => class == FactClass::Workload,
        _ => class != FactClass::Ending && (values.0, values.1) == (&[columns.0], &[columns.1]),
    }
}

/// If no differing fact is known to be the axis, the only differing fact is taken as the axis.
fn guess_axis(differing: &mut [Differing], question: &Question) -> Option<String> {
    let named = [Observation::CONFIGURATION, Observation::WORKLOAD];
    if named.contains(&question.columns.as_str()) {
        return None;
    }
    match differing {
        [only] if !only.difference.axis && only.class != FactClass::Ending => {
            only.difference.axis = true;
            Some(format!(
                "{} is all that differs: taken for what is compared",
                only.difference.name
            ))
        }
        _ => None,
    }
}

/// Facts that differ between the trials of one side. The workloads of a family differ by intention.
fn mixed(column: &str, values: &Values, family: bool) -> Option<String> {
    let names: Vec<String> = values
        .iter()
        .filter(|(_, (class, values))| values.len() > 1 && *class != FactClass::Ending)
        .filter(|(_, (class, _))| !(family && *class == FactClass::Workload))
        .map(|(name, (_, values))| format!("{name} ({})", joined(values)))
        .collect();
    (!names.is_empty()).then(|| format!("the trials of {column} differ in {}", words::list(&names)))
}
