//! The order among ops of a job with `serialize_overlap`, and of every verifying job: no two overlapping ops are in flight
//! at once. Written blocks of a verifying job are queued to be read back.

use std::collections::VecDeque;

use iodyno_model::Verify;
use iodyno_sys::{Op, OpKind, Slot};

/// The ops in flight and the blocks to verify.
#[derive(Debug)]
pub(super) struct Hazards {
    in_flight: Vec<Option<Op>>,
    /// An op that was drawn and has to wait.
    pub(super) held: Option<super::Issue>,
    backlog: VecDeque<Op>,
    /// Verify after this number of blocks was written; 0: only at the end.
    every: usize,
    batch: usize,
    /// Number of blocks still to verify in this batch.
    left: usize,
}

impl Hazards {
    pub(super) fn new(verify: Option<&Verify>, depth: u32) -> Hazards {
        let (every, batch) = match verify {
            Some(verify) => (verify.backlog as usize, verify.backlog_batch as usize),
            None => (0, 0),
        };
        Hazards {
            in_flight: vec![None; depth as usize],
            held: None,
            backlog: VecDeque::with_capacity(if every > 0 { every + depth as usize } else { 0 }),
            every,
            batch: if batch > 0 { batch } else { every },
            left: 0,
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

    pub(super) fn completed(&mut self, slot: Slot, well: bool) {
        let Some(op) = self.in_flight[slot as usize].take() else {
            return;
        };
        if self.every > 0 && op.kind == OpKind::Write && well {
            self.backlog.push_back(op);
            if self.backlog.len() >= self.every && self.left == 0 {
                self.left = self.batch;
            }
        }
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
