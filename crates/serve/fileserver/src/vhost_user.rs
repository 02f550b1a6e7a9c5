//! A file system for the guests of a virtual machine monitor: the device side of vhost-user, for virtio-fs.
//!
//! Source: VIRTIO 1.2, section 5.11. [`iodyno_vhost`] answers the messages and checks rings. Each ring has a thread
//! that takes batches of requests; another thread reads messages. A thread blocked by a request is replaced
//! ([`crate::watchdog`]).
//!
//! # Invariants
//!
//! - A ring is stopped, and memory is replaced, only while no request is in flight, including those that block a
//!   thread. A client's memory is not used after its connection has ended.
//! - The state of a client is transferred while no request is in flight and no ring takes any. Each request is executed
//!   by exactly one server.
//! - The client learns of every reply: a ring's thread notifies it of the replies of a batch before it sleeps.

use std::fs::File;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use iodyno_sys::thread::own_directory;
use iodyno_vhost::{ClientMemory, Device, DirtyLog, Ring};
use rustix::event::{PollFd, PollFlags, poll};
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserProtocolFeatures,
};
use vhost::vhost_user::{Error, Result};
use vm_memory::GuestMemoryMmap;

use crate::guest_request::GuestRequest;
use crate::inline_batch::InlineBatch;
use crate::queue_worker::QueueWorker;
use crate::ring::{MAX_TAKEN, SharedRing};
use crate::server::{Client, FileServer};
use crate::spin::{SPINS, Spin};
use crate::stats::Transport;
use crate::transfer::{Preparation, Transfer};

/// One ring for requests that must not wait, and one per processor of the client.
const MAX_RINGS: u16 = 17;
/// The front end copies the memory while requests are processed.
const F_LOG_ALL: u64 = 1 << 26;

/// Serves one client until it leaves, or until `stopping` is set and its socket is shut down for reading. Answers
/// requests in flight first. `on_note` gets notes for the user about state transfers.
///
/// # Errors
/// Those of the connection and of the client's messages; the folder cannot be opened; requests do not end while the
/// server stops.
pub fn serve(
    stream: UnixStream,
    server: &Arc<FileServer>,
    stopping: Arc<AtomicBool>,
    mut on_note: impl FnMut(String),
) -> io::Result<()> {
    server.uses(Transport::VhostUser);
    let client = Arc::new(server.client(true)?);
    let device = FileDevice::new(client, stopping, stream.try_clone()?)?;
    iodyno_vhost::serve(stream, device, |device| {
        device.notes.drain(..).for_each(&mut on_note);
    })
}

/// The threads of all rings, until the connection ends.
struct Threads(Mutex<Option<Vec<JoinHandle<()>>>>);

impl Threads {
    fn new() -> Arc<Threads> {
        Arc::new(Threads(Mutex::new(Some(Vec::new()))))
    }

    fn all(&self) -> MutexGuard<'_, Option<Vec<JoinHandle<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a ring's thread starts with.
#[derive(Clone)]
struct Starting {
    number: usize,
    ring: Arc<SharedRing>,
    threads: Arc<Threads>,
}

impl Starting {
    /// Starts a thread with this first batch.
    fn start(&self, batch: Arc<InlineBatch<GuestRequest>>) -> io::Result<()> {
        let mut threads = self.threads.all();
        let Some(threads) = threads.as_mut() else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        // Ended threads.
        threads.retain(|thread| !thread.is_finished());
        let (own, named) = (self.clone(), format!("ring {}", self.number));
        let thread = thread::Builder::new().name(named);
        threads.push(thread.spawn(move || own.run(batch))?);
        Ok(())
    }

    fn run(self, batch: Arc<InlineBatch<GuestRequest>>) {
        own_directory();
        let ring = Arc::clone(&self.ring);
        // The first ring is for requests that must not wait.
        let mut worker = QueueWorker::new(batch, self.number == 0);
        worker.watch(move |batch| self.start(batch));
        // Fails only if the kernel lacks memory; then the ring is no longer served.
        let served = serve_ring(&ring, &mut worker);
        if served.is_err() || !worker.replaced() {
            ring.state().ring.give_up();
        }
    }
}

fn serve_ring(ring: &Arc<SharedRing>, worker: &mut QueueWorker<GuestRequest>) -> io::Result<()> {
    let mut batch = Vec::with_capacity(MAX_TAKEN);
    let (mut spin, mut empty) = (Spin::default(), None);
    let in_flight = || ring.pooled.load(Ordering::Relaxed);
    worker.awake(true);
    let worked = worker.work_left(in_flight, || ring.notify());
    worker.awake(false);
    worked?;
    while !worker.replaced() {
        // The client may not have notified us of requests since the replaced thread last looked.
        worker.awake(true);
        let worked = work_ring(ring, worker, &mut batch, (&mut spin, &mut empty));
        worker.awake(false);
        worked?;
        if !worker.replaced() && !ring.wait(worker.ended(), worker.in_flight())? {
            return Ok(());
        }
    }
    // Its requests in flight on its own io_uring.
    while let (Some(ended), 1..) = (worker.ended(), worker.in_flight()) {
        match poll(&mut [PollFd::new(&ended, PollFlags::IN)], None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if worker.reap()? {
            ring.notify();
        }
    }
    Ok(())
}

/// Processes requests until the ring is empty. `empty`: when it last became empty, if the thread did not spin then.
fn work_ring(
    ring: &Arc<SharedRing>,
    worker: &mut QueueWorker<GuestRequest>,
    batch: &mut Vec<GuestRequest>,
    (spin, empty): (&mut Spin, &mut Option<Instant>),
) -> io::Result<()> {
    if worker.reap()? {
        ring.notify();
    }
    while !worker.replaced() {
        ring.take(batch, false, GuestRequest::new);
        if let (Some(slept), false) = (empty.take(), batch.is_empty()) {
            spin.slept(slept.elapsed());
        }
        if batch.is_empty() && worker.may_spin() {
            let start = Instant::now();
            if spin.spins() {
                while batch.is_empty() && start.elapsed() < SPINS {
                    std::hint::spin_loop();
                    ring.take(batch, false, GuestRequest::new);
                }
                spin.spun((!batch.is_empty()).then(|| start.elapsed()));
            } else {
                *empty = Some(start);
            }
        }
        if batch.is_empty() {
            ring.take(batch, true, GuestRequest::new);
        }
        if batch.is_empty() {
            break;
        }
        *empty = None;
        let in_flight = || ring.pooled.load(Ordering::Relaxed);
        let early = std::mem::take(&mut ring.state().early);
        worker.work(batch, early, in_flight, || ring.notify())?;
    }
    // For chains that could not be answered.
    ring.notify();
    Ok(())
}

/// The file system of a client.
struct FileDevice {
    client: Arc<Client>,
    stopping: Arc<AtomicBool>,
    rings: Vec<Arc<SharedRing>>,
    /// Rings that have a thread.
    started: Vec<bool>,
    threads: Arc<Threads>,
    /// The socket of its messages.
    socket: UnixStream,
    preparation: Option<Preparation>,
    transfer: Option<Transfer>,
    /// Notes for the user.
    notes: Vec<String>,
}

impl FileDevice {
    fn new(
        client: Arc<Client>,
        stopping: Arc<AtomicBool>,
        socket: UnixStream,
    ) -> io::Result<FileDevice> {
        let rings = (0..MAX_RINGS).map(|_| SharedRing::new().map(Arc::new));
        Ok(FileDevice {
            client,
            stopping,
            rings: rings.collect::<io::Result<_>>()?,
            started: vec![false; MAX_RINGS.into()],
            threads: Threads::new(),
            socket,
            preparation: None,
            transfer: None,
            notes: Vec::new(),
        })
    }

    /// Starts the thread of a ring, if it has none.
    fn start_thread(&mut self, number: usize) -> io::Result<()> {
        if self.started[number] {
            return Ok(());
        }
        let starting = Starting {
            number,
            ring: Arc::clone(&self.rings[number]),
            threads: Arc::clone(&self.threads),
        };
        starting.start(InlineBatch::new(Arc::clone(&self.client)))?;
        self.started[number] = true;
        Ok(())
    }

    /// Records whether the client's memory is being copied: if so, its state is requested soon.
    fn is_copied(&mut self, copied: bool) -> io::Result<()> {
        for ring in &self.rings {
            ring.change(|state| state.copied = copied);
        }
        match (copied, &self.preparation, &self.transfer) {
            (true, None, None) => {
                self.preparation = Some(Preparation::start(Arc::clone(&self.client))?);
            }
            (false, ..) => {
                if let Some(preparation) = self.preparation.take() {
                    preparation.cancel();
                }
            }
            (true, ..) => {}
        }
        Ok(())
    }

    fn transfer(
        &mut self,
        direction: VhostTransferStateDirection,
        phase: VhostTransferStatePhase,
        pipe: File,
    ) -> io::Result<()> {
        let refused = |text: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        if phase != VhostTransferStatePhase::STOPPED {
            return refused("the front end asks for it in a phase that is not supported");
        }
        if self.rings.iter().any(|ring| ring.state().ring.is_started()) {
            return refused("the front end has not stopped all queues");
        }
        // A transfer whose end the front end did not wait for.
        if let Some(earlier) = self.transfer.take() {
            earlier.cancel();
        }
        let preparation = self.preparation.take();
        let (client, socket) = (Arc::clone(&self.client), self.socket.try_clone()?);
        let transfer = match direction {
            VhostTransferStateDirection::SAVE => Transfer::save(client, preparation, pipe, socket),
            VhostTransferStateDirection::LOAD => {
                if let Some(preparation) = preparation {
                    preparation.cancel();
                }
                Transfer::load(client, pipe, socket)
            }
        };
        self.transfer = Some(transfer?);
        Ok(())
    }

    /// Waits until no request is in flight.
    fn drain(&self) -> Result<()> {
        (self.rings.iter()).try_for_each(|ring| ring.drain(&self.stopping))
    }
}

impl Device for FileDevice {
    const RINGS: u16 = MAX_RINGS;
    const PROTOCOL: VhostUserProtocolFeatures = VhostUserProtocolFeatures::REPLY_ACK
        .union(VhostUserProtocolFeatures::LOG_SHMFD)
        .union(VhostUserProtocolFeatures::DEVICE_STATE);

    fn features(&self) -> u64 {
        F_LOG_ALL
    }

    fn with_ring<T: Send + 'static>(
        &mut self,
        number: usize,
        work: impl FnOnce(&mut Ring, &GuestMemoryMmap) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.rings[number].change(|state| work(&mut state.ring, &state.memory))
    }

    fn start(&mut self, number: usize, kick: File) -> Result<()> {
        if let Some(transfer) = self.transfer.take() {
            // The front end continues without it, as qemu does if the transfer failed on its side.
            transfer.cancel();
            let text = "the client continues, and its state was not transferred completely";
            self.notes.push(text.to_owned());
        }
        self.rings[number].change(|state| state.ring.start(kick));
        self.start_thread(number).map_err(Error::ReqHandlerError)
    }

    fn stop(&mut self, number: usize) -> Result<()> {
        let ring = &self.rings[number];
        ring.change(|state| state.ring.stop());
        ring.drain(&self.stopping)
    }

    fn set_memory(&mut self, memory: &ClientMemory) -> Result<()> {
        for ring in &self.rings {
            ring.change(|state| state.held = true);
        }
        let drained = self.drain();
        let memory = Arc::new(memory.guest().clone());
        for ring in &self.rings {
            ring.change(|state| {
                if drained.is_ok() {
                    state.memory = Arc::clone(&memory);
                }
                state.held = false;
            });
        }
        drained
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        self.is_copied(features & F_LOG_ALL != 0)
            .map_err(Error::ReqHandlerError)
    }

    fn set_dirty_log(&mut self, log: DirtyLog) -> Result<()> {
        let log = Arc::new(log);
        for ring in &self.rings {
            ring.change(|state| state.log = Some(Arc::clone(&log)));
        }
        Ok(())
    }

    fn transfer_state(
        &mut self,
        direction: VhostTransferStateDirection,
        phase: VhostTransferStatePhase,
        pipe: File,
    ) -> Result<()> {
        self.transfer(direction, phase, pipe).map_err(|error| {
            let text = format!("the state of the client is not transferred: {error}");
            self.notes.push(text);
            Error::ReqHandlerError(error)
        })
    }

    fn check_state(&mut self) -> Result<()> {
        let Some(transfer) = self.transfer.take() else {
            return Err(Error::InvalidOperation("no state was asked for"));
        };
        match transfer.check(&self.socket) {
            Ok(note) => {
                self.notes.extend(note);
                Ok(())
            }
            Err(error) => {
                self.notes.push(error.to_string());
                Err(Error::ReqHandlerError(error))
            }
        }
    }

    /// Answers requests in flight and ends all threads.
    fn end(&mut self) -> io::Result<()> {
        // Other descriptors of this socket are open, but the client must see the end now.
        let _ = self.socket.shutdown(Shutdown::Both);
        if let Some(preparation) = self.preparation.take() {
            preparation.cancel();
        }
        if let Some(transfer) = self.transfer.take() {
            transfer.cancel();
        }
        for ring in &self.rings {
            ring.change(|state| (state.held, state.ended) = (true, true));
        }
        self.drain().map_err(io::Error::other)?;
        // No more are started.
        let threads = self.threads.all().take();
        for thread in threads.into_iter().flatten() {
            let _ = thread.join();
        }
        Ok(())
    }
}
