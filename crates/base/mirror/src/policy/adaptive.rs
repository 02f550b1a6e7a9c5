//! Our own policy.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::superblock::MAX_LEGS;

use super::{LegView, PolicyKind, ReadPolicy, ReadRequest, least, readable};

/// Each leg stays in a part of the mirror while all legs are busy. As soon as one has little work, reads go to the leg
/// that ends them first.
///
/// The leg with the smallest sum of these costs serves the read. A cost of 1 is the time of the read alone on the
/// fastest leg.
///
/// - *Load*: −[`Adaptive::LOAD`] / √t, where t is the expected time until the leg has ended the read, from the work in
///   its queue and its costs of a move and of a byte. A leg without work is preferred to all
///   others. The more work all legs have, the less a difference costs: it then no longer reduces the throughput.
/// - *Movement*, on rotating legs: [`Adaptive::DISTANCE`] · √(distance to the centre of the leg / length of the range
///   in use). The centre is a moving average of the offsets that the leg served, so that legs divide the range in use
///   among them, and busy parts of it are divided more finely. On all legs, a read that continues the last one of the
///   leg has −[`Adaptive::CONTINUES`]. While a leg is idle, distances do not count, and a continuing read saves its
///   real cost: 1. In between, both are weighted by 1 − e^(−w/[`Adaptive::IDLE`]), where w is the work of the leg that
///   ends the read first.
///
/// The costs of a leg are learned from the time between two ends ([`LegView::move_ns`]). With few requests in flight, a
/// leg that serves several at a time is underestimated: its latency is taken for its rate. With an average of d
/// requests, including the new one, the expected time is therefore multiplied by d / (d + 1).
///
/// A leg that is expected to be much slower than another one, and idle, gets a read after [`Adaptive::PROBE`] reads
/// without one, to notice its recovery.
///
/// Its clones, one per queue of a mirror, share the estimates of the legs: otherwise each queue would divide the mirror
/// differently. Queues that choose at the same time may lose updates, which the averages tolerate. A single queue loses
/// none.
///
/// The constants were chosen by simulation, on the default disks and the seeds 1–3 of
/// `crates/io/sim/benches/mirror-policies.rs`, and frozen before its held-out disks and seeds were tried. They are
/// ratios: nothing depends on the speed of the legs.
#[derive(Debug, Clone, Default)]
pub struct Adaptive {
    served: Arc<Served>,
}

/// The reads that all queues sent to the legs.
#[derive(Debug)]
struct Served {
    legs: [LegReads; MAX_LEGS],
    /// Lowest and highest offset so far.
    lowest: AtomicU64,
    highest: AtomicU64,
    reads: AtomicU64,
}

/// The reads of a leg.
#[derive(Debug)]
struct LegReads {
    /// Moving average of the offsets, as the bits of an `f64`; NaN: no read yet.
    centre: AtomicU64,
    /// Moving average of the requests of the leg when it gets a read, this one included, as the bits of an `f64`.
    depth: AtomicU64,
    /// End of the last read.
    next: AtomicU64,
    /// Number of reads of the mirror when the leg got its last one.
    at: AtomicU64,
}

impl Default for Served {
    fn default() -> Served {
        Served {
            legs: Default::default(),
            lowest: AtomicU64::new(u64::MAX),
            highest: AtomicU64::new(0),
            reads: AtomicU64::new(0),
        }
    }
}

impl Default for LegReads {
    fn default() -> LegReads {
        LegReads {
            centre: AtomicU64::new(f64::NAN.to_bits()),
            depth: AtomicU64::new(1_f64.to_bits()),
            next: AtomicU64::new(0),
            at: AtomicU64::new(0),
        }
    }
}

impl LegReads {
    fn centre(&self) -> Option<f64> {
        let centre = f64::from_bits(self.centre.load(Ordering::Relaxed));
        (!centre.is_nan()).then_some(centre)
    }

    fn depth(&self) -> f64 {
        f64::from_bits(self.depth.load(Ordering::Relaxed))
    }
}

/// The costs of a read on a leg, ns.
#[derive(Debug, Clone, Copy)]
struct Costs {
    movement: f64,
    byte: f64,
}

impl Costs {
    fn of(leg: &LegView) -> Costs {
        let (movement, byte) = match (leg.move_ns + leg.byte_ns > 0.0, leg.rotational) {
            (true, _) => (leg.move_ns, leg.byte_ns),
            // Nothing has ended yet: the order of magnitude.
            (false, true) => (8e6, 8.0),
            (false, false) => (1e5, 1.0),
        };
        Costs { movement, byte }
    }

    /// Time for these movements and bytes.
    fn time(self, moves: u32, bytes: u64) -> f64 {
        f64::from(moves) * self.movement + bytes as f64 * self.byte
    }
}

impl Adaptive {
    /// Weight of the load of a leg.
    pub const LOAD: f64 = 20.0;
    /// Weight of a distance.
    pub const DISTANCE: f64 = 7.0;
    /// Weight of a read that continues the last one.
    pub const CONTINUES: f64 = 8.0;
    /// Work of a leg that is nearly idle.
    pub const IDLE: f64 = 0.1;
    /// Weight of a read in the moving averages of its leg.
    pub const AVERAGE: f64 = 0.02;
    /// Number of reads after which a slow leg gets one.
    pub const PROBE: u64 = 100;
    /// A leg is slow if a read alone takes this many times as long as on the fastest leg.
    pub const SLOW: f64 = 1.5;

    /// A slow leg without requests that had no read for long.
    fn to_probe(&self, reads: u64, request: &ReadRequest, legs: &[LegView]) -> Option<usize> {
        let alone = |leg: usize| Costs::of(&legs[leg]).time(1, request.length);
        let fastest = readable(legs).map(alone).fold(f64::INFINITY, f64::min);
        readable(legs).find(|&leg| {
            let last = self.served.legs[leg].at.load(Ordering::Relaxed);
            // Another queue may have chosen since.
            let unused = reads.saturating_sub(last) > Self::PROBE;
            unused && legs[leg].requests() == 0 && alone(leg) > Self::SLOW * fastest
        })
    }

    fn cheapest(&self, request: &ReadRequest, legs: &[LegView]) -> Option<usize> {
        let served = |leg: usize| &self.served.legs[leg];
        let work = |leg: usize| Costs::of(&legs[leg]).time(legs[leg].moves, legs[leg].bytes());
        let alone = |leg: usize| Costs::of(&legs[leg]).time(1, request.length);
        let end = |leg: usize| {
            let depth = served(leg).depth();
            (work(leg) + alone(leg)) * depth / (depth + 1.0)
        };
        let soonest = least(legs, end)?;
        let fastest = readable(legs).map(alone).fold(f64::INFINITY, f64::min);
        let idle = (-work(soonest) / (Self::IDLE * fastest).max(1.0)).exp();
        let lowest = self.served.lowest.load(Ordering::Relaxed);
        let highest = self.served.highest.load(Ordering::Relaxed);
        let range = highest.saturating_sub(lowest).max(1) as f64;
        least(legs, |leg| {
            let (centre, next) = (
                served(leg).centre(),
                served(leg).next.load(Ordering::Relaxed),
            );
            let continues = [next, legs[leg].done_end].contains(&request.offset);
            let movement = match (continues, legs[leg].rotational, centre) {
                (true, ..) => -idle - Self::CONTINUES * (1.0 - idle),
                (false, true, Some(centre)) => {
                    let distance = (centre - request.offset as f64).abs() / range;
                    Self::DISTANCE * distance.sqrt() * (1.0 - idle)
                }
                _ => 0.0,
            };
            movement - Self::LOAD * (fastest / end(leg)).sqrt()
        })
    }
}

impl ReadPolicy for Adaptive {
    fn kind(&self) -> PolicyKind {
        PolicyKind::Adaptive
    }

    fn choose(&mut self, request: &ReadRequest, legs: &[LegView], _: u64) -> Option<usize> {
        let served = &*self.served;
        let reads = served.reads.fetch_add(1, Ordering::Relaxed) + 1;
        let ReadRequest { offset, length } = *request;
        served.lowest.fetch_min(offset, Ordering::Relaxed);
        served.highest.fetch_max(offset, Ordering::Relaxed);
        let leg = match self.to_probe(reads, request, legs) {
            Some(leg) => leg,
            None => self.cheapest(request, legs)?,
        };
        let leg_reads = &served.legs[leg];
        let depth = leg_reads.depth();
        let depth = depth + Self::AVERAGE * (f64::from(legs[leg].requests() + 1) - depth);
        (leg_reads.depth).store(depth.to_bits(), Ordering::Relaxed);
        let centre = leg_reads.centre().unwrap_or(offset as f64);
        let centre = centre + Self::AVERAGE * (offset as f64 - centre);
        (leg_reads.centre).store(centre.to_bits(), Ordering::Relaxed);
        leg_reads.next.store(offset + length, Ordering::Relaxed);
        leg_reads.at.store(reads, Ordering::Relaxed);
        Some(leg)
    }
}
