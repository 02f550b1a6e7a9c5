//! Mounted file systems of FUSE.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::MOST_DATA;

/// A mounted file system, which is unmounted when this is dropped. Programs that use it keep it until they leave it.
#[derive(Debug)]
pub struct Mounted {
    path: PathBuf,
    pub(super) device: Arc<File>,
    mounted: bool,
}

impl Mounted {
    /// Mounts a file system on a file or folder. `mode` is the type of its root, with permissions; `options` are more options of mount(8)
    /// for FUSE, each after a comma.
    ///
    /// # Errors
    /// This process may not mount, or there is no FUSE.
    pub fn on(path: &Path, mode: u32, options: &str, flags: MountFlags) -> io::Result<Mounted> {
        Mounted::of(Path::new("iodyno"), path, mode, options, flags)
    }

    /// The same, with `source` as what the table of mounts shows in place of a device.
    ///
    /// # Errors
    /// As of [`Mounted::on`].
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
            "fd={},rootmode={mode:o},user_id={},group_id={},max_read={MOST_DATA}{options}",
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

    /// Writes what the kernel has not written yet, and unmounts the file system, while requests are still answered.
    pub(super) fn unmount(&mut self) {
        if !std::mem::take(&mut self.mounted) {
            return;
        }
        // The descriptor is closed before the file system is unmounted, so that it is not in use.
        if let Ok(root) = File::open(&self.path) {
            let _ = rustix::fs::syncfs(&root);
        }
        // It may be unmounted already.
        let _ = unmount(&self.path, UnmountFlags::DETACH);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.mounted {
            let _ = unmount(&self.path, UnmountFlags::DETACH);
        }
    }
}

/// Unmounts what a server that was killed left mounted on a path.
///
/// # Errors
/// As umount(2).
pub fn unmount_stale(path: &Path) -> io::Result<()> {
    // The kernel may still know its attributes, so it is opened.
    let opened = (OpenOptions::new().read(true))
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path);
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
