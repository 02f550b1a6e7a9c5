//! Comparing all legs.

use super::Mirror;
use super::interface::{Buffer, Notice, OpKind, Order};
use super::tasks::{Fan, Reason, Task, Work};
use crate::legs::LegSet;
use crate::superblock::DATA;

impl Mirror {
    pub(super) fn scrub_begin(&mut self, from: Option<usize>) {
        self.scrubbing = true;
        let length = self.scrub_length(0);
        let task = self.add_task(Work::Scrub {
            from,
            offset: 0,
            length,
            repairing: false,
            differ: 0,
            unread: 0,
        });
        if self.ranges.take(task, 0, u64::from(length)) {
            self.scrub_read(task);
        }
    }

    fn scrub_length(&self, offset: u64) -> u32 {
        let rest = self.assembly.geometry.length - offset;
        rest.min(u64::from(self.settings.copy_bytes)) as u32
    }

    pub(super) fn scrub_read(&mut self, task: u32) {
        let Work::Scrub { offset, length, .. } = self.task(task).work else {
            unreachable!("a scrub");
        };
        for leg in self.in_sync().iter() {
            let buffer = Buffer::Own { task, part: leg };
            let range = (DATA + offset, length);
            self.issue(task, leg, OpKind::Read, range, buffer);
        }
    }

    /// The legs were read, or written again.
    pub(super) fn scrub_step(&mut self, task: u32, fan: Fan) {
        let in_sync = self.in_sync();
        let Work::Scrub {
            offset,
            length,
            repairing,
            unread,
            ..
        } = &mut self.task(task).work
        else {
            unreachable!("a scrub");
        };
        let (offset, length) = (*offset, *length);
        if *repairing {
            self.drop_others(fan.issued.without(fan.ok));
            self.orders.push(Order::Notice(Notice::Differs {
                offset,
                length,
                repaired: true,
            }));
            return self.scrub_next(task);
        }
        let failed = fan.issued.without(fan.ok).and(in_sync);
        let readable = fan.ok.and(in_sync);
        if !failed.is_empty() {
            *unread += 1;
        }
        // Data that one leg cannot read are rewritten from another, as after a read of a client.
        for leg in failed.iter().filter(|_| !readable.is_empty()) {
            self.add_copy(Reason::Repair(leg), offset, length);
        }
        match readable.count() >= 2 {
            true => self.orders.push(Order::Compare {
                task,
                legs: readable,
            }),
            false => self.scrub_next(task),
        }
    }

    pub(super) fn compared(&mut self, task: u32, equal: bool) {
        let in_sync = self.in_sync();
        let Some(Task {
            work:
                Work::Scrub {
                    from,
                    offset,
                    length,
                    repairing,
                    differ,
                    ..
                },
            ..
        }) = self.tasks.get_mut(task as usize)
        else {
            return;
        };
        if equal {
            return self.scrub_next(task);
        }
        *differ += 1;
        let (offset, length) = (*offset, *length);
        if from.is_none_or(|from| !in_sync.has(from)) {
            self.orders.push(Order::Notice(Notice::Differs {
                offset,
                length,
                repaired: false,
            }));
            return self.scrub_next(task);
        }
        *repairing = true;
        self.scrub_repair(task);
    }

    /// Overwrites a range that differs.
    pub(super) fn scrub_repair(&mut self, task: u32) {
        if !self.may_write(task) {
            return;
        }
        let in_sync = self.in_sync();
        let Work::Scrub {
            from: Some(from),
            offset,
            length,
            ..
        } = self.task(task).work
        else {
            unreachable!("a scrub that repairs");
        };
        if !in_sync.has(from) {
            return self.scrub_next(task);
        }
        for leg in in_sync.without(LegSet::one(from)).iter() {
            let buffer = Buffer::Own { task, part: from };
            let kind = OpKind::Write { fua: true };
            self.issue(task, leg, kind, (DATA + offset, length), buffer);
        }
        if in_sync.count() == 1 {
            self.scrub_next(task);
        }
    }

    /// Continues after the range, or ends.
    pub(super) fn scrub_next(&mut self, task: u32) {
        self.release(task);
        let Work::Scrub {
            from,
            offset,
            length,
            differ,
            unread,
            ..
        } = self.task(task).work
        else {
            unreachable!("a scrub");
        };
        let next = offset + u64::from(length);
        if next >= self.assembly.geometry.length || self.stopping || self.in_sync().count() < 2 {
            self.scrubbing = false;
            self.orders
                .push(Order::Notice(Notice::Scrubbed { differ, unread }));
            self.orders.push(Order::Free { task });
            return self.end_task(task);
        }
        let length = self.scrub_length(next);
        self.task(task).work = Work::Scrub {
            from,
            offset: next,
            length,
            repairing: false,
            differ,
            unread,
        };
        if self.ranges.take(task, next, u64::from(length)) {
            self.scrub_read(task);
        }
    }
}
