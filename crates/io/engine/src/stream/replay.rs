//! The op stream of a clone that replays a trace.

use std::num::NonZeroU64;

use crate::trace::{TracedKind, TracedOp};
use iodyno_model::{Direction, EndedBy, MissedOps};
use iodyno_sys::{Op, OpKind, Slot};

use super::{CloneStream, Issue, Next, OpStream};
use crate::spec::ReplayPart;

/// Issues the ops of a trace in order, each once. An op with a time is issued at that time even if earlier ops are
/// still in flight, if the depth permits. It keeps its time if it is issued late.
#[derive(Debug)]
pub struct ReplayStream {
    part: ReplayPart,
    /// Index of the next op.
    next: usize,
    start: u64,
    /// Ops issued since the measured time began.
    issued: u64,
    /// Ops after which the stream ends; no limit during the ramp.
    budget: u64,
    /// Ops of the measured time.
    ops: u64,
}

impl ReplayStream {
    /// The stream of a clone that ends after `ops` ops, or with the trace.
    pub fn new(part: ReplayPart, ops: Option<u64>) -> ReplayStream {
        let ops = ops.unwrap_or(u64::MAX);
        ReplayStream {
            part,
            next: 0,
            start: 0,
            issued: 0,
            budget: ops,
            ops,
        }
    }

    fn rest(&self) -> &[TracedOp] {
        &self.part.trace.ops[self.next..]
    }
}

impl OpStream for ReplayStream {
    #[inline]
    fn next(&mut self, now: u64, _slot: Slot, place: &mut Issue) -> Next {
        let Some(op) = self.part.trace.ops.get(self.next) else {
            return Next::Done(EndedBy::Size);
        };
        if self.issued >= self.budget {
            return Next::Done(EndedBy::Count);
        }
        let due = op.due_ns().map(|due| self.start.saturating_add(due));
        if let Some(due) = due
            && now < due
        {
            return Next::WaitUntil(due);
        }
        let kind = match op.kind() {
            TracedKind::Read => OpKind::Read,
            TracedKind::Write => OpKind::Write,
            TracedKind::Trim => OpKind::Trim,
            TracedKind::Sync => OpKind::Fsync,
            TracedKind::DataSync => OpKind::Fdatasync,
        };
        let issued = Op::new(kind, self.part.files[op.file()], op.offset, op.length);
        *place = Issue {
            intended: due.and_then(NonZeroU64::new),
            ..Issue::counted(issued, op.kind().direction())
        };
        self.next += 1;
        self.issued += 1;
        Next::Op
    }

    #[inline]
    fn completed(&mut self, _slot: Slot, _well: bool) {}
}

impl CloneStream for ReplayStream {
    fn begin(&mut self, start: u64) {
        (self.start, self.budget) = (start, u64::MAX);
    }

    fn measure(&mut self) {
        (self.issued, self.budget) = (0, self.ops);
    }

    fn missed(&self, until: u64) -> Vec<MissedOps> {
        let elapsed = until.saturating_sub(self.start);
        let left = usize::try_from(self.budget - self.issued).unwrap_or(usize::MAX);
        let due = self.rest().iter().take(left);
        let due = due.filter(|op| op.due_ns().is_some_and(|due| due < elapsed));
        let mut counts = [0u64; Direction::ALL.len()];
        due.for_each(|op| counts[op.kind().direction() as usize] += 1);
        let each = Direction::ALL.into_iter().zip(counts);
        each.filter_map(|(direction, ops)| MissedOps::some(Some(direction), ops))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::trace::{Limits, Trace};
    use iodyno_model::Replay;

    use super::*;
    use crate::stream::end_sync;

    fn trace(text: &str, replay: &Replay) -> Arc<Trace> {
        let limits = Limits {
            ops: 100,
            read_only: false,
        };
        Arc::new(crate::trace::read(text.as_bytes(), replay, limits).unwrap())
    }

    fn stream(trace: &Arc<Trace>, ops: Option<u64>) -> ReplayStream {
        let part = ReplayPart {
            trace: Arc::clone(trace),
            files: (0..trace.files.len() as u32).rev().collect(),
        };
        let mut stream = ReplayStream::new(part, ops);
        stream.begin(1000);
        stream.measure();
        stream
    }

    const LOG: &str = "fio version 3 iolog\n0 a add\n0 b add\n5 a read 0 4096\n7 b write 8192 512\n\
                       7 b sync 0 0\n9 a trim 4096 4096\n";

    #[test]
    fn ops_are_issued_in_order_and_not_before_their_times() {
        let trace = trace(LOG, &Replay::default());
        let mut stream = stream(&trace, None);
        let mut place = end_sync(OpKind::Fsync, 9);
        let mut found = Vec::new();
        let mut now = 1000;
        loop {
            match stream.next(now, 0, &mut place) {
                Next::Op => {
                    let op = place.op;
                    let intended = place.intended.map(NonZeroU64::get);
                    found.push((now, op.kind, op.file, op.offset, op.length, intended));
                }
                Next::WaitUntil(instant) => now = instant,
                Next::Done(ended) => {
                    assert_eq!(ended, EndedBy::Size);
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(
            found,
            [
                (1000, OpKind::Read, 1, 0, 4096, Some(1000)),
                (3000, OpKind::Write, 0, 8192, 512, Some(3000)),
                (3000, OpKind::Fsync, 0, 0, 0, Some(3000)),
                (5000, OpKind::Trim, 1, 4096, 4096, Some(5000)),
            ]
        );
    }

    #[test]
    fn a_late_op_keeps_its_time() {
        let trace = trace(LOG, &Replay::default());
        let mut stream = stream(&trace, None);
        let mut place = end_sync(OpKind::Fsync, 9);
        let intended: Vec<u64> = (0..4)
            .map(|_| {
                assert_eq!(stream.next(1_000_000, 0, &mut place), Next::Op);
                place.intended.unwrap().get()
            })
            .collect();
        assert_eq!(intended, [1000, 3000, 3000, 5000]);
    }

    #[test]
    fn without_stalls_nothing_is_waited_for_and_the_number_of_ops_ends_it() {
        let replay = Replay {
            no_stall: true,
            ..Replay::default()
        };
        let trace = trace(LOG, &replay);
        let mut stream = stream(&trace, Some(3));
        let mut place = end_sync(OpKind::Fsync, 9);
        for _ in 0..3 {
            assert_eq!(stream.next(1000, 0, &mut place), Next::Op);
            assert_eq!(place.intended, None);
        }
        assert_eq!(stream.next(1000, 0, &mut place), Next::Done(EndedBy::Count));
        assert_eq!(stream.missed(u64::MAX), []);
    }

    #[test]
    fn ops_that_were_due_and_not_issued_are_missed() {
        let trace = trace(LOG, &Replay::default());
        let mut stream = stream(&trace, None);
        let mut place = end_sync(OpKind::Fsync, 9);
        assert_eq!(stream.next(1000, 0, &mut place), Next::Op);
        let missed = |until| {
            let missed = stream.missed(until);
            missed
                .iter()
                .map(|it| (it.direction, it.ops))
                .collect::<Vec<_>>()
        };
        assert_eq!(missed(3000), []);
        let (write, sync) = (Some(Direction::Write), Some(Direction::Sync));
        assert_eq!(missed(3001), [(write, 1), (sync, 1)]);
        let trim = Some(Direction::Trim);
        assert_eq!(missed(9999), [(write, 1), (trim, 1), (sync, 1)]);
    }
}
