//! `iodyno run`: job files on targets, measured, printed and stored.

use std::path::{Path, PathBuf};

use iodyno_dialects::fio::{SystemHost, parse_files};
use iodyno_lab::{Progress, StopReason};
use iodyno_model::{
    Comparison, Diagnostic, Plan, RunId, RunState, Severity, Trial, Verdict, Workload,
};
use iodyno_store::{SqliteStore, Store};

use crate::args::RunArgs;
use crate::commands::compare::{Judged, judge};
use crate::configurations::configurations;
use crate::context::Context;
use crate::exit::Exit;
use crate::experiment::{Audience, Begin, Carried, carry_out};
use crate::failure::Failure;
use crate::observations::observations;
use crate::plan_text::plan_text;
use crate::progress::{Mode, Reporter};
use crate::rounds::{doubts, with_rounds};
use crate::screen::write_out;
use crate::trials::{Drawn, has_figures, run_json, run_view, trials_json};

/// Carries the job files out, goes on with a run, or shows what would be done.
pub(crate) fn run(args: &RunArgs, context: &Context) -> Result<Exit, Failure> {
    if let Some(name) = &args.resume {
        let store = context.store()?;
        let run = store.run(store.find(name)?)?;
        let begin = Begin::Resume {
            run: run.summary.id,
            rounds: args.rounds,
        };
        return measure(&run.plan, begin, &store, args, context);
    }
    let plan = plan(args, context)?;
    if !args.quiet {
        context.tell(&doubts(&plan));
    }
    if args.dry_run {
        let text = match args.json {
            true => context.json(&plan),
            false => plan_text(&plan, context.style_out()),
        };
        write_out(text)?;
        return Ok(Exit::Fine);
    }
    let store = context.store()?;
    measure(&plan, Begin::New(&plan), &store, args, context)
}

/// Makes the trials and prints what came of them.
fn measure(
    plan: &Plan,
    begin: Begin<'_>,
    store: &SqliteStore,
    args: &RunArgs,
    context: &Context,
) -> Result<Exit, Failure> {
    let reporter = Reporter::new(context, Mode::of(context.terminal, args.quiet));
    let several = plan.cells() > 1 || plan.rounds > 1;
    let mut tables = Tables {
        context,
        // Of many trials the verdict is printed; `show` has their tables.
        silent: args.json || plan.rounds > 1,
        spaced: several,
        unstored: Vec::new(),
    };
    let carried = carry_out(begin, store, context, reporter, &mut tables)?;
    // What was measured is stored: a verdict that cannot be given is told, and takes nothing with it.
    let (verdict, verdict_exit) = match several.then(|| verdict(&carried, store)) {
        None => (None, Exit::Fine),
        Some(Ok(verdict)) => (verdict, Exit::Fine),
        Some(Err(failure)) => {
            context.tell(&failure.faults);
            (None, failure.exit)
        }
    };
    match args.json {
        true => {
            let comparison = match &verdict {
                Some(Judged::Compared(comparison)) => Some(&**comparison),
                _ => None,
            };
            write_out(document(
                plan,
                store,
                &carried,
                comparison,
                tables.unstored,
            )?)?;
        }
        false => {
            if let Some(judged) = &verdict {
                write_out(judged.text(context.style_out()) + "\n")?;
            }
            write_out(conclusion(plan, store, &carried, verdict.as_ref()))?;
        }
    }
    let judged = verdict.map_or(Exit::Fine, |judged| judged.exit(args.fail_on));
    Ok(carried.exit.max(judged).max(verdict_exit))
}

/// What the stored trials say; nothing where no trial can be used.
fn verdict(carried: &Carried, store: &SqliteStore) -> Result<Option<Judged>, Failure> {
    let run = store.run(carried.end.handle.id)?;
    let mut trials = observations(store, &run)?;
    if trials.iter().all(|trial| trial.unusable.is_some()) {
        return Ok(None);
    }
    let question = run.plan.question.clone();
    judge(&[run], &mut trials, &question).map(Some)
}

/// The plan of a command, or all of its faults. Warnings are told.
fn plan(args: &RunArgs, context: &Context) -> Result<Plan, Failure> {
    let folder = working_folder()?;
    let mut faults = Vec::new();
    let (settings, setting_faults) = settings(&args.settings);
    faults.extend(setting_faults);
    let configurations = configurations(&args.on, &folder, !args.dry_run).unwrap_or_else(|found| {
        faults.extend(found);
        Vec::new()
    });
    let mut workloads: Vec<Workload> = Vec::new();
    for file in &args.files {
        let parsed = parse_files(std::slice::from_ref(file), &settings, &SystemHost);
        for fault in parsed.diagnostics {
            // What is wrong with `--set` is wrong with it in every file.
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        }
        workloads.extend(
            parsed
                .workload
                .map(|workload| named_apart(workload, file, &workloads)),
        );
    }
    if faults.iter().any(|fault| fault.severity == Severity::Error) {
        return Err(Failure::input(faults));
    }
    if !args.quiet {
        faults.retain(|fault| fault.severity != Severity::Note);
        context.tell(&faults);
    }
    let name = args.name.clone().unwrap_or_else(|| name_of(&workloads));
    let plan = Plan {
        command: command_line(),
        seed: args.seed.unwrap_or_else(fresh_seed),
        destroy: args.destroy.iter().map(|path| folder.join(path)).collect(),
        ..Plan::new(name, configurations, workloads)
    };
    with_rounds(plan, args).map_err(Failure::input)
}

/// `KEY=VALUE` pairs, and what is wrong with the others.
fn settings(texts: &[String]) -> (Vec<(String, String)>, Vec<Diagnostic>) {
    let mut settings = Vec::new();
    let mut faults = Vec::new();
    for text in texts {
        match text.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => {
                settings.push((key.trim().to_owned(), value.trim().to_owned()));
            }
            _ => faults.push(
                Diagnostic::error(format!("`--set {text}` sets nothing"))
                    .hint("write `--set KEY=VALUE`, such as `--set runtime=10s`"),
            ),
        }
    }
    (settings, faults)
}

/// A second workload of the same name goes by its path.
fn named_apart(workload: Workload, file: &Path, others: &[Workload]) -> Workload {
    match others.iter().any(|other| other.name == workload.name) {
        true => Workload {
            name: file.display().to_string(),
            ..workload
        },
        false => workload,
    }
}

fn name_of(workloads: &[Workload]) -> String {
    let names: Vec<&str> = workloads
        .iter()
        .map(|workload| workload.name.as_str())
        .collect();
    names.join("+")
}

/// The folder the command was given in.
pub(crate) fn working_folder() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|error| Failure::file("find", Path::new("."), &error))
}

/// The command as given.
pub(crate) fn command_line() -> Vec<String> {
    let arguments = std::env::args_os()
        .skip(1)
        .map(|argument| argument.to_string_lossy().into_owned());
    std::iter::once("iodyno".to_owned())
        .chain(arguments)
        .collect()
}

/// Drawn anew, and short enough to be typed again.
pub(crate) fn fresh_seed() -> u64 {
    // The last bits of a UUIDv7 are the system's randomness.
    u64::from(RunId::fresh().0.as_u128() as u32)
}

/// Prints each trial as it ends.
struct Tables<'a> {
    context: &'a Context,
    /// No tables: something else is printed at the end.
    silent: bool,
    /// More is printed after each.
    spaced: bool,
    /// Trials that only memory holds, for the JSON document at the end.
    unstored: Vec<Trial>,
}

impl Audience for Tables<'_> {
    fn told(&mut self, progress: &Progress<'_>) -> Result<(), Failure> {
        let Progress::Ended(ended) = progress else {
            return Ok(());
        };
        if self.silent {
            self.unstored
                .extend(ended.unstored.map(|_| ended.trial.clone()));
            return Ok(());
        }
        if !has_figures(ended.trial) {
            if ended.faults.is_empty() {
                self.context
                    .note(&Drawn::new(ended.workload, ended.trial).text(self.context.style_err()));
            }
            return Ok(());
        }
        let table = Drawn::new(ended.workload, ended.trial).text(self.context.style_out());
        write_out(match self.spaced {
            false => table,
            true => table + "\n",
        })
    }
}

/// The run as JSON: from the store, but for what that does not hold.
fn document(
    plan: &Plan,
    store: &SqliteStore,
    carried: &Carried,
    comparison: Option<&Comparison>,
    unstored: Vec<Trial>,
) -> Result<String, Failure> {
    let handle = carried.end.handle;
    match store.run(handle.id) {
        Ok(run) => Ok(run_json(store, &run, comparison, unstored)?),
        Err(_) => Ok(trials_json(
            plan,
            &run_view(plan, handle, carried.end.state),
            comparison,
            &unstored,
        )),
    }
}

fn came_out(exit: Exit) -> &'static str {
    match exit {
        Exit::Interrupted => "was interrupted",
        Exit::Refused => "was refused",
        _ => "failed",
    }
}

/// Where the result is, what it is worth, and what can be done next.
fn conclusion(
    plan: &Plan,
    store: &SqliteStore,
    carried: &Carried,
    verdict: Option<&Judged>,
) -> String {
    let end = &carried.end;
    let alias = end.handle.alias;
    let stored = match end.unstored {
        None => format!("run {alias} stored in {}.", store.path().display()),
        Some(_) => format!("run {alias} could not be stored as a whole."),
    };
    let trials = end.planned;
    let worth = match end.state {
        RunState::Completed if trials == 1 => "One trial: no verdict.".to_owned(),
        RunState::Completed => format!("{} trials{}.", end.completed, stopped(end.stopped)),
        _ if trials == 1 => format!("It {}.", came_out(carried.exit)),
        _ => format!(
            "It {}: {} of {trials} trials completed.",
            came_out(carried.exit),
            end.completed
        ),
    };
    let next = match (&end.unstored, verdict, end.state) {
        (Some(_), ..) => String::new(),
        (None, _, RunState::Interrupted | RunState::Failed) if trials > 1 => {
            format!("  Next: iodyno run --resume {alias}")
        }
        (None, Some(judged), _) => match rounds_needed(judged, end.rounds) {
            Some(rounds) => format!("  Next: iodyno run --resume {alias} --rounds {rounds}"),
            None => format!("  Next: iodyno compare {alias}"),
        },
        (None, None, _) => format!("  Next: iodyno show {alias}"),
    };
    let seed = format!(" Seed {}.", plan.seed);
    format!("{stored} {worth}{seed}{next}\n")
}

/// More rounds than this are not proposed: whoever needs them knows.
const MOST_PROPOSED: u32 = 100;

/// Rounds in all with which every primary comparison is expected to be decided, where that is within
/// reach and some are not. Of the rounds `made`, some may not count.
fn rounds_needed(judged: &Judged, made: u32) -> Option<u32> {
    let Judged::Compared(comparison) = judged else {
        return None;
    };
    let more = comparison
        .primary_cells()
        .filter_map(|cell| match cell.verdict {
            Verdict::CannotDecide { n, least, .. } => Some(least.saturating_sub(n)),
            Verdict::Inconclusive { more } => more,
            _ => None,
        });
    let rounds = more.max()?.saturating_add(made);
    (rounds > made && rounds <= MOST_PROPOSED).then_some(rounds)
}

/// Why there were no more rounds, where that was not the plan's number.
fn stopped(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Width => ", until the intervals were narrow enough",
        StopReason::MaxTime => ", as many as `--max-time` allowed",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_pairs_and_everything_else_is_told() {
        let texts = ["bs=4k", " rw = read ", "filename=a=b", "rw", "=x", ""].map(str::to_owned);
        let (settings, faults) = settings(&texts);
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(
            settings,
            [
                pair("bs", "4k"),
                pair("rw", "read"),
                pair("filename", "a=b")
            ]
        );
        assert_eq!(faults.len(), 3);
    }

    #[test]
    fn a_seed_is_short_and_never_the_same() {
        let seeds: std::collections::BTreeSet<u64> = (0..100).map(|_| fresh_seed()).collect();
        assert!(seeds.len() > 90 && seeds.iter().all(|seed| *seed <= u64::from(u32::MAX)));
    }
}
