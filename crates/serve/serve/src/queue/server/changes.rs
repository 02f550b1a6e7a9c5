//! Changes of the legs of a running mirror, and its state.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use iodyno_mirror::core::{Errno, Event};
use iodyno_mirror::superblock::Member;
use uuid::Uuid;

use super::{Server, answer, leg_queue};
use crate::queue::ask::{Ask, LegStatus, OpenLeg, Status};
use crate::queue::leg_file::{Held, Place, copy_of, leg_file};
use crate::queue::shared::{TableLeg, placeholder, watch_place};

const EBUSY: Errno = 16;
const EINVAL: Errno = 22;
const EMFILE: Errno = 24;

impl Server<'_> {
    pub(super) fn asked(&mut self, ask: Ask) {
        self.handle_events();
        self.reclaim();
        match ask {
            Ask::Status(reply) => drop(reply.send(self.status())),
            Ask::Add { uuid, leg, reply } => self.add(uuid, leg, reply),
            Ask::Remove { uuid, reply } => match self.leg_of(uuid) {
                Some(leg) => self.change(reply, |id| Event::Remove { id, leg }),
                None => answer(&reply, Err(EINVAL)),
            },
            Ask::Return {
                uuid,
                stored,
                reply,
            } => match self.leg_of(uuid) {
                Some(leg) if self.in_flight(leg) > 0 => answer(&reply, Err(EBUSY)),
                Some(leg) => self.change(reply, |id| Event::Return { id, leg, stored }),
                None => answer(&reply, Err(EINVAL)),
            },
            Ask::Scrub { from, reply, found } => {
                let from = from.map(|uuid| self.leg_of(uuid));
                let errno = match from {
                    Some(None) => Some(EINVAL),
                    _ if self.mirror.scrubbed().is_some() => Some(EBUSY),
                    _ => None,
                };
                if errno.is_none() {
                    self.scrub = Some(found);
                    let from = from.flatten();
                    self.events.push_back(Event::Scrub { from });
                }
                answer(&reply, errno.map_or(Ok(()), Err));
            }
        }
    }

    fn leg_of(&self, uuid: Uuid) -> Option<usize> {
        let mut members = self.mirror.members();
        members
            .find(|(_, member)| member.uuid == uuid)
            .map(|(leg, _)| leg)
    }

    fn in_flight(&self, leg: usize) -> u32 {
        let flights = self.flights.iter().flatten();
        let own = flights.filter(|flight| flight.leg == leg).count() as u32;
        own + self.shared.board.commands_of_others(leg)
    }

    fn change(&mut self, reply: Sender<Result<(), Errno>>, event: impl FnOnce(u64) -> Event) {
        let id = self.next_id;
        self.next_id += 1;
        self.changes.insert(id, reply);
        self.events.push_back(event(id));
        self.handle_events();
    }

    fn add(&mut self, uuid: Uuid, leg: OpenLeg, reply: Sender<Result<(), Errno>>) {
        let (Some(descriptor), Some((lane, slots))) = (leg.descriptor, self.spare.pop()) else {
            return answer(&reply, Err(EMFILE));
        };
        let (Ok(copy), Ok(held)) = (copy_of(&descriptor), Held::of(&descriptor)) else {
            self.spare.push((lane, slots));
            return answer(&reply, Err(EMFILE));
        };
        let file = leg_file(descriptor);
        if self.backend.replace_file(lane, file).is_err() {
            self.spare.push((lane, slots));
            return answer(&reply, Err(EMFILE));
        }
        self.names.push(leg.name);
        self.paths.push(leg.path);
        self.rotational.push(leg.rotational);
        self.zeroes.push(leg.zeroes);
        self.delays.push(leg.delay);
        self.files.push(Some(lane));
        self.held.push(Some(held));
        self.free_slots.push(slots);
        let count = self.queues.len() + 1;
        self.queues.push(leg_queue(&self.shared, count - 1));
        self.direct.push(VecDeque::new());
        self.build_policies(count);
        self.change(reply, |id| Event::Add { id, uuid });
        if self.mirror.assembly().parts.len() < self.queues.len() {
            // It was refused.
            self.names.pop();
            self.paths.pop();
            self.rotational.pop();
            self.zeroes.pop();
            self.delays.pop();
            self.files.pop();
            self.held.pop();
            self.queues.pop();
            self.direct.pop();
            self.build_policies(count - 1);
            let slots = self.free_slots.pop().unwrap_or_default();
            return self.free_lane(lane, slots);
        }
        let leg = TableLeg {
            file: Some(copy),
            rotational: self.rotational[count - 1],
            apart: self.is_apart(count - 1),
            place: Place::of(
                self.paths[count - 1].as_ref(),
                self.held[count - 1].as_ref(),
            ),
        };
        self.shared.change(|table| table.legs.push(leg));
        // Without a thread, only the next start notices that its file was replaced.
        let _ = watch_place(Arc::clone(&self.shared), count - 1);
    }

    /// Frees the lanes of legs that were removed and have returned their last op.
    pub(super) fn reclaim(&mut self) {
        for leg in 0..self.files.len() {
            let removed = self.mirror.members().all(|(member, _)| member != leg);
            if let Some(lane) = self.files[leg]
                && removed
                && self.in_flight(leg) == 0
            {
                self.files[leg] = None;
                self.held[leg] = None;
                let slots = std::mem::take(&mut self.free_slots[leg]);
                self.free_lane(lane, slots);
            }
        }
    }

    /// Closes the leg of a lane.
    fn free_lane(&mut self, lane: u32, slots: Vec<u32>) {
        let closed =
            placeholder(&self.inbox).and_then(|file| self.backend.replace_file(lane, file));
        if closed.is_ok() {
            self.spare.push((lane, slots));
        }
    }

    fn status(&self) -> Status {
        let assembly = self.mirror.assembly();
        let online = self.mirror.online();
        let leg = |(leg, member): (usize, Member)| LegStatus {
            member,
            name: self.names[leg].clone(),
            path: self.paths[leg].clone(),
            online: online.has(leg),
            in_flight: self.in_flight(leg),
            cause: self.mirror.cause(leg),
        };
        let legs: Vec<LegStatus> = self.mirror.members().map(leg).collect();
        let members = self.mirror.members().map(|(leg, _)| leg);
        let members: Vec<usize> = members.collect();
        let removed = (0..self.files.len()).filter(|leg| !members.contains(leg));
        let in_flight_removed = removed.map(|leg| self.in_flight(leg)).sum();
        Status {
            mirror: assembly.mirror,
            generation: assembly.generation,
            geometry: assembly.geometry,
            to_copy: self.mirror.to_copy(),
            marked: self.mirror.marked(),
            redundant: self.mirror.redundant() && !self.mirror.halted(),
            halted: self.mirror.halted(),
            scrubbed: self.mirror.scrubbed(),
            legs,
            in_flight_removed,
        }
    }

    /// Drops what waits for a leg that was given up.
    pub(super) fn forget(&mut self, leg: usize) {
        self.queues[leg] = leg_queue(&self.shared, leg);
        self.shared.board.counted(0, leg, &self.queues[leg]);
        self.direct[leg].clear();
        let mut issued = vec![false; self.entries.len()];
        for flight in self.flights.iter().flatten() {
            for entry in &flight.entries {
                issued[*entry as usize] = true;
            }
        }
        for number in 0..self.entries.len() as u32 {
            let entry = &self.entries[number as usize];
            if entry.as_ref().is_some_and(|entry| entry.leg == leg) && !issued[number as usize] {
                self.entries[number as usize] = None;
                self.free_entries.push(number);
            }
        }
    }
}
