//! A shared folder as a file system of this host, by FUSE. The transports are those of [`iodyno_serve::fuse`]: each
//! thread of a session is a queue of the server.
//!
//! The thread of `/dev/fuse` is replaced if a request blocks it ([`crate::watchdog`]). Threads of FUSE over io_uring
//! are not: the kernel binds requests to ring entries of one thread, and reports them only to this thread.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use iodyno_serve::fuse::{
    Message, Mounted, Session, SpawnReader, Transport, Used, Wanted, Worker, unmount_stale,
};
use iodyno_sys::TransferMemory;
use iodyno_sys::thread::own_directory;
use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statfs, statx};
use rustix::mount::MountFlags;

use crate::buffers::Buffers;
use crate::folder::{Answered, RequestBuffers};
use crate::inline_batch::InlineBatch;
use crate::passthrough::Passthrough;
use crate::queue_worker::QueueWorker;
use crate::request::Head;
use crate::server::{Client, FileServer};
use crate::stats;
use crate::stop::Stop;
use crate::work::Request;

/// Requests of a batch.
const BATCH: usize = 64;

/// Mounts a file system on an empty folder. First unmounts what a killed server left there. `shared` is the folder to
/// be served.
///
/// # Errors
/// The folder is not empty, has a FUSE file system mounted, or is inside the shared one; mounting is not permitted;
/// FUSE is missing.
pub fn mount(path: &Path, shared: &Path) -> io::Result<Mounted> {
    unmount_stale(path)?;
    let refused = |text| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    // Another server's mount of an empty folder: when either ends, it would unmount the other.
    if is_mounted(path)? {
        return refused("a FUSE file system is mounted there");
    }
    if std::fs::read_dir(path)?.next().is_some() {
        return refused("it is not an empty folder");
    }
    let (path, shared) = (path.canonicalize()?, shared.canonicalize()?);
    // The server would deadlock on its own mount point.
    if path.starts_with(&shared) {
        return refused("it is within the folder that is served");
    }
    let mode = shared.metadata()?.mode() & 0o170_000;
    let options = ",default_permissions,allow_other";
    Mounted::of(&shared, &path, mode, options, MountFlags::empty())
}

/// Whether a path is where a file system of FUSE is mounted.
fn is_mounted(path: &Path) -> io::Result<bool> {
    const FUSE_SUPER_MAGIC: i64 = 0x6573_5546;
    let found = statx(CWD, path, AtFlags::empty(), StatxFlags::empty())?;
    let root = found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
    Ok(root && statfs(path)?.f_type == FUSE_SUPER_MAGIC)
}

/// Serves a mounted file system until it is unmounted or the server is stopped, then answers requests in flight.
/// `passthrough`: the kernel reads and writes the files itself. `ready` is called with the transport when requests
/// arrive.
///
/// # Errors
/// Those of the folder and of the session; requests do not end while the server stops; the kernel lacks a required
/// feature.
pub fn serve(
    mounted: Mounted,
    server: &Arc<FileServer>,
    (transport, passthrough): (Transport, bool),
    stop: &Stop,
    ready: impl FnOnce(&Used),
) -> io::Result<()> {
    // The kernel reports mount points only to virtio-fs clients.
    let client = Arc::new(server.client(false)?);
    let wanted = Wanted {
        transport,
        passthrough,
        batch: BATCH,
    };
    let files = passthrough.then(|| Arc::new(Passthrough::new(mounted.device())));
    let worker = || {
        let inline = InlineBatch::new(Arc::clone(&client));
        Ok(Queue::new(inline, files.clone(), Arc::default()))
    };
    let session = Session::start(mounted, wanted, worker)?;
    if passthrough && !session.passes_through() {
        session.end()?;
        return Err(io::Error::other(
            "the kernel does not offer passthrough of files (Linux 6.9, CONFIG_FUSE_PASSTHROUGH)",
        ));
    }
    server.uses(match session.used() {
        Used::Device(_) => stats::Transport::Device,
        Used::IoUring(_) => stats::Transport::IoUring,
    });
    ready(session.used());
    let waited = stop.wait(session.ended());
    session.end()?;
    waited.map(drop)
}

/// The state of a session's thread.
struct Queue {
    worker: QueueWorker<KernelRequest>,
    client: Arc<Client>,
    files: Option<Arc<Passthrough>>,
    /// Its requests that the pool has.
    pooled: Arc<AtomicUsize>,
    requests: Vec<KernelRequest>,
}

impl Worker for Queue {
    fn start(&mut self, spawn: Option<SpawnReader<Queue>>) -> io::Result<()> {
        own_directory();
        if let Some(spawn) = spawn {
            let (files, pooled) = (self.files.clone(), Arc::clone(&self.pooled));
            self.worker
                .watch(move |inline| spawn(Queue::new(inline, files.clone(), Arc::clone(&pooled))));
        }
        self.worker.awake(true);
        let pooled = || self.pooled.load(Ordering::Relaxed);
        let worked = self.worker.work_left(pooled, || ());
        self.worker.awake(false);
        worked
    }

    fn work(&mut self, batch: &mut Vec<Message>, flush: &dyn Fn()) -> io::Result<()> {
        let mut requests = std::mem::take(&mut self.requests);
        requests.extend(batch.drain(..).filter_map(|message| self.taken(message)));
        self.worker.awake(true);
        let pooled = || self.pooled.load(Ordering::Relaxed);
        let worked = self.worker.work(&mut requests, false, pooled, flush);
        self.worker.awake(false);
        self.requests = requests;
        worked
    }

    fn pending(&self) -> Option<BorrowedFd<'_>> {
        self.worker.ended().filter(|_| self.worker.in_flight() > 0)
    }

    fn complete_pending(&mut self) -> io::Result<()> {
        self.worker.awake(true);
        let reaped = self.worker.reap();
        self.worker.awake(false);
        reaped.map(drop)
    }

    fn is_replaced(&self) -> bool {
        self.worker.replaced()
    }
}

impl Queue {
    fn new(
        inline: Arc<InlineBatch<KernelRequest>>,
        files: Option<Arc<Passthrough>>,
        pooled: Arc<AtomicUsize>,
    ) -> Queue {
        Queue {
            client: Arc::clone(inline.client()),
            worker: QueueWorker::new(inline, false),
            files,
            pooled,
            requests: Vec::with_capacity(BATCH),
        }
    }

    /// `None`: the kernel does not send this request. The reply is an error.
    fn taken(&self, mut message: Message) -> Option<KernelRequest> {
        let writable = message.reply().len();
        let request = message.request();
        let head = Head::of(request, request.len(), writable)?;
        let files = self.files.as_ref();
        Some(KernelRequest {
            message,
            head,
            pooled: false,
            in_pool: Arc::clone(&self.pooled),
            files: files.map(|files| (Arc::clone(files), Arc::clone(&self.client))),
        })
    }
}

/// A request and its reply.
struct KernelRequest {
    message: Message,
    head: Head,
    /// The pool has it, and how many it has of its queue.
    pooled: bool,
    in_pool: Arc<AtomicUsize>,
    /// The kernel uses files itself, which this client has open.
    files: Option<(Arc<Passthrough>, Arc<Client>)>,
}

impl RequestBuffers for KernelRequest {
    fn request(&mut self) -> Option<Buffers<'_>> {
        Some(vec![self.message.request().into()])
    }

    fn reply(&mut self) -> Option<Buffers<'_>> {
        Some(vec![self.message.reply().into()])
    }

    fn lend(&mut self, of_request: bool, from: usize, length: usize) -> Option<TransferMemory> {
        self.message.lend(of_request, from, length)
    }

    fn give_back(&mut self, memory: TransferMemory) {
        self.message.end_loan(memory);
    }
}

impl Request for KernelRequest {
    fn head(&self) -> &Head {
        &self.head
    }

    fn taken(&self) -> Instant {
        self.message.taken()
    }

    fn handed_over(&mut self) {
        self.pooled = true;
        self.in_pool.fetch_add(1, Ordering::Relaxed);
    }

    fn answered(mut self, answered: Answered, _notify: bool) {
        let written = answered.written as usize;
        if let Some((files, client)) = &self.files {
            let reply = self.message.reply();
            let length = written.min(reply.len());
            files.answered(&self.head, &mut reply[..length], |node, handle| {
                client.folder.descriptor(&self.head, node, handle)
            });
        }
        self.message.answer(written);
        if self.pooled {
            self.in_pool.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
