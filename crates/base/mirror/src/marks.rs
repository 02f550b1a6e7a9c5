//! The state shared by the queues of a leg: its position, totals of issued commands, and cost estimates.

use crate::LegView;
use crate::atomics::{AtomicU64, Ordering};

/// The commands that a queue has issued so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests.
    pub requests: u64,
    /// Commands that contained them.
    pub commands: u64,
    /// Commands that did not start where the previous one ended.
    pub moves: u64,
}

impl Totals {
    /// Share of the requests that were merged with another one.
    pub fn merged(&self) -> f64 {
        1.0 - self.commands as f64 / self.requests.max(1) as f64
    }

    /// Share of the requests that were merged with the one before it or followed it without a gap.
    pub fn continued(&self) -> f64 {
        1.0 - self.moves as f64 / self.requests.max(1) as f64
    }
}

impl std::iter::Sum for Totals {
    fn sum<I: Iterator<Item = Totals>>(parts: I) -> Totals {
        parts.fold(Totals::default(), |sum, part| Totals {
            requests: sum.requests + part.requests,
            commands: sum.commands + part.commands,
            moves: sum.moves + part.moves,
        })
    }
}

/// The position of a leg and its costs, shared by its queues. Queues that write at the same time may lose updates;
/// positions are then slightly off, which the averages of costs tolerate.
#[derive(Debug, Default)]
pub struct Marks {
    last_offset: AtomicU64,
    last_end: AtomicU64,
    done_end: AtomicU64,
    done_at: AtomicU64,
    /// See [`Totals`].
    totals: [AtomicU64; 3],
    /// The costs, as the bits of `f64`; see [`Costs`].
    costs: [AtomicU64; 7],
}

impl Marks {
    pub(crate) fn last(&self) -> (u64, u64) {
        let (offset, end) = (&self.last_offset, &self.last_end);
        (offset.load(Ordering::Relaxed), end.load(Ordering::Relaxed))
    }

    /// A command was issued, which contains this number of requests.
    pub(crate) fn issued(&self, offset: u64, end: u64, requests: u32, moves: bool) {
        let add = [u64::from(requests), 1, u64::from(moves)];
        for (sum, add) in self.totals.iter().zip(add) {
            sum.fetch_add(add, Ordering::Relaxed);
        }
        self.last_offset.store(offset, Ordering::Relaxed);
        self.last_end.store(end, Ordering::Relaxed);
    }

    /// A command has ended at `now`, which was issued `at`.
    pub(crate) fn done(&self, moves: bool, length: u64, end: u64, at: u64, now: u64) {
        let busy = now.saturating_sub(self.done_at.load(Ordering::Relaxed).max(at));
        let mut costs = Costs(
            self.costs
                .each_ref()
                .map(|cost| f64::from_bits(cost.load(Ordering::Relaxed))),
        );
        costs.add(moves, length, busy);
        for (own, cost) in self.costs.iter().zip(costs.0) {
            own.store(cost.to_bits(), Ordering::Relaxed);
        }
        self.done_at.store(now, Ordering::Relaxed);
        self.done_end.store(end, Ordering::Relaxed);
    }

    /// The commands of all queues so far.
    pub(crate) fn totals(&self) -> Totals {
        let [requests, commands, moves] =
            (self.totals.each_ref()).map(|sum| sum.load(Ordering::Relaxed));
        Totals {
            requests,
            commands,
            moves,
        }
    }

    pub(crate) fn view(&self) -> LegView {
        let cost = |number: usize| f64::from_bits(self.costs[number].load(Ordering::Relaxed));
        let (last_offset, last_end) = self.last();
        LegView {
            last_offset,
            last_end,
            done_end: self.done_end.load(Ordering::Relaxed),
            move_ns: cost(0),
            byte_ns: cost(1),
            ..LegView::default()
        }
    }
}

/// Estimates the cost of a move and of the transfer of a byte on a leg: the least-squares fit of busy time = move_ns ·
/// (0 or 1) + byte_ns · bytes over the last commands, with exponential weights.
///
/// The two costs, ns, and weighted sums: of moves, moves × bytes, bytes², moves × time, bytes × time.
#[derive(Debug)]
struct Costs([f64; 7]);

impl Costs {
    /// Weight of a new command; the memory is some 64 commands.
    const WEIGHT: f64 = 1.0 / 64.0;
    /// Weight of the last estimate, which decides where the commands are ambiguous: with moves only, or with one length
    /// only, the two costs cannot be distinguished.
    const INERTIA: f64 = 0.02;

    fn add(&mut self, moves: bool, bytes: u64, busy_ns: u64) {
        let (moves, bytes, busy) = (f64::from(u8::from(moves)), bytes as f64, busy_ns as f64);
        let terms = [
            moves,
            moves * bytes,
            bytes * bytes,
            moves * busy,
            bytes * busy,
        ];
        let [move_ns, byte_ns, sums @ ..] = &mut self.0;
        for (sum, term) in sums.iter_mut().zip(terms) {
            *sum += Self::WEIGHT * (term - *sum);
        }
        let [mm, mb, bb, mt, bt] = *sums;
        if bb == 0.0 {
            return;
        }
        let (mm, mt) = (mm + Self::INERTIA, mt + Self::INERTIA * *move_ns);
        let inertia = Self::INERTIA * bb;
        let (bb, bt) = (bb + inertia, bt + inertia * *byte_ns);
        let determinant = mm * bb - mb * mb;
        // It is positive, except if queues lost an update of one another.
        if determinant <= 0.0 {
            return;
        }
        let (movement, byte) = (
            (mt * bb - bt * mb) / determinant,
            (bt * mm - mt * mb) / determinant,
        );
        // Costs are not negative: then the other one explains everything.
        (*move_ns, *byte_ns) = if byte < 0.0 {
            (mt / mm, 0.0)
        } else if movement < 0.0 {
            (0.0, bt / bb)
        } else {
            (movement, byte)
        };
    }
}
