//! The number of rounds that a verdict needs, before, between and after rounds.

use std::collections::{BTreeMap, BTreeSet};

use iodyno_model::{ComparedRow, Comparison, Configuration, Observation, Plan, Question, Workload};
use iodyno_stats::{least_rounds, smallest_p_signed_rank};
use iodyno_units::significant;
use thiserror::Error;

use iodyno_units::counted;

/// Minimum number of rounds of a planned run: with fewer, one outlier decides.
const MIN_ROUNDS: u32 = 10;

/// This number of rounds cannot show any difference.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
#[error(
    "{} cannot decide: the smallest possible p is {}, and over {} it has to fall below {}; at least {least} \
     rounds can",
    counted(u64::from(*rounds), "round"),
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
    least(primaries, alpha).max(MIN_ROUNDS)
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
    least_rounds(primaries as usize, sound(alpha)).map_or(MIN_ROUNDS, |least| least as u32)
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

/// A question without the conditions on workloads that are searched in these plans, because the trials of searches are
/// not compared.
pub fn without_searches<'a>(
    question: &Question,
    plans: impl IntoIterator<Item = &'a Plan>,
) -> Question {
    let workloads: Vec<&Workload> = plans.into_iter().flat_map(|it| &it.workloads).collect();
    let compared = |dimension: &String, value: &String| {
        let own = || workloads.iter().filter(|it| it.name == *value);
        let searched = own().count() > 0 && own().all(|it| it.search.is_some());
        !(dimension == Observation::WORKLOAD && searched)
    };
    let mut question = question.clone();
    question.only.retain(|(name, value)| compared(name, value));
    question
        .metric_where
        .retain(|(name, value, _)| compared(name, value));
    question
}

/// The width of the widest interval among the primary ratios, (high − low) ÷ ratio; used by the stop rule. With a
/// workload: among those of its rows, or of its family's. `None` while there is no primary comparison or one has no
/// interval yet.
pub fn widest_interval(comparison: &Comparison, of: Option<&Workload>) -> Option<f64> {
    let mut widest = None;
    let question = &comparison.question;
    let place = question
        .rows
        .iter()
        .position(|row| row == Observation::WORKLOAD);
    let belongs = |row: &&ComparedRow| match (of, place.and_then(|place| row.name.get(place))) {
        (Some(workload), Some(name)) if row.family => workload.family.as_ref() == Some(name),
        (Some(workload), Some(name)) => workload.name == *name,
        _ => true,
    };
    let rows = comparison.rows.iter().filter(|row| !row.exploratory);
    let primaries = rows.filter(belongs);
    for cell in primaries.flat_map(|row| &row.cells) {
        let ratio = cell.ratio?;
        let (low, high) = ratio.interval?;
        let width = (high - low) / ratio.value;
        widest = Some(widest.map_or(width, |so_far: f64| so_far.max(width)));
    }
    widest
}

/// The number of primary comparisons of a plan's question: rows × candidates, without rows in which no difference is
/// expected; the workloads of a family have one row. Dimensions that only trials have are assumed to differ between
/// workloads, so that the number is never too small. 0 if there is nothing to compare.
pub fn primaries(plan: &Plan) -> u32 {
    let (rows, baseline) = rows(plan, &|_| true);
    // The p of a row without its baseline does not exist.
    let compared = rows.values().filter(|columns| {
        let mut columns = columns.iter();
        columns.any(|column| Some(column) == baseline.as_ref())
    });
    compared.map(|columns| columns.len() as u32 - 1).sum()
}

/// Whether the plan's question can compare two of these cells.
pub fn comparable(plan: &Plan, cells: &dyn Fn(u32) -> bool) -> bool {
    let (rows, _) = rows(plan, cells);
    rows.values().any(|columns| columns.len() > 1)
}

/// The columns of each row of the question of a plan, of these cells; and the baseline.
fn rows(
    plan: &Plan,
    cells: &dyn Fn(u32) -> bool,
) -> (BTreeMap<Vec<String>, BTreeSet<String>>, Option<String>) {
    let question = &plan.question;
    let all = (0..).zip(plan.each_cell());
    let cells = all.filter_map(|(cell, pair)| cells(cell).then_some(pair));
    // The trials of a search are not compared.
    let own = cells.filter(|(configuration, workload)| {
        !configuration.again && !workload.again && workload.search.is_none()
    });
    let by_family = |workload: &Workload| {
        let family = workload.family.as_ref();
        let mut others = plan
            .workloads
            .iter()
            .filter(|other| other.name != workload.name);
        let has = |name: &str| question.rows.iter().any(|row| row == name);
        let apart = has(Observation::FAMILY) || !has(Observation::WORKLOAD);
        let shared = family.is_some() && others.any(|other| other.family.as_ref() == family);
        shared && !apart
    };
    let value = |(configuration, workload): (&Configuration, &Workload), dimension: &str| {
        let axes = [&workload.dimensions, &configuration.dimensions];
        match dimension {
            Observation::CONFIGURATION => configuration.name.clone(),
            Observation::FAMILY => workload.family.clone().unwrap_or_default(),
            // A dimension that only trials have: at most one value per workload.
            _ => axes
                .into_iter()
                .find_map(|axes| axes.get(dimension))
                .unwrap_or(&workload.name)
                .clone(),
        }
    };
    let matches = |cell: (&Configuration, &Workload)| {
        let known = [Observation::CONFIGURATION, Observation::WORKLOAD];
        let conditions = || {
            question
                .only
                .iter()
                .filter(|(d, _)| known.contains(&d.as_str()))
        };
        let met = |dimension: &str| {
            let mut asked = conditions().filter(|(d, _)| d == dimension).peekable();
            asked.peek().is_none() || asked.any(|(d, v)| value(cell, d) == *v)
        };
        known.into_iter().all(met)
    };
    let expected_equal = |cell: (&Configuration, &Workload)| {
        let known = [Observation::CONFIGURATION, Observation::WORKLOAD];
        let mut floor = question.floor.iter();
        floor.any(|(d, v)| known.contains(&d.as_str()) && value(cell, d) == *v)
    };
    let mut rows: BTreeMap<Vec<String>, BTreeSet<String>> = BTreeMap::new();
    let mut baseline = question.baseline.clone();
    for cell in own.filter(|cell| matches(*cell)) {
        let column = value(cell, &question.columns);
        baseline.get_or_insert_with(|| column.clone());
        if !expected_equal(cell) {
            let dimensions = question.rows.iter().filter(|row| **row != question.columns);
            let mut name: Vec<String> = dimensions.map(|d| value(cell, d)).collect();
            if by_family(cell.1) {
                let workload = question.rows.iter().filter(|row| **row != question.columns);
                for (place, _) in workload
                    .enumerate()
                    .filter(|(_, d)| *d == Observation::WORKLOAD)
                {
                    name[place] = format!("family {}", value(cell, Observation::FAMILY));
                }
            }
            rows.entry(name).or_default().insert(column);
        }
    }
    (rows, baseline)
}
