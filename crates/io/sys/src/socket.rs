//! Unix sockets with paths of any length.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The longest path in the address of a socket, bytes; see unix(7).
const LONGEST: usize = 107;

/// Connects to a socket.
///
/// # Errors
/// Those of connect(2), and of open(2) for the folder of a long path.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    short(path, |path| UnixStream::connect(path))
}

/// Binds a new socket. It appears at its path only once it listens, so a client that sees it can connect.
///
/// # Errors
/// Those of bind(2), of link(2), and of open(2) for the folder of a long path.
pub fn bind(path: &Path) -> io::Result<UnixListener> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let hidden = path.with_file_name(format!(".{}-{number}.socket", std::process::id()));
    // Left by a process with the same number.
    let _ = std::fs::remove_file(&hidden);
    let bound = short(&hidden, |hidden| UnixListener::bind(hidden))?;
    let linked = std::fs::hard_link(&hidden, path);
    let _ = std::fs::remove_file(&hidden);
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(io::Error::from_raw_os_error(libc::EADDRINUSE))
        }
        linked => linked.map(|()| bound),
    }
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
        let taken = bind(&path).map(drop);
        assert_eq!(taken.unwrap_err().kind(), io::ErrorKind::AddrInUse);
        let names = std::fs::read_dir(&long).unwrap();
        assert_eq!(names.count(), 1, "nothing else is left");
    }

    #[test]
    fn a_socket_listens_as_soon_as_it_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let refused = std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let mut refused = 0;
                for _ in 0..200 {
                    let connected = loop {
                        match connect(&path) {
                            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                            other => break other,
                        }
                    };
                    refused += u32::from(connected.is_err());
                    std::fs::remove_file(&path).unwrap();
                }
                refused
            });
            let mut sockets = Vec::new();
            while !other.is_finished() {
                // Another one is still there otherwise.
                sockets.extend(bind(&path));
                if sockets.len() > 4 {
                    sockets.remove(0);
                }
            }
            other.join().unwrap()
        });
        assert_eq!(refused, 0);
    }
}
