//! A client of the NBD server. Its thread receives requests, reads from legs itself ([`Reader`]), and sends replies.
//! The mirror's thread sends short replies itself if the socket has room: waking another thread would take longer.
//!
//! Requests and bytes in flight are limited per connection and in total. At the limit, a connection receives no more
//! requests until replies were sent. When a connection ends, its requests in flight end too, and their replies are
//! dropped.

use std::io::{self, IoSlice, Read};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use iodyno_mirror::core::Access;
use iodyno_vhost::signal;
use rustix::net::{SendAncillaryBuffer, SendFlags};

use crate::buffer_pool::BufferPool;
use crate::nbd::{self, Command, Export};
use crate::queue::{Direct, Handle, Reply, ReplyTo, Request};
use crate::reader::{Ended, Outcome, Reader};

/// Requests of a connection in flight.
const MAX_REQUESTS: usize = 256;
/// Their bytes; one request may exceed it.
const MAX_BYTES: usize = 64 << 20;
/// Bytes of the buffers that a connection keeps for its next requests: 16 long writes.
const SPARE_BYTES: usize = 16 << 20;
/// The bytes of the requests of all connections in flight; each connection may have one request beyond it.
const MAX_BYTES_OF_ALL: usize = 512 << 20;
/// Replies are sent together up to about this length, bytes.
const TOGETHER: usize = 32 << 10;
/// Timeout of a client's negotiation.
const NEGOTIATION: Duration = Duration::from_secs(30);

/// Bytes that all connections have in flight.
#[derive(Debug, Default)]
pub(crate) struct Memory(AtomicUsize);

impl Memory {
    /// Takes bytes if enough are free, or if the request is `alone` in its connection: clients that do not read their
    /// replies must not stop others.
    fn take(&self, bytes: usize, alone: bool) -> bool {
        let used = self.0.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let taken = alone || used <= MAX_BYTES_OF_ALL;
        if !taken {
            self.give(bytes);
        }
        taken
    }

    fn give(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Serves one client by NBD until it leaves.
pub(crate) fn serve(
    mut stream: UnixStream,
    export: &Export,
    handle: &Handle,
    memory: &Arc<Memory>,
) -> io::Result<()> {
    stream.set_read_timeout(Some(NEGOTIATION))?;
    if !nbd::negotiate(&mut stream, export)? {
        return Ok(());
    }
    stream.set_read_timeout(None)?;
    let mut reader = Reader::new(handle, 1).map_err(io::Error::other)?;
    reader.set_stream(&stream).map_err(io::Error::other)?;
    (reader.exchange(SOCKET, &stream)).map_err(io::Error::other)?;
    let (reply, replies) = ReplyTo::waking(Arc::clone(reader.wake()), MAX_REQUESTS);
    let writer = ReplyWriter::new(
        stream.try_clone()?,
        Arc::clone(memory),
        Arc::clone(reader.wake()),
    );
    let writer = Arc::new(writer);
    let mut connection = Connection {
        input: Input {
            stream,
            bytes: Vec::with_capacity(64 << 10),
            at: 0,
        },
        export: *export,
        handle: handle.clone(),
        reply: reply.directly(Arc::clone(&writer) as Arc<dyn Direct>),
        replies,
        reader,
        writer,
        waiting: None,
        ready: Vec::with_capacity(2 * TOGETHER),
    };
    let served = connection.run();
    if served.is_err() {
        // The client broke the protocol, or has gone.
        connection.writer.out().gone = true;
    }
    served.and(connection.finish())
}

/// The number under which the reader of a connection watches its socket.
const SOCKET: u32 = 0;
/// How long a request waits before it tries again to get memory that other connections hold, ns.
const MEMORY_NS: u64 = 10_000_000;

/// The ring receives requests of at most this many bytes as a whole.
const WHOLE: usize = 64 << 10;

/// Received bytes: those from the ring, then the rest from the socket.
struct Input {
    stream: UnixStream,
    bytes: Vec<u8>,
    at: usize,
}

impl Input {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    /// Adds received bytes.
    fn add(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.extend(bytes);
    }

    /// What was received of the next request.
    fn next(&self) -> Received {
        let Some(payload) = nbd::payload(self.rest()) else {
            return Received::Part;
        };
        let whole = nbd::HEADER + payload as usize;
        match self.rest().len() >= whole {
            true => Received::Whole,
            false if whole > WHOLE => Received::Long,
            false => Received::Part,
        }
    }
}

/// What was received of a request.
#[derive(PartialEq, Eq)]
enum Received {
    Whole,
    /// The rest is long: it is received from the socket to where it belongs.
    Long,
    Part,
}

impl Read for Input {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.rest().is_empty() {
            return self.stream.read(into);
        }
        let count = into.len().min(self.rest().len());
        into[..count].copy_from_slice(&self.rest()[..count]);
        self.at += count;
        Ok(count)
    }
}

/// Sends replies to a client, for its thread and that of the mirror.
#[derive(Debug)]
struct ReplyWriter {
    stream: UnixStream,
    memory: Arc<Memory>,
    /// Wakes the thread of the connection.
    wake: Arc<OwnedFd>,
    /// Requests in flight on the connection.
    requests: AtomicUsize,
    bytes: AtomicUsize,
    /// The thread of the connection waits until less is in flight.
    full: AtomicBool,
    out: Mutex<Outgoing>,
}

#[derive(Debug, Default)]
struct Outgoing {
    /// Bytes that the socket had no room for, from `sent` on.
    rest: Vec<u8>,
    sent: usize,
    /// The connection has ended: send nothing.
    gone: bool,
    buffers: BufferPool<SPARE_BYTES>,
}

impl Outgoing {
    /// Whether bytes wait for room.
    fn waits(&self) -> bool {
        !self.gone && self.sent < self.rest.len()
    }

    fn write(&mut self, stream: &UnixStream, first: &[u8], second: &[u8]) -> usize {
        match try_write(stream, first, second) {
            Ok(sent) => sent,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => 0,
            Err(_) => {
                self.gone = true;
                // The thread of the connection must not wait for a client that has gone.
                let _ = stream.shutdown(Shutdown::Both);
                0
            }
        }
    }
}

/// Writes both without waiting; returns how much.
fn try_write(stream: &UnixStream, first: &[u8], second: &[u8]) -> rustix::io::Result<usize> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let bytes = [IoSlice::new(first), IoSlice::new(second)];
    rustix::net::sendmsg(stream, &bytes, &mut SendAncillaryBuffer::default(), flags)
}

impl ReplyWriter {
    fn new(stream: UnixStream, memory: Arc<Memory>, wake: Arc<OwnedFd>) -> ReplyWriter {
        ReplyWriter {
            stream,
            memory,
            wake,
            requests: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            full: AtomicBool::new(false),
            out: Mutex::default(),
        }
    }

    fn out(&self) -> MutexGuard<'_, Outgoing> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends both; bytes that do not fit wait. Returns whether any wait.
    fn send(&self, first: &[u8], second: &[u8]) -> bool {
        let mut out = self.out();
        let sent = match out.gone || out.waits() {
            true => 0,
            false => out.write(&self.stream, first, second),
        };
        if out.gone {
            return false;
        }
        if sent < first.len() + second.len() {
            out.rest.extend(&first[sent.min(first.len())..]);
            out.rest.extend(&second[sent.saturating_sub(first.len())..]);
        }
        out.waits()
    }

    /// Sends waiting bytes, as many as fit.
    fn send_rest(&self) {
        let mut out = self.out();
        let rest = std::mem::take(&mut out.rest);
        let from = out.sent;
        out.sent += out.write(&self.stream, &rest[from..], &[]);
        out.rest = rest;
        if !out.waits() {
            out.rest.clear();
            out.sent = 0;
        }
    }

    /// Counts a request as in flight.
    fn begins(&self, bytes: usize) {
        self.requests.fetch_add(1, Ordering::SeqCst);
        self.bytes.fetch_add(bytes, Ordering::SeqCst);
    }

    /// A request has ended, and returns its buffer.
    fn ended(&self, bytes: usize, buffer: Vec<u8>) {
        self.out().buffers.keep(buffer);
        self.memory.give(bytes);
        self.bytes.fetch_sub(bytes, Ordering::SeqCst);
        self.requests.fetch_sub(1, Ordering::SeqCst);
        if self.full.swap(false, Ordering::SeqCst) {
            signal(Some(&self.wake));
        }
    }

    /// A buffer of any content.
    fn buffer(&self) -> Vec<u8> {
        self.out().buffers.take(0)
    }

    /// Whether another request may be in flight. If not, the thread of the connection is woken when one has ended.
    fn has_room(&self) -> bool {
        let has_room = || {
            let waits = self.out().rest.len();
            self.requests.load(Ordering::SeqCst) < MAX_REQUESTS
                && self.bytes.load(Ordering::SeqCst) + waits < MAX_BYTES
        };
        has_room() || {
            self.full.store(true, Ordering::SeqCst);
            has_room()
        }
    }
}

impl Direct for ReplyWriter {
    /// The connection's thread sends long replies, which would delay the mirror.
    fn try_send(&self, reply: Reply) -> Option<Reply> {
        if reply.data.len() > TOGETHER {
            return Some(reply);
        }
        let header = nbd::reply_header(reply.cookie, reply.errno);
        if self.send(&header, &reply.data) {
            signal(Some(&self.wake));
        }
        self.ended(reply.length as usize, reply.into_buffer());
        None
    }
}

/// The thread of a connection.
struct Connection {
    input: Input,
    export: Export,
    handle: Handle,
    reply: ReplyTo,
    replies: Receiver<Reply>,
    reader: Reader,
    writer: Arc<ReplyWriter>,
    /// A request that waits for memory. Its bytes were not received.
    waiting: Option<nbd::Request>,
    /// Replies that are sent together.
    ready: Vec<u8>,
}

impl Connection {
    fn run(&mut self) -> io::Result<()> {
        loop {
            while self.has_requests() && self.writer.has_room() {
                if self.is_long() && self.reader.is_busy() {
                    // This thread will wait for the client: see the reader.
                    break;
                }
                let next = match self.waiting.take() {
                    Some(request) => Some(request),
                    None => nbd::request(&mut self.input, &self.export)?,
                };
                let Some(request) = next.filter(|next| next.command != Command::Disconnect) else {
                    return Ok(());
                };
                let bytes = length(&request);
                let alone = self.writer.requests.load(Ordering::SeqCst) == 0;
                if !self.writer.memory.take(bytes, alone) {
                    self.waiting = Some(request);
                    break;
                }
                self.writer.begins(bytes);
                if let Err(error) = self.begin(&request) {
                    self.writer.ended(bytes, Vec::new());
                    return Err(error);
                }
            }
            if !self.has_requests() && self.writer.has_room() {
                self.reader.receive();
            }
            let limit = self.waiting.is_some().then_some(MEMORY_NS);
            self.turn(limit)?;
            if let Some(bytes) = self.reader.received() {
                if bytes.is_empty() {
                    // Within a request, the client has not closed its connection properly.
                    return match self.input.rest().is_empty() {
                        true => Ok(()),
                        false => Err(io::ErrorKind::UnexpectedEof.into()),
                    };
                }
                self.input.add(bytes);
            }
        }
    }

    /// Whether requests were received that have not started.
    fn has_requests(&self) -> bool {
        self.waiting.is_some() || self.input.next() != Received::Part
    }

    /// Whether the next request has bytes that are received from the socket.
    fn is_long(&self) -> bool {
        match &self.waiting {
            Some(request) => self.input.rest().len() < request.payload as usize,
            None => self.input.next() == Received::Long,
        }
    }

    /// Waits until something happens, and sends replies.
    fn turn(&mut self, limit: Option<u64>) -> io::Result<()> {
        if self.writer.out().waits() {
            self.reader.watch(SOCKET, true);
        }
        self.reader.turn(limit).map_err(io::Error::other)?;
        if self.reader.ready().is_some() {
            self.writer.send_rest();
        }
        if self.reader.woken() {
            while let Ok(reply) = self.replies.try_recv() {
                let header = nbd::reply_header(reply.cookie, reply.errno);
                self.writer.send(&header, &reply.data);
                self.writer
                    .ended(reply.length as usize, reply.into_buffer());
            }
        }
        while let Some(ended) = self.reader.ended() {
            self.read(&ended);
        }
        self.send_ready();
        Ok(())
    }

    fn send_ready(&mut self) {
        if !self.ready.is_empty() {
            self.writer.send(&self.ready, &[]);
            self.ready.clear();
        }
    }

    /// A read has ended, or continues in the thread of the mirror.
    fn read(&mut self, ended: &Ended) {
        match ended.outcome {
            Outcome::Read { .. } => {
                let header = nbd::reply_header(ended.cookie, 0);
                let bytes = self.reader.bytes(ended);
                match bytes.len() <= TOGETHER {
                    true => {
                        self.ready.extend(header);
                        self.ready.extend(bytes);
                    }
                    false => {
                        self.writer.send(&header, bytes);
                    }
                }
                if self.ready.len() >= TOGETHER {
                    self.send_ready();
                }
                self.writer.ended(ended.length as usize, Vec::new());
            }
            Outcome::HandedOver(failed) => {
                let buffer = self.writer.buffer();
                self.reader.pass_on(ended, failed, buffer, &self.reply);
            }
        }
    }

    /// Starts a request and counts it as in flight.
    fn begin(&mut self, request: &nbd::Request) -> io::Result<()> {
        let (cookie, offset, length) = (request.cookie, request.offset, request.length);
        let access = match request.command {
            Command::Read if self.reader.read(cookie, offset, length) => return Ok(()),
            Command::Read => Access::Read,
            // Without a payload, zeros are written.
            Command::Write { fua } | Command::WriteZeroes { fua, .. } => Access::Write { fua },
            Command::Flush | Command::Disconnect => Access::Flush,
            Command::Invalid(errno) => {
                // A client that sends more than any valid write would keep this thread busy.
                if request.payload > nbd::MAX_BYTES {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                nbd::discard(&mut self.input, request.payload.into())?;
                (self.writer).send(&nbd::reply_header(cookie, errno), &[]);
                self.writer.ended(0, Vec::new());
                return Ok(());
            }
        };
        let (offset, length) = match access {
            Access::Flush => (0, 0),
            _ => (offset, length),
        };
        let mut payload = self.writer.buffer();
        if access != Access::Read {
            payload.resize(request.payload as usize, 0);
            self.input.read_exact(&mut payload)?;
        }
        let holes = matches!(request.command, Command::WriteZeroes { holes: true, .. });
        self.handle.request(Request {
            access,
            offset,
            length,
            payload,
            holes,
            cookie,
            reply: self.reply.clone(),
            queue: self.reader.queue(),
            failed: None,
        });
        Ok(())
    }

    /// Waits until all requests have ended, and if the client is still there, until their replies were sent.
    fn finish(&mut self) -> io::Result<()> {
        loop {
            // This thread is woken when the next one has ended.
            self.writer.full.store(true, Ordering::SeqCst);
            if self.writer.requests.load(Ordering::SeqCst) == 0 && !self.writer.out().waits() {
                return Ok(());
            }
            self.turn(None)?;
        }
    }
}

/// Bytes that a request needs while it is in flight.
fn length(request: &nbd::Request) -> usize {
    match request.command {
        Command::Read | Command::Write { .. } | Command::WriteZeroes { .. } => {
            request.length as usize
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

    use super::*;

    #[test]
    fn replies_are_complete_if_the_client_reads_them_late() {
        const REPLIES: u64 = 60;
        const LENGTH: usize = 20_000;
        let (own, mut client) = UnixStream::pair().unwrap();
        let memory = Arc::<Memory>::default();
        let wake = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
        let writer = ReplyWriter::new(own, Arc::clone(&memory), wake);
        for cookie in 0..REPLIES {
            assert!(memory.take(LENGTH, false));
            writer.begins(LENGTH);
            let unsent = writer.try_send(Reply {
                cookie,
                errno: 0,
                data: vec![cookie as u8; LENGTH],
                spare: Vec::new(),
                length: LENGTH as u32,
            });
            assert!(unsent.is_none());
        }
        assert!(writer.out().waits(), "the socket has no room for all");
        // The thread of the connection was woken.
        assert_eq!(rustix::io::read(&*writer.wake, &mut [0; 8]), Ok(8));
        thread::scope(|scope| {
            scope.spawn(|| {
                while writer.out().waits() {
                    let writable = PollFd::new(&writer.stream, PollFlags::OUT);
                    poll(&mut [writable], None).unwrap();
                    writer.send_rest();
                }
            });
            for cookie in 0..REPLIES {
                let mut answer = vec![0; 16 + LENGTH];
                client.read_exact(&mut answer).unwrap();
                assert_eq!(answer[..16], nbd::reply_header(cookie, 0));
                assert!(answer[16..].iter().all(|byte| *byte == cookie as u8));
            }
        });
        let left = (writer.requests.into_inner(), writer.bytes.into_inner());
        assert_eq!((left, memory.0.load(Ordering::Relaxed)), ((0, 0), 0));
    }

    #[test]
    fn a_connection_with_enough_in_flight_is_told_when_a_request_has_ended() {
        let (own, _client) = UnixStream::pair().unwrap();
        let wake = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
        let writer = ReplyWriter::new(own, Arc::default(), wake);
        let told = || rustix::io::read(&*writer.wake, &mut [0; 8]).is_ok();
        for _ in 0..MAX_REQUESTS {
            assert!(writer.has_room());
            assert!(writer.memory.take(1, false));
            writer.begins(1);
        }
        writer.ended(1, Vec::new());
        assert!(!told() && writer.has_room());
        assert!(writer.memory.take(1, false));
        writer.begins(1);
        assert!(!writer.has_room());
        writer.ended(1, Vec::new());
        assert!(told() && writer.has_room());
    }

    #[test]
    fn a_request_that_is_alone_gets_memory_although_others_have_all() {
        let memory = Memory::default();
        assert!(memory.take(MAX_BYTES_OF_ALL, false));
        assert!(!memory.take(1, false) && memory.take(1, true));
        memory.give(MAX_BYTES_OF_ALL);
        assert!(memory.take(MAX_BYTES_OF_ALL - 1, false));
    }
}
