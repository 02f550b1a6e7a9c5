//! Linux's native AIO: io_setup, io_submit, io_getevents by system call.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use crate::file::RwFlags;
use crate::memory::Arena;

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

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Event {
    data: u64,
    object: u64,
    result: i64,
    result2: i64,
}

/// What a control block does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AioOp {
    /// Into the slot.
    Read,
    /// From the slot.
    Write,
    /// fsync.
    Fsync,
    /// fdatasync.
    Fdatasync,
}

/// An AIO context with its files and buffers.
#[derive(Debug)]
pub struct Aio {
    context: libc::c_ulong,
    blocks: Box<[Iocb]>,
    /// Pointers to prepared blocks, in order; the first `queued` wait for submission.
    queue: Vec<*mut Iocb>,
    events: Box<[Event]>,
    arena: Arena,
    files: Vec<OwnedFd>,
    rw_flags: RwFlags,
}

// SAFETY: the raw pointers only point into `blocks`, which moves with the value as a box.
unsafe impl Send for Aio {}

impl Aio {
    /// A context with room for all of the arena's slots; `rw_flags` are RWF_*.
    ///
    /// # Errors
    /// EAGAIN where `fs.aio-max-nr` is exceeded.
    pub fn new(files: Vec<OwnedFd>, arena: Arena, rw_flags: RwFlags) -> io::Result<Aio> {
        let slots = arena.slots() as usize;
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes the context's number, which outlives the call.
        let result = unsafe { libc::syscall(libc::SYS_io_setup, slots, &raw mut context) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Aio {
            context,
            blocks: vec![Iocb::default(); slots].into_boxed_slice(),
            queue: Vec::with_capacity(slots),
            events: vec![Event::default(); slots].into_boxed_slice(),
            arena,
            files,
            rw_flags,
        })
    }

    /// Its files.
    pub fn files(&self) -> &[OwnedFd] {
        &self.files
    }

    /// An idle slot's bytes.
    pub fn buffer(&mut self, slot: u32) -> &mut [u8] {
        self.arena.slot_mut(slot)
    }

    /// Ops prepared and not yet submitted.
    pub fn queued(&self) -> u32 {
        self.queue.len() as u32
    }

    /// Ops that the context has not given back, queued ones included.
    pub fn in_flight(&self) -> u32 {
        self.arena.busy_count()
    }

    /// Writes a control block in place. The slot is the context's until it is reaped.
    ///
    /// # Panics
    /// If the slot is in flight, the file does not exist, or the range exceeds the slot.
    pub fn prep(&mut self, what: AioOp, slot: u32, file: u32, offset: u64, range: (u32, u32)) {
        let (skip, length) = range;
        let fd = self.files[file as usize].as_raw_fd() as u32;
        let moves = matches!(what, AioOp::Read | AioOp::Write);
        let address = self.arena.lend(slot, skip, if moves { length } else { 0 });
        let block = &mut self.blocks[slot as usize];
        *block = Iocb {
            data: slot.into(),
            fd,
            opcode: match what {
                AioOp::Read => 0,
                AioOp::Write => 1,
                AioOp::Fsync => 2,
                AioOp::Fdatasync => 3,
            },
            ..Iocb::default()
        };
        if moves {
            block.buffer = address as u64;
            block.bytes = length.into();
            block.offset = offset as i64;
            block.rw_flags = match what {
                AioOp::Read => self.rw_flags.read,
                _ => self.rw_flags.write,
            };
        }
        self.queue.push(block);
    }

    /// Submits what is queued; slots that the kernel refused come back through `refused` with −errno.
    /// How many were taken.
    ///
    /// # Errors
    /// Only if the context itself broke.
    pub fn submit(&mut self, mut refused: impl FnMut(u32, i32)) -> io::Result<u32> {
        let mut taken = 0;
        while taken < self.queue.len() {
            let rest = &mut self.queue[taken..];
            // SAFETY: every pointer names a block of ours that stays in place until it is reaped; its
            // buffer is lent from the arena.
            let result = unsafe {
                libc::syscall(
                    libc::SYS_io_submit,
                    self.context,
                    rest.len(),
                    rest.as_mut_ptr(),
                )
            };
            if result > 0 {
                taken += result as usize;
                continue;
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                // No room in the context now: the rest goes with the next call.
                Some(libc::EAGAIN | libc::EINTR) => break,
                Some(errno) if errno != libc::EFAULT => {
                    // The first block of the rest was refused by its file.
                    let block = rest[0];
                    // SAFETY: points into `blocks`; the kernel did not take it.
                    let slot = unsafe { (*block).data } as u32;
                    self.queue.remove(taken);
                    self.arena.take_back(slot);
                    refused(slot, -errno);
                }
                _ => return Err(error),
            }
        }
        self.queue.drain(..taken);
        Ok(taken as u32)
    }

    /// Waits for `min` completions, at most `limit`, or the timeout; gives their slots back with their
    /// results (bytes, or −errno).
    ///
    /// # Errors
    /// Only if the context itself broke.
    pub fn wait(
        &mut self,
        min: u32,
        limit: u32,
        timeout: Option<Duration>,
        mut each: impl FnMut(u32, i32),
    ) -> io::Result<()> {
        let limit = (limit as usize).min(self.events.len());
        let time = timeout.map(|timeout| libc::timespec {
            tv_sec: timeout.as_secs() as _,
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let time = time
            .as_ref()
            .map_or(std::ptr::null(), |time| time as *const libc::timespec);
        // SAFETY: the kernel writes at most `limit` events, which are there; the time outlives the call.
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
            return match error.raw_os_error() {
                Some(libc::EINTR) => Ok(()),
                _ => Err(error),
            };
        }
        for event in &self.events[..count as usize] {
            let slot = event.data as u32;
            self.arena.take_back(slot);
            each(slot, event.result as i32);
        }
        Ok(())
    }

    /// Asks the kernel to cancel all; few files can, the others just end.
    pub fn cancel_all(&mut self) {
        for block in &mut self.blocks {
            let mut event = Event::default();
            // SAFETY: block and event outlive the call; a block not in flight is an error, ignored.
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

impl Drop for Aio {
    fn drop(&mut self) {
        // Destroying a context waits for its ops, which may be stuck: then it is left to the exit.
        if self.in_flight() == self.queued() {
            // SAFETY: our context; nothing is in flight.
            unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
        }
    }
}
