//! The queue in front of a leg.

use std::sync::Arc;

use crate::LegView;
use crate::marks::{Marks, Totals};

/// Settings of a [`LegQueue`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueSettings {
    /// Highest number of commands issued to the leg at one time. ZFS's `zfs_vdev_max_pending` of 2013: 10.
    pub active: u32,
    /// Highest length of a command that merges several requests, bytes. OpenZFS's `zfs_vdev_aggregation_limit`: 1 MiB.
    pub aggregation: u64,
    /// Length of the arrival periods, ns: requests are sorted within a period, and earlier periods are issued first.
    /// ZFS of 2013: 64 ticks of 10 ms (`zfs_vdev_time_shift`).
    pub period_ns: u64,
}

impl Default for QueueSettings {
    fn default() -> QueueSettings {
        QueueSettings {
            active: 10,
            aggregation: 1 << 20,
            period_ns: 640_000_000,
        }
    }
}

/// Direction of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    /// From the leg.
    Read,
    /// To the leg.
    Write,
}

/// A command for a leg: one request, or several adjacent ones in the order of their offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    /// Its number: the request at the lowest offset. The others follow by [`LegQueue::next_request`].
    pub first: u32,
    /// Its direction.
    pub transfer: Transfer,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Number of requests.
    pub requests: u32,
}

impl Command {
    fn end(&self) -> u64 {
        self.offset + self.length
    }
}

/// No request.
const NONE: u32 = u32::MAX;

/// A request in the queue or issued; its index is its number.
#[derive(Debug, Clone, Copy)]
struct Request {
    transfer: Transfer,
    offset: u64,
    length: u64,
    /// Whether it does not continue another request, so the leg has to move.
    moves: bool,
    /// The next request of its command, once issued.
    next: u32,
}

impl Request {
    fn end(&self) -> u64 {
        self.offset + self.length
    }
}

/// A waiting request: period of arrival, offset, number.
type Waiting = (u64, u64, u32);

#[derive(Debug, Clone, Copy)]
struct Issued {
    command: Command,
    at: u64,
    moves: bool,
}

/// Requests for one leg: at most [`QueueSettings::active`] commands are issued, the other requests wait, sorted by
/// offset.
///
/// The next command is the waiting request at or after the end of the last command, or else at the lowest offset
/// (C-LOOK), among those of the earliest arrival period. Adjacent requests of this period with the same direction are
/// merged with it. The caller numbers requests from 0 to the capacity − 1 and may reuse a number when its command has
/// ended. After creation the queue does not allocate, provided that the numbers stay below its capacity.
///
/// Overlapping requests may be issued in any order: the caller serialises those for which it matters.
///
/// A leg may have several queues, each for one thread, which share its [`Marks`]. Requests are sorted and merged within
/// a queue. The limit of commands is then that of a [`Board`](crate::shared::Board), and not that of the settings.
#[derive(Debug)]
pub struct LegQueue {
    settings: QueueSettings,
    requests: Vec<Request>,
    sorted: Vec<Waiting>,
    issued: Vec<Issued>,
    pending: u32,
    pending_bytes: u64,
    queued_bytes: u64,
    moves: u32,
    marks: Arc<Marks>,
}

const UNUSED: Request = Request {
    transfer: Transfer::Read,
    offset: 0,
    length: 0,
    moves: false,
    next: NONE,
};

impl LegQueue {
    /// A queue for requests with numbers below `capacity`.
    pub fn new(settings: QueueSettings, capacity: u32) -> LegQueue {
        LegQueue::sharing(settings, capacity, Arc::default())
    }

    /// One of several queues of a leg.
    pub fn sharing(settings: QueueSettings, capacity: u32, marks: Arc<Marks>) -> LegQueue {
        LegQueue {
            requests: vec![UNUSED; capacity as usize],
            sorted: Vec::with_capacity(capacity as usize),
            issued: Vec::with_capacity(settings.active.min(capacity) as usize),
            pending: 0,
            pending_bytes: 0,
            queued_bytes: 0,
            moves: 0,
            marks,
            settings,
        }
    }

    /// Adds a request that arrives at `now` (ns). Its number must not be in use.
    pub fn push(&mut self, number: u32, transfer: Transfer, offset: u64, length: u64, now: u64) {
        let index = number as usize;
        if index >= self.requests.len() {
            self.requests.resize(index + 1, UNUSED);
        }
        let waiting = (now / self.settings.period_ns.max(1), offset, number);
        let at = self.sorted.partition_point(|&other| other < waiting);
        // A preceding request takes over the move of the next one.
        if let Some(&(period, next, follower)) = self.sorted.get(at)
            && (period, next) == (waiting.0, offset + length)
        {
            let follower = &mut self.requests[follower as usize];
            self.moves -= u32::from(std::mem::replace(&mut follower.moves, false));
        }
        let before = at.checked_sub(1).map(|at| self.sorted[at].2 as usize);
        let follows = before.is_some_and(|before| self.requests[before].end() == offset)
            || self.marks.last().1 == offset
            || self.issued.iter().any(|one| one.command.end() == offset);
        self.moves += u32::from(!follows);
        self.sorted.insert(at, waiting);
        self.requests[index] = Request {
            transfer,
            offset,
            length,
            moves: !follows,
            next: NONE,
        };
        self.queued_bytes += length;
    }

    /// The next command to issue at `now` (ns); `None`: nothing waits, or enough is issued.
    pub fn issue(&mut self, now: u64) -> Option<Command> {
        if self.sorted.is_empty() || self.issued.len() >= self.settings.active as usize {
            return None;
        }
        let range = self.adjacent(self.start());
        let first = self.sorted[range.start].2;
        let mut command = Command {
            first,
            transfer: self.requests[first as usize].transfer,
            offset: self.requests[first as usize].offset,
            length: 0,
            requests: range.len() as u32,
        };
        let mut successor = NONE;
        for at in range.clone().rev() {
            let number = self.sorted[at].2;
            let request = &mut self.requests[number as usize];
            request.next = successor;
            successor = number;
            command.length += request.length;
        }
        self.sorted.drain(range);
        self.queued_bytes -= command.length;
        self.pending += command.requests;
        self.pending_bytes += command.length;
        let moves = command.offset != self.marks.last().1;
        self.issued.push(Issued {
            command,
            at: now,
            moves,
        });
        (self.marks).issued(command.offset, command.end(), command.requests, moves);
        Some(command)
    }

    /// Index in `sorted` of the request that is next.
    fn start(&self) -> usize {
        let period = self.sorted[0].0;
        let ahead = (period, self.marks.last().1, 0);
        let at = self.sorted.partition_point(|&other| other < ahead);
        match self.sorted.get(at) {
            Some(waiting) if waiting.0 == period => at,
            _ => 0,
        }
    }

    /// The requests to merge with the one at `start`, as a range of `sorted`. Those after it come first.
    fn adjacent(&self, start: usize) -> std::ops::Range<usize> {
        let request = |at: usize| &self.requests[self.sorted[at].2 as usize];
        let joins = |one: usize, other: usize| {
            let same_period = self.sorted[one].0 == self.sorted[other].0;
            let (one, other) = (request(one), request(other));
            same_period && one.end() == other.offset && one.transfer == other.transfer
        };
        let mut range = start..start + 1;
        let mut bytes = request(start).length;
        let limit = self.settings.aggregation;
        while range.end < self.sorted.len()
            && joins(range.end - 1, range.end)
            && bytes + request(range.end).length <= limit
        {
            bytes += request(range.end).length;
            range.end += 1;
        }
        while range.start > 0
            && joins(range.start - 1, range.start)
            && bytes + request(range.start - 1).length <= limit
        {
            range.start -= 1;
            bytes += request(range.start).length;
        }
        range
    }

    /// Ends the command with this number at `now` (ns). Its requests stay readable by [`LegQueue::next_request`] until
    /// their numbers are pushed again. `None`: no such command is issued.
    pub fn complete(&mut self, first: u32, now: u64) -> Option<Command> {
        let at = self
            .issued
            .iter()
            .position(|one| one.command.first == first)?;
        let Issued { command, at, moves } = self.issued.swap_remove(at);
        (self.marks).done(moves, command.length, command.end(), at, now);
        self.pending -= command.requests;
        self.pending_bytes -= command.length;
        let mut next = Some(first);
        while let Some(number) = next {
            self.moves -= u32::from(self.requests[number as usize].moves);
            next = self.next_request(number);
        }
        Some(command)
    }

    /// The request that follows this one in its command.
    pub fn next_request(&self, number: u32) -> Option<u32> {
        let next = self.requests[number as usize].next;
        (next != NONE).then_some(next)
    }

    /// A policy's view of the leg.
    pub fn view(&self, readable: bool, rotational: bool) -> LegView {
        LegView {
            readable,
            rotational,
            pending: self.pending,
            pending_bytes: self.pending_bytes,
            queued: self.sorted.len() as u32,
            queued_bytes: self.queued_bytes,
            moves: self.moves,
            commands: self.issued.len() as u32,
            ..self.marks.view()
        }
    }

    /// Whether requests wait.
    pub fn waits(&self) -> bool {
        !self.sorted.is_empty()
    }

    /// Takes out a waiting request. `None`: none waits.
    pub fn withdraw(&mut self) -> Option<u32> {
        let (_, _, number) = self.sorted.pop()?;
        let request = self.requests[number as usize];
        self.queued_bytes -= request.length;
        self.moves -= u32::from(request.moves);
        Some(number)
    }

    /// The commands issued so far by all queues of the leg.
    pub fn totals(&self) -> Totals {
        self.marks.totals()
    }
}

#[cfg(test)]
mod tests;
