//! A disk for the guests of a virtual machine monitor: the server's side of vhost-user, for block devices.
//!
//! Source: "Vhost-user Protocol" of QEMU's documentation, and VIRTIO 1.2, section 2.7, for the rings. The crate `vhost` reads and checks
//! the messages, `virtio-queue` the rings; [`crate::virtio_blk`] reads the requests. A thread gets the messages of a connection; its rings
//! are served by [`crate::rings`].
//!
//! # What must hold
//!
//! - Nothing in the memory of a client is used after its connection has ended. Requests in flight end as well; their answers are dropped.
//! - A ring is stopped when all its requests in flight were answered.
//! - Memory and the record of requests in flight are exchanged when all requests of all rings were answered. All threads have let go of what
//!   was there before when the message is answered.
//! - Each ring that starts is served by another thread, while there are free queues of the mirror; then by the thread that has the fewest.
//!   A thread keeps its queue until the connection ends.
//! - If the client keeps a record of requests in flight ([`crate::inflight`]), each is recorded before it begins, until its answer can be
//!   seen. A ring that starts with requests in its record carries them out first, in order of arrival.
//! - A ring whose client breaks the rules is not used any more: its error event is signalled, and the other rings go on.
//!
//! A client that shortens a file of the memory that it shares ends the server (SIGBUS). It has to be a program that this user trusts.

use std::fs::File;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig,
    VhostUserSharedMsg, VhostUserSingleMemoryRegion, VhostUserVirtioFeatures,
    VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{
    BackendReqHandler, Error, GpuBackend, Result, VhostUserBackendReqHandlerMut,
};
use virtio_queue::QueueT;

use crate::client_memory::{ClientMemory, MOST_REGIONS, event, unsupported};
use crate::inflight::InFlightRecord;
use crate::queue::Handle;
use crate::rings::{Lane, MOST_DESCRIPTORS, Orders, Ring, Setup};
use crate::virtio_blk::{Disk, MOST_QUEUES};

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
    let setup = Setup {
        disk,
        features: 0,
        writeback: true,
        memory: ClientMemory::default(),
        record: None,
    };
    let queue = handle.queues().enter();
    let (lane, first) = Lane::new(setup.clone(), handle.clone(), queue, Arc::clone(&stopping))?;
    let rings = (0..MOST_QUEUES).map(|_| Ok(Home::Here(Box::new(Ring::new()?))));
    let client = Client {
        setup,
        handle,
        stopping,
        socket: socket.try_clone()?,
        owned: false,
        rings: rings.collect::<io::Result<_>>()?,
        lanes: vec![first],
    };
    let other = socket.try_clone()?;
    let told = thread::Builder::new()
        .name("messages".to_owned())
        .spawn(move || {
            let ended = answer(stream, client);
            // Other descriptors of this socket are open: the client has to learn of the end now.
            let _ = other.shutdown(Shutdown::Both);
            ended
        })?;
    lane.serve(&socket);
    match told.join() {
        Ok(ended) => ended,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Answers messages until the client leaves, or the server ends.
fn answer(stream: UnixStream, client: Client) -> io::Result<()> {
    let mut messages = BackendReqHandler::from_stream(stream, Arc::new(Mutex::new(client)));
    loop {
        messages.handle_request().map_err(io::Error::other)?;
    }
}

/// Where a ring is.
#[derive(Debug)]
enum Home {
    /// It does not run.
    Here(Box<Ring>),
    /// The thread with this number has it.
    At(usize),
}

/// What a client has set up.
#[derive(Debug)]
struct Client {
    setup: Setup,
    handle: Handle,
    stopping: Arc<AtomicBool>,
    socket: UnixStream,
    owned: bool,
    rings: Vec<Home>,
    /// Threads of rings. The first one is that of the connection.
    lanes: Vec<Orders>,
}

impl Drop for Client {
    fn drop(&mut self) {
        // All at the same time; then each is waited for.
        self.lanes.iter_mut().for_each(Orders::end);
    }
}

impl Client {
    fn offered(&self) -> u64 {
        let protocol = VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();
        self.setup.disk.features() | F_VERSION_1 | F_EVENT_IDX | F_INDIRECT | protocol
    }

    /// Does something with a ring, wherever it is.
    fn on_ring<T: Send + 'static>(
        &mut self,
        index: u32,
        work: impl FnOnce(&mut Ring, &Setup) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let number = index as usize;
        match self.rings.get_mut(number).ok_or(Error::InvalidParam)? {
            Home::Here(ring) => work(ring, &self.setup),
            Home::At(lane) => self.lanes[*lane].ask(move |lane| lane.with(number, work))?,
        }
    }

    /// The thread for a ring that starts.
    fn next_lane(&mut self) -> io::Result<usize> {
        let lanes = self.lanes.iter().enumerate();
        let least = lanes.min_by_key(|(_, lane)| lane.rings);
        let (least, rings) = least.map_or((0, 0), |(number, lane)| (number, lane.rings));
        let queue = match rings {
            0 => None,
            _ => self.handle.queues().enter(),
        };
        let Some(queue) = queue else { return Ok(least) };
        let (setup, stopping) = (self.setup.clone(), Arc::clone(&self.stopping));
        let socket = self.socket.try_clone()?;
        let lane = Lane::spawn(setup, &self.handle, queue, stopping, socket)?;
        self.lanes.push(lane);
        Ok(self.lanes.len() - 1)
    }

    /// A ring begins to run, or goes on by another event.
    fn start(&mut self, index: u32, kick: File) -> Result<()> {
        let number = index as usize;
        let (lane, ring) = match self.rings.get(number).ok_or(Error::InvalidParam)? {
            Home::At(lane) => (*lane, None),
            Home::Here(_) => {
                let lane = self.next_lane().map_err(Error::ReqHandlerError)?;
                self.lanes[lane].rings += 1;
                match std::mem::replace(&mut self.rings[number], Home::At(lane)) {
                    Home::Here(ring) => (lane, Some(ring)),
                    Home::At(_) => (lane, None),
                }
            }
        };
        self.lanes[lane].ask(move |lane| lane.start(number, ring, kick))?
    }

    /// A ring stops when all its requests were answered.
    fn stop(&mut self, index: u32) -> Result<&mut Ring> {
        let number = index as usize;
        let home = self.rings.get_mut(number).ok_or(Error::InvalidParam)?;
        if let Home::At(lane) = home {
            let lane = &mut self.lanes[*lane];
            let ring = lane.ask(move |lane| lane.stop(number))??;
            lane.rings -= 1;
            *home = Home::Here(ring);
        }
        match home {
            Home::Here(ring) => Ok(ring),
            Home::At(_) => Err(Error::InvalidParam),
        }
    }

    /// What depends on the features of the client.
    fn set_up_features(&mut self, features: u64) -> Result<()> {
        self.setup.features = features;
        self.changed()?;
        for number in 0..self.rings.len() {
            self.on_ring(number as u32, move |ring, _| {
                ring.queue.set_event_idx(features & F_EVENT_IDX != 0);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// All threads use what was set up last, when all requests were answered.
    fn changed(&mut self) -> Result<()> {
        for lane in &self.lanes {
            let setup = self.setup.clone();
            lane.ask(move |lane| lane.change(setup))??;
        }
        Ok(())
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

impl VhostUserBackendReqHandlerMut for Client {
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
            let ring = self.stop(number as u32)?;
            (ring.enabled, ring.broken, ring.placed) = (false, false, false);
        }
        self.setup.writeback = true;
        self.set_up_features(0)
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(self.offered())
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !self.offered() != 0 {
            return Err(Error::InvalidParam);
        }
        self.set_up_features(features)?;
        let protocol = features & VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits() != 0;
        for number in 0..self.rings.len() {
            self.on_ring(number as u32, move |ring, _| {
                // Then there are no messages that enable them.
                ring.enabled |= !protocol;
                Ok(())
            })?;
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
        self.setup.memory = ClientMemory::of(regions, files)?;
        self.changed()
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(MOST_REGIONS)
    }

    fn add_mem_region(&mut self, region: &VhostUserSingleMemoryRegion, file: File) -> Result<()> {
        self.setup.memory.add(region, file)?;
        self.changed()
    }

    fn remove_mem_region(&mut self, region: &VhostUserSingleMemoryRegion) -> Result<()> {
        self.setup.memory.remove(region)?;
        self.changed()
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(MOST_QUEUES.into())
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        let size = u16::try_from(num).map_err(|_| Error::InvalidParam)?;
        self.on_ring(index, move |ring, _| match ring.count {
            0 => (ring.queue.try_set_size(size)).map_err(|_| Error::InvalidParam),
            _ => Err(Error::InvalidOperation("the ring is in use")),
        })
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
        let memory = &self.setup.memory;
        let (table, used) = (memory.address(descriptor)?, memory.address(used)?);
        let available = memory.address(available)?;
        self.on_ring(index, move |ring, setup| {
            let queue = &mut ring.queue;
            let placed = (queue.try_set_desc_table_address(table))
                .and_then(|()| queue.try_set_avail_ring_address(available))
                .and_then(|()| queue.try_set_used_ring_address(used))
                .and_then(|()| queue.used_idx(setup.memory.guest(), Ordering::Relaxed));
            let used = placed.map_err(|_| Error::InvalidParam)?;
            queue.set_next_used(used.0);
            (ring.placed, ring.broken, ring.due) = (true, false, true);
            Ok(())
        })
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        let base = u16::try_from(base).map_err(|_| Error::InvalidParam)?;
        self.on_ring(index, move |ring, _| {
            ring.queue.set_next_avail(base);
            Ok(())
        })
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let ring = self.stop(index)?;
        (ring.kick, ring.call) = (None, None);
        let base = ring.queue.next_avail();
        Ok(VhostUserVringState::new(index, base.into()))
    }

    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        // Without one the ring would have to be polled.
        let Some(kick) = event(file)? else {
            return unsupported();
        };
        self.start(index.into(), kick)
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let call = event(file)?;
        self.on_ring(index.into(), move |ring, _| {
            ring.call = call;
            Ok(())
        })
    }

    fn set_vring_err(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let error = event(file)?;
        self.on_ring(index.into(), move |ring, _| {
            ring.error = error;
            Ok(())
        })
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        self.on_ring(index, move |ring, _| {
            (ring.enabled, ring.due) = (enable, true);
            Ok(())
        })
    }

    fn get_config(
        &mut self,
        offset: u32,
        size: u32,
        _flags: VhostUserConfigFlags,
    ) -> Result<Vec<u8>> {
        let setup = &self.setup;
        Ok((setup.disk).config(setup.writeback, offset as usize, size as usize))
    }

    fn set_config(
        &mut self,
        offset: u32,
        bytes: &[u8],
        _flags: VhostUserConfigFlags,
    ) -> Result<()> {
        let chosen = Disk::chosen(offset as usize, bytes);
        self.setup.writeback = chosen.ok_or(Error::InvalidParam)?;
        self.changed()
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
        self.setup.record = Some(record);
        self.changed()?;
        let told = VhostUserInflight::new(length, 0, queues, descriptors);
        Ok((told, file))
    }

    fn set_inflight_fd(&mut self, record: &VhostUserInflight, file: File) -> Result<()> {
        let (queues, descriptors) = record_size(record)?;
        let (offset, length) = (record.mmap_offset, record.mmap_size);
        let opened = InFlightRecord::open(file, offset, length, queues, descriptors);
        self.setup.record = Some(opened.map_err(Error::ReqHandlerError)?);
        self.changed()
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
