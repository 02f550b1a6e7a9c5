//! State shared by a worker and its watchers: gate, stop request, step, and the recorder's counters.
//!
//! The worker only stores, and other threads only load; for the stop request it is the reverse. Nothing here blocks the
//! hot loop.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};

use iodyno_model::{Direction, Engine, Job, Step, StopRequest};

use crate::counters::OpCounters;
use crate::in_flight::OpsInFlight;
use crate::pauses::Pauses;

/// The state of one worker that other threads can read. Instants are those of the engine clock (CLOCK_MONOTONIC), ns.
#[derive(Debug)]
pub struct CloneShared {
    stop: AtomicU8,
    phase: AtomicU8,
    measure_start: AtomicU64,
    measure_end: AtomicU64,
    /// Ops that completed during the ramp.
    pub ramp: OpCounters,
    /// Ops that completed in the measured time.
    pub measure: OpCounters,
    /// The times in the measured time in which none of its ops ended.
    pub pauses: Pauses,
    /// The gate at which it waits for its start.
    pub gate: Gate,
    in_flight: OnceLock<Arc<OpsInFlight>>,
}

const IDLE: u8 = 255;

impl CloneShared {
    /// The state for a worker of this job.
    pub fn of(job: &Job) -> CloneShared {
        let shared = CloneShared::new(
            &job.work.directions(),
            job.scheduled(),
            job.work.engine().is_some_and(Engine::submits_apart),
        );
        CloneShared {
            ramp: shared.ramp.by_priority(job),
            measure: shared.measure.by_priority(job),
            ..shared
        }
    }

    /// The state for a worker that records ops of these directions. `paced`: response latencies are recorded;
    /// `submits`: submission latencies are recorded.
    pub fn new(directions: &[Direction], paced: bool, submits: bool) -> CloneShared {
        CloneShared {
            stop: AtomicU8::new(0),
            phase: AtomicU8::new(IDLE),
            measure_start: AtomicU64::new(0),
            measure_end: AtomicU64::new(0),
            ramp: OpCounters::new(directions, paced, submits),
            measure: OpCounters::new(directions, paced, submits),
            pauses: Pauses::default(),
            gate: Gate::default(),
            in_flight: OnceLock::new(),
        }
    }

    /// Requests the worker to stop; a weaker request does not replace a stronger one.
    pub fn request_stop(&self, stop: StopRequest) {
        self.stop.fetch_max(stop as u8, Ordering::Relaxed);
    }

    /// The strongest stop request so far.
    #[inline]
    pub fn stop_request(&self) -> StopRequest {
        StopRequest::from_u8(self.stop.load(Ordering::Relaxed))
    }

    /// The current step; `None` before the start and after the end.
    pub fn phase(&self) -> Option<Step> {
        match self.phase.load(Ordering::Acquire) {
            2 => Some(Step::Ramp),
            3 => Some(Step::Measure),
            4 => Some(Step::Drain),
            5 => Some(Step::EndFsync),
            6 => Some(Step::VerifyPass),
            _ => None,
        }
    }

    /// Worker: begins a step; `None`: the worker has ended.
    pub fn enter(&self, step: Option<Step>) {
        let word = match step {
            Some(Step::Ramp) => 2,
            Some(Step::Measure) => 3,
            Some(Step::Drain) => 4,
            Some(Step::EndFsync) => 5,
            Some(Step::VerifyPass) => 6,
            _ => IDLE,
        };
        self.phase.store(word, Ordering::Release);
    }

    /// Worker: makes its ops in flight readable by other threads.
    pub(crate) fn show_in_flight(&self, names: Vec<String>, depth: u32) -> Arc<OpsInFlight> {
        let ops = Arc::new(OpsInFlight::new(names, depth));
        Arc::clone(self.in_flight.get_or_init(|| ops))
    }

    /// Its ops in flight; `None` before it is ready.
    pub fn in_flight(&self) -> Option<&OpsInFlight> {
        self.in_flight.get().map(|ops| &**ops)
    }

    /// Start of the measured time; 0 before it.
    pub fn measure_start(&self) -> u64 {
        self.measure_start.load(Ordering::Acquire)
    }

    /// End of the measured time; 0 before it.
    pub fn measure_end(&self) -> u64 {
        self.measure_end.load(Ordering::Acquire)
    }

    /// Worker: a counted op ended at `now`, the one before at `last`; `None`: there was none.
    #[inline(always)]
    pub(crate) fn op_ended(&self, last: Option<u64>, now: u64) {
        let last = last.unwrap_or_else(|| self.measure_start());
        // 0: the ramp has begun.
        if now.saturating_sub(last) >= Pauses::MIN_NS && last > 0 {
            self.pauses.add(last, now);
        }
    }

    /// Worker: its measured time begins.
    pub fn set_measure_start(&self, now: u64) {
        self.measure_start.store(now, Ordering::Release);
    }

    /// Called by the worker: its measured time has ended; later counts are those of its end steps.
    pub fn set_measure_end(&self, now: u64) {
        self.measure_end.store(now, Ordering::Release);
    }
}

/// The point at which a worker waits for its start.
#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum GateState {
    #[default]
    Preparing,
    Ready,
    Broken,
    Go(u64),
    Closed,
}

impl Gate {
    /// Worker: it is ready (or, with `false`, cannot start).
    pub fn arrive(&self, ready: bool) {
        let mut state = self.lock();
        if *state == GateState::Preparing {
            *state = if ready {
                GateState::Ready
            } else {
                GateState::Broken
            };
        }
        self.changed.notify_all();
    }

    /// Worker: waits until it is released. Returns the start instant, or `None` if it must not start.
    pub fn wait(&self) -> Option<u64> {
        let mut state = self.lock();
        loop {
            match *state {
                GateState::Go(instant) => return Some(instant),
                GateState::Closed => return None,
                _ => {
                    state = self
                        .changed
                        .wait(state)
                        .unwrap_or_else(PoisonError::into_inner)
                }
            }
        }
    }

    /// Other threads: waits until the worker has arrived; `false` if it cannot start.
    pub fn arrived(&self) -> bool {
        let mut state = self.lock();
        while *state == GateState::Preparing {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        *state != GateState::Broken
    }

    /// Other threads: lets the worker start at `instant` (immediately if that has passed).
    pub fn release(&self, instant: u64) {
        *self.lock() = GateState::Go(instant);
        self.changed.notify_all();
    }

    /// Called by other threads: prevents the worker from starting.
    pub fn close(&self) {
        *self.lock() = GateState::Closed;
        self.changed.notify_all();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
