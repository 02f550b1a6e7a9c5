//! A shared folder as a file system of this host: the server's side of FUSE.
//!
//! One thread reads requests from `/dev/fuse`, as many as there are, and dispatches them as a batch. A request and its reply are in one
//! buffer, so that the data of both are aligned as direct I/O needs it.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::buffers::Buffers;
use crate::folder::{Answered, Exchange};
use crate::front::Stop;
use crate::request::{HEADER, Head, MOST_DATA, MOST_OTHER, REPLY_HEADER, WRITE_HEADER, opcode};
use crate::server::{FileServer, Lane, Request, prepare_thread};

/// Requests of a batch, and buffers that are kept.
const MOST_TAKEN: usize = 64;
const PAGE: usize = 4096;
/// Room of a request, of its reply, and for their alignment.
const BUFFER: usize = MOST_DATA as usize + MOST_OTHER + 4 * PAGE;
/// Bytes of replies whose length the request does not tell.
const SMALL: usize = 2 * PAGE;
/// How long requests in flight may take when the server ends.
const LAST_REQUESTS: Duration = Duration::from_secs(10);

/// A mounted file system, which is unmounted when this is dropped. Programs that use it keep it until they leave it.
#[derive(Debug)]
pub struct Mounted {
    path: PathBuf,
    device: Arc<File>,
}

impl Mounted {
    /// Mounts a file system on an empty folder. What a server that was killed left mounted there is unmounted before. `shared` is the
    /// folder that will be served.
    ///
    /// # Errors
    /// The folder is not empty, or is within the shared one; this process may not mount, or there is no FUSE.
    pub fn on(path: &Path, shared: &Path) -> io::Result<Mounted> {
        if let Err(error) = path.metadata()
            && Errno::from_io_error(&error) == Some(Errno::NOTCONN)
        {
            unmount(path, UnmountFlags::DETACH)?;
        }
        let refused = |text| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        if std::fs::read_dir(path)?.next().is_some() {
            return refused("it is not an empty folder");
        }
        let (path, shared) = (path.canonicalize()?, shared.canonicalize()?);
        // The server would wait for itself.
        if path.starts_with(&shared) {
            return refused("it is within the folder that is served");
        }
        let device = (OpenOptions::new().read(true).write(true))
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open("/dev/fuse")?;
        let options = format!(
            "fd={},rootmode={:o},user_id={},group_id={},max_read={MOST_DATA},default_permissions,allow_other",
            device.as_raw_fd(),
            shared.metadata()?.mode() & 0o170_000,
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        );
        let options = CString::new(options).map_err(io::Error::other)?;
        let flags = MountFlags::NODEV | MountFlags::NOSUID;
        mount("iodyno", &path, "fuse.iodyno", flags, options.as_c_str())?;
        Ok(Mounted {
            path,
            device: Arc::new(device),
        })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // It may be unmounted already.
        let _ = unmount(&self.path, UnmountFlags::DETACH);
    }
}

/// Serves a mounted file system until it is unmounted or the server is stopped. Then requests in flight are answered.
///
/// # Errors
/// Those of the folder and of `/dev/fuse`; requests do not end while the server is stopping.
pub fn serve(mounted: &Mounted, server: &Arc<FileServer>, stop: &Stop) -> io::Result<()> {
    let shared = Arc::new(Shared {
        device: Arc::clone(&mounted.device),
        in_flight: Mutex::default(),
        idle: Condvar::new(),
        buffers: Mutex::default(),
    });
    prepare_thread();
    // The kernel asks for other file systems only virtio-fs.
    let mut lane = Lane::new(Arc::new(server.client(false)?), false);
    let mut batch = Vec::with_capacity(MOST_TAKEN);
    let ended = loop {
        match shared.take(&mut batch) {
            Ok(true) => {}
            // It was unmounted.
            Ok(false) => break Ok(()),
            Err(error) => break Err(error),
        }
        if !batch.is_empty() {
            // Whether the next request is there already could only be told by another system call.
            lane.work(&mut batch, false, || shared.in_flight().pooled, || ());
            if !stop.is_stopped() {
                continue;
            }
        }
        match stop.wait(&*mounted.device) {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    shared.drain()?;
    ended
}

#[derive(Debug)]
struct Shared {
    device: Arc<File>,
    in_flight: Mutex<InFlight>,
    /// No request is in flight.
    idle: Condvar,
    buffers: Mutex<Vec<Vec<u8>>>,
}

#[derive(Debug, Default)]
struct InFlight {
    all: usize,
    /// By the pool.
    pooled: usize,
}

impl Shared {
    fn in_flight(&self) -> MutexGuard<'_, InFlight> {
        (self.in_flight.lock()).unwrap_or_else(PoisonError::into_inner)
    }

    fn buffers(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the requests that are there. Returns whether the file system is still mounted.
    fn take(self: &Arc<Shared>, batch: &mut Vec<Message>) -> io::Result<bool> {
        let now = Instant::now();
        while batch.len() < MOST_TAKEN {
            let kept = self.buffers().pop();
            // Pages are used only when something is written to them.
            let mut buffer = kept.unwrap_or_else(|| vec![0; BUFFER]);
            let start = aligned(&buffer, 0, WRITE_HEADER);
            match (&*self.device).read(&mut buffer[start..]) {
                Ok(length) => {
                    let Some(message) = Message::new(Arc::clone(self), buffer, start, length, now)
                    else {
                        // The kernel does not send this.
                        return Err(io::ErrorKind::InvalidData.into());
                    };
                    self.in_flight().all += 1;
                    batch.push(message);
                }
                Err(error) => {
                    self.buffers().push(buffer);
                    match Errno::from_io_error(&error) {
                        Some(Errno::AGAIN) => return Ok(true),
                        // The request was interrupted.
                        Some(Errno::INTR | Errno::NOENT) => {}
                        Some(Errno::NODEV) => return Ok(!batch.is_empty()),
                        _ => return Err(error),
                    }
                }
            }
        }
        Ok(true)
    }

    /// Waits until no request is in flight.
    fn drain(&self) -> io::Result<()> {
        let busy = |in_flight: &mut InFlight| in_flight.all > 0;
        let waited = (self.idle).wait_timeout_while(self.in_flight(), LAST_REQUESTS, busy);
        match waited.unwrap_or_else(PoisonError::into_inner).1.timed_out() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(()),
        }
    }
}

/// The first place behind `from` such that what is behind a header of this length is aligned.
fn aligned(buffer: &[u8], from: usize, header: usize) -> usize {
    let address = buffer.as_ptr() as usize;
    (address + from + header).next_multiple_of(PAGE) - address - header
}

/// A request and its reply.
struct Message {
    shared: Arc<Shared>,
    buffer: Vec<u8>,
    start: usize,
    length: usize,
    reply: usize,
    head: Head,
    taken: Instant,
    pooled: bool,
}

impl Message {
    fn new(
        shared: Arc<Shared>,
        buffer: Vec<u8>,
        start: usize,
        length: usize,
        taken: Instant,
    ) -> Option<Message> {
        let message = &buffer[start..start + length];
        let header = Head::of(message, length, 0)?;
        let asked = match header.opcode() {
            opcode::READ | opcode::READDIR | opcode::READDIRPLUS => header.u32_at(HEADER + 16),
            opcode::GETXATTR | opcode::LISTXATTR => header.u32_at(HEADER),
            _ => 0,
        };
        let room = (asked.min(MOST_DATA) as usize).max(SMALL);
        let reply = aligned(&buffer, start + length, REPLY_HEADER);
        // The data of a write fill the buffer; its reply is short.
        let writable = (REPLY_HEADER + room).min(buffer.len().checked_sub(reply)?);
        let head = Head::of(message, length, writable)?;
        Some(Message {
            shared,
            buffer,
            start,
            length,
            reply,
            head,
            taken,
            pooled: false,
        })
    }
}

impl Exchange for Message {
    fn request(&mut self) -> Option<Buffers<'_>> {
        let message = &mut self.buffer[self.start..self.start + self.length];
        Some(vec![message.into()])
    }

    fn reply(&mut self) -> Option<Buffers<'_>> {
        let reply = &mut self.buffer[self.reply..self.reply + self.head.writable];
        Some(vec![reply.into()])
    }
}

impl Request for Message {
    fn head(&self) -> &Head {
        &self.head
    }

    fn taken(&self) -> Instant {
        self.taken
    }

    fn handed_over(&mut self) {
        self.pooled = true;
        self.shared.in_flight().pooled += 1;
    }

    fn answered(mut self, answered: Answered, _told: bool) {
        if answered.written > 0 {
            let end = self.reply + answered.written as usize;
            // It fails if the request was interrupted or the file system unmounted: then nobody waits.
            let _ = (&*self.shared.device).write(&self.buffer[self.reply..end]);
        }
        {
            let mut kept = self.shared.buffers();
            if kept.len() < MOST_TAKEN {
                kept.push(std::mem::take(&mut self.buffer));
            }
        }
        let mut in_flight = self.shared.in_flight();
        in_flight.all -= 1;
        in_flight.pooled -= usize::from(self.pooled);
        if in_flight.all == 0 {
            self.shared.idle.notify_all();
        }
    }
}
