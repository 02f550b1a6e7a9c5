//! `iodyno compare`: compares configurations, workloads or runs.

use std::collections::{BTreeMap, BTreeSet};

use iodyno_judge::Probe;
use iodyno_model::{
    Claim, ClosingTable, Comparison, Diagnostic, Observation, Question, Repeated, RunState,
    SearchAnswer,
};
use iodyno_report::compare::{BandwidthUnit, Shown};
use iodyno_report::{Style, compare as draw};
use iodyno_store::{Run, SqliteStore, Store};

use crate::args::{CompareArgs, CompareFormat, FailOn, UnitChoice};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interleaved::{advice, at_equal_rate};
use crate::observations::{
    default_question, find_runs, job_observations, name_runs, observations, run_name,
};
use crate::screen::write_out;

/// Compares runs and prints the result.
pub(crate) fn compare(args: &CompareArgs, context: &Context) -> Result<Exit, Failure> {
    let store = context.store_to_read()?;
    let runs = runs(&args.runs, &store)?;
    let mut trials = Vec::new();
    let by_job = by_job(args);
    for run in &runs {
        trials.extend(match by_job {
            true => job_observations(&store, run)?,
            false => observations(&store, run)?,
        });
    }
    let claims = claims(&runs);
    if trials.is_empty() && !claims.is_empty() && !args.json && args.format == CompareFormat::Text {
        let checks = iodyno_judge::check_claims(&claims, &trials);
        write_out(draw::claims(&checks, context.style_out()))?;
        return Ok(match args.fail_on {
            None => Exit::Fine,
            Some(_) => Exit::Inconclusive,
        });
    }
    name_runs(&runs, &mut trials);
    let mut question = question(args, &runs, &trials)?;
    let mut shown = Shown {
        bandwidth: match args.unit {
            None => BandwidthUnit::Scaled,
            Some(UnitChoice::Decimal) => BandwidthUnit::Decimal,
            Some(UnitChoice::Binary) => BandwidthUnit::Binary,
        },
        digits: None,
        mean: args.mean,
        headings: headings(&runs),
    };
    let table = args.layout.then(|| closing_table(&runs)).transpose()?;
    if let Some(table) = table {
        question = laid_out(table, question, &trials);
        (shown.bandwidth, shown.digits) = (table.unit, table.digits);
    }
    let mut judged = judge(&runs, &mut trials, &question)?;
    judged.mark_provisional(&runs);
    if let (Judged::Compared(comparison), Some(table)) = (&mut judged, table)
        && !table.title.is_empty()
    {
        comparison.name.clone_from(&table.title);
    }
    if let Judged::Compared(comparison) = &mut judged {
        let advice = advice(comparison, &runs);
        comparison.notes.extend(advice);
    }
    let format = match args.json {
        true => CompareFormat::Json,
        false => args.format,
    };
    let Some(comparison) = judged.comparison() else {
        if let (Judged::Searched { name, searches, .. }, CompareFormat::Json) = (&judged, format) {
            write_out(draw::searches_json(name, searches))?;
            return Ok(judged.exit(args.fail_on));
        }
        if format != CompareFormat::Text {
            return Err(Failure::one(
                Diagnostic::error("there is only one configuration and workload to compare").hint(
                    "`--format text` summarizes its trials; `iodyno show --json` prints each",
                ),
            ));
        }
        write_out(judged.text(&shown, context.style_out()))?;
        return Ok(judged.exit(args.fail_on));
    };
    write_out(match format {
        CompareFormat::Text => judged.text(&shown, context.style_out()),
        CompareFormat::Markdown => draw::markdown(comparison, &shown),
        CompareFormat::Asciidoc => draw::asciidoc(comparison, &shown),
        CompareFormat::Csv => draw::csv(comparison),
        CompareFormat::Json => draw::json(comparison),
        CompareFormat::Benchstat => draw::benchstat(&trials, &comparison.question),
    })?;
    Ok(judged.exit(args.fail_on))
}

/// Whether the comparison is about single jobs: a dimension that it names is `job`.
fn by_job(args: &CompareArgs) -> bool {
    let pairs = args.only.iter().chain(&args.floor);
    let named = pairs.filter_map(|pair| Some(pair.split_once('=')?.0.trim()));
    let mut named = named
        .chain(args.cols.iter().map(String::as_str))
        .chain(args.rows.iter().map(String::as_str));
    named.any(|name| name == iodyno_judge::JOB)
}

/// The result of a comparison.
pub(crate) enum Judged {
    /// Columns against their baseline.
    Compared(Box<Comparison>),
    /// Repeated trials of a single configuration and workload.
    Repeated {
        /// Its name.
        name: String,
        /// Its metrics.
        metrics: Vec<Repeated>,
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
        other: Option<Box<Judged>>,
    },
}

impl Judged {
    /// The result as text.
    pub(crate) fn text(&self, shown: &Shown, style: Style) -> String {
        match self {
            Judged::Compared(comparison) => draw::text(comparison, shown, style),
            Judged::Repeated {
                name,
                metrics,
                again,
            } => {
                let again = again.as_ref().and_then(|again| noise(again));
                draw::repeats(name, metrics, again, shown, style)
            }
            Judged::Searched {
                name,
                searches,
                other,
            } => {
                let other = other.as_ref().map(|other| other.text(shown, style));
                let before = other.unwrap_or_else(|| format!("{name}\n"));
                before + &draw::searches(searches, style)
            }
        }
    }

    /// Adds a remark for each run that is not complete: its number of rounds may depend on the verdict.
    pub(crate) fn mark_provisional(&mut self, runs: &[Run]) {
        let Judged::Compared(comparison) = self else {
            return;
        };
        for run in runs {
            let how = match run.summary.state {
                RunState::Running => "is not complete",
                RunState::Interrupted => "was interrupted",
                RunState::Completed | RunState::Failed | RunState::Refused => continue,
            };
            comparison.notes.push(format!(
                "provisional: {} {how}; the verdict counts after all of its {} rounds",
                run_name(run),
                run.summary.rounds
            ));
        }
    }

    /// The comparison, for the formats other than text.
    pub(crate) fn comparison(&self) -> Option<&Comparison> {
        match self {
            Judged::Compared(comparison) => Some(comparison),
            Judged::Repeated { again, .. } => again.as_deref(),
            Judged::Searched { other, .. } => other.as_ref()?.comparison(),
        }
    }

    /// The exit code under `--fail-on`. A single cell is inconclusive.
    pub(crate) fn exit(&self, fail_on: Option<FailOn>) -> Exit {
        match (self, fail_on) {
            (_, None) => Exit::Fine,
            (Judged::Compared(it), Some(FailOn::Regression)) if it.regressed() => Exit::CheckFailed,
            (Judged::Compared(it), Some(FailOn::Regression)) if !it.inconclusive() => Exit::Fine,
            (_, Some(FailOn::Regression)) => Exit::Inconclusive,
        }
    }
}

/// The closing table of the only run.
fn closing_table(runs: &[Run]) -> Result<&ClosingTable, Failure> {
    let table = match runs {
        [run] => run.plan.table.as_ref(),
        _ => None,
    };
    table.ok_or_else(|| {
        let message = match runs {
            [run] => format!("{} has no closing table", run_name(run)),
            _ => "`--layout` requires a single run".to_owned(),
        };
        let hint = "name the columns and rows: `--cols configuration,bs --rows rw`";
        Failure::input(vec![Diagnostic::error(message).hint(hint)])
    })
}

/// A question in the layout of a closing table.
fn laid_out(table: &ClosingTable, question: Question, trials: &[Observation]) -> Question {
    let (columns, across) = match table.columns.split_first() {
        None => (question.columns.clone(), Vec::new()),
        Some((columns, across)) => (columns.clone(), across.to_vec()),
    };
    let as_before = columns == question.columns;
    let rows = match (table.rows.is_empty(), as_before && across.is_empty()) {
        (false, _) => table.rows.clone(),
        (true, true) => question.rows.clone(),
        (true, false) => iodyno_judge::default_rows(&columns, &across, trials),
    };
    let (metrics, primary_metrics) = match table.metrics.is_empty() {
        true => (question.metrics.clone(), question.primary_metrics),
        false => (table.metrics.clone(), table.metrics.len()),
    };
    Question {
        baseline: question.baseline.filter(|_| as_before),
        columns,
        across,
        rows,
        metrics,
        primary_metrics,
        ..question
    }
}

/// The closing table of a run as text; `None` if its plan has none, or there is nothing to print in it.
pub(crate) fn closing(run: &Run, trials: &[Observation], style: Style) -> Option<String> {
    let table = run.plan.table.as_ref()?;
    let question = laid_out(table, iodyno_judge::question_of(&run.plan), trials);
    let runs = std::slice::from_ref(run);
    let Ok(Judged::Compared(mut comparison)) = judge(runs, &mut trials.to_vec(), &question) else {
        return None;
    };
    if !table.title.is_empty() {
        comparison.name.clone_from(&table.title);
    }
    comparison.searches.clear();
    let shown = Shown {
        bandwidth: table.unit,
        digits: table.digits,
        ..Shown::default()
    };
    Some(draw::text(&comparison, &shown, style))
}

/// Compares the trials of some runs. With a single column, an A/A baseline is compared with itself, and
/// the repetitions of a single cell are summarized. The trials of searches are not compared, and removed from `trials`.
pub(crate) fn judge(
    runs: &[Run],
    trials: &mut Vec<Observation>,
    question: &Question,
) -> Result<Judged, Failure> {
    let searches = searches(runs, trials);
    trials.retain(|trial| trial.probe.is_none());
    if searches.is_empty() {
        return compared(runs, trials, question);
    }
    let other = match trials.is_empty() {
        true => None,
        false => Some(compared(runs, trials, question)?),
    };
    Ok(match other {
        Some(Judged::Compared(comparison)) => Judged::Compared(Box::new(Comparison {
            searches,
            ..*comparison
        })),
        other => Judged::Searched {
            name: title(runs),
            searches,
            other: other.map(Box::new),
        },
    })
}

/// The answers of all searches, in the order of the plans.
fn searches(runs: &[Run], trials: &[Observation]) -> Vec<SearchAnswer> {
    let mut answers = Vec::new();
    for run in runs {
        let name = run_name(run);
        for (configuration, workload) in (0..run.plan.cells()).map(|cell| run.plan.cell(cell)) {
            let Some(search) = &workload.search else {
                continue;
            };
            let of_cell = |trial: &&Observation| {
                trial.dimension(Observation::RUN) == name
                    && trial.dimension(Observation::CONFIGURATION) == configuration.name
                    && trial.dimension(Observation::WORKLOAD) == workload.name
            };
            // A later attempt at a round replaces an earlier one.
            let probes: BTreeMap<Option<u32>, Probe> = trials
                .iter()
                .filter(of_cell)
                .filter_map(|trial| Some((trial.round, Probe::of(search, workload, trial)?)))
                .collect();
            let probes: Vec<Probe> = probes.into_values().collect();
            let names = (configuration.name.as_str(), workload.name.as_str());
            answers.push(iodyno_judge::search_answer(names, search, &probes));
        }
    }
    answers
}

fn compared(
    runs: &[Run],
    trials: &mut [Observation],
    question: &Question,
) -> Result<Judged, Failure> {
    let claims = claims(runs);
    let columns = |trials: &[Observation]| {
        let own = trials.iter().filter(|trial| !trial.again);
        let values = own.map(|trial| trial.dimension(&question.columns).to_owned());
        values.collect::<BTreeSet<String>>().len()
    };
    let one = runs.len() == 1 && trials.len() > 1 && cells(trials) == 1 && repeated(trials);
    let mut again = None;
    if columns(trials) == 1 && trials.iter().any(|trial| trial.again) {
        trials.iter_mut().for_each(|trial| trial.again = false);
        again = iodyno_judge::compare(&title(runs), trials, question, &[]).ok();
    }
    if one {
        return Ok(Judged::Repeated {
            name: title(runs),
            metrics: iodyno_judge::repeats(trials),
            again: again.map(Box::new),
        });
    }
    iodyno_judge::compare(&title(runs), trials, question, &claims)
        .map(|mut comparison| {
            if runs.len() > comparison.columns.len() && question.columns != Observation::RUN {
                comparison.name = title_of_sides(&comparison.columns, runs);
            }
            comparison.notes.extend(at_equal_rate(&comparison, runs));
            Judged::Compared(Box::new(comparison))
        })
        .map_err(|error| Failure::input(faults(&error)))
}

/// The rows of printed comparisons in imported runs.
fn claims(runs: &[Run]) -> Vec<Claim> {
    let imported = runs.iter().filter_map(|run| run.plan.imported.as_ref());
    imported
        .flat_map(|imported| imported.claims.clone())
        .collect()
}

/// Number of pairs of configuration and workload, without the second baseline of an A/A test.
fn cells(trials: &[Observation]) -> usize {
    let own = trials.iter().filter(|trial| !trial.again);
    let pairs = own.map(|trial| {
        [Observation::CONFIGURATION, Observation::WORKLOAD].map(|name| trial.dimension(name))
    });
    pairs.collect::<BTreeSet<_>>().len()
}

/// Whether the trials are repetitions of the same work: imported trials can differ in their work.
fn repeated(trials: &[Observation]) -> bool {
    let mut imported = trials.iter().filter(|trial| trial.source.is_some());
    let first = imported.next();
    first.is_none_or(|first| imported.all(|trial| trial.facts == first.facts))
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

fn faults(error: &iodyno_judge::CompareError) -> Vec<Diagnostic> {
    let faults = error.faults.iter();
    faults
        .map(|fault| Diagnostic::error(fault.to_string()))
        .collect()
}

/// The names of runs as headings, if each run has its own.
fn headings(runs: &[Run]) -> BTreeMap<String, String> {
    let names: BTreeSet<&str> = runs.iter().map(|run| run.plan.name.as_str()).collect();
    let own = runs.len() > 1 && names.len() == runs.len() && !names.contains("");
    let pairs = runs
        .iter()
        .map(|run| (run_name(run), run.plan.name.clone()));
    pairs.filter(|_| own).collect()
}

fn title(runs: &[Run]) -> String {
    match runs {
        [run] => format!("{}, {}", run.plan.name, run_name(run)),
        [baseline, others @ ..] => {
            let others: Vec<String> = others.iter().map(run_name).collect();
            format!("{} against {}", others.join(", "), run_name(baseline))
        }
        [] => String::new(),
    }
}

/// `after against before, runs 3 and 4`: the sides, if they are not the runs themselves.
fn title_of_sides(columns: &[String], runs: &[Run]) -> String {
    let numbers: Vec<String> = runs
        .iter()
        .map(|run| run.summary.alias.to_string())
        .collect();
    let runs = match numbers.as_slice() {
        [most @ .., last] if !most.is_empty() => format!("runs {} and {last}", most.join(", ")),
        numbers => format!("run {}", numbers.concat()),
    };
    match columns {
        [baseline, others @ ..] if !others.is_empty() => {
            format!("{} against {baseline}, {runs}", others.join(", "))
        }
        _ => runs,
    }
}

/// The named runs. Reports every name that matches no run.
fn runs(names: &[String], store: &SqliteStore) -> Result<Vec<Run>, Failure> {
    let mut runs: Vec<Run> = Vec::new();
    let mut faults = Vec::new();
    for id in find_runs(names, store)? {
        match runs.iter().find(|run| run.summary.id == id) {
            Some(twice) => faults.push(
                Diagnostic::error(format!("{} is given twice", run_name(twice)))
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

/// The question, from the flags and defaults.
fn question(args: &CompareArgs, runs: &[Run], trials: &[Observation]) -> Result<Question, Failure> {
    let default = default_question(runs, trials);
    let mut faults = Vec::new();
    let mut only = pairs("--where", &args.only, &mut faults);
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
    // The name that stands above a run's columns selects the run.
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
    let asked = metrics(&args.metric);
    let (metrics, primary_metrics) = match asked.names.is_empty() {
        true => (default.metrics, default.primary_metrics),
        false => (asked.names, asked.primary),
    };
    Ok(Question {
        rows: given(&args.rows, rows),
        inferred: default.inferred && args.cols.is_empty(),
        columns,
        across,
        baseline: named.or(baseline),
        only,
        metrics,
        primary_metrics,
        metric_where: asked.of_rows,
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

/// Parses `DIMENSION=VALUE` texts; errors are added to `faults`.
fn pairs(flag: &str, texts: &[String], faults: &mut Vec<Diagnostic>) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for text in texts {
        match text.split_once('=') {
            Some((name, value)) if !name.trim().is_empty() => {
                pairs.push((name.trim().to_owned(), value.trim().to_owned()));
            }
            _ => faults.push(
                Diagnostic::error(format!("`{flag} {text}` has no dimension and value")).hint(
                    format!("write `{flag} DIMENSION=VALUE`, such as `{flag} rw=randread`"),
                ),
            ),
        }
    }
    pairs
}
