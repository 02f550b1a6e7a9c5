//! Requests, the paths of their replies, and the state that all threads of a session share.

use std::fmt;
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use iodyno_sys::TransferMemory;
use iodyno_sys::fuse::FuseEntry;
use iodyno_vhost::signal;
use rustix::io::Errno;

use crate::fuse::init::{Agreed, agree};
use crate::fuse::protocol::opcode::{BATCH_FORGET, FORGET, INIT, INTERRUPT};
use crate::fuse::protocol::{
    HEADER, MAX_DATA, REPLY_HEADER, WRITE_HEADER, reply_header, u32_at, u64_at,
};

const PAGE: usize = 4096;
/// Room of a request, of its reply, and for their alignment. A long request has a short reply.
const BUFFER: usize = MAX_DATA as usize + 4 * PAGE;

/// A request with the room for its reply. Dropped, it is answered by EIO.
pub struct Message {
    shared: Arc<SessionState>,
    place: Option<RequestMemory>,
    opcode: u32,
    unique: u64,
    taken: Instant,
}

pub(super) enum RequestMemory {
    Device {
        buffer: Vec<u8>,
        request: Range<usize>,
        reply: usize,
    },
    /// The buffer of a [`RequestMemory::Device`] is lent.
    Lent { request: Range<usize>, reply: usize },
    /// The request of a [`RequestMemory::Device`] is no longer needed.
    Read,
    Ring {
        entry: FuseEntry,
        back: Arc<ReturnQueue>,
    },
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (opcode, unique) = (self.opcode, self.unique);
        write!(f, "Message({opcode}, {unique})")
    }
}

impl Message {
    /// The whole request; empty after [`Self::give_back`].
    pub fn request(&mut self) -> &mut [u8] {
        match &mut self.place {
            Some(RequestMemory::Device {
                buffer, request, ..
            }) => &mut buffer[request.clone()],
            Some(RequestMemory::Ring { entry, .. }) => entry.request(),
            Some(RequestMemory::Lent { .. } | RequestMemory::Read) | None => &mut [],
        }
    }

    /// The buffer for the reply, header first. The data after the header are aligned. It does not overlap the request.
    pub fn reply(&mut self) -> &mut [u8] {
        match &mut self.place {
            Some(RequestMemory::Device { buffer, reply, .. }) => &mut buffer[*reply..],
            Some(RequestMemory::Ring { entry, .. }) => entry.reply(),
            Some(RequestMemory::Lent { .. } | RequestMemory::Read) | None => &mut [],
        }
    }

    /// Lends `length` bytes of the request (`of_request`) or of the reply buffer, starting at `from`. Until
    /// [`Self::end_loan`], both are unavailable. `None`: the memory belongs to a ring.
    pub fn lend(&mut self, of_request: bool, from: usize, length: usize) -> Option<TransferMemory> {
        match self.place.take() {
            Some(RequestMemory::Device {
                buffer,
                request,
                reply,
            }) => {
                let start = from + if of_request { request.start } else { reply };
                self.place = Some(RequestMemory::Lent { request, reply });
                Some(TransferMemory::Own(buffer, start..start + length))
            }
            other => {
                self.place = other;
                None
            }
        }
    }

    /// Takes lent memory back.
    pub fn end_loan(&mut self, memory: TransferMemory) {
        self.place = match (self.place.take(), memory) {
            (Some(RequestMemory::Lent { request, reply }), TransferMemory::Own(buffer, _)) => {
                Some(RequestMemory::Device {
                    buffer,
                    request,
                    reply,
                })
            }
            (place, _) => place,
        };
    }

    /// When it was taken.
    #[must_use]
    pub fn taken(&self) -> Instant {
        self.taken
    }

    /// Answers with the first bytes of the room for the reply. 0: it has no reply.
    pub fn answer(mut self, length: usize) {
        match self.place.take() {
            Some(RequestMemory::Device {
                mut buffer,
                request,
                reply,
            }) => {
                if length > 0 {
                    let (before, room) = buffer.split_at_mut(reply);
                    let agreed = match self.opcode {
                        INIT => agree(&before[request], room, self.shared.wanted()),
                        _ => None,
                    };
                    self.shared.write(&[IoSlice::new(&room[..length])]);
                    if let Some(agreed) = agreed {
                        self.shared.change(|state| state.agreed = Some(agreed));
                    } else if self.opcode == INIT && u32_at(room, 4) != Some(0) {
                        self.shared.disagreed();
                    }
                }
                self.shared.keep(buffer);
            }
            Some(RequestMemory::Ring { entry, back }) => back.give(entry, length),
            // Dropped, it fails.
            lent @ Some(RequestMemory::Lent { .. }) => self.place = lent,
            Some(RequestMemory::Read) | None => {}
        }
    }

    /// Returns the request's buffer to the session, if it is reusable. Answer with [`Self::answer_with`] then.
    pub fn give_back(&mut self) {
        if let Some(RequestMemory::Device { .. }) = self.place
            && let Some(RequestMemory::Device { buffer, .. }) =
                self.place.replace(RequestMemory::Read)
        {
            self.shared.keep(buffer);
        }
    }

    /// Answers with an error, or 0 and data.
    pub fn answer_with(mut self, errno: i32, data: &[u8]) {
        let header = reply_header(self.unique, errno, data.len());
        if let Some(RequestMemory::Read) = self.place {
            self.place = None;
            let parts = [IoSlice::new(&header), IoSlice::new(data)];
            return self.shared.write(&parts);
        }
        let length = REPLY_HEADER + data.len();
        let room = self.reply();
        room[..REPLY_HEADER].copy_from_slice(&header);
        room[REPLY_HEADER..length].copy_from_slice(data);
        self.answer(length);
    }

    fn is_answered(&self) -> bool {
        !matches!(self.opcode, FORGET | BATCH_FORGET | INTERRUPT)
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        match self.place.take() {
            Some(RequestMemory::Ring { entry, back }) => back.give(entry, 0),
            Some(place) => {
                if self.is_answered() {
                    let header = reply_header(self.unique, Errno::IO.raw_os_error(), 0);
                    self.shared.write(&[IoSlice::new(&header)]);
                }
                if self.opcode == INIT {
                    self.shared.disagreed();
                }
                if let RequestMemory::Device { buffer, .. } = place {
                    self.shared.keep(buffer);
                }
            }
            None => {}
        }
        self.shared.worked.fetch_add(1, Ordering::Relaxed);
        if self.shared.in_flight.fetch_sub(1, Ordering::AcqRel) == 1
            && self.shared.stopping.load(Ordering::Acquire)
        {
            // Under the lock, so that it is not between a check and a wait.
            self.shared.change(|_| ());
        }
    }
}

/// The first offset from `from` on that aligns the data after a header of this length.
fn aligned(buffer: &[u8], from: usize, header: usize) -> usize {
    let address = buffer.as_ptr() as usize;
    (address + from + header).next_multiple_of(PAGE) - address - header
}

/// The state that all threads of a session share.
pub(super) struct SessionState {
    pub(super) device: Arc<File>,
    /// There are rings.
    pub(super) io_uring: AtomicBool,
    pub(super) passthrough: bool,
    pub(super) state: Mutex<Negotiation>,
    pub(super) changed: Condvar,
    pub(super) in_flight: AtomicUsize,
    /// Requests that have ended.
    pub(super) worked: AtomicU64,
    /// Threads end when idle.
    pub(super) draining: AtomicBool,
    /// Threads take no more requests.
    pub(super) stopping: AtomicBool,
    pub(super) buffers: Mutex<Vec<Vec<u8>>>,
    pub(super) threads: Mutex<Vec<JoinHandle<()>>>,
    /// Wakes the thread of `/dev/fuse`.
    pub(super) wake: OwnedFd,
    /// Buffers that are kept, and requests of a batch.
    pub(super) batch: usize,
    /// Can be read when the session has ended.
    pub(super) ended: OwnedFd,
}

#[derive(Debug, Default)]
pub(super) struct Negotiation {
    pub(super) agreed: Option<Agreed>,
    /// Rings whose entries were registered with the kernel.
    pub(super) registered: usize,
    /// Why the kernel refused the entries of a ring.
    pub(super) refused: Option<io::Error>,
    pub(super) ended: bool,
    pub(super) failed: Option<io::Error>,
}

impl SessionState {
    pub(super) fn state(&self) -> MutexGuard<'_, Negotiation> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wanted(&self) -> Agreed {
        Agreed {
            io_uring: self.io_uring.load(Ordering::Acquire),
            passthrough: self.passthrough,
        }
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Negotiation)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    pub(super) fn wait_while(
        &self,
        limit: Duration,
        condition: impl Fn(&Negotiation) -> bool,
    ) -> MutexGuard<'_, Negotiation> {
        let waited = (self.changed)
            .wait_timeout_while(self.state(), limit, |state| condition(state))
            .unwrap_or_else(PoisonError::into_inner);
        waited.0
    }

    /// Writes a reply. Fails if the request was interrupted or the file system unmounted, and the reply is unneeded.
    fn write(&self, parts: &[IoSlice<'_>]) {
        let _ = (&*self.device).write_vectored(parts);
    }

    fn buffers(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, buffer: Vec<u8>) {
        let mut kept = self.buffers();
        if kept.len() < self.batch {
            kept.push(buffer);
        }
    }

    pub(super) fn ended(&self, result: io::Result<()>) {
        self.change(|state| {
            state.ended = true;
            if let (Err(error), None) = (result, &state.failed) {
                state.failed = Some(error);
            }
        });
        signal(Some(&self.ended));
    }

    fn disagreed(&self) {
        let text = "the kernel and the server do not agree on a protocol";
        self.ended(Err(io::Error::other(text)));
    }

    pub(super) fn message(
        self: &Arc<SessionState>,
        place: RequestMemory,
        taken: Instant,
    ) -> Message {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        let mut message = Message {
            shared: Arc::clone(self),
            place: Some(place),
            opcode: 0,
            unique: 0,
            taken,
        };
        let request = message.request();
        let (opcode, unique) = (u32_at(request, 4), u64_at(request, 8));
        (message.opcode, message.unique) = (opcode.unwrap_or(0), unique.unwrap_or(0));
        message
    }

    /// Takes the available requests. Returns whether the file system is still mounted.
    pub(super) fn take(self: &Arc<SessionState>, batch: &mut Vec<Message>) -> io::Result<bool> {
        let now = Instant::now();
        while batch.len() < self.batch {
            let kept = self.buffers().pop();
            // Pages are used only when something is written to them.
            let mut buffer = kept.unwrap_or_else(|| vec![0; BUFFER]);
            let start = aligned(&buffer, 0, WRITE_HEADER);
            match (&*self.device).read(&mut buffer[start..]) {
                Ok(length) => {
                    let request = start..start + length;
                    let reply = aligned(&buffer, request.end, REPLY_HEADER);
                    if reply + REPLY_HEADER > buffer.len() || length < HEADER {
                        // The kernel does not send this.
                        return Err(io::ErrorKind::InvalidData.into());
                    }
                    let place = RequestMemory::Device {
                        buffer,
                        request,
                        reply,
                    };
                    let message = self.message(place, now);
                    if message.opcode != INTERRUPT {
                        batch.push(message);
                    }
                }
                Err(error) => {
                    self.keep(buffer);
                    match Errno::from_io_error(&error) {
                        Some(Errno::AGAIN) => return Ok(true),
                        // The request was interrupted.
                        Some(Errno::INTR | Errno::NOENT) => {}
                        // It was unmounted, or the connection was aborted.
                        Some(Errno::NODEV | Errno::CONNABORTED) => return Ok(!batch.is_empty()),
                        _ => return Err(error),
                    }
                }
            }
        }
        Ok(true)
    }

    pub(super) fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns replies to the thread of a ring.
pub(super) struct ReturnQueue {
    pub(super) given: Mutex<Returned>,
    pub(super) wake: OwnedFd,
}

#[derive(Default)]
pub(super) struct Returned {
    pub(super) replies: Vec<(FuseEntry, usize)>,
    /// The thread sleeps, or is about to.
    pub(super) asleep: bool,
}

impl ReturnQueue {
    pub(super) fn given(&self) -> MutexGuard<'_, Returned> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give(&self, entry: FuseEntry, length: usize) {
        let mut given = self.given();
        given.replies.push((entry, length));
        if std::mem::take(&mut given.asleep) {
            drop(given);
            signal(Some(&self.wake));
        }
    }

    /// Takes the replies into an empty list. `asleep`: the thread sleeps next unless there are replies.
    pub(super) fn take(&self, replies: &mut Vec<(FuseEntry, usize)>, asleep: bool) {
        let mut given = self.given();
        std::mem::swap(&mut given.replies, replies);
        given.asleep = asleep;
    }
}
