//! Virtual time: an event queue that threads share.
//!
//! Each participating thread is an actor with its own clock on the queue. Exactly one actor runs at a time;
//! the others sleep until a given time. When the running actor sleeps, time advances to the earliest event
//! in the queue and its actor runs; actors with the same time run in the order in which they started to
//! sleep. The simulation is therefore deterministic: it gives the same result on any host, whatever its
//! speed and load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::Clock;
use crate::event_queue::{EventQueue, FIRST, Waker};
use crate::thread::Usage;

/// A clock that advances only when all of its actors sleep. Clones belong to the same actor.
#[derive(Debug, Clone)]
pub struct VirtualClock {
    queue: Arc<EventQueue>,
    actor: Arc<Actor>,
}

#[derive(Debug)]
struct Actor {
    number: usize,
    /// Whether it was scheduled at least once, or created the queue.
    runs: AtomicBool,
}

impl VirtualClock {
    /// Creates a queue that starts at time `start`, with its first actor, which runs.
    pub fn starting_at(start: u64) -> VirtualClock {
        VirtualClock {
            queue: Arc::new(EventQueue::starting_at(start)),
            actor: Arc::new(Actor {
                number: FIRST,
                runs: AtomicBool::new(true),
            }),
        }
    }

    /// Creates another actor of this queue. It runs from the time given to [`VirtualClock::start`]: the
    /// first use of its clock waits for that.
    pub fn actor(&self) -> VirtualClock {
        VirtualClock {
            queue: Arc::clone(&self.queue),
            actor: Arc::new(Actor {
                number: self.queue.add(),
                runs: AtomicBool::new(false),
            }),
        }
    }

    /// Schedules this actor, which has not run yet, at `instant`. Called by the running actor.
    pub fn start(&self, instant: u64) {
        self.queue.lock().schedule(self.actor.number, instant);
    }

    /// Ends this actor: the queue's first actor wakes now if it sleeps, and others run. Has no effect if
    /// this actor never ran.
    pub fn leave(&self) {
        if !self.actor.runs.load(Relaxed) {
            return;
        }
        let mut state = self.queue.lock();
        self.queue.wake_first(&mut state);
        self.queue.hand_over(&mut state);
    }

    /// Wakes the queue's first actor, if it sleeps, when the running actor sleeps next. Any thread may call
    /// this; after it, the order of events depends on the host.
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

    /// May return early if another actor wakes this one.
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

    fn waker(&self) -> Option<Waker> {
        Some(Waker {
            queue: Arc::clone(&self.queue),
            actor: self.actor.number,
        })
    }

    fn spin_until(&self, instant: u64) {
        while self.now() < instant {
            self.sleep_until(instant);
        }
    }

    /// The first actor, if it sleeps, runs at the current time, then this one continues.
    fn pause(&self) {
        let now = self.now();
        let mut state = self.queue.lock();
        self.queue.wake_first(&mut state);
        self.queue.sleep(state, self.actor.number, now);
    }

    /// Virtual time uses no CPU time.
    fn thread_usage(&self) -> Usage {
        Usage::default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::thread;

    use super::*;

    #[test]
    fn a_single_actor_advances_time_by_sleeping() {
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

    /// The actions of three threads, in order: (actor, time).
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
            // The end of each actor wakes this one.
            clock.spin_until(1000);
            assert_eq!(clock.now(), 1000);
        });
        seen.into_inner().unwrap()
    }

    #[test]
    fn threads_run_one_at_a_time_in_the_order_of_their_events() {
        let expected = [
            (1, 100),
            (2, 100),
            (1, 110),
            (2, 115),
            (3, 120),
            // Equal times: the actor that started to sleep first runs first.
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
    fn the_first_actor_wakes_when_another_one_leaves() {
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
    fn the_first_actor_wakes_when_another_one_pauses_or_on_an_interrupt() {
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
