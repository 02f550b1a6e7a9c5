//! Time, passed in: the kernel's for real I/O, a virtual one for simulations.

use iodyno_sys::thread::{Usage, thread_usage};

/// A clock in ns.
pub trait Clock {
    /// Its time moves only where an actor sleeps: what happens at an instant is seen at that instant.
    const VIRTUAL: bool;

    /// Now.
    fn now(&self) -> u64;

    /// Returns at that instant, at once if it has passed; may return early.
    fn sleep_until(&self, instant: u64);

    /// As [`Clock::sleep_until`], but without giving the CPU away where time is real. Does not return early.
    fn spin_until(&self, instant: u64);

    /// Lets other threads run, so that what this one waits for can happen.
    fn pause(&self);

    /// CPU time, context switches and faults of the calling thread so far.
    fn thread_usage(&self) -> Usage;
}

/// CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, Default)]
pub struct MonotonicClock;

impl Clock for MonotonicClock {
    const VIRTUAL: bool = false;

    #[inline]
    fn now(&self) -> u64 {
        iodyno_sys::clock::monotonic_ns()
    }

    fn sleep_until(&self, instant: u64) {
        iodyno_sys::clock::sleep_until(instant);
    }

    fn spin_until(&self, instant: u64) {
        while self.now() < instant {
            std::hint::spin_loop();
        }
    }

    fn pause(&self) {
        std::thread::yield_now();
    }

    fn thread_usage(&self) -> Usage {
        thread_usage()
    }
}
