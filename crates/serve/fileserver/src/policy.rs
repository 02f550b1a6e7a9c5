//! Dispatch policies: which requests of a batch a queue's thread processes inline, and which it hands over to the pool.
//!
//! Pure: no I/O, no clock, no threads. A [`Dispatcher`] gets descriptions of the requests of a batch, the number of
//! requests in flight and [`Estimates`] of service times. It returns a [`Division`]. The server and the tests run the
//! same code; the tests use virtual time and given distributions of service times.
//!
//! # The policy `adaptive`
//!
//! A hand-off costs about as much as a cached read. A queue's thread that waits for storage delays all other requests.
//! A pool saves this waiting. It does not save CPU time, which is the same in each thread, unless some processors are
//! used neither by the client nor by the queue's thread. Therefore:
//!
//! - Requests run inline if their smoothed service time, or the part that the pool could save, is at most the cost of a
//!   hand-off (measured when the pool starts).
//! - Of the others, the queue's thread keeps as many as it can process while pool threads wake up for other waiting
//!   requests. It hands over the rest.
//! - If the client has one request in flight at a time, no other request can wait, and a hand-off would only add
//!   latency. The request runs inline, unless it is so slow ([`ALONE_AT_MOST`]) that the gain is less than the loss if
//!   another request arrives. A client has more in flight if a request arrives before the current one was answered.
//! - Some requests of classes that would save little more than a hand-off run inline, so that an estimate raised by a
//!   busy host can fall again.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The assumed hand-off cost until it is measured, ns.
pub const HAND_OFF_NS: u64 = 16_000;
/// A lone request runs inline if it takes at most this many hand-offs. For a slower one, the hand-off adds at most 0.4
/// %.
const ALONE_AT_MOST: u64 = 250;
/// One in this many requests is tried inline ...
const TRIED: u32 = 32;
/// ... if its class takes at most this many hand-offs.
const TRIED_AT_MOST: u64 = 4;
/// Inline work of a batch stops after this many hand-offs, and the rest is divided again.
const INTERRUPTED_AFTER: u64 = 4;
/// A pool saves CPU time on hosts with at least this many processors: one for the client, one for the queue's thread,
/// and as many others.
const SPARE_CPUS: usize = 4;
/// The weight of a new value in an estimate is 1 / this.
const WEIGHT: u64 = 8;

/// Where requests run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// All in the thread of their queue.
    Inline,
    /// All in a pool of this many threads.
    Pool(u16),
    /// Batches of at most this many requests inline, larger ones in the pool.
    InlineOrPool(u16),
    /// The first requests of a batch inline, this many, and the rest in the pool.
    Threshold(u16),
    /// Where estimates say it is faster.
    Adaptive,
}

impl Policy {
    /// The number of pool threads, if `wanted` are requested.
    #[must_use]
    pub fn threads(self, wanted: Option<u16>) -> u16 {
        match self {
            Policy::Inline => 0,
            Policy::Pool(threads) => threads,
            // Only requests that wait reach the pool, and each needs a thread while it waits.
            Policy::Adaptive => wanted.unwrap_or(64),
            Policy::InlineOrPool(_) | Policy::Threshold(_) => wanted.unwrap_or(16),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Inline => f.write_str("inline"),
            Policy::Pool(threads) => write!(f, "pool:{threads}"),
            Policy::InlineOrPool(most) => write!(f, "inline-or-pool:{most}"),
            Policy::Threshold(most) => write!(f, "threshold:{most}"),
            Policy::Adaptive => f.write_str("adaptive"),
        }
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Policy, String> {
        let unknown = || {
            format!(
                "`{text}` is not a policy: use `inline`, `pool:N`, `inline-or-pool:N`, `threshold:N` or `adaptive`"
            )
        };
        let number = |digits: &str| match digits.parse::<u64>() {
            Ok(number @ 1..=1024) => Ok(number as u16),
            Err(_)
                if digits.is_empty() || digits.contains(|digit: char| !digit.is_ascii_digit()) =>
            {
                Err(unknown())
            }
            _ => Err(format!("the number of `{text}` is not between 1 and 1024")),
        };
        match text.split_once(':') {
            None if text == "inline" => Ok(Policy::Inline),
            None if text == "adaptive" => Ok(Policy::Adaptive),
            Some(("pool", digits)) => number(digits).map(Policy::Pool),
            Some(("inline-or-pool", digits)) => number(digits).map(Policy::InlineOrPool),
            Some(("threshold", digits)) => number(digits).map(Policy::Threshold),
            _ => Err(unknown()),
        }
    }
}

/// How a request can be processed without blocking the thread of its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It cannot.
    Blocks,
    /// By trying to read this many bytes from the page cache.
    Cached(u32),
    /// By a transfer that the kernel executes while the thread continues.
    Direct {
        /// A write.
        write: bool,
    },
}

/// Requests that are assumed to have similar service times: those with the same opcode and similar sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Class {
    index: u8,
    way: Way,
    /// Takes negligible time and must not wait behind others: `FORGET` and similar.
    instant: bool,
}

const CLASSES: usize = 256;

impl Class {
    /// The class of requests with this FUSE opcode and this many bytes of data.
    #[must_use]
    pub fn of(opcode: u32, bytes: u32) -> Class {
        use crate::request::opcode::{BATCH_FORGET, FORGET, INTERRUPT};
        let size = match bytes {
            0..=4_096 => 0,
            4_097..=32_768 => 1,
            32_769..=262_144 => 2,
            _ => 3,
        };
        Class {
            index: (opcode.min(63) * 4 + size) as u8,
            way: Way::Blocks,
            instant: matches!(opcode, FORGET | BATCH_FORGET | INTERRUPT),
        }
    }

    /// The same, for a file that can be read from the page cache without blocking.
    #[must_use]
    pub fn cached(self, bytes: u32) -> Class {
        Class {
            way: Way::Cached(bytes),
            ..self
        }
    }

    /// The same for direct I/O, whose time differs. `write`: it is a write.
    #[must_use]
    pub fn direct(self, write: bool) -> Class {
        Class {
            // No FUSE opcode from 47 on transfers data.
            index: self.index | 1 << 7,
            way: Way::Direct { write },
            ..self
        }
    }
}

/// Smoothed service times. All threads of a server share them.
#[derive(Debug)]
pub struct Estimates {
    hand_off_ns: u64,
    cpus: usize,
    /// 0: unknown.
    service_ns: [AtomicU64; CLASSES],
    /// The part in which the thread waited for storage or a lock. [`UNKNOWN`]: unknown.
    waited_ns: [AtomicU64; CLASSES],
    /// Queues that a request of the class blocks now.
    hung: [AtomicU32; CLASSES],
    /// The smoothed page cache hit rate of reads, as a fraction of [`ALL`].
    hits: AtomicU64,
    /// The smoothed time to copy one byte of them, 2^-20 ns.
    copying: AtomicU64,
}

/// All reads were hits.
const ALL: u64 = 1 << 10;
/// Reads try the page cache while at least this share hits: a failed try costs about an eighth of a hand-off.
const HITS: u64 = ALL / 8;
/// From this many bytes on, copying dominates the time of a hit.
const COPIED: u32 = 32 << 10;

const UNKNOWN: u64 = u64::MAX;
/// The assumed service time of a class while one of its requests hangs.
const HUNG_NS: u64 = 1 << 40;

impl Estimates {
    /// Estimates that know only the cost of a hand-off, ns, and the number of processors that the server may use.
    #[must_use]
    pub fn new(hand_off_ns: u64, cpus: usize) -> Estimates {
        Estimates {
            hand_off_ns: hand_off_ns.max(1),
            cpus,
            waited_ns: [const { AtomicU64::new(UNKNOWN) }; CLASSES],
            service_ns: [const { AtomicU64::new(0) }; CLASSES],
            hung: [const { AtomicU32::new(0) }; CLASSES],
            hits: ALL.into(),
            // 10 GB/s, until measured.
            copying: AtomicU64::new((1 << 20) / 10),
        }
    }

    /// Records whether the page cache had the data, and how long the copy took.
    pub fn tried(&self, hit: bool, bytes: u32, ns: u64) {
        let old = self.hits.load(Ordering::Relaxed);
        let now = if hit { ALL } else { 0 };
        // Rounding must not stop the share short of its limit.
        if old != now {
            let new = (old * (4 * WEIGHT - 1) + now) / (4 * WEIGHT);
            let new = if hit { new + 1 } else { new };
            self.hits.store(new.min(ALL), Ordering::Relaxed);
        }
        if hit && bytes >= COPIED {
            let old = self.copying.load(Ordering::Relaxed);
            let per_byte = ((ns << 20) / u64::from(bytes)).min(4 * old + 1);
            let new = (old * (WEIGHT - 1) + per_byte).div_ceil(WEIGHT);
            self.copying.store(new, Ordering::Relaxed);
        }
    }

    /// The estimated time to copy this many bytes, ns.
    fn copy_ns(&self, bytes: u32) -> u64 {
        (u64::from(bytes) * self.copying.load(Ordering::Relaxed)) >> 20
    }

    /// The cost of a hand-off, ns.
    #[must_use]
    pub fn hand_off_ns(&self) -> u64 {
        self.hand_off_ns
    }

    /// Marks a class as slow while one of its requests hangs in the thread of a queue.
    pub fn hangs(&self, class: Class, hangs: bool) {
        let count = &self.hung[usize::from(class.index)];
        match hangs {
            true => count.fetch_add(1, Ordering::Relaxed),
            false => count.fetch_sub(1, Ordering::Relaxed),
        };
    }

    fn is_hung(&self, class: Class) -> bool {
        self.hung[usize::from(class.index)].load(Ordering::Relaxed) > 0
    }

    /// The smoothed service time of a class, ns, if it is known.
    #[must_use]
    pub fn service_ns(&self, class: Class) -> Option<u64> {
        if self.is_hung(class) {
            return Some(HUNG_NS);
        }
        let ns = self.service_ns[usize::from(class.index)].load(Ordering::Relaxed);
        (ns > 0).then_some(ns)
    }

    /// Whether the waiting time of these requests matters: they take longer than a hand-off.
    #[must_use]
    pub fn asks_for_waits(&self, class: Class) -> bool {
        self.service_ns(class)
            .is_none_or(|ns| ns > self.hand_off_ns())
    }

    /// The time that a request of a class saves other requests if the pool processes it, ns, if known.
    #[must_use]
    pub fn saved_ns(&self, class: Class) -> Option<u64> {
        let service = self.service_ns(class)?;
        let waited = self.waited_ns[usize::from(class.index)].load(Ordering::Relaxed);
        match waited {
            _ if self.cpus >= SPARE_CPUS || self.is_hung(class) => Some(service),
            UNKNOWN => None,
            waited => Some(waited.min(service)),
        }
    }

    /// Records a service time and, if measured, how long the thread waited in it. A value much longer than before is
    /// reduced, because the thread may have been preempted.
    pub fn record(&self, class: Class, service_ns: u64, waited_ns: Option<u64>) {
        let at = usize::from(class.index);
        let known = self.service_ns[at].load(Ordering::Relaxed);
        let limit = self.hand_off_ns();
        // Fast requests are known to be fast. Recording them would bounce cache lines between threads.
        if known > 0 && known <= limit / 2 && service_ns <= limit / 2 {
            return;
        }
        self.smooth(&self.service_ns[at], 0, service_ns.max(1));
        if let Some(ns) = waited_ns {
            self.smooth(&self.waited_ns[at], UNKNOWN, ns);
        }
    }

    fn smooth(&self, place: &AtomicU64, unknown: u64, ns: u64) {
        let old = place.load(Ordering::Relaxed);
        // Of two concurrent updates, one may be lost.
        let new = match old {
            _ if old == unknown => ns,
            _ => {
                let limited = ns.min(4 * old.max(self.hand_off_ns()));
                // Rounded up, so that small steps also reach a larger value.
                (old * (WEIGHT - 1) + limited).div_ceil(WEIGHT)
            }
        };
        place.store(new, Ordering::Relaxed);
    }
}

/// Where the requests of a batch run, by their index in the batch. The pool's requests must be handed over before the
/// first of the others starts.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Division {
    /// In the pool, in order.
    pub pooled: Vec<usize>,
    /// In the kernel, as transfers that one system call starts.
    pub transferred: Vec<usize>,
    /// In the queue's thread if the page cache has their data, otherwise in the pool; in order.
    pub tried: Vec<usize>,
    /// In the queue's thread, in order.
    pub inline: Vec<usize>,
}

/// The inputs for dividing a batch.
#[derive(Debug, Default, Clone, Copy)]
pub struct Situation {
    /// Requests of this queue that were handed over and are unanswered.
    pub in_flight: usize,
    /// Requests of all queues that were handed over and have not started.
    pub waiting: usize,
    /// Requests of the batch arrived before the last inline request was answered.
    pub early: bool,
    /// The kernel executes writes of this queue. It completes them in the queue's thread, which must not wait for a
    /// file meanwhile: its lock holder may be waiting for these writes.
    pub writing: bool,
}

/// The policy of one queue, with its history.
#[derive(Debug, Clone)]
pub struct Dispatcher {
    policy: Policy,
    /// Requests of this queue that the client has in flight, smoothed, in sixteenths.
    concurrency: usize,
    tried: u32,
    tried_slow: u32,
}

impl Dispatcher {
    /// A policy without history.
    #[must_use]
    pub fn new(policy: Policy) -> Dispatcher {
        Dispatcher {
            policy,
            concurrency: 16,
            tried: 0,
            tried_slow: 0,
        }
    }

    /// Divides a batch.
    pub fn divide(
        &mut self,
        batch: &[Class],
        situation: Situation,
        estimates: &Estimates,
        division: &mut Division,
    ) {
        division.pooled.clear();
        division.transferred.clear();
        division.tried.clear();
        division.inline.clear();
        let counted = batch.iter().filter(|class| !class.instant).count();
        let alone = self.alone(counted, situation);
        let waits = |class: &&Class| {
            !class.instant && class.way == Way::Blocks && !self.fast(**class, estimates)
        };
        let mut kept = Kept {
            alone,
            others: (situation.waiting + batch.iter().filter(waits).count()) as u64,
            worked_ns: 0,
        };
        // Requests that must not wait come first.
        division
            .inline
            .extend((0..batch.len()).filter(|at| batch[*at].instant));
        let others = (0..batch.len()).filter(|at| !batch[*at].instant);
        for (before, at) in others.enumerate() {
            let class = batch[at];
            let place = |inline| match inline {
                true => Place::Inline,
                false => Place::Pooled,
            };
            let place = match self.policy {
                Policy::Inline => Place::Inline,
                Policy::Pool(_) => Place::Pooled,
                Policy::InlineOrPool(most) => place(counted <= most.into()),
                Policy::Threshold(most) => place(before < usize::from(most)),
                Policy::Adaptive => self.place(class, &mut kept, estimates),
            };
            match place {
                Place::Inline => division.inline.push(at),
                Place::Pooled => division.pooled.push(at),
                Place::Transferred => division.transferred.push(at),
                Place::Tried => division.tried.push(at),
            }
        }
        let write = |at: &usize| batch[*at].way == Way::Direct { write: true };
        if situation.writing || division.transferred.iter().any(write) {
            let (instant, waiting) = (division.inline.drain(..)).partition(|at| batch[*at].instant);
            division.inline = instant;
            division.pooled.extend::<Vec<usize>>(waiting);
        }
    }

    /// Whether to divide the rest of the inline work again: `worked_ns` were spent so far, and the next request is
    /// slow.
    #[must_use]
    pub fn interrupted(&self, worked_ns: u64, next: Class, estimates: &Estimates) -> bool {
        let long = worked_ns > INTERRUPTED_AFTER * estimates.hand_off_ns();
        self.policy == Policy::Adaptive && long && !next.instant && !self.fast(next, estimates)
    }

    /// Whether the client has one request in flight at a time.
    fn alone(&mut self, counted: usize, situation: Situation) -> bool {
        if counted == 0 {
            return false;
        }
        let now = (counted + situation.in_flight + usize::from(situation.early)).min(1024);
        self.concurrency = (self.concurrency * 7 + now * 16) / 8;
        now == 1 && self.concurrency < 20
    }

    /// Whether requests save at most the cost of a hand-off.
    fn fast(&self, class: Class, estimates: &Estimates) -> bool {
        let little = |ns: Option<u64>| ns.is_some_and(|ns| ns <= estimates.hand_off_ns());
        little(estimates.service_ns(class)) || little(estimates.saved_ns(class))
    }

    /// Where `adaptive` runs a request.
    fn place(&mut self, class: Class, kept: &mut Kept, estimates: &Estimates) -> Place {
        let service = estimates.service_ns(class);
        let hand_off = estimates.hand_off_ns();
        // Another request that arrives meanwhile would not wait long.
        let little = service.is_none_or(|ns| ns <= ALONE_AT_MOST * hand_off);
        match class.way {
            Way::Cached(_) | Way::Direct { .. } if kept.alone && little => Place::Inline,
            Way::Cached(bytes) => {
                let hits = estimates.hits.load(Ordering::Relaxed) >= HITS;
                // Spare processors do long copies.
                let long = estimates.cpus >= SPARE_CPUS
                    && estimates.copy_ns(bytes) > INTERRUPTED_AFTER * hand_off;
                match !long && (hits || self.tries()) {
                    true => Place::Tried,
                    false => Place::Pooled,
                }
            }
            // The kernel may wait for storage when a transfer starts, although it should not.
            Way::Direct { .. } if estimates.is_hung(class) => Place::Pooled,
            Way::Direct { .. } => {
                // Only inline work measures how long it holds the thread.
                let cheap = service.is_none_or(|ns| ns <= TRIED_AT_MOST * hand_off);
                let tries = |own: &mut Dispatcher| match cheap {
                    true => own.tries(),
                    false => own.tries_slow(),
                };
                match self.fast(class, estimates) || tries(self) {
                    true => Place::Inline,
                    false => Place::Transferred,
                }
            }
            Way::Blocks => match self.keeps(class, kept, estimates) {
                true => Place::Inline,
                false => Place::Pooled,
            },
        }
    }

    /// Whether to try something that probably does not pay.
    fn tries(&mut self) -> bool {
        self.tried = (self.tried + 1) % TRIED;
        self.tried == 0
    }

    /// The same, for something that costs more if it does not pay.
    fn tries_slow(&mut self) -> bool {
        self.tried_slow = (self.tried_slow + 1) % (TRIED * TRIED);
        self.tried_slow == 0
    }

    fn keeps(&mut self, class: Class, kept: &mut Kept, estimates: &Estimates) -> bool {
        if self.fast(class, estimates) {
            return true;
        }
        kept.others -= 1;
        let hand_off = estimates.hand_off_ns();
        let Some(service) = estimates.service_ns(class) else {
            return kept.alone;
        };
        if kept.alone && service <= ALONE_AT_MOST * hand_off {
            return true;
        }
        if kept.worked_ns + service <= kept.others * hand_off {
            kept.worked_ns += service;
            return true;
        }
        service <= TRIED_AT_MOST * hand_off && self.tries()
    }
}

/// Where one request runs, as in [`Division`].
#[derive(Debug, Clone, Copy)]
enum Place {
    Inline,
    Pooled,
    Transferred,
    Tried,
}

/// The state of `adaptive` within a batch.
#[derive(Debug)]
struct Kept {
    /// The client has one request in flight at a time.
    alone: bool,
    /// Requests that wait for a pool thread or may have to, including those of this batch that are slow and not yet
    /// divided.
    others: u64,
    /// The part of them that the queue's thread processes, ns.
    worked_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::opcode::{FORGET, LOOKUP, READ, WRITE};

    fn divided(policy: &str, batch: &[Class], in_flight: usize) -> (Vec<usize>, Vec<usize>) {
        let mut division = Division::default();
        let estimates = Estimates::new(HAND_OFF_NS, 2);
        let mut dispatcher = Dispatcher::new(policy.parse().unwrap());
        let situation = Situation {
            in_flight,
            ..Situation::default()
        };
        dispatcher.divide(batch, situation, &estimates, &mut division);
        (division.pooled, division.inline)
    }

    #[test]
    fn the_fixed_policies_count_requests() {
        let read = Class::of(READ, 4096);
        let four = [read; 4];
        assert_eq!(divided("inline", &four, 9), (vec![], vec![0, 1, 2, 3]));
        assert_eq!(divided("pool:2", &four, 0), (vec![0, 1, 2, 3], vec![]));
        assert_eq!(
            divided("inline-or-pool:4", &four, 9),
            (vec![], vec![0, 1, 2, 3])
        );
        assert_eq!(
            divided("inline-or-pool:3", &four, 0),
            (vec![0, 1, 2, 3], vec![])
        );
        assert_eq!(divided("threshold:3", &four, 0), (vec![3], vec![0, 1, 2]));
    }

    #[test]
    fn forgotten_nodes_never_wait_and_do_not_count() {
        let (read, forget) = (Class::of(READ, 4096), Class::of(FORGET, 0));
        let batch = [forget, read, forget, read];
        assert_eq!(divided("pool:2", &batch, 9), (vec![1, 3], vec![0, 2]));
        assert_eq!(
            divided("inline-or-pool:2", &batch, 0),
            (vec![], vec![0, 2, 1, 3])
        );
        assert_eq!(divided("threshold:1", &batch, 0), (vec![3], vec![0, 2, 1]));
    }

    #[test]
    fn policies_are_read_as_they_are_written() {
        for text in [
            "inline",
            "pool:16",
            "inline-or-pool:3",
            "threshold:1",
            "adaptive",
        ] {
            assert_eq!(text.parse::<Policy>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "pool",
            "pool:",
            "pool:0",
            "pool:1025",
            "pool:-1",
            "inline:3",
            "threshold:x",
            "fast",
        ] {
            let error = text.parse::<Policy>().unwrap_err();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn adaptive_hands_over_what_is_slow_and_works_what_is_fast() {
        let (read, write) = (Class::of(READ, 4096), Class::of(WRITE, 4096));
        let estimates = Estimates::new(16_000, 2);
        for _ in 0..200 {
            estimates.record(read, 5_000, Some(5_000 - 3_000));
            estimates.record(write, 900_000, Some(900_000 - 3_000));
        }
        let mut division = Division::default();
        let mut dispatcher = Dispatcher::new(Policy::Adaptive);
        dispatcher.divide(
            &[read, write, read, write],
            Situation::default(),
            &estimates,
            &mut division,
        );
        assert_eq!(
            (&division.pooled[..], &division.inline[..]),
            (&[1, 3][..], &[0, 2][..])
        );
        // A class never seen before may be slow.
        dispatcher.divide(
            &[Class::of(LOOKUP, 0), read],
            Situation::default(),
            &estimates,
            &mut division,
        );
        assert_eq!(division.pooled, [0]);
    }

    #[test]
    fn adaptive_works_a_single_request_inline_unless_it_is_very_slow() {
        let read = Class::of(READ, 4096);
        for (service_ns, inline) in [(2_000_000, true), (20_000_000, false)] {
            let estimates = Estimates::new(16_000, 2);
            (0..500).for_each(|_| estimates.record(read, service_ns, Some(service_ns)));
            let mut division = Division::default();
            let mut dispatcher = Dispatcher::new(Policy::Adaptive);
            dispatcher.divide(&[read], Situation::default(), &estimates, &mut division);
            assert_eq!(division.inline.len(), usize::from(inline), "{service_ns}");
            // A client that had more in flight a moment ago.
            let busy = Situation {
                in_flight: 15,
                ..Situation::default()
            };
            dispatcher.divide(&[read], busy, &estimates, &mut division);
            dispatcher.divide(&[read], Situation::default(), &estimates, &mut division);
            assert_eq!(division.pooled, [0]);
        }
    }

    #[test]
    fn long_computations_are_handed_over_only_where_processors_are_spare() {
        let read = Class::of(READ, 1 << 20);
        for (cpus, pooled) in [(2, vec![]), (8, vec![0, 1, 2, 3])] {
            let estimates = Estimates::new(16_000, cpus);
            (0..100).for_each(|_| estimates.record(read, 150_000, Some(0)));
            let mut division = Division::default();
            let mut dispatcher = Dispatcher::new(Policy::Adaptive);
            dispatcher.divide(&[read; 4], Situation::default(), &estimates, &mut division);
            assert_eq!(division.pooled, pooled, "{cpus} processors");
        }
    }

    /// What `adaptive` transfers, tries, hands over and runs inline of a batch, for a client with several requests in
    /// flight.
    fn ways(batch: &[Class], estimates: &Estimates) -> [Vec<usize>; 4] {
        let mut division = Division::default();
        let mut dispatcher = Dispatcher::new(Policy::Adaptive);
        let busy = Situation {
            in_flight: 8,
            ..Situation::default()
        };
        dispatcher.divide(batch, busy, estimates, &mut division);
        [
            division.transferred,
            division.tried,
            division.pooled,
            division.inline,
        ]
    }

    #[test]
    fn adaptive_transfers_direct_reads_and_tries_reads_in_the_cache() {
        let (read, write) = (Class::of(READ, 4096), Class::of(WRITE, 4096));
        let direct = read.direct(false);
        let large = Class::of(READ, 8192).direct(false);
        let batch = [direct, read.cached(4096), write, large];
        let estimates = Estimates::new(16_000, 2);
        let divided = [vec![0, 3], vec![1], vec![2], vec![]];
        assert_eq!(ways(&batch, &estimates), divided);
        // Some are measured; fewer if they are known to wait for long.
        let unknown = vec![direct; 4 * TRIED as usize];
        assert_eq!(ways(&unknown, &estimates)[3].len(), 4);
        estimates.record(direct, 90_000, Some(80_000));
        let slow = vec![direct; 4 * (TRIED * TRIED) as usize];
        assert_eq!(ways(&slow, &estimates)[3].len(), 4);
        // Direct I/O on a file system in memory takes no longer than a system call.
        (0..50).for_each(|_| estimates.record(direct, 5_000, Some(0)));
        let divided = [vec![3], vec![1], vec![2], vec![0]];
        assert_eq!(ways(&batch, &estimates), divided);
        // The time of direct I/O differs from that of cached reads.
        assert_eq!(estimates.service_ns(read), None);
        // A client with one request in flight gains nothing from either.
        let mut division = Division::default();
        for class in [direct, read.cached(4096)] {
            let mut dispatcher = Dispatcher::new(Policy::Adaptive);
            dispatcher.divide(&[class], Situation::default(), &estimates, &mut division);
            assert_eq!(division.inline, [0], "{class:?}");
        }
    }

    #[test]
    fn a_queue_with_transfers_to_files_in_flight_works_nothing_that_could_wait_for_them() {
        let (read, write) = (Class::of(READ, 4096), Class::of(WRITE, 4096).direct(true));
        let forget = Class::of(FORGET, 0);
        let estimates = Estimates::new(16_000, 2);
        (0..50).for_each(|_| estimates.record(read, 5_000, Some(0)));
        let batch = [read, write, read.cached(4096), forget];
        let divided = [vec![1], vec![2], vec![0], vec![3]];
        assert_eq!(ways(&batch, &estimates), divided);
        // Alone, but not the only one.
        let mut division = Division::default();
        let mut dispatcher = Dispatcher::new(Policy::Adaptive);
        let writing = |writing| Situation {
            writing,
            ..Situation::default()
        };
        for (situation, inline) in [(writing(true), 0), (writing(false), 1)] {
            dispatcher.divide(&[read], situation, &estimates, &mut division);
            assert_eq!(division.inline.len(), inline);
            assert_eq!(division.pooled.len(), 1 - inline);
        }
        // Fast ones run inline, and then nothing waits.
        (0..50).for_each(|_| estimates.record(write, 5_000, Some(0)));
        assert_eq!(ways(&batch, &estimates)[3], [3, 0, 1]);
    }

    #[test]
    fn reads_are_tried_in_the_cache_while_some_are_there_and_again_at_times() {
        let estimates = Estimates::new(16_000, 2);
        let batch = [Class::of(READ, 4096).cached(4096); 64];
        let tried = |estimates: &Estimates| ways(&batch, estimates)[1].len();
        assert_eq!(tried(&estimates), 64);
        (0..200).for_each(|_| estimates.tried(false, 4096, 1_000));
        assert_eq!(tried(&estimates), 64 / TRIED as usize);
        (0..20).for_each(|_| estimates.tried(true, 4096, 1_000));
        assert_eq!(tried(&estimates), 64);
    }

    #[test]
    fn long_copies_are_handed_over_where_processors_are_spare() {
        let batch = [4096, 64 << 10, 1 << 20].map(|bytes| Class::of(READ, bytes).cached(bytes));
        for (cpus, per_mib, tried) in [(8, 100_000, 2), (2, 100_000, 3), (8, 20_000, 3)] {
            let estimates = Estimates::new(16_000, cpus);
            (0..50).for_each(|_| estimates.tried(true, 1 << 20, per_mib));
            assert_eq!(ways(&batch, &estimates)[1].len(), tried, "{cpus} {per_mib}");
        }
    }

    #[test]
    fn while_a_request_hangs_the_queue_works_none_of_its_kind() {
        let estimates = Estimates::new(16_000, 2);
        let (read, large) = (Class::of(READ, 4096), Class::of(READ, 8192));
        let direct = read.direct(false);
        for class in [read, large, direct] {
            (0..50).for_each(|_| estimates.record(class, 5_000, Some(0)));
        }
        let mut batch = vec![direct; 4 * (TRIED * TRIED) as usize];
        batch.extend([read, large]);
        assert_eq!(ways(&batch, &estimates)[3].len(), batch.len());
        for class in [read, read, direct] {
            estimates.hangs(class, true);
        }
        let [transferred, _, pooled, inline] = ways(&batch, &estimates);
        assert_eq!((transferred.len(), pooled.len()), (0, batch.len() - 1));
        assert_eq!(inline, [batch.len() - 1]);
        // A lone request is not inlined either.
        let mut division = Division::default();
        let mut alone = |estimates: &Estimates| {
            let mut dispatcher = Dispatcher::new(Policy::Adaptive);
            dispatcher.divide(&[read], Situation::default(), estimates, &mut division);
            division.inline.len()
        };
        assert_eq!(alone(&estimates), 0);
        // One of two has ended.
        estimates.hangs(read, false);
        assert_eq!(alone(&estimates), 0);
        estimates.hangs(read, false);
        assert_eq!(alone(&estimates), 1);
    }

    #[test]
    fn one_preempted_request_does_not_make_a_class_slow_but_a_slower_device_does() {
        let read = Class::of(READ, 4096);
        let estimates = Estimates::new(16_000, 2);
        (0..100).for_each(|_| estimates.record(read, 5_000, Some(5_000 - 3_000)));
        estimates.record(read, 50_000_000, Some(50_000_000 - 3_000));
        assert!(estimates.service_ns(read).unwrap() < 16_000);
        (0..60).for_each(|_| estimates.record(read, 2_000_000, Some(2_000_000 - 3_000)));
        assert!(estimates.service_ns(read).unwrap() > 1_500_000);
        (0..100).for_each(|_| estimates.record(read, 5_000, Some(5_000 - 3_000)));
        assert!(estimates.service_ns(read).unwrap() < 16_000);
    }
}
