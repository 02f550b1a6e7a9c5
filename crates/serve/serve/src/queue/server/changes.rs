//! Changes of the legs of a running mirror, and its state.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use iodyno_mirror::core::{Errno, Event};
use iodyno_mirror::superblock::Member;
use iodyno_model::errno::{EBUSY, EINVAL, EMFILE};
use uuid::Uuid;

use super::{Lane, LegState, Present, Server, answer};
use crate::queue::admin::{AdminRequest, LegStatus, OpenLeg, Status};
use crate::queue::leg_commands::LegCommands;
use crate::queue::leg_file::{LegFile, leg_file};
use crate::queue::shared::{placeholder, watch_place};

impl Server<'_> {
    pub(super) fn manage(&mut self, request: AdminRequest) {
        self.handle_events();
        self.reclaim();
        match request {
            AdminRequest::Status(reply) => drop(reply.send(self.status())),
            AdminRequest::Add { uuid, leg, reply } => self.add(uuid, leg, reply),
            AdminRequest::Remove { uuid, reply } => match self.leg_of(uuid) {
                Some(leg) => self.change(reply, |id| Event::Remove { id, leg }),
                None => answer(&reply, Err(EINVAL)),
            },
            AdminRequest::Return {
                uuid,
                stored,
                reply,
            } => match self.leg_of(uuid) {
                Some(leg) if self.in_flight(leg) > 0 => answer(&reply, Err(EBUSY)),
                Some(leg) => self.change(reply, |id| Event::Return { id, leg, stored }),
                None => answer(&reply, Err(EINVAL)),
            },
            AdminRequest::Scrub { from, reply, found } => {
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

    fn add(&mut self, uuid: Uuid, mut leg: OpenLeg, reply: Sender<Result<(), Errno>>) {
        let (Some(descriptor), Some(lane)) = (leg.descriptor.take(), self.spare.pop()) else {
            return answer(&reply, Err(EMFILE));
        };
        let held = LegFile::of(&descriptor).and_then(|held| {
            (self.backend).replace_file(lane.file, leg_file(descriptor))?;
            Ok(held)
        });
        let held = match held {
            Ok(held) => held,
            Err(_) => {
                self.spare.push(lane);
                return answer(&reply, Err(EMFILE));
            }
        };
        let name = leg.name.clone();
        let at = self.legs.len();
        let commands = LegCommands::new(&self.shared, 0, at);
        let state = LegState::new(leg, Some(Present { lane, held }), commands);
        let Ok(in_table) = state.in_table() else {
            self.free(state);
            return answer(&reply, Err(EMFILE));
        };
        self.names.push(name);
        self.legs.push(state);
        self.build_policies();
        self.change(reply, |id| Event::Add { id, uuid });
        if self.mirror.assembly().parts.len() <= at {
            // It was refused.
            self.names.truncate(at);
            let refused = self.legs.pop();
            self.build_policies();
            return refused.into_iter().for_each(|leg| self.free(leg));
        }
        self.shared.change(|table| table.legs.push(in_table));
        // Without a thread, only the next start notices that its file was replaced.
        let _ = watch_place(Arc::clone(&self.shared), at);
    }

    /// Frees the lane of a leg that was not added.
    fn free(&mut self, leg: LegState) {
        if let Some(present) = leg.present {
            self.free_lane(present.lane);
        }
    }

    /// Frees the lanes of legs that were removed and have returned their last op.
    pub(super) fn reclaim(&mut self) {
        for leg in 0..self.legs.len() {
            let removed = self.mirror.members().all(|(member, _)| member != leg);
            if removed
                && self.in_flight(leg) == 0
                && let Some(present) = self.legs[leg].present.take()
            {
                self.free_lane(present.lane);
            }
        }
    }

    /// Closes the leg of a lane.
    fn free_lane(&mut self, lane: Lane) {
        let closed =
            placeholder(&self.inbox).and_then(|file| self.backend.replace_file(lane.file, file));
        if closed.is_ok() {
            self.spare.push(lane);
        }
    }

    fn status(&self) -> Status {
        let assembly = self.mirror.assembly();
        let online = self.mirror.online();
        let leg = |(leg, member): (usize, Member)| LegStatus {
            member,
            name: self.names[leg].clone(),
            path: self.legs[leg].path.clone(),
            online: online.has(leg),
            in_flight: self.in_flight(leg),
            cause: self.mirror.cause(leg),
        };
        let legs: Vec<LegStatus> = self.mirror.members().map(leg).collect();
        let members = self.mirror.members().map(|(leg, _)| leg);
        let members: Vec<usize> = members.collect();
        let removed = (0..self.legs.len()).filter(|leg| !members.contains(leg));
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
        self.legs[leg].commands.clear();
        self.legs[leg].direct.clear();
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
