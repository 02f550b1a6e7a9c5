//! `iodyno run`: runs workloads on targets, prints and stores the results.

use std::ffi::OsString;
use std::path::Path;

use iodyno_experiment::fileops::Overrides;
use iodyno_lab::{Permission, Progress};
use iodyno_model::{
    Configuration, Diagnostic, FindingKind, Forecast, Fresh, Plan, PlannedNode, Severity,
};
use iodyno_report::json::Schedule;
use iodyno_store::Store;

use crate::args::{ExperimentArgs, RunArgs};
use crate::begun;
use crate::configurations::{configurations, named_paths, named_targets};
use crate::context::Context;
use crate::exit::Exit;
use crate::experiment::{Begin, RunObserver, commands_allowed, resume_failure, unmet_destroys};
use crate::experiment_file::{self, experiment_text};
use crate::failure::Failure;
use crate::fit::{fitting, in_new_folders};
use crate::measure::{ResultOutput, measure};
use crate::nodes::with_program;
use crate::plan_flags::{destroyed, finished, working_folder};
use crate::plan_view::plan_view;
use crate::progress::{Mode, Reporter};
use crate::rounds::doubts;
use crate::schedule::schedule;
use crate::screen::write_out;
use crate::selection::{part, select, selected_cells};
use crate::servers::{no_clients, servers};
use crate::shell_commands::shell_commands;
use crate::targets::{FoundPaths, foresee, obstacles};
use crate::trials::{Drawn, has_figures};
use crate::vm_nodes::{self, on_guests};
use crate::workloads::{named_job, read_all, set_where_absent, settings};

/// Starts a run, resumes one, or prints the plan.
pub(crate) fn run(args: &RunArgs, context: &Context) -> Result<Exit, Failure> {
    let experiment = &args.experiment;
    let reporter = Reporter::new(context, Mode::of(context.terminal, experiment.quiet));
    if let Some(name) = &args.resume {
        return resume(name, args, context, reporter);
    }
    let nodes = args.nodes.planned()?;
    let in_guests = vm_nodes::any(&nodes);
    let (plan, found, flags) = match experiment_text(&args.files)? {
        Some((file, text)) => {
            let (plan, found, flags) = experiment_file::plan(file, &text, args, &nodes, context)?;
            (plan, found, Some(flags))
        }
        None => {
            let (plan, found) = plan(args, nodes, context)?;
            (plan, found, None)
        }
    };
    if !experiment.quiet {
        let args = flags.as_ref().unwrap_or(experiment);
        context.tell(&doubts(&plan, &found, args));
    }
    if experiment.dry_run {
        let made = |one: &Configuration| one.provision().is_some();
        if flags.is_none() && !plan.configurations.iter().any(made) {
            return show_plan(&plan, &found, None, experiment.json, context);
        }
        let schedule = schedule(&plan, None);
        return show_run(&plan, &found, &schedule, experiment.json, context);
    }
    commands_allowed(&plan, args.allow_exec)?;
    let experiment = flags.as_ref().unwrap_or(experiment);
    let store = context.store()?;
    let mut tables = Tables::of(&plan, context);
    measure(
        &plan,
        Begin::New(&plan),
        &store,
        experiment,
        context,
        reporter,
        ResultOutput::all(&mut tables),
    )
    .map_err(|failure| match in_guests {
        true => vm_nodes::in_words_of_flags(failure),
        false => failure,
    })
}

/// Resumes a run, or prints its missing trials. Nothing that its plan names is accessed before it is known to be the
/// user's own.
fn resume(
    name: &str,
    args: &RunArgs,
    context: &Context,
    reporter: Reporter<'_>,
) -> Result<Exit, Failure> {
    let experiment = &args.experiment;
    if !args.settings.is_empty() && args.experiment_file.is_none() {
        let fault = "`--set` cannot be used with `--resume` alone";
        let hint = "a resumed run keeps its settings: leave the flag out, or start a new run";
        return Err(Failure::one(Diagnostic::error(fault).hint(hint)));
    }
    let store = context.store()?;
    let run = store.run(store.find(name)?)?;
    let folder = working_folder()?;
    let given = match &args.experiment_file {
        Some(file) => Some(given_again(file, &run.plan, args, context)?),
        None => None,
    };
    let mut permission = Permission {
        cells: None,
        destroy: destroyed(args, &folder),
        named: match given {
            Some(_) => Vec::new(),
            None => named_targets(&experiment.on, &folder),
        },
        allowed: args.allow.clone(),
        begun: begun::recorded(run.summary.id),
        plan: given,
        folder,
    };
    let left = iodyno_lab::remaining(&run, experiment.rounds, &permission);
    let mut left = left.map_err(resume_failure)?;
    if !args.only.is_empty() {
        permission.cells = selected_cells(&left.plan, &args.only).map_err(Failure::input)?;
        let selected = iodyno_lab::remaining(&run, experiment.rounds, &permission);
        left = selected.map_err(resume_failure)?;
        let message = "trials of a round that run at different times are compared as if they had run together";
        let hint = "resume all sides that you want to compare at once";
        context.tell(&[Diagnostic::warning(message).hint(hint)]);
    }
    if permission.plan.is_none() {
        let binary = args.nodes.node_binary.as_deref();
        context.connect(&with_program(left.plan.nodes.clone(), binary)?)?;
    }
    if experiment.dry_run {
        let schedule = schedule(&left.plan, Some(&left));
        let part = part(&left.plan, permission.cells.as_ref());
        let found = FoundPaths::of(&part, context)?;
        return show_run(&part, &found, &schedule, experiment.json, context);
    }
    let plan = Plan {
        rounds: run.plan.rounds,
        ..left.plan
    };
    commands_allowed(&plan, args.allow_exec)?;
    let begin = Begin::Resume {
        run: run.summary.id,
        plan: &plan,
        rounds: experiment.rounds,
        permission: &permission,
    };
    let mut tables = Tables::of(&plan, context);
    measure(
        &plan,
        begin,
        &store,
        experiment,
        context,
        reporter,
        ResultOutput::all(&mut tables),
    )
}

/// The plan of an experiment that is given again for a run with this plan. Connects to its nodes.
fn given_again(
    file: &Path,
    stored: &Plan,
    args: &RunArgs,
    context: &Context,
) -> Result<Plan, Failure> {
    let files = [file.to_owned()];
    let Some((_, text)) = experiment_text(&files)? else {
        let fault = format!("`{}` is not an experiment", file.display());
        let hint = "give the experiment in TOML with which the run was begun; a run of job files needs `--on` and `--allow`";
        return Err(Failure::one(Diagnostic::error(fault).hint(hint)));
    };
    // The number of rounds extends the run, and is not that of the plan.
    let experiment = ExperimentArgs {
        rounds: None,
        ..args.experiment.clone()
    };
    // `--where` selects trials of a whole run; that of a part has only what it selected at first.
    let only = match experiment_file::has_all(file, &args.settings, stored) {
        true => Vec::new(),
        false => args.only.clone(),
    };
    let mut args = RunArgs {
        experiment,
        only,
        ..args.clone()
    };
    let mut programs = stored.nodes.iter().filter_map(|it| it.program.as_ref());
    let binary = &mut args.nodes.node_binary;
    *binary = binary.take().or(programs.next().map(|it| it.path.clone()));
    let (plan, _, flags) = experiment_file::plan(file, &text, &args, &[], context)?;
    Ok(Plan {
        seed: flags.seed.unwrap_or(stored.seed),
        ..plan
    })
}

/// Prints the plan for `--dry-run`, and what a run would do with its targets. `found`: descriptions of the targets;
/// `schedule`: part of the JSON document.
pub(crate) fn show_plan(
    plan: &Plan,
    found: &FoundPaths,
    schedule: Option<&Schedule>,
    json: bool,
    context: &Context,
) -> Result<Exit, Failure> {
    context.tell(&unmet_destroys(plan));
    let forecast = foresee(plan, context)?;
    write_out(match json {
        true => iodyno_report::json::plan(plan, forecast.as_ref(), schedule),
        false => {
            let view = plan_view(plan, found, forecast.as_ref(), schedule);
            iodyno_report::plan::text(&view, context.style_out())
        }
    })?;
    context.tell(&match forecast {
        Some(forecast) => warnings(forecast),
        None => vec![Diagnostic::warning(
            "it is unknown what a run would do with its targets: their storage does not respond",
        )],
    });
    Ok(Exit::Fine)
}

/// [`show_plan`], and the faults that prevent making the storage.
fn show_run(
    plan: &Plan,
    found: &FoundPaths,
    schedule: &Schedule,
    json: bool,
    context: &Context,
) -> Result<Exit, Failure> {
    let shown = show_plan(plan, found, Some(schedule), json, context)?;
    let obstacles = obstacles(plan, context)?.into_iter();
    let warnings: Vec<Diagnostic> = obstacles.map(|fault| would("fail", fault)).collect();
    context.tell(&warnings);
    Ok(shown)
}

/// The reasons why a run would not begin, each once, as warnings.
fn warnings(forecast: Forecast) -> Vec<Diagnostic> {
    let targets = forecast.targets.into_iter();
    let refusals = targets.filter_map(|(_, admission)| admission.refusal().cloned());
    let mut warnings: Vec<Diagnostic> = Vec::new();
    for (what, fault) in refusals
        .map(|fault| ("be refused", fault))
        .chain(forecast.faults.into_iter().map(|fault| ("fail", fault)))
    {
        let warning = would(what, fault);
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    warnings
}

/// A warning about what a run would do.
fn would(what: &str, fault: Diagnostic) -> Diagnostic {
    Diagnostic {
        severity: Severity::Warning,
        message: format!("a run would {what}: {}", fault.message),
        ..fault
    }
}

/// The plan of a command on these nodes, to which it connects. Prints warnings; fails with every error found.
fn plan(
    args: &RunArgs,
    nodes: Vec<PlannedNode>,
    context: &Context,
) -> Result<(Plan, FoundPaths), Failure> {
    let folder = working_folder()?;
    let experiment = &args.experiment;
    let (mut settings, mut faults) = settings(&args.settings);
    let built_in =
        args.command.is_empty() && args.files.iter().all(|file| named_job(file).is_some());
    let here = [OsString::from("here=.")];
    let on = match experiment.on.as_slice() {
        [] if built_in || args.files.is_empty() => &here,
        on => on,
    };
    let (nodes, paths, found) = if vm_nodes::any(&nodes) {
        let found = on_guests(&nodes, on, &folder);
        (Vec::new(), FoundPaths::default(), found)
    } else {
        context.connect(&nodes)?;
        let paths = named_paths(on, &folder, &args.only);
        let paths = match built_in {
            true => FoundPaths::look_for_room(paths, context)?,
            false => FoundPaths::look(paths, context)?,
        };
        // A dry run reports missing paths as a run would.
        let error = |path: &Path| paths.error(path).filter(|_| !experiment.dry_run);
        let found = match args.server.is_empty() {
            true => configurations(on, &folder, error),
            false => servers(&args.server, on, &folder),
        };
        (nodes, paths, found)
    };
    let configurations = found.unwrap_or_else(|found| {
        faults.extend(found);
        Vec::new()
    });
    let mut configurations = match built_in {
        true => in_new_folders(configurations, &paths),
        false => configurations,
    };
    if built_in {
        set_where_absent(&mut settings, fitting(&paths));
    }
    let (mut workloads, found) = read_all(&args.files, &settings, Overrides::default());
    faults.extend(found);
    match shell_commands(args) {
        Ok(commands) => workloads.extend(commands),
        Err(found) => faults.extend(found),
    }
    if !args.server.is_empty() {
        faults.extend(no_clients(&workloads, &configurations));
    }
    if faults.is_empty() {
        faults.extend(select(&mut configurations, &mut workloads, &args.only));
    }
    let plan = Plan {
        nodes,
        destroy: destroyed(args, &folder),
        fresh: match built_in {
            true => Fresh::Experiment,
            false => Fresh::default(),
        },
        ..Plan::new("", configurations, workloads)
    };
    Ok((finished(plan, faults, experiment, context)?, paths))
}

/// Prints each trial as it ends.
struct Tables<'a> {
    context: &'a Context,
    /// Whether to print nothing: with several rounds only the comparison is printed.
    silent: bool,
    /// Whether to print an empty line after each table.
    spaced: bool,
    /// Kinds of notes printed so far.
    notes: Vec<FindingKind>,
}

impl<'a> Tables<'a> {
    fn of(plan: &Plan, context: &'a Context) -> Tables<'a> {
        Tables {
            context,
            silent: plan.rounds > 1,
            spaced: plan.cells() > 1,
            notes: Vec::new(),
        }
    }
}

impl RunObserver for Tables<'_> {
    fn on_progress(&mut self, progress: &Progress<'_>) -> Result<(), Failure> {
        let Progress::Ended(ended) = progress else {
            return Ok(());
        };
        if self.silent {
            return Ok(());
        }
        if !has_figures(ended.trial) {
            if ended.faults.is_empty() {
                let style = self.context.style_err();
                let drawn = Drawn::new(ended.workload, ended.trial);
                self.context.note(&drawn.text(&mut self.notes, style));
            }
            return Ok(());
        }
        let drawn = Drawn::new(ended.workload, ended.trial);
        let table = drawn.text(&mut self.notes, self.context.style_out());
        write_out(match self.spaced {
            false => table,
            true => table + "\n",
        })
    }
}
