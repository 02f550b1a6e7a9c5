//! Overlays: a file has another identity in the mount of an overlay than in the folder below it.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use iodyno_host::mounts::{Mount, path_of};
use iodyno_host::{Roots, stack};
use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, makedev};

use crate::open::FileId;

/// A mounted overlay.
#[derive(Debug)]
pub(crate) struct Overlay {
    pub(crate) point: PathBuf,
    /// The mount point as this process reaches it.
    reached: PathBuf,
    /// The upper folder; `None` if its path leads nowhere from here, because it is relative or the folder was moved.
    upper: Option<FileId>,
    /// Those of the lower folders whose paths lead somewhere.
    lower: Vec<FileId>,
    is_writable: bool,
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
        let upper = upper_folder(mount);
        Some(Overlay {
            point: mount.point.clone(),
            reached: reach(&mount.point)?,
            upper: upper.as_deref().and_then(folder),
            lower: lower_folders(mount)
                .iter()
                .filter_map(|path| folder(path))
                .collect(),
            is_writable: upper.is_some(),
        })
    }

    /// Whether a file below these folders is in the upper folder. The folders are those above the file.
    pub(crate) fn has_above(&self, folders: &[FileId], path: &Path) -> bool {
        let in_one = |known: &FileId| folders.contains(known);
        match self.upper {
            Some(upper) => in_one(&upper),
            None => {
                self.is_writable && !self.lower.iter().any(in_one) && self.shown(path).is_some()
            }
        }
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
                let device = makedev(found.stx_dev_major, found.stx_dev_minor);
                let inode = found.stx_ino;
                let own = device == makedev(file.stx_dev_major, file.stx_dev_minor);
                return (!own || inode != file.stx_ino).then_some(FileId { device, inode });
            }
        }
        None
    }
}

/// The upper folder of the mount of an overlay. Some kernels show the backslashes that the mount options need before a
/// `:` or a `,`.
pub(crate) fn upper_folder(mount: &Mount) -> Option<PathBuf> {
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

/// The lower folders; those whose names contain a `:` are not found.
fn lower_folders(mount: &Mount) -> Vec<PathBuf> {
    let options = mount.super_options.split(',');
    let values = options.filter_map(|option| {
        let value = option.strip_prefix("lowerdir")?;
        value.trim_start_matches('+').strip_prefix('=')
    });
    let folders = values.flat_map(|value| value.split(':'));
    folders.map(|folder| path_of(folder.as_bytes())).collect()
}

fn state(path: &Path) -> Option<Statx> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, wanted).ok()
}

/// Whether two states are those of one file, below an overlay and in its mount. Both have the same length. They also
/// have the same time of birth, or, after a change of attributes or a copy, the same lower bits of the inode number.
fn is_same(file: &Statx, shown: &Statx) -> bool {
    let inode = |of: &Statx| of.stx_ino as u32;
    let born = |of: &Statx| {
        let known = of.stx_mask & StatxFlags::BTIME.bits() != 0;
        known.then_some((of.stx_btime.tv_sec, of.stx_btime.tv_nsec))
    };
    let same_birth = born(file).is_some() && born(file) == born(shown);
    file.stx_size == shown.stx_size && (inode(file) == inode(shown) || same_birth)
}
