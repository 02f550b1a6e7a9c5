//! The mirror as a state machine: it takes events and returns orders. It performs no I/O, holds no data and has no
//! clock, so that a server and the crash simulator run the same object.
//!
//! # Invariants
//!
//! - *Log.* A write is issued to the legs only when the bits of its regions are durable on all legs that it goes to. A
//!   bit is cleared only under these conditions: no write is in flight in its region; all legs were flushed after the
//!   last one; the region needs no copying; all legs of the table are in sync; every change of the legs is recorded.
//! - *Fixed leg.* A region in which legs may differ (`needs_copy`) is read from the first leg in sync, until it was
//!   copied from this leg to all others. After an unclean start these are all marked regions; legs whose superblock or
//!   log is older than another's are then behind ([`Assembly::with_logs`]). Records name the leg until nothing differs,
//!   and nothing else is written to a leg before the first record: another start chooses the same leg.
//! - *Epoch.* A write to the data of a leg is issued only while an epoch is open. An epoch opens only by a record that
//!   began after the last one was closed. While it is open or opening, each tick with a write records again. It is
//!   closed by a record that began after all legs were flushed, with no write since the last tick. So a copy of a leg
//!   that lacks a write has an older generation than the others, at the latest one record later. Bits are cleared only
//!   if a record began after the last write to their regions, so that the bits cover what a copy of the newest
//!   generation may lack.
//! - *Drop.* A leg that fails a write or a flush that another leg in sync completed is dropped: it is behind. The drop
//!   is durable on the others before any write or flush that it missed is acknowledged ([`Mirror::ack`] waits for it).
//!   If all legs fail, none is dropped, the client gets the error, and the regions need copying.
//! - *Halt.* If no leg accepts the record of a drop, nothing is acknowledged until the mirror is started again.
//! - *Overwritten.* A copy of the superblock is overwritten only if it still has the content last written there, and
//!   each tick reads both back. Otherwise the leg was overwritten from outside, perhaps with an old copy of itself. It
//!   and the legs being copied to are dropped, and behind from byte 0. If it is the last leg in sync, the mirror halts.
//! - *Published.* The state that queues read without this object follows [`shared`](crate::shared). It is published at
//!   the end of each event, before its orders are executed.
//! - *Exclusion.* Writes, copies and scrubbed ranges that overlap are executed one after the other, in order of
//!   arrival.
//!
//! # Terms
//!
//! *Online*: the leg gets writes. Online legs are in sync, or behind and being copied to. *Task*: a request of the
//! client or a piece of work of the mirror itself. *Op*: one request to one leg. *Record*: an update of all
//! superblocks; it has two generations.
//!
//! Legs are added, removed and re-added while the mirror runs. An index is never reused for another leg: a removed leg
//! keeps its own until the next start. A dropped leg comes online again only by [`Event::Return`], after its last op
//! has returned.

mod changes;
mod copies;
mod epochs;
mod flushes;
mod interface;
mod leg;
mod log;
mod ops;
mod records;
mod requests;
mod scrub;
mod tasks;

use std::collections::VecDeque;
use std::sync::Arc;

use slab::Slab;

use crate::assembly::Assembly;
use crate::intent::{self, Bits};
use crate::legs::LegSet;
use crate::ranges::Ranges;
use crate::shared::Published;
use crate::superblock::{LegState, Member};
use interface::EIO;
use leg::Leg;
use tasks::{OpSlot, Purpose, Task, Work};

pub use interface::{
    Access, Buffer, Cause, Change, Choose, Errno, Event, Failure, Notice, Op, OpId, OpKind, Order,
    Request, Settings, UNEXPECTED,
};
pub use leg::Stored;

/// Ticks between two clean-ups of the log while writes are issued.
const CLEAN_TICKS: u64 = 5;

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
    /// A leg came online after that write began: `durable` will not be true for it.
    outdated: bool,
    /// `wanted` must be written.
    due: bool,
    /// Writes that wait for `durable`.
    waiting: Vec<u32>,
}

impl LogBlock {
    /// A block with the bits of all of these, which have to be written.
    fn marked(blocks: &[Bits]) -> LogBlock {
        let mut wanted = Bits::none();
        for bits in blocks {
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
    }
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
    /// A record is due.
    due: bool,
}

/// The updates of the superblocks.
#[derive(Debug)]
struct Records {
    /// Changes of the legs' states so far, and how many of them are durable.
    version: u64,
    recorded: u64,
    /// The tick at which the last record began.
    recorded_tick: u64,
    recording: bool,
    /// The log and the superblocks are as they were at the start, except for the record of the start.
    untouched: bool,
    /// The notice of the start is due.
    unannounced: bool,
    /// Legs that the record in progress calls in sync for the first time.
    promoted: LegSet,
    /// Successful requests that wait until this version is recorded.
    acks: VecDeque<(u64, u64)>,
}

/// The flushes of all legs.
#[derive(Debug, Default)]
struct Flushes {
    started: u64,
    /// The last one that has ended.
    ended: u64,
    /// One to clean regions is in flight.
    cleaning: bool,
}

/// What is to be copied.
#[derive(Debug, Default)]
struct Resync {
    /// Number of regions with `needs_copy` that are not stuck.
    to_copy: usize,
    stuck: usize,
    /// No region before it needs copying.
    first_to_copy: usize,
    /// Bytes that may be copied.
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
}

/// The next step once nothing is in flight.
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
    log: Vec<LogBlock>,
    /// Writes of the log so far, also before the start.
    log_writes: u64,
    epoch: Epoch,
    ranges: Ranges,
    tasks: Slab<Task>,
    ops: Vec<OpSlot>,
    free_ops: Vec<u32>,
    /// Ops that were given up and must end as failed.
    lost: VecDeque<OpId>,
    records: Records,
    flushes: Flushes,
    resync: Resync,
    ticks: u64,
    scrub: Option<Option<usize>>,
    scrubbing: bool,
    halted: bool,
    stopping: bool,
    stop: StopStep,
    published: Arc<Published>,
    /// Regions whose `needs_copy` has changed and was not published yet.
    changed: Vec<usize>,
    /// The orders of the event that is handled.
    orders: Vec<Order>,
}

impl Mirror {
    /// The mirror of an assembly. `logs` are the blocks of the log, each as stored on all given legs. They differ after
    /// a power failure; the log of a leg that is behind marks what it alone may have. `stored` is for each leg of the
    /// table.
    pub fn new(
        assembly: Assembly,
        logs: &[Vec<Bits>],
        stored: &[Stored],
        settings: Settings,
    ) -> Mirror {
        let length = assembly.geometry.length;
        let parts = assembly.parts.iter().zip(stored);
        let legs: Vec<Leg> = parts
            .map(|(part, stored)| Leg::stored(part, stored, length))
            .collect();
        let log: Vec<LogBlock> = logs.iter().map(|block| LogBlock::marked(block)).collect();
        let mut regions = vec![Region::default(); assembly.geometry.regions() as usize];
        let mut changed = Vec::new();
        let several = legs.iter().filter(|leg| leg.online).count() > 1;
        for (index, block) in log.iter().enumerate().filter(|_| several) {
            let first = index * intent::REGIONS as usize;
            let marked = block.wanted.iter().map(|bit| first + bit);
            changed.extend(marked.filter(|region| *region < regions.len()));
        }
        for region in &changed {
            regions[*region].needs_copy = true;
        }
        let to_copy = changed.len();
        let behind = legs.iter().filter(|leg| leg.online);
        let rebuild = behind.map(|leg| leg.copied).min().unwrap_or(length);
        let published = Arc::new(Published::new(assembly.geometry));
        Mirror {
            log_writes: stored.iter().map(|stored| stored.log).max().unwrap_or(0),
            epoch: Epoch {
                open: !settings.epochs,
                ..Epoch::default()
            },
            records: Records {
                version: u64::from(assembly.outdated || !settings.epochs),
                recorded: 0,
                recorded_tick: 0,
                recording: false,
                untouched: true,
                unannounced: true,
                promoted: LegSet::NONE,
                acks: VecDeque::new(),
            },
            flushes: Flushes::default(),
            resync: Resync {
                to_copy,
                differed: to_copy > 0,
                rebuild,
                ..Resync::default()
            },
            published,
            changed,
            assembly,
            settings,
            legs,
            regions,
            log,
            ranges: Ranges::default(),
            tasks: Slab::new(),
            ops: Vec::new(),
            free_ops: Vec::new(),
            lost: VecDeque::new(),
            ticks: 0,
            scrub: None,
            scrubbing: false,
            halted: false,
            stopping: false,
            stop: StopStep::Flush,
            orders: Vec::new(),
        }
    }

    /// Starts: records the legs' states if they differ from the stored ones. Requests may arrive before that has ended.
    pub fn start(&mut self, orders: &mut Vec<Order>) {
        self.announce();
        self.work();
        self.publish();
        orders.append(&mut self.orders);
    }

    /// The state that queues may read without this object, from the start on.
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

    /// Handles an event and appends the resulting orders.
    pub fn handle(&mut self, event: Event, choose: &mut impl Choose, orders: &mut Vec<Order>) {
        match event {
            Event::Request(request) => self.request(request, LegSet::NONE, EIO, choose),
            Event::Failed {
                request,
                leg,
                error,
            } => self.request(request, LegSet::one(leg), error, choose),
            Event::Done { op, result } => self.done(op, result, choose),
            Event::Lost { leg } => self.drop_other(leg, Cause::Silent),
            Event::Shortened { leg } => self.drop_for_good(leg, Cause::Short),
            Event::Replaced { leg } => self.drop_for_good(leg, Cause::Replaced),
            Event::Tick => self.tick(),
            Event::Credit(bytes) => self.resync.credit = self.resync.credit.saturating_add(bytes),
            Event::Add { id, uuid } => self.add(id, uuid),
            Event::Remove { id, leg } => self.remove(id, leg),
            Event::Return { id, leg, stored } => self.take_back(id, leg, stored),
            Event::Scrub { from } => self.scrub = Some(from),
            Event::Compared { task, equal } => self.compared(task, equal),
            Event::Stop => self.stopping = true,
        }
        while let Some(op) = self.lost.pop_front() {
            self.done(op, Err(EIO), choose);
        }
        self.work();
        // Work may have given up more ops, if the last leg but one was dropped.
        while let Some(op) = self.lost.pop_front() {
            self.done(op, Err(EIO), choose);
            self.work();
        }
        self.publish();
        orders.append(&mut self.orders);
    }

    /// Whether an op is awaited. Otherwise it was given up, and must not change any memory but its own.
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
        (self.resync.to_copy + self.resync.stuck) as u64 * self.assembly.geometry.region + behind
    }

    /// Whether all legs of the table are in sync, and no region may differ.
    pub fn redundant(&self) -> bool {
        self.all_in_sync() && self.resync.to_copy + self.resync.stuck == 0
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
                    // Includes unrecorded progress.
                    LegState::Behind { copied } => LegState::Behind {
                        copied: copied.max(leg.copied),
                    },
                };
                let (uuid, seen) = (part.member.uuid, leg.seen);
                (index, Member { uuid, state, seen })
            })
    }

    /// Whether every request fails because no leg accepted the record of a drop. [`Self::members`] may then be
    /// unrecorded.
    pub fn halted(&self) -> bool {
        self.halted
    }

    /// Why a leg was dropped or became too short; if the mirror halted, the op that it failed.
    pub fn cause(&self, leg: usize) -> Option<Cause> {
        let leg = &self.legs[leg];
        let failed = leg.failure.filter(|_| self.halted).map(Cause::Failed);
        leg.cause.or(failed)
    }

    /// The assembly, with the latest generation.
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

    /// The progress of the current scrub, bytes; 0 while it waits for regions to be copied. `None` without a scrub.
    pub fn scrubbed(&self) -> Option<u64> {
        let scrub = self.tasks.iter().find_map(|(_, task)| match task.work {
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

    fn tick(&mut self) {
        self.ticks += 1;
        if self.halted {
            return;
        }
        self.look();
        self.epoch_tick();
        let due = self.epoch.open && self.ticks.is_multiple_of(CLEAN_TICKS);
        if due && self.clean(self.ticks - CLEAN_TICKS) && !self.flushes.cleaning {
            self.flushes.cleaning = true;
            self.flush(Purpose::Clean, self.online());
        }
        // Progress of copying is recorded in steps of a sixteenth.
        let length = self.assembly.geometry.length;
        let step = length / 16;
        for leg in 0..self.legs.len() {
            let one = &self.legs[leg];
            let LegState::Behind { copied } = one.state else {
                continue;
            };
            let bytes = one.copied;
            if one.online && !one.flushing && bytes > copied + step && bytes < length {
                self.copied(leg, bytes);
            }
        }
    }

    fn work(&mut self) {
        if self.halted {
            self.fail_waiting();
            // A write that fails lets the next one of its range go.
            while !self.epoch.waiting.is_empty() {
                self.not_opened(EIO);
            }
            return self.stop();
        }
        for block in 0..self.log.len() {
            if self.log[block].due && self.log[block].writing.is_none() && !self.records.untouched {
                self.log_write(block);
            }
        }
        if !self.stopping {
            self.resync();
            self.promote();
            if self.resync.to_copy == 0
                && !self.scrubbing
                && let Some(from) = self.scrub.take()
            {
                self.scrub_begin(from);
            }
        }
        let due = self.epoch.due || !self.epoch.waiting.is_empty();
        if (self.records.recorded < self.records.version || due) && !self.records.recording {
            self.record();
        }
        self.stop();
    }

    /// Stops step by step: ops in flight end, legs are flushed, bits are cleared.
    fn stop(&mut self) {
        while self.stopping && self.tasks.is_empty() {
            match self.stop {
                StopStep::Flush => {
                    self.stop = StopStep::Record;
                    if !self.halted {
                        self.flush(Purpose::Stop, self.online());
                    }
                }
                StopStep::Record => {
                    self.stop = StopStep::Clean;
                    // Everything was written before this record.
                    self.ticks += 1;
                    if self.epoch.open && self.settings.epochs && !self.halted {
                        self.record();
                    }
                }
                StopStep::Clean => {
                    self.stop = StopStep::End;
                    self.clean(u64::MAX);
                    for block in 0..self.log.len() {
                        if self.log[block].due && !self.records.untouched && !self.halted {
                            self.log_write(block);
                        }
                    }
                }
                StopStep::End => {
                    self.stop = StopStep::Stopped;
                    self.orders.push(Order::Stopped);
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
