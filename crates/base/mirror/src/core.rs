//! The mirror as a state machine: it gets events and returns orders. It performs no I/O, holds no data and has no clock, so
//! that a server and the crash simulator run the same object.
//!
//! # What must hold
//!
//! - *Log.* A write is issued to the legs only when the bits of its regions are durable on all legs that it goes to. A bit is
//!   cleared only when no write is in flight in its region, all legs were flushed after the last one, the region needs no
//!   copying, all legs of the table are in sync, and every change of the legs is recorded.
//! - *Fixed leg.* A region in which legs may differ (`needs_copy`) is read from the first leg in sync, until it was copied from this leg to
//!   all others. After an unclean start these are all marked regions; legs whose superblock or log is older than that of another are behind then
//!   ([`Assembly::with_logs`]). Records name the leg until nothing differs, and nothing else is written to a leg before the first record: another
//!   start chooses the same leg.
//! - *Epoch.* A write to the data of a leg is issued only while an epoch is open, and an epoch opens only by a record that began after the
//!   last one was closed. While it is open, each tick with a write records again, and so does a tick while it is being opened. It is closed
//!   by a record that began when nothing was written any more since the last tick, and all legs were flushed. So a copy of a leg that lacks a write has an older
//!   generation than the others, at the latest one record later. Bits are cleared only if a record began after the last write to
//!   their regions, so that the bits say what a copy of the newest generation may lack.
//! - *Drop.* A leg that fails a write or a flush that another leg in sync completed is dropped: it is behind. The drop is
//!   durable on the others before any write or flush that it missed is acknowledged ([`Mirror::ack`] waits for it). If all
//!   legs fail, none is dropped, the client gets the error, and the regions need copying.
//! - *Halt.* If no leg accepts the record of a drop, nothing is acknowledged any more until the mirror is started again.
//! - *Overwritten.* A copy of the superblock is only overwritten if it is what was written there last, and each tick
//!   reads both back. A leg that has another one was overwritten by somebody, perhaps with an old copy of itself: it
//!   and those that are copied to are dropped, and behind from byte 0. If it is the last leg in sync, the mirror halts.
//! - *Published.* What queues read without this object is as [`shared`](crate::shared) says. It is published at the end of each event,
//!   before its orders are carried out.
//! - *Exclusion.* Writes, copies and scrubbed ranges that overlap are carried out one after the other, in order of arrival.
//!
//! # Terms
//!
//! *Online*: the leg gets writes. Online legs are in sync, or behind and being copied to. *Task*: a request of the client or a
//! piece of work of the mirror itself. *Op*: one request to one leg. *Record*: an update of all superblocks; it has two generations.
//!
//! Legs are added, removed and taken back while the mirror runs. An index is never used for another leg: a removed leg keeps its own
//! until the next start. A leg that was dropped comes online again only by [`Event::Return`], when its last op has returned.

use std::collections::VecDeque;
use std::sync::Arc;

use uuid::Uuid;

use crate::assembly::{Assembly, Part};
use crate::intent::{self, Bits};
use crate::legs::LegSet;
use crate::ranges::Ranges;
use crate::shared::Published;
use crate::superblock::{BLOCK, COPIES, DATA, Fork, LOG, LegState, MOST_LEGS, Member};

/// Number of an operating system's error.
pub type Errno = i32;

const EIO: Errno = 5;
const EBUSY: Errno = 16;
const EINVAL: Errno = 22;
const ENOSPC: Errno = 28;
const ESHUTDOWN: Errno = 108;
/// A block on a leg is not what was expected. The kernel has no such error.
pub const UNEXPECTED: Errno = -1;

/// Ticks between two clean-ups of the log while writes are issued.
const CLEAN_TICKS: u64 = 5;

/// Constants of a running mirror.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Length of one copy while resyncing, bytes; a multiple of the unit. Regions of less are copied at once.
    pub copy_bytes: u32,
    /// Copies in flight.
    pub copies: u32,
    /// Whether epochs are recorded. Without them a leg that was restored from a copy may not be noticed: only to test that this is found.
    pub epochs: bool,
    /// The number of a new line, which the first record after the start begins unless it only records the start.
    /// Random: two histories that start from the same state have different lines.
    pub line: Option<u64>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            copy_bytes: 256 << 10,
            copies: 4,
            epochs: true,
            line: None,
        }
    }
}

/// What a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads the range.
    Read,
    /// Writes the range; with `fua` it is durable before the reply.
    Write {
        /// Forced unit access.
        fua: bool,
    },
    /// Makes all writes durable that were replied to before.
    Flush,
}

/// A request of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Chosen by the client's front; identifies its buffer.
    pub id: u64,
    /// What it does.
    pub access: Access,
    /// Start, bytes; 0 for a flush.
    pub offset: u64,
    /// Length, bytes; 0 for a flush.
    pub length: u32,
}

/// Identifies an op. Numbers of ops that were given up never return.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OpId {
    slot: u32,
    generation: u32,
}

/// Something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A client's request arrived.
    Request(Request),
    /// A read that a queue sent to a leg itself has failed. It is read from another leg, and the failed one is repaired.
    Failed {
        /// The read.
        request: Request,
        /// The leg that failed.
        leg: usize,
        /// Its error.
        error: Errno,
    },
    /// An op has ended. Unknown ops are ignored: those of a leg that was given up.
    Done {
        /// Which.
        op: OpId,
        /// Its error, if any.
        result: Result<(), Errno>,
    },
    /// A leg does not answer. Unless it is the last one in sync, it is dropped: its ops count as failed. They may still use
    /// their buffers.
    Lost {
        /// Which.
        leg: usize,
    },
    /// A leg became shorter than the mirror: nobody knows what it has lost. Unless it is the last one in sync, it is dropped, and
    /// copied to completely when it is taken back.
    Shortened {
        /// Which.
        leg: usize,
    },
    /// The file of a leg was removed or replaced: nobody knows what will be there at the next start. Unless it is the last one in sync,
    /// it is dropped. It cannot be taken back.
    Replaced {
        /// Which.
        leg: usize,
    },
    /// A second has passed.
    Tick,
    /// Bytes that may be copied for resyncing in addition.
    Credit(u64),
    /// A new leg, which gets the next index. Its data are of any content, and its log is clear. Replied to when it is recorded.
    /// `ENOSPC`: there are too many legs.
    Add {
        /// Number for the reply; not that of another request.
        id: u64,
        /// UUID of the leg.
        uuid: Uuid,
    },
    /// A leg leaves the mirror. Replied to when that is recorded. `EBUSY`: no other leg is in sync, or the leg is in
    /// sync and regions are still to be copied.
    Remove {
        /// Number for the reply; not that of another request.
        id: u64,
        /// Which.
        leg: usize,
    },
    /// A leg that was dropped and whose ops have all returned gets writes again, and is copied to. Replied to when that is recorded.
    /// `EINVAL`: it was not dropped.
    Return {
        /// Number for the reply; not that of another request.
        id: u64,
        /// Which.
        leg: usize,
        /// What is recorded on it now. If it is older than when the leg was dropped, or of another line, all of it is copied. `None`: it
        /// has another content.
        stored: Option<Fork>,
    },
    /// Compares all legs in sync, once nothing needs copying.
    Scrub {
        /// The leg that is right where legs differ; `None`: only report.
        from: Option<usize>,
    },
    /// The answer to [`Order::Compare`].
    Compared {
        /// The order's task.
        task: u32,
        /// Whether all are equal.
        equal: bool,
    },
    /// Ends the mirror when all requests have ended.
    Stop,
}

/// The memory of an op.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Buffer {
    /// None: a flush.
    None,
    /// That of a client's request.
    Client(u64),
    /// One of the task's own: a copy has one, number 0; a scrub has one for each leg.
    Own {
        /// The task.
        task: u32,
        /// Its number.
        part: usize,
    },
    /// These bytes are written.
    Block(Box<[u8; BLOCK]>),
    /// A copy of the superblock is written. First, it is read: if it is not `expected`, nothing is written, and the op
    /// fails as [`UNEXPECTED`]. It is written if it cannot be read.
    Superblock {
        /// `None`: it is not read.
        expected: Option<Box<[u8; BLOCK]>>,
        /// What is written.
        new: Box<[u8; BLOCK]>,
    },
    /// What is read has to be this. Otherwise, the op fails as [`UNEXPECTED`].
    Expected(Box<[u8; BLOCK]>),
}

/// What an op does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpKind {
    /// Reads.
    Read,
    /// Writes; with `fua` it has to be durable when it ends.
    Write {
        /// Forced unit access.
        fua: bool,
    },
    /// Makes all writes durable that ended before it was issued.
    Flush,
}

/// One request to one leg.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Op {
    /// Its number, for [`Event::Done`].
    pub id: OpId,
    /// The leg.
    pub leg: usize,
    /// What it does.
    pub kind: OpKind,
    /// Offset on the leg, bytes.
    pub offset: u64,
    /// Length, bytes.
    pub length: u32,
    /// Its memory.
    pub buffer: Buffer,
}

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Issue an op to a leg.
    Op(Op),
    /// Answer a client.
    Reply {
        /// Its request.
        id: u64,
        /// The error, if any.
        result: Result<(), Errno>,
    },
    /// Compare the buffers of a task, one for each of these legs.
    Compare {
        /// The task.
        task: u32,
        /// The numbers of its buffers.
        legs: LegSet,
    },
    /// The buffers of a task are not needed any more.
    Free {
        /// The task.
        task: u32,
    },
    /// For the log of the server.
    Notice(Notice),
    /// The mirror has stopped; nothing is in flight.
    Stopped,
}

/// Why a leg was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It failed an op.
    Failed(Failure),
    /// It does not answer.
    Silent,
    /// It became shorter than the mirror.
    Short,
    /// Its file was removed or replaced.
    Replaced,
    /// Somebody overwrote it, perhaps with an old copy of itself.
    Overwritten,
    /// It was copied to while another leg was overwritten.
    Source,
}

/// A write or flush that a leg failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// What it was.
    pub change: Change,
    /// Its error.
    pub error: Errno,
}

/// What an op changes on a leg.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It writes data of a client.
    Write,
    /// It copies data from another leg.
    Copy,
    /// It writes a block of the write-intent log.
    Log,
    /// It writes a copy of the superblock.
    Superblock,
    /// It makes writes durable.
    Flush,
}

/// What the operator should know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// The state of the legs is recorded, if it was not: those that are missing are behind.
    Recorded,
    /// This happened to the last leg in sync, which stays.
    Last {
        /// The leg.
        leg: usize,
        /// [`Cause::Replaced`], or [`Cause::Overwritten`]: the mirror halts.
        cause: Cause,
    },
    /// A leg is behind now.
    Dropped {
        /// The leg.
        leg: usize,
        /// Why.
        cause: Cause,
    },
    /// A leg was removed from the mirror.
    Removed(usize),
    /// A leg has been copied to and is in sync.
    InSync(usize),
    /// A part of a read that failed on this leg was written again.
    Repaired {
        /// The leg.
        leg: usize,
        /// Start, bytes.
        offset: u64,
        /// Length, bytes.
        length: u32,
    },
    /// A range that cannot be read from any leg in sync: it cannot be copied.
    Unreadable {
        /// Start, bytes.
        offset: u64,
        /// Length, bytes.
        length: u32,
    },
    /// Legs differ in this range.
    Differs {
        /// Start, bytes.
        offset: u64,
        /// Length, bytes.
        length: u32,
        /// Whether it was written again from the given leg.
        repaired: bool,
    },
    /// The scrub has ended: number of ranges that differ, and of ranges that could not be read.
    Scrubbed {
        /// Ranges that differ.
        differ: u64,
        /// Ranges that a leg failed to read.
        unread: u64,
    },
    /// No leg accepted the record of a drop, or the last leg in sync was overwritten: every request fails until the
    /// next start.
    Halted,
}

/// Chooses the leg of a read.
pub trait Choose {
    /// One of `legs`, which has at least one.
    fn choose(&mut self, offset: u64, length: u32, legs: LegSet) -> usize;
}

impl<F: FnMut(u64, u32, LegSet) -> usize> Choose for F {
    fn choose(&mut self, offset: u64, length: u32, legs: LegSet) -> usize {
        self(offset, length, legs)
    }
}

/// Ops of a task on several legs.
#[derive(Debug, Clone, Copy, Default)]
struct Fan {
    issued: LegSet,
    pending: LegSet,
    ok: LegSet,
    error: Errno,
}

#[derive(Debug, Clone, Copy)]
enum Purpose {
    /// A client's request.
    Client(u64),
    /// Regions are to be cleaned.
    Clean,
    /// The epoch is to be closed.
    Close,
    /// The mirror stops.
    Stop,
    /// A leg in sync is to be removed.
    Remove { id: u64, leg: usize },
    /// A leg is to be recorded as copied up to here: its whole length means that it is in sync.
    Copied { leg: usize, bytes: u64 },
}

#[derive(Debug, Clone, Copy)]
enum Reason {
    /// The region that needs copying.
    Region,
    /// Legs that are behind.
    Rebuild,
    /// A read failed on a leg.
    Repair(usize),
}

#[derive(Debug, Clone, Copy)]
enum Work {
    Read {
        request: Request,
        tried: LegSet,
        leg: usize,
    },
    Write {
        request: Request,
        fua: bool,
        /// Whether it was issued to the legs.
        issued: bool,
    },
    Flush {
        purpose: Purpose,
        /// Number of the flush.
        number: u64,
    },
    Copy {
        reason: Reason,
        offset: u64,
        length: u32,
        tried: LegSet,
        writing: bool,
    },
    Log {
        block: usize,
    },
    Record {
        version: u64,
        /// Whether tasks waited for it.
        opens: bool,
        /// Whether anything else may be written after it.
        touches: bool,
        /// The tick at which it began.
        tick: u64,
        /// While the second copies are written: legs whose first one failed.
        failed: Option<LegSet>,
    },
    /// A copy of the superblock is read back.
    Look {
        copy: usize,
        /// Superblocks that had been written to the leg when it began.
        written: u64,
    },
    Scrub {
        from: Option<usize>,
        offset: u64,
        length: u32,
        repairing: bool,
        differ: u64,
        unread: u64,
    },
}

impl Work {
    /// What its ops in flight change; `None`: they read.
    fn change(&self) -> Option<Change> {
        match self {
            Work::Read { .. } | Work::Look { .. } => None,
            Work::Write { .. } => Some(Change::Write),
            Work::Flush { .. } => Some(Change::Flush),
            Work::Copy { writing, .. } => writing.then_some(Change::Copy),
            Work::Log { .. } => Some(Change::Log),
            Work::Record { .. } => Some(Change::Superblock),
            Work::Scrub { repairing, .. } => repairing.then_some(Change::Copy),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Task {
    work: Work,
    fan: Fan,
}

#[derive(Debug, Clone, Copy, Default)]
struct OpSlot {
    generation: u32,
    /// Task and leg of the op in flight.
    used: Option<(u32, usize)>,
    /// It writes data.
    data: bool,
}

#[derive(Debug)]
struct Leg {
    state: LegState,
    online: bool,
    /// It is not in the table any more.
    removed: bool,
    /// Its storage is given, so that it may be taken back.
    given: bool,
    /// Behind: below this everything outside of regions that need copying was copied, perhaps not durably.
    copied: u64,
    /// A flush for [`Purpose::Copied`] is in flight.
    flushing: bool,
    /// Behind, and to be recorded as in sync.
    promoted: bool,
    /// Copy of the superblock that is written first, so that the other one stays valid.
    first_copy: usize,
    /// A generation that both copies have at least.
    seen: u64,
    superblocks: Superblocks,
    /// The last write or flush that it failed.
    failure: Option<Failure>,
    /// Why it was dropped, or is not what it should be.
    cause: Option<Cause>,
}

/// The superblocks of a leg that gets writes.
#[derive(Debug, Default)]
struct Superblocks {
    /// The copies as they are on it; `None`: not known, or being written.
    known: [Option<Box<[u8; BLOCK]>>; 2],
    /// The copy that is being written.
    writing: Option<(usize, Box<[u8; BLOCK]>)>,
    /// Those that were written, also if that failed.
    written: u64,
    /// It is being read back.
    looking: [bool; 2],
}

impl Superblocks {
    fn known(known: [Option<Box<[u8; BLOCK]>>; 2]) -> Superblocks {
        Superblocks {
            known,
            ..Superblocks::default()
        }
    }

    /// A copy is being written. Returns what is overwritten, if that is known.
    fn write(&mut self, copy: usize, new: &[u8; BLOCK]) -> Option<Box<[u8; BLOCK]>> {
        self.written += 1;
        self.writing = Some((copy, Box::new(*new)));
        self.known[copy].take()
    }

    fn wrote(&mut self, result: Result<(), Errno>) {
        if let (Ok(()), Some((copy, block))) = (result, self.writing.take()) {
            self.known[copy] = Some(block);
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Region {
    /// Writes and copies that have begun and not ended.
    in_flight: u32,
    /// Number of flushes begun when the last write ended.
    written: u64,
    /// Number of ticks then.
    tick: u64,
    /// Legs may differ.
    needs_copy: bool,
    /// It cannot be copied because no leg can read it.
    stuck: bool,
}

#[derive(Debug)]
struct LogBlock {
    /// As it should be.
    wanted: Bits,
    /// Bits that are set on all online legs for certain.
    durable: Bits,
    /// The bits that are being written.
    writing: Option<Bits>,
    /// A leg came online since that began: `durable` will not be true for it.
    outdated: bool,
    /// `wanted` has to be written.
    due: bool,
    /// Writes that wait for `durable`.
    waiting: Vec<u32>,
}

/// The region that is being copied.
#[derive(Debug, Clone, Copy)]
struct Copying {
    region: usize,
    next: u64,
    pending: u32,
    /// Legs differ in it again, or a copy failed.
    again: bool,
}

/// Whether data may be written.
#[derive(Debug, Default)]
struct Epoch {
    open: bool,
    /// Tasks that wait until it is open.
    waiting: Vec<u32>,
    /// A write was issued since the last tick.
    dirty: bool,
    /// Writes in flight.
    in_flight: u32,
    /// Legs are being flushed, or were, and the next record closes it unless something is written.
    closing: bool,
    /// A record is to be made.
    due: bool,
}

/// What is stored on a leg at the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stored {
    /// Both copies of the superblock; `None`: it cannot be read.
    pub superblocks: [Option<Box<[u8; BLOCK]>>; 2],
    /// The copy of the superblock that was used, 0 or 1.
    pub copy: usize,
    /// The highest number of a write of the log.
    pub log: u64,
}

/// What is to be done next when nothing is in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopStep {
    Flush,
    Record,
    Clean,
    End,
    Stopped,
}

/// A running mirror. See the module.
#[derive(Debug)]
pub struct Mirror {
    assembly: Assembly,
    settings: Settings,
    legs: Vec<Leg>,
    regions: Vec<Region>,
    /// Number of regions with `needs_copy` that are not stuck.
    to_copy: usize,
    stuck: usize,
    /// No region before it is to be copied.
    first_to_copy: usize,
    log: Vec<LogBlock>,
    /// Writes of the log so far, also before the start.
    log_writes: u64,
    epoch: Epoch,
    /// The log and the superblocks are as they were at the start, except for the record of the start.
    untouched: bool,
    /// The tick at which the last record began.
    recorded_tick: u64,
    ranges: Ranges,
    tasks: Vec<Option<Task>>,
    free_tasks: Vec<u32>,
    /// Tasks in use.
    busy: usize,
    ops: Vec<OpSlot>,
    free_ops: Vec<u32>,
    /// Ops that were given up, to be ended as failed.
    lost: VecDeque<OpId>,
    /// Changes of the legs' states so far, and how many of them are durable.
    version: u64,
    recorded: u64,
    recording: bool,
    /// The notice of the start is due.
    unannounced: bool,
    /// Legs that the record in progress calls in sync for the first time.
    promoted: LegSet,
    /// Successful requests that wait until this version is recorded.
    acks: VecDeque<(u64, u64)>,
    flushes: u64,
    flushed: u64,
    cleaning: bool,
    ticks: u64,
    credit: u64,
    copying: Option<Copying>,
    /// Legs differed in regions, and not all copies of these are durable.
    differed: bool,
    /// Number of flushes begun when the last copy of a region ended.
    copied_at: u64,
    /// Start of the next copy to legs that are behind, and the starts of those in flight.
    rebuild: u64,
    rebuilding: Vec<u64>,
    copies: u32,
    /// A range that is behind could not be read.
    rebuild_stuck: bool,
    scrub: Option<Option<usize>>,
    scrubbing: bool,
    halted: bool,
    stopping: bool,
    stop: StopStep,
    published: Arc<Published>,
    /// Regions whose `needs_copy` has changed and was not published yet.
    changed: Vec<usize>,
}

impl Mirror {
    /// The mirror of an assembly. `logs` are the blocks of the log, each as on all legs that are given. They differ if the power
    /// failed; that of a leg that is behind marks what it alone may have. `stored` is for each leg of the table.
    pub fn new(
        assembly: Assembly,
        logs: &[Vec<Bits>],
        stored: &[Stored],
        settings: Settings,
    ) -> Mirror {
        let length = assembly.geometry.length;
        let legs: Vec<Leg> = (assembly.parts.iter().enumerate())
            .map(|(leg, part)| Leg {
                state: part.member.state,
                online: part.given.is_some(),
                removed: false,
                given: part.given.is_some(),
                copied: match part.member.state {
                    LegState::InSync => length,
                    LegState::Behind { copied } => copied,
                },
                flushing: false,
                promoted: false,
                first_copy: 1 - stored[leg].copy,
                seen: part.member.seen,
                superblocks: Superblocks::known(stored[leg].superblocks.clone()),
                failure: None,
                cause: None,
            })
            .collect();
        let log = logs.iter().map(|block| {
            let mut wanted = Bits::none();
            for bits in block {
                wanted.add(bits);
            }
            LogBlock {
                wanted,
                durable: Bits::none(),
                writing: None,
                outdated: false,
                due: true,
                waiting: Vec::new(),
            }
        });
        let log: Vec<LogBlock> = log.collect();
        let count = assembly.geometry.regions() as usize;
        let mut regions = vec![Region::default(); count];
        let mut to_copy = 0;
        let several = legs.iter().filter(|leg| leg.online).count() > 1;
        for (index, block) in log.iter().enumerate() {
            for bit in block.wanted.iter().filter(|_| several) {
                let region = index * intent::REGIONS as usize + bit;
                if region < count {
                    regions[region].needs_copy = true;
                    to_copy += 1;
                }
            }
        }
        let behind = legs.iter().filter(|leg| leg.online);
        let rebuild = behind.map(|leg| leg.copied).min().unwrap_or(length);
        let published = Arc::new(Published::new(assembly.geometry));
        let changed = (0..count).filter(|region| regions[*region].needs_copy);
        let changed: Vec<usize> = changed.collect();
        Mirror {
            version: u64::from(assembly.outdated || !settings.epochs),
            log_writes: stored.iter().map(|stored| stored.log).max().unwrap_or(0),
            epoch: Epoch {
                open: !settings.epochs,
                ..Epoch::default()
            },
            untouched: true,
            recorded_tick: 0,
            published,
            changed,
            assembly,
            settings,
            legs,
            regions,
            to_copy,
            stuck: 0,
            first_to_copy: 0,
            log,
            ranges: Ranges::default(),
            tasks: Vec::new(),
            free_tasks: Vec::new(),
            busy: 0,
            ops: Vec::new(),
            free_ops: Vec::new(),
            lost: VecDeque::new(),
            recorded: 0,
            recording: false,
            unannounced: true,
            promoted: LegSet::NONE,
            acks: VecDeque::new(),
            flushes: 0,
            flushed: 0,
            cleaning: false,
            ticks: 0,
            credit: 0,
            copying: None,
            differed: to_copy > 0,
            copied_at: 0,
            rebuild,
            rebuilding: Vec::new(),
            copies: 0,
            rebuild_stuck: false,
            scrub: None,
            scrubbing: false,
            halted: false,
            stopping: false,
            stop: StopStep::Flush,
        }
    }

    /// Begins: records the legs' states, if they are not as stored. Requests may come before that has ended.
    pub fn start(&mut self, orders: &mut Vec<Order>) {
        self.announce(orders);
        self.work(orders);
        self.publish();
    }

    /// What queues may read without this object, from the start on.
    pub fn published(&self) -> Arc<Published> {
        Arc::clone(&self.published)
    }

    fn publish(&mut self) {
        let (legs, closed) = (self.in_sync(), self.halted || self.stopping);
        if self.changed.is_empty() && self.published.has(legs, closed) {
            return;
        }
        let regions = self.changed.iter();
        let regions = regions.map(|region| (*region, self.regions[*region].needs_copy));
        self.published.publish(legs, closed, regions);
        self.changed.clear();
    }

    /// Takes an event and adds what is to be done to `orders`.
    pub fn handle(&mut self, event: Event, choose: &mut impl Choose, orders: &mut Vec<Order>) {
        match event {
            Event::Request(request) => self.request(request, LegSet::NONE, EIO, choose, orders),
            Event::Failed {
                request,
                leg,
                error,
            } => self.request(request, LegSet::one(leg), error, choose, orders),
            Event::Done { op, result } => self.done(op, result, choose, orders),
            Event::Lost { leg } => self.drop_other(leg, Cause::Silent, orders),
            Event::Shortened { leg } => self.drop_for_good(leg, Cause::Short, orders),
            Event::Replaced { leg } => self.drop_for_good(leg, Cause::Replaced, orders),
            Event::Tick => self.tick(orders),
            Event::Credit(bytes) => self.credit = self.credit.saturating_add(bytes),
            Event::Add { id, uuid } => self.add(id, uuid, orders),
            Event::Remove { id, leg } => self.remove(id, leg, orders),
            Event::Return { id, leg, stored } => self.take_back(id, leg, stored, orders),
            Event::Scrub { from } => self.scrub = Some(from),
            Event::Compared { task, equal } => self.compared(task, equal, orders),
            Event::Stop => self.stopping = true,
        }
        while let Some(op) = self.lost.pop_front() {
            self.done(op, Err(EIO), choose, orders);
        }
        self.work(orders);
        // Work may have given up more, if the last leg but one was dropped.
        while let Some(op) = self.lost.pop_front() {
            self.done(op, Err(EIO), choose, orders);
            self.work(orders);
        }
        self.publish();
    }

    /// Whether an op is waited for. If not, it was given up, and must not change any memory but its own.
    pub fn awaits(&self, op: OpId) -> bool {
        let slot = self.ops.get(op.slot as usize);
        slot.is_some_and(|slot| slot.used.is_some() && slot.generation == op.generation)
    }

    /// Legs that serve reads.
    pub fn in_sync(&self) -> LegSet {
        self.legs_where(|leg| leg.online && leg.state == LegState::InSync)
    }

    /// Legs that get writes.
    pub fn online(&self) -> LegSet {
        self.legs_where(|leg| leg.online)
    }

    /// Bytes that are still to be copied: regions that may differ, and legs that are behind.
    pub fn to_copy(&self) -> u64 {
        let length = self.assembly.geometry.length;
        let behind = self.legs.iter().filter(|leg| leg.online);
        let behind = behind.map(|leg| length - leg.copied).max().unwrap_or(0);
        (self.to_copy + self.stuck) as u64 * self.assembly.geometry.region + behind
    }

    /// Whether all legs of the table are in sync, and no region may differ.
    pub fn redundant(&self) -> bool {
        self.all_in_sync() && self.to_copy + self.stuck == 0
    }

    fn all_in_sync(&self) -> bool {
        self.in_sync() == self.legs_where(|leg| !leg.removed)
    }

    /// The legs of the table with their indices, as they are or will be recorded.
    pub fn members(&self) -> impl Iterator<Item = (usize, Member)> + '_ {
        let legs = self.legs.iter().zip(&self.assembly.parts).enumerate();
        legs.filter(|(_, (leg, _))| !leg.removed)
            .map(|(index, (leg, part))| {
                let state = match leg.state {
                    LegState::InSync => LegState::InSync,
                    // Also what is not recorded yet.
                    LegState::Behind { copied } => LegState::Behind {
                        copied: copied.max(leg.copied),
                    },
                };
                let (uuid, seen) = (part.member.uuid, leg.seen);
                (index, Member { uuid, state, seen })
            })
    }

    /// Whether every request fails because no leg accepted the record of a drop. What [`Self::members`] says may not be recorded then.
    pub fn halted(&self) -> bool {
        self.halted
    }

    /// Why a leg was dropped, became too short, or, if the mirror halted, what it failed.
    pub fn cause(&self, leg: usize) -> Option<Cause> {
        let leg = &self.legs[leg];
        let failed = leg.failure.filter(|_| self.halted).map(Cause::Failed);
        leg.cause.or(failed)
    }

    /// What was assembled, with the latest generation.
    pub fn assembly(&self) -> &Assembly {
        &self.assembly
    }

    /// Number of regions that the log marks.
    pub fn marked(&self) -> usize {
        self.log
            .iter()
            .map(|block| block.wanted.iter().count())
            .sum()
    }

    /// How far the scrub in progress has compared, bytes; 0 if it waits until nothing needs copying. `None`: there is none.
    pub fn scrubbed(&self) -> Option<u64> {
        let scrub = self
            .tasks
            .iter()
            .flatten()
            .find_map(|task| match task.work {
                Work::Scrub { offset, .. } => Some(offset),
                _ => None,
            });
        scrub.or(self.scrub.map(|_| 0))
    }

    fn legs_where(&self, wanted: impl Fn(&Leg) -> bool) -> LegSet {
        let mut legs = LegSet::NONE;
        for (index, _) in self.legs.iter().enumerate().filter(|(_, leg)| wanted(leg)) {
            legs.add(index);
        }
        legs
    }

    fn region_range(&self, offset: u64, length: u32) -> std::ops::Range<usize> {
        let region = self.assembly.geometry.region;
        let end = (offset + u64::from(length)).div_ceil(region);
        (offset / region) as usize..end as usize
    }

    // ---- Tasks and ops ----

    fn add_task(&mut self, work: Work) -> u32 {
        let task = Task {
            work,
            fan: Fan::default(),
        };
        self.busy += 1;
        match self.free_tasks.pop() {
            Some(index) => {
                self.tasks[index as usize] = Some(task);
                index
            }
            None => {
                self.tasks.push(Some(task));
                self.tasks.len() as u32 - 1
            }
        }
    }

    fn task(&mut self, task: u32) -> &mut Task {
        self.tasks[task as usize].as_mut().expect("task in use")
    }

    fn end_task(&mut self, task: u32) {
        self.tasks[task as usize] = None;
        self.free_tasks.push(task);
        self.busy -= 1;
    }

    /// Issues an op of a task to one leg; the task's fan must be empty or of the same step.
    fn issue(
        &mut self,
        task: u32,
        leg: usize,
        kind: OpKind,
        (offset, length): (u64, u32),
        buffer: Buffer,
        orders: &mut Vec<Order>,
    ) {
        let slot = self.free_ops.pop().unwrap_or_else(|| {
            self.ops.push(OpSlot::default());
            self.ops.len() as u32 - 1
        });
        let op = &mut self.ops[slot as usize];
        op.generation = op.generation.wrapping_add(1);
        op.used = Some((task, leg));
        op.data = matches!(kind, OpKind::Write { .. }) && offset >= DATA;
        let generation = op.generation;
        if op.data {
            debug_assert!(self.epoch.open, "a write without an epoch");
            self.epoch.in_flight += 1;
            self.epoch.dirty = true;
            // A copy that was made before the tick must not have the generation of what is written now.
            self.epoch.due |= std::mem::take(&mut self.epoch.closing);
        }
        let fan = &mut self.task(task).fan;
        fan.issued.add(leg);
        fan.pending.add(leg);
        orders.push(Order::Op(Op {
            id: OpId { slot, generation },
            leg,
            kind,
            offset,
            length,
            buffer,
        }));
    }

    fn done(
        &mut self,
        op: OpId,
        result: Result<(), Errno>,
        choose: &mut impl Choose,
        orders: &mut Vec<Order>,
    ) {
        let Some(slot) = self.ops.get_mut(op.slot as usize) else {
            return;
        };
        let Some((task, leg)) = slot.used.take_if(|_| slot.generation == op.generation) else {
            return;
        };
        if std::mem::take(&mut slot.data) {
            self.epoch.in_flight -= 1;
            // It may have ended just now.
            self.epoch.dirty = true;
        }
        self.free_ops.push(op.slot);
        let Task { work, fan } = self.tasks[task as usize].as_mut().expect("task in use");
        fan.pending.remove(leg);
        match result {
            Ok(()) => fan.ok.add(leg),
            Err(error) => {
                let error = if error == UNEXPECTED { EIO } else { error };
                fan.error = error;
                if let Some(change) = work.change() {
                    self.legs[leg].failure = Some(Failure { change, error });
                }
            }
        }
        let work = *work;
        let ended = fan.pending.is_empty().then(|| std::mem::take(fan));
        if self.is_overwritten(leg, work, result) {
            self.drop_for_good(leg, Cause::Overwritten, orders);
        }
        if let Some(fan) = ended {
            self.ended(task, fan, choose, orders);
        }
    }

    /// Whether an op that has ended shows that somebody overwrote the superblock of a leg.
    fn is_overwritten(&mut self, leg: usize, work: Work, result: Result<(), Errno>) -> bool {
        let superblocks = &mut self.legs[leg].superblocks;
        let unexpected = result == Err(UNEXPECTED);
        match work {
            Work::Record { .. } => {
                superblocks.wrote(result);
                unexpected
            }
            // A write that began meanwhile may have changed what was read.
            Work::Look { copy, written } => {
                superblocks.looking[copy] = false;
                unexpected && superblocks.written == written
            }
            _ => false,
        }
    }

    /// All ops of a task's step have ended.
    fn ended(&mut self, task: u32, fan: Fan, choose: &mut impl Choose, orders: &mut Vec<Order>) {
        match self.task(task).work {
            Work::Read {
                request,
                tried,
                leg,
            } => {
                if fan.ok.is_empty() {
                    return self.read(task, request, tried, fan.error, choose, orders);
                }
                self.end_task(task);
                self.reply(request.id, Ok(()), orders);
                for failed in tried.iter().filter(|failed| *failed != leg) {
                    self.repair(failed, request, orders);
                }
            }
            Work::Write { request, .. } => self.write_ended(task, request, fan, orders),
            Work::Flush { purpose, number } => {
                self.end_task(task);
                self.flush_ended(purpose, number, fan, orders);
            }
            Work::Copy { writing, .. } => match writing {
                false if fan.ok.is_empty() => self.copy(task, orders),
                false => self.copy_write(task, orders),
                true => self.copy_ended(task, Some(fan), orders),
            },
            Work::Log { block } => {
                self.end_task(task);
                self.log_ended(block, fan, orders);
            }
            Work::Record { .. } => self.record_ended(task, fan, orders),
            Work::Look { .. } => self.end_task(task),
            Work::Scrub { .. } => self.scrub_step(task, fan, orders),
        }
    }

    // ---- Legs ----

    /// Judges a step that changed the legs: legs that failed what another leg in sync completed are dropped. Returns whether
    /// a leg in sync completed it.
    fn settle(&mut self, fan: &Fan, orders: &mut Vec<Order>) -> bool {
        let good = fan.ok.and(self.in_sync());
        if good.is_empty() {
            return false;
        }
        for leg in fan.issued.without(fan.ok).and(self.online()).iter() {
            self.drop_leg(leg, self.failed(leg), orders);
        }
        true
    }

    /// The cause if a leg is dropped because of a write or flush that it failed just now.
    fn failed(&self, leg: usize) -> Cause {
        Cause::Failed(self.legs[leg].failure.expect("it failed"))
    }

    fn drop_leg(&mut self, leg: usize, cause: Cause, orders: &mut Vec<Order>) {
        let length = self.assembly.geometry.length;
        let one = &mut self.legs[leg];
        one.online = false;
        one.cause = Some(cause);
        (one.flushing, one.promoted) = (false, false);
        if one.state == LegState::InSync {
            one.state = LegState::Behind { copied: length };
        }
        self.version += 1;
        orders.push(Order::Notice(Notice::Dropped { leg, cause }));
        self.give_up(leg);
    }

    /// Nobody knows what is on a leg any more: all of it has to be copied.
    fn drop_for_good(&mut self, leg: usize, cause: Cause, orders: &mut Vec<Order>) {
        self.drop_other(leg, cause, orders);
        let Some(one) = self.legs.get_mut(leg) else {
            return;
        };
        one.given &= cause != Cause::Replaced;
        let last = one.online;
        if last && cause != Cause::Short && one.cause != Some(cause) {
            orders.push(Order::Notice(Notice::Last { leg, cause }));
        }
        if one.cause != Some(Cause::Replaced) {
            one.cause = Some(cause);
        }
        let nothing = LegState::Behind { copied: 0 };
        if !one.online && !one.removed {
            self.version += u64::from(one.state != nothing);
            (one.state, one.copied) = (nothing, 0);
        }
        if cause == Cause::Overwritten {
            // They may have got what was read there.
            for behind in self.online().without(self.in_sync()).iter() {
                self.drop_for_good(behind, Cause::Source, orders);
            }
            if last {
                self.halt(orders);
            }
        }
    }

    // ---- Changes of the legs ----

    /// Why legs cannot be changed now.
    fn unchangeable(&self) -> Option<Errno> {
        match () {
            () if self.halted => Some(EIO),
            () if self.stopping => Some(ESHUTDOWN),
            () => None,
        }
    }

    fn add(&mut self, id: u64, uuid: Uuid, orders: &mut Vec<Order>) {
        let full = (self.legs.len() == MOST_LEGS).then_some(ENOSPC);
        if let Some(errno) = self.unchangeable().or(full) {
            return self.reply(id, Err(errno), orders);
        }
        let state = LegState::Behind { copied: 0 };
        self.assembly.parts.push(Part {
            member: Member {
                uuid,
                state,
                seen: 0,
            },
            given: Some(self.legs.len()),
        });
        self.legs.push(Leg {
            state,
            online: false,
            removed: false,
            given: true,
            copied: 0,
            flushing: false,
            promoted: false,
            first_copy: 0,
            seen: 0,
            superblocks: Superblocks::default(),
            failure: None,
            cause: None,
        });
        self.bring_online(self.legs.len() - 1);
        self.ack(id, orders);
    }

    /// A leg in sync may leave when the others have durably what was copied to them.
    fn remove(&mut self, id: u64, leg: usize, orders: &mut Vec<Order>) {
        if let Some(errno) = self.irremovable(leg) {
            self.reply(id, Err(errno), orders);
        } else if self.in_sync().has(leg) {
            self.flush(Purpose::Remove { id, leg }, self.online(), orders);
        } else {
            self.removed(id, leg, orders);
        }
    }

    fn irremovable(&self, leg: usize) -> Option<Errno> {
        if self.legs.get(leg).is_none_or(|leg| leg.removed) {
            return Some(EINVAL);
        }
        let in_sync = self.in_sync();
        let needed = match in_sync.has(leg) {
            // Regions that may differ are read from one leg until they were copied from it.
            true => in_sync.count() == 1 || self.to_copy > 0,
            false => false,
        };
        self.unchangeable().or(needed.then_some(EBUSY))
    }

    fn removed(&mut self, id: u64, leg: usize, orders: &mut Vec<Order>) {
        if let Some(errno) = self.irremovable(leg) {
            return self.reply(id, Err(errno), orders);
        }
        let one = &mut self.legs[leg];
        (one.online, one.removed) = (false, true);
        (one.flushing, one.promoted) = (false, false);
        self.version += 1;
        orders.push(Order::Notice(Notice::Removed(leg)));
        self.give_up(leg);
        self.ack(id, orders);
    }

    fn take_back(&mut self, id: u64, leg: usize, stored: Option<Fork>, orders: &mut Vec<Order>) {
        let dropped = |leg: &Leg| leg.given && !leg.online && !leg.removed;
        let refusal = (!self.legs.get(leg).is_some_and(dropped)).then_some(EINVAL);
        if let Some(errno) = self.unchangeable().or(refusal) {
            return self.reply(id, Err(errno), orders);
        }
        let mirror = self.assembly.superblock(leg);
        let one = &mut self.legs[leg];
        let own = |stored: Fork| stored.generation >= one.seen && mirror.passed(stored);
        if !stored.is_some_and(own) {
            one.state = LegState::Behind { copied: 0 };
        }
        one.superblocks = Superblocks::default();
        if let LegState::Behind { copied } = one.state {
            // What was copied later may not be durable.
            one.copied = copied;
        }
        self.bring_online(leg);
        // What it missed is in these: no bit is cleared as long as a leg is behind.
        for index in 0..self.log.len() {
            let bits: Vec<usize> = self.log[index].wanted.iter().collect();
            for bit in bits {
                let region = index * intent::REGIONS as usize + bit;
                if region < self.regions.len() {
                    self.differs(region);
                }
            }
        }
        self.ack(id, orders);
    }

    /// A leg that is behind gets writes from now on.
    fn bring_online(&mut self, leg: usize) {
        let one = &mut self.legs[leg];
        one.online = true;
        one.cause = None;
        self.rebuild = self.rebuild.min(one.copied);
        self.rebuild_stuck = false;
        self.version += 1;
        // Its log lacks the bits.
        for block in &mut self.log {
            block.durable = Bits::none();
            block.outdated = block.writing.is_some();
            block.due = true;
        }
    }

    /// Counts the ops in flight on a leg as failed.
    fn give_up(&mut self, leg: usize) {
        for (slot, op) in self.ops.iter().enumerate() {
            if op.used.is_some_and(|(_, used)| used == leg) {
                self.lost.push_back(OpId {
                    slot: slot as u32,
                    generation: op.generation,
                });
            }
        }
    }

    /// Drops these legs, which failed a write or flush, except the last leg in sync. That one is waited for: a write of it that was given up could overwrite
    /// a later one.
    fn drop_others(&mut self, legs: LegSet, orders: &mut Vec<Order>) {
        for leg in legs.iter() {
            self.drop_other(leg, self.failed(leg), orders);
        }
    }

    fn drop_other(&mut self, leg: usize, cause: Cause, orders: &mut Vec<Order>) {
        let others = self.in_sync().without(LegSet::one(leg));
        if self.online().has(leg) && !others.is_empty() {
            self.drop_leg(leg, cause, orders);
        }
    }

    // ---- Replies ----

    fn reply(&self, id: u64, result: Result<(), Errno>, orders: &mut Vec<Order>) {
        orders.push(Order::Reply { id, result });
    }

    /// Acknowledges a write or flush once all drops so far are durable.
    fn ack(&mut self, id: u64, orders: &mut Vec<Order>) {
        if self.halted {
            self.reply(id, Err(EIO), orders);
        } else if self.recorded >= self.version {
            self.reply(id, Ok(()), orders);
        } else {
            self.acks.push_back((self.version, id));
        }
    }

    // ---- Requests ----

    /// A read was `tried` on these legs, of which the last one returned `error`.
    fn request(
        &mut self,
        request: Request,
        tried: LegSet,
        error: Errno,
        choose: &mut impl Choose,
        orders: &mut Vec<Order>,
    ) {
        let geometry = &self.assembly.geometry;
        let (unit, length) = (u64::from(geometry.unit), u64::from(request.length));
        let end = request.offset.checked_add(length);
        let inside = end.is_some_and(|end| end <= geometry.length)
            && request.offset.is_multiple_of(unit)
            && length.is_multiple_of(unit);
        let flush = request.access == Access::Flush;
        let refusal = match () {
            () if self.halted => Some(Err(EIO)),
            () if self.stopping => Some(Err(ESHUTDOWN)),
            () if !inside && !flush => Some(Err(EINVAL)),
            () if length == 0 && !flush => Some(Ok(())),
            () => None,
        };
        if let Some(result) = refusal {
            return self.reply(request.id, result, orders);
        }
        match request.access {
            Access::Read => {
                let task = self.add_task(Work::Read {
                    request,
                    tried,
                    leg: 0,
                });
                self.read(task, request, tried, error, choose, orders);
            }
            Access::Write { fua } => {
                let task = self.add_task(Work::Write {
                    request,
                    fua,
                    issued: false,
                });
                if self.ranges.take(task, request.offset, length) {
                    self.proceed(task, orders);
                }
            }
            Access::Flush => self.flush(Purpose::Client(request.id), self.online(), orders),
        }
    }

    /// Reads from a leg that was not tried yet.
    fn read(
        &mut self,
        task: u32,
        request: Request,
        mut tried: LegSet,
        error: Errno,
        choose: &mut impl Choose,
        orders: &mut Vec<Order>,
    ) {
        let legs = self.in_sync().without(tried);
        let Some(source) = legs.first() else {
            self.end_task(task);
            return self.reply(request.id, Err(error), orders);
        };
        let mut regions = self.region_range(request.offset, request.length);
        let leg = match regions.any(|region| self.regions[region].needs_copy) {
            true => source,
            false => choose.choose(request.offset, request.length, legs),
        };
        debug_assert!(legs.has(leg), "a leg that may serve the read");
        tried.add(leg);
        self.task(task).work = Work::Read {
            request,
            tried,
            leg,
        };
        let range = (DATA + request.offset, request.length);
        let buffer = Buffer::Client(request.id);
        self.issue(task, leg, OpKind::Read, range, buffer, orders);
    }

    /// Continues tasks whose range is held now.
    fn proceed(&mut self, task: u32, orders: &mut Vec<Order>) {
        match self.task(task).work {
            Work::Write { .. } => self.write_begin(task, orders),
            Work::Copy { .. } => self.copy(task, orders),
            Work::Scrub { .. } => self.scrub_read(task, orders),
            _ => unreachable!("only these take ranges"),
        }
    }

    fn release(&mut self, task: u32, orders: &mut Vec<Order>) {
        let mut next = Vec::new();
        self.ranges.release(task, &mut next);
        for task in next {
            self.proceed(task, orders);
        }
    }

    // ---- Writes ----

    fn write_begin(&mut self, task: u32, orders: &mut Vec<Order>) {
        let Work::Write { request, .. } = self.task(task).work else {
            unreachable!("a write");
        };
        for region in self.region_range(request.offset, request.length) {
            self.regions[region].in_flight += 1;
        }
        if self.may_write(task) {
            self.write_log(task, request, orders);
        }
    }

    /// Issues a write when the log has its bits.
    fn write_log(&mut self, task: u32, request: Request, orders: &mut Vec<Order>) {
        let mut waits = false;
        for region in self.region_range(request.offset, request.length) {
            let (block, bit) = place(region);
            let block = &mut self.log[block];
            if !block.durable.get(bit) || !block.wanted.get(bit) {
                block.wanted.set(bit, true);
                block.due = true;
                if block.waiting.last() != Some(&task) {
                    block.waiting.push(task);
                }
                waits = true;
            }
        }
        if !waits {
            self.write_issue(task, orders);
        }
    }

    // ---- Epochs ----

    /// Whether a task may write data. If not, it continues in [`Self::opened`].
    fn may_write(&mut self, task: u32) -> bool {
        if !self.epoch.open {
            self.epoch.waiting.push(task);
        }
        self.epoch.open
    }

    /// Continues what waited for the epoch.
    fn opened(&mut self, orders: &mut Vec<Order>) {
        self.epoch.open = true;
        for task in std::mem::take(&mut self.epoch.waiting) {
            match self.task(task).work {
                // The log may lack its bits, also if it had them before: a leg may have come online.
                Work::Write { request, .. } => self.write_log(task, request, orders),
                Work::Copy { .. } => self.copy_write(task, orders),
                Work::Scrub { .. } => self.scrub_repair(task, orders),
                _ => unreachable!("only these write data"),
            }
        }
    }

    /// The epoch could not be opened: nothing is written.
    fn not_opened(&mut self, error: Errno, orders: &mut Vec<Order>) {
        for task in std::mem::take(&mut self.epoch.waiting) {
            match self.task(task).work {
                Work::Write { request, .. } => self.write_fails(task, request, error, orders),
                Work::Copy { .. } => self.copy_abandoned(task, orders),
                Work::Scrub { .. } => self.scrub_next(task, orders),
                _ => unreachable!("only these write data"),
            }
        }
    }

    /// Records again if something was written since the last tick. Otherwise closes the epoch.
    fn epoch_tick(&mut self, orders: &mut Vec<Order>) {
        if !self.settings.epochs || self.stopping {
            return;
        }
        if !self.epoch.open {
            // A copy that was made before the tick may have the generations of a record that opens it now.
            self.epoch.due |= !self.epoch.waiting.is_empty();
            return;
        }
        let dirty = std::mem::take(&mut self.epoch.dirty) || self.epoch.in_flight > 0;
        if dirty {
            self.epoch.due = true;
        } else if !self.epoch.closing {
            self.epoch.closing = true;
            self.flush(Purpose::Close, self.online(), orders);
        }
    }

    fn write_issue(&mut self, task: u32, orders: &mut Vec<Order>) {
        if !self.may_write(task) {
            return;
        }
        let Work::Write {
            request,
            fua,
            issued,
        } = &mut self.task(task).work
        else {
            unreachable!("a write");
        };
        *issued = true;
        let (request, fua) = (*request, *fua);
        for leg in self.online().iter() {
            let range = (DATA + request.offset, request.length);
            let buffer = Buffer::Client(request.id);
            self.issue(task, leg, OpKind::Write { fua }, range, buffer, orders);
        }
    }

    fn write_ended(&mut self, task: u32, request: Request, fan: Fan, orders: &mut Vec<Order>) {
        let good = self.settle(&fan, orders);
        for region in self.region_range(request.offset, request.length) {
            self.touched(region);
            if !good {
                self.differs(region);
            }
        }
        match good {
            true => self.ack(request.id, orders),
            false => self.reply(request.id, Err(fan.error), orders),
        }
        self.release(task, orders);
        self.end_task(task);
    }

    /// A write or copy in a region has ended.
    fn touched(&mut self, region: usize) {
        let region = &mut self.regions[region];
        region.in_flight -= 1;
        region.written = self.flushes;
        region.tick = self.ticks;
    }

    /// Legs may differ in a region.
    fn differs(&mut self, index: usize) {
        if self.online().count() < 2 {
            return;
        }
        let region = &mut self.regions[index];
        if let Some(copying) = self
            .copying
            .as_mut()
            .filter(|copying| copying.region == index)
        {
            copying.again = true;
        }
        if region.stuck {
            region.stuck = false;
            self.stuck -= 1;
            self.to_copy += 1;
        } else if !region.needs_copy {
            region.needs_copy = true;
            self.to_copy += 1;
            self.changed.push(index);
        }
        self.first_to_copy = self.first_to_copy.min(index);
    }

    // ---- Log ----

    fn log_write(&mut self, block: usize, orders: &mut Vec<Order>) {
        let legs = self.online();
        let one = &mut self.log[block];
        one.due = false;
        one.durable.keep(&one.wanted);
        one.writing = Some(one.wanted.clone());
        self.log_writes += 1;
        let mirror = self.assembly.mirror;
        let bytes = Box::new(one.wanted.encode(mirror, block as u64, self.log_writes));
        let task = self.add_task(Work::Log { block });
        let range = (LOG + (block * BLOCK) as u64, BLOCK as u32);
        for leg in legs.iter() {
            let buffer = Buffer::Block(bytes.clone());
            self.issue(
                task,
                leg,
                OpKind::Write { fua: true },
                range,
                buffer,
                orders,
            );
        }
    }

    fn log_ended(&mut self, block: usize, fan: Fan, orders: &mut Vec<Order>) {
        let good = self.settle(&fan, orders);
        let one = &mut self.log[block];
        let written = one.writing.take().expect("a block being written");
        let outdated = std::mem::take(&mut one.outdated);
        if good && !outdated {
            one.durable = written;
        }
        let waiting = std::mem::take(&mut one.waiting);
        for task in waiting {
            let Work::Write {
                request, issued, ..
            } = self.task(task).work
            else {
                unreachable!("only writes wait for the log");
            };
            debug_assert!(!issued, "waits for the log");
            match self.unlogged(request) {
                None => self.write_issue(task, orders),
                Some(at) if good || at != block => {
                    // Waits already if it is another block.
                    if !self.log[at].waiting.contains(&task) {
                        self.log[at].waiting.push(task);
                        self.log[at].due = true;
                    }
                }
                Some(_) => self.write_fails(task, request, fan.error, orders),
            }
        }
    }

    /// A block of the log that lacks a bit of the regions of a write.
    fn unlogged(&self, request: Request) -> Option<usize> {
        let mut regions = self.region_range(request.offset, request.length);
        regions.find_map(|region| {
            let (block, bit) = place(region);
            (!self.log[block].durable.get(bit)).then_some(block)
        })
    }

    /// A write whose log could not be written; nothing of it was issued.
    fn write_fails(&mut self, task: u32, request: Request, error: Errno, orders: &mut Vec<Order>) {
        for region in self.region_range(request.offset, request.length) {
            self.regions[region].in_flight -= 1;
            let (block, _) = place(region);
            self.log[block].waiting.retain(|waiting| *waiting != task);
        }
        self.reply(request.id, Err(error), orders);
        self.release(task, orders);
        self.end_task(task);
    }

    /// Ends the writes that wait for a log which is not written any more.
    fn fail_waiting(&mut self, orders: &mut Vec<Order>) {
        for block in 0..self.log.len() {
            while self.log[block].writing.is_none()
                && let Some(task) = self.log[block].waiting.pop()
            {
                let Work::Write { request, .. } = self.task(task).work else {
                    unreachable!("only writes wait for the log");
                };
                self.write_fails(task, request, EIO, orders);
            }
        }
    }

    // ---- Flushes ----

    fn flush(&mut self, purpose: Purpose, legs: LegSet, orders: &mut Vec<Order>) {
        self.flushes += 1;
        let number = self.flushes;
        let task = self.add_task(Work::Flush { purpose, number });
        for leg in legs.iter() {
            self.issue(task, leg, OpKind::Flush, (0, 0), Buffer::None, orders);
        }
    }

    fn flush_ended(&mut self, purpose: Purpose, number: u64, fan: Fan, orders: &mut Vec<Order>) {
        if let Purpose::Copied { leg, bytes } = purpose {
            return self.leg_flushed(leg, bytes, &fan, orders);
        }
        let good = self.settle(&fan, orders);
        if good {
            self.flushed = self.flushed.max(number);
        } else {
            // Each leg may have lost other writes.
            for region in 0..self.regions.len() {
                let (block, bit) = place(region);
                if self.log[block].wanted.get(bit) && self.regions[region].written >= self.flushed {
                    self.differs(region);
                }
            }
        }
        match purpose {
            Purpose::Client(id) if good => self.ack(id, orders),
            Purpose::Client(id) => self.reply(id, Err(fan.error), orders),
            Purpose::Remove { id, leg } if good => self.removed(id, leg, orders),
            Purpose::Remove { id, .. } => self.reply(id, Err(fan.error), orders),
            Purpose::Clean => self.cleaning = false,
            Purpose::Close => {
                self.epoch.closing &= good;
                self.epoch.due |= self.epoch.closing;
            }
            Purpose::Stop if good => self.record_copied(),
            Purpose::Stop | Purpose::Copied { .. } => {}
        }
    }

    /// All legs were flushed and nothing is in flight: what was copied counts.
    fn record_copied(&mut self) {
        for leg in self.legs.iter_mut().filter(|leg| leg.online) {
            let copied = LegState::Behind { copied: leg.copied };
            if leg.state != LegState::InSync && leg.state != copied {
                leg.state = copied;
                self.version += 1;
            }
        }
    }

    fn leg_flushed(&mut self, leg: usize, bytes: u64, fan: &Fan, orders: &mut Vec<Order>) {
        self.legs[leg].flushing = false;
        if !self.legs[leg].online {
            return;
        }
        if !fan.ok.has(leg) {
            return self.drop_leg(leg, self.failed(leg), orders);
        }
        let whole = bytes == self.assembly.geometry.length;
        let copied = self.to_copy + self.stuck == 0 && self.copies == 0;
        if whole && copied {
            self.legs[leg].promoted = true;
        } else {
            self.legs[leg].state = LegState::Behind { copied: bytes };
        }
        self.version += 1;
    }

    fn tick(&mut self, orders: &mut Vec<Order>) {
        self.ticks += 1;
        if self.halted {
            return;
        }
        self.look(orders);
        self.epoch_tick(orders);
        let due = self.epoch.open && self.ticks.is_multiple_of(CLEAN_TICKS);
        if due && self.clean(self.ticks - CLEAN_TICKS) && !self.cleaning {
            self.cleaning = true;
            self.flush(Purpose::Clean, self.online(), orders);
        }
        // What was copied is recorded in steps of a sixteenth.
        let length = self.assembly.geometry.length;
        let step = length / 16;
        for leg in 0..self.legs.len() {
            let one = &self.legs[leg];
            let LegState::Behind { copied } = one.state else {
                continue;
            };
            let bytes = one.copied;
            if one.online && !one.flushing && bytes > copied + step && bytes < length {
                self.copied(leg, bytes, orders);
            }
        }
    }

    /// Reads the superblocks back.
    fn look(&mut self, orders: &mut Vec<Order>) {
        let legs = match self.stopping {
            true => LegSet::NONE,
            false => self.online(),
        };
        for (leg, copy) in legs.iter().flat_map(|leg| [(leg, 0), (leg, 1)]) {
            let superblocks = &mut self.legs[leg].superblocks;
            let known = superblocks.known[copy].clone();
            let Some(expected) = known.filter(|_| !superblocks.looking[copy]) else {
                continue;
            };
            superblocks.looking[copy] = true;
            let written = superblocks.written;
            let task = self.add_task(Work::Look { copy, written });
            let range = (COPIES[copy], BLOCK as u32);
            let buffer = Buffer::Expected(expected);
            self.issue(task, leg, OpKind::Read, range, buffer, orders);
        }
    }

    /// Flushes a leg to record that it was copied up to here.
    fn copied(&mut self, leg: usize, bytes: u64, orders: &mut Vec<Order>) {
        self.legs[leg].flushing = true;
        let purpose = Purpose::Copied { leg, bytes };
        self.flush(purpose, LegSet::one(leg), orders);
    }

    /// Clears the bits of regions that were last written before this tick and the last record. Returns whether some only lack a flush.
    fn clean(&mut self, before: u64) -> bool {
        // Nothing was written since the record that closed the epoch.
        let before = match self.settings.epochs && self.epoch.open {
            true => before.min(self.recorded_tick),
            false => before,
        };
        // A leg that was removed is in the table until that is recorded, and the bits tell what it lacks.
        if !self.all_in_sync() || self.recorded < self.version {
            return false;
        }
        let mut unflushed = false;
        for (index, block) in self.log.iter_mut().enumerate() {
            let mut cleaned = Vec::new();
            for bit in block.wanted.iter() {
                let region = &self.regions[index * intent::REGIONS as usize + bit];
                if region.in_flight > 0 || region.needs_copy || region.tick >= before {
                    continue;
                }
                match region.written < self.flushed {
                    true => cleaned.push(bit),
                    false => unflushed = true,
                }
            }
            for bit in &cleaned {
                block.wanted.set(*bit, false);
            }
            block.due |= !cleaned.is_empty();
        }
        unflushed
    }

    // ---- Records ----

    /// Updates the superblocks: the first copies get a new generation, and the second ones the next generation, which
    /// says that all legs have the first one. A leg in sync with an older one is a copy.
    ///
    /// A leg that was copied completely is in sync when the others have recorded it, and not before: otherwise writes could be
    /// acknowledged that only this leg has, while the others still call it behind. Its own superblock follows with the next
    /// record. Until then it does not claim to be in sync, which the others may not know if the power fails.
    fn record(&mut self, orders: &mut Vec<Order>) {
        for (part, leg) in self.assembly.parts.iter_mut().zip(&self.legs) {
            (part.member.state, part.member.seen) = (leg.state, leg.seen);
        }
        let opens = !self.epoch.waiting.is_empty();
        let of_start = self.assembly.outdated && self.recorded == 0 && self.version == 1;
        if !of_start || opens {
            // Every other record is of a change.
            if let Some(line) = self.settings.line.take() {
                self.assembly.fork(line);
            }
            self.assembly.unwritten = false;
        }
        let differ = self.to_copy + self.stuck > 0;
        self.differed = differ || (self.differed && self.copied_at >= self.flushed);
        let source = self.in_sync().first().filter(|_| self.differed);
        self.assembly.source = source.map(|leg| self.assembly.parts[leg].member.uuid);
        self.assembly.generation += 1;
        self.recording = true;
        self.epoch.due = false;
        self.promoted = self.legs_where(|leg| leg.promoted);
        let task = self.add_task(Work::Record {
            version: self.version,
            opens,
            touches: opens || !of_start,
            tick: self.ticks,
            failed: None,
        });
        self.record_write(task, self.online(), false, orders);
    }

    fn announce(&mut self, orders: &mut Vec<Order>) {
        if self.recorded >= self.version && std::mem::take(&mut self.unannounced) {
            orders.push(Order::Notice(Notice::Recorded));
        }
    }

    /// Writes one copy of the superblock of each of these legs.
    fn record_write(&mut self, task: u32, legs: LegSet, second: bool, orders: &mut Vec<Order>) {
        for leg in legs.iter() {
            let mut superblock = self.assembly.superblock(leg);
            for other in self.promoted.without(LegSet::one(leg)).iter() {
                superblock.members[other].state = LegState::InSync;
            }
            let mut removed = self.legs.iter().map(|leg| leg.removed);
            (superblock.members).retain(|_| !removed.next().unwrap_or(false));
            let one = &mut self.legs[leg];
            let copy = one.first_copy ^ usize::from(second);
            let range = (COPIES[copy], BLOCK as u32);
            let new = Box::new(superblock.encode());
            let expected = one.superblocks.write(copy, &new);
            let buffer = Buffer::Superblock { expected, new };
            let kind = OpKind::Write { fua: true };
            self.issue(task, leg, kind, range, buffer, orders);
        }
    }

    /// One copy was written. The second one is written only where the first was: a write that failed may have destroyed it.
    fn record_ended(&mut self, task: u32, mut fan: Fan, orders: &mut Vec<Order>) {
        let Work::Record {
            version,
            opens,
            touches,
            tick,
            failed: first_failed,
        } = self.task(task).work
        else {
            unreachable!("a record");
        };
        if first_failed.is_none() {
            let missing = fan.issued.without(fan.ok);
            self.task(task).work = Work::Record {
                version,
                opens,
                touches,
                tick,
                failed: Some(missing),
            };
            let legs = fan.ok.and(self.online());
            if !legs.is_empty() {
                if missing.is_empty() && self.settings.epochs {
                    self.completed();
                }
                self.assembly.generation += u64::from(self.settings.epochs);
                return self.record_write(task, legs, true, orders);
            }
        }
        // The copy that is valid for certain is written last when the leg has returned.
        for leg in fan.issued.without(fan.ok).iter() {
            self.legs[leg].first_copy ^= usize::from(first_failed.is_some());
        }
        for leg in first_failed.unwrap_or_default().iter() {
            fan.issued.add(leg);
        }
        self.end_task(task);
        self.recording = false;
        for leg in fan.ok.iter() {
            // The other copy has the generation before.
            self.legs[leg].seen = self.assembly.generation - u64::from(self.settings.epochs);
        }
        if !self.settle(&fan, orders) {
            return match self.recorded < version {
                true => self.halt(orders),
                false => self.not_recorded(fan.error, orders),
            };
        }
        self.recorded = version;
        self.recorded_tick = tick;
        self.untouched &= !touches;
        self.completed();
        self.announce(orders);
        self.promote_recorded(orders);
        while let Some((_, id)) = self
            .acks
            .front()
            .copied()
            .filter(|(needed, _)| *needed <= version)
        {
            self.acks.pop_front();
            self.reply(id, Ok(()), orders);
        }
        let all = fan.issued.without(fan.ok).is_empty();
        match () {
            () if opens && all => self.opened(orders),
            () if std::mem::take(&mut self.epoch.closing) => {
                self.epoch.open = false;
                self.clean(u64::MAX);
            }
            () => {}
        }
    }

    /// All legs that get writes have the generation.
    fn completed(&mut self) {
        if !self.assembly.unwritten {
            self.assembly.complete = self.assembly.generation;
        }
    }

    /// An epoch was not recorded, and no change of the legs has to be.
    fn not_recorded(&mut self, error: Errno, orders: &mut Vec<Order>) {
        self.epoch.closing = false;
        self.epoch.dirty = true;
        self.not_opened(error, orders);
    }

    /// Legs that the last record called in sync for the first time are.
    fn promote_recorded(&mut self, orders: &mut Vec<Order>) {
        for leg in std::mem::take(&mut self.promoted).iter() {
            let one = &mut self.legs[leg];
            if std::mem::take(&mut one.promoted) {
                one.state = LegState::InSync;
                self.version += 1;
                orders.push(Order::Notice(Notice::InSync(leg)));
            }
        }
    }

    fn halt(&mut self, orders: &mut Vec<Order>) {
        if std::mem::replace(&mut self.halted, true) {
            return;
        }
        orders.push(Order::Notice(Notice::Halted));
        while let Some((_, id)) = self.acks.pop_front() {
            self.reply(id, Err(EIO), orders);
        }
    }

    // ---- Copies ----

    fn repair(&mut self, leg: usize, request: Request, orders: &mut Vec<Order>) {
        if self.in_sync().has(leg) && !self.stopping {
            self.add_copy(Reason::Repair(leg), request.offset, request.length, orders);
        }
    }

    fn add_copy(&mut self, reason: Reason, offset: u64, length: u32, orders: &mut Vec<Order>) {
        let tried = match reason {
            Reason::Repair(leg) => LegSet::one(leg),
            _ => LegSet::NONE,
        };
        let task = self.add_task(Work::Copy {
            reason,
            offset,
            length,
            tried,
            writing: false,
        });
        self.copies += 1;
        for region in self.region_range(offset, length) {
            self.regions[region].in_flight += 1;
        }
        if self.ranges.take(task, offset, u64::from(length)) {
            self.copy(task, orders);
        }
    }

    /// Reads the range of a copy from the first leg that was not tried.
    fn copy(&mut self, task: u32, orders: &mut Vec<Order>) {
        let legs = self.in_sync();
        let Work::Copy {
            offset,
            length,
            tried,
            ..
        } = &mut self.task(task).work
        else {
            unreachable!("a copy");
        };
        let (offset, length) = (*offset, *length);
        let tried_before = *tried;
        let Some(leg) = legs.without(tried_before).first() else {
            return self.copy_ended(task, None, orders);
        };
        let Work::Copy { tried, .. } = &mut self.task(task).work else {
            unreachable!("a copy");
        };
        tried.add(leg);
        let buffer = Buffer::Own { task, part: 0 };
        let range = (DATA + offset, length);
        self.issue(task, leg, OpKind::Read, range, buffer, orders);
    }

    fn copy_write(&mut self, task: u32, orders: &mut Vec<Order>) {
        if !self.may_write(task) {
            return;
        }
        let online = self.online();
        let behind = online.without(self.in_sync());
        let Work::Copy {
            reason,
            offset,
            length,
            tried,
            writing,
        } = &mut self.task(task).work
        else {
            unreachable!("a copy");
        };
        *writing = true;
        let (offset, length) = (*offset, *length);
        // The last one that was tried is the source; those that failed before are written again as well.
        let targets = match *reason {
            Reason::Region => online,
            Reason::Rebuild => behind,
            Reason::Repair(leg) => online.and(LegSet::one(leg)),
        };
        let source = match *reason {
            Reason::Region if tried.count() == 1 => *tried,
            _ => LegSet::NONE,
        };
        let targets = targets.without(source);
        if targets.is_empty() {
            return self.copy_ended(task, Some(Fan::default()), orders);
        }
        for leg in targets.iter() {
            let buffer = Buffer::Own { task, part: 0 };
            let range = (DATA + offset, length);
            let kind = OpKind::Write { fua: false };
            self.issue(task, leg, kind, range, buffer, orders);
        }
    }

    /// `None`: no leg could be read.
    fn copy_ended(&mut self, task: u32, fan: Option<Fan>, orders: &mut Vec<Order>) {
        let Work::Copy {
            reason,
            offset,
            length,
            ..
        } = self.task(task).work
        else {
            unreachable!("a copy");
        };
        self.copies -= 1;
        for region in self.region_range(offset, length) {
            self.touched(region);
        }
        match fan {
            Some(fan) => {
                let failed = fan.issued.without(fan.ok);
                self.drop_others(failed, orders);
                // Only the last leg in sync stays although it failed.
                if !failed.and(self.online()).is_empty() {
                    for region in self.region_range(offset, length) {
                        self.differs(region);
                    }
                }
                if let Reason::Repair(leg) = reason
                    && fan.ok.has(leg)
                {
                    orders.push(Order::Notice(Notice::Repaired {
                        leg,
                        offset,
                        length,
                    }));
                }
            }
            None => orders.push(Order::Notice(Notice::Unreadable { offset, length })),
        }
        match reason {
            Reason::Region => self.region_copied(fan.is_some()),
            Reason::Rebuild => self.rebuilt(offset, fan.is_some()),
            Reason::Repair(_) => {}
        }
        self.release(task, orders);
        orders.push(Order::Free { task });
        self.end_task(task);
    }

    /// A copy that was read and may not be written. It is copied again.
    fn copy_abandoned(&mut self, task: u32, orders: &mut Vec<Order>) {
        let Work::Copy {
            reason,
            offset,
            length,
            ..
        } = self.task(task).work
        else {
            unreachable!("a copy");
        };
        self.copies -= 1;
        for region in self.region_range(offset, length) {
            self.touched(region);
        }
        match reason {
            Reason::Region => {
                if let Some(copying) = &mut self.copying {
                    copying.again = true;
                }
                self.region_copied(true);
            }
            Reason::Rebuild => {
                let stuck = self.rebuild_stuck;
                self.rebuilt(offset, false);
                self.rebuild_stuck = stuck;
            }
            Reason::Repair(_) => {}
        }
        self.release(task, orders);
        orders.push(Order::Free { task });
        self.end_task(task);
    }

    fn region_copied(&mut self, copied: bool) {
        let mut copying = self.copying.expect("a region being copied");
        copying.pending -= 1;
        self.copying = Some(copying);
        let end = self.region_end(copying.region);
        let region = &mut self.regions[copying.region];
        if !copied && !region.stuck {
            region.stuck = true;
            self.stuck += 1;
            self.to_copy -= 1;
        }
        self.differed = true;
        self.copied_at = self.flushes;
        if copying.pending == 0 && (copying.next >= end || region.stuck) {
            self.copying = None;
            if !region.stuck && !copying.again {
                region.needs_copy = false;
                self.to_copy -= 1;
                self.changed.push(copying.region);
            }
        }
    }

    fn region_end(&self, region: usize) -> u64 {
        let geometry = &self.assembly.geometry;
        ((region as u64 + 1) * geometry.region).min(geometry.length)
    }

    fn rebuilt(&mut self, offset: u64, copied: bool) {
        // After a leg was added, a range may be copied twice, one copy after the other.
        if let Some(at) = self.rebuilding.iter().position(|start| *start == offset) {
            self.rebuilding.swap_remove(at);
        }
        if !copied {
            self.rebuild_stuck = true;
            // Nothing from here on counts as copied.
            self.rebuild = self.rebuild.min(offset);
        }
        let upto = self.rebuilding.iter().copied().min();
        let upto = upto.unwrap_or(self.rebuild).min(self.rebuild);
        for leg in &mut self.legs {
            if leg.online && leg.state != LegState::InSync {
                leg.copied = leg.copied.max(upto);
            }
        }
    }

    /// Starts copies as long as there is credit.
    fn resync(&mut self, orders: &mut Vec<Order>) {
        while self.copies < self.settings.copies && self.credit > 0 {
            if self.copying.is_none() && self.to_copy > 0 {
                let regions = self.regions.iter().enumerate().skip(self.first_to_copy);
                let region = regions
                    .filter(|(_, region)| region.needs_copy && !region.stuck)
                    .map(|(index, _)| index)
                    .next()
                    .expect("counted");
                self.first_to_copy = region;
                self.copying = Some(Copying {
                    region,
                    next: region as u64 * self.assembly.geometry.region,
                    pending: 0,
                    again: false,
                });
            }
            let most = u64::from(self.settings.copy_bytes);
            if let Some(copying) = self.copying {
                let end = self.region_end(copying.region);
                if copying.next >= end || self.regions[copying.region].stuck {
                    return;
                }
                let length = most.min(end - copying.next);
                self.credit = self.credit.saturating_sub(length);
                self.copying = Some(Copying {
                    next: copying.next + length,
                    pending: copying.pending + 1,
                    ..copying
                });
                self.add_copy(Reason::Region, copying.next, length as u32, orders);
                continue;
            }
            let behind = !self.online().without(self.in_sync()).is_empty();
            let length = self.assembly.geometry.length;
            if !behind || self.rebuild_stuck || self.rebuild >= length {
                return;
            }
            let (offset, length) = (self.rebuild, most.min(length - self.rebuild));
            self.credit = self.credit.saturating_sub(length);
            self.rebuild += length;
            self.rebuilding.push(offset);
            self.add_copy(Reason::Rebuild, offset, length as u32, orders);
        }
    }

    // ---- Scrub ----

    fn scrub_begin(&mut self, from: Option<usize>, orders: &mut Vec<Order>) {
        self.scrubbing = true;
        let length = self.scrub_length(0);
        let task = self.add_task(Work::Scrub {
            from,
            offset: 0,
            length,
            repairing: false,
            differ: 0,
            unread: 0,
        });
        if self.ranges.take(task, 0, u64::from(length)) {
            self.scrub_read(task, orders);
        }
    }

    fn scrub_length(&self, offset: u64) -> u32 {
        let rest = self.assembly.geometry.length - offset;
        rest.min(u64::from(self.settings.copy_bytes)) as u32
    }

    fn scrub_read(&mut self, task: u32, orders: &mut Vec<Order>) {
        let Work::Scrub { offset, length, .. } = self.task(task).work else {
            unreachable!("a scrub");
        };
        for leg in self.in_sync().iter() {
            let buffer = Buffer::Own { task, part: leg };
            let range = (DATA + offset, length);
            self.issue(task, leg, OpKind::Read, range, buffer, orders);
        }
    }

    /// The legs were read, or written again.
    fn scrub_step(&mut self, task: u32, fan: Fan, orders: &mut Vec<Order>) {
        let in_sync = self.in_sync();
        let Work::Scrub {
            offset,
            length,
            repairing,
            unread,
            ..
        } = &mut self.task(task).work
        else {
            unreachable!("a scrub");
        };
        let (offset, length) = (*offset, *length);
        if *repairing {
            self.drop_others(fan.issued.without(fan.ok), orders);
            orders.push(Order::Notice(Notice::Differs {
                offset,
                length,
                repaired: true,
            }));
            return self.scrub_next(task, orders);
        }
        let failed = fan.issued.without(fan.ok).and(in_sync);
        let readable = fan.ok.and(in_sync);
        if !failed.is_empty() {
            *unread += 1;
        }
        // What one leg cannot read is rewritten from another, as if a client had read it.
        for leg in failed.iter().filter(|_| !readable.is_empty()) {
            self.add_copy(Reason::Repair(leg), offset, length, orders);
        }
        match readable.count() >= 2 {
            true => orders.push(Order::Compare {
                task,
                legs: readable,
            }),
            false => self.scrub_next(task, orders),
        }
    }

    fn compared(&mut self, task: u32, equal: bool, orders: &mut Vec<Order>) {
        let in_sync = self.in_sync();
        let Some(Some(Task {
            work:
                Work::Scrub {
                    from,
                    offset,
                    length,
                    repairing,
                    differ,
                    ..
                },
            ..
        })) = self.tasks.get_mut(task as usize)
        else {
            return;
        };
        if equal {
            return self.scrub_next(task, orders);
        }
        *differ += 1;
        let (offset, length) = (*offset, *length);
        if from.is_none_or(|from| !in_sync.has(from)) {
            orders.push(Order::Notice(Notice::Differs {
                offset,
                length,
                repaired: false,
            }));
            return self.scrub_next(task, orders);
        }
        *repairing = true;
        self.scrub_repair(task, orders);
    }

    /// Overwrites a range that differs.
    fn scrub_repair(&mut self, task: u32, orders: &mut Vec<Order>) {
        if !self.may_write(task) {
            return;
        }
        let in_sync = self.in_sync();
        let Work::Scrub {
            from: Some(from),
            offset,
            length,
            ..
        } = self.task(task).work
        else {
            unreachable!("a scrub that repairs");
        };
        if !in_sync.has(from) {
            return self.scrub_next(task, orders);
        }
        for leg in in_sync.without(LegSet::one(from)).iter() {
            let buffer = Buffer::Own { task, part: from };
            let kind = OpKind::Write { fua: true };
            self.issue(task, leg, kind, (DATA + offset, length), buffer, orders);
        }
        if in_sync.count() == 1 {
            self.scrub_next(task, orders);
        }
    }

    /// Continues behind the range, or ends.
    fn scrub_next(&mut self, task: u32, orders: &mut Vec<Order>) {
        self.release(task, orders);
        let Work::Scrub {
            from,
            offset,
            length,
            differ,
            unread,
            ..
        } = self.task(task).work
        else {
            unreachable!("a scrub");
        };
        let next = offset + u64::from(length);
        if next >= self.assembly.geometry.length || self.stopping || self.in_sync().count() < 2 {
            self.scrubbing = false;
            orders.push(Order::Notice(Notice::Scrubbed { differ, unread }));
            orders.push(Order::Free { task });
            return self.end_task(task);
        }
        let length = self.scrub_length(next);
        self.task(task).work = Work::Scrub {
            from,
            offset: next,
            length,
            repairing: false,
            differ,
            unread,
        };
        if self.ranges.take(task, next, u64::from(length)) {
            self.scrub_read(task, orders);
        }
    }

    // ---- What needs no event of its own ----

    fn work(&mut self, orders: &mut Vec<Order>) {
        if self.halted {
            self.fail_waiting(orders);
            // A write that fails lets the next one of its range go.
            while !self.epoch.waiting.is_empty() {
                self.not_opened(EIO, orders);
            }
            return self.stop(orders);
        }
        for block in 0..self.log.len() {
            if self.log[block].due && self.log[block].writing.is_none() && !self.untouched {
                self.log_write(block, orders);
            }
        }
        if !self.stopping {
            self.resync(orders);
            self.promote(orders);
            if self.to_copy == 0
                && !self.scrubbing
                && let Some(from) = self.scrub.take()
            {
                self.scrub_begin(from, orders);
            }
        }
        let due = self.epoch.due || !self.epoch.waiting.is_empty();
        if (self.recorded < self.version || due) && !self.recording {
            self.record(orders);
        }
        self.stop(orders);
    }

    /// Legs that were copied completely are flushed and recorded as in sync.
    fn promote(&mut self, orders: &mut Vec<Order>) {
        let length = self.assembly.geometry.length;
        if self.to_copy + self.stuck > 0 || self.copies > 0 {
            return;
        }
        for leg in 0..self.legs.len() {
            let one = &self.legs[leg];
            let behind = one.online && one.state != LegState::InSync;
            if behind && one.copied == length && !one.flushing && !one.promoted {
                self.copied(leg, length, orders);
            }
        }
    }

    /// Stops step by step: what is in flight ends, legs are flushed, bits are cleared.
    fn stop(&mut self, orders: &mut Vec<Order>) {
        while self.stopping && self.busy == 0 {
            match self.stop {
                StopStep::Flush => {
                    self.stop = StopStep::Record;
                    if !self.halted {
                        self.flush(Purpose::Stop, self.online(), orders);
                    }
                }
                StopStep::Record => {
                    self.stop = StopStep::Clean;
                    // Everything was written before this record.
                    self.ticks += 1;
                    if self.epoch.open && self.settings.epochs && !self.halted {
                        self.record(orders);
                    }
                }
                StopStep::Clean => {
                    self.stop = StopStep::End;
                    self.clean(u64::MAX);
                    for block in 0..self.log.len() {
                        if self.log[block].due && !self.untouched && !self.halted {
                            self.log_write(block, orders);
                        }
                    }
                }
                StopStep::End => {
                    self.stop = StopStep::Stopped;
                    orders.push(Order::Stopped);
                }
                StopStep::Stopped => return,
            }
        }
    }
}

/// Block of the log of a region, and its bit in it.
fn place(region: usize) -> (usize, usize) {
    let regions = intent::REGIONS as usize;
    (region / regions, region % regions)
}
