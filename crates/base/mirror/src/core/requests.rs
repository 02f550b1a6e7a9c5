//! Requests of clients: reads, writes, and their replies.

use super::interface::{
    Access, Buffer, Choose, EINVAL, EIO, ESHUTDOWN, Errno, OpKind, Order, Request,
};
use super::tasks::{Fan, Purpose, Work};
use super::{Mirror, place};
use crate::legs::LegSet;
use crate::superblock::DATA;

impl Mirror {
    pub(super) fn reply(&mut self, id: u64, result: Result<(), Errno>) {
        self.orders.push(Order::Reply { id, result });
    }

    /// Acknowledges a write or flush once all drops so far are durable.
    pub(super) fn ack(&mut self, id: u64) {
        if self.halted {
            self.reply(id, Err(EIO));
        } else if self.records.recorded >= self.records.version {
            self.reply(id, Ok(()));
        } else {
            self.records.acks.push_back((self.records.version, id));
        }
    }

    /// A read was tried on the legs in `tried`; the last of them returned `error`.
    pub(super) fn request(
        &mut self,
        request: Request,
        tried: LegSet,
        error: Errno,
        choose: &mut impl Choose,
    ) {
        let geometry = &self.assembly.geometry;
        let (unit, length) = (u64::from(geometry.unit), u64::from(request.length));
        let end = request.offset.checked_add(length);
        let inside = end.is_some_and(|end| end <= geometry.length)
            && request.offset.is_multiple_of(unit)
            && length.is_multiple_of(unit);
        let flush = request.access == Access::Flush;
        let refusal = match () {
            () if self.halted => Some(Err(EIO)),
            () if self.stopping => Some(Err(ESHUTDOWN)),
            () if !inside && !flush => Some(Err(EINVAL)),
            () if length == 0 && !flush => Some(Ok(())),
            () => None,
        };
        if let Some(result) = refusal {
            return self.reply(request.id, result);
        }
        match request.access {
            Access::Read => {
                let task = self.add_task(Work::Read {
                    request,
                    tried,
                    leg: 0,
                });
                self.read(task, request, tried, error, choose);
            }
            Access::Write { fua } => {
                let task = self.add_task(Work::Write {
                    request,
                    fua,
                    issued: false,
                });
                if self.ranges.take(task, request.offset, length) {
                    self.proceed(task);
                }
            }
            Access::Flush => self.flush(Purpose::Client(request.id), self.online()),
        }
    }

    /// Reads from a leg that was not tried yet.
    pub(super) fn read(
        &mut self,
        task: u32,
        request: Request,
        mut tried: LegSet,
        error: Errno,
        choose: &mut impl Choose,
    ) {
        let legs = self.in_sync().without(tried);
        let Some(source) = legs.first() else {
            self.end_task(task);
            return self.reply(request.id, Err(error));
        };
        let mut regions = self.region_range(request.offset, request.length);
        let leg = match regions.any(|region| self.regions[region].needs_copy) {
            true => source,
            false => choose.choose(request.offset, request.length, legs),
        };
        debug_assert!(legs.has(leg), "a leg that may serve the read");
        tried.add(leg);
        self.task(task).work = Work::Read {
            request,
            tried,
            leg,
        };
        let range = (DATA + request.offset, request.length);
        let buffer = Buffer::Client(request.id);
        self.issue(task, leg, OpKind::Read, range, buffer);
    }

    /// Continues tasks that now hold their range.
    fn proceed(&mut self, task: u32) {
        match self.task(task).work {
            Work::Write { .. } => self.write_begin(task),
            Work::Copy { .. } => self.copy(task),
            Work::Scrub { .. } => self.scrub_read(task),
            _ => unreachable!("only these take ranges"),
        }
    }

    pub(super) fn release(&mut self, task: u32) {
        let mut next = Vec::new();
        self.ranges.release(task, &mut next);
        for task in next {
            self.proceed(task);
        }
    }

    fn write_begin(&mut self, task: u32) {
        let Work::Write { request, .. } = self.task(task).work else {
            unreachable!("a write");
        };
        for region in self.region_range(request.offset, request.length) {
            self.regions[region].in_flight += 1;
        }
        if self.may_write(task) {
            self.write_log(task, request);
        }
    }

    /// Issues a write when the log has its bits.
    pub(super) fn write_log(&mut self, task: u32, request: Request) {
        let mut waits = false;
        for region in self.region_range(request.offset, request.length) {
            let (block, bit) = place(region);
            let block = &mut self.log[block];
            if !block.durable.get(bit) || !block.wanted.get(bit) {
                block.wanted.set(bit, true);
                block.due = true;
                if block.waiting.last() != Some(&task) {
                    block.waiting.push(task);
                }
                waits = true;
            }
        }
        if !waits {
            self.write_issue(task);
        }
    }

    pub(super) fn write_issue(&mut self, task: u32) {
        if !self.may_write(task) {
            return;
        }
        let Work::Write {
            request,
            fua,
            issued,
        } = &mut self.task(task).work
        else {
            unreachable!("a write");
        };
        *issued = true;
        let (request, fua) = (*request, *fua);
        for leg in self.online().iter() {
            let range = (DATA + request.offset, request.length);
            let buffer = Buffer::Client(request.id);
            self.issue(task, leg, OpKind::Write { fua }, range, buffer);
        }
    }

    pub(super) fn write_ended(&mut self, task: u32, request: Request, fan: Fan) {
        let good = self.settle(&fan);
        for region in self.region_range(request.offset, request.length) {
            self.touched(region);
            if !good {
                self.differs(region);
            }
        }
        match good {
            true => self.ack(request.id),
            false => self.reply(request.id, Err(fan.error)),
        }
        self.release(task);
        self.end_task(task);
    }

    /// A write or copy in a region has ended.
    pub(super) fn touched(&mut self, region: usize) {
        let region = &mut self.regions[region];
        region.in_flight -= 1;
        region.written = self.flushes.started;
        region.tick = self.ticks;
    }

    /// Legs may differ in a region.
    pub(super) fn differs(&mut self, index: usize) {
        if self.online().count() < 2 {
            return;
        }
        let region = &mut self.regions[index];
        if let Some(copying) = self
            .resync
            .copying
            .as_mut()
            .filter(|copying| copying.region == index)
        {
            copying.again = true;
        }
        if region.stuck {
            region.stuck = false;
            self.resync.stuck -= 1;
            self.resync.to_copy += 1;
        } else if !region.needs_copy {
            region.needs_copy = true;
            self.resync.to_copy += 1;
            self.changed.push(index);
        }
        self.resync.first_to_copy = self.resync.first_to_copy.min(index);
    }

    /// A write whose log could not be written; no part of it was issued.
    pub(super) fn write_fails(&mut self, task: u32, request: Request, error: Errno) {
        for region in self.region_range(request.offset, request.length) {
            self.regions[region].in_flight -= 1;
            let (block, _) = place(region);
            self.log[block].waiting.retain(|waiting| *waiting != task);
        }
        self.reply(request.id, Err(error));
        self.release(task);
        self.end_task(task);
    }
}
