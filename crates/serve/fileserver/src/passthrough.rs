//! FUSE passthrough: the kernel reads and writes files itself, in place of the server.
//!
//! The kernel accepts one backing file for all concurrent opens of a file, and either all or none of them pass through.
//! So the first open of a node decides, and its backing file id is kept until the last release. The kernel opens the
//! backing file with the client's flags, such as `O_DIRECT`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use iodyno_sys::fuse::{close_backing, open_backing};

use crate::request::{Head, REPLY_HEADER, opcode, u64_at};

/// Bytes of `struct fuse_entry_out`, which precedes `struct fuse_open_out` in the reply to `CREATE`.
const ENTRY: usize = 128;
/// Flags of opened files: passed through, and those that may be used with it.
const PASSTHROUGH: u32 = 1 << 7;
const NO_FLUSH: u32 = 1 << 5;

/// The open files of a session.
pub(crate) struct Passthrough {
    session: Arc<File>,
    nodes: Mutex<HashMap<u64, Node>>,
}

/// A file that is open.
#[derive(Debug)]
struct Node {
    opens: u64,
    /// The id of its backing file. `None`: the kernel refused it, so the server does the I/O.
    backing: Option<u32>,
}

impl Passthrough {
    pub(crate) fn new(session: Arc<File>) -> Passthrough {
        Passthrough {
            session,
            nodes: Mutex::default(),
        }
    }

    /// Completes a reply before it is sent. `descriptor` returns a file by its node and handle.
    pub(crate) fn answered(
        &self,
        head: &Head,
        reply: &mut [u8],
        descriptor: impl FnOnce(u64, u64) -> io::Result<File>,
    ) {
        let (node, opened) = match head.opcode() {
            opcode::OPEN => (Some(head.node()), REPLY_HEADER),
            opcode::CREATE => (u64_at(reply, REPLY_HEADER), REPLY_HEADER + ENTRY),
            opcode::RELEASE => return self.released(head.node()),
            _ => return,
        };
        // Failed replies are shorter.
        if let (Some(node), Some(opened)) = (node, reply.get_mut(opened..opened + 16))
            && let Some(handle) = u64_at(opened, 0)
            && let Some(number) = self.opened(node, || descriptor(node, handle))
        {
            let flags = u64_at(opened, 8).unwrap_or(0) as u32 & NO_FLUSH | PASSTHROUGH;
            opened[8..12].copy_from_slice(&flags.to_ne_bytes());
            opened[12..].copy_from_slice(&number.to_ne_bytes());
        }
    }

    /// Records an open of a node. Returns its backing file id if it passes through.
    fn opened(&self, node: u64, descriptor: impl FnOnce() -> io::Result<File>) -> Option<u32> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let found = nodes.entry(node).or_insert_with(|| Node {
            opens: 0,
            backing: descriptor()
                .and_then(|file| open_backing(&*self.session, file))
                .ok(),
        });
        found.opens += 1;
        found.backing
    }

    fn released(&self, node: u64) {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut found) = nodes.entry(node) {
            found.get_mut().opens -= 1;
            if found.get().opens == 0
                && let Some(number) = found.remove().backing
            {
                // The session's end closes it at the latest.
                let _ = close_backing(&*self.session, number);
            }
        }
    }
}
