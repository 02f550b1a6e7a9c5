//! Simulated devices, which decide when an op ends, and the backend in front of them.
//!
//! With a virtual clock, they verify the statistics and run complete trials; with the real clock, they give
//! tests a device that is slow, stalls or fails.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use iodyno_model::{SimFault, SimLaw, SimOptions};
use rand::SeedableRng;
use rand_distr::{Distribution, Exp, LogNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::memory::Arena;
use crate::{Backend, BackendError, Capabilities, Clock, Completions, Op, Slot, Waker};

/// An op that the device has finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceEnd {
    /// Its slot.
    pub slot: Slot,
    /// Bytes moved (0 for syncs and trims), or −errno.
    pub result: i32,
    /// Time of its end, ns of the clock.
    pub at: u64,
}

/// A simulated device. It does not read a clock: it gets the current time as argument, and decides when
/// each op ends.
///
/// `now` never decreases from call to call. The end of a submitted op may change when other ops end.
pub trait Device {
    /// A short description.
    fn describe(&self) -> String;

    /// Accepts an op at `now`. The device owns the slot until the op has ended.
    fn submit(&mut self, now: u64, slot: Slot, op: &Op);

    /// When to ask the device for ended ops next, if no further op is submitted: the next end or earlier. `None`: no op
    /// is in flight.
    fn next_end(&self) -> Option<u64>;

    /// Returns an op that has ended by `now`, the earliest first.
    fn take_ended(&mut self, now: u64) -> Option<DeviceEnd>;

    /// Ends all ops in flight at `now`, with ECANCELED unless they ended before.
    fn cancel_all(&mut self, now: u64);

    /// Sets how to wake the thread that waits for this device, in virtual time. A device shared by threads may then
    /// return a late [`Device::next_end`], and wake the thread when one of its ops ends.
    fn set_waker(&mut self, _: Waker) {}

    /// The waiting thread has stopped waiting.
    fn stop_waiting(&mut self) {}
}

/// Draws service times, ns.
#[derive(Debug, Clone, Copy)]
enum ServiceTime {
    Constant(u64),
    Exponential(Exp<f64>),
    LogNormal(LogNormal<f64>),
}

impl ServiceTime {
    fn of(law: SimLaw) -> Result<ServiceTime, String> {
        match law {
            SimLaw::Constant(ns) => Ok(ServiceTime::Constant(ns)),
            SimLaw::Exponential(mean) => Exp::new(1.0 / mean.max(1) as f64)
                .map(ServiceTime::Exponential)
                .map_err(|error| error.to_string()),
            SimLaw::LogNormal { median_ns, sigma } => {
                LogNormal::new((median_ns.max(1) as f64).ln(), sigma)
                    .map(ServiceTime::LogNormal)
                    .map_err(|error| error.to_string())
            }
        }
    }
}

/// An accepted op: due time, sequence number, slot, result.
type Due = (u64, u64, Slot, i32);

/// A device whose service times follow a known distribution, with injected faults.
#[derive(Debug)]
pub struct LawDevice {
    options: SimOptions,
    seed: u64,
    service: ServiceTime,
    random: Xoshiro256PlusPlus,
    /// Earliest first.
    due: BinaryHeap<Reverse<Due>>,
    /// Time at which each server becomes free; no more than ops can be in flight.
    servers: BinaryHeap<Reverse<u64>>,
    served: u64,
    began: Option<u64>,
}

/// Every op takes time: service times of 0 ns would never advance a virtual clock.
const MIN_NS: u64 = 1;

impl LawDevice {
    /// Creates a device for up to `slots` ops in flight. The seed determines its service times.
    ///
    /// # Errors
    /// If the parameters of the distribution are out of its domain.
    pub fn new(options: SimOptions, seed: u64, slots: u32) -> Result<LawDevice, BackendError> {
        let service = ServiceTime::of(options.law).map_err(|cause| BackendError {
            what: "simulate a device".to_owned(),
            source: io::Error::new(io::ErrorKind::InvalidInput, cause),
            hint: Some("see `sim_latency`"),
        })?;
        Ok(LawDevice {
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            due: BinaryHeap::with_capacity(slots as usize),
            servers: (0..options.servers.min(slots))
                .map(|_| Reverse(0))
                .collect(),
            served: 0,
            began: None,
            service,
            seed,
            options,
        })
    }

    fn service_ns(&mut self) -> u64 {
        let ns = match self.service {
            ServiceTime::Constant(ns) => ns,
            ServiceTime::Exponential(law) => law.sample(&mut self.random) as u64,
            ServiceTime::LogNormal(law) => law.sample(&mut self.random) as u64,
        };
        ns.max(MIN_NS)
    }
}

impl Device for LawDevice {
    fn describe(&self) -> String {
        format!("simulated device, seed {}", self.seed)
    }

    fn submit(&mut self, now: u64, slot: Slot, op: &Op) {
        let began = *self.began.get_or_insert(now);
        self.served += 1;
        let mut result = op.transfer_length() as i32;
        let service = self.service_ns();
        let mut start = match self.servers.pop() {
            Some(Reverse(free)) => free.max(now),
            None => now,
        };
        for fault in &self.options.faults {
            match *fault {
                SimFault::Errno { every, errno } if self.served.is_multiple_of(every.max(1)) => {
                    result = -errno;
                }
                SimFault::Short { every }
                    if op.kind.transfers() && self.served.is_multiple_of(every.max(1)) =>
                {
                    result = (op.length / 2) as i32;
                }
                SimFault::Stall { from_ns, for_ns } => {
                    let from = began.saturating_add(from_ns);
                    let stall = from..from.saturating_add(for_ns);
                    if stall.contains(&start.saturating_add(service)) || stall.contains(&start) {
                        start = stall.end;
                    }
                }
                _ => {}
            }
        }
        let end = start.saturating_add(service);
        if self.options.servers > 0 {
            self.servers.push(Reverse(end));
        }
        self.due.push(Reverse((end, self.served, slot, result)));
    }

    fn next_end(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((due, ..))| *due)
    }

    fn take_ended(&mut self, now: u64) -> Option<DeviceEnd> {
        let Reverse((at, _, slot, result)) = *self.due.peek()?;
        if at > now {
            return None;
        }
        self.due.pop();
        Some(DeviceEnd { slot, result, at })
    }

    fn cancel_all(&mut self, now: u64) {
        let cancel = |Reverse((due, order, slot, result)): Reverse<Due>| match due > now {
            true => Reverse((now, order, slot, -libc::ECANCELED)),
            false => Reverse((due, order, slot, result)),
        };
        self.due = std::mem::take(&mut self.due)
            .into_iter()
            .map(cancel)
            .collect();
    }
}

/// Passes ops to a simulated device.
#[derive(Debug)]
pub struct SimBackend<C, D> {
    arena: Arena,
    clock: C,
    device: D,
    prepared: Vec<(Slot, Op)>,
    /// When each slot's op was submitted.
    submitted: Vec<u64>,
    in_flight: u32,
    cancelled: bool,
}

impl<C: Clock, D: Device> SimBackend<C, D> {
    /// Creates a backend for the device, with this clock.
    pub fn new(arena: Arena, clock: C, mut device: D) -> SimBackend<C, D> {
        if let Some(waker) = clock.waker() {
            device.set_waker(waker);
        }
        let slots = arena.slots() as usize;
        SimBackend {
            prepared: Vec::with_capacity(slots),
            submitted: vec![0; slots],
            in_flight: 0,
            cancelled: false,
            arena,
            clock,
            device,
        }
    }
}

impl<C: Clock, D: Device> Backend for SimBackend<C, D> {
    fn capabilities(&self) -> Capabilities {
        let time = if C::VIRTUAL { "virtual" } else { "real" };
        Capabilities {
            features: vec![self.device.describe(), format!("{time} time")],
            // With the real clock, a completion is detected when the backend checks for it, as with other devices.
            stamps_each: C::VIRTUAL,
            ..Capabilities::default()
        }
    }

    fn buffer(&mut self, slot: Slot) -> &mut [u8] {
        self.arena.slot_mut(slot)
    }

    fn room(&self) -> u32 {
        self.arena.slots() - (self.prepared.len() as u32 + self.in_flight)
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
        self.in_flight += completions.submitted;
        for (slot, op) in self.prepared.drain(..) {
            self.submitted[slot as usize] = entered;
            self.device.submit(entered, slot, &op);
        }
        if self.cancelled {
            self.device.cancel_all(entered);
        }
        let mut now = entered;
        while (completions.list.len() as u32) < max {
            if let Some(ended) = self.device.take_ended(now) {
                self.in_flight -= 1;
                let submitted = self.submitted[ended.slot as usize];
                completions.push(ended.slot, ended.result, submitted, now);
                continue;
            }
            let expired = deadline.is_some_and(|deadline| now >= deadline);
            if completions.list.len() as u32 >= min || expired {
                break;
            }
            let Some(next) = self.device.next_end() else {
                break;
            };
            self.clock
                .sleep_until(deadline.map_or(next, |deadline| deadline.min(next)));
            now = self.clock.now();
        }
        self.device.stop_waiting();
        completions.returned = now;
        Ok(())
    }

    fn cancel_all(&mut self) {
        // Ops that are only prepared are cancelled as well, by the turn that submits them.
        self.cancelled = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OpKind, VirtualClock};

    fn device(law: SimLaw, servers: u32, faults: Vec<SimFault>) -> LawDevice {
        let options = SimOptions {
            law,
            servers,
            faults,
            ..SimOptions::default()
        };
        LawDevice::new(options, 1, 8).unwrap()
    }

    #[test]
    fn more_servers_than_ops_in_flight_need_no_memory_and_change_nothing() {
        let ends = |servers: u32| {
            let mut device = device(SimLaw::Exponential(100_000), servers, Vec::new());
            (0..8).for_each(|slot| device.submit(0, slot, &read(4096)));
            let ended = std::iter::from_fn(|| device.take_ended(u64::MAX));
            ended.map(|end| (end.slot, end.at)).collect::<Vec<_>>()
        };
        assert_eq!(ends(u32::MAX), ends(8));
        assert_eq!(ends(u32::MAX).len(), 8);
    }

    fn read(length: u32) -> Op {
        Op::new(OpKind::Read, 0, 0, length)
    }

    /// (slot, result, at) of all remaining ends.
    fn ends(device: &mut LawDevice) -> Vec<(Slot, i32, u64)> {
        std::iter::from_fn(|| {
            let next = device.next_end()?;
            assert_eq!(device.take_ended(next - 1), None);
            device.take_ended(next)
        })
        .map(|end| (end.slot, end.result, end.at))
        .collect()
    }

    #[test]
    fn ops_queue_for_a_free_server() {
        for (servers, expected) in [
            (0, [(0, 10), (1, 10), (2, 10)]),
            (1, [(0, 10), (1, 20), (2, 30)]),
            (2, [(0, 10), (1, 10), (2, 20)]),
        ] {
            let mut device = device(SimLaw::Constant(10), servers, vec![]);
            (0..3).for_each(|slot| device.submit(0, slot, &read(512)));
            let found = ends(&mut device);
            assert_eq!(
                found,
                expected.map(|(slot, at)| (slot, 512, at)),
                "{servers}"
            );
        }
    }

    #[test]
    fn faults_affect_the_intended_ops() {
        let faults = vec![
            SimFault::Errno { every: 3, errno: 5 },
            SimFault::Short { every: 2 },
            SimFault::Stall {
                from_ns: 100,
                for_ns: 1000,
            },
        ];
        let mut device = device(SimLaw::Constant(10), 0, faults);
        for (slot, now) in [(0, 0), (1, 20), (2, 40), (3, 95)] {
            device.submit(now, slot, &read(512));
        }
        let expected = [(0, 512, 10), (1, 256, 30), (2, -5, 50), (3, 256, 1110)];
        assert_eq!(ends(&mut device), expected);
    }

    #[test]
    fn cancelled_ops_end_now_and_ended_ops_keep_their_results() {
        let mut device = device(SimLaw::Constant(10), 1, vec![]);
        (0..2).for_each(|slot| device.submit(0, slot, &read(512)));
        device.cancel_all(12);
        assert_eq!(ends(&mut device), [(0, 512, 10), (1, -libc::ECANCELED, 12)]);
    }

    #[test]
    fn a_distribution_out_of_its_domain_is_refused_with_the_option() {
        let law = SimLaw::LogNormal {
            median_ns: 1000,
            sigma: f64::NAN,
        };
        let options = SimOptions {
            law,
            ..SimOptions::default()
        };
        let error = LawDevice::new(options, 1, 8).unwrap_err();
        assert_eq!(error.hint, Some("see `sim_latency`"));
    }

    #[test]
    fn time_advances_with_an_op_of_no_duration() {
        let mut device = device(SimLaw::Constant(0), 0, vec![]);
        device.submit(7, 0, &read(512));
        assert_eq!(device.next_end(), Some(8));
    }

    #[test]
    fn a_turn_waits_for_the_requested_completions_or_the_deadline() {
        let clock = VirtualClock::default();
        let arena = Arena::new(4, 512, 0, false).unwrap();
        let law = device(SimLaw::Constant(100), 1, vec![]);
        let mut backend = SimBackend::new(arena, clock.clone(), law);
        let mut completions = Completions::with_capacity(4);
        (0..4).for_each(|slot| backend.prep(slot, &read(512)));
        assert_eq!(backend.room(), 0);
        for (min, max, deadline, slots, returned) in [
            (0, 4, None, vec![], 0),
            (4, 4, Some(50), vec![], 50),
            (1, 4, Some(1000), vec![0], 100),
            (2, 1, Some(1000), vec![1], 200),
            (2, 4, None, vec![2, 3], 400),
        ] {
            backend.turn(min, max, deadline, &mut completions).unwrap();
            let found: Vec<Slot> = completions.list.iter().map(|one| one.slot).collect();
            assert_eq!((found, completions.returned), (slots, returned));
            assert!(completions.list.iter().all(|one| one.submitted == 0));
        }
        assert_eq!(backend.room(), 4);
    }
}
