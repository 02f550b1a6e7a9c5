//! Observations from stored runs, and the default question.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use iodyno_model::printable::{on_one_line, steers};
use iodyno_model::{
    Configuration, Diagnostic, Observation, Plan, Question, Run, RunId, Trial, TrialKey,
    TrialState, Workload,
};
use iodyno_store::{SqliteStore, Store, StoreError};

use crate::failure::Failure;
use crate::trials::{Series, load};

/// Observations of all ended or imported trials of a run.
pub(crate) fn observations(store: &dyn Store, run: &Run) -> Result<Vec<Observation>, StoreError> {
    observations_by(store, run, |name, configuration, workload, key, trial| {
        vec![iodyno_judge::observe(
            name,
            configuration,
            workload,
            key,
            trial,
        )]
    })
}

/// The same, with an observation for each job of a trial.
pub(crate) fn job_observations(
    store: &dyn Store,
    run: &Run,
) -> Result<Vec<Observation>, StoreError> {
    observations_by(store, run, iodyno_judge::observe_jobs)
}

/// The same, with an observation for each node of a trial.
pub(crate) fn node_observations(
    store: &dyn Store,
    run: &Run,
) -> Result<Vec<Observation>, StoreError> {
    observations_by(store, run, iodyno_judge::observe_nodes)
}

fn observations_by(
    store: &dyn Store,
    run: &Run,
    observe: impl Fn(&str, &Configuration, &Workload, TrialKey, &Trial) -> Vec<Observation>,
) -> Result<Vec<Observation>, StoreError> {
    let name = run.name();
    if run.plan.imported.is_some() {
        return Ok(imported_observations(run));
    }
    let mut observations = Vec::new();
    for key in ended(run) {
        let trial = load(store, key, Series::Counts)?;
        let (configuration, workload) = run.plan.cell(key.cell);
        observations.extend(observe(&name, configuration, workload, key, &trial));
    }
    Ok(observations)
}

/// Observations of the trials of an imported run; empty for other runs.
pub(crate) fn imported_observations(run: &Run) -> Vec<Observation> {
    let trials = run.plan.imported.iter().flat_map(|it| it.trials.iter());
    trials
        .map(|trial| iodyno_judge::observe_imported(&run.name(), &trial))
        .collect()
}

/// The ended trials of a run.
pub(crate) fn ended(run: &Run) -> impl Iterator<Item = TrialKey> {
    let trials = run.trials.iter();
    let ended = trials.filter(|stored| stored.state != TrialState::Running);
    ended.map(|stored| stored.key)
}

/// The runs of these names, in their order; `3-7` means the stored runs with these numbers. Reports every name that
/// matches no run.
pub(crate) fn find_runs(names: &[String], store: &SqliteStore) -> Result<Vec<RunId>, Failure> {
    let mut runs = Vec::new();
    let mut faults = Vec::new();
    for name in names {
        // A run from elsewhere can have such a name.
        let found = match range(name) {
            Some(numbers) => in_range(name, numbers, store),
            None => store.find(name).map(|id| vec![id]).map_err(Failure::from),
        };
        match found {
            Ok(found) => runs.extend(found),
            Err(failure) => faults.extend(failure.faults),
        }
    }
    match faults.is_empty() {
        true => Ok(runs),
        false => Err(Failure::input(faults)),
    }
}

/// The largest length of a run's name, bytes.
const MAX_NAME_LEN: usize = 200;

/// The fault of a run name that could mean other runs, with a hint.
pub(crate) fn name_fault(name: &str) -> Option<Diagnostic> {
    let shown: String = on_one_line(name).chars().take(60).collect();
    // Blanks around a name do not count where a run is looked for.
    let why = match name.trim() {
        "" => "is empty",
        _ if name.len() > MAX_NAME_LEN => "is longer than 200 bytes",
        name if name.parse::<i128>().is_ok() => "is a number",
        name if range(name).is_some() => "is a range of numbers",
        "last" => "stands for the last run",
        name if name.starts_with("last~") => "stands for an earlier run",
        name if name.starts_with('-') => "begins as a flag",
        _ if name.chars().any(steers) => "has control characters",
        _ => return None,
    };
    let hint = "a name is text of at most 200 bytes that is not a number, a range or `last`, which stand for other runs";
    Some(Diagnostic::error(format!("`{shown}` cannot be the name of a run: it {why}")).hint(hint))
}

/// A name that its user did not choose, changed if it could mean other runs.
pub(crate) fn usable_name(name: String) -> String {
    if name.is_empty() || name_fault(&name).is_none() {
        return name;
    }
    let short = match name
        .char_indices()
        .find(|(at, c)| at + c.len_utf8() > MAX_NAME_LEN - 8)
    {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name,
    };
    match name_fault(&short) {
        Some(_) => format!("run {}", on_one_line(&short)),
        None => short,
    }
}

/// Parses `3-7`.
fn range(name: &str) -> Option<RangeInclusive<u64>> {
    let (first, last) = name.split_once('-')?;
    let number = |text: &str| text.trim().parse::<u64>().ok();
    Some(number(first)?..=number(last)?)
}

fn in_range(
    name: &str,
    numbers: RangeInclusive<u64>,
    store: &SqliteStore,
) -> Result<Vec<RunId>, Failure> {
    let stored = store.runs(usize::MAX, 0)?;
    let within = stored
        .iter()
        .rev()
        .filter(|run| numbers.contains(&run.alias));
    let runs: Vec<RunId> = within.map(|run| run.id).collect();
    match runs.is_empty() {
        true => Err(Failure::one(
            Diagnostic::error(format!("no run has a number in `{name}`"))
                .hint("`iodyno list` shows all runs with their numbers"),
        )),
        false => Ok(runs),
    }
}

/// Adds the runs' names as a dimension if several runs have the same name: such runs are repetitions.
pub(crate) fn name_runs(runs: &[Run], observations: &mut [Observation]) {
    let names: BTreeMap<String, &str> = runs
        .iter()
        .map(|run| (run.name(), run.plan.name.as_str()))
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

/// The question of a plan. Conditions that no trial meets are left out, because an interrupted run may lack all trials
/// of a workload.
pub(crate) fn question_of(plan: &Plan, observations: &[Observation]) -> Question {
    let mut question = iodyno_judge::question_of(plan);
    let there = |dimension: &str, value: &str| {
        let mut trials = observations.iter();
        trials.any(|trial| trial.dimension(dimension) == value)
    };
    question.only.retain(|(name, value)| there(name, value));
    let metrics = &mut question.metric_where;
    metrics.retain(|(name, value, _)| there(name, value));
    question
}

/// The default question: for a measured run, that of its plan; for an imported run, the dimension in which its trials
/// differ, configurations first; for several runs, the runs themselves, or their configurations, workloads or names if
/// these identify the runs.
pub(crate) fn default_question(runs: &[Run], observations: &[Observation]) -> Question {
    let (question, columns) = match runs {
        [run] if run.plan.imported.is_none() => return question_of(&run.plan, observations),
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
        rows: iodyno_judge::default_rows(&columns, &[], observations),
        columns,
        inferred: true,
        ..question
    }
}

/// The named runs. Reports every name that matches no run.
pub(crate) fn runs(names: &[String], store: &SqliteStore) -> Result<Vec<Run>, Failure> {
    let mut runs: Vec<Run> = Vec::new();
    let mut faults = Vec::new();
    for id in find_runs(names, store)? {
        match runs.iter().find(|run| run.summary.id == id) {
            Some(twice) => faults.push(
                Diagnostic::error(format!("{} is given twice", twice.name()))
                    .hint("to compare the configurations of a run, give it alone"),
            ),
            None => runs.push(store.run(id)?),
        }
    }
    match faults.is_empty() {
        true => Ok(runs),
        false => Err(Failure::input(faults)),
    }
}
