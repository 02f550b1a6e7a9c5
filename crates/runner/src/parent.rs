//! The parent's end: starts the child, forwards what it says, passes the user's wishes on, and finds out
//! how it died if it did.
//!
//! No wish waits for the child's goodwill: one that was told to abort and neither reports nor ends
//! in time is killed, and one that cannot even be killed is left behind and said so.

use std::ffi::OsString;
use std::io::{self, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use iodyno_model::{
    BoundPlan, Diagnostic, Environment, Frame, Outcome, Part, Step, TelemetryBatch,
};

use crate::cancel::{Cancel, Wish};
use crate::clock;
use crate::death::Death;
use crate::operations::{Left, OrphanFolder};
use crate::protocol::{self, FromNode, PROTOCOL, ReadError, ToNode};

/// How often the cancel word is looked at.
pub(crate) const LOOK: Duration = Duration::from_millis(100);
/// A program that is a node says hello within this.
const HELLO: Duration = Duration::from_secs(10);
/// From `Abort` to SIGKILL. The child itself waits 3.5 s for stuck workers, and 3 s for samplers that hang, before it
/// reports.
const AFTER_ABORT: Duration = Duration::from_secs(8);
/// From the child's last word, or SIGKILL, to giving up on it.
const AFTER_END: Duration = Duration::from_secs(3);
/// From one word of how far it is with removing its files to SIGKILL: on busy storage a single large one
/// takes seconds.
const AFTER_TEAR_DOWN: Duration = Duration::from_secs(30);
/// From `Ready` to the start: covers the way of the message.
const LEAD_NS: u64 = 500_000;

/// What a trial tells while it runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Of a long step; bytes (files where it moves none, as tear-down does), or 0 of 0 where the step has no
    /// measure.
    Progress {
        /// Which.
        step: Step,
        /// Done.
        done: u64,
        /// Of so much.
        total: u64,
    },
    /// Everything is ready to start.
    Ready {
        /// What it runs on.
        environment: Box<Environment>,
        /// Facts that bear on the figures.
        notes: Vec<String>,
    },
    /// The jobs begin.
    Started {
        /// Wall clock, ms since 1970.
        unix_ms: u64,
    },
    /// About a second of it: to be stored at once.
    Frame(Frame),
    /// What the host did meanwhile, about a second of it: to be stored at once.
    Telemetry(TelemetryBatch),
}

/// How a trial came to its end.
#[derive(Debug, Clone, PartialEq)]
pub enum TrialEnd {
    /// It has a part; the outcome says whether it completed, was interrupted or its workload failed.
    Done(Box<Part>, Outcome),
    /// The guard refused a target: every reason. Nothing was touched.
    Refused(Vec<Diagnostic>),
    /// It could not be made ready: every fault. No job began.
    Unprepared(Vec<Diagnostic>),
    /// There is no part; the frames delivered until then are all there is.
    Failed {
        /// Interrupted before it began or by a kill, or failed by a crash.
        outcome: Outcome,
        /// How the child died; `None` if it ended in order.
        death: Option<Death>,
    },
}

/// How a node is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments; with them it calls [`crate::serve`].
    pub arguments: Vec<OsString>,
}

impl NodeCommand {
    /// This very program with the subcommand `node`.
    pub fn local() -> io::Result<NodeCommand> {
        // The link leads to the running program even if its file was replaced or removed meanwhile.
        let link = Path::new("/proc/self/exe");
        let program = match link.exists() {
            true => link.to_owned(),
            false => std::env::current_exe()?,
        };
        Ok(NodeCommand {
            program,
            arguments: vec!["node".into()],
        })
    }
}

/// Why a trial could not be carried out at all.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// The program cannot be started.
    #[error("cannot start the node `{}`: {source}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// It runs and is no node.
    #[error("`{}` does not answer as an iodyno node: {why}", program.display())]
    NotANode {
        /// The program.
        program: PathBuf,
        /// What it did.
        why: String,
    },
    /// It is another iodyno.
    #[error(
        "the node is iodyno {iodyno} and speaks protocol {theirs}; this one speaks {ours}: \
         install the same version on both"
    )]
    Version {
        /// Our protocol.
        ours: u32,
        /// The node's.
        theirs: u32,
        /// The node's version.
        iodyno: String,
    },
    /// The plan cannot be sent.
    #[error("cannot send the plan to the node: {0}")]
    Plan(io::Error),
}

/// Carries out one trial: starts a node, has it prepare and run, and forwards what it tells to `events`.
///
/// Returns when the trial has ended and the node is gone. `Err` only where no trial came about.
pub fn carry_out(
    plan: &BoundPlan,
    node: &NodeCommand,
    cancel: &Cancel,
    events: &mut dyn FnMut(Event),
) -> Result<TrialEnd, RunnerError> {
    let mut session = Session::begin(node, cancel)?;
    session.handshake(&node.program)?;
    let prepare = ToNode::Prepare {
        plan: Box::new(plan.clone()),
    };
    session.say(&prepare).or_else(|error| match error.kind() {
        // It died: what it died of is found below.
        io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(RunnerError::Plan(error)),
    })?;
    let end = session.follow(events);
    Ok(match OrphanFolder::of(plan) {
        Some(orphan) => remove_orphans(end, orphan, events),
        None => end,
    })
}

/// Makes an event of a message; `Err`: the trial's end, where it is the last one.
pub(crate) fn forward(message: FromNode, events: &mut dyn FnMut(Event)) -> Result<(), TrialEnd> {
    events(match message {
        FromNode::Progress { step, done, total } => Event::Progress { step, done, total },
        FromNode::Ready { environment, notes } => Event::Ready { environment, notes },
        FromNode::Started { unix_ms } => Event::Started { unix_ms },
        FromNode::Frame { frame } => Event::Frame(frame),
        FromNode::Telemetry { batch } => Event::Telemetry(batch),
        FromNode::Part { part, outcome } => return Err(TrialEnd::Done(part, outcome)),
        FromNode::Refused { diagnostics } => return Err(TrialEnd::Refused(diagnostics)),
        FromNode::Unprepared { diagnostics } => return Err(TrialEnd::Unprepared(diagnostics)),
        FromNode::Withdrawn => {
            return Err(TrialEnd::Failed {
                outcome: Outcome::Interrupted("ended before it began".to_owned()),
                death: None,
            });
        }
        FromNode::Hello { .. } => return Ok(()),
    });
    Ok(())
}

/// What a node that died could not remove any more is removed here, and told with its end.
fn remove_orphans(end: TrialEnd, orphan: OrphanFolder, events: &mut dyn FnMut(Event)) -> TrialEnd {
    let TrialEnd::Failed {
        outcome,
        death: Some(death),
    } = end
    else {
        return end;
    };
    let mut tell = |done, total| {
        let step = Step::TearDown;
        events(Event::Progress { step, done, total });
    };
    let left = match &death {
        Death::Stuck { .. } => Left::Said(orphan.held()),
        _ => orphan.clear(&mut tell),
    };
    let outcome = match (left, outcome) {
        (Left::Said(words), Outcome::Interrupted(why)) => {
            Outcome::Interrupted(format!("{why}; {words}"))
        }
        (Left::Said(words), Outcome::Failed(why)) => Outcome::Failed(format!("{why}; {words}")),
        (_, outcome) => outcome,
    };
    TrialEnd::Failed {
        outcome,
        death: Some(death),
    }
}

/// What the thread that reads the child's output reports.
enum ChildEvent {
    Message(FromNode),
    End(ReadError),
    /// It sends nothing and cannot be killed.
    Unresponsive,
}

struct Session<'a> {
    child: Child,
    stdin: Option<ChildStdin>,
    events: Receiver<ChildEvent>,
    cancel: &'a Cancel,
    told: Wish,
    /// When patience ends, and whether it was killed already.
    patience: Option<Instant>,
    killed: bool,
}

impl<'a> Session<'a> {
    fn begin(node: &NodeCommand, cancel: &'a Cancel) -> Result<Session<'a>, RunnerError> {
        let start_error = |source| RunnerError::Start {
            program: node.program.clone(),
            source,
        };
        let mut child = Command::new(&node.program)
            .arg0("iodyno")
            .args(&node.arguments)
            // glibc would learn to keep large blocks in its heap, whose zeroes it writes: the recorders'
            // mostly empty arrays would then be resident, some 2 MiB a clone.
            .env("MALLOC_MMAP_THRESHOLD_", "131072")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C at the terminal is for the parent, which passes on what is meant by it.
            .process_group(0)
            .spawn()
            .map_err(start_error)?;
        let stdin = child.stdin.take();
        let (send, events) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            thread::Builder::new()
                .name("node-reader".to_owned())
                .spawn(move || listen(stdout, &send))
                .map_err(start_error)?;
        }
        Ok(Session {
            child,
            stdin,
            events,
            cancel,
            told: Wish::GoOn,
            patience: None,
            killed: false,
        })
    }

    /// Both say hello; a program that is no node of this version is killed.
    fn handshake(&mut self, program: &Path) -> Result<(), RunnerError> {
        // Where it is gone already, its end of output says so.
        let _ = self.say(&ToNode::Hello { version: PROTOCOL });
        self.patience = Some(Instant::now() + HELLO);
        let why = match self.next() {
            ChildEvent::Message(FromNode::Hello { version, .. }) if version == PROTOCOL => {
                // Patience with one that was told to abort meanwhile goes on.
                if self.told < Wish::Abort {
                    self.patience = None;
                }
                return Ok(());
            }
            ChildEvent::Message(FromNode::Hello {
                version, iodyno, ..
            }) => {
                self.reap();
                return Err(RunnerError::Version {
                    ours: PROTOCOL,
                    theirs: version,
                    iodyno,
                });
            }
            ChildEvent::Message(_) => "its first message is not a handshake".to_owned(),
            ChildEvent::Unresponsive => "it sent no handshake".to_owned(),
            ChildEvent::End(ReadError::End) if self.killed => "it sent no handshake".to_owned(),
            ChildEvent::End(ReadError::End) => {
                "node process closed stdout before the handshake".to_owned()
            }
            ChildEvent::End(error) => error.to_string(),
        };
        let why = match self.reap() {
            Some(status) if !self.killed && !status.success() => {
                format!("{why}; {}", Death::of(status))
            }
            _ => why,
        };
        Err(RunnerError::NotANode {
            program: program.to_owned(),
            why,
        })
    }

    /// Forwards until the last word.
    fn follow(mut self, events: &mut dyn FnMut(Event)) -> TrialEnd {
        let end = loop {
            match self.next() {
                ChildEvent::Message(FromNode::Hello { .. }) => {
                    return self.on_child_exit(Some("a second handshake".to_owned()));
                }
                ChildEvent::Message(message) => {
                    let tears_down = matches!(
                        message,
                        FromNode::Progress {
                            step: Step::TearDown,
                            ..
                        }
                    );
                    if tears_down && self.patience.is_some() && !self.killed {
                        self.patience = Some(Instant::now() + AFTER_TEAR_DOWN);
                    }
                    let ready = matches!(message, FromNode::Ready { .. });
                    if let Err(end) = forward(message, events) {
                        break end;
                    }
                    if ready {
                        // A child that died meanwhile is noticed by its end of output.
                        let instant = clock::now() + LEAD_NS;
                        let _ = self.say(&ToNode::StartAt { instant });
                    }
                }
                ChildEvent::End(ReadError::End | ReadError::CutOff) => {
                    return self.on_child_exit(None);
                }
                ChildEvent::End(error) => return self.on_child_exit(Some(error.to_string())),
                ChildEvent::Unresponsive => return self.on_child_exit(None),
            }
        };
        self.reap();
        end
    }

    /// The child ended without a last word.
    fn on_child_exit(mut self, garbled: Option<String>) -> TrialEnd {
        let pid = self.child.id();
        let killed = self.killed;
        let status = self.reap();
        let death = match (garbled, status) {
            (_, None) => Death::Stuck { pid },
            (Some(why), _) => Death::Garbled(why),
            (None, Some(status)) => Death::of(status),
        };
        let outcome = match &death {
            _ if killed => Outcome::Interrupted(format!("aborted; the node {death}")),
            // A kill from outside; the rest is a crash that the workload or iodyno brought about.
            Death::Signal(2 | 9 | 15) => Outcome::Interrupted(format!("the node was {death}")),
            Death::Signal(_) => Outcome::Failed(format!("the node was {death}")),
            _ => Outcome::Failed(format!("the node {death}")),
        };
        TrialEnd::Failed {
            outcome,
            death: Some(death),
        }
    }

    fn say(&mut self, message: &ToNode) -> io::Result<()> {
        match &mut self.stdin {
            Some(stdin) => protocol::write(stdin, message),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Waits for the child's next word, minding the user's wishes and the end of patience.
    fn next(&mut self) -> ChildEvent {
        loop {
            self.forward_stop();
            match self.events.recv_timeout(LOOK) {
                Ok(event) => return event,
                Err(RecvTimeoutError::Disconnected) => return ChildEvent::End(ReadError::End),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.patience.is_some_and(|end| Instant::now() >= end) {
                if self.killed {
                    return ChildEvent::Unresponsive;
                }
                self.kill();
            }
        }
    }

    fn forward_stop(&mut self) {
        let wish = self.cancel.wish();
        if wish <= self.told {
            return;
        }
        self.told = wish;
        let message = match wish {
            Wish::GoOn => return,
            Wish::Finish => ToNode::Finish,
            Wish::Abort => {
                self.patience = Some(Instant::now() + AFTER_ABORT);
                ToNode::Abort
            }
        };
        let _ = self.say(&message);
    }

    fn kill(&mut self) {
        self.killed = true;
        self.patience = Some(Instant::now() + AFTER_END);
        let _ = self.child.kill();
    }

    /// Lets the child go and waits for it; kills it when it takes its time. `None`: it cannot die.
    fn reap(&mut self) -> Option<ExitStatus> {
        self.stdin = None;
        let mut end = Instant::now() + AFTER_END;
        let mut pause = Duration::from_micros(200);
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            if Instant::now() >= end {
                if self.killed {
                    return None;
                }
                self.kill();
                end = Instant::now() + AFTER_END;
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }
}

fn listen(stdout: ChildStdout, send: &mpsc::Sender<ChildEvent>) {
    let mut stdout = BufReader::with_capacity(1 << 16, stdout);
    loop {
        let (event, last) = match protocol::read(&mut stdout) {
            Ok(message) => (ChildEvent::Message(message), false),
            Err(error) => (ChildEvent::End(error), true),
        };
        if send.send(event).is_err() || last {
            return;
        }
    }
}
