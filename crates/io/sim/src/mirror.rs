//! A mirror of simulated disks.

use std::collections::VecDeque;

use iodyno_mirror::{
    Command, LegQueue, LegView, QueueSettings, ReadPolicy, ReadRequest, Totals, Transfer,
};
use iodyno_model::SimulatedDisk;
use iodyno_sys::{Device, DeviceEnd, Op, OpKind, Slot};

use crate::Disk;

/// A disk behind its queue.
#[derive(Debug)]
struct Leg {
    queue: LegQueue,
    disk: Disk,
    cancelled: bool,
    counters: Counters,
}

/// Counters of a leg up to the last event.
#[derive(Debug, Clone, Copy, Default)]
struct Counters {
    disk: SimulatedDisk,
    /// Requests that have not ended: reads, writes.
    pending: [u64; 2],
    /// Commands at the disk.
    issued: u32,
    /// Time of the last event, ns.
    at: u64,
}

impl Counters {
    /// To be called before each event.
    fn advance(&mut self, now: u64, rotational: bool) {
        let span = now.saturating_sub(self.at);
        for (sum, pending) in self.disk.pending_ns.iter_mut().zip(self.pending) {
            *sum += span * pending;
        }
        let one = u64::from(self.issued > 0);
        self.disk.busy_ns += span * one;
        self.disk.service_ns += span
            * match rotational {
                true => one,
                false => u64::from(self.issued),
            };
        self.at = self.at.max(now);
    }
}

fn kind_of(transfer: Transfer) -> usize {
    match transfer {
        Transfer::Read => 0,
        Transfer::Write => 1,
    }
}

/// An op in flight.
#[derive(Debug, Clone, Copy, Default)]
struct InFlight {
    /// Number of legs that have not ended it.
    legs: u32,
    /// Its result: bytes, or −errno of a leg.
    result: i32,
}

/// A mirror of simulated disks: reads go to the leg that the policy chooses, writes to all legs. Trims and flushes end
/// at once, because the disks keep nothing that would have to be written.
#[derive(Debug)]
pub struct SimMirror {
    /// One for each queue.
    policies: Vec<Box<dyn ReadPolicy>>,
    legs: Vec<Leg>,
    views: Vec<LegView>,
    /// The op of each slot.
    in_flight: Vec<InFlight>,
    ended: VecDeque<DeviceEnd>,
}

impl SimMirror {
    /// A mirror of these disks, for `slots` ops in flight. There is a queue for each policy; an op uses the queue
    /// [`Op::file`] modulo their number. What policies see of the legs is common.
    pub fn new(
        policies: Vec<Box<dyn ReadPolicy>>,
        disks: Vec<Disk>,
        queue: QueueSettings,
        slots: u32,
    ) -> SimMirror {
        let leg = |disk: Disk| Leg {
            queue: LegQueue::new(queue, slots),
            disk,
            cancelled: false,
            counters: Counters::default(),
        };
        SimMirror {
            policies,
            views: Vec::with_capacity(disks.len()),
            legs: disks.into_iter().map(leg).collect(),
            in_flight: vec![InFlight::default(); slots as usize],
            ended: VecDeque::with_capacity(slots as usize),
        }
    }

    /// What was issued to all legs so far.
    pub fn totals(&self) -> Totals {
        self.legs.iter().map(|leg| leg.queue.totals()).sum()
    }

    /// Its disks with their queues, after the last event.
    pub(crate) fn disks(&self) -> impl Iterator<Item = SimulatedDisk> {
        self.legs.iter().map(|leg| {
            let totals = leg.queue.totals();
            SimulatedDisk {
                commands: totals.commands,
                moves: totals.moves,
                ..leg.counters.disk
            }
        })
    }

    fn choose(&mut self, now: u64, op: &Op) -> Option<usize> {
        self.views.clear();
        let views = self.legs.iter();
        self.views
            .extend(views.map(|leg| leg.queue.view(true, leg.disk.rotational())));
        let request = ReadRequest {
            offset: op.offset,
            length: u64::from(op.length),
        };
        let queue = op.file as usize % self.policies.len();
        self.policies[queue].choose(&request, &self.views, now)
    }

    fn end(&mut self, at: u64, slot: Slot, result: i32) {
        self.ended.push_back(DeviceEnd { slot, result, at });
    }
}

impl Leg {
    fn issue(&mut self, now: u64) {
        while let Some(command) = self.queue.issue(now) {
            self.counters.issued += 1;
            self.disk.submit(now, command.first, &op_of(&command));
        }
        if self.cancelled {
            self.disk.cancel_all(now);
        }
    }
}

fn op_of(command: &Command) -> Op {
    let kind = match command.transfer {
        Transfer::Read => OpKind::Read,
        Transfer::Write => OpKind::Write,
    };
    Op::new(kind, 0, command.offset, command.length as u32)
}

impl Device for SimMirror {
    fn describe(&self) -> String {
        let disk = self.legs.first().map(|leg| leg.disk.describe());
        let disk = disk.unwrap_or_default();
        let policy = self.policies.first().map(|policy| policy.kind());
        match (self.legs.len(), policy) {
            (legs @ 2.., Some(policy)) => {
                format!("simulated mirror, policy {policy}, of {legs} × {disk}")
            }
            _ => disk,
        }
    }

    fn submit(&mut self, now: u64, slot: Slot, op: &Op) {
        if self.in_flight.len() <= slot as usize {
            self.in_flight
                .resize(slot as usize + 1, InFlight::default());
        }
        let all = 0..self.legs.len();
        let (legs, transfer) = match op.kind {
            OpKind::Read => match self.choose(now, op) {
                Some(leg) => (leg..leg + 1, Transfer::Read),
                None => return self.end(now, slot, -libc::EIO),
            },
            OpKind::Write => (all, Transfer::Write),
            _ => return self.end(now, slot, 0),
        };
        self.in_flight[slot as usize] = InFlight {
            legs: legs.len() as u32,
            result: op.length as i32,
        };
        for leg in &mut self.legs[legs] {
            leg.counters.advance(now, leg.disk.rotational());
            let kind = kind_of(transfer);
            leg.counters.pending[kind] += 1;
            leg.counters.disk.requests[kind] += 1;
            leg.counters.disk.bytes[kind] += u64::from(op.length);
            leg.queue
                .push(slot, transfer, op.offset, u64::from(op.length), now);
            leg.issue(now);
        }
    }

    fn next_end(&self) -> Option<u64> {
        let ended = self.ended.front().map(|end| end.at);
        let next = self.legs.iter().filter_map(|leg| leg.disk.next_end()).min();
        ended.or(next)
    }

    fn take_ended(&mut self, now: u64) -> Option<DeviceEnd> {
        while self.ended.is_empty() {
            let legs = self.legs.iter_mut();
            let due = legs.filter_map(|leg| Some((leg.disk.next_end()?, leg)));
            let (next, leg) = due.min_by_key(|(next, _)| *next)?;
            if next > now {
                return None;
            }
            let Some(end) = leg.disk.take_ended(next) else {
                continue;
            };
            leg.counters.advance(end.at, leg.disk.rotational());
            leg.counters.issued = leg.counters.issued.saturating_sub(1);
            if let Some(command) = leg.queue.complete(end.slot, end.at) {
                let pending = &mut leg.counters.pending[kind_of(command.transfer)];
                *pending = pending.saturating_sub(u64::from(command.requests));
            }
            let mut request = Some(end.slot);
            while let Some(slot) = request {
                request = leg.queue.next_request(slot);
                let op = &mut self.in_flight[slot as usize];
                op.legs -= 1;
                op.result = op.result.min(end.result);
                if op.legs == 0 {
                    self.ended.push_back(DeviceEnd {
                        slot,
                        result: op.result,
                        at: end.at,
                    });
                }
            }
            leg.issue(end.at);
        }
        self.ended.pop_front()
    }

    fn cancel_all(&mut self, now: u64) {
        for leg in &mut self.legs {
            leg.cancelled = true;
            leg.disk.cancel_all(now);
        }
    }
}

#[cfg(test)]
mod tests;
