//! Notifies a service manager such as systemd, if it requests that: sd_notify(3), one datagram each.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;

/// The environment variable with the address of its socket.
const VARIABLE: &str = "NOTIFY_SOCKET";

/// A service manager. Its clones are the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Manager(Option<Arc<UnixDatagram>>);

impl Manager {
    /// The one that started this process, if it waits for news.
    pub(crate) fn find() -> Manager {
        let place = std::env::var_os(VARIABLE);
        // A manager that has exited is ignored.
        Manager(place.and_then(|place| connected(&place).ok()).map(Arc::new))
    }

    /// Requests are served.
    pub(crate) fn ready(&self) {
        self.tell(b"READY=1");
    }

    /// The server stops.
    pub(crate) fn stopping(&self) {
        self.tell(b"STOPPING=1");
    }

    fn tell(&self, text: &[u8]) {
        if let Some(socket) = &self.0 {
            let _ = socket.send(text);
        }
    }
}

fn connected(place: &OsStr) -> io::Result<UnixDatagram> {
    let address = match place.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(place)?,
    };
    let socket = UnixDatagram::unbound()?;
    // A manager that does not read must not delay the server.
    socket.set_nonblocking(true)?;
    socket.connect_addr(&address)?;
    Ok(socket)
}
