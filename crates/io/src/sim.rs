//! A device with a known law: service times drawn from a seed, and faults on demand.
//!
//! On a virtual clock it proves the statistics; on the real one it gives tests a storage that is
//! slow, stalls, or fails, without touching any.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use iodyno_sys::memory::Arena;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp, LogNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::{
    Backend, BackendError, Capabilities, Clock, Completion, Completions, Op, OpKind, Slot,
};

/// The law of service times, ns.
#[derive(Debug, Clone, Copy)]
pub enum SimLaw {
    /// Always the same.
    Constant(u64),
    /// Exponential.
    Exponential(Exp<f64>),
    /// Log-normal.
    LogNormal(LogNormal<f64>),
    /// Uniform between both.
    Uniform(u64, u64),
}

/// A fault.
#[derive(Debug, Clone, Copy)]
pub enum SimFault {
    /// Every n-th op fails with the errno.
    Errno {
        /// n.
        every: u64,
        /// The errno.
        errno: i32,
    },
    /// Every n-th op moves half of its bytes.
    Short {
        /// n.
        every: u64,
    },
    /// Nothing is served from `from_ns` after the first op for `for_ns`.
    Stall {
        /// ns.
        from_ns: u64,
        /// ns.
        for_ns: u64,
    },
}

/// The device.
#[derive(Debug, Clone)]
pub struct SimDevice {
    /// Service times.
    pub law: SimLaw,
    /// Ops served at once; 0: without limit.
    pub servers: u32,
    /// Faults.
    pub faults: Vec<SimFault>,
    /// Seed of the law.
    pub seed: u64,
}

/// An accepted op: when it is due, its place in the order, slot, result, submission.
type Due = (u64, u64, Slot, i32, u64);

/// See the module.
#[derive(Debug)]
pub struct SimBackend<C> {
    arena: Arena,
    clock: C,
    device: SimDevice,
    random: Xoshiro256PlusPlus,
    prepared: Vec<(Slot, Op)>,
    /// Earliest first.
    due: BinaryHeap<Reverse<Due>>,
    /// When each server is free again.
    servers: BinaryHeap<Reverse<u64>>,
    served: u64,
    began: Option<u64>,
    cancelled: bool,
}

const ECANCELED: i32 = 125;

impl<C: Clock> SimBackend<C> {
    /// The device on this clock.
    pub fn new(arena: Arena, clock: C, device: SimDevice) -> SimBackend<C> {
        let slots = arena.slots() as usize;
        SimBackend {
            random: Xoshiro256PlusPlus::seed_from_u64(device.seed),
            prepared: Vec::with_capacity(slots),
            due: BinaryHeap::with_capacity(slots),
            servers: (0..device.servers).map(|_| Reverse(0)).collect(),
            served: 0,
            began: None,
            cancelled: false,
            arena,
            clock,
            device,
        }
    }

    fn service_ns(&mut self) -> u64 {
        match self.device.law {
            SimLaw::Constant(ns) => ns,
            SimLaw::Exponential(law) => law.sample(&mut self.random) as u64,
            SimLaw::LogNormal(law) => law.sample(&mut self.random) as u64,
            SimLaw::Uniform(low, high) => self.random.random_range(low..=high),
        }
    }

    fn accept(&mut self, slot: Slot, op: Op, now: u64) {
        let began = *self.began.get_or_insert(now);
        self.served += 1;
        let moves = matches!(op.kind, OpKind::Read | OpKind::Write);
        let mut result = if moves { op.length as i32 } else { 0 };
        let service = self.service_ns();
        let mut start = match self.servers.pop() {
            Some(Reverse(free)) => free.max(now),
            None => now,
        };
        for fault in &self.device.faults {
            match *fault {
                SimFault::Errno { every, errno } if self.served.is_multiple_of(every.max(1)) => {
                    result = -errno;
                }
                SimFault::Short { every } if moves && self.served.is_multiple_of(every.max(1)) => {
                    result = (op.length / 2) as i32;
                }
                SimFault::Stall { from_ns, for_ns } => {
                    let stall = began + from_ns..began + from_ns + for_ns;
                    if stall.contains(&(start + service)) || stall.contains(&start) {
                        start = stall.end;
                    }
                }
                _ => {}
            }
        }
        let end = start + service;
        if self.device.servers > 0 {
            self.servers.push(Reverse(end));
        }
        self.due
            .push(Reverse((end, self.served, slot, result, now)));
    }
}

impl<C: Clock> Backend for SimBackend<C> {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            features: vec![format!("simulated device, seed {}", self.device.seed)],
            ..Capabilities::default()
        }
    }

    fn buffer(&mut self, slot: Slot) -> &mut [u8] {
        self.arena.slot_mut(slot)
    }

    fn room(&self) -> u32 {
        self.arena.slots() - (self.prepared.len() + self.due.len()) as u32
    }

    fn prep(&mut self, slot: Slot, op: &Op) {
        self.prepared.push((slot, *op));
    }

    fn turn(
        &mut self,
        min: u32,
        max: u32,
        deadline: Option<u64>,
        completions: &mut Completions,
    ) -> Result<(), BackendError> {
        completions.clear();
        let entered = self.clock.now();
        completions.entered = entered;
        completions.submitted = self.prepared.len() as u32;
        for index in 0..self.prepared.len() {
            let (slot, op) = self.prepared[index];
            self.accept(slot, op, entered);
        }
        self.prepared.clear();
        let mut now = entered;
        while (completions.list.len() as u32) < max {
            let Some(Reverse((due, _, slot, result, submitted))) = self.due.peek().copied() else {
                break;
            };
            if due > now && !self.cancelled {
                let expired = deadline.is_some_and(|deadline| now >= deadline);
                if completions.list.len() as u32 >= min || expired {
                    break;
                }
                self.clock
                    .sleep_until(deadline.map_or(due, |deadline| deadline.min(due)));
                now = self.clock.now();
                continue;
            }
            self.due.pop();
            let (result, completed) = match self.cancelled && due > now {
                true => (-ECANCELED, now),
                // On the real clock an op is seen when it is looked for, like any other.
                false => (result, now.max(due)),
            };
            completions.list.push(Completion {
                slot,
                result,
                submitted,
                completed,
            });
        }
        completions.returned = now;
        Ok(())
    }

    fn cancel_all(&mut self) {
        self.cancelled = true;
    }
}
