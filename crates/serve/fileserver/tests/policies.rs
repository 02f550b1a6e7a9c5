//! Dispatch policies in virtual time: a client with a number of requests in flight, a queue's thread, and a pool, with
//! given distributions of service times. Independent of the host.
//!
//! The model: a request needs a processor for some time, and then waits for a device. The thread of the queue has its
//! own processor and executes requests one after the other. The pool threads share one processor, on which each must
//! also be woken, and wait in parallel. This matches a host with two processors and one or more fast disks.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use iodyno_fileserver::Policy;
use iodyno_fileserver::policy::{Class, Dispatcher, Division, Estimates, Situation};
use iodyno_fileserver::request::opcode::READ;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The time that a queue's thread spends on handing over a request, and the pool's processor until it starts, ns.
const HANDED_OVER: u64 = 2_000;
const WOKEN: u64 = 14_000;
/// The processor time of a request, ns.
const WORKED: u64 = 4_000;
/// The time from an answer to the next request, ns.
const CLIENT: u64 = 1_000;
/// The thread of a queue that sleeps begins later, ns.
const WAKES: u64 = 4_000;
const THREADS: usize = 16;
const REQUESTS: u64 = 4_000;

/// How long requests wait for a device, ns.
#[derive(Debug, Clone, Copy)]
enum Law {
    Constant(u64),
    Exponential(f64),
    /// Hits of a cache and misses; the share of misses in percent.
    Cached(u64, u64, u64),
    /// The first half of all requests takes one time, the second half another.
    Changing(u64, u64),
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrives,
    /// The thread of the queue continues.
    Goes,
    /// A request that the thread of the queue worked, with its service time.
    Worked(u64),
    /// One that the pool worked.
    Pooled(u64),
    /// One has been handed over to the pool.
    Begins,
    /// One has had the pool's processor.
    Waits(u64),
}

struct World {
    law: Law,
    random: Xoshiro256PlusPlus,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    number: u64,
    now: u64,
    begun: u64,
}

impl World {
    fn at(&mut self, time: u64, event: Event) {
        self.number += 1;
        self.events.push(Reverse((time, self.number, event)));
    }

    /// The service time of the next request, ns.
    fn service(&mut self) -> u64 {
        self.begun += 1;
        let waits = match self.law {
            Law::Constant(ns) => ns,
            Law::Exponential(mean) => {
                let uniform: f64 = self.random.random();
                (-mean * (1.0 - uniform).ln()) as u64 + 1
            }
            Law::Cached(hit, miss, percent) => match self.random.random_range(0..100) < percent {
                true => miss,
                false => hit,
            },
            Law::Changing(first, second) => match self.begun * 2 <= REQUESTS {
                true => first,
                false => second,
            },
        };
        WORKED + waits
    }
}

/// Virtual nanoseconds for all requests.
fn duration(policy: &str, law: Law, depth: u64) -> u64 {
    let policy: Policy = policy.parse().unwrap();
    let mut world = World {
        law,
        random: Xoshiro256PlusPlus::seed_from_u64(1),
        events: BinaryHeap::new(),
        number: 0,
        now: 0,
        begun: 0,
    };
    let estimates = Estimates::new(HANDED_OVER + WOKEN, 2);
    let mut dispatcher = Dispatcher::new(policy);
    let mut division = Division::default();
    let class = Class::of(READ, 4096);
    let (mut waiting, mut inline) = (0, VecDeque::<u64>::new());
    let (mut asleep, mut slept, mut since) = (true, true, 0);
    let (mut ready, mut busy, mut in_flight) = (0, 0, 0);
    let mut processor_busy = false;
    let (mut sent, mut done) = (0, 0);
    for _ in 0..depth {
        world.at(0, Event::Arrives);
        sent += 1;
    }
    while done < REQUESTS {
        let Some(Reverse((now, _, event))) = world.events.pop() else {
            panic!("{policy} {law:?} {depth}: stopped after {done}");
        };
        world.now = now;
        match event {
            Event::Arrives => {
                waiting += 1;
                if std::mem::take(&mut asleep) {
                    world.at(now + WAKES, Event::Goes);
                }
                continue;
            }
            Event::Begins => ready += 1,
            Event::Waits(service) => {
                processor_busy = false;
                world.at(now + service - WORKED, Event::Pooled(service));
            }
            Event::Goes => {
                let rest = inline.len();
                let redivided = rest > 0 && dispatcher.interrupted(now - since, class, &estimates);
                if rest == 0 || redivided {
                    let batch = match redivided {
                        true => std::mem::take(&mut inline).len(),
                        false => std::mem::take(&mut waiting),
                    };
                    if batch == 0 {
                        (asleep, slept) = (true, true);
                        continue;
                    }
                    let classes = vec![class; batch];
                    let situation = Situation {
                        in_flight,
                        waiting: ready,
                        early: !std::mem::take(&mut slept),
                        writing: false,
                    };
                    dispatcher.divide(&classes, situation, &estimates, &mut division);
                    let mut time = now;
                    for _ in &division.pooled {
                        time += HANDED_OVER;
                        in_flight += 1;
                        world.at(time, Event::Begins);
                    }
                    inline.extend(division.inline.iter().map(|_| 0));
                    since = time;
                    world.at(time, Event::Goes);
                    continue;
                }
                inline.pop_front();
                let service = world.service();
                world.at(now + service, Event::Worked(service));
                continue;
            }
            Event::Worked(service) | Event::Pooled(service) => {
                estimates.record(class, service, Some(service - WORKED));
                done += 1;
                if sent < REQUESTS {
                    sent += 1;
                    world.at(now + CLIENT, Event::Arrives);
                }
                match event {
                    Event::Worked(_) => world.at(now, Event::Goes),
                    _ => (busy, in_flight) = (busy - 1, in_flight - 1),
                }
            }
        }
        if ready > 0 && busy < THREADS && !processor_busy {
            (ready, busy) = (ready - 1, busy + 1);
            processor_busy = true;
            let service = world.service();
            world.at(now + WOKEN + WORKED, Event::Waits(service));
        }
    }
    world.now
}

const FIXED: [&str; 4] = ["inline", "pool:16", "inline-or-pool:3", "threshold:3"];

#[test]
fn adaptive_regrets_less_than_every_fixed_policy() {
    let laws = [
        Law::Constant(0),
        Law::Constant(4_000),
        Law::Constant(10_000),
        Law::Constant(20_000),
        Law::Constant(80_000),
        Law::Constant(200_000),
        Law::Constant(2_000_000),
        Law::Exponential(100_000.0),
        Law::Cached(0, 400_000, 1),
        Law::Cached(0, 400_000, 50),
        Law::Changing(0, 400_000),
        Law::Changing(400_000, 0),
    ];
    // Each policy's smallest ratio to the best fixed one of a law and depth.
    let mut worst = [f64::INFINITY; FIXED.len()];
    let mut worst_of_adaptive = (f64::INFINITY, laws[0], 0);
    for law in laws {
        for depth in [1, 2, 4, 8, 16, 32, 64] {
            let of_fixed = FIXED.map(|policy| duration(policy, law, depth) as f64);
            let best = of_fixed.into_iter().fold(f64::INFINITY, f64::min);
            for (worst, duration) in worst.iter_mut().zip(of_fixed) {
                *worst = worst.min(best / duration);
            }
            let ratio = best / duration("adaptive", law, depth) as f64;
            // Where requests are no slower than a hand-off, a second processor could gain up to 40 %, for twice the CPU
            // time.
            let slow = !matches!(law, Law::Constant(..=10_000) | Law::Cached(_, _, 1));
            assert!(
                ratio > if slow { 0.8 } else { 0.55 },
                "{ratio} {law:?} {depth}"
            );
            if ratio < worst_of_adaptive.0 {
                worst_of_adaptive = (ratio, law, depth);
            }
        }
    }
    let best_of_fixed = worst.into_iter().fold(0.0, f64::max);
    assert!(
        worst_of_adaptive.0 > best_of_fixed,
        "{worst:?}: {worst_of_adaptive:?}"
    );
}

#[test]
fn fixed_policies_win_and_lose_where_they_do_on_real_storage() {
    let slow = Law::Constant(200_000);
    let rate = |policy, depth| 1e9 / duration(policy, slow, depth) as f64;
    // A pool costs a hand-off at depth 1, and inline work makes a queue of all at depth 16.
    assert!(rate("inline", 1) > 1.05 * rate("pool:16", 1));
    assert!(rate("pool:16", 16) > 8.0 * rate("inline", 16));
    // A threshold makes a queue of the first requests of a batch.
    assert!(rate("pool:16", 16) > 2.0 * rate("threshold:3", 16));
    let fast = Law::Constant(0);
    assert!(duration("inline", fast, 1) < duration("pool:16", fast, 1));
}

#[test]
fn the_same_seed_gives_the_same_time() {
    let law = Law::Exponential(100_000.0);
    assert_eq!(duration("adaptive", law, 8), duration("adaptive", law, 8));
}
