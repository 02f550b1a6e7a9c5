//! `iodyno explain`: why one configuration is faster than another.

use iodyno_judge::QuestionError;
use iodyno_model::printable::on_one_line;
use iodyno_model::{
    Costs, Diagnostic, Explained, Explanation, Observation, Question, Repeated, Run, TrialState,
    closest,
};
use iodyno_report::{Style, explain as draw};
use iodyno_store::SqliteStore;

use crate::args::{ExplainArgs, ExplainFormat};
use crate::commands::series::telemetry;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::observations::{default_question, name_runs, observations, runs};
use crate::screen::write_out;
use crate::trials::{Series, load};

/// Explains a run, or a run against another one.
pub(crate) fn explain(args: &ExplainArgs, context: &Context) -> Result<Exit, Failure> {
    let store = context.store_to_read()?;
    let names: Vec<String> = args.against.iter().chain([&args.run]).cloned().collect();
    let runs = runs(&names, &store)?;
    let default = default_question(&runs, &observed(&store, &runs)?);
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
    let mut explanation = explained(&runs, &store, &question)?;
    choose(&mut explanation, &args.cells)?;
    let format = match args.json {
        true => ExplainFormat::Json,
        false => args.format,
    };
    write_out(match format {
        ExplainFormat::Text => draw::text(&explanation, context.style_out()),
        ExplainFormat::Json => draw::json(&explanation),
    })?;
    Ok(Exit::Fine)
}

/// The observations of some runs, with the names of the runs.
fn observed(store: &SqliteStore, runs: &[Run]) -> Result<Vec<Observation>, Failure> {
    let mut all = Vec::new();
    for run in runs {
        all.extend(observations(store, run)?);
    }
    name_runs(runs, &mut all);
    Ok(all)
}

/// The costs of the ops of each trial of a run, in the order of its observations.
fn costs_of(store: &SqliteStore, run: &Run, count: usize) -> Result<Vec<Option<Costs>>, Failure> {
    if run.plan.imported.is_some() {
        return Ok(vec![None; count]);
    }
    let ended = run
        .trials
        .iter()
        .filter(|it| it.state != TrialState::Running);
    let costs = ended.map(|stored| {
        let mut trial = load(store, stored.key, Series::Counts)?;
        trial.telemetry = telemetry(store, run, stored.key)?;
        let (_, workload) = run.plan.cell(stored.key.cell);
        Ok(iodyno_judge::costs(workload, &trial))
    });
    costs.collect()
}

/// The observations of some runs with the costs of their ops, without those of searches.
fn with_costs(
    runs: &[Run],
    store: &SqliteStore,
) -> Result<(Vec<Observation>, Vec<Option<Costs>>), Failure> {
    let (mut trials, mut costs) = (Vec::new(), Vec::new());
    for run in runs {
        let own = observations(store, run)?;
        costs.extend(costs_of(store, run, own.len())?);
        trials.extend(own);
    }
    name_runs(runs, &mut trials);
    let compared = trials.into_iter().zip(costs);
    Ok(compared.filter(|(trial, _)| trial.probe.is_none()).unzip())
}

/// What limits repeated trials that are compared with nothing, in the order of their rows; empty if it is not known.
pub(crate) fn limits(
    store: &SqliteStore,
    runs: &[Run],
    question: &Question,
    rows: &[(String, Vec<Repeated>)],
    style: Style,
) -> Result<String, Failure> {
    let (trials, costs) = with_costs(runs, store)?;
    let mut limits = iodyno_judge::limits(&trials, &costs, question);
    limits.sort_by_key(|(name, _)| rows.iter().position(|(row, _)| row == name));
    Ok(draw::limits(&limits, style))
}

/// Explains the comparison that a question asks for. Trials of searches are not compared.
pub(crate) fn explained(
    runs: &[Run],
    store: &SqliteStore,
    question: &Question,
) -> Result<Explanation, Failure> {
    let (trials, costs) = with_costs(runs, store)?;
    let imported = runs.iter().filter_map(|run| run.plan.imported.as_ref());
    let contradictions: Vec<_> = imported.flat_map(|it| it.contradictions.clone()).collect();
    let name = iodyno_judge::title_of(runs);
    match iodyno_judge::explain(&name, &trials, &costs, question) {
        Ok(explanation) => Ok(Explanation {
            contradictions,
            ..explanation
        }),
        // A write-up of one configuration can contradict itself.
        Err(error) if !contradictions.is_empty() && error.faults.iter().all(is_alone) => {
            Ok(Explanation {
                name,
                comparisons: Vec::new(),
                families: Vec::new(),
                contradictions,
            })
        }
        Err(error) => {
            let alone = error.faults.iter().find(|fault| is_alone(fault));
            let Some(QuestionError::OneColumn {
                dimension, value, ..
            }) = alone
            else {
                return Err(error.into());
            };
            // The names of other varying dimensions would not help: `explain` follows the question of the run.
            let message =
                format!("{name} has one {dimension}, `{value}`: there is no difference to explain");
            let message = on_one_line(&message);
            let hint = "explain it against another run: `iodyno explain RUN --against OTHER`";
            Err(Failure::one(Diagnostic::error(message).hint(hint)))
        }
    }
}

/// Whether nothing can be compared although the question is valid.
fn is_alone(fault: &QuestionError) -> bool {
    matches!(
        fault,
        QuestionError::NoTrials | QuestionError::OneColumn { .. }
    )
}

/// Keeps the comparisons that have all of these names.
fn choose(explanation: &mut Explanation, cells: &[String]) -> Result<(), Failure> {
    if cells.is_empty() {
        return Ok(());
    }
    let has = |(candidate, row): (&String, &Vec<String>), name: &String| {
        candidate == name || row.contains(name)
    };
    let names_of = |it: &Explained| (it.columns.1.clone(), it.row.clone());
    let all: Vec<(String, Vec<String>)> = (explanation.comparisons.iter().map(names_of))
        .chain((explanation.families.iter()).map(|it| (it.columns.1.clone(), it.row.clone())))
        .collect();
    let mut there: Vec<&str> = Vec::new();
    for (candidate, row) in &all {
        for name in std::iter::once(candidate).chain(row) {
            if !there.contains(&name.as_str()) {
                there.push(name);
            }
        }
    }
    let unknown: Vec<Diagnostic> = cells
        .iter()
        .filter(|name| {
            !all.iter()
                .any(|(candidate, row)| has((candidate, row), name))
        })
        .map(|name| {
            let mut comparisons = explanation.comparisons.iter();
            if comparisons.any(|it| it.columns.0 == *name) {
                let message =
                    format!("`{name}` is the baseline, with which the others are compared");
                let hint = format!("name another side or a row; there are {}", there.join(", "));
                return Diagnostic::error(message).hint(hint);
            }
            let message = format!("no comparison has the name `{name}`");
            Diagnostic::error(message).hint(match closest(name, there.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", there.join(", ")),
            })
        })
        .collect();
    if !unknown.is_empty() {
        return Err(Failure::input(unknown));
    }
    let chosen = |candidate: &String, row: &Vec<String>| {
        cells.iter().all(|name| has((candidate, row), name))
    };
    explanation
        .families
        .retain(|it| chosen(&it.columns.1, &it.row));
    let families = &explanation.families;
    let is_member = |it: &Explained| families.iter().any(|family| family.has(it));
    explanation
        .comparisons
        .retain(|it| chosen(&it.columns.1, &it.row) || is_member(it));
    match explanation.comparisons.is_empty() {
        true => Err(Failure::one(Diagnostic::error(format!(
            "no comparison has all of the names {}",
            cells.join(", ")
        )))),
        false => Ok(()),
    }
}

/// The lines below the verdicts of a comparison: each difference in a sentence; empty without any.
pub(crate) fn reasons(
    store: &SqliteStore,
    runs: &[Run],
    question: &Question,
    style: Style,
) -> Result<String, Failure> {
    let explanation = explained(runs, store, question)?;
    Ok(draw::reasons(&explanation, style))
}
