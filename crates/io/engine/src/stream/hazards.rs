//! The order among ops of a job with `serialize_overlap`, and of every verifying job: no two overlapping ops are in
//! flight at once. Written blocks of a verifying job are queued to be read back, and some to be trimmed.

use std::collections::VecDeque;

use iodyno_model::{Verify, VerifyTrim};
use iodyno_sys::{Op, OpKind, Slot};

/// The ops in flight and the blocks to verify.
#[derive(Debug)]
pub(super) struct Hazards {
    in_flight: Vec<Option<Op>>,
    /// A drawn op that has to wait.
    pub(super) held: Option<super::Issue>,
    backlog: VecDeque<Op>,
    /// Verify after this number of blocks was written; 0: only at the end.
    every: usize,
    batch: usize,
    /// Number of blocks still to verify in this batch.
    left: usize,
    trims: Option<Trims>,
}

/// The written blocks to trim.
#[derive(Debug)]
struct Trims {
    rule: VerifyTrim,
    queue: VecDeque<Op>,
    /// Percentages of the blocks written since the last one that was chosen.
    share: u32,
    /// Number of blocks written since the last batch.
    written: u32,
    /// Number of blocks still to trim in this batch.
    left: u32,
}

impl Trims {
    fn new(rule: VerifyTrim, depth: u32) -> Trims {
        // Between two batches, writes complete that were in flight.
        let most = rule.backlog.saturating_mul(2).saturating_add(depth);
        Trims {
            rule,
            queue: VecDeque::with_capacity(most.min(1 << 20) as usize),
            share: 0,
            written: 0,
            left: 0,
        }
    }

    fn wrote(&mut self, op: Op) {
        self.share += self.rule.percent;
        if self.share >= 100 {
            self.share -= 100;
            self.queue.push_back(op);
        }
        self.written += 1;
        // More blocks can be due than a batch has: the queue has an end.
        let full = self.queue.len() >= self.rule.backlog as usize * 2;
        if self.written >= self.rule.backlog || full {
            (self.written, self.left) = (0, self.rule.batch);
        }
    }

    /// The next block of the batch, or of `all`.
    fn next(&mut self, all: bool) -> Option<Op> {
        if !all {
            self.left = self.left.checked_sub(1)?;
        }
        let op = self.queue.pop_front();
        if op.is_none() {
            self.left = 0;
        }
        op
    }
}

impl Hazards {
    pub(super) fn new(verify: Option<&Verify>, depth: u32) -> Hazards {
        // As in fio, nothing is read back without `do_verify`.
        let (every, batch) = match verify.filter(|verify| verify.do_verify) {
            Some(verify) => (verify.backlog as usize, verify.backlog_batch as usize),
            None => (0, 0),
        };
        Hazards {
            in_flight: vec![None; depth as usize],
            held: None,
            backlog: VecDeque::with_capacity(match every {
                0 => 0,
                _ => every.min(1 << 20) + depth as usize,
            }),
            every,
            batch: if batch > 0 { batch } else { every },
            left: 0,
            trims: verify
                .and_then(|verify| verify.trim)
                .map(|rule| Trims::new(rule, depth)),
        }
    }

    /// Whether the op overlaps another one in flight.
    pub(super) fn conflicts(&self, op: &Op) -> bool {
        let end = op.offset + u64::from(op.length);
        self.in_flight.iter().flatten().any(|other| {
            other.file == op.file
                && other.offset < end
                && op.offset < other.offset + u64::from(other.length)
        })
    }

    pub(super) fn issued(&mut self, slot: Slot, op: &Op) {
        self.in_flight[slot as usize] = Some(*op);
    }

    pub(super) fn completed(&mut self, slot: Slot, succeeded: bool) {
        let Some(op) = self.in_flight[slot as usize].take() else {
            return;
        };
        if op.kind != OpKind::Write || !succeeded {
            return;
        }
        if let Some(trims) = &mut self.trims {
            trims.wrote(op);
        }
        if self.every > 0 {
            self.backlog.push_back(op);
            if self.backlog.len() >= self.every && self.left == 0 {
                self.left = self.batch;
            }
        }
    }

    /// The next block to trim now. `ending`: nothing more is written, so that all that are due follow.
    pub(super) fn next_trim(&mut self, ending: bool) -> Option<Op> {
        let op = self.trims.as_mut()?.next(ending)?;
        Some(Op {
            kind: OpKind::Trim,
            skip: 0,
            priority: 0,
            ..op
        })
    }

    /// Whether blocks to trim may follow from a write in flight.
    pub(super) fn may_trim(&self) -> bool {
        let mut ops = self.in_flight.iter().flatten();
        self.trims.is_some() && ops.any(|op| op.kind == OpKind::Write)
    }

    /// The next block to verify now.
    pub(super) fn next_check(&mut self) -> Option<Op> {
        self.left = self.left.checked_sub(1)?;
        let op = self.backlog.pop_front();
        if op.is_none() {
            self.left = 0;
        }
        op.map(|op| Op {
            kind: OpKind::Read,
            skip: 0,
            ..op
        })
    }
}
