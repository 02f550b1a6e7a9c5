//! FUSE on this host: mounts, and the transports by which the kernel's requests come.
//!
//! [`session`] serves a file system by threads that call a [`Worker`]: one thread reads `/dev/fuse`, and with io_uring one for each
//! CPU has the queues of the kernel. A [`Message`] is a request with the room for its reply, and may be answered by any thread. [`file`] is
//! such a server, of a mirror as one file; that of folders is the crate `fileserver`.
//!
//! Source: the kernel's `include/uapi/linux/fuse.h`, version 7.42.

pub mod file;
mod init;
mod mount;
pub mod session;

pub use file::FuseFront;
pub use mount::{Mounted, abandon, unmount_stale};
pub use session::{Another, Message, Session, Worker};

/// Bytes of the header of a request, and of that of a reply.
pub const HEADER: usize = 40;
/// Bytes of the header of a reply.
pub const REPLY_HEADER: usize = 16;
/// Bytes before the data of a `WRITE`.
pub const WRITE_HEADER: usize = 80;
/// Bytes of the data of a request, of which servers agree with the kernel.
pub const MOST_DATA: u32 = 1 << 20;

/// How requests come from the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// By io_uring if the kernel has it, otherwise by `/dev/fuse`.
    Auto,
    /// By `/dev/fuse`.
    Device,
    /// By io_uring.
    IoUring,
}

/// What a server wants of a session.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// How requests come.
    pub transport: Transport,
    /// The kernel reads and writes files in place of the server.
    pub passthrough: bool,
    /// Requests of a batch.
    pub batch: usize,
}

/// How requests of a session come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Used {
    /// By `/dev/fuse`; because io_uring was wanted and is not there for this reason.
    Device(Option<String>),
    /// By io_uring, to this number of threads.
    IoUring(usize),
}

impl std::fmt::Display for Used {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Used::Device(None) => write!(f, "/dev/fuse"),
            Used::Device(Some(why)) => write!(f, "/dev/fuse (no io_uring: {why})"),
            Used::IoUring(threads) => write!(
                f,
                "io_uring ({threads} thread{})",
                if *threads == 1 { "" } else { "s" }
            ),
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

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*word))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_ne_bytes(*word))
}
