//! `iodyno node`: the child process that runs one part of a trial.

use std::process::ExitCode;

/// Runs the node's side of the runner's protocol on standard input and output.
pub(crate) fn node() -> ExitCode {
    ExitCode::from(iodyno_runner::serve())
}
