//! Virtual time: an event queue that threads share.
//!
//! Each thread that takes part is an actor with a clock of its own on the queue. Exactly one actor runs
//! at a time; the others sleep until an instant. When the running actor sleeps, time moves to the
//! earliest instant in the queue and its actor runs; actors with the same instant run in the order in
//! which they went to sleep. What the actors do therefore depends on nothing but what they are told:
//! the same simulation gives the same result on any host, however slow or busy.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::Clock;
use crate::thread::Usage;

/// The actor that made the queue.
const FIRST: usize = 0;

/// A clock that only moves when all of its actors sleep. Clones are the same actor's.
#[derive(Debug, Clone)]
pub struct VirtualClock {
    queue: Arc<EventQueue>,
    actor: Arc<Actor>,
}

#[derive(Debug)]
struct Actor {
    number: usize,
    /// It has been scheduled at least once, or made the queue.
    runs: AtomicBool,
}

#[derive(Debug)]
struct EventQueue {
    /// Written by the running actor alone, with the lock held.
    now: AtomicU64,
    /// The first actor is to run at once.
    interrupted: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Earliest first: instant, order of going to sleep, actor.
    events: BinaryHeap<Reverse<(u64, u64, usize)>>,
    /// Events so far: the order of the next one.
    orders: u64,
    running: usize,
    seats: Vec<Seat>,
}

#[derive(Debug, Default)]
struct Seat {
    woken: Arc<Condvar>,
    /// The order of the actor's only valid event; `None`: it does not sleep.
    event: Option<u64>,
}

impl State {
    /// `actor` runs again at `instant`, and no longer when it wanted to before.
    fn schedule(&mut self, actor: usize, instant: u64) {
        let order = self.orders;
        self.orders += 1;
        self.seats[actor].event = Some(order);
        self.events.push(Reverse((instant, order, actor)));
    }

    /// The earliest event, without those that were replaced.
    fn next(&mut self) -> Option<(u64, usize)> {
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
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves time to the earliest event and lets its actor run.
    fn hand_over(&self, state: &mut State) {
        let Some((instant, actor)) = state.next() else {
            return;
        };
        state.events.pop();
        state.seats[actor].event = None;
        state.running = actor;
        self.now.store(self.now.load(Relaxed).max(instant), Relaxed);
        state.seats[actor].woken.notify_one();
    }

    /// The first actor, if it sleeps, runs now.
    fn wake_first(&self, state: &mut State) {
        if state.seats[FIRST].event.is_some() {
            state.schedule(FIRST, self.now.load(Relaxed));
        }
    }

    /// `actor` sleeps until `instant`, and others run.
    fn sleep(&self, mut state: MutexGuard<'_, State>, actor: usize, instant: u64) {
        state.schedule(actor, instant);
        self.hand_over(&mut state);
        self.wait_for_turn(state, actor);
    }

    fn wait_for_turn(&self, mut state: MutexGuard<'_, State>, actor: usize) {
        let woken = Arc::clone(&state.seats[actor].woken);
        while state.running != actor {
            state = woken.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl VirtualClock {
    /// A queue whose time is `start`, and its first actor, which runs.
    pub fn starting_at(start: u64) -> VirtualClock {
        let state = State {
            seats: vec![Seat::default()],
            ..State::default()
        };
        VirtualClock {
            queue: Arc::new(EventQueue {
                now: AtomicU64::new(start),
                interrupted: AtomicBool::new(false),
                state: Mutex::new(state),
            }),
            actor: Arc::new(Actor {
                number: FIRST,
                runs: AtomicBool::new(true),
            }),
        }
    }

    /// Another actor of this queue. It runs from the instant that [`VirtualClock::start`] names: the first
    /// use of its clock waits for that.
    pub fn actor(&self) -> VirtualClock {
        let mut state = self.queue.lock();
        state.seats.push(Seat::default());
        VirtualClock {
            queue: Arc::clone(&self.queue),
            actor: Arc::new(Actor {
                number: state.seats.len() - 1,
                runs: AtomicBool::new(false),
            }),
        }
    }

    /// This actor, which has not run yet, runs from `instant`. Called by the actor that runs now.
    pub fn start(&self, instant: u64) {
        self.queue.lock().schedule(self.actor.number, instant);
    }

    /// This actor's thread ends: the queue's first actor, if it sleeps, wakes now, and others run. Without effect
    /// where this actor never ran.
    pub fn leave(&self) {
        if !self.actor.runs.load(Relaxed) {
            return;
        }
        let mut state = self.queue.lock();
        self.queue.wake_first(&mut state);
        self.queue.hand_over(&mut state);
    }

    /// The queue's first actor, if it sleeps, wakes when the actor that runs sleeps next. Any thread may call this; from
    /// here on what happens when depends on the host.
    pub fn interrupt(&self) {
        self.queue.interrupted.store(true, Relaxed);
    }

    /// Waits until an actor that has not run yet is scheduled.
    #[cold]
    fn first_turn(&self) {
        self.queue
            .wait_for_turn(self.queue.lock(), self.actor.number);
        self.actor.runs.store(true, Relaxed);
    }
}

impl Default for VirtualClock {
    fn default() -> VirtualClock {
        VirtualClock::starting_at(0)
    }
}

impl Clock for VirtualClock {
    const VIRTUAL: bool = true;

    #[inline]
    fn now(&self) -> u64 {
        if !self.actor.runs.load(Relaxed) {
            self.first_turn();
        }
        self.queue.now.load(Relaxed)
    }

    /// May return early where another actor wakes this one.
    fn sleep_until(&self, instant: u64) {
        if instant <= self.now() {
            return;
        }
        let mut state = self.queue.lock();
        if self.queue.interrupted.load(Relaxed) {
            self.queue.interrupted.store(false, Relaxed);
            self.queue.wake_first(&mut state);
        }
        if state.next().is_none_or(|(next, _)| instant < next) {
            return self.queue.now.store(instant, Relaxed);
        }
        self.queue.sleep(state, self.actor.number, instant);
    }

    fn spin_until(&self, instant: u64) {
        while self.now() < instant {
            self.sleep_until(instant);
        }
    }

    /// The first actor, if it sleeps, runs at this very instant, and then this one again.
    fn pause(&self) {
        let now = self.now();
        let mut state = self.queue.lock();
        self.queue.wake_first(&mut state);
        self.queue.sleep(state, self.actor.number, now);
    }

    /// Virtual time costs no CPU.
    fn thread_usage(&self) -> Usage {
        Usage::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_clock_alone_moves_to_where_it_sleeps() {
        let clock = VirtualClock::starting_at(5);
        clock.sleep_until(3);
        assert_eq!(clock.now(), 5);
        clock.sleep_until(30);
        clock.spin_until(31);
        assert_eq!(clock.now(), 31);
        clock.pause();
        assert_eq!(clock.now(), 31);
        assert_eq!(clock.thread_usage(), Usage::default());
    }

    /// What three threads do, in order: (actor, instant).
    fn interleaved() -> Vec<(usize, u64)> {
        let clock = VirtualClock::starting_at(100);
        let seen = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for (step, start) in [(10, 100), (15, 100), (7, 120)] {
                let actor = clock.actor();
                actor.start(start);
                let seen = &seen;
                scope.spawn(move || {
                    for _ in 0..4 {
                        let now = actor.now();
                        seen.lock().unwrap().push((actor.actor.number, now));
                        actor.sleep_until(now + step);
                    }
                    actor.leave();
                });
            }
            // Each actor's end wakes this one.
            clock.spin_until(1000);
            assert_eq!(clock.now(), 1000);
        });
        seen.into_inner().unwrap()
    }

    #[test]
    fn threads_run_one_at_a_time_in_the_order_of_their_instants() {
        let expected = [
            (1, 100),
            (2, 100),
            (1, 110),
            (2, 115),
            (3, 120),
            // Equal instants: who went to sleep first runs first.
            (1, 120),
            (3, 127),
            (2, 130),
            (1, 130),
            (3, 134),
            (3, 141),
            (2, 145),
        ];
        for _ in 0..50 {
            assert_eq!(interleaved(), expected);
        }
    }

    #[test]
    fn the_first_actor_sleeps_no_longer_when_another_one_leaves() {
        let clock = VirtualClock::starting_at(0);
        let actor = clock.actor();
        actor.start(40);
        thread::scope(|scope| {
            scope.spawn(move || {
                actor.sleep_until(60);
                actor.leave();
            });
            clock.sleep_until(1_000_000);
            assert_eq!(clock.now(), 60);
            // The replaced event is ignored.
            clock.sleep_until(2_000_000);
            assert_eq!(clock.now(), 2_000_000);
        });
    }

    #[test]
    fn the_first_actor_runs_at_once_where_another_one_pauses_or_it_is_interrupted() {
        let clock = VirtualClock::starting_at(0);
        let actor = clock.actor();
        actor.start(40);
        thread::scope(|scope| {
            let main = clock.clone();
            scope.spawn(move || {
                actor.pause();
                assert_eq!(actor.now(), 40);
                main.interrupt();
                actor.sleep_until(70);
                assert_eq!(actor.now(), 70);
                actor.leave();
            });
            for expected in [40, 40, 70] {
                clock.sleep_until(1_000_000);
                assert_eq!(clock.now(), expected);
            }
        });
    }

    #[test]
    fn an_actor_that_never_ran_leaves_without_effect() {
        let clock = VirtualClock::starting_at(1);
        clock.actor().leave();
        clock.sleep_until(2);
        assert_eq!(clock.now(), 2);
    }
}
