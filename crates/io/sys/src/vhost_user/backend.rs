//! The backend of the engines `vhost-user-blk` and `virtiofs`: a queue of a connection, or part of one.
//!
//! The slots' buffers are in memory shared with the server, so data are never copied here. The other parts of each
//! slot's request follow the buffers.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use super::disk::Connection;
use super::fuse::{self, Reply};
use super::queue::{Queue, QueueUser};
use super::ring::Part;
use super::share::{CHAIN, OpenFile};
use crate::memory::{Arena, SharedMemory};
use crate::{
    Backend, BackendError, Capabilities, Clock, Completions, MonotonicClock, Op, OpKind, Slot,
};

const IN: u32 = 0;
const OUT: u32 = 1;
const FLUSH: u32 = 4;
const DISCARD: u32 = 11;

const STATUS_OK: u8 = 0;
const STATUS_UNSUPP: u8 = 2;
/// No server writes it.
const STATUS_NONE: u8 = 0xff;

/// Bytes of a slot after the buffers. For a disk: a header of 16, the range of a discard of 16, a status. For a file: a
/// header of 40, arguments of up to 40, and from `REPLY` a reply of up to 24.
const SLOT_BYTES: usize = 128;
const REPLY: usize = 96;

/// The service of the requests.
#[derive(Debug, Clone)]
pub enum Service {
    /// A disk.
    Disk(Arc<Connection>),
    /// Files of one share, in the order of the ops' numbers; at least one.
    Files(Vec<Arc<OpenFile>>),
}

impl Service {
    fn link(&self) -> Option<&super::link::Link> {
        match self {
            Service::Disk(connection) => Some(&connection.link),
            Service::Files(files) => files.first().map(|file| &file.share.link),
        }
    }

    /// The memory shared with the server. `None`: not connected to a server.
    pub fn memory(&self) -> Option<&Arc<SharedMemory>> {
        self.link().map(|link| &link.memory)
    }

    /// The server's process. `None`: unknown.
    pub fn server(&self) -> Option<u32> {
        let socket = self.link()?.socket().ok()?;
        crate::host::peer(socket.as_fd())
    }

    /// A new queue, or part of one, for `slots` ops of at most `longest` bytes.
    fn queue(&self, slots: u32, longest: u64) -> Result<QueueUser, (io::Error, &'static str)> {
        let refused = |error| (error, "look at the messages of the server");
        match self {
            Service::Disk(connection) => {
                let number = connection.next_queue().ok_or_else(|| {
                    let text = format!(
                        "the server has {} queues, and each clone of a job needs one",
                        connection.disk.queues
                    );
                    let hint = "start the server with more queues, or lower `numjobs`";
                    (io::Error::other(text), hint)
                })?;
                let chain = chain_length(connection, longest);
                let small = |error| (error, "lower `iodepth` or `bs`");
                let queue = Queue::new(&connection.link, number, slots, chain).map_err(small)?;
                Arc::new(queue).join(slots).map_err(refused)
            }
            Service::Files(files) => {
                let share = &files
                    .first()
                    .ok_or((io::ErrorKind::NotFound.into(), ""))?
                    .share;
                let small = |error| (error, "lower `iodepth` or `numjobs`");
                share.join(slots).map_err(small)
            }
        }
    }
}

/// One user of a server.
#[derive(Debug)]
pub struct VhostUserBackend {
    service: Service,
    /// Its URI, for messages.
    name: String,
    /// A duplicate of the connection's socket, to detect its end.
    socket: UnixStream,
    arena: Arena,
    queue: QueueUser,
    clock: MonotonicClock,
    /// The op of each slot, when it was submitted, and its number for FUSE.
    ops: Box<[Option<(Op, u64, u64)>]>,
    /// Number of the last request.
    unique: u64,
    /// Prepared and not yet submitted.
    prepared: Vec<Slot>,
    /// Slots given back and not yet completed, the last one first.
    returned: Vec<Slot>,
    in_flight: u32,
    /// Parts of a chain.
    parts: Vec<Part>,
    cancelled: bool,
}

impl VhostUserBackend {
    /// Bytes that it needs after the slots of its arena.
    pub fn tail(slots: u32) -> usize {
        slots.max(1) as usize * SLOT_BYTES
    }

    /// For ops of at most the length of a slot. The arena is in the memory of the service, followed by [`Self::tail`]
    /// bytes.
    ///
    /// # Errors
    /// The server has no free queue, or refuses it.
    pub fn new(service: Service, arena: Arena) -> Result<VhostUserBackend, BackendError> {
        let absent = || BackendError::new("use a server", io::ErrorKind::NotFound.into());
        let link = service.link().ok_or_else(absent)?;
        let name = link.name.clone();
        let failed = |(source, hint): (io::Error, &'static str)| BackendError {
            what: format!("set up a queue of `{name}`"),
            source,
            hint: Some(hint),
        };
        let slots = arena.slots();
        if !arena.is_part_of(&link.memory) || arena.tail_length() < Self::tail(slots) {
            return Err(failed((io::ErrorKind::Unsupported.into(), "")));
        }
        let longest = arena.slot_bytes() as u64;
        let queue = service.queue(slots, longest).map_err(failed)?;
        let socket = link.socket();
        let socket = socket.map_err(|error| failed((error, "raise `ulimit -n`")))?;
        let chain = match &service {
            Service::Disk(connection) => chain_length(connection, longest),
            Service::Files(_) => CHAIN,
        };
        Ok(VhostUserBackend {
            service,
            name,
            socket,
            arena,
            queue,
            clock: MonotonicClock,
            ops: vec![None; slots as usize].into_boxed_slice(),
            unique: 0,
            prepared: Vec::with_capacity(slots as usize),
            returned: Vec::with_capacity(slots as usize),
            in_flight: 0,
            parts: Vec::with_capacity(usize::from(chain)),
            cancelled: false,
        })
    }

    fn failed(&self, source: io::Error) -> BackendError {
        BackendError {
            what: format!("continue with `{}`", self.name),
            source,
            hint: Some("look at the messages of the server"),
        }
    }

    fn malformed(&self, what: &str) -> BackendError {
        self.failed(io::Error::new(io::ErrorKind::InvalidData, what.to_owned()))
    }

    /// Submits prepared ops.
    fn submit(&mut self, completions: &mut Completions) {
        if self.prepared.is_empty() {
            return;
        }
        let now = self.clock.now();
        let Self {
            service,
            arena,
            queue,
            ops,
            unique,
            prepared,
            in_flight,
            parts,
            ..
        } = self;
        queue.submit(|ring| {
            for slot in prepared.drain(..) {
                let Some((op, submitted, number)) = &mut ops[slot as usize] else {
                    continue;
                };
                // The lowest bit would mean an interruption.
                *unique += 2;
                (*submitted, *number) = (now, *unique);
                let header = header(slot);
                parts.clear();
                match service {
                    Service::Disk(connection) => {
                        disk_request(connection, arena, (slot, op), header, parts);
                    }
                    Service::Files(files) => {
                        let file = &files[op.file as usize];
                        file_request(file, arena, (slot, op), (header, *unique), parts);
                    }
                }
                // SAFETY: the parts are the buffer of the slot, which is lent until the server gives the chain back,
                // and the slot's area after all buffers. All of it is in the shared memory.
                unsafe { ring.push(slot, parts) };
                *in_flight += 1;
                completions.submitted += 1;
            }
        });
    }

    /// Completes requests that the server has given back, until `max` ops are complete.
    fn take(&mut self, max: u32, completions: &mut Completions) -> Result<(), BackendError> {
        if completions.list.len() < max as usize && self.returned.is_empty() {
            let collected = self.queue.collect(&mut self.returned);
            let invented =
                |_| self.malformed("the server returned a request that is not in flight");
            collected.map_err(invented)?;
            self.returned.reverse();
        }
        let mut now = None;
        while completions.list.len() < max as usize
            && let Some(slot) = self.returned.pop()
        {
            let op = self.ops.get_mut(slot as usize).and_then(Option::take);
            let Some((op, submitted, unique)) = op else {
                return Err(self.malformed("the server returned a request that is not in flight"));
            };
            // SAFETY: the server has given it back. If the server still accesses it, it changes bytes, and all values
            // are valid.
            unsafe { self.arena.take_back(slot) };
            self.in_flight -= 1;
            let header = header(slot);
            let result = match &self.service {
                Service::Disk(_) => Some(disk_result(&self.arena, header, &op)),
                Service::Files(_) => file_result(&self.arena, header, &op, unique),
            };
            let result = result.ok_or_else(|| self.malformed("a reply of the server is malformed"));
            let now = *now.get_or_insert_with(|| self.clock.now());
            completions.push(slot, result?, submitted, now);
        }
        Ok(())
    }

    /// Ends all ops with ECANCELED. Their slots stay busy, because the server may still write to them.
    fn end_cancelled(&mut self, max: u32, completions: &mut Completions) {
        let now = self.clock.now();
        for slot in 0..self.ops.len() {
            if completions.list.len() == max as usize {
                return;
            }
            if let Some((_, submitted, _)) = self.ops[slot].take() {
                completions.push(slot as Slot, -libc::ECANCELED, submitted, now);
            }
        }
        self.prepared.clear();
        self.in_flight = 0;
    }
}

/// The longest chain of an op on a disk of at most `longest` bytes: header, data, status; or header, range, status.
fn chain_length(connection: &Connection, longest: u64) -> u16 {
    let segments = longest.div_ceil(u64::from(connection.disk.segment));
    // Within the limit of the disk; longer ops are refused before.
    2 + segments.clamp(1, 126) as u16
}

/// The offset of a slot's area after the buffers.
fn header(slot: Slot) -> usize {
    SLOT_BYTES * slot as usize
}

fn disk_request(
    connection: &Connection,
    arena: &mut Arena,
    (slot, op): (Slot, &Op),
    header: usize,
    parts: &mut Vec<Part>,
) {
    let (range, status) = (header + 16, header + 32);
    let (kind, sector) = match op.kind {
        OpKind::Read => (IN, op.offset / 512),
        OpKind::Write => (OUT, op.offset / 512),
        OpKind::Trim => (DISCARD, 0),
        // A range cannot be flushed: everything is.
        OpKind::Fsync | OpKind::Fdatasync | OpKind::SyncRange(_) => (FLUSH, 0),
        OpKind::ResetZone => unreachable!("these disks have no zones"),
    };
    // Numbers of the device are little-endian.
    arena.put(header, [kind.to_le(), 0]);
    arena.put(header + 8, sector.to_le());
    arena.put(status, STATUS_NONE);
    parts.push((arena.tail_address(header), 16, false));
    let length = op.transfer_length();
    let data = arena.lend(slot, if length > 0 { op.skip } else { 0 }, length);
    let (mut address, mut rest) = (data.expose_provenance() as u64, length);
    while rest > 0 {
        let part = rest.min(connection.disk.segment);
        parts.push((address, part, op.kind == OpKind::Read));
        (address, rest) = (address + u64::from(part), rest - part);
    }
    if op.kind == OpKind::Trim {
        arena.put(range, (op.offset / 512).to_le());
        arena.put(range + 8, [(op.length / 512).to_le(), 0]);
        parts.push((arena.tail_address(range), 16, false));
    }
    parts.push((arena.tail_address(status), 1, true));
}

fn disk_result(arena: &Arena, header: usize, op: &Op) -> i32 {
    match arena.get::<u8>(header + 32) {
        STATUS_OK => op.transfer_length() as i32,
        STATUS_UNSUPP => -libc::EOPNOTSUPP,
        _ => -libc::EIO,
    }
}

fn file_request(
    file: &OpenFile,
    arena: &mut Arena,
    (slot, op): (Slot, &Op),
    (header, unique): (usize, u64),
    parts: &mut Vec<Part>,
) {
    const DATA_ONLY: u32 = 1;
    let length = op.transfer_length();
    let data = arena.lend(slot, if length > 0 { op.skip } else { 0 }, length);
    let data = data.expose_provenance() as u64;
    let mut arguments = [0; fuse::ARGUMENT_BYTES / 8];
    let mut set = |words: &[u64]| {
        arguments[..words.len()].copy_from_slice(words);
        8 * words.len() as u32
    };
    let (opcode, bytes) = match op.kind {
        OpKind::Read => (fuse::READ, set(&file.transfer(op.offset, length))),
        OpKind::Write => (fuse::WRITE, set(&file.transfer(op.offset, length))),
        OpKind::Trim => {
            let hole = (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE) as u32;
            let range = file.allocation(op.offset, op.length.into(), hole);
            (fuse::FALLOCATE, set(&range))
        }
        OpKind::Fsync => (fuse::FSYNC, set(&[file.handle, 0])),
        // A range cannot be synced: the data of the file are.
        OpKind::Fdatasync | OpKind::SyncRange(_) => {
            let flags = fuse::words(DATA_ONLY, 0);
            (fuse::FSYNC, set(&[file.handle, flags]))
        }
        OpKind::ResetZone => unreachable!("files have no zones"),
    };
    let more = bytes + if op.kind == OpKind::Write { length } else { 0 };
    let words = file.share.caller.header(opcode, more, unique, file.node);
    arena.put(header, words);
    arena.put(header + fuse::HEADER, arguments);
    arena.put(header + REPLY, [0u64; 3]);
    let at = |behind: usize| arena.tail_address(header + behind);
    parts.push((at(0), fuse::HEADER as u32, false));
    parts.push((at(fuse::HEADER), bytes, false));
    let reply = fuse::REPLY_HEADER as u32;
    match op.kind {
        OpKind::Read => parts.extend([(at(REPLY), reply, true), (data, length, true)]),
        OpKind::Write => parts.extend([(data, length, false), (at(REPLY), reply + 8, true)]),
        _ => parts.push((at(REPLY), reply, true)),
    }
}

/// `None`: the reply is malformed.
fn file_result(arena: &Arena, header: usize, op: &Op, unique: u64) -> Option<i32> {
    let length = op.transfer_length();
    let most = match op.kind {
        OpKind::Read => length,
        OpKind::Write => 8,
        _ => 0,
    };
    match fuse::reply(arena.get(header + REPLY), unique, most)? {
        Reply::Errno(errno) => Some(-errno),
        Reply::Bytes(read) if op.kind == OpKind::Read => Some(read as i32),
        Reply::Bytes(8) if op.kind == OpKind::Write => {
            let written: u32 = arena.get(header + REPLY + fuse::REPLY_HEADER);
            (written <= length).then_some(written as i32)
        }
        Reply::Bytes(_) => (op.kind != OpKind::Write).then_some(0),
    }
}

impl Backend for VhostUserBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            submits_many: true,
            ..Capabilities::default()
        }
    }

    #[inline]
    fn buffer(&mut self, slot: Slot) -> &mut [u8] {
        self.arena.slot_mut(slot)
    }

    fn room(&self) -> u32 {
        self.arena.slots() - self.prepared.len() as u32
    }

    fn prep(&mut self, slot: Slot, op: &Op) {
        debug_assert!(self.ops[slot as usize].is_none(), "the slot is idle");
        self.ops[slot as usize] = Some((*op, 0, 0));
        self.prepared.push(slot);
    }

    fn turn(
        &mut self,
        min: u32,
        max: u32,
        deadline: Option<u64>,
        completions: &mut Completions,
    ) -> Result<(), BackendError> {
        completions.clear();
        completions.entered = self.clock.now();
        if !self.cancelled {
            self.submit(completions);
        }
        let min = min.min(max) as usize;
        loop {
            if self.cancelled {
                self.end_cancelled(max, completions);
                break;
            }
            self.take(max, completions)?;
            let done = completions.list.len();
            if done >= min || self.in_flight == 0 {
                break;
            }
            let now = self.clock.now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                break;
            }
            let missing = (min - done).min(self.in_flight as usize) as u16;
            if self.queue.await_used(missing) {
                let timeout = deadline.map(|deadline| deadline - now);
                let waited = self.queue.wait(&self.socket, timeout);
                waited.map_err(|error| self.failed(error))?;
            }
        }
        completions.returned = self.clock.now();
        Ok(())
    }

    fn cancel_all(&mut self) {
        self.cancelled = true;
        // The protocols have no cancellation. This ends all queues of the connection.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }
}
