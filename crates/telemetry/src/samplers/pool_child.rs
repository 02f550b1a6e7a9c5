//! Keeps a `zpool iostat` running, and its newest report at hand.

use std::io;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::pool_text::{Reader, Report};

/// A report is written in one go: when nothing more came for so long, it is whole.
const WHOLE: Duration = Duration::from_millis(30);
/// No line is longer, bytes; what is, is none.
const LINE: usize = 64 << 10;

/// What is read of a command within [`Pace::flood`] at most, bytes: more than any host's reports. The rest waits.
pub(super) const FLOOD: usize = 1 << 20;
/// What is read at once, bytes.
pub(super) const ROOM: usize = 8192;

/// What it says of an option that it does not know.
const UNKNOWN: &str = "invalid option";

/// What is run.
#[derive(Debug, Clone)]
pub(super) struct Command {
    pub(super) program: PathBuf,
    /// None: all.
    pub(super) pools: Vec<String>,
    /// From one report to the next.
    pub(super) every: Duration,
    pub(super) pace: Pace,
}

/// What is done by the clock. Passed in, so that tests need not race with a command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// From one start to the next, at least.
    pub(super) again: Duration,
    /// A command that has closed its output, or was killed, ends within this.
    pub(super) end: Duration,
    /// The time in which no more than [`FLOOD`] is read.
    pub(super) flood: Duration,
}

impl Pace {
    pub(super) const USUAL: Pace = Pace {
        again: Duration::from_secs(10),
        end: Duration::from_millis(500),
        flood: Duration::from_secs(1),
    };
}

/// How it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Exact numbers, without the report since the boot, at any pace: OpenZFS from 0.7 on.
    Exact,
    /// Rounded numbers, every so many whole seconds: its forebears, and zfs-fuse.
    Rounded,
}

/// What is known of the pools.
#[derive(Debug)]
pub(super) struct State {
    /// The newest report.
    pub(super) report: Report,
    /// How many there have been.
    pub(super) number: u64,
    /// Why there are none now.
    pub(super) trouble: Option<String>,
    /// When there was one, or the command was started.
    pub(super) heard: Instant,
    child: Option<Child>,
    stopped: bool,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    stop: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The command and the thread that reads it. Dropped, both end.
#[derive(Debug)]
pub(super) struct Keeper {
    shared: Arc<Shared>,
    ended: Receiver<()>,
    end: Duration,
}

impl Keeper {
    /// Starts the thread, which starts the command.
    ///
    /// # Errors
    /// There is no thread, in words.
    pub(super) fn start(command: Command) -> Result<Keeper, String> {
        let state = State {
            report: Report::default(),
            number: 0,
            trouble: None,
            heard: Instant::now(),
            child: None,
            stopped: false,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            stop: Condvar::new(),
        });
        let (send_end, ended) = mpsc::channel();
        let end = command.pace.end;
        let work = Work {
            command,
            shared: Arc::clone(&shared),
        };
        let run = move || {
            work.run();
            let _ = send_end.send(());
        };
        let thread = thread::Builder::new().name("zpool".to_owned());
        match thread.spawn(run) {
            Ok(_) => Ok(Keeper { shared, ended, end }),
            Err(error) => Err(format!("cannot start a thread: {error}")),
        }
    }

    /// What is known now.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }

    /// Ends the command. One that cannot be killed, as it waits in the kernel for a pool that does not answer, is left behind.
    pub(super) fn stop(&mut self) {
        {
            let mut state = self.shared.state();
            state.stopped = true;
            if let Some(child) = &mut state.child {
                let _ = child.kill();
            }
        }
        self.shared.stop.notify_all();
        let _ = self.ended.recv_timeout(self.end);
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop();
    }
}

/// How a command came to its end.
enum End {
    /// It was told to.
    Stopped,
    /// It does not know how it was asked.
    Unknown,
    /// By itself: why, in words.
    Itself(String),
}

/// What the thread works with.
struct Work {
    command: Command,
    shared: Arc<Shared>,
}

impl Work {
    fn run(&self) {
        let mut form = Form::Exact;
        loop {
            let next = Instant::now() + self.command.pace.again;
            match self.once(form) {
                End::Stopped => return,
                End::Unknown if form == Form::Exact => {
                    form = Form::Rounded;
                    continue;
                }
                End::Unknown => self.shared.state().trouble = Some("cannot be asked".to_owned()),
                End::Itself(why) => self.shared.state().trouble = Some(why),
            }
            if !self.pause(next) {
                return;
            }
        }
    }

    /// Waits until then. `false`: it is to stop.
    fn pause(&self, until: Instant) -> bool {
        let mut state = self.shared.state();
        while !state.stopped {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            let wait = self.shared.stop.wait_timeout(state, left);
            state = wait.unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    /// From the command's start to its end.
    fn once(&self, form: Form) -> End {
        let (stdout, stderr) = {
            let mut state = self.shared.state();
            if state.stopped {
                return End::Stopped;
            }
            let mut child = match self.spawn(form) {
                Ok(child) => child,
                Err(error) => {
                    let program = self.command.program.display();
                    return End::Itself(format!("cannot start `{program}`: {error}"));
                }
            };
            state.heard = Instant::now();
            let pipes = (child.stdout.take(), child.stderr.take());
            state.child = Some(child);
            pipes
        };
        let mut complaint = String::new();
        if let (Some(stdout), Some(stderr)) = (stdout, stderr) {
            let reader = Reader::new(form == Form::Rounded);
            complaint = self.listen(stdout, stderr, reader);
        }
        let status = self.reap();
        if self.shared.state().stopped {
            return End::Stopped;
        }
        match status {
            _ if complaint.contains(UNKNOWN) => End::Unknown,
            _ if !complaint.is_empty() => End::Itself(format!("zpool: {complaint}")),
            Some(status) if !status.success() => {
                End::Itself(format!("`zpool iostat` ended: {status}"))
            }
            Some(_) => End::Itself("`zpool iostat` ended: there is no pool any more".to_owned()),
            None => End::Itself("`zpool iostat` does not end".to_owned()),
        }
    }

    fn spawn(&self, form: Form) -> io::Result<Child> {
        let every = self.command.every;
        let (flags, seconds) = match form {
            Form::Exact => ("-vpy", format!("{}", every.as_secs_f64())),
            Form::Rounded => ("-v", every.as_secs_f64().ceil().max(1.0).to_string()),
        };
        std::process::Command::new(&self.command.program)
            .args(["iostat", flags])
            .args(&self.command.pools)
            .arg(seconds)
            // What it complains of is understood.
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    }

    /// Reads until the output ends. What it complained of since the last report.
    fn listen(&self, mut out: ChildStdout, mut err: ChildStderr, mut reader: Reader) -> String {
        let (mut said, mut complained) = (Lines::default(), Lines::default());
        let mut complaint = String::new();
        let mut complains = true;
        let mut flow = Flow::new(self.command.pace.flood);
        loop {
            if let Some(until) = flow.dammed(Instant::now())
                && !self.pause(until)
            {
                return complaint;
            }
            let (has_said, has_complained) =
                wait(&out, complains.then_some(&err), reader.may_be_whole());
            if has_complained {
                let more = complained.read(&mut err, |line| {
                    if complaint.is_empty() {
                        line.clone_into(&mut complaint);
                    }
                });
                complains = more.is_some();
                flow.add(more.unwrap_or_default());
                self.complain(&complaint);
            }
            let mut report = None;
            if has_said {
                let more = said.read(&mut out, |line| {
                    report = reader.line(line).or(report.take())
                });
                let Some(bytes) = more else {
                    return complaint;
                };
                flow.add(bytes);
            } else if !has_complained {
                report = reader.take();
            }
            if let Some(report) = report {
                complaint.clear();
                self.publish(report);
            }
        }
    }

    /// It goes on, and says why there is nothing. (How it is to be asked is tried out.)
    fn complain(&self, complaint: &str) {
        if !complaint.is_empty() && !complaint.contains(UNKNOWN) {
            self.shared.state().trouble = Some(format!("zpool: {complaint}"));
        }
    }

    fn publish(&self, report: Report) {
        let mut state = self.shared.state();
        (state.report, state.trouble) = (report, None);
        state.number += 1;
        state.heard = Instant::now();
    }

    /// Waits for the command's end; kills it when it takes its time. `None`: it cannot die.
    fn reap(&self) -> Option<ExitStatus> {
        let (begun, end) = (Instant::now(), self.command.pace.end);
        loop {
            let mut state = self.shared.state();
            let child = state.child.as_mut()?;
            if let Ok(Some(status)) = child.try_wait() {
                state.child = None;
                return Some(status);
            }
            if begun.elapsed() > end / 2 {
                let _ = child.kill();
            }
            if begun.elapsed() > end {
                return None;
            }
            drop(state);
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Waits until there is something to read of the output and of the complaints; (`false`, `false`): nothing came for a while,
/// which is only waited for if `whole`.
fn wait(out: &ChildStdout, err: Option<&ChildStderr>, whole: bool) -> (bool, bool) {
    let mut fds = vec![PollFd::new(out, PollFlags::IN)];
    fds.extend(err.map(|err| PollFd::new(err, PollFlags::IN)));
    let span = Timespec {
        tv_sec: 0,
        tv_nsec: WHOLE.subsec_nanos().into(),
    };
    loop {
        match poll(&mut fds, whole.then_some(&span)) {
            Err(rustix::io::Errno::INTR) => {}
            // The read that follows tells what is wrong.
            Err(_) => return (true, false),
            Ok(_) => {
                // The end of either is something, too.
                let ready =
                    |place: usize| fds.get(place).is_some_and(|fd| !fd.revents().is_empty());
                return (ready(0), ready(1));
            }
        }
    }
}

/// How much has come lately.
#[derive(Debug)]
struct Flow {
    span: Duration,
    since: Option<Instant>,
    bytes: usize,
}

impl Flow {
    fn new(span: Duration) -> Flow {
        Flow {
            span,
            since: None,
            bytes: 0,
        }
    }

    fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// Until when nothing is to be read, if there was too much.
    fn dammed(&mut self, now: Instant) -> Option<Instant> {
        let end = *self.since.get_or_insert(now) + self.span;
        if now >= end {
            (self.since, self.bytes) = (Some(now), 0);
        }
        (self.bytes >= FLOOD).then_some(end)
    }
}

/// Makes lines of what comes.
#[derive(Debug, Default)]
struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// Reads once and hands out each line that is whole. How many bytes there were; `None`: this is the end.
    fn read(&mut self, from: &mut impl io::Read, mut each: impl FnMut(&str)) -> Option<usize> {
        let mut room = [0; ROOM];
        let length = match from.read(&mut room) {
            Ok(0) => return None,
            Ok(length) => length,
            Err(error) => return (error.kind() == io::ErrorKind::Interrupted).then_some(0),
        };
        self.rest.extend_from_slice(&room[..length]);
        let mut begin = 0;
        while let Some(end) = self.rest[begin..].iter().position(|byte| *byte == b'\n') {
            each(&String::from_utf8_lossy(&self.rest[begin..begin + end]));
            begin += end + 1;
        }
        self.rest.drain(..begin);
        if self.rest.len() > LINE {
            self.rest.clear();
        }
        Some(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_beyond_a_flood_waits_until_its_time_is_over() {
        let span = Duration::from_secs(1);
        let mut flow = Flow::new(span);
        let begin = Instant::now();
        let at = |ms: u64| begin + Duration::from_millis(ms);
        assert_eq!(flow.dammed(at(0)), None);
        flow.add(FLOOD - 1);
        assert_eq!(flow.dammed(at(1)), None);
        flow.add(ROOM);
        assert_eq!(flow.dammed(at(2)), Some(at(1000)));
        assert_eq!(flow.dammed(at(999)), Some(at(1000)));
        // Then as much may come again, and what is seldom read never waits.
        for (ms, expected) in [(1000, None), (1500, Some(at(2000))), (9000, None)] {
            assert_eq!(flow.dammed(at(ms)), expected, "{ms}");
            flow.add(FLOOD);
        }
    }
}
