//! Handles requests that hang in the thread of a queue: another thread continues with the queue.
//!
//! The requests of a batch that a queue's thread processes inline are in an [`InlineBatch`], from which it takes one
//! after the other. The watchdog thread checks these batches of all queues. If a thread has been at one request for
//! longer than [`LIMIT`], the watchdog takes the rest of the batch. It starts a substitute thread, which processes the
//! rest and continues with the queue. A thread may also hang in `io_uring_enter`: the kernel should not wait for
//! storage there, but does on some file systems (FUSE).
//!
//! # Invariants
//!
//! - One thread serves a queue at a time. A replaced thread notices when its request ends. It answers this request and
//!   those in flight on its own io_uring, and ends.
//! - A request is either with a thread or in one batch. None is lost or executed twice, even if no substitute can be
//!   started: then the pool gets the rest, and the queue waits.
//! - While all queues are idle, the watchdog sleeps. It normally costs one uncontended lock per request that a queue's
//!   thread processes.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::policy::Class;
use crate::server::Client;
use crate::watchdog::Watched;
use crate::work::{Request, Work};

/// How long a queue's thread may spend on one request. Working storage takes less, except for requests such as fsync(2)
/// of much data. A substitute for these costs no more than starting a thread.
const LIMIT: Duration = Duration::from_secs(1);
/// Starts the substitute thread of a queue, with its new batch.
type Substitute<R> = Box<dyn Fn(Arc<InlineBatch<R>>) -> io::Result<()> + Send + Sync>;

/// Requests that a queue's thread processes itself.
pub(crate) struct InlineBatch<R: Request> {
    client: Arc<Client>,
    state: Mutex<BatchState<R>>,
    /// Replaced threads of this queue whose request has not ended.
    hung: Arc<AtomicUsize>,
    /// There is one if the watchdog looks at it.
    substitute: OnceLock<Substitute<R>>,
}

struct BatchState<R> {
    /// The requests of the batch. Taken ones are `None`.
    works: Vec<Option<Work<R>>>,
    /// When the thread began its current request.
    since: Option<Instant>,
    /// The class of this request.
    class: Option<Class>,
    /// The class that the watchdog found hanging.
    hangs: Option<Class>,
    /// Another thread continues with the queue.
    replaced: bool,
}

impl<R: Request> InlineBatch<R> {
    /// Creates the batch of a new queue.
    pub(crate) fn new(client: Arc<Client>) -> Arc<InlineBatch<R>> {
        InlineBatch::with(client, Vec::new(), Arc::default())
    }

    fn with(
        client: Arc<Client>,
        works: Vec<Option<Work<R>>>,
        hung: Arc<AtomicUsize>,
    ) -> Arc<InlineBatch<R>> {
        Arc::new(InlineBatch {
            client,
            state: Mutex::new(BatchState {
                works,
                since: None,
                class: None,
                hangs: None,
                replaced: false,
            }),
            hung,
            substitute: OnceLock::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, BatchState<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// Registers the batch with the watchdog.
    pub(crate) fn watch(self: &Arc<InlineBatch<R>>, substitute: Substitute<R>) {
        if self.client.server.watchdog.watches() && self.substitute.set(substitute).is_ok() {
            let own = Arc::downgrade(self);
            self.client.server.watchdog.add(own);
        }
    }

    /// Hung threads of this queue, besides the one that serves it now.
    pub(crate) fn hung(&self) -> usize {
        self.hung.load(Ordering::Relaxed)
    }

    /// Takes the requests that the replaced thread left.
    pub(crate) fn left(&self) -> Vec<Option<Work<R>>> {
        std::mem::take(&mut self.state().works)
    }

    /// Starts a batch of these requests. `class`: of transfers that are started first.
    pub(crate) fn begin(&self, works: Vec<Option<Work<R>>>, class: Option<Class>) {
        let now = Instant::now();
        let mut state = self.state();
        state.works = works;
        (state.since, state.class) = (Some(now), class);
    }

    /// Takes one request without restarting the watchdog's clock. `None`: it was already taken.
    pub(crate) fn take(&self, at: usize) -> Option<Work<R>> {
        self.state().works.get_mut(at)?.take()
    }

    /// Takes one request, and watches it from now on.
    pub(crate) fn take_at(&self, at: usize, now: Instant, class: Class) -> Option<Work<R>> {
        let mut state = self.state();
        let work = state.works.get_mut(at)?.take()?;
        (state.since, state.class) = (Some(now), Some(class));
        Some(work)
    }

    /// Puts a request back.
    pub(crate) fn put_back(&self, at: usize, work: Work<R>) {
        if let Some(place) = self.state().works.get_mut(at) {
            *place = Some(work);
        }
    }

    /// Ends the batch. Returns the remaining requests, and whether another thread continues with the queue.
    pub(crate) fn end(&self) -> (Vec<Option<Work<R>>>, bool) {
        let mut state = self.state();
        state.since = None;
        if let Some(class) = state.hangs.take() {
            self.client.server.estimates.hangs(class, false);
        }
        if state.replaced {
            self.hung.fetch_sub(1, Ordering::Relaxed);
        }
        (std::mem::take(&mut state.works), state.replaced)
    }
}

impl<R: Request> Drop for InlineBatch<R> {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if state.replaced {
            self.client.server.watchdog.release();
        }
    }
}

impl<R: Request> Watched for InlineBatch<R> {
    fn look(&self, now: Instant) {
        let mut state = self.state();
        let long = |since| now.saturating_duration_since(since) >= LIMIT;
        let (Some(substitute), false, true) = (
            self.substitute.get(),
            state.replaced,
            state.since.is_some_and(long),
        ) else {
            return;
        };
        let server = &self.client.server;
        if let (Some(class), None) = (state.class, state.hangs) {
            state.hangs = Some(class);
            server.estimates.hangs(class, true);
        }
        let left = state.works.iter_mut().filter_map(Option::take);
        let left = left.map(Some).collect();
        let next = InlineBatch::with(Arc::clone(&self.client), left, Arc::clone(&self.hung));
        if server.watchdog.reserve(server.threads.into()) {
            self.hung.fetch_add(1, Ordering::Relaxed);
            match substitute(Arc::clone(&next)) {
                Ok(()) => {
                    state.replaced = true;
                    server.stats.substituted();
                    // It waits, and needs no processor.
                    server.watchdog.awake(false);
                    return;
                }
                Err(_) => {
                    self.hung.fetch_sub(1, Ordering::Relaxed);
                    server.watchdog.release();
                }
            }
        }
        drop(state);
        self.client.hand_over(next.left().into_iter().flatten());
    }
}
