//! Samples the host while the trial runs, on a separate thread and by the trial's clock.
//!
//! Invariants: the samplers are open before the trial is ready, and they and their child processes always end with the
//! trial. Samples are on a grid that begins with the trial; a missed sample is not repeated. The trial never waits for
//! them longer than [`TIMEOUT`].
//!
//! If files are laid out, sampling begins with the layout, on a separate grid. These samples are kept until the trial
//! starts, because its clock is known only then.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use iodyno_host::{Roots, counters};
use iodyno_model::{SamplerCost, Sampling, TargetInfo, Telemetry, TelemetryBatch};
use iodyno_telemetry::{Collector, Devices, Pools, ProcessName, Scope};

use crate::clock;
use crate::node::message_writer::MessageSender;
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
/// Maximum number of samples, over all series, before the start. A longer layout has longer ones.
const MAX_BEFORE: usize = 4096;

/// A command to the sampling thread.
enum Order {
    /// The layout begins now.
    SetUp,
    /// The trial starts at this instant, clock ns.
    Start(u64),
    /// A job will end at this instant, clock ns.
    Ends(u64),
    /// The measurement is over: take the last sample and end.
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
    /// Starts to open the samplers. `None`: nothing to sample, or, with a note, the thread could not be started.
    pub(crate) fn open(
        sampling: &Sampling,
        targets: &[TargetInfo],
        servers: &[u32],
        messages: MessageSender,
    ) -> (Option<BackgroundSampler>, Option<String>) {
        if sampling.every_ns == 0 {
            return (None, None);
        }
        let scope = scope(sampling, targets, servers);
        let (orders, received) = mpsc::channel();
        let (reply, replies) = mpsc::channel();
        let reading_since = Arc::new(AtomicU64::new(0));
        let mut work = Work {
            every_ns: sampling.every_ns.max(Sampling::MIN_NS),
            orders: received,
            messages,
            reading_since: Arc::clone(&reading_since),
            origin: 0,
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

    /// The layout begins: sample the host from now on.
    pub(crate) fn set_up(&self) {
        let _ = self.orders.send(Order::SetUp);
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

/// The scope of sampling for a trial on these targets.
fn scope(sampling: &Sampling, targets: &[TargetInfo], servers: &[u32]) -> Scope {
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get() as u32);
    Scope {
        every: Duration::from_nanos(sampling.every_ns.max(Sampling::MIN_NS)),
        devices: Devices::Named(counters::devices(targets)),
        block_trace: sampling.block_trace,
        pools: Pools::Named(pools::below(targets)),
        processes: (sampling.processes.iter())
            .map(|name| ProcessName {
                name: name.clone(),
                made_for: sampling.made_for.get(name).cloned(),
            })
            .collect(),
        servers: servers.to_vec(),
        stats: sampling.stats.clone(),
        own: [Some(std::process::id()), parent]
            .into_iter()
            .flatten()
            .collect(),
    }
}

/// An instant of the clock, as samples have it before they are sent.
fn instant(clock_ns: u64) -> i64 {
    i64::try_from(clock_ns).unwrap_or(i64::MAX)
}

/// The sampling thread's state.
struct Work {
    every_ns: u64,
    orders: Receiver<Order>,
    messages: MessageSender,
    reading_since: Arc<AtomicU64>,
    /// When the trial started, clock ns.
    origin: u64,
    /// Samples that were not sent yet, at clock ns.
    pending: Telemetry,
    batches: u32,
}

impl Work {
    fn run(&mut self, mut collector: Collector) -> Vec<SamplerCost> {
        if let Some(mut grid) = self.await_start(&mut collector) {
            while self.sleep(&mut grid) {
                self.sample(&mut collector, &mut grid);
            }
            self.sample(&mut collector, &mut grid);
            self.send();
        }
        self.reading(|| collector.close())
    }

    /// Waits for the start, and samples the layout meanwhile. `None`: the trial does not start.
    fn await_start(&mut self, collector: &mut Collector) -> Option<SampleGrid> {
        let mut layout: Option<SampleGrid> = None;
        loop {
            let order = match &layout {
                None => self
                    .orders
                    .recv()
                    .map_err(|_| RecvTimeoutError::Disconnected),
                Some(grid) => {
                    let left = grid.due().saturating_sub(clock::now());
                    self.orders.recv_timeout(Duration::from_nanos(left))
                }
            };
            match order {
                Ok(Order::SetUp) => {
                    let now = clock::now();
                    self.reading(|| collector.begin(instant(now)));
                    layout = Some(SampleGrid::new(now, self.every_ns, now));
                }
                Ok(Order::Start(origin)) => {
                    // The start is announced a little ahead.
                    let ahead = origin.saturating_sub(clock::now());
                    thread::sleep(Duration::from_nanos(ahead));
                    self.origin = origin;
                    return Some(self.start(collector, layout));
                }
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(grid) = &mut layout {
                        self.sample_layout(collector, grid);
                    }
                }
                Ok(Order::Ends(_)) => {}
                Ok(Order::End) | Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Ends the last sample of the layout, unless it is short, and begins those of the trial.
    fn start(&mut self, collector: &mut Collector, layout: Option<SampleGrid>) -> SampleGrid {
        let now = clock::now();
        match layout.is_some_and(|grid| grid.has_part(now)) {
            true => {
                let taken = self.reading(|| collector.sample(instant(now)));
                self.pending.extend(taken);
            }
            false => self.reading(|| collector.begin(instant(now))),
        }
        SampleGrid::new(self.origin, self.every_ns, now)
    }

    /// Takes a sample of the layout, which is kept. If there are many, they become fewer and longer.
    fn sample_layout(&mut self, collector: &mut Collector, grid: &mut SampleGrid) {
        let now = clock::now();
        let taken = self.reading(|| collector.sample(instant(now)));
        self.pending.extend(taken);
        grid.taken(now, BATCH_NS);
        if self.pending.samples.len() > MAX_BEFORE {
            self.pending = self.pending.thinned(grid.widen(now));
        }
    }

    /// Sleeps until a sample is due. `false`: sampling ends.
    fn sleep(&self, grid: &mut SampleGrid) -> bool {
        loop {
            let now = clock::now();
            let left = grid.due().saturating_sub(now);
            if left == 0 {
                return true;
            }
            match self.orders.recv_timeout(Duration::from_nanos(left)) {
                Ok(Order::Ends(at)) => grid.ends(at),
                Ok(Order::SetUp | Order::Start(_)) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Order::End) | Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    fn sample(&mut self, collector: &mut Collector, grid: &mut SampleGrid) {
        let now = clock::now();
        let taken = self.reading(|| collector.sample(instant(now)));
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
        let mut telemetry = std::mem::take(&mut self.pending);
        let samples = telemetry.samples.iter_mut().map(|sample| &mut sample.at_ns);
        let gaps = telemetry.gaps.iter_mut().map(|gap| &mut gap.at_ns);
        for at_ns in samples.chain(gaps) {
            *at_ns = at_ns.saturating_sub(instant(self.origin));
        }
        let batch = TelemetryBatch {
            number: self.batches,
            telemetry,
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
