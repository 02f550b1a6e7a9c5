//! Samples the host while the trial runs, on a separate thread and by the trial's clock.
//!
//! Invariants: the samplers are open before the trial is ready, and they and their child processes always end with the
//! trial. Samples are on a grid that begins with the trial; a missed sample is not repeated. The trial never waits for
//! them longer than [`TIMEOUT`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use iodyno_model::{Environment, SamplerCost, Sampling, Telemetry, TelemetryBatch};
use iodyno_target::{Roots, counters};
use iodyno_telemetry::{Collector, Devices, Pools, Scope};

use crate::clock;
use crate::message_writer::MessageSender;
use crate::protocol::Event;

mod pools;
mod sample_grid;

use sample_grid::SampleGrid;

/// The longest wait for the samplers to open, or to end.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The longest wait for the samplers to end, once the user has ended the trial or the storage is stuck.
const HURRIED: Duration = Duration::from_millis(500);
/// At most one batch is sent in each period of this length, ns.
const BATCH_NS: u64 = 1_000_000_000;

/// A command to the sampling thread.
enum Order {
    /// The trial starts at this instant, clock ns.
    Start(u64),
    /// A job will end at this instant, clock ns.
    Ends(u64),
    /// Nothing is measured any more: take the last sample and end.
    End,
}

/// A reply of the sampling thread.
enum Reply {
    Open,
    Closed(Vec<SamplerCost>),
}

/// The sampling thread of a trial. Dropping it ends the thread.
#[derive(Debug)]
pub(crate) struct BackgroundSampler {
    orders: Sender<Order>,
    replies: Receiver<Reply>,
    /// When the current reading began, clock ns; 0: none is under way.
    reading_since: Arc<AtomicU64>,
    /// [`TIMEOUT`], except in tests.
    timeout: Duration,
    ended: bool,
}

impl BackgroundSampler {
    /// Begins to open the samplers. `None`: nothing is to be sampled, or, with a note, the thread could not be started.
    pub(crate) fn open(
        sampling: &Sampling,
        environment: &Environment,
        messages: MessageSender,
    ) -> (Option<BackgroundSampler>, Option<String>) {
        if sampling.every_ns == 0 {
            return (None, None);
        }
        let scope = scope(sampling, environment);
        let (orders, received) = mpsc::channel();
        let (reply, replies) = mpsc::channel();
        let reading_since = Arc::new(AtomicU64::new(0));
        let mut work = Work {
            every_ns: sampling.every_ns.max(Sampling::LEAST_NS),
            orders: received,
            messages,
            reading_since: Arc::clone(&reading_since),
            pending: Telemetry::default(),
            batches: 0,
        };
        let run = move || {
            let collector = work.reading(|| Collector::open(&Roots::host(), &scope));
            let _ = reply.send(Reply::Open);
            let cost = work.run(collector);
            let _ = reply.send(Reply::Closed(cost));
        };
        let sampler = BackgroundSampler {
            orders,
            replies,
            reading_since,
            timeout: TIMEOUT,
            ended: false,
        };
        let thread = thread::Builder::new().name("telemetry".to_owned());
        match thread.spawn(run) {
            Ok(_) => (Some(sampler), None),
            Err(error) => {
                let note = format!("the host was not sampled: cannot start a thread: {error}");
                (None, Some(note))
            }
        }
    }

    /// Waits until the samplers are open, at most for [`TIMEOUT`]: a slow sampler begins later.
    pub(crate) fn await_open(&self) {
        let _ = self.replies.recv_timeout(self.timeout);
    }

    /// The trial began at this instant, the clock's ns.
    pub(crate) fn start(&self, origin: u64) {
        let _ = self.orders.send(Order::Start(origin));
    }

    /// A job will end at this instant, the clock's ns.
    pub(crate) fn ends(&self, at: u64) {
        let _ = self.orders.send(Order::Ends(at));
    }

    /// Shortens the wait to [`HURRIED`]: the user has ended the trial, or the storage is stuck.
    pub(crate) fn hurry(&mut self) {
        self.timeout = self.timeout.min(HURRIED);
    }

    /// Takes the last sample and ends all samplers, after the measured time. Returns the cost of sampling. `Err`: the
    /// reason why the thread did not end. `origin`: the trial's start, clock ns.
    pub(crate) fn end(&mut self, origin: u64) -> Result<Vec<SamplerCost>, String> {
        self.ended = true;
        let _ = self.orders.send(Order::End);
        loop {
            match self.replies.recv_timeout(self.timeout) {
                Ok(Reply::Open) => {}
                Ok(Reply::Closed(cost)) => return Ok(cost),
                Err(RecvTimeoutError::Timeout) => return Err(self.hangs(origin)),
                Err(RecvTimeoutError::Disconnected) => {
                    let words = "the host was not sampled to the end: the sampling thread panicked; see stderr. \
                                 This is a bug in iodyno: please report it";
                    return Err(words.to_owned());
                }
            }
        }
    }

    fn hangs(&self, origin: u64) -> String {
        let since = self.reading_since.load(Ordering::Relaxed);
        let since = match since.saturating_sub(origin) {
            _ if since == 0 => String::new(),
            0 => ", since before the start".to_owned(),
            ns => format!(", since {:.1} s into the trial", ns as f64 / 1e9),
        };
        format!("sampling the host hangs{since}: later samples are missing")
    }
}

impl Drop for BackgroundSampler {
    fn drop(&mut self) {
        if !self.ended {
            // Its child processes must not outlive the trial.
            let _ = self.end(0);
        }
    }
}

/// The scope of sampling for a trial on the targets of this environment.
fn scope(sampling: &Sampling, environment: &Environment) -> Scope {
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get() as u32);
    Scope {
        every: Duration::from_nanos(sampling.every_ns.max(Sampling::LEAST_NS)),
        devices: Devices::Named(counters::devices(&environment.targets)),
        pools: Pools::Named(pools::below(&environment.targets)),
        processes: sampling.processes.clone(),
        own: [Some(std::process::id()), parent]
            .into_iter()
            .flatten()
            .collect(),
    }
}

/// The sampling thread's state.
struct Work {
    every_ns: u64,
    orders: Receiver<Order>,
    messages: MessageSender,
    reading_since: Arc<AtomicU64>,
    /// Samples that were not sent yet.
    pending: Telemetry,
    batches: u32,
}

impl Work {
    fn run(&mut self, mut collector: Collector) -> Vec<SamplerCost> {
        if let Some(mut grid) = self.await_start() {
            let now = grid.on_trial_clock(clock::now());
            self.reading(|| collector.begin(now));
            while self.sleep(&mut grid) {
                self.sample(&mut collector, &mut grid);
            }
            self.sample(&mut collector, &mut grid);
            self.send();
        }
        self.reading(|| collector.close())
    }

    fn await_start(&self) -> Option<SampleGrid> {
        loop {
            match self.orders.recv() {
                Ok(Order::Start(origin)) => {
                    // The start is announced a little ahead.
                    let ahead = origin.saturating_sub(clock::now());
                    thread::sleep(Duration::from_nanos(ahead));
                    return Some(SampleGrid::new(origin, self.every_ns, clock::now()));
                }
                Ok(Order::Ends(_)) => {}
                Ok(Order::End) | Err(_) => return None,
            }
        }
    }

    /// Sleeps until a sample is due. `false`: sampling is to end.
    fn sleep(&self, grid: &mut SampleGrid) -> bool {
        loop {
            let now = clock::now();
            let left = grid.due().saturating_sub(now);
            if left == 0 {
                return true;
            }
            match self.orders.recv_timeout(Duration::from_nanos(left)) {
                Ok(Order::Ends(at)) => grid.ends(at),
                Ok(Order::Start(_)) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Order::End) | Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    fn sample(&mut self, collector: &mut Collector, grid: &mut SampleGrid) {
        let now = clock::now();
        let at = grid.on_trial_clock(now);
        let taken = self.reading(|| collector.sample(at));
        self.pending.extend(taken);
        if grid.taken(now, BATCH_NS) {
            self.send();
        }
    }

    /// Sends the pending samples.
    fn send(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let batch = TelemetryBatch {
            number: self.batches,
            telemetry: std::mem::take(&mut self.pending),
        };
        self.batches += 1;
        self.messages.event(Event::Telemetry(batch));
    }

    fn reading<T>(&self, read: impl FnOnce() -> T) -> T {
        self.reading_since.store(clock::now(), Ordering::Relaxed);
        let result = read();
        self.reading_since.store(0, Ordering::Relaxed);
        result
    }
}

#[cfg(test)]
mod tests;
