//! The thread that runs a mirror: its events, and the requests that it answers.

mod changes;
mod ring;

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

use iodyno_mirror::core::{
    Access, Buffer, Choose, Errno, Event, Mirror, Notice, Op, OpId, OpKind, Order,
    Request as MirrorRequest,
};
use iodyno_mirror::shared::Board;
use iodyno_mirror::superblock::{BLOCK, DATA};
use iodyno_mirror::{
    LegSet, LegView, PolicyKind, QueueSettings, ReadPolicy, ReadRequest, Transfer,
};
use iodyno_model::{Engine, EngineKind};
use iodyno_sim::Disk;
use iodyno_sys::memory::Arena;
use iodyno_sys::{
    Backend, BackendError, Clock, Completions, Device, MonotonicClock, OpKind as KernelKind,
    UringBackend,
};

use super::admin::OpenLeg;
use super::leg_commands::LegCommands;
use super::leg_file::{LegFile, PathIdentity, copy_of, leg_file};
use super::request::{Reply, ReplyTo, Request};
use super::shared::{Inbox, Message, Queues, TableLeg, placeholder, watch_place};

/// The longest op of a leg, and the longest part of a request, bytes.
pub(crate) const SLOT_BYTES: u32 = 1 << 20;

/// Slots of a leg for flushes, superblocks and the log, in addition to those of its queue.
const EXTRA_SLOTS: u32 = 6;

/// Lanes for legs that are added later. Each needs 16 MiB.
const SPARE_LANES: u32 = 2;

/// Between two ticks of the mirror, ns.
const TICK_NS: u64 = 1_000_000_000;

/// Between two looks at silent legs, ns.
pub(crate) const LOOK_NS: u64 = 1_000_000_000;

/// Between two credits for copying, ns.
const CREDIT_NS: u64 = 100_000_000;

/// Settings of a running mirror.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Chooses the leg of a read.
    pub policy: PolicyKind,
    /// A leg that does not answer for this time is dropped, ns.
    pub leg_timeout_ns: u64,
    /// Bytes per second that are copied while resyncing.
    pub resync_rate: u64,
    /// The seed of random policies.
    pub seed: u64,
}

/// A task besides serving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// None: the mirror runs until it is stopped.
    Serve,
    /// Compares all legs, and ends. The leg is copied to the others where they differ; `None`: differences are only
    /// reported.
    Scrub(Option<usize>),
}

/// Runs the mirror in this thread. It returns when the mirror was stopped or its task has ended, and nothing is in
/// flight. The legs are those of the table, in its order. Each notice comes with the names of all legs.
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
    /// Writes zeros, or punches a hole, which reads as zeros.
    Zeros {
        hole: bool,
    },
    /// Writes these bytes.
    From(Rc<[u8]>),
    /// Writes from, or reads into, a part of a client's request.
    Client(u64),
    /// Reads into a buffer of a task.
    Own(u32, usize),
    /// Writes this if a read before it finds `expected`.
    Superblock {
        expected: Option<Box<[u8; BLOCK]>>,
        new: Box<[u8; BLOCK]>,
    },
    /// The bytes that the read must find.
    Expected(Box<[u8; BLOCK]>),
}

/// An op of the mirror, waiting or issued.
#[derive(Debug)]
struct LegOp {
    id: OpId,
    leg: usize,
    kind: OpKind,
    offset: u64,
    length: u32,
    memory: Memory,
}

impl LegOp {
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
    /// Whether the write must be durable.
    fua: bool,
    offset: u64,
    length: u32,
    /// Bytes transferred so far.
    done: u32,
    /// When it was issued, ns.
    since: u64,
    /// Whether the simulated disk of the leg is still busy with it.
    delayed: bool,
    /// While it is delayed: its result, and when the kernel completed it, ns.
    ended: Option<(Result<(), Errno>, u64)>,
}

/// A part of a request, at most as long as a slot.
#[derive(Debug)]
struct RequestPart {
    request: u64,
    /// Its start in the request, bytes.
    at: usize,
}

/// A request whose parts are in progress.
#[derive(Debug)]
struct ClientRequest {
    cookie: u64,
    reply: ReplyTo,
    /// Whether it reads.
    read: bool,
    /// The bytes to write, or the bytes that were read. Empty for flushes and for writes of zeros.
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
    legs: &'a [LegState],
    views: &'a mut Vec<LegView>,
    now: u64,
}

impl Choose for Chooser<'_> {
    fn choose(&mut self, offset: u64, length: u32, legs: LegSet) -> usize {
        self.views.clear();
        let states = self.legs.iter().enumerate();
        let views = states.map(|(at, leg)| self.board.view(at, legs.has(at), leg.rotational));
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
    // The caller may have ended.
    let _ = reply.send(result);
}

/// Slots of the ring, and a place in its table of files.
#[derive(Debug)]
struct Lane {
    /// The index of the file.
    file: u32,
    free_slots: Vec<u32>,
}

/// An open leg.
#[derive(Debug)]
struct Present {
    lane: Lane,
    held: LegFile,
}

/// A leg of the mirror's table.
#[derive(Debug)]
struct LegState {
    path: Option<PathBuf>,
    /// `None`: it is missing or was removed.
    present: Option<Present>,
    rotational: bool,
    /// Whether it can zero ranges without writing them.
    zeroes: bool,
    /// The simulated disk.
    delay: Option<Box<Disk>>,
    commands: LegCommands,
    /// Entries that bypass `commands`.
    direct: VecDeque<u32>,
}

impl LegState {
    fn new(leg: OpenLeg, present: Option<Present>, commands: LegCommands) -> LegState {
        LegState {
            path: leg.path,
            present,
            rotational: (leg.delay.as_ref()).map_or(leg.rotational, |disk| disk.rotational()),
            zeroes: leg.zeroes,
            delay: leg.delay,
            commands,
            direct: VecDeque::new(),
        }
    }

    /// The slots that no op uses. `None`: the leg is not present.
    fn free_slots(&mut self) -> Option<&mut Vec<u32>> {
        let present = self.present.as_mut()?;
        Some(&mut present.lane.free_slots)
    }

    /// The leg in the table of the queues.
    fn in_table(&self) -> Result<TableLeg, BackendError> {
        let held = self.present.as_ref().map(|present| &present.held);
        Ok(TableLeg {
            file: held.map(|held| copy_of(&held.file)).transpose()?,
            rotational: self.rotational,
            may_block: held.is_some_and(|held| held.may_block),
            place: PathIdentity::of(self.path.as_ref(), held),
        })
    }
}

struct Server<'a> {
    mirror: Mirror,
    settings: Settings,
    shared: Arc<Queues>,
    /// The policy of this queue, or of all queues if the others do not read themselves.
    policies: Vec<Box<dyn ReadPolicy>>,
    /// The names of all legs, for notices.
    names: Vec<String>,
    legs: Vec<LegState>,
    views: Vec<LegView>,
    /// Of the writes that are issued together: the legs that are long enough.
    long: LegSet,
    /// Lanes that no leg uses.
    spare: Vec<Lane>,
    entries: Vec<Option<LegOp>>,
    free_entries: Vec<u32>,
    /// Empty lists of entries, to reuse.
    lists: Vec<Vec<u32>>,
    flights: Vec<Option<InFlightIo>>,
    backend: UringBackend,
    clock: MonotonicClock,
    own: HashMap<(u32, usize), Rc<[u8]>>,
    parts: HashMap<u64, RequestPart>,
    requests: HashMap<u64, ClientRequest>,
    next_id: u64,
    inbox: Inbox,
    wake_file: u32,
    wake_slot: u32,
    /// Whether the ring is reading the eventfd.
    listening: bool,
    events: VecDeque<Event>,
    orders: Vec<Order>,
    notice: &'a mut dyn FnMut(Notice, &[String]),
    /// The callers that wait for changes of the legs.
    changes: HashMap<u64, Sender<Result<(), Errno>>>,
    /// The caller that waits for the comparison in progress.
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
        let lanes = legs.len() as u32 + SPARE_LANES;
        let slots = lanes * each + 1;
        let names = legs.iter().map(|leg| leg.name.clone()).collect();
        let (mut files, mut spare, mut states) = (Vec::new(), Vec::new(), Vec::new());
        let mut legs = legs.into_iter();
        for file in 0..lanes {
            let free_slots = (file * each..(file + 1) * each).collect();
            let lane = Lane { file, free_slots };
            let mut leg = legs.next();
            let present = match leg.as_mut().and_then(|leg| leg.descriptor.take()) {
                Some(descriptor) => {
                    let held = LegFile::of(&descriptor)?;
                    files.push(leg_file(descriptor));
                    Some(Present { lane, held })
                }
                None => {
                    files.push(placeholder(&inbox)?);
                    spare.push(lane);
                    None
                }
            };
            if let Some(leg) = leg {
                let commands = LegCommands::new(&shared, 0, states.len());
                states.push(LegState::new(leg, present, commands));
            }
        }
        let wake_file = lanes;
        files.push(placeholder(&inbox)?);
        let arena = Arena::new(slots, SLOT_BYTES as usize, 0, false)
            .map_err(|error| BackendError::new("get memory for buffers", error))?;
        let engine = Engine::new(EngineKind::IoUring, slots);
        let mut server = Server {
            settings,
            shared,
            policies: Vec::new(),
            names,
            legs: states,
            views: Vec::new(),
            long: LegSet::NONE,
            spare,
            entries: Vec::new(),
            free_entries: Vec::new(),
            lists: Vec::new(),
            flights: (0..slots).map(|_| None).collect(),
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
        // A channel has one server.
        let _ = server.shared.published.set(published);
        server.build_policies();
        let legs = server.legs.iter().map(LegState::in_table);
        let legs = legs.collect::<Result<Vec<_>, _>>()?;
        server.shared.change(|table| table.legs = legs);
        Ok(server)
    }

    /// Makes the policies of all queues for the legs.
    fn build_policies(&mut self) {
        let legs = self.legs.len();
        let (queues, seed) = (self.shared.board.queues(), self.settings.seed);
        let mut policies = self.settings.policy.build_queues(queues as u32, legs, seed);
        if self.legs.iter().all(|leg| leg.delay.is_none()) {
            let others = policies.drain(1..).map(Some);
            self.shared.table().policies = std::iter::once(None).chain(others).collect();
        }
        // Otherwise this thread owns the models of the disks, and reads for all queues.
        self.policies = policies;
    }

    fn run(&mut self, task: Task) -> Result<(), BackendError> {
        self.task = task;
        let mut orders = std::mem::take(&mut self.orders);
        self.mirror.start(&mut orders);
        self.orders = orders;
        self.perform_orders();
        if let Task::Scrub(from) = task {
            self.events.push_back(Event::Scrub { from });
        }
        for leg in 0..self.legs.len() {
            watch_place(Arc::clone(&self.shared), leg)?;
        }
        self.serve()
    }

    /// Closes all legs without ops in flight. The ring alone would close them only some time after the process has
    /// ended.
    fn release_legs(&mut self) {
        self.shared.change(|table| table.legs.clear());
        let lanes: Vec<Lane> = (self.legs.iter_mut())
            .filter_map(|leg| Some(leg.present.take()?.lane))
            .collect();
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
        for lane in lanes {
            if let Ok(file) = placeholder(&self.inbox) {
                let _ = self.backend.replace_file(lane.file, file);
            }
        }
    }

    /// Handles events until the mirror has stopped.
    fn serve(&mut self) -> Result<(), BackendError> {
        let mut completions = Completions::with_capacity(self.flights.len() as u32);
        let now = self.clock.now();
        let (mut tick, mut check, mut credit) = (now + TICK_NS, now + LOOK_NS, now);
        while !self.stopped {
            let now = self.clock.now();
            if now >= tick {
                tick = now + TICK_NS;
                self.events.push_back(Event::Tick);
            }
            if now >= check {
                check = now + LOOK_NS;
                self.check_legs(now);
            }
            let copying = self.mirror.to_copy() > 0;
            if copying && now >= credit {
                credit = now + CREDIT_NS;
                let bytes = self.settings.resync_rate / (1_000_000_000 / CREDIT_NS);
                self.events.push_back(Event::Credit(bytes.max(1)));
            }
            let lost = self.shared.lost.swap(0, Ordering::Relaxed);
            for leg in (0..self.legs.len()).filter(|leg| lost & (1 << leg) != 0) {
                self.events.push_back(Event::Replaced { leg });
            }
            self.handle_events();
            // Set before it looks at messages, because it blocks afterwards.
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
            let delays = self.legs.iter().filter_map(|leg| leg.delay.as_ref());
            let ends = delays.filter_map(|disk| disk.next_end());
            let deadline = if copying { check.min(credit) } else { check };
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

    /// Drops legs that do not answer, or became shorter.
    fn check_legs(&mut self, now: u64) {
        self.reclaim();
        self.long = LegSet::NONE;
        for leg in 0..self.legs.len() {
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
                Message::Request(mut request) => {
                    (request.0.take().into_iter()).for_each(|request| self.accept(request));
                }
                Message::Admin(request) => self.manage(request),
                Message::Silent(leg) => {
                    if self.mirror.online().has(leg) {
                        self.events.push_back(Event::Lost { leg });
                    }
                }
                Message::Shortened(leg) => self.events.push_back(Event::Shortened { leg }),
                Message::Refused(clients) => self.handle_notice(Notice::Refused(clients)),
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
            ClientRequest {
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
                RequestPart {
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
                legs: &self.legs,
                views: &mut self.views,
                now: self.clock.now(),
            };
            self.mirror.handle(event, &mut chooser, &mut self.orders);
            self.perform_orders();
        }
    }

    // ---- Commands ----

    fn perform_orders(&mut self) {
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
                Order::Notice(notice) => self.handle_notice(notice),
                Order::Stopped => self.stopped = true,
            }
        }
        self.orders = orders;
    }

    fn handle_notice(&mut self, notice: Notice) {
        (self.notice)(notice, &self.names);
        match notice {
            Notice::Dropped { leg, .. } => {
                self.forget(leg);
                self.shared.wake_threads();
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
            // The caller may have ended.
            let _ = found.send((notice, self.names.clone()));
        }
        if let Notice::Scrubbed { .. } = notice {
            self.scrub = None;
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
                        hole: request.holes && self.legs[op.leg].zeroes,
                    },
                }
            }
            (Buffer::Own { task, part }, OpKind::Read) => Memory::Own(task, part),
            (Buffer::Own { task, part }, _) => Memory::From(Rc::clone(&self.own[&(task, part)])),
        };
        let entry = LegOp {
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
            OpKind::Flush => return self.legs[op.leg].direct.push_back(number),
        };
        let leg = &mut self.legs[op.leg];
        match op.offset.checked_sub(DATA) {
            // A hole is not merged with writes.
            Some(offset) if !hole => {
                let range = (offset, op.length.into());
                leg.commands.push(number, transfer, range, self.clock.now());
            }
            _ => leg.direct.push_back(number),
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
        // The client may have disconnected.
        open.reply.send(Reply {
            cookie: open.cookie,
            errno: open.errno,
            data,
            spare,
            length: open.length,
        });
    }
}
