//! The headers of FUSE requests: their fields, and which requests are refused before a file system sees them.
//!
//! Source: the kernel's `include/uapi/linux/fuse.h`. The bytes come from an untrusted client. They are copied before
//! they are checked, so that the client cannot change them afterwards.

pub use iodyno_serve::fuse::protocol::{
    ENTRY_BYTES, HEADER, MAX_DATA, OPENED_BYTES, REPLY_HEADER, WRITE_HEADER, opcode, reply_header,
    u32_at, u64_at,
};
use rustix::io::Errno;

use opcode::{
    ACCESS, BATCH_FORGET, CREATE, DESTROY, FLUSH, FORGET, FSYNC, FSYNCDIR, GETATTR, GETXATTR, INIT,
    INTERRUPT, LINK, LISTXATTR, LOOKUP, LSEEK, MKDIR, MKNOD, OPEN, OPENDIR, READ, READDIR,
    READDIRPLUS, READLINK, RELEASE, RELEASEDIR, RENAME, RENAME2, RMDIR, STATFS, SYMLINK, SYNCFS,
    TMPFILE, UNLINK, WRITE,
};

/// Bytes of a request without data, in which attributes and names are; and of the list of `BATCH_FORGET`.
pub const MAX_OTHER: usize = 256 << 10;

/// The beginning of a request, at most [`WRITE_HEADER`] bytes, in memory of this process.
#[derive(Debug, Clone, Copy)]
pub struct Head {
    bytes: [u8; WRITE_HEADER],
    /// Total size of the message's buffers, bytes.
    pub readable: usize,
    /// Total size of the reply's buffers, bytes.
    pub writable: usize,
}

impl Head {
    /// Parses the head of a message with these first bytes. `None`: it is too short for a header, and cannot be
    /// answered.
    #[must_use]
    pub fn of(beginning: &[u8], readable: usize, writable: usize) -> Option<Head> {
        if beginning.len() < HEADER || readable < HEADER {
            return None;
        }
        let mut bytes = [0; WRITE_HEADER];
        let length = beginning.len().min(WRITE_HEADER);
        bytes[..length].copy_from_slice(&beginning[..length]);
        Some(Head {
            bytes,
            readable,
            writable,
        })
    }

    /// A 32-bit word of the message; 0 past its end.
    #[must_use]
    pub fn u32_at(&self, at: usize) -> u32 {
        u32_at(&self.bytes, at).unwrap_or(0)
    }

    /// A 64-bit word of the message; 0 past its end.
    #[must_use]
    pub fn u64_at(&self, at: usize) -> u64 {
        u64_at(&self.bytes, at).unwrap_or(0)
    }

    /// Its length by its header.
    #[must_use]
    pub fn length(&self) -> usize {
        self.u32_at(0) as usize
    }

    /// The opcode.
    #[must_use]
    pub fn opcode(&self) -> u32 {
        self.u32_at(4)
    }

    /// The client's number of the request.
    #[must_use]
    pub fn unique(&self) -> u64 {
        self.u64_at(8)
    }

    /// The node that it is for.
    #[must_use]
    pub fn node(&self) -> u64 {
        self.u64_at(16)
    }

    /// The handle of a read or write.
    #[must_use]
    pub fn handle(&self) -> u64 {
        self.u64_at(HEADER)
    }

    /// Whether it creates a file or folder owned by the user in its header.
    #[must_use]
    pub fn creates(&self) -> bool {
        matches!(self.opcode(), MKNOD | MKDIR | SYMLINK | CREATE | TMPFILE)
    }

    /// Bytes of data that are read or written.
    #[must_use]
    pub fn data(&self) -> u32 {
        match self.opcode() {
            READ | WRITE => self.u32_at(HEADER + 16),
            _ => 0,
        }
    }

    /// Whether a write appends. Writes of cached data have a fixed offset.
    #[must_use]
    pub fn appends(&self) -> bool {
        let append = rustix::fs::OFlags::APPEND.bits() & self.u32_at(HEADER + 32) != 0;
        self.opcode() == WRITE && append && !self.writes_cached()
    }

    /// Whether a write contains cached data of the client, such as changes of mapped memory. It may use any handle of
    /// its file.
    #[must_use]
    pub fn writes_cached(&self) -> bool {
        const CACHED: u32 = 1;
        self.opcode() == WRITE && self.u32_at(HEADER + 20) & CACHED != 0
    }

    /// Whether a write clears the set-user-id bits of its file.
    #[must_use]
    pub fn ends_privileges(&self) -> bool {
        const KILL_SUIDGID: u32 = 1 << 2;
        self.opcode() == WRITE && self.u32_at(HEADER + 20) & KILL_SUIDGID != 0
    }

    /// Whether the client waits for a reply.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        !matches!(self.opcode(), FORGET | BATCH_FORGET | INTERRUPT)
    }

    /// Why the request is refused, from its header alone.
    #[must_use]
    pub fn refused(&self, read_only: bool) -> Option<Errno> {
        let (opcode, length) = (self.opcode(), self.length());
        let shortest = HEADER
            + match opcode {
                READ | WRITE | READDIR | READDIRPLUS => 40,
                OPEN | OPENDIR | GETXATTR | LISTXATTR | FORGET | BATCH_FORGET => 8,
                INIT => 16,
                _ => 0,
            };
        if length < shortest || length > self.readable {
            return Some(Errno::INVAL);
        }
        if opcode != WRITE && length > MAX_OTHER {
            return Some(Errno::NOMEM);
        }
        // No reply would fit.
        if self.is_answered() && self.writable < REPLY_HEADER {
            return Some(Errno::INVAL);
        }
        let room = self.writable.saturating_sub(REPLY_HEADER);
        let fits = match opcode {
            READ => self.data() <= MAX_DATA && self.data() as usize <= room,
            READDIR | READDIRPLUS => self.u32_at(HEADER + 16) as usize <= room,
            GETXATTR | LISTXATTR => self.u32_at(HEADER) as usize <= room,
            WRITE => {
                self.data() <= MAX_DATA
                    && self.data() as usize <= length.saturating_sub(WRITE_HEADER)
            }
            BATCH_FORGET => self.u32_at(HEADER) as usize * 16 <= length - HEADER - 8,
            // A client that does not receive the reply would never forget or release the node.
            LOOKUP | MKNOD | MKDIR | SYMLINK | LINK => ENTRY_BYTES <= room,
            OPEN | OPENDIR => OPENED_BYTES <= room,
            CREATE => ENTRY_BYTES + OPENED_BYTES <= room,
            _ => true,
        };
        if !fits {
            return Some(Errno::INVAL);
        }
        // The system calls take an id that the client could not map as "unchanged".
        if self.creates() && (self.u32_at(24) == u32::MAX || self.u32_at(28) == u32::MAX) {
            return Some(Errno::OVERFLOW);
        }
        (read_only && self.changes()).then_some(Errno::ROFS)
    }

    /// Whether it needs a writable file system. Unknown opcodes do.
    fn changes(&self) -> bool {
        const CHANGING: u32 = (libc_flags::ACCMODE | libc_flags::CREATE | libc_flags::TRUNCATE)
            | libc_flags::TEMPORARY;
        match self.opcode() {
            OPEN | OPENDIR => self.u32_at(HEADER) & CHANGING != 0,
            LOOKUP | FORGET | GETATTR | READLINK | READ | STATFS | RELEASE | FSYNC | GETXATTR
            | LISTXATTR | FLUSH | INIT | READDIR | RELEASEDIR | FSYNCDIR | ACCESS | INTERRUPT
            | DESTROY | BATCH_FORGET | READDIRPLUS | LSEEK | SYNCFS => false,
            _ => true,
        }
    }

    /// Whether the names in a whole message are refused: each must be the name of something in a folder.
    #[must_use]
    pub fn names_refused(&self, message: &[u8]) -> bool {
        let (skipped, count) = match self.opcode() {
            LOOKUP | UNLINK | RMDIR | SYMLINK => (0, 1),
            MKDIR | LINK | RENAME => (8, 1 + usize::from(self.opcode() == RENAME)),
            MKNOD | CREATE | RENAME2 => (16, 1 + usize::from(self.opcode() == RENAME2)),
            _ => return false,
        };
        let names = message.get(HEADER + skipped..).unwrap_or_default();
        let mut names = names.split(|byte| *byte == 0).take(count);
        let bad = |name: &[u8]| matches!(name, b"" | b"." | b"..") || name.contains(&b'/');
        (0..count).any(|_| names.next().is_none_or(bad))
    }
}

/// Flags of open(2) on all architectures that this crate is for; `O_TMPFILE` without `O_DIRECTORY`.
mod libc_flags {
    pub(super) const ACCMODE: u32 = 3;
    pub(super) const CREATE: u32 = rustix::fs::OFlags::CREATE.bits();
    pub(super) const TRUNCATE: u32 = rustix::fs::OFlags::TRUNC.bits();
    pub(super) const TEMPORARY: u32 =
        rustix::fs::OFlags::TMPFILE.bits() & !rustix::fs::OFlags::DIRECTORY.bits();
}

#[cfg(test)]
mod tests {
    use super::opcode::{RENAME, SETATTR};
    use super::*;

    /// A message with these words after its header.
    fn message(opcode: u32, words: &[u64], more: &[u8]) -> Vec<u8> {
        let length = HEADER + 8 * words.len() + more.len();
        let mut bytes = (length as u32).to_ne_bytes().to_vec();
        bytes.extend(opcode.to_ne_bytes());
        bytes.extend(7u64.to_ne_bytes());
        bytes.resize(HEADER, 0);
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend(more);
        bytes
    }

    fn head(message: &[u8], writable: usize) -> Head {
        Head::of(message, message.len(), writable).unwrap()
    }

    #[test]
    fn sizes_that_do_not_fit_the_buffers_are_refused() {
        let read = |size, writable| {
            head(&message(READ, &[1, 0, size, 0, 0], &[]), writable).refused(false)
        };
        assert_eq!(read(4096, 4112), None);
        assert_eq!(read(4096, 4111), Some(Errno::INVAL));
        assert_eq!(read(u32::MAX.into(), 1 << 30), Some(Errno::INVAL));
        let write = |size, data: usize| {
            head(&message(WRITE, &[1, 0, size, 0, 0], &vec![0; data]), 24).refused(false)
        };
        assert_eq!(write(4096, 4096), None);
        assert_eq!(write(4096, 4095), Some(Errno::INVAL));
        for opcode in [READDIR, READDIRPLUS] {
            let listed = head(&message(opcode, &[1, 0, 1 << 31, 0, 0], &[]), 4096);
            assert_eq!(listed.refused(false), Some(Errno::INVAL));
        }
        let attribute = head(
            &message(GETXATTR, &[u64::from(u32::MAX)], b"user.a\0"),
            4096,
        );
        assert_eq!(attribute.refused(false), Some(Errno::INVAL));
        let forgotten = head(&message(BATCH_FORGET, &[1 << 20], &[0; 32]), 0);
        assert_eq!(forgotten.refused(false), Some(Errno::INVAL));
    }

    #[test]
    fn a_length_that_is_not_that_of_the_message_is_refused() {
        let mut bytes = message(GETATTR, &[0, 0], &[]);
        assert_eq!(head(&bytes, 120).refused(false), None);
        bytes[0] += 1;
        assert_eq!(head(&bytes, 120).refused(false), Some(Errno::INVAL));
        bytes[0] = 39;
        assert_eq!(head(&bytes, 120).refused(false), Some(Errno::INVAL));
        assert!(Head::of(&bytes[..39], 39, 120).is_none());
        assert_eq!(
            head(&message(GETATTR, &[0, 0], &[]), 15).refused(false),
            Some(Errno::INVAL)
        );
    }

    #[test]
    fn a_server_that_only_reads_refuses_all_that_changes() {
        for (opcode, flags, refused) in [
            (OPEN, libc_flags::CREATE, true),
            (OPEN, libc_flags::TRUNCATE, true),
            (OPEN, 1, true),
            (OPEN, 2, true),
            (OPEN, 3, true),
            (OPENDIR, libc_flags::TEMPORARY, true),
            (OPENDIR, rustix::fs::OFlags::DIRECTORY.bits(), false),
            (OPEN, rustix::fs::OFlags::DIRECT.bits(), false),
            (SETATTR, 0, true),
            (GETATTR, 0, false),
            // An unknown opcode.
            (60, 0, true),
        ] {
            let asked = head(&message(opcode, &[flags.into(), 0], &[]), 4096);
            let expected = refused.then_some(Errno::ROFS);
            assert_eq!(asked.refused(true), expected, "{opcode} {flags:o}");
            assert_eq!(asked.refused(false), None);
        }
    }

    #[test]
    fn names_of_other_folders_are_refused() {
        for (opcode, words, names, refused) in [
            (LOOKUP, 0, &b"a\0"[..], false),
            (LOOKUP, 0, b"..\0", true),
            (LOOKUP, 0, b".\0", true),
            (LOOKUP, 0, b"../etc\0", true),
            (LOOKUP, 0, b"\0", true),
            (LOOKUP, 0, b"...\0", false),
            (UNLINK, 0, b"a/b\0", true),
            (SYMLINK, 0, b"a\0/etc/passwd\0", false),
            (SYMLINK, 0, b"/a\0b\0", true),
            (MKDIR, 1, b"..\0", true),
            (LINK, 1, b"a\0", false),
            (RENAME, 1, b"a\0b\0", false),
            (RENAME, 1, b"a\0../b\0", true),
            (RENAME2, 2, b"..\0b\0", true),
            (RENAME2, 2, b"a\0b\0", false),
            (RENAME2, 2, b"a", true),
            (CREATE, 2, b"a/\0", true),
            (CREATE, 2, b"a\0", false),
        ] {
            let bytes = message(opcode, &vec![0; words], names);
            assert_eq!(
                head(&bytes, 4096).names_refused(&bytes),
                refused,
                "{opcode} {names:?}"
            );
        }
    }

    #[test]
    fn an_id_that_the_client_could_not_map_creates_nothing() {
        for (at, opcode, expected) in [
            (24, CREATE, Some(Errno::OVERFLOW)),
            (28, MKDIR, Some(Errno::OVERFLOW)),
            (24, GETATTR, None),
        ] {
            let mut bytes = message(opcode, &[0, 0], b"a\0");
            bytes[at..at + 4].fill(0xff);
            assert_eq!(head(&bytes, 4096).refused(false), expected);
        }
    }
}
