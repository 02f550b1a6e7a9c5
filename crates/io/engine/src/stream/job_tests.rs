//! Tests of the ops that a job issues and their offsets, without a backend or a clock.

use iodyno_model::{
    BlockSizes, Extent, FileService, MixSequence, Order, PerDirection, RangeSync, SyncPolicy,
    Verify, VerifyTrim, WriteZones,
};
use iodyno_units::Nanos;

use super::*;
use crate::testing::{blocks, random_reads};

const KIB: u64 = 1024;

/// Runs a job of one thread at depth 1 whose ops complete at once, and returns the issued ops: (file, offset, length,
/// direction).
fn issued(job: Job, regions: &[(u64, u64)], budget: u64) -> Vec<(u32, u64, u64, Direction)> {
    let mut stream = JobStream::new(&job, job.work.blocks().unwrap(), regions, budget, 5);
    let mut ops = Vec::new();
    let mut place = super::super::end_sync(OpKind::Fsync, 0);
    for now in 0..100_000 {
        match stream.next(now, 0, &mut place) {
            Next::Op => {
                ops.push((
                    place.op.file,
                    place.op.offset,
                    u64::from(place.op.length),
                    place.direction,
                ));
                stream.completed(0, true);
            }
            Next::Done(_) => return ops,
            Next::WaitForCompletion => panic!("nothing is in flight: {ops:?}"),
            Next::WaitUntil(_) | Next::SpinUntil(_) => {}
        }
    }
    ops
}

/// Runs a job as above. Returns the numbers of the ops with which passes over 4 blocks begin.
fn passes(job: &Job) -> Vec<usize> {
    let region = [(4 * KIB, 16 * KIB)];
    let mut stream = JobStream::new(job, job.work.blocks().unwrap(), &region, 40 * KIB, 5);
    let mut place = super::super::end_sync(OpKind::Fsync, 0);
    let mut begins = Vec::new();
    while stream.next(0, 0, &mut place) == Next::Op {
        stream.completed(0, true);
        begins.push(place.begins_pass);
    }
    (0..begins.len()).filter(|number| begins[*number]).collect()
}

#[test]
fn a_pass_begins_when_each_block_was_used() {
    assert_eq!(passes(&sequential(true, false)), [0, 4, 8]);
    let mut job = random_reads(1);
    assert_eq!(passes(&job), [0, 4, 8]);
    blocks(&mut job).access.writes = true;
    assert_eq!(passes(&job), [0, 4, 8], "one map of reads and writes");
    blocks(&mut job).access.random_map = false;
    assert_eq!(passes(&job), [0]);
    let mut job = sequential(true, false);
    blocks(&mut job).access.sequence = Some(MixSequence::Skip(4096));
    assert_eq!(passes(&job), [0]);
    let mut job = random_reads(1);
    blocks(&mut job).access.block_sizes = PerDirection::all(BlockSizes::Range {
        min: 4 * KIB,
        max: 16 * KIB,
        unaligned: false,
    });
    let used = passes(&job);
    assert!(used[0] == 0 && used[1] <= 4 && used.len() >= 3, "{used:?}");
}

fn sequential(reads: bool, writes: bool) -> Job {
    let mut job = random_reads(1);
    blocks(&mut job).access.order = Order::Sequential;
    (
        blocks(&mut job).access.reads,
        blocks(&mut job).access.writes,
    ) = (reads, writes);
    job
}

fn offsets(ops: &[(u32, u64, u64, Direction)]) -> Vec<u64> {
    ops.iter().map(|op| op.1 / (4 * KIB)).collect()
}

#[test]
fn ops_on_a_zoned_device_keep_to_its_write_pointers_at_any_depth() {
    const ZONE: u64 = 64 * KIB;
    for (order, reads, depth) in [
        (Order::Random, true, 8),
        (Order::Random, false, 4),
        (Order::Sequential, false, 4),
    ] {
        let rule = WriteZones {
            size: ZONE,
            capacity: 48 * KIB,
            max_open: 3,
            read_beyond: false,
        };
        // One that is full, one that is written in part, and empty ones.
        let mut pointers = [48, 12, 0, 0, 0, 0, 0, 0].map(|kib| kib * KIB);
        let zones = DeviceZones {
            rule,
            written: vec![pointers.to_vec()],
        };
        let mut job = sequential(reads, true);
        blocks(&mut job).access.order = order;
        blocks(&mut job).access.random_map = false;
        blocks(&mut job).engine.depth = depth;
        blocks(&mut job).extent.write_zones = Some(rule);
        let regions = [(2 * ZONE, 8 * ZONE)];
        let stream = JobStream::new(&job, job.work.blocks().unwrap(), &regions, 64 * ZONE, 5);
        let mut stream = stream.on_zones(&zones, &regions);
        let mut place = super::super::end_sync(OpKind::Fsync, 0);
        let mut free: Vec<Slot> = (0..depth).collect();
        let mut in_flight: Vec<(Slot, Op)> = Vec::new();
        let (mut resets, mut most, mut ended) = (0, 0, false);
        while !(ended && in_flight.is_empty()) {
            let next = match free.last() {
                Some(slot) if !ended => stream.next(0, *slot, &mut place),
                _ => Next::WaitForCompletion,
            };
            match next {
                Next::Op => in_flight.push((free.pop().unwrap(), place.op)),
                Next::Done(_) => ended = true,
                _ => {
                    assert!(!in_flight.is_empty(), "it waits for nothing");
                    // Devices may complete the last one first.
                    let (slot, op) = in_flight.pop().unwrap();
                    let zone = ((op.offset - 2 * ZONE) / ZONE) as usize;
                    let inside = (op.offset - 2 * ZONE) % ZONE;
                    let pointer = &mut pointers[zone];
                    match op.kind {
                        OpKind::ResetZone => {
                            assert_eq!((inside, u64::from(op.length)), (0, ZONE));
                            assert!(*pointer > 0);
                            (*pointer, resets) = (0, resets + 1);
                        }
                        OpKind::Write => {
                            assert_eq!(inside, *pointer, "zone {zone}");
                            *pointer += u64::from(op.length);
                            assert!(*pointer <= 48 * KIB);
                        }
                        _ => assert!(inside + u64::from(op.length) <= *pointer),
                    }
                    stream.completed(slot, true);
                    free.push(slot);
                }
            }
            most = most.max(in_flight.len());
        }
        assert!(resets > 8, "{resets}");
        assert!(most > 1 || order == Order::Sequential, "{most}");
    }
}

#[test]
fn a_sequential_job_wraps_until_its_bytes_are_done() {
    let check = |region: u64, budget: u64, expected: &[u64]| {
        let ops = issued(sequential(true, false), &[(0, region)], budget);
        assert_eq!(offsets(&ops), expected, "{region} {budget}");
    };
    check(16 * KIB, 16 * KIB, &[0, 1, 2, 3]);
    check(16 * KIB, 24 * KIB, &[0, 1, 2, 3, 0, 1]);
    // A partial block at the end is not used.
    check(10_000, 10_000, &[0, 1]);
    check(10_000, 20_000, &[0, 1, 0, 1]);
    check(16 * KIB, 4 * KIB - 1, &[]);
}

#[test]
fn the_budget_ends_a_job_within_a_larger_block() {
    let mut job = sequential(false, true);
    blocks(&mut job).access.block_sizes.write =
        BlockSizes::Split(vec![(4096, 50.0), (65536, 50.0)]);
    for budget in [4096, 12_288, 100 * KIB] {
        let ops = issued(job.clone(), &[(0, 1 << 20)], budget);
        assert_eq!(ops.iter().map(|op| op.2).sum::<u64>(), budget);
    }
}

#[test]
fn no_op_is_longer_than_its_region() {
    for order in [Order::Random, Order::Sequential] {
        let mut job = random_reads(1);
        blocks(&mut job).access.order = order;
        blocks(&mut job).access.block_sizes.read =
            BlockSizes::Split(vec![(4096, 20.0), (65536, 80.0)]);
        for regions in [vec![(0, 12 * KIB)], vec![(0, 256 * KIB), (4096, 8 * KIB)]] {
            let ops = issued(job.clone(), &regions, 512 * KIB);
            assert_eq!(ops.iter().map(|op| op.2).sum::<u64>(), 512 * KIB);
            for (file, offset, length, _) in ops {
                let (base, whole) = regions[file as usize];
                assert!(
                    offset >= base && offset + length <= base + whole,
                    "{order:?} {regions:?}: {file} {offset} {length}"
                );
                assert_eq!(offset % 4096, 0);
            }
        }
    }
}

#[test]
fn blocks_at_the_end_stay_aligned() {
    let mut job = random_reads(1);
    blocks(&mut job).access.block_sizes.read = BlockSizes::Split(vec![(512, 50.0), (65536, 50.0)]);
    blocks(&mut job).access.block_align = PerDirection::all(4096);
    // The region ends 512 bytes after a multiple of the alignment.
    let ops = issued(job, &[(0, 256 * KIB + 512)], 16 << 20);
    assert!(
        ops.iter()
            .all(|op| op.1 % 4096 == 0 && op.1 + op.2 <= 256 * KIB + 512)
    );
}

#[test]
fn a_random_map_of_different_sizes_covers_the_region_once() {
    let range = BlockSizes::Range {
        min: 512,
        max: 4 * KIB,
        unaligned: false,
    };
    let split = BlockSizes::Split(vec![(KIB, 40.0), (4 * KIB, 30.0), (64 * KIB, 30.0)]);
    for (sizes, least) in [(range, 512), (split, KIB)] {
        for reads in [false, true] {
            let mut job = random_reads(1);
            let access = &mut blocks(&mut job).access;
            (access.reads, access.writes) = (reads, true);
            access.block_sizes = PerDirection::all(sizes.clone());
            let ops = issued(job, &[(KIB, 256 * KIB)], 512 * KIB);
            // Two passes: each of them accesses every byte once, in any direction.
            let mut met = vec![0; (256 * KIB / least) as usize];
            for (_, offset, length, _) in &ops {
                let first = (offset - KIB) / least;
                (first..first + length / least).for_each(|block| met[block as usize] += 1);
            }
            assert!(met.iter().all(|met| *met == 2), "{sizes:?} {met:?}");
            assert!(ops.iter().any(|op| op.2 > least));
        }
    }
}

#[test]
fn a_range_sync_follows_a_number_of_writes_and_covers_them() {
    let mut job = sequential(false, true);
    blocks(&mut job).sync.range = Some(RangeSync { every: 2, flags: 2 });
    let ops = issued(job, &[(0, 20 * KIB)], 20 * KIB);
    let syncs: Vec<(u64, u64)> = ops
        .iter()
        .filter(|op| op.3 == Direction::Sync)
        .map(|op| (op.1, op.2))
        .collect();
    assert_eq!(syncs, [(0, 8 * KIB), (8 * KIB, 8 * KIB)]);
}

#[test]
fn holes_and_steps_backwards_are_those_of_fio() {
    let check = |skip: i64, expected: &[u64]| {
        let mut job = sequential(true, false);
        blocks(&mut job).access.sequence = Some(MixSequence::Skip(skip));
        assert_eq!(
            offsets(&issued(job, &[(0, 64 * KIB)], 32 * KIB)),
            expected,
            "{skip}"
        );
    };
    check(8192, &[0, 3, 6, 9, 12, 15, 0, 3]);
    check(-8192, &[0, 14, 13, 12, 11, 10, 9, 8]);
    check(-4096, &[0; 8]);
}

#[test]
fn a_zone_begins_at_its_start_for_both_reads_and_writes() {
    let mut job = sequential(true, true);
    blocks(&mut job).extent = Extent {
        zone_size: 8 * KIB,
        zone_range: 16 * KIB,
        zone_skip: 16 * KIB,
        ..Extent::default()
    };
    let ops = issued(job, &[(0, 128 * KIB)], 512 * KIB);
    let mut last = None;
    for (index, pair) in ops.chunks(2).enumerate() {
        let zone = index as u64 % 4 * 32 * KIB;
        for (_, offset, length, direction) in pair {
            assert!((zone..zone + 16 * KIB).contains(offset), "{index} {offset}");
            // The first op of its direction in a zone is at the start of the zone.
            if last != Some((index, *direction)) {
                assert_eq!(*offset, zone, "{direction:?}");
            }
            assert_eq!(*length, 4 * KIB);
            last = Some((index, *direction));
        }
    }
}

#[test]
fn ops_stay_in_a_zone_that_is_shorter_than_its_number_of_bytes() {
    let mut job = sequential(true, false);
    blocks(&mut job).extent = Extent {
        zone_size: 16 * KIB,
        zone_range: 8 * KIB,
        zone_skip: 24 * KIB,
        ..Extent::default()
    };
    let zones = offsets(&issued(job, &[(0, 64 * KIB)], 48 * KIB));
    assert_eq!(zones, [0, 1, 0, 1, 8, 9, 8, 9, 0, 1, 0, 1]);
}

#[test]
fn a_zone_at_the_end_is_used_as_far_as_it_reaches() {
    let check = |(size, range, skip): (u64, u64, u64), loops, expected: &[u64]| {
        let mut job = sequential(true, false);
        blocks(&mut job).extent = Extent {
            zone_size: size * KIB,
            zone_range: range * KIB,
            zone_skip: skip * KIB,
            ..Extent::default()
        };
        blocks(&mut job).passes.loops = loops;
        let ops = issued(job, &[(0, 64 * KIB)], loops * 48 * KIB);
        assert_eq!(offsets(&ops), expected, "{size} {range} {skip}");
    };
    // The last zone begins at 48 KiB, and its used part fits.
    let whole = [0, 1, 2, 6, 7, 8, 12, 13, 14, 0, 1, 2];
    check((12, 24, 0), 1, &whole);
    // The last zone begins at 60 KiB: the pass ends within it.
    let cut = [0, 1, 5, 6, 10, 11, 15];
    check((8, 16, 4), 1, &cut);
    check((8, 16, 4), 2, &[cut, cut].concat());
    // An op begins within the zone, and may end beyond it.
    check((10, 10, 6), 1, &[0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14]);
}

#[test]
fn with_a_number_of_bytes_the_last_op_is_whole() {
    let count = |change: fn(&mut Job), budget| {
        let mut job = sequential(true, false);
        change(&mut job);
        issued(job, &[(0, 64 * KIB)], budget).len()
    };
    let io_size = |job: &mut Job| {
        blocks(job).passes.io_size = Some(iodyno_model::Amount::Bytes(30 * KIB));
    };
    let without_map = |job: &mut Job| {
        blocks(job).access.order = Order::Random;
        blocks(job).access.random_map = false;
    };
    assert_eq!(count(io_size, 30 * KIB), 8);
    assert_eq!(count(without_map, 30 * KIB), 8);
    assert_eq!(count(io_size, 32 * KIB), 8);
    assert_eq!(count(|_| {}, 30 * KIB), 7);
}

#[test]
fn a_write_is_followed_by_one_sync_at_most() {
    let mut job = sequential(false, true);
    let sync = &mut blocks(&mut job).sync;
    (sync.fsync_every, sync.fdatasync_every) = (4, 2);
    sync.range = Some(RangeSync { every: 1, flags: 2 });
    let mut stream = JobStream::new(
        &job,
        job.work.blocks().unwrap(),
        &[(0, 1 << 20)],
        32 * KIB,
        5,
    );
    let mut place = super::super::end_sync(OpKind::Fsync, 0);
    let mut kinds = Vec::new();
    while stream.next(0, 0, &mut place) == Next::Op {
        kinds.push(place.op.kind);
        stream.completed(0, true);
    }
    let (range, data, all) = (OpKind::SyncRange(2), OpKind::Fdatasync, OpKind::Fsync);
    let four = [range, data, range, all].map(|sync| [OpKind::Write, sync]);
    let mut expected = [four, four].concat().concat();
    // No sync follows the last op.
    expected.pop();
    assert_eq!(kinds, expected);
}

#[test]
fn a_sync_is_of_the_file_that_waits_longest_for_one() {
    let of = |files: usize, set: fn(&mut SyncPolicy)| {
        let mut job = sequential(false, true);
        set(&mut blocks(&mut job).sync);
        let work = job.work.blocks().unwrap();
        let regions = vec![(0, 32 * KIB); files];
        let mut stream = JobStream::new(&job, work, &regions, files as u64 * 32 * KIB, 5);
        let mut place = super::super::end_sync(OpKind::Fsync, 0);
        let (mut syncs, mut writes) = (vec![0; files], vec![Vec::new(); files]);
        let mut ranges = Vec::new();
        while stream.next(0, 0, &mut place) == Next::Op {
            let op = place.op;
            match op.kind {
                OpKind::Write => writes[op.file as usize].push(op.offset / (4 * KIB)),
                _ => syncs[op.file as usize] += 1,
            }
            if let OpKind::SyncRange(_) = op.kind {
                ranges.push((op.file, op.offset / (4 * KIB), op.length / 4096));
            }
            stream.completed(0, true);
        }
        for blocks in writes {
            assert_eq!(blocks, (0..8).collect::<Vec<u64>>());
        }
        (syncs, ranges)
    };
    // The numbers are those of fio.
    assert_eq!(of(2, |sync| sync.fsync_every = 2).0, [4, 3]);
    assert_eq!(of(4, |sync| sync.fdatasync_every = 4).0, [2, 2, 2, 1]);
    let (syncs, ranges) = of(2, |sync| {
        sync.range = Some(RangeSync { every: 2, flags: 2 });
    });
    assert_eq!(syncs, [4, 3]);
    // The blocks that were written to the file since its last sync.
    assert_eq!(ranges[..3], [(0, 0, 1), (1, 0, 2), (0, 1, 2)]);
}

#[test]
fn a_verified_job_ends_each_of_its_passes() {
    let mut job = sequential(false, true);
    blocks(&mut job).passes.loops = 3;
    blocks(&mut job).verify = Some(Verify::default());
    let mut stream = JobStream::new(
        &job,
        job.work.blocks().unwrap(),
        &[(0, 8 * KIB)],
        24 * KIB,
        5,
    );
    let mut place = super::super::end_sync(OpKind::Fsync, 0);
    for pass in 1..=3 {
        for _ in 0..2 {
            assert_eq!(stream.next(0, 0, &mut place), Next::Op);
            stream.completed(0, true);
        }
        let ended = stream.next(0, 0, &mut place);
        assert_eq!(ended, Next::Done(EndedBy::Size));
        assert_eq!(stream.next_pass(), pass < 3);
    }
}

#[test]
fn files_are_served_round_robin_sequentially_or_randomly() {
    let regions = [(0, 16 * KIB), (0, 16 * KIB), (0, 16 * KIB)];
    let files = |service, ops| {
        let mut job = sequential(true, false);
        (
            blocks(&mut job).files.service,
            blocks(&mut job).files.service_ops,
        ) = (service, ops);
        let ops = issued(job, &regions, 96 * KIB);
        ops.iter().map(|op| op.0).collect::<Vec<_>>()
    };
    assert_eq!(
        files(FileService::RoundRobin, 1)[..7],
        [0, 1, 2, 0, 1, 2, 0]
    );
    assert_eq!(
        files(FileService::RoundRobin, 3)[..7],
        [0, 0, 0, 1, 1, 1, 2]
    );
    let one_by_one = files(FileService::Sequential, 1);
    assert_eq!(one_by_one[..12], [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
    assert_eq!(one_by_one[12..16], [0; 4]);
    let mut drawn = files(FileService::Random, 4);
    assert!(
        drawn
            .chunks(4)
            .all(|run| run.iter().all(|file| *file == run[0]))
    );
    drawn.sort_unstable();
    drawn.dedup();
    assert_eq!(drawn, [0, 1, 2]);
}

#[test]
fn a_limit_of_ops_applies_to_each_clone() {
    let mut job = random_reads(1);
    job.end.ops = Some(7);
    assert_eq!(issued(job.clone(), &[(0, 1 << 20)], 1 << 20).len(), 7);
    blocks(&mut job).passes.time_based = true;
    assert_eq!(issued(job, &[(0, 1 << 20)], 4096).len(), 7);
}

#[test]
fn ops_of_a_ramp_count_towards_the_size_but_not_towards_the_number_of_ops() {
    let end = |ops: Option<u64>, ramped: u64, time_based: bool| {
        let mut job = random_reads(1);
        job.end.ops = ops;
        blocks(&mut job).passes.time_based = time_based;
        let work = job.work.blocks().unwrap();
        let mut stream = JobStream::new(&job, work, &[(0, 1 << 20)], 10 * 4096, 5);
        let mut place = super::super::end_sync(OpKind::Fsync, 0);
        stream.begin(0);
        for now in 0..ramped {
            match stream.next(now, 0, &mut place) {
                Next::Op => {}
                Next::Done(ended) => return (now, ended),
                other => panic!("{other:?}"),
            }
        }
        stream.measure();
        for measured in 0..1000 {
            if let Next::Done(ended) = stream.next(ramped + measured, 0, &mut place) {
                return (measured, ended);
            }
        }
        (1000, EndedBy::Runtime)
    };
    assert_eq!(end(None, 0, false), (10, EndedBy::Size));
    assert_eq!(end(None, 4, false), (6, EndedBy::Size));
    assert_eq!(end(Some(5), 4, false), (5, EndedBy::Count));
    assert_eq!(end(None, 4, true), (1000, EndedBy::Runtime));
    // All of it within the ramp.
    assert_eq!(end(None, 20, false), (10, EndedBy::Size));
}

#[test]
fn a_pause_begins_when_its_number_of_ops_has_completed() {
    let mut job = random_reads(8);
    job.pacing.think = Some(ThinkTime {
        pause: Nanos(1000),
        spin: Nanos(300),
        every_ops: 3,
        ..ThinkTime::default()
    });
    let mut stream = JobStream::new(
        &job,
        job.work.blocks().unwrap(),
        &[(0, 1 << 20)],
        1 << 20,
        5,
    );
    let mut place = super::super::end_sync(OpKind::Fsync, 0);
    let mut next = |stream: &mut JobStream, now, slot| stream.next(now, slot, &mut place);
    for round in 0..3 {
        let now = round * 10_000;
        for slot in 0..3 {
            assert_eq!(next(&mut stream, now, slot), Next::Op);
        }
        assert_eq!(next(&mut stream, now, 3), Next::WaitForCompletion);
        (0..3).for_each(|slot| stream.completed(slot, true));
        assert_eq!(next(&mut stream, now + 500, 0), Next::SpinUntil(now + 800));
        assert_eq!(next(&mut stream, now + 800, 0), Next::WaitUntil(now + 1500));
        assert_eq!(next(&mut stream, now + 900, 0), Next::WaitUntil(now + 1500));
    }
}

#[test]
fn a_pause_comes_after_some_time_or_some_ops() {
    let mut job = random_reads(1);
    job.pacing.think = Some(ThinkTime {
        pause: Nanos(1000),
        every_ops: 4,
        io_time: Nanos(5000),
        ..ThinkTime::default()
    });
    let work = job.work.blocks().unwrap();
    let mut stream = JobStream::new(&job, work, &[(0, 1 << 20)], 1 << 20, 5);
    stream.begin(10_000);
    stream.measure();
    let mut place = super::super::end_sync(OpKind::Fsync, 0);
    let mut op = |stream: &mut JobStream, now| {
        let next = stream.next(now, 0, &mut place);
        if next == Next::Op {
            stream.completed(0, true);
        }
        next
    };
    for now in [10_000, 12_000, 14_999] {
        assert_eq!(op(&mut stream, now), Next::Op);
    }
    // After 5 µs, before the fourth op.
    assert_eq!(op(&mut stream, 15_000), Next::WaitUntil(16_000));
    for now in [16_000, 16_001, 16_002, 16_003] {
        assert_eq!(op(&mut stream, now), Next::Op);
    }
    // After four ops, before 5 µs are over; they count from the end of the pause.
    assert_eq!(op(&mut stream, 17_000), Next::WaitUntil(18_000));
    assert_eq!(op(&mut stream, 22_999), Next::Op);
    assert_eq!(op(&mut stream, 23_000), Next::WaitUntil(24_000));
}

#[test]
fn overlapping_ops_wait_for_each_other_if_requested() {
    let held = |serialize: bool, writes: bool| {
        let mut job = random_reads(4);
        let access = &mut blocks(&mut job).access;
        (access.random_map, access.serialize_overlap) = (false, serialize);
        (access.reads, access.writes) = (!writes, writes);
        // One block: every op overlaps the one before.
        let work = job.work.blocks().unwrap();
        let mut stream = JobStream::new(&job, work, &[(0, 4096)], 1 << 20, 5);
        let mut place = super::super::end_sync(OpKind::Fsync, 0);
        assert_eq!(stream.next(0, 0, &mut place), Next::Op);
        let second = stream.next(0, 1, &mut place);
        stream.completed(0, true);
        assert_eq!(stream.next(10, 2, &mut place), Next::Op);
        second
    };
    assert_eq!(held(true, true), Next::WaitForCompletion);
    assert_eq!(held(false, true), Next::Op);
    // Asking again changes nothing.
    assert_eq!(held(true, false), Next::Op);
}

#[test]
fn syncs_and_checks_do_not_count_as_ops_between_pauses() {
    let mut job = sequential(false, true);
    blocks(&mut job).sync.fsync_every = 1;
    blocks(&mut job).verify = Some(Verify {
        backlog: 2,
        ..Verify::default()
    });
    job.pacing.think = Some(ThinkTime {
        pause: Nanos(10),
        spin: Nanos(0),
        every_ops: 4,
        ..ThinkTime::default()
    });
    let ops = issued(job, &[(0, 64 * KIB)], 64 * KIB);
    let count = |direction| ops.iter().filter(|op| op.3 == direction).count();
    assert_eq!(count(Direction::Write), 16);
    assert_eq!(count(Direction::Sync), 15);
    assert!(count(Direction::Read) >= 14);
}

#[test]
fn a_share_of_the_written_blocks_is_trimmed_in_batches() {
    let check = |percent, backlog, batch, ops: Option<u64>, expected: &str| {
        let mut job = sequential(false, true);
        job.end.ops = ops;
        blocks(&mut job).verify = Some(Verify {
            trim: Some(VerifyTrim {
                percent,
                backlog,
                batch,
                check_zero: true,
            }),
            ..Verify::default()
        });
        let ops = issued(job, &[(0, 64 * KIB)], 64 * KIB);
        let told = ops.iter().map(|(_, offset, length, direction)| {
            assert_eq!(*length, 4 * KIB);
            let letter = if *direction == Direction::Trim {
                "t"
            } else {
                "w"
            };
            format!("{letter}{}", offset / (4 * KIB))
        });
        let told: Vec<String> = told.collect();
        assert_eq!(
            told.join(" "),
            expected,
            "{percent} {backlog} {batch} {ops:?}"
        );
    };
    check(100, 1, 1, Some(6), "w0 t0 w1 t1 w2 t2");
    // The rest follows at the end.
    check(50, 4, 4, Some(9), "w0 w1 w2 w3 t1 t3 w4 w5 w6 t5");
    check(
        100,
        4,
        1,
        None,
        "w0 w1 w2 w3 t0 w4 w5 w6 w7 t1 w8 w9 t2 w10 t3 w11 t4 w12 t5 w13 t6 w14 t7 w15 t8 t9 t10 t11 t12 t13 t14 t15",
    );
    check(
        25,
        8,
        8,
        None,
        "w0 w1 w2 w3 w4 w5 w6 w7 t3 t7 w8 w9 w10 w11 w12 w13 w14 w15 t11 t15",
    );
}

#[test]
fn a_clone_ahead_of_its_flow_waits_and_leaves_the_flow_at_its_end() {
    let flow = Arc::new(SharedFlow::new());
    let stream = |weight, pause| {
        let mut job = random_reads(1);
        job.pacing.flow = Some(Flow {
            id: 1,
            weight,
            pause: Nanos(pause),
        });
        let mut stream = JobStream::new(
            &job,
            job.work.blocks().unwrap(),
            &[(0, 1 << 20)],
            1 << 20,
            5,
        );
        stream.join(&flow);
        stream
    };
    let (mut slow, mut fast) = (stream(1, 700), stream(3, 0));
    let mut place = super::super::end_sync(OpKind::Fsync, 0);
    let mut ops = [0u32; 2];
    for now in 0..120 {
        for (index, stream) in [&mut slow, &mut fast].into_iter().enumerate() {
            match stream.next(now, 0, &mut place) {
                Next::Op => {
                    ops[index] += 1;
                    stream.completed(0, true);
                }
                Next::WaitUntil(until) => {
                    assert_eq!(until, now + [700, FLOW_PAUSE_NS][index]);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(ops[1].abs_diff(3 * ops[0]) <= 4, "{ops:?}");
    slow.leave();
    for now in 200..240 {
        assert_eq!(
            fast.next(now, 0, &mut place),
            Next::Op,
            "a single clone does not wait"
        );
    }
}
