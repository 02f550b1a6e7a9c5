//! The thread of a mirror: it runs the state machine, performs its orders on the legs, and answers requests.
//!
//! The threads of queues read from legs without it ([`crate::reader`]); it is queue 0 of the mirror, carries out all
//! other requests, and those reads that need it.
//!
//! Requests come by a channel, and an eventfd that the ring reads wakes the thread. Each leg has a queue
//! ([`LegQueue`]), which limits, sorts and merges reads and writes of data; flushes and blocks of the superblock and
//! the log bypass it.
//!
//! # What must hold
//!
//! - An op owns a slot of the ring with its buffer until the kernel returns it. Ops that the mirror gave up keep
//!   theirs, and what they read is dropped: no buffer of a client is ever given to the kernel.
//! - The bytes of a write are copied from the client once, and from this copy to the slot of each leg, so that all legs
//!   get the same.
//! - FUA is a write with RWF_DSYNC; of a hole, fdatasync of the leg follows.
//! - At most as many commands are issued to a leg as it has places, which all queues share ([`Board`]). Flushes,
//!   superblocks, the log and repetitions need none.
//! - A leg is not written while it is shorter than the mirror: the op fails. Such a leg, and one that returns less than
//!   was read, is reported to the mirror as shortened before the op ends. So is one that is found to be shorter every
//!   second, which may have been dropped before.
//! - A leg whose file system may make a call wait ([`waits`]) is used by threads of the kernel only: a leg that hangs
//!   does not delay the others.
//! - The path of a leg that is a file leads to the file that is open. A thread for each leg looks twice a second,
//!   because a file system may not answer: a leg whose file was removed, renamed or replaced is reported to the mirror.
//! - A leg is taken back only when no queue has a command in flight on it.
//! - Nothing is allocated for a request: it brings its buffer and gets it back with the reply, and lists are used
//!   again. Channels have a fixed capacity; fronts limit what they have in flight, so that replies never wait.
//!
//! # Delayed legs
//!
//! A leg may take the time of a simulated disk: an op ends when the kernel has performed it and the model of the disk
//! has ended it too.
//!
//! # Lanes
//!
//! A leg uses a lane of the ring: slots and a place in its table of files. Two lanes more than legs are reserved, so
//! that a leg can be added while one that it replaces still holds requests. A lane is free again when the leg was
//! removed and its last op returned.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use iodyno_mirror::core::{
    Access, Buffer, Cause, Choose, Errno, Event, Mirror, Notice, Op, OpId, OpKind, Order,
    Request as MirrorRequest, UNEXPECTED,
};
use iodyno_mirror::shared::{Alarm, Board, MOST_QUEUES, Published};
use iodyno_mirror::superblock::{BLOCK, DATA, Fork, Geometry, Member};
use iodyno_mirror::{
    LegQueue, LegSet, LegView, PolicyKind, QueueSettings, ReadPolicy, ReadRequest, Transfer,
};
use iodyno_model::{Engine, EngineKind};
use iodyno_sim::Disk;
use iodyno_sys::memory::Arena;
use iodyno_sys::{
    Backend, BackendError, Clock, Completion, Completions, Device, File, MonotonicClock,
    Op as KernelOp, OpKind as KernelKind, UringBackend,
};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{AtFlags, FileType, SeekFrom, StatxFlags, statx};
use rustix::io::ReadWriteFlags;
use uuid::Uuid;

/// The longest op of a leg, and the longest part of a request, bytes.
pub(crate) const SLOT_BYTES: u32 = 1 << 20;
/// Slots of a leg beyond those of its queue: for flushes, superblocks and the log.
const EXTRA_SLOTS: u32 = 6;
/// Lanes beyond those of the legs at the start. Each needs 16 MiB.
const SPARE_LANES: u32 = 2;
/// Messages that wait for the thread of a mirror; who sends more waits.
const MOST_MESSAGES: usize = 1024;
/// Between two ticks of the mirror, ns.
const TICK_NS: u64 = 1_000_000_000;
/// Between two looks at silent legs, ns.
pub(crate) const LOOK_NS: u64 = 1_000_000_000;
/// Between two looks at the path of a leg.
const PLACES: Duration = Duration::from_millis(500);
/// Between two credits for copying, ns.
const CREDIT_NS: u64 = 100_000_000;

const EIO: Errno = 5;
const EBUSY: Errno = 16;
const EINVAL: Errno = 22;
const EMFILE: Errno = 24;
const EOPNOTSUPP: Errno = 95;

/// Settings of a running mirror.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Chooses the leg of a read.
    pub policy: PolicyKind,
    /// A leg that does not answer for so long is dropped, ns.
    pub leg_timeout_ns: u64,
    /// Bytes per second that are copied while resyncing.
    pub resync_rate: u64,
    /// Of random policies.
    pub seed: u64,
}

/// A request to the mirror.
#[derive(Debug)]
pub struct Request {
    /// What it does.
    pub access: Access,
    /// Start, bytes.
    pub offset: u64,
    /// Length, bytes.
    pub length: u32,
    /// The bytes of a write; empty: zeros. For a read, a buffer for the bytes, of any length and content. The reply
    /// returns it.
    pub payload: Vec<u8>,
    /// Whether zeros may be holes in legs that are files.
    pub holes: bool,
    /// Number for the reply.
    pub cookie: u64,
    /// Where the reply goes. If it is gone, the reply is dropped.
    pub reply: ReplyTo,
    /// The queue that it comes from, whose policy chooses the leg of a read.
    pub queue: u32,
    /// Of a read that its queue sent to a leg itself: the leg that failed, and its error.
    pub failed: Option<(usize, Errno)>,
}

/// Where replies go.
#[derive(Debug, Clone)]
pub struct ReplyTo {
    sender: SyncSender<Reply>,
    wake: Option<Arc<OwnedFd>>,
    direct: Option<Arc<dyn Direct>>,
}

/// Sends replies without another thread.
pub trait Direct: std::fmt::Debug + Send + Sync {
    /// Sends a reply if it can do so without waiting; otherwise returns it.
    fn try_send(&self, reply: Reply) -> Option<Reply>;
}

impl ReplyTo {
    /// To a thread that waits for the receiver and has at most this many requests in flight: with more, the mirror
    /// would wait.
    pub fn new(most: usize) -> (ReplyTo, Receiver<Reply>) {
        ReplyTo::with(None, most)
    }

    /// To a thread that waits for this eventfd and has at most this many requests in flight.
    pub fn waking(wake: Arc<OwnedFd>, most: usize) -> (ReplyTo, Receiver<Reply>) {
        ReplyTo::with(Some(wake), most)
    }

    fn with(wake: Option<Arc<OwnedFd>>, most: usize) -> (ReplyTo, Receiver<Reply>) {
        let (sender, replies) = sync_channel(most);
        let reply = ReplyTo {
            sender,
            wake,
            direct: None,
        };
        (reply, replies)
    }

    /// The same, for which the thread of the mirror tries first to send replies itself.
    pub fn directly(&self, direct: Arc<dyn Direct>) -> ReplyTo {
        ReplyTo {
            direct: Some(direct),
            ..self.clone()
        }
    }

    /// Sends a reply. `false`: nobody waits for it.
    pub fn send(&self, reply: Reply) -> bool {
        let reply = match &self.direct {
            Some(direct) => match direct.try_send(reply) {
                Some(reply) => reply,
                None => return true,
            },
            None => reply,
        };
        let sent = self.sender.send(reply).is_ok();
        if let Some(wake) = self.wake.as_ref().filter(|_| sent) {
            // It fails only if its counter is full, and then the thread wakes up anyway.
            let _ = rustix::io::write(&**wake, &1u64.to_ne_bytes());
        }
        sent
    }
}

/// The answer to a request.
#[derive(Debug)]
pub struct Reply {
    /// The request's number.
    pub cookie: u64,
    /// The error; 0: none.
    pub errno: Errno,
    /// What was read.
    pub data: Vec<u8>,
    /// The request's buffer, if `data` is not in it.
    pub spare: Vec<u8>,
    /// Length of the request, bytes.
    pub length: u32,
}

impl Reply {
    /// The buffer of the request, with any content.
    pub fn into_buffer(self) -> Vec<u8> {
        match self.data.is_empty() {
            true => self.spare,
            false => self.data,
        }
    }
}

/// What a thread that manages the mirror asks for. Changes are answered when they are recorded; see the events of the
/// mirror with the same names for their errors.
#[derive(Debug)]
pub enum Ask {
    /// The state of the mirror.
    Status(Sender<Status>),
    /// Adds a leg whose log is clear. Also `EMFILE`: no lane is free.
    Add {
        /// Its UUID.
        uuid: Uuid,
        /// Its storage, with a descriptor.
        leg: OpenLeg,
        /// The answer.
        reply: Sender<Result<(), Errno>>,
    },
    /// Removes a leg.
    Remove {
        /// Its UUID.
        uuid: Uuid,
        /// The answer.
        reply: Sender<Result<(), Errno>>,
    },
    /// Takes back a leg that was dropped. Also `EBUSY`: it has not returned all of its ops.
    Return {
        /// Its UUID.
        uuid: Uuid,
        /// What is recorded on it now; `None`: it has another content.
        stored: Option<Fork>,
        /// The answer.
        reply: Sender<Result<(), Errno>>,
    },
    /// Compares all legs. `EBUSY`: a comparison is in progress.
    Scrub {
        /// The leg that is right where they differ; `None`: only report.
        from: Option<Uuid>,
        /// Whether it begins.
        reply: Sender<Result<(), Errno>>,
        /// What is found, with the names of the legs; it ends with [`Notice::Scrubbed`].
        found: Sender<(Notice, Vec<String>)>,
    },
}

/// The state of a running mirror.
#[derive(Debug, Clone)]
pub struct Status {
    /// Its UUID.
    pub mirror: Uuid,
    /// Generation of its superblocks.
    pub generation: u64,
    /// Sizes.
    pub geometry: Geometry,
    /// Bytes that are still to be copied.
    pub to_copy: u64,
    /// Regions that the log marks.
    pub marked: usize,
    /// Whether all legs are in sync and no region may differ.
    pub redundant: bool,
    /// Whether no leg accepted the record of a drop: then the states of the legs may not be recorded.
    pub halted: bool,
    /// How far the comparison in progress has come, bytes.
    pub scrubbed: Option<u64>,
    /// The legs in the order of the table.
    pub legs: Vec<LegStatus>,
    /// Ops in flight on legs that were removed.
    pub in_flight_removed: u32,
}

/// A leg of a running mirror.
#[derive(Debug, Clone)]
pub struct LegStatus {
    /// Its UUID and state.
    pub member: Member,
    /// Its name in messages.
    pub name: String,
    /// Its path; `None`: it is missing.
    pub path: Option<PathBuf>,
    /// Whether it gets writes.
    pub online: bool,
    /// Its ops in flight.
    pub in_flight: u32,
    /// Why it was dropped, or else what is wrong with it.
    pub cause: Option<Cause>,
}

/// What the thread is told.
#[derive(Debug)]
enum Message {
    Request(Request),
    Ask(Ask),
    /// A leg does not answer to a queue.
    Silent(usize),
    /// A queue found that a leg became shorter.
    Shortened(usize),
    Stop,
}

/// What the queues of a mirror share. Queue 0 is that of its thread.
#[derive(Debug)]
pub(crate) struct Queues {
    board: Board,
    published: OnceLock<Arc<Published>>,
    leg_timeout_ns: AtomicU64,
    /// Changes of the table so far.
    generation: AtomicU32,
    table: Mutex<Table>,
    /// A bit for each leg whose file was removed or replaced.
    lost: AtomicU32,
    /// Whether the thread of the mirror has to be woken for a message.
    alarm: Alarm,
    /// The event that wakes each queue.
    wakes: Vec<Arc<OwnedFd>>,
    /// Queues that no thread has.
    free: Mutex<Vec<usize>>,
    /// Buffers of a ring that has ended, for the next one.
    arenas: Mutex<Vec<Arena>>,
    /// Bytes of the buffers of all rings, and of these.
    arena_bytes: AtomicUsize,
}

/// Bytes of all buffers.
fn size(arena: &Arena) -> usize {
    arena.slots() as usize * arena.slot_bytes()
}

/// What queues read of the legs when it has changed.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) legs: Vec<TableLeg>,
    /// The policy of each queue whose thread does not have it. `None`: the queue does not read itself.
    pub(crate) policies: Vec<Option<Box<dyn ReadPolicy>>>,
}

#[derive(Debug)]
pub(crate) struct TableLeg {
    /// `None`: it is missing or was removed.
    pub(crate) file: Option<OwnedFd>,
    pub(crate) rotational: bool,
    /// Its ops are prepared by [`UringBackend::prep_apart`].
    pub(crate) apart: bool,
    /// `None`: it is not a file.
    place: Option<Place>,
}

/// Where a file is.
#[derive(Debug, Clone)]
struct Place {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Place {
    /// The place of a leg that is a file.
    fn of(path: Option<&PathBuf>, held: Option<&Held>) -> Option<Place> {
        let found = rustix::fs::fstat(&held.filter(|held| held.regular)?.file).ok()?;
        Some(Place {
            path: path?.clone(),
            device: found.st_dev,
            inode: found.st_ino,
        })
    }

    /// Whether the path leads to the file no more.
    fn is_lost(&self) -> bool {
        match self.path.metadata() {
            Ok(found) => (found.dev(), found.ino()) != (self.device, self.inode),
            Err(error) => matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ),
        }
    }
}

/// Looks at the place of a leg until the leg is removed, or the mirror ends. It has a thread of its own, which waits
/// for its own file system only, and for which nobody waits.
fn watch_place(queues: Arc<Queues>, leg: usize) -> Result<(), BackendError> {
    let watch = move || {
        loop {
            let table = queues.table();
            let found = table.legs.get(leg).filter(|leg| leg.file.is_some());
            let Some(place) = found.and_then(|leg| leg.place.clone()) else {
                return;
            };
            drop(table);
            if place.is_lost() {
                queues.lost.fetch_or(1 << leg, Ordering::Relaxed);
                queues.rouse(0);
            }
            std::thread::sleep(PLACES);
        }
    };
    let thread = std::thread::Builder::new().name("leg-path".to_owned());
    let started = thread.spawn(watch).map(drop);
    started.map_err(|error| BackendError::new("start a thread", error))
}

impl Queues {
    fn new(queues: u32) -> io::Result<Queues> {
        let queues = (queues as usize + 1).min(MOST_QUEUES);
        // Rings read them, and wait for that.
        let wakes = (0..queues).map(|_| Ok(Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?)));
        Ok(Queues {
            board: Board::new(queues, QueueSettings::default().active),
            published: OnceLock::new(),
            leg_timeout_ns: AtomicU64::new(u64::MAX),
            generation: AtomicU32::new(0),
            table: Mutex::default(),
            lost: AtomicU32::new(0),
            alarm: Alarm::default(),
            wakes: wakes.collect::<io::Result<_>>()?,
            free: Mutex::new((1..queues).rev().collect()),
            arenas: Mutex::default(),
            arena_bytes: AtomicUsize::new(0),
        })
    }

    pub(crate) fn board(&self) -> &Board {
        &self.board
    }

    /// `None`: the mirror has not begun.
    pub(crate) fn published(&self) -> Option<&Published> {
        self.published.get().map(|published| &**published)
    }

    pub(crate) fn in_sync(&self) -> LegSet {
        self.published().map_or(LegSet::NONE, Published::in_sync)
    }

    pub(crate) fn leg_timeout_ns(&self) -> u64 {
        self.leg_timeout_ns.load(Ordering::Relaxed)
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the table, and wakes all queues.
    fn change(&self, change: impl FnOnce(&mut Table)) {
        let mut table = self.table();
        change(&mut table);
        self.generation.fetch_add(1, Ordering::Release);
        drop(table);
        self.rouse_all();
    }

    fn arenas(&self) -> MutexGuard<'_, Vec<Arena>> {
        self.arenas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Buffers for a ring. Those of another size are not needed any more, because the number of legs has changed.
    pub(crate) fn take_arena(&self, slots: u32, bytes: usize) -> io::Result<Arena> {
        let mut arenas = self.arenas();
        let fits = |arena: &Arena| (arena.slots(), arena.slot_bytes()) == (slots, bytes);
        if let Some(at) = arenas.iter().position(fits) {
            return Ok(arenas.swap_remove(at));
        }
        arenas.retain(|arena| {
            let kept = arena.slot_bytes() != bytes;
            self.arena_bytes
                .fetch_sub(if kept { 0 } else { size(arena) }, Ordering::Relaxed);
            kept
        });
        let arena = Arena::new(slots, bytes, 0, false)?;
        self.arena_bytes.fetch_add(size(&arena), Ordering::Relaxed);
        Ok(arena)
    }

    /// Takes the buffers of a ring that has ended; `None`: the kernel still has some, and they are lost. Those of one
    /// ring are kept for the next one.
    pub(crate) fn put_arena(&self, arena: Option<Arena>) {
        let Some(arena) = arena else { return };
        let mut arenas = self.arenas();
        match arenas.is_empty() {
            true => arenas.push(arena),
            false => {
                self.arena_bytes.fetch_sub(size(&arena), Ordering::Relaxed);
            }
        }
    }

    fn free(&self) -> MutexGuard<'_, Vec<usize>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commands that a queue may have in its ring without waiting for its own.
    pub(crate) fn slots(&self) -> usize {
        // Before the mirror has begun, its legs are not known.
        self.table().legs.len().max(2) * QueueSettings::default().active as usize
    }

    /// A queue that no thread has.
    pub(crate) fn enter(&self) -> Option<usize> {
        self.free().pop()
    }

    /// The event of a queue, or a new one.
    pub(crate) fn wake(&self, queue: Option<usize>) -> Result<Arc<OwnedFd>, BackendError> {
        let made = match queue {
            Some(queue) => return Ok(Arc::clone(&self.wakes[queue])),
            None => eventfd(0, EventfdFlags::CLOEXEC),
        };
        made.map(Arc::new)
            .map_err(|errno| BackendError::new("create an eventfd", errno.into()))
    }

    /// The thread of a queue ends; nothing of it is in flight. It returns the policy that it had.
    pub(crate) fn leave(&self, queue: Option<usize>, policy: Option<Box<dyn ReadPolicy>>) {
        let Some(queue) = queue else { return };
        self.board.leave(queue, |next| self.rouse(next));
        if let Some(own) = self.table().policies.get_mut(queue) {
            // A newer one was made if the legs have changed.
            *own = own.take().or(policy);
        }
        self.free().push(queue);
    }

    /// Wakes the thread of a queue.
    pub(crate) fn rouse(&self, queue: usize) {
        // It fails only if its counter is full, and then the thread wakes up anyway.
        let _ = rustix::io::write(&*self.wakes[queue], &1u64.to_ne_bytes());
    }

    fn rouse_all(&self) {
        (1..self.wakes.len()).for_each(|queue| self.rouse(queue));
    }
}

/// Sends requests to a mirror from any thread.
#[derive(Debug, Clone)]
pub struct Handle {
    messages: SyncSender<Message>,
    queues: Arc<Queues>,
}

impl Handle {
    /// Sends a request. It is dropped if the mirror has ended.
    pub fn request(&self, request: Request) {
        self.send(Message::Request(request));
    }

    /// Asks the mirror. What should get the answer is dropped if the mirror has ended.
    pub fn ask(&self, ask: Ask) {
        self.send(Message::Ask(ask));
    }

    /// Ends the mirror when all its requests have ended.
    pub fn stop(&self) {
        self.send(Message::Stop);
    }

    /// Bytes of the buffers of all rings of queues, also of those that wait for the next ones.
    pub fn buffer_bytes(&self) -> usize {
        self.queues.arena_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn queues(&self) -> &Arc<Queues> {
        &self.queues
    }

    /// Reports that a leg does not answer to a queue.
    pub(crate) fn silent(&self, leg: usize) {
        self.send(Message::Silent(leg));
    }

    /// Reports that a leg became shorter.
    pub(crate) fn shortened(&self, leg: usize) {
        self.send(Message::Shortened(leg));
    }

    fn send(&self, message: Message) {
        if self.messages.send(message).is_ok() && self.queues.alarm.raise() {
            self.queues.rouse(0);
        }
    }
}

/// The other end of handles, for [`run`].
#[derive(Debug)]
pub struct Inbox {
    messages: Receiver<Message>,
    queues: Arc<Queues>,
}

/// A channel to a mirror, of which up to `queues` threads can read by a [`Reader`](crate::reader::Reader).
///
/// # Errors
/// As eventfd(2).
pub fn channel(queues: u32) -> io::Result<(Handle, Inbox)> {
    let queues = Arc::new(Queues::new(queues)?);
    let (sender, receiver) = sync_channel(MOST_MESSAGES);
    let handle = Handle {
        messages: sender,
        queues: Arc::clone(&queues),
    };
    let inbox = Inbox {
        messages: receiver,
        queues,
    };
    Ok((handle, inbox))
}

/// A leg of the mirror's table.
#[derive(Debug)]
pub struct OpenLeg {
    /// Its name in messages.
    pub name: String,
    /// Its path; `None` if the leg is missing.
    pub path: Option<PathBuf>,
    /// Opened with O_DIRECT; `None` if the leg is missing.
    pub descriptor: Option<OwnedFd>,
    /// Whether ranges can become zeros without a write of them, by fallocate(2).
    pub zeroes: bool,
    /// Whether its medium rotates.
    pub rotational: bool,
    /// The simulated disk whose time reads and writes take at least.
    pub delay: Option<Box<Disk>>,
}

/// What is done besides serving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Nothing: it ends when it is told to.
    Serve,
    /// Compares all legs, and ends. The leg that is right where they differ; `None`: only report.
    Scrub(Option<usize>),
}

/// Runs the mirror in this thread until it was told to stop, or its task has ended, and nothing is in flight. All legs
/// of its table are given in order. Notices come with the names of all legs.
///
/// # Errors
/// If the ring fails. Failed legs are notices.
pub fn run(
    mirror: Mirror,
    legs: Vec<OpenLeg>,
    settings: Settings,
    task: Task,
    inbox: Inbox,
    notice: &mut dyn FnMut(Notice, &[String]),
) -> Result<(), BackendError> {
    let mut server = Server::new(mirror, legs, settings, inbox, notice)?;
    let ended = server.run(task);
    server.release_legs();
    ended
}

/// The memory of an op.
#[derive(Debug, Clone)]
enum Memory {
    None,
    /// Zeros are written, or a hole is punched, which reads as zeros.
    Zeros {
        hole: bool,
    },
    /// These bytes are written.
    From(Rc<[u8]>),
    /// A client's part is written, or gets what is read.
    Client(u64),
    /// A buffer of a task gets what is read.
    Own(u32, usize),
    /// This is written, if what is read before is `expected`.
    Superblock {
        expected: Option<Box<[u8; BLOCK]>>,
        new: Box<[u8; BLOCK]>,
    },
    /// What is read has to be this.
    Expected(Box<[u8; BLOCK]>),
}

/// An op of the mirror, waiting or issued.
#[derive(Debug)]
struct Entry {
    id: OpId,
    leg: usize,
    kind: OpKind,
    offset: u64,
    length: u32,
    memory: Memory,
}

impl Entry {
    fn is_hole(&self) -> bool {
        matches!(self.memory, Memory::Zeros { hole: true })
    }
}

/// What a slot of the ring does: several entries with adjacent ranges, or one.
#[derive(Debug)]
struct InFlightIo {
    leg: usize,
    entries: Vec<u32>,
    /// The command of the leg's queue, by its first request.
    command: Option<u32>,
    kind: KernelKind,
    /// The write has to be durable.
    fua: bool,
    offset: u64,
    length: u32,
    /// Bytes transferred so far.
    done: u32,
    /// When it was issued, ns.
    since: u64,
    /// The simulated disk of the leg has not ended it.
    delayed: bool,
    /// Its result and when the kernel ended it, ns, while it is delayed.
    ended: Option<(Result<(), Errno>, u64)>,
}

/// A part of a request, as long as a slot or shorter.
#[derive(Debug)]
struct Part {
    request: u64,
    /// Its start in the request, bytes.
    at: usize,
}

/// A request whose parts are in progress.
#[derive(Debug)]
struct Open {
    cookie: u64,
    reply: ReplyTo,
    /// Whether it reads.
    read: bool,
    /// Bytes to write, or that were read; empty: zeros are written, or none.
    bytes: Vec<u8>,
    holes: bool,
    length: u32,
    parts: u32,
    errno: Errno,
    queue: u32,
}

/// Chooses legs by the policy, which sees the queues.
struct Chooser<'a> {
    policy: &'a mut dyn ReadPolicy,
    board: &'a Board,
    rotational: &'a [bool],
    views: &'a mut Vec<LegView>,
    now: u64,
}

impl Choose for Chooser<'_> {
    fn choose(&mut self, offset: u64, length: u32, legs: LegSet) -> usize {
        self.views.clear();
        let rotational = self.rotational.iter().enumerate();
        let views = rotational.map(|(leg, rotates)| self.board.view(leg, legs.has(leg), *rotates));
        self.views.extend(views);
        let request = ReadRequest {
            offset,
            length: length.into(),
        };
        let chosen = self.policy.choose(&request, self.views, self.now);
        chosen.or(legs.first()).expect("a leg that may be read")
    }
}

fn answer(reply: &Sender<Result<(), Errno>>, result: Result<(), Errno>) {
    // Who asked may have gone.
    let _ = reply.send(result);
}

/// The file of a leg. Also on a device, a hole is punched by fallocate(2), which promises zeros; a discard does not.
fn leg_file(descriptor: OwnedFd) -> File {
    File {
        descriptor,
        device: false,
    }
}

fn copy_of(descriptor: &OwnedFd) -> Result<OwnedFd, BackendError> {
    (descriptor.try_clone())
        .map_err(|error| BackendError::new("duplicate the descriptor of a leg", error))
}

/// A leg, whose length can change while it is used.
#[derive(Debug)]
struct Held {
    file: OwnedFd,
    regular: bool,
    /// Its file system may make a call wait.
    apart: bool,
}

/// Whether a call on a file may wait although it is asked not to, as on FUSE and network file systems. The call that
/// submits an op to io_uring may wait then as well.
fn waits(descriptor: &OwnedFd) -> bool {
    let mut byte = [0];
    let mut into = [std::io::IoSliceMut::new(&mut byte)];
    let read = rustix::io::preadv2(descriptor, &mut into, 0, ReadWriteFlags::NOWAIT);
    read == Err(rustix::io::Errno::OPNOTSUPP)
}

impl Held {
    fn of(descriptor: &OwnedFd) -> Result<Held, BackendError> {
        let found = rustix::fs::fstat(descriptor)
            .map_err(|error| BackendError::new("look at a leg", error.into()))?;
        Ok(Held {
            file: copy_of(descriptor)?,
            regular: FileType::from_raw_mode(found.st_mode) == FileType::RegularFile,
            apart: waits(descriptor),
        })
    }

    fn length(&self) -> rustix::io::Result<u64> {
        // A server of the network is not asked: it may not answer.
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        match self.regular {
            true => statx(&self.file, "", flags, StatxFlags::SIZE).map(|found| found.stx_size),
            false => rustix::fs::seek(&self.file, SeekFrom::End(0)),
        }
    }
}

/// The queue of this thread for a leg.
fn leg_queue(shared: &Queues, leg: usize) -> LegQueue {
    let settings = QueueSettings {
        // The limit is that of all queues.
        active: u32::MAX,
        ..QueueSettings::default()
    };
    LegQueue::sharing(settings, 1024, shared.board.marks(leg))
}

/// A file of the ring that is not used.
fn placeholder(inbox: &Inbox) -> Result<File, BackendError> {
    let descriptor = (inbox.queues.wakes[0].try_clone())
        .map_err(|error| BackendError::new("duplicate the eventfd", error))?;
    Ok(File {
        descriptor,
        device: false,
    })
}

struct Server<'a> {
    mirror: Mirror,
    settings: Settings,
    shared: Arc<Queues>,
    /// Of this queue; of all queues if the others do not read themselves.
    policies: Vec<Box<dyn ReadPolicy>>,
    names: Vec<String>,
    paths: Vec<Option<PathBuf>>,
    views: Vec<LegView>,
    rotational: Vec<bool>,
    /// Whether each leg can make zeros without a write.
    zeroes: Vec<bool>,
    delays: Vec<Option<Box<Disk>>>,
    /// Index of each leg among the ring's files, which is that of its lane.
    files: Vec<Option<u32>>,
    /// The legs that are given.
    held: Vec<Option<Held>>,
    /// Those that are long enough, of the writes that are issued together.
    long: LegSet,
    /// Lanes that no leg uses, with their slots.
    spare: Vec<(u32, Vec<u32>)>,
    queues: Vec<LegQueue>,
    /// Entries that bypass the queues, of each leg.
    direct: Vec<VecDeque<u32>>,
    entries: Vec<Option<Entry>>,
    free_entries: Vec<u32>,
    /// Empty lists of entries, for the next flights.
    lists: Vec<Vec<u32>>,
    flights: Vec<Option<InFlightIo>>,
    free_slots: Vec<Vec<u32>>,
    backend: UringBackend,
    clock: MonotonicClock,
    own: HashMap<(u32, usize), Rc<[u8]>>,
    parts: HashMap<u64, Part>,
    requests: HashMap<u64, Open>,
    next_id: u64,
    inbox: Inbox,
    wake_file: u32,
    wake_slot: u32,
    /// The ring reads the eventfd.
    listening: bool,
    events: VecDeque<Event>,
    orders: Vec<Order>,
    notice: &'a mut dyn FnMut(Notice, &[String]),
    /// Who asked for a change of the legs.
    changes: HashMap<u64, Sender<Result<(), Errno>>>,
    /// Who asked for the comparison in progress.
    scrub: Option<Sender<(Notice, Vec<String>)>>,
    task: Task,
    stopped: bool,
}

impl<'a> Server<'a> {
    fn new(
        mirror: Mirror,
        legs: Vec<OpenLeg>,
        settings: Settings,
        inbox: Inbox,
        notice: &'a mut dyn FnMut(Notice, &[String]),
    ) -> Result<Server<'a>, BackendError> {
        let shared = Arc::clone(&inbox.queues);
        let each = QueueSettings::default().active + EXTRA_SLOTS;
        let count = legs.len() as u32;
        let lanes = count + SPARE_LANES;
        let slots = lanes * each + 1;
        let mut legs = legs;
        let delays: Vec<Option<Box<Disk>>> = legs.iter_mut().map(|leg| leg.delay.take()).collect();
        let rotates = |(leg, delay): (&OpenLeg, &Option<Box<Disk>>)| {
            (delay.as_ref()).map_or(leg.rotational, |disk| disk.rotational())
        };
        let rotational = legs.iter().zip(&delays).map(rotates).collect();
        let zeroes = legs.iter().map(|leg| leg.zeroes).collect();
        let names = legs.iter().map(|leg| leg.name.clone()).collect();
        let paths = legs.iter().map(|leg| leg.path.clone()).collect();
        let mut files = Vec::new();
        let mut copies = Vec::new();
        let mut held = Vec::new();
        let mut of_leg = Vec::new();
        let mut spare = Vec::new();
        let mut free_slots = Vec::new();
        let legs = legs.into_iter().map(Some);
        for (lane, leg) in (0..lanes).zip(legs.chain(std::iter::repeat_with(|| None))) {
            let own: Vec<u32> = (lane * each..(lane + 1) * each).collect();
            match leg {
                Some(OpenLeg {
                    descriptor: Some(descriptor),
                    ..
                }) => {
                    copies.push(Some(copy_of(&descriptor)?));
                    held.push(Some(Held::of(&descriptor)?));
                    files.push(leg_file(descriptor));
                    of_leg.push(Some(lane));
                    free_slots.push(own);
                }
                missing => {
                    files.push(placeholder(&inbox)?);
                    spare.push((lane, own));
                    if missing.is_some() {
                        copies.push(None);
                        held.push(None);
                        of_leg.push(None);
                        free_slots.push(Vec::new());
                    }
                }
            }
        }
        let wake_file = lanes;
        files.push(placeholder(&inbox)?);
        let arena = Arena::new(slots, SLOT_BYTES as usize, 0, false)
            .map_err(|error| BackendError::new("get memory for buffers", error))?;
        let engine = Engine::new(EngineKind::IoUring, slots);
        let queues = (0..count as usize).map(|leg| leg_queue(&shared, leg));
        let queues = queues.collect();
        let mut server = Server {
            settings,
            shared,
            policies: Vec::new(),
            names,
            paths,
            views: Vec::new(),
            rotational,
            zeroes,
            delays,
            files: of_leg,
            held,
            long: LegSet::NONE,
            spare,
            queues,
            direct: (0..count).map(|_| VecDeque::new()).collect(),
            entries: Vec::new(),
            free_entries: Vec::new(),
            lists: Vec::new(),
            flights: (0..slots).map(|_| None).collect(),
            free_slots,
            backend: UringBackend::new(files, arena, &engine)?,
            clock: MonotonicClock,
            own: HashMap::new(),
            parts: HashMap::new(),
            requests: HashMap::new(),
            next_id: 0,
            inbox,
            wake_file,
            wake_slot: slots - 1,
            listening: false,
            events: VecDeque::new(),
            orders: Vec::new(),
            notice,
            changes: HashMap::new(),
            scrub: None,
            task: Task::Serve,
            stopped: false,
            mirror,
        };
        server.backend.allow_workers();
        let timeout = settings.leg_timeout_ns;
        (server.shared.leg_timeout_ns).store(timeout, Ordering::Relaxed);
        let published = server.mirror.published();
        // There is one server of a channel.
        let _ = server.shared.published.set(published);
        server.build_policies(count as usize);
        let rotational = server.rotational.clone();
        let places = server.paths.iter().zip(&server.held);
        let places = places.map(|(path, file)| Place::of(path.as_ref(), file.as_ref()));
        let places: Vec<Option<Place>> = places.collect();
        let apart: Vec<bool> = (0..copies.len()).map(|leg| server.is_apart(leg)).collect();
        server.shared.change(|table| {
            let legs = copies.into_iter().zip(rotational).zip(places).zip(apart);
            let leg = |(((file, rotational), place), apart)| TableLeg {
                file,
                rotational,
                apart,
                place,
            };
            table.legs = legs.map(leg).collect();
        });
        Ok(server)
    }

    /// Makes the policies of all queues for this number of legs.
    fn build_policies(&mut self, legs: usize) {
        let (queues, seed) = (self.shared.board.queues(), self.settings.seed);
        let mut policies = self.settings.policy.build_queues(queues as u32, legs, seed);
        if self.delays.iter().all(Option::is_none) {
            let others = policies.drain(1..).map(Some);
            self.shared.table().policies = std::iter::once(None).chain(others).collect();
        }
        // Otherwise this thread has the models of the disks, and reads for all queues.
        self.policies = policies;
    }

    fn run(&mut self, task: Task) -> Result<(), BackendError> {
        self.task = task;
        let mut orders = std::mem::take(&mut self.orders);
        self.mirror.start(&mut orders);
        self.orders = orders;
        self.obey();
        if let Task::Scrub(from) = task {
            self.events.push_back(Event::Scrub { from });
        }
        for leg in 0..self.names.len() {
            watch_place(Arc::clone(&self.shared), leg)?;
        }
        self.serve()
    }

    /// Closes all legs, as far as nothing is in flight. The ring would close them a moment after the end of the
    /// process.
    fn release_legs(&mut self) {
        self.shared.change(|table| table.legs.clear());
        self.held.clear();
        self.backend.cancel_all();
        let mut completions = Completions::with_capacity(self.flights.len() as u32);
        let deadline = self.clock.now() + LOOK_NS;
        while self.listening && self.clock.now() < deadline {
            let most = self.flights.len() as u32;
            if (self.backend.turn(1, most, Some(deadline), &mut completions)).is_err() {
                break;
            }
            let slots = completions.list.iter().map(|completion| completion.slot);
            self.listening &= slots.into_iter().all(|slot| slot != self.wake_slot);
        }
        for lane in std::mem::take(&mut self.files).into_iter().flatten() {
            if let Ok(file) = placeholder(&self.inbox) {
                let _ = self.backend.replace_file(lane, file);
            }
        }
    }

    /// Handles what happens until the mirror has stopped.
    fn serve(&mut self) -> Result<(), BackendError> {
        let mut completions = Completions::with_capacity(self.flights.len() as u32);
        let now = self.clock.now();
        let (mut tick, mut look, mut credit) = (now + TICK_NS, now + LOOK_NS, now);
        while !self.stopped {
            let now = self.clock.now();
            if now >= tick {
                tick = now + TICK_NS;
                self.events.push_back(Event::Tick);
            }
            if now >= look {
                look = now + LOOK_NS;
                self.look(now);
            }
            let copying = self.mirror.to_copy() > 0;
            if copying && now >= credit {
                credit = now + CREDIT_NS;
                let bytes = self.settings.resync_rate / (1_000_000_000 / CREDIT_NS);
                self.events.push_back(Event::Credit(bytes.max(1)));
            }
            let lost = self.shared.lost.swap(0, Ordering::Relaxed);
            for leg in (0..self.names.len()).filter(|leg| lost & (1 << leg) != 0) {
                self.events.push_back(Event::Replaced { leg });
            }
            self.handle_events();
            // Before it looks at messages, and then waits.
            self.shared.alarm.listen();
            self.receive();
            self.handle_events();
            if self.stopped {
                break;
            }
            self.end_delays();
            self.handle_events();
            if self.stopped {
                break;
            }
            self.submit();
            if !self.events.is_empty() {
                continue;
            }
            let ends = self
                .delays
                .iter()
                .flatten()
                .filter_map(|disk| disk.next_end());
            let deadline = if copying { look.min(credit) } else { look };
            let deadline = ends.fold(deadline, u64::min);
            let most = self.flights.len() as u32;
            self.backend
                .turn(1, most, Some(deadline), &mut completions)?;
            self.shared.alarm.mute();
            for completion in &completions.list {
                self.completed(completion);
            }
        }
        Ok(())
    }

    /// Legs that do not answer, or became shorter, are given up.
    fn look(&mut self, now: u64) {
        self.reclaim();
        self.long = LegSet::NONE;
        for leg in 0..self.held.len() {
            if self.is_short(leg) {
                self.events.push_back(Event::Shortened { leg });
            }
        }
        let mut silent = LegSet::NONE;
        for flight in self.flights.iter().flatten() {
            if now.saturating_sub(flight.since) > self.settings.leg_timeout_ns {
                silent.add(flight.leg);
            }
        }
        for leg in silent.and(self.mirror.online()).iter() {
            self.events.push_back(Event::Lost { leg });
        }
    }

    fn receive(&mut self) {
        while let Ok(message) = self.inbox.messages.try_recv() {
            match message {
                Message::Stop => self.events.push_back(Event::Stop),
                Message::Request(request) => self.accept(request),
                Message::Ask(ask) => self.asked(ask),
                Message::Silent(leg) => {
                    if self.mirror.online().has(leg) {
                        self.events.push_back(Event::Lost { leg });
                    }
                }
                Message::Shortened(leg) => self.events.push_back(Event::Shortened { leg }),
            }
        }
    }

    /// Splits a request into parts that fit in slots.
    fn accept(&mut self, request: Request) {
        let number = self.next_id;
        let whole = request.length as usize;
        let flush = request.access == Access::Flush;
        let parts = if flush {
            1
        } else {
            whole.div_ceil(SLOT_BYTES as usize).max(1)
        };
        let mut bytes = request.payload;
        let read = request.access == Access::Read;
        if read {
            bytes.resize(whole, 0);
        }
        self.requests.insert(
            number,
            Open {
                cookie: request.cookie,
                reply: request.reply,
                read,
                bytes,
                holes: request.holes,
                length: request.length,
                parts: parts as u32,
                errno: 0,
                queue: request.queue,
            },
        );
        for part in 0..parts {
            let at = part * SLOT_BYTES as usize;
            let id = self.next_id;
            self.next_id += 1;
            self.parts.insert(
                id,
                Part {
                    request: number,
                    at,
                },
            );
            let length = if flush {
                0
            } else {
                (whole - at).min(SLOT_BYTES as usize)
            };
            let part = MirrorRequest {
                id,
                access: request.access,
                offset: request.offset.saturating_add(at as u64),
                length: length as u32,
            };
            self.events.push_back(match request.failed {
                Some((leg, error)) => Event::Failed {
                    request: part,
                    leg,
                    error,
                },
                None => Event::Request(part),
            });
        }
    }

    fn handle_events(&mut self) {
        while let Some(event) = self.events.pop_front() {
            let policy = match event {
                Event::Request(request) if self.policies.len() > 1 => {
                    let part = self.parts.get(&request.id);
                    let open = part.and_then(|part| self.requests.get(&part.request));
                    open.map_or(0, |open| open.queue as usize)
                }
                _ => 0,
            };
            let mut chooser = Chooser {
                policy: &mut *self.policies[policy],
                board: &self.shared.board,
                rotational: &self.rotational,
                views: &mut self.views,
                now: self.clock.now(),
            };
            self.mirror.handle(event, &mut chooser, &mut self.orders);
            self.obey();
        }
    }

    // ---- Orders ----

    fn obey(&mut self) {
        let mut orders = std::mem::take(&mut self.orders);
        for order in orders.drain(..) {
            match order {
                Order::Op(op) => self.enqueue(op),
                Order::Reply { id, result } => match self.changes.remove(&id) {
                    Some(reply) => answer(&reply, result),
                    None => self.part_ended(id, result),
                },
                Order::Compare { task, legs } => {
                    let mut buffers = legs.iter().map(|leg| &self.own[&(task, leg)]);
                    let first = buffers.next();
                    let equal = buffers.all(|other| Some(other) == first);
                    self.events.push_back(Event::Compared { task, equal });
                }
                Order::Free { task } => self.own.retain(|(owner, _), _| *owner != task),
                Order::Notice(notice) => self.noticed(notice),
                Order::Stopped => self.stopped = true,
            }
        }
        self.orders = orders;
    }

    fn noticed(&mut self, notice: Notice) {
        (self.notice)(notice, &self.names);
        match notice {
            Notice::Dropped { leg, .. } => {
                self.forget(leg);
                self.shared.rouse_all();
            }
            Notice::Removed(leg) => {
                self.forget(leg);
                self.shared.change(|table| table.legs[leg].file = None);
            }
            Notice::Scrubbed { .. } if self.task != Task::Serve => {
                self.events.push_back(Event::Stop);
            }
            _ => {}
        }
        let about_scrub = matches!(
            notice,
            Notice::Differs { .. } | Notice::Repaired { .. } | Notice::Scrubbed { .. }
        );
        if about_scrub && let Some(found) = &self.scrub {
            // Who asked may have gone.
            let _ = found.send((notice, self.names.clone()));
        }
        if let Notice::Scrubbed { .. } = notice {
            self.scrub = None;
        }
    }

    // ---- Changes of the legs ----

    fn asked(&mut self, ask: Ask) {
        self.handle_events();
        self.reclaim();
        match ask {
            Ask::Status(reply) => drop(reply.send(self.status())),
            Ask::Add { uuid, leg, reply } => self.add(uuid, leg, reply),
            Ask::Remove { uuid, reply } => match self.leg_of(uuid) {
                Some(leg) => self.change(reply, |id| Event::Remove { id, leg }),
                None => answer(&reply, Err(EINVAL)),
            },
            Ask::Return {
                uuid,
                stored,
                reply,
            } => match self.leg_of(uuid) {
                Some(leg) if self.in_flight(leg) > 0 => answer(&reply, Err(EBUSY)),
                Some(leg) => self.change(reply, |id| Event::Return { id, leg, stored }),
                None => answer(&reply, Err(EINVAL)),
            },
            Ask::Scrub { from, reply, found } => {
                let from = from.map(|uuid| self.leg_of(uuid));
                let errno = match from {
                    Some(None) => Some(EINVAL),
                    _ if self.mirror.scrubbed().is_some() => Some(EBUSY),
                    _ => None,
                };
                if errno.is_none() {
                    self.scrub = Some(found);
                    let from = from.flatten();
                    self.events.push_back(Event::Scrub { from });
                }
                answer(&reply, errno.map_or(Ok(()), Err));
            }
        }
    }

    fn leg_of(&self, uuid: Uuid) -> Option<usize> {
        let mut members = self.mirror.members();
        members
            .find(|(_, member)| member.uuid == uuid)
            .map(|(leg, _)| leg)
    }

    fn in_flight(&self, leg: usize) -> u32 {
        let flights = self.flights.iter().flatten();
        let own = flights.filter(|flight| flight.leg == leg).count() as u32;
        own + self.shared.board.commands_of_others(leg)
    }

    fn change(&mut self, reply: Sender<Result<(), Errno>>, event: impl FnOnce(u64) -> Event) {
        let id = self.next_id;
        self.next_id += 1;
        self.changes.insert(id, reply);
        self.events.push_back(event(id));
        self.handle_events();
    }

    fn add(&mut self, uuid: Uuid, leg: OpenLeg, reply: Sender<Result<(), Errno>>) {
        let (Some(descriptor), Some((lane, slots))) = (leg.descriptor, self.spare.pop()) else {
            return answer(&reply, Err(EMFILE));
        };
        let (Ok(copy), Ok(held)) = (copy_of(&descriptor), Held::of(&descriptor)) else {
            self.spare.push((lane, slots));
            return answer(&reply, Err(EMFILE));
        };
        let file = leg_file(descriptor);
        if self.backend.replace_file(lane, file).is_err() {
            self.spare.push((lane, slots));
            return answer(&reply, Err(EMFILE));
        }
        self.names.push(leg.name);
        self.paths.push(leg.path);
        self.rotational.push(leg.rotational);
        self.zeroes.push(leg.zeroes);
        self.delays.push(leg.delay);
        self.files.push(Some(lane));
        self.held.push(Some(held));
        self.free_slots.push(slots);
        let count = self.queues.len() + 1;
        self.queues.push(leg_queue(&self.shared, count - 1));
        self.direct.push(VecDeque::new());
        self.build_policies(count);
        self.change(reply, |id| Event::Add { id, uuid });
        if self.mirror.assembly().parts.len() < self.queues.len() {
            // It was refused.
            self.names.pop();
            self.paths.pop();
            self.rotational.pop();
            self.zeroes.pop();
            self.delays.pop();
            self.files.pop();
            self.held.pop();
            self.queues.pop();
            self.direct.pop();
            self.build_policies(count - 1);
            let slots = self.free_slots.pop().unwrap_or_default();
            return self.free_lane(lane, slots);
        }
        let leg = TableLeg {
            file: Some(copy),
            rotational: self.rotational[count - 1],
            apart: self.is_apart(count - 1),
            place: Place::of(
                self.paths[count - 1].as_ref(),
                self.held[count - 1].as_ref(),
            ),
        };
        self.shared.change(|table| table.legs.push(leg));
        // Without a thread, only the next start notices that its file was replaced.
        let _ = watch_place(Arc::clone(&self.shared), count - 1);
    }

    /// Frees the lanes of legs that were removed and have returned their last op.
    fn reclaim(&mut self) {
        for leg in 0..self.files.len() {
            let removed = self.mirror.members().all(|(member, _)| member != leg);
            if let Some(lane) = self.files[leg]
                && removed
                && self.in_flight(leg) == 0
            {
                self.files[leg] = None;
                self.held[leg] = None;
                let slots = std::mem::take(&mut self.free_slots[leg]);
                self.free_lane(lane, slots);
            }
        }
    }

    /// Closes the leg of a lane.
    fn free_lane(&mut self, lane: u32, slots: Vec<u32>) {
        let closed =
            placeholder(&self.inbox).and_then(|file| self.backend.replace_file(lane, file));
        if closed.is_ok() {
            self.spare.push((lane, slots));
        }
    }

    fn status(&self) -> Status {
        let assembly = self.mirror.assembly();
        let online = self.mirror.online();
        let leg = |(leg, member): (usize, Member)| LegStatus {
            member,
            name: self.names[leg].clone(),
            path: self.paths[leg].clone(),
            online: online.has(leg),
            in_flight: self.in_flight(leg),
            cause: self.mirror.cause(leg),
        };
        let legs: Vec<LegStatus> = self.mirror.members().map(leg).collect();
        let members = self.mirror.members().map(|(leg, _)| leg);
        let members: Vec<usize> = members.collect();
        let removed = (0..self.files.len()).filter(|leg| !members.contains(leg));
        let in_flight_removed = removed.map(|leg| self.in_flight(leg)).sum();
        Status {
            mirror: assembly.mirror,
            generation: assembly.generation,
            geometry: assembly.geometry,
            to_copy: self.mirror.to_copy(),
            marked: self.mirror.marked(),
            redundant: self.mirror.redundant() && !self.mirror.halted(),
            halted: self.mirror.halted(),
            scrubbed: self.mirror.scrubbed(),
            legs,
            in_flight_removed,
        }
    }

    /// Drops what waits for a leg that was given up.
    fn forget(&mut self, leg: usize) {
        self.queues[leg] = leg_queue(&self.shared, leg);
        self.shared.board.counted(0, leg, &self.queues[leg]);
        self.direct[leg].clear();
        let mut issued = vec![false; self.entries.len()];
        for flight in self.flights.iter().flatten() {
            for entry in &flight.entries {
                issued[*entry as usize] = true;
            }
        }
        for number in 0..self.entries.len() as u32 {
            let entry = &self.entries[number as usize];
            if entry.as_ref().is_some_and(|entry| entry.leg == leg) && !issued[number as usize] {
                self.entries[number as usize] = None;
                self.free_entries.push(number);
            }
        }
    }

    fn enqueue(&mut self, op: Op) {
        let memory = match (op.buffer, op.kind) {
            (Buffer::None, _) => Memory::None,
            (Buffer::Block(bytes), _) => Memory::From(Rc::from(&bytes[..])),
            (Buffer::Superblock { expected, new }, _) => Memory::Superblock { expected, new },
            (Buffer::Expected(block), _) => Memory::Expected(block),
            (Buffer::Client(id), kind) => {
                let request = &self.requests[&self.parts[&id].request];
                match kind != OpKind::Read && request.bytes.is_empty() {
                    false => Memory::Client(id),
                    true => Memory::Zeros {
                        hole: request.holes && self.zeroes[op.leg],
                    },
                }
            }
            (Buffer::Own { task, part }, OpKind::Read) => Memory::Own(task, part),
            (Buffer::Own { task, part }, _) => Memory::From(Rc::clone(&self.own[&(task, part)])),
        };
        let entry = Entry {
            id: op.id,
            leg: op.leg,
            kind: op.kind,
            offset: op.offset,
            length: op.length,
            memory,
        };
        let hole = entry.is_hole();
        let number = match self.free_entries.pop() {
            Some(number) => {
                self.entries[number as usize] = Some(entry);
                number
            }
            None => {
                self.entries.push(Some(entry));
                self.entries.len() as u32 - 1
            }
        };
        let transfer = match op.kind {
            OpKind::Read => Transfer::Read,
            OpKind::Write { .. } => Transfer::Write,
            OpKind::Flush => return self.direct[op.leg].push_back(number),
        };
        match op.offset.checked_sub(DATA) {
            // A hole is not merged with writes.
            _ if hole => self.direct[op.leg].push_back(number),
            None => self.direct[op.leg].push_back(number),
            Some(offset) => {
                let (length, now) = (op.length.into(), self.clock.now());
                self.queues[op.leg].push(number, transfer, offset, length, now);
                (self.shared.board).counted(0, op.leg, &self.queues[op.leg]);
            }
        }
    }

    fn part_ended(&mut self, id: u64, result: Result<(), Errno>) {
        let part = self.parts.remove(&id).expect("a part is replied to once");
        let open = self.requests.get_mut(&part.request);
        let open = open.expect("a request with parts");
        open.parts -= 1;
        if let Err(errno) = result {
            open.errno = errno;
        }
        if open.parts > 0 {
            return;
        }
        let open = self.requests.remove(&part.request).expect("found before");
        let (data, spare) = match open.read && open.errno == 0 {
            true => (open.bytes, Vec::new()),
            false => (Vec::new(), open.bytes),
        };
        // A client that has gone does not want it.
        open.reply.send(Reply {
            cookie: open.cookie,
            errno: open.errno,
            data,
            spare,
            length: open.length,
        });
    }

    // ---- The ring ----

    /// Issues what the legs have room for.
    fn submit(&mut self) {
        if !self.listening {
            self.listening = true;
            self.backend.prep(
                self.wake_slot,
                &KernelOp {
                    kind: KernelKind::Read,
                    file: self.wake_file,
                    offset: 0,
                    length: 8,
                    skip: 0,
                    priority: 0,
                },
            );
        }
        self.long = LegSet::NONE;
        for leg in 0..self.queues.len() {
            while let Some(slot) = self.free_slots[leg].pop() {
                if !self.issue_next(leg, slot) {
                    self.free_slots[leg].push(slot);
                    break;
                }
            }
            // It does not need them any more.
            while !self.queues[leg].waits() && self.shared.board.take_granted(0, leg) {
                self.give_back(leg);
            }
        }
    }

    /// Gives back a place of a leg.
    fn give_back(&self, leg: usize) {
        // This thread looks at its own queue in any case.
        if let Some(next) = self
            .shared
            .board
            .give_back(0, leg)
            .filter(|next| *next != 0)
        {
            self.shared.rouse(next);
        }
    }

    /// Issues the next op of a leg in a slot; `false`: nothing waits, or there is no place.
    fn issue_next(&mut self, leg: usize, slot: u32) -> bool {
        let now = self.clock.now();
        let mut entries = self.lists.pop().unwrap_or_default();
        let command = match self.direct[leg].pop_front() {
            Some(entry) => {
                entries.push(entry);
                None
            }
            None if self.queues[leg].waits() && self.shared.board.take(0, leg) => {
                let command = self.queues[leg].issue(now).expect("one waits");
                (self.shared.board).counted(0, leg, &self.queues[leg]);
                let following = |number: &u32| self.queues[leg].next_request(*number);
                entries.extend(std::iter::successors(Some(command.first), following));
                Some(command.first)
            }
            None => {
                self.lists.push(entries);
                return false;
            }
        };
        let entry = |number: &u32| self.entries[*number as usize].as_ref().expect("in use");
        let first = entry(&entries[0]);
        let kind = match first.kind {
            OpKind::Write { .. } if first.is_hole() => KernelKind::Trim,
            OpKind::Read => KernelKind::Read,
            OpKind::Write { .. } => KernelKind::Write,
            OpKind::Flush => KernelKind::Fdatasync,
        };
        let fua = entries
            .iter()
            .any(|number| entry(number).kind == OpKind::Write { fua: true });
        let offset = first.offset;
        let length = self.fill(slot, &entries, kind);
        let first = self.entries[entries[0] as usize].as_ref();
        let first = &first.expect("in use").memory;
        let delayed = matches!(kind, KernelKind::Read | KernelKind::Write)
            && !matches!(first, Memory::Expected(_))
            && self.delays[leg].is_some();
        let begins = match first {
            Memory::Superblock {
                expected: Some(_), ..
            } => KernelKind::Read,
            _ => kind,
        };
        self.flights[slot as usize] = Some(InFlightIo {
            leg,
            entries,
            command,
            kind: begins,
            fua,
            offset,
            length,
            done: 0,
            since: now,
            delayed,
            ended: None,
        });
        if kind != KernelKind::Read && self.is_short(leg) {
            self.events.push_back(Event::Shortened { leg });
            self.ended(slot, Err(EIO), now);
            return true;
        }
        let op = self.prepare(slot);
        if let Some(disk) = self.delays[leg].as_mut().filter(|_| delayed) {
            disk.submit(now, slot, &KernelOp { kind, ..op });
        }
        true
    }

    /// Puts what ops write into the buffer of a slot. Returns the length of all.
    fn fill(&mut self, slot: u32, entries: &[u32], kind: KernelKind) -> u32 {
        let mut length = 0;
        for number in entries {
            let entry = self.entries[*number as usize].as_ref().expect("in use");
            let buffer = &mut self.backend.buffer(slot)[length as usize..][..entry.length as usize];
            match &entry.memory {
                Memory::From(bytes) => buffer.copy_from_slice(&bytes[..buffer.len()]),
                Memory::Superblock { new, .. } => buffer.copy_from_slice(&new[..]),
                Memory::Client(id) if kind == KernelKind::Write => {
                    let part = &self.parts[id];
                    let bytes = &self.requests[&part.request].bytes;
                    buffer.copy_from_slice(&bytes[part.at..][..buffer.len()]);
                }
                Memory::Zeros { .. } => buffer.fill(0),
                Memory::None | Memory::Client(_) | Memory::Own(..) | Memory::Expected(_) => {}
            }
            length += entry.length;
        }
        length
    }

    /// Whether somebody made a leg shorter. A write would make a file longer again, with zeros where the data were.
    fn is_short(&mut self, leg: usize) -> bool {
        let Some(held) = self.held[leg].as_ref().filter(|_| !self.long.has(leg)) else {
            return false;
        };
        let needed = DATA + self.mirror.assembly().geometry.length;
        let short = held.length().is_ok_and(|length| length < needed);
        if !short {
            self.long.add(leg);
        }
        short
    }

    /// Ends what the simulated disks of legs have ended.
    fn end_delays(&mut self) {
        let now = self.clock.now();
        for leg in 0..self.delays.len() {
            while let Some(end) = (self.delays[leg].as_mut()).and_then(|disk| disk.take_ended(now))
            {
                let flight = self.flights[end.slot as usize].as_mut().expect("in flight");
                flight.delayed = false;
                if let Some((result, at)) = flight.ended {
                    self.ended(end.slot, result, at.max(end.at));
                }
            }
        }
    }

    /// Submits what remains of a slot's op, and returns it.
    fn prepare(&mut self, slot: u32) -> KernelOp {
        let flight = self.flights[slot as usize].as_ref().expect("in flight");
        let file = self.files[flight.leg].expect("ops go to legs that are given");
        let op = KernelOp {
            kind: flight.kind,
            file,
            offset: flight.offset + u64::from(flight.done),
            length: flight.length - flight.done,
            skip: flight.done,
            priority: 0,
        };
        let durable = flight.fua && flight.kind == KernelKind::Write;
        match (self.is_apart(flight.leg), durable) {
            (true, durable) => self.backend.prep_apart(slot, &op, durable),
            (false, true) => self.backend.prep_durable(slot, &op),
            (false, false) => self.backend.prep(slot, &op),
        }
        op
    }

    fn is_apart(&self, leg: usize) -> bool {
        self.held[leg].as_ref().is_some_and(|held| held.apart)
    }

    fn completed(&mut self, completion: &Completion) {
        let slot = completion.slot;
        if slot == self.wake_slot {
            self.listening = false;
            return;
        }
        let flight = self.flights[slot as usize].as_mut().expect("in flight");
        if let KernelKind::Read | KernelKind::Write = flight.kind
            && completion.result > 0
        {
            flight.done += completion.result as u32;
            // A rest that is not aligned cannot be transferred directly; it is an error below.
            if flight.done < flight.length && flight.done.is_multiple_of(512) {
                self.prepare(slot);
                return;
            }
        }
        let whole = match flight.kind {
            KernelKind::Read | KernelKind::Write => flight.done == flight.length,
            _ => completion.result >= 0,
        };
        // The file system has no holes. The buffer holds zeros.
        if flight.kind == KernelKind::Trim && !whole && completion.result == -EOPNOTSUPP {
            flight.kind = KernelKind::Write;
            self.prepare(slot);
            return;
        }
        let result = match whole {
            true => Ok(()),
            false if completion.result < 0 => Err(-completion.result),
            false => {
                if flight.kind == KernelKind::Read {
                    let leg = flight.leg;
                    self.events.push_back(Event::Shortened { leg });
                }
                Err(EIO)
            }
        };
        if result.is_ok() && flight.kind == KernelKind::Trim && flight.fua {
            (flight.kind, flight.fua) = (KernelKind::Fdatasync, false);
            (flight.done, flight.length) = (0, 0);
            self.prepare(slot);
            return;
        }
        let Some(result) = self.superblock_read(slot, completion.result >= 0, result) else {
            return;
        };
        let flight = self.flights[slot as usize].as_mut().expect("in flight");
        match flight.delayed {
            true => flight.ended = Some((result, completion.completed)),
            false => self.ended(slot, result, completion.completed),
        }
    }

    /// If a copy of the superblock was read, it is overwritten if it is as expected, or the leg could not read it.
    /// `None`: that is in progress.
    fn superblock_read(
        &mut self,
        slot: u32,
        answered: bool,
        result: Result<(), Errno>,
    ) -> Option<Result<(), Errno>> {
        let flight = self.flights[slot as usize].as_mut().expect("in flight");
        let entry = self.entries[flight.entries[0] as usize].as_ref();
        let entry = entry.expect("in use");
        let (expected, new) = match &entry.memory {
            Memory::Superblock {
                expected: Some(expected),
                new,
            } if flight.kind == KernelKind::Read => (expected, Some(new)),
            Memory::Expected(expected) => (expected, None),
            _ => return Some(result),
        };
        let buffer = &mut self.backend.buffer(slot)[..BLOCK];
        if result.is_ok() && buffer != &expected[..] {
            return Some(Err(UNEXPECTED));
        }
        // Nothing is written if the leg became shorter, or was dropped.
        let write = (result.is_ok() || !answered) && self.mirror.awaits(entry.id);
        let Some(new) = new.filter(|_| write) else {
            return Some(result);
        };
        buffer.copy_from_slice(&new[..]);
        (flight.kind, flight.done) = (KernelKind::Write, 0);
        self.prepare(slot);
        None
    }

    /// The op of a slot has ended at this time, ns.
    fn ended(&mut self, slot: u32, result: Result<(), Errno>, at: u64) {
        let flight = self.flights[slot as usize].take().expect("in flight");
        self.free_slots[flight.leg].push(slot);
        if let Some(command) = flight.command {
            let queue = &mut self.queues[flight.leg];
            // The queue was forgotten if the leg was dropped.
            queue.complete(command, at);
            self.shared.board.counted(0, flight.leg, queue);
            self.give_back(flight.leg);
        }
        // One bad sector does not fail what was merged with it. A flush that failed is never repeated.
        let transfers = matches!(flight.kind, KernelKind::Read | KernelKind::Write);
        let online = self.mirror.online().has(flight.leg);
        if result.is_err() && transfers && flight.entries.len() > 1 && online {
            self.direct[flight.leg].extend(&flight.entries);
            return self.keep(flight.entries);
        }
        let mut at = 0;
        for &number in &flight.entries {
            let entry = self.entries[number as usize].take().expect("in use");
            self.free_entries.push(number);
            let length = entry.length as usize;
            if result.is_ok() && self.mirror.awaits(entry.id) {
                self.deliver(&entry, slot, at);
            }
            at += length;
            self.events.push_back(Event::Done {
                op: entry.id,
                result,
            });
        }
        self.keep(flight.entries);
    }

    /// Keeps a list to use it again.
    fn keep(&mut self, mut entries: Vec<u32>) {
        entries.clear();
        self.lists.push(entries);
    }

    /// Passes on what was read.
    fn deliver(&mut self, entry: &Entry, slot: u32, at: usize) {
        let length = entry.length as usize;
        let bytes = &self.backend.buffer(slot)[at..at + length];
        match entry.memory {
            Memory::Client(id) if entry.kind == OpKind::Read => {
                let part = &self.parts[&id];
                let open = self.requests.get_mut(&part.request);
                let open = open.expect("a request with parts");
                open.bytes[part.at..part.at + length].copy_from_slice(bytes);
            }
            Memory::Own(task, part) => {
                self.own.insert((task, part), Rc::from(bytes));
            }
            _ => {}
        }
    }
}
