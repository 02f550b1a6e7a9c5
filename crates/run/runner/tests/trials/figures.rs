//! The parent receives every recorded value.

use std::path::Path;

use iodyno_model::{
    After, Amount, Direction, DirectionRate, EndedBy, Engine, EngineKind, Frame, Histogram,
    SampleStats, Step,
};
use iodyno_units::Nanos;

use crate::samples::{self, job, plan};
use crate::stage::{LONG_MS, MIB, on_file, run, simulated, watched};

crate::tests![
    frames_add_up_to_the_part,
    a_trial_shorter_than_a_frame_has_one,
    frames_are_contiguous_and_none_ends_early,
    the_host_is_observed_only_after_the_ramp,
    a_rate_gives_response_latencies,
    stonewalled_jobs_run_one_after_the_other,
    exitall_ends_all_jobs,
    the_null_engine_needs_no_file,
    logs_are_written_to_files,
    the_end_fsync_is_a_separate_step,
    a_clone_takes_little_memory,
];

fn sum(frames: &[Frame], direction: Direction) -> (u64, u64, Histogram) {
    let mut service = Histogram::default();
    let measured = frames.iter().filter(|frame| frame.step == Step::Measure);
    let (mut ops, mut bytes) = (0, 0);
    for frame in measured {
        ops += frame.ops(direction);
        bytes += frame.bytes(direction);
        frame
            .of(direction)
            .for_each(|part| service.merge(&part.service));
    }
    (ops, bytes, service)
}

fn frames_add_up_to_the_part() {
    let folder = tempfile::tempdir().unwrap();
    let mut mixed = on_file("m", "f", &[Direction::Read, Direction::Write], 8 * MIB);
    mixed.clones = 3;
    mixed.work.blocks_mut().unwrap().sync.fsync_every = 100;
    let mut plan = plan(folder.path(), vec![mixed, simulated("s", 700)]);
    // Several frames.
    plan.frame_ns = 50_000_000;
    let told = watched(&plan, |_, _| {});
    let part = told.completed();
    assert_eq!(part.clones.len(), 4);
    for direction in Direction::ALL {
        let (ops, bytes, service) = sum(&told.frames, direction);
        let mut whole = (0, 0, Histogram::default());
        for result in part
            .clones
            .iter()
            .filter_map(|clone| clone.direction(direction))
        {
            whole.0 += result.ops;
            whole.1 += result.bytes;
            whole.2.merge(&result.service);
        }
        // The least that each latency can have been is recorded in coarser bins.
        let exact = |latency: &Histogram| latency.clone().with_least(Histogram::default());
        assert_eq!(
            (ops, bytes, exact(&service)),
            (whole.0, whole.1, exact(&whole.2)),
            "{direction:?}"
        );
        assert_eq!(ops > 0, direction != Direction::Trim, "{direction:?}");
    }
    for clone in &part.clones {
        for result in &clone.directions {
            let SampleStats {
                samples,
                min,
                mean,
                max,
                ..
            } = result.iops;
            assert!(samples > 0 && min <= mean * 1.000_001 && mean <= max * 1.000_001);
            // A window has at least this length, and its counts are part of the total.
            let least_s = (result.runtime_ns as f64 / 1e9).min(0.475);
            let counted = mean * samples as f64 * least_s;
            assert!(counted <= result.ops as f64 * 1.000_001, "{result:?}");
        }
    }
    assert!(part.clones[3].runtime_ns >= 700_000_000);
    assert!(told.started.is_some_and(|ms| ms > 1_600_000_000_000));
    let (environment, _) = told.ready.as_ref().unwrap();
    assert_eq!(**environment, part.environment);
    assert!(!environment.kernel.is_empty() && environment.targets.len() == 1);
    let harness = part.host.harness_user_ns + part.host.harness_system_ns;
    assert!(harness > 0 && part.host.harness_memory > MIB);
    // The devices are observed while anything is measured.
    let starts = part.clones.iter().map(|clone| clone.start_ns);
    let ends = part
        .clones
        .iter()
        .map(|clone| clone.start_ns + clone.runtime_ns);
    let measured = ends.max().unwrap() - starts.min().unwrap();
    let (span, took) = (part.host.span_ns, told.took.as_nanos());
    assert!(span >= measured && u128::from(span) <= took, "{span}");
}

fn a_trial_shorter_than_a_frame_has_one() {
    let mut plan = plan("/", vec![simulated("s", 200)]);
    // Shorter than a frame on any host.
    plan.frame_ns = 3_600_000_000_000;
    let told = watched(&plan, |_, _| {});
    assert_eq!(told.frames.len(), 1, "{:?}", told.frames);
    let frame = &told.frames[0];
    assert_eq!(
        (frame.number, frame.start_ns, frame.step),
        (0, 0, Step::Measure)
    );
    assert!(frame.end_ns >= 200_000_000 && frame.cpu_ns > 0);
    let clone = &told.completed().clones[0];
    assert_eq!(clone.ended, EndedBy::Runtime);
    assert!(clone.directions[0].iops.samples >= 1);
    let read = clone.direction(Direction::Read).unwrap();
    assert_eq!(frame.ops(Direction::Read), read.ops);
}

/// On the real clock: if no frame is late, there is no short frame at the end (see `due`).
fn frames_are_contiguous_and_none_ends_early() {
    const FRAME_NS: u64 = 300_000_000;
    let mut plan = plan("/", vec![simulated("s", 900)]);
    plan.frame_ns = FRAME_NS;
    let told = watched(&plan, |_, _| {});
    let (last, whole) = told.frames.split_last().unwrap();
    assert!(last.end_ns >= 900_000_000);
    assert_eq!(told.frames[0].start_ns, 0);
    for pair in told.frames.windows(2) {
        assert_eq!(pair[0].end_ns, pair[1].start_ns);
    }
    for (frame, end) in whole.iter().zip((1..).map(|number| number * FRAME_NS)) {
        assert!(frame.end_ns >= end, "{:?}", told.frames);
    }
}

fn the_host_is_observed_only_after_the_ramp() {
    let mut job = simulated("s", 300);
    job.end.ramp = Nanos::from_millis(300);
    let told = run(Path::new("/"), vec![job]);
    let span = told.completed().host.span_ns;
    assert!(span > 0 && u128::from(span + 300_000_000) <= told.took.as_nanos());
}

fn a_rate_gives_response_latencies() {
    let mut job = simulated("s", 0);
    job.work.blocks_mut().unwrap().passes.time_based = false;
    job.end.runtime = None;
    job.work.blocks_mut().unwrap().extent.size = Some(Amount::Bytes(150 * 4096));
    job.pacing.rates.read = DirectionRate {
        iops: 500.0,
        ..DirectionRate::default()
    };
    let told = run(Path::new("/"), vec![job]);
    let read = told.completed().clones[0]
        .direction(Direction::Read)
        .unwrap();
    assert_eq!(read.ops, 150);
    // The last of them is due 149 intervals after the first.
    assert!(read.runtime_ns >= 149 * 2_000_000, "{}", read.runtime_ns);
    assert_eq!(read.response.as_ref().unwrap().count(), read.ops);
    let framed: u64 = told
        .frames
        .iter()
        .flat_map(|frame| frame.of(Direction::Read))
        .map(|part| part.response.as_ref().unwrap().count())
        .sum();
    assert_eq!(framed, read.ops);
}

fn stonewalled_jobs_run_one_after_the_other() {
    let mut second = simulated("b", 150);
    second.after = After::AllBefore;
    second.clones = 2;
    let mut third = simulated("c", 100);
    third.after = After::Job("b".to_owned());
    let told = run(Path::new("/"), vec![simulated("a", 150), second, third]);
    let part = told.completed();
    let end = |clone: usize| part.clones[clone].start_ns + part.clones[clone].runtime_ns;
    assert!(part.clones[1].start_ns >= end(0) && part.clones[3].start_ns >= end(1).max(end(2)));
    assert!(part.clones[2].start_ns >= end(0));
    let whole = end(3) - part.clones[0].start_ns;
    assert!(
        part.host.span_ns >= whole,
        "the host was observed for {} of {whole} ns",
        part.host.span_ns
    );
    assert!(
        part.clones
            .iter()
            .all(|clone| clone.ended == EndedBy::Runtime)
    );
}

fn exitall_ends_all_jobs() {
    let mut first = simulated("a", 200);
    first.exit_all = true;
    let told = run(Path::new("/"), vec![first, simulated("b", LONG_MS)]);
    let part = told.completed();
    assert_eq!(part.clones[1].ended, EndedBy::ExitAll);
    assert_eq!(part.clones[0].ended, EndedBy::Runtime);
}

fn the_null_engine_needs_no_file() {
    let mut null = job("n");
    null.work.blocks_mut().unwrap().engine = Engine::new(EngineKind::Null, 8);
    null.work.blocks_mut().unwrap().extent.size = Some(Amount::Bytes(16 * MIB));
    null.clones = 4;
    let told = run(Path::new("/"), vec![null]);
    let part = told.completed();
    for clone in &part.clones {
        assert_eq!(clone.ended, EndedBy::Size);
        assert_eq!(clone.direction(Direction::Read).unwrap().ops, 4096);
        assert_eq!(clone.region_bytes, 16 * MIB);
    }
    assert!(part.files.is_empty() && part.environment.targets.is_empty());
    assert_eq!(sum(&told.frames, Direction::Read).0, 4 * 4096);
}

fn logs_are_written_to_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut averaged = simulated("a", 700);
    averaged.logs.bandwidth = Some("a".into());
    averaged.logs.iops = Some("a".into());
    averaged.logs.latency = Some("a".into());
    averaged.logs.window_ms = 100;
    let mut each = simulated("e", 300);
    each.logs.latency = Some("e".into());
    let told = run(folder.path(), vec![averaged, each]);
    let part = told.completed();
    let lines = |name: &str| -> Vec<Vec<u64>> {
        let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
        let line = |line: &str| {
            line.split(", ")
                .map(|field| field.parse().unwrap())
                .collect()
        };
        text.lines().map(line).collect()
    };
    let iops = lines("a_iops.1.log");
    let times = |lines: &[Vec<u64>]| -> Vec<u64> { lines.iter().map(|line| line[0]).collect() };
    // Windows are on a grid, except for a remainder at the end; a window that was not read is part of the next.
    let (last, grid) = times(&iops)
        .split_last()
        .map(|(l, g)| (*l, g.to_vec()))
        .unwrap();
    assert!(last > 0, "{iops:?}");
    assert!(grid.iter().all(|ms| ms % 100 == 0 && *ms > 0), "{iops:?}");
    assert!(grid.windows(2).all(|pair| pair[0] < pair[1]), "{iops:?}");
    assert!(grid.iter().all(|ms| *ms <= last), "{iops:?}");
    assert!(iops.iter().all(|line| line[2..] == [0, 0, 0]), "{iops:?}");
    assert_eq!(times(&lines("a_bw.1.log")), times(&iops));
    let latency = lines("a_clat.1.log");
    assert_eq!(times(&latency), times(&iops));
    assert!(latency.iter().all(|line| line[1] >= 100_000), "{latency:?}");
    let read = part.clones[1].direction(Direction::Read).unwrap();
    let ops = lines("e_clat.2.log");
    assert_eq!(ops.len() as u64, read.ops);
    assert_eq!(
        ops.iter().map(|line| line[1]).max(),
        Some(read.service.max_ns())
    );
}

fn the_end_fsync_is_a_separate_step() {
    let folder = tempfile::tempdir().unwrap();
    let mut job = on_file("w", "f", &[Direction::Write], 32 * MIB);
    job.work.blocks_mut().unwrap().sync.end_fsync = true;
    let told = run(folder.path(), vec![job]);
    let part = told.completed();
    let of = |step: Step| part.steps.iter().find(|time| time.step == step);
    let (measure, fsync) = (of(Step::Measure).unwrap(), of(Step::EndFsync).unwrap());
    assert!(fsync.start_ns >= measure.start_ns + measure.span_ns as i64);
    assert_eq!(fsync.job, Some(0));
    let clone = &part.clones[0];
    let measured = i64::try_from(clone.start_ns + clone.runtime_ns).unwrap();
    assert!(measured <= fsync.start_ns, "{measured} {fsync:?}");
}

fn a_clone_takes_little_memory() {
    let memory = |clones: u32| {
        let mut job = simulated("s", 1200);
        job.work.blocks_mut().unwrap().access =
            samples::access(&[Direction::Read, Direction::Write]);
        job.pacing.rates.read.iops = 200.0;
        job.pacing.rates.write.iops = 200.0;
        job.clones = clones;
        let told = run(Path::new("/"), vec![job]);
        told.completed().host.harness_memory
    };
    let (one, many) = (memory(1), memory(65));
    let each = many.saturating_sub(one) / 64;
    assert!(each < 2 * MIB, "{each} bytes a clone");
}
