//! Copies to legs that are behind, and in regions where legs may differ.

use super::interface::{Buffer, Notice, OpKind, Order, Request};
use super::tasks::{Fan, Reason, Work};
use super::{Copying, Mirror};
use crate::legs::LegSet;
use crate::superblock::{DATA, LegState};

impl Mirror {
    pub(super) fn repair(&mut self, leg: usize, request: Request) {
        if self.in_sync().has(leg) && !self.stopping {
            self.add_copy(Reason::Repair(leg), request.offset, request.length);
        }
    }

    pub(super) fn add_copy(&mut self, reason: Reason, offset: u64, length: u32) {
        let tried = match reason {
            Reason::Repair(leg) => LegSet::one(leg),
            _ => LegSet::NONE,
        };
        let task = self.add_task(Work::Copy {
            reason,
            offset,
            length,
            tried,
            writing: false,
        });
        self.resync.copies += 1;
        for region in self.region_range(offset, length) {
            self.regions[region].in_flight += 1;
        }
        if self.ranges.take(task, offset, u64::from(length)) {
            self.copy(task);
        }
    }

    /// Reads the range of a copy from the first leg that was not tried.
    pub(super) fn copy(&mut self, task: u32) {
        let legs = self.in_sync();
        let Work::Copy {
            offset,
            length,
            tried,
            ..
        } = &mut self.task(task).work
        else {
            unreachable!("a copy");
        };
        let (offset, length) = (*offset, *length);
        let tried_before = *tried;
        let Some(leg) = legs.without(tried_before).first() else {
            return self.copy_ended(task, None);
        };
        let Work::Copy { tried, .. } = &mut self.task(task).work else {
            unreachable!("a copy");
        };
        tried.add(leg);
        let buffer = Buffer::Own { task, part: 0 };
        let range = (DATA + offset, length);
        self.issue(task, leg, OpKind::Read, range, buffer);
    }

    pub(super) fn copy_write(&mut self, task: u32) {
        if !self.may_write(task) {
            return;
        }
        let online = self.online();
        let behind = online.without(self.in_sync());
        let Work::Copy {
            reason,
            offset,
            length,
            tried,
            writing,
        } = &mut self.task(task).work
        else {
            unreachable!("a copy");
        };
        *writing = true;
        let (offset, length) = (*offset, *length);
        // The last tried leg is the source; legs that failed before are rewritten too.
        let targets = match *reason {
            Reason::Region => online,
            Reason::Rebuild => behind,
            Reason::Repair(leg) => online.and(LegSet::one(leg)),
        };
        let source = match *reason {
            Reason::Region if tried.count() == 1 => *tried,
            _ => LegSet::NONE,
        };
        let targets = targets.without(source);
        if targets.is_empty() {
            return self.copy_ended(task, Some(Fan::default()));
        }
        for leg in targets.iter() {
            let buffer = Buffer::Own { task, part: 0 };
            let range = (DATA + offset, length);
            let kind = OpKind::Write { fua: false };
            self.issue(task, leg, kind, range, buffer);
        }
    }

    /// `None`: no leg could be read.
    pub(super) fn copy_ended(&mut self, task: u32, fan: Option<Fan>) {
        let (reason, offset, length) = self.leave_copy(task);
        match fan {
            Some(fan) => {
                let failed = fan.issued.without(fan.ok);
                self.drop_others(failed);
                // Only the last leg in sync stays although it failed.
                if !failed.and(self.online()).is_empty() {
                    for region in self.region_range(offset, length) {
                        self.differs(region);
                    }
                }
                if let Reason::Repair(leg) = reason
                    && fan.ok.has(leg)
                {
                    self.orders.push(Order::Notice(Notice::Repaired {
                        leg,
                        offset,
                        length,
                    }));
                }
            }
            None => self
                .orders
                .push(Order::Notice(Notice::Unreadable { offset, length })),
        }
        match reason {
            Reason::Region => self.region_copied(fan.is_some()),
            Reason::Rebuild => self.rebuilt(offset, fan.is_some()),
            Reason::Repair(_) => {}
        }
        self.release(task);
        self.orders.push(Order::Free { task });
        self.end_task(task);
    }

    /// Releases the regions that a copy task held. Returns its reason, its position and the bytes it has copied.
    fn leave_copy(&mut self, task: u32) -> (Reason, u64, u32) {
        let Work::Copy {
            reason,
            offset,
            length,
            ..
        } = self.task(task).work
        else {
            unreachable!("a copy");
        };
        self.resync.copies -= 1;
        for region in self.region_range(offset, length) {
            self.touched(region);
        }
        (reason, offset, length)
    }

    /// A copy that was read and may not be written. It is copied again.
    pub(super) fn copy_abandoned(&mut self, task: u32) {
        let (reason, offset, _) = self.leave_copy(task);
        match reason {
            Reason::Region => {
                if let Some(copying) = &mut self.resync.copying {
                    copying.again = true;
                }
                self.region_copied(true);
            }
            Reason::Rebuild => {
                let stuck = self.resync.rebuild_stuck;
                self.rebuilt(offset, false);
                self.resync.rebuild_stuck = stuck;
            }
            Reason::Repair(_) => {}
        }
        self.release(task);
        self.orders.push(Order::Free { task });
        self.end_task(task);
    }

    fn region_copied(&mut self, copied: bool) {
        let mut copying = self.resync.copying.expect("a region being copied");
        copying.pending -= 1;
        self.resync.copying = Some(copying);
        let end = self.region_end(copying.region);
        let region = &mut self.regions[copying.region];
        if !copied && !region.stuck {
            region.stuck = true;
            self.resync.stuck += 1;
            self.resync.to_copy -= 1;
        }
        self.resync.differed = true;
        self.resync.copied_at = self.flushes.started;
        if copying.pending == 0 && (copying.next >= end || region.stuck) {
            self.resync.copying = None;
            if !region.stuck && !copying.again {
                region.needs_copy = false;
                self.resync.to_copy -= 1;
                self.changed.push(copying.region);
            }
        }
    }

    fn region_end(&self, region: usize) -> u64 {
        let geometry = &self.assembly.geometry;
        ((region as u64 + 1) * geometry.region).min(geometry.length)
    }

    fn rebuilt(&mut self, offset: u64, copied: bool) {
        // After a leg was added, a range may be copied twice, one copy after the other.
        if let Some(at) = self
            .resync
            .rebuilding
            .iter()
            .position(|start| *start == offset)
        {
            self.resync.rebuilding.swap_remove(at);
        }
        if !copied {
            self.resync.rebuild_stuck = true;
            // Nothing from here on counts as copied.
            self.resync.rebuild = self.resync.rebuild.min(offset);
        }
        let upto = self.resync.rebuilding.iter().copied().min();
        let upto = upto.unwrap_or(self.resync.rebuild).min(self.resync.rebuild);
        for leg in &mut self.legs {
            if leg.online && leg.state != LegState::InSync {
                leg.copied = leg.copied.max(upto);
            }
        }
    }

    /// Starts copies until the credit is used up.
    pub(super) fn resync(&mut self) {
        while self.resync.copies < self.settings.copies && self.resync.credit > 0 {
            if self.resync.copying.is_none() && self.resync.to_copy > 0 {
                let regions = self
                    .regions
                    .iter()
                    .enumerate()
                    .skip(self.resync.first_to_copy);
                let region = regions
                    .filter(|(_, region)| region.needs_copy && !region.stuck)
                    .map(|(index, _)| index)
                    .next()
                    .expect("counted");
                self.resync.first_to_copy = region;
                self.resync.copying = Some(Copying {
                    region,
                    next: region as u64 * self.assembly.geometry.region,
                    pending: 0,
                    again: false,
                });
            }
            let most = u64::from(self.settings.copy_bytes);
            if let Some(copying) = self.resync.copying {
                let end = self.region_end(copying.region);
                if copying.next >= end || self.regions[copying.region].stuck {
                    return;
                }
                let length = most.min(end - copying.next);
                self.resync.credit = self.resync.credit.saturating_sub(length);
                self.resync.copying = Some(Copying {
                    next: copying.next + length,
                    pending: copying.pending + 1,
                    ..copying
                });
                self.add_copy(Reason::Region, copying.next, length as u32);
                continue;
            }
            let behind = !self.online().without(self.in_sync()).is_empty();
            let length = self.assembly.geometry.length;
            if !behind || self.resync.rebuild_stuck || self.resync.rebuild >= length {
                return;
            }
            let (offset, length) = (self.resync.rebuild, most.min(length - self.resync.rebuild));
            self.resync.credit = self.resync.credit.saturating_sub(length);
            self.resync.rebuild += length;
            self.resync.rebuilding.push(offset);
            self.add_copy(Reason::Rebuild, offset, length as u32);
        }
    }
}
