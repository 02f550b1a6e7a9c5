//! Unix sockets with paths of any length.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The longest path in the address of a socket, bytes; see unix(7).
const LONGEST: usize = 107;

/// Connects to a socket.
///
/// # Errors
/// Those of connect(2), and of open(2) for the folder of a long path.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    short(path, |path| UnixStream::connect(path))
}

/// Binds a new socket.
///
/// # Errors
/// Those of bind(2), and of open(2) for the folder of a long path.
pub fn bind(path: &Path) -> io::Result<UnixListener> {
    short(path, |path| UnixListener::bind(path))
}

/// Calls with the path, or with a short name of the same file if the path is too long for an address.
fn short<T>(path: &Path, call: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return call(path);
    };
    if path.as_os_str().len() <= LONGEST {
        return call(path);
    }
    let folder = File::options()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
        .open(folder)?;
    call(&PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_can_have_a_long_path() {
        let folder = tempfile::tempdir().unwrap();
        let long = folder.path().join("x".repeat(200));
        std::fs::create_dir(&long).unwrap();
        let path = long.join("socket");
        assert!(UnixListener::bind(&path).is_err());
        let _listener = bind(&path).unwrap();
        assert!(path.symlink_metadata().is_ok());
        connect(&path).unwrap();
    }
}
