//! Errors of a question.

use std::fmt;

use iodyno_model::Observation;
use thiserror::Error;

/// All errors of a question at once.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{}", lines(faults))]
pub struct CompareError {
    /// At least one error.
    pub faults: Vec<QuestionError>,
}

/// One error of a question.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum QuestionError {
    /// Nothing to compare.
    #[error("there are no trials to compare")]
    NoTrials,
    /// A dimension, a value, a metric or a fact that no trial has.
    #[error(
        "no trial has {what} `{name}`{role}; there are {}{}",
        list(there),
        hint(near)
    )]
    Unknown {
        /// `a dimension`, `a metric`; for a value, its dimension.
        what: String,
        /// The given name.
        name: String,
        /// `, asked for as columns`: the part of the question; empty: not told.
        role: String,
        /// The existing names.
        there: Vec<String>,
        /// The most similar existing name.
        near: Option<String>,
    },
    /// Some trial meets each condition, but no trial meets all of them.
    #[error("no trial is left where {}", conditions(only))]
    NothingLeft {
        /// The conditions.
        only: Vec<(String, String)>,
    },
    /// Only one column: there is no candidate.
    #[error(
        "all trials have {dimension} `{value}`: there is nothing to compare it with{}",
        instead_of(dimension, instead)
    )]
    OneColumn {
        /// The dimension of the columns.
        dimension: String,
        /// Its only value.
        value: String,
        /// Other dimensions with several values.
        instead: Vec<(String, Vec<String>)>,
    },
    /// A number outside its range.
    #[error("{name} is {value}: it has to be {expected}")]
    OutOfRange {
        /// Name of the number.
        name: &'static str,
        /// The given number.
        value: f64,
        /// The accepted range.
        expected: &'static str,
    },
}

impl QuestionError {
    /// `role`: the part of the question that names it; empty: not told.
    pub(super) fn unknown(what: &str, name: &str, role: &str, there: &[String]) -> QuestionError {
        QuestionError::Unknown {
            what: what.to_owned(),
            name: name.to_owned(),
            role: match role {
                "" => String::new(),
                role => format!(", asked for as {role}"),
            },
            near: nearest(name, there),
            there: there.to_vec(),
        }
    }
}

/// The known name that is most similar: at most two letters differ, and at most a third of them.
fn nearest(name: &str, there: &[String]) -> Option<String> {
    let wanted = name.to_lowercase();
    there
        .iter()
        .map(|known| {
            let distance = strsim::damerau_levenshtein(&wanted, &known.to_lowercase());
            (distance, known)
        })
        .filter(|(distance, known)| *distance <= 2.min(known.chars().count().div_ceil(3)))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known.clone())
}

fn lines(faults: &[QuestionError]) -> String {
    let lines: Vec<String> = faults.iter().map(QuestionError::to_string).collect();
    lines.join("\n")
}

/// A list longer than this is shown as a count.
const MAX_NAMES: usize = 40;

fn list(names: &[String]) -> impl fmt::Display {
    let shown: Vec<&str> = names.iter().take(MAX_NAMES).map(String::as_str).collect();
    match names.len() {
        0 => "none".to_owned(),
        n if n > MAX_NAMES => format!("{} and {} more", shown.join(", "), n - MAX_NAMES),
        _ => shown.join(", "),
    }
}

fn hint(near: &Option<String>) -> String {
    near.as_ref()
        .map_or(String::new(), |near| format!(" (did you mean `{near}`?)"))
}

fn conditions(only: &[(String, String)]) -> String {
    let pairs: Vec<String> = only.iter().map(|(d, v)| format!("{d}={v}")).collect();
    pairs.join(", ")
}

fn instead_of(dimension: &str, instead: &[(String, Vec<String>)]) -> String {
    if instead.is_empty() {
        let hint = match dimension {
            Observation::CONFIGURATION => "; add a second `--on`, or name two runs",
            _ => "; name two runs",
        };
        return hint.to_owned();
    }
    let could: Vec<String> = instead
        .iter()
        .map(|(dimension, values)| format!("{dimension} ({})", list(values)))
        .collect();
    format!("; what could be compared: {}", could.join("; "))
}
