//! The threads that receive the requests of a mounted file system, and the paths of replies.
//!
//! One thread reads `/dev/fuse`: all requests, or with io_uring only those to forget nodes. The kernel's io_uring
//! queues, one per CPU, are distributed over as many threads as CPUs are online. Each thread has a [`Worker`], which
//! gets all available requests as a batch. While a request blocks the thread of `/dev/fuse`, another one can continue
//! in its place ([`SpawnReader`]).
//!
//! # Invariants
//!
//! - Each request that expects a reply gets one: a dropped [`Message`] answers EIO.
//! - Any thread may write the reply to a request of `/dev/fuse`. Ring entries return to the ring's thread, which is
//!   woken only if it sleeps.
//! - io_uring is negotiated only after all rings were created. If the kernel refuses an entry, the session continues on
//!   `/dev/fuse`.
//! - Request memory lent to a transfer is freed only after the transfer has ended. The thread of `/dev/fuse` waits for
//!   all of them.
//! - A signal to the requesting process does not interrupt its request: interrupt requests are dropped. The process
//!   ends after its reply.

mod device;
mod message;
mod ring;

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use iodyno_vhost::signal;
use rustix::event::{EventfdFlags, eventfd};

use super::mount::Mounted;
use super::{Transport, Used, Wanted};
use message::{Negotiation, ReturnQueue, SessionState};
use ring::{ASKS, RingThread, queues};

pub use device::{SpawnReader, Worker};
pub use message::Message;

/// How long requests in flight may take when the session ends.
const LAST_REQUESTS: Duration = Duration::from_secs(10);
/// Between two looks whether all threads have ended.
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// A file system that is served.
pub struct Session {
    mounted: Mounted,
    shared: Arc<SessionState>,
    backs: Vec<Arc<ReturnQueue>>,
    used: Used,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({:?}, {})", self.mounted, self.used)
    }
}

impl Session {
    /// Serves a mounted file system with threads, each with a worker. Waits until the protocol is negotiated.
    ///
    /// # Errors
    /// A thread cannot be started, negotiation fails, or required io_uring is unavailable.
    pub fn start<W: Worker>(
        mounted: Mounted,
        wanted: Wanted,
        mut worker: impl FnMut() -> io::Result<W>,
    ) -> io::Result<Session> {
        let quiet = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let shared = Arc::new(SessionState {
            device: Arc::clone(&mounted.device),
            io_uring: AtomicBool::new(false),
            passthrough: wanted.passthrough,
            state: Mutex::default(),
            changed: Condvar::new(),
            in_flight: AtomicUsize::new(0),
            worked: AtomicU64::new(0),
            draining: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            buffers: Mutex::default(),
            threads: Mutex::default(),
            wake: eventfd(0, quiet)?,
            batch: wanted.batch,
            ended: eventfd(0, quiet)?,
        });
        let mut session = Session {
            mounted,
            backs: Vec::new(),
            used: Used::Device(None),
            shared,
        };
        match session.begin(wanted.transport, &mut worker) {
            Ok(used) => {
                session.used = used;
                Ok(session)
            }
            Err(error) => {
                // The first error counts.
                let _ = session.end();
                Err(error)
            }
        }
    }

    fn begin<W: Worker>(
        &mut self,
        transport: Transport,
        worker: &mut impl FnMut() -> io::Result<W>,
    ) -> io::Result<Used> {
        let rings = match transport {
            Transport::Device => Ok(0),
            _ => queues()
                .map_err(io::Error::other)
                .and_then(|queues| self.start_rings(queues, worker)),
        };
        let (rings, mut missing) = match rings {
            Ok(rings) => (rings, None),
            Err(error) if transport == Transport::IoUring => return Err(error),
            Err(error) => (0, Some(error)),
        };
        self.shared.io_uring.store(rings > 0, Ordering::Release);
        self.shared.start_device(worker()?)?;
        let mut state = self.shared.wait_while(ASKS, |state| {
            let ready = match state.agreed {
                None => false,
                Some(agreed) => {
                    !agreed.io_uring || state.refused.is_some() || state.registered == rings
                }
            };
            !ready && !state.ended
        });
        match state.agreed {
            None => {
                let failed = state.failed.take();
                let text = "the kernel does not ask for the protocol";
                return Err(failed.unwrap_or_else(|| io::Error::other(text)));
            }
            Some(agreed) if rings > 0 && !agreed.io_uring => {
                missing = Some(io::Error::other("the kernel does not offer it"));
            }
            Some(_) => missing = state.refused.take().or(missing),
        }
        match (missing, rings) {
            (Some(error), _) if transport == Transport::IoUring => Err(error),
            (Some(error), _) => Ok(Used::Device(Some(error.to_string()))),
            (None, 0) => Ok(Used::Device(None)),
            (None, rings) => Ok(Used::IoUring(rings)),
        }
    }

    /// Starts a thread for each list of queues, and waits until all rings are made. Returns their number.
    fn start_rings<W: Worker>(
        &mut self,
        queues: Vec<Vec<(u16, u32)>>,
        worker: &mut impl FnMut() -> io::Result<W>,
    ) -> io::Result<usize> {
        let (made, results) = channel();
        let count = queues.len();
        for (number, queues) in queues.into_iter().enumerate() {
            let back = Arc::new(ReturnQueue {
                given: Mutex::default(),
                wake: eventfd(0, EventfdFlags::CLOEXEC)?,
            });
            self.backs.push(Arc::clone(&back));
            let thread = RingThread {
                shared: Arc::clone(&self.shared),
                back,
                queues,
            };
            let (made, mut worker) = (made.clone(), worker()?);
            let named = thread::Builder::new().name(format!("fuse-{number}"));
            let thread = named.spawn(move || thread.run(&mut worker, made))?;
            self.shared.threads().push(thread);
        }
        drop(made);
        results.iter().collect::<io::Result<Vec<()>>>()?;
        Ok(count)
    }

    /// The transport in use.
    #[must_use]
    pub fn used(&self) -> &Used {
        &self.used
    }

    /// Whether the kernel reads and writes the files that the server names.
    #[must_use]
    pub fn passes_through(&self) -> bool {
        let agreed = self.shared.state().agreed;
        agreed.is_some_and(|agreed| agreed.passthrough)
    }

    /// A descriptor that is readable when the session has ended: it was unmounted, or a thread failed.
    #[must_use]
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.shared.ended.as_fd()
    }

    /// Unmounts the file system while requests are still answered, and ends the session after those in flight. Programs
    /// that use its files get errors from then on.
    ///
    /// # Errors
    /// The errors by which a thread ended the session; requests do not end.
    pub fn end(mut self) -> io::Result<()> {
        let limit = Instant::now() + LAST_REQUESTS;
        let (ended, agreed) = {
            let state = self.shared.state();
            (state.ended, state.agreed.is_some())
        };
        // Opening the folder before the protocol is negotiated would wait for it.
        if agreed && !ended {
            let shared = &self.shared;
            let worked = || shared.worked.load(Ordering::Relaxed);
            self.mounted.unmount(LAST_REQUESTS, worked);
            self.drain(limit);
        }
        self.stop_threads();
        let busy = |_: &Negotiation| self.shared.in_flight.load(Ordering::Acquire) > 0;
        let left = limit.saturating_duration_since(Instant::now());
        let mut state = self.shared.wait_while(left, busy);
        if busy(&state) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let failed = state.failed.take();
        drop(state);
        // No more are started.
        let threads = std::mem::take(&mut *self.shared.threads());
        for thread in threads {
            // A panic of a worker has answered its requests.
            let _ = thread.join();
        }
        failed.map_or(Ok(()), Err)
    }

    /// Serves until idle: syncfs(2) starts the writes of a FUSE file system and need not wait for them. Programs that
    /// keep using its files are served until the limit.
    fn drain(&self, limit: Instant) {
        self.shared.draining.store(true, Ordering::Release);
        let busy = || !self.shared.threads().iter().all(JoinHandle::is_finished);
        while busy() && Instant::now() < limit {
            self.wake_threads();
            thread::sleep(BETWEEN_LOOKS);
        }
    }

    fn stop_threads(&self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.change(|_| ());
        self.wake_threads();
    }

    fn wake_threads(&self) {
        signal(Some(&self.shared.wake));
        self.backs.iter().for_each(|back| signal(Some(&back.wake)));
    }
}
