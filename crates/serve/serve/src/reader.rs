//! Reads of one queue, on the thread of that queue: it chooses legs, reads from them with its own ring, and gets the
//! data. The thread of the mirror is involved only where [`iodyno_mirror::shared`] requires it.
//!
//! The ring also waits for other events of the thread: sockets, guest notifications, and replies of the mirror's
//! thread.
//!
//! # Invariants
//!
//! - A read owns a ring slot with its buffer until the kernel returns it, even after the read was abandoned. The kernel
//!   never gets a client's buffer.
//! - A read goes to a leg or to the thread of the mirror. Reads that fail, or wait on a dropped leg, also go to the
//!   mirror's thread. A silent leg is reported there; its reads are abandoned when the leg is dropped.
//! - All queues share the places of a leg: see [`iodyno_mirror::shared`]. Reads that wait for a place are sorted and
//!   merged within this queue.
//! - A thread with reads in its ring waits only on its ring: others need the places of its reads.
//! - Reads do not allocate, once lists have grown.
//! - A ring reuses the buffers of an earlier one, if any ([`Queues::take_arena`]). They are returned after the kernel
//!   has released all of them. A queue whose leg never returns them is not used again.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use iodyno_mirror::core::{Access, Errno};
use iodyno_mirror::superblock::{DATA, MAX_LEGS};
use iodyno_mirror::{LegSet, LegView, ReadPolicy, ReadRequest, Transfer};
use iodyno_model::errno::EIO;
use iodyno_model::{Engine, EngineKind};
use iodyno_sys::{
    Backend, BackendError, Clock, Completion, Completions, File, MonotonicClock, Op, OpKind,
    UringBackend,
};

use crate::queue::{Handle, LOOK_NS, LegCommands, Queues, ReplyTo, Request, SLOT_BYTES};

/// Reads of a queue in the ring at most.
const MAX_SLOTS: usize = 40;
/// Reads of a queue that wait or are in the ring; more go to the thread of the mirror.
const MAX_READS: u32 = 1024;
/// Bytes that are received at a time.
const MAX_RECEIVED: u32 = 64 << 10;
/// Files of the ring: the legs, this thread's event, the stream, and the watched files.
const WAKE_FILE: u32 = MAX_LEGS as u32;
const STREAM_FILE: u32 = WAKE_FILE + 1;
const FIRST_WATCHED: u32 = STREAM_FILE + 1;
/// Slots beyond those of reads: for the event, and for the stream.
const EXTRA_SLOTS: u32 = 2;

/// A read that has ended, or was handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Its cookie from [`Reader::read`].
    pub cookie: u64,
    /// Start, bytes.
    pub offset: u64,
    /// Length, bytes.
    pub length: u32,
    /// How it ended.
    pub outcome: Outcome,
}

/// How a read ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Its bytes are here: see [`Reader::bytes`].
    Read {
        /// The slot.
        slot: u32,
        /// Start in its buffer, bytes.
        at: u32,
    },
    /// The mirror must read it. The leg that failed, and its error.
    HandedOver(Option<(usize, Errno)>),
}

/// A leg as this queue sees it.
#[derive(Debug)]
struct Leg {
    commands: LegCommands,
    /// The ring has its file.
    open: bool,
    rotational: bool,
    /// Threads of the kernel read from it: its file system may make a call wait.
    may_block: bool,
}

/// A read of a client.
#[derive(Debug, Clone, Copy)]
struct Read {
    offset: u64,
    length: u32,
    cookie: u64,
}

/// Reads in a slot, adjacent in this order.
#[derive(Debug)]
struct InFlightRead {
    leg: usize,
    /// The command of the leg's queue.
    command: u32,
    reads: Vec<u32>,
    offset: u64,
    length: u32,
    done: u32,
    since: u64,
    /// Its reads were handed over.
    abandoned: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Watched {
    /// A poll is in the ring.
    armed: bool,
    /// How often its file was exchanged: a poll of an earlier one is ignored.
    version: u32,
}

/// See the module.
#[derive(Debug)]
pub struct Reader {
    handle: Handle,
    queues: Arc<Queues>,
    /// `None`: this thread has no queue. Then nothing is read here.
    number: Option<usize>,
    wake: Arc<OwnedFd>,
    generation: u32,
    policy: Option<Box<dyn ReadPolicy>>,
    legs: Vec<Leg>,
    views: Vec<LegView>,
    reads: Vec<Option<Read>>,
    free_reads: Vec<u32>,
    lists: Vec<Vec<u32>>,
    flights: Vec<Option<InFlightRead>>,
    free_slots: Vec<u32>,
    /// Slots whose bytes the last turn passed on.
    delivered: Vec<u32>,
    ended: Vec<Ended>,
    ready: Vec<u32>,
    woken: bool,
    listening: bool,
    /// A receive on the stream is in flight; `received` gets its result.
    receiving: bool,
    received: Option<i32>,
    watched: Vec<Watched>,
    check_at: u64,
    backend: UringBackend,
    completions: Completions,
    clock: MonotonicClock,
}

impl Reader {
    /// Creates a ring that can watch this number of files. It becomes a queue of the mirror if one is free.
    ///
    /// # Errors
    /// Those of io_uring and of eventfd(2).
    pub fn new(handle: &Handle, watched: u32) -> Result<Reader, BackendError> {
        Reader::with(handle, handle.queues().enter(), watched)
    }

    /// The same, with this queue, or without one.
    pub(crate) fn with(
        handle: &Handle,
        number: Option<usize>,
        watched: u32,
    ) -> Result<Reader, BackendError> {
        let queues = Arc::clone(handle.queues());
        let wake = queues.wake(number);
        let made = wake.and_then(|wake| {
            let slots = match number {
                Some(_) => queues.slots().min(MAX_SLOTS) as u32,
                None => 0,
            };
            let backend = ring(&queues, &wake, slots, watched)?;
            Ok((wake, slots, backend))
        });
        let (wake, slots, backend) = made.inspect_err(|_| queues.leave(number, None))?;
        Ok(Reader {
            handle: handle.clone(),
            number,
            wake,
            // The table is read before the first choice.
            generation: 0,
            policy: None,
            legs: Vec::new(),
            views: Vec::with_capacity(MAX_LEGS),
            reads: Vec::new(),
            free_reads: Vec::new(),
            lists: Vec::new(),
            flights: (0..slots + EXTRA_SLOTS).map(|_| None).collect(),
            free_slots: (0..slots).collect(),
            delivered: Vec::with_capacity(slots as usize),
            ended: Vec::new(),
            ready: Vec::with_capacity(watched as usize),
            woken: false,
            listening: false,
            receiving: false,
            received: None,
            watched: vec![Watched::default(); watched as usize],
            check_at: 0,
            completions: Completions::with_capacity(slots + EXTRA_SLOTS + watched),
            backend,
            clock: MonotonicClock,
            queues,
        })
    }

    /// The event with which other threads wake this one.
    pub fn wake(&self) -> &Arc<OwnedFd> {
        &self.wake
    }

    /// The number of its queue, for requests to the mirror.
    pub fn queue(&self) -> u32 {
        self.number.unwrap_or(0) as u32
    }

    /// Whether reads have not ended.
    pub fn is_busy(&self) -> bool {
        self.free_reads.len() < self.reads.len()
    }

    /// Starts a read. `false`: it must go to the thread of the mirror.
    pub fn read(&mut self, cookie: u64, offset: u64, length: u32) -> bool {
        if self.number.is_none() || length > SLOT_BYTES {
            return false;
        }
        if self.queues.generation() != self.generation {
            self.refresh();
        }
        let Some(published) = self.queues.published() else {
            return false;
        };
        let Some(policy) = &mut self.policy else {
            return false;
        };
        // This must come first: see `iodyno_mirror::shared`.
        let mut legs = published.readable(offset, length);
        for leg in 0..MAX_LEGS {
            if !self.legs.get(leg).is_some_and(|leg| leg.open) {
                legs.remove(leg);
            }
        }
        let in_use = self.reads.len() - self.free_reads.len();
        let (Some(first), true) = (legs.first(), in_use < MAX_READS as usize) else {
            return false;
        };
        let now = self.clock.now();
        self.views.clear();
        let views = self.legs.iter().enumerate();
        let board = self.queues.board();
        self.views
            .extend(views.map(|(at, leg)| board.view(at, legs.has(at), leg.rotational)));
        let request = ReadRequest {
            offset,
            length: length.into(),
        };
        let chosen = policy.choose(&request, &self.views, now);
        let leg = chosen.filter(|leg| legs.has(*leg)).unwrap_or(first);
        let read = Read {
            offset,
            length,
            cookie,
        };
        let entry = match self.free_reads.pop() {
            Some(entry) => {
                self.reads[entry as usize] = Some(read);
                entry
            }
            None => {
                self.reads.push(Some(read));
                self.reads.len() as u32 - 1
            }
        };
        let range = (offset, length.into());
        (self.legs[leg].commands).push(entry, Transfer::Read, range, now);
        true
    }

    /// Reads the table of legs again.
    fn refresh(&mut self) {
        let Some(number) = self.number else { return };
        let mut table = self.queues.table();
        let generation = self.queues.generation();
        let mut complete = true;
        if let Some(policy) = table.policies.get_mut(number).and_then(Option::take) {
            self.policy = Some(policy);
        }
        for (at, known) in table.legs.iter().enumerate() {
            if at == self.legs.len() {
                self.legs.push(Leg {
                    commands: LegCommands::new(&self.queues, number, at),
                    open: false,
                    rotational: known.rotational,
                    may_block: known.may_block,
                });
            }
            let in_flight = self.flights.iter().flatten().any(|flight| flight.leg == at);
            let leg = &mut self.legs[at];
            let file = match &known.file {
                Some(file) if !leg.open => file.try_clone().ok(),
                // Each index of the ring needs a file.
                None if leg.open && in_flight => {
                    complete = false;
                    None
                }
                None if leg.open => self.wake.try_clone().ok(),
                _ => None,
            };
            let Some(descriptor) = file else { continue };
            let file = File {
                descriptor,
                device: false,
            };
            if self.backend.replace_file(at as u32, file).is_ok() {
                leg.open = known.file.is_some();
            }
        }
        if complete {
            self.generation = generation;
        }
    }

    /// Watches another file under this number from now on.
    ///
    /// # Errors
    /// Those of dup(2) and io_uring_register(2).
    pub fn exchange(&mut self, number: u32, file: impl AsFd) -> Result<(), BackendError> {
        let file = copy(file)?;
        self.backend.replace_file(FIRST_WATCHED + number, file)?;
        let watched = &mut self.watched[number as usize];
        (watched.armed, watched.version) = (false, watched.version.wrapping_add(1));
        Ok(())
    }

    /// Waits until this file can be read, or with `write` be written, from the next turn on, once.
    pub fn watch(&mut self, number: u32, write: bool) {
        let files = self.watched.len() as u32;
        let watched = &mut self.watched[number as usize];
        if !std::mem::replace(&mut watched.armed, true) {
            let version = watched.version % 1024;
            let poll = version * files + number;
            (self.backend).prep_poll(poll, FIRST_WATCHED + number, write);
        }
    }

    /// Issues what can be issued, and waits for an event, at most `most_ns`. Data of reads that ended before become
    /// invalid.
    ///
    /// # Errors
    /// The ring failed.
    pub fn turn(&mut self, most_ns: Option<u64>) -> Result<(), BackendError> {
        debug_assert!(self.ended.is_empty(), "reads that ended were taken");
        self.free_slots.append(&mut self.delivered);
        if self.queues.generation() != self.generation {
            self.refresh();
        }
        if !std::mem::replace(&mut self.listening, true) {
            let op = of_file(WAKE_FILE, 8);
            self.backend.prep(self.wake_slot(), &op);
        }
        self.submit();
        let waits = !self.woken && self.ready.is_empty() && self.received.is_none();
        // Issued reads may hang, and waiting ones may wait for a dropped leg.
        let busy = self.is_busy();
        let time = self.clock.now();
        if busy && time >= self.check_at {
            self.check_at = time + LOOK_NS;
            self.check_legs(time);
        }
        let most = self.flights.len() as u32 + self.watched.len() as u32;
        let deadline = busy.then_some(self.check_at);
        let limit = most_ns.map(|most| time + most);
        let deadline = deadline.into_iter().chain(limit).min();
        let mut completions =
            std::mem::replace(&mut self.completions, Completions::with_capacity(0));
        let waits = u32::from(waits && self.ended.is_empty());
        let turned = (self.backend).turn(waits, most, deadline, &mut completions);
        for completion in &completions.list {
            self.completed(completion);
        }
        self.completions = completions;
        turned
    }

    fn wake_slot(&self) -> u32 {
        self.flights.len() as u32 - 2
    }

    fn stream_slot(&self) -> u32 {
        self.flights.len() as u32 - 1
    }

    /// Sets the stream to receive from.
    ///
    /// # Errors
    /// Those of dup(2) and io_uring_register(2).
    pub fn set_stream(&mut self, stream: impl AsFd) -> Result<(), BackendError> {
        self.backend.replace_file(STREAM_FILE, copy(stream)?)
    }

    /// Receives from the stream, from the next turn on. Bytes received before become invalid.
    pub fn receive(&mut self) {
        if !std::mem::replace(&mut self.receiving, true) {
            let op = of_file(STREAM_FILE, MAX_RECEIVED);
            self.backend.prep(self.stream_slot(), &op);
        }
    }

    /// Received bytes of the stream; empty at its end.
    pub fn received(&mut self) -> Option<&[u8]> {
        let result = self.received.take()?;
        let slot = self.stream_slot();
        Some(&self.backend.buffer(slot)[..result.max(0) as usize])
    }

    /// A read that has ended.
    pub fn ended(&mut self) -> Option<Ended> {
        self.ended.pop()
    }

    /// Sends a read that was handed over to the thread of the mirror, with a buffer for its bytes.
    pub fn pass_on(
        &self,
        ended: &Ended,
        failed: Option<(usize, Errno)>,
        payload: Vec<u8>,
        reply: &ReplyTo,
    ) {
        self.handle.request(Request {
            access: Access::Read,
            offset: ended.offset,
            length: ended.length,
            payload,
            holes: false,
            cookie: ended.cookie,
            reply: reply.clone(),
            queue: self.queue(),
            failed,
        });
    }

    /// A file that was watched, and is ready.
    pub fn ready(&mut self) -> Option<u32> {
        self.ready.pop()
    }

    /// Whether another thread has woken this one since the last call.
    pub fn woken(&mut self) -> bool {
        std::mem::take(&mut self.woken)
    }

    /// The data of a read, valid until the next turn.
    pub fn bytes(&mut self, ended: &Ended) -> &[u8] {
        match ended.outcome {
            Outcome::Read { slot, at } => {
                &self.backend.buffer(slot)[at as usize..][..ended.length as usize]
            }
            Outcome::HandedOver(_) => &[],
        }
    }

    fn submit(&mut self) {
        for leg in 0..self.legs.len() {
            if self.legs[leg].commands.waits() && !self.queues.in_sync().has(leg) {
                self.withdraw(leg);
            }
            while self.legs[leg].commands.waits()
                && !self.free_slots.is_empty()
                && self.issue_next(leg)
            {}
            self.legs[leg].commands.give_back_unneeded();
        }
    }

    /// Hands over reads that wait for a dropped leg.
    fn withdraw(&mut self, leg: usize) {
        while let Some(entry) = self.legs[leg].commands.withdraw() {
            self.hand_over(entry, None);
        }
    }

    fn hand_over(&mut self, entry: u32, failed: Option<(usize, Errno)>) {
        self.end(entry, Outcome::HandedOver(failed));
    }

    fn end(&mut self, entry: u32, outcome: Outcome) {
        let read = self.reads[entry as usize].take().expect("in use");
        self.free_reads.push(entry);
        self.ended.push(Ended {
            cookie: read.cookie,
            offset: read.offset,
            length: read.length,
            outcome,
        });
    }

    /// Issues the next command of a leg in a free slot. `false`: nothing waits, or the leg has no place.
    fn issue_next(&mut self, leg: usize) -> bool {
        let now = self.clock.now();
        let mut reads = self.lists.pop().unwrap_or_default();
        let Some(command) = self.legs[leg].commands.issue(now, &mut reads) else {
            self.lists.push(reads);
            return false;
        };
        let slot = self.free_slots.pop().expect("one is free");
        self.flights[slot as usize] = Some(InFlightRead {
            leg,
            command: command.first,
            reads,
            offset: DATA + command.offset,
            length: command.length as u32,
            done: 0,
            since: now,
            abandoned: false,
        });
        self.prepare(slot);
        true
    }

    fn prepare(&mut self, slot: u32) {
        let flight = self.flights[slot as usize].as_ref().expect("in flight");
        let op = Op {
            kind: OpKind::Read,
            file: flight.leg as u32,
            offset: flight.offset + u64::from(flight.done),
            length: flight.length - flight.done,
            skip: flight.done,
            priority: 0,
        };
        match self.legs[flight.leg].may_block {
            true => self.backend.prep_in_worker(slot, &op, false),
            false => self.backend.prep(slot, &op),
        }
    }

    fn completed(&mut self, completion: &Completion) {
        let (slot, polls) = (completion.slot, self.flights.len() as u32);
        if slot == self.wake_slot() {
            (self.listening, self.woken) = (false, true);
            return;
        }
        if slot == self.stream_slot() {
            (self.receiving, self.received) = (false, Some(completion.result));
            return;
        }
        if let Some(poll) = slot.checked_sub(polls) {
            let files = self.watched.len() as u32;
            let watched = &mut self.watched[(poll % files) as usize];
            if watched.version % 1024 == poll / files {
                watched.armed = false;
                self.ready.push(poll % files);
            }
            return;
        }
        let flight = self.flights[slot as usize].as_mut().expect("in flight");
        if completion.result > 0 {
            flight.done += completion.result as u32;
            // A rest that is not aligned cannot be read directly; it is an error below.
            if flight.done < flight.length && flight.done.is_multiple_of(512) && !flight.abandoned {
                return self.prepare(slot);
            }
        }
        let flight = self.flights[slot as usize].take().expect("in flight");
        (self.legs[flight.leg].commands).complete(flight.command, completion.completed);
        let error = match completion.result {
            _ if flight.done == flight.length => None,
            result if result < 0 => Some(-result),
            _ => {
                // Before its reads are handed over.
                self.handle.shortened(flight.leg);
                Some(EIO)
            }
        };
        let mut at = 0;
        let mut reads = flight.reads;
        for entry in reads.drain(..).filter(|_| !flight.abandoned) {
            match error {
                None => {
                    let length = self.reads[entry as usize].expect("in use").length;
                    self.end(entry, Outcome::Read { slot, at });
                    at += length;
                }
                // One bad sector must not fail the reads merged with it: the mirror retries each from any leg.
                Some(_) if at == 0 && reads_of_one(flight.length, &self.reads, entry) => {
                    let failed = error.map(|errno| (flight.leg, errno));
                    self.hand_over(entry, failed);
                }
                Some(_) => self.hand_over(entry, None),
            }
        }
        self.lists.push(reads);
        self.delivered.push(slot);
    }

    /// Reports silent legs, and abandons reads on dropped legs.
    fn check_legs(&mut self, now: u64) {
        let in_sync = self.queues.in_sync();
        let mut silent = LegSet::NONE;
        for slot in 0..self.flights.len() {
            let Some(flight) = &mut self.flights[slot] else {
                continue;
            };
            if now.saturating_sub(flight.since) > self.queues.leg_timeout_ns() {
                silent.add(flight.leg);
            }
            if !in_sync.has(flight.leg) && !flight.abandoned {
                flight.abandoned = true;
                let mut reads = std::mem::take(&mut flight.reads);
                for entry in reads.drain(..) {
                    self.hand_over(entry, None);
                }
                self.lists.push(reads);
            }
        }
        for leg in silent.and(in_sync).iter() {
            self.handle.silent(leg);
        }
    }

    /// Whether slots are in the kernel.
    fn is_in_flight(&self) -> bool {
        self.flights.iter().any(Option::is_some)
    }
}

fn reads_of_one(length: u32, reads: &[Option<Read>], entry: u32) -> bool {
    reads[entry as usize].is_some_and(|read| read.length == length)
}

impl Drop for Reader {
    fn drop(&mut self) {
        for leg in 0..self.legs.len() {
            self.withdraw(leg);
        }
        for flight in self.flights.iter_mut().flatten() {
            flight.abandoned = true;
        }
        self.backend.cancel_all();
        // Memory of reads that a leg does not return is never freed.
        let deadline = self.clock.now() + LOOK_NS;
        while (self.is_in_flight() || self.listening || self.receiving)
            && self.clock.now() < deadline
        {
            let most = self.flights.len() as u32;
            let mut completions =
                std::mem::replace(&mut self.completions, Completions::with_capacity(0));
            let turned = (self.backend).turn(1, most, Some(deadline), &mut completions);
            for completion in &completions.list {
                self.completed(completion);
            }
            self.completions = completions;
            if turned.is_err() {
                break;
            }
        }
        for slot in 0..self.flights.len() {
            if let Some(flight) = self.flights[slot].take() {
                self.legs[flight.leg].commands.give_back();
            }
        }
        let policy = self.policy.take();
        // The ring closes its files shortly after its own end.
        for leg in 0..self.legs.len() {
            if let Ok(file) = copy(&self.wake) {
                let _ = self.backend.replace_file(leg as u32, file);
            }
        }
        let arena = self.backend.take_arena();
        let returned = arena.is_some();
        self.queues.put_arena(arena);
        // Another ring of a queue whose leg hangs would need as much memory again.
        if returned {
            self.queues.leave(self.number, policy);
        }
    }
}

/// A read of a file that is not a leg.
fn of_file(file: u32, length: u32) -> Op {
    Op::new(OpKind::Read, file, 0, length)
}

fn copy(file: impl AsFd) -> Result<File, BackendError> {
    let descriptor = (file.as_fd().try_clone_to_owned())
        .map_err(|error| BackendError::new("duplicate a descriptor", error))?;
    Ok(File {
        descriptor,
        device: false,
    })
}

fn ring(
    queues: &Queues,
    wake: &OwnedFd,
    slots: u32,
    watched: u32,
) -> Result<UringBackend, BackendError> {
    let files = (0..FIRST_WATCHED + watched).map(|_| copy(wake));
    let files = files.collect::<Result<Vec<_>, BackendError>>()?;
    let bytes = match slots {
        0 => MAX_RECEIVED,
        _ => SLOT_BYTES,
    };
    let slots = slots + EXTRA_SLOTS;
    let arena = (queues.take_arena(slots, bytes as usize))
        .map_err(|error| BackendError::new("get memory for buffers", error))?;
    let engine = Engine::new(EngineKind::IoUring, slots);
    let mut backend = UringBackend::with_polls(files, arena, &engine, watched)?;
    backend.allow_workers();
    Ok(backend)
}
