//! `iodyno compare`: compares configurations, workloads or runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use iodyno_experiment::table_file;
use iodyno_fio::{Host, SystemHost};
use iodyno_judge::{CompareResult, claims, title_of};
use iodyno_model::{
    ClosingTable, Comparison, Diagnostic, FactClass, FilledTable, Observation, Question, Regret,
    Run, SearchAnswer,
};
use iodyno_report::compare::{BandwidthUnit, ComparisonFormat};
use iodyno_report::{Markup, Style, compare as draw};
use iodyno_store::{SqliteStore, Store};

use crate::args::{CompareArgs, CompareFormat, FailOn, UnitChoice};
use crate::commands::explain::{Costed, limits, reasons};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interleaved::{advice, at_equal_rate};
use crate::observations::{
    default_question, job_observations, name_runs, node_observations, observations, question_of,
    runs,
};
use crate::screen::write_out;
use crate::selection::{expanded, pairs};

/// Compares runs and prints the result.
pub(crate) fn compare(args: &CompareArgs, context: &Context) -> Result<Exit, Failure> {
    let store = context.store_to_read()?;
    let runs = runs(&args.runs, &store)?;
    let by = (
        named(args, iodyno_judge::JOB),
        named(args, iodyno_judge::NODE),
    );
    if by == (true, true) {
        let fault = Diagnostic::error("`job` and `node` cannot be compared at once");
        return Err(Failure::input(vec![fault.hint("leave one of them out")]));
    }
    let laid_out = args.layout || args.table.is_some();
    let text = args.format == CompareFormat::Text && !args.json && !args.regret && !laid_out;
    // Host data are recorded for whole trials, not for single jobs or nodes.
    let costed = match text && by == (false, false) {
        true => Some(Costed::load(&store, &runs)?),
        false => None,
    };
    let mut trials = costed.as_ref().map_or(Vec::new(), |it| it.trials.clone());
    for run in runs.iter().filter(|_| costed.is_none()) {
        trials.extend(match by {
            (true, _) => job_observations(&store, run)?,
            (_, true) => node_observations(&store, run)?,
            _ => observations(&store, run)?,
        });
    }
    let claims = claims(&runs);
    let fail_on = FailOn::of(&args.fail_on, args.bisect);
    if trials.is_empty() && !claims.is_empty() && !args.json && args.format == CompareFormat::Text {
        let checks = iodyno_judge::check_claims(&claims, &trials);
        write_out(draw::claims_text(&checks, context.style_out()))?;
        return Ok(Exit::of_verdict(false, true, &fail_on));
    }
    name_runs(&runs, &mut trials);
    let question = question(args, &runs, &trials)?;
    if laid_out {
        return in_layout(args, &runs, &trials, &question, &store, context);
    }
    let shown = ComparisonFormat {
        bandwidth: match args.unit {
            None => BandwidthUnit::Scaled,
            Some(UnitChoice::Decimal) => BandwidthUnit::Decimal,
            Some(UnitChoice::Binary) => BandwidthUnit::Binary,
        },
        mean: args.mean,
        verbose: context.verbose > 0,
        ..self::shown(&runs)
    };
    if args.regret {
        let regret = regret(&runs, &trials, &question)?;
        return print_regret(&regret, args, context);
    }
    let mut judged = judge(&runs, &mut trials, &question)?;
    judged.mark_provisional(&runs);
    if let CompareResult::Compared(comparison) = &mut judged {
        let advice = advice(comparison, &runs);
        comparison.notes.extend(advice);
    }
    let format = format(args);
    if let CompareResult::Searched { other: None, .. } = &judged {
        let faults = without_effect(args);
        if !faults.is_empty() {
            return Err(Failure::input(faults));
        }
    }
    if let CompareResult::Searched { name, searches, .. } = &judged {
        let text = match format {
            CompareFormat::Text => Some(result_text(&judged, &shown, context.style_out())),
            CompareFormat::Markdown => {
                Some(draw::searches_markup(name, searches, Markup::Markdown))
            }
            CompareFormat::Asciidoc => {
                Some(draw::searches_markup(name, searches, Markup::AsciiDoc))
            }
            CompareFormat::Csv => Some(draw::searches_csv(searches)),
            CompareFormat::Json => Some(draw::searches_json(name, searches)),
            CompareFormat::Benchstat | CompareFormat::Junit | CompareFormat::Github => None,
        };
        if let Some(text) = text {
            write_out(text)?;
            return Ok(exit_of(&judged, &fail_on));
        }
    }
    let Some(comparison) = judged.comparison() else {
        if format != CompareFormat::Text {
            return Err(Failure::one(
                Diagnostic::error("there is only one configuration to compare").hint(
                    "`--format text` summarizes its trials; `iodyno show --json` prints each",
                ),
            ));
        }
        let style = context.style_out();
        let limits = match (costed, &judged) {
            (Some(trials), CompareResult::Repeated { rows, .. }) => {
                limits(trials, &runs, &question, rows, style)
            }
            _ => String::new(),
        };
        write_out(result_text(&judged, &shown, style) + &limits)?;
        return Ok(exit_of(&judged, &fail_on));
    };
    write_out(match format {
        CompareFormat::Text => {
            let text = result_text(&judged, &shown, context.style_out());
            let why = costed.map_or(Ok(String::new()), |trials| {
                reasons(trials, &runs, &comparison.question, context.style_out())
            })?;
            text + &why
        }
        CompareFormat::Markdown => draw::markup(comparison, &shown, Markup::Markdown),
        CompareFormat::Asciidoc => draw::markup(comparison, &shown, Markup::AsciiDoc),
        CompareFormat::Csv => draw::csv(comparison),
        CompareFormat::Json => {
            let table = own_layout(&runs)
                .and_then(|table| filled(&runs, &trials, &question, table, &store).ok());
            draw::json(comparison, table.as_ref().map(|(_, table)| table))
        }
        CompareFormat::Benchstat => draw::benchstat(&trials, &comparison.question),
        CompareFormat::Junit => draw::junit(comparison),
        CompareFormat::Github => draw::annotations(comparison),
    })?;
    Ok(exit_of(&judged, &fail_on))
}

fn format(args: &CompareArgs) -> CompareFormat {
    match args.json {
        true => CompareFormat::Json,
        false => args.format,
    }
}

/// Prints the table of the runs' experiment, or of a file.
fn in_layout(
    args: &CompareArgs,
    runs: &[Run],
    trials: &[Observation],
    question: &Question,
    store: &dyn Store,
    context: &Context,
) -> Result<Exit, Failure> {
    let layout = match &args.table {
        Some(file) => layout_in(file, trials)?,
        None => own_layout(runs).cloned().ok_or_else(|| {
            let message = match runs {
                [run] => format!("{} has no `[table]`", run.name()),
                _ => "the runs do not have the same `[table]`".to_owned(),
            };
            let hint = "give a file, `--table FILE`, or columns and rows: `--cols configuration,bs --rows rw`";
            Failure::input(vec![Diagnostic::error(message).hint(hint)])
        })?,
    };
    let (comparison, table) = filled(runs, trials, question, &layout, store)?;
    write_out(match format(args) {
        CompareFormat::Text => draw::closing_table(&table, context.style_out()),
        CompareFormat::Markdown => draw::closing_markup(&table, Markup::Markdown),
        CompareFormat::Asciidoc => draw::closing_markup(&table, Markup::AsciiDoc),
        CompareFormat::Csv => draw::csv(&comparison),
        CompareFormat::Json => draw::json(&comparison, Some(&table)),
        CompareFormat::Benchstat => draw::benchstat(trials, &comparison.question),
        CompareFormat::Junit => draw::junit(&comparison),
        CompareFormat::Github => draw::annotations(&comparison),
    })?;
    let fail_on = FailOn::of(&args.fail_on, args.bisect);
    Ok(match &table.baseline {
        None => Exit::of_verdict(false, true, &fail_on),
        Some(_) => exit_of(&CompareResult::Compared(Box::new(comparison)), &fail_on),
    })
}

/// The layout that all runs have from their experiments.
pub(super) fn own_layout(runs: &[Run]) -> Option<&ClosingTable> {
    let (first, others) = runs.split_first()?;
    let table = first.plan.table.as_ref()?;
    let same = others
        .iter()
        .all(|run| run.plan.table.as_ref() == Some(table));
    same.then_some(table)
}

/// The layout in a file, whose dimensions and metrics have to be those of the trials.
pub(super) fn layout_in(file: &Path, trials: &[Observation]) -> Result<ClosingTable, Failure> {
    let shown = file.display().to_string();
    let text = SystemHost.read(file).map_err(|error| {
        Failure::input(vec![Diagnostic::error(format!(
            "cannot read `{shown}`: {error}"
        ))])
    })?;
    let dimensions = trials.iter().flat_map(|trial| trial.dimensions.keys());
    let dimensions = dimensions.map(String::as_str);
    let dimensions: BTreeSet<&str> = dimensions.chain([iodyno_judge::NODE]).collect();
    let metrics = trials.iter().flat_map(|trial| {
        let figures = trial.figures.iter().map(|figure| &figure.metric.name);
        figures.chain(trial.withheld.iter().map(|it| &it.metric))
    });
    let metrics: BTreeSet<&str> = metrics.map(String::as_str).collect();
    let [dimensions, metrics] = [dimensions, metrics].map(Vec::from_iter);
    table_file(&text, &shown, &dimensions, &metrics).map_err(Failure::input)
}

/// The table of some runs, with the names of the runs as headings.
pub(super) fn filled(
    runs: &[Run],
    trials: &[Observation],
    question: &Question,
    layout: &ClosingTable,
    store: &dyn Store,
) -> Result<(Comparison, FilledTable), Failure> {
    let mut by_node = Vec::new();
    let trials = match layout.has_dimension(iodyno_judge::NODE) {
        true => {
            for run in runs {
                by_node.extend(node_observations(store, run)?);
            }
            name_runs(runs, &mut by_node);
            &by_node
        }
        false => trials,
    };
    let (comparison, mut table) =
        iodyno_judge::closing_table(runs, trials, question, layout).map_err(Failure::from)?;
    let headings = headings(runs);
    let heads = table.heads.iter_mut().map(|head| &mut head.values);
    let values = heads.chain(table.lines.iter_mut().map(|line| &mut line.values));
    for value in values.flatten().chain(&mut table.baseline) {
        if let Some(heading) = headings.get(value) {
            value.clone_from(heading);
        }
    }
    Ok((comparison, table))
}

/// How far each column is from the best of each row.
fn regret(runs: &[Run], trials: &[Observation], question: &Question) -> Result<Regret, Failure> {
    let own = trials
        .iter()
        .filter(|trial| trial.probe.is_none() && !trial.again);
    let mut own: Vec<Observation> = own.cloned().collect();
    iodyno_judge::in_order_of_plans(&mut own, runs);
    iodyno_judge::regret(&title_of(runs), &own, question).map_err(Failure::from)
}

fn print_regret(regret: &Regret, args: &CompareArgs, context: &Context) -> Result<Exit, Failure> {
    write_out(match format(args) {
        CompareFormat::Text => draw::regret(regret, context.style_out()),
        CompareFormat::Markdown => draw::regret_markup(regret, Markup::Markdown),
        CompareFormat::Asciidoc => draw::regret_markup(regret, Markup::AsciiDoc),
        CompareFormat::Csv => draw::regret_csv(regret),
        CompareFormat::Json => draw::regret_json(regret),
        CompareFormat::Benchstat | CompareFormat::Junit | CompareFormat::Github => {
            let fault = Diagnostic::error("`--regret` cannot be printed in this format");
            return Err(Failure::input(vec![
                fault.hint("leave `--regret` or `--format` out"),
            ]));
        }
    })?;
    Ok(Exit::Fine)
}

/// Errors for flags that arrange a comparison, if there are only searches.
fn without_effect(args: &CompareArgs) -> Vec<Diagnostic> {
    let given = [
        ("--rows", !args.rows.is_empty()),
        ("--cols", !args.cols.is_empty()),
        ("--baseline", args.baseline.is_some()),
        ("--metric", !args.metric.is_empty()),
    ];
    let given = given.into_iter().filter(|(_, given)| *given);
    let fault = |flag| {
        Diagnostic::error(format!("`{flag}` does not apply to searches"))
            .hint("leave it out: each search has a line; `--where configuration=NAME` selects some")
    };
    given.map(|(flag, _)| fault(flag)).collect()
}

/// Whether the comparison names this dimension: it is then about single jobs or nodes.
fn named(args: &CompareArgs, dimension: &str) -> bool {
    let pairs = args.only.iter().chain(&args.floor);
    let named = pairs.filter_map(|pair| Some(pair.split_once('=')?.0.trim()));
    let mut named = named
        .chain(args.cols.iter().map(String::as_str))
        .chain(args.rows.iter().map(String::as_str));
    named.any(|name| name == dimension)
}

/// The result as text.
pub(crate) fn result_text(
    result: &CompareResult,
    shown: &ComparisonFormat,
    style: Style,
) -> String {
    match result {
        CompareResult::Compared(comparison) => draw::text(comparison, shown, style),
        CompareResult::Repeated { name, rows, again } => {
            let again = again.as_ref().and_then(|again| noise(again));
            draw::repeats(name, rows, again, shown, style)
        }
        CompareResult::Searched {
            name,
            searches,
            other,
        } => {
            let other = other.as_ref().map(|it| result_text(it, shown, style));
            let before = other.unwrap_or_else(|| format!("{name}\n"));
            before + &draw::searches(searches, style)
        }
    }
}

/// The exit code under `--fail-on`. A single cell is undecided.
pub(crate) fn exit_of(result: &CompareResult, fail_on: &[FailOn]) -> Exit {
    let (regressed, undecided) = match result {
        CompareResult::Compared(it) => (it.regressed(), it.inconclusive()),
        _ => (false, true),
    };
    Exit::of_verdict(regressed, undecided, fail_on)
}

/// The class of the facts that an axis of the only run defines.
fn defined_by(runs: &[Run], axis: &str) -> Option<FactClass> {
    match runs {
        [run] => run.plan.defines(axis),
        _ => None,
    }
}

/// The closing table of a run; `None` if its plan has none.
///
/// # Errors
/// The trials lack a dimension or a metric of the table, or there is only one cell.
pub(crate) fn closing(
    run: &Run,
    trials: &[Observation],
    store: &dyn Store,
) -> Result<Option<FilledTable>, Failure> {
    let Some(layout) = run.plan.table.as_ref() else {
        return Ok(None);
    };
    let question = question_of(&run.plan, trials);
    let (_, table) = filled(std::slice::from_ref(run), trials, &question, layout, store)?;
    Ok(Some(table))
}

/// Compares the trials of some runs, with a remark on tails that lack an equal rate.
pub(crate) fn judge(
    runs: &[Run],
    trials: &mut Vec<Observation>,
    question: &Question,
) -> Result<CompareResult, Failure> {
    let mut result = iodyno_judge::compare_runs(runs, trials, question)?;
    if let CompareResult::Compared(comparison) = &mut result {
        comparison.notes.extend(at_equal_rate(comparison, runs));
    }
    Ok(result)
}

/// The answers of a run's searches; empty without any.
pub(crate) fn searches_of(store: &SqliteStore, run: &Run) -> Result<Vec<SearchAnswer>, Failure> {
    match run.plan.workloads.iter().any(|it| it.search.is_some()) {
        true => {
            let trials = observations(store, run)?;
            let question = question_of(&run.plan, &trials);
            Ok(iodyno_judge::searches(
                std::slice::from_ref(run),
                &trials,
                &question,
            ))
        }
        false => Ok(Vec::new()),
    }
}

/// The noise that an A/A comparison shows.
fn noise(again: &Comparison) -> Option<draw::Again> {
    let cell = again.primary_cells().next()?;
    let ratio = cell.ratio?;
    Some(draw::Again {
        ratio,
        rounds: cell.n,
        floor: iodyno_judge::noise_floor(&ratio),
    })
}

/// The default format for a comparison of these runs.
pub(super) fn shown(runs: &[Run]) -> ComparisonFormat {
    ComparisonFormat {
        headings: headings(runs),
        ..ComparisonFormat::default()
    }
}

/// The names of runs as headings, if each run has its own.
fn headings(runs: &[Run]) -> BTreeMap<String, String> {
    let names: BTreeSet<&str> = runs.iter().map(|run| run.plan.name.as_str()).collect();
    let own = runs.len() > 1 && names.len() == runs.len() && !names.contains("");
    let pairs = runs.iter().map(|run| (run.name(), run.plan.name.clone()));
    pairs.filter(|_| own).collect()
}

/// The question, from the flags and defaults.
fn question(args: &CompareArgs, runs: &[Run], trials: &[Observation]) -> Result<Question, Failure> {
    let default = default_question(runs, trials);
    let mut faults = Vec::new();
    let only = pairs("--where", &args.only, &mut faults);
    let mut only = expanded(only, trials);
    let floor = pairs("--floor", &args.floor, &mut faults);
    if !faults.is_empty() {
        return Err(Failure::input(faults));
    }
    let given = |given: &[String], default: Vec<String>| match given.is_empty() {
        true => default,
        false => given.to_vec(),
    };
    let (columns, across) = match args.cols.split_first() {
        None => (default.columns.clone(), Vec::new()),
        Some((columns, across)) => (columns.clone(), across.to_vec()),
    };
    // The name in the heading of a run's columns selects the run.
    let headings = headings(runs);
    let run_of = |name: String| {
        let mut headings = headings.iter();
        let found = headings.find(|(_, heading)| **heading == name);
        found.map_or(name, |(run, _)| run.clone())
    };
    for (dimension, value) in &mut only {
        if dimension == Observation::RUN {
            *value = run_of(std::mem::take(value));
        }
    }
    let named = args.baseline.clone().map(|name| match columns.as_str() {
        Observation::RUN => run_of(name),
        _ => name,
    });
    let as_default = columns == default.columns;
    let rows = match as_default && across.is_empty() {
        true => default.rows,
        false => iodyno_judge::default_rows(&columns, &across, trials),
    };
    let baseline = default.baseline.filter(|_| as_default);
    let own = default.only.into_iter().filter(|_| as_default);
    let asked_for: Vec<String> = only.iter().map(|(name, _)| name.clone()).collect();
    only.extend(own.filter(|(dimension, _)| !asked_for.contains(dimension)));
    let requested = metrics(&args.metric);
    let (metrics, primary_metrics) = match requested.names.is_empty() {
        true => (default.metrics, default.primary_metrics),
        false => (requested.names, requested.primary),
    };
    let as_asked = as_default && args.rows.is_empty() && args.only.is_empty();
    Ok(Question {
        words: default.words.filter(|_| as_asked),
        rows: given(&args.rows, rows),
        inferred: default.inferred && args.cols.is_empty(),
        defines: defined_by(runs, &columns),
        columns,
        across,
        baseline: named.or(baseline),
        only,
        metrics,
        primary_metrics,
        metric_where: match args.metric.is_empty() {
            true => default.metric_where,
            false => requested.of_rows,
        },
        axis: given(&args.axis, default.axis),
        floor: given_pairs(floor, default.floor),
        margin: args.margin.map_or(default.margin, |margin| margin.share),
        alpha: default.alpha,
        looks: default.looks,
    })
}

/// The metrics of `--metric`.
struct Metrics {
    names: Vec<String>,
    /// How many of them are primary.
    primary: usize,
    /// (dimension, value, metric) of those for some rows.
    of_rows: Vec<(String, String, String)>,
}

/// Parses `bandwidth+iops`, whose metrics are both primary, `read.p99`, and `rw=read:bandwidth`, which is for rows with
/// that value.
fn metrics(texts: &[String]) -> Metrics {
    let of_row = |text: &String| {
        let (condition, metric) = text.rsplit_once(':')?;
        let (dimension, value) = condition.split_once('=')?;
        let [dimension, value, metric] = [dimension, value, metric].map(|it| it.trim().to_owned());
        Some((dimension, value, metric))
    };
    let names: Vec<&String> = texts.iter().filter(|text| of_row(text).is_none()).collect();
    let split = |text: &&String| -> Vec<String> {
        let names = text.split('+');
        names.map(|name| name.trim().to_owned()).collect()
    };
    Metrics {
        primary: names.first().map_or(1, |first| split(first).len()),
        names: names.iter().flat_map(split).collect(),
        of_rows: texts.iter().filter_map(of_row).collect(),
    }
}

fn given_pairs(
    given: Vec<(String, String)>,
    default: Vec<(String, String)>,
) -> Vec<(String, String)> {
    match given.is_empty() {
        true => default,
        false => given,
    }
}
