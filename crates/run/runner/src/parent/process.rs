//! A node's process, or the process that is connected to it, and the threads that serve its pipes.

use std::fmt::Debug;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{self, Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use iodyno_host::{Owner, ProcessStat, Roots, text};
use iodyno_model::Diagnostic;
use iodyno_model::printable::on_one_line;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::clock;
use crate::parent::session::{POLL, RunnerError};
use crate::protocol::{self, Command, Message, PROTOCOL, ReadError};

/// Starts the processes of a node. Each executes one trial or one other task, and speaks the protocol on its standard
/// input and output. For a node on another host, the started process forwards bytes to and from the node's process, and
/// ends with it.
pub trait Launcher: Debug + Sync {
    /// The program of the process that is started here.
    fn program(&self) -> &Path;

    /// The command that starts a process for this task, which is its name in lists of processes.
    fn command(&self, task: &str) -> process::Command;

    /// The connection, if the node's process is not a child of this one; `None`: it is.
    fn connection(&self) -> Option<&Connection> {
        None
    }

    /// The command that starts a process for this task in the guest behind a socket of the node, connected to that
    /// process. `None`: this node does not reach guests.
    fn in_guest(&self, _task: &str, _socket: &Path) -> Option<process::Command> {
        None
    }

    /// The process on the node's host that will own storage with this token: the storage is undone after that process
    /// has ended.
    ///
    /// # Errors
    /// It cannot be started, or is unknown.
    fn owner(&self, _token: &str) -> Result<Owner, Diagnostic> {
        Owner::of(&Roots::host(), process::id()).ok_or_else(|| {
            let fault = "the start time of this process cannot be read from /proc";
            Diagnostic::error(fault).hint("mount procfs at /proc")
        })
    }
}

/// How a node elsewhere is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// The node's address, for messages: `ssh://10.0.0.1`.
    pub to: String,
    /// The longest time from the start of a process to its first message, ns.
    pub hello_ns: u64,
    /// The interval of keepalive messages, ns. Both ends give up after several of them without an answer.
    pub every_ns: u64,
}

impl Connection {
    /// The interval that the nodes of other hosts use, ns.
    pub const EVERY_NS: u64 = 1_000_000_000;

    /// The command that undoes storage there after everything else has ended.
    pub(crate) fn clean_command(connection: Option<&Connection>) -> String {
        match connection {
            Some(Connection { to, .. }) if to.starts_with("ssh://") => {
                format!("`iodyno clean --node NAME={to}`")
            }
            // Storage in a guest ends with it.
            _ => "`iodyno clean`".to_owned(),
        }
    }

    /// The node is lost after this time without a message, ns.
    pub(crate) fn silence_ns(&self) -> u64 {
        self.every_ns
            .saturating_mul(crate::node::control::SILENT_INTERVALS)
    }
}

/// Lines of a connection's standard error that are kept, and their greatest length, bytes.
const KEPT_LINES: usize = 4;
const MAX_LINE_LEN: u64 = 1000;

/// The reports of the threads that serve the child's pipes.
#[derive(Debug)]
pub(crate) enum Report {
    Message(Message),
    /// Its output ended, or cannot be read.
    End(ReadError),
    /// It exited after the end of its output.
    Exited,
    /// A command cannot be sent.
    Unsent(io::Error),
}

/// A child process to which `Hello` was sent. Its reports wake the thread that started it. If it is dropped before the
/// process has exited, the thread that reads its output waits for that, so that no defunct process remains.
#[derive(Debug)]
pub(crate) struct NodeProcess {
    child: Child,
    commands: Sender<Option<Command>>,
    pub(crate) reports: Receiver<Report>,
    /// When its last message arrived, ns.
    last_message: Arc<AtomicU64>,
    /// The last lines of its standard error, if that is read.
    errors: Arc<Mutex<Vec<String>>>,
    /// Whether it was waited for when this was dropped.
    reaped: Arc<AtomicBool>,
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        let exited = self.exited().is_some();
        // Before the end of `reports`, after which the reading thread looks at it.
        self.reaped.store(exited, Ordering::Release);
    }
}

impl NodeProcess {
    /// Starts it for this task. `stderr`: where the standard error of a process of this host goes.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn start(
        node: &dyn Launcher,
        task: &str,
        stderr: Stdio,
    ) -> Result<NodeProcess, RunnerError> {
        let start_error = |source| RunnerError::Start {
            program: node.program().to_owned(),
            source,
        };
        let every_ns = node
            .connection()
            .map_or(0, |connection| connection.every_ns);
        let mut child = node
            .command(task)
            // Otherwise glibc would begin to keep large blocks in its heap and to zero them. The recorders' mostly
            // empty arrays would then be resident, about 2 MiB for each clone.
            .env("MALLOC_MMAP_THRESHOLD_", "131072")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(match node.connection() {
                None => stderr,
                Some(_) => Stdio::piped(),
            })
            // Ctrl-C at the terminal is for the parent, which passes the request on.
            .process_group(0)
            .spawn()
            .map_err(start_error)?;
        let (commands, queued) = mpsc::channel();
        let (report, reports) = mpsc::channel();
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let pid = Pid::from_child(&child);
        tracing::debug!(pid = child.id(), "started a node");
        let mut process = NodeProcess {
            child,
            commands,
            reports,
            last_message: Arc::new(AtomicU64::new(clock::now())),
            errors: Arc::default(),
            reaped: Arc::default(),
        };
        let reaped = Arc::clone(&process.reaped);
        let (last_message, errors) = (
            Arc::clone(&process.last_message),
            Arc::clone(&process.errors),
        );
        let pipes = (stdin.zip(stdout)).ok_or_else(|| io::ErrorKind::BrokenPipe.into());
        let served = pipes.and_then(|(stdin, stdout)| {
            if let Some(stderr) = stderr {
                let thread = thread::Builder::new().name("node-errors".to_owned());
                thread.spawn(move || keep_lines(stderr, &errors))?;
            }
            let (unsent, owner) = (report.clone(), thread::current());
            let thread = thread::Builder::new().name("node-writer".to_owned());
            thread.spawn(move || write_commands(stdin, every_ns, &queued, &unsent))?;
            let thread = thread::Builder::new().name("node-reader".to_owned());
            thread.spawn(move || {
                read_messages(stdout, &last_message, &report, &owner);
                await_exit(pid, &report, &owner, &reaped);
            })
        });
        if let Err(error) = served {
            process.kill();
            return Err(start_error(error));
        }
        process.send(Command::Hello {
            version: PROTOCOL,
            every_ns,
        });
        Ok(process)
    }

    /// Time since its last message, ns.
    pub(crate) fn silent_ns(&self) -> u64 {
        clock::now().saturating_sub(self.last_message.load(Ordering::Relaxed))
    }

    /// The last lines of its standard error on one line; empty without any, or if it is not read.
    pub(crate) fn errors(&self) -> String {
        let lines = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        lines.join("; ")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a command. A command that cannot be delivered is dropped: the end of the child's output follows.
    pub(crate) fn send(&self, command: Command) {
        let _ = self.commands.send(Some(command));
    }

    /// Closes its input after all commands are written.
    pub(crate) fn close(&self) {
        let _ = self.commands.send(None);
    }

    pub(crate) fn kill(&mut self) {
        tracing::debug!(pid = self.pid(), "killing the node");
        let _ = self.child.kill();
    }

    /// Its exit status, if it has exited.
    pub(crate) fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for the first message that `answer` accepts. Calls `waiting` every [`POLL`]; its error ends the wait.
    /// `None`: the process has ended without an answer.
    pub(crate) fn answer<T, E>(
        &self,
        mut answer: impl FnMut(Message) -> Option<T>,
        mut waiting: impl FnMut() -> Result<(), E>,
    ) -> Result<Option<T>, E> {
        let mut check_at = Instant::now() + POLL;
        loop {
            let left = check_at.saturating_duration_since(Instant::now());
            match self.reports.recv_timeout(left) {
                Ok(Report::Message(message)) => {
                    let answered = answer(message);
                    if answered.is_some() {
                        return Ok(answered);
                    }
                }
                Ok(_) | Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {
                    waiting()?;
                    check_at = Instant::now() + POLL;
                }
            }
        }
    }

    /// Waits for its exit, at most for this time. Returns whether it has exited.
    pub(crate) fn await_exit(&mut self, limit: Duration) -> bool {
        let begun = Instant::now();
        while self.exited().is_none() {
            if begun.elapsed() >= limit {
                return false;
            }
            thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// Whether it is stopped by a signal or a debugger (states T and t).
    pub(crate) fn is_stopped(&self) -> bool {
        let stat = ProcessStat::of(&Roots::host(), self.pid());
        stat.is_some_and(|stat| matches!(stat.state, 'T' | 't'))
    }

    /// Whether one of its threads is blocked in the kernel (state D).
    pub(crate) fn is_blocked(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid()));
        let stats = tasks.into_iter().flatten().flatten();
        let mut stats = stats.filter_map(|task| text(task.path().join("stat")));
        stats.any(|stat| ProcessStat::parse(&stat).is_some_and(|stat| stat.state == 'D'))
    }
}

/// Keeps the last lines that a connected process prints, without characters that steer a terminal.
pub(crate) fn keep_lines(stderr: impl Read, kept: &Mutex<Vec<String>>) {
    let mut stderr = BufReader::new(stderr);
    loop {
        let mut line = Vec::new();
        match (&mut stderr)
            .take(MAX_LINE_LEN)
            .read_until(b'\n', &mut line)
        {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let line = on_one_line(String::from_utf8_lossy(&line).trim()).to_string();
        if line.is_empty() {
            continue;
        }
        tracing::debug!(line, "the node's standard error");
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(line);
        if kept.len() > KEPT_LINES {
            kept.remove(0);
        }
    }
}

/// Writes commands until the channel is closed, then closes the child's input. With an interval, the node is pinged
/// when there was no command for that long; the answer has the number 0.
fn write_commands(
    mut stdin: impl Write,
    every_ns: u64,
    commands: &Receiver<Option<Command>>,
    report: &Sender<Report>,
) {
    let next = || match every_ns {
        0 => commands.recv().ok().flatten(),
        every_ns => match commands.recv_timeout(Duration::from_nanos(every_ns)) {
            Ok(command) => command,
            Err(RecvTimeoutError::Timeout) => Some(Command::Ping { number: 0 }),
            Err(RecvTimeoutError::Disconnected) => None,
        },
    };
    while let Some(command) = next() {
        match protocol::write(&mut stdin, &command) {
            Ok(()) => {}
            // The child has died; the end of its output reports that.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return,
            Err(error) => {
                let _ = report.send(Report::Unsent(error));
                return;
            }
        }
    }
}

/// Reads messages to the end of the child's output, or until the receiver is gone.
fn read_messages(
    stdout: impl Read,
    last_message: &AtomicU64,
    report: &Sender<Report>,
    owner: &Thread,
) {
    let mut stdout = BufReader::with_capacity(1 << 16, stdout);
    let mut message = protocol::read_first(&mut stdout);
    loop {
        last_message.store(clock::now(), Ordering::Relaxed);
        let (one, last) = match message {
            Ok(message) => (Report::Message(message), false),
            Err(error) => (Report::End(error), true),
        };
        let sent = report.send(one).is_ok();
        owner.unpark();
        if last || !sent {
            return;
        }
        message = protocol::read(&mut stdout);
    }
}

/// Waits for the exit of the child, and reaps it unless it is reaped elsewhere.
fn await_exit(pid: Pid, report: &Sender<Report>, owner: &Thread, reaped: &AtomicBool) {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let _ = waitid(WaitId::Pid(pid), options);
    if report.send(Report::Exited).is_err() && !reaped.load(Ordering::Acquire) {
        let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED);
    }
    owner.unpark();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its processes read a file, and end with it.
    #[derive(Debug)]
    struct Reads<'a>(&'a Path);

    impl Launcher for Reads<'_> {
        fn program(&self) -> &Path {
            Path::new("cat")
        }

        fn command(&self, _: &str) -> process::Command {
            let mut command = process::Command::new("cat");
            command.arg(self.0);
            command
        }
    }

    #[test]
    fn a_process_that_ends_after_its_session_is_reaped() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        let (mode, device) = (rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR, 0);
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, mode, device).unwrap();
        let process = NodeProcess::start(&Reads(&fifo), "test", Stdio::null()).unwrap();
        let pid = Pid::from_child(&process.child);
        let state = || {
            waitid(
                WaitId::Pid(pid),
                WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
            )
        };
        drop(process);
        let running = waitid(
            WaitId::Pid(pid),
            WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG,
        );
        assert!(matches!(running, Ok(None)), "{running:?}");
        // The process reads to the end of this.
        drop(std::fs::File::options().write(true).open(&fifo).unwrap());
        // ECHILD: it was reaped. Otherwise it stays defunct.
        while state().is_ok() {
            thread::yield_now();
        }
    }
}
