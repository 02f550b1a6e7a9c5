//! Tasks and their ops: where each op that ended leads.

use super::Mirror;
use super::interface::{
    Buffer, Cause, Choose, EIO, Errno, Failure, Op, OpId, OpKind, Order, UNEXPECTED,
};
use super::tasks::{Fan, OpSlot, Task, Work};
use crate::superblock::DATA;

impl Mirror {
    pub(super) fn add_task(&mut self, work: Work) -> u32 {
        let fan = Fan::default();
        self.tasks.insert(Task { work, fan }) as u32
    }

    pub(super) fn task(&mut self, task: u32) -> &mut Task {
        &mut self.tasks[task as usize]
    }

    pub(super) fn end_task(&mut self, task: u32) {
        self.tasks.remove(task as usize);
    }

    /// Issues an op of a task to one leg; the task's fan must be empty or of the same step.
    pub(super) fn issue(
        &mut self,
        task: u32,
        leg: usize,
        kind: OpKind,
        (offset, length): (u64, u32),
        buffer: Buffer,
    ) {
        let slot = self.free_ops.pop().unwrap_or_else(|| {
            self.ops.push(OpSlot::default());
            self.ops.len() as u32 - 1
        });
        let op = &mut self.ops[slot as usize];
        op.generation = op.generation.wrapping_add(1);
        op.used = Some((task, leg));
        op.data = matches!(kind, OpKind::Write { .. }) && offset >= DATA;
        let generation = op.generation;
        if op.data {
            debug_assert!(self.epoch.open, "a write without an epoch");
            self.epoch.in_flight += 1;
            self.epoch.dirty = true;
            // A copy made before the tick must not have the generation of this write.
            self.epoch.due |= std::mem::take(&mut self.epoch.closing);
        }
        let fan = &mut self.task(task).fan;
        fan.issued.add(leg);
        fan.pending.add(leg);
        self.orders.push(Order::Op(Op {
            id: OpId { slot, generation },
            leg,
            kind,
            offset,
            length,
            buffer,
        }));
    }

    pub(super) fn done(&mut self, op: OpId, result: Result<(), Errno>, choose: &mut impl Choose) {
        let Some(slot) = self.ops.get_mut(op.slot as usize) else {
            return;
        };
        let Some((task, leg)) = slot.used.take_if(|_| slot.generation == op.generation) else {
            return;
        };
        if std::mem::take(&mut slot.data) {
            self.epoch.in_flight -= 1;
            // It may have ended just now.
            self.epoch.dirty = true;
        }
        self.free_ops.push(op.slot);
        let Task { work, fan } = &mut self.tasks[task as usize];
        fan.pending.remove(leg);
        match result {
            Ok(()) => fan.ok.add(leg),
            Err(error) => {
                let error = if error == UNEXPECTED { EIO } else { error };
                fan.error = error;
                if let Some(change) = work.change() {
                    self.legs[leg].failure = Some(Failure { change, error });
                }
            }
        }
        let work = *work;
        let ended = fan.pending.is_empty().then(|| std::mem::take(fan));
        if self.is_overwritten(leg, work, result) {
            self.drop_for_good(leg, Cause::Overwritten);
        }
        if let Some(fan) = ended {
            self.ended(task, fan, choose);
        }
    }

    /// Whether an ended op shows that the superblock of a leg was overwritten from outside.
    fn is_overwritten(&mut self, leg: usize, work: Work, result: Result<(), Errno>) -> bool {
        let superblocks = &mut self.legs[leg].superblocks;
        let unexpected = result == Err(UNEXPECTED);
        match work {
            Work::Record { .. } => {
                superblocks.wrote(result);
                unexpected
            }
            // A concurrent write may have changed the data read.
            Work::Look { copy, written } => {
                superblocks.looking[copy] = false;
                unexpected && superblocks.written == written
            }
            _ => false,
        }
    }

    /// All ops of a task's step have ended.
    fn ended(&mut self, task: u32, fan: Fan, choose: &mut impl Choose) {
        match self.task(task).work {
            Work::Read {
                request,
                tried,
                leg,
            } => {
                if fan.ok.is_empty() {
                    return self.read(task, request, tried, fan.error, choose);
                }
                self.end_task(task);
                self.reply(request.id, Ok(()));
                for failed in tried.iter().filter(|failed| *failed != leg) {
                    self.repair(failed, request);
                }
            }
            Work::Write { request, .. } => self.write_ended(task, request, fan),
            Work::Flush { purpose, number } => {
                self.end_task(task);
                self.flush_ended(purpose, number, fan);
            }
            Work::Copy { writing, .. } => match writing {
                false if fan.ok.is_empty() => self.copy(task),
                false => self.copy_write(task),
                true => self.copy_ended(task, Some(fan)),
            },
            Work::Log { block } => {
                self.end_task(task);
                self.log_ended(block, fan);
            }
            Work::Record { .. } => self.record_ended(task, fan),
            Work::Look { .. } => self.end_task(task),
            Work::Scrub { .. } => self.scrub_step(task, fan),
        }
    }
}
