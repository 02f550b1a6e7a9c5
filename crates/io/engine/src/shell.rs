//! Runs a command in a shell: its time, its output, and what it used.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use iodyno_sys::thread::{RunDelay, Usage};
use iodyno_sys::{Clock, MonotonicClock, process};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// The longest delay of a stop request, and the time between two reports of progress.
const MAX_STOP_DELAY: Duration = Duration::from_millis(50);
/// Of each stream only the last bytes are kept, so that a command that prints without end uses no more memory.
const KEPT: usize = 1 << 20;

/// A command that has ended by itself.
#[derive(Debug)]
pub struct Ended {
    /// Its status.
    pub status: ExitStatus,
    /// Its start and end, ns of the engine clock.
    pub span: (u64, u64),
    /// What it and its children used; `run_delay_ns` is without its children.
    pub usage: Usage,
    /// The last MiB of its standard output.
    pub output: Vec<u8>,
    /// The last MiB of its standard error.
    pub errors: Vec<u8>,
}

impl Ended {
    /// Its exit status, as shells give it: 128 + N for signal N.
    pub fn code(&self) -> i32 {
        use std::os::unix::process::ExitStatusExt as _;
        let signal = self.status.signal().map(|signal| 128 + signal);
        self.status.code().or(signal).unwrap_or(-1)
    }

    /// The last part of its output, at most this many bytes: standard output, then standard error.
    pub fn tail(&self, most: usize) -> String {
        let text = [self.output.as_slice(), &self.errors].concat();
        let text = String::from_utf8_lossy(&text);
        let from = text.len().saturating_sub(most);
        let from = (from..=text.len()).find(|at| text.is_char_boundary(*at));
        text[from.unwrap_or(0)..].trim().to_owned()
    }

    /// Why it failed: its status, and the last lines of its output.
    pub fn failure(&self) -> String {
        const LINES: usize = 5;
        let tail = self.tail(2000);
        let lines: Vec<&str> = tail.lines().collect();
        let last = &lines[lines.len().saturating_sub(LINES)..];
        match last {
            [] => format!("{}, without output", self.status),
            last => format!("{}: {}", self.status, last.join("; ")),
        }
    }
}

/// Runs a command by `/bin/sh -c` in a folder, without input, in a process group of its own. `stop` is called every
/// 50 ms: if it returns true, the group is killed and the result is `None`. Processes that outlive the command are not
/// waited for: [`process::STEP_VARIABLE`] in their environment is the folder.
///
/// # Errors
/// It could not be started, or its output not be read.
pub fn run(
    command: &str,
    folder: &Path,
    stop: &mut dyn FnMut() -> bool,
) -> io::Result<Option<Ended>> {
    let mut shell = Command::new("/bin/sh");
    shell.stdout(Stdio::piped()).stderr(Stdio::piped());
    shell.env(process::STEP_VARIABLE, folder);
    finish(shell.args(["-c", command]).current_dir(folder), stop)
}

/// The same in the working folder, with both streams in a file.
///
/// # Errors
/// It could not be started.
pub(crate) fn run_into(
    command: &str,
    output: File,
    stop: &mut dyn FnMut() -> bool,
) -> io::Result<Option<Ended>> {
    let mut shell = Command::new("/bin/sh");
    shell.stdout(output.try_clone()?).stderr(output);
    finish(shell.args(["-c", command]), stop)
}

fn finish(command: &mut Command, stop: &mut dyn FnMut() -> bool) -> io::Result<Option<Ended>> {
    let start = MonotonicClock.now();
    let child = command.stdin(Stdio::null()).process_group(0).spawn()?;
    let mut running = Running::new(child)?;
    let watched = running.watch(stop);
    if !matches!(watched, Ok(true)) {
        running.kill();
    }
    let end = MonotonicClock.now();
    let run_delay_ns = RunDelay::of_process(running.child.id()).read();
    let (status, usage) = process::wait(running.child.id())?;
    let usage = Usage {
        run_delay_ns,
        ..usage
    };
    if !watched? {
        return Ok(None);
    }
    running.read_streams()?;
    let [output, errors] = running.streams.map(|stream| stream.kept);
    Ok(Some(Ended {
        status,
        span: (start, end),
        usage,
        output,
        errors,
    }))
}

/// A pipe from the command, and the last bytes that came through it.
struct Stream {
    pipe: Option<Box<dyn Pipe>>,
    kept: Vec<u8>,
}

trait Pipe: Read + AsFd {}

impl<T: Read + AsFd> Pipe for T {}

impl Stream {
    fn new(pipe: Option<impl Pipe + 'static>) -> io::Result<Stream> {
        let pipe: Option<Box<dyn Pipe>> = pipe.map(|pipe| Box::new(pipe) as Box<dyn Pipe>);
        if let Some(pipe) = &pipe {
            fcntl_setfl(pipe, fcntl_getfl(pipe)? | OFlags::NONBLOCK)?;
        }
        let kept = Vec::new();
        Ok(Stream { pipe, kept })
    }

    /// Reads what is there.
    fn read(&mut self) -> io::Result<()> {
        let mut bytes = [0; 16 << 10];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut bytes) {
                Ok(0) => self.pipe = None,
                Ok(length) => {
                    self.kept.extend_from_slice(&bytes[..length]);
                    if self.kept.len() >= 2 * KEPT {
                        self.kept.drain(..self.kept.len() - KEPT);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

struct Running {
    child: Child,
    /// Readable once it has ended.
    process: OwnedFd,
    streams: [Stream; 2],
}

impl Running {
    fn new(mut child: Child) -> io::Result<Running> {
        let pid = Pid::from_child(&child);
        let made = pidfd_open(pid, PidfdFlags::empty()).map_err(io::Error::from);
        let made = made.and_then(|process| {
            let streams = [
                Stream::new(child.stdout.take())?,
                Stream::new(child.stderr.take())?,
            ];
            Ok((process, streams))
        });
        match made {
            Ok((process, streams)) => Ok(Running {
                child,
                process,
                streams,
            }),
            Err(error) => {
                let _ = kill_process_group(pid, Signal::KILL);
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// Reads its output until it has ended. `false`: it is to stop.
    fn watch(&mut self, stop: &mut dyn FnMut() -> bool) -> io::Result<bool> {
        let wait = Timespec::try_from(MAX_STOP_DELAY).unwrap_or_default();
        loop {
            let pipes = self
                .streams
                .iter()
                .filter_map(|stream| stream.pipe.as_ref());
            let mut watched = vec![PollFd::new(&self.process, PollFlags::IN)];
            watched.extend(pipes.map(|pipe| PollFd::new(pipe, PollFlags::IN)));
            match poll(&mut watched, Some(&wait)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if !watched[0].revents().is_empty() {
                return Ok(true);
            }
            self.read_streams()?;
            if stop() {
                return Ok(false);
            }
        }
    }

    fn read_streams(&mut self) -> io::Result<()> {
        self.streams.iter_mut().try_for_each(Stream::read)
    }

    fn kill(&self) {
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &str) -> Ended {
        super::run(command, Path::new("/"), &mut || false)
            .unwrap()
            .unwrap()
    }

    #[test]
    fn both_streams_and_the_status_are_kept() {
        let ended = run("pwd; echo bad >&2; exit 7");
        assert_eq!(ended.output, b"/\n");
        assert_eq!(ended.errors, b"bad\n");
        assert_eq!(ended.code(), 7);
        assert_eq!(ended.failure(), "exit status: 7: /; bad");
        assert!(ended.span.0 < ended.span.1);
        assert_eq!(run("kill -9 $$").code(), 137);
    }

    #[test]
    fn of_endless_output_the_end_is_kept() {
        let ended = run("head -c 5000000 /dev/zero; echo last");
        assert!(ended.output.ends_with(b"last\n"));
        assert!(
            (KEPT..3 * KEPT).contains(&ended.output.len()),
            "{}",
            ended.output.len()
        );
        assert_eq!(ended.tail(5), "last");
    }

    #[test]
    fn a_stop_kills_the_command_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let mut asked = 0;
        let command = "(sleep 1000 & echo $! > pid; wait)";
        let ended = super::run(command, folder.path(), &mut || {
            asked += 1;
            folder
                .path()
                .join("pid")
                .metadata()
                .is_ok_and(|it| it.len() > 0)
        });
        assert!(ended.unwrap().is_none());
        let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        while state().is_ok_and(|stat| !stat.contains(") Z ")) {
            std::thread::yield_now();
        }
        assert!(asked > 0);
    }

    #[test]
    fn a_process_that_outlives_the_command_is_not_waited_for() {
        let ended = run("setsid sleep 1000 & echo $!");
        let pid = String::from_utf8_lossy(&ended.output)
            .trim()
            .parse()
            .unwrap();
        let pid = Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
    }
}
