//! The NBD server: a socket, and a thread for each connection. The thread receives requests, reads from legs itself
//! ([`Reader`]), and sends replies. The mirror's thread sends short replies itself if the socket has room: waking
//! another thread would take longer.
//!
//! Requests and bytes in flight are limited per connection and in total. At the limit, a connection receives no more
//! requests until replies were sent. When a connection ends, its requests in flight end too, and their replies are
//! dropped.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use iodyno_mirror::core::Access;
use iodyno_vhost::signal;
use rustix::net::{SendAncillaryBuffer, SendFlags};

use crate::buffer_pool::BufferPool;
use crate::nbd::{self, Command, Export};
use crate::queue::{Direct, Handle, Reply, ReplyTo, Request};
use crate::reader::{Ended, Outcome, Reader};
use crate::vhost_user;
use crate::virtio_blk::Disk;

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
/// How long clients may take to read their last replies when the server ends.
const LAST_REPLIES: Duration = Duration::from_secs(5);
/// How long their threads may take to end after that. The kernel closes the legs of a ring only when its reads end.
const LAST_READS: Duration = Duration::from_secs(5);

/// A socket on which a mirror is served.
#[derive(Debug)]
pub enum Listener {
    /// A Unix socket, removed when it is dropped.
    Unix(UnixListener, PathBuf),
    /// TCP.
    Tcp(TcpListener),
}

impl Listener {
    /// A Unix socket that only this user may connect to. Replaces a socket without a listener.
    ///
    /// # Errors
    /// Those of bind(2): `EADDRINUSE` if the path is a file, or another process listens.
    pub fn unix(path: &Path) -> io::Result<Listener> {
        let left = path
            .symlink_metadata()
            .is_ok_and(|found| found.file_type().is_socket())
            && iodyno_sys::socket::connect(path)
                .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
        if left {
            std::fs::remove_file(path)?;
        }
        // The mode is right from the beginning. No other thread creates files now.
        let mask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
        let bound = iodyno_sys::socket::bind(path);
        rustix::process::umask(mask);
        Ok(Listener::Unix(bound?, path.to_owned()))
    }

    /// A TCP socket.
    ///
    /// # Errors
    /// As bind(2).
    pub fn tcp(address: SocketAddr) -> io::Result<Listener> {
        Ok(Listener::Tcp(TcpListener::bind(address)?))
    }

    /// The URI for clients.
    pub fn uri(&self, service: &Service) -> String {
        match self {
            Listener::Unix(_, path) => {
                // A command that asks for the state may run in another folder.
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                match service {
                    Service::Nbd(_) => format!("nbd+unix:///?socket={}", path.display()),
                    Service::VhostUser(_) => format!("vhost-user-blk://{}", path.display()),
                }
            }
            Listener::Tcp(listener) => match listener.local_addr() {
                Ok(address) => format!("nbd://{address}"),
                Err(_) => "nbd://".to_owned(),
            },
        }
    }

    fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Unix(listener, _) => Ok(Stream::Unix(listener.accept()?.0)),
            Listener::Tcp(listener) => {
                let stream = listener.accept()?.0;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            // Another server may have replaced it; then its own file is gone already.
            let _ = std::fs::remove_file(path);
        }
    }
}

#[derive(Debug)]
enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    fn try_clone(&self) -> io::Result<Stream> {
        Ok(match self {
            Stream::Unix(stream) => Stream::Unix(stream.try_clone()?),
            Stream::Tcp(stream) => Stream::Tcp(stream.try_clone()?),
        })
    }

    /// Writes both without waiting; returns how much.
    fn try_write(&self, first: &[u8], second: &[u8]) -> rustix::io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let bytes = [IoSlice::new(first), IoSlice::new(second)];
        rustix::net::sendmsg(self, &bytes, &mut SendAncillaryBuffer::default(), flags)
    }

    fn shutdown(&self, how: Shutdown) {
        // It may be closed already.
        let _ = match self {
            Stream::Unix(stream) => stream.shutdown(how),
            Stream::Tcp(stream) => stream.shutdown(how),
        };
    }

    fn read_within(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_read_timeout(limit),
            Stream::Tcp(stream) => stream.set_read_timeout(limit),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(into),
            Stream::Tcp(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The protocol of a socket.
#[derive(Debug, Clone, Copy)]
pub enum Service {
    /// NBD.
    Nbd(Export),
    /// vhost-user for block devices; only on a Unix socket.
    VhostUser(Disk),
}

impl Service {
    /// The most connections at a time. vhost-user connections have their own memory.
    fn most_connections(&self) -> usize {
        match self {
            Service::Nbd(_) => 64,
            Service::VhostUser(_) => 8,
        }
    }
}

/// The server, which runs until it is stopped.
#[derive(Debug)]
pub struct Front {
    shared: Arc<Shared>,
    listener: Arc<Listener>,
}

#[derive(Debug)]
struct Shared {
    connections: Mutex<Connections>,
    /// A connection has ended.
    ended: Condvar,
    memory: Arc<Memory>,
    handle: Handle,
    service: Service,
    /// The mirror has ended.
    stopping: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct Connections {
    open: Vec<(u64, Stream)>,
    next: u64,
    /// A client was refused, and that was reported.
    refused: bool,
}

impl Front {
    /// Serves a mirror on a socket, in its own threads.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(listener: Listener, service: Service, handle: Handle) -> io::Result<Front> {
        let shared = Arc::new(Shared {
            connections: Mutex::default(),
            ended: Condvar::new(),
            memory: Arc::default(),
            handle,
            service,
            stopping: Arc::default(),
        });
        let listener = Arc::new(listener);
        let front = Front {
            shared: Arc::clone(&shared),
            listener: Arc::clone(&listener),
        };
        thread::Builder::new()
            .name("accept".to_owned())
            .spawn(move || accept_all(&listener, &shared))?;
        Ok(front)
    }

    /// Ends all connections after their last replies. Call this after the mirror has ended. Dropping the front removes
    /// the socket.
    pub fn stop(&self) {
        self.stop_within(LAST_REPLIES);
    }

    fn stop_within(&self, last_replies: Duration) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.shut_down(Shutdown::Read, last_replies);
        self.shut_down(Shutdown::Both, LAST_READS);
    }

    /// Shuts down all connections, and waits for their ends.
    fn shut_down(&self, how: Shutdown, limit: Duration) {
        let connections = self.shared.connections();
        for (_, stream) in &connections.open {
            stream.shutdown(how);
        }
        let any = |connections: &mut Connections| !connections.open.is_empty();
        let waited = (self.shared.ended).wait_timeout_while(connections, limit, any);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = &*self.listener {
            // The thread that accepts keeps the listener.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Shared {
    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn accept_all(listener: &Listener, shared: &Arc<Shared>) {
    loop {
        let Ok(stream) = listener.accept() else {
            // Too many open files, or a client that disconnected: others may still connect.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        let mut connections = shared.connections();
        if shared.stopping.load(Ordering::Relaxed) {
            return;
        }
        let Ok(copy) = stream.try_clone() else {
            continue;
        };
        let most = shared.service.most_connections();
        if connections.open.len() >= most {
            if !std::mem::replace(&mut connections.refused, true) {
                shared.handle.refused(most);
            }
            continue;
        }
        let number = connections.next;
        connections.next += 1;
        connections.open.push((number, copy));
        drop(connections);
        let own = Arc::clone(shared);
        let spawned = thread::Builder::new()
            .name("client".to_owned())
            .spawn(move || {
                // A failing client ends only its own connection.
                let _ = match own.service {
                    Service::Nbd(export) => serve(stream, &export, &own),
                    Service::VhostUser(disk) => serve_disk(stream, disk, &own),
                };
                own.close(number);
            });
        if spawned.is_err() {
            shared.close(number);
        }
    }
}

impl Shared {
    fn close(&self, number: u64) {
        let mut connections = self.connections();
        if let Some(at) = connections.open.iter().position(|(own, _)| *own == number) {
            connections.open.swap_remove(at).1.shutdown(Shutdown::Both);
        }
        self.ended.notify_all();
    }
}

/// Bytes that all connections have in flight.
#[derive(Debug, Default)]
struct Memory(AtomicUsize);

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

fn serve_disk(stream: Stream, disk: Disk, shared: &Shared) -> io::Result<()> {
    match stream {
        Stream::Unix(stream) => {
            let stopping = Arc::clone(&shared.stopping);
            vhost_user::serve(stream, disk, shared.handle.clone(), stopping)
        }
        Stream::Tcp(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Serves one client by NBD until it leaves.
fn serve(mut stream: Stream, export: &Export, shared: &Shared) -> io::Result<()> {
    stream.read_within(Some(NEGOTIATION))?;
    if !nbd::negotiate(&mut stream, export)? {
        return Ok(());
    }
    stream.read_within(None)?;
    let mut reader = Reader::new(&shared.handle, 1).map_err(io::Error::other)?;
    reader.set_stream(&stream).map_err(io::Error::other)?;
    (reader.exchange(SOCKET, &stream)).map_err(io::Error::other)?;
    let (reply, replies) = ReplyTo::waking(Arc::clone(reader.wake()), MAX_REQUESTS);
    let writer = ReplyWriter::new(
        stream.try_clone()?,
        Arc::clone(&shared.memory),
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
        handle: shared.handle.clone(),
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
    stream: Stream,
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
    fn next(&self) -> Next {
        let Some(payload) = nbd::payload(self.rest()) else {
            return Next::Part;
        };
        let whole = nbd::HEADER + payload as usize;
        match self.rest().len() >= whole {
            true => Next::Whole,
            false if whole > WHOLE => Next::Long,
            false => Next::Part,
        }
    }
}

/// What was received of a request.
#[derive(PartialEq, Eq)]
enum Next {
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
    stream: Stream,
    memory: Arc<Memory>,
    /// Wakes the thread of the connection.
    wake: Arc<OwnedFd>,
    /// Requests in flight on the connection.
    requests: AtomicUsize,
    bytes: AtomicUsize,
    /// The thread of the connection waits until less is in flight.
    full: AtomicBool,
    out: Mutex<Out>,
}

#[derive(Debug, Default)]
struct Out {
    /// Bytes that the socket had no room for, from `sent` on.
    rest: Vec<u8>,
    sent: usize,
    /// The connection has ended: send nothing.
    gone: bool,
    buffers: BufferPool<SPARE_BYTES>,
}

impl Out {
    /// Whether bytes wait for room.
    fn waits(&self) -> bool {
        !self.gone && self.sent < self.rest.len()
    }

    fn write(&mut self, stream: &Stream, first: &[u8], second: &[u8]) -> usize {
        match stream.try_write(first, second) {
            Ok(sent) => sent,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => 0,
            Err(_) => {
                self.gone = true;
                // The thread of the connection must not wait for a client that has gone.
                stream.shutdown(Shutdown::Both);
                0
            }
        }
    }
}

impl ReplyWriter {
    fn new(stream: Stream, memory: Arc<Memory>, wake: Arc<OwnedFd>) -> ReplyWriter {
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

    fn out(&self) -> MutexGuard<'_, Out> {
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
        self.waiting.is_some() || self.input.next() != Next::Part
    }

    /// Whether the next request has bytes that are received from the socket.
    fn is_long(&self) -> bool {
        match &self.waiting {
            Some(request) => self.input.rest().len() < request.payload as usize,
            None => self.input.next() == Next::Long,
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
                let (offset, length, payload) = (ended.offset, ended.length, self.writer.buffer());
                let request = self.request(Access::Read, offset, length, payload, ended.cookie);
                self.handle.request(Request { failed, ..request });
            }
        }
    }

    fn request(
        &self,
        access: Access,
        offset: u64,
        length: u32,
        payload: Vec<u8>,
        cookie: u64,
    ) -> Request {
        Request {
            access,
            offset,
            length,
            payload,
            holes: false,
            cookie,
            reply: self.reply.clone(),
            queue: self.reader.queue(),
            failed: None,
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
                (self.writer).send(&nbd::reply_header(cookie, errno as i32), &[]);
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
        let request = self.request(access, offset, length, payload, cookie);
        self.handle.request(Request { holes, ..request });
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
    use iodyno_testing::skip;
    use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

    use super::*;

    #[test]
    fn a_stop_waits_for_the_threads_of_clients_that_do_not_read_their_replies() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let (handle, inbox) = crate::queue::channel(1).unwrap();
        // A mirror that has ended.
        drop(inbox);
        let export = Export {
            length: 1 << 20,
            unit: 512,
            rotational: false,
            trims: false,
        };
        let listener = Listener::unix(&path).unwrap();
        let front = Front::start(listener, Service::Nbd(export), handle.clone()).unwrap();
        let mut client = UnixStream::connect(&path).unwrap();
        client
            .write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0")
            .unwrap();
        client.read_exact(&mut [0; 28]).unwrap();
        let mut flush = [0; nbd::HEADER];
        flush[..8].copy_from_slice(&[0x25, 0x60, 0x95, 0x13, 0, 0, 0, 3]);
        // Their replies do not fit in the socket.
        if client.write_all(&flush.repeat(100_000)).is_err() {
            return skip("no io_uring here");
        }
        front.stop_within(Duration::ZERO);
        assert!(front.shared.connections().open.is_empty());
        assert_eq!(handle.queues().enter(), Some(1), "its reader has ended");
    }

    #[test]
    fn replies_are_complete_if_the_client_reads_them_late() {
        const REPLIES: u64 = 60;
        const LENGTH: usize = 20_000;
        let (own, mut client) = UnixStream::pair().unwrap();
        let memory = Arc::<Memory>::default();
        let wake = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
        let writer = ReplyWriter::new(Stream::Unix(own), Arc::clone(&memory), wake);
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
        let writer = ReplyWriter::new(Stream::Unix(own), Arc::default(), wake);
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
