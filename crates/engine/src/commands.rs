//! The commands of a job: fio's `exec_prerun` and `exec_postrun`.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::outcome::WorkerError;
use crate::shared::CloneShared;

/// The longest delay of a stop request.
const HEARING: Duration = Duration::from_millis(20);

/// Runs a command of a job in a shell and waits for its end. Its output goes to `FOLDER/JOB.MOMENT.txt`, as in fio; `moment` is
/// `prerun` or `postrun`. A stop request that comes meanwhile kills it.
///
/// # Errors
/// It could not be started, or failed.
pub(crate) fn run(
    command: &str,
    (job, moment): (&str, &str),
    folder: &Path,
    shared: &CloneShared,
) -> Result<(), WorkerError> {
    let output = folder.join(format!("{}.{moment}.txt", job.replace('/', "_")));
    let fault = |cause: String| WorkerError {
        what: format!("run the command of `exec_{moment}`"),
        cause,
        hint: Some(format!("its output is in {}", output.display())),
    };
    let status = started(command, &output).and_then(|child| ended(child, shared));
    match status.map_err(|error| fault(error.to_string()))? {
        Some(status) if !status.success() => Err(fault(status.to_string())),
        _ => Ok(()),
    }
}

fn started(command: &str, output: &Path) -> io::Result<Child> {
    let output = File::create(output)?;
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
