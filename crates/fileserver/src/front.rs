//! The sockets of a file server: one for clients, one after the other, and one that tells what was counted.

use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;

use crate::server::FileServer;
use crate::vhost_user;

/// How long a reader of the counts may take.
const READER: Duration = Duration::from_secs(5);

/// What happened to a client.
#[derive(Debug)]
pub enum Told {
    /// It did not simply leave.
    Disconnected(io::Error),
    /// What its user has to know of the transfer of its state.
    State(String),
}

/// Ends a server. Its clones end the same one.
#[derive(Debug, Clone)]
pub struct Stop(Arc<Stopping>);

#[derive(Debug)]
struct Stopping {
    stopping: Arc<AtomicBool>,
    wake: OwnedFd,
    client: Mutex<Option<UnixStream>>,
}

impl Stop {
    /// Of a server that runs.
    ///
    /// # Errors
    /// As eventfd(2).
    pub fn new() -> io::Result<Stop> {
        Ok(Stop(Arc::new(Stopping {
            stopping: Arc::default(),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            client: Mutex::default(),
        })))
    }

    /// Ends the server when the requests of its client in flight have been answered.
    pub fn stop(&self) {
        self.0.stopping.store(true, Ordering::SeqCst);
        let _ = rustix::io::write(&self.0.wake, &1u64.to_ne_bytes());
        if let Some(client) = &*self.client() {
            let _ = client.shutdown(Shutdown::Read);
        }
    }

    /// Whether it was stopped.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.stopping.load(Ordering::SeqCst)
    }

    fn client(&self) -> std::sync::MutexGuard<'_, Option<UnixStream>> {
        (self.0.client.lock()).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a descriptor can be read. Returns whether it can: otherwise the server ends.
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

/// Serves the clients of a socket by vhost-user, one after the other, until it is stopped. Each sees the folder as a new file system.
///
/// # Errors
/// Those of the socket.
pub fn serve(
    listener: &UnixListener,
    server: &Arc<FileServer>,
    stop: &Stop,
    mut told: impl FnMut(Told),
) -> io::Result<()> {
    while stop.wait(listener)? {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            // The client has gone.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(error) => return Err(error),
        };
        *stop.client() = Some(stream.try_clone()?);
        // It may have been stopped before the client was known.
        if stop.is_stopped() {
            return Ok(());
        }
        let stopping = Arc::clone(&stop.0.stopping);
        let note = |text| told(Told::State(text));
        if let Err(error) = vhost_user::serve(stream, server, stopping, note) {
            told(Told::Disconnected(error));
        }
        *stop.client() = None;
    }
    Ok(())
}

/// Tells each client of a socket what was counted, in a thread of its own, as JSON.
///
/// # Errors
/// No thread can be started.
pub fn tell(listener: UnixListener, server: &Arc<FileServer>, stop: &Stop) -> io::Result<()> {
    let (server, stop) = (Arc::clone(server), stop.clone());
    let tell = move || {
        while let Ok(true) = stop.wait(&listener) {
            if let Ok((mut stream, _)) = listener.accept() {
                // A reader that does not read gets less.
                let _ = stream.set_write_timeout(Some(READER));
                let _ = stream.write_all(server.stats().as_bytes());
            }
        }
    };
    let thread = thread::Builder::new().name("stats".to_owned());
    thread.spawn(tell).map(drop)
}
