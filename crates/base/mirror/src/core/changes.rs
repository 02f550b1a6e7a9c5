//! Legs that are dropped, added, removed and taken back.

use uuid::Uuid;

use super::Mirror;
use super::interface::{Cause, EBUSY, EINVAL, EIO, ENOSPC, ESHUTDOWN, Errno, Notice, OpId, Order};
use super::leg::{Leg, Superblocks};
use super::tasks::{Fan, Purpose};
use crate::assembly::Part;
use crate::intent::{self, Bits};
use crate::legs::LegSet;
use crate::superblock::{Fork, LegState, MAX_LEGS, Member};

impl Mirror {
    /// Evaluates a step that changed the legs: drops legs that failed it if another leg in sync completed it. Returns
    /// whether a leg in sync completed it.
    pub(super) fn settle(&mut self, fan: &Fan) -> bool {
        let good = fan.ok.and(self.in_sync());
        if good.is_empty() {
            return false;
        }
        for leg in fan.issued.without(fan.ok).and(self.online()).iter() {
            self.drop_leg(leg, self.failed(leg));
        }
        true
    }

    /// The cause if a leg is dropped because of a write or flush that it failed just now.
    pub(super) fn failed(&self, leg: usize) -> Cause {
        Cause::Failed(self.legs[leg].failure.expect("it failed"))
    }

    pub(super) fn drop_leg(&mut self, leg: usize, cause: Cause) {
        let length = self.assembly.geometry.length;
        let one = &mut self.legs[leg];
        one.online = false;
        one.cause = Some(cause);
        (one.flushing, one.promoted) = (false, false);
        if one.state == LegState::InSync {
            one.state = LegState::Behind { copied: length };
        }
        self.records.version += 1;
        self.orders
            .push(Order::Notice(Notice::Dropped { leg, cause }));
        self.give_up(leg);
    }

    /// The content of a leg is unknown, so all of it must be copied.
    pub(super) fn drop_for_good(&mut self, leg: usize, cause: Cause) {
        self.drop_other(leg, cause);
        let Some(one) = self.legs.get_mut(leg) else {
            return;
        };
        one.given &= cause != Cause::Replaced;
        let last = one.online;
        if last && cause != Cause::Short && one.cause != Some(cause) {
            self.orders.push(Order::Notice(Notice::Last { leg, cause }));
        }
        if one.cause != Some(Cause::Replaced) {
            one.cause = Some(cause);
        }
        let nothing = LegState::Behind { copied: 0 };
        if !one.online && !one.removed {
            self.records.version += u64::from(one.state != nothing);
            (one.state, one.copied) = (nothing, 0);
        }
        if cause == Cause::Overwritten {
            // Bad data of this leg may have been copied to them.
            for behind in self.online().without(self.in_sync()).iter() {
                self.drop_for_good(behind, Cause::Source);
            }
            if last {
                self.halt();
            }
        }
    }

    /// Why legs cannot be changed now.
    fn unchangeable(&self) -> Option<Errno> {
        match () {
            () if self.halted => Some(EIO),
            () if self.stopping => Some(ESHUTDOWN),
            () => None,
        }
    }

    pub(super) fn add(&mut self, id: u64, uuid: Uuid) {
        let full = (self.legs.len() == MAX_LEGS).then_some(ENOSPC);
        if let Some(errno) = self.unchangeable().or(full) {
            return self.reply(id, Err(errno));
        }
        let state = LegState::Behind { copied: 0 };
        self.assembly.parts.push(Part {
            member: Member {
                uuid,
                state,
                seen: 0,
            },
            given: Some(self.legs.len()),
        });
        self.legs.push(Leg::new());
        self.bring_online(self.legs.len() - 1);
        self.ack(id);
    }

    /// A leg in sync may leave when all data copied to the others are durable.
    pub(super) fn remove(&mut self, id: u64, leg: usize) {
        if let Some(errno) = self.irremovable(leg) {
            self.reply(id, Err(errno));
        } else if self.in_sync().has(leg) {
            self.flush(Purpose::Remove { id, leg }, self.online());
        } else {
            self.removed(id, leg);
        }
    }

    fn irremovable(&self, leg: usize) -> Option<Errno> {
        if self.legs.get(leg).is_none_or(|leg| leg.removed) {
            return Some(EINVAL);
        }
        let in_sync = self.in_sync();
        let needed = match in_sync.has(leg) {
            // Regions that may differ are read from one leg until they were copied from it.
            true => in_sync.count() == 1 || self.resync.to_copy > 0,
            false => false,
        };
        self.unchangeable().or(needed.then_some(EBUSY))
    }

    pub(super) fn removed(&mut self, id: u64, leg: usize) {
        if let Some(errno) = self.irremovable(leg) {
            return self.reply(id, Err(errno));
        }
        let one = &mut self.legs[leg];
        (one.online, one.removed) = (false, true);
        (one.flushing, one.promoted) = (false, false);
        self.records.version += 1;
        self.orders.push(Order::Notice(Notice::Removed(leg)));
        self.give_up(leg);
        self.ack(id);
    }

    pub(super) fn take_back(&mut self, id: u64, leg: usize, stored: Option<Fork>) {
        let dropped = |leg: &Leg| leg.given && !leg.online && !leg.removed;
        let refusal = (!self.legs.get(leg).is_some_and(dropped)).then_some(EINVAL);
        if let Some(errno) = self.unchangeable().or(refusal) {
            return self.reply(id, Err(errno));
        }
        let mirror = self.assembly.superblock(leg);
        let one = &mut self.legs[leg];
        let own = |stored: Fork| stored.generation >= one.seen && mirror.passed(stored);
        if !stored.is_some_and(own) {
            one.state = LegState::Behind { copied: 0 };
        }
        one.superblocks = Superblocks::default();
        if let LegState::Behind { copied } = one.state {
            // Data copied later may not be durable.
            one.copied = copied;
        }
        self.bring_online(leg);
        // It may lack data only in these: no bit is cleared while a leg is behind.
        for index in 0..self.log.len() {
            let bits: Vec<usize> = self.log[index].wanted.iter().collect();
            for bit in bits {
                let region = index * intent::REGIONS as usize + bit;
                if region < self.regions.len() {
                    self.differs(region);
                }
            }
        }
        self.ack(id);
    }

    /// From now on, a leg that is behind gets writes.
    fn bring_online(&mut self, leg: usize) {
        let one = &mut self.legs[leg];
        one.online = true;
        one.cause = None;
        self.resync.rebuild = self.resync.rebuild.min(one.copied);
        self.resync.rebuild_stuck = false;
        self.records.version += 1;
        // Its log lacks the bits.
        for block in &mut self.log {
            block.durable = Bits::none();
            block.outdated = block.writing.is_some();
            block.due = true;
        }
    }

    /// Counts the ops in flight on a leg as failed.
    fn give_up(&mut self, leg: usize) {
        for (slot, op) in self.ops.iter().enumerate() {
            if op.used.is_some_and(|(_, used)| used == leg) {
                self.lost.push_back(OpId {
                    slot: slot as u32,
                    generation: op.generation,
                });
            }
        }
    }

    /// Drops these legs, which failed a write or flush, except the last leg in sync. The mirror waits for that one: an
    /// abandoned write on it could overwrite a later one.
    pub(super) fn drop_others(&mut self, legs: LegSet) {
        for leg in legs.iter() {
            self.drop_other(leg, self.failed(leg));
        }
    }

    pub(super) fn drop_other(&mut self, leg: usize, cause: Cause) {
        let others = self.in_sync().without(LegSet::one(leg));
        if self.online().has(leg) && !others.is_empty() {
            self.drop_leg(leg, cause);
        }
    }
}
