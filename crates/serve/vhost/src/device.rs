//! The session of a device with its front end.

use std::fs::File;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

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
use vm_memory::GuestMemoryMmap;

use crate::dirty_log::DirtyLog;
use crate::in_flight_record::InFlightRecord;
use crate::memory::{ClientMemory, MAX_REGIONS};
use crate::ring::{MAX_DESCRIPTORS, Ring, event};

const F_INDIRECT: u64 = 1 << 28;
const F_EVENT_INDEX: u64 = 1 << 29;
const F_VERSION_1: u64 = 1 << 32;

/// A device for one front end: threads that process the requests of its rings. Rings are numbered from 0 to
/// [`Device::RINGS`] − 1. An error ends the connection.
pub trait Device {
    /// The number of its rings.
    const RINGS: u16;
    /// Features of the protocol that it supports in addition to those of the core.
    const PROTOCOL: VhostUserProtocolFeatures;

    /// Features that it offers in addition to those of the core.
    fn features(&self) -> u64;

    /// Calls a function with a ring and the memory that it uses, between two requests.
    fn with_ring<T: Send + 'static>(
        &mut self,
        number: usize,
        work: impl FnOnce(&mut Ring, &GuestMemoryMmap) -> Result<T> + Send + 'static,
    ) -> Result<T>;

    /// Calls [`Ring::start`], and starts processing the requests of the ring.
    fn start(&mut self, number: usize, kick: File) -> Result<()>;

    /// Calls [`Ring::stop`], and returns after all requests of the ring in flight are answered.
    fn stop(&mut self, number: usize) -> Result<()>;

    /// Replaces the memory. When this returns, all requests in flight are answered, and no thread uses the earlier
    /// memory.
    fn set_memory(&mut self, memory: &ClientMemory) -> Result<()>;

    /// Sets the features that the client has chosen.
    fn set_features(&mut self, features: u64) -> Result<()>;

    /// Resets what the client has chosen, except for features.
    fn reset(&mut self) {}

    /// Reads a part of its configuration.
    fn config(&self, _offset: usize, _length: usize) -> Result<Vec<u8>> {
        unsupported()
    }

    /// Writes a part of its configuration for the client.
    fn set_config(&mut self, _offset: usize, _bytes: &[u8]) -> Result<()> {
        unsupported()
    }

    /// Starts recording requests in flight. All earlier requests are answered.
    fn set_record(&mut self, _record: InFlightRecord) -> Result<()> {
        unsupported()
    }

    /// Sets the log in which it marks the memory that it writes.
    fn set_dirty_log(&mut self, _log: DirtyLog) -> Result<()> {
        unsupported()
    }

    /// Starts saving its state to a pipe, or loading it from one.
    fn transfer_state(
        &mut self,
        _direction: VhostTransferStateDirection,
        _phase: VhostTransferStatePhase,
        _pipe: File,
    ) -> Result<()> {
        unsupported()
    }

    /// Blocks until its state is transferred.
    fn check_state(&mut self) -> Result<()> {
        unsupported()
    }

    /// Ends the device after the connection. When this returns without an error, no thread uses the client's memory.
    fn end(&mut self) -> io::Result<()>;
}

fn unsupported<T>() -> Result<T> {
    Err(Error::InvalidOperation("not supported"))
}

/// Answers the messages of a front end until it disconnects, then ends the device. Calls `after` after each message.
///
/// # Errors
/// Those of the connection, of the front end's requests, and of [`Device::end`].
pub fn serve<D: Device>(
    stream: UnixStream,
    device: D,
    mut after: impl FnMut(&mut D),
) -> io::Result<()> {
    let session = Arc::new(Mutex::new(Session {
        device,
        owned: false,
        memory: ClientMemory::default(),
    }));
    let mut messages = BackendReqHandler::from_stream(stream, Arc::clone(&session));
    let ended = loop {
        let handled = messages.handle_request();
        after(
            &mut session
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .device,
        );
        match handled {
            Ok(()) => {}
            Err(Error::Disconnected) => break Ok(()),
            Err(error) => break Err(io::Error::other(error)),
        }
    };
    let mut session = session.lock().unwrap_or_else(PoisonError::into_inner);
    session.device.end()?;
    ended
}

/// The state that a front end has set up.
struct Session<D> {
    device: D,
    owned: bool,
    memory: ClientMemory,
}

/// The number of a ring, if the device has it.
fn number<D: Device>(index: u32) -> Result<usize> {
    match index < u32::from(D::RINGS) {
        true => Ok(index as usize),
        false => Err(Error::InvalidParam),
    }
}

impl<D: Device> Session<D> {
    fn offered(&self) -> u64 {
        let protocol = VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();
        self.device.features() | F_VERSION_1 | F_EVENT_INDEX | F_INDIRECT | protocol
    }

    fn with_ring<T: Send + 'static>(
        &mut self,
        index: u32,
        work: impl FnOnce(&mut Ring, &GuestMemoryMmap) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.device.with_ring(number::<D>(index)?, work)
    }

    fn change(
        &mut self,
        index: u32,
        change: impl FnOnce(&mut Ring) + Send + 'static,
    ) -> Result<()> {
        self.with_ring(index, |ring, _| {
            change(ring);
            Ok(())
        })
    }

    fn use_features(&mut self, features: u64) -> Result<()> {
        self.device.set_features(features)?;
        for index in 0..u32::from(D::RINGS) {
            let event_index = features & F_EVENT_INDEX != 0;
            self.change(index, move |ring| ring.queue.set_event_idx(event_index))?;
        }
        Ok(())
    }

    fn use_memory(&mut self, memory: ClientMemory) -> Result<()> {
        self.device.set_memory(&memory)?;
        self.memory = memory;
        Ok(())
    }
}

/// The numbers of queues and descriptors of a record of requests in flight.
fn record_size<D: Device>(record: &VhostUserInflight) -> Result<(u16, u16)> {
    let (queues, descriptors) = (record.num_queues, record.queue_size);
    match (1..=D::RINGS).contains(&queues) && (1..=MAX_DESCRIPTORS).contains(&descriptors) {
        true => Ok((queues, descriptors)),
        false => Err(Error::InvalidParam),
    }
}

impl<D: Device> VhostUserBackendReqHandlerMut for Session<D> {
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
        for index in 0..u32::from(D::RINGS) {
            self.device.stop(index as usize)?;
            self.change(index, |ring| {
                (ring.enabled, ring.broken, ring.placed) = (false, false, false);
            })?;
        }
        self.device.reset();
        self.use_features(0)
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(self.offered())
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !self.offered() != 0 {
            return Err(Error::InvalidParam);
        }
        self.use_features(features)?;
        if features & VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits() == 0 {
            // Without this feature, no message enables rings.
            for index in 0..u32::from(D::RINGS) {
                self.change(index, |ring| ring.enabled = true)?;
            }
        }
        Ok(())
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(D::PROTOCOL
            | VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS
            | VhostUserProtocolFeatures::RESET_DEVICE)
    }

    fn set_protocol_features(&mut self, _features: u64) -> Result<()> {
        Ok(())
    }

    fn set_mem_table(&mut self, regions: &[VhostUserMemoryRegion], files: Vec<File>) -> Result<()> {
        self.use_memory(ClientMemory::of(regions, files)?)
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(MAX_REGIONS)
    }

    fn add_mem_region(&mut self, region: &VhostUserSingleMemoryRegion, file: File) -> Result<()> {
        let mut memory = self.memory.clone();
        memory.add(region, file)?;
        self.use_memory(memory)
    }

    fn remove_mem_region(&mut self, region: &VhostUserSingleMemoryRegion) -> Result<()> {
        let mut memory = self.memory.clone();
        memory.remove(region)?;
        self.use_memory(memory)
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(D::RINGS.into())
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        let size = u16::try_from(num).map_err(|_| Error::InvalidParam)?;
        self.with_ring(index, move |ring, _| ring.resize(size))
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
        let address = |user| self.memory.address(user);
        let places = [address(descriptor)?, address(available)?, address(used)?];
        self.with_ring(index, move |ring, memory| ring.place(memory, places))
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        let base = u16::try_from(base).map_err(|_| Error::InvalidParam)?;
        self.change(index, move |ring| ring.queue.set_next_avail(base))
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        self.device.stop(number::<D>(index)?)?;
        let base = self.with_ring(index, |ring, memory| Ok(ring.disconnect(memory)))?;
        Ok(VhostUserVringState::new(index, base.into()))
    }

    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        // A ring without an event would have to be polled.
        let Some(kick) = event(file)? else {
            return unsupported();
        };
        self.device.start(number::<D>(index.into())?, kick)
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let call = event(file)?.map(Arc::new);
        self.change(index.into(), |ring| ring.call = call)
    }

    fn set_vring_err(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let error = event(file)?;
        self.change(index.into(), |ring| ring.error = error)
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        self.change(index, move |ring| ring.enabled = enable)
    }

    fn get_config(
        &mut self,
        offset: u32,
        size: u32,
        _flags: VhostUserConfigFlags,
    ) -> Result<Vec<u8>> {
        self.device.config(offset as usize, size as usize)
    }

    fn set_config(
        &mut self,
        offset: u32,
        bytes: &[u8],
        _flags: VhostUserConfigFlags,
    ) -> Result<()> {
        self.device.set_config(offset as usize, bytes)
    }

    fn set_gpu_socket(&mut self, _gpu: GpuBackend) -> Result<()> {
        unsupported()
    }

    fn get_shared_object(&mut self, _uuid: VhostUserSharedMsg) -> Result<File> {
        unsupported()
    }

    fn get_inflight_fd(&mut self, wanted: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        let (queues, descriptors) = record_size::<D>(wanted)?;
        let created = InFlightRecord::create(queues, descriptors);
        let (record, file, length) = created.map_err(Error::ReqHandlerError)?;
        self.device.set_record(record)?;
        Ok((VhostUserInflight::new(length, 0, queues, descriptors), file))
    }

    fn set_inflight_fd(&mut self, record: &VhostUserInflight, file: File) -> Result<()> {
        let (queues, descriptors) = record_size::<D>(record)?;
        let (offset, length) = (record.mmap_offset, record.mmap_size);
        let opened = InFlightRecord::open(file, offset, length, queues, descriptors);
        self.device
            .set_record(opened.map_err(Error::ReqHandlerError)?)
    }

    fn set_device_state_fd(
        &mut self,
        direction: VhostTransferStateDirection,
        phase: VhostTransferStatePhase,
        file: File,
    ) -> Result<Option<File>> {
        self.device.transfer_state(direction, phase, file)?;
        Ok(None)
    }

    fn check_device_state(&mut self) -> Result<()> {
        self.device.check_state()
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        unsupported()
    }

    fn set_log_base(&mut self, log: &VhostUserLog, file: File) -> Result<()> {
        let log = DirtyLog::of(file, log.mmap_offset, log.mmap_size);
        self.device
            .set_dirty_log(log.map_err(Error::ReqHandlerError)?)
    }
}
