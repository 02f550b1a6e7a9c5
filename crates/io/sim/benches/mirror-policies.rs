//! Compares read policies on simulated mirrors, and the simulation with a published measurement.
//!
//! `cargo bench -p iodyno-sim --bench mirror-policies [-- [published|cells|held-out|queues|streams]
//! [PART-OF-A-CELL'S-NAME]]`. All figures are simulated; they depend on nothing but this program. `cells` uses the
//! disks and seeds with which the constants of `adaptive` were chosen, `held-out` other ones. The first version of
//! `adaptive` was frozen and tried on other held-out disks; it then turned out that it keeps two streams on one leg
//! while another one is idle. The rule was changed, the constants were not, and the held-out disks and seeds were
//! replaced. They were replaced again after `Adaptive::IDLE` was chosen with the seeds 1–3, and before they were tried;
//! and when the second version of `adaptive` was frozen, which weighs the load of a leg by its own amount.
//!
//! The published measurement is that of the commit "Improve N-way mirror performance" of ZFS on Linux (556011dbec,
//! 2013): 16 threads read 16 files on two striped mirrors. The parameters of the disk were fitted to its row without
//! mirrors and to its column of random reads of 4 KiB, and frozen; the other cells are predictions.
//!
//! `streams` are sequential readers whose next read comes some time after the end of an earlier one, as on a host whose
//! CPUs are busy.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program of its own"
)]

#[allow(dead_code, reason = "each of its users needs a part of it")]
mod readers;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use iodyno_mirror::{PolicyKind, QueueSettings, Totals};
use iodyno_sim::{Disk, DiskSettings, FlashSettings, HddSettings, SimMirror, SlowPeriod};
use iodyno_sys::{Device, Op, OpKind};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use readers::{Access, Layout, Readers, ReadersSettings};

const MIRRORS: u64 = 2;

/// Simulated time before and of a measurement, s. The faster the disks, the less of it is needed for as many reads;
/// what 16 threads read ahead, 256 MiB, has to be small beside it.
const HDD_S: (f64, f64) = (10.0, 40.0);
const FLASH_S: (f64, f64) = (0.1, 0.3);

/// What is simulated.
#[derive(Clone)]
struct Cell {
    name: String,
    /// The disks of each mirror.
    disks: Vec<(DiskSettings, Vec<SlowPeriod>)>,
    readers: ReadersSettings,
    queue: QueueSettings,
    /// Number of queues with a policy of their own; threads use them in turn.
    queues: u32,
    /// Time before and of the measurement, s.
    times: (f64, f64),
}

impl Cell {
    /// MB/s of sequential cells, otherwise IO/s: the mean over the seeds. And what the legs did.
    fn measure(&self, policy: PolicyKind, seeds: &[u64]) -> (f64, Totals) {
        let runs = seeds.iter().map(|seed| {
            let mirror = |number: u64| {
                let seed = seed * 1000 + number * 100;
                let disks = self.disks.iter().zip(1..);
                let disks = disks.map(|((disk, slow), leg)| Disk::new(disk, slow, seed + leg));
                let policies = policy.build_queues(self.queues, self.disks.len(), seed);
                SimMirror::new(policies, disks.collect(), self.queue, 4096)
            };
            let mirrors = (0..MIRRORS).map(mirror).collect();
            let mut readers = Readers::new(self.readers.clone(), mirrors, *seed);
            let outcome = readers.run(self.times.0, self.times.1);
            let value = match self.readers.access {
                Access::Sequential(_) => outcome.megabytes(),
                _ => outcome.rate(),
            };
            (value, readers.mirrors().iter().map(SimMirror::totals).sum())
        });
        let runs: Vec<(f64, Totals)> = runs.collect();
        let mean = runs.iter().map(|run| run.0).sum::<f64>() / runs.len() as f64;
        (mean, runs.into_iter().map(|run| run.1).sum())
    }

    /// For sequential reads of contiguous files on equal disks: what as many disks, only striped, give per disk, times
    /// the number of disks, MB/s.
    fn bound(&self, seeds: &[u64]) -> Option<f64> {
        let sequential = matches!(self.readers.access, Access::Sequential(_));
        let contiguous = self.readers.layout == Layout::Contiguous;
        let equal = self.disks.iter().all(|disk| *disk == self.disks[0]);
        (sequential && contiguous && equal).then(|| {
            let striped = Cell {
                disks: self.disks[..1].to_vec(),
                ..self.clone()
            };
            striped.measure(PolicyKind::Modulo, seeds).0 * self.disks.len() as f64
        })
    }
}

impl Cell {
    /// What no policy exceeds by much: the sum of what each leg gives as the only one of its mirror, if the threads
    /// never change legs, each leg keeps to its share of the files, and the last leg, which may be slower, has the
    /// number of threads that is best.
    fn oracle(&self, seeds: &[u64]) -> f64 {
        let legs = self.disks.len() as u32;
        let share = self.readers.threads.div_ceil(legs);
        let alone = |leg: usize, threads: u32| {
            let cell = Cell {
                disks: vec![self.disks[leg].clone()],
                readers: ReadersSettings {
                    threads,
                    files: self.readers.files.min(threads),
                    ..self.readers.clone()
                },
                ..self.clone()
            };
            cell.measure(PolicyKind::Modulo, seeds).0
        };
        let last = self.disks.len() - 1;
        let equal = self.disks[0] == self.disks[last];
        let splits = if equal { share..=share } else { 1..=share };
        let sums = splits.map(|threads| {
            let others = (self.readers.threads - threads).div_ceil(legs - 1);
            f64::from(legs - 1) * alone(0, others) + alone(last, threads)
        });
        sums.fold(0.0, f64::max)
    }
}

const COLUMNS: [(&str, Access); 4] = [
    ("sequential 1 MiB", Access::Sequential(1 << 20)),
    ("sequential 4 KiB", Access::Sequential(4096)),
    ("random 1 MiB", Access::Random(1 << 20)),
    ("random 4 KiB", Access::Random(4096)),
];

/// Rows of the published table: members of a mirror; before the commit; after it.
const PUBLISHED: [(usize, [f64; 4], [f64; 4]); 4] = [
    (1, [226.0, 243.0, 11.0, 304.0], [222.0, 255.0, 11.0, 299.0]),
    (2, [302.0, 324.0, 16.0, 534.0], [433.0, 448.0, 23.0, 571.0]),
    (3, [429.0, 458.0, 24.0, 714.0], [648.0, 648.0, 41.0, 808.0]),
    (4, [562.0, 601.0, 36.0, 849.0], [816.0, 828.0, 82.0, 926.0]),
];

fn published() {
    println!("Published and simulated: MB/s sequential, IO/s random; error of the simulation.");
    println!("Cells marked * were used to fit the disk; the others are predictions.");
    // ZFS of 2013 merged up to the length of a record.
    let queue = QueueSettings {
        aggregation: 128 << 10,
        ..QueueSettings::default()
    };
    let mut errors = [Vec::new(), Vec::new()];
    for (policy, after) in [
        (PolicyKind::Modulo, false),
        (PolicyKind::LeastPending, true),
    ] {
        println!("\n{policy}");
        for (legs, first, second) in PUBLISHED {
            print!("2 × {legs}");
            for (column, (name, access)) in COLUMNS.into_iter().enumerate() {
                let cell = Cell {
                    name: name.to_owned(),
                    disks: equal(&DiskSettings::Hdd(HddSettings::default()), legs),
                    readers: ReadersSettings {
                        access,
                        ..ReadersSettings::default()
                    },
                    queue,
                    queues: 1,
                    times: HDD_S,
                };
                let known = if after { second } else { first }[column];
                let (found, _) = cell.measure(policy, &[1, 2, 3]);
                let error = found / known - 1.0;
                let fitted = legs == 1 || column == 3;
                errors[usize::from(fitted)].push(error);
                let mark = if fitted { '*' } else { ' ' };
                print!("  {known:5.0} {found:7.1} {:+5.0} %{mark}", error * 100.0);
            }
            println!();
        }
    }
    for (what, errors) in ["predicted", "fitted"].into_iter().zip(errors) {
        let squares: f64 = errors.iter().map(|error| error * error).sum();
        let rms = (squares / errors.len() as f64).sqrt();
        println!(
            "{what}: {} cells, root mean square error {:.1} %",
            errors.len(),
            rms * 100.0
        );
    }
}

fn equal(disk: &DiskSettings, legs: usize) -> Vec<(DiskSettings, Vec<SlowPeriod>)> {
    vec![(disk.clone(), Vec::new()); legs]
}

/// The cells of the comparison, on disks of this kind.
fn cells(kind: &str, disk: &DiskSettings, times: (f64, f64)) -> Vec<Cell> {
    let mut cells = Vec::new();
    let quarter = |number: f64| ((times.0 + times.1 * number / 4.0) * 1e9) as u64;
    for legs in 2..=4 {
        let mut add = |what: &str, disks: Vec<(DiskSettings, Vec<SlowPeriod>)>, readers| {
            cells.push(Cell {
                name: format!("{kind} {legs}-way {what}"),
                disks,
                readers,
                queue: QueueSettings::default(),
                queues: 1,
                times,
            });
        };
        let base = ReadersSettings::default();
        let with = |access| ReadersSettings {
            access,
            ..base.clone()
        };
        let equal = equal(disk, legs);
        let mut unequal = equal.clone();
        unequal[legs - 1].0 = disk.scaled(2.0);
        let mut slowing = equal.clone();
        slowing[0].1 = vec![SlowPeriod {
            from_ns: quarter(1.0),
            until_ns: quarter(3.0),
            factor: 4.0,
        }];
        for (name, access) in COLUMNS {
            add(name, equal.clone(), with(access));
        }
        let interleaved = ReadersSettings {
            layout: Layout::Interleaved,
            together: true,
            ..base.clone()
        };
        add("sequential 1 MiB, interleaved", equal.clone(), interleaved);
        let hot_files = ReadersSettings {
            files: 2,
            ..base.clone()
        };
        add("sequential 1 MiB, skewed", equal.clone(), hot_files);
        let hot = ReadersSettings {
            skew: 0.9,
            ..with(Access::Random(4096))
        };
        add("random 4 KiB, skewed", equal.clone(), hot);
        for (name, disks) in [("unequal", &unequal), ("one slowing", &slowing)] {
            for (access_name, access) in [COLUMNS[0], COLUMNS[3]] {
                add(
                    &format!("{access_name}, {name}"),
                    disks.clone(),
                    with(access),
                );
            }
        }
        add(
            "70/30 random",
            equal.clone(),
            with(Access::Mixed { writes: 0.3 }),
        );
        // Blocks of 4 KiB without records: 32 and 2 in flight in each mirror.
        let blocks = |flight: u32| ReadersSettings {
            threads: flight * MIRRORS as u32,
            files: 1,
            file: MIRRORS * (11 << 30),
            record: 4096,
            prefetch: 0,
            ..with(Access::Random(4096))
        };
        let hot_spot = ReadersSettings {
            skew: 0.9,
            parts: 100,
            ..blocks(32)
        };
        add("blocks, hot spot", equal.clone(), hot_spot.clone());
        add("blocks, hot spot, unequal", unequal.clone(), hot_spot);
        add("blocks, 32 in flight", equal.clone(), blocks(32));
        add("blocks, 32 in flight, unequal", unequal.clone(), blocks(32));
        add("blocks, 2 in flight", equal, blocks(2));
        add("blocks, 2 in flight, unequal", unequal, blocks(2));
    }
    cells
}

/// Policies that do not consider what the legs do.
const FIXED: [PolicyKind; 3] = [
    PolicyKind::Modulo,
    PolicyKind::OpenZfsNonrot,
    PolicyKind::RoundRobin,
];

/// Ratios of adaptive to other policies.
#[derive(Default)]
struct Ratios(Vec<(f64, String)>);

impl Ratios {
    /// Prints in how many cells a ratio is reached, and the cells in which it is missed.
    fn show(&mut self, what: &str, target: f64) {
        if self.0.is_empty() {
            return;
        }
        self.0.sort_by(|one, other| one.0.total_cmp(&other.0));
        let missed = self.0.partition_point(|(ratio, _)| *ratio < target);
        let logarithms: f64 = self.0.iter().map(|(ratio, _)| ratio.ln()).sum();
        println!(
            "\n{what}: at least {target} in {} of {} cells; geometric mean {:.3}",
            self.0.len() - missed,
            self.0.len(),
            (logarithms / self.0.len() as f64).exp()
        );
        for (ratio, cell) in &self.0[..missed] {
            println!("  missed: {ratio:.3} {cell}");
        }
    }
}

/// Prints the rate with 4 queues, and its ratio to that with one.
fn queues(cells: &[Cell], seeds: &[u64], filter: &str) {
    print!("\n{:44}", "4 queues; 4 queues / 1 queue; simulated");
    for policy in PolicyKind::ALL {
        print!(" {:>14}", policy.name());
    }
    println!();
    for cell in cells.iter().filter(|cell| cell.name.contains(filter)) {
        print!("{:44}", cell.name);
        let several = Cell {
            queues: 4,
            ..cell.clone()
        };
        for policy in PolicyKind::ALL {
            let (one, _) = cell.measure(policy, seeds);
            let (four, _) = several.measure(policy, seeds);
            print!(" {:>14}", format!("{four:.1} {:.3}", four / one));
        }
        println!();
    }
}

/// Prints two rows per cell: the rate with each policy, and which of the requests were merged or continued another one.
fn compare(cells: &[Cell], seeds: &[u64], filter: &str) {
    print!("\n{:44}", "MB/s sequential, IO/s random; simulated");
    for policy in PolicyKind::ALL {
        print!(" {:>14}", policy.name());
    }
    println!("   adaptive / best other");
    let (mut to_others, mut to_fixed, mut to_bound) =
        (Ratios::default(), Ratios::default(), Ratios::default());
    let (mut uneven, mut possible) = (Ratios::default(), Ratios::default());
    for cell in cells.iter().filter(|cell| cell.name.contains(filter)) {
        let results = PolicyKind::ALL.map(|policy| cell.measure(policy, seeds));
        print!("{:44}", cell.name);
        for (value, _) in &results {
            print!(" {value:14.1}");
        }
        let best = |kind: &dyn Fn(PolicyKind) -> bool| {
            let all = PolicyKind::ALL.into_iter().zip(&results);
            let considered = all.filter(|(policy, _)| kind(*policy));
            considered
                .map(|(policy, (value, _))| (*value, policy))
                .max_by(|one, other| one.0.total_cmp(&other.0))
                .unwrap_or((f64::NAN, PolicyKind::Adaptive))
        };
        let (ours, _) = best(&|policy| policy == PolicyKind::Adaptive);
        let (other, policy) = best(&|policy| policy != PolicyKind::Adaptive);
        let (fixed, _) = best(&|policy| FIXED.contains(&policy));
        println!("   {:.3} {policy}", ours / other);
        let named = |ratio: f64| (ratio, cell.name.clone());
        to_others.0.push(named(ours / other));
        if ["skewed", "unequal"]
            .iter()
            .any(|what| cell.name.ends_with(what))
        {
            to_fixed.0.push(named(ours / fixed));
            uneven.0.push(named(ours / other));
            possible.0.push(named(cell.oracle(seeds) / other));
        }
        if let Some(bound) = cell.bound(seeds) {
            to_bound.0.push(named(ours / bound));
        }
        print!("{:44}", "  merged % / continued %");
        for (_, totals) in &results {
            let (merged, continued) = (totals.merged() * 100.0, totals.continued() * 100.0);
            print!(" {:>14}", format!("{merged:.0}/{continued:.1}"));
        }
        println!();
    }
    to_others.show("adaptive / best other policy", 0.98);
    to_fixed.show(
        "adaptive / best policy that ignores the load, skewed and unequal",
        1.15,
    );
    uneven.show("adaptive / best other policy, skewed and unequal", 1.15);
    possible.show(
        "sum of what the legs give, if no thread changes legs / best other policy, skewed and unequal",
        1.15,
    );
    to_bound.show(
        "adaptive, sequential on equal disks / rate of striped disks without mirrors × legs",
        0.97,
    );
}

/// Sequential readers of a mirror, each in a part of its own.
#[derive(Clone, Copy)]
struct Streams {
    count: u64,
    /// Reads of each in flight.
    depth: u64,
    /// Mean time from the end of a read to the next one of its stream, ns; the time is uniform from 0 to twice the
    /// mean.
    gap_ns: u64,
}

impl Streams {
    const READ: u32 = 64 << 10;
    const PART: u64 = 256 << 20;
    const SECONDS: (f64, f64) = (2.0, 10.0);

    /// MB/s on a mirror, and what its legs did.
    fn run(self, policy: PolicyKind, legs: u64, seed: u64) -> (f64, Totals) {
        let settings = DiskSettings::Hdd(HddSettings::default());
        let disks = (0..legs).map(|leg| Disk::new(&settings, &[], seed * 100 + leg));
        let policies = policy.build_queues(1, legs as usize, seed);
        let queue = QueueSettings::default();
        let mut mirror = SimMirror::new(policies, disks.collect(), queue, 4096);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        // When the read of each slot comes; slots of a stream follow each other.
        let slots = 0..(self.count * self.depth) as u32;
        let mut arrivals: BinaryHeap<_> = slots.map(|slot| Reverse((0, slot))).collect();
        let mut next = vec![0; self.count as usize];
        let [begin, end] = [Self::SECONDS.0, Self::SECONDS.0 + Self::SECONDS.1].map(|s| s * 1e9);
        let mut bytes = 0;
        loop {
            let arrival = arrivals.peek().map(|Reverse((at, _))| *at);
            let now = arrival.into_iter().chain(mirror.next_end()).min();
            let now = now.filter(|now| (*now as f64) < end);
            let Some(now) = now else { break };
            while let Some(Reverse((at, slot))) = arrivals.peek().copied()
                && at <= now
            {
                arrivals.pop();
                let stream = u64::from(slot) / self.depth;
                let at = &mut next[stream as usize];
                let op = Op::new(OpKind::Read, 0, stream * Self::PART + *at, Self::READ);
                *at = (*at + u64::from(Self::READ)) % Self::PART;
                mirror.submit(now, slot, &op);
            }
            while let Some(ended) = mirror.take_ended(now) {
                if ended.at as f64 >= begin {
                    bytes += u64::from(Self::READ);
                }
                let gap = random.random_range(0..=2 * self.gap_ns);
                arrivals.push(Reverse((ended.at.max(now) + gap, ended.slot)));
            }
        }
        (bytes as f64 / 1e6 / Self::SECONDS.1, mirror.totals())
    }

    /// The mean of three seeds.
    fn mean(self, policy: PolicyKind, legs: u64) -> (f64, Totals) {
        let runs = [1, 2, 3].map(|seed| self.run(policy, legs, seed));
        let mean = runs.iter().map(|run| run.0).sum::<f64>() / 3.0;
        (mean, runs.into_iter().map(|run| run.1).sum())
    }
}

/// MB/s of four streams on a 2-way mirror, and the share of reads that continue one on the same leg, by the gap between
/// reads.
fn streams() {
    println!(
        "\n# Four sequential streams of 64 KiB, 2-way mirror: MB/s (reads that continue, %)\n"
    );
    let policies = PolicyKind::ALL;
    let names = policies.map(|policy| policy.name());
    println!(
        "| in flight, gap | two on each disk | {} |",
        names.join(" | ")
    );
    println!("|{}", "---|".repeat(policies.len() + 2));
    for depth in [4, 1] {
        for gap_us in [0, 100, 200, 500, 1000, 2000] {
            let of = |count| Streams {
                count,
                depth,
                gap_ns: gap_us * 1000,
            };
            let shown = |(rate, totals): (f64, Totals)| {
                format!("{rate:.1} ({:.0})", 100.0 * totals.continued())
            };
            let (alone, totals) = of(2).mean(PolicyKind::Modulo, 1);
            let apart = shown((2.0 * alone, totals));
            let rates = policies.map(|policy| shown(of(4).mean(policy, 2)));
            println!("| {depth}, {gap_us} µs | {apart} | {} |", rates.join(" | "));
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|one| one != "--bench")
        .collect();
    let part = arguments.first().map_or("all", String::as_str);
    let filter = arguments.get(1).map_or("", String::as_str);
    if !["all", "published", "cells", "held-out", "queues", "streams"].contains(&part) {
        eprintln!(
            "unknown part `{part}`: the parts are published, cells, held-out, queues, streams; without one, all"
        );
        std::process::exit(2);
    }
    if matches!(part, "all" | "published") {
        published();
    }
    let hdd = HddSettings::default();
    let flash = FlashSettings::default();
    if matches!(part, "all" | "cells") {
        let mut all = cells("hdd", &DiskSettings::Hdd(hdd.clone()), HDD_S);
        all.extend(cells("flash", &DiskSettings::Flash(flash.clone()), FLASH_S));
        compare(&all, &[1, 2, 3], filter);
    }
    if matches!(part, "all" | "queues") {
        let all = cells("hdd", &DiskSettings::Hdd(hdd.clone()), HDD_S);
        queues(&all, &[1, 2, 3], filter);
    }
    if matches!(part, "all" | "streams") {
        streams();
    }
    if matches!(part, "all" | "held-out") {
        let slow = HddSettings {
            rotation_ns: 60e9 / 5900.0,
            media_rate: 205e6,
            near: (1.3e6, 0.75e6),
            far: (5.5e6, 0.009e6),
            overhead_ns: 0.15e6,
            cache: 32 << 20,
            choices: 24,
            ..hdd.clone()
        };
        let fast = HddSettings {
            rotation_ns: 60e9 / 12_000.0,
            media_rate: 145e6,
            near: (0.6e6, 0.35e6),
            far: (2.1e6, 0.0055e6),
            overhead_ns: 0.12e6,
            cache: 16 << 20,
            choices: 32,
            ..hdd
        };
        let quick = FlashSettings {
            channels: 12,
            dies: 3,
            read_ns: 45_000.0,
            channel_rate: 1e9,
            link_rate: 7e9,
            overhead_ns: 6_000.0,
            ..flash
        };
        let mut all = cells("hdd, 5900 rpm,", &DiskSettings::Hdd(slow), HDD_S);
        all.extend(cells("hdd, 12 000 rpm,", &DiskSettings::Hdd(fast), HDD_S));
        all.extend(cells("flash, quick,", &DiskSettings::Flash(quick), FLASH_S));
        compare(&all, &[401, 402], filter);
    }
}
