//! `iodyno node`: the child process that runs one part of a trial.

use std::process::ExitCode;

/// Speaks the runner's protocol on standard input and output until its end.
pub(crate) fn node() -> ExitCode {
    ExitCode::from(iodyno_runner::serve())
}
