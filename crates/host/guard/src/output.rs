//! Opens the files to which iodyno writes results: logs, dumps and the output of `iodyno fio`. They do not overwrite
//! devices or disk images, and are not created in folders of device nodes.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use iodyno_host::Roots;
use iodyno_host::block::DeviceNumber;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::file_uses;
use crate::links::{at, planted};
use crate::open::{Pinned, PinnedKind, reopen};
use crate::paths::{discards, folder_of, holds_devices, image};
use crate::refusal::Reason;
use crate::survey::Survey;
use crate::uses::patiently;

/// Creates a file for output that only this user can read, or empties an existing one. A device, a pipe, a disk image
/// and the target of another user's symlink are never written.
///
/// # Errors
/// As open(2). Also if the path leads to something other than a file, to a disk image or a file in use, if it is a
/// symlink that another user may have created, or if it does not exist in a folder of device nodes.
pub fn create_output(path: &Path) -> io::Result<File> {
    let file = open(path, 0o600, only_files)?;
    file.set_len(0)?;
    Ok(file)
}

/// As [`create_output`], but appends to the content.
///
/// # Errors
/// As [`create_output`].
pub fn append_output(path: &Path) -> io::Result<File> {
    let file = open(path, 0o600, only_files)?;
    rustix::fs::fcntl_setfl(&file, OFlags::APPEND)?;
    Ok(file)
}

fn only_files(pinned: &Pinned) -> io::Result<()> {
    match pinned.kind {
        PinnedKind::File => Ok(()),
        _ => Err(io::Error::other("it exists and is not a regular file")),
    }
}

/// Opens a file, pipe, terminal or null device for output, or creates a file that everybody can read. An existing file
/// is not emptied. Other devices, disk images and the target of another user's symlink are never written.
///
/// # Errors
/// As open(2). Also if the path leads to another device, a disk image or a file in use, if it is a symlink that another
/// user may have created, or if it does not exist in a folder of device nodes.
pub fn open_output(path: &Path) -> io::Result<File> {
    open(path, 0o666, |pinned| {
        let kind = match pinned.kind {
            PinnedKind::Block(number) => format!("a block device ({number})"),
            PinnedKind::Character(number) if !discards(number) && !terminal(number) => {
                format!("a character device ({number})")
            }
            _ => return Ok(()),
        };
        Err(against(&Reason::WrongKind { kind }))
    })
}

/// Creates a file with this mode for output, but not in a folder of device nodes.
///
/// # Errors
/// As open(2), `EEXIST` if the name exists; also if the folder is a folder of device nodes.
pub fn new_output(path: &Path, mode: u32) -> io::Result<File> {
    refuse_creation(path)?;
    let new = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL;
    Ok(rustix::fs::open(path, new, Mode::from_raw_mode(mode))?.into())
}

/// Refuses to create a file at a path that exists, or in a folder of device nodes.
fn refuse_creation(path: &Path) -> io::Result<()> {
    if at(path).is_some() {
        return Err(Errno::EXIST.into());
    }
    match among_devices(path) {
        true => Err(against(&Reason::AmongDevices)),
        false => Ok(()),
    }
}

/// Creates a file with this mode for output, without a name, in the folder of this path. If the process is killed, no
/// file remains. [`name_output`] gives it its name. `None`: the file system does not support unnamed files.
///
/// # Errors
/// As [`new_output`].
pub fn unnamed_output(path: &Path, mode: u32) -> io::Result<Option<File>> {
    refuse_creation(path)?;
    let unnamed = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::TMPFILE;
    match rustix::fs::open(folder_of(path), unnamed, Mode::from_raw_mode(mode)) {
        Ok(file) => Ok(Some(file.into())),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Gives a file of [`unnamed_output`] its name.
///
/// # Errors
/// As link(2), `EEXIST` if the name exists by now.
pub fn name_output(file: &File, path: &Path) -> io::Result<()> {
    let open = format!("/proc/self/fd/{}", file.as_raw_fd());
    let follow = AtFlags::SYMLINK_FOLLOW;
    Ok(rustix::fs::linkat(CWD, open, CWD, path, follow)?)
}

/// Whether a new file at this path would be in a folder of device nodes: in devtmpfs, or in /dev itself. Missing
/// folders above it would be created, too.
pub fn among_devices(path: &Path) -> bool {
    let mut folders = path.ancestors().skip(1);
    let nearest = folders.find_map(|folder| match folder.as_os_str().is_empty() {
        true => Pinned::path(Path::new(".")).ok(),
        false => Pinned::path(folder).ok(),
    });
    nearest.is_some_and(|folder| holds_devices(&Roots::host(), &folder))
}

/// Opens the inode at a path for writing if `permitted`, or creates a file with this mode.
fn open(
    path: &Path,
    mode: u32,
    permitted: impl FnOnce(&Pinned) -> io::Result<()>,
) -> io::Result<File> {
    match new_output(path, mode) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        other => return other,
    }
    let pinned = Pinned::path(path)?;
    permitted(&pinned)?;
    if let Some(reason) = planted(path, &pinned).or_else(|| precious(&pinned)) {
        return Err(against(&reason));
    }
    Ok(reopen(pinned.as_fd(), OFlags::WRONLY)?.into())
}

/// The reason why a regular file must not be overwritten: the host uses it, or it is a disk image.
fn precious(pinned: &Pinned) -> Option<Reason> {
    if !matches!(pinned.kind, PinnedKind::File) {
        return None;
    }
    let roots = Roots::host();
    let used = patiently(|| {
        let survey = Survey::take(&roots);
        match is_own_output(pinned) {
            true => file_uses::without_processes(&roots, &survey, pinned),
            false => file_uses::of(&roots, &survey, pinned, false),
        }
    });
    used.into_iter().chain(image(pinned)).next()
}

/// Whether the standard output or error of this process goes to this file, which it may share with others.
fn is_own_output(pinned: &Pinned) -> bool {
    let is = |own: std::io::Result<Stat>| {
        own.is_ok_and(|own| (own.st_dev, own.st_ino) == (pinned.file.device, pinned.file.inode))
    };
    is(rustix::fs::fstat(io::stdout()).map_err(Into::into))
        || is(rustix::fs::fstat(io::stderr()).map_err(Into::into))
}

/// Whether a character device is a terminal: a console, a serial line or a pseudo terminal. It is not opened for this
/// check, because opening some devices has side effects.
fn terminal(number: DeviceNumber) -> bool {
    let subsystem = format!("/sys/dev/char/{number}/subsystem");
    matches!(number.major, 4 | 5 | 136..=143)
        || std::fs::read_link(subsystem).is_ok_and(|subsystem| subsystem.ends_with("tty"))
}

fn against(reason: &Reason) -> io::Error {
    io::Error::other(reason.to_string())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn an_output_overwrites_no_disk_image_and_is_not_created_among_devices() {
        let folder = tempfile::tempdir().unwrap();
        let (image, link) = (folder.path().join("vm.qcow2"), folder.path().join("log"));
        let content = [&b"QFI\xfb\0\0\0\x03"[..], &[0; 1 << 20]].concat();
        std::fs::write(&image, &content).unwrap();
        symlink("vm.qcow2", &link).unwrap();
        let odd = Path::new("/dev/iodyno-no-such-output");
        for open in [create_output, append_output, open_output, |path: &Path| {
            new_output(path, 0o600)
        }] {
            assert!(open(&image).is_err());
            assert!(open(&link).is_err());
            let refused = open(odd).unwrap_err().to_string();
            assert!(refused.contains("among device nodes"), "{refused}");
        }
        assert_eq!(std::fs::read(&image).unwrap(), content);
        assert!(!odd.exists());
    }

    #[test]
    fn output_goes_to_terminals_and_null_devices_but_not_to_others() {
        let random = open_output(Path::new("/dev/urandom"))
            .unwrap_err()
            .to_string();
        assert!(random.contains("a character device (1:9)"), "{random}");
        for null in ["/dev/null", "/dev/full"] {
            open_output(Path::new(null)).unwrap();
        }
        for (major, minor) in [(4, 1), (5, 0), (136, 3)] {
            assert!(terminal(DeviceNumber { major, minor }));
        }
        for (major, minor) in [(1, 1), (10, 130)] {
            assert!(!terminal(DeviceNumber { major, minor }));
        }
    }

    #[test]
    fn an_output_is_new_and_for_its_user_alone_or_emptied() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let made = create_output(&path).unwrap();
        let mode = made.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0);
        std::fs::write(&path, "old").unwrap();
        create_output(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        // Files, devices and pipes that are not emptied.
        std::fs::write(&path, "old").unwrap();
        open_output(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        open_output(Path::new("/dev/null")).unwrap();
        let (_reader, writer) = std::io::pipe().unwrap();
        let pipe = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
        open_output(Path::new(&pipe)).unwrap();
        let files = [(); 2].map(|()| append_output(&path).unwrap());
        for (file, text) in [(&files[0], "1"), (&files[1], "2"), (&files[0], "3")] {
            std::io::Write::write_all(&mut &*file, text.as_bytes()).unwrap();
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"old123");
        for special in ["/dev/null", folder.path().to_str().unwrap()] {
            assert!(create_output(Path::new(special)).is_err(), "{special}");
            assert!(append_output(Path::new(special)).is_err(), "{special}");
        }
        // The name is a dangling symlink.
        let dangling = folder.path().join("dangling");
        symlink("nothing", &dangling).unwrap();
        assert!(create_output(&dangling).is_err());
        assert!(!folder.path().join("nothing").exists());
    }
}
