//! A disk for the guests of a virtual machine monitor: the server's side of vhost-user, for block devices.
//!
//! Source: "Vhost-user Protocol" of QEMU's documentation, and VIRTIO 1.2, section 2.7, for the rings. The crate `vhost` reads and checks
//! the messages, `virtio-queue` the rings; [`crate::virtio_blk`] reads the requests. One thread serves a connection with all its rings, and
//! reads from legs itself ([`crate::reader`]).
//!
//! # What must hold
//!
//! - Nothing in the memory of a client is used after its connection has ended. Requests in flight end as well; their answers are dropped.
//! - A ring is stopped when all its requests in flight were answered.
//! - If the client keeps a record of requests in flight ([`crate::inflight`]), each is recorded before it begins, until its answer can be
//!   seen. A ring that starts with requests in its record carries them out first, in order of arrival.
//! - A ring whose client breaks the rules is not used any more: its error event is signalled, and the other rings go on.
//!
//! A client that shortens a file of the memory that it shares ends the server (SIGBUS). It has to be a program that this user trusts.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use iodyno_mirror::core::Access;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig,
    VhostUserSharedMsg, VhostUserSingleMemoryRegion, VhostUserVirtioFeatures,
    VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{
    BackendReqHandler, Error, GpuBackend, Result, VhostUserBackendReqHandlerMut,
};
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::GuestAddress;

use crate::client_memory::{ClientMemory, MOST_REGIONS, event, signal, unsupported};
use crate::inflight::InFlightRecord;
use crate::queue::{Handle, Reply, ReplyTo, Request};
use crate::reader::{Ended, Outcome, Reader};
use crate::spare::Spare;
use crate::virtio_blk::{Disk, MOST_QUEUES, Place, Room, Segments, Table, Wanted};

/// Descriptors of a ring.
const MOST_DESCRIPTORS: u16 = 1024;
/// Requests in flight of all rings.
const MOST_IN_FLIGHT: usize = MOST_DESCRIPTORS as usize * MOST_QUEUES as usize;
/// Bytes of the requests of a connection in flight; one request may exceed it.
const MOST_BYTES: usize = 64 << 20;
/// Bytes of the buffers that a connection keeps for its next requests.
const SPARE_BYTES: usize = 4 << 20;
/// Between two looks at whether the server ends, while a ring is stopped, ns.
const LOOK_NS: u64 = 100_000_000;
/// Numbers of what the reader watches: the socket, and the event of each ring.
const SOCKET: u32 = 0;
const FIRST_RING: u32 = 1;

const F_INDIRECT: u64 = 1 << 28;
const F_EVENT_IDX: u64 = 1 << 29;
const F_VERSION_1: u64 = 1 << 32;

/// Serves one client until it leaves, or `stopping` is set and its socket is shut down.
///
/// # Errors
/// Those of the connection, and of what the client asks for.
pub fn serve(
    stream: UnixStream,
    disk: Disk,
    handle: Handle,
    stopping: Arc<AtomicBool>,
) -> io::Result<()> {
    let socket = stream.try_clone()?;
    let watched = FIRST_RING + u32::from(MOST_QUEUES);
    let mut reader = Reader::new(&handle, watched).map_err(io::Error::other)?;
    reader.exchange(SOCKET, &socket).map_err(io::Error::other)?;
    let (reply, replies) = ReplyTo::waking(Arc::clone(reader.wake()), MOST_IN_FLIGHT);
    let rings = (0..MOST_QUEUES).map(|_| Ring::new());
    #[allow(
        clippy::arc_with_non_send_sync,
        reason = "the crate `vhost` demands it; one thread has the device"
    )]
    let device = Arc::new(Mutex::new(Device {
        disk,
        reader,
        said: false,
        spare: Spare::default(),
        sent: Segments::default(),
        handle,
        reply,
        replies,
        stopping,
        owned: false,
        features: 0,
        writeback: true,
        memory: ClientMemory::default(),
        rings: rings.collect::<io::Result<_>>()?,
        record: None,
        bytes: 0,
    }));
    let mut messages = BackendReqHandler::from_stream(stream, Arc::clone(&device));
    let ended = run(&mut messages, &device);
    // Other descriptors of this socket are open: the client has to learn of the end now.
    let _ = socket.shutdown(Shutdown::Both);
    ended
}

fn run(messages: &mut BackendReqHandler<Mutex<Device>>, device: &Mutex<Device>) -> io::Result<()> {
    loop {
        let said = {
            let mut device = locked(device);
            device.wait(None)?;
            device.look_at_all();
            device.said
        };
        if said {
            // A message may come slowly: see the reader.
            while locked(device).reader.is_busy() {
                locked(device).wait(None)?;
            }
            messages.handle_request().map_err(io::Error::other)?;
            let mut device = locked(device);
            // Only now: until here the socket is not watched, and the message counted once.
            device.said = false;
            // It may have started a ring that has requests already.
            device.look_at_all();
        }
    }
}

fn locked(device: &Mutex<Device>) -> MutexGuard<'_, Device> {
    device.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct Ring {
    queue: Queue,
    kick: Option<File>,
    call: Option<File>,
    error: Option<File>,
    /// The client gave addresses.
    placed: bool,
    enabled: bool,
    broken: bool,
    /// Requests in flight, by the head of their chain, and their number.
    in_flight: Vec<InFlight>,
    count: u32,
    /// Some of them were answered, and the client was not yet told.
    answered: bool,
    /// There may be requests to take.
    due: bool,
    /// Requests that another server has left, by the head of their chain: they are carried out first.
    left: VecDeque<u16>,
}

#[derive(Debug, Default)]
struct InFlight {
    /// If not, it only keeps its lists.
    used: bool,
    place: Place,
    bytes: usize,
}

impl Ring {
    fn new() -> io::Result<Ring> {
        Ok(Ring {
            queue: Queue::new(MOST_DESCRIPTORS).map_err(io::Error::other)?,
            kick: None,
            call: None,
            error: None,
            placed: false,
            enabled: false,
            broken: false,
            in_flight: (0..MOST_DESCRIPTORS).map(|_| InFlight::default()).collect(),
            count: 0,
            answered: false,
            due: false,
            left: VecDeque::new(),
        })
    }

    fn runs(&self) -> bool {
        self.placed && self.enabled && self.kick.is_some() && self.queue.ready() && !self.broken
    }

    /// Its client broke the rules.
    fn give_up(&mut self) {
        self.broken = true;
        signal(self.error.as_ref());
    }
}

/// What a client has set up.
#[derive(Debug)]
struct Device {
    disk: Disk,
    reader: Reader,
    /// The client has sent a message.
    said: bool,
    spare: Spare<SPARE_BYTES>,
    /// What a request sends; the list is used again.
    sent: Segments,
    handle: Handle,
    reply: ReplyTo,
    replies: Receiver<Reply>,
    stopping: Arc<AtomicBool>,
    owned: bool,
    features: u64,
    /// The client's choice of a write cache.
    writeback: bool,
    memory: ClientMemory,
    rings: Vec<Ring>,
    /// What the client keeps for the next server.
    record: Option<InFlightRecord>,
    /// Of all requests in flight.
    bytes: usize,
}

impl Device {
    fn offered(&self) -> u64 {
        let protocol = VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();
        self.disk.features() | F_VERSION_1 | F_EVENT_IDX | F_INDIRECT | protocol
    }

    // ---- Requests ----

    /// Waits for a message, a reply, the end of a read, or a request in a ring that runs, but at most this long, ns. Answers what has ended.
    fn wait(&mut self, most_ns: Option<u64>) -> io::Result<()> {
        if !self.said {
            self.reader.watch(SOCKET, false);
        }
        for (number, ring) in (FIRST_RING..).zip(&self.rings) {
            if ring.runs() {
                self.reader.watch(number, false);
            }
        }
        self.reader.turn(most_ns).map_err(io::Error::other)?;
        while let Some(number) = self.reader.ready() {
            let Some(ring) = number.checked_sub(FIRST_RING) else {
                self.said = true;
                continue;
            };
            let ring = &mut self.rings[ring as usize];
            ring.due = true;
            if let Some(kick) = &ring.kick {
                let _ = rustix::io::read(kick, &mut [0; 8]);
            }
        }
        if self.reader.woken() {
            while let Ok(reply) = self.replies.try_recv() {
                let result = match reply.errno {
                    0 => Ok(&reply.data[..]),
                    errno => Err(errno),
                };
                if let Some((number, head, written)) = self.answered(reply.cookie, result) {
                    self.used(number, head, written);
                }
                self.spare.keep(reply.into_buffer());
            }
        }
        while let Some(ended) = self.reader.ended() {
            self.read(&ended);
        }
        Ok(())
    }

    /// A read has ended, or goes on in the thread of the mirror.
    fn read(&mut self, ended: &Ended) {
        match ended.outcome {
            Outcome::Read { .. } => {
                let (number, head) = of_cookie(ended.cookie);
                let bytes = self.reader.bytes(ended);
                let in_flight = &mut self.rings[number].in_flight[usize::from(head)];
                let written = in_flight.place.answer(self.memory.guest(), Ok(bytes));
                self.ended(number, head);
                self.used(number, head, written);
            }
            Outcome::HandedOver(failed) => {
                let buffer = self.spare.take(0);
                self.handle.request(Request {
                    access: Access::Read,
                    offset: ended.offset,
                    length: ended.length,
                    payload: buffer,
                    holes: false,
                    cookie: ended.cookie,
                    reply: self.reply.clone(),
                    queue: self.reader.queue(),
                    failed,
                });
            }
        }
    }

    /// Takes what is in the rings, and tells the client what was answered.
    fn look_at_all(&mut self) {
        for number in 0..self.rings.len() {
            self.look(number);
        }
        self.notify();
    }

    /// Takes what is in a ring.
    fn look(&mut self, number: usize) {
        let ring = &mut self.rings[number];
        if !ring.runs() || !std::mem::take(&mut ring.due) {
            return;
        }
        loop {
            // A client may notify more often than it has to.
            let _ = self.rings[number]
                .queue
                .disable_notification(self.memory.guest());
            loop {
                if !self.rings[number].runs() {
                    return;
                }
                match self.take(number) {
                    Step::Taken => {}
                    Step::Empty => break,
                    // An answer makes room, and then the ring is looked at again.
                    Step::Full => {
                        self.rings[number].due = true;
                        return;
                    }
                }
            }
            let ring = &mut self.rings[number];
            match ring.queue.enable_notification(self.memory.guest()) {
                Ok(true) => {}
                Ok(false) => return,
                Err(_) => return ring.give_up(),
            }
        }
    }

    /// Takes the next request of a ring.
    fn take(&mut self, number: usize) -> Step {
        if self.bytes >= MOST_BYTES {
            return Step::Full;
        }
        let ring = &mut self.rings[number];
        if let Some(head) = ring.left.pop_front() {
            return self.begin(number, head);
        }
        let head = match ring.queue.iter(self.memory.guest()) {
            Ok(mut chains) => chains.next().map(|chain| chain.head_index()),
            Err(_) => {
                ring.give_up();
                return Step::Empty;
            }
        };
        match head {
            Some(head) => self.begin(number, head),
            None => Step::Empty,
        }
    }

    /// Begins the request whose chain begins with this descriptor.
    fn begin(&mut self, number: usize, head: u16) -> Step {
        let buffer = self.spare.take(0);
        let ring = &mut self.rings[number];
        let through = Disk::writes_through(self.features, self.writeback);
        let table = Table {
            at: GuestAddress(ring.queue.desc_table()),
            size: ring.queue.size(),
        };
        let in_flight = (ring.in_flight.get_mut(usize::from(head)))
            .filter(|in_flight| !in_flight.used && head < table.size);
        if let Some(record) = self.record.as_mut().filter(|_| in_flight.is_some()) {
            record.begins(number as u16, head);
        }
        let wanted = in_flight.and_then(|in_flight| {
            let room = Room {
                sent: &mut self.sent,
                place: &mut in_flight.place,
                buffer,
            };
            let memory = self.memory.guest();
            let request = self.disk.request(memory, table, head, through, room);
            request.map(|wanted| (wanted, in_flight))
        });
        let Some((wanted, in_flight)) = wanted else {
            ring.give_up();
            return Step::Empty;
        };
        let bytes = wanted.bytes();
        match wanted {
            Wanted::Refused(status) => {
                let written = in_flight.place.refuse(self.memory.guest(), status);
                self.used(number, head, written);
            }
            Wanted::Id => {
                let id = Ok(&self.disk.id[..]);
                let written = in_flight.place.answer(self.memory.guest(), id);
                self.used(number, head, written);
            }
            Wanted::Access {
                access,
                offset,
                length,
                buffer,
                holes,
            } => {
                self.bytes += bytes;
                (in_flight.used, in_flight.bytes) = (true, bytes);
                ring.count += 1;
                let cookie = (number as u64) << 32 | u64::from(head);
                if access == Access::Read && self.reader.read(cookie, offset, length) {
                    self.spare.keep(buffer);
                    return Step::Taken;
                }
                self.handle.request(Request {
                    access,
                    offset,
                    length,
                    payload: buffer,
                    holes,
                    cookie,
                    reply: self.reply.clone(),
                    queue: self.reader.queue(),
                    failed: None,
                });
            }
        }
        Step::Taken
    }

    /// Answers a request. Returns its ring, its chain and the bytes that were written; `None`: it is not in flight.
    fn answered(
        &mut self,
        cookie: u64,
        result: std::result::Result<&[u8], i32>,
    ) -> Option<(usize, u16, u32)> {
        let (number, head) = of_cookie(cookie);
        let in_flight = &mut self.rings[number].in_flight[usize::from(head)];
        if !in_flight.used {
            return None;
        }
        let written = in_flight.place.answer(self.memory.guest(), result);
        self.ended(number, head);
        Some((number, head, written))
    }

    fn ended(&mut self, number: usize, head: u16) {
        let ring = &mut self.rings[number];
        let in_flight = &mut ring.in_flight[usize::from(head)];
        in_flight.used = false;
        ring.count -= 1;
        self.bytes -= in_flight.bytes;
    }

    /// Gives a chain back to the client.
    fn used(&mut self, number: usize, head: u16, written: u32) {
        let ring = &mut self.rings[number];
        if let Some(record) = &self.record {
            record.ends(number as u16, head);
        }
        match ring.queue.add_used(self.memory.guest(), head, written) {
            Ok(()) => ring.answered = true,
            Err(_) => return ring.give_up(),
        }
        if let Some(record) = &self.record {
            record.ended(number as u16, head, ring.queue.next_used());
        }
    }

    /// Tells the client what was answered, where it wants to know.
    fn notify(&mut self) {
        for ring in &mut self.rings {
            if std::mem::take(&mut ring.answered) {
                match ring.queue.needs_notification(self.memory.guest()) {
                    Ok(true) => signal(ring.call.as_ref()),
                    Ok(false) => {}
                    Err(_) => ring.give_up(),
                }
            }
        }
    }

    /// Waits until all requests of a ring have been answered.
    fn drain(&mut self, number: usize) -> Result<()> {
        while self.rings[number].count > 0 {
            self.wait(Some(LOOK_NS)).map_err(Error::ReqHandlerError)?;
            if self.stopping.load(Ordering::Relaxed) {
                return Err(Error::Disconnected);
            }
        }
        self.notify();
        Ok(())
    }

    // ---- Messages ----

    fn ring(&mut self, number: u32) -> Result<&mut Ring> {
        let ring = self.rings.get_mut(number as usize);
        ring.ok_or(Error::InvalidParam)
    }

    /// A ring starts. What another server has left of it is carried out first; the client knows only what has ended.
    fn take_over(&mut self, number: usize) {
        let ring = &mut self.rings[number];
        let Some(record) = self
            .record
            .as_mut()
            .filter(|_| ring.placed && ring.count == 0)
        else {
            return;
        };
        let used = ring.queue.next_used();
        ring.left = record.left(number as u16, used).into();
        if !ring.left.is_empty() {
            // Each of them was taken from the ring.
            let taken = ring.left.len() as u16;
            ring.queue.set_next_avail(used.wrapping_add(taken));
        }
    }

    fn stop(&mut self, number: u32) -> Result<()> {
        self.ring(number)?.queue.set_ready(false);
        self.drain(number as usize)
    }
}

/// Queues and descriptors of a record of requests in flight.
fn record_size(record: &VhostUserInflight) -> Result<(u16, u16)> {
    let (queues, descriptors) = (record.num_queues, record.queue_size);
    match (1..=MOST_QUEUES).contains(&queues) && (1..=MOST_DESCRIPTORS).contains(&descriptors) {
        true => Ok((queues, descriptors)),
        false => Err(Error::InvalidParam),
    }
}

/// Ring and head of a request.
fn of_cookie(cookie: u64) -> (usize, u16) {
    ((cookie >> 32) as usize, cookie as u16)
}

/// What became of the next request.
enum Step {
    Taken,
    Empty,
    Full,
}

impl VhostUserBackendReqHandlerMut for Device {
    fn set_owner(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.owned, true) {
            true => Err(Error::InvalidOperation("already claimed")),
            false => Ok(()),
        }
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.owned = false;
        self.reset_device()
    }

    fn reset_device(&mut self) -> Result<()> {
        for number in 0..self.rings.len() {
            self.stop(number as u32)?;
            let ring = &mut self.rings[number];
            (ring.enabled, ring.broken, ring.placed) = (false, false, false);
        }
        (self.features, self.writeback) = (0, true);
        Ok(())
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(self.offered())
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !self.offered() != 0 {
            return Err(Error::InvalidParam);
        }
        self.features = features;
        let protocol = features & VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits() != 0;
        for ring in &mut self.rings {
            ring.queue.set_event_idx(features & F_EVENT_IDX != 0);
            // Then there are no messages that enable them.
            ring.enabled |= !protocol;
        }
        Ok(())
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS
            | VhostUserProtocolFeatures::INFLIGHT_SHMFD
            | VhostUserProtocolFeatures::RESET_DEVICE)
    }

    fn set_protocol_features(&mut self, _features: u64) -> Result<()> {
        Ok(())
    }

    fn set_mem_table(&mut self, regions: &[VhostUserMemoryRegion], files: Vec<File>) -> Result<()> {
        self.memory = ClientMemory::of(regions, files)?;
        Ok(())
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(MOST_REGIONS)
    }

    fn add_mem_region(&mut self, region: &VhostUserSingleMemoryRegion, file: File) -> Result<()> {
        self.memory.add(region, file)
    }

    fn remove_mem_region(&mut self, region: &VhostUserSingleMemoryRegion) -> Result<()> {
        self.memory.remove(region)
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(MOST_QUEUES.into())
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        let ring = self.ring(index)?;
        let size = u16::try_from(num).map_err(|_| Error::InvalidParam)?;
        match ring.count {
            0 => ring.queue.try_set_size(size),
            _ => return Err(Error::InvalidOperation("the ring is in use")),
        }
        .map_err(|_| Error::InvalidParam)
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _flags: VhostUserVringAddrFlags,
        descriptor: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Result<()> {
        let (table, used) = (self.memory.address(descriptor)?, self.memory.address(used)?);
        let available = self.memory.address(available)?;
        let memory = self.memory.clone();
        let ring = self.ring(index)?;
        let queue = &mut ring.queue;
        let placed = (queue.try_set_desc_table_address(table))
            .and_then(|()| queue.try_set_avail_ring_address(available))
            .and_then(|()| queue.try_set_used_ring_address(used))
            .and_then(|()| queue.used_idx(memory.guest(), Ordering::Relaxed));
        let used = placed.map_err(|_| Error::InvalidParam)?;
        queue.set_next_used(used.0);
        (ring.placed, ring.broken, ring.due) = (true, false, true);
        Ok(())
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        let ring = self.ring(index)?;
        let base = u16::try_from(base).map_err(|_| Error::InvalidParam)?;
        ring.queue.set_next_avail(base);
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        self.stop(index)?;
        let ring = self.ring(index)?;
        (ring.kick, ring.call) = (None, None);
        let base = ring.queue.next_avail();
        Ok(VhostUserVringState::new(index, base.into()))
    }

    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        // Without one the ring would have to be polled.
        let Some(kick) = event(file)? else {
            return unsupported();
        };
        self.ring(index.into())?;
        let watched = FIRST_RING + u32::from(index);
        (self.reader.exchange(watched, &kick))
            .map_err(|error| Error::ReqHandlerError(io::Error::other(error)))?;
        self.take_over(index.into());
        let ring = self.ring(index.into())?;
        ring.kick = Some(kick);
        ring.queue.set_ready(true);
        ring.due = true;
        Ok(())
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let call = event(file)?;
        self.ring(index.into())?.call = call;
        Ok(())
    }

    fn set_vring_err(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let error = event(file)?;
        self.ring(index.into())?.error = error;
        Ok(())
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        let ring = self.ring(index)?;
        (ring.enabled, ring.due) = (enable, true);
        Ok(())
    }

    fn get_config(
        &mut self,
        offset: u32,
        size: u32,
        _flags: VhostUserConfigFlags,
    ) -> Result<Vec<u8>> {
        Ok((self.disk).config(self.writeback, offset as usize, size as usize))
    }

    fn set_config(
        &mut self,
        offset: u32,
        bytes: &[u8],
        _flags: VhostUserConfigFlags,
    ) -> Result<()> {
        let chosen = Disk::chosen(offset as usize, bytes);
        self.writeback = chosen.ok_or(Error::InvalidParam)?;
        Ok(())
    }

    fn set_gpu_socket(&mut self, _gpu: GpuBackend) -> Result<()> {
        unsupported()
    }

    fn get_shared_object(&mut self, _uuid: VhostUserSharedMsg) -> Result<File> {
        unsupported()
    }

    fn get_inflight_fd(&mut self, wanted: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        let (queues, descriptors) = record_size(wanted)?;
        let made = InFlightRecord::create(queues, descriptors);
        let (record, file, length) = made.map_err(Error::ReqHandlerError)?;
        self.record = Some(record);
        let told = VhostUserInflight::new(length, 0, queues, descriptors);
        Ok((told, file))
    }

    fn set_inflight_fd(&mut self, record: &VhostUserInflight, file: File) -> Result<()> {
        let (queues, descriptors) = record_size(record)?;
        let (offset, length) = (record.mmap_offset, record.mmap_size);
        let opened = InFlightRecord::open(file, offset, length, queues, descriptors);
        self.record = Some(opened.map_err(Error::ReqHandlerError)?);
        Ok(())
    }

    fn set_device_state_fd(
        &mut self,
        _direction: VhostTransferStateDirection,
        _phase: VhostTransferStatePhase,
        _file: File,
    ) -> Result<Option<File>> {
        unsupported()
    }

    fn check_device_state(&mut self) -> Result<()> {
        unsupported()
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        unsupported()
    }

    fn set_log_base(&mut self, _log: &VhostUserLog, _file: File) -> Result<()> {
        unsupported()
    }
}
