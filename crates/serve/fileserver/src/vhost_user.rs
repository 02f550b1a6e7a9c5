//! A file system for the guests of a virtual machine monitor: the server's side of vhost-user, for virtio-fs.
//!
//! Source: "Vhost-user Protocol" of QEMU's documentation, and VIRTIO 1.2, sections 2.7 and 5.11. The crate `vhost` reads and checks the
//! messages, `virtio-queue` the rings. Each ring has a thread, which takes batches of requests; another thread reads messages. A thread that is
//! held by a request is replaced ([`crate::watchdog`]).
//!
//! # What must hold
//!
//! - A ring is stopped, and memory is exchanged, when no request is in flight, also none that holds a thread. Nothing in the memory of a client is
//!   used after its connection has ended.
//! - The state of a client is transferred when no request is in flight and no ring takes any: none is worked by two servers, or by neither.
//! - The client learns of every reply: a ring's thread tells it of those of a batch before it sleeps.
//! - A ring whose client breaks the rules is not used any more: its error event is signalled, and the other rings go on.
//!
//! A client that shortens a file of the memory that it shares ends the server (SIGBUS). It has to be a program that this user trusts.

use std::fs::File;
use std::io;
use std::net::Shutdown;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use iodyno_serve::client_memory::{ClientMemory, MOST_REGIONS, event, signal, unsupported};
use iodyno_sys::TransferMemory;
use iodyno_sys::thread::own_directory;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig,
    VhostUserSharedMsg, VhostUserSingleMemoryRegion, VhostUserVirtioFeatures,
    VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{
    BackendReqHandler, Error, GpuBackend, Result, VhostUserBackendReqHandlerMut,
};
use virtio_queue::desc::split::Descriptor;
use virtio_queue::{DescriptorChain, Queue, QueueOwnedT, QueueT};
use vm_memory::{Address, Bytes, GuestAddress, GuestMemory, GuestMemoryMmap};

use crate::buffers::Buffers;
use crate::folder::{Answered, Exchange, MOST_PARTS};
use crate::lane::Lane;
use crate::request::{Head, WRITE_HEADER};
use crate::server::{Client, FileServer};
use crate::stats::Transport;
use crate::transfer::{Preparation, Transfer};
use crate::turn::Turn;
use crate::work::Request;
use crate::written::Written;

/// Rings: one for requests that must not wait, and those of a client's processors.
const MOST_RINGS: u64 = 17;
/// Descriptors of a ring.
const MOST_DESCRIPTORS: u16 = 1024;
/// Descriptors of a request. The longest one has 1 MiB in pages of 4 KiB, and headers; the table of an indirect chain has room for 65 535.
const MOST_LINKS: usize = 512;
/// Requests of a batch.
const MOST_TAKEN: usize = 256;
/// How long requests in flight may take when the server ends.
const LAST_REQUESTS: Duration = Duration::from_secs(10);

/// The front end copies the memory while requests are worked.
const F_LOG_ALL: u64 = 1 << 26;
const F_INDIRECT: u64 = 1 << 28;
const F_EVENT_IDX: u64 = 1 << 29;
const F_VERSION_1: u64 = 1 << 32;
/// Bytes of the used ring with most descriptors.
const USED: usize = 6 + 8 * MOST_DESCRIPTORS as usize;

/// Serves one client until it leaves, or `stopping` is set and its socket is shut down for reading. Requests in flight are answered first.
/// `told` gets what its user has to know of the transfer of its state.
///
/// # Errors
/// Those of the connection, and of what the client asks for; the folder cannot be opened; requests do not end while the server is
/// stopping.
pub fn serve(
    stream: UnixStream,
    server: &Arc<FileServer>,
    stopping: Arc<AtomicBool>,
    mut told: impl FnMut(String),
) -> io::Result<()> {
    let socket = stream.try_clone()?;
    server.uses(Transport::VhostUser);
    let client = Arc::new(server.client(true)?);
    let device = Device::new(client, stopping, socket.try_clone()?)?;
    let device = Arc::new(Mutex::new(device));
    let notes = || {
        let mut device = device.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut device.notes)
    };
    let mut messages = BackendReqHandler::from_stream(stream, Arc::clone(&device));
    let ended = loop {
        let handled = messages.handle_request();
        notes().into_iter().for_each(&mut told);
        match handled {
            Ok(()) => {}
            Err(Error::Disconnected) => break Ok(()),
            Err(error) => break Err(io::Error::other(error)),
        }
    };
    // Other descriptors of this socket are open: the client has to learn of the end now.
    let _ = socket.shutdown(Shutdown::Both);
    let mut device = device.lock().unwrap_or_else(PoisonError::into_inner);
    device.end()?;
    ended
}

/// A ring, which its thread, the pool and the thread of messages share.
struct Ring {
    state: Mutex<State>,
    /// No request is in flight.
    idle: Condvar,
    /// Its thread has to look at it again.
    wake: OwnedFd,
    /// Requests that the pool has.
    pooled: AtomicUsize,
}

struct State {
    queue: Queue,
    memory: Arc<GuestMemoryMmap>,
    kick: Option<Arc<File>>,
    call: Option<Arc<File>>,
    error: Option<File>,
    /// The client gave addresses.
    placed: bool,
    enabled: bool,
    broken: bool,
    /// No requests are taken for now.
    held: bool,
    /// Its thread is to end.
    ended: bool,
    /// Requests in flight, by the head of their chain, and their number.
    in_flight: Vec<bool>,
    count: usize,
    /// Chains were given back since the client was told.
    untold: bool,
    /// Threads that wait until none is in flight.
    drains: usize,
    /// Requests were there before those that the ring's thread worked were answered.
    early: bool,
    /// The client's memory is copied while requests are worked, and this is where it is told what they changed.
    copied: bool,
    written: Option<Arc<Written>>,
}

impl State {
    fn runs(&self) -> bool {
        let set_up = self.placed && self.enabled && self.kick.is_some() && self.queue.ready();
        set_up && !self.broken && !self.held
    }

    /// Its client broke the rules.
    fn give_up(&mut self) {
        self.broken = true;
        signal(self.error.as_ref());
    }

    /// The memory that a reply has changed.
    fn changed(&self, parts: &[(GuestAddress, usize)], mut written: usize) {
        let Some(pages) = self.written.as_ref().filter(|_| self.copied) else {
            return;
        };
        for (start, length) in parts {
            let within = written.min(*length);
            pages.mark(*start, within);
            written -= within;
        }
    }

    /// The event of the client, if it wants to know of what was answered.
    fn told(&mut self) -> Option<Arc<File>> {
        if self.broken || !self.placed || !std::mem::take(&mut self.untold) {
            return None;
        }
        match self.queue.needs_notification(&*self.memory) {
            Ok(true) => self.call.clone(),
            Ok(false) => None,
            Err(_) => {
                self.give_up();
                None
            }
        }
    }
}

impl Ring {
    fn new() -> io::Result<Ring> {
        Ok(Ring {
            state: Mutex::new(State {
                queue: Queue::new(MOST_DESCRIPTORS).map_err(io::Error::other)?,
                memory: Arc::default(),
                kick: None,
                call: None,
                error: None,
                placed: false,
                enabled: false,
                broken: false,
                held: false,
                ended: false,
                in_flight: vec![false; MOST_DESCRIPTORS.into()],
                count: 0,
                untold: false,
                drains: 0,
                early: false,
                copied: false,
                written: None,
            }),
            idle: Condvar::new(),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            pooled: AtomicUsize::new(0),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes its state, and lets its thread look at it.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.state());
        // It fails only if its counter is full, and then the thread wakes up anyway.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        changed
    }

    /// Waits until there may be requests, or a transfer has ended. Returns whether its thread goes on.
    fn wait(&self, transfers: Option<BorrowedFd<'_>>, in_flight: usize) -> io::Result<bool> {
        let kick = {
            let state = self.state();
            // What is in flight is answered by its thread.
            if state.ended && in_flight == 0 {
                return Ok(false);
            }
            state.kick.clone().filter(|_| state.runs())
        };
        let mut watched = vec![PollFd::new(&self.wake, PollFlags::IN)];
        watched.extend(kick.iter().map(|kick| PollFd::new(&**kick, PollFlags::IN)));
        let transfers = transfers.filter(|_| in_flight > 0);
        watched.extend((transfers.iter()).map(|ended| PollFd::new(ended, PollFlags::IN)));
        match poll(&mut watched, None) {
            Err(rustix::io::Errno::INTR) => return Ok(true),
            other => other?,
        };
        let ready: Vec<bool> = watched.iter().map(|it| !it.revents().is_empty()).collect();
        if ready[0] {
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        }
        if let (Some(kick), Some(true)) = (&kick, ready.get(1)) {
            let _ = rustix::io::read(&**kick, &mut [0; 8]);
        }
        Ok(true)
    }

    /// Takes the requests that are in the ring. If there are none, and its thread is going to sleep, the client tells of the next ones.
    fn take(self: &Arc<Ring>, batch: &mut Vec<Taken>, sleeps: bool) {
        let mut state = self.state();
        loop {
            if !state.runs() {
                return;
            }
            let memory = Arc::clone(&state.memory);
            // A client may notify more often than it has to.
            let _ = state.queue.disable_notification(&*memory);
            let now = Instant::now();
            while batch.len() < MOST_TAKEN {
                let chain = match state.queue.iter(Arc::clone(&memory)) {
                    Ok(mut chains) => chains.next(),
                    Err(_) => return state.give_up(),
                };
                let Some(chain) = chain else {
                    break;
                };
                let index = chain.head_index();
                let size = state.queue.size();
                match state.in_flight.get_mut(usize::from(index)) {
                    Some(free) if index < size && !*free => *free = true,
                    // It is in flight already.
                    _ => return state.give_up(),
                }
                state.count += 1;
                let request = Taken::new(Arc::clone(self), Arc::clone(&memory), chain, now);
                match request {
                    Ok(request) => batch.push(request),
                    // What cannot be answered.
                    Err(()) => state.used(index, 0),
                }
            }
            if !batch.is_empty() || !sleeps {
                return;
            }
            match state.queue.enable_notification(&*memory) {
                Ok(true) => {}
                Ok(false) => return,
                Err(_) => return state.give_up(),
            }
        }
    }

    /// Tells the client of what was answered, if it wants to know.
    fn tell(&self) {
        let event = self.state().told();
        signal(event.as_deref());
    }

    /// Waits until no request is in flight.
    fn drain(&self, stopping: &AtomicBool) -> Result<()> {
        let mut state = self.state();
        let mut waited = Duration::ZERO;
        state.drains += 1;
        while state.count > 0 {
            let step = Duration::from_millis(100);
            let woken = self.idle.wait_timeout(state, step);
            let (next, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
            state = next;
            if timeout.timed_out() && stopping.load(Ordering::Relaxed) {
                waited += step;
                if waited >= LAST_REQUESTS {
                    state.drains -= 1;
                    let error = io::Error::from(io::ErrorKind::TimedOut);
                    return Err(Error::ReqHandlerError(error));
                }
            }
        }
        state.drains -= 1;
        Ok(())
    }
}

impl State {
    /// Gives a chain back to the client.
    fn used(&mut self, index: u16, written: u32) {
        self.in_flight[usize::from(index)] = false;
        self.count -= 1;
        if !self.broken {
            let added = self.queue.add_used(&*self.memory, index, written);
            // It is marked after it was changed: what the client copies in between, it copies again.
            let ring = GuestAddress(self.queue.used_ring());
            self.changed(&[(ring, USED)], USED);
            match added {
                Ok(()) => self.untold = true,
                Err(_) => self.give_up(),
            }
        }
    }
}

/// A request in the memory of a client.
struct Taken {
    ring: Arc<Ring>,
    memory: Arc<GuestMemoryMmap>,
    index: u16,
    /// Its buffers: those that are read before those that are written.
    parts: Vec<(GuestAddress, usize)>,
    /// The number of those that are read.
    readable: usize,
    head: Head,
    taken: Instant,
    pooled: bool,
}

impl Taken {
    fn new(
        ring: Arc<Ring>,
        memory: Arc<GuestMemoryMmap>,
        chain: DescriptorChain<Arc<GuestMemoryMmap>>,
        taken: Instant,
    ) -> std::result::Result<Taken, ()> {
        let mut beginning = [0; WRITE_HEADER];
        let (mut copied, mut readable, mut writable) = (0, 0, 0);
        let index = chain.head_index();
        let mut parts = Vec::with_capacity(4);
        let mut read = 0;
        for part in chain {
            let part: Descriptor = part;
            let length = part.len() as usize;
            if parts.len() == MOST_LINKS {
                return Err(());
            }
            parts.push((part.addr(), length));
            if part.is_write_only() {
                writable += length;
                continue;
            }
            // Parts that are read are before those that are written.
            if writable > 0 {
                return Err(());
            }
            let wanted = length.min(WRITE_HEADER - copied);
            let into = &mut beginning[copied..copied + wanted];
            memory.read_slice(into, part.addr()).map_err(|_| ())?;
            copied += wanted;
            readable += length;
            read = parts.len();
        }
        let head = Head::of(&beginning[..copied], readable, writable).ok_or(())?;
        Ok(Taken {
            ring,
            memory,
            index,
            parts,
            readable: read,
            head,
            taken,
            pooled: false,
        })
    }

    fn buffers(&self, parts: &[(GuestAddress, usize)]) -> Option<Buffers<'_>> {
        let parts = parts.iter().filter(|(_, length)| *length > 0);
        let found = parts.map(|(start, length)| self.memory.get_slice(*start, *length).ok());
        found.collect()
    }
}

impl Exchange for Taken {
    fn request(&mut self) -> Option<Buffers<'_>> {
        self.buffers(&self.parts[..self.readable])
    }

    fn reply(&mut self) -> Option<Buffers<'_>> {
        self.buffers(&self.parts[self.readable..])
    }

    fn lend(&mut self, of_request: bool, from: usize, length: usize) -> Option<TransferMemory> {
        let (request, reply) = self.parts.split_at(self.readable);
        let parts = if of_request { request } else { reply };
        let (mut skipped, mut left) = (from, length);
        let mut ranges = Vec::with_capacity(parts.len());
        for (start, bytes) in parts {
            let before = skipped.min(*bytes);
            let within = (bytes - before).min(left);
            (skipped, left) = (skipped - before, left - within);
            if within > 0 {
                ranges.push((start.checked_add(before as u64)?, within));
            }
        }
        let whole = left == 0 && ranges.len() <= MOST_PARTS;
        whole.then(|| TransferMemory::Client(Arc::clone(&self.memory), ranges))
    }

    // Nobody else has it meanwhile: the parts are as they were.
    fn give_back(&mut self, _memory: TransferMemory) {}
}

impl Request for Taken {
    fn head(&self) -> &Head {
        &self.head
    }

    fn taken(&self) -> Instant {
        self.taken
    }

    fn handed_over(&mut self) {
        self.pooled = true;
        self.ring.pooled.fetch_add(1, Ordering::Relaxed);
    }

    fn answered(self, answered: Answered, told: bool) {
        if self.pooled {
            self.ring.pooled.fetch_sub(1, Ordering::Relaxed);
        }
        let mut state = self.ring.state();
        if !self.pooled {
            let available = state.queue.avail_idx(&*self.memory, Ordering::Acquire);
            let next = state.queue.next_avail();
            state.early |= available.is_ok_and(|index| index.0 != next);
        }
        let changed = match answered.failed {
            // Data may have been read before.
            true => usize::MAX,
            false => answered.written as usize,
        };
        state.changed(&self.parts[self.readable..], changed);
        state.used(self.index, answered.written);
        let event = match told {
            true => state.told(),
            false => None,
        };
        // It is a system call, also if nobody waits.
        let awaited = state.count == 0 && state.drains > 0;
        drop(state);
        signal(event.as_deref());
        if awaited {
            self.ring.idle.notify_all();
        }
    }
}

/// How long a ring's thread looks for more requests at most, before it sleeps.
const SPINS: Duration = Duration::from_micros(20);
/// A spin that found nothing counts as this, ns, and no sleep counts as longer.
const LONGEST_NS: u64 = 40_000;
/// One time of this many that the ring is empty, the thread does what does not pay, because this may have changed.
const TRIED: u32 = 64;

/// Whether spins pay: they shorten the time that a ring is empty by a third. This time is measured, smoothed: with a spin, it is that of the client; with a
/// sleep, it is longer by the cost of being woken up. On some hosts and at some times this is 2 µs, on others 30.
#[derive(Debug, Default)]
struct Spin {
    /// How long the ring was empty, ns, smoothed; 0: unknown.
    spun_ns: u64,
    slept_ns: u64,
    tried: u32,
}

impl Spin {
    /// Whether to spin now.
    fn spins(&mut self) -> bool {
        let pays = match (self.spun_ns, self.slept_ns) {
            (0, _) => return true,
            (_, 0) => return false,
            (spun, slept) => 3 * spun <= 2 * slept,
        };
        self.tried = (self.tried + 1) % TRIED;
        pays != (self.tried == 0)
    }

    /// A spin that found requests after this time, or nothing.
    fn spun(&mut self, found: Option<Duration>) {
        smooth(
            &mut self.spun_ns,
            found.map_or(LONGEST_NS, |time| time.as_nanos() as u64),
        );
    }

    /// The ring was empty for this time, and its thread did not spin.
    fn slept(&mut self, time: Duration) {
        smooth(&mut self.slept_ns, time.as_nanos() as u64);
    }
}

fn smooth(value: &mut u64, ns: u64) {
    let ns = ns.clamp(1, LONGEST_NS);
    *value = match *value {
        0 => ns,
        old => (old * 7 + ns).div_ceil(8),
    };
}

/// The threads of all rings, until the connection ends.
struct Threads(Mutex<Option<Vec<JoinHandle<()>>>>);

impl Threads {
    fn new() -> Arc<Threads> {
        Arc::new(Threads(Mutex::new(Some(Vec::new()))))
    }

    fn all(&self) -> MutexGuard<'_, Option<Vec<JoinHandle<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a thread of a ring begins with.
#[derive(Clone)]
struct Starting {
    number: usize,
    ring: Arc<Ring>,
    threads: Arc<Threads>,
}

impl Starting {
    /// Starts a thread, which has this turn first.
    fn start(&self, turn: Arc<Turn<Taken>>) -> io::Result<()> {
        let mut threads = self.threads.all();
        let Some(threads) = threads.as_mut() else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        // Those that were replaced.
        threads.retain(|thread| !thread.is_finished());
        let (own, named) = (self.clone(), format!("ring {}", self.number));
        let thread = thread::Builder::new().name(named);
        threads.push(thread.spawn(move || own.run(turn))?);
        Ok(())
    }

    fn run(self, turn: Arc<Turn<Taken>>) {
        own_directory();
        let ring = Arc::clone(&self.ring);
        // The first ring is for requests that must not wait.
        let mut lane = Lane::new(turn, self.number == 0);
        lane.watch(move |turn| self.start(turn));
        // It fails only if the kernel lacks memory; then the ring is not served any more.
        let served = serve_ring(&ring, &mut lane);
        if served.is_err() || !lane.replaced() {
            ring.state().give_up();
        }
    }
}

fn serve_ring(ring: &Arc<Ring>, lane: &mut Lane<Taken>) -> io::Result<()> {
    let mut batch = Vec::with_capacity(MOST_TAKEN);
    let (mut spin, mut empty) = (Spin::default(), None);
    let in_flight = || ring.pooled.load(Ordering::Relaxed);
    lane.awake(true);
    let worked = lane.work_left(in_flight, || ring.tell());
    lane.awake(false);
    worked?;
    while !lane.replaced() {
        // Its client may not have told of what is in the ring since the thread that this one replaces looked last.
        lane.awake(true);
        let worked = work_ring(ring, lane, &mut batch, (&mut spin, &mut empty));
        lane.awake(false);
        worked?;
        if !lane.replaced() && !ring.wait(lane.ended(), lane.in_flight())? {
            return Ok(());
        }
    }
    // What its own io_uring has in flight.
    while let (Some(ended), 1..) = (lane.ended(), lane.in_flight()) {
        match poll(&mut [PollFd::new(&ended, PollFlags::IN)], None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if lane.reap()? {
            ring.tell();
        }
    }
    Ok(())
}

/// Works until the ring has no requests. `empty`: when it last ran empty, if the thread did not spin then.
fn work_ring(
    ring: &Arc<Ring>,
    lane: &mut Lane<Taken>,
    batch: &mut Vec<Taken>,
    (spin, empty): (&mut Spin, &mut Option<Instant>),
) -> io::Result<()> {
    if lane.reap()? {
        ring.tell();
    }
    while !lane.replaced() {
        ring.take(batch, false);
        if let (Some(slept), false) = (empty.take(), batch.is_empty()) {
            spin.slept(slept.elapsed());
        }
        if batch.is_empty() && lane.may_spin() {
            let start = Instant::now();
            if spin.spins() {
                while batch.is_empty() && start.elapsed() < SPINS {
                    std::hint::spin_loop();
                    ring.take(batch, false);
                }
                spin.spun((!batch.is_empty()).then(|| start.elapsed()));
            } else {
                *empty = Some(start);
            }
        }
        if batch.is_empty() {
            ring.take(batch, true);
        }
        if batch.is_empty() {
            break;
        }
        *empty = None;
        let in_flight = || ring.pooled.load(Ordering::Relaxed);
        let early = std::mem::take(&mut ring.state().early);
        lane.work(batch, early, in_flight, || ring.tell())?;
    }
    // Of chains that could not be answered.
    ring.tell();
    Ok(())
}

/// What a client has set up.
struct Device {
    client: Arc<Client>,
    stopping: Arc<AtomicBool>,
    owned: bool,
    features: u64,
    memory: ClientMemory,
    rings: Vec<Arc<Ring>>,
    /// Rings that have a thread.
    started: Vec<bool>,
    threads: Arc<Threads>,
    /// That of its messages.
    socket: UnixStream,
    preparation: Option<Preparation>,
    transfer: Option<Transfer>,
    /// What the user has to know.
    notes: Vec<String>,
}

impl Device {
    fn new(
        client: Arc<Client>,
        stopping: Arc<AtomicBool>,
        socket: UnixStream,
    ) -> io::Result<Device> {
        let rings = (0..MOST_RINGS).map(|_| Ring::new().map(Arc::new));
        Ok(Device {
            client,
            stopping,
            owned: false,
            features: 0,
            memory: ClientMemory::default(),
            rings: rings.collect::<io::Result<_>>()?,
            started: vec![false; MOST_RINGS as usize],
            threads: Threads::new(),
            socket,
            preparation: None,
            transfer: None,
            notes: Vec::new(),
        })
    }

    fn offered() -> u64 {
        let protocol = VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();
        F_VERSION_1 | F_EVENT_IDX | F_INDIRECT | F_LOG_ALL | protocol
    }

    fn ring(&self, number: u32) -> Result<&Arc<Ring>> {
        self.rings.get(number as usize).ok_or(Error::InvalidParam)
    }

    /// Starts the thread of a ring, if it has none.
    fn start(&mut self, number: usize) -> io::Result<()> {
        if self.started[number] {
            return Ok(());
        }
        let starting = Starting {
            number,
            ring: Arc::clone(&self.rings[number]),
            threads: Arc::clone(&self.threads),
        };
        starting.start(Turn::new(Arc::clone(&self.client)))?;
        self.started[number] = true;
        Ok(())
    }

    fn stop(&self, number: u32) -> Result<()> {
        let ring = self.ring(number)?;
        ring.change(|state| state.queue.set_ready(false));
        ring.drain(&self.stopping)
    }

    /// The client's memory is copied while it works, or not any more: then its state is asked for soon.
    fn is_copied(&mut self, copied: bool) -> io::Result<()> {
        for ring in &self.rings {
            ring.change(|state| state.copied = copied);
        }
        match (copied, &self.preparation, &self.transfer) {
            (true, None, None) => {
                self.preparation = Some(Preparation::start(Arc::clone(&self.client))?);
            }
            (false, ..) => {
                if let Some(preparation) = self.preparation.take() {
                    preparation.cancel();
                }
            }
            (true, ..) => {}
        }
        Ok(())
    }

    fn transfer(
        &mut self,
        direction: VhostTransferStateDirection,
        phase: VhostTransferStatePhase,
        pipe: File,
    ) -> io::Result<()> {
        let refused = |text: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        if phase != VhostTransferStatePhase::STOPPED {
            return refused("the front end asks for it in a phase that is not supported");
        }
        if self.rings.iter().any(|ring| ring.state().queue.ready()) {
            return refused("the front end has not stopped all queues");
        }
        // One whose end the front end did not wait for.
        if let Some(earlier) = self.transfer.take() {
            earlier.cancel();
        }
        let preparation = self.preparation.take();
        let (client, socket) = (Arc::clone(&self.client), self.socket.try_clone()?);
        let transfer = match direction {
            VhostTransferStateDirection::SAVE => Transfer::save(client, preparation, pipe, socket),
            VhostTransferStateDirection::LOAD => {
                if let Some(preparation) = preparation {
                    preparation.cancel();
                }
                Transfer::load(client, pipe, socket)
            }
        };
        self.transfer = Some(transfer?);
        Ok(())
    }

    /// Exchanges memory while no request is in flight.
    fn exchange(&mut self, memory: ClientMemory) -> Result<()> {
        self.rings.iter().for_each(|ring| {
            ring.change(|state| state.held = true);
        });
        let drained: Result<()> = self
            .rings
            .iter()
            .try_for_each(|ring| ring.drain(&self.stopping));
        if drained.is_ok() {
            self.memory = memory;
        }
        let memory = Arc::new(self.memory.guest().clone());
        for ring in &self.rings {
            ring.change(|state| {
                state.memory = Arc::clone(&memory);
                state.held = false;
            });
        }
        drained
    }

    /// What depends on the features of the client.
    fn set_up_features(&mut self, features: u64) -> Result<()> {
        self.is_copied(features & F_LOG_ALL != 0)
            .map_err(Error::ReqHandlerError)?;
        self.features = features;
        for ring in &self.rings {
            let event_idx = features & F_EVENT_IDX != 0;
            ring.change(|state| state.queue.set_event_idx(event_idx));
        }
        Ok(())
    }

    /// Answers what is in flight and ends all threads.
    fn end(&mut self) -> io::Result<()> {
        if let Some(preparation) = self.preparation.take() {
            preparation.cancel();
        }
        if let Some(transfer) = self.transfer.take() {
            transfer.cancel();
        }
        for ring in &self.rings {
            ring.change(|state| (state.held, state.ended) = (true, true));
        }
        for ring in &self.rings {
            ring.drain(&self.stopping).map_err(io::Error::other)?;
        }
        // No more are started.
        let threads = self.threads.all().take();
        for thread in threads.into_iter().flatten() {
            let _ = thread.join();
        }
        Ok(())
    }
}

impl VhostUserBackendReqHandlerMut for Device {
    fn set_owner(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.owned, true) {
            true => Err(Error::InvalidOperation("already claimed")),
            false => Ok(()),
        }
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.owned = false;
        self.reset_device()
    }

    fn reset_device(&mut self) -> Result<()> {
        for number in 0..self.rings.len() {
            self.stop(number as u32)?;
            self.rings[number].change(|state| {
                (state.enabled, state.broken, state.placed) = (false, false, false);
            });
        }
        self.set_up_features(0)
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(Device::offered())
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !Device::offered() != 0 {
            return Err(Error::InvalidParam);
        }
        self.set_up_features(features)?;
        let protocol = features & VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits() != 0;
        for ring in &self.rings {
            ring.change(|state| {
                // Then there are no messages that enable them.
                state.enabled |= !protocol;
            });
        }
        Ok(())
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS
            | VhostUserProtocolFeatures::LOG_SHMFD
            | VhostUserProtocolFeatures::DEVICE_STATE
            | VhostUserProtocolFeatures::RESET_DEVICE)
    }

    fn set_protocol_features(&mut self, _features: u64) -> Result<()> {
        Ok(())
    }

    fn set_mem_table(&mut self, regions: &[VhostUserMemoryRegion], files: Vec<File>) -> Result<()> {
        let memory = ClientMemory::of(regions, files)?;
        self.exchange(memory)
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(MOST_REGIONS)
    }

    fn add_mem_region(&mut self, region: &VhostUserSingleMemoryRegion, file: File) -> Result<()> {
        let mut memory = self.memory.clone();
        memory.add(region, file)?;
        self.exchange(memory)
    }

    fn remove_mem_region(&mut self, region: &VhostUserSingleMemoryRegion) -> Result<()> {
        let mut memory = self.memory.clone();
        memory.remove(region)?;
        self.exchange(memory)
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(MOST_RINGS)
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        let size = u16::try_from(num).map_err(|_| Error::InvalidParam)?;
        self.ring(index)?.change(|state| match state.count {
            0 => (state.queue.try_set_size(size)).map_err(|_| Error::InvalidParam),
            _ => Err(Error::InvalidOperation("the ring is in use")),
        })
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _flags: VhostUserVringAddrFlags,
        descriptor: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Result<()> {
        let table = self.memory.address(descriptor)?;
        let used = self.memory.address(used)?;
        let available = self.memory.address(available)?;
        self.ring(index)?.change(|state| {
            let (queue, memory) = (&mut state.queue, &*state.memory);
            let placed = (queue.try_set_desc_table_address(table))
                .and_then(|()| queue.try_set_avail_ring_address(available))
                .and_then(|()| queue.try_set_used_ring_address(used))
                .and_then(|()| queue.used_idx(memory, Ordering::Relaxed));
            let used = placed.map_err(|_| Error::InvalidParam)?;
            queue.set_next_used(used.0);
            (state.placed, state.broken) = (true, false);
            Ok(())
        })
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        let base = u16::try_from(base).map_err(|_| Error::InvalidParam)?;
        (self.ring(index)?).change(|state| state.queue.set_next_avail(base));
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        self.stop(index)?;
        let (base, untold) = self.ring(index)?.change(|state| {
            // Its thread tells of a batch after the last reply, when there may be no event any more.
            let untold = state.told();
            (state.kick, state.call) = (None, None);
            (state.queue.next_avail(), untold)
        });
        signal(untold.as_deref());
        Ok(VhostUserVringState::new(index, base.into()))
    }

    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        // Without one the ring would have to be polled.
        let Some(kick) = event(file)? else {
            return unsupported();
        };
        if let Some(transfer) = self.transfer.take() {
            // The front end goes on without it: with qemu, if the transfer failed on its side.
            transfer.cancel();
            let text = "the client goes on, and its state was not transferred as a whole";
            self.notes.push(text.to_owned());
        }
        self.ring(index.into())?.change(|state| {
            state.kick = Some(Arc::new(kick));
            state.queue.set_ready(true);
        });
        self.start(index.into()).map_err(Error::ReqHandlerError)
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let call = event(file)?.map(Arc::new);
        self.ring(index.into())?.change(|state| state.call = call);
        Ok(())
    }

    fn set_vring_err(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let error = event(file)?;
        self.ring(index.into())?.change(|state| state.error = error);
        Ok(())
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        (self.ring(index)?).change(|state| state.enabled = enable);
        Ok(())
    }

    fn get_config(
        &mut self,
        _offset: u32,
        _size: u32,
        _flags: VhostUserConfigFlags,
    ) -> Result<Vec<u8>> {
        unsupported()
    }

    fn set_config(
        &mut self,
        _offset: u32,
        _bytes: &[u8],
        _flags: VhostUserConfigFlags,
    ) -> Result<()> {
        unsupported()
    }

    fn set_gpu_socket(&mut self, _gpu: GpuBackend) -> Result<()> {
        unsupported()
    }

    fn get_shared_object(&mut self, _uuid: VhostUserSharedMsg) -> Result<File> {
        unsupported()
    }

    fn get_inflight_fd(
        &mut self,
        _inflight: &VhostUserInflight,
    ) -> Result<(VhostUserInflight, File)> {
        unsupported()
    }

    fn set_inflight_fd(&mut self, _inflight: &VhostUserInflight, _file: File) -> Result<()> {
        unsupported()
    }

    fn set_device_state_fd(
        &mut self,
        direction: VhostTransferStateDirection,
        phase: VhostTransferStatePhase,
        file: File,
    ) -> Result<Option<File>> {
        match self.transfer(direction, phase, file) {
            Ok(()) => Ok(None),
            Err(error) => {
                let text = format!("the state of the client is not transferred: {error}");
                self.notes.push(text);
                Err(Error::ReqHandlerError(error))
            }
        }
    }

    fn check_device_state(&mut self) -> Result<()> {
        let Some(transfer) = self.transfer.take() else {
            return Err(Error::InvalidOperation("no state was asked for"));
        };
        match transfer.check(&self.socket) {
            Ok(note) => {
                self.notes.extend(note);
                Ok(())
            }
            Err(error) => {
                self.notes.push(error.to_string());
                Err(Error::ReqHandlerError(error))
            }
        }
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        unsupported()
    }

    fn set_log_base(&mut self, log: &VhostUserLog, file: File) -> Result<()> {
        let written = Written::of(file, log.mmap_offset, log.mmap_size);
        let written = Arc::new(written.map_err(Error::ReqHandlerError)?);
        for ring in &self.rings {
            ring.change(|state| state.written = Some(Arc::clone(&written)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of 6400 times a thread spins whose client comes after `client` µs, and which is woken up after `wakes` µs more.
    fn spins(spin: &mut Spin, client: u64, wakes: u64) -> u64 {
        let mut count = 0;
        for _ in 0..100 * TRIED {
            let time = Duration::from_micros(client);
            if spin.spins() {
                count += 1;
                spin.spun((time < SPINS).then_some(time));
            } else {
                spin.slept(time + Duration::from_micros(wakes));
            }
        }
        count
    }

    /// The client of a server of this folder.
    fn client(folder: &std::path::Path) -> Arc<Client> {
        let settings = crate::Settings {
            folder: folder.to_owned(),
            cache: crate::Cache::Never,
            read_only: false,
            xattr: false,
            writeback: false,
            direct_io: false,
            submounts: false,
            handles: crate::Handles::Never,
            posix_acl: crate::NegotiationMode::Never,
            uids: Vec::new(),
            gids: Vec::new(),
            migration: crate::Migration::default(),
            inside: None,
            delay: Duration::ZERO,
        };
        let server = Arc::new(FileServer::start(settings, crate::Policy::Inline, None).unwrap());
        Arc::new(server.client(true).unwrap())
    }

    /// The request that a ring takes whose only chain is an indirect table of this many descriptors: one of a header, which the others follow.
    fn taken(links: u16) -> Vec<usize> {
        let folder = tempfile::tempdir().unwrap();
        let (socket, _other) = UnixStream::pair().unwrap();
        let device = Device::new(client(folder.path()), Arc::default(), socket).unwrap();
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 1 << 21)]).unwrap();
        let descriptor = |address: u64, length: u32, flags: u16, next: u16| {
            let numbers = [
                address.to_le_bytes().to_vec(),
                length.to_le_bytes().to_vec(),
            ]
            .concat();
            [numbers, [flags, next].map(u16::to_le_bytes).concat()].concat()
        };
        let write = |at: u64, bytes: &[u8]| memory.write_slice(bytes, GuestAddress(at)).unwrap();
        let table = 0x1_0000;
        write(0, &descriptor(table, 16 * u32::from(links), 4, 0));
        for link in 0..links {
            let (first, last) = (link == 0, link + 1 == links);
            let (address, length) = if first { (0x8800, 40) } else { (0x8000, 1) };
            let flags = u16::from(!last) | if first { 0 } else { 2 };
            let next = if last { 0 } else { link + 1 };
            let part = descriptor(address, length, flags, next);
            write(table + 16 * u64::from(link), &part);
        }
        // STATFS of node 1.
        let words = [40u32, 17, 2, 0, 1, 0, 0, 0, 0, 0];
        write(0x8800, &words.map(u32::to_le_bytes).concat());
        write(0x9000, &[0, 0, 1, 0, 0, 0]);
        let ring = &device.rings[1];
        ring.change(|state| {
            state.memory = Arc::new(memory.clone());
            let queue = &mut state.queue;
            queue.try_set_desc_table_address(GuestAddress(0)).unwrap();
            queue
                .try_set_avail_ring_address(GuestAddress(0x9000))
                .unwrap();
            queue
                .try_set_used_ring_address(GuestAddress(0xa000))
                .unwrap();
            queue.set_ready(true);
            (state.placed, state.enabled) = (true, true);
            state.kick = Some(Arc::new(File::open("/dev/null").unwrap()));
        });
        let mut batch = Vec::new();
        ring.take(&mut batch, false);
        let parts = batch.iter().map(|taken| taken.parts.len()).collect();
        // Nothing is left in flight.
        for taken in batch {
            ring.state().used(taken.index, 0);
        }
        parts
    }

    #[test]
    fn a_request_has_no_more_parts_than_a_driver_needs() {
        assert_eq!(taken(3), [3]);
        assert_eq!(taken(MOST_LINKS as u16), [MOST_LINKS]);
        assert_eq!(taken(MOST_LINKS as u16 + 1), [0; 0]);
        assert_eq!(taken(u16::MAX), [0; 0]);
    }

    #[test]
    fn a_client_is_told_of_the_last_replies_of_a_ring_that_it_stops() {
        let folder = tempfile::tempdir().unwrap();
        let client = client(folder.path());
        let (socket, _other) = UnixStream::pair().unwrap();
        let mut device = Device::new(client, Arc::default(), socket).unwrap();
        let call = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        let call = Arc::new(File::from(call));
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 1 << 16)]).unwrap();
        device.rings[1].change(|state| {
            (state.memory, state.call) = (Arc::new(memory), Some(Arc::clone(&call)));
            state
                .queue
                .try_set_desc_table_address(GuestAddress(0))
                .unwrap();
            state
                .queue
                .try_set_avail_ring_address(GuestAddress(0x8000))
                .unwrap();
            state
                .queue
                .try_set_used_ring_address(GuestAddress(0xa000))
                .unwrap();
            state.queue.set_ready(true);
            state.placed = true;
            // It is answered, and the ring's thread would tell the client when its batch ends.
            (state.in_flight[3], state.count) = (true, 1);
            state.used(3, 16);
        });
        device.get_vring_base(1).unwrap();
        let mut told = [0; 8];
        assert_eq!(rustix::io::read(&*call, &mut told), Ok(8));
        assert_eq!(u64::from_ne_bytes(told), 1);
        // Once.
        device.rings[1].tell();
        device.get_vring_base(1).unwrap();
        assert!(rustix::io::read(&*call, &mut told).is_err());
    }

    #[test]
    fn a_ring_spins_where_it_is_empty_for_a_shorter_time_then() {
        let mut spin = Spin::default();
        let mut share = |client, wakes| spins(&mut spin, client, wakes) * 100 / 6400;
        // A thread is woken up fast, or slowly.
        assert!(share(7, 3) < 10);
        assert!(share(12, 30) > 90);
        // The client comes later than a spin lasts: also if it comes after seconds.
        assert!(share(30, 30) < 10);
        assert!(share(1_000_000, 30) < 10);
        // What pays may change: this is noticed after some tries.
        assert!(share(2, 10) > 70);
        assert!(share(4, 1) < 30);
    }
}
