//! `iodyno explain`: why one configuration is faster than another.

use iodyno_model::{Costs, Diagnostic, Explained, Explanation, Observation, Question, TrialState};
use iodyno_report::{Style, explain as draw};
use iodyno_store::{Run, SqliteStore};

use crate::args::{ExplainArgs, ExplainFormat};
use crate::commands::compare::{faults, runs, title};
use crate::commands::series::telemetry;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::observations::{default_question, name_runs, observations};
use crate::screen::write_out;
use crate::trials::{Series, load};

/// Explains a run, or a run against another one.
pub(crate) fn explain(args: &ExplainArgs, context: &Context) -> Result<Exit, Failure> {
    let store = context.store_to_read()?;
    let names: Vec<String> = args.against.iter().chain([&args.run]).cloned().collect();
    let runs = runs(&names, &store)?;
    let mut trials = trials(&store, &runs)?;
    let observed: Vec<Observation> = trials.iter().map(|(trial, _)| trial.clone()).collect();
    let default = default_question(&runs, &observed);
    trials.retain(|(trial, _)| trial.probe.is_none());
    let question = Question {
        baseline: args.baseline.clone().or(default.baseline),
        metrics: match &args.metric {
            Some(metric) => vec![metric.clone()],
            None => default.metrics,
        },
        primary_metrics: 1,
        metric_where: match args.metric {
            Some(_) => Vec::new(),
            None => default.metric_where,
        },
        ..default
    };
    let mut explanation = explained(&runs, trials, &question)?;
    choose(&mut explanation, &args.cells)?;
    let format = match args.json {
        true => ExplainFormat::Json,
        false => args.format,
    };
    write_out(match format {
        ExplainFormat::Text => draw::text(&explanation, context.style_out()),
        ExplainFormat::Markdown => draw::markdown(&explanation),
        ExplainFormat::Asciidoc => draw::asciidoc(&explanation),
        ExplainFormat::Json => draw::json(&explanation),
    })?;
    Ok(Exit::Fine)
}

/// The trials of some runs with what their ops cost.
pub(crate) fn trials(
    store: &SqliteStore,
    runs: &[Run],
) -> Result<Vec<(Observation, Option<Costs>)>, Failure> {
    let mut trials = Vec::new();
    for run in runs {
        let mut observed = observations(store, run)?;
        name_runs(runs, &mut observed);
        if run.plan.imported.is_some() {
            trials.extend(observed.into_iter().map(|observation| (observation, None)));
            continue;
        }
        let ended = run
            .trials
            .iter()
            .filter(|it| it.state != TrialState::Running);
        for (stored, observation) in ended.zip(observed) {
            let mut trial = load(store, stored.key, Series::Counts)?;
            trial.telemetry = telemetry(store, run, stored.key)?;
            let (_, workload) = run.plan.cell(stored.key.cell);
            trials.push((observation, iodyno_judge::costs(workload, &trial)));
        }
    }
    Ok(trials)
}

/// Explains the comparison that a question asks for.
pub(crate) fn explained(
    runs: &[Run],
    trials: Vec<(Observation, Option<Costs>)>,
    question: &Question,
) -> Result<Explanation, Failure> {
    let (observations, costs): (Vec<_>, Vec<_>) = trials.into_iter().unzip();
    iodyno_judge::explain(&title(runs), &observations, &costs, question)
        .map_err(|error| Failure::input(faults(&error)))
}

/// Keeps the comparisons that have all of these names.
fn choose(explanation: &mut Explanation, cells: &[String]) -> Result<(), Failure> {
    let has = |it: &Explained, name: &String| it.columns.1 == *name || it.row.contains(name);
    let unknown: Vec<Diagnostic> = cells
        .iter()
        .filter(|name| !explanation.comparisons.iter().any(|it| has(it, name)))
        .map(|name| {
            let mut there: Vec<&str> = Vec::new();
            for it in &explanation.comparisons {
                for name in std::iter::once(&it.columns.1).chain(&it.row) {
                    if !there.contains(&name.as_str()) {
                        there.push(name);
                    }
                }
            }
            Diagnostic::error(format!("no comparison has the name `{name}`"))
                .hint(format!("there are {}", there.join(", ")))
        })
        .collect();
    if !unknown.is_empty() {
        return Err(Failure::input(unknown));
    }
    let chosen = |it: &Explained| cells.iter().all(|name| has(it, name));
    explanation.comparisons.retain(chosen);
    match explanation.comparisons.is_empty() {
        true => Err(Failure::one(Diagnostic::error(format!(
            "no comparison has all of the names {}",
            cells.join(", ")
        )))),
        false => Ok(()),
    }
}

/// The lines below the verdicts of a comparison: each difference in a sentence; empty without any. `question`: that of the run if it is
/// `None`.
pub(crate) fn reasons(
    store: &SqliteStore,
    runs: &[Run],
    question: Option<&Question>,
    style: Style,
) -> Result<String, Failure> {
    let mut trials = trials(store, runs)?;
    let observed: Vec<Observation> = trials.iter().map(|(trial, _)| trial.clone()).collect();
    let default = default_question(runs, &observed);
    trials.retain(|(trial, _)| trial.probe.is_none());
    let explanation = explained(runs, trials, question.unwrap_or(&default))?;
    Ok(draw::reasons(&explanation, style))
}
