//! Compares read policies on simulated mirrors, and the simulation with a published measurement.
//!
//! `cargo bench -p iodyno-sim --bench mirror-policies [-- [published|cells|held-out] [PART-OF-A-CELL'S-NAME]]`. All figures
//! are simulated; they depend on nothing but this program.
//!
//! The published measurement is that of the commit "Improve N-way mirror performance" of ZFS on Linux (556011dbec, 2013): 16 threads
//! read 16 files on two striped mirrors. The parameters of the disk were fitted to its row without mirrors and to its column of random
//! reads of 4 KiB, and frozen; the other cells are predictions.
#![allow(clippy::print_stdout, reason = "a program of its own")]

use iodyno_mirror::{PolicyKind, QueueSettings, Totals};
use iodyno_sim::{
    Access, Disk, DiskSettings, FlashSettings, HddSettings, Layout, Readers, ReadersSettings,
    SimMirror, Slowing,
};

const MIRRORS: u64 = 2;
const WARM_UP_S: f64 = 10.0;
const MEASURE_S: f64 = 40.0;

/// What is simulated.
#[derive(Clone)]
struct Cell {
    name: String,
    /// The disks of each mirror.
    disks: Vec<(DiskSettings, Vec<Slowing>)>,
    readers: ReadersSettings,
    queue: QueueSettings,
}

impl Cell {
    /// MB/s of sequential cells, otherwise IO/s: the mean over the seeds. And what the legs did.
    fn measure(&self, policy: PolicyKind, seeds: &[u64]) -> (f64, Totals) {
        let runs = seeds.iter().map(|seed| {
            let mirror = |number: u64| {
                let seed = seed * 1000 + number * 100;
                let disks = self.disks.iter().zip(1..);
                let disks = disks.map(|((disk, slow), leg)| Disk::new(disk, slow, seed + leg));
                let policy = policy.build(self.disks.len(), seed);
                SimMirror::new(policy, disks.collect(), self.queue, 4096)
            };
            let mirrors = (0..MIRRORS).map(mirror).collect();
            let mut readers = Readers::new(self.readers.clone(), mirrors, *seed);
            let outcome = readers.run(WARM_UP_S, MEASURE_S);
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

fn equal(disk: &DiskSettings, legs: usize) -> Vec<(DiskSettings, Vec<Slowing>)> {
    vec![(disk.clone(), Vec::new()); legs]
}

/// The cells of the comparison, on disks of this kind.
fn cells(kind: &str, disk: &DiskSettings) -> Vec<Cell> {
    let mut cells = Vec::new();
    for legs in 2..=4 {
        let mut add = |what: &str, disks: Vec<(DiskSettings, Vec<Slowing>)>, readers| {
            cells.push(Cell {
                name: format!("{kind} {legs}-way {what}"),
                disks,
                readers,
                queue: QueueSettings::default(),
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
        slowing[0].1 = vec![Slowing {
            from_ns: 20_000_000_000,
            until_ns: 40_000_000_000,
            factor: 4.0,
        }];
        for (name, access) in COLUMNS {
            add(name, equal.clone(), with(access));
        }
        let interleaved = ReadersSettings {
            layout: Layout::Interleaved,
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
        add("70/30 random", equal, with(Access::Mixed { writes: 0.3 }));
    }
    cells
}

/// Prints a row per cell: the rate with each policy, and adaptive as a multiple of the best other one.
fn compare(cells: &[Cell], seeds: &[u64], filter: &str) {
    print!("{:40}", "MB/s sequential, IO/s random; simulated");
    for policy in PolicyKind::ALL {
        print!(" {:>14}", policy.name());
    }
    println!("   adaptive / best other");
    let mut ratios = Vec::new();
    for cell in cells.iter().filter(|cell| cell.name.contains(filter)) {
        let results = PolicyKind::ALL.map(|policy| cell.measure(policy, seeds));
        print!("{:40}", cell.name);
        for (value, _) in &results {
            print!(" {value:14.1}");
        }
        let best = |kind: &dyn Fn(PolicyKind) -> bool| {
            let all = PolicyKind::ALL.into_iter().zip(&results);
            all.filter(|(policy, _)| kind(*policy))
                .max_by(|one, other| one.1.0.total_cmp(&other.1.0))
                .map(|(policy, result)| (policy, result.0))
        };
        let others = best(&|policy| policy != PolicyKind::Adaptive);
        let ours = best(&|policy| policy == PolicyKind::Adaptive);
        if let (Some((policy, other)), Some((_, ours))) = (others, ours) {
            ratios.push(ours / other);
            println!("   {:.3} {policy}", ours / other);
        }
        print!("{:40}", "  merged % / continued %");
        for (_, totals) in &results {
            let (merged, continued) = (totals.merged() * 100.0, totals.continued() * 100.0);
            print!(" {:>14}", format!("{merged:.0}/{continued:.1}"));
        }
        println!();
    }
    let lowest = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let log: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    let reached = ratios.iter().filter(|&&ratio| ratio >= 0.98).count();
    println!(
        "adaptive: at least 0.98 of the best other policy in {reached} of {} cells; lowest {lowest:.3}, geometric mean {:.3}",
        ratios.len(),
        (log / ratios.len() as f64).exp()
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|one| one != "--bench")
        .collect();
    let part = arguments.first().map_or("all", String::as_str);
    let filter = arguments.get(1).map_or("", String::as_str);
    if matches!(part, "all" | "published") {
        published();
    }
    if matches!(part, "all" | "cells") {
        let mut all = cells("hdd", &DiskSettings::Hdd(HddSettings::default()));
        all.extend(cells(
            "flash",
            &DiskSettings::Flash(FlashSettings::default()),
        ));
        println!();
        compare(&all, &[1, 2], filter);
    }
}
