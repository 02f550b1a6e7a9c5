//! The NBD server: a socket, and two threads for each connection, one that reads requests and one that writes replies. The reply to a
//! request that is alone in its connection is written by the thread of the mirror, if the socket has room for it: waking the other
//! thread would take longer.
//!
//! A connection may have a limited number of requests and bytes in flight, and so may all together; a reader waits until replies were
//! sent. When a
//! connection ends, its requests in flight end as well, and their replies are dropped.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use iodyno_mirror::core::Access;
use rustix::net::SendFlags;

use crate::nbd::{self, Command, Export};
use crate::queue::{Direct, Handle, Reply, ReplyTo, Request};
use crate::vhost_user;
use crate::virtio_blk::Disk;

/// Requests of a connection in flight.
const MOST_REQUESTS: usize = 256;
/// Their bytes; one request may exceed it.
const MOST_BYTES: usize = 64 << 20;
/// Bytes of the buffers that a connection keeps for its next requests.
const SPARE_BYTES: usize = 4 << 20;
/// The bytes of the requests of all connections in flight; each connection may have one request beyond it.
const MOST_BYTES_OF_ALL: usize = 512 << 20;
/// Replies are sent together up to about this length, bytes.
const TOGETHER: usize = 32 << 10;
/// A client that does not negotiate within this time is disconnected.
const NEGOTIATION: Duration = Duration::from_secs(30);
/// How long clients may take to read their last replies when the server ends.
const LAST_REPLIES: Duration = Duration::from_secs(5);

/// A socket on which a mirror is served.
#[derive(Debug)]
pub enum Listener {
    /// A Unix socket, removed when it is dropped.
    Unix(UnixListener, PathBuf),
    /// TCP.
    Tcp(TcpListener),
}

impl Listener {
    /// A Unix socket that only this user may connect to. A socket that nobody listens to is replaced.
    ///
    /// # Errors
    /// As bind(2): `EADDRINUSE` if there is a file, or somebody listens.
    pub fn unix(path: &Path) -> io::Result<Listener> {
        let left = path
            .symlink_metadata()
            .is_ok_and(|found| found.file_type().is_socket())
            && UnixStream::connect(path)
                .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
        if left {
            std::fs::remove_file(path)?;
        }
        // The mode is right from the beginning. No other thread creates files now.
        let mask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
        let bound = UnixListener::bind(path);
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

    /// The URI by which clients name it.
    pub fn uri(&self, service: &Service) -> String {
        match self {
            Listener::Unix(_, path) => match service {
                Service::Nbd(_) => format!("nbd+unix:///?socket={}", path.display()),
                Service::VhostUser(_) => {
                    let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                    format!("vhost-user-blk://{}", path.display())
                }
            },
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

    /// Writes without waiting; returns how much.
    fn try_write(&self, bytes: &[u8]) -> rustix::io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match self {
            Stream::Unix(stream) => rustix::net::send(stream, bytes, flags),
            Stream::Tcp(stream) => rustix::net::send(stream, bytes, flags),
        }
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

/// What is spoken on a socket.
#[derive(Debug, Clone, Copy)]
pub enum Service {
    /// NBD.
    Nbd(Export),
    /// vhost-user for block devices; only on a Unix socket.
    VhostUser(Disk),
}

impl Service {
    /// Connections at a time. Those of vhost-user have memory of their own.
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
}

impl Front {
    /// Serves a mirror on a socket, in threads of its own.
    ///
    /// # Errors
    /// If no thread can be started.
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

    /// Ends all connections after their last replies. To be called when the mirror has ended.
    pub fn stop(self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        let connections = self.shared.connections();
        for (_, stream) in &connections.open {
            stream.shutdown(Shutdown::Read);
        }
        let idle = |connections: &mut Connections| !connections.open.is_empty();
        let waited = self
            .shared
            .ended
            .wait_timeout_while(connections, LAST_REPLIES, idle);
        let (connections, _) = waited.unwrap_or_else(PoisonError::into_inner);
        for (_, stream) in &connections.open {
            stream.shutdown(Shutdown::Both);
        }
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
            // Too many open files, or a client that has gone: others may still come.
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
        if connections.open.len() >= shared.service.most_connections() {
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
                // A client that fails ends its own connection only.
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

/// What a connection has in flight.
#[derive(Debug, Default)]
struct Budget {
    used: Mutex<Used>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct Used {
    requests: usize,
    bytes: usize,
    /// Buffers of requests that have ended, for the next ones, and their bytes.
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
}

impl Used {
    fn ended(&mut self, bytes: usize, buffer: Vec<u8>) {
        self.requests -= 1;
        self.bytes -= bytes;
        let kept = self.spare_bytes + buffer.capacity();
        if kept <= SPARE_BYTES {
            self.spare_bytes = kept;
            self.spare.push(buffer);
        }
    }
}

impl Budget {
    /// Returns whether nothing else is in flight, and a buffer of any length.
    fn take(&self, bytes: usize) -> (bool, Vec<u8>) {
        let full = |used: &mut Used| {
            used.requests >= MOST_REQUESTS || (used.requests > 0 && used.bytes + bytes > MOST_BYTES)
        };
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let used = self.freed.wait_while(used, full);
        let mut used = used.unwrap_or_else(PoisonError::into_inner);
        used.requests += 1;
        used.bytes += bytes;
        let buffer = used.spare.pop().unwrap_or_default();
        used.spare_bytes -= buffer.capacity();
        (used.requests == 1, buffer)
    }

    fn give(&self, bytes: usize, buffer: Vec<u8>) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.ended(bytes, buffer);
        drop(used);
        self.freed.notify_one();
    }
}

/// Bytes that all connections have in flight.
#[derive(Debug, Default)]
struct Memory {
    used: Mutex<usize>,
    freed: Condvar,
}

impl Memory {
    /// Waits until there is enough, unless the request is `alone` in its connection: clients that do not read their replies must
    /// not stop the others.
    fn take(&self, bytes: usize, alone: bool) {
        let full = |used: &mut usize| !alone && *used + bytes > MOST_BYTES_OF_ALL;
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let used = self.freed.wait_while(used, full);
        *used.unwrap_or_else(PoisonError::into_inner) += bytes;
    }

    fn give(&self, bytes: usize) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) -= bytes;
        self.freed.notify_all();
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
    let budget = Arc::new(Budget::default());
    let (reply, replies) = ReplyTo::new(MOST_REQUESTS);
    let writer = {
        let (stream, budget) = (stream.try_clone()?, Arc::clone(&budget));
        let memory = Arc::clone(&shared.memory);
        let write = move || send_replies(stream, &replies, &budget, &memory);
        thread::Builder::new()
            .name("replies".to_owned())
            .spawn(write)?
    };
    let direct = reply.directly(Arc::new(Alone {
        stream: stream.try_clone()?,
        budget: Arc::clone(&budget),
        memory: Arc::clone(&shared.memory),
        sender: reply.clone(),
        bytes: Mutex::default(),
    }));
    let ended = receive(stream, export, shared, &budget, reply, direct);
    // The writer ends when the last request has ended.
    let _ = writer.join();
    ended
}

fn receive(
    stream: Stream,
    export: &Export,
    shared: &Shared,
    budget: &Budget,
    reply: ReplyTo,
    direct: ReplyTo,
) -> io::Result<()> {
    let mut stream = BufReader::with_capacity(64 << 10, stream);
    while let Some(request) = nbd::request(&mut stream, export)? {
        let holes = matches!(request.command, Command::WriteZeroes { holes: true, .. });
        let access = match request.command {
            Command::Read => Access::Read,
            // Without a payload, zeros are written.
            Command::Write { fua } | Command::WriteZeroes { fua, .. } => Access::Write { fua },
            Command::Flush => Access::Flush,
            Command::Disconnect => return Ok(()),
            Command::Invalid(errno) => {
                // A client that sends more than any valid write would keep this thread busy.
                if request.payload > nbd::MOST_BYTES {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                nbd::discard(&mut stream, request.payload.into())?;
                let (alone, buffer) = budget.take(0);
                shared.memory.take(0, alone);
                let refusal = Reply {
                    cookie: request.cookie,
                    errno: errno as i32,
                    data: Vec::new(),
                    spare: buffer,
                    length: 0,
                    sent: 0,
                };
                if !reply.send(refusal) {
                    return Ok(());
                }
                continue;
            }
        };
        let (offset, length) = match access {
            Access::Flush => (0, 0),
            _ => (request.offset, request.length),
        };
        let (alone, mut payload) = budget.take(length as usize);
        shared.memory.take(length as usize, alone);
        if access != Access::Read {
            payload.resize(request.payload as usize, 0);
            stream.read_exact(&mut payload)?;
        }
        shared.handle.request(Request {
            access,
            offset,
            length,
            payload,
            holes,
            cookie: request.cookie,
            reply: direct.clone(),
        });
    }
    Ok(())
}

/// Sends the reply to a request that is alone in its connection.
#[derive(Debug)]
struct Alone {
    stream: Stream,
    budget: Arc<Budget>,
    memory: Arc<Memory>,
    /// To the thread that sends the other replies.
    sender: ReplyTo,
    /// The reply that is being sent.
    bytes: Mutex<Vec<u8>>,
}

impl Direct for Alone {
    /// As long as only this request is in flight, no other thread writes: replies count as in flight until they were written. A request
    /// that comes meanwhile cannot be refused before this returns, because [`Budget::take`] waits for it.
    fn try_send(&self, reply: Reply) -> Option<Reply> {
        let mut used = (self.budget.used.lock()).unwrap_or_else(PoisonError::into_inner);
        if used.requests != 1 || reply.data.len() > TOGETHER {
            return Some(reply);
        }
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.clear();
        bytes.extend(nbd::reply_header(reply.cookie, reply.errno));
        bytes.extend(&reply.data);
        match self.stream.try_write(&bytes) {
            Ok(sent) if sent == bytes.len() => {
                let length = reply.length as usize;
                used.ended(length, reply.into_buffer());
                self.budget.freed.notify_one();
                self.memory.give(length);
                None
            }
            Ok(sent) => {
                // Before the lock is released, so that nothing comes in between.
                let _ = self.sender.send(Reply { sent, ..reply });
                None
            }
            // The other thread waits until the client reads, or finds that it has gone.
            Err(_) => Some(reply),
        }
    }
}

/// Sends replies until there can be no more, those that are ready at once by one call. If the client has gone, they are dropped.
fn send_replies(mut stream: Stream, replies: &Receiver<Reply>, budget: &Budget, memory: &Memory) {
    let mut gone = false;
    let mut ready = Vec::with_capacity(2 * TOGETHER);
    let mut ended: Vec<Reply> = Vec::new();
    while let Ok(first) = replies.recv() {
        let mut sent = add(&mut stream, &mut ready, &first, gone);
        ended.push(first);
        while ready.len() < TOGETHER
            && let Ok(next) = replies.try_recv()
        {
            sent = sent.and_then(|()| add(&mut stream, &mut ready, &next, gone));
            ended.push(next);
        }
        sent = sent.and_then(|()| send(&mut stream, &mut ready, gone));
        if sent.is_err() && !gone {
            gone = true;
            // The reader must not wait for a client that has gone.
            stream.shutdown(Shutdown::Both);
        }
        for reply in ended.drain(..) {
            let length = reply.length as usize;
            budget.give(length, reply.into_buffer());
            memory.give(length);
        }
    }
}

/// Adds a reply to those that are ready; the bytes of a long one are sent without a copy.
fn add(stream: &mut Stream, ready: &mut Vec<u8>, reply: &Reply, gone: bool) -> io::Result<()> {
    let at = ready.len();
    ready.extend(nbd::reply_header(reply.cookie, reply.errno));
    if reply.data.len() <= TOGETHER {
        ready.extend(&reply.data);
        ready.drain(at..at + reply.sent);
        return Ok(());
    }
    send(stream, ready, gone)?;
    match gone {
        true => Ok(()),
        false => stream.write_all(&reply.data),
    }
}

fn send(stream: &mut Stream, ready: &mut Vec<u8>, gone: bool) -> io::Result<()> {
    let sent = match gone {
        true => Ok(()),
        false => stream.write_all(ready),
    };
    ready.clear();
    sent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_complete_if_the_client_reads_them_late() {
        const REPLIES: u64 = 60;
        const LENGTH: usize = 20_000;
        let (own, mut client) = UnixStream::pair().unwrap();
        let (budget, memory) = (Arc::<Budget>::default(), Arc::<Memory>::default());
        let (reply, replies) = ReplyTo::new(MOST_REQUESTS);
        let direct = reply.directly(Arc::new(Alone {
            stream: Stream::Unix(own.try_clone().unwrap()),
            budget: Arc::clone(&budget),
            memory: Arc::clone(&memory),
            sender: reply.clone(),
            bytes: Mutex::default(),
        }));
        drop(reply);
        for cookie in 0..REPLIES {
            let (alone, _) = budget.take(LENGTH);
            memory.take(LENGTH, alone);
            assert!(direct.send(Reply {
                cookie,
                errno: 0,
                data: vec![cookie as u8; LENGTH],
                spare: Vec::new(),
                length: LENGTH as u32,
                sent: 0,
            }));
        }
        drop(direct);
        let left = budget.used.lock().unwrap().requests;
        assert!((1..REPLIES as usize).contains(&left), "{left} wait");
        let writer = {
            let (budget, memory) = (Arc::clone(&budget), Arc::clone(&memory));
            thread::spawn(move || send_replies(Stream::Unix(own), &replies, &budget, &memory))
        };
        for cookie in 0..REPLIES {
            let mut answer = vec![0; 16 + LENGTH];
            client.read_exact(&mut answer).unwrap();
            assert_eq!(answer[..16], nbd::reply_header(cookie, 0));
            assert!(answer[16..].iter().all(|byte| *byte == cookie as u8));
        }
        writer.join().unwrap();
        let used = budget.used.lock().unwrap();
        assert_eq!((used.requests, used.bytes), (0, 0));
        assert_eq!(*memory.used.lock().unwrap(), 0);
    }
}
