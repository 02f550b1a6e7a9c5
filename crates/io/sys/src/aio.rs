//! Linux's native AIO: io_setup, io_submit, io_getevents by system call.

use std::io;
use std::os::fd::AsRawFd;

use iodyno_model::Engine;

use crate::blocking;
use crate::clock::timespec;
use crate::file::{self, RwFlags};
use crate::memory::Arena;
use crate::result::errno;
use crate::{
    Backend, BackendError, Capabilities, Clock, Completions, File, MonotonicClock, Op, OpKind, Slot,
};

/// `struct iocb` of `linux/aio_abi.h`, little-endian layout.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Iocb {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    reqprio: i16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    resfd: u32,
}

/// IOCB_FLAG_IOPRIO: `reqprio` is the priority of the op.
const FLAG_PRIORITY: u32 = 1 << 1;

/// `struct io_event`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Event {
    data: u64,
    object: u64,
    result: i64,
    result2: i64,
}

/// An AIO context with its files and buffers. Ops that native AIO does not support are synchronous calls, and syncs are
/// on request.
#[derive(Debug)]
pub struct AioBackend {
    context: libc::c_ulong,
    blocks: Box<[Iocb]>,
    /// Slots whose control blocks will be submitted next, in order.
    prepared: Vec<Slot>,
    /// Pointers to the control blocks of `prepared`, as io_submit takes them. Only used during a submission.
    queue: Vec<*mut Iocb>,
    /// Ops that the calling thread executes.
    blocking: Vec<(Slot, Op)>,
    blocking_syncs: bool,
    /// When each slot's op was submitted.
    submitted: Box<[u64]>,
    events: Box<[Event]>,
    arena: Arena,
    files: Vec<File>,
    rw_flags: RwFlags,
    clock: MonotonicClock,
}

// SAFETY: the raw pointers are only used during a submission, and only point into `blocks`, which does not move.
unsafe impl Send for AioBackend {}

impl AioBackend {
    /// Creates a context for all slots of the arena.
    ///
    /// # Errors
    /// EAGAIN if `fs.aio-max-nr` is exceeded.
    pub fn new(
        files: Vec<File>,
        arena: Arena,
        engine: &Engine,
    ) -> Result<AioBackend, BackendError> {
        let slots = arena.slots() as usize;
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes the context's number, which outlives the call.
        let result = unsafe { libc::syscall(libc::SYS_io_setup, slots, &raw mut context) };
        if result < 0 {
            return Err(BackendError {
                what: format!("create an AIO context for {slots} ops"),
                source: io::Error::last_os_error(),
                hint: Some("raise `fs.aio-max-nr`, or lower `iodepth` or `numjobs`"),
            });
        }
        Ok(AioBackend {
            context,
            blocks: vec![Iocb::default(); slots].into_boxed_slice(),
            prepared: Vec::with_capacity(slots),
            queue: Vec::with_capacity(slots),
            blocking: Vec::with_capacity(slots),
            blocking_syncs: false,
            submitted: vec![0; slots].into_boxed_slice(),
            events: vec![Event::default(); slots].into_boxed_slice(),
            arena,
            files,
            rw_flags: RwFlags::of(engine),
            clock: MonotonicClock,
        })
    }

    /// Lets the calling thread sync files, with fsync and fdatasync. Native AIO lets a thread of the kernel do it,
    /// which costs more than the sync of a file without dirty data.
    pub fn with_blocking_syncs(mut self) -> AioBackend {
        self.blocking_syncs = true;
        self
    }

    /// Submits the prepared ops. A control block that the kernel refuses completes with its errno.
    fn submit(&mut self, completions: &mut Completions) -> Result<(), BackendError> {
        let entered = self.clock.now();
        completions.entered = entered;
        if self.prepared.is_empty() {
            return Ok(());
        }
        self.queue.clear();
        for slot in &self.prepared {
            self.submitted[*slot as usize] = entered;
            self.queue.push(&raw mut self.blocks[*slot as usize]);
        }
        let (mut done, mut taken) = (0, 0);
        while done < self.queue.len() {
            let rest = &mut self.queue[done..];
            // SAFETY: every pointer refers to one of our control blocks, which stays in place until it is
            // reaped; its buffer is lent from the arena.
            let result = unsafe {
                libc::syscall(
                    libc::SYS_io_submit,
                    self.context,
                    rest.len(),
                    rest.as_mut_ptr(),
                )
            };
            if result > 0 {
                done += result as usize;
                taken += result as u32;
                continue;
            }
            let error = io::Error::last_os_error();
            match errno(&error) {
                // The context is full: the rest is submitted by the next turn.
                libc::EAGAIN | libc::EINTR => break,
                libc::EFAULT => return Err(BackendError::new("submit to the AIO context", error)),
                // The first of the remaining blocks was refused because of its file or its values.
                errno => {
                    let slot = self.prepared[done];
                    // SAFETY: the kernel refused it.
                    unsafe { self.arena.take_back(slot) };
                    completions.push(slot, -errno, entered, self.clock.now());
                    done += 1;
                }
            }
        }
        self.prepared.drain(..done);
        completions.submitted += taken;
        completions.submission_ns = self.clock.now() - entered;
        Ok(())
    }

    /// Waits for `min` completions or the timeout (ns), and reaps at most `max`.
    fn wait(
        &mut self,
        min: u32,
        max: u32,
        timeout: Option<u64>,
        completions: &mut Completions,
    ) -> Result<(), BackendError> {
        let limit = (max as usize).min(self.events.len());
        let time = timeout.map(timespec);
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the kernel writes at most `limit` events, for which there is space; the time outlives the
        // call.
        let count = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context,
                libc::c_long::from(min.min(limit as u32)),
                limit,
                self.events.as_mut_ptr(),
                time,
            )
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            return match errno(&error) {
                libc::EINTR => Ok(()),
                _ => Err(BackendError::new("wait for AIO events", error)),
            };
        }
        // One timestamp for all completions that the call returned.
        let completed = self.clock.now();
        for event in &self.events[..count as usize] {
            let slot = event.data as Slot;
            // SAFETY: its op has ended.
            unsafe { self.arena.take_back(slot) };
            let submitted = self.submitted[slot as usize];
            completions.push(slot, event.result as i32, submitted, completed);
        }
        Ok(())
    }
}

impl Backend for AioBackend {
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
        self.arena.slots() - (self.prepared.len() + self.blocking.len()) as u32
    }

    fn prep(&mut self, slot: Slot, op: &Op) {
        let opcode = match op.kind {
            OpKind::Read => 0,
            OpKind::Write => 1,
            OpKind::Fsync | OpKind::Fdatasync if self.blocking_syncs => {
                return self.blocking.push((slot, *op));
            }
            OpKind::Fsync => 2,
            OpKind::Fdatasync => 3,
            OpKind::Trim | OpKind::SyncRange(_) | OpKind::ResetZone => {
                return self.blocking.push((slot, *op));
            }
        };
        let fd = self.files[op.file as usize].descriptor.as_raw_fd() as u32;
        let (skip, length) = (op.skip, op.transfer_length());
        let address = match op.kind {
            OpKind::Read => self.arena.lend_for_read(slot, skip, length),
            _ => self.arena.lend(slot, skip, length),
        };
        let block = &mut self.blocks[slot as usize];
        *block = Iocb {
            data: slot.into(),
            fd,
            opcode,
            reqprio: op.priority as i16,
            flags: match op.priority {
                0 => 0,
                _ => FLAG_PRIORITY,
            },
            ..Iocb::default()
        };
        // The kernel refuses syncs with a range.
        if op.kind.transfers() {
            block.buffer = address as u64;
            block.bytes = op.length.into();
            block.offset = op.offset as i64;
            block.rw_flags = match op.kind {
                OpKind::Read => self.rw_flags.read,
                _ => self.rw_flags.write,
            };
        }
        self.prepared.push(slot);
    }

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
        self.submit(completions)?;
        let done = completions.list.len() as u32;
        let (min, max) = (min.saturating_sub(done), max.saturating_sub(done));
        let running = self.arena.busy_count() - self.prepared.len() as u32;
        // If more ops are to be submitted first, checking for completions would cost a system call per op.
        if running > 0 && max > 0 && (min > 0 || completions.submitted == 0) {
            let now = completions.entered + completions.submission_ns;
            let timeout = deadline.map(|deadline| deadline.saturating_sub(now));
            completions.looked_from = Some(now);
            self.wait(min.min(running), max, timeout, completions)?;
        }
        completions.returned = self.clock.now();
        Ok(())
    }

    fn drop_pages(&mut self, file: u32, offset: u64, length: u64) {
        file::drop_pages(&self.files[file as usize], offset, length);
    }

    fn cancel_all(&mut self) {
        for block in &mut self.blocks {
            let mut event = Event::default();
            // SAFETY: block and event outlive the call. A block that is not in flight gives an error, which
            // is ignored, as for the many files that do not support cancellation.
            unsafe {
                libc::syscall(
                    libc::SYS_io_cancel,
                    self.context,
                    std::ptr::from_mut(block),
                    &raw mut event,
                );
            }
        }
    }
}

impl Drop for AioBackend {
    fn drop(&mut self) {
        // Destroying a context waits for its ops, which may hang: in that case the kernel destroys it at
        // exit.
        if self.arena.busy_count() as usize == self.prepared.len() {
            // SAFETY: our context; no op is in flight.
            unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
        }
    }
}
