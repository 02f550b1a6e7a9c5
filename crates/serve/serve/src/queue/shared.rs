//! What the threads of a mirror share, and the channel to the one that runs it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use iodyno_mirror::shared::{Alarm, Board, MAX_QUEUES, Published};
use iodyno_mirror::{LegSet, QueueSettings, ReadPolicy};
use iodyno_model::errno::ESHUTDOWN;
use iodyno_sys::memory::Arena;
use iodyno_sys::{BackendError, File};
use iodyno_vhost::signal;
use rustix::event::{EventfdFlags, eventfd};

use super::admin::AdminRequest;
use super::leg_file::PathIdentity;
use super::request::Request;

/// Capacity of the mirror's channel, messages. A sender blocks while it is full.
const MAX_MESSAGES: usize = 1024;

/// Between two looks at the path of a leg.
const PLACES: Duration = Duration::from_millis(500);

/// A request that the mirror has not accepted yet. If it is dropped, the mirror has ended: the reply to the client,
/// which is waiting, says so.
#[derive(Debug)]
pub(super) struct Unanswered(pub(super) Option<Request>);

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(request) = self.0.take() {
            request.reply.send(super::Reply {
                cookie: request.cookie,
                errno: ESHUTDOWN,
                data: Vec::new(),
                spare: request.payload,
                length: request.length,
            });
        }
    }
}

/// A message to the mirror's thread.
#[derive(Debug)]
pub(super) enum Message {
    Request(Unanswered),
    Admin(AdminRequest),
    /// A leg does not answer a queue.
    Silent(usize),
    /// A queue found that a leg became shorter.
    Shortened(usize),
    /// A client was refused, because this number is connected.
    Refused(usize),
    Stop,
}

/// State that the queues of a mirror share. Queue 0 belongs to the mirror's thread.
#[derive(Debug)]
pub(crate) struct Queues {
    pub(super) board: Board,
    pub(super) published: OnceLock<Arc<Published>>,
    pub(super) leg_timeout_ns: AtomicU64,
    /// Number of changes of the table.
    generation: AtomicU32,
    table: Mutex<Table>,
    /// A bit for each leg whose file was removed or replaced.
    pub(super) lost: AtomicU32,
    /// Whether a message must wake the mirror's thread.
    pub(super) alarm: Alarm,
    /// The event that wakes each queue.
    wakes: Vec<Arc<OwnedFd>>,
    /// Queues without a thread.
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

/// State of the legs, which queues read again after each change.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) legs: Vec<TableLeg>,
    /// The policy of each queue, unless its thread holds it. `None`: the queue does not read itself.
    pub(crate) policies: Vec<Option<Box<dyn ReadPolicy>>>,
}

#[derive(Debug)]
pub(crate) struct TableLeg {
    /// `None`: it is missing or was removed.
    pub(crate) file: Option<OwnedFd>,
    pub(crate) rotational: bool,
    /// Its ops are prepared by [`iodyno_sys::UringBackend::prep_in_worker`].
    pub(crate) may_block: bool,
    /// `None`: it is not a file.
    pub(super) place: Option<PathIdentity>,
}

/// Checks that the path of a leg still leads to its file, until the leg is removed or the mirror ends. It runs in a
/// thread of its own, because the leg's file system may block it. No thread waits for it.
pub(super) fn watch_place(queues: Arc<Queues>, leg: usize) -> Result<(), BackendError> {
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
                queues.wake_thread(0);
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
        let queues = (queues as usize + 1).min(MAX_QUEUES);
        // Rings read these eventfds, and block.
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

    /// `None`: the mirror has not started.
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
    pub(super) fn change(&self, change: impl FnOnce(&mut Table)) {
        let mut table = self.table();
        change(&mut table);
        self.generation.fetch_add(1, Ordering::Release);
        drop(table);
        self.wake_threads();
    }

    fn arenas(&self) -> MutexGuard<'_, Vec<Arena>> {
        self.arenas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Buffers for a ring. Kept buffers of another size are freed: the number of legs has changed.
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

    /// Takes the buffers of a ring that has ended; `None`: the kernel still uses some, and they are leaked. The buffers
    /// of one ring are kept for the next.
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

    /// Commands that a queue may have in its ring without blocking on its own.
    pub(crate) fn slots(&self) -> usize {
        // Before the mirror has started, its legs are unknown.
        self.table().legs.len().max(2) * QueueSettings::default().active as usize
    }

    /// A queue without a thread.
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

    /// Ends the thread of a queue, which has nothing in flight. The thread returns the policy that it held.
    pub(crate) fn leave(&self, queue: Option<usize>, policy: Option<Box<dyn ReadPolicy>>) {
        let Some(queue) = queue else { return };
        self.board.leave(queue, |next| self.wake_thread(next));
        if let Some(own) = self.table().policies.get_mut(queue) {
            // A newer one was made if the legs have changed.
            *own = own.take().or(policy);
        }
        self.free().push(queue);
    }

    /// Wakes the thread of a queue.
    pub(crate) fn wake_thread(&self, queue: usize) {
        signal(Some(&*self.wakes[queue]));
    }

    pub(super) fn wake_threads(&self) {
        (1..self.wakes.len()).for_each(|queue| self.wake_thread(queue));
    }
}

/// Sends requests to a mirror from any thread.
#[derive(Debug, Clone)]
pub struct Handle {
    messages: SyncSender<Message>,
    queues: Arc<Queues>,
}

impl Handle {
    /// Sends a request. If the mirror has ended, the answer is `ESHUTDOWN`.
    pub fn request(&self, request: Request) {
        self.send(Message::Request(Unanswered(Some(request))));
    }

    /// Sends a management request. If the mirror has ended, the sender of the answer is dropped.
    pub fn manage(&self, request: AdminRequest) {
        self.send(Message::Admin(request));
    }

    /// Stops the mirror after its requests have completed.
    pub fn stop(&self) {
        self.send(Message::Stop);
    }

    /// Bytes of the buffers of all rings of queues, including kept buffers.
    pub fn buffer_bytes(&self) -> usize {
        self.queues.arena_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn queues(&self) -> &Arc<Queues> {
        &self.queues
    }

    /// Reports that a leg does not answer a queue.
    pub(crate) fn silent(&self, leg: usize) {
        self.send(Message::Silent(leg));
    }

    /// Reports that a leg became shorter.
    pub(crate) fn shortened(&self, leg: usize) {
        self.send(Message::Shortened(leg));
    }

    /// Reports that a client was refused, because this number of clients is connected.
    pub(crate) fn refused(&self, clients: usize) {
        self.send(Message::Refused(clients));
    }

    fn send(&self, message: Message) {
        if self.messages.send(message).is_ok() && self.queues.alarm.raise() {
            self.queues.wake_thread(0);
        }
    }
}

/// The receiving end of the handles, for [`run`](super::run).
#[derive(Debug)]
pub struct Inbox {
    pub(super) messages: Receiver<Message>,
    pub(super) queues: Arc<Queues>,
}

/// Makes a channel to a mirror. Up to `queues` threads can read through a [`Reader`](crate::reader::Reader).
///
/// # Errors
/// As eventfd(2).
pub fn channel(queues: u32) -> io::Result<(Handle, Inbox)> {
    let queues = Arc::new(Queues::new(queues)?);
    let (sender, receiver) = sync_channel(MAX_MESSAGES);
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

/// The ring's placeholder for an unused file.
pub(super) fn placeholder(inbox: &Inbox) -> Result<File, BackendError> {
    let descriptor = (inbox.queues.wakes[0].try_clone())
        .map_err(|error| BackendError::new("duplicate the eventfd", error))?;
    Ok(File {
        descriptor,
        device: false,
    })
}
