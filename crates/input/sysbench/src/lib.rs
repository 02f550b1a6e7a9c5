//! Parses the command line of sysbench's fileio test into a [`Job`].
//!
//! Names, defaults and commands (`prepare`, `run`, `cleanup` in the current folder) are those of release
//! 1.0, with additions of later releases and names of earlier ones. All errors are collected, each with its
//! location. The option table (`options`) is data: name, unit, default, text, status and effect in one
//! entry, from which the help and the compatibility page are generated. A value that is only partly valid
//! is an error, never a smaller value.

mod check;
mod command_line;
mod distribution;
mod draft;
mod help;
mod job;
mod options;
mod value;

use iodyno_model::{Diagnostic, Job, Severity, Source, Workload};
use iodyno_units::Nanos;

pub use command_line::Action;
pub use help::{compatibility, help};
pub use options::{honoured_options, ignored_option, option_names};

use command_line::{Line, parse};

/// The release whose options and output these are.
pub const RELEASE: &str = "1.0.20";

/// A parsed command line.
#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    /// The command.
    pub action: Action,
    /// The job, for [`Action::Prepare`] and [`Action::Run`].
    pub job: Option<Job>,
    /// Number of files.
    pub file_num: u32,
    /// Interval of intermediate reports.
    pub report_interval: Option<Nanos>,
    /// Whether the histogram of latencies is printed.
    pub histogram: bool,
    /// The percentile of latency that is printed, in percent; 0: none.
    pub percentile: f64,
    /// Notes and warnings; no errors.
    pub notes: Vec<Diagnostic>,
    /// The arguments as a line that a shell would split again.
    pub source: Source,
}

impl Command {
    /// The job as a workload, named after its test mode.
    pub fn workload(&self) -> Option<Workload> {
        let job = self.job.clone()?;
        Some(Workload::new(
            job.name.clone(),
            vec![self.source.clone()],
            vec![job],
        ))
    }
}

/// Parses the arguments after `fileio`, or those of a whole command, with options before `fileio` or
/// `--test=fileio`.
///
/// # Errors
/// All diagnostics, in the order of the arguments, with at least one error.
pub fn read(arguments: &[String]) -> Result<Command, Vec<Diagnostic>> {
    let line = Line::new(arguments);
    let mut parsed = parse(arguments, &line);
    let action = parsed.action();
    if matches!(action, Some(Action::Help | Action::Version)) {
        parsed.diagnostics.clear();
    }
    if let Some(action @ (Action::Prepare | Action::Run)) = action
        && !parsed.another_test
    {
        check::check(&mut parsed, action);
    }
    let (draft, mut diagnostics) = (parsed.draft, parsed.diagnostics);
    // Diagnostics with a location are sorted by it; those about missing arguments come last.
    diagnostics.sort_by_key(|it| it.place.as_ref().map_or(u32::MAX, |place| place.column));
    let faulty = diagnostics.iter().any(|it| it.severity == Severity::Error);
    let Some(action) = action.filter(|_| !faulty) else {
        return Err(diagnostics);
    };
    let job = match (action, draft.mode) {
        (Action::Prepare, _) => Some(job::prepare(&draft)),
        (Action::Run, Some(mode)) => Some(job::run(&draft, mode)),
        _ => None,
    };
    Ok(Command {
        action,
        job,
        file_num: draft.file_num,
        report_interval: (draft.report_interval.0 > 0).then_some(draft.report_interval),
        histogram: draft.histogram,
        percentile: draft.percentile,
        notes: diagnostics,
        source: line.source(),
    })
}

/// The names of the files in the current folder: exactly those that `cleanup` removes.
pub fn cleanup_files(file_num: u32) -> impl Iterator<Item = String> {
    (0..file_num).map(|number| format!("test_file.{number}"))
}
