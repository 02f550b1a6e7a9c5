//! Striped mirrors, as the users of a trial access them: directly, or by the records of a file system.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use iodyno_mirror::{PolicyKind, QueueSettings, UnknownPolicy};
use iodyno_model::{SimDevice, SimRecords, SimTarget, SimulatedDisk};
use iodyno_sys::{Device, DeviceEnd, Op, OpKind, Slot};
use slab::Slab;

use crate::{Disk, SimMirror};

/// Time that a user needs to submit a record, or to copy one that was read ahead, ns.
const RECORD_NS: u64 = 20_000;
/// Number of sequential readers that are followed in the ops of a user.
const STREAMS: usize = 8;
/// Number of records of a reader that are remembered: more than are read ahead.
const REMEMBERED: u64 = 1024;

/// Striped mirrors; a single disk is a mirror with one leg.
///
/// With records, a read transfers all records that it touches. A user submits them one after the other. The records
/// that follow are read ahead: 2^(k − 1) of them after the k-th consecutive record (k ≥ 2), as ZFS's `dmu_zfetch` did
/// in 2013. They are kept for the reader only: nothing else is cached. Writes transfer whole records too, and are not
/// combined.
#[derive(Debug)]
pub(crate) struct Volume {
    mirrors: Vec<SimMirror>,
    stripe: u64,
    records: Option<SimRecords>,
    users: Vec<User>,
    ops: Vec<OpenOp>,
    requests: Slab<Request>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    ended: VecDeque<DeviceEnd>,
    /// Number of the next stream.
    next_stream: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A user submits its next request.
    Submit(u32),
    /// An op of a user ends that needed records in memory only.
    End(u32, Slot),
}

/// An op that has not ended.
#[derive(Debug, Clone, Copy, Default)]
struct OpenOp {
    /// Number of requests that it waits for.
    requests: u32,
    result: i32,
}

/// A request to a mirror: a record, or a piece of an op.
#[derive(Debug, Clone, Copy)]
struct Request {
    user: u32,
    /// The op that waits for it from the beginning.
    op: Option<Slot>,
    /// The reader that remembers the record, and the record.
    stream: u64,
    record: u64,
    transfer: OpKind,
    offset: u64,
    length: u32,
}

#[derive(Debug, Default)]
struct User {
    streams: Vec<Stream>,
    /// Requests that it has not submitted yet.
    queue: VecDeque<Request>,
    submits: bool,
    /// Ops that have all of their records and end when everything is submitted.
    ready: Vec<Slot>,
    /// Ops that wait for a record that was requested before: reader, record, op.
    waiting: Vec<(u64, u64, Slot)>,
    /// Time for copies of records that its ops have not taken yet, ns.
    copies_ns: u64,
}

/// A sequential reader.
#[derive(Debug)]
struct Stream {
    number: u64,
    /// The record after the last one that was read.
    next: u64,
    /// Consecutive records so far.
    length: u32,
    /// The record after the last one that was requested.
    requested: u64,
    /// Which record arrived last in each place.
    arrived: Vec<u64>,
}

impl Stream {
    /// A record of it is requested, the one after those before.
    fn request(&mut self, record: u64) {
        self.arrived[(record % REMEMBERED) as usize] = u64::MAX;
        self.requested = record + 1;
    }
}

impl Volume {
    /// For this number of users. The seed determines the angles of rotating disks and what policies draw.
    ///
    /// # Errors
    /// If its read policy is unknown.
    pub(crate) fn new(
        target: &SimTarget,
        users: usize,
        seed: u64,
    ) -> Result<Volume, UnknownPolicy> {
        let (policy, legs) = match &target.device {
            SimDevice::Law => (PolicyKind::Modulo, &[][..]),
            SimDevice::Disk(disk) => (PolicyKind::Modulo, std::slice::from_ref(disk)),
            SimDevice::Mirror { policy, legs } => (policy.parse()?, &legs[..]),
        };
        let queue = QueueSettings {
            aggregation: target.aggregation,
            ..QueueSettings::default()
        };
        let mirror = |number: u32| {
            let seed = seed.wrapping_add(u64::from(number) * 100);
            let disks = legs.iter().zip(seed.wrapping_add(1)..);
            let disks = disks.map(|(disk, seed)| Disk::of(disk, seed)).collect();
            let policies = policy.build_queues(target.queues, legs.len(), seed);
            SimMirror::new(policies, disks, queue, 64)
        };
        Ok(Volume {
            mirrors: (0..target.count.max(1)).map(mirror).collect(),
            stripe: target.stripe.max(1),
            records: target.records,
            users: (0..users).map(|_| User::default()).collect(),
            ops: Vec::new(),
            requests: Slab::new(),
            events: BinaryHeap::new(),
            ended: VecDeque::new(),
            next_stream: 0,
        })
    }

    /// All disks with their queues, after the last event.
    pub(crate) fn disks(&self) -> Vec<SimulatedDisk> {
        self.mirrors.iter().flat_map(SimMirror::disks).collect()
    }

    /// What it consists of.
    pub(crate) fn describe(&self) -> String {
        let first = self.mirrors.first().map(Device::describe);
        let first = first.unwrap_or_default();
        match self.mirrors.len() {
            1 => first,
            count => format!("{count} striped: {first}"),
        }
    }

    /// Submits an op of a user at `now`. Slots are those of all users.
    pub(crate) fn submit(&mut self, now: u64, user: u32, slot: Slot, op: &Op) {
        if self.ops.len() <= slot as usize {
            self.ops.resize(slot as usize + 1, OpenOp::default());
        }
        let length = op.length as i32;
        if !matches!(op.kind, OpKind::Read | OpKind::Write) {
            return self.end(now, slot, 0);
        }
        self.ops[slot as usize] = OpenOp {
            requests: 0,
            result: length,
        };
        match self.records {
            None => self.issue_pieces(now, user, slot, op),
            Some(records) if op.kind == OpKind::Read => self.read(now, user, slot, op, records),
            Some(records) => self.write(now, user, slot, op, records),
        }
    }

    /// When something happens next, ns: an op may end, but need not.
    pub(crate) fn next_end(&self) -> Option<u64> {
        if let Some(ended) = self.ended.front() {
            return Some(ended.at);
        }
        let own = self.events.peek().map(|Reverse((at, _))| *at);
        let mirrors = self.mirrors.iter().filter_map(Device::next_end);
        own.into_iter().chain(mirrors).min()
    }

    /// Takes an op that ended until `now`.
    pub(crate) fn take_ended(&mut self, now: u64) -> Option<DeviceEnd> {
        while self.ended.is_empty() {
            let own = self.events.peek().map(|Reverse((at, _))| *at);
            let mirrors = self.mirrors.iter().map(Device::next_end);
            let mirror = mirrors
                .zip(0..)
                .filter_map(|(at, mirror)| Some((at?, mirror)));
            match (own, mirror.min()) {
                (Some(own), mirror) if own <= now && mirror.is_none_or(|(at, _)| own < at) => {
                    self.run_event();
                }
                (_, Some((at, mirror))) if at <= now => {
                    while let Some(end) = self.mirrors[mirror].take_ended(at) {
                        self.request_ended(end);
                    }
                }
                _ => return None,
            }
        }
        self.ended.pop_front()
    }

    fn end(&mut self, at: u64, slot: Slot, result: i32) {
        self.ended.push_back(DeviceEnd { slot, result, at });
    }

    /// An op without records, in pieces that lie on one mirror each.
    fn issue_pieces(&mut self, now: u64, user: u32, slot: Slot, op: &Op) {
        let end = op.offset + u64::from(op.length);
        let mut offset = op.offset;
        while offset < end {
            let border = match self.mirrors.len() {
                1 => end,
                _ => end.min((offset / self.stripe + 1) * self.stripe),
            };
            self.ops[slot as usize].requests += 1;
            self.issue(
                now,
                Request {
                    user,
                    op: Some(slot),
                    stream: 0,
                    record: 0,
                    transfer: op.kind,
                    offset,
                    length: (border - offset) as u32,
                },
            );
            offset = border;
        }
    }

    fn write(&mut self, now: u64, user: u32, slot: Slot, op: &Op, records: SimRecords) {
        for record in touched(op, records.length) {
            self.ops[slot as usize].requests += 1;
            self.queue(user, Some(slot), (0, record), OpKind::Write, records.length);
        }
        self.start(now, user);
    }

    fn read(&mut self, now: u64, user: u32, slot: Slot, op: &Op, records: SimRecords) {
        let furthest = (records.prefetch / records.length).min(REMEMBERED - 2);
        for record in touched(op, records.length) {
            let place = self.stream_at(user, record);
            let stream = &mut self.users[user as usize].streams[place];
            let number = stream.number;
            let requested = record < stream.requested;
            let arrived = stream.arrived[(record % REMEMBERED) as usize] == record;
            if !requested {
                stream.request(record);
            }
            if record == stream.next {
                stream.next += 1;
                stream.length = (stream.length + 1).min(32);
            }
            let ahead = match stream.length {
                0 | 1 => 0,
                length => furthest.min(1 << (length - 1)),
            };
            let further = stream.requested..(stream.next + ahead).max(stream.requested);
            further.clone().for_each(|record| stream.request(record));
            match (requested, arrived) {
                (false, _) => {
                    self.ops[slot as usize].requests += 1;
                    let read = (number, record);
                    self.queue(user, Some(slot), read, OpKind::Read, records.length);
                }
                (true, false) => {
                    self.ops[slot as usize].requests += 1;
                    self.users[user as usize]
                        .waiting
                        .push((number, record, slot));
                }
                (true, true) => {}
            }
            for record in further {
                self.queue(user, None, (number, record), OpKind::Read, records.length);
            }
        }
        let bytes = u64::from(op.length);
        self.users[user as usize].copies_ns += RECORD_NS * bytes / records.length;
        let waits = self.ops[slot as usize].requests > 0;
        self.start(now, user);
        if !waits {
            self.complete(now, user, slot);
        }
    }

    /// The reader that a read of this record continues, or a new one in place of the one that was used least recently,
    /// which is the first. It becomes the last.
    fn stream_at(&mut self, user: u32, record: u64) -> usize {
        let streams = &mut self.users[user as usize].streams;
        let continued = streams
            .iter()
            .rposition(|one| one.next == record || one.next == record + 1);
        let stream = match continued {
            Some(place) => streams.remove(place),
            None => {
                let arrived = match streams.len() {
                    STREAMS => streams.remove(0).arrived,
                    _ => vec![u64::MAX; REMEMBERED as usize],
                };
                self.next_stream += 1;
                Stream {
                    number: self.next_stream,
                    next: record,
                    length: 0,
                    requested: record,
                    arrived,
                }
            }
        };
        streams.push(stream);
        streams.len() - 1
    }

    fn queue(
        &mut self,
        user: u32,
        op: Option<Slot>,
        (stream, record): (u64, u64),
        transfer: OpKind,
        length: u64,
    ) {
        self.users[user as usize].queue.push_back(Request {
            user,
            op,
            stream,
            record,
            transfer,
            offset: record * length,
            length: length as u32,
        });
    }

    /// A user that does not submit begins to.
    fn start(&mut self, now: u64, user: u32) {
        let own = &mut self.users[user as usize];
        if !own.submits && !own.queue.is_empty() {
            own.submits = true;
            self.events.push(Reverse((now, Event::Submit(user))));
        }
    }

    fn run_event(&mut self) {
        let Some(Reverse((at, event))) = self.events.pop() else {
            return;
        };
        let user = match event {
            Event::End(_, slot) => {
                let result = self.ops[slot as usize].result;
                return self.end(at, slot, result);
            }
            Event::Submit(user) => user,
        };
        if let Some(request) = self.users[user as usize].queue.pop_front() {
            self.issue(at, request);
            let next = at + RECORD_NS;
            return self.events.push(Reverse((next, Event::Submit(user))));
        }
        self.users[user as usize].submits = false;
        for slot in std::mem::take(&mut self.users[user as usize].ready) {
            self.complete(at, user, slot);
        }
    }

    fn issue(&mut self, now: u64, request: Request) {
        let mirrors = self.mirrors.len() as u64;
        let (mirror, offset) = match mirrors {
            1 => (0, request.offset),
            _ => {
                let (unit, within) = (request.offset / self.stripe, request.offset % self.stripe);
                (
                    (unit % mirrors) as usize,
                    unit / mirrors * self.stripe + within,
                )
            }
        };
        let number = self.requests.insert(request) as Slot;
        let op = Op {
            kind: request.transfer,
            // The queue of a mirror.
            file: request.user,
            offset,
            length: request.length,
            skip: 0,
            priority: 0,
        };
        self.mirrors[mirror].submit(now, number, &op);
    }

    /// A request has ended.
    fn request_ended(&mut self, end: DeviceEnd) {
        let request = self.requests.remove(end.slot as usize);
        let mut ready: Vec<Slot> = request.op.into_iter().collect();
        let user = &mut self.users[request.user as usize];
        if self.records.is_some() && request.transfer == OpKind::Read {
            let mut streams = user.streams.iter_mut();
            if let Some(stream) = streams.find(|one| one.number == request.stream) {
                stream.arrived[(request.record % REMEMBERED) as usize] = request.record;
            }
            let record = (request.stream, request.record);
            user.waiting.retain(|(stream, record_of, slot)| {
                let waits = (*stream, *record_of) == record;
                ready.extend(waits.then_some(*slot));
                !waits
            });
        }
        for slot in ready {
            let op = &mut self.ops[slot as usize];
            op.requests -= 1;
            if end.result < 0 {
                op.result = op.result.min(end.result);
            }
            if op.requests == 0 {
                self.complete(end.at, request.user, slot);
            }
        }
    }

    /// Everything that an op needs is there.
    fn complete(&mut self, now: u64, user: u32, slot: Slot) {
        let own = &mut self.users[user as usize];
        if own.submits {
            return own.ready.push(slot);
        }
        let copies = match own.copies_ns {
            ns if ns >= RECORD_NS => std::mem::take(&mut own.copies_ns),
            _ => 0,
        };
        match copies {
            0 => {
                let result = self.ops[slot as usize].result;
                self.end(now, slot, result);
            }
            ns => self
                .events
                .push(Reverse((now + ns, Event::End(user, slot)))),
        }
    }
}

/// The records that an op touches.
fn touched(op: &Op, length: u64) -> std::ops::Range<u64> {
    let end = op.offset + u64::from(op.length);
    op.offset / length..end.div_ceil(length)
}

#[cfg(test)]
mod tests;
