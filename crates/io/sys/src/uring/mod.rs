//! io_uring: entries written in place, registered files and buffers, one kernel entry per turn.

mod abi;
pub mod fuse;
mod nvme;
mod rings;
mod slots;
mod transfers;

use std::os::fd::AsRawFd;

use iodyno_model::Engine;

use crate::blocking;
use crate::file::{self, RwFlags};
use crate::memory::Arena;
use crate::{Backend, BackendError, Capabilities, Completions, File, Op, OpKind, Slot};
use abi::{Sqe, op, setup};
pub use nvme::NvmeBackend;
use rings::Rings;
use slots::SlotRing;
pub use transfers::{Credentials, Transfer, TransferMemory, Transferred, Transfers};

/// An io_uring with its files and buffers.
#[derive(Debug)]
pub struct UringBackend {
    // Fields are dropped in this order: the ring before the memory that it may write to.
    ring: SlotRing,
    arena: Arena,
    files: Vec<File>,
    /// Value of an entry's `fd`: the descriptor or the registered index.
    file_words: Vec<i32>,
    sqe_flags: u8,
    /// If it is above 1: every n-th op is executed by a kernel worker without an inline attempt.
    async_every: u32,
    /// Number of ops until the next such op.
    until_async: u32,
    read_op: u8,
    write_op: u8,
    rw_flags: RwFlags,
    /// Ops that this thread executes in a later turn, such as discards, which io_uring does not support before Linux
    /// 6.12.
    blocking: Vec<(Slot, Op)>,
}

impl UringBackend {
    /// Creates a ring for all slots of the arena, as close to the engine's options as the kernel and the
    /// limits allow. Unavailable features are listed as fallbacks in its [`Capabilities`].
    ///
    /// # Errors
    /// Those of `io_uring_setup` and `mmap`.
    pub fn new(
        files: Vec<File>,
        arena: Arena,
        engine: &Engine,
    ) -> Result<UringBackend, BackendError> {
        UringBackend::with_polls(files, arena, engine, 0)
    }

    /// The same, with room for this many concurrent polls ([`UringBackend::prep_poll`]).
    ///
    /// # Errors
    /// Those of [`Self::new`].
    pub fn with_polls(
        files: Vec<File>,
        arena: Arena,
        engine: &Engine,
        polls: u32,
    ) -> Result<UringBackend, BackendError> {
        let slots = arena.slots() + polls;
        match Rings::new(slots, engine) {
            Ok(rings) => Ok(UringBackend::with_rings(rings, files, arena, engine)),
            Err(source) => Err(BackendError {
                what: format!("create a {slots}-entry io_uring"),
                hint: Some(hint(&source)),
                source,
            }),
        }
    }

    fn with_rings(rings: Rings, files: Vec<File>, arena: Arena, engine: &Engine) -> UringBackend {
        let slots = arena.slots();
        let descriptors = files.iter().map(|file| file.descriptor.as_raw_fd());
        let mut uring = UringBackend {
            file_words: descriptors.collect(),
            sqe_flags: match (engine.force_async, engine.force_async_every) {
                (true, 0 | 1) => abi::SQE_ASYNC,
                _ => 0,
            },
            async_every: match engine.force_async {
                true => engine.force_async_every.max(1),
                false => 1,
            },
            until_async: engine.force_async_every.max(1),
            read_op: op::READ,
            write_op: op::WRITE,
            rw_flags: RwFlags::of(engine),
            blocking: Vec::with_capacity(slots as usize),
            ring: SlotRing::new(rings, slots, engine.submits_apart()),
            arena,
            files,
        };
        uring.name_ring_features(engine);
        if engine.registered_files.unwrap_or(true) {
            uring.register_files();
        }
        if engine.fixed_buffers.unwrap_or(true) {
            uring.register_buffers();
        }
        uring
    }

    fn name_ring_features(&mut self, engine: &Engine) {
        let sqpoll = engine.sqthread_poll;
        for (flag, name, wanted) in [
            (setup::SINGLE_ISSUER, "single issuer", true),
            (setup::DEFER_TASKRUN, "deferred task run", !sqpoll),
            (setup::NO_SQARRAY, "no SQ array", true),
            (setup::IOPOLL, "polled completions", engine.hipri),
            (setup::SQPOLL, "submission thread", sqpoll),
        ] {
            if self.ring.rings.flags & flag != 0 {
                self.ring.feature(name);
            } else if wanted {
                self.ring
                    .fallback(format!("io_uring without `{name}`: kernel too old"));
            }
        }
    }

    fn register_files(&mut self) {
        match self.ring.rings.register_files(&self.file_words) {
            Ok(()) => {
                self.file_words = (0..self.files.len() as i32).collect();
                self.sqe_flags |= abi::SQE_FIXED_FILE;
                self.ring.feature("registered files");
            }
            Err(error) => self.ring.fallback(format!("files not registered: {error}")),
        }
    }

    fn register_buffers(&mut self) {
        match self.ring.rings.register_buffers(&self.arena) {
            Ok(()) => {
                (self.read_op, self.write_op) = (op::READ_FIXED, op::WRITE_FIXED);
                self.ring.feature("registered buffers");
            }
            Err(why) => self.ring.fallback(why),
        }
    }

    /// Replaces a file. Ops prepared before keep the old one.
    ///
    /// # Errors
    /// Those of io_uring_register(2) and io_uring_enter(2); then nothing has changed.
    pub fn replace_file(&mut self, index: u32, file: File) -> Result<(), BackendError> {
        let failed = |error| BackendError::new("exchange a file of the io_uring", error);
        // The kernel looks up the file of an entry when it accepts it.
        if self.ring.rings.pending() > 0 {
            self.ring.rings.enter(0, None).map_err(failed)?;
        }
        if self.ring.rings.pending() > 0 {
            return Err(failed(std::io::ErrorKind::ResourceBusy.into()));
        }
        let word = file.descriptor.as_raw_fd();
        match self.sqe_flags & abi::SQE_FIXED_FILE {
            0 => self.file_words[index as usize] = word,
            _ => (self.ring.rings)
                .exchange_file(index, word)
                .map_err(failed)?,
        }
        self.files[index as usize] = file;
        Ok(())
    }

    /// Takes its memory, after which it is unusable. `None`: ops are in flight.
    pub fn take_arena(&mut self) -> Option<Arena> {
        if self.arena.busy_count() > 0 {
            return None;
        }
        let empty = Arena::new(1, 1, 0, false).ok()?;
        Some(std::mem::replace(&mut self.arena, empty))
    }

    /// Flags of the next op.
    #[inline]
    fn next_flags(&mut self) -> u8 {
        if self.async_every > 1 {
            self.until_async -= 1;
            if self.until_async == 0 {
                self.until_async = self.async_every;
                return self.sqe_flags | abi::SQE_ASYNC;
            }
        }
        self.sqe_flags
    }
}

fn hint(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "run `sysctl -w kernel.io_uring_disabled=0`, or set `ioengine=libaio`"
        }
        std::io::ErrorKind::OutOfMemory => "raise the locked-memory limit (`ulimit -l`)",
        _ => "set `ioengine=libaio`",
    }
}

impl UringBackend {
    /// Like [`Backend::prep`], for a write that is durable when it ends (RWF_DSYNC). The kernel writes through the
    /// device cache (FUA) where possible, otherwise it flushes it.
    pub fn prep_durable(&mut self, slot: Slot, op: &Op) {
        self.place(slot, op, self.rw_flags.write | file::RWF_DSYNC, 0);
    }

    /// Like [`Backend::prep`], or with `durable` like [`Self::prep_durable`]. A kernel worker thread executes it, so
    /// that a hanging file system does not block the submitting call. See [`Self::allow_workers`].
    pub fn prep_in_worker(&mut self, slot: Slot, op: &Op, durable: bool) {
        let durable = if durable { file::RWF_DSYNC } else { 0 };
        self.place(slot, op, self.rw_flags.write | durable, abi::SQE_ASYNC);
    }

    /// Allows a thread of the kernel for each slot, so that ops that hang do not keep others waiting. Before Linux
    /// 5.15, there are four for each CPU.
    pub fn allow_workers(&mut self) {
        let _ = self.ring.rings.register_workers(self.arena.slots());
    }

    /// Polls a file once until it is readable, or with `write` writable. Ends with a completion whose slot is the
    /// number of slots plus `number`. Uses no slot. An unregistered file must also be among the files of this backend.
    pub fn prep_poll(&mut self, number: u32, file: u32, write: bool) {
        let user_data = u64::from(self.arena.slots()) + u64::from(number);
        let entry = Sqe {
            opcode: op::POLL_ADD,
            flags: self.sqe_flags & abi::SQE_FIXED_FILE,
            fd: self.file_words[file as usize],
            op_flags: if write { abi::POLL_OUT } else { abi::POLL_IN },
            user_data,
            ..Sqe::default()
        };
        // SAFETY: it points to nothing; the file is owned here until the kernel has accepted the entry.
        unsafe { *self.ring.rings.next() = entry };
    }

    #[inline]
    fn place(&mut self, slot: Slot, op: &Op, write_flags: u32, more_flags: u8) {
        let file = op.file as usize;
        if op.kind.blocks() || (op.kind == OpKind::Trim && self.files[file].device) {
            return self.blocking.push((slot, *op));
        }
        let address = self.arena.lend(slot, op.skip, op.transfer_length()) as u64;
        let sqe = Sqe {
            flags: self.next_flags() | more_flags,
            ioprio: op.priority,
            fd: self.file_words[file],
            off: op.offset,
            user_data: slot.into(),
            ..Sqe::default()
        };
        let entry = match op.kind {
            OpKind::Read => Sqe {
                opcode: self.read_op,
                addr: address,
                len: op.length,
                op_flags: self.rw_flags.read,
                ..sqe
            },
            OpKind::Write => Sqe {
                opcode: self.write_op,
                addr: address,
                len: op.length,
                op_flags: write_flags,
                ..sqe
            },
            OpKind::SyncRange(_) | OpKind::ResetZone => {
                unreachable!("carried out by a synchronous call")
            }
            // fallocate expects its length in `addr` and its mode in `len`.
            OpKind::Trim => Sqe {
                opcode: op::FALLOCATE,
                addr: op.length.into(),
                len: file::PUNCH_HOLE as u32,
                ..sqe
            },
            OpKind::Fsync => Sqe {
                opcode: op::FSYNC,
                off: 0,
                ..sqe
            },
            OpKind::Fdatasync => Sqe {
                opcode: op::FSYNC,
                off: 0,
                op_flags: abi::FSYNC_DATASYNC,
                ..sqe
            },
        };
        // SAFETY: its buffer is lent until the completion was reaped, and the arena is leaked if it never is. The file
        // is owned here until the kernel has accepted the entry.
        unsafe { *self.ring.rings.next() = entry };
        self.ring.prepared(slot);
    }
}

impl Backend for UringBackend {
    fn capabilities(&self) -> Capabilities {
        self.ring.capabilities.clone()
    }

    #[inline]
    fn buffer(&mut self, slot: Slot) -> &mut [u8] {
        self.arena.slot_mut(slot)
    }

    #[inline]
    fn room(&self) -> u32 {
        self.ring.rings.room()
    }

    #[inline]
    fn prep(&mut self, slot: Slot, op: &Op) {
        self.place(slot, op, self.rw_flags.write, 0);
    }

    #[inline]
    fn turn(
        &mut self,
        min: u32,
        max: u32,
        deadline: Option<u64>,
        completions: &mut Completions,
    ) -> Result<(), BackendError> {
        completions.clear();
        if !self.blocking.is_empty() {
            blocking::execute(&mut self.blocking, &self.files, max, deadline, completions);
        }
        let arena = &mut self.arena;
        self.ring
            .turn(min, max, deadline, completions, |slot, result| {
                if slot < arena.slots() {
                    // SAFETY: its op has ended.
                    unsafe { arena.take_back(slot) };
                }
                result
            })
    }

    fn drop_pages(&mut self, file: u32, offset: u64, length: u64) {
        file::drop_pages(&self.files[file as usize], offset, length);
    }

    fn cancel_all(&mut self) {
        self.ring.rings.cancel_all();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeWriter, Write as _, pipe};

    use crate::{Clock, MonotonicClock};
    use iodyno_model::EngineKind;
    use iodyno_testing::skip;

    use super::*;

    /// A backend whose only file is the read end of an empty pipe, and the write end.
    fn on_a_pipe(extended_argument: bool) -> Option<(UringBackend, PipeWriter)> {
        let engine = Engine::new(EngineKind::IoUring, 4);
        with_engine(&engine, extended_argument)
    }

    fn with_engine(engine: &Engine, extended_argument: bool) -> Option<(UringBackend, PipeWriter)> {
        let (read, write) = pipe().unwrap();
        let read = File {
            descriptor: read.into(),
            device: false,
        };
        let arena = Arena::new(4, 512, 0, false).unwrap();
        let mut rings = match Rings::new(4, engine) {
            Ok(rings) => rings,
            Err(error) => {
                skip(format!("no io_uring: {error}"));
                return None;
            }
        };
        if !extended_argument {
            rings.without_extended_argument();
        }
        let backend = UringBackend::with_rings(rings, vec![read], arena, engine);
        Some((backend, write))
    }

    #[test]
    fn one_op_in_the_chosen_number_is_not_attempted_inline() {
        for (force_async, every, expected) in [
            (false, 1, [0; 6]),
            (true, 1, [abi::SQE_ASYNC; 6]),
            (true, 3, [0, 0, abi::SQE_ASYNC, 0, 0, abi::SQE_ASYNC]),
        ] {
            let mut engine = Engine::new(EngineKind::IoUring, 4);
            (engine.force_async, engine.force_async_every) = (force_async, every);
            let Some((mut backend, _write)) = with_engine(&engine, true) else {
                return;
            };
            let flags: [u8; 6] = std::array::from_fn(|_| backend.next_flags() & abi::SQE_ASYNC);
            assert_eq!(flags, expected, "{force_async} {every}");
        }
    }

    const READ: Op = Op::new(OpKind::Read, 0, 0, 8);

    #[test]
    fn a_wait_ends_at_its_deadline_with_and_without_an_extended_argument() {
        for extended_argument in [true, false] {
            let Some((mut backend, mut write)) = on_a_pipe(extended_argument) else {
                return;
            };
            let mut completions = Completions::with_capacity(4);
            let clock = MonotonicClock;
            // More waits than entries in the rings: timers do not use up entries.
            for round in 0..40 {
                if round < 3 {
                    backend.prep(round, &READ);
                }
                let deadline = clock.now() + 1_000_000;
                while clock.now() < deadline {
                    // Without a timeout this turn would never return.
                    backend
                        .turn(2, 4, Some(deadline), &mut completions)
                        .unwrap();
                    assert_eq!(completions.list, []);
                }
            }
            write.write_all(&[7; 24]).unwrap();
            let mut slots = Vec::new();
            while slots.len() < 3 {
                let deadline = clock.now() + 60_000_000_000;
                backend
                    .turn(3 - slots.len() as u32, 4, Some(deadline), &mut completions)
                    .unwrap();
                for completion in &completions.list {
                    assert_eq!(completion.result, 8);
                    assert_eq!(backend.buffer(completion.slot)[..8], [7; 8]);
                    slots.push(completion.slot);
                }
            }
            slots.sort_unstable();
            assert_eq!(slots, [0, 1, 2]);
        }
    }

    #[test]
    fn a_poll_ends_when_its_file_can_be_read_and_needs_no_slot() {
        let Some((mut backend, mut write)) = on_a_pipe(true) else {
            return;
        };
        let mut completions = Completions::with_capacity(8);
        (0..4).for_each(|slot| backend.buffer(slot).fill(slot as u8));
        backend.prep_poll(2, 0, false);
        backend.turn(0, 8, None, &mut completions).unwrap();
        assert_eq!(completions.list, []);
        write.write_all(&[7; 8]).unwrap();
        let deadline = MonotonicClock.now() + 60_000_000_000;
        (backend.turn(1, 8, Some(deadline), &mut completions)).unwrap();
        let ended: Vec<_> = completions.list.iter().map(|end| end.slot).collect();
        assert_eq!(ended, [4 + 2]);
        assert!(completions.list[0].result & i32::from(libc::POLLIN) != 0);
    }

    #[test]
    fn ops_are_cancelled_with_and_without_an_extended_argument() {
        for extended_argument in [true, false] {
            let Some((mut backend, _write)) = on_a_pipe(extended_argument) else {
                return;
            };
            let mut completions = Completions::with_capacity(4);
            (0..4).for_each(|slot| backend.prep(slot, &READ));
            backend.turn(0, 4, None, &mut completions).unwrap();
            assert_eq!(completions.list, []);
            backend.cancel_all();
            let mut ended = 0;
            while ended < 4 {
                let deadline = MonotonicClock.now() + 60_000_000_000;
                backend
                    .turn(4 - ended, 4, Some(deadline), &mut completions)
                    .unwrap();
                for completion in &completions.list {
                    assert!([-libc::ECANCELED, -libc::EINTR].contains(&completion.result));
                    ended += 1;
                }
            }
        }
    }
}
