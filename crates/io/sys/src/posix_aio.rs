//! POSIX AIO of the C library (glibc: a pool of threads).

use std::io;
use std::os::fd::AsRawFd;

use crate::clock::timespec;
use crate::file;
use crate::memory::Arena;
use crate::result::errno;
use crate::{
    Backend, BackendError, Capabilities, Clock, Completions, File, MonotonicClock, Op, OpKind, Slot,
};

/// Control blocks, files and buffers of one thread. Trims are synchronous, because POSIX AIO does not
/// support them.
#[derive(Debug)]
pub struct PosixAioBackend {
    blocks: Box<[libc::aiocb]>,
    /// Slots in flight, oldest first.
    in_flight: Vec<Slot>,
    /// The control blocks of `in_flight`, as aio_suspend takes them. Only used during a wait.
    waiting: Vec<*const libc::aiocb>,
    prepared: Vec<(Slot, Op)>,
    /// When each slot's op was submitted.
    submitted: Box<[u64]>,
    arena: Arena,
    files: Vec<File>,
    clock: MonotonicClock,
}

// SAFETY: the raw pointers in control blocks point into the arena, which moves along; those of `waiting`
// are only used during a wait, and point into `blocks`, which does not move.
unsafe impl Send for PosixAioBackend {}

impl PosixAioBackend {
    /// Creates a backend with one control block per slot of the arena.
    pub fn new(files: Vec<File>, arena: Arena) -> PosixAioBackend {
        let slots = arena.slots() as usize;
        // SAFETY: all zero bits are a valid aiocb.
        let blocks = (0..slots).map(|_| unsafe { std::mem::zeroed() }).collect();
        PosixAioBackend {
            blocks,
            in_flight: Vec::with_capacity(slots),
            waiting: Vec::with_capacity(slots),
            prepared: Vec::with_capacity(slots),
            submitted: vec![0; slots].into_boxed_slice(),
            arena,
            files,
            clock: MonotonicClock,
        }
    }

    /// Passes an op to the library. If that fails, the slot is idle again.
    fn hand_over(&mut self, slot: Slot, op: &Op) -> io::Result<()> {
        let descriptor = self.files[op.file as usize].descriptor.as_raw_fd();
        let address = self.arena.lend(slot, op.skip, op.transfer_length());
        let block = &mut self.blocks[slot as usize];
        // SAFETY: all zero bits are a valid aiocb.
        *block = unsafe { std::mem::zeroed() };
        block.aio_fildes = descriptor;
        block.aio_sigevent.sigev_notify = libc::SIGEV_NONE;
        if op.kind.transfers() {
            block.aio_buf = address.cast();
            block.aio_nbytes = op.length as usize;
            block.aio_offset = op.offset as libc::off_t;
        }
        // SAFETY: the block stays in place (boxed, not replaced while in flight) and its buffer is lent.
        let result = unsafe {
            match op.kind {
                OpKind::Read => libc::aio_read(block),
                OpKind::Write => libc::aio_write(block),
                OpKind::Fsync => libc::aio_fsync(libc::O_SYNC, block),
                OpKind::Fdatasync => libc::aio_fsync(libc::O_DSYNC, block),
                OpKind::Trim | OpKind::SyncRange(_) | OpKind::ResetZone => {
                    unreachable!("calls on ranges are synchronous")
                }
            }
        };
        if result < 0 {
            let error = io::Error::last_os_error();
            // SAFETY: the library refused it.
            unsafe { self.arena.take_back(slot) };
            return Err(error);
        }
        self.in_flight.push(slot);
        Ok(())
    }

    /// Passes the oldest prepared ops to the library until it is full. Executes ops that the library does not support:
    /// at most `max`, and none after the deadline except the first. The other ops stay prepared.
    fn submit(&mut self, max: u32, deadline: Option<u64>, completions: &mut Completions) {
        completions.entered = self.clock.now();
        let mut handed = 0;
        while handed < self.prepared.len() {
            let (slot, op) = self.prepared[handed];
            let submitted = self.clock.now();
            if op.kind == OpKind::Trim || op.kind.blocks() {
                let done = completions.list.len() as u32;
                let late = done > 0 && deadline.is_some_and(|deadline| submitted >= deadline);
                if late || done >= max {
                    break;
                }
                let file = &self.files[op.file as usize];
                let result = file::on_range(file, &op);
                completions.push(slot, result, submitted, self.clock.now());
            } else {
                self.submitted[slot as usize] = submitted;
                match self.hand_over(slot, &op) {
                    Ok(()) => {}
                    Err(error)
                        if error.kind() == io::ErrorKind::WouldBlock
                            && !self.in_flight.is_empty() =>
                    {
                        break;
                    }
                    Err(error) => {
                        let result = -errno(&error);
                        completions.push(slot, result, submitted, self.clock.now());
                    }
                }
            }
            handed += 1;
        }
        self.prepared.drain(..handed);
        completions.submitted = handed as u32;
        let now = match handed {
            0 => completions.entered,
            _ => self.clock.now(),
        };
        completions.looked_from = Some(now);
        // One call per op: the average duration of a call.
        completions.submission_ns = (now - completions.entered) / (handed as u64).max(1);
    }

    /// Reaps up to `limit` completed ops, with one timestamp for all that are detected at the same time.
    fn reap(&mut self, limit: u32, completions: &mut Completions) {
        let (blocks, arena) = (&mut self.blocks, &mut self.arena);
        let mut reaped = 0;
        let mut completed = None;
        self.in_flight.retain(|slot| {
            if reaped == limit {
                return true;
            }
            let block = &mut blocks[*slot as usize];
            // SAFETY: the block was submitted and not yet returned.
            let errno = unsafe { libc::aio_error(block) };
            if errno == libc::EINPROGRESS {
                return true;
            }
            // SAFETY: the op has ended; this is called once per op, because it leaves `in_flight` here.
            let bytes = unsafe { libc::aio_return(block) };
            // SAFETY: its op has ended.
            unsafe { arena.take_back(*slot) };
            let result = if errno == 0 { bytes as i32 } else { -errno };
            let completed = *completed.get_or_insert_with(|| self.clock.now());
            completions.push(*slot, result, self.submitted[*slot as usize], completed);
            reaped += 1;
            false
        });
    }

    /// Waits until at least one op in flight has ended, or the timeout (ns).
    fn suspend(&mut self, timeout: Option<u64>) {
        let time = timeout.map(timespec);
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let blocks = self.in_flight.iter();
        let blocks = blocks.map(|slot| &raw const self.blocks[*slot as usize]);
        self.waiting.clear();
        self.waiting.extend(blocks);
        let count = self.waiting.len() as libc::c_int;
        // SAFETY: every pointer names a submitted block; list and time outlive the call.
        unsafe { libc::aio_suspend(self.waiting.as_ptr(), count, time) };
    }
}

impl Backend for PosixAioBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            submits_apart: true,
            ..Capabilities::default()
        }
    }

    fn buffer(&mut self, slot: Slot) -> &mut [u8] {
        self.arena.slot_mut(slot)
    }

    fn room(&self) -> u32 {
        self.arena.slots() - self.prepared.len() as u32
    }

    fn prep(&mut self, slot: Slot, op: &Op) {
        self.prepared.push((slot, *op));
    }

    fn turn(
        &mut self,
        min: u32,
        max: u32,
        deadline: Option<u64>,
        completions: &mut Completions,
    ) -> Result<(), BackendError> {
        completions.clear();
        self.submit(max, deadline, completions);
        loop {
            self.reap(
                max.saturating_sub(completions.list.len() as u32),
                completions,
            );
            let now = self.clock.now();
            completions.returned = now;
            let expired = deadline.is_some_and(|deadline| now >= deadline);
            let enough = completions.list.len() as u32 >= min.min(max);
            if enough || expired || self.in_flight.is_empty() {
                return Ok(());
            }
            self.suspend(deadline.map(|deadline| deadline - now));
        }
    }

    fn drop_pages(&mut self, file: u32, offset: u64, length: u64) {
        file::drop_pages(&self.files[file as usize], offset, length);
    }

    fn cancel_all(&mut self) {
        for file in &self.files {
            // SAFETY: an open descriptor; a null block means all ops of the descriptor. Only ops that were
            // not started are cancelled.
            unsafe { libc::aio_cancel(file.descriptor.as_raw_fd(), std::ptr::null_mut()) };
        }
    }
}

impl Drop for PosixAioBackend {
    fn drop(&mut self) {
        if !self.in_flight.is_empty() {
            // The library's threads still use the blocks and the descriptor numbers, which another file
            // would get if they were closed: both are leaked together with the arena.
            std::mem::forget(std::mem::take(&mut self.blocks));
            std::mem::forget(std::mem::take(&mut self.files));
        }
    }
}
