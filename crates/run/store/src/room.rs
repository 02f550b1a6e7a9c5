//! Whether the store's file system has room for the store to grow.
//!
//! SQLite maps the index of its log (`NAME-shm`) into memory. On file systems whose blocks are smaller than a page,
//! and on those that never write in place, such as btrfs, the kernel allocates the blocks of a mapping when it is
//! written to, and kills the process with SIGBUS if no block is free. SQLite is therefore not called where that can
//! happen: [`refuse_full`] precedes every change, and a store that cannot grow is opened without writing to the
//! index.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::libc;
use nix::sys::statvfs::statvfs;
use rustix::process::{Resource, getrlimit};

use crate::StoreError;

/// Room for the next change, bytes: one region of the index (32 KiB, for 16 MiB of log) and a few pages of the log. A
/// change that needs more fails when it writes to the log, before the index.
const ROOM: u64 = 256 << 10;

/// With this much free space, bytes, no reservation is tried.
const PLENTY: u64 = 16 << 20;

/// Refuses a store whose file system is full.
///
/// # Errors
/// [`StoreError::Full`].
pub(crate) fn refuse_full(store: &Path, doing: &'static str) -> Result<(), StoreError> {
    if beyond_limit(store) {
        return Err(StoreError::Full {
            path: store.to_path_buf(),
            doing,
        });
    }
    let folder = store.parent().unwrap_or(Path::new("/"));
    let space = statvfs(folder).map(|found| found.blocks_available() * found.fragment_size());
    if space.is_ok_and(|space| space >= PLENTY) {
        return Ok(());
    }
    let full = match try_room(folder) {
        Ok(()) => false,
        Err(Errno::ENOSPC | Errno::EDQUOT) => true,
        // Not every file system supports this, and not every folder is writable.
        Err(_) => space.is_ok_and(|space| space < ROOM),
    };
    match full {
        false => Ok(()),
        true => Err(StoreError::Full {
            path: store.to_path_buf(),
            doing,
        }),
    }
}

/// Whether the store or its log would grow beyond the largest length of files of this process (`ulimit -f`).
fn beyond_limit(store: &Path) -> bool {
    let Some(limit) = getrlimit(Resource::Fsize).current else {
        return false;
    };
    let mut log = store.as_os_str().to_owned();
    log.push("-wal");
    let length = |path: &Path| path.metadata().map_or(0, |file| file.len());
    length(store).max(length(Path::new(&log))) + ROOM > limit
}

/// Reserves the room in an unnamed temporary file. Unlike the number of free blocks, this respects quotas and the
/// blocks that are reserved for root.
fn try_room(folder: &Path) -> Result<(), Errno> {
    let errno = |error: io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(0));
    let file = OpenOptions::new()
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_TMPFILE)
        .open(folder)
        .map_err(errno)?;
    fallocate(&file, FallocateFlags::empty(), 0, ROOM as i64)
}
