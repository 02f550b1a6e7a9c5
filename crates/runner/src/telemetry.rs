//! Samples the host while the trial runs: a thread of its own drives the station on the trial's clock.
//!
//! What must stay true: samplers are opened before the trial is said to be ready, and ended, children and all,
//! however it ends; samples lie on the grid of the trial's start, and one that was missed is not made up for; and
//! the trial never waits for them longer than [`PATIENCE`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use iodyno_model::{Environment, SamplerCost, Sampling, Telemetry, TelemetryBatch};
use iodyno_target::{Roots, counters};
use iodyno_telemetry::{Devices, Pools, Scope, Station};

use crate::clock;
use crate::message_writer::MessageSender;
use crate::protocol::Event;

mod agenda;
mod pools;

use agenda::Agenda;

/// The trial waits no longer for the samplers to be open, or to have ended.
const PATIENCE: Duration = Duration::from_secs(3);
/// At most one batch is said in each of these stretches of the trial, ns.
const BATCH_NS: u64 = 1_000_000_000;

/// What the thread is told.
enum Word {
    /// The trial began at this instant of the clock, ns.
    Start(u64),
    /// A job will end at this instant, ns.
    Ends(u64),
    /// Nothing is measured any more: the last sample is to be taken.
    End,
}

/// What the thread answers.
enum Answer {
    Open,
    Closed(Vec<SamplerCost>),
}

/// The sampling of a trial. Dropped, it ends.
#[derive(Debug)]
pub(crate) struct Watcher {
    words: Sender<Word>,
    answers: Receiver<Answer>,
    /// When the reading that goes on began, the clock's ns; 0: none does.
    reading_since: Arc<AtomicU64>,
    /// See [`PATIENCE`].
    patience: Duration,
    ended: bool,
}

impl Watcher {
    /// Begins to open the samplers. `None`: nothing is to be sampled, or (said in the second place) there is no thread for it.
    pub(crate) fn open(
        sampling: &Sampling,
        environment: &Environment,
        messages: MessageSender,
    ) -> (Option<Watcher>, Option<String>) {
        if sampling.every_ns == 0 {
            return (None, None);
        }
        let scope = scope(sampling, environment);
        let (words, heard) = mpsc::channel();
        let (answer, answers) = mpsc::channel();
        let reading_since = Arc::new(AtomicU64::new(0));
        let mut work = Work {
            every_ns: sampling.every_ns.max(Sampling::LEAST_NS),
            heard,
            messages,
            reading_since: Arc::clone(&reading_since),
            pending: Telemetry::default(),
            batches: 0,
        };
        let run = move || {
            let station = work.reading(|| Station::open(&Roots::host(), &scope));
            let _ = answer.send(Answer::Open);
            let cost = work.run(station);
            let _ = answer.send(Answer::Closed(cost));
        };
        let watcher = Watcher {
            words,
            answers,
            reading_since,
            patience: PATIENCE,
            ended: false,
        };
        let thread = thread::Builder::new().name("telemetry".to_owned());
        match thread.spawn(run) {
            Ok(_) => (Some(watcher), None),
            Err(error) => {
                let note = format!("the host was not sampled: cannot start a thread: {error}");
                (None, Some(note))
            }
        }
    }

    /// Waits until the samplers are open. One that takes its time begins later.
    pub(crate) fn await_open(&self) {
        let _ = self.answers.recv_timeout(self.patience);
    }

    /// The trial began at this instant, the clock's ns.
    pub(crate) fn start(&self, origin: u64) {
        let _ = self.words.send(Word::Start(origin));
    }

    /// A job will end at this instant, the clock's ns.
    pub(crate) fn ends(&self, at: u64) {
        let _ = self.words.send(Word::Ends(at));
    }

    /// Nothing is measured any more: takes the last sample and ends all samplers. What sampling has cost; `Err`: it
    /// hangs and was left behind, in words. `origin`: the trial's start, the clock's ns.
    pub(crate) fn end(&mut self, origin: u64) -> Result<Vec<SamplerCost>, String> {
        self.ended = true;
        let _ = self.words.send(Word::End);
        loop {
            match self.answers.recv_timeout(self.patience) {
                Ok(Answer::Open) => {}
                Ok(Answer::Closed(cost)) => return Ok(cost),
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

impl Drop for Watcher {
    fn drop(&mut self) {
        if !self.ended {
            // Children that it started are to be gone when the preparation is.
            let _ = self.end(0);
        }
    }
}

/// What is sampled for a trial on these targets.
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

/// What the thread works with.
struct Work {
    every_ns: u64,
    heard: Receiver<Word>,
    messages: MessageSender,
    reading_since: Arc<AtomicU64>,
    /// Taken and not yet said.
    pending: Telemetry,
    batches: u32,
}

impl Work {
    fn run(&mut self, mut station: Station) -> Vec<SamplerCost> {
        if let Some(mut agenda) = self.await_start() {
            let now = agenda.on_trial_clock(clock::now());
            self.reading(|| station.begin(now));
            while self.sleep(&mut agenda) {
                self.sample(&mut station, &mut agenda);
            }
            self.sample(&mut station, &mut agenda);
            self.say();
        }
        self.reading(|| station.close())
    }

    fn await_start(&self) -> Option<Agenda> {
        loop {
            match self.heard.recv() {
                Ok(Word::Start(origin)) => {
                    // It is told a little ahead.
                    let ahead = origin.saturating_sub(clock::now());
                    thread::sleep(Duration::from_nanos(ahead));
                    return Some(Agenda::new(origin, self.every_ns, clock::now()));
                }
                Ok(Word::Ends(_)) => {}
                Ok(Word::End) | Err(_) => return None,
            }
        }
    }

    /// Sleeps until a sample is due. `false`: the end has come.
    fn sleep(&self, agenda: &mut Agenda) -> bool {
        loop {
            let now = clock::now();
            let left = agenda.due().saturating_sub(now);
            if left == 0 {
                return true;
            }
            match self.heard.recv_timeout(Duration::from_nanos(left)) {
                Ok(Word::Ends(at)) => agenda.ends(at),
                Ok(Word::Start(_)) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Word::End) | Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    fn sample(&mut self, station: &mut Station, agenda: &mut Agenda) {
        let now = clock::now();
        let at = agenda.on_trial_clock(now);
        let taken = self.reading(|| station.sample(at));
        self.pending.extend(taken);
        if agenda.taken(now, BATCH_NS) {
            self.say();
        }
    }

    /// Says what was taken since it was last said.
    fn say(&mut self) {
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
