//! FUSE on this host: mounts, and the transports of the kernel's requests.
//!
//! [`session`] serves a file system with threads that call a [`Worker`]. One thread reads `/dev/fuse`; with io_uring,
//! one per CPU serves the kernel's queues. A [`Message`] is a request with room for its reply, and any thread may
//! answer it. [`file`] is a server of a mirror as one file. The crate `fileserver` is a server of folders.

pub mod file;
mod init;
mod mount;
pub mod session;

pub use file::FuseFront;
pub use iodyno_sys::fuse_protocol as protocol;
pub use mount::{Mounted, abandon, unmount_stale};
pub use session::{Message, Session, SpawnReader, Worker};

/// The transport of the kernel's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// io_uring if the kernel supports it, otherwise `/dev/fuse`.
    Auto,
    /// `/dev/fuse`.
    Device,
    /// io_uring.
    IoUring,
}

/// What a server requires of a session.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// The transport of requests.
    pub transport: Transport,
    /// The kernel reads and writes files in place of the server.
    pub passthrough: bool,
    /// Requests of a batch.
    pub batch: usize,
}

/// The transport that a session uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Used {
    /// `/dev/fuse`; with the reason if io_uring was wanted and is unavailable.
    Device(Option<String>),
    /// io_uring, with this number of threads.
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
