//! A simulated device that several threads use.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use iodyno_mirror::UnknownPolicy;
use iodyno_model::{SimDevice, SimTarget, SimulatedDisk};
use iodyno_sys::{Device, DeviceEnd, Op, Slot, Waker};
use slab::Slab;

use crate::volume::Volume;

/// One of the users of a simulated device: it sees its own ops only. In virtual time the users run one at a time, so
/// that the order of their ops depends on nothing else.
///
/// In virtual time, only one of the users that wait is due at the device's next event, and wakes those whose ops have
/// ended: otherwise all threads would run at each event.
#[derive(Debug)]
pub struct SharedDevice {
    state: Arc<Mutex<State>>,
    user: u32,
    /// What is added to the offsets in each of the user's files.
    places: Vec<u64>,
}

/// Reads what the disks of a [`SharedDevice`] did, while and after its users run.
#[derive(Debug, Clone)]
pub struct SimObserver(Arc<Mutex<State>>);

impl SimObserver {
    /// All disks with their queues, since the beginning and up to the last event.
    pub fn disks(&self) -> Vec<SimulatedDisk> {
        let state = self.0.lock();
        let state = state.unwrap_or_else(PoisonError::into_inner);
        state.volume.disks()
    }

    /// Whether it reads the same device.
    pub fn is_of(&self, other: &SimObserver) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

#[derive(Debug)]
struct State {
    volume: Volume,
    /// The latest time that was passed on: in real time, users may be overtaken between reading a clock and calling.
    now: u64,
    /// The ops in flight, by their slots on the device.
    ops: Slab<Owner>,
    users: Vec<User>,
    /// The user that is due next, and when.
    due: Option<(u64, u32)>,
}

/// Whose an op is.
#[derive(Debug, Clone, Copy)]
struct Owner {
    user: u32,
    slot: Slot,
    /// Its cancellation was reported to the user.
    cancelled: bool,
}

#[derive(Debug, Default)]
struct User {
    in_flight: u32,
    ended: VecDeque<DeviceEnd>,
    waits: bool,
    /// `None` in real time.
    waker: Option<Waker>,
}

impl SharedDevice {
    /// A device as in [`SimTarget`], for users whose files begin at these places on it. The seed determines the angles
    /// of rotating disks and what a policy draws. `None`: the target is not a disk or mirror.
    ///
    /// # Errors
    /// If its read policy is unknown.
    pub fn new(
        target: &SimTarget,
        users: Vec<Vec<u64>>,
        seed: u64,
    ) -> Result<Option<Vec<SharedDevice>>, UnknownPolicy> {
        if target.device == SimDevice::Law {
            return Ok(None);
        }
        let state = Arc::new(Mutex::new(State {
            volume: Volume::new(target, users.len(), seed)?,
            now: 0,
            ops: Slab::new(),
            users: users.iter().map(|_| User::default()).collect(),
            due: None,
        }));
        let shared = (0..).zip(users).map(|(user, places)| SharedDevice {
            state: Arc::clone(&state),
            user,
            places,
        });
        Ok(Some(shared.collect()))
    }

    /// Reads what its disks did.
    pub fn observer(&self) -> SimObserver {
        SimObserver(Arc::clone(&self.state))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A user that panicked has left the device between two calls.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Passes ended ops on to their users.
    fn distribute(&mut self, now: u64) {
        self.now = self.now.max(now);
        while let Some(end) = self.volume.take_ended(self.now) {
            let Owner {
                user,
                slot,
                cancelled,
            } = self.ops.remove(end.slot as usize);
            if !cancelled {
                let user = &mut self.users[user as usize];
                user.in_flight -= 1;
                user.ended.push_back(DeviceEnd { slot, ..end });
                user.wake();
            }
        }
    }
}

impl User {
    /// Lets it run now if it waits.
    fn wake(&mut self) {
        if let (true, Some(waker)) = (std::mem::take(&mut self.waits), &self.waker) {
            waker.wake();
        }
    }
}

impl Device for SharedDevice {
    fn describe(&self) -> String {
        self.state().volume.describe()
    }

    fn submit(&mut self, now: u64, slot: Slot, op: &Op) {
        let place = self.places.get(op.file as usize).copied().unwrap_or(0);
        let mut state = self.state();
        state.distribute(now);
        let owner = Owner {
            user: self.user,
            slot,
            cancelled: false,
        };
        let number = state.ops.insert(owner) as Slot;
        state.users[self.user as usize].in_flight += 1;
        let op = Op {
            offset: op.offset + place,
            ..*op
        };
        let now = state.now;
        state.volume.submit(now, self.user, number, &op);
    }

    /// An op of this user does not end before that of another user that ends first: what is submitted meanwhile does
    /// not make it end earlier.
    fn next_end(&self) -> Option<u64> {
        let mut state = self.state();
        let user = &mut state.users[self.user as usize];
        if let Some(ended) = user.ended.front() {
            return Some(ended.at);
        }
        if user.in_flight == 0 {
            return None;
        }
        user.waits = true;
        let virtual_time = user.waker.is_some();
        let next = state.volume.next_end()?;
        match state.due {
            Some((at, other)) if virtual_time && other != self.user && at <= next => Some(u64::MAX),
            _ => {
                state.due = Some((next, self.user));
                Some(next)
            }
        }
    }

    fn take_ended(&mut self, now: u64) -> Option<DeviceEnd> {
        let mut state = self.state();
        state.users[self.user as usize].waits = false;
        state.distribute(now);
        state.users[self.user as usize].ended.pop_front()
    }

    /// Cancels the ops of this user only. The device still executes them, and their completions are dropped.
    fn cancel_all(&mut self, now: u64) {
        let mut state = self.state();
        state.distribute(now);
        let State { ops, users, .. } = &mut *state;
        let user = &mut users[self.user as usize];
        for (_, op) in ops.iter_mut() {
            if op.user == self.user && !op.cancelled {
                op.cancelled = true;
                user.in_flight -= 1;
                user.ended.push_back(DeviceEnd {
                    slot: op.slot,
                    result: -libc::ECANCELED,
                    at: now,
                });
            }
        }
    }

    fn set_waker(&mut self, waker: Waker) {
        self.state().users[self.user as usize].waker = Some(waker);
    }

    /// Another user that waits takes over if this one was due next.
    fn stop_waiting(&mut self) {
        let mut state = self.state();
        state.users[self.user as usize].waits = false;
        if let Some((at, other)) = state.due
            && other != self.user
            && state.volume.next_end().is_none_or(|next| at <= next)
        {
            return;
        }
        let now = state.now;
        let waiting = state.users.iter().position(|user| user.waits);
        state.due = waiting.map(|user| (now, user as u32));
        if let Some(user) = waiting {
            state.users[user].wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use iodyno_sys::OpKind::Read;

    use super::*;
    use crate::testing::op;

    fn users(device: &str, count: u64) -> Vec<SharedDevice> {
        let places = (0..count).map(|user| vec![user << 30]).collect();
        let target = SimTarget::new(device.parse().unwrap());
        SharedDevice::new(&target, places, 1).unwrap().unwrap()
    }

    /// Runs all users until `until`, each with one sequential reader of 1 MiB; the bytes that each has read.
    fn read(users: &mut [SharedDevice], until: u64) -> Vec<u64> {
        let mut bytes = vec![0; users.len()];
        for user in users.iter_mut() {
            user.submit(0, 3, &op(Read, 0, 1 << 20));
        }
        while let Some(now) = users.iter().filter_map(SharedDevice::next_end).min() {
            if now > until {
                break;
            }
            for (user, bytes) in users.iter_mut().zip(&mut bytes) {
                while let Some(end) = user.take_ended(now) {
                    assert_eq!((end.slot, end.result), (3, 1 << 20));
                    *bytes += 1 << 20;
                    user.submit(end.at, 3, &op(Read, *bytes, 1 << 20));
                }
            }
        }
        bytes
    }

    #[test]
    fn users_of_one_disk_share_its_rate_and_those_of_a_mirror_have_a_leg_each() {
        let alone = read(&mut users("hdd", 1), 10_000_000_000)[0];
        assert!((1_270..=1_300).contains(&(alone / 1_000_000)), "{alone}");
        let both: u64 = read(&mut users("hdd", 2), 10_000_000_000).iter().sum();
        assert!(both < alone, "{both} {alone}");
        let mut pair = users("mirror:adaptive:hdd+hdd", 2);
        let legs = read(&mut pair, 10_000_000_000);
        assert!(legs.iter().all(|&leg| leg > alone * 9 / 10), "{legs:?}");
        assert!(pair[0].describe().contains("policy adaptive"));
    }

    #[test]
    fn disks_tell_requests_times_and_moves() {
        let mut one = users("hdd", 1);
        let observer = one[0].observer();
        assert!(observer.is_of(&one[0].observer()));
        let bytes = read(&mut one, 10_000_000_000)[0];
        let [disk] = observer.disks()[..] else {
            panic!("there is one");
        };
        // One request at a time, each where the one before ended: a move at the beginning.
        assert_eq!((disk.requests[1], disk.moves), (0, 0));
        assert_eq!(disk.commands, disk.requests[0]);
        assert_eq!(disk.bytes[0], bytes + (1 << 20));
        assert_eq!(
            (disk.pending_ns[0], disk.service_ns),
            (disk.busy_ns, disk.busy_ns)
        );
        assert!((9_900_000_000..=10_000_000_000).contains(&disk.busy_ns));

        let mut pair = users("mirror:modulo:hdd+hdd", 2);
        let observer = pair[0].observer();
        pair[0].submit(0, 0, &op(Read, 0, 4096));
        pair[0].submit(0, 1, &op(Read, 1 << 29, 4096));
        while let Some(now) = pair[0].next_end() {
            pair[0].take_ended(now);
        }
        let disks = observer.disks();
        let requests: u64 = disks.iter().map(|disk| disk.requests[0]).sum();
        let pending: u64 = disks.iter().map(|disk| disk.pending_ns[0]).sum();
        let busy: u64 = disks.iter().map(|disk| disk.busy_ns).sum();
        assert_eq!((disks.len(), requests), (2, 2));
        assert!(pending >= busy && busy > 0, "{disks:?}");
    }

    #[test]
    fn a_user_that_cancels_its_ops_leaves_those_of_others() {
        let mut two = users("hdd", 2);
        let [first, second] = &mut two[..] else {
            panic!("there are two");
        };
        first.submit(0, 0, &op(Read, 0, 1 << 20));
        first.submit(0, 1, &op(Read, 0, 1 << 20));
        second.submit(0, 0, &op(Read, 0, 1 << 20));
        first.cancel_all(5);
        for slot in [0, 1] {
            let end = first.take_ended(5).unwrap();
            assert_eq!((end.slot, end.result, end.at), (slot, -libc::ECANCELED, 5));
        }
        assert_eq!((first.take_ended(5), first.next_end()), (None, None));
        first.cancel_all(6);
        let mut now = 6;
        let end = loop {
            match second.take_ended(now) {
                Some(end) => break end,
                None => now = second.next_end().unwrap(),
            }
        };
        assert_eq!((end.slot, end.result), (0, 1 << 20));
        assert_eq!(
            (first.take_ended(u64::MAX), second.next_end()),
            (None, None)
        );
    }

    #[test]
    fn a_law_is_not_shared_and_an_unknown_policy_is_named() {
        assert!(
            SharedDevice::new(&SimTarget::new(SimDevice::Law), Vec::new(), 1)
                .unwrap()
                .is_none()
        );
        let target = SimTarget::new("mirror:modula:hdd".parse().unwrap());
        let error = SharedDevice::new(&target, Vec::new(), 1).unwrap_err();
        assert_eq!(error.0, "modula");
    }
}
