//! The commands of a job: fio's `exec_prerun` and `exec_postrun`.

use crate::outcome::WorkerError;
use crate::shared::CloneShared;
use crate::shell;
use crate::spec::OutputFiles;

/// Runs a command of a job in a shell and waits for its end. Its output goes to `FOLDER/JOB.MOMENT.txt`, as in fio;
/// `moment` is `prerun` or `postrun`. A stop request kills it.
///
/// # Errors
/// It could not be started, or failed.
pub(crate) fn run(
    command: &str,
    (job, moment): (&str, &str),
    output: &OutputFiles,
    shared: &CloneShared,
) -> Result<(), WorkerError> {
    let fault = |cause: String, hint: String| {
        WorkerError::new(format!("run the command of `exec_{moment}`"), cause).hint(hint)
    };
    let name = format!("{}.{moment}.txt", job.replace('/', "_"));
    let (path, file) = output.create(&name);
    let file = file.map_err(|error| {
        let cause = format!("its output file `{}`: {error}", path.display());
        fault(
            cause,
            "remove or rename what is there, or use a folder that can be written".into(),
        )
    })?;
    let before = shared.stop_request();
    let mut stop = || shared.stop_request() != before;
    let cause = match shell::run_into(command, file, &mut stop) {
        Ok(Some(ended)) if !ended.status.success() => ended.status.to_string(),
        Ok(_) => return Ok(()),
        Err(error) => error.to_string(),
    };
    Err(fault(
        cause,
        format!("its output is in `{}`", path.display()),
    ))
}
