//! File operations: the effect of each step, the counters, and the ends.

mod operations_support;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use iodyno_engine::operations::file_name;
use iodyno_model::{
    Action, Arrival, Direction, EndedBy, Operations, PickOrder, Step, StopRequest, Subject,
};
use iodyno_units::Nanos;
use operations_support::{Bench, current, cycles_of, make, of, operations, set, timed, untimed};

/// One clone runs `cycles` cycles in a new folder; returns the names and lengths of the resulting files.
fn after(operations: Operations, cycles: u64) -> (Bench, Vec<(String, u64)>) {
    let mut bench = Bench::new(operations, 1);
    bench.job.end.ops = Some(cycles);
    bench.play();
    assert_eq!(bench.outcome(0).ended, EndedBy::Count);
    assert_eq!(bench.ops(Direction::Op), cycles);
    let found = bench.entries(0);
    (bench, found)
}

fn lengths(found: &[(String, u64)]) -> Vec<u64> {
    found.iter().map(|(_, length)| *length).collect()
}

#[test]
fn each_action_has_its_effect_and_its_own_counter() {
    use Action::{Close, Create, Mkdir, Readdir, Rmdir, Statfs, Sync, SyncFolder};
    let file = || of("files", PickOrder::Oldest);
    let write = || Action::Write { bytes: 5000 };
    let append = Action::Append {
        bytes: 3000,
        new_file_at: 10_000,
        keep: None,
    };
    let check = |cycle: &[Action], left: &[u64]| {
        let sets = vec![set("files", 6, 100)];
        let (bench, found) = after(operations(sets, cycle), 4);
        let mut expected = left.to_vec();
        expected.sort_unstable();
        let mut lengths = lengths(&found);
        lengths.sort_unstable();
        assert_eq!(lengths, expected, "{cycle:?}");
        for direction in Direction::EVERY {
            let own = |step: &&Action| step.direction() == direction;
            let steps = cycle.iter().filter(own).count() as u64;
            let steps = if direction == Direction::Op { 1 } else { steps };
            assert_eq!(bench.ops(direction), 4 * steps, "{cycle:?}: {direction:?}");
        }
        assert!(bench.open_files().is_empty(), "{cycle:?}");
    };
    let six = |more: &[u64]| [&[100; 6], more].concat();
    check(&[Create, SyncFolder, Close], &six(&[0; 4]));
    check(&[Create, write(), write(), Sync, Close], &six(&[10_000; 4]));
    check(
        &[Create, Close, Action::Unlink { of: current() }],
        &six(&[]),
    );
    check(&[append.clone(), Sync], &six(&[9000, 3000]));
    check(&[Action::Unlink { of: file() }], &[100; 2]);
    check(&[Action::Stat { of: file() }, Statfs, Readdir], &six(&[]));
    check(&[Mkdir, Mkdir, Rmdir], &six(&[u64::MAX; 4]));
    check(&[Mkdir, Rmdir], &six(&[]));
    check(
        &[Action::Open { of: file() }, write(), Close],
        &[5100, 5100, 5100, 5100, 100, 100],
    );
    check(
        &[
            Action::Open { of: file() },
            Action::Truncate { length: 7 },
            write(),
            Close,
        ],
        &[5007, 5007, 5007, 5007, 100, 100],
    );
    check(
        &[
            Action::Open { of: file() },
            Action::Fallocate { bytes: 4096 },
            Close,
        ],
        &[4196, 4196, 4196, 4196, 100, 100],
    );
    check(
        &[Create, write(), Close, Action::Rename { of: current() }],
        &six(&[5000; 4]),
    );
    check(
        &[
            Create,
            Close,
            Action::Open { of: current() },
            write(),
            Close,
            Action::Stat { of: current() },
        ],
        &six(&[5000; 4]),
    );
}

#[test]
fn the_time_of_an_op_is_the_sum_of_its_timed_steps() {
    let mut operations = operations(vec![set("files", 50, 1000)], &[]);
    operations.cycle = vec![
        timed(Action::Create),
        untimed(Action::Write { bytes: 3 << 20 }),
        timed(Action::Sync),
        untimed(Action::Close),
        timed(Action::Statfs),
        timed(Action::Unlink {
            of: of("files", PickOrder::Random),
        }),
        untimed(Action::Unlink { of: current() }),
    ];
    operations.cycle.pop();
    let (bench, _) = after(operations, 40);
    let sum = |direction| bench.histogram(direction).sum_ns();
    let timed = [
        Direction::Create,
        Direction::Sync,
        Direction::Statfs,
        Direction::Unlink,
    ];
    let steps: u128 = timed.into_iter().map(sum).sum();
    assert_eq!(sum(Direction::Op), steps);
    assert_eq!(bench.bytes(Direction::Write), 40 * (3 << 20));
    assert!(sum(Direction::Write) > 0);
    let (start, end) = bench.outcome(0).measured;
    let loops: u128 = Direction::EVERY
        .into_iter()
        .filter(|direction| *direction != Direction::Op)
        .map(sum)
        .sum();
    assert!(loops <= u128::from(end - start));
}

#[test]
fn files_of_a_set_are_taken_in_the_requested_order() {
    let left = |order, seed| {
        let cycle = [Action::Unlink {
            of: of("files", order),
        }];
        let mut bench = Bench::new(operations(vec![set("files", 10, 0)], &cycle), 1);
        bench.job.end.ops = Some(4);
        bench.seed = seed;
        bench.play();
        bench
            .entries(0)
            .into_iter()
            .map(|(name, _)| name)
            .collect::<Vec<String>>()
    };
    let names = |numbers: std::ops::Range<u64>| -> Vec<String> {
        numbers.map(|number| file_name("files", number)).collect()
    };
    assert_eq!(left(PickOrder::Newest, 1), names(0..6));
    assert_eq!(left(PickOrder::Oldest, 1), names(4..10));
    let seeds: BTreeSet<Vec<String>> = (0..20).map(|seed| left(PickOrder::Random, seed)).collect();
    assert!(seeds.len() > 10, "{seeds:?}");
    assert_eq!(left(PickOrder::Random, 3), left(PickOrder::Random, 3));
}

#[test]
fn a_round_over_a_set_visits_each_file_and_restarts() {
    let oldest = || of("files", PickOrder::Oldest);
    let cycle = [
        Action::Open { of: oldest() },
        Action::Write { bytes: 10 },
        Action::Close,
        Action::Rename { of: oldest() },
    ];
    let (_, found) = after(operations(vec![set("files", 4, 0)], &cycle), 10);
    assert_eq!(found.len(), 4);
    let mut all = lengths(&found);
    all.sort_unstable();
    assert_eq!(all, [20, 20, 30, 30]);
    assert!(
        found.iter().all(|(name, _)| name.starts_with("c0.")),
        "{found:?}"
    );
}

#[test]
fn a_renamed_file_is_unlinked_by_its_new_name() {
    let newest = || of("files", PickOrder::Newest);
    let cycle = [
        Action::Rename { of: newest() },
        Action::Unlink { of: newest() },
    ];
    let mut bench = Bench::new(operations(vec![set("files", 9, 0)], &cycle), 1);
    bench.play();
    assert_eq!(bench.outcome(0).ended, EndedBy::Size);
    assert_eq!((bench.ops(Direction::Op), bench.entries(0).len()), (9, 0));
}

#[test]
fn a_set_that_is_used_up_ends_the_job_with_only_whole_cycles() {
    let unlink = || Action::Unlink {
        of: of("files", PickOrder::Newest),
    };
    for (count, cycles) in [(10, 5), (11, 5), (1, 0), (2, 1)] {
        let operations = operations(vec![set("files", count, 0)], &[unlink(), unlink()]);
        let mut bench = Bench::new(operations, 1);
        bench.play();
        assert_eq!(bench.outcome(0).ended, EndedBy::Size);
        assert_eq!(bench.ops(Direction::Op), cycles);
        assert_eq!(bench.entries(0).len() as u64, count - 2 * cycles);
    }
}

#[test]
fn clones_share_files_and_ops_evenly_in_one_folder_or_in_their_own() {
    for own_folders in [false, true] {
        let cycle = [
            Action::Create,
            Action::Close,
            Action::Unlink {
                of: of("files", PickOrder::Random),
            },
        ];
        let mut operations = operations(vec![set("files", 103, 10)], &cycle);
        operations.own_folders = own_folders;
        let mut bench = Bench::new(operations, 4);
        bench.job.end.ops = Some(50);
        bench.play();
        let ops: Vec<u64> = (0..4)
            .map(|clone| bench.ops_of(clone, Direction::Op))
            .collect();
        assert_eq!(ops, [13, 13, 12, 12]);
        let left: usize = match own_folders {
            false => bench.entries(0).len(),
            true => (0..4).map(|clone| bench.entries(clone).len()).sum(),
        };
        assert_eq!(left, 103, "as many created as unlinked");
    }
}

#[test]
fn all_clones_together_use_every_file_of_a_set() {
    let cycle = [Action::Unlink {
        of: of("files", PickOrder::Newest),
    }];
    let mut bench = Bench::new(operations(vec![set("files", 103, 0)], &cycle), 4);
    bench.play();
    assert_eq!(bench.ops(Direction::Op), 103);
    assert!((0..4).all(|clone| bench.outcome(clone).ended == EndedBy::Size));
    assert!(bench.entries(0).is_empty());
}

#[test]
fn a_full_file_is_followed_by_another_and_only_the_requested_number_is_kept() {
    let check = |keep, cycles, expected: &[u64]| {
        let cycle = [
            Action::Append {
                bytes: 40,
                new_file_at: 100,
                keep,
            },
            Action::Sync,
        ];
        let (bench, found) = after(operations(vec![], &cycle), cycles);
        assert_eq!(lengths(&found), expected, "{keep:?}");
        assert_eq!(bench.bytes(Direction::Write), 40 * cycles);
    };
    check(None, 7, &[80, 80, 80, 40]);
    check(Some(9), 7, &[80, 80, 80, 40]);
    check(Some(1), 7, &[80, 40]);
    check(Some(0), 7, &[40]);
    check(Some(0), 8, &[80]);
    check(Some(2), 1, &[40]);
}

#[test]
fn written_data_differ_between_blocks_and_between_clones() {
    let cycle = [
        Action::Create,
        Action::Write {
            bytes: (1 << 20) + 8192,
        },
        Action::Close,
    ];
    let mut bench = Bench::new(operations(vec![], &cycle), 2);
    bench.job.end.ops = Some(6);
    bench.play();
    let mut blocks = BTreeSet::new();
    let mut count = 0;
    for (name, length) in bench.entries(0) {
        assert_eq!(length, (1 << 20) + 8192);
        let bytes = std::fs::read(bench.folder(0).join(name)).unwrap();
        for block in bytes.chunks(4096) {
            count += 1;
            assert!(blocks.insert(block.to_vec()), "two blocks are equal");
        }
    }
    assert_eq!(count, 6 * 258);
}

#[test]
fn no_cycle_begins_before_it_is_due_and_lateness_is_part_of_the_response() {
    for arrival in [Arrival::Linear, Arrival::Poisson] {
        let mut bench = Bench::new(operations(vec![], &[Action::Statfs]), 2);
        bench.job.pacing.ops_per_s = 500.0;
        bench.job.pacing.arrival = arrival;
        bench.job.end.ops = Some(100);
        bench.play();
        assert_eq!(bench.ops(Direction::Op), 100);
        let response = bench.response(Direction::Op).unwrap();
        assert_eq!(response.count(), 100);
        assert!(response.sum_ns() > bench.histogram(Direction::Op).sum_ns());
        if arrival == Arrival::Linear {
            // The last of 50 cycles is due 49 intervals after the first.
            let (start, end) = bench.outcome(0).measured;
            assert!(end - start >= 49 * 2_000_000, "{}", end - start);
        }
    }
    // This number of cycles is due in the time, and no more are run even if the first ones were late.
    let mut bench = Bench::new(operations(vec![], &[Action::Statfs]), 2);
    bench.job.pacing.ops_per_s = 500.0;
    bench.job.end.runtime = Some(Nanos(200_000_000));
    bench.play();
    assert!((0..2).all(|clone| bench.ops_of(clone, Direction::Op) <= 100));
    assert!((0..2).all(|clone| bench.outcome(clone).ended == EndedBy::Runtime));
}

#[test]
fn an_op_that_delays_the_next_adds_the_delay_to_its_response() {
    let write = Action::Write { bytes: 4 << 20 };
    let mut operations = operations(vec![], &[]);
    operations.cycle = vec![
        untimed(Action::Create),
        untimed(write),
        untimed(Action::Close),
        timed(Action::Statfs),
        untimed(Action::Unlink { of: current() }),
    ];
    let mut bench = Bench::new(operations, 1);
    bench.job.pacing.ops_per_s = 1e6;
    bench.job.end.ops = Some(8);
    bench.play();
    let response = bench.response(Direction::Op).unwrap();
    let writes = bench.histogram(Direction::Write).sum_ns();
    // Each write delays its own cycle and all following ones, each of which is due 1 us after the previous one.
    let dues: u64 = (0..8).map(|cycle| cycle * 1000).sum();
    assert!(u128::from(response.max_ns()) + 7000 >= writes);
    assert!(response.sum_ns() + u128::from(dues) >= writes);
    let (start, end) = bench.outcome(0).measured;
    assert!(response.max_ns() <= end - start);
    let service = bench.histogram(Direction::Op).sum_ns();
    assert_eq!(service, bench.histogram(Direction::Statfs).sum_ns());
}

#[test]
fn a_ramp_is_not_counted_and_precedes_the_measured_time() {
    // On a busy host a short ramp may contain no cycle: the test repeats until one does.
    let ramped = |ramp_ns| {
        let made = [Action::Create, Action::Close];
        let mut bench = Bench::new(operations(vec![], &made), 1);
        bench.job.end.ramp = Nanos(ramp_ns);
        bench.job.end.ops = Some(10);
        bench.play();
        (bench.ramp_ops(Direction::Op) > 0).then_some((ramp_ns, bench))
    };
    let ramps = (0..12).map(|doubled| 20_000_000 << doubled);
    let (ramp_ns, bench) = ramps.into_iter().find_map(ramped).unwrap();
    let outcome = bench.outcome(0);
    assert_eq!(bench.ops(Direction::Op), 10);
    let files = bench.entries(0).len() as u64;
    assert_eq!(files, 10 + bench.ramp_ops(Direction::Op));
    let steps: Vec<Step> = outcome.steps.iter().map(|span| span.step).collect();
    assert_eq!(steps, [Step::Ramp, Step::Measure]);
    assert!(outcome.measured.0 - bench.released() >= ramp_ns);
    assert!(outcome.measured.0 >= outcome.steps[0].end);
    assert_eq!(outcome.engine.name, "file operations");
    assert_eq!(outcome.stamp_window, (0, 0));
}

#[test]
fn a_runtime_ends_with_the_cycle_that_it_began() {
    let mut bench = Bench::new(operations(vec![], &make(100)), 1);
    bench.job.end.runtime = Some(Nanos(150_000_000));
    bench.play();
    let outcome = bench.outcome(0);
    assert_eq!(outcome.ended, EndedBy::Runtime);
    let span = outcome.measured.1 - outcome.measured.0;
    assert!(span >= 150_000_000, "{span}");
    let cycles = bench.ops(Direction::Op);
    assert_eq!(bench.ops(Direction::Create), cycles);
    assert_eq!(bench.ops(Direction::Close), cycles);
    assert_eq!(bench.entries(0).len() as u64, cycles);
    assert!(outcome.cpu.user_ns + outcome.cpu.system_ns > 0);
    assert_eq!(outcome.depth.level[0], cycles);
}

#[test]
fn a_stop_request_takes_effect_between_cycles_in_waits_and_between_parts_of_a_write() {
    let long_write = vec![
        Action::Create,
        Action::Write { bytes: 1 << 40 },
        Action::Close,
    ];
    let statfs = || vec![Action::Statfs];
    // At the lowest rate the second cycle is due after weeks.
    for (cycle, rate) in [(statfs(), 0.0), (statfs(), 1e-6), (long_write, 0.0)] {
        for (stop, ended) in [
            (StopRequest::Finish, EndedBy::Interruption),
            (StopRequest::Abort, EndedBy::Interruption),
            (StopRequest::ExitAll, EndedBy::ExitAll),
        ] {
            let mut bench = Bench::new(operations(vec![], &cycle), 1);
            bench.job.pacing.ops_per_s = rate;
            let file = bench.folder(0).join("c0.000000000");
            let written = || file.metadata().is_ok_and(|found| found.len() > 0);
            bench.play_until(|clone| cycles_of(clone) > 0 || written(), stop);
            assert_eq!(bench.outcome(0).ended, ended);
            let cycles = bench.ops(Direction::Op);
            match (rate > 0.0, written()) {
                (true, _) => assert_eq!(cycles, 1, "{cycle:?}"),
                (_, true) => assert_eq!(cycles, 0, "{cycle:?}"),
                _ => assert!(cycles > 0, "{cycle:?}"),
            }
            assert_eq!(bench.histogram(Direction::Write).count(), 0);
            assert!(bench.outcome(0).errors.is_empty());
            assert!(bench.open_files().is_empty());
        }
    }
}

#[test]
fn a_stop_before_the_start_does_nothing() {
    let mut bench = Bench::new(operations(vec![], &make(10)), 1);
    bench.far_start = true;
    bench.play_until(|_| true, StopRequest::Finish);
    assert_eq!(bench.outcome(0).ended, EndedBy::Interruption);
    assert!(bench.entries(0).is_empty());
}

/// A folder where other processes are unlikely to change the free space.
fn quiet_folder() -> tempfile::TempDir {
    let memory = std::path::Path::new("/dev/shm");
    match memory.is_dir() {
        true => tempfile::tempdir_in(memory).unwrap(),
        false => tempfile::tempdir().unwrap(),
    }
}

#[test]
fn only_the_last_clone_drains_and_only_if_requested_and_useful() {
    let play = |drain, stop: Option<StopRequest>| {
        let mut operations = operations(
            vec![set("files", 30, 100_000)],
            &[Action::Unlink {
                of: of("files", PickOrder::Newest),
            }],
        );
        operations.drain = drain;
        let quiet = quiet_folder();
        let mut bench = Bench::within(quiet.path(), operations, 3);
        let start = Instant::now();
        match stop {
            None => bench.play(),
            Some(stop) => {
                // Each clone runs one cycle, and then waits for the stop request.
                bench.job.pacing.ops_per_s = 1e-6;
                bench.play_until(|clone| cycles_of(clone) > 0, stop);
            }
        }
        let drains = (0..3).flat_map(|clone| bench.outcome(clone).steps.clone());
        let drains: Vec<_> = drains.filter(|span| span.step == Step::Drain).collect();
        let ends = (0..3).map(|clone| bench.outcome(clone).measured.1).max();
        assert!(
            drains
                .iter()
                .all(|span| Some(span.start) >= ends && span.end >= span.start)
        );
        (drains.len(), start.elapsed())
    };
    let (drains, took) = play(true, None);
    assert_eq!(drains, 1);
    assert!(took >= Duration::from_millis(500));
    assert_eq!(play(false, None).0, 0);
    assert_eq!(play(true, Some(StopRequest::Finish)).0, 0);
    assert_eq!(play(true, Some(StopRequest::ExitAll)).0, 1);
}

#[test]
fn impossible_work_is_refused_before_the_start_with_all_errors() {
    let current = Subject::Current;
    let cycle = [Action::Close, Action::Unlink { of: current }];
    let mut bench = Bench::new(operations(vec![set("a/b", 1, 0)], &cycle), 1);
    let error = bench.refused();
    assert_eq!(error.what, "do file operations");
    for part in ["a/b", "step 1 (close)", "step 2 (unlink)"] {
        assert!(error.cause.contains(part), "{}", error.cause);
    }
    assert_eq!(bench.unfinished(), 0, "it counts as ended");
}

#[test]
fn a_clone_that_is_never_started_counts_as_ended() {
    let mut bench = Bench::new(operations(vec![], &[Action::Statfs]), 2);
    bench.never_start = true;
    bench.play();
    assert_eq!(bench.unfinished(), 0);
    assert_eq!(bench.outcome(1).ended, EndedBy::NotStarted);
    assert!(bench.outcome(1).steps.is_empty());
}
