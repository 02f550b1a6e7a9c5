//! The backend of the engine `vhost-user-blk`: one queue of a connection.
//!
//! The buffers of the slots are in memory that is shared with the server, so that data are never copied here. Behind them, in the same
//! mapping, are the ring, and for each slot a header, a status, and the range of a discard.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use super::ring::{Part, Places, Ring};
use super::{Connection, F_EVENT_IDX, F_INDIRECT, Shares};
use crate::memory::Arena;
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

/// Bytes of a slot behind the ring: a header of 16, the range of a discard of 16, a status.
const SLOT_BYTES: u64 = 64;
/// Descriptors of a ring that servers accept.
const MOST_DESCRIPTORS: u16 = 1024;

/// One queue of a server.
#[derive(Debug)]
pub struct VhostUserBackend {
    connection: Arc<Connection>,
    /// Another descriptor of its socket, to see its end.
    socket: UnixStream,
    arena: Arena,
    ring: Ring,
    /// Where the headers are.
    headers: u64,
    kick: File,
    call: File,
    clock: MonotonicClock,
    /// The op of each slot, and when it was submitted.
    ops: Box<[Option<(Op, u64)>]>,
    /// Prepared and not yet submitted.
    prepared: Vec<Slot>,
    in_flight: u32,
    /// Parts of a chain.
    parts: Vec<Part>,
    cancelled: bool,
}

impl VhostUserBackend {
    /// Bytes that it needs behind the slots of its arena, for `slots` ops of at most `longest` bytes.
    pub fn tail(connection: &Connection, slots: u32, longest: u64) -> usize {
        let chain = u64::from(chain_length(connection, longest));
        // Twice as many descriptors as are used at most, because their number is a power of two.
        let each = SLOT_BYTES + 16 * chain + 2 * chain * (16 + 2 + 8);
        (u64::from(slots.max(2)) * each + 512) as usize
    }

    /// Sets up the next queue of a connection, for ops of at most the length of a slot. The arena is one of [`Arena::shared`], with
    /// [`Self::tail`] bytes behind its slots.
    ///
    /// # Errors
    /// The server has no more queues, or refuses it.
    pub fn new(
        connection: Arc<Connection>,
        arena: Arena,
    ) -> Result<VhostUserBackend, BackendError> {
        let what = format!("set up a queue of `{}`", connection.name);
        let failed = |source: io::Error, hint: &'static str| BackendError {
            what: what.clone(),
            source,
            hint: Some(hint),
        };
        let slots = arena.slots();
        let mut wire = connection.wire();
        if wire.queues >= connection.disk.queues {
            let text = format!(
                "the server has {} queues, and each clone of a job needs one",
                connection.disk.queues
            );
            let hint = "start the server with more queues, or lower `numjobs`";
            return Err(failed(io::Error::other(text), hint));
        }
        let Some((file, start, length)) = arena.mapping() else {
            return Err(BackendError::new(what, io::ErrorKind::Unsupported.into()));
        };
        let headers = start + arena.slots_length() as u64;
        let chain = chain_length(&connection, arena.slot_bytes() as u64);
        let indirect = connection.features & F_INDIRECT != 0;
        let ring = (headers + SLOT_BYTES * u64::from(slots)).next_multiple_of(64);
        let places = Places::new(ring, slots, chain, indirect, MOST_DESCRIPTORS);
        let places = places.filter(|places| ring + places.length() as u64 <= start + length);
        let places = places.ok_or_else(|| {
            let text = format!("{slots} requests do not fit in a ring");
            failed(io::Error::other(text), "lower `iodepth` or `bs`")
        })?;
        let shares = Shares {
            file: file.as_fd(),
            start,
            length,
        };
        let refused = |error| failed(error, "look at the messages of the server");
        let (kick, call) = (event().map_err(refused)?, event().map_err(refused)?);
        (wire.queue(&shares, &places, &kick, &call)).map_err(refused)?;
        let socket = wire.stream.try_clone().map_err(refused)?;
        drop(wire);
        let events = connection.features & F_EVENT_IDX != 0;
        // SAFETY: the ring is within the mapping of the arena, checked above, and the arena lives as long as the ring.
        let ring = unsafe { Ring::new(places, events) };
        Ok(VhostUserBackend {
            connection,
            socket,
            arena,
            ring,
            headers,
            kick,
            call,
            clock: MonotonicClock,
            ops: vec![None; slots as usize].into_boxed_slice(),
            prepared: Vec::with_capacity(slots as usize),
            in_flight: 0,
            parts: Vec::with_capacity(usize::from(chain)),
            cancelled: false,
        })
    }

    fn failed(&self, what: &str) -> BackendError {
        BackendError {
            what: format!("go on with `{}`", self.connection.name),
            source: io::Error::other(what.to_owned()),
            hint: Some("look at the messages of the server"),
        }
    }

    /// The header of a slot; its status is 32 bytes further.
    fn header(&self, slot: Slot) -> u64 {
        self.headers + SLOT_BYTES * u64::from(slot)
    }

    fn put<T>(address: u64, value: T) {
        // SAFETY: in the header of a slot, which is within the mapping of the arena; aligned, because headers are.
        unsafe {
            std::ptr::with_exposed_provenance_mut::<T>(address as usize).write_volatile(value)
        }
    }

    /// Makes a slot's op available.
    fn push(&mut self, slot: Slot, op: &Op) {
        let header = self.header(slot);
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
        VhostUserBackend::put(header, [kind.to_le(), 0]);
        VhostUserBackend::put(header + 8, sector.to_le());
        VhostUserBackend::put(status, STATUS_NONE);
        self.parts.clear();
        self.parts.push((header, 16, false));
        match op.kind {
            OpKind::Read | OpKind::Write => {
                let read = op.kind == OpKind::Read;
                let data = self.arena.lend(slot, op.skip, op.length);
                let (mut address, mut rest) = (data.expose_provenance() as u64, op.length);
                while rest > 0 {
                    let part = rest.min(self.connection.disk.segment);
                    self.parts.push((address, part, read));
                    (address, rest) = (address + u64::from(part), rest - part);
                }
            }
            _ => {
                self.arena.lend(slot, 0, 0);
            }
        }
        if op.kind == OpKind::Trim {
            VhostUserBackend::put(range, (op.offset / 512).to_le());
            VhostUserBackend::put(range + 8, [(op.length / 512).to_le(), 0]);
            self.parts.push((range, 16, false));
        }
        self.parts.push((status, 1, true));
        self.ring.push(slot, &self.parts);
    }

    /// Submits what is prepared.
    fn submit(&mut self, completions: &mut Completions) {
        if self.prepared.is_empty() {
            return;
        }
        let now = self.clock.now();
        let mut prepared = std::mem::take(&mut self.prepared);
        for slot in prepared.drain(..) {
            if let Some((op, _)) = self.ops[slot as usize] {
                self.ops[slot as usize] = Some((op, now));
                self.push(slot, &op);
                self.in_flight += 1;
                completions.submitted += 1;
            }
        }
        self.prepared = prepared;
        if self.ring.notifies() {
            signal(&self.kick);
        }
    }

    /// Completes what the server has given back, until `max` ops are complete.
    fn take(&mut self, max: u32, completions: &mut Completions) -> Result<(), BackendError> {
        let mut now = None;
        while completions.list.len() < max as usize
            && let Some(slot) = self.ring.pop()
        {
            let op = match slot {
                Ok(slot) => (self.ops.get_mut(slot as usize))
                    .and_then(Option::take)
                    .map(|op| (slot, op)),
                Err(_) => None,
            };
            let Some((slot, (op, submitted))) = op else {
                return Err(self.failed("the server returned a request that is not in flight"));
            };
            self.arena.take_back(slot);
            self.in_flight -= 1;
            // SAFETY: in the header of a slot; the server has written it before it returned the request.
            let status = unsafe {
                let place = self.header(slot) + 32;
                std::ptr::with_exposed_provenance::<u8>(place as usize).read_volatile()
            };
            let result = match status {
                STATUS_OK => op.transfer_length() as i32,
                STATUS_UNSUPP => -libc::EOPNOTSUPP,
                _ => -libc::EIO,
            };
            let now = *now.get_or_insert_with(|| self.clock.now());
            completions.push(slot, result, submitted, now);
        }
        Ok(())
    }

    /// Waits until the server signals, or its connection ends.
    fn wait(&self, timeout_ns: Option<u64>) -> Result<(), BackendError> {
        let watch = |descriptor: libc::c_int| libc::pollfd {
            fd: descriptor,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut watched = [watch(self.call.as_raw_fd()), watch(self.socket.as_raw_fd())];
        let time = timeout_ns.map(|ns| libc::timespec {
            tv_sec: (ns / 1_000_000_000) as _,
            tv_nsec: (ns % 1_000_000_000) as _,
        });
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: two descriptors of ours; they and the time outlive the call. No signal mask is given. A call that was interrupted
        // has no events, and the caller comes again.
        let ready = unsafe { libc::ppoll(watched.as_mut_ptr(), 2, time, std::ptr::null()) };
        if ready <= 0 {
            return Ok(());
        }
        if watched[0].revents != 0 {
            let mut count = [0u8; 8];
            // Servers make it non-blocking; there may be nothing to read.
            let _ = io::Read::read(&mut &self.call, &mut count);
            return Ok(());
        }
        // Nothing is asked: the server has nothing to say.
        Err(self.failed("the server closed the connection"))
    }

    /// Ends all ops with ECANCELED. Their slots stay busy, because the server may still write to them.
    fn end_cancelled(&mut self, max: u32, completions: &mut Completions) {
        let now = self.clock.now();
        for slot in 0..self.ops.len() {
            if completions.list.len() == max as usize {
                return;
            }
            if let Some((_, submitted)) = self.ops[slot].take() {
                completions.push(slot as Slot, -libc::ECANCELED, submitted, now);
            }
        }
        self.prepared.clear();
        self.in_flight = 0;
    }
}

/// The longest chain of an op of at most `longest` bytes: header, data, status; or header, range, status.
fn chain_length(connection: &Connection, longest: u64) -> u16 {
    let segments = longest.div_ceil(u64::from(connection.disk.segment));
    // No more than a disk takes; longer ops are refused before.
    2 + segments.clamp(1, 126) as u16
}

/// An eventfd. The server may make it non-blocking.
fn event() -> io::Result<File> {
    // SAFETY: no memory is passed.
    let event = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    match event < 0 {
        true => Err(io::Error::last_os_error()),
        // SAFETY: a new descriptor, which nobody else has.
        false => Ok(unsafe { File::from_raw_fd(event) }),
    }
}

/// It fails only if the counter is full, and then the server wakes up anyway.
fn signal(mut event: &File) {
    let _ = io::Write::write(&mut event, &1u64.to_ne_bytes());
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
        self.ops[slot as usize] = Some((*op, 0));
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
            if self.ring.await_used(missing) {
                self.wait(deadline.map(|deadline| deadline - now))?;
            }
        }
        completions.returned = self.clock.now();
        Ok(())
    }

    fn cancel_all(&mut self) {
        self.cancelled = true;
        // The protocol has no cancellation. This ends all queues of the connection.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }
}
