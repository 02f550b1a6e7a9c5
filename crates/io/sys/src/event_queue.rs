//! The queue of events in virtual time, and the wakers of its actors.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The actor that created the queue.
pub(crate) const FIRST: usize = 0;

/// Wakes a sleeping actor.
#[derive(Debug, Clone)]
pub struct Waker {
    pub(crate) queue: Arc<EventQueue>,
    pub(crate) actor: usize,
}

impl Waker {
    /// Schedules the actor at the current time, after those already scheduled for it. The running actor calls this. No
    /// effect if the other actor is not asleep.
    pub fn wake(&self) {
        self.queue.wake(&mut self.queue.lock(), self.actor);
    }
}

#[derive(Debug)]
pub(crate) struct EventQueue {
    /// Written only by the running actor, with the lock held.
    pub(crate) now: AtomicU64,
    /// Whether the first actor must run immediately.
    pub(crate) interrupted: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    /// Earliest first: time, sequence number, actor.
    events: BinaryHeap<Reverse<(u64, u64, usize)>>,
    /// Number of events so far: the sequence number of the next one.
    orders: u64,
    running: usize,
    seats: Vec<Seat>,
}

#[derive(Debug, Default)]
struct Seat {
    woken: Arc<Condvar>,
    /// Sequence number of the actor's only valid event; `None`: it is awake.
    event: Option<u64>,
}

impl State {
    /// Schedules `actor` at `instant`, replacing its previous event.
    pub(crate) fn schedule(&mut self, actor: usize, instant: u64) {
        let order = self.orders;
        self.orders += 1;
        self.seats[actor].event = Some(order);
        self.events.push(Reverse((instant, order, actor)));
    }

    /// The earliest event, skipping those that were replaced.
    pub(crate) fn next(&mut self) -> Option<(u64, usize)> {
        loop {
            let Reverse((instant, order, actor)) = *self.events.peek()?;
            if self.seats[actor].event == Some(order) {
                return Some((instant, actor));
            }
            self.events.pop();
        }
    }
}

impl EventQueue {
    /// A queue that starts at time `start`, with its first actor, which runs.
    pub(crate) fn starting_at(start: u64) -> EventQueue {
        let state = State {
            seats: vec![Seat::default()],
            ..State::default()
        };
        EventQueue {
            now: AtomicU64::new(start),
            interrupted: AtomicBool::new(false),
            state: Mutex::new(state),
        }
    }

    /// Adds an actor. Returns its number.
    pub(crate) fn add(&self) -> usize {
        let mut state = self.lock();
        state.seats.push(Seat::default());
        state.seats.len() - 1
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Advances time to the earliest event and lets its actor run.
    pub(crate) fn hand_over(&self, state: &mut State) {
        let Some((instant, actor)) = state.next() else {
            return;
        };
        state.events.pop();
        state.seats[actor].event = None;
        state.running = actor;
        self.now.store(self.now.load(Relaxed).max(instant), Relaxed);
        state.seats[actor].woken.notify_one();
    }

    /// Wakes the first actor now if it sleeps.
    pub(crate) fn wake_first(&self, state: &mut State) {
        self.wake(state, FIRST);
    }

    fn wake(&self, state: &mut State, actor: usize) {
        if state.seats[actor].event.is_some() {
            state.schedule(actor, self.now.load(Relaxed));
        }
    }

    /// Puts `actor` to sleep until `instant` and lets others run.
    pub(crate) fn sleep(&self, mut state: MutexGuard<'_, State>, actor: usize, instant: u64) {
        state.schedule(actor, instant);
        self.hand_over(&mut state);
        self.wait_for_turn(state, actor);
    }

    pub(crate) fn wait_for_turn(&self, mut state: MutexGuard<'_, State>, actor: usize) {
        let woken = Arc::clone(&state.seats[actor].woken);
        while state.running != actor {
            state = woken.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
