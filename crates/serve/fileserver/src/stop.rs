//! Stops a server, from any thread.

use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use iodyno_vhost::signal;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;

/// Stops a server. Clones refer to the same server.
#[derive(Debug, Clone)]
pub struct Stop(Arc<Stopping>);

#[derive(Debug)]
struct Stopping {
    stopping: Arc<AtomicBool>,
    wake: OwnedFd,
    client: Mutex<Option<UnixStream>>,
}

impl Stop {
    /// Creates the handle of a running server.
    ///
    /// # Errors
    /// Those of eventfd(2).
    pub fn new() -> io::Result<Stop> {
        Ok(Stop(Arc::new(Stopping {
            stopping: Arc::default(),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            client: Mutex::default(),
        })))
    }

    /// Stops the server after the requests in flight have been answered.
    pub fn stop(&self) {
        self.0.stopping.store(true, Ordering::SeqCst);
        signal(Some(&self.0.wake));
        if let Some(client) = &*self.client() {
            let _ = client.shutdown(Shutdown::Read);
        }
    }

    /// Whether it was stopped.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.stopping.load(Ordering::SeqCst)
    }

    /// A flag that is set when the server stops.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0.stopping)
    }

    /// The connection that [`Self::stop`] shuts down.
    pub(crate) fn client(&self) -> std::sync::MutexGuard<'_, Option<UnixStream>> {
        (self.0.client.lock()).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a descriptor is readable. Returns false if the server stops first.
    pub(crate) fn wait(&self, readable: impl std::os::fd::AsFd) -> io::Result<bool> {
        loop {
            let mut watched = [
                PollFd::new(&self.0.wake, PollFlags::IN),
                PollFd::new(&readable, PollFlags::IN),
            ];
            match poll(&mut watched, None) {
                Err(Errno::INTR) => {}
                other => {
                    other?;
                    return Ok(!self.is_stopped());
                }
            }
        }
    }
}
