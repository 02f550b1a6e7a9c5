//! `iodyno fs`: lists, shows and runs file-operation workloads.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use iodyno_experiment::fileops::{self as operations, Overrides};
use iodyno_fio::{NAMED_JOBS, NamedJob};
use iodyno_lab::Progress;
use iodyno_model::printable::on_one_line;
use iodyno_model::{Configuration, Diagnostic, Plan, Target};
use iodyno_report::experiments;
use iodyno_report::fsbench::{self, ListRow, Live};
use iodyno_runner::Event;

use crate::args::{FsArgs, FsCommand, FsListArgs, FsRunArgs, FsShowArgs, Percent};
use crate::commands::run::show_plan;
use crate::configurations::{configurations, named_paths};
use crate::context::Context;
use crate::exit::Exit;
use crate::experiment::{Begin, RunObserver};
use crate::failure::Failure;
use crate::measure::{ResultOutput, measure};
use crate::plan_flags::{finished, working_folder};
use crate::progress::{Mode, Reporter};
use crate::rounds::doubts;
use crate::screen::write_out;
use crate::targets::FoundPaths;
use crate::trials::{Drawn, has_figures};
use crate::workloads::{described, is_described, named_job, read_all, settings};

/// Lists, shows or runs file-operation workloads.
pub(crate) fn fs(args: &FsArgs, context: &Context) -> Result<Exit, Failure> {
    match &args.command {
        FsCommand::List(args) => list(args, context),
        FsCommand::Show(args) => show(args),
        FsCommand::Run(args) => run(args, context),
    }
}

fn list(args: &FsListArgs, context: &Context) -> Result<Exit, Failure> {
    let rows: Vec<ListRow> = operations::names()
        .into_iter()
        .filter_map(|named| {
            let described = operations::named(named.name)?;
            Some(ListRow {
                name: named.name.to_owned(),
                aliases: named
                    .aliases
                    .iter()
                    .map(|alias| alias.to_string())
                    .collect(),
                about: described.about.clone(),
                needs: described.needs(),
                clones: described.job.clones,
                ops: described.job.end.ops,
            })
        })
        .collect();
    write_out(match args.json {
        true => fsbench::list_json(&rows),
        false => {
            let style = context.style_out();
            let jobs: Vec<experiments::ListRow> = NAMED_JOBS.iter().map(job_row).collect();
            let title = "Reads and writes, for `iodyno run NAME --on PATH`:";
            fsbench::list(&rows, style) + "\n" + &experiments::list(title, &jobs, style)
        }
    })?;
    Ok(Exit::Fine)
}

fn job_row(job: &NamedJob) -> experiments::ListRow {
    experiments::ListRow {
        name: job.name.to_owned(),
        about: job.about.to_owned(),
        ..experiments::ListRow::default()
    }
}

fn show(args: &FsShowArgs) -> Result<Exit, Failure> {
    if let Some(job) = named_job(args.name.as_ref()) {
        write_out(job.text)?;
        return Ok(Exit::Fine);
    }
    let described = described(args.name.as_ref()).map_err(Failure::input)?;
    write_out(operations::write(&described))?;
    Ok(Exit::Fine)
}

fn run(args: &FsRunArgs, context: &Context) -> Result<Exit, Failure> {
    let (mut plan, found) = plan(args, context)?;
    let experiment = &args.experiment;
    // Different workloads in one folder are compared only if rounds are requested.
    let repeats = experiment.rounds.is_some() || experiment.stop_width.is_some() || experiment.aa;
    let compares = plan.configurations.len() > 1 || repeats;
    if !compares {
        plan.rounds = 1;
    } else if !experiment.quiet {
        context.tell(&doubts(&plan, &found, experiment));
    }
    if experiment.dry_run {
        return show_plan(&plan, &found, None, experiment.json, context);
    }
    let store = context.store()?;
    let several = compares && (plan.cells() > 1 || plan.rounds > 1);
    let reporter = Reporter::new(context, Mode::of(context.terminal, experiment.quiet));
    let (reporter, mut tables) = match several {
        true => (reporter, Tables::lines(context)),
        // The rows of the table show the progress.
        false if !experiment.json => (
            reporter.without_frames(),
            Tables {
                rows: !experiment.quiet,
                ..Tables::growing(context)
            },
        ),
        false => (reporter, Tables::growing(context)),
    };
    let begin = Begin::New(&plan);
    measure(
        &plan,
        begin,
        &store,
        experiment,
        context,
        reporter,
        ResultOutput {
            tables: &mut tables,
            compares,
        },
    )
}

fn plan(args: &FsRunArgs, context: &Context) -> Result<(Plan, FoundPaths), Failure> {
    let folder = working_folder()?;
    let experiment = &args.experiment;
    let nodes = args.nodes.planned()?;
    context.connect(&nodes)?;
    let (settings, mut faults) = settings(&args.settings);
    let here = [OsString::from("here=.")];
    let on = match experiment.on.as_slice() {
        [] => &here,
        on => on,
    };
    let named = match &args.dir {
        Some(dir) => vec![folder.join(dir)],
        None => named_paths(on, &folder, &[]),
    };
    let paths = FoundPaths::look(named, context)?;
    // A dry run reports missing paths as a run would.
    let error = |path: &Path| paths.error(path).filter(|_| !experiment.dry_run);
    let configurations = match &args.dir {
        Some(dir) => in_dir(dir, &folder, error),
        None => configurations(on, &folder, error),
    };
    let configurations = configurations.unwrap_or_else(|found| {
        faults.extend(found);
        Vec::new()
    });
    for file in &args.workloads {
        if !is_described(file) {
            faults.extend(described(file).err().unwrap_or_default());
        }
    }
    let files: Vec<PathBuf> = (args.workloads.iter())
        .filter(|file| is_described(file))
        .cloned()
        .collect();
    let (workloads, found) = read_all(&files, &settings, overrides(args));
    faults.extend(found);
    let plan = Plan {
        nodes,
        ..Plan::new("", configurations, workloads)
    };
    Ok((finished(plan, faults, experiment, context)?, paths))
}

/// The configuration of `--dir`. `error`: why a path does not exist.
fn in_dir<'a>(
    dir: &Path,
    folder: &Path,
    error: impl Fn(&Path) -> Option<&'a str>,
) -> Result<Vec<Configuration>, Vec<Diagnostic>> {
    let path = folder.join(dir);
    match error(&path) {
        Some(error) => Err(vec![
            Diagnostic::error(format!("`--dir {}`: {error}", dir.display())).hint(format!(
                "give an existing folder, or create it: mkdir -p {}",
                dir.display()
            )),
        ]),
        _ => Ok(vec![Configuration::new("dir", Target::Path(path))]),
    }
}

fn overrides(args: &FsRunArgs) -> Overrides {
    let either = |yes: bool, no: bool| (yes || no).then_some(yes);
    Overrides {
        threads: args.threads,
        own_folders: either(args.own_folders, args.shared_folder),
        files: args
            .files
            .iter()
            .map(|files| (files.set.clone(), files.count))
            .collect(),
        file_size: args
            .file_size
            .iter()
            .map(|size| (size.set.clone(), size.bytes))
            .collect(),
        new_file_at: args.new_file_at,
        duration: args.duration,
        max_ops: args.max_ops,
        ramp: args.ramp,
        rate: args.rate,
        poisson: args.poisson,
        drain: either(args.drain, args.no_drain),
        compress_percent: args.compress.map(Percent::whole),
        chunk: None,
        setup_threads: None,
    }
}

/// Prints trials in fsbench's format: a row per second for a single trial, and a line for benchstat for
/// each trial.
struct Tables<'a> {
    context: &'a Context,
    single: bool,
    /// Whether each second is a row.
    rows: bool,
    live: Option<Live>,
    opening: String,
    /// The configuration of the current trial.
    configuration: String,
    printed: String,
}

impl<'a> Tables<'a> {
    fn growing(context: &'a Context) -> Tables<'a> {
        Tables {
            context,
            single: true,
            rows: true,
            live: None,
            opening: String::new(),
            configuration: String::new(),
            printed: String::new(),
        }
    }

    fn lines(context: &'a Context) -> Tables<'a> {
        Tables {
            single: false,
            ..Tables::growing(context)
        }
    }

    /// Prints above the live progress line.
    fn print(&self, text: &str) -> Result<(), Failure> {
        self.context.screen.clear();
        write_out(text)
    }
}

impl RunObserver for Tables<'_> {
    fn on_progress(&mut self, progress: &Progress<'_>) -> Result<(), Failure> {
        match progress {
            Progress::Trial {
                configuration,
                workload,
                ..
            } => {
                self.configuration.clone_from(&configuration.name);
                if !self.single {
                    return Ok(());
                }
                self.live = self.rows.then(|| Live::new(&workload.name));
                self.opening = fsbench::opening(workload);
                Ok(())
            }
            // Printed only now: if the trial cannot start, nothing is printed.
            Progress::Node(Event::Ready { .. }) => {
                let opening = std::mem::take(&mut self.opening);
                match opening.is_empty() {
                    // With several nodes, the first one that is ready.
                    true => Ok(()),
                    false => self.print(&opening),
                }
            }
            Progress::Node(Event::Frame(frame)) => {
                let row = self.live.as_mut().and_then(|live| live.frame(frame));
                row.map_or(Ok(()), |row| self.print(&row))
            }
            Progress::Ended(ended) if has_figures(ended.trial) => {
                let (workload, trial) = (ended.workload, ended.trial);
                let drawn = Drawn::new(workload, trial);
                if self.single {
                    return self.print(&drawn.fsbench_closing(self.context.style_out()));
                }
                let mut text = String::new();
                if self.printed.is_empty() {
                    text += fsbench::benchmark_units();
                }
                if self.printed != self.configuration {
                    self.printed.clone_from(&self.configuration);
                    text += &format!("configuration: {}\n", on_one_line(&self.configuration));
                }
                self.print(&(text + &drawn.benchmark_line()))
            }
            Progress::Ended(ended) if ended.faults.is_empty() => {
                let drawn = Drawn::new(ended.workload, ended.trial);
                self.context
                    .note(&drawn.text(&mut Vec::new(), self.context.style_err()));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
