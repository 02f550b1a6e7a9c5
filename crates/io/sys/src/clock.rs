//! Clocks: CLOCK_MONOTONIC for real I/O, a virtual clock for simulations.

use crate::event_queue::Waker;
use crate::thread::{RunDelay, Usage, thread_usage};

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

    /// The time in which the calling thread waits for a CPU; unknown in virtual time.
    fn run_delay(&self) -> RunDelay {
        RunDelay::default()
    }
}

/// CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, Default)]
pub struct MonotonicClock;

/// A time or duration in ns, for system calls.
pub(crate) fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (ns / 1_000_000_000) as _,
        tv_nsec: (ns % 1_000_000_000) as _,
    }
}

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
        let time = timespec(instant);
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

    fn run_delay(&self) -> RunDelay {
        RunDelay::of_this_thread()
    }
}

/// The time between the two readings of [`counter_khz`], ns. Readings that take 1 µs each give the rate to 0.002 %.
#[cfg(target_arch = "x86_64")]
const COUNTED_NS: u64 = 50_000_000;

/// The rate of the CPU's time stamp counter against CLOCK_MONOTONIC, kHz, measured for 50 ms. `None`: the CPU has no
/// counter, or the two could not be read close together. If all CPUs have synchronized counters, the kernel lists `tsc`
/// among its clock sources.
pub fn counter_khz() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    {
        let (first, from_ns, first_error_ns) = counter_and_time();
        MonotonicClock.sleep_until(from_ns + COUNTED_NS);
        let (last, until_ns, last_error_ns) = counter_and_time();
        let span_ns = until_ns.checked_sub(from_ns).filter(|span| *span > 0)?;
        let ticks = u128::from(last.checked_sub(first)?);
        let khz = (ticks * 1_000_000 + u128::from(span_ns / 2)) / u128::from(span_ns);
        let known = (first_error_ns + last_error_ns) * 1000 < span_ns;
        u64::try_from(khz).ok().filter(|khz| known && *khz > 0)
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// Counter value and time, ns, from the attempt that read them closest together, and the duration of that attempt, ns.
#[cfg(target_arch = "x86_64")]
fn counter_and_time() -> (u64, u64, u64) {
    let attempt = || {
        let before_ns = MonotonicClock.now();
        // SAFETY: every x86-64 CPU has this instruction, and it changes no memory.
        let counter = unsafe { std::arch::x86_64::_rdtsc() };
        let took_ns = MonotonicClock.now() - before_ns;
        (counter, before_ns + took_ns / 2, took_ns)
    };
    let first = attempt();
    (0..100).fold(first, |best, _| {
        let next = attempt();
        if next.2 < best.2 { next } else { best }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_testing::skip;

    #[test]
    fn two_measurements_of_the_counter_agree() {
        let Some(one) = counter_khz() else {
            skip("this CPU has no time stamp counter, or it cannot be read in time");
            return;
        };
        // A CPU of 100 MHz to 10 GHz.
        assert!((100_000..10_000_000).contains(&one), "{one} kHz");
        if let Some(two) = counter_khz() {
            assert!(one.abs_diff(two) * 200 < one, "{one} and {two} kHz");
        }
    }
}
