//! `iodyno show`: prints a stored run in one of several formats.

use iodyno_model::printable::on_one_line;
use iodyno_model::{Diagnostic, Imported, Run, TrialKey, Workload};
use iodyno_report::compare::searches_markup;
use iodyno_report::fio::cannot_tell;
use iodyno_report::json::RunView;
use iodyno_report::series::{jobs_csv, jobs_csv_head};
use iodyno_report::text::{NumberedTrial, trials_markup};
use iodyno_report::{Markup, Style};
use iodyno_store::{RunHandle, SqliteStore, Store};
use iodyno_units::{counted, list};

use crate::args::{Format, ShowArgs};
use crate::commands::searches_of;
use crate::commands::series::{series, trials};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interleaved::typed;
use crate::screen::write_out;
use crate::trials::{Drawn, FioForm, load, run_json, run_view};

/// Prints a run, trial by trial.
pub(crate) fn show(args: &ShowArgs, context: &Context) -> Result<Exit, Failure> {
    let store = context.store_to_read()?;
    let mut run = store.run(store.find(&args.run)?)?;
    if let Some(imported) = &run.plan.imported {
        if !args.series.is_empty() {
            return Err(Failure::one(
                Diagnostic::error(format!(
                    "run {} was imported and has no series",
                    run.summary.alias
                ))
                .hint("use `show` without `--series` to print the imported tables"),
            ));
        }
        return match if args.json { Format::Json } else { args.format } {
            Format::Text => text_of_import(&run, imported, context),
            Format::Markdown => {
                let text = iodyno_report::imported::full(imported, Style::default());
                write_out(Markup::Markdown.block(&text)).map(|()| Exit::Fine)
            }
            Format::Json => {
                write_out(iodyno_report::json::plan(&run.plan, None, None)).map(|()| Exit::Fine)
            }
            _ => Err(Failure::one(
                Diagnostic::error(format!(
                    "run {} was imported and cannot be shown in fio's formats or fsbench's",
                    run.summary.alias
                ))
                .hint("use `--format text`, `markdown` or `json`"),
            )),
        };
    }
    if !args.series.is_empty() {
        return series(args, &store, &run, context);
    }
    let chosen = trials(args.trial, &run)?;
    run.trials
        .retain(|trial| chosen.iter().any(|(_, key)| *key == trial.key));
    match if args.json { Format::Json } else { args.format } {
        Format::Json => {
            let handle = RunHandle {
                id: run.summary.id,
                alias: run.summary.alias,
            };
            let head = RunView {
                searches: searches_of(&store, &run)?,
                ..run_view(&run.plan, handle, run.summary.state)
            };
            write_out(run_json(&store, &run, &head, None, Vec::new())?)?;
        }
        Format::Text => text(&store, &run, &chosen, context)?,
        Format::Markdown => markdown(&store, &run, &chosen)?,
        Format::FioJson => fio(&store, &run, FioForm::Json, context)?,
        Format::FioJsonPlus => fio(&store, &run, FioForm::JsonPlus, context)?,
        Format::FioNormal => fio(&store, &run, FioForm::Normal, context)?,
        Format::Terse => fio(&store, &run, FioForm::Terse(3), context)?,
        Format::Fsbench => fsbench(&store, &run, context)?,
        Format::Csv => csv(&store, &run, &chosen)?,
    }
    Ok(Exit::Fine)
}

/// Prints the imported results with their full tables.
fn text_of_import(run: &Run, imported: &Imported, context: &Context) -> Result<Exit, Failure> {
    write_out(iodyno_report::imported::full(imported, context.style_out()))?;
    write_out(format!(
        "run {} `{}` was imported by: {}\n",
        run.summary.alias,
        on_one_line(&run.summary.name),
        on_one_line(&typed(&run.plan.command))
    ))?;
    Ok(Exit::Fine)
}

/// Prints trials. A single one has the thresholds of its findings; several have numbers, and notes on the set-up are
/// printed once.
fn text(
    store: &SqliteStore,
    run: &Run,
    chosen: &[(u32, TrialKey)],
    context: &Context,
) -> Result<(), Failure> {
    let style = context.style_out();
    let mut printed = Vec::new();
    for (number, key) in chosen {
        let trial = load(store, *key, Format::Text.series())?;
        let (_, workload) = run.plan.cell(key.cell);
        let drawn = Drawn::new(workload, &trial);
        let head = match chosen.len() {
            1 => String::new(),
            _ => format!("trial {number}, round {}\n", key.round + 1),
        };
        let table = match chosen.len() == 1 || context.verbose > 0 {
            true => drawn.text_in_full(style),
            false => drawn.text(&mut printed, style),
        };
        write_out(head + &table + "\n")?;
    }
    let searches = searches_of(store, run)?;
    write_out(iodyno_report::compare::searches(
        &searches,
        context.style_out(),
    ))?;
    let summary = &run.summary;
    write_out(format!(
        "run {} `{}` is {}: {} of {} completed{}. Command: {}\n",
        summary.alias,
        on_one_line(&summary.name),
        summary.state.name(),
        summary.trials_completed,
        counted(summary.trials_planned, "trial"),
        extended(&run.plan.looks),
        on_one_line(&typed(&run.plan.command))
    ))
}

/// Prints the trials in one table.
fn markdown(store: &SqliteStore, run: &Run, chosen: &[(u32, TrialKey)]) -> Result<(), Failure> {
    let mut trials = Vec::new();
    for (number, key) in chosen {
        trials.push((*number, load(store, *key, Format::Markdown.series())?));
    }
    let shown = trials.iter().map(|(number, trial)| {
        let (_, workload) = run.plan.cell(trial.key.cell);
        NumberedTrial {
            number: *number,
            workload,
            trial,
            summary: iodyno_judge::summary(workload, trial),
        }
    });
    let shown: Vec<NumberedTrial<'_>> = shown.collect();
    write_out(trials_markup(&shown, Markup::Markdown))?;
    let searches = searches_of(store, run)?;
    if !searches.is_empty() {
        let name = on_one_line(&run.summary.name);
        let text = searches_markup(&name, &searches, Markup::Markdown);
        write_out(format!("\n{text}"))?;
    }
    Ok(())
}

/// `; extended twice, after 10 and 20 rounds`.
fn extended(looks: &[u32]) -> String {
    let times = match looks.len() {
        0 => return String::new(),
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        n => format!("{n} times"),
    };
    format!("; extended {times}, after {} rounds", list(looks))
}

/// Prints the seconds of each trial's jobs.
fn csv(store: &SqliteStore, run: &Run, chosen: &[(u32, TrialKey)]) -> Result<(), Failure> {
    write_out(jobs_csv_head())?;
    for (number, key) in chosen {
        let trial = load(store, *key, Format::Csv.series())?;
        let (configuration, workload) = run.plan.cell(key.cell);
        let place = (*number, key.round, configuration.name.as_str());
        write_out(jobs_csv(place, workload, &trial.frames))?;
    }
    Ok(())
}

/// Prints each trial of file operations as `fs run` does; tables after the first follow an empty line.
fn fsbench(store: &SqliteStore, run: &Run, context: &Context) -> Result<(), Failure> {
    let other = |workload: &&Workload| {
        let mut jobs = workload.jobs.iter();
        !jobs.all(|job| job.work.file_operations().is_some())
    };
    if let Some(other) = run.plan.workloads.iter().find(other) {
        let fault = format!("run {} cannot be shown in this format", run.summary.alias);
        let hint = format!(
            "workload `{}` has no file operations; use `--format text`",
            on_one_line(&other.name)
        );
        return Err(Failure::one(Diagnostic::error(fault).hint(hint)));
    }
    for (index, stored) in run.trials.iter().enumerate() {
        let trial = load(store, stored.key, Format::Fsbench.series())?;
        let (_, workload) = run.plan.cell(stored.key.cell);
        let before = if index > 0 { "\n" } else { "" };
        let table = Drawn::new(workload, &trial).fsbench(context.style_out());
        write_out(format!("{before}{table}"))?;
    }
    Ok(())
}

/// Prints each trial in one of fio's formats; in JSON, one document per trial.
fn fio(store: &SqliteStore, run: &Run, form: FioForm, context: &Context) -> Result<(), Failure> {
    for workload in &run.plan.workloads {
        if let Some(why) = cannot_tell(workload) {
            let fault = format!("run {} cannot be shown in this format", run.summary.alias);
            return Err(Failure::one(Diagnostic::error(fault).hint(why)));
        }
    }
    for stored in &run.trials {
        let trial = load(store, stored.key, Format::FioJson.series())?;
        let (_, workload) = run.plan.cell(stored.key.cell);
        write_out(Drawn::new(workload, &trial).fio(form, context))?;
    }
    Ok(())
}
