//! The threads that receive the requests of a mounted file system, and the paths of replies.
//!
//! One thread reads `/dev/fuse`: all requests, or with io_uring only those to forget nodes. The kernel's io_uring
//! queues, one per CPU, are distributed over as many threads as CPUs are online. Each thread has a [`Worker`], which
//! gets all available requests as a batch. While a request blocks the thread of `/dev/fuse`, another one can continue
//! in its place ([`SpawnReader`]).
//!
//! # Invariants
//!
//! - Each request that expects a reply gets one: a dropped [`Message`] answers EIO.
//! - Any thread may write the reply to a request of `/dev/fuse`. Ring entries return to the ring's thread, which is
//!   woken only if it sleeps.
//! - io_uring is negotiated only after all rings were created. If the kernel refuses an entry, the session continues on
//!   `/dev/fuse`.
//! - Request memory lent to a transfer is freed only after the transfer has ended. The thread of `/dev/fuse` waits for
//!   all of them.
//! - A signal to the requesting process does not interrupt its request: interrupt requests are dropped. The process
//!   ends after its reply.

use std::cell::RefCell;
use std::fmt;
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use iodyno_model::number_list;
use iodyno_sys::TransferMemory;
use iodyno_sys::fuse::{FuseEntry, FuseRing};
use iodyno_vhost::signal;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;

use super::init::{Agreed, agree};
use super::mount::Mounted;
use super::protocol::opcode::{BATCH_FORGET, FORGET, INIT, INTERRUPT};
use super::protocol::{HEADER, MAX_DATA, REPLY_HEADER, WRITE_HEADER, reply_header, u32_at, u64_at};
use super::{Transport, Used, Wanted};

const PAGE: usize = 4096;
/// Room of a request, of its reply, and for their alignment. A long request has a short reply.
const BUFFER: usize = MAX_DATA as usize + 4 * PAGE;
/// Ring entries per online CPU, and in total. Offline CPUs need one each.
const ENTRIES: usize = 32;
const ALL_ENTRIES: usize = 256;
/// How long the kernel may take to send `INIT`.
const ASKS: Duration = Duration::from_secs(10);
/// How long requests in flight may take when the session ends.
const LAST_REQUESTS: Duration = Duration::from_secs(10);
/// Between two looks whether all threads have ended.
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// Starts another thread that reads `/dev/fuse`, with this worker. Fails if no thread can be started, or if the session
/// ends.
pub type SpawnReader<W> = Arc<dyn Fn(W) -> io::Result<()> + Send + Sync>;

/// Works requests. Each thread of a session has one.
pub trait Worker: Sized + Send + 'static {
    /// The thread calls this first. `spawn`: starts a thread of `/dev/fuse`.
    ///
    /// # Errors
    /// An error ends the session.
    fn start(&mut self, spawn: Option<SpawnReader<Self>>) -> io::Result<()> {
        let _ = spawn;
        Ok(())
    }

    /// Whether another thread continues in place of this one, which then waits for pending work and ends.
    fn is_replaced(&self) -> bool {
        false
    }

    /// Processes a batch and leaves it empty. `flush` sends this thread's replies before the end of the batch.
    ///
    /// # Errors
    /// An error ends the session.
    fn work(&mut self, batch: &mut Vec<Message>, flush: &dyn Fn()) -> io::Result<()>;

    /// A descriptor that is readable when pending work, such as a transfer, has ended; then [`Self::complete_pending`] is
    /// called. `None`: nothing is pending. Only the thread of `/dev/fuse` uses it. At the end of the session, it waits until
    /// nothing is pending. Only its messages can be lent.
    fn pending(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Completes pending work that has ended.
    ///
    /// # Errors
    /// An error ends the session.
    fn complete_pending(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A request with the room for its reply. Dropped, it is answered by EIO.
pub struct Message {
    shared: Arc<SessionState>,
    place: Option<RequestMemory>,
    opcode: u32,
    unique: u64,
    taken: Instant,
}

enum RequestMemory {
    Device {
        buffer: Vec<u8>,
        request: Range<usize>,
        reply: usize,
    },
    /// The buffer of a [`RequestMemory::Device`] is lent.
    Lent { request: Range<usize>, reply: usize },
    /// The request of a [`RequestMemory::Device`] is no longer needed.
    Read,
    Ring {
        entry: FuseEntry,
        back: Arc<ReturnQueue>,
    },
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (opcode, unique) = (self.opcode, self.unique);
        write!(f, "Message({opcode}, {unique})")
    }
}

impl Message {
    /// The whole request; empty after [`Self::give_back`].
    pub fn request(&mut self) -> &mut [u8] {
        match &mut self.place {
            Some(RequestMemory::Device {
                buffer, request, ..
            }) => &mut buffer[request.clone()],
            Some(RequestMemory::Ring { entry, .. }) => entry.request(),
            Some(RequestMemory::Lent { .. } | RequestMemory::Read) | None => &mut [],
        }
    }

    /// The buffer for the reply, header first. The data after the header are aligned. It does not overlap the request.
    pub fn reply(&mut self) -> &mut [u8] {
        match &mut self.place {
            Some(RequestMemory::Device { buffer, reply, .. }) => &mut buffer[*reply..],
            Some(RequestMemory::Ring { entry, .. }) => entry.reply(),
            Some(RequestMemory::Lent { .. } | RequestMemory::Read) | None => &mut [],
        }
    }

    /// Lends `length` bytes of the request (`of_request`) or of the reply buffer, starting at `from`. Until
    /// [`Self::end_loan`], both are unavailable. `None`: the memory belongs to a ring.
    pub fn lend(&mut self, of_request: bool, from: usize, length: usize) -> Option<TransferMemory> {
        match self.place.take() {
            Some(RequestMemory::Device {
                buffer,
                request,
                reply,
            }) => {
                let start = from + if of_request { request.start } else { reply };
                self.place = Some(RequestMemory::Lent { request, reply });
                Some(TransferMemory::Own(buffer, start..start + length))
            }
            other => {
                self.place = other;
                None
            }
        }
    }

    /// Takes lent memory back.
    pub fn end_loan(&mut self, memory: TransferMemory) {
        self.place = match (self.place.take(), memory) {
            (Some(RequestMemory::Lent { request, reply }), TransferMemory::Own(buffer, _)) => {
                Some(RequestMemory::Device {
                    buffer,
                    request,
                    reply,
                })
            }
            (place, _) => place,
        };
    }

    /// When it was taken.
    #[must_use]
    pub fn taken(&self) -> Instant {
        self.taken
    }

    /// Answers with the first bytes of the room for the reply. 0: it has no reply.
    pub fn answer(mut self, length: usize) {
        match self.place.take() {
            Some(RequestMemory::Device {
                mut buffer,
                request,
                reply,
            }) => {
                if length > 0 {
                    let (before, room) = buffer.split_at_mut(reply);
                    let agreed = match self.opcode {
                        INIT => agree(&before[request], room, self.shared.wanted()),
                        _ => None,
                    };
                    self.shared.write(&[IoSlice::new(&room[..length])]);
                    if let Some(agreed) = agreed {
                        self.shared.change(|state| state.agreed = Some(agreed));
                    } else if self.opcode == INIT && u32_at(room, 4) != Some(0) {
                        self.shared.disagreed();
                    }
                }
                self.shared.keep(buffer);
            }
            Some(RequestMemory::Ring { entry, back }) => back.give(entry, length),
            // Dropped, it fails.
            lent @ Some(RequestMemory::Lent { .. }) => self.place = lent,
            Some(RequestMemory::Read) | None => {}
        }
    }

    /// Returns the request's buffer to the session, if it is reusable. Answer with [`Self::answer_with`] then.
    pub fn give_back(&mut self) {
        if let Some(RequestMemory::Device { .. }) = self.place
            && let Some(RequestMemory::Device { buffer, .. }) =
                self.place.replace(RequestMemory::Read)
        {
            self.shared.keep(buffer);
        }
    }

    /// Answers with an error, or 0 and data.
    pub fn answer_with(mut self, errno: i32, data: &[u8]) {
        let header = reply_header(self.unique, errno, data.len());
        if let Some(RequestMemory::Read) = self.place {
            self.place = None;
            let parts = [IoSlice::new(&header), IoSlice::new(data)];
            return self.shared.write(&parts);
        }
        let length = REPLY_HEADER + data.len();
        let room = self.reply();
        room[..REPLY_HEADER].copy_from_slice(&header);
        room[REPLY_HEADER..length].copy_from_slice(data);
        self.answer(length);
    }

    fn is_answered(&self) -> bool {
        !matches!(self.opcode, FORGET | BATCH_FORGET | INTERRUPT)
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        match self.place.take() {
            Some(RequestMemory::Ring { entry, back }) => back.give(entry, 0),
            Some(place) => {
                if self.is_answered() {
                    let header = reply_header(self.unique, Errno::IO.raw_os_error(), 0);
                    self.shared.write(&[IoSlice::new(&header)]);
                }
                if self.opcode == INIT {
                    self.shared.disagreed();
                }
                if let RequestMemory::Device { buffer, .. } = place {
                    self.shared.keep(buffer);
                }
            }
            None => {}
        }
        self.shared.worked.fetch_add(1, Ordering::Relaxed);
        if self.shared.in_flight.fetch_sub(1, Ordering::AcqRel) == 1
            && self.shared.stopping.load(Ordering::Acquire)
        {
            // Under the lock, so that it is not between a check and a wait.
            self.shared.change(|_| ());
        }
    }
}

/// The first offset from `from` on that aligns the data after a header of this length.
fn aligned(buffer: &[u8], from: usize, header: usize) -> usize {
    let address = buffer.as_ptr() as usize;
    (address + from + header).next_multiple_of(PAGE) - address - header
}

/// The state that all threads of a session share.
struct SessionState {
    device: Arc<File>,
    /// There are rings.
    io_uring: AtomicBool,
    passthrough: bool,
    state: Mutex<Negotiation>,
    changed: Condvar,
    in_flight: AtomicUsize,
    /// Requests that have ended.
    worked: AtomicU64,
    /// Threads end when idle.
    draining: AtomicBool,
    /// Threads take no more requests.
    stopping: AtomicBool,
    buffers: Mutex<Vec<Vec<u8>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Wakes the thread of `/dev/fuse`.
    wake: OwnedFd,
    /// Buffers that are kept, and requests of a batch.
    batch: usize,
    /// Can be read when the session has ended.
    ended: OwnedFd,
}

#[derive(Debug, Default)]
struct Negotiation {
    agreed: Option<Agreed>,
    /// Rings whose entries were registered with the kernel.
    registered: usize,
    /// Why the kernel refused the entries of a ring.
    refused: Option<io::Error>,
    ended: bool,
    failed: Option<io::Error>,
}

impl SessionState {
    fn state(&self) -> MutexGuard<'_, Negotiation> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wanted(&self) -> Agreed {
        Agreed {
            io_uring: self.io_uring.load(Ordering::Acquire),
            passthrough: self.passthrough,
        }
    }

    fn change(&self, change: impl FnOnce(&mut Negotiation)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    fn wait_while(
        &self,
        limit: Duration,
        condition: impl Fn(&Negotiation) -> bool,
    ) -> MutexGuard<'_, Negotiation> {
        let waited = (self.changed)
            .wait_timeout_while(self.state(), limit, |state| condition(state))
            .unwrap_or_else(PoisonError::into_inner);
        waited.0
    }

    /// Writes a reply. Fails if the request was interrupted or the file system unmounted, and the reply is unneeded.
    fn write(&self, parts: &[IoSlice<'_>]) {
        let _ = (&*self.device).write_vectored(parts);
    }

    fn buffers(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, buffer: Vec<u8>) {
        let mut kept = self.buffers();
        if kept.len() < self.batch {
            kept.push(buffer);
        }
    }

    fn ended(&self, result: io::Result<()>) {
        self.change(|state| {
            state.ended = true;
            if let (Err(error), None) = (result, &state.failed) {
                state.failed = Some(error);
            }
        });
        signal(Some(&self.ended));
    }

    fn disagreed(&self) {
        let text = "the kernel and the server do not agree on a protocol";
        self.ended(Err(io::Error::other(text)));
    }

    fn message(self: &Arc<SessionState>, place: RequestMemory, taken: Instant) -> Message {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        let mut message = Message {
            shared: Arc::clone(self),
            place: Some(place),
            opcode: 0,
            unique: 0,
            taken,
        };
        let request = message.request();
        let (opcode, unique) = (u32_at(request, 4), u64_at(request, 8));
        (message.opcode, message.unique) = (opcode.unwrap_or(0), unique.unwrap_or(0));
        message
    }

    /// Takes the available requests. Returns whether the file system is still mounted.
    fn take(self: &Arc<SessionState>, batch: &mut Vec<Message>) -> io::Result<bool> {
        let now = Instant::now();
        while batch.len() < self.batch {
            let kept = self.buffers().pop();
            // Pages are used only when something is written to them.
            let mut buffer = kept.unwrap_or_else(|| vec![0; BUFFER]);
            let start = aligned(&buffer, 0, WRITE_HEADER);
            match (&*self.device).read(&mut buffer[start..]) {
                Ok(length) => {
                    let request = start..start + length;
                    let reply = aligned(&buffer, request.end, REPLY_HEADER);
                    if reply + REPLY_HEADER > buffer.len() || length < HEADER {
                        // The kernel does not send this.
                        return Err(io::ErrorKind::InvalidData.into());
                    }
                    let place = RequestMemory::Device {
                        buffer,
                        request,
                        reply,
                    };
                    let message = self.message(place, now);
                    if message.opcode != INTERRUPT {
                        batch.push(message);
                    }
                }
                Err(error) => {
                    self.keep(buffer);
                    match Errno::from_io_error(&error) {
                        Some(Errno::AGAIN) => return Ok(true),
                        // The request was interrupted.
                        Some(Errno::INTR | Errno::NOENT) => {}
                        // It was unmounted, or the connection was aborted.
                        Some(Errno::NODEV | Errno::CONNABORTED) => return Ok(!batch.is_empty()),
                        _ => return Err(error),
                    }
                }
            }
        }
        Ok(true)
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a thread of `/dev/fuse`.
    fn start_device<W: Worker>(self: &Arc<SessionState>, mut worker: W) -> io::Result<()> {
        let mut threads = self.threads();
        // The session joins only registered threads.
        if self.stopping.load(Ordering::Acquire) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let shared = Arc::clone(self);
        let named = thread::Builder::new().name("fuse".to_owned());
        threads.push(named.spawn(move || shared.run_device(&mut worker))?);
        Ok(())
    }

    fn run_device<W: Worker>(self: &Arc<SessionState>, worker: &mut W) {
        let shared = Arc::clone(self);
        let spawn: SpawnReader<W> = Arc::new(move |worker| shared.start_device(worker));
        let served = (worker.start(Some(spawn))).and_then(|()| self.serve_device(worker));
        if served.is_err() || !worker.is_replaced() {
            self.ended(served);
        }
        while worker.pending().is_some() {
            if let Err(error) = wait(worker, &[]) {
                return self.ended(Err(error));
            }
        }
    }

    /// Serves requests from `/dev/fuse`.
    fn serve_device(self: &Arc<SessionState>, worker: &mut impl Worker) -> io::Result<()> {
        let wake = &self.wake;
        let mut batch = Vec::with_capacity(self.batch);
        while !self.stopping.load(Ordering::Acquire) && !worker.is_replaced() {
            // The write(2) of a reply makes requests readable that depended on it. So when none is in flight, all are
            // readable.
            let last = self.draining.load(Ordering::Acquire)
                && self.in_flight.load(Ordering::Acquire) == 0;
            if !self.take(&mut batch)? {
                return Ok(());
            }
            if !batch.is_empty() {
                worker.work(&mut batch, &|| ())?;
                continue;
            }
            if last {
                return Ok(());
            }
            wait(worker, &[wake.as_fd(), self.device.as_fd()])?;
            if worker.is_replaced() {
                // Wake-ups are for the other thread.
                break;
            }
            // Does not block.
            let _ = rustix::io::read(wake, &mut [0; 8]);
        }
        Ok(())
    }
}

/// Waits until a descriptor is readable or the worker has pending work that ended.
fn wait(worker: &mut impl Worker, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let pending = worker.pending();
    let all = pending.iter().chain(descriptors);
    let mut watched: Vec<_> = all
        .map(|descriptor| PollFd::new(descriptor, PollFlags::IN))
        .collect();
    match poll(&mut watched, None) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let continues = pending.is_some() && !watched[0].revents().is_empty();
    match continues {
        true => worker.complete_pending(),
        false => Ok(()),
    }
}

/// Returns replies to the thread of a ring.
struct ReturnQueue {
    given: Mutex<Returned>,
    wake: OwnedFd,
}

#[derive(Default)]
struct Returned {
    replies: Vec<(FuseEntry, usize)>,
    /// The thread sleeps, or is about to.
    asleep: bool,
}

impl ReturnQueue {
    fn given(&self) -> MutexGuard<'_, Returned> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give(&self, entry: FuseEntry, length: usize) {
        let mut given = self.given();
        given.replies.push((entry, length));
        if std::mem::take(&mut given.asleep) {
            drop(given);
            signal(Some(&self.wake));
        }
    }

    /// Takes the replies into an empty list. `asleep`: the thread sleeps next unless there are replies.
    fn take(&self, replies: &mut Vec<(FuseEntry, usize)>, asleep: bool) {
        let mut given = self.given();
        std::mem::swap(&mut given.replies, replies);
        given.asleep = asleep;
    }
}

/// A ring and its thread's way to it.
struct RingThread {
    shared: Arc<SessionState>,
    back: Arc<ReturnQueue>,
    queues: Vec<(u16, u32)>,
}

impl RingThread {
    /// Serves the queues, when the kernel has agreed on it.
    fn run(&self, worker: &mut impl Worker, made: Sender<io::Result<()>>) {
        let ring = worker.start(None).and_then(|()| self.make());
        let _ = made.send(ring.as_ref().map(|_| ()).map_err(copy));
        // Ends the wait for all rings.
        drop(made);
        let Ok(mut ring) = ring else {
            return;
        };
        let agreed = loop {
            let state =
                (self.shared).wait_while(ASKS, |state| state.agreed.is_none() && !state.ended);
            let stopped = state.ended || self.shared.stopping.load(Ordering::Acquire);
            match state.agreed {
                None if !stopped => {}
                agreed => break agreed.unwrap_or_default(),
            }
        };
        if !agreed.io_uring {
            return;
        }
        let registered = ring.register();
        let failed = registered.is_err();
        self.shared.change(|state| match registered {
            Ok(()) => state.registered += 1,
            Err(error) => state.refused = Some(error),
        });
        if !failed && let Err(error) = self.serve(ring, worker) {
            self.shared.ended(Err(error));
        }
    }

    fn make(&self) -> io::Result<FuseRing> {
        let device = self.shared.device.as_fd().try_clone_to_owned()?;
        let wake = self.back.wake.try_clone()?;
        FuseRing::new(device, wake, &self.queues, MAX_DATA as usize)
    }

    fn serve(&self, ring: FuseRing, worker: &mut impl Worker) -> io::Result<()> {
        let entries: usize = self
            .queues
            .iter()
            .map(|(_, entries)| *entries as usize)
            .sum();
        let ring = RefCell::new(ring);
        let (mut taken, mut batch) = (Vec::with_capacity(entries), Vec::with_capacity(entries));
        let replies = RefCell::new(Vec::with_capacity(entries));
        // Entries that are with workers.
        let out = AtomicUsize::new(0);
        let commit = |asleep: bool| {
            let (mut replies, mut ring) = (replies.borrow_mut(), ring.borrow_mut());
            self.back.take(&mut replies, asleep);
            out.fetch_sub(replies.len(), Ordering::Relaxed);
            for (entry, length) in replies.drain(..) {
                ring.commit(entry, length);
            }
        };
        loop {
            commit(true);
            let stopping = self.shared.stopping.load(Ordering::Acquire);
            let none_out = out.load(Ordering::Relaxed) == 0;
            if stopping && none_out {
                return ring.borrow_mut().submit();
            }
            let last = none_out && self.shared.draining.load(Ordering::Acquire);
            if !ring.borrow_mut().turn(!last, &mut taken)? {
                return Ok(());
            }
            if last && taken.is_empty() {
                return Ok(());
            }
            out.fetch_add(taken.len(), Ordering::Relaxed);
            let now = Instant::now();
            batch.extend(taken.drain(..).map(|entry| {
                let back = Arc::clone(&self.back);
                self.shared
                    .message(RequestMemory::Ring { entry, back }, now)
            }));
            match stopping {
                // Only requests in flight are still served.
                true => batch.clear(),
                false if batch.is_empty() => {}
                false => {
                    self.back.given().asleep = false;
                    worker.work(&mut batch, &|| {
                        commit(false);
                        // The next turn fails as well.
                        let _ = ring.borrow_mut().submit();
                    })?;
                }
            }
        }
    }
}

/// A file system that is served.
pub struct Session {
    mounted: Mounted,
    shared: Arc<SessionState>,
    backs: Vec<Arc<ReturnQueue>>,
    used: Used,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({:?}, {})", self.mounted, self.used)
    }
}

impl Session {
    /// Serves a mounted file system with threads, each with a worker. Waits until the protocol is negotiated.
    ///
    /// # Errors
    /// A thread cannot be started, negotiation fails, or required io_uring is unavailable.
    pub fn start<W: Worker>(
        mounted: Mounted,
        wanted: Wanted,
        mut worker: impl FnMut() -> io::Result<W>,
    ) -> io::Result<Session> {
        let quiet = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let shared = Arc::new(SessionState {
            device: Arc::clone(&mounted.device),
            io_uring: AtomicBool::new(false),
            passthrough: wanted.passthrough,
            state: Mutex::default(),
            changed: Condvar::new(),
            in_flight: AtomicUsize::new(0),
            worked: AtomicU64::new(0),
            draining: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            buffers: Mutex::default(),
            threads: Mutex::default(),
            wake: eventfd(0, quiet)?,
            batch: wanted.batch,
            ended: eventfd(0, quiet)?,
        });
        let mut session = Session {
            mounted,
            backs: Vec::new(),
            used: Used::Device(None),
            shared,
        };
        match session.begin(wanted.transport, &mut worker) {
            Ok(used) => {
                session.used = used;
                Ok(session)
            }
            Err(error) => {
                // The first error counts.
                let _ = session.end();
                Err(error)
            }
        }
    }

    fn begin<W: Worker>(
        &mut self,
        transport: Transport,
        worker: &mut impl FnMut() -> io::Result<W>,
    ) -> io::Result<Used> {
        let rings = match transport {
            Transport::Device => Ok(0),
            _ => queues()
                .map_err(io::Error::other)
                .and_then(|queues| self.start_rings(queues, worker)),
        };
        let (rings, mut missing) = match rings {
            Ok(rings) => (rings, None),
            Err(error) if transport == Transport::IoUring => return Err(error),
            Err(error) => (0, Some(error)),
        };
        self.shared.io_uring.store(rings > 0, Ordering::Release);
        self.shared.start_device(worker()?)?;
        let mut state = self.shared.wait_while(ASKS, |state| {
            let ready = match state.agreed {
                None => false,
                Some(agreed) => {
                    !agreed.io_uring || state.refused.is_some() || state.registered == rings
                }
            };
            !ready && !state.ended
        });
        match state.agreed {
            None => {
                let failed = state.failed.take();
                let text = "the kernel does not ask for the protocol";
                return Err(failed.unwrap_or_else(|| io::Error::other(text)));
            }
            Some(agreed) if rings > 0 && !agreed.io_uring => {
                missing = Some(io::Error::other("the kernel does not offer it"));
            }
            Some(_) => missing = state.refused.take().or(missing),
        }
        match (missing, rings) {
            (Some(error), _) if transport == Transport::IoUring => Err(error),
            (Some(error), _) => Ok(Used::Device(Some(error.to_string()))),
            (None, 0) => Ok(Used::Device(None)),
            (None, rings) => Ok(Used::IoUring(rings)),
        }
    }

    /// Starts a thread for each list of queues, and waits until all rings are made. Returns their number.
    fn start_rings<W: Worker>(
        &mut self,
        queues: Vec<Vec<(u16, u32)>>,
        worker: &mut impl FnMut() -> io::Result<W>,
    ) -> io::Result<usize> {
        let (made, results) = channel();
        let count = queues.len();
        for (number, queues) in queues.into_iter().enumerate() {
            let back = Arc::new(ReturnQueue {
                given: Mutex::default(),
                wake: eventfd(0, EventfdFlags::CLOEXEC)?,
            });
            self.backs.push(Arc::clone(&back));
            let thread = RingThread {
                shared: Arc::clone(&self.shared),
                back,
                queues,
            };
            let (made, mut worker) = (made.clone(), worker()?);
            let named = thread::Builder::new().name(format!("fuse-{number}"));
            let thread = named.spawn(move || thread.run(&mut worker, made))?;
            self.shared.threads().push(thread);
        }
        drop(made);
        results.iter().collect::<io::Result<Vec<()>>>()?;
        Ok(count)
    }

    /// The transport in use.
    #[must_use]
    pub fn used(&self) -> &Used {
        &self.used
    }

    /// Whether the kernel reads and writes the files that the server names.
    #[must_use]
    pub fn passes_through(&self) -> bool {
        let agreed = self.shared.state().agreed;
        agreed.is_some_and(|agreed| agreed.passthrough)
    }

    /// A descriptor that is readable when the session has ended: it was unmounted, or a thread failed.
    #[must_use]
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.shared.ended.as_fd()
    }

    /// Unmounts the file system while requests are still answered, and ends the session after those in flight. Programs
    /// that use its files get errors from then on.
    ///
    /// # Errors
    /// The errors by which a thread ended the session; requests do not end.
    pub fn end(mut self) -> io::Result<()> {
        let limit = Instant::now() + LAST_REQUESTS;
        let (ended, agreed) = {
            let state = self.shared.state();
            (state.ended, state.agreed.is_some())
        };
        // Opening the folder before the protocol is negotiated would wait for it.
        if agreed && !ended {
            let shared = &self.shared;
            let worked = || shared.worked.load(Ordering::Relaxed);
            self.mounted.unmount(LAST_REQUESTS, worked);
            self.drain(limit);
        }
        self.stop_threads();
        let busy = |_: &Negotiation| self.shared.in_flight.load(Ordering::Acquire) > 0;
        let left = limit.saturating_duration_since(Instant::now());
        let mut state = self.shared.wait_while(left, busy);
        if busy(&state) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let failed = state.failed.take();
        drop(state);
        // No more are started.
        let threads = std::mem::take(&mut *self.shared.threads());
        for thread in threads {
            // A panic of a worker has answered its requests.
            let _ = thread.join();
        }
        failed.map_or(Ok(()), Err)
    }

    /// Serves until idle: syncfs(2) starts the writes of a FUSE file system and need not wait for them. Programs that
    /// keep using its files are served until the limit.
    fn drain(&self, limit: Instant) {
        self.shared.draining.store(true, Ordering::Release);
        let busy = || !self.shared.threads().iter().all(JoinHandle::is_finished);
        while busy() && Instant::now() < limit {
            self.wake_threads();
            thread::sleep(BETWEEN_LOOKS);
        }
    }

    fn stop_threads(&self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.change(|_| ());
        self.wake_threads();
    }

    fn wake_threads(&self) {
        signal(Some(&self.shared.wake));
        self.backs.iter().for_each(|back| signal(Some(&back.wake)));
    }
}

fn copy(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

/// The queues of each thread, with the number of entries of each queue, or why FUSE over io_uring is unavailable.
fn queues() -> Result<Vec<Vec<(u16, u32)>>, String> {
    const ENABLED: &str = "/sys/module/fuse/parameters/enable_uring";
    let enabled = std::fs::read_to_string(ENABLED);
    match enabled.as_deref().map(str::trim) {
        Ok("Y") => {}
        Ok(_) => return Err(format!("{ENABLED} is not Y")),
        Err(_) => return Err("this kernel does not have it (Linux 6.14)".to_owned()),
    }
    let read = |name: &str| {
        let path = Path::new("/sys/devices/system/cpu").join(name);
        let list = std::fs::read_to_string(&path).ok();
        list.and_then(|list| number_list(&list))
            .ok_or_else(|| format!("{} cannot be read", path.display()))
    };
    Ok(shares(read("possible")?.len(), &read("online")?))
}

/// Divides the queues of this number of CPUs among threads, one for each that is online.
fn shares(possible: usize, online: &[u32]) -> Vec<Vec<(u16, u32)>> {
    let count = online.len().max(1);
    let entries = (ALL_ENTRIES / count).clamp(4, ENTRIES) as u32;
    let mut threads = vec![Vec::new(); count];
    let mut next = 0;
    for queue in 0..possible as u16 {
        match online.iter().position(|cpu| *cpu == u32::from(queue)) {
            Some(at) => threads[at].push((queue, entries)),
            None => {
                threads[next % count].push((queue, 1));
                next += 1;
            }
        }
    }
    threads.retain(|queues| !queues.is_empty());
    threads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_queue_has_a_thread_and_entries() {
        assert_eq!(
            shares(4, &[0, 2]),
            [vec![(0, 32), (1, 1)], vec![(2, 32), (3, 1)]]
        );
        let many: Vec<u32> = (0..128).collect();
        let threads = shares(240, &many);
        assert_eq!(threads.len(), 128);
        let mut queues: Vec<u16> = threads.iter().flatten().map(|(queue, _)| *queue).collect();
        queues.sort_unstable();
        assert_eq!(queues, (0..240).collect::<Vec<u16>>());
        assert!(threads.iter().all(|queues| queues[0].1 == 4));
    }
}
