//! `iodyno history`: the results of a workload over runs.

use std::collections::BTreeSet;

use iodyno_model::{Diagnostic, History, NewestVerdict, Observation, Question, Run, TrialState};
use iodyno_report::compare as draw;
use iodyno_store::{SqliteStore, Store};

use crate::args::HistoryArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::screen::write_out;
use crate::selection::{expanded, pairs};
use crate::trials::{Series, load};

/// A smaller difference of the newest run is negligible.
const MARGIN: f64 = 0.03;

/// Number of runs read from the store at once.
const BATCH: usize = 500;

/// Prints the histories of a workload.
pub(crate) fn history(args: &HistoryArgs, context: &Context) -> Result<Exit, Failure> {
    let mut faults = Vec::new();
    let only = pairs("--where", &args.only, &mut faults);
    if !faults.is_empty() {
        return Err(Failure::input(faults));
    }
    let store = context.store_to_read()?;
    let wanted = BTreeSet::from([args.workload.as_str()]);
    let found = trials(&wanted, &[], &store)?;
    if !found.names.contains(&args.workload) {
        return Err(unknown(&args.workload, &found.names));
    }
    let question = Question {
        only: expanded(only, &found.trials),
        ..Question::default()
    };
    let mut trials = found.trials;
    trials.retain(|trial| iodyno_judge::chosen(trial, &question));
    let margin = args.margin.map_or(MARGIN, |margin| margin.share);
    let metric = args.metric.as_deref();
    let histories = iodyno_judge::history(&trials, metric, margin, args.any_target);
    if histories.is_empty() {
        return Err(nothing(args, &trials));
    }
    write_out(match args.json {
        true => draw::history_json(&histories),
        false => {
            let offset_s = |unix_ms| context.utc_offset_s(unix_ms);
            draw::history(&histories, &offset_s, context.style_out())
        }
    })?;
    // Histories that the newest run does not continue, such as those on another target, were judged earlier.
    let newest = |it: &History| it.points.last().map(|point| point.started_unix_ms);
    let latest = histories.iter().max_by_key(|it| newest(it));
    let latest = latest.and_then(|it| it.points.last()).map(|it| &it.run);
    let own = || {
        histories
            .iter()
            .filter(|it| it.points.last().map(|it| &it.run) == latest)
    };
    let is = |verdict| own().any(|it| it.newest.verdict == verdict);
    let (regressed, undecided) = (is(NewestVerdict::Regression), is(NewestVerdict::TooFewRuns));
    Ok(Exit::of_verdict(regressed, undecided, &args.fail_on))
}

/// The histories of the workloads of these runs. `known`: the trials of the runs, which are not read again.
#[cfg(feature = "charts")]
pub(crate) fn histories(
    runs: &[Run],
    known: &[Observation],
    store: &SqliteStore,
) -> Result<Vec<History>, Failure> {
    let workloads = runs.iter().flat_map(|run| &run.plan.workloads);
    let workloads = workloads.map(|workload| workload.name.as_str()).collect();
    let mut found = trials(&workloads, runs, store)?.trials;
    found.extend(known.iter().cloned());
    Ok(iodyno_judge::history(&found, None, MARGIN, false))
}

/// The stored trials of workloads.
struct Stored {
    /// The trials of the wanted ones in all runs.
    trials: Vec<Observation>,
    /// The names of all workloads.
    names: BTreeSet<String>,
}

/// `known`: runs that are left out.
fn trials(wanted: &BTreeSet<&str>, known: &[Run], store: &SqliteStore) -> Result<Stored, Failure> {
    let mut found = Stored {
        trials: Vec::new(),
        names: BTreeSet::new(),
    };
    let mut read = 0;
    loop {
        let batch = store.runs(BATCH, read)?;
        read += batch.len();
        let known = |id| known.iter().any(|run| run.summary.id == id);
        let readable = batch.iter().filter(|run| run.damaged.is_none());
        for summary in readable.filter(|run| !known(run.id)) {
            let run = store.run(summary.id)?;
            if run.plan.imported.is_some() {
                continue;
            }
            let names = run.plan.workloads.iter().map(|it| it.name.clone());
            found.names.extend(names);
            let name = run.name();
            let ended = run.trials.iter().filter(|t| t.state != TrialState::Running);
            for stored in ended {
                let (configuration, workload) = run.plan.cell(stored.key.cell);
                if wanted.contains(workload.name.as_str()) {
                    let trial = load(store, stored.key, Series::Counts)?;
                    let seen =
                        iodyno_judge::observe(&name, configuration, workload, stored.key, &trial);
                    found.trials.push(seen);
                }
            }
        }
        if batch.len() < BATCH {
            return Ok(found);
        }
    }
}

fn unknown(name: &str, names: &BTreeSet<String>) -> Failure {
    let near = iodyno_model::closest(name, names.iter().map(String::as_str));
    let hint = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None if names.is_empty() => "`iodyno run FILE` stores its results".to_owned(),
        None => "`iodyno list` shows the runs, and `iodyno show RUN` their workloads".to_owned(),
    };
    let message = format!("no stored run has a workload `{name}`");
    Failure::input(vec![Diagnostic::error(message).hint(hint)])
}

/// The error for a workload whose stored trials do not form a history.
fn nothing(args: &HistoryArgs, trials: &[Observation]) -> Failure {
    let workload = &args.workload;
    let counting = || trials.iter().filter(|trial| trial.unusable.is_none());
    let fault = match (&args.metric, counting().next()) {
        (Some(metric), Some(_)) => {
            let names: BTreeSet<&str> = counting()
                .flat_map(|trial| &trial.figures)
                .map(|figure| figure.metric.name.as_str())
                .collect();
            let names = Vec::from_iter(names).join(", ");
            Diagnostic::error(format!(
                "no trial of `{workload}` has the metric `{metric}`"
            ))
            .hint(format!("its metrics are {names}"))
        }
        (_, Some(_)) => Diagnostic::error(format!("the trials of `{workload}` have no result")),
        (_, None) if args.only.is_empty() => Diagnostic::error(format!(
            "no trial of `{workload}` counts: all of them failed"
        ))
        .hint("`iodyno list` shows the runs"),
        (_, None) => Diagnostic::error(format!(
            "no trial of `{workload}` that counts meets the conditions of `--where`"
        ))
        .hint("leave out `--where` to see all its histories"),
    };
    Failure::input(vec![fault])
}
