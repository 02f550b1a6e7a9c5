//! The commands of a job: fio's `exec_prerun` and `exec_postrun`.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::outcome::WorkerError;
use crate::shared::CloneShared;
use crate::spec::OutputFiles;

/// The longest delay of a stop request.
const HEARING: Duration = Duration::from_millis(20);

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
    let end = started(command, file).and_then(|child| ended(child, shared));
    let cause = match end {
        Ok(Some(status)) if !status.success() => status.to_string(),
        Ok(_) => return Ok(()),
        Err(error) => error.to_string(),
    };
    Err(fault(
        cause,
        format!("its output is in `{}`", path.display()),
    ))
}

fn started(command: &str, output: File) -> io::Result<Child> {
    Command::new("/bin/sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .process_group(0)
        .spawn()
}

/// How it ended; `None`: it was killed because the job was to stop.
fn ended(mut child: Child, shared: &CloneShared) -> io::Result<Option<ExitStatus>> {
    let before = shared.stop_request();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if shared.stop_request() != before {
            let group = Pid::from_raw(child.id().cast_signed());
            group.map(|group| kill_process_group(group, Signal::KILL));
            return child.wait().map(|_| None);
        }
        thread::sleep(HEARING);
    }
}
