//! Issues each op of a list once: the end fsync, the verify pass.

use iodyno_model::{Direction, EndedBy};
use iodyno_sys::{Op, OpKind, Slot};

use super::{Issue, Next, OpStream};

/// Issues the ops of an iterator.
#[derive(Debug)]
pub struct ListStream<I>(pub I);

impl<I: Iterator<Item = Issue>> OpStream for ListStream<I> {
    fn next(&mut self, _now: u64, _slot: Slot, place: &mut Issue) -> Next {
        match self.0.next() {
            None => Next::Done(EndedBy::Size),
            Some(issue) => {
                *place = issue;
                Next::Op
            }
        }
    }

    fn completed(&mut self, _slot: Slot, _well: bool) {}
}

/// A sync of a file; only its errors are recorded.
pub fn end_sync(kind: OpKind, file: u32) -> Issue {
    Issue {
        counted: false,
        ..Issue::counted(Op::new(kind, file, 0, 0), Direction::Sync)
    }
}

/// A read whose data is verified.
pub fn checked_read((file, offset, length): (u32, u64, u32)) -> Issue {
    let op = Op::new(OpKind::Read, file, offset, length);
    Issue {
        checked: true,
        counted: false,
        ..Issue::counted(op, Direction::Read)
    }
}
