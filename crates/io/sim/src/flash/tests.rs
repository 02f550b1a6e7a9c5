use iodyno_sys::OpKind::{Read, Write};
use rand::RngExt;

use super::*;
use crate::testing::{drive, op, random, rate};

fn uniform(length: u32, seed: u64) -> impl FnMut() -> Op {
    let mut random = random(seed);
    move || op(Read, random.random_range(0..1u64 << 26) * 16_384, length)
}

fn sequential(kind: OpKind) -> impl FnMut() -> Op {
    let mut offset = 0;
    move || {
        offset += 1 << 20;
        op(kind, offset, 1 << 20)
    }
}

#[test]
fn a_single_read_takes_the_sum_of_its_stages() {
    let settings = FlashSettings::default();
    let stages = settings.overhead_ns
        + settings.read_ns
        + 4096e9 / settings.channel_rate
        + 4096e9 / settings.link_rate;
    let ends = drive(&mut Flash::new(&settings, &[]), 1, 1000, uniform(4096, 1));
    assert!((1e9 / rate(&ends) / stages - 1.0).abs() < 1e-4);
}

#[test]
fn reads_at_a_depth_lie_between_random_and_perfect_use_of_the_dies() {
    // Channels and link so fast that only dies matter. A closed network of D equal servers with n customers has a
    // throughput of n / (n + D − 1) · D / s for exponential service; constant service is faster, and min(n, D) / s is
    // the bound.
    let settings = FlashSettings {
        channel_rate: 1e15,
        link_rate: 1e15,
        overhead_ns: 0.0,
        ..FlashSettings::default()
    };
    let dies = f64::from(settings.channels * settings.dies);
    for depth in [1, 4, 16, 64, 256] {
        let n = f64::from(depth);
        let found = rate(&drive(
            &mut Flash::new(&settings, &[]),
            depth,
            60_000,
            uniform(4096, 2),
        )) * settings.read_ns
            / 1e9;
        let (lower, upper) = (n / (n + dies - 1.0) * dies, n.min(dies));
        assert!(
            lower * 0.99 < found && found < upper * 1.001,
            "{depth}: {lower} {found} {upper}"
        );
    }
}

#[test]
fn sequential_reads_run_at_the_rate_of_the_link() {
    let settings = FlashSettings::default();
    let ends = drive(&mut Flash::new(&settings, &[]), 32, 2000, sequential(Read));
    let ratio = rate(&ends) * 1048576.0 / settings.link_rate;
    assert!((ratio - 1.0).abs() < 0.01, "{ratio}");
}

#[test]
fn slow_channels_limit_sequential_reads() {
    let settings = FlashSettings {
        channel_rate: 100e6,
        ..FlashSettings::default()
    };
    let ends = drive(&mut Flash::new(&settings, &[]), 32, 2000, sequential(Read));
    let ratio = rate(&ends) * 1048576.0 / (8.0 * 100e6);
    assert!((ratio - 1.0).abs() < 0.01, "{ratio}");
}

#[test]
fn writes_are_fast_until_the_buffer_is_full_and_then_as_fast_as_the_dies() {
    let settings = FlashSettings::default();
    let ends = drive(&mut Flash::new(&settings, &[]), 4, 4000, sequential(Write));
    let dies = f64::from(settings.channels * settings.dies);
    let programs = dies * settings.page as f64 / settings.program_ns * 1e9;
    let ratio = rate(&ends) * 1048576.0 / programs;
    assert!((ratio - 1.0).abs() < 0.01, "{ratio}");
    let first = 20.0 * 1048576e9 / ends[20] as f64;
    assert!(first > 2.0 * programs, "{first} {programs}");
}

#[test]
fn a_write_larger_than_the_buffer_ends() {
    let settings = FlashSettings {
        buffer: 4096,
        ..FlashSettings::default()
    };
    let ends = drive(&mut Flash::new(&settings, &[]), 3, 20, sequential(Write));
    assert_eq!(ends.len(), 20);
}

#[test]
fn cancelled_commands_end_at_once_and_the_disk_works_on() {
    let mut disk = Flash::new(&FlashSettings::default(), &[]);
    disk.submit(0, 0, &op(Read, 0, 4096));
    disk.submit(0, 1, &op(Write, 0, 4096));
    disk.submit(0, 2, &op(OpKind::Fsync, 0, 0));
    disk.submit(0, 3, &op(Read, 1 << 20, 1 << 20));
    disk.cancel_all(10_000);
    let mut ends: Vec<_> = std::iter::from_fn(|| disk.take_ended(10_000)).collect();
    ends.sort_by_key(|end| end.slot);
    let found: Vec<_> = ends.iter().map(|end| (end.slot, end.result)).collect();
    let cancelled = -libc::ECANCELED;
    assert_eq!(found, [(0, cancelled), (1, 4096), (2, 0), (3, cancelled)]);
    disk.submit(20_000, 0, &op(Read, 0, 4096));
    let end = std::iter::from_fn(|| Some(disk.take_ended(disk.next_end()?)))
        .flatten()
        .next();
    assert_eq!(end.map(|end| end.result), Some(4096));
    assert_eq!(disk.next_end(), None);
}
