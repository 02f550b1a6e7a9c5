//! The watchdog thread, which checks the queues of a server ([`crate::inline_batch`]). While all queues are idle, it
//! sleeps.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Between two looks at the queues.
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);

/// An object that the watchdog checks.
pub(crate) trait Watched: Send + Sync {
    /// Replaces its thread if it hangs.
    fn look(&self, now: Instant);
}

/// The watchdog thread. Dropping this ends it.
pub(crate) struct Watchdog {
    shared: Arc<WatchShared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct WatchShared {
    state: Mutex<WatchState>,
    changed: Condvar,
    /// The number of queues whose thread is awake.
    awake: AtomicUsize,
    /// The watchdog sleeps until one is.
    asleep: AtomicBool,
    /// Threads that were replaced and have not ended.
    replaced: AtomicUsize,
}

#[derive(Default)]
struct WatchState {
    watched: Vec<Weak<dyn Watched>>,
    stopping: bool,
}

impl WatchShared {
    fn state(&self) -> MutexGuard<'_, WatchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at all queues again and again.
    fn run(&self) {
        let mut state = self.state();
        while !state.stopping {
            self.asleep.store(true, Ordering::SeqCst);
            if self.awake.load(Ordering::SeqCst) == 0 {
                let woken = self.changed.wait(state);
                state = woken.unwrap_or_else(PoisonError::into_inner);
            }
            self.asleep.store(false, Ordering::SeqCst);
            if state.stopping {
                return;
            }
            let woken = self.changed.wait_timeout(state, BETWEEN_LOOKS);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
            state.watched.retain(|batch| batch.strong_count() > 0);
            let watched: Vec<_> = state.watched.iter().filter_map(Weak::upgrade).collect();
            drop(state);
            let now = Instant::now();
            watched.iter().for_each(|batch| batch.look(now));
            drop(watched);
            state = self.state();
        }
    }
}

impl Watchdog {
    /// `watches`: start a thread. Without one, a hanging request blocks its queue.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(watches: bool) -> io::Result<Watchdog> {
        let shared = Arc::<WatchShared>::default();
        let thread = match watches {
            true => {
                let shared = Arc::clone(&shared);
                let thread = thread::Builder::new().name("watchdog".to_owned());
                Some(thread.spawn(move || shared.run())?)
            }
            false => None,
        };
        Ok(Watchdog { shared, thread })
    }

    pub(crate) fn watches(&self) -> bool {
        self.thread.is_some()
    }

    pub(crate) fn add(&self, batch: Weak<dyn Watched>) {
        self.shared.state().watched.push(batch);
    }

    /// Records that the thread of a queue wakes up or goes to sleep.
    pub(crate) fn awake(&self, awake: bool) {
        let shared = &self.shared;
        if !awake {
            shared.awake.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        shared.awake.fetch_add(1, Ordering::SeqCst);
        if shared.asleep.load(Ordering::SeqCst) {
            // Under the lock, so that it is not between its check and its sleep.
            drop(shared.state());
            shared.changed.notify_one();
        }
    }

    /// The number of queues whose thread is awake, without threads that hang.
    pub(crate) fn count_awake(&self) -> usize {
        self.shared.awake.load(Ordering::Relaxed)
    }

    /// Reserves the replacement of one more thread. Refuses if `most` replaced threads have not ended.
    pub(crate) fn reserve(&self, most: usize) -> bool {
        let more = |count| (count < most).then_some(count + 1);
        let counter = &self.shared.replaced;
        counter
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    pub(crate) fn release(&self) {
        self.shared.replaced.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.shared.state().stopping = true;
        self.shared.changed.notify_all();
        // The watchdog itself may be the last to use a batch.
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            let _ = thread.join();
        }
    }
}
