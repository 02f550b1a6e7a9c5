//! The server side of FUSE over io_uring: requests arrive as completions. Replies are commands, which also fetch the
//! next request. See `linux/fuse.h`, version 7.42, and Documentation/filesystems/fuse-io-uring.rst.
//!
//! An entry is memory with the parts of one request and of its reply, at addresses that the kernel knows. It belongs to
//! the kernel or, as a [`FuseEntry`], to the server. The headers of a request are assembled in front of its data, so
//! that it is contiguous without copying the data; likewise for a reply.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use iodyno_model::{Engine, EngineKind};

use super::abi::{Sqe, op};
use super::rings::Rings;
use crate::fuse_protocol::opcode::WRITE;
use crate::fuse_protocol::{HEADER, REPLY_HEADER, reply_header, u32_at, u64_at};
use crate::memory::{Arena, Plain};
use crate::result::checked;

const REGISTER: u64 = 1;
const COMMIT_AND_FETCH: u64 = 2;

/// `struct fuse_uring_req_header`: the header, the header of the opcode, and about the payload.
const OPCODE_HEADER: usize = 128;
const OPCODE_HEADER_BYTES: usize = 128;
const PAYLOAD_LENGTH: usize = 256 + 16;
const HEADERS: usize = 288;
/// Offset of a reply that does not precede the payload because the request is there.
const SMALL_REPLY: usize = 512;
/// Offset of a request whose payload area is needed for the reply.
const SMALL_REQUEST: usize = 1024;
/// Offset of the payload, page-aligned for direct I/O.
const PAYLOAD: usize = 4096;
/// Bytes before it for the headers of a request or reply.
const IN_FRONT: usize = HEADER + OPCODE_HEADER_BYTES;

/// `struct fuse_uring_cmd_req`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Command {
    flags: u64,
    commit: u64,
    queue: u16,
    padding: [u8; 6],
}

// SAFETY: integers; the padding has a name.
unsafe impl Plain for Command {}

/// A request of the kernel, with the room for its reply.
#[derive(Debug)]
pub struct FuseEntry {
    slot: u32,
    unique: u64,
    memory: Arena,
    request: RequestMemory,
    /// The position of the reply.
    reply: Range<usize>,
}

/// The position of a request.
#[derive(Debug)]
enum RequestMemory {
    /// In the memory of the entry.
    Here(Range<usize>),
    /// Copied elsewhere, because it is too long.
    Elsewhere(Vec<u8>),
}

impl FuseEntry {
    /// Assembles a request from the kernel. `None`: it is malformed.
    fn new(slot: u32, mut memory: Arena) -> Option<FuseEntry> {
        let bytes = memory.slot_mut(0);
        let (length, opcode) = (u32_at(bytes, 0)? as usize, u32_at(bytes, 4)?);
        let unique = u64_at(bytes, 8)?;
        let payload = u32_at(bytes, PAYLOAD_LENGTH)? as usize;
        let front = length.checked_sub(payload)?;
        let own = front.checked_sub(HEADER)?;
        if own > OPCODE_HEADER_BYTES || PAYLOAD + payload > bytes.len() {
            return None;
        }
        let (request, reply) = match opcode {
            // The only request with long data that are not copied.
            WRITE => {
                let start = PAYLOAD - front;
                (
                    RequestMemory::Here(start..PAYLOAD + payload),
                    SMALL_REPLY..SMALL_REQUEST,
                )
            }
            _ => {
                let place = match length <= PAYLOAD - IN_FRONT - SMALL_REQUEST {
                    true => {
                        bytes.copy_within(PAYLOAD..PAYLOAD + payload, SMALL_REQUEST + front);
                        RequestMemory::Here(SMALL_REQUEST..SMALL_REQUEST + length)
                    }
                    false => {
                        let mut copy = vec![0; length];
                        copy[front..].copy_from_slice(&bytes[PAYLOAD..PAYLOAD + payload]);
                        RequestMemory::Elsewhere(copy)
                    }
                };
                (place, PAYLOAD - REPLY_HEADER..bytes.len())
            }
        };
        let mut entry = FuseEntry {
            slot,
            unique,
            memory,
            request,
            reply,
        };
        let mut headers = [0; IN_FRONT];
        let bytes = entry.memory.slot_mut(0);
        headers[..HEADER].copy_from_slice(&bytes[..HEADER]);
        headers[HEADER..front].copy_from_slice(&bytes[OPCODE_HEADER..OPCODE_HEADER + own]);
        entry.request()[..front].copy_from_slice(&headers[..front]);
        Some(entry)
    }

    /// The whole request.
    pub fn request(&mut self) -> &mut [u8] {
        match &mut self.request {
            RequestMemory::Here(range) => &mut self.memory.slot_mut(0)[range.clone()],
            RequestMemory::Elsewhere(copy) => copy,
        }
    }

    /// The buffer for the reply. It does not overlap the request.
    pub fn reply(&mut self) -> &mut [u8] {
        &mut self.memory.slot_mut(0)[self.reply.clone()]
    }

    /// Puts the parts of a reply of this length to where the kernel expects them. A reply that has no header becomes an
    /// error.
    fn take_apart(&mut self, length: usize) {
        let (unique, reply) = (self.unique, self.reply.clone());
        let bytes = self.memory.slot_mut(0);
        let length = length.min(reply.len());
        match length.checked_sub(REPLY_HEADER) {
            Some(data) => {
                bytes.copy_within(reply.start..reply.start + REPLY_HEADER, 0);
                if reply.start + REPLY_HEADER != PAYLOAD {
                    let from = reply.start + REPLY_HEADER;
                    bytes.copy_within(from..from + data, PAYLOAD);
                }
                bytes[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4]
                    .copy_from_slice(&(data as u32).to_ne_bytes());
            }
            None => {
                bytes[..REPLY_HEADER].copy_from_slice(&reply_header(unique, libc::EIO, 0));
                bytes[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4].fill(0);
            }
        }
    }
}

/// Some queues of a mounted FUSE file system. The kernel has one per CPU, and uses none until all have entries.
#[derive(Debug)]
pub struct FuseRing {
    // Fields are dropped in this order: the ring before the memory that it may write to. Memory that the kernel still
    // has is leaked.
    rings: Rings,
    device: OwnedFd,
    wake: OwnedFd,
    /// The entries that the kernel has, by slot.
    lent: Vec<Option<Arena>>,
    /// The queues of the slots.
    queues: Vec<u16>,
    /// The addresses of entry parts, which the kernel reads during registration.
    places: Vec<[libc::iovec; 2]>,
    /// The counter of `wake`, as the kernel reads it.
    woken: Arena,
    /// Entries that are not lost.
    left: u32,
}

impl FuseRing {
    /// Creates a ring for the calling thread only. `wake` is a blocking eventfd. `queues` are queue numbers with the
    /// number of entries of each. `most_data` is the negotiated maximum payload, bytes, at least 8192.
    ///
    /// # Errors
    /// Those of io_uring_setup(2) and mmap(2).
    pub fn new(
        device: OwnedFd,
        wake: OwnedFd,
        queues: &[(u16, u32)],
        most_data: usize,
    ) -> io::Result<FuseRing> {
        let queues: Vec<u16> = (queues.iter())
            .flat_map(|(queue, entries)| std::iter::repeat_n(*queue, *entries as usize))
            .collect();
        let left = queues.len() as u32;
        let rings = Rings::with_commands(left + 1, &Engine::new(EngineKind::IoUring, left))?;
        let memory = |_| Arena::new(1, PAYLOAD + most_data, 0, false).map(Some);
        Ok(FuseRing {
            rings,
            device,
            wake,
            lent: queues.iter().map(memory).collect::<io::Result<_>>()?,
            places: Vec::with_capacity(queues.len()),
            queues,
            woken: Arena::new(1, 8, 0, false)?,
            left,
        })
    }

    /// Passes all entries to the kernel. The file system must be initialised with io_uring negotiated.
    ///
    /// # Errors
    /// Those of the kernel, which then sends requests to `/dev/fuse`.
    pub fn register(&mut self) -> io::Result<()> {
        for (slot, memory) in self.lent.iter_mut().flatten().enumerate() {
            let length = memory.slot_bytes();
            let start = memory.lend(0, 0, length as u32);
            let part = |skip: usize, length| libc::iovec {
                iov_base: start.wrapping_add(skip).cast(),
                iov_len: length,
            };
            self.places
                .push([part(0, HEADERS), part(PAYLOAD, length - PAYLOAD)]);
            let sqe = Sqe {
                opcode: op::URING_CMD,
                fd: self.device.as_raw_fd(),
                off: REGISTER,
                addr: self.places[slot].as_ptr() as u64,
                len: 2,
                user_data: slot as u64,
                ..Sqe::default()
            };
            let command = Command {
                queue: self.queues[slot],
                ..Command::default()
            };
            // SAFETY: the memory of the entry is lent until the completion was reaped, and leaked if it never is; the
            // addresses of its parts no longer change.
            unsafe { self.rings.write_with(sqe, command) };
        }
        self.watch();
        self.submit()?;
        // Failed ones have already ended.
        let mut failed = None;
        self.rings.reap(u32::MAX, |_, result| {
            failed = failed.or((result < 0).then_some(result));
        });
        match failed {
            Some(result) => Err(io::Error::from_raw_os_error(-result)),
            None => Ok(()),
        }
    }

    /// Submits a read of `wake`.
    fn watch(&mut self) {
        let address = self.woken.lend(0, 0, 8);
        let sqe = Sqe {
            opcode: op::READ,
            fd: self.wake.as_raw_fd(),
            addr: address as u64,
            len: 8,
            user_data: self.queues.len() as u64,
            ..Sqe::default()
        };
        // SAFETY: as in `register`, for the memory of the counter.
        unsafe { self.rings.write_with(sqe, Command::default()) };
    }

    /// Replies to a request with the first bytes of the room for its reply. The kernel gets it with the next
    /// [`Self::submit`] or [`Self::turn`].
    pub fn commit(&mut self, mut entry: FuseEntry, length: usize) {
        entry.take_apart(length);
        let slot = entry.slot as usize;
        let bytes = entry.memory.slot_bytes() as u32;
        entry.memory.lend(0, 0, bytes);
        let sqe = Sqe {
            opcode: op::URING_CMD,
            fd: self.device.as_raw_fd(),
            off: COMMIT_AND_FETCH,
            user_data: slot as u64,
            ..Sqe::default()
        };
        let command = Command {
            commit: entry.unique,
            queue: self.queues[slot],
            ..Command::default()
        };
        self.lent[slot] = Some(entry.memory);
        // SAFETY: the kernel knows the memory since `register`. The memory is lent, and leaked if the completion is
        // never reaped.
        unsafe { self.rings.write_with(sqe, command) };
    }

    /// Passes replies to the kernel, without waiting.
    ///
    /// # Errors
    /// Those of io_uring_enter(2).
    pub fn submit(&mut self) -> io::Result<()> {
        match self.rings.pending() {
            0 => Ok(()),
            _ => self.rings.enter(0, None),
        }
    }

    /// Passes replies to the kernel and takes available requests. If none are available, `wait` waits for a request or
    /// a write to `wake`. Returns whether the file system is still mounted.
    ///
    /// # Errors
    /// Those of io_uring_enter(2), and of entries.
    pub fn turn(&mut self, wait: bool, taken: &mut Vec<FuseEntry>) -> io::Result<bool> {
        self.rings.enter(u32::from(wait), None)?;
        let (lent, woken, left) = (&mut self.lent, &mut self.woken, &mut self.left);
        let wake = lent.len() as u32;
        let (mut failed, mut watch) = (None, false);
        self.rings.reap(u32::MAX, |slot, result| {
            if slot == wake {
                // SAFETY: the read has ended.
                unsafe { woken.take_back(0) };
                watch = true;
                return;
            }
            let Some(mut memory) = lent[slot as usize].take() else {
                return;
            };
            // SAFETY: the command has ended: the entry belongs to the server.
            unsafe { memory.take_back(0) };
            match -result {
                0 => match FuseEntry::new(slot, memory) {
                    Some(entry) => taken.push(entry),
                    None => failed = Some(libc::EBADMSG),
                },
                // The file system is no longer mounted, or its request was ended.
                libc::ENOTCONN | libc::ECONNABORTED | libc::ENOENT | libc::ECANCELED => *left -= 1,
                errno => failed = Some(errno),
            }
        });
        if watch {
            self.watch();
        }
        match failed {
            Some(errno) => Err(io::Error::from_raw_os_error(errno)),
            None => Ok(self.left > 0),
        }
    }
}

/// `struct fuse_backing_map`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct BackingMap {
    fd: i32,
    flags: u32,
    padding: u64,
}

/// Registers a backing file, which the kernel reads and writes in place of the server (`FUSE_DEV_IOC_BACKING_OPEN`).
/// Returns its id for replies.
///
/// # Errors
/// Those of ioctl(2): EPERM if the session did not negotiate it, ELOOP if the file is on a stacked file system.
pub fn open_backing(session: impl AsFd, file: impl AsFd) -> io::Result<u32> {
    const FUSE_DEV_IOC_BACKING_OPEN: libc::c_ulong = 0x4010_e501;
    let map = BackingMap {
        fd: file.as_fd().as_raw_fd(),
        ..BackingMap::default()
    };
    // SAFETY: the structure that the driver reads for this number.
    let number = unsafe { ioctl(session, FUSE_DEV_IOC_BACKING_OPEN, &raw const map) };
    number.map(|number| number as u32)
}

/// Releases a backing file id, so that further replies cannot use it (`FUSE_DEV_IOC_BACKING_CLOSE`).
///
/// # Errors
/// Those of ioctl(2).
pub fn close_backing(session: impl AsFd, number: u32) -> io::Result<()> {
    const FUSE_DEV_IOC_BACKING_CLOSE: libc::c_ulong = 0x4004_e502;
    // SAFETY: the number that the driver reads.
    unsafe { ioctl(session, FUSE_DEV_IOC_BACKING_CLOSE, &raw const number) }.map(drop)
}

/// ioctl(2).
///
/// # Safety
/// `argument` points to the type that drivers expect for this number.
unsafe fn ioctl<T>(device: impl AsFd, what: libc::c_ulong, argument: *const T) -> io::Result<i64> {
    // SAFETY: as the caller guarantees.
    let result = unsafe { libc::ioctl(device.as_fd().as_raw_fd(), what as _, argument) };
    checked(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: usize = 1 << 20;

    /// An entry as the kernel fills it.
    fn entry(opcode: u32, own: &[u8], payload: &[u8]) -> FuseEntry {
        let mut memory = Arena::new(1, PAYLOAD + LONGEST, 0, false).unwrap();
        let bytes = memory.slot_mut(0);
        bytes.fill(0xee);
        let length = HEADER + own.len() + payload.len();
        bytes[..4].copy_from_slice(&(length as u32).to_ne_bytes());
        bytes[4..8].copy_from_slice(&opcode.to_ne_bytes());
        bytes[8..16].copy_from_slice(&77u64.to_ne_bytes());
        bytes[16..HEADER].fill(5);
        bytes[OPCODE_HEADER..OPCODE_HEADER + own.len()].copy_from_slice(own);
        bytes[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4]
            .copy_from_slice(&(payload.len() as u32).to_ne_bytes());
        bytes[PAYLOAD..PAYLOAD + payload.len()].copy_from_slice(payload);
        FuseEntry::new(3, memory).unwrap()
    }

    #[test]
    fn requests_are_one_text_and_replies_are_taken_apart() {
        for (opcode, own, payload, data) in [
            (1, 0, 6, 128),
            (15, 40, 0, LONGEST),
            (16, 40, LONGEST, 8),
            (16, 40, 1, 8),
            (21, 8, 2500, 0),
            (21, 8, 70_000, 0),
            (14, 128, 0, 16),
        ] {
            let (own, payload) = (vec![1; own], vec![2; payload]);
            let mut entry = entry(opcode, &own, &payload);
            let request = entry.request();
            assert_eq!(request.len(), HEADER + own.len() + payload.len());
            assert_eq!(request[4..8], opcode.to_ne_bytes());
            assert!(request[16..HEADER].iter().all(|byte| *byte == 5));
            assert!(request[HEADER..].starts_with(&own));
            assert!(request[HEADER + own.len()..] == payload, "{opcode}");
            // The room is not that of the request.
            let length = REPLY_HEADER + data;
            let before = entry.request().to_vec();
            let reply: Vec<u8> = (0..length).map(|at| ((at * 7) >> 3) as u8).collect();
            entry.reply()[..length].copy_from_slice(&reply);
            assert!(entry.request() == before, "{opcode}");
            entry.take_apart(length);
            let bytes = entry.memory.slot_mut(0);
            assert_eq!(bytes[..REPLY_HEADER], reply[..REPLY_HEADER]);
            assert_eq!(
                bytes[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4],
                (data as u32).to_ne_bytes()
            );
            assert!(bytes[PAYLOAD..PAYLOAD + data] == reply[REPLY_HEADER..]);
        }
    }

    #[test]
    fn a_request_without_a_reply_gets_an_error() {
        let mut entry = entry(15, &[0; 40], &[]);
        entry.take_apart(0);
        let bytes = entry.memory.slot_mut(0);
        assert_eq!(bytes[..4], 16u32.to_ne_bytes());
        assert_eq!(bytes[4..8], (-libc::EIO).to_ne_bytes());
        assert_eq!(bytes[8..16], 77u64.to_ne_bytes());
        assert_eq!(bytes[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4], [0; 4]);
    }

    #[test]
    fn lengths_that_contradict_each_other_are_not_a_request() {
        for (length, payload) in [(39u32, 0u32), (40, 1), (169, 0), (4 << 20, 3 << 20)] {
            let mut memory = Arena::new(1, PAYLOAD + LONGEST, 0, false).unwrap();
            let bytes = memory.slot_mut(0);
            bytes[..4].copy_from_slice(&length.to_ne_bytes());
            bytes[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4].copy_from_slice(&payload.to_ne_bytes());
            assert!(FuseEntry::new(0, memory).is_none(), "{length} {payload}");
        }
    }
}
