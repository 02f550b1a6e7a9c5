//! A queue of a server, and its users.
//!
//! Each user has its own slots in the queue. A user that reads the ring takes all completions of the server, and keeps
//! those of other users for them. So no user waits for another one, and one notification is enough.
//!
//! If a user leaves with requests in flight, its slots stay reserved until the server has returned them.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::link::Link;
use super::ring::{Part, Places, Ring};
use crate::file::{eventfd, poll};
use crate::memory::SharedMemory;

/// Descriptors of a ring that servers accept.
pub(super) const MAX_DESCRIPTORS: u16 = 1024;

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
    /// Ordered by their first slots.
    users: Vec<User>,
}

#[derive(Debug)]
struct User {
    first: u32,
    /// Whether the server has each of its slots.
    in_flight: Box<[bool]>,
    /// It has left, and the server has some of its slots.
    left: bool,
    /// Completions taken from the ring for it, by its own slot numbers.
    kept: Vec<u32>,
    waits: bool,
    wake: Arc<File>,
}

/// The server returned something that is not in flight.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnknownCompletion;

impl User {
    fn end(&self) -> u32 {
        self.first + self.in_flight.len() as u32
    }
}

impl Shared {
    /// The user of a slot, or the one before it.
    fn user(&mut self, slot: u32) -> Option<&mut User> {
        let after = self.users.partition_point(|user| user.first <= slot);
        self.users.get_mut(after.checked_sub(1)?)
    }

    /// Takes the completions of the server, keeps them for their users, and wakes waiting users.
    fn take(&mut self) -> Result<(), UnknownCompletion> {
        let mut ended = false;
        while let Some(slot) = self.ring.pop() {
            let slot = slot.map_err(|_| UnknownCompletion)?;
            let user = self.user(slot).ok_or(UnknownCompletion)?;
            let number = slot - user.first;
            let in_flight = user.in_flight.get_mut(number as usize);
            if !in_flight.is_some_and(std::mem::take) {
                return Err(UnknownCompletion);
            }
            if user.left {
                ended |= !user.in_flight.contains(&true);
                continue;
            }
            user.kept.push(number);
            if std::mem::take(&mut user.waits) {
                signal(&user.wake);
            }
        }
        if ended {
            (self.users).retain(|user| !user.left || user.in_flight.contains(&true));
        }
        Ok(())
    }
}

impl Queue {
    /// Sets up the queue of this number for `slots` chains of at most `chain` descriptors.
    ///
    /// # Errors
    /// The chains do not fit in a ring, or the server refuses the queue.
    pub(super) fn new(link: &Link, number: u32, slots: u32, chain: u16) -> io::Result<Queue> {
        let indirect = link.features & super::link::F_INDIRECT != 0;
        let too_many = || io::Error::other(format!("{slots} requests do not fit in a ring"));
        let places = Places::new(0, slots, chain, indirect, MAX_DESCRIPTORS);
        let length = places.ok_or_else(too_many)?.length();
        let start = link.memory.take(length)?.as_ptr().expose_provenance() as u64;
        let places = Places::new(start, slots, chain, indirect, MAX_DESCRIPTORS);
        let places = places.ok_or_else(too_many)?;
        let (kick, call) = (eventfd()?.into(), eventfd()?.into());
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

    /// Adds a user with this many slots.
    ///
    /// # Errors
    /// Not enough slots are free.
    pub(super) fn join(self: &Arc<Queue>, slots: u32) -> io::Result<QueueUser> {
        let wake = Arc::new(eventfd()?.into());
        let mut shared = self.shared();
        // Slots of former users may have come back.
        let invented = |_| io::Error::other("the server returned a request that is not in flight");
        shared.take().map_err(invented)?;
        let mut first = 0;
        let mut at = 0;
        for user in &shared.users {
            if user.first - first >= slots {
                break;
            }
            (first, at) = (user.end(), at + 1);
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
            in_flight: vec![false; slots as usize].into_boxed_slice(),
            left: false,
            kept: Vec::with_capacity(slots as usize),
            waits: false,
            wake: Arc::clone(&wake),
        };
        shared.users.insert(at, user);
        Ok(QueueUser {
            queue: Arc::clone(self),
            first,
            wake,
        })
    }
}

/// One user of a queue.
#[derive(Debug)]
pub(super) struct QueueUser {
    queue: Arc<Queue>,
    first: u32,
    wake: Arc<File>,
}

/// The ring, to push chains to it.
pub(super) struct Pusher<'a> {
    shared: &'a mut Shared,
    first: u32,
}

impl Pusher<'_> {
    /// Makes the chain of a slot of the user available.
    ///
    /// # Safety
    /// That of [`Ring::push`].
    ///
    /// # Panics
    /// If the slot is not one of the user's, or is in flight.
    pub(super) unsafe fn push(&mut self, slot: u32, parts: &[Part]) {
        let user = self.shared.user(self.first);
        let state = user.and_then(|user| user.in_flight.get_mut(slot as usize));
        let idle = state.is_some_and(|in_flight| !std::mem::replace(in_flight, true));
        assert!(idle, "the slot is idle");
        // SAFETY: as the caller guarantees.
        unsafe { self.shared.ring.push(self.first + slot, parts) };
    }
}

impl QueueUser {
    /// Pushes chains, and notifies the server if it wants that.
    pub(super) fn submit(&self, fill: impl FnOnce(&mut Pusher<'_>)) {
        let notifies = {
            let shared = &mut *self.queue.shared();
            fill(&mut Pusher {
                shared,
                first: self.first,
            });
            shared.ring.notifies()
        };
        if notifies {
            signal(&self.queue.kick);
        }
    }

    /// Appends this user's slots that the server has returned. `into` has room for all slots.
    pub(super) fn collect(&self, into: &mut Vec<u32>) -> Result<(), UnknownCompletion> {
        let shared = &mut *self.queue.shared();
        if let Some(user) = shared.user(self.first) {
            user.waits = false;
        }
        loop {
            shared.take()?;
            if let Some(user) = shared.user(self.first) {
                into.append(&mut user.kept);
            }
            // The notification for a waiting user may have been the one just consumed.
            let mut others = shared.users.iter().filter(|user| user.first != self.first);
            if !others.any(|user| user.waits) || shared.ring.await_used(1) {
                return Ok(());
            }
        }
    }

    /// Requests a notification after `count` more chains. `false`: some were already returned.
    pub(super) fn await_used(&self, count: u16) -> bool {
        let shared = &mut *self.queue.shared();
        let alone = shared.users.len() == 1;
        let Some(user) = shared.user(self.first) else {
            return false;
        };
        if !user.kept.is_empty() {
            return false;
        }
        user.waits = true;
        // The order in which chains of different users return is unknown.
        shared.ring.await_used(if alone { count } else { 1 })
    }

    /// Waits until the server signals, or another user has taken a completion for this one.
    ///
    /// # Errors
    /// The connection of `socket` ended.
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
        if !poll(&mut watched, timeout_ns) {
            // The caller retries.
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
        // The server sends nothing unrequested, so the connection has ended.
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
        let first = self.first;
        shared.users.retain_mut(|user| {
            user.left |= user.first == first;
            !user.left || user.in_flight.contains(&true)
        });
        // It may have read a signal that was meant for others as well.
        for user in &shared.users {
            signal(&user.wake);
        }
    }
}

/// It fails only if the counter is full, and then the reader wakes up anyway.
fn signal(mut event: &File) {
    let _ = io::Write::write(&mut event, &1u64.to_ne_bytes());
}
