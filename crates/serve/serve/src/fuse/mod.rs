//! FUSE on this host: mounts, and the transports by which the kernel's requests come.
//!
//! [`session`] serves a file system by threads that call a [`Worker`]: one thread reads `/dev/fuse`, and with io_uring
//! one for each CPU has the queues of the kernel. A [`Message`] is a request with the room for its reply, and may be
//! answered by any thread. [`file`] is such a server, of a mirror as one file; that of folders is the crate
//! `fileserver`.

pub mod file;
mod init;
mod mount;
pub mod protocol;
pub mod session;

pub use file::FuseFront;
pub use mount::{Mounted, abandon, unmount_stale};
pub use session::{Message, Session, SpawnReader, Worker};

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
