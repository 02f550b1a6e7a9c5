//! Keeps a `zpool iostat` process running, and holds its reports until they are used.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::pool_devices::PoolDevices;
use super::pool_text::{PoolReport, Reader};

/// A report is written in one go: it is complete when no output has followed for this time.
const COMPLETE_AFTER: Duration = Duration::from_millis(30);
/// Longest line, bytes; longer ones are discarded.
const MAX_LINE: usize = 64 << 10;

/// Maximum number of bytes read from a command within [`Pace::window`]: more than the reports of any host. The rest
/// stays in the pipe.
pub(super) const MAX_BYTES: usize = 1 << 20;
/// Size of a read, bytes.
pub(super) const READ_SIZE: usize = 8192;

/// Maximum number of reports that wait to be used: sampling has stopped for minutes if there are more.
pub(super) const MAX_REPORTS: usize = 600;

/// zpool's message for an unknown option.
const UNKNOWN: &str = "invalid option";

/// The command to run.
#[derive(Debug, Clone)]
pub(super) struct Command {
    pub(super) program: PathBuf,
    /// Empty: all pools.
    pub(super) pools: Vec<String>,
    /// Time between reports.
    pub(super) every: Duration,
    pub(super) pace: Pace,
}

/// Durations. Passed in, so that tests do not race with a command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Shortest time between two starts.
    pub(super) restart: Duration,
    /// How long to wait for a command that closed its output or was killed.
    pub(super) end: Duration,
    /// The time in which at most [`MAX_BYTES`] are read.
    pub(super) window: Duration,
}

impl Pace {
    pub(super) const USUAL: Pace = Pace {
        restart: Duration::from_secs(10),
        end: Duration::from_millis(500),
        window: Duration::from_secs(1),
    };
}

/// The form of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Exact numbers with waits and queues, without the report since boot, at any interval: OpenZFS since 0.7.
    Exact,
    /// Rounded numbers, at whole seconds: earlier versions, and zfs-fuse.
    Rounded,
}

/// The reports that were not used yet, and the state of the command.
#[derive(Debug)]
pub(super) struct State {
    /// The oldest first, each with the time at which its interval ended.
    pub(super) reports: VecDeque<(Instant, PoolReport)>,
    /// Number of reports that were dropped because too many waited.
    pub(super) dropped: u64,
    /// Number of intervals without a report, because it counted since boot.
    pub(super) since_boot: u64,
    /// Why reports are missing now.
    pub(super) failure: Option<String>,
    /// When the last report came, or the command was started.
    pub(super) last_report: Instant,
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

/// The command and the thread that reads it. Dropping it stops both.
#[derive(Debug)]
pub(super) struct Iostat {
    shared: Arc<Shared>,
    ended: Receiver<()>,
    end: Duration,
}

impl Iostat {
    /// Starts the thread, which starts the command.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start(command: Command, devices: PoolDevices) -> Result<Iostat, String> {
        let state = State {
            reports: VecDeque::new(),
            dropped: 0,
            since_boot: 0,
            failure: None,
            last_report: Instant::now(),
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
            devices,
            shared: Arc::clone(&shared),
        };
        let run = move || {
            work.run();
            let _ = send_end.send(());
        };
        let thread = thread::Builder::new().name("zpool".to_owned());
        match thread.spawn(run) {
            Ok(_) => Ok(Iostat { shared, ended, end }),
            Err(error) => Err(format!("cannot start a thread: {error}")),
        }
    }

    /// The current state.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }

    /// Stops the command. If it cannot be killed, because it waits in the kernel for a pool that does not respond, it
    /// is abandoned.
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

impl Drop for Iostat {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Why a command ended.
enum End {
    /// It was stopped.
    Stopped,
    /// It does not know an option.
    Unknown,
    /// It exited by itself, for this reason.
    Itself(String),
}

/// The state of the thread.
struct Work {
    command: Command,
    /// Receives the devices of the pools.
    devices: PoolDevices,
    shared: Arc<Shared>,
}

impl Work {
    fn run(&self) {
        let mut form = Form::Exact;
        loop {
            let next = Instant::now() + self.command.pace.restart;
            match self.once(form) {
                End::Stopped => return,
                End::Unknown if form == Form::Exact => {
                    form = Form::Rounded;
                    continue;
                }
                End::Unknown => {
                    self.shared.state().failure =
                        Some("this version of zpool is not supported".to_owned())
                }
                End::Itself(why) => self.shared.state().failure = Some(why),
            }
            if !self.pause(next) {
                return;
            }
        }
    }

    /// Waits until that time. `false`: the thread was stopped.
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

    /// Runs the command once.
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
            state.last_report = Instant::now();
            let pipes = (child.stdout.take(), child.stderr.take());
            state.child = Some(child);
            pipes
        };
        let mut error = String::new();
        if let (Some(stdout), Some(stderr)) = (stdout, stderr) {
            let reader = Reader::new(form == Form::Rounded);
            error = self.listen(stdout, stderr, reader);
        }
        let status = self.reap();
        if self.shared.state().stopped {
            return End::Stopped;
        }
        match status {
            _ if error.contains(UNKNOWN) => End::Unknown,
            _ if !error.is_empty() => End::Itself(format!("zpool: {error}")),
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
            Form::Exact => ("-vlqpy", format!("{}", every.as_secs_f64())),
            Form::Rounded => ("-v", every.as_secs_f64().ceil().max(1.0).to_string()),
        };
        std::process::Command::new(&self.command.program)
            .args(["iostat", flags])
            .args(&self.command.pools)
            .arg(seconds)
            // In English, because messages are parsed.
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    }

    /// Reads until the output ends. Returns the first error message since the last report.
    fn listen(&self, mut out: ChildStdout, mut err: ChildStderr, mut reader: Reader) -> String {
        let (mut output_lines, mut error_lines) = (Lines::default(), Lines::default());
        let mut error = String::new();
        let mut stderr_open = true;
        let mut limit = ReadLimit::new(self.command.pace.window);
        // When the first line of the current report was read.
        let mut begun = Instant::now();
        let mut reports: Vec<(Instant, PoolReport)> = Vec::new();
        loop {
            if let Some(until) = limit.paused_until(Instant::now())
                && !self.pause(until)
            {
                return error;
            }
            let (has_output, has_errors) =
                wait(&out, stderr_open.then_some(&err), reader.may_be_complete());
            if has_errors {
                let more = error_lines.read(&mut err, |line| {
                    if error.is_empty() {
                        line.clone_into(&mut error);
                    }
                });
                stderr_open = more.is_some();
                limit.add(more.unwrap_or_default());
                self.record_error(&error);
            }
            if has_output {
                let now = Instant::now();
                let more = output_lines.read(&mut out, |line| {
                    let is_first = !reader.has_begun();
                    let report = reader.line(line);
                    reports.extend(report.map(|report| (begun, report)));
                    if is_first && reader.has_begun() {
                        begun = now;
                    }
                });
                let Some(bytes) = more else {
                    if reader.may_be_complete() {
                        reports.extend(reader.take().map(|report| (begun, report)));
                    }
                    self.publish(reports, &mut reader);
                    return error;
                };
                limit.add(bytes);
            } else if !has_errors {
                reports.extend(reader.take().map(|report| (begun, report)));
            }
            if !reports.is_empty() {
                error.clear();
            }
            // Reports read together are published together.
            let more = |(at, _): &(Instant, PoolReport)| reader.has_begun() && *at == begun;
            if !reports.last().is_some_and(more) {
                self.publish(std::mem::take(&mut reports), &mut reader);
            }
        }
    }

    /// Records an error message of a command that continues. (An unknown option makes it restart with another form.)
    fn record_error(&self, error: &str) {
        if !error.is_empty() && !error.contains(UNKNOWN) {
            self.shared.state().failure = Some(format!("zpool: {error}"));
        }
    }

    /// Queues reports. Those read together divide the time since the previous report.
    fn publish(&self, mut reports: Vec<(Instant, PoolReport)>, reader: &mut Reader) {
        if let Some((_, report)) = reports.last() {
            self.devices.follow(report);
        }
        let mut state = self.shared.state();
        state.since_boot += reader.take_omitted();
        let Some((latest, _)) = reports.last() else {
            return;
        };
        let latest = *latest;
        spread(&mut reports, state.last_report);
        state.reports.extend(reports);
        while state.reports.len() > MAX_REPORTS {
            state.reports.pop_front();
            state.dropped += 1;
        }
        (state.failure, state.last_report) = (None, latest);
    }

    /// Waits for the command's exit, and kills it after half the time. `None`: it cannot be killed.
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

/// Divides the time since the previous report equally between reports that were read at the same time.
fn spread(reports: &mut [(Instant, PoolReport)], mut before: Instant) {
    for together in reports.chunk_by_mut(|(at, _), (next, _)| at == next) {
        let (at, count) = (together[0].0, together.len() as u32);
        let part = at.saturating_duration_since(before) / count;
        for ((ends, _), number) in together.iter_mut().zip(1..count) {
            *ends = before + part * number;
        }
        before = at;
    }
}

/// Waits until standard output or standard error can be read. (`false`, `false`): neither could for [`COMPLETE_AFTER`],
/// which is only waited for if `complete`.
fn wait(out: &ChildStdout, err: Option<&ChildStderr>, complete: bool) -> (bool, bool) {
    let mut fds = vec![PollFd::new(out, PollFlags::IN)];
    fds.extend(err.map(|err| PollFd::new(err, PollFlags::IN)));
    let span = Timespec {
        tv_sec: 0,
        tv_nsec: COMPLETE_AFTER.subsec_nanos().into(),
    };
    loop {
        match poll(&mut fds, complete.then_some(&span)) {
            Err(rustix::io::Errno::INTR) => {}
            // The following read returns the error.
            Err(_) => return (true, false),
            Ok(_) => {
                // End of file counts as readable.
                let ready =
                    |place: usize| fds.get(place).is_some_and(|fd| !fd.revents().is_empty());
                return (ready(0), ready(1));
            }
        }
    }
}

/// Limits how much is read in a window of time.
#[derive(Debug)]
struct ReadLimit {
    span: Duration,
    since: Option<Instant>,
    bytes: usize,
}

impl ReadLimit {
    fn new(span: Duration) -> ReadLimit {
        ReadLimit {
            span,
            since: None,
            bytes: 0,
        }
    }

    fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// Until when to stop reading, if too much was read.
    fn paused_until(&mut self, now: Instant) -> Option<Instant> {
        let end = *self.since.get_or_insert(now) + self.span;
        if now >= end {
            (self.since, self.bytes) = (Some(now), 0);
        }
        (self.bytes >= MAX_BYTES).then_some(end)
    }
}

/// Splits a stream into lines.
#[derive(Debug, Default)]
struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// Reads once and passes on each complete line. Returns the number of bytes; `None` at the end.
    fn read(&mut self, from: &mut impl io::Read, mut each: impl FnMut(&str)) -> Option<usize> {
        let mut buffer = [0; READ_SIZE];
        let length = match from.read(&mut buffer) {
            Ok(0) => return None,
            Ok(length) => length,
            Err(error) => return (error.kind() == io::ErrorKind::Interrupted).then_some(0),
        };
        self.rest.extend_from_slice(&buffer[..length]);
        let mut begin = 0;
        while let Some(end) = self.rest[begin..].iter().position(|byte| *byte == b'\n') {
            each(&String::from_utf8_lossy(&self.rest[begin..begin + end]));
            begin += end + 1;
        }
        self.rest.drain(..begin);
        if self.rest.len() > MAX_LINE {
            self.rest.clear();
        }
        Some(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_beyond_the_limit_waits_until_the_window_is_over() {
        let span = Duration::from_secs(1);
        let mut limit = ReadLimit::new(span);
        let begin = Instant::now();
        let at = |ms: u64| begin + Duration::from_millis(ms);
        assert_eq!(limit.paused_until(at(0)), None);
        limit.add(MAX_BYTES - 1);
        assert_eq!(limit.paused_until(at(1)), None);
        limit.add(READ_SIZE);
        assert_eq!(limit.paused_until(at(2)), Some(at(1000)));
        assert_eq!(limit.paused_until(at(999)), Some(at(1000)));
        // Then the same amount can be read again; infrequent output never waits.
        for (ms, expected) in [(1000, None), (1500, Some(at(2000))), (9000, None)] {
            assert_eq!(limit.paused_until(at(ms)), expected, "{ms}");
            limit.add(MAX_BYTES);
        }
    }
}
