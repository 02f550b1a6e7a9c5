//! Common to all tests: jobs on simulated devices, and a recorded trial.

use std::path::Path;
use std::time::{Duration, Instant};

use iodyno_model::{
    Amount, BoundPlan, Direction, Engine, EngineKind, Environment, Frame, Job, Outcome, Part,
    SimClock, SimFault, SimLaw, SimOptions, Step, TelemetryBatch,
};
use iodyno_runner::{Event, LocalNode, StopFlag, TrialEnd, carry_out};
use iodyno_units::Nanos;

use crate::samples;

pub(crate) type Test = (&'static str, fn());

/// Names each function as a test.
#[macro_export]
macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        pub(crate) const TESTS: &[$crate::stage::Test] = &[$((stringify!($name), $name)),*];
    };
}

pub(crate) const MIB: u64 = 1 << 20;
/// The duration of a job that is ended by something else: a day, ms.
pub(crate) const LONG_MS: u64 = 86_400_000;
/// Longer than any wait on a host that is not stuck.
const WATCHDOG: Duration = Duration::from_secs(120);

/// Waits for an event.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut come: impl FnMut() -> bool) {
    let end = Instant::now() + WATCHDOG;
    while !come() {
        assert!(
            Instant::now() < end,
            "the condition did not become true: {what}"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// All data of a trial.
#[derive(Debug)]
pub(crate) struct TrialRecord {
    pub(crate) end: TrialEnd,
    pub(crate) frames: Vec<Frame>,
    pub(crate) telemetry: Vec<TelemetryBatch>,
    pub(crate) progress: Vec<(Step, u64, u64)>,
    pub(crate) ready: Option<(Box<Environment>, Vec<String>)>,
    pub(crate) started: Option<u64>,
    pub(crate) took: Duration,
}

impl TrialRecord {
    /// The part of a trial that has one.
    pub(crate) fn done(&self) -> (&Part, &Outcome) {
        match &self.end {
            TrialEnd::Done(part, outcome) => (part, outcome),
            other => panic!("there is no part: {other:?}"),
        }
    }

    /// … that completed.
    pub(crate) fn completed(&self) -> &Part {
        let (part, outcome) = self.done();
        assert_eq!(outcome, &Outcome::Completed);
        part
    }
}

pub(crate) fn node() -> LocalNode {
    LocalNode::this_program()
}

/// Runs a trial; `watch` receives each event and may stop the trial.
pub(crate) fn watched(plan: &BoundPlan, mut watch: impl FnMut(&Event, &StopFlag)) -> TrialRecord {
    let stop = StopFlag::new();
    let begin = Instant::now();
    let mut trial = TrialRecord {
        end: TrialEnd::Refused(Vec::new()),
        frames: Vec::new(),
        telemetry: Vec::new(),
        progress: Vec::new(),
        ready: None,
        started: None,
        took: Duration::ZERO,
    };
    let end = carry_out(plan, &node(), &stop, &mut |event| {
        watch(&event, &stop);
        match event {
            Event::Progress { step, done, total } => trial.progress.push((step, done, total)),
            Event::Ready { environment, notes } => trial.ready = Some((environment, notes)),
            Event::Admitted { .. } | Event::Halted { .. } | Event::Finished => {}
            Event::Started { unix_ms } => trial.started = Some(unix_ms),
            Event::Frame(frame) => trial.frames.push(frame),
            Event::Telemetry(batch) => trial.telemetry.push(batch),
        }
    });
    trial.end = end.unwrap();
    trial.took = begin.elapsed();
    trial
}

/// Repeats `attempt` until it returns a result. On a busy host the node can finish before the test is scheduled to
/// interfere; such an attempt has no result.
pub(crate) fn attempts<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    (0..30)
        .find_map(|_| attempt())
        .expect("the test was scheduled in time once in 30 attempts")
}

/// Ops of a direction in all frames.
pub(crate) fn framed(frames: &[Frame], direction: Direction) -> u64 {
    frames.iter().map(|frame| frame.ops(direction)).sum()
}

/// Runs these jobs, with paths relative to `folder`.
pub(crate) fn run(folder: &Path, jobs: Vec<Job>) -> TrialRecord {
    watched(&samples::plan(folder, jobs), |_, _| {})
}

/// A job of random reads of 100 µs each on a simulated device, for `ms`.
pub(crate) fn simulated(name: &str, ms: u64) -> Job {
    let mut job = timed(samples::job(name), ms);
    job.work.blocks_mut().unwrap().engine = Engine::new(EngineKind::Sim, 4);
    job.work.blocks_mut().unwrap().engine.sim = Some(SimOptions {
        law: SimLaw::Constant(100_000),
        clock: SimClock::Real,
        ..SimOptions::default()
    });
    job.work.blocks_mut().unwrap().extent.size = Some(Amount::Bytes(64 * MIB));
    job
}

/// … with a fault.
pub(crate) fn faulty(name: &str, ms: u64, fault: SimFault) -> Job {
    let mut job = simulated(name, ms);
    job.work
        .blocks_mut()
        .unwrap()
        .engine
        .sim
        .as_mut()
        .unwrap()
        .faults
        .push(fault);
    job
}

pub(crate) fn timed(mut job: Job, ms: u64) -> Job {
    job.end.runtime = Some(Nanos::from_millis(ms));
    job.work.blocks_mut().unwrap().passes.time_based = true;
    job
}

/// A psync job on a file.
pub(crate) fn on_file(name: &str, file: &str, directions: &[Direction], size: u64) -> Job {
    let mut job = samples::job(name);
    job.work.blocks_mut().unwrap().access = samples::access(directions);
    job.work.blocks_mut().unwrap().files.names = vec![file.into()];
    job.work.blocks_mut().unwrap().extent.size = Some(Amount::Bytes(size));
    job
}
