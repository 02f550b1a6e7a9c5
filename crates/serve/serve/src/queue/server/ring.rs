//! The ring: ops are issued to the legs, and end.

use std::rc::Rc;

use iodyno_mirror::LegSet;
use iodyno_mirror::core::{Errno, Event, OpKind, UNEXPECTED};
use iodyno_mirror::superblock::{BLOCK, DATA};
use iodyno_model::errno::{EIO, EOPNOTSUPP};
use iodyno_sys::{Backend, Clock, Completion, Device, Op as KernelOp, OpKind as KernelKind};

use super::{InFlightIo, LegOp, Memory, Server};

const PRESENT: &str = "ops go to legs that are present";

impl Server<'_> {
    /// Issues what the legs have room for.
    pub(super) fn submit(&mut self) {
        if !self.listening {
            self.listening = true;
            self.backend.prep(
                self.wake_slot,
                &KernelOp::new(KernelKind::Read, self.wake_file, 0, 8),
            );
        }
        self.long = LegSet::NONE;
        for leg in 0..self.legs.len() {
            while let Some(slot) = self.legs[leg].free_slots().and_then(Vec::pop) {
                if !self.issue_next(leg, slot) {
                    self.legs[leg].free_slots().expect(PRESENT).push(slot);
                    break;
                }
            }
            self.legs[leg].commands.give_back_unneeded();
        }
    }

    /// Issues the next op of a leg in a slot; `false`: nothing waits, or there is no place.
    fn issue_next(&mut self, leg: usize, slot: u32) -> bool {
        let now = self.clock.now();
        let mut entries = self.lists.pop().unwrap_or_default();
        let state = &mut self.legs[leg];
        let command = match state.direct.pop_front() {
            Some(entry) => {
                entries.push(entry);
                None
            }
            None => match state.commands.issue(now, &mut entries) {
                Some(command) => Some(command.first),
                None => {
                    self.lists.push(entries);
                    return false;
                }
            },
        };
        let entry = |number: &u32| self.entries[*number as usize].as_ref().expect("in use");
        let first = entry(&entries[0]);
        let kind = match first.kind {
            OpKind::Write { .. } if first.is_hole() => KernelKind::Trim,
            OpKind::Read => KernelKind::Read,
            OpKind::Write { .. } => KernelKind::Write,
            OpKind::Flush => KernelKind::Fdatasync,
        };
        let fua = entries
            .iter()
            .any(|number| entry(number).kind == OpKind::Write { fua: true });
        let offset = first.offset;
        let length = self.fill(slot, &entries, kind);
        let first = self.entries[entries[0] as usize].as_ref();
        let first = &first.expect("in use").memory;
        let delayed = matches!(kind, KernelKind::Read | KernelKind::Write)
            && !matches!(first, Memory::Expected(_))
            && self.legs[leg].delay.is_some();
        let begins = match first {
            Memory::Superblock {
                expected: Some(_), ..
            } => KernelKind::Read,
            _ => kind,
        };
        self.flights[slot as usize] = Some(InFlightIo {
            leg,
            entries,
            command,
            kind: begins,
            fua,
            offset,
            length,
            done: 0,
            since: now,
            delayed,
            ended: None,
        });
        if kind != KernelKind::Read && self.is_short(leg) {
            self.events.push_back(Event::Shortened { leg });
            self.ended(slot, Err(EIO), now);
            return true;
        }
        let op = self.prepare(slot);
        if let Some(disk) = self.legs[leg].delay.as_mut().filter(|_| delayed) {
            disk.submit(now, slot, &KernelOp { kind, ..op });
        }
        true
    }

    /// Puts what ops write into the buffer of a slot. Returns the length of all.
    fn fill(&mut self, slot: u32, entries: &[u32], kind: KernelKind) -> u32 {
        let mut length = 0;
        for number in entries {
            let entry = self.entries[*number as usize].as_ref().expect("in use");
            let buffer = &mut self.backend.buffer(slot)[length as usize..][..entry.length as usize];
            match &entry.memory {
                Memory::From(bytes) => buffer.copy_from_slice(&bytes[..buffer.len()]),
                Memory::Superblock { new, .. } => buffer.copy_from_slice(&new[..]),
                Memory::Client(id) if kind == KernelKind::Write => {
                    let part = &self.parts[id];
                    let bytes = &self.requests[&part.request].bytes;
                    buffer.copy_from_slice(&bytes[part.at..][..buffer.len()]);
                }
                Memory::Zeros { .. } => buffer.fill(0),
                Memory::None | Memory::Client(_) | Memory::Own(..) | Memory::Expected(_) => {}
            }
            length += entry.length;
        }
        length
    }

    /// Whether a leg was shortened. A write would extend its file again, with zeros in place of the lost data.
    pub(super) fn is_short(&mut self, leg: usize) -> bool {
        let present = self.legs[leg].present.as_ref();
        let Some(present) = present.filter(|_| !self.long.has(leg)) else {
            return false;
        };
        let needed = DATA + self.mirror.assembly().geometry.length;
        let short = present.held.length().is_ok_and(|length| length < needed);
        if !short {
            self.long.add(leg);
        }
        short
    }

    /// Ends what the simulated disks of legs have ended.
    pub(super) fn end_delays(&mut self) {
        let now = self.clock.now();
        for leg in 0..self.legs.len() {
            while let Some(end) =
                (self.legs[leg].delay.as_mut()).and_then(|disk| disk.take_ended(now))
            {
                let flight = self.flights[end.slot as usize].as_mut().expect("in flight");
                flight.delayed = false;
                if let Some((result, at)) = flight.ended {
                    self.ended(end.slot, result, at.max(end.at));
                }
            }
        }
    }

    /// Submits what remains of a slot's op, and returns it.
    fn prepare(&mut self, slot: u32) -> KernelOp {
        let flight = self.flights[slot as usize].as_ref().expect("in flight");
        let present = self.legs[flight.leg].present.as_ref().expect(PRESENT);
        let op = KernelOp {
            kind: flight.kind,
            file: present.lane.file,
            offset: flight.offset + u64::from(flight.done),
            length: flight.length - flight.done,
            skip: flight.done,
            priority: 0,
        };
        let durable = flight.fua && flight.kind == KernelKind::Write;
        match (present.held.may_block, durable) {
            (true, durable) => self.backend.prep_in_worker(slot, &op, durable),
            (false, true) => self.backend.prep_durable(slot, &op),
            (false, false) => self.backend.prep(slot, &op),
        }
        op
    }

    pub(super) fn completed(&mut self, completion: &Completion) {
        let slot = completion.slot;
        if slot == self.wake_slot {
            self.listening = false;
            return;
        }
        let flight = self.flights[slot as usize].as_mut().expect("in flight");
        if let KernelKind::Read | KernelKind::Write = flight.kind
            && completion.result > 0
        {
            flight.done += completion.result as u32;
            // A rest that is not aligned cannot be transferred directly; it is an error below.
            if flight.done < flight.length && flight.done.is_multiple_of(512) {
                self.prepare(slot);
                return;
            }
        }
        let whole = match flight.kind {
            KernelKind::Read | KernelKind::Write => flight.done == flight.length,
            _ => completion.result >= 0,
        };
        // The file system has no holes. The buffer holds zeros.
        if flight.kind == KernelKind::Trim && !whole && completion.result == -EOPNOTSUPP {
            flight.kind = KernelKind::Write;
            self.prepare(slot);
            return;
        }
        let result = match whole {
            true => Ok(()),
            false if completion.result < 0 => Err(-completion.result),
            false => {
                if flight.kind == KernelKind::Read {
                    let leg = flight.leg;
                    self.events.push_back(Event::Shortened { leg });
                }
                Err(EIO)
            }
        };
        if result.is_ok() && flight.kind == KernelKind::Trim && flight.fua {
            (flight.kind, flight.fua) = (KernelKind::Fdatasync, false);
            (flight.done, flight.length) = (0, 0);
            self.prepare(slot);
            return;
        }
        let Some(result) = self.superblock_read(slot, completion.result >= 0, result) else {
            return;
        };
        let flight = self.flights[slot as usize].as_mut().expect("in flight");
        match flight.delayed {
            true => flight.ended = Some((result, completion.completed)),
            false => self.ended(slot, result, completion.completed),
        }
    }

    /// If a copy of the superblock was read, it is overwritten if it is as expected, or the leg could not read it.
    /// `None`: that is in progress.
    fn superblock_read(
        &mut self,
        slot: u32,
        answered: bool,
        result: Result<(), Errno>,
    ) -> Option<Result<(), Errno>> {
        let flight = self.flights[slot as usize].as_mut().expect("in flight");
        let entry = self.entries[flight.entries[0] as usize].as_ref();
        let entry = entry.expect("in use");
        let (expected, new) = match &entry.memory {
            Memory::Superblock {
                expected: Some(expected),
                new,
            } if flight.kind == KernelKind::Read => (expected, Some(new)),
            Memory::Expected(expected) => (expected, None),
            _ => return Some(result),
        };
        let buffer = &mut self.backend.buffer(slot)[..BLOCK];
        if result.is_ok() && buffer != &expected[..] {
            return Some(Err(UNEXPECTED));
        }
        // Nothing is written if the leg became shorter, or was dropped.
        let write = (result.is_ok() || !answered) && self.mirror.awaits(entry.id);
        let Some(new) = new.filter(|_| write) else {
            return Some(result);
        };
        buffer.copy_from_slice(&new[..]);
        (flight.kind, flight.done) = (KernelKind::Write, 0);
        self.prepare(slot);
        None
    }

    /// The op of a slot has ended at this time, ns.
    fn ended(&mut self, slot: u32, result: Result<(), Errno>, at: u64) {
        let flight = self.flights[slot as usize].take().expect("in flight");
        let leg = &mut self.legs[flight.leg];
        leg.free_slots().expect(PRESENT).push(slot);
        if let Some(command) = flight.command {
            leg.commands.complete(command, at);
        }
        // One bad sector does not fail what was merged with it. A flush that failed is never repeated.
        let transfers = matches!(flight.kind, KernelKind::Read | KernelKind::Write);
        let online = self.mirror.online().has(flight.leg);
        if result.is_err() && transfers && flight.entries.len() > 1 && online {
            self.legs[flight.leg].direct.extend(&flight.entries);
            return self.keep(flight.entries);
        }
        let mut at = 0;
        for &number in &flight.entries {
            let entry = self.entries[number as usize].take().expect("in use");
            self.free_entries.push(number);
            let length = entry.length as usize;
            if result.is_ok() && self.mirror.awaits(entry.id) {
                self.deliver(&entry, slot, at);
            }
            at += length;
            self.events.push_back(Event::Done {
                op: entry.id,
                result,
            });
        }
        self.keep(flight.entries);
    }

    /// Keeps a list to use it again.
    fn keep(&mut self, mut entries: Vec<u32>) {
        entries.clear();
        self.lists.push(entries);
    }

    /// Passes on what was read.
    fn deliver(&mut self, entry: &LegOp, slot: u32, at: usize) {
        let length = entry.length as usize;
        let bytes = &self.backend.buffer(slot)[at..at + length];
        match entry.memory {
            Memory::Client(id) if entry.kind == OpKind::Read => {
                let part = &self.parts[&id];
                let open = self.requests.get_mut(&part.request);
                let open = open.expect("a request with parts");
                open.bytes[part.at..part.at + length].copy_from_slice(bytes);
            }
            Memory::Own(task, part) => {
                self.own.insert((task, part), Rc::from(bytes));
            }
            _ => {}
        }
    }
}
