//! Work of the parent on storage that may block: settling the host, examining files and devices, and cleaning up after
//! a node that died.
//!
//! Invariant: none of this is done in the parent itself. A thread that is blocked in the kernel would prevent the
//! parent from exiting. A child process therefore does the work, and is abandoned if it is blocked.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use iodyno_host::Owner;
use iodyno_model::Settling;
use iodyno_storage::settle::Unsettled;

use crate::files::operations::OrphanFolder;
use crate::parent::process::{Launcher, NodeProcess, Report};
use crate::parent::session::{Later, RunnerError};
use crate::protocol::{Command, Event, Examination, Examined, Hello, Message, PROTOCOL};
use crate::stop::StopFlag;

/// The name of its process.
const NAME: &str = "iodyno-helper";
/// The name of the process that examines files and devices.
const EXAMINER: &str = "iodyno-examiner";
/// The clean-up is abandoned if nothing could be removed for this long.
const NO_PROGRESS: Duration = Duration::from_secs(30);
/// The same, once the user has ended the trial.
const NO_PROGRESS_STOPPED: Duration = Duration::from_millis(500);
/// The longest wait for the examination of files and devices.
const EXAMINED: Duration = Duration::from_secs(30);
/// From SIGKILL to abandoning the process.
const AFTER_KILL: Duration = Duration::from_millis(300);

/// Settles the host as [`iodyno_storage::settle::settle`] does. Returns within 0.5 s after `stop` is set.
pub(crate) fn settle<'a>(
    node: &dyn Launcher,
    settling: &Settling,
    targets: &[PathBuf],
    stop: &'a StopFlag,
) -> Later<'a, Vec<Unsettled>> {
    let command = Command::Settle {
        settling: *settling,
        targets: targets.to_owned(),
    };
    let call = HelperCall::begin(node, NAME, command);
    Box::new(move || {
        let answer = |message| match message {
            Message::Settled { unsettled } => Some(unsettled),
            _ => None,
        };
        let why = match call.answer(answer, || stop.is_set()) {
            Ok(unsettled) => return unsettled,
            Err(NoAnswer::Failed(why)) => why,
            Err(NoAnswer::GivenUp(None)) => return Vec::new(),
            Err(NoAnswer::GivenUp(Some(pid))) => {
                format!("data are still being written out, and process {pid} waits for that")
            }
        };
        vec![Unsettled::CachesKept { why }]
    })
}

/// Examines files and devices. Everything is unknown without an answer within [`EXAMINED`].
pub(crate) fn examine<'a>(
    node: &dyn Launcher,
    wanted: Examination,
    stop: &'a StopFlag,
) -> Later<'a, Examined> {
    let begun = Instant::now();
    let call = HelperCall::begin(node, EXAMINER, Command::Examine(wanted));
    Box::new(move || {
        let answer = |message| match message {
            Message::Examined(found) => Some(found),
            _ => None,
        };
        let give_up = || stop.is_set() || begun.elapsed() >= EXAMINED;
        call.answer(answer, give_up).unwrap_or_default()
    })
}

/// The answer of a process started as a node.
pub(crate) enum Greeting {
    /// A node, perhaps of another version.
    Hello(Hello),
    /// Not a node; with its output.
    NotANode(String),
}

/// Starts a process of a node only to read its hello; it then ends.
///
/// # Errors
/// It cannot be started, or there was no answer in time.
pub(crate) fn greet(node: &dyn Launcher) -> Result<Greeting, RunnerError> {
    let (mut process, report) = first_report(node, NAME)?;
    let greeting = match report {
        Some(Report::Message(Message::Hello(hello))) => Greeting::Hello(hello),
        Some(Report::Message(_)) => {
            Greeting::NotANode("its first message is not a handshake".to_owned())
        }
        Some(Report::End(error)) => Greeting::NotANode(match process.errors() {
            errors if errors.is_empty() => error.to_string(),
            errors => errors,
        }),
        Some(_) => Greeting::NotANode("it ended".to_owned()),
        None => {
            process.kill();
            return Err(not_connected(node, "no answer from the program there"));
        }
    };
    process.close();
    process.await_exit(hello_limit(node));
    Ok(greeting)
}

/// Starts a process of a node for this task. Returns it with its identity on its host.
///
/// # Errors
/// It cannot be started, or is not a node of this version.
pub(crate) fn greeted(
    node: &dyn Launcher,
    task: &str,
) -> Result<(NodeProcess, Owner), RunnerError> {
    let (mut process, report) = first_report(node, task)?;
    match report {
        Some(Report::Message(Message::Hello(hello))) if hello.version == PROTOCOL => {
            let owner = Owner {
                pid: hello.pid,
                start: hello.process_start,
            };
            Ok((process, owner))
        }
        _ => {
            process.kill();
            Err(match process.errors() {
                errors if errors.is_empty() => not_connected(node, "the node does not answer"),
                errors => not_connected(node, &errors),
            })
        }
    }
}

/// The longest wait for a node's first message.
fn hello_limit(node: &dyn Launcher) -> Duration {
    let connection = node.connection();
    connection.map_or(EXAMINED, |it| Duration::from_nanos(it.hello_ns))
}

/// Starts a process of a node for this task, and waits for its first report; `None`: there was none in time.
fn first_report(
    node: &dyn Launcher,
    task: &str,
) -> Result<(NodeProcess, Option<Report>), RunnerError> {
    let process = NodeProcess::start(node, task, Stdio::null())?;
    let report = process.reports.recv_timeout(hello_limit(node)).ok();
    if let Some(Report::End(_)) = report {
        // Its standard error is complete when it has exited.
        let _ = process.reports.recv_timeout(AFTER_KILL);
    }
    Ok((process, report))
}

fn not_connected(node: &dyn Launcher, why: &str) -> RunnerError {
    let connection = node.connection();
    RunnerError::NotConnected {
        to: connection.map_or_else(String::new, |it| it.to.clone()),
        why: why.to_owned(),
    }
}

/// Why a helper did not answer.
enum NoAnswer {
    /// It could not be started, or it ended.
    Failed(String),
    /// The wait was given up and the process was killed; its pid, if it is blocked.
    GivenUp(Option<u32>),
}

/// A helper process that was sent a command.
struct HelperCall(Result<NodeProcess, RunnerError>);

impl HelperCall {
    /// Starts a helper process with this name and sends it a command.
    fn begin(node: &dyn Launcher, name: &str, command: Command) -> HelperCall {
        let process = NodeProcess::start(node, name, Stdio::null());
        if let Ok(process) = &process {
            process.send(command);
        }
        HelperCall(process)
    }

    /// The first message that `answer` accepts. Gives up soon after `give_up` returns true.
    fn answer<T>(
        self,
        answer: impl Fn(Message) -> Option<T>,
        give_up: impl Fn() -> bool,
    ) -> Result<T, NoAnswer> {
        let mut process = self
            .0
            .map_err(|error| NoAnswer::Failed(error.to_string()))?;
        let given_up = || match give_up() {
            true => Err(()),
            false => Ok(()),
        };
        let answered = process.answer(answer, given_up);
        if answered.is_err() {
            process.kill();
        }
        let exited = process.await_exit(AFTER_KILL);
        match answered {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => {
                let why = "the helper process ended without an answer";
                Err(NoAnswer::Failed(why.to_owned()))
            }
            Err(()) => Err(NoAnswer::GivenUp((!exited).then(|| process.pid()))),
        }
    }
}

/// A running clean-up: it records what a dead node wrote to devices, and removes the node's folder.
#[derive(Debug)]
pub(crate) struct CleanUp {
    process: NodeProcess,
    folder: Option<OrphanFolder>,
    /// Number of removed files in the last progress report, and the time of that report.
    reported: u64,
    since: Instant,
}

/// The state of a clean-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CleanUpState {
    /// It is running; with new progress, the number of files removed and found so far.
    Working(Option<(u64, u64)>),
    /// It has ended or was abandoned; the text is appended to the cause of the node's death.
    Over(Option<String>),
}

impl CleanUp {
    /// Starts to clean up after a node. `died`: its process, if its writes to devices must be recorded. `lost`: its
    /// process, if it may still run.
    ///
    /// # Errors
    /// The folder remains: the reason and the remedy.
    pub(crate) fn start(
        node: &dyn Launcher,
        (died, lost): (Option<Owner>, Option<Owner>),
        folder: Option<OrphanFolder>,
    ) -> Result<CleanUp, Option<String>> {
        let process = NodeProcess::start(node, NAME, Stdio::null()).map_err(|error| {
            let folder = folder.as_ref();
            folder.map(|folder| folder.stays(&error.to_string()))
        })?;
        process.send(Command::CleanUp {
            died,
            lost,
            folder: folder
                .as_ref()
                .map(|folder| (folder.at().to_owned(), folder.name().to_owned())),
        });
        Ok(CleanUp {
            process,
            folder,
            reported: 0,
            since: Instant::now(),
        })
    }

    /// Returns the current state without waiting. `stop_by`: when the session must end unless there is progress, if the
    /// user has ended the trial.
    pub(crate) fn poll(&mut self, stop_by: Option<Instant>) -> CleanUpState {
        let over = |words: &dyn Fn(&OrphanFolder) -> String| {
            CleanUpState::Over(self.folder.as_ref().map(words))
        };
        loop {
            match self.process.reports.try_recv() {
                Ok(Report::Message(Message::CleanedUp(Ok(false)))) => {
                    return CleanUpState::Over(None);
                }
                Ok(Report::Message(Message::CleanedUp(Ok(true)))) => {
                    return over(&OrphanFolder::removed);
                }
                Ok(Report::Message(Message::CleanedUp(Err(why)))) => {
                    return over(&|folder| folder.remains(&why));
                }
                Ok(Report::Message(Message::Event(Event::Progress { done, total, .. })))
                    if done != self.reported =>
                {
                    (self.reported, self.since) = (done, Instant::now());
                    return CleanUpState::Working(Some((done, total)));
                }
                Ok(Report::Message(_)) => {}
                Ok(_) | Err(TryRecvError::Disconnected) => {
                    return over(&|folder| folder.stays("the process that removed it has ended"));
                }
                Err(TryRecvError::Empty) => break,
            }
        }
        let patience = match stop_by {
            Some(by) if Instant::now() >= by => NO_PROGRESS_STOPPED,
            _ => NO_PROGRESS,
        };
        match self.since.elapsed() >= patience {
            true => over(&|folder| folder.waits(self.process.pid())),
            false => CleanUpState::Working(None),
        }
    }
}
