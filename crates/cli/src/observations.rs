//! Observations from stored runs, and the default question.

use std::collections::{BTreeMap, BTreeSet};

use iodyno_model::{Observation, Question, TrialState};
use iodyno_store::{Run, Store, StoreError};

use crate::trials::{Series, load};

/// Observations of all ended or imported trials of a run.
pub(crate) fn observations(store: &dyn Store, run: &Run) -> Result<Vec<Observation>, StoreError> {
    let name = run_name(run);
    if let Some(imported) = &run.plan.imported {
        let trials = imported.trials.iter();
        return Ok(trials
            .map(|trial| iodyno_judge::observe_imported(&name, &trial))
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

/// The name of a run in a comparison of runs.
pub(crate) fn run_name(run: &Run) -> String {
    format!("run {}", run.summary.alias)
}

/// Adds the runs' names as a dimension if several runs have the same name: such runs are repetitions.
pub(crate) fn name_runs(runs: &[Run], observations: &mut [Observation]) {
    let names: BTreeMap<String, &str> = runs
        .iter()
        .map(|run| (run_name(run), run.plan.name.as_str()))
        .collect();
    let different: BTreeSet<&str> = names.values().copied().collect();
    if different.len() < 2 || different.len() == names.len() {
        return;
    }
    for observation in observations {
        if let Some(name) = names.get(observation.dimension(Observation::RUN)) {
            let dimension = Observation::NAME.to_owned();
            observation.dimensions.insert(dimension, (*name).to_owned());
        }
    }
}

/// The default question: for a measured run, that of its plan; for an imported run, the dimension in which its trials
/// differ, configurations first; for several runs, the runs themselves, or their configurations, workloads or names if
/// these identify the runs.
pub(crate) fn default_question(runs: &[Run], observations: &[Observation]) -> Question {
    let (question, columns) = match runs {
        [run] if run.plan.imported.is_none() => return iodyno_judge::question_of(&run.plan),
        [run] => (
            run.plan.question.clone(),
            iodyno_judge::likeliest_axis(observations),
        ),
        _ => (
            Question::default(),
            Some(iodyno_judge::distinguishing_runs(observations)),
        ),
    };
    let columns = columns.unwrap_or_else(|| question.columns.clone());
    let own = runs.iter().filter(|run| run.plan.imported.is_none());
    Question {
        looks: own
            .filter_map(|run| iodyno_judge::question_of(&run.plan).looks)
            .max(),
        rows: iodyno_judge::default_rows(&columns, observations),
        columns,
        inferred: true,
        ..question
    }
}
