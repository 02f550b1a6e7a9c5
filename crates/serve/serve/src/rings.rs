//! The threads that serve the rings of a client of vhost-user: each reads from legs itself ([`crate::reader`]) and has one ring or
//! several. The thread that gets the messages of the client gives them their rings and what else they need, by [`Orders`].
//!
//! What must hold is said in [`crate::vhost_user`].

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
use vhost::vhost_user::{Error, Result};
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::GuestAddress;

use crate::client_memory::{ClientMemory, signal};
use crate::inflight::InFlightRecord;
use crate::queue::{Handle, Reply, ReplyTo, Request};
use crate::reader::{Ended, Outcome, Reader};
use crate::spare::Spare;
use crate::virtio_blk::{Disk, MOST_QUEUES, Place, Room, Segments, Table, Wanted};

/// Descriptors of a ring.
pub(crate) const MOST_DESCRIPTORS: u16 = 1024;
/// Requests in flight of all rings.
const MOST_IN_FLIGHT: usize = MOST_DESCRIPTORS as usize * MOST_QUEUES as usize;
/// Bytes of the requests of a thread in flight; one request may exceed it.
const MOST_BYTES: usize = 32 << 20;
/// Bytes of the buffers that a thread keeps for its next requests.
const SPARE_BYTES: usize = 4 << 20;
/// Between two looks at whether the server ends, while a ring is stopped, ns.
const LOOK_NS: u64 = 100_000_000;

/// What a client has set up for all its rings.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) disk: Disk,
    pub(crate) features: u64,
    /// The client's choice of a write cache.
    pub(crate) writeback: bool,
    pub(crate) memory: ClientMemory,
    /// What the client keeps for the next server.
    pub(crate) record: Option<InFlightRecord>,
}

#[derive(Debug)]
pub(crate) struct Ring {
    pub(crate) queue: Queue,
    pub(crate) kick: Option<File>,
    pub(crate) call: Option<File>,
    pub(crate) error: Option<File>,
    /// The client gave addresses.
    pub(crate) placed: bool,
    pub(crate) enabled: bool,
    pub(crate) broken: bool,
    /// Requests in flight, by the head of their chain, and their number.
    in_flight: Vec<InFlight>,
    pub(crate) count: u32,
    /// Some of them were answered, and the client was not yet told.
    answered: bool,
    /// There may be requests to take.
    pub(crate) due: bool,
    /// Requests that another server has left, by the head of their chain: they are carried out first.
    left: VecDeque<u16>,
}

#[derive(Debug, Default)]
struct InFlight {
    /// If not, it only keeps its lists.
    used: bool,
    place: Place,
    bytes: usize,
}

impl Ring {
    pub(crate) fn new() -> io::Result<Ring> {
        Ok(Ring {
            queue: Queue::new(MOST_DESCRIPTORS).map_err(io::Error::other)?,
            kick: None,
            call: None,
            error: None,
            placed: false,
            enabled: false,
            broken: false,
            in_flight: (0..MOST_DESCRIPTORS).map(|_| InFlight::default()).collect(),
            count: 0,
            answered: false,
            due: false,
            left: VecDeque::new(),
        })
    }

    fn runs(&self) -> bool {
        self.placed && self.enabled && self.kick.is_some() && self.queue.ready() && !self.broken
    }

    /// It starts. What another server has left of it is carried out first; the client knows only what has ended.
    fn take_over(&mut self, number: usize, record: Option<&mut InFlightRecord>) {
        let Some(record) = record.filter(|_| self.placed && self.count == 0) else {
            return;
        };
        let used = self.queue.next_used();
        self.left = record.left(number as u16, used).into();
        if !self.left.is_empty() {
            // Each of them was taken from the ring.
            let taken = self.left.len() as u16;
            self.queue.set_next_avail(used.wrapping_add(taken));
        }
    }

    /// Its client broke the rules.
    fn give_up(&mut self) {
        self.broken = true;
        signal(self.error.as_ref());
    }
}

/// What a thread of rings is to do between two requests.
type Order = Box<dyn FnOnce(&mut Lane) + Send>;

/// The way to a thread of rings. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Orders {
    /// `None`: it ends.
    sender: Option<Sender<Order>>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    /// Rings that it has.
    pub(crate) rings: u32,
}

impl Orders {
    /// Has the thread do this, and waits for the result.
    ///
    /// # Errors
    /// It has ended.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Lane) -> T + Send + 'static,
    ) -> Result<T> {
        let (sender, answer) = sync_channel(1);
        let order: Order = Box::new(move |lane| {
            // Who asked waits.
            let _ = sender.send(work(lane));
        });
        let orders = self.sender.as_ref().ok_or(Error::Disconnected)?;
        orders.send(order).map_err(|_| Error::Disconnected)?;
        self.rouse();
        answer.recv().map_err(|_| Error::Disconnected)
    }

    /// Tells the thread to end.
    pub(crate) fn end(&mut self) {
        self.sender = None;
        self.rouse();
    }

    fn rouse(&self) {
        // It fails only if its counter is full, and then the thread wakes up anyway.
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
    }
}

impl Drop for Orders {
    fn drop(&mut self) {
        self.end();
        if let Some(thread) = self.thread.take() {
            // What made it fail was told to the client.
            let _ = thread.join();
        }
    }
}

/// The rings of a thread by their numbers. `None`: another thread has it, or it does not run.
#[derive(Debug)]
struct Rings(Vec<Option<Box<Ring>>>);

impl Rings {
    fn iter(&self) -> impl Iterator<Item = (usize, &Ring)> {
        let rings = self.0.iter().enumerate();
        rings.filter_map(|(number, ring)| Some((number, &**ring.as_ref()?)))
    }
}

impl Index<usize> for Rings {
    type Output = Ring;

    fn index(&self, number: usize) -> &Ring {
        self.0[number].as_ref().expect(ITS_OWN)
    }
}

impl IndexMut<usize> for Rings {
    fn index_mut(&mut self, number: usize) -> &mut Ring {
        self.0[number].as_mut().expect(ITS_OWN)
    }
}

const ITS_OWN: &str = "a ring is not taken from its thread while it has requests in flight";

/// A thread of rings.
#[derive(Debug)]
pub(crate) struct Lane {
    setup: Setup,
    reader: Reader,
    spare: Spare<SPARE_BYTES>,
    /// What a request sends; the list is used again.
    sent: Segments,
    handle: Handle,
    reply: ReplyTo,
    replies: Receiver<Reply>,
    orders: Receiver<Order>,
    stopping: Arc<AtomicBool>,
    rings: Rings,
    /// Of all requests in flight.
    bytes: usize,
}

impl Lane {
    /// For this thread, with this queue of the mirror.
    ///
    /// # Errors
    /// Those of io_uring and of eventfd(2).
    pub(crate) fn new(
        setup: Setup,
        handle: Handle,
        queue: Option<usize>,
        stopping: Arc<AtomicBool>,
    ) -> io::Result<(Lane, Orders)> {
        let reader = Reader::with(&handle, queue, MOST_QUEUES.into()).map_err(io::Error::other)?;
        let (reply, replies) = ReplyTo::waking(Arc::clone(reader.wake()), MOST_IN_FLIGHT);
        let (sender, orders) = mpsc::channel();
        let way = Orders {
            sender: Some(sender),
            wake: Arc::clone(reader.wake()),
            thread: None,
            rings: 0,
        };
        let lane = Lane {
            setup,
            reader,
            spare: Spare::default(),
            sent: Segments::default(),
            handle,
            reply,
            replies,
            orders,
            stopping,
            rings: Rings((0..MOST_QUEUES).map(|_| None).collect()),
            bytes: 0,
        };
        Ok((lane, way))
    }

    /// The same in a new thread. If that fails later, this socket is shut down.
    ///
    /// # Errors
    /// The thread cannot be started; as [`Lane::new`].
    pub(crate) fn spawn(
        setup: Setup,
        handle: &Handle,
        queue: usize,
        stopping: Arc<AtomicBool>,
        socket: UnixStream,
    ) -> io::Result<Orders> {
        let (sender, made) = sync_channel(1);
        let own = handle.clone();
        let work = move || match Lane::new(setup, own, Some(queue), stopping) {
            Ok((lane, orders)) => {
                let _ = sender.send(Ok(orders));
                lane.serve(&socket);
            }
            Err(error) => drop(sender.send(Err(error))),
        };
        let spawned = thread::Builder::new().name("ring".to_owned()).spawn(work);
        let thread = spawned.inspect_err(|_| handle.queues().leave(Some(queue), None))?;
        let ended = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        let mut orders = made.recv().map_err(ended)??;
        orders.thread = Some(thread);
        Ok(orders)
    }

    /// Serves its rings until nobody gives it orders any more. If it fails, the socket of the client is shut down.
    pub(crate) fn serve(mut self, socket: &UnixStream) {
        if self.run().is_err() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    fn run(&mut self) -> io::Result<()> {
        loop {
            loop {
                match self.orders.try_recv() {
                    Ok(order) => order(self),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return Ok(()),
                }
            }
            self.look_at_all();
            self.wait(None)?;
        }
    }

    // ---- Orders ----

    /// Begins to serve a ring, or goes on with one that it has, by this event.
    ///
    /// # Errors
    /// Those of io_uring.
    pub(crate) fn start(
        &mut self,
        number: usize,
        ring: Option<Box<Ring>>,
        kick: File,
    ) -> Result<()> {
        (self.reader.exchange(number as u32, &kick))
            .map_err(|error| Error::ReqHandlerError(io::Error::other(error)))?;
        if ring.is_some() {
            self.rings.0[number] = ring;
        }
        let ring = self.rings.0[number].as_mut().ok_or(Error::InvalidParam)?;
        ring.take_over(number, self.setup.record.as_mut());
        ring.kick = Some(kick);
        ring.queue.set_ready(true);
        ring.due = true;
        Ok(())
    }

    /// Stops a ring when all its requests were answered, and returns it.
    ///
    /// # Errors
    /// The server ends.
    pub(crate) fn stop(&mut self, number: usize) -> Result<Box<Ring>> {
        let ring = self.rings.0[number].as_mut().ok_or(Error::InvalidParam)?;
        ring.queue.set_ready(false);
        self.drain(Some(number))?;
        self.rings.0[number].take().ok_or(Error::InvalidParam)
    }

    /// Uses another setup when all requests were answered.
    ///
    /// # Errors
    /// The server ends.
    pub(crate) fn change(&mut self, setup: Setup) -> Result<()> {
        self.drain(None)?;
        self.setup = setup;
        Ok(())
    }

    /// Does something with a ring that it has.
    ///
    /// # Errors
    /// It does not have it; those of `work`.
    pub(crate) fn with<T>(
        &mut self,
        number: usize,
        work: impl FnOnce(&mut Ring, &Setup) -> Result<T>,
    ) -> Result<T> {
        let ring = self.rings.0[number].as_mut().ok_or(Error::InvalidParam)?;
        work(ring, &self.setup)
    }

    /// Waits until all requests of a ring, or of all, have been answered. None is taken meanwhile.
    fn drain(&mut self, number: Option<usize>) -> Result<()> {
        let in_flight = |lane: &Lane| {
            let mut rings = lane.rings.iter();
            rings.any(|(at, ring)| number.is_none_or(|number| number == at) && ring.count > 0)
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

    /// Waits for an order, a reply, the end of a read, or a request in a ring that runs, but at most this long, ns. Answers what has ended.
    fn wait(&mut self, most_ns: Option<u64>) -> io::Result<()> {
        for (number, ring) in self.rings.iter() {
            if ring.runs() {
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
            if let Some(kick) = &ring.kick {
                let _ = rustix::io::read(kick, &mut [0; 8]);
            }
        }
        if self.reader.woken() {
            while let Ok(reply) = self.replies.try_recv() {
                let result = match reply.errno {
                    0 => Ok(&reply.data[..]),
                    errno => Err(errno),
                };
                if let Some((number, head, written)) = self.answered(reply.cookie, result) {
                    self.used(number, head, written);
                }
                self.spare.keep(reply.into_buffer());
            }
        }
        while let Some(ended) = self.reader.ended() {
            self.read(&ended);
        }
        Ok(())
    }

    /// A read has ended, or goes on in the thread of the mirror.
    fn read(&mut self, ended: &Ended) {
        match ended.outcome {
            Outcome::Read { .. } => {
                let (number, head) = of_cookie(ended.cookie);
                let bytes = self.reader.bytes(ended);
                let in_flight = &mut self.rings[number].in_flight[usize::from(head)];
                let written = in_flight.place.answer(self.setup.memory.guest(), Ok(bytes));
                self.ended(number, head);
                self.used(number, head, written);
            }
            Outcome::HandedOver(failed) => {
                let buffer = self.spare.take(0);
                self.handle.request(Request {
                    access: Access::Read,
                    offset: ended.offset,
                    length: ended.length,
                    payload: buffer,
                    holes: false,
                    cookie: ended.cookie,
                    reply: self.reply.clone(),
                    queue: self.reader.queue(),
                    failed,
                });
            }
        }
    }

    /// Takes what is in the rings, and tells the client what was answered.
    fn look_at_all(&mut self) {
        for number in 0..self.rings.0.len() {
            if self.rings.0[number].is_some() {
                self.look(number);
            }
        }
        self.notify();
    }

    /// Takes what is in a ring.
    fn look(&mut self, number: usize) {
        let ring = &mut self.rings[number];
        if !ring.runs() || !std::mem::take(&mut ring.due) {
            return;
        }
        loop {
            // A client may notify more often than it has to.
            let _ = self.rings[number]
                .queue
                .disable_notification(self.setup.memory.guest());
            loop {
                if !self.rings[number].runs() {
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
            let ring = &mut self.rings[number];
            match ring.queue.enable_notification(self.setup.memory.guest()) {
                Ok(true) => {}
                Ok(false) => return,
                Err(_) => return ring.give_up(),
            }
        }
    }

    /// Takes the next request of a ring.
    fn take(&mut self, number: usize) -> Step {
        if self.bytes >= MOST_BYTES {
            return Step::Full;
        }
        let ring = &mut self.rings[number];
        if let Some(head) = ring.left.pop_front() {
            return self.begin(number, head);
        }
        let head = match ring.queue.iter(self.setup.memory.guest()) {
            Ok(mut chains) => chains.next().map(|chain| chain.head_index()),
            Err(_) => {
                ring.give_up();
                return Step::Empty;
            }
        };
        match head {
            Some(head) => self.begin(number, head),
            None => Step::Empty,
        }
    }

    /// Begins the request whose chain begins with this descriptor.
    fn begin(&mut self, number: usize, head: u16) -> Step {
        let buffer = self.spare.take(0);
        let ring = &mut self.rings[number];
        let through = Disk::writes_through(self.setup.features, self.setup.writeback);
        let table = Table {
            at: GuestAddress(ring.queue.desc_table()),
            size: ring.queue.size(),
        };
        let in_flight = (ring.in_flight.get_mut(usize::from(head)))
            .filter(|in_flight| !in_flight.used && head < table.size);
        if let Some(record) = self.setup.record.as_mut().filter(|_| in_flight.is_some()) {
            record.begins(number as u16, head);
        }
        let wanted = in_flight.and_then(|in_flight| {
            let room = Room {
                sent: &mut self.sent,
                place: &mut in_flight.place,
                buffer,
            };
            let memory = self.setup.memory.guest();
            let request = self.setup.disk.request(memory, table, head, through, room);
            request.map(|wanted| (wanted, in_flight))
        });
        let Some((wanted, in_flight)) = wanted else {
            ring.give_up();
            return Step::Empty;
        };
        let bytes = wanted.bytes();
        match wanted {
            Wanted::Refused(status) => {
                let written = in_flight.place.refuse(self.setup.memory.guest(), status);
                self.used(number, head, written);
            }
            Wanted::Id => {
                let id = Ok(&self.setup.disk.id[..]);
                let written = in_flight.place.answer(self.setup.memory.guest(), id);
                self.used(number, head, written);
            }
            Wanted::Access {
                access,
                offset,
                length,
                buffer,
                holes,
            } => {
                self.bytes += bytes;
                (in_flight.used, in_flight.bytes) = (true, bytes);
                ring.count += 1;
                let cookie = (number as u64) << 32 | u64::from(head);
                if access == Access::Read && self.reader.read(cookie, offset, length) {
                    self.spare.keep(buffer);
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

    /// Answers a request. Returns its ring, its chain and the bytes that were written; `None`: it is not in flight.
    fn answered(
        &mut self,
        cookie: u64,
        result: std::result::Result<&[u8], i32>,
    ) -> Option<(usize, u16, u32)> {
        let (number, head) = of_cookie(cookie);
        let in_flight = &mut self.rings[number].in_flight[usize::from(head)];
        if !in_flight.used {
            return None;
        }
        let written = in_flight.place.answer(self.setup.memory.guest(), result);
        self.ended(number, head);
        Some((number, head, written))
    }

    fn ended(&mut self, number: usize, head: u16) {
        let ring = &mut self.rings[number];
        let in_flight = &mut ring.in_flight[usize::from(head)];
        in_flight.used = false;
        ring.count -= 1;
        self.bytes -= in_flight.bytes;
    }

    /// Gives a chain back to the client.
    fn used(&mut self, number: usize, head: u16, written: u32) {
        let ring = &mut self.rings[number];
        if let Some(record) = &self.setup.record {
            record.ends(number as u16, head);
        }
        match ring
            .queue
            .add_used(self.setup.memory.guest(), head, written)
        {
            Ok(()) => ring.answered = true,
            Err(_) => return ring.give_up(),
        }
        if let Some(record) = &self.setup.record {
            record.ended(number as u16, head, ring.queue.next_used());
        }
    }

    /// Tells the client what was answered, where it wants to know.
    fn notify(&mut self) {
        for ring in self.rings.0.iter_mut().flatten() {
            if std::mem::take(&mut ring.answered) {
                match ring.queue.needs_notification(self.setup.memory.guest()) {
                    Ok(true) => signal(ring.call.as_ref()),
                    Ok(false) => {}
                    Err(_) => ring.give_up(),
                }
            }
        }
    }
}

/// Ring and head of a request.
fn of_cookie(cookie: u64) -> (usize, u16) {
    ((cookie >> 32) as usize, cookie as u16)
}

/// What became of the next request.
enum Step {
    Taken,
    Empty,
    Full,
}
