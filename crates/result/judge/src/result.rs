//! The result of comparing the trials of stored runs.

use std::collections::{BTreeMap, BTreeSet};

use iodyno_model::{
    Claim, Comparison, Metric, Observation, Question, Repeated, Run, RunState, SearchAnswer,
};

use crate::{CompareError, Probe, chosen, repeats, search_answer, without_searches};
use iodyno_model::ordered::entry;

/// The result of a comparison.
pub enum CompareResult {
    /// Columns against their baseline.
    Compared(Box<Comparison>),
    /// Repeated trials of a single configuration.
    Repeated {
        /// The name of the run.
        name: String,
        /// The values of the rows' dimensions, and the metrics: one row, or several workloads or jobs.
        rows: Vec<(String, Vec<Repeated>)>,
        /// The A/A comparison, if the baseline ran twice in each round.
        again: Option<Box<Comparison>>,
    },
    /// Searches, and what else there is.
    Searched {
        /// The name of the run.
        name: String,
        /// Their answers.
        searches: Vec<SearchAnswer>,
        /// The result of the trials that are not part of a search.
        other: Option<Box<CompareResult>>,
    },
}

impl CompareResult {
    /// Adds a remark for each run that is not complete: its number of rounds may depend on the verdict.
    pub fn mark_provisional(&mut self, runs: &[Run]) {
        let CompareResult::Compared(comparison) = self else {
            return;
        };
        for run in runs {
            let how = match run.summary.state {
                RunState::Running => "is not complete",
                RunState::Interrupted => "was interrupted",
                RunState::Completed | RunState::Failed | RunState::Refused => continue,
            };
            comparison.notes.push(format!(
                "provisional: {} {how}; the verdict is final after {} rounds",
                run.name(),
                run.summary.rounds
            ));
        }
    }

    /// The answers of searches that are not part of [`CompareResult::comparison`].
    pub fn searches(&self) -> &[SearchAnswer] {
        match self {
            CompareResult::Searched { searches, .. } => searches,
            CompareResult::Compared(_) | CompareResult::Repeated { .. } => &[],
        }
    }

    /// The comparison, for the formats other than text.
    pub fn comparison(&self) -> Option<&Comparison> {
        match self {
            CompareResult::Compared(comparison) => Some(comparison),
            CompareResult::Repeated { again, .. } => again.as_deref(),
            CompareResult::Searched { other, .. } => other.as_ref()?.comparison(),
        }
    }
}

/// Compares the trials of some runs. With a single column, an A/A baseline is compared with itself, and
/// the repetitions of a single cell are summarized. The trials of searches are not compared, and removed from `trials`.
pub fn compare_runs(
    runs: &[Run],
    trials: &mut Vec<Observation>,
    question: &Question,
) -> Result<CompareResult, CompareError> {
    let searches = searches(runs, trials, question);
    trials.retain(|trial| trial.probe.is_none());
    if searches.is_empty() {
        return compared(runs, trials, question);
    }
    // The trials that are left may be those of other workloads than the chosen searches.
    let other = match trials.iter().any(|it| chosen(it, question)) {
        false => None,
        true => {
            let plans = runs.iter().map(|run| &run.plan);
            let question = without_searches(question, plans);
            Some(compared(runs, trials, &question)?)
        }
    };
    Ok(match other {
        Some(CompareResult::Compared(comparison)) => {
            CompareResult::Compared(Box::new(Comparison {
                searches,
                ..*comparison
            }))
        }
        other => CompareResult::Searched {
            name: title_of(runs),
            searches,
            other: other.map(Box::new),
        },
    })
}

/// The answers of all searches, in the order of the plans; with conditions, of those that have a trial that meets them.
pub fn searches(runs: &[Run], trials: &[Observation], question: &Question) -> Vec<SearchAnswer> {
    let mut answers = Vec::new();
    for run in runs {
        let name = run.name();
        for (configuration, workload) in run.plan.each_cell() {
            let Some(search) = &workload.search else {
                continue;
            };
            let of_cell = |trial: &&Observation| {
                trial.dimension(Observation::RUN) == name
                    && trial.dimension(Observation::CONFIGURATION) == configuration.name
                    && trial.dimension(Observation::WORKLOAD) == workload.name
            };
            let chosen = |trial: &Observation| chosen(trial, question);
            let mut own = trials.iter().filter(of_cell);
            if !question.only.is_empty() && !own.any(chosen) {
                continue;
            }
            // A later attempt at a round replaces an earlier one.
            let probes: BTreeMap<Option<u32>, Probe> = trials
                .iter()
                .filter(of_cell)
                .filter_map(|trial| Some((trial.round, Probe::of(search, workload, trial)?)))
                .collect();
            let probes: Vec<Probe> = probes.into_values().collect();
            let names = (configuration.name.as_str(), workload.name.as_str());
            answers.push(search_answer(names, search, &probes));
        }
    }
    answers
}

fn compared(
    runs: &[Run],
    trials: &mut [Observation],
    question: &Question,
) -> Result<CompareResult, CompareError> {
    let claims = claims(runs);
    let kept: Vec<&Observation> = trials
        .iter()
        .filter(|trial| chosen(trial, question))
        .collect();
    let own = kept.iter().filter(|trial| !trial.again);
    let columns: BTreeSet<&str> = own
        .map(|trial| trial.dimension(&question.columns))
        .collect();
    let twice = trials.iter().any(|trial| trial.again);
    let alone = match runs {
        // Workloads that are not compared with each other.
        [run] if cells(&kept) > 1 => {
            !twice && run.plan.imported.is_none() && question.columns == run.plan.question.columns
        }
        runs => runs.len() == 1,
    };
    // A run that was to repeat its trials can have ended after one.
    let several = kept.len() > 1 || runs.iter().any(|run| run.plan.rounds > 1);
    let alone = alone && several && columns.len() == 1 && repeated(&kept);
    let mut again = None;
    if columns.len() == 1 && twice {
        trials.iter_mut().for_each(|trial| trial.again = false);
        again = crate::compare(&title_of(runs), trials, question, &[]).ok();
    }
    if alone {
        return Ok(CompareResult::Repeated {
            name: title_of(runs),
            rows: rows(trials, question),
            again: again.map(Box::new),
        });
    }
    let mut comparison = crate::compare(&title_of(runs), trials, question, &claims)?;
    if runs.len() > comparison.columns.len() && question.columns != Observation::RUN {
        comparison.name = title_of_sides(&comparison.columns, runs);
    }
    Ok(CompareResult::Compared(Box::new(comparison)))
}

/// The repetitions of each row. Of several rows, only the metrics that the question names, or otherwise the primary
/// one.
fn rows(trials: &[Observation], question: &Question) -> Vec<(String, Vec<Repeated>)> {
    let mut rows: Vec<(String, Vec<Observation>)> = Vec::new();
    for trial in trials.iter().filter(|trial| chosen(trial, question)) {
        entry(&mut rows, row_name(trial, question)).push(trial.clone());
    }
    let several = rows.len() > 1;
    let asked = |metric: &Repeated| question.metrics.contains(&metric.metric.name);
    let all = question.metrics.iter().any(|name| name == Metric::EVERY);
    let rows = rows.into_iter().map(|(name, trials)| {
        let mut metrics = repeats(&trials);
        if several && !all && metrics.iter().any(asked) {
            metrics.retain(asked);
        } else if several && !all {
            metrics.truncate(1);
        }
        (name, metrics)
    });
    rows.collect()
}

/// The name of the row of a trial.
pub(crate) fn row_name(trial: &Observation, question: &Question) -> String {
    let names = question.rows.iter().map(|row| trial.dimension(row));
    names.collect::<Vec<_>>().join(" ")
}

/// The rows of printed comparisons in imported runs.
pub fn claims(runs: &[Run]) -> Vec<Claim> {
    let imported = runs.iter().filter_map(|run| run.plan.imported.as_ref());
    imported
        .flat_map(|imported| imported.claims.clone())
        .collect()
}

/// Number of pairs of configuration and workload, without the second baseline of an A/A test.
fn cells(trials: &[&Observation]) -> usize {
    let own = trials.iter().filter(|trial| !trial.again);
    let pairs = own.map(|trial| {
        [Observation::CONFIGURATION, Observation::WORKLOAD].map(|name| trial.dimension(name))
    });
    pairs.collect::<BTreeSet<_>>().len()
}

/// Whether the trials are repetitions of the same work: imported trials can differ in their work.
fn repeated(trials: &[&Observation]) -> bool {
    let mut imported = trials.iter().filter(|trial| trial.source.is_some());
    let first = imported.next();
    first.is_none_or(|first| imported.all(|trial| trial.facts == first.facts))
}

/// The name of a comparison of these runs.
pub fn title_of(runs: &[Run]) -> String {
    match runs {
        [run] => format!("{}, {}", run.plan.name, run.name()),
        [baseline, others @ ..] => {
            let others: Vec<String> = others.iter().map(Run::name).collect();
            format!("{} against {}", others.join(", "), baseline.name())
        }
        [] => String::new(),
    }
}

/// `after against before, runs 3 and 4`: the sides, if they are not the runs themselves.
fn title_of_sides(columns: &[String], runs: &[Run]) -> String {
    let numbers: Vec<u64> = runs.iter().map(|run| run.summary.alias).collect();
    let noun = if runs.len() > 1 { "runs" } else { "run" };
    let runs = format!("{noun} {}", iodyno_units::list(&numbers));
    match columns {
        [baseline, others @ ..] if !others.is_empty() => {
            format!("{} against {baseline}, {runs}", others.join(", "))
        }
        _ => runs,
    }
}
