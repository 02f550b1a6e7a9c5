//! Our own policy.

use super::{LegView, PolicyKind, ReadPolicy, ReadRequest, least, readable};

/// Each leg keeps to a part of the mirror, as long as all legs are busy; reads go to the leg that ends them first, as soon as one has
/// little to do.
///
/// The leg with the smallest sum of two costs serves the read; both are times.
///
/// - *Delay*: how much later the leg is expected to end the read than the best leg, from the work in its queue
///   ([`LegView::work_ns`]) and its costs of a move and of a byte. While every leg has work, a delay does not reduce the throughput: it
///   counts by [`Adaptive::DELAY`] only. It counts fully when a leg is idle; in between by e^(−w/(c · m)), where w is the
///   least work of a leg, c [`Adaptive::IDLE`], and m the cost of a move on the fastest leg.
/// - *Movement*, on rotating legs: [`Adaptive::DISTANCE`] · m · √(distance to the centre of the leg / length of the range in use).
///   The centre is a moving average of the offsets that the leg served, so that legs divide the range in use among them, and busy parts
///   of it are divided more finely. On all legs, a read that continues the last one of the leg has −[`Adaptive::CONTINUES`] · m.
///   While a leg is idle, distances do not count, and a read that continues saves what it really does: m.
///
/// A leg that is expected to be much slower than another one, and idle, gets a read after [`Adaptive::PROBE`] reads without one: a leg
/// that recovers is noticed.
///
/// The constants were chosen by simulation, on the default disks and the seeds 1–5 of `crates/sim/benches/mirror-policies.rs`, and
/// frozen before its held-out disks and seeds were tried. They are ratios: nothing depends on the speed of the legs.
#[derive(Debug, Clone)]
pub struct Adaptive {
    legs: Vec<Served>,
    /// Lowest and highest offset so far.
    range: (u64, u64),
    reads: u64,
}

/// The reads of a leg.
#[derive(Debug, Clone, Copy, Default)]
struct Served {
    /// Moving average of the offsets; `None`: no read yet.
    centre: Option<f64>,
    /// End of the last read.
    next: u64,
    /// Number of reads of the mirror when the leg got its last one.
    at: u64,
}

/// What a read costs on a leg, ns.
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
    /// Weight of a delay while all legs are busy.
    pub const DELAY: f64 = 0.005;
    /// Weight of a distance, in movements.
    pub const DISTANCE: f64 = 7.0;
    /// Weight of a read that continues the last one, in movements.
    pub const CONTINUES: f64 = 8.0;
    /// Work of a leg that is nearly idle, in movements.
    pub const IDLE: f64 = 0.1;
    /// Weight of a read in the centre of its leg.
    pub const CENTRE: f64 = 0.02;
    /// Number of reads after which a slow leg gets one.
    pub const PROBE: u64 = 100;
    /// A leg is slow if a read alone takes this many times as long as on the fastest leg.
    pub const SLOW: f64 = 1.5;

    /// For a mirror of `legs` legs.
    pub fn new(legs: usize) -> Adaptive {
        Adaptive {
            legs: vec![Served::default(); legs],
            range: (u64::MAX, 0),
            reads: 0,
        }
    }

    /// A slow leg without requests that had no read for long.
    fn to_probe(&self, request: &ReadRequest, legs: &[LegView]) -> Option<usize> {
        let alone = |leg: usize| Costs::of(&legs[leg]).time(1, request.length);
        let fastest = readable(legs).map(alone).fold(f64::INFINITY, f64::min);
        readable(legs).find(|&leg| {
            let unused = self.reads - self.legs[leg].at > Self::PROBE;
            unused && legs[leg].requests() == 0 && alone(leg) > Self::SLOW * fastest
        })
    }

    fn cheapest(&self, request: &ReadRequest, legs: &[LegView]) -> Option<usize> {
        let work = |leg: usize| Costs::of(&legs[leg]).time(legs[leg].moves, legs[leg].bytes());
        let end = |leg: usize| work(leg) + Costs::of(&legs[leg]).time(1, request.length);
        let soonest = least(legs, end)?;
        let movements = readable(legs).map(|leg| Costs::of(&legs[leg]).movement);
        let movement = movements.fold(f64::INFINITY, f64::min);
        let idle = (-work(soonest) / (Self::IDLE * movement).max(1.0)).exp();
        let range = self.range.1.saturating_sub(self.range.0).max(1) as f64;
        least(legs, |leg| {
            let Served { centre, next, .. } = self.legs[leg];
            let delay = (end(leg) - end(soonest)) * (Self::DELAY + idle);
            let continues = [next, legs[leg].done_end].contains(&request.offset);
            let movements = match (continues, legs[leg].rotational, centre) {
                (true, ..) => -idle - Self::CONTINUES * (1.0 - idle),
                (false, true, Some(centre)) => {
                    let distance = (centre - request.offset as f64).abs() / range;
                    Self::DISTANCE * distance.sqrt() * (1.0 - idle)
                }
                _ => 0.0,
            };
            delay + movements * movement
        })
    }
}

impl ReadPolicy for Adaptive {
    fn kind(&self) -> PolicyKind {
        PolicyKind::Adaptive
    }

    fn choose(&mut self, request: &ReadRequest, legs: &[LegView], _: u64) -> Option<usize> {
        let known = self.legs.len().max(legs.len());
        self.legs.resize(known, Served::default());
        self.reads += 1;
        let ReadRequest { offset, length } = *request;
        self.range = (self.range.0.min(offset), self.range.1.max(offset));
        let leg = match self.to_probe(request, legs) {
            Some(leg) => leg,
            None => self.cheapest(request, legs)?,
        };
        let centre = self.legs[leg].centre.unwrap_or(offset as f64);
        self.legs[leg] = Served {
            centre: Some(centre + Self::CENTRE * (offset as f64 - centre)),
            next: offset + length,
            at: self.reads,
        };
        Some(leg)
    }
}
