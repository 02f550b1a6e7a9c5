//! Crash simulator: a mirror on simulated legs loses power at random moments.
//!
//! The real state machine runs; legs, clients and time are simulated. A leg has a volatile cache: when power is lost,
//! each sector written and not flushed keeps any of its contents since the last flush, independently of all others. Of
//! each write in flight, any subset of its sectors arrives. Legs also fail writes, flushes and reads, all at once or
//! one of them, lose sectors, and stop answering. Legs are added, removed and re-added while the mirror runs.
//!
//! Legs also become shorter, and longer again once that is recorded; if the mirror halts before, it is started without
//! them before it is started with them. Starts omit legs, including legs in sync (`--degraded`). These return,
//! unchanged or after they were made shorter and longer meanwhile.
//!
//! Legs are restored from copies made at any moment, several at a time and from different moments. The file of a leg is
//! replaced by such a copy while it is served, or overwritten by one in place, or restored before it is re-added. A
//! copy is refused, or copied to. Data read are never older than acknowledged data.
//!
//! All legs are restored to an older state, and then legs of the abandoned history return: they are refused or copied
//! to completely.
//!
//! Not simulated, because it is undetectable: a leg made shorter and longer between two checks of its length, or while
//! no mirror is served; a copy of a leg in sync, if no tick, clean stop or first write followed and neither superblocks
//! nor log have changed since; a leg read between being overwritten and the next check of its superblocks; and a start
//! with only restored legs in sync.
//!
//! Queues read from legs without the state machine, within the rules of `iodyno_mirror::shared`: the leg is chosen
//! immediately and read at any later time, whatever happened to it meanwhile. Reads that fail, or are on a dropped leg,
//! go to the state machine.
//!
//! One case is several lives of one mirror: assemble, read back and check everything, work, lose power. A failure
//! prints its seed; `CRASH_SEED=N` runs this case alone, `CRASH_FROM=N` starts with it.

#![allow(clippy::print_stdout, reason = "counts what was simulated")]

use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;

use iodyno_mirror::LegSet;
use iodyno_mirror::assembly::{self, Assembly, Fault};
use iodyno_mirror::core::{
    Access, Buffer, Cause, Event, Mirror, Notice, Op, OpKind, Order, Request, Settings, Stored,
    UNEXPECTED,
};
use iodyno_mirror::intent::Bits;
use iodyno_mirror::superblock::{BLOCK, COPIES, DATA, Geometry, LOG, LegState, Member, Superblock};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use uuid::Uuid;

const SECTOR: u64 = 512;
const GEOMETRY: Geometry = Geometry {
    length: 96 << 10,
    region: 8 << 10,
    unit: 512,
};
const SECTORS: usize = (GEOMETRY.length / SECTOR) as usize;
/// When a copy was made in a history that was abandoned: all legs were restored to a moment before.
const ABANDONED: u64 = u64::MAX;
/// The content of a leg that was never written.
const GARBAGE: u64 = u64::MAX;

/// Content of a sector.
#[derive(Debug, Clone)]
enum Content {
    /// Data: number of the request that wrote it.
    Data(u64),
    /// Bytes of superblocks and logs.
    Bytes(Rc<[u8; SECTOR as usize]>),
}

impl Content {
    fn data(&self) -> u64 {
        match self {
            Content::Data(id) => *id,
            Content::Bytes(_) => panic!("metadata where data should be"),
        }
    }
}

#[derive(Debug, Clone)]
struct Disk {
    durable: HashMap<u64, Content>,
    /// Contents that were written since, oldest first, with the number of completed ops of this disk.
    cache: HashMap<u64, Vec<(u64, Content)>>,
    /// Sectors that cannot be read until they are written.
    bad: HashSet<u64>,
    completed: u64,
    blank: u64,
}

impl Disk {
    fn new(blank: u64) -> Disk {
        Disk {
            durable: HashMap::new(),
            cache: HashMap::new(),
            bad: HashSet::new(),
            completed: 0,
            blank,
        }
    }

    fn read(&self, sector: u64) -> Content {
        let cached = self.cache.get(&sector).and_then(|contents| contents.last());
        let content = cached.map(|(_, content)| content);
        let content = content.or_else(|| self.durable.get(&sector));
        content.cloned().unwrap_or(Content::Data(self.blank))
    }

    fn write(&mut self, sector: u64, content: Content, fua: bool) {
        self.bad.remove(&sector);
        if fua {
            self.cache.remove(&sector);
            self.durable.insert(sector, content);
        } else {
            let contents = self.cache.entry(sector).or_default();
            contents.push((self.completed, content));
        }
    }

    /// The disk was made shorter, and longer again.
    fn cut(&mut self, from: u64) {
        for sector in from..DATA / SECTOR + SECTORS as u64 {
            self.cache.remove(&sector);
            self.durable.insert(sector, Content::Data(GARBAGE));
        }
    }

    /// A copy of the disk, as made now.
    fn copy(&self) -> Disk {
        let mut copy = Disk::new(self.blank);
        let sectors = self.durable.keys().chain(self.cache.keys());
        copy.durable = sectors
            .map(|sector| (*sector, self.read(*sector)))
            .collect();
        copy.bad.clone_from(&self.bad);
        copy
    }

    /// Makes writes durable that were completed before the flush was issued.
    fn flush(&mut self, issued: u64) {
        let durable = &mut self.durable;
        self.cache.retain(|sector, contents| {
            let flushed = contents.partition_point(|(number, _)| *number <= issued);
            if flushed > 0 {
                let last = contents.drain(..flushed).next_back().expect("not empty");
                durable.insert(*sector, last.1);
            }
            !contents.is_empty()
        });
    }

    fn block(&self, offset: u64) -> Option<[u8; BLOCK]> {
        let mut block = [0; BLOCK];
        let sectors = offset / SECTOR..;
        for (sector, bytes) in sectors.zip(block.chunks_exact_mut(SECTOR as usize)) {
            if self.bad.contains(&sector) {
                return None;
            }
            if let Content::Bytes(content) = self.read(sector) {
                bytes.copy_from_slice(&content[..]);
            }
        }
        Some(block)
    }
}

/// An op that was issued and has not ended.
#[derive(Debug)]
struct InFlight {
    op: Op,
    payload: Vec<Content>,
    /// Completed ops of the disk when it was issued.
    issued: u64,
}

/// A client's read: for each sector the newest previously acknowledged write, and the data read.
type ReadInFlight = (Request, Vec<u64>, Vec<Option<u64>>);

/// A read that a queue sent to a leg itself.
#[derive(Debug)]
struct Direct {
    request: Request,
    /// For each sector the newest write that was acknowledged before.
    bounds: Vec<u64>,
    leg: usize,
}

/// The writes that a client may read in a sector, in order of arrival. It may not read anything older than the first.
#[derive(Debug, Clone)]
struct Expected {
    writes: VecDeque<u64>,
    /// The newest write that was acknowledged.
    acked: u64,
    /// Whether it was written since the last crash.
    written: bool,
    /// The data read after a crash, which later reads must confirm until it is written again, even after more crashes.
    pinned: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    crashes: u64,
    drops: u64,
    errors: u64,
    split: u64,
    resyncs: u64,
    halts: u64,
    repairs: u64,
    clean: u64,
    added: u64,
    removed: u64,
    returned: u64,
    direct: u64,
    handed_over: u64,
    cut: u64,
    cut_away: u64,
    short: u64,
    degraded: u64,
    restored: u64,
    in_sync: u64,
    refused: u64,
    replaced: u64,
    overwritten: u64,
    rolled_back: u64,
    abandoned: u64,
}

/// How legs misbehave in a life.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Trouble {
    None,
    /// This leg fails this share of its ops, percent.
    Leg(usize, u32),
    /// All legs fail this share of their writes and flushes, percent.
    All(u32),
    /// This leg does not end its ops.
    Silent(usize),
}

/// The state of a world between two lives.
struct Moment {
    disks: Vec<Disk>,
    expected: Vec<Expected>,
    short: HashSet<usize>,
    right: Option<usize>,
    gone: HashSet<usize>,
    changing: HashSet<usize>,
    noticed: u64,
    time: u64,
}

struct World {
    random: Xoshiro256PlusPlus,
    disks: Vec<Disk>,
    expected: Vec<Expected>,
    /// Whether a leg in sync was ever left out, so that others may mark it as behind without its knowledge.
    left_out: bool,
    /// Whether legs never fail, so that even unacknowledged data must not change once it was read.
    calm: bool,
    /// Disks that are too short: no mirror is started with them.
    short: HashSet<usize>,
    /// The leg that is right after others were restored. No start leaves it out before it is recorded that it is.
    right: Option<usize>,
    /// A moment to which all legs may be restored.
    moment: Option<Box<Moment>>,
    /// Copies of disks, with the time when they were made.
    copies: Vec<(usize, u64, Disk)>,
    time: u64,
    /// A copy of a leg in sync that is older lacks nothing, or is known to be old.
    noticed: u64,
    /// Whether epochs are recorded.
    epochs: bool,
    /// Disks whose removal was acknowledged, or that never became legs.
    gone: HashSet<usize>,
    /// Disks whose addition or removal was requested and perhaps recorded.
    changing: HashSet<usize>,
    next: u64,
    counts: Counts,
}

/// A requested change of the legs; with the disk.
#[derive(Debug, Clone, Copy)]
enum Change {
    Add(usize),
    Remove(usize),
    Return(usize),
}

/// One life of the mirror.
struct Life {
    mirror: Mirror,
    /// The disk of each leg of the table.
    disk: Vec<usize>,
    flying: Vec<InFlight>,
    reads: HashMap<u64, ReadInFlight>,
    direct: Vec<Direct>,
    writes: HashMap<u64, Request>,
    /// Flushes with the newest write that was acknowledged when they came, for each sector.
    flushes: HashMap<u64, Vec<u64>>,
    changes: HashMap<u64, Change>,
    own: HashMap<(u32, usize), Vec<Content>>,
    trouble: Trouble,
    stopping: bool,
    stopped: bool,
    halted: bool,
    scrubbed: Option<(u64, u64)>,
    /// Answers to comparisons that were ordered.
    compared: VecDeque<(u32, bool)>,
    /// Nothing was written since the start; the time of the first write.
    quiet: bool,
    first_write: Option<(u64, u64)>,
    /// Disks whose files were replaced, by these.
    replaced: HashMap<usize, Disk>,
    /// A superblock could not be written: its content is unknown.
    unknown: bool,
    /// A leg that was overwritten, which the mirror does not know yet.
    overwritten: Option<usize>,
    /// A read failed on a leg: its missing data may be in the process of being read from another one.
    repairing: bool,
}

impl World {
    fn new(seed: u64, epochs: bool) -> World {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let legs = random.random_range(2..=4);
        let calm = random.random_range(0..3) == 0;
        // Some mirrors begin with a leg of any content.
        let behind = random.random_range(0..3) == 0;
        let member = |leg: usize| Member {
            seen: 1,
            uuid: Uuid::from_u128(leg as u128 + 1),
            state: match behind && leg + 1 == legs {
                true => LegState::Behind { copied: 0 },
                false => LegState::InSync,
            },
        };
        let members: Vec<Member> = (0..legs).map(member).collect();
        let disks = (0..legs).map(|leg| {
            let mut disk = Disk::new(match members[leg].state {
                LegState::InSync => 0,
                LegState::Behind { .. } => GARBAGE,
            });
            let superblock = Superblock {
                mirror: Uuid::from_u128(u128::from(seed) << 64),
                leg: members[leg].uuid,
                generation: 1,
                complete: 1,
                line: 0,
                forks: Vec::new(),
                unwritten: false,
                source: None,
                geometry: GEOMETRY,
                members: members.clone(),
            };
            for copy in COPIES {
                put(&mut disk, copy, &superblock.encode());
            }
            put(
                &mut disk,
                LOG,
                &Bits::none().encode(superblock.mirror, 0, 0),
            );
            disk
        });
        let disks = disks.collect();
        let expected = Expected {
            writes: VecDeque::from([0]),
            acked: 0,
            written: false,
            pinned: None,
        };
        World {
            random,
            disks,
            expected: vec![expected; SECTORS],
            left_out: false,
            calm,
            short: HashSet::new(),
            right: None,
            moment: None,
            copies: Vec::new(),
            time: 1,
            noticed: 0,
            epochs,
            gone: HashSet::new(),
            changing: HashSet::new(),
            next: 1,
            counts: Counts::default(),
        }
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    /// The superblock of a disk, and its valid copy. `None`: both are invalid.
    fn stored(&self, disk: usize) -> Option<(Superblock, usize)> {
        let copies = COPIES.map(|copy| self.disks[disk].block(copy));
        Superblock::newest([copies[0].as_ref(), copies[1].as_ref()]).ok()
    }

    fn superblock(&self, disk: usize) -> (Superblock, usize) {
        let stored = self.stored(disk);
        stored.expect("one copy of the superblock is always valid")
    }

    fn superblocks(&self, disks: &[usize]) -> Vec<Superblock> {
        disks.iter().map(|disk| self.superblock(*disk).0).collect()
    }

    /// Assembles the mirror of all disks that are legs. A change of the legs that was not acknowledged has happened or
    /// not.
    fn assemble_all(&mut self) -> Option<(Assembly, Vec<usize>)> {
        let mut given: Vec<usize> = (0..self.disks.len())
            .filter(|disk| !self.gone.contains(disk))
            .filter(|disk| !self.changing.contains(disk) || self.stored(*disk).is_some())
            .collect();
        loop {
            let faults = match assembly::assemble(&self.superblocks(&given), None) {
                Ok(all) => return Some((all, given)),
                Err(faults) => faults,
            };
            let removed = faults.iter().filter_map(|fault| match fault {
                Fault::Removed { leg } => Some(given[*leg]),
                _ => None,
            });
            let removed: HashSet<usize> = removed.collect();
            assert!(removed.is_subset(&self.changing), "{faults:?}");
            if removed.is_empty() {
                let split = |fault: &Fault| matches!(fault, Fault::SplitBrain { .. });
                assert!(self.left_out && faults.iter().any(split), "{faults:?}");
                self.counts.split += 1;
                return None;
            }
            given.retain(|disk| !removed.contains(disk));
            self.gone.extend(removed);
        }
    }

    /// Assembles the mirror of all disks that are long enough, or sometimes of all but one that is not needed.
    fn assemble(&mut self) -> Option<(Assembly, Vec<usize>)> {
        let (mut all, mut whole) = self.assemble_all()?;
        if self.restore(&all, &whole) {
            (all, whole) = self.assemble_all()?;
        }
        let disk = |leg: usize| all.parts[leg].given.map(|at| whole[at]);
        let in_sync = |leg: usize| all.parts[leg].member.state == LegState::InSync;
        let is_short = |disk: &usize| self.short.contains(disk);
        let long = |leg: &usize| !disk(*leg).as_ref().is_some_and(is_short);
        let legs = 0..all.parts.len();
        let count = legs.filter(|leg| in_sync(*leg) && long(leg)).count();
        let any_short = whole.iter().any(is_short);
        let leg = self.random.random_range(0..all.parts.len());
        let needed = in_sync(leg) && (count <= 1 || self.calm);
        let left_out = (!needed && self.chance(10)).then(|| disk(leg)).flatten();
        let left_out = left_out.filter(|disk| self.right != Some(*disk));
        let stays = |disk: &&usize| !self.short.contains(*disk) && Some(**disk) != left_out;
        let given: Vec<usize> = whole.iter().filter(stays).copied().collect();
        let line = self.random.random();
        match assembly::assemble(&self.superblocks(&given), Some(line)) {
            Ok(assembly) => {
                // Those that are left out may know better which legs are in sync.
                let degraded = assembly::assemble(&self.superblocks(&given), None).is_err();
                self.left_out |= degraded;
                self.counts.degraded += u64::from(degraded);
                self.counts.short += u64::from(any_short);
                Some((assembly, given))
            }
            // Only legs that are too short have everything.
            Err(_) if any_short => None,
            // The omitted leg knows which of the others is right.
            Err(_) => Some((all, whole)),
        }
    }

    /// Copies a leg.
    fn copy_leg(&mut self) {
        let disk = self.random.random_range(0..self.disks.len());
        // The loss of power may undo a record that failed. A leg that has it is refused as split brain.
        let sectors = COPIES.map(|copy| copy / SECTOR..(copy + BLOCK as u64) / SECTOR);
        let cached = |sector| self.disks[disk].cache.contains_key(&sector);
        if sectors.into_iter().flatten().any(cached) {
            return;
        }
        self.time += 1;
        let copy = (disk, self.time, self.disks[disk].copy());
        let keep = 8;
        match self.copies.len() < keep {
            true => self.copies.push(copy),
            false => self.copies[self.random.random_range(0..keep)] = copy,
        }
    }

    /// All legs are restored to an older moment, sometimes.
    fn roll_back(&mut self) {
        if self.chance(30) {
            self.moment = Some(Box::new(Moment {
                disks: self.disks.clone(),
                expected: self.expected.clone(),
                short: self.short.clone(),
                right: self.right,
                gone: self.gone.clone(),
                changing: self.changing.clone(),
                noticed: self.noticed,
                time: self.time,
            }));
        } else if self.chance(40)
            && let Some(moment) = self.moment.take()
        {
            let moment = *moment;
            let superblocks = moment.disks.iter().filter_map(stored_in);
            let lines = superblocks.flat_map(|one| {
                let forks = one.forks.iter().map(|fork| fork.line);
                forks.chain([one.line]).collect::<Vec<_>>()
            });
            let lines: HashSet<u64> = lines.collect();
            // One of a line that is known may have newer data: it was overwritten while it was served.
            self.copies.retain_mut(|(disk, made, copy)| {
                let before = *made <= moment.time;
                *made = if before { *made } else { ABANDONED };
                let other = stored_in(copy).is_some_and(|one| !lines.contains(&one.line));
                *disk < moment.disks.len() && (before || other)
            });
            self.disks = moment.disks;
            self.expected = moment.expected;
            (self.short, self.right) = (moment.short, moment.right);
            (self.gone, self.changing) = (moment.gone, moment.changing);
            self.noticed = moment.noticed;
            // A leg of the history that was abandoned and this one were written without each other.
            self.left_out = true;
            self.counts.rolled_back += 1;
        }
    }

    /// Restores legs from copies, sometimes, but not all that are in sync. Returns whether there was one.
    fn restore(&mut self, all: &Assembly, whole: &[usize]) -> bool {
        let stored = |disk: &Disk| {
            let copies = COPIES.map(|copy| disk.block(copy));
            let superblock = Superblock::newest([copies[0].as_ref(), copies[1].as_ref()]);
            let (_, write) = all.decode_log(disk.block(LOG).as_ref(), 0);
            Some((superblock.ok()?.0.generation, write))
        };
        let in_sync = |part: &assembly::Part| part.member.state == LegState::InSync;
        let in_sync = all.parts.iter().filter(|part| in_sync(part));
        let mut in_sync: Vec<usize> = in_sync
            .filter_map(|part| Some(whole[part.given?]))
            .collect();
        // This one stays. It is not too short, or the mirror would be started without it.
        in_sync.retain(|disk| !self.short.contains(disk));
        if in_sync.is_empty() {
            return false;
        }
        let any = in_sync[self.random.random_range(0..in_sync.len())];
        let right = self.right.unwrap_or(any);
        in_sync.retain(|disk| *disk != right);
        let own = self.superblock(right).0;
        if !own.claims() || self.short.contains(&right) {
            // Only another leg knows that it is in sync.
            return false;
        }
        let newest = stored(&self.disks[right]);
        // Before the last copies had ended, one leg was chosen for good.
        let chosen = own.source.is_some();
        let mut restored = false;
        for _ in 0..3 {
            if self.copies.is_empty() || !self.chance(40) {
                continue;
            }
            let mut at = self.random.random_range(0..self.copies.len());
            let mut copies = self.copies.iter();
            let abandoned = copies.position(|(_, made, _)| *made == ABANDONED);
            if let Some(other) = abandoned.filter(|_| self.chance(60)) {
                at = other;
            }
            let (disk, made, copy) = &self.copies[at];
            let (disk, was_in_sync) = (*disk, in_sync.contains(disk));
            let older = *made <= self.noticed || (self.epochs && !chosen && stored(copy) < newest);
            let abandoned = *made == ABANDONED;
            // Nothing was written since all were restored: it may continue that history.
            let known = stored_in(copy).is_none_or(|copy| own.precedes(&copy));
            let unreadable = stored(copy).is_none() || (abandoned && known);
            if disk == right
                || !whole.contains(&disk)
                || unreadable
                || (was_in_sync && !older && !abandoned)
            {
                continue;
            }
            let before = std::mem::replace(&mut self.disks[disk], copy.clone());
            self.counts.abandoned += u64::from(abandoned);
            if assembly::assemble(&self.superblocks(whole), None).is_err() {
                // It is refused: it is old, or was written without the others, and is left as it was.
                self.counts.refused += u64::from(was_in_sync);
                self.disks[disk] = before;
                continue;
            }
            self.counts.in_sync += u64::from(was_in_sync);
            self.counts.restored += 1;
            restored = true;
            self.right = Some(right);
            // It may have been the leg that was read.
            self.expected.iter_mut().for_each(|one| one.pinned = None);
        }
        restored
    }

    /// The mirror that runs has recorded which legs it was started without: these may change.
    fn recorded(&mut self, life: &Life) {
        // They were cut before, and are made longer now.
        self.short.clear();
        self.right = None;
        for disk in 0..self.disks.len() {
            if !life.disk.contains(&disk) && !self.gone.contains(&disk) && self.chance(50) {
                self.cut_disk(disk);
                self.counts.cut_away += 1;
            }
        }
    }

    /// Makes a leg shorter.
    fn cut_disk(&mut self, disk: usize) {
        let from = self.random.random_range(0..SECTORS as u64);
        self.disks[disk].cut(DATA / SECTOR + from);
    }

    fn start(&mut self, orders: &mut Vec<Order>) -> Option<Life> {
        let (assembly, given) = self.assemble()?;
        if self.chance(50) {
            self.copy_leg();
        }
        let logs = given.iter().map(|disk| {
            let block = self.disks[*disk].block(LOG);
            assembly.decode_log(block.as_ref(), 0)
        });
        let (logs, writes): (Vec<Bits>, Vec<u64>) = logs.unzip();
        let marked = logs.iter().any(|bits| bits.iter().next().is_some());
        let assembly = match assembly.with_logs(&self.superblocks(&given), &writes, marked) {
            Ok(assembly) => assembly,
            Err(faults) => {
                assert!(self.left_out, "{faults:?}");
                self.counts.split += 1;
                return None;
            }
        };
        let logs = vec![logs];
        let disk = assembly
            .parts
            .iter()
            .map(|part| part.given.map_or(usize::MAX, |at| given[at]));
        let disk: Vec<usize> = disk.collect();
        let parts = assembly.parts.iter().zip(&disk);
        let stored = parts.map(|(part, disk)| match part.given {
            None => Stored::default(),
            Some(at) => Stored {
                superblocks: COPIES.map(|copy| self.disks[*disk].block(copy).map(Box::new)),
                copy: self.superblock(*disk).1,
                log: writes[at],
            },
        });
        let stored: Vec<Stored> = stored.collect();
        let settings = Settings {
            copy_bytes: 4096,
            copies: self.random.random_range(1..4),
            epochs: self.epochs,
            line: Some(self.random.random()),
        };
        let mut mirror = Mirror::new(assembly, &logs, &stored, settings);
        mirror.start(orders);
        Some(Life {
            mirror,
            disk,
            flying: Vec::new(),
            reads: HashMap::new(),
            direct: Vec::new(),
            writes: HashMap::new(),
            flushes: HashMap::new(),
            changes: HashMap::new(),
            own: HashMap::new(),
            trouble: Trouble::None,
            stopping: false,
            stopped: false,
            halted: false,
            scrubbed: None,
            compared: VecDeque::new(),
            quiet: true,
            first_write: None,
            replaced: HashMap::new(),
            unknown: false,
            overwritten: None,
            repairing: false,
        })
    }

    /// Power is lost.
    fn crash(&mut self, life: Life) {
        self.counts.crashes += 1;
        let random = &mut self.random;
        for (index, disk) in self.disks.iter_mut().enumerate() {
            // Percent of the sectors that keep the last write.
            let luck = [0, 50, 100][random.random_range(0..3)];
            let mut sectors: Vec<_> = disk.cache.drain().collect();
            sectors.sort_unstable_by_key(|(sector, _)| *sector);
            for (sector, mut contents) in sectors {
                let kept = match random.random_range(0..100) < luck {
                    true => contents.len(),
                    false => random.random_range(0..=contents.len()),
                };
                if kept > 0 {
                    disk.durable
                        .insert(sector, contents.swap_remove(kept - 1).1);
                }
            }
            for flying in life
                .flying
                .iter()
                .filter(|one| life.disk[one.op.leg] == index)
            {
                if !matches!(flying.op.kind, OpKind::Write { .. }) {
                    continue;
                }
                let arrives = [0, 50, 100][random.random_range(0..3)];
                for (sector, content) in (flying.op.offset / SECTOR..).zip(&flying.payload) {
                    if random.random_range(0..100) < arrives {
                        disk.durable.insert(sector, content.clone());
                        disk.bad.remove(&sector);
                    }
                }
            }
        }
        for (disk, copy) in life.replaced {
            self.disks[disk] = copy;
        }
    }

    // ---- Clients ----

    fn request(
        &mut self,
        life: &mut Life,
        access: Access,
        start: usize,
        sectors: usize,
    ) -> Request {
        let id = self.next;
        self.next += 1;
        let request = Request {
            id,
            access,
            offset: start as u64 * SECTOR,
            length: (sectors as u64 * SECTOR) as u32,
        };
        match access {
            Access::Read => {
                let bounds = self.expected[start..start + sectors]
                    .iter()
                    .map(|one| one.acked);
                let bounds = bounds.collect();
                life.reads
                    .insert(id, (request, bounds, vec![None; sectors]));
            }
            Access::Write { .. } => {
                for expected in &mut self.expected[start..start + sectors] {
                    expected.writes.push_back(id);
                    (expected.written, expected.pinned) = (true, None);
                }
                if std::mem::take(&mut life.quiet) {
                    life.first_write = Some((id, self.time));
                }
                life.writes.insert(id, request);
            }
            Access::Flush => {
                let acked = self.expected.iter().map(|one| one.acked).collect();
                life.flushes.insert(id, acked);
            }
        }
        request
    }

    fn random_request(&mut self, life: &mut Life) -> Request {
        let (access, most) = match self.random.random_range(0..10) {
            0..3 => (Access::Read, 24),
            3..7 => (Access::Write { fua: false }, 24),
            7 => (Access::Write { fua: true }, 12),
            _ => return self.request(life, Access::Flush, 0, 0),
        };
        // Some places are more popular, so that requests overlap.
        let area = [8, SECTORS][self.random.random_range(0..2)];
        let start = self.random.random_range(0..area);
        let sectors = self.random.random_range(1..=most.min(SECTORS - start));
        self.request(life, access, start, sectors)
    }

    fn reply(&mut self, life: &mut Life, id: u64, result: Result<(), i32>) {
        if let Some(change) = life.changes.remove(&id) {
            return self.changed(life, change, result);
        }
        if result.is_err() {
            self.counts.errors += 1;
            let troubled = life.trouble != Trouble::None || !self.calm;
            assert!(
                troubled,
                "request {id} failed although all legs work: {result:?}"
            );
        }
        if let Some(request) = life.writes.remove(&id) {
            let Ok(()) = result else { return };
            let fua = request.access == Access::Write { fua: true };
            if let Some((_, at)) = life.first_write.take_if(|(first, _)| *first == id) {
                // Copies that were made before lack it.
                self.noticed = self.noticed.max(at);
            }
            for expected in self.range(request) {
                expected.acked = expected.acked.max(id);
                if fua {
                    forget_before(&mut expected.writes, id);
                }
            }
        } else if let Some(acked) = life.flushes.remove(&id) {
            if result.is_ok() {
                for (expected, acked) in self.expected.iter_mut().zip(acked) {
                    forget_before(&mut expected.writes, acked);
                }
            }
        } else if let Some((request, bounds, contents)) = life.reads.remove(&id) {
            if result.is_ok() {
                self.check_read(request, &bounds, &contents);
            }
        } else {
            panic!("request {id} was replied to twice");
        }
    }

    fn changed(&mut self, life: &Life, change: Change, result: Result<(), i32>) {
        match (change, result) {
            (Change::Add(disk), Ok(())) => {
                // If the leg failed immediately, its superblock was never written.
                let leaves =
                    |change: &Change| matches!(change, Change::Remove(other) if *other == disk);
                if self.calm && !life.changes.values().any(leaves) {
                    self.changing.remove(&disk);
                }
                self.counts.added += 1;
            }
            (Change::Remove(disk), Ok(())) => {
                self.gone.insert(disk);
                self.counts.removed += 1;
                let used = life.mirror.members().any(|(leg, _)| life.disk[leg] == disk);
                assert!(!used, "a removed leg is in the table");
            }
            (Change::Return(disk), Ok(())) => {
                self.counts.returned += 1;
                let replaced = life.replaced.contains_key(&disk);
                assert!(!replaced, "a leg whose file was replaced was taken back");
            }
            (_, Err(_)) => {}
        }
    }

    /// Adds, removes or takes back a leg.
    fn change(&mut self, life: &mut Life, orders: &mut Vec<Order>) {
        let id = self.next;
        self.next += 1;
        let mut leg = self.random.random_range(0..life.disk.len());
        let online = life.mirror.online();
        // A leg that was dropped, if there is one, half of the time.
        let mut dropped = (0..life.disk.len()).filter(|leg| !online.has(*leg));
        if let Some(other) = dropped.next().filter(|_| self.chance(50)) {
            leg = other;
        }
        let disk = life.disk[leg];
        let quiet = life.flying.iter().all(|flying| flying.op.leg != leg)
            && life.direct.iter().all(|direct| direct.leg != leg);
        match self.random.random_range(0..4) {
            0 if life.disk.len() < 6 => {
                let uuid = Uuid::from_u128(u128::from(id) << 32);
                let mut disk = Disk::new(GARBAGE);
                let mirror = life.mirror.assembly().mirror;
                put(&mut disk, LOG, &Bits::none().encode(mirror, 0, 0));
                let number = self.disks.len();
                self.disks.push(disk);
                self.changing.insert(number);
                life.disk.push(number);
                life.changes.insert(id, Change::Add(number));
                self.event(life, Event::Add { id, uuid }, orders);
                if life.mirror.assembly().parts.len() < life.disk.len() {
                    // It was refused.
                    life.disk.pop();
                }
            }
            1 if disk != usize::MAX => {
                self.changing.insert(disk);
                life.changes.insert(id, Change::Remove(disk));
                self.event(life, Event::Remove { id, leg }, orders);
            }
            _ if quiet && disk != usize::MAX && !online.has(leg) => {
                life.changes.insert(id, Change::Return(disk));
                let mut of_leg = self.copies.iter().filter(|(of, _, _)| *of == disk);
                let copy = of_leg.next_back().map(|(_, _, copy)| copy.clone());
                // Otherwise, it is refused at the next start.
                let uuid = life.mirror.assembly().parts[leg].member.uuid;
                let mut in_sync = life.mirror.in_sync().iter();
                let dropped = in_sync.all(|other| {
                    let found = self.stored(life.disk[other]);
                    found.is_some_and(|(found, _)| found.state(uuid) != Some(LegState::InSync))
                });
                let copy = copy.filter(|_| dropped && !life.halted);
                if let Some(copy) = copy.filter(|_| self.chance(40)) {
                    self.disks[disk] = copy;
                }
                let stored = self.stored(disk).map(|(found, _)| found.recorded());
                self.event(life, Event::Return { id, leg, stored }, orders);
            }
            _ => {}
        }
    }

    fn range(&mut self, request: Request) -> &mut [Expected] {
        let start = (request.offset / SECTOR) as usize;
        &mut self.expected[start..start + request.length as usize / SECTOR as usize]
    }

    fn check_read(&mut self, request: Request, bounds: &[u64], contents: &[Option<u64>]) {
        let calm = self.calm;
        let start = request.offset / SECTOR;
        let all = self.range(request).iter_mut().zip(bounds).zip(contents);
        for (at, ((expected, bound), content)) in all.enumerate() {
            let sector = start + at as u64;
            let content = content.expect("a read that succeeded has data");
            let known = expected.writes.contains(&content);
            // A write acknowledged while the read was in flight may have replaced the data read.
            assert!(
                content >= *bound && (known || content < expected.writes[0]),
                "sector {sector} has write {content}; expected {bound} or later of {expected:?}"
            );
            if let Some(pinned) = expected.pinned {
                assert_eq!(content, pinned, "sector {sector} changed without a write");
            }
            if calm && !expected.written {
                expected.pinned = Some(content);
            }
        }
    }

    // ---- Legs ----

    fn obey(&mut self, life: &mut Life, orders: &mut Vec<Order>) {
        for order in orders.drain(..) {
            match order {
                Order::Op(op) => self.issue(life, op),
                Order::Reply { id, result } => self.reply(life, id, result),
                Order::Compare { task, legs } => {
                    let mut buffers = legs.iter().map(|leg| {
                        let own = &life.own[&(task, leg)];
                        own.iter().map(Content::data).collect::<Vec<_>>()
                    });
                    let first = buffers.next().expect("two legs");
                    let equal = buffers.all(|other| other == first);
                    life.compared.push_back((task, equal));
                }
                Order::Free { task } => life.own.retain(|(owner, _), _| *owner != task),
                Order::Notice(notice) => match notice {
                    Notice::Recorded => self.recorded(life),
                    Notice::Dropped { .. } => self.counts.drops += 1,
                    Notice::InSync(_) => self.counts.resyncs += 1,
                    Notice::Repaired { .. } => self.counts.repairs += 1,
                    Notice::Halted => {
                        self.counts.halts += 1;
                        life.halted = true;
                    }
                    Notice::Scrubbed { differ, unread } => life.scrubbed = Some((differ, unread)),
                    Notice::Unreadable { .. }
                    | Notice::Differs { .. }
                    | Notice::Removed(_)
                    | Notice::Refused(_)
                    | Notice::Last { .. } => {}
                },
                Order::Stopped => {
                    assert!(
                        !life.stopped && life.mirror_idle(),
                        "stops with work in flight"
                    );
                    life.stopped = true;
                }
            }
        }
    }

    fn issue(&mut self, life: &mut Life, op: Op) {
        let sectors = u64::from(op.length) / SECTOR;
        let payload = match (&op.buffer, op.kind) {
            (_, OpKind::Read | OpKind::Flush) => Vec::new(),
            (Buffer::Client(id), _) => vec![Content::Data(*id); sectors as usize],
            (Buffer::Own { task, part }, _) => life.own[&(*task, *part)].clone(),
            (Buffer::Block(block) | Buffer::Superblock { new: block, .. }, _) => (block
                .chunks_exact(SECTOR as usize))
            .map(|bytes| Content::Bytes(Rc::new(bytes.try_into().expect("a sector"))))
            .collect(),
            (Buffer::None | Buffer::Expected(_), _) => panic!("a write without data"),
        };
        // A copy opens the epoch as the first write does.
        life.quiet &= !matches!(op.buffer, Buffer::Own { .. });
        let disk = &self.disks[life.disk[op.leg]];
        if matches!(op.kind, OpKind::Write { .. })
            && op.offset >= DATA
            && matches!(op.buffer, Buffer::Client(_))
            && life.overwritten != Some(op.leg)
        {
            check_log(disk, &op);
        }
        life.flying.push(InFlight {
            issued: disk.completed,
            op,
            payload,
        });
    }

    /// A client's request arrives. Some reads are sent to a leg by their queue, if it may.
    fn arrive(&mut self, life: &mut Life, request: Request, orders: &mut Vec<Order>) {
        let published = life.mirror.published();
        let legs = match request.access == Access::Read && self.chance(60) {
            true => published.readable(request.offset, request.length),
            false => LegSet::NONE,
        };
        if legs.is_empty() {
            return self.event(life, Event::Request(request), orders);
        }
        self.check_same(life, request, legs);
        let nth = self.random.random_range(0..legs.count());
        let (request, bounds, _) = life.reads.remove(&request.id).expect("it came just now");
        life.direct.push(Direct {
            request,
            bounds,
            leg: legs.iter().nth(nth).expect("counted"),
        });
    }

    /// Ends a random read of a queue. Returns whether there was one that can end.
    fn complete_direct(&mut self, life: &mut Life, orders: &mut Vec<Order>) -> bool {
        let in_sync = life.mirror.published().in_sync();
        let silent = |direct: &Direct| life.trouble == Trouble::Silent(direct.leg);
        let able: Vec<usize> = (0..life.direct.len())
            .filter(|at| !silent(&life.direct[*at]) || !in_sync.has(life.direct[*at].leg))
            .collect();
        if able.is_empty() {
            return false;
        }
        let at = able[self.random.random_range(0..able.len())];
        let silent = silent(&life.direct[at]);
        let Direct {
            request,
            bounds,
            leg,
        } = life.direct.swap_remove(at);
        let start = (DATA + request.offset) / SECTOR;
        let sectors = start..start + bounds.len() as u64;
        let fails = match life.trouble {
            Trouble::Leg(failing, percent) if failing == leg => self.chance(percent),
            _ => false,
        };
        let disk = &self.disks[life.disk[leg]];
        let bad = sectors.clone().any(|sector| disk.bad.contains(&sector));
        let contents = sectors.map(|sector| Some(disk.read(sector).data()));
        let contents: Vec<Option<u64>> = contents.collect();
        // It may also end after the leg was dropped. A mirror that stops takes no more requests.
        let left = !in_sync.has(leg) && !life.stopping && self.chance(50);
        let event = match () {
            () if silent || left => Event::Request(request),
            () if fails || bad => {
                life.repairing = true;
                Event::Failed {
                    request,
                    leg,
                    error: 5,
                }
            }
            () => {
                self.counts.direct += 1;
                self.check_read(request, &bounds, &contents);
                return true;
            }
        };
        self.counts.handed_over += 1;
        let nothing = vec![None; bounds.len()];
        life.reads.insert(request.id, (request, bounds, nothing));
        self.event(life, event, orders);
        true
    }

    /// Ends a random op. Returns whether there was one that can end.
    fn complete(&mut self, life: &mut Life, orders: &mut Vec<Order>) -> bool {
        let all = life.direct.len() + life.flying.len();
        if self.random.random_range(0..all.max(1)) < life.direct.len()
            && self.complete_direct(life, orders)
        {
            return true;
        }
        self.complete_op(life, orders) || self.complete_direct(life, orders)
    }

    fn complete_op(&mut self, life: &mut Life, orders: &mut Vec<Order>) -> bool {
        let silent = match life.trouble {
            Trouble::Silent(leg) => Some(leg),
            _ => None,
        };
        let able: Vec<usize> = (0..life.flying.len())
            .filter(|index| Some(life.flying[*index].op.leg) != silent)
            .collect();
        if able.is_empty() {
            return false;
        }
        let index = able[self.random.random_range(0..able.len())];
        let flying = life.flying.swap_remove(index);
        let fails = match life.trouble {
            Trouble::Leg(leg, percent) if leg == flying.op.leg => self.chance(percent),
            Trouble::All(percent) if flying.op.kind != OpKind::Read => self.chance(percent),
            _ => false,
        };
        let result = match fails {
            true => {
                life.unknown |= matches!(flying.op.buffer, Buffer::Superblock { .. });
                self.fail(life, &flying);
                Err(5)
            }
            false => self.carry_out(life, &flying),
        };
        life.repairing |= flying.op.kind == OpKind::Read && result.is_err();
        let op = flying.op.id;
        self.event(life, Event::Done { op, result }, orders);
        true
    }

    /// A write that fails may have arrived in part.
    fn fail(&mut self, life: &Life, flying: &InFlight) {
        let disk = life.disk[flying.op.leg];
        self.disks[disk].completed += 1;
        for (sector, content) in (flying.op.offset / SECTOR..).zip(&flying.payload) {
            if self.chance(50) {
                self.disks[disk].write(sector, content.clone(), false);
            }
        }
    }

    fn carry_out(&mut self, life: &mut Life, flying: &InFlight) -> Result<(), i32> {
        let op = &flying.op;
        let disk = &mut self.disks[life.disk[op.leg]];
        disk.completed += 1;
        let sectors = op.offset / SECTOR..(op.offset + u64::from(op.length)) / SECTOR;
        if let Buffer::Superblock {
            expected: Some(expected),
            ..
        }
        | Buffer::Expected(expected) = &op.buffer
            && disk
                .block(op.offset)
                .is_some_and(|found| found != **expected)
        {
            return Err(UNEXPECTED);
        }
        match op.kind {
            OpKind::Flush => disk.flush(flying.issued),
            OpKind::Write { fua } => {
                for (sector, content) in sectors.zip(&flying.payload) {
                    disk.write(sector, content.clone(), fua);
                }
            }
            OpKind::Read => {
                if sectors.clone().any(|sector| disk.bad.contains(&sector)) {
                    return Err(5);
                }
                if !life.mirror.awaits(op.id) {
                    return Ok(());
                }
                let contents = sectors.map(|sector| disk.read(sector));
                match &op.buffer {
                    Buffer::Client(id) => {
                        let (_, _, read) = life.reads.get_mut(id).expect("a read in flight");
                        for (own, content) in read.iter_mut().zip(contents) {
                            *own = Some(content.data());
                        }
                    }
                    Buffer::Own { task, part } => {
                        life.own.insert((*task, *part), contents.collect());
                    }
                    Buffer::Expected(_) => {}
                    Buffer::Block(_) | Buffer::Superblock { .. } | Buffer::None => {
                        panic!("a read without a buffer")
                    }
                }
            }
        }
        Ok(())
    }

    fn event(&mut self, life: &mut Life, event: Event, orders: &mut Vec<Order>) {
        let random = &mut self.random;
        let mut choose = |_: u64, _: u32, legs: LegSet| {
            let nth = random.random_range(0..legs.count());
            legs.iter().nth(nth).expect("counted")
        };
        life.mirror.handle(event, &mut choose, orders);
        self.obey(life, orders);
        while let Some((task, equal)) = life.compared.pop_front() {
            let random = &mut self.random;
            let mut choose = |_: u64, _: u32, legs: LegSet| {
                let nth = random.random_range(0..legs.count());
                legs.iter().nth(nth).expect("counted")
            };
            let event = Event::Compared { task, equal };
            life.mirror.handle(event, &mut choose, orders);
            self.obey(life, orders);
        }
    }

    /// Ends everything in flight. A silent leg is given up, unless it is needed.
    fn drain(&mut self, life: &mut Life, orders: &mut Vec<Order>) {
        loop {
            while self.complete(life, orders) {}
            let Trouble::Silent(leg) = life.trouble else {
                return;
            };
            self.event(life, Event::Lost { leg }, orders);
            if life.mirror.online().has(leg) || life.flying.iter().all(|one| one.op.leg != leg) {
                life.trouble = Trouble::None;
            } else if !self.complete(life, orders) {
                // Its pending ops may arrive at any time, or never.
                return;
            }
        }
    }

    // ---- Checks ----

    /// Reads everything through the mirror.
    fn read_back(&mut self, life: &mut Life, orders: &mut Vec<Order>) {
        let mut start = 0;
        while start < SECTORS {
            let sectors = self.random.random_range(1..=(SECTORS - start).min(32));
            let request = self.request(life, Access::Read, start, sectors);
            self.arrive(life, request, orders);
            start += sectors;
            if self.chance(30) {
                self.complete(life, orders);
            }
        }
    }

    /// Legs among which a queue may choose have the same content, except where a client's write is in flight.
    fn check_same(&self, life: &Life, request: Request, legs: LegSet) {
        let start = request.offset / SECTOR;
        for sector in start..start + u64::from(request.length) / SECTOR {
            let writes = |write: &Request| {
                let start = write.offset / SECTOR;
                (start..start + u64::from(write.length) / SECTOR).contains(&sector)
            };
            if life.writes.values().any(writes) {
                continue;
            }
            let at = DATA / SECTOR + sector;
            let disks = legs.iter().map(|leg| &self.disks[life.disk[leg]]);
            let readable = disks.filter(|disk| !disk.bad.contains(&at));
            let contents: HashSet<u64> = readable.map(|disk| disk.read(at).data()).collect();
            assert!(contents.len() < 2, "sector {sector} has {contents:?}");
        }
    }

    /// All legs in sync have the same content, if nothing is left to be copied.
    fn check_equal(&self, life: &Life) {
        if life.mirror.to_copy() > 0 || !life.flying.is_empty() {
            return;
        }
        let mut legs = life.mirror.in_sync().iter();
        let first = &self.disks[life.disk[legs.next().expect("one is in sync")]];
        for leg in legs {
            let disk = &self.disks[life.disk[leg]];
            for sector in (DATA / SECTOR..).take(SECTORS) {
                if first.bad.contains(&sector) || disk.bad.contains(&sector) {
                    continue;
                }
                let (one, two) = (first.read(sector).data(), disk.read(sector).data());
                assert_eq!(
                    one,
                    two,
                    "leg {leg} differs in sector {}",
                    sector - DATA / SECTOR
                );
            }
        }
    }

    /// After a crash, only these contents are possible: a sector is defined by the next read.
    fn after_crash(&mut self) {
        for expected in &mut self.expected {
            // Unflushed data may be lost.
            expected.acked = expected.writes[0];
            expected.written = false;
        }
    }
}

impl Life {
    fn mirror_idle(&self) -> bool {
        self.reads.is_empty()
            && self.writes.is_empty()
            && self.flushes.is_empty()
            && self.changes.is_empty()
    }
}

fn stored_in(disk: &Disk) -> Option<Superblock> {
    let copies = COPIES.map(|copy| disk.block(copy));
    let superblock = Superblock::newest([copies[0].as_ref(), copies[1].as_ref()]);
    superblock.ok().map(|(superblock, _)| superblock)
}

fn put(disk: &mut Disk, offset: u64, block: &[u8; BLOCK]) {
    for (sector, bytes) in (offset / SECTOR..).zip(block.chunks_exact(SECTOR as usize)) {
        let content = Content::Bytes(Rc::new(bytes.try_into().expect("a sector")));
        disk.durable.insert(sector, content);
    }
}

fn forget_before(writes: &mut VecDeque<u64>, id: u64) {
    while writes.front().is_some_and(|first| *first < id) && writes.len() > 1 {
        writes.pop_front();
    }
}

/// The bits of all regions of a write are durable on the leg.
fn check_log(disk: &Disk, op: &Op) {
    let Some(Content::Bytes(sector)) = disk.durable.get(&(LOG / SECTOR)) else {
        panic!("no log");
    };
    let start = op.offset - DATA;
    let end = start + u64::from(op.length);
    for region in start / GEOMETRY.region..end.div_ceil(GEOMETRY.region) {
        let bit = sector[16 + region as usize / 8] & (1 << (region % 8));
        assert_ne!(
            bit, 0,
            "a write to region {region} whose bit is not durable"
        );
    }
}

/// Several lives of one mirror.
fn case(seed: u64, epochs: bool) -> Counts {
    let mut world = World::new(seed, epochs);
    for _ in 0..world.random.random_range(2..8) {
        let mut orders = Vec::new();
        let Some(mut life) = world.start(&mut orders) else {
            break;
        };
        world.obey(&mut life, &mut orders);
        world.read_back(&mut life, &mut orders);
        if world.chance(50) {
            world.drain(&mut life, &mut orders);
        }
        world.work(&mut life, &mut orders);
        if world.chance(15) {
            world.stop(&mut life, &mut orders);
        }
        world.crash(life);
        world.after_crash();
        world.roll_back();
    }
    world.counts
}

impl World {
    /// Clients, failures and time, in random order.
    fn work(&mut self, life: &mut Life, orders: &mut Vec<Order>) {
        for _ in 0..self.random.random_range(0..250) {
            let legs = life.disk.len();
            match self.random.random_range(0..100) {
                0..30 if life.writes.len() + life.reads.len() + life.direct.len() < 12 => {
                    let request = self.random_request(life);
                    self.arrive(life, request, orders);
                }
                30..34 => self.tick(life, orders),
                34..40 => self.event(life, Event::Credit(16 << 10), orders),
                40 if !self.calm => {
                    let leg = self.random.random_range(0..legs);
                    let percent = [3, 30, 100][self.random.random_range(0..3)];
                    life.trouble = match self.random.random_range(0..4) {
                        0 => Trouble::Leg(leg, percent),
                        1 => Trouble::All(percent),
                        2 => Trouble::Silent(leg),
                        _ => Trouble::None,
                    };
                }
                41 if !self.calm => {
                    let leg = self.random.random_range(0..legs);
                    if let Some(disk) = self.disks.get_mut(life.disk[leg]) {
                        let sector = self.random.random_range(0..SECTORS as u64);
                        disk.bad.insert(DATA / SECTOR + sector);
                    }
                }
                42 => {
                    if let Trouble::Silent(leg) = life.trouble {
                        self.event(life, Event::Lost { leg }, orders);
                    }
                }
                43 if self.chance(20) => {
                    self.drain(life, orders);
                    self.check_equal(life);
                }
                44 if self.chance(20) => {
                    life.trouble = Trouble::None;
                    self.event(life, Event::Credit(1 << 20), orders);
                    self.drain(life, orders);
                    self.check_equal(life);
                    if self.calm {
                        self.scrub(life, orders);
                    }
                }
                45 => self.change(life, orders),
                46 if !self.calm && self.chance(60) => self.cut(life, orders),
                47 => self.copy_leg(),
                48 if !self.calm && self.chance(30) => self.replace(life, orders),
                49 => self.overwrite(life, orders),
                _ => {
                    self.complete(life, orders);
                }
            }
        }
    }

    /// A second has passed, sometimes for all that is in flight.
    fn tick(&mut self, life: &mut Life, orders: &mut Vec<Order>) {
        let now = self.time;
        self.event(life, Event::Tick, orders);
        if life.trouble != Trouble::None || !self.chance(50) {
            return;
        }
        self.drain(life, orders);
        if life.flying.is_empty() && !life.halted {
            self.noticed = self.noticed.max(now);
        }
    }

    /// The file of a leg is replaced by a copy of any moment.
    fn replace(&mut self, life: &mut Life, orders: &mut Vec<Order>) {
        let leg = self.random.random_range(0..life.disk.len());
        let disk = life.disk[leg];
        let member = life.mirror.members().any(|(member, _)| member == leg);
        if disk == usize::MAX || life.halted || !member {
            return;
        }
        if self.chance(50) {
            self.copy_leg();
        }
        let mut of_leg = self.copies.iter().filter(|(of, _, _)| *of == disk);
        let Some((_, _, copy)) = of_leg.next_back().cloned() else {
            return;
        };
        let in_sync = life.mirror.in_sync();
        life.trouble = Trouble::None;
        self.event(life, Event::Replaced { leg }, orders);
        if in_sync == LegSet::one(leg) {
            assert_eq!(life.mirror.in_sync(), in_sync, "the last leg in sync stays");
            return;
        }
        assert!(!life.mirror.online().has(leg), "a leg that was replaced");
        self.drain(life, orders);
        if !life.halted && stored_in(&copy).is_some() {
            life.replaced.insert(disk, copy);
            self.counts.replaced += 1;
        }
    }

    /// A leg is overwritten in place by a copy from before its last superblock.
    fn overwrite(&mut self, life: &mut Life, orders: &mut Vec<Order>) {
        if std::mem::take(&mut life.repairing) {
            self.drain(life, orders);
        }
        let leg = self.random.random_range(0..life.disk.len());
        let disk = life.disk[leg];
        let others = life.mirror.in_sync().without(LegSet::one(leg));
        let unknown = |one: &InFlight| {
            let unread = matches!(one.op.buffer, Buffer::Superblock { expected: None, .. });
            unread && one.op.leg == leg
        };
        let unknown = life.unknown || life.flying.iter().any(unknown);
        // Data read before the mirror checks the leg may be old.
        let rebuilt = |(leg, member): (usize, Member)| match member.state {
            LegState::Behind { copied } if life.mirror.online().has(leg) => {
                GEOMETRY.length - copied
            }
            _ => 0,
        };
        let rebuilt = life.mirror.members().map(rebuilt).max();
        let regions = life.mirror.to_copy() > rebuilt.unwrap_or(0);
        let read = !life.reads.is_empty() || !life.direct.is_empty() || regions;
        let online = life.mirror.online().has(leg);
        // The others stay.
        let stay = !others.is_empty() && life.changes.is_empty();
        if !stay || unknown || read || life.halted || !online {
            return;
        }
        let mut of_leg = self.copies.iter().filter(|(of, _, _)| *of == disk);
        let Some((_, _, copy)) = of_leg.next_back().cloned() else {
            return;
        };
        let differs = |offset: &u64| copy.block(*offset) != self.disks[disk].block(*offset);
        if !COPIES.iter().any(differs) || stored_in(&copy).is_none() {
            return;
        }
        let before = std::mem::replace(&mut self.disks[disk], copy);
        life.overwritten = Some(leg);
        life.trouble = Trouble::None;
        if self.chance(50) {
            let request = self.request(life, Access::Write { fua: true }, 0, 1);
            self.event(life, Event::Request(request), orders);
        }
        // A record that is in progress may overtake the first look.
        for _ in 0..2 {
            self.event(life, Event::Tick, orders);
            self.drain(life, orders);
        }
        life.overwritten = None;
        if life.halted {
            // Others had failed something before, so that it was the last one in sync.
            self.disks[disk] = before;
            return;
        }
        assert!(!life.mirror.online().has(leg), "a leg that was overwritten");
        // If it was dropped for another reason just before, its superblock is older than the others call it.
        let known = life.mirror.cause(leg) == Some(Cause::Overwritten);
        let mut members = life.mirror.members();
        let nothing = LegState::Behind { copied: 0 };
        let whole = members.all(|(member, one)| member != leg || !known || one.state == nothing);
        assert!(whole, "all of it is copied");
        drop(members);
        // It may have been the leg that was read.
        self.expected.iter_mut().for_each(|one| one.pinned = None);
        self.counts.overwritten += 1;
    }

    /// Makes a leg shorter, and longer again once that is recorded. If the mirror halts because no other leg accepts
    /// the record, the leg stays short.
    fn cut(&mut self, life: &mut Life, orders: &mut Vec<Order>) {
        let leg = self.random.random_range(0..life.disk.len());
        let others = life.mirror.in_sync().without(LegSet::one(leg));
        let in_use = life.flying.iter().any(|one| one.op.leg == leg)
            || life.direct.iter().any(|one| one.leg == leg);
        let member = life.mirror.members().any(|(member, _)| member == leg);
        if others.is_empty() || in_use || life.halted || !member {
            return;
        }
        let disk = life.disk[leg];
        if disk == usize::MAX {
            return;
        }
        self.cut_disk(disk);
        match self.random.random_range(0..4) {
            0..2 => life.trouble = Trouble::None,
            // The mirror halts.
            2 => life.trouble = Trouble::All(100),
            _ => {}
        }
        self.event(life, Event::Shortened { leg }, orders);
        self.drain(life, orders);
        if life.halted {
            self.short.insert(disk);
        }
        self.counts.cut += 1;
    }

    /// Legs that never failed do not differ.
    fn scrub(&mut self, life: &mut Life, orders: &mut Vec<Order>) {
        if life.mirror.to_copy() > 0 || life.mirror.in_sync().count() < 2 {
            return;
        }
        self.event(life, Event::Scrub { from: None }, orders);
        let request = self.random_request(life);
        self.event(life, Event::Request(request), orders);
        self.drain(life, orders);
        assert_eq!(
            life.scrubbed.take(),
            Some((0, 0)),
            "differences and failed reads"
        );
    }

    /// A clean stop replies to everything, and loses nothing that was acknowledged.
    fn stop(&mut self, life: &mut Life, orders: &mut Vec<Order>) {
        if let Trouble::Silent(leg) = life.trouble {
            self.event(life, Event::Lost { leg }, orders);
        }
        let halted = self.counts.halts;
        life.trouble = Trouble::None;
        life.stopping = true;
        let now = self.time;
        self.event(life, Event::Stop, orders);
        self.drain(life, orders);
        if life.flying.is_empty() && !life.halted {
            self.noticed = self.noticed.max(now);
        }
        assert!(life.stopped, "a stop ends: {:?}", life.flying);
        if halted > 0 || self.counts.errors > 0 {
            return;
        }
        self.counts.clean += 1;
        for expected in &mut self.expected {
            let acked = expected.acked;
            forget_before(&mut expected.writes, acked);
        }
        let blocks = life
            .mirror
            .online()
            .iter()
            .map(|leg| self.disks[life.disk[leg]].block(LOG));
        // A single leg keeps the marks of a crash until the next write. They mean nothing without another leg.
        let single = life.quiet && life.mirror.online().count() == 1;
        if life.mirror.redundant() && !single {
            for block in blocks {
                let block = block.expect("readable");
                assert!(
                    block[16..SECTOR as usize].iter().all(|byte| *byte == 0),
                    "all bits are clear"
                );
            }
        }
    }
}

/// Runs cases until there were this many crashes.
fn crashes(wanted: u64) {
    let mut total = Counts::default();
    if let Ok(seed) = std::env::var("CRASH_SEED") {
        case(seed.parse().expect("CRASH_SEED is a number"), true);
        return;
    }
    // Other cases than those of `make test-long`.
    let from = std::env::var("CRASH_FROM").unwrap_or_default();
    let mut seed = from.parse().unwrap_or(0);
    while total.crashes < wanted {
        let counts = std::panic::catch_unwind(|| case(seed, true));
        let Ok(counts) = counts else {
            panic!("case {seed} failed: run it alone with CRASH_SEED={seed}");
        };
        seed += 1;
        total.crashes += counts.crashes;
        total.drops += counts.drops;
        total.errors += counts.errors;
        total.split += counts.split;
        total.resyncs += counts.resyncs;
        total.halts += counts.halts;
        total.repairs += counts.repairs;
        total.clean += counts.clean;
        total.added += counts.added;
        total.removed += counts.removed;
        total.returned += counts.returned;
        total.direct += counts.direct;
        total.handed_over += counts.handed_over;
        total.cut += counts.cut;
        total.cut_away += counts.cut_away;
        total.short += counts.short;
        total.degraded += counts.degraded;
        total.restored += counts.restored;
        total.in_sync += counts.in_sync;
        total.refused += counts.refused;
        total.replaced += counts.replaced;
        total.overwritten += counts.overwritten;
        total.rolled_back += counts.rolled_back;
        total.abandoned += counts.abandoned;
    }
    println!("{seed} cases: {total:?}");
    // The simulation reaches the situations under test.
    for (what, count) in [
        ("dropped legs", total.drops),
        ("errors", total.errors),
        ("legs copied to", total.resyncs),
        ("repaired reads", total.repairs),
        ("clean stops", total.clean),
        ("legs added", total.added),
        ("legs removed", total.removed),
        ("legs taken back", total.returned),
        ("reads of queues", total.direct),
        ("reads that were handed over", total.handed_over),
        ("legs made shorter", total.cut),
        ("legs made shorter while they were away", total.cut_away),
        ("starts without a leg that is too short", total.short),
        ("starts without a leg in sync", total.degraded),
        ("legs restored from a copy", total.restored),
        (
            "legs in sync restored from a copy that are right",
            total.in_sync,
        ),
        (
            "legs in sync restored from a copy and refused",
            total.refused,
        ),
        ("legs whose file was replaced", total.replaced),
        ("legs that were overwritten in place", total.overwritten),
        ("mirrors restored to an older moment", total.rolled_back),
        ("legs of an abandoned history", total.abandoned),
    ] {
        assert!(count > wanted / 200, "{what}: only {count}");
    }
}

#[test]
fn no_acknowledged_and_flushed_write_is_lost_in_a_crash() {
    crashes(2_000);
}

#[test]
fn a_tick_while_the_first_write_waits_for_its_epoch_is_followed_by_a_record() {
    let mut world = World::new(1, true);
    let mut orders = Vec::new();
    let mut life = world.start(&mut orders).expect("legs in sync");
    world.drain(&mut life, &mut orders);
    let before = world.superblock(0).0.generation;
    let request = world.request(&mut life, Access::Write { fua: true }, 0, 1);
    world.event(&mut life, Event::Request(request), &mut orders);
    // Half of the record that opens the epoch is on the leg.
    while world.superblock(0).0.generation == before {
        assert!(world.complete(&mut life, &mut orders), "a record");
    }
    let copied = world.disks[0].copy();
    world.event(&mut life, Event::Tick, &mut orders);
    world.drain(&mut life, &mut orders);
    assert_eq!(world.expected[0].acked, request.id);
    world.disks[0] = copied;
    let all: Vec<usize> = (0..world.disks.len()).collect();
    let faults = assembly::assemble(&world.superblocks(&all), None);
    let faults = faults.expect_err("the copy lacks the write");
    assert!(
        matches!(faults[..], [Fault::Old { leg: 0, .. }]),
        "{faults:?}"
    );
}

#[test]
fn without_epochs_a_copy_is_read() {
    let found = (0..2_000).any(|seed| {
        let Err(panic) = std::panic::catch_unwind(|| case(seed, false)) else {
            return false;
        };
        let message = panic.downcast_ref::<String>();
        message.is_some_and(|message| message.contains(" has write "))
    });
    assert!(found, "the simulation restores copies that matter");
}

#[cfg(feature = "long")]
#[test]
fn no_acknowledged_and_flushed_write_is_lost_in_100_000_crashes() {
    crashes(100_000);
}
