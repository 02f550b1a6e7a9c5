//! The threads of `/dev/fuse`, and the workers of all threads.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::message::{Message, SessionState};

/// Starts another thread that reads `/dev/fuse`, with this worker. Fails if no thread can be started, or if the session
/// ends.
pub type SpawnReader<W> = Arc<dyn Fn(W) -> io::Result<()> + Send + Sync>;

/// Works requests. Each thread of a session has one.
pub trait Worker: Sized + Send + 'static {
    /// The thread calls this first. `spawn`: starts a thread of `/dev/fuse`.
    ///
    /// # Errors
    /// An error ends the session.
    fn start(&mut self, spawn: Option<SpawnReader<Self>>) -> io::Result<()> {
        let _ = spawn;
        Ok(())
    }

    /// Whether another thread continues in place of this one, which then waits for pending work and ends.
    fn is_replaced(&self) -> bool {
        false
    }

    /// Processes a batch and leaves it empty. `flush` sends this thread's replies before the end of the batch.
    ///
    /// # Errors
    /// An error ends the session.
    fn work(&mut self, batch: &mut Vec<Message>, flush: &dyn Fn()) -> io::Result<()>;

    /// A descriptor that is readable when pending work, such as a transfer, has ended; then [`Self::complete_pending`] is
    /// called. `None`: nothing is pending. Only the thread of `/dev/fuse` uses it. At the end of the session, it waits until
    /// nothing is pending. Only its messages can be lent.
    fn pending(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Completes pending work that has ended.
    ///
    /// # Errors
    /// An error ends the session.
    fn complete_pending(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SessionState {
    /// Starts a thread of `/dev/fuse`.
    pub(super) fn start_device<W: Worker>(
        self: &Arc<SessionState>,
        mut worker: W,
    ) -> io::Result<()> {
        let mut threads = self.threads();
        // The session joins only registered threads.
        if self.stopping.load(Ordering::Acquire) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let shared = Arc::clone(self);
        let named = thread::Builder::new().name("fuse".to_owned());
        threads.push(named.spawn(move || shared.run_device(&mut worker))?);
        Ok(())
    }

    fn run_device<W: Worker>(self: &Arc<SessionState>, worker: &mut W) {
        let shared = Arc::clone(self);
        let spawn: SpawnReader<W> = Arc::new(move |worker| shared.start_device(worker));
        let served = (worker.start(Some(spawn))).and_then(|()| self.serve_device(worker));
        if served.is_err() || !worker.is_replaced() {
            self.ended(served);
        }
        while worker.pending().is_some() {
            if let Err(error) = wait(worker, &[]) {
                return self.ended(Err(error));
            }
        }
    }

    /// Serves requests from `/dev/fuse`.
    fn serve_device(self: &Arc<SessionState>, worker: &mut impl Worker) -> io::Result<()> {
        let wake = &self.wake;
        let mut batch = Vec::with_capacity(self.batch);
        while !self.stopping.load(Ordering::Acquire) && !worker.is_replaced() {
            // The write(2) of a reply makes requests readable that depended on it. So when none is in flight, all are
            // readable.
            let last = self.draining.load(Ordering::Acquire)
                && self.in_flight.load(Ordering::Acquire) == 0;
            if !self.take(&mut batch)? {
                return Ok(());
            }
            if !batch.is_empty() {
                worker.work(&mut batch, &|| ())?;
                continue;
            }
            if last {
                return Ok(());
            }
            wait(worker, &[wake.as_fd(), self.device.as_fd()])?;
            if worker.is_replaced() {
                // Wake-ups are for the other thread.
                break;
            }
            // Does not block.
            let _ = rustix::io::read(wake, &mut [0; 8]);
        }
        Ok(())
    }
}

/// Waits until a descriptor is readable or the worker has pending work that ended.
fn wait(worker: &mut impl Worker, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let pending = worker.pending();
    let all = pending.iter().chain(descriptors);
    let mut watched: Vec<_> = all
        .map(|descriptor| PollFd::new(descriptor, PollFlags::IN))
        .collect();
    match poll(&mut watched, None) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let continues = pending.is_some() && !watched[0].revents().is_empty();
    match continues {
        true => worker.complete_pending(),
        false => Ok(()),
    }
}
