//! The kinds of I/O engines.

use serde::{Deserialize, Serialize};

use crate::named::named;

named! {
    /// The kind of backend.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum EngineKind in ALL {
        /// pread, pwrite.
        Psync = "psync",
        /// lseek, then read or write.
        Sync = "sync",
        /// preadv2, pwritev2 (RWF flags with `hipri`).
        Pvsync2 = "pvsync2",
        /// io_submit, io_getevents.
        Libaio = "libaio",
        /// io_uring.
        IoUring = "io_uring",
        /// NVMe commands through io_uring, past the block layer.
        IoUringCmd = "io_uring_cmd",
        /// aio_read and aio_write of the C library.
        Posixaio = "posixaio",
        /// Memory copies to and from a mapped file.
        Mmap = "mmap",
        /// fallocate: a write reserves space, a read reserves it without a new length, a trim punches a hole.
        Falloc = "falloc",
        /// ftruncate to the offset of each write.
        Ftruncate = "ftruncate",
        /// Requests to a server of network block devices.
        Nbd = "nbd",
        /// Requests to a server of disks of virtual machines, through shared memory.
        VhostUserBlk = "vhost-user-blk",
        /// Requests to a server of folders of virtual machines, through shared memory.
        Virtiofs = "virtiofs",
        /// Completes at once without I/O: measures the overhead of the harness.
        Null = "null",
        /// Simulated device with a seeded latency distribution, for tests.
        Sim = "sim",
    }
}

impl EngineKind {
    /// Whether it runs one op at a time, whatever depth is requested.
    pub fn synchronous(self) -> bool {
        matches!(
            self,
            EngineKind::Psync
                | EngineKind::Sync
                | EngineKind::Pvsync2
                | EngineKind::Mmap
                | EngineKind::Falloc
                | EngineKind::Ftruncate
        )
    }

    /// Whether submission always is a separate system call.
    pub(crate) fn submits_apart(self) -> bool {
        matches!(self, EngineKind::Libaio | EngineKind::Posixaio)
    }

    /// Whether it uses an io_uring, with a descriptor of its own.
    pub fn has_ring(self) -> bool {
        matches!(self, EngineKind::IoUring | EngineKind::IoUringCmd)
    }

    /// Whether it changes the space or the length of files instead of their data.
    pub fn without_data(self) -> bool {
        matches!(self, EngineKind::Falloc | EngineKind::Ftruncate)
    }

    /// Whether it accesses no files of the host.
    pub fn without_files(self) -> bool {
        self.without_storage() || self.has_export()
    }

    /// Whether it accesses an export of a server instead of files of the host.
    pub fn has_export(self) -> bool {
        matches!(self, EngineKind::Nbd | EngineKind::VhostUserBlk) || self.has_share()
    }

    /// Whether what it accesses are files of a folder that a server shares.
    pub fn has_share(self) -> bool {
        self == EngineKind::Virtiofs
    }

    /// Whether it performs no I/O: its targets have neither length nor content.
    pub fn without_storage(self) -> bool {
        matches!(self, EngineKind::Null | EngineKind::Sim)
    }
}
