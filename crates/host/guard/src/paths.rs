//! What a path leads to: folders of device nodes, disk images, devices without storage.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use iodyno_host::block::DeviceNumber;
use iodyno_host::{Roots, mounts, stack};
use rustix::fs::OFlags;

use crate::signatures::{self, Signature};

use crate::open::Pinned;
use crate::places;
use crate::refusal::Reason;

/// Whether it is a folder of device nodes: on devtmpfs, or below /dev and on the same file system as
/// /dev. File systems mounted below /dev, such as /dev/shm, are ordinary file systems.
pub(crate) fn holds_devices(roots: &Roots, folder: &Pinned) -> bool {
    let number = DeviceNumber::of(folder.file.device);
    let mounts = mounts::own(roots);
    let mount = mounts::containing(&mounts, &folder.resolved, number, mount_id(folder));
    let below = |path: &Path| path.starts_with(&roots.dev);
    let own = |point: &Path| point != roots.dev && below(point);
    match mount {
        Some(mount) if mount.file_system == "devtmpfs" => true,
        Some(mount) => below(&folder.resolved) && !own(&mount.point),
        None => below(&folder.resolved),
    }
}

/// The parent folder of a path.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// The closest folder above a path that exists: missing ones are created in it.
pub(crate) fn existing_folder_of(path: &Path) -> &Path {
    let mut folder = folder_of(path);
    while !folder.exists() && folder_of(folder) != folder {
        folder = folder_of(folder);
    }
    folder
}

/// Content of a regular file that needs `--destroy`: a disk image, a file system, a partition table. Empty
/// for files that are empty or cannot be read.
pub(crate) fn image(pinned: &Pinned) -> Vec<Reason> {
    let Ok(descriptor) = pinned.open(OFlags::RDONLY) else {
        return Vec::new();
    };
    let file = File::from(descriptor);
    let mut found = signatures::probe_file(&file, pinned.length).unwrap_or_default();
    let look = |found: &mut Vec<Signature>, places: Vec<Range<u64>>| {
        for place in places {
            let read = |buffer: &mut [u8], offset| file.read_exact_at(buffer, place.start + offset);
            let there = signatures::probe_reads(place.end - place.start, read).unwrap_or_default();
            found.extend(there.into_iter().map(|signature| Signature {
                offset: signature.offset + place.start,
                ..signature
            }));
        }
    };
    look(&mut found, places::in_file(pinned.length));
    if found.iter().all(Signature::weak) {
        look(&mut found, places::copies_in_file(pinned.length));
    }
    let name = pinned.resolved.file_name().unwrap_or_default();
    let device = name.to_string_lossy().into_owned();
    found
        .into_iter()
        .filter(|signature| !signature.weak())
        .map(|signature| Reason::Signature {
            device: device.clone(),
            signature,
        })
        .collect()
}

/// Whether it is null, zero or full, which do not store written data.
pub(crate) fn discards(number: DeviceNumber) -> bool {
    number.major == 1 && matches!(number.minor, 3 | 5 | 7)
}

pub(crate) fn mount_id(pinned: &Pinned) -> Option<u64> {
    stack::mount_id(pinned.as_fd())
}
