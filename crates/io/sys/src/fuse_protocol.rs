//! Definitions for all sides of FUSE: opcodes, and the headers and lengths of requests and replies.
//!
//! Source: the kernel's `include/uapi/linux/fuse.h`, version 7.42.

/// Bytes of the header of a request.
pub const HEADER: usize = 40;
/// Bytes of the header of a reply.
pub const REPLY_HEADER: usize = 16;
/// Bytes before the data of a `WRITE`.
pub const WRITE_HEADER: usize = 80;
/// The largest data size of a request that servers negotiate, bytes.
pub const MAX_DATA: u32 = 1 << 20;
/// Bytes of the reply to a `LOOKUP`, without its header.
pub const ENTRY_BYTES: usize = 128;
/// Bytes of the reply to an `OPEN`.
pub const OPENED_BYTES: usize = 16;
/// Bytes of the reply to a `GETATTR`.
pub const ATTRIBUTES_BYTES: usize = 104;
/// Bytes of the reply to a `STATFS`.
pub const SPACE_BYTES: usize = 80;
/// Bytes of the reply to an `INIT`.
pub const INIT_BYTES: usize = 64;

/// Defines the opcodes, and `name`, which finds the name of one.
macro_rules! opcodes {
    ($($name:ident $number:literal,)*) => {
        $(pub const $name: u32 = $number;)*

        /// The name of an opcode in the kernel's header, without `FUSE_`.
        #[must_use]
        pub fn name(opcode: u32) -> &'static str {
            match opcode {
                $($number => stringify!($name),)*
                _ => "OTHER",
            }
        }
    };
}

/// The opcodes that servers use by name.
pub mod opcode {
    #![allow(missing_docs)]
    opcodes! {
        LOOKUP 1,
        FORGET 2,
        GETATTR 3,
        SETATTR 4,
        READLINK 5,
        SYMLINK 6,
        MKNOD 8,
        MKDIR 9,
        UNLINK 10,
        RMDIR 11,
        RENAME 12,
        LINK 13,
        OPEN 14,
        READ 15,
        WRITE 16,
        STATFS 17,
        RELEASE 18,
        FSYNC 20,
        SETXATTR 21,
        GETXATTR 22,
        LISTXATTR 23,
        REMOVEXATTR 24,
        FLUSH 25,
        INIT 26,
        OPENDIR 27,
        READDIR 28,
        RELEASEDIR 29,
        FSYNCDIR 30,
        ACCESS 34,
        CREATE 35,
        INTERRUPT 36,
        DESTROY 38,
        BATCH_FORGET 42,
        FALLOCATE 43,
        READDIRPLUS 44,
        RENAME2 45,
        LSEEK 46,
        SYNCFS 50,
        TMPFILE 51,
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
