//! The write-intent log: bits are set before a write and cleared when all legs have it.

use super::interface::{Buffer, EIO, OpKind, Request};
use super::tasks::{Fan, Work};
use super::{Mirror, place};
use crate::intent::{self};
use crate::superblock::{BLOCK, LOG};

impl Mirror {
    pub(super) fn log_write(&mut self, block: usize) {
        let legs = self.online();
        let one = &mut self.log[block];
        one.due = false;
        one.durable.keep(&one.wanted);
        one.writing = Some(one.wanted.clone());
        self.log_writes += 1;
        let mirror = self.assembly.mirror;
        let bytes = Box::new(one.wanted.encode(mirror, block as u64, self.log_writes));
        let task = self.add_task(Work::Log { block });
        let range = (LOG + (block * BLOCK) as u64, BLOCK as u32);
        for leg in legs.iter() {
            let buffer = Buffer::Block(bytes.clone());
            self.issue(task, leg, OpKind::Write { fua: true }, range, buffer);
        }
    }

    pub(super) fn log_ended(&mut self, block: usize, fan: Fan) {
        let good = self.settle(&fan);
        let one = &mut self.log[block];
        let written = one.writing.take().expect("a block being written");
        let outdated = std::mem::take(&mut one.outdated);
        if good && !outdated {
            one.durable = written;
        }
        let waiting = std::mem::take(&mut one.waiting);
        for task in waiting {
            let Work::Write {
                request, issued, ..
            } = self.task(task).work
            else {
                unreachable!("only writes wait for the log");
            };
            debug_assert!(!issued, "waits for the log");
            match self.unlogged(request) {
                None => self.write_issue(task),
                Some(at) if good || at != block => {
                    // Waits already if it is another block.
                    if !self.log[at].waiting.contains(&task) {
                        self.log[at].waiting.push(task);
                        self.log[at].due = true;
                    }
                }
                Some(_) => self.write_fails(task, request, fan.error),
            }
        }
    }

    /// A block of the log that lacks a bit of the regions of a write.
    fn unlogged(&self, request: Request) -> Option<usize> {
        let mut regions = self.region_range(request.offset, request.length);
        regions.find_map(|region| {
            let (block, bit) = place(region);
            (!self.log[block].durable.get(bit)).then_some(block)
        })
    }

    /// Fails the writes that wait for log blocks if no write of these blocks is in flight.
    pub(super) fn fail_waiting(&mut self) {
        for block in 0..self.log.len() {
            while self.log[block].writing.is_none()
                && let Some(task) = self.log[block].waiting.pop()
            {
                let Work::Write { request, .. } = self.task(task).work else {
                    unreachable!("only writes wait for the log");
                };
                self.write_fails(task, request, EIO);
            }
        }
    }

    /// Clears the bits of regions that were last written before this tick and the last record. Returns whether some
    /// only lack a flush.
    pub(super) fn clean(&mut self, before: u64) -> bool {
        // Nothing was written since the record that closed the epoch.
        let before = match self.settings.epochs && self.epoch.open {
            true => before.min(self.records.recorded_tick),
            false => before,
        };
        // A removed leg stays in the table until its removal is recorded, and the bits say what it lacks.
        if !self.all_in_sync() || self.records.recorded < self.records.version {
            return false;
        }
        let mut unflushed = false;
        for (index, block) in self.log.iter_mut().enumerate() {
            let mut cleaned = Vec::new();
            for bit in block.wanted.iter() {
                let region = &self.regions[index * intent::REGIONS as usize + bit];
                if region.in_flight > 0 || region.needs_copy || region.tick >= before {
                    continue;
                }
                match region.written < self.flushes.ended {
                    true => cleaned.push(bit),
                    false => unflushed = true,
                }
            }
            for bit in &cleaned {
                block.wanted.set(*bit, false);
            }
            block.due |= !cleaned.is_empty();
        }
        unflushed
    }
}
