//! The sockets of a file server: one for clients, one after the other, and one that tells what was counted.

use std::io::{self, Write};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::server::FileServer;
use crate::stop::Stop;
use crate::vhost_user;

/// How long a reader of the counts may take.
const READER: Duration = Duration::from_secs(5);

/// What happened to a client.
#[derive(Debug)]
pub enum ClientEvent {
    /// It did not simply leave.
    Disconnected(io::Error),
    /// What its user has to know of the transfer of its state.
    State(String),
}

/// Serves the clients of a socket by vhost-user, one after the other, until it is stopped. Each sees the folder as a
/// new file system.
///
/// # Errors
/// Those of the socket.
pub fn serve(
    listener: &UnixListener,
    server: &Arc<FileServer>,
    stop: &Stop,
    mut told: impl FnMut(ClientEvent),
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
        let stopping = stop.flag();
        let note = |text| told(ClientEvent::State(text));
        if let Err(error) = vhost_user::serve(stream, server, stopping, note) {
            told(ClientEvent::Disconnected(error));
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
