//! The sockets on which a mirror is served.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A socket on which a mirror is served.
#[derive(Debug)]
pub enum Listener {
    /// A Unix socket, removed when it is dropped.
    Unix(UnixListener, PathBuf),
    /// TCP.
    Tcp(TcpListener),
}

impl Listener {
    /// A Unix socket that only this user may connect to. Replaces a socket without a listener.
    ///
    /// # Errors
    /// Those of bind(2): `EADDRINUSE` if the path is a file, or another process listens.
    pub fn unix(path: &Path) -> io::Result<Listener> {
        let left = path
            .symlink_metadata()
            .is_ok_and(|found| found.file_type().is_socket())
            && iodyno_sys::socket::connect(path)
                .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
        if left {
            std::fs::remove_file(path)?;
        }
        // The mode is right from the beginning. No other thread creates files now.
        let mask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
        let bound = iodyno_sys::socket::bind(path);
        rustix::process::umask(mask);
        Ok(Listener::Unix(bound?, path.to_owned()))
    }

    /// A TCP socket.
    ///
    /// # Errors
    /// As bind(2).
    pub fn tcp(address: SocketAddr) -> io::Result<Listener> {
        Ok(Listener::Tcp(TcpListener::bind(address)?))
    }

    pub(crate) fn accept(&self) -> io::Result<UnixStream> {
        match self {
            Listener::Unix(listener, _) => Ok(listener.accept()?.0),
            Listener::Tcp(listener) => {
                let stream = listener.accept()?.0;
                stream.set_nodelay(true)?;
                // What is used of a stream is the same for all sockets.
                Ok(OwnedFd::from(stream).into())
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            // Another server may have replaced it; then its own file is gone already.
            let _ = std::fs::remove_file(path);
        }
    }
}
