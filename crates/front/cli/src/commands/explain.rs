//! `iodyno explain`: why one configuration is faster than another.

use iodyno_judge::QuestionError;
use iodyno_model::printable::on_one_line;
use iodyno_model::{
    Costs, Diagnostic, Explained, Explanation, Observation, Question, Repeated, Run, Workload,
    closest,
};
use iodyno_report::{Style, compare, explain as draw};
use iodyno_store::SqliteStore;

use crate::args::{ExplainArgs, ExplainFormat};
use crate::commands::series::telemetry;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::observations::{default_question, ended, imported_observations, name_runs, runs};
use crate::screen::write_out;
use crate::trials::{Series, load};

/// Explains a run, or a run against another one.
pub(crate) fn explain(args: &ExplainArgs, context: &Context) -> Result<Exit, Failure> {
    let store = context.store_to_read()?;
    let names: Vec<String> = args.against.iter().chain([&args.run]).cloned().collect();
    let runs = runs(&names, &store)?;
    let trials = Costed::load(&store, &runs)?;
    let default = default_question(&runs, &trials.trials);
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
    let mut explanation = explained(trials, &runs, &question)?;
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

/// The trials of some runs, with the costs of their ops.
pub(crate) struct Costed {
    pub(crate) trials: Vec<Observation>,
    costs: Vec<Option<Costs>>,
}

impl Costed {
    /// Reads each trial once.
    pub(crate) fn load(store: &SqliteStore, runs: &[Run]) -> Result<Costed, Failure> {
        let (mut trials, mut costs) = (Vec::new(), Vec::new());
        for run in runs {
            let name = run.name();
            trials.extend(imported_observations(run));
            costs.resize(trials.len(), None);
            for key in ended(run) {
                let mut trial = load(store, key, Series::Counts)?;
                let (configuration, workload) = run.plan.cell(key.cell);
                trials.push(iodyno_judge::observe(
                    &name,
                    configuration,
                    workload,
                    key,
                    &trial,
                ));
                trial.telemetry = telemetry(store, run, &trial)?;
                costs.push(iodyno_judge::costs(workload, &trial));
            }
        }
        name_runs(runs, &mut trials);
        Ok(Costed { trials, costs })
    }

    /// Without the trials of searches, which are not compared.
    fn compared(self) -> (Vec<Observation>, Vec<Option<Costs>>) {
        let all = self.trials.into_iter().zip(self.costs);
        all.filter(|(trial, _)| trial.probe.is_none()).unzip()
    }
}

/// What limits repeated trials that are compared with nothing, in the order of their rows; empty if it is not known.
pub(crate) fn limits(
    trials: Costed,
    runs: &[Run],
    question: &Question,
    rows: &[(String, Vec<Repeated>)],
    style: Style,
) -> String {
    let mut workloads = runs.iter().flat_map(|run| &run.plan.workloads);
    if workloads.all(Workload::only_commands) {
        return String::new();
    }
    let (trials, costs) = trials.compared();
    let mut limits = iodyno_judge::limits(&trials, &costs, question);
    limits.sort_by_key(|(name, _)| rows.iter().position(|(row, _)| row == name));
    compare::limits(&limits, style)
}

/// Explains the comparison that a question asks for.
pub(crate) fn explained(
    trials: Costed,
    runs: &[Run],
    question: &Question,
) -> Result<Explanation, Failure> {
    let (trials, costs) = trials.compared();
    let name = iodyno_judge::title_of(runs);
    iodyno_judge::explain(&name, &trials, &costs, question).map_err(|error| {
        let alone = error.faults.iter().find_map(|fault| match fault {
            QuestionError::OneColumn {
                dimension, value, ..
            } => Some((dimension, value)),
            _ => None,
        });
        let Some((dimension, value)) = alone else {
            return error.into();
        };
        // The names of other varying dimensions would not help: `explain` follows the question of the run.
        let message =
            format!("{name} has one {dimension}, `{value}`: there is no difference to explain");
        let hint = "explain it against another run: `iodyno explain RUN --against OTHER`";
        Failure::one(Diagnostic::error(on_one_line(&message)).hint(hint))
    })
}

/// Keeps the comparisons that have all of these names.
fn choose(explanation: &mut Explanation, cells: &[String]) -> Result<(), Failure> {
    if cells.is_empty() {
        return Ok(());
    }
    let has = |(candidate, row): (&String, &Vec<String>), name: &String| {
        candidate == name || row.contains(name)
    };
    let names_of = |it: &Explained| (it.of.columns.1.clone(), it.of.row.clone());
    let all: Vec<(String, Vec<String>)> = (explanation.comparisons.iter().map(names_of))
        .chain((explanation.families.iter()).map(|it| (it.of.columns.1.clone(), it.of.row.clone())))
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
            if comparisons.any(|it| it.of.columns.0 == *name) {
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
        .retain(|it| chosen(&it.of.columns.1, &it.of.row));
    let families = &explanation.families;
    let is_member = |it: &Explained| families.iter().any(|family| family.has(it));
    explanation
        .comparisons
        .retain(|it| chosen(&it.of.columns.1, &it.of.row) || is_member(it));
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
    trials: Costed,
    runs: &[Run],
    question: &Question,
    style: Style,
) -> Result<String, Failure> {
    Ok(draw::reasons(&explained(trials, runs, question)?, style))
}
