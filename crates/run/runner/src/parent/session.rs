//! Nodes and their sessions: one loop drives a trial on one or several nodes.
//!
//! A session is one trial on one node. It takes [`Command`]s and returns [`Message`]s, and its methods never wait, so
//! that [`drive`] serves all sessions of a trial on one thread. Only the [`Node`] accesses a node's files, devices or
//! processes; the loop knows only commands and messages.

use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use iodyno_model::{BoundPlan, ClockOffset, ClockRate, Diagnostic, Outcome, Settling, StopRequest};
use iodyno_storage::layers::{
    Cleaned, Guest, ProvisionRequest, Provisioned, StorageChange, TornDown,
};
use iodyno_storage::settle::Unsettled;

use crate::clock;
use crate::parent::death::Death;
use crate::protocol::{Command, Event, Examination, Examined, Message, TrialEnd};
use crate::stop::StopFlag;

/// Interval at which sessions and the stop flag are checked while nothing happens.
pub const POLL: Duration = Duration::from_millis(100);
/// From arming the nodes to the start of the trial, for each node: covers the delivery of two commands.
const LEAD_NS: u64 = 500_000;
/// The same in slowest round trips. Arming, its answer, and the start command take one and a half.
const LEAD_ROUND_TRIPS: u64 = 10;
/// Number of pings to each node before the start, and after the end: the fastest one determines the clock's offset.
const PINGS: u32 = 16;
/// The same before the preparation, where only a measurement of the clock's rate begins.
const FIRST_PINGS: u32 = 4;
/// A trial is refused if the rate of a node's clock is off by more than this share: its figures would be wrong by as
/// much. A clock that is being synchronised is off by at most 0.05 % with the kernel's means.
const WRONG_RATE: f64 = 0.03;
/// The longest lead because of slow round trips, ns.
const MAX_LEAD_NS: u64 = 5_000_000_000;

/// Why no node is usable.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// The program cannot be started.
    #[error("cannot start the node `{}`: {source}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It runs but is not a node.
    #[error("`{}` does not answer as an iodyno node: {why}", program.display())]
    NotANode {
        /// The program.
        program: PathBuf,
        /// What the program did.
        why: String,
    },
    /// The connection failed, or the peer does not answer as a node.
    #[error("cannot connect to a node at {to}: {why}")]
    NotConnected {
        /// Its address.
        to: String,
        /// The message of the connection or of the peer.
        why: String,
    },
    /// It is another version of iodyno.
    #[error(
        "the node is iodyno {iodyno} and speaks protocol {theirs}, but this iodyno speaks protocol {ours}: \
         install the same version on both"
    )]
    Version {
        /// The protocol of this program.
        ours: u32,
        /// The node's protocol.
        theirs: u32,
        /// The node's version.
        iodyno: String,
    },
    /// A command cannot be sent.
    #[error("cannot send a command to the node: {0}")]
    Command(io::Error),
}

/// The pending result of work on a node. Several nodes can work at the same time.
pub type Later<'a, T> = Box<dyn FnOnce() -> T + 'a>;

/// A host that can run trials. Several threads can have work done on it at the same time.
pub trait Node: StorageNode {
    /// Begins a session for this trial. The session sends `Hello` first and prepares nothing before
    /// [`Command::Prepare`]. The calling thread uses it; the session wakes that thread ([`thread::Thread::unpark`])
    /// when it has a message.
    ///
    /// # Errors
    /// The node cannot be started.
    fn open(&self, plan: &BoundPlan) -> Result<Box<dyn Session + '_>, RunnerError>;

    /// Whether its clock is another one than this host's.
    fn has_own_clock(&self) -> bool {
        false
    }

    /// Starts to settle the host before a trial with I/O on (some of) these paths. The result is the list of failures,
    /// available soon after `stop` is set.
    fn settle<'a>(
        &'a self,
        settling: &Settling,
        targets: &[PathBuf],
        stop: &'a StopFlag,
    ) -> Later<'a, Vec<Unsettled>>;

    /// Starts to examine files and devices, and changes nothing. Everything is unknown if the storage does not respond.
    /// The result is available soon after `stop` is set.
    fn examine<'a>(&'a self, wanted: Examination, stop: &'a StopFlag) -> Later<'a, Examined>;
}

/// A host on which storage can be made. By default, none can.
pub trait StorageNode: Sync {
    /// What prevents making this storage: missing tools, permissions and space, and devices in use. Reports everything
    /// at once, and changes nothing.
    fn check_provision(&self, requests: &[ProvisionRequest], _stop: &StopFlag) -> Vec<Diagnostic> {
        match requests.is_empty() {
            true => Vec::new(),
            false => makes_nothing(),
        }
    }

    /// Makes storage; `progress` gets each step. Returns soon after `stop` is set.
    ///
    /// # Errors
    /// Why it could not be made. Everything made so far was undone, unless the errors say otherwise.
    fn provision(
        &self,
        _request: &ProvisionRequest,
        _stop: &StopFlag,
        _progress: &mut dyn FnMut(&str),
    ) -> Result<Provisioned, Vec<Diagnostic>> {
        Err(makes_nothing())
    }

    /// The node within a virtual machine that [`StorageNode::provision`] has started; `None` if it cannot be reached
    /// from here.
    fn guest(&self, _guest: &Guest) -> Option<Box<dyn Node + '_>> {
        None
    }

    /// Changes the storage with this token between trials; `progress` gets each wait.
    ///
    /// # Errors
    /// Its layers do not support the change, or it failed; see [`layers::change`](iodyno_storage::layers::change).
    fn change(
        &self,
        _token: &str,
        change: StorageChange,
        _stop: &StopFlag,
        _progress: &mut dyn FnMut(&str),
    ) -> Result<(), Vec<Diagnostic>> {
        match change {
            StorageChange::Snapshot | StorageChange::RollBack => Err(makes_nothing()),
            StorageChange::EmptyCaches | StorageChange::Renew => Ok(()),
        }
    }

    /// Undoes the storage with these tokens, each in reverse order, and returns what was done for each; does nothing if
    /// it does not exist. If `stop` is set, it continues in the background after a short time, which is a fault with
    /// the severity of a warning. `progress` gets each step before it begins.
    fn tear_down(
        &self,
        tokens: &[String],
        _stop: &StopFlag,
        _progress: &mut dyn FnMut(&str),
    ) -> Vec<TornDown> {
        tokens.iter().map(|_| TornDown::default()).collect()
    }

    /// Undoes the targets whose process has died; with `dry_run`, only lists them. `progress` gets each step before it
    /// begins.
    ///
    /// # Errors
    /// The existing targets cannot be determined.
    fn clean(
        &self,
        _dry_run: bool,
        _stop: &StopFlag,
        _progress: &mut dyn FnMut(&str),
    ) -> Result<Cleaned, Vec<Diagnostic>> {
        Ok(Cleaned::default())
    }
}

fn makes_nothing() -> Vec<Diagnostic> {
    let fault = Diagnostic::error("this node cannot make storage");
    vec![fault.hint("use existing folders or devices")]
}

/// One trial on one node.
pub trait Session {
    /// Sends a command. A command that cannot be delivered is dropped: the session's end follows.
    fn send(&mut self, command: Command);

    /// The next message, if any. Call this at least every [`POLL`]. The last message is [`Message::Ended`].
    ///
    /// # Errors
    /// The node is not usable. No message follows.
    fn poll(&mut self) -> Result<Option<Message>, RunnerError>;

    /// Whether the trial has failed on this node before its last message: the node is lost or dead, and clean-up is in
    /// progress.
    fn has_failed(&self) -> bool {
        false
    }
}

/// Runs one trial on one node, and passes its events on.
///
/// Returns when the trial has ended and the node's process is gone.
///
/// # Errors
/// The node is not usable; the trial did not begin.
pub fn carry_out(
    plan: &BoundPlan,
    node: &dyn Node,
    stop: &StopFlag,
    events: &mut dyn FnMut(Event),
) -> Result<TrialEnd, RunnerError> {
    let mut ends = drive(&[(node, plan)], stop, &mut |_, event| events(event));
    ends.remove(0)
}

/// Runs a trial on several nodes, which start at the same instant, and passes on the events of each node with its
/// index.
///
/// The plan of each node is checked against the node's capabilities before anything is prepared. The start has four
/// steps, each of which waits until all nodes have done the previous one. All nodes become ready; the offset of each
/// clock is read; each node is armed with the start instant in its own clock, and acknowledges; all get the command to
/// start. If a node ends before that, the others are aborted. If one is lost or dies after the start, the others
/// finish. Background trials end when all others have.
///
/// With several nodes, or one with its own clock, the offset of each clock is also read before the preparation and
/// after the trial. If the rate of a clock is wrong, the trial does not start, or has failed. Returns each node's end
/// when all have ended.
pub fn drive(
    nodes: &[(&dyn Node, &BoundPlan)],
    stop: &StopFlag,
    events: &mut dyn FnMut(usize, Event),
) -> Vec<Result<TrialEnd, RunnerError>> {
    let several = nodes.len() > 1;
    let mut members: Vec<Member<'_>> = nodes
        .iter()
        .map(|(node, plan)| Member::open(*node, plan, several))
        .collect();
    loop {
        // Storing an event can take long: the flag is checked again after each one.
        let mut idle = true;
        for (index, member) in members.iter_mut().enumerate() {
            member.forward_stop(stop);
            if let Some(event) = member.poll() {
                idle = false;
                if let Some(event) = event {
                    let admitted = matches!(event, Event::Admitted { .. });
                    events(index, event);
                    // A stop request replaces it.
                    if admitted && !stop.is_set() {
                        member.send(Command::Proceed);
                    }
                }
            }
        }
        idle &= !synchronise(&mut members);
        finish_without_lost(&mut members);
        end_background(&mut members);
        if members.iter().all(|member| member.end.is_some()) {
            return members
                .into_iter()
                .filter_map(|member| member.end)
                .collect();
        }
        if idle {
            thread::park_timeout(POLL);
        }
    }
}

/// Takes the next step of the start when all nodes have done the previous one; aborts the trial if one of them has
/// ended. Returns whether commands were sent.
fn synchronise(members: &mut [Member<'_>]) -> bool {
    let started = |member: &Member<'_>| member.phase >= Phase::Running;
    if members.iter().any(started) {
        return false;
    }
    if members.iter().any(|member| member.end.is_some()) {
        members.iter_mut().for_each(Member::abort);
        return false;
    }
    let all = |phase: Phase| members.iter().all(|member| member.phase == phase);
    if all(Phase::Ready) {
        members
            .iter_mut()
            .for_each(|member| member.read_clock(Phase::Synchronising));
    } else if all(Phase::Synchronised) {
        let start_ns = clock::now() + lead_ns(members);
        members.iter_mut().for_each(|member| member.arm(start_ns));
    } else if all(Phase::Armed) {
        members.iter_mut().for_each(Member::go);
    } else {
        return false;
    }
    true
}

/// Ends the trial of all nodes as soon as one of them is lost, and keeps what they have measured.
fn finish_without_lost(members: &mut [Member<'_>]) {
    let failed = |member: &Member<'_>| match &member.end {
        Some(end) => matches!(end, Ok(TrialEnd::Failed { .. }) | Err(_)),
        None => (member.session.as_ref()).is_some_and(|session| session.has_failed()),
    };
    let lost = |member: &Member<'_>| failed(member) && member.stopped == StopRequest::No;
    if members.iter().any(lost) {
        for member in members.iter_mut() {
            if member.end.is_some() || failed(member) {
                continue;
            }
            if member.phase >= Phase::Running && member.stopped == StopRequest::No {
                member.without_others = true;
                member.stop(StopRequest::Finish);
            }
        }
    }
}

/// Ends the background trials when all others have ended.
fn end_background(members: &mut [Member<'_>]) {
    let others_ended = members
        .iter()
        .all(|member| member.plan.background || member.end.is_some());
    for member in members.iter_mut() {
        if others_ended && member.phase == Phase::Running && !member.told_to_exit {
            member.told_to_exit = true;
            member.send(Command::ExitAll);
        }
    }
}

/// From now to the start, ns.
fn lead_ns(members: &[Member<'_>]) -> u64 {
    let slowest_ns = members.iter().map(|member| member.slowest_ns).max();
    let trips_ns = slowest_ns.unwrap_or(0).saturating_mul(LEAD_ROUND_TRIPS);
    LEAD_NS.saturating_mul(members.len() as u64) + trips_ns.min(MAX_LEAD_NS)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// No hello yet.
    Connecting,
    /// Its clock is being read for the first time.
    Greeting,
    Preparing,
    /// Waits for the other nodes.
    Ready,
    /// Its clock is being read.
    Synchronising,
    /// Its clock offset is known.
    Synchronised,
    /// The start instant was sent.
    Arming,
    /// It knows the start instant.
    Armed,
    /// The start command was sent.
    Running,
    /// Its trial has ended, and its clock is being read again.
    Finished,
}

/// A node of the trial.
struct Member<'a> {
    plan: &'a BoundPlan,
    session: Option<Box<dyn Session + 'a>>,
    phase: Phase,
    /// It runs in virtual time.
    virtual_time: bool,
    /// Whether its clock is read again after the trial.
    stays: bool,
    /// The clock before the preparation.
    clock_before: ClockOffset,
    clock: ClockOffset,
    clock_after: Option<ClockOffset>,
    /// The last ping, and when it was sent, parent's clock ns.
    ping: (u32, u64),
    /// Pings that are still to be answered in this phase.
    pings_left: u32,
    /// The slowest round trip, ns.
    slowest_ns: u64,
    /// The stop request that was passed on.
    stopped: StopRequest,
    /// It was told that all others have ended.
    told_to_exit: bool,
    /// It was stopped because another node was lost.
    without_others: bool,
    /// Faults found by the loop that prevent the trial.
    faults: Option<TrialEnd>,
    end: Option<Result<TrialEnd, RunnerError>>,
}

impl<'a> Member<'a> {
    fn open(node: &'a dyn Node, plan: &'a BoundPlan, several: bool) -> Member<'a> {
        let (session, end) = match node.open(plan) {
            Ok(session) => (Some(session), None),
            Err(error) => (None, Some(Err(error))),
        };
        Member {
            plan,
            session,
            phase: Phase::Connecting,
            virtual_time: false,
            stays: several || node.has_own_clock(),
            clock_before: ClockOffset::UNKNOWN,
            clock: ClockOffset::UNKNOWN,
            clock_after: None,
            ping: (0, 0),
            pings_left: 0,
            slowest_ns: 0,
            stopped: StopRequest::No,
            told_to_exit: false,
            without_others: false,
            faults: None,
            end,
        }
    }

    fn send(&mut self, command: Command) {
        if let Some(session) = &mut self.session {
            session.send(command);
        }
    }

    /// Passes the user's stop request on.
    fn forward_stop(&mut self, stop: &StopFlag) {
        self.stop(stop.requested());
    }

    fn abort(&mut self) {
        self.stop(StopRequest::Abort);
    }

    fn stop(&mut self, stop: StopRequest) {
        if stop <= self.stopped || self.end.is_some() {
            return;
        }
        self.stopped = stop;
        match stop {
            StopRequest::No | StopRequest::Steady | StopRequest::ExitAll => {}
            StopRequest::Finish => self.send(Command::Finish),
            StopRequest::Abort => self.send(Command::Abort),
        }
    }

    /// Handles one message. `None`: no message has arrived; otherwise the event to pass on, if it is one.
    fn poll(&mut self) -> Option<Option<Event>> {
        if self.end.is_some() {
            return None;
        }
        let message = match self.session.as_mut()?.poll() {
            Ok(message) => message?,
            // A stop before its first message is not its fault, and not the cause.
            Err(_) if self.phase == Phase::Connecting && self.stopped == StopRequest::Abort => {
                let end = self.faults.take().unwrap_or_else(TrialEnd::withdrawn);
                self.end = Some(Ok(end));
                return Some(None);
            }
            Err(error) => {
                self.end = Some(Err(error));
                return Some(None);
            }
        };
        match message {
            Message::Hello(hello) => {
                self.virtual_time = hello.virtual_time;
                self.stays &= !hello.virtual_time;
                if hello.virtual_time {
                    self.clock.error_ns = 0;
                }
                let faults = hello.faults(self.plan);
                if !faults.is_empty() {
                    self.faults = Some(TrialEnd::Unprepared(faults));
                    self.abort();
                } else if self.stays {
                    self.read_clock(Phase::Greeting);
                } else {
                    self.prepare();
                }
            }
            Message::Clock { number, now_ns } => self.clock_read(number, now_ns),
            // Answers to commands that are not sent during a trial.
            Message::Settled { .. }
            | Message::Examined(_)
            | Message::CleanedUp(_)
            | Message::Storage { .. } => {}
            Message::Armed if self.phase == Phase::Arming => self.phase = Phase::Armed,
            Message::Armed => {}
            Message::Event(Event::Finished) => self.read_clock(Phase::Finished),
            Message::Event(event) => {
                if let Some(why) = event.fault(self.plan) {
                    self.garbled(why);
                    return Some(None);
                }
                if matches!(event, Event::Ready { .. }) {
                    self.phase = Phase::Ready;
                }
                return Some(Some(event));
            }
            Message::Ended(end) => {
                if let Some(why) = end.fault(self.plan) {
                    self.garbled(why);
                    return Some(None);
                }
                let mut end = self.faults.take().unwrap_or(end);
                if let TrialEnd::Done(part, _) = &mut end
                    && !self.virtual_time
                {
                    part.clock_offset_ns = self.clock.offset_ns;
                    part.clock_error_ns = self.clock.error_ns;
                    part.clock_at_ns = self.clock.at_ns;
                    part.clock_after = self.clock_after;
                }
                if let TrialEnd::Done(part, outcome @ Outcome::Completed) = &mut end
                    && let Some((what, _)) = part.clock_rate().and_then(wrong_rate)
                {
                    *outcome = Outcome::Failed(what);
                }
                if let (TrialEnd::Done(_, outcome), true) = (&mut end, self.without_others)
                    && matches!(outcome, Outcome::Interrupted(_))
                {
                    let why = "ended because another node was lost";
                    *outcome = Outcome::Interrupted(why.to_owned());
                }
                self.end = Some(Ok(end));
            }
        }
        Some(None)
    }

    /// Ends the session of a node that sends invalid messages. Dropping the session ends its process.
    fn garbled(&mut self, why: String) {
        self.session = None;
        let death = Death::Garbled(why);
        self.end = Some(Ok(TrialEnd::Failed {
            outcome: Outcome::Failed(format!("the node {death}")),
            death: Some(death),
        }));
    }

    fn prepare(&mut self) {
        if self.stopped < StopRequest::Finish {
            self.phase = Phase::Preparing;
            let plan = Box::new(self.plan.clone());
            self.send(Command::Prepare { plan });
        }
    }

    /// Begins to read its clock, in this phase.
    fn read_clock(&mut self, phase: Phase) {
        self.phase = phase;
        if self.virtual_time {
            self.clock_known();
        } else {
            self.pings_left = match phase {
                Phase::Greeting => FIRST_PINGS,
                _ => PINGS,
            };
            self.ping();
        }
    }

    fn ping(&mut self) {
        self.ping = (self.ping.0 + 1, clock::now());
        let number = self.ping.0;
        self.send(Command::Ping { number });
    }

    fn clock_read(&mut self, number: u32, node_ns: u64) {
        let (last, sent_ns) = self.ping;
        // Keepalive messages have the number 0.
        if number != last || self.pings_left == 0 {
            return;
        }
        let now_ns = clock::now();
        let read = ClockOffset::of_round_trip(sent_ns, node_ns, now_ns);
        self.slowest_ns = self.slowest_ns.max(now_ns.saturating_sub(sent_ns));
        let known = match self.phase {
            Phase::Greeting => &mut self.clock_before,
            Phase::Finished => self.clock_after.get_or_insert(ClockOffset::UNKNOWN),
            _ => &mut self.clock,
        };
        if read.error_ns < known.error_ns {
            *known = read;
        }
        self.pings_left -= 1;
        match self.pings_left {
            0 => self.clock_known(),
            _ => self.ping(),
        }
    }

    fn clock_known(&mut self) {
        match self.phase {
            Phase::Greeting => self.prepare(),
            Phase::Finished => self.send(Command::Leave),
            _ => {
                self.phase = Phase::Synchronised;
                let rate = self.clock_before.rate_until(&self.clock);
                if let Some((what, hint)) = rate.and_then(wrong_rate) {
                    let fault = Diagnostic::error(what).hint(hint);
                    self.faults = Some(TrialEnd::Unprepared(vec![fault]));
                    self.abort();
                }
            }
        }
    }

    /// `start_ns`: the start on the parent's clock.
    fn arm(&mut self, start_ns: u64) {
        self.phase = Phase::Arming;
        // Virtual time begins with the trial.
        let at_ns = match self.virtual_time {
            true => 0,
            false => start_ns.saturating_add_signed(self.clock.offset_ns),
        };
        let stay = self.stays;
        self.send(Command::Arm { at_ns, stay });
    }

    fn go(&mut self) {
        self.phase = Phase::Running;
        self.send(Command::Go);
    }
}

/// The fault of a node's clock rate, and a hint.
fn wrong_rate(rate: ClockRate) -> Option<(String, &'static str)> {
    rate.is_off_by(WRONG_RATE).then(|| {
        let what = format!(
            "its clock runs at {:.2} times the rate of this host's (± {:.2}), so that its times and rates would be wrong",
            rate.rate, rate.error
        );
        let hint = "wait until the clocks are synchronised. The kernel of a virtual machine can have measured a wrong rate when it \
                    booted: start it anew, or boot it with `clocksource=hpet`";
        (what, hint)
    })
}

#[cfg(test)]
mod tests;
