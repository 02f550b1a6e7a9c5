//! The FUSE messages that a guest needs to read and write files, of version 7.38. Numbers have the byte order of the
//! host, as virtio-fs requires.

use std::io;

pub(super) use crate::fuse_protocol::opcode::{
    CREATE, FALLOCATE, FLUSH, FSYNC, GETATTR, INIT, LOOKUP, OPEN, READ, RELEASE, SETATTR, STATFS,
    UNLINK, WRITE,
};
pub(super) use crate::fuse_protocol::{
    ATTRIBUTES_BYTES, ENTRY_BYTES, HEADER, INIT_BYTES, OPENED_BYTES, REPLY_HEADER, SPACE_BYTES,
    u32_at, u64_at,
};

/// The version of the protocol that is offered.
const VERSION: [u32; 2] = [7, 38];
/// The node of the folder that is shared.
pub(super) const ROOT: u64 = 1;
/// Bytes of the longest arguments of a read, write, sync or allocation.
pub(super) const ARGUMENT_BYTES: usize = 40;

const ASYNC_READ: u32 = 1 << 0;
const ATOMIC_TRUNCATE: u32 = 1 << 3;
const BIG_WRITES: u32 = 1 << 5;
const ASYNC_DIRECT: u32 = 1 << 15;
const PARALLEL_FOLDER_OPS: u32 = 1 << 18;
const MAX_PAGES: u32 = 1 << 22;
const INIT_EXTENDED: u32 = 1 << 30;

/// Pages of the longest request of servers that do not say how many.
const DEFAULT_PAGES: u32 = 32;
const PAGE: u32 = 4096;

/// The user of all requests of this process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caller {
    user: u32,
    group: u32,
    process: u32,
}

impl Caller {
    pub(super) fn this_process() -> Caller {
        // SAFETY: these cannot fail, and have no arguments.
        let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
        Caller {
            user,
            group,
            process: std::process::id(),
        }
    }

    /// The header of a request with `more` bytes of arguments and data.
    pub(super) fn header(&self, opcode: u32, more: u32, unique: u64, node: u64) -> [u64; 5] {
        [
            words(HEADER as u32 + more, opcode),
            unique,
            node,
            words(self.user, self.group),
            words(self.process, 0),
        ]
    }
}

/// Two numbers in the order of memory.
pub(super) fn words(first: u32, second: u32) -> u64 {
    let [a, b, c, d] = first.to_ne_bytes();
    let [e, f, g, h] = second.to_ne_bytes();
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

/// The arguments of INIT.
pub(super) fn init() -> Vec<u8> {
    let flags = ASYNC_READ
        | ATOMIC_TRUNCATE
        | BIG_WRITES
        | ASYNC_DIRECT
        | PARALLEL_FOLDER_OPS
        | MAX_PAGES
        | INIT_EXTENDED;
    let mut words = vec![VERSION[0], VERSION[1], 1 << 20, flags];
    words.resize(INIT_BYTES / 4, 0);
    words.into_iter().flat_map(u32::to_ne_bytes).collect()
}

/// The longest read or write that a server accepts, from its reply to INIT, bytes.
///
/// # Errors
/// It speaks another version, or accepts nothing.
pub(super) fn longest(reply: &[u8]) -> io::Result<u32> {
    let malformed = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let short = || malformed("its reply to INIT is too short".to_owned());
    let word = |at: usize| u32_at(reply, at).ok_or_else(short);
    let (major, flags, longest) = (word(0)?, word(12)?, word(20)?);
    if major != VERSION[0] {
        return Err(malformed(format!("it speaks FUSE {major}")));
    }
    let pages = match flags & MAX_PAGES {
        0 => DEFAULT_PAGES,
        _ => word(28)? & 0xffff,
    };
    let longest = longest.min(pages.saturating_mul(PAGE));
    match longest {
        0..512 => Err(malformed(format!(
            "it accepts writes of at most {longest} bytes"
        ))),
        _ => Ok(longest),
    }
}

/// The content of a reply: the bytes after its header, or an errno.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Bytes(u32),
    Errno(i32),
}

/// Parses the header of a reply to the request `unique`, which may be followed by up to `most` bytes. `None`: it is
/// malformed.
pub(super) fn reply(header: [u64; 2], unique: u64, most: u32) -> Option<Reply> {
    let [a, b, c, d, e, f, g, h] = header[0].to_ne_bytes();
    let length = u32::from_ne_bytes([a, b, c, d]);
    let error = i32::from_ne_bytes([e, f, g, h]);
    let more = length.checked_sub(REPLY_HEADER as u32)?;
    if header[1] != unique || more > most {
        return None;
    }
    match error {
        0 => Some(Reply::Bytes(more)),
        -4095..0 => Some(Reply::Errno(-error)),
        _ => None,
    }
}

/// Node, length and mode of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) node: u64,
    pub(super) inode: u64,
    pub(super) length: u64,
    pub(super) mode: u32,
}

/// Parses the reply to a LOOKUP. `None`: it is malformed. Node 0 means that the file does not exist.
pub(super) fn entry(reply: &[u8]) -> Option<Entry> {
    Some(Entry {
        node: u64_at(reply, 0)?,
        inode: u64_at(reply, 40)?,
        length: u64_at(reply, 48)?,
        mode: u32_at(reply, 100)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_the_layout_of_the_kernel() {
        let caller = Caller {
            user: 1,
            group: 2,
            process: 3,
        };
        let header = caller.header(READ, 40, 77, 9);
        let bytes: Vec<u8> = header.into_iter().flat_map(u64::to_ne_bytes).collect();
        let words = [0, 4, 24, 28, 32, 36].map(|at| u32_at(&bytes, at).unwrap());
        assert_eq!(words, [80, READ, 1, 2, 3, 0]);
        assert_eq!((u64_at(&bytes, 8), u64_at(&bytes, 16)), (Some(77), Some(9)));
        assert_eq!(bytes.len(), HEADER);
    }

    #[test]
    fn replies_that_do_not_match_their_request_are_malformed() {
        for (length, error, unique, read) in [
            (16, 0, 5, Some(Reply::Bytes(0))),
            (24, 0, 5, Some(Reply::Bytes(8))),
            (16, -28, 5, Some(Reply::Errno(28))),
            (25, 0, 5, None),
            (15, 0, 5, None),
            (0, 0, 5, None),
            (u32::MAX, 0, 5, None),
            (16, 1, 5, None),
            (16, -4096, 5, None),
            (16, i32::MIN, 5, None),
            (16, 0, 6, None),
        ] {
            let header = [words(length, error as u32), unique];
            assert_eq!(reply(header, 5, 8), read, "{length} {error} {unique}");
        }
    }

    #[test]
    fn the_longest_request_is_what_both_limits_allow() {
        let reply = |major: u32, flags: u32, write: u32, pages: u32| {
            let mut words = [0u32; 16];
            (words[0], words[3], words[5], words[7]) = (major, flags, write, pages);
            let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
            longest(&bytes).ok()
        };
        assert_eq!(reply(7, MAX_PAGES, 1 << 20, 256), Some(1 << 20));
        assert_eq!(reply(7, MAX_PAGES, 1 << 20, 2), Some(8192));
        assert_eq!(reply(7, 0, 1 << 20, 2), Some(128 << 10));
        assert_eq!(reply(7, 0, 4096, 0), Some(4096));
        assert_eq!(reply(7, MAX_PAGES, 1 << 20, 0), None);
        assert_eq!(reply(8, MAX_PAGES, 1 << 20, 256), None);
        assert!(longest(&[0; 20]).is_err());
    }

    #[test]
    fn entries_that_are_cut_off_are_malformed() {
        let mut bytes = [0u8; ENTRY_BYTES];
        bytes[0] = 9;
        bytes[40] = 5;
        bytes[49] = 1;
        bytes[100..104].copy_from_slice(&0o100_644u32.to_ne_bytes());
        let whole = Entry {
            node: 9,
            inode: 5,
            length: 256,
            mode: 0o100_644,
        };
        assert_eq!(entry(&bytes), Some(whole));
        assert_eq!(entry(&bytes[..103]), None);
        assert_eq!(entry(&[]), None);
    }
}
