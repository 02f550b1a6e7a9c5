//! `iodyno compare`: which is better, by how much, how surely.

use iodyno_model::{Claim, Comparison, Diagnostic, Observation, Question};
use iodyno_report::compare as draw;
use iodyno_store::{Run, SqliteStore, Store};

use crate::args::{CompareArgs, CompareFormat, FailOn};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::observations::{default_question, default_rows, observations, run_name};
use crate::screen::write_out;

/// Compares runs and prints what follows.
pub(crate) fn compare(args: &CompareArgs, context: &Context) -> Result<Exit, Failure> {
    let store = context.store_to_read()?;
    let runs = runs(&args.runs, &store)?;
    let mut trials = Vec::new();
    for run in &runs {
        trials.extend(observations(&store, run)?);
    }
    let question = question(args, &runs, &trials)?;
    let comparison = judge(&runs, &trials, &question)?;
    let format = if args.json {
        CompareFormat::Json
    } else {
        args.format
    };
    write_out(match format {
        CompareFormat::Text => draw::text(&comparison, context.style_out()),
        CompareFormat::Markdown => draw::markdown(&comparison),
        CompareFormat::Asciidoc => draw::asciidoc(&comparison),
        CompareFormat::Csv => draw::csv(&comparison),
        CompareFormat::Json => draw::json(&comparison),
        CompareFormat::Benchstat => draw::benchstat(&trials, &comparison.question),
    })?;
    Ok(exit_of(&comparison, args.fail_on))
}

/// The verdict over some runs.
pub(crate) fn judge(
    runs: &[Run],
    trials: &[Observation],
    question: &Question,
) -> Result<Comparison, Failure> {
    let imported = runs.iter().filter_map(|run| run.plan.imported.as_ref());
    let claims: Vec<Claim> = imported
        .flat_map(|imported| imported.claims.clone())
        .collect();
    iodyno_judge::compare(&title(runs), trials, question, &claims)
        .map_err(|error| Failure::input(faults(&error)))
}

/// What a comparison means for the exit code, where it is asked to fail.
pub(crate) fn exit_of(comparison: &Comparison, fail_on: Option<FailOn>) -> Exit {
    match fail_on {
        None => Exit::Fine,
        Some(FailOn::Regression) if comparison.regressed() => Exit::CheckFailed,
        Some(FailOn::Regression) if comparison.inconclusive() => Exit::Inconclusive,
        Some(FailOn::Regression) => Exit::Fine,
    }
}

fn faults(error: &iodyno_judge::CompareError) -> Vec<Diagnostic> {
    let faults = error.faults.iter();
    faults
        .map(|fault| Diagnostic::error(fault.to_string()))
        .collect()
}

fn title(runs: &[Run]) -> String {
    match runs {
        [run] => format!("{}, {}", run.plan.name, run_name(run)),
        _ => runs
            .iter()
            .map(run_name)
            .collect::<Vec<_>>()
            .join(" against "),
    }
}

/// The runs of the names given, or every name that has none.
fn runs(names: &[String], store: &SqliteStore) -> Result<Vec<Run>, Failure> {
    let mut runs: Vec<Run> = Vec::new();
    let mut faults = Vec::new();
    for name in names {
        match store.find(name) {
            Ok(id) if runs.iter().any(|run| run.summary.id == id) => faults.push(
                Diagnostic::error(format!("`{name}` is a run that was named before"))
                    .hint("a run is compared within itself when it is named alone"),
            ),
            Ok(id) => runs.push(store.run(id)?),
            Err(error) => faults.extend(Failure::from(error).faults),
        }
    }
    match faults.is_empty() {
        true => Ok(runs),
        false => Err(Failure::input(faults)),
    }
}

/// What is asked: the flags over the default.
fn question(args: &CompareArgs, runs: &[Run], trials: &[Observation]) -> Result<Question, Failure> {
    let default = default_question(runs, trials);
    let mut faults = Vec::new();
    let only = pairs("--where", &args.only, &mut faults);
    let floor = pairs("--floor", &args.floor, &mut faults);
    if !faults.is_empty() {
        return Err(Failure::input(faults));
    }
    let given = |given: &[String], default: Vec<String>| match given.is_empty() {
        true => default,
        false => given.to_vec(),
    };
    let columns = args.cols.clone().unwrap_or(default.columns.clone());
    let rows = match columns == default.columns {
        true => default.rows,
        false => default_rows(&columns, trials),
    };
    let baseline = match columns == default.columns {
        true => default.baseline,
        false => None,
    };
    Ok(Question {
        rows: given(&args.rows, rows),
        columns,
        baseline: args.baseline.clone().or(baseline),
        only,
        metrics: given(&args.metric, default.metrics),
        axis: given(&args.axis, default.axis),
        floor: given_pairs(floor, default.floor),
        margin: args.margin.map_or(default.margin, |margin| margin.share),
        alpha: default.alpha,
    })
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

/// `DIMENSION=VALUE` texts; what is wrong with the others goes to `faults`.
fn pairs(flag: &str, texts: &[String], faults: &mut Vec<Diagnostic>) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for text in texts {
        match text.split_once('=') {
            Some((name, value)) if !name.trim().is_empty() => {
                pairs.push((name.trim().to_owned(), value.trim().to_owned()));
            }
            _ => faults.push(
                Diagnostic::error(format!("`{flag} {text}` names no dimension and value")).hint(
                    format!("write `{flag} DIMENSION=VALUE`, such as `{flag} rw=randread`"),
                ),
            ),
        }
    }
    pairs
}
