//! Reads the parent's commands on a separate thread, so that no step of a trial delays them.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use iodyno_model::StopRequest;

use crate::clock;
use crate::node::message_writer::MessageSender;
use crate::node::worker::Signal;
use crate::protocol::{self, Command, Message, ReadError};
use crate::stop::StopFlag;

/// From a stop request to the release of standard error: before the parent kills this process.
const UNTIL_RELEASE: Duration = Duration::from_millis(3600);

/// A parent that promised to send commands is gone after this many of its intervals without one.
pub(crate) const SILENT_INTERVALS: u64 = 15;
/// The longest wait for [`Command::Leave`]: reading the clock takes a few round trips.
pub(crate) const LEAVE: Duration = Duration::from_secs(5);

/// The parent's requests to the trial, shared by the thread that reads commands and those that execute them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Control {
    /// How to stop the trial.
    pub(crate) stop: StopFlag,
    parent_gone: Arc<AtomicBool>,
    leave: Arc<(Mutex<bool>, Condvar)>,
}

impl Control {
    /// The parent has ended: the trial aborts.
    pub(crate) fn parent_has_gone(&self) {
        self.parent_gone.store(true, Ordering::Relaxed);
        self.stop.abort();
        self.may_leave();
    }

    /// Ends [`Control::await_leave`].
    fn may_leave(&self) {
        let (leave, changed) = &*self.leave;
        *leave.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }

    /// Waits until the parent has read the clock after the trial, has stopped it, or has ended; at most [`LEAVE`].
    pub(crate) fn await_leave(&self) {
        let (leave, changed) = &*self.leave;
        let stays = leave.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = changed.wait_timeout_while(stays, LEAVE, |leave| !*leave);
    }

    pub(crate) fn is_parent_gone(&self) -> bool {
        self.parent_gone.load(Ordering::Relaxed)
    }
}

/// Redirects standard error to /dev/null, and standard output if it leads to the same file, as in a node. A process
/// that is blocked on stuck storage would otherwise keep a pipe open whose reader waits for its end.
pub(crate) fn release_stderr() {
    let Ok(null) = File::options().write(true).open("/dev/null") else {
        return;
    };
    let file = |of: BorrowedFd<'_>| {
        let state = rustix::fs::fstat(of).ok()?;
        Some((state.st_dev, state.st_ino))
    };
    if file(io::stdout().as_fd()) == file(io::stderr().as_fd()) {
        let _ = rustix::stdio::dup2_stdout(&null);
    }
    let _ = rustix::stdio::dup2_stderr(&null);
}

/// A thread that calls [`release_stderr`] some time after the first request, if this process has not ended by then.
/// It exists before it is needed: nothing may be started while storage does not respond.
fn stderr_thread(after: Duration) -> io::Result<SyncSender<()>> {
    let (request, requests) = sync_channel::<()>(1);
    let work = move || {
        if requests.recv().is_ok() {
            thread::sleep(after);
            release_stderr();
        }
    };
    let thread = thread::Builder::new().name("stderr".to_owned());
    thread.spawn(work).map(|_| request)
}

/// Reads commands until the parent has ended. Invalid input counts as the parent's end, because nothing after it can be
/// parsed. `messages`: where to answer pings; `None`: they become signals as well.
///
/// # Errors
/// A thread cannot be started.
pub(crate) fn read_commands(
    mut input: impl Read + Send + 'static,
    control: Control,
    signals: Sender<Signal>,
    messages: Option<MessageSender>,
) -> io::Result<()> {
    let release = stderr_thread(UNTIL_RELEASE)?;
    let read = move || {
        let last_message = Arc::new(AtomicU64::new(clock::now()));
        loop {
            let command = match protocol::read::<Command>(&mut input) {
                Ok(command) => command,
                Err(ReadError::Io(error)) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => {
                    control.parent_has_gone();
                    let _ = signals.send(Signal::ParentGone);
                    return;
                }
            };
            last_message.store(clock::now(), Ordering::Relaxed);
            match command {
                Command::Hello { every_ns, .. } if every_ns > 0 => {
                    watch_parent(every_ns, &last_message, control.clone(), signals.clone());
                }
                Command::Leave => control.may_leave(),
                // Answered here, to keep the round trip short.
                Command::Ping { number } => {
                    if let Some(messages) = &messages {
                        let now_ns = clock::now();
                        messages.send(Message::Clock { number, now_ns });
                        continue;
                    }
                }
                Command::ExitAll => control.stop.request(StopRequest::ExitAll),
                Command::Finish => control.stop.request(StopRequest::Finish),
                Command::Abort => control.stop.request(StopRequest::Abort),
                _ => {}
            }
            if matches!(command, Command::Finish | Command::Abort) {
                control.may_leave();
                let _ = release.try_send(());
            }
            if signals.send(Signal::Command(command)).is_err() {
                return;
            }
        }
    };
    let thread = thread::Builder::new().name("control".to_owned());
    thread.spawn(read).map(drop)
}

/// Treats the parent as ended if no command arrives for [`SILENT_INTERVALS`]: a cut connection shows no end of input.
/// `last_message`: when the last command arrived.
fn watch_parent(
    every_ns: u64,
    last_message: &Arc<AtomicU64>,
    control: Control,
    signals: Sender<Signal>,
) {
    let last_message = Arc::clone(last_message);
    let watch = move || {
        let limit_ns = every_ns.saturating_mul(SILENT_INTERVALS);
        loop {
            let silent_ns = clock::now().saturating_sub(last_message.load(Ordering::Relaxed));
            match limit_ns.checked_sub(silent_ns) {
                Some(left_ns) if left_ns > 0 => thread::sleep(Duration::from_nanos(left_ns)),
                _ => break,
            }
        }
        tracing::warn!("the parent is silent: the connection to it was lost");
        control.parent_has_gone();
        let _ = signals.send(Signal::ParentGone);
        release_stderr();
    };
    let _ = thread::Builder::new()
        .name("keepalive".to_owned())
        .spawn(watch);
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    const CHILD: &str = "IODYNO_TEST_RELEASES_STDERR";

    /// In a child process with this variable: writes to both streams after they were released.
    #[test]
    #[allow(
        clippy::exit,
        reason = "nothing is printed after the output that is looked at"
    )]
    fn released_output() {
        if std::env::var_os(CHILD).is_some() {
            release_stderr();
            io::stdout().write_all(b"<output>").unwrap();
            io::stderr().write_all(b"<errors>").unwrap();
            io::stdout().flush().unwrap();
            std::process::exit(0);
        }
    }

    fn child() -> Command {
        let mut child = Command::new(std::env::current_exe().unwrap());
        let test = "node::control::tests::released_output";
        child.args(["--exact", test, "--nocapture"]);
        child.env(CHILD, "1").stdin(Stdio::null());
        child
    }

    #[test]
    fn output_that_does_not_lead_to_the_same_file_as_errors_is_kept() {
        let done = child().output().unwrap();
        let output = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(output.contains("<output>"), "{output}");
        assert!(!String::from_utf8_lossy(&done.stderr).contains("<errors>"));
        // In a node, both lead to the same pipe: its reader sees the end.
        let (mut read, write) = io::pipe().unwrap();
        let both = (write.try_clone().unwrap(), write);
        let mut child = child();
        let mut running = child.stdout(both.0).stderr(both.1).spawn().unwrap();
        drop(child);
        let mut output = String::new();
        read.read_to_string(&mut output).unwrap();
        assert!(!output.contains('<'), "{output}");
        assert!(running.wait().unwrap().success());
    }
}
