//! One request.

/// Number of a buffer and of the op that uses it; below the backend's depth.
pub type Slot = u32;

/// What an op does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpKind {
    /// Into the slot's buffer.
    Read,
    /// From the slot's buffer.
    Write,
    /// Gives the range back: discard on a device, hole in a file.
    Trim,
    /// fsync of the file.
    Fsync,
    /// fdatasync of the file.
    Fdatasync,
}

/// One request on a range of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op {
    /// What.
    pub kind: OpKind,
    /// Index among the backend's files.
    pub file: u32,
    /// Bytes into the file.
    pub offset: u64,
    /// Bytes; 0 for syncs.
    pub length: u32,
    /// Bytes into the buffer: where a short op goes on.
    pub skip: u32,
}
