//! Overlays: a file has another identity in the mount of an overlay than in the folder below it.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use iodyno_host::mounts::Mount;
use iodyno_host::{Roots, stack};
use rustix::fs::{AtFlags, CWD, Statx, StatxFlags};

use crate::open::FileId;

/// A mounted overlay.
#[derive(Debug)]
pub(crate) struct Overlay {
    pub(crate) point: PathBuf,
    /// The mount point as this process reaches it.
    reached: PathBuf,
    /// The upper folder; `None` if its path leads nowhere from here, because it is relative or the folder was moved.
    upper: Option<FileId>,
}

impl Overlay {
    /// `None`: the mount is not an overlay. `process` is one in the namespace of the mount, if that is another one.
    pub(crate) fn of(roots: &Roots, mount: &Mount, process: Option<u32>) -> Option<Overlay> {
        if mount.file_system != "overlay" {
            return None;
        }
        let root = process.map(|process| roots.proc.join(process.to_string()).join("root"));
        let reach = |path: &Path| match &root {
            Some(root) => Some(root.join(path.strip_prefix("/").ok()?)),
            None => path.is_absolute().then(|| path.to_owned()),
        };
        // The root of a container may be the overlay itself, without a path to the folders below it.
        let folder = |path: &Path| {
            let here = || path.is_absolute().then(|| FileId::of(path))?;
            reach(path).and_then(|path| FileId::of(&path)).or_else(here)
        };
        Some(Overlay {
            point: mount.point.clone(),
            reached: reach(&mount.point)?,
            upper: upper_folder(mount).as_deref().and_then(folder),
        })
    }

    /// Whether one of these folders is the upper one.
    pub(crate) fn has_upper(&self, folders: &[FileId]) -> bool {
        self.upper.is_some_and(|upper| folders.contains(&upper))
    }

    /// The identity of a file in the mount of the overlay, if it is in a folder below it.
    pub(crate) fn shown(&self, path: &Path) -> Option<FileId> {
        let file = state(path)?;
        let mut suffix = path.components();
        // Not `/` itself.
        suffix.next();
        while suffix.next().is_some() {
            let inside = suffix.as_path();
            if inside.as_os_str().is_empty() {
                break;
            }
            let found = state(&self.reached.join(inside));
            if let Some(found) = found.filter(|found| is_same(&file, found)) {
                let found = FileId::from(&found);
                return (found != FileId::from(&file)).then_some(found);
            }
        }
        None
    }
}

/// The folder whose files are shown by a mount: the upper folder of an overlay, or the folder that this program serves
/// by FUSE. A relative path cannot be followed from here.
pub(crate) fn folder_below(mount: &Mount) -> Option<PathBuf> {
    let served = || {
        let served = mount.file_system == "fuse.iodyno";
        served.then(|| PathBuf::from(&mount.source))
    };
    upper_folder(mount)
        .or_else(served)
        .filter(|path| path.is_absolute())
}

/// The upper folder of the mount of an overlay. Some kernels show the backslashes that the mount options need before a
/// `:` or a `,`.
fn upper_folder(mount: &Mount) -> Option<PathBuf> {
    let overlay = mount.file_system == "overlay";
    let shown = overlay.then(|| stack::option(&mount.super_options, "upperdir"))??;
    let mut plain = Vec::new();
    let mut bytes = shown.as_os_str().as_bytes().iter();
    while let Some(byte) = bytes.next() {
        plain.extend(match byte {
            b'\\' => bytes.next(),
            _ => Some(byte),
        });
    }
    match shown.exists() {
        true => Some(shown),
        false => Some(PathBuf::from(OsString::from_vec(plain))),
    }
}

pub(crate) fn state(path: &Path) -> Option<Statx> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID;
    rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, wanted).ok()
}

/// Whether two states are those of one file, below an overlay and in its mount. Both have the same length. They also
/// have the same time of birth, or, after a change of attributes or a copy, the same lower bits of the inode number. In
/// one file system, the inode number alone decides.
pub(crate) fn is_same(file: &Statx, shown: &Statx) -> bool {
    let (one, other) = (FileId::from(file), FileId::from(shown));
    if one.device == other.device {
        return one == other;
    }
    let inode = |of: &Statx| of.stx_ino as u32;
    let same_birth = born(file).is_some() && born(file) == born(shown);
    file.stx_size == shown.stx_size && (inode(file) == inode(shown) || same_birth)
}

/// When a file was made; `None` if that is not known.
fn born(file: &Statx) -> Option<(i64, u32)> {
    let known = file.stx_mask & StatxFlags::BTIME.bits() != 0;
    known.then_some((file.stx_btime.tv_sec, file.stx_btime.tv_nsec))
}
