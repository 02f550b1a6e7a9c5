//! Clocks: CLOCK_MONOTONIC for real I/O, a virtual clock for simulations.

use crate::Waker;
use crate::thread::{Usage, thread_usage};

/// A clock in ns.
pub trait Clock {
    /// Whether time advances only while an actor sleeps, so that an event is detected at the time of its occurrence.
    const VIRTUAL: bool;

    /// The current time.
    fn now(&self) -> u64;

    /// Returns at that time, or immediately if it has passed. May return early.
    fn sleep_until(&self, instant: u64);

    /// Wakes this thread early from [`Clock::sleep_until`]; only in virtual time.
    fn waker(&self) -> Option<Waker> {
        None
    }

    /// Like [`Clock::sleep_until`], but without yielding the CPU if time is real. Does not return early.
    fn spin_until(&self, instant: u64);

    /// Lets other threads run, so that the awaited event can occur.
    fn pause(&self);

    /// CPU time, context switches and page faults of the calling thread so far.
    fn thread_usage(&self) -> Usage;
}

/// CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, Default)]
pub struct MonotonicClock;

impl Clock for MonotonicClock {
    const VIRTUAL: bool = false;

    #[inline]
    fn now(&self) -> u64 {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the time outlives the call; this clock always exists.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    fn sleep_until(&self, instant: u64) {
        let time = libc::timespec {
            tv_sec: (instant / 1_000_000_000) as _,
            tv_nsec: (instant % 1_000_000_000) as _,
        };
        // SAFETY: the time outlives the call; no remainder is requested. A signal ends the sleep early.
        unsafe {
            libc::clock_nanosleep(
                libc::CLOCK_MONOTONIC,
                libc::TIMER_ABSTIME,
                &raw const time,
                std::ptr::null_mut(),
            );
        }
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
