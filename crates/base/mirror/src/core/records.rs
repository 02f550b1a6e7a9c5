//! Records: updates of all superblocks, and looks at them.

use super::Mirror;
use super::interface::{Buffer, EIO, Errno, Notice, OpKind, Order};
use super::tasks::{Fan, Work};
use crate::legs::LegSet;
use crate::superblock::{BLOCK, COPIES, LegState};

impl Mirror {
    /// Reads the superblocks back.
    pub(super) fn look(&mut self) {
        let legs = match self.stopping {
            true => LegSet::NONE,
            false => self.online(),
        };
        for (leg, copy) in legs.iter().flat_map(|leg| [(leg, 0), (leg, 1)]) {
            let superblocks = &mut self.legs[leg].superblocks;
            let known = superblocks.known[copy].clone();
            let Some(expected) = known.filter(|_| !superblocks.looking[copy]) else {
                continue;
            };
            superblocks.looking[copy] = true;
            let written = superblocks.written;
            let task = self.add_task(Work::Look { copy, written });
            let range = (COPIES[copy], BLOCK as u32);
            let buffer = Buffer::Expected(expected);
            self.issue(task, leg, OpKind::Read, range, buffer);
        }
    }

    /// Updates the superblocks: the first copies get a new generation, and the second ones the next generation, which
    /// says that all legs have the first one. A leg in sync with an older one is a copy.
    ///
    /// A completely copied leg is in sync only after the others have recorded it. Otherwise writes could be
    /// acknowledged that only this leg has, while the others still mark it as behind. Its own superblock follows with
    /// the next record. Until then it does not claim to be in sync, because after a power failure the others may not
    /// agree.
    pub(super) fn record(&mut self) {
        for (part, leg) in self.assembly.parts.iter_mut().zip(&self.legs) {
            (part.member.state, part.member.seen) = (leg.state, leg.seen);
        }
        let opens = !self.epoch.waiting.is_empty();
        let of_start =
            self.assembly.outdated && self.records.recorded == 0 && self.records.version == 1;
        if !of_start || opens {
            // Every other record is of a change.
            if let Some(line) = self.settings.line.take() {
                self.assembly.fork(line);
            }
            self.assembly.unwritten = false;
        }
        let differ = self.resync.to_copy + self.resync.stuck > 0;
        self.resync.differed =
            differ || (self.resync.differed && self.resync.copied_at >= self.flushes.ended);
        let source = self.in_sync().first().filter(|_| self.resync.differed);
        self.assembly.source = source.map(|leg| self.assembly.parts[leg].member.uuid);
        self.assembly.generation += 1;
        self.records.recording = true;
        self.epoch.due = false;
        self.records.promoted = self.legs_where(|leg| leg.promoted);
        let task = self.add_task(Work::Record {
            version: self.records.version,
            opens,
            touches: opens || !of_start,
            tick: self.ticks,
            failed: None,
        });
        self.record_write(task, self.online(), false);
    }

    pub(super) fn announce(&mut self) {
        if self.records.recorded >= self.records.version
            && std::mem::take(&mut self.records.unannounced)
        {
            self.orders.push(Order::Notice(Notice::Recorded));
        }
    }

    /// Writes one copy of the superblock of each of these legs.
    fn record_write(&mut self, task: u32, legs: LegSet, second: bool) {
        for leg in legs.iter() {
            let mut superblock = self.assembly.superblock(leg);
            for other in self.records.promoted.without(LegSet::one(leg)).iter() {
                superblock.members[other].state = LegState::InSync;
            }
            let mut removed = self.legs.iter().map(|leg| leg.removed);
            (superblock.members).retain(|_| !removed.next().unwrap_or(false));
            let one = &mut self.legs[leg];
            let copy = one.first_copy ^ usize::from(second);
            let range = (COPIES[copy], BLOCK as u32);
            let new = Box::new(superblock.encode());
            let expected = one.superblocks.write(copy, &new);
            let buffer = Buffer::Superblock { expected, new };
            let kind = OpKind::Write { fua: true };
            self.issue(task, leg, kind, range, buffer);
        }
    }

    /// One copy was written. The second one is written only where the first was: a write that failed may have destroyed
    /// it.
    pub(super) fn record_ended(&mut self, task: u32, mut fan: Fan) {
        let Work::Record {
            version,
            opens,
            touches,
            tick,
            failed: first_failed,
        } = self.task(task).work
        else {
            unreachable!("a record");
        };
        if first_failed.is_none() {
            let missing = fan.issued.without(fan.ok);
            self.task(task).work = Work::Record {
                version,
                opens,
                touches,
                tick,
                failed: Some(missing),
            };
            let legs = fan.ok.and(self.online());
            if !legs.is_empty() {
                if missing.is_empty() && self.settings.epochs {
                    self.completed();
                }
                self.assembly.generation += u64::from(self.settings.epochs);
                return self.record_write(task, legs, true);
            }
        }
        // The copy that is valid for certain is written last when the leg has returned.
        for leg in fan.issued.without(fan.ok).iter() {
            self.legs[leg].first_copy ^= usize::from(first_failed.is_some());
        }
        for leg in first_failed.unwrap_or_default().iter() {
            fan.issued.add(leg);
        }
        self.end_task(task);
        self.records.recording = false;
        for leg in fan.ok.iter() {
            // The other copy has the generation before.
            self.legs[leg].seen = self.assembly.generation - u64::from(self.settings.epochs);
        }
        if !self.settle(&fan) {
            return match self.records.recorded < version {
                true => self.halt(),
                false => self.not_recorded(fan.error),
            };
        }
        self.records.recorded = version;
        self.records.recorded_tick = tick;
        self.records.untouched &= !touches;
        self.completed();
        self.announce();
        self.promote_recorded();
        while let Some((_, id)) = self
            .records
            .acks
            .front()
            .copied()
            .filter(|(needed, _)| *needed <= version)
        {
            self.records.acks.pop_front();
            self.reply(id, Ok(()));
        }
        let all = fan.issued.without(fan.ok).is_empty();
        match () {
            () if opens && all => self.opened(),
            () if std::mem::take(&mut self.epoch.closing) => {
                self.epoch.open = false;
                self.clean(u64::MAX);
            }
            () => {}
        }
    }

    /// All legs that get writes have the generation.
    fn completed(&mut self) {
        if !self.assembly.unwritten {
            self.assembly.complete = self.assembly.generation;
        }
    }

    /// An epoch was not recorded, and no change of the legs needs recording.
    fn not_recorded(&mut self, error: Errno) {
        self.epoch.closing = false;
        self.epoch.dirty = true;
        self.not_opened(error);
    }

    /// Legs that the last record called in sync for the first time are.
    fn promote_recorded(&mut self) {
        for leg in std::mem::take(&mut self.records.promoted).iter() {
            let one = &mut self.legs[leg];
            if std::mem::take(&mut one.promoted) {
                one.state = LegState::InSync;
                self.records.version += 1;
                self.orders.push(Order::Notice(Notice::InSync(leg)));
            }
        }
    }

    pub(super) fn halt(&mut self) {
        if std::mem::replace(&mut self.halted, true) {
            return;
        }
        self.orders.push(Order::Notice(Notice::Halted));
        while let Some((_, id)) = self.records.acks.pop_front() {
            self.reply(id, Err(EIO));
        }
    }
}
