//! Transfers the state of a client to or from its front end while this client is paused: SET_DEVICE_STATE_FD and
//! CHECK_DEVICE_STATE of vhost-user.
//!
//! A separate thread does this, because the front end uses its end of the pipe only after the reply to its message. The
//! thread ends when the front end disconnects or the server stops, which shuts down the socket of the connection.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use iodyno_sys::thread::own_directory;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use crate::server::Client;
use crate::state::{MOST, Refused};

/// How often a waiting thread checks whether it must end.
const STEP: Duration = Duration::from_millis(100);

/// A thread that looks up the names of all nodes before the state is requested, while the client continues.
pub(crate) struct Preparation {
    cancel: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Preparation {
    /// # Errors
    /// No thread can be started.
    pub(crate) fn start(client: Arc<Client>) -> io::Result<Preparation> {
        let cancel = Arc::new(AtomicBool::new(false));
        let cancelled = Arc::clone(&cancel);
        let prepare = move || {
            own_directory();
            client.folder.prepare_to_save(cancelled);
        };
        let thread = thread::Builder::new().name("state names".to_owned());
        Ok(Preparation {
            cancel,
            thread: thread.spawn(prepare)?,
        })
    }

    /// Ends it early. Its results may be unused.
    pub(crate) fn cancel(self) {
        self.cancel.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
    }
}

/// A state on its way.
pub(crate) struct Transfer {
    loads: bool,
    cancel: Arc<AtomicBool>,
    /// The outcome, with a message for the user.
    ended: Receiver<io::Result<Option<String>>>,
    thread: JoinHandle<()>,
}

impl Transfer {
    /// Writes the state of a client to a pipe.
    ///
    /// # Errors
    /// No thread can be started.
    pub(crate) fn save(
        client: Arc<Client>,
        preparation: Option<Preparation>,
        pipe: File,
        socket: UnixStream,
    ) -> io::Result<Transfer> {
        let cancel = match &preparation {
            Some(preparation) => Arc::clone(&preparation.cancel),
            None => Arc::default(),
        };
        Transfer::start(false, cancel, move |cancel| {
            match preparation {
                Some(preparation) => preparation.thread.join().map_err(|_| failed())?,
                None => client.folder.prepare_to_save(Arc::clone(cancel)),
            }
            let (bytes, lost) = client.folder.save()?;
            Pipe::new(pipe, &socket, cancel)?.send(&bytes)?;
            Ok((lost > 0).then(|| {
                format!(
                    "files that the client knows have no name in the folder ({lost}): they were removed or moved away. \
                     What happens to them is up to the server that loads the state (`--migration-on-error`)"
                )
            }))
        })
    }

    /// Reads the state of a client from a pipe, and restores it.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn load(
        client: Arc<Client>,
        pipe: File,
        socket: UnixStream,
    ) -> io::Result<Transfer> {
        Transfer::start(true, Arc::default(), move |cancel| {
            let bytes = Pipe::new(pipe, &socket, cancel)?.receive()?;
            let (missing, first) = client.folder.load(&bytes)?;
            Ok((missing > 0).then(|| {
                let first = first.map_or_else(String::new, |path| format!(", such as `{path}`"));
                format!(
                    "files that the client knows were not found ({missing}{first}): it gets errors for them"
                )
            }))
        })
    }

    fn start(
        loads: bool,
        cancel: Arc<AtomicBool>,
        work: impl FnOnce(&Arc<AtomicBool>) -> io::Result<Option<String>> + Send + 'static,
    ) -> io::Result<Transfer> {
        let (end, ended) = channel();
        let cancelled = Arc::clone(&cancel);
        let run = move || {
            own_directory();
            // After the end of the connection, no receiver is left.
            let _ = end.send(work(&cancelled));
        };
        let thread = thread::Builder::new().name("state".to_owned());
        Ok(Transfer {
            loads,
            cancel,
            ended,
            thread: thread.spawn(run)?,
        })
    }

    /// Waits for its end. Returns a note for the user that is no error.
    ///
    /// # Errors
    /// The state was not transferred completely, with a message for the user.
    pub(crate) fn check(self, socket: &UnixStream) -> io::Result<Option<String>> {
        let ended = loop {
            match self.ended.recv_timeout(STEP) {
                Ok(ended) => break ended,
                Err(RecvTimeoutError::Timeout) => {
                    if is_over(socket) {
                        self.cancel.store(true, Ordering::Relaxed);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break Err(failed()),
            }
        };
        let _ = self.thread.join();
        let done = match self.loads {
            true => "load",
            false => "save",
        };
        ended.map_err(|error| {
            let text = format!("cannot {done} the state of the client: {error}");
            io::Error::new(error.kind(), text)
        })
    }

    /// Ends it early.
    pub(crate) fn cancel(self) {
        self.cancel.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
    }
}

/// A thread has panicked.
fn failed() -> io::Error {
    io::Error::other("the file system failed; please report it")
}

/// Whether the connection of a socket has ended.
fn is_over(socket: &UnixStream) -> bool {
    let mut watched = [PollFd::new(socket, PollFlags::RDHUP)];
    let now = Timespec::default();
    poll(&mut watched, Some(&now)).is_ok_and(|ready| ready > 0)
}

/// Our end of the pipe to the front end.
struct Pipe<'a> {
    file: File,
    socket: &'a UnixStream,
    cancel: &'a AtomicBool,
}

impl<'a> Pipe<'a> {
    fn new(file: File, socket: &'a UnixStream, cancel: &'a AtomicBool) -> io::Result<Pipe<'a>> {
        // Writing would wait for room otherwise.
        fcntl_setfl(&file, fcntl_getfl(&file)? | OFlags::NONBLOCK)?;
        Ok(Pipe {
            file,
            socket,
            cancel,
        })
    }

    /// Waits until it can be read or written.
    fn wait(&self, events: PollFlags) -> io::Result<()> {
        let step = Timespec::try_from(STEP).map_err(io::Error::other)?;
        loop {
            let mut watched = [
                PollFd::from_borrowed_fd(self.file.as_fd(), events),
                PollFd::new(self.socket, PollFlags::RDHUP),
            ];
            match poll(&mut watched, Some(&step)) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            if !watched[1].revents().is_empty() || self.cancel.load(Ordering::Relaxed) {
                let text = "the connection of the front end has ended";
                return Err(io::Error::new(io::ErrorKind::ConnectionAborted, text));
            }
            if !watched[0].revents().is_empty() {
                return Ok(());
            }
        }
    }

    fn send(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.wait(PollFlags::OUT)?;
            match rustix::io::write(&self.file, bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::PIPE) => {
                    let text = "the front end closed the connection before it had all of it";
                    return Err(io::Error::new(io::ErrorKind::BrokenPipe, text));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn receive(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut part = vec![0; 64 << 10];
        loop {
            self.wait(PollFlags::IN)?;
            match rustix::io::read(&self.file, &mut part) {
                Ok(0) => return Ok(bytes),
                Ok(count) => bytes.extend_from_slice(&part[..count]),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if bytes.len() > MOST {
                return Err(io::Error::other(Refused::TooLong));
            }
        }
    }
}
