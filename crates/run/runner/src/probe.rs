//! The kind of a node's paths, determined without opening them.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use iodyno_guard::export::{self, Use};
use iodyno_host::block::DeviceNumber;
use iodyno_host::{Roots, nvme};
use iodyno_model::{Diagnostic, ExportUri};
use rustix::fs::{Access, AtFlags, CWD, accessat, major, minor};

/// The kind of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathKind {
    /// It does not exist; its folder exists.
    Missing,
    /// Neither it nor its folder exists; with the topmost missing folder.
    NoFolder(PathBuf),
    /// A regular file of this length, bytes.
    File(u64),
    /// A block device of this length, bytes.
    Device(u64),
    /// The character device of an NVMe namespace of this length, bytes.
    Namespace(u64),
    /// `/dev/null`, `/dev/zero` or `/dev/full`.
    Null,
    /// A folder.
    Folder,
    /// Something else, or a path that cannot be examined; with a description.
    Other(String),
}

/// Examines the paths of a node.
pub trait Probe {
    /// The kind of a path; links are followed.
    fn look(&self, path: &Path) -> PathKind;
    /// Whether the path itself is a symbolic link.
    fn is_link(&self, path: &Path) -> bool;
    /// The length of an export in bytes, if it is suitable.
    ///
    /// # Errors
    /// Everything that prevents its use.
    fn export(&self, uri: &ExportUri, _wanted: &Use) -> Result<u64, Vec<Diagnostic>> {
        let message = format!("`{uri}` cannot be connected to here");
        Err(vec![Diagnostic::error(message)])
    }
    /// The kind of a path in a folder that a server shares.
    ///
    /// # Errors
    /// The server cannot be used. By default it is not contacted.
    fn shared(&self, uri: &ExportUri, _path: &Path) -> Result<PathKind, Diagnostic> {
        let message = format!("`{uri}` is connected to by a trial only");
        Err(Diagnostic::error(message))
    }
    /// The longest read or write that the server of a share accepts, bytes; `None` if unknown.
    fn longest_request(&self, _uri: &ExportUri) -> Option<u64> {
        None
    }
    /// Bytes free for this user in the file system of a folder; `None` if unknown.
    fn free(&self, folder: &Path) -> Option<u64>;
    /// The path of the block device with this number; `None` if unknown.
    fn device_path(&self, _major: u32, _minor: u32) -> Option<PathBuf> {
        None
    }
    /// The reason why this user cannot create files in a folder, as text to follow its name; `None` if the user can.
    fn unwritable(&self, _folder: &Path) -> Option<String> {
        None
    }
}

/// This host.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostProbe;

impl Probe for HostProbe {
    fn look(&self, path: &Path) -> PathKind {
        match fs::metadata(path) {
            Ok(metadata) => kind(&metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => absent(path),
            Err(error) => PathKind::Other(format!("cannot be looked at: {error}")),
        }
    }

    fn is_link(&self, path: &Path) -> bool {
        fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_symlink())
    }

    fn export(&self, uri: &ExportUri, wanted: &Use) -> Result<u64, Vec<Diagnostic>> {
        export::look(uri, wanted)
    }

    fn free(&self, folder: &Path) -> Option<u64> {
        iodyno_host::space::room(folder).ok().map(|room| room.bytes)
    }

    fn device_path(&self, major: u32, minor: u32) -> Option<PathBuf> {
        let path = format!("/sys/dev/block/{major}:{minor}/uevent");
        let state = fs::read_to_string(path).ok()?;
        let name = state
            .lines()
            .find_map(|line| line.strip_prefix("DEVNAME="))?;
        Some(Path::new("/dev").join(name))
    }

    fn unwritable(&self, folder: &Path) -> Option<String> {
        let wanted = Access::WRITE_OK | Access::EXEC_OK;
        let seen = accessat(CWD, folder, wanted, AtFlags::EACCESS);
        seen.err()
            .map(|error| format!("cannot be written to: {error}"))
    }
}

fn kind(metadata: &Metadata) -> PathKind {
    let kind = metadata.file_type();
    let device = metadata.rdev();
    if kind.is_file() {
        return PathKind::File(metadata.len());
    }
    if kind.is_dir() {
        return PathKind::Folder;
    }
    if kind.is_block_device() {
        return device_length(device).map_or_else(
            || PathKind::Other("is a block device that is not in sysfs".to_owned()),
            PathKind::Device,
        );
    }
    // /dev/null, /dev/zero, /dev/full.
    if kind.is_char_device() && major(device) == 1 && [3, 5, 7].contains(&minor(device)) {
        return PathKind::Null;
    }
    if kind.is_char_device()
        && let Some(length) = nvme::namespace_length(&Roots::host(), DeviceNumber::of(device))
    {
        return PathKind::Namespace(length);
    }
    let what = match () {
        () if kind.is_char_device() => "is a character device",
        () if kind.is_fifo() => "is a pipe",
        () if kind.is_socket() => "is a socket",
        () => "is of an unsupported file type",
    };
    PathKind::Other(what.to_owned())
}

/// sysfs counts in sectors of 512 bytes, independent of the device's sector size.
fn device_length(device: u64) -> Option<u64> {
    let path = format!("/sys/dev/block/{}:{}/size", major(device), minor(device));
    let sectors: u64 = fs::read_to_string(path).ok()?.trim().parse().ok()?;
    sectors.checked_mul(512)
}

fn absent(path: &Path) -> PathKind {
    if fs::symlink_metadata(path).is_ok() {
        return PathKind::Other("is a dangling symbolic link".to_owned());
    }
    let missing = path
        .ancestors()
        .skip(1)
        .filter(|folder| !folder.as_os_str().is_empty())
        .take_while(|folder| !folder.exists())
        .last();
    match missing {
        Some(folder) => PathKind::NoFolder(folder.to_owned()),
        None => PathKind::Missing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_the_kind_of_a_path() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), [0; 700]).unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        std::os::unix::fs::symlink(at("gone"), at("loose")).unwrap();
        let look = |name: &str| HostProbe.look(&at(name));
        assert_eq!(look("file"), PathKind::File(700));
        assert_eq!(look("link"), PathKind::File(700));
        assert_eq!(look("new"), PathKind::Missing);
        for (name, link) in [
            ("file", false),
            ("link", true),
            ("loose", true),
            ("new", false),
        ] {
            assert_eq!(HostProbe.is_link(&at(name)), link, "{name}");
        }
        assert_eq!(look("a/b/c"), PathKind::NoFolder(at("a")));
        assert_eq!(look(""), PathKind::Folder);
        assert!(matches!(look("loose"), PathKind::Other(what) if what.contains("dangling")));
        assert!(matches!(look("file/x"), PathKind::Other(_)));
        assert_eq!(HostProbe.look(Path::new("/dev/null")), PathKind::Null);
        assert!(matches!(
            HostProbe.look(Path::new("/dev/tty")),
            PathKind::Other(_)
        ));
        assert!(HostProbe.free(folder.path()).unwrap() > 0);
    }
}
