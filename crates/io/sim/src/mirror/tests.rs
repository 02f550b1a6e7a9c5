use iodyno_mirror::PolicyKind;
use iodyno_sys::OpKind::{Read, Write};
use rand::RngExt;

use super::*;
use crate::testing::{drive, op, random, rate};
use crate::{DiskSettings, FlashSettings, HddSettings};

fn mirror(kind: PolicyKind, disk: DiskSettings, legs: usize) -> SimMirror {
    let disks = (0..legs as u64)
        .map(|leg| Disk::new(&disk, &[], leg))
        .collect();
    SimMirror::new(
        vec![kind.build(legs, 1)],
        disks,
        QueueSettings::default(),
        64,
    )
}

fn uniform(seed: u64, writes: f64) -> impl FnMut() -> Op {
    let mut random = random(seed);
    move || {
        let kind = if random.random::<f64>() < writes {
            Write
        } else {
            Read
        };
        op(kind, random.random_range(0..1u64 << 22) * 16_384, 4096)
    }
}

#[test]
fn legs_add_up_for_reads_and_not_for_writes() {
    let flash = DiskSettings::Flash(FlashSettings::default());
    let measure = |legs, writes| {
        let mut mirror = mirror(PolicyKind::RoundRobin, flash.clone(), legs);
        rate(&drive(
            &mut mirror,
            8 * legs as u32,
            20_000,
            uniform(1, writes),
        ))
    };
    let reads = measure(3, 0.0) / measure(1, 0.0);
    assert!((2.8..3.1).contains(&reads), "{reads}");
    let writes = measure(3, 1.0) / measure(1, 1.0);
    assert!((0.8..1.2).contains(&writes), "{writes}");
}

#[test]
fn every_policy_serves_every_op_and_gives_the_same_ends_again() {
    for kind in PolicyKind::ALL {
        let ends = [1, 2].map(|_| {
            let mut mirror = mirror(kind, DiskSettings::Hdd(HddSettings::default()), 3);
            drive(&mut mirror, 16, 2000, uniform(3, 0.3))
        });
        assert_eq!(ends[0], ends[1], "{kind}");
    }
}

#[test]
fn adjacent_reads_merge_in_the_queue() {
    let mut mirror = mirror(
        PolicyKind::Modulo,
        DiskSettings::Hdd(HddSettings::default()),
        2,
    );
    let mut offset = 0;
    drive(&mut mirror, 60, 4000, || {
        offset += 4096;
        op(Read, offset, 4096)
    });
    let merged = mirror.totals().merged();
    assert!(merged > 0.5, "{merged}");
}

#[test]
fn cancelling_ends_what_is_issued_and_what_waits() {
    let mut mirror = mirror(
        PolicyKind::RoundRobin,
        DiskSettings::Hdd(HddSettings::default()),
        2,
    );
    let mut next = uniform(1, 0.2);
    (0..50).for_each(|slot| mirror.submit(0, slot, &next()));
    mirror.submit(0, 50, &op(OpKind::Fsync, 0, 0));
    mirror.cancel_all(100);
    let ends: Vec<_> = std::iter::from_fn(|| mirror.take_ended(100)).collect();
    let cancelled = ends.iter().filter(|end| end.result == -libc::ECANCELED);
    assert_eq!((ends.len(), cancelled.count()), (51, 50));
    assert_eq!(mirror.next_end(), None);
}
