//! State of a fake that the threads of several nodes change.

use std::sync::{Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// A point at which each of two nodes waits for the other.
#[derive(Debug, Default)]
pub(crate) struct Meeting {
    arrived: Mutex<usize>,
    changed: Condvar,
}

impl Meeting {
    /// Panics if the other thread does not arrive.
    pub(crate) fn wait(&self) {
        let mut arrived = self.arrived.lock().unwrap();
        *arrived += 1;
        let until = *arrived + *arrived % 2;
        self.changed.notify_all();
        let limit = Duration::from_secs(120);
        let alone = |arrived: &mut usize| *arrived < until;
        let waited = self.changed.wait_timeout_while(arrived, limit, alone);
        let timed_out = waited.unwrap().1.timed_out();
        assert!(!timed_out, "the nodes work one after the other");
    }
}

/// As [`std::cell::RefCell`] and [`std::cell::Cell`], for several threads.
#[derive(Debug, Default)]
pub(crate) struct Locked<T>(RwLock<T>);

impl<T> Locked<T> {
    pub(crate) fn new(value: T) -> Locked<T> {
        Locked(RwLock::new(value))
    }

    pub(crate) fn borrow(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn borrow_mut(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, value: T) {
        *self.borrow_mut() = value;
    }
}

impl<T: Copy> Locked<T> {
    pub(crate) fn get(&self) -> T {
        *self.borrow()
    }
}

impl<T: Default> Locked<T> {
    pub(crate) fn take(&self) -> T {
        std::mem::take(&mut *self.borrow_mut())
    }
}
