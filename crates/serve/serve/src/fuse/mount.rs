//! Mounted file systems of FUSE.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::protocol::MAX_DATA;

/// Timeout for opening the root of a stale mount.
const STALE: Duration = Duration::from_secs(5);

/// A mounted file system, which is unmounted on drop. Programs that use it keep it until they leave it.
#[derive(Debug)]
pub struct Mounted {
    path: PathBuf,
    pub(super) device: Arc<File>,
    mounted: bool,
}

impl Mounted {
    /// Mounts a file system on a file or folder. `mode` is the type of its root, with permissions. `options` are
    /// additional mount(8) options for FUSE, each after a comma.
    ///
    /// # Errors
    /// This process may not mount, or FUSE is missing.
    pub fn on(path: &Path, mode: u32, options: &str, flags: MountFlags) -> io::Result<Mounted> {
        Mounted::of(Path::new("iodyno"), path, mode, options, flags)
    }

    /// The same, with `source` as the device in the table of mounts.
    ///
    /// # Errors
    /// Those of [`Mounted::on`].
    pub fn of(
        source: &Path,
        path: &Path,
        mode: u32,
        options: &str,
        flags: MountFlags,
    ) -> io::Result<Mounted> {
        let device = (OpenOptions::new().read(true).write(true))
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open("/dev/fuse")?;
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        let options = format!(
            "fd={},rootmode={mode:o},user_id={},group_id={},max_read={MAX_DATA}{options}",
            device.as_raw_fd(),
            user.as_raw(),
            group.as_raw()
        );
        let options = CString::new(options).map_err(io::Error::other)?;
        let flags = flags | MountFlags::NODEV | MountFlags::NOSUID;
        mount(source, path, "fuse.iodyno", flags, options.as_c_str())?;
        Ok(Mounted {
            path: path.to_owned(),
            device: Arc::new(device),
            mounted: true,
        })
    }

    /// The descriptor of its session.
    #[must_use]
    pub fn device(&self) -> Arc<File> {
        Arc::clone(&self.device)
    }

    /// Syncs and unmounts the file system while requests are still answered. If no request ends within `limit`
    /// (`worked` counts them), all end with an error: the process waits for its own answer, and could not exit
    /// otherwise.
    pub(super) fn unmount(&mut self, limit: Duration, worked: impl Fn() -> u64) {
        if !std::mem::take(&mut self.mounted) {
            return;
        }
        let path = self.path.clone();
        let synced = within(limit, worked, move || {
            // The descriptor is closed before the file system is unmounted, so that it is not in use.
            if let Ok(root) = File::open(path) {
                let _ = rustix::fs::syncfs(&root);
            }
        });
        let flags = match synced {
            Some(()) => UnmountFlags::DETACH,
            None => UnmountFlags::DETACH | UnmountFlags::FORCE,
        };
        // It may be unmounted already.
        let _ = unmount(&self.path, flags);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.mounted {
            let _ = unmount(&self.path, UnmountFlags::DETACH);
        }
    }
}

/// Runs in another thread what may wait for a reply of a FUSE server. `None`: it has not ended and `progress` has not
/// changed for `limit`, or no thread can be started.
fn within<T: Send + 'static>(
    limit: Duration,
    progress: impl Fn() -> u64,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = channel();
    let work = move || drop(sender.send(work()));
    thread::Builder::new().spawn(work).ok()?;
    loop {
        let before = progress();
        match receiver.recv_timeout(limit) {
            Ok(done) => return Some(done),
            Err(RecvTimeoutError::Timeout) if progress() != before => {}
            Err(_) => return None,
        }
    }
}

/// Unmounts the file system of this server without waiting for requests. They end with an error, so the process can
/// exit.
pub fn abandon(path: &Path) {
    let _ = unmount(path, UnmountFlags::DETACH | UnmountFlags::FORCE);
}

/// Unmounts what a killed server left on a path.
///
/// # Errors
/// Those of umount(2); the mount does not answer. A killed server lives on while one of its threads waits for storage.
pub fn unmount_stale(path: &Path) -> io::Result<()> {
    // The kernel may have its attributes cached, so open it.
    let opened = path.to_owned();
    let opened = within(
        STALE,
        || 0,
        move || {
            (OpenOptions::new().read(true))
                .custom_flags(OFlags::NONBLOCK.bits() as i32)
                .open(opened)
                .map(drop)
        },
    );
    let Some(opened) = opened else {
        return Err(io::Error::other(
            "what is mounted there does not answer; unmount it by `umount --lazy`",
        ));
    };
    match opened {
        Err(error)
            if matches!(
                Errno::from_io_error(&error),
                Some(Errno::NOTCONN | Errno::CONNABORTED)
            ) =>
        {
            Ok(unmount(path, UnmountFlags::DETACH)?)
        }
        _ => Ok(()),
    }
}
