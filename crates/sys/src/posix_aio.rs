//! POSIX AIO as the C library does it (glibc: a pool of threads).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use crate::memory::Arena;

/// What a control block does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PosixAioOp {
    /// Into the slot.
    Read,
    /// From the slot.
    Write,
    /// fsync.
    Fsync,
    /// fdatasync.
    Fdatasync,
}

/// Control blocks, files and buffers of one thread.
#[derive(Debug)]
pub struct PosixAio {
    blocks: Box<[libc::aiocb]>,
    /// Slots in flight, oldest first.
    busy: Vec<u32>,
    arena: Arena,
    files: Vec<OwnedFd>,
}

// SAFETY: the raw pointers within control blocks point into the arena, which moves along.
unsafe impl Send for PosixAio {}

impl PosixAio {
    /// With a control block for each of the arena's slots.
    pub fn new(files: Vec<OwnedFd>, arena: Arena) -> PosixAio {
        let slots = arena.slots() as usize;
        // SAFETY: all zero bits are a valid aiocb.
        let blocks = (0..slots).map(|_| unsafe { std::mem::zeroed() }).collect();
        PosixAio {
            blocks,
            busy: Vec::with_capacity(slots),
            arena,
            files,
        }
    }

    /// Its files.
    pub fn files(&self) -> &[OwnedFd] {
        &self.files
    }

    /// An idle slot's bytes.
    pub fn buffer(&mut self, slot: u32) -> &mut [u8] {
        self.arena.slot_mut(slot)
    }

    /// Ops not yet given back.
    pub fn in_flight(&self) -> u32 {
        self.busy.len() as u32
    }

    /// Hands an op to the library.
    ///
    /// # Errors
    /// The library's; the slot is idle again.
    ///
    /// # Panics
    /// If the slot is in flight, the file does not exist, or the range exceeds the slot.
    pub fn submit(
        &mut self,
        what: PosixAioOp,
        slot: u32,
        file: u32,
        offset: u64,
        range: (u32, u32),
    ) -> io::Result<()> {
        let (skip, length) = range;
        let fd = self.files[file as usize].as_raw_fd();
        let moves = matches!(what, PosixAioOp::Read | PosixAioOp::Write);
        let address = self.arena.lend(slot, skip, if moves { length } else { 0 });
        let block = &mut self.blocks[slot as usize];
        // SAFETY: all zero bits are a valid aiocb.
        *block = unsafe { std::mem::zeroed() };
        block.aio_fildes = fd;
        block.aio_sigevent.sigev_notify = libc::SIGEV_NONE;
        if moves {
            block.aio_buf = address.cast();
            block.aio_nbytes = length as usize;
            block.aio_offset = offset as libc::off_t;
        }
        // SAFETY: the block stays in place (boxed, never replaced while busy) and its buffer is lent.
        let result = unsafe {
            match what {
                PosixAioOp::Read => libc::aio_read(block),
                PosixAioOp::Write => libc::aio_write(block),
                PosixAioOp::Fsync => libc::aio_fsync(libc::O_SYNC, block),
                PosixAioOp::Fdatasync => libc::aio_fsync(libc::O_DSYNC, block),
            }
        };
        if result < 0 {
            let error = io::Error::last_os_error();
            self.arena.take_back(slot);
            return Err(error);
        }
        self.busy.push(slot);
        Ok(())
    }

    /// Gives back slots that have ended, with their results (bytes, or −errno). How many.
    pub fn reap(&mut self, limit: u32, mut each: impl FnMut(u32, i32)) -> u32 {
        let (blocks, arena) = (&mut self.blocks, &mut self.arena);
        let mut reaped = 0;
        self.busy.retain(|slot| {
            if reaped == limit {
                return true;
            }
            let block = &mut blocks[*slot as usize];
            // SAFETY: the block was submitted and not yet returned.
            let errno = unsafe { libc::aio_error(block) };
            if errno == libc::EINPROGRESS {
                return true;
            }
            // SAFETY: the op has ended; this is called once for it, since it leaves `busy` here.
            let bytes = unsafe { libc::aio_return(block) };
            arena.take_back(*slot);
            each(*slot, if errno == 0 { bytes as i32 } else { -errno });
            reaped += 1;
            false
        });
        reaped
    }

    /// Waits until at least one op in flight has ended, or the timeout.
    pub fn suspend(&self, timeout: Option<Duration>) {
        let mut list: [*const libc::aiocb; 64] = [std::ptr::null(); 64];
        let time = timeout.map(|timeout| libc::timespec {
            tv_sec: timeout.as_secs() as _,
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let time = time
            .as_ref()
            .map_or(std::ptr::null(), |time| time as *const libc::timespec);
        let many: Vec<*const libc::aiocb>;
        let blocks = self
            .busy
            .iter()
            .map(|slot| &raw const self.blocks[*slot as usize]);
        let list: &[*const libc::aiocb] = if self.busy.len() <= list.len() {
            for (place, block) in list.iter_mut().zip(blocks) {
                *place = block;
            }
            &list[..self.busy.len()]
        } else {
            many = blocks.collect();
            &many
        };
        // SAFETY: every pointer names a submitted block; list and time outlive the call.
        unsafe { libc::aio_suspend(list.as_ptr(), list.len() as libc::c_int, time) };
    }

    /// Asks the library to cancel what it has not begun.
    pub fn cancel_all(&mut self) {
        for file in &self.files {
            // SAFETY: an open descriptor; a null block means all of its ops.
            unsafe { libc::aio_cancel(file.as_raw_fd(), std::ptr::null_mut()) };
        }
    }
}

impl Drop for PosixAio {
    fn drop(&mut self) {
        if !self.busy.is_empty() {
            // The library's threads still use the blocks, and the descriptors by number, which another
            // file would get if these were closed: both are leaked with the arena.
            std::mem::forget(std::mem::take(&mut self.blocks));
            std::mem::forget(std::mem::take(&mut self.files));
        }
    }
}
