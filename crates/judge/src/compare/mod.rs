//! Which is better, by how much, how surely: trials in, a [`Comparison`] out.
//!
//! The way of a comparison: `grouping` puts trials into rows and columns; `metrics` says by what each row
//! is compared; `sides` and `sample` take the values that count and bring the sides together, by round
//! where they share rounds; `statistics` are the numbers, `floor` the noise, `levels` the correction for
//! many comparisons; `verdict` decides by the numbers alone, and `comparability` objects.
//!
//! What must stay true: the unit is the trial; nothing is compared silently with less than was
//! asked for (what is left out is said); no observations, however odd, panic; exchanging baseline and
//! candidate inverts ratios, exchanges faster and slower, and changes nothing else.

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
pub use defaults::{default_rows, most_telling, telling_runs_apart};
pub use error::{CompareError, Fault};
pub use projection::{TooFewRounds, can_decide, default_rounds, primaries, widest_interval};
pub(crate) use words::regimes;

/// As a metric's name: every metric that both sides have.
pub const ALL_METRICS: &str = "all";

/// Compares trials as `question` asks, and holds printed `claims` against them.
///
/// Pure: the same trials and question give the same answer. Errs with everything that is wrong with
/// the question: a dimension, value, metric or fact that no trial has, or nothing to compare.
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
    let levels = levels::levels(&drafts, question.alpha);
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

/// A dimension cannot make both columns and rows: each row would have one column only.
fn normalised(question: &Question) -> Question {
    let mut question = question.clone();
    let columns = question.columns.clone();
    question.rows.retain(|row| *row != columns);
    question
}
