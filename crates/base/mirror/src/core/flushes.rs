//! Flushes, and the conclusions from a completed one.

use super::interface::{Buffer, OpKind};
use super::tasks::{Fan, Purpose, Work};
use super::{Mirror, place};
use crate::legs::LegSet;
use crate::superblock::LegState;

impl Mirror {
    pub(super) fn flush(&mut self, purpose: Purpose, legs: LegSet) {
        self.flushes.started += 1;
        let number = self.flushes.started;
        let task = self.add_task(Work::Flush { purpose, number });
        for leg in legs.iter() {
            self.issue(task, leg, OpKind::Flush, (0, 0), Buffer::None);
        }
    }

    pub(super) fn flush_ended(&mut self, purpose: Purpose, number: u64, fan: Fan) {
        if let Purpose::Copied { leg, bytes } = purpose {
            return self.leg_flushed(leg, bytes, &fan);
        }
        let good = self.settle(&fan);
        if good {
            self.flushes.ended = self.flushes.ended.max(number);
        } else {
            // Each leg may have lost other writes.
            for region in 0..self.regions.len() {
                let (block, bit) = place(region);
                if self.log[block].wanted.get(bit)
                    && self.regions[region].written >= self.flushes.ended
                {
                    self.differs(region);
                }
            }
        }
        match purpose {
            Purpose::Client(id) if good => self.ack(id),
            Purpose::Client(id) => self.reply(id, Err(fan.error)),
            Purpose::Remove { id, leg } if good => self.removed(id, leg),
            Purpose::Remove { id, .. } => self.reply(id, Err(fan.error)),
            Purpose::Clean => self.flushes.cleaning = false,
            Purpose::Close => {
                self.epoch.closing &= good;
                self.epoch.due |= self.epoch.closing;
            }
            Purpose::Stop if good => self.record_copied(),
            Purpose::Stop | Purpose::Copied { .. } => {}
        }
    }

    /// All legs were flushed and nothing is in flight: copied data are durable.
    fn record_copied(&mut self) {
        for leg in self.legs.iter_mut().filter(|leg| leg.online) {
            let copied = LegState::Behind { copied: leg.copied };
            if leg.state != LegState::InSync && leg.state != copied {
                leg.state = copied;
                self.records.version += 1;
            }
        }
    }

    fn leg_flushed(&mut self, leg: usize, bytes: u64, fan: &Fan) {
        self.legs[leg].flushing = false;
        if !self.legs[leg].online {
            return;
        }
        if !fan.ok.has(leg) {
            return self.drop_leg(leg, self.failed(leg));
        }
        let whole = bytes == self.assembly.geometry.length;
        let copied = self.resync.to_copy + self.resync.stuck == 0 && self.resync.copies == 0;
        if whole && copied {
            self.legs[leg].promoted = true;
        } else {
            self.legs[leg].state = LegState::Behind { copied: bytes };
        }
        self.records.version += 1;
    }

    /// Flushes a leg to record that it was copied up to here.
    pub(super) fn copied(&mut self, leg: usize, bytes: u64) {
        self.legs[leg].flushing = true;
        let purpose = Purpose::Copied { leg, bytes };
        self.flush(purpose, LegSet::one(leg));
    }

    /// Flushes completely copied legs, and records them as in sync.
    pub(super) fn promote(&mut self) {
        let length = self.assembly.geometry.length;
        if self.resync.to_copy + self.resync.stuck > 0 || self.resync.copies > 0 {
            return;
        }
        for leg in 0..self.legs.len() {
            let one = &self.legs[leg];
            let behind = one.online && one.state != LegState::InSync;
            if behind && one.copied == length && !one.flushing && !one.promoted {
                self.copied(leg, length);
            }
        }
    }
}
