use iodyno_sys::OpKind::{Read, Write};

use super::*;
use crate::testing::op;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn volume(change: impl FnOnce(&mut SimTarget), users: usize) -> Volume {
    let mut target = SimTarget::new("mirror:modulo:hdd+hdd".parse().unwrap());
    target.records = Some(SimRecords {
        length: 128 * KIB,
        prefetch: 16 * MIB,
    });
    change(&mut target);
    Volume::new(&target, users, 1).unwrap()
}

/// The next op that ends.
fn next(volume: &mut Volume, now: &mut u64) -> DeviceEnd {
    loop {
        if let Some(end) = volume.take_ended(*now) {
            return end;
        }
        *now = volume.next_end().expect("an op is in flight");
    }
}

/// Bytes that were read by each of these users, one op at a time from its own place, until `until`.
fn read(volume: &mut Volume, users: u32, length: u32, until: u64) -> Vec<u64> {
    let mut bytes = vec![0; users as usize];
    let place = |user: u32, bytes: u64| u64::from(user) * (16 << 30) + bytes;
    for user in 0..users {
        volume.submit(0, user, user, &op(Read, place(user, 0), length));
    }
    let mut now = 0;
    while now < until {
        let end = next(volume, &mut now);
        assert_eq!(end.result, length as i32);
        assert!(end.at <= now);
        bytes[end.slot as usize] += u64::from(length);
        let next = place(end.slot, bytes[end.slot as usize]);
        volume.submit(now, end.slot, end.slot, &op(Read, next, length));
    }
    bytes
}

#[test]
fn a_sequential_reader_of_small_blocks_gets_the_rate_of_the_medium_by_prefetch() {
    let rate = |length: u32| {
        let change = |target: &mut SimTarget| target.device = "hdd".parse().unwrap();
        read(&mut volume(change, 1), 1, length, 10_000_000_000)[0] / 10_000_000
    };
    // 130 MB/s. In the beginning more records arrive than are read.
    for length in [4 * KIB, MIB] {
        let rate = rate(length as u32);
        assert!((125..=131).contains(&rate), "{length}: {rate} MB/s");
    }
}

#[test]
fn a_random_reader_transfers_whole_records() {
    let mut volume = volume(|_| {}, 1);
    let mut now = 0;
    let mut before = 0;
    // The second one ends in the next record, so that it seems to be sequential: two more records are read ahead.
    for (count, offset) in [(1, 5 * MIB + 4096), (4, 900 * MIB + 130_000), (1, 70 * MIB)] {
        volume.submit(now, 0, 7, &op(Read, offset, 4096));
        let end = next(&mut volume, &mut now);
        assert_eq!((end.slot, end.result), (7, 4096));
        let totals = volume.mirrors[0].totals();
        assert_eq!(totals.requests - before, count, "{offset}");
        before = totals.requests;
    }
    // The block after the last one is in the same record: it needs no transfer.
    let then = now;
    volume.submit(now, 0, 8, &op(Read, 70 * MIB + 4096, 4096));
    assert_eq!(next(&mut volume, &mut now).slot, 8);
    assert_eq!(now, then);
}

#[test]
fn reading_what_is_in_memory_takes_time() {
    let mut volume = volume(|_| {}, 1);
    let mut now = 0;
    volume.submit(now, 0, 0, &op(Read, 0, 4096));
    next(&mut volume, &mut now);
    let before = now;
    for _ in 0..32 * 10 {
        volume.submit(now, 0, 0, &op(Read, 0, 4096));
        next(&mut volume, &mut now);
    }
    assert_eq!(now - before, 10 * RECORD_NS);
}

#[test]
fn stripes_use_all_mirrors_and_a_write_goes_to_all_legs() {
    let change = |target: &mut SimTarget| (target.count, target.records) = (2, None);
    let mut striped = volume(change, 1);
    let mut now = 0;
    striped.submit(0, 0, 0, &op(Read, 256 * KIB, MIB as u32));
    assert_eq!(next(&mut striped, &mut now).result, MIB as i32);
    let requests = |volume: &Volume| -> Vec<u64> {
        let totals = volume.mirrors.iter().map(|one| one.totals());
        totals.map(|totals| totals.requests).collect()
    };
    // 256 KiB of the first unit, all of the second, 256 KiB of the third.
    assert_eq!(requests(&striped), [2, 1]);
    striped.submit(now, 0, 0, &op(Write, 0, 4096));
    next(&mut striped, &mut now);
    assert_eq!(requests(&striped), [4, 1]);
    let mut recorded = volume(|target| target.count = 2, 1);
    recorded.submit(0, 0, 0, &op(Write, 0, 4096));
    let end = next(&mut recorded, &mut 0);
    assert_eq!((end.result, requests(&recorded)), (4096, vec![2, 0]));
}

#[test]
fn readers_of_files_of_their_own_get_what_two_disks_give() {
    let both = read(&mut volume(|_| {}, 2), 2, MIB as u32, 10_000_000_000);
    let alone = read(&mut volume(|_| {}, 1), 1, MIB as u32, 10_000_000_000)[0];
    let both: u64 = both.iter().sum();
    assert!(both > alone, "{both} {alone}");
    let queues = |target: &mut SimTarget| target.queues = 4;
    assert_eq!(volume(queues, 8).mirrors.len(), 1);
    assert!(
        volume(queues, 8)
            .describe()
            .contains("policy modulo, of 2 ×")
    );
}
