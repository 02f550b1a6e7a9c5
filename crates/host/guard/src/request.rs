//! Requests to open a target.

use std::path::{Path, PathBuf};

use iodyno_host::block::DeviceNumber;

/// How a job uses a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Intent {
    /// Whether it is read.
    pub read: bool,
    /// Whether it is written or laid out.
    pub write: bool,
    /// Whether blocks are deallocated.
    pub trim: bool,
    /// Whether the file is removed at the end.
    pub remove: bool,
}

impl Intent {
    /// Read only.
    pub const READ: Intent = Intent {
        read: true,
        write: false,
        trim: false,
        remove: false,
    };

    /// Read and write.
    pub const WRITE: Intent = Intent {
        read: true,
        write: true,
        trim: false,
        remove: false,
    };

    /// Whether existing data may be lost.
    pub fn changes(self) -> bool {
        self.write || self.trim || self.remove
    }
}

/// Flags for opening a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenFlags {
    /// O_DIRECT.
    pub direct: bool,
    /// O_SYNC.
    pub sync: bool,
    /// O_DSYNC.
    pub dsync: bool,
    /// Create a regular file if it does not exist (only if the intent changes data).
    pub create: bool,
}

/// A request to open a target.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Path.
    pub path: &'a Path,
    /// Intended use.
    pub intent: Intent,
    /// Flags.
    pub flags: OpenFlags,
    /// Whether the user wrote this path. Otherwise it was generated from a format and must not lead to a
    /// device.
    pub named: bool,
    /// The arguments of `--destroy`.
    pub destroy: &'a [PathBuf],
}

/// Type of an admitted target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A block device.
    BlockDevice(DeviceNumber),
    /// /dev/null, /dev/zero and similar, which are not storage.
    NullDevice,
}

impl Request<'_> {
    /// Whether the file is created if it does not exist.
    pub(crate) fn creates(&self) -> bool {
        self.flags.create && self.intent.changes()
    }
}
