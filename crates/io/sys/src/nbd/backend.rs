//! The backend of the engine `nbd`: one connection. The calling thread sends its requests and receives its replies.
//!
//! One call sends prepared requests, as many as the socket takes. Replies are received into a buffer from which short
//! data are copied; the rest of longer data is received directly. While the server waits for its replies to be read and
//! does not read requests, sending and receiving alternate.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};

use iodyno_model::Engine;

use super::{disconnect, wire};
use crate::file::poll;
use crate::memory::Arena;
use crate::{
    Backend, BackendError, Capabilities, Clock, Completions, MonotonicClock, Op, OpKind, Slot,
};

/// Bytes of replies that are received together.
const STAGING: usize = 64 << 10;
/// Parts of requests that are sent together: headers and data.
const PARTS: usize = 64;

/// A connection to an NBD server.
#[derive(Debug)]
pub struct NbdBackend {
    socket: File,
    /// The URI, for messages.
    name: String,
    arena: Arena,
    clock: MonotonicClock,
    /// Writes are durable when they complete.
    fua: bool,
    /// Ops not yet sent completely, oldest first.
    prepared: VecDeque<Slot>,
    /// Bytes of the oldest prepared request that were sent.
    sent: usize,
    /// The request of each slot; `None`: the slot is idle.
    requests: Box<[Option<Request>]>,
    in_flight: u32,
    /// Distinguishes the requests of a slot.
    number: u32,
    /// Bytes that were received and not used: `from..to`.
    staging: Box<[u8]>,
    from: usize,
    to: usize,
    /// The slot whose data are being received, and the bytes received so far.
    receiving: Option<(Slot, usize)>,
    /// The connection was closed: requests in flight end with ECANCELED.
    cancelled: bool,
}

#[derive(Debug, Clone, Copy)]
struct Request {
    op: Op,
    header: [u8; wire::REQUEST_BYTES],
    cookie: u64,
    submitted: u64,
    /// Sent completely.
    sent: bool,
}

impl Request {
    /// The range of the slot's buffer that it transfers.
    fn range(&self) -> std::ops::Range<usize> {
        let skip = self.op.skip as usize;
        skip..skip + self.op.transfer_length() as usize
    }

    /// Bytes that are sent: the header, and the data of a write.
    fn outgoing(&self) -> usize {
        match self.op.kind {
            OpKind::Write => wire::REQUEST_BYTES + self.op.length as usize,
            _ => wire::REQUEST_BYTES,
        }
    }
}

impl NbdBackend {
    /// Takes a negotiated, non-blocking socket.
    pub fn new(socket: OwnedFd, name: &str, arena: Arena, engine: &Engine) -> NbdBackend {
        let slots = arena.slots() as usize;
        NbdBackend {
            socket: File::from(socket),
            name: name.to_owned(),
            arena,
            clock: MonotonicClock,
            fua: engine.o_sync || engine.o_dsync,
            prepared: VecDeque::with_capacity(slots),
            sent: 0,
            requests: vec![None; slots].into_boxed_slice(),
            in_flight: 0,
            number: 0,
            staging: vec![0; STAGING].into_boxed_slice(),
            from: 0,
            to: 0,
            receiving: None,
            cancelled: false,
        }
    }

    fn failed(&self, doing: &str, source: io::Error) -> BackendError {
        BackendError {
            what: format!("{doing} `{}`", self.name),
            source,
            hint: Some("look at the messages of the server"),
        }
    }

    /// Sends prepared requests, as many as the socket takes.
    fn send(&mut self, completions: &mut Completions) -> Result<(), BackendError> {
        while let Some(first) = self.prepared.front() {
            let now = self.clock.now();
            let started = (self.sent > 0).then_some(*first);
            for slot in self.prepared.iter().take(PARTS / 2) {
                if let Some(request) = &mut self.requests[*slot as usize]
                    && started != Some(*slot)
                {
                    request.submitted = now;
                }
            }
            let mut parts = [IoSlice::new(&[]); PARTS];
            let mut count = 0;
            for slot in self.prepared.iter().take(PARTS / 2) {
                let Some(request) = &self.requests[*slot as usize] else {
                    continue;
                };
                let data = match request.op.kind {
                    OpKind::Write => &self.arena.slot(*slot)[request.range()],
                    _ => &[],
                };
                let sent = if count == 0 { self.sent } else { 0 };
                let header = &request.header[sent.min(wire::REQUEST_BYTES)..];
                let data = &data[sent.saturating_sub(wire::REQUEST_BYTES)..];
                parts[count] = IoSlice::new(header);
                parts[count + 1] = IoSlice::new(data);
                count += 2;
            }
            match self.socket.write_vectored(&parts[..count]) {
                Ok(bytes) => self.note_sent(bytes, completions),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed("send requests to", error)),
            }
        }
        Ok(())
    }

    fn note_sent(&mut self, bytes: usize, completions: &mut Completions) {
        self.sent += bytes;
        while let Some(slot) = self.prepared.front()
            && let Some(request) = &mut self.requests[*slot as usize]
            && self.sent >= request.outgoing()
        {
            self.sent -= request.outgoing();
            request.sent = true;
            completions.submitted += 1;
            self.in_flight += 1;
            self.prepared.pop_front();
        }
    }

    /// Receives available bytes, at most once. `false`: none available.
    fn receive(&mut self) -> Result<bool, BackendError> {
        if self.from > 0 {
            self.staging.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
        let rest = match self.receiving {
            Some((slot, done)) => match &self.requests[slot as usize] {
                Some(request) => {
                    let range = request.range();
                    &mut self.arena.slot_mut(slot)[range][done..]
                }
                None => &mut [],
            },
            None => &mut [],
        };
        let direct = rest.len();
        let staging = &mut self.staging[self.to..];
        let mut parts = [IoSliceMut::new(rest), IoSliceMut::new(staging)];
        let received = match self.socket.read_vectored(&mut parts) {
            Ok(0) => {
                let gone = io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the server closed the connection",
                );
                return Err(self.failed("receive replies from", gone));
            }
            Ok(received) => received,
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => return Ok(false),
                io::ErrorKind::Interrupted => return Ok(true),
                _ => return Err(self.failed("receive replies from", error)),
            },
        };
        if let Some((_, done)) = &mut self.receiving {
            *done += received.min(direct);
        }
        self.to += received.saturating_sub(direct);
        Ok(true)
    }

    /// Completes received replies, until `max` ops are complete.
    fn take(&mut self, max: u32, completions: &mut Completions) -> Result<(), BackendError> {
        let mut now = None;
        while completions.list.len() < max as usize {
            let Some((slot, done)) = self.receiving else {
                let Some(header) = self.staging[self.from..self.to].first_chunk() else {
                    break;
                };
                let (slot, errno) = self.reply(header)?;
                self.from += wire::REPLY_BYTES;
                let reads =
                    self.requests[slot as usize].is_some_and(|it| it.op.kind == OpKind::Read);
                match errno {
                    0 if reads => self.receiving = Some((slot, 0)),
                    _ => {
                        let now = *now.get_or_insert_with(|| self.clock.now());
                        self.complete(slot, errno, now, completions);
                    }
                }
                continue;
            };
            let Some(request) = self.requests[slot as usize] else {
                break;
            };
            let rest = &mut self.arena.slot_mut(slot)[request.range()][done..];
            let bytes = rest.len().min(self.to - self.from);
            rest[..bytes].copy_from_slice(&self.staging[self.from..self.from + bytes]);
            self.from += bytes;
            if bytes < rest.len() {
                self.receiving = Some((slot, done + bytes));
                break;
            }
            self.receiving = None;
            let now = *now.get_or_insert_with(|| self.clock.now());
            self.complete(slot, 0, now, completions);
        }
        Ok(())
    }

    /// The slot and the errno of a reply.
    fn reply(&self, header: &[u8; wire::REPLY_BYTES]) -> Result<(Slot, i32), BackendError> {
        let unexpected = |what: &str| {
            let what = format!("the server does not speak NBD as expected: {what}");
            self.failed(
                "receive replies from",
                io::Error::new(io::ErrorKind::InvalidData, what),
            )
        };
        let u32_at = |at: usize| {
            u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        if u32_at(0) != wire::SIMPLE_REPLY {
            return Err(unexpected("no reply where one is expected"));
        }
        let cookie = u64::from(u32_at(8)) << 32 | u64::from(u32_at(12));
        let slot = cookie as u32;
        let request = self.requests.get(slot as usize).copied().flatten();
        if !request.is_some_and(|request| request.sent && request.cookie == cookie) {
            return Err(unexpected("it replies to a request that is not in flight"));
        }
        let errno = match u32_at(4) {
            // EPERM, EIO, ENOMEM, EINVAL, ENOSPC, EOVERFLOW, ENOTSUP and ESHUTDOWN have the numbers of Linux.
            known @ (0 | 1 | 5 | 12 | 22 | 28 | 75 | 95 | 108) => known as i32,
            _ => libc::EIO,
        };
        Ok((slot, errno))
    }

    fn complete(&mut self, slot: Slot, errno: i32, now: u64, completions: &mut Completions) {
        let Some(request) = self.requests[slot as usize].take() else {
            return;
        };
        self.in_flight -= 1;
        let result = match errno {
            0 => request.op.transfer_length() as i32,
            errno => -errno,
        };
        completions.push(slot, result, request.submitted, now);
    }

    /// Waits until the socket is readable, or writable if anything is unsent.
    fn wait(&self, timeout_ns: Option<u64>) {
        let events = match self.prepared.is_empty() {
            true => libc::POLLIN,
            false => libc::POLLIN | libc::POLLOUT,
        };
        let mut watched = [libc::pollfd {
            fd: self.socket.as_raw_fd(),
            events,
            revents: 0,
        }];
        // The next call on the socket reports a failure.
        poll(&mut watched, timeout_ns);
    }

    /// Ends all requests with ECANCELED. The protocol has no cancellation, so this closes the connection.
    fn end_cancelled(&mut self, max: u32, completions: &mut Completions) {
        let now = self.clock.now();
        for slot in 0..self.requests.len() {
            if completions.list.len() == max as usize {
                return;
            }
            if let Some(request) = self.requests[slot].take() {
                completions.push(slot as Slot, -libc::ECANCELED, request.submitted, now);
            }
        }
        self.prepared.clear();
        (self.in_flight, self.sent) = (0, 0);
    }
}

impl Backend for NbdBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            submits_many: true,
            ..Capabilities::default()
        }
    }

    #[inline]
    fn buffer(&mut self, slot: Slot) -> &mut [u8] {
        self.arena.slot_mut(slot)
    }

    fn room(&self) -> u32 {
        self.arena.slots() - self.prepared.len() as u32
    }

    fn prep(&mut self, slot: Slot, op: &Op) {
        debug_assert!(self.requests[slot as usize].is_none(), "the slot is idle");
        self.number = self.number.wrapping_add(1);
        let cookie = u64::from(self.number) << 32 | u64::from(slot);
        let (flags, kind) = match op.kind {
            OpKind::Read => (0, wire::CMD_READ),
            OpKind::Write if self.fua => (wire::FUA, wire::CMD_WRITE),
            OpKind::Write => (0, wire::CMD_WRITE),
            OpKind::Trim => (0, wire::CMD_TRIM),
            // A range cannot be flushed: everything is.
            OpKind::Fsync | OpKind::Fdatasync | OpKind::SyncRange(_) => (0, wire::CMD_FLUSH),
            OpKind::ResetZone => unreachable!("exports have no zones"),
        };
        let (offset, length) = match kind {
            wire::CMD_FLUSH => (0, 0),
            _ => (op.offset, op.length),
        };
        self.requests[slot as usize] = Some(Request {
            op: *op,
            header: wire::request(flags, kind, cookie, offset, length),
            cookie,
            submitted: 0,
            sent: false,
        });
        self.prepared.push_back(slot);
    }

    fn turn(
        &mut self,
        min: u32,
        max: u32,
        deadline: Option<u64>,
        completions: &mut Completions,
    ) -> Result<(), BackendError> {
        completions.clear();
        completions.entered = self.clock.now();
        completions.returned = completions.entered;
        let min = min.min(max) as usize;
        // At depth 1 there can be no reply yet.
        let mut look = self.in_flight > 0;
        loop {
            if self.cancelled {
                self.end_cancelled(max, completions);
                completions.returned = self.clock.now();
                return Ok(());
            }
            self.send(completions)?;
            self.take(max, completions)?;
            let enough = completions.list.len() >= min.max(1) || (min == 0 && !look);
            if enough || (self.in_flight == 0 && self.prepared.is_empty()) {
                break;
            }
            if look && self.receive()? {
                continue;
            }
            look = true;
            let now = self.clock.now();
            if min == 0 || deadline.is_some_and(|deadline| now >= deadline) {
                break;
            }
            self.wait(deadline.map(|deadline| deadline - now));
        }
        completions.returned = self.clock.now();
        Ok(())
    }

    fn cancel_all(&mut self) {
        self.cancelled = true;
        // SAFETY: a socket of ours. The server sees the end of the connection.
        unsafe { libc::shutdown(self.socket.as_raw_fd(), libc::SHUT_RDWR) };
    }
}

impl Drop for NbdBackend {
    fn drop(&mut self) {
        if !self.cancelled && self.sent == 0 {
            disconnect(&self.socket);
        }
    }
}
