//! The process of this host that speaks the protocol for a host where fio does the I/O.

use std::ffi::OsString;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use iodyno_import::fio_jobs;
use iodyno_model::printable::{on_one_line, shell_word};
use iodyno_model::{
    Admission, BoundPlan, Diagnostic, EngineKind, Environment, Forecast, Outcome, StackLayer, Step,
    TargetInfo, TargetUse,
};
use iodyno_storage::layers::Cleaned;
use iodyno_storage::settle::Unsettled;
use iodyno_units::Nanos;

use super::job_file::{self, Place};
use super::part::{Start, part};
use super::shell::{Shell, ShellOutput};
use crate::clock;
use crate::faults::{PrepareError, fault};
use crate::node::control::{self, Control, SILENT_INTERVALS};
use crate::node::message_writer::{MessageSender, MessageWriter};
use crate::node::serve::streams;
use crate::node::worker::Signal;
use crate::parent::death::Death;
use crate::protocol::{
    Command, EngineSupport, Event, Examination, Examined, FoundPath, Hello, Message, StorageAnswer,
    StorageWork, TrialEnd,
};

/// The exit code of a shell for a signal is its number and this.
const SIGNAL: i32 = 128;
/// The interval of pings while nothing else arrives.
const PING: Duration = Duration::from_secs(1);
/// The longest time in which the shell removes its files.
const CLOSES: Duration = Duration::from_secs(30);
/// The shell is spared before the start for the last part of the wait, ns: the command is written in time.
const SPIN_NS: u64 = 2_000_000;

/// The main function of a process that speaks the node's protocol on stdin and stdout, and has fio on a host do the
/// I/O. `to`: the host, for messages. `words`: the command that starts a shell there. Returns the exit code.
pub fn serve_fio(to: &str, words: &[OsString]) -> u8 {
    let _ = rustix::thread::set_name(c"iodyno-node");
    let Ok((input, output)) = streams() else {
        return 1;
    };
    let (sender, events) = mpsc::channel();
    let (signals, commands) = mpsc::channel();
    let broken = {
        let signals = signals.clone();
        move || drop(signals.send(Signal::ParentGone))
    };
    let Ok(writer) = MessageWriter::open(output, broken) else {
        return 1;
    };
    let messages = writer.sender();
    messages.send(Message::Hello(hello()));
    let input = BufReader::with_capacity(1 << 16, input);
    let read = control::read_commands(input, Control::default(), signals, None);
    let forward = {
        let sender = sender.clone();
        move || {
            for signal in commands {
                let one = match signal {
                    Signal::Command(command) => SessionEvent::Command(command),
                    _ => SessionEvent::ParentGone,
                };
                if sender.send(one).is_err() {
                    return;
                }
            }
        }
    };
    if read.is_err() || thread::Builder::new().spawn(forward).is_err() {
        return 1;
    }
    let mut session = Session {
        to,
        words,
        shell: None,
        sender,
        events,
        messages,
        ping: None,
        round_trip_ns: u64::MAX,
        last_ns: clock::now(),
        gates: 0,
        passed: Vec::new(),
        exit: None,
    };
    let served = session.serve();
    if let Some(shell) = &mut session.shell {
        shell.close(CLOSES);
    }
    writer.close();
    u8::from(!served)
}

/// fio itself says which engines it has.
fn hello() -> Hello {
    let support = |engine| EngineSupport {
        engine,
        unusable: None,
    };
    Hello {
        sampling: Vec::new(),
        removes_orphans: false,
        ..Hello::new(EngineKind::ALL.map(support).to_vec())
    }
}

/// Input from the parent or the shell.
enum SessionEvent {
    Command(Command),
    ParentGone,
    Shell(ShellOutput),
}

/// Why a wait ended.
enum Next {
    Command(Command),
    ParentGone,
    Line(String),
    Results(String),
    /// fio has ended, with this code.
    Exit(i32),
    /// The shell or the connection has ended or does not answer; with the cause.
    Lost(String),
    /// A clone waits at the start.
    Gate,
    /// It is time.
    Time,
}

struct Session<'a> {
    to: &'a str,
    words: &'a [OsString],
    shell: Option<Shell>,
    sender: Sender<SessionEvent>,
    events: Receiver<SessionEvent>,
    messages: MessageSender,
    /// The ping that was passed on last, and when, ns.
    ping: Option<(u32, u64)>,
    /// The shortest round trip to the shell, ns.
    round_trip_ns: u64,
    /// When the shell was heard last, ns.
    last_ns: u64,
    /// Clones that wait at the start.
    gates: usize,
    /// As [`Start::passed`].
    passed: Vec<(u32, u64)>,
    /// fio's exit code.
    exit: Option<i32>,
}

impl Session<'_> {
    /// Runs one task. `false`: the parent has ended before.
    fn serve(&mut self) -> bool {
        loop {
            let answer = match self.next(None) {
                Next::Command(Command::Prepare { plan }) => {
                    let end = match self.trial(&plan) {
                        Ok(end) => end,
                        Err(unready) => unready.into(),
                    };
                    Message::Ended(end)
                }
                Next::Command(Command::Settle { settling, .. }) => Message::Settled {
                    unsettled: match settling.drop_caches || settling.idle_ns > 0 {
                        true => vec![Unsettled::CachesKept {
                            why: "fio does the I/O there".to_owned(),
                        }],
                        false => Vec::new(),
                    },
                },
                Next::Command(Command::Examine(wanted)) => {
                    let found = wanted.find.iter().map(|path| self.found(path)).collect();
                    let plans = wanted.forecast.iter();
                    let forecasts = plans.map(|plan| self.forecast(plan)).collect();
                    Message::Examined(Examined {
                        found,
                        forecasts,
                        ..examined(&wanted)
                    })
                }
                Next::Command(Command::CleanUp { .. }) => Message::CleanedUp(Ok(false)),
                Next::Command(Command::Storage { work }) => Message::Storage {
                    answer: makes_nothing(&work),
                },
                Next::Command(Command::Finish | Command::Abort) => {
                    Message::Ended(TrialEnd::withdrawn())
                }
                Next::ParentGone => return false,
                _ => continue,
            };
            self.messages.send(answer);
            return true;
        }
    }

    /// The next event that is not part of the conversation itself. `until_ns`: when to stop waiting.
    fn next(&mut self, until_ns: Option<u64>) -> Next {
        loop {
            let now = clock::now();
            if until_ns.is_some_and(|until| now >= until) {
                return Next::Time;
            }
            let left = until_ns.map_or(PING, |until| Duration::from_nanos(until - now));
            match self.events.recv_timeout(left.min(PING)) {
                Ok(SessionEvent::Command(Command::Ping { number })) => self.pass_on(number),
                Ok(SessionEvent::Command(command)) => return Next::Command(command),
                Ok(SessionEvent::ParentGone) | Err(RecvTimeoutError::Disconnected) => {
                    return Next::ParentGone;
                }
                Ok(SessionEvent::Shell(ShellOutput::Results(text))) => {
                    self.last_ns = clock::now();
                    return Next::Results(text);
                }
                Ok(SessionEvent::Shell(ShellOutput::End)) => return Next::Lost(self.ended()),
                Ok(SessionEvent::Shell(ShellOutput::Line(at_ns, line))) => {
                    self.last_ns = at_ns;
                    if let Some(next) = self.line(at_ns, line) {
                        return next;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    let silent_ns = clock::now().saturating_sub(self.last_ns);
                    let limit_ns = PING.as_nanos() as u64 * SILENT_INTERVALS;
                    if self.shell.is_some() && silent_ns >= limit_ns {
                        let silent = Nanos(silent_ns);
                        return Next::Lost(format!("{} did not answer for {silent}", self.to));
                    }
                    self.pass_on(0);
                }
            }
        }
    }

    fn ended(&self) -> String {
        let errors = self.shell.as_ref().map_or_else(String::new, Shell::errors);
        match errors.is_empty() {
            true => format!("the shell on {} has ended", self.to),
            false => format!("the shell on {} has ended: {errors}", self.to),
        }
    }

    /// Sends a ping to the shell. Before there is one, this process answers.
    fn pass_on(&mut self, number: u32) {
        let now = clock::now();
        match &mut self.shell {
            // One at a time, so that an answer belongs to the last one.
            Some(shell) if number > 0 || self.ping.is_none() => {
                self.ping = Some((number, now));
                shell.send(&format!("ping {number}"));
            }
            None if number > 0 => self.messages.send(Message::Clock {
                number,
                now_ns: now,
            }),
            _ => {}
        }
    }

    fn line(&mut self, at_ns: u64, line: String) -> Option<Next> {
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let number = rest.parse::<u32>();
        match (word, number) {
            ("pong", Ok(number)) => {
                if let Some((_, sent_ns)) = self.ping.take_if(|ping| ping.0 == number) {
                    let trip_ns = at_ns.saturating_sub(sent_ns);
                    self.round_trip_ns = self.round_trip_ns.min(trip_ns);
                    // The node uses this host's clock: the error is that of the round trip.
                    let now_ns = sent_ns + trip_ns / 2;
                    if number > 0 {
                        self.messages.send(Message::Clock { number, now_ns });
                    }
                }
                None
            }
            ("gate", Ok(_)) => {
                self.gates += 1;
                Some(Next::Gate)
            }
            ("passed", Ok(job)) => {
                let way_ns = self.way_ns();
                self.passed.push((job, at_ns.saturating_sub(way_ns)));
                None
            }
            ("exit", Ok(code)) => {
                let code = i32::try_from(code).unwrap_or(-1);
                self.exit = Some(code);
                Some(Next::Exit(code))
            }
            _ => Some(Next::Line(line)),
        }
    }

    /// The one-way time to the shell: half of the shortest round trip, ns.
    fn way_ns(&self) -> u64 {
        match self.round_trip_ns {
            u64::MAX => 0,
            trip => trip / 2,
        }
    }

    fn send(&mut self, lines: &str) {
        if let Some(shell) = &mut self.shell {
            shell.send(lines);
        }
    }

    /// Sends a command, and waits for the line that begins with this word. Returns the rest of that line.
    fn ask(&mut self, command: &str, word: &str) -> Result<String, PrepareError> {
        self.send(command);
        loop {
            if let Next::Line(line) = self.before_start()? {
                if let Some(rest) = line.strip_prefix(word) {
                    return Ok(rest.trim().to_owned());
                }
                if let Some(why) = line.strip_prefix("not ") {
                    return Err(unprepared(why.to_owned(), "see `--on` and its permissions"));
                }
            }
        }
    }

    /// The next event before the start of the trial, unless that ends it.
    fn before_start(&mut self) -> Result<Next, PrepareError> {
        match self.next(None) {
            Next::Command(Command::Finish | Command::Abort) | Next::ParentGone => {
                Err(PrepareError::Withdrawn)
            }
            Next::Lost(why) => Err(self.lost(why)),
            other => Ok(other),
        }
    }

    fn lost(&self, why: String) -> PrepareError {
        unprepared(
            why,
            "it needs a POSIX shell, `mktemp` and a folder for temporary files",
        )
    }

    /// fio's messages, on one line.
    fn messages_of_fio(&mut self) -> String {
        self.send("said");
        let mut lines = Vec::new();
        loop {
            match self.next(None) {
                Next::Line(line) if line == "said." => break,
                Next::Line(line) => {
                    lines.extend(
                        line.strip_prefix("said ")
                            .map(|one| on_one_line(one).to_string()),
                    );
                }
                Next::Lost(_) | Next::ParentGone => break,
                _ => {}
            }
        }
        // Standard error and its output can have the same.
        let mut seen = std::collections::BTreeSet::new();
        lines.retain(|line| seen.insert(line.clone()));
        lines.join("; ")
    }

    /// Starts the shell, unless it runs.
    fn open(&mut self) -> Result<(), PrepareError> {
        if self.shell.is_none() {
            let sender = self.sender.clone();
            let shell = Shell::start(self.words, sender, SessionEvent::Shell).map_err(|error| {
                self.lost(format!("cannot start a shell on {}: {error}", self.to))
            })?;
            self.last_ns = clock::now();
            self.shell = Some(shell);
        }
        Ok(())
    }

    /// What a trial would do with its target, and what fio cannot do.
    fn forecast(&mut self, plan: &BoundPlan) -> Forecast {
        let target = job_file::target(plan).ok().map(|path| {
            let kind = self.open().and_then(|()| self.look(path));
            let admission = match kind {
                Ok(kind) => admission(plan, path, &kind),
                Err(PrepareError::Unprepared(faults) | PrepareError::Refused(faults)) => {
                    let why = faults.into_iter().next();
                    Admission::Refused(why.unwrap_or_else(|| not_looked_up(path)))
                }
                Err(PrepareError::Withdrawn) => Admission::Refused(not_looked_up(path)),
            };
            (PathBuf::from(path), admission)
        });
        Forecast {
            targets: target.into_iter().collect(),
            faults: job_file::faults(plan),
            traces: Vec::new(),
        }
    }

    /// The kind of a path.
    fn look(&mut self, path: &str) -> Result<String, PrepareError> {
        self.ask(&format!("look {path}"), "kind")
    }

    fn found(&mut self, path: &Path) -> Result<FoundPath, String> {
        let text = path
            .to_str()
            .filter(|text| !text.contains(char::is_control));
        let text = text.ok_or("it contains control characters")?;
        let kind = self.open().and_then(|()| self.look(text));
        match kind {
            Ok(kind) if kind == "none" => Err("it does not exist on the node".to_owned()),
            Ok(kind) => Ok(FoundPath {
                path: path.to_owned(),
                folder: kind == "folder",
                room: None,
            }),
            Err(PrepareError::Unprepared(faults) | PrepareError::Refused(faults)) => {
                let messages = faults.into_iter().map(|fault| fault.message);
                Err(messages.collect::<Vec<_>>().join("; "))
            }
            Err(PrepareError::Withdrawn) => Err("it was not looked up".to_owned()),
        }
    }

    fn trial(&mut self, plan: &BoundPlan) -> Result<TrialEnd, PrepareError> {
        let faults = job_file::faults(plan);
        if !faults.is_empty() {
            return Err(PrepareError::Unprepared(faults));
        }
        self.open()?;
        let fio = self.ask("version", "version")?;
        let host = self.ask("host", "host")?;
        let place = self.place(plan)?;
        self.messages.event(Event::Progress {
            step: Step::LayOut,
            done: 0,
            total: 0,
        });
        self.send("jobs");
        let jobs = job_file::text(plan, &place);
        self.send(&format!("{jobs}."));
        // fio's own check that it writes to nothing.
        self.send(
            match matches!(place, Place::Only(_)) && !job_file::writes(plan) {
                true => "start --readonly",
                false => "start",
            },
        );
        while self.gates < job_file::first_wave(plan) {
            if let Next::Exit(code) = self.before_start()? {
                return Err(self.refused_by_fio(code));
            }
        }
        let environment = environment(plan, &host, &fio);
        self.messages.event(Event::Ready {
            environment: Box::new(environment.clone()),
            notes: Vec::new(),
        });
        let (instant_ns, stay) = self.await_go()?;
        self.run(plan, (instant_ns, stay), &fio, environment)
    }

    /// Why fio ended before the start.
    fn refused_by_fio(&mut self, code: i32) -> PrepareError {
        if code > SIGNAL {
            return unprepared(self.killed(code), "see the log of that host");
        }
        let messages_of_fio = self.messages_of_fio();
        let message = match messages_of_fio.is_empty() {
            true => format!("fio on {} ended with code {code}", self.to),
            false => format!("fio on {} refuses the jobs: {messages_of_fio}", self.to),
        };
        unprepared(message, "change the jobs, or use a node with iodyno")
    }

    fn killed(&self, code: i32) -> String {
        format!("fio on {} was {}", self.to, Death::Signal(code - SIGNAL))
    }

    /// The location of the jobs' files. Makes the trial's folder if the target is a folder.
    fn place(&mut self, plan: &BoundPlan) -> Result<Place, PrepareError> {
        let path = job_file::target(plan).map_err(|fault| PrepareError::Unprepared(vec![fault]))?;
        let kind = self.look(path)?;
        match admission(plan, path, &kind) {
            Admission::NeedsDestroy(why) => Err(PrepareError::Refused(vec![why])),
            Admission::Refused(why) => Err(PrepareError::Unprepared(vec![why])),
            Admission::Granted(_) if kind == "folder" => {
                let folder = self.ask(&format!("place {path}"), "placed")?;
                Ok(Place::Folder(folder))
            }
            Admission::Granted(_) => Ok(Place::Only(path.to_owned())),
        }
    }

    /// Waits for the start: the instant, and whether the clock is read again after the trial.
    fn await_go(&mut self) -> Result<(u64, bool), PrepareError> {
        let mut armed = (0, false);
        loop {
            match self.before_start()? {
                Next::Command(Command::Arm { at_ns, stay }) => {
                    armed = (at_ns, stay);
                    self.messages.send(Message::Armed);
                }
                Next::Command(Command::Go) => return Ok(armed),
                Next::Exit(code) => return Err(self.refused_by_fio(code)),
                _ => {}
            }
        }
    }

    /// Has fio start its jobs at this instant. Returns the wall clock, ms since 1970.
    fn start_at(&mut self, instant_ns: u64) -> u64 {
        let send_ns = instant_ns.saturating_sub(self.way_ns());
        let wait_ns = send_ns.saturating_sub(clock::now());
        thread::sleep(Duration::from_nanos(wait_ns.saturating_sub(SPIN_NS)));
        while clock::now() < send_ns {
            std::hint::spin_loop();
        }
        self.send("go");
        let since_ns = clock::now().saturating_sub(instant_ns);
        let unix_ms = clock::unix_ms_before(since_ns);
        self.messages.event(Event::Started { unix_ms });
        unix_ms
    }

    fn run(
        &mut self,
        plan: &BoundPlan,
        (instant_ns, stay): (u64, bool),
        fio: &str,
        environment: Environment,
    ) -> Result<TrialEnd, PrepareError> {
        let unix_ms = self.start_at(instant_ns);
        let mut stopped = None;
        let code = loop {
            match self.next(None) {
                Next::Exit(code) => break code,
                Next::Command(Command::Finish | Command::ExitAll) => {
                    stopped = stopped.or(Some("ended early by the user"));
                    self.send("interrupt");
                }
                Next::Command(Command::Abort) => {
                    return Ok(ended(
                        Outcome::Interrupted("aborted by the user".to_owned()),
                        None,
                    ));
                }
                Next::ParentGone => return Err(PrepareError::Withdrawn),
                Next::Lost(why) => return Ok(lost(why)),
                _ => {}
            }
        };
        self.send("results");
        let results = loop {
            match self.next(None) {
                Next::Results(results) => break results,
                Next::Lost(why) => return Ok(lost(why)),
                Next::ParentGone => return Err(PrepareError::Withdrawn),
                _ => {}
            }
        };
        let start = Start {
            instant_ns,
            passed: std::mem::take(&mut self.passed),
            unix_ms,
        };
        let interrupted = stopped.is_some();
        let parsed = fio_jobs(&results)
            .and_then(|jobs| part(plan, jobs, &start, fio, environment, interrupted));
        let outcome = match (code, stopped) {
            (129.., _) => Outcome::Failed(self.killed(code)),
            (_, Some(why)) => Outcome::Interrupted(why.to_owned()),
            (0, None) => Outcome::Completed,
            _ => {
                let messages_of_fio = self.messages_of_fio();
                Outcome::Failed(format!(
                    "fio on {} ended with code {code}: {messages_of_fio}",
                    self.to
                ))
            }
        };
        let mut part = match parsed {
            Ok(part) => part,
            Err(why) => {
                let outcome = match outcome {
                    Outcome::Completed => Outcome::Failed(why),
                    other => other,
                };
                return Ok(ended(outcome, None));
            }
        };
        if start.passed.is_empty() {
            part.notes
                .push("it is not known when fio's jobs started".to_owned());
        }
        if stay && stopped.is_none() {
            self.messages.event(Event::Finished);
            loop {
                let until = clock::now() + control::LEAVE.as_nanos() as u64;
                match self.next(Some(until)) {
                    Next::Line(_) | Next::Results(_) => {}
                    _ => break,
                }
            }
        }
        Ok(TrialEnd::Done(Box::new(part), outcome))
    }
}

fn unprepared(message: String, hint: &str) -> PrepareError {
    PrepareError::Unprepared(vec![fault(message, hint)])
}

fn ended(outcome: Outcome, death: Option<Death>) -> TrialEnd {
    TrialEnd::Failed { outcome, death }
}

fn lost(why: String) -> TrialEnd {
    let death = Death::Lost(why);
    let outcome = Outcome::Failed(format!("the node {death}"));
    ended(outcome, Some(death))
}

fn environment(plan: &BoundPlan, host: &str, fio: &str) -> Environment {
    let mut words = host.split(' ').map(str::to_owned);
    Environment {
        host: words.next().unwrap_or_default(),
        kernel: words.next().unwrap_or_default(),
        system: words.collect::<Vec<_>>().join(" "),
        targets: vec![TargetInfo {
            path: plan.configuration.target.path().to_owned(),
            stack: vec![StackLayer::Other(format!("unknown to {fio}"))],
        }],
        ..Environment::default()
    }
}

/// What a trial may do with its target of this kind. `--destroy` permits unexamined targets.
fn admission(plan: &BoundPlan, path: &str, kind: &str) -> Admission {
    let permitted = plan.destroy.iter().any(|one| one == Path::new(path));
    let writes = job_file::writes(plan);
    let refused = |what: &str| {
        let hint = format!(
            "`--destroy {}` permits that its content is overwritten",
            shell_word(path)
        );
        Admission::NeedsDestroy(fault(format!("{path}: {what}"), hint))
    };
    match kind {
        "folder" => Admission::Granted(TargetUse::CreateIn),
        "file" if !permitted => refused("fio may extend or overwrite an existing file"),
        "device" if writes && !permitted => {
            refused("it is not known there what the device contains, or who uses it")
        }
        "file" | "device" => Admission::Granted(match writes {
            true => TargetUse::Overwrite,
            false => TargetUse::Read,
        }),
        "none" => Admission::Refused(fault(
            format!("`{path}` does not exist on the node"),
            "create it there, or name another path with `--on`",
        )),
        _ => Admission::Refused(fault(
            format!("`{path}` is neither a folder nor a file nor a device"),
            "name another path with `--on`",
        )),
    }
}

fn not_looked_up(path: &str) -> Diagnostic {
    fault(format!("`{path}` was not looked up"), "repeat it")
}

/// The devices below the targets are unknown.
fn examined(wanted: &Examination) -> Examined {
    let unknown = |path: &PathBuf| TargetInfo {
        path: path.clone(),
        stack: Vec::new(),
    };
    Examined {
        stacks: wanted.describe.iter().map(unknown).collect(),
        ..Examined::default()
    }
}

fn makes_nothing(work: &StorageWork) -> StorageAnswer {
    let faults = || {
        let message = "a node with fio cannot make storage";
        let hint = "use existing folders or devices, or a node with iodyno";
        vec![Diagnostic::error(message).hint(hint)]
    };
    match work {
        StorageWork::Check(_) => StorageAnswer::Checked(faults()),
        StorageWork::Provision(..) => StorageAnswer::Provisioned(Err(faults())),
        StorageWork::TearDown(tokens) => {
            StorageAnswer::TornDown(tokens.iter().map(|_| Default::default()).collect())
        }
        StorageWork::Clean { .. } => StorageAnswer::Cleaned(Ok(Cleaned::default())),
        StorageWork::Change(..) => StorageAnswer::Changed(Err(faults())),
    }
}
