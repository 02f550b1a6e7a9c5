//! Runs a plan and prints its results, for `run` and `fs run`.

use iodyno_judge::CompareResult;
use iodyno_lab::{Progress, StopReason};
use iodyno_model::{Comparison, FilledTable, Observation, Plan, RunState, Trial, Verdict};
use iodyno_report::Style;
use iodyno_report::compare::ComparisonFormat;
use iodyno_report::diagnostic::lines;
use iodyno_report::json::RunView;
use iodyno_store::{SqliteStore, Store};
use iodyno_units::counted;

use crate::args::{ExperimentArgs, FailOn};
use crate::commands::{Costed, closing, exit_of, judge, limits, reasons, result_text};
use crate::context::Context;
use crate::exit::Exit;
use crate::experiment::{Begin, EndedRun, RunObserver, carry_out};
use crate::failure::Failure;
use crate::observations::{observations, question_of};
use crate::progress::Reporter;
use crate::screen::write_out;
use crate::trials::{run_json, run_view, trials_json};

/// The output of a run in addition to its progress.
pub(crate) struct ResultOutput<'a> {
    /// Prints each trial as it ends.
    pub(crate) tables: &'a mut dyn RunObserver,
    /// Whether to compare the trials if there are several.
    pub(crate) compares: bool,
}

impl<'a> ResultOutput<'a> {
    /// Tables, and a comparison of several trials.
    pub(crate) fn all(tables: &'a mut dyn RunObserver) -> ResultOutput<'a> {
        ResultOutput {
            tables,
            compares: true,
        }
    }
}

/// Runs the trials and prints their results: a table for each when it ends, or one document at the end with `--json`;
/// then the comparison.
pub(crate) fn measure(
    plan: &Plan,
    begin: Begin<'_>,
    store: &SqliteStore,
    args: &ExperimentArgs,
    context: &Context,
    reporter: Reporter<'_>,
    output: ResultOutput<'_>,
) -> Result<Exit, Failure> {
    let mut unstored = Unstored::default();
    let observer: &mut dyn RunObserver = match args.json {
        true => &mut unstored,
        false => output.tables,
    };
    let ended_run = carry_out(begin, store, context, reporter, observer)?;
    let several = output.compares && (plan.cells() > 1 || plan.rounds > 1);
    // The results are stored, so a failing comparison is reported and does not affect them.
    let (verdict, verdict_exit) = match several.then(|| verdict(&ended_run, store)) {
        None => (None, Exit::Fine),
        Some(Ok(verdict)) => (verdict, Exit::Fine),
        Some(Err(_)) if ended_run.exit == Exit::Interrupted => {
            context.note("the run ended before there was anything to compare");
            (None, Exit::Fine)
        }
        Some(Err(failure)) => {
            context.tell(&failure.faults);
            (None, failure.exit)
        }
    };
    let comparison = verdict.as_ref().and_then(compared);
    if let (Some(comparison), None) = (comparison, &ended_run.end.unstored) {
        let stored = store.set_verdicts(ended_run.end.handle.id, &comparison.verdicts(None));
        // The list alone lacks them.
        if let Err(error) = stored {
            context.tell(&Failure::from(error).faults);
        }
    }
    match args.json {
        true => {
            let document = document(plan, store, &ended_run, verdict.as_ref(), unstored.trials)?;
            write_out(document)?;
        }
        false => {
            if let Some(judged) = &verdict {
                let style = context.style_out();
                let shown = ComparisonFormat {
                    verbose: context.verbose > 0,
                    ..ComparisonFormat::default()
                };
                write_out(result_text(judged, &shown, style) + "\n")?;
                // The verdict does not depend on it.
                match why(judged, &ended_run, store, style) {
                    Ok(why) if why.is_empty() => {}
                    Ok(why) => write_out(why + "\n")?,
                    Err(failure) => context.tell(&failure.faults),
                }
                match closing_of(plan, &ended_run, store) {
                    Ok(None) => {}
                    Ok(Some(table)) => {
                        let text = iodyno_report::compare::closing_table(&table, style);
                        write_out(text + "\n")?;
                    }
                    Err(_) if ended_run.end.state == RunState::Interrupted => context
                        .note("the run ended before there was anything for `[table]` to show"),
                    // The verdict does not depend on it.
                    Err(failure) => context.tell(&failure.faults),
                }
            }
            let end = &ended_run.end;
            let expected = end.state == RunState::Completed && end.unstored.is_none();
            if !args.quiet || !expected {
                let width = context.terminal.columns_out();
                let judged = verdict.as_ref();
                write_out(conclusion(plan, store, &ended_run, judged, width))?;
            }
        }
    }
    let judged = verdict.map_or(Exit::Fine, |judged| {
        exit_of(&judged, &FailOn::of(&args.fail_on, args.bisect))
    });
    Ok(ended_run.exit.max(judged).max(verdict_exit))
}

/// The comparison of the run's question; an A/A comparison is not its result.
fn compared(judged: &CompareResult) -> Option<&Comparison> {
    match judged {
        CompareResult::Compared(comparison) => Some(comparison),
        CompareResult::Searched { other, .. } => compared(other.as_ref()?),
        CompareResult::Repeated { .. } => None,
    }
}

/// The closing table, if the plan has one.
fn closing_of(
    plan: &Plan,
    ended: &EndedRun,
    store: &SqliteStore,
) -> Result<Option<FilledTable>, Failure> {
    if plan.table.is_none() {
        return Ok(None);
    }
    let run = store.run(ended.end.handle.id)?;
    closing(&run, &observations(store, &run)?, store)
}

/// The reasons of differences, or what limits trials that are compared with nothing.
fn why(
    judged: &CompareResult,
    ended: &EndedRun,
    store: &SqliteStore,
    style: Style,
) -> Result<String, Failure> {
    let run = store.run(ended.end.handle.id)?;
    let runs = std::slice::from_ref(&run);
    Ok(match judged {
        CompareResult::Compared(comparison) => {
            let trials = Costed::load(store, runs)?;
            reasons(trials, runs, &comparison.question, style)?
        }
        CompareResult::Repeated { rows, .. } => {
            let trials = Costed::load(store, runs)?;
            let question = question_of(&run.plan, &trials.trials);
            limits(trials, runs, &question, rows, style)
        }
        CompareResult::Searched { .. } => String::new(),
    })
}

/// Trials that could not be stored, kept for the JSON document at the end.
#[derive(Default)]
struct Unstored {
    trials: Vec<Trial>,
}

impl RunObserver for Unstored {
    fn on_progress(&mut self, progress: &Progress<'_>) -> Result<(), Failure> {
        if let Progress::Ended(ended) = progress {
            let trials = ended.unstored.map(|_| ended.trial.clone());
            self.trials.extend(trials);
        }
        Ok(())
    }
}

/// The comparison of the stored trials, as by `iodyno compare`. `None` without trials, or if there is a single side
/// without usable trials.
fn verdict(ended_run: &EndedRun, store: &SqliteStore) -> Result<Option<CompareResult>, Failure> {
    let run = store.run(ended_run.end.handle.id)?;
    let mut trials = observations(store, &run)?;
    let unusable = trials.iter().all(|trial| trial.unusable.is_some());
    let question = question_of(&run.plan, &trials);
    let side = |trial: &Observation| trial.dimension(&question.columns).to_owned();
    let one_side = trials.windows(2).all(|two| side(&two[0]) == side(&two[1]));
    if trials.is_empty() || unusable && one_side {
        return Ok(None);
    }
    let mut judged = judge(std::slice::from_ref(&run), &mut trials, &question)?;
    judged.mark_provisional(&[run]);
    Ok(Some(judged))
}

/// The run as JSON: trials from the store, and those that could not be stored.
fn document(
    plan: &Plan,
    store: &SqliteStore,
    ended_run: &EndedRun,
    verdict: Option<&CompareResult>,
    unstored: Vec<Trial>,
) -> Result<String, Failure> {
    let handle = ended_run.end.handle;
    let comparison = verdict.and_then(CompareResult::comparison);
    let searches = verdict.map_or(Vec::new(), |judged| judged.searches().to_vec());
    match store.run(handle.id) {
        Ok(run) => {
            // The other results do not depend on it.
            let table = verdict.and_then(|_| closing_of(plan, ended_run, store).ok()?);
            let head = RunView {
                searches,
                table,
                ..run_view(&run.plan, handle, run.summary.state)
            };
            Ok(run_json(store, &run, &head, comparison, unstored)?)
        }
        Err(_) => Ok(trials_json(
            plan,
            &run_view(plan, handle, ended_run.end.state),
            comparison,
            &unstored,
        )),
    }
}

fn ended_how(exit: Exit) -> &'static str {
    match exit {
        Exit::Interrupted => "was interrupted",
        Exit::Refused => "was refused",
        _ => "failed",
    }
}

/// The last lines of a run: where it is stored, how it ended, and the next command. `width`: that of the terminal,
/// columns.
fn conclusion(
    plan: &Plan,
    store: &SqliteStore,
    ended_run: &EndedRun,
    verdict: Option<&CompareResult>,
    width: Option<usize>,
) -> String {
    let end = &ended_run.end;
    let alias = end.handle.alias;
    let path = store.path().map(|path| {
        let path = path.display().to_string();
        // Backticks keep a path with blanks on one line.
        match path.contains(' ') {
            true => format!("`{path}`"),
            false => path,
        }
    });
    let stored = match (&end.unstored, path) {
        (None, Some(path)) if ended_run.store_gone => {
            format!("run {alias} is not stored in {path}.")
        }
        (None, Some(path)) => format!("run {alias} stored in {path}."),
        (None, None) => format!("run {alias} is not stored."),
        (Some(_), _) => format!("run {alias} is only partly stored."),
    };
    let trials = end.planned;
    let ending = match end.state {
        RunState::Completed if trials == 1 => "One trial: no comparison.".to_owned(),
        RunState::Completed => {
            let trials = counted(u64::from(end.completed), "trial");
            format!("{trials}{}.", stopped(end.stopped))
        }
        RunState::Interrupted if end.stopped == StopReason::AllRounds => format!(
            "{} of {trials} trials completed; the other parts are missing.",
            end.completed
        ),
        _ if trials == 1 => format!("It {}.", ended_how(ended_run.exit)),
        _ => format!(
            "It {}: {} of {trials} trials completed.",
            ended_how(ended_run.exit),
            end.completed
        ),
    };
    let next = match (&end.unstored, verdict, end.state) {
        (Some(_), ..) => String::new(),
        _ if ended_run.store_gone => String::new(),
        (None, _, RunState::Interrupted | RunState::Failed) if trials > 1 => {
            format!("  Next: iodyno run --resume {alias}")
        }
        // `compare` would print the same once more.
        (None, Some(CompareResult::Repeated { rows, .. }), _) if rows.len() > 1 => {
            format!("  Next: iodyno show {alias}")
        }
        (None, Some(judged), _) => match rounds_needed(plan, judged, end.rounds) {
            Some(rounds) => format!("  Next: iodyno run --resume {alias} --rounds {rounds}"),
            None => format!("  Next: iodyno compare {alias}"),
        },
        (None, None, _) => format!("  Next: iodyno show {alias}"),
    };
    let seed = format!(" Seed {}.", plan.seed);
    let made = format!("{stored} {ending}{seed}");
    match width {
        // The command stays whole, so that it can be copied.
        Some(width) if made.len() + next.len() > width => {
            let style = Style {
                width,
                ..Style::default()
            };
            lines(&made, style) + next.trim() + "\n"
        }
        _ => format!("{made}{next}\n"),
    }
}

/// More rounds than this are not suggested.
const MAX_PROPOSED: u32 = 100;

/// Total number of rounds with which every undecided primary comparison is expected to be decided; `None` without any,
/// or if the number is too large. Some of the rounds `made` may not count.
fn rounds_needed(plan: &Plan, judged: &CompareResult, made: u32) -> Option<u32> {
    let CompareResult::Compared(comparison) = judged else {
        return None;
    };
    let more = comparison
        .primary_cells()
        .filter_map(|cell| match cell.verdict {
            Verdict::CannotDecide { n, least, .. } => Some(least.saturating_sub(n)),
            Verdict::Inconclusive { more, .. } => more,
            _ => None,
        });
    let rounds = more.max()?.saturating_add(made);
    (plan.can_grow() && rounds > made && rounds <= MAX_PROPOSED).then_some(rounds)
}

/// The reason why the run stopped before the planned number of rounds.
fn stopped(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Width => "; stopped: the intervals are narrow enough",
        StopReason::Workloads => "; stopped: each workload ended by a rule of its own",
        StopReason::MaxTime => "; stopped by `--max-time`",
        StopReason::NothingLeft => "; stopped: every trial was given up",
        StopReason::NothingToCompare => {
            "; stopped: the trials that are not given up have nothing to be compared with"
        }
        _ => "",
    }
}
