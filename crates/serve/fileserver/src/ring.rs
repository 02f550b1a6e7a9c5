//! A ring of a guest, which its thread, the pool and the thread of messages share.

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use iodyno_vhost::{DescriptorTable, DirtyLog, MAX_DESCRIPTORS, Ring, signal};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use vhost::vhost_user::{Error, Result};
use vm_memory::{GuestAddress, GuestMemoryMmap};

/// Requests of a batch.
pub(crate) const MAX_TAKEN: usize = 256;
/// How long requests in flight may take when the server ends.
const LAST_REQUESTS: Duration = Duration::from_secs(10);
/// Bytes of the used ring with most descriptors.
const USED: usize = 6 + 8 * MAX_DESCRIPTORS as usize;

/// See the module.
pub(crate) struct SharedRing {
    state: Mutex<RingState>,
    /// No request is in flight.
    idle: Condvar,
    /// Wakes its thread.
    wake: OwnedFd,
    /// Requests that the pool has.
    pub(crate) pooled: AtomicUsize,
}

pub(crate) struct RingState {
    pub(crate) ring: Ring,
    pub(crate) memory: Arc<GuestMemoryMmap>,
    /// No requests are taken for now.
    pub(crate) held: bool,
    /// Its thread must end.
    pub(crate) ended: bool,
    /// Threads that wait until no request is in flight.
    drains: usize,
    /// Requests arrived before those that the ring's thread processed were answered.
    pub(crate) early: bool,
    /// The client's memory is being copied; `log` records changes to it.
    pub(crate) copied: bool,
    pub(crate) log: Option<Arc<DirtyLog>>,
}

impl RingState {
    fn runs(&self) -> bool {
        self.ring.runs() && !self.held
    }

    /// Marks the first `written` bytes of these parts of memory as changed.
    fn changed(&self, parts: &[(GuestAddress, usize)], mut written: usize) {
        let Some(log) = self.log.as_ref().filter(|_| self.copied) else {
            return;
        };
        for (start, length) in parts {
            let within = written.min(*length);
            log.mark(*start, within);
            written -= within;
        }
    }

    /// Returns a chain to the client. `parts`: the buffers that were written.
    fn answer(&mut self, head: u16, parts: &[(GuestAddress, usize)], changed: usize, written: u32) {
        self.changed(parts, changed);
        self.ring.answer(&self.memory, head, written);
        // Mark it after the change, so that the client copies it again if it was copied in between.
        self.changed(&[(self.ring.used_ring(), USED)], USED);
    }

    /// The client's event, if it must be notified of replies.
    fn event(&mut self) -> Option<Arc<File>> {
        self.ring.event(&self.memory).cloned()
    }
}

impl SharedRing {
    pub(crate) fn new() -> io::Result<SharedRing> {
        Ok(SharedRing {
            state: Mutex::new(RingState {
                ring: Ring::new()?,
                memory: Arc::default(),
                held: false,
                ended: false,
                drains: 0,
                early: false,
                copied: false,
                log: None,
            }),
            idle: Condvar::new(),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            pooled: AtomicUsize::new(0),
        })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, RingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes its state, and lets its thread look at it.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut RingState) -> T) -> T {
        let changed = change(&mut self.state());
        signal(Some(&self.wake));
        changed
    }

    /// Waits until there may be requests, or a transfer has ended. Returns whether its thread continues.
    pub(crate) fn wait(
        &self,
        transfers: Option<BorrowedFd<'_>>,
        in_flight: usize,
    ) -> io::Result<bool> {
        let kick = {
            let state = self.state();
            // Its thread answers requests in flight.
            if state.ended && in_flight == 0 {
                return Ok(false);
            }
            state.ring.kick().filter(|_| state.runs()).cloned()
        };
        let mut watched = vec![PollFd::new(&self.wake, PollFlags::IN)];
        watched.extend(kick.iter().map(|kick| PollFd::new(&**kick, PollFlags::IN)));
        let transfers = transfers.filter(|_| in_flight > 0);
        watched.extend((transfers.iter()).map(|ended| PollFd::new(ended, PollFlags::IN)));
        match poll(&mut watched, None) {
            Err(rustix::io::Errno::INTR) => return Ok(true),
            other => other?,
        };
        let ready: Vec<bool> = watched.iter().map(|it| !it.revents().is_empty()).collect();
        if ready[0] {
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        }
        if let (Some(kick), Some(true)) = (&kick, ready.get(1)) {
            let _ = rustix::io::read(&**kick, &mut [0; 8]);
        }
        Ok(true)
    }

    /// Takes the requests from the ring. If the ring is empty and its thread is about to sleep, enables notifications
    /// by the client. `request` parses a chain; `None`: it cannot be answered.
    pub(crate) fn take<T>(
        self: &Arc<SharedRing>,
        batch: &mut Vec<T>,
        sleeps: bool,
        request: impl Fn(
            Arc<SharedRing>,
            Arc<GuestMemoryMmap>,
            DescriptorTable,
            u16,
            Instant,
        ) -> Option<T>,
    ) {
        let mut state = self.state();
        loop {
            if !state.runs() {
                return;
            }
            let memory = Arc::clone(&state.memory);
            state.ring.disable_notification(&memory);
            let now = Instant::now();
            while batch.len() < MAX_TAKEN {
                let Some(head) = state.ring.take(&memory) else {
                    break;
                };
                let (ring, table) = (Arc::clone(self), state.ring.table());
                match request(ring, Arc::clone(&memory), table, head, now) {
                    Some(request) => batch.push(request),
                    None => state.answer(head, &[], 0, 0),
                }
            }
            if !batch.is_empty() || !sleeps || !state.ring.enable_notification(&memory) {
                return;
            }
        }
    }

    /// Notifies the client of replies, if it wants that.
    pub(crate) fn notify(&self) {
        let event = self.state().event();
        signal(event);
    }

    /// Completes a request and marks the written parts of memory. `notify`: notify the client at once.
    pub(crate) fn answer(
        &self,
        head: u16,
        reply: &[(GuestAddress, usize)],
        pooled: bool,
        (changed, written): (usize, u32),
        notify: bool,
    ) {
        let mut state = self.state();
        if !pooled {
            let more = state.ring.has_more(&state.memory);
            state.early |= more;
        }
        state.answer(head, reply, changed, written);
        let event = match notify {
            true => state.event(),
            false => None,
        };
        // Waking costs a system call even without waiters.
        let awaited = state.ring.in_flight() == 0 && state.drains > 0;
        drop(state);
        signal(event);
        if awaited {
            self.idle.notify_all();
        }
    }

    /// Waits until no request is in flight.
    pub(crate) fn drain(&self, stopping: &AtomicBool) -> Result<()> {
        let mut state = self.state();
        let mut waited = Duration::ZERO;
        state.drains += 1;
        while state.ring.in_flight() > 0 {
            let step = Duration::from_millis(100);
            let woken = self.idle.wait_timeout(state, step);
            let (next, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
            state = next;
            if timeout.timed_out() && stopping.load(Ordering::Relaxed) {
                waited += step;
                if waited >= LAST_REQUESTS {
                    state.drains -= 1;
                    let error = io::Error::from(io::ErrorKind::TimedOut);
                    return Err(Error::ReqHandlerError(error));
                }
            }
        }
        state.drains -= 1;
        Ok(())
    }
}
