//! `iodyno fileio`: sysbench fileio's command line and output.

use iodyno_lab::Progress;
use iodyno_model::{Diagnostic, Job, Plan, Severity};
use iodyno_report::sysbench as report;
use iodyno_runner::Event;
use iodyno_sysbench::{self as sysbench, Action, Command};

use crate::args::FileioArgs;
use crate::commands::run::{command_line, fresh_seed, working_folder};
use crate::configurations::configurations;
use crate::context::Context;
use crate::exit::Exit;
use crate::experiment::{Begin, RunObserver, carry_out};
use crate::failure::{Failure, reason};
use crate::progress::{Mode, Reporter};
use crate::screen::write_out;
use crate::trials::{Drawn, has_figures};

/// Runs `prepare`, `run` or `cleanup` as sysbench fileio does; the first two are stored as trials.
pub(crate) fn fileio(args: &FileioArgs, context: &Context) -> Result<Exit, Failure> {
    let command = sysbench::read(&args.arguments).map_err(Failure::input)?;
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
        Action::Cleanup => cleanup(&command, context),
        Action::Prepare | Action::Run => measure(args, &command, context),
    }
}

/// Removes the files that `prepare` creates, and nothing else.
fn cleanup(command: &Command, context: &Context) -> Result<Exit, Failure> {
    let folder = working_folder()?;
    let mut removed = 0u64;
    let mut faults = Vec::new();
    for name in sysbench::cleanup_files(command.file_num) {
        let path = folder.join(&name);
        match path.symlink_metadata() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Ok(found) if !found.is_file() => {
                faults.push(
                    Diagnostic::error(format!(
                        "`{name}` is not a regular file and was not removed"
                    ))
                    .hint("remove it by hand if it is not needed"),
                );
                continue;
            }
            _ => {}
        }
        match std::fs::remove_file(&path) {
            Ok(()) => removed += 1,
            Err(error) => faults.push(Diagnostic::error(format!(
                "cannot remove `{name}`: {}",
                reason(&error)
            ))),
        }
    }
    write_out("Removing test files...\n")?;
    context.note(&format!("{removed} of {} files removed", command.file_num));
    match faults.is_empty() {
        true => Ok(Exit::Fine),
        false => Err(Failure {
            exit: Exit::CheckFailed,
            faults,
        }),
    }
}

fn measure(args: &FileioArgs, command: &Command, context: &Context) -> Result<Exit, Failure> {
    let Some(job) = &command.job else {
        return Ok(Exit::Fine);
    };
    let plan = Plan {
        sampling: args.sampling.sampling(),
        ..plan(command, job)?
    };
    let store = context.store_or_memory(args.unobtrusive.no_store)?;
    let mut reporter = Reporter::new(context, Mode::of(context.terminal, false));
    let lines = command
        .report_interval
        .filter(|_| command.action == Action::Run);
    if lines.is_some() {
        reporter = reporter.without_frames();
    }
    let mut printer = Printer {
        command,
        job,
        options: report::Options {
            percentile: command.percentile,
            histogram: command.histogram,
        },
        live: lines.map(|every| report::Live::new(every, command.percentile)),
        context,
        quiet: args.unobtrusive.quiet,
    };
    let ended_run = carry_out(Begin::New(&plan), &store, context, reporter, &mut printer)?;
    if ended_run.end.unstored.is_none() && store.path().is_some() && !args.unobtrusive.quiet {
        let alias = ended_run.end.handle.alias;
        context.note(&format!(
            "run {alias} stored; `iodyno show {alias}` prints its details"
        ));
    }
    Ok(ended_run.exit)
}

fn plan(command: &Command, job: &Job) -> Result<Plan, Failure> {
    let folder = working_folder()?;
    let configurations = configurations(&[], &folder, false).map_err(Failure::input)?;
    let workloads = command.workload().into_iter().collect();
    Ok(Plan {
        command: command_line(),
        seed: seed(job).unwrap_or_else(fresh_seed),
        ..Plan::new(format!("fileio-{}", job.name), configurations, workloads)
    })
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
    live: Option<report::Live>,
    context: &'a Context,
    quiet: bool,
}

impl Printer<'_> {
    fn print(&self, text: &str) -> Result<(), Failure> {
        self.context.screen.clear();
        write_out(text)
    }
}

impl RunObserver for Printer<'_> {
    fn on_progress(&mut self, progress: &Progress<'_>) -> Result<(), Failure> {
        let running = self.command.action == Action::Run;
        match progress {
            // Printed only now: if the trial cannot start, nothing is printed.
            Progress::Node(Event::Ready { .. }) if running => self.print(&report::preamble(
                self.job,
                seed(self.job),
                self.command.report_interval,
            )),
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
                let remarks = drawn.remarks(self.context.style_err());
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
