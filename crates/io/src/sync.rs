//! Synchronous calls: one op at a time, each stamped on its own.

use std::os::fd::OwnedFd;

use iodyno_sys::file::{self, RwFlags};
use iodyno_sys::memory::Arena;

use crate::{
    Backend, BackendError, Capabilities, Clock, Completion, Completions, File, MonotonicClock, Op,
    OpKind, Slot,
};

/// A pair of system calls. Results are bytes, or −errno.
pub trait SyncCalls {
    /// Reads.
    fn read(&self, file: &OwnedFd, into: &mut [u8], offset: u64) -> i32;
    /// Writes.
    fn write(&self, file: &OwnedFd, from: &[u8], offset: u64) -> i32;
}

/// pread, pwrite.
#[derive(Debug, Clone, Copy, Default)]
pub struct Psync;

/// lseek and read, lseek and write.
#[derive(Debug, Clone, Copy, Default)]
pub struct SeekSync;

/// preadv2, pwritev2 with RWF_* flags.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pvsync2 {
    /// RWF_*.
    pub flags: RwFlags,
}

impl SyncCalls for Psync {
    #[inline]
    fn read(&self, file: &OwnedFd, into: &mut [u8], offset: u64) -> i32 {
        file::pread(file, into, offset)
    }

    #[inline]
    fn write(&self, file: &OwnedFd, from: &[u8], offset: u64) -> i32 {
        file::pwrite(file, from, offset)
    }
}

impl SyncCalls for SeekSync {
    #[inline]
    fn read(&self, file: &OwnedFd, into: &mut [u8], offset: u64) -> i32 {
        file::seek_read(file, into, offset)
    }

    #[inline]
    fn write(&self, file: &OwnedFd, from: &[u8], offset: u64) -> i32 {
        file::seek_write(file, from, offset)
    }
}

impl SyncCalls for Pvsync2 {
    #[inline]
    fn read(&self, file: &OwnedFd, into: &mut [u8], offset: u64) -> i32 {
        file::preadv2(file, into, offset, self.flags.read)
    }

    #[inline]
    fn write(&self, file: &OwnedFd, from: &[u8], offset: u64) -> i32 {
        file::pwritev2(file, from, offset, self.flags.write)
    }
}

/// Does one op and returns its result: bytes, or −errno.
pub trait Doer {
    /// Does it, with the part of the slot's buffer that is the op's.
    fn carry_out(&mut self, op: &Op, buffer: &mut [u8]) -> i32;
}

/// System calls on open files.
#[derive(Debug)]
pub struct Calling<S> {
    /// The calls.
    pub calls: S,
    /// The files.
    pub files: Vec<File>,
}

impl<S: SyncCalls> Doer for Calling<S> {
    #[inline]
    fn carry_out(&mut self, op: &Op, buffer: &mut [u8]) -> i32 {
        let File { descriptor, device } = &self.files[op.file as usize];
        match op.kind {
            OpKind::Read => self.calls.read(descriptor, buffer, op.offset),
            OpKind::Write => self.calls.write(descriptor, buffer, op.offset),
            OpKind::Trim => file::trim(descriptor, *device, op.offset, op.length.into()),
            OpKind::Fsync => file::sync(descriptor, false),
            OpKind::Fdatasync => file::sync(descriptor, true),
        }
    }
}

/// See the module. The op is done within the turn that issues it.
#[derive(Debug)]
pub struct SyncBackend<D> {
    doer: D,
    arena: Arena,
    clock: MonotonicClock,
    prepared: Option<(Slot, Op)>,
}

impl<D: Doer> SyncBackend<D> {
    /// With this way of doing.
    pub fn new(doer: D, arena: Arena) -> SyncBackend<D> {
        SyncBackend {
            doer,
            arena,
            clock: MonotonicClock,
            prepared: None,
        }
    }
}

impl<D: Doer> Backend for SyncBackend<D> {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            stamps_each: true,
            ..Capabilities::default()
        }
    }

    #[inline]
    fn buffer(&mut self, slot: Slot) -> &mut [u8] {
        self.arena.slot_mut(slot)
    }

    #[inline]
    fn room(&self) -> u32 {
        self.prepared.is_none().into()
    }

    #[inline]
    fn prep(&mut self, slot: Slot, op: &Op) {
        debug_assert!(self.prepared.is_none(), "one op at a time");
        self.prepared = Some((slot, *op));
    }

    #[inline]
    fn turn(
        &mut self,
        _min: u32,
        _max: u32,
        _deadline: Option<u64>,
        completions: &mut Completions,
    ) -> Result<(), BackendError> {
        completions.clear();
        let submitted = self.clock.now();
        (completions.entered, completions.returned) = (submitted, submitted);
        let Some((slot, op)) = self.prepared.take() else {
            return Ok(());
        };
        let moves = matches!(op.kind, OpKind::Read | OpKind::Write);
        let length = if moves { op.length as usize } else { 0 };
        let range = op.skip as usize..op.skip as usize + length;
        let result = self
            .doer
            .carry_out(&op, &mut self.arena.slot_mut(slot)[range]);
        let completed = self.clock.now();
        completions.returned = completed;
        completions.submitted = 1;
        completions.list.push(Completion {
            slot,
            result,
            submitted,
            completed,
        });
        Ok(())
    }

    fn cancel_all(&mut self) {}
}
