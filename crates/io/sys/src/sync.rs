//! Synchronous engines: one op at a time, executed by the turn that submits it, each with its own
//! timestamps.

use std::os::fd::OwnedFd;

use iodyno_model::Engine;

use crate::file::{self, RwFlags};
use crate::memory::Arena;
use crate::{
    Backend, BackendError, Capabilities, Clock, Completions, File, MonotonicClock, Op, OpKind, Slot,
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
pub struct Pvsync2(RwFlags);

impl Pvsync2 {
    /// With the flags for the engine's options.
    pub fn new(engine: &Engine) -> Pvsync2 {
        Pvsync2(RwFlags::of(engine))
    }
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
        file::preadv2(file, into, offset, self.0.read)
    }

    #[inline]
    fn write(&self, file: &OwnedFd, from: &[u8], offset: u64) -> i32 {
        file::pwritev2(file, from, offset, self.0.write)
    }
}

/// Executes ops synchronously.
pub trait SyncExecutor {
    /// Executes the op on its part of the slot's buffer. Returns bytes, or −errno.
    fn execute(&mut self, op: &Op, buffer: &mut [u8]) -> i32;

    /// As [`Backend::drop_pages`].
    fn drop_pages(&mut self, _file: u32, _offset: u64, _length: u64) {}
}

/// Executes ops by system calls on open files.
#[derive(Debug)]
pub struct SystemCalls<S> {
    /// The calls.
    pub calls: S,
    /// The files.
    pub files: Vec<File>,
}

impl<S: SyncCalls> SyncExecutor for SystemCalls<S> {
    #[inline]
    fn execute(&mut self, op: &Op, buffer: &mut [u8]) -> i32 {
        let file = &self.files[op.file as usize];
        match op.kind {
            OpKind::Read => self.calls.read(&file.descriptor, buffer, op.offset),
            OpKind::Write => self.calls.write(&file.descriptor, buffer, op.offset),
            OpKind::Trim | OpKind::SyncRange(_) | OpKind::ResetZone => file::on_range(file, op),
            OpKind::Fsync => file::sync(&file.descriptor, false),
            OpKind::Fdatasync => file::sync(&file.descriptor, true),
        }
    }

    fn drop_pages(&mut self, file: u32, offset: u64, length: u64) {
        file::drop_pages(&self.files[file as usize], offset, length);
    }
}

/// Changes the space or the length of files; no data are transferred.
#[derive(Debug)]
pub struct SpaceCalls {
    /// ftruncate to the offset of a write; otherwise fallocate of its range.
    pub truncates: bool,
    /// The files.
    pub files: Vec<File>,
}

impl SyncExecutor for SpaceCalls {
    fn execute(&mut self, op: &Op, _buffer: &mut [u8]) -> i32 {
        let file = &self.files[op.file as usize];
        if matches!(op.kind, OpKind::SyncRange(_)) {
            return file::on_range(file, op);
        }
        let file = &file.descriptor;
        let result = match (op.kind, self.truncates) {
            (OpKind::Fsync, _) => file::sync(file, false),
            (OpKind::Fdatasync, _) => file::sync(file, true),
            (OpKind::Write, true) => file::truncate(file, op.offset),
            (_, true) => -libc::EINVAL,
            (OpKind::Read, false) => file::allocate(file, libc::FALLOC_FL_KEEP_SIZE, op),
            (OpKind::Write, false) => file::allocate(file, 0, op),
            (OpKind::Trim | OpKind::SyncRange(_) | OpKind::ResetZone, false) => {
                file::allocate(file, file::PUNCH_HOLE, op)
            }
        };
        match result {
            0 => op.transfer_length() as i32,
            failed => failed,
        }
    }
}

/// Passes ops to a [`SyncExecutor`].
#[derive(Debug)]
pub struct SyncBackend<E> {
    executor: E,
    arena: Arena,
    clock: MonotonicClock,
    prepared: Option<(Slot, Op)>,
}

impl<E: SyncExecutor> SyncBackend<E> {
    /// Creates a backend with these buffers.
    pub fn new(executor: E, arena: Arena) -> SyncBackend<E> {
        SyncBackend {
            executor,
            arena,
            clock: MonotonicClock,
            prepared: None,
        }
    }
}

impl<E: SyncExecutor> Backend for SyncBackend<E> {
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
        let range = op.skip as usize..(op.skip + op.transfer_length()) as usize;
        let buffer = &mut self.arena.slot_mut(slot)[range];
        let result = self.executor.execute(&op, buffer);
        let completed = self.clock.now();
        completions.returned = completed;
        completions.submitted = 1;
        completions.push(slot, result, submitted, completed);
        Ok(())
    }

    fn drop_pages(&mut self, file: u32, offset: u64, length: u64) {
        self.executor.drop_pages(file, offset, length);
    }

    fn cancel_all(&mut self) {}
}
