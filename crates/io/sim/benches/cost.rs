//! Measures the simulator: events per second of CPU time. An event is an op that is submitted, or one that ends.
#![allow(clippy::print_stdout, reason = "a program of its own")]

#[allow(dead_code, reason = "each of its users needs a part of it")]
mod readers;

use iodyno_mirror::{PolicyKind, QueueSettings};
use iodyno_sim::{Disk, DiskSettings, FlashSettings, HddSettings, SimMirror};
use iodyno_sys::{Device, Op, OpKind};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use readers::{Access, Readers, ReadersSettings};

/// Random reads of 4 KiB, `depth` in flight.
fn random_reads(device: &mut impl Device, depth: u32, count: u64) -> u64 {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut next = || {
        Op::new(
            OpKind::Read,
            0,
            random.random_range(0..1u64 << 25) * 4096,
            4096,
        )
    };
    (0..depth).for_each(|slot| device.submit(0, slot, &next()));
    let mut events = u64::from(depth);
    while events < count {
        let Some(now) = device.next_end() else { break };
        while let Some(end) = device.take_ended(now) {
            device.submit(end.at, end.slot, &next());
            events += 2;
        }
    }
    events
}

/// CPU time of this thread, ns.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split_whitespace().next();
    first
        .and_then(|ns| ns.parse().ok())
        .expect("/proc/thread-self/schedstat does not start with the CPU time of the thread, ns")
}

fn show(name: &str, run: impl Fn() -> u64) {
    // CPU time, and the best of five: others use this host as well.
    let rate = |_| {
        let begun = cpu_ns();
        let events = run();
        events as f64 / (cpu_ns() - begun) as f64 * 1e3
    };
    let best = (0..5).map(rate).fold(0.0, f64::max);
    println!("{name:48} {best:6.2} M events/s");
}

fn main() {
    let hdd = DiskSettings::Hdd(HddSettings::default());
    let flash = DiskSettings::Flash(FlashSettings::default());
    for (name, disk) in [("rotating disk", &hdd), ("solid-state disk", &flash)] {
        for depth in [1, 10, 32] {
            show(&format!("{name}, random reads at depth {depth}"), || {
                random_reads(&mut Disk::new(disk, &[], 1), depth, 2_000_000)
            });
        }
    }
    for policy in [
        PolicyKind::Modulo,
        PolicyKind::LeastPending,
        PolicyKind::Adaptive,
    ] {
        for (name, access) in [
            ("sequential", Access::Sequential(1 << 20)),
            ("random", Access::Random(4096)),
        ] {
            show(
                &format!("2 mirrors of 3 rotating disks, {name}, {policy}"),
                || {
                    let mirror = |number: u64| {
                        let disks = (0..3).map(|leg| Disk::new(&hdd, &[], number * 3 + leg));
                        let queue = QueueSettings::default();
                        SimMirror::new(vec![policy.build(3, 1)], disks.collect(), queue, 4096)
                    };
                    let settings = ReadersSettings {
                        access,
                        ..ReadersSettings::default()
                    };
                    let mut readers = Readers::new(settings, (0..2).map(mirror).collect(), 1);
                    readers.run(0.0, 50.0).events
                },
            );
        }
    }
}
