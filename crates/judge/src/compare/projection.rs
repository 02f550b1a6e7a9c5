//! The number of rounds that a verdict needs, before, between and after rounds.

use std::collections::BTreeSet;

use iodyno_model::{Comparison, Observation, Plan, Question};
use iodyno_stats::{least_rounds, smallest_p_signed_rank};
use iodyno_units::significant;
use thiserror::Error;

use iodyno_units::counted;

/// Minimum number of rounds of a planned run: with fewer, one outlier decides.
const FEWEST_ROUNDS: u32 = 10;

/// This number of rounds cannot show any difference.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
#[error(
    "{rounds} rounds cannot decide: the smallest p they can give is {}, and over {} it has to fall \
     below {}; at least {least} rounds can",
    significant(*smallest_p),
    counted(u64::from(*primaries), "primary comparison"),
    significant(*needed_p)
)]
pub struct TooFewRounds {
    /// Rounds.
    pub rounds: u32,
    /// Primary comparisons.
    pub primaries: u32,
    /// The smallest p that this number of rounds can give.
    pub smallest_p: f64,
    /// The threshold for that p: α divided by the number of primaries.
    pub needed_p: f64,
    /// The smallest number of rounds that can decide.
    pub least: u32,
}

/// Default number of rounds of a run: the smallest n with 2/2ⁿ < α/m for m = `primaries` comparisons, and at
/// least 10. An α outside (0, 1) counts as 0.05.
pub fn default_rounds(primaries: u32, alpha: f64) -> u32 {
    least(primaries, alpha).max(FEWEST_ROUNDS)
}

/// Whether this number of rounds could show any difference, by the signed-rank test with Holm's correction over
/// `primaries` comparisons. An α outside (0, 1) counts as 0.05.
pub fn can_decide(rounds: u32, primaries: u32, alpha: f64) -> Result<(), TooFewRounds> {
    let least = least(primaries, alpha);
    if rounds >= least {
        return Ok(());
    }
    Err(TooFewRounds {
        rounds,
        primaries,
        smallest_p: smallest_p_signed_rank(rounds as usize),
        needed_p: sound(alpha) / f64::from(primaries.max(1)),
        least,
    })
}

fn least(primaries: u32, alpha: f64) -> u32 {
    // Fails only for an α outside its range.
    least_rounds(primaries as usize, sound(alpha)).map_or(FEWEST_ROUNDS, |least| least as u32)
}

fn sound(alpha: f64) -> f64 {
    match alpha > 0.0 && alpha < 1.0 {
        true => alpha,
        false => iodyno_model::Question::ALPHA,
    }
}

/// The question of a run's plan at its next look. A look at which no result could have been decisive uses no part of
/// α.
pub fn question_of(plan: &Plan) -> Question {
    let first = Question {
        looks: Some(0),
        ..plan.question.clone()
    };
    plan.looks.iter().fold(first, |question, rounds| {
        let spends = smallest_p_signed_rank(*rounds as usize) <= question.alpha_at_look();
        Question {
            looks: question.looks.map(|looks| looks + u32::from(spends)),
            ..question
        }
    })
}

/// The width of the widest interval among the primary ratios, (high − low) ÷ ratio; used by the stop rule.
/// `None` while there is no primary comparison or one has no interval yet.
pub fn widest_interval(comparison: &Comparison) -> Option<f64> {
    let mut widest = None;
    let primaries = comparison.rows.iter().filter(|row| !row.exploratory);
    for cell in primaries.flat_map(|row| &row.cells) {
        let ratio = cell.ratio?;
        let (low, high) = ratio.interval?;
        let width = (high - low) / ratio.value;
        widest = Some(widest.map_or(width, |so_far: f64| so_far.max(width)));
    }
    widest
}

/// The number of primary comparisons of a plan's question: rows × candidates, without rows in which no difference is
/// expected. Dimensions that only trials have are assumed to differ between workloads, so that the number is never
/// too small. 0 if there is nothing to compare.
pub fn primaries(plan: &Plan) -> u32 {
    let question = &plan.question;
    let cells: Vec<[(&str, &str); 2]> = plan
        .configurations
        .iter()
        .filter(|configuration| !configuration.again)
        .flat_map(|configuration| {
            let workloads = plan.workloads.iter().filter(|workload| !workload.again);
            workloads.map(|workload| {
                [
                    (Observation::CONFIGURATION, configuration.name.as_str()),
                    (Observation::WORKLOAD, workload.name.as_str()),
                ]
            })
        })
        .collect();
    let matches = |cell: &[(&str, &str); 2], conditions: &[(String, String)]| {
        cell.iter().all(|(dimension, value)| {
            let mut asked = conditions.iter().filter(|(d, _)| d == dimension).peekable();
            asked.peek().is_none() || asked.any(|(_, v)| v == value)
        })
    };
    let expected_equal = |cell: &[(&str, &str); 2]| {
        let mut floor = question.floor.iter();
        floor.any(|(d, v)| cell.contains(&(d.as_str(), v.as_str())))
    };
    let value = |cell: &[(&str, &str); 2], dimension: &str| {
        let found = cell.iter().find(|(name, _)| *name == dimension);
        // A dimension that only trials have: at most one value per workload.
        found.map_or(cell[1].1, |(_, value)| *value).to_owned()
    };
    let (mut columns, mut rows) = (BTreeSet::new(), BTreeSet::new());
    for cell in cells.iter().filter(|cell| matches(cell, &question.only)) {
        columns.insert(value(cell, &question.columns));
        if !expected_equal(cell) {
            let dimensions = question.rows.iter().filter(|row| **row != question.columns);
            rows.insert(dimensions.map(|d| value(cell, d)).collect::<Vec<_>>());
        }
    }
    (columns.len().saturating_sub(1) * rows.len()) as u32
}
