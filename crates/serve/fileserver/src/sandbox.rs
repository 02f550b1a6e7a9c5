//! Confines a server to its folder: the sandboxes of the crate `virtiofsd`, and a process outside of them.
//!
//! A process that has entered a sandbox can neither remove its sockets nor return. With [`SandboxMode::Namespace`] the
//! crate runs it in another child process. So [`split`] forks before: the first process stays outside. It waits,
//! forwards requests to stop, and removes the sockets at the end.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, geteuid, waitpid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use virtiofsd::idmap::{GidMap, UidMap};
use virtiofsd::sandbox::{Error, Sandbox, SandboxMode};
use virtiofsd::util::sfork;

use crate::stop::Stop;

/// Sent to the process outside when requests are served.
const READY: u8 = b'r';
/// Sent to the server.
const STOP: u8 = b's';

/// What a process in a sandbox can still reach of the host.
#[derive(Debug)]
pub struct SandboxChild {
    /// The path of the folder.
    pub(crate) root: PathBuf,
    /// Its prefix in the list of mounts.
    pub(crate) prefix: Option<String>,
    /// `/proc/self/fd` and `/proc/self/mountinfo`.
    pub(crate) descriptors: File,
    pub(crate) mounts: File,
}

/// One of the two processes of [`split`].
#[derive(Debug)]
pub enum Side {
    /// The process that stays outside.
    Outside(SandboxParent),
    /// The process that enters.
    Inside(Link),
}

/// The process outside of a sandbox.
#[derive(Debug)]
pub struct SandboxParent {
    server: Pid,
    link: UnixStream,
}

/// How a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With this exit code.
    Exited(u8),
    /// Killed by this signal.
    Killed(i32),
}

/// Divides this process, which must have one thread only.
///
/// # Errors
/// As fork(2).
pub fn split() -> io::Result<Side> {
    let (outside, inside) = UnixStream::pair()?;
    match sfork()? {
        0 => {
            drop(outside);
            // The outer process stops the server on a signal to the whole group, and its death closes the link. The
            // process in between has to wait for the server.
            for signal in [SIGHUP, SIGINT, SIGTERM] {
                signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
            }
            Ok(Side::Inside(Link(inside)))
        }
        child => Ok(Side::Outside(SandboxParent {
            server: Pid::from_raw(child).ok_or(Errno::CHILD)?,
            link: outside,
        })),
    }
}

impl SandboxParent {
    /// Waits until the server serves. Returns false if it has ended instead.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let mut byte = [0];
        let read = (&self.link).read_exact(&mut byte);
        read.is_ok() && byte == [READY]
    }

    /// Returns a function that stops the server, callable from another thread.
    ///
    /// # Errors
    /// Those of dup(2).
    pub fn stopper(&self) -> io::Result<impl Fn() + Send + use<>> {
        let link = self.link.try_clone()?;
        Ok(move || {
            // It may have ended.
            let _ = (&link).write_all(&[STOP]);
        })
    }

    /// Waits for the end of the server.
    ///
    /// # Errors
    /// Those of waitpid(2).
    pub fn wait(&self) -> io::Result<Ended> {
        loop {
            let ended = match waitpid(Some(self.server), WaitOptions::empty()) {
                Err(Errno::INTR) => continue,
                other => other?,
            };
            let Some((_, status)) = ended else { continue };
            if let Some(signal) = status.terminating_signal() {
                return Ok(Ended::Killed(signal));
            }
            if let Some(code) = status.exit_status() {
                // The crate's process reports a signal as its negative number.
                return Ok(match code {
                    code @ 192..=255 => Ended::Killed(256 - code),
                    code => Ended::Exited(code as u8),
                });
            }
        }
    }
}

/// The server's end of the connection to the process outside.
#[derive(Debug)]
pub struct Link(UnixStream);

impl Link {
    /// Reports to the process outside that requests are served.
    pub fn is_ready(&self) {
        let _ = (&self.0).write_all(&[READY]);
    }

    /// Starts a thread that stops the server when the process outside requests it or ends.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn follow(&self, stop: Stop) -> io::Result<()> {
        let mut link = self.0.try_clone()?;
        let work = move || {
            let _ = link.read_exact(&mut [0]);
            stop.stop();
        };
        let thread = thread::Builder::new().name("outside".to_owned());
        thread.spawn(work).map(drop)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// Enters a sandbox with this folder as its root. This process must be single-threaded. With [`SandboxMode::Namespace`]
/// the call returns in a child process, and this process ends after the child. `maps` are the id maps of the user
/// namespace, used when not running as root.
///
/// # Errors
/// The kernel does not permit it.
pub fn enter(
    mode: SandboxMode,
    folder: &Path,
    maps: (Vec<UidMap>, Vec<GidMap>),
    clients: &UnixListener,
) -> io::Result<SandboxChild> {
    let folder = folder.canonicalize()?;
    let folder = (folder.to_str())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "its path is not UTF-8"))?;
    let mut sandbox = Sandbox::new(folder.to_owned(), mode, maps.0, maps.1);
    let prefix = sandbox.get_mountinfo_prefix()?;
    (sandbox.enter(clients.try_clone()?.into())).map_err(reason)?;
    let missing = || io::Error::other("it has no /proc");
    Ok(SandboxChild {
        root: sandbox.get_root_dir().into(),
        prefix,
        descriptors: sandbox.get_proc_self_fd().ok_or_else(missing)?,
        mounts: sandbox.get_mountinfo_fd().ok_or_else(missing)?,
    })
}

/// The error of the kernel, with the step that failed where it is not plain.
fn reason(error: Error) -> io::Error {
    match error {
        Error::Unshare(error) | Error::Chroot(error) | Error::Fork(error) => error,
        other => io::Error::other(other),
    }
}

/// Drops all capabilities of this thread, and of threads it starts, that no request needs. `by_handle`: files are
/// opened by file handle.
///
/// # Errors
/// Those of capset(2).
/// As capset(2).
pub fn drop_capabilities(by_handle: bool) -> io::Result<()> {
    set_no_new_privs(true)?;
    if !geteuid().is_root() {
        return Ok(());
    }
    let mut needed = CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::FOWNER
        | CapabilitySet::FSETID
        | CapabilitySet::SETGID
        | CapabilitySet::SETUID
        | CapabilitySet::MKNOD
        | CapabilitySet::SETFCAP;
    if by_handle {
        needed |= CapabilitySet::DAC_READ_SEARCH;
    }
    let needed = needed & capabilities(None)?.permitted;
    let sets = CapabilitySets {
        effective: needed,
        permitted: needed,
        inheritable: CapabilitySet::empty(),
    };
    Ok(set_capabilities(None, sets)?)
}
