//! A disk for the guests of a virtual machine monitor: the device side of vhost-user, for block devices.
//!
//! [`iodyno_vhost`] answers the messages and checks rings; [`crate::virtio_blk`] reads the requests. One thread
//! receives the messages of a connection; [`crate::ring_thread`] serves its rings.
//!
//! # Invariants
//!
//! - The memory of a client is not used after its connection has ended. Its requests in flight are waited for, and
//!   their replies dropped.
//! - Memory and the record of requests in flight are replaced only after all requests of all rings were answered. All
//!   threads have released the old ones before the message is answered.
//! - Each new ring gets its own thread while the mirror has free queues, otherwise the thread with the fewest rings. A
//!   thread keeps its queue until the connection ends.
//! - If the client keeps a record of requests in flight ([`InFlightRecord`]), each request is in it before it starts
//!   and until its reply is visible. A ring that starts with requests in its record first executes them, in order of
//!   arrival.

use std::fs::File;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use iodyno_vhost::{ClientMemory, Device, InFlightRecord, Ring};
use vhost::vhost_user::message::VhostUserProtocolFeatures;
use vhost::vhost_user::{Error, Result};
use vm_memory::GuestMemoryMmap;

use crate::queue::Handle;
use crate::ring_thread::{DiskRing, RingCommands, RingThread, Setup};
use crate::virtio_blk::{Disk, MAX_QUEUES};

/// Serves one client until it leaves, or until `stopping` is set and its socket is shut down.
///
/// # Errors
/// Those of the connection and of the client's messages.
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
    let (thread, first) =
        RingThread::new(setup.clone(), handle.clone(), queue, Arc::clone(&stopping))?;
    let rings = (0..MAX_QUEUES).map(|_| Ok(RingHome::Here(Box::new(DiskRing::new()?))));
    let device = BlockDevice {
        setup,
        handle,
        stopping,
        socket: socket.try_clone()?,
        rings: rings.collect::<io::Result<_>>()?,
        threads: vec![first],
    };
    let other = socket.try_clone()?;
    let messages = thread::Builder::new()
        .name("messages".to_owned())
        .spawn(move || {
            let ended = iodyno_vhost::serve(stream, device, |_| ());
            // Other descriptors of this socket are open, but the client must see the end now.
            let _ = other.shutdown(Shutdown::Both);
            ended
        })?;
    thread.serve(&socket);
    match messages.join() {
        Ok(ended) => ended,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// The owner of a ring.
#[derive(Debug)]
enum RingHome {
    /// Stopped.
    Here(Box<DiskRing>),
    /// The thread with this number has it.
    At(usize),
}

/// The disk of a client.
#[derive(Debug)]
struct BlockDevice {
    setup: Setup,
    handle: Handle,
    stopping: Arc<AtomicBool>,
    socket: UnixStream,
    rings: Vec<RingHome>,
    /// Threads of rings. The first one is that of the connection.
    threads: Vec<RingCommands>,
}

impl BlockDevice {
    /// The thread for a ring that starts.
    fn next_thread(&mut self) -> io::Result<usize> {
        let threads = self.threads.iter().enumerate();
        let least = threads.min_by_key(|(_, thread)| thread.rings);
        let (least, rings) = least.map_or((0, 0), |(number, thread)| (number, thread.rings));
        let queue = match rings {
            0 => None,
            _ => self.handle.queues().enter(),
        };
        let Some(queue) = queue else { return Ok(least) };
        let (setup, stopping) = (self.setup.clone(), Arc::clone(&self.stopping));
        let socket = self.socket.try_clone()?;
        let thread = RingThread::spawn(setup, &self.handle, queue, stopping, socket)?;
        self.threads.push(thread);
        Ok(self.threads.len() - 1)
    }

    /// Makes all threads use the latest setup, after all requests were answered.
    fn changed(&mut self) -> Result<()> {
        for thread in &self.threads {
            let setup = self.setup.clone();
            thread.run(move |thread| thread.change(setup))??;
        }
        Ok(())
    }
}

impl Device for BlockDevice {
    const RINGS: u16 = MAX_QUEUES;
    const PROTOCOL: VhostUserProtocolFeatures =
        VhostUserProtocolFeatures::CONFIG.union(VhostUserProtocolFeatures::INFLIGHT_SHMFD);

    fn features(&self) -> u64 {
        self.setup.disk.features()
    }

    fn with_ring<T: Send + 'static>(
        &mut self,
        number: usize,
        work: impl FnOnce(&mut Ring, &GuestMemoryMmap) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        match &mut self.rings[number] {
            RingHome::Here(ring) => work(&mut ring.ring, self.setup.memory.guest()),
            RingHome::At(thread) => {
                self.threads[*thread].run(move |thread| thread.with_ring(number, work))?
            }
        }
    }

    fn start(&mut self, number: usize, kick: File) -> Result<()> {
        let (thread, ring) = match &self.rings[number] {
            RingHome::At(thread) => (*thread, None),
            RingHome::Here(_) => {
                let thread = self.next_thread().map_err(Error::ReqHandlerError)?;
                self.threads[thread].rings += 1;
                match std::mem::replace(&mut self.rings[number], RingHome::At(thread)) {
                    RingHome::Here(ring) => (thread, Some(ring)),
                    RingHome::At(_) => (thread, None),
                }
            }
        };
        self.threads[thread].run(move |thread| thread.start(number, ring, kick))?
    }

    fn stop(&mut self, number: usize) -> Result<()> {
        if let RingHome::At(thread) = self.rings[number] {
            let thread = &mut self.threads[thread];
            let ring = thread.run(move |thread| thread.stop(number))??;
            thread.rings -= 1;
            self.rings[number] = RingHome::Here(ring);
        }
        Ok(())
    }

    fn set_memory(&mut self, memory: &ClientMemory) -> Result<()> {
        self.setup.memory = memory.clone();
        self.changed()
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        self.setup.features = features;
        self.changed()
    }

    fn reset(&mut self) {
        self.setup.writeback = true;
    }

    fn config(&self, offset: usize, length: usize) -> Result<Vec<u8>> {
        Ok((self.setup.disk).config(self.setup.writeback, offset, length))
    }

    fn set_config(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.setup.writeback = Disk::chosen(offset, bytes).ok_or(Error::InvalidParam)?;
        self.changed()
    }

    fn set_record(&mut self, record: InFlightRecord) -> Result<()> {
        self.setup.record = Some(record);
        self.changed()
    }

    fn end(&mut self) -> io::Result<()> {
        // All at the same time; then each is waited for.
        self.threads.iter_mut().for_each(RingCommands::end);
        self.threads.clear();
        Ok(())
    }
}
