//! Simulated trials of file operations and of shared files.

use iodyno_model::{
    Action, CloneResult, CycleStep, Direction, DirectionFrame, DirectionResult, Distribution,
    EndedBy, Engine, EngineKind, FileSet, Frame, Histogram, HistogramBuilder, Job, JobEnd,
    JobFrame, Operations, SharedFiles, SharedMode, Step, Subject, Trial, Work, Workload,
};
use iodyno_units::Nanos;

const MIB: u64 = 1 << 20;

/// Sets of 2 MiB files and a cycle of steps, each timed or not, in one folder and with a drain.
pub fn operations(sets: &[(&str, u64)], cycle: Vec<(Action, bool)>) -> Operations {
    let set = |(name, count): &(&str, u64)| FileSet {
        name: (*name).to_owned(),
        count: *count,
        size: 2 * MIB,
        fsync: true,
        folders: false,
    };
    let step = |(action, timed)| CycleStep { action, timed };
    Operations {
        about: "made up".to_owned(),
        sets: sets.iter().map(set).collect(),
        cycle: cycle.into_iter().map(step).collect(),
        own_folders: false,
        drain: true,
        writing: Default::default(),
        fio: None,
        command: None,
    }
}

/// One clone with these operations and without an end of its own.
pub fn job(name: &str, operations: Operations) -> Job {
    Job {
        name: name.to_owned(),
        work: Work::FileOperations(operations),
        ..Job::default()
    }
}

/// `create_empty` for 20 s: create and the folder's sync are timed, close is not.
pub fn create_empty() -> Job {
    let steps = vec![
        (Action::Create, true),
        (Action::SyncFolder, true),
        (Action::Close, false),
    ];
    timed(job("create_empty", operations(&[], steps)))
}

/// `write_sync` for 20 s: 10 MB appended, untimed, and a timed sync.
pub fn write_sync() -> Job {
    let append = Action::Append {
        bytes: 10_000_000,
        new_file_at: 2_000_000_000,
        keep: None,
    };
    timed(job(
        "write_sync_10MB",
        operations(&[], vec![(append, false), (Action::Sync, true)]),
    ))
}

/// `delete` of this number of files, until none remains.
pub fn delete(files: u64) -> Job {
    let unlink = Action::Unlink {
        of: Subject::Set {
            name: "files".to_owned(),
            order: Default::default(),
        },
    };
    job(
        "delete",
        operations(&[("files", files)], vec![(unlink, true)]),
    )
}

fn timed(job: Job) -> Job {
    Job {
        end: JobEnd {
            runtime: Some(Nanos::from_secs(20)),
            ..JobEnd::default()
        },
        ..job
    }
}

/// This number of equal latencies.
pub fn all_equal(count: u64, ns: u64) -> Histogram {
    let mut builder = HistogramBuilder::default();
    if count > 0 {
        builder.bin(iodyno_model::BinLayout::index(ns), count);
        builder.extremes(ns, ns, u128::from(count) * u128::from(ns), 0);
    }
    builder.build()
}

/// `ops` ops with this duration and number of bytes each, within 20 s.
pub fn did(direction: Direction, ops: u64, ns: u64, bytes: u64) -> DirectionResult {
    DirectionResult {
        ops,
        bytes: ops * bytes,
        runtime_ns: 20_000_000_000,
        service: all_equal(ops, ns),
        ..DirectionResult::empty(direction)
    }
}

/// A clone of 20 s that used little CPU.
pub fn clone(directions: Vec<DirectionResult>) -> CloneResult {
    let mut clone = super::clone(0, 0, directions);
    clone.cpu.user_ns = 200_000_000;
    clone.cpu.system_ns = 1_800_000_000;
    clone.engine.name = "psync".to_owned();
    clone.engine.depth = 1;
    clone.region_bytes = 0;
    clone.files = Vec::new();
    clone.stamp_window_ns = (20, 60);
    clone
}

/// A trial of one clone of a job, without files of its own.
pub fn trial(job: Job, directions: Vec<DirectionResult>) -> (Workload, Trial) {
    let mut part = super::part(vec![clone(directions)]);
    part.files.clear();
    for step in &mut part.steps {
        step.job = (step.step != Step::LayOut).then_some(0);
    }
    let workload = super::workload(&job.name.clone(), vec![job]);
    (workload, super::trial(vec![part]))
}

/// 20 s of `create_empty` at 1000 per second, with its series.
pub fn create_empty_trial() -> (Workload, Trial) {
    let (workload, mut trial) = trial(
        create_empty(),
        vec![
            did(Direction::Op, 20_000, 990_000, 0),
            did(Direction::Create, 20_000, 30_000, 0),
            did(Direction::Close, 20_000, 900, 0),
            did(Direction::SyncFolder, 20_000, 960_000, 0),
        ],
    );
    trial.frames = (0..20)
        .map(|second| {
            let ops = 1000 + u64::from(second) * 7919 % 41 - 20;
            let step = |direction| (direction, ops, 0);
            frame(
                second,
                &[
                    step(Direction::Op),
                    step(Direction::Create),
                    step(Direction::Close),
                    step(Direction::SyncFolder),
                ],
            )
        })
        .collect();
    (workload, trial)
}

/// 30 cycles per second of `write_sync`; the appends take a quarter of the time, and the device wrote all data.
pub fn write_sync_trial() -> (Workload, Trial) {
    trial(
        write_sync(),
        vec![
            did(Direction::Write, 600, 8_000_000, 10_000_000),
            did(Direction::Sync, 600, 25_000_000, 0),
            did(Direction::Op, 600, 25_000_000, 0),
        ],
    )
}

/// The delete of 100 000 files: the first half at 4000 per second, the second at 50 000, then a drain of this length.
pub fn delete_trial(drain_ns: u64) -> (Workload, Trial) {
    const SLOW: u64 = 4_000;
    const FAST: u64 = 50_000;
    let files = 100_000;
    let (workload, mut trial) = trial(
        delete(files),
        vec![
            did(Direction::Op, files, 130_000, 0),
            did(Direction::Unlink, files, 130_000, 0),
        ],
    );
    let mut left = files;
    while left > 0 {
        let rate = if left > files / 2 { SLOW } else { FAST };
        let ops = rate.min(left);
        let number = u32::try_from(trial.frames.len()).unwrap_or(u32::MAX);
        let did = [(Direction::Op, ops, 0), (Direction::Unlink, ops, 0)];
        trial.frames.push(frame(number, &did));
        left -= ops;
    }
    let span_ns = trial.frames.last().map_or(0, |frame| frame.end_ns);
    let part = &mut trial.parts[0];
    let clone = &mut part.clones[0];
    (clone.ended, clone.runtime_ns) = (EndedBy::Size, span_ns);
    clone.done_ns = Some(span_ns + drain_ns);
    for result in &mut clone.directions {
        result.runtime_ns = span_ns;
        result.service = all_equal(files, span_ns / files);
    }
    for step in &mut part.steps {
        match step.step {
            Step::Measure => step.span_ns = span_ns,
            Step::Drain => {
                step.start_ns = i64::try_from(span_ns).unwrap_or(i64::MAX);
                step.span_ns = drain_ns;
            }
            _ => {}
        }
    }
    (workload, trial)
}

/// A second of the job: (direction, ops, bytes of each).
pub fn frame(number: u32, did: &[(Direction, u64, u64)]) -> Frame {
    let directions = did.iter().map(|(direction, ops, bytes)| DirectionFrame {
        direction: *direction,
        ops: *ops,
        bytes: ops * bytes,
        errors: 0,
        service: all_equal(*ops, 10_000),
        response: None,
    });
    let job = JobFrame {
        job: 0,
        running: 1,
        directions: directions.collect(),
    };
    Frame {
        jobs: vec![job],
        ..super::frame(number, &[])
    }
}

/// sysbench's defaults for a mode: 128 files of 16 MiB, 16 KiB blocks, 1.5 reads per write, an fsync of all files
/// after every 100 requests and at the end; 20 s, two threads.
pub fn fileio(mode: SharedMode) -> Job {
    timed(Job {
        name: mode.name().to_owned(),
        clones: 2,
        work: Work::SharedFiles(SharedFiles {
            lay_out: false,
            create_only: false,
            engine: Engine::new(EngineKind::Psync, 1),
            count: 128,
            distribution: Distribution::Uniform,
            seed: None,
            mode,
            file_size: 16 * MIB,
            block: 16_384,
            merged: 0,
            read_write_ratio: 1.5,
            fsync_every: 100,
            fsync_all: false,
            fsync_end: true,
            data_only: false,
            validate: false,
        }),
        ..Job::default()
    })
}

/// 20 s of rndrw by two threads, buffered: 3000 reads, 2000 writes and 6400 fsyncs per second.
pub fn fileio_trial() -> (Workload, Trial) {
    let job = fileio(SharedMode::RandomMix);
    let clones = (0..2)
        .map(|number| {
            let mut clone = clone(vec![
                did(Direction::Read, 30_000, 10_000, 16_384),
                did(Direction::Write, 20_000, 20_000, 16_384),
                did(Direction::Sync, 64_000, 250_000, 0),
            ]);
            (clone.clone, clone.region_bytes) = (number, 2 << 30);
            clone
        })
        .collect();
    let mut part = super::part(clones);
    part.files.clear();
    (
        super::workload("rndrw", vec![job]),
        super::trial(vec![part]),
    )
}
