//! The threads of the benchmarks read what a file system reads.

#[allow(dead_code, reason = "each of its users needs a part of it")]
#[path = "../benches/readers/mod.rs"]
mod readers;

use std::collections::HashSet;

use iodyno_mirror::{PolicyKind, QueueSettings};
use iodyno_sim::{Disk, DiskSettings, HddSettings, SimMirror};
use readers::{Access, Layout, Readers, ReadersSettings};

fn mirrors(count: u64, legs: usize) -> Vec<SimMirror> {
    let disk = DiskSettings::Hdd(HddSettings::default());
    let mirror = |number: u64| {
        let legs_of = (0..legs as u64).map(|leg| Disk::new(&disk, &[], number * 10 + leg));
        let policy = PolicyKind::Modulo.build(legs, 1);
        SimMirror::new(
            vec![policy],
            legs_of.collect(),
            QueueSettings::default(),
            64,
        )
    };
    (0..count).map(mirror).collect()
}

fn small(access: Access) -> ReadersSettings {
    ReadersSettings {
        threads: 4,
        files: 4,
        file: 1 << 30,
        access,
        ..ReadersSettings::default()
    }
}

#[test]
fn no_two_records_share_a_place() {
    for layout in [Layout::Contiguous, Layout::Interleaved] {
        let settings = ReadersSettings {
            file: 9 << 20,
            layout,
            ..small(Access::Random(4096))
        };
        let readers = Readers::new(settings, mirrors(2, 1), 1);
        let all = (0..4).flat_map(|file| (0..72).map(move |record| (file, record)));
        let places: HashSet<_> = all
            .map(|(file, record)| readers.place(file, record))
            .collect();
        assert_eq!(places.len(), 4 * 72);
        assert!(places.iter().all(|(_, offset)| *offset < 36 << 20));
    }
}

#[test]
fn one_sequential_reader_gets_the_rate_of_its_disks() {
    let settings = ReadersSettings {
        threads: 1,
        ..small(Access::Sequential(1 << 20))
    };
    let outcome = Readers::new(settings, mirrors(2, 1), 1).run(2.0, 10.0);
    let bound = 2.0 * HddSettings::default().media_rate / 1e6;
    let ratio = outcome.megabytes() / bound;
    assert!((0.95..1.0).contains(&ratio), "{ratio}");
}

#[test]
fn random_small_reads_transfer_whole_records_and_read_nothing_ahead() {
    let mut readers = Readers::new(small(Access::Random(4096)), mirrors(2, 1), 1);
    let outcome = readers.run(0.0, 20.0);
    assert_eq!(outcome.bytes, outcome.ops * 4096);
    let requests: u64 = readers
        .mirrors()
        .iter()
        .map(|one| one.totals().requests)
        .sum();
    assert!(
        requests.abs_diff(outcome.ops) <= 4,
        "{requests} {}",
        outcome.ops
    );
}

#[test]
fn random_reads_of_eight_records_read_ahead_in_vain() {
    let mut readers = Readers::new(small(Access::Random(1 << 20)), mirrors(2, 1), 1);
    let outcome = readers.run(0.0, 100.0);
    let requests: u64 = readers
        .mirrors()
        .iter()
        .map(|one| one.totals().requests)
        .sum();
    // 8 records of the op and 128 beyond them; some wait in the queue at the end.
    let each = requests as f64 / outcome.ops as f64;
    assert!((120.0..150.0).contains(&each), "{each}");
}

#[test]
fn mixed_ops_write_their_share_to_all_legs() {
    let mut readers = Readers::new(small(Access::Mixed { writes: 0.3 }), mirrors(1, 2), 1);
    let outcome = readers.run(0.0, 60.0);
    let requests: u64 = readers
        .mirrors()
        .iter()
        .map(|one| one.totals().requests)
        .sum();
    let each = requests as f64 / outcome.ops as f64;
    assert!((each - 1.3).abs() < 0.03, "{each}");
}

#[test]
fn the_same_seed_gives_the_same_outcome_and_another_seed_another() {
    let run = |seed| Readers::new(small(Access::Random(4096)), mirrors(2, 2), seed).run(1.0, 5.0);
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
