//! Reads and writes of servers, between files and client memory. A thread starts many of them with one system call,
//! without blocking.
//!
//! The kernel ends a direct write in the context of the thread that started it. While writes are in flight, this thread
//! must not make a call that waits for them, such as ftruncate(2) or a write past the end of the file. Nor may it wait
//! for a thread that makes such a call: it would wait for itself.
//!
//! This module owns the file and memory of a transfer until the kernel has finished with them.

use crate::file::eventfd;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use iodyno_model::{Engine, EngineKind};
use vm_memory::{GuestAddress, GuestMemory, GuestMemoryMmap};

use super::abi::{Sqe, op};
use super::rings::Rings;
use crate::Slot;

/// The memory of a transfer.
#[derive(Debug)]
pub enum TransferMemory {
    /// Ranges of the memory that a client shares: where each begins, and its bytes.
    Client(Arc<GuestMemoryMmap>, Vec<(GuestAddress, usize)>),
    /// A range of bytes of this process.
    Own(Vec<u8>, Range<usize>),
}

impl TransferMemory {
    /// Its address ranges for the kernel. `None`: a range is out of bounds.
    fn vectors(&mut self) -> Option<Vec<libc::iovec>> {
        let vector = |start: *mut u8, length| libc::iovec {
            iov_base: start.cast(),
            iov_len: length,
        };
        match self {
            TransferMemory::Client(memory, ranges) => {
                let ranges = ranges.iter();
                let found = ranges.map(|(start, length)| {
                    let slice = memory.get_slice(*start, *length).ok()?;
                    Some(vector(slice.ptr_guard_mut().as_ptr(), *length))
                });
                found.collect()
            }
            TransferMemory::Own(bytes, range) => {
                let bytes = bytes.get_mut(range.clone())?;
                Some(vec![vector(bytes.as_mut_ptr(), bytes.len())])
            }
        }
    }
}

/// Credentials registered with the ring of a [`Transfers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credentials(u16);

/// A transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    /// From the file to the memory.
    Read,
    /// From the memory to the file: to its end if `append`; with the credentials of the thread unless some are given.
    Write {
        /// `RWF_APPEND`.
        append: bool,
        /// Other credentials.
        credentials: Option<Credentials>,
    },
}

/// A transfer that has ended.
#[derive(Debug)]
pub struct Transferred<F, T> {
    /// The caller's file.
    pub file: F,
    /// The caller's memory.
    pub memory: TransferMemory,
    /// The caller's data.
    pub item: T,
    /// Bytes, or the error.
    pub result: io::Result<usize>,
}

struct InFlight<F, T> {
    file: F,
    write: bool,
    memory: TransferMemory,
    item: T,
    /// The kernel may read them until the end.
    _vectors: Vec<libc::iovec>,
}

/// The transfers of one thread.
pub struct Transfers<F, T> {
    rings: Rings,
    /// The kernel signals it on completions. The descriptor of a ring with deferred completions does not become
    /// readable for them.
    ended: OwnedFd,
    slots: Vec<Option<InFlight<F, T>>>,
    free: Vec<Slot>,
    /// Writes in flight.
    writes: usize,
}

// SAFETY: the rings and vectors point to memory that is owned here. The kernel refuses another thread if the ring is
// for one thread only.
unsafe impl<F: Send, T: Send> Send for Transfers<F, T> {}

impl<F: AsFd, T> Transfers<F, T> {
    /// Creates a ring for at most `most` transfers in flight, for use by the calling thread.
    ///
    /// # Errors
    /// io_uring is unavailable, or memory is short.
    pub fn new(most: u16) -> io::Result<Transfers<F, T>> {
        let most = u32::from(most);
        let rings = Rings::new(most, &Engine::new(EngineKind::IoUring, most))?;
        let ended = eventfd()?;
        rings.register_eventfd(ended.as_fd())?;
        Ok(Transfers {
            rings,
            ended,
            slots: (0..most).map(|_| None).collect(),
            free: (0..most).rev().map(|slot| slot as Slot).collect(),
            writes: 0,
        })
    }

    /// Registers the current credentials of the calling thread with the ring.
    ///
    /// # Errors
    /// Memory is short, or a filter forbids it.
    pub fn credentials(&self) -> io::Result<Credentials> {
        self.rings.register_credentials().map(Credentials)
    }

    /// Transfers in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Writes among them.
    #[must_use]
    pub fn writes_in_flight(&self) -> usize {
        self.writes
    }

    /// It can be read when a transfer has ended; then [`Self::turn`] finds it.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    /// Prepares a transfer, which the next turn starts.
    ///
    /// # Errors
    /// The ring is full, or the memory is invalid: everything is given back.
    pub fn start(
        &mut self,
        file: F,
        mut memory: TransferMemory,
        (transfer, offset): (Transfer, u64),
        item: T,
    ) -> Result<(), (F, TransferMemory, T)> {
        let vectors = memory.vectors().filter(|vectors| !vectors.is_empty());
        let (Some(vectors), true) = (vectors, self.rings.room() > 0) else {
            return Err((file, memory, item));
        };
        let Some(slot) = self.free.pop() else {
            return Err((file, memory, item));
        };
        let write = transfer != Transfer::Read;
        let (opcode, addr, len) = match &vectors[..] {
            [one] if one.iov_len <= 1 << 30 => {
                let opcode = if write { op::WRITE } else { op::READ };
                (opcode, one.iov_base as u64, one.iov_len)
            }
            many => {
                let opcode = if write { op::WRITEV } else { op::READV };
                (opcode, many.as_ptr() as u64, many.len())
            }
        };
        let (op_flags, personality) = match transfer {
            Transfer::Read => (0, 0),
            Transfer::Write {
                append,
                credentials,
            } => {
                let flags = if append { libc::RWF_APPEND } else { 0 };
                (flags as u32, credentials.map_or(0, |known| known.0))
            }
        };
        let entry = Sqe {
            opcode,
            fd: file.as_fd().as_raw_fd(),
            off: offset,
            addr,
            len: len as u32,
            op_flags,
            personality,
            user_data: slot as u64,
            ..Sqe::default()
        };
        // SAFETY: file, memory and vectors are kept in the slot until the completion was reaped, and leaked if it never
        // is.
        unsafe { *self.rings.next() = entry };
        self.writes += usize::from(write);
        self.slots[slot as usize] = Some(InFlight {
            file,
            write,
            memory,
            item,
            _vectors: vectors,
        });
        Ok(())
    }

    /// Submits started transfers by one system call, and calls `ended` for each one that has ended. Does not wait.
    /// Returns whether any ended.
    ///
    /// # Errors
    /// Those of io_uring_enter(2).
    pub fn turn(&mut self, mut ended: impl FnMut(Transferred<F, T>)) -> io::Result<bool> {
        if self.in_flight() == 0 {
            return Ok(false);
        }
        let mut count = [0u8; 8];
        // SAFETY: the buffer has this length. Nothing to read is not an error here.
        unsafe {
            libc::read(
                self.ended.as_raw_fd(),
                count.as_mut_ptr().cast(),
                count.len(),
            )
        };
        self.rings.enter(0, None)?;
        let (slots, free, writes) = (&mut self.slots, &mut self.free, &mut self.writes);
        let before = free.len();
        self.rings.reap(u32::MAX, |slot, result| {
            let Some(done) = slots[slot as usize].take() else {
                return;
            };
            free.push(slot);
            *writes -= usize::from(done.write);
            let result = match result {
                0.. => Ok(result as usize),
                _ => Err(io::Error::from_raw_os_error(-result)),
            };
            ended(Transferred {
                file: done.file,
                memory: done.memory,
                item: done.item,
                result,
            });
        });
        Ok(free.len() > before)
    }

    /// Whether some were not accepted by the kernel yet: another turn is needed.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.rings.pending() > 0
    }
}

impl<F, T> Drop for Transfers<F, T> {
    fn drop(&mut self) {
        // The kernel may still use memory in flight, so it is leaked.
        for slot in self.slots.drain(..).flatten() {
            std::mem::forget(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use vm_memory::Bytes;

    use super::*;
    use iodyno_testing::skip;

    type Files = Transfers<Arc<File>, u32>;

    /// Waits for all transfers. Returns them in order of their numbers.
    fn ended(transfers: &mut Files) -> Vec<Transferred<Arc<File>, u32>> {
        let mut all = Vec::new();
        while transfers.in_flight() > 0 {
            transfers.turn(|done| all.push(done)).unwrap();
            std::thread::yield_now();
        }
        all.sort_by_key(|done| done.item);
        all
    }

    fn transfers(most: u16) -> Option<Files> {
        Files::new(most)
            .inspect_err(|error| skip(format!("no io_uring: {error}")))
            .ok()
    }

    fn read_at(offset: u64) -> (Transfer, u64) {
        (Transfer::Read, offset)
    }

    #[test]
    fn data_come_from_ranges_of_the_memory_of_a_client_and_are_appended_where_that_is_asked_for() {
        let Some(mut transfers) = transfers(8) else {
            return;
        };
        let file = Arc::new(tempfile::tempfile().unwrap());
        let memory: GuestMemoryMmap =
            GuestMemoryMmap::from_ranges(&[(GuestAddress(0x1000), 0x1000)]).unwrap();
        let memory = Arc::new(memory);
        (memory.write_slice(b"0123456789", GuestAddress(0x1000))).unwrap();
        let mut write = |ranges: &[(u64, usize)], offset, append| {
            let at = ranges
                .iter()
                .map(|(at, length)| (GuestAddress(0x1000 + at), *length));
            let given = TransferMemory::Client(Arc::clone(&memory), at.collect());
            let transfer = Transfer::Write {
                append,
                credentials: None,
            };
            let started = transfers.start(Arc::clone(&file), given, (transfer, offset), 0);
            assert!(started.is_ok());
            assert_eq!(transfers.writes_in_flight(), 1);
            let written = ended(&mut transfers).remove(0).result.unwrap();
            assert_eq!(transfers.writes_in_flight(), 0);
            written
        };
        assert_eq!(write(&[(2, 3), (8, 2)], 1, false), 5);
        assert_eq!(write(&[(0, 2)], 0, true), 2);
        assert_eq!(std::fs::read(path_of(&file)).unwrap(), b"\x0023489\x30\x31");
        let known = transfers.credentials().unwrap();
        let given = TransferMemory::Own(b"x".to_vec(), 0..1);
        let transfer = Transfer::Write {
            append: false,
            credentials: Some(known),
        };
        assert!((transfers.start(file, given, (transfer, 0), 0)).is_ok());
        assert_eq!(ended(&mut transfers)[0].result.as_ref().unwrap(), &1);
    }

    fn path_of(file: &File) -> String {
        format!("/proc/self/fd/{}", file.as_raw_fd())
    }

    #[test]
    fn data_go_to_ranges_of_the_memory_of_a_client() {
        let Some(mut transfers) = transfers(8) else {
            return;
        };
        let file = Arc::new(tempfile::tempfile().unwrap());
        file.write_all_at(b"0123456789", 0).unwrap();
        let memory: GuestMemoryMmap =
            GuestMemoryMmap::from_ranges(&[(GuestAddress(0x1000), 0x1000)]).unwrap();
        let memory = Arc::new(memory);
        let at = |offset| GuestAddress(0x1000 + offset);
        let client = |ranges: &[(u64, usize)]| {
            let ranges = ranges.iter().map(|(offset, length)| (at(*offset), *length));
            TransferMemory::Client(Arc::clone(&memory), ranges.collect())
        };
        let reads = [
            (client(&[(0, 3), (10, 2)]), 4),
            (client(&[(20, 8)]), 7),
            (client(&[(40, 8)]), 10),
        ];
        for (item, (memory, offset)) in (0..).zip(reads) {
            let started = transfers.start(Arc::clone(&file), memory, read_at(offset), item);
            assert!(started.is_ok());
        }
        let counts = ended(&mut transfers).into_iter();
        let counts: Vec<usize> = counts.map(|done| done.result.unwrap()).collect();
        assert_eq!(counts, [5, 3, 0]);
        let mut bytes = [0; 28];
        memory.read_slice(&mut bytes, at(0)).unwrap();
        assert_eq!(
            (&bytes[..3], &bytes[10..12], &bytes[20..23]),
            (&b"456"[..], &b"78"[..], &b"789"[..])
        );
        // Outside of the memory.
        let given = transfers.start(file, client(&[(0xfff, 2)]), read_at(0), 9);
        assert_eq!(given.unwrap_err().2, 9);
    }

    #[test]
    fn more_than_there_is_room_for_is_given_back_and_errors_are_those_of_the_file() {
        let Some(mut transfers) = transfers(4) else {
            return;
        };
        let file = Arc::new(tempfile::tempfile().unwrap());
        file.set_len(128).unwrap();
        let own = || TransferMemory::Own(vec![7; 64], 16..48);
        for item in 0..4 {
            let started = transfers.start(Arc::clone(&file), own(), read_at(0), item);
            assert!(started.is_ok());
        }
        let given = transfers.start(file, own(), read_at(0), 4);
        assert_eq!(given.unwrap_err().2, 4);
        for done in ended(&mut transfers) {
            assert_eq!(done.result.unwrap(), 32);
            let TransferMemory::Own(bytes, range) = done.memory else {
                panic!("it is another one");
            };
            assert!((0..64).all(|at| bytes[at] == if range.contains(&at) { 0 } else { 7 }));
        }
        let unreadable = File::options().write(true).open("/dev/null").unwrap();
        let started = transfers.start(Arc::new(unreadable), own(), read_at(0), 5);
        assert!(started.is_ok());
        let done = ended(&mut transfers);
        let error = done[0].result.as_ref().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    }

    #[test]
    fn its_descriptor_can_be_read_when_a_transfer_ended() {
        let Some(mut transfers) = transfers(1) else {
            return;
        };
        let (read, write) = std::io::pipe().unwrap();
        let read = Arc::new(File::from(std::os::fd::OwnedFd::from(read)));
        let started = transfers.start(
            read,
            TransferMemory::Own(vec![0; 1], 0..1),
            read_at(u64::MAX),
            0,
        );
        assert!(started.is_ok());
        transfers.turn(|_| panic!("nothing was written")).unwrap();
        io::Write::write_all(&mut &write, b"x").unwrap();
        let descriptor = transfers.descriptor();
        let mut watched = [rustix::event::PollFd::new(
            &descriptor,
            rustix::event::PollFlags::IN,
        )];
        rustix::event::poll(&mut watched, None).unwrap();
        assert_eq!(ended(&mut transfers).len(), 1);
    }
}
