//! The queue in front of a leg.

use crate::LegView;

/// Settings of a [`LegQueue`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueSettings {
    /// Highest number of commands issued to the leg at one time. ZFS's `zfs_vdev_max_pending` of 2013: 10.
    pub active: u32,
    /// Highest length of a command that merges several requests, bytes. OpenZFS's `zfs_vdev_aggregation_limit`: 1 MiB.
    pub aggregation: u64,
    /// A request that has waited longer is issued next, whatever its offset, ns. `read_expire` of Linux's
    /// mq-deadline: 0.5 s.
    pub deadline_ns: u64,
}

impl Default for QueueSettings {
    fn default() -> QueueSettings {
        QueueSettings {
            active: 10,
            aggregation: 1 << 20,
            deadline_ns: 500_000_000,
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
    arrived: u64,
    /// Whether it does not continue another request: the leg has to move.
    moves: bool,
    /// Neighbours in the order of arrival while it waits; then `next` is the next request of its command.
    previous: u32,
    next: u32,
}

impl Request {
    fn end(&self) -> u64 {
        self.offset + self.length
    }
}

#[derive(Debug, Clone, Copy)]
struct Issued {
    command: Command,
    at: u64,
    moves: bool,
}

/// Requests for one leg: at most [`QueueSettings::active`] commands are issued, the other requests wait, sorted by offset.
///
/// The next command is the waiting request at or after the end of the last command, or else at the lowest offset (C-LOOK),
/// unless the oldest request has passed its deadline. Requests that are adjacent to it and have the same direction are
/// merged with it. The caller numbers requests from 0 to the capacity − 1 and may reuse a number when its command has
/// ended. Nothing is allocated after the queue was made, as long as the numbers stay below its capacity.
///
/// Requests that overlap may be issued in any order: the caller serialises those for which it matters.
#[derive(Debug, Clone)]
pub struct LegQueue {
    settings: QueueSettings,
    requests: Vec<Request>,
    /// Waiting requests: offset, number.
    sorted: Vec<(u64, u32)>,
    oldest: u32,
    newest: u32,
    issued: Vec<Issued>,
    pending: u32,
    pending_bytes: u64,
    queued_bytes: u64,
    moves: u32,
    last: (u64, u64),
    done_end: u64,
    done_at: u64,
    costs: Costs,
    /// Requests that were issued so far, and commands.
    totals: (u64, u64),
}

const UNUSED: Request = Request {
    transfer: Transfer::Read,
    offset: 0,
    length: 0,
    arrived: 0,
    moves: false,
    previous: NONE,
    next: NONE,
};

impl LegQueue {
    /// A queue for requests with numbers below `capacity`.
    pub fn new(settings: QueueSettings, capacity: u32) -> LegQueue {
        LegQueue {
            requests: vec![UNUSED; capacity as usize],
            sorted: Vec::with_capacity(capacity as usize),
            oldest: NONE,
            newest: NONE,
            issued: Vec::with_capacity(settings.active as usize),
            pending: 0,
            pending_bytes: 0,
            queued_bytes: 0,
            moves: 0,
            last: (0, 0),
            done_end: 0,
            done_at: 0,
            costs: Costs::default(),
            totals: (0, 0),
            settings,
        }
    }

    /// Adds a request that arrives at `now` (ns). Its number must not be in use.
    pub fn push(&mut self, number: u32, transfer: Transfer, offset: u64, length: u64, now: u64) {
        let index = number as usize;
        if index >= self.requests.len() {
            self.requests.resize(index + 1, UNUSED);
        }
        let at = self
            .sorted
            .partition_point(|&other| other < (offset, number));
        // A request that lies before another one takes over its move.
        if let Some(&(next, follower)) = self.sorted.get(at)
            && next == offset + length
        {
            let follower = &mut self.requests[follower as usize];
            self.moves -= u32::from(std::mem::replace(&mut follower.moves, false));
        }
        let before = at.checked_sub(1).map(|at| self.sorted[at].1 as usize);
        let follows = before.is_some_and(|before| self.requests[before].end() == offset)
            || self.last.1 == offset
            || self.issued.iter().any(|one| one.command.end() == offset);
        self.moves += u32::from(!follows);
        self.sorted.insert(at, (offset, number));
        self.requests[index] = Request {
            transfer,
            offset,
            length,
            arrived: now,
            moves: !follows,
            previous: self.newest,
            next: NONE,
        };
        match self.newest {
            NONE => self.oldest = number,
            newest => self.requests[newest as usize].next = number,
        }
        self.newest = number;
        self.queued_bytes += length;
    }

    /// The next command to issue at `now` (ns); `None`: nothing waits, or enough is issued.
    pub fn issue(&mut self, now: u64) -> Option<Command> {
        if self.sorted.is_empty() || self.issued.len() >= self.settings.active as usize {
            return None;
        }
        let range = self.adjacent(self.start(now));
        let first = self.sorted[range.start].1;
        let mut command = Command {
            first,
            transfer: self.requests[first as usize].transfer,
            offset: self.requests[first as usize].offset,
            length: 0,
            requests: range.len() as u32,
        };
        let mut successor = NONE;
        for at in range.clone().rev() {
            let number = self.sorted[at].1;
            self.unlink(number);
            let request = &mut self.requests[number as usize];
            request.next = successor;
            successor = number;
            command.length += request.length;
        }
        self.sorted.drain(range);
        self.queued_bytes -= command.length;
        self.pending += command.requests;
        self.pending_bytes += command.length;
        self.issued.push(Issued {
            command,
            at: now,
            moves: command.offset != self.last.1,
        });
        self.last = (command.offset, command.end());
        self.totals.0 += u64::from(command.requests);
        self.totals.1 += 1;
        Some(command)
    }

    /// Index in `sorted` of the request that is next.
    fn start(&self, now: u64) -> usize {
        let oldest = &self.requests[self.oldest as usize];
        if now.saturating_sub(oldest.arrived) > self.settings.deadline_ns {
            let key = (oldest.offset, self.oldest);
            return self.sorted.partition_point(|&other| other < key);
        }
        let at = self
            .sorted
            .partition_point(|&(offset, _)| offset < self.last.1);
        if at < self.sorted.len() { at } else { 0 }
    }

    /// The requests that are merged with the one at `start`, as a range of `sorted`. Those after it come first.
    fn adjacent(&self, start: usize) -> std::ops::Range<usize> {
        let request = |at: usize| &self.requests[self.sorted[at].1 as usize];
        let joins = |one: usize, other: usize| {
            let (one, other) = (request(one), request(other));
            one.end() == other.offset && one.transfer == other.transfer
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

    /// Removes a waiting request from the order of arrival.
    fn unlink(&mut self, number: u32) {
        let Request { previous, next, .. } = self.requests[number as usize];
        match previous {
            NONE => self.oldest = next,
            previous => self.requests[previous as usize].next = next,
        }
        match next {
            NONE => self.newest = previous,
            next => self.requests[next as usize].previous = previous,
        }
    }

    /// Ends the command with this number at `now` (ns). Its requests stay readable by [`LegQueue::next_request`] until
    /// their numbers are pushed again. `None`: no such command is issued.
    pub fn complete(&mut self, first: u32, now: u64) -> Option<Command> {
        let at = self
            .issued
            .iter()
            .position(|one| one.command.first == first)?;
        let Issued { command, at, moves } = self.issued.swap_remove(at);
        let busy = now.saturating_sub(self.done_at.max(at));
        self.costs.add(moves, command.length, busy);
        (self.done_at, self.done_end) = (now, command.end());
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

    /// What a policy sees of the leg.
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
            last_offset: self.last.0,
            last_end: self.last.1,
            done_end: self.done_end,
            move_ns: self.costs.move_ns,
            byte_ns: self.costs.byte_ns,
        }
    }

    /// Number of requests issued so far, and of the commands that contained them.
    pub fn totals(&self) -> (u64, u64) {
        self.totals
    }
}

/// Estimates what a move and the transfer of a byte cost on a leg: the least-squares fit of
/// busy time = move_ns · (0 or 1) + byte_ns · bytes over the last commands, with exponential weights.
#[derive(Debug, Clone, Default)]
struct Costs {
    move_ns: f64,
    byte_ns: f64,
    /// Weighted sums: of moves, moves × bytes, bytes², moves × time, bytes × time.
    sums: [f64; 5],
}

impl Costs {
    /// Weight of a new command; the memory is some 64 commands.
    const WEIGHT: f64 = 1.0 / 64.0;
    /// Weight of the last estimate, which decides what the commands leave open: with moves only, or with one length
    /// only, the two costs cannot be told apart.
    const INERTIA: f64 = 0.02;

    fn add(&mut self, moves: bool, bytes: u64, busy_ns: u64) {
        let (moves, bytes, busy) = (f64::from(u8::from(moves)), bytes as f64, busy_ns as f64);
        let terms = [
            moves,
            moves * bytes,
            bytes * bytes,
            moves * busy,
            bytes * busy,
        ];
        for (sum, term) in self.sums.iter_mut().zip(terms) {
            *sum += Self::WEIGHT * (term - *sum);
        }
        let [mm, mb, bb, mt, bt] = self.sums;
        if bb == 0.0 {
            return;
        }
        let (mm, mt) = (mm + Self::INERTIA, mt + Self::INERTIA * self.move_ns);
        let inertia = Self::INERTIA * bb;
        let (bb, bt) = (bb + inertia, bt + inertia * self.byte_ns);
        let determinant = mm * bb - mb * mb;
        let (move_ns, byte_ns) = (
            (mt * bb - bt * mb) / determinant,
            (bt * mm - mt * mb) / determinant,
        );
        // Costs are not negative: then the other one explains everything.
        (self.move_ns, self.byte_ns) = if byte_ns < 0.0 {
            (mt / mm, 0.0)
        } else if move_ns < 0.0 {
            (0.0, bt / bb)
        } else {
            (move_ns, byte_ns)
        };
    }
}

#[cfg(test)]
mod tests;
