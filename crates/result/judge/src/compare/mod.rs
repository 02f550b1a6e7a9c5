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
mod reduce;
mod regret;
mod runs;
mod sample;
mod sides;
mod statistics;
#[cfg(test)]
mod tests;
mod verdict;
mod whole;
mod words;

use iodyno_model::{Claim, Comparison, Difference, Observation, Pairing, Question};
use iodyno_units::counted;

pub use claims::check_claims;
pub use defaults::{default_rows, distinguishing_runs, likeliest_axis};
pub use error::{CompareError, QuestionError};
pub(crate) use facts::class_is_axis;
pub use grouping::chosen;
pub use projection::{
    TooFewRounds, can_decide, comparable, default_rounds, primaries, question_of, widest_interval,
    without_searches,
};
pub use regret::regret;
pub(crate) use sides::Counted;
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
    let (mut comparison, _) = compared(name, observations, question)?;
    comparison.claims = check_claims(claims, observations);
    Ok(comparison)
}

/// A candidate in a row by the row's first metric, with the trials behind it.
pub(crate) struct Cell<'a> {
    /// Its place in the comparison: row and candidate.
    pub(crate) place: (usize, usize),
    /// The trials of the baseline and of the candidate that count, with their values; if they are paired, in the same
    /// order.
    pub(crate) sides: (Vec<Counted<'a>>, Vec<Counted<'a>>),
    /// The facts in which the sides differ, with the attribute under test.
    pub(crate) differing: Vec<Difference>,
}

/// A comparison without claims, and the trials of its cells. Families and further metrics have none.
pub(crate) fn compared<'a>(
    name: &str,
    observations: &'a [Observation],
    question: &Question,
) -> Result<(Comparison, Vec<Cell<'a>>), CompareError> {
    let question = normalised(question);
    let table = grouping::group(observations, &question)?;
    let question = Question {
        baseline: table.columns.first().cloned(),
        ..question
    };
    let asked = metrics::rows(&table, &question);
    let prepared = cells::prepare(&asked);
    let drafts = cells::drafts(&prepared, &table.columns);
    let p_values: Vec<_> = drafts.iter().map(|draft| (draft.role, draft.p)).collect();
    let levels = levels::levels(&p_values, question.alpha_at_look());
    let floors = cells::floors(&prepared, &drafts, &table.columns, &question);
    let built = cells::rows(
        &prepared,
        &drafts,
        &levels,
        &floors,
        (&table.columns, &question),
    );
    let mut with_trials: Vec<Cell> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for (row, prepared) in prepared.iter().enumerate() {
        let built = &built[row];
        for (place, (cell, facts)) in built.row.cells.iter().zip(&built.facts).enumerate() {
            let columns = &mut table.columns.iter();
            let column = columns.position(|column| *column == cell.side.column);
            let Some((name, baseline, side)) = column.and_then(|column| prepared.two(column))
            else {
                continue;
            };
            if seen.insert((name.clone(), column)) {
                let paired = cell.pairing == Pairing::Paired;
                with_trials.push(Cell {
                    place: (row, place),
                    sides: sides::both(baseline, side, paired),
                    differing: facts.differing.clone(),
                });
            }
        }
    }
    let mut comparison = whole::comparison(name, &question, &table, built);
    let nowhere = prepared.iter().flat_map(|row| {
        let candidates = 1..table.columns.len();
        candidates.filter(|column| row.is_nowhere(*column))
    });
    let nowhere = nowhere.count() as u64;
    if nowhere > 0 {
        comparison.notes.push(format!(
            "left out: {} of a row and a {} without trials",
            counted(nowhere, "pair"),
            question.columns
        ));
    }
    Ok((comparison, with_trials))
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
