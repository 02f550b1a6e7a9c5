//! A queue of a server, and those who share it.
//!
//! Each user has slots of its own in the queue. Whoever looks at the ring takes everything that the server has given back, and keeps
//! what belongs to others for them: so no user waits for another one, and one notification is enough.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::link::Link;
use super::ring::{Part, Places, Ring};
use crate::memory::SharedMemory;

/// Descriptors of a ring that servers accept.
pub(super) const MOST_DESCRIPTORS: u16 = 1024;

/// A queue that is set up.
#[derive(Debug)]
pub(super) struct Queue {
    shared: Mutex<Shared>,
    slots: u32,
    kick: File,
    call: File,
    /// The ring is in it.
    _memory: Arc<SharedMemory>,
}

#[derive(Debug)]
struct Shared {
    ring: Ring,
    /// By their first slots.
    users: Vec<User>,
}

#[derive(Debug)]
struct User {
    first: u32,
    slots: u32,
    /// What others have taken from the ring for it: its own numbers.
    kept: Vec<u32>,
    waits: bool,
    wake: Arc<File>,
}

/// The server returned something that is not in flight.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Invented;

impl Queue {
    /// Sets up the queue of this number for `slots` chains of at most `chain` descriptors.
    ///
    /// # Errors
    /// The chains do not fit in a ring, or the server refuses the queue.
    pub(super) fn new(link: &Link, number: u32, slots: u32, chain: u16) -> io::Result<Queue> {
        let indirect = link.features & super::link::F_INDIRECT != 0;
        let too_many = || io::Error::other(format!("{slots} requests do not fit in a ring"));
        let places = Places::new(0, slots, chain, indirect, MOST_DESCRIPTORS);
        let length = places.ok_or_else(too_many)?.length();
        let start = link.memory.take(length)?.as_ptr().expose_provenance() as u64;
        let places = Places::new(start, slots, chain, indirect, MOST_DESCRIPTORS);
        let places = places.ok_or_else(too_many)?;
        let (kick, call) = (event()?, event()?);
        link.queue(number, &places, &kick, &call)?;
        let events = link.features & super::link::F_EVENT_IDX != 0;
        // SAFETY: the ring is within the memory of the link, which lives as long as this value.
        let ring = unsafe { Ring::new(places, events) };
        Ok(Queue {
            shared: Mutex::new(Shared {
                ring,
                users: Vec::new(),
            }),
            slots,
            kick,
            call,
            _memory: Arc::clone(&link.memory),
        })
    }

    /// How many use it.
    pub(super) fn users(&self) -> usize {
        self.shared().users.len()
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another user, with so many slots.
    ///
    /// # Errors
    /// There are not so many slots left.
    pub(super) fn join(self: &Arc<Queue>, slots: u32) -> io::Result<QueueUser> {
        let wake = Arc::new(event()?);
        let mut shared = self.shared();
        let mut first = 0;
        let mut at = 0;
        for user in &shared.users {
            if user.first - first >= slots {
                break;
            }
            (first, at) = (user.first + user.slots, at + 1);
        }
        if first + slots > self.slots {
            let text = format!(
                "a queue has {} requests, and {first} of them are in use",
                self.slots
            );
            return Err(io::Error::other(text));
        }
        let user = User {
            first,
            slots,
            kept: Vec::with_capacity(slots as usize),
            waits: false,
            wake: Arc::clone(&wake),
        };
        shared.users.insert(at, user);
        Ok(QueueUser {
            queue: Arc::clone(self),
            first,
            slots,
            wake,
        })
    }
}

/// One user of a queue.
#[derive(Debug)]
pub(super) struct QueueUser {
    queue: Arc<Queue>,
    first: u32,
    slots: u32,
    wake: Arc<File>,
}

/// The ring, to push chains to it.
pub(super) struct Pusher<'a> {
    ring: &'a mut Ring,
    first: u32,
}

impl Pusher<'_> {
    /// Makes the chain of a slot of the user available.
    pub(super) fn push(&mut self, slot: u32, parts: &[Part]) {
        self.ring.push(self.first + slot, parts);
    }
}

impl QueueUser {
    /// Pushes chains, and notifies the server of them if it wants that.
    pub(super) fn submit(&self, fill: impl FnOnce(&mut Pusher<'_>)) {
        let notifies = {
            let shared = &mut *self.queue.shared();
            fill(&mut Pusher {
                ring: &mut shared.ring,
                first: self.first,
            });
            shared.ring.notifies()
        };
        if notifies {
            signal(&self.queue.kick);
        }
    }

    /// Appends the slots of this user that the server has given back. `into` has room for all slots.
    pub(super) fn collect(&self, into: &mut Vec<u32>) -> Result<(), Invented> {
        let shared = &mut *self.queue.shared();
        for user in &mut shared.users {
            if user.first == self.first {
                user.waits = false;
                into.append(&mut user.kept);
            }
        }
        loop {
            while let Some(slot) = shared.ring.pop() {
                let slot = slot.map_err(|_| Invented)?;
                if (self.first..self.first + self.slots).contains(&slot) {
                    if into.len() >= self.slots as usize {
                        return Err(Invented);
                    }
                    into.push(slot - self.first);
                    continue;
                }
                let mut users = shared.users.iter_mut();
                let user = users.find(|user| (user.first..user.first + user.slots).contains(&slot));
                let user = user.ok_or(Invented)?;
                if user.kept.len() >= user.slots as usize {
                    return Err(Invented);
                }
                user.kept.push(slot - user.first);
                if std::mem::take(&mut user.waits) {
                    signal(&user.wake);
                }
            }
            // The notification that a waiting user asked for may have been that of what was just taken.
            let mut others = shared.users.iter().filter(|user| user.first != self.first);
            if !others.any(|user| user.waits) || shared.ring.await_used(1) {
                return Ok(());
            }
        }
    }

    /// Asks to be notified when `count` more chains were given back. `false`: some were already.
    pub(super) fn await_used(&self, count: u16) -> bool {
        let shared = &mut *self.queue.shared();
        let alone = shared.users.len() == 1;
        let mut users = shared.users.iter_mut();
        let Some(user) = users.find(|user| user.first == self.first) else {
            return false;
        };
        if !user.kept.is_empty() {
            return false;
        }
        user.waits = true;
        // It is not known whose chains are given back next.
        shared.ring.await_used(if alone { count } else { 1 })
    }

    /// Waits until the server signals, or another user has taken something for this one.
    ///
    /// # Errors
    /// The connection, of which `socket` is a descriptor, ended.
    pub(super) fn wait(&self, socket: &UnixStream, timeout_ns: Option<u64>) -> io::Result<()> {
        let watch = |descriptor: libc::c_int| libc::pollfd {
            fd: descriptor,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut watched = [
            watch(self.queue.call.as_raw_fd()),
            watch(self.wake.as_raw_fd()),
            watch(socket.as_raw_fd()),
        ];
        let time = timeout_ns.map(|ns| libc::timespec {
            tv_sec: (ns / 1_000_000_000) as _,
            tv_nsec: (ns % 1_000_000_000) as _,
        });
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: three descriptors of ours; they and the time outlive the call. No signal mask is given. A call that was interrupted
        // has no events, and the caller comes again.
        let ready = unsafe { libc::ppoll(watched.as_mut_ptr(), 3, time, std::ptr::null()) };
        if ready <= 0 {
            return Ok(());
        }
        let mut signalled = false;
        for (watched, event) in watched.iter().zip([&self.queue.call, &*self.wake]) {
            if watched.revents != 0 {
                signalled = true;
                let mut count = [0u8; 8];
                // Servers make it non-blocking, and another user can have read it: there may be nothing to read.
                let _ = io::Read::read(&mut &*event, &mut count);
            }
        }
        // Nothing is asked: the server has nothing to say.
        match signalled {
            true => Ok(()),
            false => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the server closed the connection",
            )),
        }
    }
}

impl Drop for QueueUser {
    fn drop(&mut self) {
        let shared = &mut *self.queue.shared();
        shared.users.retain(|user| user.first != self.first);
        // It may have read a signal that was meant for others as well.
        for user in &shared.users {
            signal(&user.wake);
        }
    }
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

/// It fails only if the counter is full, and then the reader wakes up anyway.
fn signal(mut event: &File) {
    let _ = io::Write::write(&mut event, &1u64.to_ne_bytes());
}
