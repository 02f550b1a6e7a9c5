//! `iodyno fio`: fio's command line, output formats and exit codes.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Seek, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::CommandFactory;
use iodyno_fio::{
    Action, CommandLine, Eta, OutputFormat, OutputOptions, OwnFlags, SystemHost, parse_command_line,
};
use iodyno_guard::open_output;
use iodyno_host::counters::devices;
use iodyno_judge::device_use;
use iodyno_lab::Progress;
use iodyno_model::{Diagnostic, Outcome, Plan, Severity, Trial, TrialKey, Workload};
use iodyno_report::fio::{VERSION, banner};
use iodyno_report::safe_text;
use iodyno_runner::{Event, inflate_log};
use iodyno_store::{SqliteStore, Store as _};

use crate::args::{Cli, FioArgs, called_by_other_name};
use crate::bandwidth_log::BandwidthLog;
use crate::commands::run::show_plan;
use crate::configurations::configurations;
use crate::context::Context;
use crate::exit::Exit;
use crate::experiment::{Begin, RunObserver, carry_out, commands_allowed};
use crate::failed_io::{failed_ops, other_failure, unchecked_blocks};
use crate::failure::{Failure, reason};
use crate::plan_flags::{command_line, destroyed_path, fresh_seed, working_folder};
use crate::progress::{Mode, Reporter};
use crate::rounds::with_metrics;
use crate::screen::write_out;
use crate::targets::FoundPaths;
use crate::trials::{Drawn, FioForm, Series, has_figures, load};

/// Runs the jobs like fio, and stores the trial.
pub(crate) fn fio(args: &FioArgs, context: &Context) -> ExitCode {
    let exit = crate::report(carry(args, context), context);
    ExitCode::from(exit.fio_code())
}

fn carry(args: &FioArgs, context: &Context) -> Result<Exit, Failure> {
    let CommandLine {
        parsed,
        output,
        action,
        own,
        serious,
    } = parse_command_line(&args.arguments, &SystemHost);
    if args.unobtrusive.quiet || own.quiet {
        context.silence();
    }
    let errors = parsed
        .diagnostics
        .iter()
        .any(|fault| fault.severity == Severity::Error);
    let mut faults = parsed.diagnostics;
    if errors {
        return Err(Failure::input(faults));
    }
    // Scripts that call fio may treat any text on standard error as a failure.
    let no_advice = called_by_other_name();
    faults.retain(|fault| {
        fault.severity == Severity::Warning && (!no_advice || serious.contains(&fault.message))
    });
    context.tell(&faults);
    match (action, parsed.workload) {
        (Action::Version, _) => {
            // One line, because scripts parse it.
            write_out(format!("{VERSION}\n")).map(|()| Exit::Fine)
        }
        (Action::Print(text), _) if asks_for_help(&args.arguments) => {
            write_out(text + "\n" + &our_help()).map(|()| Exit::Fine)
        }
        (Action::Print(text), _) => write_out(text).map(|()| Exit::Fine),
        (Action::PrintAndFail(text), _) => write_out(text).map(|()| Exit::CheckFailed),
        (Action::InflateLog(path), _) => print_inflated(&path),
        (Action::ParseOnly, _) => Ok(Exit::Fine),
        (Action::Run, Some(workload)) if !workload.jobs.is_empty() => {
            let no_store = args.unobtrusive.no_store || own.no_store;
            let plan = plan(args, &own, workload)?;
            match args.dry_run || own.dry_run {
                true => show_plan(&plan, &FoundPaths::default(), None, false, context),
                false => {
                    commands_allowed(&plan, args.allow_exec || own.allow_exec)?;
                    measure(plan, &output, no_store, context)
                }
            }
        }
        (Action::Run, _) => Err(Failure::one(
            Diagnostic::error("there is no job to run")
                .hint("give a job file, or start a job with `--name=NAME`; `iodyno fio --help` lists the options"),
        )),
    }
}

/// Prints a compressed log.
fn print_inflated(path: &Path) -> Result<Exit, Failure> {
    let inflated = File::open(path).and_then(|file| {
        let mut text = BufWriter::new(std::io::stdout().lock());
        inflate_log(file, &mut text)?;
        text.flush()
    });
    match inflated {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            let fault = format!("cannot print `{}`: {}", path.display(), reason(&error));
            Err(Failure::one(Diagnostic::error(fault).hint(
                "name a log that `log_store_compressed=1` of iodyno wrote",
            )))
        }
        _ => Ok(Exit::Fine),
    }
}

fn asks_for_help(arguments: &[String]) -> bool {
    arguments
        .iter()
        .any(|argument| ["--help", "-h"].contains(&argument.as_str()))
}

/// The part of our own help that follows the flags.
fn our_help() -> String {
    let program = Cli::command();
    let fio = program
        .find_subcommand("fio")
        .and_then(|fio| fio.get_after_help());
    fio.map(|help| format!("{help}\n")).unwrap_or_default()
}

fn plan(args: &FioArgs, own: &OwnFlags, workload: Workload) -> Result<Plan, Failure> {
    let folder = working_folder()?;
    let configurations = configurations(&[], &folder, |_| None).map_err(Failure::input)?;
    Ok(with_metrics(Plan {
        command: command_line(),
        seed: fresh_seed(),
        destroy: args
            .destroy
            .iter()
            .chain(&own.destroy)
            .map(|path| destroyed_path(path, &folder))
            .collect(),
        sampling: args.sampling.sampling(),
        ..Plan::new(workload.name.clone(), configurations, vec![workload])
    }))
}

fn measure(
    plan: Plan,
    output: &OutputOptions,
    no_store: bool,
    context: &Context,
) -> Result<Exit, Failure> {
    let mode = match (output.eta, context.terminal.redraws) {
        (Eta::Never, _) | (Eta::Auto, false) => Mode::Quiet,
        (Eta::Always | Eta::Auto, true) => Mode::Live,
        (Eta::Always, false) => Mode::Plain,
    };
    let reporter = Reporter::new(context, mode).with_lines_every(output.eta_newline);
    let store = context.store_or_memory(no_store)?;
    let sink = Sink::open(output.file.as_deref(), &store.files())?;
    let next_status_ns = output
        .status_interval
        .map_or(u64::MAX, |interval| interval.0);
    let bandwidth = output.bandwidth_log.as_deref();
    let mut printer = Printer {
        bandwidth: bandwidth.map(BandwidthLog::create).transpose()?,
        plan: &plan,
        output,
        context,
        store: &store,
        sink,
        key: None,
        next_status_ns,
    };
    let ended_run = carry_out(Begin::New(&plan), &store, context, reporter, &mut printer)?;
    if mode == Mode::Live && ended_run.end.unstored.is_none() && store.path().is_some() {
        let alias = ended_run.end.handle.alias;
        context.note(&format!(
            "run {alias} stored; `iodyno show {alias}` prints its details"
        ));
    }
    Ok(ended_run.exit)
}

/// Writes the result, and intermediate results, in the requested formats.
struct Printer<'a> {
    plan: &'a Plan,
    output: &'a OutputOptions,
    context: &'a Context,
    store: &'a SqliteStore,
    sink: Sink,
    /// The log of all jobs' bandwidth.
    bandwidth: Option<BandwidthLog>,
    key: Option<TrialKey>,
    next_status_ns: u64,
}

impl RunObserver for Printer<'_> {
    fn on_progress(&mut self, progress: &Progress<'_>) -> Result<(), Failure> {
        if let (Some(log), Progress::Node(Event::Frame(frame))) = (&mut self.bandwidth, progress) {
            log.add(frame)?;
        }
        match progress {
            Progress::Begun(handle) => {
                self.key = Some(TrialKey {
                    run: handle.id,
                    round: 0,
                    cell: 0,
                    attempt: 0,
                });
                Ok(())
            }
            // Printed only now: if a job cannot start, nothing is printed.
            Progress::Node(Event::Ready { .. })
                if self.output.formats.contains(&OutputFormat::Normal) =>
            {
                self.sink.write(&banner(&self.plan.workloads[0]))
            }
            Progress::Node(Event::Frame(frame)) if frame.end_ns >= self.next_status_ns => {
                let interval = self
                    .output
                    .status_interval
                    .map_or(u64::MAX, |interval| interval.0);
                self.next_status_ns = self.next_status_ns.saturating_add(interval);
                self.status()
            }
            Progress::Ended(ended) => {
                let mut faults = failed_ops(ended.workload, ended.trial);
                // The observer's caller reports the faults of the trial's preparation.
                if ended.faults.is_empty() {
                    faults.extend(other_failure(ended.workload, ended.trial));
                }
                faults.extend(unchecked_blocks(ended.workload, ended.trial));
                self.context.tell(&faults);
                // Programs that read the result of an interrupted run expect a document.
                let interrupted = matches!(ended.trial.outcome, Outcome::Interrupted(_));
                if has_figures(ended.trial) || interrupted {
                    self.print(Drawn::new(ended.workload, ended.trial))?;
                }
                match &mut self.bandwidth {
                    Some(log) => log.flush(),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Prints the result so far, as for `--status-interval`.
    fn on_status_request(&mut self, progress: &Progress<'_>) -> Result<bool, Failure> {
        match progress {
            Progress::Node(Event::Frame(_)) => self.status().map(|()| true),
            _ => Ok(false),
        }
    }

    fn needs_store(&self) -> bool {
        false
    }
}

impl Printer<'_> {
    /// Prints the result so far: the store returns a running trial as if it ended now. Errors of the
    /// store are reported elsewhere.
    fn status(&mut self) -> Result<(), Failure> {
        let Some(key) = self.key else { return Ok(()) };
        let Ok(mut trial) = load(self.store, key, Series::None) else {
            return Ok(());
        };
        self.add_devices(key, &mut trial);
        let plan = self.plan;
        self.print(Drawn::new(&plan.workloads[0], &trial))
    }

    /// Adds the activity of the devices below the targets so far.
    fn add_devices(&self, key: TrialKey, trial: &mut Trial) {
        let batches = self.store.telemetry(key, 0, usize::MAX).unwrap_or_default();
        for batch in batches {
            trial.telemetry.shapes.extend(batch.telemetry.shapes);
            trial.telemetry.samples.extend(batch.telemetry.samples);
        }
        let Some(part) = trial.parts.first() else {
            return;
        };
        let names = devices(&part.environment.targets);
        let (from, until) = (part.measured_from_ns(), part.measured_until_ns());
        let used = device_use(trial, &names);
        if let Some(part) = trial.parts.first_mut() {
            part.host.span_ns = until.unwrap_or(0).saturating_sub(from.unwrap_or(0));
            part.host.devices = used;
        }
    }

    fn print(&mut self, drawn: Drawn<'_>) -> Result<(), Failure> {
        let drawn = drawn.with_cpu_idleness(self.output.idle_prof);
        for format in &self.output.formats {
            let form = match format {
                OutputFormat::Normal => FioForm::Normal,
                OutputFormat::Json => FioForm::Json,
                OutputFormat::JsonPlus => FioForm::JsonPlus,
                OutputFormat::Terse => FioForm::Terse(self.output.terse_version),
            };
            self.sink.write(&drawn.fio(form, self.context))?;
        }
        Ok(())
    }
}

/// Whether two paths lead to the same file, or would if it existed.
fn same_file(one: &Path, other: &Path) -> bool {
    let inode = |path: &Path| {
        let data = std::fs::metadata(path).ok()?;
        Some((data.dev(), data.ino()))
    };
    let named = |path: &Path| {
        let folder = path.parent()?;
        let folder = match folder.as_os_str().is_empty() {
            true => Path::new("."),
            false => folder,
        };
        Some(folder.canonicalize().ok()?.join(path.file_name()?))
    };
    match (inode(one), inode(other)) {
        (Some(one), Some(other)) => one == other,
        _ => named(one).is_some_and(|one| named(other) == Some(one)),
    }
}

/// Standard output, or a file. The file is opened before any I/O, and truncated only when there is a
/// result to write.
enum Sink {
    Standard,
    File {
        file: File,
        path: PathBuf,
        emptied: bool,
    },
}

impl Sink {
    /// `store`: the files of the store in use.
    fn open(path: Option<&Path>, store: &[PathBuf]) -> Result<Sink, Failure> {
        let Some(path) = path else {
            return Ok(Sink::Standard);
        };
        if store.iter().any(|file| same_file(file, path)) {
            let fault = format!(
                "cannot write `{}`: it belongs to the store in use",
                path.display()
            );
            return Err(Failure::one(
                Diagnostic::error(fault).hint("name another file"),
            ));
        }
        let file = open_output(path).map_err(|error| {
            let why = reason(&error);
            let fault = Diagnostic::error(format!("cannot write `{}`: {why}", path.display()));
            Failure::one(match error.kind() {
                // Refused by iodyno, not by the kernel.
                ErrorKind::Other => fault.hint("name another file"),
                _ => fault,
            })
        })?;
        Ok(Sink::File {
            file,
            path: path.to_owned(),
            emptied: false,
        })
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        let Sink::File {
            file,
            path,
            emptied,
        } = self
        else {
            return write_out(text);
        };
        let written = match std::mem::replace(emptied, true) {
            true => Ok(()),
            // Devices and pipes cannot be truncated.
            false if file.metadata().is_ok_and(|data| data.is_file()) => {
                file.set_len(0).and_then(|()| file.rewind())
            }
            false => Ok(()),
        };
        written
            .and_then(|()| file.write_all(safe_text(text, false).as_bytes()))
            .map_err(|error| Failure {
                exit: Exit::CheckFailed,
                faults: vec![Diagnostic::error(format!(
                    "cannot write `{}`: {}",
                    path.display(),
                    reason(&error)
                ))],
            })
    }
}
