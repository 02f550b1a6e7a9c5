//! Drives devices in tests.

use iodyno_sys::{Device, Op, OpKind};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

pub(crate) fn op(kind: OpKind, offset: u64, length: u32) -> Op {
    Op::new(kind, 0, offset, length)
}

pub(crate) fn random(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

/// Keeps `depth` ops in flight until `count` have ended; `next` gives the ops. Returns when each op ended, in ns, in
/// the order of the ends.
pub(crate) fn drive(
    device: &mut impl Device,
    depth: u32,
    count: usize,
    mut next: impl FnMut() -> Op,
) -> Vec<u64> {
    let mut ends = Vec::with_capacity(count);
    (0..depth).for_each(|slot| device.submit(0, slot, &next()));
    while ends.len() < count {
        let at = device.next_end().expect("ops are in flight");
        while let Some(end) = device.take_ended(at) {
            assert!(end.at <= at && end.result >= 0, "{end:?} at {at}");
            ends.push(end.at);
            device.submit(end.at, end.slot, &next());
        }
    }
    ends
}

/// Ops per second, of the second half of the ends.
pub(crate) fn rate(ends: &[u64]) -> f64 {
    let half = ends.len() / 2;
    let time = ends[ends.len() - 1] - ends[half];
    (ends.len() - 1 - half) as f64 * 1e9 / time as f64
}
