//! Trials on this host: a session with a child process, and with a simulation for workloads in virtual time.
//!
//! What must stay true: no stop depends on the child's cooperation. A child that was told to abort and neither reports nor
//! ends in time is killed, and one that cannot even be killed is abandoned and reported.

use std::ffi::OsString;
use std::io::{self, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, Child, ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use iodyno_model::{BoundPlan, Identity, Outcome, Settling, Step, TargetInfo};
use iodyno_target::settle::{Unsettled, settle};
use iodyno_target::{Roots, identity, stack};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::death::Death;
use crate::files;
use crate::operations::{OrphanFolder, Removal, RemovalState};
use crate::protocol::{self, Command, Event, Message, PROTOCOL, ReadError, TrialEnd};
use crate::session::{Node, RunnerError, Session};
use crate::simulate::Simulation;
use crate::stop::StopFlag;

/// A program that is a node sends its hello within this.
const HELLO: Duration = Duration::from_secs(10);
/// From `Abort` to SIGKILL. The child itself waits 3.5 s for stuck workers, and 3 s for samplers that hang, before it
/// reports.
const AFTER_ABORT: Duration = Duration::from_secs(8);
/// From the child's last message to SIGKILL, and from SIGKILL to giving up on it.
const AFTER_END: Duration = Duration::from_secs(3);
/// From one progress report of the removal of its files to SIGKILL: on busy storage a single large file takes seconds.
const AFTER_TEAR_DOWN: Duration = Duration::from_secs(30);

/// This host: each trial runs in a child process, or in virtual time in this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalNode {
    /// The program of the child process.
    pub program: PathBuf,
    /// Its arguments; with them it calls [`crate::serve`].
    pub arguments: Vec<OsString>,
}

impl LocalNode {
    /// Starts this very program with the subcommand `node`.
    ///
    /// # Errors
    /// The path of the program is not known.
    pub fn this_program() -> io::Result<LocalNode> {
        // The link leads to the running program even if its file was replaced or removed.
        let link = Path::new("/proc/self/exe");
        let program = match link.exists() {
            true => link.to_owned(),
            false => std::env::current_exe()?,
        };
        Ok(LocalNode {
            program,
            arguments: vec!["node".into()],
        })
    }
}

impl Node for LocalNode {
    fn open(&self, plan: &BoundPlan) -> Result<Box<dyn Session + '_>, RunnerError> {
        Ok(match plan.workload.in_virtual_time() {
            true => Box::new(Simulation::new()),
            false => Box::new(ChildSession::open(self)?),
        })
    }

    fn settle(&self, settling: &Settling, targets: &[PathBuf], stop: &StopFlag) -> Vec<Unsettled> {
        settle(&Roots::host(), settling, targets, &|| stop.is_set())
    }

    fn identify(&self, targets: &[PathBuf]) -> Vec<Option<Identity>> {
        let roots = Roots::host();
        let targets = targets.iter();
        targets
            .map(|target| identity::identify(target, &roots))
            .collect()
    }

    fn describe(&self, targets: &[PathBuf]) -> Vec<TargetInfo> {
        let roots = Roots::host();
        let targets = targets.iter();
        targets
            .map(|target| stack::describe(target, &roots))
            .collect()
    }
}

/// What the threads that serve the child's pipes report.
enum Report {
    Message(Message),
    /// Its output ended, or cannot be read.
    End(ReadError),
    /// It ended after its output.
    Exited,
    /// A command cannot be sent.
    Unsent(io::Error),
}

/// How far a session is.
enum State {
    /// The child sends messages.
    Open,
    /// The child is to exit; how the trial ended, if that is known.
    Closing(Ending),
    /// What the child left behind is being removed.
    CleaningUp(Removal, Outcome, Death),
    Ended,
}

/// What is known of a trial's end while its child exits.
enum Ending {
    /// Its last message.
    Ended(TrialEnd),
    /// It is not a node of this version, or takes no commands.
    Unusable(RunnerError),
    /// It sent no handshake: what it did instead.
    NotANode(String),
    /// It sent something that is not a message.
    Garbled(String),
    /// It ended without a last message.
    Died,
}

/// A trial in a child process.
struct ChildSession<'a> {
    node: &'a LocalNode,
    child: Child,
    commands: Sender<Option<Command>>,
    reports: Receiver<Report>,
    state: State,
    greeted: bool,
    aborted: bool,
    /// The folder of the trial's file operations, once the child may have made it.
    orphan: Option<OrphanFolder>,
    /// When the child is killed, or given up where it was killed.
    deadline: Option<Instant>,
    killed: bool,
}

impl<'a> ChildSession<'a> {
    fn open(node: &'a LocalNode) -> Result<ChildSession<'a>, RunnerError> {
        let start_error = |source| RunnerError::Start {
            program: node.program.clone(),
            source,
        };
        let mut child = process::Command::new(&node.program)
            .arg0("iodyno")
            .args(&node.arguments)
            // glibc would learn to keep large blocks in its heap and zero them: the recorders' mostly empty arrays
            // would then be resident, some 2 MiB for each clone.
            .env("MALLOC_MMAP_THRESHOLD_", "131072")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C at the terminal is for the parent, which passes the request on.
            .process_group(0)
            .spawn()
            .map_err(start_error)?;
        let (commands, queued) = mpsc::channel();
        let (report, reports) = mpsc::channel();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let pid = Pid::from_child(&child);
        tracing::debug!(pid = child.id(), "started a node");
        let mut session = ChildSession {
            node,
            child,
            commands,
            reports,
            state: State::Open,
            greeted: false,
            aborted: false,
            orphan: None,
            deadline: Some(Instant::now() + HELLO),
            killed: false,
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
            session.kill(Instant::now());
            return Err(start_error(error));
        }
        session.send(Command::Hello { version: PROTOCOL });
        Ok(session)
    }

    /// Handles a report that came at `now`. Returns the message to hand on, if there is one.
    fn handle(&mut self, report: Report, now: Instant) -> Option<Message> {
        match report {
            Report::Message(Message::Hello(hello)) if !self.greeted => {
                if hello.version != PROTOCOL {
                    self.close(
                        Ending::Unusable(RunnerError::Version {
                            ours: PROTOCOL,
                            theirs: hello.version,
                            iodyno: hello.iodyno,
                        }),
                        now,
                    );
                    return None;
                }
                self.greeted = true;
                tracing::debug!(
                    iodyno = hello.iodyno,
                    protocol = hello.version,
                    "the node said hello"
                );
                // The deadline of an abort stays.
                if !self.aborted {
                    self.deadline = None;
                }
                return Some(Message::Hello(hello));
            }
            Report::Message(_) if !self.greeted => {
                let why = "its first message is not a handshake".to_owned();
                self.close(Ending::NotANode(why), now);
            }
            Report::Message(Message::Hello(_)) => {
                self.close(Ending::Garbled("a second handshake".to_owned()), now);
            }
            Report::Message(Message::Ended(end)) => self.close(Ending::Ended(end), now),
            Report::Message(message) => {
                let removes = matches!(
                    message,
                    Message::Event(Event::Progress {
                        step: Step::TearDown,
                        ..
                    })
                );
                if removes && self.deadline.is_some() && !self.killed {
                    self.deadline = Some(now + AFTER_TEAR_DOWN);
                }
                return Some(message);
            }
            Report::End(error) if !self.greeted => self.close(
                Ending::NotANode(match error {
                    ReadError::End if self.killed => "it sent no handshake".to_owned(),
                    ReadError::End => "node process closed stdout before the handshake".to_owned(),
                    error => error.to_string(),
                }),
                now,
            ),
            Report::End(ReadError::End | ReadError::CutOff) | Report::Exited => {
                self.close(Ending::Died, now);
            }
            Report::End(error) => self.close(Ending::Garbled(error.to_string()), now),
            Report::Unsent(error) => self.close(Ending::Unusable(RunnerError::Command(error)), now),
        }
        None
    }

    /// Ends the conversation at `now`; the child is to exit.
    fn close(&mut self, ending: Ending, now: Instant) {
        let _ = self.commands.send(None);
        self.deadline = Some(now + AFTER_END);
        self.state = State::Closing(ending);
    }

    fn kill(&mut self, now: Instant) {
        self.killed = true;
        tracing::debug!(pid = self.child.id(), "killing the node");
        self.deadline = Some(now + AFTER_END);
        let _ = self.child.kill();
    }

    /// Kills the child if its deadline has passed at `now`. Returns whether it was killed before and has not exited in time.
    fn overdue(&mut self, now: Instant) -> bool {
        if self.deadline.is_none_or(|end| now < end) {
            return false;
        }
        if self.killed {
            return true;
        }
        self.kill(now);
        false
    }

    /// The child has exited, or (`None`) cannot even be killed.
    fn exited(
        &mut self,
        ending: Ending,
        status: Option<ExitStatus>,
    ) -> Result<Option<Message>, RunnerError> {
        self.state = State::Ended;
        let pid = self.child.id();
        let death = match (ending, status) {
            (Ending::Ended(end), _) => return Ok(Some(Message::Ended(end))),
            (Ending::Unusable(error), _) => return Err(error),
            (Ending::NotANode(why), status) => {
                let status = status.filter(|status| !self.killed && !status.success());
                let why = match status {
                    Some(status) => format!("{why}; {}", Death::of(status)),
                    None => why,
                };
                let program = self.node.program.clone();
                return Err(RunnerError::NotANode { program, why });
            }
            (_, None) => Death::Stuck { pid },
            (Ending::Garbled(why), _) => Death::Garbled(why),
            (Ending::Died, Some(status)) => Death::of(status),
        };
        // It could no longer record what it wrote to devices. If it had to be killed, they may hang.
        if !self.killed {
            files::guard().record_after_death(pid);
        }
        let outcome = self.outcome_of(&death);
        let orphan = match (self.orphan.take(), &death) {
            (None, _) => return Ok(Some(failed(outcome, death))),
            (Some(orphan), Death::Stuck { .. }) => {
                return Ok(Some(failed(with(outcome, &orphan.held()), death)));
            }
            (Some(orphan), _) => orphan,
        };
        match orphan.remove() {
            Ok(removal) => {
                self.state = State::CleaningUp(removal, outcome, death);
                Ok(None)
            }
            Err(remains) => Ok(Some(failed(with(outcome, &remains), death))),
        }
    }

    /// What a trial came to whose child died.
    fn outcome_of(&self, death: &Death) -> Outcome {
        match death {
            _ if self.killed => Outcome::Interrupted(format!("aborted; the node {death}")),
            // Killed from outside; every other signal is a crash that the workload or iodyno brought about.
            Death::Signal(2 | 9 | 15) => Outcome::Interrupted(format!("the node was {death}")),
            Death::Signal(_) => Outcome::Failed(format!("the node was {death}")),
            _ => Outcome::Failed(format!("the node {death}")),
        }
    }
}

impl Session for ChildSession<'_> {
    fn send(&mut self, command: Command) {
        match &command {
            Command::Abort => {
                self.aborted = true;
                if matches!(self.state, State::Open) {
                    self.deadline = Some(Instant::now() + AFTER_ABORT);
                }
            }
            Command::Prepare { plan } => self.orphan = OrphanFolder::of(plan),
            _ => {}
        }
        let _ = self.commands.send(Some(command));
    }

    fn poll(&mut self) -> Result<Option<Message>, RunnerError> {
        loop {
            let now = Instant::now();
            match std::mem::replace(&mut self.state, State::Ended) {
                State::Open => {
                    self.state = State::Open;
                    let report = match self.reports.try_recv() {
                        Ok(report) => report,
                        Err(TryRecvError::Disconnected) => Report::End(ReadError::End),
                        Err(TryRecvError::Empty) if self.overdue(now) => {
                            Report::End(ReadError::End)
                        }
                        Err(TryRecvError::Empty) => return Ok(None),
                    };
                    if let Some(message) = self.handle(report, now) {
                        return Ok(Some(message));
                    }
                }
                State::Closing(ending) => {
                    let status = self.child.try_wait().ok().flatten();
                    if status.is_none() && !self.overdue(now) {
                        self.state = State::Closing(ending);
                        return Ok(None);
                    }
                    let shown = status.map_or("unknown".to_owned(), |it| it.to_string());
                    tracing::debug!(status = shown, "the node exited");
                    if let Some(message) = self.exited(ending, status)? {
                        return Ok(Some(message));
                    }
                    if matches!(self.state, State::Ended) {
                        return Ok(None);
                    }
                }
                State::CleaningUp(mut removal, outcome, death) => {
                    let outcome = match removal.poll() {
                        RemovalState::Nothing => outcome,
                        RemovalState::Over(words) => with(outcome, &words),
                        RemovalState::Working(progress) => {
                            self.state = State::CleaningUp(removal, outcome, death);
                            return Ok(progress.map(|(done, total)| {
                                let step = Step::TearDown;
                                Message::Event(Event::Progress { step, done, total })
                            }));
                        }
                    };
                    return Ok(Some(failed(outcome, death)));
                }
                State::Ended => return Ok(None),
            }
        }
    }
}

fn failed(outcome: Outcome, death: Death) -> Message {
    Message::Ended(TrialEnd::Failed {
        outcome,
        death: Some(death),
    })
}

/// An outcome with more words to its reason.
fn with(outcome: Outcome, words: &str) -> Outcome {
    match outcome {
        Outcome::Interrupted(why) => Outcome::Interrupted(format!("{why}; {words}")),
        Outcome::Failed(why) => Outcome::Failed(format!("{why}; {words}")),
        outcome => outcome,
    }
}

/// Writes commands until there are no more, and closes the child's input then.
fn write_commands(
    mut stdin: ChildStdin,
    commands: Receiver<Option<Command>>,
    report: &Sender<Report>,
) {
    for command in commands.into_iter().map_while(|command| command) {
        match protocol::write(&mut stdin, &command) {
            Ok(()) => {}
            // The child has died; the end of its output says so.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Hello;

    /// A program that reads its input to the end and sends nothing; it exits when the session is dropped.
    fn silent() -> LocalNode {
        LocalNode {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), "exec cat >/dev/null".into()],
        }
    }

    fn progress(step: Step) -> Report {
        Report::Message(Message::Event(Event::Progress {
            step,
            done: 1,
            total: 9,
        }))
    }

    /// A session whose child said hello and was told to abort, and an instant right after that.
    fn aborted(node: &LocalNode) -> (ChildSession<'_>, Instant) {
        let mut session = ChildSession::open(node).unwrap();
        let hello = Message::Hello(Hello::new(Vec::new()));
        assert!(
            session
                .handle(Report::Message(hello), Instant::now())
                .is_some()
        );
        assert_eq!(session.deadline, None);
        session.send(Command::Abort);
        (session, Instant::now())
    }

    #[test]
    fn each_report_of_removed_files_delays_the_kill_after_an_abort() {
        let node = silent();
        let (mut session, mut now) = aborted(&node);
        for _ in 0..9 {
            now += AFTER_TEAR_DOWN - Duration::from_secs(1);
            assert!(session.handle(progress(Step::TearDown), now).is_some());
            assert!(!session.overdue(now) && !session.killed);
        }
        now += AFTER_TEAR_DOWN;
        assert!(!session.overdue(now) && session.killed);
        // A child that was killed gets no more time.
        session.handle(progress(Step::TearDown), now);
        assert!(session.overdue(now + AFTER_END));
    }

    #[test]
    fn other_progress_does_not_delay_the_kill_after_an_abort() {
        let node = silent();
        let (mut session, now) = aborted(&node);
        assert!(session.handle(progress(Step::LayOut), now).is_some());
        assert!(!session.overdue(now + AFTER_ABORT / 2) && !session.killed);
        assert!(!session.overdue(now + AFTER_ABORT) && session.killed);
    }
}
