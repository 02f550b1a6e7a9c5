//! A node's process on this host, and the threads that serve its pipes.

use std::io::{self, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{self, Child, ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, Thread};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::child::LocalNode;
use crate::protocol::{self, Command, Message, PROTOCOL, ReadError};
use crate::session::RunnerError;

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

/// A child process to which `Hello` was sent. Its reports wake the thread that started it.
#[derive(Debug)]
pub(crate) struct NodeProcess {
    child: Child,
    commands: Sender<Option<Command>>,
    pub(crate) reports: Receiver<Report>,
}

impl NodeProcess {
    /// Starts it with this process name.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn start(
        node: &LocalNode,
        name: &str,
        stderr: Stdio,
    ) -> Result<NodeProcess, RunnerError> {
        let start_error = |source| RunnerError::Start {
            program: node.program.clone(),
            source,
        };
        let mut child = process::Command::new(&node.program)
            .arg0(name)
            .args(&node.arguments)
            // Otherwise glibc would begin to keep large blocks in its heap and to zero them. The recorders' mostly
            // empty arrays would then be resident, about 2 MiB for each clone.
            .env("MALLOC_MMAP_THRESHOLD_", "131072")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            // Ctrl-C at the terminal is for the parent, which passes the request on.
            .process_group(0)
            .spawn()
            .map_err(start_error)?;
        let (commands, queued) = mpsc::channel();
        let (report, reports) = mpsc::channel();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let pid = Pid::from_child(&child);
        tracing::debug!(pid = child.id(), "started a node");
        let mut process = NodeProcess {
            child,
            commands,
            reports,
        };
        let pipes = (stdin.zip(stdout)).ok_or_else(|| io::ErrorKind::BrokenPipe.into());
        let served = pipes.and_then(|(stdin, stdout)| {
            let (unsent, owner) = (report.clone(), thread::current());
            let thread = thread::Builder::new().name("node-writer".to_owned());
            thread.spawn(move || write_commands(stdin, queued, &unsent))?;
            let thread = thread::Builder::new().name("node-reader".to_owned());
            thread.spawn(move || read_messages(stdout, pid, &report, &owner))
        });
        if let Err(error) = served {
            process.kill();
            return Err(start_error(error));
        }
        process.send(Command::Hello { version: PROTOCOL });
        Ok(process)
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

    /// Whether one of its threads is blocked in the kernel (state D).
    pub(crate) fn is_blocked(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid()));
        let stats = tasks.into_iter().flatten().flatten();
        let mut stats =
            stats.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
        stats.any(|stat| {
            stat.rsplit_once(") ")
                .is_some_and(|(_, rest)| rest.starts_with('D'))
        })
    }
}

/// Writes commands until the channel is closed, then closes the child's input.
fn write_commands(
    mut stdin: ChildStdin,
    commands: Receiver<Option<Command>>,
    report: &Sender<Report>,
) {
    for command in commands.into_iter().map_while(|command| command) {
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

/// Reads messages to the end of the child's output, and then waits for its exit without reaping it.
fn read_messages(stdout: ChildStdout, pid: Pid, report: &Sender<Report>, owner: &Thread) {
    let mut stdout = BufReader::with_capacity(1 << 16, stdout);
    let tell = |one| {
        let sent = report.send(one).is_ok();
        owner.unpark();
        sent
    };
    loop {
        let (one, last) = match protocol::read(&mut stdout) {
            Ok(message) => (Report::Message(message), false),
            Err(error) => (Report::End(error), true),
        };
        if !tell(one) {
            return;
        }
        if last {
            break;
        }
    }
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let _ = waitid(WaitId::Pid(pid), options);
    tell(Report::Exited);
}
