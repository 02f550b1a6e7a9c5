//! The lock-free state that the threads of a mirror share. The thread that runs the state machine writes, and does
//! everything but reads; the thread of a queue may read from a leg itself.
//!
//! # Invariants
//!
//! - *Reads of queues.* A queue reads from a leg that [`Published::readable`] returned after the request arrived. Then
//!   the read returns all earlier acknowledged data: a leg that misses a write is taken out before the write is
//!   acknowledged, and a region in which legs may differ is marked before the client learns of it.
//! - *Order.* When a region is copied to all legs but a dropped one, no thread may see the region as equal and the leg
//!   as in sync. The state machine takes legs out, marks regions, unmarks regions, and lets legs in, in this order. A
//!   queue reads regions first and then legs.
//! - *Places.* At most [`QueueSettings::active`](crate::QueueSettings) commands of all queues together are issued to a
//!   leg. A queue that ends a command while other queues wait passes its place on to the next of them, in turn, and
//!   wakes it. No place is free while a queue waits.
//! - *Wake-ups.* Messages stored before [`Alarm::raise`] are seen by the mirror's thread when it checks after
//!   [`Alarm::listen`], or the thread is woken after that.
//!
//! `shared/interleavings.rs` checks these with all interleavings of few preemptions and all values that the memory
//! orderings permit (`make interleavings`).

use std::sync::Arc;

use crate::atomics::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence, yield_now};
use crate::superblock::{Geometry, MAX_LEGS};
use crate::{LegQueue, LegSet, LegView, Marks, Totals};

/// Queues of a mirror at most, with that of the state machine.
pub const MAX_QUEUES: usize = 64;

/// Legs of a board. A checker of interleavings needs one, and its time grows with them.
const LEGS: usize = if cfg!(all(test, loom)) { 1 } else { MAX_LEGS };

/// The mirror halted, or stops: no new reads.
const CLOSED: u32 = 1 << 31;

/// The legs and regions as the state machine has them.
#[derive(Debug)]
pub struct Published {
    geometry: Geometry,
    /// Legs in sync, and [`CLOSED`].
    legs: AtomicU32,
    /// A bit for each region in which legs may differ.
    regions: Box<[AtomicU64]>,
}

impl Published {
    pub(crate) fn new(geometry: Geometry) -> Published {
        let words = geometry.regions().div_ceil(64);
        Published {
            geometry,
            legs: AtomicU32::new(CLOSED),
            regions: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Legs that may serve a read of this range, all with the same content. Empty: the state machine has to decide.
    pub fn readable(&self, offset: u64, length: u32) -> LegSet {
        let (unit, bytes) = (u64::from(self.geometry.unit), u64::from(length));
        let Some(end) = offset.checked_add(bytes) else {
            return LegSet::NONE;
        };
        let aligned = offset.is_multiple_of(unit) && bytes.is_multiple_of(unit);
        if !aligned || length == 0 || end > self.geometry.length {
            return LegSet::NONE;
        }
        let mut regions = offset / self.geometry.region..end.div_ceil(self.geometry.region);
        // Before the legs: see the module.
        if regions.any(|region| self.differs(region)) {
            return LegSet::NONE;
        }
        match self.legs.load(Ordering::Acquire) {
            legs if legs & CLOSED != 0 => LegSet::NONE,
            legs => LegSet::from_bits(legs as u16),
        }
    }

    fn differs(&self, region: u64) -> bool {
        let word = &self.regions[(region / 64) as usize];
        word.load(Ordering::Acquire) & (1 << (region % 64)) != 0
    }

    /// Legs that serve reads. Reads that have started also complete if the mirror halted or stops.
    pub fn in_sync(&self) -> LegSet {
        LegSet::from_bits(self.legs.load(Ordering::Acquire) as u16)
    }

    /// Whether these legs are published.
    pub(crate) fn has(&self, legs: LegSet, closed: bool) -> bool {
        self.legs.load(Ordering::Relaxed) == word(legs, closed)
    }

    /// Publishes the legs in sync, whether no more reads begin, and regions with whether legs may differ in them. For
    /// one thread.
    pub(crate) fn publish(
        &self,
        legs: LegSet,
        closed: bool,
        regions: impl Iterator<Item = (usize, bool)> + Clone,
    ) {
        let stay = word(legs.and(self.in_sync()), closed);
        self.legs.store(stay, Ordering::Release);
        for marking in [true, false] {
            for (region, _) in regions.clone().filter(|(_, differs)| *differs == marking) {
                let (word, bit) = (&self.regions[region / 64], 1 << (region % 64));
                match marking {
                    true => word.fetch_or(bit, Ordering::Release),
                    false => word.fetch_and(!bit, Ordering::Release),
                };
            }
        }
        self.legs.store(word(legs, closed), Ordering::Release);
    }
}

fn word(legs: LegSet, closed: bool) -> u32 {
    u32::from(legs.bits()) | if closed { CLOSED } else { 0 }
}

/// Avoids waking a thread that will check anyway. The thread listens, then checks for messages, and waits. When woken,
/// it mutes the alarm until it listens again.
#[derive(Debug)]
pub struct Alarm(AtomicBool);

impl Default for Alarm {
    fn default() -> Alarm {
        Alarm(AtomicBool::new(false))
    }
}

impl Alarm {
    /// Signals a message. Returns whether the thread must be woken.
    pub fn raise(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Called by the thread: messages stored after its next check wake it.
    pub fn listen(&self) {
        self.0.swap(false, Ordering::AcqRel);
    }

    /// Called by the thread: it need not be woken.
    pub fn mute(&self) {
        // With a store, the thread would not see messages stored before the raises that it overwrites.
        self.0.swap(true, Ordering::AcqRel);
    }
}

/// Places and counters of all legs, for the policies of all queues.
#[derive(Debug)]
pub struct Board {
    active: u32,
    legs: Vec<BoardLeg>,
}

#[derive(Debug)]
struct BoardLeg {
    marks: Arc<Marks>,
    /// Places that are taken or were passed on.
    taken: AtomicU32,
    /// A bit for each queue that waits for a place.
    waiting: AtomicU64,
    queues: Box<[Cell]>,
}

/// The counters of one queue at a leg. Only that queue writes them, except for the places.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Cell {
    /// Places that were passed on to it.
    granted: AtomicU32,
    /// How often it began to wait, less how often that has ended. Only for this queue.
    requests: AtomicU32,
    pending: AtomicU32,
    queued: AtomicU32,
    moves: AtomicU32,
    commands: AtomicU32,
    pending_bytes: AtomicU64,
    queued_bytes: AtomicU64,
}

impl Board {
    /// For this number of queues, at most [`MAX_QUEUES`], and of commands that are issued to a leg at a time.
    pub fn new(queues: usize, active: u32) -> Board {
        assert!((1..=MAX_QUEUES).contains(&queues), "number of queues");
        let leg = |_| BoardLeg {
            marks: Arc::default(),
            taken: AtomicU32::new(0),
            waiting: AtomicU64::new(0),
            queues: (0..queues).map(|_| Cell::default()).collect(),
        };
        Board {
            active,
            legs: (0..LEGS).map(leg).collect(),
        }
    }

    /// Number of queues.
    pub fn queues(&self) -> usize {
        self.legs[0].queues.len()
    }

    /// The state shared by the queues of a leg, for [`LegQueue::sharing`].
    pub fn marks(&self, leg: usize) -> Arc<Marks> {
        Arc::clone(&self.legs[leg].marks)
    }

    /// Takes a place for a command. `false`: none is free, and the queue will be woken when it gets one.
    pub fn take(&self, queue: usize, leg: usize) -> bool {
        if self.take_granted(queue, leg) || self.take_free(leg) {
            return true;
        }
        let (one, bit) = (&self.legs[leg], 1 << queue);
        let requests = &one.queues[queue].requests;
        if one.waiting.fetch_or(bit, Ordering::SeqCst) & bit == 0 {
            requests.fetch_add(1, Ordering::Relaxed);
        }
        // A place may have become free before the bit was seen: the other side is in `give_back`.
        fence(Ordering::SeqCst);
        if !self.take_free(leg) {
            return self.take_granted(queue, leg);
        }
        // If the bit is gone, a place was also passed on to us. It is used next, or given back.
        if one.waiting.fetch_and(!bit, Ordering::SeqCst) & bit != 0 {
            requests.fetch_sub(1, Ordering::Relaxed);
        }
        true
    }

    /// Takes a place that was passed on to the queue.
    pub fn take_granted(&self, queue: usize, leg: usize) -> bool {
        let cell = &self.legs[leg].queues[queue];
        if cell.granted.load(Ordering::Acquire) == 0 {
            return false;
        }
        cell.granted.fetch_sub(1, Ordering::SeqCst);
        cell.requests.fetch_sub(1, Ordering::Relaxed);
        true
    }

    fn take_free(&self, leg: usize) -> bool {
        let more = |taken: u32| (taken < self.active).then_some(taken + 1);
        let taken = &self.legs[leg].taken;
        (taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more)).is_ok()
    }

    /// Gives back a place, or passes it on. Returns the queue that must be woken, which may be this one.
    pub fn give_back(&self, queue: usize, leg: usize) -> Option<usize> {
        let one = &self.legs[leg];
        loop {
            let waiting = one.waiting.load(Ordering::SeqCst);
            if waiting != 0 {
                let after = waiting & (u64::MAX << queue) & !(1 << queue);
                let next = if after == 0 { waiting } else { after }.trailing_zeros() as usize;
                let bit = 1 << next;
                if one.waiting.fetch_and(!bit, Ordering::SeqCst) & bit != 0 {
                    one.queues[next].granted.fetch_add(1, Ordering::SeqCst);
                    return Some(next);
                }
                continue;
            }
            one.taken.fetch_sub(1, Ordering::SeqCst);
            // A queue may have begun to wait before the place was free.
            fence(Ordering::SeqCst);
            if one.waiting.load(Ordering::SeqCst) == 0 || !self.take_free(leg) {
                return None;
            }
        }
    }

    /// Removes a queue without commands in flight. Places that other queues passed on to it go to the next waiting
    /// queues; `wake` is called for each of them.
    pub fn leave(&self, queue: usize, mut wake: impl FnMut(usize)) {
        let bit = 1 << queue;
        for (leg, one) in self.legs.iter().enumerate() {
            let requests = &one.queues[queue].requests;
            if one.waiting.fetch_and(!bit, Ordering::SeqCst) & bit != 0 {
                requests.fetch_sub(1, Ordering::Relaxed);
            }
            while requests.load(Ordering::Relaxed) > 0 {
                if !self.take_granted(queue, leg) {
                    // Another thread has taken the bit and passes on its place now.
                    yield_now();
                } else if let Some(next) = self.give_back(queue, leg) {
                    wake(next);
                }
            }
            self.count(queue, leg, &LegView::default());
        }
    }

    /// Publishes the counters of a queue at a leg.
    pub fn counted(&self, queue: usize, leg: usize, own: &LegQueue) {
        self.count(queue, leg, &own.view(true, true));
    }

    fn count(&self, queue: usize, leg: usize, view: &LegView) {
        let cell = &self.legs[leg].queues[queue];
        cell.pending.store(view.pending, Ordering::Relaxed);
        cell.queued.store(view.queued, Ordering::Relaxed);
        cell.moves.store(view.moves, Ordering::Relaxed);
        // After it, nothing of this queue is in flight: see `Board::commands`.
        cell.commands.store(view.commands, Ordering::Release);
        let (pending, queued) = (view.pending_bytes, view.queued_bytes);
        cell.pending_bytes.store(pending, Ordering::Relaxed);
        cell.queued_bytes.store(queued, Ordering::Relaxed);
    }

    /// Commands that all queues but that of the state machine, 0, have issued to a leg.
    pub fn commands_of_others(&self, leg: usize) -> u32 {
        let others = self.legs[leg].queues.iter().skip(1);
        others
            .map(|cell| cell.commands.load(Ordering::Acquire))
            .sum()
    }

    /// The commands of all queues on all legs so far.
    pub fn totals(&self) -> Totals {
        self.legs.iter().map(|leg| leg.marks.totals()).sum()
    }

    /// A policy's view of a leg.
    pub fn view(&self, leg: usize, readable: bool, rotational: bool) -> LegView {
        let one = &self.legs[leg];
        let mut view = LegView {
            readable,
            rotational,
            ..one.marks.view()
        };
        for cell in &one.queues {
            view.pending += cell.pending.load(Ordering::Relaxed);
            view.queued += cell.queued.load(Ordering::Relaxed);
            view.moves += cell.moves.load(Ordering::Relaxed);
            view.commands += cell.commands.load(Ordering::Relaxed);
            view.pending_bytes += cell.pending_bytes.load(Ordering::Relaxed);
            view.queued_bytes += cell.queued_bytes.load(Ordering::Relaxed);
        }
        view
    }
}

#[cfg(test)]
fn legs(numbers: &[usize]) -> LegSet {
    let mut legs = LegSet::NONE;
    numbers.iter().for_each(|leg| legs.add(*leg));
    legs
}

#[cfg(all(test, loom))]
mod interleavings;
#[cfg(all(test, not(loom)))]
mod tests;
