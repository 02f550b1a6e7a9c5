//! The policy of Linux's md raid1.

use super::{LegView, PolicyKind, ReadPolicy, ReadRequest, least, readable};

/// A sequential stream stays on its leg; otherwise an idle leg; otherwise the least pending one if any leg does not
/// rotate, and the one with the nearest head if all rotate. No rule protects a leg from too many streams.
///
/// Source: `choose_best_rdev` in Linux's `drivers/md/raid1.c` (6.9 and later). Its count of pending requests includes
/// those that wait in the block layer.
#[derive(Debug, Clone)]
pub struct MdRaid1 {
    /// On a leg that does not rotate, a stream of more bytes than this moves to an idle leg (the device's `io_opt`);
    /// 0: it stays, as on devices that do not report it.
    pub optimal_bytes: u64,
    legs: Vec<Sequence>,
}

/// The last reads of a leg.
#[derive(Debug, Clone, Copy, Default)]
struct Sequence {
    start: u64,
    next: u64,
}

impl MdRaid1 {
    /// For a mirror of `legs` legs.
    pub fn new(legs: usize) -> MdRaid1 {
        MdRaid1 {
            optimal_bytes: 0,
            legs: vec![Sequence::default(); legs],
        }
    }

    fn select(&self, request: &ReadRequest, legs: &[LegView]) -> Option<usize> {
        let continues = |leg: usize| {
            self.legs[leg].next == request.offset || legs[leg].done_end == request.offset
        };
        let long = |leg: usize| {
            let bytes = self.legs[leg].next - self.legs[leg].start;
            !legs[leg].rotational && self.optimal_bytes > 0 && bytes >= self.optimal_bytes
        };
        if let Some(leg) = readable(legs).find(|&leg| continues(leg) && !long(leg)) {
            return Some(leg);
        }
        let pending = |leg: usize| legs[leg].requests() + u32::from(continues(leg));
        let calmest = least(legs, pending)?;
        if pending(calmest) > 0
            && let Some(leg) = readable(legs).filter(|&leg| continues(leg)).last()
        {
            return Some(leg);
        }
        if pending(calmest) == 0 || readable(legs).any(|leg| !legs[leg].rotational) {
            return Some(calmest);
        }
        least(legs, |leg| legs[leg].done_end.abs_diff(request.offset))
    }
}

impl ReadPolicy for MdRaid1 {
    fn kind(&self) -> PolicyKind {
        PolicyKind::MdRaid1
    }

    fn choose(&mut self, request: &ReadRequest, legs: &[LegView], _: u64) -> Option<usize> {
        self.legs
            .resize(legs.len().max(self.legs.len()), Sequence::default());
        let leg = self.select(request, legs)?;
        let sequence = &mut self.legs[leg];
        if sequence.next != request.offset {
            sequence.start = request.offset;
        }
        sequence.next = request.offset + request.length;
        Some(leg)
    }
}
