//! The step that runs a command.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use iodyno_model::printable::shell_path;
use iodyno_model::{CommandResult, CpuUse, Operations, ShellCommand, StopRequest};
use iodyno_sys::thread::Usage;

use super::output::OutputReader;
use crate::lifecycle::used;
use crate::outcome::WorkerError;
use crate::shared::CloneShared;
use crate::shell;

/// Bytes of the last output that are kept as a result.
const KEPT: usize = 16 << 10;

/// Why a command was not completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotRun {
    /// The clone was told to stop.
    Stopped,
    /// It failed: see [`CommandStep::fault`].
    Failed,
}

/// The command of a clone, and the results of its executions.
pub(super) struct CommandStep {
    command: ShellCommand,
    readers: Vec<OutputReader>,
    /// Number of executions whose values were read.
    runs: u64,
    cpu: CpuUse,
    result: CommandResult,
    /// Why the last execution failed.
    pub(super) fault: Option<WorkerError>,
}

impl CommandStep {
    /// `None`: the workload has no command.
    ///
    /// # Errors
    /// A regular expression is not valid.
    pub(super) fn of(operations: &Operations) -> Result<Option<CommandStep>, WorkerError> {
        let Some(command) = &operations.command else {
            return Ok(None);
        };
        let readers = command.metrics.iter().map(OutputReader::new);
        let readers: Vec<OutputReader> = readers
            .collect::<Result<_, String>>()
            .map_err(|error| WorkerError::new("read the values of a command", error))?;
        Ok(Some(CommandStep {
            command: command.clone(),
            runs: 0,
            cpu: CpuUse::default(),
            result: CommandResult {
                values: vec![0.0; readers.len()],
                ..CommandResult::default()
            },
            readers,
            fault: None,
        }))
    }

    /// Runs it once. Returns its start and end, ns of the engine clock.
    pub(super) fn run(
        &mut self,
        folder: &Path,
        shared: &CloneShared,
    ) -> Result<(u64, u64), NotRun> {
        let command = &self.command.run;
        let began = Instant::now();
        let timeout = self.command.timeout;
        let late = || timeout.is_some_and(|it| began.elapsed() >= Duration::from_nanos(it.0));
        let stopped = || shared.stop_request() != StopRequest::No;
        let ended = match (
            shell::run(command, folder, &mut || stopped() || late()),
            timeout,
        ) {
            (Ok(Some(ended)), _) => ended,
            (Ok(None), Some(timeout)) if !stopped() => {
                return Err(self.fail("run", format!("killed after its timeout of {timeout}")));
            }
            (Ok(None), _) => return Err(NotRun::Stopped),
            (Err(error), _) => return Err(self.fail("run", error.to_string())),
        };
        self.result.output = ended.tail(KEPT);
        if !ended.status.success() {
            self.result.failed += 1;
            self.result.exit_status = self.result.exit_status.max(ended.code());
            if !self.command.may_fail {
                let failed = self.fail("run", ended.failure());
                let hint = misplaced(&self.command.run, folder);
                self.fault
                    .iter_mut()
                    .for_each(|it| it.hint.clone_from(&hint));
                return Err(failed);
            }
        }
        let values = self.readers.iter().map(|reader| reader.read(&ended));
        let values: Vec<f64> = values.collect::<Result<_, String>>().map_err(|why| {
            let printed = match ended.tail(KEPT).lines().next_back() {
                Some(last) => format!("its last line is `{last}`"),
                None => "it printed nothing".to_owned(),
            };
            self.fail("use the output of", format!("{why}; {printed}"))
        })?;
        for (sum, value) in self.result.values.iter_mut().zip(values) {
            *sum += value;
        }
        self.runs += 1;
        let before = Usage {
            run_delay_ns: Some(0),
            ..Usage::default()
        };
        self.cpu.add(&used(before, ended.usage));
        let moved = self.result.moved.get_or_insert_default();
        moved[0] += ended.usage.read_bytes;
        moved[1] += ended.usage.written_bytes;
        Ok(ended.span)
    }

    /// Records that it failed. `what`: the action on it.
    fn fail(&mut self, what: &str, cause: String) -> NotRun {
        let what = format!("{what} `{}`", self.command.run);
        self.fault = Some(WorkerError::new(what, cause));
        NotRun::Failed
    }

    /// The results of its executions, and what they used.
    pub(super) fn results(&self) -> (CommandResult, CpuUse) {
        let mut result = self.result.clone();
        match self.runs {
            0 => result.values.clear(),
            runs => (result.values.iter_mut()).for_each(|sum| *sum /= runs as f64),
        }
        (result, self.cpu)
    }
}

/// The remedy for a command that failed in a folder without a file that it names, if the working folder of this process
/// has the file.
pub fn misplaced(command: &str, folder: &Path) -> Option<String> {
    let here = std::env::current_dir().ok()?;
    let between = |c: char| c.is_whitespace() || ";&|()<>'\"`=".contains(c);
    let words = command.split(between).filter(|word| !word.is_empty());
    let mut missing = words.filter(|word| !word.starts_with('/') && !folder.join(word).exists());
    let path = missing.find_map(|word| Some(here.join(word)).filter(|path| path.is_file()))?;
    let path: PathBuf = path.components().collect();
    Some(format!(
        "the command runs in a new folder: write the absolute path `{}`",
        shell_path(&path)
    ))
}
