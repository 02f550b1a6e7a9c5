//! The threads that serve the rings of a vhost-user client. Each reads from legs itself ([`crate::reader`]) and serves
//! one or several rings. The thread that receives the client's messages passes rings and settings to them by
//! [`RingCommands`].
//!
//! For the invariants see [`crate::vhost_user`].

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::net::Shutdown;
use std::ops::{Index, IndexMut};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError, sync_channel};
use std::thread::{self, JoinHandle};

use iodyno_mirror::core::Access;
use iodyno_vhost::{ClientMemory, InFlightRecord, MAX_DESCRIPTORS, Ring, signal};
use vhost::vhost_user::{Error, Result};
use vm_memory::GuestMemoryMmap;

use crate::buffer_pool::BufferPool;
use crate::queue::{Handle, Reply, ReplyTo, Request};
use crate::reader::{Ended, Outcome, Reader};
use crate::virtio_blk::{Disk, DiskRequest, MAX_QUEUES, ReplyPlace, Room, Segments};

/// Requests in flight of all rings.
const MAX_IN_FLIGHT: usize = MAX_DESCRIPTORS as usize * MAX_QUEUES as usize;
/// Bytes of the requests of a thread in flight; one request may exceed it.
const MAX_BYTES: usize = 32 << 20;
/// Bytes of the buffers that a thread keeps for its next requests.
const SPARE_BYTES: usize = 4 << 20;
/// How often to check whether the server ends while stopping a ring, ns.
const LOOK_NS: u64 = 100_000_000;

/// A client's settings for all its rings.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) disk: Disk,
    pub(crate) features: u64,
    /// The client's choice of a write cache.
    pub(crate) writeback: bool,
    pub(crate) memory: ClientMemory,
    /// The record that the client keeps for the next server.
    pub(crate) record: Option<InFlightRecord>,
}

/// A ring, and the disk state for its requests.
#[derive(Debug)]
pub(crate) struct DiskRing {
    pub(crate) ring: Ring,
    /// Requests by the head of their chain, in flight or not.
    requests: Vec<RequestState>,
    /// Requests may be waiting.
    due: bool,
    /// Requests that a previous server left, by the head of their chain. They are executed first.
    left: VecDeque<u16>,
}

/// State of a request until it is answered; its lists are reused.
#[derive(Debug, Default)]
struct RequestState {
    place: ReplyPlace,
    bytes: usize,
}

impl DiskRing {
    pub(crate) fn new() -> io::Result<DiskRing> {
        let requests = (0..MAX_DESCRIPTORS).map(|_| RequestState::default());
        Ok(DiskRing {
            ring: Ring::new()?,
            requests: requests.collect(),
            due: false,
            left: VecDeque::new(),
        })
    }
}

/// A command that a ring thread runs between two requests.
type RingCommand = Box<dyn FnOnce(&mut RingThread) + Send>;

/// Sends commands to a ring thread. Dropping it ends the thread.
#[derive(Debug)]
pub(crate) struct RingCommands {
    /// `None`: the thread ends.
    sender: Option<Sender<RingCommand>>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    /// Rings that it has.
    pub(crate) rings: u32,
}

impl RingCommands {
    /// Has the thread do this, and waits for the result.
    ///
    /// # Errors
    /// It has ended.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut RingThread) -> T + Send + 'static,
    ) -> Result<T> {
        let (sender, answer) = sync_channel(1);
        let command: RingCommand = Box::new(move |thread| {
            // The caller waits for the result.
            let _ = sender.send(work(thread));
        });
        let sender = self.sender.as_ref().ok_or(Error::Disconnected)?;
        sender.send(command).map_err(|_| Error::Disconnected)?;
        signal(Some(&self.wake));
        answer.recv().map_err(|_| Error::Disconnected)
    }

    /// Ends the thread.
    pub(crate) fn end(&mut self) {
        self.sender = None;
        signal(Some(&self.wake));
    }
}

impl Drop for RingCommands {
    fn drop(&mut self) {
        self.end();
        if let Some(thread) = self.thread.take() {
            // Its failure was reported to the client.
            let _ = thread.join();
        }
    }
}

/// The rings of a thread by number. `None`: another thread has the ring, or it is stopped.
#[derive(Debug)]
struct Rings(Vec<Option<Box<DiskRing>>>);

impl Rings {
    fn iter(&self) -> impl Iterator<Item = (usize, &DiskRing)> {
        let rings = self.0.iter().enumerate();
        rings.filter_map(|(number, ring)| Some((number, &**ring.as_ref()?)))
    }

    /// Where to write the reply of a request in flight.
    fn place(&self, number: usize, head: u16) -> &ReplyPlace {
        &self[number].requests[usize::from(head)].place
    }
}

impl Index<usize> for Rings {
    type Output = DiskRing;

    fn index(&self, number: usize) -> &DiskRing {
        self.0[number].as_ref().expect(ITS_OWN)
    }
}

impl IndexMut<usize> for Rings {
    fn index_mut(&mut self, number: usize) -> &mut DiskRing {
        self.0[number].as_mut().expect(ITS_OWN)
    }
}

const ITS_OWN: &str = "a ring is not taken from its thread while it has requests in flight";

/// A thread of rings.
#[derive(Debug)]
pub(crate) struct RingThread {
    setup: Setup,
    reader: Reader,
    buffers: BufferPool<SPARE_BYTES>,
    /// The data that a request sends; the list is reused.
    sent: Segments,
    handle: Handle,
    reply: ReplyTo,
    replies: Receiver<Reply>,
    commands: Receiver<RingCommand>,
    stopping: Arc<AtomicBool>,
    rings: Rings,
    /// Total of all requests in flight.
    bytes: usize,
}

impl RingThread {
    /// Creates the state of this thread, with this queue of the mirror.
    ///
    /// # Errors
    /// Those of io_uring and of eventfd(2).
    pub(crate) fn new(
        setup: Setup,
        handle: Handle,
        queue: Option<usize>,
        stopping: Arc<AtomicBool>,
    ) -> io::Result<(RingThread, RingCommands)> {
        let reader = Reader::with(&handle, queue, MAX_QUEUES.into()).map_err(io::Error::other)?;
        let (reply, replies) = ReplyTo::waking(Arc::clone(reader.wake()), MAX_IN_FLIGHT);
        let (sender, receiver) = mpsc::channel();
        let commands = RingCommands {
            sender: Some(sender),
            wake: Arc::clone(reader.wake()),
            thread: None,
            rings: 0,
        };
        let thread = RingThread {
            setup,
            reader,
            buffers: BufferPool::default(),
            sent: Segments::default(),
            handle,
            reply,
            replies,
            commands: receiver,
            stopping,
            rings: Rings((0..MAX_QUEUES).map(|_| None).collect()),
            bytes: 0,
        };
        Ok((thread, commands))
    }

    /// The same in a new thread. If that fails later, this socket is shut down.
    ///
    /// # Errors
    /// The thread cannot be started; as [`RingThread::new`].
    pub(crate) fn spawn(
        setup: Setup,
        handle: &Handle,
        queue: usize,
        stopping: Arc<AtomicBool>,
        socket: UnixStream,
    ) -> io::Result<RingCommands> {
        let (sender, made) = sync_channel(1);
        let own = handle.clone();
        let work = move || match RingThread::new(setup, own, Some(queue), stopping) {
            Ok((thread, commands)) => {
                let _ = sender.send(Ok(commands));
                thread.serve(&socket);
            }
            Err(error) => drop(sender.send(Err(error))),
        };
        let spawned = thread::Builder::new().name("ring".to_owned()).spawn(work);
        let thread = spawned.inspect_err(|_| handle.queues().leave(Some(queue), None))?;
        let ended = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        let mut commands = made.recv().map_err(ended)??;
        commands.thread = Some(thread);
        Ok(commands)
    }

    /// Serves its rings until its [`RingCommands`] end. On failure, shuts down the client's socket.
    pub(crate) fn serve(mut self, socket: &UnixStream) {
        if self.run().is_err() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    fn run(&mut self) -> io::Result<()> {
        loop {
            loop {
                match self.commands.try_recv() {
                    Ok(command) => command(self),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return Ok(()),
                }
            }
            self.look_at_all();
            self.wait(None)?;
        }
    }

    // ---- Commands ----

    /// Starts a ring, or continues one that it has, with this event.
    ///
    /// # Errors
    /// Those of io_uring.
    pub(crate) fn start(
        &mut self,
        number: usize,
        ring: Option<Box<DiskRing>>,
        kick: File,
    ) -> Result<()> {
        (self.reader.exchange(number as u32, &kick))
            .map_err(|error| Error::ReqHandlerError(io::Error::other(error)))?;
        if ring.is_some() {
            self.rings.0[number] = ring;
        }
        let ring = self.rings.0[number].as_mut().ok_or(Error::InvalidParam)?;
        let record = self.setup.record.as_mut();
        if let Some(left) = record.and_then(|record| ring.ring.take_over(number as u16, record)) {
            ring.left = left.into();
        }
        ring.ring.start(kick);
        ring.due = true;
        Ok(())
    }

    /// Stops a ring after all its requests were answered, and returns it.
    ///
    /// # Errors
    /// The server ends.
    pub(crate) fn stop(&mut self, number: usize) -> Result<Box<DiskRing>> {
        let ring = self.rings.0[number].as_mut().ok_or(Error::InvalidParam)?;
        ring.ring.stop();
        self.drain(Some(number))?;
        self.rings.0[number].take().ok_or(Error::InvalidParam)
    }

    /// Uses another setup after all requests were answered.
    ///
    /// # Errors
    /// The server ends.
    pub(crate) fn change(&mut self, setup: Setup) -> Result<()> {
        self.drain(None)?;
        self.setup = setup;
        Ok(())
    }

    /// Runs `work` with a ring of this thread.
    ///
    /// # Errors
    /// The thread does not have the ring; errors of `work`.
    pub(crate) fn with_ring<T>(
        &mut self,
        number: usize,
        work: impl FnOnce(&mut Ring, &GuestMemoryMmap) -> Result<T>,
    ) -> Result<T> {
        let ring = self.rings.0[number].as_mut().ok_or(Error::InvalidParam)?;
        // The ring may run from now on.
        ring.due = true;
        work(&mut ring.ring, self.setup.memory.guest())
    }

    /// Waits until all requests of one ring, or of all, were answered. Takes no requests meanwhile.
    fn drain(&mut self, number: Option<usize>) -> Result<()> {
        let in_flight = |thread: &RingThread| {
            let mut rings = thread.rings.iter();
            rings.any(|(at, ring)| {
                number.is_none_or(|number| number == at) && ring.ring.in_flight() > 0
            })
        };
        while in_flight(self) {
            self.wait(Some(LOOK_NS)).map_err(Error::ReqHandlerError)?;
            if self.stopping.load(Ordering::Relaxed) {
                return Err(Error::Disconnected);
            }
        }
        self.notify();
        Ok(())
    }

    // ---- Requests ----

    /// Waits at most `most_ns` for a command, a reply, the end of a read, or a request in a running ring. Answers
    /// requests that have ended.
    fn wait(&mut self, most_ns: Option<u64>) -> io::Result<()> {
        for (number, ring) in self.rings.iter() {
            if ring.ring.runs() {
                self.reader.watch(number as u32, false);
            }
        }
        self.reader.turn(most_ns).map_err(io::Error::other)?;
        while let Some(number) = self.reader.ready() {
            // It may have been stopped.
            let Some(ring) = &mut self.rings.0[number as usize] else {
                continue;
            };
            ring.due = true;
            if let Some(kick) = ring.ring.kick() {
                let _ = rustix::io::read(&**kick, &mut [0; 8]);
            }
        }
        if self.reader.woken() {
            while let Ok(reply) = self.replies.try_recv() {
                let result = match reply.errno {
                    0 => Ok(&reply.data[..]),
                    errno => Err(errno),
                };
                let (number, head) = of_cookie(reply.cookie);
                if self.rings[number].ring.is_in_flight(head) {
                    let memory = self.setup.memory.guest();
                    let written = self.rings.place(number, head).answer(memory, result);
                    self.answered(number, head, written);
                }
                self.buffers.keep(reply.into_buffer());
            }
        }
        while let Some(ended) = self.reader.ended() {
            self.read(&ended);
        }
        Ok(())
    }

    /// A read has ended, or continues in the thread of the mirror.
    fn read(&mut self, ended: &Ended) {
        match ended.outcome {
            Outcome::Read { .. } => {
                let (number, head) = of_cookie(ended.cookie);
                let bytes = self.reader.bytes(ended);
                let memory = self.setup.memory.guest();
                let written = self.rings.place(number, head).answer(memory, Ok(bytes));
                self.answered(number, head, written);
            }
            Outcome::HandedOver(failed) => {
                let buffer = self.buffers.take(0);
                self.reader.pass_on(ended, failed, buffer, &self.reply);
            }
        }
    }

    /// Takes the requests of all rings, and notifies the client of replies.
    fn look_at_all(&mut self) {
        for number in 0..self.rings.0.len() {
            if self.rings.0[number].is_some() {
                self.look(number);
            }
        }
        self.notify();
    }

    /// Takes the requests of a ring.
    fn look(&mut self, number: usize) {
        let ring = &mut self.rings[number];
        if !ring.ring.runs() || !std::mem::take(&mut ring.due) {
            return;
        }
        loop {
            let memory = self.setup.memory.guest();
            self.rings[number].ring.disable_notification(memory);
            loop {
                if !self.rings[number].ring.runs() {
                    return;
                }
                match self.take(number) {
                    Step::Taken => {}
                    Step::Empty => break,
                    // An answer makes room, and then the ring is looked at again.
                    Step::Full => {
                        self.rings[number].due = true;
                        return;
                    }
                }
            }
            let memory = self.setup.memory.guest();
            if !self.rings[number].ring.enable_notification(memory) {
                return;
            }
        }
    }

    /// Takes the next request of a ring.
    fn take(&mut self, number: usize) -> Step {
        if self.bytes >= MAX_BYTES {
            return Step::Full;
        }
        let DiskRing { ring, left, .. } = &mut self.rings[number];
        let head = match left.pop_front() {
            Some(head) => ring.claim(head).then_some(head),
            None => ring.take(self.setup.memory.guest()),
        };
        match head {
            Some(head) => self.begin(number, head),
            None => Step::Empty,
        }
    }

    /// Starts the request whose chain begins with this descriptor.
    fn begin(&mut self, number: usize, head: u16) -> Step {
        let buffer = self.buffers.take(0);
        let DiskRing { ring, requests, .. } = &mut self.rings[number];
        let request = &mut requests[usize::from(head)];
        if let Some(record) = &mut self.setup.record {
            record.begins(number as u16, head);
        }
        let through = Disk::writes_through(self.setup.features, self.setup.writeback);
        let room = Room {
            sent: &mut self.sent,
            place: &mut request.place,
            buffer,
        };
        let memory = self.setup.memory.guest();
        let wanted = (self.setup.disk).request(memory, ring.table(), head, through, room);
        let Some(wanted) = wanted else {
            ring.refuse(head);
            return Step::Empty;
        };
        let bytes = wanted.bytes();
        match wanted {
            DiskRequest::Refused(status) => {
                let written = request.place.refuse(memory, status);
                self.answered(number, head, written);
            }
            DiskRequest::Id => {
                let written = (request.place).answer(memory, Ok(&self.setup.disk.id));
                self.answered(number, head, written);
            }
            DiskRequest::Access {
                access,
                offset,
                length,
                buffer,
                holes,
            } => {
                self.bytes += bytes;
                request.bytes = bytes;
                let cookie = (number as u64) << 32 | u64::from(head);
                if access == Access::Read && self.reader.read(cookie, offset, length) {
                    self.buffers.keep(buffer);
                    return Step::Taken;
                }
                self.handle.request(Request {
                    access,
                    offset,
                    length,
                    payload: buffer,
                    holes,
                    cookie,
                    reply: self.reply.clone(),
                    queue: self.reader.queue(),
                    failed: None,
                });
            }
        }
        Step::Taken
    }

    /// Returns the chain of an answered request to the client.
    fn answered(&mut self, number: usize, head: u16, written: u32) {
        let DiskRing { ring, requests, .. } = &mut self.rings[number];
        self.bytes -= std::mem::take(&mut requests[usize::from(head)].bytes);
        let record = self.setup.record.as_ref();
        if let Some(record) = record {
            record.ends(number as u16, head);
        }
        let seen = ring.answer(self.setup.memory.guest(), head, written);
        if let Some(record) = record.filter(|_| seen) {
            record.ended(number as u16, head, ring.next_used());
        }
    }

    /// Notifies the client of replies, where it wants that.
    fn notify(&mut self) {
        let memory = self.setup.memory.guest();
        for ring in self.rings.0.iter_mut().flatten() {
            signal(ring.ring.event(memory));
        }
    }
}

/// Ring and head of a request.
fn of_cookie(cookie: u64) -> (usize, u16) {
    ((cookie >> 32) as usize, cookie as u16)
}

/// The outcome of taking a request.
enum Step {
    Taken,
    Empty,
    Full,
}
