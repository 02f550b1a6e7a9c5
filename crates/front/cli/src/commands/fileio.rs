//! `iodyno fileio`: sysbench fileio's command line and output.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use iodyno_guard::{Guard, Intent, OpenFlags, Request};
use iodyno_host::Roots;
use iodyno_lab::Progress;
use iodyno_model::printable::{on_one_line, shell_word as quoted};
use iodyno_model::{Diagnostic, Job, NodeAddress, Plan, PlannedNode, Severity, Target};
use iodyno_report::sysbench as report;
use iodyno_runner::Event;
use iodyno_sysbench::{self as sysbench, Action, Command};
use iodyno_units::{Nanos, list};

use crate::args::{ExperimentArgs, FileioArgs, called_by_other_name};
use crate::commands::run::show_plan;
use crate::configurations::{configurations, named_paths};
use crate::context::Context;
use crate::exit::Exit;
use crate::experiment::{Begin, RunObserver, carry_out};
use crate::failure::{Failure, reason};
use crate::measure::{ResultOutput, measure};
use crate::observations::name_fault;
use crate::plan_flags::{command_line, fresh_seed, working_folder};
use crate::progress::{Mode, Reporter};
use crate::rounds::{doubts, with_rounds};
use crate::screen::write_out;
use crate::targets::FoundPaths;
use crate::trials::{Drawn, has_figures};

/// Runs `prepare`, `run` or `cleanup` like sysbench fileio; the first two are stored as trials. The exit codes are
/// those of iodyno, or under the name `sysbench` those of sysbench.
pub(crate) fn fileio(args: &FileioArgs, context: &Context) -> ExitCode {
    let exit = crate::report(carry(args, context), context);
    match called_by_other_name() {
        true => ExitCode::from(exit.sysbench_code()),
        false => exit.into(),
    }
}

fn carry(args: &FileioArgs, context: &Context) -> Result<Exit, Failure> {
    let mut read = sysbench::read(&args.arguments);
    if read.is_err()
        && let Some((fault, rest)) = misplaced(&args.arguments)
    {
        let more = sysbench::read(&rest).err().unwrap_or_default();
        read = Err([fault].into_iter().chain(more).collect());
    }
    let version = matches!(&read, Ok(command) if matches!(command.action, Action::Version));
    if called_by_other_name() && !version {
        // In place of sysbench's Lua interpreter.
        let ours = env!("CARGO_PKG_VERSION");
        write_out(format!(
            "sysbench {} (using iodyno {ours})\n\n",
            sysbench::RELEASE
        ))?;
    }
    let command = read.map_err(Failure::input)?;
    if args.unobtrusive.quiet {
        context.silence();
    }
    let notes = command.notes.iter();
    let warnings: Vec<Diagnostic> = notes
        .filter(|said| said.severity != Severity::Note)
        .cloned()
        .collect();
    context.tell(&warnings);
    match command.action {
        Action::Help => write_out(sysbench::help()).map(|()| Exit::Fine),
        Action::Version => {
            // The first two words are those of sysbench's output.
            let ours = env!("CARGO_PKG_VERSION");
            write_out(format!("sysbench {} (iodyno {ours})\n", sysbench::RELEASE))
                .map(|()| Exit::Fine)
        }
        Action::Cleanup => cleanup(args, &command, context),
        Action::Prepare | Action::Run => perform(args, &command, context),
    }
}

/// iodyno's own flags among sysbench's arguments, with the corrected command, and the other arguments.
fn misplaced(arguments: &[String]) -> Option<(Diagnostic, Vec<String>)> {
    let flags = FileioArgs::augment_args(clap::Command::new("fileio"));
    let own = |word: &str| {
        let name = word.strip_prefix("--")?;
        let name = name.split_once('=').map_or(name, |(name, _)| name);
        let mut flags = flags.get_arguments();
        flags.find(|flag| !flag.is_hide_set() && flag.get_long() == Some(name))
    };
    let (mut first, mut rest, mut names) = (Vec::new(), Vec::new(), Vec::new());
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let Some(flag) = own(word) else {
            rest.push(word.clone());
            continue;
        };
        let name = format!("`--{}`", flag.get_long().unwrap_or_default());
        if !names.contains(&name) {
            names.push(name);
        }
        first.push(quoted(word));
        if flag.get_action().takes_values() && !word.contains('=') {
            first.extend(words.next().map(|value| quoted(value)));
        }
    }
    let verb = match names.len() {
        0 => return None,
        1 => "belongs",
        _ => "belong",
    };
    let program = match called_by_other_name() {
        true => "sysbench",
        false => "iodyno fileio",
    };
    first.extend(rest.iter().map(|word| quoted(word)));
    let fault = format!(
        "{} {verb} directly after `{program}`, before sysbench's arguments",
        list(&names)
    );
    let hint = format!("write `{program} {}`", on_one_line(&first.join(" ")));
    Some((Diagnostic::error(fault).hint(hint), rest))
}

/// The commands that remove the files on nodes other than this host.
fn elsewhere(args: &FileioArgs, nodes: &[PlannedNode], folder: &Path) -> Vec<Diagnostic> {
    let on = match args.on.as_slice() {
        [] => vec![folder.display().to_string()],
        _ => {
            let paths = named_paths(&args.on, folder, &[]);
            paths
                .iter()
                .map(|path| path.display().to_string())
                .collect()
        }
    };
    let on = on.iter().map(|path| format!("--on {}", quoted(path)));
    let rest = args.arguments.iter().map(|word| quoted(word));
    let words: Vec<String> = on.chain(rest).collect();
    let there = format!("iodyno fileio {}", words.join(" "));
    let faults = nodes.iter().filter_map(|node| {
        let why = format!("`cleanup` does not work on node `{}`", node.name);
        let fault = Diagnostic::error(format!("{why}, which is not this host"));
        match node.at.parse().ok()? {
            NodeAddress::Local | NodeAddress::Fio(None) => None,
            NodeAddress::Ssh(at) | NodeAddress::Fio(Some(at)) => {
                let port = at.port.map(|port| format!("-p {port} "));
                let user = at.user.map(|user| format!("{user}@"));
                let hint = format!(
                    "log in there and run it: `ssh {}{}{} {}`",
                    port.unwrap_or_default(),
                    user.unwrap_or_default(),
                    at.host,
                    quoted(&there)
                );
                Some(fault.hint(on_one_line(&hint)))
            }
            NodeAddress::Vm(_) => {
                Some(fault.hint("leave the node out: its disks are removed with it"))
            }
        }
    });
    faults.collect()
}

/// Removal of a file whose name the user did not specify.
fn removal(path: &Path) -> Request<'_> {
    Request {
        path,
        intent: Intent {
            remove: true,
            ..Intent::default()
        },
        flags: OpenFlags::default(),
        named: false,
        destroy: &[],
    }
}

/// Removes the files that `prepare` creates, and nothing else. Keeps files that are in use or have a disk image. Nodes
/// on this host have the same files.
fn cleanup(args: &FileioArgs, command: &Command, context: &Context) -> Result<Exit, Failure> {
    let folder = working_folder()?;
    let nodes = args.nodes.planned()?;
    let faults = elsewhere(args, &nodes, &folder);
    if !faults.is_empty() {
        return Err(Failure::input(faults));
    }
    let found = FoundPaths::look(named_paths(&args.on, &folder, &[]), context)?;
    let configurations =
        configurations(&args.on, &folder, |path| found.error(path)).map_err(Failure::input)?;
    let guard = Guard::new(Roots::host());
    let mut removed = 0u64;
    let mut faults = Vec::new();
    for configuration in &configurations {
        let folder = configuration.target.path();
        let at = match &configuration.target {
            Target::Path(_) => format!(" in `{}`", folder.display()),
            Target::AsWritten { .. } | Target::Made(_) | Target::Simulated(_) => String::new(),
        };
        for name in sysbench::cleanup_files(command.file_num) {
            let path = folder.join(&name);
            match path.symlink_metadata() {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Ok(found) if !found.is_file() => {
                    faults.push(
                        Diagnostic::error(format!(
                            "`{name}`{at} is not a regular file and was not removed"
                        ))
                        .hint("remove it by hand if it is not needed"),
                    );
                    continue;
                }
                _ => {}
            }
            if let Err(why) = guard.examine(&removal(&path)) {
                let why = why.diagnostic();
                faults.push(why.hint("remove it by hand if it is not needed"));
                continue;
            }
            let outcome = match args.dry_run {
                true => Ok(()),
                false => std::fs::remove_file(&path),
            };
            match outcome {
                Ok(()) => removed += 1,
                Err(error) => faults.push(Diagnostic::error(format!(
                    "cannot remove `{name}`{at}: {}",
                    reason(&error)
                ))),
            }
        }
    }
    let all = u64::from(command.file_num) * configurations.len() as u64;
    if args.dry_run {
        write_out(format!("{removed} of {all} files would be removed\n"))?;
    } else {
        write_out("Removing test files...\n")?;
        context.note(&format!("{removed} of {all} files removed"));
    }
    match faults.is_empty() {
        true => Ok(Exit::Fine),
        false => Err(Failure {
            exit: Exit::CheckFailed,
            faults,
        }),
    }
}

fn perform(args: &FileioArgs, command: &Command, context: &Context) -> Result<Exit, Failure> {
    let Some(job) = &command.job else {
        return Ok(Exit::Fine);
    };
    let experiment = args.experiment();
    let nodes = args.nodes.planned()?;
    context.connect(&nodes)?;
    let (plan, found) = plan(command, job, &experiment, context)?;
    let plan = Plan { nodes, ..plan };
    let runs = command.action == Action::Run;
    let compares = runs && (plan.cells() > 1 || plan.rounds > 1);
    if compares && !experiment.quiet {
        context.tell(&doubts(&plan, &found, &experiment));
    }
    if experiment.dry_run {
        return show_plan(&plan, &found, None, false, context);
    }
    let store = context.store_or_memory(args.unobtrusive.no_store)?;
    let mut reporter = Reporter::new(context, Mode::of(context.terminal, false));
    // With several rounds only the comparison is printed.
    let silent = plan.rounds > 1;
    let every = command.report_interval.filter(|_| runs && !silent);
    if every.is_some() {
        reporter = reporter.without_frames();
    }
    let mut printer = Printer {
        command,
        job,
        options: report::Options {
            percentile: command.percentile,
            histogram: command.histogram,
        },
        every,
        live: None,
        opened: false,
        heading: None,
        several: plan.cells() > 1,
        silent,
        context,
        quiet: experiment.quiet,
    };
    if compares {
        let output = ResultOutput::all(&mut printer);
        let begin = Begin::New(&plan);
        return measure(&plan, begin, &store, &experiment, context, reporter, output);
    }
    let ended_run = carry_out(Begin::New(&plan), &store, context, reporter, &mut printer)?;
    if ended_run.end.unstored.is_none() && store.path().is_some() && !experiment.quiet {
        let alias = ended_run.end.handle.alias;
        context.note(&format!(
            "run {alias} stored; `iodyno show {alias}` prints its details"
        ));
    }
    Ok(ended_run.exit)
}

/// The files are prepared once on each configuration; `run` is repeated and compared as by `iodyno run`.
fn plan(
    command: &Command,
    job: &Job,
    args: &ExperimentArgs,
    context: &Context,
) -> Result<(Plan, FoundPaths), Failure> {
    let folder = working_folder()?;
    let found = FoundPaths::look(named_paths(&args.on, &folder, &[]), context)?;
    // A dry run reports missing paths as a run would.
    let error = |path: &Path| found.error(path).filter(|_| !args.dry_run);
    let configurations = configurations(&args.on, &folder, error).map_err(Failure::input)?;
    let workloads = command.workload().into_iter().collect();
    let name = args.name.clone();
    if let Some(fault) = name.as_deref().and_then(name_fault) {
        return Err(Failure::one(fault));
    }
    let plan = Plan {
        command: command_line(),
        seed: seed(job).unwrap_or_else(fresh_seed),
        sampling: args.sampling.sampling(),
        ..Plan::new(
            name.unwrap_or_else(|| format!("fileio-{}", job.name)),
            configurations,
            workloads,
        )
    };
    let plan = match (command.action, args.rounds) {
        (Action::Run, _) => with_rounds(plan, args).map_err(Failure::input),
        (_, None) => Ok(plan),
        (_, Some(_)) => Err(Failure::input(vec![
            Diagnostic::error("`--rounds` has no effect with `prepare`")
                .hint("leave it out: the files are prepared once"),
        ])),
    };
    Ok((plan?, found))
}

/// The requested seed.
fn seed(job: &Job) -> Option<u64> {
    job.work.shared_files()?.seed
}

/// Prints the same text as sysbench, at the same points.
struct Printer<'a> {
    command: &'a Command,
    job: &'a Job,
    options: report::Options,
    /// Interval of intermediate reports.
    every: Option<Nanos>,
    live: Option<report::Live>,
    /// Whether the opening of the trial was printed, when the first of its nodes was ready.
    opened: bool,
    /// The configuration of the trial, unless it was printed.
    heading: Option<String>,
    /// There are several configurations.
    several: bool,
    /// Nothing is printed of single trials.
    silent: bool,
    context: &'a Context,
    quiet: bool,
}

impl Printer<'_> {
    fn print(&mut self, text: &str) -> Result<(), Failure> {
        self.context.screen.clear();
        let heading = self.heading.take().unwrap_or_default();
        write_out(format!("{heading}{text}"))
    }
}

impl RunObserver for Printer<'_> {
    fn on_progress(&mut self, progress: &Progress<'_>) -> Result<(), Failure> {
        let running = self.command.action == Action::Run;
        match progress {
            _ if self.silent => Ok(()),
            Progress::Trial { configuration, .. } => {
                let percentile = self.command.percentile;
                self.live = self.every.map(|every| report::Live::new(every, percentile));
                self.opened = false;
                let name = on_one_line(&configuration.name);
                self.heading = self.several.then(|| format!("configuration: {name}\n"));
                Ok(())
            }
            // Printed only now: if the trial cannot start, nothing is printed.
            Progress::Node(Event::Ready { .. }) if running && !self.opened => {
                self.opened = true;
                self.print(&report::preamble(
                    self.job,
                    seed(self.job),
                    self.command.report_interval,
                ))
            }
            Progress::Node(Event::Frame(frame)) => {
                let line = self.live.as_mut().and_then(|live| live.frame(frame));
                line.map_or(Ok(()), |line| self.print(&line))
            }
            Progress::Ended(ended) if has_figures(ended.trial) => {
                let (workload, trial) = (ended.workload, ended.trial);
                let drawn = Drawn::new(workload, trial);
                self.print(&match running {
                    false => report::prepared(workload, trial),
                    true => report::result(workload, trial, &self.options),
                })?;
                // Findings go to standard error, so that standard output is sysbench's.
                let style = self.context.style_err();
                let remarks = drawn.by_node(style) + &drawn.remarks(style);
                if !remarks.is_empty() && !self.quiet {
                    self.context.note(&remarks);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn needs_store(&self) -> bool {
        false
    }
}
