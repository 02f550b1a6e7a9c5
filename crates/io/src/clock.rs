//! Time, passed in: the kernel's for real I/O, a virtual one for simulations.

use std::cell::Cell;
use std::rc::Rc;

/// A clock in ns.
pub trait Clock {
    /// Now.
    fn now(&self) -> u64;

    /// Returns at that instant, at once if it has passed; may return early.
    fn sleep_until(&self, instant: u64);
}

/// CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, Default)]
pub struct MonotonicClock;

impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> u64 {
        iodyno_sys::clock::monotonic_ns()
    }

    fn sleep_until(&self, instant: u64) {
        iodyno_sys::clock::sleep_until(instant);
    }
}

/// A clock that only moves when someone waits. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct VirtualClock(Rc<Cell<u64>>);

impl VirtualClock {
    /// Moves on by `ns`.
    pub fn advance(&self, ns: u64) {
        self.0.set(self.0.get() + ns);
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> u64 {
        self.0.get()
    }

    fn sleep_until(&self, instant: u64) {
        self.0.set(self.0.get().max(instant));
    }
}
