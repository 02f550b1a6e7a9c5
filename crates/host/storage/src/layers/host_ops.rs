//! What actions are made of: commands, processes, locks, and repeating what fails while something is busy.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use iodyno_guard::Guard;
use iodyno_host::mounts::{self, Mount};
use iodyno_host::{boot_id, text};
use iodyno_model::{CommandRun, Diagnostic, Inode};
use rustix::fs::FlockOperation;
use rustix::process::Signal;

use crate::journal::{Header, Journal, Step};

use super::host::{Host, Invocation};
use super::lock;

/// The longest time that a command which undoes something may take.
const UNDO: Duration = Duration::from_secs(60);
/// How long, and at which interval, a busy mount or device is tried again.
pub(super) const BUSY: u32 = 100;
pub(super) const PAUSE: Duration = Duration::from_millis(100);
/// From SIGTERM to SIGKILL for a process, in tenths of a pause.
const TERMINATED: u32 = 500;

/// A failed action.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Boxed: a result with it stays small.
    pub(crate) fault: Box<Diagnostic>,
    pub(crate) cause: Cause,
}

/// The causes of failures that are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Something is in use (EBUSY).
    Busy,
    /// The server of a FUSE file system has died (ENOTCONN, ESHUTDOWN).
    DeadServer,
    Other,
}

impl Cause {
    /// The cause of a command's failure, from the end of the lines that it printed: paths come before it.
    fn of_output(output: &str) -> Cause {
        let ends = |ends: [&str; 2]| {
            let mut lines = output.lines().map(|line| line.trim_end_matches(['.', ' ']));
            lines.any(|line| ends.iter().any(|end| line.ends_with(end)))
        };
        if ends([" is busy", "resource busy"]) {
            Cause::Busy
        } else if ends(["endpoint is not connected", "endpoint shutdown"]) {
            Cause::DeadServer
        } else {
            Cause::Other
        }
    }
}

impl From<Diagnostic> for Failure {
    fn from(fault: Diagnostic) -> Failure {
        Failure {
            fault: Box::new(fault),
            cause: Cause::Other,
        }
    }
}

impl From<Failure> for Diagnostic {
    fn from(failure: Failure) -> Diagnostic {
        *failure.fault
    }
}

/// Performs and undoes actions.
pub(crate) struct HostOps<'a> {
    pub(crate) host: &'a dyn Host,
    pub(crate) guard: &'a Guard,
    /// The folder of the journals.
    pub(crate) journals: &'a Path,
    /// Environment of the commands.
    pub(crate) environment: BTreeMap<String, String>,
    /// See [`Host::marked`]: the step that is being done.
    pub(crate) mark: String,
    /// What the target's files and folders are, by their paths, as far as it is recorded.
    pub(crate) inodes: BTreeMap<PathBuf, Inode>,
    pub(crate) stop: &'a dyn Fn() -> bool,
    /// Gets each action that is done, and what is waited for.
    pub(crate) progress: &'a dyn Fn(&str),
    /// The commands that were run.
    pub(crate) commands: Vec<CommandRun>,
}

impl HostOps<'_> {
    /// Runs a program.
    ///
    /// # Errors
    /// It did not exit with status 0.
    pub(crate) fn run<W: AsRef<str>>(
        &mut self,
        words: &[W],
        limit: Duration,
    ) -> Result<String, Diagnostic> {
        self.attempt(words, limit).map_err(Diagnostic::from)
    }

    /// Runs a program, like [`Self::run`]; the cause of a failure is known.
    pub(crate) fn attempt<W: AsRef<str>>(
        &mut self,
        words: &[W],
        limit: Duration,
    ) -> Result<String, Failure> {
        let (mark, stop) = (self.mark.clone(), self.stop);
        self.run_until(words, &mark, limit, stop)
    }

    fn run_until<W: AsRef<str>>(
        &mut self,
        words: &[W],
        mark: &str,
        limit: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Result<String, Failure> {
        let invocation = Invocation {
            words: words.iter().map(|word| word.as_ref().to_owned()).collect(),
            environment: self.environment.clone(),
            mark: mark.to_owned(),
            limit,
        };
        let ran = self.host.run(&invocation, stop);
        let record = ran.record;
        let result = match (record.status, &ran.why) {
            (Some(0), _) => Ok(ran.printed),
            (Some(status), _) => Err(format!("failed with exit status {status}")),
            (None, why) => Err(why.clone().unwrap_or_default()),
        };
        let result = result.map_err(|why| {
            let printed = last_lines(&record.output);
            let message = format!("`{}` {why}{printed}", record.command);
            Failure {
                cause: Cause::of_output(&record.output),
                ..Diagnostic::error(message).into()
            }
        });
        self.commands.push(record);
        result
    }

    /// Runs a command that undoes something: a stop request does not end it.
    pub(super) fn undo_by(&mut self, words: &[&str]) -> Result<String, Failure> {
        self.run_until(words, &self.undo_mark(), UNDO, &|| false)
    }

    /// The mark of commands that undo the current step.
    fn undo_mark(&self) -> String {
        format!("{}/undo", self.mark)
    }

    /// Ends commands of the current step that still run because iodyno was killed; `began`: those that did it as well
    /// as those that undid it.
    pub(crate) fn end_commands(&mut self, began: bool) {
        let marks = [Some(self.undo_mark()), began.then(|| self.mark.clone())];
        for mark in marks.into_iter().flatten() {
            self.end_processes(&mark);
        }
    }

    /// Runs a command of the user.
    pub(crate) fn shell(&mut self, command: &str, limit: Duration) -> Result<String, Diagnostic> {
        self.run(&["/bin/sh", "-c", command], limit)
    }

    /// Starts a program in the background.
    pub(crate) fn start(&mut self, command: &[String], log: &Path) -> Result<(), Diagnostic> {
        let invocation = Invocation {
            words: command.to_vec(),
            environment: self.environment.clone(),
            mark: self.mark.clone(),
            limit: Duration::MAX,
        };
        let text = invocation.text();
        self.host
            .start(&invocation, log)
            .map_err(|error| Diagnostic::error(format!("cannot start `{text}`: {error}")))?;
        self.commands.push(CommandRun {
            command: text,
            status: None,
            output: String::new(),
            span_ns: 0,
        });
        Ok(())
    }

    pub(super) fn remove_zram(&mut self, number: &str) -> Result<(), Diagnostic> {
        let control = self.host.roots().sys.join("class/zram-control/hot_remove");
        self.patiently(|ops| ops.set(&control, None, number))
            .map_err(Diagnostic::from)
    }

    pub(super) fn set(
        &mut self,
        path: &Path,
        device: Option<&str>,
        value: &str,
    ) -> Result<(), Failure> {
        let text = match device {
            Some(device) => format!("{device} {value}"),
            None => value.to_owned(),
        };
        self.host.write(path, &text).map_err(|error| {
            let message = format!("cannot write `{text}` to `{}`: {error}", path.display());
            Failure {
                cause: match error.kind() {
                    io::ErrorKind::ResourceBusy => Cause::Busy,
                    _ => Cause::Other,
                },
                ..Diagnostic::error(message).into()
            }
        })
    }

    /// Excludes other processes of iodyno, and other threads, from what they share on a host, until the result is
    /// dropped: zfs-fuse, and the next number of a compressed device.
    ///
    /// # Errors
    /// `stop` returned true, or it cannot be locked.
    pub(crate) fn lock(&self, stop: &dyn Fn() -> bool) -> Result<File, Diagnostic> {
        let failed = |error: io::Error| cannot("lock", self.journals, &error);
        let folder = File::open(self.journals).map_err(failed)?;
        let operation = FlockOperation::NonBlockingLockExclusive;
        let locked =
            lock::wait_for(
                self.host,
                self.journals,
                stop,
                self.progress,
                || match rustix::fs::flock(&folder, operation) {
                    Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
                    other => other.map(Some),
                },
            );
        match locked.map_err(|error| failed(error.into()))? {
            Some(()) => Ok(folder),
            None => {
                let shown = self.journals.display();
                let message = format!("stopped while another process kept `{shown}` locked");
                Err(Diagnostic::error(message))
            }
        }
    }

    /// The journals of other targets since the host was started.
    pub(crate) fn others(&self) -> Vec<(Header, Vec<Step>)> {
        let own = self.mark.split('/').next().unwrap_or_default();
        let boot = boot_id(self.host.roots());
        let others = Journal::tokens(self.journals).into_iter();
        let others = others.filter(|token| token != own);
        let found = others.filter_map(|token| Journal::look(self.journals, &token));
        found.filter(|(header, _)| header.boot == boot).collect()
    }

    /// The steps of other targets that are not undone.
    pub(crate) fn steps_of_others(&self) -> Vec<Step> {
        let steps = self.others().into_iter().flat_map(|(_, steps)| steps);
        steps.filter(|step| !step.undone).collect()
    }

    /// Waits for a device, a mount or a server: tries this until it succeeds, for 10 s or until a stop request.
    pub(crate) fn wait_for<T>(
        &mut self,
        mut attempt: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<T> {
        for _ in 0..BUSY {
            let found = attempt(self);
            if found.is_some() || (self.stop)() {
                return found;
            }
            self.host.sleep(PAUSE);
        }
        None
    }

    /// Repeats what fails while something is busy, for some seconds.
    pub(crate) fn patiently(
        &mut self,
        attempt: impl FnMut(&mut Self) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.repeat_while_busy(BUSY, attempt)
    }

    /// Repeats what fails while something is busy, at most this number of times, 0.1 s apart.
    pub(crate) fn repeat_while_busy(
        &mut self,
        mut left: u32,
        mut attempt: impl FnMut(&mut Self) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        loop {
            match attempt(self) {
                Err(failure) if left > 0 && failure.cause == Cause::Busy => {
                    left -= 1;
                    self.commands.pop();
                    self.host.sleep(PAUSE);
                }
                other => return other,
            }
        }
    }

    /// The mounts at and below a path, the last mounted first.
    pub(super) fn mounted_at(&self, path: &Path) -> Vec<Mount> {
        let mut mounts = mounts::own(self.host.roots());
        mounts.retain(|mount| mount.point.starts_with(path));
        mounts.reverse();
        mounts
    }

    /// The number that the kernel gives to each new disk, and to what is attached to a loop device.
    pub(super) fn sequence(&self, name: &str) -> Option<String> {
        text(
            self.host
                .roots()
                .sys
                .join("block")
                .join(name)
                .join("diskseq"),
        )
    }

    /// The CPUs on which the processes with this mark may run, each list once: `0-3`.
    pub(crate) fn cpus_of(&self, mark: &str) -> String {
        let proc = &self.host.roots().proc;
        let mut lists: Vec<String> = Vec::new();
        for process in self.host.marked(mark) {
            let status = text(proc.join(process.to_string()).join("status")).unwrap_or_default();
            let mut lines = status.lines();
            let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            let list = list.unwrap_or_default().trim().to_owned();
            if !list.is_empty() && !lists.contains(&list) {
                lists.push(list);
            }
        }
        lists.join("; ")
    }

    /// Ends the processes with this mark.
    pub(crate) fn end_processes(&self, mark: &str) {
        for (signal, pauses) in [(Signal::TERM, TERMINATED), (Signal::KILL, BUSY)] {
            let mut left = pauses;
            let mut marked = self.host.marked(mark);
            for process in &marked {
                self.host.kill(*process, mark, signal);
            }
            while left > 0 && !marked.is_empty() {
                marked = self.host.marked(mark);
                left -= 1;
                self.host.sleep(PAUSE / 10);
            }
        }
    }
}

pub(super) fn cannot(doing: &str, path: &Path, error: &io::Error) -> Diagnostic {
    Diagnostic::error(format!("cannot {doing} `{}`: {error}", path.display()))
}

/// The last lines of what a command printed, for an error message. A text of usage is left out: a line that begins
/// with `Usage:`, and the indented lines that follow it. cryptsetup prints it before or in place of its error.
fn last_lines(output: &str) -> String {
    let mut usage = false;
    let mut lines: Vec<&str> = Vec::new();
    for line in output.lines().filter(|line| !line.trim().is_empty()) {
        usage = line.starts_with("Usage:") || usage && line.starts_with([' ', '\t']);
        if !usage {
            lines.push(line);
        }
    }
    cause(&lines[lines.len().saturating_sub(3)..])
}

/// Lines of output as the cause in an error message; empty without any.
pub(super) fn cause<S: AsRef<str>>(lines: &[S]) -> String {
    let lines: Vec<&str> = lines.iter().map(AsRef::as_ref).collect();
    match lines.is_empty() {
        true => String::new(),
        false => format!("\n  cause: {}", lines.join("\n         ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_of_a_failure_is_not_taken_from_a_path() {
        for (output, cause) in [
            ("umount: /mnt/a: target is busy.\n", Cause::Busy),
            ("cannot destroy 'busy': no such pool\n", Cause::Other),
            ("cannot destroy 'a': pool is busy\n", Cause::Busy),
            (
                "remove ioctl on a  failed: Device or resource busy\nCommand failed.\n",
                Cause::Busy,
            ),
            (
                "umount: /mnt/is busy/endpoint: not mounted.\n",
                Cause::Other,
            ),
            (
                "umount: /mnt/a: Transport endpoint is not connected.\n",
                Cause::DeadServer,
            ),
            ("", Cause::Other),
        ] {
            assert_eq!(Cause::of_output(output), cause, "{output}");
        }
    }

    #[test]
    fn the_usage_that_a_command_prints_is_not_its_error() {
        let usage = "Usage: cryptsetup [-?VqrvyN] [-?|--help]\n        [--active-name=STRING]\n        [OPTION...] <action>\n";
        let error = "cryptsetup: Unsupported encryption sector size.";
        let cause = format!("\n  cause: {error}");
        assert_eq!(last_lines(&format!("{usage}{error}\n")), cause);
        assert_eq!(last_lines(&format!("{error}\n{usage}")), cause);
        assert_eq!(last_lines(usage), "");
        // Indented lines of an error stay.
        assert_eq!(last_lines("a\n  b\n"), "\n  cause: a\n           b");
    }
}
