//! Compares trials: which configuration is faster, by how much, and with what certainty.
//!
//! The modules in the order of use: `grouping` assigns trials to rows and columns; `metrics` selects the metric of
//! each row; `sides` selects the values that count; `sample` pairs the sides by common rounds, and `runs` reduces
//! separate runs to one value each; `statistics` computes the numbers, `floor` the noise floor, and `levels` the
//! correction for multiple comparisons; `verdict` decides by the numbers alone; `comparability` checks for other
//! explanations.
//!
//! Invariants: the unit is the trial; every omission is reported; no input panics; exchanging baseline and candidate
//! inverts ratios, exchanges FASTER and SLOWER, and changes nothing else.

mod cells;
mod claims;
mod comparability;
mod defaults;
mod error;
mod facts;
mod family;
mod floor;
mod grouping;
mod levels;
mod metrics;
mod projection;
mod runs;
mod sample;
mod sides;
mod statistics;
#[cfg(test)]
mod tests;
mod verdict;
mod whole;
mod words;

use iodyno_model::{Claim, Comparison, Observation, Question};

pub use claims::check_claims;
pub use defaults::{default_rows, distinguishing_runs, likeliest_axis};
pub use error::{CompareError, QuestionError};
pub use grouping::chosen;
pub use projection::{
    TooFewRounds, can_decide, comparable, default_rounds, primaries, question_of, widest_interval,
    without_searches,
};
pub(crate) use words::regimes;

/// Compares trials as `question` requests, and checks printed `claims` against them.
///
/// The result depends only on its arguments. Errors: all errors of the question at once, such as a dimension, value,
/// metric or fact that no trial has, or a question with nothing to compare.
pub fn compare(
    name: &str,
    observations: &[Observation],
    question: &Question,
    claims: &[Claim],
) -> Result<Comparison, CompareError> {
    let question = normalised(question);
    let table = grouping::group(observations, &question)?;
    let question = Question {
        baseline: table.columns.first().cloned(),
        ..question
    };
    let asked = metrics::rows(&table, &question);
    let prepared = cells::prepare(&asked);
    let drafts = cells::drafts(&prepared, &table.columns);
    let levels = levels::levels(&drafts, question.alpha_at_look());
    let floors = cells::floors(&prepared, &drafts, &table.columns, &question);
    let built = cells::rows(
        &prepared,
        &drafts,
        &levels,
        &floors,
        (&table.columns, &question),
    );
    let mut comparison = whole::comparison(name, &question, &table, built);
    comparison.claims = check_claims(claims, observations);
    Ok(comparison)
}

/// A dimension cannot be used for both columns and rows: each row would have one column. Dimensions that are printed
/// across define rows.
fn normalised(question: &Question) -> Question {
    let mut question = question.clone();
    let columns = question.columns.clone();
    question.across.retain(|across| *across != columns);
    question.rows.extend(question.across.clone());
    let mut seen = std::collections::HashSet::new();
    question
        .rows
        .retain(|row| *row != columns && seen.insert(row.clone()));
    question
}
