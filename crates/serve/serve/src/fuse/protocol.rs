//! What all sides of FUSE know: opcodes, and the headers of requests and replies.
//!
//! Source: the kernel's `include/uapi/linux/fuse.h`, version 7.42.

/// Bytes of the header of a request.
pub const HEADER: usize = 40;
/// Bytes of the header of a reply.
pub const REPLY_HEADER: usize = 16;
/// Bytes before the data of a `WRITE`.
pub const WRITE_HEADER: usize = 80;
/// Bytes of the data of a request, of which servers agree with the kernel.
pub const MOST_DATA: u32 = 1 << 20;

/// The opcodes that servers know by name.
pub mod opcode {
    #![allow(missing_docs)]
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const READLINK: u32 = 5;
    pub const SYMLINK: u32 = 6;
    pub const MKNOD: u32 = 8;
    pub const MKDIR: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const RMDIR: u32 = 11;
    pub const RENAME: u32 = 12;
    pub const LINK: u32 = 13;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const SETXATTR: u32 = 21;
    pub const GETXATTR: u32 = 22;
    pub const LISTXATTR: u32 = 23;
    pub const REMOVEXATTR: u32 = 24;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const ACCESS: u32 = 34;
    pub const CREATE: u32 = 35;
    pub const INTERRUPT: u32 = 36;
    pub const DESTROY: u32 = 38;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
    pub const READDIRPLUS: u32 = 44;
    pub const RENAME2: u32 = 45;
    pub const LSEEK: u32 = 46;
    pub const SYNCFS: u32 = 50;
    pub const TMPFILE: u32 = 51;

    /// The name of an opcode in the kernel's header, without `FUSE_`.
    #[must_use]
    pub fn name(opcode: u32) -> &'static str {
        match opcode {
            LOOKUP => "LOOKUP",
            FORGET => "FORGET",
            GETATTR => "GETATTR",
            SETATTR => "SETATTR",
            READLINK => "READLINK",
            SYMLINK => "SYMLINK",
            MKNOD => "MKNOD",
            MKDIR => "MKDIR",
            UNLINK => "UNLINK",
            RMDIR => "RMDIR",
            RENAME => "RENAME",
            LINK => "LINK",
            OPEN => "OPEN",
            READ => "READ",
            WRITE => "WRITE",
            STATFS => "STATFS",
            RELEASE => "RELEASE",
            FSYNC => "FSYNC",
            SETXATTR => "SETXATTR",
            GETXATTR => "GETXATTR",
            LISTXATTR => "LISTXATTR",
            REMOVEXATTR => "REMOVEXATTR",
            FLUSH => "FLUSH",
            INIT => "INIT",
            OPENDIR => "OPENDIR",
            READDIR => "READDIR",
            RELEASEDIR => "RELEASEDIR",
            FSYNCDIR => "FSYNCDIR",
            ACCESS => "ACCESS",
            CREATE => "CREATE",
            INTERRUPT => "INTERRUPT",
            DESTROY => "DESTROY",
            BATCH_FORGET => "BATCH_FORGET",
            FALLOCATE => "FALLOCATE",
            READDIRPLUS => "READDIRPLUS",
            RENAME2 => "RENAME2",
            LSEEK => "LSEEK",
            SYNCFS => "SYNCFS",
            TMPFILE => "TMPFILE",
            _ => "OTHER",
        }
    }
}

/// The header of a reply.
#[must_use]
pub fn reply_header(unique: u64, errno: i32, data: usize) -> [u8; REPLY_HEADER] {
    let mut bytes = [0; REPLY_HEADER];
    bytes[..4].copy_from_slice(&((REPLY_HEADER + data) as u32).to_ne_bytes());
    bytes[4..8].copy_from_slice(&(-errno).to_ne_bytes());
    bytes[8..].copy_from_slice(&unique.to_ne_bytes());
    bytes
}

/// A word of a message. `None`: it is shorter.
#[must_use]
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*word))
}

/// A long word of a message. `None`: it is shorter.
#[must_use]
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_ne_bytes(*word))
}
