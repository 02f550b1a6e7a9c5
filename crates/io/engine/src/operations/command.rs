//! The step that runs a command.

use std::path::Path;

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
        let mut stop = || shared.stop_request() != StopRequest::No;
        let ended = match shell::run(command, folder, &mut stop) {
            Ok(Some(ended)) => ended,
            Ok(None) => return Err(NotRun::Stopped),
            Err(error) => return Err(self.fail(error.to_string())),
        };
        self.result.output = ended.tail(KEPT);
        if !ended.status.success() {
            self.result.failed += 1;
            self.result.exit_status = self.result.exit_status.max(ended.code());
            if !self.command.may_fail {
                return Err(self.fail(ended.failure()));
            }
        }
        let values = self.readers.iter().map(|reader| reader.read(&ended));
        let values: Vec<f64> = values
            .collect::<Result<_, String>>()
            .map_err(|why| self.fail(format!("{why}; {}", ended.failure())))?;
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

    fn fail(&mut self, cause: String) -> NotRun {
        let what = format!("run `{}`", self.command.run);
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
