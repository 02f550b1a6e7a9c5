//! Trials in processes: a session with a child process of this host, or with a process connected to a node on another
//! host; or a simulation for workloads in virtual time.
//!
//! Invariants: a stop does not depend on the child's cooperation, and a session ends within 5 s of the first stop
//! request, even if the storage hangs. A child that was told to end and neither reports nor ends in time is killed. A
//! child that cannot be killed is abandoned and reported. Only a child that removes the trial's files and makes
//! progress has more time; without progress it continues in the background.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, ExitStatus, Stdio};
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use iodyno_host::Owner;
use iodyno_model::{BoundPlan, Outcome, Settling, Step};
use iodyno_storage::settle::Unsettled;
use iodyno_units::Nanos;

use crate::files::operations::OrphanFolder;
use crate::parent::death::Death;
use crate::parent::helper::{self, CleanUp, CleanUpState};
use crate::parent::process::{Connection, Launcher, NodeProcess, Report};
use crate::parent::session::{Later, Node, RunnerError, Session};
use crate::parent::simulation::Simulation;
use crate::protocol::{
    Command, Event, Examination, Examined, Message, PROTOCOL, ReadError, TrialEnd,
};
use crate::stop::StopFlag;

/// The number of the signal with which this process kills a node.
const SIGKILL: i32 = 9;
/// Time limit for the node's `Hello`.
const HELLO: Duration = Duration::from_secs(10);
/// From the first stop request to SIGKILL. The child itself waits 2.3 s for stuck workers, and 0.5 s for samplers that
/// hang, before it reports.
const AFTER_STOP: Duration = Duration::from_millis(3800);
/// From the child's last message to SIGKILL, and from SIGKILL to giving up on it.
const AFTER_END: Duration = Duration::from_secs(3);
/// From SIGKILL to giving up on a child that is blocked in the kernel.
const AFTER_KILL: Duration = Duration::from_millis(300);
/// The shortest time between the last message and SIGKILL.
const MIN_AFTER_END: Duration = Duration::from_millis(100);
/// From one progress report of the removal of its files to SIGKILL: on busy storage a single large file takes seconds.
const AFTER_TEAR_DOWN: Duration = Duration::from_secs(30);

/// This host: each trial runs in a child process, or in virtual time in this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalNode {
    /// The program of the child process.
    pub program: PathBuf,
    /// Its arguments, with which it calls [`crate::node::serve`].
    pub arguments: Vec<OsString>,
}

impl LocalNode {
    /// Starts this program with the subcommand `node`.
    pub fn this_program() -> LocalNode {
        LocalNode {
            // The link leads to the running program even if its file was replaced or removed.
            program: "/proc/self/exe".into(),
            arguments: vec!["node".into()],
        }
    }
}

impl Launcher for LocalNode {
    fn program(&self) -> &Path {
        &self.program
    }

    fn command(&self, task: &str) -> process::Command {
        let mut command = process::Command::new(&self.program);
        command.arg0(task).args(&self.arguments);
        command
    }

    fn in_guest(&self, task: &str, socket: &Path) -> Option<process::Command> {
        let mut command = self.command(task);
        command.arg("--guest").arg(socket);
        Some(command)
    }
}

impl<L: Launcher> Node for L {
    fn open(&self, plan: &BoundPlan) -> Result<Box<dyn Session + '_>, RunnerError> {
        Ok(match plan.workload.in_virtual_time() {
            true => Box::new(Simulation::new()),
            false => Box::new(ChildSession::open(self)?),
        })
    }

    fn has_own_clock(&self) -> bool {
        self.connection().is_some()
    }

    fn settle<'a>(
        &'a self,
        settling: &Settling,
        targets: &[PathBuf],
        stop: &'a StopFlag,
    ) -> Later<'a, Vec<Unsettled>> {
        helper::settle(self, settling, targets, stop)
    }

    fn examine<'a>(&'a self, wanted: Examination, stop: &'a StopFlag) -> Later<'a, Examined> {
        match wanted == Examination::default() {
            true => Box::new(Examined::default),
            false => helper::examine(self, wanted, stop),
        }
    }
}

/// The state of a session.
enum State {
    /// The child sends messages.
    Open,
    /// The child was told to exit; the trial's end, if known.
    Closing(Ending),
    /// The helper removes and records what the child left behind.
    CleaningUp(CleanUp, Outcome, Death),
    Ended,
}

/// The known end of a trial while its child exits.
enum Ending {
    /// Its last message.
    Ended(TrialEnd),
    /// It is not a node of this version, or does not accept commands.
    Unusable(RunnerError),
    /// It sent no handshake; the text describes its behaviour.
    NotANode(String),
    /// It sent something that is not a message.
    Garbled(String),
    /// It ended without a last message.
    Died,
    /// It is on another host, and has not answered for this time, ns.
    Silent(u64),
}

/// A trial in a child process.
struct ChildSession<'a> {
    node: &'a dyn Launcher,
    process: NodeProcess,
    /// The node's process, as its hello names it.
    node_process: Owner,
    state: State,
    greeted: bool,
    /// When the child must have ended, once told to stop.
    stop_by: Option<Instant>,
    /// Whether it is removing the trial's files.
    removes: bool,
    /// The folder of the trial's file operations, once the child may have created it.
    orphan: Option<OrphanFolder>,
    /// When the child is killed, or, if it was killed, checked.
    deadline: Option<Instant>,
    killed: bool,
    /// The latest time at which a killed child is given up.
    give_up: Option<Instant>,
    /// When it is next examined whether the child is stopped, and whether it was.
    examine: Instant,
    halted: bool,
}

/// The interval at which it is examined whether a silent child is stopped.
const EXAMINE: Duration = Duration::from_secs(1);

impl<'a> ChildSession<'a> {
    fn open(node: &'a dyn Launcher) -> Result<ChildSession<'a>, RunnerError> {
        let hello = node.connection().map_or(HELLO, |connection| {
            Duration::from_nanos(connection.hello_ns)
        });
        let process = NodeProcess::start(node, "iodyno", Stdio::inherit())?;
        Ok(ChildSession {
            node_process: Owner {
                pid: process.pid(),
                start: 0,
            },
            process,
            node,
            state: State::Open,
            greeted: false,
            stop_by: None,
            removes: false,
            orphan: None,
            deadline: Some(Instant::now() + hello),
            killed: false,
            give_up: None,
            examine: Instant::now() + EXAMINE,
            halted: false,
        })
    }

    /// Handles a report that arrived at `now`. Returns the message to pass on, if there is one.
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
                self.node_process = Owner {
                    pid: hello.pid,
                    start: hello.process_start,
                };
                tracing::debug!(
                    iodyno = hello.iodyno,
                    protocol = hello.version,
                    "the node said hello"
                );
                // The deadline of a stop request still applies.
                self.deadline = self.stop_by;
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
                self.removes |= removes;
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

    /// Closes the child's input at `now`, so that it exits.
    fn close(&mut self, ending: Ending, now: Instant) {
        self.process.close();
        let stop_by = self.stop_by.map(|by| by.max(now + MIN_AFTER_END));
        let end_by = now + AFTER_END;
        self.deadline = Some(stop_by.map_or(end_by, |by| by.min(end_by)));
        self.state = State::Closing(ending);
    }

    fn kill(&mut self, now: Instant) {
        self.killed = true;
        (self.deadline, self.give_up) = (Some(now + AFTER_KILL), Some(now + AFTER_END));
        self.process.kill();
    }

    /// Kills the child if its deadline has passed at `now`. Returns whether it is given up: it was killed before and
    /// has not exited in time, or it still removes files after its last message.
    fn overdue(&mut self, now: Instant) -> bool {
        if self.deadline.is_none_or(|end| now < end) {
            return false;
        }
        if self.killed {
            // On a busy host, a child that is not blocked can take longer to exit.
            return self.process.is_blocked() || self.give_up.is_some_and(|end| now >= end);
        }
        if self.removes && matches!(self.state, State::Closing(Ending::Ended(_))) {
            return true;
        }
        self.kill(now);
        false
    }

    /// The message that the child on this host has been stopped since the last call.
    fn halted(&mut self, now: Instant) -> Option<Message> {
        if now < self.examine || self.node.connection().is_some() {
            return None;
        }
        self.examine = now + EXAMINE;
        let before = std::mem::replace(&mut self.halted, self.process.is_stopped());
        let pid = self.process.pid();
        (self.halted && !before).then_some(Message::Event(Event::Halted { pid }))
    }

    fn not_answering(&self, silent_ns: u64) -> String {
        let to = self.node.connection().map_or("the node", |to| &to.to);
        format!("{to} did not answer for {}", Nanos(silent_ns))
    }

    /// Whether a node on another host has stopped answering; for how long, ns.
    fn is_lost(&self) -> Option<u64> {
        let connection = self.node.connection().filter(|_| self.greeted)?;
        let silent_ns = self.process.silent_ns();
        (silent_ns >= connection.silence_ns()).then_some(silent_ns)
    }

    /// The child has exited, or cannot be killed (`None`).
    fn exited(
        &mut self,
        ending: Ending,
        status: Option<ExitStatus>,
    ) -> Result<Option<Message>, RunnerError> {
        self.state = State::Ended;
        let pid = self.process.pid();
        let connection = self.node.connection();
        let death = match (ending, status) {
            (Ending::Ended(end), None) if self.killed => {
                let held = self.orphan.take().map(|orphan| orphan.held());
                let end = held_by(end, &Death::Stuck { pid }, held);
                return Ok(Some(Message::Ended(end)));
            }
            (Ending::Ended(end), _) => return Ok(Some(Message::Ended(end))),
            (Ending::Unusable(error), _) => return Err(error),
            (Ending::NotANode(why), status) => {
                if let Some(connection) = connection {
                    let to = connection.to.clone();
                    let why = match self.process.errors() {
                        errors if errors.is_empty() => why,
                        errors => errors,
                    };
                    return Err(RunnerError::NotConnected { to, why });
                }
                let status = status.filter(|status| !self.killed && !status.success());
                let why = match status {
                    Some(status) => format!("{why}; {}", Death::of(status)),
                    None => why,
                };
                let program = self.node.program().to_owned();
                return Err(RunnerError::NotANode { program, why });
            }
            (Ending::Garbled(why), Some(_)) => Death::Garbled(why),
            (Ending::Silent(ns), _) => Death::Lost(self.not_answering(ns)),
            (Ending::Died, Some(_)) if self.killed && connection.is_some() => {
                Death::Lost(self.not_answering(self.process.silent_ns()))
            }
            (Ending::Died, Some(status)) => match connection {
                Some(connection) => connection_death(connection, status, &self.process.errors()),
                None => Death::of(status),
            },
            (_, None) => Death::Stuck { pid },
        };
        let outcome = self.outcome_of(&death);
        let orphan = self.orphan.take();
        if let Death::Stuck { .. } = death {
            let held = orphan.map(|orphan| orphan.held());
            return Ok(Some(failed(with(outcome, held), death)));
        }
        // It did not record its writes to devices. If this process had to kill it, the devices may hang.
        let died = match connection {
            None => (!self.killed).then_some(self.node_process),
            Some(_) => Some(self.node_process),
        };
        let lost = connection.map(|_| self.node_process);
        if died.is_none() && orphan.is_none() {
            return Ok(Some(failed(outcome, death)));
        }
        match CleanUp::start(self.node, (died, lost), orphan) {
            Ok(clean_up) => {
                self.state = State::CleaningUp(clean_up, outcome, death);
                Ok(None)
            }
            Err(remains) => Ok(Some(failed(with(outcome, remains), death))),
        }
    }

    /// The outcome of a trial whose child died.
    fn outcome_of(&self, death: &Death) -> Outcome {
        match death {
            Death::Lost(what) if self.stop_by.is_some() => {
                Outcome::Interrupted(format!("aborted; {what}"))
            }
            Death::Lost(what) => Outcome::Failed(what.clone()),
            Death::Signal(SIGKILL) if self.killed => Outcome::Interrupted(
                "aborted; iodyno killed the node, which had not ended in time".to_owned(),
            ),
            _ if self.killed => Outcome::Interrupted(format!("aborted; the node {death}")),
            // Killed from outside; any other signal is a crash caused by the workload or iodyno.
            Death::Signal(2 | 9 | 15) => Outcome::Interrupted(format!("the node was {death}")),
            Death::Signal(_) => Outcome::Failed(format!("the node was {death}")),
            _ => Outcome::Failed(format!("the node {death}")),
        }
    }
}

impl Session for ChildSession<'_> {
    fn has_failed(&self) -> bool {
        match &self.state {
            State::Closing(ending) => !matches!(ending, Ending::Ended(_)),
            State::CleaningUp(..) => true,
            State::Open | State::Ended => false,
        }
    }

    fn send(&mut self, command: Command) {
        match &command {
            Command::Finish | Command::Abort => {
                let stop_by = *self
                    .stop_by
                    .get_or_insert_with(|| Instant::now() + AFTER_STOP);
                if matches!(self.state, State::Open) && !self.killed && !self.removes {
                    self.deadline = Some(stop_by);
                }
            }
            Command::Prepare { plan } => self.orphan = OrphanFolder::of(plan),
            _ => {}
        }
        self.process.send(command);
    }

    fn poll(&mut self) -> Result<Option<Message>, RunnerError> {
        loop {
            let now = Instant::now();
            match std::mem::replace(&mut self.state, State::Ended) {
                State::Open => {
                    self.state = State::Open;
                    let report = match self.process.reports.try_recv() {
                        Ok(report) => report,
                        Err(TryRecvError::Disconnected) => Report::End(ReadError::End),
                        Err(TryRecvError::Empty) if self.overdue(now) => {
                            Report::End(ReadError::End)
                        }
                        Err(TryRecvError::Empty) => match self.is_lost() {
                            Some(silent_ns) => {
                                self.close(Ending::Silent(silent_ns), now);
                                self.kill(now);
                                continue;
                            }
                            None => return Ok(self.halted(now)),
                        },
                    };
                    if let Some(message) = self.handle(report, now) {
                        return Ok(Some(message));
                    }
                }
                State::Closing(ending) => {
                    let status = self.process.exited();
                    self.state = State::Closing(ending);
                    if status.is_none() && !self.overdue(now) {
                        return Ok(None);
                    }
                    let State::Closing(ending) = std::mem::replace(&mut self.state, State::Ended)
                    else {
                        return Ok(None);
                    };
                    let shown = status.map_or("unknown".to_owned(), |it| it.to_string());
                    tracing::debug!(status = shown, "the node exited");
                    if let Some(message) = self.exited(ending, status)? {
                        return Ok(Some(message));
                    }
                    if matches!(self.state, State::Ended) {
                        return Ok(None);
                    }
                }
                State::CleaningUp(mut clean_up, outcome, death) => {
                    let words = match clean_up.poll(self.stop_by) {
                        CleanUpState::Over(words) => words,
                        CleanUpState::Working(progress) => {
                            self.state = State::CleaningUp(clean_up, outcome, death);
                            return Ok(progress.map(|(done, total)| {
                                let step = Step::TearDown;
                                Message::Event(Event::Progress { step, done, total })
                            }));
                        }
                    };
                    return Ok(Some(failed(with(outcome, words), death)));
                }
                State::Ended => return Ok(None),
            }
        }
    }
}

/// The death of a process that was connected to a node. ssh exits with 255 if the connection failed, and otherwise with
/// the exit code of the node's process.
fn connection_death(connection: &Connection, status: ExitStatus, errors: &str) -> Death {
    let because = match errors.is_empty() {
        true => String::new(),
        false => format!(": {errors}"),
    };
    match status.code() {
        Some(255) | None => Death::Lost(format!(
            "the connection to {} was lost{because}",
            connection.to
        )),
        // A shell reports a process that a signal killed with 128 and its number.
        Some(code @ 129..160) => Death::Signal(code - 128),
        Some(code) => Death::Exit(code),
    }
}

fn failed(outcome: Outcome, death: Death) -> Message {
    Message::Ended(TrialEnd::Failed {
        outcome,
        death: Some(death),
    })
}

/// A trial's end, with the process that could not be killed and the folder that it still uses.
fn held_by(end: TrialEnd, death: &Death, held: Option<String>) -> TrialEnd {
    let words = [Some(death.to_string()), held];
    let words = words.into_iter().flatten().collect::<Vec<_>>().join("; ");
    match end {
        TrialEnd::Done(mut part, Outcome::Completed) => {
            part.notes.push(words);
            TrialEnd::Done(part, Outcome::Completed)
        }
        TrialEnd::Done(part, outcome) => TrialEnd::Done(part, with(outcome, Some(words))),
        TrialEnd::Failed { outcome, .. } => TrialEnd::Failed {
            outcome: with(outcome, Some(words)),
            death: Some(death.clone()),
        },
        end => end,
    }
}

/// An outcome with additional text in its reason.
fn with(outcome: Outcome, words: Option<String>) -> Outcome {
    match (outcome, words) {
        (Outcome::Interrupted(why), Some(words)) => Outcome::Interrupted(format!("{why}; {words}")),
        (Outcome::Failed(why), Some(words)) => Outcome::Failed(format!("{why}; {words}")),
        (outcome, _) => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Hello;

    /// A program that reads its input to the end and sends nothing. It exits when the session is dropped.
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

    /// A session whose child sent hello and was told to stop, and an instant immediately afterwards.
    fn stopped(node: &LocalNode, command: Command) -> (ChildSession<'_>, Instant) {
        let mut session = ChildSession::open(node).unwrap();
        let hello = Message::Hello(Hello::new(Vec::new()));
        assert!(
            session
                .handle(Report::Message(hello), Instant::now())
                .is_some()
        );
        assert_eq!(session.deadline, None);
        session.send(command);
        (session, Instant::now())
    }

    #[test]
    fn each_report_of_removed_files_delays_the_kill_after_a_stop() {
        let node = silent();
        let (mut session, mut now) = stopped(&node, Command::Abort);
        for _ in 0..9 {
            now += AFTER_TEAR_DOWN - Duration::from_secs(1);
            assert!(session.handle(progress(Step::TearDown), now).is_some());
            assert!(!session.overdue(now) && !session.killed);
        }
        now += AFTER_TEAR_DOWN;
        assert!(!session.overdue(now) && session.killed);
        // A killed child gets no more time.
        session.handle(progress(Step::TearDown), now);
        assert!(session.overdue(now + AFTER_END));
    }

    #[test]
    fn other_progress_and_a_second_request_do_not_delay_the_kill_after_a_stop() {
        let node = silent();
        for command in [Command::Finish, Command::Abort] {
            let (mut session, now) = stopped(&node, command);
            assert!(session.handle(progress(Step::LayOut), now).is_some());
            assert!(!session.overdue(now + AFTER_STOP / 2) && !session.killed);
            session.send(Command::Abort);
            assert!(!session.overdue(now + AFTER_STOP) && session.killed);
        }
    }

    #[test]
    fn a_last_message_does_not_delay_the_kill_after_a_stop() {
        let node = silent();
        let (mut session, now) = stopped(&node, Command::Finish);
        let late = now + AFTER_STOP - Duration::from_secs(1);
        let end = Report::Message(Message::Ended(TrialEnd::withdrawn()));
        assert!(session.handle(end, late).is_none());
        assert!(!session.overdue(now + AFTER_STOP - MIN_AFTER_END) && !session.killed);
        assert!(!session.overdue(now + AFTER_STOP) && session.killed);
    }

    #[test]
    fn a_child_that_still_removes_files_after_its_last_message_is_left_alone() {
        let node = silent();
        let (mut session, now) = stopped(&node, Command::Finish);
        assert!(session.handle(progress(Step::TearDown), now).is_some());
        let end = Report::Message(Message::Ended(TrialEnd::withdrawn()));
        assert!(session.handle(end, now).is_none());
        assert!(!session.overdue(now + AFTER_END - MIN_AFTER_END));
        assert!(session.overdue(now + AFTER_STOP) && !session.killed);
    }

    #[test]
    fn a_node_that_iodyno_killed_is_told_from_one_that_others_killed() {
        let node = LocalNode {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), "exec sleep 1000".into()],
        };
        let (mut session, now) = stopped(&node, Command::Abort);
        let others = session.outcome_of(&Death::Signal(SIGKILL));
        assert!(others.reason().unwrap().contains("out of memory"));
        assert!(!session.overdue(now + AFTER_STOP) && session.killed);
        // Ends a test that hangs.
        let begun = Instant::now();
        let outcome = loop {
            match session.poll().unwrap() {
                Some(Message::Ended(TrialEnd::Failed { outcome, .. })) => break outcome,
                _ => std::thread::yield_now(),
            }
            assert!(begun.elapsed() < Duration::from_secs(120));
        };
        let reason = outcome.reason().unwrap();
        assert!(reason.contains("iodyno killed the node"), "{reason}");
        assert!(!reason.contains("out of memory"), "{reason}");
    }

    #[test]
    fn a_process_that_cannot_be_killed_is_reported_with_the_result() {
        let end = TrialEnd::Failed {
            outcome: Outcome::Failed("the storage is stuck".to_owned()),
            death: None,
        };
        let held = held_by(end, &Death::Stuck { pid: 7 }, Some("a folder".to_owned()));
        let TrialEnd::Failed { outcome, death } = held else {
            panic!("{held:?}");
        };
        assert_eq!(death, Some(Death::Stuck { pid: 7 }));
        let reason = outcome.reason().unwrap();
        assert!(
            reason.starts_with("the storage is stuck; process 7 is blocked")
                && reason.ends_with("; a folder"),
            "{reason}"
        );
    }
}
