//! Stored runs as a comparison sees them, and what is asked of them by default.

use iodyno_model::{Observation, Question, TrialState};
use iodyno_store::{Run, Store, StoreError};

use crate::trials::{Series, load};

/// Every trial of a run that has ended, own or imported.
pub(crate) fn observations(store: &dyn Store, run: &Run) -> Result<Vec<Observation>, StoreError> {
    let name = run_name(run);
    if let Some(imported) = &run.plan.imported {
        let trials = imported.trials.iter();
        return Ok(trials
            .map(|trial| iodyno_judge::observe_imported(&name, trial))
            .collect());
    }
    let ended = run.trials.iter().filter(|t| t.state != TrialState::Running);
    ended
        .map(|stored| {
            let trial = load(store, stored.key, Series::Counts)?;
            let (configuration, workload) = run.plan.cell(stored.key.cell);
            Ok(iodyno_judge::observe(
                &name,
                configuration,
                workload,
                stored.key,
                &trial,
            ))
        })
        .collect()
}

/// What a run is called among others.
pub(crate) fn run_name(run: &Run) -> String {
    format!("run {}", run.summary.alias)
}

/// What runs are asked where the user says nothing: an own run what it was made for; an imported one how
/// its configurations differ, or whatever does; several runs by what tells them apart, their configurations
/// or workloads where they share none, otherwise the runs themselves.
pub(crate) fn default_question(runs: &[Run], observations: &[Observation]) -> Question {
    let (question, columns) = match runs {
        [run] if run.plan.imported.is_none() => return run.plan.question.clone(),
        [run] => (
            run.plan.question.clone(),
            iodyno_judge::most_telling(observations),
        ),
        _ => (
            Question::default(),
            Some(iodyno_judge::telling_runs_apart(observations)),
        ),
    };
    let columns = columns.unwrap_or_else(|| question.columns.clone());
    Question {
        rows: iodyno_judge::default_rows(&columns, observations),
        columns,
        ..question
    }
}
