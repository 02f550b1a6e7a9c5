//! A disk for the guests of a virtual machine monitor: the server's side of vhost-user, for block devices.
//!
//! Source: "Vhost-user Protocol" of QEMU's documentation, and VIRTIO 1.2, section 2.7, for the rings. The crate `vhost` reads and checks
//! the messages, `virtio-queue` the rings; [`crate::virtio_blk`] reads the requests. One thread serves a connection with all its rings.
//!
//! # What must hold
//!
//! - Nothing in the memory of a client is used after its connection has ended. Requests in flight end as well; their answers are dropped.
//! - A ring is stopped when all its requests in flight were answered.
//! - A ring whose client breaks the rules is not used any more: its error event is signalled, and the other rings go on.
//!
//! A client that shortens a file of the memory that it shares ends the server (SIGBUS). It has to be a program that this user trusts.

use std::fs::File;
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
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

use crate::client_memory::{ClientMemory, MOST_REGIONS, event, signal, unsupported};
use crate::queue::{Handle, Reply, ReplyTo, Request};
use crate::virtio_blk::{Disk, MOST_QUEUES, Place, Wanted};

/// Descriptors of a ring.
const MOST_DESCRIPTORS: u16 = 1024;
/// Requests in flight of all rings.
const MOST_IN_FLIGHT: usize = MOST_DESCRIPTORS as usize * MOST_QUEUES as usize;
/// Bytes of the requests of a connection in flight; one request may exceed it.
const MOST_BYTES: usize = 64 << 20;

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
    let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let (reply, replies) = ReplyTo::waking(Arc::clone(&wake), MOST_IN_FLIGHT);
    let rings = (0..MOST_QUEUES).map(|_| Ring::new());
    let device = Arc::new(Mutex::new(Device {
        disk,
        handle,
        reply,
        replies,
        stopping,
        owned: false,
        features: 0,
        writeback: true,
        memory: ClientMemory::default(),
        rings: rings.collect::<io::Result<_>>()?,
        bytes: 0,
    }));
    let mut messages = BackendReqHandler::from_stream(stream, Arc::clone(&device));
    let ended = run(&socket, &mut messages, &device, &wake);
    // Other descriptors of this socket are open: the client has to learn of the end now.
    let _ = socket.shutdown(Shutdown::Both);
    ended
}

fn run(
    socket: &UnixStream,
    messages: &mut BackendReqHandler<Mutex<Device>>,
    device: &Mutex<Device>,
    wake: &OwnedFd,
) -> io::Result<()> {
    loop {
        let said = {
            let mut device = locked(device);
            let Some((said, woken)) = device.wait(socket, wake)? else {
                continue;
            };
            if woken {
                let _ = rustix::io::read(wake, &mut [0; 8]);
                while let Ok(reply) = device.replies.try_recv() {
                    device.answer(&reply);
                }
            }
            device.look_at_all();
            said
        };
        if said {
            messages.handle_request().map_err(io::Error::other)?;
            // It may have started a ring that has requests already.
            locked(device).look_at_all();
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
    in_flight: Vec<Option<InFlight>>,
    count: u32,
    /// Some of them were answered, and the client was not yet told.
    answered: bool,
    /// There may be requests to take.
    due: bool,
}

#[derive(Debug)]
struct InFlight {
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
            in_flight: (0..MOST_DESCRIPTORS).map(|_| None).collect(),
            count: 0,
            answered: false,
            due: false,
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
    /// Of all requests in flight.
    bytes: usize,
}

impl Device {
    fn offered(&self) -> u64 {
        let protocol = VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();
        self.disk.features() | F_VERSION_1 | F_EVENT_IDX | F_INDIRECT | protocol
    }

    // ---- Requests ----

    /// Waits for a message, a reply, or a request in a ring that runs. Returns whether the first two are there; `None`: a signal came.
    fn wait(&mut self, socket: &UnixStream, wake: &OwnedFd) -> io::Result<Option<(bool, bool)>> {
        let mut watched = vec![
            PollFd::new(socket, PollFlags::IN),
            PollFd::new(wake, PollFlags::IN),
        ];
        let running = |ring: &&mut Ring| ring.runs();
        let rings: Vec<&mut Ring> = self.rings.iter_mut().filter(running).collect();
        let kicks = rings.iter().filter_map(|ring| ring.kick.as_ref());
        watched.extend(kicks.map(|kick| PollFd::new(kick, PollFlags::IN)));
        match poll(&mut watched, None) {
            Err(rustix::io::Errno::INTR) => return Ok(None),
            other => other?,
        };
        let ready: Vec<bool> = watched.iter().map(|it| !it.revents().is_empty()).collect();
        drop(watched);
        for (ring, _) in rings
            .into_iter()
            .zip(&ready[2..])
            .filter(|(_, ready)| **ready)
        {
            ring.due = true;
            if let Some(kick) = &ring.kick {
                let _ = rustix::io::read(kick, &mut [0; 8]);
            }
        }
        Ok(Some((ready[0], ready[1])))
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
        let chain = match ring.queue.iter(self.memory.guest()) {
            Ok(mut chains) => chains.next(),
            Err(_) => {
                ring.give_up();
                return Step::Empty;
            }
        };
        let Some(chain) = chain else {
            return Step::Empty;
        };
        let head = chain.head_index();
        let through = Disk::writes_through(self.features, self.writeback);
        let free =
            matches!(ring.in_flight.get(usize::from(head)), Some(None)) && head < ring.queue.size();
        let taken = (self.disk.request(self.memory.guest(), chain, through)).filter(|_| free);
        let Some(taken) = taken else {
            ring.give_up();
            return Step::Empty;
        };
        let bytes = taken.wanted.bytes();
        let place = taken.place;
        match taken.wanted {
            Wanted::Refused(status) => {
                let written = place.refuse(self.memory.guest(), status);
                self.used(number, head, written);
            }
            Wanted::Id => {
                let written = place.answer(self.memory.guest(), Ok(&self.disk.id));
                self.used(number, head, written);
            }
            Wanted::Access {
                access,
                offset,
                length,
                payload,
                holes,
            } => {
                self.bytes += bytes;
                ring.in_flight[usize::from(head)] = Some(InFlight { place, bytes });
                ring.count += 1;
                self.handle.request(Request {
                    access,
                    offset,
                    length,
                    payload,
                    holes,
                    cookie: (number as u64) << 32 | u64::from(head),
                    reply: self.reply.clone(),
                });
            }
        }
        Step::Taken
    }

    fn answer(&mut self, reply: &Reply) {
        let (number, head) = ((reply.cookie >> 32) as usize, reply.cookie as u16);
        let ring = &mut self.rings[number];
        let Some(ended) = ring.in_flight[usize::from(head)].take() else {
            return;
        };
        ring.count -= 1;
        self.bytes -= ended.bytes;
        let result = match reply.errno {
            0 => Ok(&reply.data[..]),
            errno => Err(errno),
        };
        let written = ended.place.answer(self.memory.guest(), result);
        self.used(number, head, written);
    }

    /// Gives a chain back to the client.
    fn used(&mut self, number: usize, head: u16, written: u32) {
        let ring = &mut self.rings[number];
        match ring.queue.add_used(self.memory.guest(), head, written) {
            Ok(()) => ring.answered = true,
            Err(_) => ring.give_up(),
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
            match self.replies.recv_timeout(Duration::from_millis(100)) {
                Ok(reply) => self.answer(&reply),
                Err(RecvTimeoutError::Timeout) if !self.stopping.load(Ordering::Relaxed) => {}
                Err(_) => return Err(Error::Disconnected),
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

    fn stop(&mut self, number: u32) -> Result<()> {
        self.ring(number)?.queue.set_ready(false);
        self.drain(number as usize)
    }
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
        let kick = event(file)?;
        let ring = self.ring(index.into())?;
        // Without one the ring would have to be polled.
        if kick.is_none() {
            return unsupported();
        }
        ring.kick = kick;
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

    fn get_inflight_fd(
        &mut self,
        _inflight: &VhostUserInflight,
    ) -> Result<(VhostUserInflight, File)> {
        unsupported()
    }

    fn set_inflight_fd(&mut self, _inflight: &VhostUserInflight, _file: File) -> Result<()> {
        unsupported()
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
