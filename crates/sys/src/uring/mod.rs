//! io_uring: rings, registered files and buffers, and slots that belong to the kernel while in flight.

mod abi;
mod rings;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

pub use rings::RingWishes;

use crate::file::RwFlags;
use crate::memory::Arena;
use abi::{Sqe, op, setup};
use rings::Rings;

/// What an entry does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UringOp {
    /// Into the slot.
    Read,
    /// From the slot.
    Write,
    /// Punches a hole (files).
    PunchHole,
    /// fsync.
    Fsync,
    /// fdatasync.
    Fdatasync,
}

/// Further wishes, each met where the kernel and the limits allow it.
#[derive(Debug, Clone, Copy)]
pub struct UringOptions {
    /// The ring.
    pub ring: RingWishes,
    /// Register the buffers.
    pub fixed_buffers: bool,
    /// Register the files.
    pub fixed_files: bool,
    /// IOSQE_ASYNC.
    pub force_async: bool,
    /// RWF_* flags of reads and writes.
    pub rw_flags: RwFlags,
}

const CANCEL_USER_DATA: u64 = u64::MAX;

/// A ring with its files and buffers. Belongs to the thread that made it.
#[derive(Debug)]
pub struct Uring {
    // Field order is drop order: the ring goes before the memory it may write to.
    rings: Rings,
    arena: Arena,
    files: Vec<OwnedFd>,
    /// What goes into an entry's `fd`: the descriptor or the registered index.
    file_words: Vec<i32>,
    sqe_flags: u8,
    read_op: u8,
    write_op: u8,
    rw_flags: RwFlags,
    features: Vec<String>,
    fallbacks: Vec<String>,
}

impl Uring {
    /// Makes the ring and registers what can be registered.
    ///
    /// # Errors
    /// Those of `io_uring_setup` and `mmap`. That something cannot be registered is a fallback.
    pub fn new(options: UringOptions, files: Vec<OwnedFd>, arena: Arena) -> io::Result<Uring> {
        let rings = Rings::new(options.ring)?;
        let mut uring = Uring {
            file_words: files.iter().map(AsRawFd::as_raw_fd).collect(),
            sqe_flags: if options.force_async {
                abi::SQE_ASYNC
            } else {
                0
            },
            read_op: op::READ,
            write_op: op::WRITE,
            rw_flags: options.rw_flags,
            features: Vec::new(),
            fallbacks: Vec::new(),
            rings,
            arena,
            files,
        };
        uring.name_ring_features(options.ring);
        if options.fixed_files {
            uring.register_files();
        }
        if options.fixed_buffers {
            uring.register_buffers();
        }
        Ok(uring)
    }

    fn name_ring_features(&mut self, wishes: RingWishes) {
        let flags = self.rings.flags;
        for (flag, name, wished) in [
            (setup::SINGLE_ISSUER, "single issuer", true),
            (
                setup::DEFER_TASKRUN,
                "deferred task run",
                wishes.sqpoll.is_none(),
            ),
            (setup::NO_SQARRAY, "no SQ array", true),
            (setup::IOPOLL, "polled completions", wishes.iopoll),
            (setup::SQPOLL, "submission thread", wishes.sqpoll.is_some()),
        ] {
            match (flags & flag != 0, wished) {
                (true, _) => self.features.push(name.to_owned()),
                (false, true) => {
                    self.fallbacks
                        .push(format!("io_uring without `{name}`: kernel too old"));
                }
                (false, false) => {}
            }
        }
    }

    fn register_files(&mut self) {
        let mut words = self.file_words.clone();
        let count = words.len() as u32;
        match self
            .rings
            .register(abi::register::FILES, words.as_mut_ptr().cast(), count)
        {
            Ok(_) => {
                self.file_words = (0..count as i32).collect();
                self.sqe_flags |= abi::SQE_FIXED_FILE;
                self.features.push("registered files".to_owned());
            }
            Err(error) => self
                .fallbacks
                .push(format!("files not registered: {error}")),
        }
    }

    fn register_buffers(&mut self) {
        const LARGEST: usize = 1 << 30;
        let mut whole = self.arena.whole();
        if whole.iov_len > LARGEST {
            self.fallbacks
                .push("buffers not registered: more than 1 GiB".to_owned());
            return;
        }
        match self
            .rings
            .register(abi::register::BUFFERS, (&raw mut whole).cast(), 1)
        {
            Ok(_) => {
                (self.read_op, self.write_op) = (op::READ_FIXED, op::WRITE_FIXED);
                self.features.push("registered buffers".to_owned());
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => {
                self.fallbacks.push(
                    "buffers not registered: locked-memory limit (raise `ulimit -l`)".to_owned(),
                );
            }
            Err(error) => self
                .fallbacks
                .push(format!("buffers not registered: {error}")),
        }
    }

    /// Features in force.
    pub fn features(&self) -> &[String] {
        &self.features
    }

    /// Wishes not met, with the reason.
    pub fn fallbacks(&self) -> &[String] {
        &self.fallbacks
    }

    /// Its files.
    pub fn files(&self) -> &[OwnedFd] {
        &self.files
    }

    /// An idle slot's bytes.
    #[inline]
    pub fn buffer(&mut self, slot: u32) -> &mut [u8] {
        self.arena.slot_mut(slot)
    }

    /// Entries that can be prepared before the next `enter`.
    #[inline]
    pub fn room(&self) -> u32 {
        self.rings.room()
    }

    /// Entries prepared and not yet taken by the kernel.
    #[inline]
    pub fn pending(&self) -> u32 {
        self.rings.pending()
    }

    /// Ops that the ring has not given back.
    pub fn in_flight(&self) -> u32 {
        self.arena.busy_count()
    }

    /// Writes an entry in place. The slot is the ring's until it is reaped.
    ///
    /// # Panics
    /// If there is no room, the slot is in flight, the file does not exist, or the range exceeds the slot.
    #[inline]
    pub fn prep(&mut self, what: UringOp, slot: u32, file: u32, offset: u64, range: (u32, u32)) {
        let (skip, length) = range;
        let fd = self.file_words[file as usize];
        let (flags, read_op, write_op, rw_flags) =
            (self.sqe_flags, self.read_op, self.write_op, self.rw_flags);
        let moves = matches!(what, UringOp::Read | UringOp::Write);
        let address = self.arena.lend(slot, skip, if moves { length } else { 0 });
        let sqe = Sqe {
            flags,
            fd,
            off: offset,
            user_data: slot.into(),
            ..Sqe::default()
        };
        *self.rings.next() = match what {
            UringOp::Read => Sqe {
                opcode: read_op,
                addr: address as u64,
                len: length,
                op_flags: rw_flags.read,
                ..sqe
            },
            UringOp::Write => Sqe {
                opcode: write_op,
                addr: address as u64,
                len: length,
                op_flags: rw_flags.write,
                ..sqe
            },
            // fallocate keeps its length in `addr` and its mode in `len`.
            UringOp::PunchHole => Sqe {
                opcode: op::FALLOCATE,
                addr: length.into(),
                len: (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE) as u32,
                ..sqe
            },
            UringOp::Fsync => Sqe {
                opcode: op::FSYNC,
                off: 0,
                ..sqe
            },
            UringOp::Fdatasync => Sqe {
                opcode: op::FSYNC,
                off: 0,
                op_flags: abi::FSYNC_DATASYNC,
                ..sqe
            },
        };
    }

    /// Submits what was prepared and waits for `min` completions or the timeout, in one kernel entry.
    ///
    /// # Errors
    /// Only if the ring itself broke.
    #[inline]
    pub fn enter(&mut self, min: u32, timeout: Option<Duration>) -> io::Result<()> {
        self.rings.enter(min, timeout)
    }

    /// Waiting can be bounded in time (kernel 5.11 and later).
    pub fn waits_with_timeout(&self) -> bool {
        self.rings.waits_with_timeout()
    }

    /// Completions to be reaped.
    #[inline]
    pub fn ready(&self) -> u32 {
        self.rings.ready()
    }

    /// Gives back up to `limit` slots with their results (bytes, or −errno).
    #[inline]
    pub fn reap(&mut self, limit: u32, mut each: impl FnMut(u32, i32)) {
        let arena = &mut self.arena;
        self.rings.reap(limit, |cqe| {
            if cqe.user_data != CANCEL_USER_DATA {
                let slot = cqe.user_data as u32;
                arena.take_back(slot);
                each(slot, cqe.res);
            }
        });
    }

    /// Asks the kernel to cancel all that is in flight; their completions come as ECANCELED.
    pub fn cancel_all(&mut self) {
        if self.rings.room() == 0 {
            return;
        }
        *self.rings.next() = Sqe {
            opcode: op::ASYNC_CANCEL,
            op_flags: abi::CANCEL_ALL | abi::CANCEL_ANY,
            user_data: CANCEL_USER_DATA,
            ..Sqe::default()
        };
        // A ring that broke cannot cancel; the arena is then leaked, not freed.
        let _ = self.rings.enter(0, None);
    }
}
