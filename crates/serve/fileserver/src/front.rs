//! The sockets of a file server: one for clients, one after the other, and one that reports statistics.

use std::io::{self, Write};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::server::FileServer;
use crate::stop::Stop;
use crate::vhost_user;

/// Write timeout for a reader of the statistics.
const READER: Duration = Duration::from_secs(5);

/// An event of a client.
#[derive(Debug)]
pub enum ClientEvent {
    /// The connection ended with an error.
    Disconnected(io::Error),
    /// A note for the user about a state transfer.
    State(String),
}

/// Serves the vhost-user clients of a socket, one after the other, until stopped. Each sees the folder as a new file
/// system.
///
/// # Errors
/// Those of the socket.
pub fn serve(
    listener: &UnixListener,
    server: &Arc<FileServer>,
    stop: &Stop,
    mut on_event: impl FnMut(ClientEvent),
) -> io::Result<()> {
    while stop.wait(listener)? {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            // The client has gone.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(error) => return Err(error),
        };
        *stop.client() = Some(stream.try_clone()?);
        // The server may have been stopped before the client was registered.
        if stop.is_stopped() {
            return Ok(());
        }
        let stopping = stop.flag();
        let note = |text| on_event(ClientEvent::State(text));
        if let Err(error) = vhost_user::serve(stream, server, stopping, note) {
            on_event(ClientEvent::Disconnected(error));
        }
        *stop.client() = None;
    }
    Ok(())
}

/// Sends each client of a socket the statistics as JSON, from a new thread.
///
/// # Errors
/// The thread cannot be started.
pub fn serve_stats(
    listener: UnixListener,
    server: &Arc<FileServer>,
    stop: &Stop,
) -> io::Result<()> {
    let (server, stop) = (Arc::clone(server), stop.clone());
    let serve = move || {
        while let Ok(true) = stop.wait(&listener) {
            if let Ok((mut stream, _)) = listener.accept() {
                // A reader that does not read gets a truncated answer.
                let _ = stream.set_write_timeout(Some(READER));
                let _ = stream.write_all(server.stats().as_bytes());
            }
        }
    };
    let thread = thread::Builder::new().name("stats".to_owned());
    thread.spawn(serve).map(drop)
}
