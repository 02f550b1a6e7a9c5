use std::sync::atomic::Ordering::Relaxed;

use super::*;
use iodyno_model::Histogram;

fn monitor(clones: &[usize]) -> (Monitor, Vec<Arc<CloneShared>>) {
    let jobs = clones.iter().max().map_or(0, |job| job + 1);
    let mut monitor = Monitor::new(clones.len(), jobs);
    monitor.start(1000, 0);
    let shared: Vec<_> = clones
        .iter()
        .map(|_| Arc::new(CloneShared::new(&Direction::ALL, true, true)))
        .collect();
    for (clone, job) in clones.iter().enumerate() {
        monitor.watch(clone, *job, Arc::clone(&shared[clone]), Vec::new());
    }
    (monitor, shared)
}

fn record(shared: &CloneShared, direction: Direction, values: std::ops::Range<u64>) {
    let counters = shared.measure.of(direction);
    for value in values {
        counters.service.record(value * value);
        counters
            .response
            .as_ref()
            .unwrap()
            .record(value * value + 5);
        let bytes = counters.bytes.load(Relaxed);
        counters.bytes.store(bytes + 4096, Relaxed);
    }
}

#[test]
fn frames_add_up_exactly_to_the_total() {
    let (mut monitor, shared) = monitor(&[0, 0, 1]);
    let mut frames = Vec::new();
    for second in 1..=5u64 {
        for (clone, shared) in shared.iter().enumerate() {
            let from = second * 1000 + clone as u64;
            record(shared, Direction::Read, from..from + 300 * second);
            record(shared, Direction::Write, 0..second);
            // Reading the counters between two frames must not change the next frame.
            monitor.sample(1);
            record(shared, Direction::Sync, 7..7 + second % 2);
        }
        frames.push(monitor.cut(1000 + second * 1_000_000_000, second * 10));
    }
    record(&shared[2], Direction::Read, 0..50);
    for clone in 0..3 {
        monitor.leave(clone, 0);
    }
    frames.push(monitor.cut(9_000_000_000, 99));
    for direction in Direction::ALL {
        let mut whole = Histogram::default();
        let mut bytes = 0;
        for shared in &shared {
            whole.merge(&shared.measure.of(direction).service.histogram());
            bytes += shared.measure.of(direction).bytes.load(Relaxed);
        }
        let mut sum = Histogram::default();
        for part in frames.iter().flat_map(|frame| frame.of(direction)) {
            sum.merge(&part.service);
            assert_eq!(part.response.as_ref().unwrap().count(), part.ops);
        }
        assert_eq!(sum, whole, "{direction:?}");
        let of = |count: fn(&Frame, Direction) -> u64| -> u64 {
            frames.iter().map(|frame| count(frame, direction)).sum()
        };
        assert_eq!(of(Frame::bytes), bytes);
        assert_eq!(of(Frame::ops), whole.count());
    }
    for (number, pair) in frames.windows(2).enumerate() {
        assert_eq!(pair[0].end_ns, pair[1].start_ns);
        assert_eq!(pair[0].number, number as u32);
    }
    assert_eq!(frames[0].start_ns, 0);
    assert_eq!(frames.iter().map(|frame| frame.cpu_ns).sum::<u64>(), 99);
    assert!(frames.iter().all(|frame| frame.step == Step::Measure));
    // Jobs are separate, and only those with ops are listed.
    assert_eq!(frames[5].jobs.len(), 1);
    assert_eq!(
        (frames[5].jobs[0].job, frames[5].ops(Direction::Read)),
        (1, 50)
    );
}

#[test]
fn ops_of_a_ramp_are_only_in_ramp_frames() {
    let (mut monitor, shared) = monitor(&[0]);
    shared[0].ramp.of(Direction::Read).service.record(5);
    let ramp = monitor.cut(2000, 0);
    assert_eq!((ramp.step, ramp.ops(Direction::Read)), (Step::Ramp, 1));
    shared[0].ramp.of(Direction::Read).service.record(5);
    record(&shared[0], Direction::Read, 1..4);
    let measured = monitor.cut(3000, 0);
    assert_eq!(
        (measured.step, measured.ops(Direction::Read)),
        (Step::Measure, 3)
    );
    assert!(monitor.idle());
    let after = monitor.cut(4000, 0);
    assert_eq!((after.step, after.jobs.len()), (Step::Drain, 0));
}

#[test]
fn measured_ops_at_the_end_of_the_ramp_are_in_the_next_frame() {
    let (mut monitor, shared) = monitor(&[0]);
    shared[0].ramp.of(Direction::Read).service.record(5);
    record(&shared[0], Direction::Read, 1..4);
    let ramp = monitor.cut_ramp(2000, 0);
    assert_eq!((ramp.step, ramp.ops(Direction::Read)), (Step::Ramp, 1));
    let next = monitor.cut(3000, 0);
    assert_eq!((next.step, next.ops(Direction::Read)), (Step::Measure, 3));
}

#[test]
fn a_frame_has_the_ops_of_each_clone_since_the_previous_one() {
    let (mut monitor, shared) = monitor(&[0; 64]);
    for shared in &shared {
        record(shared, Direction::Read, 300..1000);
        record(shared, Direction::Write, 300..1000);
    }
    monitor.cut(2000, 0);
    for shared in &shared {
        record(shared, Direction::Read, 300..400);
    }
    let frame = monitor.cut(3000, 0);
    let ops = [Direction::Read, Direction::Write].map(|direction| frame.ops(direction));
    assert_eq!(ops, [6400, 0]);
}

#[test]
fn a_measured_frame_ends_with_the_measured_time_and_the_wait_for_the_storage_follows() {
    let (mut monitor, shared) = monitor(&[0, 0]);
    for (clone, end) in [(0, 2_200), (1, 2_500)] {
        shared[clone].enter(Some(Step::Measure));
        shared[clone].set_measure_start(1000);
        record(&shared[clone], Direction::Write, 0..40);
        assert!(!monitor.follows());
        shared[clone].set_measure_end(end);
    }
    shared[0].enter(None);
    monitor.leave(0, 2_900);
    shared[1].enter(Some(Step::Drain));
    assert!(monitor.follows());
    let measured = monitor.cut(3_000, 7);
    assert!(!monitor.follows());
    // The sync of an end step belongs to the next frame.
    record(&shared[1], Direction::Sync, 3..4);
    let drain = monitor.cut(4_000, 9);
    shared[1].enter(None);
    monitor.leave(1, 4_100);
    assert!(monitor.idle() && !monitor.tail(4_100) && monitor.tail(40_000_000));
    let rest = monitor.cut(40_000_000, 9);
    let frames = [&measured, &drain, &rest].map(|frame| {
        let ops = [Direction::Write, Direction::Sync].map(|direction| frame.ops(direction));
        (frame.step, frame.start_ns, frame.end_ns, ops)
    });
    assert_eq!(
        frames,
        [
            (Step::Measure, 0, 1_500, [80, 0]),
            (Step::Drain, 1_500, 3_000, [0, 1]),
            (Step::Drain, 3_000, 39_999_000, [0, 0]),
        ]
    );
}

#[test]
fn a_frame_has_its_full_length_while_any_clone_is_measured_or_ramps() {
    for phase in [Step::Ramp, Step::Measure] {
        let (mut monitor, shared) = monitor(&[0, 1]);
        shared[0].set_measure_start(1000);
        record(&shared[0], Direction::Read, 0..4);
        shared[0].set_measure_end(1_700);
        shared[0].enter(Some(Step::EndFsync));
        shared[1].enter(Some(phase));
        assert!(!monitor.follows());
        let frame = monitor.cut(3000, 0);
        assert_eq!(
            (frame.step, frame.end_ns),
            (Step::Measure, 2000),
            "{phase:?}"
        );
    }
}
